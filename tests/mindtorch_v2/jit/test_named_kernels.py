"""The CPU's kernels of the language against the NumPy functions behind them: same samples, and larger arrays."""

import numpy as np
import pytest
from operator_cases import PRIMARY, arguments, bases, good_calls, secondary_calls

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import xp
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._backends.interface import named_kernel, parameters_of
from mindtorch_v2._core.dtype import WIDER, cast
from mindtorch_v2._ops._declare.op import DECLARATIONS, Declaration
from mindtorch_v2._ops._declare.rules import Spec

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")

NAMED = {name: d for name, d in DECLARATIONS.items()
         if d.kernels.get("cpu", "onednn").partition(".")[0] in ("reduce", "softmax", "norm", "scan", "class_loss")}
TYPES = ("float64", "int64", "int32", "uint8", "bool", "float16", "bfloat16")


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


def both(declaration: Declaration, values: tuple) -> tuple:
    """What the kernel gives (None if it does not take these) and what NumPy does; the specs."""
    family, own = declaration.family, named_kernel("cpu", declaration.kernels["cpu"])
    spec = family.infer(*values)
    given = [getattr(v, "_array", v) for v in values]
    wide = [cast(v, WIDER[v.dtype]) if isinstance(v, np.ndarray) and v.dtype in WIDER else v for v in given]
    if family.widen and not getattr(own, "takes_halves", False):
        given = wide
    wants = {"spec": spec}
    made = own(*given, **wants) if "spec" in parameters_of(own) else own(*given)
    expected = family.array(xp, *wide, **wants) if "spec" in parameters_of(family.array) else family.array(xp, *wide)
    several = not isinstance(spec, Spec)
    if several:
        return made, expected, spec
    return None if made is None else (made,), (expected,), (spec,)


def compare(declaration: Declaration, values: tuple) -> bool:
    """Compares the two; whether the kernel took the arguments."""
    made, expected, specs = both(declaration, values)
    if made is None:
        return False
    for own, other, spec in zip(made, expected, specs, strict=True):
        if spec is None:
            continue
        kind = spec.dtype.np
        own, other = cast(np.asarray(own), kind), cast(np.asarray(other), kind)
        assert own.shape == other.shape == tuple(spec.shape)
        if spec.strides is None:
            assert own.flags.c_contiguous
        exact = kind.kind in "iub"
        close = 0 if exact else {2: 2e-2 if kind.name == "bfloat16" else 4e-3, 4: 3e-5, 8: 1e-12}[kind.itemsize]
        if kind.itemsize == 2:
            own, other = own.astype(np.float32), other.astype(np.float32)
        np.testing.assert_allclose(own, other, rtol=close, atol=close)
    return True


@pytest.mark.parametrize("name", NAMED)
def test_the_kernel_gives_what_numpy_gives(name):
    declaration = NAMED[name]
    taken = 0
    for call in good_calls(declaration):
        args, kwargs = arguments(call, torch, bases(call, torch, PRIMARY))
        taken += compare(declaration, tuple(declaration.operator.schema.bind(args, kwargs)))
    assert taken
    for call in secondary_calls(declaration):
        for kind in TYPES:
            args, kwargs = arguments(call, torch, bases(call, torch, kind))
            try:
                values = tuple(declaration.operator.schema.bind(args, kwargs))
                declaration.family.infer(*values)
            except (RuntimeError, NotImplementedError):  # not for this type
                continue
            compare(declaration, values)


SHAPES = [((70000,), 0), ((300, 400), 1), ((300, 400), 0), ((40000, 3), 0), ((3, 900, 24), 1), ((5, 6, 7), 1)]


def reduced(name: str, array: np.ndarray, dim: int | None) -> tuple:
    """The values of a call that folds one dimension."""
    schema = NAMED[name].operator.schema
    given = {"dim": dim if "int dim" in schema.text or "int? dim" in schema.text else (dim,)} if dim is not None else {}
    return tuple(schema.bind((torch.from_numpy(array),), given if "dim" in schema.names else {}))


REDUCTIONS = [n for n, d in NAMED.items() if d.kernels["cpu"].startswith("reduce.")]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_larger_arrays_are_reduced_as_numpy_does(name, threads):
    rng = np.random.default_rng(5)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for shape, dim in SHAPES:
            array = rng.uniform(0.97, 1.03, shape).astype(np.float32)
            array.reshape(-1)[7] = np.nan if shape[0] == 300 else 1.5
            assert compare(NAMED[name], reduced(name, array, dim))
            assert compare(NAMED[name], reduced(name, array.T, -1 - dim))
        whole = rng.uniform(0.9999, 1.0001, (300, 300))
        if "dim" in NAMED[name].operator.schema.names and "dim=None" in NAMED[name].operator.schema.text:
            assert compare(NAMED[name], reduced(name, whole, None))
            assert compare(NAMED[name], reduced(name, whole.T, None))
    finally:
        torch.set_num_threads(before)


def test_sums_of_many_float32_keep_their_digits():
    values = np.random.default_rng(0).random(1 << 20).astype(np.float32)
    exact = values.astype(np.float64).sum()
    for shaped, dim in ((values, None), (values.reshape(-1, 64), 0), (values.reshape(-1, 64).T, 1)):
        made = torch.from_numpy(shaped).sum(dim).double().sum().item()
        assert abs(made - exact) < 6.1e-8 * exact


def test_variance_of_numbers_far_from_zero():
    values = (np.random.default_rng(0).random((100000,)) + 10000).astype(np.float32)
    exact = values.astype(np.float64).var(ddof=1)
    assert abs(torch.from_numpy(values).var().item() - exact) < 1e-5 * exact
    columns = torch.from_numpy(values.reshape(1000, 100)).var(0)
    assert abs(columns[7].item() - values[7::100].astype(float).var(ddof=1)) < 1e-6
