"""Elements that a compiled function looks at only to return them: `return loss.item(), {"n": correct.item()}`.

Looking at an element ends a recording, as the program may do anything by it. Where the rest of the function's bytecode
only puts what it got into its result, it does not, and the call can be replayed.
"""

import dis
import sys
from bisect import bisect_right
from collections.abc import Callable
from types import FrameType
from typing import Any

from .._core.tensor import Tensor

_PACKAGE = __name__.partition(".")[0]
# Instructions that load variables, one or two.
NAMED = frozenset({"LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_DEREF"})
NAMED_TWICE = frozenset({"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"})
_CONSTANT = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
_METHOD = frozenset({"LOAD_METHOD", "LOAD_ATTR"})
_BUILT: dict[str, Callable[[list[Any]], Any]] = {"BUILD_TUPLE": tuple, "BUILD_LIST": list}
_SILENT = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL"})
_KNOWN = {*NAMED, *NAMED_TWICE, *_CONSTANT, *_METHOD, *_BUILT, *_SILENT, "BUILD_CONST_KEY_MAP", "BUILD_MAP", "CALL"}


class Element:
    """In a result, the element of a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class _Method:
    """`item` of a tensor, which is to be called."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def elements_returned(fn: Any) -> Any:
    """What the compiled function `fn`, in which an element is looked at now, will return; None if that is not known.

    There is an Element in the place of each that it looks at.
    """
    frame: FrameType | None = sys._getframe(1)
    method = None
    while frame is not None and _is_ours(frame):
        method, frame = frame, frame.f_back
    if (frame is None or method is None or method.f_code is not Tensor.item.__code__ or frame.f_back is None
            or frame.f_code is not getattr(fn, "__code__", None) or not _is_ours(frame.f_back)):  # fmt: skip
        return None
    return _returned(frame)


def _is_ours(frame: FrameType) -> bool:
    return (frame.f_globals.get("__name__") or "").partition(".")[0] == _PACKAGE


def _returned(frame: FrameType) -> Any:
    """What the statement that a frame is at returns, if all that it does is known."""
    instructions = list(dis.get_instructions(frame.f_code))
    begin = bisect_right(instructions, frame.f_lasti, key=lambda one: one.offset) - 1  # which may be at its cache
    while begin and instructions[begin - 1].opname in _KNOWN:
        begin -= 1
    names = frame.f_locals
    stack: list[Any] = []
    try:
        for one in instructions[begin:]:
            name = one.opname
            if name == "RETURN_VALUE":
                return stack[0] if len(stack) == 1 else None
            if name in NAMED:
                stack.append(names[one.argval])
            elif name in NAMED_TWICE:
                stack += [names[own] for own in one.argval]
            elif name in _CONSTANT:
                stack.append(one.argval)
            elif name in _METHOD and one.argval == "item" and isinstance(stack[-1], Tensor):
                stack.append(_Method(stack.pop()))
            elif name == "CALL" and one.arg == 0 and stack[-1].__class__ is _Method:
                stack.append(Element(stack.pop().tensor))
            elif name in _BUILT:
                stack.append(_BUILT[name](_taken(stack, one.arg or 0)))
            elif name == "BUILD_CONST_KEY_MAP":
                keys = stack.pop()
                stack.append(dict(zip(keys, _taken(stack, one.arg or 0), strict=True)))
            elif name == "BUILD_MAP":
                parts = _taken(stack, 2 * (one.arg or 0))
                stack.append(dict(zip(parts[::2], parts[1::2], strict=True)))
            elif name not in _SILENT:
                return None
    except (IndexError, KeyError):  # the statement began before, or reads a name that is not bound
        return None
    return None


def _taken(stack: list[Any], count: int) -> list[Any]:
    """The last values of a stack, which are taken from it."""
    if count > len(stack):
        raise IndexError(count)
    taken = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken
