"""`out=`: runs an operator and stores its results in the tensors given, once all of them are known to take them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..._autograd.node import NotDerived
from ..._autograd.views import WRITE_TO_INFERENCE, check_inplace, rebase
from ..._backends.interface import backend_of
from ..._core.determinism import determinism
from ..._core.device import channels_last, channels_last_3d, device
from ..._core.dtype import FLOAT, can_cast, dtype, get_default_dtype
from ..._core.geometry import contiguous_strides
from ..._core.tensor import Tensor
from ..._core.warn import warn
from ..._dispatch.callers import call_bound, keys_of
from ..._dispatch.keys import (
    AUTOCAST_MASK,
    DUAL_MASK,
    FUNC_MASK,
    INFERENCE_MASK,
    MARKED_MASK,
    PIPELINE_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    TORCH_DISPATCH_MASK,
    changed_modes,
    modes,
)
from ..._dispatch.registry import Operator
from .placement import show
from .rules import (
    broadcast_shape,
    c_name,
    check_operands,
    check_overlap,
    check_shape_fits,
    check_writable,
    common_dtype,
    shape_text,
)


class Out(NamedTuple):
    """What `out=` of an operator takes and what it does; in a declaration, None says that the function has none."""

    # Which types: "exact"ly the result's; those it is "castable" to; these, but complex only where the result is
    # ("alike"); the result's, but castable where a complex operand has a real result ("measure"); or "any", in which it
    # is computed.
    types: str = "exact"
    text: str = ""  # what is said of other types, if not the usual
    names: str = ""  # the public functions that have it, if not all but those of nn.functional
    refused: bool = False  # this form has none, though others of the function do
    tensors: str = ""  # arguments beside which there is none if they are numbers
    # What comes of gradients: calls that want one are "refused"; or PyTorch does not look, and they are "ignored"; or
    # "cut": the results have none, and leaves are refused.
    grad: str = "refused"
    by: str = ""  # whose name PyTorch gives, for operators that it writes by others
    resizes: bool = False  # without a warning
    fills: bool = False  # after it resized, so that elements may share memory
    only_resizes: bool = False  # there is nothing to write
    counts: bool = False  # writes numbers in turn into as many elements, whatever the shape
    joins: str = ""  # the argument that is broadcast together with what is written to
    check: Callable[..., None] | None = None  # of (target, *arguments), before anything is computed
    check_arguments: Callable[..., None] | None = None  # of what is looked at before gradients are
    first: Callable[..., dtype] | None = None  # of the arguments: the type that is compared before anything else
    rewrites: Callable[..., bool] | None = None  # of the arguments: whether PyTorch writes twice
    # Whether a target that is "resized" has the strides of the result, or one that was "emptied" before; others lie row
    # by row then.
    lies_as_made: str = ""
    # The argument that PyTorch copies into a target whose matrices lie by columns, to compute there: it may not lie
    # over the target otherwise than element on element.
    columns_of: str = ""
    error: type[Exception] = RuntimeError


FAMILYS = Out()  # as is usual for the family
EXACT, CASTABLE, ANY = Out("exact"), Out("castable"), Out("any")
AS_MADE = Out(lies_as_made="resized")
AS_OPERAND = Out("exact", "Found dtype {given} but expected {made}")
FOUND = Out("exact", "expected scalar type {made} but found {given}")
BOOLEAN = Out("exact", "{name} does not support non-boolean outputs.")
_UNCASTABLE = "result type {} can't be cast to the desired output type {{given}}"
DIVIDED = Out("castable", _UNCASTABLE.format("{divided}"))
JOINED = Out("castable", "torch.cat(): input types can't be cast to the desired output type {given}", error=TypeError)
MADE = Out("castable", resizes=True)
FILLED, COUNTED = MADE._replace(fills=True), MADE._replace(counts=True)
_TEXTS = {
    "exact": "Expected out tensor to have dtype {c_made}, but got {c_given} instead",
    "castable": _UNCASTABLE.format("{made}"),
}


def type_of_first(operand: Tensor, *others: Any) -> dtype:
    """The type of the first operand, for operators that compare it with that of `out=` before all else."""
    return operand.dtype


def safely(who: str, what: str = "result") -> Out:
    """Castable types, with the words of linear algebra."""
    return Out("castable", f"{who}: Expected {what} to be safely castable from {{made}} dtype, but got {what} with "
                           "dtype {given}")


def takes_out(place: str, name: str, operator: Operator) -> bool:
    """Whether PyTorch's public function of that name, of which this is the first operator, has `out=`."""
    out = operator.declaration.out
    if out is None or place == "Tensor":
        return False
    return f"{place}.{name}" in out.names.split() if out.names else place != "nn.functional"


