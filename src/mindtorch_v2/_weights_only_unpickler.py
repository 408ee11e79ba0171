"""An interpreter of the pickle opcodes that checkpoints need, which knows only the globals it was told to trust.

Nothing is imported and no attribute is looked up by a name out of the file: a global is a key of one table. What is
called is one of the functions in `_pickled_calls`, with arguments that were looked at; a state is given only to the
kinds of objects that `BUILD` names.
"""

import struct
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from pickle import UnpicklingError
from types import BuiltinMethodType, MethodType
from typing import Any

from ._compat.old_names import per_channel_affine, per_tensor_affine
from ._compat.tensor_types import TENSOR_TYPES
from ._core import dtype as _dtype
from ._core.device import META
from ._core.storage import TypedStorage, UntypedStorage
from ._core.tensor import Tensor, _rebuild_from_type_v2
from ._files.pickled_calls import CALLS, TENSOR_CALLS, Allowance, shown
from ._files.pickled_names import refuse_absent, torch_name
from .storage import CLASSES

_BLOCKED_MODULES = frozenset(("sys", "os", "posix", "nt"))
_PYTHON_2_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_TAKES_ITEMS = (dict, OrderedDict, Counter)
_TRUNCATED = "Ran out of input: the pickle in the file is truncated"

# what is known by name ------------------------------------------------------------------------------------------------

_CALLABLE = {id(found): call for found, call in CALLS.values()}
_GLOBALS: dict[str, Any] = {
    **{name: found for name, (found, _) in CALLS.items()}, "torch.Tensor": Tensor,
    "torch.storage.TypedStorage": TypedStorage, "torch.storage.UntypedStorage": UntypedStorage,
    **{f"torch.{kind.name}": kind for kind in _dtype.NAMES.values()},
    **{f"torch.{name}": kind for name, kind in TENSOR_TYPES.items()},
    **{str(scheme): scheme for scheme in (per_channel_affine, per_tensor_affine)},
    **{f"{place}.{name}": kind for name, kind in CLASSES.items() for place in ("torch", "torch.cuda", "torch.npu")},
}  # fmt: skip


def _get_allowed_globals() -> dict[str, Any]:
    """What a checkpoint may name without the user's word for it: the name in the file, and what it stands for."""
    if "torch.nn.parameter.Parameter" not in _GLOBALS:
        from .nn.parameter import Parameter  # nn is loaded by those who need it

        _GLOBALS["torch.nn.parameter.Parameter"] = Parameter
    return _GLOBALS


# what the user allows -------------------------------------------------------------------------------------------------

_safe_globals: list[Any] = []


def _add_safe_globals(safe_globals: list[Any]) -> None:
    _safe_globals.extend(entry for entry in safe_globals if entry not in _safe_globals)


def _get_safe_globals() -> list[Any]:
    return list(_safe_globals)


def _clear_safe_globals() -> None:
    _safe_globals.clear()


def _remove_safe_globals(safe_globals: list[Any]) -> None:
    _safe_globals[:] = [entry for entry in _safe_globals if entry not in safe_globals]


