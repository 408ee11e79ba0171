"""torch.sparse, gradients of embeddings that are sparse, and the element types that NumPy does not have."""

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import gradcheck

INDICES = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
DENSE = torch.tensor([[0.0, 0.0, 5.0], [2.0, 0.0, 3.0]])


def uncoalesced(dtype: Any = torch.float32) -> torch.Tensor:
    return torch.sparse_coo_tensor(INDICES, torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=dtype), (2, 3))


def of_layout(layout: Any, dtype: Any = torch.float32) -> torch.Tensor:
    return in_layout(DENSE.to(dtype), layout, (2, 1))


BLOCKED = (torch.sparse_bsr, torch.sparse_bsc)
LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, *BLOCKED)


def in_layout(tensor: torch.Tensor, layout: Any, blocks: tuple[int, int]) -> torch.Tensor:
    return tensor.to_sparse(layout=layout, blocksize=blocks if layout in BLOCKED else None)


def random_sparse(seed: int, *shape: int, sparse_dim: int | None = None) -> torch.Tensor:
    """A tensor with repeated indices."""
    rng = np.random.default_rng(seed)
    dims = len(shape) if sparse_dim is None else sparse_dim
    indices = np.stack([rng.integers(0, n, 7) for n in shape[:dims]])
    values = rng.normal(size=(7, *shape[dims:]))
    return torch.sparse_coo_tensor(torch.from_numpy(indices), torch.from_numpy(values), shape)


# making and showing --------------------------------------------------------------------------------------------------


def test_a_coo_tensor_infers_its_size_and_says_what_it_is() -> None:
    made = torch.sparse_coo_tensor([[0, 1]], [[1, 2], [3, 4]])
    assert (made.shape, made.dtype, made.layout) == ((2, 2), torch.int64, torch.sparse_coo)
    assert (made.sparse_dim(), made.dense_dim(), made._nnz(), made.is_coalesced()) == (1, 1, 2, False)
    assert made.is_sparse and not made.is_sparse_csr and not DENSE.is_sparse and made.stride() == (0, 0)
    assert torch.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0.0] * 3] * 2
    assert torch.zeros(2, 3, layout=torch.sparse_csr).crow_indices().tolist() == [0, 0, 0]


