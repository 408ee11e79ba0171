"""Hooks around forward and backward."""

import warnings
from collections import OrderedDict

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn.modules import module as module_hooks


class Scale(nn.Module):
    """x * k, and an error for k = 99."""

    def forward(self, x, k=1):
        if k == 99:
            raise ValueError("boom")
        return x * k


class Two(nn.Module):
    """Two inputs, two outputs."""

    def forward(self, x, y):
        return x * 2, y * 3


def leaf(value=1.0):
    return torch.tensor([value], requires_grad=True)


def test_forward_pre_hooks_change_arguments():
    module, log = Scale(), []
    module.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    module.register_forward_pre_hook(lambda module, args, kwargs: (args, {"k": 10}), with_kwargs=True)
    module.register_forward_pre_hook(lambda module, args: log.append(args[0].item()), prepend=True)
    assert module(torch.ones(1)).item() == 20.0 and log == [1.0]


def test_forward_pre_hook_with_a_bad_answer():
    module = Scale()
    module.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError) as error:
        module(torch.ones(1))
    assert str(error.value) == "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got 3."


def test_forward_hooks_change_the_output_and_can_be_removed():
    module = Scale()
    first = module.register_forward_hook(lambda module, args, output: output + 1)
    module.register_forward_hook(lambda module, args, kwargs, output: output * kwargs["k"], with_kwargs=True)
    assert module(torch.ones(1), k=3).item() == 12.0
    first.remove()
    assert module(torch.ones(1), k=3).item() == 9.0
    with module.register_forward_hook(lambda *arguments: 0):
        assert module(torch.ones(1), k=3) == 0
    assert module(torch.ones(1), k=3).item() == 9.0


def test_always_called_hooks_run_after_an_error():
    module, log = Scale(), []
    module.register_forward_hook(lambda module, args, output: log.append(output), always_call=True)
    module.register_forward_hook(lambda module, args, output: log.append("not me"))
    with pytest.raises(ValueError, match="boom"):
        module(torch.ones(1), k=99)
    assert log == [None]


def test_an_error_in_an_always_called_hook_is_a_warning():
    module = Scale()
    module.register_forward_hook(lambda module, args, output: 1 / 0, always_call=True)
    with pytest.warns(UserWarning) as caught, pytest.raises(ValueError, match="boom"):
        module(torch.ones(1), k=99)
    assert str(caught[0].message) == (
        "module forward hook with ``always_call=True`` raised an exception that was silenced as another error "
        "was raised in forward: division by zero"
    )


def test_global_hooks():
    log = []
    handles = [
        module_hooks.register_module_forward_pre_hook(lambda module, args: log.append("pre")),
        module_hooks.register_module_forward_hook(lambda module, args, output: log.append("forward")),
        module_hooks.register_module_full_backward_pre_hook(lambda module, grads: log.append("backward pre")),
        module_hooks.register_module_full_backward_hook(lambda module, inputs, outputs: log.append("backward")),
    ]
    try:
        Scale()(leaf()).backward()
    finally:
        for handle in handles:
            handle.remove()
    assert log == ["pre", "forward", "backward pre", "backward"]
    Scale()(leaf()).backward()
    assert len(log) == 4


def test_registration_hooks():
    log = []
    handles = [
        module_hooks.register_module_parameter_registration_hook(lambda module, name, value: log.append(name)),
        module_hooks.register_module_module_registration_hook(lambda module, name, value: log.append(name)),
        module_hooks.register_module_buffer_registration_hook(lambda module, name, value: log.append(name)),
    ]
    try:
        net = nn.Sequential(nn.Linear(1, 1))
        net.register_buffer("b", None)
    finally:
        for handle in handles:
            handle.remove()
    assert log == ["weight", "bias", "0", "b"]


def test_full_backward_hooks_see_and_change_gradients():
    module, log = Two(), []
    module.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 100, grad_output[1]))
    module.register_full_backward_hook(lambda module, grad_input, grad_output: log.append((grad_input, grad_output)))
    module.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10, grad_input[1]))
    x, y = leaf(), leaf()
    first, second = module(x, y)
    (first + second).backward()
    assert (x.grad.item(), y.grad.item()) == (2000.0, 3.0)
    ((grad_input, grad_output),) = log
    assert [grad.item() for grad in grad_input + grad_output] == [200.0, 3.0, 100.0, 1.0]


