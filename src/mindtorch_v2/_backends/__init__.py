"""Arrays, memory and kernels that are not array-generic, one package a device."""


def pins_memory() -> bool:
    """Whether there is a device that page-locked memory is for."""
    from .cuda.runtime import is_available
    from .npu.runtime import why_unavailable

    return is_available() or why_unavailable() is None
