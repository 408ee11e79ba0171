"""The public function of an operator, generated from its schema.

A general binder would cost several times what a small operator takes, so each operator gets a Python function with
its own signature: quick checks that the arguments are what kernels take, the keys OR-ed together, one table look-up,
the kernel. Whatever fails a quick check goes through `Schema.bind`, which converts or raises. The source is made
when the function is first called. Tracebacks and debuggers show the operator's declaration in its place.
"""

import functools
import linecache
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from .._core.allocation import out_of_memory, too_large
from .._core.device import Size, device, get_default_device, layout, memory_format
from .._core.dtype import dtype
from .._core.warn import warn, warn_once
from . import stored_code
from .keys import (
    AUTOCAST_MASK,
    BACKEND_MASK,
    DEVICE_MASKS,
    FUNC_MASK,
    PYTHON_MASK,
    RECORDING_MASK,
    SPARSE_MASK,
    changed_modes,
    modes,
    unusual,
)
from .old_orders import named_by_old_order
from .overloads import lines_to_others
from .registry import Operator, registry
from .schema import KEYWORD_ALIASES, MISSING, NUMBERS, Argument

_SEQUENCES = frozenset((list, Size))  # what is made a tuple without further ado


# Generated source by what it is ("aten::add", "aten::add autograd"), for `python -m mindtorch_v2 show`.
SOURCES: dict[str, str] = {}
# How CPython's location table says of eight instructions that they belong to the first line, and to no column.
_ON_FIRST_LINE = b"\xef\x00"


def _stub(*args: Any, **kwargs: Any) -> Any:
    import sys  # its globals are the operator's scope

    tracer = sys.gettrace()
    sys.settrace(None)  # a debugger that steps in does not see how the function is made
    try:
        made = __build__()  # type: ignore[name-defined]  # noqa: F821 - the scope's own
    finally:
        sys.settrace(tracer)
    return made(*args, **kwargs)


def lazy_function(name: str, scope: dict[str, Any], source: Callable[[], str], doc: str = "",
                  rebuilds: list | None = None) -> FunctionType:
    """A function whose body is compiled at its first call; the function object stays the same.

    `rebuilds` is given what compiles it anew.
    """

    def build() -> Callable:
        if rebuilds is not None and build not in rebuilds:
            rebuilds.append(build)
        made = compile_function(name, source(), scope)
        function.__code__, function.__defaults__ = made.__code__, made.__defaults__
        function.__kwdefaults__ = made.__kwdefaults__
        return function

    scope["__build__"] = build
    function: Any = FunctionType(_stub.__code__, scope, name)
    function.__doc__ = doc
    function.__qualname__ = name
    return function


def compile_function(name: str, source: str, scope: dict[str, Any]) -> FunctionType:
    """The function `name` out of `source`. Tracebacks and debuggers show the declaration of the operator it is for."""
    purpose = scope.get("__opname__", name)
    SOURCES[purpose] = source
    scope.setdefault("__name__", "mindtorch_v2")
    operator_name, _, role = purpose.partition(" ")
    operator = registry.get(operator_name) if operator_name in registry else None
    if operator is None or operator.declaration is None:
        filename = f"<mindtorch_v2 {purpose}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(_compiled(source, filename), scope)
    else:
        declaration, label = operator.declaration, f"{operator.schema.base_name} {role}".rstrip()
        exec(_compiled_at(source, declaration.file, declaration.line, label), scope)
    return scope[name]


@functools.lru_cache(128)
def _compiled(source: str, filename: str) -> CodeType:
    """Code that is run in several scopes: the plans of one program for other sizes read alike."""
    return stored_code.found((source, filename), lambda: compile(source, filename, "exec"))


@functools.lru_cache(1024)
def _compiled_at(source: str, filename: str, line: int, label: str) -> CodeType:
    """As `_compiled`, on a line of a file: what is prepared for calls of an operator reads alike for many sizes."""
    return stored_code.found((source, filename, str(line), label),
                             lambda: _placed(compile(source, filename, "exec"), line, label))


