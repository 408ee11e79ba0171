"""What public functions begin with once their operators are recorded often: a call is known before it is dispatched."""

import re
from collections.abc import Sequence
from typing import Any

from .._autograd.views import WAKING
from .._dispatch.keys import (
    BACKWARD_PIPELINE_MASKS,
    CPU_MASK,
    PIPELINE_MASKS,
    UNRECORDED_PIPELINE_MASKS,
    VIEW_MASK,
)
from .._dispatch.registry import Operator
from .._dispatch.schema import Argument

# `masks` says that nothing but the pipeline is unusual, the keys that nothing is derived, for views neither.
_AHEAD = """
if (_masks is _RECORDED or _masks is _UNDERIVED or _masks is _BACKWARD) and (keys == CPU{or_shown}):
    {known}
"""
_OF_LEAVES = " or _masks is not _RECORDED and keys & _masks[1] == CPU"  # or of others for which nothing is derived
_ALL_ASLEEP = "not any([t is not None and t._base is not None and t._base._keys & WAKING for t in {name}])"
_NAMES = {"_RECORDED": PIPELINE_MASKS, "_UNDERIVED": UNRECORDED_PIPELINE_MASKS,
          "_BACKWARD": BACKWARD_PIPELINE_MASKS, "CPU": CPU_MASK, "SHOWN": CPU_MASK | VIEW_MASK,
          "WAKING": WAKING}  # fmt: skip


def lines_ahead(known: str, arguments: Sequence[Argument]) -> str:
    """The lines that take a call which `known` finds to be as before; `arguments` are those that may be views."""
    asleep = [_ALL_ASLEEP.format(name=a.name) if a.is_list else
              f"{_unless_tensor(a)}{a.name}._base is None or not {a.name}._base._keys & WAKING"
              for a in arguments if a.is_tensor]  # fmt: skip
    or_shown = "".join(f" and ({one})" for one in asleep)
    others = f" or keys == SHOWN{or_shown}{_OF_LEAVES}" * bool(asleep)
    return _AHEAD.format(known=indented(known.strip(), 4), or_shown=others)


def _unless_tensor(argument: Argument) -> str:
    numbers = f"{argument.name}.__class__ in NUMBERS or " * (argument.type == "Tensor|Scalar")
    return f"{argument.name} is None or " * argument.optional + numbers


def indented(text: str, by: int) -> str:
    """Lines of which all but the first are indented."""
    return text.replace("\n", "\n" + " " * by)


def is_default(name: str) -> str:
    """What a call that is known has to be, too, where an argument that a run is given has its default."""
    return f" and {name} is _default_{name}"


class Recorder:
    """Lines for an operator's public functions, and what they name."""

    def __init__(self, operator: Operator, ahead: str, scope: dict[str, Any]) -> None:
        self._operator, self._ahead = operator, ahead
        self.scope = _NAMES | {name: value for name, value in scope.items() if not name.startswith("__")}
        if operator.recorder is not None:
            self.install()  # in the place of another, made before kernels changed

    def lines(self, constants: Sequence[str]) -> list[str]:
        """Those of a function that leaves some arguments out, which have their defaults then."""
        text = self._ahead.strip()
        for name in constants:
            text = text.replace(is_default(name), "")
        named = [name for name in constants if re.search(rf"\b{name}\b", text)]
        return [*(f"{name} = __default_{name}__" for name in named), *text.splitlines()]

    @property
    def is_installed(self) -> bool:
        return self._operator.recorder is self

    def install(self) -> None:
        """Makes the operator's public functions anew."""
        self._operator.recorder = self
        for rebuild in self._operator.rebuilds:
            rebuild()
