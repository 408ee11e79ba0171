"""Plans: a call with layouts that were seen before does the same as the first one did, and changes as it would have."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.mindtorch_v2.operator_cases import Call, arguments, bases, draws, each, good_calls, leaves, sampled

import mindtorch_v2 as torch
from mindtorch_v2._backends.interface import backend_of
from mindtorch_v2._core.planning import Unplannable, forget_plans
from mindtorch_v2._dispatch.keys import CPU_MASK
from mindtorch_v2._dispatch.registry import registry
from mindtorch_v2._ops._declare.op import DECLARATIONS, Declaration
from mindtorch_v2._ops._declare.plans import compiled_or, tried

_TYPES = ("float32", "bfloat16", "int64")
_CALLS = 12  # with one layout, after which there is a plan if there ever will be


def _planned(operator: Any) -> Any:
    """The operator's plans; None if its calls are not planned."""
    operator.lookup(CPU_MASK)
    return operator.plans


def _outcome(function: Callable, args: list[Any]) -> Any:
    """What comes out: layout, version and elements of each tensor, and whether it is a view; or what is raised."""
    try:
        made = function(*args)
    except Exception as error:
        return type(error), str(error)
    return [(t._array.shape, t._array.strides, t._array.dtype, t._version, t._is_view(), t._keys, t._array.copy())
            if isinstance(t, torch.Tensor) else t for t in leaves(made)]  # fmt: skip


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and one.dtype.kind in "fc":
        return np.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    if isinstance(one, np.ndarray):
        return one.tobytes() == other.tobytes()
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other or one != one


def _numbers(call: Call, kind: str) -> list[Any]:
    args, kwargs = arguments(call, torch, bases(call, torch, kind))
    return call.declaration.operator.schema.bind(args, kwargs)


@pytest.mark.parametrize("name", sorted(n for n, d in sampled().items() if not draws(d)))
def test_other_numbers_in_the_same_layout(name: str) -> None:
    declaration: Declaration = DECLARATIONS[name]
    operator = declaration.operator
    if _planned(operator) is None:
        return

    def check(call: Call) -> None:
        for kind in _TYPES:
            first = _numbers(call, kind)
            if isinstance(_outcome(operator.plans.unplanned, first), tuple):  # a type that the operator does not take
                continue
            for _ in range(_CALLS):
                operator.lookup(CPU_MASK)(*first)
            later = _numbers(Call(declaration, call.index + 1000, call.case), kind)
            wanted = _outcome(operator.plans.unplanned, later)
            if "empty" not in name:
                assert _same(_outcome(operator.lookup(CPU_MASK), later), wanted)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each(good_calls(declaration), check)


def _plan_of(name: str) -> list[Callable]:
    """The plans that there are for an operator."""
    operator = registry.get(name)
    return [p for p in operator.plans.plans.values() if getattr(p, "__name__", "").endswith(" plan")]


def _repeat(function: Callable, *args: Any, **kwargs: Any) -> Any:
    for _ in range(_CALLS):
        made = function(*args, **kwargs)
    return made


def test_composites_are_planned() -> None:
    with torch.profiler.profile():  # whose recorder is another one than that of plans
        torch.nn.functional.pixel_shuffle(torch.zeros(1, 4, 1, 1), 2)
    x = torch.arange(16.0).reshape(1, 4, 2, 2)
    made = _repeat(torch.nn.functional.pixel_shuffle, x, 2)
    assert _plan_of("pixel_shuffle")
    assert made.tolist() == [[[[0, 4, 1, 5], [8, 12, 9, 13], [2, 6, 3, 7], [10, 14, 11, 15]]]]


def test_an_operator_is_watched_as_long_as_plans_are_made() -> None:
    operator = registry.get("outer")
    _planned(operator).failures = 0
    forget_plans()
    for size in range(2, 30):
        _repeat(torch.outer, torch.ones(0), torch.ones(size))  # where no element is, nothing is planned
        _repeat(torch.outer, torch.ones(size), torch.ones(3))
    assert len(_plan_of("outer")) == 28


def test_zeros_of_either_sign_and_numbers_of_either_type_have_their_own_plans() -> None:
    x = torch.tensor([2, 3])
    assert _repeat(torch.rsub, x, 1).dtype is torch.int64
    assert _repeat(torch.rsub, x, 1.0).dtype is torch.float32
    assert _repeat(torch.nn.functional.threshold, torch.tensor([-1.0]), 0.0, 0.0).signbit().tolist() == [False]
    assert _repeat(torch.nn.functional.threshold, torch.tensor([-1.0]), 0.0, -0.0).signbit().tolist() == [True]


def test_a_check_of_elements_still_refuses() -> None:
    good = torch.eye(3)
    assert _repeat(torch.linalg.inv, good).tolist() == good.tolist()
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(torch.zeros(3, 3))
    assert _repeat(torch.allclose, good, good)
    assert not torch.allclose(good, good + 1)
    assert torch.allclose(good, good)


