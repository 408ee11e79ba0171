"""Work that Python threads share where no kernels are compiled: the results, errors and settings are those of one."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2._backends.cpu import blocks, convolution, matrices, row_sums, team, xp
from mindtorch_v2._backends.cpu.kernels import attention, rnn
from mindtorch_v2._backends.cpu.openblas import plus_row
from mindtorch_v2._core import threads
from mindtorch_v2._core.geometry import Steps

pytestmark = pytest.mark.skipif(threads.blas() is None, reason="NumPy uses another library than OpenBLAS")
RANDOM = np.random.default_rng(1)


@pytest.fixture(params=[1, 2, 3])
def number(request, monkeypatch):
    """How many threads there are; everything is worth sharing."""
    for module in (team, matrices, attention, convolution, rnn):
        monkeypatch.setattr(module, "is_used", lambda: True)
    monkeypatch.setattr(team, "SHARE", 1)
    monkeypatch.setattr(matrices, "SHARE", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("f4")


def test_parts_make_the_whole_in_order_on_their_own_threads(number):
    met = threading.Barrier(number, timeout=60)

    def part(where):
        met.wait()  # nobody passes it alone
        return where, threading.get_ident(), team._blas_threads()[0]()

    before = team._blas_threads()[0]()
    made = team.in_parts(part, 10, 10)
    assert [n for where, _, _ in made for n in range(10)[where]] == list(range(10))
    assert len({thread for _, thread, _ in made}) == number
    assert number == 1 or {inside for _, _, inside in made} == {1}
    assert team._blas_threads()[0]() == before


def test_without_more_threads_those_that_there_are_do_the_work(number, monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(team, "_workers", [])
    monkeypatch.setattr(threading.Thread, "start", refused)
    made = team.in_parts(lambda where: list(range(10)[where]), 10, 10)
    assert made == [list(range(10))]
    rows = numbers(64, 4096)
    monkeypatch.setattr(row_sums, "_SHARE", 1)
    assert np.array_equal(row_sums.by_rows(lambda part: part * 2, rows), rows * 2)


@pytest.fixture
def interrupts():
    """SIGINT raises, also where tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals are not sent to threads")
def test_an_interrupt_comes_out_when_all_parts_are_done_and_spoils_no_later_results(number, interrupts):
    begun, written = threading.Event(), []

    def part(where):
        if where.start == 0 and number > 1:
            begun.wait()
        else:
            begun.set()
            time.sleep(0.05)  # in which the first part ends, and the caller waits
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.05)
        written.append(where)

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            team.in_parts(part, number, 10 * number**2)
        assert len(written) == number if number > 1 else not written
        written.clear()
        begun.clear()
        assert team.in_parts(lambda part: part.start, number, 10 * number**2) == list(range(number))


def test_little_work_and_few_parts_take_few_threads(number, monkeypatch):
    assert len(team.in_parts(lambda part: part, 1, 100)) == 1
    assert len(team.in_parts(lambda part: part, 0, 100)) == 1
    monkeypatch.setattr(team, "SHARE", 100)
    assert len(team.in_parts(lambda part: part, 10, 199)) == 1
    assert len(team.in_parts(lambda part: part, 10, 200)) == min(number, 2)


