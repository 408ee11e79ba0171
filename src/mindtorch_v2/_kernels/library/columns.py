"""Columns of arrays seen as [outer, n, inner]: those next to each other that one turn of a kernel takes."""

from ..language import function

COLUMNS = 256  # that a turn takes at most: what it keeps of them stays in the nearest cache


@function
def columns_of(turn, blocks, width, n, inner):
    """Of a turn, `blocks` of which make one of `outer`: that one, its first column, how many, and where they begin."""
    o = turn // blocks
    first = (turn - o * blocks) * width
    return o, first, min(width, inner - first), o * n * inner + first
