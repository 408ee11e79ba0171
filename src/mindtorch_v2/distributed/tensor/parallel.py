"""Plans that split modules over processes: not here."""

from ..._compat.absent import absent_class, absent_function

ColwiseParallel, RowwiseParallel, SequenceParallel, ParallelStyle, PrepareModuleInput, PrepareModuleOutput = (
    absent_class(f"torch.distributed.tensor.parallel.{name}", "It runs one process.")
    for name in ("ColwiseParallel", "RowwiseParallel", "SequenceParallel", "ParallelStyle", "PrepareModuleInput",
                 "PrepareModuleOutput")
)
loss_parallel = absent_function("torch.distributed.tensor.parallel.loss_parallel")
parallelize_module = absent_function("torch.distributed.tensor.parallel.parallelize_module")
