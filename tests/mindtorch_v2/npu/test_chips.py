"""What chips take and do not take: the rules of CANN's documents that a binding has to know, on simulated chips."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2._backends.npu.chips import Unsupported, accepted, chip_of, way
from mindtorch_v2._backends.npu.facts import signature, symbols

CHIPS = ("A2", "A3", "910A", "310P", "950")


@pytest.fixture(params=CHIPS)
def chip(request: Any, on_chip: Any) -> Iterator[Any]:
    with on_chip(request.param) as machine:
        yield machine


def both(function: Any, *tensors: torch.Tensor) -> tuple[Any, Any]:
    """What a function gives on the CPU and, brought back, on the NPU."""
    return function(*tensors), torch.utils._pytree.tree_map(lambda x: x.cpu(), function(*[t.npu() for t in tensors]))


def close(got: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(got.float().numpy(), wanted.float().numpy(), rtol=tolerance, atol=tolerance)


def gradient(function: Any, *tensors: torch.Tensor) -> Any:
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    function(*leaves).sum().backward()
    return [t.grad.cpu() for t in leaves]


# names and lists -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "wanted"), [
    ("Ascend910B1", "A2"), ("Ascend910B2C", "A2"), ("Ascend910B4-1", "A2"), ("Ascend910B", "910A"),
    ("Ascend910ProB", "910A"), ("Ascend910PremiumA", "910A"), ("Ascend910_9391", "A3"), ("Ascend310P3", "310P"),
    ("Ascend310B1", "310B"), ("Ascend950PR_9589", "950"), ("Ascend1000", None)])  # fmt: skip
def test_chips_are_known_by_their_exact_names(name: str, wanted: str | None) -> None:
    assert chip_of(name) == wanted


def test_the_lists_name_parameters_of_their_operators() -> None:
    listed = 0
    for symbol in symbols():
        tensors = {p.name for p in signature(symbol) if p.is_tensor or p.is_tensor_list}
        for name in CHIPS:
            taken = accepted(symbol, name)
            assert taken.keys() <= tensors and all(taken.values()), symbol
            listed += bool(taken)
    assert listed > 0.95 * len(CHIPS) * len(symbols())


def test_casts_keep_values_and_go_back() -> None:
    i32, i64, f16, f32, f64 = map(np.dtype, ("i4", "i8", "f2", "f4", "f8"))
    assert way("aclnnMaxDim", "A2", (i32, None, None, i32, i64)) == (i64, None, None, i64, None)
    assert way("aclnnMaxDim", "950", (i32, None, None, i32, i64)) is None
    pooled = way("aclnnMaxPool2dWithIndicesBackward", "A2", (f16, f16, i64, *(None,) * 5, f16))
    assert pooled == (f32, f32, i32, *(None,) * 5, f32)
    assert "does not take" in way("aclnnRelu", "A2", (f64, f64))
    assert way("aclnnRelu", None, (f64, f64)) is None  # a chip that is not known is asked


def test_what_nothing_serves_is_refused_before_cann(chip: Any) -> None:
    x = torch.ones(3, 3, dtype=torch.float64).npu()
    called = chip.calls["aclnnMmGetWorkspaceSize"]
    with pytest.raises(Unsupported, match=rf"aten::mm cannot run on device 'npu' \({chip.soc_name.value.decode()}\): "
                                          r"aclnnMm on a \w+ does not take self float64, mat2 float64"):
        x @ x
    assert chip.calls["aclnnMmGetWorkspaceSize"] == called and not chip.violations


def test_bfloat16_where_there_is_none(chip: Any) -> None:
    if chip.chip not in ("910A", "310P"):
        assert (torch.ones(2, device="npu", dtype=torch.bfloat16) + 1).tolist() == [2, 2]
        return
    with pytest.raises(Unsupported, match=f"on a {chip.chip} does not take"):
        torch.ones(2, device="npu").to(torch.bfloat16)
    assert not chip.violations


# operators -----------------------------------------------------------------------------------------------------------


def test_running_variance(chip: Any) -> None:
    """A chip before the 950 keeps the variance where the parameter says 1/std."""
    layers = [torch.nn.BatchNorm2d(3, eps=1e-2) for _ in range(2)]
    layers[1] = layers[1].to("npu")
    x = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(3)) * 2 + 1
    inputs = [x.clone().requires_grad_(), x.npu().requires_grad_()]
    for layer, given in zip(layers, inputs, strict=True):
        for _ in range(3):
            (layer(given) * given.detach()).sum().backward()
    close(layers[1].running_var.cpu(), layers[0].running_var)
    close(layers[1].running_mean.cpu(), layers[0].running_mean)
    for name in ("weight", "bias"):
        close(getattr(layers[1], name).grad.cpu(), getattr(layers[0], name).grad, 1e-4)
    close(inputs[1].grad.cpu(), inputs[0].grad, 1e-3)


@pytest.mark.parametrize("settings", [(2,), (3, 2, 1), (2, 2, 0, 2), (3, 1, 1, 1, True)])
@pytest.mark.parametrize("rank", [2, 3])
def test_max_pooling_with_indices_and_dilation(chip: Any, settings: tuple, rank: int) -> None:
    pool = {2: F.max_pool2d, 3: F.max_pool3d}[rank]
    x = torch.randn(2, 3, *(7,) * rank, generator=torch.Generator().manual_seed(1))
    for wanted, got in zip(*both(lambda t: pool(t, *settings, return_indices=True), x), strict=True):
        assert got.dtype is wanted.dtype
        close(got, wanted)
    close(gradient(lambda t: pool(t, *settings), x.npu())[0], gradient(lambda t: pool(t, *settings), x)[0])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weighted", [torch.float32, None])
def test_rms_norm_in_half_precision(chip: Any, kind: Any, weighted: Any) -> None:
    if kind is torch.bfloat16 and chip.chip in ("910A", "310P"):
        return
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(2)).to(kind)
    weight = torch.linspace(0.5, 1.5, 8).to(weighted or kind)

    def norm(x: Any, w: Any) -> Any:
        return F.rms_norm(x, (8,), w, 1e-5)

    wanted, got = both(norm, x, weight)
    assert got.dtype is kind
    close(got, wanted, 2e-2)
    for a, b in zip(gradient(norm, x.npu(), weight.npu()), gradient(norm, x, weight), strict=True):
        assert a.dtype is b.dtype
        close(a, b, 4e-2)


def test_float32_products_and_convolutions(chip: Any) -> None:
    """Matrix units without float32 must be allowed less; the others compute it in full."""
    tolerance = 5e-3 if chip.chip in ("910A", "310P") else 2e-5
    x, w = torch.randn(4, 6), torch.randn(6, 5)
    for a, b in zip(*both(lambda x, w: (x @ w, F.linear(x, w.t())), x, w), strict=True):
        close(b, a, tolerance)
    image, kernel = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3)
    close(*both(lambda x, w: F.conv2d(x, w), image, kernel)[::-1], 4 * tolerance)
    for a, b in zip(gradient(F.conv2d, image.npu(), kernel.npu()), gradient(F.conv2d, image, kernel), strict=True):
        close(a, b, 10 * tolerance)


def test_hf32_by_choice(npu: Any) -> None:
    """Executors that were made with the other precision are not used any more."""
    from mindtorch_v2._backends.npu.runtime import started

    x = torch.ones(2, 2, device="npu")
    x @ x
    prepared = npu.calls["aclnnMmGetWorkspaceSize"]
    try:
        torch.npu.matmul.allow_hf32 = True
        assert started().precision_of_products("aclnnMm") == 3
        assert started().precision_of_products("aclnnConvolution") == 0
        x @ x
        assert npu.calls["aclnnMmGetWorkspaceSize"] > prepared
    finally:
        torch.npu.matmul.allow_hf32 = False


def test_a_graph_keeps_its_memory(npu: Any) -> None:
    """What lies between its launches is given to nobody else, also after the cache was emptied."""
    x, graph = torch.ones(4, device="npu"), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = (x * 2 + 1) * 3
    torch.npu.empty_cache()
    others = [torch.full((4,), -1.0, device="npu") for _ in range(8)]
    x.fill_(2)
    graph.replay()
    assert y.tolist() == [15, 15, 15, 15] and all(o.tolist() == [-1] * 4 for o in others)
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


@pytest.mark.parametrize("lengths", [((6, 5), (3, 2)), ((6, 5), (0, 3)), ((6, 1), (3, 2)), ((6, 6), (0, 0))])
def test_ctc_loss(chip: Any, lengths: tuple) -> None:
    """Also with targets without labels, and with more labels than steps, which CANN does not compute."""
    scores = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(5))
    targets, (steps, labels) = torch.tensor([[1, 2, 2], [3, 1, 0]]), lengths

    def loss(x: Any) -> Any:
        return F.ctc_loss(x.log_softmax(-1), targets.to(x.device), steps, labels, reduction="none", zero_infinity=True)

    close(*both(loss, scores)[::-1], 1e-4)
    close(gradient(loss, scores.npu())[0], gradient(loss, scores)[0], 1e-4)


def test_bucketize_and_normal_by_tensors(chip: Any) -> None:
    wanted, got = both(torch.bucketize, torch.tensor([[0.5, 3.0], [1.0, 9.0]]), torch.tensor([1.0, 2.0, 4.0]))
    assert got.tolist() == wanted.tolist()
    mean, std = torch.full((4000,), 3.0).npu(), torch.full((4000,), 0.5).npu()
    for drawn in (torch.normal(mean, std), torch.normal(mean, 0.5), torch.normal(3.0, std)):
        assert abs(drawn.mean().item() - 3) < 0.05 and abs(drawn.std().item() - 0.5) < 0.05


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int32", "int64", "float16", "bool"])
def test_extremes_and_fills_of_all_types(chip: Any, name: str) -> None:
    x = torch.tensor([[3, 1, 2], [0, 5, 4]]).to(getattr(torch, name))
    for function in (lambda t: t.max(1), lambda t: t.min(0), lambda t: (t.masked_fill(t > 2, 1),),
                     lambda t: (t.clone().masked_fill_(t.bool(), 1),)):  # fmt: skip
        for wanted, got in zip(*both(function, x), strict=True):
            assert got.dtype is wanted.dtype and got.tolist() == wanted.tolist()


def test_half_precision_of_bilinear_resampling(chip: Any) -> None:
    kind = torch.float16 if chip.chip in ("910A", "310P") else torch.bfloat16
    x = torch.randn(1, 2, 3, 3).to(kind)

    def larger(t: Any) -> Any:
        return F.interpolate(t, scale_factor=2.0, mode="bilinear")

    close(*both(larger, x)[::-1], 2e-2)
    close(gradient(larger, x.npu())[0], gradient(larger, x)[0], 4e-2)


def test_derivatives_in_float64(chip: Any) -> None:
    x = torch.randn(3, 4, dtype=torch.float64)
    for function in (lambda t: t.relu() * t, lambda t: t.softmax(-1) * t, lambda t: t.log_softmax(0) * t,
                     lambda t: t.masked_fill(t > 0, 2.0) * t):  # fmt: skip
        got, wanted = gradient(function, x.npu())[0], gradient(function, x)[0]
        assert got.dtype is torch.float64
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)


# CANN's options, streams, life ----------------------------------------------------------------------------------------


def test_deterministic_algorithms_are_told_to_cann(npu: Any) -> None:
    torch.ones(1, device="npu:0")
    assert npu.options.get((0, 0), 0) == 0
    try:
        torch.use_deterministic_algorithms(True)
        assert npu.options[0, 0] == 1
        torch.ones(1, device="npu:1")
        assert npu.options[1, 0] == 1  # a device that is first used later
    finally:
        torch.use_deterministic_algorithms(False)
    assert npu.options == {(0, 0): 0, (1, 0): 0}


def test_stream_contexts_nest(npu: Any) -> None:
    a, b, before = torch.npu.Stream(), torch.npu.Stream(), torch.npu.current_stream()
    with torch.npu.stream(a):
        with torch.npu.stream(b):
            with torch.npu.stream(a):
                assert torch.npu.current_stream() == a
            assert torch.npu.current_stream() == b
        assert torch.npu.current_stream() == a
    assert torch.npu.current_stream() == before


def test_what_another_initialised_is_left_to_it(npu: Any) -> None:
    from mindtorch_v2._backends.npu import runtime

    npu.initialised = True  # another library of the process was first
    torch.ones(2, device="npu")
    runtime.stop()
    assert npu.initialised and not npu.calls["aclFinalize"]
    npu.initialised = False


def test_nothing_is_called_after_the_end(npu: Any) -> None:
    """Of a runtime that another thread still holds."""
    from mindtorch_v2._backends.npu import runtime

    held = runtime.started()
    torch.ones(2, device="npu")
    runtime.stop()
    before = dict(npu.calls)
    with pytest.raises(RuntimeError, match="CANN was finalised"):
        held.call("aclrtSynchronizeDevice")
    assert npu.calls == before


def test_a_daemon_thread_at_exit(npu: Any) -> None:
    """The interpreter ends while a thread works: no call reaches a CANN that was finalised."""
    program = (
        "import threading, time, mindtorch_v2 as torch\n"
        "from simulator import simulator\n"
        "machine = simulator()\n"
        "def work():\n"
        "    x = torch.ones(2, device='npu')\n"
        "    while True: x = x + 1\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "import atexit\n"
        "atexit._run_exitfuncs()\n"
        "ended = dict(machine.calls)\n"
        "time.sleep(0.3)\n"
        "print('calls', machine.calls == ended)\n"
    )
    environment = {"ASCEND_HOME_PATH": str(npu.root), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                          env=environment, check=False)  # fmt: skip
    assert "calls True" in said.stdout, said.stderr

