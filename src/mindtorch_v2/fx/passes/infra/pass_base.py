"""What a pass is, and what it gives back."""

import abc
from typing import NamedTuple

from ....nn import Module
from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module that a pass made, and whether it is another than before."""

    graph_module: Module
    modified: bool


class PassBase(abc.ABC):
    """A pass as an object: `call` does it, between what it `requires` and what it `ensures`."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Does the pass."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027  most passes require nothing
        """Raises for a module that the pass cannot be run on."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises for a module that the pass should not have left behind."""
