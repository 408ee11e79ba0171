"""Linear maps along one dimension: arrays are (outer, places, inner), each result a weighted sum of few elements."""

from ..language import kernel, like, parallel, unrolled

MOST = 4  # elements of a result up to which sums are written out


@kernel
def pick(out, x, places, *, single):
    """out[o, p, :] = x[o, places[0, p], :]; with `single`, the last dimension has one element."""
    if single:
        for o in parallel(out.shape[0], out.shape[1]):
            for p in range(out.shape[1]):
                out[o, p, 0] = x[o, places[0, p], 0]
    else:
        for row in parallel(out.shape[0] * out.shape[1], out.shape[2]):
            o, p = row // out.shape[1], row % out.shape[1]
            for i in range(out.shape[2]):
                out[o, p, i] = x[o, places[0, p], i]


@kernel
def weigh(out, x, places, weights, *, count, single):
    """out[o, p, :] is the sum of x[o, places[k, p], :] * weights[k, p]; `count` places, none of them missing."""
    if single:
        for o in parallel(out.shape[0], out.shape[1] * count):
            for p in range(out.shape[1]):
                total = like(0, x)
                for k in unrolled(count):
                    total += x[o, places[k, p], 0] * weights[k, p]
                out[o, p, 0] = total
    else:
        for row in parallel(out.shape[0] * out.shape[1], out.shape[2] * count):
            o, p = row // out.shape[1], row % out.shape[1]
            for i in range(out.shape[2]):
                total = like(0, x)
                for k in unrolled(count):
                    total += x[o, places[k, p], i] * weights[k, p]
                out[o, p, i] = total


@kernel
def weigh_some(out, x, places, weights, *, weighed, single):
    """As `weigh`, of as many places as there are; one of -1 is missing. Without `weighed`, weights are 1."""
    if single:
        for o in parallel(out.shape[0], out.shape[1] * places.shape[0]):
            for p in range(out.shape[1]):
                total = like(0, x)
                for k in range(places.shape[0]):
                    if places[k, p] >= 0:
                        value = x[o, places[k, p], 0]
                        total += value * weights[k, p] if weighed else value
                out[o, p, 0] = total
    else:
        for row in parallel(out.shape[0] * out.shape[1], out.shape[2] * places.shape[0]):
            o, p = row // out.shape[1], row % out.shape[1]
            for i in range(out.shape[2]):
                out[o, p, i] = like(0, x)
            for k in range(places.shape[0]):
                at = places[k, p]
                if at >= 0:
                    for i in range(out.shape[2]):
                        out[o, p, i] += x[o, at, i] * weights[k, p] if weighed else x[o, at, i]
