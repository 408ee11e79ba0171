"""`out=`: runs an operator and stores its results in the tensors given, once all of them are known to take them."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .._autograd.node import NotDerived
from .._autograd.views import WRITE_TO_INFERENCE, check_inplace, rebase
from .._backends.interface import backend_of
from .._dispatch.callers import call_bound, keys_of
from .._dispatch.keys import (
    AUTOCAST_MASK,
    DUAL_MASK,
    INFERENCE_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    TORCH_DISPATCH_MASK,
    changed_modes,
    modes,
)
from .._dispatch.registry import Operator
from .._dtype import FLOAT, can_cast, get_default_dtype
from .._geometry import contiguous_strides
from .._tensor import Tensor
from .families import Composite
from .placement import show
from .rules import c_name, check_overlap, check_shape_fits, check_writable, common_dtype, shape_text


class _Rule(NamedTuple):
    """Which types `out=` may have: exactly the result's or any it casts to; and what is said of others."""

    exact: bool
    text: str


_CASTABLE = _Rule(False, "result type {made} can't be cast to the desired output type {given}")
_EXACT = _Rule(True, "Expected out tensor to have dtype {c_made}, but got {c_given} instead")
_JOINED = _Rule(False, "torch.cat(): input types can't be cast to the desired output type {given}")
_SAFE = "Expected {} to be safely castable from {{made}} dtype, but got {} with dtype {{given}}"

# Operators that say it in words of their own.
_EXACTLY = {
    "Found dtype {given} but expected {made}":
        "abs ceil clamp conj_physical frac floor softshrink hardshrink gelu neg round sign sgn trunc softplus "
        "bitwise_not",
    "{name} does not support non-boolean outputs.": "signbit isposinf isneginf",
    "expected scalar_type {made} but found {given}": "cummax cummin diff logcumsumexp",
    "expected scalar type {made} but found {given}": "log_sigmoid linalg_solve_triangular",
    "expected scalar type '{made}' but got '{given}' for values output": "mode",
    "output values must be of same type as input": "kthvalue",
    "result dtype {given} does not match input dtype {made}": "dot vdot",
    "{name}(): self and result must have the same scalar type": "masked_select index_select",
    "Expected out type to be {made} but got {given}": "where",
    "{name}(): self and out expected to have the same dtype, but got self.dtype = {made} and out.dtype = {given}":
        "take",
    "{name} only supports bool tensor for result, got: {given}": "all any",
    "{name}: dtype of out: {given} should be same as input: {made}": "nan_to_num",
    "quantile() out tensor must be same dtype as the input tensor": "quantile nanquantile",
    "multinomial expects Long tensor out, got: {given}": "multinomial",
    "addmv input tensors must have the same dtype, but got {given}, {made}, and {other}": "mv",
    "tensordot: Expected the output tensor to have dtype {made}, but got an output tensor with dtype {given}": "inner",
    "linalg.vecdot: Expected out of dtype{made} but found {given}": "linalg_vecdot",
    "linalg.norm expected out tensor dtype {made} but got: {given}": "linalg_norm",
    "linalg.matrix_norm expected out tensor dtype {made} but got: {given}": "linalg_matrix_norm",
    "multi_dot(): expected out tensor to have dtype {c_made} but got {c_given}": "linalg_multi_dot",
    "Expected object of scalar type {made} but got scalar type {given} for argument 'out'": "complex polar",
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {c_made} and hist "
    "{c_given}": "histogram histc",
    "Expected the dtype for input and out to match, but got {made} for input's dtype and {given} for out's dtype.":
        "amax amin",
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
    "whether out_int32 flag is True, but we got output tensor's dtype {given} and out_int32 flag is False":
        "searchsorted bucketize",
    "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{made} and result has dtype "
    "{given}": "ormqr",
    "Expected result to be of dtype uint64, but got {given}": "hash_tensor",
    "nonzero: Expected out tensor to have scalar type Long but got scalar type{given}": "nonzero",
    "the output given to float_power has dtype {given} but the operation's result requires dtype {made}": "float_power",
    "self and mat2 must have the same dtype, but got {given} and {made}": "addbmm",
    "heaviside is not yet implemented for tensors with different dtypes.": "heaviside",
    _EXACT.text: "narrow_copy",
    "torch.frexp() expects mantissa to have dtype {c_made} but got {c_given}": "frexp",
}
_CASTABLY = {
    _CASTABLE.text: "addr outer ger kron std var mean poisson binomial normal mvlgamma linalg_matrix_rank",
    "{name}: " + _SAFE.format("result", "result"): "cholesky cholesky_inverse cholesky_solve",
    "linalg.cond: " + _SAFE.format("result", "result"): "linalg_cond",
    "linalg.pinv: " + _SAFE.format("result", "result"): "linalg_pinv",
    "matrix_power: " + _SAFE.format("result", "result"): "linalg_matrix_power matrix_power",
    "tensorinv: " + _SAFE.format("result", "result"): "linalg_tensorinv",
    "tensorsolve: " + _SAFE.format("result", "result"): "linalg_tensorsolve",
    "torch.geqrf: " + _SAFE.format("a", "a"): "geqrf",
    "torch.linalg.eig: " + _SAFE.format("eigenvalues", "eigenvalues"): "linalg_eig",
    "torch.linalg.eigvals: " + _SAFE.format("eigenvalues", "eigenvalues"): "linalg_eigvals",
    "torch.linalg.householder_product: " + _SAFE.format("result", "result"): "linalg_householder_product",
    "torch.linalg.lstsq: " + _SAFE.format("solution", "solution"): "linalg_lstsq",
    "ldexp can't be cast to the desired output type {given}": "ldexp",
    "logsumexp(): Expected floating point type for result tensor, but got: {given}": "logsumexp",
}
_RULES = {name: _Rule(exact, text) for exact, table in ((True, _EXACTLY), (False, _CASTABLY))
          for text, names in table.items() for name in names.split()}
