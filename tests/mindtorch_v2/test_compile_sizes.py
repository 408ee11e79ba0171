"""Graphs for tensors of several sizes, as backends of `torch.compile` see them."""

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._dynamo.testing import CompileCounter

F = torch.nn.functional


def joined(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x * 2, x.exp()], 0).sum(0)


def divided(x: torch.Tensor) -> torch.Tensor:
    return (x + 1) / x.shape[0]


def flattened(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).reshape(x.shape[0] * 2, -1).relu()


def branching(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x - 1


def by_size(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (1, 1)) * 2 if x.shape[0] > 4 else x * 3


def spread(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).expand(2, *x.shape).sum(0)


def multiplied(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.t()).softmax(-1)


def cut(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y[:-1] + y[1:]


def halved(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y[: x.shape[0] // 2].relu()


def normalised(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x.sin(), (8,)) * x.shape[1]


# How many graphs calls with 3, 5, 6 and 7 rows are, as in PyTorch 2.13: as sizes come, and with `dynamic=True`.
# For the latter numbers that are computed with are taken for numbers, where PyTorch has symbols.
PROGRAMS: dict[str, tuple[Callable, int, int]] = {
    "sin": (lambda x: torch.sin(x) + 1, 2, 1), "joined": (joined, 2, 1), "divided": (divided, 2, 2),
    "flattened": (flattened, 2, 2), "branching": (branching, 5, 3), "by_size": (by_size, 2, 2),
    "spread": (spread, 2, 1), "multiplied": (multiplied, 2, 1), "cut": (cut, 2, 1), "halved": (halved, 2, 2),
    "normalised": (normalised, 2, 1),
}  # fmt: skip


def backend_with(seen: list) -> Callable:
    def backend(gm: Any, inputs: list) -> Callable:
        names = [node for node in gm.graph.nodes if node.op == "placeholder"]
        assert len(names) == len(inputs)
        seen.append((gm, inputs))
        return gm.forward

    return backend


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_graphs_and_values(name: str, dynamic: bool | None) -> None:
    program, as_they_come, at_once = PROGRAMS[name]
    seen: list = []
    compiled = torch.compile(program, backend=backend_with(seen), dynamic=dynamic)
    for rows in (3, 5, 6, 7, 5, 3):
        x = torch.randn(rows, 8).abs() * (-1 if rows == 6 else 1)
        torch.testing.assert_close(compiled(x), program(x))
    assert len(seen) == {None: as_they_come, True: at_once, False: 8 if name == "branching" else 4}[dynamic]
    assert any(isinstance(one, torch.SymInt) for _, inputs in seen for one in inputs) == (dynamic is not False)


def test_what_a_backend_sees() -> None:
    seen: list = []
    compiled = torch.compile(joined, backend=backend_with(seen))
    compiled(torch.randn(3, 8))
    compiled(torch.randn(5, 8))
    gm, (size, x) = seen[1]
    assert isinstance(size, torch.SymInt) and (size, str(size)) == (5, "s0") and x.shape == (5, 8)
    symbol, tensor = [node for node in gm.graph.nodes if node.op == "placeholder"]
    assert symbol.meta["val"] == 5 and tensor.meta["tensor_meta"].shape == (5, 8)
    assert copy.deepcopy(size) == size and str(copy.deepcopy(size)) == "s0"
    assert not isinstance(5, torch.SymInt)
    x = torch.randn(9, 8)
    torch.testing.assert_close(gm(9, x)[0], joined(x))


def test_numbers_that_follow_from_sizes_are_computed() -> None:
    seen: list = []
    compiled = torch.compile(flattened, backend=backend_with(seen))
    for rows in (3, 5):
        compiled(torch.randn(rows, 8))
    computed = [node for node in seen[1][0].graph.nodes if node.target is operator.mul]
    assert [node.args[1] for node in computed] == [2]


def test_a_number_that_only_looked_like_a_size() -> None:
    """What was taken for a size in one recording, or in two, is found wrong by the next, which has its own graph."""

    def program(x: torch.Tensor, rows: int) -> torch.Tensor:
        return (x * 2).expand(rows, *x.shape).sum(0)

    counter = CompileCounter()
    compiled = torch.compile(program, backend=counter, dynamic=True)
    for rows, size in ((3, 3), (3, 5), (4, 5), (4, 6), (5, 9)):
        x = torch.randn(size, 8)
        torch.testing.assert_close(compiled(x, rows), program(x, rows))
    assert counter.frame_count >= 2
    before = counter.frame_count
    torch.testing.assert_close(compiled(x, 5), program(x, 5))
    assert counter.frame_count == before


@pytest.mark.parametrize("program", [lambda x: x * x.sum().item(), lambda x: x * int(x.sum()),
                                     lambda x: x * float(x.sum())], ids=["item", "int", "float"])  # fmt: skip
def test_reading_a_number_ends_a_graph_and_says_why(program: Callable) -> None:
    told = torch._dynamo.explain(program)(torch.ones(2, 2))
    assert (told.graph_count, told.graph_break_count) == (2, 1)
    (reason,) = told.break_reasons
    assert reason.reason.startswith("Unsupported Tensor.item() call with capture_scalar_outputs=False\n  Explanation:")
    assert torch.compile(program, backend="eager", fullgraph=True)(torch.ones(2, 2)).tolist() == [[4.0] * 2] * 2


def test_marked_dimensions() -> None:
    seen: list = []
    compiled = torch.compile(lambda x: x.sin() * 2, backend=backend_with(seen))
    for rows in (3, 4, 5):
        x = torch.randn(rows, 8)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x), x.sin() * 2)
    assert len(seen) == 1 and [type(one) for one in seen[0][1]] == [torch.SymInt, torch.Tensor]


def test_sizes_of_one_and_none_have_graphs_of_their_own() -> None:
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x.sin() * 2, backend=counter, dynamic=True)
    for rows in (4, 5, 1, 6, 1):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x), x.sin() * 2)
    assert counter.frame_count == 2


def test_gradients_of_several_sizes() -> None:
    counter = CompileCounter()
    weight = torch.randn(8, 4, requires_grad=True)
    compiled = torch.compile(lambda x: ((x @ weight).tanh() ** 2).mean(), backend=counter)
    for rows in (3, 5, 6):
        x = torch.randn(rows, 8)
        (made,) = torch.autograd.grad(compiled(x), weight)
        (expected,) = torch.autograd.grad(((x @ weight).tanh() ** 2).mean(), weight)
        torch.testing.assert_close(made, expected)
    assert counter.frame_count == 2


def test_without_automatic_sizes() -> None:
    counter = CompileCounter()
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        compiled = torch.compile(lambda x: x.sin() * 2, backend=counter)
        for rows in (3, 4, 5):
            compiled(torch.randn(rows, 8))
    assert counter.frame_count == 3


def test_channels_last_is_another_graph() -> None:
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x.sin() * 2, backend=counter)
    for rows in (2, 3, 4):
        x = torch.randn(rows, 3, 4, 5)
        torch.testing.assert_close(compiled(x), x.sin() * 2)
        last = x.to(memory_format=torch.channels_last)
        assert compiled(last).is_contiguous(memory_format=torch.channels_last)
    assert counter.frame_count == 4
