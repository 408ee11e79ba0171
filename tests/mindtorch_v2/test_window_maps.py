"""Windows and points between elements (pooling, resampling) as gather maps, at random settings, against eager calls."""

import random
import shutil
from typing import Any

import pytest
from tests.mindtorch_v2 import emulated_groups
from tests.mindtorch_v2.interpreted_kernels import Interpreted

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import machine
from mindtorch_v2._pipeline import gathers
from mindtorch_v2._pipeline import run as running

F = torch.nn.functional
LARGEST = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MEANS = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
BEFORE = [lambda x: x, torch.relu, lambda x: x * 2 + 1, lambda x: -x, lambda x: x.clamp(-1, 1)]
AFTER = [lambda y: y * 3, torch.relu, lambda y: y + 1, lambda y: F.pad(y, (1, 2)) * 2]


def image(rank: int, kind: torch.dtype, source: random.Random) -> torch.Tensor:
    """A batch of images in one of several layouts, with numbers that are none, or no numbers, among its elements."""
    sizes = [source.randint(3, 7) for _ in range(rank)]
    x = torch.randn(2, 3, *sizes)
    x.view(-1)[source.randrange(x.numel())] = source.choice([float("nan"), float("inf"), -float("inf"), -0.0])
    layout = source.choice(["plain", "last", "turned", "part"])
    x = x.to(kind)
    if layout == "last" and rank > 1:
        return x.to(memory_format=torch.channels_last if rank == 2 else torch.channels_last_3d)
    if layout == "turned":
        return x.transpose(-1, 1).contiguous().transpose(-1, 1)
    return torch.cat([x, x], 1)[:, ::2] if layout == "part" else x


