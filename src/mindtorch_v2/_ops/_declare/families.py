"""Families of operators: what their members share of shape, type, memory and write rules.

A family gives an operator its kernels. `infer` takes the call's arguments, looks at their metadata only, raises every
argument error, and says what comes out: it is the Meta kernel. `array` computes over an array namespace `xp`.
"""

import functools
import textwrap
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..._backends.interface import (
    Backend,
    backend_for,
    host,
    parameters_of,
)
from ..._core.dtype import (
    COMPLEX,
    COMPUTE,
    FLOAT,
    INT,
    OF_ARRAY,
    REDUCED,
    WIDER,
    assign,
    bool_,
    cast,
    dtype,
    float32,
    get_default_dtype,
    of_number,
)
from ..._core.elements import is_host_array
from ..._core.offers import offered, offering, offers
from ..._core.planning import Unplannable
from ..._core.tensor import Tensor, wrap, wrap_meta
from ..._dispatch.callers import compile_function
from ..._dispatch.keys import BACKENDS, HOST_MASK, DispatchKey
from ..._dispatch.registry import Lazy, Operator, registry
from ..._dispatch.schema import NUMBERS, Argument, Schema
from .mixing import mixed_devices
from .out import CASTABLE, EXACT
from .plans import Planned, can_be_planned, checked_call, compiled_or, holds_halves, tried, twin_of
from .quick import SHARED, functional_source, inplace_source, into_source
from .rules import (
    Spec,
    broadcast_shape,
    check_operands,
    check_overlap,
    check_result_fits,
    check_writable,
    common_dtype,
    laid_out,
    may_be_written,
    number_array,
    overlaps_itself,
    pointwise_strides,
    promoted,
)

_ndarray = np.ndarray
_new = object.__new__
_MANY = 1 << 11  # elements from which on a compiled loop is worth a tensor around its result


registry.mixed_devices = mixed_devices  # type: ignore[method-assign]


# families ------------------------------------------------------------------------------------------------------------


class Family:
    """Gives an operator its kernels, one for each backend key."""

    inplace = False  # whether members have an in-place form unless they say otherwise
    is_view = False
    elementwise = False
    any_numbers = False  # whether only the elements of what a call makes depend on its numbers
    marks = False  # whether results are tensors with marks (_marked.py)
    changes_layout = False  # whether results may be of another layout, sparse or not, than the arguments
    sharded = ""  # how members run in pieces unless they say otherwise (see `Fields`)
    out = EXACT  # what members do with `out=` unless they say otherwise
    # (functional operator, target, *others) -> the others as an in-place call takes them; raises what only it refuses.
    inplace_arguments: Callable[..., tuple] | None = None

    def sharing(self, schema: Schema) -> Iterable[tuple[int, bool]]:
        """See `Declaration.sharing`: what holds of members that do not say it themselves."""
        return ()

    def array_call(self, operator: Operator, args: Sequence[Any], made: Any) -> tuple[Callable, Sequence[int]] | None:
        """How a plan computes this call over arrays: a function, and the positions of the arguments that it takes.

        The arguments, and what they make, are twins (plans.py). None where the kernel has to run.
        """
        return None

    def kernel_for(self, operator: Operator, twins: tuple) -> Callable:
        """What a plan calls with tensors that lie as these twins."""
        return operator.lookup(HOST_MASK)

    @property
    def written(self) -> FunctionType | None:
        """The function that the operator was declared with: what it computes, composes, stores or views."""
        given = (getattr(self, name, None) for name in ("function", "array", "compute", "write", "geometry"))
        return next((function for function in given if isinstance(function, FunctionType)), None)

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        return {key: Lazy(functools.partial(_kernel_on, key, operator)) for key in BACKENDS}

    def inplace_kernels(self, operator: Operator, functional: Operator) -> dict[DispatchKey, Any]:
        return {key: Lazy(functools.partial(_inplace_kernel_on, key, operator, functional)) for key in BACKENDS}

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        """The kernel on a device that has an array namespace."""
        raise NotImplementedError(f"{operator.name} has no kernel for device type '{backend.type}'")

    def into_kernel(self, operator: Operator, backend: Backend) -> Callable | None:
        """The kernel that is given what to write to before its arguments; None if a result has to be copied there.

        It writes and returns it, or returns None and did nothing. It is asked on the CPU, for a plain tensor (out.py).
        """
        return None

    def described(self, operator: Operator) -> Callable:
        """The kernel that says what comes out and computes nothing: Meta's."""
        raise NotImplementedError

    def inplace_kernel(self, operator: Operator, functional: Operator, backend: Backend) -> Callable:
        """The kernel of the in-place form: the functional one, and one write path."""

        def kernel(target: Tensor, *args: Any) -> Tensor:
            result = functional.lookup(target._backend_mask())(target, *args)
            check_writable(target)
            check_operands(functional, target, (target, *args))
            check_result_fits(target, Spec(result._array.shape, result.dtype))
            if target._array.size:
                backend.copy(target, result)
            target._bump_version()
            return target

        return kernel


