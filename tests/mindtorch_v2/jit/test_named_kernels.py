"""The CPU's kernels of the language against the NumPy functions behind them: same samples, and larger arrays."""

import math

import numpy as np
import pytest
from operator_cases import PRIMARY, arguments, bases, good_calls, secondary_calls

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import convolution, xp
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._backends.cpu.kernels import conv as convolution_kernels
from mindtorch_v2._backends.cpu.kernels import norm
from mindtorch_v2._backends.interface import named_kernel, parameters_of
from mindtorch_v2._core.dtype import WIDER, cast
from mindtorch_v2._kernels.library import optimizer
from mindtorch_v2._ops._declare.composites import Parts
from mindtorch_v2._ops._declare.families import ArrayFamily
from mindtorch_v2._ops._declare.op import DECLARATIONS, Declaration
from mindtorch_v2._ops._declare.rules import Spec

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")

MODULES = ("reduce", "softmax", "norm", "scan", "class_loss", "sort", "products", "pool", "index", "pad", "rnn",
           "attention", "conv", "fill", "elementwise", "rearrange", "ctc")
NAMED = {name: d for name, d in DECLARATIONS.items()
         if isinstance(d.family, ArrayFamily) and not isinstance(d.family, Parts)
         and d.kernels.get("cpu", "onednn").partition(".")[0] in MODULES}
FLOATS = ("float64", "float16", "bfloat16")
TYPES = (*FLOATS, "int64", "int32", "uint8", "bool")


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


def both(declaration: Declaration, values: tuple) -> tuple:
    """What the kernel gives (None if it does not take these) and what NumPy does; the specs."""
    family, own = declaration.family, named_kernel("cpu", declaration.kernels["cpu"])
    spec = family.infer(*values)
    given = [getattr(v, "_array", v) for v in values]
    wide = [cast(v, WIDER[v.dtype]) if isinstance(v, np.ndarray) and v.dtype in WIDER else v for v in given]
    if family.widen and not getattr(own, "takes_halves", False):
        given = wide
    wants = {"spec": spec}
    made = own(*given, **wants) if "spec" in parameters_of(own) else own(*given)
    expected = family.array(xp, *wide, **wants) if "spec" in parameters_of(family.array) else family.array(xp, *wide)
    several = not isinstance(spec, Spec)
    if several:
        return made, expected, spec
    return None if made is None else (made,), (expected,), (spec,)


def compare(declaration: Declaration, values: tuple) -> bool:
    """Compares the two; whether the kernel took the arguments."""
    made, expected, specs = both(declaration, values)
    if made is None:
        return False
    for own, other, spec in zip(made, expected, specs, strict=True):
        if spec is None:
            continue
        kind = spec.dtype.np
        own, other = cast(np.asarray(own), kind), cast(np.asarray(other), kind)
        assert own.shape == other.shape
        if -1 not in spec.shape:  # which the data decides, and the layout too
            assert own.shape == tuple(spec.shape)
            assert spec.strides is not None or own.flags.c_contiguous
        exact = kind.kind in "iub"
        close = 0 if exact else {2: 2e-2 if kind.name == "bfloat16" else 4e-3, 4: 3e-5, 8: 1e-12}[kind.itemsize]
        if kind.itemsize == 2:
            own, other = own.astype(np.float32), other.astype(np.float32)
        scale = max(1.0, np.abs(other[np.isfinite(other)]).max(initial=0)) if not exact else 1.0
        np.testing.assert_allclose(own, other, rtol=close, atol=close * scale)
    return True


