"""The registry, key sets, and the way of a call from its keys to a kernel."""

from collections.abc import Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.dispatcher import dispatch, redispatch
from mindtorch_v2._dispatch.keys import DispatchKey, DispatchKeySet
from mindtorch_v2._dispatch.registry import registry


@pytest.fixture
def name() -> Iterator[str]:
    """The name of an operator that exists during one test."""
    registry.register_schema("contract::twice", "twice(Tensor self, Scalar by=2) -> Tensor")
    yield "contract::twice"
    registry.remove("contract::twice")


# the registry --------------------------------------------------------------------------------------------------------


def test_a_kernel_needs_a_schema_first() -> None:
    with pytest.raises(KeyError, match="register its schema first"):
        registry.register_kernel("contract::nothing", DispatchKey.CPU, lambda x: x)
    with pytest.raises(KeyError):
        registry.register_fallthrough("contract::nothing", DispatchKey.CPU)
    assert "contract::nothing" not in registry


def test_an_operator_is_declared_once(name: str) -> None:
    with pytest.raises(ValueError, match="declared twice"):
        registry.register_schema(name, "twice(Tensor self) -> Tensor")


def test_the_name_is_the_schemas() -> None:
    with pytest.raises(ValueError):
        registry.register_schema("contract::other", "twice(Tensor self) -> Tensor")


def test_every_operator_has_a_schema_and_kernels() -> None:
    operators = list(registry)
    assert len(operators) > 50
    for operator in operators:
        assert str(operator.schema).startswith(operator.name.partition("::")[0] + "::")
        assert registry.get(operator.name) is operator
        if operator.name.startswith("aten::"):
            assert {DispatchKey.CPU, DispatchKey.Meta, DispatchKey.NPU} <= set(operator.kernels), operator.name


@pytest.mark.parametrize("spelling", ["aten::add", "add"])
def test_names_are_atens_unless_they_say_otherwise(spelling: str) -> None:
    kernels = registry.get(spelling).kernels
    assert DispatchKey.CPU in kernels and DispatchKey.NPU in kernels and DispatchKey.Meta in kernels


def test_unknown_names_raise() -> None:
    with pytest.raises(KeyError, match="aten::no_such_operator"):
        registry.get("no_such_operator")
    with pytest.raises(KeyError):
        dispatch("no_such_operator", torch.ones(1))


def test_a_new_kernel_serves_the_next_call(name: str) -> None:
    registry.register_kernel(name, DispatchKey.CPU, lambda self, by: ("first", by))
    assert dispatch(name, torch.ones(1)) == ("first", 2)
    registry.register_kernel(name, DispatchKey.CPU, lambda self, by: ("second", by))
    assert dispatch(name, torch.ones(1), by=3) == ("second", 3)


# key sets ------------------------------------------------------------------------------------------------------------


def keys_of(*tensors: Any, **options: Any) -> DispatchKeySet:
    return DispatchKeySet.from_tensors(tensors, **options)


def test_a_tensor_brings_its_device() -> None:
    assert DispatchKey.CPU in keys_of(torch.ones(1))
    assert DispatchKey.Meta not in keys_of(torch.ones(1))
    assert DispatchKey.Meta in keys_of(torch.ones(1, device="meta"))
    assert DispatchKey.CPU in keys_of()
    assert DispatchKey.Meta in keys_of(device="meta") and DispatchKey.CPU not in keys_of(device=torch.device("meta"))
    assert DispatchKey.NPU in keys_of(device="npu:0")


def test_requiring_grad_brings_autograd_at_once() -> None:
    x = torch.ones(1)
    assert DispatchKey.Autograd not in keys_of(x)
    x.requires_grad_()
    assert DispatchKey.Autograd in keys_of(x) and DispatchKey.AutogradCPU in keys_of(x)
    assert DispatchKey.Autograd in keys_of(torch.ones(1), x)
    assert DispatchKey.Autograd in keys_of(x * 2)
    x.requires_grad_(False)
    assert DispatchKey.Autograd not in keys_of(x)


def test_no_grad_takes_autograd_away() -> None:
    x = torch.ones(1, requires_grad=True)
    keys = keys_of(x, grad_enabled=False)
    assert DispatchKey.Autograd not in keys and DispatchKey.AutogradCPU not in keys
    with torch.no_grad():
        assert (x * 2).grad_fn is None


def test_modes_bring_their_keys() -> None:
    x = torch.ones(1)
    assert DispatchKey.Pipeline in keys_of(x, pipeline_enabled=True)
    assert DispatchKey.Autocast in keys_of(x, autocast_enabled=True)
    assert DispatchKey.Functionalize in keys_of(x, functionalize_enabled=True)
    assert not {DispatchKey.Pipeline, DispatchKey.Autocast, DispatchKey.Functionalize} & set(keys_of(x))


def test_keys_come_in_the_order_in_which_they_are_served() -> None:
    every = list(DispatchKeySet(DispatchKey))
    order = [DispatchKey.Autocast, DispatchKey.Functionalize, DispatchKey.Autograd, DispatchKey.Pipeline,
             DispatchKey.Meta, DispatchKey.NPU, DispatchKey.CUDA, DispatchKey.CPU]  # fmt: skip
    assert [key for key in every if key in order] == order
    autograd = [every.index(k) for k in (DispatchKey.AutogradCPU, DispatchKey.AutogradNPU, DispatchKey.AutogradMeta)]
    assert all(every.index(DispatchKey.Functionalize) < at < every.index(DispatchKey.Meta) for at in autograd)


