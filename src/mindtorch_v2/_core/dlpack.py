"""DLPack: memory shared with other array libraries of the same process."""

from enum import IntEnum
from typing import Any

import numpy as np

from .._dispatch.argument_checks import takes
from .device import CPU, strided
from .dtype import OF_ARRAY
from .from_data import from_numpy, on_borrowed, writable
from .tensor import Tensor


class DLDeviceType(IntEnum):
    """The kinds of device that DLPack knows."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def dlpack_device(self: Tensor) -> tuple[DLDeviceType, int]:
    """Where this tensor's memory is, in DLPack's terms."""
    if self.device.type == "cuda":
        return DLDeviceType.kDLCUDA, self.device.index or 0
    if self.device is not CPU:
        raise ValueError(f"Unknown device type {self.device.type} for Dlpack")
    return DLDeviceType.kDLCPU, 0


_REQUIRES_GRAD = "Can't export tensors that require gradient, use tensor.detach()"


def dlpack(self: Tensor, *, stream: Any = -1, max_version: tuple[int, int] | None = None, dl_device: Any = None,
           copy: bool | None = None) -> Any:
    """A capsule through which another library shares this tensor's memory."""
    if self.requires_grad:
        raise BufferError(_REQUIRES_GRAD)
    if self.device.type == "cuda":
        return self._array.view.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
    if self.device is not CPU:
        raise BufferError(f"Cannot pack tensors on {self.device}")
    if self.layout is not strided:
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if stream is not None and not isinstance(stream, int):
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    if self.is_conj():  # type: ignore[attr-defined]
        raise BufferError("Can't export tensors with the conjugate bit set")
    array = self._host_array("__dlpack__()")
    if array.dtype.isbuiltin != 1:
        raise BufferError(
            f"{self.dtype} has no NumPy type to export it with: use tensor.view(torch.uint8) or tensor.float()"
        )
    self._expose(for_good=True)
    # A fresh view, since an array that NumPy exports must stay as it is while a tensor's may be replaced.
    return array.view().__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


def is_capsule(value: Any) -> bool:
    """Whether something is what `to_dlpack` gives out."""
    return type(value).__name__ == "PyCapsule"


class _Capsule:
    """A bare capsule with the two methods that consumers call."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLDeviceType.kDLCPU, 0


@takes("_to_dlpack(Tensor data)")
def to_dlpack(tensor: Tensor) -> Any:
    return dlpack(tensor)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array, or of a capsule."""
    if isinstance(ext_tensor, Tensor) and ext_tensor.requires_grad:
        raise BufferError(_REQUIRES_GRAD)
    if isinstance(ext_tensor, Tensor) and ext_tensor.device.type == "cuda":
        made = ext_tensor.detach()
    elif isinstance(ext_tensor, Tensor):
        ext_tensor._expose(for_good=True)
        made = on_borrowed(ext_tensor.detach()._host_array("from_dlpack()").view())
    else:
        source = ext_tensor
        if not hasattr(ext_tensor, "__dlpack__"):
            if not is_capsule(ext_tensor) or "used" in repr(ext_tensor):
                raise RuntimeError("from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
                                   "consumed only once, so you might have already constructed a tensor from it once.")
            source = _Capsule(ext_tensor)
        if source.__dlpack_device__()[0] == DLDeviceType.kDLCUDA:
            made = _on_gpu(source)
            made = made.clone() if copy else made  # type: ignore[attr-defined]
            return made if device is None else made.to(device)  # type: ignore[attr-defined]
        array = np.from_dlpack(source)
        if array.dtype not in OF_ARRAY:
            raise BufferError(f"no torch type for NumPy's {array.dtype}")
        made = from_numpy(writable(array))  # older capsules do not say whether they may be written
    if copy:
        made = made.clone()  # type: ignore[attr-defined]
    return made if device is None else made.to(device)  # type: ignore[attr-defined]


def _on_gpu(source: Any) -> Tensor:
    """A tensor on the memory of another library's array on a GPU."""
    from .._backends.cuda.runtime import require

    require()
    import cupy

    return of_cupy(cupy.from_dlpack(source))


def of_cupy(array: Any) -> Tensor:
    """A tensor on the memory of a `cupy.ndarray`."""
    from .._backends.cuda.array import of_view
    from .._backends.cuda.families import wrap_cuda
    from .._backends.cuda.runtime import device_of

    return wrap_cuda(of_view(array, device_of(array.device.id)))
