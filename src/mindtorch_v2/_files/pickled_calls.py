"""What a pickle of weights may call, with the arguments that each call takes: nothing is called with any others.

A pickle is made of parts that can be shared, so a few bytes of it can stand for very many objects. Therefore types are
compared exactly, no part is hashed, compared or shown before it was measured, and what calls and keys cost is paid out
of an allowance that grows with the bytes read.
"""

import codecs
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pickle import UnpicklingError
from types import BuiltinMethodType, MethodType
from typing import Any

from .. import _utils
from .._core import device as _device
from .._core.device import Size, device, layout
from .._core.dtype import dtype
from .._core.storage import TypedStorage, UntypedStorage
from .._core.tensor import Tensor, _rebuild_from_type_v2, set_state
from .._dispatch.keys import TORCH_DISPATCH_MASK

_FREE, _PER_BYTE = 100_000, 4  # what a pickle may cost at all, and for each of its bytes; honest ones need less than 1
_DEEPEST = 100  # how deeply the tuples of a key may be nested: Python hashes and compares them recursively
_PRIME = (1 << 61) - 1  # integers below it have hashes of their own
_SIZED = frozenset((tuple, list, dict, set, OrderedDict, Counter, Size))


class Allowance:
    """How much work the bytes of a pickle that were read so far have paid for."""

    def __init__(self) -> None:
        self.read = 0
        self.spent = 0
        self.hashes: dict[tuple[int, int], int] = {}

    def spend(self, units: int) -> None:
        """Pays for looking at or copying so many items."""
        self.spent += units
        if self.spent > _FREE + _PER_BYTE * self.read:
            raise UnpicklingError(
                "The pickle is malformed: its parts are shared or nested too deeply, and stand for far "
                "more than it holds"
            )

    def spend_for(self, arguments: Iterable[Any]) -> None:
        """Pays for a call that goes through its arguments, and through the items of those that are tuples."""
        for argument in arguments:
            kind = argument.__class__
            if kind in _SIZED:
                self.spend(1 + len(argument))
                if kind is tuple:
                    self.spend(sum(len(item) for item in argument if item.__class__ in _SIZED))
            elif kind is str or kind is bytes or kind is bytearray:
                self.spend(1 + len(argument) // 16)

    def key(self, key: Any, owner: int) -> Any:
        """A key that is safe to put into the dict or set whose id is `owner`."""
        kind = key.__class__
        if kind is str or (kind is int and -_PRIME < key < _PRIME):
            return key
        if kind is tuple or kind is Size:
            self.spend(self._parts(key))
        elif kind is not int and kind is not complex:
            return key
        place = owner, hash(key)  # these hashes are no secret: keys can be made to collide
        earlier = self.hashes.get(place, 0)
        self.hashes[place] = earlier + 1
        self.spend(earlier)
        return key

    def _parts(self, key: tuple) -> int:
        pending, seen = [iter(key)], 0
        while pending:
            for part in pending[-1]:
                seen += 1
                if seen % 1000 == 0:
                    self.spend(1000)
                if part.__class__ is tuple:
                    if len(pending) > _DEEPEST:
                        raise UnpicklingError("The pickle is malformed: a key of a dict or set is nested too deeply")
                    pending.append(iter(part))
                    break
            else:
                pending.pop()
        return seen % 1000


def shown(value: Any) -> str:
    """A value out of a pickle in an error's text: short, whatever it is."""
    kind = value.__class__
    if kind is int:
        return str(value) if abs(value) < 1 << 80 else "a large integer"
    if value is None or kind in (str, bytes, bool, float):
        text = repr(value)
        return text if len(text) <= 100 else f"{text[:100]}..."
    if kind in (MethodType, BuiltinMethodType) and isinstance(value.__self__, type):
        return f"{value.__name__} of {value.__self__}"
    return value.__name__ if isinstance(value, type) else kind.__name__


# kinds of arguments ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of argument: how it is described, and what tells whether a value is one."""

    words: str
    holds: Callable[[Any], bool]


def _is_state(value: Any) -> bool:
    return value is None or (value.__class__ in (dict, OrderedDict) and all(key.__class__ is str for key in value))


def _is_metadata(value: Any) -> bool:
    return value is None or (
        value.__class__ is dict
        and all(
            key.__class__ is str and key in ("conj", "neg") and flag.__class__ is bool for key, flag in value.items()
        )
    )


def _are_pairs(value: Any) -> bool:
    return value.__class__ in (list, tuple) and all(
        pair.__class__ in (list, tuple) and len(pair) == 2 for pair in value
    )


ANYTHING = Kind("anything", lambda value: True)
INTEGER = Kind("an integer", lambda value: value.__class__ is int)
INTEGERS = Kind(
    "made of integers",
    lambda value: value.__class__ in (tuple, list, Size) and all(item.__class__ is int for item in value),
)
NUMBER = Kind("a number", lambda value: value.__class__ in (int, float))
FLAG = Kind("True or False", lambda value: value.__class__ is bool or (value.__class__ is int and value in (0, 1)))
TEXT = Kind("a text", lambda value: value.__class__ is str)
LATIN = Kind(
    "latin1: other codecs are not run", lambda value: value.__class__ is str and value in ("latin1", "latin-1")
)
CONTENT = Kind("bytes or a text", lambda value: value.__class__ in (bytes, bytearray, str))
ITEMS = Kind("a list", lambda value: value.__class__ in (list, tuple))
PAIRS = Kind("a list of pairs", _are_pairs)
DICT = Kind("a dict", lambda value: value.__class__ is dict)
STORAGE = Kind("a storage", lambda value: isinstance(value, (TypedStorage, UntypedStorage)))
TENSOR = Kind("a tensor", lambda value: isinstance(value, Tensor))
DTYPE = Kind("a torch.dtype", lambda value: value.__class__ is dtype)
WRAPPER = Kind(
    "a tensor class with __torch_dispatch__",
    lambda value: isinstance(value, type) and issubclass(value, Tensor) and value._keys & TORCH_DISPATCH_MASK != 0,
)
DEVICE = Kind("a torch.device", lambda value: value.__class__ is device)
LAYOUT = Kind("a layout", lambda value: value.__class__ is layout)
TUPLE = Kind("a tuple", lambda value: value.__class__ is tuple)
METADATA = Kind("None or a dict of the flags conj and neg", _is_metadata)
STATE = Kind(
    "a dict of attributes, or two",
    lambda value: _is_state(value) or (value.__class__ is tuple and all(map(_is_state, value))),
)


@dataclass(frozen=True)
class Call:
    """A function that pickles call by a name, and the kinds of its arguments; the last ones may be left out."""

    name: str
    function: Callable
    kinds: tuple[Kind, ...]
    least: int
    pays: bool = False  # whether the function is handed the allowance, before its arguments

    def __call__(self, arguments: Any, allowance: Allowance) -> Any:
        if arguments.__class__ is not tuple or not self.least <= len(arguments) <= len(self.kinds):
            raise UnpicklingError(
                f"The pickle is malformed: {self.name} takes {self.least} to {len(self.kinds)} "
                "arguments, and got others"
            )
        allowance.spend_for(arguments)
        for number, (kind, argument) in enumerate(zip(self.kinds, arguments, strict=False), 1):
            if not kind.holds(argument):
                raise UnpicklingError(
                    f"The pickle is malformed: argument {number} of {self.name} must be {kind.words}, "
                    f"not {shown(argument)}"
                )
        return self.function(allowance, *arguments) if self.pays else self.function(*arguments)


# the functions --------------------------------------------------------------------------------------------------------


def _encode(text: str, encoding: str) -> bytes:
    """How protocol 2 writes bytes."""
    return text.encode("latin1")


def _bytearray(content: bytes | str = b"", encoding: str = "latin1") -> bytearray:
    return bytearray(content, "latin1") if isinstance(content, str) else bytearray(content)


def _set(allowance: Allowance, items: list | tuple = ()) -> set:
    made: set = set()
    for item in items:
        made.add(allowance.key(item, id(made)))
    return made


def _filled(made: Any, allowance: Allowance, pairs: Iterable[Any]) -> Any:
    for key, value in pairs:
        made[allowance.key(key, id(made))] = value
    return made


def _ordered_dict(allowance: Allowance, pairs: list | tuple = ()) -> OrderedDict:
    return _filled(OrderedDict(), allowance, pairs)


def _counter(allowance: Allowance, counts: dict[Any, Any] | None = None) -> Counter:
    return _filled(Counter(), allowance, counts.items() if counts else ())


def _rebuild_sparse_tensor(allowance: Allowance, kind: layout, data: tuple) -> Tensor:
    for part in data:
        if isinstance(part, Tensor) and part.dtype.category == 1:  # indices, of which each is looked at
            allowance.spend(part.numel() // 16)
    return _utils._rebuild_sparse_tensor(kind, data)


def _get_layout(name: str) -> layout:
    """The layout that files name, torch.strided and so on."""
    found = getattr(_device, str(name).removeprefix("torch."), None)
    if not isinstance(found, layout):
        raise ValueError(f"{name!r} is not a layout")
    return found


_get_layout.__module__ = f"{__package__.partition('.')[0]}.serialization"  # where files name it


def _call(
    stands_for: Any, kinds: tuple[Kind, ...], least: int, function: Callable | None = None, pays: bool = False
) -> tuple[Any, Call]:
    """What a name in a pickle stands for, and what calling it does."""
    return stands_for, Call(stands_for.__name__, function or stands_for, kinds, least, pays)


_ON_STORAGE = (STORAGE, INTEGER, INTEGERS, INTEGERS)
_TENSORS = {f"torch._utils.{entry[0].__name__}": entry for entry in (
    _call(_utils._rebuild_tensor, _ON_STORAGE, 4),
    _call(_utils._rebuild_tensor_v2, (*_ON_STORAGE, FLAG, ANYTHING, METADATA), 6),
    _call(_utils._rebuild_tensor_v3, (*_ON_STORAGE, FLAG, ANYTHING, DTYPE, METADATA), 7),
    _call(_utils._rebuild_qtensor, (*_ON_STORAGE, TUPLE, FLAG, ANYTHING), 7),
    _call(_utils._rebuild_parameter, (TENSOR, FLAG, ANYTHING), 3),
    _call(_utils._rebuild_parameter_with_state, (TENSOR, FLAG, ANYTHING, STATE), 4),
    _call(_utils._rebuild_meta_tensor_no_storage, (DTYPE, INTEGERS, INTEGERS, FLAG), 4),
    _call(_utils._rebuild_wrapper_subclass, (WRAPPER, DTYPE, INTEGERS, INTEGERS, INTEGER, LAYOUT, DEVICE, FLAG), 8),
    _call(_utils._rebuild_sparse_tensor, (LAYOUT, TUPLE), 2, _rebuild_sparse_tensor, True),
)}  # fmt: skip
TENSOR_CALLS: dict[int, Call] = {id(function): call for function, call in _TENSORS.values()}


def _rebuild_from_type(allowance: Allowance, function: Any, kind: Any, arguments: tuple, state: Any) -> Any:
    """A plain tensor or parameter with attributes; subclasses are the user's, and so are not made here."""
    call = TENSOR_CALLS.get(id(function))
    if call is None:
        raise UnpicklingError("_rebuild_from_type_v2 calls only functions that rebuild tensors")
    if kind is not Tensor:
        raise UnpicklingError(f"_rebuild_from_type_v2 makes tensors only, not {shown(kind)}")
    return set_state(call(arguments, allowance), state)


CALLS: dict[str, tuple[Any, Call]] = {
    **_TENSORS,
    "torch._tensor._rebuild_from_type_v2": _call(_rebuild_from_type_v2, (ANYTHING, ANYTHING, TUPLE, STATE), 4,
                                                 _rebuild_from_type, True),
    "collections.OrderedDict": _call(OrderedDict, (PAIRS,), 0, _ordered_dict, True),
    "collections.Counter": _call(Counter, (DICT,), 0, _counter, True),
    "builtins.set": _call(set, (ITEMS,), 0, _set, True),
    "builtins.bytearray": _call(bytearray, (CONTENT, LATIN), 0, _bytearray),
    "builtins.complex": _call(complex, (NUMBER, NUMBER), 1),
    "_codecs.encode": _call(codecs.encode, (TEXT, LATIN), 2, _encode),
    "torch.Size": _call(Size, (INTEGERS,), 1),
    "torch.device": _call(device, (TEXT, INTEGER), 1),
    "torch.serialization._get_layout": _call(_get_layout, (TEXT,), 1),
}  # fmt: skip
