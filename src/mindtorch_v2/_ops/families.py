"""Families of operators: what their members share of shape, type, memory and write rules.

A family gives an operator its kernels. `infer` takes the call's arguments, looks at their metadata only, raises every
argument error, and says what comes out: it is the Meta kernel. `array` computes over an array namespace `xp`.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._autograd.node import VersionCounter
from .._autograd.views import MULTI_OUTPUT, creation_now, wake
from .._backends.cpu import xp as cpu_xp
from .._backends.meta import contiguous_strides
from .._dispatch.callers import call_bound, compile_function
from .._dispatch.keys import BACKEND_MASK, CPU_MASK, NPU_MASK, VIEW_MASK, DispatchKey, modes, unusual
from .._dispatch.registry import Lazy, Operator, refuse_mixed, registry
from .._dispatch.schema import NUMBERS, Schema
from .._dtype import (
    BOOL,
    COMPUTE,
    FLOAT,
    INT,
    OF_ARRAY,
    REDUCED,
    bool_,
    can_cast,
    combine,
    dtype,
    float32,
    get_default_dtype,
    of_number,
    promote_types,
)
from .._tensor import _NO_BYTES, Tensor, element_strides, tracked_view, wrap, wrap_meta
from .quick import functional_source, inplace_source, view_source

_ndarray = np.ndarray
_new = object.__new__


class Spec(NamedTuple):
    """What an operator returns: a shape, a type, and element strides where they are not contiguous."""

    shape: tuple[int, ...]
    dtype: dtype
    strides: tuple[int, ...] | None = None


def shape_text(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


_WITH_TENSOR_TYPE = frozenset(("Half", "Float", "Double", "Char", "Byte", "Short", "Int", "Long"))


def type_text(tensor: Tensor) -> str:
    """How errors call a tensor's device and type: `torch.FloatTensor`, but `CPUBoolType`."""
    kind, where = tensor.dtype.scalar_name, tensor._device.type
    if where == "cpu" and kind in _WITH_TENSOR_TYPE:
        return f"torch.{kind}Tensor"
    return f"{where.upper() if where != 'meta' else 'Meta'}{kind}Type"


# types ---------------------------------------------------------------------------------------------------------------


def common_dtype(operands: Sequence[Any]) -> dtype:
    """PyTorch's result type of tensors and numbers."""
    ranks: list[dtype | None] = [None, None, None]
    for operand in operands:
        if hasattr(operand, "_array"):
            rank, kind = (0 if operand._array.ndim else 1), OF_ARRAY[operand._array.dtype]
        else:
            rank, kind = 2, of_number(operand)
        known = ranks[rank]
        ranks[rank] = kind if known is None or known is kind else promote_types(known, kind)
    return combine(*ranks)


def promoted(common: dtype) -> tuple[dtype, dtype]:
    """Computed and returned in the operands' common type."""
    return common, common


def floating(common: dtype) -> tuple[dtype, dtype]:
    """As `promoted`, but integers become the default floating type."""
    kind = common if common.category >= FLOAT else get_default_dtype()
    return kind, kind


def boolean(common: dtype) -> tuple[dtype, dtype]:
    return common, bool_


def real_of_complex(common: dtype) -> tuple[dtype, dtype]:
    """As `promoted`, but complex numbers give real ones."""
    return common, common.to_real()


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape, with PyTorch's error text."""
    result: tuple[int, ...] = ()
    for shape in shapes:
        if shape == result or not shape:
            continue
        if not result:
            result = shape
            continue
        ndim = max(len(result), len(shape))
        a, b = (1,) * (ndim - len(result)) + result, (1,) * (ndim - len(shape)) + shape
        for d in range(ndim - 1, -1, -1):
            m, n = a[d], b[d]
            if m != n and m != 1 and n != 1:
                raise RuntimeError(f"The size of tensor a ({m}) must match the size of tensor b ({n}) "
                                   f"at non-singleton dimension {d}")
        result = tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
    return result


def pointwise_strides(shape: tuple[int, ...], operands: Sequence[Any]) -> tuple[int, ...] | None:
    """Element strides of a pointwise result of tensors and numbers; None if they are contiguous."""
    return _combined_strides(shape, tuple([
        _NUMBER_GEOMETRY if t.__class__ in NUMBERS else (t._array.shape, element_strides(t._array)) for t in operands
    ]))


