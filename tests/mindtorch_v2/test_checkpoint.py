"""torch.utils.checkpoint: the same values and gradients, with the second run in backward."""

import contextlib
import gc
import weakref
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.utils._python_dispatch import TorchDispatchMode
from mindtorch_v2.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))


def gradients(model, run):
    """Gradients of the input and of the weights after one run from a fixed seed."""
    torch.manual_seed(1)
    model.zero_grad()
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    run(x).sum().backward()
    return [x.grad, *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_are_those_of_a_plain_run(model, reentrant):
    plain = gradients(model, model)
    again = gradients(model, lambda x: checkpoint(model, x, use_reentrant=reentrant))
    parts = gradients(model, lambda x: checkpoint_sequential(model, 2, x, use_reentrant=reentrant))
    for expected, one, other in zip(plain, again, parts, strict=True):
        assert torch.equal(expected, one) and torch.equal(expected, other)


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_function_runs_once_more_in_backward(reentrant):
    runs = []

    def squared(x):
        runs.append(x)
        return (x * x).sin()

    x = torch.ones(2, requires_grad=True)
    y = checkpoint(squared, x, use_reentrant=reentrant)
    assert len(runs) == 1
    y.sum().backward()
    assert len(runs) == 2


def test_without_grad_nothing_is_kept():
    with torch.no_grad():
        assert not checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False).requires_grad


def test_keywords_and_outputs_that_are_no_tensors():
    def function(x, *, scale):
        return x * scale, "text"

    y, text = checkpoint(function, torch.ones(2, requires_grad=True), scale=3.0, use_reentrant=False)
    assert text == "text" and y.tolist() == [3, 3]
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(function, torch.ones(2), scale=3.0, use_reentrant=True)


def test_nested_checkpoints(model):
    plain = gradients(model, model)
    inner = lambda x: checkpoint(model[:2], x, use_reentrant=False)  # noqa: E731
    outer = lambda x: checkpoint(lambda v: model[3](model[2](inner(v))), x, use_reentrant=False)  # noqa: E731
    for expected, got in zip(plain, gradients(model, outer), strict=True):
        assert torch.equal(expected, got)


