"""Warnings tell the line of the program that called, however deep in the library they are given, as PyTorch's do."""

import inspect
import warnings

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn import functional as F

ONE, FOUR, BYTES = torch.ones(1), torch.ones(2, 2), torch.ones(2, dtype=torch.uint8)
COMPLEX = torch.ones(2, dtype=torch.complex64)


def _hook_without_inputs():
    module = torch.nn.Linear(2, 2)
    module.register_full_backward_hook(lambda *given: None)
    module(FOUR).sum().backward()


CALLS = {
    "out of another shape": lambda: torch.add(FOUR, 1, out=torch.empty(3)),
    "out of another shape, composite": lambda: torch.matmul(FOUR, FOUR, out=torch.empty(3)),
    "out of another shape, two": lambda: torch.max(FOUR, 1, out=(torch.empty(3), torch.empty(3, dtype=torch.int64))),
    "a method": lambda: COMPLEX.to(torch.float32),
    "a method in place": lambda: torch.ones(2).copy_(COMPLEX),
    "a property": lambda: torch.ones(2, 2, 2).T,
    "a reduction": lambda: ONE.std(),
    "a factory": lambda: torch.range(0, 3),
    "a decomposition": lambda: torch.cholesky(torch.eye(2)),
    "an index": lambda: torch.ones(2)[BYTES],
    "a choice": lambda: torch.where(BYTES, 1.0, 2.0),
    "an old order of arguments": lambda: torch.add(FOUR, 2, FOUR),
    "a grad that is none": lambda: (torch.ones(2, requires_grad=True) * 2).grad,
    "a loss of two shapes": lambda: F.mse_loss(ONE, FOUR),
    "a loss with old names": lambda: F.kl_div(FOUR, FOUR),
    "a function of nn": lambda: F.softmax(FOUR),
    "a module": lambda: torch.nn.Softmax()(FOUR),
    "dropout": lambda: F.dropout2d(FOUR),
    "a convolution": lambda: F.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 2), padding="same"),
    "a hook in backward": _hook_without_inputs,
    "checkpoints": lambda: torch.utils.checkpoint.checkpoint_sequential([torch.nn.ReLU()], 1, FOUR),
}


@pytest.mark.parametrize("name", CALLS)
def test_warnings_tell_the_line_of_the_call(name):
    lines, first = inspect.getsourcelines(CALLS[name])
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        for _ in range(4):  # also when the call is planned, or would be
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                CALLS[name]()
            assert given
            for warning in given:
                assert warning.filename == __file__ and first <= warning.lineno < first + len(lines), warning
    finally:
        torch.set_warn_always(before)
