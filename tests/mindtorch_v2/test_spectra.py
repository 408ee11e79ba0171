"""torch.fft, stft and windows, against NumPy's transforms, SciPy's windows, and strides PyTorch 2.13 gave."""

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import fourier
from mindtorch_v2._backends.fourier import Transforms

RNG = np.random.default_rng(0)
ONE_DIM = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn")


def given(name: str, *shape: int) -> np.ndarray:
    real = RNG.standard_normal(shape)
    return real if name.startswith(("rfft", "ihfft")) else real + 1j * RNG.standard_normal(shape)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ONE_DIM)
def test_one_dimension_is_numpys(name: str, norm: str) -> None:
    x = given(name, 3, 6)
    for n, dim in ((None, -1), (4, 0), (9, 1)):
        made = getattr(torch.fft, name)(torch.tensor(x), n, dim, norm)
        np.testing.assert_allclose(made.numpy(force=True), getattr(np.fft, name)(x, n, dim, norm), atol=1e-12)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_dimensions_are_numpys(name: str) -> None:
    x = given(name, 2, 4, 5)
    made = getattr(torch.fft, name)(torch.tensor(x), norm="ortho")
    np.testing.assert_allclose(made.numpy(force=True), getattr(np.fft, name)(x, norm="ortho"), atol=1e-12)


@pytest.mark.parametrize("pair", [("hfftn", "ihfftn"), ("hfft2", "ihfft2"), ("irfftn", "rfftn")])
def test_hermitian_transforms_undo_each_other(pair: tuple[str, str]) -> None:
    back, forth = (getattr(torch.fft, name) for name in pair)
    x = torch.tensor(RNG.standard_normal((4, 6)))
    torch.testing.assert_close(back(forth(x), s=(4, 6)), x)


@pytest.mark.parametrize("made, dtype", [
    (lambda x: torch.fft.fft(x), torch.complex64), (lambda x: torch.fft.irfft(x), torch.float32),
    (lambda x: torch.fft.rfft(x.double()), torch.complex128), (lambda x: torch.fft.fft(x.int()), torch.complex64)])
def test_precision_follows_the_input(made, dtype) -> None:
    assert made(torch.ones(4)).dtype is dtype


def test_half_precision_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Unsupported dtype Half"):
        torch.fft.fft(torch.ones(4, dtype=torch.float16))


@pytest.mark.parametrize("call, strides", [
    (lambda f, x: f.fft(x, dim=0), (1, 15, 3)), (lambda f, x: f.rfftn(x, dim=(2, 0)), (1, 10, 2)),
    (lambda f, x: f.fftn(x.permute(2, 0, 1)), (1, 20, 5)), (lambda f, x: f.ihfft2(x), (12, 1, 4)),
    (lambda f, x: f.irfft2(x + 0j, dim=(0, 1)), (6, 1, 18)), (lambda f, x: f.fft2(x, dim=(2, 0)), (5, 15, 1))])
def test_strides_are_pytorchs(call, strides: tuple[int, ...]) -> None:
    for device in ("cpu", "meta"):
        assert call(torch.fft, torch.ones(3, 4, 5, device=device)).stride() == strides


def test_derivatives_of_transforms() -> None:
    x = torch.tensor(given("fft", 3, 5), requires_grad=True)
    real = torch.tensor(RNG.standard_normal((3, 5)), requires_grad=True)
    for function, inputs in ((lambda z: torch.fft.fft2(z, (4, 4)), x), (torch.fft.rfft, real), (torch.fft.irfftn, x),
                             (lambda z: torch.fft.hfft(z, 7), x), (torch.fft.ihfftn, real)):  # fmt: skip
        assert torch.autograd.gradcheck(function, (inputs,))
        assert torch.autograd.gradgradcheck(function, (inputs,))


def test_frequencies_and_shifts() -> None:
    for n in (4, 5):
        np.testing.assert_allclose(torch.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5).astype(np.float32))
        np.testing.assert_allclose(torch.fft.rfftfreq(n, 0.5).numpy(), np.fft.rfftfreq(n, 0.5).astype(np.float32))
        x = np.arange(n * 3).reshape(n, 3)
        np.testing.assert_array_equal(torch.fft.fftshift(torch.tensor(x)).numpy(), np.fft.fftshift(x))
        np.testing.assert_array_equal(torch.fft.ifftshift(torch.tensor(x), 0).numpy(), np.fft.ifftshift(x, 0))


def test_stft_and_its_inverse() -> None:
    signal = torch.tensor(RNG.standard_normal((2, 64)))
    window = torch.hann_window(16, dtype=torch.float64)
    for options in ({}, {"normalized": True}, {"onesided": False}):
        spectrum = torch.stft(signal, 16, 4, window=window, return_complex=True, **options)
        assert spectrum.shape == (2, 16 if options.get("onesided") is False else 9, 17)
        torch.testing.assert_close(torch.istft(spectrum, 16, 4, window=window, length=64, **options), signal)
    frames = np.lib.stride_tricks.sliding_window_view(signal.numpy(), 16, 1)[:, ::4] * window.numpy()
    made = torch.stft(signal, 16, 4, window=window, center=False, return_complex=True)
    np.testing.assert_allclose(made.numpy(), np.fft.rfft(frames).transpose(0, 2, 1), atol=1e-12)


