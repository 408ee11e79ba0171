"""Where a process's part of a tensor would lie."""

from ..._compat.absent import absent_function

compute_local_shape_and_global_offset = absent_function(
    "torch.distributed.tensor._utils.compute_local_shape_and_global_offset", "It runs one process.")
