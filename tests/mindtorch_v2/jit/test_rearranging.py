"""Functions that move elements, as tables of places: the same result for other elements, and none for what computes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mindtorch_v2._backends.cpu.jit import machine
from mindtorch_v2._backends.cpu.rearranging import rearranging

pytestmark = pytest.mark.skipif(not machine.available(), reason="there is no compiler")
_MOVES: dict[str, tuple[Callable, list[Any]]] = {
    "flip": (lambda x: np.ascontiguousarray(x[::-1]), [(3, 4)]),
    "pad": (lambda x: np.pad(x, 1, constant_values=-7.5), [(2, 3)]),
    "nan": (lambda x: np.concatenate([x, np.full(2, np.nan, x.dtype)]), [(5,)]),
    "join": (lambda arrays, dim: np.concatenate(arrays, dim), [[(2, 3), (4, 3), (1, 3)], 0]),
    "one of two": (lambda x, y: x + 0 * y.sum(), [(2, 2), (3,)]),
    "scalar": (lambda x: x.reshape(1, 1), [()]),
}


def _arrays(given: Any, kind: str, seed: int) -> Any:
    if isinstance(given, tuple):
        return np.asarray(np.random.default_rng(seed).normal(0, 100, given)).astype(kind)
    return [_arrays(item, kind, seed + i) for i, item in enumerate(given)] if isinstance(given, list) else given


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(_MOVES))
def test_moves(name: str, kind: str) -> None:
    function, given = _MOVES[name]
    found = rearranging(function, _arrays(given, kind, 0))
    assert found is not None
    moved = 0
    for seed in range(60):  # machine code takes over in the middle
        args = _arrays(given, kind, seed)
        made = found[0](*args)
        if made is not None:
            moved += 1
            wanted = function(*args)
            assert made.dtype == wanted.dtype and made.strides == wanted.strides
            np.testing.assert_array_equal(made, wanted)
    assert moved > 5


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda x: np.sort(x), [(5,)]),
        (lambda x: x * 2, [(5,)]),
        (lambda x: x + 1, [(1,)]),
        (lambda x: x.sum(keepdims=True), [(4,)]),
        (lambda x: x > 2, [(4,)]),
        (lambda x: x.T, [(2, 3)]),  # not in the usual order
        (lambda x: x, [(100, 100)]),  # too many
        (lambda x: x, [(0,)]),
    ],
)
def test_others_have_no_table(function: Callable, given: list[Any]) -> None:
    assert rearranging(function, _arrays(given, "float32", 0)) is None


def test_types_and_layouts_without_a_table() -> None:
    assert rearranging(lambda x: x, [np.zeros(3, "int8")]) is None
    assert rearranging(lambda x: x.copy(), [np.zeros((4, 4), "float32")[:, ::2]]) is None
    assert rearranging(lambda x, y: x, [np.zeros(3, "float32"), np.zeros(3, "float64")]) is None
