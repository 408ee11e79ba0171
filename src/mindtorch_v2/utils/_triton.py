"""Questions of libraries about Triton: its kernels are not used here, also where the package is installed."""

import importlib.util


def has_triton_package() -> bool:
    return importlib.util.find_spec("triton") is not None


def has_triton() -> bool:
    """Whether kernels of Triton can be launched on tensors."""
    return False


def has_triton_stable_tma_api() -> bool:
    return False


has_triton_experimental_host_tma = has_triton_tma = has_triton_tma_device = has_triton_stable_tma_api