_RULES |= {f"fft_{name}": _Rule(False, f"{shown} expects a complex output tensor, but got {{given}}")
           for name, shown in {"fft": "fft", "ifft": "ifft", "fft2": "fftn", "ifft2": "fftn", "fftn": "fftn",
                               "ifftn": "fftn", "rfft": "rfft", "rfft2": "rfftn", "rfftn": "rfftn", "ihfft": "ihfft",
                               "ihfft2": "ihfftn", "ihfftn": "ihfftn"}.items()}
_RULES |= {f"fft_{name}": _Rule(False, f"{shown} expects a floating point output tensor, but got {{given}}")
           for name, shown in {"irfft": "irfft", "irfft2": "irfftn", "irfftn": "irfftn", "hfft": "hfft",
                               "hfft2": "hfftn", "hfftn": "hfftn"}.items()}
# The functions without `out=`, those of torch by name and others with their place before it; of nn.functional, whose
# functions have mostly none, those that do.
_WITHOUT_OUT = frozenset("""
    _adaptive_avg_pool2d _adaptive_avg_pool3d _dirichlet_grad _lu_with_info _pack_padded_sequence
    _pad_packed_sequence _sample_dirichlet _segment_reduce _softmax_backward_data _standard_gamma
    _standard_gamma_grad _unique2 _unsafe_masked_index _unsafe_masked_index_put_accumulate _weight_norm
    adaptive_avg_pool1d adaptive_max_pool1d adjoint affine_grid_generator allclose alpha_dropout argwhere as_strided
    as_strided_scatter avg_pool1d bartlett_window batch_norm bilinear binary_cross_entropy_with_logits bincount
    binomial blackman_window broadcast_to cdist celu channel_shuffle chunk clone combinations conj constant_pad_nd
    conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution corrcoef
    cosine_embedding_loss cosine_similarity count_nonzero cov ctc_loss cumulative_trapezoid det diag_embed diagflat
    diagonal_scatter dist dropout dsplit embedding embedding_bag empty_like empty_permuted empty_strided equal
    feature_alpha_dropout feature_dropout fft.fftshift fft.ifftshift fill flatten flip fliplr flipud full_like
    gradient grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru gru_cell hamming_window hann_window
    hinge_embedding_loss histogramdd hsplit imag index_fill index_put instance_norm isclose isfinite isinf isnan
    isreal istft kaiser_window kl_div layer_norm linalg.diagonal linalg.matrix_exp linalg.vander logdet lstm
    lstm_cell margin_ranking_loss masked_fill masked_scatter matrix_exp max_pool1d max_pool1d_with_indices
    max_pool2d max_pool3d moveaxis movedim narrow native_channel_shuffle native_dropout native_group_norm
    native_layer_norm norm_except_dim one_hot ones_like pairwise_distance pdist pinverse pixel_shuffle
    pixel_unshuffle poisson poisson_nll_loss positive prelu put rand_like randint_like randn_like ravel real relu
    repeat_interleave reshape resolve_conj resolve_neg rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll
    rot90 rrelu rsub scalar_tensor segment_reduce select_scatter selu special.log_softmax special.softmax std_mean
    stft tensor_split tile trace trapezoid trapz tril_indices triplet_margin_loss triu_indices unflatten unique
    unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes vander var_mean vsplit zeros_like
""".split())
_FUNCTIONAL_WITH_OUT = frozenset(
    ("softplus", "logsigmoid", "gelu", "softshrink", "hardshrink", "linear", "avg_pool2d", "avg_pool3d")
)
# What they read may not lie where they write, though elements would agree.
_READ_BEFORE_WRITTEN = frozenset(("cat", "stack", "gather", "index_select"))
# They write numbers in turn into as many elements, whatever the shape.
_COUNTS = frozenset(("arange", "range", "linspace", "logspace"))
# They resize first, and then fill: elements may share memory.
_FILLS = frozenset(("zeros", "ones", "full", "empty", "eye", "randperm", "rand"))
# PyTorch runs these without a look at whether a gradient is wanted.
_NOT_DERIVED = frozenset(("softmax", "log_softmax", "diag", "linalg_norm", "histc", "floor_divide", "quantile",
                          "nanquantile", "any", "all", "isin", "searchsorted", "bucketize", "nonzero", "multinomial"))
