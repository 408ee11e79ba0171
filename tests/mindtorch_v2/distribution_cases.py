"""Distributions, divergences, transforms and faulty calls that PyTorch and this library are both asked about.

Everything is a function of the package under test, `torch`, so that tools/golden_distributions.py can record what
PyTorch says and test_distributions.py compare.
"""

from typing import Any

MATRIX = [[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 1.2]]
TRIL = [[1.2, 0.0, 0.0], [0.4, 0.9, 0.0], [-0.3, 0.5, 1.1]]
PROBS, LOGITS = [0.2, 0.5, 0.9], [-1.2, 0.3, 2.0]
POSITIVE, MORE = [0.4, 1.3, 7.5], [0.9, 2.2, 0.6]
WEIGHTS, SCORES = [[0.2, 1.0, 0.7], [3.0, 0.1, 0.4]], [[0.5, -1.0, 0.2], [2.0, 0.0, -0.3]]

# label -> (class, parameters: lists become tensors that need gradients, other things stay)
DISTRIBUTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Bernoulli": ("Bernoulli", {"probs": PROBS}),
    "Bernoulli logits": ("Bernoulli", {"logits": LOGITS}),
    "Beta": ("Beta", {"concentration1": POSITIVE, "concentration0": MORE}),
    "Beta large": ("Beta", {"concentration1": [9.0, 30.0], "concentration0": [8.0, 7.0]}),
    "Binomial": ("Binomial", {"total_count": 4, "probs": PROBS}),
    "Binomial many": ("Binomial", {"total_count": 60, "logits": LOGITS}),
    "Categorical": ("Categorical", {"probs": WEIGHTS}),
    "Categorical logits": ("Categorical", {"logits": SCORES}),
    "Cauchy": ("Cauchy", {"loc": LOGITS, "scale": POSITIVE}),
    "Chi2": ("Chi2", {"df": POSITIVE}),
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": PROBS}),
    "ContinuousBernoulli logits": ("ContinuousBernoulli", {"logits": LOGITS}),
    "Dirichlet": ("Dirichlet", {"concentration": WEIGHTS}),
    "Exponential": ("Exponential", {"rate": POSITIVE}),
    "FisherSnedecor": ("FisherSnedecor", {"df1": [3.0, 5.0, 1.5], "df2": [9.0, 3.0, 1.5]}),
    "Gamma": ("Gamma", {"concentration": POSITIVE, "rate": MORE}),
    "Gamma large": ("Gamma", {"concentration": [9.5, 40.0], "rate": [2.0, 0.5]}),
    "GeneralizedPareto": ("GeneralizedPareto", {"loc": LOGITS, "scale": POSITIVE, "concentration": [-0.3, 0.0, 0.4]}),
    "Geometric": ("Geometric", {"probs": PROBS}),
    "Gumbel": ("Gumbel", {"loc": LOGITS, "scale": POSITIVE}),
    "HalfCauchy": ("HalfCauchy", {"scale": POSITIVE}),
    "HalfNormal": ("HalfNormal", {"scale": POSITIVE}),
    "InverseGamma": ("InverseGamma", {"concentration": [0.7, 1.6, 4.0], "rate": MORE}),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": POSITIVE, "concentration0": MORE}),
    "LKJCholesky": ("LKJCholesky", {"dim": 3, "concentration": [0.7, 2.0]}),
    "Laplace": ("Laplace", {"loc": LOGITS, "scale": POSITIVE}),
    "LogNormal": ("LogNormal", {"loc": LOGITS, "scale": PROBS}),
    "LogisticNormal": ("LogisticNormal", {"loc": SCORES, "scale": WEIGHTS}),
    "LowRankMultivariateNormal": ("LowRankMultivariateNormal", {
        "loc": LOGITS, "cov_factor": [[0.5, 0.1], [-0.2, 1.0], [0.3, 0.4]], "cov_diag": POSITIVE}),
    "Multinomial": ("Multinomial", {"total_count": 5, "probs": WEIGHTS}),
    "MultivariateNormal": ("MultivariateNormal", {"loc": LOGITS, "covariance_matrix": MATRIX}),
    "MultivariateNormal precision": ("MultivariateNormal", {"loc": SCORES, "precision_matrix": MATRIX}),
    "MultivariateNormal tril": ("MultivariateNormal", {"loc": SCORES, "scale_tril": TRIL}),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": 3.5, "probs": PROBS}),
    "Normal": ("Normal", {"loc": LOGITS, "scale": POSITIVE}),
    "Normal of numbers": ("Normal", {"loc": 0, "scale": 2.0}),
    "OneHotCategorical": ("OneHotCategorical", {"probs": WEIGHTS}),
    "OneHotCategoricalStraightThrough": ("OneHotCategoricalStraightThrough", {"logits": SCORES}),
    "Pareto": ("Pareto", {"scale": POSITIVE, "alpha": [0.8, 1.7, 3.0]}),
    "Poisson": ("Poisson", {"rate": [0.7, 6.0, 40.0]}),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": [0.6], "probs": PROBS}),
    "RelaxedOneHotCategorical": ("RelaxedOneHotCategorical", {"temperature": [0.6], "probs": WEIGHTS}),
    "StudentT": ("StudentT", {"df": [0.8, 1.7, 5.0], "loc": LOGITS, "scale": POSITIVE}),
    "Uniform": ("Uniform", {"low": LOGITS, "high": [0.4, 1.3, 9.5]}),
    "VonMises": ("VonMises", {"loc": LOGITS, "concentration": POSITIVE}),
    "Weibull": ("Weibull", {"scale": POSITIVE, "concentration": MORE}),
    "Wishart": ("Wishart", {"df": [3.5, 6.0], "covariance_matrix": MATRIX}),
}


