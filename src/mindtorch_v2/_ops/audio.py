"""The operators that torchaudio has in C++: recursive filters, forced alignment, the loss of RNN transducers.

They are made of other operators, as torchvision's are (vision.py). Importing this declares them, which
`torch.ops.torchaudio` and torchaudio's own loading of its library do.
"""

from typing import Any

import mindtorch_v2 as torch

from ._declare.op import composite

_BLOCK = 64  # samples of a recursive filter that are computed at once


@composite("_torchaudio::is_align_available() -> bool", public="")
def is_align_available() -> bool:
    return True


@composite("_torchaudio::cuda_version() -> int?", public="")
def cuda_version() -> None:
    return None


# filters -------------------------------------------------------------------------------------------------------------


def _recur(signal: Any, coefficients: Any, output: Any) -> None:
    """Fills output[..., order:] with `signal` less the outputs before it, weighted; output[..., :order] is given.

    signal: (batch, channels, samples); coefficients: (channels, order + 1), from the one of the oldest output to that
    of the present one, which is one. The samples of a block solve a triangular system, whose inverse holds the filter's
    answer to an impulse and is the same for all blocks.
    """
    order, samples = coefficients.size(1) - 1, signal.size(2)
    length = min(_BLOCK, samples)
    if not signal.numel():
        return
    row = torch.arange(length, device=signal.device)[:, None]
    back = row - torch.arange(-order, length, device=signal.device)  # how many samples ago a column is
    weights = coefficients.flip(1)[:, back.clamp(0, order)] * ((back >= 0) & (back <= order))
    given, own = weights[..., :order], weights[..., order:]
    answer = torch.linalg.solve_triangular(own, torch.eye(length, dtype=own.dtype, device=own.device), upper=False)
    signal, output = signal.transpose(0, 1), output.transpose(0, 1)  # a matrix for each channel
    for start in range(0, samples, length):
        count = min(length, samples - start)
        drive = signal[..., start : start + count] - output[..., start : start + order] @ given[:, :count].mT
        output[..., order + start : order + start + count] = drive @ answer[:, :count, :count].mT


@composite("torchaudio::_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, "
           "Tensor(a!) padded_output_waveform) -> Tensor(a!)", public="")
def _lfilter_core_loop(input_signal_windows: Any, a_coeff_flipped: Any, padded_output_waveform: Any) -> Any:
    _recur(input_signal_windows, a_coeff_flipped, padded_output_waveform)
    return padded_output_waveform


@composite("torchaudio::_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, "
           "Tensor(c!) output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))", public="")
def _overdrive_core_loop(waveform: Any, temp: Any, last_in: Any, last_out: Any, output_waveform: Any) -> Any:
    change = temp.diff(dim=1, prepend=last_in[:, None])
    followed = torch.cat([last_out[:, None], torch.empty_like(temp)], 1)
    _recur(change[:, None], temp.new_tensor([[-0.995, 1.0]]), followed[:, None])
    output_waveform.copy_(waveform * 0.5 + followed[:, 1:] * 0.75)
    if temp.size(1):
        last_in.copy_(temp[:, -1])
        last_out.copy_(followed[:, -1])
    return last_in, last_out, output_waveform


# alignment -----------------------------------------------------------------------------------------------------------


def _check(holds: bool, text: str) -> None:
    if not holds:
        raise RuntimeError(text)


@composite("torchaudio::forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
           "int blank) -> (Tensor, Tensor)", public="")
