"""Functionalization: programs that write in place, and through views, as programs that only make new tensors.

A FunctionalWrapper holds a value. A write makes a new value in the functional form of the operator; what a write to a
view makes of its base is replayed when the base, or another view of it, is next read. The wrappers on one storage share
a `Shared`: the value of the base and the writes that it has not seen. Each wrapper knows the views that lead from the
base to it.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .._compat.operator_names import ops, overload_for
from .._core.tensor import Tensor, _disabled_torch_function_impl
from .._core.tensor_base import fields_of
from .._core.wrapper_subclass import WrapperArray
from .._dispatch.keys import BACKENDS, TORCH_DISPATCH_MASK, DispatchKey, changed_modes, modes
from .._dispatch.registry import registry
from .._torch_dispatch import ABOVE, FUNCTIONALIZER
from ..utils._pytree import tree_leaves, tree_map_only
from .functional_views import forward_of, inverse_of, is_view, is_view_in_place

aten = ops.aten
NOT_WRAPPED = ("mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of "
               "your inputs are wrapped inside of a functionalize() call.")
ALIASED_RESULTS = (
    "Found a custom (non-ATen) operator whose output has alias annotations: {}. We only support functionalizing "
    "operators whose outputs do not have alias annotations (e.g. 'Tensor(a)' is a Tensor with an alias annotation "
    "whereas 'Tensor' is a Tensor without. The '(a)' is the alias annotation). The alias annotation specifies that the "
    "output Tensor shares storage with an input that has the same annotation. Please check if (1) the output needs to "
    "be an output (if not, don't return it), (2) if the output doesn't share storage with any inputs, then delete the "
    "alias annotation. (3) if the output indeed shares storage with an input, then add a .clone() before returning it "
    "to prevent storage sharing and then delete the alias annotation. Otherwise, please file an issue on GitHub.")


OVERLAPPING = ("unsupported operation: more than one element of the written-to tensor refers to a single memory "
               "location. Please clone() the tensor before performing the operation.")


class Functionalizing:
    """One functionalization: with `reapply_views`, views stay views; else they become copies."""

    def __init__(self, reapply_views: bool = True, exclude: int | None = None) -> None:
        self.reapply_views = reapply_views
        # Keys that are out of force for values. Of a transform those outside of it, so that values are recorded there;
        # else what comes before handlers, since the wrappers themselves are recorded.
        self.exclude = exclude


PLAIN = Functionalizing()  # that of wrappers that `_to_functional_tensor` made


class Step(NamedTuple):
    """A view of the one before: its operator, the arguments after the tensor, and which of its results."""

    function: Any
    args: tuple
    kwargs: dict[str, Any]
    nr: int | None
    reapply: bool

    def forward(self, base: Tensor) -> Tensor:
        made = forward_of(self.function, self.reapply)(base, *self.args, **self.kwargs)
        return made if self.nr is None else made[self.nr]

    def inverse(self, base: Tensor, mutated: Tensor) -> Tensor:
        return inverse_of(self.function, self.reapply, base, mutated, self.args, self.kwargs, self.nr)


class Shared:
    """What the wrappers on one storage share."""

    def __init__(self, base: Tensor) -> None:
        self.base = base
        self.updates: list[tuple[Tensor, tuple[Step, ...]]] = []
        self.generation = 0
        self.frozen = False

    def add(self, value: Tensor, steps: tuple[Step, ...]) -> None:
        if self.frozen:
            raise RuntimeError("cannot mutate tensors with frozen storage")
        self.updates.append((value, steps))
        self.generation += 1

    def apply(self) -> bool:
        """Brings the base up to date; whether there was anything to do."""
        pending, self.updates = self.updates, []
        for value, steps in pending:
            bases = [self.base]
            for step in steps[:-1]:
                bases.append(step.forward(bases[-1]))
            for step, base in zip(reversed(steps), reversed(bases), strict=False):
                value = step.inverse(base, value)
            self.base = value
        return bool(pending)


class FunctionalWrapper(Tensor):
    """A tensor whose writes make new values."""

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]
    _value: Tensor
    _shared: Shared
    _steps: tuple[Step, ...]
    _generation: int
    _level: Functionalizing

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return functionalized(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"_to_functional_tensor({self._value!r})"

    def resize_(self, *size: Any, memory_format: Any = None) -> Tensor:
        """Shows the first elements in another shape; a larger one than there is memory for is another tensor."""
        shape = [int(n) for n in (size[0] if len(size) == 1 and not isinstance(size[0], int) else size)]
        with outside():
            if _count(shape) <= _count(self.shape):
                strided = aten.as_strided.default
                step = Step(strided, (shape, list(_empty(shape).stride())), {}, None, self._level.reapply_views)
                _Call(strided, (self, *step.args), {}, self._level).become(self, step)
                return self
            if self._steps:
                raise RuntimeError("Attempted to resize a view tensor to a larger size. This is not allowed in the "
                                   "functionalization pass")
            value = _resized()(self._value, shape)
            self._shared.base, self._shared.updates = value, []
            self.replace(value)
            return self

    # what is shared -----------------------------------------------------------------------------------------------

    def replace(self, value: Tensor) -> None:
        """Takes another value, of the wrapper's type."""
        if value.dtype is not self.dtype:
            value = aten._to_copy.default(value, dtype=self.dtype)
        self._value = value
        if tuple(value.shape) != tuple(self.shape) or tuple(value.stride()) != tuple(self.stride()):
            self._resize(value)

    def _resize(self, like: Tensor) -> None:
        array = self._array
        strides = tuple(s * array.itemsize for s in like.stride())
        storage: Any = self._shared_storage()
        self._array = WrapperArray(tuple(like.shape), array.dtype, strides, storage)
        self._offset = like.storage_offset() * array.itemsize

    def commit(self) -> None:
        """Lets the others on the storage know of the value."""
        self._shared.add(self._value, self._steps)

    def sync(self) -> None:
        """Brings the value up to date."""
        if self._generation == self._shared.generation:
            return
        self._shared.apply()
        value = self._shared.base
        for step in self._steps:
            value = step.forward(value)
        self.replace(value)
        self._generation = self._shared.generation