def test_a_second_run_that_differs_is_reported():
    runs = []

    def changing(x):
        runs.append(1)
        return (x * x).sin() if len(runs) == 1 else x * 2

    y = checkpoint(changing, torch.ones(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError, match="different number of tensors"):
        y.sum().backward()


def test_a_second_run_with_other_shapes_is_reported():
    runs = []

    def changing(x):
        runs.append(1)
        return (x[: len(runs)] * x[: len(runs)]).sum()

    y = checkpoint(changing, torch.ones(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        y.backward()


def test_early_stop_may_be_switched_off():
    ends = []

    def function(x):
        y = x.sin()
        ends.append(1)
        return y

    for stop, expected in ((True, 1), (False, 2)):
        ends.clear()
        with set_checkpoint_early_stop(stop):
            checkpoint(function, torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()
        assert len(ends) == expected


def test_reentrant_refuses_gradients_of_inputs_only():
    x = torch.ones(2, requires_grad=True)
    y = checkpoint(torch.sin, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="incompatible with .grad"):
        torch.autograd.grad(y.sum(), x)


def test_the_missing_choice_warns():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(torch.sin, torch.ones(2, requires_grad=True))


def test_second_derivatives_go_through_a_checkpoint():
    """The gradient penalty of WGAN-GP."""

    def penalty(run):
        x = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(run(x), x, create_graph=True)
        ((slope.norm() - 1) ** 2).backward()
        return x.grad

    def function(x):
        return ((x * 2).exp() * x.sin()).sum()

    again = penalty(lambda x: checkpoint(function, x, use_reentrant=False))
    nested = penalty(
        lambda x: checkpoint(lambda x: checkpoint(function, x, use_reentrant=False), x, use_reentrant=False)
    )
    assert torch.equal(penalty(function), again) and torch.equal(again, nested)


class Exponential(torch.autograd.Function):
    """Saves its output as well as its input, and remembers its outputs weakly."""

    outputs: list = []

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(x, result)
        Exponential.outputs.append(weakref.ref(result))
        return result

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[1]


def test_a_custom_function_leaves_no_cycle():
    x = torch.ones(3, requires_grad=True)
    Exponential.outputs.clear()
    gc.disable()
    try:
        checkpoint(lambda x: Exponential.apply(x * 1.0) * 2.0, x, use_reentrant=False).sum().backward()
        assert [ref() is None for ref in Exponential.outputs] == [True, True]
    finally:
        gc.enable()


class UnpacksTwice(Exponential):
    @staticmethod
    def backward(ctx, grad):
        ctx.saved_tensors  # noqa: B018 - looking is the point
        return grad * ctx.saved_tensors[1]


def test_saved_tensors_may_be_asked_for_once_in_a_pass():
    x = torch.ones(3, requires_grad=True)
    made = checkpoint(lambda x: UnpacksTwice.apply(x), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="Unpack is being triggered for a tensor that was already unpacked once"):
        made.sum().backward()


def test_an_input_that_was_written_is_noticed():
    x = torch.ones(3, requires_grad=True)
    made = checkpoint(lambda x: x.exp().sum(), x, use_reentrant=False)
    made.backward(retain_graph=True)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
        made.backward()


def test_a_check_of_determinism_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(torch.exp, torch.ones(1), use_reentrant=False, determinism_check="some")


def test_a_tensor_that_two_formulas_name_is_unpacked_once() -> None:
    """The divisor is saved for the gradients of both operands; a checkpoint gives it out a single time."""
    unpacked = []

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        unpacked.append(tensor)
        return tensor

    x, y = (torch.tensor([1.0, 2.0, 4.0], requires_grad=True) for _ in range(2))
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        (x / y).sum().backward()
    assert len(unpacked) == 2 and x.grad.tolist() == [1, 0.5, 0.25] and y.grad.tolist() == [-1, -0.5, -0.25]
    y.grad = None
    checkpoint(torch.div, x, y, use_reentrant=False).sum().backward()
    assert y.grad.tolist() == [-1, -0.5, -0.25]


# selective checkpointing ---------------------------------------------------------------------------------------------


def test_results_of_chosen_operators_are_kept() -> None:
    seen: list[str] = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def function(x: Any) -> Any:
        return torch.mm(x.cos(), x).sin()

    x = torch.tensor([[0.5, 1.0], [1.5, 2.0]], requires_grad=True)
    (expected,) = torch.autograd.grad(function(x).sum(), x)
    for policy in ([torch.ops.aten.mm.default], lambda ctx, op, *args, **kwargs: op == torch.ops.aten.mm.default):
        seen.clear()
        with Seen():
            out = checkpoint(function, x, use_reentrant=False,
                             context_fn=lambda policy=policy: create_selective_checkpoint_contexts(policy))
            assert seen.count("aten.mm.default") == 1
            (found,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
        assert seen.count("aten.mm.default") == 3  # one more for each gradient
        assert seen.count("aten.cos.default") == 3  # again, and in the gradient of sin
        torch.testing.assert_close(found, expected)
        with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
            torch.autograd.grad(out.sum(), x)


def test_policies_are_asked_once_and_checked() -> None:
    asked = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        asked.append((ctx.is_recompute, str(op), ctx.op_output.shape))
        return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.sin.default else CheckpointPolicy.PREFER_RECOMPUTE

    def run(function: Any, **options: Any) -> Any:
        x = torch.ones(2, requires_grad=True)
        return checkpoint(function, x, use_reentrant=False,
                          context_fn=lambda: create_selective_checkpoint_contexts(policy, **options))

    run(lambda x: x.sin().exp()).sum().backward()
    assert asked == [(False, "aten.sin.default", (2,)), (False, "aten.exp.default", (2,))]
    with pytest.raises(RuntimeError, match="has been mutated"):
        run(lambda x: x.sin().mul_(2).cos()).sum().backward()
    run(lambda x: x.sin().mul_(2).cos(), allow_cache_entry_mutation=True).sum().backward()
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        create_selective_checkpoint_contexts([torch.sin])
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(2)


def test_several_passes_share_what_is_computed_again() -> None:
    runs = []

    def function(x: Any) -> Any:
        runs.append(x)
        y = x.sin().cos()
        return y, y.sin().cos()

    x = torch.ones(2, requires_grad=True)
    y, z = checkpoint(function, x, use_reentrant=False)
    with torch.utils.checkpoint.GraphExecGroup():
        (upper,) = torch.autograd.grad(z, y, torch.ones(2))
        torch.autograd.grad(y, x, upper)
    assert len(runs) == 2


def test_a_checkpointed_graph_is_freed_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        x = torch.ones(2, requires_grad=True)
        out = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
        node = weakref.ref(out.grad_fn)
        del out
        assert node() is None
    finally:
        gc.enable()


def test_a_context_that_hides_a_failure_is_refused() -> None:
    class Hiding(contextlib.nullcontext):
        def __exit__(self, *error: object) -> bool:
            return True

    def fails(x: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(RuntimeError, match="context_fn suppressed|suppressed an exception"):
        checkpoint(fails, torch.ones(1, requires_grad=True), use_reentrant=False,
                   context_fn=lambda: (Hiding(), contextlib.nullcontext()))
