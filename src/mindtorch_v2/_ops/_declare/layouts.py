"""Kernels of sparse layouts, which declarations name in the same place as those of devices.

`{"sparse_coo": "rearrange.permuted"}` is `permuted` of `_ops/sparse/rearrange.py`, looked up at the first call;
"sparse_compressed" are CSR and its like, "sparse" is every layout. The in-place form is the function of that name with
an underscore after it, or is made of the other.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from ..._dispatch.keys import DispatchKey
from ..._dispatch.registry import Lazy, Operator

LAYOUT_KEYS = {"sparse_coo": DispatchKey.SparseCPU, "sparse_compressed": DispatchKey.SparseCsrCPU}
# What PyTorch says of COO tensors where it makes an operator of others that say it.
NO_CONTIGUOUS = "unsupported memory format option Contiguous"
NO_FORMAT = "memory format option is only supported by strided tensors"
# The kernel of operators that need see the values of a sparse tensor alone.
_ON_VALUES = {"sparse": "math.on_values"}


def kernels_by_layout(kernels: Mapping[str, str], keeps_zero: bool) -> dict[DispatchKey, str]:
    """The names of kernels by the keys of layouts."""
    if keeps_zero:
        kernels = {**_ON_VALUES, **kernels}
    named = ((key, kernels.get(layout, kernels.get("sparse"))) for layout, key in LAYOUT_KEYS.items())
    return {key: name for key, name in named if name is not None}


def layout_kernels(declaration: Any) -> dict[DispatchKey, Lazy]:
    """The kernels that an operator has for sparse layouts, or an in-place form because its operator has them."""
    of, writes = declaration.inplace_of or declaration.operator, declaration.inplace_of is not None
    return {key: Lazy(functools.partial(layout_kernel, name, of, writes))
            for key, name in of.declaration.kernels_by_layout.items()}


def layout_kernel(name: str, operator: Operator, writes: bool = False) -> Callable:
    """The kernel of a name, or of its in-place form."""
    from ..sparse.layouts import in_place, of_host

    module, _, function = name.partition(".")
    found = importlib.import_module(f"{__package__.rpartition('.')[0]}.sparse.{module}")
    own = getattr(found, f"{function}_", None) if writes else None
    kernel = own or getattr(found, function)
    if getattr(kernel, "per_operator", False):
        kernel = kernel(operator)
    kernel = of_host(kernel)
    return in_place(kernel) if writes and own is None else kernel
