"""An optimizer's whole step on a GPU: one launch for some sixty parameters at a time."""

import ctypes
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.dtype import FLOAT, REDUCED
from ...._core.tensor import Tensor
from ...._core.tensor_base import bump_versions
from ...._dispatch.registry import Operator
from ...._ops._declare.rules import check_writable
from ...._ops.fused_steps import passes
from ..array import CudaArray, Layout
from ..families import Maker
from ..launch import PACKS, Launch, c_type, compiled

_AT_ONCE, _THREADS = 60, 256  # the table of addresses has to fit into a kernel's 4 KB of arguments
_BUSY, _LONGEST = 1056, 8  # blocks that keep a GPU busy, and how often each of their threads goes round at most

# A block has `chunk` elements of one parameter, of which a thread takes 16 bytes at a time; first[n] is the first
# block of a parameter. ROUNDED is what an operator of its own would have stored; A is the type that is computed in.
_SOURCE = r"""
#define MANY (16 / sizeof(T))
typedef pack<T, MANY> some;
struct Table {{ T* arrays[{lists}][60]; const float* step[60]; int64 size[60], first[60]; }};
extern "C" __global__ void __launch_bounds__(256) take_step(double lr, double beta1, double beta2, double decay,
                                                            double eps, double number, double dampening,
                                                            const float* scale, const float* found_inf, int64 chunk,
                                                            Table table) {{
    if (found_inf && *found_inf != 0) return;
    __shared__ A rates[2];  // powers of doubles take long: one thread computes them
    int own = __syncthreads_count(threadIdx.x < 60 && table.first[threadIdx.x] <= blockIdx.x) - 1;
    if (threadIdx.x == 0) {{
        if (table.step[own]) number = *table.step[own];
        {setup}
    }}
    __syncthreads();
    A factor = scale ? (A)1 / (A)*scale : (A)1;
    int64 start = (blockIdx.x - table.first[own]) * chunk, size = table.size[own];
    int64 end = start + chunk < size ? start + chunk : size;
    T* arrays[{lists}];
    size_t places = 0;
    #pragma unroll
    for (int k = 0; k < {lists}; ++k) {{ arrays[k] = table.arrays[k][own]; places |= (size_t)arrays[k]; }}
    for (int64 i = start + threadIdx.x * MANY; i < end; i += 256 * MANY) {{
        bool together = places % 16 == 0 && i + MANY <= end;
        some held[{lists}];
        #pragma unroll
        for (int k = 0; k < {lists}; ++k)
            if (together) held[k] = *(const some*)(arrays[k] + i);
            else
                #pragma unroll
                for (int j = 0; j < MANY; ++j) held[k].v[j] = i + j < end ? arrays[k][i + j] : T();
        #pragma unroll
        for (int j = 0; j < MANY; ++j) {{
            A p = (A)widened(held[0].v[j]), g = (A)widened(held[1].v[j]) * factor;
            if (scale) held[1].v[j] = narrow<T>::of(g);
            if ({maximize}) g = -g;
            {body}
            held[0].v[j] = narrow<T>::of(p);
        }}
        #pragma unroll
        for (int k = 0; k < {lists}; ++k)
            if (k == 1 && !scale) continue;
            else if (together) *(some*)(arrays[k] + i) = held[k];
            else
                #pragma unroll
                for (int j = 0; j < MANY; ++j) if (i + j < end) arrays[k][i + j] = held[k].v[j];
    }}
}}
"""

