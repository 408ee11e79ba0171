"""Products in plans with what follows them: one call of cuBLASLt, whose results are those of the calls one by one."""

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn import functional

TOLERANCE = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
ROWS, INNER, COLUMNS = 48, 64, 80


def operands(kind: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    shapes = {"x": (3, 16, INNER), "weight": (COLUMNS, INNER), "bias": (COLUMNS,), "residual": (3, 16, COLUMNS),
              "left": (ROWS, INNER), "right": (INNER, COLUMNS), "flat": (ROWS, COLUMNS)}  # fmt: skip
    return {name: torch.randn(shape).to("cuda", kind) for name, shape in shapes.items()}


FUSED: dict[str, Callable[..., Any]] = {
    "relu": lambda x, weight, bias, **_: functional.linear(x, weight, bias).relu(),
    "gelu": lambda x, weight, bias, **_: functional.gelu(functional.linear(x, weight, bias), approximate="tanh"),
    "residual": lambda x, weight, bias, residual, **_: residual + functional.linear(x, weight, bias),
    "residual without a bias": lambda x, weight, residual, **_: functional.linear(x, weight) + residual,
    "relu of a residual": lambda x, weight, bias, residual, **_: (functional.linear(x, weight, bias) + residual).relu(),
    "product of matrices": lambda left, right, **_: (left @ right).relu(),
    "a bias of its own": lambda left, right, bias, flat, **_: functional.gelu(
        left @ right + bias + flat, approximate="tanh"
    ),  # fmt: skip
    "transposed factors": lambda x, weight, flat, **_: x.flatten(0, 1) @ weight.t() + flat,
}
OF_HALVES = ("gelu", "a bias of its own")  # in float32 cuBLASLt's gelu has fewer digits, and takes no less time
OTHERS: dict[str, Callable[..., Any]] = {
    "exact gelu": lambda x, weight, bias, **_: functional.gelu(functional.linear(x, weight, bias)),
    "a sum after the function": lambda x, weight, bias, residual, **_: (
        functional.linear(x, weight, bias).relu() + residual
    ),
    "two residuals": lambda left, right, flat, **_: left @ right + flat + flat,
    "a factor": lambda left, right, flat, **_: left @ right * flat,
}


def steps(plan: Any) -> list[str]:
    return [step.kind for step in plan.steps if step.kind != "view"]


def check_near(made: Any, wanted: Any, kind: Any) -> None:
    assert made.shape == wanted.shape and made.stride() == wanted.stride() and made.dtype is wanted.dtype
    assert float((made - wanted).abs().max()) <= TOLERANCE[kind] * float(wanted.abs().max())


@pytest.mark.parametrize("kind", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", [*FUSED, *OTHERS])
def test_results_are_those_of_the_calls(name: str, kind: Any) -> None:
    given, program = operands(kind), (FUSED | OTHERS)[name]
    wanted = program(**given)
    with torch.pipeline() as pipe:
        made = program(**given)
    is_fused = name in FUSED and not (name in OF_HALVES and kind is torch.float32)
    assert (steps(pipe.history[-1][1]) == ["product"]) == is_fused
    check_near(made, wanted, kind)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("kind", TOLERANCE, ids=str)
def test_compiled_layers(mode: str, kind: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 96),
                                torch.nn.GELU("tanh"), torch.nn.Linear(96, 40)).to("cuda", kind)  # fmt: skip
    compiled = torch.compile(model, mode=mode)
    with torch.no_grad():
        for batch in (5, 5, 5, 32, 5):
            x = torch.randn(batch, 64).to("cuda", kind)
            check_near(compiled(x), model(x), kind)


@pytest.mark.parametrize("kind", TOLERANCE, ids=str)
def test_not_finite_numbers_stay(kind: Any) -> None:
    given = operands(kind)
    given["x"][0, 0, 0] = float("nan")
    for name in ("relu", "gelu", "residual"):
        wanted = FUSED[name](**given)
        with torch.pipeline():
            made = FUSED[name](**given)
        assert torch.equal(made.isnan(), wanted.isnan()) and made[0, 0].isnan().all()


@pytest.mark.parametrize("kind", TOLERANCE, ids=str)
@pytest.mark.parametrize("name, is_fused", [("relu", True), ("gelu", False)])
def test_what_gradients_need_is_there(name: str, is_fused: bool, kind: Any) -> None:
    """The result of relu is enough for its gradient; gelu's is computed from its input, which then is kept."""

    def run() -> list[Any]:
        given = {key: x.clone().requires_grad_() for key, x in operands(kind).items()}
        made = functional.linear(FUSED[name](**given), given["right"])
        used = [given[key] for key in ("x", "weight", "bias", "right")]
        return [made.detach(), *torch.autograd.grad(made, used, given["x"].detach())]

    wanted = run()
    with torch.pipeline() as pipe:
        made = run()
    plan = pipe.history[-1][1]
    calls = [[plan.entries[at].operator.name for at in step.entries] for step in plan.steps if step.kind == "product"]
    assert (["aten::linear", f"aten::{name}"] in calls) == is_fused
    for one, other in zip(made, wanted, strict=True):
        assert float((one - other).abs().max()) <= 4 * TOLERANCE[kind] * float(other.abs().max())


def test_operands_that_begin_anywhere() -> None:
    """cuBLASLt wants multiples of 16 bytes: else the calls run one by one."""
    given = operands(torch.float16)
    for name in ("x", "bias", "residual"):
        inside = torch.empty(given[name].numel() + 1, dtype=torch.float16, device="cuda")[1:]
        moved = {**given, name: inside.view(given[name].shape).copy_(given[name])}
        with torch.pipeline():
            made = FUSED["residual"](**moved)
        check_near(made, FUSED["residual"](**given), torch.float16)


def test_tf32_is_asked_for_at_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Any:
        with torch.pipeline():
            return FUSED["relu"](**given)

    given = operands(torch.float32)
    exact = run()
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    rounded = run()
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    assert torch.equal(run(), exact)
    assert not torch.equal(rounded, exact) and torch.allclose(rounded, exact, atol=0.1)
