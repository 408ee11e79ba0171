"""Jacobians, Hessians and their products with vectors."""

from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.grad_mode import enable_grad
from .._core.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_OUTPUTS = "outputs of the user-provided function"


# arguments and results -----------------------------------------------------------------------------------------------


def _tensors(values: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """(whether a tuple was given, the tensors)."""
    several = isinstance(values, tuple)
    made = tuple(values) if several else (values,)
    for i, value in enumerate(made):
        if not isinstance(value, Tensor):
            which = f"the value at index {i}" if several else f"the given {what}"
            raise TypeError(f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but {which} has "
                            f"type {type(value)}.")
    return several, made


def _prepared(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """Inputs that are recorded from; with create_graph the caller's graph stays attached."""
    return tuple(i.view_as(i) if create_graph and i.requires_grad else i.detach().requires_grad_() for i in inputs)


def _finished(values: Sequence[Tensor], several: bool, create_graph: bool) -> Any:
    made = tuple(values) if create_graph else tuple(v.detach() for v in values)
    return made if several else made[0]


def _vector(v: Any, like: tuple[Tensor, ...], name: str, otherwise: str) -> tuple[Tensor, ...]:
    """The vector of a product; one for a single number if none was given."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {otherwise} a single Tensor with a single element.")
        return (like[0].detach().new_ones(like[0].shape),)
    several, made = _tensors(v, "v", name)
    if len(made) != len(like):
        if several and len(like) > 1:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(made)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (given, expected) in enumerate(zip(made, like, strict=True)):
        if given.shape != expected.shape:
            which = f"Entry {i} in v" if len(like) > 1 else "v"
            raise RuntimeError(f"{which} has invalid size: should be {expected.shape} but got {given.shape}.")
    return tuple(t.detach() if not t.requires_grad else t for t in made)


_BY_INPUT, _BY_RESULT = "the input to the user-provided function is", "the user-provided function returns"


def _check_recorded(values: Sequence[Tensor], strict: bool, text: str) -> None:
    """In strict mode, everything must depend on the inputs."""
    for i, value in enumerate(values):
        if strict and not value.requires_grad:
            raise RuntimeError(text.format(i=i))


_CONSTANT_OUTPUT = ("Output {i} of the user-provided function does not require gradients. The outputs must be computed "
                    "in a differentiable manner from the input when running in strict mode.")
_CONSTANT_JACOBIAN = ("While computing the hessian, found that the jacobian of the user-provided function with respect "
                      "to input {i} is independent of the input. This is not allowed in strict mode. You should ensure "
                      "that your function is twice differentiable and that the jacobian depends on the inputs (this "
                      "would be violated by a linear function for example).")
_UNUSED_INPUT = ("The output of the user-provided function is independent of input {i}. This is not allowed in strict "
                 "mode.")
_LINEAR = ("The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode "
           "when create_graph=True.")
_LINEAR_JACOBIAN = _LINEAR.replace("jacobian", "hessian")
_UNUSED_VECTOR = ("The gradient with respect to the input is independent of entry {i} in the grad_outputs when using "
                  "the double backward trick to compute forward mode gradients. This is not allowed in strict mode.")


def _gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor], grads: Sequence[Tensor] | None = None, *,
               create_graph: bool, strict: bool = False, text: str = _UNUSED_INPUT,
               linear: str = _LINEAR, **options: Any) -> tuple[Tensor, ...]:
    """`grad`, with zeros for inputs that nothing depends on; `text` says so in strict mode, `linear` of its graph."""
    from . import grad

    live = [i for i, o in enumerate(outputs) if o.requires_grad]
    found: Sequence[Any] = (None,) * len(inputs)
    if live:
        seeds = None if grads is None else [grads[i] for i in live]
        found = grad([outputs[i] for i in live], inputs, seeds, create_graph=create_graph, allow_unused=True, **options)
    for i, g in enumerate(found):
        if g is None and strict:
            raise RuntimeError(text.format(i=i))
        if strict and create_graph and not g.requires_grad:
            raise RuntimeError(linear.format(i=i))
    return tuple(x.new_zeros(x.shape) if g is None else g for g, x in zip(found, inputs, strict=True))


def _single(output: Any, name: str) -> Tensor:
    """The one number that a function must return."""
    several, made = _tensors(output, _OUTPUTS, name)
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if made[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return made[0]


# products ------------------------------------------------------------------------------------------------------------


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v times its Jacobian)."""
    with enable_grad():
        several, given = _tensors(inputs, "inputs", "vjp")
        given = _prepared(given, create_graph)
        out_several, outputs = _tensors(func(*given), _OUTPUTS, "vjp")
        _check_recorded(outputs, strict, _CONSTANT_OUTPUT)
        seed = _vector(v, outputs, "vjp", _BY_RESULT)
        grads = _gradients(outputs, given, seed, create_graph=create_graph, strict=strict)
    return _finished(outputs, out_several, create_graph), _finished(grads, several, create_graph)


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), its Jacobian times v), by differentiating a vector-Jacobian product."""
    with enable_grad():
        _, given = _tensors(inputs, "inputs", "jvp")
        given = _prepared(given, create_graph)
        seed = _vector(v, given, "jvp", _BY_INPUT)
        several, outputs = _tensors(func(*given), _OUTPUTS, "jvp")
        _check_recorded(outputs, strict, _CONSTANT_OUTPUT)
        dummies = tuple(o.detach().new_zeros(o.shape).requires_grad_() for o in outputs)
        grads = _gradients(outputs, given, dummies, create_graph=True, strict=strict)
        products = _gradients(grads, dummies, seed, create_graph=create_graph, strict=strict, text=_UNUSED_VECTOR)
    return _finished(outputs, several, create_graph), _finished(products, several, create_graph)


def _hessian_product(func: Callable, inputs: Any, v: Any, create_graph: bool, strict: bool, name: str) -> tuple:
    with enable_grad():
        several, given = _tensors(inputs, "inputs", name)
        given = _prepared(given, create_graph)
        seed = _vector(v, given, name, _BY_INPUT)
        output = _single(func(*given), name)
        _check_recorded((output,), strict, _CONSTANT_OUTPUT)
        gradient = _gradients((output,), given, create_graph=True, strict=strict, linear=_CONSTANT_JACOBIAN)
        product = _gradients(gradient, given, seed, create_graph=create_graph, strict=strict, linear=_LINEAR_JACOBIAN)
    return _finished((output,), False, create_graph), _finished(product, several, create_graph)


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v times its Hessian)."""
    return _hessian_product(func, inputs, v, create_graph, strict, "vhp")


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), its Hessian times v); the Hessian is symmetric, so this is `vhp`."""
    return _hessian_product(func, inputs, v, create_graph, strict, "hvp")


# matrices ------------------------------------------------------------------------------------------------------------


def jacobian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:
    """The Jacobian of `func`, one tensor a pair of output and input; with `vectorize`, all rows or columns at once."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function '
                             'has more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, '
                             'prefer to use "reverse-mode".')
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    with enable_grad():
        several, given = _tensors(inputs, "inputs", "jacobian")
        given = _prepared(given, create_graph)
        out_several, outputs = _tensors(func(*given), _OUTPUTS, "jacobian")
        _check_recorded(outputs, strict, _CONSTANT_OUTPUT)
        if vectorize:
            if strict:
                raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                                   "supported together. Please either set `strict=False` or `vectorize=False`.")
            rows = _all_rows(outputs, given, create_graph)
        else:
            rows = [_rows(i, o, given, create_graph, strict) for i, o in enumerate(outputs)]
    made = [_finished(row, several, create_graph) for row in rows]
    return tuple(made) if out_several else made[0]


