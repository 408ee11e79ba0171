"""Products of matrices of small integers, and products with something after them."""

from .._core.dtype import int8, int32, uint8
from .._dispatch.registry import registry
from . import activation  # noqa: F401 - declares gelu
from ._declare.op import composite, function_of

gelu = function_of(registry.get("gelu"))


def _check_int_mm(self, mat2):
    for name, matrix in (("self", self), ("mat2", mat2)):
        if matrix.dim() != 2:
            raise RuntimeError(f"int_mm_out_cpu: Expected {name} to be of dimension 2 but got {matrix.dim()}")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got {self.shape[1]} and "
                           f"{mat2.shape[0]}")
    if self.dtype not in (int8, uint8):
        raise RuntimeError(f"int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {self.dtype.name}")
    if mat2.dtype is not int8:
        raise RuntimeError(f"int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got {mat2.dtype.name}")


@composite("_int_mm(Tensor self, Tensor mat2) -> Tensor", public="torch")
def _int_mm(self, mat2):
    _check_int_mm(self, mat2)
    return self.to(int32).mm(mat2.to(int32))


@composite("_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu="
           "False) -> Tensor", public="torch")
def _addmm_activation(self, mat1, mat2, beta, alpha, use_gelu):
    made = self.addmm(mat1, mat2, beta=beta, alpha=alpha)
    return gelu(made) if use_gelu else made.relu()


@composite("_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor", public="torch")
def _weight_int8pack_mm(self, mat2, scales):
    return self.mm(mat2.to(self.dtype).t()) * scales
