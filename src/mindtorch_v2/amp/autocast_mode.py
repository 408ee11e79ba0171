"""Autocast: inside, matrix products take a lower precision, and operators that need it float32.

The Autocast key's kernel casts an operator's arguments and goes on below the key; an operator in no list passes.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .._dispatch.callers import call_bound
from .._dispatch.keys import BACKENDS, DispatchKey, changed_modes, modes
from .._dispatch.registry import Around, Operator, registry
from .._dtype import bfloat16, dtype, float16, float32, float64, promote_types
from .._tensor import Tensor

_AUTOCAST_MASK = 1 << DispatchKey.Autocast

_PRODUCTS = frozenset("""
    matmul mm mv bmm addmm addmv addbmm baddbmm addr linear _batch_matmul scaled_dot_product_attention bilinear einsum
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc convolution
""".split())
_LOSSES = frozenset("""
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy_loss hinge_embedding_loss
    huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss
    poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
""".split())
_WIDE_ON_CPU = _LOSSES | frozenset("""
    _lu_with_info cdist cholesky cholesky_inverse cholesky_solve geqrf inverse linalg_cholesky linalg_cholesky_ex
    linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv
    linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve linalg_svd linalg_svdvals linalg_tensorinv
    linalg_tensorsolve lu lu_solve nanquantile orgqr ormqr pinverse polar prod qr quantile svd trace
    triangular_solve
""".split())
_WIDE_ON_ACCELERATORS = _LOSSES | frozenset("""
    acos asin cdist cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm layer_norm log log10 log1p
    log2 log_softmax logsumexp native_layer_norm norm pdist pow prod reciprocal renorm rsqrt sinh softmax softmin
    softplus sum tan
""".split())
_PROMOTED = frozenset(("cat", "stack", "index_copy", "addcdiv", "addcmul", "atan2", "cross", "dot", "vdot"))
_LOWER = {"cpu": bfloat16, "cuda": float16, "npu": float16}


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a device type."""
    return device_type in _LOWER


class autocast:
    """Context manager and decorator in which operators on `device_type` choose their precision."""

    def __init__(self, device_type: str, dtype: dtype | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in _LOWER:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device, self.fast_dtype = device_type, _LOWER[device_type] if dtype is None else dtype
        if enabled and self.fast_dtype not in (bfloat16, float16):
            name = device_type.upper()
            warnings.warn(f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                          f"{name} Autocast only supports dtype of torch.bfloat16, torch.float16 currently.",
                          stacklevel=2)
            enabled = False
        self._enabled = enabled

    def __enter__(self) -> "autocast":
        current = modes.__dict__.get("autocast", {})
        self._previous = current, modes.include
        chosen = {**current, self.device: self.fast_dtype if self._enabled else None}
        modes.__dict__["autocast"] = chosen
        active = any(chosen.values())
        modes.update(include=modes.include | _AUTOCAST_MASK if active else modes.include & ~_AUTOCAST_MASK)
        return self

    def __exit__(self, *exc: object) -> None:
        modes.__dict__["autocast"], include = self._previous
        modes.update(include=include)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled):
                return function(*args, **kwargs)

        return decorated


def autocast_dtype(device_type: str) -> dtype:
    """The lower precision that is in force for a device type, or would be."""
    return modes.__dict__.get("autocast", {}).get(device_type) or _LOWER[device_type]


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    return modes.__dict__.get("autocast", {}).get(device_type) is not None


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: dtype | None = None) -> Callable:
    """A Function's `forward` that remembers autocast for its `backward`; with `cast_inputs`, run outside of it."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = autocast_dtype(device_type)
        ctx._fwd_used_autocast = cast_inputs is None and is_autocast_enabled(device_type)
        if cast_inputs is None or not is_autocast_enabled(device_type):
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs), **{k: _cast(v, cast_inputs) for k, v in kwargs.items()})

    return decorated


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """A Function's `backward` under the autocast that its `forward` ran under."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, ctx._dtype, ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return decorated


def _castable(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.is_floating_point and value.dtype is not float64


def _cast(value: Any, target: dtype) -> Any:
    if value.__class__ in (tuple, list):
        return type(value)(_cast(v, target) for v in value)
    return value.to(target) if _castable(value) and value.dtype is not target else value


def _widest(args: tuple) -> dtype | None:
    kinds = [v.dtype for a in args for v in (a if a.__class__ in (tuple, list) else (a,)) if _castable(v)]
    return functools.reduce(promote_types, kinds) if kinds else None


def _autocast_kernel(operator: Operator, below: Callable, mask: int) -> Callable:
    name = operator.schema.base_name
    device = next((key.name.lower() for key in BACKENDS if mask >> key & 1), "cpu")
    wide = _WIDE_ON_CPU if device == "cpu" else _WIDE_ON_ACCELERATORS
    if device not in _LOWER or name not in _PRODUCTS | wide | _PROMOTED:
        return below

    def kernel(*args: Any) -> Any:
        lower = modes.__dict__.get("autocast", {}).get(device)
        if lower is None:
            target = None
        elif name in _PRODUCTS:
            target = lower
        else:
            target = float32 if name in wide else _widest(args)
        with changed_modes(include=modes.include & ~_AUTOCAST_MASK):
            return call_bound(operator, args if target is None else tuple(_cast(a, target) for a in args))

    return kernel


registry.register_for_all(DispatchKey.Autocast, Around(_autocast_kernel))