@pytest.mark.parametrize(("make", "text"), [
    (lambda: torch.sparse_coo_tensor(torch.tensor([[-1]]), torch.ones(1)), "found negative index -1 for dim 0"),
    (lambda: torch.sparse_coo_tensor([[0, 1]], [1.0], (2,)), "must have same nnz, but got nnz from indices: 2"),
    (lambda: torch.sparse_coo_tensor([[0]], [1.0], (2, 3)), "len(size) = 2, sparse_dim = 1, dense_dim = 0"),
    (lambda: torch.sparse_coo_tensor([[0, 7]], [1.0, 2.0], (3,), check_invariants=True), "size is 3 but found index 7"),
    (lambda: torch.sparse_csr_tensor([0, 1, 2], [2, 0, 2], [1.0, 2.0, 3.0], (2, 3), check_invariants=True),
     "`crow_indices[..., -1] == nnz` is not satisfied."),
    (lambda: torch.sparse_csr_tensor([0, 1, 3], [2, 2, 0], [1.0, 2.0, 3.0], (2, 3), check_invariants=True),
     "are sorted and distinct along the last dimension"),
    (lambda: uncoalesced().indices(), "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"),
    (lambda: DENSE.values(), "values expected sparse tensor layout but got Strided"),
    (lambda: uncoalesced() + DENSE, "add(sparse, dense) is not supported. Use add(dense, sparse) instead."),
    (lambda: uncoalesced() / DENSE, "Sparse division requires a scalar or zero-dim dense tensor divisor"),
    (lambda: uncoalesced().exp(), "Could not run 'aten::exp' with arguments from the 'SparseCPU' backend"),
    (lambda: of_layout(torch.sparse_csr).cos(), "Could not run 'aten::cos' with arguments from the 'SparseCsrCPU'"),
    (lambda: DENSE.to_sparse_bsr((2, 2)),
     "dense_to_sparse_bsr: tensor sparse size (2,3) must be divisible by given blocksize (2,2)"),
    (lambda: DENSE.to_sparse_bsc((0, 1)), "dense_to_sparse_bsc: blocksize needs to be positive, but got [0, 1]"),
    (lambda: DENSE.to_sparse(layout=torch.sparse_bsr), "dense_to_sparse: conversion from Strided to SparseBsr without "
     "blocksize argument given is not supported"),
    (lambda: of_layout(torch.sparse_csr).to_sparse(layout=torch.sparse_csc, blocksize=(1, 1)),
     "sparse_compressed_to_sparse: conversion from SparseCsr to SparseCsc with blocksize argument given is not"),
    (lambda: of_layout(torch.sparse_bsr).to_sparse_bsc((1, 1)), "sparse_compressed_to_sparse_bsc: conversion from "
     "SparseBsr to SparseBsc with blocksize changed from [2, 1] to [1, 1] is not supported"),
    (lambda: of_layout(torch.sparse_bsr).to_sparse_csr(),
     "sparse_compressed_to_sparse_csr: expected SparseCsr or SparseCsc layout but got SparseBsr"),
    (lambda: of_layout(torch.sparse_bsc).crow_indices(),
     "crow_indices expected sparse row compressed tensor layout but got SparseBsc"),
    (lambda: torch.sparse_bsr_tensor([0, 1], [0], torch.ones(1, 2, 2), (2, 3)),
     "tensor shape[1] (=3) must be divisible with blocksize[1] (=2) as defined by values shape"),
    (lambda: torch.sparse_bsc_tensor([0, 1], [0], torch.ones(1), (2, 2)),
     "values must have dimensionality > sum of batch and block dimensionalities (=0 + 2) but got 1"),
    (lambda: torch.sparse_bsr_tensor([0, 1], [0], torch.ones(1, 2, 2), (4, 2)),
     "crow_indices.shape[-1] must be equal to the number of row blocks + 1 (=3), but got 2"),
    (lambda: torch.sparse_bsr_tensor([0, 1], [0], torch.ones(1, 2, 2), layout=torch.sparse_csr),
     "sparse_bsr_tensor: layout must be SparseBsr but got SparseCsr"),
    (lambda: torch.sparse_compressed_tensor([0, 1], [0], torch.ones(1)),
     "sparse_compressed_tensor expected sparse compressed tensor layout but got none"),
    (lambda: torch._validate_compressed_sparse_indices(True, torch.tensor([0, 2]), torch.tensor([0, 1]), 1, 1, 2),
     "`0 <= col_indices < ncols` is not satisfied."),
    (lambda: torch._validate_sparse_bsr_tensor_args(torch.tensor([0, 1]).int(), torch.tensor([0]), torch.ones(1, 1, 1),
                                                    (1, 1)),
     "crow_indices and col_indices must have the same dtype, bot got Int and Long, respectively"),
    (lambda: of_layout(torch.sparse_bsr).copy_(in_layout(DENSE, torch.sparse_bsr, (1, 1))),
     "torch.copy_: copy of sparse compressed tensors having different block sizes is not supported."),
    (lambda: torch.empty_like(of_layout(torch.sparse_bsr), layout=torch.sparse_csr),
     "empty_like with different sparse layout is not supported (self is SparseBsr but you requested SparseCsr)"),
    (lambda: of_layout(torch.sparse_bsr).stride(), "Sparse BSR tensors do not have strides"),
    (lambda: uncoalesced().untyped_storage(), "Cannot access storage of SparseTensorImpl"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(make: Callable, text: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        make()
    assert text in str(raised.value)


def test_invariants_are_checked_where_asked_for() -> None:
    def make() -> torch.Tensor:
        return torch.sparse_coo_tensor([[0, 7]], [1.0, 2.0], (3,))

    make()
    with torch.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="found index 7"):
        make()
    assert not torch.sparse.check_sparse_tensor_invariants.is_enabled()
    with pytest.raises(IndexError):  # an index outside never shows another element
        make().to_dense()


def test_text_is_pytorchs() -> None:
    assert repr(uncoalesced().requires_grad_()) == (
        "tensor(indices=tensor([[0, 1, 1, 0],\n                       [2, 0, 2, 2]]),\n"
        "       values=tensor([1., 2., 3., 4.]),\n"
        "       size=(2, 3), nnz=4, layout=torch.sparse_coo, requires_grad=True)"
    )
    assert repr(of_layout(torch.sparse_csr).double()) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n       col_indices=tensor([2, 0, 2]),\n"
        "       values=tensor([5., 2., 3.]), size=(2, 3), nnz=3, dtype=torch.float64,\n       layout=torch.sparse_csr)"
    )
    assert repr(torch.sparse_coo_tensor((2, 3))) == (
        "tensor(indices=tensor([], size=(2, 0)),\n       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, layout=torch.sparse_coo)"
    )
    assert repr(torch.tensor([[1.0, 0.0, 2.0, 3.0], [0.0] * 4]).to_sparse_bsr((2, 2))) == (
        "tensor(crow_indices=tensor([0, 2]),\n       col_indices=tensor([0, 1]),\n       values=tensor([[[1., 0.],\n"
        "                       [0., 0.]],\n\n                      [[2., 3.],\n                       [0., 0.]]]), "
        "size=(2, 4), nnz=2,\n       layout=torch.sparse_bsr)"
    )


# values --------------------------------------------------------------------------------------------------------------


def test_coalescing_sums_what_is_at_one_place() -> None:
    made = uncoalesced().coalesce()
    assert made.indices().tolist() == [[0, 1, 1], [2, 0, 2]] and made.values().tolist() == [5.0, 2.0, 3.0]
    assert made.is_coalesced() and made.coalesce() is made
    assert torch.sparse_coo_tensor([[0, 0]], torch.tensor([100, 100], dtype=torch.int8), (1,)).coalesce().values(
    ).tolist() == [-56]


@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("target", (*LAYOUTS, torch.strided))
def test_conversions_keep_the_elements(source: Any, target: Any) -> None:
    if source in BLOCKED and target in (torch.sparse_csr, torch.sparse_csc):
        return  # refused, as in PyTorch; see above
    made = in_layout(of_layout(source), target, (2, 1))
    assert made.layout is target
    assert torch.equal(made.to_dense(), DENSE)


def test_batches_and_dense_dimensions_of_compressed_layouts() -> None:
    x = torch.arange(1.0, 25.0).reshape(2, 3, 4)
    for made in (x.to_sparse_csr(), x.to_sparse_csc(), x.to_sparse_csr(dense_dim=1), x.to_sparse(2)):
        assert torch.equal(made.to_dense(), x)
    for made in (x.to_sparse_bsr((3, 2)), x.to_sparse_bsc((1, 4)), x.to_sparse_bsr((2, 3), dense_dim=1)):
        assert torch.equal(made.to_dense(), x) and torch.equal(made.to_sparse().to_dense(), x)
    blocks = x.to_sparse_bsr((3, 2))
    assert blocks.values().shape == (2, 2, 3, 2) and blocks.crow_indices().tolist() == [[0, 2], [0, 2]]
    assert torch.equal(blocks[1].to_dense(), x[1]) and torch.equal(blocks.mT.to_dense(), x.mT)
    assert blocks.mT.layout is torch.sparse_bsc
    assert x.to_sparse_bsr((2, 3), dense_dim=1).values().shape == (1, 2, 3, 4)
    assert torch.equal(x.to_sparse_bsr((2, 3), dense_dim=1).select(2, 1).to_dense(), x[:, :, 1])
    assert x.to_sparse_csr().values().shape == (2, 12) and x.to_sparse_csr(dense_dim=1).values().shape == (6, 4)


ELEMENTWISE: tuple[Callable, ...] = (
    lambda a, b, d: a + b, lambda a, b, d: a - b, lambda a, b, d: torch.add(a, b, alpha=3), lambda a, b, d: d + a,
    lambda a, b, d: d - a, lambda a, b, d: a * b, lambda a, b, d: a * d, lambda a, b, d: d * a, lambda a, b, d: a * 2.5,
    lambda a, b, d: -a,
)  # fmt: skip
COO_ONLY: tuple[Callable, ...] = (
    lambda a, b, d: a / 4, lambda a, b, d: a.div(0.3, rounding_mode="floor"), lambda a, b, d: a.sin().abs(),
    lambda a, b, d: a.pow(3), lambda a, b, d: a.t(), lambda a, b, d: a.sum(0), lambda a, b, d: a.sum((0, 1)),
    lambda a, b, d: a.sum(1, keepdim=True), lambda a, b, d: a[1], lambda a, b, d: a[:, 2], lambda a, b, d: a[1, 2],
    lambda a, b, d: a.index_select(1, torch.tensor([3, 0, 3])), lambda a, b, d: torch.cat([a, b], 1),
    lambda a, b, d: torch.stack([a, b], 1), lambda a, b, d: a.unsqueeze(-1), lambda a, b, d: a.narrow_copy(1, 1, 2),
    lambda a, b, d: a.norm(), lambda a, b, d: a.relu(), lambda a, b, d: torch.sparse.sum(a, 1)
    if a.layout is torch.sparse_coo else a.sum(1), lambda a, b, d: a.square().sqrt(),
)  # fmt: skip


@pytest.mark.parametrize(("layout", "function"), [
    *((layout, function) for layout in LAYOUTS for function in ELEMENTWISE),
    *((torch.sparse_coo, function) for function in COO_ONLY),
])  # fmt: skip
def test_operators_agree_with_dense_tensors(layout: Any, function: Callable) -> None:
    first, second, dense = random_sparse(1, 4, 5), random_sparse(2, 4, 5), torch.arange(20.0).double().reshape(4, 5)
    if layout is not torch.sparse_coo:
        first, second = (in_layout(x, layout, (2, 5)) for x in (first, second))
    expected = function(first.to_dense(), second.to_dense(), dense)
    torch.testing.assert_close(function(first, second, dense).to_dense(), expected)


def test_dense_dimensions_take_part() -> None:
    x, y = random_sparse(3, 4, 3, 2, sparse_dim=1), torch.arange(24.0).double().reshape(4, 3, 2)
    for function in (lambda t: t * y, lambda t: y + t, lambda t: t[:, 1], lambda t: t[2], lambda t: t.sum((0, 2)),
                     lambda t: torch.cat([t, t], 2), lambda t: t.permute(0, 2, 1), lambda t: t.index_select(
                         1, torch.tensor([2, 2]))):  # fmt: skip
        torch.testing.assert_close(function(x).to_dense(), function(x.to_dense()))


def test_in_place_forms_write_to_either_layout() -> None:
    sparse, dense = uncoalesced(), DENSE.clone()
    assert sparse.mul_(2) is sparse and torch.equal(sparse.to_dense(), 2 * DENSE) and sparse._version == 1
    sparse.add_(uncoalesced(), alpha=-1)
    assert torch.equal(sparse.to_dense(), DENSE)
    dense.add_(sparse, alpha=2).sub_(sparse)
    assert torch.equal(dense, 2 * DENSE)
    assert sparse.zero_()._nnz() == 0
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(2, 3, dtype=torch.int64).add_(sparse)


# products ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_agree_with_dense_ones(layout: Any) -> None:
    a, b = random_sparse(4, 4, 5), torch.arange(15.0).double().reshape(5, 3)
    threes, fours = torch.ones(3).double(), torch.ones(4).double()
    linear = torch.nn.functional.linear
    s = a if layout is torch.sparse_coo else in_layout(a, layout, (2, 5))
    d = a.to_dense()
    pairs = [(s @ b, d @ b), (b.t() @ s.t(), b.t() @ d.t()), (s @ b[:, 0], d @ b[:, 0]), (s.t() @ s, d.t() @ d),
             (torch.addmm(threes, s, b, beta=2, alpha=3), torch.addmm(threes, d, b, beta=2, alpha=3)),
             (torch.addmv(fours, s, b[:, 0], alpha=2), fours + 2 * (d @ b[:, 0])),
             (torch.sparse.mm(s, b), d @ b), (linear(b.t(), s, fours), linear(b.t(), d, fours))]  # fmt: skip
    for found, expected in pairs:
        torch.testing.assert_close(found.to_dense(), expected)


def test_reduced_products() -> None:
    sparse, other = of_layout(torch.sparse_csr), torch.arange(6.0).reshape(3, 2)
    assert torch.sparse.mm(sparse, other, "mean").tolist() == [[20.0, 25.0], [6.0, 8.5]]
    assert torch.sparse.mm(sparse, other, "amin").tolist() == [[20.0, 25.0], [0.0, 2.0]]
    with pytest.raises(RuntimeError, match="reduce type of prod has not been enabled"):
        torch.sparse.mm(sparse, other, "prod")


def test_softmax_counts_only_what_is_there() -> None:
    made = torch.sparse.softmax(uncoalesced(torch.float64), 1)
    filled = torch.where(DENSE == 0, -torch.inf, DENSE.double()).softmax(1)
    torch.testing.assert_close(made.to_dense(), filled)
    torch.testing.assert_close(torch.sparse.log_softmax(uncoalesced(torch.float64), 1).values(), made.values().log())


def test_diagonals() -> None:
    made = torch.sparse.spdiags(torch.arange(6.0).reshape(2, 3), torch.tensor([0, -1]), (3, 4), torch.sparse_csr)
    assert made.to_dense().tolist() == [[0, 0, 0, 0], [3, 1, 0, 0], [0, 4, 2, 0]]


# gradients -----------------------------------------------------------------------------------------------------------

_OTHER = torch.arange(6.0).double().reshape(3, 2)


@pytest.mark.parametrize("function", [
    lambda s: s.to_dense(), lambda s: s.coalesce().values(), lambda s: torch.sparse.mm(s, _OTHER),
    lambda s: torch.mm(s, _OTHER), lambda s: torch.sparse.sum(s, 0), lambda s: torch.sparse.softmax(s, 1),
    lambda s: (s * s).to_dense(), lambda s: s.sin(), lambda s: (-s / 3).t(),
    lambda s: s.to_sparse_csr().to_sparse_csc(), lambda s: s.to_sparse_bsr((1, 3)).to_sparse_bsc((1, 3)),
    lambda s: s.to_sparse_bsc((2, 1)).sin().values(), lambda s: torch.sparse.mm(s.to_sparse_bsr((2, 1)), _OTHER),
    lambda s: torch.sparse.mm(s, s.t()), lambda s: torch.cat([s, s], 1), lambda s: s.sum(),
])  # fmt: skip
def test_gradients_agree_with_differences(function: Callable) -> None:
    assert torch.sparse.as_sparse_gradcheck(gradcheck)(function, (uncoalesced(torch.float64).requires_grad_(),))


def test_gradients_of_reduced_and_sampled_products() -> None:
    check = torch.sparse.as_sparse_gradcheck(gradcheck)
    sparse = of_layout(torch.sparse_csr, torch.float64).requires_grad_()
    other = (torch.arange(6.0).double().reshape(3, 2) + 1).requires_grad_()
    for reduce in ("sum", "mean", "amax", "amin"):
        assert check(lambda a, b, how=reduce: torch.sparse.mm(a, b, how), (sparse, other))
    left, right = (torch.arange(8.0).double().reshape(shape).requires_grad_() for shape in ((2, 4), (4, 2)))
    mask = torch.eye(2).double().to_sparse_csr().requires_grad_()
    assert check(lambda m, a, b: torch.sparse.sampled_addmm(m, a, b, beta=2, alpha=3), (mask, left, right))


def test_the_gradient_of_the_sparse_factor_is_sparse_where_pytorchs_is() -> None:
    sparse, dense = uncoalesced().requires_grad_(), torch.arange(6.0).reshape(3, 2).requires_grad_()
    torch.sparse.mm(sparse, dense).sum().backward()
    assert sparse.grad.layout is torch.sparse_coo and sparse.grad._indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert sparse.grad._values().tolist() == [9.0, 1.0, 9.0]
    sparse.grad = None
    torch.mm(sparse, dense).sum().backward()
    assert sparse.grad.layout is torch.strided and sparse.grad.tolist() == [[1.0, 5.0, 9.0]] * 2


def test_values_of_the_constructor_have_a_gradient() -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    made = torch.sparse_coo_tensor(INDICES, values, (2, 3))
    (made.to_dense() * torch.arange(1.0, 7.0).reshape(2, 3)).sum().backward()
    assert values.grad.tolist() == [3.0, 4.0, 6.0, 3.0]


def parts(tensor: torch.Tensor) -> tuple:
    return tensor._indices().tolist(), tensor._values().tolist(), tensor.is_coalesced()


def test_an_embedding_gives_a_row_for_each_place() -> None:
    table = torch.ones(5, 2, requires_grad=True)

    def show(*places: int, padding: int | None = None) -> torch.Tensor:
        return torch.nn.functional.embedding(torch.tensor(places), table, padding_idx=padding, sparse=True)

    (show(1, 2, 1, 4, padding=2) * torch.arange(8.0).reshape(4, 2)).sum().backward()
    assert parts(table.grad) == ([[1, 1, 4]], [[0.0, 1.0], [4.0, 5.0], [6.0, 7.0]], False)
    show(3).sum().backward()
    assert parts(table.grad)[0] == [[1, 1, 4, 3]]
    (2 * table).sum().backward()  # sparse + dense
    assert table.grad.layout is torch.strided
    show(3).sum().backward()  # dense + sparse
    assert table.grad.tolist() == [[2.0, 2.0], [6.0, 8.0], [2.0, 2.0], [4.0, 4.0], [8.0, 9.0]]
    table.grad = None
    (show(3, 1).sum() + show(1, 3, 4).sum()).backward()
    assert parts(table.grad)[0] == [[3, 1, 1, 3, 4]]
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        torch.nn.functional.embedding(torch.tensor([1]), table, sparse=True, scale_grad_by_freq=True).sum().backward()


def test_a_bag_gives_a_row_for_each_index() -> None:
    bag = torch.nn.EmbeddingBag(5, 2, mode="mean", sparse=True)
    made = bag(torch.tensor([1, 2, 4, 4, 0]), torch.tensor([0, 2, 2]))
    (made * torch.tensor([[0.0, 1.0], [2.0, 3.0], [3.0, 6.0]])).sum().backward()
    assert parts(bag.weight.grad) == ([[1, 2, 4, 4, 0]], [[0.0, 0.5], [0.0, 0.5], *[[1.0, 2.0]] * 3], False)


def test_gather_can_give_a_sparse_gradient() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    taken = x.gather(1, torch.tensor([[0, 0], [2, 1]]), sparse_grad=True)
    (taken * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert parts(x.grad) == ([[0, 0, 1, 1], [0, 0, 2, 1]], [1.0, 2.0, 3.0, 4.0], False)


@pytest.mark.parametrize(("kind", "options"), [
    (torch.optim.SGD, {}), (torch.optim.SGD, {"maximize": True}), (torch.optim.Adagrad, {}),
])  # fmt: skip
def test_optimizers_take_sparse_gradients_as_dense_ones(kind: Any, options: dict) -> None:
    tables = []
    for sparse in (False, True):
        torch.manual_seed(0)
        table = torch.nn.Embedding(6, 3, sparse=sparse)
        optimizer = kind(table.parameters(), lr=0.1, **options)
        for step in range(3):
            optimizer.zero_grad()
            (table(torch.tensor([1, 2, 1, step])) ** 2).sum().backward()
            optimizer.step()
        tables.append(table.weight.detach())
    torch.testing.assert_close(tables[1], tables[0])


def test_sparse_adam_moves_the_rows_that_were_used() -> None:
    table = torch.nn.Embedding(4, 2, sparse=True)
    before = table.weight.detach().clone()
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.5)
    table(torch.tensor([1, 3, 1])).sum().backward()
    optimizer.step()
    moved = table.weight.detach() - before
    torch.testing.assert_close(moved[[1, 3]], torch.full((2, 2), -0.5), rtol=1e-4, atol=1e-4)
    assert moved[[0, 2]].abs().max() == 0
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        torch.optim.Adam(table.parameters()).step()


# copies --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights_only", [True, False])
def test_files_hold_all_layouts(weights_only: bool) -> None:
    saved = {"coo": uncoalesced(), **{str(kind): of_layout(kind) for kind in LAYOUTS[1:]}}
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    for name, loaded in torch.load(file, weights_only=weights_only).items():
        assert loaded.layout is saved[name].layout and torch.equal(loaded.to_dense(), DENSE)
    assert not torch.load(io.BytesIO(file.getvalue()))["coo"].is_coalesced()


def test_copies_are_apart() -> None:
    first = uncoalesced().requires_grad_()
    for second in (copy.deepcopy(first), first.detach().clone()):
        second.detach_().zero_()
    assert torch.equal(first.detach().to_dense(), DENSE) and first.detach()._indices() is first._indices()
    assert first.double().dtype is torch.float64 and first.float() is first
    assert torch.zeros_like(first)._nnz() == 0 and first.detach().to("cpu").is_sparse


def test_sparse_tensors_inside_a_pipeline_and_under_no_grad() -> None:
    with torch.no_grad():
        assert not (uncoalesced().requires_grad_() * 2).requires_grad
    with torch.pipeline():
        made = (torch.ones(2, 3) + 1) + uncoalesced() * 2
    assert torch.equal(made, 2 + 2 * DENSE)


def test_old_constructors() -> None:
    made = torch.sparse.FloatTensor(INDICES, torch.ones(4), torch.Size([2, 3]))
    assert isinstance(made, torch.sparse.FloatTensor) and not isinstance(made, torch.FloatTensor)
    assert made.type() == "torch.sparse.FloatTensor"
    assert torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (1,)).item() == 3.0


# element types -------------------------------------------------------------------------------------------------------


def test_complex32_is_kept_as_pairs_and_computed_as_complex64() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j]).chalf()
    assert (x.dtype, x.element_size(), torch.chalf) == (torch.complex32, 4, torch.complex32)
    assert repr(x) == "tensor([1.+2.j, 3.-4.j], dtype=torch.complex32)" and x[0].item() == 1 + 2j
    assert torch.view_as_real(x).tolist() == [[1.0, 2.0], [3.0, -4.0]] and torch.view_as_real(x).dtype is torch.half
    assert (x * x + 1j).tolist() == [-3 + 5j, -7 - 23j] and (x * x).dtype is torch.complex32
    assert x.abs().dtype is torch.half and (x + torch.ones(2)).dtype is torch.complex64
    assert (torch.ones(1).half() * 1j).dtype is torch.complex32 and x.clone().fill_(2).tolist() == [2, 2]
    x += torch.tensor([1j, 1])
    assert x.tolist() == [1 + 3j, 4 - 4j] and torch.ones(1, dtype=torch.chalf).tolist() == [1]
    assert torch.stack([x, x]).t().contiguous().tolist() == [[1 + 3j] * 2, [4 - 4j] * 2]
    source = torch.ones(2, requires_grad=True)
    torch.view_as_real(source.chalf()).sum().backward()
    assert source.grad.tolist() == [1.0, 1.0]


