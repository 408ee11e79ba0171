"""Sparse tensors: what they hold in place of memory, how they are made and checked.

Indices and values are tensors of their own. The array that holds them is never changed: an in-place operator gives its
tensor another array.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._dispatch.keys import COMPRESSED_MASK, COO_MASK, SPARSE_MASK, modes
from .device import CPU, Size, layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from .dtype import int32, int64
from .tensor import Tensor, wrap

LAYOUT_NAMES = {sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr",
                sparse_bsc: "SparseBsc"}
BY_ROWS, BLOCKED = (sparse_csr, sparse_bsr), (sparse_bsr, sparse_bsc)
TRANSPOSED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}
COMPRESSED = tuple(TRANSPOSED)
# The names of a compressed layout's two index tensors, of what the first has one more of, and of the two counts.
PARTS = {sparse_csr: ("crow_indices", "col_indices", "rows", "nrows", "ncols"),
         sparse_csc: ("ccol_indices", "row_indices", "columns", "ncols", "nrows"),
         sparse_bsr: ("crow_indices", "col_indices", "row blocks", "nrows", "ncols"),
         sparse_bsc: ("ccol_indices", "row_indices", "column blocks", "ncols", "nrows")}


class SparseArray:
    """What a sparse tensor has for an array: index tensors, values, a shape.

    `parts` is one (sparse dims, nnz) tensor for COO; for the compressed layouts, where each row or column begins and
    the plain indices, both with the batch dimensions first. In a blocked layout, rows, columns and elements of these
    are blocks: values have two more dimensions, those of a block.
    """

    __slots__ = ("coalesced", "layout", "parts", "shape", "values")
    storage = None

    def __init__(self, kind: layout, parts: tuple[Tensor, ...], values: Tensor, shape: Sequence[int],
                 coalesced: bool = False) -> None:
        self.layout, self.parts, self.values, self.shape = kind, parts, values, tuple(shape)
        self.coalesced = coalesced

    dtype = property(lambda self: self.values._array.dtype)
    itemsize = property(lambda self: self.values._array.itemsize)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    nnz = property(lambda self: self.parts[-1]._array.shape[-1])
    batch = property(lambda self: 0 if self.layout is sparse_coo else self.parts[-1]._array.ndim - 1)
    sparse_dim = property(lambda self: self.parts[0]._array.shape[0] if self.layout is sparse_coo else 2)
    dense_dim = property(lambda self: len(self.shape) - self.batch - self.sparse_dim)
    block = property(lambda self: self.values._array.shape[self.batch + 1 : self.batch + 3]
                     if self.layout in BLOCKED else ())

    @property
    def strides(self) -> tuple[int, ...]:
        if self.layout is sparse_coo:
            return (0,) * len(self.shape)
        raise RuntimeError(f"Sparse {self.layout._name[-3:].upper()} tensors do not have strides")

    def to_host(self) -> np.ndarray:
        raise TypeError(f"can't convert {LAYOUT_NAMES[self.layout]} layout tensor to numpy. Use Tensor.to_dense() "
                        "first.")

    def shown(self) -> list[tuple[str, Tensor]]:
        """The parts by the names under which a repr shows them."""
        names = ("indices",) if self.layout is sparse_coo else PARTS[self.layout][:2]
        return [*zip(names, self.parts, strict=True), ("values", self.values)]

    def pickled(self) -> tuple:
        """Layout and parts, as PyTorch's files hold them."""
        parts = (*self.parts, self.values, Size(self.shape))
        return self.layout, (*parts, self.coalesced) if self.layout is sparse_coo else parts

    # indices ---------------------------------------------------------------------------------------------------

    def refuse_device(self) -> None:
        """Raises for parts that are on a device: their arrays are not NumPy's."""
        if self.values._device is not CPU:
            raise NotImplementedError(f"a sparse tensor on '{self.values._device}' can be made and turned dense; "
                                      "anything else takes one on the CPU")

    def cells(self) -> np.ndarray:
        """The indices as (batch and sparse dims, nnz), of blocks in a blocked layout; IndexError if one is wrong."""
        self.refuse_device()
        if self.layout is sparse_coo:
            found = self.parts[0]._array
        else:
            starts, plain = (part._array for part in self.parts)
            counts = np.diff(starts, axis=-1)
            if (counts < 0).any() or (counts.sum(-1) != plain.shape[-1]).any():
                raise RuntimeError(f"{PARTS[self.layout][0]} do not fit {plain.shape[-1]} elements")
            line = np.repeat(np.tile(np.arange(counts.shape[-1]), math.prod(counts.shape[:-1])), counts.ravel())
            lead = [grid.ravel() for grid in np.indices(plain.shape)[:-1]] if plain.ndim > 1 else []
            pair = (line, plain.ravel()) if self.layout in BY_ROWS else (plain.ravel(), line)
            found = np.stack([*lead, *pair]).astype(np.int64, copy=False)
        limits = np.array(grid_of(self.shape, self.batch, self.block)[: len(found)], np.int64)[:, None]
        if found.size and ((found < 0) | (found >= limits)).any():
            raise IndexError(f"an index of a sparse tensor lies outside of its size {list(self.shape)}")
        return found

    def places(self) -> np.ndarray:
        """The indices as (batch and sparse dims, elements), in the order of `rows`."""
        found = self.cells()
        if self.layout not in BLOCKED:
            return found
        inside = np.indices(self.block).reshape(2, 1, -1)
        spread = np.repeat(found[:, :, None], inside.shape[-1], axis=2)
        spread[-2:] = spread[-2:] * np.array(self.block)[:, None, None] + inside
        return spread.reshape(len(found), -1)

    def flat_places(self) -> np.ndarray:
        """Each element's place among all places of the sparse dimensions."""
        return flattened(self.places(), self.shape)

    def summed(self) -> "SparseArray":
        """The same with sorted indices that occur once each; itself if it is so."""
        if self.coalesced or self.layout is not sparse_coo:
            return self
        flat = self.flat_places()
        order = np.argsort(flat, kind="stable")
        starts = np.flatnonzero(np.diff(flat[order], prepend=-1))
        values = self.values._array
        if starts.size:
            values = np.add.reduceat(values[order], starts, axis=0, dtype=values.dtype)
        indices = self.parts[0]._array[:, order[starts]]
        return SparseArray(sparse_coo, (wrap(np.ascontiguousarray(indices)),), wrap(values), self.shape, True)

    def rows(self) -> np.ndarray:
        """The values as one row an element, batches and blocks joined."""
        values, kept = self.values._array, self.batch + 1 + 2 * (self.layout in BLOCKED)
        return values.reshape((math.prod(values.shape[:kept]), *values.shape[kept:])) if kept > 1 else values


