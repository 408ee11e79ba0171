"""Styles applied to the modules of a model by their names."""

import warnings
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

from ...device_mesh import DeviceMesh, _mesh_resources
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(module: Any, device_mesh: DeviceMesh | None = None,
                       parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None, *,
                       src_data_rank: int | None = 0) -> Any:
    """The module, with a style applied to it, or to the parts of it that a plan names; names may have wildcards."""
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if parallelize_plan is None:
        warnings.warn("No parallelize_plan is provided and auto-parallel is not supported at the moment, so this "
                      "parallelize_module call will do nothing.", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError("Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
                        f"{type(parallelize_plan)} found!")
    for path, style in parallelize_plan.items():
        if not path:
            parallelize_module(module, mesh, style)
            continue
        token, _, rest = path.partition(".")
        children = [child for name, child in module.named_children() if fnmatch(name, token)]
        if not children:
            warnings.warn(f"Parallelize plan key '{path}' could not be resolved: no submodule matching token '{token}' "
                          f"in module {module}, skipping this plan entry.", stacklevel=2)
        for child in children:
            parallelize_module(child, mesh, {rest: style} if rest else style, src_data_rank=src_data_rank)
    return module
