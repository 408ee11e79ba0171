"""The classes, a file each, where PyTorch has them."""

from .linear import Linear
from .rnn import LSTM

__all__ = ["LSTM", "Linear"]
