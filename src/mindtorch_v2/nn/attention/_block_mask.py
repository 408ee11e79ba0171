"""BlockMask: which blocks of queries and keys a mask function shows in part, and which whole."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30
_INDICES = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
            "full_q_num_blocks", "full_q_indices")  # fmt: skip


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """A mask that hides nothing."""
    return batch.new_ones((), dtype=torch.bool)


def _of_a_slice(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is "
        "replaced with a placeholder: places in the slice are not places in the whole. Set mask_mod of the slice to "
        "one made of that of the mask that was sliced."
    )


def _named(held: Sequence[Any]) -> dict[str, Any]:
    """Counts and indices by name, in the order of the constructor."""
    return dict(zip(_INDICES, held, strict=False))


def _ordered(shown: Any) -> tuple[Any, Any]:
    """How many blocks of each row are shown, and the numbers of the blocks, those first."""
    order = shown.to(torch.int32).argsort(-1, descending=True, stable=True)
    return shown.sum(-1).to(torch.int32), order.to(torch.int32).contiguous()


def _shown(counts: Any, indices: Any) -> Any:
    """Whether each block is shown, of what `_ordered` gives."""
    columns = torch.arange(indices.shape[-1], device=indices.device)
    listed = columns < counts.unsqueeze(-1)
    return torch.zeros_like(listed).scatter(-1, indices.long(), listed)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    rows, columns = size
    return rows, columns


def _refuse_halves(name: str, counts: Any, indices: Any) -> None:
    if (counts is None) != (indices is None):
        raise AssertionError(f"{name}_num_blocks and {name}_indices must be both provided or omitted")


class BlockMask:
    """A mask function, and for blocks of queries the blocks of keys in which it shows something, or everything.

    Row by row `kv_num_blocks` says how many of `kv_indices` are shown in part; `full_kv_...` name those that are shown
    whole, and `q_...` the same for columns.
    """

    def __init__(self, seq_lengths: tuple[int, int], kv_num_blocks: Any, kv_indices: Any, full_kv_num_blocks: Any,
                 full_kv_indices: Any, q_num_blocks: Any, q_indices: Any, full_q_num_blocks: Any,
                 full_q_indices: Any, BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE,) * 2,
                 mask_mod: Callable = noop_mask) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        _refuse_halves("full_kv", full_kv_num_blocks, full_kv_indices)
        _refuse_halves("q", q_num_blocks, q_indices)
        _refuse_halves("full_q", full_q_num_blocks, full_q_indices)
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks: Any, kv_indices: Any, full_kv_num_blocks: Any = None,
                       full_kv_indices: Any = None, BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
                       mask_mod: Callable | None = None, seq_lengths: tuple[int, int] | None = None,
                       compute_q_blocks: bool = True) -> "BlockMask":
        """The mask of blocks of keys; those of queries follow from them, or are left out."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        _refuse_halves("full_kv", full_kv_num_blocks, full_kv_indices)
        by_column: list[Any] = [None] * 4
        if compute_q_blocks:
            by_column[:2] = _ordered(_shown(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_indices is not None:
                by_column[2:] = _ordered(_shown(full_kv_num_blocks, full_kv_indices).transpose(-2, -1))
        block = _pair(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = kv_indices.shape[-2] * block[0], kv_indices.shape[-1] * block[1]
        held = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *by_column)
        return cls(seq_lengths, **_named(held), BLOCK_SIZE=block, mask_mod=mask_mod or noop_mask)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def as_tuple(self, flatten: bool = True) -> tuple:
        """What the constructor takes; with `flatten`, pairs as two entries."""
        lengths, block = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        return (*lengths, *(getattr(self, name) for name in _INDICES), *block, self.mask_mod)

    def numel(self) -> int:
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The share of places in hidden blocks, in percent; below 0 where blocks reach beyond the ends."""
        blocks = self.kv_num_blocks.sum().item()
        blocks += 0 if self.full_kv_num_blocks is None else self.full_kv_num_blocks.sum().item()
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Any:
        """1 for every block that shows anything."""
        shown = _shown(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_indices is not None:
            shown = shown | _shown(self.full_kv_num_blocks, self.full_kv_indices)
        return shown.to(torch.int32)

    def to(self, device: Any) -> "BlockMask":
        held = [getattr(self, name) for name in _INDICES]
        changed = [None if indices is None else indices.to(device) for indices in held]
        return BlockMask(self.seq_lengths, **_named(changed), BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> "BlockMask":
        """The upper left corner, for so many queries and keys."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        made: list[Any] = []
        for counts, indices in ((self.kv_num_blocks, self.kv_indices),
                                (self.full_kv_num_blocks, self.full_kv_indices)):  # fmt: skip
            if indices is None:
                made += [None, None]
                continue
            made += _ordered(_shown(counts, indices)[..., :rows, :columns])
        return self.from_kv_blocks(**_named(made), BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
                                   seq_lengths=(new_q_len, new_kv_len), compute_q_blocks=self.q_indices is not None)

    def __getitem__(self, index: Any) -> "BlockMask":
        """Some batches, heads and rows of blocks; a number keeps its dimension. Its mask_mod has to be set anew."""
        places = index if isinstance(index, tuple) else (index,)
        if not any(place is Ellipsis for place in places):
            places = (*places, *(slice(None),) * (3 - len(places)))[:3]
            places = tuple([slice(at, at + 1 or None) if isinstance(at, int) else at for at in places])
        made = [None if part is None else part[places] for part in (self.kv_num_blocks, self.kv_indices,
                                                                    self.full_kv_num_blocks, self.full_kv_indices)]
        return self.from_kv_blocks(**_named(made), BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=_of_a_slice,
                                   seq_lengths=self.seq_lengths, compute_q_blocks=self.q_indices is not None)

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of each batch and head: cells of blocks that are all shown, in part, or not."""
        dense = self.to_dense()
        rows, columns = dense.shape[-2:]
        grid = (rows, columns) if grid_size == -1 else _pair(grid_size)
        step = -(-rows // grid[0]), -(-columns // grid[1])
        pictures: list[str] = []
        for number, place in enumerate(itertools.product(*map(range, dense.shape[:-2]))):
            if number == limit:
                pictures.append("...\nTo print out more, set BlockMask.to_string(limit=N)\nYou can also index "
                                "(BlockMask[batch, head]) to choose a specific batch or head")
                break
            lines = "".join(_line(band, step[1]) + "\n" for band in dense[place].split(step[0]))
            pictures.append(f"{place}\n{lines}")
        return "\n".join(pictures)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        held = [(name, getattr(self, name)) for name in _INDICES]
        lines = [f"{name}={None if indices is None else indices.shape}" for name, indices in held]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%",
                  f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}"]
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def _line(band: Any, step: int) -> str:
    """One line of a picture, two letters a cell."""
    shares = [cell.float().mean().item() for cell in band.split(step, -1)]
    return "".join("██" if share == 1 else "░░" if share else "  " for share in shares)
