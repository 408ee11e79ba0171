"""Operators as ATen has them, for those who look on: `__torch_dispatch__` of subclasses and of modes.

Where this library has one operator for what is several in ATen, `FORMS` says which; they are recorded in its place.
Where it has the same operator under another name or with other arguments, `shown` translates a call. Nobody else pays.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._dispatch.callers import call_bound
from .._dispatch.keys import BACKENDS, DispatchKey
from .._dispatch.registry import Operator, registry
from .._tensor import Tensor
from .activation import SELU_ALPHA, SELU_SCALE
from .declare import composite, op
from .families import Family
from .matmul import matmul_by_parts
from .rules import broadcast_shape

# below autograd ------------------------------------------------------------------------------------------------------


class _OnTensors(Family):
    """One function of tensors for all backends, below autograd; its results need no gradient."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        return dict.fromkeys(BACKENDS, self.function)


op("detach(Tensor(a) self) -> Tensor(a)", kernel=_OnTensors(Tensor._detached), public="")
op("_local_scalar_dense(Tensor self) -> Scalar", kernel=_OnTensors(Tensor.item), public="")


# names of ATen's that are other operators here ------------------------------------------------------------------------


@composite("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", public="")
def _softmax(self, dim, half_to_float):
    return self.float().softmax(dim) if half_to_float else self.softmax(dim)


@composite("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", public="")
def _log_softmax(self, dim, half_to_float):
    return self.float().log_softmax(dim) if half_to_float else self.log_softmax(dim)


@composite("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", public="")
def _log_sigmoid_forward(self):
    return _call("log_sigmoid", self), self.new_empty((0,))


@composite("nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index)"
           " -> (Tensor output, Tensor total_weight)", public="")
def _nll_loss_forward(self, target, weight, reduction, ignore_index):
    kept = target != ignore_index
    if weight is None:
        total = kept.sum().to(self.dtype)
    else:
        total = weight[target.where(kept, 0)].where(kept, 0).sum()
    return _call("nll_loss", self, target, weight, reduction, ignore_index), total


@composite("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps)"
           " -> (Tensor result, Tensor result1)", public="")
def _fused_rms_norm(input, normalized_shape, weight, eps):
    output, rstd = _call("_native_rms_norm", input, normalized_shape, weight, eps)
    return output, rstd.detach()


def _call(name: str, *values: Any) -> Any:
    return call_bound(registry.get(name), values)


# several operators in the place of one -------------------------------------------------------------------------------


def _linear(input, weight, bias):
    if weight.dim() != 2:
        made = input.matmul(weight)
        return made if bias is None else made + bias
    if bias is None or bias.dim() != 1 or input.dim() == 1:
        made = input.matmul(weight.t())
        return made if bias is None else made + bias
    if input.dim() == 2:
        return bias.addmm(input, weight.t())
    rows = input.reshape((math.prod(input.shape[:-1]), input.shape[-1]))
    return bias.addmm(rows, weight.t()).view((*input.shape[:-1], weight.shape[0]))


def _matmul(self, other):
    a, b = self.dim(), other.dim()
    if not a or not b or a <= 2 and b <= 2:
        return registry.get("matmul").declaration.family.function(self, other)
    return matmul_by_parts(self, other, a, b)


def _batch_matmul(self, other):
    """As torch.matmul has it, when both have batches."""
    if self.dim() > 2 and other.dim() == 2:
        rows = self.reshape((math.prod(self.shape[:-1]), self.shape[-1]))
        return _call("_unsafe_view", rows.mm(other), (*self.shape[:-1], other.shape[-1]))
    batch = broadcast_shape([self._array.shape[:-2], other._array.shape[:-2]])
    flat = [t.expand((*batch, *t.shape[-2:])).reshape((math.prod(batch), *t.shape[-2:])) for t in (self, other)]
    return _call("_unsafe_view", flat[0].bmm(flat[1]), (*batch, self.shape[-2], other.shape[-1]))


def _cross_entropy(self, target, weight, reduction, ignore_index):
    scores = self.log_softmax(self.dim() - 1 if self.dim() == 1 else 1)
    return _call("nll_loss", scores, target, weight, reduction, ignore_index), None


FORMS: dict[str, Callable] = {
    "linear": _linear, "matmul": _matmul, "_batch_matmul": _batch_matmul, "_cross_entropy": _cross_entropy,
}


# the same operator in other words ------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """An operator of ATen: its values for a call, and what its result is here."""

    name: str
    values: Callable[..., Sequence[Any]]
    result: Callable[[Any], Any] = lambda result: result


def _first(result: Any) -> Any:
    return result[0]


