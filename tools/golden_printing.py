"""Writes tests/mindtorch_v2/golden/printing.json: expressions, print options, and the text PyTorch shows for them.

Run with PyTorch installed: python tools/golden_printing.py
"""

import json
import pathlib
import random
from math import inf, nan

import torch

TARGET = pathlib.Path(__file__).parent.parent / "tests" / "mindtorch_v2" / "golden" / "printing.json"
FLOATS = ("float32", "float32", "float64", "float16", "bfloat16")
INTEGERS = {"int64": 10**12, "int32": 10**9, "int16": 3 * 10**4, "int8": 100, "uint8": 100}

FIXED = [
    "torch.tensor(3.)", "torch.tensor(-2)", "torch.tensor(True)", "torch.tensor(1 - 2.5j)", "torch.tensor(nan)",
    "torch.tensor([])", "torch.zeros(0, 3)", "torch.zeros(0, dtype=torch.int64)", "torch.zeros(2, 0, 3)",
    "torch.zeros(0, 2, dtype=torch.bool)", "torch.zeros(0, 2, dtype=torch.complex64)",
    "torch.tensor([1., 1000.])", "torch.tensor([1., 1001.])", "torch.tensor([0.5, 500.])", "torch.tensor([0.5, 500.5])",
    "torch.tensor([1e8])", "torch.tensor([1e8 + 8])", "torch.tensor([1e-4])", "torch.tensor([1.1e-4])",
    "torch.tensor([nan, 1.])", "torch.tensor([-inf, 1.5])", "torch.tensor([inf, -inf])", "torch.tensor([nan, 1e6])",
    "torch.tensor([-0., 1.])", "torch.tensor([-0., 1.5])", "torch.tensor([0., 0.])", "torch.tensor([0., 1e-8])",
    "torch.tensor([1e100, 1.5, -1e-100], dtype=torch.float64)", "torch.tensor([6e4, 1e2], dtype=torch.float16)",
    "torch.tensor([1.5 + 2j, 1e6 + 3j])", "torch.tensor([complex(nan, inf), 1 + 1j])", "torch.tensor([2 + 0.25j] * 9)",
    "torch.tensor([1 + 2.5j], dtype=torch.complex128)", "torch.tensor([1.5, 2.]).to(torch.float8_e5m2)",
    "torch.tensor([1., 448.]).to(torch.float8_e4m3fn)", "torch.tensor([True, False])",
    "torch.arange(1000)", "torch.arange(1001)", "torch.arange(1200.).reshape(40, 30)",
    "torch.arange(1500).reshape(10, 15, 10)", "torch.zeros(7, 200)", "torch.zeros(2000, 2)", "torch.zeros(1, 1, 1001)",
    "torch.ones(1, 1, 1, 1, 2)", "torch.ones(2, 3, 2, 2)", "torch.arange(60) * 1000",
    "torch.ones(2, requires_grad=True)", "torch.ones(2, requires_grad=True) + 1",
    "(torch.ones(2, requires_grad=True) * 2)[0]",
    "torch.ones(2, requires_grad=True).view(2, 1)", "torch.ones(2, 3, requires_grad=True).sum()",
    "torch.nn.Parameter(torch.ones(2, 2))", "torch.nn.Parameter(torch.ones(2, dtype=torch.float16))",
    "torch.nn.Parameter(torch.full((2, 7), 0.25, dtype=torch.float64))", "torch.zeros(0, requires_grad=True)",
    "torch.empty(2, 3, device='meta')", "torch.empty(2, dtype=torch.float64, device='meta', requires_grad=True)",
    "torch.empty((), device='meta')", "torch.empty(2, dtype=torch.int64, device='meta')",
    *(f"torch.full(({n},), 0.25, dtype=torch.float64)" for n in range(5, 11)),
    *(f"torch.full(({n},), 0.25, dtype=torch.float64, requires_grad=True) * 2" for n in range(3, 10)),
]  # fmt: skip
OPTIONS = [
    {"precision": 0}, {"precision": 8}, {"sci_mode": True}, {"sci_mode": False}, {"linewidth": 20}, {"linewidth": 5},
    {"threshold": 5}, {"threshold": 5, "edgeitems": 1}, {"threshold": 5, "edgeitems": 0}, {"profile": "short"},
    {"profile": "short", "precision": 7}, {"profile": "full"}, {"linewidth": 120, "precision": 2},
]  # fmt: skip
WITH_OPTIONS = [
    "torch.tensor(1.5)", "torch.tensor([1., 2.5, 1e-3])", "torch.tensor([1., 2.])", "torch.tensor([0., nan])",
    "torch.arange(30.).reshape(5, 6) / 8", "torch.arange(12).reshape(2, 6)",
    "torch.tensor([1.5 - 2j, -22.5 + 333j] * 4)",
    "torch.full((3, 4), 0.25, dtype=torch.float64, requires_grad=True)",
]  # fmt: skip


