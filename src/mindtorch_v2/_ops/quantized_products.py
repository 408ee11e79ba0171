"""Products of matrices of small integers and small floats, and products with something after them."""

from .._core.dtype import NAMES, float32, int8, int32, uint8
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


# products of small floats with scales ---------------------------------------------------------------------------------

TENSOR_WISE, ROW_WISE = 0, 1  # numbers of torch.nn.functional.ScalingType
_SMALL_FLOATS = tuple(NAMES[f"float8_{kind}"] for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"))


def _scaling(self, mat2, scale_a, scale_b):
    """How matrices are scaled, as the shapes of the scales tell."""
    if self.dtype in _SMALL_FLOATS and mat2.dtype in _SMALL_FLOATS and scale_a.dtype is scale_b.dtype is float32:
        if scale_a.numel() == 1 and scale_b.numel() == 1:
            return TENSOR_WISE
        if (scale_a.shape == (self.shape[0], 1) and scale_b.shape == (1, mat2.shape[1])
                and scale_a.is_contiguous() and scale_b.is_contiguous()):
            return ROW_WISE
    return None


def _check_scaled_mm(self, mat2, scale_a, scale_b, scaling, bias, error):
    for name, matrix in (("mat1", self), ("mat2", mat2)):
        if matrix.dim() != 2:
            raise error(f"{name} must be a matrix")
    (rows, inner), (lines, columns) = self.shape, mat2.shape
    if inner != lines:
        raise error(f"mat_a and mat_b shapes cannot be multiplied ({rows}x{inner} and {lines}x{columns})")
    found = _scaling(self, mat2, scale_a, scale_b)
    if found is None or found != (found if scaling is None else scaling):
        told = [f"mat_{name}.dtype()={matrix.dtype.scalar_name}, scale_{name}.dtype()={scale.dtype.scalar_name}, "
                f"scale_{name}.size()={list(scale.shape)}"
                for name, matrix, scale in (("a", self, scale_a), ("b", mat2, scale_b))]
        raise ValueError(
            "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales should be "
            "float and singletons.\n- For RowWise scaling, a and b should be float8, scales should be float, scale_a "
            f"should be ({rows}, 1) and scale_b should be (1, {columns}), and both should be contiguous.\nGot "
            f"{told[0]}, scale_a.stride()={list(scale_a.stride())}, {told[1]} and "
            f"scale_b.stride()={list(scale_b.stride())}")
    if bias is not None and bias.numel() != columns:
        raise error(f"Bias must be size {columns} but got {bias.numel()}")


def _scaled_product(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype):
    made = (self.to(float32) * scale_a).mm(mat2.to(float32) * scale_b)
    if bias is not None:
        made = made + bias.to(float32)
    kind = self.dtype if out_dtype is None else out_dtype
    if scale_result is not None and kind in _SMALL_FLOATS:
        made = made / scale_result
    return made.to(kind)


@composite("_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? "
           "scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor", public="torch")
def _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
    _check_scaled_mm(self, mat2, scale_a, scale_b, None, bias, RuntimeError)
    return _scaled_product(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype)


@composite("_scaled_mm_v2(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, Tensor[] "
           "scale_b, int[] recipe_b, int[] swizzle_b, Tensor? bias, ScalarType? out_dtype, int[] contraction_dim=[], "
           "bool use_fast_accum=False) -> Tensor", public="torch")
def _scaled_mm_v2(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype,
                  contraction_dim, use_fast_accum):
    """One scale for a matrix, or one for each row of the left and column of the right; swizzles change nothing then."""
    same = len(scale_a) == len(scale_b) == 1 and list(recipe_a) == list(recipe_b) in ([TENSOR_WISE], [ROW_WISE])
    _check_scaled_mm(self, mat2, scale_a[0], scale_b[0], recipe_a[0] if same else -1, bias, ValueError)
    return _scaled_product(self, mat2, scale_a[0], scale_b[0], bias, None, out_dtype)
