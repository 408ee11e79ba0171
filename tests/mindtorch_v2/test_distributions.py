"""torch.distributions and torch.quasirandom against what tools/golden_distributions.py recorded, and against SciPy."""

import copy
import importlib.util
import json
import math
import pathlib
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import mindtorch_v2 as torch
from mindtorch_v2 import distributions as D
from mindtorch_v2.quasirandom import SobolEngine

HERE = pathlib.Path(__file__).parent
_spec = importlib.util.spec_from_file_location("distribution_cases", HERE / "distribution_cases.py")
cases: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def recorded() -> tuple[dict[str, np.ndarray], dict[str, str]]:
    stored = np.load(HERE / "golden" / "distributions.npz")
    data, start, values = stored["data"].tobytes(), 0, {}
    for key, dtype, shape in json.loads(stored["index"].tobytes()):
        size = np.dtype(dtype).itemsize * math.prod(shape)
        values[key] = np.frombuffer(data[start : start + size], dtype).reshape(shape)
        start += size
    return values, json.loads(stored["sayings"].tobytes())


GOLDEN, SAYINGS = recorded()
ERRORS = (NotImplementedError, ValueError, RuntimeError, AttributeError)
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected", "ignore:Low df values")


def compare(key: str, make: Any, exact: bool = False, rtol: float | None = None) -> Any:
    """Checks that `make()` gives the recorded tensor or raises the recorded error."""
    expected = GOLDEN[key]
    if key in cases.RAISES_IN_PYTORCH:
        assert str(expected) == "RuntimeError" and make().isfinite().all()
        return None
    if expected.dtype.kind == "U":
        with pytest.raises(ERRORS) as caught:
            make()
        assert caught.type.__name__ == str(expected), key
        return None
    value = make()
    ours = value.detach().numpy()
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype), key
    if exact:
        np.testing.assert_array_equal(ours, expected, err_msg=key)
    else:
        wide = expected.dtype == np.float64
        np.testing.assert_allclose(ours, expected, rtol=rtol or (1e-9 if wide else 2e-4), atol=1e-11 if wide else 2e-5,
                                   err_msg=key)
    return value


# the recorded values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("label", cases.LABELS)
def test_samples_formulas_and_gradients_are_pytorchs(label: str, dtype: str) -> None:
    parameters = cases.parameters_of(torch, label, dtype)
    made, key = cases.build(torch, label, parameters), f"{label}|{dtype}|"
    torch.manual_seed(cases.SEED)
    compare(f"{key}sample", lambda: made.sample((4,)))
    compare(f"{key}next", lambda: torch.rand(3), exact=True)  # as many numbers were drawn
    sample = torch.tensor(GOLDEN[f"{key}sample"])
    compare(f"{key}log_prob", lambda: made.log_prob(sample))
    compare(f"{key}cdf", lambda: made.cdf(sample))
    compare(f"{key}icdf", lambda: made.icdf(torch.tensor([[0.1], [0.7]], dtype=getattr(torch, dtype))))
    for quantity in cases.QUANTITIES:
        compare(f"{key}{quantity}", lambda q=quantity: cases.value_of(made, q))
    torch.manual_seed(cases.SEED)
    drawn = compare(f"{key}rsample", lambda: made.rsample((4,)))
    leaves = {name: value for name, value in parameters.items() if f"{key}gradient {name}" in GOLDEN}
    if leaves:
        weights = torch.arange(1.0, 1 + drawn.numel()).view_as(drawn)
        gradients = torch.autograd.grad((drawn * weights).sum(), list(leaves.values()), allow_unused=True)
        for name, gradient in zip(leaves, gradients):
            expected = GOLDEN[f"{key}gradient {name}"]
            if expected.dtype.kind == "U":
                assert gradient is None
            else:
                compare(f"{key}gradient {name}", lambda g=gradient: g, rtol=1e-3 if dtype == "float32" else 1e-8)


@pytest.mark.parametrize("of_p", sorted(cases.divergence_operands(torch)))
def test_divergences_are_pytorchs(of_p: str) -> None:
    operands = cases.divergence_operands(torch)
    for of_q, (_, q) in operands.items():
        compare(f"kl|{of_p}|{of_q}", lambda q=q: D.kl_divergence(operands[of_p][0], q))


