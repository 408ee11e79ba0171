"""Loops of NumPy's on OpenBLAS's threads: the same bits as on one thread, whatever lies where."""

import itertools
import os
import threading

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2._backends.cpu import (
    attention_rounds,
    blas_team,
    convolution,
    convolution_rounds,
    openblas,
    programs,
    shared,
    shared_products,
    together,
)
from mindtorch_v2._backends.cpu.jit import calls
from mindtorch_v2._backends.cpu.shared import Shared
from mindtorch_v2._core.geometry import Steps, strided_array, strides_by_tokens
from mindtorch_v2._kernels import llvm_lists
from mindtorch_v2._ops._declare.rules import Spec

pytestmark = pytest.mark.skipif(blas_team._library() is None, reason="NumPy's library has no exec_blas that is known")
RANDOM = np.random.default_rng(3)
LOW = 64  # elements from which on everything is shared out here


@pytest.fixture(autouse=True)
def forced(monkeypatch):
    """Two threads share arrays of few elements, with or without a compiler; what NumPy computed is counted."""
    monkeypatch.setattr(blas_team, "is_available", lambda: True)
    monkeypatch.setattr(blas_team, "MANY", 2)
    monkeypatch.setattr(blas_team, "SHARE", 16)
    monkeypatch.setattr(shared, "LEAST", LOW)
    monkeypatch.setattr(shared_products, "LEAST", LOW)
    monkeypatch.setattr(together, "LEAST", LOW)
    monkeypatch.setattr(shared_products, "_SHARE", 16)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    by_numpy, left = shared._by_numpy, []

    def counted(ufunc, method, inputs, out, options):
        left.append(ufunc.__name__)
        return by_numpy(ufunc, method, inputs, out, options)

    monkeypatch.setattr(shared, "_by_numpy", counted)
    yield left
    torch.set_num_threads(before)
    shared._plans.clear()
    shared_products._plans.clear()
    together._layouts.clear()
    programs._programs.clear()


def numbers(shape, kind="f4"):
    made = RANDOM.standard_normal(shape) * 3
    return (made > 0) if kind == "?" else made.astype(kind)


def share(array):
    return array.view(Shared)


def same(made, wanted):
    made, wanted = np.asarray(made), np.asarray(wanted)
    assert (made.shape, made.dtype, made.strides) == (wanted.shape, wanted.dtype, wanted.strides)
    assert made.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("width", [3, 20, 70])
def test_parts_that_are_changed_in_place(width, forced):
    a, b = numbers((30, 40, 70)), numbers((40, width))
    wanted, made = a.copy(), share(a.copy())
    wanted[:, :, -width:] += b
    made[:, :, -width:] += b
    same(made, wanted)
    made[...] = made[:, :, ::-1]
    same(made, wanted[:, :, ::-1].copy())
    before = made[:, :, :width].tobytes()
    shared.copied(made[:, :, :width], made[:, :, :width])
    assert made[:, :, :width].tobytes() == before


LAYOUTS = {
    "in order": lambda a: a,
    "transposed": lambda a: a.T,
    "every second": lambda a: a[::2, 1::2],
    "reversed": lambda a: a[::-1],
    "reversed rows": lambda a: a[:, ::-1],
    "columns": lambda a: np.asfortranarray(a),
    "a part": lambda a: a[3:-1, 2:-5],
    "one row": lambda a: a[1:2],
}


@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "i8", "u1", "i2", "?"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "less", "bitwise_xor", "logical_and"])
def test_loops_of_two_arrays_give_numpys_bits(name, kind, forced):
    ufunc = getattr(np, name)
    if kind[0] == "f" and name == "bitwise_xor":
        return
    forms = list(LAYOUTS.values())
    for one, other in [*zip(forms, forms, strict=True), *itertools.product(forms[:2], forms), (forms[3], forms[4])]:
        a, b = one(numbers((40, 91), kind)), other(numbers((40, 91), kind))
        if a.shape == b.shape:
            same(ufunc(share(a), b), ufunc(a, b))
    assert not forced


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 129, 1000, 4097])
@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "log", "negative", "isnan"])
def test_functions_give_numpys_bits_at_all_lengths(name, size, forced):
    ufunc = getattr(np, name)
    with np.errstate(all="ignore"):
        for kind in ("f4", "f8"):
            x = numbers(size, kind)
            same(ufunc(share(x)), ufunc(x))
    assert bool(forced) is (size < LOW)


@pytest.mark.parametrize("other", [(50,), (40, 1), (1, 50), (), (3, 40, 50), (3, 1, 1)])
def test_broadcast_operands(other, forced):
    a, b = numbers((40, 50)), numbers(other)
    same(share(a) - b, a - b)
    same(b - share(a), b - a)
    assert not forced


