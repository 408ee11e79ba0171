"""torch._foreach_* on simulated chips: few launches, with the numbers of single operators."""

from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.npu.kernels.foreach import _SYMBOLS

COUNT = 30
SHAPES = [(i % 3 + 1, 2) for i in range(COUNT)]


def lists(device: str, kind: torch.dtype = torch.float32) -> list[list[torch.Tensor]]:
    """Three lists of numbers between 0.1 and 0.9."""
    made = torch.rand(3, COUNT, 3, 2, generator=torch.Generator().manual_seed(1)) * 0.8 + 0.1
    return [[each[i, : shape[0]].to(device, kind) for i, shape in enumerate(SHAPES)] for each in made]


def arguments(name: str, given: list[list[torch.Tensor]]) -> tuple[Any, ...]:
    operator, _, overload = name.partition(".")
    if operator in ("addcmul", "addcdiv"):
        return *given, 0.5
    if operator == "lerp":
        return (*given[:2], 0.25) if overload == "Scalar" else tuple(given)
    if operator == "norm":
        return given[0], 2
    if overload == "List" or operator == "copy":
        return tuple(given[:2])
    return (given[0], 1.5) if overload == "Scalar" else (given[0],)


def launches(machine: Any) -> dict[str, int]:
    return {n: c for n, c in machine.calls.items() if n.startswith("aclnn") and not n.endswith("GetWorkspaceSize")}


@pytest.mark.parametrize("chip, kind", [("A2", torch.float32), ("A3", torch.float16), ("950", torch.bfloat16)])
def test_operators_on_lists(on_chip: Any, chip: str, kind: torch.dtype) -> None:
    with on_chip(chip) as machine:
        on_device = lists("npu", kind)
        for name, symbol in _SYMBOLS.items():
            for form in ("", "_"):
                function = getattr(torch, f"_foreach_{name.partition('.')[0]}{form}", None)
                if function is None or name == "norm.Scalar" and form:
                    continue
                wanted = arguments(name, lists("cpu", kind))
                given = arguments(name, on_device)
                if form:
                    given = [t.clone() for t in given[0]], *given[1:]
                versions = [t._version for t in given[0]]
                machine.calls.clear()
                got, wanted = function(*given), function(*wanted)
                if chip != "A3" or name != "copy":
                    used = launches(machine)
                    assert list(used) == [f"aclnnForeach{symbol}"] and used[f"aclnnForeach{symbol}"] <= 3
                apart = 1e-5 if kind.itemsize == 4 else 2e-2
                flat = [torch.cat([t.reshape(-1) for t in made]).cpu() for made in (got, wanted)]
                torch.testing.assert_close(*flat, rtol=apart, atol=apart)
                if form:
                    assert got is given[0] and [t._version for t in given[0]] == [v + 1 for v in versions]


def test_what_goes_one_by_one(npu: Any) -> None:
    """Broadcast, mixed or integer types, strided, recorded, twice the same, numbers in lists, another norm."""
    first, second, _ = lists("npu")
    like = [t.cpu() for t in first]

    def check(got: Any, wanted: Any) -> None:
        torch.testing.assert_close([t.cpu() for t in got], list(wanted))
        assert not any("Foreach" in name for name in launches(npu))

    check(torch._foreach_mul(first, [second[0][:1]] * COUNT), torch._foreach_mul(like, [second[0][:1].cpu()] * COUNT))
    check(torch._foreach_add(first, [t.double() for t in first]), torch._foreach_add(like, [t.double() for t in like]))
    check(torch._foreach_neg([t.int() for t in first]), torch._foreach_neg([t.int() for t in like]))
    check(torch._foreach_abs([t.t() for t in first]), torch._foreach_abs([t.t() for t in like]))
    check(torch._foreach_mul(first, [0.5] * COUNT), torch._foreach_mul(like, [0.5] * COUNT))
    check(torch._foreach_norm(first, 3), torch._foreach_norm(like, 3))
    leaves = [t.clone().requires_grad_() for t in first]
    made = torch._foreach_exp(leaves)
    torch.autograd.backward(made, [torch.ones_like(m) for m in made])
    check([leaf.grad for leaf in leaves], torch._foreach_exp(like))
    twice, wanted = first[0].clone(), like[0].clone()
    torch._foreach_add_([twice, twice], 1.0)
    torch._foreach_add_([wanted, wanted], 1.0)
    check([twice], [wanted])


def test_a_leaf_is_written_in_few_launches_where_nothing_is_recorded(npu: Any) -> None:
    leaves = [t.requires_grad_() for t in lists("npu")[0]]
    with torch.no_grad():
        torch._foreach_mul_(leaves, 2.0)
    assert launches(npu)["aclnnForeachMulScalarV2"] == 1


def test_a_310p_has_none(on_chip: Any) -> None:
    with on_chip("310P") as machine:
        got = torch._foreach_sqrt(lists("npu")[0])
        assert launches(machine) == {"aclnnSqrt": COUNT}
        torch.testing.assert_close([t.cpu() for t in got], list(torch._foreach_sqrt(lists("cpu")[0])))
