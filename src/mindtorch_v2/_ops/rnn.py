"""Recurrent layers: rnn_tanh, rnn_relu, gru, lstm, over padded and packed sequences, and their single steps.

One direction of one layer is one operator. It projects the input of all steps in one product, walks through time in
arrays, and has a fused backward operator. Rows of all steps lie one after another (`batch_sizes` says how many each
step has, never more than the one before), so that a padded sequence is a packed one whose steps are equally large.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.dtype import FLOAT, int64
from .._core.tensor import Tensor, wrap
from .._dispatch.callers import call_bound
from .._dispatch.keys import AUTOCAST_MASK, TORCH_DISPATCH_MASK, modes
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.composites import Composite
from ._declare.families import computes
from ._declare.flops import Flops, recurrent_backward_flop, recurrent_flop
from ._declare.op import composite, function_of, op
from ._declare.recorded import once, recorded_gradients
from ._declare.rules import Spec, check_result_fits, floating
from ._declare.samples import case, cases, error, t

LSTM, GRU, RNN_TANH, RNN_RELU = "lstm", "gru", "rnn_tanh", "rnn_relu"
GATES = {LSTM: 4, GRU: 3, RNN_TANH: 1, RNN_RELU: 1}

arange, cat, dropout_of, linear, stack = (
    function_of(registry.get(name)) for name in ("arange.start_step", "cat", "dropout", "linear", "stack"))


# one step, of tensors ------------------------------------------------------------------------------------------------


def _sigmoid(x: Any) -> Any:
    check_result_fits(x, Spec(x.shape, floating(x.dtype)[1]))  # PyTorch writes it in place: integers are refused
    return x.sigmoid()


def _lstm_step(from_input: Any, h: Any, c: Any, w_hh: Any, b_hh: Any, w_hr: Any) -> tuple:
    i, f, g, o = (from_input + linear(h, w_hh, b_hh)).chunk(4, 1)
    c = _sigmoid(f) * c + _sigmoid(i) * g.tanh()
    h = _sigmoid(o) * c.tanh()
    return (h if w_hr is None else linear(h, w_hr)), c


def _gru_step(from_input: Any, h: Any, c: Any, w_hh: Any, b_hh: Any, w_hr: Any) -> tuple:
    (r, z, n), (hr, hz, hn) = from_input.chunk(3, 1), linear(h, w_hh, b_hh).chunk(3, 1)
    n = (n + hn * _sigmoid(r + hr)).tanh()
    return (h - n) * _sigmoid(z + hz) + n, None


def _rnn_step(nonlinearity: str, from_input: Any, h: Any, c: Any, w_hh: Any, b_hh: Any, w_hr: Any) -> tuple:
    return getattr(from_input + linear(h, w_hh, b_hh), nonlinearity)(), None


_STEPS: dict[str, Callable] = {LSTM: _lstm_step, GRU: _gru_step, RNN_TANH: functools.partial(_rnn_step, "tanh"),
                               RNN_RELU: functools.partial(_rnn_step, "relu")}


def _composed(mode: str, input: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any,
              batch_sizes: Sequence[int], reverse: bool) -> tuple:
    """A layer out of ordinary operators: derivatives of its derivative, complex types, devices without the kernel."""
    return _over_steps(mode, linear(input, w_ih, b_ih).split(batch_sizes), h, c, w_hh, b_hh, w_hr, batch_sizes, reverse)


def _over_steps(mode: str, from_inputs: Sequence[Any], h: Any, c: Any, w_hh: Any, b_hh: Any, w_hr: Any,
                batch_sizes: Sequence[int], reverse: bool) -> tuple:
    """A layer's outputs and last states, given what its input adds to the gates at each step."""
    steps = list(enumerate(from_inputs))
    outputs: list[Any] = [None] * len(steps)
    for at, from_input in reversed(steps) if reverse else steps:
        size = batch_sizes[at]
        made, new_c = _STEPS[mode](from_input, h[:size], None if c is None else c[:size], w_hh, b_hh, w_hr)
        outputs[at] = made
        h = made if size == len(h) else cat((made, h[size:]))
        if c is not None:
            c = new_c if size == len(c) else cat((new_c, c[size:]))
    return cat(outputs), h, c


