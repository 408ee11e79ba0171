"""Plans: what a call does once the layouts of its arrays are known, remembered for the next call with the same ones.

The Python that leads from a call to array functions (checks, result types, shapes, the parts of composites) looks at
metadata only, so for arguments of one layout it comes out the same each time. A kernel that is `Planned` looks its call
up by shapes, strides, types and the other arguments. After a few calls with one key, the family says what is left to
do, and that is run from then on.

A composite is recorded: its function runs once on `Twin`s, tensors with a geometry and no memory, and the operators it
calls are written down. Whatever looks at an element or a storage, or warns, raises Unplannable, and then calls with
that key go the general way for good. But where the truth of a tensor decides how it goes on, as in checks of values, a
plan is for the outcome that there was, and goes the general way if there is another. It is used only after it gave the
same result as the general way once.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._backends.interface import host
from ..._core import planning
from ..._core.computed import computed_once
from ..._core.device import CPU, META
from ..._core.dtype import WIDER
from ..._core.elements import is_host_array
from ..._core.offers import withdraw
from ..._core.planning import Unplannable, planners
from ..._core.settled import is_settled
from ..._core.tensor import Tensor, _disabled_torch_function_impl, wrap_meta
from ..._dispatch.callers import compile_function
from ..._dispatch.keys import (
    DESCRIBED,
    DESCRIBED_MASK,
    DUAL_MASK,
    HOST_MASK,
    PLAN_MASK,
    REQUIRES_GRAD,
    UNRECORDED_MASKS,
    USUAL_MASKS,
    VIEW_MASK,
    DispatchKey,
    changed_modes,
    modes,
    unusual,
)
from ..._dispatch.registry import Operator, PerOperator, registry
from ..._dispatch.schema import NUMBERS, Argument
from .batch import draws

_new = object.__new__
_MOST = 256  # keys of an operator; one that is seldom called with the same layouts twice begins anew
_FAILURES = 8  # so many more keys without a plan than with one, and an operator is watched no more
_PLAIN_MASKS = (USUAL_MASKS, UNRECORDED_MASKS)
_WAKING = REQUIRES_GRAD | DUAL_MASK


# looking a call up ---------------------------------------------------------------------------------------------------


def signed_zero(value: Any) -> Any:
    """What stands in a key for a value that is false: 0.0 and -0.0 are equal, but not the same."""
    return math.copysign(5e-324, value) if value.__class__ is float else value


_LAYOUT = "{0}._array.shape, {0}._array.strides, {0}._array.dtype"


def key_part(argument: Argument) -> str:
    """The expression of what a plan depends on in one argument."""
    name = argument.name
    absent = f"None if {name} is None else " * argument.optional
    if argument.is_tensor and argument.is_list:
        gap = "None if t is None else " * argument.gaps
        return f"{absent}(*[{gap}({_LAYOUT.format('t')}) for t in {name}],)"
    if argument.type == "Tensor|Scalar":
        return (
            f"{absent}({name}.__class__, {name} or _zero({name})) if {name}.__class__ in NUMBERS else "
            f"({_LAYOUT.format(name)})"
        )
    if argument.is_tensor:
        return f"{absent}({_LAYOUT.format(name)})" if argument.optional else _LAYOUT.format(name)
    if argument.is_list and argument.type in ("Scalar", "float"):
        return f"repr({name})"
    if argument.type == "Device":  # whose hash is a call
        return f"{name} and {name}.type, {name} and {name}.index"
    if argument.type == "Scalar":
        return f"{name}.__class__, {name} or _zero({name})"
    if argument.type == "Generator":
        return f"{name} is None"
    return f"{absent}({name} or _zero({name}))" if argument.type == "float" else name


def can_be_planned(operator: Operator, *, drawing: bool = False) -> bool:
    """Whether a key can say all that a call depends on; `drawing` if plans are given the generator, and draw anew."""
    arguments = operator.schema.arguments
    known = not any(a.writes or a.type == "Any" or a.type == "Generator" and not drawing for a in arguments)
    return known and any(a.is_tensor for a in arguments)


def _is_plain(tensor: Any) -> bool:
    """Whether an operand is a CPU tensor that nothing records, nor its base; or a number, or none."""
    if tensor is None or tensor.__class__ in NUMBERS:
        return True
    return not tensor._keys & ~(HOST_MASK | VIEW_MASK) and (tensor._base is None or not tensor._base._keys & _WAKING)


def _absent(argument: Argument) -> list[str]:
    """The conditions on which an argument is no tensor."""
    name = argument.name
    numbers = [f"{name}.__class__ in NUMBERS"] if argument.type == "Tensor|Scalar" else []
    return [f"{name} is None"] * argument.optional + numbers


def _keys_of(argument: Argument) -> str:
    """The expression of the keys of one tensor."""
    absent = " or ".join(_absent(argument))
    return f"(0 if {absent} else {argument.name}._keys)" if absent else f"{argument.name}._keys"


def _plainness(argument: Argument) -> str:
    """The expression that says the same as `_is_plain` of an argument, without a call for one tensor."""
    name = argument.name
    if argument.is_list:
        return f"all(map(_is_plain, {name} or ()))"
    base = f"({name}._base is None or not {name}._base._keys & {_WAKING})"
    return f"({' or '.join([*_absent(argument), f'not {name}._keys & {~(HOST_MASK | VIEW_MASK)} and {base}'])})"


class Trivial(Unplannable):
    """There is nothing to plan: an argument comes back, and looking for a plan would take longer."""


class Planned:
    """Kernels that look for a plan; `make(args)` gives one, or raises Unplannable. So many `calls` go before.

    `general` is the lines of a function that are run where there is none, with the names in `scope`. Frames that they
    would not have without plans belong to this module, so that levels in the stack are counted without them.

    Where there is a compiler, compiled code finds plans that were used before (`found`), in less time than a tuple of
    shapes and strides takes. The operator's public functions ask it, too, once kernels have nothing to add (`ahead`);
    a plan may have another form for these.
    """

    def __init__(
        self, operator: Operator, make: Callable[[tuple], Callable], calls: int, general: str, scope: dict[str, Any]
    ) -> None:
        self.operator, self.make, self.calls, self.general, self.scope = operator, make, calls, general, scope
        self.plans: dict[tuple, Callable] = {}
        self.seen: dict[tuple, int] = {}  # how often there was a key without a plan
        self.found: dict[bytes, Callable] = {}
        self.ahead: dict[bytes, Callable] = {}
        planning.plans += (self.plans, self.seen, self.found, self.ahead)
        self.failures = 0  # less what succeeded
        self.kernels: list[Any] = []
        self.lookups = host().lookups
        self.waiting = self.lookups is not None

    def kernel(self, *, forwards: bool = False) -> Callable:
        """The kernel of a family that looks at arguments only; `forwards` if its general way is another function."""
        own = {"__name__": __name__} if forwards else {}
        return self._kernel(self._looking_up(), {"__opname__": f"{self.operator.name} cpu", **own})

    def kernel_of_parts(self, mask: int) -> Callable:
        """The kernel of a composite for calls with these keys: what modes or recording change is not planned."""
        tensors = [a for a in self.operator.schema.arguments if a.is_tensor]
        each, usual = list(map(_plainness, tensors)), "not _unusual.threads or _modes.masks in _MASKS"
        plain = f"({' and '.join(each)})"
        if not mask & VIEW_MASK and not any(a.is_list for a in tensors):  # mostly they have no key but the CPU's
            plain = f"(not ({' | '.join(map(_keys_of, tensors))}) & {~HOST_MASK} or {plain})"
        condition = f"({usual}) and {plain}" if mask & VIEW_MASK else f"{usual} and {plain}"
        lines = [f"if {condition}:", *("    " + line for line in self._looking_up())]
        made: Any = self._kernel(lines, {"__opname__": f"{self.operator.name} planned", "__name__": __name__})
        made.without_plans = self.scope["general"]
        return made

    def _looking_up(self) -> list[str]:
        """Lines that return what a plan gives; their own names begin with an underscore, as no argument's does."""
        names = ", ".join(self.operator.schema.names)
        planned = f"if _plan is not None: return _plan({names})"
        compiled = [f"_plan = None if _found is None else _found({names})", planned]
        learning = f"if _plan is not None and _learn is not None: _learn(_plan, {names})"
        return [
            *compiled * (self.lookups is not None),
            "try:",
            f"    _key = {', '.join(map(key_part, self.operator.schema.arguments))},",
            "    _plan = _find(_key)",
            "except (TypeError, AttributeError):",  # arguments of other kinds than kernels mostly get
            "    _key = _plan = None",
            *[learning] * (self.lookups is not None),
            planned,
            "if _key is not None:",
            "    _count = _seen.get(_key, 0)",
            f"    if _count < {self.calls} and len(_seen) < {_MOST}: _seen[_key] = _count + 1",
            f"    else: return _plan_for(_key, {names})({names})",
        ]

    def _kernel(self, lines: list[str], names: dict[str, Any]) -> Callable:
        schema = self.operator.schema
        scope = {
            **self.scope,
            **{"_find": self.plans.get, "_seen": self.seen, "_plan_for": self._plan_for, "_zero": signed_zero},
            **{"_unusual": unusual, "_modes": modes, "_MASKS": _PLAIN_MASKS, "_is_plain": _is_plain},
            **{"NUMBERS": NUMBERS, "_found": None, "_learn": None},
            **names,
        }
        body = "\n".join("    " + line for line in lines)
        source = f"def {schema.base_name}({', '.join(schema.names)}):\n{body}\n{self.general}"
        self.kernels.append(compile_function(schema.base_name, source, scope))
        if self.lookups is not None and not self.waiting:
            self._use_lookups()
        return self.kernels[-1]

    def _use_lookups(self) -> None:
        """Has kernels find plans by compiled code."""
        find = self.lookups.finder(self.found, unless_recorded=False)
        for kernel in self.kernels:
            kernel.__globals__.update(_found=find, _learn=self._learn)

    def _learn(self, plan: Callable, *args: Any) -> None:
        """Has compiled code find a plan when there is a call with such arguments again."""
        key = self.lookups.key_of()(*args)
        if key is None:
            return
        self.found[key] = plan
        operator, given = self.operator, _each(args)
        if operator.lookup(HOST_MASK) in self.kernels and plan is not self.unplanned and any(map(_is_tensor, given)):
            self.ahead[key] = getattr(plan, "ahead", plan)
            if operator.finder is None:
                operator.finder = self.lookups.finder(self.ahead, unless_recorded=True)
                for rebuild in operator.rebuilds:
                    rebuild()

    @computed_once
    def unplanned(self) -> Callable:
        """The function that goes the general way."""
        name, names = self.operator.schema.base_name, ", ".join(self.operator.schema.names)
        scope = {**self.scope, "__opname__": f"{self.operator.name} unplanned", "__name__": __name__}
        return self.scope.get("general") or compile_function(name, f"def {name}({names}):\n{self.general}", scope)

    def _plan_for(self, key: tuple, *args: Any) -> Callable:
        """A new plan; the general way if there can be none, or if it was not time for it."""
        withdraw()  # what is tried out while a plan is made is no result
        plan, due = self.unplanned, self.seen.pop(key, 0) >= self.calls
        if len(self.seen) + len(self.plans) >= _MOST:
            for remembered in (self.seen, self.plans, self.found, self.ahead):
                remembered.clear()
        if not due or is_settled():
            return plan
        if self.failures < _FAILURES:
            state = modes.__dict__
            state["constants"] = []
            try:
                plan = self._of_constants(self.make(args), state["constants"])
                self.failures = max(self.failures - 1, 0)
            except Trivial:
                table = self.operator.table
                table |= {mask: plan for mask, kernel in table.items() if kernel in self.kernels}
            except Unplannable:
                self.failures += 1
        self.plans[key] = plan
        if self.waiting:
            self.waiting = False
            self.lookups.when_loaded(self._use_lookups)
        return plan

    def _of_constants(self, plan: Callable, constants: Sequence[int]) -> Callable:
        """The plan, if the arguments at these positions may need grad: for calls in which they do not."""
        if not constants:
            return plan
        schema = self.operator.schema
        name, names = schema.base_name, ", ".join(schema.names)
        keys = " | ".join(_keys_of(schema.arguments[i]) for i in constants)
        source = f"def {name}({names}):\n    return (_plan if not ({keys}) & {~HOST_MASK} else _general)({names})\n"
        scope = {"_plan": plan, "_general": self.unplanned, "__opname__": f"{self.operator.name} constant"}
        return compile_function(name, source, {**scope, "NUMBERS": NUMBERS, "__name__": __name__})


