"""Distances between rows and their slopes; `norm` is "zero", "one", "two", "largest", or "other" of exponent `p`."""

from ..language import ceil, function, kernel, like, parallel, pow, sqrt


@function
def summand(apart, p, norm):
    """What one coordinate adds to a distance."""
    if norm == "zero":
        return min(ceil(abs(apart)), 1)
    if norm == "one":
        return abs(apart)
    if norm == "two":
        return apart * apart
    return pow(abs(apart), p)


@function
def finished(total, p, norm):
    """The distance of what its coordinates add up to."""
    if norm == "two":
        return sqrt(total)
    if norm == "other":
        return pow(total, 1 / p)
    return total


@function
def slope(apart, distance, grad, p, norm):
    """The gradient of one coordinate of the first row."""
    sign = (1 if apart > 0 else 0) - (1 if apart < 0 else 0)
    if norm == "one":
        return grad * sign
    if norm == "two":
        return grad * apart / distance if distance != 0 else grad * 0
    if norm == "largest":
        return grad * sign if abs(apart) == distance else grad * 0
    if norm == "zero" or apart == 0 or distance == 0:
        return grad * 0
    return grad * sign * pow(abs(apart) / distance, p - 1)


@kernel
def cdist(out, x1, x2, p: float, *, norm):
    rows, columns, width = out.shape[1], out.shape[2], x1.shape[2]
    for row in parallel(out.shape[0] * rows, columns * width):
        b, i = row // rows, row % rows
        for j in range(columns):
            total = like(0, out)
            for k in range(width):
                apart = x1[b, i, k] - x2[b, j, k]
                if norm == "largest":
                    total = max(total, abs(apart))
                else:
                    total += summand(apart, p, norm)
            out[b, i, j] = finished(total, p, norm)


@kernel
def cdist_backward(out, grad, x1, x2, distance, p: float, *, norm):
    rows, columns, width = x1.shape[1], x2.shape[1], x1.shape[2]
    for row in parallel(out.shape[0] * rows, columns * width):
        b, i = row // rows, row % rows
        for k in range(width):
            out[b, i, k] = 0
        for j in range(columns):
            for k in range(width):
                out[b, i, k] += slope(x1[b, i, k] - x2[b, j, k], distance[b, i, j], grad[b, i, j], p, norm)


@kernel
def pdist(out, x, p: float, *, norm):
    rows, width = x.shape[0], x.shape[1]
    for i in parallel(rows, rows * width // 2):
        start = i * (2 * rows - i - 1) // 2 - i - 1
        for j in range(i + 1, rows):
            total = like(0, out)
            for k in range(width):
                apart = x[i, k] - x[j, k]
                if norm == "largest":
                    total = max(total, abs(apart))
                else:
                    total += summand(apart, p, norm)
            out[start + j] = finished(total, p, norm)


@kernel
def pdist_backward(out, grad, x, distance, p: float, *, norm):
    rows, width = x.shape[0], x.shape[1]
    for i in parallel(rows, rows * width):
        for k in range(width):
            out[i, k] = 0
        for j in range(rows):
            if j != i:
                first, second = min(i, j), max(i, j)
                pair = first * (2 * rows - first - 1) // 2 + second - first - 1
                for k in range(width):
                    out[i, k] += slope(x[i, k] - x[j, k], distance[pair], grad[pair], p, norm)
