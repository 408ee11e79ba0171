"""Connectionist temporal classification: the probability of a label sequence, summed over all its alignments in time.

The labels stand with a blank before, between and after them: 2 S + 1 places. Log probabilities of beginnings (alpha)
and ends (beta) of alignments advance through time for all samples and places at once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.dtype import COMPUTE, FLOAT, INT, int64
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from ._declare.batch import one_by_one
from ._declare.composites import Composite
from ._declare.families import computes
from ._declare.op import composite, op
from ._declare.rules import Spec
from ._declare.samples import case, cases, error, t, values
from .interpolation import table_for
from .join import cat, stack
from .loss import MEAN, NONE, reduced

NEVER = float("-inf")
CHECKING = "(while checking arguments for ctc_loss_allocate_outputs)"


def _check_lengths(name: str, lengths: Sequence[int], batch: int, least: int, most: int | None) -> None:
    if len(lengths) != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    for length in lengths:
        if length < least:
            raise RuntimeError(f"Expected {name} to have value at least {least}, but got value {length} {CHECKING}")
        if most is not None and length > most:
            raise RuntimeError(f"Expected {name} to have value at most {most}, but got value {length} {CHECKING}")


def _ctc_specs(log_probs: Tensor, targets: Tensor, input_lengths: tuple, target_lengths: tuple, blank: int,
               zero_infinity: bool) -> tuple[Spec, Spec]:
    shape, kind = log_probs._array.shape, log_probs.dtype
    if not log_probs._array.size:
        raise RuntimeError("log_probs tensor must not be empty")
    if kind.category != FLOAT or kind in COMPUTE:
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{kind.scalar_name}'")
    if len(shape) != 3:
        raise RuntimeError(f"Expected 3-dimensional tensor, but got {len(shape)}-dimensional tensor for argument #1 "
                           f"'log_probs' {CHECKING}")
    steps, batch, classes = shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    _check_lengths("input_lengths", input_lengths, batch, 0, steps)
    _check_lengths("target_lengths", target_lengths, batch, 0, None)
    longest, wanted = max(target_lengths, default=0), targets._array.shape
    if len(wanted) not in (1, 2):
        raise RuntimeError(f"Expected 1 to 2 dimensions, but got {len(wanted)}-dimensional tensor for argument #2 "
                           f"'targets' {CHECKING}")
    total = sum(target_lengths) if len(wanted) == 1 else batch
    if wanted[0] != total:
        raise RuntimeError(f"Expected tensor to have size {total} at dimension 0, but got size {wanted[0]} for "
                           f"argument #2 'targets' {CHECKING}")
    if len(wanted) == 2 and wanted[1] < longest:
        raise RuntimeError(f"Expected tensor to have size at least {longest} at dimension 1, but got size {wanted[1]} "
                           f"for argument #2 'targets' {CHECKING}")
    return Spec((batch,), kind), Spec((batch, steps, 2 * longest + 1), kind)


class _Alignment:
    """Labels with blanks between them, and what may follow what, for each sample."""

    def __init__(self, xp: Any, targets: Any, target_lengths: Sequence[int], blank: int) -> None:
        batch, longest = len(target_lengths), max(target_lengths, default=0)
        self.lengths = xp.asarray(target_lengths, xp.int64)
        given = xp.arange(longest) < self.lengths[:, None]
        labels = xp.full((batch, longest), blank, xp.int64)
        labels[given] = targets if targets.ndim == 1 else targets[:, :longest][given]
        self.places = xp.full((batch, 2 * longest + 1), blank, xp.int64)
        self.places[:, 1::2] = labels
        self.used = xp.arange(2 * longest + 1) <= 2 * self.lengths[:, None]
        # A label may follow another without the blank between them, unless it is the same.
        self.skips = xp.zeros(self.places.shape, bool)
        self.skips[:, 3::2] = labels[:, 1:] != labels[:, :-1]

    def log_probabilities(self, xp: Any, log_probs: Any) -> Any:
        """(batch, steps, places): how likely each step shows each place's label."""
        return xp.take_along_axis(log_probs.transpose(1, 0, 2), self.places[:, None, :], 2)


