"""Normalisation by channel (dimension 1): over the batch, over groups of channels, over each instance."""

import math
from typing import Any

from .._core.deferred import Deferred
from .._core.dtype import FLOAT, OF_ARRAY, REDUCED, float32, int64
from .._core.tensor import Tensor
from .._dispatch.callers import call_unrecorded
from .._dispatch.keys import BACKENDS, changed_modes
from ._declare.aten import LEAF
from ._declare.layouts import NO_CONTIGUOUS
from ._declare.op import composite
from ._declare.rules import check_constant, shape_text
from ._declare.samples import case, cases, error, t
from .batch_norm import MOVE_STATISTICS, batch_norm_by_running, batch_norm_with_statistics
from .group_norm import group_norm_with_statistics
from .join import constant_pad_nd
from .matrices import check_same_scalar
from .norm import has_wide_statistics


def _check_floating(input: Any, kernel: str, *parameters: Any) -> None:
    kind = input.dtype
    if kind.category != FLOAT:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")
    given = [OF_ARRAY[parameter._array.dtype] for parameter in parameters if parameter is not None]
    if given.count(kind) == len(given):
        return
    different = set(given) - {kind}
    if different == {float32} and len(set(given)) == 1 and kind.np in REDUCED:
        return
    if given[0] is kind:
        check_same_scalar(kind, next(own for own in given if own is not kind))
    if any(own is not float32 for own in given):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if kind.np not in REDUCED:
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


_PLAIN = frozenset(1 << key for key in BACKENDS)

# over the batch ------------------------------------------------------------------------------------------------------


