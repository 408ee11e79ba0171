"""Index, scatter, scan and order kernels of the GPU beyond what samples reach: many elements, odd layouts, types."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch

TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int64", "bool", "complex64")
REAL = TYPES[:-1]
LARGE = (96, 40, 72)  # enough for four elements a thread


def tensor(shape: tuple[int, ...], dtype: str, layout: str = "C") -> torch.Tensor:
    """Small whole numbers, whose sums every type holds."""
    numbers = np.random.default_rng(0).integers(-2, 3, shape).astype(np.float64)
    made = torch.from_numpy(numbers).to(getattr(torch, dtype))
    if layout == "transposed":
        return made.transpose(0, -1).contiguous().transpose(0, -1)
    return made


def places(shape: tuple[int, ...], n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(0, n, shape))


def check(function: Callable, *args: Any, tolerance: float = 1e-5) -> None:
    """The same of the GPU as of the CPU: values, type, shape and strides."""
    wanted = function(*args)
    got = function(*[a.cuda() if isinstance(a, torch.Tensor) else a for a in args])
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (got, wanted)], strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        a, b = (x.to(torch.complex128).numpy(force=True) for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layout", ["C", "transposed"])
@pytest.mark.parametrize("dtype", TYPES)
def test_reads(dtype: str, layout: str) -> None:
    x = tensor((6, 5, 8), dtype, layout)
    for dim in range(3):
        check(lambda x, i, dim=dim: x.index_select(dim, i), x, places((7,), x.shape[dim]))
        check(lambda x, i, dim=dim: x.gather(dim, i), x, places((4, 5, 3), x.shape[dim]))
    check(lambda x, i: x.take(i - 240), x, places((3, 4), 480))
    check(lambda x, i, j: x[i, :, j - 8], x, places((3, 1), 6), places((4,), 16))
    check(lambda x, i: x[:, i], x, places((2, 2), 5))


@pytest.mark.parametrize(("reduce", "dtype"), [(reduce, dtype) for reduce in ("sum", "prod", "amax", "amin", "mean")
                                               for dtype in REAL if (reduce, dtype) != ("mean", "bool")])
def test_scatter_reduce(reduce: str, dtype: str) -> None:
    x, source, index = tensor((6, 8), dtype), tensor((5, 9), dtype), places((4, 7), 8)
    for include in (True, False):
        check(lambda x, i, s, include=include: x.scatter_reduce(1, i, s, reduce, include_self=include),
              x, index, source, tolerance=2e-2)


@pytest.mark.parametrize("dtype", TYPES)
def test_sums(dtype: str) -> None:
    x, source = tensor((6, 5, 8), dtype, "transposed"), tensor((7, 5, 8), dtype)
    check(lambda x, i, s: x.index_add(0, i, s), x, places((7,), 6), source)
    check(lambda x, i, s: x.clone().scatter_add_(0, i, s), x, places((7, 5, 8), 6), source)
    check(lambda x, i, j, s: x.index_put((i, j), s, True), x, places((7,), 6), places((7,), 5), tensor((7, 8), dtype))
    check(lambda x, i, s: x.put(i, s, True), x.contiguous(), places((9,), 240), tensor((9,), dtype))


def test_many_elements() -> None:
    x = tensor(LARGE, "float32")
    check(lambda x, i: x.gather(1, i), x, places(LARGE, 40))
    check(lambda x, i: x[i], x, places((96,), 96))  # sixteen bytes at a time
    check(lambda x, i, s: x.scatter_add(2, i, s), x, places(LARGE, 72), x)
    check(lambda x: x.cumsum(1), x)
    check(lambda x: x.reshape(-1).cumsum(0), x, tolerance=1e-4)
    check(lambda x: x.reshape(-1).argmax(), x)
    check(lambda x: tuple(x.max(0)), x)


@pytest.mark.parametrize("dtype", REAL)
def test_order(dtype: str) -> None:
    x = tensor((3, 70, 2), dtype)
    for dim, descending in ((1, False), (1, True), (-1, False)):
        check(lambda x, dim=dim, down=descending: tuple(x.sort(dim, down, stable=True)), x)
    if dtype != "bool":
        check(lambda x: x.topk(9, 1)[0], x)
        check(lambda x: x.topk(2, 0, False)[0], x)
        check(lambda x: x.argmin(1), x)


def test_nan_is_the_largest() -> None:
    x = torch.tensor([1.0, float("nan"), -0.0, 0.0, float("inf"), float("nan"), -float("inf")])
    check(lambda x: tuple(x.sort()), x)
    check(lambda x: tuple(x.sort(descending=True, stable=True)), x)
    check(lambda x: x.argmax(), x)
    check(lambda x: tuple(x.min(0)), x)


def test_numbers_of_a_prepared_call() -> None:
    """A second call with another number does not get the first one's."""
    x, mask = torch.ones(4, device="cuda"), torch.tensor([True, False, True, False], device="cuda")
    for value in (0.0, -0.0, 2.5, 3):
        assert str(x.masked_fill(mask, value).tolist()) == str([float(value), 1.0] * 2)
        assert str(torch.where(mask, value, x).tolist()) == str([float(value), 1.0] * 2)
        assert str(x.scatter(0, torch.tensor([1], device="cuda"), value)[1].item()) == str(float(value))


