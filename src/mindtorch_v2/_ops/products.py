"""Products of tensors: outer, inner, over chosen dimensions, of vectors in space, bilinear."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import BOOL, FLOAT, INT, REDUCED, bool_, promote_types
from .._core.geometry import wrapped_dim
from .._core.tensor import Tensor
from .._core.warn import warn
from .._dispatch.registry import registry
from ._declare.batch import along_one, decomposed
from ._declare.families import computes, moves
from ._declare.op import composite, function_of, op
from ._declare.out import CASTABLE, Out
from ._declare.rules import (
    Spec,
    broadcast_shape,
    c_name,
    common_dtype,
    number_array,
    pointwise_strides,
    shape_text,
    unwatched,
)
from ._declare.samples import case, cases, error, t
from .copy import stored_number
from .linear import linear
from .matmul import batch_matmul, scaled
from .matrices import check_expands, check_same_scalar, conj


@composite("outer(Tensor self, Tensor vec2) -> Tensor", aliases=("ger",),
           apart="self vec2", resizes_expanded=False,
           samples=cases(case(t(2), t(3)), case(t(0), t(3)),
                         error(RuntimeError, "outer: Expected 1-D argument self, but got 2-D", t(2, 3), t(3))),
           out=CASTABLE._replace(by="mul"))
def _outer(self, vec2):
    for name, tensor in (("self", self), ("vec2", vec2)):
        if tensor.dim() != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {tensor.dim()}-D")
    return self.unsqueeze(1) * vec2


def _addr_spec(self: Tensor, vec1: Tensor, vec2: Tensor, beta: Any, alpha: Any) -> Spec:
    rows, columns = vec1._array.shape, vec2._array.shape
    for name, shape in (("vec1", rows), ("vec2", columns)):
        if len(shape) != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {len(shape)}-D")
    check_expands(self, (*rows, *columns))
    kind = self.dtype
    if not kind is vec1.dtype is vec2.dtype:
        kind = promote_types(promote_types(vec1.dtype, vec2.dtype), kind)
    for name, number in (("beta", beta), ("alpha", alpha)):
        if kind.category <= INT and number.__class__ in (float, complex):
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
        if kind.category == FLOAT and number.__class__ is complex:
            stored_number(number, kind)
    shape = (*rows, *columns)
    return Spec(shape, kind, pointwise_strides(shape, [self]))


def _addr_array(xp: Any, self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any, spec: Spec) -> Any:
    made = _added_product(self, vec1, vec2, beta, alpha, spec)
    return made if spec.strides is None else xp.asarray(made, order="F")  # the columns of `self` are contiguous


def _added_product(self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any, spec: Spec) -> Any:
    kind = spec.dtype.np
    self, vec1, vec2 = (x if x.dtype == kind else x.astype(kind) for x in (self, vec1, vec2))
    if spec.dtype.category == BOOL:
        made = vec1[:, None] & vec2 & bool(alpha)
        return made | self if beta else made
    beta, alpha = (number_array(number, spec.dtype)[()] for number in (beta, alpha))  # half types round these too
    product = (vec1 if alpha == 1 else alpha * vec1)[:, None] * vec2
    if beta == 0:  # whatever `self` holds, NaN too
        return product
    return product + (self if beta == 1 else beta * self)


op("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
   apart="vec1 vec2", aligned="self", resizes_expanded=False, inplace=True,
   kernel=moves(_addr_spec, _addr_array), kernels={"cpu": "products.addr"},
   grad=dict(self=lambda grad, beta: scaled(grad, beta),
             vec1=lambda grad, vec2, alpha: scaled(grad.mv(conj(vec2)), alpha),
             vec2=lambda grad, vec1, alpha: scaled(grad.t().mv(conj(vec1)), alpha)),
   samples=cases(case(t(2, 3), t(2), t(3)), case(t(3), t(2), t(3), beta=0.5, alpha=2),
                 case(t(2, 3), t(2), t(3), beta=0),
                 error(RuntimeError, "addr: Expected 1-D argument vec1, but got 2-D", t(2), t(2, 3), t(4))),
   out=CASTABLE._replace(lies_as_made="resized"), autocast=dict(accelerators="lower"), batch=decomposed,
   decomposition=lambda self, vec1, vec2, beta, alpha: _addr_by_parts(self, vec1, vec2, beta, alpha),
   old_orders=("beta self alpha vec1 vec2", "beta self vec1 vec2"), sharded="added m,n->mn")


def _addr_by_parts(self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any) -> Any:
    kind = promote_types(promote_types(vec1.dtype, vec2.dtype), self.dtype)
    if kind.category == BOOL:
        made = vec1.unsqueeze(1) & vec2 & bool(alpha)
        return made | self if beta else made
    if kind.np in REDUCED:  # the factors are rounded too
        beta, alpha = (float(kind.np.type(number)) for number in (beta, alpha))
    product = (vec1 if alpha == 1 else alpha * vec1).unsqueeze(1) * vec2
    if beta == 0:  # whatever `self` holds, NaN too
        return self.where(self.new_zeros((), dtype=bool_), 0) + product
    return (self if beta == 1 else beta * self) + product


def _contracted_spec(self: Tensor, other: Tensor, left: Sequence[int], right: Sequence[int]) -> Spec:
    a, b = self._array.shape, other._array.shape
    return Spec((*[n for d, n in enumerate(a) if d not in left], *[n for d, n in enumerate(b) if d not in right]),
                self.dtype)


def _contracted_array(xp: Any, self: Any, other: Any, left: Sequence[int], right: Sequence[int], spec: Spec) -> Any:
    for d, e in zip(left, right, strict=True):  # a dimension of size 1 is broadcast
        if self.shape[d] == 1 != other.shape[e]:
            other = other.sum(e, keepdims=True, dtype=other.dtype)
        elif other.shape[e] == 1 != self.shape[d]:
            self = self.sum(d, keepdims=True, dtype=self.dtype)
    inner = math.prod([self.shape[d] for d in left])
    kept = [d for d in range(self.ndim) if d not in left]
    free = [d for d in range(other.ndim) if d not in right]
    a = self.transpose(*kept, *left).reshape(math.prod([self.shape[d] for d in kept]), inner)
    b = other.transpose(*right, *free).reshape(inner, math.prod([other.shape[d] for d in free]))
    return xp.dot(a, b).reshape(spec.shape)


def _contracted_by_parts(self: Any, other: Any, left: tuple[int, ...], right: tuple[int, ...]) -> Any:
    for d, e in zip(left, right, strict=True):
        m, n = self.shape[d], other.shape[e]
        if m == 1 and n != 1:  # a dimension of size 1 is broadcast
            other = other.sum(e, keepdim=True, dtype=other.dtype)
        elif n == 1 and m != 1:
            self = self.sum(d, keepdim=True, dtype=self.dtype)
    kept = tuple(d for d in range(self.dim()) if d not in left)
    free = tuple(d for d in range(other.dim()) if d not in right)
    inner = math.prod(self.shape[d] for d in left)
    shape = tuple(self.shape[d] for d in kept) + tuple(other.shape[d] for d in free)
    a = self.permute(kept + left).reshape(math.prod(self.shape[d] for d in kept), inner)
    b = other.permute(right + free).reshape(inner, math.prod(other.shape[d] for d in free))
    if math.prod(shape) == 1:
        return a.reshape(inner).dot(b.reshape(inner)).reshape(shape)
    return a.mm(b).reshape(shape)


_contracted = function_of(op(
    "_tensordot(Tensor self, Tensor other, int[] left, int[] right) -> Tensor",
    kernel=computes(_contracted_spec, _contracted_array), public="", decomposition=_contracted_by_parts))


@composite("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", public="",
           samples=cases(case(t(2, 3), t(3, 4), (1,), (0,)), case(t(2, 3, 4), t(4, 3, 5), (1, 2), (1, 0)),
                         case(t(2), t(3), (), ()),
                         error(RuntimeError, "contracted dimensions need to match, but first has size 3 in dim 1 and "
                                             "second has size 4 in dim 0", t(2, 3), t(4, 4), (1,), (0,))),
           autocast=dict(accelerators="widest"))
def tensordot(self, other, dims_self, dims_other):
    """The sum of products over pairs of dimensions."""
    if len(dims_self) != len(dims_other):
        raise RuntimeError("both dimension lists should have same length")
    if self.dtype is not other.dtype:
        raise RuntimeError("both inputs should have same dtype")
    left, right = (tuple([wrapped_dim(d, x._array.ndim) for d in dims])
                   for x, dims in ((self, dims_self), (other, dims_other)))
    for given, d, e in zip(zip(dims_self, dims_other, strict=True), left, right, strict=True):
        m, n = self._array.shape[d], other._array.shape[e]
        if m != n and 1 not in (m, n):
            raise RuntimeError(f"contracted dimensions need to match, but first has size {m} in dim {given[0]} and "
                               f"second has size {n} in dim {given[1]}")
    if self.dtype.category >= FLOAT and len(set(left)) == len(left) and len(set(right)) == len(right) \
            and unwatched(self, other):
        return _contracted(self, other, left, right)
    return _contracted_by_parts(self, other, left, right)


_tensordot: Callable = function_of(registry.get("tensordot"))


@composite("inner(Tensor self, Tensor other) -> Tensor",
           samples=cases(case(t(3), t(3)), case(t(2, 3), t(4, 3)), case(t(2, 3), t()),
                         error(RuntimeError, "inner() the last dimension must match on both input tensors but got "
                                             "shapes [2, 3] and [4, 5]", t(2, 3), t(4, 5))),
           out=Out("exact", "tensordot: Expected the output tensor to have dtype {made}, but got an output tensor "
                            "with dtype {given}"))
def _inner(self, other):
    if not self.dim() or not other.dim():
        return self * other
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError("inner() the last dimension must match on both input tensors but got shapes "
                           f"{shape_text(self.shape)} and {shape_text(other.shape)}")
    return _tensordot(self, other, (-1,), (-1,))  # as an operator: autocast knows it


def _interleaved(a: Sequence[int], b: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Shapes in which factors of these shapes broadcast to all their products, and the shape of the result."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    return (tuple([n for size in a for n in (size, 1)]), tuple([n for size in b for n in (1, size)]),
            tuple([m * n for m, n in zip(a, b, strict=True)]))


def _kron_spec(self: Tensor, other: Tensor) -> Spec:
    kind = self.dtype
    kind = kind if kind is other.dtype else common_dtype((self, other))
    return Spec(_interleaved(self._array.shape, other._array.shape)[2], kind)


def _kron_array(xp: Any, self: Any, other: Any, spec: Spec) -> Any:
    left, right, shape = _interleaved(self.shape, other.shape)
    kind = spec.dtype.np
    return (self.reshape(left).astype(kind, copy=False) * other.reshape(right).astype(kind, copy=False)).reshape(shape)


def _kron_share(grad: Any, factor: Any, own: Sequence[int], first: bool) -> Any:
    """The gradient of one of the two factors, which has the shape `own`."""
    theirs = factor.shape
    left, right, _ = _interleaved(own, theirs) if first else _interleaved(theirs, own)
    every = tuple([m * n for m, n in zip(left, right, strict=True)])
    product = grad.reshape(every) * conj(factor).reshape(right if first else left)
    return product.sum(tuple(range(1 if first else 0, len(every), 2))).reshape(own) if every else product


def _kron_by_parts(self: Any, other: Any) -> Any:
    left, right, shape = _interleaved(tuple(self.shape), tuple(other.shape))
    return (self.reshape(left) * other.reshape(right)).reshape(shape)


op("kron(Tensor self, Tensor other) -> Tensor", node="UnsafeViewBackward0", apart="self other",
   kernel=moves(_kron_spec, _kron_array), kernels={"cpu": "products.kron"},
   decomposition=_kron_by_parts, batch=decomposed,
   grad=dict(self=lambda grad, other, self_shape: _kron_share(grad, other, self_shape, True),
             other=lambda grad, self, other_shape: _kron_share(grad, self, other_shape, False)), linear="each",
   samples=cases(case(t(2, 3), t(4, 2)), case(t(2, 3), t(4)), case(t(2), t(2, 2))), out=CASTABLE._replace(by="mul"))


def _cross_spec(self: Tensor, other: Tensor, dim: int) -> Spec:
    a, b = self._array.shape, other._array.shape
    if len(a) != len(b):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    at = wrapped_dim(dim, len(a))
    if (a[at : at + 1], b[at : at + 1]) != ((3,), (3,)):
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.size(dim)} and "
                           f"{other.size(dim)}")
    shape = broadcast_shape([a, b])
    check_same_scalar(self.dtype, other.dtype)
    if self.dtype.category == BOOL:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    return Spec(shape, self.dtype)


def _cross_array(xp: Any, self: Any, other: Any, dim: int, spec: Spec) -> Any:
    made = xp.empty(spec.shape, self.dtype)
    a, b, out = (xp.moveaxis(x, dim, 0) for x in (self, other, made))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i] = a[j] * b[k] - a[k] * b[j]
    return made


_linalg_cross: Callable = function_of(op(
    "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    apart="self other",
    kernel=moves(_cross_spec, _cross_array), kernels={"cpu": "products.cross"},
    npu="aclnnLinalgCross(self:out, other:out, dim, out)", # half types round after each step, as PyTorch's kernel does
    grad=dict(self=lambda grad, other, dim: _linalg_cross(conj(other), grad, dim=dim),
              other=lambda grad, self, dim: _linalg_cross(grad, conj(self), dim=dim)),
    public="", aliases=("linalg.cross",),
    samples=cases(case(t(2, 3), t(2, 3)), case(t(3, 2), t(3, 2), dim=0), case(t(1, 3), t(2, 3)), case(t(0, 3), t(0, 3)),
                  error(RuntimeError, "linalg.cross: inputs dimension -1 must have length 3. Got 4 and 4", t(2, 4),
                        t(2, 4))), linear="each", batch=along_one))


@composite("cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
           apart="self other",
           samples=cases(case(t(2, 3), t(2, 3), 1), case(t(3, 2), t(3, 2), dim=0)),
           autocast=dict(accelerators="widest"))
def _cross(self, other, dim):
    if dim is None:
        warn("Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim "
             "explicitly "
             "or simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of "
             "linalg.cross in a future release.")
        dim = next((d for d, n in enumerate(self.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return _linalg_cross(self, other, dim=dim)


@composite("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
           node={"ViewBackward0": "bias is None"},
           public="torch nn.functional",
           samples=cases(case(t(2, 3), t(2, 4), t(5, 3, 4), t(5)), case(t(3), t(4), t(5, 3, 4)),
                         case(t(2, 2, 3), t(2, 2, 4), t(5, 3, 4)),
                         error(RuntimeError, "bilinear(): input1 size does not match weight size: got 3 but expected 4",
                               t(2, 3), t(2, 4), t(5, 4, 4))), out=None,
           autocast=dict(cpu="untouched", accelerators="widest"))
def _bilinear(input1, input2, weight, bias):
    if input1.dim() != input2.dim():
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}")
    for d in range(input1.dim() - 1):
        if input1.shape[d] != input2.shape[d]:
            raise RuntimeError("bilinear(): input batch dimensions do not match at dim "
                               f"{d}: got {input1.shape[d]} and {input2.shape[d]}")
    for i, given in ((1, input1), (2, input2)):
        if given.size(-1) != weight.size(i):
            raise RuntimeError(f"bilinear(): input{i} size does not match weight size: got {given.shape[-1]} but "
                               f"expected {weight.shape[i]}")
    if bias is not None and bias.size(0) != weight.size(0):
        raise RuntimeError(f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
                           f"{weight.shape[0]}")
    operands = {"input1": input1, "input2": input2, "weight": weight} | ({} if bias is None else {"bias": bias})
    if len({tensor.dtype for tensor in operands.values()}) > 1:
        given = ", ".join(f"{name}: {c_name(tensor.dtype)}" for name, tensor in operands.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {given}")
    out, m, n = weight.shape
    half = linear(input1, weight.transpose(1, 2).reshape(out * n, m)).reshape((*input1.shape[:-1], out, n))
    made = batch_matmul(half, input2.unsqueeze(-1)).squeeze(-1)
    return made if bias is None else made + bias
