"""Data pipes: datasets chained by method calls, such as `pipe.map(f).batch(8)`. PyTorch deprecates them."""

from . import iter, map
