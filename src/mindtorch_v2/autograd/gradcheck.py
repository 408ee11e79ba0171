"""Comparing gradients with finite differences."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._autograd.function import Function
from .._core.device import sparse_coo, strided
from .._core.settled import settled
from .._core.sparse import compressed_of, coo, is_sparse, wrap_sparse
from .._core.tensor import Tensor, wrap
from .._core.wrapper_subclass import WrapperArray
from .._dispatch.argument_checks import checked_float
from .._ops.compare import check_tolerance


class GradcheckError(RuntimeError):
    """Analytical and numerical gradients differ, or a gradient breaks a rule."""


_NOT_REENTRANT = ("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                  "gives different values, although analytical gradient matches numerical gradient.")


def _as_tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _differentiable_outputs(outputs: Any) -> tuple[Tensor, ...]:
    return tuple(o for o in _as_tuple(outputs) if isinstance(o, Tensor) and o.requires_grad)


def _checked_inputs(inputs: Sequence[Any], warns: bool = True) -> list[Tensor]:
    chosen = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    if not chosen:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have "
                         "requires_grad=True.")
    for i, t in enumerate(inputs):
        if warns and isinstance(t, Tensor) and t.requires_grad and t.dtype.name not in ("float64", "complex128"):
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                          "check will likely fail if all the inputs are not of double precision floating point or "
                          "complex. ", stacklevel=3)
        held = t._array.values if isinstance(t, Tensor) and is_sparse(t) else t
        if isinstance(t, Tensor) and t.requires_grad and any(
                step <= 0 and length > 1 for step, length in zip(held.stride(), held.shape, strict=True)):
            raise RuntimeError(f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                               "are non-overlapping to be able to compute the numerical gradients correctly. You "
                               "should call .contiguous on the input before passing it to gradcheck.")
    return chosen


def _host(tensor: Tensor) -> np.ndarray:
    """A tensor's elements: its memory itself on the CPU, a copy of any other device's, layout's or subclass's."""
    if is_sparse(tensor):
        tensor = tensor.detach().to_dense()  # type: ignore[attr-defined]
    array: Any = tensor._array
    if array.__class__ is WrapperArray:
        elements = [element.item() for element in tensor.detach().reshape(-1)]  # type: ignore[attr-defined]
        return np.array(elements, array.dtype).reshape(array.shape)
    return array if array.__class__ is np.ndarray else tensor.detach().cpu()._array


def _on(tensor: Tensor, array: np.ndarray) -> Tensor:
    """An array as a tensor on another's device."""
    made = wrap(array)
    return made if tensor._array.__class__ is np.ndarray else made.to(tensor.device)


class _Moved(NamedTuple):
    """An input whose numbers are moved: the inputs with it, what holds the numbers, and their places among all."""

    inputs: Sequence[Any]
    memory: Tensor
    places: np.ndarray | None  # of a sparse input; without masking all of its elements are specified

    def spread(self, rows: np.ndarray, count: int, width: int, units: int = 1) -> np.ndarray:
        """Rows of the numbers that are held as the rows of all `count` elements, `units` of them each."""
        if self.places is None:
            return rows
        made = np.zeros((count * units, width), rows.dtype)
        made[(self.places[:, None] * units + np.arange(units)).reshape(-1)] = rows.reshape(-1, width)
        return made

    def gradient(self, grad: Tensor) -> np.ndarray:
        """The elements of a gradient in a row, zero where a sparse input has none."""
        array = _host(grad.detach()).reshape(-1).copy()
        return array if self.places is None else self.spread(array[self.places], array.size, 1)[:, 0]


def _moved(inputs: Sequence[Any], target: Tensor, masked: bool) -> _Moved:
    if not is_sparse(target):
        return _Moved(inputs, target, None)
    plain = target.detach()
    if not masked:
        plain = _specified(plain)
    elif plain.layout is sparse_coo:
        plain = plain.coalesce()  # type: ignore[attr-defined]
    array = plain._array
    inner = math.prod(array.shape[array.batch + array.sparse_dim :])
    places = (array.flat_places()[:, None] * inner + np.arange(inner)).reshape(-1)
    plain.requires_grad_()
    return _Moved([plain if x is target else x for x in inputs], array.values, places)


