"""Function transforms: grad, vjp, jvp, vmap and what is made of them, nested at will."""

from .._functorch.eager_transforms import (
    debug_unwrap,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from .._functorch.functional_call import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .._functorch.rearrange import rearrange
from .._functorch.vmap import vmap
from .._ops._declare.documentation import explain as _explain

__all__ = ["debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev",
           "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap"]
_explain("func", globals())