def test_grad_needed_later() -> None:
    x, y = torch.ones(3), torch.ones(3)
    assert not _repeat(torch.outer, x, y).requires_grad
    x.requires_grad_()
    made = torch.outer(x, y)
    made.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0] * 3
    with torch.no_grad():
        assert not _repeat(torch.outer, x, y).requires_grad
    assert torch.outer(x, y).requires_grad


def test_a_view_whose_base_comes_to_need_grad() -> None:
    base, other = torch.ones(2, 3), torch.ones(3)
    row = base[0]
    assert not _repeat(torch.outer, row, other).requires_grad
    base.mul_(torch.ones((), requires_grad=True))
    assert torch.outer(row, other).requires_grad


def test_results_that_are_views_are_tracked() -> None:
    x = torch.zeros(2, 3)
    flat = _repeat(torch.flatten, x)
    assert flat._base is x
    flat.add_(1)
    assert x._version == 1 and x.sum() == 6
    made = _repeat(torch.diagonal_scatter, torch.zeros(2, 2), torch.ones(2))
    assert made._version == 1 and made.tolist() == [[1, 0], [0, 1]]


def test_no_random_numbers_are_drawn_beside_those_of_the_calls() -> None:
    x = torch.ones(40)
    torch.manual_seed(7)
    drawn = [torch.nn.functional.dropout(x, 0.5, True).tolist() for _ in range(2 * _CALLS)]
    torch.manual_seed(7)
    for wanted in drawn:
        forget_plans()
        assert torch.nn.functional.dropout(x, 0.5, True).tolist() == wanted


def test_warnings_come_with_each_call() -> None:
    x, y = torch.ones(1, 3), torch.ones(1, 3)
    with warnings.catch_warnings(record=True):  # functions are made at the first call
        torch.cross(x, y)
        x.var(0)
    for _ in range(_CALLS):
        with pytest.warns(UserWarning, match="Using torch.cross without specifying the dim") as caught:
            torch.cross(x, y)
        assert len(caught) == 1 and caught[0].filename == __file__
        with pytest.warns(UserWarning, match="degrees of freedom is <= 0") as caught:
            x.var(0)
        assert len(caught) == 1 and caught[0].filename == __file__


def test_the_default_type_counts() -> None:
    x = torch.tensor([1, 2])
    assert _repeat(torch.nn.functional.softsign, x).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.nn.functional.softsign(x).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_deterministic_mode_counts() -> None:
    x, index = torch.ones(2, 3), torch.tensor([0, 1])
    assert _repeat(torch.nn.functional.fold, torch.ones(1, 4, 1), (2, 2), 2).sum() == 4
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty_like(x).isnan().all()
        assert _repeat(torch.index_select, x, 0, index).tolist() == x.tolist()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_kernel_that_is_registered_later_is_used() -> None:
    library = torch.library.Library("aten", "IMPL")
    x, y = torch.ones(3), torch.full((3,), 2.0)
    assert _repeat(torch.outer, x, y).sum() == 18
    library.impl("mul.Tensor", lambda a, b: torch.add(a, b), "CPU")
    try:
        assert torch.outer(x, y).sum() == 27
    finally:
        library._destroy()
    assert torch.outer(x, y).sum() == 18