def test_truth_values_are_no_numbers_to_a_prepared_call() -> None:
    mask = torch.tensor([True, False]).cuda()
    for _ in range(2):
        numbers, truths = torch.where(mask, 1, 0), torch.where(mask, True, False)
        assert (numbers.dtype, truths.dtype) == (torch.int64, torch.bool)
        assert numbers.tolist() == [1, 0] and truths.tolist() == [True, False]


def test_index_on_the_host() -> None:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    assert x[torch.tensor([1])].tolist() == [[3.0, 4.0, 5.0]]
    x[torch.tensor([0]), torch.tensor([2])] = torch.tensor(9.0)
    assert x.tolist() == [[0.0, 1.0, 9.0], [3.0, 4.0, 5.0]]
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        torch.ones(3)[torch.tensor([0], device="cuda")]


@pytest.mark.parametrize("options", [{}, {"lr_decay": 0.1, "weight_decay": 0.01}, {"maximize": True}])
def test_adagrad(options: dict) -> None:
    made = []
    for device in ("cpu", "cuda"):
        parameter = torch.linspace(0.5, 1.5, 7).to(device).requires_grad_()
        optimizer = torch.optim.Adagrad([parameter], lr=0.1, fused=True, **options)
        for _ in range(3):
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()
        made.append(parameter.numpy(force=True))
    np.testing.assert_allclose(*made, rtol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str) -> None:
    check(lambda w, i, o: torch.nn.functional.embedding_bag(i, w, o, mode=mode, padding_idx=2),
          torch.linspace(-1, 1, 35, dtype=torch.float64).reshape(7, 5), places((12,), 7), torch.tensor([0, 3, 3, 7]),
          tolerance=1e-14)


OUT_OF_RANGE = {
    "index": "x[torch.tensor([7], device='cuda')]",
    "gather": "x.gather(0, torch.tensor([3], device='cuda'))",
    "scatter_add": "x.scatter_add_(0, torch.tensor([-1], device='cuda'), torch.ones(1, device='cuda'))",
    "embedding": "torch.nn.functional.embedding(torch.tensor([3], device='cuda'), x.reshape(3, 1))",
    "cross entropy": "torch.nn.functional.cross_entropy(x.reshape(1, 3), torch.tensor([3], device='cuda'))",
}


