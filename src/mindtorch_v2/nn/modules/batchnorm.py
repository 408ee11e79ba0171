"""Normalisation of channels over the batch."""

from typing import Any

import mindtorch_v2 as torch

from .. import functional as F
from ..parameter import UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .normalization import _Affine
from .utils import add_parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
           "SyncBatchNorm"]


class _NormBase(_Affine):
    """What batch and instance normalisation share: weight and bias, and running statistics of each channel."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    _ranks: tuple[int, ...] = ()  # how many dimensions an input may have; empty for any

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
                 bias: bool = True) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        add_parameter(self, "weight", num_features, affine, device, dtype)
        add_parameter(self, "bias", num_features, affine and bias, device, dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype) if tracked else None)
        count = torch.tensor(0, dtype=torch.long, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forgets the running statistics, sets the weight to one and the bias to zero."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if self._ranks and input.dim() not in self._ranks:
            wanted = " or ".join(f"{rank}D" for rank in self._ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
                              *rest: Any) -> None:
        key = prefix + "num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked  # which files of the first version lack
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Channels brought to mean 0 and variance 1 over the batch, then scaled and shifted."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        momentum, training, tracks = self.momentum, self.training, self.track_running_stats
        if training and tracks and (count := self.num_batches_tracked) is not None:
            count.add_(1)
            if momentum is None:  # then the running statistics are the mean over all batches
                momentum = 1.0 / float(count)
        mean, variance = (self.running_mean, self.running_var) if tracks or not training else (None, None)
        return F.batch_norm(input, mean, variance, self.weight, self.bias,
                            training or (mean is None and variance is None), 0.0 if momentum is None else momentum,
                            self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of vectors or sequences."""

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images."""

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of volumes."""

    _ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over all processes of a group; alone it is BatchNorm of any dimension."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None,
                 *, bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        distributed = torch.distributed
        uses_batch = self.training or self.running_mean is None
        if not (uses_batch and self.training and distributed.is_initialized()):
            return super().forward(input)
        group: Any = self.process_group or distributed.group.WORLD
        if group.size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        if input.size(1) != self.num_features:
            raise ValueError(f"expected input with {self.num_features} channels (got {input.size(1)} channels)")
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / self.num_batches_tracked.item()
        from ._sync_batch_norm import SyncBatchNormFunction

        return SyncBatchNormFunction.apply(input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
                                           momentum, group)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every BatchNorm in it replaced by a SyncBatchNorm of the same parameters."""
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                       process_group)
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
            if hasattr(module, "qconfig"):
                made.qconfig = module.qconfig
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _LazyNormBase(LazyModuleMixin, _NormBase):  # type: ignore[misc]
    """A normalisation that takes as many channels as its first input has."""

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            for name in ("running_mean", "running_var"):
                setattr(self, name, UninitializedBuffer(device=device, dtype=dtype))
            self.num_batches_tracked = torch.tensor(0, dtype=torch.long, device=device)

    def reset_parameters(self) -> None:
        """Forgets the running statistics and sets weight and bias, once their shapes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: torch.Tensor) -> None:
        """Gives parameters and running statistics their shapes."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        names = ("weight", "bias", "running_mean", "running_var")
        for tensor in (getattr(self, name) for name in names):
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d with as many channels as its first input."""

    cls_to_become = BatchNorm1d
    _ranks = (2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d with as many channels as its first input."""

    cls_to_become = BatchNorm2d
    _ranks = (4,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d with as many channels as its first input."""

    cls_to_become = BatchNorm3d
    _ranks = (5,)
