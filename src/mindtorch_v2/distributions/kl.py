"""Kullback-Leibler divergences between distributions, by the pair of their types."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor
from mindtorch_v2.nn import functional as F

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

__all__ = ["register_kl", "kl_divergence"]
_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """A decorator that registers a function of two distributions of these types, or subclasses, as their divergence."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(fun: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun

    return decorator


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function registered for the nearest ancestors of both types."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    near = {pair: (type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])) for pair in matches}
    left, right = min(matches, key=near.__getitem__), min(matches, key=lambda pair: near[pair][::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
                      f"register_kl({left[0].__name__}, {right[1].__name__})", RuntimeWarning, stacklevel=3)
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the expectation under p of log p - log q, for each element of the batch."""
    types = type(p), type(q)
    if types not in _KL_MEMOIZE:
        _KL_MEMOIZE[types] = _dispatch_kl(*types)
    fun = _KL_MEMOIZE[types]
    if fun is NotImplemented:
        raise NotImplementedError("No KL(p || q) is implemented for p type "
                                  f"{type(p).__name__} and q type {type(q).__name__}")
    return fun(p, q)


# one family --------------------------------------------------------------------------------------------------------


def _infinite_where(condition: Tensor, value: Tensor) -> Tensor:
    return torch.where(condition, math.inf, value)


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    ones = torch.where(p.probs == 0, 0.0, _infinite_where(q.probs == 0, ones))
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    return ones + torch.where(p.probs == 1, 0.0, _infinite_where(q.probs == 1, zeros))


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _infinite_where(p.total_count > q.total_count, kl)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = _infinite_where(q.probs == 0, p.probs * (p.logits - q.logits))
    return torch.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    return (p.mean * (p.logits - q.logits) + p._cont_bern_log_norm() + torch.log1p(-p.probs)
            - q._cont_bern_log_norm() - torch.log1p(-q.probs))


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    orders = total_p.lgamma() - total_q.lgamma() - (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    expected_logs = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return orders + ((p.concentration - q.concentration) * expected_logs).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot"
                                  + " " * 29 + "be computed using Bregman divergences")
    parameters_p, normalizer, statistics = p._expected_statistics()
    parameters_q = q._natural_params
    result = q._log_normalizer(*parameters_q) - normalizer
    for of_p, of_q, statistic in zip(parameters_p, parameters_q, statistics):
        result = result - _sum_rightmost((of_q - of_p) * statistic, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    return (q.concentration * (p.rate / q.rate).log() + torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
            + (p.concentration - q.concentration) * torch.digamma(p.concentration)
            + (q.rate - p.rate) * (p.concentration / p.rate))


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return (-ratio.log() - shift + ratio * euler_constant + torch.exp(shift + (1 + ratio).lgamma())
            - (1 + euler_constant))


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Any, q: Any) -> Tensor:
    var_ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (var_ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - var_ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_where(p.scale < q.scale, kl)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# multivariate normals ----------------------------------------------------------------------------------------------


def _logdet(d: Any) -> Tensor:
    return d._logdet() if isinstance(d, LowRankMultivariateNormal) else 2 * d._half_log_det()


def _precision_root(q: Any) -> tuple[Tensor, Tensor, Any]:
    """L and B such that the precision of q is diag - B' L^-T L^-1 B, or L^-T L^-1 with None for the diagonal."""
    if isinstance(q, LowRankMultivariateNormal):
        W, D = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
        return q._capacitance_tril, W.mT / D.unsqueeze(-2), D.reciprocal()
    tril = q._unbroadcasted_scale_tril
    return tril, torch.eye(tril.shape[-1], dtype=tril.dtype, device=tril.device), None


def _energy(q: Any, columns: Tensor) -> Tensor:
    """The sum of c' precision c over columns c."""
    L, B, diagonal = _precision_root(q)
    if diagonal is None:
        return torch.linalg.solve_triangular(L, columns, upper=False).pow(2).sum((-2, -1))
    solved = torch.linalg.solve_triangular(L, B @ columns, upper=False).pow(2).sum((-2, -1))
    return (columns.pow(2) * diagonal.unsqueeze(-1)).sum((-2, -1)) - solved


def _precision_diagonal(q: Any) -> Tensor:
    L, B, diagonal = _precision_root(q)
    solved = torch.linalg.solve_triangular(L, B, upper=False).pow(2).sum(-2)
    return solved if diagonal is None else diagonal - solved


def _kl_normals(kinds: str) -> Callable[[Any, Any], Tensor]:
    def kl(p: Any, q: Any) -> Tensor:
        if p.event_shape != q.event_shape:
            raise ValueError(f"KL-divergence between two {kinds}Multivariate Normals with" + " " * 26
                             + "different event shapes cannot be computed")
        if isinstance(p, LowRankMultivariateNormal):
            trace = _energy(q, p._unbroadcasted_cov_factor) + (
                _precision_diagonal(q) * p._unbroadcasted_cov_diag).sum(-1)
        else:
            trace = _energy(q, p._unbroadcasted_scale_tril)
        distance = _energy(q, (q.loc - p.loc).unsqueeze(-1))
        return 0.5 * (_logdet(q) - _logdet(p) + trace + distance - p.event_shape[0])

    return kl


register_kl(MultivariateNormal, MultivariateNormal)(_kl_normals(""))
register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)(_kl_normals("Low Rank "))
register_kl(MultivariateNormal, LowRankMultivariateNormal)(_kl_normals("(Low Rank) "))
register_kl(LowRankMultivariateNormal, MultivariateNormal)(_kl_normals("(Low Rank) "))


