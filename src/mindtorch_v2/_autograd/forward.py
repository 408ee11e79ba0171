"""Forward-mode differentiation: a dual tensor carries its tangent, and each operator makes its results' tangents.

An operator's derivative is declared once, as formulas from an output's gradient to those of the inputs. They are linear
in that gradient, so transposing them (differentiating with respect to it) gives the map from input tangents to output
tangents. Elementwise formulas are their own transposes, and linear operators are their own derivatives: those go
without the detour. Tangents are computed by tensor operators, so they can be recorded and differentiated in turn.
"""

from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import COMPLEX, FLOAT, OF_ARRAY
from .._dispatch.callers import call_bound
from .._dispatch.keys import DUAL_MASK, SPARSE_MASK, DispatchKey, changed_modes, modes
from .._dispatch.levels import map_tensors
from .._dispatch.registry import Around, Operator, registry
from .derive import SUFFIXES, make_node_class
from .engine import run_backward
from .node import Node, SavedOutput
from .views import CopySlices, replay, steps_to


class DualLevel:
    """A stretch of time in which tangents live."""

    alive = True


def tangent_of(tensor: Any) -> Any:
    """The tangent of a dual tensor; None if it is none, or its level is over."""
    held = tensor._tangent
    return held[1] if held is not None and held[0].alive else None


def primal_of(tensor: Any) -> Any:
    """The tensor without its tangent, with the same place in the graph."""
    if not tensor._keys & DUAL_MASK:
        return tensor
    edge = tensor._recording_edge() if tensor.requires_grad else None
    return tensor._detached() if edge is None else tensor._with_edge(edge)


def attach_tangent(tensor: Any, tangent: Any, level: Any) -> Any:
    """Makes a tensor dual, and what its own node saved of it."""
    if tensor._array.shape != tangent._array.shape:
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original "
                           f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the given "
                           f"forward gradient is of size {list(tangent.shape)}.")
    tensor._tangent = (level, tangent)
    tensor._keys |= DUAL_MASK
    edge = tensor._edge
    if edge is not None and edge[1] >= 0:
        node = edge[0].writer if isinstance(edge[0], CopySlices) else edge[0]
        for saved in (node and node.saved) or ():
            if saved.__class__ is SavedOutput and saved.nr == edge[1]:
                saved.attach_tangent(tensor._tangent)
    return tensor


def zeros_for(tensor: Any) -> Any:
    return tensor.detach().new_zeros(tensor.shape)


def dual_level_of(args: Sequence[Any]) -> Any:
    """The live level of the tangents among the arguments, if there is one."""
    for arg in args:
        for value in arg if arg.__class__ in (tuple, list) else (arg,):
            if getattr(value, "_keys", 0) & DUAL_MASK and value._tangent[0].alive:
                return value._tangent[0]
    return None


# rules: (operator, primals, tangents, result) -> a tangent, or None for zero, of each output -------------------------


def _linear(operator: Operator, primals: Sequence[Any], tangents: Sequence[Any], result: Any) -> Any:
    derived = {a.name for a in operator.declaration.derivative.differentiable}

    def tangent(primal: Any, tangent: Any) -> Any:
        return tangent if tangent is not None or primal is None else zeros_for(primal)

    return call_bound(operator, [
        value if a.name not in derived else
        tuple(map(tangent, value, t)) if a.is_list else tangent(value, t)
        for a, value, t in zip(operator.schema.arguments, primals, tangents, strict=True)])


def _view(operator: Operator, primals: Sequence[Any], tangents: Sequence[Any], result: Any) -> Any:
    return call_bound(operator, (tangents[0], *primals[1:]))


def _multilinear(operator: Operator, primals: Sequence[Any], tangents: Sequence[Any], result: Any) -> Any:
    return _total([call_bound(operator, [*primals[:i], t, *primals[i + 1 :]])
                   for i, t in enumerate(tangents) if t is not None])


