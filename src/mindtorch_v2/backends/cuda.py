"""torch.backends.cuda: switches of matrix products and attention on NVIDIA GPUs."""

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["SDPAParams", "can_use_efficient_attention", "can_use_flash_attention", "cudnn_sdp_enabled",
           "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "flash_sdp_enabled",
           "is_built", "is_flash_attention_available", "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled",
           "preferred_linalg_library", "sdp_kernel"]


class _MatmulSwitches:
    """How matrix products may be computed."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False
    fp32_precision = "none"


class _PlanCache:
    """Plans of Fourier transforms; none are kept."""

    size, max_size = 0, 0

    def clear(self) -> None:
        """Forgets all plans."""

    def __getitem__(self, device: Any) -> "_PlanCache":
        return self


matmul, cufft_plan_cache = _MatmulSwitches(), _PlanCache()
_attention = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True, "reduced_precision_math": False}


def is_built() -> bool:
    """Whether the package can use CUDA at all: with CuPy beside it."""
    import importlib.util

    return importlib.util.find_spec("cupy") is not None


def _enabled(kind: str) -> Any:
    return lambda: _attention[kind]


def _enable(kind: str) -> Any:
    def enable(enabled: bool) -> None:
        _attention[kind] = bool(enabled)

    return enable


flash_sdp_enabled, enable_flash_sdp = _enabled("flash"), _enable("flash")
math_sdp_enabled, enable_math_sdp = _enabled("math"), _enable("math")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _enabled("mem_efficient"), _enable("mem_efficient")
cudnn_sdp_enabled, enable_cudnn_sdp = _enabled("cudnn"), _enable("cudnn")
allow_fp16_bf16_reduction_math_sdp = _enable("reduced_precision_math")
fp16_bf16_reduction_math_sdp_allowed = _enabled("reduced_precision_math")


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True) -> Iterator[None]:
    """Chooses among the kernels of scaled_dot_product_attention inside a with block."""
    before = dict(_attention)
    _attention.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _attention.update(before)


class SDPAParams:
    """The arguments of an attention, to ask which kernels could compute it."""

    def __init__(self, query: Any, key: Any, value: Any, attn_mask: Any, dropout: float, is_causal: bool,
                 enable_gqa: bool = False) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def is_flash_attention_available() -> bool:
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    return False


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    return False


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    return False


def _preference(*known: str) -> Any:
    """A function that keeps which library is preferred; there is one only, so nothing follows from it."""
    chosen = ["default"]

    def preferred(backend: str | None = None) -> str:
        if backend is not None:
            if backend not in ("default", *known):
                choices = ", ".join(map(repr, ("default", *known)))
                raise RuntimeError(f"Unknown input value. Choose from: {choices}. Got {backend!r}")
            chosen[0] = backend
        return chosen[0]

    return preferred


preferred_linalg_library = _preference("cusolver", "magma")
preferred_blas_library = _preference("cublas", "cublaslt", "ck")
