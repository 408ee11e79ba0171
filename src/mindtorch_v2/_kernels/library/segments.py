"""Segments of a dimension folded: data is (outer, elements, inner), bounds are (outer, lengths or offsets)."""

from ..language import function, isnan, kernel, like, parallel


@function
def folded(old, new, fold):
    if fold == "amax":
        return max(old, new)
    if fold == "amin":
        return min(old, new)
    return old * new if fold == "prod" else old + new


@function
def bounds_of(bounds, o, s, behind, offsets):
    """Where a segment begins and ends: of offsets, or behind the one before by its length."""
    return bounds[o, s] if offsets else behind, bounds[o, s + 1] if offsets else behind + bounds[o, s]


@kernel
def segment_reduce(out, bad, x, bounds, start: float, empty: float, *, fold, offsets, strict):
    """Folds each segment, from `start` on; `empty` is the mean of none. Lengths that will not do are told in `bad`."""
    for o in parallel(out.shape[0], x.shape[1] * x.shape[2]):
        behind = 0
        for s in range(out.shape[1]):
            begin, end = bounds_of(bounds, o, s, behind, offsets)
            behind = end
            if end < begin:
                bad[0] = 1
            for i in range(out.shape[2]):
                out[o, s, i] = like(start, x)
            for p in range(max(begin, 0), min(end, x.shape[1])):
                for i in range(out.shape[2]):
                    out[o, s, i] = folded(out[o, s, i], x[o, p, i], fold)
            if fold == "mean":
                for i in range(out.shape[2]):
                    out[o, s, i] = out[o, s, i] / (end - begin) if end > begin else like(empty, x)
        if strict and behind != x.shape[1]:
            bad[0] = 1


@kernel
def segment_reduce_backward(out, grad, x, made, bounds, *, fold, offsets):
    """The gradient of each element: its segment's, a share of that, or one for those that are the extreme."""
    for o in parallel(out.shape[0], x.shape[1] * x.shape[2]):
        behind = 0
        for s in range(grad.shape[1]):
            begin, end = bounds_of(bounds, o, s, behind, offsets)
            behind = end
            first, last = max(begin, 0), min(end, x.shape[1])
            for i in range(out.shape[2]):
                share = grad[o, s, i]
                if fold == "mean":
                    share = share / max(end - begin, 1)
                elif fold == "amax" or fold == "amin":
                    count = 0
                    for p in range(first, last):
                        count += 1 if x[o, p, i] == made[o, s, i] or isnan(x[o, p, i]) else 0
                    share = share / max(count, 1)
                for p in range(first, last):
                    if fold == "amax" or fold == "amin":
                        out[o, p, i] = share if x[o, p, i] == made[o, s, i] or isnan(x[o, p, i]) else 0
                    else:
                        out[o, p, i] = share
