"""Puts the declared operators where users look for them."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.dtype import INT
from ..._core.from_data import from_numpy
from ..._core.tensor import Tensor
from ..._dispatch.callers import make_operator, takes_only_tensors
from .op import DECLARATIONS, PUBLIC, public_functions

FAMILIES = """
    copy create implicit random dropout pointwise clamp compare elementary special activation reduce extreme moments
    softmax scan sort unique rearrange view join slice stride marks index scatter masked linear matmul products
    einsum norm batch_norm group_norm channel_norm loss class_loss embedding distance attention pool adaptive_pool
    unpool resample grid rnn ctc linalg.common linalg.triangular linalg.factor linalg.solve linalg.spectral
    linalg.lstsq linalg.measure foreach fused_steps fft window_functions quantized_products spectral histogram
    segments conv fold sparse.layouts sparse.products sparse.indices grouped
""".split()

for _family in FAMILIES:
    importlib.import_module(f"{__package__.rpartition('.')[0]}.{_family}")


def attach_methods() -> None:
    """Gives Tensor the methods of all declared operators, and Python's operators on top of them."""
    functions = public_functions("Tensor")
    for name, function in functions.items():
        setattr(Tensor, name, function)
    for declaration in DECLARATIONS.values():
        for word in declaration.special.split():
            special, name = f"__{word.lstrip('-')}__", declaration.operator.schema.base_name
            name += "_" if word.startswith("i") else ""
            setattr(Tensor, special, _operator(functions[name], name, special, word.startswith("-")))
    for special in ("__rtruediv__", "__rdiv__"):
        setattr(Tensor, special, _reflected_division)
    Tensor.__invert__ = _inverted  # type: ignore[method-assign]


def _inverted(self: Any) -> Any:
    if self.dtype.category > INT:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return self.bitwise_not()


def _reflected_division(self: Any, other: Any) -> Any:
    """`other / self` as PyTorch rounds it: by way of the reciprocal."""
    reciprocal = self.reciprocal()
    product = reciprocal.__mul__(other)
    return reciprocal * other if product is NotImplemented and isinstance(other, np.ndarray) else product


def _operator(function: Callable, name: str, special: str, reflected: bool) -> Callable:
    """The method behind an operator: what it cannot take is left to the other operand."""
    if special in _UNARY:
        return function
    call = (lambda a, b: function(b, a)) if reflected else function
    takes_arrays = special in _OF_ARRAYS
    operators = PUBLIC["Tensor"][name]

    def foreign(self: Tensor, other: Any) -> Any:
        if hasattr(type(other), "__torch_function__"):
            return call(self, other)
        if isinstance(other, (int, float, complex, np.number, np.bool_)):
            return NotImplemented if takes_only_tensors(operators[0]) else call(self, other)
        if takes_arrays and isinstance(other, np.ndarray):
            return call(self, _of_array(other)) if other.dtype.kind in "biufc" else NotImplemented
        return NotImplemented

    if len(operators) == 1 and len(operators[0].schema.positional) == 2:
        return make_operator(operators[0], special, Tensor, reflected=reflected, foreign=foreign)

    def operator(self: Tensor, other: Any) -> Any:
        return call(self, other) if isinstance(other, Tensor) else foreign(self, other)

    operator.__name__ = operator.__qualname__ = special
    return operator


_UNARY = ("__neg__", "__abs__")
# The operator that takes an ndarray on its right; NumPy computes the others.
_OF_ARRAYS = frozenset(("__eq__",))


def _of_array(array: np.ndarray) -> Tensor:
    """An ndarray as an operand; PyTorch reads booleans as uint8."""
    return from_numpy(array.astype(np.uint8) if array.dtype.kind == "b" else array)