def flattened(places: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Index tuples (dims, elements) as places in a row-major array of the leading dimensions of `shape`."""
    flat = np.zeros(places.shape[1], np.int64)
    for place, length in zip(places, shape, strict=False):
        flat = flat * length + place
    return flat


def grid_of(shape: Sequence[int], batch: int, block: Sequence[int]) -> tuple[int, ...]:
    """A shape whose two sparse dimensions count blocks, where there are such."""
    if not block:
        return tuple(shape)
    rows, columns = (n // max(b, 1) for n, b in zip(shape[batch : batch + 2], block, strict=True))
    return (*shape[:batch], rows, columns, *shape[batch + 2 :])


# making tensors ------------------------------------------------------------------------------------------------------


def wrap_sparse(array: SparseArray) -> Tensor:
    made = object.__new__(Tensor)
    made._array = array
    made._keys = COO_MASK if array.layout is sparse_coo else COMPRESSED_MASK
    if array.values._device is not CPU:
        made._device = array.values._device
    return made


def coo(indices: Tensor, values: Tensor, shape: Sequence[int], coalesced: bool = False) -> Tensor:
    """A COO tensor on these tensors; with fewer than two elements it is coalesced in any case."""
    return wrap_sparse(SparseArray(sparse_coo, (indices,), values, shape, coalesced or indices._array.shape[1] < 2))


def empty_sparse(kind: layout, shape: Sequence[int], like: Tensor, sparse_dim: int | None = None) -> Tensor:
    """A sparse tensor without elements; its values have the type of `like`."""
    if kind is sparse_coo:
        dims = len(shape) if sparse_dim is None else sparse_dim
        return coo(wrap(np.empty((dims, 0), np.int64)), wrap(np.empty((0, *shape[dims:]), like._array.dtype)), shape)
    if kind in BLOCKED:
        raise RuntimeError("empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got "
                           f"{LAYOUT_NAMES[kind]}")
    if len(shape) < 2:
        raise RuntimeError(f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got "
                           f"size {list(shape)}")
    lead, lines = tuple(shape[:-2]), shape[-2 if kind is sparse_csr else -1]
    parts = (wrap(np.zeros((*lead, lines + 1), np.int64)), wrap(np.empty((*lead, 0), np.int64)))
    return wrap_sparse(SparseArray(kind, parts, wrap(np.empty((*lead, 0), like._array.dtype)), shape))


def emptied(array: SparseArray, kind: Any, wanted: layout | None = None) -> SparseArray:
    """A compressed array of the same dimensions and types of indices, with no elements, of a type of values."""
    wanted, indices, values = wanted or array.layout, array.parts[-1]._array.dtype, array.values._array
    batch = array.sparse_dim - 2 if array.layout is sparse_coo else array.batch
    lines = grid_of(array.shape, batch, array.block)[batch + (wanted not in BY_ROWS)]
    held = values.shape[1 if array.layout is sparse_coo else batch + 1 :]
    lead = array.shape[:batch]
    parts = (wrap(np.zeros((*lead, lines + 1), indices)), wrap(np.empty((*lead, 0), indices)))
    return SparseArray(wanted, parts, wrap(np.empty((*lead, 0, *held), kind)), array.shape)


def coo_of(array: SparseArray) -> SparseArray:
    """A compressed array as a COO one, of all elements of its blocks."""
    if array.layout is sparse_coo:
        return array
    ordered = array.layout is sparse_csr
    made = SparseArray(sparse_coo, (wrap(array.places()),), wrap(array.rows()), array.shape, ordered)
    return made.summed()


def compressed_of(array: SparseArray, kind: layout, block: tuple[int, int] | None = None,
                  batch: int | None = None) -> SparseArray:
    """An array in a compressed layout; COO ones have two sparse dimensions, or `batch` more."""
    batch = array.batch if batch is None else batch
    if array.layout is sparse_coo:
        if array.sparse_dim != batch + 2:
            raise RuntimeError(f"coo_to_sparse_{kind._name[-3:]}: conversion from Sparse to {LAYOUT_NAMES[kind]} for "
                               "input tensors with sparse_dim()!=2 is not supported")
        array = array.summed()
    indices = np.dtype(np.int64) if array.layout is sparse_coo else array.parts[0]._array.dtype
    if array.layout in BLOCKED:  # into the other one, with the same blocks
        places, rows, block = array.cells(), array.values._array, array.block
        rows = rows.reshape(math.prod(rows.shape[: batch + 1]), *rows.shape[batch + 1 :])
    else:
        places, rows = array.places(), array.rows()
        if block is not None:
            places, rows = _gathered(places, rows, array.shape, batch, block)
    grid = grid_of(array.shape, batch, block or ())
    swapped = [*range(batch), *((batch, batch + 1) if kind in BY_ROWS else (batch + 1, batch))]
    order = np.argsort(flattened(places[swapped], [grid[d] for d in swapped]), kind="stable")
    return compress(places[:, order], rows[order], array.shape, kind, batch, indices)


def _gathered(places: np.ndarray, rows: np.ndarray, shape: Sequence[int], batch: int,
              block: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Elements as blocks: the places of those that have some, and their elements, zeros among them."""
    lead, inner = places[:batch], places[batch : batch + 2]
    size = np.array(block)[:, None]
    cells, grid = np.concatenate((lead, inner // size)), grid_of(shape, batch, block)
    _, first, number = np.unique(flattened(cells, grid), return_index=True, return_inverse=True)
    made = np.zeros((len(first), *block, *rows.shape[1:]), rows.dtype)
    made[(number.reshape(-1), *(inner % size))] = rows
    return cells[:, first], made


def compress(places: np.ndarray, rows: np.ndarray, shape: tuple[int, ...], kind: layout, batch: int,
             indices: Any = np.int64) -> SparseArray:
    """The compressed array of elements, or blocks, that come in its order."""
    line, plain = (batch, batch + 1) if kind in BY_ROWS else (batch + 1, batch)
    lead = shape[:batch]
    lines = grid_of(shape, batch, rows.shape[1:3] if kind in BLOCKED else ())[line]
    bins = flattened(places[[*range(batch), line]], [*lead, lines])
    counts = np.bincount(bins, minlength=math.prod(lead) * lines).reshape((*lead, lines))
    starts = np.concatenate((np.zeros((*lead, 1), np.int64), np.cumsum(counts, axis=-1)), axis=-1)
    nnz = starts[..., -1]
    each = int(nnz.flat[0]) if nnz.size else 0
    if (nnz != each).any():
        raise RuntimeError("Expect the same number of specified elements per batch.")
    values = rows.reshape((*lead, each, *rows.shape[1:]))
    along = np.ascontiguousarray(places[plain], indices).reshape((*lead, each))
    parts = (starts.astype(indices, copy=False), along)
    return SparseArray(kind, tuple(map(wrap, parts)), wrap(values), shape)


# checks --------------------------------------------------------------------------------------------------------------


def checks_invariants(wanted: bool | None) -> bool:
    """Whether to look at the values of indices: as told, else as `check_sparse_tensor_invariants` says."""
    return modes.__dict__.get("sparse_invariants", False) if wanted is None else wanted


def check_coo(indices: Tensor, values: Tensor, size: Sequence[int], coalesced: bool, thorough: bool) -> None:
    """Raises unless the parts fit each other; `thorough` looks at each index."""
    sparse_dim, nnz = indices._array.shape
    dense_dim = values._array.ndim - 1
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
                           f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}")
    check_counts(nnz, values)
    if tuple(size[sparse_dim:]) != values._array.shape[1:]:
        raise RuntimeError(f"values has incorrect size, expected {[nnz, *size[sparse_dim:]]}, got {list(values.shape)}")
    if not thorough or not nnz:
        return
    refuse_negative(indices)
    for dim, (largest, length) in enumerate(zip(indices._array.max(1).tolist(), size, strict=False)):
        if largest >= length:
            raise RuntimeError(f"size is inconsistent with indices: for dim {dim}, size is {length} but found index "
                               f"{largest}")
    if coalesced and (np.diff(flattened(indices._array, size)) <= 0).any():
        raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


def check_counts(nnz: int, values: Tensor) -> None:
    given = values._array.shape[0]
    if given != nnz:
        raise RuntimeError(f"indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: "
                           f"{given}")


def refuse_negative(indices: Tensor) -> None:
    for dim, least in enumerate(np.asarray(indices.cpu()._array).min(1).tolist()):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")


def check_shapes(array: SparseArray) -> None:
    """Raises unless the parts of a compressed array have shapes and types that fit each other."""
    kind, parts, values, size = array.layout, array.parts, array.values, array.shape
    starts_name, plain_name, lines = PARTS[kind][:3]
    names = f"{starts_name} and {plain_name}"
    (starts, plain), batch, block = parts, parts[0].dim() - 1, 2 if kind in BLOCKED else 0
    for name, part in ((starts_name, starts), (plain_name, plain), ("values", values)):
        if part._keys & SPARSE_MASK:
            raise RuntimeError(f"expected {name} to be a strided tensor but got {LAYOUT_NAMES[part.layout]} tensor")
    if batch < 0:
        raise RuntimeError(f"{starts_name} must have dimensionality >= 1 but got 0")
    if starts.dim() != plain.dim():
        raise RuntimeError(f"{names} dimensionalities must be equal but got {starts.dim()} and {plain.dim()}, "
                           "respectively")
    dense = values.dim() - batch - block - 1
    if dense < 0:
        raise RuntimeError(f"values must have dimensionality > sum of batch and block dimensionalities (={batch} + "
                           f"{block}) but got {values.dim()}")
    if len(size) != batch + 2 + dense:
        raise RuntimeError("tensor dimensionality must be sum of batch, base, and dense dimensionalities "
                           f"(={batch} + 2 + {dense}) but got {len(size)}")
    leads = [list(shape[:batch]) for shape in (starts.shape, plain.shape, values.shape, size)]
    if any(lead != leads[-1] for lead in leads):
        raise RuntimeError(f"all batch dimensions of {starts_name} (={leads[0]}), {plain_name} (={leads[1]}), and "
                           f"values (={leads[2]}) must be equal to tensor batch dimensions (={leads[3]})")
    blocks = values.shape[batch + 1 : batch + 3] if block else ()
    for at, (length, width) in enumerate(zip(size[batch:], blocks, strict=False)):
        if not width or length % width:
            raise RuntimeError(f"tensor shape[{at}] (={length}) must be divisible with blocksize[{at}] (={width}) as "
                               "defined by values shape")
    count = grid_of(size, batch, blocks)[batch + (kind not in BY_ROWS)]
    if starts.shape[-1] != count + 1:
        raise RuntimeError(f"{starts_name}.shape[-1] must be equal to the number of {lines} + 1 (={count + 1}), but "
                           f"got {starts.shape[-1]}")
    if plain.shape[-1] != values.shape[batch]:
        raise RuntimeError(f"{plain_name}.shape[-1] must be equal to nnz (={values.shape[batch]}) as defined by "
                           f"values.shape[{batch}], but got {plain.shape[-1]}")
    for part in parts:
        if part.dtype not in (int32, int64):
            raise RuntimeError(f"{names} dtype must be Int or Long, but got {part.dtype.scalar_name}")


def check_lines(kind: layout, starts: np.ndarray, plain: np.ndarray, length: int, nnz: int) -> None:
    """Raises unless indices are those of lines with so many elements in all and places in each, in order."""
    starts_name, plain_name, _, lines, plains = PARTS[kind]
    steps = np.diff(starts, axis=-1)
    for holds, text in ((((plain >= 0) & (plain < length)).all(), f"0 <= {plain_name} < {plains}"),
                        ((starts[..., 0] == 0).all(), f"{starts_name}[..., 0] == 0"),
                        ((starts[..., -1] == nnz).all(), f"{starts_name}[..., -1] == nnz"),
                        (((steps >= 0) & (steps <= length)).all(),
                         f"0 <= {starts_name}[..., 1:] - {starts_name}[..., :-1] <= {plains}")):
        if not holds:
            raise RuntimeError(f"`{text}` is not satisfied.")
    line = np.repeat(np.arange(steps.size), steps.ravel())  # each line of each batch has its own number
    if (np.diff(line * max(length, 1) + plain.ravel()) <= 0).any():
        raise RuntimeError(f"`{plain_name}[..., {starts_name}[..., i - 1]:{starts_name}[..., i]] for all i = 1, ..., "
                           f"{lines} are sorted and distinct along the last dimension values` is not satisfied.")


def check_compressed(array: SparseArray) -> None:
    """Raises unless the parts fit each other, and the indices are those of a matrix of this shape, in order."""
    names = PARTS[array.layout][:2]
    for name, part in zip(names, array.parts, strict=True):
        if part.layout is strided and part.dim() and part.shape[-1] > 1 and part.stride(-1) != 1:
            raise RuntimeError(f"expected {name} to be a contiguous tensor per batch")
    first, second = (part.dtype for part in array.parts)
    if first is not second:
        raise RuntimeError(f"{' and '.join(names)} must have the same dtype, bot got {first.scalar_name} and "
                           f"{second.scalar_name}, respectively")
    check_shapes(array)
    length = grid_of(array.shape, array.batch, array.block)[array.batch + (array.layout in BY_ROWS)]
    starts, plain = (part._array for part in array.parts)
    check_lines(array.layout, starts, plain, length, plain.shape[-1])


def check_indices(array: SparseArray) -> None:
    """Raises unless each index of a tensor, and the order in which they are said to be, is that of its layout."""
    if array.layout is sparse_coo:
        check_coo(array.parts[0], array.values, array.shape, array.coalesced, True)
    else:
        check_compressed(array)


def is_sparse(tensor: Any) -> bool:
    """Whether something is a tensor of a sparse layout."""
    return bool(getattr(tensor, "_keys", 0) & SPARSE_MASK)