def nothing_written(*args: Any) -> None:
    """What stands for a kernel that is given its target where there is none."""


def _kernel_on(key: DispatchKey, operator: Operator) -> Callable:
    return backend_for(key).kernel(operator)


def _inplace_kernel_on(key: DispatchKey, operator: Operator, functional: Operator) -> Callable:
    kernel = backend_for(key).inplace_kernel(operator, functional)
    prepared = functional.declaration.family.inplace_arguments
    if prepared is None:
        return kernel
    return lambda target, *args: kernel(target, *prepared(functional, target, *args))


def _taken(backend: Backend, array: str) -> str:
    """The expression of an array as array functions get it; `array` is that of a tensor's own, of its name."""
    return array if backend.shared is None else f"(shared({array}) if {array}.size >= {SHARED} else {array})".replace(
        "{}", "{0}")


def sharing(function: Callable) -> Callable:
    """An array function that gets large arrays as `Backend.shared` gives them."""
    shared = host().shared

    def shares(*args: Any) -> Any:
        return np.asarray(function(*[shared(a) if getattr(a, "size", 0) >= SHARED else a for a in args]))

    return shares


class ArrayFamily(Family):
    """An `infer` and an `array` function; the two are all there is to such an operator.

    With `widen`, arrays of half precision reach `array` as float32, as PyTorch computes them. `array` may ask for the
    inferred result with a keyword parameter `spec`. With `rearranges`, it puts elements in other places, which follow
    from layouts and numbers alone.
    """

    only_arrays = False  # whether a kernel that a subclass makes on the CPU is no more than `infer` and `array`, too

    def __init__(self, infer: Callable, array: Callable, *, widen: bool, inplace: bool = False,
                 widened: Callable | None = None, rearranges: bool = False) -> None:
        self.infer, self.array, self.widen, self.inplace = infer, array, widen, inplace
        self.rearranges = rearranges
        self.widened = widened or _widened

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        schema = operator.schema
        names = ", ".join(schema.names)
        taken = _taken(backend, "{}._array") if backend.direct else "array_of({}, where)"
        call, scope = self._array_expression(operator, backend, taken, widen=self.widen)
        place, where = ("", "") if backend.direct else (f"    where = place(None, ({names},))\n", ", where")
        body = finishing(schema, call, f"finished({{}}, {{}}{where})")
        general = f"    spec = infer({names})\n{place}{body}"
        scope |= {"infer": self.infer, "finished": backend.finished, "result_of": result_of, "place": backend.place,
                  "gathered": operator.declaration.result_type, "array_of": backend.array_of,
                  "__opname__": f"{operator.name} {backend.type}"}
        if not backend.direct or not can_be_planned(operator):
            return compile_function(schema.base_name, f"def {schema.base_name}({names}):\n{general}", scope)

        @functools.cache
        def prepare(halves: bool, rearranged: bool) -> Callable:
            call, own = self._array_expression(operator, backend, taken, widen=halves, prepared=True,
                                               rearranged=rearranged)
            return _prepared(schema, call, "finished", {**scope, **own, "__opname__": f"{operator.name} prepared"})

        def make(args: tuple) -> Callable:
            twins = twin_of(args)
            spec, launches = tried(self.infer, *twins), self.launches(operator, twins)
            return prepare(self._widens(twins), launches is not None)(spec, launches)

        operator.plans = Planned(operator, make, 2, general, scope)
        return operator.plans.kernel()

    def _widens(self, twins: Any) -> bool:
        """Whether arrays of these layouts have to be brought to another type first."""
        return self.widen and (self.widened is not _widened or holds_halves(twins))

    def array_call(self, operator: Operator, args: Sequence[Any], made: Any) -> tuple[Callable, Sequence[int]] | None:
        launches = self.launches(operator, args)
        if type(self).kernel is not ArrayFamily.kernel and not self.only_arrays and launches is None:
            return None
        return self._prepared_array(operator, args, launches), range(len(args))

    def launches(self, operator: Operator, twins: Sequence[Any]) -> Any:
        """See `Backend.rearranging`."""
        if not self.rearranges:
            return None
        given = [[each._array for each in twin] if twin.__class__ is tuple and a.is_tensor else
                 getattr(twin, "_array", twin) for a, twin in zip(operator.schema.arguments, twins, strict=True)]
        return host().rearranging(self._prepared_array(operator, twins, None), given)

    def _prepared_array(self, operator: Operator, twins: Sequence[Any], launches: Any) -> Callable:
        """What computes over arrays of these layouts."""
        call, scope = self._array_expression(operator, host(), _taken(host(), "{}"), widen=self._widens(twins),
                                             prepared=True, rearranged=launches is not None)
        scope |= {"finished": finished_array, "result_of": lambda _, arrays: arrays,
                  "gathered": lambda *arrays: arrays, "__opname__": f"{operator.name} prepared"}
        return _prepared(operator.schema, call, "array", scope)(tried(self.infer, *twins), launches)

    def _array_expression(self, operator: Operator, backend: Backend, taken: str, *, widen: bool,
                          prepared: bool = False, rearranged: bool = False) -> tuple[str, dict[str, Any]]:
        """The call of the array function, and the names in it; `taken` is how the array of a tensor is taken.

        If `prepared`, it is for one layout, and `own` may be a list of one function that may become a quicker one:
        if `rearranged`, that of `launches`.
        """
        schema = operator.schema
        array = backend.array_function(operator, self.array)
        take = f"widened({taken})" if widen and not getattr(array, "takes_halves", False) else taken
        passed = []
        for a in schema.arguments:
            one = take.format(a.name)
            if not a.is_tensor:
                passed.append(a.name)
            elif a.is_list:
                each = f"[None if t is None else {take.format('t')} for t in {a.name}]"
                passed.append(f"None if {a.name} is None else {each}" if a.optional else each)
            elif a.type == "Tensor|Scalar":
                absent = f"{a.name} is None or " if a.optional else ""
                passed.append(f"{a.name} if {absent}{a.name}.__class__ in NUMBERS else {one}")
            else:
                passed.append(f"None if {a.name} is None else {one}" if a.optional else one)
        own = getattr(array, "own", None)
        wants_spec = own is not None and "spec" in parameters_of(own)
        quick = f"own({', '.join([*passed, 'spec=spec'] if wants_spec else passed)})"
        repeated = getattr(own, "repeated", None) if prepared else None
        if repeated is not None or rearranged:
            quick = f"own[0]({', '.join(passed)})"
        if "spec" in parameters_of(array):
            passed.append("spec=spec")
        if "operator" in parameters_of(array):
            passed.append("operator=operator")
        call = f"array(xp, {', '.join(passed)})"
        if rearranged:
            call = f"(_made if (_made := {quick}) is not None else {call})"
        elif own is not None and take == taken:
            call = f"(_made if (_made := {quick}) is not None else {call})"
            array = array.otherwise  # type: ignore[attr-defined]
        return call, {
            "array": array, "own": own, "xp": backend.array_xp, "NUMBERS": NUMBERS, "operator": operator,
            "repeated": (lambda spec, launches: launches) if rearranged else None if repeated is None else
            (lambda spec, launches: repeated(spec if wants_spec else None)),
            "widened": functools.partial(self.widened, backend), "shared": backend.shared,
        }

    def inplace_kernel(self, operator: Operator, functional: Operator, backend: Backend) -> Callable:
        general, infer = super().inplace_kernel(operator, functional, backend), self.infer
        own: Any = getattr(backend.array_function(functional, self.array), "own", None)
        overwrites = getattr(own, "overwrites", None)
        if not backend.direct or overwrites is None:
            return general
        takes_spec, halves = "spec" in parameters_of(own), getattr(own, "takes_halves", not self.widen)

        def kernel(target: Tensor, *args: Any) -> Tensor:
            array = target._array
            arrays = [getattr(value, "_array", value) for value in args]
            shared = any([is_host_array(value) and np.may_share_memory(array, value) for value in arrays])
            plain = array.flags.carray and array.size and (halves or array.dtype not in WIDER)
            if plain and not shared and overwrites(array, *arrays):
                spec = infer(target, *args)
                check_operands(functional, target, (target, *args))
                if spec.shape == array.shape and spec.dtype.np == array.dtype:
                    made = offering(array, own, array, *arrays, **({"spec": spec} if takes_spec else {}))
                    if made is array:
                        target._bump_version()
                        return target
            return general(target, *args)

        return kernel

    def described(self, operator: Operator) -> Callable:
        infer = self.infer

        def kernel(*args: Any) -> Any:
            spec = infer(*args)
            return meta_of(spec) if spec.__class__ is Spec else result_of(operator, map(_meta_wanted, spec))

        return kernel