def make(value: Tensor, level: Functionalizing, source: "FunctionalWrapper | None" = None, step: Step | None = None,
         like: Tensor | None = None) -> FunctionalWrapper:
    """A wrapper of a value; of a view, on the storage of its source, with the geometry of `like`."""
    shown = value if like is None else like
    kind: Any = FunctionalWrapper
    made = Tensor._make_wrapper_subclass(kind, shown.shape, strides=shown.stride(), dtype=value.dtype,
                                         storage_offset=shown.storage_offset(), device=value.device)
    made._value, made._level = value, level
    if source is None or step is None:
        made._shared, made._steps, made._generation = Shared(value), (), 0
    else:
        made._generation = source._generation
        made._shared, made._steps = source._shared, (*source._steps, step)
        fields_of(made)["_storage"] = source._shared_storage()
    return made


def is_functional(value: Any) -> bool:
    return isinstance(value, FunctionalWrapper)


# the kernel ----------------------------------------------------------------------------------------------------------


def levels() -> list[Functionalizing]:
    """This thread's functionalizations, the innermost last."""
    return modes.__dict__.setdefault("functionalizing", [])


@contextlib.contextmanager
def enabled(level: Functionalizing) -> Iterator[None]:
    """Context in which new tensors are wrappers, too."""
    enable(level)
    try:
        yield
    finally:
        disable()


def enable(level: Functionalizing) -> None:
    levels().append(level)
    modes.update(include=modes.include | TORCH_DISPATCH_MASK)


def disable() -> None:
    levels().pop()
    if not levels() and not modes.__dict__.get("dispatch_modes"):
        modes.update(include=modes.include & ~TORCH_DISPATCH_MASK)


@contextlib.contextmanager
def outside() -> Iterator[Functionalizing | None]:
    """Context in which the innermost functionalization is out of force."""
    stack = levels()
    top = stack.pop() if stack else None
    include = modes.include
    if top is not None and not stack and not modes.__dict__.get("dispatch_modes"):
        modes.update(include=include & ~TORCH_DISPATCH_MASK)
    try:
        yield top
    finally:
        if top is not None:
            stack.append(top)
            modes.update(include=include)


