"""Ahead-of-time traces: a function as a graph of operators without writes, and another of its derivative.

The graph of the derivative computes again what it needs of the forward pass, so that nothing but the arguments is kept.
"""

from collections.abc import Callable
from typing import Any

from .._autograd.function import Function
from .._autograd.grad_mode import enable_grad
from .._compat.absent import absent_function
from .._core.tensor import Tensor
from ..utils._pytree import tree_flatten, tree_unflatten

__all__ = ["aot_function", "compiled_function", "make_boxed_compiler", "make_boxed_func", "nop"]

_ONE_GRAPH = "The derivative is a graph of its own here, which computes again what it needs."
default_partition = absent_function("functorch.compile.default_partition", _ONE_GRAPH)
min_cut_rematerialization_partition = absent_function(
    "functorch.compile.min_cut_rematerialization_partition", _ONE_GRAPH)


def nop(fx_g: Any, _: Any = None) -> Any:
    """The compiler that leaves a graph as it is."""
    return fx_g


def make_boxed_func(f: Callable) -> Callable:
    """A function that takes its arguments in one list."""

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: Callable) -> Callable:
    return lambda fx_g, inputs: make_boxed_func(compiler(fx_g, inputs))


def _called(compiled: Callable, args: list[Any]) -> Any:
    return compiled(args) if getattr(compiled, "_boxed_call", False) else compiled(*args)


def _trace(function: Callable, args: list[Any], functional: bool, decompositions: Any) -> Any:
    """The graph of a function, traced on tensors without elements unless a shape depends on elements."""
    from .._subclasses.fake_tensor import DynamicOutputShapeException
    from ..fx.experimental.proxy_tensor import make_fx
    from .eager_transforms import functionalize

    traced = functionalize(function) if functional else function
    try:
        return make_fx(traced, decompositions, tracing_mode="fake")(*args)
    except DynamicOutputShapeException:
        return make_fx(traced, decompositions)(*[_own(a) for a in args])


