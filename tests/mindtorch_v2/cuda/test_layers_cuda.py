"""Norms in both memory formats, dropout and recurrent layers on a GPU, against the CPU."""

import copy

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn

functional = nn.functional
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-10, torch.float16: 1e-2, torch.bfloat16: 8e-2}
NORMS = {
    "batch": lambda channels: nn.BatchNorm2d(channels, momentum=0.3),
    "running": lambda channels: nn.BatchNorm2d(channels).eval(),
    "plain": lambda channels: nn.BatchNorm2d(channels, affine=False, track_running_stats=False),
    "group": lambda channels: nn.GroupNorm(2, channels),
    "instance": lambda channels: nn.InstanceNorm2d(channels, affine=True, track_running_stats=True),
}


def check_near(made, wanted, tolerance):
    made, wanted = made.detach().cpu().double(), wanted.detach().double()
    assert made.shape == wanted.shape
    assert float((made - wanted).abs().max()) <= tolerance * (1 + float(wanted.abs().max()))


def check_module(module, inputs, tolerance):
    """Results, gradients and buffers of a module on the GPU are those on the CPU."""
    results = []
    for where in ("cpu", "cuda"):
        torch.manual_seed(0)
        own = module().to(where)
        x = inputs.detach().to(where).requires_grad_()
        out = own(x)
        out = out[0] if isinstance(out, tuple) else out
        out.backward(torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(where, out.dtype))
        results.append([out, x.grad, *[p.grad for p in own.parameters()], *own.buffers()])
    for wanted, made in zip(*results, strict=True):
        assert made.stride() == wanted.stride()
        check_near(made, wanted, tolerance)


@pytest.mark.parametrize("kind", TOLERANCES, ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("name", NORMS)
def test_norm(name, last, kind):
    for shape in ((3, 4, 5, 7), (2, 16, 4, 8)):
        x = (torch.randn(shape) * 2 + 1).to(kind)
        if last:
            x = x.contiguous(memory_format=torch.channels_last)
        check_module(lambda c=shape[1]: NORMS[name](c).to(kind), x, TOLERANCES[kind])


ROWS = {"layer norm": lambda width: nn.LayerNorm(width), "rms norm": lambda width: nn.RMSNorm(width),
        "softmax": lambda width: nn.Softmax(-1), "log softmax": lambda width: nn.LogSoftmax(-1)}  # fmt: skip


@pytest.mark.parametrize("kind", TOLERANCES, ids=str)
@pytest.mark.parametrize("width", [5001, 12291, 32768])
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_thousand_threads(name, width, kind):
    """Each of which may take 64 registers, whatever the row holds."""
    check_module(lambda: ROWS[name](width).to(kind), torch.randn(3, width).to(kind), TOLERANCES[kind])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("affine", [False, True])
def test_statistics_of_halves_are_not_rounded_to_them(affine, kind):
    """Layer norm and batch norm keep them in float32, as PyTorch's kernels for GPUs do; group norm gives halves."""
    x = (torch.randn(6, 8, 40) * 3 + 5).to("cuda", kind)
    wide = x.double()
    for shape in ((40,), (8, 40)):
        dims = tuple(range(-len(shape), 0))
        weight = torch.ones(shape, dtype=kind, device="cuda") if affine else None
        out, mean, rstd = torch.native_layer_norm(x, shape, weight, weight, 1e-5)
        assert (out.dtype, mean.dtype, rstd.dtype) == (kind, torch.float32, torch.float32)
        check_near(mean, wide.mean(dims, keepdim=True).cpu(), 1e-6)
        check_near(rstd, (wide.var(dims, correction=0, keepdim=True) + 1e-5).rsqrt().cpu(), 1e-6)
        without_data = torch.native_layer_norm(x.to("meta"), shape, None, None, 1e-5)
        assert [t.dtype for t in without_data] == [kind, torch.float32, torch.float32]
    weight = torch.ones(8, dtype=kind, device="cuda") if affine else None
    out, mean, rstd = torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)
    assert (out.dtype, mean.dtype, rstd.dtype) == (kind, torch.float32, torch.float32)
    check_near(mean, wide.mean((0, 2)).cpu(), 1e-6)
    assert [t.dtype for t in torch.native_group_norm(x, weight, weight, 6, 8, 40, 2, 1e-5)] == [kind] * 3


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
def test_gradients_of_layer_norm_far_from_zero(kind):
    """A mean that is rounded to a half would move elements by more than their deviation."""
    x = (torch.randn(64, 768) + 300).to(kind)
    grad = torch.randn(64, 768).to(kind)
    results = []
    for where, own in (("cuda", kind), ("cpu", torch.float64)):
        leaf, layer = x.to(where, own).requires_grad_(), nn.LayerNorm(768).to(where, own)
        layer(leaf).backward(grad.to(where, own))
        results.append([leaf.grad, layer.weight.grad])
    for made, wanted in zip(*results, strict=True):
        check_near(made, wanted, TOLERANCES[kind])


