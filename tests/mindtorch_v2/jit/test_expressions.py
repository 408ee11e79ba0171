"""Random expressions, compiled and compared with NumPy: in all types, over arrays that lie alike, broadcast or stride.

MINDTORCH_EXPRESSIONS is how many of them there are for each layout.
"""

import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import xp
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._core.geometry import collapsed, contiguous_strides
from mindtorch_v2._kernels import ir, llvm, pointwise
from mindtorch_v2._kernels.trace import Expression

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite, and MINDTORCH_JIT other than 0")

FLOATING = [np.dtype(name) for name in ("float32", "float64")]
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
WHOLE = [np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8")]
# Operations on arrays of one type, which give that type: how often each takes an operand, and its text.
ANY_TYPE = ("({a} + {b})", "({a} - {b})", "({a} * {b})", "xp.maximum({a}, {b})", "xp.minimum({a}, {b})",
            "xp.square({a})", "xp.absolute({a})", "xp.where({a} < {b}, {a}, {b})",
            "xp.where({a} >= {b}, {b}, {a})", "xp.clip({a}, 1, 5)",
            "(-{a})")  # fmt: skip
FLOAT_ONLY = ("({a} / ({b} * {b} + 1))", "xp.sqrt(xp.absolute({a}))", "xp.exp(xp.minimum({a}, 4))", "xp.tanh({a})",
              "xp.log1p(xp.absolute({a}))", "xp.sin({a})", "xp.floor({a})", "xp.rint({a})", "xp.copysign({a}, {b})",
              "xp.expit({a})", "xp.where(xp.isnan({a}), {b}, {a})", "({a} * 0.25)", "(1.5 - {a})")  # fmt: skip
WHOLE_ONLY = ("({a} & {b})", "({a} | {b})", "({a} ^ {b})", "(~{a})", "({a} * 3)", "(7 - {a})")
LAYOUTS = ("alike", "rows", "columns", "strided", "turned")


@st.composite
def expressions(draw: Any) -> tuple[str, np.dtype]:
    """The text of an expression of a, b and c, and the type of the arrays."""
    kind = draw(st.sampled_from(FLOATING + HALVES + WHOLE))
    choices = ANY_TYPE + (WHOLE_ONLY if kind.kind in "iu" else FLOAT_ONLY)
    values = ["a", "b", "c"]
    for _ in range(draw(st.integers(1, 6))):
        operation = draw(st.sampled_from(choices))
        values.append(operation.format(a=draw(st.sampled_from(values)), b=draw(st.sampled_from(values))))
    text = values[-1]
    return (text if len(text) < 2000 else values[3]), kind


def operands(kind: np.dtype, layout: str, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)

    def made(*shape: int) -> np.ndarray:
        if kind.kind in "iu":
            return random.integers(0 if kind.kind == "u" else -9, 9, shape).astype(kind)
        values = random.normal(size=shape) * 3
        values.reshape(-1)[:: max(values.size // 7, 1)] = 0
        return values.astype(kind)

    if layout == "alike":
        return [made(5, 13), made(5, 13), made(5, 13)]
    if layout == "rows":
        return [made(5, 13), made(13), made(1, 13)]
    if layout == "columns":
        return [made(5, 13), made(5, 1), made(1)]
    if layout == "strided":
        return [made(10, 26)[::2, ::2], made(5, 39)[:, 1::3], made(5, 13)[::-1]]
    return [made(13, 5).T, made(13, 5).T, made(5, 13)]


def run_compiled(expression: Expression, arrays: list[np.ndarray], out: np.dtype) -> list[np.ndarray]:
    """What the loops that serve such arrays make of the expression: the strided one, and a direct one if it does."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    kinds = [ir.type_of(a.dtype) or "" for a in arrays]
    used = [arrays[i] for i in expression.loads]
    name = ir.type_of(out) or ""
    made = np.empty(shape, out)
    spread = [(0,) * (len(shape) - a.ndim) + tuple(s if n != 1 else 0 for n, s in zip(a.shape, a.strides))
              for a in used]
    own = contiguous_strides(shape, out.itemsize)
    sizes, strides = collapsed(range(len(shape) - 1, -1, -1), shape, [own, *spread])
    loaded = [kinds[i] for i in expression.loads]

    def entry(text: str) -> Any:
        return machine.callable_from(machine.load(text, ["entry"], persistent=False)["entry"], "expression")

    call = entry(llvm.module_of(pointwise.strided_kernel(expression, loaded, name, "s" * len(strides)), exact=True))
    assert call(made, *used, pointwise.geometry_of(sizes, strides))
    results = [made]
    same = all(a.shape == shape and a.strides == contiguous_strides(a.shape, a.itemsize) for a in arrays)
    module = pointwise.flat_module if same else pointwise.spread_module
    options = {"into": False} if same else {}
    text: str = module(expression, loaded, name, ["array"] * len(arrays), **options)  # type: ignore[operator]
    direct = entry(text)(*arrays)
    assert direct is not None or not same
    return results if direct is None else [*results, direct]


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=int(os.environ.get("MINDTORCH_EXPRESSIONS", "40")), deadline=None, derandomize=True,
          suppress_health_check=list(HealthCheck))
@given(drawn=expressions(), seed=st.integers(0, 2**31))
def test_compiled_expressions_give_numpys_numbers(layout: str, drawn: tuple[str, np.dtype], seed: int) -> None:
    text, kind = drawn
    compute = eval(f"lambda xp, a, b, c: {text}")
    arrays = operands(kind, layout, seed)
    wide = np.dtype(np.float32) if kind in HALVES else kind
    expression = Expression(compute, [kind] * 3, range(3), wide)
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(np.asarray(compute(xp, *(a.astype(wide) for a in arrays))),
                                   np.broadcast_shapes(*(a.shape for a in arrays))).astype(kind)
    for made in run_compiled(expression, arrays, kind):
        if kind.kind in "iu":
            np.testing.assert_array_equal(made, expected)
        else:
            tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-12}[kind.name]
            wanted = expected.astype(np.float64)
            np.testing.assert_allclose(made.astype(np.float64), wanted, rtol=tolerance,
                                       atol=tolerance * max(1.0, float(np.nanmax(np.abs(wanted[np.isfinite(wanted)]),
                                                                                 initial=0.0))))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_types_of_tensors_without_dimensions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that was made for operands of some types is not given others that have no dimensions, and other results."""
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    wide, narrow, single = torch.ones(3, 4, dtype=torch.float64), torch.ones(3, 4), torch.tensor(2.0).double()
    for first in ((wide, single, narrow), (single, wide, narrow), (wide, wide, torch.ones(4))):
        assert getattr(torch, name)(*first, value=0.5).dtype is torch.float64
        assert getattr(torch, name)(single, single, narrow, value=0.5).dtype is torch.float32
    for _ in range(2):
        assert (wide * torch.ones(4)).dtype is torch.float64 and (single * torch.ones(4)).dtype is torch.float32


@pytest.mark.parametrize("wanted", ["none", "last", "some", "all"])
@pytest.mark.parametrize("count", [255, 256, 1000])
def test_a_costly_side_is_computed_where_an_element_wants_it(count: int, wanted: str,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    given = np.linspace(1, 2, count, dtype=np.float32)
    given[{"none": [], "last": [-1], "some": slice(7, None, 300), "all": slice(None)}[wanted]] *= -1
    x = torch.from_numpy(given)
    expected = np.where(given < 0, np.expm1(given), given)
    np.testing.assert_allclose(torch.nn.functional.elu(x).numpy(), expected, 1e-6)
    np.testing.assert_allclose(torch.nn.functional.elu_(x.clone()).numpy(), expected, 1e-6)


def test_the_costly_side_of_a_choice_is_known() -> None:
    kind = np.dtype(np.float32)

    def choice(compute: Any) -> Any:
        return pointwise.without_costly_side(Expression(compute, [kind], [0], kind).node)

    when, what = choice(lambda xp, x: xp.where(x < 0, xp.exp(x), x * 2))
    assert (when.op, what.op) == ("lt", "mul")
    assert choice(lambda xp, x: xp.where(x < 0, x, xp.exp(x)))[0].op == "not"
    assert choice(lambda xp, x: xp.where(x < 0, x + 1, x)) is None
    assert choice(lambda xp, x: xp.where(xp.exp(x) < 2, xp.exp(x), x)) is None


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64"])
def test_whole_numbers_are_divided_by_numbers_as_numpy_does(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    given = np.arange(-60, 60).astype(kind)
    x = torch.from_numpy(given)
    for by in (1, 7, 127, -3):
        if by > 0 or kind != "uint8":
            np.testing.assert_array_equal((x % by).numpy(), given % np.array(by, kind))
            np.testing.assert_array_equal((x // by).numpy(), given // np.array(by, kind))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x % 0