def test_types_without_tensors_can_be_named() -> None:
    for name, size in (("uint4", 1), ("int7", 1), ("bits16", 2), ("qint32", 4), ("quint8", 1), ("float4_e2m1fn_x2", 1)):
        kind = getattr(torch, name)
        assert isinstance(kind, torch.dtype) and repr(kind) == f"torch.{name}" and kind.itemsize == size
        assert kind != torch.float32 and kind == getattr(torch, name)
        for make in (lambda d=kind: torch.empty(2, dtype=d), lambda d=kind: torch.ones(2).to(d)):
            with pytest.raises(NotImplementedError, match=f"no tensors of type torch.{name}"):
                make()


def test_eight_bit_types_round_as_pytorchs() -> None:
    x = torch.tensor([0.3, 17.0, 241.0, 300.0, -0.0])
    assert x.to(torch.float8_e4m3fnuz).float().tolist()[:3] == [0.3125, 16.0, 240.0]
    assert x.to(torch.float8_e4m3fnuz).float()[3].isnan() and x.to(torch.float8_e5m2fnuz).float()[3].item() == 320.0
    assert x.to(torch.float8_e4m3fn).float().tolist()[2:4] == [240.0, 288.0]
    assert torch.tensor([500.0, -torch.inf]).to(torch.float8_e4m3fn).float().tolist() == [448.0, -448.0]
    unsigned = torch.tensor([0.3, -500.0, 0.0]).to(torch.float8_e8m0fnu)
    assert unsigned.float().tolist() == [0.25, 512.0, 2.0**-127] and not unsigned.dtype.is_signed


