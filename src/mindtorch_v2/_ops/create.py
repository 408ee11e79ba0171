"""Factories: tensors out of a size, a range or another tensor's geometry."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._backends.interface import Backend, pins_memory
from .._core.determinism import determinism
from .._core.device import layout as layout_type
from .._core.device import strided
from .._core.dtype import (
    BOOL,
    COMPUTE,
    FLOAT,
    INT,
    OF_ARRAY,
    cast,
    complex32,
    complex64,
    default_complex,
    dtype,
    finfo,
    get_default_dtype,
    int64,
    of_number,
)
from .._core.planning import Unplannable
from .._core.random import fused_multiply_add
from .._core.storage import refuse_rank
from .._core.tensor import Tensor
from .._core.warn import warn
from .._dispatch.callers import call_bound, compile_function
from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS, Schema
from ._declare.aten import LEAF, Aten, by_operands, if_given
from ._declare.batch import Call, Result, in_front, sized
from ._declare.layouts import layout_kernel
from ._declare.op import composite, function_of, op
from ._declare.out import COUNTED, FILLED, MADE
from ._declare.plans import Planned, can_be_planned, tried, twin_of
from ._declare.rules import Spec, c_name, shape_text
from ._declare.samples import case, cases, error, ints, t
from .copy import Copies, fill, format_strides, preserved_strides, stored_number, uninitialised, unwritten

OPTIONS = (
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False"
)
FACTORY = "*, " + OPTIONS


def required(tensor: Tensor) -> Tensor:
    """A fresh tensor, now a leaf that requires grad."""
    if tensor.dtype.category < FLOAT:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return tensor.requires_grad_()


class Factory(Copies):
    """A result out of arguments: `infer` and `array` as ever, then the options that all factories share."""

    sharded = "like"
    out = MADE
    only_arrays = False

    def __init__(self, infer: Callable, array: Callable, *, by_parts: bool = False) -> None:
        super().__init__(infer, array)
        self.by_parts = by_parts  # then `array` makes complex32 too, for which others make complex64

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        if not backend.direct:
            return self._elsewhere(operator, backend)
        schema = operator.schema
        names = ", ".join(schema.names)
        passed = ", ".join(
            f"getattr({a.name}, '_array', {a.name})" if a.is_tensor else a.name for a in schema.arguments
        )
        general = (
            "    if layout is not None or pin_memory:\n"
            f"        made = other_layout(operator, layout, pin_memory, ({names},))\n"
            "        if made is not None: return made\n"
            "    made = new(Tensor)\n"
            f"    spec = infer({names})\n"
            "    try:\n"
            f"        made._array = array(xp, {passed}, spec=spec) if spec.dtype is not narrow else "
            f"cast(array(xp, {passed}, spec=spec._replace(dtype=complex64)), narrow.np)\n"
            "    except ValueError:\n"
            "        refuse_rank(spec.shape)\n"
            "        raise\n"
            "    return required(made) if requires_grad else made\n"
        )
        scope = {"infer": self.infer, "array": self.array, "xp": backend.xp, "new": object.__new__, "Tensor": Tensor,
                 "required": required, "operator": operator, "narrow": None if self.by_parts else complex32,
                 "complex64": complex64, "cast": cast, "other_layout": _other_layout, "refuse_rank": refuse_rank,
                 "__opname__": f"{operator.name} cpu"}
        if backend.lookups is None or not can_be_planned(operator, drawing=True):
            return compile_function(schema.base_name, f"def {schema.base_name}({names}):\n{general}", scope)
        source = (
            f"def with_spec(spec):\n    def {schema.base_name}({names}):\n        made = new(Tensor)\n"
            f"        made._array = array(xp, {passed}, spec=spec)\n"
            f"        return made\n    return {schema.base_name}\n"
        )
        with_spec = compile_function("with_spec", source, {**scope, "__opname__": f"{operator.name} prepared"})
        at = schema.index

        def make(args: tuple) -> Callable:
            spec = tried(self.infer, *twin_of(args))
            unusual = args[at["pin_memory"]] or args[at["requires_grad"]] or spec.dtype is scope["narrow"]
            if unusual or args[at["layout"]] not in (None, strided):
                raise Unplannable
            return with_spec(spec)

        operator.plans = Planned(operator, make, 2, general, scope)
        return operator.plans.kernel()

    def _elsewhere(self, operator: Operator, backend: Backend) -> Callable:
        at = operator.schema.index

        def kernel(*args: Any) -> Tensor:
            _check_options(operator, args[at["layout"]], args[at["pin_memory"]])
            spec, where = self.infer(*args), backend.place(args[at["device"]], args)
            arrays = [backend.array_of(v, where) if hasattr(v, "_array") else v for v in args]
            made = backend.finished(self.array(backend.xp, *arrays, spec=spec), spec, where)
            return required(made) if args[at["requires_grad"]] else made

        return kernel

    def described(self, operator: Operator) -> Callable:
        kernel = super().described(operator)
        grad, layout, pinned = (operator.schema.index[name] for name in ("requires_grad", "layout", "pin_memory"))

        def factory(*args: Any) -> Tensor:
            _check_options(operator, args[layout], args[pinned])
            made = kernel(*args)
            return required(made) if args[grad] else made

        return factory


def _other_layout(operator: Operator, layout: layout_type | None, pin_memory: bool | None,
                  args: tuple) -> Tensor | None:
    """The result in a sparse layout, or in page-locked memory; None if it is to be as usual."""
    if layout is not None and layout is not strided and not pin_memory and makes_sparse(operator):
        return layout_kernel(operator.declaration.kernels["sparse"], operator)(*args)
    if pin_memory and pins_memory():
        at, plain = operator.schema.index, list(args)
        plain[at["pin_memory"]], plain[at["requires_grad"]] = None, False
        made = call_bound(operator, tuple(plain)).pin_memory()
        return required(made) if args[at["requires_grad"]] else made
    _check_options(operator, layout, pin_memory)
    return None


def makes_sparse(operator: Operator) -> bool:
    """Whether it is a function that makes tensors of sparse layouts out of none."""
    return "sparse" in operator.declaration.kernels and not any(a.is_tensor for a in operator.schema.arguments)


def _check_options(operator: Operator, layout: layout_type | None, pin_memory: bool | None) -> None:
    if layout is not None and layout is not strided:
        raise NotImplementedError(f"{operator.schema.base_name}(): only the strided layout exists here, not {layout}")
    if pin_memory:
        raise RuntimeError("pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator "
                           "is available on this system.")


_LARGE = 1 << 31  # sizes below it overflow nothing


def checked_size(size: tuple[int, ...], name: str) -> tuple[int, ...]:
    for n in size:
        if n >= 2**20 and math.prod(size) >= 2**60:
            raise RuntimeError(f"Storage size calculation overflowed with sizes={shape_text(size)}")
        if n < 0:
            raise RuntimeError(f"{name}: Dimension size must be non-negative." if name == "zeros" else
                               f"Trying to create tensor with negative dimension {n}: {shape_text(size)}")
        if n > _LARGE and math.prod([m or 1 for m in size]) >= 1 << 60:
            raise RuntimeError(f"Storage size calculation overflowed with sizes={shape_text(size)}")
    return size


def _full(xp: Any, spec: Spec, value: Any) -> Any:
    """A filled array of the spec's geometry."""
    made = uninitialised(spec, xp)
    fill(made, value)
    return made


