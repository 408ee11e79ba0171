"""Determinants, norms, condition numbers, and functions of whole matrices: powers, exponential, chains of products."""

import functools
import math
from collections.abc import Sequence
from typing import Any

from ..._core.dtype import BOOL, COMPUTE, FLOAT, dtype, promote_types
from ..._core.elements import has_elements
from ..._core.geometry import wrapped_dim
from ..._core.tensor import Tensor
from ..._dispatch.argument_checks import expected
from ..._dispatch.keys import FUNC_MASK
from ..._dispatch.schema import MISSING, to_number
from .._declare.batch import in_front
from .._declare.families import computes
from .._declare.op import composite, function_of, op
from .._declare.out import Out, safely
from .._declare.rules import Spec, anywhere, c_name, shape_text
from .._declare.samples import case, cases, error, t
from ..extreme import kinks
from ..join import cat
from ..matrices import conj
from ..moments import _VECTOR_NORM
from .common import (
    check_floating,
    check_kernel,
    check_matrix,
    check_same_type,
    check_square,
    identity_like,
    named,
)
from .factor import POSITIVE
from .solve import REGULAR, _solve_ex, linalg_inv, linalg_inv_ex
from .spectral import linalg_svd_of, linalg_svdvals

INF = math.inf
vector_norm = function_of(_VECTOR_NORM)


# determinants --------------------------------------------------------------------------------------------------------


def _det_spec(A: Tensor) -> Spec:
    check_square("linalg.det", A)
    check_floating("linalg.det", A.dtype)
    check_kernel("lu_cpu", A)
    return Spec(A._array.shape[:-2], A.dtype)


def _det_grad(grad: Any, A: Any, result: Any) -> Any:
    """The gradient is the matrix of cofactors; where A is singular, that is made of its singular values."""
    regular = result != 0
    if not has_elements(A) or not anywhere(~regular):
        return _scaled_inverse(A, grad * result.conj())
    if not A.dim() > 2 or A._keys & FUNC_MASK:
        return _cofactors(A, grad)
    made = A.new_zeros(A.shape)
    made = made.index_put((regular,), _scaled_inverse(A[regular], (grad * result.conj())[regular]))
    return made.index_put((~regular,), _cofactors(A[~regular], grad[~regular]))


def _scaled_inverse(A: Any, factor: Any) -> Any:
    """A^-H times a number."""
    return _solve_ex(A.mH, factor.unsqueeze(-1).expand(A.shape[:-1]).diag_embed())[0]


def _cofactors(A: Any, grad: Any) -> Any:
    U, S, Vh = linalg_svd_of(A, False)
    own = identity_like(S, S.shape[-1]) == 1
    others = S.unsqueeze(-2).expand((*S.shape, S.shape[-1])).masked_fill(own, 1).prod(-1)
    scale = grad * (_det_of(U) * _det_of(Vh)).conj()
    return (U * (scale.unsqueeze(-1) * others).unsqueeze(-2)) @ Vh


def _det_by_parts(A: Any) -> Any:
    if not A.numel():
        return A.new_ones(A.shape[:-2])
    sign, logabsdet = _slogdet_of(A, "linalg.det")
    return sign * logabsdet.exp()


_det_of = function_of(op("_linalg_det(Tensor A) -> Tensor", kernel=computes(_det_spec, lambda xp, A: xp.linalg.det(A)),
                         grad=dict(A=_det_grad), public="", batch=in_front, decomposition=_det_by_parts,
                         sharded="whole"))
_DETERMINANTS = cases(case(REGULAR), case(t(2, 3, 3)), case(t(0, 0)), case(t(2, 0, 0)),
                      error(RuntimeError, "must be batches of square matrices, but they are 2 by 3 matrices", t(2, 3)))


@composite("linalg_det(Tensor A) -> Tensor", public="", aliases=("linalg.det",), samples=_DETERMINANTS)
def _linalg_det(A):
    return _det_of(A)


@composite("det(Tensor self) -> Tensor", samples=_DETERMINANTS, out=None)
def _torch_det(self):
    return _det_of(self)


