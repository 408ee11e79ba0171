"""Optimizers and schedules go on from each other's checkpoints, PyTorch's and the library's."""

from typing import Any

import numpy as np
import pytest

real = pytest.importorskip("torch", reason="compares with the real PyTorch")

import mindtorch_v2 as ours  # noqa: E402

CASES: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}, "Adadelta": {}, "Adagrad": {}, "Adamax": {},
    "NAdam": {}, "RAdam": {}, "ASGD": {"t0": 1}, "RMSprop": {"momentum": 0.9, "centered": True}, "Rprop": {},
    "Adafactor": {}, "LBFGS": {"max_iter": 2},
}  # fmt: skip


def translated(value: Any, library: Any) -> Any:
    """A checkpoint with its tensors as the library's."""
    if hasattr(value, "detach"):
        return library.from_numpy(value.detach().numpy().copy())
    if isinstance(value, dict):
        return type(value)({key: translated(entry, library) for key, entry in value.items()})
    if isinstance(value, (list, tuple)):
        return type(value)(translated(entry, library) for entry in value)
    return value


def made(library: Any, name: str, start: np.ndarray) -> tuple[Any, Any]:
    parameter = library.nn.Parameter(library.from_numpy(start.copy()))
    return parameter, getattr(library.optim, name)([parameter], lr=0.1, **CASES[name])


def run(parameter: Any, optimizer: Any, steps: int) -> None:
    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((parameter - 0.3) ** 4).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


@pytest.mark.parametrize("origin", [real, ours], ids=["from PyTorch", "from the library"])
@pytest.mark.parametrize("name", CASES)
def test_checkpoints(name: str, origin: Any) -> None:
    """Both load the same checkpoint and come to the same numbers and the same state."""
    parameter, optimizer = made(origin, name, np.random.default_rng(0).standard_normal((3, 4)))
    run(parameter, optimizer, 3)
    ends, states = [], []
    for library in (real, ours):
        loaded, other = made(library, name, parameter.detach().numpy())
        other.load_state_dict(translated(optimizer.state_dict(), library))
        run(loaded, other, 3)
        ends.append(loaded.detach().numpy())
        states.append(other.state_dict())
    np.testing.assert_allclose(*ends, rtol=1e-10)
    assert states[0]["param_groups"] == states[1]["param_groups"]
    forms = [
        {key: (str(value.dtype), tuple(value.shape)) if hasattr(value, "dtype") else type(value)
         for key, value in state["state"][0].items()}
        for state in states
    ]  # fmt: skip
    assert forms[0] == forms[1]


@pytest.mark.parametrize(("first", "second"), [(real, ours), (ours, real)], ids=["from PyTorch", "to PyTorch"])
def test_schedules(first: Any, second: Any) -> None:
    def schedule(library: Any) -> Any:
        _, optimizer = made(library, "SGD", np.ones(2))
        place = library.optim.lr_scheduler
        parts = [place.LinearLR(optimizer, total_iters=3), place.CosineAnnealingLR(optimizer, 6)]
        return place.SequentialLR(optimizer, parts, [3])

    def rates(scheduler: Any) -> list[float]:
        found = []
        for _ in range(4):
            scheduler.optimizer.step()
            scheduler.step()
            found += scheduler.get_last_lr()
        return found

    one, two = schedule(first), schedule(second)
    rates(one)
    two.load_state_dict(one.state_dict())
    two.optimizer.load_state_dict(translated(one.optimizer.state_dict(), second))
    assert rates(one) == rates(two)
