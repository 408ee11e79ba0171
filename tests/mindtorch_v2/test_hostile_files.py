"""Files that were made to harm, or were damaged: each is refused with a text that says why, and nothing in it runs."""

import contextlib
import io
import os
import pickle
import random
import re
import struct
import sys
import threading
import warnings
import zipfile
from collections.abc import Iterator

import pytest
from hostile_files import BOMB, CALLED, Generator
from hostile_loader import FORBIDDEN, REFUSALS, Loader
from pickle_assembly import (
    FLOATS,
    HOOKS,
    archive,
    call,
    good_files,
    list_of,
    name,
    nested_tuples,
    number,
    numbers,
    old_format,
    old_parts,
    old_storage,
    pickled,
    storage,
    tensor,
    text,
    tuple_of,
)

import mindtorch_v2 as torch

seen: list[str] = []
watching = [False]


def watch(event: str, args: tuple) -> None:
    if watching[0] and (event in FORBIDDEN or (event == "open" and args[1] not in ("r", "rb", None))):
        if threading.current_thread().name != "mindtorch_v2 compiler":  # which earlier tests may have given work
            seen.append(f"{event} {args}")


sys.addaudithook(watch)


def called(*args: object) -> None:
    """What hostile pickles call where the name of a real weapon would do the same."""
    seen.append("called")


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    """Fails a test in which anything was executed, imported, written or started while a file was loaded."""
    seen.clear()
    yield
    assert seen == []


@contextlib.contextmanager
def watched() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watching[0] = True
        try:
            yield
        finally:
            watching[0] = False


def load(data: bytes, **kwargs: object) -> object:
    with watched():
        return torch.load(io.BytesIO(data), **kwargs)


def saved(value: object, **kwargs: object) -> bytes:
    made = io.BytesIO()
    torch.save(value, made, **kwargs)
    return made.getvalue()


def replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new)


def doubled() -> bytes:
    """A zip file that holds one member twice."""
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w") as file:
        warnings.simplefilter("ignore")
        for member, data in (("data.pkl", b"\x80\x02" + tensor() + b"."), ("version", b"3\n"), ("data/0", FLOATS),
                             ("data/0", FLOATS[::-1])):
            file.writestr(f"archive/{member}", data)
    return made.getvalue()


def directory_edited(data: bytes, member: bytes, field: int, value: bytes) -> bytes:
    """A file whose directory says something else about a member than its header."""
    entry = data.rindex(b"PK\1\2", 0, data.rindex(member))
    return data[: entry + field] + value + data[entry + field + len(value) :]


GOOD = archive()
LEGACY = saved({"a": torch.arange(6.0)}, _use_new_zipfile_serialization=False)
WEAPON = f"{__name__}.called"
torch.load(io.BytesIO(GOOD))  # what the first load of all imports is not to be mistaken for the work of a file


def forbidden(what: str) -> str:
    return f"Unsupported global: GLOBAL {what} was not an allowed global by default"


