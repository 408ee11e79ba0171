"""`torch.ops`: operators by namespace, name and overload."""

import functools
import importlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from .._core.computed import computed_once
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.function_schema import AliasInfo, FunctionSchema, parse_schema
from .._dispatch.function_schema import Argument as SchemaArgument
from .._dispatch.registry import Operator, registry
from .._ops._declare.aten import AS_DECLARED, Aten, declared_overload
from .._ops._declare.out import write_out
from .absent import absent_function
from .named_functions import NAMESPACES
from .old_names import Tag

_OF_SYMBOLS = ("sym_numel", "sym_size", "sym_storage_offset", "sym_stride")
_PACKAGE = __name__.partition(".")[0]

# Operators that subclasses of Tensor in other libraries name in tables of theirs.
_ABSENT = {
    "aten": frozenset("_pin_memory _sparse_addmm _sparse_mm_reduce_impl".split()),
    "torchvision": frozenset("""
        _deform_conv2d_backward _ps_roi_align_backward _ps_roi_pool_backward _roi_align_backward _roi_pool_backward
        box_iou_rotated qnms qroi_align""".split()),
}
# Of libraries whose compiled operators are declared here; by namespace, the module that does it when asked.
_DECLARED_HERE = {"torchvision": "_ops.vision", "torchaudio": "_ops.audio", "_torchaudio": "_ops.audio"}
_COMPILED = re.compile(r"(torchvision)/_C\.|(torchaudio)/lib/(_|lib)torchaudio\.")  # their compiled files


@functools.cache
def absent_operator(name: str) -> Any:
    """A packet whose overloads can be named; a call raises NotImplementedError."""
    packet = absent_function(f"torch.ops.{name}")
    packet.default = absent_function(f"torch.ops.{name}.default")
    return packet


def _method_of(name: str) -> str:
    """The method that an operator of ATen is: sizes as numbers that may be symbols are the sizes here."""
    return name.removeprefix("sym_") if name in _OF_SYMBOLS else name


class _NamedFunction:
    """A method of tensors that is an operator in ATen but none here; its overloads are itself."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__module__ = "torch._ops.aten"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(Tensor, _method_of(self.__name__))(*args, **kwargs)

    def __getattr__(self, overload: str) -> "_NamedFunction":
        if overload.startswith("__"):
            raise AttributeError(overload)
        return self


_named_function = functools.cache(_NamedFunction)


def _answer_of_others(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What an argument that is no tensor and has `__torch_function__` says to the call; else the error goes on."""
    from ..overrides import handle_torch_function, has_torch_function
    from ..utils._pytree import tree_leaves

    given = tree_leaves((args, kwargs))
    if not has_torch_function(given):
        raise
    return handle_torch_function(function, given, *args, **kwargs)


class OpOverload:
    """One overload, callable. There is one object for each."""

    def __init__(self, operator: Operator, name: str, overload: str) -> None:
        self._operator = operator
        self._overloadname, self._qualified = overload, name
        self.namespace, _, self._opname = name.partition("::")
        self.__name__ = f"{self._opname}.{overload}"
        self.__qualname__ = self.name()
        self.__module__ = f"torch._ops.{self.namespace}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        schema = self._operator.schema
        if "out" in kwargs and "out" not in schema.index:
            if not self._overloadname.endswith("out"):
                raise RuntimeError(f"{self._qualified}() got an unexpected keyword argument 'out'. Declaration: "
                                   f"{self._schema}")
            out = kwargs.pop("out")
            return write_out(self._operator, schema.bind(args, kwargs), out)
        try:
            values = schema.bind(args, kwargs)
        except TypeError:
            return _answer_of_others(self, args, kwargs)
        return call_bound(self._operator, values)

    op = __call__

    @computed_once
    def _schema(self) -> FunctionSchema:
        """The signature, as data."""
        text = self._operator.schema.text.replace("Tensor|Scalar", "Scalar" if "Scalar" in self._overloadname else
                                                  "Tensor")
        parsed = parse_schema(text)
        arguments, returns = parsed.arguments, parsed.returns
        if self._overloadname.endswith("out") and not any(a.is_out for a in arguments):
            named = [r.name or "out" for r in returns]
            aliases = [AliasInfo((chr(97 + i),), (chr(97 + i),), True) for i in range(len(returns))]
            arguments += tuple(SchemaArgument(n, r.type, None, a, True)
                               for n, r, a in zip(named, returns, aliases, strict=True))
            returns = tuple(replace(r, alias_info=a) for r, a in zip(returns, aliases, strict=True))
        overload = "" if self._overloadname == "default" else self._overloadname
        return replace(parsed, name=self._qualified, overload_name=overload, arguments=arguments, returns=returns)

    @property
    def _defined_in_python(self) -> bool:
        return self._operator.declaration is None

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        from ..library import registered_keys

        return key.name in registered_keys(self._operator.name) or key in self._operator.kernels

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """What the operator is written as, run; NotImplemented where it is not written as others."""
        if not self._operator.is_composite:
            return NotImplemented
        return self(*args, **kwargs)

    @property
    def tags(self) -> list:
        """What is known of the operator: those that are declared here are safe for tracing."""
        return [Tag.pt2_compliant_tag] if self._operator.declaration is not None else self._operator.tags

    @property
    def _name(self) -> str:
        return self.name()

    @property
    def overloadpacket(self) -> "OpOverloadPacket":
        return packet_named(self._qualified)

    _overloadpacket = overloadpacket

    def name(self) -> str:
        return self._qualified if self._overloadname == "default" else f"{self._qualified}.{self._overloadname}"

    @property
    def is_view(self) -> bool:
        returns = self._operator.schema.returns
        return bool(returns and returns[0].alias and "!" not in returns[0].alias)

    def __deepcopy__(self, memo: dict) -> "OpOverload":
        return self

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"


