"""Rows of sparse matrices, as one index an element or as where each row begins, and from one to the other."""

from typing import Any

from ..._core.dtype import INT, dtype, int32, int64
from ..._core.tensor import Tensor
from .._declare.families import moves
from .._declare.op import op
from .._declare.rules import Spec
from .._declare.samples import case, cases, error, ints, values


def _check_integral(kind: dtype, name: str) -> None:
    if kind.category != INT:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind.scalar_name}'")


def _pointers_spec(self: Tensor, size: int, out_int32: bool) -> Spec:
    if self._array.ndim > 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {self._array.ndim} dimensional tensor.")
    if size < 0:
        raise RuntimeError(f"convert_indices_from_coo_to_csr(): size must not be negative, but got {size}")
    _check_integral(self.dtype, "convert_indices_from_coo_to_csr")
    return Spec((size + 1,), int32 if out_int32 else int64)


def _pointers(xp: Any, self: Any, size: int, out_int32: bool) -> Any:
    return xp.searchsorted(self.reshape(-1), xp.arange(size + 1), side="left")


op("_convert_indices_from_coo_to_csr(Tensor self, int size, *, bool out_int32=False) -> Tensor", public="torch",
   kernel=moves(_pointers_spec, _pointers),
   samples=cases(case(values([0, 0, 2, 2, 3]), 5), case(values([0, 1, 1]), 2, out_int32=True), case(ints(0), 3),
                 case(values([4]), 4), case(values([0, 2]), 0),
                 error(RuntimeError, "Input is supposed to be a vector, but got 2 dimensional tensor.", ints(2, 2), 3)))


def _rows_spec(crow_indices: Tensor, col_indices: Tensor, out_int32: bool, transpose: bool) -> Spec:
    _check_integral(crow_indices.dtype, "convert_indices_from_csr_to_coo")
    shape = col_indices._array.shape
    count = col_indices._array.size
    return Spec((len(shape) + 1, count), int32 if out_int32 else int64)


def _rows(xp: Any, crow_indices: Any, col_indices: Any, out_int32: bool, transpose: bool) -> Any:
    width, height = col_indices.shape[-1], crow_indices.shape[-1] - 1
    batch = col_indices.shape[:-1]
    lengths = xp.diff(crow_indices.reshape(-1, height + 1), axis=1)
    rows = xp.repeat(xp.tile(xp.arange(height), len(lengths)), lengths.reshape(-1).astype(xp.int64))
    columns = col_indices.reshape(-1)
    leading = [axis.reshape(-1).repeat(width) for axis in xp.indices(batch)] if batch else []
    return xp.stack([*leading, *((columns, rows) if transpose else (rows, columns))])


op("_convert_indices_from_csr_to_coo(Tensor crow_indices, Tensor col_indices, *, bool out_int32=False, bool"
   " transpose=False) -> Tensor", public="torch", kernel=moves(_rows_spec, _rows),
   samples=cases(case(values([0, 2, 2, 3]), values([0, 1, 2])),
                 case(values([0, 2, 3]), values([0, 1, 2]), out_int32=True),
                 case(values([0, 2, 2, 3]), values([0, 1, 2]), transpose=True), case(values([0, 0]), ints(0)),
                 case(values([[0, 1, 3], [0, 2, 3]]), values([[0, 1, 2], [3, 4, 5]]))))
