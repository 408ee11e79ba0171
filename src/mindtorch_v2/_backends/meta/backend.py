"""Meta: what operators say of their results, and nothing computed."""

from collections.abc import Callable
from typing import Any

from ..._core.storage import MetaStorage
from ..._dispatch.registry import Operator
from ..interface import Backend
from . import MetaArray


class MetaBackend(Backend):
    """Geometry without memory: a copy or a write does nothing."""

    type = "meta"
    wide_statistics = True
    storage_class = MetaStorage

    def copy(self, target: Any, source: Any, non_blocking: bool = False) -> None:
        """Nothing: there are no elements."""

    def kernel(self, operator: Operator) -> Callable:
        return operator.declaration.family.described(operator)

    def plan_runner(self, plan: Any, steps: Callable[[Callable[[int], None] | None], Callable]) -> Callable:
        """Nothing is run: what a plan gives is known when it is made."""
        layouts = [plan.layouts[number] for number in plan.outputs]
        return lambda *args: [MetaArray(layout.shape, layout.dtype, layout.strides) for layout in layouts]


BACKEND = MetaBackend()
