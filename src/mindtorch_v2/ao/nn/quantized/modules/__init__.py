"""torch.ao.nn.quantized.modules: of layers whose input is quantized, the one that is the same as that of torch.nn."""

from .....nn.modules.pooling import MaxPool2d

__all__ = ["MaxPool2d"]
