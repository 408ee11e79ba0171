"""Derivatives of derivatives of operators whose backward is one kernel: by way of the operator composed of others."""

from collections.abc import Callable, Sequence
from typing import Any

from ..._autograd.engine import run_backward
from ..._dispatch.keys import changed_modes


def recorded_gradients(composed: Callable, inputs: Sequence[Any], grads: Sequence[Any],
                       needs: Sequence[bool]) -> list[Any]:
    """The gradients of `composed(*inputs)` where needed, differentiable again; runs inside a backward pass."""
    # Views, so that the inner pass ends at them and leaves hooks of the tensors themselves alone.
    seen = [x.view_as(x) if need else x for x, need in zip(inputs, needs, strict=True)]
    results = composed(*seen)
    given = [(result, grad) for result, grad in zip(results, grads, strict=False) if grad is not None]
    wanted = [x for x, need in zip(seen, needs, strict=True) if need]
    found = iter(run_backward([r for r, _ in given], [g for _, g in given], True, True, wanted, True, False))
    return [next(found) if need else None for need in needs]


def gradients_by_parts(composed: Callable, inputs: Sequence[Any], grads: Sequence[Any],
                       needs: Sequence[bool]) -> list[Any]:
    """The gradients of `composed(*inputs)` where needed: what a backward computes that has no kernel."""
    with changed_modes(grad_enabled=True):
        leaves = [x.detach()._track() if need else x for x, need in zip(inputs, needs, strict=True)]
        results = composed(*leaves)
        wanted = [x for x, need in zip(leaves, needs, strict=True) if need]
        found = iter(run_backward(results, grads, False, False, wanted, True, False))
    return [next(found) if need else None for need in needs]


def once(formula: Callable) -> Callable:
    """Marks a formula that is one kernel, and takes the operator's decomposition to be differentiated again."""
    formula.once = True  # type: ignore[attr-defined]
    return formula
