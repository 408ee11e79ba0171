"""Attention over several tiles, with every kind of mask, width and type, against float64 on the CPU."""

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn import functional

TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def lengths(kind: Any) -> Any:
    return (torch.arange(75) < torch.tensor([[75], [7]]))[:, None, None, :]


def some_rows(kind: Any) -> Any:
    """Hides all keys from the first queries."""
    return (torch.arange(140) > 3)[:, None] & (torch.arange(75) < 70)


def lowest_rows(kind: Any) -> Any:
    """The same by numbers that leave nothing of the scores, so that all keys weigh alike."""
    return torch.where(torch.arange(140)[:, None] > 3, torch.randn(140, 75), torch.finfo(kind).min).to(kind)


CASES: dict[str, tuple[tuple, tuple, tuple, Callable | None, dict]] = {
    "plain": ((2, 2, 140, 16), (2, 2, 75, 16), (2, 2, 75, 16), None, {}),
    "causal": ((2, 2, 140, 16), (2, 2, 75, 16), (2, 2, 75, 16), None, {"is_causal": True}),
    "other value width": ((2, 140, 64), (2, 75, 64), (2, 75, 96), None, {"scale": 0.3}),
    "unaligned": ((2, 1, 33, 21), (2, 1, 75, 21), (2, 1, 75, 9), None, {}),
    "wide": ((1, 1, 40, 256), (1, 1, 70, 256), (1, 1, 70, 144), None, {"is_causal": True}),
    "two dimensions": ((140, 16), (75, 16), (75, 16), None, {}),
    "five dimensions": ((2, 2, 2, 20, 16), (2, 2, 2, 75, 16), (2, 2, 2, 75, 16),
                        lambda kind: torch.randn(2, 1, 2, 1, 75) > 0, {}),
    "padding": ((2, 2, 140, 16), (2, 2, 75, 16), (2, 2, 75, 16), lengths, {}),
    "hidden rows": ((2, 2, 140, 16), (2, 2, 75, 16), (2, 2, 75, 16), some_rows, {}),
    "lowest rows": ((2, 2, 140, 16), (2, 2, 75, 16), (2, 2, 75, 16), lowest_rows, {}),
    "bias": ((2, 2, 140, 16), (2, 2, 75, 16), (2, 2, 75, 16),
             lambda kind: torch.randn(1, 2, 75, 140).to(kind).transpose(-1, -2), {}),
    "float32 bias of rows": ((2, 2, 140, 16), (2, 2, 75, 16), (2, 2, 75, 16), lambda kind: torch.randn(140, 1), {}),
    "many heads": ((70, 4, 70, 16), (70, 4, 75, 16), (70, 4, 75, 16), None, {"is_causal": True}),
    "one query": ((3, 2, 1, 64), (3, 2, 300, 64), (3, 2, 300, 64), None, {}),
    "few queries": ((1, 2, 20, 64), (1, 2, 700, 64), (1, 2, 700, 48), lambda kind: torch.randn(20, 700) > 0, {}),
    "few tiles": ((1, 6, 130, 64), (1, 6, 150, 64), (1, 6, 150, 64), None, {"is_causal": True}),
    "some tiles": ((2, 12, 400, 32), (2, 12, 400, 32), (2, 12, 400, 32), None, {"is_causal": True}),
    "wide and few": ((1, 1, 9, 256), (1, 1, 140, 256), (1, 1, 140, 256), None, {}),
    "shared keys": ((2, 4, 40, 16), (2, 2, 75, 16), (2, 2, 75, 16), None, {"enable_gqa": True, "is_causal": True}),
}


# What is cuDNN's from some size on, here for all sizes.
LARGE: dict[str, tuple[tuple, tuple, dict]] = {
    "plain": ((2, 3, 256, 64), (2, 3, 256, 64), {}),
    "causal": ((2, 3, 384, 64), (2, 3, 384, 64), {"is_causal": True}),
    "fewer keys": ((2, 2, 200, 32), (2, 2, 136, 32), {"is_causal": True}),
    "more keys": ((2, 2, 130, 128), (2, 2, 275, 128), {"scale": 0.3}),
    "one head": ((1, 1, 128, 64), (1, 1, 128, 64), {"is_causal": True}),
    "three dimensions": ((4, 160, 40), (4, 160, 40), {}),
    "shared keys": ((2, 6, 256, 64), (2, 2, 256, 64), {"enable_gqa": True, "is_causal": True}),
}


