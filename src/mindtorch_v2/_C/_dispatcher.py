"""What PyTorch's extension says of operators: their schemas, and the keys that they have kernels for."""

from typing import Any

from .._compat.operator_names import OpOverload, packet_named
from .._dispatch.function_schema import FunctionSchema
from .._dispatch.keys import BACKENDS
from .._dispatch.registry import registry
from .._library.utils import any_output_is_alias
from ..library import registered_keys
from ..utils._pytree import tree_leaves


def _overloads(name: str) -> list[OpOverload]:
    return packet_named(name).op_overloads()


def _dispatch_has_kernel(name: str) -> bool:
    return name in registry or name.partition(".")[0] in registry


def _dispatch_has_kernel_for_dispatch_key(name: str, key: Any) -> bool:
    """Whether a kernel of an operator was registered for this very key."""
    return (key if isinstance(key, str) else key.name) in registered_keys(name)


def _dispatch_has_kernel_for_any_dispatch_key(name: str, keys: Any) -> bool:
    return any(key.name in registered_keys(name) for key in keys)


def _dispatch_has_computed_kernel_for_dispatch_key(name: str, key: Any) -> bool:
    """Whether a call with this key finds a kernel."""
    named = key if isinstance(key, str) else key.name
    found = registered_keys(name)
    if "CompositeImplicitAutograd" in found or named in found:
        return True
    return "CompositeExplicitAutograd" in found and named in {k.name for k in BACKENDS}


def _dispatch_get_all_op_names() -> list[str]:
    return [operator.name for operator in registry]


def _jit_get_schemas_for_operator(name: str) -> list[FunctionSchema]:
    return [overload._schema for overload in _overloads(name)]


def _jit_get_all_schemas() -> list[FunctionSchema]:
    names = dict.fromkeys(operator.name.partition(".")[0] for operator in registry)
    return [schema for name in names for schema in _jit_get_schemas_for_operator(name)]


def _get_schema(name: str, overload: str) -> FunctionSchema:
    return getattr(packet_named(name), overload or "default")._schema


def _jit_get_operation(name: str) -> tuple[Any, list[str]]:
    packet = packet_named(name)
    return packet, ["" if overload == "default" else overload for overload in packet.overloads()]


def _get_operation_overload(name: str, overload: str) -> Any:
    return getattr(packet_named(name), overload or "default", None)


def _jit_resolve_packet(name: str, *args: Any, **kwargs: Any) -> str:
    """The overload that a call of an operator is."""
    from .._compat.operator_names import overload_name

    for operator in packet_named(name)._operators().values():
        values = operator.schema.match(args, kwargs)
        if values is not None:
            return overload_name(operator, values)
    raise RuntimeError(f"Overloaded torch operator invoked from Python failed to match any schema:\n{name}")


def _any_requires_grad(*args: Any, **kwargs: Any) -> bool:
    return any(getattr(leaf, "requires_grad", False) for leaf in tree_leaves((args, kwargs)))


def _any_output_is_alias_to_input_or_output(args: tuple, kwargs: dict, results: tuple) -> bool:
    return any_output_is_alias(args, kwargs, results)
