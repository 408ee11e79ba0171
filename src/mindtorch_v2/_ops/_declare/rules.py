"""Rules that all families share: result types and shapes, strides of results, and what may be written where."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.deferred import Deferred
from ..._core.dtype import (
    BOOL,
    COMPUTE,
    CPP_NAMES,
    FLOAT,
    INT,
    OF_ARRAY,
    bool_,
    can_cast,
    combine,
    dtype,
    get_default_dtype,
    of_number,
    promote_types,
)
from ..._core.elements import on_host
from ..._core.geometry import NO_BYTES, channels_last_strides, contiguous_strides, element_strides, is_dense
from ..._core.tensor import Tensor
from ..._core.warn import warn_once
from ..._dispatch.keys import BACKEND_MASK, DUAL_MASK, FUNC_MASK, SPARSE_MASK, modes, unusual
from ..._dispatch.levels import innermost
from ..._dispatch.schema import NUMBERS


class Spec(NamedTuple):
    """What an operator returns: a shape, a type, and element strides where they are not contiguous."""

    shape: tuple[int, ...]
    dtype: dtype
    strides: tuple[int, ...] | None = None


def shape_text(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def c_name(kind: dtype) -> str:
    """What a C++ compiler calls an element type; some of PyTorch's messages show these names."""
    return CPP_NAMES.get(kind.name, kind.name)


def warn_of_parts_lost(array: Any, kind: dtype) -> None:
    """Warns, once in a process, that a cast of these elements leaves their imaginary parts behind."""
    if array.dtype.kind == "c" and kind.category in (INT, FLOAT) and array.size:
        warn_once("Casting complex values to real discards the imaginary part")


def records(tensor: Any) -> bool:
    """Whether a derivative by the tensor may be asked for."""
    return bool(modes.grad_enabled and tensor.requires_grad or tensor._keys & (DUAL_MASK | FUNC_MASK))


_DEVICES = BACKEND_MASK & ~(SPARSE_MASK | FUNC_MASK)


def unwatched(*tensors: Any) -> bool:
    """Whether nobody sees the parts of a composition of these tensors: no graph, transform, subclass or mode."""
    return not unusual.threads and all([not t._keys & ~_DEVICES for t in tensors])


# types ---------------------------------------------------------------------------------------------------------------


def common_dtype(operands: Sequence[Any]) -> dtype:
    """PyTorch's result type of tensors and numbers."""
    ranks: list[dtype | None] = [None, None, None]
    for operand in operands:
        if hasattr(operand, "_array"):
            rank, kind = (0 if operand._array.ndim else 1), OF_ARRAY[operand._array.dtype]
        else:
            rank, kind = 2, of_number(operand)
        known = ranks[rank]
        ranks[rank] = kind if known is None or known is kind else promote_types(known, kind)
    return combine(*ranks)


def promoted(common: dtype) -> tuple[dtype, dtype]:
    """Computed and returned in the operands' common type."""
    return common, common


def floating(common: dtype) -> tuple[dtype, dtype]:
    """As `promoted`, but integers become the default floating type."""
    kind = common if common.category >= FLOAT else get_default_dtype()
    return kind, kind


def boolean(common: dtype) -> tuple[dtype, dtype]:
    return common, bool_


def real_of_complex(common: dtype) -> tuple[dtype, dtype]:
    """As `promoted`, but complex numbers give real ones."""
    return common, common.to_real()


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape, with PyTorch's error text."""
    result: tuple[int, ...] = ()
    for shape in shapes:
        if shape == result or not shape:
            continue
        if not result:
            result = shape
            continue
        ndim = max(len(result), len(shape))
        a, b = (1,) * (ndim - len(result)) + result, (1,) * (ndim - len(shape)) + shape
        for d in range(ndim - 1, -1, -1):
            m, n = a[d], b[d]
            if m != n and m != 1 and n != 1:
                raise RuntimeError(f"The size of tensor a ({m}) must match the size of tensor b ({n}) "
                                   f"at non-singleton dimension {d}")
        result = tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
    return result


def pointwise_strides(shape: tuple[int, ...], operands: Sequence[Any]) -> tuple[int, ...] | None:
    """Element strides of a pointwise result of tensors and numbers; None if they are contiguous."""
    given = [_NUMBER_GEOMETRY if t.__class__ in NUMBERS else (t._array.shape, element_strides(t._array))
             for t in operands]
    tensors = [t for t in operands if t.__class__ not in NUMBERS]
    if any(t._array.dtype is not tensors[0]._array.dtype for t in tensors) and on_host(tensors[0]):
        common = common_dtype(operands).np
        given = [geometry if t.__class__ in NUMBERS or t._array.dtype == common else _cast_geometry(*geometry)
                 for t, geometry in zip(operands, given, strict=True)]
    return _combined_strides(shape, tuple(given))