def computes(infer: Callable, array: Callable, *, inplace: bool = False,
             widened: Callable | None = None) -> ArrayFamily:
    """An operator that does arithmetic: half precision in float32, unless `widened(backend, array)` leaves it."""
    return ArrayFamily(infer, array, widen=True, inplace=inplace, widened=widened)


def moves(infer: Callable, array: Callable, *, inplace: bool = False, rearranges: bool = False) -> ArrayFamily:
    """An operator that only moves or compares elements: any type as it is."""
    return ArrayFamily(infer, array, widen=False, inplace=inplace, rearranges=rearranges)


def finished_array(array: Any, spec: Spec) -> np.ndarray:
    """What an array function made, as an ndarray of the type that was inferred."""
    array, kind = np.asarray(array), spec.dtype.np
    return array if array.dtype is kind or array.dtype == kind else cast(array, kind)


def finishing(schema: Schema, call: str, finished: str) -> str:
    """Lines that return what a call of an array function made, each result `finished` as the spec says."""
    count = len(schema.returns)
    if any(r.is_list for r in schema.returns):
        each = f"None if s is None else {finished.format('m', 's')} for m, s in zip(_arrays, spec, strict=True)"
        return f"    _arrays = {call}\n    return result_of(operator, [{each}])\n"
    if count == 1:
        return f"    return {finished.format(call, 'spec')}\n"
    made, specs = ([f"{letter}{i}" for i in range(count)] for letter in "ms")
    parts = [f"None if {s} is None else {finished.format(m, s)}" for m, s in zip(made, specs, strict=True)]
    return f"    {', '.join(specs)} = spec\n    {', '.join(made)} = {call}\n    return gathered({', '.join(parts)})\n"


