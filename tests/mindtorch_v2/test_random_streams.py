"""The random draws against streams recorded from PyTorch by tools/golden_random.py."""

import itertools
import json
import pathlib
import pickle
import zlib

import ml_dtypes
import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._core import mersenne_twister
from mindtorch_v2._core import random as _random
from mindtorch_v2._core.few_draws import few_drawn
from mindtorch_v2._core.mersenne_twister import Generator
from mindtorch_v2._kernels.library import random as kernels
from mindtorch_v2._kernels.library.random import shuffled

GOLDEN = np.load(pathlib.Path(__file__).parent / "golden" / "random_streams.npz")
STEPS = json.loads(GOLDEN["steps"].tobytes())
ENDS = 14
# Drawn through float64 logarithms, sines and exponentials, whose last digit is the machine's.
TRANSCENDENTAL = {"normal", "normal_strided", "exponential", "geometric", "cauchy", "log_normal"}


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def weights(count: int, dtype: str) -> np.ndarray:
    return (((np.arange(count) * 7) % 13 + 1) / 16).astype(numpy_dtype(dtype))


def draw(generator: Generator, name: str, size: int, dtype: str, parameters: list) -> np.ndarray:
    """What the function called `name` gives for one recorded step."""
    if name == "normal_strided":
        function = _random.normal if size < 2 else _random.strided_normal
        return function(generator, (size,), numpy_dtype(dtype), *parameters)
    function = getattr(_random, name)
    if name == "randperm":
        return function(generator, size)
    if name in ("bernoulli_tensor", "multinomial"):
        return function(generator, weights(size, dtype), *parameters)
    if name in ("randint", "bernoulli_scalar"):
        dtype = "int64" if name == "randint" else "bool"
    return function(generator, (size,), numpy_dtype(dtype), *parameters)


def state_checksum(generator: Generator) -> int:
    state = generator.get_state().tobytes()
    return zlib.crc32(state[:5024] + state[5032:])


def assert_same_numbers(ours: np.ndarray, expected: np.ndarray, exact: bool) -> None:
    assert ours.dtype == expected.dtype
    if exact:
        assert ours.tobytes() == expected.tobytes()
    else:
        digits = 1e-13 if expected.dtype == np.float64 else float(ml_dtypes.finfo(expected.dtype).eps)
        np.testing.assert_allclose(ours.astype(float), expected.astype(float), rtol=digits, atol=digits)


@pytest.mark.parametrize("seed", sorted({step[0] for step in STEPS}))
def test_a_mixed_sequence_of_draws_is_pytorchs(seed: int) -> None:
    generator = Generator().manual_seed(seed)
    offset = 0
    for index, (step_seed, name, size, dtype, parameters, result_dtype, length) in enumerate(STEPS):
        stored = GOLDEN["values"][offset : offset + length] if step_seed == seed else None
        offset += length
        if stored is None:
            continue
        result = draw(generator, name, size, dtype, parameters)
        assert result.flags.c_contiguous
        ends = np.concatenate((result[:ENDS], result[ENDS:][-ENDS:]))
        exact = name not in TRANSCENDENTAL or (name == "normal" and dtype == "float32" and size >= 16)
        try:
            assert_same_numbers(ends, stored.view(numpy_dtype(result_dtype)), exact)
            assert state_checksum(generator) == GOLDEN["checksums"][index]
        except AssertionError as error:
            raise AssertionError(f"step {index}: {name} of {size} {dtype} {parameters}") from error


def test_pytorchs_state_bytes_continue_the_stream() -> None:
    state = GOLDEN["final_state"]
    generator = Generator().set_state(state)
    assert np.array_equal(generator.get_state(), state)
    assert generator.initial_seed() == STEPS[-1][0]


@pytest.mark.parametrize("count", [0, 1, 5, 623, 624, 625, 1248])
def test_a_restored_state_repeats_the_draws(count: int) -> None:
    generator = Generator().manual_seed(3)
    generator.words(count)
    _random.normal(generator, (3,), np.float32)
    for copy in (generator.clone_state(), pickle.loads(pickle.dumps(generator))):
        original = generator.clone_state()
        for size in (3, 20):
            expected = _random.normal(original, (size,), np.float32)
            assert np.array_equal(_random.normal(copy, (size,), np.float32), expected)


