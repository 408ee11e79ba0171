"""Recording: the kernels that write calls down in the place of computing them, and the block in which they do."""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.derive import Within
from .._backends.cpu.factors import drop
from .._core.deferred import Deferred
from .._core.device import contiguous_format
from .._core.device_objects import OutOfMemoryError
from .._core.dtype import get_default_dtype, int64
from .._core.planning import plans
from .._core.tensor import Tensor, flush_pending
from .._dispatch.callers import call_bound, compile_function
from .._dispatch.keys import (
    AUTOGRAD_MASK,
    BACKEND_MASK,
    CPU_MASK,
    CUDA_MASK,
    META_MASK,
    NPU_MASK,
    PIPELINE_MASK,
    changed_modes,
    modes,
)
from .._dispatch.registry import Operator, registry
from .._dispatch.schema import MISSING, NUMBERS, Argument
from .._ops._declare.batch import draws
from .._ops._declare.families import result_of
from .._ops._declare.plans import key_part, signed_zero
from .._ops._declare.rules import shares_storage
from .._ops.create import empty
from .ahead import Recorder, indented, is_default, lines_ahead
from .cache import plan_of
from .current import own_trace, state
from .plan import Plan
from .recipes import CUT, REAL, Recipe, guard_of, recipe_for
from .record_views import view_kernel
from .shortcuts import shortcut_kernel
from .trace import ABSENT, FRESH, NOTED, Known, Node, Place, Trace, nothing, place_of_caller, told

_new = object.__new__
_DEVICES = (CPU_MASK, CUDA_MASK, NPU_MASK, META_MASK)  # those whose calls are recorded
# Errors that keep their type when the pipeline adds where the call was recorded.
_REBUILT = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, OutOfMemoryError)
_MOST_COMPARED = 4  # tensors and numbers of a call that is compared with the likely one
_LONGEST = 4096  # calls after which a trace is run, so that memory is not kept for ever


# the block -----------------------------------------------------------------------------------------------------------


_spare: list[Trace] = []  # of blocks that were left, with all that they know


def _spare_trace() -> Trace:
    """A trace that no block records in, the last one that was given back."""
    try:
        return _spare.pop()
    except IndexError:
        return Trace()


class Pipeline:
    """One `with torch.pipeline()` block."""

    def __init__(self, explain: bool = False) -> None:
        self.keeps = self.lines = self.timed = explain
        self.trace: Any = None  # while the block is entered
        self.history: list[tuple[Trace, Plan]] = []
        self._lock = threading.RLock()

    def __enter__(self) -> "Pipeline":
        own = modes.__dict__
        outer = own.get("pipeline")
        if outer is not None:
            outer.flush()  # its tensors are not ours to compute
        self._previous = (outer, own["include"])
        own["pipeline"] = self
        trace = self.trace = Trace() if self.lines else _spare_trace()
        trace.flush, trace.quick = self.flush, None if self.lines else True
        with state.lock:
            state.threads.add(threading.get_ident())
            state.trace = trace if len(state.threads) == 1 else None
        modes.set_include(self._previous[1] | PIPELINE_MASK)
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        outer, include = self._previous
        modes.set_include(include)
        try:
            self.flush()
        finally:
            modes.__dict__["pipeline"] = outer
            trace, self.trace, state.trace = self.trace, None, None
            trace.flush = nothing  # which led back here
            if trace.quick:
                _spare.append(trace)
            if outer is None:
                with state.lock:
                    state.threads.discard(threading.get_ident())

    def _announce(self) -> None:
        """Makes the trace the one that is recorded in, if no other thread records."""
        with state.lock:
            alone = len(state.threads) == 1 and modes.__dict__.get("pipeline") is self
            state.trace = self.trace if alone else None

    def __len__(self) -> int:
        return 0 if self.trace is None else self.trace.node.count - len(self.trace.inputs)

    def flush(self) -> None:
        """Runs all recorded calls. An error empties the trace and stays with the results that now never come."""
        with self._lock:
            if self.trace is None or self.trace.node is self.trace.root:
                return
            trace = self.trace.taken()
            if state.trace is not self.trace:
                self._announce()
            trace.find_outputs()
            try:
                made = self.compute(trace)
            except Exception as error:
                self._fail(trace, error)
            except BaseException as error:
                trace.end(error)
                raise
            else:
                if trace.written:
                    drop([trace.inputs[number] for number in trace.written])
                _fill(trace, made)
                trace.end()

    def compute(self, trace: Trace) -> Sequence[Any]:
        """The arrays that the trace's outputs wait for."""
        plan = trace.plan = plan_of(trace)
        plan.timed = self.timed
        if self.keeps:
            self.history.append((trace, plan))
        else:
            self.history = [(trace, plan)]
        return plan.run(list(trace.inputs.values()), trace.numbers)

    def ran_at_once(self) -> None:
        """Hears of numbers that are drawn outside of the recording."""

    def explain(self) -> Any:
        """What the flushes became: prints as a table, `save(path)` writes a page (docs/compile.md)."""
        from .explain import Explanation

        return Explanation(self.history, "torch.pipeline()")

    def _fail(self, trace: Trace, error: Exception) -> None:
        at = getattr(error, "pipeline_entry", None)
        name, where = "a recorded call", "an unknown place"
        if at is not None:
            entry = (trace if trace.plan is None else trace.plan).entries[at]
            name, where = entry.operator.name, entry.where or where
        kind = next((known for known in type(error).__mro__ if known in _REBUILT), RuntimeError)
        failure = kind(f"{name}, recorded at {where}, failed when the pipeline was flushed: {error}")
        trace.end(failure)
        raise failure from error