# name: (bytes, type of the error, what its text holds)
CASES: dict[str, tuple[bytes, type[Exception], str]] = {
    # globals
    "os.system": (archive(call("os.system", text("true"))), pickle.UnpicklingError, "whose module os is blocked"),
    "posix.system": (archive(call("posix.system", text("true"))), pickle.UnpicklingError,
                     "unsupported GLOBAL posix.system whose module posix is blocked"),
    "nt.system": (archive(call("nt.system", text("true"))), pickle.UnpicklingError, "whose module nt is blocked"),
    "sys.exit": (archive(call("sys.exit")), pickle.UnpicklingError, "whose module sys is blocked"),
    "eval": (archive(call("builtins.eval", text("1"))), pickle.UnpicklingError, forbidden("eval")),
    "exec by its old name": (archive(call("__builtin__.exec", text("1"))), pickle.UnpicklingError, forbidden("exec")),
    "getattr": (archive(call("builtins.getattr", name("torch.Tensor"), text("numpy"))), pickle.UnpicklingError,
                forbidden("getattr")),
    "import": (archive(call("builtins.__import__", text("os"))), pickle.UnpicklingError, forbidden("__import__")),
    "open": (archive(call("builtins.open", text("x"), text("w"))), pickle.UnpicklingError, forbidden("open")),
    "subprocess": (archive(call("subprocess.Popen", text("true"))), pickle.UnpicklingError,
                   forbidden("subprocess.Popen")),
    "a function of a loaded module": (archive(call(WEAPON)), pickle.UnpicklingError, forbidden(WEAPON)),
    "functools.partial": (archive(call("functools.partial", name("os.getcwd"))), pickle.UnpicklingError,
                          forbidden("functools.partial")),
    "operator.attrgetter": (archive(call("operator.attrgetter", text("a"))), pickle.UnpicklingError,
                            forbidden("operator.attrgetter")),
    "a dotted name": (archive(b"ctorch\nTensor.__init_subclass__.__globals__\n"), pickle.UnpicklingError,
                      forbidden("torch.Tensor.__init_subclass__.__globals__")),
    "torch.load in torch.load": (archive(call("torch.load", text("x"))), pickle.UnpicklingError,
                                 forbidden("torch.load")),
    "torch.storage._load_from_bytes": (archive(call("torch.storage._load_from_bytes", text("x"))),
                                       pickle.UnpicklingError, forbidden("torch.storage._load_from_bytes")),
    "a module of ours": (archive(name("mindtorch_v2.os")), pickle.UnpicklingError, forbidden("mindtorch_v2.os")),
    "an nn.Module": (saved(torch.nn.Linear(1, 1)), pickle.UnpicklingError,
                     forbidden("torch.nn.modules.linear.Linear")),
    "a global without newline": (archive(b"cos", end=b""), EOFError, "truncated"),
    # opcodes
    "INST": (archive(b"(X\1\0\0\0aios\nsystem\n"), pickle.UnpicklingError, "Unsupported operand 105"),
    "OBJ": (archive(b"(" + name("builtins.set") + b"o"), pickle.UnpicklingError, "Unsupported operand 111"),
    "STACK_GLOBAL": (archive(text("os") + text("system") + b"\x93", protocol=b"\x80\x04"), pickle.UnpicklingError,
                     "Unsupported operand 147"),
    "NEWOBJ_EX": (archive(name("builtins.set") + b")}\x92"), pickle.UnpicklingError, "Unsupported operand 146"),
    "EXT1": (archive(b"\x82\x01"), pickle.UnpicklingError, "Unsupported operand 130"),
    "LONG4": (archive(b"\x8b\xff\xff\xff\x7f"), pickle.UnpicklingError, "Unsupported operand 139"),
    "text opcodes": (archive(b"I1\n"), pickle.UnpicklingError, "Unsupported operand 73"),
    "an unknown opcode": (archive(b"\xff"), pickle.UnpicklingError, "Unsupported operand 255"),
    "REDUCE of a number": (archive(b"K\5)R"), pickle.UnpicklingError, "reduce for unrecognized function 5"),
    "REDUCE of a class": (archive(name("torch.Tensor") + numbers(1 << 50) + b"R"), pickle.UnpicklingError,
                          "reduce for unrecognized function"),
    "REDUCE of a storage class": (archive(name("torch.FloatStorage") + numbers(1 << 50) + b"R"),
                                  pickle.UnpicklingError, "reduce for unrecognized function"),
    "REDUCE of a loaded tensor": (archive(tensor() + b")R"), pickle.UnpicklingError,
                                  "reduce for unrecognized function Tensor"),
    "NEWOBJ of a storage": (archive(name("torch.storage.UntypedStorage") + numbers(1 << 50) + b"\x81"),
                            pickle.UnpicklingError, "new object for unrecognized class UntypedStorage"),
    "BUILD of a dict": (archive(b"}}b"), pickle.UnpicklingError, "Can only build Tensor, Parameter, OrderedDict"),
    "BUILD of a tensor": (archive(tensor() + b"}X\6\0\0\0_array]sb"), pickle.UnpicklingError, "Can only build"),
    "APPEND to a dict": (archive(b"}K\1a"), pickle.UnpicklingError, "Can only append to lists"),
    "APPENDS to a tensor": (archive(tensor() + b"(K\1e"), pickle.UnpicklingError, "Can only extend lists"),
    "SETITEM of a tensor": (archive(tensor() + b"K\1K\2s"), pickle.UnpicklingError, "Can only SETITEM for dict"),
    "SETITEMS with a lone key": (archive(b"}(K\1u"), pickle.UnpicklingError, "The pickle is malformed"),
    "an unhashable key": (archive(b"}]K\2s"), pickle.UnpicklingError, "The pickle is malformed: TypeError"),
    "an empty stack": (archive(b""), pickle.UnpicklingError, "The pickle is malformed: IndexError"),
    "a mark that is not there": (archive(b"K\2e"), pickle.UnpicklingError, "The pickle is malformed: IndexError"),
    "TUPLE3 of too few": (archive(b"K\1\x87"), pickle.UnpicklingError, "The pickle is malformed: IndexError"),
    "a memo that is not there": (archive(b"h\5"), pickle.UnpicklingError, "The pickle is malformed: KeyError"),
    "text that is not UTF-8": (archive(b"X\1\0\0\0\xff"), pickle.UnpicklingError, "malformed: UnicodeDecodeError"),
    "a string that claims 2 GB": (archive(b"X\xff\xff\xff\x7fab"), EOFError, "truncated"),
    "a pickle without end": (archive(b"}", end=b""), EOFError, "truncated"),
    "an empty pickle": (archive(b"", protocol=b"", end=b""), EOFError, "truncated"),
    # what exhausts a machine
    "a key of 2**60 parts": (archive(b"}" + nested_tuples(60, 2) + b"K\1s"), pickle.UnpicklingError,
                             "nested too deeply"),
    "a set item of 2**60 parts": (archive(call("builtins.set", b"](" + nested_tuples(60, 2) + b"e")),
                                  pickle.UnpicklingError, "nested too deeply"),
    "a key nested 200,000 deep": (archive(b"}" + nested_tuples(200_000) + b"K\1s"), pickle.UnpicklingError,
                                  "nested too deeply"),
    "an OrderedDict of such keys": (archive(call("collections.OrderedDict",
                                                 b"](" + nested_tuples(60, 2) + b"K\1\x86e")),
                                    pickle.UnpicklingError, "nested too deeply"),
    "a bytearray of 1 PB": (archive(call("builtins.bytearray", number(1 << 50))), pickle.UnpicklingError,
                            "argument 1 of bytearray must be bytes or a text"),
    "a codec that runs": (archive(call("_codecs.encode", text("a"), text("zlib"))), pickle.UnpicklingError,
                          "argument 2 of encode must be latin1"),
    "a Counter of a text": (archive(call("collections.Counter", text("a" * 9))), pickle.UnpicklingError,
                            "argument 1 of Counter must be a dict"),
    # storages
    "a persistent id that is a number": (archive(b"K\5Q"), RuntimeError, "saved_id must be a tuple, got int"),
    "a persistent id that is a text": (archive(text("a") + b"Q"), pickle.UnpicklingError,
                                       "persistent_load id must be tuple or int, but got <class 'str'>"),
    "a persistent id of a module": (archive(storage(tag=text("module"))), pickle.UnpicklingError,
                                    "Only persistent_load of storage is allowed"),
    "a persistent id of nothing": (archive(b")Q"), RuntimeError, "Unknown typename for persistent_load"),
    "a persistent id that is short": (archive(tuple_of(text("storage")) + b"Q"), RuntimeError, "Unknown typename"),
    "a storage of the class set": (archive(storage("builtins.set")), RuntimeError, "which is none of a storage"),
    "a storage of the class float32": (archive(storage("torch.float32")), RuntimeError, "which is none of a storage"),
    "a storage without bytes": (archive(None, {"data/0": None}), RuntimeError,
                                "failed locating file data/0: file not found"),
    "a storage with too few bytes": (archive(None, {"data/0": FLOATS[:20]}), RuntimeError,
                                     "record size (20 bytes) does not match expected size (24 bytes"),
    "a storage with too many bytes": (archive(None, {"data/0": FLOATS * 2}), RuntimeError,
                                      "record size (48 bytes) does not match expected size (24 bytes"),
    "a storage that claims 8 EB": (archive(tensor(storage(count=number(1 << 61)))), RuntimeError,
                                   "claims a storage of"),
    "a storage that claims 8 GB": (archive(tensor(storage(count=number(1 << 31)))), RuntimeError,
                                   "does not match expected size (8589934592 bytes"),
    "a storage of -1 elements": (archive(tensor(storage(count=number(-1)))), RuntimeError, "no proper key"),
    "a storage of '6' elements": (archive(tensor(storage(count=text("6")))), RuntimeError, "no proper key"),
    "a storage of no place": (archive(tensor(storage(place=b"N"))), RuntimeError, "no proper key"),
    "a storage at an unknown place": (archive(tensor(storage(place=text("moon")))), RuntimeError,
                                      "don't know how to restore data location of torch.storage.UntypedStorage "
                                      "(tagged with moon)"),
    "a storage on a missing device": (archive(tensor(storage(place=text("cuda:0")))), RuntimeError,
                                      "Attempting to deserialize object on a CUDA device"),
    "a key that climbs": (archive(tensor(storage(key=text("../data.pkl")))), RuntimeError,
                          "failed locating file data/../data.pkl"),
    "a key that is a path": (archive(tensor(storage(key=text("/etc/passwd")))), RuntimeError,
                             "failed locating file data//etc/passwd"),
    # tensors
    "a tensor beyond its storage": (archive(tensor(None, number(0), numbers(7))), RuntimeError,
                                    "Trying to resize storage that is not resizable"),
    "an offset beyond the storage": (archive(tensor(None, number(1))), RuntimeError, "not resizable"),
    "strides beyond the storage": (archive(tensor(None, number(0), numbers(2, 3), numbers(4, 1))), RuntimeError,
                                   "needs 28 bytes, and its storage has 24"),
    "a negative offset": (archive(tensor(None, number(-1))), RuntimeError, "Tensor: invalid storage offset -1"),
    "a negative stride": (archive(tensor(None, number(5), numbers(6), numbers(-1))), RuntimeError,
                          "Storage size calculation overflowed with sizes=[6] and strides=[-1]"),
    "a negative size": (archive(tensor(None, number(0), numbers(-6))), RuntimeError,
                        "numel: integer multiplication overflow"),
    "sizes that overflow": (archive(tensor(None, number(0), numbers(1 << 62, 1 << 62), numbers(1, 1))), RuntimeError,
                            "numel: integer multiplication overflow"),
    "sizes that overflow to nothing": (archive(tensor(None, number(0), numbers(0, 1 << 62, 1 << 62),
                                                      numbers(1, 1, 1))), RuntimeError, "multiplication overflow"),
    "strides that overflow": (archive(tensor(None, number(0), numbers(2), numbers(1 << 62))), RuntimeError,
                              "Storage size calculation overflowed"),
    "a size of 71 bits": (archive(tensor(None, number(0), numbers(1 << 70))), RuntimeError,
                          "does not fit into 64 bits"),
    "fewer strides than sizes": (archive(tensor(None, number(0), numbers(2, 3), numbers(1))), RuntimeError,
                                 "unequal size length (2) and stride length (1)"),
    "a size that is a text": (archive(tensor(None, number(0), tuple_of(text("6")))), pickle.UnpicklingError,
                              "must be made of integers"),
    "a tensor on a number": (archive(tensor(number(5))), pickle.UnpicklingError,
                             "argument 1 of _rebuild_tensor_v2 must be a storage, not 5"),
    "a tensor of a wrong type": (archive(tensor(storage("torch.storage.UntypedStorage", count=number(24)), number(0),
                                                numbers(6), numbers(1), name("torch.Tensor"),
                                                function="torch._utils._rebuild_tensor_v3")),
                                 pickle.UnpicklingError, "must be a torch.dtype, not Tensor"),
    "a subclass rebuilt by a weapon": (archive(call("torch._tensor._rebuild_from_type_v2", name("builtins.set"),
                                                    name("torch.Tensor"), b")", b"}")), pickle.UnpicklingError,
                                       "calls only functions that rebuild tensors"),
    "a tensor made a storage": (archive(call("torch._tensor._rebuild_from_type_v2",
                                             name("torch._utils._rebuild_tensor_v2"),
                                             name("torch.storage.UntypedStorage"), b")", b"}")),
                                pickle.UnpicklingError, "makes tensors only"),
    "a wrapper of no class of the user's": (
        archive(call("torch._utils._rebuild_wrapper_subclass", name("torch.nn.parameter.Parameter"),
                     name("torch.float32"), numbers(2), numbers(1), number(0),
                     call("torch.serialization._get_layout", text("torch.strided")),
                     call("torch.device", text("cpu")), b"\x89")), pickle.UnpicklingError,
        "argument 1 of _rebuild_wrapper_subclass must be a tensor class with __torch_dispatch__, not Parameter"),
    "a state that replaces memory": (archive(call("torch._tensor._rebuild_from_type_v2",
                                                  name("torch._utils._rebuild_tensor_v2"), name("torch.Tensor"),
                                                  tuple_of(storage(), number(0), numbers(6), numbers(1), b"\x89",
                                                           HOOKS),
                                                  b"}X\6\0\0\0_arrayK\1s")), pickle.UnpicklingError,
                                     "may not set '_array' of a tensor"),
    "a state that replaces the class": (archive(call("torch._utils._rebuild_parameter_with_state", tensor(), b"\x88",
                                                     HOOKS, b"}X\x09\0\0\0__class__K\1s")), pickle.UnpicklingError,
                                        "may not set '__class__' of a tensor"),
    "metadata that calls a method": (archive(tensor(None, number(0), numbers(6), numbers(1),
                                                    b"}X\5\0\0\0zero_\x88s")), pickle.UnpicklingError,
                                     "must be None or a dict of the flags conj and neg"),
    # the zip file
    "no data.pkl": (archive(None, {"data.pkl": None}), RuntimeError, "failed locating file data.pkl: file not found"),
    "no version": (archive(None, {"version": None}), RuntimeError, 'Expected hasRecord("version") to be true'),
    "version 99": (archive(None, {"version": b"99"}), RuntimeError, "maximum supported version for reading is 10"),
    "version 0": (archive(None, {"version": b"0"}), RuntimeError, "minimum supported version for reading is 1"),
    "version abc": (archive(None, {"version": b"abc"}), RuntimeError, "Couldn't parse the version abc"),
    "a mixed byte order": (archive(None, {"byteorder": b"mixed"}), ValueError, "Unknown endianness type: mixed"),
    "a program": (archive(None, {"constants.pkl": b"\x80\x02)."}), RuntimeError, "Cannot load TorchScript archives"),
    "compressed members": (archive(method=zipfile.ZIP_DEFLATED), RuntimeError, "is compressed"),
    "a zip bomb": (archive(None, {"data/0": bytes(1 << 24)}, method=zipfile.ZIP_DEFLATED), RuntimeError,
                   "is compressed"),
    "a member twice": (doubled(), RuntimeError, "holds data/0 more than once"),
    "members without a folder": (archive(root=""), RuntimeError, "file in archive is not in a subdirectory: data.pkl"),
    "two folders": (replaced(GOOD, b"archive/data/0", b"another/data/0"), RuntimeError,
                    "not in a subdirectory archive/: another/data/0"),
    "a folder that climbs": (archive(root=".."), RuntimeError, "is not a plain path below one folder"),
    "a member that climbs": (archive(None, {"../../x": b"1"}), RuntimeError, "is not a plain path below one folder"),
    "an absolute member": (archive(root="/tmp"), RuntimeError, "is not a plain path below one folder"),
    "backslashes": (replaced(GOOD, b"archive/data/0", b"archive/data\\0"), RuntimeError, "is not a plain path"),
    "a member's size in the directory": (directory_edited(GOOD, b"archive/data/0", 20, struct.pack("<LL", 9999, 9999)),
                                         RuntimeError, "reach into what follows it"),
    "a member's place in the directory": (
        directory_edited(GOOD, b"archive/data/0", 42, struct.pack("<L", GOOD.index(b"archive/data/0") - 29)),
        RuntimeError, "invalid header or archive is corrupted"),
    "members that overlap": (directory_edited(GOOD, b"archive/data/0", 42, struct.pack("<L", 3)), RuntimeError,
                             "reach into what follows it"),
    "a member without a header": (GOOD.replace(b"PK\3\4", b"PK\3\5").replace(b"PK\3\5", b"PK\3\4", 1), RuntimeError,
                                  "invalid header or archive is corrupted"),
    "version ²": (archive(None, {"version": b"\xb2"}), RuntimeError, "Couldn't parse the version"),
    "a header that names another member": (
        GOOD[: GOOD.index(b"archive/data/0")] + b"archive/data/9" + GOOD[GOOD.index(b"archive/data/0") + 14 :],
        RuntimeError, "its header names another file"),
    "an encrypted member": (directory_edited(GOOD, b"archive/data/0", 8, b"\x01\x08"), RuntimeError, "is encrypted"),
    # other files
    "an empty file": (b"", EOFError, "the file is empty"),
    "a text": (b"hello world, this is a text\n", pickle.UnpicklingError, "malformed"),
    "a JSON file": (b'{"a": 1}', pickle.UnpicklingError, "Unsupported operand 123"),
    "a file of zeros": (bytes(1000), pickle.UnpicklingError, "Unsupported operand 0"),
    "an empty zip file": (b"PK\5\6" + bytes(18), pickle.UnpicklingError, "Unsupported operand 80"),
    # the old format
    "a wrong magic number": (old_format(old_storage(), magic=12345), RuntimeError, "Invalid magic number"),
    "a wrong old version": (old_format(old_storage(), version=1002), RuntimeError, "Invalid protocol version: 1002"),
    "os.system in the old format": (old_format(call("os.system", text("true"))), pickle.UnpicklingError, "is blocked"),
    "os.system in place of the magic number": (b"\x80\x02" + call("os.system", text("true")) + b".",
                                               pickle.UnpicklingError, "is blocked"),
    "a module in the old format": (old_format(old_storage(tag="module")), pickle.UnpicklingError,
                                   "Only persistent_load of storage is allowed"),
    "an old storage that claims 1 TB": (old_format(old_storage(1 << 40)), RuntimeError, "it is truncated or damaged"),
    "an old storage of another size": (old_format(old_storage(), data=struct.pack("<q", 5) + FLOATS), RuntimeError,
                                       "has 5 elements, where 6 were announced"),
    "an old storage without bytes": (old_format(old_storage(), data=b""), RuntimeError, "unexpected EOF"),
    "bytes of an unknown storage": (old_format(old_storage(), keys=("1", "2")), RuntimeError,
                                    "that nothing in it refers to"),
    "an old view beyond its storage": (old_format(old_storage(view=tuple_of(text("2"), number(3), number(9)))),
                                       RuntimeError, "lies outside it"),
}  # fmt: skip


