"""Reverse-mode differentiation: grad modes, nodes, the engine, views and in-place writes."""

from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .node import AccumulateGrad, Node

__all__ = ["AccumulateGrad", "Node", "enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled",
           "no_grad", "set_grad_enabled"]
