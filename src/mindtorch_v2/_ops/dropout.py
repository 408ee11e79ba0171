"""Dropout: whole tensors, whole channels, and the forms that keep a self-normalising network's statistics."""

import math
from typing import Any

from .._core import random as _random
from .._core.dtype import COMPLEX, COMPUTE, FLOAT, bool_, uint8
from .._core.generator import default_generator
from .._core.tensor import Tensor
from .._core.warn import warn
from .._dispatch.callers import call_bound
from ._declare.batch import Call, Draws, Result, drawn_once, elementwise, one_by_one
from ._declare.families import moves, pointwise
from ._declare.op import composite, op
from ._declare.rules import Spec, check_result_fits, floating
from .copy import preserved_strides, uninitialised
from .random import fill_drawn, refuse

# The negative limit of SELU, to which alpha dropout sets what it drops.
ALPHA = 1.7580993408473766


def _check_probability(p: float, kind: type[Exception] = RuntimeError) -> None:
    if not 0 <= p <= 1:
        if p != p:  # which passes Python's comparison in PyTorch, not that of C++
            kind = RuntimeError
        shown = p if kind is ValueError else f"{p:g}"  # the one is Python's text, the other that of C++
        raise kind(f"dropout probability has to be between 0 and 1, but got {shown}")


def _noise(xp: Any, self: Any, p: float, features: bool, scaled: bool, spec: Spec) -> Any:
    made = uninitialised(spec)
    fill_drawn(made, None, _random.bernoulli_scalar, 1 - p)
    if scaled:
        wide = COMPUTE.get(spec.dtype, spec.dtype).np.type
        made *= (wide(1) / wide(1 - p)).astype(made.dtype)
    return made


def _noise_spec(self: Tensor, p: float, features: bool, scaled: bool) -> Spec:
    if self.dtype.category == COMPLEX:
        refuse("bernoulli_scalar_cpu_", self.dtype)
    if not features:
        spec = Spec(self._array.shape, self.dtype, preserved_strides(self, None))
    else:
        shape = self._array.shape
        if len(shape) < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        spec = Spec((*shape[:2], *(1 for _ in shape[2:])), self.dtype)
    if scaled:
        check_result_fits(self, Spec(self._array.shape, floating(self.dtype)[1]))
    return spec


_NOISE = op(
    "_dropout_noise(Tensor self, float p, bool features, bool scaled) -> Tensor",
    kernel=moves(_noise_spec, _noise),
    kernels={"cuda": "dropout.noise", "npu": "random.dropout_noise"},
    public="",
    batch=Draws(different=lambda call: one_by_one(call) if call.at("features") else elementwise(call), same=drawn_once),
    sharded="noise")


def _dropped(self: Tensor, p: float, features: bool = False) -> Any:
    """What to multiply a tensor with: 0 with probability p, else what keeps the mean."""
    return 0 if p == 1 else call_bound(_NOISE, (self, p, features, True))


def _is_idle(input: Tensor, p: float, train: bool) -> bool:
    _check_probability(p)
    return p == 0 or not train or input.numel() == 0


@composite("dropout(Tensor input, float p, bool train) -> Tensor", out=None)
def _dropout(input: Tensor, p: float, train: bool) -> Tensor:
    if _is_idle(input, p, train):
        return input
    if p < 1 and input.dtype.category == FLOAT:
        if input.dtype.itemsize <= 4 and _BITS.declaration.has_kernel_for(input):
            return call_bound(MASKED, (input, dropout_bits(input, input.numel(), p), p))
        if _NATIVE.declaration.has_kernel_for(input):
            return call_bound(_NATIVE, (input, p, True))[0]
    return input * _dropped(input, p)  # type: ignore[operator]


@composite("dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", public="torch")
def _dropout_inplace(self: Tensor, p: float, train: bool) -> Tensor:
    return self if _is_idle(self, p, train) else self.mul_(_dropped(self, p))  # type: ignore[attr-defined]


@composite("feature_dropout(Tensor input, float p, bool train) -> Tensor", out=None)
def _feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    return input if _is_idle(input, p, train) else input * _dropped(input, p, features=True)  # type: ignore[operator]


