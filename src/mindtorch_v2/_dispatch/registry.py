"""The operators: schema, kernels by key, and the cached way from a key mask to a kernel."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._core.computed import computed_once
from .._core.planning import forget_plans
from .keys import (
    AUTOGRAD_OF,
    BACKEND_MASK,
    BACKENDS,
    FUNC_MASK,
    PLAN_MASK,
    SPARSE_MASK,
    TORCH_DISPATCH_MASK,
    DispatchKey,
    DispatchKeySet,
)
from .schema import Schema


class Around:
    """A kernel that runs another one inside: `make(operator, below, mask)` gives the function to call."""

    def __init__(self, make: Callable[["Operator", Callable, int], Callable]) -> None:
        self.make = make


class PerOperator:
    """A kernel for all operators that is made for each: `make(operator)` gives the function to call."""

    def __init__(self, make: Callable[["Operator"], Callable]) -> None:
        self.make = make


class PerKeys:
    """A kernel for all operators that is made for each set of keys: `make(operator, mask)` gives the function."""

    def __init__(self, make: Callable[["Operator", int], Callable]) -> None:
        self.make = make


class Lazy:
    """A kernel whose function is made when it is first wanted."""

    def __init__(self, make: Callable[[], Callable]) -> None:
        self._make = make

    @computed_once
    def function(self) -> Callable:
        return self._make()

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


class Operator:
    """An entry of the registry."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.name = f"{schema.namespace}::{schema.name}"
        self.kernels: dict[DispatchKey, Any] = {}
        self.fallthrough: set[DispatchKey] = set()
        # key mask -> function; emptied in place when something is registered, since callers hold this dict
        self.table: dict[int, Callable] = {}
        self.keys: Callable | None = None  # gives the keys of bound arguments; made when it is first wanted
        self.declaration: Any = None
        self.tags: list[Any] = []  # what torch.library was told of it
        self.plans: Any = None  # of calls on the CPU (_ops/_declare/plans.py)
        self.finder: Callable | None = None  # gives the plan of a call that the CPU's kernel alone sees, or None
        self.into: Callable | None = None  # the CPU's kernel that is given what to write to (_ops/_declare/out.py)
        self.recorder: Any = None  # lines that callers begin with in a pipeline, and their names (_pipeline/ahead.py)
        self.rebuilds: list[Callable[[], Any]] = []  # make the public functions anew that were called
        # The same as several operators, where it is several in ATen and somebody looks on (_ops/_declare/aten.py).
        self.aten_form: Callable | None = None
        # Operators such as copy_ and index take tensors of several devices; the highest backend key serves them.
        self.mixes_devices = False

    def __repr__(self) -> str:
        return f"<Operator {self.schema}>"

    @property
    def is_composite(self) -> bool:
        """Whether it is written as other operators, which the keys see in its place."""
        return type(getattr(self.declaration, "family", None)).__name__ == "Composite"

    def lookup(self, mask: int) -> Callable:
        """The function that serves a call with these keys."""
        function = self.table.get(mask)
        if function is None:
            tracer = sys.gettrace()
            sys.settrace(None)  # a debugger that steps in does not see how kernels are made
            try:
                function = self.table[mask] = self._resolve(mask)
            finally:
                sys.settrace(tracer)
        return function

    def _resolve(self, mask: int) -> Callable:
        backends = mask & BACKEND_MASK
        if backends & (backends - 1) and not self.mixes_devices and not mask & _MAY_MIX:
            return registry.mixed_devices(self, mask)
        parts = self.aten_form if mask & TORCH_DISPATCH_MASK and not mask & FUNC_MASK else None
        for key in DispatchKeySet(mask):
            if parts is not None and key <= DispatchKey.ForwardAD:
                return parts
            if key in self.fallthrough:
                continue
            kernel = self.kernels.get(key)
            if kernel is None and key in _SPECIFIC_AUTOGRAD and DispatchKey.Autograd in self.fallthrough:
                continue
            if kernel is None:
                kernel = registry.backend_select.get(key)
            if kernel is None:
                continue
            if isinstance(kernel, Around):
                below = mask & ((1 << (DispatchKey.Autograd if key in _ALL_AUTOGRAD else key)) - 1)
                function = kernel.make(self, self.lookup(below), mask)
                if mask & FUNC_MASK and (key in _ALL_AUTOGRAD or key is DispatchKey.ForwardAD):
                    return registry.at_one_level(self, function)
                return function
            if isinstance(kernel, PerOperator):
                return kernel.make(self)
            if isinstance(kernel, PerKeys):
                return kernel.make(self, mask)
            return kernel.function if isinstance(kernel, Lazy) else kernel
        if not backends:
            return registry.of_numbers(self)
        raise NotImplementedError(
            f"Could not run '{self.name}' with {DispatchKeySet(mask)}: no kernel is registered for device type "
            f"'{_device_of(mask)}'. Kernels exist for: {', '.join(k.name for k in self.kernels) or 'no key'}.")