def test_seeds() -> None:
    generator = Generator()
    assert generator.initial_seed() == 67280421310721
    assert generator.manual_seed(-1) is generator
    assert generator.initial_seed() == 2**64 - 1
    assert generator.seed() == generator.initial_seed()
    for seed in (1.5, True, "a", None):
        with pytest.raises(RuntimeError, match=f"expected a long, but got {type(seed).__name__}"):
            generator.manual_seed(seed)
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            generator.manual_seed(seed)


def test_bad_states_are_refused() -> None:
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        Generator().set_state(np.zeros(5056, np.float32))
    with pytest.raises(RuntimeError, match="of size 5056 but found the input RNG state size to be 5"):
        Generator().set_state(np.zeros(5, np.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        Generator().set_state(np.zeros(5056, np.uint8))


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_strided_tensors_are_filled_in_memory_order(axes: tuple[int, ...]) -> None:
    target = np.empty((2, 3, 4), np.float32).transpose(axes)
    drawn = _random.drawn_in_memory_order(
        lambda shape: _random.uniform(Generator().manual_seed(1), shape, np.float32), target.shape, target.strides
    )
    plain = _random.uniform(Generator().manual_seed(1), (2, 3, 4), np.float32)
    assert np.array_equal(drawn, plain.transpose(axes))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: _random.uniform(g, (2,), np.float32, 1, 0), "found from=1 > to=0"),
        (lambda g: _random.normal(g, (2,), np.float32, 0, -1), "normal expects std >= 0.0, but found std -1"),
        (lambda g: _random.normal_tensor(g, 0.0, np.array([-1.0]), (1,), np.float64), "all elements of std >= 0.0"),
        (lambda g: _random.randint(g, (2,), np.dtype(int), 5, 5), "less than 'to', but got from=5 >= to=5"),
        (lambda g: _random.bernoulli_scalar(g, (2,), np.dtype(bool), 1.5), r"p to be in \[0, 1\], but got p=1.5"),
        (lambda g: _random.bernoulli_tensor(g, np.array([1.5])), "p_in >= 0 && p_in <= 1"),
        (lambda g: _random.exponential(g, (2,), np.float32, 0.0), "lambda > 0.0, but found lambda=0"),
        (lambda g: _random.geometric(g, (2,), np.float32, 1.0), r"p to be in \(0, 1\), but got p=1"),
        (lambda g: _random.cauchy(g, (2,), np.float32, 0, -1), "sigma > 0.0, but found sigma=-1"),
        (lambda g: _random.log_normal(g, (2,), np.float32, 0, 0), "std > 0.0, but found std=0"),
        (lambda g: _random.multinomial(g, np.zeros(2), 1), "sum of probabilities <= 0"),
        (lambda g: _random.multinomial(g, np.array([-1.0, 1]), 1), "`inf`, `nan` or element < 0"),
        (lambda g: _random.multinomial(g, np.array([-1.0, 1]), 2, True), "encountering probability entry < 0"),
        (lambda g: _random.multinomial(g, np.array([np.inf, 1]), 2, True), "= infinity or NaN"),
    ],
)
def test_impossible_parameters_are_refused(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(Generator())


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
def test_the_kernel_of_randperm_swaps_as_the_loop_in_python_does(count: int) -> None:
    made = np.empty(count, np.int64)
    shuffled(made, Generator().manual_seed(count).words(max(count - 1, 0)))
    assert made.tolist() == _random.randperm(Generator().manual_seed(count), count).tolist()
    assert sorted(made.tolist()) == list(range(count))


@pytest.mark.skipif(not machine.available(), reason="needs llvmlite")
def test_compiled_code_gives_numpys_words_and_leaves_its_state(monkeypatch) -> None:
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    made, expected = Generator().manual_seed(5), np.random.MT19937()
    memory = mersenne_twister._memory_of(expected)
    assert memory is not None
    expected.state = made._bits.state
    for count in (3, 623, 1, 1300, 624):
        words = np.empty(count, np.uint64)
        assert calls.launched(kernels.next_words, words, made._memory, count)
        np.testing.assert_array_equal(words, expected.random_raw(count))
        np.testing.assert_array_equal(made._memory, memory)


def test_words_are_put_back() -> None:
    for used in (0, 5, 700):
        made, expected = Generator().manual_seed(5), Generator().manual_seed(5)
        words, put_back = made.words_ahead(700, 100)
        rest = put_back(min(used, len(words)))
        np.testing.assert_array_equal(words[:used], expected.words(used))
        np.testing.assert_array_equal(np.concatenate((rest, made.words(9)))[:9], expected.words(9))


# ---- draws by loops in Python, by kernels run as Python and by their machine code --------------------------------

NUMBERS = np.arange(200) / 5
TABLE = (NUMBERS + 1).reshape(10, 20)
DRAWS = {
    "poisson": lambda g: _random.poisson(g, NUMBERS),
    "poisson_large": lambda g: _random.poisson(g, NUMBERS * 1e4),
    "binomial": lambda g: _random.binomial(g, np.floor(NUMBERS), NUMBERS / 40),
    "binomial_many": lambda g: _random.binomial(g, np.floor(NUMBERS * 50), NUMBERS / 40),
    "gamma": lambda g: _random.standard_gamma(g, NUMBERS / 20),
    "again": lambda g: _random.multinomial(g, TABLE, 30, True),
    "once": lambda g: _random.multinomial(g, TABLE, 5),
    "turned": lambda g: _random.multinomial(g, TABLE.T, 5),
}
# Of the seeds 1, 2, 3, with PyTorch: the sum of what was drawn times its place, from 1 on, and the next of `rand`.
RECORDED = {
    "poisson": [(540078.0, 0.916400134563446), (544746.0, 0.793891429901123), (533475.0, 0.6561599373817444)],
    "poisson_large": [
        (5333464913.0, 0.7675365805625916),
        (5332443327.0, 0.11588883399963379),
        (5334116967.0, 0.06146460771560669),
    ],
    "binomial": [(392660.0, 0.7451272010803223), (399111.0, 0.8643484115600586), (397229.0, 0.678952693939209)],
    "binomial_many": [
        (19944366.0, 0.4735678434371948),
        (19924960.0, 0.06872338056564331),
        (19910890.0, 0.29466259479522705),
    ],
    "gamma": [
        (26795.06789063954, 0.740064263343811),
        (28610.996811729736, 0.9357606768608093),
        (28077.12208080244, 0.3060627579689026),
    ],
    "again": [(453116.0, 0.8358254432678223), (420598.0, 0.4622260332107544), (450555.0, 0.5679980516433716)],
    "once": [(11419.0, 0.2450864315032959), (11235.0, 0.311412513256073), (13446.0, 0.5487801432609558)],
    "turned": [(30710.0, 0.2450864315032959), (28954.0, 0.311412513256073), (26292.0, 0.5487801432609558)],
}
LOOPS, KERNELS, COMPILED = "loops", "kernels", "compiled"
ALL_WAYS = [
    LOOPS,
    KERNELS,
    pytest.param(COMPILED, marks=pytest.mark.skipif(not machine.available(), reason="needs llvmlite")),
]


def take(way: str, monkeypatch) -> None:
    """Has the draws made in one of the ways from here on."""

    def launch(written, **constants):
        def launched(*args) -> bool:
            if way == LOOPS:
                return False
            if way == COMPILED:
                assert calls.launched(written, *args, **constants)
                return True
            with np.errstate(all="ignore"):
                written(*args, **constants)
            return True

        return launched

    monkeypatch.setattr(calls, "_AT_ONCE", True)
    monkeypatch.setattr(
        _random,
        "_SAMPLED",
        {family: launch(kernels.sampled, family=family) for family in ("poisson", "binomial", "gamma")},
    )
    monkeypatch.setattr(_random, "_UNFIT", launch(kernels.find_unfit))
    monkeypatch.setattr(_random, "_CATEGORIES", launch(kernels.categories))
    monkeypatch.setattr(_random, "_LARGEST_FIRST", launch(kernels.largest_first))


@pytest.mark.parametrize("way", ALL_WAYS)
@pytest.mark.parametrize("name", DRAWS)
def test_each_way_draws_pytorchs_numbers_and_as_many(name: str, way: str, monkeypatch) -> None:
    take(way, monkeypatch)
    for seed, (total, after) in enumerate(RECORDED[name], 1):
        generator = Generator().manual_seed(seed)
        drawn = DRAWS[name](generator)
        places = np.arange(1, drawn.size + 1).reshape(drawn.shape)
        np.testing.assert_allclose((drawn * places).sum(), total, rtol=1e-12 if name == "gamma" else 0)
        assert float(_random.uniform(generator, (1,), np.dtype(np.float32))[0]) == after


@pytest.mark.parametrize("way", [KERNELS, *ALL_WAYS[2:]])
@pytest.mark.parametrize("count", [0, 1, 16, 17, 700])
def test_the_ways_leave_the_generator_at_the_same_place(count: int, way: str, monkeypatch) -> None:
    def made() -> tuple[list[np.ndarray], list[int]]:
        generator = Generator().manual_seed(count)
        _random.normal(generator, (3,), np.dtype(np.float64))  # the second normal of a pair is kept
        shapes = _random.uniform(generator, (count,), np.dtype(np.float64), 0, 4)
        shapes[5:7], shapes[9:10] = 0, -1
        whole = np.floor(shapes * 9)
        weights = abs(whole + 1)[None].astype(np.float16)  # with ties
        drawn, states = [], []
        for draw in (
            lambda: _random.standard_gamma(generator, shapes.astype(np.float32)),
            lambda: _random.poisson(generator, abs(shapes) * 9),
            lambda: _random.binomial(generator, whole * 20, abs(shapes) / 5),
            lambda: _random.multinomial(generator, weights, 5, True) if count else np.empty(0),
            lambda: _random.multinomial(generator, weights, 11) if count > 10 else np.empty(0),
        ):
            drawn.append(draw())
            states.append(state_checksum(generator))
        return drawn, states

    take(LOOPS, monkeypatch)
    expected, states = made()
    take(way, monkeypatch)
    ours, own_states = made()
    assert own_states == states
    for mine, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0 if way == COMPILED else 1e-12)