def _on_normal(torch: Any, *transforms: Any, **parameters: Any) -> Any:
    D = torch.distributions
    return D.TransformedDistribution(D.Normal(**parameters), list(transforms))


# label -> (function of torch and the parameters, parameters)
COMPOSED: dict[str, tuple[Any, dict[str, Any]]] = {
    "Independent": (lambda torch, **p: torch.distributions.Independent(torch.distributions.Normal(**p), 1),
                    {"loc": SCORES, "scale": WEIGHTS}),
    "MixtureSameFamily": (lambda torch, probs, **p: torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(probs), torch.distributions.Normal(**p)),
        {"probs": WEIGHTS, "loc": SCORES, "scale": WEIGHTS}),
    "squashed normal": (lambda torch, **p: _on_normal(torch, torch.distributions.TanhTransform(cache_size=1), **p),
                        {"loc": LOGITS, "scale": PROBS}),
    "falling transform": (lambda torch, scale, **p: _on_normal(
        torch, torch.distributions.AffineTransform(1.0, -scale), scale=scale, **p), {"loc": LOGITS, "scale": POSITIVE}),
}
LABELS = [*DISTRIBUTIONS, *COMPOSED]
QUANTITIES = ("mean", "mode", "variance", "stddev", "entropy", "enumerate_support")
SEED = 20
# PyTorch compares the concentration with a float32 zero here and raises RuntimeError; these must give numbers.
RAISES_IN_PYTORCH = {f"GeneralizedPareto|float64|{name}" for name in ("log_prob", "cdf")}


def parameters_of(torch: Any, label: str, dtype: str) -> dict[str, Any]:
    given = (DISTRIBUTIONS[label] if label in DISTRIBUTIONS else COMPOSED[label])[1]
    return {name: torch.tensor(value, dtype=getattr(torch, dtype), requires_grad=True)
            if isinstance(value, list) else value for name, value in given.items()}


def build(torch: Any, label: str, parameters: dict[str, Any]) -> Any:
    """The distribution of a label, with these parameters."""
    if label in COMPOSED:
        return COMPOSED[label][0](torch, **parameters)
    return getattr(torch.distributions, DISTRIBUTIONS[label][0])(**parameters)


