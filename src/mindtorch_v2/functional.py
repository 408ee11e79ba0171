"""Functions of torch whose arguments no operator's schema can describe, as in torch.functional."""

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

from ._core.device import Size
from ._core.dtype import int64
from ._core.tensor import Tensor
from ._core.warn import warn_once
from ._dispatch.argument_checks import expected
from ._ops import view as _view
from ._ops._declare.op import DECLARATIONS, function_of
from .overrides import overridable

_einsum = function_of(DECLARATIONS["aten::einsum"].operator)
_tensordot = function_of(DECLARATIONS["aten::tensordot"].operator)

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
           "cartesian_prod", "chain_matmul", "einsum",
           "lu", "meshgrid", "split", "tensordot", "unravel_index"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def einsum(*args: Any) -> Tensor:
    """The sum of products of an equation and its operands, or of operands each followed by a list of its subscripts."""
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one "
                         "operand and its subscripts list")
    if not isinstance(args[0], Tensor):
        equation, operands = args[0], args[1:]
        if not isinstance(equation, str):
            raise TypeError(expected("einsum", "equation", "str", equation, 1))
    else:
        operands = args[0 : len(args) // 2 * 2 : 2]
        equation = ",".join(map(_subscripts, args[1::2]))
        if len(args) % 2:
            equation += "->" + _subscripts(args[-1])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        return einsum(equation, *operands[0])
    return _einsum(equation, operands)


def _subscripts(labels: Sequence[Any]) -> str:
    return "".join("..." if label is Ellipsis else _letter(label) for label in labels)


def _letter(label: int) -> str:
    if label >= 0 and label < len(_LETTERS):
        return _LETTERS[label]
    raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """The sum of products over the last `dims` dimensions of `a` and the first of `b`, or over two lists of them."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else dims.item()
    if isinstance(dims, (list, tuple)):
        left, right = dims
        for name, position, given in (("dims_self", 3, left), ("dims_other", 4, right)):
            if not isinstance(given, (list, tuple)):
                raise TypeError(expected("tensordot", name, "tuple of ints", given, position))
    elif not isinstance(dims, int):
        raise RuntimeError("tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
                           f"containing two lists, but got dims={dims}")
    else:
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        left, right = range(-dims, 0), range(dims)
    if out is None:
        return _tensordot(a, b, tuple(left), tuple(right))
    return _tensordot(a, b, tuple(left), tuple(right), out=out)


# one tensor or several -----------------------------------------------------------------------------------------------

_broadcast_tensors, _block_diag, _cartesian_prod, _chain_matmul, _lu, _lu_with_info, _meshgrid, _meshgrid_indexing = (
    function_of(DECLARATIONS[f"aten::{name}"].operator)
    for name in ("broadcast_tensors", "block_diag", "cartesian_prod", "chain_matmul", "lu", "_lu_with_info", "meshgrid",
                 "meshgrid.indexing"))


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    for i, tensor in enumerate(tensors):
        if not hasattr(type(tensor), "__torch_function__"):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(tensor).__name__}")
    return _broadcast_tensors(tensors) if tensors else ()


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The common shape of several shapes."""
    for shape in shapes:
        if not isinstance(shape, (int, tuple, list)):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
    given = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    for n in (n for shape in given for n in shape if isinstance(n, Tensor)):
        raise AssertionError(f"Expected bool, got {type(n)}")
    if any(isinstance(n, SupportsIndex | float) and n < 0 for shape in given for n in shape):
        raise ValueError("Attempting to broadcast a dimension with negative length!")
    common = [1] * max(map(len, given), default=0)
    wrong: tuple[int, int, int] | None = None
    for at, shape in enumerate(given):
        for d in range(-1, -len(shape) - 1, -1):
            if common[d] == 1:
                common[d] = shape[d]
            elif shape[d] not in (1, common[d]) and wrong is None:
                wrong = at, d, shape[d]
    if wrong is not None:
        at, d, n = wrong
        raise RuntimeError(f"Attempting to broadcast a dimension of length {n} at {d}! Mismatching argument at index "
                           f"{at} had "
                           f"{shapes[at]}; but expected shape should be broadcastable to {common}")
    return Size(common)


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _each(_view.atleast_1d, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions."""
    return _each(_view.atleast_2d, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions."""
    return _each(_view.atleast_3d, tensors)


def _each(function: Any, tensors: tuple) -> Any:
    """The function of one tensor, or of each of several given one by one or in a sequence."""
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return function(tensors[0])
    given = tensors[0] if len(tensors) == 1 else tensors
    return tuple(function(tensor) for tensor in given)


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of equal size, or of the given sizes, as views."""
    return tensor.split(split_size_or_sections, dim)  # type: ignore[attr-defined]


def _listed(tensors: tuple) -> tuple:
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Each vector expanded over the grid of all."""
    given = _listed(tensors)
    return _meshgrid(given) if indexing is None else _meshgrid_indexing(given, indexing=indexing)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, a row each."""
    return _cartesian_prod(tensors)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of matrices, in the order of the fewest multiplications."""
    warn_once("torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
              "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than multiple "
              "parameters.")
    return _chain_matmul(matrices) if out is None else _chain_matmul(matrices, out=out)


def lu(A: Any, pivot: bool = True, get_infos: bool = False, out: Any = None) -> tuple[Tensor, ...]:
    """Both triangular factors in one matrix, the rows exchanged, and LAPACK's code if asked for."""
    made = _lu_with_info(A, pivot, False) if get_infos else _lu(A, pivot)
    if out is None:
        return made
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != len(made):
        raise TypeError(f"expected tuple of {len(made)} elements but got {len(out)}")
    for target, value in zip(out, made, strict=True):
        target.resize_as_(value).copy_(value)
    return tuple(out)


def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given ones along its diagonal."""
    return _block_diag(tensors)


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, in a tensor of `shape`, of positions in its flattened form."""
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype.name == "bool":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps = indices.new_tensor([math.prod(sizes[d + 1 :]) for d in range(len(sizes))], dtype=int64)
    places = indices.unsqueeze(-1).div(steps, rounding_mode="floor") % indices.new_tensor(sizes, dtype=int64)
    return places.unbind(-1)


globals().update({_name: overridable(globals()[_name]) for _name in __all__ if _name != "broadcast_shapes"})