def _elementwise(operator: Operator, primals: Sequence[Any], tangents: Sequence[Any], result: Any) -> Any:
    """Each formula on the tangent in the place of the gradient: a diagonal matrix is its own transpose."""
    names = operator.schema.names
    if result.dtype.category == COMPLEX or any(getattr(p, "_keys", 0) and p.dtype.category == COMPLEX for p in primals):
        return _transposed(operator, primals, tangents, result)
    terms = []
    for formula in operator.declaration.derivative.formulas:
        for position, argument in enumerate(formula.arguments):
            tangent = tangents[names.index(argument)]
            if tangent is None:
                continue
            spread = tangent.expand(result.shape)
            needs = tuple(a == argument for a in formula.arguments)
            given = [spread if p == "grad" else (spread,) if p == "grads" else needs if p == "needs" else
                     _named(operator, p, primals, result) for p in formula.parameters]
            term = formula.function(*given)
            terms.append(term[position] if len(formula.arguments) > 1 else term)
    total = _total([t for t in terms if t is not None])
    return None if total is None else total.to(result.dtype).expand(result.shape)


def _total(terms: list[Any]) -> Any:
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


def _named(operator: Operator, name: str, primals: Sequence[Any], result: Any) -> Any:
    """What a formula's parameter stands for."""
    schema, outputs = operator.schema, operator.declaration.derivative.outputs
    if name in schema.index:
        value = primals[schema.index[name]]
        return tuple(value) if value.__class__ is list else value
    if name in outputs:
        return result if len(outputs) == 1 else result[outputs.index(name)]
    suffix = next(s for s in SUFFIXES if name.endswith(s))
    value = primals[schema.index[name.removesuffix(suffix)]]

    def attribute(tensor: Any) -> Any:
        if not hasattr(tensor, "_keys"):
            return None
        if suffix == "_strides":
            return None if tensor._keys & SPARSE_MASK else tensor._array.strides
        return tensor._array.shape if suffix == "_shape" else tensor.dtype if suffix == "_dtype" else tensor._device

    return tuple(map(attribute, value)) if value.__class__ in (tuple, list) else attribute(value)


def _transposed(operator: Operator, primals: Sequence[Any], tangents: Sequence[Any], result: Any) -> Any:
    """The formulas run on a cotangent that is recorded, then differentiated by it."""
    declaration = operator.declaration
    derivative = declaration.derivative
    if declaration.node_class is None:
        declaration.node_class = make_node_class(operator, derivative)
    node: Node = declaration.node_class()
    wanted: list[tuple[Any, Any]] = []  # of each edge: the input, and its tangent
    for a in derivative.differentiable:
        at = operator.schema.index[a.name]
        wanted += list(zip(primals[at], tangents[at], strict=True)) if a.is_list else [(primals[at], tangents[at])]
    node.edges = tuple(None if t is None else (node, 0) for _, t in wanted)
    node.saved = tuple(_named(operator, name, primals, result) for name in derivative.saved)
    node.versions = (None,) * len(node.saved)
    several = result.__class__ in (tuple, list) or hasattr(result, "_fields")
    outputs = result if several else (result,)
    # Ones: some formulas take the logarithm of a gradient.
    cotangents = [o.detach().new_ones(o.shape)._track() if o is not None and o.dtype.category >= FLOAT else None
                  for o in outputs]
    with changed_modes(grad_enabled=True):
        grads = [None if t is None or g is None else _fitted(g, p)
                 for g, (p, t) in zip(node.apply(*cotangents), wanted, strict=True)]
    pairs = [(g, t.to(g.dtype)) for g, (_, t) in zip(grads, wanted, strict=True) if g is not None and g.requires_grad]
    inputs = [c for c in cotangents if c is not None]
    if not pairs:
        return (None,) * len(outputs) if several else None
    found = iter(run_backward([g for g, _ in pairs], [t for _, t in pairs], True, modes.grad_enabled, inputs,
                              accumulate_grad=False))
    made = [None if c is None else next(found) for c in cotangents]
    if not any(x.requires_grad for x in (*inputs_of(primals), *inputs_of(tangents))):
        made = [m if m is None else m._detached() for m in made]  # what was recorded was the cotangent only
    return made if several else made[0]


