"""torch._foreach_*: an operator applied to every tensor of a list, with further arguments in lists or alike for all.

Nothing here computes: each name is declared out of a table and calls the operator it is named after, so that gradients,
devices and errors are that operator's. A device with operators on lists is asked for these first.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from .._backends.interface import named_kernel
from .._core.dtype import COMPUTE
from .._core.elements import on_host
from .._core.tensor import Tensor
from .._dispatch.registry import registry
from .._dispatch.schema import Schema
from ._declare.aten import LEAF
from ._declare.composites import Composite
from ._declare.op import function_of, op

Overloads = dict[str, str]  # overload -> the arguments after `self`, in the order in which PyTorch tries them

_ALONE: Overloads = {"": ""}
_NUMBERS: Overloads = {"Scalar": "Scalar scalar", "ScalarList": "Scalar[] scalars"}
_LIST: Overloads = {"List": "Tensor[] other"}
_TENSOR: Overloads = {"Tensor": "Tensor other"}
_ORDER: Overloads = {"Scalar": "Scalar ord=2, ScalarType? dtype=None"}
_PRODUCT: Overloads = {
    "ScalarList": "Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars",
    "Tensor": "Tensor[] tensor1, Tensor[] tensor2, Tensor scalars",
    "Scalar": "Tensor[] tensor1, Tensor[] tensor2, Scalar value=1",
}

_UNARY = """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round
    rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
