"""Dispatch keys and sets of them.

A set is an int with one bit a key. A key of a higher bit is served first, so iteration and
resolution go from the highest bit down.
"""

import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

from .floating_point import quiet_thread


class DispatchKey(IntEnum):
    CPU = 0
    CUDA = 1
    NPU = 2
    # A device that a program adds (_backends/interface.py: register).
    PrivateUse1 = 3
    Meta = 4
    # Tensors of layout sparse_coo, and of sparse_csr and sparse_csc: their arrays hold other tensors (_core/sparse.py).
    SparseCPU = 5
    SparseCsrCPU = 6
    # A call inside torch.pipeline(), which is recorded in the place of the device's kernel (_pipeline/).
    Pipeline = 7
    # A tensor inside a transform of torch.func: its array wraps a tensor of the level below (_dispatch/levels.py).
    FuncTorch = 8
    # A subclass of Tensor, or a mode, whose __torch_dispatch__ answers the call below autograd.
    PythonDispatch = 9
    # A conjugated or negated view, or a tensor that shares its memory with a copy until one is written (_marked.py).
    Marked = 10
    # A tensor made in inference mode, or a call inside it: results are marked, writes from outside refused.
    Inference = 11
    Autograd = 12
    AutogradMeta = 13
    AutogradPrivateUse1 = 14
    AutogradNPU = 15
    AutogradCUDA = 16
    AutogradCPU = 17
    # A view of a tensor that does not need grad. Its base may come to need it through an in-place write
    # on a sibling, and then so does the view: the key's kernel looks before the call goes on.
    ADInplaceOrView = 18
    # A tensor that carries a tangent (_autograd/forward.py).
    ForwardAD = 19
    Functionalize = 20
    Autocast = 21
    # A call inside vmap: operators that draw random numbers ask what to do about it.
    FuncTorchVmapMode = 22
    # A subclass of Tensor, or a mode, whose __torch_function__ sees the call first.
    Python = 23
    # A call while a profiler runs: its time, and what it calls, are written down.
    Profiler = 24
    # A call on tensors without memory that is written down for a plan (_ops/_declare/plans.py).
    Planning = 25


BACKENDS = (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.NPU, DispatchKey.PrivateUse1, DispatchKey.Meta)
AUTOGRAD_OF = {key: DispatchKey[f"Autograd{key.name}"] for key in BACKENDS}


def mask_of(*keys: DispatchKey) -> int:
    return sum(1 << key for key in keys)


CPU_MASK, CUDA_MASK, NPU_MASK, PRIVATE_MASK, META_MASK = (1 << key for key in BACKENDS)
# What families tell apart: the device whose arrays are NumPy's, so that a call may compute on them at once, and the one
# whose kernels say what comes out and compute nothing.
HOST, DESCRIBED = DispatchKey.CPU, DispatchKey.Meta
HOST_MASK, DESCRIBED_MASK = 1 << HOST, 1 << DESCRIBED
COO_MASK, COMPRESSED_MASK = 1 << DispatchKey.SparseCPU, 1 << DispatchKey.SparseCsrCPU
SPARSE_MASK = COO_MASK | COMPRESSED_MASK
FUNC_MASK = 1 << DispatchKey.FuncTorch
BACKEND_MASK = mask_of(*BACKENDS) | SPARSE_MASK | FUNC_MASK
INFERENCE_MASK = 1 << DispatchKey.Inference
VIEW_MASK = 1 << DispatchKey.ADInplaceOrView
REQUIRES_GRAD = 1 << DispatchKey.Autograd
AUTOGRAD_MASK = mask_of(DispatchKey.Autograd, *AUTOGRAD_OF.values())
DUAL_MASK = 1 << DispatchKey.ForwardAD
AUTOCAST_MASK = 1 << DispatchKey.Autocast
PIPELINE_MASK = 1 << DispatchKey.Pipeline
VMAP_MASK = 1 << DispatchKey.FuncTorchVmapMode
PYTHON_MASK = 1 << DispatchKey.Python
PROFILER_MASK = 1 << DispatchKey.Profiler
TORCH_DISPATCH_MASK = 1 << DispatchKey.PythonDispatch
MARKED_MASK = 1 << DispatchKey.Marked
PLAN_MASK = 1 << DispatchKey.Planning
# What a subclass of Tensor brings along, whatever the memory.
SUBCLASS_MASK = PYTHON_MASK | TORCH_DISPATCH_MASK
ALL_KEYS = (1 << len(DispatchKey)) - 1

