"""The state of the default generator: seeding it, reading it, keeping it."""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

from ._core.device import device
from ._core.generator import Generator, default_generator
from ._core.tensor import Tensor

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
           "thread_safe_generator"]


def manual_seed(seed: Any) -> Generator:
    """The default generator, started anew from `seed`."""
    for place in ("npu.seeds", "cuda.generator"):  # a device that was never used needs no seed
        seeds = sys.modules.get(f"{__package__}._backends.{place}")
        if seeds is not None:
            seeds.seed_all(int(seed))
    return default_generator.manual_seed(int(seed))  # type: ignore[return-value]


def seed() -> int:
    """A seed from the operating system, now in use."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was given."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, as bytes in a tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Puts the default generator into a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


def thread_safe_generator() -> Generator | None:
    """The generator of a DataLoader's worker that is a thread; None, since workers are processes here."""
    return None


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices",
             device_type: str = "cuda") -> Iterator[None]:
    """Context at whose end the default generator, and those of devices, are as they were before."""
    if not enabled:
        yield
        return
    state: Any = get_rng_state()
    module: Any = getattr(importlib.import_module(__package__), device(device_type).type, None)
    if devices is None:
        devices = range(module.device_count()) if hasattr(module, "device_count") else ()
    kept = [(where, module.get_rng_state(where)) for where in devices]
    try:
        yield
    finally:
        set_rng_state(state)
        for where, of_device in kept:
            module.set_rng_state(of_device, where)
