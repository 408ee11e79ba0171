"""Functions that launch kernels, and what is left of them for one layout: the launches alone give the same."""

import numpy as np
import pytest
from operator_cases import PRIMARY, arguments, bases, good_calls

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._backends.cpu.jit.repeats import empty, flag, repeats, table
from mindtorch_v2._backends.interface import named_kernel, parameters_of
from mindtorch_v2._kernels.library import vector
from mindtorch_v2._ops._declare.families import ArrayFamily
from mindtorch_v2._ops._declare.op import DECLARATIONS
from mindtorch_v2._ops._declare.updates import Updates

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


def own_kernel(declaration):
    name = declaration.kernels.get("cpu", "onednn")
    return None if name.startswith("onednn") else named_kernel("cpu", name)


NAMED = {name: d for name, d in DECLARATIONS.items()
         if isinstance(d.family, (ArrayFamily, Updates)) and d.samples and hasattr(own_kernel(d), "repeated")}


def turned_round(value):
    """Another array of the same layout."""
    if isinstance(value, list):
        return [turned_round(v) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    made = np.empty_like(value)
    made[...] = value.reshape(-1)[::-1].reshape(value.shape)
    return made


def same(made, expected):
    if expected is None or isinstance(expected, bool):
        return made is expected
    if isinstance(expected, (tuple, list)):
        return all(same(m, e) for m, e in zip(made, expected, strict=True))
    return made.shape == expected.shape and made.dtype == expected.dtype and made.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", NAMED)
def test_launches_alone_give_the_same_for_other_elements(name):
    declaration, own = NAMED[name], own_kernel(NAMED[name])
    family, wants_spec = declaration.family, "spec" in parameters_of(own_kernel(NAMED[name]))
    for call in good_calls(declaration):
        args, kwargs = arguments(call, torch, bases(call, torch, PRIMARY))
        values = tuple(declaration.operator.schema.bind(args, kwargs))
        spec = family.infer(*values) if wants_spec else None
        given = [[i._array for i in v] if isinstance(v, (tuple, list)) and v and hasattr(v[0], "_array")
                 else getattr(v, "_array", v) for v in values]
        repeated = own.repeated(spec)
        if repeated[0](*map(turned_round, given)) is None:
            continue
        repeated[0](*map(turned_round, given))
        for elements in (given, [turned_round(v) for v in given]):
            copies = [v.copy(order="K") if isinstance(v, np.ndarray) else v for v in elements]
            expected = own(*copies, **({"spec": spec} if wants_spec else {}))
            again = [v.copy(order="K") if isinstance(v, np.ndarray) else v for v in elements]
            assert same(repeated[0](*again), expected)
            assert all(same(a, b) for a, b in zip(again, copies, strict=True) if isinstance(a, np.ndarray))


def recorded(function, *args):
    """What serves the third call and those after it."""
    repeated = function.repeated(None)
    for _ in range(2):
        repeated[0](*args)
    return repeated[0]


def test_what_is_copied_on_the_way_is_not_repeated():
    @repeats
    def product(a, x):
        out = empty((len(a),), a.dtype)
        return out if calls.launched(vector.rows, out, np.ascontiguousarray(a), x) else None

    repeated = product.repeated(None)
    for number in range(4):
        a = np.full((2, 6), float(number))[:, ::2]
        assert repeated[0](a, np.ones(3)).tolist() == [3 * number] * 2


def test_arguments_that_share_memory_are_watched_later():
    from mindtorch_v2._backends.cpu.kernels.index import gather

    index, other = np.array([[1, 0]]), np.array([[0, 0]])
    repeated = gather.repeated(None)
    for _ in range(3):  # indices and elements in one array
        assert repeated[0](index, 1, index, False).tolist() == [[0, 1]]
    for _ in range(2):
        assert repeated[0](other, 1, index, False).tolist() == [[0, 0]]
    assert repeated[0](np.array([[5, 6]]), 1, index, False).tolist() == [[6, 5]]


@pytest.mark.parametrize("joined", [torch.stack, lambda parts: torch.cat([p.reshape(1) for p in parts]),
                                    lambda parts: torch.block_diag(*parts).sum(0)], ids=["stack", "cat", "block_diag"])
def test_tensors_joined_with_themselves_and_then_with_others(joined):
    parts = [torch.tensor(float(number)) for number in range(4)]
    for _ in range(4):
        assert joined([parts[1]] * 4).tolist() == [1, 1, 1, 1]
    for _ in range(4):
        assert joined(parts).tolist() == [0, 1, 2, 3]


def test_an_index_outside_gives_nothing_in_any_call():
    from mindtorch_v2._backends.cpu.kernels.index import take

    x, index = np.arange(4.0), np.array([1, 2])
    run = recorded(take, x, index)
    assert run(x, index).tolist() == [1, 2]
    assert run(x, np.array([1, 4])) is None
    assert run(x, index).tolist() == [1, 2]


def test_tables_and_flags_are_arrays_outside_of_recordings():
    assert table(np.arange(3)).tolist() == [0, 1, 2]
    assert flag().tolist() == [0]


def test_plans_follow_the_number_of_threads():
    x, index = torch.randn(64, 1024), torch.randint(0, 64, (64,))
    before = torch.get_num_threads()
    try:
        wanted = torch.zeros(64, 1024).index_add(0, index, x)
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            for _ in range(5):
                assert torch.allclose(torch.zeros(64, 1024).index_add(0, index, x), wanted, atol=1e-5)
    finally:
        torch.set_num_threads(before)