def _fill(trace: Trace, arrays: Sequence[Any]) -> None:
    """Gives the tensors that wait for them their arrays, and those that share memory a storage."""
    places = trace.node.path()[1]
    together: dict[int, list[Tensor]] = {}
    for number, array in zip(trace.outputs, arrays, strict=True):
        deferred = places[number].array
        deferred.value = array
        if not deferred.others and deferred.root is None:
            tensor = deferred.holder()
            if tensor is not None and tensor._array is deferred:
                tensor._array = array
            continue
        tensors = [t for ref in (deferred.holder, *deferred.others) if (t := ref()) is not None]
        for tensor in tensors:
            if tensor._array is deferred:
                tensor._array = array
        together.setdefault(deferred.memory, []).extend(tensors)
    for root, tensors in together.items():
        if all(t._base is not None for t in tensors):
            continue
        first = places[root].array
        held = [t for ref in (first.holder, *first.others) if (t := ref()) is not None]
        owner = held[0] if held else _owner(first, tensors[0])
        storage = owner._shared_storage()
        for tensor in (*held, *tensors):
            if tensor._base is None:
                tensor._storage = storage


def _owner(deferred: Deferred, like: Tensor) -> Tensor:
    """A tensor on memory of which only views are held."""
    made = _new(Tensor)
    made._array, made._keys, made._device = deferred.value, like._keys & BACKEND_MASK, like._device
    return made


def flush_current() -> None:
    """Runs what this thread has recorded."""
    pipe = modes.__dict__.get("pipeline")
    if pipe is not None:
        pipe.flush()


# kernels -------------------------------------------------------------------------------------------------------------

# Names of the generated functions' own begin with an underscore, as no argument's does.
_OPERAND = """
_array = {name}._array
if _array.__class__ is Deferred and _array.trace is _trace:
    _number_{at} = _array.number
    _layout_{at} = _array.layout
else:
    _number_{at}, _layout_{at} = _trace.known.get(id(_array)) or _trace.input({name})
"""
_LIST = """
_numbers_{at} = []
_given_{at} = []
_layouts = []
for _item in {name}:
    if _item is None:
        _layouts.append(None)
        _given_{at}.append(None)
        continue
    _array = _item._array
    if _array.__class__ is Deferred and _array.trace is _trace: _number, _layout = _array.number, _array.layout
    else: _number, _layout = _trace.known.get(id(_array)) or _trace.input(_item)
    _numbers_{at}.append(_number)
    _given_{at}.append(_number)
    _layouts.append(_layout)
_layout_{at} = tuple(_layouts)
"""
_QUICK = """
_node = _trace.node.likely{adopted}
if _node.kernel is _recipes{defaults}:
    try: _same = {as_before}
    except AttributeError: _same = False  # a number, where a tensor was
    if _same{unless}:
        _trace.node = _node
        _free = _node.free
        if _free:{numbers}
            if _free >= NOTED: _trace.lines[_node] = _place()
        {result}
"""
_MADE = """
_made = _new(Tensor)
_made._array = _array = _node.array
_array.holder = _ref(_made){device}
if _node.tensor is not None: _trace.apart = True
"""
# What else lies in the memory that is written is as it was the last time.
_WRITTEN = """
_counter = {target}._counter
if _counter is None: {target}._bump_version()
else: _counter.value += 1
return {target}
"""
# What a public function begins with: tensors that nothing is derived for are those of the last recording, if nobody
# held them (Lent in trace.py). (Not in backward passes, which look who holds their tensors.)
_KNOWN = """
_trace = _state.trace
if _trace is not None:
    {quick}
"""
_LENT = """
if _masks is not _BACKWARD:
    _made = _node.tensor
    return _trace.lend(_node) if _made is None else _made
"""
# What takes the place of a kernel's call where something is derived for its one result, which is then not lent.
_WITHIN = """
result = None
_trace = _state.trace
if _trace is not None:
    {quick}
"""
_END = """
try: _recipe = _recipes[{key}]
except (KeyError, TypeError): _recipe = _miss(({key}), ({names},))
if _recipe.quick is not _trace.quick:
    {other}
_node = _trace.step(_recipe, ({flat}))
if _node.kernel is None and _node.count < LONGEST: {learn}
_trace.numbers += _free
if _recipe.fails: _trace.lines[_node] = _place()
{made}
if _node.count > LONGEST: _trace.flush()
return _made
"""
# Learning after a call that is more than one new tensor: `_trace` may have begun anew.
_OTHER = """
_made = _other(_trace, _recipe, ({names},), ({flat}), _free)
_node = _trace.node
if _recipe.repeats == {ending!r} and _trace.quick and _node.recipe is _recipe and _node.kernel is None \\
        and _node.count < LONGEST: {learn}
return _made
"""


