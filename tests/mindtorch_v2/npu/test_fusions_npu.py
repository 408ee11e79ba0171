"""Steps of plans on the simulated NPU that are one ACLNN call for two: products with a sum, sums with their norm."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2._backends.npu.aclnn_rows import parse_row, schema_types
from mindtorch_v2._backends.npu.runtime import started
from mindtorch_v2._core.planning import forget_plans
from mindtorch_v2._ops._declare.op import DECLARATIONS

Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def nothing_planned() -> Iterator[None]:
    forget_plans()
    yield
    forget_plans()


def operands(kind: torch.dtype = torch.float32, rows: tuple[int, ...] = (2, 3)) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((*rows, 8), (*rows, 8), (8, 8), (8,), (8,))
    return [torch.randn(shape).to(kind) for shape in shapes]


def launched(function: Callable, given: list[Tensor], tolerance: float = 1e-5) -> list[str]:
    """The calls into ACLNN of a function's plan, whose results are those of the CPU at each of four runs."""
    expected, far = function(*given), [t.npu() for t in given]
    for _ in range(4):
        with torch.pipeline() as pipe:
            made = function(*far)
        for one, other in zip(made, expected, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=tolerance, atol=tolerance)
    return [name for step in pipe.history[-1][1].steps for name in step.launches]


def residual(x: Tensor, y: Tensor, w: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    total = x + y
    return F.layer_norm(total, (8,), g, b), total


def dropped(x: Tensor, y: Tensor, w: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (F.rms_norm(y + x, (8,), g, 1e-5),)


def twice(x: Tensor, y: Tensor, w: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (F.layer_norm(x + x, (8,), g, b),)


def projected(x: Tensor, y: Tensor, w: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (x + F.linear(y, w),)


def row_added(x: Tensor, y: Tensor, w: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return ((x[0] @ w) + g,)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function, wanted", [
    (residual, ["aclnnAddLayerNorm"]), (dropped, ["aclnnAddRmsNorm"]), (twice, ["aclnnAddLayerNorm"]),
    (projected, ["aclnnAddmm"]), (row_added, ["aclnnAddmm"])])  # fmt: skip
def test_two_calls_are_one(npu: Any, function: Callable, wanted: list[str], kind: torch.dtype) -> None:
    assert launched(function, operands(kind), 1e-5 if kind is torch.float32 else 5e-2) == wanted


def test_sizes_that_differ(npu: Any) -> None:
    for rows in ((2, 3), (4, 5), (3,)):
        assert launched(residual, operands(rows=rows)) == ["aclnnAddLayerNorm"]
        assert launched(projected, operands(rows=rows)) == ["aclnnAddmm"]


def test_a_block_with_gradients(npu: Any) -> None:
    def block(x: Tensor, y: Tensor, w: Tensor, g: Tensor, b: Tensor) -> Tensor:
        h = x + F.linear(y, w)
        return (F.layer_norm(h * h + y, (8,), g, b) * F.rms_norm(h + x, (8,), g, 1e-5)).sum()

    near = [t.requires_grad_() for t in operands()]
    far = [t.detach().npu().requires_grad_() for t in near]
    block(*near).backward()
    for _ in range(3):
        with torch.pipeline() as pipe:
            block(*far).backward()
        for one, other in zip(near, far, strict=True):
            torch.testing.assert_close(one.grad, other.grad.cpu(), rtol=1e-4, atol=1e-4)
            other.grad = None
    names = [name for step in pipe.history[-1][1].steps for name in step.launches]
    assert {"aclnnAddmm", "aclnnAddLayerNorm", "aclnnAddRmsNorm", "aclnnLayerNormBackward"} <= set(names)


APART: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "a factor": lambda x, y, w, g, b: (F.layer_norm(x.add(y, alpha=2), (8,), g, b),),
    "a broadcast sum": lambda x, y, w, g, b: (F.layer_norm(x + g, (8,), g, b),),
    "no weight": lambda x, y, w, g, b: (F.layer_norm(x + y, (8,)),),
    "two dimensions": lambda x, y, w, g, b: (F.layer_norm(x + y, (3, 8), x[0], y[0]),),
    "a view of the sum": lambda x, y, w, g, b: (F.layer_norm((x + y).view(6, 8), (8,), g, b),),
    "a difference": lambda x, y, w, g, b: (F.layer_norm(x - y, (8,), g, b),),
    "a bias and a sum": lambda x, y, w, g, b: (F.linear(y, w, b) + x,),
    "a number": lambda x, y, w, g, b: (F.linear(y, w) + 2,),
    "a product that is held": lambda x, y, w, g, b: (lambda p: (p, p + x))(F.linear(y, w)),
    "a sum that is the weight, too": lambda x, y, w, g, b: (F.layer_norm((t := w + w)[:, :], (8,), t[0], b),),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_more_than_that_stays_apart(npu: Any, name: str) -> None:
    names = launched(APART[name], operands())
    assert len(names) >= 2 and not any("AddLayerNorm" in n or "AddRmsNorm" in n for n in names)


def test_what_happens_between_a_sum_and_its_norm(npu: Any) -> None:
    """What reads the sum there needs it then; what is written there may be a summand."""
    def reading(x: Tensor, y: Tensor, w: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        total = x + y
        other = total.exp()
        return F.layer_norm(total, (8,), g, b), other

    def writing(x: Tensor, y: Tensor, w: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        x, total = x.clone(), x + y
        x.zero_()
        return F.layer_norm(total, (8,), g, b), x

    for function in (reading, writing):
        assert "aclnnAddLayerNorm" not in launched(function, operands())


@pytest.mark.parametrize("chip, sums, products", [("950", 1, 1), ("310P", 2, 2), ("910A", 2, 2)])
def test_chips(on_chip: Any, chip: str, sums: int, products: int) -> None:
    """A 310P and a 910A add in full what they multiply in halves."""
    with on_chip(chip):
        assert len(launched(residual, operands(), 2e-2)) == sums
        assert len(launched(projected, operands(), 5e-2)) == products
        forget_plans()


def test_an_older_cann_has_none(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = started(0).libraries
    found = type(libraries).operator_symbol
    monkeypatch.setattr(type(libraries), "operator_symbol",
                        lambda self, name: None if "AddLayerNorm" in name else found(self, name))
    assert launched(residual, operands()) == ["aclnnAdd", "aclnnLayerNorm"]


@pytest.mark.parametrize("turn", [0, 2])
@pytest.mark.parametrize("name", ["aclnnAddLayerNorm", "aclnnAddLayerNormGetWorkspaceSize"])
def test_failures_name_the_call(npu: Any, name: str, turn: int) -> None:
    given = operands()
    far, failed = [t.npu() for t in given], 0
    for at in range(4):
        if at == turn:
            npu.fail(name, 507899)
        try:
            with torch.pipeline():
                made = residual(*far)
        except RuntimeError as error:
            assert "aten::add, recorded at" in str(error) and name in str(error)
            failed += 1
            continue
        torch.testing.assert_close([t.cpu() for t in made], list(residual(*given)), rtol=1e-5, atol=1e-5)
    assert failed == (0 if name.endswith("Size") and turn else 1)  # there is an executor from the first run on


def test_rows_agree_with_the_signatures() -> None:
    found = 0
    for declaration in DECLARATIONS.values():
        for text in (declaration.of_sums or {}).values():
            arguments, results = schema_types(declaration.operator.schema)
            parse_row(text, arguments | results | {"addend": "Tensor", "sum": "Tensor"})
            found += 1
    assert found >= 2
