"""User-defined operations: `Function` with its `forward`, `backward` and context."""

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import FLOAT, OF_ARRAY
from .._core.tensor import Tensor
from .._dispatch.keys import BACKEND_MASK, DUAL_MASK, REQUIRES_GRAD, VIEW_MASK, WITH_GRAD, changed_modes, modes
from .._dispatch.levels import level_of
from .engine import edge_for
from .forward import dual_level_of, primal_of, run_custom_jvp
from .node import FREED, Node, SavedOutput, pack_saved, saving_hooks, version_of
from .saved import raw_saved_tensors
from .views import CUSTOM_FUNCTION, DEFAULT, MULTI_OUTPUT, check_inplace, rebase, refuse_several_outputs

_NOT_AN_INPUT = ("ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
                 "should be passed to ctx.mark_dirty().")


class FunctionCtx:
    """What `forward` leaves for `backward`. The context is the recorded node itself."""

    materialize_grads = True
    _materialize_non_diff_grads = True
    _is_pure_view = False  # says that `forward` does nothing but make a view of its input
    _in_jvp = False
    needs_input_grad: tuple[bool, ...] = ()
    saved_for_forward: tuple = ()
    _to_save: tuple = ()
    _dirty: tuple = ()
    _non_differentiable: tuple = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors for `backward`, watched for in-place changes; call it in `forward` only."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keeps tensors for a forward-mode rule."""
        for tensor in tensors:
            if not (isinstance(tensor, Tensor) or tensor is None):
                raise TypeError("save_for_forward expects all arguments to be tensors; you should save non-tensors as "
                                "attributes on ctx.")
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Says which inputs `forward` wrote in place."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Says which outputs carry no gradient."""
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing gradients reach `backward` as zeros (the default) or as None."""
        self.materialize_grads = value


class BackwardCFunction(Node, FunctionCtx):
    """The node of a custom Function."""

    function: type["Function"]
    tensor_inputs: tuple[bool, ...] = ()
    without_grad: tuple[int, ...] = ()  # places of the outputs that were marked as not differentiable

    @property
    def saved_tensors(self) -> tuple:
        if self._in_jvp:
            return tuple(t if t is None else primal_of(t) for t in self.saved_for_forward)
        if self.saved is None:
            raise RuntimeError(FREED)
        return tuple(self.unpack(i) for i in range(len(self.saved)))

    @property
    def saved_variables(self) -> tuple:
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple:
        return raw_saved_tensors(self)

    def _implementation(self) -> Callable:
        """`backward` or `vjp`, whichever the Function has."""
        function = self.function
        if function.vjp is Function.vjp:
            return function.backward
        if function.backward is not Function.backward:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                               "should only implement one of them.")
        return function.vjp

    def apply(self, *grads: Any) -> tuple:
        if self.materialize_grads:
            skipped = () if self._materialize_non_diff_grads else self.without_grad
            grads = tuple(zeros(self.outputs[i]) if g is None and i not in skipped else g for i, g in enumerate(grads))
        if self.function.boxed_grads_call:
            boxed = list(grads)
            del grads  # so that `backward` alone decides when they go
            result = self._implementation()(self, boxed)
        else:
            result = self._implementation()(self, *grads)
        result = result if isinstance(result, tuple) else (result,)
        expected = len(self.tensor_inputs)
        if len(result) > expected and any(g is not None for g in result[expected:]) or len(result) < expected:
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected "
                               f"{expected}, got {len(result)})")
        for i, (is_tensor, grad) in enumerate(zip(self.tensor_inputs, result, strict=False)):
            if grad is not None and not is_tensor:
                raise RuntimeError(f"function {self.name()} returned a gradient different than None at position "
                                   f"{i + 1}, but the corresponding forward input was not a Variable")
            if grad is not None and not isinstance(grad, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
        return tuple(g for is_tensor, g in zip(self.tensor_inputs, result, strict=False) if is_tensor)


def zeros(output: tuple) -> Tensor | None:
    import mindtorch_v2 as torch

    shape, kind, device = output
    if device is None:  # an output that is no tensor
        return None
    return torch.zeros(shape, dtype=OF_ARRAY[kind], device=device)


class FunctionMeta(type):
    """Gives each Function its own node class, named after it."""

    def __init__(cls, name: str, bases: tuple, attributes: dict) -> None:
        super().__init__(name, bases, attributes)
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"function": cls})


class Function(metaclass=FunctionMeta):
    """Base of custom differentiable operations: override `forward` and `backward`, call `apply`."""

    generate_vmap_rule = False
    _inside_transforms: type
    boxed_grads_call = False  # whether `backward` gets its gradients in one list, which it may empty

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
                      "should invoke them on the class itself. Instantiating an autograd function will raise an error "
                      "in a future version of PyTorch.", DeprecationWarning, stacklevel=2)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use "
                           "new-style autograd function with static forward method. (Example: "
                           "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError("You must implement either the backward or vjp method for your custom "
                                  "autograd.Function to use it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with "
                                  "forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod "
                                  "or set generate_vmap_rule=True.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        has_context = cls.setup_context is not Function.setup_context
        if has_context:
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        named = [value for value in kwargs.values() if isinstance(value, Tensor)] if kwargs else ()
        if named and hasattr(level_of((*args, *named)), "randomness"):  # the level of a vmap
            raise NotImplementedError("Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass "
                                      f"kwarg-only Tensors to autograd.Function. Got: {kwargs}")
        if kwargs:
            args = _by_position(cls.forward, 0 if has_context else 1, args, kwargs)
        level = level_of(args)
        if level is not None and level.alive:
            return level.apply_function(cls, args)

        def forward(ctx: Any) -> Any:
            if not has_context:
                return cls.forward(ctx, *args)
            output = cls.forward(*args)
            set_up(cls, ctx, args, output)
            return output

        return cls._recorded(args, forward)

    @classmethod
    def _generated_backward_cls(cls) -> type:
        """The class of nodes inside a transform of torch.func."""
        if "_inside_transforms" not in vars(cls):
            name = f"{cls.__name__}GeneratedBackward"
            cls._inside_transforms = type(name, (BackwardCFunction,), {"function": cls})
        return cls._inside_transforms

    @classmethod
    def _recorded(cls, args: tuple, forward: Callable[[Any], Any], node: type | None = None) -> Any:
        """The outputs that `forward(ctx)` gives, with this Function's node as their origin."""
        ctx = (node or cls._backward_cls)()
        ctx.tensor_inputs = tuple(isinstance(a, Tensor) for a in args)
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        inputs = [a for a in args if isinstance(a, Tensor)]
        record = modes.grad_enabled and any(ctx.needs_input_grad)
        if record:
            ctx.edges = tuple(edge_for(t) for t in inputs)
        dual = dual_level_of(args)
        with changed_modes(grad_enabled=False, exclude=modes.exclude | DUAL_MASK if dual else modes.exclude):
            output = forward(ctx)
        outputs = output if isinstance(output, tuple) else (output,)
        if ctx._is_pure_view and (len(inputs) != 1 or len(outputs) != 1):
            raise RuntimeError("Pure view custom Function can only have one input Tensor and one output Tensor. Open "
                               "an issue if you need to support more.")
        if any(not _contains(outputs, tensor) for tensor in ctx._dirty):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. "
                               "The inputs that are modified inplace must all be outputs of the Function.")
        several = sum(isinstance(o, Tensor) for o in outputs) > 1
        try:
            wrapped = tuple(_wrapped(ctx, o, i, inputs, record, several) for i, o in enumerate(outputs))
            if record:
                ctx.outputs = tuple(
                    (o._array.shape, o._array.dtype, o._device) if isinstance(o, Tensor) else ((), None, None)
                    for o in wrapped
                )
                followed = [o for o in wrapped if isinstance(o, Tensor) and o._edge is not None and o._edge[0] is ctx]
                for view in followed if len(followed) > 1 else ():
                    if view._creation == CUSTOM_FUNCTION:
                        view._creation = MULTI_OUTPUT
                if ctx._non_differentiable:
                    ctx.without_grad = tuple(i for i, o in enumerate(outputs) if _contains(ctx._non_differentiable, o))
                _save(ctx, wrapped)
            else:
                ctx.saved, ctx.edges = (), ()
            if dual is not None:
                ctx._in_jvp = True
                run_custom_jvp(cls, ctx, args, wrapped, dual)
        finally:  # outputs among these would make a cycle, also where a pack hook raises
            for name in ("saved_for_forward", "_to_save", "_dirty", "_non_differentiable", "_in_jvp"):
                ctx.__dict__.pop(name, None)
        return wrapped if isinstance(output, tuple) else wrapped[0]


