"""Devices, layouts, memory formats and shapes."""

import math
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from .planning import planners, refuse_in_plans

DEVICE_TYPES = ["cpu", "cuda", "npu", "meta"]
# PyTorch's other device types parse, so that a program may ask about them; nothing runs there.
_FOREIGN_TYPES = ("mps", "xpu", "hpu", "xla", "vulkan", "mtia", "privateuseone", "ipu", "lazy")


_renamed: dict[str, str] = {}


def rename_device_type(name: str, new: str) -> None:
    """From now on a device that is asked for by one name is of another type."""
    _renamed[name] = new


class device:
    """Where a tensor's memory is. Also a context manager that sets the default device."""

    __slots__ = ("_previous", "index", "type")
    type: str
    index: int | None

    def __new__(cls, type: Any = None, index: int | None = None) -> "device":  # noqa: A002
        if isinstance(type, device):
            return type
        if isinstance(type, (int, np.integer)) and not isinstance(type, bool) and index is None:
            type = int(type)  # noqa: A001
            if not -(2**63) <= type < 2**63:
                raise ValueError("Overflow when unpacking long long")
            type, index = _accelerator() if type >= 0 else "cuda", type  # noqa: A001
        if isinstance(type, bytes):
            type = type.decode(errors="replace")  # noqa: A001
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' (position 1) must be str, not {type.__class__.__name__}")
        if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}")
        if index is not None and not -(2**63) <= index < 2**63:
            raise ValueError("Overflow when unpacking long long")
        if index is not None and index < 0:
            raise RuntimeError("Device index must not be negative")
        name, colon, number = type.partition(":")
        if _renamed:
            name = _renamed.get(name, name)
        if name not in DEVICE_TYPES and name not in _FOREIGN_TYPES:
            known = ", ".join((*DEVICE_TYPES, *_FOREIGN_TYPES))
            raise RuntimeError(f"Expected one of {known} device type at start of device string: {name}")
        if colon:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {type}"
                )
            if not number.isdigit() or (number != "0" and number[0] == "0"):
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        return _interned(name, index)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, device) and self.type == other.type and self.index == other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"
        )

    def __reduce__(self) -> tuple:
        return device, (str(self),)

    def __enter__(self) -> "device":
        _default.stack = (*_default.stack, self)
        return self

    def __exit__(self, *exc: object) -> None:
        _default.stack = _default.stack[:-1]


def add_type(name: str) -> None:
    """Makes devices of another type known."""
    if name not in DEVICE_TYPES:
        DEVICE_TYPES.append(name)


def _accelerator() -> str:
    """The device type of a bare number."""
    from ..accelerator import current_accelerator

    found = current_accelerator()
    if found is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return found.type


_instances: dict[tuple[str, int | None], device] = {}


def _interned(type: str, index: int | None) -> device:  # noqa: A002
    made = _instances.get((type, index))
    if made is None:
        made = object.__new__(device)
        made.type, made.index = type, index
        made = _instances.setdefault((type, index), made)  # another thread may have been faster
    return made


CPU = device("cpu")
META = device("meta")


class _DefaultDevice(threading.local):
    stack: tuple[device, ...] = ()


_default = _DefaultDevice()


def get_default_device() -> device:
    """The device on which tensors are made that name none."""
    if planners:
        refuse_in_plans()
    found = _default.stack[-1] if _default.stack else _fixed_default[0]
    if found.type != "cuda" or found.index is not None:
        return found
    from .._backends.cuda.runtime import current_device

    return device("cuda", current_device())


_fixed_default = [CPU]


def set_default_device(value: Any) -> None:
    """Sets where factory functions put their results; None means the CPU."""
    _fixed_default[0] = CPU if value is None else device(value)


def as_device(value: Any) -> device:
    """The device a factory argument names; None gives the default one."""
    return get_default_device() if value is None else device(value)


class NamedConstant:
    """A constant of torch: it prints as its name, and pickles by it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(NamedConstant):
    """How elements lie in memory."""


strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
sparse_csc, sparse_bsr, sparse_bsc, jagged = (layout(n) for n in ("sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"))
_mkldnn = layout("_mkldnn")


class memory_format(NamedConstant):
    """The order of the dimensions in memory."""


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


class Size(tuple):
    """A shape."""

    __slots__ = ()

    def __new__(cls, dims: Iterable[Any] = ()) -> "Size":
        dims = tuple(dims)
        for i, d in enumerate(dims):
            if d.__class__ is not int and not hasattr(d, "__index__"):
                raise TypeError(f"torch.Size() takes an iterable of 'int' (item {i} is '{d.__class__.__name__}')")
        return tuple.__new__(cls, [d.__index__() for d in dims])

    def numel(self) -> int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def __add__(self, other: Any) -> "Size":  # type: ignore[override]
        if not isinstance(other, tuple):
            made = other.__radd__(self) if hasattr(type(other), "__radd__") else NotImplemented
            if made is not NotImplemented:
                return made
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> "Size":
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> "Size":  # type: ignore[override]
        return Size(tuple(self) * times)

    __rmul__ = __mul__  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __reduce__(self) -> tuple:
        return Size, (tuple(self),)
