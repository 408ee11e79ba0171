"""Parameters and buffers that are computed from others each time they are read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeVar

import mindtorch_v2 as torch

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]

M = TypeVar("M", bound=Module)

_cache_enabled = 0
_cache: dict[tuple[int, str], torch.Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Context in which each parametrized tensor is computed once, when it is first read."""
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in turn to what is stored: `original`, or `original0` ..."""

    original: torch.Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: torch.Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        stored = self._stored_form(original)
        self.is_tensor = isinstance(stored, torch.Tensor)
        if isinstance(stored, torch.Tensor):
            for what in ("dtype", "device"):
                if getattr(stored, what) != getattr(original, what):
                    raise ValueError(f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                                     f"original.{what}: {getattr(original, what)}\n"
                                     f"right_inverse(original).{what}: {getattr(stored, what)}")
            with torch.no_grad():
                original.set_(stored)  # the same object, which an optimizer may hold already
            _register(self, "original", original)
        else:
            self.ntensors = len(stored)
            for i, part in enumerate(stored):
                if not isinstance(part, torch.Tensor):
                    raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                                     f"Got element {i} of the sequence with type {type(part).__name__}.")
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _register(self, f"original{i}", part.requires_grad_(original.requires_grad))
        if not unsafe:
            result = self()
            _check_is_tensor(result)
            for what, before in (("dtype", dtype), ("shape", shape)):
                if getattr(result, what) != before:
                    raise ValueError(f"Registering a parametrization may not change the {what} of the tensor, unless "
                                     f"`unsafe` flag is enabled.\nunparametrized {what}: {before}\n"
                                     f"parametrized {what}: {getattr(result, what)}")

    def _stored_form(self, original: torch.Tensor) -> Any:
        """What the parametrizations with a `right_inverse` make of the tensor."""
        form: Any = original
        with torch.no_grad():
            for module in reversed(list(self)):
                form = _inverted(module, form)
        if not isinstance(form, (torch.Tensor, Sequence)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                             f"Got {type(form).__name__}")
        return form

    def right_inverse(self, value: torch.Tensor) -> None:
        """Stores what the parametrizations make `value` of."""
        form: Any = value
        with torch.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                form = module.right_inverse(form)
            if self.is_tensor:
                if not isinstance(form, torch.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(form).__name__}")
                self._store("original", form, "The tensor")
                return
            if not isinstance(form, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(form).__name__}.")
            if len(form) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a "
                                 f"sequence of length {len(form)}.")
            for i, part in enumerate(form):
                if not isinstance(part, torch.Tensor):
                    raise ValueError("'right_inverse' must return a sequence of tensors or reference-type opaques. Got "
                                     f"element {i} of type {type(part).__name__}.")
                self._store(f"original{i}", part, f"Tensor {i}")

    def _store(self, name: str, value: torch.Tensor, called: str) -> None:
        original = getattr(self, name)
        if value.dtype != original.dtype:
            raise ValueError(f"{called} returned by `right_inverse` has dtype {value.dtype} while `{name}` has dtype "
                             f"{original.dtype}")
        original.set_(value)

    def forward(self) -> torch.Tensor:
        """The parametrized tensor."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        first, *others = self
        value = first(*(getattr(self, name) for name in names))
        for parametrization in others:
            value = parametrization(value)
        return value


def register_parametrization(module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> M:
    """The module, whose parameter or buffer of that name is from now on computed by `parametrization`."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_keeps_type(module, tensor_name, parametrization)
        parametrizations = module.parametrizations[tensor_name]
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        listed = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _computed(tensor_name))
        module.parametrizations[tensor_name] = listed
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    return module


def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:
    """The module with a plain tensor of that name: the computed one, or the one that was stored."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if not parametrizations.is_tensor and not leave_parametrized:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
                         "terms of a sequence of tensors.")
    if parametrizations.is_tensor:
        tensor = parametrizations.original
        if leave_parametrized:
            with torch.no_grad():
                tensor.set_(getattr(module, tensor_name))
    else:
        value = getattr(module, tensor_name)
        tensor = Parameter(value) if value.requires_grad else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]  # type: ignore[assignment]
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrizations, of that tensor or of any."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def type_before_parametrizations(module: Module) -> type:
    """The class the module had when it was made."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: M, tensor_name: str | None = None) -> M:
    """`to_module` with the parametrizations of `from_module`, of one tensor or of all, and their originals."""
    if not is_parametrized(from_module):
        return to_module
    for name in [tensor_name] if tensor_name is not None else list(from_module.parametrizations):
        given = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, given.original if given.is_tensor else Parameter(getattr(from_module, name)))
        for parametrization in given:
            register_parametrization(to_module, name, parametrization)
        taken = to_module.parametrizations[name]
        for original in given._parameters.keys() | given._buffers.keys():
            setattr(taken, original, getattr(given, original))
    return to_module


def _register(module: Module, name: str, tensor: torch.Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _inverted(module: Module, value: Any) -> Any:
    """What the module's `right_inverse` gives, or the value where it has none."""
    if not hasattr(module, "right_inverse"):
        return value
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def _check_is_tensor(result: Any) -> None:
    if not isinstance(result, torch.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")


def _differences(before: torch.Tensor, after: torch.Tensor) -> Iterator[tuple[str, Any, Any]]:
    """What two tensors differ in, of dtype and shape."""
    for what in ("dtype", "shape"):
        was, became = getattr(before, what), getattr(after, what)
        if was != became:
            yield what, was, became


def _check_keeps_type(module: Module, name: str, parametrization: Module) -> None:
    """Raises unless the parametrization, and its inverse, keep dtype and shape of a tensor parametrized already."""
    before = getattr(module, name)
    result = parametrization(before)
    _check_is_tensor(result)
    for what, was, became in _differences(before, result):
        raise ValueError(f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` "
                         f"flag is enabled.\nmodule.{name}.{what}: {was}\nparametrization(module.{name}).{what}: "
                         f"{became}")
    inverse = _inverted(parametrization, result)
    if not isinstance(inverse, torch.Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}")
    for what, was, became in _differences(before, inverse):
        raise ValueError(f"The tensor returned by parametrization.right_inverse must have the same {what} as "
                         f"module.{name}, unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {was}\n"
                         f"returned {what}: {became}")


def _refuse_pickling(self: Module) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(). See:\n"
                       "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
                       "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training")


def _copied(self: Module, memo: dict[int, Any]) -> Module:
    """A deep copy, made without pickling."""
    copy = memo[id(self)] = type(self).__new__(type(self))
    copy.__dict__.update(deepcopy(self.__dict__, memo))
    return copy


def _give_own_class(module: Module) -> None:
    """Makes the module the only instance of a subclass of its class, to which properties can be added."""
    cls = type(module)
    members: dict[str, Any] = {"__getstate__": _refuse_pickling, "__module__": __name__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _copied
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)  # type: ignore[assignment]


def _computed(name: str) -> property:
    """The property that computes a module's parametrized tensor and, when it is assigned to, stores its inverse."""

    def value(module: Module) -> torch.Tensor:
        parametrization = module.parametrizations[name]
        if not _cache_enabled:
            return parametrization()
        key = (id(module), name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def store(module: Module, given: torch.Tensor) -> None:
        module.parametrizations[name].right_inverse(given)

    return property(value, store)
