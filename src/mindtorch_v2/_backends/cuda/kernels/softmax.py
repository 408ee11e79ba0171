"""Softmax of rows on a GPU, and its gradient; along other dimensions, or of very long rows, kernels of the language."""

from collections.abc import Callable, Sequence
from typing import Any

from ...._dispatch.registry import Operator
from ...._ops._declare.rules import Spec
from ..array import CudaArray, quick_empty
from ..families import layout_for
from ..launch import C_TYPES
from ..plans import dense, planned
from ..row_launch import c_types, row_launch, widest

# operator -> the parameters and the body of its kernel
_ROWS = {
    "softmax": ("const T0* x, T1* out", r"""
    A held[ITEMS][V];
    load(held, x + row * width, width, -HUGE);
    A top = -HUGE, total = 0;
    EACH(k, j) top = held[k][j] > top ? held[k][j] : top;
    top = row_fold<max_of>(top, -HUGE);
    EACH(k, j) { held[k][j] = EXP(held[k][j] - top); total += held[k][j]; }
    total = row_fold<sum_of>(total, 0);
    EACH(k, j) held[k][j] = held[k][j] / total;
    save(held, out + row * width, width);
"""),
    "log_softmax": ("const T0* x, T1* out", r"""
    A held[ITEMS][V];
    load(held, x + row * width, width, -HUGE);
    A top = -HUGE, total = 0;
    EACH(k, j) top = held[k][j] > top ? held[k][j] : top;
    top = row_fold<max_of>(top, -HUGE);
    EACH(k, j) { held[k][j] -= top; total += EXP(held[k][j]); }
    A log_total = LOG(row_fold<sum_of>(total, 0));
    EACH(k, j) held[k][j] -= log_total;
    save(held, out + row * width, width);
"""),
    "softmax_backward": ("const T0* grad, const T1* made, T2* out", r"""
    A g[ITEMS][V], y[ITEMS][V], total = 0;
    load(g, grad + row * width, width, (A)0);
    load(y, made + row * width, width, (A)0);
    EACH(k, j) total += g[k][j] * y[k][j];
    total = row_fold<sum_of>(total, 0);
    EACH(k, j) g[k][j] = (g[k][j] - total) * y[k][j];
    save(g, out + row * width, width);
"""),
    "log_softmax_backward": ("const T0* grad, const T1* made, T2* out", r"""
    A g[ITEMS][V], y[ITEMS][V], total = 0;
    load(g, grad + row * width, width, (A)0);
    load(y, made + row * width, width, (A)0);
    EACH(k, j) total += g[k][j];
    total = row_fold<sum_of>(total, 0);
    EACH(k, j) g[k][j] -= EXP(y[k][j]) * total;
    save(g, out + row * width, width);
"""),
}  # fmt: skip


def _is_last(dim: int, shape: Sequence[int]) -> bool:
    return bool(shape) and dim in (-1, len(shape) - 1)


@planned
def softmax(spec: Spec, self: CudaArray, dim: int, dtype: Any, operator: Operator) -> Callable | None:
    """`softmax` and `log_softmax`."""
    array, layout = self, layout_for(spec)
    if not array.size or not _is_last(dim, array.shape) or array.dtype.name not in C_TYPES:
        return None
    width = array.shape[-1]
    body = _ROWS[operator.schema.base_name]
    launch = row_launch(body, c_types(array, layout), widest(array, layout), array.size // width, width)
    if launch is None:
        return None

    def run(self: CudaArray, dim: int, dtype: Any) -> CudaArray:
        source = dense(self)
        made = quick_empty(layout, source.device)
        launch(source.pointer, made.pointer)
        return made

    return run


@planned
def softmax_backward(spec: Spec, grad_output: CudaArray, output: CudaArray, dim: int, input_dtype: Any,
                     operator: Operator) -> Callable | None:
    """The same of both."""
    array, layout = output, layout_for(spec)
    if not array.size or not _is_last(dim, array.shape) or grad_output.shape != array.shape:
        return None
    width = array.shape[-1]
    body = _ROWS[operator.schema.base_name.removeprefix("_").removesuffix("_data")]
    launch = row_launch(body, c_types(grad_output, array, layout), widest(array, layout), array.size // width,
                        width)
    if launch is None:
        return None

    def run(grad_output: CudaArray, output: CudaArray, dim: int, input_dtype: Any) -> CudaArray:
        grad, source = dense(grad_output), dense(output)
        made = quick_empty(layout, source.device)
        launch(grad.pointer, source.pointer, made.pointer)
        return made

    return run