# types, writes and out= ----------------------------------------------------------------------------------------------

UNSIGNED = torch.sparse_coo_tensor([[0, 2]], torch.tensor([1, 2], dtype=torch.uint8), (3,))


@pytest.mark.parametrize("kind", [torch.int8, torch.int64, torch.float32])
def test_subtraction_of_unsigned_numbers_is_in_the_common_type(kind):
    sparse = torch.tensor([3, 3, 0]).to(kind).to_sparse()
    assert (sparse - UNSIGNED).to_dense().tolist() == [2, 3, -2]
    assert sparse.add(UNSIGNED, alpha=-2).to_dense().tolist() == [1, 3, -4]
    assert (torch.ones(3, dtype=kind) - UNSIGNED).tolist() == [0, 1, -1]
    assert torch.ones(3, dtype=kind).sub(UNSIGNED, alpha=3).tolist() == [-2, 1, -5]
    assert (UNSIGNED - sparse).to_dense().tolist() == [-2, -3, 2]
    if kind is not torch.int8:  # to whose type the result, int16, is not brought silently
        assert sparse.clone().sub_(UNSIGNED).to_dense().tolist() == [2, 3, -2]


def test_bools_are_not_subtracted():
    with pytest.raises(RuntimeError, match="with two bool tensors is not supported"):
        UNSIGNED.bool() - UNSIGNED.bool()
    with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
        UNSIGNED.sub_(UNSIGNED.bool())


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.parametrize("index", [0, (0, 1), slice(None), ..., None, True, False, torch.tensor([0])], ids=str)
def test_items_of_sparse_tensors_are_not_written(layout, index):
    sparse = torch.eye(2).to_sparse(layout=layout)
    for value in (1.0, torch.ones(2), torch.ones(2).to_sparse()):
        with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
            sparse[index] = value
    assert torch.equal(sparse.to_dense(), torch.eye(2)) and sparse._version == 0


