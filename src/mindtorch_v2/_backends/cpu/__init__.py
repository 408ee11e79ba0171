"""The CPU's array namespace: NumPy, with SciPy's special functions loaded when first used."""

from typing import Any

import numpy as np


class Namespace:
    """What array kernels call `xp`. A name NumPy lacks is looked up in scipy.special."""

    ndarray = np.ndarray

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name, None)
        if value is None:
            import scipy.special

            value = getattr(scipy.special, name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return "<array namespace numpy>"


xp = Namespace()