def _specified(tensor: Tensor) -> Tensor:
    """A sparse tensor in whose layout every element stands, zeros too."""
    array, rows = tensor._array, _host(tensor)
    count = array.batch + array.sparse_dim
    places = np.indices(array.shape[:count]).reshape(count, -1)
    rows = rows.reshape(-1, *array.shape[count:])
    if array.layout is sparse_coo:
        return coo(wrap(places), wrap(rows), array.shape, True)
    full = coo(wrap(places), wrap(rows), array.shape, True)._array
    return wrap_sparse(compressed_of(full, array.layout, array.block or None, array.batch))


def _numerical(function: Callable, moved: _Moved, outputs: Sequence[Tensor], count: int,
               eps: float) -> list[np.ndarray]:
    """For each output the matrix of finite differences, (inputs, outputs); a complex input has two rows."""
    columns: list[list[np.ndarray]] = [[] for _ in outputs]
    units = (1, 1j) if moved.memory.dtype.is_complex else (1,)
    for index in np.ndindex(moved.memory._array.shape):
        for unit in units:
            made = _differences(function, moved.inputs, moved.memory, index, unit, eps)
            for column, difference in zip(columns, made, strict=True):
                column.append(difference)
    return [moved.spread(np.array(column), count, output.numel(), len(units))
            for column, output in zip(columns, outputs, strict=True)]


def _differences(function: Callable, inputs: Sequence[Any], target: Tensor, at: Any, direction: Any,
                 eps: float) -> list[np.ndarray]:
    """Central differences of all outputs, as rows, when elements of an input move in a direction."""
    array, made, geometries = _host(target), [], []
    original = array[at].copy()
    for step in (eps, -eps, 0):
        array[at] = original + step * direction if step else original
        if array is not target._array:
            target.data.copy_(wrap(array))
        if not step:
            break
        outputs = _floating(function(*inputs))
        made.append([np.array(_host(o.detach()), copy=True) for o in outputs])
        geometries.append([(o.shape, o.dtype) for o in outputs])
    _check_steady(geometries[0], geometries[1], at, eps)
    return [((ahead - behind) / (2 * eps)).reshape(-1) for ahead, behind in zip(*made, strict=True)]


def _check_steady(ahead: list, behind: list, at: Any, eps: float) -> None:
    """Outputs may not change their shapes or types with the values of inputs."""
    where = "" if at is ... else f"on index {at[0] if len(at) == 1 else at} "
    for number, name in enumerate(("shape", "dtype")):
        for one, other in zip(ahead, behind, strict=True):
            if one[number] != other[number]:
                raise AssertionError(f"Expected `func` to return outputs with the same {name} when inputs are "
                                     f"perturbed {where}by {eps}, but got: {name}s {one[number]} and {other[number]}.")


def _analytical(output: Tensor, target: Tensor, moved: _Moved) -> np.ndarray:
    """The same matrix by backward: the vector-Jacobian products of the unit vectors."""
    from . import grad

    rows = []
    units = (1.0, 1j) if output.dtype.is_complex else (1.0,)
    for i in range(output.numel()):
        for unit in units:
            seed = np.zeros(output.numel(), output._array.dtype)
            seed[i] = unit
            (g,) = grad((output,), (target,), (_on(output, seed.reshape(output.shape)),), retain_graph=True,
                        allow_unused=True)
            if g is not None and (g._array.shape != target._array.shape or g.dtype is not target.dtype):
                raise GradcheckError(f"grad is incorrect size or type: {tuple(g.shape)} {g.dtype} for an input of "
                                     f"{tuple(target.shape)} {target.dtype}")
            rows.append(np.zeros(target.numel(), target._array.dtype) if g is None else moved.gradient(g))
    return np.array(rows).reshape(len(rows), target.numel())


def _real_matrix(numerical: np.ndarray, complex_input: bool, complex_output: bool) -> np.ndarray:
    """Finite differences as real numbers: rows input parts, columns output parts."""
    if not complex_output:
        return numerical.real
    made = np.empty((numerical.shape[0], numerical.shape[1] * 2))
    made[:, 0::2], made[:, 1::2] = numerical.real, numerical.imag
    return made


def _real_gradient(analytical: np.ndarray, complex_input: bool) -> np.ndarray:
    """Backward's rows as real numbers: rows output parts, columns input parts."""
    if not complex_input:
        return analytical.real
    made = np.empty((analytical.shape[0], analytical.shape[1] * 2))
    made[:, 0::2], made[:, 1::2] = analytical.real, analytical.imag
    return made


