"""Steps of recurrent layers behind their products, forward and backward: gates, states, and what backward needs.

Arrays are (rows of the step, columns); gates, and the sums from input and state that they are made of, have the
columns of all gates. What is written is not read, so that loops become vector code.
"""

from ..language import exp, function, kernel, parallel, tanh

_EXPENSIVE = 40  # a column of all gates, in additions


@function
def sigmoid(x):
    return 1.0 / (1.0 + exp(-x))


@kernel
def lstm_step(gates, sums, made, cell, kept, state, out):
    """Gates from their sums; the cell state in place and kept; the output, which is the new state, twice."""
    width = cell.shape[1]
    for row in parallel(cell.shape[0], _EXPENSIVE * width):
        for j in range(width):
            i = sigmoid(sums[row, j] + made[row, j])
            f = sigmoid(sums[row, width + j] + made[row, width + j])
            g = tanh(sums[row, 2 * width + j] + made[row, 2 * width + j])
            o = sigmoid(sums[row, 3 * width + j] + made[row, 3 * width + j])
            c = f * cell[row, j] + i * g
            h = o * tanh(c)
            gates[row, j] = i
            gates[row, width + j] = f
            gates[row, 2 * width + j] = g
            gates[row, 3 * width + j] = o
            cell[row, j] = c
            kept[row, j] = c
            state[row, j] = h
            out[row, j] = h


@kernel
def gru_step(gates, sums, made, bias, kept, state, out, *, biased):
    """Gates from their sums; what the state gives to the last gate is kept; the new state in place and as output."""
    width = state.shape[1]
    for row in parallel(state.shape[0], _EXPENSIVE * width):
        for j in range(width):
            of_r = made[row, j]
            of_z = made[row, width + j]
            of_n = made[row, 2 * width + j]
            if biased:
                of_r += bias[j]
                of_z += bias[width + j]
                of_n += bias[2 * width + j]
            r = sigmoid(sums[row, j] + of_r)
            z = sigmoid(sums[row, width + j] + of_z)
            n = tanh(sums[row, 2 * width + j] + r * of_n)
            h = (state[row, j] - n) * z + n
            gates[row, j] = r
            gates[row, width + j] = z
            gates[row, 2 * width + j] = n
            kept[row, j] = of_n
            state[row, j] = h
            out[row, j] = h


@kernel
def lstm_back(made, dh, dc, gates, cell, cell_before):
    """Gradients of a step's gates; that of the cell state becomes that before the step."""
    width = cell.shape[1]
    for row in parallel(cell.shape[0], _EXPENSIVE * width // 2):
        for j in range(width):
            i = gates[row, j]
            f = gates[row, width + j]
            g = gates[row, 2 * width + j]
            o = gates[row, 3 * width + j]
            c = tanh(cell[row, j])
            d = dh[row, j]
            of_cell = dc[row, j] + d * o * (1.0 - c * c)
            made[row, j] = of_cell * g * (i - i * i)
            made[row, width + j] = of_cell * cell_before[row, j] * (f - f * f)
            made[row, 2 * width + j] = of_cell * i * (1.0 - g * g)
            made[row, 3 * width + j] = d * c * (o - o * o)
            dc[row, j] = of_cell * f


@kernel
def gru_back(made, made_h, dh, gates, kept, h_before):
    """Gradients of a step's gates, and of what came from the state; that of the state loses what the gates took."""
    width = kept.shape[1]
    for row in parallel(kept.shape[0], _EXPENSIVE * width // 2):
        for j in range(width):
            r = gates[row, j]
            z = gates[row, width + j]
            n = gates[row, 2 * width + j]
            d = dh[row, j]
            of_n = (d - d * z) * (1.0 - n * n)
            of_z = d * (h_before[row, j] - n) * (z - z * z)
            of_r = of_n * kept[row, j] * (r - r * r)
            made[row, j] = of_r
            made[row, width + j] = of_z
            made[row, 2 * width + j] = of_n
            made_h[row, j] = of_r
            made_h[row, width + j] = of_z
            made_h[row, 2 * width + j] = of_n * r
            dh[row, j] = d * z