def test_modes_see_the_parts() -> None:
    x, y = torch.ones(3), torch.ones(3)
    _repeat(torch.outer, x, y)

    class Calls(torch.utils._python_dispatch.TorchDispatchMode):
        seen: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Calls() as mode:
        torch.outer(x, y)
    assert "aten.mul.Tensor" in mode.seen
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert _repeat(torch.matmul, torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.bfloat16
    assert torch.matmul(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32


def test_calls_with_many_layouts_forget_old_ones() -> None:
    for n in range(1, 400):
        torch.outer(torch.ones(n), torch.ones(2))
    assert len(registry.get("outer").plans.plans) <= 256


def test_views_by_storage_see_where_a_tensor_begins() -> None:
    x = torch.arange(12.0)
    y = x[3:]
    for _ in range(_CALLS):
        assert y.as_strided((2, 2), (2, 1), 4).tolist() == [[4, 5], [6, 7]]
        assert y.as_strided((2, 2), (2, 1)).tolist() == [[3, 4], [5, 6]]
        assert torch.view_as_complex(x[2:4]).tolist() == 2 + 3j
        with pytest.raises(RuntimeError, match="storage_offset divisible by 2"):
            torch.view_as_complex(x[3:5])
        assert x[2:4].view(torch.float64).shape == (1,)
        with pytest.raises(RuntimeError, match="must be divisible by 2"):
            x[3:5].view(torch.float64)


def test_what_makes_tensors_on_the_default_device_is_not_planned() -> None:
    with pytest.raises(Unplannable):
        tried(torch.arange, 3)
    assert tried(lambda: torch.arange(3, device="cpu")).tolist() == [0, 1, 2]
    assert torch.arange(3).tolist() == [0, 1, 2]


def test_an_argument_that_may_not_need_grad_is_asked_each_time() -> None:
    scores, classes, weight = torch.rand(3, 4), torch.tensor([0, 3, 1]), torch.rand(4)
    for loss in (torch.nn.functional.multi_margin_loss, torch.nn.functional.nll_loss):
        kept = weight.clone()
        for _ in range(12):
            loss(scores, classes, weight=kept)
        kept.requires_grad_()
        with pytest.raises(RuntimeError, match="is not differentiable with respect to argument 'weight'"):
            loss(scores, classes, weight=kept)
        with torch.no_grad():
            loss(scores, classes, weight=kept)


# looking plans up by compiled code -----------------------------------------------------------------------------------


@pytest.fixture
def lookups() -> Any:
    """The compiled functions, loaded."""
    found = backend_of("cpu").lookups
    if found is None:
        pytest.skip("there is no compiler")
    loaded = threading.Event()
    found.when_loaded(loaded.set)
    assert loaded.wait(60)
    return found


def test_keys_tell_apart_what_plans_depend_on(lookups: Any) -> None:
    x = torch.zeros(2, 3)
    told = [(x, 1), (x, True), (x, 1.0), (x, 1 + 0j), (x, "1"), (x, None), (x, (1,)), (x, ((1,),)), (x, 1, 1), (x, ""),
            (x, 0.0), (x, -0.0), (x, -1), (x, "long enough for two words"), (x, torch.float32), (x, torch.int64),
            (x, torch.strided), (x, torch.contiguous_format), (x, torch.device("cpu")), (x, torch.device("meta", 1)),
            (x, x), ((x, x),), ((x,), x), (x.t(), 1), (x[:1], 1), (x.double(), 1), (x.reshape(6), 1),
            (torch.zeros(3, 2).t(), 1), (torch.zeros(()), 1)]  # fmt: skip
    keys = [lookups.key_of()(*args) for args in told]
    assert None not in keys and len(set(keys)) == len(told)
    again = (torch.ones(2, 3), "".join(("long enough ", "for two words")))
    assert lookups.key_of()(*again) == lookups.key_of()(x, "long enough for two words")
    assert lookups.key_of()([x, x]) == lookups.key_of()((x, x))
    untold = [(2**64,), (torch.Generator(),), (x.to("meta"),), (object(),), ("\ud800",), ((1,) * 200,), (x.conj,)]
    assert [lookups.key_of()(*args) for args in untold] == [None] * len(untold)


def test_plans_are_found_for_calls_that_nothing_else_sees(lookups: Any) -> None:
    x, plans = torch.zeros(2, 3), {}
    plans[lookups.key_of()(x, 1)] = "plan"
    everywhere, ahead = (lookups.finder(plans, unless_recorded=flag) for flag in (False, True))
    base = torch.zeros(6)
    view, recorded = base.view(2, 3), torch.zeros(2, 3, requires_grad=True)
    assert [everywhere(t, 1) for t in (x, view, recorded)] == ["plan"] * 3
    assert [ahead(t, 1) for t in (x, view, recorded)] == ["plan", "plan", None]
    base.mul_(torch.ones(6, requires_grad=True))  # now the view has a history, too
    assert ahead(view, 1) is None and everywhere(view, 1) == "plan"
    assert ahead(x, 2) is None and ahead(x) is None


def test_steps_of_plans_are_machine_code_once_there_is_some(lookups: Any) -> None:
    calls: list[Any] = []
    a, b = np.arange(6.0).reshape(2, 3), np.full(3, 2.5)
    for other in (a[::-1].copy(), b):  # of the same shape, and broadcast
        found = compiled_or(registry.get("maximum"), lambda *args: calls.append(args) or np.maximum(*args), range(2))
        assert found is not None and list(found[1]) == [0, 1]
        for _ in range(150):
            np.testing.assert_array_equal(found[0](a, other), np.maximum(a, other))
        before = len(calls)
        assert found[0](a, other).tolist() == np.maximum(a, other).tolist() and len(calls) == before


def _often(function: Callable, *args: Any) -> Any:
    for _ in range(3 * _CALLS):
        made = function(*args)
    return made


def test_public_functions_ask_for_plans_first(lookups: Any) -> None:
    x, index = torch.rand(4, 5), torch.zeros(4, 5, dtype=torch.int64)
    _often(torch.gather, x, 1, index)
    operator = registry.get("gather")
    assert operator.finder is not None and operator.finder(x, 1, index, False) is not None
    assert torch.gather(x, -1, index).equal(x[:, :1].expand(4, 5))  # another key
    assert torch.gather(x.clone().requires_grad_(), 1, index).requires_grad
    assert torch.gather(x.to("meta"), 1, index.to("meta")).device.type == "meta"
    with pytest.raises(TypeError):
        torch.gather(x, 1.0, index)
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.gather(x, 1, index + 9)

    class Seen(torch.overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            return function(*args, **(kwargs or {}))

    with Seen() as mode:
        torch.gather(x, 1, index)
    assert mode.calls == 1
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("gather", lambda self, dim, index, sparse_grad=False: self * 2, "CPU")
        assert torch.gather(x, 1, index).equal(x * 2)
    assert torch.gather(x, 1, index).equal(x[:, :1].expand(4, 5))