def _empty(xp: Any, *rest: Any, spec: Spec) -> Any:
    return unwritten(spec) if determinism.fills else uninitialised(spec)


def _zeros(xp: Any, spec: Spec) -> Any:
    return xp.zeros(spec.shape, spec.dtype.np) if spec.strides is None else _full(xp, spec, 0)


# a size --------------------------------------------------------------------------------------------------------------


def _sized(name: str) -> Callable[..., Spec]:
    return lambda size, dtype, *rest: Spec(checked_size(size, name), dtype or get_default_dtype())


def _full_spec(size: tuple[int, ...], fill_value: Any, dtype: dtype | None, *rest: Any) -> Spec:
    if dtype is None:
        dtype = int64 if fill_value.__class__ is int else of_number(fill_value)
        if dtype is complex32:  # a complex number of the default type float16 is complex32 elsewhere
            dtype = complex64
    return Spec(checked_size(size, "full"), dtype)


_SIZES = cases(case((2, 3)), case((0, 2)), case(()))

op(f"zeros(int[] size, {FACTORY}) -> Tensor",
   kernel=Factory(_sized("zeros"), lambda xp, *rest, spec: _zeros(xp, spec)),
   npu="aclnnInplaceZero(out)", samples=_SIZES, out=FILLED, kernels={"sparse": "layouts.made_empty"})
