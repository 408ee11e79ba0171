"""Names that PyTorch keeps from its past, or for what is not here: switches, removed functions, old methods."""

import enum
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .._core.device import NamedConstant
from .._core.dtype import dtype, float32
from .._core.tensor import Tensor
from .absent import absent_function

has_lapack = has_openmp = has_spectral = True
has_mkl = has_cuda = has_cudnn = has_mps = False
_INSTEAD_OF_REMOVED = {"eig": "torch.linalg.eig", "lstsq": "torch.linalg.lstsq", "solve": "torch.linalg.solve",
                       "matrix_rank": "torch.linalg.matrix_rank", "symeig": "torch.linalg.eigh"}
_QUANTIZATION = "empty_quantized"


def __getattr__(name: str) -> bool:
    """`has_mkldnn`, for which oneDNN is looked for."""
    if name != "has_mkldnn":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..backends.mkldnn import is_available

    return is_available()


class FatalError(RuntimeError):
    """The library is in a state in which nothing works any more."""


class DeviceObjType:
    """A name that annotations use where they mean torch.device."""


class Tag(enum.IntEnum):
    """What may be said of an operator declared with torch.library."""

    (core, cudagraph_unsafe, data_dependent_output, dynamic_output_shape, flexible_layout, generated, inplace,
     inplace_view, maybe_aliasing_or_mutating, needs_contiguous_strides, needs_exact_strides, needs_fixed_stride_order,
     nondeterministic_bitwise, nondeterministic_seeded, out, out_variant, pointwise, pt2_compliant_tag, reduction,
     view_copy) = range(20)


class qscheme(NamedConstant):
    """How numbers are mapped to a quantized type."""


per_tensor_affine, per_channel_affine, per_tensor_symmetric, per_channel_symmetric, per_channel_affine_float_qparams = (
    map(qscheme, ("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric",
                  "per_channel_affine_float_qparams")))


def is_vulkan_available() -> bool:
    return False


def init_num_threads() -> None:
    """Nothing: threads are made when they are needed."""


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switches the checks of torch.autograd.detect_anomaly on or off."""
    from ..autograd.anomaly_mode import set_detect_anomaly

    set_detect_anomaly(enabled, check_nan)


def detach_copy(input: Tensor) -> Tensor:
    return input.detach().clone()


def _removed(name: str, instead: str) -> Callable:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("This function was deprecated since version 1.9 and is now removed. "
                           f"`torch.{name}` is replaced by `{instead}`.")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed from PyTorch: raises RuntimeError, which names {instead}."
    return function


REMOVED = {name: _removed(name, instead) for name, instead in _INSTEAD_OF_REMOVED.items()}
globals().update(REMOVED)
globals().update({name: absent_function(f"torch.{name}") for name in _QUANTIZATION.split()})


# methods of Tensor ---------------------------------------------------------------------------------------------------


def _in_size(tensor: Tensor, sizes: Sequence[Any]) -> Tensor:
    if tensor.numel() != math.prod(sizes):
        wanted, has = ("x".join(map(str, shape)) for shape in (sizes, tensor.shape))
        raise RuntimeError(f"requested resize to {wanted} ({math.prod(sizes)} elements in total), but the given tensor "
                           f"has a size of {has} ({tensor.numel()} elements). autograd's resize can only change the "
                           "shape of a given tensor, while preserving the number of elements. ")
    return tensor.contiguous().view(*sizes)  # type: ignore[attr-defined]


def _resized(self: Tensor, *sizes: Any) -> Tensor:
    """The elements in another shape, as a view if they lie in order. Deprecated."""
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    return _in_size(self, sizes)


def _resized_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The elements in the shape of another tensor, as a view if they lie in order. Deprecated."""
    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return _in_size(self, tensor.shape)


def _dequantized(self: Tensor) -> Tensor:
    """The tensor as float32."""
    return self.to(float32)


def _storage_type(self: Tensor) -> type:
    """The class of the tensor's typed storage."""
    from .. import storage

    return getattr(storage, f"{self.dtype.scalar_name}Storage")


def _module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What load_state_dict puts in this tensor's place when it swaps tensors."""
    if assign:
        return other.detach() if type(other) is type(self) else type(self)(other)
    return self.copy_(other).detach()


def _grad_dtype(self: Tensor) -> dtype | None:
    """The type of this tensor's gradient."""
    return self.dtype


def _set_grad_dtype(self: Tensor, value: dtype | None) -> None:
    if value is not self.dtype:
        raise NotImplementedError("mindtorch_v2 has gradients in the types of their tensors only.")


def _moved_to(kind: str) -> Callable:
    def method(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        raise RuntimeError(f"PyTorch is not linked with support for {kind} devices")

    method.__name__ = method.__qualname__ = kind
    method.__doc__ = f"Raises RuntimeError: there are no {kind} devices here."
    return method


def _of_quantized(name: str) -> Callable:
    def method(self: Tensor) -> Any:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: only quantized "
                                  "tensors have it")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Raises NotImplementedError: {name} is for quantized tensors."
    return method


def _to_mkldnn(self: Tensor, dtype: Any = None) -> Tensor:
    """The tensor in the layout of oneDNN."""
    from .._opaque import to_mkldnn

    return to_mkldnn(self, dtype)


def attach() -> None:
    """Adds the methods to Tensor."""
    kept: dict[str, Any] = {
        "__pos__": lambda self: self, "__nonzero__": Tensor.__bool__, "__long__": Tensor.__int__,
        "__div__": lambda self, other: self / other, "__idiv__": lambda self, other: self.div_(other),
        "dequantize": _dequantized, "resize": _resized, "resize_as": _resized_as, "storage_type": _storage_type,
        "to_mkldnn": _to_mkldnn, "module_load": _module_load,
        "grad_dtype": property(_grad_dtype, _set_grad_dtype), "name": property(lambda self: None),
        "volatile": property(lambda self: False), **{kind: _moved_to(kind) for kind in ("ipu", "mtia", "xpu")},
        **{name: function for name, function in REMOVED.items() if name != "matrix_rank"},
        **{name: _of_quantized(name) for name in """int_repr q_scale q_zero_point q_per_channel_axis
           q_per_channel_scales q_per_channel_zero_points qscheme""".split()},
        **{name: absent_function(f"torch.Tensor.{name}") for name in "reinforce to_padded_tensor".split()}}
    for name, value in kept.items():
        if not hasattr(Tensor, name):
            setattr(Tensor, name, value)