def test_batch_norm_is_exact_far_from_zero():
    x = torch.randn(64, 3, 9, 9, dtype=torch.float64) + 1000
    wanted = functional.batch_norm(x, None, None, training=True)
    check_near(functional.batch_norm(x.float().cuda(), None, None, training=True), wanted, 2e-4)


PARTED = [(64, 64, 28, 28), (7, 72, 33, 31), (3, 256, 40, 40), (9, 2048, 7, 7), (2, 33, 90, 90), (4000, 40, 1, 1)]


def batch_normed(x, grad, norm):
    """Result and gradients of a norm in training."""
    x = x.detach().requires_grad_()
    y = norm(x)
    return [y.detach(), *torch.autograd.grad(y, (x, norm.weight, norm.bias), grad)]


@pytest.mark.parametrize("kind", TOLERANCES, ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("shape", PARTED, ids=str)
def test_batch_norm_of_channels_in_many_parts(shape, last, kind):
    """Several blocks have a channel; whichever is done last concludes, always to the same digits."""
    torch.manual_seed(0)
    form = torch.channels_last if last else torch.contiguous_format
    x, grad = (torch.randn(shape).to(kind).contiguous(memory_format=form) for _ in range(2))
    wide = torch.float64 if kind is torch.float64 else torch.float32
    norm = nn.BatchNorm2d(shape[1], track_running_stats=False, dtype=wide)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    wanted = batch_normed(x.double(), grad.double(), copy.deepcopy(norm).double())
    there, grads, norm = x.cuda(), grad.cuda(), norm.cuda()
    first = batch_normed(there, grads, norm)
    for made, value in zip(first, wanted, strict=True):
        check_near(made, value, TOLERANCES[kind] / 4)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(batch_normed(there, grads, norm), first, strict=True))


def test_batch_norm_on_streams_and_in_graphs():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(64, track_running_stats=False).cuda()
    given = [torch.randn(32, 64, 28, 28, device="cuda").contiguous(memory_format=torch.channels_last) for _ in range(4)]
    wanted = [batch_normed(x, x, norm) for x in given]
    torch.cuda.synchronize()
    streams, graphs, made = [torch.cuda.Stream() for _ in given], [], []
    for x, stream in zip(given, streams, strict=True):
        with torch.cuda.stream(stream):
            batch_normed(x, x, norm)
        torch.cuda.synchronize()
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            made.append(batch_normed(x, x, norm))
    for _ in range(5):
        results = []
        for x, stream, graph in zip(given, streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
                results.append(batch_normed(x, x, norm))
        torch.cuda.synchronize()
        for found in (made, results):
            for one, other in zip(found, wanted, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", TOLERANCES, ids=str)
def test_dropout(kind):
    x = torch.linspace(1, 2, 10007).to(kind).cuda().requires_grad_()
    torch.manual_seed(5)
    out, mask = torch.native_dropout(x, 0.25, True)
    torch.manual_seed(5)
    assert torch.equal(functional.dropout(x, 0.25), out)
    assert not torch.equal(functional.dropout(x, 0.25), out)
    assert abs(float(mask.float().mean()) - 0.75) < 0.02
    check_near(out, (x.detach() * mask / 0.75).cpu(), TOLERANCES[kind])
    out.sum().backward()
    check_near(x.grad, mask.double().cpu() / 0.75, TOLERANCES[kind])


@pytest.mark.parametrize("kind", TOLERANCES, ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["one", "both"])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "projected"])
def test_recurrent(name, reverse, kind):
    options = {"proj_size": 3} if name == "projected" else {}
    made = getattr(nn, "LSTM" if options else name)

    def module():
        return made(5, 6, 2, bidirectional=reverse, **options).to(kind)

    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = module()

        def forward(self, x):
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 3, 1]))
            return self.layers(packed)[0].data

    x = torch.randn(4, 3, 5).to(kind)
    check_module(module, x, TOLERANCES[kind])
    check_module(Packed, x, TOLERANCES[kind])


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cell(name):
    check_module(lambda: getattr(nn, name)(5, 6), torch.randn(3, 5), 1e-4)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("target", [[1, 0, 2, 2], [-100] * 4, [1, -100, 0, -100]], ids=str)
