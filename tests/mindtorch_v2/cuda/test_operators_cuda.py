"""All declared operators on a CUDA device, driven by their samples, against the CPU."""

from collections.abc import Callable
from typing import Any

import device_cases
import numpy as np
import operator_cases as samples
import pytest
from device_cases import plain, run, tensors_on
from operator_cases import Call, Declaration

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.dispatcher import dispatch
from mindtorch_v2._ops.families import Composite

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
# What CuPy has nothing for: they say so.
WITHOUT_KERNEL = frozenset(("aten::linalg_ldl_factor", "aten::linalg_ldl_factor_ex", "aten::special_airy_ai"))


def assert_same(call: Call, got: Any, wanted: Any, what: str, tolerance: float = 2e-5) -> None:
    got, wanted = samples.leaves(got), samples.leaves(wanted)
    assert len(got) == len(wanted), what
    name = call.declaration.operator.name
    for a, b in zip(got, wanted, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b or a != a and b != b, what
            continue
        assert a.device.type == "cuda", f"{what}: on {a.device}"
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{what}: {a.shape} {a.dtype}, not {b.shape} {b.dtype}"
        if b.numel() and name not in OTHER_STRIDES:
            assert a.stride() == b.stride(), f"{what}: strides {a.stride()}, not {b.stride()}"
        if samples.draws(call.declaration) or samples.base_name(call.declaration) in samples.UNINITIALISED:
            continue
        if name in SIGN_IS_FREE and b.numel():
            a, b = a.abs(), b.abs()
        loose = max(tolerance, LOOSE.get(name, 0.0))
        np.testing.assert_allclose(plain(a), plain(b), rtol=loose, atol=loose, err_msg=what)


def gradients(call: Call, device: str) -> list[Any]:
    """The gradients of a weighted sum of a call's results."""
    tensors = tensors_on(call, device)
    wanted = samples.require_grad(call, tensors)
    outputs = [r for r in samples.leaves(run(call, tensors, device))
               if isinstance(r, torch.Tensor) and r.requires_grad]
    if not wanted or not outputs:
        return []
    weights = [torch.linspace(0.5, 1.5, o.numel()).reshape(o.shape).to(device).to(o.dtype) for o in outputs]
    return list(torch.autograd.grad(outputs, [tensors[i] for i in wanted], weights, allow_unused=True))


def each(declaration: Declaration, check: Callable[[Call], None]) -> None:
    failures = []
    for call in samples.calls(declaration):
        try:
            check(call)
        except Exception as error:  # an operator under test may raise anything
            failures.append((call, error))
    if failures:
        first = failures[0][1]
        for call, error in failures:
            first.add_note(f"{call}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
        raise first


def check_values(call: Call) -> None:
    if call.case.raises is None:
        got = run(call, tensors_on(call, "cuda"), "cuda")
        assert_same(call, got, run(call, tensors_on(call, "cpu"), "cpu"), str(call))
        return
    kind, text = call.case.raises
    if any(part in text for part in FOUND_IN_DATA):
        return
    with pytest.raises(kind) as raised:
        run(call, tensors_on(call, "cuda"), "cuda")
    assert text in str(raised.value) or "cpu" in text.lower() or "torch.FloatTensor" in text, str(raised.value)


def check_gradients(call: Call) -> None:
    if call.case.raises is not None:
        return
    try:
        wanted = gradients(call, "cpu")
    except (RuntimeError, NotImplementedError):  # no derivative
        return
    got = gradients(call, "cuda")
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.device.type == "cuda" and (a.shape, a.dtype) == (b.shape, b.dtype)
            if call.declaration.operator.name not in SIGN_IS_FREE:
                np.testing.assert_allclose(plain(a), plain(b), rtol=1e-4, atol=1e-4, err_msg=str(call))


def in_place(call: Call, device: str) -> Any:
    args, kwargs = samples.arguments(call, torch, tensors_on(call, device))
    if not isinstance(args[0], torch.Tensor):
        return None
    target = args[0].clone()
    got = dispatch(call.declaration.inplace.name, target, *args[1:], **kwargs)
    assert got is target and target._version == 1
    return got


def check_in_place(call: Call) -> None:
    if call.case.raises is not None:
        return
    try:
        wanted = in_place(call, "cpu")
    except (RuntimeError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            in_place(call, "cuda")
        return
    if wanted is not None:
        assert_same(call, in_place(call, "cuda"), wanted, str(call))


@every_operator
def test_samples(declaration: Declaration) -> None:
    """Values, types, shapes, strides; errors."""
    if declaration.operator.name in WITHOUT_KERNEL:
        for call in samples.calls(declaration):
            if call.case.raises is None:
                with pytest.raises(NotImplementedError, match="does not run on device 'cuda'"):
                    run(call, tensors_on(call, "cuda"), "cuda")
    else:
        each(declaration, check_values)


DERIVED = {name: d for name, d in SAMPLED.items() if (d.grad or isinstance(d.family, Composite))
           and not samples.draws(d) and d.operator.name not in WITHOUT_KERNEL}


@pytest.mark.parametrize("declaration", DERIVED.values(), ids=DERIVED)
def test_gradients(declaration: Declaration) -> None:
    each(declaration, check_gradients)


INPLACE = {name: d for name, d in SAMPLED.items() if d.inplace is not None}


@pytest.mark.parametrize("declaration", INPLACE.values(), ids=INPLACE)
def test_in_place(declaration: Declaration) -> None:
    each(declaration, check_in_place)


OTHER_TYPES = {"float64": 1e-9, "float16": 4e-3, "bfloat16": 4e-2, "int64": 0.0, "bool": 0.0, "complex64": 1e-4}


def differing_in(dtype: str) -> list[str]:
    """The first samples of each operator in another type that give something else than on the CPU."""
    found = []
    for declaration in SAMPLED.values():
        if declaration.operator.name in WITHOUT_KERNEL:
            continue
        for call in samples.secondary_calls(declaration):
            try:
                wanted = run(call, tensors_on(call, "cpu", dtype), "cpu")
            except Exception:  # whatever the CPU refuses
                continue
            try:
                got = run(call, tensors_on(call, "cuda", dtype), "cuda")
                assert_same(call, got, wanted, str(call), max(OTHER_TYPES[dtype], 2e-5))
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


def test_pivots_that_are_no_rows_are_refused() -> None:
    LU, pivots = torch.linalg.lu_factor(torch.eye(3, device="cuda") + 1)
    for wrong in (0, 4, 10**8):
        with pytest.raises(RuntimeError, match="Pivots given to lu_solve must all be"):
            torch.linalg.lu_solve(LU, torch.full_like(pivots, wrong), torch.ones(3, 1, device="cuda"))


def test_singular_values_of_infinities() -> None:
    matrix = torch.eye(3, device="cuda")
    matrix[0, 0] = float("inf")
    assert torch.linalg.svdvals(matrix).isnan().all() and torch.linalg.matrix_rank(matrix) == 0