def _placed(code: CodeType, line: int, label: str) -> CodeType:
    """Code that lies on one line of its file: stepping over it takes one step, and no line of it needs a file."""
    blocks, rest = divmod(len(code.co_code) // 2, 8)
    table = _ON_FIRST_LINE * blocks + (bytes((_ON_FIRST_LINE[0] - 8 + rest, 0)) if rest else b"")
    constants = tuple([_placed(c, line, label) if c.__class__ is CodeType else c for c in code.co_consts])
    name = code.co_name if code.co_name.startswith("<") else label  # generator expressions keep theirs
    return code.replace(co_firstlineno=line, co_linetable=table, co_consts=constants, co_name=name, co_qualname=name)


_named_device = functools.lru_cache(64)(device)


def device_keys(requested: device | None, keys: int) -> int:
    """The keys of a call that names a device: that device's, else the tensors', else the default's."""
    if requested is None:
        return keys if keys & BACKEND_MASK else keys | DEVICE_MASKS[get_default_device().type]
    mask = DEVICE_MASKS.get(requested.type)
    if mask is None:
        raise RuntimeError(f"device type '{requested.type}' is not one this build of mindtorch_v2 can run on")
    return (keys & (FUNC_MASK | SPARSE_MASK | ~BACKEND_MASK)) | mask


def keys_of(operator: Operator, values: Sequence[Any]) -> int:
    """The keys of bound arguments."""
    return (operator.keys or _learn_keys(operator))(values)


def _learn_keys(operator: Operator) -> Callable[[Sequence[Any]], int]:
    arguments = list(enumerate(operator.schema.arguments))
    parts = [f"getattr(values[{i}], '_keys', 0)" for i, a in arguments if a.is_tensor and not a.is_list]
    parts += [f"joined(values[{i}])" for i, a in arguments if a.is_tensor and a.is_list]
    keys, requested = " | ".join(parts) or "0", [i for i, a in arguments if a.type == "Device"]
    known = f"device_keys(values[{requested[0]}], {keys})" if requested else f"{keys} or device_keys(None, 0)"
    made = operator.keys = eval(f"lambda values: {known}", {"device_keys": device_keys, "joined": _joined_keys})
    return made


def _joined_keys(values: Sequence[Any] | None) -> int:
    keys = 0
    for value in values or ():
        keys |= getattr(value, "_keys", 0)
    return keys


def call_bound(operator: Operator, values: Sequence[Any]) -> Any:
    """Runs an operator on values in the schema's order."""
    keys = (operator.keys or _learn_keys(operator))(values)
    if unusual.threads:
        include, allow = modes.masks
        keys = (keys | include) & allow
    try:
        return (operator.table.get(keys) or operator.lookup(keys))(*values)
    except MemoryError as error:
        raise out_of_memory(error) from None
    except ValueError as error:
        raise too_large(error)  # noqa: B904 - mostly the same error


_LEAF_KEYS = BACKEND_MASK | AUTOCAST_MASK


def call_unrecorded(operator: Operator, values: Sequence[Any]) -> Any:
    """The same under no_grad, which a backend's kernel need not be told: it records nothing."""
    include, allow = modes.masks
    keys = ((operator.keys or _learn_keys(operator))(values) | include) & allow & ~RECORDING_MASK
    if keys & ~_LEAF_KEYS:
        with changed_modes(grad_enabled=False):
            return call_bound(operator, values)
    return (operator.table.get(keys) or operator.lookup(keys))(*values)


# After a `try` around the kernel, which costs nothing unless something is raised.
_REFUSALS = ("except MemoryError as error: raise out_of_memory(error) from None",
             "except ValueError as error: raise too_large(error)")


# Integers up to this are compared in no time; the slow path knows which larger ones are too large.
_LARGE = 2**30 - 1


def _unless_int(name: str) -> str:
    """The condition that something is no integer, or perhaps too large a one."""
    return f"{name}.__class__ is not int or not -{_LARGE} < {name} < {_LARGE}"


def _quick_check(argument: Argument, strict: bool) -> list[str]:
    """Lines that leave for the slow path unless the argument is as kernels take it.

    An integer becomes a floating number where that is wanted, unless `strict`: then another overload may take it.
    """
    name, leave = argument.name, "return __slow__"
    unless_none = f"{name} is not None and " if argument.optional or argument.refuses_none else ""
    if argument.is_list:
        if argument.is_tensor:
            return []
        kind = {"int": "int", "float": "float", "bool": "bool"}.get(argument.type)
        lines = [f"if {name}.__class__ is not tuple:",
                 f"    if {name}.__class__ not in SEQUENCES: {leave}",
                 f"    {name} = tuple({name})"]
        if argument.type == "Scalar":
            lines += [f"for _item in {name}:", f"    if _item.__class__ not in NUMBERS: {leave}"]
        if kind:
            wrong = _unless_int("_item") if kind == "int" else f"_item.__class__ is not {kind}"
            lines += [f"for _item in {name}:", f"    if {wrong}: {leave}"]
            if argument.size:  # one number stands for all
                otherwise = ["    " + line for line in lines]
                limits = f" and -{_LARGE} < {name} < {_LARGE}" if kind == "int" else ""
                lines = [f"if {name}.__class__ is {kind}{limits}: {name} = ({name},) * {argument.size}", "else:",
                         *otherwise]
        if argument.size and argument.size > 1:
            unless_default = f" and {name} is not __default_{name}__" if argument.default == () else ""
            lines.append(f"if len({name}) != {argument.size}{unless_default}: {leave}")
        return [f"if {name} is not None:", *("    " + line for line in lines)] if argument.optional else lines
    if argument.type == "int":
        return [f"if {unless_none}({_unless_int(name)}): {leave}"]
    if argument.type == "float" and not strict:
        return [f"if {unless_none}{name}.__class__ is not float:",
                f"    if {_unless_int(name)}: {leave}",
                f"    {name} = float({name})"]
    if argument.type == "Scalar":
        return [f"if {name}.__class__ is int:",
                f"    if not -{_LARGE} < {name} < {_LARGE}: {leave}",
                f"elif {unless_none}{name}.__class__ not in NUMBERS: {leave}"]
    test = {"bool": "is not bool", "float": "is not float", "ScalarType": "is not __dtype__",
            "Device": "is not __device__", "Layout": "is not __layout__",
            "MemoryFormat": "is not __memory_format__", "str": "is not str"}.get(argument.type)
    if test:
        named = [f"if {name}.__class__ is str: {name} = __named_device__({name})"] * (argument.type == "Device")
        return [*named, f"if {unless_none}{name}.__class__ {test}: {leave}"]
    if argument.type == "Generator":
        return [f"if {name} is not None and not hasattr({name}, 'manual_seed'): {leave}"]
    return [f"if {name} is MISSING: {leave}"] if argument.default is MISSING else []


def _converts(argument: Argument) -> bool:
    """Whether `_quick_check` makes something else of an argument."""
    return argument.is_list or argument.type in ("float", "Device")


def _conversion(argument: Argument, strict: bool) -> list[str]:
    """Lines of `_quick_check` that make something else of an argument; what a list holds is not looked at."""
    name, kind = argument.name, {"int": "int", "float": "float", "bool": "bool"}.get(argument.type)
    if not argument.is_list or argument.type == "Scalar" or kind is None:
        return _quick_check(argument, strict)
    lines = [f"if {name}.__class__ is not tuple{f' and {name} is not None' * argument.optional}:",
             f"    if {name}.__class__ not in SEQUENCES: return __slow__",
             f"    {name} = tuple({name})"]
    if argument.size:
        lines = [f"if {name}.__class__ is {kind}: {name} = ({name},) * {argument.size}", f"el{lines[0]}", *lines[1:]]
    return lines


def _key_lines(arguments: Sequence[Argument]) -> list[str]:
    """Lines that OR the tensors' keys into `keys`, in as few statements as can be."""
    plain = [a for a in arguments if a.type == "Tensor" and not a.optional and not a.is_list]
    lines = [f"keys = {' | '.join(f'{a.name}._keys' for a in plain) or '0'}"]
    for a in arguments:
        if not a.is_tensor or a in plain:
            continue
        if a.is_list:
            unless_none = f"{a.name} is not None and " if a.optional else ""
            lines.append(f"if {unless_none}{a.name}.__class__ is not tuple and {a.name}.__class__ is not list: return "
                         "__slow__")
            lines.append(f"for _item in {a.name}{' or ()' if a.optional else ''}:")
            lines.append(f"    {'if _item is not None: ' * a.gaps}keys |= _item._keys")
        elif a.type == "Tensor|Scalar":
            unless_none = f"{a.name} is not None and " if a.optional else ""
            lines.append(f"if {a.name}.__class__ is int:")
            lines.append(f"    if not -{_LARGE} < {a.name} < {_LARGE}: return __slow__")
            lines.append(f"elif {unless_none}{a.name}.__class__ not in NUMBERS: keys |= {a.name}._keys")
        else:
            lines.append(f"if {a.name} is not None: keys |= {a.name}._keys")
    return lines


_KEEPDIM_LINES = [
    "if dim is MISSING:",
    "    if (keepdim is not MISSING or 'keepdims' in unexpected) and 'axis' not in unexpected: raise __without_dim__()",
    "    dim = __default_dim__",
    "if keepdim is MISSING: keepdim = __default_keepdim__",
]


_KEYS_MASKED = ["if unusual.threads:", "    include, allow = modes.masks", "    keys = (keys | include) & allow"]


def _masking(operator: Operator, constants: Sequence[str] = ()) -> list[str]:
    """Lines that turn the tensors' keys into the call's; those of a pipeline return what it knows to follow.

    `constants` are arguments that have their defaults here.
    """
    recorder = operator.recorder
    if recorder is None:
        return _KEYS_MASKED
    return ["if unusual.threads:", "    _masks = modes.masks",
            *("    " + line for line in recorder.lines(constants)),
            "    include, allow = _masks", "    keys = (keys | include) & allow"]


def _planned_or(operator: Operator) -> str:
    return "" if operator.finder is None else "_plan or "


def _unless_planned(operator: Operator, names: str, resolve: Sequence[str]) -> Sequence[str]:
    """Lines that find the keys of a call, for which there is no plan."""
    if operator.finder is None:
        return resolve
    return [f"_plan = None if unusual.threads else __find__({names})", "if _plan is None:",
            *("    " + line for line in resolve)]


def _holds_class(values: Sequence[Any]) -> bool:
    """Whether the class Tensor itself, which has the names of a tensor, is among arguments."""
    flat = (v for value in values for v in (value if value.__class__ in _SEQUENCES else (value,)))
    return any(isinstance(v, type) and hasattr(v, "_keys") for v in flat)


def _caller_source(operator: Operator, name: str, takes_out: bool, is_method: bool, checks: Sequence[str] = (),
                   told: Collection[str] = (), strict: bool = False, overloads: Sequence[Operator] = ()) -> str:
    """The source of a public function; `told` are keywords that, if written, count even where they are the default.

    It leaves for `overloads` where one argument tells that another one is meant.
    """
    schema = operator.schema
    varargs = schema.varargs if schema.gathers(is_method) else None
    positional, keyword_only = schema.positional, [a for a in schema.arguments if a.keyword_only]
    # What PyTorch has in two overloads: one over all dimensions, and one over some, which alone has a `keepdim`.
    by_dim = operator.declaration is not None and getattr(operator.declaration.aten.overload, "argument", "") == "dim"
    needs_dim = by_dim and "keepdim" in schema.index
    signature: list[str] = []
    for a in positional:
        if a.name == varargs:
            break
        unset = (needs_dim and a.name in ("dim", "keepdim")) or a.refuses_none
        signature.append(f"{a.name}=MISSING" if unset else f"{a.name}=__default_{a.name}__")
    if varargs:
        rest = [a for a in positional[schema.index[varargs] :] if a.name != varargs]
        signature.append("*extra")
        signature += [f"{a.name}=__default_{a.name}__" for a in rest]
    else:
        rest = []
        signature.append("*extra")
    signature += [f"{a.name}=MISSING" if a.name in told else f"{a.name}=__default_{a.name}__" for a in keyword_only]
    signature += ["out=MISSING"] * takes_out + ["**unexpected"]
    given = [a.name for a in positional if a.name != varargs and a not in rest]
    kwargs = "".join(f"{a.name}={'_given_' * (a.name in told)}{a.name}, " for a in (*rest, *keyword_only))
    passed = "".join(f"{n}, " for n in given)
    slow = f"__bound_call__(({passed}*extra,), dict({kwargs}**unexpected), {'out' if takes_out else 'MISSING'})"
    other = ""
    if overloads and not varargs:
        taken = [*given, "extra", *(a.name for a in keyword_only), *["out"] * takes_out, "unexpected"]
        written = [f"_given_{n}" if n in told else n for n in taken]
        chosen = lines_to_others(operator, overloads, told, takes_out, is_method)
        lines = "".join(f"    {line}\n" for line in [*chosen, f"return {slow.replace('_given_', '')}"])
        slow, other = f"__other__({', '.join(written)})", f"def __other__({', '.join(taken)}):\n{lines}"
    leave = " or ".join(["unexpected", *(["out is not MISSING"] if takes_out else [])])
    plain = f"{name}, out, ({passed}*extra,), dict({kwargs.replace('_given_', '')}**unexpected)"
    # An argument that may be left out, but not be None:
    refusing = [a.name for a in positional if a.refuses_none]
    body = [f"if {n} is None: raise __expected__('{n}', None)" for n in refusing]
    body += ["if dim is MISSING and out is not MISSING and 'axis' not in unexpected: raise __without_dim__()"] * (
        needs_dim and takes_out and schema.base_name != "mean")
    if takes_out:
        simple, ordered = ["not extra"], list(schema.names)
        if overloads:  # what they share, and then whatever the one that is meant has more
            ordered = [*given, "*extra"]
            simple = [f"{a.name} is {'MISSING' if a.name in told else f'__default_{a.name}__'}" for a in keyword_only]
        keeping = ["    if keepdim is MISSING and dim is not MISSING: keepdim = __default_keepdim__"] * needs_dim
        direct = [f"    if __into__ is not None and {' and '.join(['not unexpected', *simple])}:",
                  f"        _stored = __into__(out, {', '.join(ordered)})",
                  "        if _stored is not NotImplemented: return _stored"] * (not varargs)
        body += ["if out is not MISSING:", *keeping, *direct,
                 "    if __stored__ is not None:", f"        _stored = __stored__({plain})",
                 "        if _stored is not NotImplemented: return _stored"]
    if needs_dim:
        body += _KEEPDIM_LINES
    body += [f"if {n} is MISSING: {n} = None" for n in refusing]
    for n in told:
        body += [f"_given_{n} = {n}", f"if {n} is MISSING: {n} = __default_{n}__"]
    if varargs:
        # one tuple given: take it; integers given one by one: they are the tuple
        body += [f"if not extra or {leave}: return {slow}",
                 f"{varargs} = extra[0] if len(extra) == 1 and extra[0].__class__ is not int else extra"]
    else:
        body += [f"if extra or {leave}: return {slow}"]
    others = [a for a in schema.arguments if not a.is_tensor]
    early = [a for a in others if operator.finder is not None and _converts(a)]  # plans are found by what they become
    restored = "".join(f"{a.name} = _written_{a.name}; " for a in early)
    body += [f"_written_{a.name} = {a.name}" for a in early]
    for a in early:
        body += _conversion(a, strict)
    keys = [f"    {line}" for line in _key_lines(schema.arguments)]
    resolve = ["try:", *keys, "except AttributeError: return __slow__", *checks]
    for a in others:
        resolve += _quick_check(a, strict) * (a not in early or a.is_list)
    requested = next((a.name for a in schema.arguments if a.type == "Device"), None)
    if requested:
        resolve.append(f"keys = __device_keys__({requested}, keys)")
    elif not any(a.is_tensor and not a.is_list for a in schema.arguments):
        resolve.append("if not keys: keys = __device_keys__(None, 0)")
    resolve += _masking(operator)
    names = ", ".join(schema.names)
    body += [*_unless_planned(operator, names, resolve),
             f"try: return ({_planned_or(operator)}table.get(keys) or lookup(keys))({names})",
             *_REFUSALS,
             "except (AttributeError, TypeError):",
             f"    if not __holds_class__(({''.join(f'{n}, ' for n in schema.names)})): raise",
             "    return __slow__"]
    text = "\n".join("    " + line.replace("return __slow__", f"{restored}return {slow}") for line in body)
    return f"{other}def {name}({', '.join(signature)}):\n{text}\n"


def as_written(operator: Operator, args: list[Any], kwargs: dict[str, Any],
                told: Collection[str] = ()) -> tuple[tuple, dict[str, Any]]:
    """A call without the defaults that the generated signature filled in; by name where positions are left out."""
    schema = operator.schema
    defaults = schema.defaults
    if kwargs:
        kwargs = {k: v for k, v in kwargs.items() if v is not MISSING and
                  (k in told or k not in schema.index or v is not defaults[schema.index[k]])}
    while args and len(args) <= len(schema.positional) and args[-1] is defaults[len(args) - 1]:
        args.pop()
    if not kwargs:
        for value in args:
            if value is MISSING:
                break
        else:
            return tuple(args), kwargs
    renamed = [schema.index.get(KEYWORD_ALIASES.get(name, ""), len(args)) for name in kwargs]
    left_out = {i for i, a in enumerate(args) if a is MISSING or (i in renamed and a is defaults[i])}
    if left_out:
        first = min(left_out)
        named = {schema.names[i]: a for i, a in enumerate(args) if i > first and i not in left_out}
        return tuple(args[:first]), named | kwargs
    return tuple(args), kwargs


def _foreign(values: Sequence[Any], out: Any = MISSING) -> list[Any]:
    """Arguments, also in lists, that want to see the call: no tensors, or, beside `out=`, of subclasses."""
    flat = [v for value in (*values, out) for v in (value if value.__class__ in (tuple, list) else (value,))]
    subclasses = PYTHON_MASK if out is not MISSING and modes.masks[1] & PYTHON_MASK else 0
    return [v for v in flat if hasattr(type(v), "__torch_function__")
            and (not hasattr(v, "_keys") or v._keys & subclasses)]


def bound_call(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any], out: Any,
               write_out: Callable | None, public: Callable, is_method: bool) -> Any:
    """The general path of a public function: __torch_function__ of foreign objects, binding, `out=`."""
    args, kwargs = as_written(operator, list(args), kwargs)
    foreign = _foreign((*args, *kwargs.values()), out)
    if foreign:
        return call_torch_function(public, foreign, args, kwargs if out is MISSING else {**kwargs, "out": out})
    old = named_by_old_order(operator.schema, args, kwargs, is_method)
    if old is not None:
        args, kwargs = (), old
    values = operator.schema.bind(args, kwargs, is_method=is_method)
    if out is MISSING:
        return call_bound(operator, values)
    assert write_out is not None
    return write_out(operator, values, out)


