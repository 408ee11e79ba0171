"""no_grad, enable_grad, set_grad_enabled and inference_mode: contexts, decorators, generators, threads."""

import threading
from collections.abc import Iterator

import pytest

import mindtorch_v2 as torch


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_contexts_nest_and_restore(x: torch.Tensor) -> None:
    with torch.no_grad():
        assert not torch.is_grad_enabled() and not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
            with torch.set_grad_enabled(False):
                assert not (x * 2).requires_grad
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
    assert (x * 2).requires_grad


def test_an_exception_restores_the_mode() -> None:
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        1 / 0
    assert torch.is_grad_enabled()


def test_set_grad_enabled_acts_at_once() -> None:
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    assert torch.is_grad_enabled()


def test_the_switch_shows_itself() -> None:
    assert str(torch.set_grad_enabled(True)) == "torch.autograd.grad_mode.set_grad_enabled(mode=True)"


def test_decorated_functions() -> None:
    @torch.no_grad()
    def off() -> bool:
        return torch.is_grad_enabled()

    @torch.no_grad
    def bare() -> bool:
        return torch.is_grad_enabled()

    @torch.enable_grad()
    def on() -> bool:
        return torch.is_grad_enabled()

    @torch.set_grad_enabled(False)
    def switched() -> bool:
        return torch.is_grad_enabled()

    @torch.inference_mode()
    def inference() -> bool:
        return torch.is_inference_mode_enabled()

    assert torch.is_grad_enabled()
    assert (off(), bare(), switched(), inference()) == (False, False, False, True)
    assert off.__name__ == "off"
    with torch.no_grad():
        assert on() is True
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_a_decorated_function_may_recurse() -> None:
    @torch.no_grad()
    def count(n: int) -> int:
        return n if n == 0 else count(n - 1) + (not torch.is_grad_enabled())

    assert count(3) == 3
    assert torch.is_grad_enabled()


def test_decorated_generators_switch_at_each_step() -> None:
    received = []

    @torch.no_grad()
    def steps() -> Iterator[bool]:
        received.append((yield torch.is_grad_enabled()))
        try:
            yield torch.is_grad_enabled()
        except ValueError:
            yield torch.is_grad_enabled()
        return "end"

    generator = steps()
    seen = [next(generator), torch.is_grad_enabled(), generator.send("sent"), torch.is_grad_enabled()]
    seen += [generator.throw(ValueError), torch.is_grad_enabled()]
    assert seen == [False, True, False, True, False, True]
    assert received == ["sent"]
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "end"


def test_a_closed_generator_runs_its_finally_in_the_mode() -> None:
    seen = []

    @torch.no_grad()
    def steps() -> Iterator[int]:
        try:
            yield 1
        finally:
            seen.append(torch.is_grad_enabled())

    generator = steps()
    next(generator)
    generator.close()
    assert seen == [False]
    assert torch.is_grad_enabled()


def test_modes_are_of_the_thread() -> None:
    seen = {}

    def look() -> None:
        seen["inside"] = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    with torch.no_grad():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == {"inside": True}
    assert torch.is_grad_enabled()


# inference mode ------------------------------------------------------------------------------------------------------


def test_results_of_inference_mode_are_inference_tensors(x: torch.Tensor) -> None:
    with torch.inference_mode():
        y = x * 2
        z = torch.ones(2)
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        assert y.is_inference() and z.is_inference() and not x.is_inference()
        assert not y.requires_grad
        y.add_(1)
    assert y.tolist() == [3.0, 5.0]
    assert y.is_inference() and not torch.is_inference_mode_enabled()
    assert not torch.ones(2).is_inference()


def test_inference_mode_can_be_off(x: torch.Tensor) -> None:
    with torch.inference_mode(), torch.inference_mode(False):
        assert (x * 2).requires_grad
        assert not torch.is_inference_mode_enabled()
    with torch.inference_mode(mode=False):
        assert torch.is_grad_enabled()


def test_an_inference_tensor_is_not_written_outside() -> None:
    with torch.inference_mode():
        y = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        torch.add(y, 1, out=y)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        torch._foreach_add_([torch.ones(2), y], 1)
    with torch.inference_mode():
        torch._foreach_add_([torch.ones(2), y], 1)
        assert y.mul_(0).tolist() == [0.0, 0.0]


def test_an_inference_tensor_is_not_saved_for_backward(x: torch.Tensor) -> None:
    with torch.inference_mode():
        y = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * y
    (x + y).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    (x * y.clone()).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_inference_tensor_cannot_come_to_require_grad_outside() -> None:
    with torch.inference_mode():
        y = torch.ones(2)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        y.requires_grad_()


def test_an_inference_tensor_has_no_version() -> None:
    with torch.inference_mode():
        y = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        y._version


def test_a_normal_tensor_may_be_written_in_inference_mode() -> None:
    y = torch.ones(2)
    version = y._version
    with torch.inference_mode():
        y.add_(1)
    assert y.tolist() == [2.0, 2.0] and not y.is_inference() and y._version == version + 1


def test_a_view_made_in_inference_mode_is_not_written_outside() -> None:
    base = torch.ones(2, requires_grad=True).clone()
    with torch.inference_mode():
        view = base[:1]
    assert not view.is_inference()
    with pytest.raises(
        RuntimeError, match="A view was created in inference mode and is being modified inplace in normal mode"
    ):
        view.add_(1)


def test_an_inference_tensor_seen_as_another_type_outside_counts_writes() -> None:
    with torch.inference_mode():
        made = torch.ones(2)
        assert made.view(torch.int32).is_inference()
    shown = made.view(torch.int32)
    assert not shown.is_inference() and shown._version == 0
    shown.zero_()
    assert shown._version == 1 and made.tolist() == [0, 0]


def test_a_tensor_seen_as_another_type_in_inference_mode_does_not_count_writes() -> None:
    made = torch.ones(2)
    with torch.inference_mode():
        shown = made.view(torch.int32)
        shown.zero_()
    assert shown.is_inference() and made._version == 0 and made.tolist() == [0, 0]
