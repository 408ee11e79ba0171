"""Losses as modules."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindtorch_v2 as torch

from .. import _reduction
from .. import functional as F
from ._settings import KW_ONLY, settings
from .distance import PairwiseDistance
from .linear import Linear
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions",
    "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
    "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

Tensor = torch.Tensor


class _Loss(Module):
    """A loss and how its elements are reduced: 'none', 'mean' or 'sum'."""

    __constants__ = ["reduction"]
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self._keep(size_average=size_average, reduce=reduce, reduction=reduction)

    def _keep(self, **values: Any) -> None:
        """Stores the settings, tensors as buffers; `size_average` and `reduce` are what `reduction` replaced."""
        size_average, reduce = values.pop("size_average", None), values.pop("reduce", None)
        if size_average is not None or reduce is not None:
            values["reduction"] = _reduction.legacy_get_string(size_average, reduce)
        for name, value in values.items():
            self.register_buffer(name, value) if name.endswith("weight") else setattr(self, name, value)


class _WeightedLoss(_Loss):
    """A loss with a weight for each class, kept as a buffer."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        Module.__init__(self)
        self._keep(weight=weight, size_average=size_average, reduce=reduce, reduction=reduction)


# distances -----------------------------------------------------------------------------------------------------------


class L1Loss(_Loss):
    """|input - target|"""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)^2"""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


@settings
class SmoothL1Loss(_Loss):
    """A square below `beta`, then |input - target|."""

    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"
    beta: float = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


@settings
class HuberLoss(_Loss):
    """A square below `delta`, then a line of slope `delta`."""

    reduction: str = "mean"
    delta: float = 1.0

    def _keep(self, **values: Any) -> None:
        if not isinstance(values["delta"], (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(values['delta'])}")
        super()._keep(**values)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


# classes -------------------------------------------------------------------------------------------------------------


@settings
class NLLLoss(_WeightedLoss):
    """The negative log probability of the target class, from log probabilities."""

    weight: Tensor | None = None
    size_average: bool | None = None
    ignore_index: int = -100
    reduce: bool | None = None
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """NLLLoss under the name it once had for images."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean") -> None:
        warnings.warn("`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
                      "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.", FutureWarning,
                      stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


@settings
class CrossEntropyLoss(_WeightedLoss):
    """The negative log probability of the target class (or classes), from logits."""

    weight: Tensor | None = None
    size_average: bool | None = None
    ignore_index: int = -100
    reduce: bool | None = None
    reduction: str = "mean"
    label_smoothing: float = 0.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, weight=self.weight, ignore_index=self.ignore_index,
                               reduction=self.reduction, label_smoothing=self.label_smoothing)


@dataclass
class LinearCrossEntropyOptions:
    """How PyTorch cuts the batch of a linear_cross_entropy into pieces; taken, and without effect here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(Module):
    """The cross entropy of a linear layer's outputs."""

    def __init__(self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
                 device: Any = None, dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None,
                 ignore_index: int | None = None, label_smoothing: float = 0.0,
                 options: LinearCrossEntropyOptions | None = None) -> None:
        super().__init__()
        self.in_features, self.num_classes, self.out_features = in_features, num_classes, out_features
        self.reduction, self.ignore_index, self.label_smoothing = reduction, ignore_index, label_smoothing
        self.options = options
        self.register_buffer("weight", weight)
        self.linear = Linear(in_features, num_classes * math.prod(out_features), bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        classes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*classes, self.in_features), target,
            linear_bias=None if bias is None else bias.reshape(classes), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options)

    def extra_repr(self) -> str:
        names = "in_features num_classes out_features bias reduction ignore_index label_smoothing options".split()
        shown = {**vars(self), "bias": self.linear.bias is not None}
        return ", ".join(f"{name}={shown[name]}" for name in names)


@settings
class CTCLoss(_Loss):
    """The negative log probability of label sequences, whatever their alignment in time."""

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
                          self.zero_infinity)


# probabilities -------------------------------------------------------------------------------------------------------


class BCELoss(_WeightedLoss):
    """-target log(input) - (1 - target) log(1 - input)"""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


@settings
class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy between sigmoid(input) and target."""

    weight: Tensor | None = None
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"
    pos_weight: Tensor | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, pos_weight=self.pos_weight,
                                                  reduction=self.reduction)


@settings
class KLDivLoss(_Loss):
    """target (log(target) - input)"""

    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"
    log_target: bool = False

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


@settings
class PoissonNLLLoss(_Loss):
    """The negative log likelihood of counts under a Poisson distribution."""

    log_input: bool = True
    full: bool = False
    size_average: bool | None = None
    eps: float = 1e-8
    reduce: bool | None = None
    reduction: str = "mean"

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
                                  reduction=self.reduction)


@settings
class GaussianNLLLoss(_Loss):
    """The negative log likelihood of values under normal distributions."""

    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# margins -------------------------------------------------------------------------------------------------------------


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input))"""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


@settings
class HingeEmbeddingLoss(_Loss):
    """`input` where the target is 1, max(0, margin - input) where it is -1."""

    margin: float = 1.0
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


@settings
class MarginRankingLoss(_Loss):
    """max(0, -target * (input1 - input2) + margin)"""

    margin: float = 0.0
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


@settings
class CosineEmbeddingLoss(_Loss):
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""

    margin: float = 0.0
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The mean over classes of max(0, 1 - score of a target + score of a class that is none), summed over targets."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the binary cross entropy of sigmoid(input)."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


@settings
class MultiMarginLoss(_WeightedLoss):
    """The mean over classes of max(0, margin - score of the target + score)^p."""

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"

    def _keep(self, **values: Any) -> None:
        if values["p"] not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        super()._keep(**values)
        if self.weight is not None and self.weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {self.weight.dim()}D "
                             "instead")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, p=self.p, margin=self.margin, weight=self.weight,
                                   reduction=self.reduction)


class _TripletLoss(_Loss):
    """A loss of triplets, whose margin must be positive."""

    def _keep(self, **values: Any) -> None:
        if values["margin"] <= 0:
            raise ValueError(f"{type(self).__name__}: expected margin to be greater than 0, got {values['margin']} "
                             "instead")
        super()._keep(**values)


@settings
class TripletMarginLoss(_TripletLoss):
    """max(0, distance to the positive - distance to the negative + margin)"""

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps,
                                     swap=self.swap, reduction=self.reduction)


@settings
class TripletMarginWithDistanceLoss(_TripletLoss):
    """TripletMarginLoss with any measure of distance."""

    _: KW_ONLY
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def _keep(self, **values: Any) -> None:
        super()._keep(**values)
        self.distance_function = values["distance_function"] or PairwiseDistance()

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction)
