"""Backends for tests: they count or keep the graphs they are given."""

from collections.abc import Callable
from typing import Any

from ..fx import GraphModule
from .backends.registry import lookup_backend


def _calls(gm: GraphModule) -> int:
    return sum("call" in node.op for node in gm.graph.nodes)


class CompileCounter:
    """Counts graphs and the calls in them, and runs them as they are."""

    def __init__(self) -> None:
        self.clear()

    def __call__(self, gm: GraphModule, example_inputs: list[Any]) -> Callable:
        self.frame_count += 1
        self.op_count += _calls(gm)
        return gm.forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend:
    """Counts graphs and keeps them, and hands them to another backend."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.clear()

    def __call__(self, gm: GraphModule, example_inputs: list[Any]) -> Callable:
        self.frame_count += 1
        self.op_count += _calls(gm)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        self.frame_count = self.op_count = 0
        self.graphs: list[GraphModule] = []


class EagerAndRecordGraphs:
    """Keeps graphs and runs them as they are."""

    def __init__(self) -> None:
        self.graphs: list[GraphModule] = []

    def __call__(self, gm: GraphModule, example_inputs: list[Any]) -> Callable:
        self.graphs.append(gm)
        return gm.forward