@composite("feature_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", public="torch")
def _feature_dropout_inplace(self: Tensor, p: float, train: bool) -> Tensor:
    return self if _is_idle(self, p, train) else self.mul_(_dropped(self, p, features=True))  # type: ignore[attr-defined]


def _alpha_terms(input: Tensor, p: float, features: bool) -> tuple[Any, Any]:
    """Factor and addend that drop to SELU's limit and keep mean and variance."""
    if p == 1:
        return 0, 0
    scale = 1 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p))
    kept = call_bound(_NOISE, (input, p, features, False))
    return kept.mul(scale), kept.sub(1).mul_(ALPHA * scale).add_(ALPHA * scale * p)


def _alpha(input: Tensor, p: float, train: bool, features: bool, inplace: bool) -> Tensor:
    if _is_idle(input, p, train):
        return input
    factor, addend = _alpha_terms(input, p, features)
    return input.mul_(factor).add_(addend) if inplace else input * factor + addend  # type: ignore[attr-defined, operator]


@composite("alpha_dropout(Tensor input, float p, bool train) -> Tensor", out=None)
def _alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    return _alpha(input, p, train, features=False, inplace=False)


@composite("alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", public="torch")
def _alpha_dropout_inplace(self: Tensor, p: float, train: bool) -> Tensor:
    return _alpha(self, p, train, features=False, inplace=True)


@composite("feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", out=None)
def _feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    return _alpha(input, p, train, features=True, inplace=False)


@composite("feature_alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", public="torch")
def _feature_alpha_dropout_inplace(self: Tensor, p: float, train: bool) -> Tensor:
    return _alpha(self, p, train, features=True, inplace=True)


def _native_specs(input: Tensor, p: float, train: bool | None) -> tuple[Spec, Spec]:
    shape, strides = input._array.shape, preserved_strides(input, None)
    return Spec(shape, input.dtype, strides), Spec(shape, bool_, strides)