@pytest.mark.parametrize("way", ALL_WAYS)
def test_sums_without_weight_and_numbers_that_are_none_are_found(way: str, monkeypatch) -> None:
    take(way, monkeypatch)
    generator = Generator().manual_seed(0)
    before = state_checksum(generator)
    for replacement in (False, True):
        for row, message in (
            ([0.0, 0, 0], "sum of probabilities"),
            ([1, np.nan, 2], "nan|< 0"),
            ([1, np.inf, 2], "inf"),
            ([-1, 2, 3], "< 0"),
        ):
            with pytest.raises(RuntimeError, match=message):
                _random.multinomial(generator, np.array([[1.0, 2, 3], row]), 2, replacement)
    assert state_checksum(generator) == before


@pytest.mark.parametrize("way", ALL_WAYS)
def test_the_first_of_equal_keys_comes_first_and_nan_last(way: str, monkeypatch) -> None:
    take(way, monkeypatch)
    monkeypatch.setattr(_random, "exponential", lambda generator, shape, dtype: lengths)
    lengths = np.array([[0.0, 1, 2, 1, 0, 4, 4, 0]])
    weights = np.array([[0.0, 1, 4, 1, 3, 0, 0, 0]])
    with np.errstate(all="ignore"):
        assert _random.multinomial(Generator(), weights, 8).tolist() == [[4, 2, 1, 3, 5, 6, 0, 7]]


