"""Decompositions against kernels on the CPU: what a device without a kernel will run is verified without one.

A declaration with a decomposition is driven by its samples; one without samples by the calls that the samples of other
operators lead to.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import operator_cases as samples
import pytest
from device_cases import FOUND_IN_DATA
from operator_cases import Call, Declaration, each

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.callers import call_bound
from mindtorch_v2._dispatch.keys import CPU_MASK, DispatchKey
from mindtorch_v2._dispatch.registry import registry
from mindtorch_v2._ops._declare.composites import Composite, decomposed
from mindtorch_v2._ops._declare.op import DECLARATIONS

DECOMPOSED = {name: d for name, d in DECLARATIONS.items() if d.decomposition is not None}
SAMPLED = {name: d for name, d in DECOMPOSED.items() if d.samples is not None}
every_decomposition = pytest.mark.parametrize("declaration", SAMPLED.values(), ids=SAMPLED)
# (rtol, atol): a series or a product stands for a library's function, so a few digits more are lost.
TOLERANCES = {"float32": (5e-5, 2e-5), "complex64": (5e-5, 2e-5), "float64": (1e-9, 1e-9), "complex128": (1e-9, 1e-9),
              "float16": (4e-3, 4e-3), "bfloat16": (2e-2, 2e-2)}  # fmt: skip
TYPES = ("float32", "float64", "int64", "bool", "complex64", "float16", "bfloat16")
# What the formulas say is more than what the parts do.
OTHER_GRADIENTS = {
    "aten::nextafter": "bit patterns carry none",
    "aten::cholesky_solve": "PyTorch's has them of both triangles of the factor",
    "aten::cholesky_inverse": "PyTorch's has them of both triangles of the factor",
}


def calls(declaration: Declaration, dtype: str) -> list[Call]:
    """Those that are tested in a type; an internal operator is never called with others than floating ones."""
    if samples.is_internal(declaration) and dtype in ("int64", "bool", "complex64"):
        return []
    return samples.good_calls(declaration) if dtype == "float32" else samples.secondary_calls(declaration)


def bound(call: Call, dtype: str, wants_grad: bool) -> tuple[tuple, list[Any]]:
    """A call's arguments in the schema's order, and the leaves among its tensors."""
    tensors = samples.bases(call, torch, dtype)
    wanted = samples.require_grad(call, tensors) if wants_grad else []
    args, kwargs = samples.arguments(call, torch, tensors)
    return call.declaration.operator.schema.bind(args, kwargs), [tensors[i] for i in wanted]


def assert_same(got: Any, wanted: Any, what: str) -> None:
    got, wanted = samples.leaves(got), samples.leaves(wanted)
    assert len(got) == len(wanted), what
    for a, b in zip(got, wanted, strict=True):
        if a is None or b is None:
            assert a is None and b is None, what
            continue
        if not isinstance(b, torch.Tensor):
            assert a == b, what
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape), what
        if b.numel():
            steps = [[s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1] for t in (a, b)]
            assert steps[0] == steps[1], f"{what}: strides"
        assert_close(a, b, what)


def assert_close(a: Any, b: Any, what: str) -> None:
    name = str(b.dtype).removeprefix("torch.")
    rtol, atol = TOLERANCES.get(name, (0, 0))
    values = [(t.float() if t.dtype.itemsize == 2 and t.is_floating_point() else t).detach().numpy() for t in (a, b)]
    np.testing.assert_allclose(*values, rtol=rtol, atol=atol, err_msg=what)


@every_decomposition
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.filterwarnings("ignore")
def test_values(declaration: Declaration, dtype: str) -> None:
    """Values, types, shapes and strides are the kernel's; what the kernel refuses is refused alike."""
    kernel, by_parts = declaration.operator.lookup(CPU_MASK), decomposed(declaration.operator)

    def check(call: Call) -> None:
        args, _ = bound(call, dtype, False)
        try:
            wanted = kernel(*args)
        except (RuntimeError, NotImplementedError, TypeError) as refused:
            with pytest.raises(type(refused)) as raised:
                by_parts(*args)
            assert str(raised.value) == str(refused)
            return
        got = by_parts(*args)
        assert_same(got, wanted, str(call))
        for tensor in samples.leaves(got):
            assert tensor is None or tensor._version == 0 and tensor._base is None

    each(calls(declaration, dtype), check)


