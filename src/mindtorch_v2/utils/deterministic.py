"""What torch.use_deterministic_algorithms does beyond choosing algorithms."""

import sys
from types import ModuleType

from .._core.determinism import determinism


class _DeterministicModule(ModuleType):
    """A module whose switch programs set by assignment."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether deterministic mode fills the memory of `empty` and its like."""
        return determinism.fill_uninitialized_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, fill: bool) -> None:
        determinism.set_fill(fill)


sys.modules[__name__].__class__ = _DeterministicModule