# Keys whose kernels see for themselves to tensors of several backends.
_MAY_MIX = FUNC_MASK | SPARSE_MASK | TORCH_DISPATCH_MASK | PLAN_MASK
_SPECIFIC_AUTOGRAD = frozenset(AUTOGRAD_OF.values())
_ALL_AUTOGRAD = _SPECIFIC_AUTOGRAD | {DispatchKey.Autograd}


def _device_of(mask: int) -> str:
    names = [key.name.lower() for key in BACKENDS if mask >> key & 1]
    return "/".join(names) or "none"


class Registry:
    """All operators by name; names without a namespace are `aten::` ones."""

    def __init__(self) -> None:
        self._operators: dict[str, Operator] = {}
        self.changes = 0  # how often an operator came or went
        # Kernels that serve a key for every operator: the __torch_function__ call, the pipeline's recorder, ...
        self.backend_select: dict[DispatchKey, Any] = {}
        self.mixed_devices: Callable[[Operator, int], Callable] = refuse_mixed
        # The kernel of a call in which numbers stand for all tensors.
        self.of_numbers: Callable[[Operator], Callable]
        # Puts around a kernel that derives: tensors of lower levels of torch.func are constants of the level.
        self.at_one_level: Callable[[Operator, Callable], Callable]
        # Under autocast, what an operator gets in the place of its arguments on a device; None leaves them.
        self.autocast: Callable[[Operator, tuple, str], Sequence[Any] | None]

    def register_schema(self, name: str, schema: "str | Schema") -> Operator:
        """Declares an operator; its kernels come after."""
        full = _qualified(name)
        if not isinstance(schema, Schema):
            schema = Schema(schema, namespace=full.partition("::")[0])
        if f"{schema.namespace}::{schema.name}" != full and f"{schema.namespace}::{schema.base_name}" != full:
            raise ValueError(f"the schema {schema} is not one of {full}")
        if full in self._operators:
            raise ValueError(f"{full}: declared twice ({self._operators[full].schema} and {schema})")
        operator = self._operators[full] = Operator(schema)
        self.changes += 1
        operator.name = full
        return operator

    def register_kernel(self, name: str, key: DispatchKey, kernel: Any) -> None:
        operator = self.get(name)
        operator.kernels[key] = kernel
        operator.fallthrough.discard(key)
        self.changed(operator)

    def register_fallthrough(self, name: str, key: DispatchKey) -> None:
        operator = self.get(name)
        operator.fallthrough.add(key)
        self.changed(operator)

    def register_for_all(self, key: DispatchKey, kernel: Any) -> None:
        """Registers a kernel that serves `key` for every operator without one of its own."""
        self.backend_select[key] = kernel
        for operator in self._operators.values():
            operator.table.clear()
            operator.into = None
        forget_plans()

    @staticmethod
    def changed(operator: Operator) -> None:
        """Lets calls of an operator find what it has now."""
        operator.table.clear()
        operator.into = None
        forget_plans()

    def get(self, name: str) -> Operator:
        operator = self._operators.get(_qualified(name))
        if operator is None:
            raise KeyError(f"no operator {_qualified(name)} is registered: register its schema first")
        return operator

    def __contains__(self, name: str) -> bool:
        return _qualified(name) in self._operators

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._operators.values())

    def remove(self, name: str) -> None:
        del self._operators[_qualified(name)]
        self.changes += 1


def _qualified(name: str) -> str:
    return name if "::" in name else f"aten::{name}"


def refuse_mixed(operator: Operator, mask: int) -> Callable:
    """The kernel of a call whose tensors are on several devices."""

    def kernel(*args: Any) -> Any:
        flat = [v for a in args for v in (a if isinstance(a, (tuple, list)) else (a,))]
        devices = list(dict.fromkeys(v._device for v in flat if hasattr(v, "_keys")))
        first, second = devices[:2]
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {first} "
                           f"and {second}! (in {operator.name}: Tensor on device {second} is not on the expected "
                           f"device {first}!)")

    return kernel


registry = Registry()
