"""Gradients of replayed calls: a call's backward pass, planned once, and run as one node of the graph."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._autograd.engine import edge_for, run_backward
from .._autograd.function import BackwardCFunction, DelayedError, zeros
from .._autograd.node import FREED, Node, saving_hooks
from .._core.tensor import Tensor
from .._dispatch.keys import BACKEND_MASK, CPU_MASK, CUDA_MASK, NPU_MASK, changed_modes, modes
from ..amp import autocast
from .captured import Runs
from .plan import Plan
from .record import Pipeline
from .trace import Layout, Trace, address_of, layout_of
from .watching import NotGuarded

_TWICE = "torch.compile with aot_autograd does not currently support double backward"


class Part(NamedTuple):
    """Where an array that a backward pass reads comes from."""

    kind: str  # an "input" of the call, one that it "made", an incoming "grad", or a "constant"
    which: Any  # its number, or the constant
    offset: int = 0
    layout: Layout | None = None  # of a part of it

    def of(self, array: Any) -> Any:
        """The part of the whole."""
        return array if self.layout is None else view_of(array, self.offset, self.layout)


class _Recorded(Pipeline):
    made: Sequence[Any] = ()

    def compute(self, trace: Trace) -> Sequence[Any]:
        self.made = super().compute(trace)
        return self.made


class Backward:
    """The plan that takes the gradients of a call's results to those of the tensors that it read.

    `inputs` and `made` are the arrays that the call's own plan began with and gave, `arguments` and `given_away` the
    places of those that are other arrays at each call, `needs` the tensors that want gradients.
    """

    plan: Plan | None = None  # None where nothing is computed

    def __init__(self, results: Sequence[Tensor], needs: Sequence[Tensor], inputs: Sequence[Any],
                 made: Sequence[Any], arguments: Collection[int], given_away: Collection[int]) -> None:  # fmt: skip
        self.mask, self.device = results[0]._keys & BACKEND_MASK, results[0]._device
        if saving_hooks.users or any(t._keys & BACKEND_MASK != self.mask or t._device != self.device
                                     or t._hooks is not None for t in (*results, *needs)):  # fmt: skip
            raise NotGuarded("hooks see its gradients, or they are on several devices")
        if not self.mask & (CPU_MASK | CUDA_MASK | NPU_MASK):
            raise NotGuarded("calls on its device are not recorded")
        _check_graph(results, needs)
        self.outputs = tuple([(r._array.shape, r._array.dtype, r._device) for r in results])
        given: list[Any] = list(map(zeros, self.outputs))
        pipe = _Recorded(explain=False)
        pipe.keeps = True
        with autocast(self.device.type, enabled=False), changed_modes(grad_enabled=False), pipe:
            found = run_backward(results, given, True, False, needs, True, False)
        if len(pipe.history) > 1:
            raise NotGuarded("its backward pass looks at elements, or calls what is not recorded")
        self.parts: list[Part] = []
        if pipe.history:
            trace, self.plan = pipe.history[0]
            grads = [gradient._array for gradient in given]
            named = (("input", inputs), ("made", made), ("grad", grads))
            self._find_parts(trace, [(kind, i, array) for kind, own in named for i, array in enumerate(own)])
        self._find_results(found, given, pipe.made)
        if self.plan is not None:
            elsewhere = {"input": arguments, "made": given_away}
            copied = [at for at, part in enumerate(self.parts)
                      if part.kind == "grad" or part.which in elsewhere.get(part.kind, ())]  # fmt: skip
            made_here = {part.which for part in self.results if part is not None and part.kind == "made"}
            self.runs = Runs(self.plan, trace.numbers, copied, made_here)

    def _find_parts(self, trace: Trace, arrays: Sequence[tuple[str, int, Any]]) -> None:
        """Notes where what the plan reads comes from."""
        known = {id(array): Part(kind, i) for kind, i, array in reversed(arrays)}
        for number, array in trace.inputs.items():
            part = known.get(id(array)) or _shown(array, arrays, trace.layouts[number])
            if part is None:
                part = Part("constant", array)
            elif number in trace.written:
                raise NotGuarded("its backward pass writes what was there before")
            self.parts.append(part)
        if trace.written:
            raise NotGuarded("its backward pass writes what was there before")

    def _find_results(self, found: Sequence[Any], given: Sequence[Tensor], made: Sequence[Any]) -> None:
        """Notes where each gradient comes from: what the plan makes, or what comes in, or a view of that."""
        known = {id(g._array): Part("grad", i) for i, g in enumerate(given)}
        known |= {id(array): Part("made", i) for i, array in enumerate(made)}
        arrays = [("grad", i, g._array) for i, g in enumerate(given)]
        self.results: list[Part | None] = []
        for gradient in found:
            part = None
            if gradient is not None:
                array = gradient._array
                layout = layout_of(array.shape, array.strides, array.dtype, gradient._device)
                part = known.get(id(array)) or _shown(array, arrays, layout)
                if part is None:
                    raise NotGuarded("a gradient was not recorded")
            self.results.append(part)

    def held(self, inputs: Sequence[Any], made: Sequence[Any]) -> list[Any]:
        """The arrays that a backward pass will read; None for gradients."""
        known = {"input": inputs, "made": made}
        return [None if part.kind == "grad" else part.which if part.kind == "constant" else
                part.of(known[part.kind][part.which]) for part in self.parts]  # fmt: skip

    def reads(self, kind: str) -> list[int]:
        """The inputs, or what was made, that it reads."""
        return sorted({part.which for part in self.parts if part.kind == kind})

    def run(self, held: Sequence[Any], given: Sequence[Any]) -> tuple:
        """The gradients that go on."""
        arrays: Sequence[Any] = ()
        if self.plan is not None:
            inputs = list(held)
            for at, part in enumerate(self.parts):
                if part.kind == "grad":
                    inputs[at] = part.of(_in_order(given[part.which]))
            arrays, _ = self.runs(inputs)
        found: list[Any] = []
        used: set[int] = set()
        for result in self.results:
            if result is None or result.kind == "grad" and result.layout is None:
                found.append(None if result is None else given[result.which])
                continue
            made = object.__new__(Tensor)
            made._keys, made._device = self.mask, self.device
            if result.kind == "grad":
                made._array = result.of(_in_order(given[result.which])).copy()
            else:
                made._array = arrays[result.which].copy() if result.which in used else arrays[result.which]
                used.add(result.which)
            found.append(made)
        return tuple(found)


class _Memory:
    """Memory of an array, from a byte on, for NumPy to make another array of."""

    def __init__(self, source: np.ndarray, offset: int, layout: Any) -> None:
        self.source = source  # which keeps the memory
        address, readonly = source.__array_interface__["data"]
        self.__array_interface__ = {
            "shape": layout.shape, "strides": layout.strides, "typestr": f"|V{layout.dtype.itemsize}",
            "data": (address + offset, readonly), "version": 3}  # fmt: skip


def view_of(source: Any, offset: int, layout: Any) -> Any:
    """The part of an array's memory that begins at an offset."""
    if source.__class__ is not np.ndarray:
        storage = source.storage
        return storage.array(layout.shape, layout.dtype, source.pointer - storage.address + offset, layout.strides)
    return np.asarray(_Memory(source, offset, layout)).view(layout.dtype)