@pytest.mark.parametrize("number", [2, 0.5, -0.0, float("nan"), float("inf"), 10**30, np.float32(3), True])
def test_numbers_are_taken_in_the_arrays_type(number):
    for kind in ("f4", "f8", "i4"):
        a = numbers((40, 50), kind)
        if kind == "i4" and (number != number or abs(number) > 2**31):
            continue
        same(share(a) * number, a * number)
        same(number - share(a) if number is not True else share(a), number - a if number is not True else a)


def test_types_that_numpy_casts_are_left_to_it(forced):
    a = numbers((40, 50))
    same(share(a) + numbers((40, 50), "f8") * 0, a + np.zeros((40, 50)))
    same(share(a).astype("f2") + np.float16(1), a.astype("f2") + np.float16(1))
    same(share(a.astype(">f4")) + 1, a.astype(">f4") + 1)
    assert len(forced) >= 2
    texts = share(np.array([["a"] * 10] * 20, object))
    assert (texts + "b")[3, 4] == "ab"


def test_writing_into_what_is_read(forced):
    for shift in (0, 1, 7, 200, 2000):
        for wanted in (0, 1):
            memory = numbers(4096)
            copy = memory.copy()
            pair = [(m[: 2000], m[shift : shift + 2000]) for m in (memory, copy)]
            for (a, b), form in zip(pair, (share, np.asarray), strict=True):
                np.add(form(a), form(b), out=form((a, b)[wanted]))
            assert memory.tobytes() == copy.tobytes(), (shift, wanted)
    a = numbers((60, 60))
    b = a.copy()
    np.add(share(a), share(a.T), out=share(a))
    np.add(b, b.T, out=b)
    assert a.tobytes() == b.tobytes()
    assert forced  # those that overlap otherwise than element by element
    repeated = np.lib.stride_tricks.as_strided(numbers(200), (100, 100), (4, 4))
    other = repeated.copy()
    np.add(share(repeated), 1, out=share(repeated))
    np.add(other, 1, out=other)
    assert repeated[0, 0] == other[0, 0]


def test_choosing_by_a_condition(forced):
    from mindtorch_v2._backends.cpu import choose

    for kind in ("f4", "f8", "i8", "i2", "u1"):
        a, b, chosen = numbers((40, 50), kind), numbers((40, 50), kind), numbers((40, 50), "?")
        if kind[0] == "f":
            a[3, 4], b[5, 6] = np.nan, np.inf
        plain_zero = np.where(chosen, np.dtype(kind).type(0), a)
        for condition in (chosen, share(chosen)):
            assert choose.where(condition, share(a), b).tobytes() == np.where(chosen, a, b).tobytes()
            assert choose.where(condition, share(a), 0).tobytes() == np.where(chosen, a, a.dtype.type(0)).tobytes()
            assert choose.where(condition, 0, share(a)).tobytes() == plain_zero.tobytes()
            assert choose.zero_where(condition, share(a)).tobytes() == plain_zero.tobytes()
        same(shared.as_numbers(share(chosen), np.dtype("i4")), chosen.astype("i4"))
    assert not forced


@pytest.fixture
def uncompiled(monkeypatch):
    """No machine code makes steps of optimizers, also where tests before this one have made some."""
    monkeypatch.setattr(calls, "_wanted_over_lists", lambda *given: False)
    ready = [own for key, own in calls._ready.items() if key.__class__ is tuple and key[0] is llvm_lists]
    before = [list(own) for own in ready]
    for own in ready:
        own.clear()
    yield
    for own, found in zip(ready, before, strict=True):
        own[:] = found


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.AdamW(p, 0.01), lambda p: torch.optim.Adagrad(p, 0.1),
    lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1, amsgrad=True, maximize=True),
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
])
def test_lists_of_arrays_are_stepped_as_one(make, uncompiled, monkeypatch):
    from mindtorch_v2._backends.interface import host

    made, rounds = [], []
    execute = blas_team.Work.execute
    monkeypatch.setattr(blas_team.Work, "execute", lambda work, bases: (rounds.append(1), execute(work, bases))[1])
    for as_one in (False, True):
        found = together.together if as_one else lambda lists: None
        monkeypatch.setattr(type(host()), "together", lambda self, lists, found=found: found(lists))
        torch.manual_seed(0)
        parameters = [torch.randn(shape, requires_grad=True) for shape in ((50, 30), (30,), (1,), (7, 5, 3), (200,))]
        optimiser = make(parameters)
        rounds.clear()
        for _ in range(3):
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            before = [parameter._version for parameter in parameters]
            optimiser.step()
            assert all(p._version > version for p, version in zip(parameters, before, strict=True))
        made.append([parameter.detach().numpy() for parameter in parameters])
        assert not as_one or rounds
    for one, other in zip(*made, strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


def test_lists_that_share_memory_are_not_one():
    memory = numbers(400)
    lists = [[memory[:200], memory[200:]], [numbers(200), numbers(200)]]
    assert together.together(lists) is not None
    assert together.together([[memory[:200], memory[100:300]], lists[1]]) is None
    assert together.together([[memory[:200], memory[::2]], lists[1]]) is None
    assert together.together([lists[0], [numbers(200), numbers(200, "f8")]]) is None
    assert together.together([[numbers(3), numbers(3)], [numbers(3), numbers(3)]]) is None


def test_a_refused_write_changes_nothing():
    a, target = numbers((40, 50)), numbers((40, 50))
    target.flags.writeable = False
    before = target.copy()
    with pytest.raises(ValueError, match="read-only"):
        np.add(share(a), 1, out=share(target))
    with pytest.raises(ValueError, match="broadcast"):
        share(a) + numbers((41, 50))
    with pytest.raises(TypeError):
        np.add(share(a), object())
    with pytest.raises(TypeError, match="cast"):
        np.add(share(a), share(a), out=np.empty((40, 50), "i4"))
    assert target.tobytes() == before.tobytes()
    same(share(a) + 1, a + 1)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, (0, 2), (1, 2), (0, 1), ()])
