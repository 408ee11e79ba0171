"""torch.Generator: the stream of random words, with a state that is a tensor."""

from typing import Any

import numpy as np

from . import mersenne_twister
from .device import device
from .forks import free_in_children
from .tensor import Tensor, flush_pending, wrap


class Generator(mersenne_twister.Generator):
    """A source of random numbers for the CPU; the same seed gives PyTorch's numbers."""

    device: device

    def __new__(cls, device: Any = "cpu") -> "Generator":
        if cls is Generator and _device(device).type == "cuda":
            from .._backends.cuda.runtime import require

            require()
            from .._backends.cuda.generator import CudaGenerator

            cls = CudaGenerator
        elif cls is Generator and _device(device).type == "npu":
            from .._backends.npu.generator import NpuGenerator

            cls = NpuGenerator
        return object.__new__(cls)

    def __init__(self, device: Any = "cpu") -> None:
        where = _device(device)
        if where.type != "cpu":
            raise RuntimeError(f"Device type {where.type.upper()} is not supported for torch.Generator() api.")
        super().__init__(where)

    def _seed_with(self, seed: int) -> None:
        flush_pending[0]()  # recorded draws come first
        super()._seed_with(seed)

    def get_state(self) -> Tensor:  # type: ignore[override]
        """The state as a ByteTensor of PyTorch's 5056 bytes."""
        flush_pending[0]()
        return wrap(super().get_state())

    def set_state(self, new_state: Any) -> "Generator":
        """This generator, continuing from `new_state`."""
        flush_pending[0]()
        if isinstance(new_state, Tensor):
            new_state = new_state.numpy()
        elif not isinstance(new_state, np.ndarray):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        super().set_state(new_state)
        return self

    def clone_state(self) -> "Generator":
        return Generator(self.device).set_state(self.get_state())

    def graphsafe_get_state(self) -> "Generator":
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: "Generator") -> "Generator":
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def __reduce__(self) -> tuple:
        return Generator, (self.device,), (self.initial_seed(), None, self.get_state())


_device = device  # the constructor has a parameter of that name

default_generator = Generator()
default_generator.seed()
free_in_children(default_generator._lock)
