"""The random draws against streams recorded from PyTorch by tools/golden_random.py."""

import itertools
import json
import pathlib
import pickle
import zlib

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2._core import random as _random
from mindtorch_v2._core.random import Generator

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
        return _random.normal(generator, (size,), numpy_dtype(dtype), *parameters, contiguous=size < 2)
    function = getattr(_random, name)
    if name == "randperm":
        return function(generator, size)
    if name in ("bernoulli_tensor", "multinomial"):
        return function(generator, weights(size, dtype), *parameters)
    if name in ("randint", "bernoulli_scalar"):
        return function(generator, (size,), *parameters)
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
        (lambda g: _random.randint(g, (2,), 5, 5), "'from' to be less than 'to', but got from=5 >= to=5"),
        (lambda g: _random.bernoulli_scalar(g, (2,), 1.5), r"p to be in \[0, 1\], but got p=1.5"),
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