@pytest.mark.parametrize("shape", [(4, 6, 50), (64, 3, 8), (2, 80, 9), (1, 1, 4096), (3, 128, 1)])
def test_reductions(shape, axis):
    for kind, keepdims in (("f4", True), ("i8", False)):
        a = numbers(shape, kind)
        for name in ("max", "min"):
            same(getattr(share(a), name)(axis, keepdims=keepdims), getattr(a, name)(axis, keepdims=keepdims))
        for name in ("sum", "mean", "var"):
            made, wanted = (getattr(form, name)(axis, keepdims=keepdims) for form in (share(a), a))
            assert np.shape(made) == np.shape(wanted) and made.dtype == wanted.dtype
            np.testing.assert_allclose(made, wanted, 1e-4, 1e-4)
        with pytest.raises(np.exceptions.AxisError):
            share(a).sum(7)


def test_reductions_of_rows_give_numpys_bits(forced):
    a = numbers((70, 130))
    same(share(a).sum(1), a.sum(1))
    same(share(a[:, :100]).max(1, keepdims=True), a[:, :100].max(1, keepdims=True))
    same(np.maximum.reduce(share(a), axis=1, initial=5), np.maximum.reduce(a, axis=1, initial=5))
    assert not forced
    a[3, 4] = np.nan
    same(share(a).max(1), a.max(1))
    same(np.add.reduce(share(a), axis=1, initial=3), np.add.reduce(a, axis=1, initial=3))
    assert forced


def test_arrays_without_elements():
    a = numbers((0, 50))
    same(share(a) + 1, a + 1)
    same(share(a).sum(0), a.sum(0))
    same(share(numbers((50, 0))) @ a, np.zeros((50, 50), "f4"))


@pytest.mark.parametrize("kind", ["f4", "f2", "i8", "?", "c16"])
def test_copies(kind, forced):
    for lay in LAYOUTS.values():
        a = lay(numbers((40, 52), kind))
        same(share(a).copy(), a.copy())
        target, wanted = np.zeros_like(a), np.zeros_like(a)
        share(target)[...], wanted[...] = a, a
        same(target, wanted)
        assert np.concatenate([share(a), a], 1).tobytes() == np.concatenate([a, a], 1).tobytes()
    bits = RANDOM.integers(0, 2**32, 4096, np.uint32)
    assert share(bits.view("f4")).copy().tobytes() == bits.tobytes()  # signalling NaN and all
    a, b = numbers(4000), np.zeros(4000)
    share(b)[:] = a  # cast
    same(b, a.astype("f8"))
    memory = numbers(4000)
    wanted = memory.copy()
    share(memory)[1:] = memory[:-1]
    wanted[1:] = wanted[:-1].copy()
    same(memory, wanted)


@pytest.mark.parametrize("shapes", [((64, 40), (40, 64)), ((8, 40), (40, 300)), ((300, 40), (40, 8)), ((5, 16, 20),
                         (5, 20, 24)), ((1, 3, 16, 20), (4, 3, 20, 24)), ((4, 16, 20), (20, 24)), ((9, 16, 20), (20,)),
                         ((1, 200), (200, 300)), ((300, 200), (200, 1)), ((3, 5, 16, 20), (20, 8))])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_products(shapes, kind, forced):
    a, b = (numbers(shape, kind) for shape in shapes)
    forms = [lambda x: x, lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.ndim > 1 else x]
    for one, other in itertools.product(forms, repeat=2):
        wanted = np.matmul(a, b)
        made = (share(one(a)) @ share(other(b))).view(np.ndarray)
        assert made.flags.c_contiguous
        np.testing.assert_allclose(made, wanted, 1e-4, 1e-4)
        target = np.empty(wanted.shape, kind)
        np.matmul(share(one(a)), other(b), out=target)
        np.testing.assert_allclose(target, wanted, 1e-4, 1e-4)
    assert not forced
    np.testing.assert_allclose(share(a[..., ::2]) @ np.ascontiguousarray(b[..., ::2, :] if b.ndim > 1 else b[::2]),
                               a[..., ::2] @ (b[..., ::2, :] if b.ndim > 1 else b[::2]), 1e-4, 1e-4)