def test_rates_beyond_whole_numbers_give_the_least_one() -> None:
    assert set(_random.poisson(Generator(), np.array([np.inf, 1e20] * 20)).tolist()) == {-(2.0**63)}


@pytest.mark.parametrize(("kind", "name"), [(torch.float16, "Half"), (torch.bfloat16, "BFloat16")])
def test_binomial_of_16_bits_is_refused(kind: torch.dtype, name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"\"binomial_cpu\" not implemented for '{name}'"):
        torch.binomial(torch.ones(3, dtype=kind), torch.ones(3, dtype=kind))


@pytest.mark.parametrize("extent", [1, 2, 3, 10, 65537, (1 << 28) - 1])
def test_whole_numbers_are_the_remainders_of_words(extent: int, monkeypatch) -> None:
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    last = (1 << 32) // extent * extent
    words = {0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, extent - 1, extent, extent + 1, last - 1, last, last + 1}
    given = np.array(sorted(word for word in words if word < 1 << 32), np.uint64)
    expected = [int(word) % extent - 3 for word in given]
    made = np.empty(len(given), np.int64)
    kernels.integers(made, given, extent, -3, 1 / extent)
    assert made.tolist() == expected
    if machine.available():
        made[...] = 0
        assert calls.launched(kernels.integers, made, given, extent, -3, 1 / extent)
        assert made.tolist() == expected


