"""Kernels in teams (_kernels/teams.py): lanes run here one after the other, in any order, from meeting to meeting."""

import math
import operator
import random
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from mindtorch_v2._kernels import ir
from mindtorch_v2._kernels.language import flat, float64, kernel, like, local, parallel
from mindtorch_v2._kernels.library import linalg, norm, reduce, softmax
from mindtorch_v2._kernels.reader import read
from mindtorch_v2._kernels.teams import Dealt, First, Meet, NotShared, shared, walk, with_atomics

LANES = 4
COMBINED = {"add": operator.add, "mul": operator.mul, "min": min, "max": max, "or": operator.or_, "and": operator.and_}
STARTS = {"add": 0, "mul": 1, "min": math.inf, "max": -math.inf, "or": False, "and": True}
COMPUTED = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "lt": operator.lt,
            "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
            "floordiv": operator.floordiv, "mod": operator.mod, "and": operator.and_, "or": operator.or_,
            "not": operator.not_, "neg": operator.neg, "abs": abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log,
            "copysign": math.copysign, "min": min, "max": max, "smaller": min, "larger": max,
            "select": lambda c, a, b: a if c else b}  # fmt: skip


class Lane:
    """One lane of a team: its variables, and what it does between meetings."""

    def __init__(self, number: int, arrays: dict[str, np.ndarray], numbers: dict[str, Any]) -> None:
        self.number, self.arrays, self.held = number, arrays, dict[Any, Any]()
        self.variables = dict(numbers)

    def value(self, node: ir.Node) -> Any:
        if node.op == "const":
            return node.data
        if node.op in ("var", "arg"):
            return self.variables[node.data]
        if node.op == "dim":
            return self.arrays[node.data[0]].shape[node.data[1]]
        args = [self.value(a) for a in node.args]
        if node.op == "load":
            return self.held[node.data.name] if node.data.length else self.arrays[node.data.name][tuple(args)]
        if node.op == "cast":
            return int(args[0]) if node.type[0] in "iu" else args[0]
        return COMPUTED[node.op](*args)

    def run(self, body: list) -> Generator:
        for s in body:
            if isinstance(s, ir.Set):
                self.variables[s.name] = self.value(s.value)
            elif isinstance(s, ir.Store):
                place, value = tuple(self.value(i) for i in s.index), self.value(s.value)
                if s.array.length:
                    self.held[s.array.name] = value
                else:
                    self.arrays[s.array.name][place] = value + (self.arrays[s.array.name][place] if s.combine else 0)
            elif isinstance(s, Meet):
                yield None
            elif isinstance(s, First):
                if self.number == 0:
                    yield from self.run(s.body)
            elif isinstance(s, ir.If):
                yield from self.run(s.then if self.value(s.condition) else s.otherwise)
            else:
                assert isinstance(s, ir.Loop), s
                dealt = s if isinstance(s, Dealt) else None
                for name, how in dealt.folds.items() if dealt else ():
                    self.variables[name] = self.variables[name] if self.number == 0 else STARTS[how]
                for turn in range(*(self.value(n) for n in (s.start, s.stop, s.step))):
                    if dealt is None or turn % LANES == self.number:
                        self.variables[s.name] = turn
                        yield from self.run(s.body)
                for name, how in dealt.folds.items() if dealt else ():
                    self.variables[name] = yield how, self.variables[name]


def run_team(written: kernel, arrays: dict[str, np.ndarray], numbers: dict[str, Any], constants: dict[str, Any]) -> int:
    """Runs a kernel, all turns; how many loops of it are dealt out."""
    kinds = {n: (ir.type_of(a.dtype), a.ndim, "s") for n, a in arrays.items()}
    made = shared(read(written, kinds, {n: "f64" if isinstance(v, float) else "i64" for n, v in numbers.items()},
                       constants)).kernel
    *before, loop = made.body
    outside = Lane(0, arrays, numbers)
    list(outside.run(before))
    for turn in range(outside.value(loop.stop)):
        lanes = [Lane(i, arrays, outside.variables | {loop.name: turn}) for i in range(LANES)]
        running, given = [lane.run(loop.body) for lane in lanes], None
        while True:
            order, met = random.sample(range(LANES), LANES), {}
            for i in order:
                try:
                    met[i] = running[i].send(given)
                except StopIteration:
                    pass
            if not met:
                break
            assert len(met) == LANES, "lanes meet at different places"
            given = None
            if met[0] is not None:
                given = met[0][1]
                for i in range(1, LANES):
                    given = COMBINED[met[0][0]](given, met[i][1])
    return sum(isinstance(s, Dealt) for s in walk(loop.body))