@pytest.mark.parametrize("weight", [None, [0.0, 0.0, 0.0], [0.5, 1.0, 2.0]], ids=str)
def test_class_losses_of_large_scores_and_ignored_targets(dtype, target, weight):
    base = (torch.arange(12.0).reshape(4, 3) * 7 % 5 * 8).double()
    for offset in (0.0, 2.0**26) if dtype.itemsize > 2 else (0.0,):
        for name in ("cross_entropy", "nll_loss"):
            for reduction in ("mean", "sum", "none"):
                results = []
                for where in ("cpu", "cuda"):
                    scores = (base + offset).to(dtype).to(where).requires_grad_()
                    factors = None if weight is None else torch.tensor(weight, dtype=dtype, device=where)
                    loss = getattr(functional, name)(scores, torch.tensor(target, device=where), factors,
                                                     reduction=reduction)  # fmt: skip
                    loss.sum().backward()
                    results.append([value.detach().cpu().double() for value in (loss, scores.grad)])
                near = TOLERANCES[dtype]
                assert all(torch.allclose(b, a, near, near, equal_nan=True) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("classes", [1, 7, 8, 17, 129, 1000, 2057, 50257])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_class_losses_of_rows_that_begin_anywhere(dtype, classes, reduction):
    """Most rows of an odd width do not begin at multiples of 16 bytes, and the first may lie inside a storage."""
    torch.manual_seed(0)
    scores, target = torch.randn(5 * classes + 1, dtype=torch.float64).mul(4), torch.randint(0, classes, (5,))
    target[1] = -100
    weight, grad = torch.rand(classes, dtype=torch.float64), torch.rand(() if reduction == "mean" else 5)
    for start in (0, 1):
        results = []
        for where in ("cpu", "cuda"):
            computed = torch.float64 if where == "cpu" else dtype
            there = scores.to(where, dtype).to(computed)[start : start + 5 * classes]
            held = there.view(5, classes).detach().requires_grad_()
            factors = weight.to(where, dtype).to(computed)
            loss = functional.cross_entropy(held, target.to(where), factors, reduction=reduction)
            loss.backward(grad.to(where, dtype).to(computed))
            results.append([value.detach().cpu().double() for value in (loss, held.grad)])
        near = TOLERANCES[dtype] / 4
        for wanted, made in zip(*results, strict=True):
            assert torch.allclose(made, wanted, near, near * float(wanted.abs().max()))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("classes", [5, 33, 1001])
def test_class_losses_of_scores_that_are_not_finite(dtype, classes):
    scores = torch.arange(6.0 * classes).reshape(6, classes).sin()
    scores[0, : classes // 2] = scores[1] = float("-inf")
    scores[2, classes // 2], scores[3, 0], scores[4, 1] = float("inf"), float("nan"), float("-inf")
    scores[3, 1:] = float("-inf")
    target = torch.full((6,), classes - 1)
    results = []
    for where in ("cpu", "cuda"):
        held = scores.to(where, dtype).detach().requires_grad_()
        loss = functional.cross_entropy(held, target.to(where), reduction="none")
        loss.backward(torch.ones(6, dtype=dtype, device=where))
        results.append([value.detach().cpu().double() for value in (loss, held.grad)])
    near = TOLERANCES[dtype]
    assert all(torch.allclose(b, a, near, near, equal_nan=True) for a, b in zip(*results, strict=True))