# one layer, of arrays ------------------------------------------------------------------------------------------------


def _rows(batch_sizes: Sequence[int], reverse: bool) -> Iterator[slice]:
    """Where the rows of each step lie, in the order in which a direction takes the steps."""
    ends = list(itertools.accumulate(batch_sizes))
    slices = [slice(end - size, end) for end, size in zip(ends, batch_sizes, strict=True)]
    return iter(reversed(slices) if reverse else slices)


def _blocks(gates: Any, count: int) -> list[Any]:
    width = gates.shape[1] // count
    return [gates[:, k * width : (k + 1) * width] for k in range(count)]


def _halves(xp: Any, mode: str, width: int, kind: Any) -> Any:
    """For each column of the gates the factor that makes a tanh a sigmoid: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2."""
    factors = {LSTM: (0.5, 0.5, 1, 0.5), GRU: (0.5, 0.5, 1)}[mode]
    return xp.repeat(xp.asarray(factors, kind), width)


def _for_all(xp: Any, steps: Callable, given: tuple, samples: int, arrays: tuple) -> None:
    """Runs the steps of a layer for all samples at once."""
    steps(xp, slice(0, samples), *given, *arrays)


def _of_part(batch_sizes: Sequence[int], reverse: bool, part: slice) -> Iterator[tuple[slice, slice]]:
    """Where the rows of some samples lie at each step, and which samples these are; longer ones come first."""
    for rows in _rows(batch_sizes, reverse):
        begin, end = rows.start + part.start, min(rows.start + part.stop, rows.stop)
        if begin < end:
            yield slice(begin, end), slice(part.start, part.start + end - begin)


def _layer_array(xp: Any, input: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any,
                 mode: str, batch_sizes: tuple, reverse: bool, saves: bool = True,
                 deal: Callable = _for_all) -> tuple:
    """Outputs of all steps, last states, and what backward needs: the gates, and cell states or GRU's W_hn h + b.

    Where nothing `saves` them, they are None. `deal` runs the steps: for all samples, or for parts of them that threads
    take.
    """
    gated = mode in (LSTM, GRU)
    width = w_hh.shape[0] // GATES[mode]
    if gated:  # what goes into a sigmoid is halved in the weights, so that one tanh makes all gates
        scale = _halves(xp, mode, width, input.dtype)
        w_ih, w_hh = w_ih * scale[:, None], w_hh * scale[:, None]
        b_ih, b_hh = (None if b is None else b * scale for b in (b_ih, b_hh))
    gates = xp.linear(input, w_ih, b_ih if b_ih is None or mode == GRU else b_ih + b_hh)
    h = h0.copy()
    c: Any = None if c0 is None else c0.copy()
    weight = xp.ascontiguousarray(w_hh.T)
    output = xp.empty((len(input), h.shape[1]), input.dtype)
    kept = xp.empty((len(input) if gated and saves else 0, width), input.dtype)
    recurrent = xp.empty((len(h), weight.shape[1]), input.dtype)
    scales = shifts = None
    if mode == LSTM:  # for all samples: loops over two arrays take half the time of those over an array and a row
        scales = xp.repeat(scale[None], len(h), 0)
        shifts = 1 - scales
    arrays = (gates, h, c, weight, b_hh, w_hr, recurrent, scales, shifts, kept, output)
    deal(xp, _forward_steps, (mode, batch_sizes, reverse), len(h), arrays)
    return output, h, c, *((gates if gated else kept, kept) if saves else (None, None))


