"""NumPy's floating point warnings: silent for the library's own arithmetic, as PyTorch's is, and as before for others'.

NumPy has one setting for a whole thread, and setting it around each call would cost more than most calls. So NumPy is
told to call a function when something overflowed or was divided by zero, which is seldom; it looks who asked.
"""

import os
import sys
import warnings
from types import FrameType
from typing import Any

import numpy as np

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(os.path.dirname(np.__path__[0]) + os.sep + name + os.sep for name in ("numpy", "scipy"))
# NumPy's words for what happened, by the name of the setting.
_SETTINGS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}


class _Watch:
    """What NumPy calls; for code outside the library it does what NumPy would have done."""

    def __init__(self, settings: dict[str, Any], call: Any) -> None:
        self.settings, self.call = settings, call

    def __call__(self, what: str, flags: int) -> None:
        asked: FrameType | None = sys._getframe(1)
        while asked is not None and asked.f_code.co_filename.startswith(_LIBRARIES):
            asked = asked.f_back
        if asked is None or asked.f_code.co_filename.startswith(_PACKAGE):
            return
        setting, text = self.settings[_SETTINGS[what]], f"{what} encountered"
        if setting == "warn":
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        elif setting == "raise":
            raise FloatingPointError(text)
        elif setting == "print":
            print(f"Warning: {text}", file=sys.stderr)
        elif setting == "call" and self.call is not None:
            self.call(what, flags)
        elif setting == "log" and self.call is not None:
            self.call.write(f"Warning: {text}\n")


def quiet_thread() -> None:
    """Makes this thread's NumPy silent when the library computes; other code keeps the settings that it had."""
    call = np.geterrcall()
    if isinstance(call, _Watch):  # a thread may run in a copy of another's context
        return
    settings: dict[str, Any] = dict(np.geterr())
    np.seterrcall(_Watch(settings, call))
    np.seterr(**{name: "ignore" if setting == "ignore" else "call" for name, setting in settings.items()})
