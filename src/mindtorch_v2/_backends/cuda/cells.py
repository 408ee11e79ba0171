"""Kernels of recurrent cells: what a time step does besides its product, and the gradients of that."""

import ctypes
import functools

import numpy as np

from .launch import Launch, c_type, compiled

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}

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
def step_launch(what: str, mode: str, kind: np.dtype, rows: int, width: int) -> Launch:
    """The launch of a step of so many rows; its parameters but the last two are what it is called with."""
    text, letters = _TEXTS[what]
    wide, suffix = ("double", "") if kind.itemsize == 8 else ("float", "f")
    modes = "".join(f"#define {name} {int(mode == told)}\n" for name, told in (("LSTM", "lstm"), ("GRU", "gru"),
                                                                               ("RELU", "rnn_relu")))
    named = (f"typedef {c_type(kind)} T;\ntypedef {wide} A;\n#define GATES {GATES[mode]}\n#define EXP exp{suffix}\n"
             f"#define TANH tanh{suffix}\n{modes}")
    fixed = [ctypes.c_longlong(rows), ctypes.c_longlong(width)]
    return Launch(compiled(named + text, "cell"), letters, (-(-rows * width // 128),), (128,), fixed)