# They go on, but not into a leaf that requires grad; nor does any operator that takes no tensors.
_REFUSE_LEAVES = frozenset(("softmax", "log_softmax", "diag", "floor_divide", "linspace", "logspace"))
# Whose name PyTorch gives for operators that it writes by others.
_WRITTEN_BY = {"norm": "linalg_vector_norm", "kron": "mul", "outer": "mul", "ger": "mul", "hstack": "cat",
               "vstack": "cat", "dstack": "cat", "diff": "sub", "square": "pow", "true_divide": "div",
               "matrix_power": "matmul", "chain_matmul": "mm", "float_power": "pow",
               "diag": "diag_embed"}


def takes_out(place: str, name: str) -> bool:
    """Whether PyTorch's public function of that name has `out=`."""
    if place == "nn.functional":
        return name in _FUNCTIONAL_WITH_OUT
    shown = name if place in ("torch", "_nn") else f"{place}.{name}"
    return place != "Tensor" and shown not in _WITHOUT_OUT and not name.startswith("_foreach_")


# Forms of functions with `out=` that have none: by schema, and those in which a number stands for a tensor.
_FORMS_WITHOUT_OUT = frozenset(("bernoulli.p", "where", "argsort"))
_NUMBERS_WITHOUT_OUT = frozenset(("remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
                                  "bitwise_right_shift", "where"))


def _check_form(operator: Operator, values: Sequence[Any]) -> None:
    """Raises if PyTorch has no `out=` for these arguments."""
    name = operator.schema.base_name
    numbers = values[1:] if name == "where" else values[:1]
    if operator.schema.name in _FORMS_WITHOUT_OUT or (
            name in _NUMBERS_WITHOUT_OUT and not all(isinstance(v, Tensor) for v in numbers)):
        raise TypeError(f"{name}() received an invalid combination of arguments: there is no `out=` beside them. "
                        f"Schema: {operator.schema}")


