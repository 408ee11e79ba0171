"""Discrete Fourier transforms: three primitives between real and complex tensors, and torch.fft composed of them."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import COMPUTE, FLOAT, get_default_dtype, int64
from .._core.geometry import contiguous_strides, proper_dim
from .._core.tensor import Tensor
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.families import computes
from ._declare.op import composite, function_of, op
from ._declare.out import MADE, Out
from ._declare.rules import Spec
from ._declare.samples import case, cases, error, ints, t
from .create import FACTORY
from .join import constant_pad_nd
from .reduce import reduced_dims

# How a transform is scaled: by nothing, by 1 / sqrt(n), by 1 / n.
PLAIN, BY_ROOT, BY_COUNT = range(3)


# primitives ----------------------------------------------------------------------------------------------------------


@functools.lru_cache(4096)
def transform_order(strides: tuple[int, ...], dim: tuple[int, ...], keep_last: bool = False) -> tuple[int, ...]:
    """The result's dimensions, outermost first: those not transformed, then the others, each by falling stride."""
    batch = [d for d in range(len(strides)) if d not in dim]
    inner, last = (dim[:-1], dim[-1:]) if keep_last else (dim, ())
    return (*sorted(batch, key=lambda d: -strides[d]), *sorted(inner, key=lambda d: -strides[d]), *last)


