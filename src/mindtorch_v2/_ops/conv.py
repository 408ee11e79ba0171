"""Convolution: one operator for all ranks, transposed or not, and its gradients as one more."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import FLOAT, INT, WIDER, bfloat16, float16, float32, int64
from .._core.elements import has_elements, type_text
from .._core.geometry import Steps
from .._core.tensor import Tensor
from .._core.warn import warn_once
from .._dispatch.callers import call_bound
from ._declare.aten import LEAF
from ._declare.batch import Call, Result
from ._declare.families import computes
from ._declare.flops import Flops, conv_backward_flop, conv_flop
from ._declare.op import composite, function_of, op
from ._declare.rules import Spec, c_name, shape_text
from ._declare.samples import case, cases, error, ints, t
from .copy import suggested_strides, suggested_strides_of_rows, uninitialised
from .elementary import COMPLEX_OF_PARTS
from .join import constant_pad_nd
from .matrices import check_same_scalar

# The types that PyTorch computes with oneDNN, which refuses and lays out differently.
_QUICK = (float32, float16, bfloat16)


# checks --------------------------------------------------------------------------------------------------------------


def _expanded(values: tuple[int, ...], rank: int, name: str) -> tuple[int, ...]:
    if len(values) == 1:
        return values * rank
    if len(values) != rank:
        raise RuntimeError(f"expected {name} to be a single integer value or a list of {rank} values to match the "
                           f"convolution dimensions, but got {name}={shape_text(values)}")
    return values


@functools.lru_cache(1024)
def _steps(rank: int, stride: tuple, padding: tuple, dilation: tuple, groups: int) -> Steps:
    return Steps(_expanded(stride, rank, "stride"), _expanded(padding, rank, "padding"),
                 _expanded(dilation, rank, "dilation"), groups)


def _size_text(size: Sequence[int]) -> str:
    return f"({' x '.join(map(str, size))})"


def _check_ranks(shape: Sequence[int], own: Sequence[int]) -> None:
    if len(shape) != len(own):
        raise RuntimeError(f"Expected {len(shape)}-dimensional input for {len(shape)}-dimensional weight "
                           f"{shape_text(shape)}, but got {len(own)}-dimensional input of size {shape_text(own)} "
                           "instead")


def _check_channels(input: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool, groups: int) -> None:
    shape, own = weight._array.shape, input._array.shape
    _check_ranks(shape, own)
    if shape[0] < groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got "
                           f"weight of size {shape_text(shape)} instead")
    if shape[0] % groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but "
                           f"got weight of size [{shape_text(shape)}] instead")
    expected, made = (shape[0], shape[1] * groups) if transposed else (shape[1] * groups, shape[0])
    given = "transposed=1" if transposed else f"groups={groups}"
    if own[1] != expected:
        raise RuntimeError(f"Given {given}, weight of size {shape_text(shape)}, expected input{shape_text(own)} to "
                           f"have {expected} channels, but got {own[1]} channels instead")
    if bias is not None and bias._array.shape != (made,):
        raise RuntimeError(f"Given {'transposed=1, ' if transposed else ''}weight of size {shape_text(shape)}, "
                           f"expected bias to be 1-dimensional with {made} elements, but got bias of size "
                           f"{shape_text(bias._array.shape)} instead")


def _check_types(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    kind = input.dtype
    if weight.dtype is not kind:
        if kind not in _QUICK and not kind.is_complex:
            check_same_scalar(kind, weight.dtype)
        raise RuntimeError(f"Input type ({type_text(input)}) and weight type ({type_text(weight)}) should be the same"
                           + (" or input should be a MKLDNN tensor and weight is a dense tensor" if kind in _QUICK
                              else ""))
    if bias is not None and bias.dtype is not kind:
        raise RuntimeError(f"Input type ({c_name(kind)}) and bias type ({c_name(bias.dtype)}) should be the same")


def _check_computed(input: Tensor, steps: Steps, transposed: bool, gradient: str = "") -> None:
    """Raises for element types that PyTorch's kernel does not take; `gradient` names the one that is computed."""
    kind, rank, dilated = input.dtype, len(steps.stride), max(steps.dilation) > 1
    if kind.category == FLOAT or not input._array.size:
        return
    if transposed:
        kernel = f"slow_conv_transpose{max(rank, 2)}d_{'backward_' if gradient else ''}out_cpu"
        taken = kind is int64 and not gradient
    elif dilated:
        kernel, taken = "slow_conv_dilated<>", kind is int64
    elif gradient:
        kernel, taken = f"slow_conv2d_cpu_grad_{gradient}", False
    else:
        kernel = "slow_conv2d_cpu" if rank < 3 else "compute_columns3d"
        taken = kind.category == INT and kind.name not in ("uint16", "uint32", "uint64")
    if not taken:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


