"""Names of operators, where functions come from, and questions about schemas."""

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .._compat.old_names import Tag
from .._core.tensor import Tensor
from .._dispatch.function_schema import FunctionSchema, parse_schema
from ..utils._pytree import tree_leaves

_PACKAGE = __name__.partition(".")[0]
KEYWORD_TENSORS = " with kwarg-only Tensor args. {}lease make your tensors not kwarg-only. Got: "


@dataclass
class Kernel:
    """A function that was registered, and where."""

    func: Callable
    source: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


class RegistrationHandle:
    """Takes a registration back."""

    def __init__(self, on_destroy: Callable[[], None]) -> None:
        self._on_destroy = on_destroy

    def destroy(self) -> None:
        self._on_destroy()


def get_source() -> str:
    """The file and line of the program that called this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def parse_namespace(qualname: str) -> tuple[str, str]:
    """(namespace, name) of a name with both."""
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError('Expected `qualname` to be of the form "namespace::name", but got '
                         f"{qualname}. The qualname passed to the torch.library APIs must consist of a namespace and a "
                         "name, e.g. aten::sin")
    return parts[0], parts[1]


def lookup_op(qualname: str) -> Any:
    """The overload of a qualified name."""
    from .._compat.operator_names import ops

    namespace, name = parse_namespace(qualname)
    base, _, overload = name.partition(".")
    return getattr(getattr(getattr(ops, namespace), base), overload or "default")


def is_builtin(op: Any) -> bool:
    return op.namespace in ("aten", "prim", "prims")


def is_out(op: Any) -> bool:
    return Tag.out in op.tags or any(a.is_out for a in op._schema.arguments)


def is_inplace(op: Any) -> bool:
    return Tag.inplace in op.tags or mutates_and_returns_first_arg(op)


def _parsed(schema: Any) -> Any:
    return parse_schema(schema) if isinstance(schema, str) else schema


def is_functional_schema(schema: Any, *, allow_valid_view: bool = False) -> bool:
    """Whether operators of a schema only read, and give new tensors, at least one; views may be let through."""
    schema = parse_schema(str(schema)) if not isinstance(schema, FunctionSchema) else schema
    if schema.is_mutable or not schema.returns:
        return False
    aliases = [r.alias_info for r in schema.returns]
    if all(alias is None or not (alias.before or alias.after) for alias in aliases):
        return True
    return allow_valid_view and len(aliases) == 1 and sum(a.alias_info is not None for a in schema.arguments) == 1


def is_tensor_like_type(typ: Any) -> bool:
    """Whether a type of a schema is Tensor or Tensor?."""
    return typ.base == "Tensor" and "[]" not in typ.wrappers


def is_tensorlist_like_type(typ: Any) -> bool:
    """Whether a type of a schema is a list of tensors, with or without gaps."""
    return typ.base == "Tensor" and "[]" in typ.wrappers


def mutates_and_returns_first_arg(op: Any) -> bool:
    """Whether an operator only writes its first argument, and returns it."""
    schema = op._schema
    if len(schema.returns) != 1 or not schema.arguments:
        return False
    first, returned = schema.arguments[0].alias_info, schema.returns[0].alias_info
    if first is None or returned is None or not first.is_write or first.before_set != returned.before_set:
        return False
    return all(a.alias_info is None for a in schema.arguments[1:])


def fill_defaults(schema: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call, with the defaults of those that were left out."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    filled = [*args, *(kwargs.get(a.name, a.default_value) for a in positional[len(args):])]
    named = {a.name: kwargs.get(a.name, a.default_value) for a in schema.arguments if a.kwarg_only}
    return tuple(filled), named


def zip_schema(schema: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """(argument of the schema, value) of those that a call gives."""
    for nr, argument in enumerate(schema.arguments):
        if argument.kwarg_only or nr >= len(args):
            if argument.name in kwargs:
                yield argument, kwargs[argument.name]
        else:
            yield argument, args[nr]


def can_generate_trivial_fake_impl(op: Any) -> bool:
    """Whether an operator only writes, so that nothing need be known of its results."""
    schema = op._schema
    return not is_builtin(op) and schema.is_mutable and not schema.returns and not schema._is_view_op()


def has_kwarg_only_args(schema: Any) -> bool:
    return any(a.kwarg_only for a in schema.arguments)


def has_kwarg_only_tensors(schema: Any) -> bool:
    return any(a.kwarg_only and a.type.base == "Tensor" for a in schema.arguments)


def has_tensor_arg(schema: Any) -> bool:
    return any(a.type.base == "Tensor" for a in schema.arguments)


def get_device_arg_index(schema: Any) -> int | None:
    """Where the schema has an argument `device`."""
    return next((i for i, a in enumerate(schema.arguments) if a.type.base == "Device" and a.name == "device"), None)


def iter_tensors(args: tuple, kwargs: dict[str, Any], allowed_nesting: int = 1) -> Iterator[Tensor]:
    """The tensors of a call, also in lists."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif allowed_nesting > 0 and isinstance(value, (tuple, list)):
            yield from iter_tensors(tuple(value), {}, allowed_nesting - 1)


def any_output_is_alias(args: tuple, kwargs: dict[str, Any], results: tuple) -> bool:
    """Whether one of the results lies on the memory of an argument, or of another result."""
    seen = {id(t.untyped_storage()) for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
    for tensor in tree_leaves(results):
        if isinstance(tensor, Tensor):
            storage = id(tensor.untyped_storage())
            if storage in seen:
                return True
            seen.add(storage)
    return False


def check_aliasing_constraint(name: str, prev: tuple, result: Any,
                              get_module: Callable[[], Any] = lambda: "???") -> None:
    """Raises if a custom operator returned one of its arguments, or part of one."""
    if any_output_is_alias(prev, {}, result if isinstance(result, tuple) else (result,)):
        raise RuntimeError(f"{name} (with implementation in {get_module()}): The output of this custom operator (1) "
                           "must not also be an input to this custom operator and (2) may not alias any inputs to this "
                           "custom operator or other returns. The most common way to trigger this error is if we have "
                           "y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the "
                           "offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                           "return y.")


def module_of(function: Callable) -> ModuleType | str | None:
    return inspect.getmodule(function) or getattr(function, "__module__", None)


# How much of a tensor's geometry an operator needs to see kept, from most to least.
tags_by_priority = (Tag.needs_exact_strides, Tag.needs_contiguous_strides, Tag.needs_fixed_stride_order,
                    Tag.flexible_layout)


def get_layout_constraint_tag(fn: Any, *, with_default: bool = True) -> Any:
    """The most demanding tag that an operator has of those."""
    found = next((tag for tag in tags_by_priority if tag in fn.tags), None)
    if found is not None or not with_default:
        return found
    return Tag.flexible_layout if is_builtin(fn) else Tag.needs_exact_strides
