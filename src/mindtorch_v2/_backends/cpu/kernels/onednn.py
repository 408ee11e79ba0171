"""What oneDNN computes on the CPU, each where it was measured to be quicker than NumPy.

A kernel takes the arguments of its operator's `array` function, and answers None if the arrays are not what it is good
at: then that function is run. All take float32 alone. Primitives are made once for a geometry and a number of threads.
"""

import functools
import math
from collections.abc import Callable, Sequence
from ctypes import c_float
from typing import Any

import numpy as np

from ...._core.dtype import bfloat16, row_major
from ...._core.geometry import Steps
from .. import convolution as by_numpy
from .. import onednn_kernels
from ..blocks import SERVED
from ..factors import Factor, factor_of
from ..onednn import (
    AFTER,
    BF16,
    BIAS,
    DIFF_DST,
    DIFF_SRC,
    DIFF_WEIGHTS,
    DST,
    F32,
    OTHER,
    SRC,
    WEIGHTS,
    Layout,
    Operand,
    Packing,
    Primitive,
    Recipe,
    Unsupported,
    dims,
    loaded,
    threads,
)

_TRAINING = 64  # dnnl_forward_training
_DIRECT = 0x1  # dnnl_convolution_direct
_ALGORITHMS = {"gelu_tanh": 0x2B, "gelu_erf": 0x31, "logistic": 0x29, "swish": 0x2C, "relu": 0x20, "tanh": 0x21,
               "add": 0x1FFF0, "mul": 0x1FFF1}  # dnnl_eltwise_..., dnnl_binary_...
_ELEMENTS, _PRODUCTS = 1 << 17, 1 << 22  # which are worth one more thread
_LITTLE = 1 << 17  # products of a convolution below which NumPy is as quick
_KEPT = 512  # primitives of a kind
_F32, _BF16 = np.dtype(np.float32), bfloat16.np
_KINDS = {_F32: F32} | ({_BF16: BF16} if loaded().has_bf16 else {})  # what convolutions take
_TARGETS = {"forward": 2, "to_input": 0, "to_weight": 1}
TAKES_BFLOAT16 = True
# Where windows lie is a question of strides, which NumPy answers.
add_windows, inside, padded, windows = by_numpy.add_windows, by_numpy.inside, by_numpy.padded, by_numpy.windows
_CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def _primitives(build: Callable) -> Callable:
    """`build(recipe, *geometry)`, given the work too, remembered by geometry and threads; None where oneDNN refuses."""

    @functools.lru_cache(_KEPT)
    def made(count: int, *geometry: Any) -> Primitive | None:
        try:
            return build(Recipe(), *geometry)
        except Unsupported as refusal:
            if refusal.lasting:
                return None
            raise

    @functools.wraps(build)
    def primitive(work: float, *geometry: Any) -> Primitive | None:
        try:
            return made(threads(work), *geometry)
        except Unsupported:
            return None

    return primitive


def _plain(shape: Sequence[int], kind: int = F32) -> Layout:
    strides = [1]
    for n in shape[:0:-1]:
        strides.append(strides[-1] * n)
    return Layout(tuple(shape), tuple(reversed(strides)) if len(shape) else (), kind)


def _dense(shape: tuple[int, ...], channels_last: bool, kind: int = F32) -> Layout:
    """The layout of a contiguous array, or of one in the channels-last format."""
    if not channels_last:
        return _plain(shape, kind)
    batch, width, *inner = _plain((shape[0], *shape[2:], shape[1])).strides or ()
    return Layout(shape, (batch, inner[-1], width, *inner[:-1]), kind)


def _arranged(array: Any) -> tuple[Any, bool]:
    """The array, copied where it lies in another way than these two, and whether it is in the channels-last format."""
    if array.flags.c_contiguous:
        return array, False
    order = _CHANNELS_LAST.get(array.ndim)
    if order is not None and array.transpose(order).flags.c_contiguous:
        return array, True
    return row_major(array), False


# convolution ---------------------------------------------------------------------------------------------------------


