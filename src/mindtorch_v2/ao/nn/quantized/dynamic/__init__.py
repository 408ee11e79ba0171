"""torch.ao.nn.quantized.dynamic: layers with quantized weights that quantize their input at each call."""

from .modules.linear import Linear
from .modules.rnn import LSTM

__all__ = ["LSTM", "Linear"]