_NUMBER_GEOMETRY: tuple = ((), ())


@functools.lru_cache(4096)
def _combined_strides(shape: tuple[int, ...], operands: tuple) -> tuple[int, ...] | None:
    """Operands of one shape that lie alike pass it on; else the order of their dimensions, densely packed."""
    if all(own_shape == shape for own_shape, _ in operands):
        if 0 in shape or all(_lies_densely(shape, strides, range(len(shape) - 1, -1, -1)) for _, strides in operands):
            return None
        first = operands[0][1]
        if all(strides == first for _, strides in operands):
            if _lies_densely(shape, first, sorted(range(len(shape)), key=first.__getitem__)):
                return first
    known = []
    for own_shape, strides in operands:
        pad = len(shape) - len(own_shape)
        known.append((0,) * pad + tuple(0 if n == 1 and shape[pad + i] != 1 else s
                                        for i, (n, s) in enumerate(zip(own_shape, strides, strict=True))))
    order = list(range(len(shape) - 1, -1, -1))  # innermost first
    for i in range(1, len(order)):
        at = i
        for j in range(i - 1, -1, -1):
            ahead = _must_swap(order[j], order[at], known, shape)
            if ahead > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif ahead < 0:
                break
    if order == list(range(len(shape) - 1, -1, -1)):
        return None
    result, step = [0] * len(shape), 1
    for d in order:
        result[d] = step
        step *= shape[d]
    return tuple(result)


def _lies_densely(shape: tuple[int, ...], strides: tuple[int, ...], order: Iterable[int]) -> bool:
    """Whether the dimensions, innermost first, lie in each other without gaps."""
    step = 1
    for d in order:
        if shape[d] != 1:
            if strides[d] != step:
                return False
            step *= shape[d]
    return True


def _must_swap(inner: int, outer: int, known: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> int:
    """1 if the dimension now further in has the larger stride, -1 if not, 0 if no operand tells."""
    for strides in known:
        a, b = strides[inner], strides[outer]
        if a == 0 or b == 0:
            continue
        if a < b:
            return -1
        if a > b:
            return 1
        if shape[inner] > shape[outer]:
            return 1
    return 0


# writing -------------------------------------------------------------------------------------------------------------


def is_expanded(array: Any) -> bool:
    """Whether one element of memory stands for several of the array."""
    strides = array.strides
    return 0 in strides and any(s == 0 and n > 1 for s, n in zip(strides, array.shape, strict=True)) and array.size > 0


def check_writable(tensor: Tensor) -> None:
    """Raises for memory in which one element stands for several (an expanded tensor)."""
    if is_expanded(tensor._array):
        raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a single "
                           "memory location. Please clone() the tensor before performing the operation.")


