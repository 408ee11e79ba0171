"""Making sparse tensors, and the Tensor methods that only they have."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._dispatch.argument_checks import checked_int, expected
from .._dispatch.callers import call_bound
from .._dispatch.keys import COO_MASK
from .._dispatch.registry import registry
from .._ops.sparse import layouts as _ops
from .._ops.sparse.products import hspmm, smm
from .._utils import when_filled
from .convert import overridable
from .device import CPU, as_device, layout, sparse_coo, sparse_csc, sparse_csr, strided
from .dtype import dtype as dtype_type
from .dtype import get_default_dtype, int64
from .from_data import tensor
from .sparse import (
    BLOCKED,
    BY_ROWS,
    COMPRESSED,
    LAYOUT_NAMES,
    PARTS,
    SparseArray,
    check_compressed,
    check_coo,
    check_counts,
    check_indices,
    check_lines,
    check_shapes,
    checks_invariants,
    empty_sparse,
    is_sparse,
    refuse_negative,
)
from .tensor import Tensor, wrap

__all__ = ["hspmm", "smm", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor",
           "sparse_csc_tensor", "sparse_csr_tensor"]

# constructors --------------------------------------------------------------------------------------------------------


def _check_device(device: Any) -> None:
    if (device is not None and as_device(device) != CPU) or as_device(None) != CPU and device is None:
        raise NotImplementedError(f"sparse tensors live on the CPU only, not on {as_device(device)}")


def _data(data: Any, dtype: dtype_type | None) -> Tensor:
    """Values or indices given as a tensor, whose history stays, or as nested lists."""
    if not isinstance(data, Tensor):
        data = tensor(data) if dtype is None else tensor(data, dtype=dtype)
    return data if dtype is None else data.to(dtype)


def _sequence(size: Any) -> Sequence[Any]:
    if not isinstance(size, (tuple, list)):
        raise TypeError(expected("sparse tensor", "size", "tuple of ints", size))
    return size


def _sizes(size: Sequence[int]) -> tuple[int, ...]:
    size = tuple(checked_int("sparse tensor", "size", n) for n in _sequence(size))
    if any(n < 0 for n in size):
        raise RuntimeError("numel: integer multiplication overflow")
    return size


def _finished(made: Tensor, requires_grad: bool) -> Tensor:
    return made.requires_grad_() if requires_grad and not made.requires_grad else made


def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *, dtype: dtype_type | None = None,
                      device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None, is_coalesced: bool | None = None) -> Tensor:
    """A COO tensor: the element at `indices[:, i]` is `values[i]`, which may have dimensions of its own."""
    _check_device(device)
    if values is None:
        size = indices if size is None else size
        if isinstance(size, Tensor) or not isinstance(size, (tuple, list)):
            raise TypeError("sparse_coo_tensor(): argument 'size' (position 1) must be tuple of ints, not "
                            f"{type(size).__name__}")
        like = wrap(np.empty(0, (dtype or get_default_dtype()).np))
        return _finished(empty_sparse(sparse_coo, _sizes(size), like), requires_grad)
    values = _data(values, dtype)
    indices = _data(indices, int64).detach()
    if indices.dim() == 1 and size is not None:
        indices = indices.unsqueeze(1)  # read as one column, whose length then does not fit
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if not values.dim():
        values = values.reshape(1)
    if size is None:
        check_counts(indices.size(1), values)
        if indices.numel():
            refuse_negative(indices)
        largest = indices._array.max(1).tolist() if indices.size(1) else [-1] * len(indices)
        size = (*(n + 1 for n in largest), *values.shape[1:])
    size = _sizes(size)
    check_coo(indices, values, size, bool(is_coalesced), checks_invariants(check_invariants))
    made = call_bound(registry.get("_sparse_coo_tensor_with_dims_and_tensors"),
                      (len(indices), values.dim() - 1, size, indices, values, bool(is_coalesced)))
    return _finished(made, requires_grad)


def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
                             dtype: dtype_type | None = None, layout: layout | None = None, device: Any = None,
                             pin_memory: bool = False, requires_grad: bool = False,
                             check_invariants: bool | None = None) -> Tensor:
    """A tensor of a compressed layout out of where each row or column begins, the indices along it, and the values."""
    _check_device(device)
    if layout not in COMPRESSED:
        found = "none" if layout is None else LAYOUT_NAMES.get(layout, "Strided")
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {found}")
    parts = tuple(_data(part, None).detach() for part in (compressed_indices, plain_indices))
    values = _data(values, dtype)
    size = _inferred_size(layout, parts, values) if size is None else tuple(
        checked_int("sparse tensor", "size", n) for n in _sequence(size))
    check = check_compressed if checks_invariants(check_invariants) else check_shapes
    check(SparseArray(layout, parts, values, size))
    _sizes(size)
    made = call_bound(registry.get("_sparse_compressed_tensor"), (*parts, values, size, layout))
    return _finished(made, requires_grad)


def _inferred_size(kind: layout, parts: Sequence[Tensor], values: Tensor) -> tuple[int, ...]:
    """The least size that has room for indices and values."""
    starts, plain = parts
    lead = tuple(plain.shape[:-1])
    block: Sequence[int] = values.shape[len(lead) + 1 : len(lead) + 3] if kind in BLOCKED else ()
    lines, width = starts.shape[-1] - 1 if starts.dim() else 0, int(plain._array.max()) + 1 if plain.numel() else 0
    pair = (lines, width) if kind in BY_ROWS else (width, lines)
    if len(block) == 2:
        pair = (pair[0] * block[0], pair[1] * block[1])
    return (*lead, *pair, *values.shape[len(lead) + 1 + len(block) :])


def _constructor(kind: layout) -> Callable:
    starts, plain = PARTS[kind][:2]
    name = f"{kind._name}_tensor"

    def make(*args: Any, layout: layout | None = None, **options: Any) -> Tensor:
        if layout not in (None, kind):
            raise RuntimeError(f"{name}: layout must be {LAYOUT_NAMES[kind]} but got "
                               f"{LAYOUT_NAMES.get(layout, 'Strided')}")
        options = {_SAME_PART.get(key, key): value for key, value in options.items()}
        return sparse_compressed_tensor(*args, layout=kind, **options)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor of layout {kind} out of {starts}, {plain} and values."
    return make


_SAME_PART = {**dict.fromkeys(("crow_indices", "ccol_indices"), "compressed_indices"),
              **dict.fromkeys(("col_indices", "row_indices"), "plain_indices")}
sparse_csr_tensor, sparse_csc_tensor, sparse_bsr_tensor, sparse_bsc_tensor = map(_constructor, COMPRESSED)


def _validator(kind: layout) -> Callable:
    def check(starts: Tensor, plain: Tensor, values: Tensor, size: Any, *, check_pinning: bool | None = None) -> None:
        _validate_sparse_compressed_tensor_args(starts, plain, values, size, kind)

    check.__name__ = check.__qualname__ = f"_validate_{kind._name}_tensor_args"
    check.__doc__ = f"Raises unless these are the parts of a tensor of layout {kind}."
    return check


def _validate_sparse_coo_tensor_args(indices: Tensor, values: Tensor, size: Any,
                                     is_coalesced: bool | None = None) -> None:
    """Raises unless these are the parts of a COO tensor."""
    sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=is_coalesced)


def _validate_sparse_compressed_tensor_args(compressed_indices: Tensor, plain_indices: Tensor, values: Tensor,
                                            size: Any, layout: layout, *, check_pinning: bool | None = None) -> None:
    """Raises unless these are the parts of a tensor of a compressed layout."""
    sparse_compressed_tensor(compressed_indices, plain_indices, values, size, layout=layout, check_invariants=True)


(_validate_sparse_csr_tensor_args, _validate_sparse_csc_tensor_args, _validate_sparse_bsr_tensor_args,
 _validate_sparse_bsc_tensor_args) = map(_validator, COMPRESSED)


def _validate_compressed_sparse_indices(is_crow: bool, compressed_idx: Tensor, plain_idx: Tensor, cdim: int, dim: int,
                                        nnz: int) -> None:
    """Raises unless these are indices of `cdim` lines of `dim` places, `nnz` in each batch."""
    kind = sparse_csr if is_crow else sparse_csc
    for name, part, wanted, word in ((PARTS[kind][0], compressed_idx, cdim + 1, "dimension + 1"),
                                     (PARTS[kind][1], plain_idx, nnz, "nnz")):
        if part.size(-1) != wanted:
            raise RuntimeError(f"{name} have wrong shape: {name}.shape[-1] = {part.size(-1)} is not equal to {word} = "
                               f"{wanted}")
    check_lines(kind, compressed_idx._array, plain_idx._array, dim, nnz)


BY_COLUMNS = tuple(kind for kind in COMPRESSED if kind not in BY_ROWS)

# methods -------------------------------------------------------------------------------------------------------------


def _of_coo(name: str, *, checked: bool) -> Callable:
    """A method that gives a part of a COO tensor; `checked` ones want it coalesced."""

    def method(self: Tensor) -> Any:
        if self.layout is not sparse_coo:
            if not checked:
                _ops.refuse_backend(f"aten::{name}", "SparseCsrCPU" if is_sparse(self) else "CPU", self)
            _ops.refuse_layout(name, "sparse coordinate tensor", self)
        array = self._array
        if checked and name == "indices" and not array.coalesced:
            raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
        return array.coalesced if name == "is_coalesced" else (array.parts[0] if "indices" in name else array.values)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The {name.strip('_')} of a COO tensor." if name != "is_coalesced" else (
        "Whether the indices of a COO tensor are sorted, each there once.")
    return method


def _values(self: Tensor) -> Tensor:
    """The values of a coalesced or compressed tensor; their gradient is sparse."""
    if not is_sparse(self):
        _ops.refuse_layout("values", "sparse tensor", self)
    if self.layout is sparse_coo and not self._array.coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return _ops.values_of(self)


def _part(name: str, by_rows: bool, number: int) -> Callable:
    def method(self: Tensor) -> Tensor:
        if self.layout not in (BY_ROWS if by_rows else BY_COLUMNS):
            _ops.refuse_layout(name, f"sparse {'row' if by_rows else 'column'} compressed tensor", self)
        return self._array.parts[number]

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The {name} of a tensor compressed by {'rows' if by_rows else 'columns'}."
    return method


def _sparse_dim(self: Tensor) -> int:
    """The number of dimensions that indices name."""
    return self._array.sparse_dim if is_sparse(self) else 0


def _dense_dim(self: Tensor) -> int:
    """The number of dimensions that each value has of its own."""
    return self._array.dense_dim if is_sparse(self) else self.dim()


def _to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in layout torch.sparse_coo."""
    return _ops.to_sparse(self)


