"""Random numbers on the device: CANN's operators take a seed and an offset, which each call moves on."""

import threading

from ..._core.generator import default_generator
from ..._core.mersenne_twister import DEFAULT_SEED

STEP = 4  # Philox makes four words at a time, so offsets are multiples of it


class SeedState:
    """Where a device's stream of random numbers stands."""

    __slots__ = ("offset", "seed")

    def __init__(self) -> None:
        self.seed, self.offset = DEFAULT_SEED, 0

    def start(self, seed: int) -> None:
        self.seed, self.offset = seed % (1 << 64), 0

    def taken(self, count: int) -> tuple[int, int]:
        """The seed (as a signed number, as most operators want it) and offset for `count` random numbers."""
        with _lock:
            seed, offset = self.seed, self.offset
            self.offset += -(-max(count, 1) // STEP) * STEP
        return (seed if seed < 1 << 63 else seed - (1 << 64)), offset


_lock = threading.Lock()
_states: dict[int, SeedState] = {}
_initial: list[int] = []  # the seed of manual_seed_all, for devices first used later


def seed_state(index: int) -> SeedState:
    state = _states.get(index)
    if state is None:
        with _lock:  # a state that others see has begun, with the seed that is set by then
            state = _states.get(index)
            if state is None:
                state = SeedState()
                state.start(_initial[-1] if _initial else default_generator.initial_seed())
                _states[index] = state
    return state


def seed_all(seed: int) -> None:
    """Starts all devices anew. Touches no device, so that seeding costs nothing where there is none."""
    with _lock:
        _initial[:] = [seed]
        for state in _states.values():
            state.start(seed)