def shares_storage(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors show the same memory; makes no storage where there is none yet."""
    a = one if one._base is None else one._base
    b = other if other._base is None else other._base
    return a is b or (a._storage is not None and a._storage is b._storage)


def check_overlap(target: Tensor, source: Any) -> None:
    """Raises if `source` shows some, but not exactly, the elements that are written.

    As in PyTorch only where it is easy to tell: both must lie densely.
    """
    if source.__class__ in NUMBERS or source is target or not shares_storage(target, source):
        return
    a, b = target._array, source._array
    if not a.size or not b.size or not is_dense(a) or not is_dense(b):
        return
    start, end = target._offset, target._offset + a.size * a.itemsize
    other, other_end = source._offset, source._offset + b.size * b.itemsize
    if (start, end) == (other, other_end) and a.strides == b.strides:
        return
    if start < other_end and other < end:
        raise RuntimeError("unsupported operation: some elements of the input tensor and the written-to tensor refer "
                           "to a single memory location. Please clone() the tensor before performing the operation.")


def is_dense(array: Any) -> bool:
    """Whether the elements fill a stretch of memory, each once, in whatever order of dimensions."""
    step = array.itemsize
    for stride, n in sorted(_long_strides(array)):
        if stride != step:
            return False
        step *= n
    return True


def _long_strides(array: Any) -> list[tuple[int, int]]:
    return [(s, n) for s, n in zip(array.strides, array.shape) if n != 1]


def check_result_fits(target: Tensor, spec: Spec) -> None:
    """Raises unless a result of this shape and type may be written into `target`."""
    check_shape_fits(target, spec.shape)
    if not can_cast(spec.dtype, target.dtype):
        raise RuntimeError(f"result type {spec.dtype.scalar_name} can't be cast to the desired output type "
                           f"{target.dtype.scalar_name}")


def check_shape_fits(target: Tensor, shape: tuple[int, ...]) -> None:
    if shape != target._array.shape:
        raise RuntimeError(f"output with shape {shape_text(target._array.shape)} doesn't match the broadcast shape "
                           f"{shape_text(shape)}")


def npu_kernel(operator: Operator, functional: Operator | None = None) -> Callable:
    """The kernel on an NPU, made when first needed; for an in-place form, with its functional one."""
    from .npu import inplace_kernel_of, kernel_of

    return kernel_of(operator) if functional is None else inplace_kernel_of(operator, functional)


def _mixed_devices(operator: Operator, mask: int) -> Callable:
    """The kernel of a call whose tensors are on several devices: a CPU tensor without dimensions joins an NPU's."""
    refuse = refuse_mixed(operator, mask)
    if mask & BACKEND_MASK != CPU_MASK | NPU_MASK:
        return refuse

    def kernel(*args: Any) -> Any:
        from .npu import with_numbers_moved

        moved = with_numbers_moved(operator, args)
        return refuse(*args) if moved is None else call_bound(operator, moved)

    return kernel


registry.mixed_devices = _mixed_devices  # type: ignore[method-assign]


# families ------------------------------------------------------------------------------------------------------------


class Family:
    """Gives an operator its kernels, one for each backend key."""

    inplace = False  # whether members have an in-place form unless they say otherwise
    is_view = False
    # Which types `out=` may have: those a result casts to, "any", "exact"ly its, or its "own", then computed in.
    # "joined" is "castable" with the error of torch.cat.
    out_types = "castable"

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        return {
            DispatchKey.CPU: Lazy(lambda: self.cpu(operator)),
            DispatchKey.Meta: Lazy(lambda: self.meta(operator)),
            DispatchKey.NPU: Lazy(lambda: npu_kernel(operator)),
        }

    def inplace_kernels(self, operator: Operator, functional: Operator) -> dict[DispatchKey, Any]:
        """Kernels of the in-place form: the functional one, and one write path."""

        def kernel(self: Tensor, *args: Any) -> Tensor:
            check_writable(self)
            result = functional.lookup(self._backend_mask())(self, *args)
            check_result_fits(self, Spec(result._array.shape, result.dtype))
            if self._array.__class__ is _ndarray:
                np.copyto(self._array, result._array, casting="unsafe")
            self._bump_version()
            return self

        return {DispatchKey.CPU: kernel, DispatchKey.Meta: kernel,
                DispatchKey.NPU: Lazy(lambda: npu_kernel(operator, functional))}

    def cpu(self, operator: Operator) -> Callable:
        raise NotImplementedError

    def meta(self, operator: Operator) -> Callable:
        raise NotImplementedError


class ArrayFamily(Family):
    """An `infer` and an `array` function; the two are all there is to such an operator.

    With `widen`, arrays of half precision reach `array` as float32, as PyTorch computes them. `array` may ask for the
    inferred result with a keyword parameter `spec`.
    """

    def __init__(self, infer: Callable, array: Callable, *, widen: bool, inplace: bool = False,
                 out_types: str = "castable") -> None:
        self.infer, self.array, self.widen, self.inplace, self.out_types = infer, array, widen, inplace, out_types

    def cpu(self, operator: Operator) -> Callable:
        schema = operator.schema
        passed = []
        for a in schema.arguments:
            take = "_widened({})" if self.widen else "{}"
            if not a.is_tensor:
                passed.append(a.name)
            elif a.is_list:
                each = f"[None if t is None else {take.format('t._array')} for t in {a.name}]"
                passed.append(f"None if {a.name} is None else {each}" if a.optional else each)
            elif a.type == "Tensor|Scalar":
                absent = f"{a.name} is None or " if a.optional else ""
                passed.append(f"{a.name} if {absent}{a.name}.__class__ in NUMBERS else "
                              f"{take.format(a.name + '._array')}")
            elif a.optional:
                passed.append(f"None if {a.name} is None else {take.format(a.name + '._array')}")
            else:
                passed.append(take.format(a.name + "._array"))
        if "spec" in _parameters(self.array):
            passed.append("spec=spec")
        names = ", ".join(schema.names)
        finish = "wrap_one" if len(schema.returns) == 1 and not schema.returns[0].is_list else "wrap_all"
        source = (f"def {schema.base_name}({names}):\n"
                  f"    spec = infer({names})\n"
                  f"    return {finish}(array(xp, {', '.join(passed)}), spec)\n")
        scope = {"infer": self.infer, "array": self.array, "xp": cpu_xp, "wrap_one": wrap_one, "NUMBERS": NUMBERS,
                 "wrap_all": lambda arrays, specs: result_of(operator, map(_wrap_wanted, arrays, specs)),
                 "_widened": _widened, "__opname__": f"{operator.name} cpu"}
        return compile_function(schema.base_name, source, scope)

    def meta(self, operator: Operator) -> Callable:
        infer = self.infer

        def kernel(*args: Any) -> Any:
            spec = infer(*args)
            return meta_of(spec) if spec.__class__ is Spec else result_of(operator, map(_meta_wanted, spec))

        return kernel


def computes(infer: Callable, array: Callable, *, inplace: bool = False, out_types: str = "castable") -> ArrayFamily:
    """An operator that does arithmetic: half precision is computed in float32."""
    return ArrayFamily(infer, array, widen=True, inplace=inplace, out_types=out_types)


def moves(infer: Callable, array: Callable, *, inplace: bool = False, out_types: str = "castable") -> ArrayFamily:
    """An operator that only moves or compares elements: any type as it is."""
    return ArrayFamily(infer, array, widen=False, inplace=inplace, out_types=out_types)


def _parameters(function: Callable) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype in REDUCED else array


def wrap_one(array: Any, spec: Spec) -> Tensor:
    """A kernel's array as a tensor of the type that was inferred."""
    if array.__class__ is not _ndarray:
        array = np.asarray(array)
    kind = spec.dtype.np
    if array.dtype is not kind and array.dtype != kind:
        array = array.astype(kind)
    made = _new(Tensor)
    made._array = array
    return made


def meta_of(spec: Spec) -> Tensor:
    strides = spec.strides
    if strides is not None:
        strides = tuple(s * spec.dtype.itemsize for s in strides)
    return wrap_meta(spec.shape, spec.dtype.np, strides)


def _wrap_wanted(array: Any, spec: Spec | None) -> Tensor | None:
    """One of several outputs; None for one that the call did not ask for."""
    return None if spec is None else wrap_one(array, spec)


def _meta_wanted(spec: Spec | None) -> Tensor | None:
    return None if spec is None else meta_of(spec)


def result_of(operator: Operator, tensors: Any) -> Any:
    """Several outputs as the operator's named tuple, or a list where the schema says so."""
    kind = operator.declaration.result_type
    return list(tensors) if kind is None else kind(*tensors)


def laid_out(array: np.ndarray, operands: Sequence[Any]) -> np.ndarray:
    """The array with the strides PyTorch gives a pointwise result of these operands; NumPy's choice may be another."""
    shape = array.shape
    if len(shape) < 2:
        return array
    if array.size and 1 not in shape and array.flags.c_contiguous:
        for operand in operands:
            if operand.__class__ not in NUMBERS:
                own = operand._array
                if not own.flags.c_contiguous and any(own.strides):  # fully expanded, it tells nothing of the order
                    break
        else:
            return array
    strides = pointwise_strides(shape, operands) or contiguous_strides(shape)
    if element_strides(array) == strides:
        return array
    order = sorted(range(array.ndim), key=lambda d: -strides[d])
    made = np.empty([shape[d] for d in order], array.dtype).transpose(np.argsort(order))
    if element_strides(made) != strides:  # a dimension of size 1, or one of size 0
        buffer = made.reshape(-1) if made.size else _NO_BYTES
        made = np.ndarray(shape, array.dtype, buffer, 0, tuple([s * array.itemsize for s in strides]))
    made[...] = array
    return made


@functools.cache
def operand_positions(schema: Schema) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(schema.arguments) if a.is_tensor)