def _nnz(self: Tensor) -> int:
    if not is_sparse(self):
        _ops.refuse_backend("aten::_nnz", "CPU", self)
    return self._array.nnz


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    array = self._array
    self._array = SparseArray(array.layout, array.parts, array.values, array.shape, coalesced)
    return self


def _to_layout(kind: layout) -> Callable:
    def method(self: Tensor, dense_dim: int | None = None) -> Tensor:
        return _ops.to_sparse(self, layout=kind, dense_dim=dense_dim)

    def method_of_blocks(self: Tensor, blocksize: tuple[int, int], dense_dim: int | None = None) -> Tensor:
        return _ops.to_sparse(self, layout=kind, blocksize=blocksize, dense_dim=dense_dim)

    made = method_of_blocks if kind in BLOCKED else method
    made.__name__ = made.__qualname__ = f"to_{kind._name}"
    made.__doc__ = f"The tensor in layout {kind}; itself if it is."
    return made


def sparse_resize_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """This tensor with another size; one that has elements keeps them, and so can only grow."""
    array, size = self._array, _sizes(size)
    if self.layout is not sparse_coo:
        _ops.refuse_layout("sparse_resize_", "sparse coordinate tensor", self)
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got "
                           f"{len(size)}")
    if not array.nnz:
        self._array = empty_sparse(sparse_coo, size, array.values, sparse_dim)._array
        return self
    if (sparse_dim, dense_dim) != (array.sparse_dim, array.dense_dim):
        raise RuntimeError("changing the number of sparse or dense dimensions on a non-empty sparse tensor is not "
                           "supported.")
    for word, old, new in (("sparse", array.shape[:sparse_dim], size[:sparse_dim]),
                           ("dense", array.shape[sparse_dim:], size[sparse_dim:])):
        if any(n < o for o, n in zip(old, new, strict=True)):
            raise RuntimeError(f"shrinking the size of {word} dimensions (from {list(old)} to {list(new)}) on a "
                               "non-empty sparse tensor is not supported.")
    values = array.values.new_zeros((array.nnz, *size[sparse_dim:]))
    values[tuple(slice(n) for n in array.values.shape)] = array.values
    self._array = SparseArray(sparse_coo, array.parts, values, size, array.coalesced)
    return self


