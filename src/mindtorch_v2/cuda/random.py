"""torch.cuda.random: the generators of the devices."""

from collections.abc import Iterable
from typing import Any

from .._backends.cuda import runtime as _runtime

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
           "set_rng_state", "set_rng_state_all"]


def _generator(device: Any = None) -> Any:
    index = _runtime.index_of(device)
    from .._backends.cuda.generator import default_generator

    return default_generator(index)


def manual_seed(seed: int) -> None:
    """Starts the current device's random numbers anew; nothing happens without a device."""
    if _runtime.is_available():
        _generator().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Starts the random numbers of all devices anew; nothing happens without any."""
    if _runtime.is_available():
        from .._backends.cuda.generator import seed_all

        seed_all(int(seed))


def seed() -> None:
    """Starts the current device's random numbers at a seed from the operating system."""
    if _runtime.is_available():
        _generator().seed()


def seed_all() -> None:
    if _runtime.is_available():
        for index in range(_runtime.device_count()):
            _generator(index).seed()


def initial_seed() -> int:
    return _generator().initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """Seed and offset of a device as 16 bytes on the CPU."""
    return _generator(device).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[Any]:
    return [get_rng_state(i) for i in range(_runtime.device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
