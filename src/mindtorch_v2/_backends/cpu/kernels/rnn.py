"""A direction of a recurrent layer: one kernel for all steps, forward and backward, and products around it.

Where no kernels are compiled, Python threads take some samples each.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.threads import blas, get_num_threads
from ...._kernels.library import recurrent as kernels
from ...._ops.rnn import GATES, GRU, LSTM, _blocks, _layer_array, _layer_backward_array, _rows
from .. import blas_team, matrices, xp
from ..factors import factor_of
from ..jit.calls import hurry, launched, note
from ..jit.machine import tile
from ..jit.packing import packed
from ..programs import deal
from ..shared import plain
from ..team import in_parts, is_used, worth

hurry(kernels.lstm, kernels.gru, kernels.lstm_back, kernels.gru_back, kernels.states_before)

_SMALL_PRODUCT = 1 << 19  # multiplications up to which OpenBLAS copies no matrix before
_ROWS = 8  # from which on a product uses the weights that it loads well
_SAMPLES = 16  # that a Python thread takes at least, so that it computes longer than it asks for the interpreter


def _tile() -> str:
    """The name of the processor's tile; nothing where that is not known, and BLAS multiplies."""
    found = tile()
    return "" if found is None else found.name


def _factor(weight: Any, turned: bool) -> tuple[Any, bool]:
    """A weight, or its transpose, for kernels to multiply with; False while there is no machine code that packs it."""
    found = tile()
    if found is None:
        return np.ascontiguousarray(weight.T if turned else weight), True
    factor, key = factor_of(weight), ("panels", turned, found, weight.shape, weight.strides)
    kept = None if factor is None else factor.forms.get(key)
    if kept is not None:
        return kept, True
    made, is_ready = packed(np.ascontiguousarray(weight), turned, found)
    return (made if factor is None or not is_ready else factor.form(key, lambda: made)), is_ready


@functools.lru_cache(64)
def _steps(batch_sizes: tuple[int, ...], reverse: bool) -> Any:
    """Where the rows of each step begin and how many they are, in the order in which a direction takes the steps."""
    return np.array([(rows.start, rows.stop - rows.start) for rows in _rows(batch_sizes, reverse)], np.int64)


def _takes(mode: str, input: Any, w_hh: Any) -> bool:
    return mode in (LSTM, GRU) and input.dtype.char in "fd" and input.size > 0 < w_hh.size and blas() is not None


def _parts(rows: int, w_hh: Any) -> int:
    """How many parts the rows of a batch are cut into: one for each thread.

    Where BLAS multiplies as many for each thread, so many that products are small.
    """
    threads = get_num_threads()
    if tile() is not None:
        return min(threads, rows)
    small = _SMALL_PRODUCT // w_hh.size
    rounds = math.ceil(rows / threads / small) if small >= _ROWS else 1
    return min(threads * rounds, rows)


