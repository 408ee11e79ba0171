"""A training step copies nothing between host and device and never waits, unless the program asks for a value."""

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cuda.runtime import why_unavailable

if why_unavailable() is not None:  # here already, since what follows imports CuPy
    pytest.skip(f"no CUDA device ({why_unavailable()})", allow_module_level=True)

import cupy  # noqa: E402
from device_models import CASES, ONE_OF_EACH, step_of  # noqa: E402
from traffic import Refused, Traffic, blocking_stream, recorded  # noqa: E402

WARM_UP = 3  # kernels are compiled, states made, and the pool has what a step needs


def step_on_device(name: str, **options: Any) -> Callable[[], Any]:
    case = CASES[name]
    network, inputs, targets = case.on("cuda")
    optimizer = case.optimizer(network.parameters())
    schedule = case.schedule and case.schedule(optimizer)

    def step() -> Any:
        loss = step_of(network, inputs, targets, optimizer, case.clip, **options)
        if schedule:
            schedule.step()
        return loss

    return step


PRECISIONS = {"float32": {}, "bfloat16": {"precision": torch.bfloat16}}
every_step = pytest.mark.parametrize("name", [*ONE_OF_EACH, "gpt, sgd", "lstm, sgd"])


@pytest.mark.parametrize("precision", PRECISIONS)
@every_step
def test_a_step_neither_copies_nor_waits(name: str, precision: str) -> None:
    step = step_on_device(name, **PRECISIONS[precision])
    for _ in range(WARM_UP):
        loss = step()
    with Traffic() as seen:
        loss = step()
    assert (seen.copies, seen.waits) == (0, 0), seen
    with Traffic() as seen:
        loss.item()
    assert seen.copies == 1, seen


@pytest.mark.parametrize("precision", PRECISIONS)
@every_step
def test_the_driver_records_a_step_without_a_copy_or_wait(name: str, precision: str) -> None:
    """The same of everything below Python: CuPy's compiled code, cuBLAS and cuDNN."""
    with blocking_stream() as stream:
        step = step_on_device(name, **PRECISIONS[precision])
        for _ in range(WARM_UP):
            step()
        work = recorded(stream, step)
        assert work["kernel"] > 5, work  # it did record the step
        assert work["copy between host and device"] == work["call of the host"] == 0, work


# the counters count --------------------------------------------------------------------------------------------------

COSTS: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "item": (lambda x: x[0].item(), 1, 1),
    "cpu": (lambda x: x.cpu(), 1, 1),
    "tolist": (lambda x: x.tolist(), 1, 1),
    "float": (lambda x: float(x[1]), 1, 1),
    "if": (lambda x: bool(x[1] > 0), 1, 1),
    "numpy": (lambda x: x.cpu().numpy(), 1, 1),
    "to the device": (lambda x: torch.ones(4).to("cuda"), 1, 1),
    "tensor": (lambda x: torch.tensor([1.0, 2.0], device="cuda"), 1, 1),
    "copy_ from the host": (lambda x: x.copy_(torch.ones(8)), 1, 1),
    "copy_ to the host": (lambda x: torch.empty(8).copy_(x), 1, 1),
    "to the device from pinned memory": (lambda x: torch.ones(4).pin_memory().to("cuda", non_blocking=True), 1, 0),
    "device": (lambda x: torch.cuda.synchronize(), 0, 1),
    "stream": (lambda x: torch.cuda.current_stream().synchronize(), 0, 1),
    "event": (lambda x: torch.cuda.current_stream().record_event().synchronize(), 0, 1),
    "clone": (lambda x: x.clone(), 0, 0),
    "a computation": (lambda x: (x * 2).sum(), 0, 0),
    "CuPy's get": (lambda x: x._array.view.get(), 1, 1),
    "CuPy's item": (lambda x: x._array.view[0].item(), 1, 1),
}


@pytest.mark.parametrize("name", COSTS)
def test_what_a_call_counts(name: str) -> None:
    call, copies, waits = COSTS[name]
    x = torch.arange(1.0, 9.0, device="cuda")
    unwrapped = cupy.cuda.runtime.memcpyAsync, cupy.ndarray.get
    call(x)
    with Traffic() as seen:
        call(x)
    assert (seen.copies, seen.waits) == (copies, waits), seen
    assert unwrapped == (cupy.cuda.runtime.memcpyAsync, cupy.ndarray.get)


WAITS = ("item", "cpu", "float", "device", "stream", "to the device", "CuPy's get", "CuPy's item")


@pytest.mark.parametrize("name", WAITS)
def test_the_driver_refuses_to_record(name: str) -> None:
    call, _, _ = COSTS[name]
    with blocking_stream() as stream:
        x = torch.arange(1.0, 9.0, device="cuda")
        call(x)
        with pytest.raises(Refused):
            recorded(stream, lambda: call(x))
        assert (x * 2).sum().item() == 72  # the stream works on


def test_the_driver_lists_what_it_recorded() -> None:
    with blocking_stream() as stream:
        x = torch.arange(1.0, 9.0, device="cuda")
        host = torch.ones(8).pin_memory()
        target = torch.empty(8, device="cuda")
        x * 2
        assert recorded(stream, lambda: x * 2)["kernel"] == 1
        assert recorded(stream, lambda: x.clone())["copy on the device"] == 1
        queued = recorded(stream, lambda: cupy.cuda.runtime.memcpyAsync(
            target.data_ptr(), host.data_ptr(), 32, 1, stream.ptr))
        assert queued["copy between host and device"] == 1