def _slogdet_spec(A: Tensor, name: str) -> tuple[Spec, Spec]:
    check_square(name, A)
    check_floating(name, A.dtype, halves=False)
    batch = A._array.shape[:-2]
    return Spec(batch, A.dtype), Spec(batch, A.dtype.to_real())


def _slogdet_grad(grads: tuple, A: Any, sign: Any) -> Any:
    of_sign, of_log = grads
    if not A.dtype.is_complex:
        return None if of_log is None else _scaled_inverse(A, of_log)
    factor = sign.new_zeros(sign.shape) if of_log is None else of_log.to(sign.dtype)
    if of_sign is not None:
        factor = factor - 1j * (of_sign.conj() * sign).imag
    return _scaled_inverse(A, factor)


_slogdet_of = function_of(op(
    "_linalg_slogdet(Tensor A, str name='linalg.slogdet') -> (Tensor sign, Tensor logabsdet)",
    kernel=computes(_slogdet_spec, lambda xp, A, name: tuple(xp.linalg.slogdet(A))), grad=dict(A=_slogdet_grad),
    npu="aclnnSlogdet(A, sign, logabsdet)", public="", batch=in_front, sharded="whole"))


@composite("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", public="", aliases=("linalg.slogdet",),
           samples=_DETERMINANTS)
def _linalg_slogdet(A):
    return named("linalg_slogdet", *_slogdet_of(A))


@composite("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", samples=_DETERMINANTS)
def _torch_slogdet(self):
    return named("slogdet", *_slogdet_of(self))


@composite("logdet(Tensor self) -> Tensor", node="WhereBackward0",
           samples=cases(case(POSITIVE), case(t(1, 1, low=0.5)), case(kinks([[-1.0]])), case(t(0, 0))), out=None)
def _logdet(self):
    sign, logabsdet = _slogdet_of(self, "logdet")
    if sign.dtype.is_complex:
        return logabsdet + sign.log()
    return logabsdet.masked_fill(sign == -1, math.nan)


# norms ---------------------------------------------------------------------------------------------------------------


def _check_norm_type(kind: dtype, wanted: dtype | None) -> None:
    name = "linalg.matrix_norm"
    if wanted is None:
        return
    if wanted.category < FLOAT:
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {wanted.scalar_name}")
    if wanted.category != kind.category:
        word = "complex" if kind.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {word} for {word} inputs, but got {wanted.scalar_name}")
    if promote_types(kind, wanted) is not wanted:
        raise RuntimeError(f"{name}: the dtype of the input ({kind.scalar_name}) should be convertible without narrowin"
                           f"g to the specified dtype ({wanted.scalar_name})")


def _matrix_dims(A: Any, dim: Sequence[int]) -> tuple[int, int]:
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    one, other = (wrapped_dim(d, A.dim()) for d in dim)
    if one == other:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return one, other


def _order(function: str, argument: str, order: Any) -> Any:
    """The order of a norm as a word or a number, or TypeError."""
    if isinstance(order, (str, bytes)):
        return order if isinstance(order, str) else order.decode(errors="replace")
    number = to_number(order)
    if number is MISSING:
        raise TypeError(expected(function, argument, "Number or str", order))
    return number


def matrix_norm(A: Any, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False,
                dtype: dtype | None = None) -> Any:
    """The norm of matrices that lie in two dimensions of a tensor."""
    name = "linalg.matrix_norm"
    if ord not in ("fro", "nuc", 1, -1, 2, -2, INF, -INF):
        raise RuntimeError(f"{name}: Order {ord if isinstance(ord, str) else f'{ord:g}'} not supported.")
    check_matrix(name, A)
    check_floating(name, A.dtype, halves=ord not in ("nuc", 2, -2))
    one, other = _matrix_dims(A, dim)
    _check_norm_type(A.dtype, dtype)
    if ord == "fro":
        return vector_norm(A, 2, (one, other), keepdim, dtype=dtype)
    if ord in ("nuc", 2, -2):
        S = linalg_svdvals((A if dtype is None else A.to(dtype)).movedim((one, other), (-2, -1)))
        made = S.sum(-1) if ord == "nuc" else _extreme(S, -1, ord)
        for d in sorted((one, other)) if keepdim else ():
            made = made.unsqueeze(d)
        return made
    summed, kept = (other, one) if abs(ord) == INF else (one, other)
    sums = vector_norm(A, 1, summed, keepdim, dtype=dtype)
    return _extreme(sums, kept if keepdim or kept < summed else kept - 1, ord, keepdim)