def _advanced(xp: Any, state: Any, skips: Any) -> Any:
    """Log probabilities after one step: a place is kept, reached from the one before, or from the second before."""
    made = state.copy()
    made[:, 1:] = xp.logaddexp(state[:, 1:], state[:, :-1])
    made[:, 2:] = xp.where(skips[:, 2:], xp.logaddexp(made[:, 2:], state[:, :-2]), made[:, 2:])
    return made


def _ctc_array(xp: Any, log_probs: Any, targets: Any, input_lengths: tuple, target_lengths: tuple, blank: int,
               zero_infinity: bool) -> tuple[Any, Any]:
    alignment = _Alignment(xp, targets, target_lengths, blank)
    shown = alignment.log_probabilities(xp, log_probs)
    alpha = xp.full(shown.shape, NEVER, log_probs.dtype)
    alpha[:, 0, :2] = xp.where(alignment.used[:, :2], shown[:, 0, :2], NEVER)
    for step in range(1, len(log_probs)):
        alpha[:, step] = _advanced(xp, alpha[:, step - 1], alignment.skips) + shown[:, step]
    samples, last = xp.arange(len(alpha)), xp.asarray(input_lengths, xp.int64) - 1
    final = alpha[samples, last]
    end, before = 2 * alignment.lengths, xp.maximum(2 * alignment.lengths - 1, 0)
    ends_with_label = xp.where(alignment.lengths > 0, final[samples, before], NEVER)
    loss = -xp.logaddexp(final[samples, end], ends_with_label)
    return xp.where(last < 0, xp.where(alignment.lengths > 0, -NEVER, 0), loss), alpha


def _ctc_backward_array(xp: Any, grad: Any, log_probs: Any, targets: Any, input_lengths: tuple, target_lengths: tuple,
                        neg_log_likelihood: Any, log_alpha: Any, blank: int, zero_infinity: bool) -> Any:
    alignment = _Alignment(xp, targets, target_lengths, blank)
    shown = alignment.log_probabilities(xp, log_probs)
    steps, batch, classes = log_probs.shape
    last, place = xp.asarray(input_lengths, xp.int64)[:, None] - 1, xp.arange(shown.shape[2])
    ends = (place == 2 * alignment.lengths[:, None]) | (place == 2 * alignment.lengths[:, None] - 1)
    # From the end of time to its beginning, and from the last place to the first, it is the same recursion.
    skips = xp.zeros_like(alignment.skips)
    skips[:, 2:] = alignment.skips[:, ::-1][:, :-2]
    beta = xp.full((batch, shown.shape[2]), NEVER, log_probs.dtype)
    posterior = xp.empty(shown.shape, log_probs.dtype)
    for step in range(steps - 1, -1, -1):
        beta = _advanced(xp, beta[:, ::-1], skips)[:, ::-1]
        beta = xp.where(last == step, xp.where(ends, 0, NEVER), beta)
        posterior[:, step] = log_alpha[:, step] + beta + neg_log_likelihood[:, None]
        beta = beta + shown[:, step]
    xp.exp(posterior, out=posterior)
    one_hot = (alignment.places[:, :, None] == xp.arange(classes)).astype(log_probs.dtype)
    made = xp.exp(log_probs) - xp.matmul(posterior, one_hot).transpose(1, 0, 2)
    made *= grad[:, None]
    unused = xp.arange(steps)[:, None] > last.T
    if zero_infinity:
        unused = unused | xp.isposinf(neg_log_likelihood)
    made[unused] = 0
    return made


def _places(targets: Any, batch: int, target_lengths: tuple, blank: int) -> Any:
    """The labels of each sample, padded, with a blank before, between and after them."""
    longest = max(target_lengths, default=0)
    lengths, number = np.array(target_lengths, np.int64)[:, None], np.arange(longest)
    starts = np.cumsum(lengths)[:, None] - lengths if targets.dim() == 1 else (
        np.arange(batch)[:, None] * targets.shape[-1])
    taken = table_for(targets, np.where(number < lengths, starts + number, 0).reshape(-1))
    labels = targets.reshape(-1).to(int64).index_select(0, taken).reshape(batch, longest)
    labels = labels.masked_fill(table_for(targets, number >= lengths), blank)
    places = labels.new_full((batch, 1), blank)
    if not longest:
        return places
    between = stack((labels, labels.new_full(labels.shape, blank)), 2).reshape(batch, 2 * longest)
    return cat((places, between), 1)