# twins ---------------------------------------------------------------------------------------------------------------


def _refused(*args: Any, **kwargs: Any) -> Any:
    raise Unplannable


class Twin(Tensor):
    """A tensor with a geometry and without memory, which says that it is on the CPU."""

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]
    item = tolist = numpy = data_ptr = storage_offset = untyped_storage = storage = _host_array = _refused
    __int__ = __float__ = __complex__ = __index__ = __array__ = _refused
    grad_fn = property(_refused)  # type: ignore[assignment]

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:  # type: ignore[override]
        """No: a composite is planned where nothing needs grad, and the plan of a family that asks is used there."""
        if "plan_recorder" not in modes.__dict__:
            modes.__dict__["asked_for_grad"].append(self)
        return False

    def detach(self) -> Any:
        """A result on the way is itself detached, since nothing is recorded; not an argument, nor a view."""
        recorder = modes.__dict__.get("plan_recorder")
        if recorder is None or self._base is None and recorder.numbers.get(id(self)) not in recorder.inputs:
            return self
        return recorder.run(registry.get("detach"), (self,))

    def __bool__(self) -> bool:
        if "plan_recorder" not in modes.__dict__ or self._array.size != 1:
            raise Unplannable
        return modes.__dict__["plan_recorder"].outcome(self)