def test_copies_into_compressed_tensors():
    target = torch.eye(2).to_sparse_csr()
    target.copy_(torch.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=torch.float64).to_sparse_csr())
    assert target.to_dense().tolist() == [[0.0, 2.0], [3.0, 0.0]] and target.dtype is torch.float32
    for source, message in (
        (torch.ones(2, 2), "different layouts is not supported. self layout is SparseCsr and src layout is Strided"),
        (torch.eye(2).to_sparse(), "self layout is SparseCsr and src layout is Sparse"),
        (torch.eye(2).to_sparse_csc(), "self layout is SparseCsr and src layout is SparseCsc"),
        (torch.ones(2, 2).to_sparse_csr(), "only sparse compressed tensors with the same number of specified elements"),
        (3, "self layout is SparseCsr and src layout is Strided"),
    ):
        with pytest.raises(RuntimeError, match=message):
            target.copy_(source)
    with pytest.raises(RuntimeError, match="copy_sparse_compressed_ expected sparse compressed tensor layout but got"):
        torch.zeros(2, 2).copy_(target)
    with pytest.raises(RuntimeError, match="Sparse CSR tensors do not have is_contiguous"):
        target.add_(torch.ones(2, 2))
    assert target.to_dense().tolist() == [[0.0, 2.0], [3.0, 0.0]] and target._version == 1
    assert target.fill_(7).to_dense().tolist() == [[0.0, 7.0], [7.0, 0.0]]


