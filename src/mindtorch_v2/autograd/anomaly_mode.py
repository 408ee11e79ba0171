"""Finding the operation whose gradient fails."""

import warnings
from typing import Any

from .._autograd.node import saving_hooks
from .._dispatch.argument_checks import expected
from .._dispatch.keys import modes


class set_detect_anomaly:
    """Records where operations were called, and lets backward say so when it fails or meets NaN."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        for name, flag in (("enabled", mode), ("check_nan", check_nan)):
            if flag.__class__ is not bool:
                raise TypeError(expected("set_anomaly_enabled", name, "bool", flag, 1 if name == "enabled" else 2))
        state = modes.__dict__
        self.previous = state.get("anomaly", False), state.get("anomaly_nan", False)
        self._switch(mode, mode and check_nan)

    @staticmethod
    def _switch(mode: bool, check_nan: bool) -> None:
        saving_hooks.users += int(mode) - int(modes.__dict__.get("anomaly", False))
        modes.__dict__.update(anomaly=mode, anomaly_nan=check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        self._switch(*self.previous)


class detect_anomaly(set_detect_anomaly):
    """`set_detect_anomaly(True)` for a block."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
                      "enabled for debugging.", stacklevel=2)

    def __enter__(self) -> None:
        state = modes.__dict__
        self.previous = state.get("anomaly", False), state.get("anomaly_nan", False)
        self._switch(True, self.check_nan)