def _extreme(values: Any, dim: int, ord: float, keepdim: bool = False) -> Any:
    """The largest of values along a dimension for a positive order (0 if there are none), else the smallest."""
    if ord > 0 and not values.shape[dim]:
        return values.sum(dim, keepdim).detach()
    return values.amax(dim, keepdim) if ord > 0 else values.amin(dim, keepdim)


_MATRIX_NORMS = [case(t(3, 4), ord) for ord in ("fro", "nuc", 1, -1, 2, -2, INF, -INF)]


@composite("linalg_matrix_norm(Tensor self, Any ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? "
           "dtype=None) -> Tensor", public="", aliases=("linalg.matrix_norm",),
           samples=cases(*_MATRIX_NORMS, case(t(2, 3, 4), "nuc", (0, 2), True), case(t(2, 3, 4), 1, (2, 0)),
                         case(t(2, 3, 4), INF, (0, 1), True), case(t(0, 3), 2), case(t(0, 3), INF),
                         error(RuntimeError, "linalg.matrix_norm: Order 3 not supported.", t(3, 3), 3),
                         error(RuntimeError, "linalg.matrix_norm: dims must be different. Got (0, 0)", t(3, 3), 1,
                               (0, 0)),
                         error(RuntimeError, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.",
                               t(3))),
           out=Out("exact", "linalg.matrix_norm expected out tensor dtype {made} but got: {given}"),
           autocast=dict(accelerators="result"))
def _matrix_norm(self, ord, dim, keepdim, dtype):
    return matrix_norm(self, _order("linalg_matrix_norm", "ord", ord), dim, keepdim, dtype)


@composite("linalg_norm(Tensor self, Any ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) ->"
           " Tensor", public="", aliases=("linalg.norm",),
           samples=cases(case(t(3)), case(t(2, 3, 4)), *_MATRIX_NORMS, case(t(3), 3), case(t(2, 3), 0, 1),
                         case(t(2, 3, 4), "nuc", (0, 1), True), case(t(2, 3, 4), None, (1, 2)),
                         error(RuntimeError, "If dim is not specified but ord is, the input must be 1D or 2D. Got 3D.",
                               t(2, 3, 4), 1),
                         error(RuntimeError, "If dim is specified, it must be of length 1 or 2. Got [0, 1, 2]",
                               t(2, 3, 4), None, (0, 1, 2))),
           out=Out("exact", "linalg.norm expected out tensor dtype {made} but got: {given}", grad="ignored"))
