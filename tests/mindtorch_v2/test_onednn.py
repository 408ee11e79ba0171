"""What oneDNN computes on the CPU agrees with NumPy; without the library there is nothing to compare."""

import contextlib
import itertools
import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2._backends.cpu import matrices, onednn, onednn_kernels
from mindtorch_v2._backends.cpu.pointwise import Compiled
from mindtorch_v2._core.settled import settled
from mindtorch_v2._dispatch.keys import CPU_MASK
from mindtorch_v2._dispatch.registry import registry
from mindtorch_v2.nn import functional as F

mkldnn = torch.backends.mkldnn
needs_library = pytest.mark.skipif(not mkldnn.is_available(), reason="oneDNN is not found: pip install onednn-cpu-gomp")
LARGE = 1 << 15  # elements: more than the least that oneDNN is given


@pytest.fixture
def calls(monkeypatch):
    """The primitives that ran, so that a test cannot compare NumPy with itself; small convolutions are served too."""
    monkeypatch.setattr(onednn_kernels(), "_LITTLE", 1)
    ran, run = [], onednn.Primitive.run
    monkeypatch.setattr(onednn.Primitive, "run", lambda self, *arrays: (ran.append(self), run(self, *arrays))[1])
    return ran


@pytest.fixture
def without_machine_code(monkeypatch):
    """Activations are oneDNN's as long as there is no machine code for them, which earlier calls may have made."""
    for name in ("gelu", "gelu_backward", "sigmoid", "silu", "silu_backward"):
        names = registry.get(name).lookup(CPU_MASK).__globals__
        for each in names.keys() & {"fast", "spread", "find", "more"}:
            monkeypatch.setitem(names, each, Compiled.no_code)


def both(compute):
    """The results with oneDNN, and those with NumPy."""
    made = compute()
    with mkldnn.flags(enabled=False):
        return made, compute()


