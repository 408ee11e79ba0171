"""Results and gradients at NaN, infinity, zero and negative bases, where a formula has to choose."""

import math
import threading
import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch

NAN, INF = math.nan, math.inf
DATA = (1.0, NAN, 3.0, 3.0, 0.0, 2.0, NAN, 2.0)
# reduce -> results and gradients of segments of 2, 2, 0 and 4 elements; then the same with 5 for NaN and initial=4
SEGMENTS = {
    "max": ([NAN, 3.0, -INF, NAN], [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 4.0, 0.0],
            [5.0, 4.0, 4.0, 5.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0]),
    "min": ([NAN, 3.0, INF, NAN], [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 4.0, 0.0],
            [1.0, 3.0, 4.0, 0.0], [1.0, 0.0, 1.0, 1.0, 4.0, 0.0, 0.0, 0.0]),
    "prod": ([NAN, 9.0, 1.0, NAN], [NAN, 1.0, 6.0, 6.0, NAN, NAN, 0.0, NAN],
             [20.0, 36.0, 4.0, 0.0], [20.0, 4.0, 24.0, 24.0, 320.0, 0.0, 0.0, 0.0]),
    "mean": ([NAN, 3.0, NAN, NAN], [0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
             [5.0, 5.0, 4.0, 3.25], [0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    "sum": ([NAN, 6.0, 0.0, NAN], [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0],
            [10.0, 10.0, 4.0, 13.0], [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0]),
}  # fmt: skip


@pytest.mark.parametrize("reduce", SEGMENTS)
@pytest.mark.parametrize("by", ["lengths", "offsets"])
def test_segments_with_nan_and_their_gradients(reduce, by):
    places = {"lengths": [2, 2, 0, 4], "offsets": [0, 2, 4, 4, 8]}[by]
    for with_nan in (True, False):
        data = torch.tensor(DATA, dtype=torch.float64)
        data = (data if with_nan else data.nan_to_num(5.0)).requires_grad_()
        initial = None if with_nan else 4.0
        made = torch.segment_reduce(data, reduce, **{by: torch.tensor(places)}, initial=initial)
        made.backward(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))
        value, grad = SEGMENTS[reduce][:2] if with_nan else SEGMENTS[reduce][2:]
        assert made.tolist() == pytest.approx(value, nan_ok=True)
        assert data.grad.tolist() == pytest.approx(grad, nan_ok=True)


def test_an_initial_nan_is_the_result():
    for reduce in ("max", "min", "sum", "prod"):
        data = torch.ones(3, requires_grad=True)
        made = torch.segment_reduce(data, reduce, lengths=torch.tensor([3, 0]), initial=NAN)
        assert made.isnan().all()


def test_gradients_of_segments_of_several_dimensions():
    data = torch.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    torch.segment_reduce(data, "max", lengths=torch.tensor([[1, 2], [3, 0]]), axis=1).sum().backward()
    assert data.grad.tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize("p", [1, -1, INF, -INF, "fro"])
def test_condition_number_of_singular_matrices(p):
    for matrix in ([[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 4.0]], [[NAN, 1.0], [1.0, 1.0]]):
        assert torch.linalg.cond(torch.tensor(matrix), p).item() == INF
    both = torch.linalg.cond(torch.tensor([[[0.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 2.0]]]), p)
    assert both[0].item() == INF and both[1].item() == pytest.approx(2 if p == "fro" else 1)


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        (-2.0, 0.5 + 1j, -0.17475645387453903 + 0.0900914025533436j),
        (-2.0, 2 + 0j, 2.7725887222397843 - 12.566370614359172j),
        (2.0, 0.5 + 1j, 0.7540526973348322 - 0.626346994467497j),
        (0.0, 2 + 0j, 0j),
    ],
)
def test_gradient_of_a_complex_exponent(base, exponent, expected):
    for given in (base, torch.tensor(base, dtype=torch.float64), torch.tensor(base, dtype=torch.complex128)):
        power = torch.tensor(exponent, dtype=torch.complex128, requires_grad=True)
        made = torch.pow(given, power)
        made.backward(torch.ones_like(made))
        assert power.grad.item() == pytest.approx(expected)


def test_gradient_of_a_complex_exponent_at_base_zero_is_known_for_real_exponents_only():
    for base in (0.0, torch.tensor(0.0, dtype=torch.float64)):
        power = torch.tensor([0.5 + 1j, 0.5 + 0j], dtype=torch.complex128, requires_grad=True)
        torch.pow(base, power).sum().backward(torch.tensor(1.0 + 0j, dtype=torch.complex128))
        assert power.grad.isnan().tolist() == [True, False] and power.grad[1].item() == 0


# NumPy's floating point warnings: the library's operators give none, and other code has its own ----------------------


def test_signs_of_zeros_in_transforms_of_real_numbers():
    """The second half of the coefficients mirrors the first, whose imaginary parts are 0 where there are none."""
    for x in (torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 2.0], dtype=torch.float64), torch.ones(1)):
        there, back = (torch.view_as_real(f(x).resolve_conj())[..., 1] for f in (torch.fft.fft, torch.fft.ifft))
        assert not there[there == 0].signbit().any() and (there == 0).any()
        assert back[back == 0].signbit().all() and (back == 0).any()


def computed_by_the_library():
    zero = torch.zeros(3)
    torch.ones(3) / zero, zero.log(), torch.full((3,), 3e38) * 10, (zero + NAN).int(), torch.tensor([1e9]).half()
    torch.tensor([INF, 1.0]).var(), torch.fft.fft(torch.full((3,), INF)), torch.special.zeta(zero + 1, zero)
    torch.linalg.inv(torch.eye(3) * 1e-30), torch.tensor([1e300], dtype=torch.float64).float()


def computed_by_numpy():
    one = np.ones(1, np.float32)
    one / (one - 1), np.log(-one), np.exp(one * 1000), np.float32(1) / np.float32(0), np.var(one * np.inf)


NUMPYS = ["divide by zero", "invalid value", "overflow", "divide by zero", "invalid value"]


def test_numpys_own_warnings_stay_on_and_the_library_gives_none():
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        computed_by_the_library()
        assert given == []
        computed_by_numpy()
    assert [str(warning.message) for warning in given] == [f"{what} encountered" for what in NUMPYS]
    assert [warning.filename for warning in given[:4]] == [__file__] * 4
    assert {warning.category for warning in given} == {RuntimeWarning}


@pytest.mark.parametrize("setting", ["ignore", "warn", "raise", "call", "print"])
def test_a_thread_keeps_the_settings_that_it_had_before_it_used_the_library(setting, capsys):
    seen = []

    def work():
        np.seterr(all=setting, under="ignore")
        np.seterrcall(lambda what, flags: seen.append(what))
        with torch.no_grad(), warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            computed_by_the_library()
            assert not given and not seen
            try:
                computed_by_numpy()
            except FloatingPointError as error:
                seen.append(str(error))
            seen.extend(str(warning.message) for warning in given)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    warned = [f"{what} encountered" for what in NUMPYS]
    assert seen == {"warn": warned, "call": NUMPYS, "raise": warned[:1]}.get(setting, [])
    assert capsys.readouterr().err.splitlines() == [f"Warning: {text}" for text in warned if setting == "print"]
