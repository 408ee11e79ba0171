"""Recurrent layers behind the product with their input, forward and backward: gates, states, what backward needs.

Gates, and the sums from input and state that they are made of, have the columns of all gates. Rows of a batch know
nothing of each other, so a thread takes some of them through all steps. `steps` has for each step, in the order in
which they are taken, where its rows begin, and how many of the batch it has. What is written in a row is not read
there, so that loops become vector code.
"""

from ..language import function, kernel, parallel, sigmoid, tanh
from .panels import times

_EXPENSIVE = 40  # a column of all gates, in additions
_QUICK = 3  # multiplications of a product in the time of an addition


@function
def work_of_part(steps, rows, parts, gates, width):
    """What a part of the rows takes, in additions."""
    return steps * (rows // parts + 1) * width * (_EXPENSIVE + gates * width // _QUICK)


@function
def lstm_cells(gates, sums, made, cell, kept, state, row, at, saves):
    """A row of a step: gates from their sums, saved or not; the cell state in place, and kept; the new state."""
    width = cell.shape[1]
    for j in range(width):
        i = sigmoid(sums[at, j] + made[row, j])
        f = sigmoid(sums[at, width + j] + made[row, width + j])
        g = tanh(sums[at, 2 * width + j] + made[row, 2 * width + j])
        o = sigmoid(sums[at, 3 * width + j] + made[row, 3 * width + j])
        c = f * cell[row, j] + i * g
        if saves:
            gates[at, j] = i
            gates[at, width + j] = f
            gates[at, 2 * width + j] = g
            gates[at, 3 * width + j] = o
            kept[at, j] = c
        cell[row, j] = c
        state[row, j] = o * tanh(c)


@kernel
def lstm(gates, sums, made, cell, kept, state, out, weight, hidden, projection, steps, parts, *, projected, saves, tile,
         wide):
    """All steps, with `parts` of the rows apart; `projected`: a product makes the state of what is `hidden` then."""
    rows, width, columns = state.shape[0], cell.shape[1], state.shape[1]
    for part in parallel(parts, work_of_part(steps.shape[0], rows, parts, 4, width)):
        low, high = rows * part // parts, rows * (part + 1) // parts
        for step in range(steps.shape[0]):
            first, size = steps[step, 0], min(high, steps[step, 1])
            if low < size:
                times(made, low, state, low, weight, (size - low, 4 * width, columns), tile, wide)
                for row in range(low, size):
                    lstm_cells(gates, sums, made, cell, kept, hidden if projected else state, row, first + row, saves)
                if projected:
                    times(state, low, hidden, low, projection, (size - low, columns, width), tile, wide)
                for row in range(low, size):
                    for j in range(columns):
                        out[first + row, j] = state[row, j]


@function
def gru_cells(gates, sums, made, bias, kept, state, out, row, at, biased, saves):
    """A row of a step: gates from their sums, saved or not, as is what the state gives to the last; the state, too."""
    width = state.shape[1]
    for j in range(width):
        of_r = made[row, j]
        of_z = made[row, width + j]
        of_n = made[row, 2 * width + j]
        if biased:
            of_r += bias[j]
            of_z += bias[width + j]
            of_n += bias[2 * width + j]
        r = sigmoid(sums[at, j] + of_r)
        z = sigmoid(sums[at, width + j] + of_z)
        n = tanh(sums[at, 2 * width + j] + r * of_n)
        h = (state[row, j] - n) * z + n
        if saves:
            gates[at, j] = r
            gates[at, width + j] = z
            gates[at, 2 * width + j] = n
            kept[at, j] = of_n
        state[row, j] = h
        out[at, j] = h


@kernel
def gru(gates, sums, made, bias, kept, state, out, weight, steps, parts, *, biased, saves, tile, wide):
    """All steps, with `parts` of the rows apart."""
    rows, width = state.shape[0], state.shape[1]
    for part in parallel(parts, work_of_part(steps.shape[0], rows, parts, 3, width)):
        low, high = rows * part // parts, rows * (part + 1) // parts
        for step in range(steps.shape[0]):
            first, size = steps[step, 0], min(high, steps[step, 1])
            if low < size:
                times(made, low, state, low, weight, (size - low, 3 * width, width), tile, wide)
                for row in range(low, size):
                    gru_cells(gates, sums, made, bias, kept, state, out, row, first + row, biased, saves)


@function
def lstm_cells_back(made, dh, dc, gates, cell, before, row, at):
    """Gradients of a row's gates; that of the cell state becomes that before the step."""
    width = dc.shape[1]
    for j in range(width):
        i = gates[at, j]
        f = gates[at, width + j]
        g = gates[at, 2 * width + j]
        o = gates[at, 3 * width + j]
        c = tanh(cell[at, j])
        d = dh[row, j]
        of_cell = dc[row, j] + d * o * (1.0 - c * c)
        made[at, j] = of_cell * g * (i - i * i)
        made[at, width + j] = of_cell * before[at, j] * (f - f * f)
        made[at, 2 * width + j] = of_cell * i * (1.0 - g * g)
        made[at, 3 * width + j] = d * c * (o - o * o)
        dc[row, j] = of_cell * f


@function
def add_rows(target, grad, low, size, first):
    """Adds what a step's outputs got to what its states have."""
    for row in range(low, size):
        for j in range(target.shape[1]):
            target[row, j] += grad[first + row, j]


@kernel
def lstm_back(made, dh, dc, gates, cell, before, grad, weight, hidden, projection, of_projected, steps, parts, *,
              has_grad, projected, tile, wide):
    """The gradients of all steps' gates, and of the states that they began with; of what was projected, too."""
    rows, width, columns = dh.shape[0], dc.shape[1], dh.shape[1]
    for part in parallel(parts, work_of_part(steps.shape[0], rows, parts, 4, width)):
        low, high = rows * part // parts, rows * (part + 1) // parts
        for step in range(steps.shape[0]):
            first, size = steps[step, 0], min(high, steps[step, 1])
            if low < size:
                if has_grad:
                    add_rows(dh, grad, low, size, first)
                if projected:
                    times(hidden, low, dh, low, projection, (size - low, width, columns), tile, wide)
                    for row in range(low, size):
                        for j in range(columns):
                            of_projected[first + row, j] = dh[row, j]
                for row in range(low, size):
                    lstm_cells_back(made, hidden if projected else dh, dc, gates, cell, before, row, first + row)
                times(dh, low, made, first + low, weight, (size - low, columns, 4 * width), tile, wide)


@function
def gru_cells_back(made, made_h, dh, gates, kept, before, row, at):
    """Gradients of a row's gates, and of what came from the state; the state's loses what the gates took."""
    width = kept.shape[1]
    for j in range(width):
        r = gates[at, j]
        z = gates[at, width + j]
        n = gates[at, 2 * width + j]
        d = dh[row, j]
        of_n = (d - d * z) * (1.0 - n * n)
        of_z = d * (before[at, j] - n) * (z - z * z)
        of_r = of_n * kept[at, j] * (r - r * r)
        made[at, j] = of_r
        made[at, width + j] = of_z
        made[at, 2 * width + j] = of_n
        made_h[at, j] = of_r
        made_h[at, width + j] = of_z
        made_h[at, 2 * width + j] = of_n * r
        dh[row, j] = d * z


@kernel
def gru_back(made, made_h, dh, gates, kept, before, grad, weight, steps, parts, *, has_grad, tile, wide):
    """The gradients of all steps' gates, and of the states that they began with."""
    rows, width = dh.shape[0], dh.shape[1]
    for part in parallel(parts, work_of_part(steps.shape[0], rows, parts, 3, width)):
        low, high = rows * part // parts, rows * (part + 1) // parts
        for step in range(steps.shape[0]):
            first, size = steps[step, 0], min(high, steps[step, 1])
            if low < size:
                if has_grad:
                    add_rows(dh, grad, low, size, first)
                for row in range(low, size):
                    gru_cells_back(made, made_h, dh, gates, kept, before, row, first + row)
                times(dh, low, made_h, first + low, weight, (size - low, width, 3 * width), tile, wide, adds=True)


@kernel
def states_before(made, initial, states, steps):
    """For each row the state that its step began with."""
    rows, width = initial.shape[0], initial.shape[1]
    for row in parallel(rows, 2 * width * steps.shape[0]):
        for step in range(steps.shape[0]):
            if row < steps[step, 1]:
                at = steps[step, 0] + row
                last = max(step - 1, 0)
                if step > 0 and row < steps[last, 1]:
                    earlier = steps[last, 0] + row
                    for j in range(width):
                        made[at, j] = states[earlier, j]
                else:
                    for j in range(width):
                        made[at, j] = initial[row, j]