def _check_form(operator: Operator, rule: Out, values: Sequence[Any]) -> None:
    """Raises if PyTorch has no `out=` for these arguments."""
    at = operator.schema.index
    if rule.refused or not all(isinstance(values[at[name]], Tensor) for name in rule.tensors.split()):
        raise TypeError(f"{operator.schema.base_name}() received an invalid combination of arguments: there is no "
                        f"`out=` beside them. Schema: {operator.schema}")


def write_out(operator: Operator, values: Sequence[Any], out: Any) -> Any:
    """Runs an operator and stores its results in the tensors given as `out=`; None stands for new ones."""
    name = operator.schema.base_name
    family, rule = operator.declaration.family, operator.declaration.out or operator.declaration.family.out
    _check_form(operator, rule, values)
    if out is None:
        return call_bound(operator, values)
    targets = _checked_targets(operator, out)
    keys = keys_of(operator, values)
    if keys & TORCH_DISPATCH_MASK or modes.include & TORCH_DISPATCH_MASK or _answered(targets):
        result = handle_out[0](operator, values, out)
        if result is not NotImplemented:
            return result
    if any(target._keys & FUNC_MASK and target._array.batched for target in targets):
        where = f"{operator.name}.out" if "." not in operator.name else f"{operator.name}_out"
        raise RuntimeError(f"Batching rule not implemented for {where}; the fallback path doesn't work on out= or view "
                           "ops.")
    if keys & DUAL_MASK:
        raise NotImplementedError(f"Trying to use forward AD with {name}_out that does not support it because it is an "
                                  "out= function")
    needs_grad = keys & REQUIRES_GRAD or any(t.requires_grad for t in (*targets, *_tensors(values)))
    if rule.check_arguments is not None:
        rule.check_arguments(*values)
    if modes.grad_enabled and needs_grad and not modes.inference and rule.grad == "refused" and _is_derived(operator):
        raise RuntimeError(f"{rule.by or name}(): functions with out=... arguments don't support automatic "
                           "differentiation, but one of the arguments requires grad.")
    cuts_off = modes.grad_enabled and not modes.inference and needs_grad and (
        rule.grad == "cut" or not any(a.is_tensor for a in operator.schema.arguments))
    if cuts_off and not all(_may_be_written(t) for t in targets):
        raise RuntimeError(f"aten::{rule.by or name}(): functions with out=... arguments don't support "
                           "automatic differentiation, but one of the arguments requires grad.")
    edges = [t._recording_edge() if t.requires_grad else None for t in targets] if cuts_off else []
    at, makes = operator.schema.index.get("dtype"), "requires_grad" in operator.schema.index
    asked = None if at is None else values[at]
    if asked is not None and asked is not targets[0].dtype:
        raise RuntimeError(f"dtype {asked.scalar_name} does not match dtype of out parameter "
                           f"({targets[0].dtype.scalar_name})" if makes else
                           _TEXTS["exact"].format(c_made=c_name(asked), c_given=c_name(targets[0].dtype)))
    if (rule.types == "any" or makes) and at is not None and asked is None:  # `out` says in which type to compute
        values = [*values[:at], targets[0].dtype, *values[at + 1 :]]
    if makes:
        values = _made_there(operator, values, targets[0])
    for target in targets:
        if target._keys & SPARSE_MASK:
            continue
        if family.elementwise and family.check is not None:
            family.check(*values)
        if family.elementwise:
            if not operator.declaration.resizes_expanded:
                check_writable(target)
            check_operands(operator, target, values)
    if rule.joins:
        at = operator.schema.index[rule.joins]
        shape = broadcast_shape([values[at]._array.shape, targets[0]._array.shape])
        values = [*values[:at], values[at].expand(shape), *values[at + 1 :]]
    if rule.check is not None:
        rule.check(targets[0], *values)
    if rule.columns_of and _lies_by_columns(targets[0]):
        check_overlap(targets[0], values[operator.schema.index[rule.columns_of]])
    with changed_modes(grad_enabled=False, include=modes.include & ~AUTOCAST_MASK):
        try:
            result = call_bound(operator, values)
        except (IndexError, RuntimeError) as error:
            _check_before(operator, rule, targets, values, error)
            raise
        results = result if isinstance(result, (tuple, list)) else (result,)
        if len(results) != len(targets):
            raise RuntimeError(f"{name}_out expected an out= argument of size {len(results)}, got size {len(targets)}")
        for target, value in zip(targets, results, strict=True):
            if family.elementwise and any(source is target for source in _tensors(values)):
                check_shape_fits(target, value._array.shape)
            _check_fits(target, value, rule, name, values)
            if target._keys & INFERENCE_MASK and not modes.inference:
                raise RuntimeError(WRITE_TO_INFERENCE)
            if target._keys & SPARSE_MASK:
                continue
            if not rule.fills and (_stays(target, value, rule) or not operator.declaration.resizes_expanded):
                check_writable(target)
            if not family.elementwise:
                check_operands(operator, target, values)
        for target, value in zip(targets, results, strict=True):
            if rule.counts and target.numel() == value.numel():
                value = value.view(target.shape)
            if (target._keys | value._keys) & SPARSE_MASK:
                _store_sparse(operator, target, value)
            else:
                _store(target, value, family.elementwise, rule, _tensors(values))
    if rule.rewrites is not None and rule.rewrites(*values):
        targets[0]._bump_version()
    if cuts_off:
        for target, edge in zip(targets, edges, strict=True):
            node = NotDerived(f"aten::{name}", (
                edge, *(source._recording_edge() for source in _tensors(values) if source.requires_grad)))
            node.outputs = ((target._array.shape, target._array.dtype, target._device),)
            rebase(target, node)
    if makes and (targets[0]._base is None or modes.inference) and targets[0]._edge is None:
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
    several = len(returns) > 1 or returns[0].is_list
    if not several and targets is out:
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if several and targets is not out:
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
    takes_tensors = any(a.is_tensor for a in operator.schema.arguments)
    return takes_tensors and (operator.declaration.derivative is not None or operator.is_composite)


