"""PyTorch's tensors, autograd, nn and optim in readable Python, without PyTorch.

    import mindtorch_v2 as torch
"""

import importlib as _importlib
import os as _os
import sys as _sys
from math import e, inf, nan, pi
from typing import Any as _Any

from . import (
    _marked,
    _platforms,  # first: before NumPy is asked for anything
    _torch_dispatch,
)
from ._autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from ._autograd import roots as _roots
from ._compat.absent_modules import ABSENT_MODULES as _ABSENT_MODULES
from ._compat.absent_modules import attach as _attach_absent_modules
from ._compat.old_names import attach as _attach_old_names
from ._compat.operator_names import ops
from ._compat.tensor_types import TENSOR_TYPES as _TENSOR_TYPES
from ._compat.tensor_types import set_default_tensor_type, typename
from ._core import convert as _convert
from ._core import dtype as _dtype_module
from ._core import indexing as _indexing
from ._core import tensor as _tensor
from ._core.convert import (
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
from ._core.device import (
    Size,
    _mkldnn,  # noqa: F401
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    get_default_device,
    jagged,
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
from ._core.dlpack import from_dlpack
from ._core.dtype import can_cast, dtype, finfo, get_default_dtype, iinfo, promote_types, set_default_dtype
from ._core.from_data import _from_blob, as_tensor, asarray, from_file, from_numpy, frombuffer, tensor  # noqa: F401
from ._core.generator import Generator, default_generator
from ._core.printing import set_printoptions
from ._core.resize import resize_as_
from ._core.sparse_api import (
    _validate_compressed_sparse_indices,  # noqa: F401 - PyTorch has them here too
    _validate_sparse_bsc_tensor_args,  # noqa: F401
    _validate_sparse_bsr_tensor_args,  # noqa: F401
    _validate_sparse_compressed_tensor_args,  # noqa: F401
    _validate_sparse_coo_tensor_args,  # noqa: F401
    _validate_sparse_csc_tensor_args,  # noqa: F401
    _validate_sparse_csr_tensor_args,  # noqa: F401
    hspmm,
    smm,
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from ._core.sparse_api import attach as _attach_sparse
from ._core.storage import StorageBase, TypedStorage, UntypedStorage
from ._core.tensor import Tensor
from ._core.warn import is_warn_always_enabled, set_warn_always
from ._dispatch.keys import modes as _modes
from ._dispatch.pipeline import pipeline
from ._dispatch.python_key import register as _register_python_key
from ._ops._declare import documentation as _documentation
from ._ops._declare import public as _public
from ._ops._declare.op import public_functions as _public_functions
from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .torch_version import TorchVersion as _TorchVersion

__version__ = _TorchVersion("2.13.0+mindtorch2")

_sys.modules[f"{__name__}._tensor"] = _tensor  # where PyTorch has it
_register_python_key()
_torch_dispatch.attach()
_marked.attach()
_public.attach_methods()
_roots.attach()
_convert.attach()
_attach_sparse()
_indexing.attach()
_attach_old_names()
_attach_absent_modules()
# Methods that PyTorch has as functions too.
globals().update({_name: getattr(Tensor, _name) for _name in """
    as_strided_ detach detach_ index_put_ is_conj is_distributed is_neg
""".split()})
legacy_contiguous_format, newaxis = contiguous_format, None
globals().update(_dtype_module.NAMES)
globals().update(_public_functions("torch"))
spmm = hsmm = dsmm = Tensor.mm  # type: ignore[attr-defined]
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
    chain_matmul,
    einsum,
    lu,
    meshgrid,
    split,
    tensordot,
    unravel_index,
)


def is_anomaly_enabled() -> bool:
    """Whether backward looks for what made an error, or NaN."""
    return _modes.__dict__.get("anomaly", False)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether backward stops at NaN."""
    return _modes.__dict__.get("anomaly_nan", False)


_documentation.explain("torch", globals())
_documentation.explain("Tensor", {**vars(Tensor.__base__), **vars(Tensor)})

# Loaded when first asked for: importing the package pays for tensors and operators only.
_SUBMODULES = frozenset("""
    _C __config__ __future__ _compat _custom_ops _dynamo _functorch _higher_order_ops _inductor _jit_internal _lobpcg
    _logging _lowrank _decomp _prims _prims_common _refs
    _library _custom_op _utils_internal _subclasses _tensor_str _utils _vmap_internals _weights_only_unpickler
    accelerator amp ao autograd backends compiler
    cpu cuda distributed distributions export fft func functional futures fx hub jit library linalg masked monitor
    mps mtia multiprocessing nested nn npu onnx optim overrides package profiler quantization quasirandom random
    return_types serialization signal sparse special storage testing torch_version types utils version xpu
""".split())
_ATTRIBUTES = {
    "_torchscript": _ABSENT_MODULES["_torchscript"].classes,
    "_subclasses.functional_names": """
        _disable_functionalization _enable_functionalization _freeze_functional_tensor _from_functional_tensor
        _functionalize_commit_update _functionalize_has_data_mutation _functionalize_has_metadata_mutation
        _functionalize_is_multi_output_view _functionalize_replace _functionalize_sync
        _functionalize_was_inductor_storage_resized _functionalize_was_storage_changed _is_functional_tensor
        _is_functional_tensor_base _mirror_autograd_meta_to _sync _to_functional_tensor""",
    "_core.device_objects": "AcceleratorError Event OutOfMemoryError Stream get_device_module",
    "_compat.old_names": """DeviceObjType FatalError Tag detach_copy eig empty_quantized has_cuda has_cudnn has_lapack
                     has_mkl has_mkldnn has_mps has_openmp has_spectral init_num_threads is_vulkan_available
                     lstsq matrix_rank per_channel_affine per_channel_affine_float_qparams per_channel_symmetric
                     per_tensor_affine per_tensor_symmetric qscheme set_anomaly_enabled solve symeig""",
    "_quantized": """_choose_qparams_per_tensor _make_per_channel_quantized_tensor _make_per_tensor_quantized_tensor
                     dequantize fake_quantize_per_channel_affine fake_quantize_per_tensor_affine int_repr
                     q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point
                     quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic""",
    "_core.checks": """_assert _assert_async _assert_tensor_metadata _check _check_index _check_is_size
                  _check_not_implemented _check_tensor_all _check_tensor_all_with _check_type _check_value
                  _check_with""",
    "_C": "DispatchKey DisableTorchFunction DisableTorchFunctionSubclass PyTorchFileReader PyTorchFileWriter",
    "futures": "Future",
    "_compile": "_disable_dynamo compile",
    "_compat.drop_in": "install uninstall",
    "_functorch.vmap": "vmap",
    "_higher_order_ops.cond": "cond",
    "_higher_order_ops.while_loop": "while_loop",
    "_lobpcg": "lobpcg",
    "_lowrank": "pca_lowrank svd_lowrank",
    "_core.settings": """are_deterministic_algorithms_enabled compiled_with_cxx11_abi get_deterministic_debug_mode
                    get_float32_matmul_precision is_deterministic_algorithms_warn_only_enabled
                    set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal
                    use_deterministic_algorithms""",
    "_symbolic": "SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum",
    "_core.threads": "get_num_interop_threads get_num_threads set_num_interop_threads set_num_threads",
    "amp._state": """autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_cpu_dtype
                     get_autocast_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype get_autocast_xla_dtype
                     is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled is_autocast_ipu_enabled
                     is_autocast_xla_enabled set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
                     set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_autocast_ipu_dtype
                     set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled""",
    "jit": "ScriptFunction ScriptModule",
    "amp.autocast_mode": "autocast",
    "amp.grad_scaler": "GradScaler",
    "random": "fork_rng thread_safe_generator",
    "serialization": "load save",
    "utils.dlpack": "to_dlpack",
    "storage": """BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
                  DoubleStorage FloatStorage HalfStorage IntStorage LongStorage QInt32Storage QInt8Storage
                  QUInt2x4Storage QUInt4x2Storage QUInt8Storage ShortStorage
                  Storage""",
}
_HOME = {attribute: module for module, names in _ATTRIBUTES.items() for attribute in names.split()}


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        try:
            return _importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as missing:
            if missing.name != f"{__name__}.{name}":
                raise
    elif name in _HOME:
        attribute = getattr(_importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        return _documentation.explained("torch", name, attribute)
    elif name == "torch":
        return _importlib.import_module(__name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


if _os.environ.get("MINDTORCH_TRACE"):
    from ._pipeline.explain import watch_program as _watch_program

    _watch_program(_os.environ["MINDTORCH_TRACE"])
