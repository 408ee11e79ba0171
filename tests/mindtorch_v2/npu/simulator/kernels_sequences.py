"""Simulated operators on sequences, straight from their definitions."""

import numpy as np

from .kernels import kernel


@kernel("EmbeddingBag")
def embedding_bag(weight: np.ndarray, indices: np.ndarray, offsets: np.ndarray, by_frequency: bool, mode: int,
                  sparse: bool, factors: np.ndarray | None, has_last: bool, padding: int) -> tuple:  # fmt: skip
    ends = list(offsets[1:]) if has_last else [*offsets[1:], len(indices)]
    count, width = len(ends), weight.shape[1]
    output, largest = np.zeros((count, width), weight.dtype), np.zeros((count, width), indices.dtype)
    bags, sizes = np.zeros(len(indices), indices.dtype), np.zeros(len(offsets), indices.dtype)
    for bag, (start, end) in enumerate(zip(offsets, ends, strict=False)):
        bags[start:end] = bag
        kept = [i for i in range(start, end) if indices[i] != padding]
        rows = [weight[indices[i]] * (1 if factors is None else factors[i]) for i in kept]
        if mode:
            sizes[bag] = len(kept)
        if not kept:
            continue
        output[bag] = np.max(rows, 0) if mode == 2 else np.sum(rows, 0) / (len(kept) if mode == 1 else 1)
        largest[bag] = indices[kept][np.argmax(rows, 0)] if mode == 2 else 0
    told = bags if mode or padding >= 0 else bags[:0]
    return output, told, sizes, largest if mode == 2 else sizes


@kernel("CtcLoss")
def ctc_loss(log_probs: np.ndarray, targets: np.ndarray, steps: list[int], lengths: list[int], blank: int,
             zero_infinity: bool) -> tuple:  # fmt: skip
    longest, flat = max(lengths, default=0), np.cumsum([0, *lengths])
    losses = np.zeros(len(steps), log_probs.dtype)
    alpha = np.full((len(steps), len(log_probs), 2 * longest + 1), -np.inf, log_probs.dtype)
    for n, (count, length) in enumerate(zip(steps, lengths, strict=True)):
        labels = targets[n, :length] if targets.ndim == 2 else targets[flat[n] : flat[n] + length]
        places = [blank, *(x for label in labels for x in (label, blank))]
        for t in range(len(log_probs)):
            for s, label in enumerate(places):
                before = [0.0 if s < 2 else -np.inf] if t == 0 else [alpha[n, t - 1, s]]
                if t and s:
                    before.append(alpha[n, t - 1, s - 1])
                if t and s > 1 and label not in (blank, places[s - 2]):
                    before.append(alpha[n, t - 1, s - 2])
                alpha[n, t, s] = np.logaddexp.reduce(before) + log_probs[t, n, label]
        losses[n] = -np.logaddexp.reduce(alpha[n, count - 1, max(2 * length - 1, 0) : 2 * length + 1])
    return losses, alpha