class Pointwise(Family):
    """Elementwise over broadcast operands; `compute(xp, *arguments)` sees them in one type.

    `result` says in which type is computed and which comes out, given the operands' common type. `ufunc` names the
    NumPy function that the operator is when every other argument has its default. `excluding` lists categories PyTorch
    refuses, with `named` in the text where that is not the operator's own name.
    """

    inplace = True

    def __init__(self, compute: "str | Callable", result: Callable = promoted, *, ufunc: str | None = None,
                 excluding: Sequence[int] = (), check: Callable | None = None, named: str | None = None,
                 out_types: str = "castable") -> None:
        self.out_types = out_types
        self.result, self.excluding, self.check, self.named = result, frozenset(excluding), check, named
        self.ufunc = compute if isinstance(compute, str) else ufunc
        self.compute = compute if callable(compute) else (lambda xp, *args: getattr(xp, compute)(*args))
        self.known_types: dict[tuple, tuple[dtype, dtype]] = {}

    def plan(
        self, operator: Operator, args: Sequence[Any], target: Tensor | None = None
    ) -> tuple[Spec, dtype, list[int]]:
        """The result's spec, the type to compute in, and the positions of the operands; it must fit the `target`."""
        if self.check is not None:
            self.check(*args)
        at = [i for i in operand_positions(operator.schema) if args[i] is not None]
        operands = [args[i] for i in at]
        shapes = [t._array.shape for t in operands if t.__class__ not in NUMBERS]
        shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else broadcast_shape(shapes)
        if target is not None:
            check_shape_fits(target, shape)
        compute, out = self.types(operator, operands)
        return Spec(shape, out, None), compute, at

    def types(self, operator: Operator, operands: Sequence[Any]) -> tuple[dtype, dtype]:
        """The type to compute in and the one that comes out, remembered for each combination of operands."""
        key = (get_default_dtype(), *[v.__class__ if v.__class__ in NUMBERS else (v._array.dtype, v._array.ndim == 0)
                                      for v in operands])
        known = self.known_types.get(key)
        if known is None:
            common = common_dtype(operands)
            if common.category in self.excluding:
                name = self.named or f"{operator.schema.base_name}_cpu"
                raise NotImplementedError(f'"{name}" not implemented for \'{common.scalar_name}\'')
            compute, out = self.result(common)
            known = self.known_types[key] = COMPUTE.get(compute, compute), out
        return known

    def computed(self, args: Sequence[Any], kind: dtype, at: Sequence[int]) -> Any:
        """The array that `compute` gives for these arguments, the operands among them cast to `kind`."""
        values = list(args)
        for i in at:
            value = values[i]
            if value.__class__ in NUMBERS:
                values[i] = number_array(value, kind)
            else:
                array = value._array
                values[i] = array if array.dtype is kind.np else array.astype(kind.np)
        return self.compute(cpu_xp, *values)

    def cpu(self, operator: Operator) -> Callable:
        def general(*args: Any) -> Tensor:
            spec, kind, at = self.plan(operator, args)
            array = self.computed(args, kind, at)
            if array.shape != spec.shape:  # an operand that only tells the shape
                array = np.broadcast_to(array, spec.shape).copy()
            elif array.ndim > 1:
                array = laid_out(array, [args[i] for i in at])
            return wrap_one(array, spec)

        return self._quick(operator, general, inplace=False)

    def _quick(self, operator: Operator, general: Callable, *, inplace: bool) -> Callable:
        """A kernel for operands of one plain type straight into the array function, else `general`."""
        arguments = operator.schema.arguments
        operands = [a for a in arguments if a.is_tensor]
        if operands != list(arguments[:3])[: len(operands)] or any(a.optional or a.is_list for a in operands):
            return general
        plain = {d.np for d in OF_ARRAY.values() if self.is_plain(d)}
        # NumPy 2.4 negates a strided array of 4-byte elements wrongly if it writes into the same array.
        is_ufunc = self.ufunc is not None and not (inplace and self.ufunc == "negative")
        name = operator.schema.base_name
        if inplace:
            source = inplace_source(name, arguments, is_ufunc=is_ufunc, checked=self.check is not None)
        else:
            source = functional_source(name, arguments, is_ufunc=is_ufunc, boolean=self.result(float32)[1] is bool_,
                                       checked=self.check is not None)
        scope: dict[str, Any] = {
            "plain": frozenset(plain), "usual": float32.np if float32.np in plain else None,
            "NUMBERS": NUMBERS,
            "general": general,
            "ndarray": _ndarray,
            "asarray": np.asarray,
            "new": _new,
            "Tensor": Tensor,
            "plan": self.plan,
            "operator": operator,
            "xp": cpu_xp,
            "copyto": np.copyto,
            "wrap": wrap,
            "ufunc": getattr(cpu_xp, self.ufunc) if self.ufunc else None,
            "compute": self.compute,
            "check_overlap": check_overlap,
            "check": self.check,
            "check_writable": check_writable,
            "overlaps_itself": overlaps_itself,
            "laid_out": laid_out,
            "__opname__": f"{operator.name} cpu",
            **{f"default_{a.name}": a.default for a in arguments if not a.is_tensor},
        }
        return compile_function(name, source, scope)

    def is_plain(self, kind: dtype) -> bool:
        """Whether operands of this type are computed in it, and give it back or a bool, with nothing to refuse."""
        if kind.category in self.excluding or kind in COMPUTE or kind.category not in (INT, FLOAT):
            return False
        compute, out = self.result(kind)
        return compute is kind and (out is kind or out is bool_)

    def meta(self, operator: Operator) -> Callable:
        def kernel(*args: Any) -> Tensor:
            spec, _, at = self.plan(operator, args)
            return meta_of(spec._replace(strides=pointwise_strides(spec.shape, [args[i] for i in at])))

        return kernel

    def check_write(self, operator: Operator, target: Tensor, args: Sequence[Any]) -> None:
        """Raises what comes before the checks of memory that all writes have; `args` are the other arguments."""
        if self.check is not None:
            self.check(target, *args)

    def inplace_kernels(self, operator: Operator, functional: Operator) -> dict[DispatchKey, Any]:
        def general(self_: Tensor, *args: Any) -> Tensor:
            self.check_write(functional, self_, args)
            check_writable(self_)
            for value in args:
                if hasattr(value, "_array"):
                    check_overlap(self_, value)
            spec, kind, at = self.plan(functional, (self_, *args), self_)
            check_result_fits(self_, spec)
            if self_._array.__class__ is _ndarray:
                for row in _rows_in_turn(self_, args, at):
                    np.copyto(row[0]._array, self.computed(row, kind, at), casting="unsafe")
            self_._bump_version()
            return self_

        return {
            DispatchKey.CPU: Lazy(lambda: self._quick(functional, general, inplace=True)),
            DispatchKey.Meta: general,
            DispatchKey.NPU: Lazy(lambda: npu_kernel(operator, functional)),
        }


