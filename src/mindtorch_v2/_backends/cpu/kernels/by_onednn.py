"""Activations that oneDNN has, for which no machine code need be made."""

from typing import Any

from .. import onednn_kernels
from ..blocks import SERVED


def _by_onednn(name: str, x: Any, grad: Any = None) -> Any:
    kernels = onednn_kernels() if x.size >= SERVED else None
    return None if kernels is None else kernels.elementwise(name, x, grad)


def gelu(self: Any, approximate: str) -> Any:
    return _by_onednn("gelu_tanh" if approximate == "tanh" else "gelu_erf", self)


def gelu_backward(grad_output: Any, self: Any, approximate: str) -> Any:
    return _by_onednn("gelu_tanh" if approximate == "tanh" else "gelu_erf", self, grad_output)


def sigmoid(self: Any) -> Any:
    return _by_onednn("logistic", self)


def silu(self: Any) -> Any:
    return _by_onednn("swish", self)


def silu_backward(grad_output: Any, self: Any) -> Any:
    return _by_onednn("swish", self, grad_output)
