"""Kernels that are series, recursions or several products, over wider ranges than the samples of operators have."""

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch


def both(function: Any, *tensors: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """A function's result on the device and on the CPU."""
    device, host = function(*(t.to("npu") for t in tensors)).cpu(), function(*tensors)
    return device.resolve_conj().numpy(), host.resolve_conj().numpy()  # ihfft gives a conjugated view


WIDE = torch.cat([torch.linspace(-80, 80, 161), torch.tensor([0.0, 1e-6, -1e-6, 49.9, 50.1, float("nan")])])
FUNCTIONS = {
    "i0e": torch.special.i0e, "i1e": torch.special.i1e, "i0": torch.special.i0, "i1": torch.special.i1,
    "log_ndtr": torch.special.log_ndtr, "entr": torch.special.entr,
    "erfcx": lambda x: torch.special.erfcx(x.clamp_min(-8)),
    "trigamma": lambda x: torch.special.polygamma(1, x * 0.1 + 0.013),
    "polygamma": lambda x: torch.special.polygamma(3, x.abs() * 0.1 + 0.1),
    "zeta": lambda x: torch.special.zeta(x.abs() * 0.1 + 1.2, x.abs() * 0.3 + 0.2),
    "mantissa": lambda x: torch.frexp(x)[0], "exponent": lambda x: torch.frexp(x)[1],
    "tiny mantissa": lambda x: torch.frexp(x * 1e-38)[0],
    "next": lambda x: torch.nextafter(x, x.flip(0)),
    "legendre": lambda x: torch.special.legendre_polynomial_p(x * 0.01, 9),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_functions_over_a_wide_range(shared_npu: Any, name: str) -> None:
    got, wanted = both(FUNCTIONS[name], WIDE)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("n", [1, 7, 251, 257, 300, 1024, 2310])
def test_transforms_of_any_length(shared_npu: Any, n: int) -> None:
    """Short ones and those of prime length are one product; others are made of shorter ones."""
    rng = np.random.default_rng(n)
    x = torch.from_numpy(rng.standard_normal((2, n)).astype(np.float32))
    for function in (torch.fft.rfft, torch.fft.fft, lambda x: torch.fft.irfft(torch.fft.rfft(x), n), torch.fft.ihfft,
                     lambda x: torch.fft.ifft(torch.fft.fft(x)).real):  # fmt: skip
        got, wanted = both(function, x)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5 * np.sqrt(n))


@pytest.mark.parametrize("shape", [(5, 5), (3, 6, 4), (2, 4, 7)])
def test_decompositions_give_back_what_they_were_made_of(shared_npu: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    A = torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).to("npu")
    U, S, Vh = torch.linalg.svd(A, full_matrices=False)
    torch.testing.assert_close((U * S.unsqueeze(-2) @ Vh).cpu(), A.cpu(), rtol=1e-4, atol=1e-5)
    pinv = torch.linalg.pinv(A)
    torch.testing.assert_close((A @ pinv @ A).cpu(), A.cpu(), rtol=1e-4, atol=1e-4)
    symmetric = A @ A.mT - 2 * torch.eye(shape[-2], device="npu")  # of any sign
    values, vectors = torch.linalg.eigh(symmetric)
    restored = (vectors * values.unsqueeze(-2)).cpu()
    torch.testing.assert_close((symmetric @ vectors).cpu(), restored, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(values.cpu(), torch.linalg.eigvalsh(symmetric.cpu()), rtol=1e-4, atol=1e-4)
    got, wanted = both(torch.matrix_exp, symmetric.cpu() * 0.3)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


def test_order_along_a_dimension(shared_npu: Any) -> None:
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.integers(0, 4, (5, 9)).astype(np.float32))
    x[1, 3], x[2] = float("nan"), float("nan")
    for function in (torch.mode, torch.nanmedian):
        for dim in (0, 1):
            plain = x.nan_to_num(9) if function is torch.mode else x
            got, wanted = function(plain.to("npu"), dim), function(plain, dim)
            assert got.values.cpu().allclose(wanted.values, equal_nan=True)
            picked = plain.gather(dim, got.indices.cpu().unsqueeze(dim)).squeeze(dim)
            assert picked.allclose(wanted.values, equal_nan=True)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.5, 60.0])
def test_gamma_numbers_have_their_mean_and_variance(shared_npu: Any, alpha: float) -> None:
    torch.manual_seed(7)
    drawn = torch._standard_gamma(torch.full((20000,), alpha, device="npu")).cpu().double()
    assert (drawn > 0).all()
    assert abs(drawn.mean().item() - alpha) < 4 * (alpha / 20000) ** 0.5
    assert drawn.var().item() == pytest.approx(alpha, rel=0.15)
    shares = torch.distributions.Dirichlet(torch.tensor([alpha, 2 * alpha], device="npu")).sample((4000,)).cpu()
    assert shares.sum(-1).allclose(torch.ones(4000)) and shares[:, 1].mean().item() == pytest.approx(2 / 3, abs=0.02)


def test_what_has_no_counterpart_says_so(shared_npu: Any) -> None:
    x = torch.ones(3, 3, device="npu")
    for name, call in {"poisson": lambda: torch.poisson(x), "linalg_eig": lambda: torch.linalg.eig(x),
                       "special_bessel_j0": lambda: torch.special.bessel_j0(x),
                       "_to_sparse": lambda: x.to_sparse()}.items():  # fmt: skip
        with pytest.raises(NotImplementedError, match=f"aten::{name}.*(?i:npu)"):
            call()