CASES |= {
    # few bytes that stand for very many objects, in every place where something could hash, compare or show them
    **{
        f"{function.rpartition('.')[2]} of tuples in tuples": (
            archive(call(function, *[BOMB] * count)),
            pickle.UnpicklingError,
            "The pickle is malformed",
        )
        for function in CALLED
        for count in ((4,) if "from_type" in function or "state" in function else (1,))
    },
    "a call with such arguments": (
        archive(name("torch.Size") + BOMB + b"R"),
        pickle.UnpicklingError,
        "takes 1 to 1 arguments",
    ),
    "a call of tuples in tuples": (archive(BOMB + b")R"), pickle.UnpicklingError, "unrecognized function tuple"),
    "a new object of them": (archive(BOMB + b")\x81"), pickle.UnpicklingError, "unrecognized class tuple"),
    "a state of them": (archive(HOOKS + BOMB + b"b"), pickle.UnpicklingError, "Can only build"),
    "a state named by them": (
        archive(HOOKS + b"}(" + nested_tuples(9, 2) + b"Nub"),
        pickle.UnpicklingError,
        "Can only build",
    ),
    "a persistent id of them": (
        archive(BOMB + b"Q"),
        pickle.UnpicklingError,
        "Only persistent_load of storage is allowed",
    ),
    "a storage's class of them": (
        archive(tuple_of(text("storage"), BOMB, text("0"), text("cpu"), number(6)) + b"Q"),
        RuntimeError,
        "of the class tuple, which is none of a storage",
    ),
    "a storage's key of them": (
        archive(storage(key=BOMB)),
        RuntimeError,
        "no proper key, location or number of elements: tuple",
    ),
    "a storage's place of them": (archive(storage(place=BOMB)), RuntimeError, "no proper key"),
    "a storage's count of them": (archive(storage(count=BOMB)), RuntimeError, "no proper key"),
    "metadata of them": (
        archive(tensor(None, number(0), numbers(6), numbers(1), list_of(BOMB))),
        pickle.UnpicklingError,
        "must be None or a dict of the flags conj and neg",
    ),
    "metadata with other values": (
        archive(tensor(None, number(0), numbers(6), numbers(1), b"}" + text("neg") + BOMB + b"s")),
        pickle.UnpicklingError,
        "must be None or a dict of the flags conj and neg",
    ),
    "a magic number of them": (
        old_parts(b"\x80\x02" + BOMB + b".", b"", b"", b""),
        RuntimeError,
        "Invalid magic number",
    ),
    "an old version of them": (
        old_parts(pickled(0x1950A86A20F9469CFC6C), b"\x80\x02" + BOMB + b".", b"", b""),
        RuntimeError,
        "Invalid protocol version: tuple",
    ),
    "an old key of them": (
        old_format(tuple_of(text("storage"), name("torch.FloatStorage"), BOMB, text("cpu"), number(6), b"N") + b"Q"),
        RuntimeError,
        "no proper key",
    ),
    "an old view of them": (
        old_format(old_storage(view=tuple_of(BOMB, number(0), number(1)))),
        RuntimeError,
        "has no proper name, place or size",
    ),
    "old keys of them": (
        old_parts(
            pickled(0x1950A86A20F9469CFC6C),
            pickled(1001),
            b"\x80\x02" + old_storage() + b".",
            b"\x80\x02" + list_of(BOMB) + b".",
        ),
        RuntimeError,
        "does not say whose bytes follow",
    ),
    # much out of little: one argument for many calls, one hash for many keys, one memory for many places
    **{
        f"many calls of {what}": (
            archive(name(function) + b"q\x01" + tuple_of(argument) + b"q\x02(" + b"h\x01h\x02R" * 5000 + b"t"),
            pickle.UnpicklingError,
            "stand for far more than it holds",
        )
        for what, function, argument in (
            ("a set", "builtins.set", list_of(*map(number, range(2000)))),
            ("an OrderedDict", "collections.OrderedDict", list_of(*(number(n) + b"N\x86" for n in range(2000)))),
            ("a Counter", "collections.Counter", b"}(" + b"".join(number(n) + b"N" for n in range(2000)) + b"u"),
            ("a bytearray", "builtins.bytearray", text("a" * 20_000)),
            ("a size", "torch.Size", numbers(*[1] * 2000)),
        )
    },
    "many states of one dict": (
        archive(
            name("collections.OrderedDict")
            + b"q\x01}("
            + b"".join(text(str(n)) + b"N" for n in range(2000))
            + b"uq\x02("
            + b"h\x01)Rh\x02b" * 5000
            + b"t"
        ),
        pickle.UnpicklingError,
        "far more than it holds",
    ),
    "integers of one hash": (
        archive(b"}(" + b"".join(number(n * ((1 << 61) - 1)) + b"N" for n in range(3000)) + b"u"),
        pickle.UnpicklingError,
        "far more than it holds",
    ),
    "complex numbers of one hash": (
        archive(
            b"}("
            + b"".join(call("builtins.complex", number(-1000003 * n), number(n)) + b"N" for n in range(3000))
            + b"u"
        ),
        pickle.UnpicklingError,
        "far more than",
    ),
    "indices spread over 2**40 places": (
        archive(
            call(
                "torch._utils._rebuild_sparse_tensor",
                call("torch.serialization._get_layout", text("torch.sparse_coo")),
                tuple_of(
                    tensor(
                        storage("torch.LongStorage", count=number(3)), number(0), numbers(1, 1 << 40), numbers(0, 0)
                    ),
                    tensor(storage("torch.LongStorage", count=number(3)), number(0), numbers(1 << 40), numbers(0)),
                    numbers(8),
                ),
            )
        ),
        pickle.UnpicklingError,
        "far more than it holds",
    ),
    "old storages that together exceed the file": (
        old_format(list_of(*(old_storage(60, key=str(n)) for n in range(50)))),
        RuntimeError,
        "it is truncated or damaged",
    ),
    # codecs
    "a bytearray of a codec that imports": (
        archive(call("builtins.bytearray", text("x"), text("idna"))),
        pickle.UnpicklingError,
        "argument 2 of bytearray must be latin1: other codecs are not run",
    ),
    # what is there in PyTorch only
    "a nested tensor": (
        archive(name("torch._utils._rebuild_nested_tensor")),
        RuntimeError,
        "the file holds nested tensors",
    ),
    "a tensor of layout BSR": (
        archive(
            call(
                "torch._utils._rebuild_sparse_tensor",
                call("torch.serialization._get_layout", text("torch.sparse_bsr")),
                tuple_of(tensor(), tensor(), tensor(), numbers(6)),
            )
        ),
        RuntimeError,
        "values must have dimensionality > sum of batch and block dimensionalities",
    ),
    # the old format again
    "an old storage whose bytes are not there": (
        old_format(old_storage(), keys=(), data=b""),
        RuntimeError,
        "does not hold the bytes of the storages ['1']",
    ),
    "an old place that is a number": (
        old_format(tuple_of(text("storage"), name("torch.FloatStorage"), text("1"), number(3), number(6), b"N") + b"Q"),
        RuntimeError,
        "no proper key",
    ),
    "an old view without end": (
        old_format(old_storage(view=tuple_of(text("2"), number(3)))),
        RuntimeError,
        "no proper name, place",
    ),
}


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 60


