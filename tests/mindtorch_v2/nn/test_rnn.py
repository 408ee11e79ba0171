"""Recurrent layers: packed sequences, derivatives of both kinds, and agreement of the forms they come in."""

import copy
import pickle

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn.utils import rnn

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN,
         "rnn_relu": lambda *args, **kwargs: nn.RNN(*args, nonlinearity="relu", **kwargs)}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind, *args, **kwargs):
    torch.manual_seed(5)
    return KINDS[kind](*args, dtype=torch.float64, **kwargs)


def sequences(*lengths, width=3):
    torch.manual_seed(7)
    return [torch.randn(length, width, dtype=torch.float64) for length in lengths]


def last(state):
    return state[0] if isinstance(state, tuple) else state


@every_kind
def test_packed_sequences_give_what_each_gives_alone(kind):
    module = made(kind, 3, 4, num_layers=2, bidirectional=True)
    alone = sequences(2, 5, 3)
    output, state = module(rnn.pack_sequence(alone, enforce_sorted=False))
    for number, (sequence, found) in enumerate(zip(alone, rnn.unpack_sequence(output), strict=True)):
        expected, expected_state = module(sequence)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(last(state)[:, number].detach().numpy(), last(expected_state).detach().numpy(),
                                   rtol=1e-10, atol=1e-12)


@every_kind
def test_gradients_of_packed_sequences(kind):
    module = made(kind, 2, 2, bidirectional=True, bias=False)
    names, weights = zip(*module.named_parameters(), strict=True)

    def run(data, *weights):
        packed = rnn.PackedSequence(data, torch.tensor([2, 1]))
        output, state = torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (packed,))
        return output.data, last(state)

    inputs = [torch.randn(3, 2, dtype=torch.float64, requires_grad=True), *(w.detach().clone().requires_grad_()
                                                                            for w in weights)]
    assert torch.autograd.gradcheck(run, inputs)


@every_kind
def test_recorded_gradients_can_be_differentiated(kind):
    module = made(kind, 2, 2)
    x = torch.randn(3, 1, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: module(x)[0], (x,))
    output = module(x)[0]
    plain = torch.autograd.grad(output.sum(), module.weight_hh_l0, retain_graph=True)[0]
    recorded = torch.autograd.grad(output.sum(), module.weight_hh_l0, create_graph=True)[0]
    np.testing.assert_allclose(plain.numpy(), recorded.detach().numpy(), rtol=1e-12, atol=1e-14)
    assert recorded.requires_grad and not plain.requires_grad


def test_hooks_of_inputs_run_once_when_the_gradient_is_recorded():
    module, seen = made("gru", 2, 2), []
    x = torch.randn(3, 1, 2, dtype=torch.float64, requires_grad=True)
    doubled = x * 2
    doubled.register_hook(seen.append)
    torch.autograd.grad(module(doubled)[0].sum(), x, create_graph=True)
    assert len(seen) == 1


@every_kind
def test_a_step_at_a_time_is_the_whole(kind):
    module = made(kind, 3, 4)
    x = torch.stack(sequences(5, 5), 1)
    whole, state = module(x)
    cell = {"lstm": torch.lstm_cell, "gru": torch.gru_cell, "rnn_tanh": torch.rnn_tanh_cell,
            "rnn_relu": torch.rnn_relu_cell}[kind]
    h = (torch.zeros(2, 4, dtype=torch.float64),) * 2 if kind == "lstm" else torch.zeros(2, 4, dtype=torch.float64)
    for step in range(5):
        h = cell(x[step], h, *module.all_weights[0])
        np.testing.assert_allclose(last(h).detach().numpy(), whole[step].detach().numpy(), rtol=1e-10, atol=1e-12)


def test_half_precision_and_meta():
    module = nn.LSTM(3, 4, 2).to(torch.bfloat16)
    output, (h, c) = module(torch.randn(5, 2, 3, dtype=torch.bfloat16))
    assert (output.dtype, h.dtype, c.dtype) == (torch.bfloat16,) * 3
    output, (h, c) = nn.LSTM(3, 4, 2, device="meta", batch_first=True)(torch.empty(2, 5, 3, device="meta"))
    assert (output.shape, h.shape, output.stride()) == ((2, 5, 4), (2, 2, 4), (4, 8, 1))
    output.sum().backward()


def test_dropout_between_layers_only_in_training():
    module = made("lstm", 3, 4, num_layers=2, dropout=1.0)
    x = torch.stack(sequences(5, 5), 1)
    assert not torch.equal(module(x)[0], module.eval()(x)[0])
    assert torch.equal(module(x)[0], module(x)[0])


def test_copies_and_pickles_keep_their_own_weights():
    module = made("lstm", 3, 4)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert list(other.state_dict()) == list(module.state_dict())
        with torch.no_grad():
            other.weight_hh_l0.zero_()
        assert other._flat_weights[1] is other.weight_hh_l0 and module.weight_hh_l0.abs().sum() > 0


def test_padding():
    a, b = torch.arange(3.0), torch.arange(1.0) + 5
    assert rnn.pad_sequence([a, b], batch_first=True, padding_value=-1).tolist() == [[0, 1, 2], [5, -1, -1]]
    assert rnn.pad_sequence([a, b], padding_side="left").tolist() == [[0, 0], [1, 0], [2, 5]]
    packed = rnn.pack_sequence([b, a], enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [2, 1, 1] and packed.sorted_indices.tolist() == [1, 0]
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, total_length=4)
    assert padded.tolist() == [[5, 0, 0, 0], [0, 1, 2, 0]] and lengths.tolist() == [1, 3]
    assert packed.double().data.dtype == torch.float64 and packed.to(torch.float32) is packed


def test_lengths_longer_than_the_hidden_state_are_refused():
    with pytest.raises(RuntimeError, match="Expected hidden size"):
        nn.GRU(3, 4)(torch.zeros(5, 2, 3), torch.zeros(1, 3, 4))


@pytest.mark.parametrize("layer", [nn.LSTM(4, 3), nn.LSTM(4, 3, 2, bidirectional=True), nn.LSTM(4, 3, proj_size=2),
                                   nn.GRU(4, 3, bidirectional=True), nn.RNN(4, 3)], ids=str)  # fmt: skip
def test_no_samples(layer):
    x = torch.randn(5, 0, 4, requires_grad=True)
    layer(x)[0].sum().backward()
    assert x.grad.shape == x.shape and not any(parameter.grad.any() for parameter in layer.parameters())


@pytest.mark.parametrize("cell", [nn.LSTMCell(4, 3), nn.GRUCell(4, 3), nn.RNNCell(4, 3)], ids=str)
def test_a_cell_with_no_samples(cell):
    x = torch.randn(0, 4, requires_grad=True)
    made = cell(x)
    (made if isinstance(made, torch.Tensor) else made[0] + made[1]).sum().backward()
    assert x.grad.shape == (0, 4) and not any(parameter.grad.any() for parameter in cell.parameters())
