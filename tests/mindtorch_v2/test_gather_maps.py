"""Gather maps (padding, rolls, tables, choices by index, ...) as loads in the kernels of what reads their results."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.mindtorch_v2 import emulated_groups
from tests.mindtorch_v2.interpreted_kernels import Interpreted
from tests.mindtorch_v2.operator_cases import arguments, bases, function_of, good_calls

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import machine
from mindtorch_v2._backends.cuda import group_sources
from mindtorch_v2._ops._declare.op import DECLARATIONS
from mindtorch_v2._pipeline import gathers
from mindtorch_v2._pipeline import run as running

F = torch.nn.functional
KINDS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def rope(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1) * y.sin() + x * y.cos()


def two_tables(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    tokens, places = torch.tensor([[0, 5, 2, 2, 1, 3]] * 4), torch.arange(x.shape[1])
    return F.layer_norm(F.embedding(tokens, y[0]) + F.embedding(places, x[0]), x.shape[-1:])


def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    padded = F.pad(x, (1, 2))
    return padded * padded.sigmoid()


# Programs of two tensors of shape (4, 6, 8), and the kinds of the steps that compute them.
PROGRAMS: dict[str, tuple[Callable, list[str]]] = {
    "tables": (two_tables, ["row"]),
    "pad": (lambda x, y: F.pad(x, (1, 2)) * 2 + 1, ["pointwise"]),
    "borders": (lambda x, y: F.pad(x, (1, 2, 0, 3), value=1.5) * 2 + 1, ["pointwise"]),
    "cut": (lambda x, y: F.pad(x, (-1, 2, 1, -3)).relu() - 1, ["pointwise"]),
    "reflect": (lambda x, y: F.pad(x, (1, 2), mode="reflect") * 2, ["pointwise"]),
    "replicate": (lambda x, y: F.pad(x, (1, 2), mode="replicate") * 2, ["pointwise"]),
    "circular": (lambda x, y: F.pad(x, (3, 1), mode="circular") * 2, ["pointwise"]),
    "roll": (lambda x, y: x.roll(3, -1) + y, ["pointwise"]),
    "rolls": (lambda x, y: x.roll((1, -2), (0, 1)) + y, ["pointwise"]),
    "flip": (lambda x, y: x.flip(0, 2) * y, ["pointwise"]),
    "rope": (rope, ["pointwise"]),
    "cat": (lambda x, y: torch.cat([x, y[:, :2], x], 1).relu() * 2, ["pointwise"]),
    "stack": (lambda x, y: torch.stack([x, y], 1) * 2, ["pointwise"]),
    "nearest": (lambda x, y: (F.interpolate(x[None], scale_factor=2) + 1).relu(), ["pointwise"]),
    "gather": (lambda x, y: x.gather(-1, (y > 0).long()).neg() + 1, ["pointwise", "pointwise"]),
    "index_select": (lambda x, y: x.index_select(1, torch.tensor([0, 3, 3])).sum(-1), ["row"]),
    "index": (lambda x, y: x[torch.tensor([0, -1, 2]), :, torch.tensor([-8, 7, 0])] * 2, ["pointwise"]),
    "rows": (lambda x, y: x[:, torch.tensor([[0, -1], [2, 5]], dtype=torch.int32)] * 2, ["pointwise"]),
    "take": (lambda x, y: x.take(torch.tensor([0, -1, 47, 191])) * 2, ["pointwise"]),
    "tril": (lambda x, y: (x.tril(1) + 1).sum(-1), ["row"]),
    "triu": (lambda x, y: x.triu().softmax(-1), ["row"]),
    "softmax": (lambda x, y: F.pad(x, (1, 1)).softmax(-1) * 3, ["row"]),
    "broadcast": (lambda x, y: x[:2] + F.embedding(torch.tensor([5, 0, 0, 1, 2, 3]), y[0]), ["pointwise"]),
    "view": (lambda x, y: F.pad(x, (1, 2))[:, 1:4, ::2].transpose(0, 1) * 2, ["pointwise"]),
    "map of a map": (lambda x, y: F.pad(x.roll(1, -1), (1, 2)) * 2, ["pointwise"]),
    "twice": (gated, ["pointwise"]),
    "squeezed": (lambda x, y: x.gather(2, (y > 0).long()[..., :1]).squeeze(2).mean(-1), ["pointwise", "row"]),
    "again": (lambda x, y: (x * 2).roll(1, -1) + x * 2, ["pointwise"]),
    "costly": (lambda x, y: x.exp().roll(1, -1) + y, ["pointwise", "pointwise"]),
    "largest": (lambda x, y: F.max_pool2d((x + y).relu(), 2) * 2, ["pointwise"]),
    "largest in padding": (lambda x, y: F.max_pool2d(x * 2 + 1, 3, 2, 1).neg(), ["pointwise"]),
    "a window around each": (lambda x, y: F.max_pool2d((x + y).neg(), 3, 1, 1) * 2, ["pointwise", "pointwise"]),
    "means": (lambda x, y: F.avg_pool2d(x.relu(), 3, 2, 1, ceil_mode=True) + 1, ["pointwise"]),
    "means without padding": (lambda x, y: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False) * 2, ["pointwise"]),
    "means along a row": (lambda x, y: F.avg_pool1d(x + y, 2).sigmoid(), ["pointwise"]),
    "pooled and padded": (lambda x, y: F.pad(F.max_pool2d(x.relu(), (1, 2)), (1, 0)), ["pointwise"]),
    "many under a condition": (lambda x, y: F.pad(F.avg_pool2d(x.relu(), 2), (1, 0)) * 2, ["pointwise", "pointwise"]),
    "overlapping frames": (lambda x, y: F.pad(x, (3, 3), mode="reflect").unfold(-1, 8, 2) * y[:, :1, None],
                           ["pointwise"]),
    "repeated": (lambda x, y: x.neg().repeat(2, 1, 3) * 2, ["pointwise"]),
    "even windows": (lambda x, y: F.adaptive_max_pool2d(x.neg(), (3, 4)) + 1, ["pointwise"]),
    "by running statistics": (lambda x, y: F.avg_pool1d(F.batch_norm(x, y[0, :, 0], torch.ones_like(y[1, :, 0]),
                                                                     y[2, :, 0], y[3, :, 0]).relu(), 2) * 2,
                              ["pointwise"]),
    "linear": (lambda x, y: F.interpolate(x[None], size=(12, 8), mode="bilinear") * 2, ["pointwise"]),
    "padded for a product": (lambda x, y: F.conv2d(F.pad(x.relu(), (1, 1)), torch.ones(1, 4, 2, 2, dtype=x.dtype)),
                             ["pointwise"]),
    "turned": (lambda x, y: x.transpose(0, 2).roll(1, 0) - y.transpose(0, 2), ["pointwise"]),
}  # fmt: skip


# Those that a call computes in other steps, or in another order.
ROUNDED = ("by running statistics", "linear")
# What is two kernels on the CPU, whose vectors are not loaded under a condition, and one on a GPU.
ONE_ON_A_GPU = ("many under a condition",)


def operands(kind: torch.dtype) -> list[torch.Tensor]:
    source = np.random.default_rng(3)
    made = [torch.tensor(source.standard_normal((4, 6, 8))).to(kind) for _ in range(2)]
    made[0][1, 2, 3] = float("nan")
    return made


def steps_of(pipe: Any) -> list[Any]:
    return [step for step in pipe.history[-1][1].steps if step.kind != "view"]


def compared(name: str, kind: torch.dtype, exact: bool = True) -> list[Any]:
    """The steps of a program, which gives what it gives call by call."""
    program, kinds = PROGRAMS[name]
    given = operands(kind)
    expected = program(*given)
    with torch.pipeline() as pipe:
        made = program(*given)
    steps = steps_of(pipe)
    assert [step.kind for step in steps if step.kind != "call"] == kinds
    assert made.dtype is expected.dtype and made.stride() == expected.stride()
    exact = exact and name not in ROUNDED
    tolerance = {} if "row" not in kinds and exact else {"rtol": 2e-2, "atol": 2e-2} if kind.itemsize == 2 else {
        "rtol": 1e-5, "atol": 1e-5}  # fmt: skip
    torch.testing.assert_close(made, expected, equal_nan=True, **(tolerance or {"rtol": 0, "atol": 0}))
    return steps


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(running, "code_of", Interpreted)
    running.forget()
    yield
    running.forget()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_map_is_part_of_what_reads_it(name: str, interpreted: None) -> None:
    before = Interpreted.launches
    compared(name, torch.float32, exact=False)
    assert Interpreted.launches > before


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_maps_in_machine_code(kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    if not machine.available():
        pytest.skip("no compiler")
    running.forget()
    monkeypatch.setattr("mindtorch_v2._backends.cpu.jit.calls._AT_ONCE", True)
    for name, (_, kinds) in PROGRAMS.items():
        if kind.itemsize != 2 or "row" not in kinds:
            compared(name, kind, exact=kind.itemsize > 2)
    running.forget()


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_whole_numbers_and_truths(kind: torch.dtype, interpreted: None) -> None:
    x = (torch.arange(24).reshape(4, 6) % 3).to(kind)

    def program() -> tuple:
        return F.pad(x, (1, 2), value=1) == 1, x.roll(1, -1) | x, torch.cat([x, x]) & x[:1], x.tril() == x

    expected = program()
    with torch.pipeline() as pipe:
        made = program()
    assert {step.kind for step in steps_of(pipe)} == {"pointwise"}
    assert all(torch.equal(a, b) for a, b in zip(expected, made, strict=True))


def test_one_kernel_serves_other_sizes(interpreted: None) -> None:
    kernels = set()
    for n in (20, 24, 33):
        x = torch.randn(3, n)
        with torch.pipeline() as pipe:
            made = x.roll(11, -1) * 2
        kernels.add(id(steps_of(pipe)[0].kernel))
        assert torch.equal(made, x.roll(11, -1) * 2)
    assert len(kernels) == 1


@pytest.mark.parametrize("mean", [False, True])
def test_what_is_summed_need_not_lie_in_order(mean: bool, interpreted: None) -> None:
    """Rows that an index chooses, or that are turned, are summed part by part, over all of them or over some."""
    torch.manual_seed(0)  # sums near 0 would have few digits in common
    x, at = torch.randn(3, 4, 70), torch.tensor([2, 0, 0, 1, 2])

    def program() -> tuple:
        chosen, turned = x.index_select(0, at), x.transpose(0, 1) * 2
        return (chosen.mean(), chosen.mean((1, 2)), turned.mean()) if mean else (
            chosen.sum(), chosen.sum((1, 2)), turned.sum())  # fmt: skip

    expected = program()
    with torch.pipeline() as pipe:
        made = program()
    assert [step.kind for step in steps_of(pipe)] == ["reduction", "reduction"]
    for one, other in zip(expected, made, strict=True):
        torch.testing.assert_close(one, other)


def test_a_map_that_others_read_is_stored_or_a_call(interpreted: None) -> None:
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    with torch.pipeline() as pipe:
        rolled = x.roll(1, 0)
        made, product = rolled * 2, rolled @ w
    steps = steps_of(pipe)
    assert [step.kind for step in steps] == ["pointwise", "call"] and len(steps[0].outputs) == 2
    assert torch.equal(rolled, x.roll(1, 0)) and torch.equal(made, rolled * 2)
    torch.testing.assert_close(product, x.roll(1, 0) @ w)
    with torch.pipeline() as pipe:
        product, part = (lambda e: (e @ w, e[:2] * 2))(x.flip(0))
    assert [step.kind for step in steps_of(pipe)] == ["call", "pointwise", "call"]
    assert torch.equal(part, x.flip(0)[:2] * 2)


def test_writes_between_a_map_and_what_reads_it(interpreted: None) -> None:
    x, y = torch.arange(6.0), torch.ones(6)
    with torch.pipeline():
        rolled = x.roll(1, 0)
        x.mul_(2)
        made = rolled + y
        x.add_(x.flip(0))
        y.copy_(x.roll(2, 0))
    assert made.tolist() == [6.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert x.tolist() == [10.0] * 6 and y.tolist() == [10.0] * 6


WRONG: dict[str, tuple[Callable, type[Exception], str]] = {
    "embedding": (lambda x, at: F.embedding(at, x) * 2, IndexError, "index out of range in self"),
    "index_select": (lambda x, at: x.index_select(0, at) * 2, IndexError, "index out of range in self"),
    "index": (lambda x, at: x[at] * 2, IndexError, "index 7 is out of bounds for dimension 0 with size 3"),
    "gather": (lambda x, at: x.gather(0, at[:, None]) * 2, RuntimeError, "index 7 is out of bounds for dimension 0"),
    "take": (lambda x, at: x.take(at * 5) * 2, IndexError, "tried to access index 35 on a tensor of 12 elements"),
    "row": (lambda x, at: F.embedding(at, x).softmax(-1), IndexError, "index out of range in self"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_index_out_of_range_is_told_with_its_line(name: str, interpreted: None) -> None:
    program, kind, text = WRONG[name]
    x, at, before, after = torch.randn(3, 4), torch.tensor([0, 7]), torch.zeros(2), torch.zeros(2)
    operator = {"row": "embedding", "index": "index.Tensor"}.get(name, name)
    with pytest.raises(kind, match=text) as told, torch.pipeline() as pipe:
        before.add_(1)
        made = program(x, at)
        after.add_(1)
        pipe.flush()
    assert f"aten::{operator}, recorded at {__file__}" in str(told.value)
    assert (before.tolist(), after.tolist()) == ([1.0, 1.0], [0.0, 0.0])
    with pytest.raises(RuntimeError, match="never computed"):
        made.tolist()


def test_the_first_of_two_wrong_indices_is_told(interpreted: None) -> None:
    x, at = torch.randn(3, 4), torch.tensor([0, 7])
    with pytest.raises(IndexError, match="aten::embedding"), torch.pipeline():
        table = F.embedding(at, x)
        chosen = x[at]
        made = chosen * 2 + table
    assert made._array.error is not None


def test_gradients_are_recorded_too(interpreted: None) -> None:
    def trained() -> list[torch.Tensor]:
        torch.manual_seed(0)
        x, table = torch.randn(4, 6, requires_grad=True), torch.randn(5, 6, requires_grad=True)
        hidden = F.pad(x.roll(1, -1), (1, 1)) * 2
        loss = (hidden[:, 1:-1] + F.embedding(torch.tensor([0, 4, 2, 4]), table)).tanh().flip(0).sum()
        loss.backward()
        return [loss, x.grad, table.grad]

    expected = trained()
    with torch.pipeline():
        made = trained()
    for one, other in zip(expected, made, strict=True):
        torch.testing.assert_close(one, other)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    emulated_groups.install(monkeypatch, tmp_path_factory.getbasetemp())
    running.forget()
    yield
    running.forget()


# Each pointwise program with one type, those of rows with all.
OF_A_GPU = [(name, kind) for at, (name, (_, kinds)) in enumerate(PROGRAMS.items())
            for kind in (KINDS if "row" in kinds else [KINDS[at % len(KINDS)]])]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), OF_A_GPU, ids=str)
def test_maps_in_kernels_of_a_gpu(name: str, kind: torch.dtype, emulated: None) -> None:
    before = emulated_groups.Emulated.launches
    compared(name, kind, exact=False)
    assert emulated_groups.Emulated.launches > before


JUMPING: dict[str, Callable] = {
    "bilinear": lambda x: F.interpolate(x.relu(), size=(9, 11), mode="bilinear") * 2,
    "aligned": lambda x: F.interpolate(x, size=(3, 12), mode="bilinear", align_corners=True) * 2,
    "scaled": lambda x: F.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear") + 1,
    "bicubic": lambda x: F.interpolate(x.double() if x.itemsize == 2 else x, size=(9, 4), mode="bicubic") * 2,
    "blocks": lambda x: F.unfold(x.neg(), 3, padding=1, stride=2, dilation=(1, 2)) * 2,
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_places_that_are_computed_in_kernels_of_a_gpu(
    kind: torch.dtype, emulated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the host what loads many such elements of a row is a call."""
    x = torch.randn(2, 3, 5, 7).to(kind)
    for program in JUMPING.values():
        expected = program(x)
        with torch.pipeline() as pipe:
            made = program(x)
        assert "call" in [step.kind for step in steps_of(pipe)]
        torch.testing.assert_close(made, expected)
        with monkeypatch.context() as patch:
            patch.setattr(gathers, "_MOST_JUMPS", 64)
            running.forget()
            with torch.pipeline() as pipe:
                made = program(x)
            assert "call" not in [step.kind for step in steps_of(pipe)]
        torch.testing.assert_close(made, expected)
        running.forget()