def _by_samples(compute: Callable[..., tuple], w_hh: Any, batch_sizes: tuple) -> list[tuple] | None:
    """What `compute(of_steps, of_states, batch_sizes)` makes of parts of the samples.

    None if they differ in length, or if a step is little work: its many calls would wait for the interpreter.
    The functions that it is given take the rows of some samples out of an array of all steps, or of states.
    """
    steps, batch = len(batch_sizes), batch_sizes[0]
    if batch_sizes[-1] != batch or worth(batch * w_hh.size) == 1:
        return None

    def some(part: slice) -> tuple:
        rows = slice(part.start * _SAMPLES, min(part.stop * _SAMPLES, batch))

        def of_steps(array: Any) -> Any:
            return None if array is None else array.reshape(steps, batch, -1)[:, rows].reshape(-1, array.shape[1])

        def of_states(array: Any) -> Any:
            return None if array is None else array[rows]

        return compute(of_steps, of_states, (rows.stop - rows.start,) * steps)

    return in_parts(some, -(-batch // _SAMPLES), batch * w_hh.size)


def _all_states(parts: Sequence[Any]) -> Any:
    return parts[0] if parts[0] is None or len(parts) == 1 else np.concatenate(parts)


def _all_steps(parts: Sequence[Any], steps: int) -> Any:
    if parts[0] is None or len(parts) == 1:
        return parts[0]
    made = np.concatenate([part.reshape(steps, -1, part.shape[1]) for part in parts], 1)
    return made.reshape(-1, made.shape[2])


def _layer_by_samples(input: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any, mode: str,
                      batch_sizes: tuple, reverse: bool, saves: bool) -> Any:
    parts = _by_samples(lambda of_steps, of_states, sizes: _layer_array(
        xp, of_steps(input), of_states(h0), of_states(c0), w_ih, w_hh, b_ih, b_hh, w_hr, mode, sizes, reverse,
        saves),
        w_hh, batch_sizes)
    if parts is None:
        return None
    output, h, c, gates, kept = zip(*parts, strict=True)
    steps = len(batch_sizes)
    return (_all_steps(output, steps), _all_states(h), _all_states(c), _all_steps(gates, steps),
            _all_steps(kept, steps))


def _backward_by_samples(grad_output: Any, grad_h: Any, grad_c: Any, input: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any,
                         w_hr: Any, output: Any, gates: Any, kept: Any, mode: str, batch_sizes: tuple, reverse: bool,
                         output_mask: tuple) -> Any:
    parts = _by_samples(lambda of_steps, of_states, sizes: _layer_backward_array(
        xp, of_steps(grad_output), of_states(grad_h), of_states(grad_c), of_steps(input), of_states(h0),
        of_states(c0), w_ih, w_hh, w_hr, of_steps(output), of_steps(gates), of_steps(kept), mode, sizes, reverse,
        output_mask),
        w_hh, batch_sizes)
    if parts is None:
        return None
    of_input, of_h, of_c, *of_weights = zip(*parts, strict=True)
    return (_all_steps(of_input, len(batch_sizes)), _all_states(of_h), _all_states(of_c),
            *(None if some[0] is None else sum(some) for some in of_weights))


def recurrent_layer(input: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any, mode: str,
                    batch_sizes: tuple, reverse: bool, saves: bool) -> Any:
    if not _takes(mode, input, w_hh):
        return None
    if blas_team.is_used():
        arrays = map(plain, (input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr))
        arguments: tuple[Any, ...] = (xp, *arrays, mode, batch_sizes, reverse, saves, deal)
        return _layer_array(*arguments)
    if is_used():
        return _layer_by_samples(input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, mode, batch_sizes, reverse, saves)
    width, kind = w_hh.shape[0] // GATES[mode], input.dtype
    sums = matrices.linear(input, w_ih, b_ih if b_ih is None or mode == GRU else b_ih + b_hh)
    weight, is_ready = _factor(w_hh, turned=True)
    h = h0.copy("C")
    c: Any = None if c0 is None else c0.copy("C")
    saved = len(input) if saves else 0
    output, kept = np.empty((len(input), h.shape[1]), kind), np.empty((saved, width), kind)
    gates, made = np.empty_like(sums) if saves else kept, np.empty((len(h), len(w_hh)), kind)
    given = (_steps(tuple(batch_sizes), reverse), _parts(len(h), w_hh))
    wide = blas().integers == 64  # type: ignore[union-attr]
    if mode == GRU:
        run = launched if is_ready else note
        done = run(kernels.gru, gates, sums, made, sums[0] if b_hh is None else b_hh, kept, h, output, weight,
                   *given, biased=b_hh is not None, saves=saves, tile=_tile(), wide=wide)
    else:
        projecting = (h, weight)
        if w_hr is not None:
            projection, is_packed = _factor(w_hr, turned=True)
            projecting, is_ready = (np.empty_like(c), projection), is_ready and is_packed
        run = launched if is_ready else note
        done = run(kernels.lstm, gates, sums, made, c, kept, h, output, weight, *projecting, *given,
                   projected=w_hr is not None, saves=saves, tile=_tile(), wide=wide)
    return (output, h, c, *((gates, kept) if saves else (None, None))) if done else None


def recurrent_layer_backward(grad_output: Any, grad_h: Any, grad_c: Any, input: Any, h0: Any, c0: Any, w_ih: Any,
                             w_hh: Any, w_hr: Any, output: Any, gates: Any, kept: Any, mode: str, batch_sizes: tuple,
                             reverse: bool, output_mask: tuple) -> Any:
    if not _takes(mode, input, w_hh):
        return None
    if blas_team.is_used():
        arrays = map(plain, (grad_output, grad_h, grad_c, input, h0, c0, w_ih, w_hh, w_hr, output, gates, kept))
        arguments: tuple[Any, ...] = (xp, *arrays, mode, batch_sizes, reverse, output_mask, deal)
        return _layer_backward_array(*arguments)
    if is_used():
        return _backward_by_samples(grad_output, grad_h, grad_c, input, h0, c0, w_ih, w_hh, w_hr, output, gates, kept,
                                    mode, batch_sizes, reverse, output_mask)
    kind, matmul, (weight, is_ready) = input.dtype, matrices.matmul, _factor(w_hh, turned=False)
    before, in_order = np.empty(output.shape, kind), _steps(tuple(batch_sizes), reverse)
    is_ready = launched(kernels.states_before, before, h0, output, in_order) and is_ready
    dh = np.zeros(h0.shape, kind) if grad_h is None else grad_h.astype(kind, "C")
    of_gates = np.empty((len(input), len(w_hh)), kind)
    given = (_steps(tuple(batch_sizes), not reverse), _parts(len(dh), w_hh))
    has_grad, grad = grad_output is not None, output if grad_output is None else grad_output
    wide = blas().integers == 64  # type: ignore[union-attr]
    dc = of_projected = None
    if mode == GRU:
        from_state = np.empty_like(of_gates)
        run = launched if is_ready else note
        done = run(kernels.gru_back, of_gates, from_state, dh, gates, kept, before, grad, weight, *given,
                   has_grad=has_grad, tile=_tile(), wide=wide)
    else:
        from_state, cells_before = of_gates, np.empty(kept.shape, kind)
        dc = np.zeros(c0.shape, kind) if grad_c is None else grad_c.astype(kind, "C")
        projecting = (dh, weight, dh)
        if w_hr is not None:
            of_projected = np.empty(output.shape, kind)
            projection, is_packed = _factor(w_hr, turned=False)
            projecting, is_ready = (np.empty_like(dc), projection, of_projected), is_ready and is_packed
        is_ready = launched(kernels.states_before, cells_before, c0, kept, in_order) and is_ready
        run = launched if is_ready else note
        done = run(kernels.lstm_back, of_gates, dh, dc, gates, kept, cells_before, grad, weight, *projecting, *given,
                   has_grad=has_grad, projected=w_hr is not None, tile=_tile(), wide=wide)
    if not done:
        return None
    of_w_hr: Any = None
    if of_projected is not None and output_mask[7]:
        of_w_hr = matmul(of_projected.T, _blocks(gates, 4)[3] * np.tanh(kept))
    of_bias: Any = of_gates.sum(0) if output_mask[5] or output_mask[6] else None
    return (matmul(of_gates, w_ih) if output_mask[0] else None, dh, dc,
            matmul(of_gates.T, input) if output_mask[3] else None,
            matmul(from_state.T, before) if output_mask[4] else None, of_bias if output_mask[5] else None,
            None if not output_mask[6] else of_bias.copy() if from_state is of_gates else from_state.sum(0), of_w_hr)