@functools.cache
def _overload(operator: Operator, name: str, overload: str) -> OpOverload:
    return OpOverload(operator, name, overload)


def overload_for(operator: Operator, values: Sequence[Any]) -> OpOverload:
    """The overload that a call of an operator is, by PyTorch's names."""
    return _overload(operator, operator.name.partition(".")[0], overload_name(operator, values))


def aten_of(operator: Operator) -> Aten:
    """How ATen has an operator."""
    return AS_DECLARED if operator.declaration is None else operator.declaration.aten


def overload_name(operator: Operator, values: Sequence[Any]) -> str:
    """What ATen calls the overload that a call of an operator with these values is."""
    overload = aten_of(operator).overload or declared_overload
    return overload if isinstance(overload, str) else overload(operator.schema, values)


def out_overload(operator: Operator, values: Sequence[Any]) -> OpOverload:
    """The overload that writes the results of a call into tensors given with `out=`."""
    name, _, overload = operator.name.partition(".")
    return _overload(operator, name, f"{overload}_out" if overload else "out")


@functools.lru_cache(1)
def _by_name(changes: int) -> dict[str, dict[str, Operator]]:
    """All operators by name and overload, as long as none comes or goes."""
    found: dict[str, dict[str, Operator]] = {}
    for operator in registry:
        base, _, overload = operator.name.partition(".")
        found.setdefault(base, {})[overload or "default"] = operator
    return found


# Overloads that another one than `default` serves, where there is no such one.
_SERVED_BY = {"value": "src", "value_reduce": "reduce"}


class OpOverloadPacket:
    """All overloads of a name; called, it picks one by the arguments."""

    def __init__(self, name: str) -> None:
        self._qualified = self._qualified_op_name = name
        self.__name__ = name.partition("::")[2]
        self.__module__ = f"torch._ops.{name.partition('::')[0]}"

    def _operators(self) -> dict[str, Operator]:
        return _by_name(registry.changes).get(self._qualified, {})

    def overloads(self) -> list[str]:
        return list(self._operators())

    def op_overloads(self) -> list[OpOverload]:
        return [getattr(self, name) for name in self.overloads()]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        operators = list(self._operators().values())
        for operator in operators:
            values = operator.schema.match(args, kwargs)
            if values is not None:
                return call_bound(operator, values)
        try:
            values = operators[0].schema.bind(args, kwargs)
        except TypeError:
            return _answer_of_others(self, args, kwargs)
        return call_bound(operators[0], values)

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        operators = self._operators()
        # Overloads that ATen keeps apart are often one operator here, with `Tensor|Scalar` or optional arguments.
        operator = operators.get(overload)
        if operator is None and self._qualified.startswith("aten::") and operators:
            operator = operators.get(_SERVED_BY.get(overload, "default")) or next(iter(operators.values()))
        if operator is None:
            raise AttributeError(f"The underlying op of '{self._qualified}' has no overload name '{overload}'")
        return _overload(operator, self._qualified, overload)

    op = property(lambda self: self)

    def __deepcopy__(self, memo: dict) -> "OpOverloadPacket":
        return self

    def __str__(self) -> str:
        return self._qualified.replace("::", ".")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


packet_named = functools.cache(OpOverloadPacket)


# Names of collectives by which counts of them are asked for.
_COUNTED = {"c10d_functional": frozenset(("all_gather_into_tensor", "all_reduce", "all_to_all_single", "broadcast",
                                          "reduce_scatter_tensor"))}


class _OpNamespace(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self.name = name

    def __getattr__(self, op_name: str) -> Any:
        packet = packet_named(f"{self.name}::{op_name}")
        if op_name in _ABSENT.get(self.name, ()):
            return absent_operator(f"{self.name}.{op_name}")
        function = getattr(Tensor, _method_of(op_name), None)
        if self.name == "aten" and not packet._operators() and callable(function) and not op_name.startswith("__"):
            return _named_function(op_name)
        if op_name in _COUNTED.get(self.name, ()):
            return packet
        if op_name.startswith("__") or not packet._operators():
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op_name}'")
        return packet


class Ops:
    """The root: `torch.ops.aten.add`."""

    loaded_libraries: set[str] = set()

    def __getattr__(self, namespace: str) -> Any:
        if namespace.startswith("__"):
            raise AttributeError(namespace)
        if namespace in _DECLARED_HERE:
            importlib.import_module(f"{_PACKAGE}.{_DECLARED_HERE[namespace]}")
        made: Any = NAMESPACES.get(namespace) or _OpNamespace(namespace)
        setattr(self, namespace, made)
        return made

    def load_library(self, path: str) -> None:
        """Libraries of compiled operators need PyTorch's own; as a missing one, they cannot be opened.

        That of a package whose operators are declared here is taken for loaded.
        """
        found = _COMPILED.search(os.fspath(path).replace(os.sep, "/"))
        if found:
            getattr(self, found[1] or found[2])
            return
        raise OSError(f"{path}: mindtorch_v2 cannot load compiled operators. Declare operators with torch.library.")


ops = Ops()