def _prepared(schema: Schema, call: str, kind: str, scope: dict[str, Any]) -> Callable:
    """The function that gives, for a spec, the call that has it; its result is a tensor, or of kind "array"."""
    name, names = schema.base_name, ", ".join(schema.names)
    if len(schema.returns) > 1 or schema.returns[0].is_list:
        body = textwrap.indent(finishing(schema, call, "finished({}, {})"), "    ")
    else:
        wrapped = "        _tensor = new(Tensor)\n        _tensor._array = _made\n        return _tensor\n"
        body = (f"        _made = {call}\n"
                "        if _made.__class__ is not ndarray or _made.dtype is not _kind: return finished(_made, spec)\n"
                + ("        return _made\n" if kind == "array" else wrapped))
    own = "    own = repeated(spec, launches)\n" if scope.get("repeated") else ""
    source = (f"def prepared(spec, launches):\n    _kind = getattr(getattr(spec, 'dtype', None), 'np', None)\n{own}"
              f"    def {name}({names}):\n{body}    return {name}\n")
    return compile_function("prepared", source, {**scope, "ndarray": _ndarray, "new": _new, "Tensor": Tensor})


def planning_launches(operator: Operator, backend: Backend, infer: Callable, launches: Callable, refused: Callable,
                      own: Callable | None = None) -> Callable:
    """The kernel whose plans call the function in the list that `launches(twins, spec)` gives.

    Where that gives None, `refused` makes the call. It makes those without a plan, too, unless they are `own`'s.
    """
    schema, names = operator.schema, ", ".join(operator.schema.names)
    taken = ", ".join([f"[t._array for t in {a.name}]" if a.is_tensor and a.is_list else
                       f"getattr({a.name}, '_array', {a.name})" if a.is_tensor else a.name for a in schema.arguments])
    finish = textwrap.indent(finishing(schema, "_made", "finished({}, {})"), "    ")
    source = (f"def with_spec(spec, own):\n    def {schema.base_name}({names}):\n        _made = own[0]({taken})\n"
              f"        if _made is None: return refused({names})\n{finish}    return {schema.base_name}\n")
    scope = {"refused": refused, "finished": backend.finished, "result_of": result_of, "operator": operator,
             "gathered": operator.declaration.result_type, "__opname__": f"{operator.name} prepared"}
    with_spec = compile_function("with_spec", source, scope)

    def attempted(*args: Any) -> Any:
        spec = infer(*args)
        return with_spec(spec, [functools.partial(own, spec=spec)])(*args)  # type: ignore[arg-type, misc]

    def make(args: tuple) -> Callable:
        twins = twin_of(args)
        spec = tried(infer, *twins)
        found = launches(twins, spec)
        if found is None:
            raise Unplannable
        return with_spec(spec, found)

    general = refused if own is None else attempted
    if not can_be_planned(operator):
        return general
    operator.plans = Planned(operator, make, 2, f"    return general({names})\n", {"general": general})
    return operator.plans.kernel(forwards=True)


