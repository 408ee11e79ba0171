"""torch.npu.mstx: marks and ranges that msprof shows; without its library they cost nothing and do nothing."""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from .runtime import running

__all__ = ["mark", "mstx_range", "range_end", "range_start"]


@functools.cache
def _library() -> Any:
    runtime = running()
    for folder in () if runtime is None else runtime.libraries.folders:
        path = folder / "libms_tools_ext.so"
        if path.is_file():
            library = ctypes.CDLL(str(path))
            library.mstxMarkA.argtypes = library.mstxRangeStartA.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
            library.mstxRangeStartA.restype = ctypes.c_uint64
            library.mstxRangeEnd.argtypes = (ctypes.c_uint64,)
            return library
    return None


def _address(stream: Any) -> int | None:
    return None if stream is None else stream.npu_stream


def mark(message: str, stream: Any = None, domain: str = "default") -> None:
    library = _library()
    if library is not None:
        library.mstxMarkA(message.encode(), _address(stream))


def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
    """The number of a range that begins now; 0 where nobody records it."""
    library = _library()
    return 0 if library is None else library.mstxRangeStartA(message.encode(), _address(stream))


def range_end(range_id: int, domain: str = "default") -> None:
    library = _library()
    if library is not None and range_id:
        library.mstxRangeEnd(range_id)


def mstx_range(message: str, stream: Any = None, domain: str = "default") -> Callable[[Callable], Callable]:
    """A decorator whose function is a range."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            begun = range_start(message, stream)
            try:
                return function(*args, **kwargs)
            finally:
                range_end(begun)

        return ranged

    return decorate
