"""Parameters whose gradients come sample by sample: layers called with them fill `grad_sample` in backward."""

from .functions import ExpandedWeight

__all__ = ["ExpandedWeight"]
