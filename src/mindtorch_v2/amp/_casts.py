"""Which operators take which precision under autocast, and the Autocast key's kernel that casts their arguments.

An operator in no list passes; what a listed one is made of is out of autocast's reach.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .._autograd import enable_grad
from .._dispatch.callers import call_bound
from .._dispatch.keys import AUTOCAST_MASK, BACKENDS, DispatchKey, changed_modes, modes
from .._dispatch.registry import Around, Operator, registry
from .._dtype import bfloat16, dtype, float32, float64
from .._tensor import Tensor
from ._state import state

_PRODUCTS = """_batch_matmul addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d linalg_vecdot linear matmul mm prelu scaled_dot_product_attention"""
_LOSSES = """binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss huber_loss kl_div l1_loss
    margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss
    soft_margin_loss triplet_margin_loss cdist"""
_ON_CPU = {
    "lower": _PRODUCTS,
    "float32": f"""{_LOSSES} _lu_with_info adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy
        cholesky cholesky_inverse cholesky_solve cross_entropy_loss ctc_loss fft_fft fft_fft2 fft_fftn fft_hfft
        fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn
        fractional_max_pool2d fractional_max_pool3d geqrf grid_sampler grid_sampler_2d grid_sampler_3d inverse
        linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
        linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve
        linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve max_pool3d max_unpool2d max_unpool3d
        nanquantile orgqr ormqr pinverse polar prod qr quantile stft svd trace triangular_solve view_as_complex""",
    "widest": "cat index_copy stack",
    "padding": "pad",
    "untouched": "bilinear",
    "recurrent": "lstm",
}
_ON_ACCELERATORS = {
    "lower": f"""{_PRODUCTS} addmv addr chain_matmul convolution einsum gru_cell linalg_multi_dot lstm_cell mv
        rnn_relu_cell rnn_tanh_cell""",
    "float32": f"""{_LOSSES} _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
        _upsample_nearest_exact2d _upsample_nearest_exact3d acos asin cosh cosine_similarity cross_entropy_loss dist
        erfinv exp expm1 frobenius_norm functional_group_norm group_norm layer_norm log log10 log1p log2 logsumexp
        native_layer_norm norm nuclear_norm pdist pow reciprocal renorm rms_norm rsqrt sinh softplus square tan
        upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
        upsample_nearest3d upsample_trilinear3d""",
    "result": "cumprod cumsum linalg_matrix_norm linalg_vector_norm log_softmax prod softmax sum",
    "widest": "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot",
    "banned": "binary_cross_entropy",
    "untouched": "mvlgamma nanmean nansum trace",
}
_BANNED = """torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""


def _by_name(policies: dict[str, str]) -> dict[str, str]:
    return {name: policy for policy, names in policies.items() for name in names.split()}


_POLICIES = {"cpu": _by_name(_ON_CPU), "cuda": _by_name(_ON_ACCELERATORS), "npu": _by_name(_ON_ACCELERATORS)}


def _eligible(value: Any, device: str) -> bool:
    return (isinstance(value, Tensor) and value.dtype.is_floating_point and value.dtype is not float64
            and value.device.type == device)


def cast(value: Any, target: dtype, device: str) -> Any:
    """A tensor, or what is in lists and dicts, in another type if it is one that autocast touches."""
    if isinstance(value, (tuple, list)):
        return type(value)(cast(v, target, device) for v in value)
    if isinstance(value, Mapping):
        return {cast(k, target, device): cast(v, target, device) for k, v in value.items()}
    if not _eligible(value, device) or value.dtype is target:
        return value
    # A parameter is cast one time for all its uses. Recorded even under no_grad: a later use may need it.
    if not (state.caching and target is state.dtypes[device] and value.dtype is float32 and value.requires_grad
            and value.is_leaf and value._base is None and not modes.inference):
        return value.to(target)
    kept = state.casts.get((id(value), target))
    if kept is None:
        with enable_grad():
            kept = state.casts[(id(value), target)] = value, value.to(target)
    return kept[1]


def _widest(args: tuple, device: str) -> dtype:
    widest = lower = state.dtypes[device]
    for value in (v for a in args for v in (a if a.__class__ in (tuple, list) else (a,)) if _eligible(v, device)):
        if value.dtype is not float32 and value.dtype is not lower and widest is not float32:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
        widest = float32 if value.dtype is float32 else widest
    return widest


def _refuse(args: tuple, device: str) -> tuple:
    raise RuntimeError(_BANNED)


def _rule(operator: Operator, policy: str) -> Callable[[tuple, str], tuple | None]:
    """(arguments, device) -> what the operator gets, run outside of autocast; None leaves a call as it is."""
    if policy == "lower":
        return lambda args, device: tuple(cast(a, state.dtypes[device], device) for a in args)
    if policy == "widest":
        return lambda args, device: cast(args, _widest(args, device), device)
    if policy == "banned":
        return _refuse
    if policy == "untouched":  # made of no listed operator in PyTorch
        return lambda args, device: args
    if policy == "padding":  # constant and circular padding, and reflection in three dimensions, are in no list
        return lambda args, device: (cast(args, float32, device) if (args[2], len(args[1])) in _WIDE_PADDINGS else None)
    if policy == "recurrent":  # oneDNN's layer, where PyTorch has it; otherwise what the steps are made of is cast
        return lambda args, device: (
            cast(args, bfloat16, device) if state.dtypes[device] is bfloat16 and isinstance(args[1], (tuple, list))
            and len(args[1]) == 2 and args[1][0].shape[2] == args[1][1].shape[2] else None)
    names = [a.name for a in operator.schema.arguments]
    if policy == "result" and "dtype" in names:
        place = names.index("dtype")
        return lambda args, device: ((*args[:place], float32, *args[place + 1 :])
                                     if args[place] is None and _eligible(args[0], device) else None)
    return lambda args, device: tuple(cast(a, float32, device) for a in args)


_WIDE_PADDINGS = {("reflect", 2), ("reflect", 4), ("replicate", 2), ("replicate", 4), ("replicate", 6)}


def _autocast_kernel(operator: Operator, below: Callable, mask: int) -> Callable:
    device = next((key.name.lower() for key in reversed(BACKENDS) if mask >> key & 1), "cpu")
    policy = _POLICIES.get(device, {}).get(operator.schema.base_name)
    if policy is None:
        return below
    arguments = _rule(operator, policy)

    def kernel(*args: Any) -> Any:
        given = arguments(args, device) if device in state.enabled else None
        if given is None:
            return below(*args)
        with changed_modes(include=modes.include & ~AUTOCAST_MASK):
            return call_bound(operator, given)

    return kernel


def _cast_before_recording(operator: Operator, args: tuple, device: str) -> tuple | None:
    """What a pipeline records in the place of a call's arguments; None if autocast leaves them."""
    policy = _POLICIES.get(device, {}).get(operator.schema.base_name)
    return _rule(operator, policy)(args, device) if policy is not None and device in state.enabled else None


registry.autocast = _cast_before_recording
registry.register_for_all(DispatchKey.Autocast, Around(_autocast_kernel))
