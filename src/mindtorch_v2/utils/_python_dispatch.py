"""Modes that see operators below autograd, and wrapper subclasses."""

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, runtime_checkable

from .._core.tensor import Tensor
from .._core.tensor_base import fields_of
from .._dispatch.keys import TORCH_DISPATCH_MASK, changed_modes, modes
from .._torch_dispatch import dispatch_modes
from ._pytree import tree_flatten, tree_unflatten

__all__ = ["BaseTorchDispatchMode", "TensorWithFlatten", "TorchDispatchMode", "is_traceable_wrapper_subclass",
           "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing", "transform_subclass"]


def _refuse_classmethod(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it a "
                       "plain method")


class TorchDispatchMode:
    """Inside, its `__torch_dispatch__` sees every operator that a backend would run; the innermost mode first."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(vars(cls).get("__torch_dispatch__"), classmethod):
            cls.__torch_dispatch__ = _refuse_classmethod  # type: ignore[method-assign]

    def __init__(self, _dispatch_key: Any = None) -> None:
        """Subclasses may add what they need."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode serves the library itself, and not a user who wants to see calls."""
        return False

    def __torch_dispatch__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        dispatch_modes().append(self)
        modes.update(include=modes.include | TORCH_DISPATCH_MASK)
        return self

    def __exit__(self, *exception: Any) -> None:
        dispatch_modes().pop()
        if not dispatch_modes():
            modes.update(include=modes.include & ~TORCH_DISPATCH_MASK)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> "TorchDispatchMode":
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    return dispatch_modes()[-1] if dispatch_modes() else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    return list(dispatch_modes())


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode sees calls; those that serve the library may be left out."""
    return any(include_infra_modes or not mode.is_infra_mode() for mode in dispatch_modes())


class _disable_current_modes(changed_modes):
    """Context in which no mode sees anything."""

    def __init__(self) -> None:
        super().__init__(include=modes.include & ~TORCH_DISPATCH_MASK)


# wrapper subclasses --------------------------------------------------------------------------------------------------


@runtime_checkable
class TensorWithFlatten(Protocol):
    """A tensor that can be taken apart into others and put together again."""

    def __tensor_flatten__(self) -> tuple[list[str], Any]: ...

    @staticmethod
    def __tensor_unflatten__(inner_tensors: dict[str, Any], flatten_spec: Any, outer_size: Any,
                             outer_stride: Any) -> Tensor: ...


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    return (t is not Tensor and issubclass(t, Tensor) and hasattr(t, "__tensor_flatten__")
            and hasattr(t, "__tensor_unflatten__"))


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor is a wrapper that can be taken apart with `__tensor_flatten__`."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None,
                       outer_stride: Any = None) -> Any:
    """A wrapper around the transformed tensors of another."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    for name, wanted, got in (("shape", outer_size, made.shape), ("stride", outer_stride, made.stride())):
        if tuple(got) != tuple(wanted):
            raise AssertionError(f"Expected return value from {type(t)}__tensor_unflatten__() to have {name} equal to "
                                 f"{wanted}, but got: {got}")
    return made


def _argument(func: Any, args: tuple, kwargs: dict, at: int) -> Any:
    argument = func._operator.schema.arguments[at]
    return args[at] if at < len(args) else kwargs.get(argument.name)


def return_and_correct_aliasing(func: Any, args: tuple, kwargs: dict | None, out: Any) -> Any:
    """The results as the schema's aliases demand: a written argument itself; a view on its source's storage."""
    schema, kwargs = func._operator.schema, kwargs or {}
    if func.is_view:
        source = _argument(func, args, kwargs, 0)
        for view in tree_flatten(out)[0]:
            if isinstance(view, Tensor) and isinstance(source, Tensor):
                if type(view) is not type(source):
                    raise AssertionError(f"Called {func} with input of type {type(source)}\nand output of type "
                                         f"{type(view)}. But expected types to match.")
                fields_of(view)["_storage"] = source._shared_storage()
        return out
    if "out" in kwargs:
        return kwargs["out"]
    written = [_argument(func, args, kwargs, i) for i, a in enumerate(schema.arguments) if a.writes]
    aliased = [r.alias is not None and "!" in r.alias for r in schema.returns]
    if not any(aliased):
        return out
    flat, spec = tree_flatten(out)
    if len(schema.returns) == 1:
        return written[0]
    remaining = iter(written)
    return tree_unflatten([next(remaining) if is_written else value for is_written, value in
                           zip(aliased, flat, strict=True)], spec)
