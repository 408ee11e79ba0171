"""Questions about the levels of torch.func."""

from .._functorch.vmap import _add_batch_dim, _remove_batch_dim  # noqa: F401 - by these names
from .._functorch.wrappers import (
    get_unwrapped,
    is_batchedtensor,
    is_functorch_wrapped_tensor,
    is_gradtrackingtensor,
    maybe_get_bdim,
    maybe_get_level,
)

__all__ = ["get_unwrapped", "is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor",
           "maybe_get_bdim", "maybe_get_level"]