@every_decomposition
def test_errors(declaration: Declaration) -> None:
    by_parts = decomposed(declaration.operator)

    def check(call: Call) -> None:
        kind, text = call.case.raises  # type: ignore[misc]
        with pytest.raises(kind) as raised:
            by_parts(*bound(call, "float32", False)[0])
        assert text in str(raised.value)

    each([c for c in samples.calls(declaration) if c.case.raises is not None and not any(
        text in c.case.raises[1] for text in FOUND_IN_DATA)], check)


DERIVED = {name: d for name, d in SAMPLED.items() if d.grad and name not in OTHER_GRADIENTS}


@pytest.mark.parametrize("declaration", DERIVED.values(), ids=DERIVED)
@pytest.mark.filterwarnings("ignore")
def test_gradients(declaration: Declaration) -> None:
    """Gradients through the parts are those of the operator's formulas."""

    def gradients(call: Call, function: Callable, which: list[int] | None) -> tuple[list[Any], list[int]]:
        args, leaves = bound(call, "float64", True)
        made = samples.leaves(function(*args))
        which = [i for i, o in enumerate(made) if o is not None and o.requires_grad] if which is None else which
        outputs = [made[i] for i in which if made[i].numel()]
        if not outputs or not leaves:
            return [], which
        weights = [torch.linspace(0.5, 1.5, o.numel(), dtype=o.dtype).reshape(o.shape) for o in outputs]
        return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True)), which

    def check(call: Call) -> None:
        try:
            wanted, which = gradients(call, lambda *args: call_bound(declaration.operator, args), None)
        except (RuntimeError, NotImplementedError):  # no derivative
            return
        assert declaration.decomposition is not None
        for a, b in zip(gradients(call, declaration.decomposition, which)[0], wanted, strict=True):
            if a is None or b is None:
                other = b if a is None else a
                assert other is None or not other.count_nonzero()
            else:
                assert_close(a, b, str(call))

    each(samples.good_calls(declaration), check)


# operators without samples -------------------------------------------------------------------------------------------

INTERNAL = {name: d for name, d in DECOMPOSED.items() if d.samples is None}
MOST = 12  # calls of an operator that are looked at
# They differ by the signs of vectors, leave out what only their own backward reads, or what nobody reads (steps of CTC
# that a sample does not have).
LOOSE_OUTPUTS = {"aten::_linalg_eigh": {1}, "aten::_attention": {1}, "aten::_recurrent_layer": {3, 4},
                 "aten::_ctc_loss": {1}}  # fmt: skip


