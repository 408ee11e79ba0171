"""`array` functions of operators that CuPy should compute in another way than NumPy."""

from collections.abc import Callable, Sequence
from typing import Any

ARRAYS: dict[str, Callable] = {}


def array(*names: str) -> Callable[[Callable], Callable]:
    """Makes a function the `array` of these operators on a GPU."""

    def register(function: Callable) -> Callable:
        ARRAYS.update(dict.fromkeys(names, function))
        return function

    return register


@array("index_select")
def _index_select(xp: Any, self: Any, dim: int, index: Any, spec: Any) -> Any:
    return self.take(index.reshape(-1), dim) if self.ndim else self.copy()


@array("gather")
def _gather(xp: Any, self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    if not index.size:
        return xp.empty(index.shape, self.dtype)
    if not self.ndim or not index.ndim:
        return self.reshape(-1)[index]
    dim %= self.ndim
    within = tuple([slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape)])
    return xp.take_along_axis(self[within], index, dim)


@array("diagonal_backward")
def _diagonal_backward(xp: Any, grad: Any, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Any:
    made = xp.zeros(tuple(input_sizes), grad.dtype)
    if grad.size:
        made.diagonal(offset, dim1, dim2)[...] = grad
    return made


def _in_precision(self: Any, dtype: Any) -> Any:
    return self if dtype is None or self.dtype == dtype.np else self.astype(dtype.np if dtype.itemsize >= 4 else "f")


@array("softmax")
def _softmax(xp: Any, self: Any, dim: int, dtype: Any, spec: Any) -> Any:
    self = _in_precision(self, dtype)
    if not self.size:
        return self.copy()
    axis = dim if self.ndim else None
    made = xp.exp(self - self.max(axis, keepdims=True))
    return made / made.sum(axis, keepdims=True)


@array("log_softmax")
def _log_softmax(xp: Any, self: Any, dim: int, dtype: Any, spec: Any) -> Any:
    self = _in_precision(self, dtype)
    if not self.size:
        return self.copy()
    axis = dim if self.ndim else None
    made = self - self.max(axis, keepdims=True)
    return made - xp.log(xp.exp(made).sum(axis, keepdims=True))
