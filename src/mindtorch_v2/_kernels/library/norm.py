"""Normalisation: of rows (layer_norm, rms_norm), of groups of channels, and of channels over a batch.

Elements come as rows, as planes [samples, channels, inner], or as rows of channels. Sums are taken in blocks whose
totals are added in float64. Where a constant says that there is no weight or bias, any array stands in its place.
"""

from ..language import flat, float64, function, kernel, like, local, parallel, sqrt
from .columns import COLUMNS

BLOCK = 4096
ROWS = 256


@function
def sum_of(x, first, n):
    total = float64(0)
    for block in range(first, first + n, BLOCK):
        some = like(0, x)
        for i in range(block, min(block + BLOCK, first + n)):
            some += x[i]
        total += some
    return total


@function
def squares_about(x, first, n, centre):
    total = float64(0)
    for block in range(first, first + n, BLOCK):
        some = like(0, x)
        for i in range(block, min(block + BLOCK, first + n)):
            apart = x[i] - centre
            some += apart * apart
        total += some
    return total


@function
def products_about(grad, x, first, n, centre):
    total = float64(0)
    for block in range(first, first + n, BLOCK):
        some = like(0, x)
        for i in range(block, min(block + BLOCK, first + n)):
            some += grad[i] * (x[i] - centre)
        total += some
    return total


# rows ----------------------------------------------------------------------------------------------------------------


@kernel
def normalise_rows(out: flat, means: flat, rstds: flat, x: flat, weight: flat, bias: flat, rows, n, eps: float, *,
                   centred, weighted, biased):
    """Rows brought to mean 0 (if `centred`) and mean square 1, scaled, shifted; their means and inverse deviations."""
    for row in parallel(rows, 4 * n):
        first = row * n
        centre = like(0, x)
        if centred:
            centre = like(sum_of(x, first, n) / n, x)
            means[row] = centre
        scale = like(1 / sqrt(squares_about(x, first, n, centre) / n + eps), x)
        rstds[row] = scale
        for j in range(n):
            unit = (x[first + j] - centre) * scale
            scaled = unit * weight[j] if weighted else unit
            out[first + j] = scaled + bias[j] if biased else scaled


@kernel
def row_gradients(out: flat, grad: flat, x: flat, means: flat, rstds: flat, weight: flat, rows, n, *, centred,
                  weighted):
    """The gradient of the rows: less what changes the mean, less what changes the deviation."""
    for row in parallel(rows, 4 * n):
        first = row * n
        centre = like(means[row], x) if centred else like(0, x)
        scale = like(rstds[row], x)
        total = like(0, x)
        along = like(0, x)
        for j in range(n):
            g = grad[first + j] * weight[j] if weighted else grad[first + j]
            total += g
            along += g * (x[first + j] - centre)
        slope = along * scale * scale / like(n, x)
        shift = total / like(n, x) if centred else like(0, x)
        for j in range(n):
            g = grad[first + j] * weight[j] if weighted else grad[first + j]
            out[first + j] = (g - shift - (x[first + j] - centre) * slope) * scale


@function
def clear(first, second, columns):
    for j in range(columns):
        first[j] = 0
        second[j] = 0


@function
def carry(products, totals, product, total, columns):
    """Adds the sums of a block of rows to those of all, in more digits."""
    for j in range(columns):
        products[j] += float64(product[j])
        totals[j] += float64(total[j])