def test_who_comes_while_a_team_works_works_alone(number):
    def outer(part):
        return [len(team.in_parts(lambda inner: inner, 10, 10)) for _ in range(part.start, part.stop)]

    made = sum(team.in_parts(outer, 6, 6), [])
    assert made == [1] * 6 if number > 1 else len(made) == 6
    lengths = []

    def repeat():
        for _ in range(50):
            lengths.append(sum(team.in_parts(lambda part: part.stop - part.start, 9, 9)))

    others = [threading.Thread(target=repeat) for _ in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert lengths == [9] * 200
    assert not team._at_work.locked() and not team.alone.inside


def test_errors_come_out_and_leave_the_team_usable(number):
    def fails(part):
        if part.stop == 10:
            raise ValueError("the last part")

    for _ in range(2):
        with pytest.raises(ValueError, match="the last part"):
            team.in_parts(fails, 10, 10)
    assert len(team.in_parts(lambda part: part, 10, 10)) == number
    assert not team.alone.inside


def test_settings_of_the_thread_hold_for_all_parts(number):
    with np.errstate(divide="raise"):
        for bad in range(4):
            with pytest.raises(FloatingPointError):
                team.in_parts(lambda part, bad=bad: np.ones(4)[part] / (np.arange(4)[part] - bad), 4, 4)


@pytest.mark.parametrize("m, k, n", [(80, 70, 60), (60, 70, 80), (1, 700, 500), (500, 700, 1), (16, 300, 700),
                                     (2, 400, 1000)])
def test_products(number, m, k, n):
    layouts = (np.ascontiguousarray, np.asfortranarray, lambda array: np.repeat(array, 2, 0)[::2])
    for of_a, of_b in itertools.product(layouts, repeat=2):
        a, b = of_a(numbers(m, k)), of_b(numbers(k, n))
        made = matrices._shared_out(a, b)
        assert made.flags.c_contiguous
        np.testing.assert_allclose(made, a @ b, rtol=1e-4, atol=1e-4)
        out = np.full((m, 2 * n), np.nan, "f4")
        assert matrices._shared_out(a, b, out[:, ::2]) is not None
        np.testing.assert_allclose(out[:, ::2], a @ b, rtol=1e-4, atol=1e-4)
        assert np.isnan(out[:, 1::2]).all()


def test_many_threads_are_openblas_s_own_unless_those_from_here_work(number, monkeypatch):
    monkeypatch.setattr(team, "_MANY", 2)
    tell, change = team._blas_threads()
    change(1)
    a, b = numbers(80, 70), numbers(70, 60)
    monkeypatch.setattr(np, "matmul", lambda *given, whole=np.matmul, **named: (
        counts.append(tell()), whole(*given, **named))[1])
    counts: list[int] = []
    np.testing.assert_allclose(matrices._shared_out(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert counts == [number]
    team.in_parts(lambda part: matrices._shared_out(a, b), 2, 10)
    assert number == 1 or counts[1:] == [1, 1]


@pytest.mark.parametrize("many", [1, 4])  # from how many threads on OpenBLAS's own ones multiply
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_linear_layers(number, monkeypatch, many, kind):
    monkeypatch.setattr(team, "_MANY", many)
    monkeypatch.setattr(matrices, "_product", matrices._Later())
    monkeypatch.setattr(matrices._Later, "wanted", lambda self, elements: None)
    for rows, inner, columns in ((300, 90, 130), (130, 90, 300), (40, 200, 300)):
        x, weight, bias = (numbers(*shape).astype(kind) for shape in ((rows, inner), (columns, inner), (2 * columns,)))
        for row in (bias[:columns], bias[::2]):
            expected = x @ weight.T + row
            np.testing.assert_allclose(matrices.linear(x, weight, row), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["f4", "f8", "i4"])
@pytest.mark.parametrize("shape", [(3, 5), (300, 200), (0, 7)])
def test_a_row_is_added_to_all_rows_in_place(kind, shape):
    matrix, row = ((100 * numbers(*sizes)).astype(kind) for sizes in (shape, shape[1:]))
    expected = matrix + row
    assert plus_row(matrix, row) is matrix
    np.testing.assert_array_equal(matrix, expected)


def test_four_times_the_work_is_for_twice_the_threads(monkeypatch):
    monkeypatch.setattr(team, "is_used", lambda: True)
    monkeypatch.setattr(team, "get_num_threads", lambda: 16)
    assert [team.worth(team.SHARE * n) for n in (0, 1, 2, 8, 32, 10**6)] == [1, 1, 2, 4, 8, 16]


def test_products_of_batches(number):
    for shapes in (((5, 60, 70), (5, 70, 50)), ((2, 3, 60, 70), (2, 3, 70, 50)), ((1, 60, 90), (4, 90, 50)),
                   ((1, 1, 60, 90), (1, 1, 90, 50))):
        a, b = (numbers(*shape) for shape in shapes)
        for out in (None, np.empty((a @ b).shape, "f4")):
            np.testing.assert_allclose(matrices._shared_out(a, b, out), a @ b, rtol=1e-4, atol=1e-4)


def test_products_that_are_not_for_it(number):
    a = numbers(80, 80)
    for pair in ((a[:10, :10], a[:10, :10]), (a, a[0]), (a[0], a), (a, a.astype("f8")), (a, numbers(70, 80))):
        assert matrices._shared_out(*pair) is None


@pytest.mark.parametrize("steps", [Steps((1, 1), (1, 1), (1, 1), 1), Steps((2, 2), (1, 0), (1, 1), 2),
                                   Steps((1, 2), (2, 2), (2, 1), 1)])
@pytest.mark.parametrize("batch", [1, 5])
def test_convolutions(number, steps, batch, monkeypatch):
    x, weight, bias = numbers(batch, 4, 20, 20), numbers(6, 4 // steps.groups, 3, 3), numbers(6)
    size = [(20 + 2 * p - d * 2 - 1) // s + 1 for s, p, d in zip(*steps[:3], strict=True)]
    grad = numbers(batch, 6, *size)

    def made():
        return (convolution.forward(x, weight, bias, np.empty_like(grad), steps),
                convolution.to_input(grad, weight, None, np.empty_like(x), steps),
                convolution.to_weight(grad, x, np.empty_like(weight), steps))

    shared = made()
    torch.set_num_threads(1)
    monkeypatch.setattr(convolution, "is_used", lambda: False)  # all samples at once
    for some, expected in zip(shared, made(), strict=True):
        np.testing.assert_allclose(some, expected, rtol=1e-4, atol=1e-4)


def test_elementwise_functions(number):
    for size in (2 * blocks.BLOCK, 5 * blocks.BLOCK + 7):
        x = numbers(size)
        np.testing.assert_array_equal(blocks.in_blocks(xp, lambda xp, x: x * 2 + 1, x), x * 2 + 1)


@pytest.fixture
def agrees(number, monkeypatch):
    """Checks that a function's results and gradients are those without a team, and of how many parts they were made."""

    def check(module, expected, compute, *tensors):
        met = []

        def in_parts(*given):
            made = team.in_parts(*given)
            met.append(len(made))
            return made

        def made():
            leaves = [tensor.detach().requires_grad_() for tensor in tensors]
            results = compute(*leaves)
            loss = sum((result * torch.arange(result.numel()).reshape(result.shape).cos()).sum() for result in results)
            return (*results, *torch.autograd.grad(loss, leaves))

        with monkeypatch.context() as patched:
            patched.setattr(module, "in_parts", in_parts)
            shared = made()
        assert met == [min(number, parts) for parts in expected]
        with monkeypatch.context() as patched:
            patched.setattr(module, "is_used", lambda: False)
            for some, whole in zip(shared, made(), strict=True):
                assert some.stride() == whole.stride()
                torch.testing.assert_close(some, whole, rtol=1e-4, atol=1e-4)

    return check


@pytest.mark.parametrize("layer, given", [(nn.LSTM, {}), (nn.GRU, {}), (nn.LSTM, dict(proj_size=3)),
                                          (nn.LSTM, dict(bidirectional=True)), (nn.GRU, dict(bias=False))])
def test_recurrent_layers(agrees, number, layer, given):
    torch.manual_seed(0)
    model = layer(5, 7, **given)
    directions = 2 if model.bidirectional else 1

    def compute(x, *weights):
        values = dict(zip(dict(model.named_parameters()), weights, strict=True))
        output, states = torch.func.functional_call(model, values, (x,))
        return output, *(states if isinstance(states, tuple) else (states,))

    agrees(rnn, [3] * 2 * directions if number > 1 else [], compute, torch.randn(4, 40, 5), *model.parameters())


def test_packed_sequences_are_not_cut(agrees):
    torch.manual_seed(0)
    model = nn.LSTM(5, 7)

    def compute(x):
        packed = nn.utils.rnn.pack_padded_sequence(x, [4] * 20 + [3] * 20)
        return (model(packed)[0].data,)

    agrees(rnn, [], compute, torch.randn(4, 40, 5))


@pytest.mark.parametrize("shape, given, expected", [
    ((5, 2, 6, 4), {}, [5, 5]), ((5, 2, 6, 4), dict(is_causal=True), [5, 5]), ((1, 2, 6, 4), {}, [1, 1]),
    ((2, 6, 4), {}, []),
    ((5, 2, 6, 4), dict(attn_mask=torch.ones(6, 6).tril().bool()), [5, 5]),
    ((5, 2, 6, 4), dict(attn_mask=torch.arange(360.0).reshape(5, 2, 6, 6).cos()), []),
])
@pytest.mark.parametrize("by_tokens", [False, True])
def test_attention(agrees, shape, given, expected, by_tokens):
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for _ in range(3)]
    if by_tokens:  # the heads of a token lie together
        inputs = [x.transpose(-3, -2).contiguous().transpose(-3, -2) for x in inputs]
    attend = nn.functional.scaled_dot_product_attention
    agrees(attention, expected, lambda *inputs: (attend(*inputs, **given),), *inputs)


def test_keys_that_heads_share(agrees):
    torch.manual_seed(0)
    attend = nn.functional.scaled_dot_product_attention
    agrees(attention, [3, 3], lambda *inputs: (attend(*inputs, enable_gqa=True),), torch.randn(3, 4, 6, 4),
           torch.randn(3, 2, 6, 4), torch.randn(3, 2, 6, 4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_programs_without_a_compiler_and_their_forks():
    program = """
import os
import numpy as np
import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import team
torch.set_num_threads(3)
a = torch.randn(512, 512)
def right():
    return bool(np.allclose((a @ a).numpy(), a.numpy() @ a.numpy(), atol=1e-3)) and len(team._workers) == 2
print(team.is_used(), right(), flush=True)
if os.fork() == 0:
    print("child", not team._workers, right(), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), right())
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "MINDTORCH_JIT": "0"})
    assert made.stdout == "True True\nchild True True\n0 True\n", made.stderr
