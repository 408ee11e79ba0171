"""The share of a dataset that one of several processes gets."""

import math
from collections.abc import Iterator
from typing import TypeVar

import mindtorch_v2 as torch

from ... import distributed as dist
from .dataset import Dataset
from .sampler import Sampler

__all__ = ["DistributedSampler"]

_T_co = TypeVar("_T_co", covariant=True)


class DistributedSampler(Sampler[_T_co]):
    """Every `num_replicas`-th index from `rank` on; all processes shuffle alike, anew after each `set_epoch`."""

    def __init__(self, dataset: Dataset, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False) -> None:
        num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
        rank = dist.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch, self.drop_last = (
            dataset, num_replicas, rank, 0, drop_last)
        size = len(dataset)  # type: ignore[arg-type]
        self.num_samples = size // num_replicas if drop_last else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle, self.seed = shuffle, seed

    def __iter__(self) -> Iterator[_T_co]:
        size = len(self.dataset)  # type: ignore[arg-type]
        indices = list(range(size))
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            indices = torch.randperm(size, generator=generator).tolist()
        if self.total_size > size:  # the first ones come again, so that all processes get equally many
            indices *= math.ceil(self.total_size / size)
        return iter(indices[self.rank : self.total_size : self.num_replicas])  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration shuffle in another order, the same in all processes."""
        self.epoch = epoch