""".split()

WITH_INPLACE: dict[str, Overloads] = dict.fromkeys(_UNARY, _ALONE) | {
    "add": _NUMBERS | {name: f"{text}, *, Scalar alpha=1" for name, text in (_TENSOR | _LIST).items()},
    "sub": _NUMBERS | {"List": "Tensor[] other, *, Scalar alpha=1"},
    "mul": _NUMBERS | _TENSOR | _LIST,
    "div": _NUMBERS | _TENSOR | _LIST,
    "maximum": _NUMBERS | _LIST,
    "minimum": _NUMBERS | _LIST,
    "clamp_min": _NUMBERS | _LIST,
    "clamp_max": _NUMBERS | _LIST,
    "pow": {"Scalar": "Scalar exponent", "ScalarList": "Scalar[] exponent", "List": "Tensor[] exponent"},
    "lerp": {
        "Scalar": "Tensor[] tensors1, Scalar weight",
        "ScalarList": "Tensor[] tensors1, Scalar[] weight",
        "List": "Tensor[] tensors1, Tensor[] weights",
    },
    "addcmul": _PRODUCT,
    "addcdiv": _PRODUCT,
}
FUNCTIONAL: dict[str, Overloads] = {
    "norm": _ORDER,
    "powsum": _ORDER,
    "max": _ALONE,
    "mm": {"": "Tensor[] mat2"},
    "clone": {"": "*, MemoryFormat? memory_format=None"},
}
WRITES: dict[str, Overloads] = {"zero": _ALONE, "copy": {"": "Tensor[] src, bool non_blocking=False"}}


# what is called for one tensor where it is not the method of that name ------------------------------------------------


def _norm(tensor: Any, order: Any, dtype: Any) -> Any:
    if order == float("inf") and not tensor.numel():
        raise RuntimeError("_foreach_norm cannot compute the infinity norm on an empty tensor because the operation "
                           "does not have an identity")
    return _vector_norm(tensor, order, dtype=dtype)


def _powsum(tensor: Any, order: Any, dtype: Any) -> Any:
    kind = tensor.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise NotImplementedError("\"powsum_cpu\" not implemented for 'Long'")
    total = (tensor.to(dtype or COMPUTE.get(kind, kind)).abs() ** order).sum()
    return total.to(kind) if kind in COMPUTE and dtype is None else total


def _max(tensor: Any) -> Any:
    if not tensor.numel():
        raise RuntimeError("_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is "
                           "undefined.")
    return tensor.max()


def _clone(tensor: Any, memory_format: Any) -> Any:
    return tensor.clone() if memory_format is None else tensor.clone(memory_format=memory_format)


_vector_norm = function_of(registry.get("linalg_vector_norm"))
_EACH: dict[str, Callable] = {"norm": _norm, "powsum": _powsum, "max": _max, "clone": _clone}
_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max", "maximum_": "clamp_min_", "minimum_": "clamp_max_"}


def _applied(name: str, arguments: str) -> Callable:
    """The function that a foreach operator calls for each tensor."""
    if name in _EACH:
        return _EACH[name]
    method = _METHODS.get(name, name)
    keyword = "alpha" if " alpha" in arguments else "value" if name.startswith("addc") else None
    if keyword is None:
        return lambda tensor, *args: getattr(tensor, method)(*args)
    return lambda tensor, *args: getattr(tensor, method)(*args[:-1], **{keyword: args[-1]})


# checks --------------------------------------------------------------------------------------------------------------


def _checked(schema: Schema, args: Sequence[Any]) -> list[Any]:
    """The arguments of a call, with a tensor that packs one number for each tensor turned into a list."""
    lists = [value for a, value in zip(schema.arguments, args, strict=True) if a.is_list and a.is_tensor]
    count, made = len(lists[0]), list(args)
    if schema.base_name == "_foreach_mm":
        different = "_foreach_mm: self and mat2 must have the same number of tensors"
        empty = "_foreach_mm requires non-empty tensor lists"
    else:
        different = "Tensor lists must have the same number of tensors, got {} and {}"
        empty = "Tensor list must have at least one tensor."
    for other in lists[1:]:
        if len(other) != count:
            raise RuntimeError(different.format(count, len(other)))
    if not count:
        raise RuntimeError(empty)
    if schema.overload == "Tensor":
        if len(lists) == 1:
            _check_zero_dim(args[1])
        else:
            made[-1] = _unpacked(args[-1], count)
    elif schema.overload == "ScalarList" and len(args[-1]) != count:
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return made


def _check_zero_dim(number: Tensor) -> None:
    if number.dim():
        raise RuntimeError(f"scalar tensor expected to be 0 dim but it has {number.dim()} dimensions and "
                           f"{number.numel()} elements.")


def _unpacked(scalars: Tensor, count: int) -> list[Any]:
    if not on_host(scalars):
        raise RuntimeError(f"Expected scalars to be on CPU, got {scalars.device} instead.")
    if not scalars.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if scalars.dim() != 1:
        raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead.")
    if scalars.numel() != count:
        raise RuntimeError(f"Expected length of scalars to match input of length {count} but got {scalars.numel()} "
                           "instead.")
    return scalars.tolist()


_TOGETHER = {"npu": "foreach.together"}  # what computes a list at once, or gives None


# declarations --------------------------------------------------------------------------------------------------------


def _declare(name: str, overload: str, arguments: str, *, inplace: bool = False) -> None:
    own = f"_foreach_{name}" + (f".{overload}" if overload else "")
    lists, result = ("Tensor(a!)[]", "()") if inplace else ("Tensor[]", "Tensor[]")

    def run(*args: Any) -> Any:
        given = _checked(schema, args)
        where = args[0][0]._device.type
        if where in _TOGETHER:
            together = named_kernel(where, _TOGETHER[where])(operator, *given)
            if together is not None:
                return together
        results = tuple(map(each, *(v if v.__class__ in (list, tuple) else repeat(v) for v in given)))
        return args[0] if inplace else results

    operator = op(f"{own}({lists} self{', ' * bool(arguments)}{arguments}) -> {result}", kernel=Composite(run),
                  public="torch", mixes_devices=True, aten=LEAF, kernels=_TOGETHER)
    schema, each = operator.schema, _applied(name, arguments)


for _name, _overloads in (WITH_INPLACE | FUNCTIONAL).items():
    for _overload, _arguments in _overloads.items():
        _declare(_name, _overload, _arguments)
for _name, _overloads in (WITH_INPLACE | WRITES).items():
    for _overload, _arguments in _overloads.items():
        _declare(_name + "_", _overload, _arguments, inplace=True)
op("_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]", public="torch", mixes_devices=True,
   kernel=Composite(lambda base, exponent: tuple(base**power for power in exponent)), aten=LEAF)
