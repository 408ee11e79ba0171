"""Settings of torch.save and torch.load: `config.save.compute_crc32`, `config.load.mmap` and the like."""

from typing import Any

from ... import serialization
from ..._compat.absent import refuse


class _Save:
    """How torch.save writes."""

    use_pinned_memory_for_d2h = False

    @property
    def compute_crc32(self) -> bool:
        return serialization.get_crc32_options()

    @compute_crc32.setter
    def compute_crc32(self, value: bool) -> None:
        serialization.set_crc32_options(value)

    @property
    def storage_alignment(self) -> int:
        return serialization.ALIGNMENT

    @storage_alignment.setter
    def storage_alignment(self, value: int) -> None:
        if value != serialization.ALIGNMENT:
            refuse(f"alignment of storages other than {serialization.ALIGNMENT} bytes")


class _Load:
    """How torch.load reads."""

    calculate_storage_offsets = False

    @property
    def mmap(self) -> bool:
        return serialization.mmap_by_default[0]

    @mmap.setter
    def mmap(self, value: bool) -> None:
        serialization.mmap_by_default[0] = value

    @property
    def endianness(self) -> Any:
        return serialization.get_default_load_endianness()

    @endianness.setter
    def endianness(self, value: Any) -> None:
        serialization.set_default_load_endianness(value)

    @property
    def mmap_flags(self) -> int | None:
        return serialization.get_default_mmap_options()

    @mmap_flags.setter
    def mmap_flags(self, value: int) -> None:
        serialization.set_default_mmap_options(value)


save, load = _Save(), _Load()