def write_out(operator: Operator, values: Sequence[Any], out: Any) -> Any:
    """Runs an operator and stores its results in the tensors given as `out=`."""
    name = operator.schema.base_name
    _check_form(operator, values)
    targets = _checked_targets(operator, out)
    keys = keys_of(operator, values)
    if keys & TORCH_DISPATCH_MASK or modes.include & TORCH_DISPATCH_MASK or _answered(targets):
        result = handle_out[0](operator, values, out)
        if result is not NotImplemented:
            return result
    if keys & DUAL_MASK:
        raise NotImplementedError(f"Trying to use forward AD with {name}_out that does not support it because it is an "
                                  "out= function")
    needs_grad = keys & REQUIRES_GRAD or any(t.requires_grad for t in (*targets, *_tensors(values)))
    if modes.grad_enabled and needs_grad and not modes.inference and _is_derived(operator):
        raise RuntimeError(f"{_WRITTEN_BY.get(name, name)}(): functions with out=... arguments don't support automatic "
                           "differentiation, but one of the arguments requires grad.")
    cuts_off = modes.grad_enabled and not modes.inference and needs_grad and (
        name in _REFUSE_LEAVES or not any(a.is_tensor for a in operator.schema.arguments))
    if cuts_off and not all(_may_be_written(t) for t in targets):
        raise RuntimeError(f"aten::{_WRITTEN_BY.get(name, name)}(): functions with out=... arguments don't support "
                           "automatic differentiation, but one of the arguments requires grad.")
    family, at = operator.declaration.family, operator.schema.index.get("dtype")
    asked = None if at is None else values[at]
    if asked is not None and asked is not targets[0].dtype:
        raise RuntimeError(_EXACT.text.format(c_made=c_name(asked), c_given=c_name(targets[0].dtype))
                           if family.out_types != "own" else f"dtype {asked.scalar_name} does not match dtype of out "
                                                             f"parameter ({targets[0].dtype.scalar_name})")
    if family.out_types in ("any", "own") and at is not None and asked is None:  # `out` says in which type to compute
        values = [*values[:at], targets[0].dtype, *values[at + 1 :]]
    for target in targets:
        if target._keys & SPARSE_MASK:
            continue
        if family.elementwise:
            check_writable(target)
            for source in _tensors(values):
                check_overlap(target, source)
    if name == "matmul":
        _check_product(targets[0], *values)
    with changed_modes(grad_enabled=False, include=modes.include & ~AUTOCAST_MASK):
        try:
            result = call_bound(operator, values)
        except NotImplementedError as error:
            if '" not implemented for' in str(error):  # said by a kernel, after the types were compared
                _check_exact(targets[0], name, family, values)
            raise
        results = result if isinstance(result, (tuple, list)) else (result,)
        if len(results) != len(targets):
            raise RuntimeError(f"{name}_out expected an out= argument of size {len(results)}, got size {len(targets)}")
        for target, value in zip(targets, results, strict=True):
            measured = name == "abs" and values[0].dtype.is_complex  # whose result has another type anyway
            _check_fits(target, value, "" if measured else name, family)
            if target._keys & INFERENCE_MASK and not modes.inference:
                raise RuntimeError(WRITE_TO_INFERENCE)
            if not family.elementwise and name not in _FILLS and _stays(target, value, name):
                check_writable(target)
            for source in _tensors(values):
                if name in _READ_BEFORE_WRITTEN:
                    check_overlap(target, source, same=False)
                elif source is target and family.elementwise:
                    check_shape_fits(target, value._array.shape)
        for target, value in zip(targets, results, strict=True):
            if name in _COUNTS:
                value = _counted(target, value, name)
            if (target._keys | value._keys) & SPARSE_MASK:
                _store_sparse(operator, target, value)
            else:
                _store(target, value, family, _tensors(values))
    if cuts_off:
        for target in targets:
            node = NotDerived(f"aten::{name}", (target._recording_edge() if target.requires_grad else None,))
            node.outputs = ((target._array.shape, target._array.dtype, target._device),)
            rebase(target, node)
    if ("requires_grad" in operator.schema.index and family.out_types == "own"
            and (targets[0]._base is None or modes.inference) and targets[0]._edge is None):
        targets[0]._track(values[operator.schema.index["requires_grad"]])
    if not isinstance(out, (tuple, list)):
        return out
    kind = operator.declaration.result_type
    return out if kind is None else kind(*targets)


# What asks `__torch_dispatch__` about a call with `out=`; the layer above fills it.
handle_out: list[Callable[[Operator, Sequence[Any], Any], Any]] = []


def _answered(targets: Sequence[Tensor]) -> bool:
    return any(t._keys & TORCH_DISPATCH_MASK for t in targets)


