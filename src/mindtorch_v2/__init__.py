"""PyTorch's tensors, autograd, nn and optim in readable Python, without PyTorch.

    import mindtorch_v2 as torch
"""

from . import _dtype as _dtype_module
from ._autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from ._device import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    get_default_device,
    layout,
    memory_format,
    preserve_format,
    set_default_device,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from ._dtype import can_cast, dtype, finfo, get_default_dtype, iinfo, promote_types, set_default_dtype
from ._ops import public as _public
from ._ops.declare import public_functions as _public_functions
from ._storage import TypedStorage, UntypedStorage
from ._tensor import Tensor

__version__ = "2.13.0+mindtorch2"

_public.attach_methods()
globals().update(_dtype_module.NAMES)
globals().update(_public_functions("torch"))