def assert_agree(made, expected, tolerance=2e-5):
    for a, b in zip(made, expected, strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype and a.stride() == b.stride()
        scale = max(1.0, float(b.abs().nan_to_num(0, 0, 0).max())) if b.numel() else 1.0
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def with_gradients(compute, *tensors):
    """What `compute` gives, and the gradients of all tensors for one fixed gradient of it."""

    def run():
        leaves = [t.detach().requires_grad_() for t in tensors]
        made = compute(*leaves)
        torch.manual_seed(1)
        grad = torch.randn(made.shape).to(made.dtype)
        return [made.detach(), *torch.autograd.grad(made, leaves, grad)]

    return run


def laid_out(tensor, layout):
    if layout == "channels_last" and tensor.dim() in (4, 5):
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return tensor.contiguous(memory_format=formats[tensor.dim()])
    return torch.stack([tensor, tensor], 2)[:, :, 0] if layout == "strided" else tensor


# convolution ---------------------------------------------------------------------------------------------------------

CHANNELS = [(1, 3, 5), (1, 16, 32), (2, 16, 32), (4, 32, 64), (6, 6, 6), (16, 16, 16)]  # groups, taken, made
WINDOWS = [(1, 1, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (3, 2, 0, 2), (2, 3, 0, 1), (5, 1, 2, 2)]


@needs_library
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "strided"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank, layout, calls):
    convolve = getattr(F, f"conv{rank}d")
    torch.manual_seed(0)
    every = list(itertools.product(CHANNELS, WINDOWS))
    for (groups, taken, made), (kernel, stride, padding, dilation) in every[rank::3]:  # each appears in one rank
        before = len(calls)
        x = laid_out(torch.randn(2, taken, *range(9, 9 + rank)), layout)
        weight = torch.randn(made, taken // groups, *(kernel,) * rank)
        run = with_gradients(lambda x, w, b: convolve(x, w, b, stride, padding, dilation, groups),  # noqa: B023
                             x, weight, torch.randn(made))
        assert_agree(*both(run), 1e-4)
        assert len(calls) > before


@needs_library
@pytest.mark.parametrize("settings", [{}, dict(stride=2, padding=1, output_padding=1), dict(dilation=2, groups=2),
                                      dict(stride=3, output_padding=2)])
def test_transposed_convolution(settings, calls):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 16, 7, 6), torch.randn(16, 32 // settings.get("groups", 1), 3, 3), torch.randn(32)
    assert_agree(*both(with_gradients(lambda *a: F.conv_transpose2d(*a, **settings), x, weight, bias)), 1e-4)
    assert calls


@needs_library
def test_convolution_of_an_expanded_gradient(calls):
    x, weight = torch.randn(2, 16, 8, 8, requires_grad=True), torch.randn(16, 16, 3, 3, requires_grad=True)

    def run():
        return torch.autograd.grad(F.conv2d(x, weight).sum(), (x, weight))

    assert_agree(*both(run), 1e-4)
    assert len(calls) == 3


@needs_library
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_half_precision_is_rounded_once(name, dtype, calls):
    """Both add up in float32, so that they differ by one rounding at most."""
    torch.manual_seed(0)
    tensors = [torch.randn(*shape).to(dtype) for shape in ((2, 16, 8, 8), (16, 16, 3, 3), (16,))]
    made, expected = both(with_gradients(getattr(F, name), *tensors))
    for a, b in zip(made, expected, strict=True):
        assert a.dtype is b.dtype is dtype and a.stride() == b.stride()
        torch.testing.assert_close(a.float(), b.float(), rtol=torch.finfo(dtype).eps, atol=1e-2)
    assert len(calls) == 3


@needs_library
def test_other_types_and_empty_arrays_are_left_to_numpy(calls):
    x, weight = torch.randn(2, 16, 8, 8), torch.randn(16, 16, 3, 3)
    assert F.conv2d(x.double(), weight.double()).dtype is torch.float64
    assert F.conv2d(x[:0], weight).shape == (0, 16, 6, 6)
    assert F.conv2d(x[:, :0], weight[:, :0]).numel() == 0
    assert F.gelu(torch.empty(0)).numel() == 0
    assert F.gelu(torch.randn(LARGE).double()).dtype is torch.float64
    assert not calls


@needs_library
def test_second_derivatives_go_through_it(calls):
    torch.manual_seed(0)
    x, weight = torch.randn(2, 8, 6, 6, requires_grad=True), torch.randn(8, 8, 3, 3, requires_grad=True)

    def run():
        grads = torch.autograd.grad(F.conv2d(x, weight).tanh().sum(), (x, weight), create_graph=True)
        return torch.autograd.grad(sum(g.pow(2).sum() for g in grads), (x, weight))

    assert_agree(*both(run), 1e-3)
    assert calls


# elements -----------------------------------------------------------------------------------------------------------


@needs_library
@pytest.mark.parametrize("compute", [F.gelu, lambda x: F.gelu(x, approximate="tanh"), torch.sigmoid, F.silu])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.usefixtures("without_machine_code")
def test_elementwise(compute, transposed, calls):
    torch.manual_seed(0)
    x = torch.randn(200, 300) * 4
    run = with_gradients(compute, x.t() if transposed else x)
    made, expected = both(run)
    assert_agree(made[:1], expected[:1], 2e-6)
    assert_agree(made[1:], expected[1:], 1e-5)
    assert calls


@needs_library
def test_sliced_arrays(calls):
    x = torch.randn(200, 400)[:, ::2]
    assert_agree(*both(lambda: [F.gelu(x), x.t().sigmoid()]))


# the library ---------------------------------------------------------------------------------------------------------


@needs_library
@settled()
def test_training_repeats_itself_and_agrees():
    def losses():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU(), nn.Conv2d(16, 16, 3),
                              nn.Flatten(), nn.LayerNorm(16 * 14 * 14), nn.Linear(16 * 14 * 14, 10))
        optimiser = torch.optim.SGD(model.parameters(), 0.05)
        x, target, made = torch.randn(16, 3, 16, 16), torch.arange(16) % 10, []
        for _ in range(4):
            optimiser.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimiser.step()
            made.append(loss.item())
        return made

    made, expected = both(losses)
    assert made == losses()
    assert made == pytest.approx(expected, rel=1e-3)


@needs_library
def test_switches(calls):
    x, weight = torch.randn(2, 16, 8, 8), torch.randn(16, 16, 3, 3)
    with mkldnn.flags(enabled=False):
        assert onednn_kernels() is None
        F.conv2d(x, weight)
        assert not calls
    F.conv2d(x, weight)
    assert len(calls) == 1
    before = mkldnn.set_flags(False)
    try:
        F.conv2d(x, weight)
        assert before[0] and not mkldnn.enabled and len(calls) == 1
    finally:
        mkldnn.set_flags(*before)


@needs_library
def test_threads_follow_torch(calls):
    before, x, weight = torch.get_num_threads(), torch.randn(8, 16, 32, 32), torch.randn(16, 16, 3, 3)
    made = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            made.append(F.conv2d(x, weight))
            assert onednn.threads(100) == count and onednn.threads(0.5) == 1
    finally:
        torch.set_num_threads(before)
    assert torch.allclose(*made, atol=1e-4) and calls[0] is not calls[1]


@needs_library
def test_calls_from_many_threads():
    x, weight = torch.randn(4, 16, 16, 16), torch.randn(16, 16, 3, 3)
    inputs = [x * i for i in range(1, 5)]
    expected, made = [F.conv2d(part, weight) for part in inputs], [None] * 4

    def run(i):
        for _ in range(20):
            made[i] = F.conv2d(inputs[i], weight)

    workers = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(map(torch.equal, made, expected))


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_processes_compute_too():
    source = ("import os, mindtorch_v2 as torch\n"
              "torch.set_num_threads(2); x = torch.randn(512, 1024); y = torch.nn.functional.gelu(x)\n"
              "pid = os.fork()\n"
              "if not pid: os._exit(0 if torch.allclose(torch.nn.functional.gelu(x), y) else 1)\n"
              "raise SystemExit(os.waitpid(pid, 0)[1])")
    command = [sys.executable, "-W", "ignore", "-c", source]
    assert subprocess.run(command, timeout=60, env=_environment()).returncode == 0


def _environment(**more):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


@pytest.mark.parametrize("named", ["0", "/no/such/library.so"])
def test_without_the_library(named):
    source = ("import mindtorch_v2 as torch; assert not torch.backends.mkldnn.is_available() and not torch.has_mkldnn\n"
              "x = torch.randn(64, 1024); assert x.softmax(-1).sum().isfinite()\n"
              "assert 'pip install onednn-cpu-gomp' in torch.__config__.show()")
    made = subprocess.run([sys.executable, "-c", source], timeout=60, env=_environment(**{onednn.VARIABLE: named}))
    assert made.returncode == 0


def test_import_does_not_load_it():
    source = "import sys, mindtorch_v2; assert not [name for name in sys.modules if 'onednn' in name]"
    assert subprocess.run([sys.executable, "-c", source], timeout=60, env=_environment()).returncode == 0


def test_what_is_said_of_it():
    shown = torch.__config__.show()
    assert ("pip install onednn-cpu-gomp" in shown) is not mkldnn.is_available()
    assert torch.has_mkldnn is mkldnn.is_available()
    assert np.isfinite(torch.randn(64, 1024).softmax(-1).numpy()).all()


@needs_library
def test_a_primitive_takes_no_array_of_another_size():
    kernels = onednn_kernels()
    primitive = kernels._eltwise(1, 64 * 256, kernels._ALGORITHMS["logistic"], False)
    x, made = np.ones((64, 256), np.float32), np.empty((64, 256), np.float32)
    primitive(x, made)
    assert np.allclose(made, 1 / (1 + math.exp(-1)))
    for wrong in (x[:63], x[:, :255], x.astype(np.float64), np.broadcast_to(x[:1], x.shape), np.ones(1, np.float32),
                  np.ones((64, 512), np.float32)[:, ::2]):
        with pytest.raises(RuntimeError, match="oneDNN was to read 16384 elements of 4 bytes"):
            primitive(wrong, made)
        with pytest.raises(RuntimeError, match="oneDNN was to read 16384 elements of 4 bytes"):
            primitive(x, wrong)


@needs_library
def test_gradients_with_sizes_that_do_not_fit_are_refused():
    x, statistics = torch.randn(64, 4096), torch.ones(64, 1)
    backward = torch.ops.aten.native_layer_norm_backward
    for width in (1, 8, 5000):
        with pytest.raises(RuntimeError, match="Expected weight to be of same shape as normalized_shape"):
            backward(x, x, [4096], statistics, statistics, torch.ones(width), None, [True, True, True])
    with pytest.raises(RuntimeError, match="expected mean to have 64 elements"):
        backward(x, x, [4096], statistics[:3], statistics, torch.ones(4096), None, [True, True, True])


@needs_library
def test_windows_of_unfold_and_fold_lie_as_without_the_library():
    x = torch.arange(48.0).reshape(1, 3, 4, 4).requires_grad_()

    def compute():
        blocks = F.unfold(x, 2, padding=1, stride=2)
        folded = F.fold(blocks, (4, 4), 2, padding=1, stride=2)
        return blocks, folded, *torch.autograd.grad(folded.square().sum(), x)

    assert_agree(*both(compute))


PRODUCTS = {
    "bias and relu": (2, lambda x, w, b, r: F.linear(x, w, b).relu()),
    "gelu": (2, lambda x, w, b, r: F.gelu(F.linear(x, w, b))),
    "gelu by tanh": (2, lambda x, w, b, r: F.gelu(F.linear(x, w), approximate="tanh")),
    "silu": (2, lambda x, w, b, r: F.silu(x @ w.t())),
    "tanh and scale": (3, lambda x, w, b, r: torch.tanh(torch.addmm(b, x, w.t())) * 0.5),
    "sigmoid": (2, lambda x, w, b, r: torch.sigmoid(F.linear(x, w, b))),
    "residual": (3, lambda x, w, b, r: r + F.linear(x, w, b) * 2.5),
    "of several dimensions": (4, lambda x, w, b, r: F.gelu(F.linear(x.view(4, 16, 64), w) + b) * r.view(4, 16, 48)),
    "one number": (3, lambda x, w, b, r: F.linear(x, w, b) * r[0, 0] + 1),
    "held": (0, lambda x, w, b, r: (product := F.linear(x, w, b), product.relu())),
    "square": (0, lambda x, w, b, r: (product := F.linear(x, w, b)) * product),
    "written": (0, lambda x, w, b, r: F.linear(x, w, b).relu_()),
    "columns": (0, lambda x, w, b, r: F.linear(x, w, b) + r[:, :1]),
}


@needs_library
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_a_plan_with_what_follows_them(name, calls, monkeypatch):
    monkeypatch.setattr(onednn_kernels(), "_MULTIPLIED", 1)
    count, program = PRODUCTS[name]
    torch.manual_seed(0)
    given = torch.randn(64, 64), torch.randn(48, 64), torch.randn(48), torch.randn(64, 48)

    def results():
        made = program(*given)
        return made if isinstance(made, tuple) else (made,)

    with torch.pipeline() as pipe:
        made = results()
    steps = pipe.history[-1][1].steps
    assert [len(step.entries) for step in steps if step.kind == "product"] == [count] * bool(count)
    assert len(calls) == bool(count)
    assert_agree(made, results())
    with mkldnn.flags(enabled=False), torch.pipeline():  # the same plan
        made = results()
    assert len(calls) == bool(count)
    assert_agree(made, results())


@needs_library
def test_products_of_a_training_step(calls, monkeypatch):
    """Forward keeps what backward reads: the operand of gelu, and not that of relu."""
    monkeypatch.setattr(onednn_kernels(), "_MULTIPLIED", 1)

    def gradients(recorded):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
        x = torch.randn(8, 4, 32, requires_grad=True)
        with torch.pipeline() if recorded else contextlib.nullcontext() as pipe:
            (model(x) ** 2).sum().backward()
        return pipe, [x.grad, *(p.grad for p in model.parameters())]

    pipe, made = gradients(recorded=True)
    kinds = [step.kind for step in pipe.history[-1][1].steps]
    assert kinds.count("product") == len(calls) == 1
    assert_agree(made, gradients(recorded=False)[1])


class _Loaded:
    """Machine code around BLAS that is there, and takes nothing."""

    @staticmethod
    def call(*args):
        return None


@needs_library
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_a_linear_layer_that_runs_often(biased, recorded, calls, monkeypatch):
    monkeypatch.setattr(matrices, "_product", _Loaded)
    monkeypatch.setattr(matrices, "_primitives", {})
    layer, x, turned = nn.Linear(256, 128, bias=biased), torch.randn(3, 32, 256), torch.randn(256, 96).t()

    def results():
        with torch.no_grad(), torch.pipeline() if recorded else contextlib.nullcontext():
            return [layer(given).tanh() for given in (x, turned, x[0, :8])]  # tanh is left to a kernel of its own

    expected = results()
    assert not calls
    for _ in range(10):
        assert_agree(results(), expected)
    count = len(calls)
    assert count  # the first of them alone lies in rows, and has enough
    with mkldnn.flags(enabled=False):
        assert_agree(results(), expected)
    assert len(calls) == count
    assert_agree(results(), expected)
    assert len(calls) == count + 1