def _forward_steps(xp: Any, part: slice, mode: str, batch_sizes: tuple, reverse: bool, gates: Any, h: Any, c: Any,
                   weight: Any, b_hh: Any, w_hr: Any, recurrent: Any, scales: Any, shifts: Any, kept: Any,
                   output: Any) -> None:
    """The steps of some samples, in place; `gates` has what the input adds to them."""
    for rows, own in _of_part(batch_sizes, reverse, part):
        state, step, made = h[own], gates[rows], xp.matmul(h[own], weight, out=recurrent[own])
        if mode == LSTM:
            step += made
            xp.tanh(step, out=step)
            step *= scales[own]
            step += shifts[own]
            i, f, g, o = _blocks(step, 4)
            cell = c[own]
            cell *= f
            cell += i * g
            if len(kept):
                kept[rows] = cell
            hidden = xp.multiply(o, xp.tanh(cell), out=state if w_hr is None else None)
            if w_hr is not None:
                xp.matmul(hidden, w_hr.T, out=state)
        elif mode == GRU:
            if b_hh is not None:
                made += b_hh
            two = 2 * h.shape[1]
            reset_update = step[:, :two]
            reset_update += made[:, :two]
            xp.tanh(reset_update, out=reset_update)
            reset_update *= 0.5
            reset_update += 0.5
            r, z, n = _blocks(step, 3)
            if len(kept):
                kept[rows] = made[:, two:]
            n += r * made[:, two:]
            xp.tanh(n, out=n)
            state -= n
            state *= z
            state += n
        else:
            xp.add(step, made, out=state)
            xp.tanh(state, out=state) if mode == RNN_TANH else xp.maximum(state, 0, out=state)
        output[rows] = state


def _before(xp: Any, initial: Any, states: Any, batch_sizes: Sequence[int], reverse: bool) -> Any:
    """For each row the state that its step began with."""
    made, state = xp.empty_like(states), initial.copy()
    for rows in _rows(batch_sizes, reverse):
        current = state[: rows.stop - rows.start]
        made[rows] = current
        current[...] = states[rows]
    return made


def _lstm_slopes(xp: Any, gates: Any, cells: Any, cells_before: Any, made: Any) -> Any:
    """What the gradients of all steps' gates are multiples of, into `made`; and by what a state's is the cell's.

    That of the last gate is a multiple of the state's gradient, those of the others of the cell state's.
    """
    i, f, g, o = _blocks(gates, 4)
    of_i, of_f, of_g, of_o = _blocks(made, 4)
    xp.multiply(gates, gates, out=made)
    xp.subtract(gates, made, out=made)  # the slope of a sigmoid
    tanh = xp.tanh(cells)
    of_o *= tanh
    of_i *= g
    of_f *= cells_before
    xp.multiply(g, g, out=of_g)
    xp.subtract(1, of_g, out=of_g)
    of_g *= i
    tanh *= tanh
    xp.subtract(1, tanh, out=tanh)
    tanh *= o
    return tanh