def _ctc_by_parts(log_probs: Any, targets: Any, input_lengths: tuple, target_lengths: tuple, blank: int,
                  zero_infinity: bool) -> tuple:
    """Beginnings of alignments from the first step to the last."""
    steps, batch, _ = log_probs.shape
    places = _places(targets, batch, target_lengths, blank)
    count, lengths = places.shape[1], np.array(target_lengths, np.int64)[:, None]
    shown = log_probs.transpose(0, 1).gather(2, places.unsqueeze(1).expand(batch, steps, count))
    same = places[:, 2:] == places[:, :-2]
    at = np.arange(count)
    alpha = shown.select(1, 0).masked_fill(table_for(targets, (at > 1) | (at > 2 * lengths)), NEVER)
    alphas, nothing = [alpha], alpha.new_full((batch, 1), NEVER)
    for step in range(1, steps):
        moved = alpha.logaddexp(cat((nothing, alpha[:, :-1]), 1))
        if count > 1:
            moved = moved.logaddexp(cat((nothing, nothing, alpha[:, :-2].masked_fill(same, NEVER)), 1))
        alpha = moved + shown.select(1, step)
        alphas.append(alpha)
    made, last = stack(alphas, 1), np.array(input_lengths, np.int64)[:, None] - 1
    final = made.gather(1, table_for(targets, np.broadcast_to(np.maximum(last, 0)[:, :, None], (batch, 1, count))))
    ends = (at == 2 * lengths) | (at == 2 * lengths - 1)
    loss = -final.squeeze(1).masked_fill(table_for(targets, ~ends), NEVER).logsumexp(1)
    empty = table_for(targets, last[:, 0] < 0)
    without = table_for(targets, np.where(lengths[:, 0] > 0, -NEVER, 0.0)).to(loss.dtype)
    return without.where(empty, loss), made


def _ctc_backward_by_parts(grad_out: Any, log_probs: Any, targets: Any, input_lengths: tuple, target_lengths: tuple,
                           neg_log_likelihood: Any, log_alpha: Any, blank: int, zero_infinity: bool) -> Any:
    """Ends of alignments from the last step to the first; how likely a step shows a label is alpha times beta."""
    steps, batch, classes = log_probs.shape
    longest = max(target_lengths, default=0)
    lengths, place = np.array(target_lengths, np.int64)[:, None], np.arange(2 * longest + 1)
    last = np.array(input_lengths, np.int64) - 1
    places = _places(targets, batch, target_lengths, blank)
    same = places[:, 2:] == places[:, :-2]  # a label may follow another without the blank, unless it is the same
    everywhere = places.unsqueeze(1).expand(batch, steps, len(place))
    shown = log_probs.transpose(0, 1).gather(2, everywhere)
    ends = (place == 2 * lengths) | (place == 2 * lengths - 1)
    finish = log_probs.new_zeros((batch, len(place))).masked_fill(table_for(targets, ~ends), NEVER)
    beta = finish.new_full(finish.shape, NEVER)
    nothing = beta.narrow(1, 0, 1)
    posterior: list[Any] = [None] * steps
    for step in range(steps - 1, -1, -1):
        after = beta.logaddexp(cat((beta[:, 1:], nothing), 1))
        if longest:
            after = after.logaddexp(cat((beta[:, 2:].masked_fill(same, NEVER), nothing, nothing), 1))
        beta = finish.where(table_for(targets, (last == step)[:, None]), after)
        posterior[step] = log_alpha.select(1, step) + beta + neg_log_likelihood.unsqueeze(1)
        beta = beta + shown.select(1, step)
    shares = stack(posterior, 1).exp()
    spread = log_probs.new_zeros((batch, steps, classes)).scatter_add(2, everywhere, shares)
    made = (log_probs.exp() - spread.transpose(0, 1)) * grad_out.unsqueeze(1)
    unused = table_for(targets, np.arange(steps)[:, None] > last)
    if zero_infinity:
        unused = unused | (neg_log_likelihood == -NEVER)
    return made.masked_fill(unused.unsqueeze(2), 0)


