"""torch.ao.nn: layers with quantized weights."""

from . import quantized  # noqa: F401 - as in PyTorch, a name of the module