def test_sets_are_values() -> None:
    both = DispatchKeySet([DispatchKey.CPU, DispatchKey.Autograd])
    assert len(both) == 2
    assert both.without(DispatchKey.Autograd) == DispatchKeySet([DispatchKey.CPU])
    assert both == DispatchKeySet([DispatchKey.Autograd]) | DispatchKeySet([DispatchKey.CPU])
    assert both & DispatchKeySet([DispatchKey.CPU]) == DispatchKeySet([DispatchKey.CPU])
    assert both - DispatchKeySet([DispatchKey.CPU]) == DispatchKeySet([DispatchKey.Autograd])
    assert hash(both) == hash(DispatchKeySet([DispatchKey.Autograd, DispatchKey.CPU]))
    assert both.without(DispatchKey.CUDA) == both
    assert repr(both) == "DispatchKeySet(Autograd, CPU)"


# calls ---------------------------------------------------------------------------------------------------------------


def test_dispatch_by_name_records_and_binds() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = dispatch("aten::mul", x, other=3.0)
    assert y.tolist() == [3.0, 6.0]
    assert y.requires_grad
    with pytest.raises(TypeError, match=r"aten::mul\(Tensor"):
        dispatch("mul", x)


def test_redispatch_goes_on_below_the_given_keys() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    keys = keys_of(x)
    below = keys.without(DispatchKey.Autograd, DispatchKey.AutogradCPU)
    assert redispatch("aten::mul", keys, x, 2.0).requires_grad
    assert not redispatch("aten::mul", below, x, 2.0).requires_grad


def test_the_highest_key_with_a_kernel_serves(name: str) -> None:
    served = []

    def kernel(key: DispatchKey, keys: DispatchKeySet | None) -> Any:
        def run(self: Any, by: Any) -> Any:
            served.append(key.name)
            return self if keys is None else redispatch(name, keys, self, by)

        return run

    registry.register_kernel(name, DispatchKey.CPU, kernel(DispatchKey.CPU, None))
    registry.register_kernel(
        name, DispatchKey.Autograd, kernel(DispatchKey.Autograd, DispatchKeySet([DispatchKey.CPU]))
    )
    dispatch(name, torch.ones(1))
    dispatch(name, torch.ones(1, requires_grad=True))
    with torch.no_grad():
        dispatch(name, torch.ones(1, requires_grad=True))
    assert served == ["CPU", "Autograd", "CPU", "CPU"]


def test_fallthrough_passes_to_the_next_key(name: str) -> None:
    registry.register_kernel(name, DispatchKey.CPU, lambda self, by: "CPU")
    registry.register_kernel(name, DispatchKey.Autograd, lambda self, by: "Autograd")
    x = torch.ones(1, requires_grad=True)
    assert dispatch(name, x) == "Autograd"
    registry.register_fallthrough(name, DispatchKey.Autograd)
    assert DispatchKey.Autograd in registry.get(name).fallthrough
    assert dispatch(name, x) == "CPU"
    registry.register_kernel(name, DispatchKey.Autograd, lambda self, by: "Autograd again")
    assert dispatch(name, x) == "Autograd again"


def test_a_key_without_a_kernel_is_passed_over(name: str) -> None:
    registry.register_kernel(name, DispatchKey.CPU, lambda self, by: "CPU")
    assert dispatch(name, torch.ones(1, requires_grad=True)) == "CPU"


def test_no_kernel_names_the_operator_the_keys_and_the_device(name: str) -> None:
    registry.register_kernel(name, DispatchKey.CPU, lambda self, by: "CPU")
    with pytest.raises(NotImplementedError) as caught:
        dispatch(name, torch.ones(1, device="meta"))
    text = str(caught.value)
    assert name in text and "DispatchKeySet(Meta)" in text and "'meta'" in text and "CPU" in text


def test_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device") as caught:
        torch.ones(2) + torch.ones(2, device="meta")
    assert "aten::add" in str(caught.value) and "cpu" in str(caught.value) and "meta" in str(caught.value)


def test_npu_is_not_available_and_says_so() -> None:
    assert torch.npu.is_available() is False
    assert torch.npu.device_count() == 0
    with pytest.raises(RuntimeError, match="NPU runtime|libascendcl"):
        torch.ones(2, device="npu")
    with pytest.raises(RuntimeError, match="NPU runtime|libascendcl"):
        torch.ones(2).to("npu")


def test_meta_tensors_hold_no_data() -> None:
    x = torch.ones(3, 4, device="meta")
    y = (x.t() @ x).sum(0)
    assert (y.shape, y.dtype, y.device.type) == ((4,), torch.float32, "meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        y.tolist()
    with pytest.raises(RuntimeError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
        y.sum().item()
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        y.to("cpu")


def test_backward_on_meta_needs_no_storage() -> None:
    x = torch.ones(3, 4, device="meta", requires_grad=True)
    w = torch.ones(5, 4, device="meta", requires_grad=True)
    loss = torch.relu(x @ w.t()).pow(2).mean()
    loss.backward()
    assert (w.grad.shape, w.grad.device.type) == ((5, 4), "meta")
    (second,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    assert second.requires_grad
    second.sum().backward()
    assert x.grad.shape == (3, 4)
