"""Writes tests/mindtorch_v2/golden/distributions.npz: samples, formulas, gradients and texts of torch.distributions.

Run with PyTorch installed: python tools/golden_distributions.py
The cases are those of tests/mindtorch_v2/distribution_cases.py.
"""

import json
import pathlib
import sys
import warnings

import numpy as np
import torch

TESTS = pathlib.Path(__file__).parent.parent / "tests" / "mindtorch_v2"
sys.path.insert(0, str(TESTS))
import distribution_cases as cases  # noqa: E402


def attempt(record: dict, key: str, make: object) -> object:
    """Stores the tensor that `make()` gives, or the name of the error it raises."""
    try:
        value = make()
    except (NotImplementedError, ValueError, RuntimeError, AttributeError) as error:
        record[key] = np.array(type(error).__name__)
        return None
    record[key] = value.detach().numpy()
    return value


def of_distribution(record: dict, label: str, dtype: str) -> None:
    parameters = cases.parameters_of(torch, label, dtype)
    made, key = cases.build(torch, label, parameters), f"{label}|{dtype}|"
    torch.manual_seed(cases.SEED)
    sample = made.sample((4,))
    record[f"{key}sample"], record[f"{key}next"] = sample.numpy(), torch.rand(3).numpy()
    attempt(record, f"{key}log_prob", lambda: made.log_prob(sample))
    attempt(record, f"{key}cdf", lambda: made.cdf(sample))
    attempt(record, f"{key}icdf", lambda: made.icdf(torch.tensor([[0.1], [0.7]], dtype=getattr(torch, dtype))))
    for quantity in cases.QUANTITIES:
        attempt(record, f"{key}{quantity}", lambda q=quantity: cases.value_of(made, q))
    torch.manual_seed(cases.SEED)
    drawn = attempt(record, f"{key}rsample", lambda: made.rsample((4,)))
    if drawn is not None and drawn.requires_grad:
        leaves = {name: value for name, value in parameters.items() if isinstance(value, torch.Tensor)}
        weights = torch.arange(1.0, 1 + drawn.numel()).view_as(drawn)
        try:
            gradients = torch.autograd.grad((drawn * weights).sum(), list(leaves.values()), allow_unused=True)
        except RuntimeError:  # PyTorch's Wishart overwrites what its backward needs
            return
        for name, gradient in zip(leaves, gradients):
            record[f"{key}gradient {name}"] = np.array("None") if gradient is None else gradient.numpy()


def main() -> None:
    warnings.simplefilter("ignore")
    record: dict[str, np.ndarray] = {}
    for label in cases.LABELS:
        for dtype in ("float32", "float64"):
            of_distribution(record, label, dtype)
    operands = cases.divergence_operands(torch)
    for of_p, (p, _) in operands.items():
        for of_q, (_, q) in operands.items():
            attempt(record, f"kl|{of_p}|{of_q}", lambda p=p, q=q: torch.distributions.kl_divergence(p, q))
    for name, (transform, x) in cases.transforms(torch).items():
        y = attempt(record, f"transform|{name}|value", lambda t=transform, x=x: t(x))
        attempt(record, f"transform|{name}|inverse", lambda t=transform, y=y: t.inv(y))
        attempt(record, f"transform|{name}|stretch", lambda t=transform, x=x, y=y: t.log_abs_det_jacobian(x, y))
    for name, constraint in cases.constraints(torch).items():
        for i, value in enumerate(cases.candidates(torch)):
            attempt(record, f"constraint|{name}|{i}", lambda c=constraint, v=value: c.check(v))
    for dimension, scramble in ((1, False), (7, False), (40, True)):
        engine = torch.quasirandom.SobolEngine(dimension, scramble, seed=5)
        record[f"sobol|{dimension}|{scramble}"] = torch.cat([engine.draw(1), engine.fast_forward(9).draw(20)]).numpy()
    texts = {name: cases.said(function) for name, function in cases.sayings(torch).items()}
    index = [(key, str(value.dtype), value.shape) for key, value in record.items()]
    np.savez_compressed(
        TESTS / "golden" / "distributions.npz",
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        data=np.frombuffer(b"".join(value.tobytes() for value in record.values()), np.uint8),
        sayings=np.frombuffer(json.dumps(texts).encode(), np.uint8),
    )


if __name__ == "__main__":
    main()