def test_the_file_that_the_cases_change_is_good() -> None:
    assert load(GOOD).tolist() == [0, 1, 2, 3, 4, 5]
    assert load(LEGACY)["a"].tolist() == [0, 1, 2, 3, 4, 5]
    assert load(old_format(old_storage())).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("case", CASES)
def test_hostile_file_is_refused(case: str) -> None:
    data, kind, expected = CASES[case]
    with pytest.raises(kind, match=re.escape(expected)):
        load(data)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("whole", ["zip", "old"])
def test_truncated_anywhere_says_so(whole: str, weights_only: bool) -> None:
    data = GOOD if whole == "zip" else LEGACY
    for length in range(len(data)):
        with pytest.raises((*REFUSALS, IndexError)) as raised:
            load(data[:length], weights_only=weights_only)
        if weights_only and length > 3:
            assert re.search("truncated|unexpected EOF|the file is empty", str(raised.value)), (length, raised.value)


def test_random_damage_never_runs_anything() -> None:
    rng = random.Random(7)
    for whole in (GOOD, LEGACY, saved({"m": torch.nn.Linear(2, 2).state_dict(), "n": [1, "a", {2, 3}]})):
        for _ in range(400):
            data = bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                load(bytes(data))
            except REFUSALS:
                pass


def test_generated_files_do_no_harm() -> None:
    """Each file is loaded or refused within its time and memory, and runs nothing (see hostile_files.py)."""
    generator = Generator(0, good_files(torch))
    with Loader() as loader:
        complaints = {index: found for index in range(250) if (found := loader.complaint(generator.file(index)[1]))}
    assert complaints == {}


