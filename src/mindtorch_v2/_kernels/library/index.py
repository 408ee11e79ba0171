"""Elements read and written at places that arrays name.

Along one dimension, arrays are (outer, places, inner). What writes is shared out so that each element has one owner.
"""

from ..language import flat, function, kernel, parallel

_BLOCK = 4096  # indices that are looked at in one turn
_LANES = 256  # elements of the last dimension that are written in one turn


@kernel
def find_outside(bad, index, low, high):
    """Tells in `bad` whether an index is below `low`, or `high` and above."""
    for block in parallel((index.shape[0] + _BLOCK - 1) // _BLOCK, _BLOCK):
        wrong = 0
        for i in range(block * _BLOCK, min(block * _BLOCK + _BLOCK, index.shape[0])):
            wrong += 1 if index[i] < low or index[i] >= high else 0
        if wrong > 0:
            bad[0] = 1


@function
def put(out, bad, x, o, p, i, at):
    """out[o, p, i] = x[o, at, i], if there is such an element."""
    if at >= 0 and at < x.shape[1]:
        out[o, p, i] = x[o, at, i]
    else:
        bad[0] = 1


@kernel
def gather(out, bad, x, index, *, single):
    """out[o, p, i] = x[o, index[o, p, i], i]; an index that is outside is told in `bad`.

    With `single`, the last dimension has one element, here and below.
    """
    if single:
        for o in parallel(out.shape[0], out.shape[1]):
            for p in range(out.shape[1]):
                at = index[o, p, 0]
                put(out, bad, x, o, p, 0, at)
    else:
        for row in parallel(out.shape[0] * out.shape[1], out.shape[2]):
            o, p = row // out.shape[1], row % out.shape[1]
            for i in range(out.shape[2]):
                at = index[o, p, i]
                put(out, bad, x, o, p, i, at)


@kernel
def take_rows(out, bad, x, index, *, single):
    """out[o, p, :] = x[o, index[p], :]; an index that is outside is told in `bad`."""
    if single:
        for o in parallel(out.shape[0], out.shape[1]):
            for p in range(out.shape[1]):
                at = index[p]
                put(out, bad, x, o, p, 0, at)
    else:
        for row in parallel(out.shape[0] * out.shape[1], out.shape[2]):
            o, p = row // out.shape[1], row % out.shape[1]
            at = index[p]
            if at >= 0 and at < x.shape[1]:
                for i in range(out.shape[2]):
                    out[o, p, i] = x[o, at, i]
            else:
                bad[0] = 1


@kernel
def take(out, bad, x, index):
    """out[p] = x[index[p]], where negative indices count from the end."""
    for block in parallel((index.shape[0] + _BLOCK - 1) // _BLOCK, _BLOCK):
        for p in range(block * _BLOCK, min(block * _BLOCK + _BLOCK, index.shape[0])):
            at = index[p]
            at = at + x.shape[0] if at < 0 else at
            if at >= 0 and at < x.shape[0]:
                out[p] = x[at]
            else:
                bad[0] = 1


@kernel
def move(out: flat, x: flat, targets: flat, places: flat, count):
    """out[targets[i]] = x[places[i]] for a few elements."""
    for i in range(count):
        out[targets[i]] = x[places[i]]


@function
def folded(old, new, fold):
    """What becomes of an element that another one is written to."""
    if fold == "put":
        return new
    if fold == "add":
        return old + new
    if fold == "multiply":
        return old * new
    if fold == "maximum":
        return max(old, new)
    return min(old, new)


@kernel
def convert(out: flat, x: flat, count):
    """Elements in another type."""
    for i in parallel(count, 1):
        out[i] = x[i]


@kernel
def scatter(out, index, src, *, fold, one, single):
    """out[o, index[o, p, i], i] is folded with src[o, p, i], or the `one` there is; all indices are inside."""
    if single:
        for o in parallel(index.shape[0], index.shape[1]):
            for p in range(index.shape[1]):
                at = index[o, p, 0]
                out[o, at, 0] = folded(out[o, at, 0], src[0, 0, 0] if one else src[o, p, 0], fold)
    else:
        chunks = (index.shape[2] + _LANES - 1) // _LANES
        for part in parallel(index.shape[0] * chunks, index.shape[1] * min(_LANES, index.shape[2])):
            o, begin = part // chunks, part % chunks * _LANES
            for p in range(index.shape[1]):
                for i in range(begin, min(begin + _LANES, index.shape[2])):
                    at = index[o, p, i]
                    out[o, at, i] = folded(out[o, at, i], src[0, 0, 0] if one else src[o, p, i], fold)


@kernel
def finish_means(out, counts, *, own, whole):
    """Divides sums by how many were added, and one more if the element itself counts."""
    for row in parallel(out.shape[0] * out.shape[1], out.shape[2]):
        o, p = row // out.shape[1], row % out.shape[1]
        for i in range(out.shape[2]):
            count = max(counts[o, p, i] + own, 1)
            if whole:
                out[o, p, i] = out[o, p, i] // count
            else:
                out[o, p, i] = out[o, p, i] / count


@kernel
def fold_rows(out, index, src, parts, factor, *, fold, scaled):
    """out[o, index[p], :] is folded with src[o, p, :]; each of `parts` owns some rows. All indices are inside."""
    count = out.shape[1]
    for part in parallel(out.shape[0] * parts, index.shape[0] * src.shape[2] // parts + 1):
        o, nr = part // parts, part % parts
        begin, end = nr * count // parts, (nr + 1) * count // parts
        for p in range(index.shape[0]):
            at = index[p]
            at = at + count if at < 0 else at
            if at >= begin and at < end:
                for i in range(src.shape[2]):
                    value = src[o, p, i] * factor if scaled else src[o, p, i]
                    out[o, at, i] = folded(out[o, at, i], value, fold)


@kernel
def fold_places(out, index, src, parts, *, fold):
    """out[index[p]] is folded with src[p]; each of `parts` owns some of the elements. All indices are inside."""
    count = out.shape[0]
    for nr in parallel(parts, index.shape[0]):
        begin, end = nr * count // parts, (nr + 1) * count // parts
        for p in range(index.shape[0]):
            at = index[p]
            at = at + count if at < 0 else at
            if at >= begin and at < end:
                out[at] = folded(out[at], src[p], fold)


@kernel
def fold_at_pairs(out, rows, columns, src, parts, *, fold):
    """out[rows[p], columns[p]] is folded with src[p]; each of `parts` owns some of the rows. All indices are inside."""
    count = out.shape[0]
    for nr in parallel(parts, rows.shape[0]):
        begin, end = nr * count // parts, (nr + 1) * count // parts
        for p in range(rows.shape[0]):
            row, column = rows[p], columns[p]
            row = row + count if row < 0 else row
            if row >= begin and row < end:
                column = column + out.shape[1] if column < 0 else column
                out[row, column] = folded(out[row, column], src[p], fold)


@kernel
def sum_rows(out, index, src, parts, skipped):
    """out[index[p], :] += src[p, :], without the rows that are `skipped` and those that there are not."""
    count = out.shape[0]
    for nr in parallel(parts, index.shape[0] * src.shape[1] // parts + 1):
        begin, end = nr * count // parts, (nr + 1) * count // parts
        for p in range(index.shape[0]):
            at = index[p]
            if at >= begin and at < end and at != skipped:
                for i in range(src.shape[1]):
                    out[at, i] += src[p, i]


@kernel
def nonzero(places, x, sizes):
    """Where elements are not zero: a row of `places` for each dimension; those before the last have these sizes.

    Rows of x lie along the last dimension. Which of its elements are not zero is written down without a branch, beyond
    the last that is not zero too, as long as there is room for that.
    """
    count, length, last = places.shape[1], x.shape[1], places.shape[0] - 1
    found = 0
    for row in range(x.shape[0]):
        before = found
        if before + length <= count:
            for j in range(length):
                places[last, found] = j
                found += 1 if x[row, j] != 0 else 0
        else:
            for j in range(length):
                if x[row, j] != 0:
                    places[last, found] = j
                    found += 1
        rest = row
        for step in range(last):
            d = last - 1 - step
            place, rest = rest % sizes[d], rest // sizes[d]
            for i in range(before, found):
                places[d, i] = place
