"""Pointwise operators on a GPU through generated kernels (_backends/cuda/fuse.py), launched with little ado.

A call finds its launch by the layouts of its tensors and the classes of its numbers. What has no generated kernel runs
over CuPy.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.dtype import FLOAT, REDUCED
from ..._core.geometry import collapsed, contiguous_strides
from ..._core.tensor import Tensor
from ..._dispatch.callers import compile_function
from ..._dispatch.keys import CUDA_MASK
from ..._dispatch.registry import Operator
from ..._dispatch.schema import NUMBERS, Argument
from ..._ops._declare.families import Pointwise
from ..._ops._declare.rules import (
    check_overlap,
    check_result_fits,
    check_writable,
    common_dtype,
    overlaps_itself,
    pointwise_strides,
)
from .array import CudaArray, Layout, layout_of
from .fuse import Traced, Untraceable
from .launch import Launch, check, compiled
from .memory import allocate, source
from .streams import current

_THREADS, _PER_THREAD, _VARIANTS, _PLANS, _RANK = 256, 4, 16, 4096, 8
_COUNTED = frozenset(("int", "float", "Scalar"))


# where elements lie --------------------------------------------------------------------------------------------------


def _strides_in(layout: Layout, shape: Sequence[int]) -> list[int]:
    """Strides in elements over a shape that the layout broadcasts to."""
    size, steps = layout.dtype.itemsize, []
    for stride, n in zip(layout.strides, layout.shape, strict=True):
        if stride % size:
            raise Untraceable
        steps.append(stride // size if n != 1 else 0)
    return [0] * (len(shape) - len(steps)) + steps


def launch_of(traced: Traced, layouts: Sequence[Layout], out: Layout, numbers: Sequence[Any] = ()) -> Launch:
    """The launch of a traced function on arrays of these layouts; the pointer of the result follows theirs.

    Calls give the numbers too, unless they are known already.
    """
    shape, count = out.shape, out.size
    dtypes, letters = [each.dtype for each in layouts], "q" * (len(layouts) + 1)
    single = [each.size == 1 for each in layouts]
    own = _strides_in(out, shape)
    dense = math.prod(n for n, s in zip(shape, own, strict=True) if s) == count == out.nbytes // out.dtype.itemsize
    alike = [one or each.shape == shape and _strides_in(each, shape) == own
             for one, each in zip(single, layouts, strict=True)]
    fixed: list[Any] = [ctypes.c_double(n) if isinstance(n, float) else ctypes.c_longlong(n) for n in numbers]
    letters += "".join(traced.numbers.values()) if not fixed else ""
    fixed.append(ctypes.c_longlong(count))
    if dense and all(alike):
        text, per_thread = traced.flat_source(dtypes, single, out.dtype), _PER_THREAD
    else:
        order = sorted(range(len(shape)), key=lambda d: (own[d], -d))  # as the result lies
        sizes, strides = collapsed(order, shape, [*(_strides_in(each, shape) for each in layouts), own])
        if len(sizes) > _RANK:
            raise Untraceable
        per_thread = _PER_THREAD if sizes[0] % _PER_THREAD == 0 and count > 1 << 16 else 1
        fixed.append((ctypes.c_longlong * (len(sizes) * (len(strides) + 1)))(*sizes, *(s for each in strides
                                                                                       for s in each)))
        inner = None
        if per_thread == 4 and strides[-1][0] == 1 and all(each[0] in (0, 1) and (not each[0] or not any(
                s % 4 for s in each[1:])) for each in strides):
            inner = [each[0] for each in strides[:-1]]
        text = traced.strided_source(dtypes, out.dtype, len(sizes), per_thread,
                                     "unsigned int" if count < 1 << 31 else "unsigned long long", inner)
    blocks = -(-count // (_THREADS * per_thread))
    return Launch(compiled(text, "fused"), letters, (blocks,), (_THREADS,), fixed)


# copies --------------------------------------------------------------------------------------------------------------


@functools.cache
def _identity(kind: np.dtype) -> Traced:
    wide = np.dtype(np.float32) if kind in REDUCED else kind
    return Traced(lambda xp, x: x, [kind], [0], wide, None)


@functools.lru_cache(4096)
def copying(source: Layout, target: Layout) -> Launch | None:
    """The launch that copies elements, cast and broadcast, into another layout; None where CuPy has to."""
    try:
        return launch_of(_identity(source.dtype), [source], target) if target.dtype.kind != "c" else None
    except (Untraceable, KeyError):
        return None


@functools.lru_cache(4096)
def spreading(target: Layout, value: Any) -> Launch:
    """The launch that stores a number into all elements of a layout."""
    wide = np.dtype(np.float32) if target.dtype in REDUCED else target.dtype
    traced, numbers = Traced.of_expression([], lambda loads, number: number(wide.type(value)))
    return launch_of(traced, [], target, numbers)


# operators -----------------------------------------------------------------------------------------------------------


class Fused:
    """The kernel of one operator, or of its in-place form; `slow` is the kernel over CuPy."""

    def __init__(self, operator: Operator, family: Pointwise, slow: Callable, inplace: bool) -> None:
        self.operator, self.family, self.slow, self.inplace = operator, family, slow, inplace
        self.arguments: Sequence[Argument] = operator.schema.arguments
        self.plans: dict[tuple, Callable] = {}
        self.variants: dict[tuple, list[tuple[Callable, Callable]]] = {}
        self.traces: dict[tuple, list[tuple[Traced, Callable, Callable]]] = {}

    def kernel(self) -> Callable:
        """The function that the dispatcher calls."""
        if any(a.is_tensor and a.is_list for a in self.arguments):
            return self.slow
        names = ", ".join(a.name for a in self.arguments)
        text = (f"def {self._name}({names}):\n"
                f"    try: run = plans[{self._key_text()}]\n"
                f"    except (KeyError, AttributeError): run = general\n"
                f"    return run({names})\n")
        return compile_function(self._name, text, {"plans": self.plans, "general": self.general, "NUMBERS": NUMBERS,
                                                   "__opname__": f"{self.operator.name} cuda"})

    @property
    def _name(self) -> str:
        return self.operator.schema.base_name + "_" * self.inplace

    def _key_text(self) -> str:
        parts = []
        for a in self.arguments:
            name = a.name
            part = f"{name}._array.layout"
            if not a.is_tensor:
                counted = a.type in _COUNTED and not a.is_list
                part = f"({name}.__class__ if {name}.__class__ is not bool else {name})" if counted else name
            elif a.type == "Tensor|Scalar":
                part = f"({name}.__class__ if {name}.__class__ in NUMBERS else {part})"
            if a.is_tensor and a.optional:
                part = f"(None if {name} is None else {part})"
            parts.append(part)
        return ", ".join(parts) + ","

    def general(self, *args: Any) -> Any:
        """A call whose launch is not at hand, or whose numbers want another one."""
        arrays = [v._array for v in args if hasattr(v, "_array")]
        if not arrays or any(a.__class__ is not CudaArray or not a.size for a in arrays):
            return self.slow(*args)
        key = tuple(self._key_part(a, v) for a, v in zip(self.arguments, args, strict=True))
        variants = self.variants.setdefault(key, [])
        for guard, run in variants:
            if guard(*args):
                self.plans[key] = run
                return run(*args)
        if len(variants) >= _VARIANTS or not self._is_alone(args):
            return self.slow(*args)
        try:
            guard, run, kept = self._prepared(args)
        except Untraceable:
            guard, run, kept = (lambda *args: True), self.slow, True
        if kept:
            if len(self.variants) > _PLANS:
                self.variants.clear()
                self.plans.clear()
            self.variants.setdefault(key, []).append((guard, run))
            self.plans[key] = run
        return run(*args)

    def _is_alone(self, args: Sequence[Any]) -> bool:
        """Whether the target of an in-place call is free of elements that share memory."""
        if not self.inplace:
            return True
        array = args[0]._array
        return not overlaps_itself(array.shape, array.strides)

    def _key_part(self, argument: Argument, value: Any) -> Any:
        if argument.is_tensor:
            return None if value is None else value.__class__ if value.__class__ in NUMBERS else value._array.layout
        counted = argument.type in _COUNTED and not argument.is_list and value.__class__ is not bool
        return value.__class__ if counted else value

    def _prepared(self, args: Sequence[Any]) -> tuple[Callable, Callable, bool]:
        """A guard, the function that launches, and whether they serve further calls."""
        family, target = self.family, args[0] if self.inplace else None
        if target is not None:
            family.check_write(self.operator, target, args[1:])
            check_writable(target)
            for value in args[1:]:
                if hasattr(value, "_array"):
                    check_overlap(target, value)
        spec, kind, at = family.plan(self.operator, args, target)
        operands = [args[i] for i in at]
        if target is not None:
            check_result_fits(target, spec)
            out = target._array.layout
        else:
            strides = pointwise_strides(spec.shape, family.lying(operands)) or contiguous_strides(spec.shape)
            size = spec.dtype.itemsize
            out = layout_of(tuple(spec.shape), spec.dtype.np, tuple([s * size for s in strides]))
        tensors = [i for i, v in enumerate(args) if hasattr(v, "_array")]
        if any(i not in at for i in tensors) or spec.dtype.is_complex:
            raise Untraceable
        traced, guard, make = self._traced(args, kind.np, at, common_dtype(operands).np)
        launch = launch_of(traced, [args[i]._array.layout for i in traced.loads], out)
        floats = any(args[i].dtype.category >= FLOAT for i in tensors)
        return guard, make(launch, out, out.nbytes), floats or spec.dtype.category < FLOAT

    def _traced(self, args: Sequence[Any], kind: np.dtype, at: Sequence[int], common: np.dtype) -> tuple:
        """The trace for these types and numbers, its guard, and the maker of the functions that launch it."""
        plain = [v._array.dtype if hasattr(v, "_array") else v for v in args]
        key = (kind, *[v.__class__ if v.__class__ in (int, float) else v for v in plain])
        known = self.traces.setdefault(key, [])
        for entry in known:
            if entry[1](*args):
                return entry
        narrow = common if self.family.rounds and common in REDUCED else None
        try:
            traced = Traced(self.family.compute, plain, at, kind, narrow)
        except (TypeError, AttributeError, ValueError, OverflowError) as error:  # of a function made for arrays
            raise Untraceable from error
        known.append((traced, *self._sources(traced)))
        return known[-1]

    def _sources(self, traced: Traced) -> tuple[Callable, Callable]:
        names, family = [a.name for a in self.arguments], self.family
        given = ", ".join(names)
        numbers = {f"n{i}": names[i] for i in traced.numbers}
        guard = traced.guards
        for short, name in sorted(numbers.items(), reverse=True):
            guard = guard.replace(short, name)
        lines = [f"if not ({guard}): return general({given})"] if guard else []
        if family.check is not None and (asks := self._check_text(traced)):
            lines.append(f"if {asks}: check({given})")
        for i, letter in traced.numbers.items():
            if letter == "q":
                lines.append(f"if not -{1 << 63} <= {names[i]} < {1 << 63}: return slow({given})")
        lines += [f"a{i} = {names[i]}._array" for i in traced.loads]
        first = f"a{traced.loads[0]}"
        pointers = [f"a{i}.pointer" for i in traced.loads]
        values = ", ".join([*pointers, "pointer", *(names[i] for i in traced.numbers)])
        if self.inplace:
            target, others = names[0], [names[i] for i in traced.loads if i]
            lines += [f"if {target}._base is not None or {n}._base is not None or {target}._storage is not None: "
                      f"check_overlap({target}, {n})" for n in others]
            lines.append(f"pointer = {target}._array.pointer")
        else:
            lines += ["try: memory = source.malloc(nbytes)",
                      f"except MemoryError: memory = allocate(nbytes, {first}.device)", "pointer = memory.ptr"]
        lines += [f"code = queue(current.handle, {values})", "if code: check_code(code)"]
        if self.inplace:
            lines += [f"counter = {names[0]}._counter", f"if counter is None: {names[0]}._bump_version()",
                      "else: counter.value += 1", f"return {names[0]}"]
        else:
            lines += ["r = new(CudaArray)", "r.shape = shape", "r.dtype = dtype_", "r.strides = strides",
                      "r.layout = out_layout", "r.memory = memory", "r.pointer = pointer",
                      "made = new(Tensor)", f"made._device = r.device = {first}.device", "r._storage = r._view = None",
                      "made._array = r", f"made._keys = {CUDA_MASK}", "return made"]
        body = "\n".join("        " + line for line in lines)
        text = (f"def guard({given}): return {guard or True}\n"
                "def make(launch, out_layout, nbytes):\n"
                "    queue = launch.queue\n"
                "    shape, dtype_, strides = out_layout.shape, out_layout.dtype, out_layout.strides\n"
                f"    def {self._name}({given}):\n{body}\n"
                f"    return {self._name}\n")
        scope: dict[str, Any] = {
            "general": self.general, "slow": self.slow, "check": family.check, "check_overlap": check_overlap,
            "source": source, "allocate": allocate, "current": current,
            "check_code": check, "new": object.__new__, "CudaArray": CudaArray, "Tensor": Tensor,
            "__opname__": f"{self.operator.name} cuda launch {len(self.traces)}",
            **{f"default_{a.name}": a.default for a in self.arguments if not a.is_tensor},
        }
        return compile_function("guard", text, scope), scope["make"]

    def _check_text(self, traced: Traced) -> str:
        """When the operator's own check could raise though it did not for the first call of this plan."""
        tests = []
        for i in traced.numbers:
            a = self.arguments[i]
            if not a.is_tensor:
                tests.append(f"{a.name} is not default_{a.name}")
            elif traced.kind.kind != "f":
                return "True"
        return " or ".join(tests)


def fused(operator: Operator, family: Pointwise, slow: Callable, *, inplace: bool = False) -> Callable:
    """The kernel of a pointwise operator, generated for each kind of call at its first."""
    return Fused(operator, family, slow, inplace).kernel()
