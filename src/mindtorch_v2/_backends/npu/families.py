"""Kernels on an Ascend NPU, made of the rows that declarations carry.

A row (`npu="aclnnAdd(self, other, alpha, out)"`, in the language of aclnn_rows.py) names the ACLNN operator
that computes the result. What stands around it is the family's: promotion, the checks of a write, the memory of the
result. `name:out` in a row casts an argument to the type of the result first. In-place forms use the ACLNN operator
that has `Inplace` in its name where there is one. Kernels that are more than a row are in the modules of kernels/,
and named by the declarations; what other operators can express is the declaration's `decomposition`.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.device import device
from ..._core.dtype import BOOL, COMPUTE, FLOAT, INT, OF_ARRAY, bool_, dtype
from ..._core.geometry import contiguous_strides, element_strides
from ..._core.tensor import Tensor
from ..._dispatch.callers import compile_function
from ..._dispatch.keys import NPU_MASK
from ..._dispatch.registry import Operator
from ..._dispatch.schema import NUMBERS
from ..._ops._declare.composites import Composite, decomposed, unrecorded
from ..._ops._declare.families import ArrayFamily, Family, Pointwise, Writes, result_of
from ..._ops._declare.rules import (
    Spec,
    check_overlap,
    check_result_fits,
    check_writable,
    common_dtype,
    pointwise_strides,
)
from ..._ops._declare.updates import Updates, check_update
from ..._ops.copy import stored_number
from ..._ops.create import Factory, _check_options, required
from ..interface import named_kernel
from .aclnn_rows import Row, parse_rows, schema_types
from .array import NpuArray, empty
from .chips import Unsupported
from .facts import signature, symbols
from .kernel import RowKernel
from .launch import run
from .runtime import current_device, why_unavailable

_new = object.__new__
_FLOATS = frozenset(d.np for d in OF_ARRAY.values() if d.category == FLOAT)


def wrap_npu(array: NpuArray) -> Tensor:
    """A tensor on a fresh array."""
    made = _new(Tensor)
    made._array, made._keys, made._device = array, NPU_MASK, array.storage.device
    return made


def uninitialised(spec: Spec, where: Any) -> Tensor:
    """A tensor of the spec's geometry on a device."""
    strides = None if spec.strides is None else tuple([s * spec.dtype.itemsize for s in spec.strides])
    return wrap_npu(empty(tuple(spec.shape), spec.dtype.np, where, strides))


def cast(tensor: Tensor, kind: dtype) -> Tensor:
    """The tensor in another type, computed on the device."""
    array = tensor._array
    if array.dtype == kind.np:
        return tensor
    made = empty(array.shape, kind.np, array.device_index)
    run("aclnnCast", (array, kind.np, made), "aten::_to_copy")
    return wrap_npu(made)


def number_tensor(value: Any, kind: dtype, where: Any) -> Tensor:
    """A number as a tensor without dimensions; its value travels as an argument, not by a copy."""
    made = empty((), kind.np, where)
    run("aclnnInplaceFillScalar", (made, exact_number(value, kind)), "aten::fill_")
    return wrap_npu(made)


def exact_number(value: Any, kind: dtype) -> Any:
    """A number as a tensor of this type takes it; RuntimeError if it cannot."""
    value = stored_number(value, kind)
    return value.item() if isinstance(value, np.generic) else value


def store(target: Tensor, source: Tensor) -> None:
    """Writes a tensor on the same device into another, broadcast and cast."""
    array, value = target._array, source._array
    if value.shape != array.shape:
        value = source.expand(array.shape)._array
    run("aclnnInplaceCopy", (array, value), "aten::copy_")


# from a declaration to its kernel ------------------------------------------------------------------------------------


def kernel_of(operator: Operator) -> Callable:
    """The kernel of an operator: the one that it names, its row, or its decomposition.

    RuntimeError without CANN: it is asked again at the next call.
    """
    _require_runtime(operator)
    declaration = operator.declaration
    family, named = declaration.family, _named(operator)
    row = None if declaration.npu is None else _row_kernel(operator, family)
    if named is None or getattr(named, "prepares", False):
        if row is None:
            return refuse(operator) if declaration.decomposition is None else decomposed(operator)
        return _or_decomposed(operator, row)
    what = {"operator": operator, "row": row}
    kernel = unrecorded(functools.partial(named, *(what[name] for name in getattr(named, "given", ()))))
    return _or_decomposed(operator, _laid_out(operator, family, kernel) if isinstance(family, Pointwise) else kernel)