def _linalg_norm(self, ord, dim, keepdim, dtype):
    if dim is not None and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {shape_text(dim)}")
    if dim is None and ord is not None and self.dim() not in (1, 2):
        raise RuntimeError("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                           f"{self.dim()}D.")
    if ord is None:
        return vector_norm(self, 2, dim, keepdim, dtype=dtype)
    ord = _order("linalg_norm", "ord", ord)
    if isinstance(ord, str) or len(dim if dim is not None else self.shape) == 2:
        return matrix_norm(self, ord, (-2, -1) if dim is None else dim, keepdim, dtype)
    return vector_norm(self, ord, dim, keepdim, dtype=dtype)


@composite("nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", public="torch", samples=cases(case(t(3, 4))),
           autocast=dict(accelerators="float32"))
def _nuclear_norm(self, keepdim):
    return matrix_norm(self, "nuc", (-2, -1), keepdim)


@composite("nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor", public="torch",
           samples=cases(case(t(2, 3, 4), (0, 2)), case(t(2, 3, 4), (0, 1), True)),
           autocast=dict(accelerators="float32"))
def _nuclear_norm_dim(self, dim, keepdim):
    return matrix_norm(self, "nuc", dim, keepdim)


@composite("frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", public="torch",
           samples=cases(case(t(2, 3), (0, 1)), case(t(2, 3), 1, True)), autocast=dict(accelerators="float32"))
def _frobenius_norm(self, dim, keepdim):
    return vector_norm(self, 2, dim, keepdim)


@composite("linalg_cond(Tensor self, Any p=None) -> Tensor", public="", aliases=("linalg.cond",),
           samples=cases(*[case(REGULAR, p) for p in (None, "nuc", 2, -2)], case(t(3, 4)),
                         *[case(kinks(REGULAR.values), p) for p in ("fro", 1, -1, INF, -INF)],  # not smooth there
                         case(t(2, 0, 0)),
                         error(RuntimeError, "linalg.cond got an invalid norm type: 3", t(3, 3), 3),
                         error(RuntimeError, "linalg.cond(ord=fro): A must be batches of square matrices", t(3, 2),
                               "fro")), out=safely("linalg.cond"), autocast=dict(cpu="float32"))
def _cond(self, p):
    p = None if p is None else _order("linalg_cond", "p", p)
    if self.dim() < 2 and not isinstance(p, str):
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    shown = p if isinstance(p, str) or p is None else f"{p:g}"
    if isinstance(p, str):
        check_square(f"linalg.cond(ord={p})", self)
    if p not in (None, "fro", "nuc", 1, -1, 2, -2, INF, -INF):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {shown}")
    if not self.numel():
        return self.new_zeros(self.shape[:-2], dtype=self.dtype.to_real())
    if p in (None, 2, -2, "nuc"):
        S = linalg_svdvals(self)
        if p == "nuc":
            return S.sum(-1) * S.reciprocal().sum(-1)
        return S[..., -1] / S[..., 0] if p == -2 else S[..., 0] / S[..., -1]
    check_square(f"linalg.cond(ord={shown})", self)
    inverse, info = linalg_inv_ex(self)
    inverse = inverse.masked_fill((info > 0).unsqueeze(-1).unsqueeze(-1), INF)
    # A product of zero and infinity is infinite here, as in NumPy.
    return (matrix_norm(self, p) * matrix_norm(inverse, p)).nan_to_num(INF, INF, -INF)


# powers and products -------------------------------------------------------------------------------------------------


def _power(A: Any, n: int) -> Any:
    if n < 0:
        inverse = linalg_inv(A)
        return inverse if n == -1 else _power(inverse, -n)
    if n == 0:
        return A.contiguous().clone().copy_(identity_like(A))  # of A's graph, as in PyTorch
    if n == 1:
        return A.clone() if A.is_contiguous() else A.contiguous()
    result = None
    while n:
        if n & 1:
            result = A if result is None else result @ A
        n >>= 1
        A = A @ A if n else A
    return result


_POWERS = cases(*[case(REGULAR, n) for n in (0, 1, 2, 3, 5, -1, -2)], case(t(2, 3, 3), 4), case(t(0, 0), 2),
                error(RuntimeError, "linalg.matrix_power: A must be batches of square matrices", t(2, 3), 2))


@composite("linalg_matrix_power(Tensor self, int n) -> Tensor", public="", aliases=("linalg.matrix_power",),
           samples=_POWERS, out=safely("matrix_power"))
def _linalg_matrix_power(self, n):
    check_square("linalg.matrix_power", self)
    return _power(self, n)


@composite("matrix_power(Tensor self, int n) -> Tensor", samples=_POWERS,
           out=safely("matrix_power")._replace(by="matmul"))
def _matrix_power(self, n):
    return _linalg_matrix_power(self, n)


# Coefficients of the Pade approximant of degree 13 to the exponential, and the norm up to which it is exact to 53 bits.
_PADE = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
         670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)
_PADE_NORM = 5.371920351148152


def _exp_spec(self: Tensor) -> Spec:
    check_square("linalg.matrix_exp", self)
    check_floating("linalg.matrix_exp", self.dtype)
    return Spec(self._array.shape, self.dtype)