# by device type; a device that a program adds brings its own name
DEVICE_MASKS = {"cpu": CPU_MASK, "cuda": CUDA_MASK, "npu": NPU_MASK, "meta": META_MASK}
# backend bits -> the same with the autograd bits of that backend
WITH_GRAD = {1 << b: mask_of(b, DispatchKey.Autograd, AUTOGRAD_OF[b]) for b in BACKENDS}
WITH_GRAD[FUNC_MASK] = FUNC_MASK | REQUIRES_GRAD
WITH_GRAD |= {mask: mask | WITH_GRAD[CPU_MASK] & ~CPU_MASK for mask in (COO_MASK, COMPRESSED_MASK)}
_DESCENDING = tuple(sorted(DispatchKey, reverse=True))


class DispatchKeySet:
    """A set of dispatch keys, iterated in the order in which they are served."""

    __slots__ = ("mask",)

    def __init__(self, keys: "int | Iterable[DispatchKey]" = 0) -> None:
        self.mask = keys if isinstance(keys, int) else mask_of(*set(keys))

    @classmethod
    def from_tensors(cls, tensors: Iterable[Any], *, grad_enabled: bool = True, pipeline_enabled: bool = False,
                     autocast_enabled: bool = False, functionalize_enabled: bool = False,
                     device: Any = None) -> "DispatchKeySet":
        """The set a call over these tensors would be dispatched with; `device` serves a call without any."""
        mask = 0
        for tensor in tensors:
            mask |= getattr(tensor, "_keys", 0)
        if device is not None:
            mask |= DEVICE_MASKS[getattr(device, "type", str(device).partition(":")[0])]
        if not mask & BACKEND_MASK:
            mask |= CPU_MASK
        if not grad_enabled:
            mask &= ~(AUTOGRAD_MASK | VIEW_MASK)
        for enabled, key in ((pipeline_enabled, DispatchKey.Pipeline), (autocast_enabled, DispatchKey.Autocast),
                             (functionalize_enabled, DispatchKey.Functionalize)):
            if enabled:
                mask |= 1 << key
        return cls(mask)

    def __contains__(self, key: DispatchKey) -> bool:
        return bool(self.mask >> key & 1)

    has = __contains__

    def add(self, key: DispatchKey) -> "DispatchKeySet":
        return DispatchKeySet(self.mask | 1 << key)

    def remove(self, key: DispatchKey) -> "DispatchKeySet":
        return DispatchKeySet(self.mask & ~(1 << key))

    def __iter__(self) -> Iterator[DispatchKey]:
        return (key for key in _DESCENDING if self.mask >> key & 1)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def raw_repr(self) -> int:
        """The set as a number, one bit a key."""
        return self.mask

    def without(self, *keys: "DispatchKey | DispatchKeySet | Iterable[DispatchKey]") -> "DispatchKeySet":
        return DispatchKeySet(self.mask & ~_merged(keys))

    def __or__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(self.mask | other.mask)

    def __and__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(self.mask & other.mask)

    def __sub__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(self.mask & ~other.mask)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


def _merged(keys: Iterable[Any]) -> int:
    mask = 0
    for key in keys:
        if isinstance(key, DispatchKey):
            mask |= 1 << key
        elif isinstance(key, DispatchKeySet):
            mask |= key.mask
        else:
            mask |= _merged(key)
    return mask


class _Unusual:
    """The threads that have masks other than the usual ones. While none has, a call reads no thread-local state.

    A thread comes before its masks are other ones, and goes after they are the usual ones again, so that an interrupt
    in between makes calls slower, and none wrong.
    """

    __slots__ = ("threads",)  # which every call reads: several times as fast as a field that a class has

    def __init__(self) -> None:
        self.threads: set[int] = set()


unusual = _Unusual()
if hasattr(os, "register_at_fork"):  # the other threads are not in the child
    os.register_at_fork(after_in_child=lambda: unusual.threads.intersection_update([threading.get_ident()]))


