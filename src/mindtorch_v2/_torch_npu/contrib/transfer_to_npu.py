"""From the import of this module on, a program that names CUDA gets the NPU."""

import functools
from typing import Any

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
from mindtorch_v2 import cuda, nn, npu
from mindtorch_v2._core.device import rename_device_type
from mindtorch_v2.amp import autocast_mode, grad_scaler


def _renamed(value: Any) -> Any:
    return "npu" if value == "cuda" else value


def _with_renamed_type(function: Any) -> Any:
    """The function with "cuda" as its first argument, or as `device_type` or `device`, taken for "npu"."""

    @functools.wraps(function)
    def renamed(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = (_renamed(args[0]), *args[1:]) if args else args
        return function(self, *given, **{k: _renamed(v) if k in ("device_type", "device") else v
                                         for k, v in kwargs.items()})

    return renamed


def _transfer() -> None:
    rename_device_type("cuda", "npu")
    for name in dir(cuda):
        if not name.startswith("_") and hasattr(npu, name) and name not in ("Any", "sys", "functools"):
            setattr(cuda, name, getattr(npu, name))
    begin, tensor, module = dist.init_process_group, torch.Tensor, nn.Module
    for owner, name, value in ((cuda, "CUDAGraph", npu.NPUGraph), (tensor, "cuda", tensor.npu),
                               (tensor, "is_cuda", property(lambda self: self.device.type == "npu")),
                               (module, "cuda", module.npu)):  # fmt: skip
        setattr(owner, name, value)
    for kind in (autocast_mode.autocast, grad_scaler.GradScaler):
        setattr(kind, "__init__", _with_renamed_type(kind.__init__))  # type: ignore[misc] # noqa: B010

    @functools.wraps(begin)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return begin("hccl" if backend == "nccl" else backend, *args, **kwargs)

    dist.init_process_group = init_process_group  # type: ignore[assignment]


_transfer()
