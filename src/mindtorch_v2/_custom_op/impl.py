"""Custom operators as they were made before torch.library.custom_op: functional ones, with a formula in two parts."""

import inspect
import warnings
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.function import Function
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.function_schema import FunctionSchema, parse_schema
from .._dispatch.keys import DispatchKey, modes
from .._dispatch.registry import Around, Operator, registry
from .._library.fake_impl import get_ctx  # noqa: F401 - by this name
from .._library.infer_schema import infer_schema
from .._library.utils import Kernel, get_source, is_functional_schema, lookup_op, parse_namespace
from ..utils._pytree import tree_leaves

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
RESERVED_NS = {"prim", "prims", "aten", "at", "torch", "pytorch"}
global_registry: dict[str, "CustomOp"] = {}


def warn_deprecated() -> None:
    warnings.warn("torch._custom_op is deprecated and will be removed in PyTorch 2.6, please use the equivalent "
                  "torch.library API instead.", DeprecationWarning, stacklevel=3)


def validate_namespace(ns: str) -> None:
    if "." in ns:
        raise ValueError(f'custom_op(..., ns="{ns}"): expected ns to not contain any . (and be a valid variable name)')
    if ns in RESERVED_NS:
        raise ValueError(f"custom_op(..., ns='{ns}'): '{ns}' is a reserved namespace, please choose something else. ")


def validate_schema(schema: FunctionSchema) -> None:
    """Raises unless operators of a schema only read and give new tensors."""
    if not is_functional_schema(schema):
        raise ValueError("custom_op only supports functional operators (ops that do not mutate any inputs, do not "
                         "return views of the inputs, and has at least one return). Got the following non-functional "
                         f"schema: {schema}")
    if any(a.name == "self" for a in schema.arguments):
        raise ValueError("custom_op does not support arguments named 'self'. Please rename your argument. Got: "
                         f"{schema}")


def validate_function_matches_schema(schema: FunctionSchema, func: Callable) -> None:
    """Raises unless a function takes what a schema says, by these names and without defaults."""
    signature = inspect.signature(func)
    parameters = signature.parameters.values()
    kinds = inspect.Parameter
    if any(p.kind not in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY) for p in parameters):
        raise ValueError("custom_op(..., manual_schema)(func): positional-only args, varargs, and kwargs are not "
                         f"supported. Please rewrite `func` to not have them. Got `func` with signature: {signature}")
    if any(p.annotation is not kinds.empty for p in parameters) or signature.return_annotation is not kinds.empty:
        raise ValueError("custom_op(..., manual_schema)(func): When passing in a manual schema, we expect `func` to "
                         "have no type annotations to avoid ambiguity. Got `func` with signature: "
                         f"{signature}")
    if any(p.default is not kinds.empty for p in parameters):
        raise ValueError("custom_op(..., manual_schema)(func): We expect `func` to not have default arguments. Got "
                         f"`func` with signature: {signature}")
    for keyword_only in (False, True):
        mine = [p.name for p in parameters if (p.kind is kinds.KEYWORD_ONLY) is keyword_only]
        theirs = [a.name for a in schema.arguments if a.kwarg_only is keyword_only]
        if mine != theirs:
            raise ValueError("custom_op(..., manual_schema)(func): When passing in a manual schema, we expect `func`'s "
                             f"signature to match `manual_schema` (aside from type annotations). func's signature: "
                             f"{signature}, manual_schema: {schema}")


def custom_op(qualname: str, manual_schema: str | None = None) -> Callable:
    """A decorator that makes a function's signature an operator; the function itself is not run."""
    warn_deprecated()

    def inner(func: Callable) -> CustomOp:
        if not inspect.isfunction(func):
            raise ValueError("custom_op(...)(func): Expected `func` to be a Python function, got: " f"{type(func)}")
        namespace, name = parse_namespace(qualname)
        validate_namespace(namespace)
        if func.__name__ != name:
            raise ValueError(f"custom_op(qualname='{qualname}', ...)(func): expected `func` to have name '{name}' but "
                             f"got '{func.__name__}'. Please either change the name of `func` or the qualname that is "
                             "passed to `custom_op`")
        text = infer_schema(func, mutates_args=()) if manual_schema is None else manual_schema
        schema = parse_schema(f"{name}{text}")
        if manual_schema is not None:
            validate_function_matches_schema(schema, func)
        validate_schema(schema)
        return make_op(qualname, f"{name}{text}")

    return inner


