"""torch._prims_common: questions about shapes, strides and types that references and tests of operators ask."""

import math
from collections.abc import Callable, Sequence
from enum import Enum
from functools import reduce
from typing import Any

import mindtorch_v2 as torch

from .._core.geometry import contiguous_strides, wrapped_dim
from .._core.tensor import Tensor
from .._ops._declare.rules import common_dtype, pointwise_strides
from .._subclasses.fake_tensor import MetadataMismatchError

TensorLike = TensorLikeType = Tensor
NumberType = Number = bool | int | float | complex
ShapeType = StrideType = DimsSequenceType = Sequence[int]
IntLike, FloatLike, BoolLike = int, float, bool
DeviceLikeType = str | int | torch.device
DimsType = int | Sequence[int]
TensorSequenceType = Sequence[Tensor]


class ELEMENTWISE_TYPE_PROMOTION_KIND(Enum):
    """How an elementwise operator chooses the type it computes in and the type of its result."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


class REDUCTION_OUTPUT_TYPE_KIND(Enum):
    """What the type of a reduction's result is."""

    SAME = (0,)
    COMPLEX_TO_FLOAT = (1,)
    KEEP_PROMOTED_TYPE = (2,)
    ALWAYS_BOOL = (3,)


class RETURN_TYPE(Enum):
    """What an operator returns."""

    NEW = (0,)
    VIEW = (1,)
    INPLACE = (2,)
    NONE = (3,)


# types ---------------------------------------------------------------------------------------------------------------

_WIDE = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.complex32: torch.complex64}
_ORDERED = (bool, int, float, complex)


def is_boolean_dtype(dtype: torch.dtype) -> bool:
    return dtype is torch.bool