def _exp(xp: Any, self: Any) -> Any:
    """Each matrix halved until its norm is small, the approximant of that, and as many squarings."""
    if not self.size:
        return xp.zeros(self.shape, self.dtype)
    norms = xp.abs(self).sum(-2).max(-1)
    halvings = xp.ceil(xp.log2(xp.maximum(xp.where(xp.isfinite(norms), norms, 1) / _PADE_NORM, 1))).astype(int)
    A = self / (2.0 ** halvings)[..., None, None].astype(norms.dtype)
    one = xp.eye(A.shape[-1], dtype=A.dtype)
    A2 = A @ A
    A4 = A2 @ A2
    A6 = A4 @ A2
    b = [c / _PADE[0] for c in _PADE]
    odd = A @ (A6 @ (b[13] * A6 + b[11] * A4 + b[9] * A2) + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * one)
    even = A6 @ (b[12] * A6 + b[10] * A4 + b[8] * A2) + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * one
    made = xp.linalg.solve(even - odd, even + odd).astype(self.dtype, copy=False)
    for step in range(int(halvings.max())):
        made = xp.where((halvings > step)[..., None, None], made @ made, made)
    return xp.ascontiguousarray(made)


def _exp_grad(grad: Any, self: Any) -> Any:
    """The upper right block of the exponential of [[A^H, G], [0, A^H]]."""
    n, A = self.shape[-1], self.mH
    upper, lower = cat((A, grad), -1), cat((A.new_zeros(A.shape), A), -1)
    return matrix_exp(cat((upper, lower), -2))[..., :n, n:]


matrix_exp = function_of(op(
    "linalg_matrix_exp(Tensor self) -> Tensor", kernel=computes(_exp_spec, _exp), grad=dict(self=_exp_grad), public="",
    aliases=("linalg.matrix_exp", "torch.matrix_exp", "Tensor.matrix_exp"),
    samples=cases(case(t(3, 3)), case(t(2, 3, 3, low=-9.0, high=9.0)), case(t(0, 0)), case(t(0, 3, 3)), case(t(1, 1)),
                  error(RuntimeError, "linalg.matrix_exp: A must be batches of square matrices", t(2, 3))),
    batch=in_front, out=None, kernels={"npu": "linalg.matrix_exp"}))


def _check_chain(tensors: Sequence[Any]) -> None:
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    shapes = [tensor._array.shape for tensor in tensors]
    for word, shape in (("first", shapes[0]), ("last", shapes[-1])):
        if len(shape) not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {word} tensor must be 1D or 2D but got {len(shape)}D")
    for i, shape in enumerate(shapes[1:-1], 1):
        if len(shape) != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {len(shape)}D")
    kind = tensors[0].dtype
    for i, tensor in enumerate(tensors[1:], 1):
        if tensor.dtype is not kind:
            raise RuntimeError("multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                               f"{c_name(kind)} and tensor {i} {c_name(tensor.dtype)}")
    for i, (one, other) in enumerate(zip(shapes, shapes[1:])):
        if one[-1] != other[0]:
            raise RuntimeError(f"multi_dot(): tensors {i} and {i + 1} with shapes {shape_text(one)} and "
                               f"{shape_text(other)} cannot be multiplied")


@functools.lru_cache(1024)
def _bracketed(sizes: tuple[int, ...]) -> Any:
    """How to multiply matrices of these sizes with the fewest multiplications: a number of one, or a pair of such."""
    count = len(sizes) - 1
    best: dict[tuple[int, int], tuple[int, Any]] = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            ways = [(best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1],
                     (best[i, k][1], best[k + 1, j][1])) for k in range(i, j)]
            # Of equal costs PyTorch takes the first, but in a chain of three the product of the first two.
            best[i, j] = min(reversed(ways) if count == 3 else ways, key=lambda way: way[0])
    return best[0, count - 1][1]


