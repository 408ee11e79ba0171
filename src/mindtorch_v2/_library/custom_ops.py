"""`custom_op`: a Python function as an operator."""

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .._compat.old_names import Tag
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.function_schema import parse_schema
from .._dispatch.keys import DispatchKey
from .._dispatch.registry import Around, registry
from .autograd import custom_autograd, no_formula, refused_out
from .infer_schema import aliasing_tag, infer_schema
from .utils import (
    KEYWORD_TENSORS,
    can_generate_trivial_fake_impl,
    check_aliasing_constraint,
    get_device_arg_index,
    has_kwarg_only_tensors,
    has_tensor_arg,
    is_functional_schema,
    lookup_op,
    module_of,
    parse_namespace,
)

_log = logging.getLogger("torch._library.custom_ops")
OPDEFS: dict[str, "CustomOpDef"] = {}


def custom_op(name: str, fn: Callable | None = None, /, *, mutates_args: Any, device_types: Any = None,
              schema: str | None = None, tags: Any = None) -> Any:
    """Makes a Python function an operator; its schema comes from the annotations unless given."""
    given = [] if tags is None else list(tags) if isinstance(tags, (tuple, list, set)) else [tags]
    aliasing_tag(given)

    def make(function: Callable) -> CustomOpDef:
        written = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)
        text = schema
        if text is None:
            text = infer_schema(function, mutates_args=written, tags=given)
        namespace, base = parse_namespace(name)
        made = CustomOpDef(namespace, base, text, function, given)
        if schema is not None:
            expected = {a.name for a in parse_schema(f"{base}{schema}").arguments if a.is_write}
            if expected != set(written) and written != "unknown":
                made._destroy()
                raise ValueError(f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema="
                                 f"{schema}. The schema suggests that the op mutates {expected}which is different from "
                                 "what was provided to us in `mutates_args`. Please make these consistent.")
        made.register_kernel(device_types)(function)
        return made

    return make if fn is None else make(fn)