@functools.lru_cache(4096)
def _ordered_strides(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    strides = contiguous_strides(tuple([shape[d] for d in order]))
    return tuple([strides[order.index(d)] for d in range(len(shape))])


def _with_size(shape: tuple[int, ...], d: int, size: int) -> tuple[int, ...]:
    """The shape with another size of one dimension."""
    return (*shape[:d], size, *shape[d + 1 :])


def _c2c_spec(self: Tensor, dim: tuple[int, ...], normalization: int, forward: bool) -> Spec:
    kind, array = self.dtype, self._array
    if not kind.is_complex:
        raise RuntimeError("Expected a complex tensor as input of _fft_c2c, but got " + kind.scalar_name)
    return Spec(array.shape, kind, _ordered_strides(array.shape, transform_order(array.strides, dim)))


def _c2c(xp: Any, self: Any, dim: tuple[int, ...], normalization: int, forward: bool) -> Any:
    if not dim:
        return self.copy("K")
    return xp.fft.c2c(self, dim, forward, normalization, transform_order(self.strides, dim))


def _r2c_spec(self: Tensor, dim: tuple[int, ...], normalization: int, onesided: bool) -> Spec:
    kind, array = self.dtype, self._array
    if kind.category != FLOAT:
        raise RuntimeError("Only supports floating-point dtypes, but found: " + kind.scalar_name)
    if kind in COMPUTE:
        raise RuntimeError("MKL FFT doesn't support tensors of type: " + kind.scalar_name)
    shape, last = array.shape, dim[-1]
    if onesided:
        shape = _with_size(shape, last, shape[last] // 2 + 1)
    return Spec(shape, kind.to_complex(), _ordered_strides(shape, transform_order(array.strides, dim, True)))


def _r2c(xp: Any, self: Any, dim: tuple[int, ...], normalization: int, onesided: bool) -> Any:
    transform = xp.fft.r2c if onesided else xp.fft.c2c
    return transform(self, dim, True, normalization, transform_order(self.strides, dim, True))


def _r2c_grad(grad: Any, self_shape: Sequence[int], dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    last = dim[-1]
    if onesided:
        grad = _sized_input(grad, (last,), (self_shape[last],))
    return _fft_c2c(grad, dim, normalization, False).real


def _c2r_spec(self: Tensor, dim: tuple[int, ...], normalization: int, last_dim_size: int) -> Spec:
    shape, strides = self._array.shape, self._array.strides
    if dim[:-1]:  # those are transformed first, by themselves
        strides = _ordered_strides(shape, transform_order(strides, dim[:-1]))
    shape = _with_size(shape, dim[-1], last_dim_size)
    return Spec(shape, self.dtype.to_real(), _ordered_strides(shape, transform_order(strides, dim[-1:])))


def _c2r(xp: Any, self: Any, dim: tuple[int, ...], normalization: int, last_dim_size: int) -> Any:
    # One dimension alone ends in real numbers: of several, an input without the symmetry would give others.
    if dim[:-1]:
        self = _c2c(xp, self, dim[:-1], normalization, False)
    return xp.fft.c2r(self, dim[-1], last_dim_size, normalization, transform_order(self.strides, dim[-1:]))


def _c2r_grad(grad: Any, dim: Sequence[int], normalization: int) -> Any:
    made = _fft_r2c(grad, dim, normalization, True)
    last = dim[-1]
    twice = grad.shape[last] - made.shape[last]  # coefficients that stand for their mirror image too
    if twice <= 0:
        return made
    weights = grad.new_ones(made.shape[last])
    weights[1 : 1 + twice] = 2
    return made * weights.reshape([-1 if d == last else 1 for d in range(grad.dim())])


# as products --------------------------------------------------------------------------------------------------------

_arange = function_of(registry.get("aten::arange.start_step"))
_complex = function_of(registry.get("aten::complex"))
_DENSE = 256  # up to this length a transform is one product with its matrix


def _roots(rows: int, columns: int, n: int, like: Any) -> tuple[Any, Any]:
    """Cosines and sines of 2 pi j k / n for j below `rows` and k below `columns`."""
    j, k = (_arange(0, count, 1, dtype=int64, device=like.device) for count in (rows, columns))
    angles = (j.unsqueeze(1) * k).remainder(n).to(like.dtype) * (2 * math.pi / n)
    return angles.cos(), angles.sin()


def _turned(real: Any, imaginary: Any, cosines: Any, sines: Any, product: Callable) -> tuple[Any, Any]:
    if imaginary is None:
        return product(real, cosines), product(real, sines)
    return (product(real, cosines) - product(imaginary, sines), product(real, sines) + product(imaginary, cosines))


def _summed(real: Any, imaginary: Any, sign: int) -> tuple[Any, Any]:
    """The sums of x_j exp(sign 2 pi i j k / n) along the last dimension; without imaginary parts, None."""
    n = real.shape[-1]
    factor = next((a for a in range(math.isqrt(n), 1, -1) if n % a == 0), 1) if n > _DENSE else 1
    if factor == 1:
        cosines, sines = _roots(n, n, n, real)
        return _turned(real, imaginary, cosines, sines * sign, lambda x, y: x @ y)
    rest = n // factor  # two shorter transforms, with the roots between them
    shape = (*real.shape[:-1], factor, rest)
    parts = _summed(real.reshape(shape).mT, None if imaginary is None else imaginary.reshape(shape).mT, sign)
    cosines, sines = _roots(rest, factor, n, real)
    parts = _turned(*parts, cosines, sines * sign, lambda x, y: x * y)
    parts = _summed(parts[0].mT, parts[1].mT, sign)
    return parts[0].mT.reshape(real.shape), parts[1].mT.reshape(real.shape)


def _along(real: Any, imaginary: Any, dims: Sequence[int], sign: int) -> tuple[Any, Any]:
    for d in dims:
        moved = _summed(real.movedim(d, -1), None if imaginary is None else imaginary.movedim(d, -1), sign)
        real, imaginary = (x.movedim(-1, d) for x in moved)
    return real, imaginary


def _joined(real: Any, imaginary: Any, scale: float) -> Any:
    return _complex((real * scale).contiguous(), (imaginary * scale).contiguous())


def _scale(shape: Sequence[int], dims: Sequence[int], normalization: int) -> float:
    count = math.prod(shape[d] for d in dims)
    return 1 / count if normalization == BY_COUNT else 1 / math.sqrt(count) if normalization == BY_ROOT else 1.0


def _c2c_by_parts(self: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    if not self.numel():
        return self.clone()
    made = _along(self.real.contiguous(), self.imag.contiguous(), dim, -1 if forward else 1)
    return _joined(*made, _scale(self.shape, dim, normalization))


def _r2c_by_parts(self: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    last, shape = dim[-1], list(self.shape)
    shape[last] = shape[last] // 2 + 1 if onesided else shape[last]
    if not self.numel():
        return self.new_empty(shape, dtype=self.dtype.to_complex())
    real, imaginary = (x.narrow(last, 0, shape[last]) for x in _along(self, None, dim[-1:], -1))
    return _joined(*_along(real, imaginary, dim[:-1], -1), _scale(self.shape, dim, normalization))


def _c2r_by_parts(self: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """What lies beyond half the coefficients mirrors them: those that have a mirror image count twice."""
    n, last, shape = last_dim_size, dim[-1], list(self.shape)
    shape[last] = n
    if not self.numel():
        return self.new_empty(shape, dtype=self.dtype.to_real())
    number = _arange(0, n, 1, dtype=int64, device=self.device)
    twice = ((number > 0) & (number <= (n - 1) // 2)).to(int64) + 1
    weights = twice.to(self.dtype.to_real()).reshape([-1 if d == last else 1 for d in range(self.dim())])
    count = min(n // 2 + 1, self.shape[last])
    parts = _along(self.real.contiguous(), self.imag.contiguous(), dim[:-1], 1)
    real, imaginary = (_sized_input(part.narrow(last, 0, count), (last,), (n,)) * weights for part in parts)
    return _along(real, imaginary, (last,), 1)[0] * _scale(shape, dim, normalization)


_fft_c2c = function_of(op(
    "_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor", public="torch",
    kernels={"cuda": "fft.c2c"},
    kernel=computes(_c2c_spec, _c2c),
    grad=dict(self=lambda grad, dim, normalization, forward: _fft_c2c(grad, dim, normalization, not forward)),
    decomposition=_c2c_by_parts))
_fft_r2c = function_of(op(
    "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", public="torch",
    kernels={"cuda": "fft.r2c"},
    kernel=computes(_r2c_spec, _r2c), grad=dict(self=_r2c_grad), decomposition=_r2c_by_parts))
_fft_c2r = function_of(op(
    "_fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor", public="torch",
    kernels={"cuda": "fft.c2r"},
    kernel=computes(_c2r_spec, _c2r), grad=dict(self=_c2r_grad), decomposition=_c2r_by_parts))


# arguments -----------------------------------------------------------------------------------------------------------


def _normalization(norm: str | None, forward: bool) -> int:
    if norm == "ortho":
        return BY_ROOT
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return BY_COUNT if (norm == "forward") is forward else PLAIN


def _promoted(self: Any, *, to_complex: bool) -> Any:
    """The input in a type that transforms exist for."""
    kind = self.dtype if self.dtype.category >= FLOAT else get_default_dtype()
    if kind in COMPUTE:
        raise RuntimeError(f"Unsupported dtype {kind.scalar_name}")
    kind = kind.to_complex() if to_complex else kind
    return self if self.dtype is kind else self.to(kind)


def _wrapped(dim: int, self: Any) -> int:
    return proper_dim(dim, self.dim())


def _checked_count(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def _sized_input(self: Any, dims: Sequence[int], sizes: Sequence[int]) -> Any:
    """The input cut off or filled up with zeros to the sizes that are transformed."""
    shape = self.shape
    for d, n in zip(dims, sizes, strict=True):
        if n != shape[d]:
            break
    else:
        return self
    padding = [0] * (2 * self.dim())
    for d, n in zip(dims, sizes, strict=True):
        if n < self.shape[d]:
            self = self.narrow(d, 0, n)
        padding[2 * (self.dim() - 1 - d) + 1] = n - self.shape[d]
    return constant_pad_nd(self, padding, 0) if any(padding) else self


def _sizes_and_dims(self: Any, s: Sequence[int] | None, dim: Sequence[int] | None) -> tuple[list[int], list[int]]:
    rank = self.dim()
    if dim is not None:
        dims = [_wrapped(d, self) for d in dim]
        if len(set(dims)) < len(dims):
            raise RuntimeError("FFT dims must be unique")
        if s is not None and len(s) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif s is None:
        dims = list(range(rank))
    elif len(s) > rank:
        raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {rank} dimensions.")
    else:
        dims = list(range(rank - len(s), rank))
    given = [-1] * len(dims) if s is None else s
    return [_checked_count(self.shape[d] if n == -1 else n) for n, d in zip(given, dims, strict=True)], dims


# one dimension -------------------------------------------------------------------------------------------------------

# name -> (where it starts, where it ends, direction); an "h" transform is a real one of the conjugate.
_TRANSFORMS = {"fft": ("complex", "complex", True), "ifft": ("complex", "complex", False),
               "rfft": ("real", "complex", True), "irfft": ("complex", "real", False),
               "hfft": ("complex", "real", True), "ihfft": ("real", "complex", False)}


def _conjugate(x: Any) -> Any:
    """The conjugate as an operand: marked only where a graph would show how it was made."""
    return x.conj() if x.requires_grad else x.conj_physical()


def _one_dim(name: str) -> Callable:
    start, end, forward = _TRANSFORMS[name]

    def transform(self: Any, n: int | None, dim: int, norm: str | None) -> Any:
        if start == "real" and self.dtype.is_complex:
            raise RuntimeError(f"{name} expects a real input tensor, but got {self.dtype.scalar_name}")
        # A real input has a quicker transform, of which the other half follows.
        x = _promoted(self, to_complex=end == "real" or self.dtype.is_complex)
        at = _wrapped(dim, x)
        length = x.shape[at] if end == "complex" else 2 * (x.shape[at] - 1)
        length = _checked_count(length if n is None else n)
        x = _sized_input(x, (at,), (length if end == "complex" else length // 2 + 1,))
        scale = _normalization(norm, forward)
        if end == "real":
            return _fft_c2r(_conjugate(x) if forward else x, (at,), scale, length)
        if x.dtype.is_complex:
            return _fft_c2c(x, (at,), scale, forward)
        made = _fft_r2c(x, (at,), scale, start == "real")
        return made if forward else made.conj()

    return transform


def _several_dims(name: str) -> Callable:
    start, end, forward = _TRANSFORMS[name]

    def transform(self: Any, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Any:
        if name == "rfft" and self.dtype.is_complex:
            raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {self.dtype.scalar_name}")
        x = _promoted(self, to_complex=start == "complex")
        sizes, dims = _sizes_and_dims(x, s, dim)
        if not dims and start != end:
            raise RuntimeError(f"{name}n must transform at least one axis")
        length = 0
        if end == "real":
            length = 2 * (x.shape[dims[-1]] - 1) if s is None or s[-1] == -1 else sizes[-1]
            sizes[-1] = _checked_count(length) // 2 + 1
        x = _sized_input(x, dims, sizes)
        scale = _normalization(norm, forward)
        if start == end:
            return _fft_c2c(x, dims, scale, forward)
        if name == "rfft":
            return _fft_r2c(x, dims, scale, True)
        if name == "irfft":
            return _fft_c2r(x, dims, scale, length)
        if name == "hfft":
            x = _fft_c2c(x, dims[:-1], scale, True) if dims[:-1] else x
            return _fft_c2r(_conjugate(x), dims[-1:], scale, length)
        x = _fft_r2c(x, dims[-1:], scale, True).conj_physical()
        return _fft_c2c(x, dims[:-1], scale, False) if dims[:-1] else x

    return transform


_COMMON_ERRORS = (error(RuntimeError, 'Invalid normalization mode: "x"', t(2, 3), norm="x"),)
_ONE_DIM_CASES = (case(t(3, 4)), case(t(3, 5), 4, 0), case(t(3, 5), 8, norm="ortho"), case(t(2, 3, 4), dim=1),
                  case(t(4, 3, layout="transposed"), norm="forward"), case(ints(3, 4)),
                  error(IndexError, "Dimension out of range", t(3), dim=2),
                  error(RuntimeError, "Invalid number of data points (0) specified", t(2, 3), 0), *_COMMON_ERRORS)
_SEVERAL_CASES = (case(t(3, 4)), case(t(2, 3, 4), (2, 5)), case(t(2, 3, 4), dim=(0, 1), norm="ortho"),
                  case(t(2, 3, 4), (-1, 3), dim=(2, 0), norm="forward"), case(t(4, 3, layout="transposed")),
                  error(RuntimeError, "FFT dims must be unique", t(2, 3), dim=(0, 0)),
                  error(RuntimeError, "must have the same length", t(2, 3), (2, 3), (0,)), *_COMMON_ERRORS)


def _out(name: str) -> Out:
    kind = "complex" if _TRANSFORMS[name.removesuffix("n")][1] == "complex" else "floating point"
    return Out("alike", f"{name} expects a {kind} output tensor, but got {{given}}")


for _name in _TRANSFORMS:
    composite(f"fft_{_name}(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor", public="",
              aliases=(f"fft.{_name}",), samples=cases(*_ONE_DIM_CASES), out=_out(_name),
              autocast=dict(cpu="float32"),
              resizes_expanded=_name not in ("ifft", "ihfft"))(_one_dim(_name))
    for _form, _dims in (("2", "int[1] dim=[-2, -1]"), ("n", "int[1]? dim=None")):
        composite(f"fft_{_name}{_form}(Tensor self, int[1]? s=None, {_dims}, str? norm=None) -> Tensor", public="",
                  aliases=(f"fft.{_name}{_form}",), samples=cases(*_SEVERAL_CASES),
                  out=_out("fftn" if _name == "ifft" else f"{_name}n"),
                  autocast=None if _name in ("hfft", "ihfft") else dict(cpu="float32"))(_several_dims(_name))


# frequencies ---------------------------------------------------------------------------------------------------------

def _frequencies(name: str, first: Callable[[int], int], last: Callable[[int], int]) -> Callable:
    """Multiples of 1 / (n d) from `first` to before `last`, negative ones behind the others."""

    def frequencies(n: int, d: float, dtype: Any, layout: Any, device: Any, pin_memory: Any,
                    requires_grad: bool) -> Any:
        kind = dtype or get_default_dtype()
        if kind.category < FLOAT:
            raise RuntimeError(f"{name} requires a floating point or complex dtype")
        if n < 0 and name == "fftfreq":
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
        made = _arange(first(n), last(n), dtype=kind, layout=layout, device=device, pin_memory=pin_memory)
        if first(n):
            made = made.roll(first(n), 0)
        made = made * (1 / (n * d) if n * d else float("inf"))
        return made.requires_grad_() if requires_grad else made

    return frequencies


for _name, _first, _last in (("fftfreq", lambda n: -(n // 2), lambda n: (n + 1) // 2),
                             ("rfftfreq", lambda n: 0, lambda n: int(n / 2) + 1)):
    composite(f"fft_{_name}(int n, float d=1.0, {FACTORY}) -> Tensor", public="", aliases=(f"fft.{_name}",),
              samples=cases(case(5), case(6, 0.1), case(1), case(4, 2.0)), out=MADE, aten=LEAF)(
                  _frequencies(_name, _first, _last))


def _shift(distance: Callable[[int], int]) -> Callable:
    def shift(self: Any, dim: Sequence[int] | None) -> Any:
        dims = () if dim == () else reduced_dims(dim, self.dim())
        return self.roll([distance(self.shape[d]) for d in dims], dims)

    return shift


for _name, _distance in (("fftshift", lambda n: n // 2), ("ifftshift", lambda n: (n + 1) // 2)):
    composite(f"fft_{_name}(Tensor self, int[1]? dim=None) -> Tensor", public="", aliases=(f"fft.{_name}",),
              samples=cases(case(t(4)), case(t(3, 4)), case(t(3, 4), 0), case(t(2, 3, 5), (2, 1)),
                            error(IndexError, "Dimension out of range", t(3), 2)), out=None)(_shift(_distance))