def test_transposing_in_place():
    sparse = torch.tensor([[3.0, 0.0, 1.0], [0.0, 2.0, 0.0]]).to_sparse()
    assert sparse.t_() is sparse and sparse.to_dense().tolist() == [[3.0, 0.0], [0.0, 2.0], [1.0, 0.0]]
    assert sparse.transpose_(0, 1).shape == (2, 3) and sparse._version == 2
    with pytest.raises(RuntimeError, match="in-place transposition is not supported for SparseCsr layout"):
        torch.eye(2).to_sparse_csr().t_()


def test_results_in_sparse_out():
    eye = torch.eye(2).to_sparse()
    for target in (torch.zeros(2, 2).to_sparse(), torch.ones(3, 3, dtype=torch.float64).to_sparse()):
        assert torch.sin(eye, out=target) is target and target._version == 1
        assert torch.allclose(target.to_dense(), torch.eye(2).sin().to(target.dtype))
        assert torch.equal(torch.add(eye, eye, out=target).to_dense(), 2 * torch.eye(2).to(target.dtype))
    csr = torch.eye(2).to_sparse_csr()
    assert torch.equal(torch.neg(csr, out=csr.clone()).to_dense(), -torch.eye(2))
    assert torch.equal(torch.add(csr, csr, out=torch.zeros(2, 2).to_sparse_csr()).to_dense(), 2 * torch.eye(2))
    with pytest.raises(RuntimeError, match="only sparse compressed tensors with the same number of specified elements"):
        torch.neg(csr, out=torch.ones(2, 2).to_sparse_csr())
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.sin(eye, out=eye.long())
    for source, target in ((eye, torch.zeros(2, 2)), (torch.eye(2), eye.clone()), (eye, csr.clone())):
        with pytest.raises(RuntimeError, match="expected a result of layout"):
            torch.sin(source, out=target)