def twin_of(value: Any) -> Any:
    """The twin of a tensor, also of those in a list; all else as it is."""
    if value.__class__ is Twin:
        return value
    if isinstance(value, Tensor):
        array = value._array
        if not is_host_array(array) or not array.size:
            raise Unplannable
        return _as_twin(wrap_meta(array.shape, array.dtype, array.strides))
    return tuple(map(twin_of, value)) if value.__class__ in (tuple, list) else value


def holds_halves(twins: Any) -> bool:
    """Whether arrays of half precision are among arguments."""
    return any(isinstance(t, Tensor) and t._array.dtype in WIDER for t in _each(twins))


def _as_twin(tensor: Any) -> Any:
    tensor._keys, tensor._device, tensor.__class__ = DESCRIBED_MASK | tensor._keys & VIEW_MASK, CPU, Twin
    return tensor


def tried(function: Callable, *args: Any) -> Any:
    """What a function gives for twins; Unplannable if it raises. It may come to make another plan."""
    thread, state = threading.get_ident(), modes.__dict__
    outer, before = thread in planners, state.get("asked_for_grad")
    asked: list[Any] = []
    planners.add(thread)
    state["asked_for_grad"] = asked
    try:
        made = function(*args)
    except Exception as error:
        raise Unplannable from error
    finally:
        state["asked_for_grad"] = before
        if not outer:
            planners.discard(thread)
    if asked:
        state["constants"] = [i for i, given in enumerate(args) if any(given is twin for twin in asked)]
        if any(all(given is not twin for given in args) for twin in asked):
            raise Unplannable
    return made