class _End:
    """What goes when a thread does, and takes it out of the unusual ones."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def __del__(self, unusual: _Unusual = unusual) -> None:  # its own name: in the end a module has none left
        unusual.threads.discard(self.thread)


USUAL_MASKS = (0, ALL_KEYS)
RECORDING_MASK = AUTOGRAD_MASK | VIEW_MASK
UNRECORDED_MASKS = (0, ALL_KEYS & ~RECORDING_MASK)  # this very tuple says that nothing but recording is off
# Likewise, that a pipeline records and nothing else is unusual, or only that autograd does not: in a backward pass, or
# because the program says so.
PIPELINE_MASKS = (PIPELINE_MASK, ALL_KEYS)
UNRECORDED_PIPELINE_MASKS = (PIPELINE_MASK, ALL_KEYS & ~RECORDING_MASK)
BACKWARD_PIPELINE_MASKS = (*UNRECORDED_PIPELINE_MASKS,)
_OWN_MASKS = {masks: masks for masks in (USUAL_MASKS, PIPELINE_MASKS, UNRECORDED_PIPELINE_MASKS)}


def _own_masks(masks: tuple[int, int], state: dict[str, Any]) -> tuple[int, int]:
    """The tuple that stands for masks, if there is one."""
    masks = _OWN_MASKS.get(masks, masks)
    in_backward = masks is UNRECORDED_PIPELINE_MASKS and state.get("backward_pass") is not None
    return BACKWARD_PIPELINE_MASKS if in_backward else masks


# Equal to the usual ones, in a thread that counts as unusual because it will be again in a moment.
_USUAL_FOR_NOW = (*USUAL_MASKS,)


class _Modes(threading.local):
    """What this thread adds to every call's keys, and what it lets through."""

    def __init__(self) -> None:
        self.include = 0
        self.exclude = 0
        self.grad_enabled = True
        self.inference = False
        self.masks = USUAL_MASKS
        self.thread, self.end = threading.get_ident(), _End()
        quiet_thread()

    def switch_grad(self, enabled: bool) -> bool:
        """Switches recording, and says what it was."""
        state = self.__dict__
        previous = state["grad_enabled"]
        if previous is not enabled:
            if state["masks"] is (UNRECORDED_MASKS if enabled else USUAL_MASKS):  # the usual case, without arithmetic
                if enabled:
                    state["grad_enabled"], state["masks"] = True, USUAL_MASKS
                    unusual.threads.discard(state["thread"])
                else:
                    unusual.threads.add(state["thread"])
                    state["grad_enabled"], state["masks"] = False, UNRECORDED_MASKS
            else:
                self.update(grad_enabled=enabled)
        return previous

    def leave(self, keys: int) -> tuple:
        """Takes keys out of what is added to every call, and gives what `come_back` needs: `changed_modes` for less."""
        state = self.__dict__
        include, masks = state["include"], state["masks"]
        within = include & ~keys, masks[1]
        within = _OWN_MASKS.get(within, within)
        state["include"] = within[0]
        state["masks"] = within = _USUAL_FOR_NOW if within is USUAL_MASKS else within
        return include, masks, within

    def come_back(self, left: tuple) -> None:
        """Adds the keys again that were left out."""
        state = self.__dict__
        include, masks, within = left
        if state["masks"] is within:
            state["include"], state["masks"] = include, masks
        else:  # other modes were changed in between
            self.update(include=include)

    def set_include(self, include: int) -> None:
        """`update` of what is added to every call's keys, for less."""
        state = self.__dict__
        previous = state["masks"]
        masks = _own_masks((include, previous[1]), state)
        if previous is USUAL_MASKS:
            unusual.threads.add(state["thread"])
        state["include"], state["masks"] = include, masks
        if masks is USUAL_MASKS:
            unusual.threads.discard(state["thread"])

    def update(self, **changes: Any) -> None:
        """Sets modes and recomputes `masks`, the one attribute that a call reads."""
        state = self.__dict__  # one thread-local look-up
        after = {**state, **changes}
        records = after["grad_enabled"] and not after["inference"]
        exclude = after["exclude"] if records else after["exclude"] | RECORDING_MASK
        masks = _own_masks((after["include"], ALL_KEYS & ~exclude), after)
        if state["masks"] is USUAL_MASKS:
            unusual.threads.add(state["thread"])
        state.update(changes, masks=masks)  # all at once
        if masks is USUAL_MASKS:
            unusual.threads.discard(state["thread"])


modes = _Modes()
# A thread that only computes may never come to read `modes`, and so keeps NumPy's warnings.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"mindtorch_v2(\.|$)")


class changed_modes:
    """Context in which some of this thread's modes have other values."""

    __slots__ = ("changes", "previous")

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def __enter__(self) -> None:
        state = modes.__dict__
        self.previous = {name: state[name] for name in self.changes}
        modes.update(**self.changes)

    def __exit__(self, *exc: object) -> None:
        modes.update(**self.previous)
