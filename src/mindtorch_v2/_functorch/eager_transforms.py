"""The transforms of torch.func that differentiate: grad, vjp, jvp and what is made of them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.engine import run_backward
from .._autograd.forward import attach_tangent, tangent_of, zeros_for
from .._autograd.grad_mode import enable_grad
from .._autograd.roots import root_gradients
from .._core.dtype import FLOAT
from .._core.tensor import Tensor
from .._dispatch.keys import AUTOGRAD_MASK, DUAL_MASK, FUNC_MASK, modes
from .._dispatch.levels import innermost, open_levels, value_at
from ..autograd.graph import disable_saved_tensors_hooks
from ..utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten, treespec_pprint
from .grad_level import GradLevel, wrapped
from .vmap import vmap

argnums_t = int | tuple[int, ...]
_HOOKS = ("torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with "
          "your use case.")


def _wrapped_tree(level: GradLevel, tree: Any) -> Any:
    return tree_map_only(Tensor, lambda t: wrapped(level, t), tree)


def _unwrapped_tree(level: GradLevel, tree: Any) -> Any:
    return tree_map_only(Tensor, lambda t: value_at(level, t), tree)


def _unwrapped_aux(level: GradLevel, aux: Any, has_aux: bool) -> Any:
    """What a function gives beside its result: tensors only."""
    for leaf in tree_leaves(aux) if has_aux else ():
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return _unwrapped_tree(level, aux)


def _tracked(value: Any) -> Tensor:
    """A tensor of the level as a leaf that is recorded from."""
    if not isinstance(value, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
    if value.dtype.category < FLOAT:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    return value._track()


def _slice_argnums(args: tuple, argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments to differentiate by, as a tuple; one of them alone unless `as_tuple`."""
    if isinstance(argnums, bool) or not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for number in numbers:
        if isinstance(argnums, tuple) and not isinstance(number, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {argnums}")
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")
    if len({number % len(args) for number in numbers}) != len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple(args[number] for number in numbers) if as_tuple or isinstance(argnums, tuple) else args[argnums]


def _with_chosen(args: tuple, argnums: Any, values: Any) -> tuple:
    """The arguments with those at `argnums` replaced."""
    made = list(args)
    numbers, given = (argnums, values) if isinstance(argnums, tuple) else ((argnums,), (values,))
    for number, value in zip(numbers, given, strict=True):
        made[number] = value
    return tuple(made)


def _gradients(outputs: Sequence[Any], inputs: Sequence[Any], grads: Sequence[Any], *, create_graph: bool) -> list[Any]:
    """Gradients of the inputs, zero where an output does not depend on them."""
    live = [i for i, o in enumerate(outputs) if o.requires_grad]
    if not live:
        return [zeros_for(t) for t in inputs]
    outputs = [outputs[i] for i in live]
    roots = root_gradients(tuple(outputs), tuple(grads[i] for i in live))
    made = run_backward(outputs, roots, True, create_graph, inputs, True, accumulate_grad=False)
    return [zeros_for(t) if g is None else g for t, g in zip(inputs, made, strict=True)]


# grad ----------------------------------------------------------------------------------------------------------------


def _is_recorded_below(level: GradLevel, leaves: Sequence[Any]) -> bool:
    """Whether somebody outside differentiates, for whom formulas must compose operators that have derivatives."""
    if not level.outer_grad:
        return False
    keys = 0
    for leaf in leaves:
        while leaf._keys & FUNC_MASK:
            leaf = leaf._array.value  # noqa: PLW2901
            keys |= leaf._keys
    return bool(keys & (AUTOGRAD_MASK | DUAL_MASK)) or any(
        isinstance(other, GradLevel) and other is not level for other in open_levels())


def grad_and_value(func: Callable, argnums: argnums_t = 0, has_aux: bool = False) -> Callable:
    """A function that gives (the gradient of `func`, its value); with `has_aux` the value is (value, aux)."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        _slice_argnums(args, argnums)
        with disable_saved_tensors_hooks(_HOOKS), GradLevel() as level, enable_grad():
            args, kwargs = _wrapped_tree(level, args), _wrapped_tree(level, kwargs)
            inputs = tree_map(_tracked, _slice_argnums(args, argnums, False))
            output = func(*args, **kwargs)
            aux = None
            if has_aux:
                if not (isinstance(output, tuple) and len(output) == 2):
                    raise RuntimeError("grad_and_value(f)(*args): output of function f should be a tuple: (output, "
                                       "aux) if has_aux is True")
                output, aux = output
            if not isinstance(output, Tensor):
                raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got "
                                   f"{type(output)}")
            if output.dim():
                raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor "
                                   f"with {output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?")
            leaves, spec = tree_flatten(inputs)
            level.in_backward = True
            made = _gradients([output], leaves, [None], create_graph=_is_recorded_below(level, leaves))
            gradient = _unwrapped_tree(level, tree_unflatten(made, spec))
            output, aux = _unwrapped_tree(level, output), _unwrapped_aux(level, aux, has_aux)
        return gradient, (output, aux) if has_aux else output

    return wrapper


def grad(func: Callable, argnums: argnums_t = 0, has_aux: bool = False) -> Callable:
    """A function that gives the gradient of `func`, which returns a number; with `has_aux`, (gradient, aux)."""
    differentiated = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = differentiated(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


# vjp -----------------------------------------------------------------------------------------------------------------


def _check_tensors(outputs: Sequence[Any], call: str) -> None:
    if not outputs or list(outputs) == [None]:
        raise RuntimeError(f"{call}: Expected f to be a function that has non-empty output (got output = "
                           f"{list(outputs)})")
    for output in outputs:
        if not isinstance(output, Tensor):
            raise RuntimeError(f"{call}: expected {_function_of(call)} to return only tensors, got unsupported type "
                               f"{type(output)}")


def _function_of(call: str) -> str:
    return "f(*args)" if "args" in call else "f(*primals)"


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), a function from cotangents to gradients of the primals)[, aux]."""
    with disable_saved_tensors_hooks(_HOOKS):
        return _vjp(func, *primals, has_aux=has_aux)


def _vjp(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    with GradLevel() as level, enable_grad():
        given = _wrapped_tree(level, primals)
        inputs, in_spec = tree_flatten(given)
        inputs = [_tracked(t) for t in inputs]
        output = func(*given)
        aux = None
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError("vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux "
                                   "is True")
            output, aux = output
        outputs, out_spec = tree_flatten(output)
        _check_tensors(outputs, "vjp(f, *primals)")
        result, aux = _unwrapped_tree(level, output), _unwrapped_aux(level, aux, has_aux)

    def transposed(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        flat_cotangents, spec = tree_flatten(given)
        if spec != out_spec:
            raise RuntimeError("Expected pytree structure of cotangents to be the same as pytree structure of outputs "
                               f"to the function. cotangents: {treespec_pprint(spec)}, primal output: "
                               f"{treespec_pprint(out_spec)}")
        graph = modes.grad_enabled if create_graph is None else create_graph
        made = _gradients(outputs, inputs, flat_cotangents, create_graph=graph)
        return tree_unflatten(_unwrapped_tree(level, made), in_spec)

    return (result, transposed, aux) if has_aux else (result, transposed)


# jvp -----------------------------------------------------------------------------------------------------------------


def jvp(func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """(func(*primals), its Jacobian times the tangents)[, aux], in one pass forward."""
    call = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{call}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    leaves, spec = tree_flatten(primals)
    given, given_spec = tree_flatten(tangents)
    if spec != given_spec:
        raise RuntimeError(f"{call}: Expected primals and tangents to have the same python structure. For example, if "
                           "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
                           f"{spec} and tangents with structure {given_spec}")
    for values, name in ((leaves, "primals"), (given, "tangents")):
        for value in values:
            if not isinstance(value, Tensor):
                raise RuntimeError(f"{call}: Expected {name} to be a tuple of Tensors, got unsupported type "
                                   f"{type(value)}")
        if not values:
            raise RuntimeError(f"{call}: Expected {name} to contain at least one Tensor.")
    with GradLevel() as level:
        duals = [attach_tangent(wrapped(level, primal), wrapped(level, tangent), level)
                 for primal, tangent in zip(leaves, given, strict=True)]
        output = func(*tree_unflatten(duals, spec))
        aux = None
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(f"{call}: output of function f should be a tuple: (output, aux) if has_aux is True")
            output, aux = output
        outputs, out_spec = tree_flatten(output)
        _check_tensors(outputs, call)
        made = [tangent_of(o) if o._tangent is None or o._tangent[0] is level else None for o in outputs]
        if strict and any(t is None for t in made):
            raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
                               "This is not allowed with strict=True.")
        made = [zeros_for(o) if t is None else t for o, t in zip(outputs, made, strict=True)]
        result = (_unwrapped_tree(level, output), _unwrapped_tree(level, tree_unflatten(made, out_spec)))
        aux = _unwrapped_aux(level, aux, has_aux)
    return (*result, aux) if has_aux else result


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """(func(*primals), its Jacobian there as a linear function of tangents), `func` being run once."""
    spec = tree_flatten(primals)[1]
    output, pulled_back = _vjp(func, *primals)
    ones = tree_map(lambda t: t.detach().new_ones(t.shape), output)
    _, pushed_forward = _vjp(pulled_back, ones)

    def linear(*tangents: Any) -> Any:
        given_spec = tree_flatten(tangents)[1]
        if given_spec != spec:
            raise RuntimeError("Expected the tangents to have the same argspec as the primals. tangents: "
                               f"{treespec_pprint(given_spec)}, primals: {treespec_pprint(spec)}")
        return pushed_forward(tangents)[0]

    return output, linear


# Jacobians -----------------------------------------------------------------------------------------------------------


def _refuse_complex(function: str, tensors: Sequence[Any], are_inputs: bool) -> None:
    """Raises for the first complex tensor: a Jacobian of real numbers would not be defined by it."""
    for i, tensor in enumerate(tensors):
        if isinstance(tensor, Tensor) and tensor.dtype.is_complex:
            raise RuntimeError(f"{function}: Expected all {'inputs' if are_inputs else 'outputs'} to be real but "
                               f"received complex tensor at flattened input idx: {i}")


def _basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """For each tensor as many rows as all have elements together: a unit vector in each row of one of them."""
    from .. import cat

    counts = [t.numel() for t in tensors]
    total, made, start = sum(counts), [], 0
    for tensor, count in zip(tensors, counts, strict=True):
        like = tensor.detach()
        parts = [like.new_zeros((start, count)), like.new_ones((count,)).diag(),
                 like.new_zeros((total - start - count, count))]
        made.append(cat([p for p in parts if p.numel()] or parts[:1]).reshape((total, *tensor.shape)))
        start += count
    return made


def jacrev(func: Callable, argnums: argnums_t = 0, *, has_aux: bool = False, chunk_size: int | None = None,
           _preallocate_and_copy: bool = False) -> Callable:
    """A function that gives the Jacobian of `func`, row by row in reverse mode, all rows at once."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        inputs = _slice_argnums(args, argnums, False)
        _refuse_complex("jacrev", tree_flatten(args)[0], are_inputs=True)

        def of_inputs(*chosen: Any) -> Any:
            return func(*_with_chosen(args, argnums, chosen if isinstance(argnums, tuple) else chosen[0]), **kwargs)

        chosen = inputs if isinstance(argnums, tuple) else (inputs,)
        output, pulled_back, *aux = vjp(of_inputs, *chosen, has_aux=has_aux)
        outputs, out_spec = tree_flatten(output)
        _refuse_complex("jacrev", outputs, are_inputs=False)
        basis = tree_unflatten(_basis(outputs), out_spec)
        rows = vmap(pulled_back, chunk_size=chunk_size)(basis)
        flat_rows, in_spec = tree_flatten(rows if isinstance(argnums, tuple) else rows[0])
        flat_inputs = tree_flatten(inputs)[0]
        split = [row.split([o.numel() for o in outputs]) for row in flat_rows]
        made = [tree_unflatten([part[i].reshape((*o.shape, *x.shape))
                                for part, x in zip(split, flat_inputs, strict=True)], in_spec)
                for i, o in enumerate(outputs)]
        result = tree_unflatten(made, out_spec)
        return (result, aux[0]) if has_aux else result

    return wrapper


def jacfwd(func: Callable, argnums: argnums_t = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """A function that gives the Jacobian of `func`, column by column in forward mode, all columns at once."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        inputs = _slice_argnums(args, argnums, False)
        flat_inputs, in_spec = tree_flatten(inputs)
        given = tuple(flat_inputs)
        _refuse_complex("jacfwd", tree_flatten(args)[0], are_inputs=True)

        def of_inputs(*leaves: Any) -> Any:
            return func(*_with_chosen(args, argnums, tree_unflatten(leaves, in_spec)), **kwargs)

        def pushed_forward(*tangents: Any) -> Any:
            _, tangent, *aux = jvp(of_inputs, given, tangents, has_aux=has_aux)
            return (tangent, aux[0]) if has_aux else tangent

        basis = _basis(flat_inputs)
        columns = vmap(pushed_forward, randomness=randomness)(*basis)
        columns, aux = columns if has_aux else (columns, None)
        flat_columns, out_spec = tree_flatten(columns)
        _refuse_complex("jacfwd", flat_columns, are_inputs=False)
        counts = [x.numel() for x in flat_inputs]
        made = []
        for column in flat_columns:
            parts = column.movedim(0, -1).split(counts, -1)
            made.append(tree_unflatten([p.reshape((*column.shape[1:], *x.shape))
                                        for p, x in zip(parts, flat_inputs, strict=True)], in_spec))
        result = tree_unflatten(made, out_spec)
        return (result, tree_map_only(Tensor, lambda t: t[0], aux)) if has_aux else result

    return wrapper


def hessian(func: Callable, argnums: argnums_t = 0) -> Callable:
    """A function that gives the second derivatives of `func`: forward over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)


# the rest ------------------------------------------------------------------------------------------------------------


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """`func` without writes in place; with remove="mutations_and_views" also without views."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError("functionalize(f, remove='mutations'): received invalid argument for remove=. Valid options "
                           "are:\n     remove='mutations': all inplace and out= operators will be removed from the "
                           "program, and replaced with their out-of-place equivalents.\n     "
                           "remove='mutations_and_views': In addition to the above, all aliasing operators {view} will "
                           "be replaced with their non-aliasing counterparts, {view}_copy.\n")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from .._subclasses.functional_wrapper import Functionalizing, enabled, is_functional, make, outside

        level = Functionalizing(remove == "mutations", modes.exclude)
        given, named = tree_map_only(Tensor, lambda t: make(t, level), (args, kwargs))
        with enabled(level):
            result = func(*given, **named)
            with outside():
                pairs = zip(tree_leaves((args, kwargs)), tree_leaves((given, named)), strict=True)
                for original, wrapper in pairs:
                    if is_functional(wrapper) and wrapper is not original:
                        _propagate(original, wrapper)

                def unwrapped(tensor: Tensor) -> Tensor:
                    if not is_functional(tensor) or tensor._level is not level:  # type: ignore[attr-defined]
                        return tensor
                    tensor.sync()  # type: ignore[attr-defined]
                    return tensor._value  # type: ignore[attr-defined]

                return tree_map_only(Tensor, unwrapped, result)

    return wrapped


def _propagate(original: Tensor, wrapper: Any) -> None:
    """Lets an argument have what was written to its wrapper."""
    wrapper.sync()
    value = wrapper._value
    if value is original:
        return
    if value.numel() == original.numel() or value.shape == original.shape:
        if tuple(original.shape) != tuple(value.shape):
            original.resize_(value.shape)
        original.copy_(value)


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor inside one that a transform wrapped; with `recurse`, inside all of them."""
    if recurse:
        return innermost(tensor)
    return tensor._array.value if tensor._keys & FUNC_MASK else tensor