def is_of_pytorch(kind: type) -> bool:
    """Whether a class is PyTorch's own Tensor, or one of its subclasses."""
    return any(c.__name__ == "TensorBase" and c.__module__ == "torch._C" for c in kind.__mro__)


def calls_pytorch(function: Callable) -> bool:
    """Whether a function is one of PyTorch's own: written in C, or in a package that holds PyTorch's Tensor."""
    if not isinstance(function, FunctionType):
        return isinstance(function, (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType))
    package = str(function.__globals__.get("__name__")).partition(".")[0]
    return package == "torch" and is_of_pytorch(getattr(sys.modules.get("torch"), "Tensor", object))


def mixed_libraries(function: Callable | str) -> str:
    """What is said of a call with tensors of both libraries."""
    return (f"{getattr(function, '__name__', function)}(): tensors of PyTorch do not mix with tensors and functions of "
            "mindtorch_v2 in one call; from_dlpack() brings a tensor over")


def by_precedence(owners: Sequence[Any]) -> list[Any]:
    """One owner of each type, subclasses first, as PyTorch asks them."""
    ordered: list[Any] = []
    for owner in owners:
        if type(owner) not in map(type, ordered):
            at = next((i for i, o in enumerate(ordered) if isinstance(owner, type(o))), len(ordered))
            ordered.insert(at, owner)
    return ordered


