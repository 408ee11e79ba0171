"""Connectionist temporal classification: see _ops/ctc.py for what is computed.

`places` are the labels with blanks around them; `penalties` are 0 where a place may be reached from the second before
it, and else -inf. Samples are independent; the places of one step are next to each other, so that they are vectors.
"""

from ..language import exp, flat, function, inf, kernel, larger, like, log, nan, parallel


@function
def joined(a, b, c):
    """The logarithm of a sum of three numbers of which the logarithms are given."""
    top = larger(larger(a, b), c)
    top = like(0, a) if top == -inf else top
    return log(exp(a - top) + exp(b - top) + exp(c - top)) + top


@kernel
def places_of(places, penalties, wrong: flat, targets: flat, starts: flat, lengths: flat, blank, classes):
    """The labels of each sample, from `starts` on, between blanks; notes a label that is no class as `wrong`."""
    for n in parallel(places.shape[0], 4 * places.shape[1]):
        for s in range(places.shape[1]):
            label = blank
            if s % 2 == 1 and s < 2 * lengths[n]:
                label = targets[starts[n] + s // 2]
            if label < 0 or label >= classes:
                wrong[0] = 1
                label = blank
            places[n, s] = label
            skips = False
            if s % 2 == 1 and s > 2:
                skips = label != places[n, s - 2]
            penalties[n, s] = like(0, penalties) if skips else like(-inf, penalties)


@kernel
def beginnings(losses: flat, alpha, log_probs, places, penalties, steps: flat, lengths: flat):
    """Log probabilities of the beginnings of alignments, and of all of them."""
    width = places.shape[1]
    for n in parallel(alpha.shape[0], 16 * alpha.shape[1] * width):
        count, known = 2 * lengths[n] + 1, steps[n]
        for t in range(alpha.shape[1]):
            begin = count if t < known else 0
            for s in range(begin if t > 0 else min(begin, 2)):
                alpha[n, t, s] = like(-inf, alpha) if t > 0 else log_probs[t, n, places[n, s]]
            for s in range(begin if t > 0 else min(begin, 2), width):
                alpha[n, t, s] = like(-inf, alpha)
            if t > 0 and t < known:
                alpha[n, t, 0] = alpha[n, t - 1, 0] + log_probs[t, n, places[n, 0]]
                if count > 1:
                    alpha[n, t, 1] = joined(alpha[n, t - 1, 1], alpha[n, t - 1, 0], like(-inf, alpha)) + log_probs[
                        t, n, places[n, 1]
                    ]
                for s in range(2, count):
                    alpha[n, t, s] = joined(
                        alpha[n, t - 1, s], alpha[n, t - 1, s - 1], alpha[n, t - 1, s - 2] + penalties[n, s]
                    )
                for s in range(2, count):
                    alpha[n, t, s] += log_probs[t, n, places[n, s]]
        if known == 0:
            losses[n] = like(0, losses) if count == 1 else like(inf, losses)
        elif count == 1:
            losses[n] = -alpha[n, known - 1, 0]
        else:
            losses[n] = -joined(alpha[n, known - 1, count - 1], alpha[n, known - 1, count - 2], like(-inf, alpha))


@kernel
def gradients(out, room, grad: flat, log_probs, places, penalties, steps: flat, lengths: flat, losses: flat, alpha, *,
              zero_infinity):
    """What the classes' share in a step's probability is less than they were given; `room` is for two rows a sample."""
    classes = log_probs.shape[2]
    for n in parallel(alpha.shape[0], 16 * alpha.shape[1] * places.shape[1]):
        count, known, factor = 2 * lengths[n] + 1, steps[n], grad[n]
        impossible = losses[n] == inf
        for t in range(known, out.shape[0]):
            for c in range(classes):
                out[t, n, c] = like(0, out)
        for back in range(known):
            t = known - 1 - back
            if impossible:
                for c in range(classes):
                    out[t, n, c] = like(0 if zero_infinity else nan, out)
            else:
                for s in range(count):
                    last = s + 2 >= count and back == 0
                    room[n, 1, s] = like(0, room) if last else like(-inf, room)
                if back > 0:
                    for s in range(count - 2):
                        skipped = room[n, 0, s + 2] + penalties[n, s + 2]
                        room[n, 1, s] = joined(room[n, 0, s], room[n, 0, s + 1], skipped)
                    if count > 1:
                        room[n, 1, count - 2] = joined(room[n, 0, count - 2], room[n, 0, count - 1], like(-inf, room))
                    room[n, 1, count - 1] = room[n, 0, count - 1]
                for s in range(count):
                    room[n, 0, s] = room[n, 1, s] + log_probs[t, n, places[n, s]]
                for s in range(count):
                    room[n, 1, s] = exp(alpha[n, t, s] + room[n, 1, s] + losses[n])
                for c in range(classes):
                    out[t, n, c] = exp(log_probs[t, n, c])
                for s in range(count):
                    out[t, n, places[n, s]] -= room[n, 1, s]
                for c in range(classes):
                    out[t, n, c] *= factor
