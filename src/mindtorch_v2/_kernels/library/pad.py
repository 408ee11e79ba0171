"""Borders around volumes: arrays are (planes, depth, height, width), with sizes of 1 where dimensions are fewer."""

from ..language import function, kernel, parallel


@function
def kept(n, left, made):
    """How many elements of a dimension are in what is made of it, in their order."""
    right = made - n - left
    return n + min(left, 0) + min(right, 0)


@function
def place(at, n, left, made, mode):
    """The element that stands at a place; -1 for none."""
    i = at - left
    if mode == "reflect":
        return n - 1 - abs(n - 1 - abs(i))
    if mode == "replicate":
        return min(max(i, 0), n - 1)
    if mode == "circular":  # what is cut off is not in the circle
        first = max(-left, 0)
        return first + (i - first) % kept(n, left, made)
    return i if i >= 0 and i < n else -1


@kernel
def pad(out, x, fill, left_d, left_h, left_w, *, mode):
    """The array with a border: `fill` has the one element of a constant one."""
    deep, high, wide = out.shape[1], out.shape[2], out.shape[3]
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    begin = min(max(left_w, 0), wide)
    end = min(max(begin + kept(width, left_w, wide), begin), wide)
    for row in parallel(out.shape[0] * deep * high, wide):
        plane, at = row // (deep * high), row % (deep * high)
        d, h = at // high, at % high
        z, y = place(d, depth, left_d, deep, mode), place(h, height, left_h, high, mode)
        if mode == "constant":
            if z < 0 or y < 0:
                for w in range(wide):
                    out[plane, d, h, w] = fill[0]
            else:
                for w in range(begin):
                    out[plane, d, h, w] = fill[0]
                for w in range(begin, end):
                    out[plane, d, h, w] = x[plane, z, y, w - left_w]
                for w in range(end, wide):
                    out[plane, d, h, w] = fill[0]
        else:
            for w in range(begin):
                out[plane, d, h, w] = x[plane, z, y, place(w, width, left_w, wide, mode)]
            for w in range(begin, end):
                out[plane, d, h, w] = x[plane, z, y, w - left_w]
            for w in range(end, wide):
                out[plane, d, h, w] = x[plane, z, y, place(w, width, left_w, wide, mode)]


@kernel
def pad_pixels(out, x, fill, left_d, left_h, left_w, *, mode):
    """The same of arrays that are (batch, depth, height, width, channels)."""
    deep, high, wide, channels = out.shape[1], out.shape[2], out.shape[3], out.shape[4]
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    for row in parallel(out.shape[0] * deep * high, wide * channels):
        n, at = row // (deep * high), row % (deep * high)
        d, h = at // high, at % high
        z, y = place(d, depth, left_d, deep, mode), place(h, height, left_h, high, mode)
        for w in range(wide):
            v = place(w, width, left_w, wide, mode)
            if mode == "constant" and (z < 0 or y < 0 or v < 0):
                for c in range(channels):
                    out[n, d, h, w, c] = fill[0]
            else:
                for c in range(channels):
                    out[n, d, h, w, c] = x[n, z, y, v, c]


@kernel
def pad_backward(out, grad, left_d, left_h, left_w, *, mode):
    """Adds gradients to the elements that they are of; `out` holds zeros."""
    deep, high, wide = grad.shape[1], grad.shape[2], grad.shape[3]
    depth, height, width = out.shape[1], out.shape[2], out.shape[3]
    begin = min(max(left_w, 0), wide)
    end = min(max(begin + kept(width, left_w, wide), begin), wide)
    for plane in parallel(out.shape[0], deep * high * wide):
        for d in range(deep):
            z = place(d, depth, left_d, deep, mode)
            for h in range(high):
                y = place(h, height, left_h, high, mode)
                for w in range(begin):
                    out[plane, z, y, place(w, width, left_w, wide, mode)] += grad[plane, d, h, w]
                for w in range(begin, end):
                    out[plane, z, y, w - left_w] += grad[plane, d, h, w]
                for w in range(end, wide):
                    out[plane, z, y, place(w, width, left_w, wide, mode)] += grad[plane, d, h, w]