def sparse_resize_and_clear_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """This tensor with another size and no elements."""
    self._array = empty_sparse(sparse_coo, _sizes(size), self._array.values, sparse_dim)._array
    return self


def rebuild(kind: layout, data: tuple) -> Tensor:
    """The tensor that a pickle describes: what a file says of its indices is looked at, as soon as they are read."""
    count = 2 if kind is sparse_coo else 3
    parts, (size, *coalesced) = data[:count], data[count:] or ((),)
    if not all(isinstance(part, Tensor) and part.layout is strided and part.device is CPU and part.dim()
               for part in parts) or len(coalesced) > (kind is sparse_coo) or len(data) <= count:
        raise TypeError("a sparse tensor is rebuilt of tensors on the CPU and a size")
    if not isinstance(size, (tuple, list)) or any(n.__class__ is not int or n >> 63 for n in size):
        raise TypeError("the size of a sparse tensor must be made of integers")
    if kind is sparse_coo and parts[0].dtype is not int64:
        raise TypeError(f"the indices of a sparse tensor must be of type int64, not {parts[0].dtype}")
    flag = bool(coalesced and coalesced[0] is True)
    if math.prod(n or 1 for n in size) >> 63:
        raise RuntimeError("numel: integer multiplication overflow")
    if kind is sparse_coo:
        made = sparse_coo_tensor(parts[0], parts[1], size, check_invariants=False, is_coalesced=flag)
    else:
        made = sparse_compressed_tensor(parts[0], parts[1], parts[2], size, layout=kind, check_invariants=False)
    when_filled(lambda: check_indices(made._array))
    return made