# different families ------------------------------------------------------------------------------------------------
# KL(p || q) = E_p[-log q] - entropy of p. What E_p[-log q] takes is moments of p: its mean and variance, E_p[log x]
# for the power of a Gamma or Beta density, and E_p[exp(-x / s)] for a Gumbel one.


def _x_log_x(x: Tensor) -> Tensor:
    return torch.special.xlogy(x, x)


def _expected_log(p: Any) -> Tensor:
    """E_p[log x]"""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -(euler_constant + p.rate.log())
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1


def _expected_decay(p: Any, s: Tensor) -> Tensor:
    """E_p[exp(-x / s)]"""
    if isinstance(p, Exponential):
        return p.rate * s / (p.rate * s + 1)
    if isinstance(p, Gamma):
        return (1 + (p.rate * s).reciprocal()).pow(-p.concentration)
    if isinstance(p, Normal):
        return torch.exp(-p.loc / s + 0.5 * (p.scale / s).pow(2))
    return s * ((-p.low / s).exp() - (-p.high / s).exp()) / (p.high - p.low)


def _minus_log_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log()


def _minus_log_gamma(p: Any, q: Gamma) -> Tensor:
    return (q.concentration.lgamma() - q.concentration * q.rate.log() - (q.concentration - 1) * _expected_log(p)
            + q.rate * p.mean)


def _minus_log_gumbel(p: Any, q: Gumbel) -> Tensor:
    return q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * _expected_decay(p, q.scale)


def _minus_log_normal(p: Any, q: Normal) -> Tensor:
    variance = q.scale.pow(2)
    return 0.5 * (variance * 2 * math.pi).log() + (p.variance + (p.mean - q.loc).pow(2)) / (2 * variance)


def _minus_log_laplace(p: Normal, q: Laplace) -> Tensor:
    distance = p.loc - q.loc
    ratio = distance / p.scale
    expected = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * ratio.pow(2)) + distance * torch.erf(
        math.sqrt(0.5) * ratio)
    return torch.log(2 * q.scale) + expected / q.scale


def _minus_log_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return -p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


def _minus_log_uniform(p: Any, q: Uniform) -> Tensor:
    return (q.high - q.low).log()


