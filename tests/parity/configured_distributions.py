"""Random configurations of torch.distributions: samples of a seed, densities, moments, divergences."""

from configuration import Call, Configuration, Draw, Line

REAL, POSITIVE, UNIT = "torch.randn({shape})", "torch.rand({shape}) + 0.2", "torch.rand({shape}) * 0.8 + 0.1"
# name -> its parameters, as templates of source
PARAMETERS: dict[str, dict[str, str]] = {
    "Normal": dict(loc=REAL, scale=POSITIVE),
    "LogNormal": dict(loc=REAL, scale=POSITIVE),
    "Laplace": dict(loc=REAL, scale=POSITIVE),
    "Cauchy": dict(loc=REAL, scale=POSITIVE),
    "Gumbel": dict(loc=REAL, scale=POSITIVE),
    "HalfNormal": dict(scale=POSITIVE),
    "HalfCauchy": dict(scale=POSITIVE),
    "Exponential": dict(rate=POSITIVE),
    "Gamma": dict(concentration=POSITIVE, rate=POSITIVE),
    "InverseGamma": dict(concentration=POSITIVE, rate=POSITIVE),
    "Chi2": dict(df=POSITIVE),
    "Beta": dict(concentration1=POSITIVE, concentration0=POSITIVE),
    "StudentT": dict(df=f"{POSITIVE} + 2", loc=REAL, scale=POSITIVE),
    "FisherSnedecor": dict(df1=f"{POSITIVE} + 1", df2=f"{POSITIVE} + 5"),
    "Uniform": dict(low=f"-({POSITIVE})", high=POSITIVE),
    "Pareto": dict(scale=POSITIVE, alpha=f"{POSITIVE} + 2"),
    "Weibull": dict(scale=POSITIVE, concentration=POSITIVE),
    "Kumaraswamy": dict(concentration1=POSITIVE, concentration0=POSITIVE),
    "VonMises": dict(loc=REAL, concentration=POSITIVE),
    "Bernoulli": dict(probs=UNIT),
    "ContinuousBernoulli": dict(probs=UNIT),
    "Geometric": dict(probs=UNIT),
    "Poisson": dict(rate=POSITIVE),
    "Binomial": dict(total_count="5", probs=UNIT),
    "NegativeBinomial": dict(total_count="5.0", probs=UNIT),
    "RelaxedBernoulli": dict(temperature="torch.tensor(0.7)", probs=UNIT),
    "Categorical": dict(probs="torch.rand({wide})"),
    "OneHotCategorical": dict(logits="torch.randn({wide})"),
    "OneHotCategoricalStraightThrough": dict(probs="torch.rand({wide})"),
    "RelaxedOneHotCategorical": dict(temperature="torch.tensor(0.7)", logits="torch.randn({wide})"),
    "Multinomial": dict(total_count="4", probs="torch.rand({wide})"),
    "Dirichlet": dict(concentration="torch.rand({wide}) + 0.3"),
    "MultivariateNormal": dict(
        loc="torch.randn({wide})", scale_tril="torch.randn({square}).tril().abs() + torch.eye(3)"
    ),
    "LowRankMultivariateNormal": dict(
        loc="torch.randn({wide})", cov_factor="torch.randn({tall})", cov_diag="torch.rand({wide}) + 0.2"
    ),
    "LKJCholesky": dict(dim="3", concentration=POSITIVE),
    "Wishart": dict(df="torch.tensor(4.5)", covariance_matrix="torch.eye(3) * 2"),
    "LogisticNormal": dict(loc="torch.randn({wide})", scale="torch.rand({wide}) + 0.2"),
    "GeneralizedPareto": dict(loc=REAL, scale=POSITIVE, concentration="torch.rand({shape}) * 0.4"),
}
BINARY = ("Bernoulli", "ContinuousBernoulli", "Geometric", "Binomial", "NegativeBinomial")
MOMENTS = (
    "mean",
    "variance",
    "stddev",
    "mode",
    "batch_shape",
    "event_shape",
    "has_rsample",
    "support",
    "entropy()",
    "perplexity()",
    "enumerate_support()",
    "expand((2, 3)).log_prob(s)",
    "icdf(s.new_tensor(0.3))",
)


def parameters(d: Draw, name: str, lines: list[Line], prefix: str, dtype: str) -> dict[str, str]:
    """The keywords of a constructor; the tensors they name are made by new lines."""
    kwargs = {}
    many = d.choice(((), (3,), (2, 3), (1,), (0,)))
    table = dict(PARAMETERS[name])
    if name in BINARY and d.maybe(0.4):
        table["logits"] = REAL
        del table["probs"]
    for i, (key, template) in enumerate(table.items()):
        own = d.choice((many, many, ())) if len(table) > 1 else many
        shapes = {"shape": own or "()", "wide": (*many, 3), "square": (*many, 3, 3), "tall": (*many, 3, 2)}
        source = template.format(**shapes)
        if "torch." not in source or "tensor(" in source or name in ("Wishart",):
            kwargs[key] = source
        elif d.maybe(0.1) and template in (REAL, POSITIVE, UNIT):
            kwargs[key] = d.choice(("0.5", "0.3"))
        else:
            lines.append(f"{prefix}{i} = ({source}).to(torch.{dtype}).requires_grad_({d.maybe(0.6)})")
            kwargs[key] = f"{prefix}{i}"
    return kwargs


def drawn(d: Draw) -> Configuration:
    """A distribution with what it answers, and its gradients."""
    name = d.choice(list(PARAMETERS))
    dtype = d.choice(("float32", "float32", "float64"))
    if name == "GeneralizedPareto":  # PyTorch mixes types in it
        dtype = "float32"
    lines: list[Line] = [d.seeding()]
    kwargs = parameters(d, name, lines, "a", dtype)
    if d.maybe(0.2):
        kwargs["validate_args"] = d.choice(("True", "False"))
    lines.append(Call(f"torch.distributions.{name}", [], kwargs, "dist"))
    if d.maybe(0.15):
        lines.append(f"dist = torch.distributions.Independent(dist, {d.choice((0, 1))})")
    if d.maybe(0.15):
        lines.append("dist = dist.expand((2, *dist.batch_shape))")
    sample = d.choice(("", "(2,)", "(2, 3)", "()", "torch.Size([0])"))
    lines.append(f"s = dist.{d.choice(('sample', 'sample', 'rsample'))}({sample})")
    for i in range(d.randint(1, 4)):
        asked = d.choice(
            (
                "log_prob(s)",
                "log_prob(s)",
                "log_prob(s)",
                "cdf(s)",
                f"icdf(torch.rand((), dtype=torch.{dtype}))",
                *MOMENTS,
            )
        )
        lines.append(f"r{i} = dist.{asked}")
        if asked == "support":
            lines.append(f"r{i} = repr(r{i})")
    lines.append("back([v for k, v in sorted(globals().items()) if k[0] in 'rs' and isinstance(v, torch.Tensor)])")
    if d.maybe(0.3):
        other = d.choice((name, name, d.choice(list(PARAMETERS))))
        more = parameters(d, other, lines, "b", dtype)
        lines += [
            Call(f"torch.distributions.{other}", [], more, "other"),
            "kl = torch.distributions.kl_divergence(dist, other)",
        ]
    return Configuration(name, lines)