def kernel_of(operator: Operator, below: Callable, mask: int) -> Callable:
    """What takes the place of an operator's kernel in a pipeline; `below` is that kernel."""
    backend = mask & BACKEND_MASK
    schema, declaration = operator.schema, operator.declaration
    if getattr(below, "composed", False) or operator.is_composite:  # its parts are recorded
        if operator.is_composite and mask & AUTOGRAD_MASK:  # and called as they are where nothing is deferred
            return operator.lookup(mask & ~PIPELINE_MASK)
        is_plain = operator.is_composite and mask == CPU_MASK | PIPELINE_MASK
        return shortcut_kernel(operator, getattr(below, "without_plans", below)) if is_plain else below
    tensors = [a for a in schema.arguments if a.is_tensor]
    if backend == CPU_MASK and operator.name in _DRAWN_ALIKE:
        return _drawing(operator, _cutting(below, True))
    if declaration is None or backend not in _DEVICES or not tensors:
        return _cutting(below, draws(operator))
    if declaration.family.is_view:
        return view_kernel(operator, below, _cutting(below), mask)
    scope: dict[str, Any] = {
        "_state": state, "_own_trace": own_trace, "Deferred": Deferred, "Tensor": Tensor, "_new": _new,
        "_ref": weakref.ref, "NUMBERS": NUMBERS, "REAL": REAL, "_zero": signed_zero, "LONGEST": _LONGEST,
        "NONE": ABSENT.array, "NOTED": NOTED, "FRESH": FRESH, "_place": place_of_caller,
        "__opname__": f"{operator.name} recorded",
    }  # fmt: skip
    recipes = Known()
    plans.append(recipes)
    free = {i: MISSING if a.is_tensor else a.default for i, a in enumerate(schema.arguments) if _is_free(operator, a)}
    scope |= {f"_default_{a.name}": a.default for a in schema.arguments}
    missing = _Missing(operator, recipes, free)
    scope |= {"_recipes": recipes, "_miss": missing, "_other": _Others(operator, missing, _cutting(below)),
              "_writable": _is_writable,
              "_several": lambda places, like: result_of(operator, _results(places, like))}  # fmt: skip
    source, ahead, within = _source(operator, backend)
    if ahead and mask == CPU_MASK | PIPELINE_MASK:
        recipes.recorder = Recorder(operator, ahead, scope)
    kernel = compile_function(schema.base_name, source, scope)
    if within:
        kernel.within = Within(within.strip().splitlines(), scope)  # type: ignore[attr-defined]
    return kernel


def _first_tensor(*values: Any) -> Any:
    for value in values:
        for item in value if value.__class__ in (tuple, list) else (value,):
            if isinstance(item, Tensor):
                return item
    raise TypeError("no tensor among the arguments")


def _is_free(operator: Operator, argument: Argument) -> bool:
    """Whether a number's value may differ between calls that are recorded alike."""
    known = operator.declaration.family.any_numbers and not argument.is_list
    return known and argument.type in ("Tensor|Scalar", "Scalar", "float")


