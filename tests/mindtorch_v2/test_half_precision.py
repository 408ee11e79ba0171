"""Numbers beside tensors of half precision: most operators round them first, products and quotients do not."""

from math import inf

import pytest

import mindtorch_v2 as torch

NUMBER = 8.396163642458497
# What PyTorch gives for x = [5.03125, -3.7, 0.8125, 11.4].
EXPECTED = [
    ("bfloat16", "x + m", [13.375, 4.6875, 9.1875, 19.75]),
    ("bfloat16", "m - x", [3.34375, 12.0625, 7.5625, -3.0]),
    ("bfloat16", "x - torch.tensor(m)", [-3.34375, -12.0625, -7.5625, 3.0]),
    ("bfloat16", "x * m", [42.25, -31.125, 6.8125, 95.5]),
    ("bfloat16", "x / m", [0.59765625, -0.44140625, 0.0966796875, 1.3515625]),
    ("bfloat16", "x % m", [5.03125, 4.6875, 0.8125, 3.0]),
    ("bfloat16", "x.abs() ** m", [753664.0, 57856.0, 0.17578125, 696254464.0]),
    ("bfloat16", "torch.lerp(x, -x, 0.3)", [2.015625, -1.484375, 0.32421875, 4.5625]),
    ("bfloat16", "torch.atan2(x, torch.tensor(m))", [0.5390625, -0.416015625, 0.0966796875, 0.9375]),
    ("float16", "x + m", [13.4296875, 4.69921875, 9.2109375, 19.796875]),
    ("float16", "m - x", [3.3671875, 12.09375, 7.5859375, -3.0]),
    ("float16", "x - torch.tensor(m)", [-3.3671875, -12.09375, -7.5859375, 3.0]),
    ("float16", "x * m", [42.25, -31.0625, 6.8203125, 95.6875]),
    ("float16", "x / m", [0.59912109375, -0.440673828125, 0.09674072265625, 1.357421875]),
    ("float16", "x % m", [5.03125, 4.69921875, 0.8125, 3.0]),
    ("float16", "x.abs() ** m", [inf, 59040.0, 0.1748046875, inf]),
    ("float16", "torch.lerp(x, -x, 0.3)", [2.01171875, -1.4794921875, 0.324951171875, 4.55859375]),
    ("float16", "torch.atan2(x, torch.tensor(m))", [0.53955078125, -0.414794921875, 0.096435546875, 0.93603515625]),
]


@pytest.mark.parametrize(("kind", "expression", "expected"), EXPECTED)
def test_a_number_is_rounded_as_pytorch_rounds_it(kind: str, expression: str, expected: list[float]) -> None:
    x = torch.tensor([5.03125, -3.7, 0.8125, 11.4]).to(getattr(torch, kind))
    made = eval(expression, {"x": x, "m": NUMBER, "torch": torch})
    assert made.dtype is getattr(torch, kind)
    assert made.float().tolist() == expected


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_distances_of_many_rows_are_products(kind):
    """PyTorch multiplies matrices of more than 25 rows in half precision, and has no kernel for others."""
    x, y = torch.linspace(-2, 3, 150).reshape(30, 5).to(kind).requires_grad_(), torch.linspace(0, 4, 20).reshape(4, 5)
    for first, second in ((x, y.to(kind)), (y.to(kind), x)):
        made = torch.cdist(first, second)
        assert made.dtype == kind
        assert torch.allclose(made.float(), torch.cdist(first.float(), second.float()), atol=0.04)
    torch.cdist(x, y.to(kind)).sum().backward()
    assert x.grad.dtype == kind and x.grad.any()
    assert torch.cdist(x[:3], y.to(kind), compute_mode="use_mm_for_euclid_dist").shape == (3, 4)
    for refused in (lambda: torch.cdist(x[:3], y.to(kind)), lambda: torch.cdist(x, y.to(kind), p=1.0)):
        with pytest.raises(NotImplementedError, match='"cdist" not implemented for'):
            refused()
