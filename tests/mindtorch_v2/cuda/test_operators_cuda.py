"""All declared operators on a CUDA device, driven by their samples, against the CPU."""


import device_cases
import operator_cases as samples
import pytest
from device_cases import OnDevice, each, run, tensors_on
from operator_cases import Declaration

import mindtorch_v2 as torch

SAMPLED = samples.sampled()
every_operator = pytest.mark.parametrize("declaration", SAMPLED.values(), ids=SAMPLED)
# Errors in the data that only the CPU reports.
FOUND_IN_DATA = (*device_cases.FOUND_IN_DATA, "singular", "not positive-definite", "failed to converge",
                 "offsets[0] has to be 0", "not in the valid range")
OTHER_STRIDES = device_cases.OTHER_STRIDES | {"aten::unique_dim"}
# Vectors and factors that are not unique, the derivatives of which are.
SIGN_IS_FREE = frozenset(f"aten::{name}" for name in (
    "linalg_svd", "_linalg_svd", "svd", "linalg_eigh", "_linalg_eigh", "linalg_eig", "linalg_qr", "qr", "geqrf",
    "svd_lowrank", "pca_lowrank"))
# What the device computes by another formula than the CPU, with the tolerance that takes.
LOOSE = {"aten::special_ndtri": 1e-4, "aten::histc": 1e-4}
# Norms that give means and deviations of halves as float32 there, and on the CPU in the type of their parameters.
WIDE_STATISTICS = frozenset(f"aten::{name}" for name in (
    "native_layer_norm", "_native_layer_norm", "native_batch_norm", "_native_batch_norm_legit.no_stats"))
ON_CUDA = OnDevice("cuda", FOUND_IN_DATA, OTHER_STRIDES, SIGN_IS_FREE, LOOSE, WIDE_STATISTICS)


@every_operator
def test_samples(declaration: Declaration) -> None:
    """Values, types, shapes, strides; errors."""
    each(declaration, ON_CUDA.check_values)


DERIVED = device_cases.derived(SAMPLED)


@pytest.mark.parametrize("declaration", DERIVED.values(), ids=DERIVED)
def test_gradients(declaration: Declaration) -> None:
    each(declaration, ON_CUDA.check_gradients)


INPLACE = {name: d for name, d in SAMPLED.items() if d.inplace is not None}


@pytest.mark.parametrize("declaration", INPLACE.values(), ids=INPLACE)
def test_in_place(declaration: Declaration) -> None:
    each(declaration, ON_CUDA.check_in_place)


OTHER_TYPES = {"float64": 1e-9, "float16": 4e-3, "bfloat16": 4e-2, "int64": 0.0, "bool": 0.0, "complex64": 1e-4}


def differing_in(dtype: str) -> list[str]:
    """The first samples of each operator in another type that give something else than on the CPU."""
    found = []
    for declaration in SAMPLED.values():
        for call in samples.secondary_calls(declaration):
            try:
                wanted = run(call, tensors_on(call, "cpu", dtype), "cpu")
            except Exception:  # whatever the CPU refuses
                continue
            try:
                got = run(call, tensors_on(call, "cuda", dtype), "cuda")
                ON_CUDA.assert_same(call, got, wanted, max(OTHER_TYPES[dtype], 2e-5))
            except Exception as error:  # an operator under test may raise anything
                said = (str(error).strip().splitlines() or [""])[0]
                found.append(f"{declaration.operator.name} {call}: {type(error).__name__}: {said}")
    return found


@pytest.mark.parametrize("dtype", OTHER_TYPES)
def test_other_types(dtype: str) -> None:
    found = differing_in(dtype)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("function", [torch.linspace, torch.logspace])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16, torch.int64])
def test_spaced_numbers_between_tensors(function, kind) -> None:
    bounds = torch.tensor(-1.5), torch.tensor(3.0, dtype=torch.float64)
    expected = function(*bounds, 7, dtype=kind)
    made = function(*(bound.cuda() for bound in bounds), 7, dtype=kind, device="cuda")
    assert made.device.type == "cuda" and made.dtype is kind
    torch.testing.assert_close(made.cpu(), expected)
    torch.testing.assert_close(function(bounds[0].cuda(), 3, 7, dtype=kind, device="cpu"),
                               function(bounds[0], 3, 7, dtype=kind))


def test_log_sigmoid_of_many_elements() -> None:
    x = torch.linspace(-100, 100, 1 << 18)
    torch.testing.assert_close(torch.nn.functional.logsigmoid(x.cuda()).cpu(), torch.nn.functional.logsigmoid(x))


@pytest.mark.parametrize("size", [3, 80])
def test_pivots_that_are_no_rows_are_not_followed(size) -> None:
    """Nobody waits for the device to look at them, and nothing outside of the matrices is touched."""
    LU, pivots = torch.linalg.lu_factor(torch.eye(size, device="cuda") + 1)
    right = torch.ones(size, 1, device="cuda")
    for wrong in (0, size + 1, 10**8, -(10**8)):
        assert torch.linalg.lu_solve(LU, torch.full_like(pivots, wrong), right).isfinite().all()
        assert torch.lu_unpack(LU, torch.full_like(pivots, wrong))[0].sum() == size


def test_numbers_that_are_equal_but_of_other_types() -> None:
    made = [torch.full((2,), value, device="cuda").dtype for value in (1, True, 1.0)]
    assert made == [torch.int64, torch.bool, torch.float32]


