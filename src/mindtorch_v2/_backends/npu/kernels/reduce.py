"""NPU kernels that reduce: what ACLNN's operators do not take as it comes."""

from collections.abc import Callable
from typing import Any

from ...._core.dtype import uint8
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ...._ops._declare.rules import Spec
from ..families import cast, given, store, uninitialised
from ..launch import run
from .operators import infer, reshaped


@given("operator", "row")
def arg_extreme(operator: Operator, row: Callable, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is not None:
        return row(self, dim, keepdim)
    shape = infer(operator, self, dim, keepdim).shape
    return reshaped(row(self.reshape((-1,)), 0, False), shape)


def _spread(symbol: str) -> Callable:
    @given("operator")
    def kernel(operator: Operator, self: Tensor, dim: Any, correction: Any, keepdim: bool) -> Any:
        specs = infer(operator, self, dim, correction, keepdim)
        single = specs.__class__ is Spec
        free = 1 if correction is None else correction
        made = [uninitialised(spec, self._device) for spec in ((specs,) if single else specs)]
        if self._array.size and int(free) == free:
            run(symbol, (self._array, tuple(dim or ()), int(free), keepdim, *(m._array for m in made)), operator.name)
        elif made[0]._array.size:
            mean = self.mean(dim, True)
            count = self._array.size // max(mean._array.size, 1)
            total = ((self - mean) * (self - mean)).sum(dim, keepdim) / max(count - free, 0)
            store(made[0], total.sqrt() if "Std" in symbol else total)
            if not single:
                store(made[1], self.mean(dim, keepdim))
        return made[0] if single else result_of(operator, made)

    return kernel


var, std = _spread("aclnnVarCorrection"), _spread("aclnnStd")
var_mean, std_mean = _spread("aclnnVarMean"), _spread("aclnnStdMeanCorrection")


@given("row")
def truth(row: Callable, self: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if dim != ():
        return row(self, dim, keepdim)
    made = self != 0  # no dimension is reduced, where ACLNN would take all
    return cast(made, self.dtype) if self.dtype is uint8 else made
