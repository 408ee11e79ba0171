"""FunctionalTensor: functionalization as a mode and a subclass in Python."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .._core.tensor import Tensor, _disabled_torch_function_impl
from .._torch_dispatch import dispatch_modes
from ..utils._python_dispatch import TorchDispatchMode
from ..utils._pytree import tree_leaves, tree_map_only
from .functional_names import (
    _from_functional_tensor,
    _functionalize_commit_update,
    _functionalize_replace,
    _functionalize_sync,
    _is_functional_tensor,
    _sync,
    _to_functional_tensor,
)
from .functional_wrapper import PLAIN, FunctionalWrapper, enabled

__all__ = ["FunctionalTensor", "FunctionalTensorMode", "dispatch_functionalize", "mb_unwrap_functional_tensor"]


class FunctionalTensor(Tensor):
    """A tensor that shows an `elem`, which is a wrapper of functionalization."""

    elem: FunctionalWrapper
    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls: Any, elem: Tensor, mode: Any = None) -> Any:  # noqa: PLW0211
        if not _is_functional_tensor(elem):
            raise AssertionError("elem must be a functional tensor")
        made = Tensor._make_wrapper_subclass(cls, elem.shape, strides=elem.stride(), dtype=elem.dtype,
                                             storage_offset=elem.storage_offset(), device=elem.device,
                                             requires_grad=elem.requires_grad)
        made.elem = elem
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done in `__new__`."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise RuntimeError("Attempting to use FunctionalTensor on its own. Instead, please use it with a corresponding "
                           "FunctionalTensorMode()")

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"FunctionalTensor({self.elem!r})"

    @staticmethod
    def to_functional(x: Tensor) -> Any:
        """A tensor as one that only makes new values; it needs grad where the tensor does."""
        with disable_functional_mode():
            made = FunctionalTensor(_to_functional_tensor(x))
            return made.requires_grad_(x.requires_grad)

    def from_functional(self) -> Tensor:
        _sync(self.elem)
        return _from_functional_tensor(self.elem)

    def is_base_tensor(self) -> bool:
        return not self.elem._steps

    def replace_(self, output: Any) -> None:
        _functionalize_replace(self.elem, output)

    def commit_update(self) -> None:
        _functionalize_commit_update(self.elem)

    def sync(self) -> None:
        _functionalize_sync(self.elem)

    def tolist(self) -> Any:
        return self.item() if self.dim() == 0 else [row.tolist() for row in self.unbind(0)]


class FunctionalTensorMode(TorchDispatchMode):
    """Inside, operators run on the wrappers of FunctionalTensors, and new tensors are FunctionalTensors."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    def __init__(self, pre_dispatch: bool = False, export: bool = False,
                 _allow_token_discovery: bool = False) -> None:
        super().__init__()
        self.export, self.pre_dispatch = export, pre_dispatch

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, FunctionalTensor)]
        strange = [t for t in types if not issubclass(t, (FunctionalTensor, FunctionalWrapper))]
        if strange:
            return NotImplemented
        inner, named = tree_map_only(FunctionalTensor, lambda t: t.elem, (args, kwargs))
        reapply, PLAIN.reapply_views = PLAIN.reapply_views, True
        try:
            with enabled(PLAIN):
                result = func(*inner, **named)
        finally:
            PLAIN.reapply_views = reapply
        owners = {id(t.elem): t for t in given}

        def shown(wrapper: FunctionalWrapper) -> FunctionalTensor:
            return owners[id(wrapper)] if id(wrapper) in owners else FunctionalTensor(wrapper)

        made = tree_map_only(FunctionalWrapper, shown, result)
        for tensor in given:
            _follow(tensor)
        return made


def _follow(tensor: FunctionalTensor) -> None:
    """Takes over the geometry of the wrapper inside, which `t_` or `resize_` may have changed."""
    inside = tensor.elem
    if tuple(inside.shape) != tuple(tensor.shape) or tuple(inside.stride()) != tuple(tensor.stride()):
        array = tensor._array
        tensor._array = type(array)(inside._array.shape, array.dtype, inside._array.strides, array.storage)


@contextlib.contextmanager
def disable_functional_mode() -> Iterator[Any]:
    """Context in which no FunctionalTensorMode is in force."""
    stack = dispatch_modes()
    at = next((i for i in range(len(stack) - 1, -1, -1) if isinstance(stack[i], FunctionalTensorMode)), None)
    mode = None if at is None else stack.pop(at)
    try:
        yield mode
    finally:
        if at is not None:
            stack.insert(at, mode)


def dispatch_functionalize(func: Callable, mode: FunctionalTensorMode | None = None) -> Callable:
    """`func` with its writes and views made functional."""
    used = FunctionalTensorMode() if mode is None else mode

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with disable_functional_mode():
            given, named = tree_map_only(Tensor, FunctionalTensor.to_functional, (args, kwargs))
        with used:
            result = func(*given, **named)
        return tree_map_only(FunctionalTensor, FunctionalTensor.from_functional, result)

    return wrapped


def mb_unwrap_functional_tensor(tensor: Tensor) -> Tensor:
    return tensor.from_functional() if isinstance(tensor, FunctionalTensor) else tensor
