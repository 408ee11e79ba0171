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


@kernel("GroupedMatmulV4")
def grouped_product(x: list[np.ndarray], weight: list[np.ndarray], bias: Any, *rest: Any) -> tuple:
    *absent, ends, activation, scale, offset, split, along, ends_are_counts, act = rest
    assert all(v is None for v in (bias, *absent, activation, scale, offset)) and act == ends_are_counts == 0
    if along == -1:
        assert ends is None and split in (0, 1) and len(x) == len(weight) <= 128
        return [a @ b for a, b in zip(x, weight, strict=True)], None, None
    (rows,), (matrices,) = x, weight
    assert split in (2, 3) and along in (0, 2) and 0 < len(ends) <= 128 and (np.diff(ends, prepend=0) >= 0).all()
    spans = list(zip([0, *ends], ends, strict=False))
    if along == 2:  # which wants the first matrix as the view of a packed one
        assert rows.ndim == matrices.ndim == 2 and (rows.strides[0] == rows.itemsize or len(rows) == 1)
        return [np.stack([rows[:, a:b] @ matrices[a:b] for a, b in spans])], None, None
    assert rows.ndim == 2 and matrices.ndim == 3 and len(matrices) == len(ends) and rows.flags.c_contiguous
    made = np.ma.masked_all((len(rows), matrices.shape[-1]), np.float32)  # behind the last end nothing is written
    for matrix, (a, b) in zip(matrices, spans, strict=True):
        made[a:b] = rows[a:b] @ matrix
    return [made], None, None
