"""Tensors of PyTorch and of the library in one call are refused by both sides, with a way out."""

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="needs the real PyTorch")

import torch as pytorch  # noqa: E402

import mindtorch_v2 as torch  # noqa: E402

THEIRS, OURS = pytorch.ones(2, 3), torch.ones(2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.add(OURS, THEIRS), lambda: OURS + THEIRS, lambda: THEIRS + OURS, lambda: OURS == THEIRS,
        lambda: pytorch.add(THEIRS, OURS), lambda: torch.cat([OURS, THEIRS]), lambda: pytorch.cat([THEIRS, OURS]),
        lambda: OURS.copy_(THEIRS), lambda: THEIRS.copy_(OURS), lambda: torch.exp(THEIRS), lambda: pytorch.exp(OURS),
        lambda: torch.nn.functional.linear(OURS, THEIRS), lambda: torch.nn.Linear(3, 2)(THEIRS),
        lambda: torch.exp(pytorch.nn.Parameter(THEIRS)), lambda: torch.max(THEIRS, 0),
        lambda: OURS[THEIRS > 0], lambda: OURS.__setitem__(0, THEIRS[0]), lambda: torch.nn.Parameter(THEIRS),
    ],
)  # fmt: skip
def test_a_call_with_both_says_how_to_bring_a_tensor_over(call: Callable) -> None:
    with pytest.raises(TypeError, match="from_dlpack"):
        call()


def test_from_dlpack_brings_it_over() -> None:
    assert (torch.from_dlpack(THEIRS) + OURS).tolist() == [[2.0] * 3] * 2
    assert (pytorch.from_dlpack(OURS) + THEIRS).tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float8_e5m2", "int64", "bool", "complex64"])
def test_tensors_are_made_of_pytorchs(kind: str) -> None:
    theirs = pytorch.tensor([[0, 1], [2, 3]]).to(getattr(pytorch, kind)).t()
    copy, shared = torch.tensor(theirs), torch.as_tensor(theirs)
    assert str(copy.dtype) == str(shared.dtype) == str(theirs.dtype)
    assert copy.tolist() == shared.tolist() == theirs.tolist() and shared.stride() == theirs.stride()
    theirs[0, 0] = True
    assert copy.tolist() != shared.tolist() == theirs.tolist()


def test_tensors_are_made_of_pytorchs_elements_and_parameters() -> None:
    assert torch.tensor([THEIRS[0, 0], 2]).tolist() == [1.0, 2.0]
    assert torch.tensor(pytorch.nn.Parameter(THEIRS), requires_grad=True).requires_grad
    assert not torch.tensor(pytorch.nn.Parameter(THEIRS)).requires_grad
    assert torch.tensor(THEIRS, dtype=torch.int64).dtype is torch.int64
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        torch.tensor([THEIRS])
