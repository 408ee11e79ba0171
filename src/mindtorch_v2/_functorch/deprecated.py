"""The package functorch: what torch.func took over, under its old name, with a warning."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..fx.experimental.proxy_tensor import make_fx
from . import eager_transforms
from . import make_functional as _modules
from . import vmap as _vmap
from .make_functional import FunctionalModule, FunctionalModuleWithBuffers

__all__ = ["FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
           "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers",
           "make_fx",           "vjp", "vmap"]


def _deprecated(function: Callable, successor: str) -> Callable:
    @functools.wraps(function)
    def warning(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            "We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{function.__name__}` is deprecated as of PyTorch 2.0 and will be deleted in a future version "
            f"of PyTorch >= 2.3. Please use `{successor}` instead; see the PyTorch 2.0 release notes and/or the "
            "`torch.func` migration guide for more details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return warning


vmap = _deprecated(_vmap.vmap, "torch.vmap")
grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, functionalize = (
    _deprecated(getattr(eager_transforms, name), f"torch.func.{name}")
    for name in ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "functionalize"))
combine_state_for_ensemble = _deprecated(_modules.combine_state_for_ensemble, "torch.func.stack_module_state")
make_functional = _deprecated(_modules.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _deprecated(_modules.make_functional_with_buffers, "torch.func.functional_call")