def _rows(number: int, output: Tensor, inputs: tuple[Tensor, ...], create_graph: bool, strict: bool) -> list[Tensor]:
    """The Jacobian of one output, a backward pass an element."""
    from .. import stack

    text = (f"Output {number} of the user-provided function is independent of input {{i}}. This is not allowed in "
            "strict mode.")
    flat = output.reshape(-1)
    grads = [_gradients((flat[i],), inputs, create_graph=create_graph, strict=strict, text=text, retain_graph=True)
             for i in range(flat.numel())]
    columns = zip(*grads, strict=True) if grads else ((),) * len(inputs)
    return [stack(list(c)).reshape((*output.shape, *x.shape)) for c, x in zip(columns, inputs, strict=True)]


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> tuple[Tensor, ...]:
    """The unit vectors of the space of all elements, for each tensor the part that is its own."""
    from .._functorch.eager_transforms import _basis

    return tuple(_basis([t.reshape(-1) for t in tensors]))


def _all_rows(outputs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], create_graph: bool) -> list[list[Tensor]]:
    """The Jacobians of all outputs in one backward pass of all unit vectors."""
    counts = [o.numel() for o in outputs]
    grads = _gradients([o.reshape(-1) for o in outputs], inputs, _construct_standard_basis_for(outputs, counts),
                       create_graph=create_graph, is_grads_batched=True)
    grads = tuple(g if g.dim() > x.dim() else x.new_zeros((sum(counts), *x.shape)) for g, x in zip(grads, inputs))
    parts = [g.split(counts) for g in grads]
    return [[p[i].view((*o.shape, *x.shape)) for p, x in zip(parts, inputs, strict=True)]
            for i, o in enumerate(outputs)]