def _minus_log_poisson(p: Any, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log()


def _minus_log_pareto(p: Uniform, q: Pareto) -> Tensor:
    return (q.alpha + 1) * _expected_log(p) - q.alpha.log() - q.alpha * q.scale.log()


def _minus_log_beta(p: Uniform, q: Beta) -> Tensor:
    mirrored = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / (p.high - p.low) - 1  # E_p[log(1 - x)]
    orders = (q.concentration1.lgamma() + q.concentration0.lgamma()
              - (q.concentration1 + q.concentration0).lgamma())
    return orders - (q.concentration1 - 1) * _expected_log(p) - (q.concentration0 - 1) * mirrored


# p, q, E_p[-log q], and where the divergence is infinite
_CROSS: tuple[tuple[type, type, Callable, Callable | None], ...] = (
    (Bernoulli, Poisson, _minus_log_poisson, None),
    (Beta, ContinuousBernoulli, _minus_log_continuous_bernoulli, None),
    (Beta, Exponential, _minus_log_exponential, None),
    (Beta, Gamma, _minus_log_gamma, None),
    (Beta, Normal, _minus_log_normal, None),
    (Beta, Uniform, _minus_log_uniform, lambda p, q: (q.low > 0) | (q.high < 1)),
    (ContinuousBernoulli, Exponential, _minus_log_exponential, None),
    (ContinuousBernoulli, Normal, _minus_log_normal, None),
    # infinite for the unit interval itself too, as in PyTorch
    (ContinuousBernoulli, Uniform, _minus_log_uniform, lambda p, q: (q.low >= 0) | (q.high <= 1)),
    (Exponential, Gamma, _minus_log_gamma, None),
    (Exponential, Gumbel, _minus_log_gumbel, None),
    (Exponential, Normal, _minus_log_normal, None),
    (Gamma, Exponential, _minus_log_exponential, None),
    (Gamma, Gumbel, _minus_log_gumbel, None),
    (Gamma, Normal, _minus_log_normal, None),
    (Gumbel, Normal, _minus_log_normal, None),
    (Laplace, Normal, _minus_log_normal, None),
    (Normal, Gumbel, _minus_log_gumbel, None),
    (Normal, Laplace, _minus_log_laplace, None),
    (Pareto, Exponential, _minus_log_exponential, lambda p, q: p.alpha <= 1),
    (Pareto, Gamma, _minus_log_gamma, lambda p, q: p.alpha <= 1),
    (Pareto, Normal, _minus_log_normal, lambda p, q: p.alpha <= 2),
    (Uniform, Beta, _minus_log_beta, lambda p, q: (p.high > 1) | (p.low < 0)),
    (Uniform, ContinuousBernoulli, _minus_log_continuous_bernoulli, lambda p, q: (p.high >= 1) | (p.low <= 0)),
    (Uniform, Exponential, _minus_log_exponential, lambda p, q: p.low < 0),
    (Uniform, Gamma, _minus_log_gamma, lambda p, q: p.low < 0),
    (Uniform, Gumbel, _minus_log_gumbel, None),
    (Uniform, Normal, _minus_log_normal, None),
    (Uniform, Pareto, _minus_log_pareto, lambda p, q: p.low < q.scale),
    (Uniform, Uniform, _minus_log_uniform, lambda p, q: (q.low > p.low) | (q.high < p.high)),
)


def _kl_cross(minus_log: Callable, infinite: Callable | None) -> Callable[[Any, Any], Tensor]:
    def kl(p: Any, q: Any) -> Tensor:
        value = minus_log(p, q) - p.entropy()
        return value if infinite is None else _infinite_where(infinite(p, q), value)

    return kl


for _p, _q, _minus_log, _infinite in _CROSS:
    register_kl(_p, _q)(_kl_cross(_minus_log, _infinite))


# Pairs whose supports make the divergence infinite whatever the parameters; the value has p's batch shape.
_UNBOUNDED = (Uniform, Pareto, Gamma, Exponential, ContinuousBernoulli, Beta)
_NEVER_COVERED: tuple[tuple[type, str, tuple[type, ...]], ...] = (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Uniform, Pareto, ContinuousBernoulli, Beta)),
    (Gamma, "concentration", (Uniform, Pareto, ContinuousBernoulli, Beta)),
    (Gumbel, "loc", _UNBOUNDED),
    (Laplace, "loc", _UNBOUNDED),
    (Normal, "loc", _UNBOUNDED),
    (Pareto, "scale", (Uniform, ContinuousBernoulli, Beta)),
    (Poisson, "rate", (Binomial, Bernoulli)),
)
for _p, _name, _others in _NEVER_COVERED:
    for _q in _others:
        register_kl(_p, _q)(lambda p, q, name=_name: torch.full_like(getattr(p, name), math.inf))
