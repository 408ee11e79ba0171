"""functorch.compile: what compiles a function ahead of time, by these names."""

from .aot_autograd import aot_function, compiled_function, default_partition, min_cut_rematerialization_partition, nop

__all__ = ["aot_function", "compiled_function", "default_partition", "min_cut_rematerialization_partition", "nop"]
