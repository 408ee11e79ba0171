"""Where a small graph, the pattern, occurs in another one.

Matching starts at the pattern's anchors, the results that nothing else in it uses, and goes back from each to its
inputs. Placeholders of the pattern stand for anything, numbers included.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...._core.tensor import Tensor
from ...graph import Graph
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One occurrence: which node of the graph stands for which of the pattern."""

    anchors: list[Node]  # of the pattern
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)  # what the pattern's inputs are
    returning_nodes: list[Node] = field(default_factory=list)  # what its results are
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> "InternalMatch":
        return InternalMatch(list(self.anchors), dict(self.nodes_map), list(self.placeholder_nodes),
                             list(self.returning_nodes), dict(self.name_node_map))


class SubgraphMatcher:
    """Finds a pattern in graphs."""

    def __init__(self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        output = pattern.output_node()
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors: list[Node] = (
            [output] if match_output else [n for n in output.all_input_nodes if len(n.users) == 1])

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The occurrences in a graph, none of which shares a node with another unless that was asked for."""
        candidates = [
            [node for node in graph.nodes if self._are_alike(anchor, node)
             and (not node_name_match or node_name_match in node.name)]
            for anchor in self.pattern_anchors]
        found = [m for m in self._extended(InternalMatch(list(self.pattern_anchors)), candidates, 0)
                 if self._is_closed(m.nodes_map)]
        for match in found:
            held = match.nodes_map
            match.placeholder_nodes = [held[p] for p in self.pattern_placeholder_nodes if p in held]
            match.returning_nodes = [held[r] for r in self.pattern_returning_nodes]
            match.name_node_map = {p.name: node for p, node in held.items() if isinstance(node, Node)}
        return self._apart(found) if self.remove_overlapping_matches else found

    def _extended(self, match: InternalMatch, candidates: list[list[Node]], at: int) -> Iterator[InternalMatch]:
        """The matches in which the anchors from number `at` on have a place, too."""
        if at == len(candidates):
            yield match
            return
        for node in candidates[at]:
            tried = copy.copy(match)
            if self._match_nodes(self.pattern_anchors[at], node, tried):
                yield from self._extended(tried, candidates, at + 1)

    # one node ------------------------------------------------------------------------------------------------------

    def _are_alike(self, pattern: Node, node: Node) -> bool:
        if pattern.op == "placeholder" and not self.match_placeholder:
            return True
        if pattern.op != node.op:
            return False
        if pattern.op in ("placeholder", "output"):
            return True
        if pattern.op == "get_attr":
            return self._are_attributes_alike(pattern, node)
        return pattern.target == node.target

    def _are_attributes_alike(self, pattern: Node, node: Node) -> bool:
        """Whether two attributes hold the same kind of thing: two tensors are as good as one another."""
        held = [_attribute(n.graph.owning_module, n.target) for n in (pattern, node)]
        if isinstance(held[0], Tensor):
            return isinstance(held[1], Tensor)
        return type(held[0]) is type(held[1]) and pattern.target == node.target

    def _match_nodes(self, pattern: Node, node: Node, match: InternalMatch) -> bool:
        """Puts a pair, and what it uses, into the match; False if they differ. The match is then of no more use."""
        if pattern in match.nodes_map:
            return match.nodes_map[pattern] is node
        if any(node is held for held in match.nodes_map.values()):  # it stands for another already
            return False
        if not self._are_alike(pattern, node):
            return False
        match.nodes_map[pattern] = node
        if pattern.op == "placeholder":
            return True
        return (pattern.kwargs.keys() == node.kwargs.keys()
                and self._match_values(pattern.args, node.args, match)
                and all(self._match_values(pattern.kwargs[k], node.kwargs[k], match) for k in pattern.kwargs))

    def _match_values(self, pattern: Any, value: Any, match: InternalMatch) -> bool:
        if isinstance(pattern, Node):
            if isinstance(value, Node):
                return self._match_nodes(pattern, value, match)
            if pattern.op != "placeholder":
                return False
            if pattern in match.nodes_map:
                return bool(match.nodes_map[pattern] == value)
            match.nodes_map[pattern] = value
            return True
        if isinstance(value, Node):
            return False
        if isinstance(pattern, (list, tuple)):
            return (isinstance(value, (list, tuple)) and len(pattern) == len(value)
                    and all(self._match_values(p, v, match) for p, v in zip(pattern, value, strict=True)))
        if isinstance(pattern, slice) and isinstance(value, slice):
            return all(self._match_values(getattr(pattern, part), getattr(value, part), match)
                       for part in ("start", "stop", "step"))
        return self.ignore_literals or type(pattern) is type(value) and pattern == value

    # whole matches -------------------------------------------------------------------------------------------------

    def _is_closed(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether only results of the pattern are used outside of the match."""
        inside = {node for node in nodes_map.values() if isinstance(node, Node)}
        return all(user in inside for pattern, node in nodes_map.items()
                   if pattern.op != "placeholder" and pattern not in self.pattern_returning_nodes
                   for user in node.users)

    def _apart(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept = []
        for match in matches:
            own = {node for pattern, node in match.nodes_map.items() if pattern.op not in ("placeholder", "output")}
            if not own & taken:
                taken |= own
                kept.append(match)
        return kept


def _attribute(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part, None)
    return module