# recording composites ------------------------------------------------------------------------------------------------


class Slot(int):
    """The number of a tensor in a recording."""


class Guard:
    """A tensor whose truth decided how a composite went on."""

    def __init__(self, slot: "Slot", outcome: bool) -> None:
        self.slot, self.outcome = slot, outcome


class Step:
    """A call that was recorded: with twins, and with slots in their place."""

    def __init__(self, operator: Operator, twins: tuple, made: Any, args: tuple, results: Any) -> None:
        self.operator, self.twins, self.made, self.args, self.results = operator, twins, made, args, results

    @property
    def slots(self) -> list[Slot]:
        """Those of the results."""
        return [v for v in _each(self.results) if v.__class__ is Slot]


_BY_STORAGE = ("as_strided", "set_", "resize")  # operators that see more than a tensor's own elements


def _each(value: Any) -> Iterator[Any]:
    """The leaves of nested tuples and lists."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _each(item)
    else:
        yield value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _mapped(function: Callable, value: Any) -> Any:
    """The same nested tuples and lists, with other leaves."""
    if not isinstance(value, (tuple, list)):
        return function(value)
    made = [_mapped(function, item) for item in value]
    return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)


class Recorder:
    """The operators that a composite calls, given twins. They are computed, too, since outcomes are asked for."""

    def __init__(self, twins: tuple, args: tuple) -> None:
        self.steps: list[Step | Guard] = []
        self.tensors: list[Any] = []  # by slot
        self.computed: dict[Slot, Any] = {}
        self.numbers: dict[int, Slot] = {}  # by id
        self.constants: dict[Slot, Tensor] = {}
        for twin, given in zip(_each(twins), _each(args), strict=True):
            if isinstance(twin, Tensor):
                self.computed[self._numbered(twin)] = given
        self.inputs = set(self.computed)

    def _numbered(self, tensor: Any) -> Slot:
        made = self.numbers[id(tensor)] = Slot(len(self.tensors))
        self.tensors.append(tensor)
        return made

    def slot(self, value: Any) -> Any:
        """The slot of a tensor; one with memory was made of constants. All else is itself."""
        if not isinstance(value, Tensor):
            return value
        known = self.numbers.get(id(value))
        if known is None:
            if not is_host_array(value._array):
                raise Unplannable
            known = self._numbered(value)
            self.constants[known] = self.computed[known] = value
        return known

    def run(self, operator: Operator, args: tuple) -> Any:
        """The results, as twins, of a call that is written down."""
        schema = operator.schema
        if draws(operator) or schema.base_name.lstrip("_").startswith(_BY_STORAGE):
            raise Unplannable
        slots, twins = _mapped(self.slot, args), tuple(map(twin_of, args))
        if schema.writes and (slots[0] in self.constants or self._root(args[0]) in self.inputs):
            raise Unplannable
        with changed_modes(include=0):
            made = operator.lookup(DESCRIBED_MASK)(*[META if value is CPU else value for value in twins])
            computed = self._computed(operator, slots, made)
        for tensor, known in zip(_each(made), _each(computed), strict=True):
            if isinstance(tensor, Tensor) and id(tensor) not in self.numbers:
                self.computed[self._numbered(_as_twin(tensor))] = known
        self.steps.append(Step(operator, twins, made, slots, _mapped(self.slot, made)))
        return made

    def _computed(self, operator: Operator, slots: tuple, made: Any) -> Any:
        return operator.lookup(HOST_MASK)(*_mapped(self._value, slots))

    def outcome(self, tensor: Any) -> bool:
        """The truth of a tensor, on which the plan rests from now on."""
        slot = self.slot(tensor)
        outcome = bool(self.computed[slot])
        self.steps.append(Guard(slot, outcome))
        return outcome

    def _value(self, slot: Any) -> Any:
        return self.computed[slot] if slot.__class__ is Slot else slot

    def _root(self, tensor: Any) -> Slot | None:
        return self.numbers.get(id(tensor if tensor._base is None else tensor._base))


class _LayoutRecorder(Recorder):
    """As above, without elements: nothing is computed, and no outcome is known."""

    def _computed(self, operator: Operator, slots: tuple, made: Any) -> Any:
        return made

    def outcome(self, tensor: Any) -> bool:
        raise Unplannable


def rests_on_layouts(function: Callable, twins: Sequence[Any]) -> bool:
    """Whether the operators that a composite calls follow from the layouts of these twins, and from what else is given.

    Not so if it looks at elements, draws, warns, or writes what it was given.
    """
    if "plan_recorder" in modes.__dict__:
        return False
    modes.__dict__["plan_recorder"] = _LayoutRecorder(tuple(twins), tuple(twins))
    try:
        with changed_modes(include=PLAN_MASK, grad_enabled=False):
            tried(function, *twins)
    except Unplannable:
        return False
    finally:
        del modes.__dict__["plan_recorder"]
    return True


def _recording_kernel(operator: Operator) -> Callable:
    if operator.is_composite:
        return operator.kernels[DESCRIBED]
    return lambda *args: modes.__dict__["plan_recorder"].run(operator, args)


registry.register_for_all(DispatchKey.Planning, PerOperator(_recording_kernel))


def composite_plan(operator: Operator, function: Callable, args: tuple) -> Callable:
    """The plan of a composite for the layouts of these arguments."""
    twins = twin_of(args)
    if "plan_recorder" in modes.__dict__:  # computing for another recording
        raise Unplannable
    recorder = modes.__dict__["plan_recorder"] = Recorder(twins, args)
    try:
        with changed_modes(include=PLAN_MASK, grad_enabled=False):
            made = tried(function, *twins)
    finally:
        del modes.__dict__["plan_recorder"]
    if not recorder.steps:
        raise Trivial
    plan = _Writer(operator, recorder, twins, _mapped(recorder.slot, made), function).function()
    modes.__dict__["constants"] = []  # of parts that were tried: here, nothing needs grad
    try:
        made, result = plan(*args), function(*args)
        given = [id(t) for t in _each(args)]
        same = _agree(made, result) and all(
            (id(m) in given) is (id(r) in given) for m, r in zip(_each(made), _each(result)) if isinstance(m, Tensor)
        )
    except Exception as error:
        raise Unplannable from error
    if not same:
        raise Unplannable
    return plan


def _agree(made: Any, wanted: Any) -> bool:
    """Whether two results are alike in elements, layout, versions, and what they are views of."""
    if made.__class__ is not wanted.__class__:
        return False
    if isinstance(made, (tuple, list)):
        return len(made) == len(wanted) and all(map(_agree, made, wanted))
    if not isinstance(made, Tensor):
        return made == wanted
    if made is wanted:
        return True
    a, b = made._array, wanted._array
    alike = (a.shape, a.strides, a.dtype, made._keys, made._offset) == (
        b.shape,
        b.strides,
        b.dtype,
        wanted._keys,
        wanted._offset,
    )
    if not alike or made._version != wanted._version or (made._base is None) is not (wanted._base is None):
        return False
    if a.dtype.kind not in "fc":
        return a.tobytes() == b.tobytes()
    return bool(np.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True))


def checked_call(
    function: Callable, at: Sequence[int], args: Sequence[Any], made: Any
) -> tuple[Callable, Sequence[int]] | None:
    """The function, for a plan, if for arrays that lie as the twins among `args` it gives one that lies as `made`."""
    given = [_array_like(args[i]._array) if isinstance(args[i], Tensor) else args[i] for i in at]
    try:
        result = function(*given)
    except Exception:
        return None
    wanted = made._array
    if not is_host_array(result) or result.dtype is not wanted.dtype:
        return None
    return (function, at) if result.shape == wanted.shape and result.strides == wanted.strides else None


_TRIALS = 128  # calls in which a step of a plan asks for machine code, which takes over within these if there is any


def compiled_or(operator: Operator, function: Callable, at: Sequence[int]) -> tuple[Callable, Sequence[int]] | None:
    """The array function of a pointwise operator that machine code stands before, as in the operator's own kernel."""
    kernel: Any = operator.lookup(HOST_MASK)
    own = getattr(kernel, "__globals__", {})
    if own.get("more") is None or own.get("fast") is None:
        return None
    tensors = [i for i, a in enumerate(operator.schema.arguments) if a.is_tensor]
    every, trials = list(at) == list(range(len(operator.schema.arguments))), _TRIALS

    def computed(*args: Any) -> Any:
        nonlocal trials
        made = own["fast"](*args)
        if made is None:
            made = own["spread"](*args)
            if made is None and trials:
                trials -= 1
                made = own["more"](*[_wrapped(v) if i in tensors else v for i, v in enumerate(args)])
            if made is None:
                return function(*args) if every else function(*[args[i] for i in at])
        return made

    return computed, range(len(operator.schema.arguments))