@pytest.mark.parametrize("name", NAMED)
def test_the_kernel_gives_what_numpy_gives(name):
    declaration = NAMED[name]
    taken = declaration.samples is None
    for call in good_calls(declaration) if declaration.samples else ():
        args, kwargs = arguments(call, torch, bases(call, torch, PRIMARY))
        taken += compare(declaration, tuple(declaration.operator.schema.bind(args, kwargs)))
    assert taken
    for call in secondary_calls(declaration) if declaration.samples else ():
        for kind in TYPES if declaration.kernels["cpu"].startswith(("reduce.", "scan.")) else FLOATS:
            args, kwargs = arguments(call, torch, bases(call, torch, kind))
            try:
                values = tuple(declaration.operator.schema.bind(args, kwargs))
                declaration.family.infer(*values)
            except (RuntimeError, NotImplementedError):  # not for this type
                continue
            compare(declaration, values)


SHAPES = [((70000,), 0), ((30, 2000), 1), ((9, 3), 1),
          ((300, 400), 1), ((300, 400), 0), ((40000, 3), 0), ((3, 900, 24), 1), ((5, 6, 7), 1)]


def reduced(name: str, array: np.ndarray, dim: int | None) -> tuple:
    """The values of a call that folds one dimension."""
    schema = NAMED[name].operator.schema
    given = {"dim": dim if "int dim" in schema.text or "int? dim" in schema.text else (dim,)} if dim is not None else {}
    return tuple(schema.bind((torch.from_numpy(array),), given if "dim" in schema.names else {}))


REDUCTIONS = [n for n, d in NAMED.items() if d.kernels["cpu"].startswith("reduce.")]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_larger_arrays_are_reduced_as_numpy_does(name, threads):
    rng = np.random.default_rng(5)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for shape, dim in SHAPES:
            array = rng.uniform(0.97, 1.03, shape).astype(np.float32)
            array.reshape(-1)[7] = np.nan if shape[0] == 300 else 1.5
            assert compare(NAMED[name], reduced(name, array, dim))
            assert compare(NAMED[name], reduced(name, array.T, -1 - dim))
        whole = rng.uniform(0.9999, 1.0001, (300, 300))
        if "dim" in NAMED[name].operator.schema.names and "dim=None" in NAMED[name].operator.schema.text:
            assert compare(NAMED[name], reduced(name, whole, None))
            assert compare(NAMED[name], reduced(name, whole.T, None))
    finally:
        torch.set_num_threads(before)