def test_true_divide_of_integers():
    made = torch.tensor([3, 0]).to_sparse().true_divide(2)
    assert made.dtype is torch.float32 and made.to_dense().tolist() == [1.5, 0.0]


def test_the_old_constructor_of_coo_tensors():
    eye = torch.eye(2).to_sparse()
    assert eye.new().shape == (0,) and eye.new(2, 3).shape == eye.new(torch.Size([2, 3])).shape == (2, 3)
    assert eye.new(size=(2, 2))._nnz() == 0
    made = eye.new(eye.indices(), eye.values(), torch.Size([3, 3]))
    assert made.shape == (3, 3) and made._nnz() == 2 and eye.new(eye.indices(), eye.values()).shape == (2, 2)
    for wrong, message in (([2, 3], "only accepts sizes"), (eye.indices(), "received an invalid combination")):
        with pytest.raises(TypeError, match=message):
            eye.new(wrong)


def test_parts_of_sparse_tensors_are_validated():
    eye = torch.eye(2).to_sparse()
    torch._validate_sparse_coo_tensor_args(eye.indices(), eye.values(), (2, 2))
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch._validate_sparse_coo_tensor_args(eye.indices(), eye.values(), (1, 1))
    starts, columns = torch.tensor([0, 1, 3]), torch.tensor([0, 1])
    with pytest.raises(RuntimeError, match=r"`crow_indices\[..., -1\] == nnz` is not satisfied"):
        torch._validate_sparse_compressed_tensor_args(starts, columns, eye.values(), (2, 2), torch.sparse_csr)


