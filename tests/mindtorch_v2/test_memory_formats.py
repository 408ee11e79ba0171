"""Strides of results where arguments do not lie in C order, as PyTorch 2.13 gives them."""

import numpy as np
import pytest

import mindtorch_v2 as torch

X = torch.arange(120.0).reshape(2, 3, 4, 5)
LAYOUTS = {
    "plain": X, "channels last": X.contiguous(memory_format=torch.channels_last), "turned": X.permute(1, 0, 3, 2),
    "steps": X[:, :, ::2], "repeated": X[:, :1].expand(2, 3, 4, 5), "reversed": X.permute(3, 2, 1, 0),
    "a part": X[:, :, 1:3, 1:3], "one": X[:1].contiguous(memory_format=torch.channels_last),
}  # fmt: skip
SHIFTS = [((1,), (0,)), ((2,), (-1,)), ((1, 2), (0, 1)), ((1, 1), (0, 0)), ((-1, 1, 1), (1, 2, 3)), ((0,), (1,)),
          ((3,), None)]  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("shifts, dims", SHIFTS)
def test_rolls(name, shifts, dims):
    x = LAYOUTS[name]
    made = x.roll(shifts) if dims is None else x.roll(shifts, dims)
    np.testing.assert_array_equal(made.numpy(), np.roll(x.numpy(), shifts[0] if dims is None else shifts, dims))
    moved = dims is not None and all(s % x.shape[d] for s, d in zip(shifts, dims, strict=True))
    kept = moved and name in ("channels last", "one")
    assert made.is_contiguous(memory_format=torch.channels_last if kept else torch.contiguous_format)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dims", [(0,), (-1,), (1, 2), (0, 1, 2, 3), ()])
def test_flips(name, dims):
    x = LAYOUTS[name]
    for _ in range(3):
        made = x.flip(dims)
        np.testing.assert_array_equal(made.numpy(), np.flip(x.numpy(), dims))
        assert made.stride() == torch.empty_like(x).stride()


@pytest.mark.parametrize("shape, strides", [((2, 0, 4, 5), (0, 1, 0, 0)), ((2, 3, 0, 5), (0, 1, 15, 3)),
                                            ((0, 3, 4, 5), (60, 1, 15, 3)), ((2, 3, 4, 0), (0, 1, 0, 3))])  # fmt: skip
def test_nothing_with_channels_last(shape, strides):
    x = torch.ones(shape).contiguous(memory_format=torch.channels_last)
    for made in (x, x.clone(), x.flip(0), x.roll(1, 0), torch.empty(shape, memory_format=torch.channels_last)):
        assert made.stride() == strides
