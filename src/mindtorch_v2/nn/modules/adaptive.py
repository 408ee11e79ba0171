"""A softmax over many classes, the rare ones in clusters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: torch.Tensor
    loss: torch.Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of target classes: a head of frequent classes and of clusters, and a tail for each cluster."""

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
                 head_bias: bool = False, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (cutoffs != sorted(cutoffs) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1
                or len(set(cutoffs)) != len(cutoffs) or any(int(c) != c for c in cutoffs)):
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                             "where each value is between 1 and n_classes-1")
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        factory = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            hidden = int(in_features // div_value ** (i + 1))
            self.tail.append(Sequential(Linear(in_features, hidden, bias=False, **factory),
                                        Linear(hidden, high - low, bias=False, **factory)))

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        self.head.reset_parameters()
        for cluster in self.tail:
            first, second = cluster.children()
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: torch.Tensor, target_: torch.Tensor) -> _ASMoutput:
        if target_.dim() not in (0, 1):
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.dim() != target_.dim() + 1 or (target_.dim() and input_.shape[0] != target_.shape[0]):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        input, target = (input_, target_) if target_.dim() else (input_.unsqueeze(0), target_.unsqueeze(0))
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                               f"[{target.min().item()}, {target.max().item()}] were found. ")
        head = F.log_softmax(self.head(input), 1)
        in_head = torch.where(target < self.shortlist_size, target, self.shortlist_size)
        extra = input.new_zeros(target.shape)
        for i, tail in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            members = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if members.numel():
                in_head = in_head.index_fill(0, members, self.shortlist_size + i)
                inside = F.log_softmax(tail(input.index_select(0, members)), 1)
                wanted = target.index_select(0, members) - low
                extra = extra.index_copy(0, members, inside.gather(1, wanted.unsqueeze(1)).squeeze(1).to(extra.dtype))
        output = extra + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if target_.dim() else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: torch.Tensor, head_output: torch.Tensor) -> torch.Tensor:
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return torch.cat(parts, 1)

    def log_prob(self, input: torch.Tensor) -> torch.Tensor:
        """Log probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: torch.Tensor) -> torch.Tensor:
        """The most probable class of each sample; clusters are looked into only where the head prefers them."""
        head = self.head(input)
        output = head.argmax(1)
        rare = output >= self.shortlist_size
        if not rare.any():
            return output
        if rare.all():
            return self._get_full_log_prob(input, head).argmax(1)
        return output.masked_scatter(rare, self._get_full_log_prob(input[rare], head[rare]).argmax(1))
