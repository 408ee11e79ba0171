"""Simulated operators on sequences, straight from their definitions."""

from typing import Any

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


def _weights(query: np.ndarray, key: np.ndarray, hidden: Any, scale: float, heads: int, layout: str, precise: int,
             mode: int) -> tuple:  # fmt: skip
    """Softmax weights of each query, with its largest score and the sum; layout BNSD."""
    assert layout == "BNSD" and query.shape[1] == heads and mode in (0, 2)
    scores = query @ np.repeat(key, heads // key.shape[1], 1).swapaxes(-1, -2) * scale
    if mode == 2:
        assert hidden.shape == (2048, 2048) and np.array_equal(hidden, np.triu(np.ones_like(hidden), 1))
        hidden = np.triu(np.ones(scores.shape[-2:], bool), 1)
    if hidden is not None:
        shapes = (scores.shape, (scores.shape[0], 1, *scores.shape[2:]), (1, 1, *scores.shape[2:]), scores.shape[2:])
        assert hidden.shape in shapes, hidden.shape
        scores = np.where(hidden.astype(bool), -np.inf, scores)
    top = scores.max(-1, keepdims=True)
    nothing = np.isneginf(top)
    made = np.exp(scores - np.where(nothing, 0, top))
    total = made.sum(-1, keepdims=True)
    if nothing.any():  # a query that sees no key: zeros only where that is asked for
        assert precise == 2
    return made / np.where(nothing, 1, total), top, total


def _gates(x: np.ndarray, dim: int) -> tuple:
    gate, value = np.split(x, 2, dim)
    return gate, value, 1 / (1 + np.exp(-gate))


@kernel("SwiGlu")
def swiglu(x: np.ndarray, dim: int) -> np.ndarray:
    gate, value, share = _gates(x, dim)
    return gate * share * value


@kernel("SwiGluGrad")
def swiglu_grad(grad: np.ndarray, x: np.ndarray, dim: int) -> np.ndarray:
    gate, value, share = _gates(x, dim)
    return np.concatenate((grad * value * share * (1 + gate * (1 - share)), grad * gate * share), dim)


@kernel("RotaryPositionEmbedding")
def rotary(x: np.ndarray, cosines: np.ndarray, sines: np.ndarray, mode: int) -> np.ndarray:
    turned = np.empty_like(x)
    if mode == 1:
        turned[..., ::2], turned[..., 1::2] = -x[..., 1::2], x[..., ::2]
    else:
        half = x.shape[-1] // 2
        turned[..., :half], turned[..., half:] = -x[..., half:], x[..., :half]
    return x * cosines + turned * sines


@kernel("FlashAttentionScore")
def flash_attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, shift: Any, dropped: Any, padding: Any,
                    hidden: Any, prefix: Any, scale: float, keep: float, before: int, after: int, heads: int,
                    layout: str, precise: int, mode: int) -> tuple:  # fmt: skip
    assert shift is dropped is padding is prefix is None and keep == 1.0
    weights, top, total = _weights(query, key, hidden, scale, heads, layout, precise, mode)
    made = weights @ np.repeat(value, heads // value.shape[1], 1)
    return np.repeat(top, 8, -1), np.repeat(total, 8, -1), None, made


@kernel("FlashAttentionScoreGrad")
def flash_attention_grad(query: np.ndarray, key: np.ndarray, value: np.ndarray, grad: np.ndarray, shift: Any,
                         dropped: Any, padding: Any, hidden: Any, top: np.ndarray, total: np.ndarray, kept: Any,
                         output: np.ndarray, prefix: Any, scale: float, keep: float, before: int, after: int,
                         heads: int, layout: str, precise: int, mode: int) -> tuple:  # fmt: skip
    weights, own_top, own_total = _weights(query, key, hidden, scale, heads, layout, precise, mode)
    np.testing.assert_allclose(top[..., :1], own_top, rtol=1e-2, atol=1e-2)  # what the forward pass kept
    np.testing.assert_allclose(total[..., :1], own_total, rtol=1e-2, atol=1e-2)
    times = heads // key.shape[1]
    keys, values = (np.repeat(x, times, 1) for x in (key, value))
    of_weights = grad @ values.swapaxes(-1, -2)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * scale

    def shared(made: np.ndarray) -> np.ndarray:
        return made.reshape(len(made), key.shape[1], times, *made.shape[2:]).sum(2)

    return (of_scores @ keys, shared(of_scores.swapaxes(-1, -2) @ query), shared(weights.swapaxes(-1, -2) @ grad), None)