class _safe_globals_context:
    """`with safe_globals([...])`: allows globals for a while."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self.before = _get_safe_globals()
        _add_safe_globals(self.safe_globals)

    def __exit__(self, *exc: object) -> None:
        _safe_globals[:] = self.before


def user_allowed_globals() -> dict[str, Any]:
    """What the user allows, by the name that files use; an entry may be (object, name)."""
    found = {}
    for entry in _safe_globals:
        if isinstance(entry, tuple):
            if len(entry) != 2 or not isinstance(entry[1], str):
                raise ValueError(f"Expected tuple of 2 items (global, str), got {entry}")
            found[entry[1]] = entry[0]
        else:
            found[".".join(torch_name(entry))] = entry
    return found


_get_user_allowed_globals = user_allowed_globals

# the interpreter ------------------------------------------------------------------------------------------------------

MALFORMED = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error)


class Unpickler:
    """Reads one pickle from a file that has `read` and `readline`; `persistent_load` answers its persistent ids."""

    def __init__(self, file: Any, *, encoding: str = "bytes") -> None:
        self.file, self.encoding = file, encoding
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.proto = -1
        self.foreign = False
        self.allowance = Allowance()
        self.storages: dict[int, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        raise UnpicklingError("A load persistent id instruction was encountered, but no persistent_load was specified")

    # reading ----------------------------------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise EOFError(_TRUNCATED)
        self.allowance.read += count
        return data

    def line(self) -> str:
        text = self.file.readline()
        if not text.endswith(b"\n"):
            raise EOFError(_TRUNCATED)
        self.allowance.read += len(text)
        return text[:-1].decode()

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def string(self) -> Any:
        data = self.take(self.take(1)[0])
        return data if self.encoding == "bytes" else data.decode(self.encoding, "strict")

    def global_name(self) -> tuple[str, str]:
        """Module, and full name in Python 3, of a global."""
        module, name = self.line(), self.line()
        return module, f"{_PYTHON_2_NAMES.get(module, module)}.{name}"

    def instructions(self) -> Iterator[tuple[bytes, Any]]:
        """The opcodes up to the one that ends the pickle, each with its argument."""
        read, allowance = self.file.read, self.allowance
        while True:
            code = read(1)
            if code == b".":
                return
            if code not in _OPCODES:
                raise UnpicklingError(f"Unsupported operand {code[0]}") if code else EOFError(_TRUNCATED)
            allowance.read += 1
            argument = _OPCODES[code][0]
            yield code, None if argument is None else argument(self)

    def load(self) -> Any:
        """The object that the pickle holds."""
        self.allowed, self.user_allowed = _get_allowed_globals(), user_allowed_globals()
        self.trusted = {id(known) for known in self.user_allowed.values()}
        try:
            for code, argument in self.instructions():
                _OPCODES[code][1](self, argument)
            return self.stack.pop()
        except MALFORMED as error:
            if self.foreign:  # the error of a function that the user gave, not of the file
                raise
            raise UnpicklingError(f"The pickle is malformed: {type(error).__name__}: {error}") from error

    # acting -----------------------------------------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop_mark(self) -> list[Any]:
        """The items since the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def mark(self, _: None) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def find_global(self, named: tuple[str, str]) -> None:
        module, full = named
        if full in self.allowed:
            self.stack.append(self.allowed[full])
        elif module in _BLOCKED_MODULES:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked.")
        elif full in self.user_allowed:
            self.stack.append(self.user_allowed[full])
        else:
            refuse_absent(full)
            shown = full.removeprefix("builtins.")
            raise UnpicklingError(
                f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
                f"`torch.serialization.add_safe_globals([{shown}])` or the "
                f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist this global if you trust "
                "this class/function."
            )

    def call(self, function: Callable, *args: Any) -> Any:
        """The result of a function of the user's."""
        self.foreign = True
        result = function(*args)
        self.foreign = False
        return result

    def reduce(self, _: None) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if id(function) in self.trusted or self.is_trusted_method(function):
            made = self.call(function, *args)
        elif function is _rebuild_from_type_v2:
            made = self.rebuild_from_type(args)
        elif id(function) in _CALLABLE:
            made = _CALLABLE[id(function)](args, self.allowance)
        else:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {shown(function)}")
        self.stack.append(made)

    def is_trusted_method(self, function: Any) -> bool:
        """Whether this is a method that the user allowed: each time one asks for a method it is another object."""
        return type(function) in (MethodType, BuiltinMethodType) and any(
            function == known for known in self.user_allowed.values() if type(known) is type(function))

    def rebuild_from_type(self, args: Any) -> Any:
        """A tensor of a class that the user allowed, or a plain one with attributes."""
        if args.__class__ is not tuple or len(args) != 4 or self.trusted.isdisjoint(map(id, args[:2])):
            return _CALLABLE[id(_rebuild_from_type_v2)](args, self.allowance)
        function, kind, arguments, state = args
        if not isinstance(kind, type) or not issubclass(kind, Tensor):
            raise UnpicklingError(f"_rebuild_from_type_v2 makes tensors only, not {shown(kind)}")
        if id(function) in self.trusted:
            tensor = self.call(function, *arguments)
        elif id(function) in TENSOR_CALLS:
            tensor = TENSOR_CALLS[id(function)](arguments, self.allowance)
        else:
            raise UnpicklingError("_rebuild_from_type_v2 calls only functions that rebuild tensors")
        return self.call(_rebuild_from_type_v2, lambda: tensor, kind, (), state)

    def new_object(self, _: None) -> None:
        args, kind = self.stack.pop(), self.stack.pop()
        if id(kind) in self.trusted:
            self.stack.append(self.call(kind.__new__, kind, *args))
        elif isinstance(kind, type) and id(kind) in _CALLABLE:
            self.stack.append(_CALLABLE[id(kind)](args, self.allowance))
        else:
            raise UnpicklingError(f"Trying to create new object for unrecognized class {shown(kind)}")

    def build(self, _: None) -> None:
        state, instance = self.stack.pop(), self.stack[-1]
        self.allowance.spend_for((state,))
        if id(type(instance)) in self.trusted:
            if hasattr(instance, "__setstate__"):
                self.call(instance.__setstate__, state)
                return
            for attributes in state if isinstance(state, tuple) else (state,):  # those of slots come second
                for name, value in (attributes or {}).items():
                    setattr(instance, name, value)
        elif type(instance) is OrderedDict and type(state) is dict and all(type(name) is str for name in state):
            vars(instance).update(state)
        else:
            raise UnpicklingError("Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                                  f"`add_safe_globals`, but got {type(instance)}")

    def append(self, _: None) -> None:
        item = self.stack.pop()
        _checked_list(self.stack[-1], "append to").append(item)

    def appends(self, _: None) -> None:
        items = self.pop_mark()
        _checked_list(self.stack[-1], "extend").extend(items)

    def set_items(self, items: list[Any], opcode: str) -> None:
        target = self.stack[-1]
        if type(target) not in _TAKES_ITEMS and not (
            isinstance(target, dict) and id(type(target)) in self.trusted
        ):
            raise UnpicklingError(f"Can only {opcode} for dict, collections.OrderedDict, collections.Counter, but got "
                                  f"{type(target)}")
        pairs: Iterator[Any] = iter(items)
        for key, value in zip(pairs, pairs, strict=True):
            target[self.allowance.key(key, id(target))] = value

    def set_item(self, _: None) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value], "SETITEM")

    def tuple_of(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) != count:
            raise IndexError("the stack holds too few items")
        self.stack[-count:] = [items]

    def tuple_since_mark(self, _: None) -> None:
        items = self.pop_mark()
        self.stack.append(tuple(items))

    def persistent_id(self, _: None) -> None:
        pid = self.stack.pop()
        if type(pid) not in (tuple, int):
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        if type(pid) is tuple and pid and not (type(pid[0]) in (str, bytes) and pid[0] in ("storage", b"storage")):
            raise UnpicklingError(f"Only persistent_load of storage is allowed, but got {type(pid[0])}")
        found = self.call(self.persistent_load, pid)
        if id(found) not in self.storages and isinstance(found, TypedStorage) and found.device is not META:
            self.allowance.read += found.nbytes() // 64  # what is done with its elements is done quickly
        self.storages[id(found)] = found
        self.stack.append(found)

    def protocol(self, number: int) -> None:
        if number != 2 and self.proto != number:
            warnings.warn(
                f"Detected pickle protocol {number} in the checkpoint, which was not the default pickle protocol "
                "used by `torch.load` (2). The weights_only Unpickler might not support all instructions implemented "
                "by this protocol, please file an issue for adding support if you encounter this.", stacklevel=3)
        self.proto = number