@kernel
def column_gradients(of_weight: flat, of_bias: flat, grad: flat, x: flat, means: flat, rstds: flat, rows, n, width, *,
                     centred, weighted, biased):
    """The gradients of weight and bias, for each place in a row; of those that are wanted."""
    for turn in parallel((n + width - 1) // width, 4 * rows * width):
        first = turn * width
        columns = min(width, n - first)
        products = local(COLUMNS, float64)
        totals = local(COLUMNS, float64)
        product = local(COLUMNS, x)
        total = local(COLUMNS, x)
        clear(products, totals, columns)
        for block in range(0, rows, ROWS):
            clear(product, total, columns)
            for row in range(block, min(block + ROWS, rows)):
                centre = like(means[row], x) if centred else like(0, x)
                scale = like(rstds[row], x)
                for j in range(columns):
                    i = row * n + first + j
                    if weighted:
                        product[j] += grad[i] * ((x[i] - centre) * scale)
                    if biased:
                        total[j] += grad[i]
            carry(products, totals, product, total, columns)
        for j in range(columns):
            if weighted:
                of_weight[first + j] = products[j]
            if biased:
                of_bias[first + j] = totals[j]


@kernel
def column_gradients_of_parts(sums: flat, grad: flat, x: flat, means: flat, rstds: flat, rows, n, height, *, centred):
    """The same of each `height` rows, as [part, weight's and bias's, n], where columns are too few for all threads."""
    for part in parallel((rows + height - 1) // height, 4 * height * n):
        first = part * 2 * n
        for j in range(2 * n):
            sums[first + j] = 0
        for row in range(part * height, min(part * height + height, rows)):
            centre = like(means[row], x) if centred else like(0, x)
            scale = like(rstds[row], x)
            for j in range(n):
                g = grad[row * n + j]
                sums[first + j] += float64(g * ((x[row * n + j] - centre) * scale))
                sums[first + n + j] += float64(g)


@kernel
def join_column_gradients(of_weight: flat, of_bias: flat, sums: flat, parts, n, *, weighted, biased):
    for j in parallel(n, 2 * parts):
        product = float64(0)
        total = float64(0)
        for part in range(parts):
            product += sums[part * 2 * n + j]
            total += sums[part * 2 * n + n + j]
        if weighted:
            of_weight[j] = product
        if biased:
            of_bias[j] = total


# groups of channels --------------------------------------------------------------------------------------------------


@kernel
def normalise_groups(out: flat, means: flat, rstds: flat, x: flat, weight: flat, bias: flat, samples, groups, channels,
                     inner, eps: float, *, weighted, biased):
    """The elements of each group of a sample, `channels` planes of `inner`."""
    n = channels * inner
    for row in parallel(samples * groups, 4 * n):
        first = row * n
        centre = like(sum_of(x, first, n) / n, x)
        scale = like(1 / sqrt(squares_about(x, first, n, centre) / n + eps), x)
        means[row] = centre
        rstds[row] = scale
        at = row % groups * channels
        for c in range(channels):
            slope = scale * weight[at + c] if weighted else scale
            shift = like(bias[at + c], x) if biased else like(0, x)
            for i in range(first + c * inner, first + c * inner + inner):
                out[i] = (x[i] - centre) * slope + shift


@kernel
def group_gradients(out: flat, grad: flat, x: flat, means: flat, rstds: flat, weight: flat, samples, groups, channels,
                    inner, *, weighted):
    n = channels * inner
    for row in parallel(samples * groups, 4 * n):
        first = row * n
        centre = like(means[row], x)
        scale = like(rstds[row], x)
        at = row % groups * channels
        total = float64(0)
        along = float64(0)
        for c in range(channels):
            own = like(weight[at + c], x) if weighted else like(1, x)
            total += sum_of(grad, first + c * inner, inner) * float64(own)
            along += products_about(grad, x, first + c * inner, inner, centre) * float64(own)
        slope = like(along / n, x) * scale * scale
        shift = like(total / n, x)
        for c in range(channels):
            own = like(weight[at + c], x) if weighted else like(1, x)
            for i in range(first + c * inner, first + c * inner + inner):
                out[i] = (grad[i] * own - shift - (x[i] - centre) * slope) * scale


@kernel
def group_parameter_gradients(of_weight: flat, of_bias: flat, grad: flat, x: flat, means: flat, rstds: flat, samples,
                              groups, channels, inner):
    """The gradients of weight and bias, for each channel."""
    for c in parallel(groups * channels, 4 * samples * inner):
        product = float64(0)
        total = float64(0)
        for s in range(samples):
            first = (s * groups * channels + c) * inner
            row = s * groups + c // channels
            product += products_about(grad, x, first, inner, like(means[row], x)) * float64(rstds[row])
            total += sum_of(grad, first, inner)
        of_weight[c] = product
        of_bias[c] = total


# channels over a batch -----------------------------------------------------------------------------------------------


@kernel
def normalise_planes(out: flat, means: flat, rstds: flat, x: flat, weight: flat, bias: flat, samples, channels, inner,
                     eps: float, *, weighted, biased):
    for c in parallel(channels, 4 * samples * inner):
        total = float64(0)
        for s in range(samples):
            total += sum_of(x, (s * channels + c) * inner, inner)
        centre = like(total / (samples * inner), x)
        squares = float64(0)
        for s in range(samples):
            squares += squares_about(x, (s * channels + c) * inner, inner, centre)
        scale = like(1 / sqrt(squares / (samples * inner) + eps), x)
        means[c] = centre
        rstds[c] = scale
        slope = scale * weight[c] if weighted else scale
        shift = like(bias[c], x) if biased else like(0, x)
        for s in range(samples):
            first = (s * channels + c) * inner
            for i in range(first, first + inner):
                out[i] = (x[i] - centre) * slope + shift


@kernel
def plane_gradients(out: flat, of_weight: flat, of_bias: flat, grad: flat, x: flat, means: flat, rstds: flat,
                    weight: flat, samples, channels, inner, *, weighted, wanted):
    """The gradients of weight and bias, and of the input where it is `wanted`."""
    for c in parallel(channels, 4 * samples * inner):
        centre = like(means[c], x)
        scale = like(rstds[c], x)
        total = float64(0)
        along = float64(0)
        for s in range(samples):
            first = (s * channels + c) * inner
            total += sum_of(grad, first, inner)
            along += products_about(grad, x, first, inner, centre)
        of_weight[c] = along * float64(scale)
        of_bias[c] = total
        if wanted:
            count = samples * inner
            own = scale * weight[c] if weighted else scale
            slope = like(along / count, x) * scale * scale
            shift = like(total / count, x)
            for s in range(samples):
                first = (s * channels + c) * inner
                for i in range(first, first + inner):
                    out[i] = (grad[i] - shift - (x[i] - centre) * slope) * own


@kernel
def scale_planes(out: flat, x: flat, weight: flat, bias: flat, mean: flat, var: flat, samples, channels, inner,
                 eps: float, *, weighted, biased, shifted):
    """Channels by given means (if `shifted`) and variances."""
    for turn in parallel(samples * channels, inner):
        c = turn % channels
        scale = like(1 / sqrt(float64(var[c]) + eps), x)
        slope = scale * weight[c] if weighted else scale
        shift = like(bias[c], x) if biased else like(0, x)
        shift = shift - like(mean[c], x) * slope if shifted else shift
        for i in range(turn * inner, turn * inner + inner):
            out[i] = x[i] * slope + shift


@kernel
def normalise_columns(out: flat, means: flat, rstds: flat, x: flat, weight: flat, bias: flat, rows, channels, width,
                      eps: float, *, weighted, biased):
    """The same of channels that lie next to each other."""
    for turn in parallel((channels + width - 1) // width, 4 * rows * width):
        first = turn * width
        columns = min(width, channels - first)
        totals = local(COLUMNS, float64)
        some = local(COLUMNS, x)
        centre = local(COLUMNS, x)
        slope = local(COLUMNS, x)
        shift = local(COLUMNS, x)
        for j in range(columns):
            totals[j] = 0
        for block in range(0, rows, ROWS):
            for j in range(columns):
                some[j] = 0
            end = min(block + ROWS, rows)
            for row in range(block, end - 3, 4):  # four at a time: `some` is loaded and stored less often
                for j in range(columns):
                    i = row * channels + first + j
                    some[j] += x[i] + x[i + channels] + (x[i + 2 * channels] + x[i + 3 * channels])
            for row in range(end - (end - block) % 4, end):
                for j in range(columns):
                    some[j] += x[row * channels + first + j]
            for j in range(columns):
                totals[j] += float64(some[j])
        for j in range(columns):
            centre[j] = totals[j] / rows
            totals[j] = 0
        for block in range(0, rows, ROWS):
            for j in range(columns):
                some[j] = 0
            end = min(block + ROWS, rows)
            for row in range(block, end - 3, 4):
                for j in range(columns):
                    i = row * channels + first + j
                    middle = centre[j]
                    a, b = x[i] - middle, x[i + channels] - middle
                    c, d = x[i + 2 * channels] - middle, x[i + 3 * channels] - middle
                    some[j] += a * a + b * b + (c * c + d * d)
            for row in range(end - (end - block) % 4, end):
                for j in range(columns):
                    apart = x[row * channels + first + j] - centre[j]
                    some[j] += apart * apart
            for j in range(columns):
                totals[j] += float64(some[j])
        for j in range(columns):
            scale = like(1 / sqrt(totals[j] / rows + eps), x)
            means[first + j] = centre[j]
            rstds[first + j] = scale
            slope[j] = scale * weight[first + j] if weighted else scale
            shift[j] = like(bias[first + j], x) if biased else like(0, x)
        for row in range(rows):
            for j in range(columns):
                i = row * channels + first + j
                out[i] = (x[i] - centre[j]) * slope[j] + shift[j]


@kernel
def channel_gradients(out: flat, of_weight: flat, of_bias: flat, grad: flat, x: flat, means: flat, rstds: flat,
                      weight: flat, rows, channels, width, *, weighted, wanted):
    for turn in parallel((channels + width - 1) // width, 4 * rows * width):
        first = turn * width
        columns = min(width, channels - first)
        products = local(COLUMNS, float64)
        totals = local(COLUMNS, float64)
        product = local(COLUMNS, x)
        total = local(COLUMNS, x)
        centre = local(COLUMNS, x)
        own = local(COLUMNS, x)
        for j in range(columns):
            products[j] = 0
            totals[j] = 0
            centre[j] = means[first + j]
        for block in range(0, rows, ROWS):
            clear(product, total, columns)
            end = min(block + ROWS, rows)
            for row in range(block, end - 1, 2):
                for j in range(columns):
                    i = row * channels + first + j
                    g, h = grad[i], grad[i + channels]
                    product[j] += g * (x[i] - centre[j]) + h * (x[i + channels] - centre[j])
                    total[j] += g + h
            for row in range(end - (end - block) % 2, end):
                for j in range(columns):
                    i = row * channels + first + j
                    product[j] += grad[i] * (x[i] - centre[j])
                    total[j] += grad[i]
            carry(products, totals, product, total, columns)
        for j in range(columns):
            scale = like(rstds[first + j], x)
            of_weight[first + j] = products[j] * float64(scale)
            of_bias[first + j] = totals[j]
            own[j] = scale * weight[first + j] if weighted else scale
            product[j] = like(products[j] / rows, x) * scale * scale
            total[j] = totals[j] / rows
        if wanted:
            for row in range(rows):
                for j in range(columns):
                    i = row * channels + first + j
                    out[i] = (grad[i] - total[j] - (x[i] - centre[j]) * product[j]) * own[j]


@kernel
def scale_columns(out: flat, x: flat, weight: flat, bias: flat, mean: flat, var: flat, rows, channels, eps: float, *,
                  weighted, biased, shifted):
    blocks = (channels + COLUMNS - 1) // COLUMNS
    for turn in parallel((rows + ROWS - 1) // ROWS * blocks, ROWS * min(channels, COLUMNS)):
        first = turn % blocks * COLUMNS
        columns = min(COLUMNS, channels - first)
        slope = local(COLUMNS, x)
        shift = local(COLUMNS, x)
        for j in range(columns):
            scale = like(1 / sqrt(float64(var[first + j]) + eps), x)
            own = scale * weight[first + j] if weighted else scale
            offset = like(bias[first + j], x) if biased else like(0, x)
            slope[j] = own
            shift[j] = offset - like(mean[first + j], x) * own if shifted else offset
        for row in range(turn // blocks * ROWS, min(turn // blocks * ROWS + ROWS, rows)):
            for j in range(columns):
                i = row * channels + first + j
                out[i] = x[i] * slope[j] + shift[j]


@kernel
def move_statistics(running_mean: flat, running_var: flat, mean: flat, rstd: flat, channels, momentum: float,
                    eps: float, unbiased: float):
    """Running statistics moved towards those of a batch."""
    for c in range(channels):
        running_mean[c] = running_mean[c] + (mean[c] - running_mean[c]) * momentum
        variance = (1 / (rstd[c] * rstd[c]) - eps) * unbiased
        running_var[c] = running_var[c] + (variance - running_var[c]) * momentum