@pytest.mark.parametrize("name", sorted(cases.transforms(torch)))
def test_transforms_are_pytorchs(name: str) -> None:
    transform, x = cases.transforms(torch)[name]
    y = compare(f"transform|{name}|value", lambda: transform(x))
    compare(f"transform|{name}|inverse", lambda: transform.inv(y))
    compare(f"transform|{name}|stretch", lambda: transform.log_abs_det_jacobian(x, y))


@pytest.mark.parametrize("name", sorted(cases.constraints(torch)))
def test_constraints_are_pytorchs(name: str) -> None:
    constraint = cases.constraints(torch)[name]
    for i, value in enumerate(cases.candidates(torch)):
        compare(f"constraint|{name}|{i}", lambda v=value: constraint.check(v), exact=True)


def test_texts_are_pytorchs() -> None:
    said = {name: cases.said(function).replace("mindtorch_v2.", "torch.")
            for name, function in cases.sayings(torch).items()}
    assert said == SAYINGS


@pytest.mark.parametrize(("dimension", "scramble"), [(1, False), (7, False), (40, True)])
def test_sobol_points_are_pytorchs(dimension: int, scramble: bool) -> None:
    engine = SobolEngine(dimension, scramble, seed=5)
    points = torch.cat([engine.draw(1), engine.fast_forward(9).draw(20)])
    np.testing.assert_array_equal(points.numpy(), GOLDEN[f"sobol|{dimension}|{scramble}"])
    assert engine.reset().draw(1).equal(points[:1])


# SciPy -------------------------------------------------------------------------------------------------------------

SCIPY = {
    "Bernoulli": lambda p: st.bernoulli(p["probs"]),
    "Beta": lambda p: st.beta(p["concentration1"], p["concentration0"]),
    "Binomial": lambda p: st.binom(4, p["probs"]),
    "Cauchy": lambda p: st.cauchy(p["loc"], p["scale"]),
    "Chi2": lambda p: st.chi2(p["df"]),
    "Exponential": lambda p: st.expon(scale=1 / p["rate"]),
    "FisherSnedecor": lambda p: st.f(p["df1"], p["df2"]),
    "Gamma": lambda p: st.gamma(p["concentration"], scale=1 / p["rate"]),
    "GeneralizedPareto": lambda p: st.genpareto(p["concentration"], p["loc"], p["scale"]),
    "Geometric": lambda p: st.geom(p["probs"], loc=-1),
    "Gumbel": lambda p: st.gumbel_r(p["loc"], p["scale"]),
    "HalfCauchy": lambda p: st.halfcauchy(scale=p["scale"]),
    "HalfNormal": lambda p: st.halfnorm(scale=p["scale"]),
    "InverseGamma": lambda p: st.invgamma(p["concentration"], scale=p["rate"]),
    "Laplace": lambda p: st.laplace(p["loc"], p["scale"]),
    "LogNormal": lambda p: st.lognorm(s=p["scale"], scale=np.exp(p["loc"])),
    "NegativeBinomial": lambda p: st.nbinom(3.5, 1 - p["probs"]),
    "Normal": lambda p: st.norm(p["loc"], p["scale"]),
    "Pareto": lambda p: st.pareto(p["alpha"], scale=p["scale"]),
    "Poisson": lambda p: st.poisson(p["rate"]),
    "StudentT": lambda p: st.t(p["df"], p["loc"], p["scale"]),
    "Uniform": lambda p: st.uniform(p["low"], p["high"] - p["low"]),
    "VonMises": lambda p: st.vonmises(p["concentration"], p["loc"]),
    "Weibull": lambda p: st.weibull_min(p["concentration"], scale=p["scale"]),
}
# Polynomials of seven digits stand for Bessel functions; SciPy's moments of von Mises are not circular ones.
LESS_EXACT = {"VonMises": 1e-5}


