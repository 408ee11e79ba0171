"""What the entries of compiled loops ask of shapes; `arrays` is where the addresses of the ndarrays lie.

The fields of an ndarray are its data at byte 16, its number of dimensions at 24, its shape at 32, its strides at 40.
"""

from ..language import function, peek, peek32, poke

RANK = 8  # dimensions up to which arrays are spread over a common shape
LARGEST = 1 << 13  # elements


@function
def alike(arrays, sizes, count):
    """The number of elements of arrays of one shape in C order, -1 for others; `sizes` are those of their elements."""
    first = peek(arrays)
    ndim = peek32(first + 24)
    for k in range(1, count):
        if peek32(peek(arrays + 8 * k) + 24) != ndim:
            return -1
    total = 1
    for d in range(ndim - 1, -1, -1):
        size = peek(peek(first + 32) + 8 * d)
        for k in range(count):
            array = peek(arrays + 8 * k)
            if peek(peek(array + 32) + 8 * d) != size or peek(peek(array + 40) + 8 * d) != total * peek(sizes + 8 * k):
                return -1
        total *= size
    return total


@function
def spread(arrays, count, plain, itemsize, geometry, dims, last):
    """The number of dimensions of what arrays broadcast to, with its sizes in `dims`; -1 where others have to do it.

    `geometry` is filled as `pointwise.small_kernel` says, for a result in C order: what PyTorch makes unless strides of
    an array fall towards the front, those of dimensions of size 1 among them. Only of arrays that are all contiguous
    and of one shape it does not look at these; `plain` is 1 if they may be the only operands. `last` is room for one
    word an array.
    """
    rank = 0
    odd = 0
    for k in range(count):
        rank = max(rank, peek32(peek(arrays + 8 * k) + 24))
        poke(last + 8 * k, 0)
    if rank > RANK:
        return -1
    total = 1
    for d in range(rank):
        size = 1
        row = geometry + 8 * (4 if d == 0 else 5 + count + (d - 1) * (2 + count) + 1)  # the strides of this dimension
        for k in range(count):
            array = peek(arrays + 8 * k)
            at = 8 * (peek32(array + 24) - 1 - d)
            step = 0
            if at >= 0:
                own = peek(peek(array + 32) + at)
                if own != 1:
                    step = peek(peek(array + 40) + at)
                    if size != 1 and size != own or own == 0:
                        return -1
                    size = own
            if step != 0:
                if 2 * step + 1 < peek(last + 8 * k):
                    odd = 1
                poke(last + 8 * k, 2 * step + 1)
            poke(row + 8 * (1 + k), step)
        for k in range(count):
            array = peek(arrays + 8 * k)
            at = 8 * (peek32(array + 24) - 1 - d)
            # of another shape, or by NumPy's flag not C-contiguous
            if at < 0 or peek32(array + 64) & 1 == 0 or peek(peek(array + 32) + at) != size:
                plain = 0
            if at >= 0 and size == 1:  # its stride tells of the order, too; one like that of a longer one comes first
                step = 2 * peek(peek(array + 40) + at)
                if step != 0:
                    if step < peek(last + 8 * k):
                        odd = 1
                    poke(last + 8 * k, step)
        poke(row, itemsize * total)
        poke(geometry if d == 0 else row - 8, size)
        poke(dims + 8 * (rank - 1 - d), size)
        total *= size
    if odd == 1 and plain == 0:
        return -1
    if rank == 0 or total > LARGEST:
        return -1
    if rank == 1:
        poke(geometry + 8 * (5 + count), 1)
    poke(geometry + 16, rank - 1)
    poke(geometry + 24, total // peek(geometry) // peek(geometry + 8 * (5 + count)))
    return rank