def _or_decomposed(operator: Operator, kernel: Callable) -> Callable:
    """The kernel, with the decomposition (if there is one) for calls that the chip does not take."""
    if operator.declaration.decomposition is None:
        return kernel
    parts = decomposed(operator, recorded=False)

    def served(*args: Any) -> Any:
        try:
            return kernel(*args)
        except Unsupported:
            return parts(*args)

    return served


def _named(operator: Operator) -> Callable | None:
    """The function in kernels/ that a declaration names."""
    name = operator.declaration.kernels.get("npu")
    return None if name is None else named_kernel("npu", name)


def given(*names: str) -> Callable[[Callable], Callable]:
    """Marks a kernel that takes more before the call's arguments: its "operator", or the kernel of its "row"."""

    def mark(function: Callable) -> Callable:
        function.given = names  # type: ignore[attr-defined]
        return function

    return mark


def prepares(function: Callable) -> Callable:
    """Marks what is no kernel, but brings the arguments of a write into ACLNN's form; None: nothing to write."""
    function.prepares = True  # type: ignore[attr-defined]
    return function


def _require_runtime(operator: Operator) -> None:
    reason = why_unavailable()
    if reason is not None:
        raise RuntimeError(f"{operator.name} cannot run on device 'npu': the NPU runtime is not available "
                           f"({reason}); torch.npu.is_available() is False")


def refuse(operator: Operator) -> Callable:
    """The kernel of an operator that ACLNN has no counterpart for."""

    def kernel(*args: Any) -> Any:
        raise NotImplementedError(f"{operator.name} has no ACLNN row: it cannot run on device 'npu'")

    return kernel


def runs(operator: Operator) -> bool:
    """Whether an operator can run on an NPU as far as its declaration tells."""
    declaration = operator.declaration
    if declaration.inplace_of is not None:
        return runs(declaration.inplace_of)
    family = declaration.family
    return (family.is_view or isinstance(family, Composite) or declaration.npu is not None
            or "npu" in declaration.kernels or declaration.decomposition is not None)


def _row_kernel(operator: Operator, family: Family) -> Callable:
    if isinstance(family, Pointwise):
        return _pointwise(operator, family)
    if isinstance(family, Factory):
        return _factory(operator, family)
    if isinstance(family, Updates):
        return _update(operator, family)
    if isinstance(family, Writes):
        return _write(operator, family)
    assert isinstance(family, ArrayFamily)
    return _from_infer(operator, family)


def parsed_rows(operator: Operator) -> tuple[Row, ...]:
    """The rows of an operator's declaration; ValueError where one disagrees with ACLNN's signature or the schema."""
    types, results = schema_types(operator.schema)
    writes = operator.schema.arguments[:1] and operator.schema.arguments[0].writes
    return parse_rows(_CASTS.sub(r"\1", _row_text(operator)), types if writes else types | results)


def _row_text(operator: Operator) -> str:
    text = operator.declaration.npu
    return text if isinstance(text, str) else "\n".join(text)


_CASTS = re.compile(r"\b(\w+):out\b")


def _launcher(operator: Operator, infer: Callable | None, rows: tuple[Row, ...] | None = None) -> Callable:
    types, results = schema_types(operator.schema)
    rows = parsed_rows(operator) if rows is None else rows
    return RowKernel(operator.name, rows, types, infer, tuple(results), wrap_npu).call


def _takes_number(rows: Sequence[Row], name: str) -> bool:
    return any(slot.name == name and slot.parameter.kind == "scalar" for row in rows for slot in row.slots)


def _materialiser(operator: Operator, rows: Sequence[Row]) -> Callable[[list[Any], dtype, Any], None]:
    """A function that makes tensors of those numbers that stand where no fitting row takes a number."""
    names = operator.schema.names
    tensors = [i for i, a in enumerate(operator.schema.arguments) if a.is_tensor and not a.is_list]
    known: dict[tuple, tuple[int, ...]] = {}

    def is_tensor(value: Any) -> bool:
        return hasattr(value, "_array")

    def materialise(values: list[Any], kind: dtype, where: Any) -> None:
        numbers = tuple([i for i in tensors if values[i].__class__ in NUMBERS])
        if not numbers:
            return
        absent = tuple([i for i in tensors if values[i] is None])
        made = known.get((numbers, absent))
        if made is None:
            fits = any(row.fits(dict(zip(names, values, strict=True)), is_tensor) for row in rows)
            made = known[numbers, absent] = () if fits else numbers
        for i in made:
            values[i] = number_tensor(values[i], kind, where)

    return materialise


