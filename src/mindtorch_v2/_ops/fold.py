"""Sliding blocks as columns (unfold), and columns added up to an image (fold)."""

import math
from collections.abc import Iterable
from typing import Any

from .._core.dtype import INT, dtype
from .._core.geometry import Steps
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.registry import Operator
from ._declare.batch import planewise
from ._declare.families import computes, moves
from ._declare.op import composite, op
from ._declare.rules import Spec, shape_text
from ._declare.samples import case, cases, error, t


def _pair_text(pair: tuple) -> str:
    return f"({pair[0]}, {pair[1]})"


def _check_lengths(pairs: dict[str, tuple]) -> None:
    for name, pair in pairs.items():
        if len(pair) != 2:
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(pair)}")


def _check_pairs(kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple, **others: tuple) -> None:
    _check_lengths({**others, "kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride})
    for name, field, pair in (("kernel size", "kernel", kernel_size), ("stride", "stride", stride),
                              ("dilation", "dilation", dilation)):
        if min(pair) < 1:
            raise RuntimeError(f"{name} should be greater than zero, but got {field}_height: {pair[0]} {field}_width: "
                               f"{pair[1]}")
    if min(padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: {padding[1]}")


def _check_type(kind: dtype, kernel: str) -> None:
    if kind.category == INT:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


def _block_counts(size: tuple, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple) -> tuple[int, int]:
    high, wide = ((n + 2 * p - d * (k - 1) - 1) // s + 1
                  for n, k, d, p, s in zip(size, kernel_size, dilation, padding, stride, strict=True))
    return high, wide


def _im2col_spec(self: Tensor, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple) -> Spec:
    _check_pairs(kernel_size, dilation, padding, stride)
    shape = self._array.shape
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        if len(shape) == 2:
            raise IndexError("Dimension out of range (expected to be in range of [-2, 1], but got 2)")
        raise RuntimeError("Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
                           f"dimensions for input, but got: {shape_text(shape)}")
    counts = _block_counts(shape[-2:], kernel_size, dilation, padding, stride)
    if min(counts) < 1:
        raise RuntimeError(f"Given input with spatial size {_pair_text(shape[-2:])}, kernel_size="
                           f"{_pair_text(kernel_size)}, dilation={_pair_text(dilation)}, padding={_pair_text(padding)}"
                           f", calculated shape of the array of sliding blocks as {_pair_text(counts)}, but its "
                           "components must be at least one.")
    _check_type(self.dtype, "im2col_out_cpu")
    return Spec((*shape[:-3], shape[-3] * kernel_size[0] * kernel_size[1], counts[0] * counts[1]), self.dtype)


def _im2col_array(xp: Any, self: Any, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple,
                  spec: Spec) -> Any:
    counts = _block_counts(self.shape[-2:], kernel_size, dilation, padding, stride)
    conv = xp.convolution
    blocks = conv.windows(conv.padded(self, padding), kernel_size, counts, Steps(stride, padding, dilation))
    return blocks.copy().reshape(spec.shape)


def _col2im_spec(self: Tensor, output_size: tuple, kernel_size: tuple, dilation: tuple, padding: tuple,
                 stride: tuple) -> Spec:
    _check_pairs(kernel_size, dilation, padding, stride, output_size=output_size)
    shape = self._array.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError("Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
                           f"dimensions for input, but got: {shape_text(shape)}")
    taps = kernel_size[0] * kernel_size[1]
    if shape[-2] % taps:
        raise RuntimeError("Expected size of input's dimension 1 to be divisible by the product of kernel_size, but "
                           f"got input.size(1)={shape[-2]} and kernel_size={_pair_text(kernel_size)}.")
    counts = _block_counts(output_size, kernel_size, dilation, padding, stride)
    if shape[-1] != counts[0] * counts[1]:
        raise RuntimeError(f"Given output_size={_pair_text(output_size)}, kernel_size={_pair_text(kernel_size)}, "
                           f"dilation={_pair_text(dilation)}, padding={_pair_text(padding)}, stride="
                           f"{_pair_text(stride)}, expected size of input's dimension 2 to match the calculated number "
                           f"of sliding blocks {counts[0]} * {counts[1]} = {counts[0] * counts[1]}, but got "
                           f"input.size(2)={shape[-1]}.")
    _check_type(self.dtype, "col2im_out_cpu")
    return Spec((*shape[:-2], shape[-2] // taps, *output_size), self.dtype)


def _col2im_array(xp: Any, self: Any, output_size: tuple, kernel_size: tuple, dilation: tuple, padding: tuple,
                  stride: tuple, spec: Spec) -> Any:
    conv, planes = xp.convolution, math.prod(spec.shape[:-2])
    counts = _block_counts(output_size, kernel_size, dilation, padding, stride)
    image = xp.zeros((planes, *(n + 2 * p for n, p in zip(output_size, padding, strict=True))), self.dtype)
    blocks = conv.windows(image, kernel_size, counts, Steps(stride, padding, dilation))
    conv.add_windows(blocks, self.reshape(planes, *kernel_size, *counts), 2)
    return conv.inside(image, padding).copy().reshape(spec.shape)


def _im2col_at(g: Any, self: Any, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple) -> Any:
    high, wide = _block_counts(self.shape[-2:], kernel_size, dilation, padding, stride)
    *batch, row, column = g.at
    (_, inner), inside, places = kernel_size, None, []
    of_window, of_block = (row // inner % kernel_size[0], row % inner), (column // wide, column % wide)
    for d in range(2):
        n, place = self.shape[d - 2], of_block[d] * stride[d] + of_window[d] * dilation[d]
        if padding[d]:
            place = place - padding[d]
            there = (place >= 0) & (place < n)
            inside = there if inside is None else inside & there
        places.append(place)

    def element() -> Any:
        return self[(*batch, row // (kernel_size[0] * inner), *places)]

    return element() if inside is None else g.chosen(inside, element, lambda: self.number(0))


_STEPS = "int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"
_COL2IM = op(
    f"col2im(Tensor self, SymInt[2] output_size, {_STEPS}",
    kernel=computes(_col2im_spec, _col2im_array),
    grad=dict(self=lambda grad, kernel_size, dilation, padding, stride:
              call_bound(_IM2COL, (grad, kernel_size, dilation, padding, stride))),
    npu="aclnnIm2colBackward(self, output_size, kernel_size, dilation, padding, stride, out)",
    public="",
    samples=cases(case(t(2, 12, 20), (5, 6), (2, 2), (1, 1), (0, 0), (1, 1)),
                  case(t(6, 6), (4, 5), (3, 2), (1, 2), (1, 0), (2, 1))), batch=planewise(3))
_IM2COL = op(
    f"im2col(Tensor self, {_STEPS}",
    kernel=moves(_im2col_spec, _im2col_array, rearranges=True), gathers=_im2col_at,
    grad=dict(self=lambda grad, self_shape, kernel_size, dilation, padding, stride:
              call_bound(_COL2IM, (grad, tuple(self_shape[-2:]), kernel_size, dilation, padding, stride))),
    npu="aclnnIm2col(self, kernel_size, dilation, padding, stride, out)",
    public="",
    samples=cases(case(t(2, 3, 5, 6), (2, 2), (1, 1), (0, 0), (1, 1)),
                  case(t(1, 4, 5), (3, 2), (1, 2), (1, 0), (2, 1))), batch=planewise(4))
_DEFAULTS = "Any dilation=1, Any padding=0, Any stride=1) -> Tensor"


def _pair(value: Any) -> tuple:
    """One setting for both dimensions, or what is given for each."""
    return tuple(value) if isinstance(value, Iterable) else (value, value)


def _run(operator: Operator, input: Tensor, *settings: Any) -> Tensor:
    """What the operator makes with settings that are one number or two; a list of one is no pair."""
    pairs = [_pair(setting) for setting in settings]
    values = operator.schema.bind((input, *pairs), {})
    _check_lengths(dict(zip(operator.schema.names[1:], pairs, strict=True)))
    return call_bound(operator, values)


@composite(f"functional_unfold(Tensor input, Any kernel_size, {_DEFAULTS}", public="",
           aliases=("nn.functional.unfold",),
           samples=cases(
               case(t(2, 3, 5, 6), 2), case(t(3, 5, 6), (3, 2), 2, 1, (1, 2)), case(t(0, 3, 4, 4), 2),
               error(RuntimeError, "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero"
                     " dimensions for input, but got: [2, 0, 6, 6]", t(2, 0, 6, 6), 2),
               error(RuntimeError, "kernel size should be greater than zero, but got kernel_height: 0 kernel_width: 0",
                     t(2, 3, 6, 6), 0),
               error(RuntimeError, "calculated shape of the array of sliding blocks as (0, 0), but its components must "
                     "be at least one.", t(2, 3, 6, 6), 7)))
def _unfold(input, kernel_size, dilation, padding, stride):
    """Every block of an image as a column."""
    return _run(_IM2COL, input, kernel_size, dilation, padding, stride)


@composite(f"functional_fold(Tensor input, Any output_size, Any kernel_size, {_DEFAULTS}", public="",
           aliases=("nn.functional.fold",),
           samples=cases(
               case(t(2, 12, 20), (5, 6), 2), case(t(18, 6), (5, 5), (3, 2), 1, (1, 0), (2, 2)),
               error(RuntimeError, "expected size of input's dimension 2 to match the calculated number of sliding "
                     "blocks 5 * 5 = 25, but got input.size(2)=24.", t(2, 12, 24), 6, 2),
               error(RuntimeError, "Expected size of input's dimension 1 to be divisible by the product of kernel_size",
                     t(2, 11, 25), 6, 2),
               error(RuntimeError, "stride should be greater than zero, but got stride_height: 0 stride_width: 0",
                     t(2, 12, 25), 6, 2, stride=0)))
def _fold(input, output_size, kernel_size, dilation, padding, stride):
    """An image of which the columns are blocks, added up where they overlap."""
    return _run(_COL2IM, input, output_size, kernel_size, dilation, padding, stride)
