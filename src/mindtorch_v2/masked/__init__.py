"""torch.masked: reductions and normalisations that leave masked-out elements out."""

from ._ops import (
    _canonical_dim,  # noqa: F401 - PyTorch has these five here
    _combine_input_and_mask,  # noqa: F401
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
from .maskedtensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor",
           "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
           "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]
