"""torch.Stream and torch.Event of any device, the module of a device, and the error that an accelerator raises."""

import importlib
from typing import Any

from .device import device


class AcceleratorError(RuntimeError):
    """An accelerator's runtime refused a call."""


class OutOfMemoryError(RuntimeError):
    """A device's memory did not suffice, not even with all cached memory given back."""


def size_text(nbytes: int) -> str:
    """A size in the unit people read: 20.00 MiB."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):.2f} {unit}"
    return f"{nbytes} bytes"


def get_device_module(device: Any = None) -> Any:
    """`torch.cpu`, `torch.cuda`, ... : the module of a device, or of the accelerator of this process."""
    if device is None:
        from ..accelerator import current_accelerator

        kind = getattr(current_accelerator(), "type", "cpu")
    elif isinstance(device, (str, _device)):
        kind = _device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    module = getattr(importlib.import_module(__package__.partition(".")[0]), kind, None)
    if module is None:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return module


_device = device  # the functions here have parameters of that name


def _on_accelerator(kind: str, name: str, arguments: dict[str, Any]) -> Any:
    """A stream or event of a device that has them; None for the CPU and for Meta."""
    if kind in ("cpu", "meta"):
        return None
    module = get_device_module(kind)
    if not module.is_available():
        raise RuntimeError(f"PyTorch is not linked with support for {kind} devices")
    return getattr(module, name)(**arguments)


class Stream:
    """The order of calls on a device; on the CPU there is one order, and nothing to wait for."""

    device: device
    device_index: int
    stream_id: int

    def __new__(cls, device: Any = None, *, priority: int = 0) -> Any:
        where = _device("cpu" if device is None else device)
        made = _on_accelerator(where.type, "Stream", {"device": where, "priority": priority})
        if made is not None:
            return made
        self = super().__new__(cls)
        self.device, self.device_index, self.stream_id = where, -1 if where.index is None else where.index, 0
        return self

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing: every call is over when it returns."""

    def wait_event(self, event: Any) -> None:
        """Nothing: every event is over."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing: every call is over when it returns."""

    def record_event(self, event: Any = None) -> Any:
        raise RuntimeError(f"{self.device.type} backend doesn't support events.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return (f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, "
                f"stream_id={self.stream_id}")


class Queue:
    """What streams of accelerators share: waiting for marks, which their events are."""

    __slots__ = ()

    def _new_event(self) -> Any:
        raise NotImplementedError

    def record_event(self, event: Any = None) -> Any:
        """The event, or a new one, as a mark at the present end of the queue."""
        event = self._new_event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """Work queued from now on waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Work queued from now on waits for all work queued on `stream` so far."""
        self.wait_event(stream.record_event())


class StreamContext:
    """Context manager that sends this thread's work to a stream; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            self.stream.__exit__(*exc)


class Event:
    """A point in the order of calls of a device."""

    device: device
    event_id: int
    _times: bool

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False,
                interprocess: bool = False) -> Any:
        where = _device("cpu" if device is None else device)
        made = _on_accelerator(where.type, "Event", {"enable_timing": enable_timing})
        if made is not None:
            return made
        self = super().__new__(cls)
        self.device, self.event_id, self._times = where, 0, enable_timing
        return self

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        raise RuntimeError(f"{self.device.type} backend doesn't support events.")

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Any) -> float:
        if not (self._times and end_event._times):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise RuntimeError(f"{self.device.type} backend doesn't support events.")

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        return (f"torch.Event device_type={self.device.type}, device_index={index}, event_flag={int(self._times)}, "
                f"event_id={self.event_id}")
