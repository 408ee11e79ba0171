"""Segments folded by compiled kernels."""

import math
from typing import Any

from ...._core.dtype import REDUCED
from ...._kernels.library import segments as kernels
from ...._ops._declare.rules import Spec
from ...._ops.segments import _FOLDS
from ..jit.calls import hurry, launched
from ..jit.repeats import empty, flag, repeats, zeros

hurry(kernels.segment_reduce, kernels.segment_reduce_backward)
_NAMES = {"max": "amax", "min": "amin"}


def _shaped(data: Any, bounds: Any) -> Any:
    """Data as (outer, elements, inner), where bounds are of all dimensions up to the folded one."""
    at = bounds.ndim - 1
    return data.reshape(math.prod(data.shape[:at]), data.shape[at], math.prod(data.shape[at + 1 :]))


@repeats
def segment_reduce(data: Any, reduce: str, lengths: Any, indices: Any, offsets: Any, axis: int, unsafe: bool,
                   initial: Any, spec: Spec) -> Any:
    bounds = lengths if offsets is None else offsets
    if data.dtype in REDUCED or not data.size or 0 in spec.shape:
        return None
    fold, start = _NAMES.get(reduce, reduce), _FOLDS[reduce][1]
    start = (0.0 if fold == "mean" else start) if initial is None else initial
    bad, out = flag(), empty(spec.shape, data.dtype)
    done = launched(kernels.segment_reduce, _shaped(out, bounds), bad, _shaped(data, bounds),
                    bounds.reshape(-1, bounds.shape[-1]), start, math.nan if initial is None else initial, fold=fold,
                    offsets=offsets is not None, strict=offsets is None and not unsafe)
    return out if done and not bad[0] else None


@repeats
def segment_reduce_backward(grad: Any, data: Any, result: Any, reduce: str, lengths: Any, offsets: Any, axis: int,
                            initial: Any, spec: Spec) -> Any:
    bounds = lengths if offsets is None else offsets
    if data.dtype in REDUCED or reduce == "prod" or not grad.size or grad.dtype != data.dtype:
        return None
    out = zeros(data.shape, data.dtype)
    done = launched(kernels.segment_reduce_backward, _shaped(out, bounds), _shaped(grad, bounds), _shaped(data, bounds),
                    _shaped(result, bounds), bounds.reshape(-1, bounds.shape[-1]), fold=_NAMES.get(reduce, reduce),
                    offsets=offsets is not None)
    return out if done else None