def is_float_dtype(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def is_complex_dtype(dtype: torch.dtype) -> bool:
    return dtype.is_complex


def is_integer_dtype(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def is_low_precision_dtype(dtype: torch.dtype) -> bool:
    return dtype in _WIDE


def is_grad_dtype(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def corresponding_real_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real()


def corresponding_complex_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_complex()


def get_computation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type that a computation on elements of a type is made in."""
    return _WIDE.get(dtype, dtype)


def dtype_to_type(dtype: torch.dtype) -> type:
    """Python's type of a dtype's numbers."""
    if dtype is torch.bool:
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int


dtype_to_type_ctor: Callable = dtype_to_type


def type_to_dtype(typ: type) -> torch.dtype:
    """The type that a number of a Python type has as a tensor."""
    if typ in (float, complex):
        default = torch.get_default_dtype()
        return default if typ is float else corresponding_complex_dtype(default)
    return torch.bool if typ is bool else torch.int64


def get_higher_type(a: type, b: type) -> type:
    return max(a, b, key=_ORDERED.index)


def get_higher_dtype(a: Any, b: Any) -> torch.dtype | None:
    """The smallest type that holds both, of types, tensors or numbers."""
    kinds = [x if isinstance(x, torch.dtype) else x.dtype if isinstance(x, Tensor) else type_to_dtype(type(x))
             for x in (a, b) if x is not None]
    return reduce(torch.promote_types, kinds) if kinds else None


def elementwise_dtypes(*_args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND,
                       ) -> tuple[torch.dtype, torch.dtype]:
    """The type that an elementwise operator computes in, and that of its result."""
    joint = common_dtype([a for a in _args if a is not None])
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND
    if type_promotion_kind is kind.INT_TO_FLOAT and not is_grad_dtype(joint):
        joint = torch.get_default_dtype()
    if type_promotion_kind is kind.NO_OPMATH:
        return joint, joint
    if type_promotion_kind is kind.BOOL_TO_LONG and joint is torch.bool:
        return torch.int64, torch.int64
    computed = get_computation_dtype(joint)
    if type_promotion_kind is kind.COMPLEX_TO_FLOAT and joint.is_complex:
        return computed, corresponding_real_dtype(joint)
    return computed, torch.bool if type_promotion_kind is kind.ALWAYS_BOOL else joint


# shapes --------------------------------------------------------------------------------------------------------------


def same_shape(a: Sequence[int], b: Sequence[int], *, allow_rhs_unbacked: bool = False) -> bool:
    return tuple(a) == tuple(b)


is_same_shape = same_shape


def prod(xs: Sequence[int]) -> int:
    return math.prod(xs)


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """The place of a dimension counted from the front."""
    if rank < 0:
        raise RuntimeError(f"Rank cannot be negative but got {rank}")
    if rank == 0 and not wrap_scalar:
        raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
    return wrapped_dim(idx, rank)


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)


def validate_no_repeating_dims(dims: Sequence[int]) -> None:
    if len(set(dims)) != len(dims):
        raise RuntimeError("duplicate value in the list of dims")


def reduction_dims(shape: Sequence[int], dims: Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that a reduction goes over: all unless told."""
    if dims is None:
        return tuple(range(len(shape)))
    found = tuple(canonicalize_dim(len(shape), i) for i in dims)
    validate_no_repeating_dims(found)
    return found


def compute_reduction_output_shape(shape: Sequence[int], dimensions: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(shape) if i not in dimensions)


def infer_size_shapes(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(a, b))


def is_expandable_to(shape: Sequence[int], desired: Sequence[int]) -> bool:
    if len(shape) > len(desired):
        return False
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(desired), strict=False))


def extract_shape_from_varargs(shape: Any, validate: bool = True) -> tuple[int, ...]:
    """A shape that was given as numbers or as one sequence."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)


def set_correction(unbiased: bool | None = None, correction: float | None = None) -> float:
    """What is taken off the number of elements of a variance."""
    if unbiased is not None and correction is not None:
        raise RuntimeError("cannot specify both correction and unbiased arguments")
    return float(correction if correction is not None else 1 if unbiased is None or unbiased else 0)


def check_same_shape(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    tensors = [a for a in args if isinstance(a, Tensor) and not (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(a))]
    for t in tensors[1:]:
        if t.shape != tensors[0].shape:
            raise RuntimeError(f"Shape {t.shape} is not the expected shape {tensors[0].shape}!")


def check_same_device(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    tensors = [a for a in args if isinstance(a, Tensor) and not (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(a))]
    for t in tensors[1:]:
        if t.device != tensors[0].device:
            raise RuntimeError(f"Tensor on device {t.device} is not on the expected device {tensors[0].device}!")


def check(b: bool, s: Callable[[], str], exc_type: type[Exception] = RuntimeError) -> None:
    if not b:
        raise exc_type(s())


def is_cpu_scalar_tensor(a: Any) -> bool:
    return isinstance(a, Tensor) and a.ndim == 0 and a.device.type == "cpu"


# strides -------------------------------------------------------------------------------------------------------------


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a dense tensor; those of the last two dimensions turned where not `row_major`."""
    made = contiguous_strides(tuple(shape))
    if row_major or len(shape) < 2:
        return made
    return (*made[:-2], 1, max(shape[-2], 1))


def make_channels_last_strides_for(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of images or volumes whose channels lie next to one another."""
    order = (1, *range(len(shape) - 1, 1, -1), 0) if len(shape) > 3 else tuple(reversed(range(len(shape))))
    strides, step = [0] * len(shape), 1
    for i in order:
        strides[i] = step
        step *= max(shape[i], 1)
    return tuple(strides)


def compute_elementwise_output_strides(*tensors: Any) -> tuple[int, ...]:
    """The strides that an elementwise operator's result has."""
    found = [t for t in tensors if isinstance(t, Tensor)]
    if not found:
        raise ValueError("Can't compute elementwise output strides for zero tensors!")
    shape = tuple(torch.broadcast_shapes(*(t.shape for t in found)))
    return pointwise_strides(shape, found) or make_contiguous_strides_for(shape)


def suggest_memory_format(x: Tensor) -> Any:
    if x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous():
        return torch.channels_last
    if x.ndim == 5 and x.is_contiguous(memory_format=torch.channels_last_3d) and not x.is_contiguous():
        return torch.channels_last_3d
    return torch.contiguous_format


def is_contiguous(a: Tensor, false_if_dde: bool = False) -> bool:
    return a.is_contiguous()


def _differs_at(a: Tensor, b: Tensor, only_cuda: bool, significant: bool) -> tuple[bool, int | None]:
    if only_cuda and not any(t.device.type == "cuda" for t in (a, b)):
        return True, None
    if a.numel():
        for i, (n, x, y) in enumerate(zip(a.shape, a.stride(), b.stride(), strict=True)):
            if x != y and not (significant and n == 1):
                return False, i
    return True, None


def check_all_strides(a: Tensor, b: Tensor, *, only_cuda: bool = True) -> tuple[bool, int | None]:
    """Whether the strides are the same, and else where they differ; asked of a GPU's only, unless told otherwise."""
    return _differs_at(a, b, only_cuda, significant=False)


def check_significant_strides(a: Tensor, b: Tensor, *, only_cuda: bool = True,
                              allow_rhs_unbacked: bool = False) -> tuple[bool, int | None]:
    """The same for dimensions with several elements."""
    return _differs_at(a, b, only_cuda, significant=True)


def compare_tensor_meta(a: Tensor, b: Tensor, check_sizes: bool = True, check_strides: bool = False, *,
                        allow_rhs_unbacked: bool = False, check_conj: bool = True) -> None:
    """Raises where two tensors differ in anything but their elements."""
    if check_sizes and a.shape != b.shape:
        raise MetadataMismatchError(f"Shapes {a.shape} and {b.shape} are not equal!")
    if a.dtype is not b.dtype:
        raise MetadataMismatchError(f"Dtypes {a.dtype} and {b.dtype} are not equal!")
    if a.device != b.device and not {str(a.device), str(b.device)} <= {"cuda", "cuda:0"}:
        raise MetadataMismatchError(f"Devices {a.device} and {b.device} are not equal!")
    if not check_strides:
        return
    same, at = check_significant_strides(a, b, only_cuda=False)
    if not same:
        raise MetadataMismatchError(f"Stride mismatch! Strides are {a.stride()} and {b.stride()} (mismatched at {at})!")
    if a.storage_offset() != b.storage_offset():
        raise MetadataMismatchError("Storage offset mismatch! Storage offsets are "
                                    f"{a.storage_offset()} and {b.storage_offset()}!")


def apply_perm(inp: Sequence[Any], perm: Sequence[int]) -> list[Any]:
    return [inp[i] for i in perm]


def is_valid_permutation(rank: int, perm: Sequence[int]) -> bool:
    return isinstance(perm, Sequence) and sorted(perm) == list(range(rank))


def invert_perm(perm: Sequence[int]) -> list[int]:
    return sorted(range(len(perm)), key=perm.__getitem__)