def _lstm_back(dh: Any, dc: Any, slope: Any, forget: Any, made: Any) -> None:
    """Makes a step's slopes the gradients of its gates, and that of the cell state the one before the step."""
    dc += dh * slope
    by_gate = made.reshape(len(made), 4, made.shape[1] // 4)
    by_gate[:, 3] *= dh
    by_gate[:, :3] *= dc[:, None]
    dc *= forget


def _gru_back(xp: Any, dh: Any, gates: Any, kept: Any, h_before: Any, made: Any, made_h: Any) -> None:
    """The same for a GRU; gradients of what came from the state differ in the last gate."""
    r, z, n = _blocks(gates, 3)
    of_r, of_z, of_n = _blocks(made, 3)
    xp.multiply(gates, gates, out=made)
    xp.subtract(gates, made, out=made)
    of_z *= dh
    of_z *= h_before - n
    dh_before = dh * z
    xp.multiply(n, n, out=of_n)
    xp.subtract(1, of_n, out=of_n)
    dh -= dh_before
    of_n *= dh
    of_r *= kept
    of_r *= of_n
    made_h[...] = made
    made_h[:, 2 * r.shape[1] :] *= r
    dh[...] = dh_before


def _layer_backward_array(xp: Any, grad_output: Any, grad_h: Any, grad_c: Any, input: Any, h0: Any, c0: Any, w_ih: Any,
                          w_hh: Any, w_hr: Any, output: Any, gates: Any, kept: Any, mode: str, batch_sizes: tuple,
                          reverse: bool, output_mask: tuple, deal: Callable = _for_all) -> tuple:
    kind, count = input.dtype, len(input)
    before = _before(xp, h0, output, batch_sizes, reverse)
    cells_before: Any = _before(xp, c0, kept, batch_sizes, reverse) if mode == LSTM else None
    dh = xp.zeros(h0.shape, kind) if grad_h is None else grad_h.astype(kind)
    dc: Any = None if c0 is None else xp.zeros(c0.shape, kind) if grad_c is None else grad_c.astype(kind)
    of_gates = xp.empty((count, w_hh.shape[0]), kind)
    from_state = xp.empty_like(of_gates) if mode == GRU else of_gates
    of_projected = xp.empty(output.shape if w_hr is not None else (0, 0), kind)
    slopes = forget = None
    if mode == LSTM:
        slopes, forget = _lstm_slopes(xp, gates, kept, cells_before, of_gates), _blocks(gates, 4)[1]
    arrays = (grad_output, dh, dc, w_hh, w_hr, output, gates, kept, before, slopes, forget, of_gates, from_state,
              of_projected)
    deal(xp, _backward_steps, (mode, batch_sizes, reverse), len(dh), arrays)
    of_b_ih = of_gates.sum(0) if output_mask[5] else None
    of_w_hr = None
    if output_mask[7]:
        of_w_hr = xp.matmul(of_projected.T, _blocks(gates, 4)[3] * xp.tanh(kept))
    return (xp.matmul(of_gates, w_ih) if output_mask[0] else None, dh, dc,
            xp.matmul(of_gates.T, input) if output_mask[3] else None,
            xp.matmul(from_state.T, before) if output_mask[4] else None, of_b_ih,
            None if not output_mask[6] else from_state.sum(0), of_w_hr)


def _backward_steps(xp: Any, part: slice, mode: str, batch_sizes: tuple, reverse: bool, grad_output: Any, dh: Any,
                    dc: Any, w_hh: Any, w_hr: Any, output: Any, gates: Any, kept: Any, before: Any, slopes: Any,
                    forget: Any, of_gates: Any, from_state: Any, of_projected: Any) -> None:
    """The steps of some samples backwards, in place."""
    for rows, own in _of_part(batch_sizes, not reverse, part):
        d, made = dh[own], of_gates[rows]
        if grad_output is not None:
            d += grad_output[rows]
        if mode == LSTM:
            if w_hr is None:
                of_hidden = d
            else:
                of_projected[rows] = d
                of_hidden = xp.matmul(d, w_hr)
            _lstm_back(of_hidden, dc[own], slopes[rows], forget[rows], made)
            xp.matmul(made, w_hh, out=d)
        elif mode == GRU:
            _gru_back(xp, d, gates[rows], kept[rows], before[rows], made, from_state[rows])
            d += xp.matmul(from_state[rows], w_hh)
        else:
            out = output[rows]
            xp.multiply(d, 1 - out * out if mode == RNN_TANH else out > 0, out=made)
            xp.matmul(made, w_hh, out=d)


# one layer, declared -------------------------------------------------------------------------------------------------


def _same_type(a: Tensor, b: Tensor) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {a.dtype.scalar_name} and "
                           f"{b.dtype.scalar_name}")


def _check_product(rows: int, x: Tensor, weight: Tensor) -> None:
    _same_type(x, weight)
    columns, (out, wanted) = x._array.shape[1], weight._array.shape
    if columns != wanted:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{columns} and {wanted}x{out})")


def _layer_specs(input: Tensor, h0: Tensor, c0: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any, w_hr: Any,
                 mode: str, batch_sizes: tuple, reverse: bool, saves: bool) -> tuple:
    batch, rows, kind = batch_sizes[0], input._array.shape[0], input.dtype
    _check_product(rows, input, w_ih)
    _check_product(batch, h0, w_hh)
    if sum(batch_sizes) > rows:
        raise RuntimeError(f"start ({sum(batch_sizes[:-1])}) + length ({batch_sizes[-1]}) exceeds dimension size "
                           f"({rows}).")
    if h0._array.shape[0] != batch:
        raise RuntimeError(f"The size of tensor a ({h0._array.shape[0]}) must match the size of tensor b ({batch}) at "
                           "non-singleton dimension 0")
    width = w_hh._array.shape[0] // GATES[mode]
    if w_hr is None and h0._array.shape[1] * GATES[mode] != w_hh._array.shape[0]:
        raise RuntimeError(f"The size of tensor a ({h0._array.shape[1]}) must match the size of tensor b ({width}) at "
                           "non-singleton dimension 1")
    gated = mode in (LSTM, GRU)
    states = Spec(h0._array.shape, kind), None if c0 is None else Spec(c0._array.shape, kind)
    saved = ((rows, w_ih._array.shape[0]), (rows, width)) if gated else ((0, width), (0, width))
    return (Spec((rows, h0._array.shape[1]), kind), *states,
            *(Spec(shape, kind) if saves else None for shape in saved))


