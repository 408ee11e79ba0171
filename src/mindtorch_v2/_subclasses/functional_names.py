"""Functionalization by the names that PyTorch's extension has for it."""

from typing import Any

from .._core.tensor import Tensor
from .functional_wrapper import PLAIN, FunctionalWrapper, disable, enable, is_functional, levels, make, outside

_ASSERTION = "at::functionalization::impl::isFunctionalTensor(t) INTERNAL ASSERT FAILED"


def _to_functional_tensor(t: Tensor) -> FunctionalWrapper:
    """A wrapper whose value is the tensor."""
    if is_functional(t):
        raise RuntimeError(f"!{_ASSERTION}")
    stack = levels()
    with outside():
        return make(t, stack[-1] if stack else PLAIN)


def _wrapper(t: Any) -> FunctionalWrapper:
    if not is_functional(t):
        raise RuntimeError(_ASSERTION)
    return t


def _from_functional_tensor(t: Tensor) -> Tensor:
    """The value of a wrapper."""
    return _wrapper(t)._value


_is_functional_tensor = is_functional


def _is_functional_tensor_base(t: Tensor) -> bool:
    return not _wrapper(t)._steps


def _sync(t: Tensor) -> None:
    """Brings a wrapper up to date."""
    if is_functional(t):
        with outside():
            _wrapper(t).sync()


_functionalize_sync = _sync


def _functionalize_replace(self_: Tensor, other: Tensor) -> None:
    with outside():
        _wrapper(self_).replace(other)


def _functionalize_commit_update(t: Tensor) -> None:
    _wrapper(t).commit()


def _functionalize_has_data_mutation(t: Tensor) -> bool:
    return _wrapper(t)._shared.generation > 0


def _functionalize_has_metadata_mutation(t: Tensor) -> bool:
    return bool(_wrapper(t)._steps)


def _functionalize_is_multi_output_view(t: Tensor) -> bool:
    return any(step.nr is not None for step in _wrapper(t)._steps)


def _functionalize_was_storage_changed(t: Tensor) -> bool:
    return False


_functionalize_was_inductor_storage_resized = _functionalize_was_storage_changed


def _freeze_functional_tensor(t: Tensor) -> None:
    """Lets nothing be written to the storage of a wrapper any more."""
    _wrapper(t)._shared.frozen = True


def _enable_functionalization(*, reapply_views: bool = False) -> None:
    """From now on new tensors are wrappers; without `reapply_views`, views become copies."""
    if levels():
        raise RuntimeError("multiple layers of mode-style functionalization nesting is not currently supported, "
                           "outside of the functionalize() transform")
    PLAIN.reapply_views = reapply_views
    enable(PLAIN)


def _disable_functionalization() -> None:
    disable()


def _mirror_autograd_meta_to(source: Tensor, target: Tensor) -> None:
    """Lets a tensor need grad where another does."""
    if source.requires_grad:
        target.requires_grad_()
