"""Products of matrices whose second factor was packed into panels, where the processor's tile is known."""

from ..language import function, kernel, multiply, multiply_panel, pack, parallel


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
