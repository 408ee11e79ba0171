"""Images and volumes read at points between their elements.

Which elements a point is made of, and their weights, is computed once for all channels: `places` and `weights` are
(batch, elements of a point, points), -1 being a place outside; `slopes` have one more dimension in front of the last
two, of the coordinates. The input is (batch, channels, elements of a plane), the grid (batch, points, coordinates).
"""

from ..language import c_rem, floor, fmax, fmin, function, int64, kernel, like, parallel, rint, unrolled

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


@function
def counted_in_elements(point, size, align, rank):
    """A coordinate from -1 to 1 as a place; the order of the steps is PyTorch's."""
    if rank == 2:
        return (point + 1) * ((size - 1) / 2) if align else (point + 1) * (size / 2) - 0.5
    return (point + 1) / 2 * (size - 1) if align else ((point + 1) * size - 1) / 2


@function
def mirrored(point, size, align, rank):
    """The point mirrored at both ends as often as it takes, and the sign of its slope."""
    first = 0.0 if align else -0.5
    span = size - 1 if align else size
    away = abs(point - first)
    turns = floor(away / span)
    if rank == 2:
        rest = away - turns * span
        back = turns - 2 * floor(turns / 2) == 0
    else:  # what an integer cannot count is even
        rest = c_rem(away, span)
        back = turns - 2 * floor(turns / 2) == 0 or turns >= 2147483648.0
    made = (rest if back else span - rest) + first
    upward = (point >= first) == back
    return point * 0 if span == 0 else made, 0 if span == 0 else 1 if upward else -1


@function
def brought_inside(point, size, padding, align, rank):
    """The point as padding moves it, and the slope of that: NaN goes to the first place, or the last of a volume."""
    if padding == ZEROS:
        return point, 1
    if padding == REFLECTION:
        point, sign = mirrored(point, size, align, rank)
    else:
        sign = 1
    slope = sign if point > 0 and point < size - 1 else 0
    return fmin(fmax(point, 0), size - 1) if rank == 2 else fmax(fmin(point, size - 1), 0), slope


@function
def near(x):
    return (1.25 * x - 2.25) * x * x + 1


@function
def near_slope(x):
    return (3.75 * x - 4.5) * x


@function
def far(x):
    return ((-0.75 * x + 3.75) * x - 6) * x + 3


@function
def far_slope(x):
    return (-2.25 * x + 7.5) * x - 6


@function
def tap(point, size, nr, mode, padding, align, rank):
    """One of the elements along a dimension that a point is made of: its place, its weight, and the slope of that."""
    before = floor(point)
    behind = point - before
    if mode == NEAREST:
        return rint(point), 1, 0
    if mode == BILINEAR:
        return before + nr, behind if nr else 1 - behind, 1 if nr else -1
    at, _ = brought_inside(before + (nr - 1), size, padding, align, rank)
    if nr == 0:
        return at, far(behind + 1), far_slope(behind + 1)
    if nr == 1:
        return at, near(behind), near_slope(behind)
    if nr == 2:
        return at, near(1 - behind), -near_slope(1 - behind)
    return at, far(2 - behind), -far_slope(2 - behind)


@function
def coordinate(value, size, mode, padding, align, rank):
    """A coordinate as a place, and the slope of that."""
    point = counted_in_elements(value, size, align, rank)
    factor = (size - 1) / 2 if align else size / 2
    if mode == BICUBIC:  # whose elements are brought inside one by one
        return point, factor
    inside, slope = brought_inside(point, size, padding, align, rank)
    return inside, factor * slope


@function
def is_inside(at, size):
    return at >= 0 and at <= size - 1


@kernel
def grid_taps(places, weights, slopes, grid, depth, height, width, *, mode, padding, align, rank, derives):
    """For each point the places and weights of the elements it is made of; `derives`: also the slopes of these."""
    sides = 2 if mode == BILINEAR else 1 if mode == NEAREST else 4
    for row in parallel(grid.shape[0] * grid.shape[1], 16 * places.shape[1]):
        n, p = row // grid.shape[1], row % grid.shape[1]
        x, along_x = coordinate(grid[n, p, 0], width, mode, padding, align, rank)
        y, along_y = coordinate(grid[n, p, 1], height, mode, padding, align, rank)
        if rank == 3:
            z, along_z = coordinate(grid[n, p, 2], depth, mode, padding, align, rank)
        else:
            z, along_z = like(0, grid), 0
        for k in unrolled(sides if rank == 3 else 1):
            if rank == 3:
                at_z, weight_z, slope_z = tap(z, depth, k, mode, padding, align, rank)
            else:
                at_z, weight_z, slope_z = z, 1, 0
            for j in unrolled(sides):
                at_y, weight_y, slope_y = tap(y, height, j, mode, padding, align, rank)
                for i in unrolled(sides):
                    at_x, weight_x, slope_x = tap(x, width, i, mode, padding, align, rank)
                    nr = (k * sides + j) * sides + i
                    inside = is_inside(at_x, width) and is_inside(at_y, height) and is_inside(at_z, depth)
                    place = (int64(at_z) * height + int64(at_y)) * width + int64(at_x)
                    places[n, nr, p] = place if inside else -1
                    weights[n, nr, p] = weight_x * weight_y * weight_z
                    if derives:
                        slopes[n, 0, nr, p] = slope_x * along_x * weight_y * weight_z
                        slopes[n, 1, nr, p] = slope_y * along_y * weight_x * weight_z
                        if rank == 3:
                            slopes[n, 2, nr, p] = slope_z * along_z * weight_x * weight_y


@kernel
def grid_sample(out, x, places, weights, *, count, strict):
    """The weighed elements of each point; what lies outside is 0 times its weight, or with `strict` nothing."""
    for row in parallel(out.shape[0] * out.shape[1], out.shape[2] * count):
        n, c = row // out.shape[1], row % out.shape[1]
        for p in range(out.shape[2]):
            total = like(0, x)
            for k in unrolled(count):
                at = places[n, k, p]
                value = x[n, c, at] if at >= 0 else 0
                weight = weights[n, k, p]
                total += value * (weight if not strict or at >= 0 else 0)
            out[n, c, p] = total


@kernel
def grid_sample_backward_input(out, grad, places, weights):
    """Adds the gradients of points to the elements they are made of, by weight; `out` holds zeros."""
    for row in parallel(out.shape[0] * out.shape[1], grad.shape[2] * places.shape[1]):
        n, c = row // out.shape[1], row % out.shape[1]
        for k in range(places.shape[1]):
            for p in range(grad.shape[2]):
                at = places[n, k, p]
                if at >= 0:
                    out[n, c, at] += grad[n, c, p] * weights[n, k, p]


@kernel
def grid_sample_backward_grid(out, grad, x, places, slopes, *, count, rank):
    """The gradients of coordinates: how much each channel's result changes with the weights."""
    for row in parallel(out.shape[0] * out.shape[1], x.shape[1] * count * rank):
        n, p = row // out.shape[1], row % out.shape[1]
        for d in unrolled(rank):
            total = like(0, x)
            for k in unrolled(count):
                at = places[n, k, p]
                if at >= 0:
                    change = like(0, x)
                    for c in range(x.shape[1]):
                        change += grad[n, c, p] * x[n, c, at]
                    total += change * slopes[n, d, k, p]
            out[n, p, d] = total