@once
def _layer_grad(grads, input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, mode, batch_sizes, reverse, saves, output, gates,
                kept, needs):
    if modes.grad_enabled:  # create_graph=True: the derivative must have one, too
        return recorded_gradients(lambda *inputs: _composed(mode, *inputs, batch_sizes, reverse),
                                  (input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr), grads, needs)
    return call_bound(_LAYER_BACKWARD, (*grads[:3], input, h0, c0, w_ih, w_hh, w_hr, output, gates, kept, mode,
                                        batch_sizes, reverse, needs))


_LAYER = op(
   "_recurrent_layer(Tensor input, Tensor h0, Tensor? c0, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, Tensor?"
   " w_hr, str mode, int[] batch_sizes, bool reverse, bool saves=True) -> (Tensor output, Tensor h_n, Tensor c_n,"
   " Tensor gates, Tensor kept)",
   kernel=computes(_layer_specs, _layer_array),
   kernels={"cpu": "rnn.recurrent_layer", "cuda": "rnn.recurrent_layer"},
   grad={"input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr": _layer_grad},
   decomposition=lambda *args: (*_composed(args[8], *args[:8], *args[9:11]), None, None),
   public="", packs="w_ih w_hh w_hr", flops=Flops(recurrent_flop, lambda args: "mm" if args[5] is None else "addmm"))


def _layer_backward_specs(grad_output: Any, grad_h: Any, grad_c: Any, input: Tensor, h0: Tensor, c0: Any,
                          w_ih: Tensor, w_hh: Tensor, w_hr: Any, output: Tensor, gates: Any, kept: Any, mode: str,
                          batch_sizes: tuple, reverse: bool, output_mask: tuple) -> tuple:
    bias = w_ih._array.shape[:1]
    shapes = [None if x is None else x._array.shape for x in (input, h0, c0, w_ih, w_hh)] + [bias, bias]
    shapes.append(None if w_hr is None else w_hr._array.shape)
    return tuple(Spec(shape, input.dtype) if shape is not None and wanted else None
                 for shape, wanted in zip(shapes, output_mask, strict=True))


_LAYER_BACKWARD = op(
   "_recurrent_layer_backward(Tensor? grad_output, Tensor? grad_h, Tensor? grad_c, Tensor input, Tensor h0, Tensor? c0,"
   " Tensor w_ih, Tensor w_hh, Tensor? w_hr, Tensor output, Tensor gates, Tensor kept, str mode, int[] batch_sizes,"
   " bool reverse, bool[8] output_mask) -> (Tensor result, Tensor result1, Tensor result2, Tensor result3, Tensor"
   " result4, Tensor result5, Tensor result6, Tensor result7)",
   kernel=computes(_layer_backward_specs, _layer_backward_array), public="",
   kernels={"cpu": "rnn.recurrent_layer_backward", "cuda": "rnn.recurrent_layer_backward"},
   flops=Flops(recurrent_backward_flop, "mm"))


def _layer(mode: str, input: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any,
           batch_sizes: tuple, reverse: bool) -> tuple:
    answered = (input._keys | w_ih._keys | w_hh._keys) & TORCH_DISPATCH_MASK
    if answered or input.dtype.category != FLOAT or modes.include & AUTOCAST_MASK:
        return _composed(mode, input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, reverse)
    given = (input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr)
    derived = modes.grad_enabled and any(x is not None and x.requires_grad for x in given)
    saves = derived or bool(modes.__dict__.get("levels"))  # of transforms, which may derive it
    return call_bound(_LAYER, (*given, mode, batch_sizes, reverse, saves))[:3]