def _source(operator: Operator, backend: int) -> tuple[str, str, str]:
    """A recording kernel's source, and those of what its caller, and an autograd kernel, may do without it."""
    schema, ahead, within = operator.schema, "", ""
    names = ", ".join(schema.names)
    lines = ["_free = []"]
    keys: list[str] = []
    flat: list[str] = []
    given: list[str] = []
    # what a call that is as the likely one was has to be, and what is noted of one so that others can be compared
    as_before, defaults, rest, plain, numbers = [], [], [], [], []
    for at, a in enumerate(schema.arguments):
        name, free = a.name, _is_free(operator, a)
        number = f"({name}.__class__, {name} or _zero({name}))"
        if a.is_tensor:
            own = (_LIST if a.is_list else _OPERAND).format(name=name, at=at).strip().splitlines()
            keys.append(f"_layout_{at}")
            flat.append(f"*_numbers_{at}" if a.is_list else f"_number_{at}")
            otherwise = []
            array, found = f"{name}._array", f"_number_{at}"
            if a.optional:
                empty = "()" if a.is_list else "None"
                otherwise += [f"if {name} is None: _number{'s' * a.is_list}_{at}, _layout_{at} = {empty}, None", "el"]
                array = f"(NONE if {name} is None else {array})"
            if a.type == "Tensor|Scalar":
                otherwise += [f"if {name}.__class__ in NUMBERS:", f"    _number_{at}, _layout_{at} = None, {number}"]
                if free:
                    otherwise += [f"    if {name}.__class__ in REAL:", f"        _layout_{at} = {name}.__class__",
                                  f"        _free.append({name})"]  # fmt: skip
                    found = f"{name}.__class__ if {name}.__class__ in REAL else {found}"
                    plain.append(f"{name}.__class__ in REAL or {name}.__class__ not in NUMBERS")
                else:
                    found = f"{number} if {name}.__class__ in NUMBERS else {found}"
                otherwise.append("el")
            known, test = f"_node.a{len(given)}.array", ""
            if a.type == "Tensor|Scalar" and free:
                test, known = f"(_known := {known}) is type({name}) or ", "_known"
                numbers.append(f"\n            if _free & {1 << len(given)}: _trace.numbers.append({name})")
            elif a.type == "Tensor|Scalar":
                test = f"{name}.__class__ in NUMBERS and {number} == {known} or "
            if a.is_list:
                as_before.append(f"_node.a{len(given)}.are({name})")
                found = f"_given_{at}"
            else:
                as_before.append(f"({test}{array} is {known})")
            given.append(found)
            if otherwise:
                own = ["se:", *("    " + x for x in own)]
                joined = "\n".join([*otherwise, ""]).replace("\nel\n", "\nel")
                lines += (joined + "\n".join(own)).splitlines()
            else:
                lines += own
        elif free:
            lines += [f"if {name} is _default_{name}: _key_{at} = {name}",
                      f"elif {name}.__class__ in REAL:", f"    _key_{at} = {name}.__class__",
                      f"    _free.append({name})", f"else: _key_{at} = {number}"]  # fmt: skip
            keys.append(f"_key_{at}")
            plain.append(f"{name} is _default_{name}")
            defaults.append(is_default(name))
        else:
            keys.append(key_part(a))
            rest.append(key_part(a))
    where = f"\n_made._keys = {backend}\n_made._device = _node.layout.device" if backend != CPU_MASK else ""
    made = _MADE.format(device=where).strip()
    quick, learn = "_trace = _state.trace or _own_trace()", "pass"
    ending = _ending(schema)
    lists = [a for a in schema.arguments if a.is_tensor and a.is_list]
    if len(given) <= _MOST_COMPARED and (not lists or ending == "one" and not any(a.optional for a in lists)):
        others = "".join(f"{part}, " for part in rest)
        if rest:
            as_before.append(f"({others}) == _node.rest")
        first, unless = next(a.name for a in schema.arguments if a.is_tensor), ""
        result = f"{made}\nreturn _made"
        if ending == "written":
            others_read = ", ".join(a.name for a in schema.arguments[1:] if a.is_tensor)
            unless = (f" and ({first}._array.__class__ is Deferred"
                      f" or _writable(_trace, _node, {first}, {others_read}))")  # fmt: skip
            result = _WRITTEN.format(target=first).strip()
        elif ending == "several":
            result = f"return _several(_node.made, {first})"
        compared = [f"{'*' * a.is_list}{a.name}" for a in schema.arguments if a.is_tensor]
        parts = {"as_before": " and ".join(as_before), "defaults": "".join(defaults), "numbers": "".join(numbers)}
        fresh = f"\nif _node.kernel is FRESH: _node = _trace.adopted({', '.join(compared)})"
        quick += _QUICK.format(unless=unless, result=indented(result, 8), adopted=fresh, **parts)
        if ending == "one":
            result_within = indented(f"{made}\nresult = _made", 8)
            known = _QUICK.format(unless=unless, result=result_within, adopted="", **parts).strip()
            within = _WITHIN.format(quick=indented(known, 4))
        ready = f"{_LENT.strip()}\n{result}" if ending == "one" else result
        caller = _QUICK.format(unless=unless, result=indented(ready, 8), adopted="", **parts).strip()
        ahead = lines_ahead(_KNOWN.format(quick=indented(caller, 4)), schema.arguments)
        learn = f"_trace.learn(_node, _recipes, ({''.join(f'{g}, ' for g in given)}), ({others}))"
        if plain:
            learn = f"\n    if {' and '.join(f'({test})' for test in plain)}: {learn}"
    operands = ", ".join(flat) + ","
    other = f"return _other(_trace, _recipe, ({names},), ({operands}), _free)"
    if ending != "one":
        other = _OTHER.format(names=names, flat=operands, ending=ending, learn=learn).strip()
        learn = "pass"
    end = _END.format(
        names=names, key=", ".join(keys) + ",", flat=operands, other=indented(other, 4), learn=learn, made=made
    )
    body = "\n".join("    " + line for line in (*quick.strip().splitlines(), *lines, *end.strip().splitlines()))
    return f"def {schema.base_name}({names}):\n{body}\n", ahead, within