def _device_of(values: Sequence[Any]) -> Any:
    return next(v._device for v in values if hasattr(v, "_array"))


# pointwise -----------------------------------------------------------------------------------------------------------


def computing_type(family: Pointwise, operator: Operator, args: Sequence[Any]) -> tuple[Spec, dtype, list[int]]:
    """The family's plan; unlike a CPU, the device computes half precision in itself."""
    spec, kind, at = family.plan(operator, args)
    common = common_dtype([args[i] for i in at])
    return spec, common if COMPUTE.get(common) is kind else kind, at


def _pointwise(operator: Operator, family: Pointwise) -> Callable:
    rows = parsed_rows(operator)
    materialise = _materialiser(operator, rows)

    def infer(*args: Any) -> Spec:
        spec, _, at = family.plan(operator, args)
        tensors = [args[i] for i in at if args[i].__class__ not in NUMBERS]
        return spec._replace(strides=pointwise_strides(spec.shape, tensors))

    direct = _launcher(operator, infer, rows)
    scalars = [i for i, a in enumerate(operator.schema.arguments) if a.type == "Scalar"]

    def general(*args: Any) -> Tensor:
        spec, kind, at = computing_type(family, operator, args)
        values = list(args)
        for i in at:
            if values[i].__class__ not in NUMBERS and values[i]._array.dtype != kind.np:
                values[i] = cast(values[i], kind)
        if kind.category == INT:
            for i in scalars:
                values[i] = int(values[i])
        materialise(values, kind, _device_of(args))
        made = direct(*values)
        return made if made._array.dtype == spec.dtype.np else cast(made, spec.dtype)

    arguments = operator.schema.arguments
    names = ", ".join(operator.schema.names)
    leave = f"return general({names})"
    operands = [a for a in arguments if a.is_tensor]
    if operands != list(arguments)[: len(operands)] or any(a.optional or a.is_list for a in operands):
        return general
    first = operands[0].name
    lines = [f"if {first}.__class__ in NUMBERS: {leave}"] if operands[0].type != "Tensor" else []
    lines += [f"kind = {first}._array.dtype", f"if kind not in plain: {leave}"]
    for operand in operands[1:]:
        name = operand.name
        if operand.type == "Tensor":
            lines.append(f"if {name}._array.dtype is not kind: {leave}")
        elif _takes_number(rows, name):
            lines += [f"if {name}.__class__ in NUMBERS:",
                      f"    if kind not in floats or {name}.__class__ is complex: {leave}",
                      f"elif {name}._array.dtype is not kind: {leave}"]
        else:
            lines.append(f"if {name}.__class__ in NUMBERS or {name}._array.dtype is not kind: {leave}")
    source = f"def kernel({names}):\n" + "".join(f"    {line}\n" for line in [*lines, f"return direct({names})"])
    scope = {"NUMBERS": NUMBERS, "general": general, "direct": direct, "floats": _FLOATS,
             "plain": frozenset(d.np for d in OF_ARRAY.values()
                                if _is_plain(family, d) and (d.category == FLOAT or not scalars)),
             "__opname__": f"{operator.name} npu types"}
    return compile_function("kernel", source, scope)


def _is_plain(family: Pointwise, kind: dtype) -> bool:
    """Whether operands of this type are computed in it, and give it back or a bool, with nothing to refuse."""
    if kind.category in family.excluding or kind.category not in (BOOL, INT, FLOAT):
        return False
    try:
        compute, out = family.result(kind)
    except (RuntimeError, NotImplementedError):  # a type that the operator does not take
        return False
    return compute is kind and (out is kind or out is bool_)


