"""torch._refs.linalg: operators of torch.linalg written as other operators."""

from .. import fill

__all__ = """
    cross diagonal matrix_norm norm svd svdvals vecdot vector_norm""".split()

fill(__name__, "linalg", __all__)