def _own(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


class _Compiled:
    """The graphs of a function for arguments of one kind."""

    def __init__(self, function: Callable, leaves: list[Any], spec: Any, compilers: tuple[Callable, Callable],
                 settings: dict[str, Any]) -> None:
        self.at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self.out_spec: Any = None
        self.wanted = [leaves[i].requires_grad for i in self.at]
        self.backward: Callable | None = None
        functional = not settings.get("disable_functionalization", False)
        decompositions = settings.get("decompositions")

        def flat(*tensors: Tensor) -> list[Any]:
            given = list(leaves)
            for i, tensor in zip(self.at, tensors, strict=True):
                given[i] = tensor
            args, kwargs = tree_unflatten(given, spec)
            made, self.out_spec = tree_flatten(function(*args, **kwargs))
            return made

        tensors = [leaves[i].detach() for i in self.at]
        self.recorded: list[bool] = []

        def flat_noting(*inputs: Tensor) -> list[Any]:
            with enable_grad():
                used = [i.detach().requires_grad_() if w else i for i, w in zip(inputs, self.wanted, strict=True)]
                outputs = flat(*[u.view_as(u) if w else u for u, w in zip(used, self.wanted, strict=True)])
            self.recorded = [isinstance(o, Tensor) and o.requires_grad for o in outputs]
            return outputs

        if any(self.wanted):
            from .._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

            mode = FakeTensorMode(allow_non_fake_inputs=True)
            try:
                with mode:
                    outputs = flat_noting(*[mode.from_tensor(t) for t in tensors])
            except DynamicOutputShapeException:
                outputs = flat_noting(*map(_own, tensors))
            if any(self.recorded):
                tangents = [o.detach() for o, r in zip(outputs, self.recorded, strict=True) if r]
                tangents = [_like(t) for t in tangents]
                graph = _trace(self._joint(flat), [*tensors, *tangents], functional, decompositions)
                self.backward = compilers[1](graph, [*tensors, *tangents])
        graph = _trace(flat, tensors, functional, decompositions)
        names = {n.args[0].name for n in graph.graph.nodes if n.op == "call_function" and n.args
                 and getattr(n.target, "_opname", "").endswith("_") and getattr(n.args[0], "op", "") == "placeholder"}
        places = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
        self.written = [name in names for name in places]
        self.forward = compilers[0](graph, tensors)

    def _joint(self, flat: Callable) -> Callable:
        """The function that gives the gradients of the arguments for those of the results."""
        from ..autograd import grad

        def joint(*args: Any) -> list[Any]:
            count = len(self.wanted)
            with enable_grad():
                used = [t.detach().requires_grad_() if w else t for t, w in zip(args[:count], self.wanted, strict=True)]
                outputs = flat(*[u.view_as(u) if w else u for u, w in zip(used, self.wanted, strict=True)])
                recorded = [o for o, r in zip(outputs, self.recorded, strict=True) if r]
                sources = [u for u, w in zip(used, self.wanted, strict=True) if w]
                made = iter(grad(recorded, sources, args[count:], allow_unused=True))
            return [next(made) if w else None for w in self.wanted]

        return joint

    def __call__(self, leaves: list[Any]) -> Any:
        tensors = [leaves[i] for i in self.at]
        if self.backward is None:
            return tree_unflatten(list(_called(self.forward, [t.detach() if t.requires_grad else t for t in tensors])),
                                  self.out_spec)
        compiled = self

        class CompiledFunction(Function):
            """One call."""

            @staticmethod
            def forward(ctx: Any, *tensors: Tensor) -> Any:
                # what is written is kept as it was, for what is computed again
                kept = [t.detach().clone() if w else t for t, w in zip(tensors, compiled.written, strict=True)]
                ctx.save_for_backward(*kept)
                outputs = list(_called(compiled.forward, [t.detach() for t in tensors]))
                ctx.mark_non_differentiable(*(o for o, r in zip(outputs, compiled.recorded, strict=True)
                                              if not r and isinstance(o, Tensor)))
                return tuple(outputs)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                tangents = [g for g, r in zip(grads, compiled.recorded, strict=True) if r]
                given = [t.detach().clone() if w else t.detach()
                         for t, w in zip(ctx.saved_tensors, compiled.written, strict=True)]
                return tuple(_called(compiled.backward, [*given, *tangents]))  # type: ignore[arg-type]

        return tree_unflatten(list(CompiledFunction.apply(*tensors)), self.out_spec)


def _like(fake: Tensor) -> Tensor:
    """A tensor of ones of the shape and type of a fake one."""
    from .. import ones

    return ones(tuple(fake.shape), dtype=fake.dtype, device=fake.device)


def aot_function(fn: Callable, fw_compiler: Callable, bw_compiler: Callable | None = None, partition_fn: Any = None,
                 decompositions: Any = None, num_params_buffers: int = 0, keep_inference_input_mutations: bool = False,
                 inference_compiler: Callable | None = None, *, dynamic: bool = False, enable_log: bool = True,
                 disable_functionalization: bool = False) -> Callable:
    """`fn` with its graph, and that of its derivative, run by what the compilers make of them."""
    compilers = (fw_compiler, bw_compiler or fw_compiler)
    settings = {"decompositions": decompositions, "disable_functionalization": disable_functionalization}
    known: dict[Any, _Compiled] = {}

    def returned(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        key = (str(spec), tuple((tuple(leaf.shape), leaf.dtype, leaf.device, leaf.requires_grad)
                                if isinstance(leaf, Tensor) else repr(leaf) for leaf in leaves))
        if key not in known:
            known[key] = _Compiled(fn, leaves, spec, compilers, settings)
        return known[key](leaves)

    return returned


compiled_function = aot_function


def traced(function: Callable) -> Callable:
    """`function` as its trace."""
    return aot_function(function, nop)