def value_of(distribution: Any, quantity: str) -> Any:
    found = getattr(distribution, quantity)
    return found() if callable(found) else found


# divergences: p has batch shape (2,), as has q ---------------------------------------------------------------------


def divergence_operands(torch: Any) -> dict[str, tuple[Any, Any]]:
    """A distribution p and a q of each kind that has divergences, all of batch shape (2,)."""
    D, t = torch.distributions, torch.tensor
    v = [t([0.3, 0.7], dtype=torch.float64), t([0.45, 0.2], dtype=torch.float64)]

    def both(make: Any) -> tuple[Any, Any]:
        return make(v[0]), make(v[1])

    matrix = torch.eye(2, dtype=torch.float64)
    return {
        "Bernoulli": both(D.Bernoulli), "Beta": both(lambda x: D.Beta(x, x + 1)), "Binomial": both(
            lambda x: D.Binomial(3, x)), "Categorical": both(lambda x: D.Categorical(torch.stack([x, 2 - x], -1))),
        "Cauchy": both(lambda x: D.Cauchy(x, x + 1)), "ContinuousBernoulli": both(D.ContinuousBernoulli),
        "Dirichlet": both(lambda x: D.Dirichlet(torch.stack([x, 2 - x], -1))), "Exponential": both(D.Exponential),
        "Gamma": both(lambda x: D.Gamma(x, x + 1)), "Gumbel": both(lambda x: D.Gumbel(x, x + 1)),
        "Geometric": both(D.Geometric), "HalfNormal": both(D.HalfNormal),
        "Laplace": both(lambda x: D.Laplace(x, x + 1)),
        "Normal": both(lambda x: D.Normal(x, x + 1)), "OneHotCategorical": both(
            lambda x: D.OneHotCategorical(torch.stack([x, 2 - x], -1))),
        "Pareto": both(lambda x: D.Pareto(x, 4 * x)), "Poisson": both(D.Poisson),
        "Uniform": both(lambda x: D.Uniform(x - 0.2, x + 0.5)), "Uniform inside": both(lambda x: D.Uniform(x, x + 0.2)),
        "Uniform around": both(lambda x: D.Uniform(-x, x + 3)), "LogNormal": both(lambda x: D.LogNormal(x, x)),
        "Chi2": both(D.Chi2), "InverseGamma": both(lambda x: D.InverseGamma(x, x)),
        "Independent": both(lambda x: D.Independent(D.Normal(x.expand(2, 2), x), 1)),
        "Wishart": both(lambda x: D.Wishart(x + 2, matrix * (1 + x[0]))),
        "MultivariateNormal": both(lambda x: D.MultivariateNormal(x.expand(2, 2), matrix + x[0])),
        "LowRankMultivariateNormal": both(lambda x: D.LowRankMultivariateNormal(
            x.expand(2, 2), torch.stack([x, 1 - x], -1), x + 0.5)),
        "VonMises": both(lambda x: D.VonMises(x, x)),
    }


# transforms --------------------------------------------------------------------------------------------------------


def transforms(torch: Any) -> dict[str, tuple[Any, Any]]:
    """Transforms, each with an argument."""
    D, t = torch.distributions, torch.tensor
    line = t([[-2.0, -0.3, 0.4], [1.5, 0.1, 3.0]], dtype=torch.float64)
    square = line[:, :2]
    scale = t([0.5, -2.0, 1.5], dtype=torch.float64)
    return {
        "Exp": (D.ExpTransform(), line), "Power": (D.PowerTransform(scale), line.exp()),
        "Sigmoid": (D.SigmoidTransform(), line), "Softplus": (D.SoftplusTransform(), line),
        "Tanh": (D.TanhTransform(), line), "Abs": (D.AbsTransform(), line),
        "Affine": (D.AffineTransform(1.0, scale), line),
        "Affine event": (D.AffineTransform(1.0, scale, event_dim=1), line),
        "Softmax": (D.SoftmaxTransform(), line), "StickBreaking": (D.StickBreakingTransform(), line),
        "CorrCholesky": (D.CorrCholeskyTransform(), line), "LowerCholesky": (D.LowerCholeskyTransform(), square),
        "PositiveDefinite": (D.PositiveDefiniteTransform(), square),
        "Reshape": (D.ReshapeTransform((3,), (3, 1)), line),
        "Independent": (D.IndependentTransform(D.ExpTransform(), 1), line),
        "Compose": (D.ComposeTransform([D.StickBreakingTransform(), D.AffineTransform(0.0, 2.0), D.ExpTransform()]),
                    line),
        "Cat": (D.CatTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0)], dim=1, lengths=[1, 2]), line),
        "Stack": (D.StackTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0)], dim=0), line),
        "CumulativeDistribution": (D.CumulativeDistributionTransform(D.Normal(0.5, 2.0)), line),
        "inverse": (D.ExpTransform().inv, line.exp()),
    }