@settled()
def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether gradients, and with `check_forward_ad` tangents, are central differences; GradcheckError if not."""
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    given = _as_tuple(inputs)
    for position, (name, tolerance) in enumerate((("rtol", rtol), ("atol", atol)), 3):
        check_tolerance(name, checked_float("allclose", name, tolerance, position))
    try:
        check = _check_between_vectors if fast_mode else _check
        check(func, given, eps, atol, rtol, nondet_tol, backward=check_backward_ad, forward=check_forward_ad,
              masked=bool(masked))
        if check_backward_ad:
            _check_zero_gradients(func, given, bool(masked))
        if check_backward_ad and check_undefined_grad:
            _check_undefined(func, given, _checked_inputs(given, warns=False))
        if check_batched_grad:
            _check_batched_grad(func, given)
        if check_batched_forward_grad:
            _check_batched_forward_grad(func, given)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _forward(function: Callable, inputs: Sequence[Any], target: Tensor, count: int) -> list[np.ndarray]:
    """The matrix of `_numerical` in forward mode: the tangents that unit vectors give."""
    columns: list[list[np.ndarray]] = [[] for _ in range(count)]
    for index in np.ndindex(target._array.shape):
        for unit in (1.0, 1j) if target.dtype.is_complex else (1.0,):
            tangent = np.zeros(target._array.shape, target._array.dtype)
            tangent[index] = unit
            for column, found in zip(columns, _tangents(function, inputs, target, tangent), strict=True):
                column.append(found)
    return [np.array(c) for c in columns]


def _tangents(function: Callable, inputs: Sequence[Any], target: Tensor, tangent: np.ndarray) -> list[np.ndarray]:
    """The tangents of all outputs, as rows, for one of an input."""
    from . import forward_ad

    made = []
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(target.detach(), _on(target, tangent))
        for output in _floating(function(*(dual if x is target else _detached(x) for x in inputs))):
            found = forward_ad.unpack_dual(output).tangent
            array = np.array(_host((output if found is None else found).detach()), copy=True).reshape(-1)
            made.append(np.zeros_like(array) if found is None else array)
    return made


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) and value.requires_grad else value


def _check_outputs(outputs: Sequence[Tensor]) -> None:
    if any(map(is_sparse, outputs)):
        raise ValueError("Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on "
                         "the output of fn for gradcheck.")


def _check_constant(numerical: np.ndarray, outputs: Sequence[Tensor], nondet_tol: float) -> None:
    """An output that takes part in no gradient must not depend on the inputs, where no other one does either."""
    alone = not any(o.requires_grad for o in outputs)
    if alone and numerical.size and np.abs(numerical).max() > nondet_tol:
        raise GradcheckError("Numerical gradient for function expected to be zero")


def _check_zero_gradients(func: Callable, inputs: tuple, masked: bool) -> None:
    """Gradients of zero must give zeros, in the layout of the inputs or dense ones."""
    from . import grad

    outputs, chosen = _differentiable_outputs(func(*inputs)), _checked_inputs(inputs, warns=False)
    if not outputs:
        return
    zeros = [o.detach().new_zeros(o.shape) for o in outputs]
    for found, target in zip(grad(outputs, chosen, zeros, allow_unused=True), chosen, strict=True):
        if found is None:
            continue
        if found.layout is not strided:
            if found.layout is not target.layout:
                raise GradcheckError(f"grad is incorrect layout ({found.layout} is not {target.layout})")
            kind = str(found.layout).replace("torch.", "").replace("_coo", "")
            for name in ("sparse_dim", "dense_dim"):
                given, expected = getattr(found._array, name), getattr(target._array, name)
                if given != expected:
                    raise GradcheckError(f"grad is {kind} tensor, but has incorrect {name} {given}, expected "
                                         f"{expected}")
        elements = _host(found.detach())
        if not (np.allclose(elements, 0) if masked else (elements == 0).all()):
            raise GradcheckError("backward not multiplied by grad_output")


def _floating(outputs: Any) -> list[Tensor]:
    return [o for o in _as_tuple(outputs) if isinstance(o, Tensor) and o.dtype.category >= 2]


def _agree(found: Any, expected: Any, rtol: float, atol: float, what: str, j: int, i: int, part: str = "") -> None:
    if not np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True):
        context = f"While considering the {part} part of complex outputs only, " if part else ""
        raise GradcheckError(f"{context}Jacobian {what}mismatch for output {j} with respect to input {i},\n"
                             f"numerical:{wrap(np.array(expected))}\nanalytical:{wrap(np.array(found))}\n")


def _agree_by_parts(found: np.ndarray, expected: np.ndarray, complex_input: bool, complex_output: bool, rtol: float,
                    atol: float, j: int, i: int) -> None:
    """`_agree` of real matrices, as complex numbers of a complex input and separately for the parts of an output."""
    if complex_input:
        found, expected = (matrix[0::2] + 1j * matrix[1::2] for matrix in (found, expected))
    if not complex_output:
        _agree(found, expected, rtol, atol, "", j, i)
        return
    for first, part in ((1, "imaginary"), (0, "real")):
        _agree(found[:, first::2], expected[:, first::2], rtol, atol, "", j, i, part)


def _check_batched_grad(func: Callable, inputs: tuple) -> None:
    """One backward pass for several gradients must give what one pass for each gives."""
    from . import grad

    chosen, rng = _checked_inputs(inputs, warns=False), np.random.default_rng(0)
    for j in range(len(_differentiable_outputs(func(*inputs)))):
        # Tensors within the function may keep gradients: batched ones may not meet those of another pass.
        output = _differentiable_outputs(func(*inputs))[j]
        arrays = [_random_like(rng, output._array) for _ in range(2)]
        rows, both = [_on(output, array) for array in arrays], _on(output, np.stack(arrays))
        options: dict[str, Any] = {"retain_graph": True, "allow_unused": True}
        apart = [grad(output, chosen, row, **options) for row in rows]
        together = grad(output, chosen, both, is_grads_batched=True, **options)
        for number, found in enumerate(apart):
            for one, all_ in zip(found, together, strict=True):
                if one is not None and not np.allclose(_host(one.detach()), _host(all_.detach())[number]):
                    raise GradcheckError("While considering the batched gradient, got a result that differs from the "
                                         "gradients one by one.")


def _check_batched_forward_grad(func: Callable, inputs: tuple) -> None:
    from .._functorch.eager_transforms import jvp
    from .._functorch.vmap import vmap

    rng = np.random.default_rng(0)
    for target in _checked_inputs(inputs):
        def tangents(tangent: Tensor, target: Tensor = target) -> tuple:
            def of_target(x: Tensor) -> tuple:
                return tuple(_floating(func(*(x if i is target else i for i in inputs))))

            return jvp(of_target, (target.detach(),), (tangent,))[1]

        arrays = [_random_like(rng, target._array) for _ in range(2)]
        together = vmap(tangents)(_on(target, np.stack(arrays)))
        for number, array in enumerate(arrays):
            for one, all_ in zip(tangents(_on(target, array)), together, strict=True):
                if not np.allclose(_host(one.detach()), _host(all_.detach())[number]):
                    raise GradcheckError("While considering the batched tangent, got a result that differs from the "
                                         "tangents one by one.")


def _check(func: Callable, inputs: tuple, eps: float, atol: float, rtol: float, nondet_tol: float, *, backward: bool,
           forward: bool, masked: bool) -> None:
    chosen = _checked_inputs(inputs)
    all_outputs = _floating(func(*inputs))
    _check_outputs(all_outputs)
    for i, target in enumerate(chosen):
        if not target.numel():
            continue
        moved = _moved(inputs, target, masked)
        numerical = _numerical(func, moved, all_outputs, target.numel(), eps)
        tangents = _forward(func, inputs, target, len(all_outputs)) if forward else []
        for j, output in enumerate(all_outputs):
            if not output.numel():
                continue
            complex_input, complex_output = target.dtype.is_complex, output.dtype.is_complex
            expected = _real_matrix(numerical[j], complex_input, complex_output)
            if forward:
                found = _real_matrix(tangents[j], complex_input, complex_output)
                _agree(found, expected, rtol, atol, "computed with forward mode ", j, i)
            if not backward:
                continue
            if not output.requires_grad:
                _check_constant(numerical[j], all_outputs, nondet_tol)
                _agree(np.zeros_like(expected), expected, rtol, atol, "", j, i)
                continue
            analytical = _analytical(output, target, moved)
            repeated = _analytical(output, target, moved)
            if analytical.size and np.abs(analytical - repeated).max() > nondet_tol:
                raise GradcheckError(_NOT_REENTRANT)
            _agree_by_parts(_real_gradient(analytical, complex_input).T, expected, complex_input, complex_output, rtol,
                            atol, j, i)


def _check_between_vectors(func: Callable, inputs: tuple, eps: float, atol: float, rtol: float, nondet_tol: float, *,
                           backward: bool, forward: bool, masked: bool) -> None:
    """`_check` of one number for each Jacobian J, the product u J v with random u and v."""
    from . import grad

    rng, outputs = np.random.default_rng(0), _floating(func(*inputs))
    _check_outputs(outputs)
    seeds = [_unit(_random_like(rng, output._array)) for output in outputs]
    for i, target in enumerate(_checked_inputs(inputs)):
        if not target.numel():
            continue
        moved = _moved(inputs, target, masked=True)  # the direction is sparse as the input is
        direction = _unit(_random_like(rng, moved.memory._array))
        numerical = _differences(func, moved.inputs, moved.memory, ..., direction, eps)
        tangents = _tangents(func, inputs, target, direction) if forward else []
        direction = moved.spread(direction.reshape(-1, 1), target.numel(), 1).reshape(-1)
        for j, (output, seed) in enumerate(zip(outputs, seeds, strict=True)):
            # Each element of the Jacobian may be off by `atol`.
            allowed = atol * max(1.0, float(np.abs(seed).sum() * np.abs(direction).sum()))
            expected = np.vdot(seed, numerical[j]).real
            if forward:
                _agree(np.vdot(seed, tangents[j]).real, expected, rtol, allowed, "computed with forward mode ", j, i)
            if not backward:
                continue
            found = [np.zeros_like(direction)]
            if not output.requires_grad:
                _check_constant(numerical[j], outputs, nondet_tol)
            else:
                seeded = _on(output, seed)
                grads = [grad(output, target, seeded, retain_graph=True, allow_unused=True)[0] for _ in range(2)]
                found = [moved.gradient(g) for g in grads if g is not None] or found
            if np.abs(found[0] - found[-1]).max() > nondet_tol:
                raise GradcheckError(_NOT_REENTRANT)
            _agree(np.vdot(found[0], direction).real, expected, rtol, allowed, "", j, i)


class _WithoutGradient(Function):
    """A tensor as it is, whose gradient goes no further."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.clone()  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> None:
        return None


