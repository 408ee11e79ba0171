"""Comparing gradients with finite differences."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._autograd.grad_mode import no_grad
from .._tensor import Tensor, wrap


class GradcheckError(RuntimeError):
    """Analytical and numerical gradients differ, or a gradient breaks a rule."""


def _as_tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _differentiable_outputs(outputs: Any) -> tuple[Tensor, ...]:
    return tuple(o for o in _as_tuple(outputs) if isinstance(o, Tensor) and o.requires_grad)


def _checked_inputs(inputs: Sequence[Any]) -> list[Tensor]:
    chosen = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    if not chosen:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have "
                         "requires_grad=True.")
    for i, t in enumerate(inputs):
        if isinstance(t, Tensor) and t.requires_grad and t.dtype.name not in ("float64", "complex128"):
            import warnings

            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                          "check will likely fail if all the inputs are not of double precision floating point or "
                          "complex. ", stacklevel=3)
    return chosen


def _numerical(function: Callable, inputs: Sequence[Any], target: Tensor, count: int, eps: float) -> list[np.ndarray]:
    """For each output the matrix of finite differences, (inputs, outputs); a complex input has two rows."""
    array = target._array
    columns: list[list[np.ndarray]] = [[] for _ in range(count)]

    def evaluate() -> list[np.ndarray]:
        with no_grad():
            made = _as_tuple(function(*inputs))
        return [np.array(o._array, copy=True).reshape(-1) for o in _floating(made)]

    steps = (eps, 1j * eps) if array.dtype.kind == "c" else (eps,)
    for index in np.ndindex(array.shape):
        original = array[index].copy()
        for step in steps:
            array[index] = original + step
            ahead = evaluate()
            array[index] = original - step
            behind = evaluate()
            array[index] = original
            for i, (a, b) in enumerate(zip(ahead, behind, strict=True)):
                columns[i].append((a - b) / (2 * eps))
    return [np.array(c) for c in columns]


def _analytical(output: Tensor, target: Tensor) -> np.ndarray:
    """The same matrix by backward: the vector-Jacobian products of the unit vectors."""
    from . import grad

    rows = []
    units = (1.0, 1j) if output.dtype.is_complex else (1.0,)
    for i in range(output.numel()):
        for unit in units:
            seed = np.zeros(output.numel(), output._array.dtype)
            seed[i] = unit
            (g,) = grad((output,), (target,), (wrap(seed.reshape(output.shape)),), retain_graph=True, allow_unused=True)
            if g is not None and (g._array.shape != target._array.shape or g.dtype is not target.dtype):
                raise GradcheckError(f"grad is incorrect size or type: {tuple(g.shape)} {g.dtype} for an input of "
                                     f"{tuple(target.shape)} {target.dtype}")
            rows.append(np.zeros(target.numel(), target._array.dtype) if g is None else g._array.reshape(-1).copy())
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
    try:
        _check(func, given, eps, atol, rtol, nondet_tol, backward=check_backward_ad, forward=check_forward_ad)
        if check_backward_ad and check_undefined_grad:
            _check_undefined(func, given, _checked_inputs(given))
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
    from . import forward_ad

    columns: list[list[np.ndarray]] = [[] for _ in range(count)]
    with forward_ad.dual_level():
        for index in np.ndindex(target._array.shape):
            for unit in (1.0, 1j) if target.dtype.is_complex else (1.0,):
                tangent = np.zeros_like(target._array)
                tangent[index] = unit
                dual = forward_ad.make_dual(target, wrap(tangent))
                made = _floating(function(*(dual if x is target else x for x in inputs)))
                for column, output in zip(columns, made, strict=True):
                    found = forward_ad.unpack_dual(output).tangent
                    shown = output if found is None else found
                    array = np.array(shown.detach()._array, copy=True).reshape(-1)
                    column.append(np.zeros_like(array) if found is None else array)
    return [np.array(c) for c in columns]


def _floating(outputs: Any) -> list[Tensor]:
    return [o for o in _as_tuple(outputs) if isinstance(o, Tensor) and o.dtype.category >= 2]


def _agree(found: np.ndarray, expected: np.ndarray, rtol: float, atol: float, what: str, j: int, i: int) -> None:
    if not np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True):
        raise GradcheckError(f"Jacobian {what}mismatch for output {j} with respect to input {i},\n"
                             f"numerical:{wrap(expected)}\nanalytical:{wrap(found.copy())}\n")


def _check_batched_grad(func: Callable, inputs: tuple) -> None:
    """One backward pass for several gradients must give what one pass for each gives."""
    from . import grad

    chosen, outputs, rng = _checked_inputs(inputs), _differentiable_outputs(func(*inputs)), np.random.default_rng(0)
    for output in outputs:
        rows = [wrap(_random_like(rng, output._array)) for _ in range(2)]
        both = wrap(np.stack([row._array for row in rows]))
        options: dict[str, Any] = {"retain_graph": True, "allow_unused": True}
        together = grad(output, chosen, both, is_grads_batched=True, **options)
        for row, number in zip(rows, range(2), strict=True):
            for one, all_ in zip(grad(output, chosen, row, **options), together, strict=True):
                if one is not None and not np.allclose(one.detach()._array, all_.detach()._array[number]):
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

        rows = [wrap(_random_like(rng, target._array)) for _ in range(2)]
        together = vmap(tangents)(wrap(np.stack([row._array for row in rows])))
        for number, row in enumerate(rows):
            for one, all_ in zip(tangents(row), together, strict=True):
                if not np.allclose(one.detach()._array, all_.detach()._array[number]):
                    raise GradcheckError("While considering the batched tangent, got a result that differs from the "
                                         "tangents one by one.")


def _check(func: Callable, inputs: tuple, eps: float, atol: float, rtol: float, nondet_tol: float, *, backward: bool,
           forward: bool) -> None:
    chosen = _checked_inputs(inputs)
    all_outputs = _floating(func(*inputs))
    for i, target in enumerate(chosen):
        if not target.numel():
            continue
        numerical = _numerical(func, inputs, target, len(all_outputs), eps)
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
                if numerical[j].size and np.abs(numerical[j]).max() > atol:
                    raise GradcheckError(f"Numerical gradient for function expected to be zero: output {j}, input {i}")
                continue
            analytical = _analytical(output, target)
            repeated = _analytical(output, target)
            if analytical.size and np.abs(analytical - repeated).max() > nondet_tol:
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and "
                                     "grad_output multiple times gives different values, although analytical gradient "
                                     "matches numerical gradient.")
            _agree(_real_gradient(analytical, complex_input).T, expected, rtol, atol, "", j, i)


def _check_undefined(func: Callable, inputs: tuple, chosen: list[Tensor]) -> None:
    """A missing gradient of one output must count as zero."""
    from . import grad

    outputs = _differentiable_outputs(func(*inputs))
    if len(outputs) < 2:
        return
    for i in range(len(outputs)):
        others = [o for j, o in enumerate(outputs) if j != i]
        seeds = [o.detach().new_ones(o.shape) for o in others]
        missing = grad(others, chosen, seeds, retain_graph=True, allow_unused=True)
        zeros = [outputs[i].detach().new_zeros(outputs[i].shape)]
        given = grad([*others, outputs[i]], chosen, seeds + zeros, retain_graph=True, allow_unused=True)
        for a, b in zip(missing, given, strict=True):
            left = 0 if a is None else a._array
            right = 0 if b is None else b._array
            if not np.allclose(left, right, equal_nan=True):
                raise GradcheckError("Expected backward function to handle undefined output grads.")


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
        grad_outputs = tuple(wrap(_random_like(rng, o._array)).requires_grad_() for o in outputs)
    grad_outputs = _as_tuple(grad_outputs)
    count = len(inputs)

    def gradients(*args: Any) -> tuple:
        values, seeds = args[:count], args[count:]
        made = _differentiable_outputs(func(*values))
        wanted = [v for v in values if isinstance(v, Tensor) and v.requires_grad]
        result = grad(made, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple(g for g in result if g is not None)

    # Under no_grad (the finite differences) the inner gradient must still be recorded.
    def recorded(*args: Any) -> tuple:
        from .._autograd.grad_mode import enable_grad

        with enable_grad():
            return gradients(*args)

    return gradcheck(recorded, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
                     check_backward_ad=check_rev_over_rev)


def _random_like(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    made = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        made = made + 1j * rng.standard_normal(array.shape)
    return np.asarray(made).astype(array.dtype)
