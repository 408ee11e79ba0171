"""The text of tensors against what PyTorch shows, recorded by tools/golden_printing.py."""

import json
import pathlib
from collections.abc import Iterator
from math import inf, nan

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._core import printing as _printing

CASES = json.loads((pathlib.Path(__file__).parent / "golden" / "printing.json").read_text())


@pytest.fixture(autouse=True)
def default_settings() -> Iterator[None]:
    yield
    torch.set_printoptions(profile="default")
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("expression", "options", "default_dtype", "expected"), CASES)
def test_text_is_pytorchs(expression: str, options: dict, default_dtype: str, expected: str) -> None:
    torch.set_printoptions(**options)
    torch.set_default_dtype(getattr(torch, default_dtype))
    tensor = eval(expression, {"torch": torch, "nan": nan, "inf": inf})
    assert repr(tensor) == expected
    assert str(tensor) == expected


def test_options_are_kept_until_changed_but_for_sci_mode() -> None:
    torch.set_printoptions(precision=7, sci_mode=True)
    torch.set_printoptions(profile="short", linewidth=50)
    assert _printing.get_printoptions() == {
        "precision": 2,
        "threshold": 1000,
        "edgeitems": 2,
        "linewidth": 50,
        "sci_mode": None,
    }
    torch.set_printoptions(profile="unknown", precision=3)
    assert (_printing.PRINT_OPTS.precision, _printing.PRINT_OPTS.edgeitems) == (3, 2)
    torch.set_printoptions(profile="full")
    assert _printing.PRINT_OPTS.threshold == inf


def test_another_device_is_named() -> None:
    class Tensor:
        shape, dtype, device, requires_grad, grad_fn = (2,), torch.float64, "npu:0", False, None

    text = _printing.tensor_repr(Tensor(), array_of=lambda _: np.ones(2), get_default_dtype=lambda: torch.float32)
    assert text == "tensor([1., 1.], device='npu:0', dtype=torch.float64)"
