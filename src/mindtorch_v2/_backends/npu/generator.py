"""torch.Generator("npu"): a stream of random numbers of its own on a device."""

from typing import Any

import numpy as np

from ..._core.device import device
from ..._core.from_data import from_numpy
from ..._core.generator import Generator
from ..._core.mersenne_twister import DEFAULT_SEED
from .runtime import current_device
from .seeds import SeedState


class NpuGenerator(Generator):
    """A seed and an offset, which each draw moves on."""

    def __init__(self, device: Any = "npu") -> None:
        where = _device(device)
        self.device = where if where.index is not None else _device("npu", current_device())
        self.state = SeedState()
        self.state.start(DEFAULT_SEED)

    def manual_seed(self, seed: int) -> "NpuGenerator":
        self.state.start(int(seed))
        return self

    def seed(self) -> int:
        self.state.start(int(np.random.SeedSequence().generate_state(1, np.uint64)[0]))
        return self.state.seed

    def initial_seed(self) -> int:
        return self.state.seed

    def get_state(self) -> Any:
        return from_numpy(np.array([self.state.seed, self.state.offset], np.uint64).view(np.uint8))

    def set_state(self, new_state: Any) -> "NpuGenerator":
        self.state.seed, self.state.offset = map(int, np.ascontiguousarray(new_state.numpy()).view(np.uint64))
        return self

    def get_offset(self) -> int:
        return self.state.offset

    def set_offset(self, offset: int) -> "NpuGenerator":
        self.state.offset = int(offset)
        return self


_device = device