def test_products_that_do_not_fit_are_refused_as_by_numpy():
    with pytest.raises(ValueError, match="mismatch"):
        share(numbers((40, 50))) @ numbers((40, 50))
    square = numbers((40, 40))
    wanted = square @ square
    np.matmul(share(square), square, out=square)
    np.testing.assert_allclose(square, wanted, 1e-4, 1e-4)


def test_python_threads_at_once():
    a = numbers((64, 500))
    wanted, wrong = np.exp(a) * a + a.sum(1, keepdims=True), []

    def compute():
        for _ in range(50):
            x = share(a)
            if (np.exp(x) * x + x.sum(1, keepdims=True)).tobytes() != wanted.tobytes():
                wrong.append(1)

    workers = [threading.Thread(target=compute) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_computes():
    a = numbers((64, 500))
    wanted = np.exp(share(a)) + 1
    child = os.fork()
    if not child:
        status = 1
        try:
            status = 0 if (np.exp(share(a)) + 1).tobytes() == wanted.tobytes() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    same(np.exp(share(a)) + 1, wanted)


def test_the_number_of_threads_is_heeded(monkeypatch):
    counts = []
    run = blas_team.Work.run
    monkeypatch.setattr(blas_team.Work, "run", lambda work, *given: (counts.append(work.count), run(work, *given))[1])
    a = numbers((64, 500))
    share(a) + 1
    torch.set_num_threads(1)
    assert shared.shared(a).__class__ is np.ndarray
    torch.set_num_threads(2)
    assert shared.shared(a).__class__ is Shared
    share(a) + 1
    assert counts == [2, 2]
    tell = openblas._blas_threads()[0]
    before = tell()
    share(a) @ numbers((500, 16))
    assert tell() == before
    with openblas.alone:
        assert shared.shared(a).__class__ is np.ndarray
        share(a) + 1  # of one of several threads at work
    assert len(counts) == 3


def test_an_exception_in_between_leaves_all_as_it_was(monkeypatch):
    a, tell = numbers((64, 500)), openblas._blas_threads()[0]
    before = tell()
    share(a) - a[:, :1]
    library = blas_team._library()

    def interrupted(*given):
        raise KeyboardInterrupt

    execute = library.execute
    monkeypatch.setattr(library, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        share(a) - a[:, :1]
    monkeypatch.setattr(library, "execute", execute)
    assert tell() == before
    same(share(a) - a[:, :1], a - a[:, :1])


def test_what_does_not_look_as_expected_is_not_used(monkeypatch):
    found = blas_team.blas()
    assert blas_team._is_known(found)

    class Other:
        def __init__(self, config):
            self.config = config

        def __getattr__(self, name):
            if name.endswith("get_config64_") or name.endswith("get_config"):
                function = lambda: self.config  # noqa: E731 - has to take attributes
                return function
            return getattr(found.library, name)

    for version in (b"0.3.30", b"0.3.35", b"0.4.32", b"0.3.33 USE_OPENMP", b""):
        assert not blas_team._is_known(found._replace(library=Other(b"OpenBLAS " + version)))
    assert not blas_team._is_known(found._replace(library=Other(b"MKL")))
    assert blas_team._is_known(found._replace(library=Other(b"OpenBLAS 0.3.33 DYNAMIC_ARCH")))
    assert blas_team.inner_loop(np.add, "fg") is None
    assert blas_team._fields(np.frompyfunc(lambda x: x, 1, 1)) is not None


LAYERS = {
    "lstm": lambda: nn.LSTM(12, 16, batch_first=True), "gru": lambda: nn.GRU(12, 16, bias=False, num_layers=2),
    "both ways": lambda: nn.LSTM(12, 16, bidirectional=True), "projected": lambda: nn.LSTM(12, 16, proj_size=5),
}


def recurrent_runs(layer):
    """Outputs and gradients of calls with other numbers and lengths, where programs are used and where they are not."""
    torch.manual_seed(0)
    made, network = [], LAYERS[layer]()
    for scale in range(1, 8):
        x = (torch.randn(6, 9, 12) * scale).requires_grad_()
        network.zero_grad()
        out = network(x)[0]
        packed, (*_,) = network(nn.utils.rnn.pack_sequence([torch.ones(n, 12) * scale for n in (9, 7, 7, 2)]))
        ((out * out).sum() + packed.data.sum()).backward()
        made += [out, packed.data, x.grad, *[p.grad.clone() for p in network.parameters()]]
    return [tensor.detach().numpy() for tensor in made]


def test_steps_of_recurrent_layers_are_one_round(forced):
    """In a process without a compiler, where kernels are made so."""
    _run_without_compiler("""
from mindtorch_v2._backends.cpu import programs
from test_shared import LAYERS, recurrent_runs
rounds = []
run = programs._Program.run
programs._Program.run = lambda program, arrays: (rounds.append(program.work.rows), run(program, arrays))[1]
for layer in LAYERS:
    made = []
    for blas_team.MANY in (99, 2):
        torch.set_num_threads(2)
        rounds.clear()
        made.append(recurrent_runs(layer))
        assert bool(rounds) is (blas_team.MANY == 2), layer
    for one, other in zip(*made, strict=True):
        np.testing.assert_allclose(one, other, 1e-3, 1e-4)
""")


def test_norms_of_rows_are_one_round():
    _run_without_compiler("""
from mindtorch_v2._backends.cpu import programs
rounds = []
run = programs._Program.run
programs._Program.run = lambda program, arrays: (rounds.append(program.work.rows), run(program, arrays))[1]
F = torch.nn.functional
norms = {"layer": lambda x, w, b: F.layer_norm(x, (24,), w, b), "plain": lambda x, w, b: F.layer_norm(x, (24,)),
         "rms": lambda x, w, b: F.rms_norm(x, (24,), w), "double": lambda x, w, b: F.layer_norm(x.double(), (24,))}
for norm in norms.values():
    made = []
    for blas_team.MANY in (99, 2):
        torch.set_num_threads(2)
        torch.manual_seed(0)
        rounds.clear()
        own = []
        for scale in range(1, 7):
            x = (torch.randn(5, 13, 24) * scale).requires_grad_()
            w, b = torch.randn(24, requires_grad=True), torch.randn(24, requires_grad=True)
            out = norm(x, w, b)
            (out ** 3).sum().backward()
            own += [out.detach().numpy(), x.grad.numpy()]
        made.append(own)
        assert bool(rounds) is (blas_team.MANY == 2)
    for one, other in zip(*made, strict=True):
        np.testing.assert_allclose(one, other, 2e-4, 2e-5)
""")


def test_half_precision_is_computed_in_float32():
    _run_without_compiler("""
x = torch.randn(2, 3, 12, 12)
for kind in (torch.bfloat16, torch.float16):
    made = []
    for blas_team.MANY in (99, 2):
        torch.set_num_threads(2)
        half = x.to(kind).requires_grad_()
        out = torch.nn.functional.avg_pool2d(half, 3, 2, 1)
        out.float().square().sum().backward()
        made.append([out.detach().float().numpy(), half.grad.float().numpy()])
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one, other)
""")


def test_what_cannot_be_written_down_is_computed_each_time():
    def looks(xp, part, x, made):
        made[part] = x[part] * (2 if x[part].sum() > 0 else 3)

    def casts(xp, part, x, made):
        made[part] = xp.where(x[part] > 0, x[part], 0)

    for function in (looks, casts):
        for sign in (1, 1, 1, 1, 1, -1):
            x, made, wanted = np.full((8, 100), sign, "f4"), np.zeros((8, 100), "f4"), np.zeros((8, 100), "f4")
            programs.deal(np, function, (), 8, (x, made))
            function(np, slice(0, 8), x, wanted)
            assert np.array_equal(made, wanted)
    rounds = []

    def doubles(xp, part, x, made):
        rounds.append(part)
        xp.multiply(x[part], 2, out=made[part])
        made[part] += x[part, :1]

    for _ in range(8):
        x, made = numbers((9, 100)), np.zeros((9, 100), "f4")
        programs.deal(np, doubles, (), 9, (x, made))
        assert np.array_equal(made, x * 2 + x[:, :1])
    assert len(rounds) == programs._CALLS + 2  # and then no more


def test_functions_of_several_steps_are_one_round(monkeypatch):
    from mindtorch_v2._backends.cpu import blocks, xp

    def chain(xp, x, y, factor, name):
        inner = x * y
        inner += factor
        return xp.tanh(inner) * x - np.float32(0.5)

    rounds, run = [], programs._Program.run
    monkeypatch.setattr(programs._Program, "run", lambda program, held: (rounds.append(1), run(program, held))[1])
    for shape in ((300, 300), (70001,)):
        rounds.clear()
        for factor in (2, 2, 2, 2, 2, 2, 3):
            x, y = numbers(shape), numbers(shape)
            same(blocks.in_blocks(xp, chain, share(x), share(y), factor, "none"), chain(np, x, y, factor, "none"))
        assert len(rounds) == 4  # one of them to see that it gives the same
    x = numbers((300, 300))
    for _ in range(6):
        rounds.clear()
        transposed = blocks.in_blocks(xp, lambda xp, x, y: x + y, share(x), x.T)
        assert np.array_equal(transposed, x + x.T)
        chosen = blocks.in_blocks(xp, lambda xp, x: xp.where(x > 0, x, 0), share(x))
        assert np.array_equal(chosen, np.where(x > 0, x, 0))
    assert not rounds


def test_programs_of_reductions_and_of_rows_of_matrices():
    """What lies between calls is in memory of the part: what is not written there stays 0."""
    def compute(xp, part, x, factors, made):
        between, tops = programs.room(x, (4, 7)), programs.room(x, (4,))
        rows = np.arange(1, 8, dtype=x.dtype)
        for at in range(part.start, part.stop):
            xp.maximum.reduce(x[at], axis=1, out=tops)
            xp.subtract(x[at, :, :5], tops[:, None], out=between[:, 1:6])
            between[:, :1] = 0.5
            xp.add(between, rows, out=between)
            xp.matmul(between[None], factors, out=made[at])
            between[:, 6] = 0

    for _ in range(7):
        x, factors, made = numbers((6, 4, 9)), numbers((3, 7, 5)), np.zeros((6, 3, 4, 5), "f4")
        programs.deal(np, compute, (), 6, (x, factors, made))
        columns = np.zeros((6, 4, 7), "f4")
        columns[:, :, 1:6] = x[:, :, :5] - x.max(-1, keepdims=True)
        columns[:, :, 0] = 0.5
        columns += np.arange(1, 8, dtype="f4")
        np.testing.assert_allclose(made, columns[:, None] @ factors, 1e-5, 1e-5)
    assert isinstance(next(iter(programs._programs.values())), programs._Program)


def test_programs_are_forgotten_when_they_are_many(monkeypatch):
    def twice(xp, part, x, made):
        xp.add(x[part], x[part], out=made[part])

    def run(length, count):
        for _ in range(count):
            x, made = numbers((8, length)), np.empty((8, length), "f4")
            programs.deal(np, twice, (), 8, (x, made))
            assert np.array_equal(made, x + x)

    def written():
        return [x[0][1] for (*_, x, _), found in programs._programs.items() if isinstance(found, programs._Program)]

    run(39, 5)
    monkeypatch.setattr(programs, "_PLANS", 5)
    for length in range(40, 60):  # which come once
        run(length, 1)
        assert len(programs._programs) <= 5
    assert written() == [39]
    monkeypatch.setattr(programs, "_KEPT_CALLS", 3)  # each has two
    run(40, 5)
    run(41, 9)
    assert written() == [39, 40]  # which are in use, so that there is no room for another
    monkeypatch.setattr(programs, "_IDLE", 0)
    run(42, 5)
    assert written() == [40, 42]


CONVOLUTIONS = {  # input, weight, stride, padding, dilation, groups
    "same": ((3, 4, 9, 8), (5, 4, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "one": ((3, 4, 6, 7), (5, 4, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "strided": ((3, 4, 9, 12), (6, 4, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "strided one": ((2, 4, 9, 8), (6, 4, 1, 1), (2, 3), (0, 0), (1, 1), 1),
    "stem": ((2, 3, 24, 24), (4, 3, 7, 7), (2, 2), (3, 3), (1, 1), 1),
    "patches": ((2, 3, 12, 12), (4, 3, 4, 4), (4, 4), (0, 0), (1, 1), 1),
    "groups, dilated": ((5, 6, 11, 16), (4, 3, 3, 2), (1, 1), (2, 1), (2, 3), 2),
    "wide zeros": ((2, 2, 5, 4), (3, 2, 3, 3), (1, 1), (4, 5), (1, 1), 1),
    "no zeros": ((1, 3, 20, 21), (4, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "a line": ((4, 6, 30), (8, 3, 5), (2,), (2,), (1,), 2),
    "space": ((2, 3, 6, 5, 8), (4, 3, 2, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1), 1),
}


def convolved_by_sums(x, weight, bias, steps):
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in steps.padding]])
    reach = [d * (k - 1) + 1 for d, k in zip(steps.dilation, weight.shape[2:])]
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + rank)))
    seen = seen[(..., *[slice(None, None, s) for s in steps.stride], *[slice(None)] * rank)]
    seen = seen[(..., *[slice(None, None, d) for d in steps.dilation])]
    parts = [np.tensordot(s, w, [[1, *range(2 + rank, 2 + 2 * rank)], range(1, 2 + rank)])
             for s, w in zip(np.split(seen, steps.groups, 1), np.split(weight, steps.groups), strict=True)]
    made = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    return made if bias is None else made + bias.reshape(-1, *[1] * rank)


@pytest.mark.parametrize("layout", ["in order", "channels last", "a part"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_one_round(monkeypatch, name, layout):
    monkeypatch.setattr(convolution_rounds, "LEAST", 1)
    monkeypatch.setattr(convolution_rounds, "_COLUMNS", 1)
    monkeypatch.setattr(convolution_rounds, "SMALL", 2000)
    convolution_rounds._plan.cache_clear()
    shape, kernel, stride, padding, dilation, groups = CONVOLUTIONS[name]
    steps = Steps(stride, padding, dilation, groups)
    rounds, run, others = [], programs._Program.run, []
    monkeypatch.setattr(programs._Program, "run", lambda program, held: (rounds.append(1), run(program, held))[1])
    for kind, bias in (("f4", None), ("f8", numbers(kernel[0], "f8"))):
        others.clear()
        for scale in range(1, 7):
            x, weight = numbers(shape, kind) * scale, numbers(kernel, kind)
            wanted = convolved_by_sums(x, weight, bias, steps)
            made = np.full(wanted.shape, np.nan, kind)
            if layout == "channels last":
                x, made = (np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) for a in (x, made))
            elif layout == "a part":
                x, made = np.repeat(x, 2, -1)[..., ::2], np.repeat(made, 2, 1)[:, ::2]
            assert convolution_rounds.convolved(x, weight, bias, made, steps, others.append)
            if scale > programs._CALLS:
                np.testing.assert_allclose(made, wanted, 1e-4, 1e-3)
        assert others == [slice(0, shape[0])] * programs._CALLS
    convolution_rounds._plan.cache_clear()
    assert len(rounds) == 6


@pytest.mark.parametrize("layout", ["in order", "channels last"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_convolutions_are_one_round(monkeypatch, name, layout):
    for limit in ("LEAST", "_COLUMNS"):
        monkeypatch.setattr(convolution_rounds, limit, 1)
    convolution_rounds._plan.cache_clear()
    shape, kernel, stride, padding, dilation, groups = CONVOLUTIONS[name]
    steps, others = Steps(stride, padding, dilation, groups), []
    for kind, bias in (("f4", None), ("f8", numbers(shape[1], "f8"))):
        others.clear()
        for scale in range(1, 7):
            x, weight = numbers(shape, kind), numbers(kernel, kind)
            grad = numbers(convolved_by_sums(x, weight, None, steps).shape, kind) * scale
            if layout == "channels last":
                x, grad = (np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) for a in (x, grad))
            to_input, to_weight = np.full_like(x, np.nan), np.empty_like(weight)
            assert convolution_rounds.input_gradient(grad, weight, bias, to_input, steps, lambda: others.append("x"))
            found = convolution_rounds.weight_gradient(grad, x, to_weight, steps, lambda: others.append("weight"))
            if scale <= programs._CALLS:
                continue
            wanted = np.empty(shape, kind)
            convolution._to_input(grad, weight, bias, wanted, steps)
            np.testing.assert_allclose(to_input, wanted, 1e-4, 1e-3)
            wanted = convolution._to_weight(grad, x, to_weight, steps).reshape(kernel)
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-3)
        assert others == ["x", "weight"] * programs._CALLS
    convolution_rounds._plan.cache_clear()


def test_convolutions_of_many_samples_are_several_rounds(monkeypatch):
    monkeypatch.setattr(convolution_rounds, "LEAST", 1)
    monkeypatch.setattr(convolution_rounds, "_CALLS", 300)
    convolution_rounds._plan.cache_clear()
    steps, weight = Steps((1, 1), (1, 1), (1, 1), 1), numbers((5, 4, 3, 3))
    for _ in range(6):
        x, some = numbers((17, 4, 9, 8)), []
        made = np.empty((17, 5, 9, 8), "f4")
        assert convolution_rounds.convolved(x, weight, None, made, steps, some.append)
    assert not some
    np.testing.assert_allclose(made, convolved_by_sums(x, weight, None, steps), 1e-4, 1e-3)
    assert len(programs._programs) == 2  # the last has fewer samples
    convolution_rounds._plan.cache_clear()


@pytest.mark.parametrize("masked", [None, "causal", "bool", "float", "heads", "hidden"])
@pytest.mark.parametrize("queries, keys, shared_by", [(16, 16, 1), (5, 9, 2), (1, 12, 1)])
def test_attention_is_one_round(monkeypatch, masked, queries, keys, shared_by):
    monkeypatch.setattr(attention_rounds, "LEAST", 1)
    monkeypatch.setattr(attention_rounds, "_BLOCK", 64)
    others = []
    for kind in ("f4", "f8"):
        others.clear()
        for scale in range(1, 7):
            query = np.swapaxes(numbers((3, queries, 4, 8), kind), 1, 2) * scale / 8
            key, value = numbers((3, 4 // shared_by, keys, 8), kind), numbers((3, 4 // shared_by, keys, 8), kind)
            mask = None
            if masked not in (None, "causal"):
                mask = numbers((3, 1, queries, keys) if masked == "heads" else (queries, keys), kind)
                if masked != "float":
                    mask = np.where(mask > 0, 0, -np.inf).astype(kind)
                if masked == "hidden":
                    mask[..., 0, :] = -np.inf
                mask = np.broadcast_to(mask, (3, 4, queries, keys))
            made = np.full(query.shape, np.nan, kind)
            found = attention_rounds.attended(query, key, value, mask, masked == "causal", 0.3, made,
                                              lambda: others.append(1) or ("made", "otherwise"))
            if scale <= programs._CALLS:
                assert found == ("made", "otherwise")
                continue
            wanted, tops, sums = attended_by_sums(query, key, value, mask, masked == "causal")
            assert found[0] is made
            np.testing.assert_allclose(made, wanted, 1e-4, 1e-5)
            np.testing.assert_allclose(found[1][0], tops, 1e-4, 1e-4)
            np.testing.assert_allclose(found[1][1], sums, 1e-4, 1e-4)
        assert len(others) == programs._CALLS


@pytest.mark.parametrize("masked", [None, "causal", "float", "hidden"])
@pytest.mark.parametrize("queries, keys, shared_by", [(16, 16, 1), (5, 9, 2), (1, 12, 1)])
def test_gradients_of_attention_are_one_round(monkeypatch, masked, queries, keys, shared_by):
    from mindtorch_v2._backends.cpu import xp
    from mindtorch_v2._ops.attention import _backward_array

    monkeypatch.setattr(attention_rounds, "LEAST", 1)
    others = []
    for kind in ("f4", "f8"):
        others.clear()
        for scale in range(1, 7):
            query, grad = (np.swapaxes(numbers((3, queries, 4, 8), kind), 1, 2) * scale / 8 for _ in range(2))
            key, value = numbers((3, 4 // shared_by, keys, 8), kind), numbers((3, 4 // shared_by, keys, 8), kind)
            mask = None
            if masked not in (None, "causal"):
                mask = numbers((queries, keys), kind)
                if masked == "hidden":
                    mask[:, : keys // 2], mask[0] = -np.inf, -np.inf
            wide = None if mask is None else np.broadcast_to(mask, (3, 4, queries, keys))
            is_causal = masked == "causal"
            output, *norms = attended_by_sums(query, key, value, wide, is_causal)
            specs = [Spec(x.shape, torch.float32, strides_by_tokens(x.shape)) for x in (query, key, value)]
            made = tuple([strided_array(x.shape, x.dtype, strides_by_tokens(x.shape)) for x in (query, key, value)])
            found = attention_rounds.attended_back(grad, query, key, value, wide, is_causal, 0.3, np.array(norms), made,
                                                   lambda: others.append(1) or ("otherwise",))
            if scale <= programs._CALLS:
                assert found == ("otherwise",)
                continue
            wanted = _backward_array(xp, grad, query, key, value, mask, is_causal, 0.3, np.array(norms), output,
                                     specs)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, 1e-3, 1e-4)
        assert len(others) == programs._CALLS


def attended_by_sums(query, key, value, mask, causal):
    key, value = (np.repeat(x, query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.swapaxes(2, 3) * 0.3
    if causal:
        scores += np.where(np.arange(scores.shape[3]) > np.arange(scores.shape[2])[:, None], -np.inf, 0)
    if mask is not None:
        scores += mask
    tops = scores.max(-1)
    tops[tops == -np.inf] = 0
    weights = np.exp(scores - tops[..., None])
    sums = weights.sum(-1)
    sums[sums == 0] = np.inf
    return weights @ value / sums[..., None], tops, np.log(sums)


def _run_without_compiler(lines):
    import subprocess
    import sys

    script = f"""
import sys
import numpy as np
import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import blas_team, shared, shared_products
from mindtorch_v2._ops._declare import families, quick
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
quick.SHARED = families.SHARED = shared.LEAST = shared_products.LEAST = 32
blas_team.SHARE = shared_products._SHARE = 8
torch.set_num_threads(2)
assert blas_team.is_available()
{lines}
"""
    environment = {**os.environ, "MINDTORCH_JIT": "0", "MINDTORCH_ONEDNN": "0"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _network(part):
    torch.manual_seed(0)
    if part == "convolution":
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                             nn.Conv2d(8, 8, 3, 2, groups=2), nn.GroupNorm(2, 8), nn.Flatten(),
                             nn.LazyLinear(5)), torch.randn(5, 3, 12, 12)
    if part == "attention":
        return nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), nn.LayerNorm(16),
                             nn.GELU()), torch.randn(3, 10, 16)
    return nn.LSTM(8, 16, batch_first=True), torch.randn(5, 7, 8)


@pytest.mark.parametrize("part", ["convolution", "attention", "recurrent"])
def test_networks_without_a_compiler(part):
    """In a process of its own, since kernels are made once: steps with and without OpenBLAS's threads."""
    _run_without_compiler(f"""
from test_shared import _network
runs = []
run = blas_team.Work.run
blas_team.Work.run = lambda work, *given: (runs.append(1), run(work, *given))[1]
made = []
for blas_team.MANY in (99, 2):
    torch.set_num_threads(2)
    network, x = _network({part!r})
    x.requires_grad_()
    network(x)  # which makes what is made late
    # Adam would step by the rounding of gradients that are 0
    optimiser = torch.optim.SGD(network.parameters(), 0.05, 0.9)
    for _ in range(4):
        optimiser.zero_grad()
        out = network(x)
        out = out if isinstance(out, torch.Tensor) else out[0]
        (out * out).mean().backward()
        optimiser.step()
    made.append([out.detach().numpy(), x.grad.numpy(), *[p.detach().numpy() for p in network.parameters()]])
    assert bool(runs) is (blas_team.MANY == 2)
    assert all(array.__class__ is np.ndarray for array in made[-1])
for one, other in zip(*made, strict=True):
    np.testing.assert_allclose(one, other, 2e-3, 2e-4)
""")
