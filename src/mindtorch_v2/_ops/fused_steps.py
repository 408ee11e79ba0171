"""torch._fused_sgd_, _fused_adam_, _fused_adamw_, _fused_adagrad_: an optimizer's whole step on lists of tensors.

A step is some ten passes over each parameter. They are made block by block, so that all but the first find their
numbers in cache, and without a dispatch between them. torch.optim steps through these wherever no gradient is wanted.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from .._backends.interface import Backend, named_kernel
from .._core.dtype import FLOAT, REDUCED
from .._core.tensor import Tensor
from .._core.tensor_base import bump_versions
from .._dispatch.registry import Operator
from ._declare.families import Family
from ._declare.op import op
from ._declare.rules import check_writable

Step = Callable[..., None]
BLOCK = 1 << 15  # elements that are stepped at a time
_PLAIN = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
_COMPUTED = _PLAIN | set(REDUCED)


class _Passes(threading.local):
    """Whether this thread's steps stand for single operators, each of which would round half types when it stores."""

    rounded = False


passes = _Passes()


class FusedStep(Family):
    """`prepare(step number, **options)` gives `step(xp, parameter, gradient, *states)`, which writes to arrays."""

    any_numbers = True

    def __init__(self, prepare: Callable[..., Step], state_lists: int, *, counts: bool = True) -> None:
        self.prepare, self.state_lists, self.counts = prepare, state_lists, counts

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        schema, xp = operator.schema, backend.xp
        arrays_in = 2 + self.state_lists
        first_option = arrays_in + self.counts
        names = schema.names[first_option:-2]
        own = operator.declaration.kernels.get(backend.type)
        compile_step = None if own is None else named_kernel(backend.type, own)

        @functools.lru_cache(maxsize=64)
        def prepared(number: float | None, *given: Any) -> tuple[Step, Callable | None]:
            options = dict(zip(names, given, strict=True))
            return self.prepare(number, **options), compile_step and compile_step(number, **options)

        def kernel(*args: Any) -> None:
            scale, found_inf = args[-2:]
            if found_inf is not None and found_inf.item():
                return
            lists = [args[0], *[tensors for tensors in args[1:arrays_in] if tensors]]
            given = [value.item() if isinstance(value, Tensor) else value for value in args[first_option:-2]]
            numbers = [step.item() for step in args[arrays_in]] if self.counts else [None] * len(args[0])
            array_of, written = backend.array_of, lists if scale is not None else [lists[0], *lists[2:]]
            arrays = [[array_of(tensor) for tensor in tensors] for tensors in lists]
            if scale is None and len(set(numbers)) == 1 and _lie_alike([held[0] for held in arrays]):
                step, launch = prepared(numbers[0], *given)
                done = bool(launch and launch(*arrays))
                if not done and (as_one := backend.together(arrays)) is not None:
                    step(xp, *as_one)
                    done = True
                if done:
                    for tensors in written:
                        bump_versions(tensors)
                    return
            before: Any = ()
            for place, (number, own) in enumerate(zip(numbers, zip(*arrays, strict=True), strict=True)):
                if number != before:
                    step, launch = prepared(number, *given)
                    before = number
                if scale is None and launch and _lie_alike(own) and launch(*[[array] for array in own]):
                    pass
                elif scale is None and _is_little(own):
                    step(xp, *own)
                else:
                    _check([tensors[place] for tensors in lists], schema.base_name)
                    _run(xp, step, list(own), scale)
                for tensors in written:
                    tensors[place]._bump_version()

        return kernel

    def described(self, operator: Operator) -> Callable:
        def describe(*args: Any) -> None:
            for position, tensors in enumerate(args[: 2 + self.state_lists]):
                for tensor in tensors if position != 1 or args[-2] is not None else ():
                    tensor._bump_version()

        return describe


def _check(tensors: Sequence[Tensor], name: str) -> None:
    kind = tensors[0].dtype
    if kind.category != FLOAT:
        raise NotImplementedError(f"\"{name.strip('_')}_kernel\" not implemented for '{kind.scalar_name}'")
    for tensor in tensors:
        if tensor.dtype is not kind:
            raise RuntimeError(f"expected scalar type {kind.scalar_name} but found {tensor.dtype.scalar_name}")
    check_writable(tensors[0])


def _lie_alike(arrays: Sequence[Any]) -> bool:
    """Whether all arrays have one floating type and lie row by row."""
    kind = arrays[0].dtype
    for array in arrays:
        flags = array.flags
        if array.dtype is not kind or not flags.c_contiguous or not flags.writeable:
            return False
    return kind in _COMPUTED and arrays[0].size > 0


def _is_little(arrays: Sequence[Any]) -> bool:
    """Whether nothing has to be checked, cast or cut: most parameters of most models."""
    first = arrays[0]
    kind = first.dtype
    return (
        kind in _PLAIN
        and 0 < first.size < 2 * BLOCK
        and first.ndim > 0
        and 0 not in first.strides
        and all(array.dtype is kind for array in arrays)
    )


