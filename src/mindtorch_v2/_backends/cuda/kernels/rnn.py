"""A direction of a recurrent layer on a GPU: a product and one kernel for each step, forward and backward."""

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ...._core.device import device
from ...._ops.rnn import GATES, GRU, LSTM
from ....backends import cudnn as settings
from ..array import CudaArray, empty, layout_of
from ..cublas import Product, is_supported, lead
from ..families import copy_array, fill
from ..launch import C_TYPES, Launch, c_type, compiled
from ..plans import dense_if_any, planned, pointer_of
from ..streams import current
from .reduce import Folding

# A thread has one unit of a row; a row of `gates` has a value for each gate of each unit.
_HEAD = r"""
#define AT(gate) (row * GATES * width + gate * width + unit)
#define SIGMOID(x) (1 / (1 + EXP(-(x))))
#define UNIT \
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; \
    if (i >= rows * width) return; \
    int64 row = i / width, unit = i % width;
"""

_STEP = _HEAD + r"""
extern "C" __global__ void cell(T* gates, const T* from_state, const T* b_ih, const T* b_hh, A* cells, T* kept,
                                T* state, T* out, int64 rows, int64 width) {
    UNIT
    A in[GATES], back[GATES];
    #pragma unroll
    for (int k = 0; k < GATES; ++k) {
        in[k] = (A)widened(gates[AT(k)]) + (b_ih ? (A)widened(b_ih[k * width + unit]) : (A)0);
        back[k] = (A)widened(from_state[AT(k)]) + (b_hh ? (A)widened(b_hh[k * width + unit]) : (A)0);
    }
    A made;
#if LSTM
    in[0] = SIGMOID(in[0] + back[0]);
    in[1] = SIGMOID(in[1] + back[1]);
    in[2] = TANH(in[2] + back[2]);
    in[3] = SIGMOID(in[3] + back[3]);
    A cell = cells[i] * in[1] + in[0] * in[2];
    cells[i] = cell;
    kept[i] = narrow<T>::of(cell);
    made = in[3] * TANH(cell);
#elif GRU
    in[0] = SIGMOID(in[0] + back[0]);
    in[1] = SIGMOID(in[1] + back[1]);
    in[2] = TANH(in[2] + in[0] * back[2]);
    kept[i] = narrow<T>::of(back[2]);
    made = ((A)widened(state[i]) - in[2]) * in[1] + in[2];
#elif RELU
    A sum = in[0] + back[0];
    made = sum <= 0 ? (A)0 : sum;
#else
    made = TANH(in[0] + back[0]);
#endif
#if LSTM || GRU
    #pragma unroll
    for (int k = 0; k < GATES; ++k) gates[AT(k)] = narrow<T>::of(in[k]);
#endif
    state[i] = narrow<T>::of(made);
    if (out) out[i] = narrow<T>::of(made);
}
"""

# `before` holds the states of `known` rows before the step (of cells, in an LSTM); other rows began with `first`.
_STEP_BACK = _HEAD + r"""
extern "C" __global__ void cell(T* of_state, const T* grad, A* of_cells, const T* gates, const T* kept, const T* before,
                                const T* first, int64 known, T* made, T* made_back, int64 rows, int64 width) {
    UNIT
    A d = (A)widened(of_state[i]) + (grad ? (A)widened(grad[i]) : (A)0);
#if LSTM || GRU
    A old = (A)widened(row < known ? before[i] : first[i]), gate[GATES];
    #pragma unroll
    for (int k = 0; k < GATES; ++k) gate[k] = (A)widened(gates[AT(k)]);
#endif
#if LSTM
    A tanh_cell = TANH((A)widened(kept[i]));
    A dc = of_cells[i] + d * gate[3] * (1 - tanh_cell * tanh_cell);
    made[AT(0)] = narrow<T>::of(dc * gate[2] * gate[0] * (1 - gate[0]));
    made[AT(1)] = narrow<T>::of(dc * old * gate[1] * (1 - gate[1]));
    made[AT(2)] = narrow<T>::of(dc * gate[0] * (1 - gate[2] * gate[2]));
    made[AT(3)] = narrow<T>::of(d * tanh_cell * gate[3] * (1 - gate[3]));
    of_cells[i] = dc * gate[1];
#elif GRU
    A dn = d * (1 - gate[1]) * (1 - gate[2] * gate[2]), dr = dn * (A)widened(kept[i]) * gate[0] * (1 - gate[0]);
    A dz = d * (old - gate[2]) * gate[1] * (1 - gate[1]);
    made[AT(0)] = made_back[AT(0)] = narrow<T>::of(dr);
    made[AT(1)] = made_back[AT(1)] = narrow<T>::of(dz);
    made[AT(2)] = narrow<T>::of(dn);
    made_back[AT(2)] = narrow<T>::of(dn * gate[0]);
    of_state[i] = narrow<T>::of(d * gate[1]);
#else
    A y = (A)widened(kept[i]);
    made[i] = narrow<T>::of(RELU ? (y > 0 ? d : (A)0) : d * (1 - y * y));
#endif
}
"""

