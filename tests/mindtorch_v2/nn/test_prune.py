"""Pruning: masks, hooks, and what is left when it is made permanent."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn.utils import prune


def layer(values):
    made = nn.Linear(len(values[0]), len(values), bias=False)
    made.weight.data = torch.tensor(values)
    return made


NUMBERS = [[1.0, -5.0, 2.0], [4.0, 0.5, -3.0]]


def test_a_mask_and_the_original_take_the_parameters_place():
    pruned = prune.l1_unstructured(layer(NUMBERS), "weight", 2)
    assert list(pruned.state_dict()) == ["weight_orig", "weight_mask"]
    assert pruned.weight_mask.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert pruned.weight.tolist() == [[0, -5, 2], [4, 0, -3]]
    pruned(torch.ones(1, 3)).sum().backward()
    assert pruned.weight_orig.grad.tolist() == pruned.weight_mask.tolist()
    assert prune.is_pruned(nn.Sequential(pruned))


def test_forward_prunes_what_the_optimizer_changed():
    pruned = prune.l1_unstructured(layer(NUMBERS), "weight", 2)
    with torch.no_grad():
        pruned.weight_orig.add_(1)
    pruned(torch.ones(1, 3))
    assert pruned.weight.tolist() == [[0, -4, 3], [5, 0, -2]]


def test_remove_keeps_the_zeros_and_the_parameter():
    pruned = prune.l1_unstructured(layer(NUMBERS), "weight", 2)
    original = pruned.weight_orig
    prune.remove(pruned, "weight")
    assert pruned.weight is original and original.tolist() == [[0, -5, 2], [4, 0, -3]]
    assert not prune.is_pruned(pruned) and list(pruned.state_dict()) == ["weight"]
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(pruned, "weight")


@pytest.mark.parametrize(
    ("function", "arguments", "zeros"),
    [
        (prune.identity, (), 0),
        (prune.random_unstructured, (4,), 4),
        (prune.random_unstructured, (0.5,), 3),
        (prune.l1_unstructured, (0.34,), 2),
        (prune.random_structured, (1, 0), 3),
        (prune.random_structured, (0.67, 1), 4),
        (prune.ln_structured, (1, 2, 1), 2),
        (prune.ln_structured, (1, float("inf"), 0), 3),
    ],
)
def test_how_much_is_pruned(function, arguments, zeros):
    torch.manual_seed(0)
    pruned = function(layer(NUMBERS), "weight", *arguments)
    assert (pruned.weight_mask == 0).sum().item() == zeros


def test_the_channel_of_smallest_norm_goes():
    numbers = [[1.0, -5.0, 2.0], [3.0, 0.5, -3.0]]
    assert prune.ln_structured(layer(numbers), "weight", 1, 1, 1).weight.tolist() == [[0, -5, 2], [0, 0.5, -3]]
    assert prune.ln_structured(layer(NUMBERS), "weight", 1, 1, 0).weight.tolist() == [[1, -5, 2], [0, 0, 0]]


def test_a_second_pruning_sees_what_the_first_left():
    pruned = prune.ln_structured(layer(NUMBERS), "weight", 1, 1, 0)
    prune.l1_unstructured(pruned, "weight", 1)
    assert pruned.weight.tolist() == [[0, -5, 2], [0, 0, 0]]
    (hook,) = pruned._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer)
    assert [type(method).__name__ for method in hook] == ["LnStructured", "L1Unstructured"]
    prune.ln_structured(pruned, "weight", 1, 1, -1)
    assert pruned.weight.tolist() == [[0, -5, 0], [0, 0, 0]] and len(hook) == 3


def test_importance_scores_decide():
    scores = torch.tensor([[6.0, 1.0, 5.0], [4.0, 3.0, 2.0]])
    assert prune.l1_unstructured(layer(NUMBERS), "weight", 2, scores).weight.tolist() == [[1, 0, 2], [4, 0.5, 0]]


def test_global_pruning_compares_all_parameters():
    first, second = layer(NUMBERS), layer([[0.1, 9.0]])
    parameters = [(first, "weight"), (second, "weight")]
    prune.global_unstructured(parameters, prune.L1Unstructured, amount=3)
    assert first.weight.tolist() == [[0, -5, 2], [4, 0, -3]] and second.weight.tolist() == [[0, 9]]
    prune.global_unstructured(parameters, prune.L1Unstructured, amount=1)
    assert first.weight.tolist() == [[0, -5, 0], [4, 0, -3]]


def test_a_mask_of_ones_own():
    pruned = prune.custom_from_mask(layer(NUMBERS), "weight", torch.tensor([[1, 0, 0], [1, 1, 0]]))
    assert pruned.weight.tolist() == [[1, 0, 0], [4, 0.5, 0]]
    assert prune.CustomFromMask(torch.tensor([0, 1])).prune(torch.tensor([2.0, 3.0])).tolist() == [0, 3]


def test_a_container_gives_masks_the_type_of_the_tensor():
    container = prune.PruningContainer()
    container._tensor_name = "weight"
    method = prune.L1Unstructured(amount=2)
    method._tensor_name = "weight"
    container.add_pruning_method(method)
    mask = container.compute_mask(torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]]),
                                  torch.tensor([[1, 1, 1, 0], [1, 1, 0, 1]]))
    assert mask.dtype == torch.float32 and mask.tolist() == [[0, 0, 1, 0], [1, 1, 0, 1]]


def test_a_method_of_ones_own():
    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    pruned = layer(NUMBERS)
    EverySecond.apply(pruned, "weight")
    assert pruned.weight.tolist() == [[0, -5, 0], [4, 0, -3]]
    prune.l1_unstructured(pruned, "weight", 1)
    EverySecond.apply(pruned, "weight")
    assert pruned.weight.tolist() == [[0, 0, 0], [4, 0, 0]]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError,
         "amount=-1 should either be a float in the range [0, 1] or a non-negative integer"),
        (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError,
         "amount=1.5 should either be a float in the range [0, 1] or a non-negative integer"),
        (lambda m: prune.l1_unstructured(m, "weight", "x"), TypeError,
         "Invalid type for amount: x. Must be int or float."),
        (lambda m: prune.l1_unstructured(m, "weight", 7), ValueError,
         "amount=7 should be smaller than the number of parameters to prune=6"),
        (lambda m: prune.random_structured(m, "weight", 1, 2), IndexError,
         "Invalid index 2 for tensor of size torch.Size([2, 3])"),
        (lambda m: prune.random_structured(nn.Linear(2, 2), "bias", 1, 0), ValueError,
         "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape torch.Size([2]) "
         "with 1 dims"),
        (lambda m: prune.custom_from_mask(m, "weight", torch.ones(2)), AssertionError,
         "default_mask shape torch.Size([2, 3]) must match self.mask shape torch.Size([2])"),
        (lambda m: prune.l1_unstructured(m, "weight", 1, torch.ones(2)), AssertionError,
         "importance_scores should have the same shape as parameter weight of Linear(in_features=3, out_features=2, "
         "bias=False), got torch.Size([2]) vs torch.Size([2, 3])"),
        (lambda m: prune.global_unstructured(3, prune.L1Unstructured, amount=1), TypeError,
         "global_unstructured(): parameters is not an Iterable"),
        (lambda m: prune.PruningContainer().add_pruning_method(3), TypeError,
         "<class 'int'> is not a BasePruningMethod subclass"),
    ],
)
def test_errors_leave_the_module_as_it_was(call, kind, message):
    module = layer(NUMBERS)
    with pytest.raises(kind) as error:
        call(module)
    assert str(error.value) == message
    assert list(module.state_dict()) == ["weight"] and not module._forward_pre_hooks