def _stepwise_layer(mode: str, input: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any,
                    batch_sizes: tuple, reverse: bool) -> tuple:
    """A layer for weights that answer `linear` themselves: they see one step at a time, a row for each sample."""
    from_inputs = [linear(rows, w_ih, b_ih) for rows in input.split(batch_sizes)]
    return _over_steps(mode, from_inputs, h0, c0, w_hh, b_hh, w_hr, batch_sizes, reverse)


# layers on layers ----------------------------------------------------------------------------------------------------


def _stacked(mode: str, rows: Any, batch_sizes: tuple, hx: Any, cx: Any, params: Sequence[Any], has_biases: bool,
             num_layers: int, dropout: float, train: bool, bidirectional: bool, layer_of: Callable = _layer) -> tuple:
    """Output rows and last states of all layers, each fed with the outputs of the one below."""
    directions = 2 if bidirectional else 1
    projects = mode == LSTM and hx.shape[2] != cx.shape[2]
    each = (4 if has_biases else 2) + projects
    if len(params) != num_layers * directions * each and len(params) < each:
        raise RuntimeError("got an incorrect number of RNN parameters")
    if len(params) % each:
        raise RuntimeError(f"MatrixRef: ArrayRef size {len(params)} not divisible by stride {each}")
    if hx.shape[0] != num_layers * directions:
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    h_before, c_before = hx.unbind(0), (None,) * len(hx) if cx is None else cx.unbind(0)
    h_last, c_last = [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            w_ih, w_hh, *rest = params[at * each : (at + 1) * each]
            w_hr = rest.pop() if projects else None
            b_ih, b_hh = rest or (None, None)
            output, h, c = layer_of(mode, rows, h_before[at], c_before[at], w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes,
                                    direction == 1)
            outputs.append(output)
            h_last.append(h)
            c_last.append(c)
        rows = outputs[0] if directions == 1 else cat(outputs, 1)
        if dropout and train and layer < num_layers - 1:
            rows = dropout_of(rows, dropout, True)
    last = (stack(h_last),) if cx is None else (stack(h_last), stack(c_last))
    return rows, *last


def _padded(mode: str, input: Any, hx: Any, cx: Any, params: Sequence[Any], has_biases: bool, num_layers: int,
            dropout: float, train: bool, bidirectional: bool, batch_first: bool, layer_of: Callable = _layer) -> tuple:
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[0], input.shape[1]
    if not steps:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    rows, *last = _stacked(mode, input.reshape(steps * batch, input.shape[-1]), (batch,) * steps, hx, cx, params,
                           has_biases, num_layers, dropout, train, bidirectional, layer_of)
    output = rows.reshape(steps, batch, rows.shape[1])
    return output.transpose(0, 1) if batch_first else output, *last


def _lstm_states(hx: Sequence[Any]) -> Sequence[Any]:
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    return hx


def stepwise(mode: str, packed: bool, *args: Any) -> tuple:
    """What the operator `mode` gives for weights that answer `linear` themselves."""
    states = args[1 + packed]
    hx, cx = _lstm_states(states) if mode == LSTM else (states, None)
    settings = (hx, cx, *args[2 + packed :], _stepwise_layer)
    return _stacked(mode, args[0], tuple(args[1].tolist()), *settings) if packed else _padded(mode, args[0], *settings)


def _sample_weights(mode: str, inputs: int = 3, width: int = 2) -> list[Any]:
    gates = GATES[mode] * width
    return [t(*shape, low=-1, high=1) for shape in ((gates, inputs), (gates, width), (gates,), (gates,))]


_SETTINGS = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"


def _declare(mode: str) -> None:
    """Both forms of one kind of layer, and their samples."""
    two = mode == LSTM
    hx, returns = ("Tensor[] hx", "(Tensor result, Tensor result1, Tensor result2)") if two else (
        "Tensor hx", "(Tensor result, Tensor result1)")

    def states(given: Any) -> Sequence[Any]:
        return _lstm_states(given) if two else (given, None)

    def over_packed(data, batch_sizes, hx, *settings):
        return _stacked(mode, data, tuple(batch_sizes.tolist()), *states(hx), *settings)

    def over_padded(input, hx, *settings):
        return _padded(mode, input, *states(hx), *settings)

    def state(count: int, batch: int = 2, **options: Any) -> Any:
        made = t(count, batch, 2, low=-0.9, high=0.9, **options)
        return [made, made] if two else made

    first, second = _sample_weights(mode), _sample_weights(mode, 4)
    fixed = [[replace(weight, grad=False) for weight in weights] for weights in (first, second)]
    samples = [case(t(2, 2, 3), state(1), first, True, 1, 0.0, False, False, False),
               case(t(2, 3, 3), state(4, grad=False), fixed[0] * 2 + fixed[1] * 2, True, 2, 0.0, True, True, True),
               case(t(2, 1, 3), state(1, 1), fixed[0][:2], False, 1, 0.0, False, False, False),
               error(RuntimeError, "Expected sequence length to be larger than 0 in RNN", t(0, 2, 3), state(1), first,
                     True, 1, 0.0, False, False, False)]
    if two:  # whose hidden state may be projected to another size
        samples.append(case(t(2, 1, 3), [t(1, 1, 2), t(1, 1, 3)], [t(12, 3, grad=False), t(12, 2), t(2, 3)], False, 1,
                            0.0, False, False, False))
    autocast = dict(cpu="recurrent") if two else None
    op(f"{mode}.data(Tensor data, Tensor batch_sizes, {hx}, {_SETTINGS}) -> {returns}",
       kernel=Composite(over_packed), public="torch", mixes_devices=True, out=None, autocast=autocast)
    op(f"{mode}.input(Tensor input, {hx}, {_SETTINGS}, bool batch_first) -> {returns}",
       kernel=Composite(over_padded), public="torch", samples=cases(*samples), out=None, autocast=autocast)


for _mode in GATES:
    _declare(_mode)


# single steps --------------------------------------------------------------------------------------------------------


def _check_cell(mode: str, input: Any, states: Sequence[Any], w_ih: Any, w_hh: Any) -> None:
    if input.size(1) != w_ih.size(1):
        raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)} expected {w_ih.size(1)}")
    for name, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if weight.size(0) != GATES[mode] * w_hh.size(1):
            raise RuntimeError(f"{name} first dim must be {GATES[mode]} * hidden_size = {GATES[mode] * w_hh.size(1)}, "
                               f"but got {weight.size(0)}")
    for number, state in enumerate(states):
        if state.size(0) != input.size(0):
            raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{number} batch size "
                               f"{state.size(0)}")
        if state.size(1) != w_hh.size(1):
            raise RuntimeError(f"hidden{number} has inconsistent hidden_size: got {state.size(1)}, expected "
                               f"{w_hh.size(1)}")