# The hidden state before it was projected, anew.
_HIDDEN = _HEAD + r"""
extern "C" __global__ void cell(const T* gates, const T* kept, T* out, int64 rows, int64 width) {
    UNIT
    out[i] = narrow<T>::of((A)widened(gates[AT(3)]) * TANH((A)widened(kept[i])));
}
"""
_SUM = _HEAD + r"""
extern "C" __global__ void cell(const T* a, const T* b, T* out, int64 rows, int64 width) {
    UNIT
    out[i] = narrow<T>::of((A)widened(a[i]) + (b ? (A)widened(b[i]) : (A)0));
}
"""
_TEXTS = {"forward": (_STEP, "q" * 8), "backward": (_STEP_BACK, "q" * 10), "hidden": (_HIDDEN, "qqq"),
          "sum": (_SUM, "qqq")}


@functools.lru_cache(4096)
def _step_launch(what: str, mode: str, kind: np.dtype, rows: int, width: int) -> Launch:
    """The launch of a step of so many rows; its parameters but the last two are what it is called with."""
    text, letters = _TEXTS[what]
    wide, suffix = ("double", "") if kind.itemsize == 8 else ("float", "f")
    modes = "".join(f"#define {name} {int(mode == told)}\n" for name, told in (("LSTM", "lstm"), ("GRU", "gru"),
                                                                               ("RELU", "rnn_relu")))
    named = (f"typedef {c_type(kind)} T;\ntypedef {wide} A;\n#define GATES {GATES[mode]}\n#define EXP exp{suffix}\n"
             f"#define TANH tanh{suffix}\n{modes}")
    fixed = [ctypes.c_longlong(rows), ctypes.c_longlong(width)]
    return Launch(compiled(named + text, "cell"), letters, (-(-rows * width // 128),), (128,), fixed)


@functools.lru_cache(4096)
def _product(kind: np.dtype, rows: int, inner: int, columns: int, turned_a: bool, turned_b: bool) -> Product:
    """a @ b of matrices in C order, either of which may be meant transposed."""
    a = lead(rows, inner, 1, rows) if turned_a else lead(rows, inner, inner, 1)
    b = lead(inner, columns, 1, inner) if turned_b else lead(inner, columns, columns, 1)
    assert a is not None and b is not None
    return Product(kind, rows, inner, columns, a, b)


def _copied(array: CudaArray | None, shape: tuple[int, ...], kind: np.dtype, where: device) -> CudaArray:
    """A copy in C order, of zeros where there is no array."""
    made = empty(layout_of(shape, kind), where)
    if array is None:
        fill(made, 0)
    else:
        copy_array(made, array)
    return made


def _move(target: int, source: int, count: int) -> None:
    if count:
        cupy.cuda.runtime.memcpyAsync(target, source, count, 3, current.handle)


class _Layer:
    """The geometry of a layer: first row and size of each step in the order of time, and the sizes in bytes."""

    def __init__(self, input: CudaArray, h0: CudaArray, w_hh: CudaArray, mode: str, batch_sizes: Sequence[int],
                 reverse: bool) -> None:
        self.kind, self.mode = input.dtype, mode
        self.rows, self.inputs = input.shape
        self.batch, self.states = h0.shape
        self.gates = w_hh.shape[0]
        self.width = self.gates // GATES[mode]
        starts = [end - size for end, size in zip(itertools.accumulate(batch_sizes), batch_sizes, strict=True)]
        self.steps = list(zip(starts, batch_sizes, strict=True))[:: -1 if reverse else 1]
        self.wide = np.dtype(np.float64 if self.kind.itemsize == 8 else np.float32)
        item = self.kind.itemsize
        self.gates_row, self.state_row, self.unit_row = (n * item for n in (self.gates, self.states, self.width))

    def array(self, where: device, *shape: int, wide: bool = False) -> CudaArray:
        return empty(layout_of(shape, self.wide if wide else self.kind), where)

    def times(self, rows: int, inner: int, columns: int, turned_a: bool = False, turned_b: bool = False) -> Product:
        return _product(self.kind, rows, inner, columns, turned_a, turned_b)


def _is_taken(arrays: Sequence[Any], kind: np.dtype) -> bool:
    return kind.name in C_TYPES and is_supported(kind) and all(
        a is None or a.size and a.dtype == kind for a in arrays)


@planned
def recurrent_layer(specs: Any, input: CudaArray, h0: CudaArray, c0: Any, w_ih: CudaArray, w_hh: CudaArray, b_ih: Any,
                    b_hh: Any, w_hr: Any, mode: str, batch_sizes: tuple, reverse: bool,
                    saves: bool) -> Callable | None:
    layer = _Layer(input, h0, w_hh, mode, batch_sizes, reverse)
    if not _is_taken((input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr), layer.kind) or min(batch_sizes) < 1:
        return None
    gated = mode in (LSTM, GRU)
    states, gates, width = layer.states, layer.gates, layer.width
    project_input = layer.times(layer.rows, layer.inputs, gates, turned_b=True)
    projects = w_hr is not None
    steps = [(start, size, layer.times(size, states, gates, turned_b=True),
              _step_launch("forward", mode, layer.kind, size, width),
              layer.times(size, width, states, turned_b=True) if projects else None) for start, size in layer.steps]

    def run(input: CudaArray, h0: CudaArray, c0: Any, w_ih: CudaArray, w_hh: CudaArray, b_ih: Any, b_hh: Any, w_hr: Any,
            *options: Any) -> Any:
        where, tf32 = input.device, settings.allow_tf32
        source, weights, recurrent, b_in, b_back, projection = map(dense_if_any, (input, w_ih, w_hh, b_ih, b_hh, w_hr))
        activations, output = layer.array(where, layer.rows, gates), layer.array(where, layer.rows, states)
        kept = layer.array(where, layer.rows if gated else 0, width)
        from_state = layer.array(where, layer.batch, gates)
        state = _copied(h0, h0.shape, layer.kind, where)
        cells = None if c0 is None else _copied(c0, c0.shape, layer.wide, where)
        hidden = layer.array(where, layer.batch, width) if projects else None
        project_input.into(source.pointer, weights.pointer, activations.pointer, tf32)
        at, at_cells = state.pointer, pointer_of(cells)
        biases, back = (pointer_of(b_in), pointer_of(b_back)), (recurrent.pointer, from_state.pointer)
        for start, size, product, launch, project in steps:
            product.into(at, *back, tf32)
            made = output.pointer + start * layer.state_row
            launch(activations.pointer + start * layer.gates_row, back[1], *biases, at_cells,
                   kept.pointer + start * layer.unit_row, at if hidden is None else hidden.pointer,
                   made if hidden is None else 0)
            if project is not None:
                project.into(pointer_of(hidden), projection.pointer, made, tf32)
                _move(at, made, size * layer.state_row)
        last = cells if cells is None or layer.wide == layer.kind else _copied(cells, cells.shape, layer.kind, where)
        saved = activations if gated else layer.array(where, 0, width)
        return output, state, last, *((saved, kept) if saves else (None, None))

    return run


def _states_before(layer: _Layer, first: CudaArray, output: CudaArray, where: device) -> CudaArray:
    """For each row the hidden state that its step began with."""
    made, row = layer.array(where, layer.rows, layer.states), layer.state_row
    if all(size == layer.batch for _, size in layer.steps):  # a padded sequence: all rows move by one step
        rest = (layer.rows - layer.batch) * row
        late = layer.batch * row if layer.steps[0][0] == 0 else 0
        _move(made.pointer + late, output.pointer + layer.batch * row - late, rest)
        _move(made.pointer + (0 if late else rest), first.pointer, layer.batch * row)
        return made
    earlier, known = 0, 0
    for start, size in layer.steps:
        shared = min(known, size)
        _move(made.pointer + start * row, output.pointer + earlier * row, shared * row)
        _move(made.pointer + (start + shared) * row, first.pointer + shared * row, (size - shared) * row)
        earlier, known = start, size
    return made


@planned
def recurrent_layer_backward(specs: Any, grad_output: Any, grad_h: Any, grad_c: Any, input: CudaArray, h0: CudaArray,
                             c0: Any, w_ih: CudaArray, w_hh: CudaArray, w_hr: Any, output: CudaArray, gates: CudaArray,
                             kept: CudaArray, mode: str, batch_sizes: tuple, reverse: bool,
                             output_mask: tuple) -> Callable | None:
    layer = _Layer(input, h0, w_hh, mode, batch_sizes, reverse)
    if not _is_taken((grad_output, grad_h, grad_c, input, h0, c0, w_ih, w_hh, w_hr, output), layer.kind):
        return None
    if min(batch_sizes) < 1 or sum(batch_sizes) != layer.rows:
        return None
    kind, rows = layer.kind, layer.rows
    states, columns, width, projects = layer.states, layer.gates, layer.width, w_hr is not None
    preceding = [(0, 0), *layer.steps[:-1]]
    steps = [(start, size, *before, _step_launch("backward", mode, kind, size, width),
              layer.times(size, columns, states), layer.times(size, states, width) if projects else None)
             for (start, size), before in reversed(list(zip(layer.steps, preceding, strict=True)))]
    bias_sums = Folding("sum", kind, layer.wide, layout_of((columns,), kind), 1, rows, columns)

    def run(grad_output: Any, grad_h: Any, grad_c: Any, input: CudaArray, h0: CudaArray, c0: Any, w_ih: CudaArray,
            w_hh: CudaArray, w_hr: Any, output: CudaArray, gates: CudaArray, kept: CudaArray, *options: Any) -> Any:
        where, tf32 = input.device, settings.allow_tf32
        source, weights, recurrent, projection, outputs = map(dense_if_any, (input, w_ih, w_hh, w_hr, output))
        saved, cells, first, first_cells, grads = map(dense_if_any, (gates, kept, h0, c0, grad_output))
        of_state = _copied(grad_h, h0.shape, kind, where)
        of_cells = None if c0 is None else _copied(grad_c, c0.shape,
                                                   layer.wide, where)
        of_gates = layer.array(where, rows, columns)
        from_state = layer.array(where, rows, columns) if mode == GRU else of_gates
        of_projected = layer.array(where, rows, states) if projects else None
        of_hidden = layer.array(where, layer.batch, width) if projects else None
        if mode == LSTM:
            earlier, earliest, row = cells, first_cells, layer.unit_row
        else:
            earlier, earliest, row = outputs, first, layer.state_row
        remembered = cells if mode in (LSTM, GRU) else outputs
        for start, size, before, known, launch, product, unproject in steps:
            d, grad = of_state.pointer, 0 if grads is None else grads.pointer + start * layer.state_row
            if unproject is not None:
                assert of_projected is not None and of_hidden is not None
                joined = of_projected.pointer + start * layer.state_row
                _step_launch("sum", mode, kind, size, states)(d, grad, joined)
                unproject.into(joined, projection.pointer, of_hidden.pointer, tf32)
                d, grad = of_hidden.pointer, 0
            made, back = of_gates.pointer + start * layer.gates_row, from_state.pointer + start * layer.gates_row
            launch(d, grad, pointer_of(of_cells), saved.pointer + start * layer.gates_row,
                   remembered.pointer + start * layer.unit_row, earlier.pointer + before * row, earliest.pointer, known,
                   made, back)
            if mode == GRU:  # whose state also goes past the gates
                product(back, recurrent.pointer, of_state.pointer, tf32, 0, product.one)
            else:
                product.into(back, recurrent.pointer, of_state.pointer, tf32)
        made_all: list[Any] = [None, of_state if output_mask[1] else None, None, None, None, None, None, None]
        if output_mask[0]:
            made_all[0] = layer.array(where, rows, layer.inputs)
            layer.times(rows, columns, layer.inputs).into(of_gates.pointer, weights.pointer, made_all[0].pointer, tf32)
        if output_mask[2] and of_cells is not None:
            made_all[2] = of_cells if layer.wide == kind else _copied(of_cells, of_cells.shape, kind, where)

        def turned(a: CudaArray, b: CudaArray) -> CudaArray:
            """The transposed of a times b, both of all rows."""
            height, across = a.shape[1], b.shape[1]
            made = layer.array(where, height, across)
            layer.times(height, rows, across, turned_a=True).into(a.pointer, b.pointer, made.pointer, tf32)
            return made

        if output_mask[3]:
            made_all[3] = turned(of_gates, source)
        if output_mask[4]:
            made_all[4] = turned(from_state, _states_before(layer, first, outputs, where))
        for i, summed in ((5, of_gates), (6, from_state)):
            if output_mask[i]:
                made_all[i] = bias_sums(summed)
        if output_mask[7] and of_projected is not None:
            hidden = layer.array(where, rows, width)
            _step_launch("hidden", mode, kind, rows, width)(saved.pointer, cells.pointer, hidden.pointer)
            made_all[7] = turned(of_projected, hidden)
        return made_all

    return run
