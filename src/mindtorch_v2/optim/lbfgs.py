"""L-BFGS."""

from collections.abc import Callable
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from ._lists import as_number, check_options
from .optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Newton's method with the inverse Hessian made up from the last steps; the closure is run several times a step."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options(lr=lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # ---- all parameters as one vector ----

    def _flat_grad(self) -> torch.Tensor:
        parts = []
        for parameter in self._params:
            gradient = parameter.grad
            if gradient is None:
                gradient = torch.zeros_like(parameter)
            elif gradient.is_sparse:
                gradient = gradient.to_dense()
            parts.append((torch.view_as_real(gradient) if gradient.is_complex() else gradient).reshape(-1))
        return torch.cat(parts)

    def _move(self, length: Any, direction: torch.Tensor) -> None:
        start = 0
        for parameter in self._params:
            target = torch.view_as_real(parameter) if parameter.is_complex() else parameter
            target.add_(direction[start : start + target.numel()].view_as(target), alpha=length)
            start += target.numel()

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[float, torch.Tensor]:
        return float(closure()), self._flat_grad()

    # ---- the step ----

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Makes up to `max_iter` moves; returns the loss before them."""
        closure = torch.enable_grad()(closure)
        group, state = self.param_groups[0], self.state[self._params[0]]
        lr, tolerance = as_number(group["lr"]), group["tolerance_change"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, gradient, evaluations = float(first_loss), self._flat_grad(), 1
        state["func_evals"] += 1
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            fresh = state["n_iter"] == 1
            direction = state["d"] = self._direction(state, gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
            state["t"] = min(1.0, 1.0 / gradient.abs().sum()) * lr if fresh else lr
            slope = gradient.dot(direction)
            if slope > -tolerance:
                break
            spent = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                origin = _Point(0, loss, gradient, slope)
                best, spent = self._search(closure, state["t"], direction, origin, group["max_eval"] - evaluations)
                loss, gradient, state["t"] = best.loss, best.gradient, best.length
                self._move(state["t"], direction)
            else:
                self._move(state["t"], direction)
                if iteration != group["max_iter"]:
                    (loss, gradient), spent = self._evaluate(closure), 1
            evaluations += spent
            state["func_evals"] += spent
            if (
                evaluations >= group["max_eval"]
                or gradient.abs().max() <= group["tolerance_grad"]
                or (direction * state["t"]).abs().max() <= tolerance
                or abs(loss - state["prev_loss"]) < tolerance
            ):
                break
        return first_loss

    def _direction(self, state: dict[str, Any], gradient: torch.Tensor, history_size: int) -> torch.Tensor:
        """Minus the gradient times the inverse Hessian that the remembered steps suggest."""
        if state["n_iter"] == 1:
            state.update({"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1})
            return -gradient
        changes, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, move = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = change.dot(move)
        if curvature > 1e-10:
            if len(changes) == history_size:
                for remembered in (changes, moves, inverses):
                    remembered.pop(0)
            changes.append(change)
            moves.append(move)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        shares = state.setdefault("al", [None] * history_size)
        made = -gradient
        for i in range(len(changes) - 1, -1, -1):
            shares[i] = moves[i].dot(made) * inverses[i]
            made.add_(changes[i], alpha=-shares[i])
        made.mul_(state["H_diag"])
        for i, change in enumerate(changes):
            made.add_(moves[i], alpha=shares[i] - change.dot(made) * inverses[i])
        return made

    def _search(
        self, closure: Callable[[], Any], length: Any, direction: torch.Tensor, origin: "_Point", most: int
    ) -> tuple["_Point", int]:
        """A point that meets the strong Wolfe conditions, and evaluations spent; `most` bounds the steps to it."""
        start = [parameter.clone() for parameter in self._params]
        asked = 0

        def at(length: Any) -> _Point:
            nonlocal asked
            asked += 1
            self._move(length, direction)
            loss, gradient = self._evaluate(closure)
            for parameter, before in zip(self._params, start, strict=True):
                parameter.copy_(before)
            return _Point(length, loss, gradient, gradient.dot(direction))

        return _strong_wolfe(at, origin, length, direction.abs().max(), most), asked


class _Point(NamedTuple):
    """A place on the line that is searched; a length is a tensor where it was computed from slopes, which are."""

    length: Any
    loss: float
    gradient: torch.Tensor
    slope: torch.Tensor


def _cubic_minimum(a: _Point, b: _Point, low: Any, high: Any) -> Any:
    """Where the cubic through two points and slopes is least, within bounds; their middle if it has no minimum."""
    left, right = (a, b) if a.length <= b.length else (b, a)
    width = right.length - left.length
    bend = left.slope + right.slope - 3 * (right.loss - left.loss) / width
    square = bend**2 - left.slope * right.slope
    if not square >= 0:
        return (low + high) / 2
    root = square.sqrt()
    share = (right.slope + root - bend) / (right.slope - left.slope + 2 * root)
    return min(max(right.length - width * share, low), high)


def _strong_wolfe(
    at: Callable[[Any], _Point], origin: _Point, length: Any, reach: torch.Tensor, most: int, *,
    decrease: float = 1e-4, flatness: float = 0.9, tolerance: float = 1e-9,
) -> _Point:  # fmt: skip
    """A point lower and flatter than the origin, found by bracketing a minimum and closing in on it."""

    def too_high(point: _Point, than: float) -> bool:
        return bool(point.loss > origin.loss + decrease * point.length * origin.slope) or point.loss >= than

    def flat(point: _Point) -> bool:
        return bool(abs(point.slope) <= -flatness * origin.slope)

    previous, point, tries = origin, at(length), 0
    while tries < most:
        if too_high(point, previous.loss if tries > 1 else float("inf")) or point.slope >= 0 and not flat(point):
            bracket = [previous, point]
            break
        if flat(point):
            return point
        farther = _cubic_minimum(
            previous, point, point.length + 0.01 * (point.length - previous.length), point.length * 10
        )
        previous, point, tries = point, at(farther), tries + 1
    else:
        bracket = [origin, point]
    low = 0 if bracket[0].loss <= bracket[1].loss else 1  # which of the two is the lower one
    stuck = False  # the last guess lay close to an end of the bracket
    while tries < most and not abs(bracket[1].length - bracket[0].length) * reach < tolerance:
        lengths = [end.length for end in bracket]
        least, greatest = min(lengths), max(lengths)
        guess, margin = _cubic_minimum(bracket[0], bracket[1], least, greatest), 0.1 * (greatest - least)
        if min(greatest - guess, guess - least) < margin:
            if stuck or guess >= greatest or guess <= least:
                nearer_top = abs(guess - greatest) < abs(guess - least)
                guess, stuck = (greatest - margin if nearer_top else least + margin), False
            else:
                stuck = True
        else:
            stuck = False
        point, tries = at(guess), tries + 1
        if too_high(point, bracket[low].loss):
            bracket[1 - low] = point
            low = 0 if bracket[0].loss <= bracket[1].loss else 1
            continue
        if flat(point):
            return point
        if point.slope * (bracket[1 - low].length - bracket[low].length) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = point
    return bracket[low]
