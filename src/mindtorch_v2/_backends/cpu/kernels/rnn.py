"""A direction of a recurrent layer: a product and one kernel for each step, forward and backward."""

from typing import Any

import numpy as np

from ...._kernels.library import recurrent as kernels
from ...._ops.rnn import GATES, GRU, LSTM, _before, _blocks, _rows
from .. import matrices
from ..jit.calls import hurry, launched

hurry(kernels.lstm_step, kernels.gru_step, kernels.lstm_back, kernels.gru_back)


def recurrent_layer(input: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any, mode: str,
                    batch_sizes: tuple, reverse: bool) -> Any:
    if mode not in (LSTM, GRU) or input.dtype.kind != "f" or not input.size:
        return None
    width, kind = w_hh.shape[0] // GATES[mode], input.dtype
    sums = matrices.linear(input, w_ih, b_ih if b_ih is None or mode == GRU else b_ih + b_hh)
    h = h0.copy()
    c: Any = None if c0 is None else c0.copy()
    output, kept = np.empty((len(input), h.shape[1]), kind), np.empty((len(input), width), kind)
    gates, recurrent = np.empty_like(sums), np.empty((len(h), w_hh.shape[0]), kind)
    turned = np.ascontiguousarray(w_hh.T)
    hidden: Any = None if w_hr is None else np.empty((2, len(h), width), kind)
    for rows in _rows(batch_sizes, reverse):
        size = rows.stop - rows.start
        state, made = h[:size], matrices.matmul(h[:size], turned, out=recurrent[:size])
        given = (gates[rows], sums[rows], made)
        if mode == GRU:
            done = launched(kernels.gru_step, *given, sums[0] if b_hh is None else b_hh, kept[rows], state,
                            output[rows], biased=b_hh is not None)
        elif hidden is None:
            done = launched(kernels.lstm_step, *given, c[:size], kept[rows], state, output[rows])
        else:
            done = launched(kernels.lstm_step, *given, c[:size], kept[rows], hidden[0, :size], hidden[1, :size])
            output[rows] = matrices.matmul(hidden[0, :size], w_hr.T, out=state)
        if not done:
            return None
    return output, h, c, gates, kept


def recurrent_layer_backward(grad_output: Any, grad_h: Any, grad_c: Any, input: Any, h0: Any, c0: Any, w_ih: Any,
                             w_hh: Any, w_hr: Any, output: Any, gates: Any, kept: Any, mode: str, batch_sizes: tuple,
                             reverse: bool, output_mask: tuple) -> Any:
    if mode not in (LSTM, GRU) or input.dtype.kind != "f" or not input.size:
        return None
    kind, matmul = input.dtype, matrices.matmul
    before = _before(np, h0, output, batch_sizes, reverse)
    cells_before: Any = _before(np, c0, kept, batch_sizes, reverse) if mode == LSTM else None
    dh = np.zeros(h0.shape, kind) if grad_h is None else grad_h.astype(kind)
    dc: Any = None if c0 is None else np.zeros(c0.shape, kind) if grad_c is None else grad_c.astype(kind)
    of_gates = np.empty((len(input), w_hh.shape[0]), kind)
    from_state = np.empty_like(of_gates) if mode == GRU else of_gates
    of_projected: Any = None if w_hr is None else np.empty(output.shape, kind)
    for rows in _rows(batch_sizes, not reverse):
        size = rows.stop - rows.start
        d, made = dh[:size], of_gates[rows]
        if grad_output is not None:
            d += grad_output[rows]
        if mode == GRU:
            done = launched(kernels.gru_back, made, from_state[rows], d, gates[rows], kept[rows], before[rows])
            d += matmul(from_state[rows], w_hh)
        else:
            of_hidden = d
            if of_projected is not None:
                of_projected[rows] = d
                of_hidden = matmul(d, w_hr)
            done = launched(kernels.lstm_back, made, of_hidden, dc[:size], gates[rows], kept[rows], cells_before[rows])
            matmul(made, w_hh, out=d)
        if not done:
            return None
    of_w_hr = matmul(of_projected.T, _blocks(gates, 4)[3] * np.tanh(kept)) if output_mask[7] else None
    return (matmul(of_gates, w_ih) if output_mask[0] else None, dh, dc,
            matmul(of_gates.T, input) if output_mask[3] else None,
            matmul(from_state.T, before) if output_mask[4] else None,
            of_gates.sum(0) if output_mask[5] else None, from_state.sum(0) if output_mask[6] else None, of_w_hr)
