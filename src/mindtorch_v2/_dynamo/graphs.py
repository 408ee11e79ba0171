"""What was recorded, as an fx graph for a backend."""

import operator
from typing import Any

from .._core.tensor import Tensor
from .._dispatch.keys import CPU_MASK, CUDA_MASK
from .._pipeline.trace import Free, Trace, Value
from ..fx import Graph, GraphModule
from ..nn import Module


def graph_module(trace: Trace) -> GraphModule:
    """A module that computes what a trace recorded: from the arrays it began with, a tuple of those held at its end."""
    graph = Graph()
    nodes: dict[int, Any] = {}
    for position, number in enumerate(trace.inputs):
        nodes[number] = graph.placeholder(f"arg{position}_1")
        nodes[number].meta["tensor_meta"] = trace.layouts[number]

    def argument(value: Any) -> Any:
        if value.__class__ is Value:
            return nodes[value]
        if value.__class__ is Free:
            return trace.numbers[value]
        return tuple(map(argument, value)) if value.__class__ is tuple else value

    for entry in trace.entries:
        schema = entry.operator.schema
        given = list(map(argument, entry.arguments))
        positional = len(schema.positional)
        args = given[:positional]
        while args and _is_default(args[-1], schema.defaults[len(args) - 1]):
            args.pop()
        kwargs = {
            a.name: value
            for a, value in zip(schema.arguments[positional:], given[positional:], strict=True)
            if not _is_default(value, a.default)
        }
        node = graph.call_function(entry.operator.declaration.public, tuple(args), kwargs)
        if entry.where is not None:
            node.stack_trace = entry.where
        if len(schema.returns) > 1 or len(entry.results) > 1:
            for position, number in enumerate(entry.results):
                if number is not None:
                    nodes[number] = graph.call_function(operator.getitem, (node, position))
        elif entry.results:
            nodes[entry.results[0]] = node
    graph.output(tuple(nodes[number] for number in trace.outputs))
    return GraphModule(Module(), graph)


def _is_default(value: Any, default: Any) -> bool:
    return (
        value is default or type(value) is type(default) and isinstance(value, (int, float, str)) and value == default
    )


def tensor_on(array: Any, device: Any) -> Tensor:
    """A tensor that shows an array of a device."""
    made = object.__new__(Tensor)
    made._array, made._keys, made._device = array, CPU_MASK if device.type == "cpu" else CUDA_MASK, device
    return made