def _warn_of_plain_method(in_python: bool) -> None:
    """PyTorch's warning, which its functions written in Python give each time and as another class."""
    name = "Defining your `__torch_function__"
    advice = " as a plain method is deprecated and will be an error in future, please define it as a classmethod."
    if in_python:
        warn(name + advice, DeprecationWarning)
    else:
        warn_once(f"{name}`{advice}")


def call_torch_function(
    public: Callable, owners: Sequence[Any], args: tuple, kwargs: dict, in_python: bool = False
) -> Any:
    """Asks each owner's __torch_function__ in turn."""
    for owner in owners:
        if is_of_pytorch(type(owner)):
            raise TypeError(mixed_libraries(public))
    ordered = by_precedence(owners)
    types = tuple(type(o) for o in ordered)
    for owner in ordered:
        asked = owner.__torch_function__
        if getattr(asked, "__self__", None) is owner:
            _warn_of_plain_method(in_python)
        result = asked(public, types, args, kwargs)
        if result is not NotImplemented:
            return result
    tried = "".join(f"\n\n  - tensor subclass {t}" for t in types)
    raise TypeError(f"Multiple dispatch failed for 'torch.{public.__name__}'; all __torch_function__ handlers returned "
                    f"NotImplemented:{tried}")


def _caller_scope(operator: Operator) -> dict[str, Any]:
    return {
        "MISSING": MISSING, "NUMBERS": NUMBERS, "SEQUENCES": _SEQUENCES, "modes": modes, "unusual": unusual,
        "out_of_memory": out_of_memory, "too_large": too_large,
        "table": operator.table,
        "lookup": operator.lookup,
        "__dtype__": dtype, "__device__": device, "__layout__": layout, "__memory_format__": memory_format,
        "__device_keys__": device_keys, "__named_device__": _named_device, "__holds_class__": _holds_class,
        "__expected__": operator.schema.expected,
        "__without_dim__": lambda: TypeError(f'{operator.schema.base_name}() missing 1 required positional arguments: '
                                             '"dim"'),
        "__opname__": operator.name,
        "__name__": "mindtorch_v2",
    }


