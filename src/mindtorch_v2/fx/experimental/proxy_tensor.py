"""Tracing by dispatch, which does not exist here: no mode is ever in force."""

from typing import Any

from ..._compat.absent import absent_function

__all__ = ["get_proxy_mode", "make_fx"]

make_fx = absent_function("torch.fx.experimental.proxy_tensor.make_fx", "Use torch.fx.symbolic_trace.")


def get_proxy_mode() -> Any:
    return None


def maybe_disable_fake_tensor_mode() -> Any:
    from contextlib import nullcontext

    return nullcontext()
