"""Writes tests/mindtorch_v2/golden/optim.npz: what the real PyTorch's optimizers make of given gradients.

Run it where PyTorch is installed: python tools/golden_optim.py
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "tests" / "mindtorch_v2" / "golden" / "optim.npz"
STEPS = 6
SHAPES = ((3, 4), (5,), ())

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.05}),
    "sgd_momentum": ("SGD", {"lr": 0.05, "momentum": 0.9}),
    "sgd_dampening_decay": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    "sgd_nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "sgd_maximize": ("SGD", {"lr": 0.05, "momentum": 0.5, "maximize": True, "weight_decay": 0.1}),
    "adam": ("Adam", {"lr": 0.05}),
    "adam_betas_eps": ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3}),
    "adam_amsgrad_decay": ("Adam", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1}),
    "adam_maximize": ("Adam", {"lr": 0.05, "maximize": True}),
    "adam_decoupled": ("Adam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adamw": ("AdamW", {"lr": 0.05}),
    "adamw_amsgrad_maximize": ("AdamW", {"lr": 0.05, "amsgrad": True, "maximize": True, "weight_decay": 0.3}),
}
DTYPES = ("float32", "float64")


def starts_and_gradients() -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """The parameters to start from, and the gradients of every step."""
    random = np.random.default_rng(0)
    starts = [random.standard_normal(shape) for shape in SHAPES]
    return starts, [[random.standard_normal(shape) for shape in SHAPES] for _ in range(STEPS)]


def trajectory(torch: ModuleType, case: str, dtype: str) -> np.ndarray:
    """All parameters, joined, after each step."""
    name, options = CASES[case]
    starts, gradients = starts_and_gradients()
    kind = getattr(torch, dtype)
    params = [torch.nn.Parameter(torch.tensor(start.tolist(), dtype=kind)) for start in starts]
    optimizer = getattr(torch.optim, name)(params, **options)
    rows = []
    for step_gradients in gradients:
        for parameter, gradient in zip(params, step_gradients, strict=True):
            parameter.grad = torch.tensor(gradient.tolist(), dtype=kind)
        optimizer.step()
        rows.append(np.concatenate([parameter.detach().numpy().reshape(-1) for parameter in params]))
    return np.stack(rows)


def main() -> None:
    import torch

    arrays = {f"{case}.{dtype}": trajectory(torch, case, dtype) for case in CASES for dtype in DTYPES}
    np.savez_compressed(GOLDEN, **arrays)


if __name__ == "__main__":
    main()
