"""Adam for sparse gradients."""

from typing import Any, ClassVar

import mindtorch_v2 as torch

from ._functional import sparse_adam
from ._lists import ListOptimizer, check_options
from .optimizer import ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(ListOptimizer):
    """Adam that moves only those elements, and only their running means, that the gradient names."""

    _function = staticmethod(sparse_adam)
    _states = ("exp_avg", "exp_avg_sq", "step")
    _added: ClassVar[dict[str, Any]] = {}
    _counters = ()  # this one counts steps in an int

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_options(positive=True, lr=lr, eps=eps, betas=betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for kind, problem in (
            ("Sparse", "SparseAdam requires dense parameter tensors"),
            ("Complex", "SparseAdam does not support complex parameters"),
        ):
            places = [
                [number, position]
                for number, group in enumerate(self.param_groups)
                for position, parameter in enumerate(group["params"])
                if (parameter.is_sparse if kind == "Sparse" else parameter.is_complex())
            ]
            if places:
                raise ValueError(f"{kind} params at indices {places}: {problem}")

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {**super()._init_state(parameter, group), "step": 0}

    def _take_sparse(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """Sparse gradients are what this is for."""

    def _update(self, group: dict[str, Any]) -> None:
        params, gradients, states = self._lists(group)
        for parameter, gradient, state in zip(params, gradients, states, strict=True):
            if not gradient.is_sparse:
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            state["step"] += 1
            sparse_adam(
                [parameter], [gradient], [state["exp_avg"]], [state["exp_avg_sq"]], [state["step"]],
                **self._options(group),
            )  # fmt: skip
