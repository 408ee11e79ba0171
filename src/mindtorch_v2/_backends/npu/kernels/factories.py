"""NPU kernels that make tensors: uninitialised, or counted out by the device."""

from collections.abc import Callable
from typing import Any

from ...._core.determinism import determinism, filler
from ...._core.dtype import FLOAT, bool_, float32
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops.create import _arange_bounds
from ..array import empty
from ..families import finished, fresh, given, store, wrap_npu
from ..launch import run
from .operators import call, number_of


@given("operator")
def unfilled(operator: Operator, *args: Any) -> Tensor:
    made = fresh(operator, args)
    return finished(operator, made.fill_(filler(made.dtype)) if determinism.fills else made, args)


def _in_range(bounds: Callable[..., tuple], symbol: str, *, whole: bool = True) -> Callable:
    """A factory that counts: numbers in, the row of numbers out; not `whole` where ACLNN's gives fractions."""

    @given("operator")
    def kernel(operator: Operator, *args: Any) -> Tensor:
        made = fresh(operator, args)
        if made._array.size and made.dtype.category < FLOAT and not whole:
            parts = empty(made._array.shape, float32.np, made._device)
            run(symbol, (*bounds(*args), parts), operator.name)
            store(made, wrap_npu(parts).trunc())
        elif made._array.size:
            run(symbol, (*bounds(*args), made._array), operator.name)
        return finished(operator, made, args)

    return kernel


arange = _in_range(lambda start, end, step, *_: _arange_bounds(start, end, step), "aclnnArange")
range = _in_range(lambda start, end, step, *_: (start, end, step), "aclnnRange")
linspace = _in_range(lambda start, end, steps, *_: (number_of(start), number_of(end), steps), "aclnnLinspace",
                     whole=False)
logspace = _in_range(lambda start, end, steps, base, *_: (number_of(start), number_of(end), steps, base),
                     "aclnnLogSpace", whole=False)
eye = _in_range(lambda n, m, *_: (n, n if m is None else m), "aclnnEye")


@given("operator")
def triangle_indices(operator: Operator, row: int, col: int, offset: int, *options: Any) -> Tensor:
    args = (row, col, offset, *options)
    made = fresh(operator, args)
    if made._array.size:
        triangle = operator.schema.base_name.removesuffix("_indices")
        whole = call("ones", (row, col), bool_, None, made._device, None, False)
        store(made, call(triangle, whole, offset).nonzero().t())
    return finished(operator, made, args)
