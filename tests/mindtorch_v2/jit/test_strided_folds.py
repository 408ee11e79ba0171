"""Reductions of arrays that are not contiguous in any order: folded where they lie, with what a copy gives."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._backends.cpu.kernels import reduce

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")

LAYOUTS = {  # a tensor, and the dimensions over which it is folded where it lies
    "a part": (lambda x: x[1:9, 2:11], [None, (0,), (1,)]),
    "every second row": (lambda x: x[::2], [None, (0,), (1,)]),
    "every second column": (lambda x: x[:, ::2], [(0,)]),
    "a row for all": (lambda x: x[:1].expand(5, -1), [None, (0,), (1,)]),
    "a column for all": (lambda x: x[:, :1].clone().expand(-1, 5), [None, (0,), (1,)]),
    "a part, turned": (lambda x: x[1:9, 2:11].t(), [None, (0,), (1,)]),
    "images without borders": (lambda x: x.reshape(2, 4, 5, 6)[:, :, 1:-1, 1:-1],
                               [None, (2, 3), (3,), (2,)]),
    "a middle dimension": (lambda x: x.reshape(4, 10, 6)[:, 2:7], [None, (1,), (0, 1), (2,), (0, 2)]),
}
CASES = [(name, dim) for name, (_, dims) in LAYOUTS.items() for dim in dims]
OPERATORS = ["sum", "mean", "amax", "amin", "any", "all", "nansum"]


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


@pytest.fixture
def folded(monkeypatch):
    """How many folds were of arrays where they lie."""
    done, fold = [], reduce.Fold.strided
    monkeypatch.setattr(reduce.Fold, "strided", lambda self, *args: done.append(fold(self, *args)) or done[-1])
    return done


def elements(kind):
    made = torch.tensor(np.random.default_rng(0).normal(size=(20, 12)).astype(np.float32) * 3).to(kind)
    if kind.is_floating_point:
        made[3, 3] = float("nan")
    return made


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32, torch.bool, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name, dim", CASES)
def test_folds_give_what_they_give_of_a_copy(name, dim, kind, folded):
    x = LAYOUTS[name][0](elements(kind))
    array = x._array
    assert reduce.order_of(array.shape, array.strides, array.itemsize) is None
    assert reduce.apart_of(array.shape, array.strides, dim, array.itemsize, 1) is not None
    for operator in OPERATORS:
        if operator == "mean" and not kind.is_floating_point or operator == "nansum" and kind is torch.bool:
            continue
        function = getattr(torch, operator)
        for keepdim in (False, True) if dim else (False,):
            given = (dim, keepdim) if dim else ((),) if operator in ("amax", "amin") else ()
            made, wanted = function(x, *given), function(x.contiguous(), *given)
            assert made.dtype is wanted.dtype and made.stride() == wanted.stride()
            torch.testing.assert_close(made, wanted, equal_nan=True)
    assert folded and all(folded)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("dim", [None, (0,), (1,), (2,), (0, 2), (0, 1), (1, 2)])
def test_threads_share_them(threads, dim, folded):
    x = torch.tensor(np.random.default_rng(1).normal(size=(30, 50, 70)))[::2, 3:, 5:]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        made = x.sum(dim) if dim else x.sum()
    finally:
        torch.set_num_threads(before)
    assert folded == ([] if dim == (0,) else [True])  # of which two levels are kept behind the folded one
    np.testing.assert_allclose(made.numpy(), x.numpy().sum(dim), rtol=1e-12, atol=1e-10)


def test_norms_of_parts(folded):
    x = elements(torch.float64).nan_to_num()[2:, 3:]
    for order in (1, 2, 3.5, 0, float("inf")):
        made = torch.linalg.vector_norm(x, order, dim=1)
        np.testing.assert_allclose(made.numpy(), np.linalg.norm(x.numpy(), order, axis=1))
    assert len(folded) == 5


def test_what_cannot_be_folded_so_is_copied(folded):
    x = torch.ones(4, 6, 5, 7, 9)[:, 1:, 1:, 1:, 1:]
    assert torch.equal(x.sum((0, 2)), torch.full((5, 6, 8), 16.0))
    assert torch.equal(x.sum(0), torch.full((5, 4, 6, 8), 4.0))
    assert folded == []