def _run(xp: Any, step: Step, arrays: list[Any], scale: Tensor | None) -> None:
    """One parameter's step; half types are computed in float32."""
    if scale is not None:
        arrays[1] /= scale.item()
    if arrays[0].dtype in REDUCED:
        wide = [array.astype(np.float32) for array in arrays]
        step(xp, *(array.reshape(-1) for array in wide))
        for array, computed in zip(arrays, wide, strict=True):
            array[...] = computed
    else:
        for parts in _in_blocks(arrays):
            step(xp, *parts)


def _in_blocks(arrays: list[Any]) -> Iterator[list[Any]]:
    """Views of the same part of all arrays, small enough for the cache where their layout allows to cut them."""
    first = arrays[0]
    if not first.ndim:
        yield [array.reshape(1) for array in arrays]
        return
    order: Literal["C", "F"] = "C" if first.flags.c_contiguous else "F"
    flag = f"{order}_CONTIGUOUS"
    if first.size < 2 * BLOCK or not all(array.flags[flag] for array in arrays):
        yield arrays
        return
    flat = [array.reshape(-1, order=order) for array in arrays]
    for start in range(0, first.size, BLOCK):
        yield [array[start : start + BLOCK] for array in flat]


# the steps -----------------------------------------------------------------------------------------------------------


def _decayed(parameter: Any, gradient: Any, weight_decay: float, maximize: bool) -> Any:
    """The gradient to follow down, with weight decay in it."""
    if maximize:
        gradient = -gradient
    return gradient + weight_decay * parameter if weight_decay else gradient


def _sgd(step_number: None, weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool,
         maximize: bool, is_first_step: bool) -> Step:
    def step(xp: Any, parameter: Any, gradient: Any, buffer: Any = None) -> None:
        gradient = _decayed(parameter, gradient, weight_decay, maximize)
        if momentum:
            if is_first_step:
                buffer[...] = gradient
            else:
                buffer *= momentum
                buffer += gradient if dampening == 0 else (1 - dampening) * gradient
            gradient = gradient + momentum * buffer if nesterov else buffer
        parameter -= lr * gradient

    return step


def _adam(decoupled: bool) -> Callable[..., Step]:
    def prepare(step_number: float, lr: float, beta1: float, beta2: float, weight_decay: float, eps: float,
                amsgrad: bool, maximize: bool) -> Step:
        step_size = -lr / (1 - beta1**step_number)
        correction = (1 - beta2**step_number) ** 0.5

        def step(xp: Any, parameter: Any, gradient: Any, mean: Any, square_mean: Any, greatest: Any = None) -> None:
            if decoupled and weight_decay:
                parameter *= 1 - lr * weight_decay
            gradient = _decayed(parameter, gradient, 0.0 if decoupled else weight_decay, maximize)
            change = gradient - mean
            change *= 1 - beta1
            mean += change
            xp.multiply(gradient, gradient, out=change)
            change *= 1 - beta2
            square_mean *= beta2
            square_mean += change
            if amsgrad:
                square_mean = xp.maximum(greatest, square_mean, out=greatest)
            xp.sqrt(square_mean, out=change)
            change /= correction
            change += eps
            xp.divide(mean, change, out=change)
            change *= step_size
            parameter += change

        return step

    return prepare


def _adagrad(step_number: float, lr: float, lr_decay: float, weight_decay: float, eps: float, maximize: bool) -> Step:
    rate = lr / (1 + (step_number - 1) * lr_decay)

    def step(xp: Any, parameter: Any, gradient: Any, total: Any) -> None:
        gradient = _decayed(parameter, gradient, weight_decay, maximize)
        total += gradient * gradient
        root = xp.sqrt(total)
        root += eps
        xp.divide(gradient, root, out=root)
        root *= rate
        parameter -= root

    return step


_LISTS = "Tensor(a!)[] self, Tensor(b!)[] grads"
_MIXED_PRECISION = "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"

op(f"_fused_sgd_({_LISTS}, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float momentum, Tensor|Scalar lr,"
   f" float dampening, bool nesterov, bool maximize, bool is_first_step, {_MIXED_PRECISION}",
   kernel=FusedStep(_sgd, 1, counts=False), public="torch",
   kernels={"cpu": "optim.sgd", "cuda": "optim.sgd", "npu": "optim.fused_step"})

for _name, _decoupled in (("_fused_adam_", False), ("_fused_adamw_", True)):
    op(f"{_name}({_LISTS}, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[]"
       " state_steps, *, Tensor|Scalar lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad,"
       f" bool maximize, {_MIXED_PRECISION}",
       kernel=FusedStep(_adam(_decoupled), 3), public="torch", mixes_devices=True,
       kernels={"cpu": f"optim.{_name[7:-1]}", "cuda": "optim.adam", "npu": "optim.fused_step"})

op(f"_fused_adagrad_({_LISTS}, Tensor(c!)[] state_sums, Tensor[] state_steps, *, Tensor|Scalar lr, float lr_decay,"
   f" float weight_decay, float eps, bool maximize, {_MIXED_PRECISION}",
   kernel=FusedStep(_adagrad, 1), public="torch", mixes_devices=True,
   kernels={"cpu": "optim.adagrad", "cuda": "optim.adagrad", "npu": "optim.fused_step"})