def make_op(qualname: str, schema: str) -> "CustomOp":
    """Declares an operator, with an autograd kernel that knows of the formula to come."""
    from ..library import Library

    lib = Library(parse_namespace(qualname)[0], "FRAGMENT")
    lib.define(schema)
    made = CustomOp(lib, parse_namespace(qualname)[0], parse_schema(schema), qualname, lookup_op(qualname),
                    _private_access=True)
    lib.impl(qualname, made._without_kernel, "CompositeExplicitAutograd")
    lib.impl(qualname, made._without_meta, "Meta")
    registry.register_kernel(qualname, DispatchKey.Autograd, Around(made._autograd))
    made._foreign = set()
    return made


def find_op(qualname: str) -> "CustomOp":
    """The CustomOp of an operator; one is made for an operator of torch.library."""
    from ..library import Library, registered_keys

    if qualname in global_registry:
        return global_registry[qualname]
    if qualname not in registry:
        raise ValueError(f"Could not find the operator {qualname}. Please make sure you have already registered the "
                         "operator and (if registered from C++) loaded it via torch.ops.load_library.")
    overload = lookup_op(qualname)
    lib = Library(parse_namespace(qualname)[0], "FRAGMENT")
    made = CustomOp(lib, parse_namespace(qualname)[0], overload._schema, qualname, overload, _private_access=True)
    made._foreign = registered_keys(qualname)
    return made


def get_op(qualname: str) -> Any:
    """The overload of a qualified name."""
    found = qualname in registry
    if not found:
        raise ValueError(f"Could not find the operator {qualname}. Please make sure you have already registered the "
                         "operator and (if registered from C++) loaded it via torch.ops.load_library.")
    return lookup_op(qualname)