def test_singular_values_of_infinities() -> None:
    matrix = torch.eye(3, device="cuda")
    matrix[0, 0] = float("inf")
    assert torch.linalg.svdvals(matrix).isnan().all() and torch.linalg.matrix_rank(matrix) == 0


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_sparse_tensors_are_made_and_turned_dense(layout) -> None:
    x = torch.tensor([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 4.0, 0.0]])
    made, wanted = x.cuda().to_sparse(layout=layout), x.to_sparse(layout=layout)
    assert made.layout is layout and made.device.type == made.values().device.type == "cuda"
    for ours, theirs in zip((*made._array.parts, made.values()), (*wanted._array.parts, wanted.values()), strict=True):
        assert ours.device.type == "cuda" and ours.tolist() == theirs.tolist()
    assert made.to_dense().device.type == "cuda" and made.to_dense().tolist() == x.tolist()
    with pytest.raises(NotImplementedError, match="takes one on the CPU"):
        made @ torch.ones(4, 2, device="cuda")


def test_parts_of_complex_numbers_are_copied() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    z = torch.complex(x, -x)
    on_device = torch.complex(x.cuda(), -x.cuda())
    assert torch.equal(on_device.cpu(), z) and torch.equal(on_device.t().contiguous().cpu(), z.t().contiguous())
    assert torch.equal(x.cuda().t().to(torch.complex128).cpu(), x.t().to(torch.complex128))
    assert torch.equal(on_device.t().to(torch.complex128).cpu(), z.t().to(torch.complex128))
    filled = torch.zeros(3, 4, dtype=torch.bfloat16, device="cuda")
    filled[:, ::2] = 1.5
    assert filled.sum().item() == 9.0


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (40, 70_001), (70_000, 12)], ids=str)
def test_spreads_norms_and_sums(shape: tuple[int, ...], kind: torch.dtype) -> None:
    """Of few and of so many numbers that they are folded in parts; far from zero, where squares alone would cancel."""
    torch.manual_seed(0)
    x = (torch.randn(shape) + 50).to(kind)
    x[0, 1] = float("nan")
    y, tolerance = x.cuda(), dict(rtol=2e-2 if kind.itemsize == 2 else 1e-4, atol=1e-5, equal_nan=True)
    for dim in (None, 0, 1):
        assert torch.allclose(y[1:].var(dim).cpu(), x[1:].var(dim), **tolerance)
        assert torch.allclose(y.std(dim, correction=0).cpu(), x.std(dim, correction=0), **tolerance)
        assert torch.allclose(torch.nansum(y, dim).cpu(), torch.nansum(x, dim), **tolerance)
        assert torch.allclose(torch.linalg.vector_norm(y[1:], dim=dim).cpu(),
                              torch.linalg.vector_norm(x[1:], dim=dim), **tolerance)
    assert torch.hash_tensor(y[1:]).item() == torch.hash_tensor(x[1:]).item()
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert y[1:2, 1:2].var().isnan()
    with pytest.warns(UserWarning, match="degrees of freedom"):  # at each call
        assert y[1:2, 1:2].var().isnan()


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_alignments_of_labels(kind: torch.dtype, zero_infinity: bool) -> None:
    torch.manual_seed(0)
    labels = torch.tensor([[1, 1, 2, 3, 3], [4, 5, 0, 0, 0], [1, 2, 3, 4, 5], [0, 1, 0, 2, 0]])
    lengths, inputs = (5, 2, 5, 0), (12, 9, 3, 12)  # of which the third fits nowhere
    together = torch.cat([row[:n] for row, n in zip(labels, lengths, strict=True)])
    scores = torch.randn(12, 4, 6, dtype=kind)
    for targets in (labels, together):
        made = []
        for device in ("cpu", "cuda"):
            given = scores.clone().to(device).requires_grad_()
            losses = torch.nn.functional.ctc_loss(given.log_softmax(-1), targets.to(device), inputs, lengths,
                                                  reduction="none", zero_infinity=zero_infinity)
            losses.backward(torch.arange(1.0, 5).to(device, kind))
            made.append((losses.detach().cpu(), given.grad.cpu()))
        for got, wanted in zip(made[1], made[0], strict=True):
            assert torch.allclose(got, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_counting_up() -> None:
    for args in ((5,), (5.0,), (0, 5.0), (0, 5), (-3, 9, 2), (0.5, 3), (7, 0, -3)):
        for kind in (None, torch.int8, torch.float64, torch.bfloat16, torch.float16):
            if kind is not None and not kind.is_floating_point and any(isinstance(a, float) for a in args):
                continue
            for _ in range(2):
                got, wanted = torch.arange(*args, dtype=kind, device="cuda"), torch.arange(*args, dtype=kind)
                assert got.dtype is wanted.dtype and torch.equal(got.cpu(), wanted)


def test_lists_of_views_that_are_made_again() -> None:
    base = torch.arange(24.0, device="cuda").reshape(2, 3, 4).clone()
    for x in (base, base[1:], base[1:]):
        host = x.cpu()
        for _ in range(3):
            for call in (lambda t: torch.hsplit(t, (1, 2)), lambda t: torch.tensor_split(t, 3, 2),
                         lambda t: torch.broadcast_tensors(t, t[:, :1]),
                         lambda t: torch.meshgrid(t[0, 0], t[0, 1], indexing="xy")):
                got, wanted = call(x), call(host)
                assert [(t.shape, t.stride()) for t in got] == [(t.shape, t.stride()) for t in wanted]
                assert all(torch.equal(a.cpu(), b) for a, b in zip(got, wanted, strict=True))
                assert all(t is x or t._base is base for t in got)
    first, second = torch.hsplit(base, (1,))
    first.zero_()
    assert base[:, 0].eq(0).all() and second._version == base._version == 1
    base.requires_grad_()
    first, second = torch.hsplit(base, (1,))
    second.sum().backward()
    assert torch.equal(base.grad.cpu()[:, :, 0], torch.tensor([[0.0, 1, 1], [0, 1, 1]]))
