"""torch_npu as programs for Ascend chips import it: names of this library's NPU backend, and fused functions.

`import torch_npu` finds this package wherever `import torch` finds the library.
"""

import mindtorch_v2 as torch

from .. import npu
from . import contrib, optim, profiler
from .functions import get_npu_format as get_npu_format
from .functions import (
    npu_dtype_cast,
    npu_format_cast,
    npu_format_cast_,
    npu_fusion_attention,
    npu_grouped_matmul,
    npu_rms_norm,
    npu_rotary_mul,
    npu_swiglu,
)

__version__ = torch.__version__.partition("+")[0]

__all__ = ["contrib", "npu", "npu_dtype_cast", "npu_format_cast", "npu_format_cast_", "npu_fusion_attention",
           "npu_grouped_matmul", "npu_rms_norm", "npu_rotary_mul", "npu_swiglu", "optim", "profiler"]
