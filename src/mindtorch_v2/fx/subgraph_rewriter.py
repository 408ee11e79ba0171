"""Replaces parts of graphs by others."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..nn.modules.module import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """Where the pattern was found."""

    anchor: Node
    nodes_map: dict[Node, Node]  # the pattern's nodes, and what stood for them


@dataclass
class ReplacedPatterns:
    """Where the pattern was found, and what stands there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Puts `replacement` where `pattern` occurs, functions or modules of as many inputs; says where that was.

    Of occurrences that overlap, the first is replaced. Only results of the pattern may be used outside of it.
    """
    return [Match(made.anchor, made.nodes_map) for made in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Any, replacement: Any = None, match_filters: Sequence[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """The same for occurrences that all filters accept; a callback may make each one's replacement."""
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, match_output=False, match_placeholder=False,
                              remove_overlapping_matches=True, ignore_literals=ignore_literals)
    matches = [match for match in matcher.match(graph, node_name_match=node_name_match)
               if all(accepts(match, graph, pattern_graph) for accepts in match_filters or ())]
    common = None if replacement is None else _graph_of(replacement)
    replaced: list[ReplacedPatterns] = []
    now: dict[Node, Node] = {}  # results of earlier matches, which later ones may take for inputs
    for match in matches:
        if replacement_callback is not None:
            graph_of_match = replacement_callback(match, graph, pattern_graph)
        elif common is not None:
            graph_of_match = common
        else:
            raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
        replaced.append(_replace(graph, match, pattern_graph, graph_of_match, now))
    gm.recompile()
    if isinstance(replacement, Module):
        _bring_attributes(gm, replacement)
    return replaced


def _graph_of(given: Any) -> Graph:
    if isinstance(given, Graph):
        return given
    return given.graph if isinstance(given, GraphModule) else symbolic_trace(given).graph


def _replace(graph: Graph, match: InternalMatch, pattern: Graph, replacement: Graph,
             now: dict[Node, Node]) -> ReplacedPatterns:
    """Puts a copy of `replacement` where the match is, before whoever uses its results first."""
    inputs = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}")
    stands_for: dict[Node, Any] = {}
    for theirs, ours in zip(inputs, match.placeholder_nodes, strict=True):
        stands_for[theirs] = now.get(ours, ours) if isinstance(ours, Node) else ours
        if isinstance(ours, Node):
            match.placeholder_nodes[inputs.index(theirs)] = stands_for[theirs]
    given = set(stands_for)
    with graph.inserting_before(_first_user(graph, match)):
        result = graph.graph_copy(replacement, stands_for)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"The pattern has {len(match.returning_nodes)} results, its replacement {len(results)}")
    made = [node for theirs, node in stands_for.items() if theirs not in given]
    for old, new in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(new)
        now[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _first_user(graph: Graph, match: InternalMatch) -> Node:
    """The first node that uses a result of the match; what follows the match if there is none."""
    users = {user for node in match.returning_nodes for user in node.users}
    own = {node for node in match.nodes_map.values() if isinstance(node, Node)}
    last = None
    for node in graph.nodes:
        if node in users and node not in own:
            return node
        if node in own:
            last = node
    assert last is not None
    return last.next


def _bring_attributes(gm: GraphModule, replacement: Module) -> None:
    """Gives the module what the replacement's nodes name and it does not have."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _found(gm, node.target)[0]:
            continue
        exists, value = _found(replacement, node.target)
        if not exists:
            raise RuntimeError(f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                               f"{node.target}, but the referenced attribute does not exist in the replacement "
                               "GraphModule")
        copied = copy.deepcopy(value)
        if isinstance(copied, Module):
            gm.add_submodule(node.target, copied)
        else:
            setattr(gm, node.target, copied)
    gm.graph.lint()


def _found(module: Any, target: str) -> tuple[bool, Any]:
    for part in target.split("."):
        if not hasattr(module, part):
            return False, None
        module = getattr(module, part)
    return True, module
