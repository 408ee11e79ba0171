"""`out=` of plain calls: kernels write to the tensors given where they can, else results are copied there.

What cannot be served so quickly, or is wrong, is for `write_out` (out.py), which says what PyTorch says.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._backends.interface import backend_of, host
from ..._core import planning
from ..._core.dtype import assign, dtype
from ..._core.elements import at_hand, is_host_array
from ..._core.offers import is_taken, offers
from ..._core.settled import is_settled
from ..._core.tensor import Tensor
from ..._dispatch.callers import as_written, compile_function
from ..._dispatch.keys import (
    BACKEND_MASK,
    DUAL_MASK,
    FUNC_MASK,
    HOST,
    HOST_MASK,
    RECORDING_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    UNRECORDED_MASKS,
    USUAL_MASKS,
    VIEW_MASK,
    modes,
    unusual,
)
from ..._dispatch.registry import Lazy, Operator, PerKeys
from ..._dispatch.schema import MISSING, NUMBERS
from .families import Family, nothing_written
from .out import Out
from .rules import is_expanded

_DENSE = BACKEND_MASK & ~(SPARSE_MASK | FUNC_MASK) | VIEW_MASK
_PLAIN = frozenset((bool, int, float, complex, str, type(None), dtype, type(MISSING)))
_MORE = ("fills", "counts", "joins")
_ASKED = ("refused", "tensors", "check", "check_arguments", "rewrites")  # of all arguments
_MOST = 256  # calls that are remembered of a function


def storing(operators: Sequence[Operator]) -> tuple[Callable | None, Callable | None]:
    """What serves most calls with `out=`: two functions that give `out`, or NotImplemented with nothing stored.

    The first takes `out` and the arguments in order: it has the kernel write there. The second takes (the function,
    out, its arguments), calls the function as without `out=`, and if results fit plain targets as they are, copies
    them. None for operators of which `write_out` asks more, or that would draw random numbers twice where it has to
    call them again.
    """
    rules = [_rule_of(operator) for operator in operators]
    if any(getattr(rule, name) for rule in rules for name in _MORE) or any(
            {"generator", "requires_grad"} & operator.schema.index.keys() for operator in operators):
        return None, None
    asks = any(getattr(rule, name) for rule in rules for name in _ASKED)
    may_be_operand = all(operator.declaration.family.elementwise for operator in operators)
    into = None
    if len(operators) == 1 and not (rules[0].refused or rules[0].check or rules[0].check_arguments
                                    or rules[0].rewrites):
        into = _writing(operators[0], rules[0].tensors.split())
    remembered = _Remembered(operators) if into is None else None

    def stored(function: Callable, out: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if remembered is not None:
            known = remembered.write_named(out, args, kwargs)
            if known is not NotImplemented:
                return known
        targets = out if out.__class__ in (tuple, list) else (out,)
        if not _fits(targets, [*args, *kwargs.values()] if kwargs else args, may_be_operand):
            return NotImplemented
        try:
            writes = _writes(operators, targets, args, kwargs) if asks else 1
            if not writes:
                return NotImplemented
            made = function(*args, **kwargs)
        except _REFUSALS:
            return NotImplemented  # it is raised once more, after what is to be said of the targets
        several = isinstance(made, (tuple, list))
        results = made if several else (made,)
        if several is not (targets is out) or len(results) != len(targets):
            return NotImplemented
        for target, result in zip(targets, results, strict=True):
            array, own = result._array, target._array
            if array.__class__ is not own.__class__ or array.shape != own.shape or array.dtype != own.dtype or (
                    target._device is not result._device):
                return NotImplemented
        for target, result in zip(targets, results, strict=True):
            backend_of(target._device.type).copy(target, result)
            target._bump_version()
        if writes > 1:
            targets[0]._bump_version()
        kind = None if targets is not out or made.__class__ in (tuple, list) else made.__class__
        if remembered is not None:
            remembered.learn(function, out, args, kwargs, kind, writes)
        return out if kind is None else kind(*targets)

    return into if remembered is None else remembered.writing(), stored


def _rule_of(operator: Operator) -> Out:
    return operator.declaration.out or operator.declaration.family.out


def _writes(operators: Sequence[Operator], targets: Sequence[Tensor], args: tuple, kwargs: dict[str, Any]) -> int:
    """How often PyTorch writes in such a call; 0 if it has no `out=`. Raises if something is wrong with the target."""
    args, kwargs = as_written(operators[0], list(args), kwargs)
    for operator in operators:
        values = operator.schema.match(args, kwargs)
        if values is None:
            continue
        rule, at = _rule_of(operator), operator.schema.index
        if rule.refused or not all(isinstance(values[at[name]], Tensor) for name in rule.tensors.split()):
            return 0
        if rule.check_arguments is not None:
            rule.check_arguments(*values)
        if rule.check is not None:
            rule.check(targets[0], *values)
        return 2 if rule.rewrites is not None and rule.rewrites(*values) else 1
    return 0


_REFUSALS = (RuntimeError, TypeError, IndexError, ValueError)


def _fits(targets: Sequence[Any], values: Sequence[Any], may_be_operand: bool) -> bool:
    """Whether a call is a plain one: strided tensors that no mode and no autograd sees, results apart from operands."""
    allowed, views = _DENSE, VIEW_MASK
    if unusual.threads:
        if modes.masks[0] or modes.inference:
            return False
        if not modes.grad_enabled:
            allowed, views = allowed | RECORDING_MASK, 0
    for target in targets:
        if target.__class__ is not Tensor or target._keys & ~allowed or is_expanded(target._array):
            return False
        if target._keys & views and _is_woken(target):
            return False
    for value in values:
        if value.__class__ in _PLAIN:
            continue
        for source in value if value.__class__ in (tuple, list) else (value,):
            if source.__class__ in _PLAIN:
                continue
            if not isinstance(source, Tensor) or source._keys & ~allowed or source._keys & views and _is_woken(source):
                return False
            for target in targets:
                if not may_be_operand if source is target else _may_overlap(source, target):
                    return False
    return True


class _Remembered:
    """Calls whose results were found to fit their targets, by layouts: such calls are offered the targets' memory.

    That is for one operator, or several behind one function. Compiled code looks them up, as it does plans.
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.operators, self.operator = operators, operators[0] if len(operators) == 1 else None
        schema = operators[0].schema
        self.names, self.at, self.defaults = tuple(schema.names), schema.index, schema.defaults
        self.calls: dict[bytes, Callable] = {}
        self.find: Callable | None = None
        self.lookups = host().lookups
        self.scope: dict[str, Any] = {"find": nothing_written, "find_any": nothing_written, "unusual": unusual,
                                      "may_be_found": _may_be_found, "__opname__": f"{operators[0].name} out"}
        planning.plans.append(self.calls)
        if self.lookups is not None:
            self.lookups.when_loaded(self._use_lookups)

    def _use_lookups(self) -> None:
        self.find = self.scope["find"] = self.lookups.finder(self.calls, unless_recorded=True)
        self.scope["find_any"] = self.lookups.finder(self.calls, unless_recorded=False)

    def writing(self) -> Callable | None:
        """See `storing`."""
        if self.lookups is None:
            return None
        given = ", ".join(self.names) if self.operator is not None else "*args"
        source = f"""def write(out, {given}):
    if unusual.threads: call = find_any(out, {given}) if may_be_found(out, {given}) else None
    else: call = find(out, {given})
    return NotImplemented if call is None else call(out, {given})
"""
        return compile_function("write", source, self.scope)

    def write_named(self, out: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The same for a call that is not all arguments in order."""
        if self.find is None or unusual.threads and not _may_be_found(out, *args, *kwargs.values()):
            return NotImplemented
        named = _given(kwargs)
        call = self.scope["find_any" if unusual.threads else "find"](out, args, *named, *named.values())
        return NotImplemented if call is None else call(out, *args, *named.values())

    def learn(self, function: Callable, out: Any, args: tuple, kwargs: dict[str, Any], kind: Any, writes: int) -> None:
        """Remembers a call: `kind` is what several results are returned as."""
        arrays = [t._array for t in (out if out.__class__ in (tuple, list) else (out,))]
        if self.find is None or not all(map(is_host_array, arrays)) or is_settled():
            return
        if not all(map(_is_declared, self.operators)):
            return  # what a program computes with may stay there
        named = _given(kwargs)
        values = (*args, *named.values())
        if self.operator is None and all(self.at.get(name) is not None and value is self.defaults[self.at[name]]
                                         for name, value in named.items()):
            values, named = args, {}
            key = self.lookups.key_of()(out, *args)
        elif self.operator is not None and (*self.names[: len(args)], *named) == self.names:
            key = self.lookups.key_of()(out, *values)
        else:
            key = self.lookups.key_of()(out, args, *named, *named.values())
        if key is None:
            return
        if len(self.calls) >= _MOST:
            self.calls.clear()
        # Of two that are alike, either might be taken for the first.
        apart = len({(a.shape, a.dtype) for a in arrays}) == len(arrays)
        offered = tuple([apart and a.flags.c_contiguous and a.size > 0 for a in arrays])
        tensors = tuple([i for i, v in enumerate(values) if isinstance(v, Tensor)])
        lists = tuple([i for i, v in enumerate(values) if v.__class__ in (tuple, list)
                       and any(isinstance(t, Tensor) for t in v)])
        prepare = _preparing(len(args), tuple(named), tensors, lists, offered, kind is not None or out.__class__ in
                             (tuple, list), writes)
        self.calls[key] = prepare(function, kind)


def _may_be_found(*values: Any) -> bool:
    """Whether a call in a thread that is not as usual is a plain one: nothing but recording is switched off."""
    if modes.masks is not UNRECORDED_MASKS and modes.masks is not USUAL_MASKS:
        return False
    recorded = modes.masks is USUAL_MASKS
    for value in values:
        for tensor in value if value.__class__ in (tuple, list) else (value,):
            keys = getattr(tensor, "_keys", HOST_MASK)
            if keys & ~(HOST_MASK | VIEW_MASK | (0 if recorded else RECORDING_MASK)) or recorded and (
                    keys & VIEW_MASK and _is_woken(tensor)):
                return False
    return True


def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name that were given."""
    return {name: value for name, value in kwargs.items() if value is not MISSING} if kwargs else kwargs


@functools.cache
def _preparing(count: int, names: tuple[str, ...], tensors: tuple[int, ...], lists: tuple[int, ...],
               offered: tuple[bool, ...], several: bool, writes: int) -> Callable:
    """What gives, for (a function, what it returns several results as), the call that has it write to `out`.

    The call takes so many arguments by position, and then these by name; among them tensors, and lists of them. Of the
    memory of the targets, some is offered.
    """
    given = [f"a{i}" for i in range(count + len(names))]
    targets = range(len(offered))
    tests = [f"lie_together(a{i}._array, o{k})" for i in tensors for k in targets]
    tests += [f"any([t is not None and lie_together(t._array, o{k}) for t in a{i}])" for i in lists for k in targets]
    tests += [f"lie_together(o{i}, o{k})" for i in targets for k in targets[:i]]
    room = [f"o{k}" for k in targets if offered[k]]
    tests += ["thread in offers"] * bool(room) + [f"not {own}.flags.carray" for own in room]
    passed = [*given[:count], *(f"{name}={own}" for name, own in zip(names, given[count:], strict=True))]
    call = f"made = function({', '.join(passed)})"
    lines = [f"{''.join(f't{k}, ' for k in targets)} = out" if several else "t0 = out",
             *[f"o{k} = t{k}._array" for k in targets],
             *["thread = get_ident()"] * bool(room),
             *[f"if {test}: return NotImplemented" for test in tests],
             *[f"offers[thread] = [{', '.join(room)}]"] * bool(room),
             f"try: {call}",
             "except REFUSALS: return NotImplemented",
             *["finally: del offers[thread]"] * bool(room),
             f"{''.join(f'm{k}, ' for k in targets)} = [t._array for t in made]" if several else "m0 = made._array",
             *[f"if m{k} is not o{k} and not is_alike(m{k}, o{k}): return NotImplemented" for k in targets],
             # A result may be seen through what was taken for another one's.
             *[f"if m{k} is not o{k} and m{k}.base is not None: m{k} = m{k}.copy()" for k in targets if several]]
    for k in targets:
        lines += [f"if m{k} is not o{k}: land(m{k}, o{k})", f"counter = t{k}._counter",
                  f"if counter is None: t{k}._bump_version()", "else: counter.value += 1"]
    every = ", ".join(f"t{k}" for k in targets)
    lines += ["t0._bump_version()"] * (writes - 1)
    lines += [f"return out if kind is None else kind({every})" if several else "return out"]
    body = "\n".join("        " + line for line in lines)
    source = f"def prepare(function, kind):\n    def call(out, {', '.join(given)}):\n{body}\n    return call\n"
    scope = {"lie_together": _lie_together, "get_ident": threading.get_ident, "offers": offers, "REFUSALS": _REFUSALS,
             "is_alike": _is_alike, "land": _land, "__opname__": "out="}
    return compile_function("prepare", source, scope)


def _lie_together(array: np.ndarray, own: np.ndarray) -> bool:
    """Whether two arrays may lie in one memory, of whoever it is: those that have memory of their own do not."""
    if array is own:
        return True
    return (array.base is not None or own.base is not None) and np.may_share_memory(array, own)


def _is_alike(array: np.ndarray, own: np.ndarray) -> bool:
    """Whether a result has the shape and type of its target: data may decide about that."""
    return array.shape == own.shape and array.dtype == own.dtype


def _land(array: np.ndarray, own: np.ndarray) -> None:
    """Has the elements of a result where they should be."""
    if not is_taken(array, own):
        assign(own, array)


def _writing(operator: Operator, tensors_only: Sequence[str]) -> Callable | None:
    """The function that has the kernel of an operator write to `out`, if its family may have such kernels.

    There is no `out=` beside numbers in the place of `tensors_only`.
    """
    if type(operator.declaration.family).into_kernel is Family.into_kernel:
        return None
    schema = operator.schema
    held = ["out._keys"]
    for a in schema.arguments:
        numbers = a.type == "Tensor|Scalar" and a.name not in tensors_only
        absent = [f"{a.name} is None"] * a.optional + [f"{a.name}.__class__ in NUMBERS"] * numbers
        if a.is_tensor:
            held.append(f"(0 if {' or '.join(absent)} else {a.name}._keys)" if absent else f"{a.name}._keys")
    tensors = "".join(f"{a.name}, " for a in schema.arguments if a.is_tensor)
    names = ", ".join(schema.names)
    source = f"""def {schema.base_name}(out, {names}):
    try:
        keys = {' | '.join(held)}
        if unusual.threads:
            masks = modes.masks
            if masks is UNRECORDED: keys &= {~RECORDING_MASK}
            elif masks is not USUAL: return NotImplemented
        if keys & {~HOST_MASK} and (keys & {~(HOST_MASK | VIEW_MASK)} or is_woken(out, {tensors})):
            return NotImplemented
        if out.__class__ is not Tensor: return NotImplemented
        made = (operator.into or into_of(operator))(out, {names})
    except (AttributeError, RuntimeError, TypeError, IndexError, ValueError): return NotImplemented
    return NotImplemented if made is None else made
"""
    scope = {"unusual": unusual, "modes": modes, "UNRECORDED": UNRECORDED_MASKS, "USUAL": USUAL_MASKS,
             "NUMBERS": NUMBERS, "Tensor": Tensor, "is_woken": _is_woken, "into_of": _into_of, "operator": operator,
             "__opname__": f"{operator.name} out="}
    return compile_function(schema.base_name, source, scope)


def _is_woken(*operands: Any) -> bool:
    """Whether a view of a tensor that came to need grad is among operands."""
    bases = [getattr(v, "_base", None) for v in operands]
    return any([base is not None and base._keys & (REQUIRES_GRAD | DUAL_MASK) for base in bases])


def _into_of(operator: Operator) -> Callable:
    """The kernel that writes to its first argument; what does nothing, where a program has kernels of its own."""
    kernel = operator.declaration.family.into_kernel(operator, host()) if _is_declared(operator) else None
    operator.into = kernel or nothing_written
    return operator.into


def _is_declared(operator: Operator) -> bool:
    """Whether the CPU's kernel is what the declaration made, not a program's own."""
    return isinstance(operator.kernels.get(HOST), (Lazy, PerKeys))


def _may_overlap(source: Tensor, target: Tensor) -> bool:
    """Whether two tensors may lie in one memory."""
    if target._base is None and source._base is None and source._storage is None:
        return False
    array, own = source._array, target._array
    return not at_hand(array) or not at_hand(own) or np.may_share_memory(array, own)