def inputs_of(args: Sequence[Any]) -> list[Any]:
    """The tensors among arguments, also those in lists."""
    flat = [v for a in args for v in (a if a.__class__ in (tuple, list) else (a,))]
    return [v for v in flat if hasattr(v, "_keys")]


def _fitted(grad: Any, like: Any) -> Any:
    """A formula's gradient in the shape and type of the input, as the engine would hand it on."""
    if grad._array.shape != like._array.shape:
        grad = grad.sum_to_size(like.shape)
    kind = OF_ARRAY[like._array.dtype]
    if grad.dtype.category == COMPLEX > kind.category:
        grad = grad.real
    return grad.to(kind)


def _rule_of(operator: Operator) -> Callable | None:
    declaration = operator.declaration
    if declaration is None or declaration.derivative is None:
        return None
    if declaration.family.is_view:
        return _view
    if declaration.linear:
        return _multilinear if declaration.linear == "each" else _linear
    return _elementwise if declaration.family.elementwise else _transposed


# the key's kernel ----------------------------------------------------------------------------------------------------


def _forward_kernel(operator: Operator, below: Callable, mask: int) -> Callable:
    if DispatchKey.FuncTorch in operator.kernels:  # written as other operators, which see the tangents; plans do not
        return operator.kernels[DispatchKey.FuncTorch]
    if operator.declaration is not None and operator.declaration.by_parts is not None:
        return operator.declaration.by_parts
    arguments = operator.schema.arguments
    writes = bool(arguments) and arguments[0].writes and not arguments[0].is_list
    if writes and operator.declaration is not None:
        return _writing_kernel(operator, below, operator.declaration.inplace_of or operator)
    rule = _rule_of(operator)
    unknown = rule is None and DispatchKey.Autograd in operator.kernels

    def kernel(*args: Any) -> Any:
        result = below(*args)
        level = dual_level_of(args)
        if level is None or (rule is None and not unknown):
            return result
        several = result.__class__ in (tuple, list) or hasattr(result, "_fields")
        outputs = result if several else (result,)
        if not any(hasattr(o, "_keys") and o.dtype.category >= FLOAT for o in outputs):
            return result
        if rule is None:
            raise NotImplementedError(f"Trying to use forward AD with {operator.schema.base_name} that does not "
                                      "support it because it has not been implemented yet.")
        shown = map_tensors(primal_of, outputs)
        made = rule(operator, map_tensors(primal_of, args), map_tensors_only(tangent_of, args),
                    (shown if several else shown[0]) if not hasattr(result, "_fields") else type(result)(*shown))
        for output, tangent in zip(outputs, made if several else (made,), strict=True):
            if output is not None and output.dtype.category >= FLOAT:
                attach_tangent(output, zeros_for(output) if tangent is None else tangent, level)
        return result

    return kernel


def map_tensors_only(change: Callable[[Any], Any], args: Sequence[Any]) -> list[Any]:
    """As `map_tensors`, with None for all that is no tensor."""
    return [
        change(a) if hasattr(a, "_keys") else
        tuple([change(t) if hasattr(t, "_keys") else None for t in a]) if a.__class__ in (tuple, list) else None
        for a in args
    ]