@pytest.mark.parametrize("label", sorted(SCIPY))
def test_formulas_are_scipys(label: str) -> None:
    given = cases.DISTRIBUTIONS[label][1]
    theirs = SCIPY[label]({name: np.array(value) for name, value in given.items()})
    ours = cases.build(torch, label, cases.parameters_of(torch, label, "float64"))
    torch.manual_seed(1)
    value = ours.sample((5,))
    at, rtol = value.numpy(), LESS_EXACT.get(label, 1e-8)
    log_density = theirs.logpmf(at) if hasattr(theirs.dist, "pmf") else theirs.logpdf(at)
    np.testing.assert_allclose(ours.log_prob(value).detach().numpy(), log_density, rtol=rtol, atol=1e-9)
    try:
        np.testing.assert_allclose(ours.cdf(value).detach().numpy(), theirs.cdf(at), rtol=rtol)
    except NotImplementedError:
        assert GOLDEN[f"{label}|float64|cdf"].dtype.kind == "U"
    if label == "VonMises":
        return
    with np.errstate(all="ignore"):
        mean, variance = theirs.mean(), theirs.var()
    finite = np.isfinite(mean)
    np.testing.assert_allclose(ours.mean.detach().numpy()[finite], mean[finite], rtol=1e-8)
    finite = np.isfinite(variance)
    np.testing.assert_allclose(ours.variance.detach().numpy()[finite], variance[finite], rtol=1e-8)
    if GOLDEN[f"{label}|float64|entropy"].dtype.kind != "U":
        np.testing.assert_allclose(ours.entropy().detach().numpy(), theirs.entropy(), rtol=1e-6)


def test_multivariate_densities_are_scipys() -> None:
    x = np.array([[0.3, -0.2, 1.0], [1.5, 0.4, -0.7]])
    normal = D.MultivariateNormal(torch.zeros(3).double(), torch.tensor(cases.MATRIX).double())
    np.testing.assert_allclose(normal.log_prob(torch.tensor(x)).numpy(),
                               st.multivariate_normal(np.zeros(3), cases.MATRIX).logpdf(x), rtol=1e-6)
    wishart = D.Wishart(torch.tensor(5.0).double(), torch.tensor(cases.MATRIX).double())
    value = np.array(cases.MATRIX) * 3
    np.testing.assert_allclose(float(wishart.log_prob(torch.tensor(value))), st.wishart(5, cases.MATRIX).logpdf(value),
                               rtol=1e-6)
    shares = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(float(D.Dirichlet(torch.tensor(cases.POSITIVE).double()).log_prob(torch.tensor(shares))),
                               st.dirichlet(cases.POSITIVE).logpdf(shares), rtol=1e-6)


# gradients of samples ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concentration", [0.05, 0.7, 3.0, 7.9, 12.0, 300.0])
def test_the_gradient_of_a_gamma_sample_keeps_its_quantile(concentration: float) -> None:
    probability = np.linspace(0.02, 0.98, 25)
    x = st.gamma(concentration).ppf(probability)
    step = 1e-4 * concentration
    expected = (st.gamma(concentration + step).ppf(probability) - st.gamma(concentration - step).ppf(probability)) / (
        2 * step)
    slope = torch._standard_gamma_grad(torch.full((25,), concentration, dtype=torch.float64), torch.tensor(x))
    np.testing.assert_allclose(slope.numpy(), expected, rtol=2e-3)


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.6), (2.0, 5.0), (0.5, 40.0), (8.0, 9.0), (60.0, 3.0)])
def test_the_gradient_of_a_beta_sample_keeps_its_quantile(a: float, b: float) -> None:
    probability = np.linspace(0.05, 0.95, 19)
    step = 1e-4 * a
    expected = (st.beta(a + step, b).ppf(probability) - st.beta(a - step, b).ppf(probability)) / (2 * step)
    first = torch.tensor([a] * 19, dtype=torch.float64)
    x = torch.tensor(st.beta(a, b).ppf(probability))
    slope = torch._dirichlet_grad(x, first, torch.full_like(first, a + b)) * (1 - x)  # d x / d a
    np.testing.assert_allclose(slope.numpy(), expected, rtol=5e-3)


def test_second_derivatives_of_gamma_samples_are_refused() -> None:
    concentration = torch.tensor([0.5, 2.0], requires_grad=True)
    (slope,) = torch.autograd.grad(torch._standard_gamma(concentration).sum(), concentration, create_graph=True)
    with pytest.raises(NotImplementedError, match="the derivative for '_standard_gamma_grad' is not implemented"):
        slope.sum().backward()


