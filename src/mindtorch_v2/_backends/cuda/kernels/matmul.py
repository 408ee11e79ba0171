"""Products of matrices on a GPU, straight into cuBLAS; integers go over CuPy."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.device_objects import OutOfMemoryError
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.rules import Spec
from ....backends import cuda as settings
from ..array import CudaArray, Layout, empty, layout_of
from ..cublas import BIAS, EPILOGUES, Product, factor, is_supported, lead
from ..families import Maker, copy_array, filling, fresh_tensor, generic_kernel, infer_of, layout_for, wrap_cuda
from ..plans import planned
from .padded import Padding, padding_for

_plans: dict[tuple, Any] = {}
_LIMIT = 1 << 14


class _Plan:
    """A product of two arrays of given layouts: which are copied first, and the call."""

    __slots__ = ("as_they_are", "copies", "made", "padding", "product")

    def __init__(self, product: Product, made: Layout, copies: tuple[Layout | None, Layout | None],
                 padding: Padding | None = None) -> None:
        self.product, self.made, self.copies, self.padding = product, made, copies, padding
        self.as_they_are = copies == (None, None) and padding is None

    def __call__(self, a: CudaArray, b: CudaArray, out: CudaArray, alpha: int = 0, beta: int = 0,
                 bias: CudaArray | None = None) -> None:
        first, second = self.copies
        if first is not None:
            a = _copied(a, first)
        if second is not None:
            b = _copied(b, second)
        if bias is not None and not (bias.shape == out.shape[-1:] and bias.layout.contiguous):
            copy_array(out, bias)
            bias, beta = None, self.product.one
        if self.padding is not None:
            try:
                _multiply_padded(self.padding, a, b, out, alpha, beta, bias)
                return
            except OutOfMemoryError:  # without room for copies it takes longer; nothing was written so far
                pass
        _multiply(self.product, a, b, out, alpha, beta, bias)


def _multiply(product: Product, a: CudaArray, b: CudaArray, out: CudaArray, alpha: int, beta: int,
              bias: CudaArray | None) -> None:
    tf32 = settings.matmul.allow_tf32
    if bias is not None:
        with_bias = product.followed_by(BIAS, tf32)
        if with_bias is not None and with_bias(a.pointer, b.pointer, out.pointer, bias.pointer):
            return
        copy_array(out, bias)
        beta = product.one
    if alpha or beta:
        product(a.pointer, b.pointer, out.pointer, tf32, alpha, beta)
    else:
        product.into(a.pointer, b.pointer, out.pointer, tf32)


def _multiply_padded(padding: Padding, a: CudaArray, b: CudaArray, out: CudaArray, alpha: int, beta: int,
                     bias: CudaArray | None) -> None:
    if padding.a.is_needed:
        a = padding.a.copied(a)
    if bias is not None and padding.bias.is_needed:
        bias = padding.bias.copied(bias)
    wide = out
    if padding.after.is_needed:
        wide = padding.before.copied(out) if beta else empty(padding.before.layout, out.device)
    parts = [(piece.product, a, piece.of_factor(b), piece.of_result(wide), alpha, beta,
              None if bias is None else piece.of_bias(bias)) for piece in padding.pieces]
    for part in parts:
        _multiply(*part)
    if padding.after.is_needed:
        padding.after.into(out, wide)


def _copied(array: CudaArray, layout: Layout) -> CudaArray:
    made = empty(layout, array.device)
    copy_array(made, array)
    return made


def _matrix(shape: Sequence[int], strides: Sequence[int], flip: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """The last two dimensions and their strides, swapped if the transposed matrix is meant."""
    pair, steps = (shape[-2], shape[-1]), (strides[-2], strides[-1])
    return (pair[::-1], steps[::-1]) if flip else (pair, steps)


def _batch_stride(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The one stride over all leading dimensions; None if there is none."""
    kept = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    for (_, outer), (n, inner) in zip(kept, kept[1:], strict=False):
        if outer != inner * n:
            return None
    return kept[-1][1] if kept else 0