def _writing_kernel(operator: Operator, below: Callable, functional: Operator) -> Callable:
    rule = _rule_of(functional)

    def kernel(*args: Any) -> Any:
        level, target = dual_level_of(args), args[0]
        if level is None or rule is None or target.dtype.category < FLOAT:
            return below(*args)
        tangents = map_tensors_only(tangent_of, args)
        primals = map_tensors(primal_of, args)
        primals[0] = primals[0].clone()
        result = primals[0] if functional is operator else call_bound(functional, primals)
        tangent = rule(functional, primals, tangents, result)
        below(*args)
        write_tangent(target, zeros_for(target) if tangent is None else tangent, level)
        return target

    return kernel


def write_tangent(target: Any, tangent: Any, level: Any) -> None:
    """Gives a tensor that was written in place its new tangent; its base and other views see it, too."""
    known, base = tangent_of(target), target._base
    if known is None and base is None:
        attach_tangent(target, tangent, level)
        return
    if known is None:
        if tangent_of(base) is None:
            attach_tangent(base, tangent.detach().new_zeros(base.shape), level)
        known = replay(steps_to(target), tangent_of(base))
    known.copy_(tangent)
    attach_tangent(target, known, level)


def run_custom_jvp(function: Any, ctx: Any, args: Sequence[Any], outputs: Sequence[Any], level: Any) -> None:
    """Asks a custom Function's `jvp` for the tangents of its outputs."""
    tangents = [_given_tangent(ctx, argument) for argument in args]
    versions = [None if tangent is None else tangent._version for tangent in tangents]
    with changed_modes(exclude=modes.exclude | DUAL_MASK):
        made = function.jvp(ctx, *tangents)
    made = made if isinstance(made, tuple) else (made,)
    if len(made) != len(outputs):
        raise RuntimeError(f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} "
                           f"but got {len(made)})")
    for nr, (output, tangent) in enumerate(zip(outputs, made, strict=True)):
        if tangent is not None and not hasattr(tangent, "_keys"):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {nr}.")
        differentiable = hasattr(output, "_keys") and output.dtype.category >= FLOAT and not any(
            output is other for other in ctx._non_differentiable)
        if not differentiable:
            if tangent is not None:
                raise RuntimeError(f"Function's jvp returned a gradient at position {nr}, but  the corresponding "
                                   "forward output is not a differentiable Tensor.You should return None at that "
                                   "position instead.")
            continue
        written = next((i for i, a in enumerate(args) if a is output), None)
        if written is not None:
            if tangent is None or tangent is not tangents[written] or tangent._version == versions[written]:
                raise RuntimeError("An inplace custom Function is not modifying the forward mode gradients inplace. If "
                                   "the forward is modifying an input inplace, then the jvp function must modify the "
                                   "corresponding gradient inplace.")
            write_tangent(output, tangent, level)
        elif tangent is not None:
            _check_tangent_is_view(output, tangent, args, tangents)
            attach_tangent(output, tangent, level)


def _given_tangent(ctx: Any, argument: Any) -> Any:
    """What `jvp` gets for an argument of `forward`."""
    if not hasattr(argument, "_keys"):
        return None
    tangent = tangent_of(argument)
    missing = tangent is None and ctx.materialize_grads and argument.dtype.category >= FLOAT
    return zeros_for(argument) if missing else tangent


def _check_tangent_is_view(output: Any, tangent: Any, args: Sequence[Any], tangents: Sequence[Any]) -> None:
    """Raises if an output shows memory of an input, and its tangent not that of the input's tangent."""
    if output._base is None:
        return
    for argument, given in zip(args, tangents, strict=True):
        if given is None or output._base is not (argument if argument._base is None else argument._base):
            continue
        if tangent._base is None:
            raise RuntimeError("A custom Function's forward is returning a view (or an input as-is) but the jvp is not "
                               "returning a view.")
        if tangent._base is not (given if given._base is None else given._base):
            raise RuntimeError("A custom Function is returning a view but the jvp is not returning a view of the "
                               + ("given grad input." if given._base is None else
                                  "same base as the given grad input."))


registry.register_for_all(DispatchKey.ForwardAD, Around(_forward_kernel))