def _stays(target: Tensor, value: Tensor, rule: Out) -> bool:
    """Whether a target need not be resized for a result."""
    return target._array.shape == value._array.shape or rule.counts and target.numel() == value.numel()


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _tensors(value)
        elif isinstance(value, Tensor):
            yield value


def _check_fits(target: Tensor, value: Tensor, rule: Out, name: str, values: Sequence[Any]) -> None:
    """Raises unless a result may be stored in `target`; nothing is stored yet."""
    if target._device.type != value._device.type:
        raise RuntimeError(f"Attempting to copy from device {value.device} to device {target.device}, but cross-device "
                           "copies are not allowed!")
    _check_type(target, value.dtype, rule, name, values)


def _check_type(target: Tensor, made: dtype, rule: Out, name: str, values: Sequence[Any]) -> None:
    """Raises unless a result of that type may be stored in `target`."""
    given = target.dtype
    if rule.types == "any":
        return
    if rule.types == "measure":
        rule = CASTABLE if values[0].dtype.is_complex else rule._replace(types="exact")
    fits = made is given if rule.types == "exact" else can_cast(made, given)
    if not fits or rule.types == "alike" and given.is_complex and not made.is_complex:
        raise rule.error(refusal(rule, made, given, name))


def refusal(rule: Out, made: dtype, given: dtype, name: str = "", other: dtype | None = None) -> str:
    """What is said of a type that results cannot be stored in."""
    divided = made if given.category >= FLOAT else get_default_dtype()
    return (rule.text or _TEXTS[rule.types]).format(
        made=made.scalar_name, given=given.scalar_name, c_made=c_name(made), c_given=c_name(given), name=name,
        other=(other or made).scalar_name, divided=divided.scalar_name)