def random(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape, dim", [((50, 700), 1), ((70, 33), 0), ((3, 40, 300), 1), ((5,), 0), ((2, 3, 4), -3)])
def test_softmax_along_rows_and_columns(shape, dim, dtype):
    x, grad = random(*shape, dtype=dtype) * 3, random(*shape, dtype=dtype)
    for name in ("softmax", "log_softmax"):
        assert compare(NAMED[f"aten::{name}"], (x, dim, None))
        assert compare(NAMED[f"aten::{name}"], (x, dim, torch.float64))
        assert compare(NAMED[f"aten::_{name}_backward_data"], (grad, x.softmax(dim), dim, dtype))
    assert compare(NAMED["aten::logsumexp"], (x, (dim,), True))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_softmax_of_special_values(value):
    x = torch.randn(64, 512)
    x[3, 5] = value
    x[7] = -float("inf")
    for given, dim in ((x, 1), (x.T.contiguous(), 0)):
        for name in ("softmax", "log_softmax"):
            assert compare(NAMED[f"aten::{name}"], (given, dim, None))
        assert compare(NAMED["aten::logsumexp"], (given, (dim,), False))


@pytest.mark.parametrize("weight, bias", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_normalisation(dtype, weight, bias):
    def parameters(n):
        return random(n, dtype=dtype) if weight else None, random(n, dtype=dtype) if bias else None

    x, grad = random(40, 300, dtype=dtype) * 3 + 1, random(40, 300, dtype=dtype)
    w, b = parameters(300)
    wanted = (True, weight, bias)
    assert compare(NAMED["aten::_native_layer_norm"], (x, (300,), w, b, 1e-5))
    assert compare(NAMED["aten::_native_rms_norm"], (x, (300,), w, 1e-5))
    mean, rstd = x.mean(1, True), x.float().std(1, keepdim=True).reciprocal().to(dtype)
    given = (grad, x, (300,), mean, rstd, w, b, wanted)
    assert compare(NAMED["aten::native_layer_norm_backward"], given)
    assert compare(NAMED["aten::_native_rms_norm_backward"], (grad, x, (300,), rstd, w, wanted[:2]))
    for shape in ((300, 24), (6, 24, 5, 7), (3, 24, 1)):
        for last in (False, True) if len(shape) == 4 else (False,):
            x, grad = random(*shape, dtype=dtype) * 3 + 1, random(*shape, dtype=dtype)
            if last:
                x, grad = (t.contiguous(memory_format=torch.channels_last) for t in (x, grad))
            w, b = parameters(24)
            kind = torch.float32 if dtype.itemsize == 2 else dtype
            mean, var = random(24, dtype=kind), torch.rand(24, dtype=kind) + 0.5
            assert compare(NAMED["aten::_batch_norm"], (x, w, b, 1e-5))
            assert compare(NAMED["aten::_batch_norm_backward"], (grad, x, w, mean, var, 1e-5, wanted))
            assert compare(NAMED["aten::_batch_norm_running"], (x, w, b, mean if bias else None, var, 1e-5))
            mean, rstd = random(shape[0], 4, dtype=kind), torch.rand(shape[0], 4, dtype=kind) + 0.5
            assert compare(NAMED["aten::_group_norm"], (x, w, b, 4, 1e-5)) is not last
            assert compare(NAMED["aten::_group_norm_backward"], (grad, x, w, mean, rstd, 4, wanted)) is not last


@pytest.mark.parametrize("shape, dim", [((11, 300), 1), ((300, 40), 0), ((2, 70, 300), 1), ((3,), 0)])
def test_scans_along_rows_and_columns(shape, dim):
    for x in (random(*shape), torch.randint(-3, 4, shape), torch.randint(0, 2, shape).bool(), random(*shape).half()):
        for name in ("cumsum", "cumprod"):
            assert compare(NAMED[f"aten::{name}"], (x, dim, None))
            assert compare(NAMED[f"aten::{name}"], (x, dim, torch.float64))
        if x.dtype.is_floating_point:
            assert compare(NAMED["aten::logcumsumexp"], (x, dim))
            for place, value in enumerate((-float("inf"), -float("inf"), float("inf"), float("inf"), float("nan"))):
                x.view(-1)[place % x.numel()] = value
                assert compare(NAMED["aten::logcumsumexp"], (x, dim))
            x.view(-1)[1] = float("nan")
        for name in ("cummax", "cummin"):
            assert compare(NAMED[f"aten::{name}"], (x, dim))


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("shape", [(40, 7), (3, 7, 300), (2, 7, 5, 4), (7,)])
def test_losses_of_classes(shape, reduction):
    scores, places = random(*shape), (shape[0], *shape[2:]) if len(shape) > 1 else ()
    target = torch.randint(0, 7, places)
    for weight, ignored in ((None, -100), (None, 3), (torch.rand(7), -100), (torch.rand(7), 2)):
        loss_shape = places if reduction == 0 else ()
        grad, rest = random(*loss_shape), (target, weight, reduction, ignored)
        assert compare(NAMED["aten::nll_loss"], (scores, *rest))
        assert compare(NAMED["aten::_nll_loss_backward"], (grad, target, weight, shape, reduction, ignored))
        assert compare(NAMED["aten::_cross_entropy"], (scores, *rest))
        _, top, total = named_kernel("cpu", "class_loss.cross_entropy")(
            scores.numpy(), target.numpy(), None, reduction, ignored,
            spec=NAMED["aten::_cross_entropy"].family.infer(scores, *rest))
        given = (grad, scores, target, weight, torch.from_numpy(top), torch.from_numpy(total), reduction, ignored)
        assert compare(NAMED["aten::_cross_entropy_backward"], given)


def test_a_class_that_there_is_not_is_refused():
    for target in ([0, 9], [-1, 0]):
        with pytest.raises(IndexError, match=f"Target {min(target, key=lambda c: 0 <= c < 3)} is out of bounds."):
            torch.nn.functional.cross_entropy(random(2, 3), torch.tensor(target))
    made = torch.nn.functional.cross_entropy(random(2, 3), torch.tensor([-100, -100]))
    assert made.isnan()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_running_statistics_move(dtype, monkeypatch):
    x = random(50, 6, 4, dtype=dtype)
    made = []
    for _ in range(2):  # compiled, then by NumPy
        mean, var = torch.zeros(6, dtype=dtype), torch.ones(6, dtype=dtype)
        torch.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.3)
        made.append((mean, var))
        assert mean._version == var._version == 0
        monkeypatch.setattr(norm, "launched", lambda *arguments, **constants: False)
    torch.testing.assert_close(*made)
    assert not torch.equal(made[0][0], torch.zeros(6, dtype=dtype))


def test_sums_of_many_float32_keep_their_digits():
    values = np.random.default_rng(0).random(1 << 20).astype(np.float32)
    exact = values.astype(np.float64).sum()
    for shaped, dim in ((values, None), (values.reshape(-1, 64), 0), (values.reshape(-1, 64).T, 1)):
        made = torch.from_numpy(shaped).sum(dim).double().sum().item()
        assert abs(made - exact) < 6.1e-8 * exact


def test_variance_of_numbers_far_from_zero():
    values = (np.random.default_rng(0).random((100000,)) + 10000).astype(np.float32)
    exact = values.astype(np.float64).var(ddof=1)
    assert abs(torch.from_numpy(values).var().item() - exact) < 1e-5 * exact
    columns = torch.from_numpy(values.reshape(1000, 100)).var(0)
    assert abs(columns[7].item() - values[7::100].astype(float).var(ddof=1)) < 1e-6


_STEPS = {
    "_fused_sgd_": [dict(weight_decay=w, momentum=m, lr=0.1, dampening=d, nesterov=n, maximize=x, is_first_step=f)
                    for w, m, d, n, x, f in ((0.0, 0.0, 0.0, False, False, False), (0.1, 0.0, 0.0, False, True, False),
                                             (0.1, 0.9, 0.0, True, False, False), (0.0, 0.9, 0.3, False, False, False),
                                             (0.0, 0.9, 0.3, False, True, True))],
    "_fused_adam_": [dict(lr=0.01, beta1=0.9, beta2=0.99, weight_decay=w, eps=1e-8, amsgrad=False, maximize=x)
                     for w in (0.0, 0.1) for x in (False, True)],
    "_fused_adagrad_": [dict(lr=1, lr_decay=0.1, weight_decay=w, eps=1e-8, maximize=x)
                        for w in (0.0, 0.1) for x in (False, True)],
}  # fmt: skip
_STEPS["_fused_adamw_"] = _STEPS["_fused_adam_"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", _STEPS)
def test_steps_of_optimizers_give_the_same_bits(name: str, dtype: str) -> None:
    declaration = DECLARATIONS[f"aten::{name}"]
    family, own = declaration.family, named_kernel("cpu", declaration.kernels["cpu"])
    rng = np.random.default_rng(0)
    for options in _STEPS[name]:
        number = 3.0 if family.counts else None
        states = {"_fused_sgd_": int(options.get("momentum", 0) != 0), "_fused_adagrad_": 1}.get(name, 2)
        shapes = (5, 71), (3,), (0, 4), (), (210, 311)  # as many elements as several threads share
        lists = [[rng.standard_normal(shape).astype(dtype) for shape in shapes] for _ in range(2)]
        lists += [[rng.random(shape).astype(dtype) for shape in shapes] for _ in range(states)]
        expected = [[array.copy() for array in held] for held in lists]
        for place in zip(*expected, strict=True):
            family.prepare(number, **options)(xp, *[array.reshape(-1) for array in place])
        assert own(number, **options)(*lists)
        for array, other in zip(sum(lists, []), sum(expected, []), strict=True):
            assert array.tobytes() == other.tobytes()


def _lists() -> list[list[np.ndarray]]:
    return [[np.ones(shape, np.float32) for shape in ((2, 3), (4,))] for _ in range(2)]


def _with(place: int, array: object) -> list[list]:
    lists: list[list] = _lists()
    lists[1][place] = array
    return lists


@pytest.mark.parametrize("lists", [
    _with(1, np.ones(4)), _with(1, np.ones(5, np.float32)), _with(1, np.ones((4, 2), np.float32)[:, 0]), _with(1, None),
    _with(0, np.ones((2, 3))), _with(1, np.broadcast_to(np.float32(1), (4,))), [_lists()[0], _lists()[1][:1]],
    [tuple(held) for held in _lists()],
], ids=["type", "size", "strides", "none", "first", "read-only", "lengths", "tuples"])  # fmt: skip
def test_a_step_over_lists_that_are_no_such_arrays_does_nothing(lists):
    launch = calls.prepared_over_lists(optimizer.sgd, 0.5, 0.0, decays=False, maximize=False)
    assert launch(*_lists())
    assert not launch(*lists)
    assert all(np.all(array == 1) for array in lists[0])


def test_a_step_over_lists_writes_all_of_them():
    launch = calls.prepared_over_lists(optimizer.sgd, 0.5, 0.0, decays=False, maximize=False)
    lists = _lists()
    assert launch(*lists)
    assert [array.tolist() for array in lists[0]] == [[[0.5] * 3] * 2, [0.5] * 4]


@pytest.mark.parametrize("kind", ["none", "causal", "bool", "numbers", "no key"])
def test_attention(kind):
    q, k, v, grad = random(2, 3, 9, 8), random(2, 3, 11, 8), random(2, 3, 11, 8), random(2, 3, 9, 8)
    masks = {"bool": torch.rand(9, 11) > 0.4, "numbers": random(2, 3, 9, 11), "no key": torch.zeros(9, 11).bool()}
    mask = masks.get(kind)
    given = (q, k, v, mask, kind == "causal", 0.3)
    assert compare(NAMED["aten::_attention"], given)
    output, norms = torch.ops.aten._attention(*given)
    assert compare(NAMED["aten::_attention_backward"], (grad, *given, norms, output))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mode, gates, projected", [("lstm", 4, None), ("lstm", 4, 5), ("gru", 3, None)])
def test_recurrent_layers(mode, gates, projected, bias, reverse):
    sizes, width, state = (4, 4, 3, 1), 7, projected or 7
    x, h = random(12, 6), random(4, state)
    c = random(4, width) if mode == "lstm" else None
    biases = [random(gates * width), random(gates * width)] if bias else [None, None]
    w_hr = None if projected is None else random(projected, width)
    weights = (random(gates * width, 6), random(gates * width, state))
    given = (x, h, c, *weights, *biases, w_hr, mode, sizes, reverse)
    for saves in (True, False):
        assert compare(NAMED["aten::_recurrent_layer"], (*given, saves))
    output, _, _, kept_gates, kept = torch.ops.aten._recurrent_layer(*given)
    wanted = (True, True, c is not None, True, True, bias, bias, w_hr is not None)
    for grad_output in (random(12, state), None):
        assert compare(NAMED["aten::_recurrent_layer_backward"],
                       (grad_output, random(4, state), None, x, h, c, *weights, w_hr, output, kept_gates, kept, mode,
                        sizes, reverse, wanted))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_small_convolutions(rank, dtype):
    for groups, stride, padding, dilation in ((1, 1, 0, 1), (2, 2, 1, 1), (2, 1, 1, 2)):
        x = random(*((2, 4, *(6,) * rank) if rank < 3 else (1, 4, 3, 2, 2)), dtype=dtype)
        weight = random(4, 4 // groups, *(2, 2, 2)[:rank], dtype=dtype)
        steps = ((stride,) * rank, (padding,), (dilation,) * rank)
        assert compare(NAMED["aten::convolution"], (x, weight, random(4, dtype=dtype), *steps, False, (0,), groups))
        assert compare(NAMED["aten::convolution"], (x, weight, None, *steps, True, (0,) * rank, groups))


def test_gradients_of_small_convolutions_are_those_of_products(monkeypatch):
    def gradients():
        x, weight = (torch.arange(float(n)).sin().reshape(shape).requires_grad_()
                     for n, shape in ((150, (2, 3, 5, 5)), (72, (6, 3, 2, 2))))
        made = torch.nn.functional.conv2d(x, weight, stride=2, padding=1)
        return torch.autograd.grad(made.square().sum(), (x, weight))

    made = gradients()
    monkeypatch.setattr(convolution, "_direct", lambda: None)
    monkeypatch.setattr(convolution_kernels, "_FEW", 0)
    for own, other in zip(made, gradients(), strict=True):
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_neighbours_of_numbers():
    bits = np.random.default_rng(0).integers(-2**31, 2**31, (2, 1 << 19)).astype(np.int32)
    bits[:, :9] = np.array([0, -2**31, 1, -1, 0x7F800000, -0x800000, 0x7FC00000, 0x7F7FFFFF, 0x3F800000])
    bits[1, 9:20] = bits[0, 9:20]
    x, y = bits.view(np.float32)
    made, expected = torch.nextafter(torch.tensor(x), torch.tensor(y)).numpy(), np.nextafter(x, y)
    assert (np.isnan(made) == np.isnan(expected)).all()
    assert (made.view(np.int32) == expected.view(np.int32))[~np.isnan(expected)].all()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_numbers_in_digits_and_powers_of_two(kind):
    bits = np.random.default_rng(0).integers(0, 256, np.dtype(kind).itemsize << 19).astype(np.uint8)
    x = np.concatenate([bits.view(kind), np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], kind)])
    with np.errstate(invalid="ignore"):
        pairs = zip(torch.frexp(torch.tensor(x)), np.frexp(x), strict=True)
    for own, expected in pairs:
        own, size = own.numpy(), expected.itemsize
        assert (np.isnan(own) == np.isnan(expected)).all() and own.dtype == expected.dtype
        assert (own.view(f"i{size}") == expected.view(f"i{size}"))[~np.isnan(expected)].all()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_complex_numbers_of_parts(kind):
    close = dict(rtol=1e-5, atol=1e-6) if kind is torch.float32 else dict(rtol=1e-13, atol=1e-14)
    for a, b in ((random(40, 50, dtype=kind), random(40, 50, dtype=kind)), (random(40, 1), random(50)),
                 (random(40, 50).t(), random(50, 40)), (random(6, 5, 4)[::2, :, 1], random()),
                 (random(700, 800), random(700, 800))):
        a, b = a.to(kind), b.to(kind)
        for _ in range(3):
            made, turned = torch.complex(a, b), torch.polar(a, b)
        x, y = np.broadcast_arrays(a.numpy(), b.numpy())
        assert made.dtype is turned.dtype is (torch.complex64 if kind is torch.float32 else torch.complex128)
        assert (made.real.numpy() == x).all() and (made.imag.numpy() == y).all()
        np.testing.assert_allclose(turned.numpy(), x * np.exp(1j * y), **close)
        assert made.stride() == turned.stride() == (a + b).stride()


@pytest.mark.parametrize("threads", [1, 3])
def test_logarithms_of_sums_of_long_rows(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for shape in ((100001,), (2, 70000), (300, 400)):
            x = np.random.default_rng(1).normal(0, 3, shape)
            x.reshape(-1)[:40000] = -np.inf
            for axis in (None, -1):
                made = torch.logsumexp(torch.tensor(x), tuple(range(x.ndim)) if axis is None else axis)
                np.testing.assert_allclose(made.numpy(), np.logaddexp.reduce(x, axis), rtol=1e-12)
    finally:
        torch.set_num_threads(before)


def test_numbers_in_the_place_of_others():
    x = np.zeros(1 << 19, np.float32)
    x[:5] = math.nan, math.inf, -math.inf, 1.5, -0.0
    largest = float(np.finfo(np.float32).max)
    for args, wanted in (((), [0, largest, -largest, 1.5, 0]), ((2.0, 3.0), [2, 3, -largest, 1.5, 0]),
                         ((1.0, None, 4.0), [1, largest, 4, 1.5, 0])):
        made = torch.tensor(x).nan_to_num(*args).numpy()
        assert made[:5].tolist() == wanted and not made[5:].any()


@pytest.mark.parametrize("made", [torch.complex32, torch.complex64, torch.complex128])
@pytest.mark.parametrize("given", [torch.float32, torch.float16, torch.int32, torch.bool, torch.complex64,
                                   torch.complex128])
def test_casts_to_complex_numbers(given, made):
    x = torch.randn(40, 50).mul(3).to(given)
    wide = x.to(made).to(torch.complex128)
    expected = x.numpy().astype(np.complex128)
    if made is torch.complex32:
        real, imaginary = (part.astype(np.float32).astype(np.float16) for part in (expected.real, expected.imag))
        expected = real.astype(np.float64) + 1j * imaginary.astype(np.float64)
    np.testing.assert_allclose(wide.numpy(), expected, rtol=1e-6)


def test_two_folds_of_one_call_change_over_together():
    values, row = torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, float("nan"), 3.0])
    for _ in range(80):  # machine code takes over on the way, for the smallest and for the largest elements
        torch.aminmax(row)
        least, most = torch.aminmax(values, dim=0, keepdim=True)
        assert least.tolist() == [[0.0, 1.0, 2.0]] and most.tolist() == [[3.0, 4.0, 5.0]]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_alignments_of_labels_in_time(kind, zero_infinity, padded):
    """Equal labels next to each other, no labels, no steps, fewer steps than labels, and a batch that lies turned."""
    rng = np.random.default_rng(5)
    steps, lengths = (9, 9, 4, 9, 0, 0, 1), (4, 0, 4, 1, 2, 0, 0)
    log_probs = np.log(rng.dirichlet(np.ones(5), (7, 9))).astype(kind).transpose(1, 0, 2)
    labels = rng.integers(1, 5, (7, 4))
    labels[0] = 2, 2, 3, 3
    targets = labels if padded else np.concatenate([row[:n] for row, n in zip(labels, lengths, strict=True)])
    forward, backward = (DECLARATIONS[f"aten::_ctc_loss{end}"] for end in ("", "_backward"))
    given = (log_probs, targets, steps, lengths)
    (loss, alpha), (expected, all_alpha) = (f(*given, 0, zero_infinity) for f in (
        named_kernel("cpu", forward.kernels["cpu"]), lambda *args: forward.family.array(xp, *args)))
    close = 1e-4 if kind == "float32" else 1e-11
    np.testing.assert_allclose(loss, expected, close)
    grad = rng.standard_normal(7).astype(kind)
    made = named_kernel("cpu", backward.kernels["cpu"])(grad, *given, loss, alpha, 0, zero_infinity)
    wanted = backward.family.array(xp, grad, *given, expected, all_alpha, 0, zero_infinity)
    np.testing.assert_allclose(made, wanted, close, close)


def test_a_label_that_is_no_class_is_not_looked_up():
    own = named_kernel("cpu", DECLARATIONS["aten::_ctc_loss"].kernels["cpu"])
    assert own(np.zeros((3, 1, 4), np.float32), np.array([[1, 4]]), (3,), (2,), 0, False) is None
