"""Layers, containers, losses and initialisation, as in torch.nn."""

from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .parameter import Buffer, Parameter

__all__ = [*modules.__all__, "Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils"]
