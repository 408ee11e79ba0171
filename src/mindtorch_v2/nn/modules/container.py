"""Containers of modules and of parameters."""

import operator
import warnings
from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, islice
from typing import Any, Self, overload

import mindtorch_v2 as torch

from ..parameter import Parameter
from .module import Module, _addindent

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Container(Module):
    """Modules by name; kept for old code."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn("`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. "
                      "Subclass that instead.", FutureWarning, stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


def _checked_index(index: Any, length: int) -> int:
    """The index counted from the front."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return index % length


def _names_without_digits(names: Iterable[str]) -> list[str]:
    """What dir() shows: the numbered children are left out."""
    return [name for name in names if not name.isdigit()]


def _insert(modules: dict[str, Module], index: int, module: Module) -> None:
    """Moves the numbered modules from `index` on up by one and puts the module there."""
    for position in range(len(modules), index, -1):
        modules[str(position)] = modules[str(position - 1)]
    modules[str(index)] = module


def _check_iterable(container: str, entries: Any) -> None:
    if not isinstance(entries, Iterable):
        raise TypeError(f"{container}.update should be called with an iterable of key/value pairs, but got "
                        f"{type(entries).__name__}")


def _pairs(container: str, entries: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The entries, each checked to be a pair."""
    for position, entry in enumerate(entries):
        if not isinstance(entry, Iterable):
            # PyTorch's text has no space there either.
            raise TypeError(
                f"{container} update sequence element #{position} should be Iterable; is{type(entry).__name__}"
            )
        pair = tuple(entry)
        if len(pair) != 2:
            raise ValueError(f"{container} update sequence element #{position} has length {len(pair)}; 2 is required")
        yield pair


class _NumberedModules(Module):
    """What Sequential and ModuleList share: modules in order, named by their positions."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def _name_at(self, index: int) -> str:
        return str(_checked_index(index, len(self)))

    def _part(self, named: list[tuple[str, Module]]) -> Self:
        """A container of the same kind with these modules."""
        raise NotImplementedError

    @overload
    def __getitem__(self, idx: slice) -> Self: ...

    @overload
    def __getitem__(self, idx: int) -> Module: ...

    def __getitem__(self, idx: slice | int) -> Self | Module:
        if isinstance(idx, slice):
            return self._part(list(self._modules.items())[idx])
        return self._modules[self._name_at(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: slice | int) -> None:
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        for name in names:
            delattr(self, name)
        # The rest is numbered anew, so that names keep telling positions.
        self._modules = {str(position): module for position, module in enumerate(self._modules.values())}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return _names_without_digits(super().__dir__())

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Self | Module:
        """Takes out the module at that position, or the modules of a slice."""
        taken = self[key]
        del self[key]
        return taken


class Sequential(_NumberedModules):
    """Modules that run one after another, each on the output of the one before."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for position, module in enumerate(args):
                self.add_module(str(position), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index: int) -> str:
        return next(islice(self._modules, _checked_index(index, len(self)), None))

    def _part(self, named: list[tuple[str, Module]]) -> Self:
        return type(self)(OrderedDict(named))

    def __add__(self, other: Any) -> "Sequential":
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return self.extend(list(other))

    def __mul__(self, other: int) -> "Sequential":
        self._check_factor(other)
        return Sequential(*(module for _ in range(other) for module in self))

    def __rmul__(self, other: int) -> "Sequential":
        return self * other

    def __imul__(self, other: int) -> Self:
        self._check_factor(other)
        modules = list(self)
        for _ in range(other - 1):
            self.extend(modules)
        return self

    @staticmethod
    def _check_factor(factor: Any) -> None:
        if not isinstance(factor, int):
            raise TypeError(
                f"unsupported operand type(s) for *: {Sequential} and {type(factor)}"
            )
        if factor <= 0:
            raise ValueError(f"Non-positive multiplication factor {factor} for {Sequential}")

    def insert(self, index: int, module: Module) -> Self:
        """Adds a module before that position."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        length = len(self)
        if not -length <= index <= length:
            raise IndexError(f"Index out of range: {index}")
        _insert(self._modules, index if index >= 0 else index + length, module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_NumberedModules):
    """A list of modules, registered under their positions."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _part(self, named: list[tuple[str, Module]]) -> Self:
        return type(self)([module for _, module in named])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        """Like every module's, with equal neighbours folded into one line."""
        blocks: list[list[Any]] = []  # first position, last position, text
        for position, text in enumerate(repr(module) for module in self):
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = position
            else:
                blocks.append([position, position, text])
        if not blocks:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in blocks:
            label = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append(_addindent(label + text, 2))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index: int, module: Module) -> None:
        """Adds a module before that position."""
        _insert(self._modules, index, module)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        offset = len(self)
        for position, module in enumerate(modules):
            self.add_module(str(offset + position), module)
        return self


class ModuleDict(Module):
    """A dict of modules, registered under their keys."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Takes out the module of that key."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """The pairs of key and module."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds or replaces modules, from a mapping or from pairs."""
        _check_iterable("ModuleDict", modules)
        if isinstance(modules, (Mapping, ModuleDict)):
            for key, module in modules.items():
                self[key] = module
            return
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _as_parameter(value: Any) -> Any:
    """A plain tensor as a Parameter, anything else as it is."""
    if isinstance(value, torch.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _entry_line(label: Any, value: Any, type_name: Callable[[torch.Tensor], Any]) -> str:
    """The line that shows one entry of a parameter container."""
    if not isinstance(value, torch.Tensor):
        return f"  ({label}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(extent) for extent in value.size())
    place = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"  ({label}): {kind} containing: [{type_name(value)} of size {size}{place}]"


class ParameterList(Module):
    """A list of parameters (plain tensors become parameters; other values are kept as they are)."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _name_at(self, index: int) -> str:
        return str(_checked_index(index, len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(getattr(self, str(position)) for position in range(*idx.indices(len(self))))
        return getattr(self, self._name_at(idx))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, self._name_at(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[position] for position in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return _names_without_digits(super().__dir__())

    def append(self, value: Any) -> Self:
        """Adds a value at the end."""
        position = len(self)
        self._size += 1
        self[position] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, torch.Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        lines = (_entry_line(position, value, lambda tensor: tensor.dtype) for position, value in enumerate(self))
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters (plain tensors become parameters; other values are kept as they are)."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, self._key_to_attr(key), _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> "ParameterDict":
        """A new ParameterDict with the same values."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key: str, default: Any | None = None) -> Any:
        """The value of that key, which becomes `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Removes all values."""
        for key in self._keys.copy():
            del self[key]

    def pop(self, key: str) -> Any:
        """Takes out the value of that key."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Takes out the last pair of key and value."""
        key, _ = self._keys.popitem()
        self._keys[key] = None  # pop removes it together with the attribute
        return key, self.pop(key)

    def get(self, key: str, default: Any | None = None) -> Any:
        """The value of that key, or `default`."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any | None = None) -> "ParameterDict":
        """A new ParameterDict with the same value for all keys."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The pairs of key and value."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds or replaces values, from a mapping or from pairs; a plain dict is taken in the order of its keys."""
        _check_iterable("ParametersDict", parameters)
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            for key, value in parameters.items():
                self[key] = value
        elif isinstance(parameters, Mapping):
            for key, value in sorted(parameters.items()):
                self[key] = value
        else:
            for key, value in _pairs("ParameterDict", parameters):
                self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_entry_line(key, value, torch.typename) for key, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: "ParameterDict") -> "ParameterDict":
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: "ParameterDict") -> "ParameterDict":
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: "ParameterDict") -> Self:
        self.update(other)
        return self
