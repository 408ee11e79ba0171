"""Views that conjugate or negate, and copies that are made at the first write."""

from typing import Any

from .._autograd.views import wake
from .._core.marks import MathView, is_conjugated, is_negated, is_shared, marked
from .._core.tensor import Tensor, tracked_view
from .._dispatch.callers import call_bound
from .._dispatch.keys import BACKENDS, MARKED_MASK, SPARSE_MASK, VIEW_MASK, DispatchKey
from .._dispatch.registry import Operator
from .._marked import lazy_clone
from ._declare.batch import in_front
from ._declare.families import Family
from ._declare.op import composite, function_of, op
from ._declare.samples import unary
from ._declare.view_family import View
from .pointwise import conj as conjugate_of


class Marking(View):
    """The same memory, its elements conjugated or negated when they are looked at."""

    marks = True

    def __init__(self, conjugates: bool, negates: bool) -> None:
        super().__init__(lambda self: (self._array.shape, self._array.strides, 0))
        self.conjugates, self.negates = conjugates, negates

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        def kernel(source: Tensor) -> Tensor:
            if source._keys & VIEW_MASK and wake(source):
                return call_bound(operator, (source,))
            source._shared_storage()  # it gives an empty array PyTorch's strides
            array = source._array
            shown = marked(array, is_conjugated(array) != self.conjugates, is_negated(array) != self.negates)
            made = tracked_view(source, shown, source._offset, operator, ())
            if shown.__class__ is MathView or is_shared(source._storage):
                made._keys |= MARKED_MASK
            return made

        operator.fallthrough |= {DispatchKey.ADInplaceOrView, DispatchKey.Pipeline}
        return dict.fromkeys(BACKENDS, kernel)


class LazyClone(Family):
    """A copy of which the memory comes later."""

    marks = True

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        return dict.fromkeys(BACKENDS, lazy_clone)


_conjugated_view = function_of(op(
   "_conj(Tensor(a) self) -> Tensor(a)", kernel=Marking(True, False), inverse="_conj",
   grad=dict(self=lambda grad: conjugate_of(grad)), public="torch Tensor", linear=True, batch=in_front))
op("_neg_view(Tensor(a) self) -> Tensor(a)", kernel=Marking(False, True), inverse="_neg_view",
   grad=dict(self=lambda grad: -grad), public="torch Tensor", linear=True, batch=in_front)
op("_lazy_clone(Tensor self) -> Tensor", kernel=LazyClone(), grad=dict(self=lambda grad: grad), public="torch Tensor",
   linear=True, batch=in_front, inplace=False)


@composite("conj(Tensor(a) self) -> Tensor(a)", samples=unary(), keeps_zero=True, linear=True)
def _conj(self):
    if not self.dtype.is_complex:
        return self
    return self.conj_physical() if _computes_at_once(self) else _conjugated_view(self)


def _computes_at_once(self: Tensor) -> bool:
    """Whether a conjugate is computed at once: of what has no strides."""
    return bool(self._keys & SPARSE_MASK)
