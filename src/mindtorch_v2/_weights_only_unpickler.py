"""An interpreter of the pickle opcodes that checkpoints need, which knows only the globals it was told to trust.

Nothing is imported and no attribute is looked up by a name out of the file: a global is a key of one table. What is
called is one of that table's functions; a state is given only to the kinds of objects that `BUILD` names.
"""

import pickletools
import struct
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from pickle import UnpicklingError
from typing import Any

from ._device import Size, device, layout
from ._dtype import ALL
from ._legacy import TENSOR_TYPES
from ._pickled_names import torch_name
from ._storage import TypedStorage, UntypedStorage
from ._tensor import Tensor, _rebuild_from_type_v2
from ._utils import (
    _rebuild_meta_tensor_no_storage,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
    _rebuild_sparse_tensor,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
)
from .storage import CLASSES

_BLOCKED_MODULES = frozenset(("sys", "os", "posix", "nt"))
_PYTHON_2_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_LARGEST_KEY = 10_000  # parts of a dict's key; a tuple of tuples can stand for exponentially many
_TAKES_ITEMS = (dict, OrderedDict, Counter)

# what may be called ---------------------------------------------------------------------------------------------------


def _checked_key(key: Any) -> Any:
    """A key that is safe to hash: hashing nested tuples is recursive and visits shared parts again and again."""
    if key.__class__ is tuple:
        pending, seen = [iter(key)], 0
        while pending:
            for part in pending[-1]:
                seen += 1
                if seen > _LARGEST_KEY or len(pending) > 100:
                    raise UnpicklingError("a key of a dict or set is nested too deeply")
                if part.__class__ is tuple:
                    pending.append(iter(part))
                    break
            else:
                pending.pop()
    return key


def _encode(text: str, encoding: str) -> bytes:
    """How protocol 2 writes bytes."""
    if encoding != "latin1":
        raise UnpicklingError(f"_codecs.encode is allowed with latin1 only, not with {encoding!r}")
    return text.encode("latin1")


def _bytearray(content: bytes | str = b"", encoding: str = "latin-1") -> bytearray:
    return bytearray(content, encoding) if isinstance(content, str) else bytearray(memoryview(content))


def _set(items: list | tuple = ()) -> set:
    return {_checked_key(item) for item in items}


def _ordered_dict(pairs: list | tuple = ()) -> OrderedDict:
    return OrderedDict((_checked_key(key), value) for key, value in pairs)


def _counter(counts: dict | None = None) -> Counter:
    if counts is not None and not isinstance(counts, dict):
        raise UnpicklingError(f"collections.Counter is made of a dict, not of {type(counts).__name__}")
    return Counter(counts)


def _rebuild_from_type(func: Callable, new_type: type, args: tuple, state: Any) -> Any:
    allowed = user_allowed_globals().values()
    if func not in _REBUILDING and func not in allowed:
        raise UnpicklingError("_rebuild_from_type_v2 calls only functions that rebuild tensors")
    if not (isinstance(new_type, type) and issubclass(new_type, Tensor)):
        raise UnpicklingError("_rebuild_from_type_v2 makes tensors only")
    return _rebuild_from_type_v2(func, new_type, args, state)


def _get_layout(name: str) -> layout:
    from .serialization import _get_layout

    return _get_layout(name)


_REBUILDING = (_rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter,
               _rebuild_parameter_with_state, _rebuild_meta_tensor_no_storage, _rebuild_sparse_tensor)