_CELL_WEIGHTS = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"


@composite(f"lstm_cell(Tensor input, Tensor[] hx, {_CELL_WEIGHTS}) -> (Tensor result, Tensor result1)",
           samples=cases(case(t(3, 3), [t(3, 2), t(3, 2)], *_sample_weights(LSTM)),
                         case(t(3, 3), [t(3, 2), t(3, 2)], *_sample_weights(LSTM)[:2]),
                         error(RuntimeError, "lstm_cell expects two hidden states", t(3, 3), [t(3, 2)],
                               *_sample_weights(LSTM)),
                         error(RuntimeError, "input has inconsistent input_size: got 4 expected 3", t(3, 4),
                               [t(3, 2), t(3, 2)], *_sample_weights(LSTM))), out=None,
           autocast=dict(accelerators="lower"))
def _lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    _check_cell(LSTM, input, hx, w_ih, w_hh)
    if _LAYER.declaration.has_kernel_for(input):
        return _layer(LSTM, input, *hx, w_ih, w_hh, b_ih, b_hh, None, (len(input),), False)[1:]
    return _lstm_step(linear(input, w_ih, b_ih), *hx, w_hh, b_hh, None)


def _declare_cell(mode: str) -> None:
    @composite(f"{mode}_cell(Tensor input, Tensor hx, {_CELL_WEIGHTS}) -> Tensor",
               samples=cases(case(t(3, 3), t(3, 2), *_sample_weights(mode)),
                             error(RuntimeError, "Input batch size 3 doesn't match hidden0 batch size 2", t(3, 3),
                                   t(2, 2), *_sample_weights(mode))), out=None, autocast=dict(accelerators="lower"))
    def cell(input, hx, w_ih, w_hh, b_ih, b_hh):
        _check_cell(mode, input, (hx,), w_ih, w_hh)
        if _LAYER.declaration.has_kernel_for(input):
            return _layer(mode, input, hx, None, w_ih, w_hh, b_ih, b_hh, None, (len(input),), False)[1]
        return _STEPS[mode](linear(input, w_ih, b_ih), hx, None, w_hh, b_hh, None)[0]


