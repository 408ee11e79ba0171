"""`out=` of every operator: wherever it lies and whatever it shares, it gets what the functional call gives.

So do in-place forms, and neither needs memory for a second result. Each call is made with machine code at once where
there is a compiler, and as often as plans need to be made and used.
"""

import threading
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import operator_cases as samples
import pytest
from operator_cases import Call, Declaration, each

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._core import offers
from mindtorch_v2._ops._declare.op import public_functions
from mindtorch_v2._ops._declare.out import takes_out

OVER = "some elements of the input tensor and the written-to tensor refer to a single memory location"
REPEATED = 5  # calls, after which plans are used
GAP = 77  # stands in memory that is not the target's
OTHER_TYPES = ("float64", "int64", "bfloat16", "complex64", "bool")
# What PyTorch counts as two writes.
TWICE = dict.fromkeys(("matmul", "linalg_matmul"), lambda a, b: a.dim() == 1 and b.dim() == 2)


def function_with_out(declaration: Declaration) -> Callable | None:
    for place, name in samples.public_places(declaration):
        if takes_out(place, name, declaration.operator):
            return samples.seeded(declaration, torch, public_functions(place)[name])
    return None


WITH_OUT = {
    name: d
    for name, d in samples.sampled().items()
    if function_with_out(d) is not None and samples.base_name(d) not in samples.UNINITIALISED
}
ELEMENTWISE = {name: d for name, d in WITH_OUT.items() if d.family.elementwise and d.sharing}
every_operator = pytest.mark.parametrize("declaration", WITH_OUT.values(), ids=WITH_OUT)


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(calls, "_AT_ONCE", machine.available())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def contiguous(leaf: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory, and a tensor like another in it."""
    memory = torch.full(leaf.shape, GAP).to(leaf.dtype)
    return memory, memory


def transposed(leaf: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    memory = torch.full(leaf.shape[::-1], GAP).to(leaf.dtype)
    return memory, memory.permute(tuple(range(leaf.dim() - 1, -1, -1)))


def strided(leaf: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    memory = torch.full((*leaf.shape, 2), GAP).to(leaf.dtype)
    return memory, memory[..., 1]


def offset(leaf: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    memory = torch.full((leaf.numel() + 5,), GAP).to(leaf.dtype)
    return memory, memory[3 : 3 + leaf.numel()].view(leaf.shape)


def made_of(call: Call, dtype: str) -> tuple[tuple, dict]:
    return samples.arguments(call, torch, samples.bases(call, torch, dtype))


def functional(declaration: Declaration, call: Call, dtype: str) -> Any:
    """What the call gives without `out=`, or None if it is refused in this type."""
    args, kwargs = made_of(call, dtype)
    try:
        made = samples.seeded(declaration, torch, samples.function_of(declaration))(*args, **kwargs)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    leaves = samples.leaves(made)
    return made if leaves and all(isinstance(leaf, torch.Tensor) for leaf in leaves) else None


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    rtol = 2e-5 if expected.dtype.itemsize > 2 else 2e-2
    torch.testing.assert_close(got, expected, rtol=rtol, atol=2e-5, equal_nan=True)


def has_form(call: Call, args: tuple) -> bool:
    """Whether PyTorch has `out=` beside these arguments: not beside numbers in the place of certain tensors."""
    rule, name = call.declaration.out, samples.base_name(call.declaration)
    if rule is None or rule.refused or name in ("sum", "prod") and len(args) == 1 and "dim" not in call.case.kwargs:
        return False
    at = call.declaration.operator.schema.index
    return all(isinstance(args[at[name]], torch.Tensor) for name in rule.tensors.split())


LAYOUTS = {contiguous: REPEATED, transposed: 2, strided: 2, offset: 2}  # and how often calls are made


@every_operator
def test_results_are_written_wherever_they_lie(declaration: Declaration) -> None:
    function = function_with_out(declaration)

    def check(call: Call, dtype: str = "float32") -> None:
        expected = functional(declaration, call, dtype)
        args, kwargs = made_of(call, dtype)
        if expected is None or not has_form(call, args) or kwargs.get("requires_grad"):
            return
        for layout, times in LAYOUTS.items() if dtype == "float32" else ((contiguous, 2),):
            for _ in range(times):
                check_written(call, layout, expected, args, kwargs)

    def check_written(call: Call, layout: Callable, expected: Any, args: tuple, kwargs: dict) -> None:
        leaves = samples.leaves(expected)
        pairs = [layout(leaf) for leaf in leaves]
        targets = tuple(target for _, target in pairs)
        versions = [memory._version for memory, _ in pairs]
        places = [(target.stride(), target.storage_offset()) for target in targets]
        result = function(*args, **kwargs, out=targets if isinstance(expected, (tuple, list)) else targets[0])
        writes = 2 if TWICE.get(samples.base_name(declaration), lambda *args: False)(*args[:2]) else 1
        for nr, (returned, leaf) in enumerate(zip(samples.leaves(result), leaves, strict=True)):
            memory, target = pairs[nr]
            assert returned is target
            assert_same(target, leaf)
            assert (target.stride(), target.storage_offset()) == places[nr]
            assert memory._version == versions[nr] + writes
            if layout is not contiguous:
                target.fill_(GAP)
                assert (memory == torch.full((), GAP).to(memory.dtype)).all()

    each(samples.good_calls(declaration), check)
    for dtype in OTHER_TYPES:
        each(samples.secondary_calls(declaration)[:1], lambda call: check(call, dtype))  # noqa: B023


# operands in the memory that is written ------------------------------------------------------------------------------


def operands_to_write(call: Call) -> list[int]:
    """Positions of tensors that lie as a result of their own might."""
    return [
        i
        for i, sample in enumerate(call.case.args)
        if isinstance(sample, samples.TensorSample) and sample.layout == "contiguous" and sample.kind == "float"
    ]


@pytest.mark.parametrize("declaration", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_an_elementwise_result_may_go_where_an_operand_is(declaration: Declaration) -> None:
    function = function_with_out(declaration)

    def check(call: Call) -> None:
        expected = functional(declaration, call, "float32")
        for at in operands_to_write(call) if isinstance(expected, torch.Tensor) else ():
            for _ in range(3):
                args, kwargs = made_of(call, "float32")
                target = args[at]
                if not has_form(call, args) or (target.shape, target.dtype) != (expected.shape, expected.dtype):
                    break
                assert function(*args, **kwargs, out=target) is target
                assert_same(target, expected)
                assert target._version == 1

    each(samples.good_calls(declaration), check)


@pytest.mark.parametrize("declaration", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_an_elementwise_result_does_not_go_where_an_operand_lies_otherwise(declaration: Declaration) -> None:
    function = function_with_out(declaration)

    def check(call: Call) -> None:
        expected = functional(declaration, call, "float32")
        for at in operands_to_write(call) if isinstance(expected, torch.Tensor) else ():
            args, kwargs = made_of(call, "float32")
            operand = args[at]
            if not has_form(call, args) or (operand.shape, operand.dtype) != (expected.shape, expected.dtype):
                continue
            memory = torch.zeros(2 * operand.numel())
            shown = memory[: operand.numel()].view(operand.shape)
            shown.copy_(operand)
            given = (*args[:at], shown, *args[at + 1 :])
            refused = [memory[1 : 1 + operand.numel()].view(operand.shape)] if operand.numel() > 1 else []
            if operand.dim() == 2 and operand.shape[0] == operand.shape[1] > 1:
                refused.append(shown.t())
            for target in refused:
                before, version = str(memory.tolist()), memory._version
                with pytest.raises(RuntimeError, match=OVER):
                    function(*given, **kwargs, out=target)
                assert (str(memory.tolist()), memory._version) == (before, version)
            # The elements between those of the operand are not its own.
            between = torch.zeros(*operand.shape, 2)
            between[..., 0] = operand
            function(*args[:at], between[..., 0], *args[at + 1 :], **kwargs, out=between[..., 1])
            assert_same(between[..., 1], expected)
            assert_same(between[..., 0], operand)

    each(samples.good_calls(declaration), check)


@every_operator
def test_a_result_of_an_operand_that_lies_in_its_memory_is_computed_or_refused(declaration: Declaration) -> None:
    """Never half of each: if PyTorch's rules take the call, the result is what other memory would get."""
    function = function_with_out(declaration)

    def check(call: Call) -> None:
        expected = functional(declaration, call, "float32")
        for at in operands_to_write(call) if isinstance(expected, torch.Tensor) else ():
            args, kwargs = made_of(call, "float32")
            operand = args[at]
            if not has_form(call, args) or expected.dtype != operand.dtype or expected.numel() > operand.numel():
                continue
            for _ in range(3):
                memory = operand.clone()
                target = memory.view(-1)[: expected.numel()].view(expected.shape)
                before = str(memory.tolist())
                try:
                    function(*args[:at], memory, *args[at + 1 :], **kwargs, out=target)
                except RuntimeError as error:
                    assert OVER in str(error)
                    assert str(memory.tolist()) == before
                else:
                    assert_same(target, expected)
                shown = operand.clone()  # and of memory of which only NumPy knows that it is shared
                target = torch.from_numpy(shown.numpy().reshape(-1)[: expected.numel()].reshape(expected.shape))
                function(*args[:at], shown, *args[at + 1 :], **kwargs, out=target)
                assert_same(target, expected)

    each(samples.good_calls(declaration), check)


# what is refused, and what is resized --------------------------------------------------------------------------------


@every_operator
def test_refused_calls_leave_the_target_alone(declaration: Declaration) -> None:
    function = function_with_out(declaration)

    def check(call: Call) -> None:
        args, kwargs = made_of(call, "float32")
        good = next((functional(declaration, c, "float32") for c in samples.good_calls(declaration)), None)
        targets = [contiguous(leaf)[0] for leaf in samples.leaves(good)] if good is not None else []
        if not targets:
            return
        before = [(t.shape, str(t.tolist()), t._version) for t in targets]
        for _ in range(REPEATED):
            with pytest.raises((RuntimeError, TypeError, IndexError, ValueError)):
                function(*args, **kwargs, out=targets if isinstance(good, (tuple, list)) else targets[0])
            assert [(t.shape, str(t.tolist()), t._version) for t in targets] == before

    each([call for call in samples.calls(declaration) if call.case.raises is not None], check)


@every_operator
def test_numbers_that_name_nothing_leave_the_target_alone(declaration: Declaration) -> None:
    """They are found in the data, by calls of which others with such layouts were served."""
    function = function_with_out(declaration)

    def check(call: Call) -> None:
        expected = functional(declaration, call, "float32")
        args, kwargs = made_of(call, "float32")
        named = [t for t in samples.leaves((args, list(kwargs.values()))) if isinstance(t, torch.Tensor)
                 and t.dtype == torch.int64 and t.numel()]  # fmt: skip
        if expected is None or not has_form(call, args) or not named:
            return
        targets = [contiguous(leaf)[0] for leaf in samples.leaves(expected)]
        out = tuple(targets) if isinstance(expected, (tuple, list)) else targets[0]
        for _ in range(REPEATED):
            function(*args, **kwargs, out=out)
        for tensor in named:
            tensor.fill_(-(10**6))
        before = [(str(t.tolist()), t._version) for t in targets]
        for _ in range(2):
            try:
                function(*args, **kwargs, out=out)
            except (RuntimeError, IndexError, ValueError):
                assert [(str(t.tolist()), t._version) for t in targets] == before
            else:
                return

    each(samples.good_calls(declaration), check)


def test_rows_that_are_not_there_leave_the_target_alone() -> None:
    x, rows, out = torch.rand(64, 64), torch.arange(63, -1, -1), torch.zeros(64, 64)
    for _ in range(REPEATED):
        assert_same(torch.index_select(x, 0, rows, out=out), x.flip(0))
    for row in (64, -1, 10**9):
        rows[40] = row
        with pytest.raises(IndexError, match="out of range"):
            torch.index_select(x, 0, rows, out=out)
        assert torch.equal(out, x.flip(0)) and out._version == REPEATED
    rows[40] = 0
    assert_same(torch.index_select(x, 0, rows, out=out)[40], x[0])


def test_gradients_are_refused_and_no_grad_is_not() -> None:
    x, out = torch.rand(3, requires_grad=True), torch.zeros(3)
    for _ in range(REPEATED):
        for call in (lambda: torch.mul(x, x, out=out), lambda: torch.exp(x.detach(), out=x),
                     lambda: torch.cumsum(x, 0, out=out), lambda: torch.mul(x.detach(), 2, out=x[:])):
            with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
                call()
    assert out._version == 0 and not out.any()
    with torch.no_grad():
        for _ in range(REPEATED):
            torch.mul(x, x, out=out)
            assert_same(out, x.detach() ** 2)
            torch.cumsum(x, 0, out=out)
            assert_same(out, x.detach().cumsum(0))
        torch.exp(out, out=x)
    assert x._version == 1 and x.requires_grad
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.cumsum(x, 0, out=out)  # though the same call was served before


def test_a_view_of_what_came_to_need_grad_is_refused() -> None:
    x = torch.rand(3)
    view = x[:]
    x.requires_grad_()
    for call in (lambda: torch.mul(view, 2, out=torch.zeros(3)), lambda: torch.cumsum(view, 0, out=torch.zeros(3)),
                 lambda: torch.mul(torch.zeros(3), 2, out=view)):
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            call()
    with torch.no_grad():
        assert_same(torch.mul(view, 2, out=torch.zeros(3)), 2 * x)


def test_kernels_of_a_program_are_called() -> None:
    x, out = torch.rand(3), torch.zeros(3)
    torch.special.bessel_j1(x, out=out)
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("special_bessel_j1", lambda self: self + 100, "CPU")
        torch.special.bessel_j1(x, out=out)
        assert_same(out, x + 100)
    finally:
        library._destroy()
    torch.special.bessel_j1(x, out=out)
    assert_same(out, torch.special.bessel_j1(x))


# memory --------------------------------------------------------------------------------------------------------------

_x, _row = torch.rand(300, 256), torch.rand(256)
_square = torch.rand(256, 256)
_places = torch.randperm(256)
_weight = torch.nn.Parameter(torch.rand(256, 256))


def unrecorded(function: Callable, *args: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        return function(*args, **kwargs)


WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "mul": lambda out: torch.mul(_x, _x, out=out),
    "mul of a number": lambda out: torch.mul(_x, 2, out=out),
    "add": lambda out: torch.add(_x, _row, alpha=2, out=out),
    "exp": lambda out: torch.exp(_x, out=out),
    "clamp": lambda out: torch.clamp(_x, 0.2, 0.7, out=out),
    "remainder": lambda out: torch.remainder(_x, _row, out=out),
    "addcmul": lambda out: torch.addcmul(_x, _x, _x, value=2, out=out),
    "max": lambda out: torch.max(_x, _row, out=out),
    "outer": lambda out: torch.outer(torch.rand(300), _row, out=out),
    "softmax": lambda out: torch.softmax(_x, 1, out=out),
    "cumsum": lambda out: torch.cumsum(_x, 0, out=out),
    "mm": lambda out: torch.mm(_x, _square, out=out),
    "matmul": lambda out: torch.matmul(_x, _square, out=out),
    "addmm": lambda out: torch.addmm(_row, _x, _square, out=out),
    "bmm": lambda out: torch.bmm(_x[None], _square[None], out=out[None]),
    "cat": lambda out: torch.cat([_x[:100], _x[100:]], out=out),
    "sum": lambda out: torch.sum(_x[None].expand(2, 300, 256).contiguous(), 0, out=out),
    "index_select": lambda out: torch.index_select(_x, 1, _places, out=out),
    "tril": lambda out: torch.tril(_x, out=out),
    "addr": lambda out: torch.addr(_x, torch.rand(300), _row, out=out),
    "mm of a parameter": lambda out: unrecorded(torch.mm, _x, _weight, out=out),
    "mul of a parameter": lambda out: unrecorded(torch.mul, _x, _weight[0], out=out),
    "mul_": lambda out: out.mul_(_x),
    "clamp_": lambda out: out.clamp_(0.2, 0.7),
    "tril_": lambda out: out.tril_(),
    "addr_": lambda out: out.addr_(torch.rand(300), _row),
    "cumsum_": lambda out: out.cumsum_(0),
    "renorm_": lambda out: out.renorm_(2, 0, 1.0),
}


@pytest.mark.skipif(not machine.available(), reason="needs llvmlite, and MINDTORCH_JIT other than 0")
@pytest.mark.parametrize("name", WRITES)
def test_no_second_result_is_made(name: str) -> None:
    out = torch.rand(300, 256)
    for _ in range(12):
        WRITES[name](out)
    given = 2 * out.nbytes if name == "sum" else 0  # what the call makes for its argument
    tracemalloc.start()
    try:
        WRITES[name](out)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - given < out.nbytes // 2


def test_large_arrays_are_written_on_all_threads() -> None:
    x = torch.rand(300, 256)
    for target in (torch.empty(300, 256), torch.empty(256, 300).t(), torch.empty(300, 512)[:, ::2]):
        for _ in range(3):
            assert torch.equal(torch.mul(x, x, out=target), x * x)
            assert torch.equal(torch.sub(x, 0.5, out=target), x - 0.5)
            assert torch.equal(torch.mul(target, target, out=target), (x - 0.5) * (x - 0.5))
    told = torch.empty(300, 256, dtype=torch.bool)
    assert torch.equal(torch.lt(x, 0.5, out=told), x < 0.5)


def test_threads_take_only_what_they_were_offered() -> None:
    """All write to memory of one shape at once, and others compute without `out=` meanwhile."""
    given = [torch.rand(32, 32) + nr for nr in range(6)]
    expected = [(x.softmax(1), x.cumsum(0), x @ x, x * x) for x in given]
    wrong: list[int] = []

    def work(nr: int) -> None:
        x, out, own = given[nr], torch.empty(32, 32), expected[nr]
        for _ in range(150):
            if nr % 2:
                made = [torch.softmax(x, 1, out=out).clone(), torch.cumsum(x, 0, out=out).clone(),
                        torch.mm(x, x, out=out).clone(), torch.mul(x, x, out=out).clone()]  # fmt: skip
            else:
                made = [x.softmax(1), x.cumsum(0), x @ x, x * x]
            if not all(torch.allclose(one, other) for one, other in zip(made, own, strict=True)):
                wrong.append(nr)

    threads = [threading.Thread(target=work, args=(nr,)) for nr in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not offers.offers


# in place ------------------------------------------------------------------------------------------------------------

OVERWRITTEN: dict[str, Callable[[torch.Tensor, bool], torch.Tensor]] = {
    "tril": lambda x, inplace: x.tril_(1) if inplace else x.tril(1),
    "triu": lambda x, inplace: x.triu_(-1) if inplace else x.triu(-1),
    "addr": lambda x, inplace: (x.addr_ if inplace else x.addr)(torch.arange(x.shape[-2]), torch.arange(x.shape[-1]))
    if x.dtype is torch.int64 else (x.addr_ if inplace else x.addr)(torch.arange(x.shape[-2]).to(x.dtype),
                                                                    torch.ones(x.shape[-1], dtype=x.dtype), beta=0.5),
    "cumsum": lambda x, inplace: x.cumsum_(0) if inplace else x.cumsum(0, dtype=x.dtype),
    "cumsum of rows": lambda x, inplace: x.cumsum_(-1) if inplace else x.cumsum(-1, dtype=x.dtype),
    "cumprod": lambda x, inplace: x.cumprod_(0) if inplace else x.cumprod(0, dtype=x.dtype),
    "cumprod of rows": lambda x, inplace: x.cumprod_(-1) if inplace else x.cumprod(-1, dtype=x.dtype),
    "clamp": lambda x, inplace: x.clamp_(0, 1) if inplace else x.clamp(0, 1),
    "clamp from below": lambda x, inplace: x.clamp_(0.5) if inplace else x.clamp(0.5).to(x.dtype),
    "clamp by tensors": lambda x, inplace: x.clamp_(x[0].clone(), None) if inplace else x.clamp(x[0], None),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", [(8, 5), (7, 5), (1, 1), (0, 3), (9, 64)])
@pytest.mark.parametrize("name", OVERWRITTEN)
def test_in_place_forms_give_what_functional_ones_do(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if name.startswith("clamp") and (dtype is torch.int64 and "below" in name or "tensors" in name and not shape[0]):
        return  # of which the result cannot be held, or that takes a row
    start = (torch.arange(shape[0] * shape[1]).reshape(shape) % 7 - 3).to(dtype)
    for layout in (contiguous, transposed, strided, offset):
        for _ in range(3):
            memory, target = layout(start)
            target.copy_(start)
            version = memory._version
            expected = OVERWRITTEN[name](start, False)
            assert OVERWRITTEN[name](target, True) is target
            assert_same(target, expected)
            assert memory._version == version + 1


def test_numbers_that_a_type_does_not_hold_are_refused_in_place() -> None:
    x = torch.ones(8, dtype=torch.int8)
    for _ in range(REPEATED):
        x.clamp_(0, 100)
        with pytest.raises(RuntimeError, match="cannot be converted"):
            x.clamp_(0, 1000)
        with pytest.raises(RuntimeError, match="cannot be converted"):
            torch.clamp(x, 0, 1000, out=x)
    assert x._version == REPEATED and x.tolist() == [1] * 8


# where targets lie ---------------------------------------------------------------------------------------------------

PIVOTS = torch.tensor([1, 2, 3], dtype=torch.int32)
SHIFTED = {
    "addbmm": lambda x, out: torch.addbmm(x, torch.ones(2, 3, 3), torch.ones(2, 3, 3), out=out),
    "baddbmm": lambda x, out: torch.baddbmm(x[None], torch.ones(1, 3, 3), torch.ones(1, 3, 3), out=out[None]),
    "msort": lambda x, out: torch.msort(x, out=out),
    "conj_physical": lambda x, out: torch.conj_physical(x, out=out),
}
TURNED = {
    "lu_solve": lambda x, out: torch.linalg.lu_solve(torch.eye(3), PIVOTS, x, out=out),
    "ormqr": lambda x, out: torch.ormqr(torch.eye(3), torch.ones(3), x, out=out),
    "householder_product": lambda x, out: torch.linalg.householder_product(x, torch.ones(3), out=out),
    "ldl_solve": lambda x, out: torch.linalg.ldl_solve(torch.eye(3), PIVOTS, x, out=out),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_a_target_lies_over_an_operand_element_on_element_or_not_at_all(name):
    memory = torch.arange(10.0)
    x = memory[:9].view(3, 3)
    for target in (memory[1:].view(3, 3), x.t()):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
            SHIFTED[name](x, target)
    assert memory.tolist() == list(range(10))
    SHIFTED[name](x, x)


@pytest.mark.parametrize("name", TURNED)
def test_a_target_by_columns_is_no_turned_operand(name):
    x = torch.eye(3) + torch.arange(9.0).view(3, 3)
    before = x.clone()
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
        TURNED[name](x, x.t())
    assert torch.equal(x, before)
    TURNED[name](x, x)


@pytest.mark.parametrize(("call", "emptied", "resized"), [
    (lambda out: torch.linalg.inv(torch.eye(3), out=out), (1, 3), (1, 3)),
    (lambda out: torch.linalg.solve(torch.eye(3), torch.ones(3, 3), out=out), (1, 3), (1, 3)),
    (lambda out: torch.linalg.cholesky(torch.eye(3), out=out), (1, 3), (1, 3)),
    (lambda out: torch.cholesky_inverse(torch.eye(3), out=out), (1, 3), (3, 1)),
    (lambda out: torch.geqrf(torch.eye(3), out=(out, torch.empty(0))), (1, 3), (3, 1)),
    (lambda out: torch.sort(torch.eye(3).t(), out=(out, torch.empty(0, dtype=torch.int64))), (1, 3), (1, 3)),
    (lambda out: torch.max(torch.eye(3).t(), torch.eye(3).t(), out=out), (1, 3), (1, 3)),
    (lambda out: torch.linalg.matrix_power(torch.eye(3), 2, out=out), (3, 1), (3, 1)),
])  # fmt: skip
def test_how_resized_targets_lie(call, emptied, resized):
    empty, other = torch.empty(0), torch.empty(2)
    call(empty)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call(other)
    assert (empty.stride(), other.stride()) == (emptied, resized)


def test_empty_leaves_what_it_need_not_resize():
    out = torch.arange(3.0)
    assert torch.empty(3, out=out) is out and out.tolist() == [0, 1, 2] and out._version == 0
    assert torch.empty(2, 2, out=out).shape == (2, 2) and out._version == 1


@pytest.mark.parametrize("name", "elu gelu hardsigmoid hardswish hardtanh leaky_relu log_sigmoid mish silu".split())
def test_activations_of_the_extension_store(name):
    x, out = torch.linspace(-2, 2, 5), torch.empty(0)
    function = getattr(torch._C._nn, name)
    assert function(x, out=out) is out and torch.equal(out, function(x))


def test_activations_of_nn_functional_do_not_store():
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        torch.nn.functional.silu(torch.ones(2), out=torch.empty(2))


@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_a_correction_is_real(name):
    with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
        getattr(torch, name)(torch.ones(2, 3), correction=1j)
