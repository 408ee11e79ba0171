"""Pipes of samples that come one after another."""

import copy
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...._compat.absent import absent_class
from .._utils.collate import default_collate
from .._utils.worker import get_worker_info
from ..sampler import SequentialSampler, drawn_seed
from ._decorator import functional_datapipe
from .datapipe import DataChunk, IterDataPipe

__all__ = ["Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter", "Forker",
           "Grouper", "IterableWrapper", "Mapper", "Multiplexer", "RoutedDecoder", "Sampler", "ShardingFilter",
           "Shuffler", "StreamReader", "UnBatcher", "Zipper"]


class IterableWrapper(IterDataPipe):
    """The elements of an iterable, copied first so that nobody changes it under the pipe."""

    def __init__(self, iterable: Iterable, deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


class _OnPipe(IterDataPipe):
    """A pipe that stands on one other, and is as long."""

    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("map")
class Mapper(_OnPipe):
    """A function of each sample, or of its parts at `input_col`, whose result goes to `output_col`."""

    def __init__(self, datapipe: Any, fn: Callable, input_col: Any = None, output_col: Any = None) -> None:
        super().__init__(datapipe)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        self.fn, self.input_col, self.output_col = fn, input_col, output_col

    def _apply(self, sample: Any) -> Any:
        if self.input_col is None:
            return self.fn(sample)
        several = isinstance(self.input_col, (list, tuple))
        result = self.fn(*(sample[i] for i in self.input_col)) if several else self.fn(sample[self.input_col])
        parts = list(sample) if isinstance(sample, tuple) else copy.copy(sample)
        if self.output_col == -1:
            parts.append(result)
        else:
            first = self.input_col[0] if several else self.input_col
            parts[first if self.output_col is None else self.output_col] = result
        return tuple(parts) if isinstance(sample, tuple) else parts

    def __iter__(self) -> Iterator[Any]:
        return map(self._apply, self.datapipe)


@functional_datapipe("collate")
class Collator(Mapper):
    """A collating function of each batch."""

    def __init__(self, datapipe: Any, conversion: Any = default_collate, collate_fn: Callable | None = None) -> None:
        super().__init__(datapipe, collate_fn or conversion)


@functional_datapipe("filter")
class Filter(_OnPipe):
    """The samples for which a function, of the whole or of the part at `input_col`, says True."""

    def __init__(self, datapipe: Any, filter_fn: Callable, input_col: Any = None) -> None:
        super().__init__(datapipe)
        self.filter_fn, self.input_col = filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            kept = self.filter_fn(sample if self.input_col is None else sample[self.input_col])
            if not isinstance(kept, bool):
                raise ValueError("Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(kept))
            if kept:
                yield sample


@functional_datapipe("batch")
class Batcher(_OnPipe):
    """Several samples at a time."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False,
                 wrapper_class: type = DataChunk) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__(datapipe)
        self.batch_size, self.drop_last, self.wrapper_class = batch_size, drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        samples = iter(self.datapipe)
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcher(_OnPipe):
    """The elements of batches, and of batches in them down to `unbatch_level` (-1: all the way)."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        super().__init__(datapipe)
        self.unbatch_level = unbatch_level

    def _parts(self, sample: Any, level: int) -> Iterator[Any]:
        if level and isinstance(sample, list):
            for part in sample:
                yield from self._parts(part, level - 1)
        elif level > 0:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            yield sample

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield from self._parts(sample, self.unbatch_level)


@functional_datapipe("shuffle")
class Shuffler(_OnPipe):
    """The samples in random order, as far as a buffer allows; the same seed gives PyTorch's order."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        super().__init__(datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level))
        self.buffer_size, self._enabled, self._seed = buffer_size, True, None

    def set_shuffle(self, shuffle: bool = True) -> "Shuffler":
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> "Shuffler":
        self._seed = seed  # type: ignore[assignment]
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        source = random.Random(drawn_seed() if self._seed is None else self._seed)
        self._seed = None
        buffer: list[Any] = []
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            at = source.randint(0, len(buffer) - 1)
            yield buffer[at]
            buffer[at] = sample
        while buffer:
            yield buffer.pop(source.randint(0, len(buffer) - 1))


@functional_datapipe("sharding_filter")
class ShardingFilter(_OnPipe):
    """In each worker process its share of the samples: every n-th."""

    shares: tuple[int, int] | None = None

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        self.shares = num_of_instances, instance_id

    def _shares(self) -> tuple[int, int]:
        info = get_worker_info()
        return self.shares or ((1, 0) if info is None else (info.num_workers, info.id))

    def __iter__(self) -> Iterator[Any]:
        step, first = self._shares()
        return itertools.islice(self.datapipe, first, None, step)

    def __len__(self) -> int:
        step, first = self._shares()
        return len(range(first, len(self.datapipe), step))


class Sampler(_OnPipe):
    """What a sampler makes of a pipe."""

    def __init__(self, datapipe: Any, sampler: Any = SequentialSampler, sampler_args: tuple | None = None,
                 sampler_kwargs: dict | None = None) -> None:
        super().__init__(datapipe)
        self.sampler = sampler(*(sampler_args or ()), data_source=datapipe, **(sampler_kwargs or {}))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


class _OnPipes(IterDataPipe):
    """A pipe that stands on several others."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes


@functional_datapipe("concat")
class Concater(_OnPipes):
    """Pipes one behind the other."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datapipes)

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(_OnPipes):
    """Tuples of the pipes' samples."""

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class Multiplexer(_OnPipes):
    """One sample of each pipe in turn, until the first has no more."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(zip(*self.datapipes))

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes) * len(self.datapipes)


Demultiplexer, FileLister, FileOpener, Forker, Grouper, RoutedDecoder, StreamReader = (
    absent_class(f"torch.utils.data.datapipes.iter.{name}", base=IterDataPipe)
    for name in ("Demultiplexer", "FileLister", "FileOpener", "Forker", "Grouper", "RoutedDecoder", "StreamReader"))
