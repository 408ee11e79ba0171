"""The operators that torchaudio has in C++, against the same arithmetic in plain loops."""

import itertools
import math

import pytest

import mindtorch_v2 as torch

audio = torch.ops.torchaudio


def drawn(*shape, dtype=torch.float64):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, dtype=dtype)


@pytest.mark.parametrize("samples", [0, 1, 5, 64, 200])
@pytest.mark.parametrize("order", [0, 1, 2, 7, 90])
def test_recursive_filters(order, samples):
    signal = drawn(2, 3, samples)
    weights = drawn(3, order + 1) / (4 * (order + 1))  # which keeps it stable
    weights[:, -1] = 1
    output = torch.zeros(2, 3, samples + order, dtype=torch.float64)
    output[..., :order] = drawn(2, 3, order)
    expected = output.tolist()
    for batch, channel, now in itertools.product(range(2), range(3), range(samples)):
        line = expected[batch][channel]
        line[now + order] = signal[batch, channel, now].item() - sum(
            weights[channel, k].item() * line[now + k] for k in range(order))
    assert audio._lfilter_core_loop(signal, weights, output) is output
    torch.testing.assert_close(output, torch.tensor(expected, dtype=torch.float64))


def test_overdrive():
    waveform, driven, before, after = drawn(2, 150), drawn(2, 151)[:, 1:], drawn(2), drawn(2)
    last_in, last_out, output = before.clone(), after.clone(), torch.empty_like(waveform)
    audio._overdrive_core_loop(waveform, driven, last_in, last_out, output)
    for now in range(150):
        after = driven[:, now] - before + 0.995 * after
        before = driven[:, now]
        torch.testing.assert_close(output[:, now], waveform[:, now] * 0.5 + after * 0.75)
    torch.testing.assert_close((last_in, last_out), (before, after))


def collapsed(path, blank):
    return [label for label, _ in itertools.groupby(path) if label != blank]


@pytest.mark.parametrize("targets", [[], [1], [1, 2], [2, 2], [1, 2, 1]])
@pytest.mark.parametrize("times", [4, 5])
def test_the_best_of_all_alignments(targets, times):
    scores = drawn(1, times, 3).log_softmax(2)
    wanted = torch.tensor([targets], dtype=torch.int32)
    path, given = audio.forced_align(scores, wanted, torch.tensor([times]), torch.tensor([len(targets)]), 0)
    fitting = [p for p in itertools.product(range(3), repeat=times) if collapsed(p, 0) == targets]
    best = max(fitting, key=lambda p: sum(scores[0, t, label].item() for t, label in enumerate(p)))
    assert path.tolist() == [list(best)] and path.dtype == torch.int32 and torch.equal(given, scores)


def test_what_alignment_refuses():
    scores, two = drawn(1, 2, 3), torch.tensor([2])
    with pytest.raises(RuntimeError, match="targets length is too long for CTC. Found log_probs length: 2, targets "
                                           "length: 2, and number of repeats: 1"):
        audio.forced_align(scores, torch.tensor([[1, 1]]), two, two, 0)
    with pytest.raises(RuntimeError, match="The batch dimension for log_probs must be 1"):
        audio.forced_align(drawn(2, 2, 3), torch.tensor([[1, 1]]), two, two, 0)


def transduced(scores, targets, times, blank):
    """The log of the sum over all paths, by enumerating where between the times each target is emitted."""
    total = []
    for places in itertools.combinations_with_replacement(range(times), len(targets)):
        score, emitted = 0.0, 0
        for time in range(times):
            while emitted < len(targets) and places[emitted] == time:
                score += scores[time][emitted][targets[emitted]]
                emitted += 1
            score += scores[time][emitted][blank]
        total.append(math.exp(score))
    return math.log(sum(total))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("blank", [0, -1])
def test_the_loss_of_transducers(fused, blank):
    logits = drawn(2, 4, 3, 5, dtype=torch.float32)
    targets = torch.tensor([[1, 2], [3, 1]], dtype=torch.int32)
    times, counts = torch.tensor([4, 3], dtype=torch.int32), torch.tensor([2, 1], dtype=torch.int32)
    costs, grad = audio.rnnt_loss_forward(logits, targets, times, counts, blank, -1.0, fused)
    scores = (logits.log_softmax(3) if fused else logits).tolist()
    expected = [-transduced(scores[i], targets[i, : counts[i]].tolist(), int(times[i]), blank) for i in range(2)]
    torch.testing.assert_close(costs, torch.tensor(expected))
    step = drawn(2, 4, 3, 5, dtype=torch.float32) / 64
    higher, lower = (audio.rnnt_loss_forward(logits + sign * step, targets, times, counts, blank, -1.0, fused)[0]
                     for sign in (1, -1))
    torch.testing.assert_close((higher - lower) / 2, (grad * step).sum((1, 2, 3)), rtol=2e-3, atol=2e-4)
    assert not grad[1, 3].any() and not grad[1, :, 2].any()  # beyond the lengths
    clamped = audio.rnnt_loss_forward(logits, targets, times, counts, blank, 0.1, fused)[1]
    torch.testing.assert_close(clamped, grad.clamp(-0.1, 0.1))


def test_the_compiled_library_counts_as_loaded():
    for file in ("_torchaudio.abi3.so", "libtorchaudio.abi3.so"):
        torch.ops.load_library(f"/anywhere/torchaudio/lib/{file}")
    assert torch.ops._torchaudio.is_align_available() is True
    assert torch.ops._torchaudio.cuda_version() is None
    with pytest.raises(OSError, match="cannot load compiled operators"):
        torch.ops.load_library("/anywhere/other/lib/libother.so")