def multiplied(matrices: Sequence[Any]) -> Any:
    """The product of a chain of matrices, bracketed for the fewest multiplications."""

    def product(way: Any) -> Any:
        return matrices[way] if way.__class__ is int else product(way[0]).mm(product(way[1]))

    return product(_bracketed((matrices[0]._array.shape[0], *[m._array.shape[1] for m in matrices])))


@composite("linalg_multi_dot(Tensor[] tensors) -> Tensor", public="", aliases=("linalg.multi_dot",),
           samples=cases(case([t(2, 3), t(3, 4)]), case([t(2, 3), t(3, 4), t(4, 2), t(2, 5)]),
                         case([t(3), t(3, 4), t(4)]), case([t(3), t(3, 4)]), case([t(3, 0), t(0, 4)]),
                         error(RuntimeError, "multi_dot(): expected at least 2 tensors but got 1", [t(3, 3)]),
                         error(RuntimeError, "multi_dot(): tensors 0 and 1 with shapes [3, 3] and [2, 3] cannot be "
                                             "multiplied", [t(3, 3), t(2, 3)])),
           out=Out("exact", "multi_dot(): expected out tensor to have dtype {c_made} but got {c_given}"),
           autocast=dict(accelerators="lower"))
def _multi_dot(tensors):
    _check_chain(tensors)
    first, last = tensors[0], tensors[-1]
    if first.dim() == last.dim() == 2:
        return multiplied(tensors)
    chain = [first.unsqueeze(0) if first.dim() == 1 else first, *tensors[1:-1],
             last.unsqueeze(-1) if last.dim() == 1 else last]
    return multiplied(chain).view((*(first.shape[:-1]), *(last.shape[1:])))


@composite("chain_matmul(Tensor[] matrices) -> Tensor", public="", out=Out(by="mm"),
           autocast=dict(accelerators="lower"))
def _chain_matmul(matrices):
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    return matrices[0] if len(matrices) == 1 else _multi_dot(matrices)


@composite("linalg_vander(Tensor x, *, int? N=None) -> Tensor", public="", aliases=("linalg.vander",),
           samples=cases(case(t(3)), case(t(2, 3), N=4), case(t(2, 3), N=2),
                         error(RuntimeError, "N must be greater than 1.", t(3), N=1)), out=None)
def _vander(x, N):
    kind = x.dtype
    if kind.category == BOOL or kind in COMPUTE:
        raise RuntimeError("linalg.vander supports floating point, complex, and integer tensors, but got "
                           f"{kind.scalar_name}")
    if x.dim() == 0:
        x = x.unsqueeze(-1)
    N = x.shape[-1] if N is None else N
    if N <= 1:
        raise RuntimeError("N must be greater than 1.")
    powers = x.unsqueeze(-1).expand((*x.shape, N - 1)).cumprod(-1)
    return cat((powers.new_ones((*x.shape, 1)), powers), -1)


@composite("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", public="", aliases=("linalg.vecdot",),
           samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3)), case(t(3, 2), t(3, 2), dim=0), case(t(3), t(3)),
                         case(t(3, 0), t(3, 0))),
           out=Out("exact", "linalg.vecdot: Expected out of dtype{made} but found {given}"), autocast="lower")
def _vecdot(x, y, dim):
    check_floating("linalg.vecdot", x.dtype)
    check_same_type("linalg.vecdot: Expected x and y to have the same dtype, but found x of type {} and y of type {} "
                    "instead", x.dtype, y.dtype)
    if x.dim() == 1 and y.dim() == 1:
        return x.vdot(y)
    return (conj(x) * y).sum(dim)


@composite("linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)", public="",
           aliases=("linalg.diagonal",), samples=cases(case(t(3, 3)), case(t(2, 3, 4), offset=1, dim1=0, dim2=2)))
def _diagonal(A, offset, dim1, dim2):
    return A.diagonal(offset, dim1, dim2)


@composite("linalg_matmul(Tensor self, Tensor other) -> Tensor", public="", aliases=("linalg.matmul",),
           samples=cases(case(t(2, 3), t(3, 4)), case(t(3), t(2, 3, 4))))
def _linalg_matmul(self, other):
    return self.matmul(other)
