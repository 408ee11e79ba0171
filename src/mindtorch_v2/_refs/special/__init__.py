"""torch._refs.special: operators of torch.special written as other operators."""

from .. import fill

__all__ = """
    bessel_j0 bessel_j1 entr erfcx expit i0e i1 i1e log_ndtr log_softmax logit multigammaln ndtr ndtri softmax
    spherical_bessel_j0 xlog1py zeta""".split()

fill(__name__, "special", __all__)