@pytest.mark.parametrize("call", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_an_index_out_of_range_is_the_devices_assertion(call: str) -> None:
    """It ends all work of the process on that device, so that each has a process of its own."""
    program = f"""
import mindtorch_v2 as torch
x = torch.ones(3, device="cuda")
{call}
try:
    torch.cuda.synchronize()
except torch.AcceleratorError as error:
    print("raised:", error, flush=True)
"""
    path = os.pathsep.join([str(Path(torch.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": path})
    assert "raised: CUDA error: device-side assert triggered" in done.stdout, done.stderr


def test_one_element_of_the_cpu_written_by_a_mask_is_cast() -> None:
    mask = torch.tensor([[True, False], [True, True]], device="cuda")
    target = torch.zeros(2, 2, device="cuda")
    target[mask] = torch.tensor([3])
    target[:, mask[0]] = torch.tensor([2.5], dtype=torch.float64)
    assert target.tolist() == [[2.5, 0.0], [2.5, 3.0]]
    with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match"):
        target[mask] = torch.tensor([4], device="cuda")
    assert target.roll(1, None).tolist() == [[3.0, 2.5], [0.0, 2.5]]


@pytest.mark.parametrize("count", [1, 33, 8192, 8193, 65536, 65537])
def test_where_a_mask_is_true(count: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(count, 1)
    x[torch.rand(count) < 0.3] = 0
    mask, y = x != 0, x.cuda()
    assert torch.equal(y.nonzero().cpu(), x.nonzero())
    assert torch.equal(y[mask.cuda()].cpu(), x[mask])
    assert torch.equal(y.half()[mask.cuda()].cpu(), x.half()[mask])
    assert torch.equal(torch.masked_select(y, mask[:, 0].cuda()[:7]).cpu(), torch.masked_select(x, mask[:7, 0]))
    assert torch.equal(torch.nonzero_static(y, size=5, fill_value=-7).cpu(), x.nonzero_static(size=5, fill_value=-7))
    source = torch.arange(float(count)).reshape(-1, 1)
    assert torch.equal(y.masked_scatter(mask.cuda(), source.cuda()).cpu(), x.masked_scatter(mask, source))
    put = y.clone().index_put_((mask[:, 0].cuda(),), torch.ones(1, device="cuda"), accumulate=True)
    assert torch.equal(put.cpu(), x.index_put((mask[:, 0],), torch.ones(1), accumulate=True))


@pytest.mark.parametrize("kind", [torch.int32, torch.int64], ids=str)
def test_numbers_as_often_as_counts_say(kind: torch.dtype) -> None:
    counts = torch.tensor([0, 3, 1, 0, 2, 700, 0], dtype=kind)
    wanted = torch.repeat_interleave(counts)
    assert torch.equal(torch.repeat_interleave(counts.cuda()).cpu(), wanted)
    assert torch.equal(torch.repeat_interleave(counts.cuda(), output_size=706).cpu(), wanted)
    assert torch.repeat_interleave(torch.zeros(3, dtype=kind).cuda()).shape == (0,)


@pytest.mark.parametrize("limits", [(0, 0), (-1, 1.5)])
def test_counts_of_equal_bins(limits: tuple) -> None:
    torch.manual_seed(0)
    for count in (1, 100, 70_000):
        x = torch.randn(count)
        for kind in (torch.float32, torch.float64):
            assert torch.equal(torch.histc(x.to("cuda", kind), 7, *limits).cpu(), torch.histc(x.to(kind), 7, *limits))
    assert torch.equal(torch.histc(torch.full((4,), 2.0, device="cuda"), 3).cpu(), torch.tensor([0.0, 4, 0]))


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0, float("inf")])
def test_rows_that_are_too_long_are_shortened_once(power: float) -> None:
    torch.manual_seed(0)
    table, rows = torch.randn(9, 70), torch.tensor([[1, 4, 1], [8, 4, 0]])
    for kind in (torch.float32, torch.float64):
        host, device = table.to(kind), table.to("cuda", kind)
        for weight in (host, device):
            torch.nn.functional.embedding(rows.to(weight.device), weight, max_norm=1.5, norm_type=power)
        assert torch.allclose(device.cpu(), host, rtol=1e-5)


# equal elements ------------------------------------------------------------------------------------------------------


def unique_elements(x: torch.Tensor, inverse: bool, counts: bool) -> Any:
    """What `unique` gives, but for which NaN has which number: that is left open."""
    made = torch.unique(x, return_inverse=inverse, return_counts=counts)
    if not inverse:
        return made
    values, numbers, *rest = made
    assert (values[numbers].isnan() == x.isnan()).all()
    assert len(numbers[x.isnan()].unique()) == x.isnan().sum()
    return values, numbers.masked_fill(x.isnan(), -1), *rest


@pytest.mark.parametrize("count", [1, 2, 33, 1000, 3000, 5000, 70000])
@pytest.mark.parametrize("dtype", REAL)
def test_different_elements(dtype: str, count: int) -> None:
    """As many as one block orders and more; each NaN is one."""
    numbers = np.random.default_rng(2).integers(-60, 60, count) % (2 if dtype == "bool" else 120)
    x = torch.from_numpy(numbers).to(getattr(torch, dtype))
    if x.is_floating_point():
        x[::7] = float("nan")
    for inverse, counts in ((False, False), (True, False), (False, True), (True, True)):
        check(lambda x, i=inverse, c=counts: unique_elements(x, i, c), x)
        check(lambda x, i=inverse, c=counts: torch.unique_consecutive(x // 40, return_inverse=i, return_counts=c), x)
    if count == 1000:
        check(lambda x: unique_elements(x.reshape(20, 50).T, True, False), x)
        check(lambda x: torch.unique_consecutive(x.reshape(20, 50).T, return_inverse=True), x)


@pytest.mark.parametrize("dtype", REAL)
def test_most_frequent(dtype: str) -> None:
    x = tensor((5, 33, 4), dtype)
    if x.is_floating_point():
        x[2, 5:] = float("nan")
        x[3] = float("nan")
    for dim in range(3):
        values, places = x.cuda().mode(dim)
        wanted = x.mode(dim)[0]
        np.testing.assert_array_equal(values.float().numpy(force=True), wanted.float().numpy())
        found = x.gather(dim, places.cpu().unsqueeze(dim)).squeeze(dim)
        np.testing.assert_array_equal(found.float().numpy(), wanted.float().numpy())
    assert x.cuda().mode(1, True)[1].shape == (5, 1, 4)
    assert torch.tensor([3, 1, 3, 1, 2], device="cuda").mode()[1].item() == 3  # the last place of the smallest


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles(dtype: str, interpolation: str) -> None:
    x = torch.from_numpy(np.random.default_rng(3).standard_normal((5, 33, 4)).astype(dtype))
    x[2, 5:] = x[3] = float("nan")
    q = torch.tensor([0.0, 0.3, 0.5, 1.0], dtype=x.dtype)
    for function in (torch.quantile, torch.nanquantile):
        for dim in (None, 0, 1, 2):
            check(lambda x, f=function, d=dim: f(x, 0.3, d, interpolation=interpolation), x)
            check(lambda x, q, f=function, d=dim: f(x, q, d, interpolation=interpolation), x, q)
        check(lambda x, q, f=function: f(x[0, 0, 0], q, interpolation=interpolation), x, q)
        assert function(x.cuda(), 0.3, 0, True, interpolation=interpolation).stride() == (132, 4, 1)
        check(lambda x, f=function: f(x[0].repeat(100, 1), 0.7, 0, interpolation=interpolation), x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("wanted", ["complex32", "complex64", "complex128"])
def test_complex_copies_that_lie_otherwise(dtype: str, wanted: str) -> None:
    kind = getattr(torch, wanted)
    for x in (tensor((2, 3, 4, 5), dtype), tensor((2, 3, 4, 5), dtype, "transposed"),
              tensor((2, 1, 1), dtype).expand(2, 3, 4)):
        got = x.cuda().to(kind, memory_format=torch.channels_last if x.ndim == 4 else torch.contiguous_format)
        made = torch.view_as_real(got.cpu() if wanted != "complex32" else got.to(torch.complex64).cpu())
        np.testing.assert_array_equal(made[..., 0].double().numpy(), x.double().numpy())
        assert not made[..., 1].any()


@pytest.mark.parametrize("dtype", TYPES)
def test_filled(dtype: str) -> None:
    for value in (1, True, 0, torch.tensor(1)):
        check(lambda x, v=value: x.clone().fill_(v), tensor((3, 4), dtype))
        check(lambda x, v=value: x.clone()[:, ::2].fill_(v), tensor((3, 4), dtype))
    check(lambda x: x.clone()[:1].expand(3, 4).fill_(3).clone(), tensor((3, 4), dtype))
    check(lambda x: x.clone().zero_(), tensor((3, 4), dtype))
    check(lambda x: x.clone().T[1:].zero_(), tensor((3, 4), dtype))


def test_draws_by_element() -> None:
    chances = torch.tensor([0.0, 1.0, 0.25]).repeat(4000, 1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        drawn = torch.bernoulli(chances.to("cuda", dtype)).double().mean(0).tolist()
        assert drawn[:2] == [0, 1] and abs(drawn[2] - 0.25) < 0.05
    for mean, std in ((2.0, chances.cuda()), (chances.cuda(), 0.5), (chances.cuda(), chances.cuda())):
        made = torch.normal(mean, std).double()
        middle = torch.as_tensor(mean).double().cpu().expand(4000, 3).mean(0)
        spread = torch.as_tensor(std).double().cpu().expand(4000, 3).mean(0)
        assert (made.mean(0).cpu() - middle).abs().max() < 0.1
        assert (made.cpu().std(0) - spread).abs().max() < 0.1


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_spreads_of_few_columns(dtype: str) -> None:
    """Moments that are folded in two steps, in columns that are not read four at a time."""
    x = tensor((4000, 3), dtype)
    check(lambda x: x.std(0), x, tolerance=1e-3)
    check(lambda x: x.var(0), x, tolerance=2e-3)
