"""Tensors with a mask. What is expected is what PyTorch prints and raises."""

import warnings

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")


@pytest.fixture
def data():
    return torch.arange(12.0).reshape(3, 4)


@pytest.fixture
def mask(data):
    return data % 2 == 0


def shown(made):
    """A masked tensor as lists, None for what is masked out."""
    values, there = made.get_data().tolist(), made.get_mask().tolist()

    def pick(v, m):
        return [pick(*both) for both in zip(v, m, strict=True)] if isinstance(v, list) else v if m else None

    return pick(values, there)


def test_printing(data, mask):
    assert repr(masked_tensor(data, mask)) == (
        "MaskedTensor(\n  [\n"
        "    [  0.0000,       --,   2.0000,       --],\n"
        "    [  4.0000,       --,   6.0000,       --],\n"
        "    [  8.0000,       --,  10.0000,       --]\n"
        "  ]\n)")
    assert repr(masked_tensor(torch.tensor([1, 22, 3]), torch.tensor([True, False, True]))) == (
        "MaskedTensor(\n  [1,       --, 3]\n)")
    assert repr(masked_tensor(torch.tensor(1.5), torch.tensor(True))) == "MaskedTensor(  1.5000, True)"
    assert repr(masked_tensor(torch.tensor(1.5), torch.tensor(False))) == "MaskedTensor(--, False)"


def test_what_is_refused(data, mask):
    for made, kind, text in (
        (lambda: masked_tensor(0, mask), TypeError, "data must be a Tensor"),
        (lambda: masked_tensor(data, 0), TypeError, "mask must be a Tensor"),
        (lambda: masked_tensor(data, mask.float()), TypeError, "mask must have dtype bool."),
        (lambda: masked_tensor(data, mask[:2]), ValueError, r"data.size\(\) must equal mask.size\(\)"),
        (lambda: masked_tensor(data, mask[0]), ValueError, r"data.dim\(\) must equal mask.dim\(\)"),
        (lambda: masked_tensor(data.to_sparse(), mask), TypeError, "data and mask must have the same layout."),
        (lambda: masked_tensor(data.to_sparse_csc(), mask), TypeError, "data layout of torch.sparse_csc"),
        (lambda: masked_tensor(data.to(torch.complex64), mask), TypeError, "torch.complex64 is not supported"),
        (lambda: masked_tensor(data, mask) + masked_tensor(data, ~mask), ValueError, "Input masks must match."),
        (lambda: masked_tensor(data, mask).max(), TypeError, "torch._ops.aten.max.default"),
        (lambda: torch.add(masked_tensor(data, mask), 1, alpha=2), ValueError, r"len\(kwargs\) must equal 0"),
        (lambda: masked_tensor(data > 1, mask, requires_grad=True), RuntimeError, "Only Tensors of floating point"),
    ):
        with pytest.raises(kind, match=text):
            made()
    with pytest.warns(UserWarning, match="It is not recommended to create a MaskedTensor with a tensor that requires"):
        masked_tensor(data.requires_grad_(), mask)


def test_functions_of_elements_keep_the_mask(data, mask):
    made = masked_tensor(data, mask)
    assert shown(made + data) == [[0, None, 4, None], [8, None, 12, None], [16, None, 20, None]]
    assert shown(data + made) == shown(made + made) == shown(made * 2)
    assert shown(made > 3) == [[False, None, False, None], [True, None, True, None], [True, None, True, None]]
    assert shown(made[:, 1:3]) == [[None, 2], [None, 6], [None, 10]]
    assert shown(torch.cat([made, made])[3]) == [0, None, 2, None]
    assert shown(made.view(4, 3)[1]) == [None, 4, None]
    before = data.clone()
    assert made.neg_() is made and shown(made)[0] == [0, None, -2, None]
    assert torch.equal(data, before)  # a masked tensor has memory of its own
    assert made.to(torch.float64).get_data().dtype is torch.float64
    assert made.to_tensor(-1).tolist()[0] == [0, -1, -2, -1]
    assert is_masked_tensor(made.clone()) and made.size() == (3, 4) and made.stride() == (4, 1)


def test_reductions_leave_out_what_is_masked(data, mask):
    made = masked_tensor(data, mask)
    assert made.sum().get_data() == 30
    assert shown(made.sum(0)) == [12, None, 18, None]
    assert shown(made.sum(1, keepdim=True)) == [[2], [10], [18]]
    assert shown(made.mean(1)) == [1, 5, 9]
    assert shown(made.prod(0)) == [0, None, 120, None]
    assert shown(made.amax(1)) == [2, 6, 10] and made.amin((0, 1)).get_data() == 0
    assert shown(made.argmax(1)) == [2, 2, 2]
    assert made.var().get_data() == 14
    assert shown(masked_tensor(data > 3, mask).all(1)) == [False, True, True]
    torch.testing.assert_close(made.softmax(1).get_data()[0, ::2], torch.tensor([0.0, 2.0]).softmax(0))


def test_gradients_have_masks(data, mask):
    leaf = masked_tensor(data, mask, requires_grad=True)
    (leaf * leaf).sum().backward()
    assert shown(leaf.grad) == [[0, None, 4, None], [8, None, 12, None], [16, None, 20, None]]
    leaf = masked_tensor(data, mask, requires_grad=True)
    leaf.mean(1).sum().backward()
    assert shown(leaf.grad) == [[0.5, None, 0.5, None]] * 3
    leaf = masked_tensor(data, mask, requires_grad=True)
    leaf.amax(1).sum().backward()
    assert shown(leaf.grad) == [[0, None, 1, None]] * 3
    source = data.clone().requires_grad_()
    as_masked_tensor(source, mask).sum().backward()
    assert shown(source.grad) == [[1, None, 1, None]] * 3
    with torch.autograd.detect_anomaly(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MaskedTensor(data, mask, requires_grad=True).sum().backward()


def test_where_takes_elements_and_gradients_apart():
    data = torch.tensor([-2.0, -1.0, 3.0, 100.0])
    chosen = data < 0
    one = masked_tensor(data, chosen, requires_grad=True)
    other = masked_tensor(torch.ones(4), ~chosen, requires_grad=True)
    made = torch.where(chosen, one.exp(), other)
    assert made.get_mask().all()
    made.sum().backward()
    assert shown(one.grad)[2:] == [None, None] and shown(other.grad) == [None, None, 1, 1]
    torch.testing.assert_close(one.grad.get_data()[:2], data[:2].exp())


@pytest.mark.parametrize("name", ["to_sparse", "to_sparse_csr"])
def test_layouts(data, mask, name):
    leaf = masked_tensor(data, mask, requires_grad=True)
    sparse = getattr(leaf, name)()
    assert sparse.is_sparse and sparse.get_data()._nnz() == 6
    with pytest.raises(ValueError, match="MaskedTensors with sparse data do not have is_contiguous"):
        sparse.is_contiguous()
    sparse.to_dense().sum().backward()
    assert shown(leaf.grad) == [[1, None, 1, None]] * 3
    assert (sparse + sparse).get_data().to_dense()[0, 2] == 4
    assert sparse.sum().get_data() == 30


def test_plans_of_plain_tensors_are_not_used_for_masked_ones(data, mask):
    for _ in range(50):
        torch.nn.functional.softmax(data, 1)
    made = torch.nn.functional.softmax(masked_tensor(data, mask), 1)
    assert is_masked_tensor(made) and torch.equal(made.get_mask(), mask)
