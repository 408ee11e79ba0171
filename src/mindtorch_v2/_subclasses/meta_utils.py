"""Twins of tensors on the Meta device: same geometry, type, sharing of storage, views, leaves and gradients."""

import weakref
from collections.abc import Callable
from typing import Any

from .._core.device import META, sparse_coo, strided
from .._core.storage import UntypedStorage
from .._core.tensor import Tensor
from .._dispatch.levels import level_of
from ..autograd.grad_mode import enable_grad, no_grad
from ..overrides import is_tensor_like
from ..utils._python_dispatch import is_traceable_wrapper_subclass, transform_subclass
from ..utils.weak import WeakIdKeyDictionary

_COMPRESSED = {"torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc"}


def is_sparse_coo(t: object) -> bool:
    return isinstance(t, Tensor) and t.layout is sparse_coo


def is_sparse_compressed_layout(layout: Any) -> bool:
    return str(layout) in _COMPRESSED


def is_sparse_compressed(t: object) -> bool:
    return isinstance(t, Tensor) and is_sparse_compressed_layout(t.layout)


def is_sparse_any(t: object) -> bool:
    return is_sparse_coo(t) or is_sparse_compressed(t)


def safe_is_leaf(t: Tensor) -> bool:
    """Whether a tensor is a leaf; one made in inference mode, which cannot say, is none."""
    try:
        return t.is_leaf
    except RuntimeError:
        return False


def assert_eq(a: object, b: object) -> None:
    if a != b:
        raise AssertionError(f"{a} != {b}")


_ALWAYS = ("dtype", "layout", "shape", "requires_grad")


def assert_metadata_eq(assert_eq: Callable[[object, object], object], m1: Tensor, m2: Tensor, *,
                       skip_symbolic: bool = False, skip_leaf: bool = False) -> None:
    """Compares all of two tensors but their elements and device, those of their bases included."""
    for name in _ALWAYS:
        assert_eq(getattr(m1, name), getattr(m2, name))
    if not skip_leaf:
        assert_eq(m1.is_leaf, m2.is_leaf)
    assert_eq(m1.grad_fn is None, m2.grad_fn is None)
    if m1.layout is strided and not skip_symbolic:
        assert_eq(m1.stride(), m2.stride())
        assert_eq(m1.storage_offset(), m2.storage_offset())
    elif is_sparse_coo(m1):
        for name in ("dense_dim", "sparse_dim", "is_coalesced"):
            assert_eq(getattr(m1, name)(), getattr(m2, name)())
    for name in ("is_inference", "is_conj", "is_neg", "_is_view"):
        assert_eq(getattr(m1, name)(), getattr(m2, name)())
    if m1.is_leaf and m2.is_leaf:
        assert_eq(m1.grad is None, m2.grad is None)
    if m1._base is not None and m2._base is not None:
        assert_metadata_eq(assert_eq, m1._base, m2._base, skip_symbolic=skip_symbolic, skip_leaf=skip_leaf)


class MetaTensorDescriber:
    """Numbers for tensors and storages, kept as long as these live."""

    def __init__(self) -> None:
        self.lookup_tensor, self.lookup_storage = WeakIdKeyDictionary(), WeakIdKeyDictionary()
        self.next_tensor_id = self.next_storage_id = 0

    def get_tensor_id(self, t: Tensor) -> int:
        if t not in self.lookup_tensor:
            self.lookup_tensor[t] = self.next_tensor_id
            self.next_tensor_id += 1
        return self.lookup_tensor[t]

    def get_storage_id(self, s: UntypedStorage) -> int:
        if s not in self.lookup_storage:
            self.lookup_storage[s] = self.next_storage_id
            self.next_storage_id += 1
        return self.lookup_storage[s]