def functionalized(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What an operator gives, and does, on wrappers."""
    with outside() as top:
        level = top
        if level is None:
            found = [t._level for t in tree_leaves((args, kwargs)) if is_functional(t)]
            level = found[0]
        with changed_modes(exclude=modes.exclude | ABOVE if level.exclude is None else level.exclude):
            return _Call(function, args, kwargs, level).run()


class _Call:
    """One operator on wrappers."""

    def __init__(self, function: Any, args: tuple, kwargs: dict[str, Any], level: Functionalizing) -> None:
        self.function, self.args, self.kwargs, self.level = function, args, kwargs, level
        self.schema = function._operator.schema

    def owned(self, value: Any) -> bool:
        return is_functional(value) and value._level is self.level

    def unwrapped(self, values: Any) -> Any:
        """Values with those of wrappers in their place, up to date."""

        def value(tensor: Tensor) -> Tensor:
            if not self.owned(tensor):
                return tensor
            tensor.sync()  # type: ignore[attr-defined]
            return tensor._value  # type: ignore[attr-defined]

        return tree_map_only(Tensor, value, values)

    def wrapped(self, values: Any) -> Any:
        return tree_map_only(Tensor, lambda t: make(t, self.level), values)

    def run(self) -> Any:
        written = self.written()
        if written:
            return self.write(written)
        first = self.args[0] if self.args else None
        if is_view(self.function) and self.owned(first):
            return self.view()
        if self.function.namespace != "aten" and any(r.alias for r in self.schema.returns):
            raise RuntimeError(ALIASED_RESULTS.format(self.function._schema))
        args, kwargs = self.unwrapped((self.args, self.kwargs))
        return self.wrapped(self.function(*args, **kwargs))

    def written(self) -> list[Tensor]:
        """The tensors that the call writes to."""
        found = []
        for nr, argument in enumerate(self.schema.arguments):
            if argument.writes:
                found += tree_leaves(self.args[nr] if nr < len(self.args) else self.kwargs.get(argument.name))
        if "out" not in self.schema.index and self.function._overloadname.endswith("out"):
            found += [v for name in self.out_names() for v in tree_leaves(self.kwargs.get(name))]
        return [t for t in found if isinstance(t, Tensor)]

    def out_names(self) -> list[str]:
        return [a.name for a in self.function._schema.arguments if a.is_out]

    # writes -------------------------------------------------------------------------------------------------------

    def write(self, written: list[Tensor]) -> Any:
        others = [t for t in tree_leaves((self.args, self.kwargs)) if isinstance(t, Tensor)]
        if not any(self.owned(t) for t in written):
            if any(self.owned(t) for t in others):
                raise RuntimeError(NOT_WRAPPED)
            return self.function(*self.args, **self.kwargs)
        if self.function.namespace != "aten" and self.schema.returns and any(r.alias for r in self.schema.returns):
            raise RuntimeError(ALIASED_RESULTS.format(self.function._schema))
        name = self.function._opname
        if is_view_in_place(name):
            return self.change_geometry(name)
        self.check()
        for tensor in written:
            if self.owned(tensor) and any(s == 0 and n > 1 for n, s in zip(tensor.shape, tensor.stride(), strict=True)):
                raise RuntimeError(OVERLAPPING)
        made = self.new_values(written)
        for target, value in zip(written, made, strict=True):
            if self.owned(target):
                target.replace(value)  # type: ignore[attr-defined]
                target.commit()  # type: ignore[attr-defined]
                target.sync()  # type: ignore[attr-defined]
        if not self.schema.returns:
            return None
        return written[0] if len(self.schema.returns) == 1 else tuple(written)

    def check(self) -> None:
        """Raises what the operator itself would, of shapes and types that do not fit."""
        if self.function.namespace != "aten" or self.function._overloadname.endswith("out"):
            return
        # One that looks at elements cannot be asked without them: what it refuses is told when it runs.
        with changed_modes(include=modes.include & ~TORCH_DISPATCH_MASK), contextlib.suppress(NotImplementedError):
            args, kwargs = tree_map_only(Tensor, _empty_strided, (self.args, self.kwargs))
            if not any(getattr(leaf, "manual_seed", None) for leaf in tree_leaves((args, kwargs))):
                self.function(*args, **kwargs)

    def new_values(self, written: list[Tensor]) -> list[Tensor]:
        """The values that the written tensors have after the call."""
        if self.function._overloadname.endswith("out") and "out" not in self.schema.index:
            named = {n: v for n, v in self.kwargs.items() if n not in (*self.out_names(), "out")}
            args, kwargs = self.unwrapped((self.args, named))
            operator = self.function._operator
            made = overload_for(operator, operator.schema.bind(args, kwargs))(*args, **kwargs)
            return list(made) if isinstance(made, (tuple, list)) else [made]
        args, kwargs = self.unwrapped((self.args, self.kwargs))
        functional = functional_form(self.function)
        if functional is not None and len(written) == 1:
            return [functional(*args, **kwargs)]
        copies: dict[int, Tensor] = {}
        values = self.unwrapped(written)

        def copied(tensor: Tensor) -> Tensor:
            if any(tensor is value for value in values):
                return copies.setdefault(id(tensor), tensor.clone())
            return tensor

        args, kwargs = tree_map_only(Tensor, copied, (args, kwargs))
        self.function(*args, **kwargs)
        return [copies[id(value)] for value in values]

    # views --------------------------------------------------------------------------------------------------------

    def view(self) -> Any:
        source: Any = self.args[0]  # a view of one that is out of date is so, too
        like = self.geometry(source)
        made = forward_of(self.function, self.level.reapply_views)(source._value, *self.args[1:], **self.kwargs)
        several = isinstance(made, (tuple, list))
        wrapped = []
        for nr, value in enumerate(made if several else [made]):
            step = Step(self.function, self.args[1:], self.kwargs, nr if several else None, self.level.reapply_views)
            wrapped.append(make(value, self.level, source, step, like[nr] if several else like))
        return wrapped if several else wrapped[0]

    def geometry(self, source: Tensor) -> Any:
        """Tensors without elements that lie as the views do."""
        with changed_modes(include=modes.include & ~TORCH_DISPATCH_MASK):
            return self.function(_empty_strided(source), *self.args[1:], **self.kwargs)

    def change_geometry(self, name: str) -> Any:
        """`t_` and such: the wrapper becomes a view of what it was."""
        target: Any = self.args[0]
        view = getattr(getattr(aten, name[:-1]), self.function._overloadname)
        self.become(target, Step(view, self.args[1:], self.kwargs, None, self.level.reapply_views))
        return target

    @staticmethod
    def become(target: Any, step: Step) -> None:
        """Makes a wrapper a view of what it was."""
        with changed_modes(include=modes.include & ~TORCH_DISPATCH_MASK):
            like = step.function(_empty_strided(target), *step.args, **step.kwargs)
        target._value = step.forward(target._value)
        target._steps = (*target._steps, step)
        target._resize(like)


def _count(size: Sequence[int]) -> int:
    n = 1
    for length in size:
        n *= length
    return n


def _empty(size: Sequence[int]) -> Tensor:
    with changed_modes(include=modes.include & ~TORCH_DISPATCH_MASK):
        return aten.empty.memory_format(list(size), device="meta")


def _empty_strided(tensor: Tensor) -> Tensor:
    """A tensor without elements that lies as another does."""
    made = aten.empty_strided.default(list(tensor.shape), list(tensor.stride()), dtype=tensor.dtype, device="meta")
    offset = tensor.storage_offset()
    return made if not offset else aten.as_strided.default(
        aten.empty.memory_format([offset + 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(),
                                                                              strict=True) if n)],
                                 dtype=tensor.dtype, device="meta"),
        list(tensor.shape), list(tensor.stride()), offset)


# functional forms ----------------------------------------------------------------------------------------------------

_NAMED = {"normal_": "normal_functional", "lift_fresh": "lift_fresh_copy"}
_OVERLOADS = {"bernoulli.float": "bernoulli.p"}


def functional_form(function: Any) -> Any:
    """The overload that gives what another writes; None if there is none."""
    name = function._opname
    base = _NAMED.get(name, name.removesuffix("_"))
    overload = function._overloadname
    qualified = f"{function.namespace}::{base}"
    if function.namespace != "aten" or not name.endswith("_"):
        return None
    if not any(o == qualified or o.startswith(f"{qualified}.") for o in _names()):
        _declare_functional(function._operator, base)
    base, _, overload = _OVERLOADS.get(f"{base}.{overload}", f"{base}.{overload}").partition(".")
    return getattr(getattr(aten, base), overload)


def _names() -> set[str]:
    return {operator.name for operator in registry}


def _resized() -> Any:
    """The operator that gives a tensor of another size, with the elements of the first."""
    if "aten::resize" not in registry:
        def kernel(self: Tensor, size: Sequence[int], memory_format: Any) -> Tensor:
            made = self.new_empty(size)
            count = min(self.numel(), made.numel())
            made.view(-1)[:count] = self.reshape(-1)[:count]
            return made

        _register("aten::resize", "resize(Tensor self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor",
                  kernel)
    return aten.resize.default


def _declare_functional(operator: Any, base: str) -> None:
    """Declares the functional form of an operator that writes its first argument: it writes a copy."""
    text = operator.schema.text.replace(operator.schema.name, base, 1)
    text = text.replace("Tensor(a!) self", "Tensor self", 1).replace("Tensor|Scalar src", "Tensor src")
    text = f"{text.rpartition('->')[0]}-> Tensor"

    def kernel(self: Tensor, *args: Any) -> Tensor:
        made = self.new_empty_strided(self.shape, self.stride())
        if base not in ("copy", "zero"):
            made.copy_(self)
        from .._dispatch.callers import call_bound

        call_bound(operator, (made, *args))
        return made

    _register(f"aten::{base}", text, kernel)


def declare_copy(operator: Any, base: str) -> None:
    """Declares the copying form of a view."""
    text = operator.schema.text.replace(operator.schema.base_name, f"{operator.schema.base_name}_copy", 1)
    for alias in ("(a)", "(a -> *)", "(a->*)"):
        text = text.replace(alias, "")

    def kernel(*args: Any) -> Any:
        from .._dispatch.callers import call_bound

        made = call_bound(operator, args)
        return tree_map_only(Tensor, lambda t: t.clone(), made)

    _register(f"aten::{base}", text, kernel)


def _register(name: str, text: str, kernel: Callable) -> None:
    registry.register_schema(name, text)
    for key in BACKENDS:
        registry.register_kernel(name, key, kernel)
    registry.register_kernel(name, DispatchKey.FuncTorch, kernel)


FUNCTIONALIZER.append((is_functional, levels, functionalized))
