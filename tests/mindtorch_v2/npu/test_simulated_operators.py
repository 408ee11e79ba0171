"""Simulated operators against NumPy's or SciPy's own: the simulator must be right before it can be a measure."""

from typing import Any

import numpy as np
import pytest
import scipy.special

from mindtorch_v2._backends.npu.array import empty, from_host, to_host
from mindtorch_v2._backends.npu.launch import run

X = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4)).astype(np.float32)
Y = np.random.default_rng(1).uniform(0.1, 0.9, (3, 4)).astype(np.float32)
I = np.array([[2, 0, 1, 1]])  # noqa: E741

CASES: dict[str, tuple[tuple, Any]] = {
    "Add": ((X, Y, 2), X + 2 * Y),
    "Adds": ((X, 3, 2), X + 6),
    "Sub": ((X, Y, 2), X - 2 * Y),
    "Subs": ((X, 1, 1), X - 1),
    "Rsubs": ((X, 1, 1), 1 - X),
    "Mul": ((X, Y), X * Y),
    "Muls": ((X, 2.5), X * 2.5),
    "Div": ((X, Y), X / Y),
    "Divs": ((X, 2), X / 2),
    "DivMod": ((X, Y, 2), X // Y),
    "PowTensorScalar": ((X, 2), X**2),
    "PowTensorTensor": ((X, Y), X**Y),
    "PowScalarTensor": ((2, X), 2**X),
    "Exp": ((X,), np.exp(X)),
    "Rsqrt": ((X,), X**-0.5),
    "Erf": ((X,), scipy.special.erf(X)),
    "Sigmoid": ((X,), 1 / (1 + np.exp(-X))),
    "Silu": ((X,), X / (1 + np.exp(-X))),
    "Relu": ((X - 0.5,), np.maximum(X - 0.5, 0)),
    "GtTensor": ((X, Y), X > Y),
    "LeScalar": ((X, 0.5), X <= 0.5),
    "LogicalNot": ((X > 0.5,), X <= 0.5),
    "SWhere": ((X > 0.5, X, Y), np.where(X > 0.5, X, Y)),
    "Softmax": ((X, 1), scipy.special.softmax(X, 1)),
    "LogSoftmax": ((X, 1), scipy.special.log_softmax(X, 1)),
    "Cumsum": ((X, 1, X.dtype), np.cumsum(X, 1)),
    "ReduceSum": ((X, (0,), True, X.dtype), X.sum(0, keepdims=True)),
    "Mean": ((X, (), False, X.dtype), X.mean()),
    "Amax": ((X, (1,), False), X.max(1)),
    "ArgMax": ((X, 1, False), X.argmax(1)),
    "VarCorrection": ((X, (1,), 1, False), X.var(1, ddof=1)),
    "Mm": ((X, Y.T.copy(), 0), X @ Y.T),
    "Addmm": ((np.ones((3, 3), "f"), X, Y.T.copy(), 2, 0.5, 0), 2 + 0.5 * X @ Y.T),
    "BatchMatMul": ((X[None], Y.T[None].copy(), 0), (X @ Y.T)[None]),
    "Dot": ((X[0], Y[0]), X[0] @ Y[0]),
    "Gather": ((X, 0, I), np.take_along_axis(X, I, 0)),
    "IndexSelect": ((X, 1, I[0]), X[:, I[0]]),
    "Embedding": ((X, I), X[I]),
    "ScatterAdd": ((X, 0, I, Y[:1]), None),
    "Stack": (([X, Y], 0), np.stack([X, Y])),
    "Cat": (([X, Y], 1), np.hstack([X, Y])),
    "Index": ((X, [I[0], I[0]]), X[I[0], I[0]]),
    "Tril": ((X, 0), np.tril(X)),
    "Flip": ((X, (0,)), X[::-1]),
    "ConstantPadNd": ((X, (1, 0, 0, 2), 7), np.pad(X, ((0, 2), (1, 0)), constant_values=7)),
    "Arange": ((1, 7, 2), np.array([1, 3, 5])),
    "MseLoss": ((X, Y, 1), ((X - Y) ** 2).mean()),
    "Cast": ((X * 10, np.dtype("i4")), (X * 10).astype("i4")),
    "Clamp": ((X, 0.3, 0.6), X.clip(0.3, 0.6)),
    "Trace": ((X,), np.trace(X)),
    "Linspace": ((0, 1, 5), np.linspace(0, 1, 5)),
}


def place(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return from_host(value)
    return [from_host(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", CASES)
def test_value(npu: Any, name: str) -> None:
    arguments, expected = CASES[name]
    if name == "ScatterAdd":
        expected = X.copy()
        np.add.at(expected, (I, np.arange(4)), Y[:1])
    expected = np.asarray(expected)
    kind = np.dtype(np.float32) if expected.dtype == np.float64 else expected.dtype
    out = empty(expected.shape, kind)
    places = [place(a) for a in arguments]
    parameters = places[:-1] + [out] + places[-1:] if name in ("Mm", "Addmm", "BatchMatMul") else [*places, out]
    run(f"aclnn{name}", parameters)
    np.testing.assert_allclose(to_host(out), expected, rtol=2e-6)


def numeric(function: Any, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """The gradient by differences."""
    x, result = x.astype(np.float64), np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[at] = 1e-5
        result[at] = np.sum((function(x + step) - function(x - step)) * grad) / 2e-5
    return result


def normalised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


BACKWARD: dict[str, tuple[Any, Any]] = {
    "GeluBackward": (lambda x: x * scipy.special.ndtr(x), (Y, X)),
    "SiluBackward": (lambda x: x * scipy.special.expit(x), (Y, X)),
    "SoftmaxBackward": (lambda x: scipy.special.softmax(x, 1), (Y, scipy.special.softmax(X, 1), 1)),
    "LogSoftmaxBackward": (lambda x: scipy.special.log_softmax(x, 1), (Y, scipy.special.log_softmax(X, 1), 1)),
    "TanhBackward": (np.tanh, (Y, np.tanh(X))),
    "SigmoidBackward": (scipy.special.expit, (Y, scipy.special.expit(X))),
    "LayerNormBackward": (
        normalised,
        (
            Y,
            X,
            (4,),
            X.mean(1, keepdims=True),
            (X.var(1, keepdims=True) + 1e-5) ** -0.5,
            None,
            None,
            (True, False, False),
        ),
    ),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_gradient(npu: Any, name: str) -> None:
    function, arguments = BACKWARD[name]
    out = empty(X.shape, X.dtype)
    absent = [None, None] if name == "LayerNormBackward" else []
    run(f"aclnn{name}", [*map(place, arguments), out, *absent])
    np.testing.assert_allclose(to_host(out), numeric(function, X, Y), rtol=2e-3, atol=2e-4)


def test_half_types_are_computed_in_float32(npu: Any) -> None:
    import ml_dtypes

    for kind in (np.float16, ml_dtypes.bfloat16):
        a, out = from_host(X.astype(kind)), empty(X.shape, np.dtype(kind))
        run("aclnnMul", (a, a, out))
        assert (to_host(out) == (X.astype(kind).astype("f") ** 2).astype(kind)).all()


def test_the_same_seed_gives_the_same_numbers(npu: Any) -> None:
    draws = []
    for seed, offset in ((1, 0), (1, 0), (1, 4), (2, 0)):
        out = empty((100,), np.dtype(np.float32))
        run("aclnnInplaceUniform", (out, 0.0, 1.0, seed, offset))
        draws.append(to_host(out))
    assert (draws[0] == draws[1]).all() and (draws[0] != draws[2]).any() and (draws[0] != draws[3]).any()
