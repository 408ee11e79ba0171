"""Counting elements by the bins that they fall into."""

from ..language import kernel, parallel


@kernel
def bins_along(place, rows, edges, dim):
    """Multiplies places by the number of bins of a dimension and adds each row's bin; -1 for what lies outside."""
    count = edges.shape[0] - 1
    for i in parallel(place.shape[0], 32):
        x = rows[i, dim]
        if x >= edges[0] and x <= edges[count]:
            low, high = 0, count  # the last edge is of the last bin
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