# ---- few numbers, drawn word by word ---------------------------------------------------------------------------------

FLOATS = ("float32", "float64", "float16", "bfloat16")
FEW = {
    "uniform": [((), FLOATS), ((-3.0, 2.5), FLOATS), ((0.0, 3e38), ("float32",))],
    "normal": [((), FLOATS), ((1.5, 3.0), FLOATS)],
    "strided_normal": [((1.5, 3.0), FLOATS)],
    "exponential": [((2.0,), FLOATS)],
    "geometric": [((0.3,), (*FLOATS, "int64"))],
    "cauchy": [((1.0, 2.0), FLOATS)],
    "log_normal": [((0.2, 0.5), FLOATS)],
    "bernoulli_scalar": [((0.3,), (*FLOATS, "bool", "int64")), ((1.0,), ("bool",)), ((0.0,), ("float32",))],
    "randint": [((-5, 100), ("float32", "int64", "int8")), ((2**40, 2**40 + 9), ("int64",)), ((0, 2**40), ("int64",))],
    "random_full": [((), (*FLOATS, "int64", "int32", "uint8", "bool"))],
}


@pytest.mark.skipif(not machine.available(), reason="needs llvmlite")
@pytest.mark.parametrize("name", list(FEW))
def test_few_numbers_are_the_first_of_many(name: str, monkeypatch) -> None:
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    function = getattr(_random, name)
    for numbers, kinds in FEW[name]:
        for kind in map(numpy_dtype, kinds):
            at_once, by_words = Generator().manual_seed(3), Generator().manual_seed(3)
            for size in (1, 3, 12, 15, 100, 256, 7):  # beyond the 624 words of a state, and with a kept normal
                expected = function(at_once, (size,), kind, *numbers).astype(kind)
                made = np.empty((size,), kind)
                if few_drawn(by_words, made, function, *numbers):
                    assert size <= function.most and function.few(kind, *numbers)
                else:
                    assert size > function.most or not function.few(kind, *numbers)
                    made = function(by_words, (size,), kind, *numbers).astype(kind)
                assert made.tobytes() == expected.tobytes(), (kind, size)
                assert at_once.get_state().tobytes() == by_words.get_state().tobytes()


def test_few_numbers_go_where_they_are_wanted(monkeypatch) -> None:
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    drawn = []
    for wanted in (torch.zeros(3, 4), torch.zeros(4, 3).t(), torch.zeros(3, 8)[:, ::2], torch.zeros(3, 5)[:, 1:]):
        torch.manual_seed(1)
        drawn.append(wanted.uniform_())
        assert wanted._version == 1
    assert drawn[0].tolist() == drawn[2].tolist() == drawn[3].tolist()
    assert drawn[0].reshape(4, 3).t().tolist() == drawn[1].tolist()
    assert not few_drawn(Generator(), np.empty(0, np.float32), _random.uniform)


@pytest.mark.parametrize("count", [1, 15, 16, 300])
def test_a_deviation_that_is_no_number_is_refused(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    before, nan = torch.get_rng_state(), float("nan")
    with pytest.raises(RuntimeError, match=r"normal expects std >= 0.0, but found std nan"):
        torch.empty(count).normal_(0, nan)
    with pytest.raises(RuntimeError, match=r"normal expects std >= 0.0, but found std nan"):
        torch.normal(torch.zeros(count), nan)
    with pytest.raises(RuntimeError, match=r"log_normal_ expects std > 0.0, but found std=nan"):
        torch.empty(count).log_normal_(0, nan)
    assert torch.equal(torch.get_rng_state(), before)


def test_draws_with_one_probability_go_row_by_row_whatever_lies_beneath() -> None:
    turned = torch.zeros(4, 3).t()
    torch.manual_seed(0)
    expected = torch.zeros(3, 4).bernoulli(0.5)
    torch.manual_seed(0)
    drawn = turned.bernoulli(0.5)
    assert drawn.is_contiguous() and torch.equal(drawn, expected)