def set_up(function: Any, ctx: Any, args: tuple, output: Any) -> None:
    """Runs `setup_context`; an input that is an output too is not to be saved there, because a view takes its place."""
    function.setup_context(ctx, args, output)
    if not (ctx._to_save or ctx.saved_for_forward):
        return
    for result in output if isinstance(output, tuple) else (output,):
        if not isinstance(result, Tensor) or not _contains(args, result) or _contains(ctx._dirty, result):
            continue
        if _contains(ctx._to_save, result) or _contains(ctx.saved_for_forward, result):
            raise RuntimeError(
                "An input that has been returned as-is as output is being saved for backward. This is not supported if "
                "you override setup_context. You should return and save a view of the input instead, e.g. with "
                "x.view_as(x) or setup ctx inside the forward function itself.")


def _by_position(forward: Callable, skipped: int, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """The arguments with those given by name in their places; `skipped` parameters come before them."""
    parameters = inspect.signature(forward).parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][skipped:]
    for name in kwargs:
        if name not in names:
            raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
        if names.index(name) < len(args):
            raise TypeError(f"forward() got multiple values for argument '{name}'")
    for place in range(len(args), max(map(names.index, kwargs)) + 1):
        if names[place] not in kwargs:
            raise TypeError(f"forward() missing required argument: '{names[place]}' (position {place})")
        args = (*args, kwargs[names[place]])
    return args


