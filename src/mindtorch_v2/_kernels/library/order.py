"""Sorting short rows, which lie along the middle dimension, and what is found by it; `nans`: there may be some."""

from ..language import function, isnan, kernel, local, parallel

SHORT = 64  # elements of a row up to which insertion is the quickest way to sort it


@function
def before(a, b, descending, nans):
    """Whether an element stands before another one when sorted; NaN counts as the largest."""
    if descending and nans:
        return a > b or (isnan(a) and not isnan(b))
    if descending:
        return a > b
    if nans:
        return a < b or (isnan(b) and not isnan(a))
    return a < b


@function
def put(values, indices, o, j, end, value, place, descending, nans):
    """Where an element comes to stand in a row that is sorted up to `end`, once those behind it have moved on."""
    at = end
    while at > 0 and before(value, values[o, at - 1, j], descending, nans):
        values[o, at, j] = values[o, at - 1, j]
        indices[o, at, j] = indices[o, at - 1, j]
        at -= 1
    values[o, at, j] = value
    indices[o, at, j] = place
    return at


@kernel
def sort(values, indices, x, *, descending, nans):
    """Sorts rows, equal elements in the order they have."""
    length, inner = x.shape[1], x.shape[2]
    for row in parallel(x.shape[0] * inner, length * length):
        o, j = row // inner, row % inner
        for i in range(length):
            put(values, indices, o, j, i, x[o, i, j], i, descending, nans)


@kernel
def picked(values, indices, x, *, which, nans):
    """The lower median of each row, of all elements or of numbers."""
    length, inner = x.shape[1], x.shape[2]
    ordered, places = local(64, x), local(64, indices)
    for row in parallel(x.shape[0] * inner, length * length):
        o, j = row // inner, row % inner
        known = 0
        for i in range(length):
            value = x[o, i, j]
            if nans:
                known += 0 if isnan(value) else 1
            else:
                known += 1
            at = i
            while at > 0 and before(value, ordered[at - 1], False, nans):
                ordered[at] = ordered[at - 1]
                places[at] = places[at - 1]
                at -= 1
            ordered[at] = value
            places[at] = i
        found = max(known - 1, 0) // 2
        if which == "median":
            found = (length - 1) // 2 if known == length else known  # the first NaN
        values[o, j] = ordered[found]
        indices[o, j] = places[found]


@kernel
def places(out, bounds, wanted, *, right, rows):
    """How many bounds of its row (of the only one unless `rows`) stand before each element, equal ones if `right`."""
    for i in parallel(out.shape[0], 16 * out.shape[1]):
        for j in range(out.shape[1]):
            value, row = wanted[i, j], i if rows else 0
            low, high = 0, bounds.shape[1]
            while low < high:
                middle = (low + high) // 2
                bound = bounds[row, middle]
                # As comparisons with NaN are false, it stands behind all, and what is sought behind it too.
                if not bound > value if right else not bound >= value:
                    low = middle + 1
                else:
                    high = middle
            out[i, j] = low
