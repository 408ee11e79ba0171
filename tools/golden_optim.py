"""Writes tests/mindtorch_v2/golden/optim.npz: what the real PyTorch's optimizers, schedules and foreach operators give.

Run it where PyTorch is installed: PYTHONPATH=src python tools/golden_optim.py
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mindtorch_v2._ops.foreach import FUNCTIONAL, WITH_INPLACE, WRITES

GOLDEN = Path(__file__).parents[1] / "tests" / "mindtorch_v2" / "golden" / "optim.npz"
STEPS = 6
EPOCHS = 14
SHAPES: tuple[tuple[int, ...], ...] = ((3, 4), (5,), ())

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
    "adadelta": ("Adadelta", {}),
    "adadelta_options": ("Adadelta", {"lr": 0.3, "rho": 0.7, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad_options": ("Adagrad", {
        "lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-3,
        "maximize": True,
    }),
    "adamax": ("Adamax", {"lr": 0.05}),
    "adamax_options": ("Adamax", {"lr": 0.05, "betas": (0.7, 0.8), "weight_decay": 0.1, "maximize": True}),
    "nadam": ("NAdam", {"lr": 0.05}),
    "nadam_options": ("NAdam", {
        "lr": 0.05, "betas": (0.7, 0.8), "weight_decay": 0.1, "momentum_decay": 0.1, "maximize": True,
    }),
    "nadam_decoupled": ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": ("RAdam", {"lr": 0.05}),
    "radam_options": ("RAdam", {"lr": 0.05, "betas": (0.7, 0.9), "weight_decay": 0.1, "maximize": True}),
    "radam_decoupled": ("RAdam", {
        "lr": 0.05, "betas": (0.7, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True,
    }),
    "asgd": ("ASGD", {"lr": 0.1}),
    "asgd_options": ("ASGD", {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 2, "weight_decay": 0.1, "maximize": True}),
    "rmsprop": ("RMSprop", {"lr": 0.02}),
    "rmsprop_centered": ("RMSprop", {"lr": 0.02, "alpha": 0.8, "centered": True, "weight_decay": 0.1}),
    "rmsprop_momentum": ("RMSprop", {"lr": 0.02, "momentum": 0.9, "centered": True, "maximize": True}),
    "rprop": ("Rprop", {"lr": 0.02}),
    "rprop_options": ("Rprop", {"lr": 0.02, "etas": (0.4, 1.5), "step_sizes": (1e-2, 0.04), "maximize": True}),
    "adafactor": ("Adafactor", {"lr": 0.1}),
    "adafactor_options": ("Adafactor", {
        "lr": 0.1, "beta2_decay": -0.5, "eps": (1e-4, 0.5), "d": 1.5, "weight_decay": 0.1, "maximize": True,
    }),
    "muon": ("Muon", {"lr": 0.1}),
    "muon_options": ("Muon", {
        "lr": 0.1, "weight_decay": 0.0, "momentum": 0.5, "nesterov": False, "ns_steps": 3,
        "adjust_lr_fn": "match_rms_adamw",
    }),
    "lbfgs": ("LBFGS", {"lr": 0.5, "max_iter": 4}),
    "lbfgs_short": ("LBFGS", {"lr": 0.3, "max_iter": 5, "history_size": 2, "max_eval": 4}),
    "lbfgs_wolfe": ("LBFGS", {"max_iter": 3, "line_search_fn": "strong_wolfe"}),
}  # fmt: skip
DTYPES = ("float32", "float64")
NO_COMPLEX = ("Adafactor", "Muon")


def kinds_of(case: str) -> tuple[str, ...]:
    return DTYPES if CASES[case][0] in NO_COMPLEX else (*DTYPES, "complex128")


def starts_and_gradients(optimizer: str, dtype: str) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """The parameters to start from, and the gradients of every step."""
    random = np.random.default_rng(0)
    shapes = ((3, 4), (5, 2)) if optimizer == "Muon" else SHAPES

    def numbers(shape: tuple[int, ...]) -> np.ndarray:
        real = random.standard_normal(shape)
        return real + 1j * random.standard_normal(shape) if dtype.startswith("complex") else real

    starts = [numbers(shape) for shape in shapes]
    return starts, [[numbers(shape) for shape in shapes] for _ in range(STEPS)]


def _valley(params: list[Any]) -> Any:
    """A function with a curved valley, for optimizers that ask for the loss themselves."""
    total = 0
    for parameter in params:
        square = (parameter * parameter.conj()).real if parameter.is_complex() else parameter * parameter
        total = total + ((1 - parameter).abs() ** 2).sum() + 3 * ((square - 0.5) ** 2).sum()
    return total


def trajectory(torch: ModuleType, case: str, dtype: str) -> np.ndarray:
    """All parameters, joined, after each step."""
    name, options = CASES[case]
    starts, gradients = starts_and_gradients(name, dtype)
    kind = getattr(torch, dtype)
    params = [torch.nn.Parameter(torch.tensor(start.tolist(), dtype=kind)) for start in starts]
    optimizer = getattr(torch.optim, name)(params, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = _valley(params)
        loss.backward()
        return loss

    rows = []
    for step_gradients in gradients:
        if name == "LBFGS":
            optimizer.step(closure)
        else:
            for parameter, gradient in zip(params, step_gradients, strict=True):
                parameter.grad = torch.tensor(gradient.tolist(), dtype=kind)
            optimizer.step()
        rows.append(np.concatenate([parameter.detach().numpy().reshape(-1) for parameter in params]))
    return np.stack(rows)


# schedules -----------------------------------------------------------------------------------------------------------

SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "lambda_each": lambda s, o: s.LambdaLR(o, [lambda epoch: 1 / (1 + epoch), lambda epoch: 0.5]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 1 - epoch / 50),
    "step": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "multi_step": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], gamma=0.5),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=4),
    "linear": lambda s, o: s.LinearLR(o, 0.25, 0.75, total_iters=6),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.8),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=6, power=2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 5, eta_min=0.01),
    "warm_restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
    "warm_restarts_longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2, eta_min=0.01),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=3, step_size_down=2),
    "cyclic_halved": lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.1, step_size_up=2, mode="triangular2"),
    "cyclic_range": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, step_size_up=3, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "cyclic_own": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, step_size_up=3, scale_fn=lambda x: 1 / (x + 1), scale_mode="iterations"
    ),
    "one_cycle": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=EPOCHS),
    "one_cycle_three": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.2], epochs=5, steps_per_epoch=3, three_phase=True, anneal_strategy="linear", pct_start=0.4
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 4)], [3, 8]
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9), s.StepLR(o, 3)]),
    "plateau": lambda s, o: s.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1, min_lr=0.02),
    "plateau_max": lambda s, o: s.ReduceLROnPlateau(
        o, "max", factor=0.3, patience=0, threshold=0.1, threshold_mode="abs"
    ),
    "swa": lambda s, o: s.SWALR(o, 0.5, anneal_epochs=4),
    "swa_linear": lambda s, o: s.SWALR(o, [0.5, 0.1], anneal_epochs=4, anneal_strategy="linear"),
}  # fmt: skip


def two_groups(torch: ModuleType, name: str) -> Any:
    """An optimizer with two groups of different rates."""
    first, second = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    groups = [{"params": [first]}, {"params": [second], "lr": 0.2}]
    return getattr(torch.optim, name)(groups, lr=0.1, **({"momentum": 0.9} if name == "SGD" else {}))


def schedule(torch: ModuleType, name: str, optimizer_name: str) -> tuple[Any, Any]:
    """A schedule and its optimizer."""
    optimizer = two_groups(torch, optimizer_name)
    place = torch.optim.swa_utils if name.startswith("swa") else torch.optim.lr_scheduler
    return SCHEDULES[name](place, optimizer), optimizer


def _momentum(group: dict[str, Any]) -> float:
    return group["betas"][0] if "betas" in group else group["momentum"]


def rates(torch: ModuleType, name: str, optimizer_name: str) -> np.ndarray:
    """Rate and momentum of both groups at each epoch."""
    scheduler, optimizer = schedule(torch, name, optimizer_name)
    metrics = np.random.default_rng(1).random(EPOCHS)
    rows = []
    for epoch in range(EPOCHS):
        groups = optimizer.param_groups
        rows.append([float(value) for group in groups for value in (group["lr"], _momentum(group))])
        optimizer.step()
        scheduler.step(*([metrics[epoch]] if name.startswith("plateau") else []))
    return np.array(rows)


# foreach -------------------------------------------------------------------------------------------------------------


def foreach_calls() -> dict[str, list[str]]:
    """The arguments of each foreach function's overloads; in-place functions with their underscore."""
    return {
        f"_foreach_{name}{underscore}": list(overloads.values())
        for underscore, table in (("", WITH_INPLACE | FUNCTIONAL), ("_", WITH_INPLACE | WRITES))
        for name, overloads in table.items()
    }