@pytest.fixture(scope="module")
def reached() -> Iterator[dict[str, list[tuple]]]:
    """The first calls of each internal operator that the samples of composites lead to, in both directions."""
    seen: dict[str, list[tuple]] = {name: [] for name in INTERNAL}
    kernels = {name: d.operator.kernels[DispatchKey.CPU] for name, d in INTERNAL.items()}

    def noting(name: str) -> Callable:
        kernel = kernels[name].function if hasattr(kernels[name], "function") else kernels[name]

        def call(*args: Any) -> Any:
            if len(seen[name]) < MOST:
                seen[name].append(tuple(
                    a.detach().clone(memory_format=torch.preserve_format) if isinstance(a, torch.Tensor) else a
                    for a in args))
            return kernel(*args)

        return call

    for name in INTERNAL:
        registry.register_kernel(name, DispatchKey.CPU, noting(name))
    for declaration in samples.sampled().values():
        if isinstance(declaration.family, Composite):
            for call in samples.good_calls(declaration):
                tensors = samples.bases(call, torch, "float32")
                samples.require_grad(call, tensors)
                args, kwargs = samples.arguments(call, torch, samples.writable(call, tensors))
                try:
                    made = samples.leaves(samples.function_of(declaration)(*args, **kwargs))
                    made = [o for o in made if isinstance(o, torch.Tensor) and o.requires_grad]
                    torch.autograd.backward(made, [torch.ones_like(o) for o in made])
                except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
                    continue  # what the tests of the operators themselves look at
    # what no sample does
    torch.nn.functional.batch_norm(torch.ones(2, 3), torch.zeros(3), torch.ones(3), training=True)
    torch.native_dropout(torch.ones(2, 3, requires_grad=True), 0.5, True)[0].sum().backward()
    scores, classes = torch.tensor([[0.5, 2.0, -1.0], [1.0, 0.0, 3.0]], requires_grad=True), torch.tensor([2, 0])
    for reduction in ("none", "mean", "sum"):
        for p in (1, 2):
            torch.nn.functional.multi_margin_loss(scores, classes, p, reduction=reduction).sum().backward()
        listed = torch.tensor([[2, 0, -1], [1, -1, 0]])
        torch.nn.functional.multilabel_margin_loss(scores, listed, reduction=reduction).sum().backward()
    for reduce in ("sum", "mean", "prod", "max", "min"):
        torch.segment_reduce(scores, reduce, lengths=torch.tensor([1, 0, 1])).sum().backward()
        torch.segment_reduce(scores, reduce, offsets=torch.tensor([[0, 2, 3], [1, 1, 3]]), axis=1).sum().backward()
    numbers = torch.arange(12.0).reshape(4, 3)
    call_bound(INTERNAL["aten::_tensordot"].operator, (numbers[:2], numbers, (1,), (1,)))
    for interpolation in ("linear", "lower", "nearest"):
        call_bound(INTERNAL["aten::_quantiles"].operator, (numbers, torch.tensor([0.2, 0.7]), 1, False, interpolation,
                                                           False))
    heads, bits = numbers.reshape(1, 2, 3, 2), torch.tensor([0b01101101, 0b10110110] + [0] * 14, dtype=torch.uint8)
    dropped = (heads, heads, heads, None, True, 0.5)
    call_bound(INTERNAL["aten::_attention_dropped"].operator, (*dropped, bits, 0.25))
    call_bound(INTERNAL["aten::_attention_dropped_backward"].operator, (heads, *dropped, heads, heads, bits, 0.25))
    matrices, ends = torch.ones(2, 3, 4, requires_grad=True), torch.tensor([1, 3], dtype=torch.int32)
    torch._grouped_mm(numbers.clone().requires_grad_(), matrices, ends).sum().backward()
    torch._grouped_mm(matrices, numbers.clone().requires_grad_(), ends).sum().backward()
    for name, kernel in kernels.items():
        registry.register_kernel(name, DispatchKey.CPU, kernel)
    yield seen


@pytest.mark.parametrize("name", INTERNAL)
@pytest.mark.filterwarnings("ignore")
def test_internal_operators(reached: dict[str, list[tuple]], name: str) -> None:
    operator = INTERNAL[name].operator
    kernel, by_parts = operator.lookup(CPU_MASK), decomposed(operator)
    assert reached[name]
    for args in reached[name]:
        if operator.schema.writes:
            copies = [tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args) for _ in range(2)]
            kernel(*copies[0])
            by_parts(*copies[1])
            assert_same(copies[1], copies[0], name)
            continue
        got, wanted = samples.leaves(by_parts(*args)), samples.leaves(kernel(*args))
        kept = [i for i in range(len(wanted)) if i not in LOOSE_OUTPUTS.get(name, ())]
        assert_same([got[i] for i in kept], [wanted[i] for i in kept], f"{name}{args}")