_SGD = """
            if (decay != 0) g = ROUNDED(g + (A)decay * p);
            {momentum}
            p -= (A)lr * g;
"""
_MOMENTUM = """
            A b = {first} ? g : ROUNDED(ROUNDED((A)beta1 * (A)widened(held[2].v[j])) + (A)(1 - dampening) * g);
            held[2].v[j] = narrow<T>::of(b);
            g = {nesterov} ? ROUNDED(g + (A)beta1 * b) : b;
"""
_ADAM_SETUP = """
        rates[0] = (A)(-lr / (1 - pow(beta1, number)));
        rates[1] = (A)sqrt(1 - pow(beta2, number));
"""
_ADAM = """
            if ({decoupled}) p = ROUNDED(p * (A)(1 - lr * decay));
            else if (decay != 0) g = ROUNDED(g + (A)decay * p);
            A m = (A)widened(held[2].v[j]), v = (A)widened(held[3].v[j]);
            m = ROUNDED(m + (g - m) * (A)(1 - beta1));
            v = ROUNDED(ROUNDED(v * (A)beta2) + g * g * (A)(1 - beta2));
            held[2].v[j] = narrow<T>::of(m);
            held[3].v[j] = narrow<T>::of(v);
            {amsgrad}
            p += rates[0] * (m / ROUNDED(ROUNDED(ROUNDED(sqrt(v)) / rates[1]) + (A)eps));
"""
_AMSGRAD = """
            A most = (A)widened(held[4].v[j]);
            v = most > v ? most : v;
            held[4].v[j] = narrow<T>::of(v);
"""
_ADAGRAD_SETUP = """
        rates[0] = (A)(lr / (1 + (number - 1) * beta1));
"""
_ADAGRAD = """
            if (decay != 0) g = ROUNDED(g + (A)decay * p);
            A total = ROUNDED((A)widened(held[2].v[j]) + g * g);
            held[2].v[j] = narrow<T>::of(total);
            p -= rates[0] * (g / ROUNDED(ROUNDED(sqrt(total)) + (A)eps));
"""


def _launch(kind: np.dtype, lists: int, setup: str, body: str, maximize: bool) -> tuple[Launch, Any]:
    rounded = passes.rounded and kind in REDUCED
    key = kind, lists, setup, body, maximize, rounded
    if key not in _launches:
        wide = "double" if kind.itemsize == 8 else "float"
        text = (f"{PACKS}typedef {c_type(kind)} T; typedef {wide} A;\n"
                f"#define ROUNDED(x) ({'widened(narrow<T>::of(x))' if rounded else 'x'})\n") + _SOURCE.format(
            lists=lists, setup=setup, body=body, maximize=int(maximize))
        table = (ctypes.c_longlong * ((lists + 3) * _AT_ONCE))()
        _launches[key] = Launch(compiled(text, "take_step"), "dddddddqqq", structs=[table]), table
    return _launches[key]


_launches: dict[tuple, tuple[Launch, Any]] = {}
_table_lock = threading.Lock()


def _checked(lists: Sequence[Sequence[Tensor]], name: str) -> bool:
    """Whether all arrays are of one floating type and lie alike; raises as the CPU's kernel does."""
    known: set[Layout] = set()  # of one parameter at least, with all that belongs to it
    for tensors in zip(*lists, strict=True):
        layout = tensors[0]._array.layout
        if layout in known:
            for tensor in tensors:
                if tensor._array.layout is not layout:
                    break
            else:
                continue
        kind = tensors[0].dtype
        if kind.category != FLOAT:
            raise NotImplementedError(f"\"{name.strip('_')}_kernel\" not implemented for '{kind.scalar_name}'")
        for tensor in tensors:
            if tensor.dtype is not kind:
                raise RuntimeError(f"expected scalar type {kind.scalar_name} but found {tensor.dtype.scalar_name}")
            own = tensor._array.layout
            if own is not layout or own.nbytes != own.size * own.dtype.itemsize:
                return False
        check_writable(tensors[0])
        known.add(layout)
    return True


