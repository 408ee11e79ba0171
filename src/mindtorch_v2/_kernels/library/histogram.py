"""Counting elements by the bins that they fall into."""

from ..language import fma, int64, kernel, like, parallel


@kernel
def bounds(out, rows):
    """The smallest and the largest element of each column."""
    for d in range(rows.shape[1]):
        low = rows[0, d]
        high = low
        for i in range(rows.shape[0]):
            low = min(low, rows[i, d])
            high = max(high, rows[i, d])
        out[0, d] = low
        out[1, d] = high


@kernel
def edges(out, low: float, high: float):
    """Numbers at equal distances: the first half counted up from the first one, the second down from the last."""
    last = out.shape[0] - 1
    start, end = like(low, out), like(high, out)
    step = (end - start) / last
    for i in range(out.shape[0]):
        if i < out.shape[0] // 2:
            out[i] = fma(step, like(i, out), start)
        else:
            out[i] = fma(-step, like(last - i, out), end)


@kernel
def bins_along(place, rows, edges, dim, *, even):
    """Multiplies places by the number of bins of a dimension and adds each row's bin; -1 for what lies outside.

    Bins of equal width (`even`) are found by a division and a look at their neighbours, others by halving.
    """
    count = edges.shape[0] - 1
    scale = count / (edges[count] - edges[0])
    for i in parallel(place.shape[0], 32):
        x = rows[i, dim]
        if x >= edges[0] and x <= edges[count]:
            low, high = 0, count  # the last edge is of the last bin
            if even:
                low = max(min(int64((x - edges[0]) * scale), count - 1), 0)
                while low > 0 and edges[low] > x:
                    low -= 1
                while low < count - 1 and edges[low + 1] <= x:
                    low += 1
            else:
                while high - low > 1:
                    middle = (low + high) // 2
                    if edges[middle] <= x:
                        low = middle
                    else:
                        high = middle
            if place[i] >= 0:
                place[i] = place[i] * count + low
        else:
            place[i] = -1


@kernel
def counted(out, place, weights, *, weighted):
    """Adds each element, or its weight, to its place."""
    for i in range(place.shape[0]):
        if place[i] >= 0:
            if weighted:
                out[place[i]] += weights[i]
            else:
                out[place[i]] += 1


@kernel
def density(out, edges, total: float, *, first):
    """Divides counts by the widths of bins of the middle dimension; at first by the total too."""
    for i in parallel(out.shape[0], out.shape[1] * out.shape[2]):
        for j in range(out.shape[1]):
            width = edges[j + 1] - edges[j]
            for k in range(out.shape[2]):
                if first:
                    out[i, j, k] = out[i, j, k] / total / width
                else:
                    out[i, j, k] = out[i, j, k] / width
