"""Functions of torch.nn.functional: the operator table's, and those whose signature differs from the operator's."""

import importlib as _importlib

from ..._core.tensor import Tensor as _Tensor
from ..._ops._declare import documentation as _documentation
from ..._ops._declare.op import public_functions as _public_functions
from ...overrides import handle_torch_function as _handle_torch_function
from ...overrides import has_torch_function as _has_torch_function
from ...overrides import has_torch_function_unary, has_torch_function_variadic  # noqa: F401
from ...overrides import overridable as _overridable
from .grouped import ScalingType, SwizzleType  # noqa: F401

_PARTS = ("activation", "attention", "embedding", "grouped", "loss", "pooling", "vision")


_functions = _public_functions("nn.functional")
for _part in _PARTS:
    _module = _importlib.import_module(f"{__name__}.{_part}")
    _functions.update({name: _overridable(getattr(_module, name)) for name in _module.__all__})
globals().update(_functions)
__all__ = list(_functions)

# Names that are no functions of torch.nn.functional, but are looked for there.
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
Tensor, handle_torch_function, has_torch_function = _Tensor, _handle_torch_function, _has_torch_function
for _name in ("_canonical_mask", "_in_projection", "_in_projection_packed", "_mha_shape_check", "_none_or_dtype"):
    globals()[_name] = getattr(_importlib.import_module(f"{__name__}.attention"), _name)
_documentation.explain("nn_functional", globals())


def __getattr__(name: str) -> object:
    if name == "grad":  # PyTorch's module imports it
        return _importlib.import_module("mindtorch_v2.nn.grad")
    if name == "boolean_dispatch":
        return _importlib.import_module("mindtorch_v2._jit_internal").boolean_dispatch
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
