"""torch.ao.nn.quantized: layers whose input is quantized too, of which there are the dynamic ones."""

from . import dynamic  # noqa: F401 - as in PyTorch, a name of the module
