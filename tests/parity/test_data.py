"""The same seed gives PyTorch's batches, splits and seeds of workers, whatever the options."""

import random
from typing import Any

import numpy as np
import pytest

real = pytest.importorskip("torch", reason="compares with the real PyTorch")

import mindtorch_v2 as ours  # noqa: E402

LIBRARIES = (real, ours)


def numbers(library: Any, size: int) -> Any:
    class Numbers(library.utils.data.Dataset):
        def __len__(self) -> int:
            return size

        def __getitem__(self, index: int) -> tuple:
            worker = library.utils.data.get_worker_info()
            return (index, library.full((3,), float(index)), {"drawn": float(library.rand(())), "name": str(index)},
                    np.float32(index), 0 if worker is None else worker.seed, random.random() if worker else 0.0,
                    float(np.random.rand()) if worker else 0.0)

    return Numbers()


def plain(value: Any) -> Any:
    """A batch without tensors, with the types of what was one."""
    if hasattr(value, "tolist"):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def both(run: Any) -> tuple[Any, Any]:
    """What a function of the library gives in each, with what is drawn next from the default stream."""
    found = []
    for library in LIBRARIES:
        library.manual_seed(11)
        found.append((run(library), library.rand(2).tolist()))
    return found[0], found[1]


OPTIONS: list[dict[str, Any]] = [
    {"batch_size": 4}, {"batch_size": 4, "shuffle": True}, {"batch_size": 3, "shuffle": True, "drop_last": True},
    {"batch_size": None, "shuffle": True}, {"batch_sampler": [[1, 2], [0], [5, 5, 5]]}, {"sampler": [3, 1, 4, 1, 5]},
    {"batch_size": 7, "shuffle": True, "generator": 5},
]  # fmt: skip


@pytest.mark.parametrize("workers", [{}, {"num_workers": 1}, {"num_workers": 2, "prefetch_factor": 3},
                                     {"num_workers": 2, "persistent_workers": True}], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batches(options: dict[str, Any], workers: dict[str, Any]) -> None:
    def run(library: Any) -> Any:
        chosen = {**options, **workers}
        if "generator" in chosen:
            chosen["generator"] = library.Generator().manual_seed(chosen["generator"])
        loader = library.utils.data.DataLoader(numbers(library, 10), **chosen)
        return [[plain(batch) for batch in loader] for _ in range(2)], len(loader)

    theirs, here = both(run)
    assert theirs == here


@pytest.mark.parametrize("count", [1, 5, 10, 23, 64, 100])
@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("seed", [None, 3])
def test_random_sampler(count: int, replacement: bool, seed: int | None) -> None:
    def run(library: Any) -> Any:
        generator = None if seed is None else library.Generator().manual_seed(seed)
        sampler = library.utils.data.RandomSampler(range(10), replacement, count, generator)
        return list(sampler), list(sampler), seed if generator is None else generator.get_state().tolist()

    theirs, here = both(run)
    assert theirs == here


@pytest.mark.parametrize("lengths", [[3, 7], [0.5, 0.5], [0.25, 0.25, 0.5], [1 / 3] * 3, [0.9, 0.1], [10]])
def test_random_split(lengths: list[float]) -> None:
    theirs, here = both(lambda library: [part.indices for part in library.utils.data.random_split(range(10), lengths)])
    assert theirs == here


@pytest.mark.parametrize("size", [1, 7, 12])
@pytest.mark.parametrize("replicas", [1, 3, 5])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_sampler(size: int, replicas: int, drop_last: bool) -> None:
    def run(library: Any) -> Any:
        kind = library.utils.data.distributed.DistributedSampler
        samplers = [kind(range(size), replicas, rank, seed=4, drop_last=drop_last) for rank in range(replicas)]
        for sampler in samplers:
            sampler.set_epoch(2)
        return [(list(sampler), len(sampler)) for sampler in samplers]

    theirs, here = both(run)
    assert theirs == here


@pytest.mark.parametrize("sizes", [(5, 9), (0, 4), (3, 0), (6, 6)])
@pytest.mark.parametrize("batch_size", [None, 1, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_streams_of_workers(sizes: tuple[int, int], batch_size: int | None, drop_last: bool) -> None:
    def run(library: Any) -> Any:
        class Stream(library.utils.data.IterableDataset):
            def __iter__(self) -> Any:
                worker = library.utils.data.get_worker_info().id
                return iter(range(100 * worker, 100 * worker + sizes[worker]))

        drop = drop_last and batch_size is not None
        loader = library.utils.data.DataLoader(Stream(), batch_size, num_workers=2, drop_last=drop)
        return [plain(batch) for batch in loader]

    theirs, here = both(run)
    assert theirs == here
