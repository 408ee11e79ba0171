"""torch_npu.optim: optimizers whose steps are a few launches for all parameters."""

import functools

from ..optim import SGD, Adam, AdamW

NpuFusedAdam = functools.partial(Adam, fused=True)
NpuFusedAdamW = functools.partial(AdamW, fused=True)
NpuFusedSGD = functools.partial(SGD, fused=True)