def _cast_geometry(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and element strides of an operand that is brought to the common type first, as on the CPU."""
    if 0 in shape or _lies_densely(shape, strides, sorted(range(len(shape)), key=strides.__getitem__)):
        return shape, strides
    return shape, copied_strides(shape, strides) or contiguous_strides(shape)


def copied_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """Element strides of a copy of elements that lie so; None if they are contiguous."""
    return _combined_strides(shape, ((shape, strides),))


_NUMBER_GEOMETRY: tuple = ((), ())


@functools.lru_cache(4096)
def _combined_strides(shape: tuple[int, ...], operands: tuple) -> tuple[int, ...] | None:
    """Operands of one shape that lie alike pass it on; else the order of their dimensions, densely packed."""
    if all(own_shape == shape for own_shape, _ in operands):
        if 0 in shape or all(_lies_densely(shape, strides, range(len(shape) - 1, -1, -1)) for _, strides in operands):
            return None
        if len(shape) == 4 and all(_lies_densely(shape, strides, (1, 3, 2, 0)) for _, strides in operands):
            return channels_last_strides(shape)
        first = operands[0][1]
        if all(strides == first for _, strides in operands):
            if _lies_densely(shape, first, sorted(range(len(shape)), key=first.__getitem__)):
                return first
    known = []
    for own_shape, strides in operands:
        pad = len(shape) - len(own_shape)
        known.append((0,) * pad + tuple(0 if n == 1 and shape[pad + i] != 1 else s
                                        for i, (n, s) in enumerate(zip(own_shape, strides, strict=True))))
    order = list(range(len(shape) - 1, -1, -1))  # innermost first
    for i in range(1, len(order)):
        at = i
        for j in range(i - 1, -1, -1):
            ahead = _must_swap(order[j], order[at], known, shape)
            if ahead > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif ahead < 0:
                break
    if order == list(range(len(shape) - 1, -1, -1)):
        return None
    result, step = [0] * len(shape), 1
    for d in order:
        result[d] = step
        step *= shape[d]
    return tuple(result)


def _lies_densely(shape: tuple[int, ...], strides: tuple[int, ...], order: Iterable[int]) -> bool:
    """Whether the dimensions, innermost first, lie in each other without gaps."""
    step = 1
    for d in order:
        if shape[d] != 1:
            if strides[d] != step:
                return False
            step *= shape[d]
    return True


def _must_swap(inner: int, outer: int, known: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> int:
    """1 if the dimension now further in has the larger stride, -1 if not, 0 if no operand tells."""
    for strides in known:
        a, b = strides[inner], strides[outer]
        if a == 0 or b == 0:
            continue
        if a < b:
            return -1
        if a > b:
            return 1
        if shape[inner] > shape[outer]:
            return 1
    return 0


def anywhere(condition: Any) -> bool:
    """Whether a condition holds of some element; inside vmap, of some element of some sample."""
    return bool(innermost(condition).any())


def check_at_least_1d(one: Tensor, other: Tensor) -> None:
    """Raises if a factor of a product has no dimensions."""
    a, b = one._array.ndim, other._array.ndim
    if not a or not b:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")


# writing -------------------------------------------------------------------------------------------------------------


def writable_copy(tensor: Any, source: Any) -> Any:
    """A copy that `source` can be written into: inside vmap it has samples if the source has."""
    made = tensor.clone()
    if getattr(source, "_keys", 0) & FUNC_MASK:
        made = made + source.detach().new_zeros((), dtype=made.dtype)
    return made


def is_expanded(array: Any) -> bool:
    """Whether one element of memory stands for several of the array."""
    strides = array.strides
    return 0 in strides and any(s == 0 and n > 1 for s, n in zip(strides, array.shape, strict=True)) and array.size > 0


def check_constant(function: str, **arguments: Any) -> None:
    """Raises for an argument that needs grad where PyTorch has no derivative by it."""
    for name, value in arguments.items():
        if value.__class__ not in NUMBERS and value is not None and value.requires_grad and modes.grad_enabled:
            raise RuntimeError(f"The function '{function}' is not differentiable with respect to argument '{name}'. "
                               "This input cannot have requires_grad True.")


def check_writable(tensor: Tensor) -> None:
    """Raises for memory in which one element stands for several (an expanded tensor)."""
    if is_expanded(tensor._array):
        raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a single "
                           "memory location. Please clone() the tensor before performing the operation.")


def shares_storage(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors show the same memory; makes no storage where there is none yet."""
    a = one if one._base is None or one._storage is not None else one._base
    b = other if other._base is None or other._storage is not None else other._base
    late = one._array.__class__ is Deferred or other._array.__class__ is Deferred  # who would compute all to tell
    if (a._former_storages or b._former_storages) and not late:
        return one._shared_storage() is other._shared_storage()
    if a._array.__class__ is Deferred:
        x, y = a._array, b._array
        return a is b or y.__class__ is Deferred and x.trace is y.trace and x.memory == y.memory
    return a is b or (a._storage is not None and a._storage is b._storage)


def shows_the_same(one: Tensor, other: Any) -> bool:
    """Whether two tensors show the same elements in the same way."""
    if other.__class__ in NUMBERS or not shares_storage(one, other) or one._offset != other._offset:
        return False
    a, b = one._array, other._array
    return a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype


def check_overlap(target: Tensor, source: Any, *, same: bool = True) -> None:
    """Raises if `source` shows some of the elements that are written; `same` allows exactly those.

    As in PyTorch only where it is easy to tell: both must lie densely, or be one tensor.
    """
    if source.__class__ in NUMBERS or (source is target and same) or not shares_storage(target, source):
        return
    a, b = target._array, source._array
    if source is not target:
        if not a.size or not b.size or not is_dense(a) or not is_dense(b):
            return
        start, end = target._offset, target._offset + a.size * a.itemsize
        other, other_end = source._offset, source._offset + b.size * b.itemsize
        if same and (start, end) == (other, other_end) and a.strides == b.strides:
            return
        if start >= other_end or other >= end:
            return
    raise RuntimeError("unsupported operation: some elements of the input tensor and the written-to tensor refer "
                       "to a single memory location. Please clone() the tensor before performing the operation.")


def check_operands(operator: Any, target: Tensor, values: Sequence[Any]) -> None:
    """Raises if an operand lies over what is written in a way that the operator does not take."""
    for at, same in operator.declaration.sharing:
        value = values[at]
        if value is target and same:
            continue
        if value.__class__ is Tensor:
            _check_operand(target, value, same)
        else:
            for source in value if value.__class__ in (tuple, list) else (value,):
                if isinstance(source, Tensor):
                    _check_operand(target, source, same)


def _check_operand(target: Tensor, source: Tensor, same: bool) -> None:
    if target._base is source._base is source._storage is None and source is not target:  # memory of its own
        return
    check_overlap(target, source, same=same)


def check_result_fits(target: Tensor, spec: Spec) -> None:
    """Raises unless a result of this shape and type may be written into `target`."""
    check_shape_fits(target, spec.shape)
    check_type_fits(spec.dtype, target.dtype)


def check_type_fits(made: dtype, wanted: dtype) -> None:
    if not can_cast(made, wanted):
        raise RuntimeError(f"result type {made.scalar_name} can't be cast to the desired output type "
                           f"{wanted.scalar_name}")


def check_shape_fits(target: Tensor, shape: tuple[int, ...]) -> None:
    if shape != target._array.shape:
        raise shape_misfit(target._array.shape, shape)


def shape_misfit(target: tuple[int, ...], shape: tuple[int, ...]) -> RuntimeError:
    """What is raised for a result that its target cannot hold."""
    return RuntimeError(f"output with shape {shape_text(target)} doesn't match the broadcast shape {shape_text(shape)}")


def laid_out(array: np.ndarray, operands: Sequence[Any]) -> np.ndarray:
    """The array with the strides PyTorch gives a pointwise result of these operands; NumPy's choice may be another."""
    shape = array.shape
    if len(shape) < 2:
        return array
    if array.size and 1 not in shape and array.flags.c_contiguous:
        for operand in operands:
            if operand.__class__ not in NUMBERS:
                own = operand._array
                if not own.flags.c_contiguous and any(own.strides):  # fully expanded, it tells nothing of the order
                    break
        else:
            return array
    strides = pointwise_strides(shape, operands) or contiguous_strides(shape)
    if element_strides(array) == strides:
        return array
    order = sorted(range(array.ndim), key=lambda d: -strides[d])
    made = np.empty([shape[d] for d in order], array.dtype).transpose(np.argsort(order))
    if element_strides(made) != strides:  # a dimension of size 1, or one of size 0
        buffer = made.reshape(-1) if made.size else NO_BYTES
        made = np.ndarray(shape, array.dtype, buffer, 0, tuple([s * array.itemsize for s in strides]))
    made[...] = array
    return made


@functools.lru_cache(4096)
def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements lie at one place, though no stride is 0."""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if 0 < stride <= reach:
            return True
        reach += stride * (n - 1)
    return False


def may_be_written(target: np.ndarray, source: np.ndarray) -> bool:
    """Whether each element of `target` can be stored once that of `source` in its place is read, whatever the order."""
    if target is source or target.base is source.base is None or not np.may_share_memory(target, source):
        return True
    return (target.shape == source.shape and target.strides == source.strides and target.dtype == source.dtype
            and target.ctypes.data == source.ctypes.data)


def number_array(value: Any, kind: dtype) -> Any:
    """A Python number as a 0-dim array or NumPy scalar, with the wrap-around of a C cast."""
    if value.__class__ is float and kind.category == FLOAT and kind not in COMPUTE:
        return kind.np.type(value)
    if kind.category == INT and value.__class__ is int and not -(2**63) <= value < 2**64:
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    if kind.category == BOOL:
        return np.asarray(bool(value))
    return np.asarray(value).astype(kind.np)