def _native(xp: Any, input: Any, p: float, train: bool | None, spec: tuple[Spec, Spec]) -> tuple[Any, Any]:
    made, mask = map(uninitialised, spec)
    if train is False or p == 0:
        made[...], mask[...] = input, True
        return made, mask
    fill_drawn(mask, default_generator, _random.bernoulli_scalar, 1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    made[...] = input * mask * input.dtype.type(scale)
    return made, mask


def _native_grad(grad: Tensor, result1: Tensor, p: float, train: bool | None) -> Tensor:
    scale = 0.0 if p == 1 else 1 / (1 - p)
    if train is False:
        return grad
    return call_bound(_BACKWARD, (grad, result1, scale))


def _native_of_one_mask(call: Call) -> Result:
    first, *rest = call.sample(0)
    scale, mask = call.run(first.detach().new_ones(first.shape), *rest)
    return (call.values[0] * scale, mask), (True, False)


_NATIVE = op("native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
   kernel=moves(_native_specs, _native), grad=dict(input=_native_grad),
   batch=Draws(same=_native_of_one_mask), out=None,
   kernels={"cuda": "dropout.native_dropout", "npu": "random.native_dropout"}, sharded="dropped")
_BACKWARD = op("native_dropout_backward(Tensor grad_output, Tensor mask, Scalar scale) -> Tensor",
   kernel=pointwise(lambda xp, grad_output, mask, scale: grad_output * mask * scale, rounds_numbers=False),
   grad=dict(grad_output=lambda grad, mask, scale: call_bound(_BACKWARD, (grad, mask, scale))), public="",
   decomposition=lambda grad_output, mask, scale: grad_output * mask * scale)


# a bit for each element -----------------------------------------------------------------------------------------------

BITS = 128  # bits come in groups of so many


def _bits_spec(like: Tensor, count: int, p: float) -> Spec:
    return Spec((-(-count // BITS) * (BITS // 8),), uint8)


def _bits(xp: Any, like: Any, count: int, p: float, spec: Spec) -> Any:
    kept = uninitialised(Spec((spec.shape[0] * 8,), bool_))
    fill_drawn(kept, None, _random.bernoulli_scalar, 1 - p)
    return xp.packbits(kept, bitorder="little")


def _masked_spec(self: Tensor, bits: Tensor, p: float) -> Spec:
    return Spec(self._array.shape, self.dtype, preserved_strides(self, None))


def _masked(xp: Any, self: Any, bits: Any, p: float, spec: Spec) -> Any:
    made = uninitialised(spec)
    kept = xp.unpackbits(bits.reshape(-1), bitorder="little")[: self.size].reshape(self.shape)
    made[...] = self * kept.astype(self.dtype) / self.dtype.type(1 - p)
    return made


# What is kept, for devices that draw it as bits: `like` tells the device and the type of what will be dropped.
_BITS = op("_dropout_bits(Tensor like, int count, float p) -> Tensor", kernel=moves(_bits_spec, _bits),
   kernels={"npu": "random.dropout_bits"}, public="", batch=Draws(different=one_by_one, same=drawn_once))
MASKED = op("_dropout_masked(Tensor self, Tensor bits, float p) -> Tensor", kernel=moves(_masked_spec, _masked),
   grad=dict(self=lambda grad, bits, p: call_bound(MASKED, (grad, bits, p))), public="",
   npu="aclnnDropoutDoMask(self, bits, p, out)")


def dropout_bits(like: Tensor, count: int, p: float) -> Tensor:
    """Bits for `count` elements, each 0 with probability p."""
    return call_bound(_BITS, (like.detach(), count, p))


# nn.functional -------------------------------------------------------------------------------------------------------

_ARGUMENTS = "Tensor input, float p=0.5, bool training=True, Any inplace=False"


@composite(f"dropout.functional({_ARGUMENTS}) -> Tensor", public="nn.functional")
def _functional_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p, ValueError)
    return _dropout_inplace(input, p, training) if inplace else _dropout(input, p, training)


@composite(
    f"alpha_dropout.functional({_ARGUMENTS.replace('training=True', 'training=False')}) -> Tensor",
    public="nn.functional",
)
def _functional_alpha_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p, ValueError)
    return _alpha(input, p, training, features=False, inplace=inplace)


@composite(f"feature_alpha_dropout.functional({_ARGUMENTS.replace('training=True', 'training=False')}) -> Tensor",
           public="nn.functional")
def _functional_feature_alpha_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p, ValueError)
    return _alpha(input, p, training, features=True, inplace=inplace)


def _of_features(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    return _feature_dropout_inplace(input, p, training) if inplace else _feature_dropout(input, p, training)


def _of_unbatched(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Channels of an input without a batch dimension."""
    if inplace:
        return _feature_dropout_inplace(input.unsqueeze_(0), p, training).squeeze_(0)  # type: ignore[attr-defined]
    return _feature_dropout(input.unsqueeze(0), p, training).squeeze(0)  # type: ignore[attr-defined]


@composite(f"dropout1d({_ARGUMENTS}) -> Tensor", public="nn.functional", python="dim")
def _dropout1d(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p, ValueError)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
                           "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a "
                           "channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs).")
    return _of_unbatched(input, p, training, inplace) if input.dim() == 2 else _of_features(input, p, training, inplace)


def _warn_of_dimensions(name: str, input: Tensor, spatial: int) -> None:
    if input.dim() not in (spatial + 1, spatial + 2):
        warn(f"{name}: Received a {input.dim()}-D input to {name}, which is deprecated and will result in an "
             "error in a future release. To retain the behavior and silence this warning, please use "
             f"dropout instead. Note that {name} exists to provide channel-wise dropout on inputs with "
             f"{spatial} spatial dimensions, a channel dimension, and an optional batch dimension (i.e. "
             f"{spatial + 1}D or {spatial + 2}D inputs).")


@composite(f"dropout2d({_ARGUMENTS}) -> Tensor", public="nn.functional", python="dim")
def _dropout2d(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p, ValueError)
    _warn_of_dimensions("dropout2d", input, 2)
    if input.dim() == 3:
        warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
             "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel dim. "
             "This behavior will change in a future release to interpret the input as one without a batch "
             "dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please "
             "switch to using dropout1d instead.")
    return _of_features(input, p, training, inplace)


@composite(f"dropout3d({_ARGUMENTS}) -> Tensor", public="nn.functional", python="dim")
def _dropout3d(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p, ValueError)
    _warn_of_dimensions("dropout3d", input, 3)
    return _of_features(input, p, training, inplace) if input.dim() == 5 else _of_unbatched(input, p, training, inplace)
