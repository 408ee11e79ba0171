"""Kernels of rows as a GPU has them: with the work before and after, in all types, for rows of any length."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.mindtorch_v2 import emulated_groups
from tests.mindtorch_v2.emulated_groups import Emulated

import mindtorch_v2 as torch
from mindtorch_v2._backends.cuda import group_sources
from mindtorch_v2._backends.cuda.row_groups import LONGEST, dealt
from mindtorch_v2._pipeline import run as running

F = torch.nn.functional
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def residual(x: Any, y: Any, w: Any, b: Any) -> tuple:
    z = x + y
    return z, *torch.native_layer_norm(z, x.shape[-1:], w, b, 1e-5)


def by_hand(x: Any, y: Any, w: Any, b: Any) -> tuple:
    mean = x.mean(-1, keepdim=True)
    apart = x - mean
    return apart * ((apart * apart).mean(-1, keepdim=True) + 1e-5).rsqrt() * w + b, mean


PROGRAMS: dict[str, Callable] = {
    "residual": residual, "by hand": by_hand,
    "softmax": lambda x, y, w, b: ((x * 0.3 + y).softmax(-1) * 3,),
    "log_softmax": lambda x, y, w, b: ((x[:, 1:] * y[:, :-1]).log_softmax(-1) - w,),
    "two norms": lambda x, y, w, b: (F.layer_norm(F.rms_norm(x + y, x.shape[-1:], w).tanh() + x, x.shape[-1:], w),),
    "turned": lambda x, y, w, b: (F.layer_norm(x.transpose(0, 1) + y[:1].transpose(0, 1), x.shape[-1:], w, b).relu(),),
    "largest": lambda x, y, w, b: ((x - x.amax(-1, keepdim=True)).exp() * y[..., :1], (x * y).sum(-1)),
    "planes": lambda x, y, w, b: (F.layer_norm(x - y, x.shape[-2:]) * 2,),
}  # fmt: skip


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    emulated_groups.install(monkeypatch, tmp_path_factory.getbasetemp())
    running.forget()
    yield
    running.forget()


def compared(program: Callable, given: list[Any], kind: Any) -> None:
    expected, before = program(*given), Emulated.launches
    with torch.pipeline() as pipe:
        made = program(*given)
    steps = [step.kind for step in pipe.history[-1][1].steps if step.kind != "view"]
    assert steps == ["row"] and Emulated.launches == before + 1
    for one, other in zip(expected, made, strict=True):
        assert one.shape == other.shape and one.dtype is other.dtype
        assert float((one.double() - other.double()).abs().max()) <= TOLERANCE[kind] * float(one.double().abs().max())


def operands(width: int, kind: Any) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(shape).to(kind) for shape in ((2, 3, width), (2, 3, width), (width,), (width,))]


@pytest.mark.parametrize(("name", "kind"), [
    *((name, kind) for name in PROGRAMS for kind in (torch.float32, torch.bfloat16)),
    ("residual", torch.float16), ("softmax", torch.float64),
], ids=str)  # fmt: skip
def test_programs_of_rows(emulated: None, name: str, kind: Any) -> None:
    compared(PROGRAMS[name], operands(40, kind), kind)


class Layers(torch.nn.Module):
    """Residual layers with norms."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width), torch.nn.RMSNorm(width), torch.nn.LayerNorm(
            width, elementwise_affine=False)])  # fmt: skip
        self.linears = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in self.norms])

    def forward(self, x: Any) -> Any:
        for norm, linear in zip(self.norms, self.linears, strict=True):
            x = x + linear(norm(x))
        return x

    def gradients(self, x: Any) -> list[Any]:
        leaf = x.detach().requires_grad_()
        made = self(leaf * 1.5)
        return [made.detach(), *torch.autograd.grad(made.float().square().mean(), [leaf, *self.parameters()])]


def test_gradients_of_norms_are_added_to_the_residual_in_their_kernel(emulated: None) -> None:
    model, x = Layers(24), torch.randn(2, 5, 24)
    expected = model.gradients(x)
    with torch.pipeline() as pipe:
        made = model.gradients(x)
    plan = pipe.history[-1][1]
    names = [[plan.entries[at].operator.name for at in step.entries] for step in plan.steps if step.kind == "row"]
    assert sum("backward" in one[0] and one[1] == "aten::add_" for one in names) == 3
    assert sum(any("_norm" in name for name in one) for one in names) == 6
    for one, other in zip(expected, made, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("width", [3, 33, 768, 1000, 5001])
def test_rows_of_any_length(emulated: None, monkeypatch: pytest.MonkeyPatch, width: int, many: bool) -> None:
    def dealt_as_many(rows: int, width: int, narrowest: int) -> Any:
        made = dealt(1 << 20, width, narrowest)
        return None if made is None else made._replace(grid=-(-rows // made.block[1]))

    if many:
        monkeypatch.setattr(group_sources, "dealt", dealt_as_many)
    compared(residual, operands(width, torch.bfloat16), torch.bfloat16)


def test_arrays_that_begin_anywhere(emulated: None) -> None:
    x, y, w, b = operands(64, torch.float32)
    whole = torch.randn(6 * 64 + 1)
    compared(residual, [whole[1:].view(2, 3, 64), y, w, b], torch.float32)


def test_threads_have_each_element_once() -> None:
    for width in (*range(1, 200), 768, 1000, 1023, 4099, 8190, LONGEST):
        for rows in (1, 128, 5000):
            for size in (1, 2, 4, 8):
                made = dealt(rows, width, size)
                assert made is not None and width % made.v == 0
                across = made.lanes * made.warps
                assert made.v * made.items * across >= width > made.v * (made.items - 1) * across
                assert made.full == (made.v * made.items * across == width)
                assert made.block[0] == across and across * made.block[1] <= 1024
                assert made.grid * made.block[1] >= rows > (made.grid - 1) * made.block[1]
                assert made.v * made.items <= 32
    assert dealt(1, LONGEST + 1, 4) is None
