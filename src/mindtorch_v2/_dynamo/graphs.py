"""What was recorded, as an fx graph for a backend."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from .._core.indexing import GETITEM
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.keys import CPU_MASK, CUDA_MASK
from .._dispatch.registry import Operator
from .._pipeline.trace import Free, Trace, Value
from ..fx import Graph, GraphModule, Node
from ..nn import Module
from .sizes import Formula, Sizes


def graph_module(trace: Trace, sizes: Sizes | None = None) -> GraphModule:
    """A module that computes what a trace recorded: from the arrays it began with, a tuple of those held at its end.

    With `sizes`, those that vary are inputs, too, and numbers that follow from them are computed.
    """
    graph = Graph()
    nodes: dict[int | None, Any] = {}
    symbols: dict[int, Node] = {}
    for position, number in enumerate(trace.inputs):
        for k, at in enumerate(sizes.given if sizes is not None else ()):
            if at == position:
                symbols[k] = graph.placeholder(f"arg{len(graph.nodes)}_1")
                symbols[k].meta["val"] = sizes.symbols()[k]  # type: ignore[union-attr]
        nodes[number] = graph.placeholder(f"arg{len(graph.nodes)}_1")
        nodes[number].meta["tensor_meta"] = trace.layouts[number]
    computed: dict[Formula, Any] = {}

    def argument(path: tuple, value: Any) -> Any:
        if value.__class__ is Value:
            return nodes[value]
        free = value.__class__ is Free
        formula = sizes.formulas.get(("number", int(value)) if free else path) if sizes is not None else None
        if formula is not None:
            if formula not in computed:
                computed[formula] = formula.written(symbols.__getitem__, lambda f, *of: graph.call_function(f, of))
            return computed[formula]
        if free:
            return trace.numbers[value]
        if value.__class__ is slice:
            return slice(*argument((*path, "slice"), (value.start, value.stop, value.step)))
        return tuple([argument((*path, i), v) for i, v in enumerate(value)]) if value.__class__ is tuple else value

    several: tuple[Any, Node, int] | None = None  # of a view with several results, each of which is an entry
    for at, entry in enumerate(trace.entries):
        schema = entry.operator.schema
        if entry.kind == "view" and _gives_several(entry.operator) and several is not None:
            first, call, count = several
            if (
                entry.operator is first.operator
                and entry.arguments == first.arguments
                and entry.recipe is not first.recipe
            ):
                nodes[entry.results[0]] = graph.call_function(operator.getitem, (call, count))
                several = (first, call, count + 1)
                continue
        given = [argument((at, i), value) for i, value in enumerate(entry.arguments)]
        positional = len(schema.positional)
        args = given[:positional]
        while args and _is_default(args[-1], schema.defaults[len(args) - 1]):
            args.pop()
        kwargs = {
            a.name: value
            for a, value in zip(schema.arguments[positional:], given[positional:], strict=True)
            if not _is_default(value, a.default)
        }
        node = _call(graph, entry.operator, tuple(args), kwargs)
        if entry.where is not None:
            node.stack_trace = entry.where
        if len(schema.returns) > 1 or len(entry.results) > 1:
            for position, result in enumerate(entry.results):
                if result is not None:
                    nodes[result] = graph.call_function(operator.getitem, (node, position))
        elif entry.kind == "view" and _gives_several(entry.operator):
            nodes[entry.results[0]] = graph.call_function(operator.getitem, (node, 0))
            several = (entry, node, 1)
        elif entry.results:
            nodes[entry.results[0]] = node
    graph.output(tuple(nodes[number] for number in trace.outputs))
    return GraphModule(Module(), graph)


def _gives_several(called: Operator) -> bool:
    """Whether a view operator gives several views; an index, which is recorded as it stands, gives one."""
    return called is not GETITEM and called.declaration.family.several


def _call(graph: Graph, called: Operator, args: tuple, kwargs: dict[str, Any]) -> Node:
    """A node that calls an operator: as a function of torch, as a method, or by the operator's own name."""
    if called is GETITEM:
        return graph.call_function(operator.getitem, args, kwargs)
    name = called.schema.base_name
    public: Any = called.declaration.public if called.declaration is not None else None
    if public is not None and getattr(torch, name, None) is public:
        return graph.call_function(public, args, kwargs)  # type: ignore[arg-type]
    if called.schema.arguments[0].name == "self" and getattr(torch.Tensor, name, None) is not None:
        return graph.call_method(name, args, kwargs)
    return graph.call_function(_by_name(called), args, kwargs)


@functools.cache
def _by_name(called: Operator) -> Callable:
    """A function that calls an operator which torch has no name for."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return call_bound(called, tuple(called.schema.bind(args, kwargs)))

    call.__module__, call.__name__ = "aten", called.schema.base_name
    call.__qualname__ = call.__name__
    return call


def _is_default(value: Any, default: Any) -> bool:
    return (
        value is default or type(value) is type(default) and isinstance(value, (int, float, str)) and value == default
    )


def tensor_on(array: Any, device: Any) -> Tensor:
    """A tensor that shows an array of a device."""
    made = object.__new__(Tensor)
    made._array, made._keys, made._device = array, CPU_MASK if device.type == "cpu" else CUDA_MASK, device
    return made