def random_number(rng: random.Random, kind: int, scale: float) -> float:
    """One number of a family: any, whole, few decimals, wide range, with zeros, with the non-finite ones."""
    families = (
        lambda: rng.gauss(0, 1) * scale,
        lambda: float(rng.randint(-2000, 2000)),
        lambda: round(rng.gauss(0, 3), 1),
        lambda: rng.gauss(0, 1) * 10.0 ** rng.randint(-6, 6),
        lambda: rng.choice([0.0, -0.0, rng.random()]),
        lambda: rng.choice([nan, inf, -inf, float(rng.randint(-9, 9)), rng.choice([0.5, 1.0])]),
    )
    return families[kind]()


def nested(rng: random.Random, shape: list[int], number) -> list:
    return [nested(rng, shape[1:], number) for _ in range(shape[0])] if shape else number()


def random_expression(rng: random.Random) -> str:
    """A tensor written out, with dtype and maybe requires_grad."""
    shape = [rng.randint(1, longest) for longest in rng.choice([[], [4], [25], [4, 4], [3, 9], [2, 3, 4]])]
    kind, scale = rng.randrange(6), 10.0 ** rng.randint(-7, 9)
    choice = rng.random()
    if choice < 0.65:
        dtype = rng.choice(FLOATS)
        values = nested(rng, shape, lambda: float(f"{random_number(rng, kind, scale):.6g}"))
    elif choice < 0.8:
        dtype = rng.choice(("complex64", "complex128"))
        values = nested(
            rng, shape, lambda: complex(*(float(f"{random_number(rng, kind % 5, scale):.5g}") for _ in "ab"))
        )
    else:
        dtype, bound = rng.choice(list(INTEGERS.items()))
        low = 0 if dtype == "uint8" else -bound
        values = nested(rng, shape, lambda: rng.randint(low, bound))
    requires_grad = ", requires_grad=True" if choice < 0.8 and rng.random() < 0.25 else ""
    return f"torch.tensor({values}, dtype=torch.{dtype}{requires_grad})"


def text_of(expression: str, options: dict, default_dtype: str) -> str:
    torch.set_printoptions(profile="default")
    torch.set_printoptions(**options)
    torch.set_default_dtype(getattr(torch, default_dtype))
    return repr(eval(expression, {"torch": torch, "nan": nan, "inf": inf}))


def main() -> None:
    rng = random.Random(7)
    cases = [(expression, {}, "float32") for expression in FIXED]
    cases += [(expression, options, "float32") for options in OPTIONS for expression in WITH_OPTIONS]
    for default in ("float64", "float16"):
        for dtype in ("float16", "float32", "float64", "complex64", "complex128", "int64"):
            cases.append((f"torch.ones(2, dtype=torch.{dtype})", {}, default))
            cases.append((f"torch.ones(0, dtype=torch.{dtype})", {}, default))
    cases += [(random_expression(rng), {}, "float32") for _ in range(150)]
    with TARGET.open("w") as file:
        lines = [json.dumps([*case, text_of(*case)]) for case in cases]
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