for _mode in (GRU, RNN_TANH, RNN_RELU):
    _declare_cell(_mode)


# packing -------------------------------------------------------------------------------------------------------------


def _places(count: int, sizes: Any) -> tuple[Any, Any]:
    """Which of `count` places in each row of a table are taken, and their numbers when the table lies flat."""
    taken = arange(count) < sizes.unsqueeze(1)
    return taken, taken.reshape(-1).nonzero().squeeze(1)


def _pack(input: Any, lengths: Any, batch_first: bool) -> tuple:
    """The rows of padded sequences without the padding, step by step, and how many each step has."""
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    if batch_first:
        input = input.transpose(0, 1)
    if lengths.dim() != 1 or lengths.dtype is not int64:
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D "
                           f"{lengths._device.type} {lengths.dtype.scalar_name} tensor")
    steps, batch = input.shape[:2]
    if len(lengths) != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
                           f"(batch_size={batch})")
    listed = lengths.tolist()
    if min(listed) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is "
                           "<= 0")
    if sorted(listed, reverse=True) != listed:
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
                           "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
                           "requirement if you do not need ONNX exportability.")
    batch_sizes = (lengths > arange(listed[0]).unsqueeze(1)).sum(1)
    _, places = _places(batch, batch_sizes[:steps])
    rows = input.reshape(steps * batch, *input.shape[2:])
    return rows.index_select(0, places.to(input.device)), batch_sizes


def _unpack(data: Any, batch_sizes: Any, batch_first: bool, padding_value: Any, total_length: int) -> tuple:
    """Padded sequences out of packed rows, and their lengths."""
    steps, batch = len(batch_sizes), int(batch_sizes[0])
    if total_length > 0:
        if total_length < steps:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but "
                             f"got total_length={total_length} and max sequence length being {steps}")
        steps = total_length
    taken, places = _places(batch, batch_sizes)
    padded = data.new_full((steps * batch, *data.shape[1:]), padding_value)
    padded = padded.index_copy(0, places.to(data.device), data).reshape(steps, batch, *data.shape[1:])
    return (padded.transpose(0, 1) if batch_first else padded), taken.sum(0)


op("_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor result, Tensor result1)",
   kernel=Composite(_pack), public="torch", mixes_devices=True, out=None, aten=LEAF)
op("_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length) -> "
   "(Tensor result, Tensor result1)", kernel=Composite(_unpack), public="torch", mixes_devices=True, out=None)


@composite("pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str padding_side='right')"
           " -> Tensor", public="_nn",
           samples=cases(case([t(3, 2), t(1, 2)]), case([t(3), t(1)], True, 7.0, "left"), case([t(2, 0), t(1, 0)]),
                         error(RuntimeError, "Expected padding_side to be one of left or right, but got x.", [t(3)],
                               padding_side="x")))
def _pad_sequence(sequences, batch_first, padding_value, padding_side):
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    first, lengths = sequences[0], wrap(np.array([len(sequence) for sequence in sequences], np.int64))
    count, longest = len(sequences), max(map(len, sequences))
    taken, _ = _places(longest, lengths)
    if padding_side == "left":
        taken = taken.flip(1)
    size = (count, longest) if batch_first else (longest, count)
    places = arange(count * longest).reshape(size)
    places = (places if batch_first else places.transpose(0, 1)).masked_select(taken)
    padded = first.new_full((count * longest, *first.shape[1:]), padding_value)
    rows = cat([sequence.to(first.dtype) for sequence in sequences])
    return padded.index_copy(0, places.to(first.device), rows).reshape(*size, *first.shape[1:])