_CALLABLE: dict[str, Callable] = {
    "collections.OrderedDict": _ordered_dict, "collections.Counter": _counter, "_codecs.encode": _encode,
    "builtins.bytearray": _bytearray, "builtins.set": _set, "builtins.complex": complex,
    "torch.Size": Size, "torch.device": device, "torch.serialization._get_layout": _get_layout,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    **{f"torch._utils.{function.__name__}": function for function in _REBUILDING},
}  # fmt: skip
_GLOBALS: dict[str, Any] = {
    **_CALLABLE, "torch.Tensor": Tensor, "torch.storage.TypedStorage": TypedStorage,
    "torch.storage.UntypedStorage": UntypedStorage, **{f"torch.{kind.name}": kind for kind in ALL},
    **{f"torch.{name}": kind for name, kind in TENSOR_TYPES.items()},
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

    def persistent_load(self, pid: Any) -> Any:
        raise UnpicklingError("A load persistent id instruction was encountered, but no persistent_load was specified")

    def take(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise EOFError("Ran out of input: the pickle in the file is truncated")
        return data

    def line(self) -> str:
        text = self.file.readline()
        if not text.endswith(b"\n"):
            raise EOFError("Ran out of input: the pickle in the file is truncated")
        return text[:-1].decode()

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def load(self) -> Any:
        """The object that the pickle holds."""
        steps, read = _STEPS, self.file.read
        self.allowed, self.user_allowed = _get_allowed_globals(), user_allowed_globals()
        self.trusted = {id(known) for known in self.user_allowed.values()}
        self.callable = self.trusted | {id(known) for known in _CALLABLE.values()}
        try:
            while True:
                code = read(1)
                if not code:
                    raise EOFError("Ran out of input: the pickle in the file is truncated")
                if code == b".":
                    return self.stack.pop()
                step = steps.get(code)
                if step is None:
                    raise UnpicklingError(f"Unsupported operand {code[0]}")
                step(self)
        except MALFORMED as error:
            if self.foreign:  # the error of a function that the user gave, not of the file
                raise
            raise UnpicklingError(f"The pickle is malformed: {type(error).__name__}: {error}") from error

    def pop_mark(self) -> list[Any]:
        """The items since the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def find_global(self) -> None:
        module, name = self.line(), self.line()
        full = f"{_PYTHON_2_NAMES.get(module, module)}.{name}"
        if full in self.allowed:
            self.stack.append(self.allowed[full])
        elif module in _BLOCKED_MODULES:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked.")
        elif full in self.user_allowed:
            self.stack.append(self.user_allowed[full])
        else:
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

    def reduce(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if id(function) not in self.callable:
            shown = function if isinstance(function, (int, str, type)) else type(function).__name__
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {shown}")
        self.stack.append(self.call(function, *args) if id(function) in self.trusted else function(*args))

    def new_object(self) -> None:
        args, kind = self.stack.pop(), self.stack.pop()
        if id(kind) in self.trusted:
            self.stack.append(self.call(kind.__new__, kind, *args))
        elif id(kind) in self.callable:
            self.stack.append(kind(*args))
        else:
            shown = kind.__name__ if isinstance(kind, type) else type(kind).__name__
            raise UnpicklingError(f"Trying to create new object for unrecognized class {shown}")

    def build(self) -> None:
        state, instance = self.stack.pop(), self.stack[-1]
        if type(instance) is OrderedDict:
            vars(instance).update(state)
        elif id(type(instance)) in self.trusted:
            if hasattr(instance, "__setstate__"):
                self.call(instance.__setstate__, state)
                return
            for attributes in state if isinstance(state, tuple) else (state,):  # those of slots come second
                for name, value in (attributes or {}).items():
                    setattr(instance, name, value)
        else:
            raise UnpicklingError("Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                                  f"`add_safe_globals`, but got {type(instance)}")

    def append(self) -> None:
        item = self.stack.pop()
        _checked_list(self.stack[-1], "append to").append(item)

    def appends(self) -> None:
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
            target[_checked_key(key)] = value

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value], "SETITEM")

    def tuple_of(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) != count:
            raise IndexError("the stack holds too few items")
        self.stack[-count:] = [items]

    def mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def persistent_id(self) -> None:
        pid = self.stack.pop()
        if type(pid) not in (tuple, int):
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        if type(pid) is tuple and pid and pid[0] != "storage":
            raise UnpicklingError(f"Only persistent_load of storage is allowed, but got {type(pid[0])}")
        self.stack.append(self.call(self.persistent_load, pid))

    def string(self) -> None:
        data = self.take(self.take(1)[0])
        self.stack.append(data if self.encoding == "bytes" else data.decode(self.encoding, "strict"))

    def protocol(self) -> None:
        self.proto = self.take(1)[0]
        if self.proto != 2:
            warnings.warn(
                f"Detected pickle protocol {self.proto} in the checkpoint, which was not the default pickle protocol "
                "used by `torch.load` (2). The weights_only Unpickler might not support all instructions implemented "
                "by this protocol, please file an issue for adding support if you encounter this.", stacklevel=3)


def _checked_list(target: Any, action: str) -> list:
    if type(target) is not list:
        raise UnpicklingError(f"Can only {action} lists, but got {type(target)}")
    return target


def _pushes(value: Callable[[Unpickler], Any]) -> Callable[[Unpickler], None]:
    def step(self: Unpickler) -> None:
        made = value(self)  # first, since the end of a mark brings back another stack
        self.stack.append(made)

    return step


_STEPS: dict[bytes, Callable[[Unpickler], None]] = {
    b"\x80": Unpickler.protocol,
    b"c": Unpickler.find_global, b"R": Unpickler.reduce, b"\x81": Unpickler.new_object, b"b": Unpickler.build,
    b"Q": Unpickler.persistent_id, b"(": Unpickler.mark,
    b"a": Unpickler.append, b"e": Unpickler.appends, b"s": Unpickler.set_item,
    b"u": lambda self: self.set_items(self.pop_mark(), "SETITEMS"),
    b"t": _pushes(lambda self: tuple(self.pop_mark())),
    b"\x85": lambda self: self.tuple_of(1), b"\x86": lambda self: self.tuple_of(2),
    b"\x87": lambda self: self.tuple_of(3),
    b"q": lambda self: self.put(self.take(1)[0]), b"r": lambda self: self.put(self.number("<I")),
    b"h": _pushes(lambda self: self.memo[self.take(1)[0]]), b"j": _pushes(lambda self: self.memo[self.number("<I")]),
    b"N": _pushes(lambda self: None), b"\x88": _pushes(lambda self: True), b"\x89": _pushes(lambda self: False),
    b")": _pushes(lambda self: ()), b"]": _pushes(lambda self: []), b"}": _pushes(lambda self: {}),
    b"\x8f": _pushes(lambda self: set()),
    b"K": _pushes(lambda self: self.take(1)[0]), b"M": _pushes(lambda self: self.number("<H")),
    b"J": _pushes(lambda self: self.number("<i")), b"G": _pushes(lambda self: self.number(">d")),
    b"\x8a": _pushes(lambda self: int.from_bytes(self.take(self.take(1)[0]), "little", signed=True)),
    b"X": _pushes(lambda self: self.take(self.number("<I")).decode("utf-8", "surrogatepass")), b"U": Unpickler.string,
}  # fmt: skip


def load(file: Any, *, encoding: str = "ASCII") -> Any:
    return Unpickler(file, encoding=encoding).load()


def get_globals_in_pkl(file: Any) -> set[str]:
    """The names of all globals in a pickle, found without acting on any of its opcodes."""
    found = set()
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "GLOBAL":
                module, name = str(argument).split(" ", 1)
                found.add(f"{_PYTHON_2_NAMES.get(module, module)}.{name}")
            elif opcode.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
                raise UnpicklingError(f"Unsupported operand {ord(opcode.code)}")
    except (ValueError, IndexError) as error:
        raise UnpicklingError(f"The pickle is malformed: {error}") from error
    return found
