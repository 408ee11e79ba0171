"""Products of matrices whose second factor was packed into panels, where the processor's tile is known."""

from ..language import function, kernel, multiply, multiply_panel, pack, parallel

_QUICK = 3  # multiplications of a product in the time of an addition


@kernel
def packed(panels, b, *, turned, tile):
    """All panels of a matrix, or of its transpose."""
    inner, width = panels.shape[1], panels.shape[2]
    columns = b.shape[0] if turned else b.shape[1]
    for panel in parallel(panels.shape[0], 2 * inner * width):
        first = panel * width
        there = min(width, columns - first)
        if turned:
            pack(panels, panel, b, (first, 0), (there, inner), turned=True, tile=tile)
        else:
            pack(panels, panel, b, (0, first), (there, inner), turned=False, tile=tile)


@function
def times(made, row, a, a_row, weight, sizes, tile, wide, adds=False):
    """Rows of a matrix become those of another times `weight`, or get them added: panels, or a matrix without a tile.

    `sizes` are rows, columns, and what is summed over; BLAS multiplies matrices, `wide` as in `multiply`.
    """
    if tile:
        rows, columns, inner = sizes
        width = weight.shape[2]
        for panel in range(weight.shape[0]):
            first = panel * width
            multiply_panel(made, (row, first), a, (a_row, 0), weight, panel, (rows, min(width, columns - first), inner),
                           adds=adds, tile=tile)
    else:
        multiply(made, (row, 0), a, (a_row, 0), weight, (0, 0), sizes, adds=adds, wide=wide)


@kernel
def linear(out, weight, bias, panels, sums, turned, parts, *, biased, tile):
    """Few rows, which are packed, times the rows of a weight, which is read as it lies.

    So the weight need not be packed, which takes as long as multiplying some rows with it. Panels hold columns of the
    transposed rows; a block of the transposed result, in `sums`, is `turned` while it is in the cache.
    """
    rows, columns, inner, width = out.shape[0], out.shape[1], panels.shape[1], panels.shape[2]
    blocks = (columns + width - 1) // width
    for part in parallel(parts, rows * columns // parts * inner // _QUICK):
        for block in range(blocks * part // parts, blocks * (part + 1) // parts):
            first = block * width
            there = min(width, columns - first)
            for panel in range(panels.shape[0]):
                low = panel * width
                size = min(width, rows - low)
                multiply_panel(sums, (part, 0, 0), weight, (first, 0), panels, panel, (there, size, inner), tile=tile)
                pack(turned, part, sums, (part, 0, 0), (there, size), turned=True, tile=tile)
                for r in range(size):
                    for j in range(there):
                        if biased:
                            out[low + r, first + j] = turned[part, r, j] + bias[first + j]
                        else:
                            out[low + r, first + j] = turned[part, r, j]
