"""Connectionist temporal classification by compiled kernels."""

from typing import Any

import numpy as np

from ...._kernels.library import ctc as kernels
from ..jit.calls import hurry, launched
from ..jit.repeats import empty, flag, repeats, table
from .arrays import Sizes

hurry(kernels.places_of, kernels.beginnings, kernels.gradients)


class _Alignment:
    """The labels with blanks between them, and what else the kernels ask of each sample."""

    def __init__(self, log_probs: Any, targets: Any, input_lengths: Sizes, target_lengths: Sizes, blank: int) -> None:
        batch, lengths = len(target_lengths), np.array(target_lengths, np.int64)
        starts = np.cumsum(lengths) - lengths if targets.ndim == 1 else np.arange(batch) * targets.shape[1]
        self.lengths, self.steps = table(lengths), table(np.array(input_lengths, np.int64))
        size, wrong = (batch, 2 * max(target_lengths) + 1), flag()
        self.places, self.penalties = empty(size, np.int64), empty(size, log_probs.dtype)
        done = launched(kernels.places_of, self.places, self.penalties, wrong, targets, table(starts), self.lengths,
                        blank, log_probs.shape[2])
        self.is_known = done and not wrong[0]


@repeats
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Sizes, target_lengths: Sizes, blank: int,
             zero_infinity: bool) -> Any:
    alignment = _Alignment(log_probs, targets, input_lengths, target_lengths, blank)
    if not alignment.is_known:
        return None
    steps, batch, _ = log_probs.shape
    losses, alpha = empty(batch, log_probs.dtype), empty((batch, steps, alignment.places.shape[1]), log_probs.dtype)
    done = launched(kernels.beginnings, losses, alpha, log_probs, alignment.places, alignment.penalties,
                    alignment.steps, alignment.lengths)
    return (losses, alpha) if done else None


@repeats
def ctc_loss_backward(grad: Any, log_probs: Any, targets: Any, input_lengths: Sizes, target_lengths: Sizes,
                      neg_log_likelihood: Any, log_alpha: Any, blank: int, zero_infinity: bool) -> Any:
    alignment = _Alignment(log_probs, targets, input_lengths, target_lengths, blank)
    if not alignment.is_known:
        return None
    out, room = empty(log_probs.shape, log_probs.dtype), empty((len(target_lengths), 2, log_alpha.shape[2]),
                                                              log_probs.dtype)
    done = launched(kernels.gradients, out, room, grad, log_probs, alignment.places, alignment.penalties,
                    alignment.steps, alignment.lengths, neg_log_likelihood, log_alpha, zero_infinity=zero_infinity)
    return out if done else None
