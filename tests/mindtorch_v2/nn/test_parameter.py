"""Parameter and Buffer."""

import copy
import pickle

import mindtorch_v2 as torch
from mindtorch_v2 import nn


def test_parameter_shares_data_and_requires_grad():
    data = torch.ones(2)
    parameter = nn.Parameter(data)
    data[0] = 5
    assert parameter.tolist() == [5.0, 1.0]
    assert parameter.requires_grad and parameter.is_leaf and not data.requires_grad
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)


def test_results_of_operations_are_plain_tensors():
    parameter = nn.Parameter(torch.ones(2))
    assert {type(parameter * 2), type(parameter.detach()), type(parameter.data), type(parameter.clone())} == {
        torch.Tensor
    }


def test_repr():
    assert repr(nn.Parameter(torch.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(nn.Parameter(torch.ones(1), False)) == "Parameter containing:\ntensor([1.])"


def test_deepcopy_and_pickle_keep_class_value_and_flag():
    parameter = nn.Parameter(torch.tensor([1.0, 2.0]), requires_grad=False)
    for twin in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(twin) is nn.Parameter
        assert twin.tolist() == [1.0, 2.0] and not twin.requires_grad
        twin.data[0] = 9
        assert parameter[0].item() == 1.0


def test_deepcopy_keeps_sharing():
    parameter = nn.Parameter(torch.ones(1))
    first, second = copy.deepcopy([parameter, parameter])
    assert first is second


def test_pickle_keeps_attributes_users_set_but_not_the_gradient():
    parameter = nn.Parameter(torch.ones(2))
    parameter.label = "x"
    (parameter * 2).sum().backward()
    twin = pickle.loads(pickle.dumps(parameter))
    assert twin.label == "x" and twin.grad is None


def test_buffer_is_a_marked_tensor():
    buffer = nn.Buffer(torch.ones(1), persistent=False)
    assert type(buffer) is torch.Tensor and isinstance(buffer, nn.Buffer) and buffer.persistent is False
    assert not isinstance(torch.ones(1), nn.Buffer) and not isinstance(torch.ones(1), nn.Parameter)
