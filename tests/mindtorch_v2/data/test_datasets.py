"""Datasets, samplers and collating. The orders are PyTorch's for the same seeds."""

import collections
import re
import types
import warnings

import numpy as np
import pytest
from small_datasets import Numbers, SizedStream, Stream, seeded

import mindtorch_v2 as torch
from mindtorch_v2.utils import data
from mindtorch_v2.utils.data._utils.collate import collate, default_collate_fn_map

Point = collections.namedtuple("Point", "x y")


def test_datasets_are_combined() -> None:
    both = Numbers() + Numbers(3)
    assert isinstance(both, data.ConcatDataset) and both.cumulative_sizes == [5, 8]
    assert [both[i] for i in (0, 4, 5, -1, -8)] == [0, 4, 0, 2, 0]
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2] and len(SizedStream(2) + SizedStream(3)) == 5
    pairs = data.StackDataset(Numbers(), Numbers())
    named = data.StackDataset(a=Numbers(), b=Numbers())
    assert pairs[2] == (2, 2) and named[2] == {"a": 2, "b": 2} and len(named) == 5
    assert named.__getitems__([1, 2]) == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    part = data.Subset(Numbers(9), [7, 3])
    assert (part[0], len(part), part.__getitems__([1, 0])) == (7, 2, [3, 7])
    x, y = data.TensorDataset(torch.arange(6).reshape(3, 2), torch.ones(3))[1]
    assert x.tolist() == [2, 3] and y.item() == 1


def test_samples_are_asked_for_together_where_the_dataset_can() -> None:
    asked = []

    class Many(Numbers):
        def __getitems__(self, indices):
            asked.append(indices)
            return [-i for i in indices]

    assert [b.tolist() for b in data.DataLoader(data.Subset(Many(9), [4, 5, 6]), 2)] == [[-4, -5], [-6]]
    assert asked == [[4, 5], [6]]


RAISES = {
    "data.TensorDataset(torch.ones(2), torch.ones(3))": (AssertionError, "Size mismatch between tensors"),
    "data.ConcatDataset([])": (AssertionError, "datasets should not be an empty iterable"),
    "data.ConcatDataset([Stream()])": (AssertionError, "ConcatDataset does not support IterableDataset"),
    "(Numbers() + Numbers())[-11]": (ValueError, "absolute value of index should not exceed dataset length"),
    "list(data.ChainDataset([Numbers()]))": (AssertionError, "ChainDataset only supports IterableDataset"),
    "data.StackDataset()": (ValueError, "At least one dataset should be passed"),
    "data.StackDataset(Numbers(), Numbers(4))": (ValueError, "Size mismatch between datasets"),
    "data.Dataset()[0]": (NotImplementedError, "Subclasses of Dataset should implement __getitem__."),
    "len(data.Dataset())": (TypeError, "object of type 'Dataset' has no len()"),
    "data.IterableDataset()": (TypeError, "abstract class IterableDataset"),
    "data.random_split(Numbers(), [2, 2])": (
        ValueError, "Sum of input lengths does not equal the length of the input dataset!"),
    "data.random_split(Numbers(), [1.5, -0.5])": (ValueError, "Fraction at index 0 is not between 0 and 1"),
    "data.RandomSampler(Numbers(), replacement=3)": (
        TypeError, "replacement should be a boolean value, but got replacement=3"),
    "data.RandomSampler(Numbers(0))": (
        ValueError, "num_samples should be a positive integer value, but got num_samples=0"),
    "data.WeightedRandomSampler([.1], True)": (
        ValueError, "num_samples should be a positive integer value, but got num_samples=True"),
    "data.WeightedRandomSampler([[.1], [.2]], 2)": (
        ValueError, "weights should be a 1d sequence but given weights have shape (2, 1)"),
    "data.BatchSampler([1], 2.0, False)": (
        ValueError, "batch_size should be a positive integer value, but got batch_size=2.0"),
    "data.BatchSampler([1], 1, 0)": (ValueError, "drop_last should be a boolean value, but got drop_last=0"),
    "data.DistributedSampler(Numbers(), 2, 2)": (
        ValueError, "Invalid rank 2, rank should be in the interval [0, 1]"),
    "data.DistributedSampler(Numbers())": (ValueError, "Default process group has not been initialized"),
    "data.default_collate([(1, 2), (3,)])": (RuntimeError, "each element in list of batch should be of equal size"),
    "data.default_collate([None])": (
        TypeError, "batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'NoneType'>"),
    "data.default_collate([np.array('a')])": (TypeError, "numbers, dicts or lists; found <U1"),
    "data.default_collate([torch.ones(2), torch.ones(3)])": (
        RuntimeError, "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1"),
    "data.default_collate([{'a': 1}, {'b': 2}])": (KeyError, "a"),
}


@pytest.mark.parametrize("code", RAISES)
def test_errors(code: str) -> None:
    kind, text = RAISES[code]
    with pytest.raises(kind, match=re.escape(text)):
        eval(code)


def test_splits_are_pytorchs() -> None:
    parts = data.random_split(Numbers(10), [0.33, 0.33, 0.34], generator=seeded())
    assert [part.indices for part in parts] == [[5, 6, 1, 2], [0, 8, 9], [3, 7, 4]]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0. This might result in an empty dataset."):
        assert [p.indices for p in data.random_split(Numbers(3), [0.1, 0.1, 0.8], seeded())] == [[1], [], [2, 0]]


