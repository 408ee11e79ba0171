"""Sparse tensors: what they hold in place of memory, how they are made and checked.

Indices and values are tensors of their own. The array that holds them is never changed: an in-place operator gives its
tensor another array.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._dispatch.keys import COMPRESSED_MASK, COO_MASK, SPARSE_MASK, modes
from .device import CPU, Size, layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .tensor import Tensor, wrap

LAYOUT_NAMES = {sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr",
                sparse_bsc: "SparseBsc"}
COMPRESSED = (sparse_csr, sparse_csc)
# The names of a compressed layout's two index tensors, and of what they count.
PARTS = {sparse_csr: ("crow_indices", "col_indices", "row", "rows", "cols"),
         sparse_csc: ("ccol_indices", "row_indices", "column", "cols", "rows")}


class SparseArray:
    """What a sparse tensor has for an array: index tensors, values, a shape.

    `parts` is one (sparse dims, nnz) tensor for COO; for the compressed layouts, where each row or column begins and
    the plain indices, both with the batch dimensions first.
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

    @property
    def strides(self) -> tuple[int, ...]:
        if self.layout is sparse_coo:
            return (0,) * len(self.shape)
        raise RuntimeError("Sparse CSR tensors do not have strides")

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

    def places(self) -> np.ndarray:
        """The indices as (batch and sparse dims, elements); IndexError if one lies outside of the shape."""
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
            pair = (line, plain.ravel()) if self.layout is sparse_csr else (plain.ravel(), line)
            found = np.stack([*lead, *pair]).astype(np.int64, copy=False)
        limits = np.array(self.shape[: len(found)], np.int64)[:, None]
        if found.size and ((found < 0) | (found >= limits)).any():
            raise IndexError(f"an index of a sparse tensor lies outside of its size {list(self.shape)}")
        return found

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
        """The values as one row an element, batches joined."""
        values = self.values._array
        return values.reshape((-1, *values.shape[self.batch + 1 :])) if self.batch else values


