"""DataLoader without workers: batches, order, options."""

import re
import warnings

import pytest
from small_datasets import Numbers, SizedStream, Stream, seeded

import mindtorch_v2 as torch
from mindtorch_v2.utils.data import DataLoader, RandomSampler, Sampler, TensorDataset


def batches(loader) -> list:
    return [batch.tolist() for batch in loader]


RAISES = {
    "num_workers=-1": "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.",
    "timeout=-1": "timeout option should be non-negative",
    "prefetch_factor=2": "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to "
                         "enable multiprocessing, otherwise set prefetch_factor to None.",
    "num_workers=1, prefetch_factor=-1": "prefetch_factor option should be non-negative",
    "persistent_workers=True": "persistent_workers option needs num_workers > 0",
    "sampler=[1], shuffle=True": "sampler option is mutually exclusive with shuffle",
    "batch_sampler=[[1]], drop_last=True":
        "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
    "batch_size=None, drop_last=True":
        "batch_size=None option disables auto-batching and is mutually exclusive with drop_last",
    "batch_size=0": "batch_size should be a positive integer value, but got batch_size=0",
    "multiprocessing_context='fork'": "multiprocessing_context can only be used with multi-process loading "
                                      "(num_workers > 0), but got num_workers=0",
    "num_workers=1, multiprocessing_context='nope'":
        "multiprocessing_context option should specify a valid start method in",
}


@pytest.mark.parametrize("options", RAISES)
def test_options_that_contradict(options: str) -> None:
    with pytest.raises(ValueError, match=re.escape(RAISES[options])):
        eval(f"DataLoader(Numbers(), {options})")


@pytest.mark.parametrize("option", ["shuffle=True", "sampler=[1]", "batch_sampler=[1]"])
def test_streams_have_an_order_of_their_own(option: str) -> None:
    text = f"DataLoader with IterableDataset: expected unspecified {option.split('=')[0]} option, but got {option}"
    with pytest.raises(ValueError, match=re.escape(text)):
        eval(f"DataLoader(Stream(), {option})")
    assert DataLoader(Stream(), shuffle=False).batch_size == 1


def test_some_options_stay_as_they_are() -> None:
    loader = DataLoader(Numbers())
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, 3)
    loader.timeout = 1
    with pytest.raises(AssertionError, match="_SingleProcessDataLoaderIter requires timeout == 0"):
        iter(loader)


def test_batches_and_lengths() -> None:
    assert batches(DataLoader(Numbers(), 2)) == [[0, 1], [2, 3], [4]]
    assert batches(DataLoader(Numbers(), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Numbers(), batch_size=None)) == [0, 1, 2, 3, 4]
    assert batches(DataLoader(Numbers(), batch_sampler=[[0, 4], [2]])) == [[0, 4], [2]]
    assert list(DataLoader({"a": 1, "b": 2}, sampler=["b", "a"], batch_size=None)) == [2, 1]
    assert batches(DataLoader(Stream(), 2)) == [[0, 1], [2, 3], [4]]
    assert batches(DataLoader(Stream(), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(), batch_size=None)) == [0, 1, 2, 3, 4]
    sized = [DataLoader(SizedStream(7), *options) for options in ((2,), (2, None, None, None, 0, None, False, True))]
    assert [len(loader) for loader in sized] == [4, 3]
    assert len(DataLoader(Numbers(), 2)) == 3 and len(iter(DataLoader(Numbers()))) == 5
    assert [x.tolist() for [x] in DataLoader(TensorDataset(torch.arange(3)), 2)] == [[0, 1], [2]]


def test_the_order_is_pytorchs() -> None:
    torch.manual_seed(3)
    assert batches(DataLoader(Numbers(), 2, shuffle=True)) == [[1, 4], [3, 0], [2]]
    assert torch.rand(1).item() == 0.47161436080932617
    torch.manual_seed(3)
    assert batches(DataLoader(Numbers(), 2, shuffle=True, generator=seeded(5))) == [[2, 0], [4, 3], [1]]
    assert torch.rand(1).item() == 0.004263520240783691  # the default stream was not touched
    torch.manual_seed(0)
    assert iter(DataLoader(Numbers()))._base_seed == 900450186894289455
    generator = seeded(2)
    loader = DataLoader(Numbers(10), 3, shuffle=True, generator=generator)
    assert isinstance(loader.sampler, RandomSampler)
    assert batches(loader) == [[1, 0, 8], [3, 4, 5], [6, 7, 2], [9]]
    assert batches(loader) == [[3, 0, 5], [7, 8, 9], [2, 4, 6], [1]]


def test_a_sampler_that_draws_at_once_draws_before_the_loader() -> None:
    class Eager(Sampler):
        def __iter__(self):
            return iter([int(torch.randint(10, ()))])

    torch.manual_seed(1)
    assert batches(DataLoader(Numbers(10), sampler=Eager())) == [[4]] and torch.rand(1).item() == 0.7346844673156738


@pytest.mark.usefixtures("without_gpu")
def test_warnings() -> None:
    with pytest.warns(UserWarning, match="This DataLoader will create 1000 worker processes in total."):
        DataLoader(Numbers(), num_workers=1000)
    loader = DataLoader(Numbers(), pin_memory=True)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found, then "
                                         "device pinned memory won't be used."):
        assert not next(iter(loader)).is_pinned()


def test_a_stream_longer_than_it_says_is_told_of() -> None:
    stream = SizedStream(5)
    loader = DataLoader(stream)
    stream.size = 3
    assert len(loader) == 3
    stream.size = 5
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(list(loader)) == 5
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2 and texts[0].endswith("was reported to be 3(when accessing len(dataloader)), but 4 samples "
                                                 "have been fetched. ")


def test_iterators_are_not_pickled() -> None:
    import pickle

    with pytest.raises(NotImplementedError, match="_SingleProcessDataLoaderIter"):
        pickle.dumps(iter(DataLoader(Numbers())))