@pytest.mark.parametrize(
    "harm, words",
    [
        ("", None),
        ("runs", 'ran or imported: ["os.system'),
        ("fails", "internal error: AttributeError"),
        ("computes", "took "),
        ("allocates", "needed "),
        ("ends", "ended with status 3"),
        ("waits", "it hangs"),
    ],
)
def test_what_generated_files_must_not_do_is_noticed(harm: str, words: str | None) -> None:
    with Loader() as loader:
        found = loader.complaint(GOOD, harm, patience=5 if harm == "waits" else 60)
        assert found is None if words is None else words in str(found)
        assert loader.complaint(GOOD) is None


def test_get_unsafe_globals_runs_nothing() -> None:
    data = archive(call(WEAPON) + call("os.system", text("true")))
    with watched():
        found = torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
    assert found == sorted(["os.system", WEAPON])


def test_the_check_for_running_would_notice() -> None:
    with watched():
        os.system("true")
        torch.load(io.BytesIO(archive(call(WEAPON))), weights_only=False)
    assert [event.split()[0] for event in seen if event.startswith(("os.system", "called"))] == ["os.system", "called"]
    seen.clear()


def test_user_may_not_unblock_the_operating_system() -> None:
    with torch.serialization.safe_globals([(os.system, "os.system")]), pytest.raises(
        pickle.UnpicklingError, match="is blocked"
    ):
        load(archive(call("os.system", text("true"))))