def test_an_unused_output_shows_as_none():
    module, log = Two(), []
    module.register_full_backward_hook(lambda module, grad_input, grad_output: log.append((grad_input, grad_output)))
    module(leaf(), leaf())[0].backward()
    ((grad_input, grad_output),) = log
    assert grad_output[1] is None and [grad.item() for grad in grad_input] == [2.0, 0.0]


def test_inputs_without_grad():
    layer, log = nn.Linear(2, 2), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: log.append((grad_input, grad_output)))
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients are computed with respect to"):
        layer(torch.ones(1, 2)).sum().backward()
    assert log[0][0] == (None,) and log[0][1][0].tolist() == [[1.0, 1.0]]
    assert layer.weight.grad is not None


def test_wrong_number_of_gradients():
    module = Two()
    module.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0],))
    with pytest.raises(RuntimeError) as error:
        module(leaf(), leaf())[0].backward()
    assert str(error.value) == "Backward hook returned an invalid number of grad_input, got 1, but expected 2"


def test_full_and_other_backward_hooks_do_not_mix():
    module = Two()
    module.register_full_backward_hook(lambda *arguments: None)
    with pytest.raises(RuntimeError) as error:
        module.register_backward_hook(lambda *arguments: None)
    assert str(error.value) == (
        "Cannot use both regular backward hooks and full backward hooks on a single Module. "
        "Please use only one of them."
    )


def test_non_full_backward_hook_sees_the_last_node():
    module, log = Scale(), []
    module.register_backward_hook(lambda module, grad_input, grad_output: log.append(grad_output[0].item()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        module(leaf(), 3).backward()
    assert log == [1.0]


def test_other_outputs_warn():
    class Dict(nn.Module):
        def forward(self, x):
            return {"a": x * 2}

    module = Dict()
    module.register_full_backward_hook(lambda *arguments: None)
    with pytest.warns(UserWarning, match="For backward hooks to be called, module output should be a Tensor or a tup"):
        module(leaf())


def test_hooks_under_no_grad_and_second_derivatives():
    layer = nn.Linear(1, 1)
    layer.register_full_backward_hook(lambda *arguments: None)
    with torch.no_grad():
        assert not layer(torch.ones(1, 1)).requires_grad
    x = torch.ones(1, 1, requires_grad=True)
    (gradient,) = torch.autograd.grad((layer(x) ** 2).sum(), x, create_graph=True)
    gradient.sum().backward()
    assert abs(x.grad.item() - 2 * layer.weight.item() ** 2) < 1e-5


def test_programs_replace_the_dicts_of_global_hooks(monkeypatch):
    """As test suites do, to have none of another test's hooks, and their own gone afterwards."""
    registering = {
        "_global_forward_pre_hooks": module_hooks.register_module_forward_pre_hook,
        "_global_forward_hooks": module_hooks.register_module_forward_hook,
        "_global_backward_pre_hooks": module_hooks.register_module_full_backward_pre_hook,
        "_global_backward_hooks": module_hooks.register_module_full_backward_hook,
        "_global_parameter_registration_hooks": module_hooks.register_module_parameter_registration_hook,
        "_global_buffer_registration_hooks": module_hooks.register_module_buffer_registration_hook,
        "_global_module_registration_hooks": module_hooks.register_module_module_registration_hook,
    }
    seen = []

    def run():
        layer = nn.Sequential(nn.BatchNorm1d(2))
        layer(torch.ones(3, 2, requires_grad=True)).sum().backward()
        return {*seen}

    with monkeypatch.context() as patch:
        for name in (*registering, "_global_forward_hooks_with_kwargs", "_global_forward_hooks_always_called"):
            patch.setattr(module_hooks, name, OrderedDict())
        patch.setattr(module_hooks, "_global_is_full_backward_hook", None)
        for name, register in registering.items():
            register(lambda *arguments, name=name: seen.append(name))
            assert len(getattr(module_hooks, name)) == 1
        assert run() == {*registering}
    seen.clear()
    assert run() == set()
    assert not any(getattr(module_hooks, name) for name in registering)