def _with_defaults(operator: Operator, scope: dict[str, Any], source: Callable[[], str]) -> Callable[[], str]:
    """A function that gives the source, and puts the defaults it names into the scope: neither before they are used."""

    def build() -> str:
        scope.update({f"__default_{a.name}__": a.default for a in operator.schema.arguments})
        scope["__find__"] = operator.finder
        if operator.recorder is not None:
            scope.update(operator.recorder.scope)
        return source()

    return build


def make_caller(operator: Operator, name: str, write_out: Callable | None = None, doc: str = "",
                is_method: bool = False, storing: Callable | None = None) -> FunctionType:
    """The public function of one operator.

    `storing(operators)` gives what serves most calls that `write_out` would: the function that has kernels write to
    `out`, for the operator's arguments in order, and the one that copies results there.
    """
    scope = _caller_scope(operator)
    scope["__bound_call__"] = lambda args, kwargs, out: bound_call(operator, args, kwargs, out, write_out, function,
                                                                   is_method)

    def source() -> str:
        scope["__into__"], scope["__stored__"] = (None, None) if storing is None else storing([operator])
        return _caller_source(operator, name, write_out is not None, is_method)

    function = lazy_function(name, scope, _with_defaults(operator, scope, source), doc, operator.rebuilds)
    return function


