"""Meta: what operators say of their results, and nothing computed."""

from collections.abc import Callable
from typing import Any

from ..._core.storage import MetaStorage
from ..._dispatch.registry import Operator
from ..interface import Backend


class MetaBackend(Backend):
    """Geometry without memory: a copy or a write does nothing."""

    type = "meta"
    storage_class = MetaStorage

    def copy(self, target: Any, source: Any, non_blocking: bool = False) -> None:
        """Nothing: there are no elements."""

    def kernel(self, operator: Operator) -> Callable:
        return operator.declaration.family.described(operator)


BACKEND = MetaBackend()
