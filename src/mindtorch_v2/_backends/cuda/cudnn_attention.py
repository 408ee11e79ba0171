"""Attention and its gradients as graphs of cuDNN's operations, for which it has kernels that keep scores to themselves.

cuDNN knows these graphs by their shape: which operations there are, and the types of the arrays between them.
"""

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._core.geometry import contiguous_strides, strides_by_tokens
from .cudnn import DATA_TYPE, DESCRIPTOR, INT64, Descriptor, Plan, data_type, library, longs, one, tensor, version

_SOUND = 91002  # the version of cuDNN from which on no faults of such graphs are known
_ENDS_ANYWHERE = 91501  # and that from which on gradients are right for any number of keys; before, for _WHOLE ones
_WHOLE = 128

# kinds of descriptors, and types of attributes
_POINTWISE, _PRODUCT, _REDUCTION = 0, 18, 21
_POINTWISE_CALL, _PRODUCT_CALL, _REDUCTION_CALL, _TURN_CALL = 13, 19, 22, 31
_POINTWISE_MODE, _REDUCTION_MODE = 14, 18
_MODES = {"add": 0, "mul": 1, "div": 6, "sub": 9, "exp": 13, "log": 15, "identity": 21, "ge": 303, "index": 501,
          "select": 601}
_REDUCTIONS = {"sum": 0, "max": 3}


class Geometry(NamedTuple):
    """Sizes of a call; `kind` is the name of its type."""

    kind: str
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    v_width: int
    causal: bool
    scale: float

    @property
    def scores(self) -> tuple[int, ...]:
        return self.batch, self.heads, self.queries, self.keys

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape of numbers that each query has one of."""
        return *self.scores[:3], 1

    @property
    def key_shape(self) -> tuple[int, ...]:
        return self.batch, self.key_heads, self.keys, self.width


Steps = tuple[int, ...]  # strides in elements over batch, heads, and rows; columns are neighbours


class _Array(NamedTuple):
    """An array of a graph."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    descriptor: Descriptor


