"""`torch.ops`: operators by namespace, name and overload."""

from typing import Any

from ._dispatch.callers import call_bound
from ._dispatch.registry import Operator, registry


class OpOverload:
    """One overload, callable."""

    def __init__(self, operator: Operator, name: str, overload: str) -> None:
        self._operator, self._schema = operator, operator.schema
        self._overloadname = overload
        self.__name__ = f"{name.partition('::')[2]}.{overload}"
        self.namespace = name.partition("::")[0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_bound(self._operator, self._operator.schema.bind(args, kwargs))

    def name(self) -> str:
        return self._operator.name

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self.__name__.partition('.')[0]}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """All overloads of a name; called, it picks one by the arguments."""

    def __init__(self, name: str) -> None:
        self._qualified = name
        self.__name__ = name.partition("::")[2]

    def _operators(self) -> dict[str, Operator]:
        found = {}
        for operator in registry:
            base, _, overload = operator.name.partition(".")
            if base == self._qualified:
                found[overload or "default"] = operator
        return found

    def overloads(self) -> list[str]:
        return list(self._operators())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        operators = list(self._operators().values())
        for operator in operators:
            values = operator.schema.match(args, kwargs)
            if values is not None:
                return call_bound(operator, values)
        return call_bound(operators[0], operators[0].schema.bind(args, kwargs))

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        operators = self._operators()
        # Overloads that ATen keeps apart are often one operator here, with `Tensor|Scalar` or optional arguments.
        operator = operators.get(overload) or (
            operators.get("default") if self._qualified.startswith("aten::") else None
        )
        if operator is None:
            raise AttributeError(f"The underlying op of '{self._qualified}' has no overload name '{overload}'")
        return OpOverload(operator, self._qualified, overload)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._qualified.replace('::', '.')}')>"


class _OpNamespace:
    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, op_name: str) -> OpOverloadPacket:
        packet = OpOverloadPacket(f"{self.name}::{op_name}")
        if op_name.startswith("__") or not packet._operators():
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op_name}'")
        return packet


class Ops:
    """The root: `torch.ops.aten.add`."""

    def __getattr__(self, namespace: str) -> _OpNamespace:
        if namespace.startswith("__"):
            raise AttributeError(namespace)
        made = _OpNamespace(namespace)
        setattr(self, namespace, made)
        return made


ops = Ops()
