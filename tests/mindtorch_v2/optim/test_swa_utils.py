"""Averages of models."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.optim import swa_utils


def averaged(steps=3, **options):
    """The average of a model whose numbers are 1, 2, 3, ..."""
    model = torch.nn.Linear(2, 1)
    model.register_buffer("seen", torch.zeros(1))
    average = swa_utils.AveragedModel(model, **options)
    for step in range(steps):
        with torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                tensor.fill_(step + 1.0)
        average.update_parameters(model)
    return average


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 2.0),
        ({"avg_fn": swa_utils.get_swa_avg_fn()}, 2.0),
        ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, 2.0),
        ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, 2.25),
        ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)}, 2.25),
    ],
)
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averages(options, expected, use_buffers):
    average = averaged(**options, use_buffers=use_buffers)
    assert average.module.weight.reshape(-1).tolist() == pytest.approx([expected] * 2)
    assert average.module.seen.item() == pytest.approx(expected if use_buffers else 3.0)
    assert average.n_averaged.item() == 3
    assert list(average.state_dict()) == ["n_averaged", "module.weight", "module.bias", "module.seen"]


def test_integers_are_averaged_too():
    for average in (swa_utils.get_swa_multi_avg_fn(), swa_utils.get_ema_multi_avg_fn(0.5)):
        mine, other = torch.tensor([2, 4]), torch.tensor([4, 8])
        average([mine], [other], torch.tensor(1))
        assert mine.tolist() == [3, 6]


def test_the_average_is_a_model():
    average = averaged()
    assert average(torch.ones(1, 2)).item() == pytest.approx(6.0)
    assert repr(average).startswith("AveragedModel(\n  (module): Linear(")


def test_errors():
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        averaged(avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_swa_multi_avg_fn())
    for make in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match=r"Invalid decay value 2 provided. Please provide a value in \[0,1\]"):
            make(2)


def test_models_without_batch_normalisation_stay():
    model = torch.nn.Linear(2, 1)
    model.eval()
    swa_utils.update_bn([torch.ones(1, 2)], model)
    assert not model.training