def _normalised_groups(input, weight, bias, groups, eps):
    batch, channels, *inner = input.shape
    return input, weight, bias, batch, channels, math.prod(inner), groups, eps


def _softmax_values(self, dim, dtype):
    return self if dtype is None else self.to(dtype), dim, False


_SHOWN = {
    "softmax": Shown("_softmax", _softmax_values),
    "log_softmax": Shown("_log_softmax", _softmax_values),
    "nll_loss": Shown("nll_loss_forward", lambda *values: values, _first),
    "log_sigmoid": Shown("log_sigmoid_forward", lambda self: (self,), _first),
    "relu6": Shown("hardtanh", lambda self: (self, 0, 6)),
    "relu6_": Shown("hardtanh_", lambda self: (self, 0, 6)),
    "selu": Shown("elu", lambda self: (self, SELU_ALPHA, SELU_SCALE, 1)),
    "selu_": Shown("elu_", lambda self: (self, SELU_ALPHA, SELU_SCALE, 1)),
    "square": Shown("pow", lambda self: (self, 2)),
    "square_": Shown("pow_", lambda self: (self, 2)),
    "true_divide": Shown("div", lambda self, other: (self, other, None)),
    "true_divide_": Shown("div_", lambda self, other: (self, other, None)),
    "_native_layer_norm": Shown("native_layer_norm", lambda *values: values),
    "_native_rms_norm": Shown("_fused_rms_norm", lambda *values: values),
    "_group_norm": Shown("native_group_norm", _normalised_groups),
    "_batch_norm": Shown("native_batch_norm",
                         lambda input, weight, bias, eps: (input, weight, bias, None, None, True, 0.0, eps)),
    "_batch_norm_running": Shown("native_batch_norm", lambda input, weight, bias, mean, var, eps: (
        input, weight, bias, mean, var, False, 0.0, eps), _first),
    "_reshape_alias": Shown("view", lambda self, size: (self, size)),
    "_as_strided": Shown("as_strided", lambda self, size, stride, offset, *own: (self, size, stride, offset)),
}
_NUMBER_FIRST = {"sub": Shown("rsub", lambda self, other, alpha: (other, self, alpha))}


def shown(operator: Operator, values: Sequence[Any]) -> Shown | None:
    """How a call is shown if not as it is."""
    name = operator.schema.base_name
    if name in _NUMBER_FIRST and not hasattr(values[0], "_keys"):
        return _NUMBER_FIRST[name]
    return _SHOWN.get(name)


# Written as other operators here, and one in ATen; calls that are recorded are shown as their parts all the same.
_LEAVES = frozenset("""
    _chunk_cat _pack_padded_sequence _unsafe_masked_index _unsafe_masked_index_put_accumulate addbmm addbmm_ addr
    addr_ affine_grid_generator alias_copy as_strided_ as_strided_copy as_strided_scatter bartlett_window bernoulli
    binary_cross_entropy_with_logits blackman_window channel_shuffle cholesky conj_physical_ conv_tbc diagonal_copy
    diagonal_scatter dist expand_copy fft_fftfreq fft_rfftfreq fill glu grid_sampler_2d grid_sampler_3d
    hamming_window hann_window histogram index_reduce index_reduce_ kaiser_window linalg_householder_product
    linalg_lstsq linalg_lu lu_unpack multi_margin_loss mvlgamma mvlgamma_ nansum narrow_copy ormqr permute_copy
    pixel_shuffle pixel_unshuffle renorm renorm_ rot90 rsub scalar_tensor segment_reduce select_copy select_scatter
    slice_copy slice_scatter soft_margin_loss split_copy split_with_sizes_copy squeeze_ squeeze_copy t_ t_copy trace
    transpose_ transpose_copy triangular_solve unbind_copy unfold_copy unique_consecutive unsafe_split
    unsafe_split_with_sizes unsqueeze_ unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy
    native_layer_norm native_batch_norm _native_batch_norm_legit native_group_norm _softmax _log_softmax
    log_sigmoid_forward nll_loss_forward _fused_rms_norm
""".split())


_WITHOUT_GRADIENT = frozenset(("allclose", "equal"))


def is_shown(operator: Operator, recorded: bool) -> bool:
    """Whether a call is seen as this operator, and not as those that it is written as."""
    name = operator.schema.base_name
    if not operator.is_composite or name in _WITHOUT_GRADIENT:
        return True
    return not recorded and (name in _LEAVES or name.startswith("_foreach_"))


def attach() -> None:
    """Tells the operators that are several in ATen so."""
    for name, form in FORMS.items():
        registry.get(name).aten_form = form
