"""state_dict and load_state_dict."""

from collections import OrderedDict

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn


@pytest.fixture
def net():
    net = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    net.register_buffer("b", torch.ones(1))
    net.register_buffer("unsaved", torch.ones(1), persistent=False)
    net.register_parameter("none", None)
    return net


def test_keys_order_and_metadata(net):
    state = net.state_dict()
    assert type(state) is OrderedDict
    assert list(state) == ["b", "0.weight", "0.bias", "1.weight", "1.bias"]
    assert state._metadata == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 1}}
    assert list(net.state_dict(prefix="p."))[:2] == ["p.b", "p.0.weight"]


def test_values_share_memory_and_keep_vars_keeps_parameters(net):
    assert not net.state_dict()["0.weight"].requires_grad
    assert net.state_dict()["0.weight"].data_ptr() == net[0].weight.data_ptr()
    assert net.state_dict(keep_vars=True)["0.weight"] is net[0].weight


def test_destination_is_filled(net):
    destination = OrderedDict()
    assert net.state_dict(destination=destination, prefix="z.") is destination and "z.b" in destination


def test_positional_arguments_warn(net):
    with pytest.warns(FutureWarning, match="Positional args are being deprecated, use kwargs instead"):
        assert "p.b" in net.state_dict({}, "p.")


def test_loading_copies(net):
    weight = net[0].weight
    answer = net.load_state_dict({name: torch.full_like(value, 2) for name, value in net.state_dict().items()})
    assert repr(answer) == "<All keys matched successfully>" == str(answer)
    assert net[0].weight is weight and weight.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert weight.requires_grad and weight.is_leaf


def test_all_errors_are_told_at_once(net):
    state = dict(net.state_dict())
    del state["b"]
    state |= {"0.weight": torch.ones(3, 2), "1.weight": 3, "extra": torch.ones(1), "0.foo": torch.ones(1)}
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    assert str(error.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "b". \n'
        '\tUnexpected key(s) in state_dict: "extra", "0.foo". \n'
        "\tsize mismatch for 0.weight: copying a param with shape torch.Size([3, 2]) from checkpoint, "
        "the shape in current model is torch.Size([2, 2]).\n"
        '\tWhile copying the parameter named "1.weight", expected torch.Tensor or Tensor-like object from checkpoint '
        "but received <class 'int'>"
    )


def test_not_strict_reports_the_keys(net):
    answer = net.load_state_dict({"foo": torch.ones(1), "b": torch.zeros(1)}, strict=False)
    assert answer.missing_keys == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert answer.unexpected_keys == ["foo"]
    assert repr(answer) == (
        "_IncompatibleKeys(missing_keys=['0.weight', '0.bias', '1.weight', '1.bias'], unexpected_keys=['foo'])"
    )
    assert net.b.tolist() == [0.0]


def test_not_a_mapping(net):
    with pytest.raises(TypeError) as error:
        net.load_state_dict(3)
    assert str(error.value) == "Expected state_dict to be dict-like, got <class 'int'>."


def test_assign_takes_the_tensors_themselves(net):
    state = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in net.state_dict().items()}
    state["0.weight"] = nn.Parameter(state["0.weight"], requires_grad=False)
    net.load_state_dict(state, assign=True)
    assert net[0].weight is state["0.weight"] and net[0].weight.requires_grad
    assert isinstance(net[0].bias, nn.Parameter) and net[0].bias.dtype == torch.float64
    assert net.b is state["b"]


def test_copying_into_meta_warns():
    with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter in the checkpoint to a meta"):
        nn.Linear(1, 1, device="meta").load_state_dict(nn.Linear(1, 1).state_dict())


def test_scalar_saved_as_vector():
    module = nn.Module()
    module.register_buffer("s", torch.tensor(1.0))
    module.load_state_dict({"s": torch.tensor([5.0])})
    assert module.s.item() == 5.0


class WithExtra(nn.Module):
    """Saves a number besides tensors."""

    extra = 1

    def get_extra_state(self):
        return {"extra": self.extra}

    def set_extra_state(self, state):
        self.extra = state["extra"]


def test_extra_state():
    source, target = WithExtra(), WithExtra()
    source.extra = 5
    state = source.state_dict()
    assert state == {"_extra_state": {"extra": 5}}
    target.load_state_dict(state)
    assert target.extra == 5
    with pytest.raises(RuntimeError, match='Missing key\\(s\\) in state_dict: "_extra_state"'):
        target.load_state_dict({})
    with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "_extra_state"'):
        nn.Module().load_state_dict(state)


def test_hooks_run_in_order():
    layer, log = nn.Linear(1, 1), []
    net = nn.Sequential(layer)
    layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: log.append(("pre", prefix, keep_vars)))
    layer.register_state_dict_post_hook(lambda module, state, prefix, metadata: log.append(("post", list(state))))
    layer.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: log.append(("load", prefix)))
    layer.register_load_state_dict_post_hook(lambda module, keys: log.append(("loaded", *keys)))
    net.load_state_dict(net.state_dict())
    assert log == [
        ("pre", "0.", False),
        ("post", ["0.weight", "0.bias"]),
        ("load", "0."),
        ("loaded", [], []),
    ]


def test_hooks_that_answer():
    layer = nn.Linear(1, 1)
    handle = layer.register_state_dict_post_hook(lambda *arguments: 3)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        layer.state_dict()
    handle.remove()
    layer._register_state_dict_hook(lambda *arguments: {"only": 1})
    assert layer.state_dict() == {"only": 1}


def test_post_hook_may_forgive_missing_keys():
    layer = nn.Linear(1, 1)
    layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    assert str(layer.load_state_dict({})) == "<All keys matched successfully>"
