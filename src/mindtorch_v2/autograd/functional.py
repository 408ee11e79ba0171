"""Jacobians, Hessians and their products with vectors."""

from collections.abc import Callable
from typing import Any

from .._autograd.grad_mode import enable_grad
from .._tensor import Tensor


def _tuple(value: Any) -> tuple[bool, tuple]:
    return (True, tuple(value)) if isinstance(value, (tuple, list)) else (False, (value,))


def _grad(*args: Any, **kwargs: Any) -> tuple:
    """`grad` that answers None for what does not depend on anything."""
    from . import grad

    outputs, inputs, *rest = args
    kwargs["allow_unused"] = True
    live = [i for i, o in enumerate(outputs) if o.requires_grad]
    if not live:
        return (None,) * len(inputs)
    seeds = [tuple(s[i] for i in live) for s in rest]
    return grad([outputs[i] for i in live], inputs, seeds[0] if seeds else None, **kwargs)


def _prepared(inputs: tuple, create_graph: bool) -> tuple:
    """Inputs that are recorded from; with create_graph the caller's graph stays attached."""
    if create_graph:
        return tuple(i.view_as(i) if i.requires_grad else i.detach().requires_grad_() for i in inputs)
    return tuple(i.detach().requires_grad_() for i in inputs)


def _finished(values: tuple, create_graph: bool) -> tuple:
    return values if create_graph else tuple(v.detach() for v in values)


def _zeros_for(grads: tuple, inputs: tuple, strict: bool, name: str) -> tuple:
    for i, g in enumerate(grads):
        if g is None and strict:
            raise RuntimeError(f"The output of the user-provided function is independent of input {i}. This is not "
                               f"allowed in strict mode when computing the {name}.")
    return tuple(x.new_zeros(x.shape) if g is None else g for g, x in zip(grads, inputs, strict=True))


def _seed(v: Any, values: tuple, what: str) -> tuple:
    if v is None:
        if len(values) != 1 or values[0].numel() != 1:
            raise RuntimeError("The vector v can only be None if the user-provided function returns a single Tensor "
                               f"with a single element. ({what})")
        return (values[0].detach().new_ones(values[0].shape),)
    made = _tuple(v)[1]
    if len(made) != len(values):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(values)} but got {len(made)}.")
    return made


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v times its Jacobian)."""
    with enable_grad():
        several, given = _tuple(inputs)
        given = _prepared(given, create_graph)
        out_several, outputs = _tuple(func(*given))
        seed = _seed(v, outputs, "vjp")
        grads = _grad(outputs, given, seed, create_graph=create_graph)
        grads = _zeros_for(grads, given, strict, "vjp")
    outputs, grads = _finished(outputs, create_graph), _finished(grads, create_graph)
    return outputs if out_several else outputs[0], grads if several else grads[0]


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), its Jacobian times v), by differentiating a vector-Jacobian product."""
    with enable_grad():
        _, given = _tuple(inputs)
        given = _prepared(given, create_graph)
        seed = _seed(v, given, "jvp")
        several, outputs = _tuple(func(*given))
        dummies = tuple(o.detach().new_zeros(o.shape).requires_grad_() for o in outputs)
        grads = _zeros_for(_grad(outputs, given, dummies, create_graph=True), given, strict, "jvp")
        pairs = [(g, s) for g, s in zip(grads, seed, strict=True) if g.requires_grad]
        products = (
            _grad([g for g, _ in pairs], dummies, [s for _, s in pairs], create_graph=create_graph)
            if pairs
            else (None,) * len(dummies)
        )
        products = _zeros_for(products, outputs, strict, "jvp")
    outputs, products = _finished(outputs, create_graph), _finished(products, create_graph)
    return outputs if several else outputs[0], products if several else products[0]


def jacobian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:
    """The Jacobian of `func`, one tensor a pair of output and input."""
    import mindtorch_v2 as torch

    with enable_grad():
        several, given = _tuple(inputs)
        given = _prepared(given, create_graph)
        out_several, outputs = _tuple(func(*given))
        rows_of: list[tuple] = []
        for output in outputs:
            columns: list[list[Tensor]] = [[] for _ in given]
            flat = output.reshape(-1)
            for i in range(flat.numel()):
                grads = _grad((flat[i],), given, retain_graph=True, create_graph=create_graph)
                for j, g in enumerate(_zeros_for(grads, given, strict, "jacobian")):
                    columns[j].append(g)
            rows_of.append(tuple(
                (torch.stack(c) if c else x.new_zeros((0, *x.shape))).reshape((*output.shape, *x.shape))
                for c, x in zip(columns, given, strict=True)))
    made = [_finished(rows, create_graph) for rows in rows_of]
    shown = [rows if several else rows[0] for rows in made]
    return tuple(shown) if out_several else shown[0]


def hessian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The second derivatives of a scalar function."""
    several, given = _tuple(inputs)

    def gradient(*args: Tensor) -> tuple:
        output = func(*args)
        if not isinstance(output, Tensor) or output.numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        args = tuple(args)
        return _zeros_for(_grad((output.reshape(()),), args, create_graph=True), args, strict, "hessian")

    made = jacobian(gradient, given, create_graph=create_graph, strict=strict)
    return made if several else made[0][0]


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v times its Hessian)."""
    with enable_grad():
        several, given = _tuple(inputs)
        given = _prepared(given, create_graph)
        seed = _seed(v, given, "vhp")
        output = func(*given)
        gradient = _zeros_for(_grad((output,), given, create_graph=True), given, strict, "vhp")
        live = [(g, s) for g, s in zip(gradient, seed, strict=True) if g.requires_grad]
        product = (
            _grad([g for g, _ in live], given, [s for _, s in live], create_graph=create_graph)
            if live
            else (None,) * len(given)
        )
        product = _zeros_for(product, given, strict, "vhp")
    (output,), product = _finished((output,), create_graph), _finished(product, create_graph)
    return output, product if several else product[0]


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), its Hessian times v); the Hessian is symmetric, so this is `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)