def _taken(layout: Layout, rows: bool, flip: bool) -> tuple[tuple[int, int], tuple[int, int], int, Layout | None]:
    """A factor for cuBLAS: shape, how it lies, its batch stride, and the layout to copy it to first, if any.

    With `rows`, leading dimensions are rows of one matrix.
    """
    for candidate, copied in ((layout, None), (layout_of(layout.shape, layout.dtype),) * 2):
        assert candidate is not None
        size, shape = candidate.dtype.itemsize, candidate.shape
        strides = [s // size for s in candidate.strides]
        if rows and len(shape) > 2:
            step = _batch_stride(shape[:-1], strides[:-1])
            if step is None:
                continue
            shape, strides = (math.prod(shape[:-1]), shape[-1]), [step, strides[-1]]
        pair, steps = _matrix(shape, strides, flip)
        how, batch = lead(*pair, *steps), _batch_stride(shape[:-2], strides[:-2])
        if how is not None and batch is not None:
            return pair, how, batch, copied
    raise AssertionError("a contiguous array can always be taken")


def _planned(a: Layout, b: Layout, rows: tuple[bool, bool], flip: tuple[bool, bool],
             shape: tuple[int, ...], pads: bool = True) -> _Plan:
    first, second = _taken(a, rows[0], flip[0]), _taken(b, rows[1], flip[1])
    (m, k), (_, n) = first[0], second[0]
    batch = None
    if not rows[0] and len(shape) > 2:
        batch = math.prod(shape[:-2]), first[2], second[2]
    geometry = a.dtype, m, k, n, first[1], second[1], batch
    return _Plan(Product(*geometry), layout_of(shape, a.dtype), (first[3], second[3]),
                 padding_for(*geometry) if pads else None)


def product_plan(a: Layout, b: Layout, shape: tuple[int, ...]) -> _Plan:
    """The plan of a product of matrices, or of as many of each, which are not padded."""
    return _planned(a, b, (False, False), (False, False), shape, pads=False)


def _plan(a: CudaArray, b: CudaArray, how: str, shape: Callable[[], tuple[int, ...]]) -> _Plan:
    """The plan for two arrays: `mm`, `bmm`, `linear` (b transposed) or `weight` (a transposed, both rows)."""
    key = a.layout, b.layout, how
    made = _plans.get(key)
    if made is None:
        if len(_plans) > _LIMIT:
            _plans.clear()
        rows = {"mm": (False, False), "bmm": (False, False), "linear": (True, False), "weight": (True, True)}[how]
        made = _plans[key] = _planned(a.layout, b.layout, rows, (how == "weight", how == "linear"), shape())
    return made


class _Nothing:
    """The plan of a product of nothing: zeros."""

    as_they_are = False

    def __init__(self, made: Layout) -> None:
        self.made, self.write = made, filling(made, 0)

    def __call__(self, a: CudaArray, b: CudaArray, made: CudaArray) -> None:
        self.write(made)


_HOW = {"mm": "mm", "bmm": "bmm", "_batch_matmul": "bmm", "_linear_weight_grad": "weight", "addmm": "mm",
        "baddbmm": "bmm"}


def _fits(name: str, a: CudaArray, b: CudaArray) -> bool:
    if name == "_batch_matmul":
        return a.shape[:-2] == b.shape[:-2]
    return name != "_linear_weight_grad" or a.ndim == b.ndim and a.ndim > 1


@Maker
def product(operator: Operator) -> Callable:
    """The kernel of an operator of two factors."""
    name, infer, slow = operator.schema.base_name, infer_of(operator), generic_kernel(operator)
    matmul, plans = settings.matmul, dict[tuple, Any]()

    def kernel(one: Tensor, two: Tensor) -> Tensor:
        a, b = one._array, two._array
        try:
            plan = plans[a.layout, b.layout]
        except (KeyError, AttributeError):
            spec = infer(one, two)
            if not (is_supported(a.dtype) and a.dtype == b.dtype and _fits(name, a, b)):
                return slow(one, two)
            if len(plans) > _LIMIT:
                plans.clear()
            plan = plans[a.layout, b.layout] = _plan(a, b, _HOW[name], lambda: tuple(
                spec.shape)) if a.size and b.size else _Nothing(layout_for(spec))
        made = fresh_tensor(plan.made, a.device)
        if plan.as_they_are:
            plan.product.into(a.pointer, b.pointer, made._array.pointer, matmul.allow_tf32)
        else:
            plan(a, b, made._array)
        return made

    return kernel


@planned
def sum_with_product(spec: Spec, self: CudaArray, a: CudaArray, b: CudaArray, beta: Any, alpha: Any,
                     operator: Operator) -> Callable | None:
    """beta * self + alpha * a @ b."""
    if not (is_supported(a.dtype) and a.size and b.size) or complex in (beta.__class__, alpha.__class__):
        return None
    plan = _plan(a, b, _HOW[operator.schema.base_name], lambda: tuple(spec.shape))

    def run(self: CudaArray, a: CudaArray, b: CudaArray, beta: Any, alpha: Any) -> CudaArray:
        made = empty(plan.made, a.device)
        if beta != 0:
            copy_array(made, self)
        plan(a, b, made, factor(alpha, a.dtype), factor(beta, a.dtype) if beta != 0 else 0)
        return made

    return run


@Maker
def linear(operator: Operator) -> Callable:
    """input @ weight.T + bias."""
    infer, slow = infer_of(operator), generic_kernel(operator)

    def kernel(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        a, w = input._array, weight._array
        plan = _plans.get((a.layout, w.layout, "linear"))
        if plan is None or bias is not None and (bias._array.dtype != a.dtype or bias._array.shape != w.shape[:1]):
            spec = infer(input, weight, bias)
            if not (is_supported(a.dtype) and a.size and w.size and a.ndim > 1 and w.ndim == 2):
                return slow(input, weight, bias)
            plan = _plan(a, w, "linear", lambda: tuple(spec.shape))
        made = empty(plan.made, a.device)
        plan(a, w, made, bias=None if bias is None else bias._array)
        return wrap_cuda(made)

    return kernel


# in plans: products with what follows them ---------------------------------------------------------------------------

_FUSED = {"float32": ("relu",), "float16": tuple(EPILOGUES), "bfloat16": tuple(EPILOGUES)}  # types and functions


@functools.lru_cache(4096)
def _plain_product(kind: np.dtype, rows: int, inner: int, columns: int, a: tuple[int, int],
                   b: tuple[int, int]) -> Product | None:
    """One object for all products of a geometry, which keeps what cuBLASLt found; None where copies are multiplied."""
    geometry = kind, rows, inner, columns, a, b
    return Product(*geometry) if padding_for(*geometry, None) is None else None


def _epilogue_of(product: Any, parts: Sequence[Any]) -> tuple[int, list[str]] | None:
    """That of cuBLASLt which computes the parts, and what is summed up before it, in order; None without one."""
    rows, columns = product.shape
    epilogue, sums = 0, ["row"] * (product.bias is not None)
    for part in parts:
        shape = getattr(part.operand, "shape", None)
        if epilogue:
            return None  # a function is the last thing that it computes
        if part.name in _FUSED[product.layout.dtype.name]:
            epilogue = EPILOGUES[part.name]
        elif part.name == "add" and shape == (1, columns) and "row" not in sums:
            sums.append("row")
        elif part.name == "add" and shape == (rows, columns) and "array" not in sums:
            sums.append("array")
        else:
            return None
    return epilogue | BIAS * ("row" in sums), sums


def fused_product(product: Any, parts: Sequence[Any]) -> Callable | None:
    """As the backend's: sums with a row and an array of the result's shape, and then one function.

    Elements are rounded once, at the end, not after each part.
    """
    kind, columns = product.layout.dtype, product.shape[1]
    known = _epilogue_of(product, parts) if parts and product.work and kind.name in _FUSED else None
    left, right = (lead(*side.shape, *side.strides) for side in (product.left, product.right))
    if known is None or left is None or right is None:
        return None
    epilogue, sums = known
    made, matmul = _plain_product(kind, *product.left.shape, columns, left, right), settings.matmul
    row, array = (sums.index(name) if name in sums else None for name in ("row", "array"))
    if made is None or made.followed_by(epilogue, matmul.allow_tf32, array is not None) is None:
        return None

    def run(shape: tuple[int, ...], left: CudaArray, right: CudaArray, *given: CudaArray) -> CudaArray | None:
        followed = made.followed_by(epilogue, matmul.allow_tf32, array is not None)
        if followed is None:
            return None
        out = empty(layout_of(shape, kind), left.device)
        operands = [0 if at is None else given[at].pointer for at in (row, array)]
        return out if followed(left.pointer, right.pointer, out.pointer, *operands) else None

    return run
