"""Products of half-precision matrices whose rows are not multiples of 16 bytes: the padded ones are the plain ones."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cuda.runtime import why_unavailable

if why_unavailable() is not None:  # here already, since what follows imports CuPy
    pytest.skip(f"no CUDA device ({why_unavailable()})", allow_module_level=True)

import numpy as np  # noqa: E402

from mindtorch_v2._backends.cuda import cublas  # noqa: E402
from mindtorch_v2._backends.cuda.kernels import matmul, padded  # noqa: E402

KINDS = [torch.float16, torch.bfloat16]
SIZES = [
    (5, 7, 9),
    (8, 16, 17),
    (16, 17, 8),
    (17, 8, 16),
    (1, 3, 5),
    (33, 65, 129),
    (24, 50, 16),
    (3, 130, 2057),
    (9, 24, 77),
]
HALF = np.dtype(np.float16)


@pytest.fixture(autouse=True)
def padded_products(monkeypatch: pytest.MonkeyPatch) -> Iterator[list]:
    """Lets all paddings pay, and lists those that were made; plans of earlier calls are forgotten."""
    made: list[Any] = []

    def recording(*geometry: Any) -> Any:
        made.append(padded.padding_for(*geometry))
        return made[-1]

    monkeypatch.setattr(padded, "_SLOW", dict.fromkeys((1, 2, 4), 1.0))
    monkeypatch.setattr(matmul, "padding_for", recording)
    monkeypatch.setattr(matmul, "_plans", {})
    yield made
    matmul._plans.clear()


def whole(*shape: int) -> torch.Tensor:
    """Small whole numbers, whose products are exact in any type."""
    return torch.randint(-1, 2, shape).float()


def laid(x: torch.Tensor, kind: torch.dtype, how: str) -> torch.Tensor:
    """On the device, and lying there as `how` says."""
    x = x.to("cuda", kind)
    if how == "transposed":
        return x.mT.contiguous().mT
    if how == "inside":  # rows that begin at odd places of wider ones
        wide = torch.zeros((*x.shape[:-1], x.shape[-1] + 3), dtype=kind, device="cuda")
        wide[..., 1 : x.shape[-1] + 1] = x
        return wide[..., 1 : x.shape[-1] + 1]
    if how == "apart":
        return x.repeat_interleave(2, -1)[..., ::2]
    return x


def same(made: torch.Tensor, expected: torch.Tensor) -> None:
    assert made.is_contiguous() and made.shape == expected.shape
    assert torch.equal(made.cpu().float(), expected)


WAYS = ["plain", "transposed", "inside", "apart"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("b_lies", WAYS)
@pytest.mark.parametrize("a_lies", WAYS)
def test_matrices_that_lie_in_many_ways(a_lies: str, b_lies: str, kind: torch.dtype, padded_products: list) -> None:
    for rows, inner, columns in SIZES:
        a, b = whole(rows, inner), whole(inner, columns)
        same(torch.mm(laid(a, kind, a_lies), laid(b, kind, b_lies)), a @ b)
        many_a, many_b = whole(3, rows, inner), whole(3, inner, columns)
        same(torch.bmm(laid(many_a, kind, a_lies), laid(many_b, kind, b_lies)), many_a @ many_b)
        same(torch.matmul(laid(a, kind, a_lies).expand(3, -1, -1), laid(many_b, kind, b_lies)), a @ many_b)
    assert sum(each is not None for each in padded_products) > len(SIZES)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_linear_and_its_gradients(size: tuple[int, int, int], kind: torch.dtype) -> None:
    rows, inner, columns = size
    for bias in (None, whole(columns), whole(columns * 2)[::2], whole(1)):
        given = [whole(2, rows, inner), whole(columns, inner), bias]
        there = [None if x is None else x.to("cuda", kind).requires_grad_() for x in given]
        here = [None if x is None else x.clone().requires_grad_() for x in given]
        grad = whole(2, rows, columns)
        made, expected = torch.nn.functional.linear(*there), torch.nn.functional.linear(*here)
        same(made.detach(), expected.detach())
        made.backward(grad.to("cuda", kind))
        expected.backward(grad)
        for mine, theirs in zip(there, here, strict=True):
            if mine is not None and (theirs.grad.abs().max() < 256):
                same(mine.grad, theirs.grad)


@pytest.mark.parametrize("beta", [0, 1, 2])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sums_with_products(size: tuple[int, int, int], beta: int) -> None:
    rows, inner, columns = size
    for shape in ((rows, columns), (columns,), (rows, 1)):
        added, a, b = whole(*shape), whole(rows, inner), whole(inner, columns)
        there = [x.to("cuda", torch.float16) for x in (added, a, b)]
        same(torch.addmm(*there, beta=beta, alpha=3), beta * added + 3 * (a @ b))
    added, a, b = whole(3, rows, columns), whole(3, rows, inner), whole(3, inner, columns)
    there = [x.to("cuda", torch.float16) for x in (added, a, b)]
    same(torch.baddbmm(*there, beta=beta), beta * added + a @ b)


def test_nothing_beyond_a_factor_is_multiplied() -> None:
    """What lies behind the rows may be anything, infinities too."""
    wide = torch.full((9, 24), float("inf"), dtype=torch.bfloat16, device="cuda")
    wide[:, :17] = 1
    for inner in (17, 13):
        made = torch.mm(wide[:, :inner], torch.ones(inner, 11, dtype=torch.bfloat16, device="cuda"))
        same(made, torch.full((9, 11), float(inner)))


def test_copies_that_find_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product is computed without them."""

    def full(*args: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    a, b, added = whole(33, 65), whole(65, 129), whole(33, 129)
    monkeypatch.setattr(padded.Move, "copied", full)
    same(torch.addmm(*(x.to("cuda", torch.float16) for x in (added, a, b))), added + a @ b)


def test_a_captured_product() -> None:
    a, b = whole(33, 65), whole(65, 129)
    x, y = a.to("cuda", torch.float16), b.to("cuda", torch.float16)
    torch.mm(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = torch.mm(x, y)
    x.copy_(-x)
    graph.replay()
    torch.cuda.synchronize()
    same(made, -a @ b)


GPT_2 = {
    "scores": (8192, 768, 50257, (0, 768), (1, 768), None),
    "input": (8192, 50257, 768, (0, 50257), (0, 768), None),
    "weight": (50257, 8192, 768, (1, 50257), (0, 768), None),
}
FEW_ROWS = {"few rows": (128, 768, 50257, (0, 768), (1, 768), None)}
NOT_PADDED = {
    "aligned": (4096, 4096, 4096, (0, 4096), (0, 4096), None),
    "small": (63, 63, 63, (0, 63), (0, 63), None),
    "thin": (1, 4097, 4097, (0, 4097), (0, 4097), None),
}


@pytest.mark.parametrize("name", [*GPT_2, *FEW_ROWS, *NOT_PADDED])
def test_which_products_are_padded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    geometry = {**GPT_2, **FEW_ROWS, **NOT_PADDED}[name]
    made = padded.padding_for(HALF, *geometry)
    assert (made is None) == (name in NOT_PADDED)
    if name in ("scores", "few rows"):  # of the weight only its last rows are copied
        assert [piece.factor.is_needed for piece in made.pieces] == [False, True]
        assert [piece.columns for piece in made.pieces] == [50256, 8]
    assert padded.padding_for(np.dtype(np.float32), *geometry) is None


def test_a_product_keeps_its_factors_when_calls_bring_many_others() -> None:
    product = cublas.Product(HALF, 2, 2, 2, (0, 2), (0, 2))
    for n in range(600):
        cublas.factor(n + 0.5, HALF)
    assert [ctypes.c_float.from_address(place).value for place in (product.one, product.zero)] == [1, 0]
