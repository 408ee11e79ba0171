"""Sequences of unequal length: padded to one tensor, or packed step by step without padding."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from ..._ops._declare.op import public_functions

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence",
           "unpad_sequence", "pack_sequence", "unpack_sequence"]

_pad_sequence = public_functions("_nn")["pad_sequence"]


class PackedSequence_(NamedTuple):  # noqa: N801 - the name PyTorch's pickles have
    """The fields of a PackedSequence."""

    data: torch.Tensor
    batch_sizes: torch.Tensor
    sorted_indices: torch.Tensor | None
    unsorted_indices: torch.Tensor | None


def _casting(name: str) -> Callable[["PackedSequence"], "PackedSequence"]:
    def cast(self: "PackedSequence") -> "PackedSequence":
        return self.to(dtype=getattr(torch, name))

    cast.__name__ = name
    cast.__doc__ = f"The sequence with data of type {name}."
    return cast


class PackedSequence(PackedSequence_):
    """The rows of several sequences, step by step, the longest sequence first; `batch_sizes` rows each step."""

    def __new__(cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None,
                unsorted_indices: Any = None) -> "PackedSequence":
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes should always be on CPU. Instances of PackedSequence should never be created "
                             "manually. They should be instantiated by functions like pack_sequence and "
                             "pack_padded_sequences in nn.utils.rnn. "
                             "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The sequence with its data on another device or of another type; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        device = {name: kwargs[name] for name in ("non_blocking", "copy") if name in kwargs} | {"device": data.device}
        indices = (None if x is None else x.to(**device) for x in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The sequence on the CPU."""
        return self.to(device="cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The sequence on a CUDA device."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    double, float, half, long = _casting("float64"), _casting("float32"), _casting("float16"), _casting("int64")
    int, short, char, byte = _casting("int32"), _casting("int16"), _casting("int8"), _casting("uint8")

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data lies in page-locked memory."""
        return self.data.is_pinned()

    def pin_memory(self) -> "PackedSequence":
        """The sequence with its data in page-locked memory."""
        indices = (None if x is None else x.pin_memory() for x in (self.sorted_indices, self.unsorted_indices))
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)


def invert_permutation(permutation: torch.Tensor | None) -> torch.Tensor | None:
    """The permutation that undoes the given one."""
    if permutation is None:
        return None
    order = torch.arange(permutation.numel(), device=permutation.device)
    return torch.empty_like(permutation).scatter_(0, permutation, order.to(permutation.dtype))


def pack_padded_sequence(input: torch.Tensor, lengths: Any, batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """Packs a padded batch of sequences of the given lengths; unsorted ones are sorted unless that is refused."""
    lengths = torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = torch.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = torch._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """The sequences padded to one length (at least `total_length`), in their original order, and their lengths."""
    if total_length is not None and total_length < sequence.batch_sizes.size(0):
        raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got "
                         f"total_length={total_length} and max sequence length being {sequence.batch_sizes.size(0)}")
    padded, lengths = torch._pad_packed_sequence(sequence.data, sequence.batch_sizes, batch_first, padding_value,
                                                 total_length or 0)
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> torch.Tensor:
    """Sequences stacked along a new dimension, the shorter ones padded."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError("pad_sequence: Expected iterable for input sequences, but got arg of type: "
                           f"{type(sequences)}")
    return _pad_sequence(tuple(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences: torch.Tensor, lengths: torch.Tensor,
                   batch_first: bool = False) -> list[torch.Tensor]:
    """The sequences of a padded batch, each in its own length."""
    if not batch_first:
        padded_sequences.transpose_(0, 1)  # PyTorch turns the caller's tensor, too
    steps = torch.arange(padded_sequences.shape[1], device=lengths.device)
    return [sequence[steps < length] for sequence, length in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: list[torch.Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of unequal length."""
    lengths = torch.as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[torch.Tensor]:
    """The sequences in a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
