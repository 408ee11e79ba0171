"""Questions about the levels of torch.func."""

from .._absent import absent_function
from .._functorch.wrappers import (
    get_unwrapped,
    is_batchedtensor,
    is_functorch_wrapped_tensor,
    is_gradtrackingtensor,
    maybe_get_bdim,
    maybe_get_level,
)

__all__ = ["get_unwrapped", "is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor", "maybe_get_bdim",
           "maybe_get_level"]

_add_batch_dim, _remove_batch_dim = (absent_function(f"torch._C._functorch.{name}", "Use torch.vmap.")
                                     for name in ("_add_batch_dim", "_remove_batch_dim"))
