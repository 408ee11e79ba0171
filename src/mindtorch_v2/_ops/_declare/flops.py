"""How many floating point operations an operator takes, from the shapes of its arguments: `flops=` of declarations."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Flops(NamedTuple):
    """How an operator's operations are counted, and under which of ATen's operators if it is none itself."""

    # Of the arguments, with shapes, which are tuples, for tensors, and `out_shape`; any operator may pass further ones.
    count: Callable[..., int]
    shown: str | Callable[[Sequence[Any]], str] = ""  # a name, or one by the arguments
    by: str = "counter"  # who counts them: FlopCounterMode, the "profiler", or "both"


def each_element(*args: Any, out_shape: Any, **kwargs: Any) -> int:
    return math.prod(out_shape)


def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    batch = out_shape[:-2] if out_shape is not None else a_shape[:-2]
    return math.prod(batch) * a_shape[-2] * a_shape[-1] * b_shape[-1] * 2


def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return mm_flop(a_shape, b_shape)


def linear_flop(x_shape: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    return math.prod(x_shape) * math.prod(w_shape[:-1]) * 2


def weight_grad_flop(rows_shape: Any, x_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return math.prod(x_shape) * math.prod(out_shape[:-1]) * 2


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Operations of a convolution: each place of the output, or of the input if transposed, meets the whole filter."""
    places = (x_shape if transposed else out_shape)[2:]
    return math.prod(places) * math.prod(w_shape) * x_shape[0] * 2


def conv_flop(x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
              *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def conv_backward_flop(grad_out_shape: Any, x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any,
                       _dilation: Any, transposed: bool, _output_padding: Any, _groups: int,
                       output_mask: Sequence[bool], out_shape: Any = None) -> int:
    flops = conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed) if output_mask[0] else 0
    if output_mask[1]:  # a convolution of the input with the gradient, or the other way round
        fixed, moved = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        weight = out_shape[1]
        flops += conv_flop_count((fixed[1], fixed[0]), (moved[1], moved[0], *moved[2:]),
                                 (weight[1], weight[0], *weight[2:]))
    return flops


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Operations of the two products of attention."""
    *batch, length, width = query_shape
    return math.prod(batch) * length * key_shape[-2] * (width + value_shape[-1]) * 2


def sdpa_flop(query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, **kwargs: Any) -> int:
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop(grad_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any, *args: Any,
                       **kwargs: Any) -> int:
    """The scores again, and two products for each of the two of forward."""
    *batch, length, width = query_shape
    return math.prod(batch) * length * key_shape[-2] * (3 * width + 2 * value_shape[-1]) * 2


def _recurrent(x_shape: Any, h_shape: Any, w_ih_shape: Any, w_hh_shape: Any, w_hr_shape: Any) -> int:
    weights = sum(math.prod(shape) for shape in (w_ih_shape, w_hh_shape, w_hr_shape) if shape is not None)
    return x_shape[0] * weights * 2


def recurrent_flop(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any, *args: Any,
                    **kwargs: Any) -> int:
    return _recurrent(x, h, w_ih, w_hh, w_hr)


def recurrent_backward_flop(g: Any, gh: Any, gc: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, w_hr: Any,
                             *args: Any, **kwargs: Any) -> int:
    return 2 * _recurrent(x, h, w_ih, w_hh, w_hr)