class MetaConverter:
    """Converts tensors to Meta twins. Those that share storage share it there; the same tensor has the same twin.

    What it cannot convert becomes NotImplemented, and counts: `successful` tells whether everything could be.
    """

    def __init__(self, *, copy_data: bool = False) -> None:
        self.copy_data = copy_data
        self.describer = MetaTensorDescriber()
        self.tensor_memo: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
        self.storage_memo: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()
        self.hit = self.miss = self.arg_cnt = 0

    def successful(self) -> bool:
        return self.hit > 0 and self.miss == 0

    def __call__(self, t: Any, shape_env: Any = None, *, callback: Callable | None = None, source: Any = None,
                 symbolic_context: Any = None, trace: bool = True) -> Any:
        """The twin of a tensor; other values are returned as they are.

        `callback` is called with a function that makes the Meta tensor and the device of the original, and returns
        what takes its place: how fake tensors are made.
        """
        self.arg_cnt += 1
        if not isinstance(t, Tensor):
            if is_tensor_like(t):
                self.miss += 1
                return NotImplemented
            return t
        if not self._converts(t):
            self.miss += 1
            return NotImplemented
        self.hit += 1
        made = self.meta_tensor(t, callback or (lambda make, where: make()))
        from ..nn.parameter import Parameter

        if isinstance(t, Parameter) and not isinstance(made, Parameter):
            made = self.tensor_memo[self.describer.get_tensor_id(t)] = Parameter(made, requires_grad=t.requires_grad)
        return made

    @staticmethod
    def _converts(t: Tensor) -> bool:
        from ..nn.parameter import Buffer, Parameter

        plain = type(t) in (Tensor, Parameter, Buffer) or is_traceable_wrapper_subclass(t)
        return plain and not is_sparse_any(t) and not level_of((t,))

    def meta_storage(self, s: UntypedStorage) -> UntypedStorage:
        number = self.describer.get_storage_id(s)
        made = self.storage_memo.get(number)
        if made is None:
            made = self.storage_memo[number] = UntypedStorage(s.nbytes(), device=META)
        return made

    def meta_tensor(self, t: Tensor, callback: Callable) -> Any:
        """The twin that is remembered of a tensor, or a new one."""
        number = self.describer.get_tensor_id(t)
        made = self.tensor_memo.get(number)
        if made is not None:
            return made
        if is_traceable_wrapper_subclass(t):
            made = transform_subclass(t, lambda name, inner: self.meta_tensor(inner, callback))
            if t.requires_grad:
                made.requires_grad_()
        elif t._is_view():
            made = self._view(t, callback)
        else:
            made = self._own(t, callback)
        if t.is_leaf and t.grad is not None:
            made.grad = self.meta_tensor(t.grad, callback)
        self.tensor_memo[number] = made
        return made

    def _own(self, t: Tensor, callback: Callable) -> Any:
        def make() -> Tensor:
            from .. import empty

            storage = self.meta_storage(t.untyped_storage())
            with no_grad():
                return empty(0, dtype=t.dtype, device=META).set_(storage, t.storage_offset(), t.shape, t.stride())

        made = callback(make, t.device)
        if t.requires_grad:
            made.requires_grad_()
            if not t.is_leaf:
                with enable_grad():
                    made = made.clone()
                if made.stride() != t.stride() or made.storage_offset() != t.storage_offset():
                    with no_grad():
                        made.set_(self.meta_storage(t.untyped_storage()), t.storage_offset(), t.shape, t.stride())
        return made

    def _view(self, t: Tensor, callback: Callable) -> Any:
        base = t._base
        assert base is not None
        made = self.meta_tensor(base, callback)
        if t.is_leaf:  # of a view on which gradients begin
            with no_grad():
                made = _viewed(made, t)
            return made.requires_grad_() if t.requires_grad else made
        if t.requires_grad and not base.requires_grad:
            with no_grad():
                made = made.view_as(made)
            made.requires_grad_()
        with enable_grad():
            return _viewed(made, t)


def _viewed(base: Tensor, t: Tensor) -> Tensor:
    """The view of `base` that has the geometry and type of `t`."""
    from .. import view_as_complex, view_as_real

    if base.dtype is not t.dtype:
        if base.is_complex() and not t.is_complex() and t.dtype.itemsize * 2 == base.dtype.itemsize:
            base = view_as_real(base)
        elif t.is_complex() and not base.is_complex() and base.dtype.itemsize * 2 == t.dtype.itemsize:
            base = view_as_complex(base)
        else:
            base = base.view(t.dtype)
    return base.as_strided(t.shape, t.stride(), t.storage_offset())
