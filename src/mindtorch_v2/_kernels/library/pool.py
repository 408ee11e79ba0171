"""Pooling over volumes: arrays are (planes, depth, height, width), with sizes of 1 where there are fewer dimensions."""

from ..language import c_div, function, inf, int64, isnan, kernel, larger, like, local, parallel

_LANES = 64  # results along the width that are computed side by side


@function
def first_inside(start, dilation):
    """The first place of a window that is not before the first element."""
    return start if start >= 0 else start + (dilation - 1 - start) // dilation * dilation


@function
def lanes_inside(shift, lanes, stride, n):
    """The first of so many lanes whose element `lane * stride + shift` is one of n, and the one behind the last."""
    return max(0, -(shift // stride)), min(lanes, (n - 1 - shift) // stride + 1)


@kernel
def max_pool(out, indices, x, size_d, size_h, size_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, apart_d,
             apart_h, apart_w, *, lowest, step):
    """The largest element of each window and where in its plane it is, the first; the last NaN if there is one.

    `step` is the stride along the width where that is known when compiled, else 0.
    """
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    rows, high, wide = out.shape[1] * out.shape[2], out.shape[2], out.shape[3]
    step_w = stride_w if step == 0 else step
    for row in parallel(out.shape[0] * rows, wide * size_d * size_h * size_w):
        plane, at = row // rows, row % rows
        d, h = at // high, at % high
        start_d, start_h = d * stride_d - pad_d, h * stride_h - pad_h
        first_row = (first_inside(start_d, apart_d) * height + first_inside(start_h, apart_h)) * width
        best = local(_LANES, x)
        place = local(_LANES, indices)
        for first in range(0, wide, _LANES):
            lanes = min(_LANES, wide - first)
            for lane in range(lanes):
                best[lane] = like(lowest, x)
                place[lane] = first_row + first_inside((first + lane) * step_w - pad_w, apart_w)
            for i in range(size_d):
                z = start_d + i * apart_d
                if z >= 0 and z < depth:
                    for j in range(size_h):
                        y = start_h + j * apart_h
                        if y >= 0 and y < height:
                            for k in range(size_w):
                                shift = k * apart_w - pad_w + first * step_w
                                begin, end = lanes_inside(shift, lanes, step_w, width)
                                line = (z * height + y) * width + shift
                                for lane in range(begin, end):
                                    value = x[plane, z, y, lane * step_w + shift]
                                    wins = value > best[lane] or isnan(value)
                                    best[lane] = value if wins else best[lane]
                                    place[lane] = line + lane * step_w if wins else place[lane]
            for lane in range(lanes):
                out[plane, d, h, first + lane] = best[lane]
                indices[plane, d, h, first + lane] = place[lane]


@function
def largest_pixels(best, place, x, n, depths, rows, columns, first, lanes):
    """Goes on with the largest of some channels, and their places, over a window: start, end, step by dimension."""
    height, width = x.shape[2], x.shape[3]
    for z in range(depths[0], depths[1], depths[2]):
        for y in range(rows[0], rows[1], rows[2]):
            for v in range(columns[0], columns[1], columns[2]):
                for lane in range(lanes):
                    value = x[n, z, y, v, first + lane]
                    wins = value > best[lane] or isnan(value)
                    best[lane] = value if wins else best[lane]
                    place[lane] = (z * height + y) * width + v if wins else place[lane]


@kernel
def max_pool_pixels(out, indices, x, size_d, size_h, size_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w,
                    apart_d, apart_h, apart_w, *, lowest):
    """The same of arrays that are (batch, depth, height, width, channels), whose channels are taken side by side."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    rows, high, wide, channels = out.shape[1] * out.shape[2], out.shape[2], out.shape[3], out.shape[4]
    for row in parallel(out.shape[0] * rows, wide * size_d * size_h * size_w * channels):
        n, at = row // rows, row % rows
        d, h = at // high, at % high
        start_d, start_h = d * stride_d - pad_d, h * stride_h - pad_h
        first_row = (first_inside(start_d, apart_d) * height + first_inside(start_h, apart_h)) * width
        best = local(_LANES, x)
        place = local(_LANES, indices)
        for w in range(wide):
            start_w = w * stride_w - pad_w
            for first in range(0, channels, _LANES):
                lanes = min(_LANES, channels - first)
                for lane in range(lanes):
                    best[lane] = like(lowest, x)
                    place[lane] = first_row + first_inside(start_w, apart_w)
                largest_pixels(best, place, x, n,
                               (first_inside(start_d, apart_d), min(start_d + size_d * apart_d, depth), apart_d),
                               (first_inside(start_h, apart_h), min(start_h + size_h * apart_h, height), apart_h),
                               (first_inside(start_w, apart_w), min(start_w + size_w * apart_w, width), apart_w),
                               first, lanes)  # fmt: skip
                for lane in range(lanes):
                    out[n, d, h, w, first + lane] = best[lane]
                    indices[n, d, h, w, first + lane] = place[lane]


@function
def elements_of(start, size, pad, n, padded):
    """How many elements a window has along one dimension; with padding, or without."""
    return min(start + size, n + pad) - start if padded else min(start + size, n) - max(start, 0)


@kernel
def avg_pool(out, x, size_d, size_h, size_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, divisor, *, padded,
             whole):
    """The sum of each window over `divisor`, or over the number of its elements if that is 0."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    rows, high, wide = out.shape[1] * out.shape[2], out.shape[2], out.shape[3]
    for row in parallel(out.shape[0] * rows, wide * size_d * size_h * size_w):
        plane, at = row // rows, row % rows
        d, h = at // high, at % high
        start_d, start_h = d * stride_d - pad_d, h * stride_h - pad_h
        area = elements_of(start_d, size_d, pad_d, depth, padded) * elements_of(start_h, size_h, pad_h, height, padded)
        total = local(_LANES, x)
        for first in range(0, wide, _LANES):
            lanes = min(_LANES, wide - first)
            for lane in range(lanes):
                total[lane] = like(0, x)
            for k in range(size_w):
                shift = k - pad_w + first * stride_w
                begin, end = lanes_inside(shift, lanes, stride_w, width)
                for z in range(max(start_d, 0), min(start_d + size_d, depth)):
                    for y in range(max(start_h, 0), min(start_h + size_h, height)):
                        for lane in range(begin, end):
                            total[lane] += x[plane, z, y, lane * stride_w + shift]
            for lane in range(lanes):
                start_w = (first + lane) * stride_w - pad_w
                count = divisor if divisor != 0 else area * elements_of(start_w, size_w, pad_w, width, padded)
                if whole:
                    out[plane, d, h, first + lane] = c_div(total[lane], count)
                else:
                    out[plane, d, h, first + lane] = total[lane] / count


@function
def sum_pixels(total, x, n, planes, rows, columns, first, lanes):
    """Makes `total` the sums of so many channels over a window of what is (batch, depth, height, width, channels)."""
    for lane in range(lanes):
        total[lane] = like(0, x)
    for z in range(planes[0], planes[1]):
        for y in range(rows[0], rows[1]):
            for v in range(columns[0], columns[1]):
                for lane in range(lanes):
                    total[lane] += x[n, z, y, v, first + lane]


@kernel
def avg_pool_pixels(out, x, size_d, size_h, size_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, divisor, *,
                    padded, whole):
    """As `avg_pool`, of arrays that are (batch, depth, height, width, channels)."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    rows, high, wide, channels = out.shape[1] * out.shape[2], out.shape[2], out.shape[3], out.shape[4]
    for row in parallel(out.shape[0] * rows, wide * size_d * size_h * size_w * channels):
        n, at = row // rows, row % rows
        d, h = at // high, at % high
        start_d, start_h = d * stride_d - pad_d, h * stride_h - pad_h
        area = elements_of(start_d, size_d, pad_d, depth, padded) * elements_of(start_h, size_h, pad_h, height, padded)
        total = local(_LANES, x)
        for w in range(wide):
            start_w = w * stride_w - pad_w
            count = divisor if divisor != 0 else area * elements_of(start_w, size_w, pad_w, width, padded)
            for first in range(0, channels, _LANES):
                lanes = min(_LANES, channels - first)
                sum_pixels(total, x, n, (max(start_d, 0), min(start_d + size_d, depth)),
                           (max(start_h, 0), min(start_h + size_h, height)),
                           (max(start_w, 0), min(start_w + size_w, width)), first, lanes)
                for lane in range(lanes):
                    if whole:
                        out[n, d, h, w, first + lane] = c_div(total[lane], count)
                    else:
                        out[n, d, h, w, first + lane] = total[lane] / count


@kernel
def avg_pool_backward(out, grad, size_d, size_h, size_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, divisor, *,
                      padded):
    """Adds to every element its share of the gradient of each window it is in; `out` holds zeros."""
    depth, height, width = out.shape[1], out.shape[2], out.shape[3]
    wide = grad.shape[3]
    for plane in parallel(out.shape[0], grad.shape[1] * grad.shape[2] * wide * size_d * size_h * size_w):
        share = local(_LANES, grad)
        for d in range(grad.shape[1]):
            start_d = d * stride_d - pad_d
            for h in range(grad.shape[2]):
                start_h = h * stride_h - pad_h
                area = elements_of(start_d, size_d, pad_d, depth, padded) * elements_of(start_h, size_h, pad_h, height,
                                                                                         padded)
                for first in range(0, wide, _LANES):
                    lanes = min(_LANES, wide - first)
                    for lane in range(lanes):
                        start_w = (first + lane) * stride_w - pad_w
                        count = divisor if divisor != 0 else area * elements_of(start_w, size_w, pad_w, width, padded)
                        share[lane] = grad[plane, d, h, first + lane] / count
                    for k in range(size_w):
                        shift = k - pad_w + first * stride_w
                        begin, end = lanes_inside(shift, lanes, stride_w, width)
                        for z in range(max(start_d, 0), min(start_d + size_d, depth)):
                            for y in range(max(start_h, 0), min(start_h + size_h, height)):
                                for lane in range(begin, end):
                                    out[plane, z, y, lane * stride_w + shift] += share[lane]


# windows as even as can be -------------------------------------------------------------------------------------------


@function
def even_start(i, n, count):
    return i * n // count


@function
def even_end(i, n, count):
    return ((i + 1) * n + count - 1) // count


@function
def put_largest(out, indices, x, at, planes, rows, columns):
    """The largest element of a window, and where in its plane it is, as the result at a place."""
    height, width = x.shape[2], x.shape[3]
    best = like(-inf, x)
    missing = 0
    for z in range(planes[0], planes[1]):
        for y in range(rows[0], rows[1]):
            for i in range(columns[0], columns[1]):
                best = larger(best, x[at[0], z, y, i])
                missing += 1 if isnan(x[at[0], z, y, i]) else 0
    place = -1
    for z in range(planes[0], planes[1]):  # the first that is as large, or the last NaN
        for y in range(rows[0], rows[1]):
            if missing > 0:
                for i in range(columns[0], columns[1]):
                    place = (z * height + y) * width + i if isnan(x[at[0], z, y, i]) else place
            elif place < 0:
                for i in range(columns[0], columns[1]):
                    if x[at[0], z, y, i] == best:
                        place = (z * height + y) * width + i
                        break
    best = x[at[0], place // (height * width), place // width % height, place % width] if missing > 0 else best
    out[at[0], at[1], at[2], at[3]] = best
    indices[at[0], at[1], at[2], at[3]] = place


@kernel
def adaptive_max_pool(out, indices, x):
    """The largest element of each of as many windows as there are results, and where in its plane it is."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    deep, high, wide = out.shape[1], out.shape[2], out.shape[3]
    for row in parallel(out.shape[0] * deep * high, depth * height * width // (deep * high) + wide):
        plane, at = row // (deep * high), row % (deep * high)
        d, h = at // high, at % high
        for w in range(wide):
            put_largest(out, indices, x, (plane, d, h, w), (even_start(d, depth, deep), even_end(d, depth, deep)),
                        (even_start(h, height, high), even_end(h, height, high)),
                        (even_start(w, width, wide), even_end(w, width, wide)))


@kernel
def adaptive_avg_pool(out, x):
    """The mean of each of as many windows as there are results."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    deep, high, wide = out.shape[1], out.shape[2], out.shape[3]
    for row in parallel(out.shape[0] * deep * high, depth * height * width // (deep * high) + wide):
        plane, at = row // (deep * high), row % (deep * high)
        d, h = at // high, at % high
        front, back = even_start(d, depth, deep), even_end(d, depth, deep)
        top, bottom = even_start(h, height, high), even_end(h, height, high)
        for w in range(wide):
            left, right = even_start(w, width, wide), even_end(w, width, wide)
            total = like(0, x)
            for z in range(front, back):
                for y in range(top, bottom):
                    for i in range(left, right):
                        total += x[plane, z, y, i]
            out[plane, d, h, w] = total / ((back - front) * (bottom - top) * (right - left))


@kernel
def adaptive_max_pool_pixels(out, indices, x):
    """As `adaptive_max_pool`, of arrays that are (batch, depth, height, width, channels)."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    deep, high, wide, channels = out.shape[1], out.shape[2], out.shape[3], out.shape[4]
    for row in parallel(out.shape[0] * deep * high, (depth * height * width // (deep * high) + wide) * channels):
        n, at = row // (deep * high), row % (deep * high)
        d, h = at // high, at % high
        front, back = even_start(d, depth, deep), even_end(d, depth, deep)
        top, bottom = even_start(h, height, high), even_end(h, height, high)
        best = local(_LANES, x)
        place = local(_LANES, indices)
        for w in range(wide):
            left, right = even_start(w, width, wide), even_end(w, width, wide)
            for first in range(0, channels, _LANES):
                lanes = min(_LANES, channels - first)
                for lane in range(lanes):
                    best[lane] = like(-inf, x)
                    place[lane] = (front * height + top) * width + left
                largest_pixels(best, place, x, n, (front, back, 1), (top, bottom, 1), (left, right, 1), first, lanes)
                for lane in range(lanes):
                    out[n, d, h, w, first + lane] = best[lane]
                    indices[n, d, h, w, first + lane] = place[lane]


@kernel
def adaptive_avg_pool_pixels(out, x):
    """As `adaptive_avg_pool`, of arrays that are (batch, depth, height, width, channels)."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    deep, high, wide, channels = out.shape[1], out.shape[2], out.shape[3], out.shape[4]
    for row in parallel(out.shape[0] * deep * high, (depth * height * width // (deep * high) + wide) * channels):
        n, at = row // (deep * high), row % (deep * high)
        d, h = at // high, at % high
        front, back = even_start(d, depth, deep), even_end(d, depth, deep)
        top, bottom = even_start(h, height, high), even_end(h, height, high)
        total = local(_LANES, x)
        for w in range(wide):
            left, right = even_start(w, width, wide), even_end(w, width, wide)
            for first in range(0, channels, _LANES):
                lanes = min(_LANES, channels - first)
                sum_pixels(total, x, n, (front, back), (top, bottom), (left, right), first, lanes)
                for lane in range(lanes):
                    out[n, d, h, w, first + lane] = total[lane] / ((back - front) * (bottom - top) * (right - left))


@kernel
def adaptive_avg_pool_backward(out, grad):
    """Adds to every element its share of the gradient of each window it is in; `out` holds zeros."""
    depth, height, width = out.shape[1], out.shape[2], out.shape[3]
    deep, high, wide = grad.shape[1], grad.shape[2], grad.shape[3]
    for plane in parallel(out.shape[0], depth * height * width + deep * high * wide):
        for d in range(deep):
            front, back = even_start(d, depth, deep), even_end(d, depth, deep)
            for h in range(high):
                top, bottom = even_start(h, height, high), even_end(h, height, high)
                for w in range(wide):
                    left, right = even_start(w, width, wide), even_end(w, width, wide)
                    share = grad[plane, d, h, w] / ((back - front) * (bottom - top) * (right - left))
                    for z in range(front, back):
                        for y in range(top, bottom):
                            for i in range(left, right):
                                out[plane, z, y, i] += share


# windows at random places --------------------------------------------------------------------------------------------


@function
def random_start(sample, at, count, n, size):
    """Where a window starts: steps that are even but for rounding, from a random point on; the last is at the end."""
    step = (n - size) / (count - 1)
    return n - size if at == count - 1 else int64((at + sample) * step) - int64(sample * step)


@kernel
def fractional_max_pool(out, indices, x, samples, size_d, size_h, size_w, *, of_d, of_h, of_w):
    """The largest element of windows at random places; `of_d` is the column of `samples` for the depth, and so on."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    deep, high, wide = out.shape[1], out.shape[2], out.shape[3]
    for row in parallel(out.shape[0] * deep * high, wide * size_d * size_h * size_w):
        plane, at = row // (deep * high), row % (deep * high)
        d, h = at // high, at % high
        front = random_start(samples[plane, of_d], d, deep, depth, size_d)
        top = random_start(samples[plane, of_h], h, high, height, size_h)
        for w in range(wide):
            left = random_start(samples[plane, of_w], w, wide, width, size_w)
            put_largest(out, indices, x, (plane, d, h, w), (front, front + size_d), (top, top + size_h),
                        (left, left + size_w))


# back to where the largest were --------------------------------------------------------------------------------------


@kernel
def to_places(out, bad, x, indices, *, adds):
    """Puts, or adds, each element to the one of its plane that an index names; told in `bad` if that is outside."""
    for plane in parallel(out.shape[0], x.shape[1]):
        for i in range(x.shape[1]):
            place = indices[plane, i]
            if place >= 0 and place < out.shape[1]:
                out[plane, place] = out[plane, place] + x[plane, i] if adds else x[plane, i]
            else:
                bad[0] = 1
