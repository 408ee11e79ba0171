"""How a tensor lies on the processes along one dimension of a mesh."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

Runs = list[tuple[int, int]]  # (where it begins, how long it is) of each


class Placement:
    """A kind of placement."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def is_shard(self, dim: int | None = None) -> bool:
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


def piece(length: int, pieces: int, at: int) -> tuple[int, int]:
    """(where a piece begins, how long it is) of a length cut into pieces as long as the first, as far as it goes."""
    step = -(-length // pieces)
    begin = min(step * at, length)
    return begin, min(step, length - begin)


class Cut(Placement):
    """Each process has a part of the tensor along one of its dimensions."""

    dim: int

    def runs(self, length: int, pieces: int, at: int) -> Runs:
        """Which elements of a length a process has, in its order."""
        raise NotImplementedError


@dataclass(frozen=True)
class Shard(Cut):
    """Each process has a piece, cut along a dimension of the tensor; the last ones may have less, or nothing."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    def runs(self, length: int, pieces: int, at: int) -> Runs:
        return [piece(length, pieces, at)]

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        begin, length = piece(curr_local_size, num_chunks, rank)
        return length, begin

    def _split_tensor(self, tensor: Any, num_chunks: int, *, with_padding: bool = True,
                      contiguous: bool = True) -> tuple[list[Any], list[int]]:
        """(the pieces of a tensor, how much was added to each so that all are of one length)."""
        step = -(-tensor.shape[self.dim] // num_chunks)
        found, added = [], []
        for at in range(num_chunks):
            begin, length = piece(tensor.shape[self.dim], num_chunks, at)
            part = tensor.narrow(self.dim, begin, length)
            if with_padding:
                added.append(step - length)
                part = padded(part, self.dim, step)
            found.append(part.contiguous() if contiguous else part)
        return found, added


def padded(tensor: Any, dim: int, length: int) -> Any:
    """A tensor with zeros added in a dimension, up to a length."""
    lacking = length - tensor.shape[dim]
    if not lacking:
        return tensor
    shape = [*tensor.shape]
    shape[dim] = length
    made = tensor.new_zeros(shape)
    made.narrow(dim, 0, tensor.shape[dim]).copy_(tensor)
    return made


@dataclass(frozen=True, repr=False)
class _StridedShard(Cut):
    """A piece of each of several pieces: what another dimension of the mesh, further on, has cut before."""

    dim: int
    split_factor: int

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"

    def runs(self, length: int, pieces: int, at: int) -> Runs:
        found = []
        for outer in range(self.split_factor):
            begin, inside = piece(length, self.split_factor, outer)
            start, count = piece(inside, pieces, at)
            found.append((begin + start, count))
        return found


@dataclass(frozen=True)
class Replicate(Placement):
    """The whole tensor on every process."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each process has a tensor of the whole shape, and the tensor is their sum, or another reduction."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _NormPartial(Partial):
    """Each process has the norm of its piece."""

    reduce_op: str = "sum"
    norm_type: float | str = 2

    def __init__(self, norm_type: float | str = 2) -> None:
        object.__setattr__(self, "norm_type", norm_type)
        object.__setattr__(self, "reduce_op", {float("inf"): "max", "inf": "max", float("-inf"): "min",
                                               "-inf": "min"}.get(norm_type, "sum"))

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type})"

    def __str__(self) -> str:
        return f"_NormP({self.norm_type})"


@dataclass(frozen=True, repr=False)
class _MaskPartial(Partial):
    """A sum whose terms are zero where an index is not of this process's rows."""

    reduce_op: str = "sum"
    offset_shape: tuple[int, ...] | None = None
    offset_dim: int = 0

    def __repr__(self) -> str:
        return (f"_MaskPartial(reduce_op={self.reduce_op}, offset_shape={self.offset_shape}, "
                f"offset_dim={self.offset_dim})")

    def __str__(self) -> str:
        return f"MaskP({self.reduce_op}, {self.offset_shape}, {self.offset_dim})"