def make_operator(operator: Operator, special: str, tensor_class: type, *, reflected: bool,
                  foreign: Callable) -> FunctionType:
    """The method behind a Python operator (`__add__`): the caller without what an operator can never be given."""
    first, second = ("other", "self") if reflected else ("self", "other")

    def source() -> str:
        defaults = "".join(f", __default_{n}__" for n in operator.schema.names[2:])
        of_number = ("    if other.__class__ is int:\n"
                     f"        if not -{_LARGE} < other < {_LARGE}: return __foreign__(self, other)\n"
                     "        keys = self._keys\n"
                     "    elif other.__class__ is not Tensor and other.__class__ in NUMBERS: keys = self._keys\n"
                     "    else:\n")
        of_tensor = ("    try: keys = self._keys | other._keys\n"
                     "    except AttributeError: return __foreign__(self, other)\n")
        of_keys = of_tensor if takes_only_tensors(operator) else of_number + textwrap.indent(of_tensor, "    ")
        names = f"{first}, {second}{defaults}"
        resolve = _unless_planned(operator, names, [*textwrap.dedent(of_keys).splitlines(), *masking()])
        return (f"def {special}(self, other):\n"
                + "".join(f"    {line}\n" for line in resolve) +
                f"    try: return ({_planned_or(operator)}table.get(keys) or lookup(keys))({names})\n"
                + "".join(f"    {line}\n" for line in _REFUSALS)
                + "    except (AttributeError, TypeError):\n"
                  "        if not __holds_class__((other,)): raise\n"
                  "        return NotImplemented\n")

    def masking() -> list[str]:
        names = operator.schema.names
        plain = reflected or tuple(names[:2]) != ("self", "other")
        return _KEYS_MASKED if plain else _masking(operator, names[2:])

    scope = _caller_scope(operator) | {"__foreign__": foreign, "Tensor": tensor_class}
    return lazy_function(special, scope, _with_defaults(operator, scope, source), rebuilds=operator.rebuilds)


