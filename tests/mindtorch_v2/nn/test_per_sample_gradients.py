"""Gradients of samples, left in `grad_sample`, against a loop over the samples."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn.utils._expanded_weights import ExpandedWeight
from mindtorch_v2.nn.utils._per_sample_grad import call_for_per_sample_grads

F64 = {"dtype": torch.float64}


def models():
    yield "convolutions", nn.Sequential(nn.Conv2d(1, 4, 3, **F64), nn.GroupNorm(2, 4, **F64), nn.ReLU(), nn.Flatten(),
                                        nn.Linear(64, 5, **F64), nn.LayerNorm(5, **F64)), torch.randn(3, 1, 6, 6, **F64)
    yield "rows", nn.Linear(4, 2, **F64), torch.randn(3, 5, 4, **F64)
    yield "words", nn.Sequential(nn.Embedding(7, 4, **F64), nn.Linear(4, 2, **F64)), torch.randint(7, (3, 5))
    yield "images", nn.InstanceNorm2d(2, affine=True, **F64), torch.randn(3, 2, 4, 4, **F64)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(("model", "inputs"), [pytest.param(m, x, id=name) for name, m, x in models()])
def test_samples_get_the_gradients_of_a_loop(model, inputs, reduction):
    def loss(out):
        each = out.flatten(1).pow(3).sum(1)
        return each.sum() if reduction == "sum" else each.mean()

    loss(call_for_per_sample_grads(model, loss_reduction=reduction)(inputs)).backward()
    parameters = list(model.parameters())
    for i in range(len(inputs)):
        expected = torch.autograd.grad(loss(model(inputs[i : i + 1])), parameters)
        for parameter, grad in zip(parameters, expected, strict=True):
            torch.testing.assert_close(parameter.grad_sample[i], grad)
    for parameter in parameters:
        assert parameter.grad is None
        del parameter.grad_sample


def test_inputs_get_their_gradient():
    layer, x = nn.Linear(4, 2), torch.randn(3, 4, requires_grad=True)
    call_for_per_sample_grads(layer)(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(0).expand(3, 4))


def test_what_is_refused():
    layer, x = nn.Linear(4, 2), torch.randn(3, 4)
    for call, text in (
        (lambda: call_for_per_sample_grads("fail"), "Module passed must be nn.Module"),
        (lambda: call_for_per_sample_grads(layer, batch_size=1.5), "Batch size passed must be None or an integer"),
        (lambda: call_for_per_sample_grads(layer, batch_size=-1), "Batch size must be positive"),
        (lambda: call_for_per_sample_grads(layer, loss_reduction=""), "Expected loss_reduction argument to be sum or"),
        (lambda: call_for_per_sample_grads(layer, batch_size=4)(x), "to have batch size matching input"),
        (lambda: call_for_per_sample_grads(layer)(3), "cannot compute the batch size from the inputs"),
        (lambda: torch.add(x, ExpandedWeight(layer.bias, 3, loss_reduction="sum")), "cannot handle function add"),
        (lambda: call_for_per_sample_grads(layer)(x[0]), "expected input of at least rank 2, got of rank 1"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    call_for_per_sample_grads(layer)(x).sum().backward()
    with pytest.raises(RuntimeError, match="incorrect for multiple calls"):
        call_for_per_sample_grads(layer)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layers_give_samples_their_gradients(kind):
    layer = kind(3, 4, num_layers=2, bidirectional=True, batch_first=True, **F64)
    parameters, inputs, lengths = list(layer.parameters()), torch.randn(3, 5, 3, **F64), [5, 4, 2]
    packed = nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True)
    for given, ends in ((inputs, [5, 5, 5]), (packed, lengths)):
        output = call_for_per_sample_grads(layer, batch_size=3)(given)[0]
        (output.data if given is packed else output).pow(2).sum().backward()
        for i, end in enumerate(ends):
            expected = torch.autograd.grad(layer(inputs[i : i + 1, :end])[0].pow(2).sum(), parameters)
            for parameter, grad in zip(parameters, expected, strict=True):
                torch.testing.assert_close(parameter.grad_sample[i], grad)
        for parameter in parameters:
            del parameter.grad_sample
