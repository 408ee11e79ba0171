"""Batches over several devices: not here."""

from ..._compat.absent import absent_function

__all__ = ["gather", "scatter", "scatter_kwargs"]

gather, scatter, scatter_kwargs = (absent_function(f"torch.nn.parallel.scatter_gather.{name}", "It uses one device.")
                                   for name in __all__)