def foreach_arguments(torch: ModuleType, name: str, arguments: str) -> list[Any]:
    """A list of tensors, and what the other arguments without a default want."""
    random = np.random.default_rng(2)
    given: list[Any] = []
    for text in ["Tensor[] self", *arguments.split(", ")]:
        kind = text.partition(" ")[0]
        if "=" in text or kind in ("", "*"):
            continue
        if kind == "Tensor[]":
            values = random.uniform(0.1, 0.9, (2, 2, 2)).tolist()
            given.append([torch.tensor(value, dtype=torch.float64) for value in values])
        elif kind == "Tensor":
            given.append(torch.tensor([0.5, 2.0] if "addc" in name else 0.5, dtype=torch.float64))
        else:
            given.append([0.5, 2.0] if kind == "Scalar[]" else 0.5)
    return given


def foreach_results(torch: ModuleType, name: str, overloads: list[str]) -> np.ndarray:
    """All overloads' results, joined."""
    results = [getattr(torch, name)(*foreach_arguments(torch, name, arguments)) for arguments in overloads]
    return np.concatenate([tensor.numpy().reshape(-1) for result in results for tensor in result])


def main() -> None:
    import torch

    warnings.simplefilter("ignore")
    arrays = {f"{case}.{kind}": trajectory(torch, case, kind) for case in CASES for kind in kinds_of(case)}
    arrays |= {f"{name}.{by}": rates(torch, name, by) for name in SCHEDULES for by in ("SGD", "Adam")}
    arrays |= {name: foreach_results(torch, name, overloads) for name, overloads in foreach_calls().items()}
    np.savez_compressed(GOLDEN, **arrays)


if __name__ == "__main__":
    main()
