"""torch._foreach_*: what is common to all of them. Their numbers are in test_trajectories.py."""

import pytest

import mindtorch_v2 as torch


def pair(**options):
    return [torch.ones(2, **options), torch.full((3,), 2.0, **options)]


A, B = pair()
INTEGERS = torch.ones(2, dtype=torch.int32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch._foreach_add([A, B], [A]), "Tensor lists must have the same number of tensors, got 2 and 1"),
        (lambda: torch._foreach_add_([A, B], [A]), "Tensor lists must have the same number of tensors, got 2 and 1"),
        (lambda: torch._foreach_add([], [A]), "Tensor lists must have the same number of tensors, got 0 and 1"),
        (lambda: torch._foreach_add([A], []), "Tensor list must have same number of elements as scalar list."),
        (lambda: torch._foreach_add([A, B], [1.0]), "Tensor list must have same number of elements as scalar list."),
        (lambda: torch._foreach_abs([]), "Tensor list must have at least one tensor."),
        (lambda: torch._foreach_add([], 1), "Tensor list must have at least one tensor."),
        (
            lambda: torch._foreach_mul([A], torch.ones(2)),
            "scalar tensor expected to be 0 dim but it has 1 dimensions and 2 elements.",
        ),
        (
            lambda: torch._foreach_addcmul([A], [A], [A, B], value=2),
            "Tensor lists must have the same number of tensors, got 1 and 2",
        ),
        (
            lambda: torch._foreach_addcmul([A], [A], [A], torch.ones(2)),
            "Expected length of scalars to match input of length 1 but got 2 instead.",
        ),
        (
            lambda: torch._foreach_addcdiv([A], [A], [A], torch.tensor(2.0)),
            "Expected packed scalar Tensor to be of dimension 1. Got 0 instead.",
        ),
        (
            lambda: torch._foreach_add([A], [B]),
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
        ),
        (
            lambda: torch._foreach_sigmoid_([INTEGERS]),
            "result type Float can't be cast to the desired output type Int",
        ),
        (
            lambda: torch._foreach_norm([torch.ones(0)], float("inf")),
            "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not have an "
            "identity",
        ),
        (
            lambda: torch._foreach_max([torch.ones(0)]),
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined.",
        ),
        (lambda: torch._foreach_mm([A], []), "_foreach_mm: self and mat2 must have the same number of tensors"),
        (lambda: torch._foreach_mm([], []), "_foreach_mm requires non-empty tensor lists"),
    ],
)
def test_errors(call, message):
    with pytest.raises(RuntimeError) as error:
        call()
    assert str(error.value) == message


def test_results_are_a_tuple_and_writes_give_back_what_was_given():
    tensors = pair()
    assert type(torch._foreach_neg(tensors)) is tuple
    assert torch._foreach_mul_(tensors, 2) is tensors
    assert [t.tolist() for t in tensors] == [[2.0, 2.0], [4.0, 4.0, 4.0]]
    in_tuple = tuple(tensors)
    assert torch._foreach_zero_(in_tuple) is in_tuple


def test_types_follow_the_operator():
    assert torch._foreach_div([INTEGERS], 2)[0].dtype == torch.float32
    assert torch._foreach_maximum([INTEGERS], 1.5)[0].tolist() == [1.5, 1.5]
    assert torch._foreach_norm([A], 1, torch.float64)[0].dtype == torch.float64
    assert torch._foreach_pow(2, [INTEGERS])[0].tolist() == [2, 2]
    assert torch._foreach_powsum([torch.tensor([1.5], dtype=torch.bfloat16)], 2)[0].item() == 2.25
    with pytest.raises(NotImplementedError, match="powsum_cpu"):
        torch._foreach_powsum([INTEGERS])


def test_devices_may_differ_between_positions():
    here, there = torch._foreach_add([A, torch.ones(3, device="meta")], 1)
    assert here.tolist() == [2.0, 2.0] and there.device.type == "meta"


def test_gradients():
    x, y = (t.requires_grad_() for t in pair())
    total = sum(t.sum() for t in torch._foreach_addcmul(torch._foreach_exp([x, y]), [x, y], [x, y], [2.0, 3.0]))
    total.backward()
    assert torch.allclose(x.grad, x.exp() + 4 * x) and torch.allclose(y.grad, y.exp() + 6 * y)
    rate = torch.tensor(2.0, requires_grad=True)
    sum(t.sum() for t in torch._foreach_mul(pair(), rate)).backward()
    assert rate.grad.item() == 8.0


def test_writes_follow_the_rules_of_autograd():
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        torch._foreach_mul_([leaf], 2)
    changed = leaf * 1
    torch._foreach_mul_([changed], [3.0])
    changed.sum().backward()
    assert leaf.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("step", [torch._fused_adam_, torch._fused_adamw_])
def test_fused_steps_check_types(step):
    options = {
        "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "amsgrad": False, "maximize": False,
    }  # fmt: skip

    def run(parameter, gradient):
        states = [torch.zeros_like(parameter)], [torch.zeros_like(parameter)]
        step([parameter], [gradient], *states, [], [torch.tensor(1.0)], **options)

    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        run(torch.ones(3), torch.ones(3, dtype=torch.float64))
    with pytest.raises(NotImplementedError, match="_kernel\" not implemented for 'Int'"):
        run(INTEGERS, INTEGERS)
    half = torch.ones(3, dtype=torch.bfloat16)
    before = half._version
    run(half, half.clone())
    assert half.tolist() == pytest.approx([0.9] * 3, rel=1e-2) and half._version > before