@pytest.mark.parametrize("few", [True, False], ids=["32 bits", "64 bits"])
def test_four_neighbours_of_a_gpu(few: bool, emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that four divides and others, of arrays that begin anywhere, are turned, or have one element for all."""
    if not few:
        monkeypatch.setattr(group_sources, "_FEW", 0)
    taken = emulated_groups.Emulated.written
    for n in (12, 13) if few else (12,):
        x, y, whole = torch.randn(5, n), torch.randn(5, n), torch.randn(5, n + 3)
        turned = torch.randn(n, 5).t()
        for other in (y, torch.randn(5 * n + 1)[1:].view(5, n), whole[:, 2 : 2 + n], turned, y[:1], y[:, :1]):
            expected = x.roll(1, -1) - other, other.expand(5, n).roll(2, 0) - x
            with torch.pipeline():
                made = x.roll(1, -1) - other, other.expand(5, n).roll(2, 0) - x
            assert all(torch.equal(one, two) for one, two in zip(expected, made, strict=True))
    assert any("put_four(" in one.text for one in taken) and any("put_four(" not in one.text for one in taken)


def test_wrong_indices_end_the_kernels_of_a_gpu(emulated: None) -> None:
    for name in ("embedding", "gather", "row"):
        test_an_index_out_of_range_is_told_with_its_line(name, None)


def test_explanations_show_the_group(interpreted: None) -> None:
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    with torch.pipeline() as pipe:
        made = x.roll(1, -1) + y
    text = str(pipe.explain())
    assert "roll add" in text and "pointwise" in text
    assert "load" in steps_of(pipe)[0].source() and made.shape == (4, 8)


GATHERING = {name: d for name, d in DECLARATIONS.items() if d.gathers is not None and d.samples is not None}


def first_of(made: Any) -> torch.Tensor:
    return made[0] if isinstance(made, tuple) else made


@pytest.mark.parametrize("name", GATHERING)
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int64"])
def test_samples_of_declared_maps(name: str, kind: str, interpreted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sample of an operator that says how it gathers gives the same where something reads its result."""
    monkeypatch.setattr(gathers, "_MOST_JUMPS", 64)  # as on a GPU
    operator, taken = function_of(GATHERING[name]), 0
    for call in good_calls(GATHERING[name]):
        args, kwargs = arguments(call, torch, bases(call, torch, kind))
        try:
            expected = first_of(operator(*args, **kwargs))
        except NotImplementedError:  # which is not for this type
            return
        with torch.pipeline() as pipe:
            made = first_of(operator(*args, **kwargs)).clone()
        taken += [step.kind for step in steps_of(pipe)] == ["pointwise"] if pipe.history else 0
        torch.testing.assert_close(made, expected)
    # Most samples of the nearest have steps of several lengths, and what is rounded in between is no map.
    rounded = {"int64": ("avg",), "bfloat16": ("adaptive_avg_pool3d", "linear1d", "trilinear", "bicubic"),
               "float32": ()}[kind]  # fmt: skip
    assert taken or any([part in name for part in ("nearest", *rounded)])