@_primitives
def _convolution(recipe: Recipe, direction: str, x: tuple, weight: tuple, made: tuple, biased: bool,
                 steps: Steps) -> Primitive | None:
    """One of a convolution's three maps; x, weight and made are (shape, whether it is channels-last, type)."""
    groups, (first, *rest) = steps.groups, weight[0]
    own = [_dense(*x), _dense(*weight), _dense(*made)]
    if groups > 1:
        strides = own[1].strides or ()
        own[1] = Layout((groups, first // groups, *rest), (strides[0] * (first // groups), *strides), own[1].kind)
    any_layout = [layout._replace(strides=None) for layout in own]
    if x[1] or made[1]:  # then both are best left so
        any_layout[0], any_layout[2] = (_dense(shape, True, kind) for shape, _, kind in (x, made))
    reach = [d * (k - 1) + 1 for d, k in zip(steps.dilation, weight[0][2:], strict=True)]
    behind = [(n - 1) * s + r - size - p for n, s, r, size, p
              in zip(made[0][2:], steps.stride, reach, x[0][2:], steps.padding, strict=True)]
    geometry = tuple(map(dims, (steps.stride, [d - 1 for d in steps.dilation], steps.padding, behind)))
    of_bias = _plain((weight[0][0],))
    forward = recipe.described("convolution_forward", _TRAINING, _DIRECT, *any_layout[:2],
                               of_bias if biased else None, any_layout[2], *geometry)
    if direction == "forward":
        operands = [Operand(SRC, own[0]), Operand(WEIGHTS, own[1]), Operand(DST, own[2], True)]
        return Primitive(recipe, forward, operands + [Operand(BIAS, of_bias)] * biased)
    if direction == "to_input":
        description = recipe.described("convolution_backward_data", _DIRECT, *any_layout, *geometry, forward)
        return Primitive(recipe, description,
                         [Operand(DIFF_SRC, own[0], True), Operand(WEIGHTS, own[1]), Operand(DIFF_DST, own[2])])
    description = recipe.described("convolution_backward_weights", _DIRECT, *any_layout[:2], None, any_layout[2],
                                   *geometry, forward)
    return Primitive(recipe, description,
                     [Operand(SRC, own[0]), Operand(DIFF_WEIGHTS, own[1], True), Operand(DIFF_DST, own[2])])


def forward(x: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> Any:
    """This and the next two: as in convolution.py, which does what oneDNN does not."""
    return _filled("forward", [x, weight, made], bias, steps)


def to_input(grad: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> Any:
    return _filled("to_input", [made, weight, grad], bias, steps)


def to_weight(grad: Any, x: Any, made: Any, steps: Steps) -> Any:
    return _filled("to_weight", [x, made, grad], None, steps)


def _filled(direction: str, arrays: list, bias: Any, steps: Steps) -> Any:
    """That of a convolution's input, weight and result which `direction` leads to, computed from the others."""
    target = _TARGETS[direction]
    if _convolve(direction, arrays, bias, steps):
        return arrays[target]
    wide = [a if i == target or a.dtype != _BF16 else a.astype(_F32) for i, a in enumerate(arrays)]
    if bias is not None and bias.dtype == _BF16:
        bias = bias.astype(_F32)
    x, weight, other = wide
    if any(a is not b for a, b in zip(wide, arrays, strict=True)) and _convolve(direction, wide, bias, steps):
        return arrays[target]
    if direction == "to_weight":
        return by_numpy.to_weight(other, x, weight, steps)
    if direction == "forward":
        return by_numpy.forward(x, weight, bias, other, steps)
    return by_numpy.to_input(other, weight, bias, x, steps)


def _is_served(direction: str, x: Any, weight: Any, steps: Steps) -> bool:
    """Whether oneDNN is good at these channels."""
    groups, taken, made = steps.groups, x.shape[1] // steps.groups, len(weight) // steps.groups
    if groups > 1:
        return taken == made == 1 or min(taken, made) >= 8  # depthwise has kernels of its own
    # The gradient of few channels computes 16 all the same.
    return direction != "to_input" or taken >= (8 if max(steps.stride) > 1 else 3)


def _convolve(direction: str, arrays: list, bias: Any, steps: Steps) -> bool:
    """Fills the array that `direction` leads to; False if oneDNN does not serve this."""
    x, weight, other = arrays
    products = other.size * math.prod(weight.shape[1:])
    if products < _LITTLE or not x.size or not _is_served(direction, x, weight, steps):
        return False
    target = _TARGETS[direction]
    kinds = {a.dtype for i, a in enumerate(arrays) if i != target}
    kind, wanted, biased = kinds.pop(), arrays[target], bias is not None and direction == "forward"
    if kinds or kind not in _KINDS or kind == _BF16 and bias is not None and not biased:
        return False
    if wanted.dtype != kind:  # half precision, rounded once at the end
        arrays = [np.empty(a.shape, kind) if a is wanted else a for a in arrays]
    arranged = [_arranged(a) for a in arrays]
    primitive = _convolution(products / _PRODUCTS, direction, *((a.shape, last, _KINDS[kind]) for a, last in arranged),
                             biased, steps)
    if primitive is None:
        return False
    primitive(*(a for a, _ in arranged), *((np.ascontiguousarray(bias, _F32),) if biased else ()))
    filled = arranged[target][0]
    if bias is not None and not biased:
        filled += bias.reshape(-1, *(1,) * (filled.ndim - 2))
    if filled is not wanted:
        wanted[...] = filled
    return True


# products ------------------------------------------------------------------------------------------------------------

_MULTIPLIED = 1 << 20  # numbers from which on preparing a call does not matter
_LEAST_ROWS = 16  # of a product that is not quicker by itself: primitives read a weight that lies by rows slowly
_FEW_ROWS, _MOST_JOINED = 64, 1 << 20  # of a product; elements of an operand
_COSTLY = ("gelu_tanh", "sigmoid", "silu", "tanh")  # compiled kernels compute these in less time, by themselves
_PARTS = {"sigmoid": "logistic", "silu": "swish", "gelu": "gelu_erf"}  # which oneDNN names otherwise


@_primitives
def _product(recipe: Recipe, left: Layout, right: Layout, biased: bool, parts: tuple) -> Primitive:
    """`left @ right` with a row added, and parts after that: (algorithm, parameter or layout of an operand)."""
    return _product_on(recipe, left, right, biased, parts)[0]


@_primitives
def _packed_product(recipe: Recipe, left: Layout, right: Layout, biased: bool, parts: tuple) -> tuple:
    """The same with the right factor as oneDNN likes it, and what packs it so."""
    primitive, description = _product_on(recipe, left, right._replace(strides=None), biased, parts)
    return primitive, Packing(recipe, description, WEIGHTS, right)


def _product_on(recipe: Recipe, left: Layout, right: Layout, biased: bool, parts: tuple) -> tuple[Primitive, Any]:
    """The primitive of a product, and what describes it."""
    made = _plain((left.shape[0], right.shape[1]))
    bias = _plain((1, right.shape[1]))
    description = recipe.described("matmul", left, right, bias if biased else None, made,
                                   attributes=recipe.followed_by(parts) if parts else None)  # fmt: skip
    operands = [Operand(SRC, left), Operand(WEIGHTS, right), *[Operand(BIAS, bias)] * biased]
    operands += [Operand(AFTER * (at + 1) | OTHER, other) for at, (_, other) in enumerate(parts)
                 if other.__class__ is Layout]  # fmt: skip
    return Primitive(recipe, description, [*operands, Operand(DST, made, True)]), description


def fused_product(product: Any, parts: Sequence[Any]) -> Callable | None:
    """As the backend's: products of float32 of matrices that lie densely, where that was measured to be quicker."""
    sides = product.left, product.right
    if product.layout.dtype != _F32 or product.work < _MULTIPLIED:
        return None
    if product.shape[0] < _LEAST_ROWS:
        return None
    if product.shape[0] > _FEW_ROWS and any(part.name in _COSTLY for part in parts):
        return None
    if any(math.prod(getattr(part.operand, "shape", ())) > _MOST_JOINED for part in parts):
        return None
    if any(side.strides not in ((side.shape[1], 1), (1, side.shape[0])) for side in sides):
        return None
    left, right = (Layout(side.shape, side.strides) for side in sides)
    chain = tuple([(_ALGORITHMS[_PARTS.get(part.name, part.name)], float(part.name == "silu") if part.operand is None
                    else _plain(getattr(part.operand, "shape", (1, 1)))) for part in parts])  # fmt: skip
    return _multiplication(left, right, product.bias is not None, chain)


def linear(rows: tuple[int, int], weight: tuple[int, int], biased: bool) -> Callable | None:
    """What multiplies dense rows by a weight's rows, of float32, as `fused_product` gives it; None where it is slow."""
    if rows[0] < _LEAST_ROWS or rows[0] * math.prod(weight) < _MULTIPLIED:
        return None
    return _multiplication(_plain(rows), Layout(weight[::-1], (1, weight[1])), biased, ())


def matrix_product(rows: tuple[int, int], right: tuple[int, int], strides: tuple[int, int],
                   biased: bool) -> Callable | None:  # fmt: skip
    """The same for a right factor whose rows, or columns, lie densely; strides in bytes."""
    steps = tuple([step // _F32.itemsize for step in strides])
    if rows[0] < _LEAST_ROWS or steps not in ((right[1], 1), (1, right[0])):
        return None
    return _multiplication(_plain(rows), Layout(right, steps), biased, ())


def _multiplication(left: Layout, right: Layout, biased: bool, chain: tuple) -> Callable | None:
    """What runs the primitive of a product: `run(shape, *arrays)`, None where there is none now."""
    work = left.shape[0] * math.prod(right.shape) / _PRODUCTS
    primitives = {threads(work): _product(work, left, right, biased, chain)}
    if None in primitives.values():
        return None

    def packed(factor: Factor, matrix: Any) -> tuple[Primitive, Any] | None:
        """The primitive for a packed factor, and that: products of other sizes may have packed it alike."""
        found = _packed_product(work, left, right, biased, chain)
        if found is None:
            return None
        primitive, packing = found
        for other in [key for key in list(factor.forms) if key.__class__ is tuple and key[0] == right]:
            if other[1].gives_the_same_as(packing):
                packing = other[1]
        return primitive, factor.form((right, packing), lambda: packing(matrix))

    def run(shape: tuple[int, ...], *given: Any) -> Any:
        if onednn_kernels() is None:
            return None
        count = threads(work)
        factor = factor_of(given[1])
        kept: Any = None
        if factor is not None:
            kept = factor.form((count, left, right, biased, chain), lambda: packed(factor, given[1]))
        if kept is not None:
            primitive, given = kept[0], (given[0], kept[1], *given[2:])
        else:
            if count not in primitives:
                primitives[count] = _product(work, left, right, biased, chain)
            primitive = primitives[count]
            if primitive is None:
                return None
        made = np.empty(shape, _F32)
        primitive.run(*[np.full(1, a, _F32) if a.__class__ is not np.ndarray else a for a in given], made)
        return made

    return run


# elementwise ---------------------------------------------------------------------------------------------------------


@_primitives
def _eltwise(recipe: Recipe, size: int, algorithm: int, backward: bool) -> Primitive:
    flat, settings = _plain((size,)), (c_float(1), c_float(0))
    description = recipe.described("eltwise_forward", _TRAINING, algorithm, flat, flat, *settings)
    if not backward:
        return Primitive(recipe, description, [Operand(SRC, flat), Operand(DST, flat, True)])
    description = recipe.described("eltwise_backward", algorithm, flat, flat, flat, *settings, description)
    return Primitive(recipe, description, [Operand(SRC, flat), Operand(DIFF_DST, flat), Operand(DIFF_SRC, flat, True)])


def elementwise(name: str, x: Any, grad: Any = None) -> Any:
    """The function of each element, or with `grad` its gradient."""
    if x.size < SERVED or x.dtype != _F32 or not (x.flags.c_contiguous or x.flags.f_contiguous):
        return None
    if grad is not None and (grad.dtype != _F32 or grad.shape != x.shape or grad.strides != x.strides):
        return None
    primitive = _eltwise(x.size / _ELEMENTS, x.size, _ALGORITHMS[name], grad is not None)
    if primitive is None:
        return None
    made = np.empty_like(x)
    primitive(*(a for a in (x, grad, made) if a is not None))
    return made