def _in_order(gradient: Tensor) -> Any:
    gradient._settle()
    array = gradient._array
    if array.__class__ is not np.ndarray:
        return array if array.layout.contiguous else gradient.contiguous()._array
    return array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)


def overlap(one: Any, other: Any) -> bool:
    """Whether two arrays may have elements in common."""
    if one.__class__ is not other.__class__:
        return False
    if one.__class__ is np.ndarray:
        return np.may_share_memory(one, other)
    begins, ends = max(one.pointer, other.pointer), [a.pointer + a.layout.nbytes for a in (one, other)]
    return begins < min(ends)


def _shown(array: Any, arrays: Sequence[tuple[str, int, Any]], layout: Layout) -> Part | None:
    """The part of a known array that an array shows."""
    at = address_of(array)
    if array.__class__ is np.ndarray and array.base is None:
        return None
    found = [Part(kind, i, at - address_of(known), layout) for kind, i, known in arrays if overlap(known, array)]
    if not found:
        if array.__class__ is not np.ndarray and (not array.nbytes or at == _begin_of(array)):
            return None
        raise NotGuarded("its backward pass reads a tensor whose place is not known")
    return found[0]


def _begin_of(array: Any) -> int:
    """Where the memory of an array on a device begins."""
    return array.memory.ptr if hasattr(array, "memory") else array.storage.address


def _check_graph(results: Sequence[Tensor], needs: Sequence[Tensor]) -> None:
    """Refuses graphs with functions and hooks of the program, and those that lead to other tensors than `needs`."""
    ends = [edge_for(tensor) for tensor in needs]
    known = {(id(edge[0]), edge[1]) for edge in ends if edge is not None}
    todo: list[Any] = [edge_for(tensor) for tensor in results]
    seen: set[int] = set()
    while todo:
        edge = todo.pop()
        if edge is None or (id(edge[0]), edge[1]) in known:
            continue
        node = edge[0]
        if edge[1] < 0:
            raise NotGuarded("gradients go to a tensor whose place is not known")
        if node.watched or isinstance(node, BackwardCFunction):
            raise NotGuarded("hooks or functions of the program are part of its backward pass")
        if id(node) not in seen:
            seen.add(id(node))
            todo += node.edges


class CompiledFunctionBackward(Node):
    """The backward pass of a replayed call."""

    def __init__(self, backward: Backward, held: list[Any], saved: Sequence[Tensor], needs: Sequence[Tensor]) -> None:
        super().__init__()
        self.plan, self.held = backward, held
        self.outputs = backward.outputs
        self.edges = tuple([edge_for(tensor) for tensor in needs])
        self.save(*saved)

    def apply(self, *grads: Any) -> tuple:
        if self.saved is None:
            raise RuntimeError(FREED)
        for position in range(len(self.saved)):
            self.unpack(position)  # which looks at versions
        given = [zeros(self.outputs[i]) if grad is None else grad for i, grad in enumerate(grads)]
        with changed_modes(grad_enabled=False):
            found = self.plan.run(self.held, given)
        if not modes.grad_enabled:
            return found
        error = DelayedError(_TWICE)
        return tuple([None if gradient is None else error.attach(gradient, None) for gradient in found])

    def keeps_tensors(self) -> bool:
        return bool(self.held)

    def release(self) -> None:
        if any(part.kind != "grad" for part in self.plan.parts):
            self.saved, self.versions, self.held = None, (), []
