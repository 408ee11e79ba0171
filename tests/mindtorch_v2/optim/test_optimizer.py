"""Optimizer: groups, checks, state, hooks. The texts are PyTorch's."""

import copy
import pickle

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn, optim
from mindtorch_v2.optim import optimizer as base


def parameter(size=2):
    return nn.Parameter(torch.ones(size))


def stepped(optimizer):
    """The optimizer after one step with gradients of ones."""
    for group in optimizer.param_groups:
        for member in group["params"]:
            member.grad = torch.ones_like(member)
    optimizer.step()
    return optimizer


SHARED = parameter()


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (
            lambda: optim.SGD(parameter()),
            TypeError,
            "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
            "torch.FloatTensor",
        ),
        (lambda: optim.SGD([1]), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
        (
            lambda: optim.SGD([{"params": {SHARED}}]),
            TypeError,
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead.",
        ),
        (lambda: optim.SGD([parameter() * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (
            lambda: optim.SGD([{"params": [SHARED]}, {"params": [SHARED]}]),
            ValueError,
            "some parameters appear in more than one parameter group",
        ),
        (lambda: optim.SGD([{}]), KeyError, "'params'"),
        (
            lambda: optim.SGD([("a", parameter()), parameter()]),
            ValueError,
            "all optimizer params should be with/without names. Some param names are missing",
        ),
        (
            lambda: optim.SGD([("a", parameter())]).add_param_group({"params": parameter()}),
            ValueError,
            "all optimizer param groups should be with/without names. cannot add param group without names to the "
            "optimizer",
        ),
        (
            lambda: optim.SGD([parameter()]).add_param_group(3),
            TypeError,
            "param_group must be a dict, but got <class 'int'>",
        ),
        (
            lambda: optim.Optimizer([parameter()], {"lr": base.required}),
            ValueError,
            "parameter group didn't specify a value of required optimization parameter lr",
        ),
        (lambda: optim.SGD([parameter()], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: optim.SGD([parameter()], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (
            lambda: optim.SGD([parameter()], nesterov=True),
            ValueError,
            "Nesterov momentum requires a momentum and zero dampening",
        ),
        (lambda: optim.SGD([parameter()], lr=torch.ones(2)), ValueError, "Tensor lr must be 1-element"),
        (
            lambda: optim.SGD([parameter()], foreach=True, fused=True),
            RuntimeError,
            "`fused` and `foreach` cannot be `True` together.",
        ),
        (
            lambda: optim.Adam([parameter()], fused=True, differentiable=True),
            RuntimeError,
            "`fused` does not support `differentiable`",
        ),
        (lambda: optim.Adam([parameter()], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda: optim.Adam([parameter()], betas=(1, 0.9)), ValueError, "Invalid beta parameter at index 0: 1"),
        (lambda: optim.AdamW([parameter()], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (
            lambda: optim.Adam([parameter()], lr=torch.tensor(0.1), foreach=True),
            ValueError,
            "lr as a Tensor is not supported for capturable=False and foreach=True",
        ),
        (
            lambda: stepped(optim.Adam([parameter()], capturable=True)),
            AssertionError,
            "If capturable=True, params and state_steps must be on supported devices: "
            "['cuda', 'xpu', 'hpu', 'privateuseone', 'xla'].",
        ),
    ],
)
def test_errors(make, kind, message):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == message


def test_duplicates_in_a_group_warn():
    member = parameter()
    with pytest.warns(UserWarning, match="optimizer contains a parameter group with duplicate parameters"):
        optim.SGD([member, member])


def test_repr():
    optimizer = optim.SGD([{"params": [parameter()], "lr": 0.5}, {"params": parameter()}], lr=0.1, momentum=0.9)
    assert repr(optimizer) == (
        "SGD (\n"
        "Parameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
        "    lr: 0.5\n    maximize: False\n    momentum: 0.9\n    nesterov: False\n    weight_decay: 0\n"
        "\n"
        "Parameter Group 1\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
        "    lr: 0.1\n    maximize: False\n    momentum: 0.9\n    nesterov: False\n    weight_decay: 0\n"
        ")"
    )
    assert repr(base.required) == "<required parameter>"


def test_named_parameters():
    optimizer = optim.SGD(nn.Linear(1, 1).named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["params"] == [0, 1]


def test_state_dict_has_pytorchs_form():
    assert optim.SGD([parameter()]).state_dict() == {
        "state": {},
        "param_groups": [
            {
                "lr": 0.001,
                "momentum": 0,
                "dampening": 0,
                "weight_decay": 0,
                "nesterov": False,
                "maximize": False,
                "foreach": None,
                "differentiable": False,
                "fused": None,
                "params": [0],
            }
        ],
    }
    state = stepped(optim.Adam([parameter()], amsgrad=True)).state_dict()["state"]
    assert list(state[0]) == ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert state[0]["step"].dtype == torch.float32 and state[0]["step"].item() == 1.0
    assert list(stepped(optim.SGD([parameter()], momentum=0.9)).state_dict()["state"][0]) == ["momentum_buffer"]


@pytest.mark.parametrize(
    "make",
    [lambda params: optim.SGD(params, lr=0.1, momentum=0.9), lambda params: optim.Adam(params, lr=0.1, amsgrad=True)],
)
def test_a_loaded_optimizer_goes_on_the_same_way(make):
    first = stepped(make([parameter()]))
    second = make([nn.Parameter(first.param_groups[0]["params"][0].detach().clone())])
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for optimizer in (first, second):
        stepped(optimizer)
    assert torch.equal(first.param_groups[0]["params"][0], second.param_groups[0]["params"][0])


def test_loading_fits_state_to_the_parameters():
    member = nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = optim.Adam([member])
    optimizer.load_state_dict(stepped(optim.Adam([parameter()])).state_dict())
    assert optimizer.state[member]["exp_avg"].dtype == torch.float64
    assert optimizer.state[member]["step"].dtype == torch.float32


def test_old_checkpoints():
    member = parameter()
    optimizer = optim.Adam([member])
    state = stepped(optim.Adam([parameter()])).state_dict()
    state["state"][0]["step"] = 5
    del state["param_groups"][0]["fused"], state["param_groups"][0]["maximize"]
    optimizer.load_state_dict(state)
    assert optimizer.state[member]["step"].item() == 5.0
    assert optimizer.param_groups[0]["fused"] is None and optimizer.param_groups[0]["maximize"] is False


def test_loading_checks_groups():
    optimizer = optim.SGD([parameter(), parameter()])
    with pytest.raises(ValueError, match="loaded state dict has a different number of parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="contains a parameter group that doesn't match the size of optimizer's group"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})


def test_zero_grad():
    optimizer = stepped(optim.SGD([parameter()]))
    member = optimizer.param_groups[0]["params"][0]
    optimizer.zero_grad(set_to_none=False)
    assert member.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert member.grad is None


def test_closure_runs_with_grad_and_gives_the_loss():
    member = parameter()
    optimizer = optim.SGD([member], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (member**2).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 2.0
        assert not torch.is_grad_enabled()
    assert member.tolist() == [0.0, 0.0]


def test_parameters_without_gradient_stay():
    first, second = parameter(), parameter()
    first.grad = torch.ones(2)
    optim.Adam([first, second]).step()
    assert second.tolist() == [1.0, 1.0] and first.tolist() != [1.0, 1.0]


def test_step_hooks():
    optimizer, log = optim.SGD([parameter()]), []
    handles = [
        optimizer.register_step_pre_hook(lambda self, args, kwargs: log.append(("pre", args[0] is self))),
        optimizer.register_step_post_hook(lambda self, args, kwargs: log.append("post")),
        base.register_optimizer_step_pre_hook(lambda self, args, kwargs: log.append("global pre")),
        base.register_optimizer_step_post_hook(lambda self, args, kwargs: log.append("global post")),
    ]
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert log == ["global pre", ("pre", True), "post", "global post"]


def test_step_pre_hook_may_change_the_arguments():
    optimizer = optim.SGD([parameter()])
    handle = optimizer.register_step_pre_hook(lambda self, args, kwargs: ((self, lambda: 7), {}))
    assert optimizer.step() == 7
    handle.remove()
    optimizer.register_step_pre_hook(lambda self, args, kwargs: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3."):
        optimizer.step()


def test_state_dict_hooks():
    optimizer, log = optim.SGD([parameter()]), []
    optimizer.register_state_dict_pre_hook(lambda self: log.append("second"))
    optimizer.register_state_dict_pre_hook(lambda self: log.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda self, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda self, state: log.append(sorted(state)))
    optimizer.register_load_state_dict_post_hook(lambda self: log.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert log == ["first", "second", ["more", "param_groups", "state"], "loaded"]


def test_own_optimizer_gets_hooks():
    class Mine(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1})

        def step(self, closure=None):
            return 5

    optimizer, log = Mine([parameter()]), []
    optimizer.register_step_pre_hook(lambda self, args, kwargs: log.append("pre"))
    assert optimizer.step() == 5 and log == ["pre"]


def test_pickle_and_deepcopy():
    optimizer = stepped(optim.AdamW([parameter()], lr=0.1))
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert repr(twin) == repr(optimizer)
        member = twin.param_groups[0]["params"][0]
        assert twin.state[member]["step"].item() == 1.0
        stepped(twin)


def test_differentiable_step():
    rate = torch.tensor(0.1, requires_grad=True)
    gradient = torch.ones(2, requires_grad=True)
    start = torch.ones(2, requires_grad=True)
    member = start.clone()
    member.grad = gradient * 3
    optim.SGD([member], lr=rate, differentiable=True).step()
    member.sum().backward()
    assert start.grad.tolist() == [1.0, 1.0] and rate.grad.item() == -6.0
    assert gradient.grad.tolist() == pytest.approx([-0.3, -0.3])
