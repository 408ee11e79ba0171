"""PyTorch's tensors, autograd, nn and optim in readable Python, without PyTorch.

    import mindtorch_v2 as torch
"""

import importlib as _importlib
from typing import Any as _Any

from . import _convert, _indexing
from . import _dtype as _dtype_module
from ._autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from ._convert import (
    get_device,
    is_complex,
    is_floating_point,
    is_inference,
    is_nonzero,
    is_same_size,
    is_signed,
    is_storage,
    is_tensor,
    numel,
    result_type,
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
from ._dispatch.keys import modes as _modes
from ._dispatch.pipeline import pipeline
from ._dlpack import from_dlpack
from ._dtype import can_cast, dtype, finfo, get_default_dtype, iinfo, promote_types, set_default_dtype
from ._from_data import as_tensor, asarray, from_numpy, frombuffer, tensor
from ._generator import Generator, default_generator
from ._legacy import TENSOR_TYPES as _TENSOR_TYPES
from ._legacy import set_default_tensor_type, typename
from ._operator_names import ops
from ._ops import public as _public
from ._ops.declare import public_functions as _public_functions
from ._printing import set_printoptions
from ._resize import resize_as_
from ._storage import TypedStorage, UntypedStorage
from ._tensor import Tensor
from ._warn import is_warn_always_enabled, set_warn_always
from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__version__ = "2.13.0+mindtorch2"

_public.attach_methods()
_convert.attach()
_indexing.attach()
globals().update(_dtype_module.NAMES)
globals().update(_public_functions("torch"))
globals().update(_TENSOR_TYPES)
from ._ops.index import nonzero  # noqa: E402
from .functional import (  # noqa: E402 - stands on the operators
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    einsum,
    meshgrid,
    split,
    tensordot,
    unravel_index,
)


def is_anomaly_enabled() -> bool:
    return _modes.__dict__.get("anomaly", False)


def is_anomaly_check_nan_enabled() -> bool:
    return _modes.__dict__.get("anomaly_nan", False)


# Loaded when first asked for: importing the package pays for tensors and operators only.
_SUBMODULES = frozenset("_C amp autograd functional library linalg nn npu optim overrides random special utils".split())


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in ("autocast", "is_autocast_enabled"):
        return getattr(_importlib.import_module(f"{__name__}.amp.autocast_mode"), name)
    if name == "get_autocast_dtype":
        return _importlib.import_module(f"{__name__}.amp.autocast_mode").autocast_dtype
    if name == "OutOfMemoryError":
        return _importlib.import_module(f"{__name__}._backends.npu.errors").OutOfMemoryError
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