def test_istft_is_differentiable() -> None:
    spectrum = torch.tensor(given("fft", 5, 4), requires_grad=True)
    window = torch.hamming_window(8, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda z, w: torch.istft(z, 8, 3, window=w), (spectrum, window))


WINDOWS = {"bartlett": {}, "blackman": {}, "hann": {}, "hamming": {}, "cosine": {}, "nuttall": {},
           "kaiser": {"beta": 5.0}, "gaussian": {"std": 2.0}, "exponential": {"tau": 1.5},
           "general_cosine": {"a": [0.4, 0.5, 0.1]}, "general_hamming": {"alpha": 0.6}}  # fmt: skip


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_signal_windows_are_scipys(name: str, sym: bool) -> None:
    options = WINDOWS[name]
    for m in (0, 1, 2, 7, 8):
        if m == 1 and name == "cosine":
            continue  # SciPy samples the middle, PyTorch gives one
        made = getattr(torch.signal.windows, name)(m, sym=sym, dtype=torch.float64, **options)
        kwargs = {"center": None, **options} if name == "exponential" else options
        np.testing.assert_allclose(made.numpy(), getattr(scipy.signal.windows, name)(m, sym=sym, **kwargs), atol=1e-9)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hann", "hamming"])
def test_windows_for_spectra_are_scipys(name: str) -> None:
    for m in (1, 2, 7, 8):
        for periodic in (True, False):
            made = getattr(torch, f"{name}_window")(m, periodic, dtype=torch.float64)
            wanted = scipy.signal.get_window(name, m, fftbins=periodic)
            np.testing.assert_allclose(made.numpy(), wanted, atol=1e-12)
    np.testing.assert_allclose(torch.kaiser_window(6, True, 4.0).numpy(),
                               scipy.signal.get_window(("kaiser", 4.0), 6), atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("call, kind, text", [
    (lambda w: w.hann(-1), ValueError, "general_cosine requires non-negative window length, got M=-1"),
    (lambda w: w.hann(5, dtype=torch.float16), ValueError, "expects float32 or float64 dtypes, got: torch.float16"),
    (lambda w: w.exponential(5, tau=0), ValueError, "Tau must be positive, got: 0 instead."),
    (lambda w: w.exponential(5, center=1.0), ValueError, "Center must be None for symmetric windows"),
    (lambda w: w.gaussian(5, std=-1), ValueError, "Standard deviation must be positive, got: -1 instead."),
    (lambda w: w.kaiser(5, beta=-1), ValueError, "beta must be non-negative, got: -1 instead."),
    (lambda w: w.general_cosine(5, a=0.5), TypeError, "Coefficients must be a list/tuple")])
def test_windows_refuse(call, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(torch.signal.windows)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_transforms_by_scipys_front_and_by_its_loops_agree(order: tuple[int, ...], normalization: int) -> None:
    front, loops = Transforms(scipy.fft), fourier
    real = np.random.default_rng(0).standard_normal((3, 4, 5))
    pairs = [(a.c2c(real + 1j, (1, 2), forward, normalization, order), a.c2c(real, (0,), forward, normalization, order),
              a.r2c(real, (0, 2), True, normalization, order), a.c2r(real + 1j, 1, 6, normalization, order),
              a.c2r(real + 1j, 1, 9, normalization, order), a.c2r(real + 1j, 2, 4, normalization, order))
             for a in (front, loops) for forward in (True, False)]
    for expected, found in ((pairs[0], pairs[2]), (pairs[1], pairs[3])):
        for one, other in zip(expected, found, strict=True):
            assert one.shape == other.shape and one.strides == other.strides
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("shape", [(190, 181), (65536,), (40, 30, 50)])
def test_large_real_inputs_have_all_coefficients(shape: tuple[int, ...], norm: str) -> None:
    x = RNG.standard_normal(shape)
    for given in (x, x.T):
        made = torch.fft.fft(torch.from_numpy(given), dim=0, norm=norm)
        np.testing.assert_allclose(made.numpy(), np.fft.fft(given, axis=0, norm=norm), atol=1e-9)
        made = torch.fft.fftn(torch.from_numpy(given), norm=norm)
        np.testing.assert_allclose(made.numpy(), np.fft.fftn(given, norm=norm), atol=1e-9)


def test_a_window_in_half_precision_has_no_nan() -> None:
    """Rounded places go beyond the end, where the window goes up again."""
    window = torch.kaiser_window(1024, False, dtype=torch.bfloat16)
    assert window[-2:].tolist() == [6.0558319091796875e-05] * 2 and window[0].item() == 5.269050598144531e-05
