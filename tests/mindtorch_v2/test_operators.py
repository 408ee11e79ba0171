"""Every operator, driven by the samples of its declaration.

Values, types, shapes, strides and errors are compared with what PyTorch answered (golden/operators, written by
tools/golden_ops.py); the rest are laws that any operator keeps: derivatives, Meta, in-place, `out=`, memory.
"""

import builtins
import json
import pathlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import operator_cases as samples
import pytest
from operator_cases import Call, Declaration, each

import mindtorch_v2 as torch
from mindtorch_v2._ops._declare.op import PUBLIC

GOLDEN = pathlib.Path(__file__).parent / "golden" / "operators"
# (rtol, atol): sums in another order are no defect.
TOLERANCES = {"float32": (1e-5, 1e-5), "complex64": (1e-5, 1e-5), "float64": (1e-9, 1e-9), "complex128": (1e-9, 1e-9),
              "float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2)}  # fmt: skip

DECLARATIONS = samples.sampled()
INDEX: dict[str, dict] = {}  # PyTorch's answers by operator
VALUES: dict[str, bytes] = {}  # by family, what the answers point into
for path in GOLDEN.glob("*.npz"):
    with np.load(path) as stored:
        INDEX |= json.loads(stored["index"].tobytes())
        VALUES[path.stem] = stored["values"].tobytes()
UNKNOWN_NAMES = json.loads((GOLDEN / "unknown_names.json").read_text())

every_operator = pytest.mark.parametrize("declaration", DECLARATIONS.values(), ids=DECLARATIONS)


def dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def golden(declaration: Declaration) -> dict:
    """PyTorch's answers to the samples of an operator."""
    record = INDEX.get(declaration.operator.name)
    if record is None or record["fingerprint"] != samples.fingerprint(declaration):
        command = f"tools/golden_ops.py --family {samples.family(declaration)}"
        pytest.fail(
            f"no answers of PyTorch to the samples of {declaration.operator.name}: run {command}", pytrace=False
        )
    if "skip" in record:
        pytest.skip(record["skip"])
    return record


def golden_or_nothing(declaration: Declaration) -> list[dict]:
    """PyTorch's answers by case; empty ones for an operator that PyTorch does not have."""
    record = INDEX.get(declaration.operator.name, {})
    if "cases" in record and record["fingerprint"] == samples.fingerprint(declaration):
        return record["cases"]
    return [{} for _ in samples.calls(declaration)]


def run(call: Call, dtype: str = "float32", device: str = "cpu") -> tuple[Any, list[Any]]:
    """The result of a call, and the tensors it was made from."""
    tensors = samples.bases(call, torch, dtype, device)
    return run_on(call, tensors, device), tensors


def run_on(call: Call, tensors: Iterable[Any], device: str = "cpu") -> Any:
    args, kwargs = samples.arguments(call, torch, list(tensors), device)
    return samples.seeded(call.declaration, torch, samples.function_of(call.declaration))(*args, **kwargs)


def values_of(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    return (tensor.to(torch.float32) if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).numpy(force=True)


def outline(tensor: Any) -> tuple:
    """dtype, shape, and the strides that matter."""
    steps = [s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1] if tensor.numel() else []
    return dtype_name(tensor.dtype), list(tensor.shape), steps


def recorded_outline(leaf: list) -> tuple:
    dtype, shape, strides = leaf[:3]
    return dtype, shape, [s for n, s in zip(shape, strides, strict=True) if n > 1] if 0 not in shape else []


def assert_close(got: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    if dtype in TOLERANCES:
        rtol, atol = TOLERANCES[dtype]
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(got, expected)


def assert_recorded(tensor: Any, leaf: Any, values: bytes) -> None:
    """The tensor is what PyTorch's was."""
    if not isinstance(leaf, list):
        assert (tensor if tensor is None or isinstance(tensor, (bool, int, float, str)) else str(tensor)) == leaf
        return
    assert outline(tensor) == recorded_outline(leaf)
    dtype, shape, _, _, at = leaf
    if at >= 0:
        carrier = np.dtype(samples.CARRIERS.get(dtype, dtype))
        expected = np.frombuffer(values, carrier, int(np.prod(shape)), at).reshape(shape)
        assert_close(values_of(tensor), expected, dtype)


def assert_same_outcome(call: Call, dtype: str, expected: dict) -> None:
    """The call raises what PyTorch raised, or returns what it returned."""
    if "error" in expected:
        try:
            result, _ = run(call, dtype)
        except Exception as error:  # the type is what is compared
            names = [c.__name__ for c in type(error).__mro__]
            assert expected["error"] in names, f"PyTorch raises {expected['error']}: {expected['text']}, here {error!r}"
            return
        pytest.fail(f"PyTorch raises {expected['error']}: {expected['text']}, here {result!r}")
    result, tensors = run(call, dtype)
    values = VALUES[samples.family(call.declaration)]
    if not samples.is_internal(call.declaration):
        assert samples.structure(result) == expected["structure"]
    ties = samples.base_name(call.declaration) in samples.TIED_INDICES and dtype in ("int64", "int32", "bool")
    for nr, (got, leaf) in enumerate(zip(samples.leaves(result), expected["leaves"], strict=True)):
        if ties and (nr or samples.base_name(call.declaration) == "argsort"):
            assert outline(got) == recorded_outline(leaf)
        else:
            assert_recorded(got, leaf, values)
    for position, leaf in expected.get("changed", {}).items():
        assert_recorded(tensors[int(position)], leaf, values)


def tensors_in(result: Any) -> list[Any]:
    return [leaf for leaf in samples.leaves(result) if isinstance(leaf, torch.Tensor)]


# values and errors ---------------------------------------------------------------------------------------------------


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_result_is_pytorchs(declaration: Declaration) -> None:
    record = golden(declaration)
    each(
        samples.good_calls(declaration),
        lambda c: assert_same_outcome(c, "float32", record["cases"][c.index]["float32"]),
    )


@every_operator
@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "bool", "complex64"])
@pytest.mark.filterwarnings("ignore")
def test_result_in_other_types_is_pytorchs(declaration: Declaration, dtype: str) -> None:
    record = golden(declaration)
    each(samples.secondary_calls(declaration), lambda c: assert_same_outcome(c, dtype, record["cases"][c.index][dtype]))


@every_operator
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.filterwarnings("ignore")
def test_half_precision_is_close_to_float32(declaration: Declaration, dtype: str) -> None:
    record = golden(declaration)

    def check(call: Call) -> None:
        expected = record["cases"][call.index][dtype]
        if any(isinstance(leaf, list) and leaf[0] == "complex32" for leaf in expected.get("leaves", ())):
            return  # a type that NumPy lacks
        assert_same_outcome(call, dtype, expected)
        if "error" in expected or samples.base_name(declaration) in samples.UNINITIALISED:
            return
        halves = samples.bases(call, torch, dtype)
        wide = run_on(call, [t.to(torch.float32) if t.dtype is getattr(torch, dtype) else t for t in halves])
        for half, full in zip(tensors_in(run_on(call, halves)), tensors_in(wide), strict=True):
            assert_close(values_of(half), values_of(full), dtype_name(half.dtype))

    if not samples.draws(declaration):  # a draw of another type is another draw
        each(samples.secondary_calls(declaration), check)


@every_operator
def test_error_samples_raise_as_pytorch_does(declaration: Declaration) -> None:
    record = golden(declaration)

    def check(call: Call) -> None:
        kind, text = call.case.raises  # type: ignore[misc]
        expected = record["cases"][call.index]["float32"]
        assert expected.get("error") == kind.__name__, f"PyTorch gives {expected}"
        assert text in expected["text"], f"PyTorch says: {expected['text']}"
        with pytest.raises(kind) as caught:
            run(call)
        assert text in str(caught.value)

    each([c for c in samples.calls(declaration) if c.case.raises is not None], check)


# derivatives ---------------------------------------------------------------------------------------------------------


def differentiable(call: Call) -> tuple[Callable, list[Any]] | None:
    """A function of float64 leaves that gives the outputs that need grad, and the leaves; None if there are none."""
    tensors = samples.bases(call, torch, "float64")
    wanted = samples.require_grad(call, tensors)

    def outputs(*inputs: Any) -> list[Any]:
        given = list(tensors)
        for i, tensor in zip(wanted, inputs, strict=True):
            given[i] = tensor
        return tensors_in(run_on(call, samples.writable(call, given)))

    leaves = [tensors[i] for i in wanted]
    chosen = [i for i, leaf in enumerate(outputs(*leaves)) if leaf.requires_grad]
    if not chosen:
        return None
    return (lambda *inputs: tuple(outputs(*inputs)[i] for i in chosen)), leaves


WHOLE = 80  # inputs and outputs up to which a Jacobian is compared whole, not between two random vectors


def is_large(function: Callable, leaves: list[Any], size: int) -> bool:
    return sum(tensor.numel() for tensor in (*leaves, *function(*leaves))) > size


def smooth_calls(declaration: Declaration) -> list[Call]:
    """The calls whose derivative PyTorch knows and finds right."""
    known = golden_or_nothing(declaration)
    return [c for c in samples.good_calls(declaration)
            if known[c.index].get("backward") is None and known[c.index].get("smooth", True)]  # fmt: skip


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_results_need_grad_where_pytorchs_do(declaration: Declaration) -> None:
    record = golden(declaration)

    def check(call: Call) -> None:
        expected = record["cases"][call.index].get("needs_grad")
        if expected is None:
            return
        tensors = samples.bases(call, torch, "float64")
        samples.require_grad(call, tensors)
        result = run_on(call, samples.writable(call, tensors))
        assert [leaf.requires_grad for leaf in tensors_in(result)] == expected
        refused = record["cases"][call.index].get("backward")
        if refused is not None and not samples.is_internal(declaration):
            with pytest.raises((RuntimeError, IndexError)):
                sum(leaf.sum() for leaf in tensors_in(result) if leaf.requires_grad).backward()

    each(samples.good_calls(declaration), check)


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_gradients(declaration: Declaration) -> None:
    def check(call: Call) -> None:
        found = differentiable(call)
        if found is not None:
            assert torch.autograd.gradcheck(*found, fast_mode=is_large(*found, WHOLE))

    each(smooth_calls(declaration), check)


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_second_gradients(declaration: Declaration) -> None:
    def check(call: Call) -> None:
        found = differentiable(call)
        if found is not None:
            assert torch.autograd.gradgradcheck(*found, fast_mode=is_large(*found, WHOLE // 2))

    each(smooth_calls(declaration), check)


def gradients(function: Callable, leaves: list[Any], create_graph: bool) -> tuple:
    outputs = function(*leaves)
    ones = [torch.ones_like(out) for out in outputs]
    return torch.autograd.grad(outputs, leaves, ones, create_graph=create_graph, allow_unused=True)


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_gradients_can_be_differentiated(declaration: Declaration) -> None:
    """create_graph changes no gradient by more than rounding, and one that varies with the inputs needs grad."""

    def check(call: Call) -> None:
        found = differentiable(call)
        if found is None:
            return
        function, leaves = found
        recorded, plain = gradients(function, leaves, True), gradients(function, leaves, False)
        moved = [(leaf.detach() * (1 + 1e-6)).requires_grad_() for leaf in leaves]
        varied = gradients(function, moved, False)
        for one, other, third in zip(recorded, plain, varied, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(values_of(one), values_of(other), rtol=1e-12, atol=1e-14)
                assert one.requires_grad or np.allclose(values_of(third), values_of(other), rtol=1e-11, atol=1e-13)

    each(smooth_calls(declaration), check)


# Meta ----------------------------------------------------------------------------------------------------------------


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_meta_predicts_the_result(declaration: Declaration) -> None:
    record = golden_or_nothing(declaration)

    def check(call: Call) -> None:
        if samples.base_name(declaration) in samples.DATA_DEPENDENT:
            with pytest.raises((RuntimeError, NotImplementedError)):
                run(call, device="meta")
            return
        if record[call.index].get("meta") is not None:
            return
        real, predicted = run(call)[0], run(call, device="meta")[0]
        assert samples.structure(real) == samples.structure(predicted)
        for one, other in zip(tensors_in(real), tensors_in(predicted), strict=True):
            assert outline(other) == outline(one)
            assert other.device.type == "meta"

    each(samples.good_calls(declaration), check)


@every_operator
def test_meta_refuses_what_pytorchs_refuses(declaration: Declaration) -> None:
    record = golden_or_nothing(declaration)

    def check(call: Call) -> None:
        kind, text = call.case.raises  # type: ignore[misc]
        if record[call.index].get("meta") == kind.__name__:
            with pytest.raises(kind) as caught:
                run(call, device="meta")
            assert text in str(caught.value)

    each([c for c in samples.calls(declaration) if c.case.raises is not None], check)


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_formulas_run_without_storage(declaration: Declaration) -> None:
    record = golden_or_nothing(declaration)

    def check(call: Call) -> None:
        if record[call.index].get("meta") or record[call.index].get("meta_backward"):
            return
        tensors = samples.bases(call, torch, "float64", "meta")
        wanted = samples.require_grad(call, tensors)
        result = run_on(call, samples.writable(call, tensors), "meta")
        outputs = [leaf for leaf in tensors_in(result) if leaf.requires_grad]
        if not outputs or not wanted:
            return
        leaves = [tensors[i] for i in wanted]
        ones = [torch.ones_like(out) for out in outputs]
        for leaf, grad in zip(leaves, torch.autograd.grad(outputs, leaves, ones, allow_unused=True), strict=True):
            assert grad is None or (grad.device.type, grad.shape, grad.dtype) == ("meta", leaf.shape, leaf.dtype)

    if samples.base_name(declaration) not in samples.DATA_DEPENDENT:
        each(samples.good_calls(declaration), check)


# in-place and out= ---------------------------------------------------------------------------------------------------


INPLACE = {name: d for name, d in DECLARATIONS.items() if d.inplace is not None}


def run_inplace(declaration: Declaration, args: tuple, kwargs: dict) -> Any:
    assert declaration.inplace is not None
    function = samples.function_of(declaration.inplace.declaration)
    return samples.seeded(declaration, torch, function)(*args, **kwargs)


def writable_calls(declaration: Declaration) -> list[Call]:
    return [
        c for c in samples.good_calls(declaration) if c.case.args and isinstance(c.case.args[0], samples.TensorSample)
    ]


@pytest.mark.parametrize("declaration", INPLACE.values(), ids=INPLACE)
@pytest.mark.filterwarnings("ignore")
def test_inplace_form_writes_the_result(declaration: Declaration) -> None:
    def check(call: Call) -> None:
        expected = run(call)[0]
        tensors = samples.bases(call, torch, "float32")
        args, kwargs = samples.arguments(call, torch, tensors)
        target = args[0]
        version, shape, dtype = target._version, target.shape, target.dtype
        overlaps = call.case.args[0].layout == "expanded" and target.numel() and target.shape[0] > 1
        if overlaps or expected.shape != shape or not torch.can_cast(expected.dtype, target.dtype):
            with pytest.raises(RuntimeError):
                run_inplace(declaration, args, kwargs)
            return
        assert run_inplace(declaration, args, kwargs) is target
        assert target._version == version + 1
        assert (target.shape, target.dtype) == (shape, dtype)
        assert_close(values_of(target), values_of(expected.to(dtype)), dtype_name(dtype))

    each(writable_calls(declaration), check)


@pytest.mark.parametrize("declaration", INPLACE.values(), ids=INPLACE)
@pytest.mark.filterwarnings("ignore")
def test_inplace_form_has_the_same_gradients(declaration: Declaration) -> None:
    def weighted_gradients(call: Call, function: Callable) -> Any:
        tensors = samples.bases(call, torch, "float64")
        wanted = samples.require_grad(call, tensors)
        copies = [t.clone() if t.requires_grad else t for t in tensors]
        args, kwargs = samples.arguments(call, torch, copies)
        result = function(*args, **kwargs)
        if not wanted or not result.requires_grad:
            return result, None
        weights = torch.from_numpy(np.linspace(0.5, 1.5, result.numel()).reshape(tuple(result.shape)))
        return result, torch.autograd.grad(result, [tensors[i] for i in wanted], weights, allow_unused=True)

    def check(call: Call) -> None:
        functional = samples.seeded(declaration, torch, samples.function_of(declaration))
        result, expected = weighted_gradients(call, functional)
        if call.case.args[0].layout == "expanded" or tuple(result.shape) != call.case.args[0].shape or expected is None:
            return
        _, got = weighted_gradients(call, lambda *args, **kwargs: run_inplace(declaration, args, kwargs))
        assert got is not None
        for one, other in zip(got, expected, strict=True):
            zero = np.zeros(())
            np.testing.assert_allclose(
                zero if one is None else values_of(one), zero if other is None else values_of(other)
            )

    smooth = {call.index for call in smooth_calls(declaration)}
    each([call for call in writable_calls(declaration) if call.index in smooth], check)


# Where PyTorch has no `out=` if a number stands for a tensor: for the first one, in `where` for any.
NO_OUT_BESIDE_NUMBERS = ("remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
                         "bitwise_right_shift", "where")  # fmt: skip


@every_operator
def test_out_form_writes_the_result(declaration: Declaration) -> None:
    record = golden(declaration)["out"]
    if not record["taken"]:
        pytest.skip("PyTorch's has no out=")
    good = [
        c
        for c in samples.good_calls(declaration)
        if "error" not in INDEX[declaration.operator.name]["cases"][c.index]["float32"]
    ]

    def run_out(call: Call, make: Callable[[Any], Any], expected: Any) -> tuple[Any, Any]:
        args, kwargs = samples.arguments(call, torch, samples.bases(call, torch, "float32"))
        given = tuple(make(leaf) for leaf in samples.leaves(expected))
        out = given if isinstance(expected, tuple) else given[0]
        function = samples.seeded(declaration, torch, samples.function_of(declaration))
        return function(*args, **kwargs, out=out), given

    def check(call: Call) -> None:
        expected = run(call)[0]
        args, _ = samples.arguments(call, torch, samples.bases(call, torch, "float32"))
        if samples.base_name(declaration) in NO_OUT_BESIDE_NUMBERS and not all(
            isinstance(a, torch.Tensor) for a in (args if len(args) > 2 else args[:1])
        ):
            with pytest.raises(TypeError, match="received an invalid combination of arguments"):
                run_out(call, torch.empty_like, expected)
            return
        for make in (lambda leaf: leaf.new_empty(0), lambda leaf: torch.empty(leaf.shape, dtype=leaf.dtype)):
            result, given = run_out(call, make, expected)
            for returned, target, leaf in zip(samples.leaves(result), given, samples.leaves(expected), strict=True):
                assert returned is target
                assert (target.shape, target.dtype) == (leaf.shape, leaf.dtype)
                if samples.base_name(declaration) not in samples.UNINITIALISED:
                    assert_close(values_of(target), values_of(leaf), dtype_name(leaf.dtype))

    def check_wrong(call: Call) -> None:
        expected = run(call)[0]
        for form, make in (("wrong_size", lambda leaf: leaf.new_empty((*leaf.shape, 2))),
                           ("wrong_type", lambda leaf: torch.empty(leaf.shape, dtype=torch.int8))):  # fmt: skip
            answer = record[form]
            if "error" in answer:
                with pytest.raises(getattr(builtins, answer["error"], RuntimeError)):
                    run_out(call, make, expected)
                continue
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                _, given = run_out(call, make, expected)
            assert any("was resized" in str(w.message) for w in caught) == answer["resized"], form
            assert [t.shape for t in given] == [leaf.shape for leaf in samples.leaves(expected)]

    each(good, check)
    each(good[:1], check_wrong)


# memory --------------------------------------------------------------------------------------------------------------


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_memory_is_shared_where_pytorch_shares_it(declaration: Declaration) -> None:
    record = golden(declaration)

    def check(call: Call) -> None:
        expected = record["cases"][call.index]["float32"]
        if "error" in expected:
            return
        result, tensors = run(call)
        for got, leaf in zip(samples.leaves(result), expected["leaves"], strict=True):
            if isinstance(got, torch.Tensor) and got.numel():
                shares = any(np.shares_memory(values_of(got), values_of(t)) for t in tensors if t.numel())
                assert shares == leaf[3], f"shares memory with an input: {shares}, PyTorch's: {leaf[3]}"
                aliases = {id(t.untyped_storage()) for t in tensors} | {t.untyped_storage().data_ptr() for t in tensors}
                assert (got.untyped_storage().data_ptr() in aliases) == shares

    each(samples.good_calls(declaration), check)


@every_operator
def test_views_know_their_base(declaration: Declaration) -> None:
    if not declaration.family.is_view:
        pytest.skip("no view")

    def check(call: Call) -> None:
        result, tensors = run(call)
        for view in tensors_in(result):
            assert view._is_view()
            assert view._base is tensors[0]
            assert view._version == tensors[0]._version
            tensors[0].zero_()
            assert not values_of(view).any()

    each(samples.good_calls(declaration), check)


# the rest ------------------------------------------------------------------------------------------------------------


@every_operator
@pytest.mark.filterwarnings("ignore")
def test_pipeline_gives_the_same(declaration: Declaration) -> None:
    def check(call: Call) -> None:
        eager = run(call)[0]
        tensors = samples.bases(call, torch, "float32")
        with torch.pipeline():
            deferred = run_on(call, tensors)
        assert samples.structure(deferred) == samples.structure(eager)
        for one, other in zip(tensors_in(deferred), tensors_in(eager), strict=True):
            assert outline(one) == outline(other)
            if samples.base_name(declaration) not in samples.UNINITIALISED:
                assert_close(values_of(one), values_of(other), dtype_name(other.dtype))

    if samples.base_name(declaration) not in samples.DATA_DEPENDENT:
        each(samples.good_calls(declaration)[:4], check)


def test_public_names_are_where_they_were_declared() -> None:
    missing = []
    for place, functions in PUBLIC.items():
        owner: Any = torch
        for part in () if place == "torch" or place.startswith("_") else place.split("."):
            owner = getattr(owner, part, None)
        missing += [f"{place}.{name}" for name in functions if not (place.startswith("_") or hasattr(owner, name))]
    assert not missing


def test_public_names_are_pytorchs() -> None:
    assert UNKNOWN_NAMES == []


def test_golden_answers_have_their_operator() -> None:
    """An answer without an operator is of one that was renamed or lost its samples."""
    assert sorted(set(INDEX) - set(DECLARATIONS)) == []
