"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn


def layer(size):
    return nn.Linear(size, size, bias=False)


def sizes(modules):
    return [module.in_features for module in modules]


def names(module):
    return [name for name, _ in module.named_children()]


def test_sequential_indexing():
    net = nn.Sequential(layer(1), layer(2), layer(3))
    assert (net[0].in_features, net[-1].in_features) == (1, 3)
    assert isinstance(net[1:], nn.Sequential) and sizes(net[1:]) == [2, 3]
    for index in (3, -4):
        with pytest.raises(IndexError) as error:
            net[index]
        assert str(error.value) == f"index {index} is out of range"
    net[1] = layer(9)
    assert sizes(net) == [1, 9, 3]
    del net[0]
    assert sizes(net) == [9, 3] and names(net) == ["0", "1"]


def test_sequential_arithmetic():
    net = nn.Sequential(layer(1), layer(2))
    assert sizes(net + nn.Sequential(layer(3))) == [1, 2, 3]
    assert sizes(net * 2) == sizes(2 * net) == [1, 2, 1, 2]
    net += nn.Sequential(layer(4))
    net *= 2
    assert sizes(net) == [1, 2, 4, 1, 2, 4]
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class, but <class 'int'>"):
        net + 3
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0 for <class"):
        net * 0
    with pytest.raises(TypeError, match="unsupported operand type"):
        net * 1.5


def test_sequential_changes():
    net = nn.Sequential(layer(1))
    assert sizes(net.append(layer(2)).extend([layer(3), layer(4)]).insert(1, layer(9))) == [1, 9, 2, 3, 4]
    assert net.pop(0).in_features == 1 and sizes(net.pop(slice(0, 2))) == [9, 2] and sizes(net) == [3, 4]
    with pytest.raises(AssertionError, match="module should be of type"):
        net.insert(0, 3)
    with pytest.raises(IndexError, match="Index out of range: 99"):
        net.insert(99, layer(1))


def test_sequential_of_an_ordered_dict():
    net = nn.Sequential(OrderedDict(a=layer(1), b=layer(1)))
    assert names(net) == ["a", "b"] and net.a is net[0] and names(net[1:]) == ["b"]
    assert net(torch.ones(1, 1)).shape == (1, 1)


def test_module_list():
    modules = nn.ModuleList([layer(1), layer(2)])
    modules.append(layer(3)).extend([layer(4)])
    modules.insert(0, layer(9))
    modules += [layer(5)]
    assert sizes(modules) == [9, 1, 2, 3, 4, 5]
    assert isinstance(modules[1:3], nn.ModuleList) and sizes(modules[::-1]) == [5, 4, 3, 2, 1, 9]
    del modules[1:3]
    assert sizes(modules) == [9, 3, 4, 5] and names(modules) == ["0", "1", "2", "3"]
    assert modules.pop(-1).in_features == 5 and sizes(modules + [layer(7)]) == [9, 3, 4, 7] and len(modules) == 3
    assert modules[0] in modules and layer(1) not in modules
    with pytest.raises(TypeError, match="ModuleList.extend should be called with an iterable, but got int"):
        modules.extend(3)
    with pytest.raises(NotImplementedError):
        modules()


def test_module_dict():
    modules = nn.ModuleDict({"b": layer(1), "a": layer(2)})
    modules["x"] = layer(4)
    modules.update([("y", layer(5))])
    modules.update(nn.ModuleDict({"a": layer(7)}))
    assert list(modules) == ["b", "a", "x", "y"] and sizes(modules.values()) == [1, 7, 4, 5]
    assert "a" in modules and len(modules) == 4 and modules.pop("a").in_features == 7
    del modules["x"]
    assert list(modules.keys()) == ["b", "y"] and [key for key, _ in modules.items()] == ["b", "y"]
    with pytest.raises(TypeError, match="ModuleDict.update should be called with an iterable of key/value pairs"):
        modules.update(3)
    with pytest.raises(ValueError, match="ModuleDict update sequence element #0 has length 3; 2 is required"):
        modules.update([(1, 2, 3)])
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        modules["keys"] = layer(1)
    modules.clear()
    assert len(modules) == 0


def test_parameter_list():
    values = nn.ParameterList([torch.ones(1), nn.Parameter(torch.ones(2)), 3])
    values.append(torch.ones(3)).extend([torch.ones(4)])
    values += [torch.ones(5)]
    assert [type(value) is nn.Parameter for value in values] == [True, True, False, True, True, True]
    assert list(values.state_dict()) == ["0", "1", "3", "4", "5"] and len(list(values.parameters())) == 5
    values[0] = torch.zeros(1)
    assert values[0].tolist() == [0.0] and isinstance(values[0], nn.Parameter) and len(values[:2]) == 2
    with pytest.raises(IndexError, match="index 10 is out of range"):
        values[10]
    with pytest.raises(TypeError, match="ParameterList.extend should be called with an iterable, but got Tensor"):
        values.extend(torch.ones(2))
    with pytest.raises(RuntimeError, match="ParameterList should not be called."):
        values()


def test_parameter_dict():
    values = nn.ParameterDict({"b": torch.ones(1), "a": nn.Parameter(torch.ones(2)), "c": 3})
    assert list(values) == ["a", "b", "c"] and list(reversed(values)) == ["c", "b", "a"]
    assert isinstance(values["b"], nn.Parameter) and values["c"] == 3 and len(values) == 3
    assert values.popitem() == ("c", 3) and values.pop("a").shape == (2,) and list(values.state_dict()) == ["b"]
    assert values.get("nope") is None and values.get("nope", 4) == 4
    assert isinstance(values.setdefault("s", torch.ones(1)), nn.Parameter)
    values.update(OrderedDict(z=torch.ones(1), y=torch.ones(1)))
    assert list(values.copy()) == ["b", "s", "z", "y"] and list(values.fromkeys(["k", "l"], 0).items()) == [
        ("k", 0),
        ("l", 0),
    ]
    merged = values | nn.ParameterDict({"b": torch.zeros(1)})
    assert merged["b"].tolist() == [0.0] and values["b"].tolist() == [1.0]
    values |= nn.ParameterDict({"n": torch.zeros(1)})
    assert "n" in values
    with pytest.raises(TypeError, match="Index given to ParameterDict cannot be used as a key as it is not a string"):
        values[3]
    values.clear()
    assert len(values) == 0 and not list(values.parameters())
