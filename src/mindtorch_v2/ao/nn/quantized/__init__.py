"""torch.ao.nn.quantized: layers whose input is quantized too, of which there are the dynamic ones."""

from . import dynamic, modules  # noqa: F401 - as in PyTorch, names of the module
from .modules import MaxPool2d

__all__ = ["MaxPool2d"]