def outputs(inputs: list[Any], mask: Any, grad: Any, options: dict) -> list[Any]:
    """The result and the gradients."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    made = functional.scaled_dot_product_attention(*leaves, mask, **options)
    return [made.detach(), *torch.autograd.grad(made, leaves, grad)]


@pytest.mark.parametrize("kind", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_attention_agrees_with_the_cpu(name: str, kind: Any) -> None:
    *shapes, mask_of, options = CASES[name]
    torch.manual_seed(0)
    inputs = [torch.randn(shape).to(kind) for shape in shapes]
    grad = torch.randn(*shapes[0][:-1], shapes[2][-1]).to(kind)
    mask = None if mask_of is None else mask_of(kind)
    wide = torch.float32 if name == "lowest rows" and kind is not torch.float64 else torch.float64
    number_mask = mask is not None and mask.dtype is not torch.bool
    wanted = outputs([x.to(wide) for x in inputs], mask.to(wide) if number_mask else mask, grad.to(wide), options)
    got = outputs([x.cuda() for x in inputs], None if mask is None else mask.cuda(), grad.cuda(), options)
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype is kind
        assert float((a.cpu().to(wide) - b).abs().max()) <= TOLERANCE[kind] * float(b.abs().max())


@pytest.mark.parametrize("kind", TOLERANCE, ids=str)
@pytest.mark.parametrize("tokens", [1, 75, 140])
def test_results_lie_as_queries_do(kind: Any, tokens: int) -> None:
    """Queries, keys and values of one array, as layers have them: heads of a token are together afterwards."""
    torch.manual_seed(0)
    together = torch.randn(2, tokens, 3, 4, 16).to(kind)
    grad = torch.randn(2, tokens, 64).to(kind)
    results = []
    for array in (together.double(), together.cuda()):
        leaf = array.detach().requires_grad_()
        made = functional.scaled_dot_product_attention(*leaf.permute(2, 0, 3, 1, 4).unbind(0), is_causal=True)
        assert made.stride() == (tokens * 64, 16, 64, 1)
        rows = made.transpose(1, 2).reshape(2, tokens, 64)
        assert rows.data_ptr() == made.data_ptr()
        rows.backward(grad.to(array))
        results.append((rows.detach().cpu().double(), leaf.grad.cpu().double()))
    for one, other in zip(*results, strict=True):
        assert float((one - other).abs().max()) <= TOLERANCE[kind] * float(one.abs().max())


@pytest.fixture
def planned_attention(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets cuDNN have calls of all sizes, and lists those that it computes."""
    from mindtorch_v2._backends.cuda import cudnn_attention
    from mindtorch_v2._backends.cuda.kernels import attention

    made: list[str] = []

    def recording(name: str) -> Callable:
        plan_of = getattr(cudnn_attention, name)

        def found(*args: Any) -> Any:
            plan = plan_of(*args)
            made.extend([name] * (plan is not None))
            return plan

        return found

    monkeypatch.setattr(attention, "_LEAST_OF_CUDNN", 0)
    for name in ("forward", "backward"):
        monkeypatch.setattr(cudnn_attention, name, recording(name))
    return made


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LARGE)
def test_attention_by_cudnn(name: str, kind: Any, planned_attention: list[str]) -> None:
    (*batch, queries, width), keys, options = LARGE[name]
    if (torch.backends.cudnn.version() or 0) < 91002 or torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("needs a newer cuDNN, and a GPU that it has quick kernels for")
    planned = ["forward", "backward"]
    if keys[-2] % 128 and torch.backends.cudnn.version() < 91501:
        planned.pop()  # our kernels take what it made
    torch.manual_seed(0)
    inputs = [torch.randn(shape).to(kind) for shape in ((*batch, queries, width), keys, keys)]
    grad = torch.randn(*batch, queries, width).to(kind)
    wanted = outputs([x.double() for x in inputs], None, grad.double(), options)
    got = outputs([x.cuda() for x in inputs], None, grad.cuda(), options)
    assert planned_attention == planned
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        own = outputs([x.cuda() for x in inputs], None, grad.cuda(), options)
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)
    assert planned_attention == planned
    for a, b, c in zip(got, wanted, own, strict=True):
        assert a.dtype is kind and a.stride() == c.stride()
        for made in (a, c):
            assert float((made.cpu().double() - b).abs().max()) <= TOLERANCE[kind] * float(b.abs().max())


def test_gradients_of_what_cudnn_computed(planned_attention: list[str]) -> None:
    """By our kernels, in steps that always add up alike, and for queries and gradients that lie otherwise."""
    torch.manual_seed(0)
    together = torch.randn(2, 192, 3, 4, 32).to("cuda", torch.bfloat16)
    grad = torch.randn(2, 4, 192, 32).to("cuda", torch.bfloat16)

    def gradients(grad: torch.Tensor, by_cudnn: bool = True, deterministic: bool = False) -> torch.Tensor:
        leaf = together.detach().requires_grad_()
        made = functional.scaled_dot_product_attention(*leaf.permute(2, 0, 3, 1, 4).unbind(0), is_causal=True)
        torch.backends.cuda.enable_cudnn_sdp(by_cudnn)
        torch.use_deterministic_algorithms(deterministic)
        try:
            made.backward(grad)
        finally:
            torch.backends.cuda.enable_cudnn_sdp(True)
            torch.use_deterministic_algorithms(False)
        return leaf.grad.float()

    as_tokens, same = grad.transpose(1, 2).contiguous().transpose(1, 2), grad[..., :1].expand(-1, -1, -1, 32)
    for given in (grad, as_tokens, same):
        wanted = gradients(given, deterministic=True)
        for made in (gradients(given), gradients(given, by_cudnn=False)):
            assert float((made - wanted).abs().max()) <= 2e-2 * float(wanted.abs().max())


def test_a_captured_graph_of_attention(planned_attention: list[str]) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 2, 4, 256, 64).to("cuda", torch.bfloat16)
    functional.scaled_dot_product_attention(*x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = functional.scaled_dot_product_attention(*x)
    x.copy_(torch.randn(x.shape).to(x))
    graph.replay()
    assert float((made - functional.scaled_dot_product_attention(*x)).abs().max()) <= 1e-2
