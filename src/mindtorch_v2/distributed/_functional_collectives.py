"""Collectives as functions: not here, since there is one process."""

from .._compat.absent import absent_function

all_gather_tensor, all_reduce, all_to_all_single_autograd, wait_tensor = (
    absent_function(f"torch.distributed._functional_collectives.{name}", "It runs one process.")
    for name in ("all_gather_tensor", "all_reduce", "all_to_all_single_autograd", "wait_tensor")
)
