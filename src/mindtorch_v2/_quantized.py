"""Quantized tensors: integers with a scale and a zero point, for a whole tensor or for each place along an axis.

A QuantizedTensor keeps its integers in a tensor of their own. What moves elements moves those; what computes is
refused, as in PyTorch, with few exceptions: a program dequantizes, computes, and quantizes again.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

import mindtorch_v2 as torch

from ._compat.old_names import per_channel_affine, per_tensor_affine, qscheme
from ._core.dtype import NAMES
from ._core.geometry import wrapped_dim
from ._core.printing import _contents, _joined
from ._core.storage import TypedStorage
from ._core.wrapper_subclass import make_wrapper_subclass

__all__ = ["QuantizedTensor", "choose_qparams", "dequantize", "fake_quantize_per_channel_affine",
           "fake_quantize_per_tensor_affine", "int_repr", "linear_dynamic", "q_per_channel_axis",
           "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "quantize_per_channel",
           "quantize_per_tensor", "quantize_per_tensor_dynamic"]
_INTEGERS = {NAMES["quint8"]: torch.uint8, NAMES["qint8"]: torch.int8, NAMES["qint32"]: torch.int32}
_QUANTIZED = {integer: kind for kind, integer in _INTEGERS.items()}


class Quantizer(NamedTuple):
    """How integers stand for numbers; with an axis, scale and zero point are vectors along it."""

    scale: Any
    zero_point: Any
    axis: int | None = None

    def along(self, ndim: int) -> tuple[Any, Any]:
        """Scale and zero point in float32, to be broadcast over a tensor."""
        if self.axis is None:
            return np.float32(self.scale).item(), float(self.zero_point)
        shape = [-1 if d == self.axis else 1 for d in range(ndim)]
        return self.scale.float().reshape(shape), self.zero_point.float().reshape(shape)


class QuantizedTensor(torch.Tensor):
    """A tensor of torch.qint8, torch.quint8 or torch.qint32."""

    _ints: Any
    _quantizer: Quantizer

    dtype = property(lambda self: _QUANTIZED[self._ints.dtype])  # type: ignore[assignment]
    is_quantized = property(lambda self: True)

    def int_repr(self) -> Any:
        """The integers."""
        return self._ints.clone()

    def dequantize(self) -> Any:
        """The numbers that the integers stand for, in float32."""
        scale, zero_point = self._quantizer.along(self.dim())
        return (self._ints.float() - zero_point) * scale

    def qscheme(self) -> qscheme:
        return per_tensor_affine if self._quantizer.axis is None else per_channel_affine

    def q_scale(self) -> float:
        self._wants("quantizer->qscheme() == kPerTensorAffine", self._quantizer.axis is None)
        return self._quantizer.scale

    def q_zero_point(self) -> int:
        self._wants("quantizer->qscheme() == kPerTensorAffine", self._quantizer.axis is None)
        return self._quantizer.zero_point

    def q_per_channel_scales(self) -> Any:
        self._wants(_PER_CHANNEL, self._quantizer.axis is not None)
        return self._quantizer.scale

    def q_per_channel_zero_points(self) -> Any:
        self._wants(_PER_CHANNEL, self._quantizer.axis is not None)
        return self._quantizer.zero_point

    def q_per_channel_axis(self) -> int:
        self._wants(_PER_CHANNEL, self._quantizer.axis is not None)
        assert self._quantizer.axis is not None
        return self._quantizer.axis

    def _wants(self, condition: str, holds: bool) -> None:
        if not holds:
            raise RuntimeError(f"Expected {condition} to be true, but got false.  (Could this error message be "
                               "improved?  If so, please report an enhancement request to PyTorch.)")

    def item(self) -> float:
        return self.dequantize().item()

    def tolist(self) -> NoReturn:
        raise RuntimeError("load_scalar: invalid type")

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        scale, zero_point, axis = self._quantizer
        suffixes = [f"size={tuple(self.shape)}", f"dtype={self.dtype}", f"quantization_scheme={self.qscheme()}",
                    f"scale={scale}", f"zero_point={zero_point}", *([] if axis is None else [f"axis={axis}"])]
        numbers = np.asarray(self.dequantize()._array)
        return _joined("tensor(" + _contents(numbers, torch.float32, 7), suffixes, 7)

    __str__ = __repr__

    def __reduce_ex__(self, protocol: Any) -> Any:
        from ._utils import _rebuild_qtensor

        storage = TypedStorage(wrap_storage=self._ints.untyped_storage(), dtype=self.dtype)
        parameters = (self.qscheme(), *self._quantizer[: 2 if self._quantizer.axis is None else 3])
        return _rebuild_qtensor, (storage, self._ints.storage_offset(), tuple(self._ints.shape), self._ints.stride(),
                                  parameters, False, {})

    def __deepcopy__(self, memo: dict) -> "QuantizedTensor":
        memo[id(self)] = copied = quantized(self._ints.clone(), *self._quantizer)
        return copied

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        handler = _FUNCTIONS.get(name)
        if handler is None:
            raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'QuantizedCPU' backend: "
                                      "compute with dequantize()")
        return handler(func, *args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError(f"Could not run '{func}' with arguments from the 'QuantizedCPU' backend")


_PER_CHANNEL = ("quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams")


def quantized(ints: Any, scale: Any, zero_point: Any, axis: int | None = None) -> QuantizedTensor:
    """A quantized tensor on integers."""
    made = make_wrapper_subclass(QuantizedTensor, ints.shape, strides=ints.stride(), dtype=ints.dtype,
                                 device=ints.device)
    made._ints, made._quantizer = ints, Quantizer(scale, zero_point, axis)
    return made


# quantizing ----------------------------------------------------------------------------------------------------------


def _rounded(values: Any, quantizer: Quantizer, integer: Any) -> Any:
    """The integers that are nearest to numbers, ties to even."""
    limits = torch.iinfo(integer)
    scale, zero_point = quantizer.along(values.dim())
    inverse = 1.0 / scale if not isinstance(scale, float) else (
        float(np.float32(1.0) / np.float32(scale)) if scale else math.inf)
    return (values * inverse + zero_point).round().clamp(limits.min, limits.max).to(integer)


def _checked(input: Any, dtype: Any) -> Any:
    """The type of the integers of a quantized type."""
    if dtype not in _INTEGERS:
        if str(dtype) in ("torch.quint4x2", "torch.quint2x4"):
            raise NotImplementedError(f"there are no tensors of {dtype} here: use torch.quint8 or torch.qint8")
        raise RuntimeError(f"ScalarType {dtype.scalar_name} is not supported in new_qtensor.")
    if input.dtype is not torch.float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {input.dtype.scalar_name}")
    return _INTEGERS[dtype]


def _check_zero_points(name: str, points: Sequence[int], integer: Any) -> None:
    limits = torch.iinfo(integer)
    for point in points:
        if point > limits.max:
            raise RuntimeError(f"{name} zero_point {point} is above upper bound.")
        if point < limits.min:
            raise RuntimeError(f"{name} zero_point {point} is below lower bound.")


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """A tensor, or each of a list, rounded to integers with one scale and zero point."""
    if isinstance(input, (list, tuple)):
        return tuple(quantize_per_tensor(x, s.item(), int(z), dtype)
                     for x, s, z in zip(input, scale, zero_point, strict=True))
    integer = _checked(input, dtype)
    scale, zero_point = float(scale), int(zero_point)
    _check_zero_points("quantize_tensor_per_tensor_affine", [zero_point], integer)
    return quantized(_rounded(input.detach(), Quantizer(scale, zero_point), integer), scale, zero_point)


def quantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, dtype: Any) -> QuantizedTensor:
    """A tensor rounded to integers with a scale and a zero point for each place along an axis."""
    integer = _checked(input, dtype)
    if not 0 <= axis < input.dim():
        raise RuntimeError(f"Channel axis out of range in per channel affine quantization. Got: {axis}Expected: [0, "
                           f"{input.dim()})")
    for name, given in (("scales", scales), ("zero_points", zero_points)):
        if given.numel() != input.shape[axis]:
            raise RuntimeError(f"length of {name} must equal to channel, expected {input.shape[axis]} got, "
                               f"{given.numel()}")
    quantizer = Quantizer(scales.detach().to(torch.float64), zero_points.detach().to(torch.int64), axis)
    _check_zero_points("quantize_tensor_per_channel_affine", quantizer.zero_point.tolist(), integer)
    return quantized(_rounded(input.detach(), quantizer, integer), *quantizer)


def choose_qparams(values: Any, least: int, most: int) -> tuple[float, int]:
    """Scale and zero point with which the integers between two span all numbers of a tensor and 0."""
    low, high = (min(float(values.min()), 0.0), max(float(values.max()), 0.0)) if values.numel() else (0.0, 0.0)
    scale = (high - low) / (most - least)
    if np.float32(scale) == 0 or math.isinf(1.0 / np.float32(scale)):
        scale = 0.1
    if scale < 6.1e-5:  # the inverse of a smaller one loses accuracy
        factor = 6.1e-5 / scale
        low, high, scale = (-6.1e-5 * (most - least), 0.0, 6.1e-5) if high == 0 else (
            (0.0, 6.1e-5 * (most - least), 6.1e-5) if low == 0 else (low * factor, high * factor, 6.1e-5))
    from_low, from_high = least - low / scale, most - high / scale
    chosen = from_low if abs(least) + abs(low / scale) < abs(most) + abs(high / scale) else from_high
    return scale, round(min(max(chosen, least), most))


def quantize_per_tensor_dynamic(input: Any, dtype: Any, reduce_range: bool) -> Any:
    """A tensor rounded to integers whose scale and zero point span its numbers; `reduce_range` leaves out a bit."""
    if dtype is torch.float16:
        return input.to(torch.float16)
    limits = torch.iinfo(_checked(input, dtype))
    bit = 2 if reduce_range else 1
    return quantize_per_tensor(input, *choose_qparams(input, int(limits.min / bit), limits.max // bit), dtype)


def _choose_qparams_per_tensor(input: Any, reduce_range: bool = False) -> tuple[float, int]:
    return choose_qparams(input, 0, 127 if reduce_range else 255)


def _make_per_tensor_quantized_tensor(input: Any, scale: float, zero_point: int) -> QuantizedTensor:
    return quantized(input.clone(), float(scale), int(zero_point))


def _make_per_channel_quantized_tensor(input: Any, scale: Any, zero_point: Any, axis: int) -> QuantizedTensor:
    return quantized(input.clone(), scale.to(torch.float64), zero_point.to(torch.int64), axis)


def dequantize(input: Any) -> Any:
    """The numbers of a quantized tensor, or of each of a list, in float32."""
    return tuple(map(dequantize, input)) if isinstance(input, (list, tuple)) else input.dequantize()


def _function(name: str) -> Callable:
    def function(input: Any) -> Any:
        return getattr(input, name)()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(QuantizedTensor, name).__doc__ or f"What {name}() of a quantized tensor gives."
    return function


int_repr, q_scale, q_zero_point, q_per_channel_scales, q_per_channel_zero_points, q_per_channel_axis = map(_function, (
    "int_repr", "q_scale", "q_zero_point", "q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis"))

class _FakeQuantized(torch.autograd.Function):
    """Numbers rounded to those that integers stand for; the gradient passes where they are within the limits."""

    @staticmethod
    def forward(ctx: Any, input: Any, scale: Any, zero_point: Any, least: int, most: int) -> Any:
        places = (input * (1.0 / scale)).round() + zero_point
        ctx.inside = (places >= least) & (places <= most)
        return ((places.clamp(least, most) - zero_point) * scale).to(input.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple:
        return grad * ctx.inside, None, None, None, None


def fake_quantize_per_tensor_affine(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    """Numbers as they are after quantizing and dequantizing."""
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")
    if not quant_min <= int(zero_point) <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return _FakeQuantized.apply(input, np.float32(float(scale)).item(), float(zero_point), quant_min, quant_max)


def fake_quantize_per_channel_affine(input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int,
                                     quant_max: int) -> Any:
    """Numbers as they are after quantizing and dequantizing with a scale and zero point for each place of an axis."""
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")
    if scale.numel() != input.shape[axis]:
        raise RuntimeError("dimensions of scale and input should match")
    own = Quantizer(scale.detach(), zero_point.detach(), axis).along(input.dim())
    return _FakeQuantized.apply(input, *own, quant_min, quant_max)


# functions that take them --------------------------------------------------------------------------------------------

_FUNCTIONS: dict[str, Callable] = {}


def _serves(*names: str) -> Callable:
    def register(handler: Callable) -> Callable:
        _FUNCTIONS.update(dict.fromkeys(names, handler))
        return handler

    return register


@_serves("clone", "contiguous", "detach", "cpu", "__copy__")
def _same(func: Callable, self: Any, *args: Any, **options: Any) -> Any:
    return quantized(func(self._ints, *args, **options), *self._quantizer)


@_serves("view", "reshape", "flatten", "unsqueeze", "squeeze", "select", "__getitem__", "narrow", "expand", "unflatten",
         "index_select", "permute", "chunk", "split", "unbind", "repeat", "max", "min")
def _moved(func: Callable, self: Any, *args: Any, **options: Any) -> Any:
    if self._quantizer.axis is not None:
        raise RuntimeError(f"{func.__name__}: a tensor quantized per channel keeps its dimensions")
    made = func(self._ints, *args, **options)
    return tuple(quantized(m, *self._quantizer) for m in made) if isinstance(made, tuple) else quantized(
        made, *self._quantizer)


@_serves("t", "transpose")
def _transposed(func: Callable, self: Any, dim0: int = 0, dim1: int = 1) -> QuantizedTensor:
    first, second = (wrapped_dim(d, self.dim()) for d in (dim0, dim1))
    axis = {first: second, second: first}.get(self._quantizer.axis, self._quantizer.axis)
    return quantized(self._ints.transpose(first, second), *self._quantizer._replace(axis=axis))


@_serves("cat")
def _concatenated(func: Callable, tensors: Sequence[Any], dim: int = 0) -> QuantizedTensor:
    scale, zero_point, axis = tensors[0]._quantizer
    if axis is not None or any(t.dtype is not tensors[0].dtype for t in tensors):
        raise RuntimeError("cat: tensors quantized per tensor, of one type, are expected")
    parts = [t._ints if t._quantizer == tensors[0]._quantizer else
             quantize_per_tensor(t.dequantize(), scale, zero_point, t.dtype)._ints for t in tensors]
    return quantized(func(parts, dim), scale, zero_point)


@_serves("relu", "relu_")
def _relu(func: Callable, self: Any, inplace: bool = False) -> QuantizedTensor:
    return quantized(self._ints.clamp(min=self.q_zero_point()), *self._quantizer)


@_serves("eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
def _compared(func: Callable, *args: Any) -> Any:
    return func(*[a.dequantize() if isinstance(a, QuantizedTensor) else a for a in args])


@_serves("equal")
def _equal(func: Callable, self: Any, other: Any) -> bool:
    if not isinstance(other, QuantizedTensor) or self.dtype is not other.dtype or self.qscheme() is not other.qscheme():
        return False
    same = [a == b if not isinstance(a, torch.Tensor) else torch.equal(a, b)
            for a, b in zip(self._quantizer, other._quantizer, strict=True)]
    return all(same) and torch.equal(self._ints, other._ints)


@_serves("copy_")
def _stored(func: Callable, self: Any, src: Any, non_blocking: bool = False) -> Any:
    if isinstance(src, QuantizedTensor):
        self._ints.copy_(src._ints)
        self._quantizer = src._quantizer
    else:
        self._ints.copy_(_rounded(src, self._quantizer, self._ints.dtype))
    return self


@_serves("to")
def _converted(func: Callable, self: Any, *args: Any, **options: Any) -> Any:
    if any(isinstance(a, type(torch.float32)) and a is not self.dtype for a in (*args, *options.values())):
        raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
    return self


@_serves("float", "double", "half", "int", "long", "bool")
def _no_cast(func: Callable, self: Any, *args: Any) -> NoReturn:
    raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")


@_serves("is_floating_point", "is_complex", "is_signed", "is_pinned", "get_device", "is_inference")
def _fact(func: Callable, self: Any) -> Any:
    return func(self._ints)


# products with quantized weights -------------------------------------------------------------------------------------


def linear_dynamic(input: Any, weight: QuantizedTensor, bias: Any) -> Any:
    """A linear layer whose input is quantized on the way, to 7 bits as fbgemm does; sums of products are exact."""
    if input.dtype is not torch.float32:
        raise RuntimeError(f"The dtype of input tensor should be float, but got {input.dtype.scalar_name}")
    scale, zero_point = choose_qparams(input, 0, 127)
    ints = (_rounded(input, Quantizer(scale, zero_point), torch.uint8).float() - zero_point)
    weights = weight._ints.float()
    wide = torch.float64 if weights.shape[-1] > 512 else torch.float32  # sums beyond 2**24 need more bits
    sums = (ints.to(wide) @ weights.to(wide).t()).float()
    own = weight._quantizer.scale
    made = sums * (np.float32(scale * own).item() if isinstance(own, float) else (own * scale).float())
    return made if bias is None else made + bias.detach()