def _turned(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes, or strides, of the transposed matrices."""
    batch, heads, rows, columns = sizes
    return batch, heads, columns, rows


class _Graph:
    """Operations, and the arrays that a plan is called with: first those in memory, then numbers."""

    def __init__(self) -> None:
        self.operations: list[Descriptor] = []
        self.given: list[int] = []
        self.constants: list[tuple[int, Any]] = []
        self.count = 0

    def _array(self, kind: str, shape: Sequence[int], strides: Sequence[int] | None, virtual: bool = False,
               by_value: bool = False) -> _Array:  # fmt: skip
        self.count += 1
        shape = tuple(shape)
        steps = contiguous_strides(shape) if strides is None else tuple(strides)
        return _Array(shape, steps, tensor(self.count, kind, shape, steps, virtual=virtual, by_value=by_value))

    def memory(self, kind: str, shape: Sequence[int], strides: Sequence[int] | None = None) -> _Array:
        made = self._array(kind, shape, strides)
        self.given.append(self.count)
        return made

    def number(self, value: float) -> _Array:
        made = self._array("float32", (1, 1, 1, 1), None, by_value=True)
        self.constants.append((self.count, ctypes.c_float(value)))
        return made

    def between(self, shape: Sequence[int], kind: str = "float32", strides: Sequence[int] | None = None) -> _Array:
        return self._array(kind, shape, strides, virtual=True)

    def pointwise(self, mode: str, *operands: _Array, out: _Array | None = None, kind: str = "float32",
                  computed: str = "float32", axis: int | None = None) -> _Array:
        """A function of elements: of the first operand's shape unless `out` is given."""
        out = self.between(operands[0].shape, kind) if out is None else out
        along = [] if axis is None else [(9, INT64, longs([axis]))]
        function = Descriptor(_POINTWISE, (0, _POINTWISE_MODE, one(_MODES[mode])), (1, DATA_TYPE, data_type(computed)),
                              *along)
        arrays = [(name, each.descriptor) for name, each in zip((751, 752, 758), operands, strict=False)]
        self._add(_POINTWISE_CALL, (750, function), *arrays, (753, out.descriptor))
        return out

    def product(self, a: _Array, b: _Array, out: _Array) -> _Array:
        function = Descriptor(_PRODUCT, (1500, DATA_TYPE, data_type("float32")))
        self._add(_PRODUCT_CALL, (1523, function), (1520, a.descriptor), (1521, b.descriptor), (1522, out.descriptor))
        return out

    def reduced(self, mode: str, x: _Array, out: _Array) -> _Array:
        function = Descriptor(_REDUCTION, (1601, DATA_TYPE, data_type("float32")),
                              (1600, _REDUCTION_MODE, one(_REDUCTIONS[mode])))
        self._add(_REDUCTION_CALL, (1612, function), (1610, x.descriptor), (1611, out.descriptor))
        return out

    def turned(self, x: _Array, kind: str = "float32") -> _Array:
        """The transposed matrices, as elements lie."""
        out = self.between(_turned(x.shape), kind, _turned(x.strides))
        self._add(_TURN_CALL, (2200, x.descriptor), (2201, out.descriptor))
        return out

    def _add(self, kind: int, *parts: tuple[int, Descriptor]) -> None:
        """An operation, by its attributes."""
        self.operations.append(Descriptor(kind, *((name, DESCRIPTOR, [part]) for name, part in parts)))

    def hidden(self, scores: _Array) -> _Array:
        """Scores of keys after the query are the smallest there is."""
        row, column = (self.pointwise("index", scores, kind="int32", axis=axis) for axis in (2, 3))
        seen = self.pointwise("ge", row, column, kind="bool", computed="bool")
        return self.pointwise("select", scores, self.number(-float("inf")), seen)


class Call:
    """A plan, called by the addresses of the graph's arrays."""

    def __init__(self, graph: _Graph, device: int) -> None:
        numbers, self.kept = zip(*graph.constants, strict=True)
        self.constants = [ctypes.addressof(value) for value in self.kept]
        self.plan = Plan(graph.operations, [*graph.given, *numbers], device)

    def __call__(self, *addresses: int) -> None:
        self.plan(*addresses, *self.constants)


@functools.lru_cache(1024)
def forward(call: Geometry, steps: tuple[Steps, ...], device: int) -> Call | None:
    """`run(q, k, v, output, norms)`, where norms are logarithms of sums; `steps` are those of the first four.

    None where cuDNN has no way, or has one that is known to be wrong.
    """
    if library() is None or (version() or 0) < _SOUND:
        return None
    graph, kind = _Graph(), call.kind
    try:
        q = graph.memory(kind, (*call.rows[:3], call.width), (*steps[0], 1))
        k = graph.memory(kind, _turned(call.key_shape), _turned((*steps[1], 1)))
        v = graph.memory(kind, (*call.key_shape[:3], call.v_width), (*steps[2], 1))
        out = graph.memory(kind, (*call.rows[:3], call.v_width), (*steps[3], 1))
        norms = graph.memory("float32", call.rows)
        scores = graph.product(q, k, graph.between(call.scores))
        scores = graph.pointwise("mul", scores, graph.number(call.scale))
        if call.causal:
            scores = graph.hidden(scores)
        top = graph.reduced("max", scores, graph.between(call.rows))
        weights = graph.pointwise("exp", graph.pointwise("sub", scores, top))
        total = graph.reduced("sum", weights, graph.between(call.rows))
        graph.pointwise("add", top, graph.pointwise("log", total), out=norms)
        graph.product(graph.pointwise("div", weights, total, kind=kind), v, out)
        return Call(graph, device)
    except LookupError:
        return None


@functools.lru_cache(1024)
def backward(call: Geometry, steps: tuple[Steps, ...], device: int, by_tokens: bool) -> Call | None:
    """`run(q, k, v, output, grad, norms, of_q, of_k, of_v, sums, of_q in float32)`.

    `steps` are those of q, k, v and the output; the output's gradient has those of the output. The other gradients are
    contiguous, or lie token by token, with the heads of one together.
    """
    found = version() or 0
    if library() is None or found < _SOUND or (found < _ENDS_ANYWHERE and call.keys % _WHOLE):
        return None
    graph, kind = _Graph(), call.kind
    try:
        q = graph.memory(kind, (*call.rows[:3], call.width), (*steps[0], 1))
        k = graph.memory(kind, _turned(call.key_shape), _turned((*steps[1], 1)))
        v = graph.memory(kind, _turned((*call.key_shape[:3], call.v_width)), _turned((*steps[2], 1)))
        out, grad = (graph.memory(kind, (*call.rows[:3], call.v_width), (*steps[3], 1)) for _ in range(2))
        norms = graph.memory("float32", call.rows)
        of_q, of_k, of_v = (graph.memory(kind, shape, strides_by_tokens(shape) if by_tokens else None) for shape in (
            q.shape, call.key_shape, (*call.key_shape[:3], call.v_width)))
        sums, summed = graph.memory("float32", call.rows), graph.memory("float32", q.shape)
        scale = graph.number(call.scale)
        along = graph.reduced("sum", graph.pointwise("mul", grad, out), graph.between(call.rows))
        graph.pointwise("mul", along, graph.number(1), out=sums)
        scores = graph.pointwise("mul", graph.product(q, k, graph.between(call.scores)), scale)
        scores = graph.pointwise("sub", scores, norms)
        if call.causal:
            scores = graph.hidden(scores)
        weights = graph.pointwise("exp", scores)
        _summed_product(graph, call, graph.turned(weights, kind), grad, of_v)
        of_weights = graph.product(grad, v, graph.between(call.scores))
        of_scores = graph.pointwise("mul", graph.pointwise("sub", of_weights, sums), weights)
        of_scores = graph.pointwise("mul", of_scores, scale)
        _summed_product(graph, call, graph.turned(of_scores, kind), q, of_k)
        graph.product(of_scores, graph.turned(k), summed)
        graph.pointwise("identity", summed, out=of_q)
        return Call(graph, device)
    except LookupError:
        return None


def _summed_product(graph: _Graph, call: Geometry, a: _Array, b: _Array, out: _Array) -> None:
    """The product, summed over the heads of queries that share keys."""
    if call.heads == call.key_heads:
        graph.product(a, b, out)
    else:
        whole = graph.between((call.batch, call.heads, *out.shape[2:]), call.kind)
        graph.reduced("sum", graph.product(a, b, whole), out)