def forced_align(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """(labels of the most likely path, log_probs): states are the targets with blanks between and around them."""
    _check(log_probs.dtype in (torch.float64, torch.float32, torch.float16),
           "log_probs must be float64, float32 or float16 (half) type")
    _check(targets.dtype in (torch.int32, torch.int64), "targets must be int32 or int64 type")
    _check(log_probs.dim() == 3, "log_probs must be 3-D (batch_size, input length, num classes)")
    _check(targets.dim() == 2, "targets must be 2-D (batch_size, target length,)")
    _check(input_lengths.dim() == 1, "input_lengths must be 1-D (batch_size,)")
    _check(target_lengths.dim() == 1, "target_lengths must be 1-D (batch_size,)")
    _check(log_probs.size(0) == 1, "The batch dimension for log_probs must be 1 at the current version.")
    _check(targets.size(0) == 1, "The batch dimension for targets must be 1 at the current version.")
    _check(0 <= blank < log_probs.size(2), "blank must be within [0, num classes)")
    times, count = log_probs.size(1), targets.size(1)
    _check(int(input_lengths.max()) == times, "input length mismatch")
    _check(int(target_lengths.max()) == count, "target length mismatch")
    repeats = int((targets[0, 1:] == targets[0, :-1]).sum())
    _check(times >= count + repeats, f"targets length is too long for CTC. Found log_probs length: {times}, "
                                     f"targets length: {count}, and number of repeats: {repeats}")
    states = targets.new_full((2 * count + 1,), blank)
    states[1::2] = targets[0]
    scores = log_probs[0][:, states.long()]
    never = scores.new_full((2,), float("-inf"))
    skips = torch.zeros(2 * count + 1, dtype=torch.bool, device=targets.device)
    skips[3::2] = targets[0, 1:] != targets[0, :-1]
    best, came = torch.cat([scores[0, :2], scores.new_full((max(2 * count - 1, 0),), float("-inf"))]), []
    for time in range(1, times):
        stay, step, skip = best, torch.cat([never[:1], best[:-1]]), torch.cat([never, best[:-2]])[: len(best)]
        skip = skip.where(skips, never[0])
        ways = torch.stack([stay, step, skip])
        best, way = ways.max(0)
        came.append(way)
        best = best + scores[time]
    state = 2 * count
    if count and float(best[-2]) >= float(best[-1]):
        state -= 1
    back = torch.stack(came).tolist() if came else []
    path = [state]
    for way in reversed(back):
        state -= way[state]
        path.append(state)
    return states[torch.tensor(path[::-1], device=targets.device)][None], log_probs


@composite("torchaudio::rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, "
           "int blank, float clamp, bool fused_log_softmax) -> (Tensor, Tensor)", public="")
def rnnt_loss_forward(logits: Any, targets: Any, logit_lengths: Any, target_lengths: Any, blank: int, clamp: float,
                      fused_log_softmax: bool) -> Any:
    """(costs, their gradients to the logits): less the log of the sum over all paths through times and targets."""
    _check(logits.dtype in (torch.float32, torch.float16), "logits must be float32 or float16 (half) type")
    _check(logit_lengths.dtype == torch.int32, "logit_lengths must be int32 type")
    _check(target_lengths.dtype == torch.int32, "target_lengths must be int32 type")
    _check(logits.dim() == 4, "logits must be 4-D (batch, time, target, class)")
    _check(targets.dim() == 2, "targets must be 2-D (batch, max target length)")
    for name, given in (("logit_lengths", logit_lengths), ("target_lengths", target_lengths), ("targets", targets)):
        _check(given.size(0) == logits.size(0), f"batch dimension mismatch between logits and {name}")
    _check(int(logit_lengths.max()) == logits.size(1), "input length mismatch")
    _check(int(target_lengths.max()) + 1 == logits.size(2), "output length mismatch")
    blank = blank + logits.size(3) if blank < 0 else blank
    _check(0 <= blank < logits.size(3), "blank must be within [0, logits.shape[-1])")
    with torch.enable_grad():
        given = logits.detach().requires_grad_()
        scores = given.float()
        if fused_log_softmax:
            scores = scores.log_softmax(3)
        costs = -_path_sums(scores, targets.long(), logit_lengths.long(), target_lengths.long(), blank)
        (grad,) = torch.autograd.grad(costs.sum(), given)
    if clamp > 0:
        grad = grad.clamp(-clamp, clamp)
    return costs.detach().to(logits.dtype), grad


def _path_sums(scores: Any, targets: Any, times: Any, counts: Any, blank: int) -> Any:
    """The log of the sum over all paths: a step along the times is a blank, one along the targets emits the next.

    Along the targets of one time the sums obey s[u] = log(exp(s[u - 1] + e[u - 1]) + exp(from[u])), which a running sum
    solves once the emissions up to u are taken out.
    """
    waits = scores[..., blank]
    labels = targets.clamp(min=0)[:, None, :, None].expand(-1, scores.size(1), -1, 1)
    emits = scores[:, :, :-1].gather(3, labels)[..., 0]
    emitted = torch.nn.functional.pad(emits.cumsum(2), (1, 0))
    sums = [emitted[:, 0]]
    for time in range(1, scores.size(1)):
        arrived = sums[-1] + waits[:, time - 1]
        sums.append(emitted[:, time] + (arrived - emitted[:, time]).logcumsumexp(1))
    ends = torch.stack(sums, 1) + waits
    item = torch.arange(len(ends), device=scores.device)
    return ends[item, times - 1, counts]