def _ctc_grad(grads, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank,
              zero_infinity):
    return call_bound(_CTC_BACKWARD, (grads[0], log_probs, targets, input_lengths, target_lengths, neg_log_likelihood,
                                      log_alpha, blank, zero_infinity))


_ARGUMENTS = "Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths"
_CTC = op(f"_ctc_loss({_ARGUMENTS}, int blank=0, bool zero_infinity=False) -> (Tensor neg_log_likelihood, Tensor "
          "log_alpha)", sized_by_data=True,
   kernel=computes(_ctc_specs, _ctc_array),
   npu="aclnnCtcLoss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, neg_log_likelihood, "
       "log_alpha)",
   kernels={"cpu": "ctc.ctc_loss", "cuda": "ctc.ctc_loss", "npu": "loss.ctc_loss"},
   grad=dict(log_probs=_ctc_grad), public="", decomposition=_ctc_by_parts,
   batch=one_by_one)  # the gradient's formula reads what the kernel leaves in log_alpha


def _no_second_derivative(grad):
    raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")


# As in PyTorch it is the gradient of what the log probabilities were made of, if that was log_softmax.
_CTC_BACKWARD = op(
   f"_ctc_loss_backward(Tensor grad_out, {_ARGUMENTS}, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool "
   "zero_infinity=False) -> Tensor",
   kernel=computes(lambda grad_out, log_probs, *rest: Spec(log_probs._array.shape, log_probs.dtype),
                   _ctc_backward_array),
   kernels={"cpu": "ctc.ctc_loss_backward", "cuda": "ctc.ctc_loss_backward"},
   grad=dict(grad_out=_no_second_derivative, log_probs=_no_second_derivative), public="",
   decomposition=_ctc_backward_by_parts)


# as users call it ----------------------------------------------------------------------------------------------------


def _ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: int,
              zero_infinity: bool) -> Any:
    batched = log_probs.dim() != 2
    if not batched:
        log_probs = log_probs.unsqueeze(1)
    targets = targets.to(int64)
    if not batched and targets.dim() == 1:
        targets = targets.unsqueeze(0)
    losses = call_bound(_CTC, (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity))[0]
    if zero_infinity:
        losses = losses.masked_fill(losses.isposinf(), 0)
    if reduction == MEAN:
        return (losses / losses.new_tensor(target_lengths).clamp_min(1)).mean()
    return losses.squeeze(0) if reduction == NONE and not batched else reduced(losses, reduction)


_OPTIONS = "int blank=0, int reduction=0, bool zero_infinity=False"


def _case(*args: Any, **options: Any) -> Any:
    return case(t(5, 2, 4, high=-0.5), values([[1, 2, 2], [3, 1, 0]]), *args, **options)


@composite(f"ctc_loss.IntList({_ARGUMENTS}, {_OPTIONS}) -> Tensor", public="torch",
           samples=cases(_case((5, 4), (3, 2)), _case((2, 4), (3, 2), 0, 1, True), _case((5, 4), (0, 2), 3, 2),
                         case(t(5, 2, 4, high=-0.5), values([1, 2, 2, 3, 1]), (5, 5), (3, 2)),
                         case(t(5, 4, high=-0.5), values([1, 2]), (5,), (2,)),
                         error(RuntimeError, "blank must be in label range", t(5, 2, 4), values([[1], [2]]), (5, 5),
                               (1, 1), 4),
                         error(RuntimeError, "input_lengths must be of size batch_size", t(5, 2, 4),
                               values([[1], [2]]), (5,), (1, 1))), out=None, autocast=dict(cpu="float32"))
def _ctc_loss_of_lists(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    return _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


def _ctc_loss_of_tensors(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    lengths = []
    for name, given in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if given.dtype.category != INT:
            raise RuntimeError(f"{name} must be integral")
        lengths.append(tuple(given.reshape(-1).tolist()))
    return _ctc_loss(log_probs, targets, *lengths, blank, reduction, zero_infinity)


op("ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
   f"{_OPTIONS}) -> Tensor", kernel=Composite(_ctc_loss_of_tensors), public="torch", mixes_devices=True, out=None,
   autocast=dict(cpu="float32"))