op(f"ones(int[] size, {FACTORY}) -> Tensor",
   kernel=Factory(_sized("ones"), lambda xp, *rest, spec: _full(xp, spec, 1)),
   npu="aclnnInplaceOne(out)", samples=_SIZES, out=FILLED)
_EMPTY = op(f"empty(int[] size, {FACTORY}, MemoryFormat? memory_format=None) -> Tensor",
   kernel=Factory(lambda size, dtype, layout, device, pin_memory, requires_grad, memory_format:
                  Spec(checked_size(size, "empty"), dtype or get_default_dtype(), format_strides(size, memory_format)),
                  _empty), out=FILLED._replace(only_resizes=True), aten="memory_format",
   kernels={"npu": "factories.unfilled", "sparse": "layouts.made_empty"})
empty: Callable = function_of(_EMPTY)
_FULL = op(f"full(int[] size, Scalar fill_value, {FACTORY}) -> Tensor",
   kernel=Factory(_full_spec, lambda xp, size, fill_value, *rest, spec:
                  _full(xp, spec, stored_number(fill_value, spec.dtype))),
   npu="aclnnInplaceFillScalar(out, fill_value)",
   samples=cases(case((2, 3), 7), case((2,), 1.5), case((), True), case((0,), 1j)), out=FILLED)


@composite(f"scalar_tensor(Scalar s, {FACTORY}) -> Tensor",
           samples=cases(case(3), case(1.5),
                         error(RuntimeError, "value cannot be converted to type float without overflow", 1j)), out=None,
           aten=LEAF)
def _scalar_tensor(
    s: Any, dtype: dtype | None, layout: Any, device: Any, pin_memory: bool | None, requires_grad: bool
) -> Tensor:
    kind = dtype or get_default_dtype()
    return call_bound(_FULL, ((), s, kind, layout, device, pin_memory, requires_grad))


def _check_strides(size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    checked_size(size, "empty_strided")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={shape_text(size)} and strides={shape_text(stride)}"
        )


def _strided(size: tuple[int, ...], stride: tuple[int, ...], dtype: dtype | None, *rest: Any) -> Spec:
    _check_strides(size, stride)
    return Spec(size, dtype or get_default_dtype(), stride)


def _permuted(size: tuple[int, ...], physical_layout: tuple[int, ...], dtype: dtype | None, *rest: Any) -> Spec:
    """Dense memory with the dimensions in the order of `physical_layout`, outermost first."""
    if len(size) != len(physical_layout):
        raise RuntimeError("Number of dimensions in size does not match the length of the physical_layout; i.e. "
                           f"len(size) = {len(size)} is not equal to len(physical_layout) = {len(physical_layout)}")
    strides, step, seen = [0] * len(size), 1, set()
    for d in reversed(physical_layout):
        if not 0 <= d < len(size):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at "
                               f"index {physical_layout.index(d)}).  NB: negative dims not currently supported; file "
                               "an issue if you want it.")
        if d in seen:
            raise RuntimeError("Duplicate dim not allowed")
        seen.add(d)
        strides[d] = step
        step *= max(size[d], 1)
    return Spec(checked_size(size, "empty_permuted"), dtype or get_default_dtype(), tuple(strides))


op(f"empty_strided(int[] size, SymInt[] stride, {FACTORY}) -> Tensor",
   kernel=Factory(_strided, _empty), out=None, kernels={"npu": "factories.unfilled"})
op(f"empty_permuted(int[] size, int[] physical_layout, {FACTORY}) -> Tensor",
   kernel=Factory(_permuted, _empty), out=None, kernels={"npu": "factories.unfilled"})


def _eye_spec(n: int, m: int | None, dtype: dtype | None, *rest: Any) -> Spec:
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    return Spec((n, n if m is None else m), dtype or get_default_dtype())