def _stepped(lists: Sequence[Sequence[Tensor]], steps: Sequence[Any], source: Callable, numbers: Sequence[float],
             scale: Tensor | None, found_inf: Tensor | None) -> None:
    """Launches for groups of one type and step number; `source(type)` gives the kernel."""
    groups: dict[tuple, list[int]] = {}
    for i, tensor in enumerate(lists[0]):
        step = steps[i] if steps else 0.0
        key = tensor._array.dtype, step if step.__class__ is float else None
        members = groups.get(key)
        if members is None:
            members = groups[key] = []
        members.append(i)
    extra = [0 if t is None else t._array.pointer for t in (scale, found_inf)]
    for (kind, number), members in groups.items():
        launch, table = source(kind)
        for start in range(0, len(members), _AT_ONCE):
            chosen = members[start : start + _AT_ONCE]
            blank = [0] * (_AT_ONCE - len(chosen))
            words: list[int] = []
            for tensors in lists:
                words += [tensors[i]._array.pointer for i in chosen] + blank
            words += [0 if number is not None else steps[i]._array.pointer for i in chosen] + blank
            sizes = [lists[0][i]._array.size for i in chosen]
            round_of_all = _THREADS * 16 // kind.itemsize
            chunk = round_of_all * max(1, min(sum(sizes) // (round_of_all * _BUSY), _LONGEST))
            first = [0, *itertools.accumulate(-(-size // chunk) for size in sizes)]
            blocks = first.pop()
            if not blocks:
                continue
            with _table_lock:
                table[:] = [*words, *sizes, *blank, *first, *[blocks] * len(blank)]
                launch.over((blocks,), (_THREADS,), *numbers[:5], number or 0.0, numbers[5], *extra, chunk)
    for tensors in lists if scale is not None else (lists[0], *lists[2:]):  # gradients are read, unless scaled
        bump_versions(tensors)


def adagrad(params: Any, grads: Any, sums: Any, state_steps: Any, lr: Any, lr_decay: float, weight_decay: float,
            eps: float, maximize: bool, grad_scale: Any, found_inf: Any) -> None:
    _run("_fused_adagrad_", [params, grads, sums], _numbers(state_steps),
         lambda kind: _launch(kind, 3, _ADAGRAD_SETUP, _ADAGRAD, maximize),
         (_number(lr), lr_decay, 0.0, weight_decay, eps, 0.0), grad_scale, found_inf)


def _numbers(state_steps: Sequence[Tensor]) -> list[Any]:
    """How many steps were taken: numbers, and tensors where that is known to the device alone."""
    return [s if s._array.__class__ is CudaArray else float(s._array) for s in state_steps]


def _number(value: Any) -> float:
    return float(value.item()) if hasattr(value, "item") else float(value)


def sgd(params: Any, grads: Any, buffers: Any, weight_decay: float, momentum: float, lr: Any, dampening: float,
        nesterov: bool, maximize: bool, is_first_step: bool, grad_scale: Any, found_inf: Any) -> None:
    lists = [params, grads, *([buffers] if momentum else [])]
    text = _SGD.format(momentum=_MOMENTUM.format(first=int(is_first_step), nesterov=int(nesterov)) if momentum else "")
    _run("_fused_sgd_", lists, [], lambda kind: _launch(kind, len(lists), "", text, maximize),
         (_number(lr), momentum, 0.0, weight_decay, 0.0, dampening), grad_scale, found_inf)


@Maker
def adam(operator: Operator) -> Callable:
    """The kernel of `_fused_adam_` or `_fused_adamw_`."""
    name = operator.schema.base_name
    decoupled = name == "_fused_adamw_"

    def kernel(params: Any, grads: Any, means: Any, squares: Any, greatest: Any, state_steps: Any, lr: Any,
               beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool,
               grad_scale: Any, found_inf: Any) -> None:
        lists = [params, grads, means, squares, *([greatest] if amsgrad else [])]
        text = _ADAM.format(decoupled=int(decoupled and weight_decay != 0), amsgrad=_AMSGRAD if amsgrad else "")
        if decoupled:
            text = text.replace("else if (decay != 0)", "else if (false)")
        _run(name, lists, _numbers(state_steps), lambda kind: _launch(kind, len(lists), _ADAM_SETUP, text, maximize),
             (_number(lr), beta1, beta2, weight_decay, eps, 0.0), grad_scale, found_inf)

    return kernel


def _run(name: str, lists: list, steps: list, source: Callable, numbers: tuple, scale: Any, found_inf: Any) -> None:
    if not _checked(lists, name):
        # Gradients of other strides are brought to those of their parameters; states always have them.
        lists[1] = [g if g._array.layout is p._array.layout else _laid_out_as(g, p)
                    for p, g in zip(lists[0], lists[1], strict=True)]
        if not _checked(lists, name):
            raise RuntimeError(f"{name}: parameters and states must be dense and have the same strides")
    _stepped(lists, steps, source, numbers, scale, found_inf)


def _laid_out_as(source: Tensor, model: Tensor) -> Tensor:
    made: Any = model.detach().clone()
    return made.copy_(source)