def _wrapped(value: Any) -> Any:
    """An array as a tensor; a number, or none, as it is."""
    if value is None or value.__class__ in NUMBERS:
        return value
    made = _new(Tensor)
    made._array = np.asarray(value)
    return made


def _array_like(geometry: Any) -> np.ndarray:
    """An array with these strides, of ones."""
    reach = sum(step * (n - 1) for step, n in zip(geometry.strides, geometry.shape, strict=True)) // geometry.itemsize
    return np.ndarray(geometry.shape, geometry.dtype, np.ones(reach + 1, geometry.dtype), 0, geometry.strides)


class _Writer:
    """Writes a recording as a function: array functions where families have them, kernels on tensors else.

    Of slot 3, `a3` is the array and `t3` the tensor; either is made of the other when it is first wanted.
    """

    def __init__(self, operator: Operator, recorder: Recorder, twins: tuple, result: Any, general: Callable) -> None:
        self.operator, self.recorder, self.result = operator, recorder, result
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "new": _new,
            "Tensor": Tensor,
            "general": general,
            "__opname__": f"{operator.name} plan",
        }
        self.names: dict[Slot, dict[str, str]] = {}  # slot -> "a" or "t" -> name
        for argument, twin in zip(operator.schema.arguments, twins, strict=True):
            self._take(argument.name, twin)
        for slot, tensor in recorder.constants.items():
            self.names[slot] = {"t": self._constant(tensor)}
        if any(v in recorder.constants for v in _each(result) if v.__class__ is Slot):
            raise Unplannable
        self.shown = self._shown()

    def function(self) -> Callable:
        schema = self.operator.schema
        names = ", ".join(schema.names)
        for step in self.recorder.steps:
            if isinstance(step, Step):
                self._write(step)
            else:
                self.lines.append(f"if bool({self._as('a', step.slot)}) is not {step.outcome}: return general({names})")
        self.lines.append(f"return {self._returned(self.result)}")
        body = "\n".join("    " + line for line in self.lines)
        return compile_function(schema.base_name, f"def {schema.base_name}({names}):\n{body}\n", self.scope)

    def _take(self, name: str, twin: Any) -> None:
        """Names the tensors of an argument."""
        if twin.__class__ is Twin:
            self.names[self.recorder.numbers[id(twin)]] = {"t": name}
        elif twin.__class__ is tuple and any(t.__class__ is Twin for t in twin):
            each = [f"{name}_{i}" for i in range(len(twin))]
            self.lines.append(f"{', '.join(each)}, = {name}")
            for own, t in zip(each, twin, strict=True):
                self._take(own, t)

    def _shown(self) -> set[Slot]:
        """Slots of results and targets of writes that are views: their tensors say of what."""
        steps = [step for step in self.recorder.steps if isinstance(step, Step)]
        makers = {slot: step for step in steps if not step.operator.schema.writes for slot in step.slots}
        shown: set[Slot] = set()
        waiting = [*_each(self.result), *[step.args[0] for step in steps if step.operator.schema.writes]]
        while waiting:
            step = makers.get(waiting.pop())
            if step is not None and step.operator.declaration.family.is_view:
                shown.update(step.slots)
                waiting.append(step.args[0])
        return shown

    def _constant(self, value: Any) -> str:
        if value is None or value.__class__ in (int, bool):
            return repr(value)
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def _as(self, form: str, value: Any) -> str:
        """The expression of an argument, its tensors in the wanted form."""
        if value.__class__ in (tuple, list) and any(v.__class__ is Slot for v in value):
            return f"({''.join(self._as(form, v) + ', ' for v in value)})"
        if value.__class__ is not Slot:
            return self._constant(value)
        names = self.names[value]
        if form not in names:
            other, names[form] = names["a" if form == "t" else "t"], f"{form}{value}"
            self.lines.append(
                f"{names[form]} = {other}._array"
                if form == "a"
                else f"{names[form]} = new(Tensor); {names[form]}._array = {other}"
            )
        return names[form]

    def _write(self, step: Step) -> None:
        operator, slots = step.operator, step.slots
        known = [slot for slot in slots if slot in self.names]  # an argument that comes back
        if known and not operator.schema.writes:
            if known == [step.results]:
                return
            raise Unplannable
        call = None
        empty = any(isinstance(t, Tensor) and not t._array.size for t in _each((step.twins, step.made)))
        if not operator.schema.writes and self.shown.isdisjoint(slots) and not empty:
            call = operator.declaration.family.array_call(operator, step.twins, step.made)
        if call is not None:
            form, function, args = "a", call[0], tuple([step.args[i] for i in call[1]])
        else:
            form, function, args = "t", operator.declaration.family.kernel_for(operator, step.twins), step.args
        line = f"{self._constant(function)}({', '.join([self._as(form, value) for value in args])})"
        if slots and not known:
            for slot in slots:
                self.names[slot] = {form: f"{form}{slot}"}
            each = [self.names[v][form] if v.__class__ is Slot else "_" for v in _each(step.results)]
            line = f"{each[0] if step.results.__class__ is Slot else ', '.join(each) + ','} = {line}"
        self.lines.append(line)

    def _returned(self, result: Any) -> str:
        if not isinstance(result, (tuple, list)):
            return self._as("t", result)
        inner = "".join(self._returned(v) + ", " for v in result)
        if hasattr(result, "_fields"):
            return f"{self._constant(type(result))}({inner})"
        return f"[{inner}]" if result.__class__ is list else f"({inner})"