def _checked_targets(operator: Operator, out: Any) -> Sequence[Tensor]:
    """The tensors of `out=`, as many as there are results."""
    name, returns = operator.schema.base_name, operator.schema.returns
    targets = out if isinstance(out, (tuple, list)) else (out,)
    if len(returns) == 1 and not returns[0].is_list and targets is out:
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if len(returns) > 1 and targets is not out:
        raise TypeError(f"{name}(): argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(returns) > 1 and len(targets) != len(returns):
        raise TypeError(f"expected tuple of {len(returns)} elements but got {len(targets)}")
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    return targets


def _may_be_written(target: Tensor) -> bool:
    """Whether a recorded write would be taken: not by a leaf, its views, or views that only look."""
    try:
        check_inplace(target)
    except RuntimeError:
        return False
    return True


def _is_derived(operator: Operator) -> bool:
    """Whether PyTorch would have to record a call: not one of operators without a derivative."""
    declaration = operator.declaration
    if operator.schema.base_name in (_NOT_DERIVED | _COUNTS) or not any(a.is_tensor for a in operator.schema.arguments):
        return False
    return declaration.derivative is not None or isinstance(declaration.family, Composite)


def _stays(target: Tensor, value: Tensor, name: str) -> bool:
    """Whether a target need not be resized for a result."""
    return target._array.shape == value._array.shape or name in _COUNTS and target.numel() == value.numel()


def _counted(target: Tensor, value: Tensor, name: str) -> Tensor:
    """Numbers in the shape of a target that has as many elements; else the target is resized."""
    if target.numel() == value.numel():
        return value.view(target.shape)  # type: ignore[attr-defined]
    if target.numel() and name == "arange":
        warnings.warn(f"The number of elements in the out tensor of shape {shape_text(target.shape)} is "
                      f"{target.numel()} which does not match the computed number of elements {value.numel()}. Note "
                      "that this may occur as a result of rounding error. The out tensor will be resized to a tensor "
                      f"of shape ({value.numel()},).", stacklevel=4)
    return value


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _tensors(value)
        elif isinstance(value, Tensor):
            yield value


def _check_fits(target: Tensor, value: Tensor, name: str, family: Any) -> None:
    """Raises unless a result may be stored in `target`; nothing is stored yet."""
    if target._device.type != value._device.type:
        raise RuntimeError(f"Attempting to copy from device {value.device} to device {target.device}, but cross-device "
                           "copies are not allowed!")
    made, given = value.dtype, target.dtype
    if name == "mean" and given.category < FLOAT:  # which divides a sum of that type
        made = get_default_dtype()
    if family.out_types == "any":
        return
    rule = _JOINED if family.out_types == "joined" else _rule_of(name, family)
    if made is given if rule.exact else can_cast(made, given) and (made.is_complex or not name.startswith("fft_")
                                                                   or not given.is_complex):
        return
    error = TypeError if rule is _JOINED else RuntimeError
    raise error(rule.text.format(made=made.scalar_name, given=given.scalar_name, c_made=c_name(made),
                                 c_given=c_name(given), name=name, other=made.scalar_name))


def _rule_of(name: str, family: Any) -> _Rule:
    exact = family.out_types == "exact" or (family.out_types == "castable" and not family.elementwise)
    return _RULES.get(name) or (_EXACT if exact else _CASTABLE)


def _check_exact(target: Tensor, name: str, family: Any, values: Sequence[Any]) -> None:
    """Raises if a target has not the type of the operand, where PyTorch asks for that before it computes."""
    rule, source = _rule_of(name, family), next(_tensors(values), target)
    if rule.exact and source.dtype is not target.dtype:
        raise RuntimeError(rule.text.format(made=source.dtype.scalar_name, given=target.dtype.scalar_name, name=name,
                                            c_made=c_name(source.dtype), c_given=c_name(target.dtype),
                                            other=source.dtype.scalar_name)) from None


def _check_product(target: Tensor, a: Tensor, b: Tensor) -> None:
    """Raises where PyTorch looks at the type of a product's target before it compares those of the factors."""
    left, right, given = a._array.shape, b._array.shape, target.dtype
    if not left or not right:
        return
    first = b.dtype if len(left) <= 2 < len(right) else a.dtype  # the factors change places
    if len(left) == len(right) == 1:
        rule = _RULES["dot"] if given is not a.dtype else None
    elif left[-1] != right[-2 if len(right) > 1 else 0] or len(left) == 2 and len(right) == 1:
        return
    elif len(right) == 1:
        rule = _RULES["mv"] if not given is a.dtype is b.dtype else None
    else:
        rule = _EXACT if given is not first else None
    if rule is not None:
        raise RuntimeError(rule.text.format(made=first.scalar_name, given=given.scalar_name, c_made=c_name(first),
                                            c_given=c_name(given), other=b.dtype.scalar_name))


def _store_sparse(operator: Operator, target: Tensor, value: Tensor) -> None:
    from .sparse import store_result

    store_result(target, value, replaces=sum(a.is_tensor for a in operator.schema.arguments) > 1)


def _store(target: Tensor, value: Tensor, family: Any, operands: Iterator[Tensor]) -> None:
    if target._array.shape != value._array.shape:
        # PyTorch says it once more where it computes in another type first.
        times = 1 + (family.elementwise and target.dtype not in (value.dtype, common_dtype(list(operands))))
        for _ in range(times if target.numel() and family.out_types != "own" else 0):
            warnings.warn("An output with one or more elements was resized since it had shape "
                          f"{shape_text(target.shape)}, which does not match the required output shape "
                          f"{shape_text(value.shape)}. This behavior is deprecated, and in a future PyTorch release "
                          "outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
                          "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
                          stacklevel=4)
        shape = tuple(value.shape)
        strides = value.stride() if family.elementwise else contiguous_strides(shape)
        show(target, target.untyped_storage(), target.storage_offset(), shape, strides)
    if target._array.size:
        backend_of(target._device.type).copy(target, value)
    target._bump_version()
