"""Layers beside the real PyTorch's: the table of tools/golden_layers.py, constructors, and what they refuse."""

import importlib.util
import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import mindtorch_v2

_tool = importlib.util.spec_from_file_location("golden_layers", Path(__file__).parents[2] / "tools/golden_layers.py")
golden_layers = importlib.util.module_from_spec(_tool)
_tool.loader.exec_module(golden_layers)

NAMES = sorted(name for name in dir(torch.nn) if inspect.isclass(getattr(torch.nn, name))
               and issubclass(getattr(torch.nn, name), torch.nn.Module))


@pytest.mark.parametrize("layer", golden_layers.LAYERS)
@pytest.mark.filterwarnings("ignore")
def test_layer_gives_the_same(layer):
    expected, numbers = golden_layers.run(torch, layer)
    what, found = golden_layers.run(mindtorch_v2, layer)
    assert what == expected
    for got, wanted in zip(found, numbers, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", NAMES)
def test_constructors_take_the_same_arguments(name):
    theirs, ours = (inspect.signature(getattr(library.nn, name).__init__) for library in (torch, mindtorch_v2))
    if "args" in theirs.parameters:
        pytest.skip("PyTorch's takes anything")
    assert [(p.name, p.kind) for p in ours.parameters.values()] == [(p.name, p.kind) for p in
                                                                    theirs.parameters.values()]
    for ours_, theirs_ in zip(ours.parameters.values(), theirs.parameters.values(), strict=True):
        if not callable(theirs_.default) and not inspect.isfunction(ours_.default):
            assert ours_.default == theirs_.default, ours_.name


REFUSED = """
    nn.RNN(3, 4, nonlinearity="x")
    nn.GRU(3, 4, proj_size=2)
    nn.LSTM(3, 4, proj_size=4)
    nn.LSTM(3, 0)
    nn.LSTM(3, 4, dropout=2)
    nn.LSTM(3, 4)(torch.zeros(5, 2, 4))
    nn.LSTM(3, 4)(torch.zeros(5, 2, 3), (torch.zeros(1, 3, 4), torch.zeros(1, 2, 4)))
    nn.GRU(3, 4)(torch.zeros(5, 2, 3), torch.zeros(2, 4))
    nn.GRU(3, 4)(torch.zeros(5, 2, 3).double())
    nn.LSTMCell(3, 4)(torch.zeros(2, 2, 3))
    nn.RNNCell(3, 4)(torch.zeros(2, 4))
    nn.utils.rnn.pack_padded_sequence(torch.zeros(3, 2, 1), [1, 3])
    nn.utils.rnn.pack_padded_sequence(torch.zeros(3, 2, 1), [3, 0])
    nn.utils.rnn.pad_sequence([])
    nn.BatchNorm2d(3)(torch.zeros(2, 3))
    nn.BatchNorm1d(3)(torch.zeros(1, 3))
    nn.InstanceNorm1d(3, affine=True)(torch.zeros(2, 4, 5))
    nn.GroupNorm(2, 3)
    nn.MultiheadAttention(8, 3)
    nn.MultiheadAttention(8, 2)(torch.zeros(4, 3, 8), torch.zeros(5, 3, 8), torch.zeros(4, 3, 8))
    nn.MultiheadAttention(8, 2)(*[torch.zeros(4, 3, 8)] * 3, is_causal=True)
    nn.Transformer(8, 2, 1, 1, 8)(torch.zeros(5, 2, 4), torch.zeros(4, 2, 8))
    nn.AdaptiveLogSoftmaxWithLoss(4, 10, [7, 4])
    nn.AdaptiveLogSoftmaxWithLoss(4, 10, [4])(torch.zeros(2, 4), torch.tensor([3, 10]))
    nn.EmbeddingBag(4, 3)(torch.tensor([0, 1]))
    nn.EmbeddingBag(4, 3, mode="max", scale_grad_by_freq=True)(torch.tensor([[0, 1]]))
    nn.MultiMarginLoss(p=3)
    nn.TripletMarginLoss(margin=0)
    nn.Softmax2d()(torch.zeros(3))
    nn.Unflatten(1, 3)
    nn.Hardtanh(2, 1)
    nn.functional.ctc_loss(torch.zeros(5, 2, 4), torch.ones(2, 3).long(), (6, 5), (3, 3))
    nn.functional.ctc_loss(torch.zeros(5, 2, 4), torch.ones(2, 3).long(), (5, 5), (3, 3), blank=4)
    nn.functional.embedding_bag(torch.tensor([7]), torch.zeros(5, 3), torch.tensor([0]))
    nn.functional.embedding_bag(torch.tensor([1]), torch.zeros(5, 3), torch.tensor([1]))
    nn.functional.scaled_dot_product_attention(torch.zeros(2), torch.zeros(2), torch.zeros(2))
    nn.functional.linear_cross_entropy(torch.zeros(2, 3), torch.zeros(4, 2), torch.tensor([0, 1]))
    torch.lstm_cell(torch.zeros(2, 3), [torch.zeros(2, 4)], torch.zeros(16, 3), torch.zeros(16, 4))
    torch.gru(torch.zeros(0, 2, 3), torch.zeros(1, 2, 4), [torch.zeros(12, 3), torch.zeros(12, 4)], False, 1, 0.0, False, False, False)
"""  # noqa: E501 - a call a line


@pytest.mark.parametrize("text", [line.strip() for line in REFUSED.strip().splitlines()])
def test_same_things_are_refused_in_the_same_words(text):
    def raised(library) -> tuple[str, str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Exception) as caught:  # noqa: PT011 - the type is what is compared
                eval(text, {"torch": library, "nn": library.nn})
        return type(caught.value).__name__, str(caught.value)

    assert raised(mindtorch_v2) == raised(torch)