def _by_own_statistics(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float,
                       eps: float) -> tuple:
    """The normalised input, means and inverse deviations; running statistics move towards those of the batch."""
    if (running_mean is None) is not (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    made = batch_norm_with_statistics(input, weight, bias, eps)
    if running_mean is None:
        return made
    _, mean, rstd = made
    count = input._array.size // max(input._array.shape[1], 1)
    unbiased = count / max(count - 1, 1)
    # Their versions do not count this, as in PyTorch: a call in eval mode that saved them can still be differentiated.
    call_unrecorded(MOVE_STATISTICS, (
        _unversioned(running_mean), _unversioned(running_var), mean, rstd, momentum, eps, unbiased))
    return made


def _unversioned(statistic: Any) -> Any:
    """The same memory with a version of its own; of a plain tensor in few steps."""
    if statistic._keys not in _PLAIN or statistic._array.__class__ is Deferred:
        return statistic.data
    made = object.__new__(Tensor)
    made._array, made._keys, made._device = statistic._array, statistic._keys, statistic._device
    return made


def _constant(statistic: Any, kind: Any) -> Any:
    """A statistic that nothing is derived by, in a type."""
    statistic = statistic.detach()
    return statistic if statistic.dtype is kind else statistic.to(kind)


_BATCH_ARGUMENTS = ("Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
                    "training, float momentum, float eps")
_BATCH_SAMPLES = (case(t(4, 3), t(3), t(3), None, None, True, 0.1, 1e-5),
                  case(t(2, 3, 4), None, None, t(3, grad=False), t(3, low=0.5, grad=False), False, 0.1, 1e-5),
                  case(t(2, 3, 2, 2), t(3), t(3), None, None, True, 0.1, 1e-3))


@composite(f"native_batch_norm({_BATCH_ARGUMENTS}) -> (Tensor result, Tensor result1, Tensor result2)",
           aligned="input",
           samples=cases(*_BATCH_SAMPLES), aten=LEAF)
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """The normalised input, and the batch's means and inverse deviations (empty outside training)."""
    _check_floating(input, "batch_norm", weight, bias, running_mean, running_var)
    check_constant("native_batch_norm", running_mean=running_mean, running_var=running_var)
    told = next((x.dtype for x in (weight, bias, running_mean) if x is not None), input.dtype)
    if has_wide_statistics(input):
        told = float32
    if training:
        made, mean, rstd = _by_own_statistics(input, weight, bias, running_mean, running_var, momentum, eps)
        return made, _constant(mean, told), _constant(rstd, told)
    none = input.new_empty((0,), dtype=told)
    return batch_norm_by_running(input, weight, bias, running_mean, running_var, eps), none, none.clone()


@composite(f"_native_batch_norm_legit({_BATCH_ARGUMENTS.replace('? running', ' running')}) -> "
           "(Tensor result, Tensor result1, Tensor result2)", aten=LEAF,
           aligned="input", node="NativeBatchNormLegitBackward0")
def _native_batch_norm_legit(input, weight, bias, running_mean, running_var, training, momentum, eps):
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@composite("_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float "
           "momentum, float eps) -> (Tensor result, Tensor result1, Tensor result2)",
           node="NativeBatchNormLegitBackward1",
           aligned="input",
           samples=cases(case(t(4, 3), t(3), t(3), True, 0.1, 1e-5)), aten=LEAF)
def _native_batch_norm_without(input, weight, bias, training, momentum, eps):
    return native_batch_norm(input, weight, bias, None, None, training, momentum, eps)


def _check_length(channels: int, **parameters: Any) -> None:
    for name, parameter in parameters.items():
        if parameter is not None and parameter.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {parameter.numel()}")
        if parameter is not None and parameter.dim() != 1:
            raise RuntimeError(f"TensorAccessor expected 1 dims but tensor has {parameter.dim()}")


@composite(f"batch_norm({_BATCH_ARGUMENTS}, bool cudnn_enabled) -> Tensor",
           samples=cases(*(case(*s.args, True) for s in _BATCH_SAMPLES)), out=None)
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """The input with every channel normalised, by the batch's statistics in training and by running ones otherwise."""
    shape = input._array.shape
    if not shape[0]:  # nothing to take statistics of
        made = input.clone() if weight is None else input * weight[0]
        return made if bias is None else made + bias[0]
    if not training:
        for name, running in (("running_mean", running_mean), ("running_var", running_var)):
            if running is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
    channels = shape[1:2] or (input.size(1),)  # which raises
    for parameter in (running_mean, running_var, weight, bias):
        if parameter is not None and parameter._array.shape != channels:
            _check_length(input.size(1), running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_floating(input, "batch_norm", weight, bias, running_mean, running_var)
    check_constant("native_batch_norm", running_mean=running_mean, running_var=running_var)
    if training:
        return _by_own_statistics(input, weight, bias, running_mean, running_var, momentum, eps)[0]
    return batch_norm_by_running(input, weight, bias, running_mean, running_var, eps)


@composite("functional_batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None,"
           " Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor", public="",
           aliases=("nn.functional.batch_norm",),
           samples=cases(case(t(4, 3), None, None, training=True),
                         case(t(4, 3), t(3, grad=False), t(3, low=0.5, grad=False), t(3), t(3)),
                         error(ValueError, "Expected more than 1 value per channel when training, got input size "
                               "torch.Size([1, 3])", t(1, 3), None, None, training=True)))
def _functional_batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps):
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    shape = input._array.shape
    if training and shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


# over each instance --------------------------------------------------------------------------------------------------


@composite("instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,"
           " bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
           samples=cases(case(t(2, 3, 4), t(3), t(3), None, None, True, 0.1, 1e-5, True),
                         error(RuntimeError, "Expected running_mean and running_var to be defined when use_input_stats "
                               "is false", t(2, 3, 4), None, None, None, None, False, 0.1, 1e-5, True)), out=None,
           refuses_coo=NO_CONTIGUOUS)
def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    """Every channel of every sample normalised by itself, or by running statistics."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    batch, channels = input.size(0), input.size(1)
    if not batch and weight is not None:
        raise IndexError("select(): index 0 out of range for tensor of size [0] at dimension 0")
    kind = input.dtype if weight is None else weight.dtype
    each_mean, each_var = (None if x is None else x.repeat(batch).to(kind) for x in (running_mean, running_var))
    each_weight, each_bias = (None if x is None else x.repeat(batch) for x in (weight, bias))
    together = input.reshape((1, batch * channels, *input.shape[2:]))
    made = batch_norm(together, each_weight, each_bias, each_mean, each_var, use_input_stats, momentum, eps, True)
    with changed_modes(grad_enabled=False):
        for running, each in ((running_mean, each_mean), (running_var, each_var)):
            if running is not None and use_input_stats:
                running.copy_(each.reshape(batch, channels).mean(0))
    return made.reshape(input.shape)


@composite("functional_instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? "
           "weight=None,"
           " Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor", public="",
           aliases=("nn.functional.instance_norm",),
           samples=cases(case(t(2, 3, 4)), case(t(2, 3, 4), None, None, t(3), t(3)),
                         error(ValueError, "Expected more than 1 spatial element when training, got input size "
                               "torch.Size([2, 3, 1])", t(2, 3, 1))), python="size")
def _functional_instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps):
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


# over groups ---------------------------------------------------------------------------------------------------------


def _check_groups(input: Any, num_groups: int, weight: Any, bias: Any) -> None:
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    channels = input.shape[1]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError("Expected number of channels in input to be divisible by num_groups, but got input of shape "
                           f"{shape_text(input.shape)} and num_groups={num_groups}")
    _check_parameters(input, channels, weight, bias)


def _check_parameters(input: Any, channels: int, weight: Any, bias: Any) -> None:
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and tuple(parameter.shape) != (channels,):
            raise RuntimeError(f"Expected {name} to be a vector of size equal to the number of channels in input, but "
                               f"got {name} of shape {shape_text(parameter.shape)} and input of shape "
                               f"{shape_text(input.shape)}")


def _group_normalised(input: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> tuple:
    _check_floating(input, "GroupNormKernelImpl", weight, bias)
    return group_norm_with_statistics(input, weight, bias, num_groups, eps)


@composite("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps)"
           " -> (Tensor result, Tensor result1, Tensor result2)",
           samples=cases(case(t(2, 6, 4), t(6), t(6), 2, 6, 4, 3, 1e-5)), out=None, aten=LEAF,
           sharded="normalised_groups")
def _native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    if input.numel() != N * C * HxW:
        raise RuntimeError("Expected X.numel() == N * C * HxW to be true, but got false.")
    _check_parameters(input, C, weight, bias)
    made, mean, rstd = _group_normalised(input, group, weight, bias, eps)
    told = input.dtype if weight is None else weight.dtype
    return made, mean.to(told), rstd.to(told)


@composite("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,"
           " bool cudnn_enabled=True) -> Tensor",
           samples=cases(case(t(2, 6, 4), 3), case(t(2, 6), 2, t(6), t(6)), case(t(2, 4, 2, 3), 1, t(4), None, 1e-3)),
           out=None, autocast=dict(accelerators="float32"))
def group_norm(input, num_groups, weight, bias, eps, cudnn_enabled):
    """Groups of channels of each sample normalised together."""
    _check_groups(input, num_groups, weight, bias)
    return _group_normalised(input, num_groups, weight, bias, eps)[0]


@composite("functional_group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
           "eps=1e-05) -> Tensor", public="", aliases=("nn.functional.group_norm",),
           samples=cases(case(t(2, 6, 4), 3), case(t(2, 6), 2, t(6), t(6)),
                         error(RuntimeError, "Expected number of channels in input to be divisible by num_groups, but "
                               "got input of shape [2, 6, 4] and num_groups=4", t(2, 6, 4), 4)),
           autocast=dict(accelerators="float32"), python="dim")
def _functional_group_norm(input, num_groups, weight, bias, eps):
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    if input.shape[0] * (input.shape[1] // num_groups) == 1 and input.numel() == input.shape[0] * input.shape[1]:
        raise ValueError("Expected more than 1 value per channel when training, got input size "
                         f"{shape_text(input.shape)}")
    return group_norm(input, num_groups, weight, bias, eps, True)


# over neighbouring channels ------------------------------------------------------------------------------------------


@composite("local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
           public="nn.functional",
           samples=cases(case(t(2, 3, 4), 2), case(t(2, 5, 2, 2), 3, 0.1, 0.5, 2.0)), python="dim")
def _local_response_norm(input, size, alpha, beta, k):
    if input.dim() < 3:
        raise ValueError("Expected 3D or higher dimensionality                          "
                         f"input (got {input.dim()} dimensions)")
    kind, kernel = input.dtype, "avg_pool2d" if input.dim() == 3 else "avg_pool3d_out_frame"
    if kind is not int64 and kind.category != FLOAT or kind.np in REDUCED and input.dim() > 3:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")
    if size <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got kH: {size} kW: 1")
    if not input.numel():
        return input
    around = (0, 0) * (input.dim() - 2) + (size // 2, (size - 1) // 2)
    total = constant_pad_nd(input * input, around).unfold(1, size, 1).sum(-1)
    power = total / size if input.dtype.category >= FLOAT else total // size
    return input / (power * alpha + k).pow(beta)