@pytest.mark.parametrize("name", ["abs", "arcsin", "log1p", "nan_to_num", "relu", "sign", "sqrt", "trunc"])
def test_an_uncoalesced_tensor_is_not_changed_in_place(name):
    twice = torch.sparse_coo_tensor([[0, 0, 1]], [0.1, 0.2, 0.3], (3,))
    with pytest.raises(RuntimeError, match=f"^{name.removeprefix('arc').replace('sin', 'asin')}_ requires coalesced"):
        getattr(twice, f"{name}_")()
    assert twice._nnz() == 3 and twice._version == 0
    once = twice.coalesce()
    expected = getattr(once.to_dense(), name)()
    assert torch.equal(getattr(once, f"{name}_")().to_dense(), expected)


def test_compressed_tensors_keep_the_type_of_their_indices():
    starts, plain = (torch.tensor(numbers, dtype=torch.int32) for numbers in ([0, 1, 2], [0, 1]))
    csr = torch.sparse_csr_tensor(starts, plain, torch.tensor([1.0, 2.0]))
    csc = csr.to_sparse_csc()
    assert csc.ccol_indices().dtype is csc.row_indices().dtype is torch.int32
    assert csc.to_sparse_csr().crow_indices().dtype is torch.int32
    assert torch.zeros_like(csr).crow_indices().dtype is torch.int32
    assert csr.to_sparse_coo().indices().dtype is torch.int64
    assert csr.to_sparse_coo().to_sparse_csr().crow_indices().dtype is torch.int64


def test_zeros_like_of_a_compressed_tensor_has_its_dimensions():
    blocks = torch.sparse_csr_tensor([0, 1, 2], [0, 1], torch.ones(2, 4), (2, 2, 4))
    made = torch.zeros_like(blocks, dtype=torch.float64)
    assert (made.shape, made.dense_dim(), made.sparse_dim(), made._nnz()) == ((2, 2, 4), 1, 2, 0)
    assert made.dtype is torch.float64 and made.to_dense().sum() == 0


def test_offsets_of_diagonals_are_a_vector():
    with pytest.raises(RuntimeError, match="Offsets must be scalar or vector"):
        torch.sparse.spdiags(torch.ones(1, 3), torch.tensor([[0]]), (3, 3))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc])
def test_tensors_like_a_compressed_one(layout: Any) -> None:
    x = of_layout(layout)
    for made, expected in ((torch.ones_like(x), 1.0), (torch.full_like(x, 3), 3.0)):
        assert made.layout is layout and made.values().unique().tolist() == [expected]
        assert made.values().shape == x.values().shape
    assert torch.empty_like(x)._nnz() == torch.randn_like(x)._nnz() == x._nnz()
    assert torch.empty_like(x, dtype=torch.int64).dtype is torch.int64
    other = {torch.sparse_csr: torch.sparse_csc, torch.sparse_csc: torch.sparse_csr, torch.sparse_bsr: torch.sparse_bsc,
             torch.sparse_bsc: torch.sparse_bsr}[layout]
    for wanted in (layout, other, torch.sparse_coo):
        zeros = torch.zeros_like(x, layout=wanted)
        assert zeros.layout is wanted and zeros._nnz() == 0 and torch.equal(zeros.to_dense(), torch.zeros(2, 3))
    if layout in (torch.sparse_bsr, torch.sparse_bsc):
        assert torch.zeros_like(x, layout=other).values().shape == (0, 2, 1)
    with pytest.raises(RuntimeError, match="empty_like with different sparse layout is not supported"):
        torch.empty_like(x, layout=other)
    unlike = torch.sparse_bsr if layout in (torch.sparse_csr, torch.sparse_csc) else torch.sparse_csr
    with pytest.raises(RuntimeError, match="sparse_compressed_tensor_with_dims: blocksize"):
        torch.zeros_like(x, layout=unlike)


def test_zeros_with_a_coo_result_have_no_elements() -> None:
    out = uncoalesced()
    assert torch.zeros((2, 2), out=out) is out
    assert out.shape == (2, 2) and out._nnz() == 0
    with pytest.raises(RuntimeError, match="memory format option is only supported by strided tensors"):
        torch.zeros_like(out, memory_format=torch.contiguous_format)


def test_products_of_sparse_tensors_broadcast_dense_dimensions_and_single_numbers() -> None:
    rows, factors = DENSE.to_sparse(1), torch.tensor([[2.0], [3.0]]).to_sparse(1)
    assert torch.equal((rows * factors).to_dense(), DENSE * torch.tensor([[2.0], [3.0]]))
    three = torch.tensor(3.0).to_sparse()
    for made in (DENSE.to_sparse() * three, three * DENSE.to_sparse()):
        assert torch.equal(made.to_dense(), DENSE * 3)
    with pytest.raises(RuntimeError, match="expects sparse inputs with equal dimensionality"):
        DENSE.to_sparse() * torch.ones(1, 3).to_sparse()


def test_a_masked_extreme_of_all_elements_that_is_zero_is_not_stored() -> None:
    x, mask = DENSE.to_sparse(), (DENSE >= 0).to_sparse()
    for name in ("amin", "prod"):
        made = getattr(torch.masked, name)(x, mask=mask)
        assert made._nnz() == 0 and made.to_dense().item() == 0
