"""NPU kernels of elementwise operators that are no plain row."""

from ...._core.dtype import FLOAT, finfo
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.rules import Spec, pointwise_strides
from ..families import given, uninitialised
from ..launch import run
from .operators import call


@given("operator")
def nan_to_num(operator: Operator, self: Tensor, nan: float | None, posinf: float | None,
               neginf: float | None) -> Tensor:
    spec = Spec(self._array.shape, self.dtype, pointwise_strides(self._array.shape, [self]))
    if self.dtype.category != FLOAT:
        if self.dtype.is_complex:
            parts = (call(part, self).contiguous() for part in ("real", "imag"))
            return call("complex", *(nan_to_num(operator, part, nan, posinf, neginf) for part in parts))
        return self.clone()
    limits = finfo(self.dtype)
    made = uninitialised(spec, self._device)
    run("aclnnNanToNum", (self._array, 0.0 if nan is None else nan, limits.max if posinf is None else posinf,
                          limits.min if neginf is None else neginf, made._array), "aten::nan_to_num")
    return made
