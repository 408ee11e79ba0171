"""Rows of a table that indices name: bags of them folded, and long ones shortened."""

from ..language import flat, isnan, kernel, like, parallel, sqrt


@kernel
def fold_bags(out, told, sizes, largest, bad, table, index, offsets, factors, padding, behind, *, mode, tells, weighed):
    """Folds the rows that each bag names; what cannot be is told in `bad`.

    Bag b begins at `offsets[b]`, the last ends with the indices, and counts those up to `behind`. Without `tells`,
    which bag an index is in is not written. `largest` holds rows of the largest elements, in mode "max".
    """
    bags, count, rows, width = out.shape[0], index.shape[0], table.shape[0], table.shape[1]
    if offsets[0] != 0 or offsets[offsets.shape[0] - 1] > count:
        bad[0] = 1
    for b in parallel(bags, (count // bags + 1) * width):
        begin = offsets[b]
        end = offsets[b + 1] if b + 1 < bags else count
        if end < begin or b + 1 < offsets.shape[0] and offsets[b + 1] < begin:
            bad[0] = 1
        begin, end = max(begin, 0), min(end, count)
        for j in range(width):
            out[b, j] = like(0, table)
            if mode == "max":
                largest[b, j] = 0
        number = 0
        for p in range(begin, end):
            at = index[p]
            if tells:
                told[p] = b
            if at < 0 or at >= rows:
                bad[0] = 1
            elif at != padding:
                number += 1
                if mode == "max":
                    for j in range(width):
                        value = table[at, j]
                        if number == 1 or value > out[b, j] or isnan(value) and not isnan(out[b, j]):
                            out[b, j] = value
                            largest[b, j] = at
                elif p < behind:
                    factor = factors[p] if weighed else like(1, table)
                    for j in range(width):
                        out[b, j] += table[at, j] * factor if weighed else table[at, j]
        if mode == "mean":
            for j in range(width):
                out[b, j] = out[b, j] / max(number, 1)
        if mode != "sum":
            sizes[b] = number


@kernel
def shorten_rows(table, seen, index: flat, count, most: float, *, norm):
    """Brings the rows that indices name down to a length; `seen` holds zeros, one a row. All indices are inside."""
    for p in range(count):
        at = index[p]
        if seen[at] == 0:
            seen[at] = 1
            length = like(0, table)
            for j in range(table.shape[1]):
                value = table[at, j]
                length = (
                    length + value * value
                    if norm == 2
                    else length + abs(value)
                    if norm == 1
                    else max(length, abs(value))
                )
            length = sqrt(length) if norm == 2 else length
            if length > most:
                scale = most / (length + 1e-7)
                for j in range(table.shape[1]):
                    table[at, j] = table[at, j] * scale