def _ending(schema: Any) -> str:
    """What calls of an operator end with: "one" new tensor, "several", or the first argument, "written"."""
    if schema.writes:
        return "written"
    return "one" if len(schema.returns) == 1 and not schema.returns[0].is_list else "several"


class _Others:
    """Records what is more, or other, than one new tensor."""

    def __init__(self, operator: Operator, missing: "_Missing", cut: Callable) -> None:
        self.operator, self.missing, self.cut = operator, missing, cut

    def __call__(self, trace: Trace, recipe: Any, args: tuple, flat: tuple, free: list[Any]) -> Any:
        if recipe.variants is not None:
            recipe = self.missing.choose(recipe, args)
        if recipe is CUT or recipe.written and not _check_write(trace, recipe, args):
            return self.cut(*args)
        node = trace.step(recipe, flat)
        trace.numbers += free
        if recipe.fails or not trace.quick:
            trace.lines[node] = place_of_caller()
        trace.draws = trace.draws or recipe.draws
        if recipe.returns is not None or not recipe.results:
            return None if recipe.returns is None else args[recipe.returns]
        made = _results(node.made, _first_tensor(*args))
        if node.count > _LONGEST:
            trace.flush()
        return result_of(self.operator, made) if recipe.several else made[0]


class _Missing:
    """Finds out, and remembers, the recipes that calls of an operator lack."""

    def __init__(self, operator: Operator, recipes: dict[tuple, Any], free: dict[int, Any]) -> None:
        self.operator, self.recipes, self.free = operator, recipes, free

    def __call__(self, key: tuple, args: tuple) -> Any:
        made = self._made(args)
        if made is not CUT and made.expression is not None and made.expression.guards:
            chooser = Recipe(self.operator, "variants", (), ())
            chooser.variants = [(_guarding(made), made)]
            made = chooser
        if len(self.recipes) > 4096:
            self.recipes.clear()
        self.recipes[key] = made
        return made

    def choose(self, chooser: Recipe, args: tuple) -> Any:
        """The recipe for numbers that answer like these."""
        assert chooser.variants is not None
        for guard, recipe in chooser.variants:
            if guard(*args):
                return recipe
        made = self._made(args)
        if made is CUT or made.expression is None or len(chooser.variants) >= 16:
            return CUT
        chooser.variants.append((_guarding(made), made))
        return made

    def _made(self, args: tuple) -> Any:
        tensors = [t for a in args for t in (a if a.__class__ in (tuple, list) else (a,)) if isinstance(t, Tensor)]
        if any(t._keys & BACKEND_MASK not in _DEVICES for t in tensors):
            return CUT
        nothing = [t for t in tensors if not t._array.size]
        if nothing and (len(nothing) == len(tensors) or any(t is a for t in nothing for a in args)
                        or not nothing[0]._keys & (CPU_MASK | META_MASK)):  # fmt: skip
            return CUT  # but a list that is joined may have something else in it
        if len({t._device for t in tensors}) != 1:
            return CUT
        return recipe_for(self.operator, args, self.free)


