"""Attention's graphs for cuDNN, computed by NumPy operation by operation: they are attention and its gradients."""

import ctypes
import importlib.util
import pathlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import mindtorch_v2

OPERATIONS = {13: "pointwise", 19: "product", 22: "reduction", 31: "turn"}
FUNCTIONS: dict[int, Callable] = {
    0: np.add, 1: np.multiply, 6: np.divide, 9: np.subtract, 13: np.exp, 15: np.log, 21: np.positive,
    303: np.greater_equal, 601: lambda x, other, choice: np.where(choice, x, other),
}  # fmt: skip
INDEX = 501
TYPES = {"float32": np.float64, "bfloat16": np.float64, "int32": np.int64, "bool": np.bool_}


class Tensor(NamedTuple):
    number: int
    kind: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    virtual: bool
    by_value: bool


class Descriptor:
    """What was said of an operation, or of its function, by the numbers of the attributes."""

    def __init__(self, kind: int, *attributes: tuple[int, int, Any]) -> None:
        self.kind, self.said = kind, {name: values[0] for name, _, values in attributes}


class Plan:
    """Runs a graph on memory: flat arrays by addresses."""

    memory: dict[int, np.ndarray] = {}

    def __init__(self, operations: list[Descriptor], numbers: list[int], device: int) -> None:
        self.operations, self.numbers = operations, numbers

    def __call__(self, *addresses: int) -> None:
        self.places = dict(zip(self.numbers, addresses, strict=True))
        self.values: dict[int, np.ndarray] = {}
        for operation in self.operations:
            getattr(self, OPERATIONS[operation.kind])(operation.said)

    def read(self, x: Tensor) -> np.ndarray:
        if x.virtual:
            return self.values[x.number]
        if x.by_value:
            return np.float64(ctypes.c_float.from_address(self.places[x.number]).value)
        flat = self.memory[self.places[x.number]]
        return np.lib.stride_tricks.as_strided(flat, x.shape, [s * flat.itemsize for s in x.strides])

    def write(self, x: Tensor, made: np.ndarray) -> None:
        assert made.shape == x.shape
        if x.virtual:
            self.values[x.number] = made.astype(TYPES[x.kind])
        else:
            self.read(x)[...] = made

    def pointwise(self, said: dict) -> None:
        function, x = said[750].said, said[751]
        if function[0] == INDEX:
            made = np.indices(x.shape)[function[9]]
        else:
            made = FUNCTIONS[function[0]](*[self.read(said[name]) for name in (751, 752, 758) if name in said])
        self.write(said[753], made)

    def product(self, said: dict) -> None:
        a, b = self.read(said[1520]), self.read(said[1521])
        heads = max(a.shape[1], b.shape[1])
        a, b = (np.repeat(x, heads // x.shape[1], 1) for x in (a, b))
        self.write(said[1522], a @ b)

    def reduction(self, said: dict) -> None:
        x, out = self.read(said[1610]), said[1611]
        function = {0: np.sum, 3: np.max}[said[1612].said[1600]]
        if x.shape[1] != out.shape[1]:  # heads that share keys
            x = x.reshape(x.shape[0], out.shape[1], -1, *x.shape[2:])
            self.write(out, function(x, axis=2))
        else:
            self.write(out, function(x, axis=3, keepdims=True))

    def turn(self, said: dict) -> None:
        x, out = said[2200], said[2201]
        assert out.strides == (*x.strides[:2], x.strides[3], x.strides[2])
        self.write(out, np.swapaxes(self.read(x), 2, 3))


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, on a library that writes down what it is told."""

    def tensor(number: int, kind: str, shape: Any, strides: Any, virtual: bool = False, by_value: bool = False) -> Any:
        return Tensor(number, kind, tuple(shape), tuple(strides), virtual, by_value)

    stand_in = types.ModuleType("cudnn")
    stand_in.__dict__.update(
        DATA_TYPE=1, INT64=3, DESCRIPTOR=15, Descriptor=Descriptor, Plan=Plan, tensor=tensor, library=lambda: stand_in,
        version=lambda: stand_in.found, found=91900, longs=list, one=lambda value: [value],
        data_type=lambda kind: [kind])  # fmt: skip
    package = "mindtorch_v2._backends.cuda"
    monkeypatch.setitem(sys.modules, f"{package}.cudnn", stand_in)
    path = pathlib.Path(mindtorch_v2.__file__).parent / "_backends/cuda/cudnn_attention.py"
    spec = importlib.util.spec_from_file_location(f"{package}.cudnn_attention", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.stand_in = stand_in  # type: ignore[attr-defined]
    yield module


def weights_of(q: np.ndarray, k: np.ndarray, causal: bool, scale: float) -> tuple[np.ndarray, np.ndarray]:
    scores = q @ np.swapaxes(k, 2, 3) * scale
    if causal:
        rows, columns = np.indices(scores.shape[2:])
        scores = np.where(rows >= columns, scores, -np.inf)
    norms = np.log(np.exp(scores).sum(3, keepdims=True))
    return np.exp(scores - norms), norms


@pytest.mark.parametrize("by_tokens", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads, key_heads, queries, keys", [(2, 2, 5, 7), (4, 2, 6, 4), (3, 1, 4, 4)])
def test_graphs_are_attention(graphs: Any, heads: int, key_heads: int, queries: int, keys: int, causal: bool,
                              by_tokens: bool) -> None:
    batch, width, v_width, scale = 2, 8, 16, 0.25
    chance = np.random.default_rng(0)
    call = graphs.Geometry("bfloat16", batch, heads, key_heads, queries, keys, width, v_width, causal, scale)
    memory: dict[int, np.ndarray] = {}

    def placed(shape: tuple[int, ...], between: int = 0) -> tuple[int, np.ndarray, tuple[int, ...]]:
        """An address, the array there, and its steps: tokens first, with something between them."""
        batch, heads, rows, columns = shape
        step = heads * columns + between
        address = 4096 + len(memory)
        memory[address] = chance.standard_normal(batch * rows * step)
        size = memory[address].itemsize
        steps = rows * step, columns, step
        view = np.lib.stride_tricks.as_strided(memory[address], shape, [size * s for s in (*steps, 1)])
        return address, view, steps

    def plain(*shape: int) -> tuple[int, np.ndarray]:
        address = 4096 + len(memory)
        memory[address] = np.full(int(np.prod(shape)), np.nan)
        return address, memory[address].reshape(shape)

    Plan.memory = memory
    (at_q, q, q_steps), (at_k, k, k_steps) = placed((batch, heads, queries, width), 24), placed(call.key_shape, 8)
    at_v, v, v_steps = placed((batch, key_heads, keys, v_width))
    at_out, out, out_steps = placed((batch, heads, queries, v_width))
    at_grad, grad, _ = placed((batch, heads, queries, v_width))
    at_norms, norms = plain(*call.rows)
    steps = (q_steps, k_steps, v_steps, out_steps)

    graphs.forward(call, steps, 0)(at_q, at_k, at_v, at_out, at_norms)
    all_k, all_v = (np.repeat(x, heads // key_heads, 1) for x in (k, v))
    weights, wanted_norms = weights_of(q, all_k, causal, scale)
    np.testing.assert_allclose(norms, wanted_norms, rtol=1e-6)
    np.testing.assert_allclose(out, weights @ all_v, rtol=1e-6, atol=1e-9)

    made = [plain(batch, heads, queries, width), plain(*call.key_shape), plain(*call.key_shape[:3], v_width)]
    if by_tokens:
        made = [(at, x.reshape(batch, x.shape[2], x.shape[1], -1).swapaxes(1, 2)) for at, x in made]
    sums, summed = plain(*call.rows), plain(batch, heads, queries, width)
    run = graphs.backward(call, steps, 0, by_tokens)
    run(at_q, at_k, at_v, at_out, at_grad, at_norms, *[at for at, _ in made], sums[0], summed[0])
    of_weights = grad @ np.swapaxes(all_v, 2, 3)
    of_scores = weights * (of_weights - (of_weights * weights).sum(3, keepdims=True)) * scale

    def shared(x: np.ndarray) -> np.ndarray:
        return x.reshape(batch, key_heads, -1, *x.shape[2:]).sum(2)

    wanted = [of_scores @ all_k, shared(np.swapaxes(of_scores, 2, 3) @ q), shared(np.swapaxes(weights, 2, 3) @ grad)]
    for (_, one), other in zip(made, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-8)


def test_versions_with_faults_are_not_asked(graphs: Any) -> None:
    steps = ((512, 256, 16),) * 4
    call = graphs.Geometry("float16", 1, 2, 2, 16, 16, 16, 16, False, 0.25)
    whole = call._replace(keys=128)
    for version, found in ((None, (False,) * 4), (91000, (False,) * 4), (91400, (True, False, True, True)),
                           (91900, (True,) * 4)):  # fmt: skip
        graphs.stand_in.found = version
        for function in (graphs.forward, graphs.backward):
            function.cache_clear()
        plans = [function(each, steps, *given) for each in (call, whole)
                 for function, given in ((graphs.forward, (0,)), (graphs.backward, (0, True)))]
        assert tuple(plan is not None for plan in plans) == found
