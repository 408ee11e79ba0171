"""Products with compressed sparse matrices; `bad[0]` is set for indices that lie outside."""

from ..language import kernel, like, parallel


@kernel
def csr_product(out, bad, starts, columns, values, dense, *, reduce):
    """Rows of a sparse matrix times a dense one, the products of each place reduced; zeros where there are none."""
    width = out.shape[1]
    for i in parallel(out.shape[0], 8 * width):
        first, last = starts[i], starts[i + 1]
        for j in range(width):
            out[i, j] = 0
        if first < 0 or last < first or last > columns.shape[0]:
            bad[0] = 1
        else:
            for e in range(first, last):
                row = columns[e]
                if row < 0 or row >= dense.shape[0]:
                    bad[0] = 1
                else:
                    factor = values[e]
                    for j in range(width):
                        product = factor * dense[row, j]
                        if reduce == "amax":
                            out[i, j] = product if e == first else max(out[i, j], product)
                        elif reduce == "amin":
                            out[i, j] = product if e == first else min(out[i, j], product)
                        else:
                            out[i, j] += product
            if reduce == "mean" and last > first:
                for j in range(width):
                    out[i, j] = out[i, j] / like(last - first, out)


@kernel
def csr_sampled(out, bad, starts, columns, left, right, *, rows):
    """The elements of `left right^T` at the places of a sparse matrix, of which `rows` or columns are listed."""
    width = left.shape[1]
    for i in parallel(starts.shape[0] - 1, 8 * width):
        first, last = starts[i], starts[i + 1]
        if first < 0 or last < first or last > columns.shape[0]:
            bad[0] = 1
        else:
            for e in range(first, last):
                other = columns[e]
                a, b = (i, other) if rows else (other, i)
                if other < 0 or a >= left.shape[0] or b >= right.shape[0]:
                    bad[0] = 1
                else:
                    total = like(0, out)
                    for k in range(width):
                        total += left[a, k] * right[b, k]
                    out[e] = total
