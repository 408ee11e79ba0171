"""Module: attributes, members, conversion, printing. The texts are PyTorch's."""

import copy
import pickle

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn


class Block(nn.Module):
    """A parameter, a child and a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))
        self.child = nn.Linear(1, 1)
        self.register_buffer("b", torch.ones(3), persistent=False)
        self.plain = 3


class Early(nn.Module):
    """Assigns before Module.__init__."""

    def __init__(self, act):
        act(self)
        super().__init__()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda m: setattr(m, "w", nn.Parameter(torch.ones(1))),
            "cannot assign parameters before Module.__init__() call",
        ),
        (lambda m: setattr(m, "w", nn.ReLU()), "cannot assign module before Module.__init__() call"),
        (lambda m: setattr(m, "w", nn.Buffer(torch.ones(1))), "cannot assign buffer before Module.__init__() call"),
        (lambda m: m.register_buffer("b", None), "cannot assign buffer before Module.__init__() call"),
        (lambda m: m.register_parameter("p", None), "cannot assign parameter before Module.__init__() call"),
        (lambda m: m.nope, "'Early' object has no attribute 'nope'"),
    ],
)
def test_use_before_init(act, message):
    with pytest.raises(AttributeError) as error:
        Early(act)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (
            lambda m: setattr(m, "w", torch.ones(2)),
            TypeError,
            "cannot assign 'torch.FloatTensor' as parameter 'w' (torch.nn.Parameter or None expected)",
        ),
        (
            lambda m: setattr(m, "child", 1),
            TypeError,
            "cannot assign 'int' as child module 'child' (torch.nn.Module or None expected)",
        ),
        (
            lambda m: setattr(m, "b", "x"),
            TypeError,
            "cannot assign 'str' as buffer 'b' (torch.nn.Buffer, torch.Tensor or None expected)",
        ),
        (lambda m: m.register_parameter("a.b", None), KeyError, "'parameter name can\\'t contain \".\"'"),
        (lambda m: m.register_parameter("", None), KeyError, "'parameter name can\\'t be empty string \"\"'"),
        (lambda m: m.register_parameter(3, None), TypeError, "parameter name should be a string. Got int"),
        (lambda m: m.register_parameter("plain", None), KeyError, "\"attribute 'plain' already exists\""),
        (
            lambda m: m.register_parameter("c", 3),
            TypeError,
            "cannot assign 'int' object to parameter 'c' (torch.nn.Parameter or None required)",
        ),
        (lambda m: m.register_buffer("w", None), KeyError, "\"attribute 'w' already exists\""),
        (
            lambda m: m.register_buffer("c", 3),
            TypeError,
            "cannot assign 'int' object to buffer 'c' (torch Tensor or None required)",
        ),
        (lambda m: m.add_module("k", "str"), TypeError, "str is not a Module subclass"),
        (lambda m: m.add_module(3, None), TypeError, "module name should be a string. Got int"),
        (lambda m: m.add_module("a.b", None), KeyError, "'module name can\\'t contain \".\", got: a.b'"),
        (lambda m: m.add_module("training", None), KeyError, "\"attribute 'training' already exists\""),
        (lambda m: m.nope, AttributeError, "'Block' object has no attribute 'nope'"),
        (lambda m: delattr(m, "nope"), AttributeError, "'Block' object has no attribute 'nope'"),
        (lambda m: m(), NotImplementedError, 'Module [Block] is missing the required "forward" function'),
        (lambda m: m.train(3), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.get_submodule("child.x"), AttributeError, "Linear has no attribute `x`"),
        (lambda m: m.get_submodule("w"), AttributeError, "`w` is not an nn.Module"),
        (lambda m: m.get_parameter("b"), AttributeError, "`b` is not an nn.Parameter"),
        (lambda m: m.get_buffer("w"), AttributeError, "`w` is not a buffer"),
        (lambda m: m.set_submodule("", m), ValueError, "Cannot set the submodule without a target name!"),
        (lambda m: m.set_submodule("w", nn.ReLU()), AttributeError, "`w` is not an nn.Module"),
        (
            lambda m: m.to(torch.int32),
            TypeError,
            "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int32",
        ),
        (lambda m: m.to(torch.float64, True, True), RuntimeError, ".to() does not accept copy argument"),
        (lambda m: nn.Module(1), TypeError, "Module.__init__() takes 1 positional argument but 2 were given"),
        (lambda m: nn.Module(a=1), TypeError, "Module.__init__() got an unexpected keyword argument 'a'"),
    ],
)
def test_errors(act, kind, message):
    with pytest.raises(kind) as error:
        act(Block())
    assert str(error.value) == message


def test_to_names_its_signatures_when_the_arguments_do_not_fit():
    with pytest.raises(TypeError, match=r"to\(\) received an invalid combination of arguments - got \(str, str\)"):
        Block().to("cpu", "cpu")


@pytest.mark.parametrize("value", [nn.Parameter(torch.zeros(1)), nn.ReLU(), None])
def test_assigning_moves_a_name_between_registries(value):
    block = Block()
    block.plain = value
    assert ("plain" in block.__dict__) == (value is None)
    assert block.plain is value
    assert ("plain" in block._parameters, "plain" in block._modules) == (
        isinstance(value, nn.Parameter),
        isinstance(value, nn.Module),
    )


def test_assigning_a_parameter_over_a_buffer_and_a_module():
    block = Block()
    block.b = nn.Parameter(torch.zeros(1))
    block.child = nn.Parameter(torch.zeros(2))
    assert list(block._parameters) == ["w", "b", "child"] and not block._buffers and not block._modules
    assert block._non_persistent_buffers_set == set()


def test_none_and_deletion():
    block = Block()
    block.w = None
    assert block.w is None and list(block.parameters()) == list(block.child.parameters())
    del block.w, block.b, block.child
    assert not hasattr(block, "w") and not list(block.modules())[1:]


def test_members_by_dotted_name():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)))
    assert net.get_submodule("") is net
    assert net.get_submodule("1.1") is net[1][1]
    assert net.get_parameter("1.0.bias") is net[1][0].bias
    net.set_submodule("1.1", nn.Tanh())
    assert isinstance(net[1][1], nn.Tanh)


def test_names_of_shared_members():
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, nn.ReLU(), shared)
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias"]
    assert [name for name, _ in net.named_parameters(prefix="x", remove_duplicate=False)] == [
        "x.0.weight",
        "x.0.bias",
        "x.2.weight",
        "x.2.bias",
    ]
    assert [name for name, _ in net.named_modules()] == ["", "0", "1"]
    assert [name for name, _ in net.named_children()] == ["0", "1"]
    assert len(list(net.modules(remove_duplicate=False))) == 4
    assert list(net.parameters(recurse=False)) == []


def test_modes_and_gradients():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    assert not net.eval()[1].training and net.train()[1].training
    assert not any(parameter.requires_grad for parameter in net.requires_grad_(False).parameters())
    net.requires_grad_()
    net(torch.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert [parameter.grad.abs().sum().item() for parameter in net.parameters()] == [0.0, 0.0]
    net.zero_grad()
    assert [parameter.grad for parameter in net.parameters()] == [None, None]


def test_apply_visits_children_first():
    seen = []
    nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU())).apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (lambda m: m.double(), torch.float64),
        (lambda m: m.half(), torch.float16),
        (lambda m: m.bfloat16(), torch.bfloat16),
        (lambda m: m.to(torch.float64), torch.float64),
        (lambda m: m.to("cpu", torch.float16), torch.float16),
        (lambda m: m.to(dtype=torch.float64, device="cpu"), torch.float64),
        (lambda m: m.to(torch.ones(1, dtype=torch.float64)), torch.float64),
        (lambda m: m.to(tensor=torch.ones(1, dtype=torch.float64)), torch.float64),
        (lambda m: m.to("cpu"), torch.float32),
        (lambda m: m.cpu(), torch.float32),
    ],
)
def test_conversion_keeps_parameters_and_spares_integers(convert, dtype):
    net = nn.Linear(2, 2)
    net.register_buffer("count", torch.ones(1, dtype=torch.int64))
    net(torch.ones(1, 2)).sum().backward()
    weight, gradient = net.weight, net.weight.grad
    assert convert(net) is net
    assert net.weight is weight and weight.dtype == dtype and net.count.dtype == torch.int64
    assert weight.grad is gradient and gradient.dtype == dtype


def test_meta_and_back():
    net = nn.Linear(2, 3, device="meta")
    assert net.weight.is_meta
    net.to_empty(device="cpu")
    assert net.weight.device.type == "cpu" and net.weight.shape == (3, 2) and net.weight.requires_grad
    assert nn.Linear(2, 2).to("meta").bias.is_meta


def test_moving_out_of_meta_names_the_way():
    with pytest.raises(NotImplementedError, match=r"Please use torch.nn.Module.to_empty\(\) instead of"):
        nn.Linear(2, 3, device="meta").to("cpu")


class Described(nn.Module):
    """Two lines of its own and a child."""

    def __init__(self):
        super().__init__()
        self.x = nn.Linear(1, 2)

    def extra_repr(self):
        return "a=1\nb=2"


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (nn.Module(), "Module()"),
        (nn.ModuleList(), "ModuleList()"),
        (nn.Linear(2, 3, bias=False), "Linear(in_features=2, out_features=3, bias=False)"),
        (Described(), "Described(\n  a=1\n  b=2\n  (x): Linear(in_features=1, out_features=2, bias=True)\n)"),
        (
            nn.Sequential(nn.Sequential(nn.ReLU(), nn.ReLU())),
            "Sequential(\n  (0): Sequential(\n    (0): ReLU()\n    (1): ReLU()\n  )\n)",
        ),
        (
            nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.Tanh(), Described()]),
            "ModuleList(\n  (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)\n  (2): Tanh()\n"
            "  (3): Described(\n    a=1\n    b=2\n    (x): Linear(in_features=1, out_features=2, bias=True)\n  )\n)",
        ),
        (nn.Embedding(3, 4, padding_idx=-1, max_norm=1.0), "Embedding(3, 4, padding_idx=2, max_norm=1.0)"),
        (nn.LayerNorm([2, 3], bias=False), "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=False)"),
        (nn.RMSNorm(3), "RMSNorm((3,), eps=None, elementwise_affine=True)"),
        (nn.ReLU(True), "ReLU(inplace=True)"),
        (nn.GELU(), "GELU(approximate='none')"),
        (nn.LeakyReLU(0.2, True), "LeakyReLU(negative_slope=0.2, inplace=True)"),
        (nn.ELU(), "ELU(alpha=1.0)"),
        (nn.PReLU(3), "PReLU(num_parameters=3)"),
        (nn.Softplus(), "Softplus(beta=1.0, threshold=20.0)"),
        (nn.LogSoftmax(-1), "LogSoftmax(dim=-1)"),
        (nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
        (nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
        (nn.CrossEntropyLoss(), "CrossEntropyLoss()"),
        (
            nn.ParameterList([torch.ones(2, 3), 3]),
            "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2x3]\n"
            "    (1): Object of type: int\n)",
        ),
        (
            nn.ParameterDict({"a": torch.ones(2)}),
            "ParameterDict(  (a): Parameter containing: [torch.FloatTensor of size 2])",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_repr(module, text):
    assert repr(module) == text


def test_dir_lists_members():
    names = dir(Block())
    assert {"w", "child", "b", "plain", "forward"} <= set(names) and names == sorted(names)
    assert "0" not in dir(nn.Sequential(nn.ReLU()))


def test_deepcopy_is_independent_and_keeps_sharing():
    shared = nn.Linear(1, 1)
    original = nn.ModuleList([shared, shared])
    twin = copy.deepcopy(original)
    assert twin[0] is twin[1] and twin[0] is not shared
    with torch.no_grad():
        twin[0].weight.fill_(5)
    assert shared.weight.item() != 5


def test_pickle_round_trip():
    net = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)).eval()
    twin = pickle.loads(pickle.dumps(net))
    assert repr(twin) == repr(net) and not twin.training
    assert torch.equal(twin[0].weight, net[0].weight) and isinstance(twin[0].weight, nn.Parameter)


def test_compile_keeps_the_results():
    net = nn.Linear(2, 2)
    before = net(torch.ones(1, 2))
    net.compile()
    assert torch.equal(net(torch.ones(1, 2)), before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.ReLU(1, 2, 3), "ReLU.__init__() takes from 1 to 2 positional arguments but 4 were given"),
        (lambda: nn.ELU(gain=1), "ELU.__init__() got an unexpected keyword argument 'gain'"),
        (lambda: nn.Threshold(1), "Threshold.__init__() missing 1 required positional argument: 'value'"),
    ],
)
def test_wrong_arguments_of_a_layer_are_worded_by_python(call, message):
    with pytest.raises(TypeError) as error:
        call()
    assert str(error.value) == message


def test_conversions_swap_parameters_where_asked() -> None:
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    weight, gradient, number = layer.weight, layer.weight.grad, layer.weight._cdata
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.to(torch.float64)
        assert layer.weight is weight and weight.dtype is torch.float64 and weight._cdata != number
        assert weight.grad is gradient and gradient.dtype is torch.float64
        layer.load_state_dict({"weight": torch.ones(2, 2), "bias": torch.zeros(2)})
        assert layer.weight is weight and weight.tolist() == [[1, 1], [1, 1]] and weight.requires_grad
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert not torch.__future__.get_swap_module_params_on_conversion()


def test_conversions_make_new_parameters_where_asked() -> None:
    layer = torch.nn.Linear(2, 2)
    weight = layer.weight
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert layer.weight is not weight and weight.dtype is torch.float32 and layer.weight.dtype is torch.float64
    assert isinstance(layer.weight, torch.nn.Parameter) and layer.weight.requires_grad