op(f"eye(int n, int m=None, {FACTORY}) -> Tensor",
   kernel=Factory(_eye_spec, lambda xp, *rest, spec: xp.eye(*spec.shape, dtype=spec.dtype.np)),
   samples=cases(case(3), case(2, 3), case(0), error(RuntimeError, "n must be greater or equal to 0, got -1", -1)),
   out=FILLED, aten=Aten(if_given("m", "m")), kernels={"npu": "factories.eye"})


# another tensor ------------------------------------------------------------------------------------------------------

LIKE = f"{FACTORY}, MemoryFormat? memory_format=None"


def _like(self: Tensor, dtype: dtype | None, *rest: Any) -> Spec:
    return Spec(self._array.shape, dtype or self.dtype, preserved_strides(self, rest[-1]))


op(f"empty_like(Tensor self, {LIKE}) -> Tensor",
   kernel=Factory(_like, _empty), public="torch", batch=in_front, out=None,
   kernels={"npu": "factories.unfilled", "sparse": "layouts.like"})
op(f"zeros_like(Tensor self, {LIKE}) -> Tensor",
   kernel=Factory(_like, lambda xp, *rest, spec: _zeros(xp, spec)),
   kernels={"sparse": "layouts.zeros_like"}, npu="aclnnInplaceZero(out)", public="torch",
   samples=cases(case(t(2, 3)), case(t(3, 2, layout="transposed")), case(t()), case(t(0, 2))), batch=in_front, out=None)
op(f"ones_like(Tensor self, {LIKE}) -> Tensor",
   kernel=Factory(_like, lambda xp, *rest, spec: _full(xp, spec, 1)),
   kernels={"sparse_compressed": "layouts.ones_like"}, npu="aclnnInplaceOne(out)", public="torch",
   samples=cases(case(t(2, 3)), case(t(3, 2, layout="transposed")), case(t()), case(t(0, 2))), batch=in_front, out=None)
op(f"full_like(Tensor self, Scalar fill_value, {LIKE}) -> Tensor",
   kernel=Factory(lambda self, fill_value, *rest: _like(self, *rest),
                  lambda xp, self, fill_value, *rest, spec: _full(xp, spec, stored_number(fill_value, spec.dtype))),
   kernels={"sparse_compressed": "layouts.full_like"}, npu="aclnnInplaceFillScalar(out, fill_value)",
   public="torch", samples=cases(case(t(2, 3), 1.5), case(t(3, 2, layout="transposed"), 2), case(ints(3), 1)),
   batch=in_front, out=None)


def _new(self: Tensor, size: tuple[int, ...], dtype: dtype | None, *rest: Any) -> Spec:
    return Spec(checked_size(size, "new"), dtype or self.dtype)


op(f"new_empty(Tensor self, int[] size, {FACTORY}) -> Tensor",
   kernel=Factory(_new, _empty), public="Tensor", batch=sized,
   kernels={"npu": "factories.unfilled", "sparse": "layouts.new_empty"})
op(f"new_zeros(Tensor self, int[] size, {FACTORY}) -> Tensor",
   kernel=Factory(_new, lambda xp, *rest, spec: _zeros(xp, spec)),
   kernels={"sparse": "layouts.new_empty"}, npu="aclnnInplaceZero(out)", public="Tensor",
   samples=cases(case(t(2, 3), (2,)), case(ints(2), (0, 2))), batch=sized)
op(f"new_ones(Tensor self, int[] size, {FACTORY}) -> Tensor",
   kernel=Factory(_new, lambda xp, *rest, spec: _full(xp, spec, 1)),
   npu="aclnnInplaceOne(out)", public="Tensor",
   samples=cases(case(t(2, 3), (2,)), case(ints(2), (0, 2))), batch=sized)
op(f"new_full(Tensor self, int[] size, Scalar fill_value, {FACTORY}) -> Tensor",
   kernel=Factory(lambda self, size, fill_value, *rest: _new(self, size, *rest),
                  lambda xp, self, size, fill_value, *rest, spec:
                  _full(xp, spec, stored_number(fill_value, spec.dtype))),
   npu="aclnnInplaceFillScalar(out, fill_value)",
   public="Tensor", samples=cases(case(t(2, 3), (2,), 1.5), case(ints(2), (), 3)), batch=sized)


