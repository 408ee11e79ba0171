"""Activations. oneDNN has some of them, for which no machine code is needed."""

from typing import Any

from ...._kernels.library import activation as written
from .. import onednn_kernels
from ..blocks import SERVED
from ..jit.calls import launched
from ..jit.repeats import empty, repeats


@repeats
def log_sigmoid(self: Any) -> Any:
    made = empty(self.shape, self.dtype)
    return made if launched(written.log_sigmoid, made.reshape(-1), self.reshape(-1)) else None


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
