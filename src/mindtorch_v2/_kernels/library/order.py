"""Sorting short rows, which lie along the middle dimension, medians and searches; `nans`: there may be some."""

from ..language import c_rem, function, isnan, kernel, larger, parallel, smaller

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


@function
def nth_value(room, row, count, wanted):
    """The element that stands at a place once the first `count` of a row are sorted; they are moved about.

    Parts them by the median of three drawn ones, without branches: each is exchanged with the first that is not less.
    """
    left, right, drawn = 0, count, 1
    while right - left > 1:
        width = right - left
        drawn = c_rem(drawn * 1103515245 + 12345, 2147483648)
        a = room[row, left + c_rem(drawn, width)]
        drawn = c_rem(drawn * 1103515245 + 12345, 2147483648)
        b = room[row, left + c_rem(drawn, width)]
        drawn = c_rem(drawn * 1103515245 + 12345, 2147483648)
        c = room[row, left + c_rem(drawn, width)]
        pivot = larger(smaller(a, b), smaller(larger(a, b), c))
        at = left
        for i in range(left, right):
            value = room[row, i]
            room[row, i] = room[row, at]
            room[row, at] = value
            at += 1 if value < pivot else 0
        if wanted < at:
            right = at
        elif at > left:
            left = at
        else:  # none is less: those that are equal
            for i in range(left, right):
                value = room[row, i]
                room[row, i] = room[row, at]
                room[row, at] = value
                at += 1 if value == pivot else 0
            if wanted < at:
                at, right = wanted, wanted + 1
            left = at
    return room[row, left]


@kernel
def median(values, indices, room, x, *, ignored, nans):
    """The lower median of each row: the first NaN if there is one, unless those are `ignored`; of equal ones in order.

    `room` is for the elements of all rows.
    """
    length, inner = x.shape[1], x.shape[2]
    for row in parallel(x.shape[0] * inner, 8 * length):
        o, j = row // inner, row % inner
        known, place = 0, 0
        for i in range(length):
            value = x[o, i, j]
            room[row, known] = value
            if nans:
                known += 0 if isnan(value) else 1
            else:
                known += 1
        if known < length and (known == 0 or not ignored):
            while not isnan(x[o, place, j]):
                place += 1
        else:
            wanted = (known - 1) // 2
            middle = nth_value(room, row, known, wanted)
            for i in range(length):
                wanted -= 1 if x[o, i, j] < middle else 0
            while wanted > 0 or x[o, place, j] != middle:
                wanted -= 1 if x[o, place, j] == middle else 0
                place += 1
        values[o, j] = x[o, place, j]
        indices[o, j] = place


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