def _forward_jacobian(func: Callable, inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    from .._functorch.eager_transforms import jacfwd

    where = "torch.autograd.functional.jacobian"
    if strict:
        raise RuntimeError(f'{where}: `strict=True` and `strategy="forward-mode"` are not supported together (yet). '
                           'Please either set `strict=False` or `strategy="reverse-mode"`.')
    if not vectorize:
        raise NotImplementedError("Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly "
                                  "implemented for `vectorize=True`.")
    if create_graph:
        raise NotImplementedError(f'{where}: `create_graph=True` and `strategy="forward-mode"` are not supported '
                                  'together (yet). Please either set `create_graph=False` or '
                                  '`strategy="reverse-mode"`.')
    several, given = _tensors(inputs, "inputs", "jacobian")

    def checked(*args: Tensor) -> Any:
        out_several, outputs = _tensors(func(*args), _OUTPUTS, "jacobian")
        return outputs if out_several else outputs[0]

    made = jacfwd(checked, argnums=tuple(range(len(given))))(*(x.detach() for x in given))
    rows = made if isinstance(made[0], tuple) else (made,)
    shown = [_finished(row, several, create_graph=False) for row in rows]
    return tuple(shown) if isinstance(made[0], tuple) else shown[0]


def hessian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The second derivatives of a function that returns one number."""
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    several, given = _tensors(inputs, "inputs", "hessian")
    if outer_jacobian_strategy == "forward-mode" and vectorize and not (strict or create_graph):
        from .._functorch.eager_transforms import hessian as by_transforms

        numbers = tuple(range(len(given)))
        made = by_transforms(lambda *args: _single(func(*args), "hessian").reshape(()), numbers)(
            *(x.detach() for x in given))
        return made if several else made[0][0]

    def gradient(*args: Tensor) -> tuple:
        output = _single(func(*args), "hessian")
        _check_recorded((output,), strict, _CONSTANT_OUTPUT)
        made = _gradients((output.reshape(()),), args, create_graph=True)
        _check_recorded(made, strict, _CONSTANT_JACOBIAN)
        return made

    made = jacobian(gradient, given, create_graph=create_graph, strict=strict, vectorize=vectorize,
                    strategy=outer_jacobian_strategy)
    return made if several else made[0][0]
