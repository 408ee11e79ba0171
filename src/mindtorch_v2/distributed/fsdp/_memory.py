"""Memory that gathered parameters come to: it can be given back while tensors that autograd has saved point at it."""

import mmap
from typing import Any

import mindtorch_v2 as torch

_ALIGNED = 64


def aligned(nbytes: int) -> int:
    """The next place where any element may begin."""
    return -(-nbytes // _ALIGNED) * _ALIGNED


class HostPages:
    """Pages of the CPU. Given back, they cost nothing and read as zeros; the addresses stay."""

    def __init__(self, nbytes: int) -> None:
        self._pages = mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def tensor(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """A tensor on these pages. Each has a count of writes of its own: filling one is no write to another."""
        count = torch.Size(shape).numel()
        if not count:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._pages, dtype=dtype, count=count, offset=offset).view(shape)

    def release(self) -> None:
        self._pages.madvise(mmap.MADV_DONTNEED)


class DeviceBlock:
    """Memory of another device, which has no pages to give back: it stays from the first use on."""

    def __init__(self, nbytes: int, device: Any) -> None:
        self._bytes = torch.empty(nbytes, dtype=torch.uint8, device=device)

    def tensor(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        nbytes = torch.Size(shape).numel() * dtype.itemsize
        return self._bytes[offset : offset + nbytes].view(dtype).view(shape).data

    def release(self) -> None:
        """Nothing: views that autograd has saved would keep the memory."""


def memory_on(device: Any, nbytes: int) -> Any:
    """Memory for gathered parameters on a device."""
    return HostPages(nbytes) if torch.device(device).type == "cpu" else DeviceBlock(nbytes, device)
