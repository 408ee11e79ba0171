"""All declared operators on the simulated NPU, driven by their samples, against the CPU."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import device_cases
import numpy as np
import operator_cases as samples
import pytest
from device_cases import plain, run, tensors_on
from operator_cases import Call, Declaration

import mindtorch_v2 as torch
from mindtorch_v2._backends.interface import named_kernel
from mindtorch_v2._backends.npu import families as npu_kernels
from mindtorch_v2._backends.npu.chips import Unsupported
from mindtorch_v2._dispatch.dispatcher import dispatch
from mindtorch_v2._ops._declare.composites import Composite
from mindtorch_v2._ops._declare.op import DECLARATIONS

SAMPLED = samples.sampled()
every_operator = pytest.mark.parametrize("declaration", SAMPLED.values(), ids=SAMPLED)
# Errors in the data that only the CPU reports.
FOUND_IN_DATA = (*device_cases.FOUND_IN_DATA, "offsets[0] has to be", "not in the valid range")
OTHER_STRIDES = device_cases.OTHER_STRIDES
# Operators that run, but lead to one without a row: by an option, or in their derivative.
LEAD_ELSEWHERE = frozenset((
    "aten::unique",  # along a dimension
    "aten::linalg_lu", "aten::linalg_lu_factor", "aten::lu", "aten::_lu_with_info", "aten::linalg_ldl_factor",
    "aten::linalg_eigvals",
))  # fmt: skip
# Decompositions are unique but for the signs of their vectors.
UP_TO_SIGN = frozenset(("aten::linalg_eigh", "aten::linalg_svd", "aten::svd", "aten::linalg_qr", "aten::qr"))
# What the device computes by another formula than the CPU, with the tolerance that takes.
LOOSE = {"aten::special_ndtri": 1e-3, "aten::logcumsumexp": 1e-4, "aten::histc": 1e-4}
NO_ROW = "has no ACLNN row: it cannot run on device 'npu'"


def assert_same(call: Call, got: Any, wanted: Any, what: str) -> None:
    got, wanted = samples.leaves(got), samples.leaves(wanted)
    assert len(got) == len(wanted), what
    for a, b in zip(got, wanted, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b or a != a and b != b, what
            continue
        assert a.device.type == "npu", f"{what}: on {a.device}"
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        if b.numel() and call.declaration.operator.name not in OTHER_STRIDES:
            assert a.stride() == b.stride(), f"{what}: strides {a.stride()}, not {b.stride()}"
        name = samples.base_name(call.declaration)
        if samples.draws(call.declaration) or name in samples.UNINITIALISED:
            continue
        tolerance = LOOSE.get(call.declaration.operator.name, 2e-5)
        values = [abs(plain(x)) if call.declaration.operator.name in UP_TO_SIGN else plain(x) for x in (a, b)]
        np.testing.assert_allclose(*values, rtol=tolerance, atol=tolerance, err_msg=what)


def differentiable(result: Any) -> list[Any]:
    return [r for r in samples.leaves(result) if isinstance(r, torch.Tensor) and r.requires_grad]


def gradients(call: Call, device: str) -> list[Any]:
    """The gradients of a weighted sum of a call's results."""
    tensors = tensors_on(call, device)
    wanted = samples.require_grad(call, tensors)
    outputs = differentiable(run(call, tensors, device))
    if not wanted or not outputs:
        return []
    if call.declaration.operator.name in UP_TO_SIGN:
        outputs = [o.abs() for o in outputs]
    weights = [torch.linspace(0.5, 1.5, o.numel()).reshape(o.shape).to(device).to(o.dtype) for o in outputs]
    return list(torch.autograd.grad(outputs, [tensors[i] for i in wanted], weights, allow_unused=True))


def each(declaration: Declaration, check: Callable[[Call], None]) -> None:
    leads_elsewhere = declaration.operator.name in LEAD_ELSEWHERE
    samples.each(samples.calls(declaration), check, lambda error: leads_elsewhere and NO_ROW in str(error))


@every_operator
def test_samples(shared_npu: Any, declaration: Declaration) -> None:
    """Values, types, shapes, strides; errors; what the simulator calls a duty neglected."""
    if not npu_kernels.runs(declaration.operator):
        call = samples.good_calls(declaration)[0]
        with pytest.raises(NotImplementedError, match=NO_ROW):
            run(call, tensors_on(call, "npu"), "npu")
        return

    def check(call: Call) -> None:
        if call.case.raises is None:
            got = run(call, tensors_on(call, "npu"), "npu")
            assert_same(call, got, run(call, tensors_on(call, "cpu"), "cpu"), str(call))
            return
        kind, text = call.case.raises
        if any(part in text for part in FOUND_IN_DATA):
            return
        with pytest.raises(kind) as raised:
            run(call, tensors_on(call, "npu"), "npu")
        assert text in str(raised.value) or "_cpu" in text or "CPU" in text

    each(declaration, check)


DERIVED = [d for d in SAMPLED.values() if d.grad or isinstance(d.family, Composite)]


@pytest.mark.parametrize("declaration", DERIVED, ids=lambda d: d.operator.name)
def test_gradients(shared_npu: Any, declaration: Declaration) -> None:
    if not npu_kernels.runs(declaration.operator) or samples.draws(declaration):
        pytest.skip("no row, or random")

    def check(call: Call) -> None:
        if call.case.raises is not None:
            return
        try:
            wanted = gradients(call, "cpu")
        except (RuntimeError, NotImplementedError):  # no derivative
            return
        got = gradients(call, "npu")
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert a.device.type == "npu" and (a.shape, a.dtype) == (b.shape, b.dtype)
                np.testing.assert_allclose(plain(a), plain(b), rtol=1e-4, atol=1e-4, err_msg=str(call))

    each(declaration, check)