def constraints(torch: Any) -> dict[str, Any]:
    C = torch.distributions.constraints
    made = {name: getattr(C, name) for name in C.__all__ if isinstance(getattr(C, name), C.Constraint)}
    made |= {"interval": C.interval(-1.0, 0.5), "half_open_interval": C.half_open_interval(0.0, 1.0),
             "integer_interval": C.integer_interval(0, 1), "greater_than": C.greater_than(0.4),
             "greater_than_eq": C.greater_than_eq(0.5), "less_than": C.less_than(0.5), "multinomial": C.multinomial(1),
             "independent": C.independent(C.positive, 1), "cat": C.cat([C.positive, C.real], -1, [1, 1]),
             "stack": C.stack([C.positive, C.real], -1)}
    del made["dependent"]
    return made


def candidates(torch: Any) -> list[Any]:
    """Tensors to check against every constraint; all have two dimensions, of size two."""
    t = torch.tensor
    return [t(rows) for rows in (
        [[0.0, 1.0], [1.0, 0.0]], [[0.3, 0.7], [0.5, 0.5]], [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.6], [0.6, 1.0]],
        [[-1.0, 0.0], [0.0, -1.0]], [[1.0, 2.0], [3.0, 4.0]], [[float("nan"), 1.0], [0.5, 2.0]])]


# what is said ------------------------------------------------------------------------------------------------------


