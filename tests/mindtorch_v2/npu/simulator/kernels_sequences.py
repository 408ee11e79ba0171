"""Simulated operators on sequences, straight from their definitions."""

from typing import Any

import numpy as np

from .kernels import _generator, kernel


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


class _Attention:
    """Scores of all pairs of query and key, and the weights that follow; layout BNSD."""

    def __init__(self, query: np.ndarray, key: np.ndarray, shift: Any, shift_first: bool, dropped: Any, hidden: Any,
                 scale: float, keep: float, heads: int, layout: str, precise: int, mode: int) -> None:  # fmt: skip
        assert layout == "BNSD" and query.shape[1] == heads and mode in (0, 2) and 0 < keep <= 1
        assert query.shape[1] <= 256 and query.shape[-1] <= (768 if shift is None else 512)
        self.times = heads // key.shape[1]
        scores = query @ np.repeat(key, self.times, 1).swapaxes(-1, -2)
        batch, _, queries, keys = scores.shape
        if shift is not None:
            assert shift.shape in ((batch, heads, queries, keys), (1, heads, queries, keys), (batch, heads, 1, keys))
            assert np.isfinite(shift).all()
        added = 0 if shift is None else shift
        scores = (scores + added) * scale if shift_first else scores * scale + added
        if mode == 2:
            assert hidden.shape == (2048, 2048) and np.array_equal(hidden, np.triu(np.ones_like(hidden), 1))
            hidden = np.triu(np.ones((queries, keys), bool), 1)
        if hidden is not None:
            assert hidden.shape in (scores.shape, (batch, 1, queries, keys), (1, 1, queries, keys), (queries, keys))
            scores = np.where(hidden.astype(bool), -np.inf, scores)
        self.top = scores.max(-1, keepdims=True)
        nothing = np.isneginf(self.top)
        made = np.exp(scores - np.where(nothing, 0, self.top))
        self.total = made.sum(-1, keepdims=True)
        if nothing.any():  # a query that sees no key: zeros only where that is asked for
            assert precise == 2
        self.weights = made / np.where(nothing, 1, self.total)
        self.kept = 1.0 if dropped is None else _kept_bits(dropped, scores.shape) / keep
        assert (dropped is None) == (keep == 1)

    def shared(self, made: np.ndarray) -> np.ndarray:
        """Summed over the heads of queries that share keys."""
        return made.reshape(len(made), -1, self.times, *made.shape[2:]).sum(2)


def _kept_bits(bits: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The first elements of a mask that has a bit for each, in groups of 128."""
    count = int(np.prod(shape))
    assert bits.ndim == 1 and bits.size >= (count + 127) // 128 * 16, (bits.shape, shape)
    return np.unpackbits(bits, bitorder="little")[:count].reshape(shape).astype(np.float32)


@kernel("DropoutGenMaskV2")
def dropout_mask(shape: tuple[int, ...], prob: float, seed: int, offset: int, kind: np.dtype) -> np.ndarray:
    assert 0 <= prob <= 1 and str(kind) in ("float32", "float16", "bfloat16")
    groups = (int(np.prod(shape)) + 127) // 128
    return np.packbits(_generator(seed, offset).random(128 * groups) >= prob, bitorder="little")


@kernel("DropoutDoMask")
def dropout(x: np.ndarray, bits: np.ndarray, prob: float) -> np.ndarray:
    if prob in (0, 1):
        return x * (1 - prob)
    return x * _kept_bits(bits, x.shape) / np.float32(1 - prob)


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


def _flash_attention(shift_first: bool, query: np.ndarray, key: np.ndarray, value: np.ndarray, shift: Any, dropped: Any,
                     padding: Any, hidden: Any, prefix: Any, scale: float, keep: float, before: int, after: int,
                     heads: int, layout: str, precise: int, mode: int) -> tuple:  # fmt: skip
    assert padding is prefix is None
    made = _Attention(query, key, shift, shift_first, dropped, hidden, scale, keep, heads, layout, precise, mode)
    output = (made.weights * made.kept) @ np.repeat(value, made.times, 1)
    return np.repeat(made.top, 8, -1), np.repeat(made.total, 8, -1), None, output


def _flash_attention_grad(shift_first: bool, query: np.ndarray, key: np.ndarray, value: np.ndarray, grad: np.ndarray,
                          shift: Any, dropped: Any, padding: Any, hidden: Any, top: np.ndarray, total: np.ndarray,
                          softmax: Any, output: np.ndarray, prefix: Any, scale: float, keep: float, before: int,
                          after: int, heads: int, layout: str, precise: int, mode: int) -> tuple:  # fmt: skip
    assert padding is prefix is softmax is None
    made = _Attention(query, key, shift, shift_first, dropped, hidden, scale, keep, heads, layout, precise, mode)
    np.testing.assert_allclose(top[..., :1], made.top, rtol=1e-2, atol=1e-2)  # what the forward pass kept
    np.testing.assert_allclose(total[..., :1], made.total, rtol=1e-2, atol=1e-2)
    weights = made.weights * made.kept
    np.testing.assert_allclose(output, weights @ np.repeat(value, made.times, 1), rtol=0.1, atol=0.1)
    of_weights = grad @ np.repeat(value, made.times, 1).swapaxes(-1, -2) * made.kept
    of_scores = made.weights * (of_weights - (of_weights * made.weights).sum(-1, keepdims=True))
    of_shift = None
    if shift is not None:
        of_shift = of_scores * (scale if shift_first else 1)
        for axis in (0, 2):
            of_shift = of_shift.sum(axis, keepdims=True) if shift.shape[axis] == 1 else of_shift
    of_scores = of_scores * scale
    return (of_scores @ np.repeat(key, made.times, 1), made.shared(of_scores.swapaxes(-1, -2) @ query),
            made.shared(weights.swapaxes(-1, -2) @ grad), of_shift)


@kernel("FlashAttentionScore")
def flash_attention(*arguments: Any) -> tuple:
    return _flash_attention(True, *arguments)


@kernel("FlashAttentionScoreGrad")
def flash_attention_grad(*arguments: Any) -> tuple:
    return _flash_attention_grad(True, *arguments)


def _second_version(function: Any, arguments: tuple, prefix_at: int) -> tuple:
    """The versions that say where queries and keys begin, and in which order numbers are added."""
    *first, order = arguments
    assert first[prefix_at + 1] is first[prefix_at + 2] is None and order in (0, 1)
    return function(order == 1, *first[: prefix_at + 1], *first[prefix_at + 3 :])


@kernel("FlashAttentionScoreV2")
def flash_attention_v2(*arguments: Any) -> tuple:
    return _second_version(_flash_attention, arguments, 7)


@kernel("FlashAttentionScoreGradV2")
def flash_attention_grad_v2(*arguments: Any) -> tuple:
    return _second_version(_flash_attention_grad, arguments, 12)