def test_orders_are_pytorchs() -> None:
    assert list(data.RandomSampler(Numbers(), num_samples=7, generator=seeded())) == [0, 4, 2, 3, 1, 3, 2]
    drawn = list(data.RandomSampler(Numbers(), True, 40, seeded()))
    assert drawn[:8] == [0, 4, 4, 3, 3, 3, 1, 1] and drawn[32:] == [2, 3, 2, 3, 3, 1, 2, 0]
    torch.manual_seed(3)
    assert list(data.RandomSampler(Numbers())) == [2, 1, 0, 4, 3] and torch.rand(1).item() == 0.2858424782752991
    torch.manual_seed(3)
    assert list(data.SubsetRandomSampler([4, 5, 6, 7])) == [6, 7, 5, 4]
    torch.manual_seed(3)
    assert list(data.WeightedRandomSampler([0.1, 0.2, 0.3], 5)) == [0, 1, 2, 1, 2]
    torch.manual_seed(3)
    assert list(data.WeightedRandomSampler([0.1, 0.2, 0.3], 2, replacement=False)) == [0, 1]


def test_batches_of_indices() -> None:
    assert list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    dropping = data.BatchSampler(data.SequentialSampler(range(5)), 2, True)
    assert list(dropping) == [[0, 1], [2, 3]] and len(dropping) == 2


def test_each_process_gets_its_share() -> None:
    shares = [list(data.DistributedSampler(Numbers(11), 3, rank)) for rank in range(3)]
    assert shares == [[10, 3, 2, 7], [0, 5, 1, 6], [4, 8, 9, 10]]
    dropping = [data.DistributedSampler(Numbers(11), 3, rank, seed=5, drop_last=True) for rank in range(3)]
    assert [list(d) for d in dropping] == [[9, 8, 3], [5, 10, 6], [0, 2, 7]]
    for sampler in dropping:
        sampler.set_epoch(1)
    assert sorted(i for d in dropping for i in d) != [0, 2, 3, 5, 6, 7, 8, 9, 10] and len(dropping[0]) == 3
    more = [data.DistributedSampler(Numbers(2), 5, rank, shuffle=False) for rank in range(5)]
    assert [list(sampler) for sampler in more] == [[0], [1], [0], [1], [0]]


def test_collating_keeps_containers() -> None:
    made = data.default_collate([{"a": 1, "b": (1.5, "x")}, {"a": 2, "b": (2.5, "y")}])
    assert made["a"].tolist() == [1, 2] and made["b"][0].dtype is torch.float64
    assert type(made["b"]) is list and made["b"][1] == ("x", "y")
    point = data.default_collate([Point(1, True), Point(2, False)])
    assert type(point) is Point and point.y.dtype is torch.bool
    for kind in (collections.OrderedDict, types.MappingProxyType, collections.UserDict):
        assert type(data.default_collate([kind({"a": 1})] * 2)) is kind
    counts = data.default_collate([collections.defaultdict(int, a=1)] * 2)
    assert counts.default_factory is int and counts["a"].tolist() == [1, 1]
    assert type(data.default_collate([collections.deque([1]), collections.deque([2])])) is collections.deque
    assert [column.tolist() for column in data.default_collate([range(2), range(2)])] == [[0, 0], [1, 1]]


def test_collating_numbers_arrays_and_tensors() -> None:
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype is torch.float32
    assert data.default_collate([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert data.default_collate([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]
    leaf = torch.ones(2, requires_grad=True)
    data.default_collate([leaf, leaf]).sum().backward()
    assert leaf.grad.tolist() == [2, 2]
    assert data.default_collate([1, 2.5]).dtype is torch.float32


def test_collating_by_a_table_of_ones_own() -> None:
    def total(batch, *, collate_fn_map=None):
        return sum(batch)

    assert collate([[1, 2], [3, 4]], collate_fn_map={int: total}) == [4, 6]
    assert collate([True, 2], collate_fn_map={(int, str): total}) == 3
    assert collate([1, "a"], collate_fn_map={**default_collate_fn_map, int: lambda batch, **_: batch}) == [1, "a"]
    with pytest.raises(TypeError, match="found <class 'int'>"):
        collate([1, 2])


def test_converting_without_batches() -> None:
    made = data.default_convert({"a": np.ones(2), "b": (np.int64(2), "x"), "c": Point(1, np.zeros(1))})
    assert made["a"].dtype is torch.float64 and made["b"][0].item() == 2 and type(made["b"]) is list
    assert type(made["c"]) is Point and isinstance(made["c"].y, torch.Tensor)
    assert isinstance(data.default_convert(np.array("a")), np.ndarray)


def test_pipes_chain() -> None:
    pipe = data.datapipes.iter.IterableWrapper(range(10))
    made = pipe.map(lambda x: x + 1).filter(lambda x: x % 2 == 0).batch(2)
    assert list(made) == [[2, 4], [6, 8], [10]] and list(made.unbatch()) == [2, 4, 6, 8, 10]
    torch.manual_seed(0)
    assert list(pipe.shuffle()) == [3, 5, 0, 1, 9, 6, 2, 7, 4, 8]  # PyTorch's order
    torch.manual_seed(0)
    assert list(pipe.shuffle(buffer_size=3)) == [0, 1, 3, 5, 2, 4, 6, 8, 9, 7]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shares = data.DataLoader(pipe.sharding_filter(), batch_size=None, num_workers=2)
        assert list(shares) == list(range(10))
    with pytest.raises(AttributeError, match="no attribute 'nothing"):
        pipe.nothing()
