"""Subclasses of Tensor and foreign classes that see calls through __torch_function__."""

from typing import Any

import pytest

import mindtorch_v2 as torch


class Plain(torch.Tensor):
    """A subclass that changes nothing."""


class Logging(torch.Tensor):
    """A subclass that notes what was called."""

    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def plain(*values: float) -> Plain:
    return torch.tensor(list(values)).as_subclass(Plain)


def test_results_keep_the_subclass() -> None:
    x = plain(1.0, 2.0)
    assert type(x) is Plain
    results = [
        x + 1,
        1 + x,
        x * torch.ones(2),
        torch.ones(2) * x,
        x > 1,
        x.exp(),
        torch.sin(x),
        x.sum(),
        torch.cat([x, x]),
    ]
    results += [x[0], x.view(2, 1), x.clone(), x.detach(), x.to(torch.float64)]
    assert {type(result) for result in results} == {Plain}
    assert all(type(part) is Plain for part in x.split(1))
    assert type(x.sort().values) is Plain
    assert type(x.tolist()) is list and type(x.shape) is torch.Size


def test_in_place_keeps_the_object() -> None:
    x = plain(1.0, 2.0)
    assert x.add_(1) is x
    x += 1
    assert type(x) is Plain and x.tolist() == [3.0, 4.0]
    y = torch.zeros(2)
    y += x
    assert type(y) is torch.Tensor or type(y) is Plain
    assert y.tolist() == [3.0, 4.0]


def test_as_subclass_shares_memory_and_history() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 2).as_subclass(Plain)
    assert isinstance(y, Plain) and y.requires_grad
    z = (y * 3).sum()
    assert type(z) is Plain
    z.backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_as_subclass_is_an_operation_of_its_own() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.as_subclass(Plain)
    assert not y.is_leaf
    (y * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_data_keeps_the_subclass() -> None:
    assert type(plain(1.0).data) is Plain


def test_overriding_sees_every_call() -> None:
    x = torch.tensor([1.0, 2.0]).as_subclass(Logging)
    Logging.calls.clear()
    torch.add(x, x)
    x.mul(2)
    torch.nn.functional.relu(x)
    torch.stack([x, x])
    torch.ones(2).sub(x)
    assert [name for name in Logging.calls if not name.startswith("__")] == ["add", "mul", "relu", "stack", "sub"]


def test_the_function_is_the_public_one() -> None:
    seen = []

    class Look(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            seen.append((func, types, len(args), sorted(kwargs or {})))
            return "answer"

    x = torch.ones(2, 2).as_subclass(Look)
    assert torch.sum(x, dim=1, keepdim=True) == "answer"
    assert seen[0][0] is torch.sum
    assert seen[0][1] == (Look,)


def test_arguments_come_in_the_order_of_the_schema() -> None:
    """PyTorch passes on what was written; here keywords that are positional in the schema come by position."""
    seen = []

    class Look(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            seen.append((func.__name__, args[1:], kwargs or {}))
            return 1

    x = torch.ones(2, 2).as_subclass(Look)
    torch.sum(x, 1, keepdim=True)
    x.sum(dim=0)
    torch.cat([x, x], dim=1)
    x.view(4)
    assert seen == [
        ("sum", ((1,), True), {}),
        ("sum", ((0,),), {}),
        ("cat", (1,), {}),
        ("view", ((4,),), {}),
    ]


def test_operators_have_their_names() -> None:
    x = torch.ones(2).as_subclass(Logging)
    Logging.calls.clear()
    x + 1
    1 + x
    x - 1
    x @ x
    -x
    _ = x < 1
    x[0]
    x[0] = 1.0
    x += 1
    assert Logging.calls == ["add", "add", "sub", "matmul", "neg", "lt", "__getitem__", "__setitem__", "add_"]


def test_a_method_call_gives_the_method() -> None:
    seen = []

    class Look(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    torch.ones(2).as_subclass(Look).exp()
    assert seen[-1] in (torch.Tensor.exp, torch.exp)


def test_the_more_special_subclass_is_asked_first() -> None:
    order = []

    class Parent(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            order.append(cls.__name__)
            return NotImplemented if len(order) < 2 else "parent"

    class Child(Parent):
        pass

    a, b = torch.ones(1).as_subclass(Parent), torch.ones(1).as_subclass(Child)
    assert torch.add(a, b) == "parent"
    assert order == ["Child", "Parent"]


def test_unrelated_subclasses_do_not_mix() -> None:
    class Other(torch.Tensor):
        pass

    with pytest.raises(TypeError):
        torch.add(plain(1.0), torch.ones(1).as_subclass(Other))


def test_a_class_that_is_no_tensor() -> None:
    class Diagonal:
        def __init__(self, n: int, value: float) -> None:
            self.n, self.value = n, value

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            if func is torch.mean:
                return args[0].value / args[0].n
            return NotImplemented

    assert torch.mean(Diagonal(5, 2.0)) == 0.4
    with pytest.raises(
        TypeError, match="Multiple dispatch failed for 'torch.add'; all __torch_function__ handlers returned"
    ):
        torch.add(torch.ones(1), Diagonal(5, 2.0))
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.max'"):
        torch.max(Diagonal(5, 2.0))


def test_a_foreign_object_anywhere_in_the_arguments() -> None:
    class Named:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            return func.__name__

    thing = Named()
    functional = torch.nn.functional
    assert [torch.zeros_like(thing), torch.sum(thing), torch.max(thing), torch.where(thing, 1, 2)] == [
        "zeros_like",
        "sum",
        "max",
        "where",
    ]
    assert [torch.stack([thing, torch.ones(1)]), torch.cat((torch.ones(1), thing))] == ["stack", "cat"]
    assert [torch.split(thing, 1), functional.relu(thing), functional.cross_entropy(thing, thing)] == [
        "split",
        "relu",
        "cross_entropy",
    ]
    assert [torch.ones(1).add(thing), torch.ones(1) + thing] == ["add", "add"]


def test_disabled_gives_plain_tensors() -> None:
    class Disabled(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    x = torch.ones(2).as_subclass(Disabled)
    assert type(x) is Disabled
    assert type(x + 1) is torch.Tensor
    assert type(torch.exp(x)) is torch.Tensor


def test_disable_torch_function_subclass() -> None:
    x = plain(1.0)
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
    assert type(x + 1) is Plain


def test_make_subclass() -> None:
    x = torch.Tensor._make_subclass(Plain, torch.ones(2), True)
    assert type(x) is Plain and x.requires_grad and x.is_leaf
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_parameter_is_no_special_result() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    assert type(p * 2) is torch.Tensor
    assert isinstance(p, torch.Tensor) and p.requires_grad


def test_modes_see_every_call() -> None:
    from mindtorch_v2.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Mode():
        torch.ones(2) + torch.zeros(2)
    assert "ones" in seen and "zeros" in seen and any(name in ("add", "__add__") for name in seen)
    seen.clear()
    torch.ones(2)
    assert seen == []
