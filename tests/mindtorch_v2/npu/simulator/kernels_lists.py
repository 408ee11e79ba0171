"""Simulated operators on lists of tensors: the same for each, and products of groups."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from .kernels import KERNELS, kernel

_EACH: dict[str, Callable] = {
    **{name.capitalize(): getattr(np, name) for name in ("abs cos cosh exp expm1 log log10 log1p log2 reciprocal sign "
                                                         "sin sinh sqrt tan tanh").split()},
    "Acos": np.arccos, "Asin": np.arcsin, "Atan": np.arctan, "Neg": np.negative, "Erf": scipy.special.erf,
    "Erfc": scipy.special.erfc, "Sigmoid": scipy.special.expit, "Copy": np.copy,
    "AddListV2": lambda x, y, alpha: x + alpha * y, "SubListV2": lambda x, y, alpha: x - alpha * y,
    "MulList": np.multiply, "DivList": np.divide, "MaximumList": np.maximum, "MinimumList": np.minimum,
    "PowList": np.power, "LerpList": lambda x, y, weight: x + weight * (y - x),
    "AddScalarV2": np.add, "SubScalarV2": np.subtract, "MulScalarV2": np.multiply, "DivScalarV2": np.divide,
    "MaximumScalarV2": np.maximum, "MinimumScalarV2": np.minimum, "PowScalarV2": np.power,
    "LerpScalar": lambda x, y, weight: x + weight * (y - x),
    "AddcmulScalarV2": lambda x, y, z, scalar: x + scalar * y * z,
    "AddcdivScalarV2": lambda x, y, z, scalar: x + scalar * y / z,
    "Norm": lambda x, order: np.linalg.norm(x.reshape(-1), order),
}  # fmt: skip


def _of_lists(each: Callable) -> Callable:
    def run(*arguments: Any) -> list[np.ndarray]:
        lists = [a for a in arguments if isinstance(a, list)]
        numbers = [np.float32(a) for a in arguments if not isinstance(a, list)]
        assert len({len(arrays) for arrays in lists}) == 1
        assert all(len({array.shape for array in row}) == 1 for row in zip(*lists, strict=True))
        return (([each(*row, *numbers) for row in zip(*lists, strict=True)]),)  # type: ignore[return-value]

    return run


for _name, _function in _EACH.items():
    KERNELS[f"aclnnForeach{_name}"] = _of_lists(_function)


@kernel("ForeachZeroInplace")
def zero(arrays: list[np.ndarray]) -> None:
    for array in arrays:
        array[...] = 0