pointwise = Pointwise


def _rows_in_turn(target: Tensor, args: Sequence[Any], at: Sequence[int]) -> Iterable[tuple]:
    """The arguments of an in-place call; row by row where rows of the target share memory, as from windows of it.

    Then one row reads what those before it wrote, as in PyTorch.
    """
    array = target._array
    if array.flags.c_contiguous or not overlaps_itself(array.shape, array.strides):
        return ((target, *args),)
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    values = (target, *args)
    spread = {i: np.broadcast_to(values[i]._array, array.shape).transpose(order) for i in at
              if i and values[i].__class__ not in NUMBERS}
    spread[0] = array.transpose(order)
    return (tuple([wrap(spread[i][place]) if i in spread else value for i, value in enumerate(values)])
            for place in np.ndindex(spread[0].shape[:-1]))


@functools.lru_cache(4096)
def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements lie at one place, though no stride is 0."""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if 0 < stride <= reach:
            return True
        reach += stride * (n - 1)
    return False


def number_array(value: Any, kind: dtype) -> Any:
    """A Python number as a 0-dim array or NumPy scalar, with the wrap-around of a C cast."""
    if value.__class__ is float and kind.category == FLOAT and kind not in COMPUTE:
        return kind.np.type(value)
    if kind.category == INT and value.__class__ is int and not -(2**63) <= value < 2**64:
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    if kind.category == BOOL:
        return np.asarray(bool(value))
    return np.asarray(value).astype(kind.np)


class View(Family):
    """Another geometry on the same memory: `geometry(*arguments)` gives shape, strides and offset.

    It is called as `infer` is. Strides and offset are in bytes, the offset counted from where `self` begins. A fourth
    value is another element type. With `several`, it gives a list of them.
    `array(ndarray, *arguments)` is the same by NumPy's own view functions, for operators that leave the offset: a
    shortcut, since a view should cost no more than its call, which may give None. Meta and CPU agree on every sample.
    """

    is_view = True

    def __init__(self, geometry: Callable, array: Callable | None = None, *, several: bool = False) -> None:
        self.geometry, self.array, self.several = geometry, array, several

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        geometry, array_view = self.geometry, self.array

        def one(source: Tensor, *args: Any) -> Tensor:
            if source._keys & VIEW_MASK and wake(source):
                return call_bound(operator, (source, *args))
            storage = source._shared_storage()  # first, since it gives an empty array PyTorch's strides
            shape, strides, offset, *kind = geometry(source, *args)
            offset += source._offset
            made = storage.array(shape, kind[0] if kind else source._array.dtype, offset, strides)
            return tracked_view(source, made, offset, operator, args)

        def many(source: Tensor, *args: Any) -> Any:
            if source._keys & VIEW_MASK and wake(source):
                return call_bound(operator, (source, *args))
            storage, array, views = source._shared_storage(), source._array, []
            for nr, (shape, strides, offset) in enumerate(geometry(source, *args)):
                offset += source._offset
                view = tracked_view(
                    source, storage.array(shape, array.dtype, offset, strides), offset, operator, args, nr
                )
                view._creation = view._creation or MULTI_OUTPUT
                views.append(view)
            return tuple(views)

        def quick() -> Callable:
            scope = {
                "array_view": array_view,
                "general": one,
                "operator": operator,
                "modes": modes, "unusual": unusual,
                "new": _new,
                "Tensor": Tensor,
                "VersionCounter": VersionCounter,
                "creation_now": creation_now,
                "__opname__": f"{operator.name} cpu",
            }
            name = operator.schema.base_name
            return compile_function(name, view_source(name, operator.schema.arguments), scope)

        kernel = many if self.several else one
        operator.fallthrough.add(DispatchKey.ADInplaceOrView)  # these look for themselves whether a view woke up
        return {DispatchKey.CPU: kernel if array_view is None else Lazy(quick), DispatchKey.Meta: kernel,
                DispatchKey.NPU: kernel}


def view(geometry: Callable, array: Callable | None = None) -> View:
    return View(geometry, array)


def views(geometry: Callable) -> View:
    return View(geometry, several=True)


class Composite(Family):
    """Written as other operators: runs wherever they run, and has their derivative."""

    def __init__(self, function: Callable, *, inplace: bool = False, out_types: str = "castable") -> None:
        self.function, self.inplace, self.out_types = function, inplace, out_types

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        return dict.fromkeys((DispatchKey.CPU, DispatchKey.Meta, DispatchKey.NPU, DispatchKey.CUDA), self.function)

    def inplace_kernels(self, operator: Operator, functional: Operator) -> dict[DispatchKey, Any]:
        function = self.function

        def kernel(target: Any, *args: Any) -> Any:
            check_writable(target)
            result = function(target, *args)
            check_result_fits(target, Spec(result._array.shape, result.dtype))
            return target.copy_(result)

        return dict.fromkeys((DispatchKey.CPU, DispatchKey.Meta, DispatchKey.NPU, DispatchKey.CUDA), kernel)


class Writes(Family):
    """An operator that is a write by nature (fill_, copy_): `write(xp, *arguments)` stores into its first array.

    With `repeats`, all elements get the same value, so that they may share memory (an expanded tensor).
    """

    def __init__(self, check: Callable, write: Callable, *, repeats: bool = False) -> None:
        self.check, self.write, self.repeats = check, write, repeats

    def cpu(self, operator: Operator) -> Callable:
        check, write, repeats = self.check, self.write, self.repeats

        def kernel(target: Tensor, *args: Any) -> Tensor:
            if not repeats:
                check_writable(target)
            check(target, *args)
            write(cpu_xp, target._array, *[getattr(a, "_array", a) for a in args])
            target._bump_version()
            return target

        return kernel

    def meta(self, operator: Operator) -> Callable:
        def kernel(target: Tensor, *args: Any) -> Tensor:
            if not self.repeats:
                check_writable(target)
            self.check(target, *args)
            target._bump_version()
            return target

        return kernel


writes = Writes
__all__ = [
    "ArrayFamily",
    "Composite",
    "Family",
    "Pointwise",
    "Spec",
    "View",
    "Writes",
    "boolean",
    "computes",
    "floating",
    "moves",
    "pointwise",
    "promoted",
    "real_of_complex",
    "view",
    "views",
    "wrap",
    "writes",
]