class CustomOpDef:
    """An operator made by `custom_op`; call it, and register more on it."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable, tags: Any = ()) -> None:
        self._namespace, self._name, self._schema, self._init_fn = namespace, name, schema, fn
        self._tags = list(tags)
        self._qualname = f"{namespace}::{name}"
        self._aliasing = aliasing_tag(tags)
        self._abstract_fn: Callable | None = None
        self._setup_context_fn: Callable | None = None
        self._backward_fn: Callable | None = None
        self._backend_fns: dict[str | None, Callable] = {}
        self._disabled_kernel: set[str] = set()
        self._define()
        OPDEFS[self._qualname] = self
        self.__doc__ = fn.__doc__

    def _define(self) -> None:
        from ..library import Library

        parsed = parse_schema(f"{self._name}{self._schema}")
        if has_kwarg_only_tensors(parsed) and self._aliasing is not Tag.out:
            raise NotImplementedError(f"custom_op{KEYWORD_TENSORS.format('P')}{parsed}")
        if self._aliasing is not None:
            _check_aliases(self._aliasing, parsed)
        earlier = OPDEFS.get(self._qualname)
        if earlier is not None:
            earlier._lib._give_up(self._qualname)
        self._lib = Library(self._namespace, "FRAGMENT")
        self._lib.define(f"{self._name}{self._schema}",
                         tags=[Tag.pt2_compliant_tag, *(t for t in self._tags if t is not Tag.pt2_compliant_tag)])
        self._operator = registry.get(self._qualname)
        self._written = [i for i, a in enumerate(self._operator.schema.arguments) if a.writes]
        self._is_view = not is_functional_schema(parsed) and not self._written and bool(parsed.returns)
        made = refused_out if self._aliasing is Tag.out else no_formula
        registry.register_kernel(self._qualname, DispatchKey.Autograd, Around(made))
        self._device_at = get_device_arg_index(parsed)
        if self._device_at is not None and not has_tensor_arg(parsed):
            self._lib.impl(self._name, self._without_kernel, "CompositeExplicitAutograd")
        self._lib.impl(self._name, self._fake, "Meta")

    def _destroy(self) -> None:
        if OPDEFS.get(self._qualname) is self:
            del OPDEFS[self._qualname]
        self._lib._destroy()

    @property
    def _opoverload(self) -> Any:
        return lookup_op(self._qualname)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_bound(self._operator, self._operator.schema.bind(args, kwargs))

    # registrations -------------------------------------------------------------------------------------------------

    def register_kernel(self, device_types: Any, fn: Callable | None = None, /) -> Any:
        """Gives it a kernel for some device types, or for all with None."""

        def register(function: Callable) -> Callable:
            kinds = (device_types,) if device_types is None or isinstance(device_types, str) else device_types
            for kind in kinds:
                if kind not in self._backend_fns:
                    key = "CompositeExplicitAutograd" if kind is None else kind
                    from ..library import impl

                    impl(self._qualname, "default" if kind is None else key, self._kernel_of(kind), lib=self._lib)
                    if kind is None:  # which is no function for tensors without elements
                        self._lib.impl(self._name, self._fake, "Meta")
                self._backend_fns[kind] = function
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable, /) -> Callable:
        """Gives it a function that makes results of the right shape and type."""
        from ..library import register_fake

        if self._aliasing is not None:
            warnings.warn(f"{self._qualname} is tagged with torch.Tag.{self._aliasing.name}: its fake implementation "
                          "is generated. The one that is registered takes its place.", UserWarning, stacklevel=2)
        self._abstract_fn = fn
        register_fake(self._qualname, fn, lib=self._lib)
        return fn

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """Gives it its derivative: `setup_context(ctx, inputs, output)` and `backward(ctx, *grads)`."""
        if self._aliasing is Tag.out:
            raise RuntimeError(f"Cannot register autograd formula for {self}: Out variants do not support autograd.")
        schema = self._opoverload._schema
        if not is_functional_schema(schema, allow_valid_view=True):
            raise RuntimeError(f"Cannot register autograd formula for non-functional operator {self} with schema "
                               f"{schema}. Please create a functional operator and register an autograd formula for "
                               "that.")
        self._backward_fn, self._setup_context_fn = backward, setup_context
        registry.register_kernel(self._qualname, DispatchKey.Autograd, Around(custom_autograd(backward, setup_context)))

    def register_vmap(self, func: Callable | None = None) -> Any:
        from ..library import register_vmap

        return register_vmap(self._qualname, func)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Callable | None = None, /) -> Any:
        from ..library import register_torch_dispatch

        return register_torch_dispatch(self._qualname, torch_dispatch_class, fn, lib=self._lib)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        from ..library import register_autocast

        register_autocast(self._qualname, device_type, cast_inputs, lib=self._lib)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Context in which the function of a device type is used, or the one that the operator was made of."""
        if device_type not in self._backend_fns:
            _log.warning("Attempted to set kernel enabled for %s but no kernel was registered for this device type.",
                         device_type)
        if (device_type in self._disabled_kernel) != enabled:
            _log.warning("Attempted to set kernel enabled for %s but it was already %s.", device_type,
                         "enabled" if enabled else "disabled")
        before = set(self._disabled_kernel)
        self._disabled_kernel = before - {device_type} if enabled else before | {device_type}
        try:
            yield
        finally:
            self._disabled_kernel = before

    # kernels -------------------------------------------------------------------------------------------------------

    def _fake(self, *args: Any, **kwargs: Any) -> Any:
        """The Meta kernel as long as none is registered."""
        if self._aliasing is Tag.inplace:
            return args[0]
        if self._aliasing is Tag.out:
            return self._outs(args, kwargs)
        if can_generate_trivial_fake_impl(self._opoverload):
            return None
        raise RuntimeError(f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/"
                           f"fx tracing to work. Please use `{self._init_fn.__name__}.register_fake` to add an fake "
                           "impl.")

    def _without_kernel(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel of devices for which none is registered, of an operator that makes tensors."""
        asked: Any = kwargs.get("device", args[self._device_at or 0] if args else None)
        raise RuntimeError(f"{self._name} does not have a kernel registered for {asked.type}. Please use "
                           "register_kernel to do so.")

    def _outs(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        schema = self._operator.schema
        outs = tuple(args[i] if i < len(args) else kwargs[schema.names[i]] for i in self._written)
        return outs if len(outs) > 1 else outs[0]

    def _kernel_of(self, kind: str | None) -> Callable:
        """A kernel that runs the function of a device type, with the rules of a custom operator."""

        def kernel(*args: Any, **kwargs: Any) -> Any:
            function = self._init_fn if kind in self._disabled_kernel else self._backend_fns[kind]
            result = function(*args, **kwargs)
            self._check_result(function, args, kwargs, result)
            schema = self._operator.schema
            for i in self._written:
                value = args[i] if i < len(args) else kwargs.get(schema.names[i])
                for tensor in value if isinstance(value, (tuple, list)) else (value,):
                    if tensor is not None:
                        tensor._bump_version()
            return result

        return kernel

    def _check_result(self, function: Callable, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        if self._aliasing is not None:
            wanted = args[0] if self._aliasing is Tag.inplace else self._outs(args, kwargs)
            pairs = zip(result, wanted, strict=True) if isinstance(wanted, tuple) else [(result, wanted)]
            if any(got is not expected for got, expected in pairs):
                what = "its first argument" if self._aliasing is Tag.inplace else "its mutable keyword-only arguments"
                raise RuntimeError(f"{self._name} (with implementation in {module_of(function)}): An operator tagged "
                                   f"with torch.Tag.{self._aliasing.name} must return {what}.")
        elif not self._is_view:
            given = (*args, *kwargs.values())
            flat = result if isinstance(result, (tuple, list)) else (result,)
            if any(isinstance(r, Tensor) for r in flat):
                check_aliasing_constraint(self._name, given, tuple(flat), lambda: module_of(function))


def _check_aliases(tag: Any, schema: Any) -> None:
    """Raises unless the results of a schema alias the arguments that the tag says they are."""
    said = f"torch.Tag.{tag.name}"
    returns = schema.returns
    if tag is Tag.inplace:
        first = next((a for a in schema.arguments if not a.kwarg_only), None)
        if first is None or not first.is_write:
            raise ValueError(f"Schema tagged with {said} requires the first positional argument to be mutable (e.g., "
                             f"Tensor(a!)). Got: {schema}")
        if len(returns) != 1:
            raise ValueError(f"Schema tagged with {said} must return exactly one value (the first argument). Got "
                             f"{len(returns)} returns. Got: {schema}")
        if not _same_alias(returns[0], first):
            raise ValueError(f"Schema tagged with {said} must return the first mutable argument (return must alias the "
                             f"first argument). Got: {schema}")
        return
    written = [a for a in schema.arguments if a.is_write]
    positional = [a.name for a in written if not a.kwarg_only]
    if positional:
        raise ValueError(f"Schema tagged with {said} requires all mutable arguments to be keyword-only (after the *). "
                         f"Found mutable positional args: {positional}. Got: {schema}")
    if not written:
        raise ValueError(f"Schema tagged with {said} must have at least one mutable argument. Got: {schema}")
    strange = [a.name for a in written if a.type.base != "Tensor" or a.type.wrappers]
    if strange:
        raise ValueError(f"Schema tagged with {said} only supports Tensor mutable arguments. Found unsupported mutable "
                         f"args: {strange}. Got: {schema}")
    if len(returns) != len(written):
        raise ValueError(f"Schema tagged with {said} must return all mutable arguments (got {len(written)} mutable "
                         f"args but {len(returns)} returns). Got: {schema}")
    for nr, (argument, returned) in enumerate(zip(written, returns, strict=True)):
        if not _same_alias(returned, argument):
            raise ValueError(f"Return {nr} of schema tagged with {said} must alias mutable arg '{argument.name}'. Got: "
                             f"{schema}")


def _same_alias(returned: Any, argument: Any) -> bool:
    return returned.alias_info is not None and returned.alias_info.before_set == argument.alias_info.before_set