def _new_strided(self: Tensor, size: tuple[int, ...], stride: tuple[int, ...], dtype: dtype | None, *rest: Any) -> Spec:
    return _strided(size, stride, dtype or self.dtype)


def _new_strided_each(call: Call) -> Result:
    value, size, stride, *rest = call.values
    spanned = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return call.run(value, (call.size, *size), (spanned, *stride), *rest), True


op(f"new_empty_strided(Tensor self, int[] size, SymInt[] stride, {FACTORY}) -> Tensor",
   kernel=Factory(_new_strided, _empty), public="Tensor", batch=_new_strided_each,
   kernels={"npu": "factories.unfilled"})


# ranges --------------------------------------------------------------------------------------------------------------


def _range_dtype(wanted: dtype | None, *numbers: Any) -> dtype:
    if wanted is not None:
        return wanted
    return int64 if all(n.__class__ in (int, bool) for n in numbers) else get_default_dtype()


def _range_bounds(name: str, kind: dtype, *numbers: Any) -> tuple[Any, ...]:
    """Start, end and step in the precision they are counted in: Python integers or doubles."""
    if any(n.__class__ is complex and n.imag for n in numbers):
        raise RuntimeError("value cannot be converted to type double without overflow")
    numbers = tuple(n.real for n in numbers)
    start, end, step = numbers
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if step != step:
        raise RuntimeError("step must be nonzero")
    if kind is int64 and math.isfinite(step) and int(step) == 0 != step:
        raise ValueError("step must be nonzero")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if kind.category not in (INT, FLOAT):
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind.scalar_name}'")
    return numbers


