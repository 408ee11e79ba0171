"""The k first elements of rows, of equal ones those that PyTorch gives.

Which of equal elements are chosen, and in which order, follows from the steps of the algorithm. PyTorch uses those of
the C++ library that compilers on Linux bring along: a heap for few elements of many, else partitions about the median
of three and insertion into short stretches. Rows lie along the middle dimension of `x`; `places` holds indices.
"""

from ..language import function, kernel, local, parallel
from .order import before, put

FEW_OF = 64  # a heap is used for one element of so many, or fewer
STRETCH = 16  # elements that insertion sorts, and not partitions


@function
def earlier(x, o, j, a, b, largest, nans):
    return before(x[o, a, j], x[o, b, j], largest, nans)


@function
def sift(places, row, first, start, length, place, x, o, j, largest, nans):
    """Puts a place into a heap of which the start is free: down to a leaf, and up again as far as it belongs."""
    hole, child = start, start
    while child < (length - 1) // 2:
        child = 2 * (child + 1)
        if earlier(x, o, j, places[row, first + child], places[row, first + child - 1], largest, nans):
            child -= 1
        places[row, first + hole] = places[row, first + child]
        hole = child
    if length % 2 == 0 and child == (length - 2) // 2:
        child = 2 * (child + 1)
        places[row, first + hole] = places[row, first + child - 1]
        hole = child - 1
    while hole > start and earlier(x, o, j, places[row, first + (hole - 1) // 2], place, largest, nans):
        places[row, first + hole] = places[row, first + (hole - 1) // 2]
        hole = (hole - 1) // 2
    places[row, first + hole] = place
    return hole


@function
def heap_made(places, row, first, length, x, o, j, largest, nans):
    for i in range(length // 2):
        at = length // 2 - 1 - i
        sift(places, row, first, at, length, places[row, first + at], x, o, j, largest, nans)
    return length


@function
def heap_sorted(places, row, first, length, x, o, j, largest, nans):
    for i in range(length - 1):
        last = first + length - 1 - i
        place = places[row, last]
        places[row, last] = places[row, first]
        sift(places, row, first, 0, last - first, place, x, o, j, largest, nans)
    return length


@function
def inserted(places, row, first, last, x, o, j, largest, nans):
    """Sorts a stretch by insertion."""
    for i in range(first + 1, last):
        place, at = places[row, i], i
        while at > first and earlier(x, o, j, place, places[row, at - 1], largest, nans):
            places[row, at] = places[row, at - 1]
            at -= 1
        places[row, at] = place
    return last


@function
def out_of_place(places, row, low, high, pivot, x, o, j, largest, nans):
    """The next places from below and from above whose elements belong on the other side of the pivot."""
    while earlier(x, o, j, places[row, low], pivot, largest, nans):
        low += 1
    while earlier(x, o, j, pivot, places[row, high], largest, nans):
        high -= 1
    return low, high


@function
def partitioned(places, row, first, last, x, o, j, largest, nans):
    """Where the second part begins, once the median of three has parted a stretch in two."""
    b, c = first + (last - first) // 2, last - 1
    chosen = first + 1
    if earlier(x, o, j, places[row, first + 1], places[row, b], largest, nans):
        if earlier(x, o, j, places[row, b], places[row, c], largest, nans):
            chosen = b
        elif earlier(x, o, j, places[row, first + 1], places[row, c], largest, nans):
            chosen = c
    elif not earlier(x, o, j, places[row, first + 1], places[row, c], largest, nans):
        chosen = c if earlier(x, o, j, places[row, b], places[row, c], largest, nans) else b
    pivot = places[row, chosen]
    places[row, chosen] = places[row, first]
    places[row, first] = pivot
    low, high = first + 1, last - 1
    low, high = out_of_place(places, row, low, high, pivot, x, o, j, largest, nans)
    while low < high:
        place = places[row, low]
        places[row, low] = places[row, high]
        places[row, high] = place
        low, high = out_of_place(places, row, low + 1, high - 1, pivot, x, o, j, largest, nans)
    return low


@function
def twice_the_logarithm(n):
    depth = 0
    while n > 1:
        n, depth = n // 2, depth + 2
    return depth


@function
def heap_selected(places, row, first, middle, last, x, o, j, largest, nans):
    """Brings the elements that come first before `middle`, the one that comes last of them in front."""
    heap_made(places, row, first, middle - first, x, o, j, largest, nans)
    for i in range(middle, last):
        place = places[row, i]
        if earlier(x, o, j, place, places[row, first], largest, nans):
            places[row, i] = places[row, first]
            sift(places, row, first, 0, middle - first, place, x, o, j, largest, nans)
    return middle


@kernel
def few_of_many(values, indices, places, x, *, largest, nans):
    """As many elements of each row as `values` has room for, in their order; `places` has as much."""
    length, inner, k = x.shape[1], x.shape[2], values.shape[1]
    for row in parallel(x.shape[0] * inner, 4 * length):
        o, j = row // inner, row % inner
        for i in range(k):
            places[row, i] = i
        heap_made(places, row, 0, k, x, o, j, largest, nans)
        for i in range(k, length):
            if earlier(x, o, j, i, places[row, 0], largest, nans):
                sift(places, row, 0, 0, k, i, x, o, j, largest, nans)
        heap_sorted(places, row, 0, k, x, o, j, largest, nans)
        for i in range(k):
            indices[o, i, j] = places[row, i]
            values[o, i, j] = x[o, places[row, i], j]


@function
def best_kept(values, indices, x, o, j, k, largest, nans):
    """Whether the elements that come first, kept sorted while the row is read, are the same in whatever way found."""
    for i in range(x.shape[1]):
        value = x[o, i, j]
        if i < k or before(value, values[o, k - 1, j], largest, nans):
            put(values, indices, o, j, min(i, k - 1), value, i, largest, nans)
    last, equal = values[o, k - 1, j], -1
    for i in range(x.shape[1]):
        equal += 0 if before(x[o, i, j], last, largest, nans) or before(last, x[o, i, j], largest, nans) else 1
    for i in range(1, k):
        equal += 0 if before(values[o, i - 1, j], values[o, i, j], largest, nans) else 1
    return equal == 0


@function
def selected(places, row, wanted, x, o, j, largest, nans):
    """Brings the place that is wanted where it stands when all are sorted, and those that come first before it."""
    first, last, depth = 0, x.shape[1], twice_the_logarithm(x.shape[1])
    while last - first > 3:
        if depth == 0:
            heap_selected(places, row, first, wanted + 1, last, x, o, j, largest, nans)
            place = places[row, first]
            places[row, first] = places[row, wanted]
            places[row, wanted] = place
            first = last
        else:
            depth -= 1
            cut = partitioned(places, row, first, last, x, o, j, largest, nans)
            first, last = cut if cut <= wanted else first, last if cut <= wanted else cut
    inserted(places, row, first, last, x, o, j, largest, nans)
    return wanted


@function
def sorted_up_to(places, row, end, todo, x, o, j, largest, nans):
    """Sorts the first places; `todo` has room for the stretches that wait, three numbers each."""
    count = 0
    if end > STRETCH:
        todo[0], todo[1], todo[2] = 0, end, twice_the_logarithm(end)
        count = 3
    while count > 0:
        count -= 3
        first, last, depth = todo[count], todo[count + 1], todo[count + 2]
        if depth == 0:
            heap_made(places, row, first, last - first, x, o, j, largest, nans)
            heap_sorted(places, row, first, last - first, x, o, j, largest, nans)
        else:
            cut = partitioned(places, row, first, last, x, o, j, largest, nans)
            if last - cut > STRETCH:
                todo[count], todo[count + 1], todo[count + 2] = cut, last, depth - 1
                count += 3
            if cut - first > STRETCH:
                todo[count], todo[count + 1], todo[count + 2] = first, cut, depth - 1
                count += 3
    inserted(places, row, 0, end, x, o, j, largest, nans)
    return end


@kernel
def many(values, indices, places, x, *, largest, in_order, few, nans):
    """As many elements of each row as `values` has room for (`few`: not many); `places` has room for all."""
    length, inner, k = x.shape[1], x.shape[2], values.shape[1]
    todo = local(256, places)
    for row in parallel(x.shape[0] * inner, 16 * length):
        o, j = row // inner, row % inner
        found = False
        if in_order and few:
            found = best_kept(values, indices, x, o, j, k, largest, nans)
        if not found:
            for i in range(length):
                places[row, i] = i
            selected(places, row, k - 1, x, o, j, largest, nans)
            if in_order:
                sorted_up_to(places, row, k - 1, todo, x, o, j, largest, nans)
            for i in range(k):
                indices[o, i, j] = places[row, i]
                values[o, i, j] = x[o, places[row, i], j]


@function
def quickly_selected(places, row, wanted, x, o, j, nans):
    """Brings the place that is wanted where it stands when all are sorted, by PyTorch's own steps for one element."""
    left, right = 0, x.shape[1] - 1
    while right > left + 1:
        middle = (left + right) // 2
        swapped(places, row, middle, left + 1)
        ordered(places, row, left + 1, right, x, o, j, nans)
        ordered(places, row, left, right, x, o, j, nans)
        ordered(places, row, left + 1, left, x, o, j, nans)
        low, high, pivot = left + 2, right - 1, places[row, left]
        while earlier(x, o, j, places[row, low], pivot, False, nans):
            low += 1
        while earlier(x, o, j, pivot, places[row, high], False, nans):
            high -= 1
        while high >= low:
            swapped(places, row, low, high)
            low, high = low + 1, high - 1
            while earlier(x, o, j, places[row, low], pivot, False, nans):
                low += 1
            while earlier(x, o, j, pivot, places[row, high], False, nans):
                high -= 1
        swapped(places, row, left, high)
        left, right = low if high <= wanted else left, high - 1 if high >= wanted else right
    if right == left + 1:
        ordered(places, row, left, right, x, o, j, nans)
    return wanted


@function
def swapped(places, row, a, b):
    place = places[row, a]
    places[row, a] = places[row, b]
    places[row, b] = place
    return place


@function
def ordered(places, row, a, b, x, o, j, nans):
    """Exchanges two places unless the element of the first stands before that of the second or is equal."""
    if earlier(x, o, j, places[row, b], places[row, a], False, nans):
        swapped(places, row, a, b)
    return a


@kernel
def kth(values, indices, places, x, k, *, nans):
    """The k-th smallest element of each row, counted from zero; `places` has room for all."""
    length, inner = x.shape[1], x.shape[2]
    for row in parallel(x.shape[0] * inner, 8 * length):
        o, j = row // inner, row % inner
        for i in range(length):
            places[row, i] = i
        quickly_selected(places, row, k, x, o, j, nans)
        indices[o, 0, j] = places[row, k]
        values[o, 0, j] = x[o, places[row, k], j]


@kernel
def mode(values, indices, places, x, *, nans):
    """The smallest of the most frequent elements of each row; `places` has room for all."""
    length, inner = x.shape[1], x.shape[2]
    todo = local(256, places)
    for row in parallel(x.shape[0] * inner, 16 * length):
        o, j = row // inner, row % inner
        for i in range(length):
            places[row, i] = i
        sorted_up_to(places, row, length, todo, x, o, j, False, nans)
        run, longest, found = 0, -1, 0
        for i in range(length):
            equal = i > 0 and x[o, places[row, i], j] == x[o, places[row, max(i - 1, 0)], j]
            run = run + 1 if equal else 0
            if run > longest:
                longest, found = run, places[row, i]
        indices[o, 0, j] = found
        values[o, 0, j] = x[o, found, j]