def _check_undefined(func: Callable, inputs: tuple, chosen: list[Tensor]) -> None:
    """Gradients that are missing, all of them or that of one output, must count as zeros."""
    count = len(_differentiable_outputs(func(*inputs)))
    for missing in [range(count), *([i] for i in range(count) if count > 1)]:
        outputs = _differentiable_outputs(func(*inputs))
        _check_undefined_outputs(
            [_WithoutGradient.apply(o) if i in missing else o for i, o in enumerate(outputs)], chosen
        )


def _check_undefined_outputs(outputs: list[Tensor], chosen: list[Tensor]) -> None:
    from . import grad

    notes = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
    try:
        zeros = [o.detach().new_zeros(o.shape) for o in outputs]
        found = grad(outputs, chosen, zeros, allow_unused=True) if outputs else ()
    except RuntimeError as error:
        _warn_of_undefined()
        raise GradcheckError(f"Expected backward function to handle undefined output grads. {notes}") from error
    if any(gradient is not None and _host(gradient).any() for gradient in found):
        _warn_of_undefined()
        raise GradcheckError(
            f"Expected all input grads to be undefined or zero when all output grads are undefined or zero. {notes}"
        )


def _warn_of_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature',
        stacklevel=5,
    )


def gradgradcheck(func: Callable, inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
                  rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
                  nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
                  check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
                  fast_mode: bool = False, masked: bool = False) -> bool:
    """`gradcheck` of the function that computes `func`'s gradients."""
    from . import grad

    inputs = _as_tuple(inputs)
    outputs = _differentiable_outputs(func(*inputs))
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grad_outputs = tuple(_on(o, _random_like(rng, o._array)).requires_grad_() for o in outputs)
    grad_outputs = _as_tuple(grad_outputs)
    count = len(inputs)

    def gradients(*args: Any) -> tuple:
        values, seeds = args[:count], args[count:]
        for value, given in zip(values, inputs, strict=True):
            if isinstance(given, Tensor) and given.requires_grad:
                value.requires_grad_()  # which forward mode has taken away
        made = _differentiable_outputs(func(*values))
        wanted = [v for v in values if isinstance(v, Tensor) and v.requires_grad]
        result = grad(made, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple(g for g in result if g is not None)

    return gradcheck(gradients, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception, nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
                     check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked)


def _unit(vector: np.ndarray) -> np.ndarray:
    """A vector in the direction of another, of length 1 unless that is zero."""
    return vector / vector.real.dtype.type(np.linalg.norm(vector) or 1.0)


def _random_like(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    made = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        made = made + 1j * rng.standard_normal(array.shape)
    return np.asarray(made).astype(array.dtype)