class CustomOp:
    """An operator, on which kernels and the parts of its formula are registered."""

    def __init__(self, lib: Any, cpp_ns: str, schema: FunctionSchema, operator_name: str, ophandle: Any, *,
                 _private_access: bool = False) -> None:
        if not _private_access:
            raise RuntimeError("The CustomOp constructor is private and we do not guarantee BC for it. Please use "
                               "custom_op(...) to create a CustomOp object")
        self._lib, self._cpp_ns, self._schema, self._qualname = lib, cpp_ns, schema, operator_name
        self._ophandle = ophandle
        self.__name__ = operator_name.partition("::")[2]
        self._impls: dict[str, Kernel] = {}
        self._foreign: set[str] = set()  # keys that others registered kernels for
        self._output_differentiability: list[bool] | None = None
        global_registry[operator_name] = self

    def _destroy(self) -> None:
        self._lib._destroy()
        global_registry.pop(self._qualname, None)

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        operator = registry.get(self._qualname)
        return call_bound(operator, operator.schema.bind(args, kwargs))

    def _register(self, kind: str, func: Callable) -> None:
        if kind in self._impls:
            earlier = self._impls[kind]
            raise RuntimeError(f"Attempting to register a {kind} impl for operator {self._qualname} that already has a "
                               f"{kind} impl registered from Python at {earlier.source}. This is not supported.")
        self._impls[kind] = Kernel(func, get_source())

    def impl(self, device_types: str | Sequence[str]) -> Callable:
        """A decorator that registers a kernel for device types."""
        kinds = [device_types] if isinstance(device_types, str) else list(device_types)
        for kind in kinds:
            if kind not in SUPPORTED_DEVICE_TYPE_TO_KEY:
                raise ValueError(f"CustomOp.impl(device_types=[{kind}, ...]): we only support device_type in "
                                 f"{SUPPORTED_DEVICE_TYPE_TO_KEY.keys()}.")

        def inner(func: Callable) -> Callable:
            for kind in dict.fromkeys(kinds):
                key = SUPPORTED_DEVICE_TYPE_TO_KEY[kind]
                if self._foreign & {key, "CompositeImplicitAutograd", "CompositeExplicitAutograd"}:
                    raise RuntimeError(f"impl(..., device_types={kind}): the operator {self._qualname} already has an "
                                       "implementation for this device type via a pre-existing torch.library or "
                                       "TORCH_LIBRARY registration.")
                self._register(kind, func)
                self._lib.impl(self._qualname, func, key)
            return func

        return inner

    def impl_factory(self) -> Callable:
        """A decorator that registers the kernel of an operator that makes tensors."""

        def inner(func: Callable) -> Callable:
            self._register("factory", func)
            self._lib.impl(self._qualname, func, "CompositeExplicitAutograd")
            return func

        return inner

    def impl_abstract(self) -> Callable:
        """A decorator that registers the function for tensors without elements."""
        from ..library import register_fake

        def inner(func: Callable) -> Callable:
            self._register("abstract", func)
            return register_fake(self._qualname, func, lib=self._lib)

        return inner

    def _check_can_register_backward(self) -> None:
        where = f"impl_backward/impl_save_for_backward: the operator {self._qualname} already has an "
        if "CompositeImplicitAutograd" in self._foreign:
            raise RuntimeError(f"{where}implementation for this device type via a pre-existing registration to "
                               "DispatchKey::CompositeImplicitAutograd.CompositeImplicitAutograd operators do not need "
                               "an autograd formula; instead, the operator will decompose into its constituents and "
                               "those can have autograd formulas defined on them.")
        for key in ("Autograd", "AutogradCPU", "AutogradCUDA"):
            if key in self._foreign:
                raise RuntimeError(f"{where}Autograd kernel registered to DispatchKey::{key} vi a pre-existing "
                                   "torch.library or TORCH_LIBRARY registration. Please either remove those "
                                   "registrations or don't use the torch._custom_ops APIs")
        if not is_functional_schema(self._schema):
            raise RuntimeError(f"impl_backward/impl_save_for_backward: we only support functional operators, got "
                               f"schema {self._schema}")

    def impl_save_for_backward(self) -> Callable:
        """A decorator for the function that says what backward needs: `func(inputs, output)`."""

        def inner(func: Callable) -> Callable:
            self._check_can_register_backward()
            self._register("save_for_backward", func)
            registry.register_kernel(self._qualname, DispatchKey.Autograd, Around(self._autograd))
            return func

        return inner

    def impl_backward(self, output_differentiability: Any = None) -> Callable:
        """A decorator for the function that gives the gradients by name: `func(ctx, saved, *grads)`."""
        if output_differentiability is not None:
            count = len(self._schema.returns)
            right = isinstance(output_differentiability, list) and all(
                isinstance(flag, bool) for flag in output_differentiability)
            if not right:
                raise RuntimeError("impl_backward(output_differentiability): expected output_differentiability to be a "
                                   f"list of bools with length equal to the number of outputs of this CustomOp got: "
                                   f"{output_differentiability}")
            if len(output_differentiability) != count:
                raise RuntimeError("impl_backward(output_differentiability): expected output_differentiability to be a "
                                   f"list of bools with length equal to the number of outputs of this CustomOp got: "
                                   f"{output_differentiability}")

        def inner(func: Callable) -> Callable:
            self._check_can_register_backward()
            self._register("backward", func)
            self._output_differentiability = output_differentiability
            registry.register_kernel(self._qualname, DispatchKey.Autograd, Around(self._autograd))
            return func

        return inner

    # kernels -------------------------------------------------------------------------------------------------------

    def _without_kernel(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if not tensors:
            raise NotImplementedError(f"{self}: There were no Tensor inputs to this operator (e.g. you passed an empty "
                                      "list of Tensors). If your operator is a factory function (that is, it takes no "
                                      "Tensors and constructs a new one), then please use CustomOp.impl_factory to "
                                      "register an implementation for it")
        kind = tensors[0].device.type
        raise NotImplementedError(f"{self}: when running with device='{kind}' tensors: there is no {kind} impl "
                                  "registered for this CustomOp. Please register one via "
                                  f"CustomOp.impl(device_type='{kind}')")

    def _without_meta(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self._qualname}: attempted to run this operator with Meta tensors, but there was "
                                  "no fake impl or Meta kernel registered. You may have run into this message while "
                                  "using an operator with PT2 compilation APIs (torch.compile/torch.export); in order "
                                  "to use this operator with those APIs you'll need to add a fake impl. Please see the "
                                  "following for next steps:  https://pytorch.org/tutorials/advanced/"
                                  "custom_ops_landing_page.html")

    def _autograd(self, operator: Operator, below: Callable, mask: int) -> Callable:
        """The autograd kernel, with the parts of the formula that are registered when it runs."""

        def kernel(*args: Any) -> Any:
            if not modes.grad_enabled or not any(
                    t.requires_grad for t in tree_leaves(list(args)) if isinstance(t, Tensor)):
                return below(*args)
            if "backward" not in self._impls and "save_for_backward" not in self._impls:
                raise RuntimeError("Autograd has not been implemented for operator")
            for one, other in (("backward", "save_for_backward"), ("save_for_backward", "backward")):
                if other not in self._impls:
                    raise RuntimeError(f"We found a '{one}' registration for {self} at {self._impls[one].source} but "
                                       f"were unable to find a '{other}' registration. To use the CustomOp API to "
                                       "register a backward formula, please provide us both a backward function and a "
                                       "'save for backward' function via `impl_backward` and `impl_save_for_backward` "
                                       "respectively.")
            return self._recorded(operator, below, args)

        return kernel

    def _recorded(self, operator: Operator, below: Callable, args: tuple) -> Any:
        from ..utils._pytree import tree_flatten, tree_unflatten

        leaves, in_spec = tree_flatten(list(args))
        names = operator.schema.names
        inputs = namedtuple(f"{self.__name__}_args", names)(*args)  # type: ignore[misc]  # noqa: PYI024 - names of the schema
        kept: list[Any] = []

        class Recorded(Function):
            """One call."""

            @staticmethod
            def forward(ctx: Any, *leaves: Any) -> Any:
                output = below(*tree_unflatten(list(leaves), in_spec))
                several = isinstance(output, tuple)
                self._mark(ctx, output if several else (output,))
                flat, spec = tree_flatten(list(output) if several else output)
                saved = self._impls["save_for_backward"].func(inputs, output)
                saved_leaves, ctx.saved_spec = tree_flatten(saved)
                ctx.saved_at = [i for i, leaf in enumerate(saved_leaves) if isinstance(leaf, Tensor)]
                ctx.saved_others = [None if isinstance(leaf, Tensor) else leaf for leaf in saved_leaves]
                ctx.save_for_backward(*(saved_leaves[i] for i in ctx.saved_at))
                ctx.out_spec, ctx.several = spec, several
                kept.append((spec, several))
                return tuple(flat)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                saved = list(ctx.saved_others)
                for i, tensor in zip(ctx.saved_at, ctx.saved_tensors, strict=True):
                    saved[i] = tensor
                given = tree_unflatten(list(grads), ctx.out_spec)
                made = self._impls["backward"].func(ctx, tree_unflatten(saved, ctx.saved_spec),
                                                    *(given if ctx.several else (given,)))
                return self._in_order(made, inputs)

        flat = Recorded.apply(*leaves)
        spec, several = kept[0]
        made = tree_unflatten(list(flat), spec)
        return tuple(made) if several else made

    def _mark(self, ctx: Any, outputs: tuple) -> None:
        """Takes outputs that are not differentiable out of the graph."""
        flags = self._output_differentiability
        if flags is None:
            return
        without: list[Tensor] = []
        for flag, output in zip(flags, outputs, strict=True):
            if flag and not all(isinstance(t, Tensor) for t in tree_leaves(output)):
                raise RuntimeError(f"With output_differentiability={flags}. At idx {outputs.index(output)}, we "
                                   f"received an object of type {type(output)} that is not a Tensor, so it cannot have "
                                   "be marked as differentiable in output_differentiability.")
            if not flag:
                without += [t for t in tree_leaves(output) if isinstance(t, Tensor)]
        if without:
            ctx.mark_non_differentiable(*without)

    def _in_order(self, grads: Any, inputs: Any) -> tuple:
        """The gradients that backward gave by name, for the leaves of the arguments."""
        where = (f"In the backward function defined for {self} at {self._impls['backward'].source} using the CustomOp "
                 "API, ")
        if not isinstance(grads, dict):
            raise RuntimeError(f"{where}expected the output of the backward function to be a dict but got "
                               f"{type(grads)}")
        expected = {a.name for a in self._schema.arguments if a.type.base == "Tensor"}
        if set(grads) != expected:
            raise RuntimeError(f"{where}expected the returned grad_input dict to have keys {expected} but got "
                               f"{grads.keys()}. The backward function must return a gradient (can be None) for each "
                               "arg to the CustomOp that may be a Tensor or Sequence[Tensor]. Args declared to be "
                               "non-Tensor-like types should not appear in the grad_input dict")
        leaves: list[Any] = []
        for name, value in zip(inputs._fields, inputs, strict=True):
            count = len(tree_leaves(value))
            if name not in grads:
                leaves += [None] * count
                continue
            grad = grads[name]
            if not isinstance(value, (tuple, list)):
                if grad is not None and not isinstance(grad, Tensor):
                    raise RuntimeError(f"{where}for input {name} expected the grad_input dict to hold either None or a "
                                       f"Tensor grad for a Tensor arg but got {type(grad)}")
                leaves.append(grad)
                continue
            if not isinstance(grad, (tuple, list)):
                raise RuntimeError(f"{where}for input {name} expected the grad_input dict to hold a list of gradients "
                                   f"but got object of type {type(grad)}.")
            if len(grad) != count:
                raise RuntimeError(f"{where}for input {name} expected the grad_input dict to hold a list of {count} "
                                   f"gradients but got {len(grad)}")
            for nr, one in enumerate(grad):
                if one is not None and not isinstance(one, Tensor):
                    raise RuntimeError(f"{where}for input {name} expected the grad_input dict to hold a list of None "
                                       f"or Tensor gradients but got object of {type(one)} at index {nr}")
            leaves += list(grad)
        return tuple(leaves)
