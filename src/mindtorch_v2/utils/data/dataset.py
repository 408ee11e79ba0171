"""Where samples come from: by index, or one after another."""

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import mindtorch_v2 as torch
from mindtorch_v2 import Generator, Tensor, default_generator

__all__ = ["ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
           "random_split"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Samples by key: a subclass has `__getitem__`, mostly `__len__`, and `__getitems__` if it gives many at once."""

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset[_T_co]") -> "ConcatDataset[_T_co]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Samples one after another: a subclass has `__iter__`. With workers, each iterates over a copy of its own."""

    def __add__(self, other: Dataset[_T_co]) -> "ChainDataset":  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The slices of some tensors along their first dimension."""

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].size(0)


def _items(dataset: Any, indices: Sequence[Any]) -> Sequence[Any]:
    """Several samples, asked for at once where the dataset can do that."""
    many = getattr(dataset, "__getitems__", None)
    return many(indices) if callable(many) else [dataset[i] for i in indices]


class StackDataset(Dataset[Any]):
    """Samples of several datasets side by side: tuples, or dicts if the datasets have names."""

    datasets: tuple | dict

    def __init__(self, *args: Dataset[_T_co], **kwargs: Dataset[_T_co]) -> None:
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                             "input/output, but both types are given.")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        self._length = len(self._parts()[0])  # type: ignore[arg-type]
        if any(len(part) != self._length for part in self._parts()):  # type: ignore[arg-type]
            raise ValueError("Size mismatch between datasets")

    def _parts(self) -> list[Dataset]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _named(self, values: Iterable[Any]) -> Any:
        return dict(zip(self.datasets, values)) if isinstance(self.datasets, dict) else tuple(values)

    def __getitem__(self, index: Any) -> Any:
        return self._named(part[index] for part in self._parts())

    def __getitems__(self, indices: list) -> list:
        columns = [_items(part, indices) for part in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError("Nested dataset's output size mismatch. Expected "
                                 f"{len(indices)}, got {len(column)}")
        return [self._named(values) for values in zip(*columns)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Datasets one behind the other, as one."""

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> list[int]:
        return list(itertools.accumulate(len(part) for part in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        part = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[part][idx - (self.cumulative_sizes[part - 1] if part else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        warnings.warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Iterable datasets one behind the other, as one."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield part

    def __iter__(self) -> Iterator[Any]:
        for part in self._checked():
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self._checked())


class Subset(Dataset[_T_co]):
    """The samples of a dataset at some indices."""

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> Sequence[_T_co]:
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[_T], lengths: Sequence[int | float],
                 generator: Generator | None = default_generator) -> list[Subset[_T]]:
    """Subsets of the given sizes, or shares of the whole, that do not overlap."""
    size = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, share in enumerate(lengths):
            if not 0 <= share <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        counts = [math.floor(size * share) for share in lengths]
        for i in range(size - sum(counts)):  # what rounding left over goes to the first ones
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.",
                              stacklevel=2)
        lengths = counts
    if sum(lengths) != size:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = torch.randperm(size, generator=generator).tolist()
    ends = itertools.accumulate(int(length) for length in lengths)
    return [Subset(dataset, order[end - int(length) : end]) for end, length in zip(ends, lengths)]
