"""Runs passes in an order that their constraints allow."""

import functools
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from ....nn import Module
from ...graph_module import GraphModule
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

_log = logging.getLogger(__name__.replace("mindtorch_v2", "torch"))
Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]  # whether the first may come before the second


def _name(a_pass: Pass) -> str:
    return a_pass.__name__ if inspect.isfunction(a_pass) else type(a_pass).__name__


def pass_result_wrapper(fn: Pass | None) -> Any:
    """A pass that gives back a module, or nothing, as one that gives back a PassResult."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(module: Module) -> PassResult | None:
        result = fn(module)
        if result is None or isinstance(result, Module):
            return PassResult(module if result is None else result, True)
        return result if isinstance(result, PassResult) else None

    wrapped.__name__ = _name(fn)
    return wrapped


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that `that` does not come before `this`."""
    return lambda a, b: a != that or b != this


def _topological_sort_passes(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """The passes in an order that all constraints allow, those that are free first."""
    if not constraints:
        return passes
    waiting = {a: 0 for a in passes}  # for how many others, a constraint counted each
    followers: dict[Pass, list[Pass]] = {a: [] for a in passes}
    for a in passes:
        for b in passes:
            if a != b:
                refused = sum(not constraint(a, b) for constraint in constraints)
                followers[b] += [a] * refused
                waiting[a] += refused
    ready, ordered = deque(a for a in passes if not waiting[a]), []
    while ready:
        ordered.append(ready.popleft())
        for follower in followers[ordered[-1]]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    if circle := [a for a in passes if waiting[a]]:
        raise RuntimeError(f"Circular dependency detected within the following passes: {circle}")
    return ordered


class PassManager:
    """Runs passes over a module, up to `steps` times, until nothing changes any more."""

    def __init__(self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None,
                 steps: int | None = None, run_checks_after_each_pass: bool = False,
                 suppress_check_failures: bool = False) -> None:
        self.passes, self.constraints, self.steps = passes or [], constraints or [], steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False
        self.check: Callable[[Module], Any] = lambda module: None

    def add_pass(self, _pass: Pass) -> None:
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        self.constraints.append(constraint)
        self._validated = False

    def add_checks(self, check: Callable[[Module], Any]) -> None:
        """The function that looks at the module before the passes and, if asked for, after each."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check

    def validate_constraints(self) -> None:
        """Raises if the passes stand in an order that a constraint refuses."""
        if self._validated:
            return
        for constraint in self.constraints:
            for i, a in enumerate(self.passes):
                for j, b in enumerate(self.passes[i + 1 :]):
                    if not constraint(a, b):
                        raise RuntimeError(f"pass schedule constraint violated. Expected {a} before {b} but found {a} "
                                           f"at index {i} and {b} at index {j} in pass list.")
        self._validated = True

    def solve_constraints(self) -> None:
        """Brings the passes into an order that the constraints allow."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        ever = False
        for _ in range(self.steps):
            modified = False
            for number, a_pass in enumerate(self.passes):
                try:
                    result = self._run(a_pass, module)
                except Exception as error:
                    raise Exception(f"An error occurred when running the '{_name(a_pass)}' pass after the following "
                                    f"passes: {[_name(p) for p in self.passes[:number]]}") from error
                module, modified = result.graph_module, modified or result.modified
            ever = ever or modified
            if not modified:
                break
        return PassResult(module, ever)

    def _run(self, a_pass: Pass, module: Module) -> PassResult:
        _log.debug("Running pass '%s'", _name(a_pass))
        result = a_pass(module)
        if not hasattr(result, "graph_module"):
            raise TypeError(f"The result of the pass {_name(a_pass)} should be type PassResult."
                            "Please wrap it with pass_result_wrapper()")
        if isinstance(result.graph_module, GraphModule):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result