def _check_before(operator: Operator, rule: Out, targets: Sequence[Tensor], values: Sequence[Any],
                  error: Exception) -> None:
    """Raises what PyTorch has to say of the targets before it comes to the error that a call raised."""
    name, target = operator.schema.base_name, targets[0]
    said_by_kernel = isinstance(error, NotImplementedError) and '" not implemented for' in str(error)
    if rule.first is not None:
        _check_type(target, rule.first(*values), rule, name, values)
    elif said_by_kernel:
        source = next(_tensors(values), target)
        if rule.types in ("exact", "measure") and source.dtype is not target.dtype:
            raise RuntimeError(refusal(rule, source.dtype, target.dtype, name)) from None
    elif len(targets) == 1 and hasattr(operator.declaration.family, "infer"):
        try:
            spec = operator.declaration.family.infer(*values)
        except (IndexError, RuntimeError):
            return
        _check_type(target, spec.dtype, rule, name, values)  # it was something among the data, which come last
        check_writable(target)
        check_operands(operator, target, values)


def _store_sparse(operator: Operator, target: Tensor, value: Tensor) -> None:
    from ..create import makes_sparse
    from ..sparse.layouts import empty_sparse, sparse_coo, store_result

    if makes_sparse(operator) and target.layout is sparse_coo:
        value = empty_sparse(sparse_coo, value.shape, value)
    store_result(target, value, replaces=sum(a.is_tensor for a in operator.schema.arguments) > 1)


def _store(target: Tensor, value: Tensor, elementwise: bool, rule: Out, operands: Iterator[Tensor]) -> None:
    writes = not rule.only_resizes or determinism.fills
    if target._array.shape != value._array.shape:
        # PyTorch says it once more where it computes in another type first.
        times = 1 + (elementwise and target.dtype not in (value.dtype, common_dtype(list(operands))))
        for _ in range(times if target.numel() and not rule.resizes else 0):
            warn(_resized(target, value, rule))
        shape = tuple(value.shape)
        as_made = rule.lies_as_made == "resized" or rule.lies_as_made == "emptied" and not target.numel()
        kept = elementwise or as_made or _lies_by_channels(value)
        strides = value.stride() if kept else contiguous_strides(shape)
        show(target, target.untyped_storage(), target.storage_offset(), shape, strides)
    elif not writes:
        return
    if target._array.size and writes:
        if target._keys & MARKED_MASK or modes.include & PIPELINE_MASK:  # which records it
            target.copy_(value)  # type: ignore[attr-defined]
            return
        backend_of(target._device.type).copy(target, value)
    target._bump_version()


def _made_there(operator: Operator, values: Sequence[Any], target: Tensor) -> list[Any]:
    """The arguments of a function that makes tensors, with the device of what it is to write to."""
    at = operator.schema.index["device"]
    asked = None if values[at] is None else device(values[at])
    if asked is not None and asked.type != target._device.type:
        raise RuntimeError(f"device type {asked.type} does not match device type of out parameter "
                           f"({target._device.type})")
    return [*values[:at], target._device, *values[at + 1 :]]


def _lies_by_channels(value: Tensor) -> bool:
    """Whether a result has its channels last, which a target that is resized takes over."""
    if value.dim() not in (4, 5) or value.is_contiguous():
        return False
    return value.is_contiguous(memory_format=channels_last if value.dim() == 4 else channels_last_3d)


def _lies_by_columns(target: Tensor) -> bool:
    """Whether the matrices of a tensor lie by columns, one after the other."""
    return target.dim() > 1 and target.mT.is_contiguous() and not target.is_contiguous()  # type: ignore[attr-defined]


def _resized(target: Tensor, value: Tensor, rule: Out) -> str:
    """The warning that a target of another shape is resized."""
    if rule.counts:
        return (f"The number of elements in the out tensor of shape {shape_text(target.shape)} is {target.numel()} "
                f"which does not match the computed number of elements {value.numel()}. Note that this may occur as a "
                "result of rounding error. The out tensor will be resized to a tensor of shape "
                f"({value.numel()},).")
    return (f"An output with one or more elements was resized since it had shape {shape_text(target.shape)}, which "
            f"does not match the required output shape {shape_text(value.shape)}. This behavior is deprecated, and in "
            "a future PyTorch release outputs will not be resized unless they have zero elements. You can explicitly "
            "reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).")
