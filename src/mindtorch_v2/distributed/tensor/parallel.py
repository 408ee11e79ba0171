"""Plans that split modules over processes."""

from ..._absent import absent_class, absent_function

__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleOutput", "RowwiseParallel",
           "SequenceParallel", "loss_parallel", "parallelize_module"]

globals().update({name: absent_class(f"torch.distributed.tensor.parallel.{name}") for name in __all__[:6]})
loss_parallel = absent_function("torch.distributed.tensor.parallel.loss_parallel")
parallelize_module = absent_function("torch.distributed.tensor.parallel.parallelize_module")