def flattened(places: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Index tuples (dims, elements) as places in a row-major array of the leading dimensions of `shape`."""
    flat = np.zeros(places.shape[1], np.int64)
    for place, length in zip(places, shape, strict=False):
        flat = flat * length + place
    return flat


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
    if len(shape) < 2:
        raise RuntimeError(f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got "
                           f"size {list(shape)}")
    lead, lines = tuple(shape[:-2]), shape[-2 if kind is sparse_csr else -1]
    parts = (wrap(np.zeros((*lead, lines + 1), np.int64)), wrap(np.empty((*lead, 0), np.int64)))
    return wrap_sparse(SparseArray(kind, parts, wrap(np.empty((*lead, 0), like._array.dtype)), shape))


def emptied(array: SparseArray, kind: Any) -> SparseArray:
    """A compressed array of the same dimensions and types of indices, with no elements, of a type of values."""
    starts, plain = (part._array for part in array.parts)
    lead, held = starts.shape[:-1], array.values._array.shape[array.batch + 1 :]
    parts = (wrap(np.zeros_like(starts)), wrap(np.empty((*lead, 0), plain.dtype)))
    return SparseArray(array.layout, parts, wrap(np.empty((*lead, 0, *held), kind)), array.shape)


def coo_of(array: SparseArray) -> SparseArray:
    """A compressed array as a COO one."""
    if array.layout is sparse_coo:
        return array
    made = SparseArray(sparse_coo, (wrap(array.places()),), wrap(array.rows()), array.shape)
    return made.summed() if array.layout is sparse_csc else SparseArray(
        sparse_coo, made.parts, made.values, made.shape, True)


def compressed_of(array: SparseArray, kind: layout) -> SparseArray:
    """A COO array of two sparse dimensions, or one of another compressed layout, as a compressed one."""
    batch = array.batch
    if array.layout is sparse_coo:
        if array.sparse_dim != 2:
            raise RuntimeError(f"coo_to_sparse_{kind._name[-3:]}: conversion from Sparse to {LAYOUT_NAMES[kind]} for "
                               "input tensors with sparse_dim()!=2 is not supported")
        array = array.summed()
    places, rows = array.places(), array.rows()
    if kind is sparse_csc:
        order = np.argsort(flattened(places[[*range(batch), batch + 1, batch]],
                                     [*array.shape[:batch], array.shape[batch + 1], array.shape[batch]]), kind="stable")
    else:
        order = np.argsort(flattened(places, array.shape), kind="stable")
    indices = np.dtype(np.int64) if array.layout is sparse_coo else array.parts[0]._array.dtype
    return compress(places[:, order], rows[order], array.shape, kind, batch, indices)


def compress(places: np.ndarray, rows: np.ndarray, shape: tuple[int, ...], kind: layout, batch: int,
             indices: Any = np.int64) -> SparseArray:
    """The compressed array of elements that come in its order."""
    line, plain = (batch, batch + 1) if kind is sparse_csr else (batch + 1, batch)
    lead, lines = shape[:batch], shape[line]
    bins = flattened(places[[*range(batch), line]], [*lead, lines])
    counts = np.bincount(bins, minlength=math.prod(lead) * lines).reshape((*lead, lines))
    starts = np.concatenate((np.zeros((*lead, 1), np.int64), np.cumsum(counts, axis=-1)), axis=-1)
    nnz = starts[..., -1]
    if lead and (nnz != nnz.flat[0]).any():
        raise RuntimeError("Expect the same number of specified elements per batch.")
    each = int(nnz.flat[0]) if nnz.size else 0
    values = rows.reshape((*lead, each, *rows.shape[1:]))
    parts = (starts.astype(indices, copy=False), places[plain].reshape((*lead, each)).astype(indices, copy=False))
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


def check_compressed(array: SparseArray) -> None:
    """Raises unless starts and indices are those of a matrix of this shape, in order."""
    starts_name, plain_name, line, lines, plains = PARTS[array.layout]
    starts, plain = (part._array for part in array.parts)
    batch = array.batch
    count, length = array.shape[batch : batch + 2][:: 1 if array.layout is sparse_csr else -1]
    nnz = plain.shape[-1]
    if starts.shape[-1] != count + 1:
        raise RuntimeError(f"{starts_name}.shape[-1] must be equal to the number of {line}s + 1 (={count + 1}), but "
                           f"got {starts.shape[-1]}")
    if array.values._array.shape[: batch + 1] != plain.shape:
        raise RuntimeError(f"number of dimensions and shape of {plain_name} must fit values, but got "
                           f"{list(plain.shape)} and {list(array.values.shape)}")
    steps = np.diff(starts, axis=-1)
    for holds, text in (((starts[..., 0] == 0).all(), f"{starts_name}[..., 0] == 0"),
                        ((starts[..., -1] == nnz).all(), f"{starts_name}[..., -1] == nnz"),
                        (((steps >= 0) & (steps <= length)).all(),
                         f"0 <= {starts_name}[..., 1:] - {starts_name}[..., :-1] <= n{plains}"),
                        (((plain >= 0) & (plain < length)).all(), f"0 <= {plain_name} < n{plains}")):
        if not holds:
            raise RuntimeError(f"`{text}` is not satisfied.")
    places = array.places()
    if array.layout is sparse_csc:
        places = places[[*range(batch), batch + 1, batch]]
    if (np.diff(flattened(places, [*array.shape[:batch], count, length])) <= 0).any():
        raise RuntimeError(f"`{plain_name}[..., {starts_name}[..., i - 1]:{starts_name}[..., i]] for all i = 1, ..., "
                           f"n{lines} are sorted and distinct along the last dimension values` is not satisfied.")


def check_indices(array: SparseArray) -> None:
    """Raises unless each index of a tensor, and the order in which they are said to be, is that of its layout."""
    if array.layout is sparse_coo:
        check_coo(array.parts[0], array.values, array.shape, array.coalesced, True)
    else:
        check_compressed(array)


def is_sparse(tensor: Any) -> bool:
    """Whether something is a tensor of a sparse layout."""
    return bool(getattr(tensor, "_keys", 0) & SPARSE_MASK)
