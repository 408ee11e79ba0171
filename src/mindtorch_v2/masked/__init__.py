"""torch.masked: reductions and normalisations that leave masked-out elements out."""

from ._ops import (
    _canonical_dim,  # noqa: F401 - PyTorch has these four here
    _input_mask,  # noqa: F401
    _output_mask,  # noqa: F401
    _where,  # noqa: F401
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,  # noqa: A004 - PyTorch's name
    var,
)

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
           "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]