rng = np.random.default_rng(0)
A = rng.standard_normal((2, 6, 5))
POSITIVE = A @ A.swapaxes(1, 2) + np.eye(6)
CASES = [
    (linalg.factor, dict(LU=A, pivots=np.zeros((2, 5), np.int64), info=np.zeros(2, np.int64)), {}, {}),
    (linalg.factor_positive, dict(L=POSITIVE, info=np.zeros(2, np.int64)), {}, {}),
    (linalg.factor_orthogonal, dict(A=A, taus=np.zeros((2, 5))), {}, {}),
    (linalg.solve_triangle, dict(X=A, A=POSITIVE), {}, dict(upper=True, unit=False)),
    (linalg.exchange, dict(X=A, pivots=np.array([[3, 6, 3], [1, 2, 5]])), {}, dict(backwards=True)),
    (softmax.softmax_rows, dict(out=np.zeros(60), x=A.ravel()), dict(rows=6, n=10), dict(logarithm=False)),
    (softmax.backward_rows, dict(out=np.zeros(60), grad=A.ravel(), result=A.ravel() + 1), dict(rows=6, n=10),
     dict(logarithm=True)),
    (norm.normalise_rows, dict(out=np.zeros(60), means=np.zeros(6), rstds=np.zeros(6), x=A.ravel(),
                               weight=A.ravel()[:10], bias=A.ravel()[10:20]), dict(rows=6, n=10, eps=1e-5),
     dict(centred=True, weighted=True, biased=True)),
    (reduce.moment_rows, dict(made=np.zeros(6), means=np.zeros(6), x=A.ravel()),
     dict(rows=6, n=10, parts=1, width=10, divisor=9.0), dict(deviation=True)),
]


@pytest.mark.parametrize(("written", "arrays", "numbers", "constants"), CASES, ids=[c[0].__name__ for c in CASES])
def test_teams_give_what_one_gives(written, arrays, numbers, constants) -> None:
    wanted, got = ({name: array.copy() for name, array in arrays.items()} for _ in range(2))
    written(*wanted.values(), *numbers.values(), **constants)
    assert run_team(written, got, numbers, constants) > 0
    for name in arrays:
        np.testing.assert_allclose(got[name], wanted[name], 1e-12, 1e-12, err_msg=name)


def test_scratch_memory_of_columns_is_a_variable_of_each_lane() -> None:
    @kernel
    def sums(out, x):
        for row in parallel(x.shape[0], x.shape[1] * x.shape[2]):
            total = local(LANES, float64)
            for j in range(x.shape[2]):
                total[j] = 0
            for k in range(x.shape[1]):
                for j in range(x.shape[2]):
                    total[j] += x[row, k, j]
            for j in range(x.shape[2]):
                out[row, j] = total[j]

    x, out = A[:, :, :LANES].copy(), np.zeros((2, LANES))
    assert run_team(sums, {"out": out, "x": x}, {}, {}) == 3
    np.testing.assert_allclose(out, x.sum(1))


@kernel
def running(out: flat, x: flat, n):
    for row in parallel(1, n):
        total = like(row, x)
        for i in range(n):
            total += x[i]
            out[i] = total


@kernel
def neighbours(out: flat, x: flat, n):
    for row in parallel(1, n):
        for i in range(1, n):
            out[i] = out[i - 1] + x[i] + row


@kernel
def found(out: flat, x: flat, n):
    for row in parallel(1, n):
        place = 0
        for i in range(n):
            if x[i] > 0:
                place = i
                break
        out[row] = place


@pytest.mark.parametrize("written", [running, neighbours, found], ids=lambda w: w.__name__)
def test_turns_that_need_each_other_are_not_dealt_out(written) -> None:
    kinds = {"out": ("f64", 1, "s"), "x": ("f64", 1, "s")}
    with pytest.raises(NotShared):
        shared(read(written, kinds, {"n": "i64"}, {}))


def test_sums_into_memory_become_atomic_where_nothing_else_is_done_to_it() -> None:
    @kernel
    def counts(out: flat, seen: flat, x: flat, n):
        for i in parallel(n, 1):
            out[x[i]] += 1
            seen[x[i]] = seen[x[i]] + 1
            seen[0] = 0

    made = read(counts, {name: ("i64", 1, "s") for name in ("out", "seen", "x")}, {"n": "i64"}, {})
    stores = [s for s in walk(with_atomics(made.body)) if isinstance(s, ir.Store)]
    assert [(s.array.name, s.combine) for s in stores] == [("out", "add"), ("seen", None), ("seen", None)]
