"""torch.masked: what masked-out elements leave behind, against loops over the elements that are left."""

import math

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import masked

X = np.array([[3.0, -1.0, 2.0, 5.0], [4.0, 4.0, -2.0, 0.5], [1.0, 2.0, 3.0, 4.0]])
MASK = np.array([[True, False, True, True], [False, True, True, False], [True, True, True, True]])
ROWS = [row[kept] for row, kept in zip(X, MASK, strict=True)]
REDUCED = {"sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "mean": np.mean,
           "var": lambda row: row.var(ddof=1), "std": lambda row: row.std(ddof=1), "norm": np.linalg.norm,
           "logsumexp": lambda row: np.log(np.exp(row).sum()),
           "median": lambda row: np.sort(row)[(len(row) - 1) // 2]}  # fmt: skip


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_see_unmasked_elements_only(name: str) -> None:
    function = getattr(masked, name)
    made = function(torch.tensor(X), dim=1, mask=torch.tensor(MASK))
    np.testing.assert_allclose(made.numpy(), [REDUCED[name](row) for row in ROWS], rtol=1e-12)
    kept = function(torch.tensor(X), dim=1, keepdim=True, mask=torch.tensor(MASK))
    assert kept.shape == (3, 1)


@pytest.mark.parametrize("name, wanted", [
    ("sum", 0.0), ("prod", 1.0), ("amax", -math.inf), ("amin", math.inf), ("mean", math.nan), ("median", math.nan),
    ("var", math.nan), ("norm", 0.0), ("logsumexp", -math.inf)])
def test_rows_without_elements(name: str, wanted: float) -> None:
    made = getattr(masked, name)(torch.tensor(X), dim=1, mask=torch.zeros(3, 4, dtype=torch.bool))
    np.testing.assert_array_equal(made.numpy(), [wanted] * 3)


def test_normalisations() -> None:
    x, mask = torch.tensor(X), torch.tensor(MASK)
    for name, sign in (("softmax", 1), ("softmin", -1)):
        made = getattr(masked, name)(x, 1, mask=mask).numpy()
        for row, kept, values in zip(made, MASK, ROWS, strict=True):
            np.testing.assert_allclose(row[kept], np.exp(sign * values) / np.exp(sign * values).sum())
            assert not row[~kept].any()
    np.testing.assert_allclose(masked.normalize(x, 2.0, 1, mask=mask).numpy()[MASK],
                               np.concatenate([row / np.linalg.norm(row) for row in ROWS]))  # fmt: skip
    np.testing.assert_allclose(masked.cumsum(x, 1, mask=mask).numpy(), np.cumsum(np.where(MASK, X, 0), 1))
    np.testing.assert_allclose(masked.cumprod(x, 1, mask=mask).numpy(), np.cumprod(np.where(MASK, X, 1), 1))


def test_indices_come_in_the_inputs_type() -> None:
    made = masked.argmax(torch.tensor(X), 1, mask=torch.tensor(MASK))
    assert made.dtype is torch.float64 and made.tolist() == [3.0, 1.0, 3.0]
    assert masked.argmin(torch.tensor(X).int(), 1, mask=torch.tensor(MASK)).tolist() == [2, 2, 0]


def test_gradients_reach_unmasked_elements_only() -> None:
    x = torch.tensor(X, requires_grad=True)
    for name in ("sum", "prod", "mean", "var", "norm", "logsumexp", "amax"):
        (grad,) = torch.autograd.grad(getattr(masked, name)(x, dim=1, mask=torch.tensor(MASK)).sum(), x)
        assert not grad.numpy()[~MASK].any() and grad.numpy()[MASK].any()


@pytest.mark.parametrize("call, kind, text", [
    (lambda x: masked.amax(x > 0, 1, mask=x > 0), NotImplementedError, "identity of amax on torch.bool input"),
    (lambda x: masked.mean(x.int(), 1), ValueError, "Could not infer output dtype"),
    (lambda x: masked.sum(x, mask=torch.ones(2, 3, 4, dtype=torch.bool)), IndexError, "expected broadcastable mask"),
    (lambda x: masked.median(x.int(), 1, mask=x > 9), ValueError, "expects no fully masked out rows")])
def test_refusals(call, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(torch.tensor(X))


# sparse inputs and masks ---------------------------------------------------------------------------------------------

MATRIX = torch.tensor([[1.0, 0.0, 3.0], [0.0, 5.0, 0.0]])
CHOSEN = torch.tensor([[True, False, True], [False, False, True]])
SPARSE = (torch.sparse_coo, torch.sparse_csr)


@pytest.mark.parametrize("layout", SPARSE)
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "softmax", "var", "norm"])
def test_sparse_masks_of_strided_input(name, layout):
    function, first = getattr(torch.masked, name), (2.0,) if name == "norm" else ()
    expected = function(MATRIX, *first, 1, mask=CHOSEN)
    made = function(MATRIX, *first, 1, mask=CHOSEN.to_sparse(layout=layout))
    assert torch.allclose(made, expected, rtol=0, equal_nan=True)


@pytest.mark.parametrize("layout", SPARSE)
@pytest.mark.parametrize(
    ("name", "expected"), [("sum", [4.0, 0.0]), ("prod", [3.0, 0.0]), ("amax", [3.0, 0.0]), ("amin", [1.0, 0.0])]
)
def test_reductions_of_sparse_input_are_sparse(name, expected, layout):
    function = getattr(torch.masked, name)
    for mask in (CHOSEN, *(CHOSEN.to_sparse(layout=kind) for kind in SPARSE)):
        made = function(MATRIX.to_sparse(layout=layout), 1, keepdim=True, mask=mask)
        assert made.layout is layout and made._nnz() == 2
        assert made.to_dense().tolist() == [[v] for v in expected]
    if name != "sum":
        with pytest.raises(ValueError, match=f"masked {name} expects explicit mask for"):
            function(MATRIX.to_sparse(layout=layout), 1)


def test_which_dimensions_of_sparse_input_are_left():
    coo, csr = MATRIX.to_sparse(), MATRIX.to_sparse_csr()
    whole = torch.masked.sum(coo, mask=CHOSEN)
    assert whole.layout is torch.sparse_coo and whole.shape == () and whole.to_dense().item() == 4
    columns = torch.masked.sum(coo, 0, mask=CHOSEN, dtype=torch.int64)
    assert columns.indices().tolist() == [[0, 2]] and columns.values().tolist() == [1, 3]
    assert torch.masked.sum(coo, 1).to_dense().tolist() == [4.0, 5.0]
    assert torch.masked.mean(csr, 1, keepdim=True, mask=CHOSEN).to_dense().tolist() == [[2.0], [0.0]]
    with pytest.raises(RuntimeError, match="reduction operations on CSR tensors with keepdim=False is unsupported"):
        torch.masked.sum(csr, 1, mask=CHOSEN)
    with pytest.raises(ValueError, match="masked mean expects strided or sparse_csr tensor"):
        torch.masked.mean(coo, 1, mask=CHOSEN)
    for name in ("softmax", "argmax", "cumsum", "median", "logsumexp"):
        with pytest.raises(ValueError, match=f"masked {name} expects strided tensor .got torch.sparse_coo tensor."):
            getattr(torch.masked, name)(coo, 1, mask=CHOSEN)


def test_gradients_reach_the_elements_of_sparse_input():
    coo = MATRIX.to_sparse().requires_grad_()
    torch.masked.prod(coo, 1, mask=CHOSEN).to_dense().sum().backward()
    assert coo.grad.to_dense().tolist() == [[3.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("layout", SPARSE)
def test_where_of_sparse_masks_has_the_chosen_elements(layout):
    made = torch.masked._where(CHOSEN.to_sparse(layout=layout), MATRIX.to_sparse(layout=layout), torch.tensor(9.0))
    assert made.layout is layout and made._nnz() == 3 and made.values().tolist() == [1.0, 3.0, 0.0]


def test_masked_functions_of_one_dimension_take_the_first_of_several() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.masked.cumsum(x, (1, 0)).tolist() == x.cumsum(0).tolist()
    assert torch.masked.amin(x, True).tolist() == [0.0, 3.0]


@pytest.mark.parametrize("keywords", [{}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"dim": (0,)}])
def test_reductions_of_a_number(keywords: dict) -> None:
    x = torch.tensor(-8.0)
    assert torch.masked.mean(x, mask=None, **keywords).tolist() == -8
    assert torch.masked.var(x, unbiased=False, mask=None, **keywords).tolist() == 0