def _laid_out(operator: Operator, family: Pointwise, composed: Callable) -> Callable:
    """A kernel of several operators whose result lies as that of one would."""

    def kernel(*args: Any) -> Tensor:
        spec, _, at = family.plan(operator, args)
        tensors = [args[i] for i in at if args[i].__class__ not in NUMBERS]
        spec = spec._replace(strides=pointwise_strides(spec.shape, tensors))
        made = cast(composed(*args), spec.dtype)
        strides = contiguous_strides(spec.shape) if spec.strides is None else spec.strides
        if made._array.shape == spec.shape and (element_strides(made._array) == strides or not made._array.size):
            return made
        target = uninitialised(spec, made._device)
        store(target, made)
        return target

    return kernel


# everything with an infer --------------------------------------------------------------------------------------------


def _from_infer(operator: Operator, family: ArrayFamily) -> Callable:
    rows = parsed_rows(operator)
    infer, schema = family.infer, operator.schema
    direct = _launcher(operator, infer, rows)
    wanted = [schema.index[name] for name in _CASTS.findall(_row_text(operator))]
    number_places = any(a.type == "Tensor|Scalar" for a in schema.arguments)
    several = len(schema.returns) > 1
    if not wanted and not number_places:
        return (lambda *args: result_of(operator, direct(*args))) if several else direct
    materialise = _materialiser(operator, rows)

    def kernel(*args: Any) -> Any:
        spec = infer(*args)
        kind = (spec if spec.__class__ is Spec else spec[0]).dtype
        values = list(args)
        for i in wanted:
            if hasattr(values[i], "_array"):
                values[i] = cast(values[i], kind)
        materialise(values, kind, _device_of(args))
        made = direct(*values)
        return result_of(operator, made) if several else made

    return kernel


# factories -----------------------------------------------------------------------------------------------------------


def device_index(where: device | None, tensors: Sequence[Any] = ()) -> device:
    """Where a factory's result goes: the device named, a tensor's, the current one."""
    if where is None:
        where = next((v._device for v in tensors if hasattr(v, "_array") and v._device.type == "npu"), None)
    if where is None or where.index is None:
        return device("npu", current_device())
    return where


def fresh(operator: Operator, args: Sequence[Any]) -> Tensor:
    """The uninitialised result of a factory."""
    schema, family = operator.schema, operator.declaration.family
    at = schema.index
    _check_options(operator, args[at["layout"]], args[at["pin_memory"]])
    return uninitialised(family.infer(*args), device_index(args[at["device"]], args))


def finished(operator: Operator, made: Tensor, args: Sequence[Any]) -> Tensor:
    return required(made) if args[operator.schema.index["requires_grad"]] else made


def _factory(operator: Operator, family: Factory) -> Callable:
    rows = parsed_rows(operator)
    names = operator.schema.names

    def kernel(*args: Any) -> Tensor:
        made = fresh(operator, args)
        values = dict(zip(names, args, strict=True), out=made._array)
        if "fill_value" in values:
            values["fill_value"] = exact_number(values["fill_value"], made.dtype)
        if made._array.size:
            for row in rows:
                run(row.symbol, [slot.value(values) for slot in row.slots], operator.name)
        return finished(operator, made, args)

    return kernel


# writes --------------------------------------------------------------------------------------------------------------


def _write(operator: Operator, family: Writes) -> Callable:
    direct = _launcher(operator, None)

    def kernel(target: Tensor, *args: Any) -> Tensor:
        family.check(target, *args)
        if not family.repeats:
            check_writable(target)
        if target._array.size:
            direct(target, *args)
        target._bump_version()
        return target

    return kernel


def _update(operator: Operator, family: Updates) -> Callable:
    """The functional form of an operator that writes some elements: a copy, then the write."""
    rows = parsed_rows(operator)
    if _gives_result(rows):
        return _prepared(operator, _launcher(operator, lambda source, *args: family.spec(source, args), rows))
    write = update_write(operator)

    def kernel(source: Tensor, *args: Any) -> Tensor:
        made = uninitialised(family.spec(source, args), source._device)
        store(made, source)
        write(made, *args)
        return made

    return kernel


def _gives_result(rows: Sequence[Row]) -> bool:
    return any(slot.parameter.kind.startswith("out_") for row in rows for slot in row.slots)


def _prepared(operator: Operator, launch: Callable) -> Callable:
    """The launch behind an update: with arguments in ACLNN's form, and at least one dimension to count along."""
    named = _named(operator)
    prepare = None if named is None or not getattr(named, "prepares", False) else unrecorded(named)
    counts_along = "dim" in operator.schema.index

    def kernel(target: Tensor, *args: Any) -> Any:
        if counts_along and not target._array.shape:
            args = tuple([_as_row(value) for value in args])
            made = kernel(_as_row(target), *args)
            return None if made is None else made.reshape(())
        values: tuple | None = args
        if prepare is not None:
            values = prepare(target, *args)
        return None if values is None else launch(target, *values)

    return kernel


