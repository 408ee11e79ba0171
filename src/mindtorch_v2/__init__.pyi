"""Made by tools/stubs.py: do not edit."""

# ruff: noqa
# mypy: disable-error-code="misc, overload-overlap, overload-cannot-match, override, assignment"

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from ._core.device import Size as Size, device as _Device, layout as _Layout
from ._core.device import memory_format as _MemoryFormat
from ._core.dtype import dtype as _DType
from ._core.generator import Generator as Generator
from ._core.storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
from ._core.tensor import Tensor as Tensor
from . import return_types as return_types

_Number: TypeAlias = _int | _float | _bool | _complex
_DeviceLike: TypeAlias = _Device | _str | _int

__version__: _str

from ._core.device_objects import AcceleratorError as AcceleratorError
AggregationType: Any
AliasDb: Any
AnyType: Any
ArgumentSpec: Any
AwaitType: Any
BFloat16Storage: Any
class BFloat16Tensor(Tensor): ...
BenchmarkConfig: Any
Block: Any
BoolStorage: Any
class BoolTensor(Tensor): ...
BoolType: Any
BufferDict: Any
ByteStorage: Any
class ByteTensor(Tensor): ...
Capsule: Any
CharStorage: Any
class CharTensor(Tensor): ...
ClassType: Any
Code: Any
CompilationUnit: Any
CompleteArgumentSpec: Any
ComplexDoubleStorage: Any
ComplexFloatStorage: Any
ComplexType: Any
ConcreteModuleType: Any
from ._compat.old_names import DeviceObjType as DeviceObjType
DictType: Any
from ._C import DisableTorchFunction as DisableTorchFunction
from ._C import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from ._C import DispatchKey as DispatchKey
DoubleStorage: Any
class DoubleTensor(Tensor): ...
EnumType: Any
ErrorReport: Any
from ._core.device_objects import Event as Event
from ._compat.old_names import FatalError as FatalError
FloatStorage: Any
class FloatTensor(Tensor): ...
FloatType: Any
from .futures import Future as Future
FutureType: Any
from .amp.grad_scaler import GradScaler as GradScaler
Gradient: Any
Graph: Any
HalfStorage: Any
class HalfTensor(Tensor): ...
InferredType: Any
IntStorage: Any
class IntTensor(Tensor): ...
IntType: Any
InterfaceType: Any
ListType: Any
LiteScriptModule: Any
LongStorage: Any
class LongTensor(Tensor): ...
Node: Any
NoneType: Any
NumberType: Any
OptionalType: Any
from ._core.device_objects import OutOfMemoryError as OutOfMemoryError
ParameterDict: Any
PyObjectType: Any
from ._C import PyTorchFileReader as PyTorchFileReader
from ._C import PyTorchFileWriter as PyTorchFileWriter
QInt32Storage: Any
QInt8Storage: Any
QUInt2x4Storage: Any
QUInt4x2Storage: Any
QUInt8Storage: Any
RRefType: Any
ScriptDict: Any
from .jit import ScriptFunction as ScriptFunction
ScriptList: Any
ScriptMethod: Any
from .jit import ScriptModule as ScriptModule
ScriptObject: Any
ShortStorage: Any
class ShortTensor(Tensor): ...
Storage: Any
from ._core.storage import StorageBase as StorageBase
from ._core.device_objects import Stream as Stream
StreamObjType: Any
StringType: Any
from ._symbolic import SymBool as SymBool
SymBoolType: Any
from ._symbolic import SymFloat as SymFloat
from ._symbolic import SymInt as SymInt
SymIntType: Any
from ._compat.old_names import Tag as Tag
TensorType: Any
ThroughputBenchmark: Any
TupleType: Any
Type: Any
UnionType: Any
Use: Any
Value: Any
from . import _C as _C
from . import __config__ as __config__
from . import __future__ as __future__
def _adaptive_avg_pool2d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor: ...
def _adaptive_avg_pool3d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor: ...
def _addmm_activation(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    use_gelu: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
from ._core.checks import _assert as _assert
from ._core.checks import _assert_async as _assert_async
from ._core.checks import _assert_tensor_metadata as _assert_tensor_metadata
from ._core.checks import _check as _check
from ._core.checks import _check_index as _check_index
from ._core.checks import _check_is_size as _check_is_size
from ._core.checks import _check_not_implemented as _check_not_implemented
from ._core.checks import _check_tensor_all as _check_tensor_all
from ._core.checks import _check_tensor_all_with as _check_tensor_all_with
from ._core.checks import _check_type as _check_type
from ._core.checks import _check_value as _check_value
from ._core.checks import _check_with as _check_with
from ._quantized import _choose_qparams_per_tensor as _choose_qparams_per_tensor
def _chunk_cat(tensors: Sequence[Tensor], dim: _int, num_chunks: _int, *, out: Tensor | None = None) -> Tensor: ...
from . import _compat as _compat
def _conj(input: Tensor) -> Tensor: ...
def _convert_indices_from_coo_to_csr(
    input: Tensor,
    size: _int,
    *,
    out_int32: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor,
    col_indices: Tensor,
    *,
    out_int32: _bool = False,
    transpose: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
from . import _custom_op as _custom_op
from . import _custom_ops as _custom_ops
from . import _decomp as _decomp
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor: ...
from ._compile import _disable_dynamo as _disable_dynamo
from ._subclasses.functional_names import _disable_functionalization as _disable_functionalization
from . import _dynamo as _dynamo
from ._subclasses.functional_names import _enable_functionalization as _enable_functionalization
def _fft_c2c(
    input: Tensor,
    dim: Sequence[_int],
    normalization: _int,
    forward: _bool,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def _fft_c2r(
    input: Tensor,
    dim: Sequence[_int],
    normalization: _int,
    last_dim_size: _int,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def _fft_r2c(
    input: Tensor,
    dim: Sequence[_int],
    normalization: _int,
    onesided: _bool,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def _foreach_abs(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_abs_(input: Sequence[Tensor]) -> None: ...
def _foreach_acos(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_acos_(input: Sequence[Tensor]) -> None: ...
@overload
def _foreach_add(input: Sequence[Tensor], scalar: _Number) -> list[Tensor]: ...
@overload
def _foreach_add(input: Sequence[Tensor], scalars: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_add(input: Sequence[Tensor], other: Tensor, *, alpha: _Number = 1) -> list[Tensor]: ...
@overload
def _foreach_add(input: Sequence[Tensor], other: Sequence[Tensor], *, alpha: _Number = 1) -> list[Tensor]: ...
@overload
def _foreach_add_(input: Sequence[Tensor], scalar: _Number) -> None: ...
@overload
def _foreach_add_(input: Sequence[Tensor], scalars: Sequence[_Number]) -> None: ...
@overload
def _foreach_add_(input: Sequence[Tensor], other: Tensor, *, alpha: _Number = 1) -> None: ...
@overload
def _foreach_add_(input: Sequence[Tensor], other: Sequence[Tensor], *, alpha: _Number = 1) -> None: ...
@overload
def _foreach_addcdiv(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Sequence[_Number],
) -> list[Tensor]: ...
@overload
def _foreach_addcdiv(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Tensor,
) -> list[Tensor]: ...
@overload
def _foreach_addcdiv(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    value: _Number = 1,
) -> list[Tensor]: ...
@overload
def _foreach_addcdiv_(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Sequence[_Number],
) -> None: ...
@overload
def _foreach_addcdiv_(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Tensor,
) -> None: ...
@overload
def _foreach_addcdiv_(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    value: _Number = 1,
) -> None: ...
@overload
def _foreach_addcmul(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Sequence[_Number],
) -> list[Tensor]: ...
@overload
def _foreach_addcmul(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Tensor,
) -> list[Tensor]: ...
@overload
def _foreach_addcmul(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    value: _Number = 1,
) -> list[Tensor]: ...
@overload
def _foreach_addcmul_(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Sequence[_Number],
) -> None: ...
@overload
def _foreach_addcmul_(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Tensor,
) -> None: ...
@overload
def _foreach_addcmul_(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    value: _Number = 1,
) -> None: ...
def _foreach_asin(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_asin_(input: Sequence[Tensor]) -> None: ...
def _foreach_atan(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_atan_(input: Sequence[Tensor]) -> None: ...
def _foreach_ceil(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_ceil_(input: Sequence[Tensor]) -> None: ...
@overload
def _foreach_clamp_max(input: Sequence[Tensor], scalar: _Number) -> list[Tensor]: ...
@overload
def _foreach_clamp_max(input: Sequence[Tensor], scalars: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_clamp_max(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_clamp_max_(input: Sequence[Tensor], scalar: _Number) -> None: ...
@overload
def _foreach_clamp_max_(input: Sequence[Tensor], scalars: Sequence[_Number]) -> None: ...
@overload
def _foreach_clamp_max_(input: Sequence[Tensor], other: Sequence[Tensor]) -> None: ...
@overload
def _foreach_clamp_min(input: Sequence[Tensor], scalar: _Number) -> list[Tensor]: ...
@overload
def _foreach_clamp_min(input: Sequence[Tensor], scalars: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_clamp_min(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_clamp_min_(input: Sequence[Tensor], scalar: _Number) -> None: ...
@overload
def _foreach_clamp_min_(input: Sequence[Tensor], scalars: Sequence[_Number]) -> None: ...
@overload
def _foreach_clamp_min_(input: Sequence[Tensor], other: Sequence[Tensor]) -> None: ...
def _foreach_clone(input: Sequence[Tensor], *, memory_format: _MemoryFormat | None = None) -> list[Tensor]: ...
def _foreach_copy_(input: Sequence[Tensor], src: Sequence[Tensor], non_blocking: _bool = False) -> None: ...
def _foreach_cos(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_cos_(input: Sequence[Tensor]) -> None: ...
def _foreach_cosh(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_cosh_(input: Sequence[Tensor]) -> None: ...
@overload
def _foreach_div(input: Sequence[Tensor], scalar: _Number) -> list[Tensor]: ...
@overload
def _foreach_div(input: Sequence[Tensor], scalars: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_div(input: Sequence[Tensor], other: Tensor) -> list[Tensor]: ...
@overload
def _foreach_div(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_div_(input: Sequence[Tensor], scalar: _Number) -> None: ...
@overload
def _foreach_div_(input: Sequence[Tensor], scalars: Sequence[_Number]) -> None: ...
@overload
def _foreach_div_(input: Sequence[Tensor], other: Tensor) -> None: ...
@overload
def _foreach_div_(input: Sequence[Tensor], other: Sequence[Tensor]) -> None: ...
def _foreach_erf(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_erf_(input: Sequence[Tensor]) -> None: ...
def _foreach_erfc(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_erfc_(input: Sequence[Tensor]) -> None: ...
def _foreach_exp(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_exp_(input: Sequence[Tensor]) -> None: ...
def _foreach_expm1(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_expm1_(input: Sequence[Tensor]) -> None: ...
def _foreach_floor(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_floor_(input: Sequence[Tensor]) -> None: ...
def _foreach_frac(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_frac_(input: Sequence[Tensor]) -> None: ...
@overload
def _foreach_lerp(input: Sequence[Tensor], tensors1: Sequence[Tensor], weight: _Number) -> list[Tensor]: ...
@overload
def _foreach_lerp(input: Sequence[Tensor], tensors1: Sequence[Tensor], weight: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_lerp(input: Sequence[Tensor], tensors1: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_lerp_(input: Sequence[Tensor], tensors1: Sequence[Tensor], weight: _Number) -> None: ...
@overload
def _foreach_lerp_(input: Sequence[Tensor], tensors1: Sequence[Tensor], weight: Sequence[_Number]) -> None: ...
@overload
def _foreach_lerp_(input: Sequence[Tensor], tensors1: Sequence[Tensor], weights: Sequence[Tensor]) -> None: ...
def _foreach_lgamma(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_lgamma_(input: Sequence[Tensor]) -> None: ...
def _foreach_log(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_log10(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_log10_(input: Sequence[Tensor]) -> None: ...
def _foreach_log1p(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_log1p_(input: Sequence[Tensor]) -> None: ...
def _foreach_log2(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_log2_(input: Sequence[Tensor]) -> None: ...
def _foreach_log_(input: Sequence[Tensor]) -> None: ...
def _foreach_max(input: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_maximum(input: Sequence[Tensor], scalar: _Number) -> list[Tensor]: ...
@overload
def _foreach_maximum(input: Sequence[Tensor], scalars: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_maximum(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_maximum_(input: Sequence[Tensor], scalar: _Number) -> None: ...
@overload
def _foreach_maximum_(input: Sequence[Tensor], scalars: Sequence[_Number]) -> None: ...
@overload
def _foreach_maximum_(input: Sequence[Tensor], other: Sequence[Tensor]) -> None: ...
@overload
def _foreach_minimum(input: Sequence[Tensor], scalar: _Number) -> list[Tensor]: ...
@overload
def _foreach_minimum(input: Sequence[Tensor], scalars: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_minimum(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_minimum_(input: Sequence[Tensor], scalar: _Number) -> None: ...
@overload
def _foreach_minimum_(input: Sequence[Tensor], scalars: Sequence[_Number]) -> None: ...
@overload
def _foreach_minimum_(input: Sequence[Tensor], other: Sequence[Tensor]) -> None: ...
def _foreach_mm(input: Sequence[Tensor], mat2: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_mul(input: Sequence[Tensor], scalar: _Number) -> list[Tensor]: ...
@overload
def _foreach_mul(input: Sequence[Tensor], scalars: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_mul(input: Sequence[Tensor], other: Tensor) -> list[Tensor]: ...
@overload
def _foreach_mul(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_mul_(input: Sequence[Tensor], scalar: _Number) -> None: ...
@overload
def _foreach_mul_(input: Sequence[Tensor], scalars: Sequence[_Number]) -> None: ...
@overload
def _foreach_mul_(input: Sequence[Tensor], other: Tensor) -> None: ...
@overload
def _foreach_mul_(input: Sequence[Tensor], other: Sequence[Tensor]) -> None: ...
def _foreach_neg(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_neg_(input: Sequence[Tensor]) -> None: ...
def _foreach_norm(input: Sequence[Tensor], ord: _Number = 2, dtype: _DType | None = None) -> list[Tensor]: ...
@overload
def _foreach_pow(input: Sequence[Tensor], exponent: _Number) -> list[Tensor]: ...
@overload
def _foreach_pow(input: Sequence[Tensor], exponent: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_pow(input: Sequence[Tensor], exponent: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_pow(input: _Number, exponent: Sequence[Tensor]) -> list[Tensor]: ...
@overload
def _foreach_pow_(input: Sequence[Tensor], exponent: _Number) -> None: ...
@overload
def _foreach_pow_(input: Sequence[Tensor], exponent: Sequence[_Number]) -> None: ...
@overload
def _foreach_pow_(input: Sequence[Tensor], exponent: Sequence[Tensor]) -> None: ...
def _foreach_powsum(input: Sequence[Tensor], ord: _Number = 2, dtype: _DType | None = None) -> list[Tensor]: ...
def _foreach_reciprocal(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_reciprocal_(input: Sequence[Tensor]) -> None: ...
def _foreach_round(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_round_(input: Sequence[Tensor]) -> None: ...
def _foreach_rsqrt(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_rsqrt_(input: Sequence[Tensor]) -> None: ...
def _foreach_sigmoid(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_sigmoid_(input: Sequence[Tensor]) -> None: ...
def _foreach_sign(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_sign_(input: Sequence[Tensor]) -> None: ...
def _foreach_sin(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_sin_(input: Sequence[Tensor]) -> None: ...
def _foreach_sinh(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_sinh_(input: Sequence[Tensor]) -> None: ...
def _foreach_sqrt(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_sqrt_(input: Sequence[Tensor]) -> None: ...
@overload
def _foreach_sub(input: Sequence[Tensor], scalar: _Number) -> list[Tensor]: ...
@overload
def _foreach_sub(input: Sequence[Tensor], scalars: Sequence[_Number]) -> list[Tensor]: ...
@overload
def _foreach_sub(input: Sequence[Tensor], other: Sequence[Tensor], *, alpha: _Number = 1) -> list[Tensor]: ...
@overload
def _foreach_sub_(input: Sequence[Tensor], scalar: _Number) -> None: ...
@overload
def _foreach_sub_(input: Sequence[Tensor], scalars: Sequence[_Number]) -> None: ...
@overload
def _foreach_sub_(input: Sequence[Tensor], other: Sequence[Tensor], *, alpha: _Number = 1) -> None: ...
def _foreach_tan(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_tan_(input: Sequence[Tensor]) -> None: ...
def _foreach_tanh(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_tanh_(input: Sequence[Tensor]) -> None: ...
def _foreach_trunc(input: Sequence[Tensor]) -> list[Tensor]: ...
def _foreach_trunc_(input: Sequence[Tensor]) -> None: ...
def _foreach_zero_(input: Sequence[Tensor]) -> None: ...
from ._subclasses.functional_names import _freeze_functional_tensor as _freeze_functional_tensor
from ._subclasses.functional_names import _from_functional_tensor as _from_functional_tensor
from ._subclasses.functional_names import _functionalize_commit_update as _functionalize_commit_update
from ._subclasses.functional_names import _functionalize_has_data_mutation as _functionalize_has_data_mutation
from ._subclasses.functional_names import _functionalize_has_metadata_mutation as _functionalize_has_metadata_mutation
from ._subclasses.functional_names import _functionalize_is_multi_output_view as _functionalize_is_multi_output_view
from ._subclasses.functional_names import _functionalize_replace as _functionalize_replace
from ._subclasses.functional_names import _functionalize_sync as _functionalize_sync
from ._subclasses.functional_names import _functionalize_was_inductor_storage_resized as _functionalize_was_inductor_storage_resized
from ._subclasses.functional_names import _functionalize_was_storage_changed as _functionalize_was_storage_changed
from . import _functorch as _functorch
def _fused_adagrad_(
    input: Sequence[Tensor],
    grads: Sequence[Tensor],
    state_sums: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: Tensor | _Number,
    lr_decay: _float,
    weight_decay: _float,
    eps: _float,
    maximize: _bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None: ...
def _fused_adam_(
    input: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: Tensor | _Number,
    beta1: _float,
    beta2: _float,
    weight_decay: _float,
    eps: _float,
    amsgrad: _bool,
    maximize: _bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None: ...
def _fused_adamw_(
    input: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: Tensor | _Number,
    beta1: _float,
    beta2: _float,
    weight_decay: _float,
    eps: _float,
    amsgrad: _bool,
    maximize: _bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None: ...
def _fused_sgd_(
    input: Sequence[Tensor],
    grads: Sequence[Tensor],
    momentum_buffer_list: Sequence[Tensor],
    *,
    weight_decay: _float,
    momentum: _float,
    lr: Tensor | _Number,
    dampening: _float,
    nesterov: _bool,
    maximize: _bool,
    is_first_step: _bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None: ...
def _grouped_mm(
    input: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: _DType | None = None,
) -> Tensor: ...
from . import _higher_order_ops as _higher_order_ops
from . import _inductor as _inductor
def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from ._subclasses.functional_names import _is_functional_tensor as _is_functional_tensor
from ._subclasses.functional_names import _is_functional_tensor_base as _is_functional_tensor_base
from . import _jit_internal as _jit_internal
def _lazy_clone(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from . import _library as _library
from . import _lobpcg as _lobpcg
def _log_softmax_backward_data(
    grad_output: Tensor,
    output: Tensor,
    dim: _int,
    input_dtype: _DType,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
from . import _logging as _logging
from . import _lowrank as _lowrank
def _lu_with_info(input: Tensor, pivot: _bool = True, check_errors: _bool = True) -> return_types._lu_with_info: ...
from ._quantized import _make_per_channel_quantized_tensor as _make_per_channel_quantized_tensor
from ._quantized import _make_per_tensor_quantized_tensor as _make_per_tensor_quantized_tensor
from ._subclasses.functional_names import _mirror_autograd_meta_to as _mirror_autograd_meta_to
@overload
def _native_batch_norm_legit(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: _bool,
    momentum: _float,
    eps: _float,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def _native_batch_norm_legit(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def _native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: _int,
    num_head: _int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: _bool = True,
    average_attn_weights: _bool = True,
    mask_type: _int | None = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def _neg_view(input: Tensor) -> Tensor: ...
def _pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: _bool) -> tuple[Tensor, Tensor]: ...
def _pad_packed_sequence(
    data: Tensor,
    batch_sizes: Tensor,
    batch_first: _bool,
    padding_value: _Number,
    total_length: _int,
) -> tuple[Tensor, Tensor]: ...
from . import _prims as _prims
from . import _prims_common as _prims_common
from . import _refs as _refs
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor: ...
def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: _DType | None = None,
    use_fast_accum: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def _scaled_mm_v2(
    input: Tensor,
    mat2: Tensor,
    scale_a: Sequence[Tensor],
    recipe_a: Sequence[_int],
    swizzle_a: Sequence[_int],
    scale_b: Sequence[Tensor],
    recipe_b: Sequence[_int],
    swizzle_b: Sequence[_int],
    bias: Tensor | None,
    out_dtype: _DType | None,
    contraction_dim: Sequence[_int] = (),
    use_fast_accum: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def _segment_reduce(
    data: Tensor,
    reduce: _str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: _int = 0,
    unsafe: _bool = False,
    initial: _Number | None = None,
) -> Tensor: ...
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: _int, input_dtype: _DType) -> Tensor: ...
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor: ...
def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor: ...
from . import _subclasses as _subclasses
from ._subclasses.functional_names import _sync as _sync
from . import _tensor_str as _tensor_str
from ._subclasses.functional_names import _to_functional_tensor as _to_functional_tensor
def _transform_bias_rescale_qkv(
    qkv: Tensor,
    qkv_bias: Tensor,
    num_heads: _int,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def _unique2(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: _bool = False,
    return_counts: _bool = False,
) -> tuple[Tensor, Tensor, Tensor]: ...
def _unsafe_masked_index(input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: _Number) -> Tensor: ...
def _unsafe_masked_index_put_accumulate(
    input: Tensor,
    mask: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
) -> Tensor: ...
from . import _utils as _utils
from . import _utils_internal as _utils_internal
from . import _vmap_internals as _vmap_internals
def _weight_int8pack_mm(input: Tensor, mat2: Tensor, scales: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def _weight_norm(v: Tensor, g: Tensor, dim: _int = 0) -> Tensor: ...
from . import _weights_only_unpickler as _weights_only_unpickler
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def abs_(input: Tensor) -> Tensor: ...
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from . import accelerator as accelerator
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos_(input: Tensor) -> Tensor: ...
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acosh_(input: Tensor) -> Tensor: ...
def adaptive_avg_pool1d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor: ...
def adaptive_max_pool1d(input: Tensor, output_size: _int | Sequence[_int]) -> tuple[Tensor, Tensor]: ...
def add(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addcdiv(
    input: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addcmul(
    input: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor: ...
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def adjoint(input: Tensor) -> Tensor: ...
def affine_grid_generator(theta: Tensor, size: Sequence[_int], align_corners: _bool) -> Tensor: ...
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def all(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def allclose(
    input: Tensor,
    other: Tensor,
    rtol: _float = 1e-05,
    atol: _float = 1e-08,
    equal_nan: _bool = False,
) -> _bool: ...
def alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def amax(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def amin(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def aminmax(
    input: Tensor,
    *,
    dim: _int | None = None,
    keepdim: _bool = False,
    out: Sequence[Tensor] | None = None,
) -> return_types.aminmax: ...
from . import amp as amp
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def any(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
from . import ao as ao
def arange(
    start: _Number | None = None,
    end: _Number | None = None,
    step: _Number = 1,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccos_(input: Tensor) -> Tensor: ...
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccosh_(input: Tensor) -> Tensor: ...
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsin_(input: Tensor) -> Tensor: ...
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsinh_(input: Tensor) -> Tensor: ...
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan_(input: Tensor) -> Tensor: ...
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctanh_(input: Tensor) -> Tensor: ...
from ._core.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def argsort(
    input: Tensor,
    dim: _int = -1,
    descending: _bool = False,
    *,
    stable: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor: ...
def as_strided(
    input: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
) -> Tensor: ...
def as_strided_(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor: ...
def as_strided_copy(
    input: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
) -> Tensor: ...
from ._core.from_data import as_tensor as as_tensor
from ._core.from_data import asarray as asarray
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asin_(input: Tensor) -> Tensor: ...
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asinh_(input: Tensor) -> Tensor: ...
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan_(input: Tensor) -> Tensor: ...
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atanh_(input: Tensor) -> Tensor: ...
from .functional import atleast_1d as atleast_1d
from .functional import atleast_2d as atleast_2d
from .functional import atleast_3d as atleast_3d
from .amp.autocast_mode import autocast as autocast
from .amp._state import autocast_decrement_nesting as autocast_decrement_nesting
from .amp._state import autocast_increment_nesting as autocast_increment_nesting
from . import autograd as autograd
def avg_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = (),
    padding: _int | Sequence[_int] = ...,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
) -> Tensor: ...
from . import backends as backends
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: _Number = 1,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def bartlett_window(
    window_length: _int,
    periodic: _bool = True,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    cudnn_enabled: _bool,
) -> Tensor: ...
@overload
def bernoulli(input: Tensor, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def bernoulli(input: Tensor, p: _float, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor: ...
bfloat16: _DType
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: _int = 0,
) -> Tensor: ...
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor: ...
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor: ...
bits16: _DType
bits1x8: _DType
bits2x4: _DType
bits4x2: _DType
bits8: _DType
def bitwise_and(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_left_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_or(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_right_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_xor(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def blackman_window(
    window_length: _int,
    periodic: _bool = True,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
from .functional import block_diag as block_diag
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
bool: _DType
from .functional import broadcast_shapes as broadcast_shapes
from .functional import broadcast_tensors as broadcast_tensors
@overload
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor: ...
@overload
def broadcast_to(input: Tensor, *size: _int) -> Tensor: ...
def bucketize(
    input: Tensor | _Number,
    boundaries: Tensor,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
from ._core.dtype import can_cast as can_cast
from .functional import cartesian_prod as cartesian_prod
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: _float = 2.0,
    compute_mode: Any = 'use_mm_for_euclid_dist_if_necessary',
) -> Tensor: ...
cdouble: _DType
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ceil_(input: Tensor) -> Tensor: ...
def celu(input: Tensor, alpha: _Number = 1.0) -> Tensor: ...
def celu_(input: Tensor, alpha: _Number = 1.0) -> Tensor: ...
cfloat: _DType
from .functional import chain_matmul as chain_matmul
chalf: _DType
def channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
from ._core.device import channels_last as channels_last
from ._core.device import channels_last_3d as channels_last_3d
def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_solve(input: Tensor, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
def clamp(
    input: Tensor,
    min: Tensor | _Number | None = None,
    max: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def clamp_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor: ...
def clamp_max(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def clamp_max_(input: Tensor, max: Tensor | _Number) -> Tensor: ...
def clamp_min(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def clamp_min_(input: Tensor, min: Tensor | _Number) -> Tensor: ...
from .amp._state import clear_autocast_cache as clear_autocast_cache
def clip(
    input: Tensor,
    min: Tensor | _Number | None = None,
    max: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def clip_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor: ...
def clone(input: Tensor, *, memory_format: _MemoryFormat | None = None) -> Tensor: ...
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor: ...
from ._compile import compile as compile
from ._core.settings import compiled_with_cxx11_abi as compiled_with_cxx11_abi
from . import compiler as compiler
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor: ...
complex128: _DType
complex32: _DType
complex64: _DType
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
from ._higher_order_ops.cond import cond as cond
def conj(input: Tensor) -> Tensor: ...
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def conj_physical_(input: Tensor) -> Tensor: ...
def constant_pad_nd(input: Tensor, pad: Sequence[_int], value: _Number = 0) -> Tensor: ...
from ._core.device import contiguous_format as contiguous_format
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _str = 'valid',
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _str = 'valid',
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _str = 'valid',
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    output_padding: _int | Sequence[_int] = ...,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = ...,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    output_padding: _int | Sequence[_int] = ...,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = ...,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    output_padding: _int | Sequence[_int] = ...,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = ...,
) -> Tensor: ...
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[_int],
    padding: Sequence[_int],
    dilation: Sequence[_int],
    transposed: _bool,
    output_padding: Sequence[_int],
    groups: _int,
) -> Tensor: ...
def copysign(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def corrcoef(input: Tensor) -> Tensor: ...
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cos_(input: Tensor) -> Tensor: ...
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cosh_(input: Tensor) -> Tensor: ...
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: _float = 0.0,
    reduction: _int = 0,
) -> Tensor: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor: ...
def count_nonzero(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor: ...
def cov(
    input: Tensor,
    *,
    correction: _int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor: ...
from . import cpu as cpu
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[_int],
    target_lengths: Sequence[_int],
    blank: _int = 0,
    reduction: _int = 0,
    zero_infinity: _bool = False,
) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: _int = 0,
    reduction: _int = 0,
    zero_infinity: _bool = False,
) -> Tensor: ...
from . import cuda as cuda
def cummax(input: Tensor, dim: _int, *, out: Sequence[Tensor] | None = None) -> return_types.cummax: ...
def cummin(input: Tensor, dim: _int, *, out: Sequence[Tensor] | None = None) -> return_types.cummin: ...
def cumprod(input: Tensor, dim: _int, *, dtype: _DType | None = None, out: Tensor | None = None) -> Tensor: ...
def cumsum(input: Tensor, dim: _int, *, dtype: _DType | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, *, dx: _Number = 1, dim: _int = -1) -> Tensor: ...
from ._core.generator import default_generator as default_generator
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def deg2rad_(input: Tensor) -> Tensor: ...
from ._quantized import dequantize as dequantize
def det(input: Tensor) -> Tensor: ...
def detach(self: Any) -> Tensor: ...
def detach_(self: Any) -> Tensor: ...
from ._compat.old_names import detach_copy as detach_copy
from ._core.device import device as device
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor: ...
def diagflat(input: Tensor, offset: _int = 0) -> Tensor: ...
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor: ...
def diagonal_copy(
    input: Tensor,
    offset: _int = 0,
    dim1: _int = 0,
    dim2: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor: ...
def diff(
    input: Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def dist(input: Tensor, other: Tensor, p: _Number = 2) -> Tensor: ...
from . import distributed as distributed
from . import distributions as distributions
def div(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    rounding_mode: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def divide(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    rounding_mode: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor: ...
double: _DType
def dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def dsmm(self, mat2: Tensor) -> Tensor: ...
@overload
def dsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, *indices: _int) -> tuple[Tensor, ...]: ...
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
from ._core.dtype import dtype as dtype
e: _float
eig: Any
from .functional import einsum as einsum
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: _int = -1,
    scale_grad_by_freq: _bool = False,
    sparse: _bool = False,
) -> Tensor: ...
@overload
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: _bool = False,
    mode: _int = 0,
    sparse: _bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: _bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
@overload
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: _bool,
    mode: _int,
    sparse: _bool,
    per_sample_weights: Tensor | None,
    include_last_offset: _bool,
    padding_idx: _int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: _float, norm_type: _float) -> Tensor: ...
@overload
def empty(
    size: Sequence[_int],
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def empty(
    *size: _int,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def empty_like(
    input: Tensor,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
) -> Tensor: ...
def empty_permuted(
    size: Sequence[_int],
    physical_layout: Sequence[_int],
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
empty_quantized: Any
def empty_strided(
    size: Sequence[_int],
    stride: Sequence[_int],
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
from ._autograd import enable_grad as enable_grad
def eq(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def equal(input: Tensor, other: Tensor) -> _bool: ...
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erf_(input: Tensor) -> Tensor: ...
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfc_(input: Tensor) -> Tensor: ...
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2_(input: Tensor) -> Tensor: ...
def exp_(input: Tensor) -> Tensor: ...
@overload
def expand_copy(
    input: Tensor,
    size: Sequence[_int],
    *,
    implicit: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def expand_copy(input: Tensor, *size: _int, implicit: _bool = False, out: Tensor | None = None) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def expm1_(input: Tensor) -> Tensor: ...
export: Any
def eye(
    n: _int,
    m: _int | None = None,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
from ._quantized import fake_quantize_per_channel_affine as fake_quantize_per_channel_affine
from ._quantized import fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def feature_alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def feature_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def feature_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
from . import fft as fft
def fill(input: Tensor, value: Tensor | _Number) -> Tensor: ...
def fill_(input: Tensor, value: Tensor | _Number) -> Tensor: ...
from ._core.dtype import finfo as finfo
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fix_(input: Tensor) -> Tensor: ...
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor: ...
@overload
def flip(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
@overload
def flip(input: Tensor, *dims: _int) -> Tensor: ...
def fliplr(input: Tensor) -> Tensor: ...
def flipud(input: Tensor) -> Tensor: ...
float: _DType
float16: _DType
float32: _DType
float4_e2m1fn_x2: _DType
float64: _DType
float8_e4m3fn: _DType
float8_e4m3fnuz: _DType
float8_e5m2: _DType
float8_e5m2fnuz: _DType
float8_e8m0fnu: _DType
def float_power(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def floor_(input: Tensor) -> Tensor: ...
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fmod(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
from .random import fork_rng as fork_rng
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def frac_(input: Tensor) -> Tensor: ...
def frexp(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.frexp: ...
def frobenius_norm(
    input: Tensor,
    dim: _int | Sequence[_int],
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
from ._core.dlpack import from_dlpack as from_dlpack
from ._core.from_data import from_file as from_file
from ._core.from_data import from_numpy as from_numpy
from ._core.from_data import frombuffer as frombuffer
def full(
    size: Sequence[_int],
    fill_value: _Number,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def full_like(
    input: Tensor,
    fill_value: _Number,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
) -> Tensor: ...
from . import func as func
from . import functional as functional
from . import futures as futures
from . import fx as fx
def gather(
    input: Tensor,
    dim: _int,
    index: Tensor,
    *,
    sparse_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def gcd_(input: Tensor, other: Tensor) -> Tensor: ...
def ge(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def geqrf(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.geqrf: ...
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
get_autocast_cpu_dtype: Any
from .amp._state import get_autocast_dtype as get_autocast_dtype
get_autocast_gpu_dtype: Any
get_autocast_ipu_dtype: Any
get_autocast_xla_dtype: Any
from ._core.device import get_default_device as get_default_device
from ._core.dtype import get_default_dtype as get_default_dtype
from ._core.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from ._core.convert import get_device as get_device
from ._core.device_objects import get_device_module as get_device_module
from ._core.settings import get_float32_matmul_precision as get_float32_matmul_precision
from ._core.threads import get_num_interop_threads as get_num_interop_threads
from ._core.threads import get_num_threads as get_num_threads
from .random import get_rng_state as get_rng_state
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: _int = 1) -> list[Tensor]: ...
def greater(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def grid_sampler(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: _int,
    padding_mode: _int,
    align_corners: _bool,
) -> Tensor: ...
def grid_sampler_2d(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: _int,
    padding_mode: _int,
    align_corners: _bool,
) -> Tensor: ...
def grid_sampler_3d(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: _int,
    padding_mode: _int,
    align_corners: _bool,
) -> Tensor: ...
def group_norm(
    input: Tensor,
    num_groups: _int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-05,
    cudnn_enabled: _bool = True,
) -> Tensor: ...
@overload
def gru(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def gru(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
def gt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
half: _DType
def hamming_window(
    window_length: _int,
    periodic: _bool = True,
    alpha: _float = 0.54,
    beta: _float = 0.46,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def hann_window(
    window_length: _int,
    periodic: _bool = True,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: _Number = 0.5, *, out: Tensor | None = None) -> Tensor: ...
from ._compat.old_names import has_cuda as has_cuda
from ._compat.old_names import has_cudnn as has_cudnn
from ._compat.old_names import has_lapack as has_lapack
from ._compat.old_names import has_mkl as has_mkl
has_mkldnn: Any
from ._compat.old_names import has_mps as has_mps
from ._compat.old_names import has_openmp as has_openmp
from ._compat.old_names import has_spectral as has_spectral
def hash_tensor(
    input: Tensor,
    dim: _int | Sequence[_int] = (),
    *,
    keepdim: _bool = False,
    mode: _int = 0,
    out: Tensor | None = None,
) -> Tensor: ...
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, reduction: _int = 0) -> Tensor: ...
def histc(
    input: Tensor,
    bins: _int = 100,
    min: _Number = 0,
    max: _Number = 0,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def histogram(
    input: Tensor,
    bins: Tensor,
    *,
    weight: Tensor | None = None,
    density: _bool = False,
    out: Sequence[Tensor] | None = None,
) -> return_types.histogram: ...
@overload
def histogram(
    input: Tensor,
    bins: _int = 100,
    *,
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
    out: Sequence[Tensor] | None = None,
) -> return_types.histogram: ...
@overload
def histogramdd(
    input: Tensor,
    bins: Sequence[Tensor],
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
) -> return_types.histogramdd: ...
@overload
def histogramdd(
    input: Tensor,
    bins: _int,
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
) -> return_types.histogramdd: ...
@overload
def histogramdd(
    input: Tensor,
    bins: Sequence[_int],
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
) -> return_types.histogramdd: ...
def hsmm(self, mat2: Tensor) -> Tensor: ...
@overload
def hsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, *indices: _int) -> tuple[Tensor, ...]: ...
from ._core.sparse_api import hspmm as hspmm
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
from . import hub as hub
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def i0_(input: Tensor) -> Tensor: ...
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from ._core.dtype import iinfo as iinfo
def imag(input: Tensor) -> Tensor: ...
def index_add(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    *,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor: ...
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False) -> Tensor: ...
def index_put_(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False) -> Tensor: ...
def index_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    reduce: _str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor: ...
inf: _float
from ._autograd import inference_mode as inference_mode
from ._compat.old_names import init_num_threads as init_num_threads
from .random import initial_seed as initial_seed
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from ._compat.drop_in import install as install
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: _bool,
    momentum: _float,
    eps: _float,
    cudnn_enabled: _bool,
) -> Tensor: ...
int: _DType
int1: _DType
int16: _DType
int2: _DType
int3: _DType
int32: _DType
int4: _DType
int5: _DType
int6: _DType
int64: _DType
int7: _DType
int8: _DType
from ._quantized import int_repr as int_repr
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def is_anomaly_check_nan_enabled() -> Any: ...
def is_anomaly_enabled() -> Any: ...
from .amp._state import is_autocast_cache_enabled as is_autocast_cache_enabled
is_autocast_cpu_enabled: Any
from .amp._state import is_autocast_enabled as is_autocast_enabled
is_autocast_ipu_enabled: Any
is_autocast_xla_enabled: Any
from ._core.convert import is_complex as is_complex
def is_conj(self: Tensor) -> _bool: ...
from ._core.settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
def is_distributed(self: Tensor, device: Any = None) -> _bool: ...
from ._core.convert import is_floating_point as is_floating_point
from ._autograd import is_grad_enabled as is_grad_enabled
from ._core.convert import is_inference as is_inference
from ._autograd import is_inference_mode_enabled as is_inference_mode_enabled
def is_neg(self: Tensor) -> _bool: ...
from ._core.convert import is_nonzero as is_nonzero
from ._core.convert import is_same_size as is_same_size
from ._core.convert import is_signed as is_signed
from ._core.convert import is_storage as is_storage
from ._core.convert import is_tensor as is_tensor
from ._compat.old_names import is_vulkan_available as is_vulkan_available
from ._core.warn import is_warn_always_enabled as is_warn_always_enabled
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: _float = 1e-05,
    atol: _float = 1e-08,
    equal_nan: _bool = False,
) -> Tensor: ...
def isfinite(input: Tensor) -> Tensor: ...
@overload
def isin(
    elements: Tensor,
    test_elements: Tensor,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isin(
    elements: Tensor,
    test_element: _Number,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isin(
    element: _Number,
    test_elements: Tensor,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def isinf(input: Tensor) -> Tensor: ...
def isnan(input: Tensor) -> Tensor: ...
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isreal(input: Tensor) -> Tensor: ...
def istft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    normalized: _bool = False,
    onesided: _bool | None = None,
    length: _int | None = None,
    return_complex: _bool = False,
) -> Tensor: ...
from ._core.device import jagged as jagged
from . import jit as jit
def kaiser_window(
    window_length: _int,
    periodic: _bool = True,
    beta: _float = 12.0,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def kl_div(input: Tensor, target: Tensor, reduction: _int = 0, *, log_target: _bool = False) -> Tensor: ...
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def kthvalue(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    keepdim: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.kthvalue: ...
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-05,
    cudnn_enable: _bool = True,
) -> Tensor: ...
from ._core.device import layout as layout
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lcm_(input: Tensor, other: Tensor) -> Tensor: ...
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ldexp_(input: Tensor, other: Tensor) -> Tensor: ...
def le(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
legacy_contiguous_format: _MemoryFormat
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def less(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def less_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from . import library as library
from . import linalg as linalg
def linspace(
    start: Tensor | _Number,
    end: Tensor | _Number,
    steps: _int,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
from .serialization import load as load
from ._lobpcg import lobpcg as lobpcg
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10_(input: Tensor) -> Tensor: ...
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log1p_(input: Tensor) -> Tensor: ...
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log2_(input: Tensor) -> Tensor: ...
def log_(input: Tensor) -> Tensor: ...
def log_softmax(input: Tensor, dim: _int, dtype: _DType | None = None, *, out: Tensor | None = None) -> Tensor: ...
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
def logdet(input: Tensor) -> Tensor: ...
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor: ...
def logit_(input: Tensor, eps: _float | None = None) -> Tensor: ...
def logspace(
    start: Tensor | _Number,
    end: Tensor | _Number,
    steps: _int,
    base: _float = 10.0,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def logsumexp(
    input: Tensor,
    dim: _int | Sequence[_int],
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
long: _DType
@overload
def lstm(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def lstm(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor, Tensor]: ...
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
lstsq: Any
def lt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
from .functional import lu as lu
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: _bool = True,
    unpack_pivots: _bool = True,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.lu_unpack: ...
from .random import manual_seed as manual_seed
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: _float = 0.0,
    reduction: _int = 0,
) -> Tensor: ...
from . import masked as masked
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor: ...
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor: ...
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matrix_exp(input: Tensor) -> Tensor: ...
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
matrix_rank: Any
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(
    input: Tensor,
    dim: _int,
    keepdim: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.max: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def max_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = (),
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    ceil_mode: _bool = False,
) -> Tensor: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = (),
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    ceil_mode: _bool = False,
) -> tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = (),
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    ceil_mode: _bool = False,
) -> Tensor: ...
def max_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = (),
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    ceil_mode: _bool = False,
) -> Tensor: ...
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _DType | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def median(
    input: Tensor,
    dim: _int,
    keepdim: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.median: ...
from ._core.device import memory_format as memory_format
from .functional import meshgrid as meshgrid
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(
    input: Tensor,
    dim: _int,
    keepdim: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.min: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mode(
    input: Tensor,
    dim: _int = -1,
    keepdim: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.mode: ...
from . import monitor as monitor
@overload
def moveaxis(input: Tensor, source: _int, destination: _int) -> Tensor: ...
@overload
def moveaxis(input: Tensor, source: Sequence[_int], destination: Sequence[_int]) -> Tensor: ...
@overload
def movedim(input: Tensor, source: _int, destination: _int) -> Tensor: ...
@overload
def movedim(input: Tensor, source: Sequence[_int], destination: Sequence[_int]) -> Tensor: ...
from . import mps as mps
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from . import mtia as mtia
def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def multinomial(
    input: Tensor,
    num_samples: _int,
    replacement: _bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def multiply(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
from . import multiprocessing as multiprocessing
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor: ...
nan: _float
def nan_to_num(
    input: Tensor,
    nan: _float | None = None,
    posinf: _float | None = None,
    neginf: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def nan_to_num_(
    input: Tensor,
    nan: _float | None = None,
    posinf: _float | None = None,
    neginf: _float | None = None,
) -> Tensor: ...
def nanmean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _DType | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor,
    dim: _int,
    keepdim: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.nanmedian: ...
def nanquantile(
    input: Tensor,
    q: Tensor | _Number,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: _str = 'linear',
    out: Tensor | None = None,
) -> Tensor: ...
def nansum(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _DType | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def narrow(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor: ...
@overload
def narrow(input: Tensor, dim: _int, start: Tensor, length: _int) -> Tensor: ...
def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int, *, out: Tensor | None = None) -> Tensor: ...
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
def native_dropout(input: Tensor, p: _float, train: _bool | None) -> tuple[Tensor, Tensor]: ...
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: _int,
    C: _int,
    HxW: _int,
    group: _int,
    eps: _float,
) -> tuple[Tensor, Tensor, Tensor]: ...
def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: _float,
) -> tuple[Tensor, Tensor, Tensor]: ...
def ne(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def neg_(input: Tensor) -> Tensor: ...
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def negative_(input: Tensor) -> Tensor: ...
from . import nested as nested
newaxis: None
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from . import nn as nn
from ._autograd import no_grad as no_grad
from ._ops.index import nonzero as nonzero
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor: ...
def norm(
    input: Tensor,
    p: Any = 'fro',
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _DType | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor: ...
@overload
def normal(
    mean: Tensor,
    std: _float = 1.0,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def normal(mean: _float, std: Tensor, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def normal(mean: Tensor, std: Tensor, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def normal(
    mean: _float,
    std: _float,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def not_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
from . import npu as npu
@overload
def nuclear_norm(input: Tensor, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nuclear_norm(
    input: Tensor,
    dim: _int | Sequence[_int],
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
from ._core.convert import numel as numel
@overload
def ones(
    size: Sequence[_int],
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ones(
    *size: _int,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def ones_like(
    input: Tensor,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
) -> Tensor: ...
from . import onnx as onnx
from ._compat.operator_names import ops as ops
from . import optim as optim
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ormqr(
    input: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: _bool = True,
    transpose: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from . import overrides as overrides
def pairwise_distance(
    x1: Tensor,
    x2: Tensor,
    p: _float = 2.0,
    eps: _float = 1e-06,
    keepdim: _bool = False,
) -> Tensor: ...
from ._lowrank import pca_lowrank as pca_lowrank
def pdist(input: Tensor, p: _float = 2.0) -> Tensor: ...
from ._compat.old_names import per_channel_affine as per_channel_affine
from ._compat.old_names import per_channel_affine_float_qparams as per_channel_affine_float_qparams
from ._compat.old_names import per_channel_symmetric as per_channel_symmetric
from ._compat.old_names import per_tensor_affine as per_tensor_affine
from ._compat.old_names import per_tensor_symmetric as per_tensor_symmetric
@overload
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
@overload
def permute(input: Tensor, *dims: _int) -> Tensor: ...
@overload
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def permute_copy(input: Tensor, *dims: _int, out: Tensor | None = None) -> Tensor: ...
pi: _float
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor: ...
from ._dispatch.pipeline import pipeline as pipeline
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor: ...
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor: ...
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: _bool,
    full: _bool,
    eps: _float,
    reduction: _int,
) -> Tensor: ...
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def positive(input: Tensor) -> Tensor: ...
def pow(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor) -> Tensor: ...
from ._core.device import preserve_format as preserve_format
def prod(
    input: Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    dtype: _DType | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
from . import profiler as profiler
from ._core.dtype import promote_types as promote_types
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor: ...
from ._quantized import q_per_channel_axis as q_per_channel_axis
from ._quantized import q_per_channel_scales as q_per_channel_scales
from ._quantized import q_per_channel_zero_points as q_per_channel_zero_points
from ._quantized import q_scale as q_scale
from ._quantized import q_zero_point as q_zero_point
qint32: _DType
qint8: _DType
def qr(input: Tensor, some: _bool = True, *, out: Sequence[Tensor] | None = None) -> return_types.qr: ...
from ._compat.old_names import qscheme as qscheme
def quantile(
    input: Tensor,
    q: Tensor | _Number,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: _str = 'linear',
    out: Tensor | None = None,
) -> Tensor: ...
from . import quantization as quantization
from ._quantized import quantize_per_channel as quantize_per_channel
from ._quantized import quantize_per_tensor as quantize_per_tensor
from ._quantized import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
from . import quasirandom as quasirandom
quint2x4: _DType
quint4x2: _DType
quint8: _DType
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rad2deg_(input: Tensor) -> Tensor: ...
@overload
def rand(
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rand(
    *size: _int,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
) -> Tensor: ...
@overload
def randint(
    low: _int,
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def randint(
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    low: _int,
    high: _int,
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    high: _int,
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
) -> Tensor: ...
@overload
def randn(
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def randn(
    *size: _int,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
) -> Tensor: ...
from . import random as random
def randperm(
    n: _int,
    *,
    generator: Generator | None = None,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def range(
    start: _Number,
    end: _Number,
    step: _Number = 1,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def ravel(input: Tensor) -> Tensor: ...
def real(input: Tensor) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def reciprocal_(input: Tensor) -> Tensor: ...
def relu(input: Tensor) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def remainder(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def renorm(input: Tensor, p: _Number, dim: _int, maxnorm: _Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor,
    repeats: Tensor,
    dim: _int | None = None,
    *,
    output_size: _int | None = None,
) -> Tensor: ...
@overload
def repeat_interleave(repeats: Tensor, *, output_size: _int | None = None) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor,
    repeats: _int,
    dim: _int | None = None,
    *,
    output_size: _int | None = None,
) -> Tensor: ...
@overload
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor: ...
@overload
def reshape(input: Tensor, *shape: _int) -> Tensor: ...
from ._core.resize import resize_as_ as resize_as_
def resolve_conj(input: Tensor) -> Tensor: ...
def resolve_neg(input: Tensor) -> Tensor: ...
from ._core.convert import result_type as result_type
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    eps: _float | None = None,
) -> Tensor: ...
@overload
def rnn_relu(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def rnn_relu(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
@overload
def rnn_tanh(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def rnn_tanh(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
def roll(input: Tensor, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = None) -> Tensor: ...
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = ...) -> Tensor: ...
def round(input: Tensor, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor: ...
def round_(input: Tensor, *, decimals: _int = 0) -> Tensor: ...
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: _Number = 0.125,
    upper: _Number = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def rrelu_(
    input: Tensor,
    lower: _Number = 0.125,
    upper: _Number = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rsqrt_(input: Tensor) -> Tensor: ...
def rsub(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor: ...
from .serialization import save as save
def scalar_tensor(
    s: _Number,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter(
    input: Tensor,
    dim: _int,
    index: Tensor,
    src: Tensor | _Number,
    *,
    reduce: _str,
    out: Tensor | None = None,
) -> Tensor: ...
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def scatter_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    src: Tensor,
    reduce: _str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | _Number,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    side: _str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
from .random import seed as seed
def segment_reduce(
    data: Tensor,
    reduce: _str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: _int = 0,
    unsafe: _bool = False,
    initial: _Number | None = None,
) -> Tensor: ...
def select(input: Tensor, dim: _int, index: _int) -> Tensor: ...
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor: ...
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int) -> Tensor: ...
def selu(input: Tensor) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
from . import serialization as serialization
from ._compat.old_names import set_anomaly_enabled as set_anomaly_enabled
from .amp._state import set_autocast_cache_enabled as set_autocast_cache_enabled
set_autocast_cpu_dtype: Any
set_autocast_cpu_enabled: Any
from .amp._state import set_autocast_dtype as set_autocast_dtype
from .amp._state import set_autocast_enabled as set_autocast_enabled
set_autocast_gpu_dtype: Any
set_autocast_ipu_dtype: Any
set_autocast_ipu_enabled: Any
set_autocast_xla_dtype: Any
set_autocast_xla_enabled: Any
from ._core.device import set_default_device as set_default_device
from ._core.dtype import set_default_dtype as set_default_dtype
from ._compat.tensor_types import set_default_tensor_type as set_default_tensor_type
from ._core.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from ._core.settings import set_float32_matmul_precision as set_float32_matmul_precision
from ._core.settings import set_flush_denormal as set_flush_denormal
from ._autograd import set_grad_enabled as set_grad_enabled
from ._core.threads import set_num_interop_threads as set_num_interop_threads
from ._core.threads import set_num_threads as set_num_threads
from ._core.printing import set_printoptions as set_printoptions
from .random import set_rng_state as set_rng_state
from ._core.warn import set_warn_always as set_warn_always
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
short: _DType
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from . import signal as signal
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin_(input: Tensor) -> Tensor: ...
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinc_(input: Tensor) -> Tensor: ...
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinh_(input: Tensor) -> Tensor: ...
def slice_copy(
    input: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def slogdet(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.slogdet: ...
from ._core.sparse_api import smm as smm
def softmax(input: Tensor, dim: _int, dtype: _DType | None = None, *, out: Tensor | None = None) -> Tensor: ...
solve: Any
def sort(
    input: Tensor,
    dim: _int = -1,
    descending: _bool = False,
    *,
    stable: _bool | None = False,
    out: Sequence[Tensor] | None = None,
) -> return_types.sort: ...
from . import sparse as sparse
from ._core.device import sparse_bsc as sparse_bsc
from ._core.sparse_api import sparse_bsc_tensor as sparse_bsc_tensor
from ._core.device import sparse_bsr as sparse_bsr
from ._core.sparse_api import sparse_bsr_tensor as sparse_bsr_tensor
from ._core.sparse_api import sparse_compressed_tensor as sparse_compressed_tensor
from ._core.device import sparse_coo as sparse_coo
from ._core.sparse_api import sparse_coo_tensor as sparse_coo_tensor
from ._core.device import sparse_csc as sparse_csc
from ._core.sparse_api import sparse_csc_tensor as sparse_csc_tensor
from ._core.device import sparse_csr as sparse_csr
from ._core.sparse_api import sparse_csr_tensor as sparse_csr_tensor
from . import special as special
from .functional import split as split
def split_copy(
    input: Tensor,
    split_size: _int,
    dim: _int = 0,
    *,
    out: Sequence[Tensor] | None = None,
) -> list[Tensor]: ...
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def split_with_sizes_copy(
    input: Tensor,
    split_sizes: Sequence[_int],
    dim: _int = 0,
    *,
    out: Sequence[Tensor] | None = None,
) -> list[Tensor]: ...
def spmm(self, mat2: Tensor) -> Tensor: ...
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sqrt_(input: Tensor) -> Tensor: ...
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def square_(input: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: _int) -> Tensor: ...
@overload
def squeeze(input: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: Sequence[_int]) -> Tensor: ...
@overload
def squeeze(input: Tensor, *dim: _int) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *dim: _int, out: Tensor | None = None) -> Tensor: ...
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    correction: _Number | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(input: Tensor, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    correction: _Number | None = None,
    keepdim: _bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
def stft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    pad_mode: _str = 'reflect',
    normalized: _bool = False,
    onesided: _bool | None = None,
    return_complex: _bool | None = None,
    align_to_window: _bool | None = None,
) -> Tensor: ...
from . import storage as storage
from ._core.device import strided as strided
def sub(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def subtract(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    alpha: _Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def sum(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _DType | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def svd(
    input: Tensor,
    some: _bool = True,
    compute_uv: _bool = True,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.svd: ...
from ._lowrank import svd_lowrank as svd_lowrank
def swapaxes(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
from ._symbolic import sym_float as sym_float
from ._symbolic import sym_int as sym_int
from ._symbolic import sym_ite as sym_ite
from ._symbolic import sym_max as sym_max
from ._symbolic import sym_min as sym_min
from ._symbolic import sym_not as sym_not
from ._symbolic import sym_sqrt as sym_sqrt
from ._symbolic import sym_sum as sym_sum
symeig: Any
def t(input: Tensor) -> Tensor: ...
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor: ...
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tan_(input: Tensor) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
from ._core.from_data import tensor as tensor
@overload
def tensor_split(input: Tensor, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
from .functional import tensordot as tensordot
from . import testing as testing
from .random import thread_safe_generator as thread_safe_generator
def threshold(input: Tensor, threshold: _Number, value: _Number, *, out: Tensor | None = None) -> Tensor: ...
def threshold_(input: Tensor, threshold: _Number, value: _Number) -> Tensor: ...
@overload
def tile(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
@overload
def tile(input: Tensor, *dims: _int) -> Tensor: ...
from .utils.dlpack import to_dlpack as to_dlpack
def topk(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    largest: _bool = True,
    sorted: _bool = True,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.topk: ...
torch: Any
from . import torch_version as torch_version
def trace(input: Tensor) -> Tensor: ...
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def trapezoid(y: Tensor, *, dx: _Number = 1, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, *, dx: _Number = 1, dim: _int = -1) -> Tensor: ...
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: _bool = True,
    transpose: _bool = False,
    unitriangular: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.triangular_solve: ...
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def tril_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: _float = 1.0,
    p: _float = 2.0,
    eps: _float = 1e-06,
    swap: _bool = False,
    reduction: _int = 0,
) -> Tensor: ...
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def triu_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def true_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def trunc_(input: Tensor) -> Tensor: ...
from ._compat.tensor_types import typename as typename
from . import types as types
uint1: _DType
uint16: _DType
uint2: _DType
uint3: _DType
uint32: _DType
uint4: _DType
uint5: _DType
uint6: _DType
uint64: _DType
uint7: _DType
uint8: _DType
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unbind_copy(input: Tensor, dim: _int = 0, *, out: Sequence[Tensor] | None = None) -> list[Tensor]: ...
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor: ...
def unfold_copy(input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None) -> Tensor: ...
from ._compat.drop_in import uninstall as uninstall
def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: _bool = False,
    return_counts: _bool = False,
    dim: _int | None = None,
) -> Tensor: ...
def unique_consecutive(
    input: Tensor,
    return_inverse: _bool = False,
    return_counts: _bool = False,
    dim: _int | None = None,
) -> Tensor: ...
from .functional import unravel_index as unravel_index
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> list[Tensor]: ...
def unsafe_split(input: Tensor, split_size: _int, dim: _int = 0) -> list[Tensor]: ...
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> list[Tensor]: ...
def unsqueeze(input: Tensor, dim: _int) -> Tensor: ...
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
from ._core.settings import use_deterministic_algorithms as use_deterministic_algorithms
from . import utils as utils
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    correction: _Number | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(input: Tensor, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def var_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    correction: _Number | None = None,
    keepdim: _bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
from . import version as version
def view_as_complex(input: Tensor) -> Tensor: ...
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def view_as_real(input: Tensor) -> Tensor: ...
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, size: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, *size: _int, out: Tensor | None = None) -> Tensor: ...
from ._functorch.vmap import vmap as vmap
@overload
def vsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, *indices: _int) -> tuple[Tensor, ...]: ...
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
@overload
def where(
    condition: Tensor,
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def where(condition: Tensor, *, out: Sequence[Tensor] | None = None) -> list[Tensor]: ...
from ._higher_order_ops.while_loop import while_loop as while_loop
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor: ...
def xlogy_(input: Tensor, other: Tensor | _Number) -> Tensor: ...
from . import xpu as xpu
def zero_(input: Tensor) -> Tensor: ...
@overload
def zeros(
    size: Sequence[_int],
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def zeros(
    *size: _int,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def zeros_like(
    input: Tensor,
    *,
    dtype: _DType | None = None,
    layout: _Layout | None = None,
    device: _DeviceLike | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
    memory_format: _MemoryFormat | None = None,
) -> Tensor: ...