def _checked_list(target: Any, action: str) -> list:
    if type(target) is not list:
        raise UnpicklingError(f"Can only {action} lists, but got {type(target)}")
    return target


def _byte(self: Unpickler) -> int:
    return self.take(1)[0]


def _word(self: Unpickler) -> int:
    return self.number("<I")


def _pushes(make: Callable[[], Any]) -> tuple[None, Callable[[Unpickler, Any], None]]:
    return None, lambda self, _: self.stack.append(make())


_push = Unpickler.push
# How the argument of each opcode is read, and what is done with it.
_OPCODES: dict[bytes, tuple[Callable[[Unpickler], Any] | None, Callable[[Unpickler, Any], None]]] = {
    b"\x80": (_byte, Unpickler.protocol),
    b"c": (Unpickler.global_name, Unpickler.find_global), b"R": (None, Unpickler.reduce),
    b"\x81": (None, Unpickler.new_object), b"b": (None, Unpickler.build), b"Q": (None, Unpickler.persistent_id),
    b"(": (None, Unpickler.mark), b"a": (None, Unpickler.append), b"e": (None, Unpickler.appends),
    b"s": (None, Unpickler.set_item), b"u": (None, lambda self, _: self.set_items(self.pop_mark(), "SETITEMS")),
    b"t": (None, Unpickler.tuple_since_mark), b"\x85": (None, lambda self, _: self.tuple_of(1)),
    b"\x86": (None, lambda self, _: self.tuple_of(2)), b"\x87": (None, lambda self, _: self.tuple_of(3)),
    b"q": (_byte, Unpickler.put), b"r": (_word, Unpickler.put),
    b"h": (_byte, Unpickler.get), b"j": (_word, Unpickler.get),
    b"N": _pushes(lambda: None), b"\x88": _pushes(lambda: True), b"\x89": _pushes(lambda: False),
    b")": _pushes(tuple), b"]": _pushes(list), b"}": _pushes(dict), b"\x8f": _pushes(set),
    b"K": (_byte, _push), b"M": (lambda self: self.number("<H"), _push), b"J": (lambda self: self.number("<i"), _push),
    b"G": (lambda self: self.number(">d"), _push),
    b"\x8a": (lambda self: int.from_bytes(self.take(self.take(1)[0]), "little", signed=True), _push),
    b"X": (lambda self: self.take(_word(self)).decode("utf-8", "surrogatepass"), _push),
    b"U": (Unpickler.string, _push),
}  # fmt: skip


def load(file: Any, *, encoding: str = "ASCII") -> Any:
    return Unpickler(file, encoding=encoding).load()


def get_globals_in_pkl(file: Any) -> set[str]:
    """The names of all globals in a pickle, found without acting on any of its opcodes."""
    try:
        return {argument[1] for code, argument in Unpickler(file).instructions() if code == b"c"}
    except ValueError as error:
        raise UnpicklingError(f"The pickle is malformed: {error}") from error
