"""Generators of random numbers on GPUs: a seed, and how many draws were made.

Their numbers have the right distributions and follow `manual_seed`, but are not those that a CPU draws. While a graph
is captured, the kernels read seed and offset from memory that each replay sets anew.
"""

import functools
import secrets
import threading
from typing import Any

import numpy as np

from ..._core.generator import Generator
from ..._core.generator import default_generator as cpu_generator
from ..._core.mersenne_twister import DEFAULT_SEED
from ..._core.tensor import Tensor, wrap
from .runtime import current_device, device_count, device_of, index_of


class CudaGenerator(Generator):
    """Where a stream of random numbers of a device stands: a seed, and how many draws were made."""

    def __init__(self, device: Any = "cuda") -> None:
        self.device = device_of(index_of(device))
        self._seed, self._offset = DEFAULT_SEED, 0
        self._lock = threading.Lock()
        self.capture: Any = None  # the graph that is being captured with draws of this generator

    @property
    def _bits(self) -> Any:  # type: ignore[override]
        """What a CPU would draw from."""
        raise RuntimeError("Expected a 'cpu' device type for generator but found 'cuda'")

    def taken(self) -> tuple[int, int, int]:
        """Seed, offset and, in a capture, the address of what each replay adds to it, for one draw."""
        with self._lock:
            if self.capture is not None:
                return 0, self.capture.next_draw(self), self.capture.random_state(self)
            self._offset += 1
            return self._seed, self._offset - 1, 0

    def manual_seed(self, seed: int) -> "CudaGenerator":
        """This generator, started anew."""
        self._seed, self._offset = int(seed) % (1 << 64), 0
        return self

    def seed(self) -> int:
        """A fresh seed from the operating system, now in use."""
        self.manual_seed(secrets.randbits(64))
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def get_offset(self) -> int:
        return self._offset

    def set_offset(self, offset: int) -> "CudaGenerator":  # type: ignore[override]
        self._offset = int(offset)
        return self

    def get_state(self) -> Tensor:  # type: ignore[override]
        """Seed and offset as a ByteTensor of 16 bytes, on the CPU."""
        return wrap(np.array([self._seed, self._offset], np.uint64).view(np.uint8))

    def set_state(self, new_state: Any) -> "CudaGenerator":
        words = np.ascontiguousarray(new_state.numpy() if isinstance(new_state, Tensor) else new_state)
        if words.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if words.size != 16:
            raise RuntimeError("RNG state is wrong size")
        self._seed, self._offset = map(int, words.view(np.uint64))
        return self

    def clone_state(self) -> "CudaGenerator":
        return CudaGenerator(self.device).set_state(self.get_state())

    def __reduce__(self) -> tuple:
        return _restored, (str(self.device), self._seed, self._offset)


def _restored(where: str, seed: int, offset: int) -> CudaGenerator:
    return CudaGenerator(where).manual_seed(seed).set_offset(offset)


@functools.cache
def _default_generators() -> tuple[CudaGenerator, ...]:
    made = tuple(CudaGenerator(index) for index in range(device_count()))
    for generator in made:
        generator.manual_seed(_initial[-1] if _initial else cpu_generator.initial_seed())
    return made


_initial: list[int] = []  # the seed of the last manual_seed, for devices first used later


def default_generator(index: int | None = None) -> CudaGenerator:
    return _default_generators()[current_device() if index is None else index]


def seed_all(seed: int) -> None:
    """Starts all devices anew."""
    _initial[:] = [seed]
    if _default_generators.cache_info().currsize:
        for generator in _default_generators():
            generator.manual_seed(seed)


def generator_for(given: Any, index: int) -> CudaGenerator:
    """The generator that an operator was given, or the device's own; RuntimeError for one of another device."""
    if given is None:
        return default_generator(index)
    if not isinstance(given, CudaGenerator):
        raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{given.device.type}'")
    return given