@pytest.mark.parametrize("declaration", [d for d in SAMPLED.values() if d.inplace is not None],
                         ids=lambda d: d.operator.name)  # fmt: skip
def test_in_place(shared_npu: Any, declaration: Declaration) -> None:
    if not npu_kernels.runs(declaration.operator):
        pytest.skip("no row")

    def result(call: Call, device: str) -> Any:
        args, kwargs = samples.arguments(call, torch, tensors_on(call, device))
        if not isinstance(args[0], torch.Tensor):
            return None
        target = args[0].clone()
        got = dispatch(declaration.inplace.name, target, *args[1:], **kwargs)
        assert got is target and target._version == 1
        return got

    def check(call: Call) -> None:
        if call.case.raises is not None:
            return
        try:
            wanted = result(call, "cpu")
        except (RuntimeError, NotImplementedError) as error:
            with pytest.raises(type(error)) as raised:
                result(call, "npu")
            assert str(raised.value) == str(error)
            return
        if wanted is not None:
            assert_same(call, result(call, "npu"), wanted, str(call))

    each(declaration, check)


# Types in which the device computes less than the CPU: no matrix units for them.
OTHER_TYPES = {"float16": 4e-3, "bfloat16": 4e-2, "int64": 0.0, "bool": 0.0, "float64": 1e-9}


@pytest.mark.parametrize("dtype", OTHER_TYPES)
def test_other_types(shared_npu: Any, dtype: str) -> None:
    """The first samples of each operator in other types: the CPU's results or, with any, an error."""
    differing, refused, compared = [], 0, 0
    for declaration in SAMPLED.values():
        if not npu_kernels.runs(declaration.operator) or declaration.operator.name in LEAD_ELSEWHERE:
            continue
        for call in samples.secondary_calls(declaration):
            tensors = samples.bases(call, torch, dtype)
            copies = [t.to("npu") for t in tensors]
            try:
                wanted = run(call, tensors, "cpu")
            except Exception:  # whatever the CPU refuses
                continue
            try:
                got = run(call, copies, "npu")
            except NotImplementedError as error:
                named = any(part in str(error) for part in ("_cpu", "has no element type"))
                assert named or isinstance(error, Unsupported), f"{call}: {error}"
                refused += 1
                continue
            compared += 1
            for a, b in zip(samples.leaves(got), samples.leaves(wanted), strict=True):
                if not isinstance(b, torch.Tensor) or samples.draws(declaration):
                    continue
                same = (a.shape, a.dtype) == (b.shape, b.dtype)
                if same and samples.base_name(declaration) not in samples.UNINITIALISED:
                    tolerance = max(OTHER_TYPES[dtype], LOOSE.get(declaration.operator.name, 2e-5))
                    values = [abs(plain(x)) if declaration.operator.name in UP_TO_SIGN else plain(x) for x in (a, b)]
                    same = np.allclose(*values, rtol=tolerance, atol=tolerance, equal_nan=True)
                if not same:
                    differing.append(str(call))
    assert not differing
    # Products of matrices in int64 and float64, what is made of them, and what the documents list for no float64.
    assert refused < (0.6 if dtype == "float64" else 0.2) * compared


def test_the_share_of_operators_that_run() -> None:
    """Of the primitives, which have a kernel of their own: neither composites nor views."""
    primitives = [d.operator for d in DECLARATIONS.values()
                  if not isinstance(d.family, Composite) and not d.family.is_view]  # fmt: skip
    missing = sorted(o.name for o in primitives if not npu_kernels.runs(o))
    share = 1 - len(missing) / len(primitives)
    print(f"\n{share:.1%} of {len(primitives)} primitives run on the NPU; not: {missing}")
    assert share >= 0.9


def test_every_row_agrees_with_the_table() -> None:
    """Number, order and kinds of a row's slots against ACLNN's signature, and its names against the schema."""
    with_rows = [d for d in DECLARATIONS.values() if d.npu is not None]
    assert len(with_rows) > 150
    for declaration in with_rows:
        assert npu_kernels.parsed_rows(declaration.operator)


def test_without_cann_the_operator_and_the_reason_are_named(tmp_path: Path) -> None:
    program = (
        "import sys, mindtorch_v2 as torch\n"
        "assert not [name for name in sys.modules if '_backends.npu' in name], 'loaded before it was asked for'\n"
        "for make in (lambda: torch.ones(2, device='npu'), lambda: torch.ones(2).npu()):\n"
        "    try: make()\n"
        "    except RuntimeError as error: print(error)\n"
    )
    environment = {**os.environ, "ASCEND_HOME_PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("ASCEND_TOOLKIT_HOME", None)
    if Path("/usr/local/Ascend").exists():
        pytest.skip("CANN is installed here")
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    for name, line in zip(("ones", "_to_copy"), said.stdout.splitlines(), strict=True):
        assert line.startswith(f"aten::{name} cannot run on device 'npu': the NPU runtime is not available (")
        assert "libascendcl.so not found" in line


def test_named_kernels_exist_and_take_the_declared_arguments() -> None:
    """The operator and the row's kernel come first where a kernel asks for them."""
    for declaration in DECLARATIONS.values():
        if "npu" not in declaration.kernels:
            continue
        kernel = named_kernel("npu", declaration.kernels["npu"])
        before = getattr(kernel, "given", ())
        assert "row" not in before or declaration.npu is not None, declaration
        inspect.signature(kernel).bind(*before, *declaration.operator.schema.names)