def _widened(backend: Backend, array: Any) -> Any:
    wide = WIDER.get(array.dtype)
    return array if wide is None else backend.cast(array, wide)


def meta_of(spec: Spec) -> Tensor:
    strides = spec.strides
    if strides is not None:
        strides = tuple(s * spec.dtype.itemsize for s in strides)
    return wrap_meta(spec.shape, spec.dtype.np, strides)


def _meta_wanted(spec: Spec | None) -> Tensor | None:
    return None if spec is None else meta_of(spec)


def result_of(operator: Operator, tensors: Any) -> Any:
    """Several outputs as the operator's named tuple, or a list where the schema says so."""
    kind = operator.declaration.result_type
    return list(tensors) if kind is None else kind(*tensors)


@functools.cache
def operand_positions(schema: Schema) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(schema.arguments) if a.is_tensor)


# What NumPy computes of complex numbers part by part, with nothing that PyTorch does otherwise.
_BY_PARTS = frozenset(("add", "conjugate", "negative", "subtract"))


class Pointwise(Family):
    """Elementwise over broadcast operands; `compute(xp, *arguments)` sees them in one type.

    `result` says in which type is computed and which comes out, given the operands' common type. `ufunc` names the
    NumPy function that the operator is when every other argument has its default. `excluding` lists categories PyTorch
    refuses, with `named` in the text where that is not the operator's own name. A number beside tensors of half
    precision is rounded to it, as there, unless `rounds_numbers` is false.
    """

    inplace = elementwise = any_numbers = True
    sharded = "pointwise"
    out = CASTABLE
    wraps_numbers = True  # a number counts as an operand without dimensions where the result's layout is found
    only_checks = False  # whether a subclass with a kernel of its own computes what `compute` does, and checks numbers

    def __init__(self, compute: "str | Callable", result: Callable = promoted, *, ufunc: str | None = None,
                 excluding: Sequence[int] = (), check: Callable | None = None, named: str | None = None,
                 rounds_numbers: bool = True) -> None:
        self.rounds_numbers = rounds_numbers
        self.result, self.excluding, self.check, self.named = result, frozenset(excluding), check, named
        self.ufunc = compute if isinstance(compute, str) else ufunc
        self.compute: Callable = compute if callable(compute) else (lambda xp, *args: getattr(xp, compute)(*args))
        # Then `compute` gets, for half precision, what rounds to it, its `kind`: PyTorch rounds between steps of a few.
        self.rounds = hasattr(self.compute, "__code__") and "rounded" in parameters_of(self.compute)
        self.known_types: dict[tuple, tuple[dtype, dtype]] = {}

    def sharing(self, schema: Schema) -> Iterable[tuple[int, bool]]:
        return [(at, True) for at in operand_positions(schema)]

    def plan(
        self, operator: Operator, args: Sequence[Any], target: Tensor | None = None
    ) -> tuple[Spec, dtype, list[int]]:
        """The result's spec, the type to compute in, and the positions of the operands; it must fit the `target`."""
        if self.check is not None:
            self.check(*args)
        at = [i for i in operand_positions(operator.schema) if args[i] is not None]
        operands = [args[i] for i in at]
        shapes = [t._array.shape for t in operands if t.__class__ not in NUMBERS]
        if not shapes:
            given = ", ".join(type(number).__name__ for number in operands)
            raise TypeError(f"{operator.schema.base_name}() received an invalid combination of arguments - got "
                            f"({given}), but expected a Tensor among them")
        shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else broadcast_shape(shapes)
        if target is not None:
            check_result_fits(target, Spec(shape, self.result(common_dtype(operands))[1]))
        compute, out = self.types(operator, operands)
        return Spec(shape, out, None), compute, at

    def lying(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The operands that the result's layout follows from."""
        return operands if self.wraps_numbers else [v for v in operands if v.__class__ not in NUMBERS]

    def types(self, operator: Operator, operands: Sequence[Any]) -> tuple[dtype, dtype]:
        """The type to compute in and the one that comes out, remembered for each combination of operands."""
        key = (get_default_dtype(), *[of_number(v) if v.__class__ in NUMBERS else (v._array.dtype, v._array.ndim == 0)
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

    def computed(self, backend: Backend, compute: Callable, args: Sequence[Any], kind: dtype, at: Sequence[int],
                 where: Any) -> Any:
        """The array that `compute` gives for these arguments, the operands among them cast to `kind`."""
        values, wide = list(args), kind.np
        narrow = wide
        if any(args[i].__class__ not in NUMBERS and args[i]._array.dtype in REDUCED for i in at):
            narrow = common_dtype([args[i] for i in at]).np
        halves = narrow in REDUCED
        for i in at:
            value = values[i]
            if value.__class__ in NUMBERS:
                array = number_array(value, kind)
                if halves and self.rounds_numbers:
                    array = cast(cast(np.asarray(array), narrow), wide)
                values[i] = array if backend.direct else np.asarray(array)[()]
            else:
                array = backend.array_of(value, where)
                if halves and not array.ndim and self.rounds_numbers and array.dtype != narrow:
                    array = backend.cast(array, narrow)
                array = array if array.dtype == wide else backend.cast(array, wide)
                values[i] = array if backend.shared is None else backend.shared(array)
        if self.rounds and halves:
            def rounded(array: Any) -> Any:
                return array.astype(narrow).astype(wide)

            rounded.kind = narrow  # type: ignore[attr-defined]
            return compute(backend.array_xp, *values, rounded=rounded)
        return compute(backend.array_xp, *values)

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        compute = backend.array_function(operator, self.compute)

        def general(*args: Any) -> Tensor:
            spec, kind, at = self.plan(operator, args)
            where = backend.place(None, args)
            array = self.computed(backend, compute, args, kind, at, where)
            operands = self.lying([args[i] for i in at])
            if not backend.direct:
                spec = spec._replace(strides=pointwise_strides(spec.shape, operands))
            if array.shape != spec.shape:  # an operand that only tells the shape
                array = backend.xp.broadcast_to(array, spec.shape).copy()
            elif backend.direct and array.ndim > 1:
                array = laid_out(array, operands)
            return backend.finished(array, spec, where)

        return self._quick(operator, general, compute, backend, inplace=False) if backend.direct else general

    def _quick(self, operator: Operator, general: Callable, compute: Callable, backend: Backend, *,
               inplace: bool) -> Callable:
        """A kernel for operands of one plain type straight into the array function, else `general`."""
        arguments = operator.schema.arguments
        leading = self._leads(arguments)
        if any(a.is_list for a in arguments if a.is_tensor):
            return general
        # NumPy 2.4 negates a strided array of 4-byte elements wrongly if it writes into the same array.
        is_ufunc = self.ufunc is not None and not (inplace and self.ufunc == "negative")
        name, checked = operator.schema.base_name, self.check is not None
        compiled = backend.compiled_pointwise(operator, self, "inplace" if inplace else "new")
        if not leading and compiled is None:
            return general
        if inplace:
            source = inplace_source(name, arguments, is_ufunc=is_ufunc, checked=checked, compiled=compiled is not None,
                                    leading=leading, shares=backend.shared is not None)
        else:
            source = functional_source(name, arguments, is_ufunc=is_ufunc, boolean=self._tells(),
                                       checked=checked, compiled=compiled is not None, leading=leading,
                                       shares=backend.shared is not None)
        taking = None if inplace else functools.partial(self._taking, operator, backend)
        scope = self._scope(operator, compute, backend, compiled, general=general, offers=offers, taking=taking)
        return compile_function(name, source, scope)

    def _taking(self, operator: Operator, backend: Backend, *args: Any) -> Tensor | None:
        """The result in memory that was offered for one, as in the last step of a composite; None if it cannot be."""
        if operator.into is None:
            operator.into = self.into_kernel(operator, backend) or nothing_written
        room = offered()
        for at, array in enumerate(room):
            made = wrap(array)
            if operator.into(made, *args) is not None:
                del room[at]
                made._counter = None  # that it was written is not seen
                return made
        return None

    def into_kernel(self, operator: Operator, backend: Backend) -> Callable | None:
        arguments = operator.schema.arguments
        if not backend.direct or type(self).kernel is not Pointwise.kernel and not self.only_checks or any(
                a.is_list for a in arguments if a.is_tensor):
            return None
        compiled = backend.compiled_pointwise(operator, self, "into")
        # What computes in another way than its NumPy function says so by a kernel or a `computed` of its own.
        ufunc = self.ufunc if self._leads(arguments) and type(self).computed is Pointwise.computed else None
        if compiled is None and ufunc is None:
            return None
        name = operator.schema.base_name
        source = into_source(name, arguments, ufunc=ufunc, boolean=self._tells(), checked=self.check is not None,
                             compiled=compiled is not None, shares=backend.shared is not None)
        scope = self._scope(operator, self.compute, backend, compiled, __opname__=f"{operator.name} out")
        return compile_function(name, source, scope)

    def _leads(self, arguments: Sequence[Argument]) -> bool:
        """Whether the operands are the first arguments, all of them always there."""
        operands = [a for a in arguments if a.is_tensor]
        return operands == list(arguments[:3])[: len(operands)] and not any(a.optional for a in operands)

    def _tells(self) -> bool:
        """Whether results are truth values."""
        return self.result(float32)[1] is bool_

    def _scope(self, operator: Operator, compute: Callable, backend: Backend, compiled: Any,
               **own: Any) -> dict[str, Any]:
        """What a generated kernel knows; machine code is put there when it is ready."""
        arguments = operator.schema.arguments
        plain = {d.np for d in OF_ARRAY.values() if self.is_plain(d)}
        scope: dict[str, Any] = {
            "plain": frozenset(plain), "usual": float32.np if float32.np in plain else None,
            "NUMBERS": NUMBERS, "REAL": frozenset((int, float)),
            "shared": backend.shared,
            "ndarray": _ndarray,
            "boolean": bool_.np,
            "may_be_written": may_be_written,
            "asarray": np.asarray,
            "new": _new,
            "Tensor": Tensor,
            "plan": self.plan,
            "operator": operator,
            "xp": backend.array_xp,
            "copyto": np.copyto,
            "wrap": wrap,
            "ufunc": getattr(backend.xp, self.ufunc) if self.ufunc else None,
            "compute": compute,
            "check_overlap": check_overlap,
            "check": self.check,
            "check_writable": check_writable,
            "overlaps_itself": overlaps_itself,
            "laid_out": laid_out if self.wraps_numbers else lambda made, given: laid_out(made, self.lying(given)),
            "__opname__": f"{operator.name} cpu",
            **{f"default_{a.name}": a.default for a in arguments if not a.is_tensor},
            **own,
        }
        if compiled is not None:
            scope |= dict.fromkeys(("fast", "spread", "find"), compiled.no_code) | {"more": compiled.more}
            compiled.scope = scope
        return scope

    def is_plain(self, kind: dtype) -> bool:
        """Whether operands of this type are computed in it, and give it back or a bool, with nothing to refuse."""
        if kind.category in self.excluding or kind in COMPUTE or kind.category < INT:
            return False
        if kind.category == COMPLEX and self.ufunc not in _BY_PARTS:
            return False
        compute, out = self.result(kind)
        return compute is kind and (out is kind or out is bool_)

    def described(self, operator: Operator) -> Callable:
        def kernel(*args: Any) -> Tensor:
            spec, _, at = self.plan(operator, args)
            operands = self.lying([args[i] for i in at])
            return meta_of(spec._replace(strides=pointwise_strides(spec.shape, operands)))

        return kernel

    def array_call(self, operator: Operator, args: Sequence[Any], made: Any) -> tuple[Callable, Sequence[int]] | None:
        """The array function for operands of one plain type, if its result lies as PyTorch's."""
        others = [(a, v) for a, v in zip(operator.schema.arguments, args, strict=True) if not a.is_tensor]
        operands = [args[i] for i in operand_positions(operator.schema)]
        kinds = {t.dtype for t in operands if isinstance(t, Tensor)}
        numbers = [t for t in operands if not isinstance(t, Tensor)]
        own = type(self)
        if made._array.size >= _MANY and host().compiled_pointwise(operator, self) is not None:
            return None  # the kernel is compiled, and runs on all cores
        if len(kinds) != 1 or (own.kernel, own.computed) != (Pointwise.kernel, Pointwise.computed):
            return None
        kind = kinds.pop()
        if not self.is_plain(kind) or any(n.__class__ not in (int, float) or kind.category != FLOAT for n in numbers):
            return None
        at: Sequence[int] = range(len(args))
        function: Callable = functools.partial(self.compute, host().array_xp)
        if self.ufunc is not None and all(value is a.default for a, value in others):
            function, at = getattr(np, self.ufunc, function), operand_positions(operator.schema)
        if made._array.size >= SHARED and host().shared is not None:
            function = sharing(function)
        found = checked_call(function, at, args, made)
        return found and (compiled_or(operator, *found) or found)

    def check_write(self, operator: Operator, target: Tensor, args: Sequence[Any]) -> None:
        """Raises what comes before the checks of memory that all writes have; `args` are the other arguments."""
        if self.check is not None:
            self.check(target, *args)

    def inplace_kernel(self, operator: Operator, functional: Operator, backend: Backend) -> Callable:
        general = self.general_inplace_kernel(functional, backend)
        if not backend.direct:
            return general
        compute = backend.array_function(functional, self.compute)
        return self._quick(functional, general, compute, backend, inplace=True)

    def general_inplace_kernel(self, functional: Operator, backend: Backend) -> Callable:
        """The in-place kernel of operands of any types, which looks at everything."""
        compute = backend.array_function(functional, self.compute)

        def general(target: Tensor, *args: Any) -> Tensor:
            self.check_write(functional, target, args)
            check_writable(target)
            for value in args:
                if hasattr(value, "_array"):
                    check_overlap(target, value)
            spec, kind, at = self.plan(functional, (target, *args), target)
            check_result_fits(target, spec)
            if backend.direct:
                for row in _rows_in_turn(target, args, at):
                    assign(row[0]._array, self.computed(backend, compute, row, kind, at, None))
            elif backend.xp is not None and target._array.size:
                where = target._device
                made = self.computed(backend, compute, (target, *args), kind, at, where)
                backend.copy(target, backend.finished(made, Spec(made.shape, spec.dtype), where))
            target._bump_version()
            return target

        return general


pointwise = Pointwise


def blockwise(compute: Callable) -> Callable:
    """`compute(xp, *arguments)`, which works on each element alone, in blocks where that keeps its steps in cache."""

    @functools.wraps(compute)
    def in_blocks(xp: Any, *arguments: Any) -> Any:
        return xp.in_blocks(compute, *arguments)

    return in_blocks


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


class Writes(Family):
    """An operator that is a write by nature (fill_, copy_): `write(xp, *arguments)` stores into its first array.

    With `repeats`, all elements get the same value, so that they may share memory (an expanded tensor).
    """

    def __init__(self, check: Callable, write: Callable, *, repeats: bool = False) -> None:
        self.check, self.write, self.repeats = check, write, repeats

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        check, repeats, xp, array_of, direct = self.check, self.repeats, backend.xp, backend.array_of, backend.direct
        write = backend.array_function(operator, self.write)
        if direct and not any(a.is_tensor for a in operator.schema.arguments[1:]):
            return self._kernel_of_numbers(write, xp)

        def kernel(target: Tensor, *args: Any) -> Tensor:
            check(target, *args)
            if not repeats:
                check_writable(target)
            if direct:
                write(xp, target._array, *[getattr(a, "_array", a) for a in args])
            elif xp is not None:
                where = target._device
                write(xp, array_of(target), *[array_of(a, where) if hasattr(a, "_array") else a for a in args])
            target._bump_version()
            return target

        return kernel

    def _kernel_of_numbers(self, write: Callable, xp: Any) -> Callable:
        """The same where the first argument is the only tensor."""
        check, repeats = self.check, self.repeats

        def kernel(target: Tensor, *args: Any) -> Tensor:
            check(target, *args)
            if not repeats:
                check_writable(target)
            write(xp, target._array, *args)
            target._bump_version()
            return target

        return kernel

    def described(self, operator: Operator) -> Callable:
        return self.kernel(operator, Backend())


writes = Writes