def _guarding(recipe: Recipe) -> Callable[..., bool]:
    assert recipe.expression is not None
    guard = guard_of(recipe.expression)
    return guard if guard is not None else lambda *args: True


def _cutting(below: Callable, draws: bool = False) -> Callable:
    """A kernel that runs at once, after what was recorded."""

    def kernel(*args: Any) -> Any:
        tensors = [t for a in args for t in (a if a.__class__ in (tuple, list) else (a,)) if isinstance(t, Tensor)]
        # What makes elements of nothing needs none of what was recorded, but for draws before it.
        if any([t._array.size for t in tensors]) or draws and own_trace().draws:
            flush_current()
            for tensor in tensors:
                if tensor._array.__class__ is Deferred:
                    tensor._settle()
        elif draws:
            modes.__dict__["pipeline"].ran_at_once()
        with changed_modes(include=modes.include & ~PIPELINE_MASK):
            return below(*args)

    return kernel


# Factories that draw, and operators that draw the same in the shape of a tensor, which can be recorded.
_DRAWN_ALIKE = {
    "aten::rand": "aten::rand_like", "aten::randn": "aten::randn_like", "aten::randint": "aten::randint_like",
    "aten::randint.low": "aten::randint_like.low",
}  # fmt: skip


def _drawing(operator: Operator, cut: Callable) -> Callable:
    """The recording kernel of a factory that draws."""
    names = operator.schema.names
    place = names.index("size")
    options = [names.index(name) for name in ("generator", "layout", "pin_memory", "requires_grad")]
    kind_at, draws_integers = names.index("dtype"), "high" in names

    def kernel(*args: Any) -> Any:
        size = args[place]
        if any([args[at] for at in options]) or not all([extent > 0 for extent in size]):
            return cut(*args)
        kind = args[kind_at] or (int64 if draws_integers else get_default_dtype())
        anchor = empty((), dtype=kind, device="cpu").expand(size)
        rest = (*args[:place], *args[place + 1 : kind_at], kind, None, None, None, False, contiguous_format)
        return call_bound(registry.get(_DRAWN_ALIKE[operator.name]), (anchor, *rest))

    return kernel


def _check_write(trace: Trace, recipe: Recipe, args: tuple) -> bool:
    """Whether a call's write can be recorded; counts versions, and notes inputs that are written."""
    targets = [args[i] if k is None else args[i][k] for i, k, _ in recipe.written]
    for target, (_, k, _) in zip(targets, recipe.written, strict=True):
        for value in args if k is None else ():  # steps over lists do not ask
            for other in value if value.__class__ in (tuple, list) else (value,):
                if isinstance(other, Tensor) and other is not target and shares_storage(target, other):
                    return False  # the kernel looks how they lie
        array = target._array
        if array.__class__ is not Deferred and not getattr(getattr(array, "flags", None), "writeable", True):
            return False
    for target, (_, _, count) in zip(targets, recipe.written, strict=True):
        for _ in range(count):
            target._bump_version()
        array = target._array
        if array.__class__ is not Deferred:
            trace.written.add(trace.known[id(array)][0])
    return True


def _is_writable(trace: Trace, node: Node, target: Tensor, *others: Any) -> bool:
    """As `_check_write`, of a call that is as it was the last time: `others` are all that it reads."""
    array = target._array
    for other in others:
        if other.__class__ in NUMBERS or other is None or other is target or other._array.__class__ is Deferred:
            continue
        if shares_storage(target, other):
            return False
    if not getattr(getattr(array, "flags", None), "writeable", True):
        return False
    trace.written.add(node.a0.number)
    return True


def _results(places: Sequence[Place | None], like: Tensor) -> list[Any]:
    """The tensors of a call's new values, on the device of one that it read."""
    backend = like._keys & BACKEND_MASK
    made: list[Any] = []
    for place in places:
        if place is None:
            made.append(None)
            continue
        tensor = _new(Tensor)
        tensor._array = array = place.array
        array.holder = weakref.ref(tensor)
        if backend != CPU_MASK:
            tensor._keys, tensor._device = backend, place.layout.device
        made.append(tensor)
    return made


flush_pending[0] = flush_current
__all__ = ["Pipeline", "flush_current", "kernel_of", "told"]