def _arange_bounds(start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    """What arange(end), arange(start, end) and arange(start, end, step) count over."""
    if end is not None and (start is not None or step == 1):
        return 0 if start is None else start, end, step
    if start is None and end is None:
        raise TypeError("arange() received an invalid combination of arguments - got (), but expected one of: (Number "
                        "end), (Number start, Number end, Number step)")
    if step != 1:
        raise TypeError("arange(): a step needs both start and end")
    return 0, start, 1


def _arange_spec(start: Any, end: Any, step: Any, dtype: dtype | None, *rest: Any) -> Spec:
    first, last, by = bounds = _arange_bounds(start, end, step)
    if first.__class__ is last.__class__ is by.__class__ is int and (dtype is None or dtype is int64):
        if -(2**63) <= first <= last < 2**63 and 0 < by < 2**63:  # there is nothing to refuse
            return Spec((-((first - last) // by),), int64)
    kind = _range_dtype(dtype, *bounds)
    first, last, by = _range_bounds("arange", kind, *bounds)
    if kind is int64:  # counted in integers; the other types count in doubles
        _check_bounds(kind, first, last, by)
        return Spec((-((int(first) - int(last)) // int(by)),), kind)
    size = math.ceil((float(last) - float(first)) / float(by))
    if size >= 2**63:
        raise RuntimeError("invalid size, possible overflow?")
    return Spec((size,), kind)


def _arange(xp: Any, start: Any, end: Any, step: Any, *rest: Any, spec: Spec) -> Any:
    return _stepped(xp, *_arange_bounds(start, end, step), spec=spec)


def _stepped(xp: Any, start: Any, end: Any, step: Any, *rest: Any, spec: Spec) -> Any:
    """start, start + step, ..., with the rounding of PyTorch's vector kernels.

    They count in a wider type, but step inside a vector of 32 bytes from its first element, already rounded. What does
    not fill two vectors is counted one by one.
    """
    kind, count = spec.dtype.np, spec.shape[0]
    if spec.dtype.category == INT:
        start, step = int(start), int(step)
        if not step:
            return xp.full(count, start, kind)
        return xp.arange(start, start + count * step, step, dtype=xp.int64).astype(kind, copy=False)
    exact = 1 << -int(math.log2(finfo(spec.dtype).eps))
    if start == int(start) and step == int(step) and max(abs(start), abs(start + count * step)) <= exact:
        return xp.arange(int(start), int(start + count * step), int(step), dtype=xp.int64).astype(kind)
    wide = xp.float64 if kind.itemsize >= 4 else xp.float32
    start, step = float(wide(start)), float(wide(step))
    # For float32 the sum of a product in double precision needs no care: it is rounded once more.
    multiply_add = (lambda x, by, to: x * by + to) if kind == xp.float32 else fused_multiply_add
    lanes = 32 // kind.itemsize
    whole = count - count % (2 * lanes)
    firsts = multiply_add(xp.arange(0, whole, lanes).astype(wide), step, start).astype(kind)
    vectors = multiply_add(xp.arange(lanes).astype(wide), step, firsts.astype(wide)[:, None])
    rest_ = multiply_add(xp.arange(whole, count).astype(wide), step, start)
    return xp.concatenate((vectors.reshape(-1), rest_)).astype(kind)


def _range_overload(schema: Schema, values: Sequence[Any]) -> str:
    start, end, step = values[:3]
    return "start_step" if step != 1 else "default" if end is None or start in (None, 0) else "start"


op(f"arange.start_step(Scalar start=None, Scalar end=None, Scalar step=1, {FACTORY}) -> Tensor",
   kernel=Factory(_arange_spec, _arange),
   samples=cases(case(5), case(2.5), case(0), case(1, 5), case(1, 2, 0.25), case(5, 0, -2),
                 error(RuntimeError, "step must be nonzero", 0, 5, 0),
                 error(RuntimeError, "upper bound and lower bound inconsistent with step sign", 5, 0)),
   out=COUNTED._replace(resizes=False), aten=Aten(_range_overload),
   kernels={"cuda": "factories.arange", "npu": "factories.arange"})


def _closed_range_spec(start: Any, end: Any, step: Any, dtype: dtype | None, *rest: Any) -> Spec:
    kind = dtype or get_default_dtype()
    warn("torch.range is deprecated and will be removed in a future release because its behavior is "
         "inconsistent with Python's range builtin. Instead, use torch.arange, which produces values in "
         "[start, end).")
    start, end, step = _range_bounds("range", kind, start, end, step)
    return Spec((math.floor((end - start) / step) + 1,), kind)


op(f"range(Scalar start, Scalar end, Scalar step=1, {FACTORY}) -> Tensor",
   kernel=Factory(_closed_range_spec, _stepped), out=COUNTED, aten=Aten(if_given("step", "step")),
   kernels={"npu": "factories.range"})


def _spaced_spec(name: str) -> Callable[..., Spec]:
    def infer(start: Any, end: Any, steps: int, *rest: Any) -> Spec:
        ranks = {end_name: bound._array.ndim for end_name, bound in (("start", start), ("end", end))
                 if hasattr(bound, "_array")}
        if any(ranks.values()):
            shown = " and ".join(f"{end_name} with {rank} dimension(s)" for end_name, rank in ranks.items())
            raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {shown}.")
        if steps < 0:
            raise RuntimeError("number of steps must be non-negative")
        kind, is_complex = rest[-5], any(_is_complex(n) for n in (start, end))
        if kind is None:
            kind = default_complex() if is_complex else get_default_dtype()
        elif is_complex and not kind.is_complex:
            raise RuntimeError(f"torch.{name}(): inferred dtype {c_name(default_complex())} can't be safely cast to "
                               f"passed dtype {kind.scalar_name}")
        if kind.category == BOOL and steps > 1:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
        return Spec((steps,), kind)

    return infer


def _is_complex(value: Any) -> bool:
    return value.dtype.is_complex if hasattr(value, "_array") else value.__class__ is complex


def _number(bound: Any) -> Any:
    """A number, or the one element of an array on whatever device."""
    if bound.__class__ in NUMBERS:
        return bound
    value = (bound.to_host() if hasattr(bound, "to_host") else bound).item()
    if value.__class__ in NUMBERS:
        return value
    return complex(*value) if value.__class__ is tuple else float(value)


def _spaced(xp: Any, start: Any, end: Any, steps: int, kind: Any, counted: Any) -> Any:
    """`steps` numbers from start to end: the first half counted up from start, the second down from end.

    `kind` is the type of start, end and the step between them, `counted` the one the result is counted in.
    """
    start, end = (xp.asarray(bound).astype(kind) for bound in (start, end))
    step = (end - start) / kind.type(max(steps - 1, 1))
    up, down = xp.arange(steps // 2), xp.arange(steps - steps // 2 - 1, -1, -1)
    if counted == xp.float64:
        halves = [fused_multiply_add(xp.asarray(index, xp.float64), float(by), float(bound))
                  for index, by, bound in ((up, step, start), (down, -step, end))]
    else:
        halves = [
            bound + (by * index.astype(counted)).astype(counted)
            for index, by, bound in ((up, step, start), (down, -step, end))
        ]
    return xp.concatenate(halves)


def _check_bounds(kind: dtype, *bounds: Any) -> None:
    """Raises for a number that the type of the result cannot hold."""
    for bound in bounds:
        if bound.__class__ in NUMBERS:
            stored_number(bound, kind)


def evenly_spaced(xp: Any, start: Any, end: Any, steps: int, *rest: Any, spec: Spec) -> Any:
    if not steps:
        return xp.empty(0, spec.dtype.np)
    kind, start, end = spec.dtype.np, _number(start), _number(end)
    if steps == 1:
        return _full(xp, spec, stored_number(start, spec.dtype))
    if spec.dtype.category == INT:
        _check_bounds(spec.dtype, start, end)
        start, end = (xp.trunc(xp.asarray(bound).real) for bound in (start, end))
        return xp.trunc(_spaced(xp, start, end, steps, xp.dtype(xp.float64), xp.dtype(xp.float64))).astype(kind)
    compiled = getattr(xp, "spaced", None)
    made = None if compiled is None else compiled(start, end, steps, kind)
    if made is not None:
        return made
    # Float32 numbers are multiplied and added with one rounding, which float64 gives.
    return _spaced(xp, start, end, steps, kind, xp.dtype(xp.float64) if kind == xp.float32 else kind).astype(kind)


def _logspace(xp: Any, start: Any, end: Any, steps: int, base: float, *rest: Any, spec: Spec) -> Any:
    """Powers of `base`: the ends are rounded to the result's type, the exponents between them are not."""
    if not steps:
        return xp.empty(0, spec.dtype.np)
    kind, start, end = spec.dtype.np, _number(start), _number(end)
    if steps == 1:
        power = base ** xp.asarray(start).astype(xp.complex128 if start.__class__ is complex else xp.float64)
        if spec.dtype in COMPUTE:  # what overflows a half type is infinite
            return power.reshape(1).astype(spec.dtype.np)
        return _full(xp, spec, stored_number(_number(power), spec.dtype))
    if spec.dtype.category == INT:
        _check_bounds(spec.dtype, start, end)
        start, end, kind = xp.trunc(start), xp.trunc(end), xp.dtype(xp.float64)
    start, end = (xp.asarray(bound).astype(kind) for bound in (start, end))
    wide = xp.complex128 if kind.kind == "c" else xp.float64
    stepping = COMPUTE.get(spec.dtype, OF_ARRAY[kind]).np
    step = (end - start).astype(stepping) / stepping.type(max(steps - 1, 1))
    start, end, step = (number.astype(wide) for number in (start, end, step))
    up, down = xp.arange(steps // 2), xp.arange(steps - steps // 2 - 1, -1, -1)
    return (base ** xp.concatenate((start + step * up, end - step * down))).astype(spec.dtype.np)


_LINSPACE = cases(case(0, 1, 5), case(-1.5, 3, 4), case(0, 1, 1), case(2, 1, 0), case(t(), 1, 3),
                  error(RuntimeError, "number of steps must be non-negative", 0, 1, -1))


_STEPS_OVERLOAD = Aten(by_operands("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor", "default"))

op(f"linspace(Tensor|Scalar start, Tensor|Scalar end, int steps, {FACTORY}) -> Tensor",
   kernel=Factory(_spaced_spec("linspace"), evenly_spaced), samples=_LINSPACE, out=COUNTED._replace(grad="cut"),
   aten=_STEPS_OVERLOAD, kernels={"npu": "factories.linspace"})
op(f"logspace(Tensor|Scalar start, Tensor|Scalar end, int steps, float base=10.0, {FACTORY}) -> Tensor",
   kernel=Factory(_spaced_spec("logspace"), _logspace), samples=_LINSPACE, out=COUNTED._replace(grad="cut"),
   aten=_STEPS_OVERLOAD, kernels={"npu": "factories.logspace"})