_METHODS: dict[str, Callable] = {
    **{name: _of_coo(name, checked=not name.startswith("_")) for name in
       ("indices", "_indices", "_values", "is_coalesced")},
    "_coalesced_": _coalesced_, "_nnz": _nnz, "_dimI": lambda self: self._array.sparse_dim,
    "_dimV": lambda self: self._array.dense_dim,
    "ccol_indices": _part("ccol_indices", False, 0), "coalesce": _ops.coalesce,
    "col_indices": _part("col_indices", True, 1), "crow_indices": _part("crow_indices", True, 0),
    "dense_dim": _dense_dim,
    "row_indices": _part("row_indices", False, 1), "smm": smm,
    "sparse_dim": _sparse_dim,
    "sparse_resize_": sparse_resize_, "sparse_resize_and_clear_": sparse_resize_and_clear_,
    "to_dense": _ops.to_dense, "to_sparse": _ops.to_sparse, "to_sparse_coo": _to_sparse_coo,
    **{f"to_{kind._name}": _to_layout(kind) for kind in COMPRESSED},
    "values": _values,
}


# What they take after `self`; the others take nothing.
_PARAMETERS = {
    "_coalesced_": "bool coalesced", "smm": "Tensor mat",
    **dict.fromkeys(("sparse_resize_", "sparse_resize_and_clear_"), "int[] size, int sparse_dim, int dense_dim"),
    "to_dense": "ScalarType? dtype=None, *, bool? masked_grad=None",
    "to_sparse": "int sparse_dim=None, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None",
    **{f"to_{kind._name}": "int[2] blocksize, " * (kind in BLOCKED) + "int? dense_dim=None" for kind in COMPRESSED},
}


def _is_coo(self: Tensor) -> bool:
    return bool(self._keys & COO_MASK)


def _is_csr(self: Tensor) -> bool:
    return self.layout is sparse_csr


def attach() -> None:
    """Gives Tensor the methods of this module."""
    for name, test in (("is_sparse", _is_coo), ("is_sparse_csr", _is_csr)):
        setattr(Tensor, name, property(test))
    for name, method in _METHODS.items():
        setattr(Tensor, name, overridable(name, method, _PARAMETERS.get(name, "")))