def takes_only_tensors(operator: Operator) -> bool:
    """Whether the second operand cannot be a number, as in a matrix product."""
    return operator.schema.arguments[1].type == "Tensor"


_LEAVE: Any = type("Leave", (), {"__repr__": lambda self: "<another overload>"})()


def _strict_checks(operator: Operator) -> list[str]:
    """Checks of what a single operator's caller leaves to its kernel, but a choice between overloads depends on."""
    lines = []
    for a in operator.schema.arguments:
        if a.type in ("Generator", "Any"):
            lines.append("return __slow__" if a.default is MISSING else f"if {a.name} is not __default_{a.name}__: "
                                                                        "return __slow__")
    return lines


def make_overloaded(name: str, operators: Sequence[Operator], write_out: Callable | None, doc: str = "",
                    is_method: bool = False, storing: Callable | None = None) -> FunctionType:
    """One public function over several overloads: the first whose schema takes the arguments is run.

    Each overload's own caller first looks whether the arguments are exactly what its kernels take; the public function
    is that of the first overload, whose way out leads to the others.
    """

    def quick_caller(operator: Operator, otherwise: Callable, told: Callable[[], Collection[str]],
                     overloads: Sequence[Operator] = ()) -> FunctionType:
        scope = _caller_scope(operator) | {"__bound_call__": otherwise, "__leave__": _LEAVE}

        def source() -> str:
            scope["__overloads__"] = [quick for _, quick, _ in others]
            scope["__into__"], scope["__stored__"] = (None, None) if storing is None else storing(operators)
            return _caller_source(operator, name, write_out is not None, is_method, _strict_checks(operator), told(),
                                  strict=True, overloads=overloads)

        return lazy_function(name, scope, _with_defaults(operator, scope, source), doc, operator.rebuilds)

    def another(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Any:
        args, kwargs = as_written(operators[0], list(args), kwargs, not_shared())
        if out is MISSING:
            for operator, quick, required in others:
                if len(args) + len(kwargs) < required or kwargs and any(
                        operator.schema.index.get(name, len(args)) < len(args) for name in kwargs):
                    continue
                result = quick(*args, **kwargs)
                if result is not _LEAVE:
                    return result
        foreign = _foreign((*args, *kwargs.values()), out)
        if foreign:
            return call_torch_function(public, foreign, args, kwargs if out is MISSING else {**kwargs, "out": out})
        for operator in operators:
            values = operator.schema.match(args, kwargs, is_method=is_method)
            if values is not None:
                if out is MISSING:
                    return call_bound(operator, values)
                assert write_out is not None
                return write_out(operator, values, out)
        shown = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
        choices = "".join(f"\n * {operator.schema}" for operator in operators)
        raise TypeError(f"{name}() received an invalid combination of arguments - got ({shown}), but expected one "
                        f"of:{choices}")

    @functools.cache
    def not_shared() -> frozenset[str]:
        """Keywords of the first overload with which another does not fit, whatever their values."""
        return frozenset(a.name for a in operators[0].schema.arguments if a.keyword_only and
                         not all(a.name in operator.schema.index for operator in operators[1:]))

    others = [(operator, quick_caller(operator, lambda args, kwargs, out: _LEAVE, tuple),
               sum(a.default is MISSING for a in operator.schema.arguments)) for operator in operators[1:]]
    public = quick_caller(operators[0], another, not_shared, operators[1:])
    return public
