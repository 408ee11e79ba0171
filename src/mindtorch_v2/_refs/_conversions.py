"""torch._refs._conversions: a tensor's elements in another type, and complex tensors of two real ones."""

from . import fill

__all__ = "bfloat16 bool byte cdouble cfloat chalf char double float half int long short complex polar".split()

fill(__name__, "", __all__)