def sayings(torch: Any) -> dict[str, Any]:
    """Functions whose result's text, or whose error's, is compared."""
    D, t = torch.distributions, torch.tensor
    C, pair, matrix = D.constraints, t([1.0, 2.0]), torch.eye(2)
    made: dict[str, Any] = {
        "negative scale": lambda: D.Normal(pair, -1.0), "negative number": lambda: D.Normal(0.0, -1.0),
        "shown with its gradient": lambda: D.Normal(pair, (-pair).requires_grad_()),
        "probability above one": lambda: D.Bernoulli(t(2.0)), "both given": lambda: D.Bernoulli(t(0.2), t(0.3)),
        "none given": lambda: D.NegativeBinomial(1.0), "no dimension": lambda: D.Categorical(t(1.0)),
        "logits without dimension": lambda: D.Categorical(logits=t(1.0)),
        "not a simplex": lambda: D.Categorical(-pair + 1.5),
        "no concentration": lambda: D.Dirichlet(t(1.0)), "no matrix": lambda: D.MultivariateNormal(pair),
        "vector for a matrix": lambda: D.MultivariateNormal(pair, scale_tril=pair),
        "not positive definite": lambda: D.MultivariateNormal(pair, -matrix),
        "low rank factor": lambda: D.LowRankMultivariateNormal(pair, torch.eye(3), pair),
        "low rank batches": lambda: D.LowRankMultivariateNormal(pair, torch.ones(4, 2, 1), torch.ones(3, 2)),
        "Wishart df": lambda: D.Wishart(t(0.5), matrix), "Wishart none": lambda: D.Wishart(t(3.0)),
        "LKJ dim": lambda: D.LKJCholesky(1), "LKJ concentration": lambda: D.LKJCholesky(3, -1.0),
        "empty interval": lambda: D.Uniform(t(2.0), t(1.0)), "counts": lambda: D.Multinomial(t([1, 2]), pair),
        "Geometric zero": lambda: D.Geometric(t([0.0, 0.5])),
        "too independent": lambda: D.Independent(D.Normal(0.0, 1.0), 1),
        "mixture of": lambda: D.MixtureSameFamily(D.Normal(pair, 1.0), D.Normal(pair, 1.0)),
        "mixture sizes": lambda: D.MixtureSameFamily(D.Categorical(pair), D.Normal(torch.zeros(3), 1.0)),
        "not a transform": lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 5),
        "event too small": lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
        "not a number": lambda: D.Normal("a", 1.0),
        "not broadcastable": lambda: D.Normal(torch.zeros(2), torch.ones(3)),
        "not a tensor": lambda: D.Normal(pair, 1.0).log_prob(1.0),
        "wrong value shape": lambda: D.Normal(pair, 1.0).log_prob(torch.zeros(3)),
        "wrong event": lambda: D.MultivariateNormal(pair, matrix).log_prob(torch.zeros(3)),
        "outside the support": lambda: D.Beta(1.0, 1.0).log_prob(t(2.0)),
        "not a category": lambda: D.Categorical(pair).log_prob(t([3.0])),
        "sample shape": lambda: D.Normal(0.0, 1.0).sample(3),
        "uneven counts": lambda: D.Binomial(t([1, 2]), t([0.5, 0.5])).enumerate_support(),
        "cartesian": lambda: D.Independent(D.Bernoulli(t([0.5, 0.5])), 1).enumerate_support(),
        "no divergence": lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0)),
        "other family": lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Dirichlet(pair)),
        "binomials": lambda: D.kl_divergence(D.Binomial(2, t(0.5)), D.Binomial(3, t(0.5))),
        "no transform": lambda: D.transform_to(C.dependent), "no bijection": lambda: D.biject_to(C.positive_definite),
        "registering": lambda: D.transform_to.register(int, lambda c: c),
        "cache": lambda: D.ExpTransform(cache_size=2), "reshape": lambda: D.ReshapeTransform((2,), (3,)),
        "reshaped": lambda: D.ReshapeTransform((2,), (1, 2)).forward_shape((3,)),
        "dimensions": lambda: D.IndependentTransform(D.ExpTransform(), 2)(pair),
        "triangle": lambda: D.CorrCholeskyTransform().forward_shape((2,)),
        "cat length": lambda: D.CatTransform([D.ExpTransform()], lengths=[1])(pair),
        "dependent": lambda: C.dependent.check(1), "static": lambda: C.dependent.event_dim,
        "mode": lambda: D.MixtureSameFamily(D.Categorical(pair), D.Normal(pair, 1.0)).mode,
    }
    for label in LABELS:
        made[f"repr {label}"] = lambda label=label: repr(build(torch, label, parameters_of(torch, label, "float32")))
        made[f"expanded {label}"] = lambda label=label: repr(_expanded(build(torch, label,
                                                                             parameters_of(torch, label, "float32"))))
        made[f"support {label}"] = lambda label=label: repr(build(torch, label,
                                                                  parameters_of(torch, label, "float32")).support)
    for name, constraint in constraints(torch).items():
        made[f"constraint {name}"] = lambda c=constraint: (c, c.is_discrete, c.event_dim)
        for registry in ("biject_to", "transform_to"):
            made[f"{registry} {name}"] = lambda c=constraint, r=registry: getattr(D, r)(c)
    for name, (transform, _) in transforms(torch).items():
        for attribute in ("domain", "codomain", "bijective", "event_dim"):
            made[f"{attribute} {name}"] = lambda x=transform, a=attribute: (x, getattr(x, a))
    return made


def _expanded(distribution: Any) -> Any:
    return distribution.expand((4, *distribution.batch_shape))


def said(function: Any) -> str:
    """The text of a result or of an error with its type."""
    try:
        return str(function())
    except (ValueError, TypeError, NotImplementedError, RuntimeError, AssertionError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