_AXES = ("depth", "height", "width")


def _check_output_padding(extra: tuple, steps: Steps) -> None:
    if all(e < max(s, d) for e, s, d in zip(extra, steps.stride, steps.dilation, strict=True)):
        return
    shown = ""
    for name, values, neutral in (("output_padding", extra, 0), ("stride", steps.stride, 1),
                                  ("dilation", steps.dilation, 1)):
        values = (neutral, *values) if len(values) == 1 else values
        shown += "".join(f" {name}_{axis}: {v}" for axis, v in zip(_AXES[-len(values) :], values, strict=True))
    raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got{shown}")


def _check_steps(steps: Steps, extra: tuple[int, ...]) -> None:
    if min(steps.padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(extra) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(steps.stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(steps.dilation) <= 0:
        raise RuntimeError("non-positive dilation is not supported")
    if steps.groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


def _refuse_empty_plane(input: Tensor) -> None:
    batch, channels, *own = input._array.shape
    shown = (batch, channels, *(1,) * (len(own) == 1), *own)  # one dimension is computed as a row of two
    raise RuntimeError("Only zero batch or zero channel inputs are supported, but got input shape: "
                       f"{shape_text(shown)}")


def _result_size(input: Tensor, weight: Tensor, steps: Steps, transposed: bool, extra: tuple[int, ...]) -> tuple:
    own, kernel = input._array.shape[2:], weight._array.shape[2:]
    reach = [d * (k - 1) + 1 for d, k in zip(steps.dilation, kernel, strict=True)]
    if 0 in kernel:
        raise RuntimeError(f"kernel size should be greater than zero, but got {shape_text(kernel)}")
    if transposed:
        if 0 in own:
            _refuse_empty_plane(input)
        if not weight._array.size:
            raise RuntimeError(f"non-empty weight tensor expected, but got: {shape_text(weight._array.shape)}")
        if input._array.size:
            _check_output_padding(extra, steps)
        size = tuple((n - 1) * s - 2 * p + r + e
                     for n, s, p, r, e in zip(own, steps.stride, steps.padding, reach, extra, strict=True))
        if min(size) < (0 if _runs_in_onednn(input, weight, steps.groups) else 1):
            row = (1,) if len(size) == 1 else ()  # one dimension is computed as a row of two
            raise RuntimeError(f"Given input size per channel: {_size_text(row + own)}. Calculated output size per "
                               f"channel: {_size_text(row + size)}. Output size is too small")
        return size
    whole = [n + 2 * p for n, p in zip(own, steps.padding, strict=True)]
    if any(n < r for n, r in zip(whole, reach, strict=True)):
        raise RuntimeError(f"Calculated padded input size per channel: {_size_text(whole)}. Kernel size: "
                           f"{_size_text(reach)}. Kernel size can't be greater than actual input size")
    if 0 in own:
        _refuse_empty_plane(input)
    return tuple((n - r) // s + 1 for n, r, s in zip(whole, reach, steps.stride, strict=True))


def _runs_in_onednn(input: Tensor, weight: Tensor, groups: int) -> bool:
    """Whether PyTorch computes it so; its own kernels for volumes give contiguous results, and never empty ones."""
    if input.dtype is not float32:
        return input.dtype in _QUICK
    kernel, planes = weight._array.shape[2:], input._array.shape[:4]  # a sequence is computed as a row
    return has_elements(input) and (
        groups > 1 or planes[0] > 1 or len(kernel) > 1 and min(kernel[-2:]) > 3 or math.prod(planes) > 20480)


def _layout(input: Tensor, weight: Tensor, groups: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Channels-last strides where input or weight lie so, as far as PyTorch's kernels keep to it."""
    if len(shape) == 5 and not _runs_in_onednn(input, weight, groups):
        return None
    suggest = suggested_strides_of_rows if len(shape) == 3 else suggested_strides
    return suggest(input, shape) or suggest(weight, shape)


# convolution ---------------------------------------------------------------------------------------------------------


_known_shapes: dict[tuple, tuple[int, ...]] = {}


def _convolution_spec(input: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple, padding: tuple,
                      dilation: tuple, transposed: bool, output_padding: tuple, groups: int) -> Spec:
    of_bias = None if bias is None else (bias._array.shape, bias._array.dtype)
    key = (input._array.shape, input._array.dtype, weight._array.shape, weight._array.dtype, of_bias, stride, padding,
           dilation, transposed, output_padding, groups)
    shape = _known_shapes.get(key)
    if shape is None:
        if len(_known_shapes) > 4096:
            _known_shapes.clear()
        shape = _known_shapes[key] = _convolved_shape(input, weight, bias, stride, padding, dilation, transposed,
                                                      output_padding, groups)
    return Spec(shape, input.dtype, _layout(input, weight, groups, shape))


def _convolved_shape(input: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple, padding: tuple, dilation: tuple,
                     transposed: bool, output_padding: tuple, groups: int) -> tuple[int, ...]:
    """The result's shape; raises every argument error."""
    rank = weight._array.ndim - 2
    if rank < 1:
        raise RuntimeError("weight should have at least three dimensions")
    steps, extra = _steps(rank, stride, padding, dilation, groups), _expanded(output_padding, rank, "output_padding")
    _check_steps(steps, extra)
    _check_channels(input, weight, bias, transposed, groups)
    size = _result_size(input, weight, steps, transposed, extra)
    _check_types(input, weight, bias)
    _check_computed(input, steps, transposed)
    batch, channels = input._array.shape[:2]
    made = weight._array.shape[1] * groups if transposed else weight._array.shape[0]
    return batch, made if channels else 0, *size  # PyTorch gives nothing for no channels


def _convolution_array(xp: Any, input: Any, weight: Any, bias: Any, stride: tuple, padding: tuple, dilation: tuple,
                       transposed: bool, output_padding: tuple, groups: int, spec: Spec) -> Any:
    steps = _steps(weight.ndim - 2, stride, padding, dilation, groups)
    conv = xp.convolution
    compute = conv.to_input if transposed else conv.forward
    return compute(input, weight, bias, uninitialised(spec, xp), steps)


def _widened(backend: Any, array: Any) -> Any:
    """Half precision as float32, but bfloat16 as it is where that is multiplied: it is rounded once, as in PyTorch."""
    wide = WIDER.get(array.dtype)
    if wide is None or array.dtype == bfloat16.np and backend.xp.convolution.TAKES_BFLOAT16:
        return array
    return backend.cast(array, wide)


def _convolution_grad(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, needs):
    channels = weight._array.shape[1] * groups if transposed else weight._array.shape[0]
    if grad._array.shape[1] != channels:  # an input without channels gives a result without, whatever the weight says
        return input.new_zeros(input.shape), weight.new_zeros(weight.shape), grad.new_zeros(channels)
    return call_bound(_BACKWARD, (grad, input, weight, (channels,), stride, padding, dilation, transposed,
                                  output_padding, groups, needs))


_PLAIN = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
_SAMPLES = (
    case(t(2, 3, 5, 6), t(4, 3, 3, 2), t(4), *_PLAIN),
    case(t(2, 4, 5, 5), t(6, 2, 3, 3), None, (2, 1), (1, 0), (1, 2), False, (0, 0), 2),
    case(t(2, 3, 5, 4), t(3, 1, 3, 3), t(3), (2, 1), (1, 1), (1, 1), False, (0, 0), 3),
    case(t(2, 4, 3, 3), t(4, 2, 3, 2), t(4), (2, 3), (1, 0), (1, 2), True, (1, 1), 2),
    case(t(1, 2, 4, 4), t(3, 2, 1, 1), None, *_PLAIN),
    case(t(2, 3, 7), t(4, 3, 3), t(4), (2,), (2,), (2,), False, (0,), 1),
    case(t(2, 2, 3, 4, 3), t(2, 1, 2, 2, 2), t(2), (1,), (1,), (1,), False, (0,), 2),
    case(t(1, 2, 2, 3, 2), t(2, 3, 2, 2, 2), None, (2,), (0,), (1,), True, (0,), 1),
    case(t(0, 3, 5, 6), t(4, 3, 3, 2), t(4), *_PLAIN))


def _into_channels(value: Any) -> Any:
    """(samples, batch, channels, ...) as (batch, samples * channels, ...)."""
    return value.movedim(0, 1).flatten(1, 2)


def _out_of_channels(value: Any, size: int) -> Any:
    return value.unflatten(1, (size, value.shape[1] // size)).movedim(1, 0)


def _convolution_each(call: Call) -> Result:
    input, weight, bias, *geometry, groups = call.values
    added = bias if bias is not None and call.batched[2] else None
    bias = None if added is not None else bias
    if not call.batched[1] and call.batched[0]:
        made = call.run(input.flatten(0, 1), weight, bias, *geometry, groups).unflatten(0, (call.size, input.shape[1]))
    elif not call.batched[1]:
        made = call.expanded(call.run(input, weight, bias, *geometry, groups), False)
    else:  # each sample's channels are groups of their own
        made = call.run(_into_channels(call.full(0)), weight.flatten(0, 1),
                        None if bias is None else bias.repeat(call.size), *geometry, groups * call.size)
        made = _out_of_channels(made, call.size)
    if added is not None:
        made = made + added.reshape((call.size, 1, added.shape[1], *(1,) * (made._array.ndim - 3)))
    return made, True

_CONVOLUTION = op(
    "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
    "bool transposed, int[] output_padding, int groups) -> Tensor",
    kernel=computes(_convolution_spec, _convolution_array, widened=_widened),
    kernels={"cpu": "conv.convolution", "cuda": "conv.convolution", "npu": "conv.convolution"},
    grad={"input, weight, bias": _convolution_grad},
    npu="aclnnConvolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out, "
        "cubeMathType=0) empty=0",
    samples=cases(
        *_SAMPLES,
        error(RuntimeError, "weight should have at least three dimensions", t(2, 3), t(4, 3), None, *_PLAIN),
        error(RuntimeError, "Expected 3-dimensional input for 3-dimensional weight [4, 3, 3], but got 2-dimensional "
              "input of size [3, 6] instead", t(3, 6), t(4, 3, 3), None, (1,), (0,), (1,), False, (0,), 1),
        error(RuntimeError, "expected stride to be a single integer value or a list of 2 values to match the "
              "convolution dimensions, but got stride=[1, 1, 1]", t(2, 3, 6, 6), t(4, 3, 3, 3), None, (1, 1, 1), (0, 0),
              (1, 1), False, (0, 0), 1)), batch=_convolution_each, out=None, autocast=dict(accelerators="lower"),
    flops=Flops(conv_flop, by="both"), sharded="convolution")
_convolution = function_of(_CONVOLUTION)


# its gradients -------------------------------------------------------------------------------------------------------


def _backward_specs(grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Any, stride: tuple, padding: tuple,
                    dilation: tuple, transposed: bool, output_padding: tuple, groups: int, output_mask: tuple) -> tuple:
    steps, given = _steps(weight._array.ndim - 2, stride, padding, dilation, groups), grad_output._array.shape
    if len(given) != input._array.ndim:
        raise RuntimeError("Expected input and grad_output to have the same number of dimensions, but got: "
                           f"{input._array.ndim} and {len(given)}")
    expected = _convolution_spec(input, weight, None, stride, padding, dilation, transposed, output_padding, groups)
    if given != expected.shape and 0 not in given:
        raise RuntimeError(f"convolution_backward: expected grad_output to have shape {shape_text(expected.shape)}, "
                           f"but got {shape_text(given)}")
    _check_computed(input, steps, transposed, "input" if output_mask[0] else "weight")
    kind, shapes = input.dtype, (input._array.shape, weight._array.shape, grad_output._array.shape[1:2])
    return tuple(Spec(shape, kind, _layout(input, weight, groups, shape)) if wanted else None
                 for shape, wanted in zip(shapes, output_mask, strict=True))


def _backward_array(xp: Any, grad_output: Any, input: Any, weight: Any, bias_sizes: Any, stride: tuple, padding: tuple,
                    dilation: tuple, transposed: bool, output_padding: tuple, groups: int, output_mask: tuple,
                    spec: tuple) -> tuple:
    steps, conv = _steps(weight.ndim - 2, stride, padding, dilation, groups), xp.convolution
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        compute = conv.forward if transposed else conv.to_input
        of_input = compute(grad_output, weight, None, uninitialised(spec[0], xp), steps)
    if output_mask[1]:
        windows, single = (grad_output, input) if transposed else (input, grad_output)
        of_weight = conv.to_weight(single, windows, uninitialised(spec[1], xp), steps)
    if output_mask[2]:
        summed = grad_output.astype(xp.float32) if grad_output.dtype == bfloat16.np else grad_output
        of_bias = xp.add.reduce(summed, axis=(0, *range(2, grad_output.ndim)))
    return of_input, of_weight, of_bias


def _backward_grad(grads, grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups,
                   needs):
    """Convolution is linear in input and in weight, so these are convolutions and their gradients again."""
    of_input, of_weight, of_bias = grads
    steps = (stride, padding, dilation, transposed, output_padding, groups)
    of_grad = made_input = made_weight = None
    if needs[0]:
        parts = [_convolution(x, w, None, *steps) for x, w in ((of_input, weight), (input, of_weight))
                 if x is not None and w is not None]
        if of_bias is not None:
            parts.append(of_bias.reshape((-1,) + (1,) * (grad_output.dim() - 2)).expand(grad_output.shape))
        of_grad = sum(parts[1:], parts[0])
    if needs[1] and of_weight is not None:
        made_input = _gradients(grad_output, input, of_weight, None, *steps, (True, False, False))[0]
    if needs[2] and of_input is not None:
        made_weight = _gradients(grad_output, of_input, weight, None, *steps, (False, True, False))[1]
    return of_grad, made_input, made_weight


def _convolution_backward_each(call: Call) -> Result:
    _, _, _, bias_sizes, *geometry, groups, mask = call.values
    size = call.size
    grad, input, weight = (call.full(i) for i in range(3))
    if bias_sizes is not None:
        bias_sizes = (bias_sizes[0] * size,)
    of_input, of_weight, of_bias = call.run(_into_channels(grad), _into_channels(input), weight.flatten(0, 1),
                                            bias_sizes, *geometry, groups * size, mask)
    return (None if of_input is None else _out_of_channels(of_input, size),
            None if of_weight is None else of_weight.unflatten(0, (size, weight.shape[1])),
            None if of_bias is None else of_bias.unflatten(0, (size, of_bias.shape[0] // size))), True


_BACKWARD = op(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, "
    "int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[3] output_mask) -> "
    "(Tensor result, Tensor result1, Tensor result2)",
    kernel=computes(_backward_specs, _backward_array, widened=_widened),
    kernels={"cuda": "conv.convolution_backward", "npu": "conv.convolution"},
    grad={"grad_output, input, weight": _backward_grad},
    npu="aclnnConvolutionBackward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, "
        "output_padding, groups, output_mask, cubeMathType=0, result, result1, result2) empty=0",
    public="",
    samples=cases(
        case(t(2, 4, 3, 5), t(2, 3, 5, 6), t(4, 3, 3, 2), (4,), *_PLAIN, (True, True, True)),
        case(t(2, 6, 3, 1), t(2, 4, 5, 5), t(6, 2, 3, 3), None, (2, 1), (1, 0), (1, 2), False, (0, 0), 2,
             (True, True, False)),
        case(t(2, 3, 5, 4), t(2, 3, 5, 4), t(3, 1, 3, 3), (3,), (1,), (1,), (1,), False, (0,), 3, (True, True, True)),
        case(t(2, 4, 7), t(2, 3, 3), t(3, 4, 3), None, (2,), (0,), (1,), True, (0,), 1, (True, True, False)),
        case(t(2, 4, 3, 5), t(2, 3, 5, 6), t(4, 3, 3, 2), (4,), *_PLAIN, (False, True, False))),
    batch=_convolution_backward_each, flops=Flops(conv_backward_flop), sharded="convolution_gradients")


def _gradients(*arguments: Any) -> tuple:
    return call_bound(_BACKWARD, arguments)


# by rank -------------------------------------------------------------------------------------------------------------


def _by_parts(input: Any, weight: Any, bias: Any, *steps: Any) -> Any:
    """The convolution; of complex numbers by their real and imaginary parts, as PyTorch does."""
    if not input.is_complex():
        return call_bound(_CONVOLUTION, (input, weight, bias, *steps))
    _check_types(input, weight, bias)
    of_bias = (None, None) if bias is None else (bias.real, bias.imag)
    real, imag = (_convolution(x, weight.real, b, *steps)
                  for x, b in zip((input.real, input.imag), of_bias, strict=True))
    return call_bound(COMPLEX_OF_PARTS, (real - _convolution(input.imag, weight.imag, None, *steps),
                                         imag + _convolution(input.real, weight.imag, None, *steps)))


def _with_batch(input: Any, rank: int, name: str, compute: Callable) -> Any:
    """What `compute` gives for the input, for the time of the call with a batch dimension."""
    if input.dim() not in (rank + 1, rank + 2):
        raise RuntimeError(f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input "
                           f"of size: {shape_text(input.shape)}")
    return compute(input) if input.dim() == rank + 2 else compute(input.unsqueeze(0)).squeeze(0)


def _padded_to_same(input: Any, weight: Any, stride: tuple, dilation: tuple) -> tuple[Any, tuple[int, ...]]:
    """The input and the padding that keep its size; what cannot be even on both sides is added at the end."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    if weight.dim() < 3:
        raise RuntimeError("weight should have at least three dimensions")
    _check_ranks(weight.shape, input.shape)
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(n % 2 for n in total):
        warn_once("Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of "
                  "the input be created")
        input = constant_pad_nd(input, tuple(side for n in reversed(total) for side in (0, n % 2)))
    return input, tuple(n // 2 for n in total)


def _declare(rank: int) -> None:
    """conv1d, conv2d or conv3d, and its transposed counterpart."""
    name, length = f"conv{rank}d", (7, 5, 4)[rank - 1]
    x, w, none = (2, 3) + (length,) * rank, (4, 3) + (3,) * rank, (0,) * rank
    steps = f"SymInt[{rank}] stride=1, {{}} padding={{}}, SymInt[{rank}] dilation=1, int groups=1) -> Tensor"

    @composite(f"{name}(Tensor input, Tensor weight, Tensor? bias=None, {steps.format(f'SymInt[{rank}]', 0)}",
               public="torch nn.functional", out=None, autocast="lower",
               samples=cases(
                   case(t(*x), t(*w)), case(t(*x[1:]), t(*w), t(4), stride=2, padding=1),
                   case(t(2, 4, *x[2:]), t(4, 2, *w[2:]), padding=2, dilation=2, groups=2),
                   case(t(2, 4, *x[2:]), t(4, 1, *w[2:]), t(4), groups=4, stride=2),
                   error(RuntimeError, f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but"
                         " got input of size: [6]", t(6), t(*w)),
                   error(RuntimeError, f"Given groups=1, weight of size {shape_text((4, 2, *w[2:]))}, expected "
                         f"input{shape_text(x)} to have 2 channels, but got 3 channels instead", t(*x),
                         t(4, 2, *w[2:])),
                   error(RuntimeError, "Given groups=2, expected weight to be at least 2 at dimension 0, but got weight"
                         " of size", t(*x), t(1, *w[1:]), groups=2),
                   error(RuntimeError, "Given groups=3, expected weight to be divisible by 3 at dimension 0, but got "
                         "weight of size", t(*x), t(4, 1, *w[2:]), groups=3),
                   error(RuntimeError, "expected bias to be 1-dimensional with 4 elements, but got bias of size [3] "
                         "instead", t(*x), t(*w), t(3)),
                   error(RuntimeError, "Kernel size can't be greater than actual input size", t(2, 3, *(2,) * rank),
                         t(*w)),
                   error(RuntimeError, "non-positive stride is not supported", t(*x), t(*w), stride=-1),
                   error(RuntimeError, "negative padding is not supported", t(*x), t(*w), padding=-1),
                   error(RuntimeError, "non-positive dilation is not supported", t(*x), t(*w), dilation=0),
                   error(RuntimeError, "non-positive groups is not supported", t(*x), t(*w), groups=0),
                   error(RuntimeError, "should be the same or input should be a MKLDNN tensor", t(*x), ints(*w))))
    def conv(input, weight, bias, stride, padding, dilation, groups):
        if len(input._array.shape) == rank + 2 and not input.dtype.is_complex:
            return call_bound(_CONVOLUTION, (input, weight, bias, stride, padding, dilation, False, none, groups))
        return _with_batch(input, rank, name, lambda x: _by_parts(x, weight, bias, stride, padding, dilation, False,
                                                                     none, groups))

    @composite(f"{name}.padding(Tensor input, Tensor weight, Tensor? bias=None, {steps.format('str', 'valid')}",
               public="torch nn.functional", out=None, autocast="lower",
               samples=cases(
                   case(t(*x), t(*w), padding="same"), case(t(*x), t(*w), t(4), padding="valid", stride=2),
                   case(t(*x[1:]), t(4, 3, *(2,) * rank), padding="same", dilation=1),
                   error(RuntimeError, "Invalid padding string: 'even'", t(*x), t(*w), padding="even"),
                   error(RuntimeError, "padding='same' is not supported for strided convolutions", t(*x), t(*w),
                         padding="same", stride=2)))
    def conv_padded(input, weight, bias, stride, padding, dilation, groups):
        def compute(x: Any) -> Any:
            if padding not in ("same", "valid"):
                raise RuntimeError(f"Invalid padding string: '{padding}'")
            x, around = _padded_to_same(x, weight, stride, dilation) if padding == "same" else (x, none)
            return _by_parts(x, weight, bias, stride, around, dilation, False, none, groups)

        return _with_batch(input, rank, name, compute)

    transposed = f"conv_transpose{rank}d"

    @composite(f"{transposed}.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{rank}] stride=1, "
               f"SymInt[{rank}] padding=0, int[{rank}] output_padding=0, int groups=1, SymInt[{rank}] dilation=1)"
               " -> Tensor",
               public="torch nn.functional", out=None, autocast="lower",
               samples=cases(
                   case(t(*x), t(3, 2, *w[2:])), case(t(*x[1:]), t(3, 2, *w[2:]), t(2), 2, 1, 1),
                   case(t(2, 4, *x[2:]), t(4, 1, *w[2:]), padding=1, groups=2, dilation=2),
                   error(RuntimeError, f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to "
                         f"{transposed}, but got input of size: [6]", t(6), t(*w)),
                   error(RuntimeError, "Given transposed=1, weight of size", t(*x), t(*w)),
                   error(RuntimeError, "expected bias to be 1-dimensional with 2 elements, but got bias of size [3] "
                         "instead", t(*x), t(3, 2, *w[2:]), t(3)),
                   error(RuntimeError, "output padding must be smaller than either stride or dilation, but got", t(*x),
                         t(3, 2, *w[2:]), stride=2, output_padding=2),
                   error(RuntimeError, "negative output_padding is not supported", t(*x), t(3, 2, *w[2:]),
                         output_padding=-1)))
    def conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation):
        return _with_batch(input, rank, transposed, lambda x: _by_parts(
            x, weight, bias, stride, padding, dilation, True, output_padding, groups))


for _rank in (1, 2, 3):
    _declare(_rank)


@composite("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", public="torch nn.functional",
           samples=cases(
               case(t(6, 2, 3), t(3, 3, 4), t(4)), case(t(5, 2, 3), t(2, 3, 4), t(4), 1),
               error(RuntimeError, "Input must have 3 dims: time, batch, in_channel", t(6, 2), t(3, 2, 4), t(4)),
               error(RuntimeError, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.",
                     t(6, 2, 3), t(3, 3), t(4)),
               error(RuntimeError, "Bias must be 1-D", t(6, 2, 3), t(3, 3, 4), t(4, 1)),
               error(RuntimeError, "Input dim 2 (input channels) is not == dim 1 in the weight tensor", t(6, 2, 3),
                     t(3, 2, 4), t(4)),
               error(RuntimeError, "Bias size must equal dim 2 in the weight tensor (output channels).", t(6, 2, 3),
                     t(3, 3, 4), t(3))), out=None, aten=LEAF, autocast="lower")
def _conv_tbc(self, weight, bias, pad):
    """Convolution of (time, batch, channels) with a weight (width, channels, made channels)."""
    if self.dim() != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.dim() != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.dim() != 1:
        raise RuntimeError("Bias must be 1-D")
    if self.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    made = _by_parts(self.permute(1, 2, 0), weight.permute(2, 1, 0), bias, (1,), (pad,), (1,), False, (0,), 1)
    return made.permute(2, 0, 1).contiguous()