def settings(rank: int, mean: bool, source: random.Random) -> dict[str, Any]:
    size = [source.randint(1, 3) for _ in range(rank)]
    made: dict[str, Any] = {"kernel_size": size, "stride": [source.randint(1, 3) for _ in range(rank)],
                            "padding": [source.randint(0, n // 2) for n in size],
                            "ceil_mode": source.random() < 0.5}  # fmt: skip
    if not mean:
        return made | {"dilation": [source.randint(1, 2) for _ in range(rank)]}
    divisor = {"divisor_override": source.choice([None, 3])} if rank > 1 else {}
    return made | {"count_include_pad": source.random() < 0.5} | divisor


def compare(seed: int, kinds: list[torch.dtype]) -> bool:
    """Compares one random program; whether its windows are part of a kernel. Settings that PyTorch refuses are not."""
    source = random.Random(seed)
    torch.manual_seed(seed)
    rank, mean, kind = source.randint(1, 3), source.random() < 0.5, source.choice(kinds)
    if mean and rank == 3 and kind.itemsize == 2:
        kind = torch.float32  # of which PyTorch has no means
    x, given = image(rank, kind, source), settings(rank, mean, source)
    before, after = source.choice(BEFORE), source.choice(AFTER)
    pool = (MEANS if mean else LARGEST)[rank]
    try:
        expected = after(pool(before(x), **given))
    except RuntimeError:
        return False
    with torch.pipeline() as pipe:
        made = after(pool(before(x), **given))
    assert made.stride() == expected.stride() and made.dtype is expected.dtype
    torch.testing.assert_close(made, expected, equal_nan=True, msg=lambda text: f"seed {seed}, {given}: {text}")
    return all(step.kind in ("pointwise", "view") for step in pipe.history[-1][1].steps)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(running, "code_of", Interpreted)
    running.forget()
    yield
    running.forget()


def test_random_windows(interpreted: None) -> None:
    assert sum([compare(seed, [torch.float32, torch.float64]) for seed in range(40)]) > 25


def test_random_windows_of_halves(interpreted: None) -> None:
    assert sum([compare(seed, [torch.bfloat16, torch.float16]) for seed in range(40, 60)]) > 12


def test_random_windows_in_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    if not machine.available():
        pytest.skip("no compiler")
    running.forget()
    monkeypatch.setattr("mindtorch_v2._backends.cpu.jit.calls._AT_ONCE", True)
    kinds = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
    assert sum([compare(seed, kinds) for seed in range(60, 72)]) > 6
    running.forget()


def test_random_windows_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    emulated_groups.install(monkeypatch, tmp_path)
    running.forget()
    before = emulated_groups.Emulated.launches
    for seed in range(72, 78):
        compare(seed, [torch.float32, torch.bfloat16])
    assert emulated_groups.Emulated.launches > before
    running.forget()


def test_indices_that_are_asked_for_are_made(interpreted: None) -> None:
    x = torch.randn(2, 3, 6, 6)
    expected, places = F.max_pool2d(x.relu(), 2, return_indices=True)
    with torch.pipeline() as pipe:
        made, found = F.max_pool2d(x.relu(), 2, return_indices=True)
        made = made + 0
    assert torch.equal(made, expected) and torch.equal(found, places)
    assert "call" in [step.kind for step in pipe.history[-1][1].steps]


def test_gradients_of_windows(interpreted: None) -> None:
    def trained() -> list[torch.Tensor]:
        torch.manual_seed(0)
        x = torch.randn(2, 3, 7, 7, requires_grad=True)
        pooled = F.max_pool2d((x * 2).tanh(), 3, 2, 1) + F.avg_pool2d(x.relu(), 3, 2, 1, count_include_pad=False)
        loss = F.pad(pooled, (1, 1, 1, 1), mode="replicate").square().mean()
        loss.backward()
        return [loss, x.grad]

    expected = trained()
    with torch.pipeline():
        made = trained()
    for one, other in zip(expected, made, strict=True):
        torch.testing.assert_close(one, other)


def test_windows_over_nothing(interpreted: None) -> None:
    x = torch.randn(0, 3, 6, 6)
    with torch.pipeline():
        made = F.max_pool2d(x.relu(), 2) * 2, F.avg_pool2d(x.relu(), 2) * 2
    assert [tuple(one.shape) for one in made] == [(0, 3, 3, 3)] * 2


def test_numbers_that_change_from_run_to_run(interpreted: None) -> None:
    """A number of a call that is computed again inside a map is given to each run."""
    x = torch.randn(2, 3, 6, 6)
    for scale in (2.0, 3.5, -1.25):
        with torch.pipeline():
            made = F.max_pool2d(x * scale, 2) + scale
        assert torch.equal(made, F.max_pool2d(x * scale, 2) + scale)


def test_writes_before_a_map_is_read(interpreted: None) -> None:
    x = torch.randn(2, 3, 6, 6)
    kept = x.clone()
    with torch.pipeline():
        hidden = x.neg()
        pooled = F.max_pool2d(hidden, 2)
        x.mul_(2)
        made = pooled + 1
    assert torch.equal(made, F.max_pool2d(-kept, 2) + 1) and torch.equal(x, kept * 2)


def test_writes_over_what_a_map_gives(interpreted: None) -> None:
    """They are part of its kernel: layers with `inplace=True` are as those without."""
    x, weight = torch.randn(2, 3, 6, 6), torch.rand(3) + 0.5

    def normalised() -> tuple[torch.Tensor, torch.Tensor]:
        made = F.batch_norm(x, weight, weight, weight, weight).relu_()
        return made, F.max_pool2d(made, 2)

    def padded() -> torch.Tensor:
        return F.pad(x, (1, 1)).mul_(2).add_(F.pad(x, (1, 1)))

    def part() -> torch.Tensor:
        made = F.pad(x, (1, 1))
        made[:, 1:].mul_(2)
        return made

    def forgotten() -> torch.Tensor:
        return F.pad(x, (1, 1)).fill_(2) + 1

    def of_itself() -> torch.Tensor:
        made = x.clone()
        turned = made.flip(-1)
        made.add_(turned)
        turned.add_(made)
        return turned

    for program, kinds in ((normalised, ["pointwise"] * 2), (padded, ["pointwise"]), (part, None), (forgotten, None),
                           (of_itself, None)):  # fmt: skip
        expected = program()
        with torch.pipeline() as pipe:
            made = program()
        torch.testing.assert_close(made, expected)
        if kinds is not None:
            assert [step.kind for step in pipe.history[-1][1].steps if step.kind != "view"] == kinds


@pytest.mark.parametrize("mode", ["linear", "bilinear", "trilinear"])
def test_images_of_one_size_look_at_no_neighbours(mode: str) -> None:
    """As in PyTorch, an element that is no number does not spread along a dimension that keeps its size."""
    rank = ("linear", "bilinear", "trilinear").index(mode) + 1
    x = torch.zeros(1, 1, *(3,) * rank)
    x.view(-1)[1] = float("nan")
    made = F.interpolate(x, size=(3,) * rank, mode=mode)
    assert made.isnan().sum().item() == 1 and made.view(-1)[1].isnan()


MODES = {1: ["linear", "nearest"], 2: ["bilinear", "bicubic", "nearest"], 3: ["trilinear", "nearest-exact"]}


def compare_resampled(seed: int) -> bool:
    """Compares one image at random settings; whether it is made by a kernel with what comes before and after it."""
    source = random.Random(seed)
    torch.manual_seed(seed)
    rank = source.randint(1, 3)
    x = image(rank, source.choice([torch.float32, torch.float64, torch.bfloat16]), source)
    x = torch.nan_to_num(x, 0, 1, -1)  # which may be on one side of a point or on the other, by rounding
    given: dict[str, Any] = {"mode": source.choice(MODES[rank])}
    if "nearest" not in given["mode"]:
        given["align_corners"] = source.random() < 0.5
    if source.random() < 0.5:
        given["size"] = [source.randint(1, 9) for _ in range(rank)]
    else:
        given["scale_factor"] = [source.choice([0.5, 0.75, 1, 1.5, 2, 3]) for _ in range(rank)]
        given["recompute_scale_factor"] = source.choice([None, True])
    before, after = source.choice(BEFORE), source.choice(AFTER)
    expected = after(F.interpolate(before(x), **given))
    with torch.pipeline() as pipe:
        made = after(F.interpolate(before(x), **given))
    assert made.stride() == expected.stride() and made.dtype is expected.dtype
    torch.testing.assert_close(made, expected, msg=lambda text: f"seed {seed}, {given}: {text}")
    return all(step.kind in ("pointwise", "view") for step in pipe.history[-1][1].steps)


def test_random_images(interpreted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathers, "_MOST_JUMPS", 64)  # as on a GPU
    assert sum([compare_resampled(seed) for seed in range(40)]) > 12


def test_random_images_in_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    if not machine.available():
        pytest.skip("no compiler")
    running.forget()
    monkeypatch.setattr(gathers, "_MOST_JUMPS", 64)
    monkeypatch.setattr("mindtorch_v2._backends.cpu.jit.calls._AT_ONCE", True)
    assert sum([compare_resampled(seed) for seed in range(40, 52)]) > 3
    running.forget()


def test_random_images_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    emulated_groups.install(monkeypatch, tmp_path)
    monkeypatch.setattr(gathers, "_MOST_JUMPS", 64)
    running.forget()
    before = emulated_groups.Emulated.launches
    for seed in range(52, 58):
        compare_resampled(seed)
    assert emulated_groups.Emulated.launches > before
    running.forget()