def test_straight_through_gradients_are_those_of_the_probabilities() -> None:
    logits = torch.tensor([0.1, 0.7], requires_grad=True)
    D.OneHotCategoricalStraightThrough(logits=logits).rsample().mul(torch.tensor([1.0, 0.0])).sum().backward()
    probs = torch.softmax(logits.detach(), -1)
    torch.testing.assert_close(logits.grad, torch.stack([probs[0] * probs[1], -probs[0] * probs[1]]))


# behaviour ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", cases.LABELS)
def test_expanding_repeats_the_distribution(label: str) -> None:
    made = cases.build(torch, label, cases.parameters_of(torch, label, "float64"))
    expanded = made.expand((4, *made.batch_shape))
    assert expanded.batch_shape == (4, *made.batch_shape) and expanded.event_shape == made.event_shape
    sample = expanded.sample()
    assert sample.shape == (4, *made.batch_shape, *made.event_shape)
    torch.testing.assert_close(expanded.log_prob(sample), made.log_prob(sample))


@pytest.mark.parametrize("label", cases.LABELS)
def test_distributions_are_copied_and_pickled(label: str) -> None:
    parameters = {name: value.detach() if isinstance(value, torch.Tensor) else value
                  for name, value in cases.parameters_of(torch, label, "float64").items()}
    made = cases.build(torch, label, parameters)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        torch.manual_seed(3)
        sample = made.sample()
        torch.manual_seed(3)
        assert other.sample().equal(sample)


def test_a_cached_transform_gives_back_its_argument() -> None:
    x = torch.tensor([20.0])
    for transform in (D.TanhTransform(cache_size=1), D.ComposeTransform([D.ExpTransform(), D.TanhTransform()], 1)):
        assert transform.inv(transform(x)) is x
        assert transform.inv.inv is transform
    assert D.TanhTransform().inv(D.TanhTransform()(x)) is not x
    assert D.TanhTransform().with_cache(1)._cache_size == 1


def test_parameters_of_a_lazily_computed_form_carry_gradients() -> None:
    logits = torch.tensor([0.3], requires_grad=True)
    made = D.Bernoulli(logits=logits)
    with torch.no_grad():
        probs = made.probs
    assert probs.requires_grad and made.probs is probs


def test_a_subclass_with_its_own_constructor_must_expand_itself() -> None:
    class Standard(D.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="Subclass Standard of Normal that defines a custom __init__ method"):
        Standard().expand((2,))


def test_a_new_distribution_says_what_it_lacks() -> None:
    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        Bare()
    bare = Bare(validate_args=False)
    for name in ("mean", "variance", "stddev", "mode", "support"):
        with pytest.raises(NotImplementedError):
            getattr(bare, name)
    with pytest.raises(NotImplementedError):
        bare.expand((2,))


def test_validation_can_be_turned_off() -> None:
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale == -1
    finally:
        D.Distribution.set_default_validate_args(True)


def test_divergences_can_be_registered() -> None:
    class Mine(D.Normal):
        pass

    assert float(D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0))) == 0
    D.register_kl(Mine, D.Normal)(lambda p, q: "mine")
    try:
        assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)) == "mine"
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Mine, Mine\)"):
            D.register_kl(D.Normal, Mine)(lambda p, q: "other")
            D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0))
    finally:
        for pair in ((Mine, D.Normal), (D.Normal, Mine)):
            D.kl._KL_REGISTRY.pop(pair, None)
        D.kl._KL_MEMOIZE.clear()


def test_random_log_probabilities_integrate_to_one() -> None:
    x = torch.linspace(-60, 60, 200001, dtype=torch.float64)
    for made in (D.Normal(0.3, 2.0), D.Laplace(-1.0, 0.7), D.Gumbel(0.5, 1.5), D.StudentT(4.0, 0.2, 1.1)):
        assert float(torch.trapezoid(made.log_prob(x).exp(), x)) == pytest.approx(1, abs=1e-3)


def test_a_sobol_engine_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"):
        SobolEngine(0)
    engine = SobolEngine(3)
    assert engine.draw_base2(3).shape == (8, 3) and engine.num_generated == 8
    with pytest.raises(ValueError, match=r"8 points have been previously generated, then: n=8\+2\*\*2=12"):
        engine.draw_base2(2)
    assert repr(SobolEngine(2, scramble=True, seed=1)) == "SobolEngine(dimension=2, scramble=True, seed=1)"
    assert engine.draw(2, dtype=torch.float64).dtype is torch.float64