def _contains(tensors: Sequence[Any], tensor: Any) -> bool:
    return any(t is tensor for t in tensors)


def _wrapped(ctx: Any, output: Any, nr: int, inputs: list[Tensor], record: bool, several: bool) -> Any:
    """An output of `forward` with its place in the graph."""
    if not isinstance(output, Tensor):
        return output
    differentiable = record and not _contains(ctx._non_differentiable, output) and output.dtype.category >= FLOAT
    if _contains(inputs, output) and _contains(ctx._dirty, output):
        output._bump_version()
        if not differentiable:
            return output.detach() if output.requires_grad else output
        if differentiable:
            if output._keys & REQUIRES_GRAD and output._current_edge() is None:
                raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
            check_inplace(output)
            if output._base is not None and several:
                refuse_several_outputs()
            ctx.outputs = ((output._array.shape, output._array.dtype, output._device),)
            rebase(output, ctx)
        return output
    if record and _contains(ctx._dirty, output):
        if output._base is not None:
            raise RuntimeError(_NOT_AN_INPUT)
        warnings.warn(_NOT_AN_INPUT, stacklevel=4)
    if not differentiable and output.requires_grad and _contains(inputs, output):
        return output.detach()
    if _contains(inputs, output):
        with changed_modes(grad_enabled=False):
            output = output.view_as(output)
        output._creation = CUSTOM_FUNCTION
    elif output._base is not None:
        output._creation = DEFAULT if ctx._is_pure_view else CUSTOM_FUNCTION
    if differentiable:
        output._edge = (ctx, nr)
        output._edge_version = version_of(output)
        output._keys = (output._keys & ~VIEW_MASK) | WITH_GRAD[output._keys & BACKEND_MASK]
    elif _contains(ctx._non_differentiable, output) and output._base is not None:
        output = output._detached()
    return output


def _save(ctx: Any, outputs: tuple) -> None:
    saved: list[Any] = []
    for i, tensor in enumerate(ctx._to_save):
        if tensor is None:
            saved.append(None)
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"save_for_backward can only save variables, but argument {i} is of type "
                            f"{type(tensor).__name__}")
        nr = next((i for i, o in enumerate(outputs) if o is tensor), None)
        saved.append(SavedOutput(tensor, nr) if nr is not None and tensor._edge is not None else tensor)
    ctx.saved = tuple(saved)
    ctx.versions = tuple(version_of(v) for v in saved)
    if saving_hooks.users:
        pack_saved(ctx)


def once_differentiable(function: Callable) -> Callable:
    """Decorates a `backward` whose result must not be differentiated again."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with changed_modes(grad_enabled=False):
            outputs = function(ctx, *args)
        if not modes.grad_enabled or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        several = isinstance(outputs, tuple)
        error = DelayedError("trying to differentiate twice a function that was marked with @once_differentiable")
        made = [error.attach(o, (o.detach().requires_grad_(), -1)) if isinstance(o, Tensor) else o  # nothing real
                for o in (outputs if several else (outputs,))]
        return tuple(made) if several else made[0]

    return wrapper


class DelayedError(Node):
    """A node that only complains."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def attach(self, tensor: Tensor, edge: tuple | None) -> Tensor:
        """A tensor as an output of this node; `edge` is where its gradient would go."""
        self.edges = (*self.edges, edge)
        self.outputs = (*self.outputs, (tensor._array.shape, tensor._array.dtype, tensor._device))
        return tensor._with_edge((self, len(self.outputs) - 1))

    def apply(self, *grads: Any) -> tuple:
        raise RuntimeError(self.text)


DelayedError.__name__ = "Error"  # PyTorch's name


class InplaceFunction(Function):
    """A Function that can be told to write its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