def _as_row(value: Any) -> Any:
    """A tensor without dimensions as one of a single element, on the same memory."""
    if not hasattr(value, "_array") or value._array.shape:
        return value
    array = value._array
    return wrap_npu(array.storage.array((1,), array.dtype, array.offset, (array.itemsize,)))


@functools.cache
def update_write(operator: Operator) -> Callable:
    """The launch that writes into the first argument; numbers stay numbers or become tensors as the rows want."""
    rows = parsed_rows(operator)
    types, _ = schema_types(operator.schema)
    direct = RowKernel(operator.name, rows, types, None, (), wrap_npu).call
    materialise = _materialiser(operator, rows)

    def write(target: Tensor, *args: Any) -> None:
        if target._array.size:
            values = [target, *args]
            materialise(values, target.dtype, target._device)
            direct(*values)

    return _prepared(operator, write)


def _inplace_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows of the ACLNN operators that are the in-place forms of these, as far as there are any."""
    found = []
    for row in rows:
        symbol = row.symbol.replace("aclnn", "aclnnInplace", 1)
        if symbol not in symbols():
            continue
        slots = [slot for slot in row.slots if not slot.parameter.kind.startswith("out_")]
        parameters = signature(symbol)
        kinds = [slot.parameter.kind for slot in slots]
        if parameters[0].kind == "inout_tensor" and kinds == ["tensor", *(p.kind for p in parameters[1:])]:
            named = slots[0].name == "self" and all(slot.name != "self" for slot in slots[1:])
            if named:
                pairs = zip(slots, parameters, strict=True)
                found.append(Row(symbol, tuple(slot._replace(parameter=p) for slot, p in pairs)))
    return found


def inplace_kernel_of(operator: Operator, functional: Operator) -> Callable:
    """The kernel of an in-place form: ACLNN's own where the types allow it, else the functional one and a copy."""
    _require_runtime(operator)
    if not runs(functional):
        return refuse(operator)
    family = functional.declaration.family
    below = functional.lookup(NPU_MASK)
    rows = [] if functional.declaration.npu is None else parsed_rows(functional)
    if isinstance(family, Updates):
        return _inplace_update(operator, functional, family, below, rows)
    names, direct = functional.schema.names, None
    in_place = _inplace_rows(rows)
    if in_place:
        types, _ = schema_types(functional.schema)
        direct = RowKernel(operator.name, in_place, types, None, (), wrap_npu).call

    def kernel(target: Tensor, *args: Any) -> Tensor:
        if isinstance(family, Pointwise):
            family.check_write(functional, target, args)
        check_writable(target)
        for value in args:
            if hasattr(value, "_array"):
                check_overlap(target, value)
        all_args = (target, *args)
        if isinstance(family, Pointwise):
            family.plan(functional, all_args, target)
            spec, kind, at = computing_type(family, functional, all_args)
            check_result_fits(target, spec)
            if direct is not None and kind is spec.dtype is target.dtype:
                values = [cast(v, kind) if i in at and hasattr(v, "_array") else v for i, v in enumerate(all_args)]
                named = dict(zip(names, values, strict=True))
                if target._array.size and any(row.fits(named, _is_tensor) for row in in_place):
                    try:
                        direct(*values)
                    except Unsupported:  # the functional form may have another way
                        pass
                    else:
                        target._bump_version()
                        return target
        result = below(*all_args)
        check_result_fits(target, Spec(result._array.shape, result.dtype))
        if target._array.size:
            store(target, result)
        target._bump_version()
        return target

    return kernel


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "_array")


def _inplace_update(operator: Operator, functional: Operator, family: Updates, below: Callable,
                    rows: Sequence[Row]) -> Callable:
    writes = rows and not _gives_result(rows)

    def kernel(target: Tensor, *args: Any) -> Tensor:
        check_update(family, operator, target, args)
        if writes:
            try:
                update_write(functional)(target, *args)
            except Unsupported:
                store(target, below(target, *args))
        elif target._array.size:
            store(target, below(target, *args))
        target._bump_version()
        return target

    return kernel
