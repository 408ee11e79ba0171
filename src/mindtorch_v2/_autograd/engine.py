"""Runs the recorded graph backwards.

Nodes become ready when all that lead to them have run, and of the ready ones the youngest goes first, leaves before
all: the order PyTorch's engine has. Nothing recurses, so depth is bounded by memory alone.
"""

import itertools
import math
import sys
import threading
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from .._core.allocation import out_of_memory
from .._core.computed import computed_once
from .._core.device import contiguous_format
from .._core.dtype import COMPLEX, OF_ARRAY
from .._core.forks import free_in_children
from .._core.geometry import is_dense
from .._core.gradient_memory import OWN_REFERENCES, contiguous_copy, is_ours, owns_memory, shown_whole, summed_to
from .._core.tensor import wrap
from .._core.warn import warn_once
from .._dispatch.keys import (
    BACKEND_MASK,
    BACKWARD_PIPELINE_MASKS,
    CPU_MASK,
    INFERENCE_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    TORCH_DISPATCH_MASK,
    UNRECORDED_PIPELINE_MASKS,
    modes,
)
from .node import AccumulateGrad, HookDict, Node, VersionCounter

# References that exist to a gradient nobody else holds in `give`, where the buffer holds one.
_BUFFER_REFERENCES = 3


_numbers = itertools.count()
# Tensors of other classes may run a pass of their own while they are added.
_accumulating = free_in_children(threading.RLock())
accumulations = [0]  # how many passes have begun that leave gradients in tensors

# Gradients, or leaves, of which it matters more than where their memory lies.
_NO_PLAIN_MEMORY = SPARSE_MASK | TORCH_DISPATCH_MASK


class Task:
    """One backward pass."""

    needed: set[int] | None = None  # ids of the targets that lead to captured ones; None where all run
    captures: dict[tuple[int, int], int] = {}  # (id of target, output number) -> position in `captured`
    wanted: set[int] | frozenset[int] = frozenset()  # ids of the targets that are captured
    hooked = False  # somebody may see in which order leaves come
    awaited = False  # somebody is told when a leaf's gradient has come

    def __init__(self, keep_graph: bool, accumulate_grad: bool) -> None:
        self.keep_graph = keep_graph
        self.accumulate_grad = accumulate_grad
        self.callbacks: list[Any] = []  # run when all nodes have

    @computed_once
    def number(self) -> int:
        """A number that no other pass has."""
        return next(_numbers)

    # preparation -----------------------------------------------------------------------------------------------

    def count_dependencies(self, roots: Sequence[tuple]) -> None:
        """Finds all targets of the pass, and how many nodes have to run before each."""
        self.pending: dict[int, int] = {}  # id of a target -> nodes that still have to run before it
        self.reached: set[int] = set()  # ids of all targets
        self.buffers: dict[int, list] = {}  # id of a target -> gradients of its outputs, summed so far
        self.heap: list[tuple] = []
        self.pushed = 0
        pending = self.pending
        seen = self.reached
        stack = []
        for target, nr in roots:
            if nr < 0:
                seen.add(id(target))
                self.hooked = True
            elif id(target) not in seen:
                seen.add(id(target))
                stack.append(target)
        while stack:
            for edge in stack.pop().edges:
                if edge is None:
                    continue
                target, nr = edge
                key = id(target)
                if key in pending:
                    pending[key] += 1
                    continue
                pending[key] = 1
                if key not in seen:
                    seen.add(key)
                    if nr >= 0:
                        stack.append(target)
                    elif not _is_plain_leaf(target):
                        self.hooked = True
                    elif target._arrival is not None:
                        self.awaited = True

    def capture(self, inputs: Sequence[Any], roots: Sequence[tuple]) -> None:
        """Asks for the gradients of `inputs`, and for nothing that does not lead there."""
        self.captures = {}
        for i, tensor in enumerate(inputs):
            edge = edge_for(tensor)
            if edge is None:
                if not tensor.requires_grad and self.accumulate_grad:
                    tensor.retain_grad()  # which refuses
                if not tensor.requires_grad:
                    raise RuntimeError("One of the differentiated Tensors does not require grad")
                continue  # a view that was made under no_grad: nothing leads there
            if self.accumulate_grad and edge[1] >= 0:
                tensor.retain_grad()
            self.captures.setdefault((id(edge[0]), edge[1]), i)
        self.captured: list[Any] = [None] * len(inputs)
        self.find_needed(roots)

    def find_needed(self, roots: Sequence[tuple]) -> None:
        """Marks the targets that lead to a captured one; only these run."""
        wanted = self.wanted = {key for key, _ in self.captures}
        needed: set[int] = set()
        done: set[int] = set()
        stack: list[tuple[Any, int, bool]] = [(t, nr, False) for t, nr in roots]
        while stack:
            target, nr, expanded = stack.pop()
            key = id(target)
            edges = target.edges if nr >= 0 else ()
            if expanded:
                if key in wanted or any(e is not None and id(e[0]) in needed for e in edges):
                    needed.add(key)
                continue
            if key in done:
                continue
            done.add(key)
            stack.append((target, nr, True))
            stack.extend((e[0], e[1], False) for e in edges if e is not None and id(e[0]) not in done)
        self.needed = needed

    def will_run(self, edge: tuple) -> bool:
        """Whether the target of an edge has a part in this pass."""
        key = id(edge[0])
        return key in self.reached and (self.needed is None or key in self.needed)

    # running ---------------------------------------------------------------------------------------------------

    def push(self, target: Any, nr: int) -> None:
        self.pushed += 1
        put = heap_put if self.hooked else heappush
        put(self.heap, (-target.seq if nr >= 0 else -math.inf, self.pushed, target, nr))

    def give(self, target: Any, nr: int, grad: Any) -> None:
        """Adds a gradient to what has come for an output of a target."""
        key = id(target)
        buffer = self.buffers.get(key)
        if buffer is None:
            count = len(target.outputs) if nr >= 0 else 1
            if count <= 1 and nr <= 0:
                self.buffers[key] = [grad]
                return
            buffer = self.buffers[key] = [None] * max(count, nr + 1)
        if grad is None:
            return
        at = max(nr, 0)
        if len(buffer) <= at:  # a bare Node does not say how many outputs it has
            buffer += [None] * (at + 1 - len(buffer))
        old = buffer[at]
        if old is None:
            buffer[at] = grad
        elif not modes.grad_enabled and sys.getrefcount(old) <= _BUFFER_REFERENCES and owns_memory(old) and (
                not modes.include & TORCH_DISPATCH_MASK):  # those who look on see no gradient change
            old.add_(grad)
        else:
            buffer[at] = _added(old, grad)

    def is_plain(self) -> bool:
        """Whether nodes run without a look at captures, and nobody watches them."""
        state = modes.__dict__
        return self.needed is None and not state.get("anomaly") and "run_node" not in self.__dict__

    def run_straight(self, node: Node, nr: int, grad: Any) -> tuple[Node, int, Any] | None:
        """Runs nodes from one on as long as each leads to one other, or to leaves, which needs no counting.

        What comes back is the first node that does not, with the gradient of its output; None if all have run.
        """
        while not node.watched:
            edges = node.edges
            live = edges if len(edges) == 1 and edges[0] is not None else [e for e in edges if e is not None]
            if len(live) != 1:
                leaves = {id(target) for target, at in live if at < 0 and _is_plain_leaf(target)}
                if not live or len(leaves) != len(live):
                    break
            elif live[0][1] < 0 and not _is_plain_leaf(live[0][0]):
                break
            if len(node.outputs) == 1:
                grads = list(node.apply(grad))
            else:
                given = [None] * max(len(node.outputs), nr + 1)
                given[nr] = grad
                grads = list(node.apply(*given))
                del given
            if not self.keep_graph and node.versions:
                node.release()
            for at, edge in enumerate(edges):
                if edge is None:
                    continue
                target, nr = edge
                grad = grads[at]
                grads[at] = None  # so that nothing but `grad` keeps a gradient that a leaf may take over
                if grad is not None:
                    if not _fits(grad, target, nr):
                        grad = fitted(grad, edge, node, {})
                    if nr < 0:
                        accumulate(target, grad)
                        if target._arrival is not None:
                            target._arrival()
            if nr < 0:
                return None
            node = target
        return node, nr, grad

    def run_from(self, starts: Sequence[tuple[tuple, Any]]) -> None:
        """Runs all that the given edges lead to, from the gradients given with them."""
        self.count_dependencies([edge for edge, _ in starts])
        for (target, nr), grad in starts:
            self.give(target, nr, grad)
        started: set[int] = set()
        for (target, nr), _ in starts:
            if id(target) not in started and id(target) not in self.pending:
                started.add(id(target))
                self.push(target, nr)
        self.run()

    def run(self) -> None:
        """Runs what is ready until nothing is; the usual cases without a look at hooks and captures."""
        heap, buffers, pending, needed = self.heap, self.buffers, self.pending, self.needed
        keep_graph, hooked, take = self.keep_graph, self.hooked, heap_take if self.hooked else heappop
        awaited, pushed = self.awaited, self.pushed
        plain, at_once = self.is_plain(), self.is_plain() and self.accumulate_grad and not hooked
        while heap:
            _, _, source, nr = heap.pop() if len(heap) == 1 else take(heap)
            if nr < 0:
                self.run_leaf(source, buffers.pop(id(source)))
                continue
            edges = source.edges
            if plain and not source.watched:
                result = source.apply(*buffers.pop(id(source)))
                if not keep_graph and source.versions:
                    source.release()
            else:
                result = self.run_node(source, buffers.pop(id(source)))
                if result is None:
                    continue
            grads = list(result)
            del result  # so that nothing but `grad` keeps a gradient that a leaf may take over
            grads.reverse()
            for edge in edges:
                grad = grads.pop()
                if edge is None:
                    continue
                target, nr = edge
                key = id(target)
                left = pending[key] = pending[key] - 1
                if needed is not None and key not in needed:
                    continue
                if nr < 0:
                    like = target._array
                    if grad is not None and (grad._array.dtype is not like.dtype or grad._array.shape != like.shape):
                        grad = fitted(grad, edge, source, self.captures)
                    if key in buffers:
                        self.give(target, nr, grad)
                    elif at_once and not left and grad is not None and target._edge is None:
                        accumulate(target, grad)
                        if awaited and target._arrival is not None:
                            target._arrival()
                        continue
                    else:
                        buffers[key] = [grad]
                    if not left:
                        if at_once:
                            grad = None
                            self.run_leaf(target, buffers.pop(key))
                        else:
                            self.push(target, nr)
                    continue
                if grad is not None and not _fits(grad, target, nr):
                    grad = fitted(grad, edge, source, self.captures)
                if key not in buffers and len(target.outputs) == 1:
                    buffers[key] = [grad]
                else:
                    self.give(target, nr, grad)
                if not left:
                    if hooked:
                        self.push(target, nr)
                    else:
                        pushed += 1
                        heappush(heap, (-target.seq, pushed, target, nr))
            grad = None

    def run_node(self, node: Node, grads: list) -> Any:
        """The node's gradients for its edges; None if it only had to be reached."""
        goes_on = self.needed is None or any(e is not None and id(e[0]) in self.needed for e in node.edges)
        if self.accumulate_grad and id(node) in self.wanted:  # `backward(inputs=...)` runs what made its inputs
            goes_on = True
        if goes_on:  # then PyTorch captures what came, before hooks change it
            self.take_captured(node, grads)
        if node.tensor_hooks is not None:
            for nr, hooks in list(node.tensor_hooks.items()):
                grads[nr] = run_tensor_hooks(hooks, grads[nr])
        if node.retained is not None:
            for nr, ref in node.retained.items():
                tensor = ref()
                if tensor is not None and grads[nr] is not None:
                    retain(tensor, grads[nr])
        if not goes_on:
            self.take_captured(node, grads)
            return None
        if node.pre_hooks:
            for hook in list(node.pre_hooks.values()):
                replaced = hook(tuple(grads))
                if replaced is not None:
                    grads = _checked_tuple(hook, grads, replaced)
        try:
            result: Sequence = node.apply(*grads)
            if modes.__dict__.get("anomaly_nan"):
                _check_nan(node, result)
        except Exception:
            if node.traceback:
                import warnings

                warnings.warn(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
                              f"{node.traceback}", stacklevel=2)
            raise
        if node.post_hooks:
            for hook in list(node.post_hooks.values()):
                replaced = hook(tuple(result), tuple(grads))
                if replaced is not None:
                    result = _checked_tuple(hook, result, replaced)
        if not self.keep_graph:
            node.release()
        return result

    def take_captured(self, node: Node, grads: list) -> None:
        """Keeps the gradients of a node's outputs that were asked for."""
        if self.captures:
            for nr, grad in enumerate(grads):
                at = self.captures.get((id(node), nr))
                if at is not None:
                    self.captured[at] = grad

    def run_leaf(self, leaf: Any, buffer: list) -> None:
        grad = buffer.pop()
        if leaf._hooks:
            grad = run_tensor_hooks(leaf._hooks, grad)
        at = self.captures.get((id(leaf), -1))
        if at is not None and not self.accumulate_grad:
            self.captured[at] = grad
        if not self.accumulate_grad or (self.needed is not None and at is None):
            return
        node = leaf._accumulator() if leaf._accumulator is not None else None
        if node is not None and node.pre_hooks:
            grad = _after_pre_hooks(node.pre_hooks, grad)
        if leaf._edge is not None:
            raise RuntimeError("leaf variable has been moved into the graph interior")
        if grad is not None and leaf._keys & REQUIRES_GRAD:
            accumulate(leaf, grad)
        if leaf._post_accumulate_hooks:
            for hook in list(leaf._post_accumulate_hooks.values()):
                if hook(leaf) is not None:
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        if node is not None and node.post_hooks:
            for hook in list(node.post_hooks.values()):
                hook((), (grad,))
        if leaf._arrival is not None:
            leaf._arrival()


def _after_pre_hooks(hooks: dict[int, Any], grad: Any) -> Any:
    """What the hooks before a leaf make of its gradient; nothing here holds it on, so that it can be taken itself."""
    for hook in list(hooks.values()):
        replaced = hook((grad,))
        if replaced is not None:
            (grad,) = _checked_tuple(hook, (grad,), replaced)
    return grad


def _is_plain_leaf(leaf: Any) -> bool:
    """Whether nobody sees when a leaf that takes gradients gets one, before or after others."""
    return (not leaf._hooks and leaf._accumulator is None and leaf._post_accumulate_hooks is None
            and leaf._edge is None and leaf._keys & REQUIRES_GRAD != 0
            and (leaf._arrival is None or not leaf._arrival_is_ordered))


def _fits(grad: Any, target: Any, nr: int) -> bool:
    """Whether a gradient has the shape and type of what it is the gradient of."""
    array = grad._array
    if nr < 0:
        like = target._array
        return array.dtype is like.dtype and array.shape == like.shape
    if nr >= len(target.outputs):
        return False
    shape, kind, _ = target.outputs[nr]
    return array.dtype is kind and array.shape == shape


def heap_put(heap: list[tuple], item: tuple) -> None:
    """Puts a target where C++'s `push_heap` does: it decides the order of leaves, which all rank the same."""
    place = len(heap)
    heap.append(item)
    _sift_up(heap, place, item)


def _sift_up(heap: list[tuple], place: int, item: tuple) -> None:
    while place and item[0] < heap[(place - 1) // 2][0]:
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = item


def heap_take(heap: list[tuple]) -> tuple:
    """The first target of the heap, taken as C++'s `pop_heap` does: the hole sinks to a leaf, then the last rises."""
    first, last = heap[0], heap.pop()
    place, count = 0, len(heap)
    while (child := 2 * place + 2) <= count:
        if child == count or heap[child][0] > heap[child - 1][0]:
            child -= 1
        heap[place] = heap[child]
        place = child
    _sift_up(heap, place, last)
    return first


def fitted(grad: Any, edge: tuple, source: Node, captures: dict) -> Any:
    """A gradient in the shape and type of what it is the gradient of: broadcasting undone, cast back.

    With `captures`, somebody may look at it, and sees the view that PyTorch makes of a sum over added dimensions.
    """
    target, nr = edge
    if nr < 0:
        shape, kind = target._array.shape, target._array.dtype
    elif nr < len(target.outputs):
        shape, kind, _ = target.outputs[nr]
    else:
        return grad
    array = grad._array
    if array.shape != shape:
        if not _expandable(shape, array.shape):
            raise RuntimeError(f"Function {source.name()} returned an invalid gradient at index "
                               f"{source.edges.index(edge)} - got {list(array.shape)} but expected shape compatible "
                               f"with {list(shape)}")
        added = array.ndim - len(shape)
        total = summed_to(array, shape) if grad._keys == CPU_MASK and not (captures or modes.masks[0]) else None
        if total is not None:
            grad = wrap(total)
        elif not captures and array.shape[added:] == shape:
            grad = grad.sum(tuple(range(added)))
        else:
            grad = grad.sum_to_size(shape)
    if array.dtype is not kind:
        wanted = OF_ARRAY[kind]
        if grad.dtype.category == COMPLEX > wanted.category:
            grad = grad.real
        grad = grad.to(wanted)
    return grad


def _fitted_root(grad: Any, shape: tuple, i: int) -> Any:
    """A gradient to start from in the shape of its root, which may have been resized since it was made."""
    if not _expandable(shape, grad._array.shape):
        raise RuntimeError(f"invalid gradient at index {i} - got {list(grad.shape)} but expected shape compatible with "
                           f"{list(shape)}")
    return grad.sum_to_size(shape)


def _expandable(shape: tuple, target: tuple) -> bool:
    if len(shape) > len(target):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(target), strict=False))


def run_tensor_hooks(hooks: HookDict, grad: Any) -> Any:
    """The gradient that hooks make of one; None comes to them too, for an output that got no gradient."""
    for hook in list(hooks.values()):
        replaced = hook(grad)
        if replaced is not None:
            _check_replaced(hook, grad, replaced)
            grad = replaced
    return grad


def _name_of(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def _check_replaced(hook: Any, old: Any, new: Any) -> None:
    """Raises unless what a hook returned can stand for the gradient it was given."""
    if not hasattr(new, "_keys"):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if new.dtype is not old.dtype:
        raise RuntimeError(f"hook '{_name_of(hook)}' has changed the type of value (was {old.type()} got {new.type()})")
    if new._array.shape != old._array.shape:
        raise RuntimeError(f"hook '{_name_of(hook)}' has changed the size of value")


def _checked_tuple(hook: Any, given: Sequence, returned: Any) -> list:
    """What a node's hook returned, as gradients in place of those it was given."""
    if not isinstance(returned, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(returned).__name__}'")
    if len(returned) != len(given):
        raise RuntimeError(f"hook '{_name_of(hook)}' has returned an incorrect number of values (got {len(returned)}, "
                           f"but expected {len(given)})")
    for old, new in zip(given, returned, strict=True):
        if new is not None:
            _check_replaced(hook, old, new)
    return list(returned)


def retain(tensor: Any, grad: Any) -> None:
    """Puts a gradient into the `.grad` of a tensor that asked to retain it."""
    tensor._grad = grad.clone() if tensor._grad is None else tensor._grad + grad


def accumulate(leaf: Any, grad: Any) -> None:
    """Adds into `leaf.grad`; takes the gradient itself where nobody else can see it, else a copy.

    Threads whose passes come to one leaf do so one after another, or the gradients of one would be lost.
    """
    with _accumulating:
        old = leaf._grad
        if (leaf._keys | grad._keys | (0 if old is None else old._keys)) & _NO_PLAIN_MEMORY:
            if grad._keys & TORCH_DISPATCH_MASK and old is None:
                alone = not modes.grad_enabled and sys.getrefcount(grad) <= OWN_REFERENCES
                leaf._grad = grad.detach() if alone and grad.stride() == leaf.stride() else grad.clone()
            else:
                leaf._grad = _sparse_sum(old, grad)
        elif old is None:
            if modes.grad_enabled:
                leaf._grad = _copy_like(grad, leaf)
            elif is_ours(grad, leaf._array):
                leaf._grad = grad
            elif (whole := shown_whole(grad, leaf._array)) is not None:
                leaf._grad = whole
            else:
                # Of a gradient that nobody else holds, the version is as if it was taken itself, which PyTorch does.
                alone = sys.getrefcount(grad) < OWN_REFERENCES and not grad._keys & INFERENCE_MASK
                copy = contiguous_copy(grad, leaf)
                if copy is not None:
                    alone = alone and grad._array.strides == leaf._array.strides
                else:
                    copy, alone = _copy_like(grad.detach(), leaf), alone and _lies_as(grad, leaf)
                leaf._grad = copy
                if alone:
                    copy._counter = None if grad._counter is None else VersionCounter(grad._counter.value)
        else:
            if modes.grad_enabled:
                leaf._grad = old + grad
            else:
                old.add_(grad)
            if old._array.strides != leaf._array.strides:
                _warn_of_layout(leaf._grad, leaf)


def _warn_of_layout(grad: Any, leaf: Any) -> None:
    """Warns if a gradient that another was added to does not lie as its leaf."""
    if not is_dense(leaf._array):
        obeys = grad.is_contiguous()
    else:
        wanted = dict(enumerate(leaf.stride()))
        obeys = all(step == wanted.get(dim) if n != 1 else step
                    for dim, (n, step) in enumerate(zip(grad.shape, grad.stride(), strict=True)))
    if not obeys:
        warn_once("grad and param do not obey the gradient layout contract. This is not an error, but may impair "
                  f"performance.\ngrad.sizes() = {list(grad.shape)}, strides() = {list(grad.stride())}\n"
                  f"param.sizes() = {list(leaf.shape)}, strides() = {list(leaf.stride())}", 4,
                  subject="gradient layout")


def _added(old: Any, grad: Any) -> Any:
    """The sum of two gradients; if one is dense, it comes first, and so is the sum."""
    return grad + old if old._keys & SPARSE_MASK else old + grad


def _sparse_sum(old: Any, grad: Any) -> Any:
    """What `.grad` becomes if it, or what is added, is sparse: itself unless it has to become dense."""
    if old is None:
        return grad.clone() if modes.grad_enabled else grad.detach().clone()
    if modes.grad_enabled or old._keys & SPARSE_MASK and not grad._keys & SPARSE_MASK:
        return _added(old, grad)
    return old.add_(grad)


def _lies_as(grad: Any, leaf: Any) -> bool:
    """Whether a gradient has the leaf's strides, or is contiguous where the leaf's are not dense."""
    return grad.is_contiguous() if leaf._empty_like_layout() is None else grad.stride() == leaf.stride()


def _copy_like(grad: Any, leaf: Any) -> Any:
    """A copy with the leaf's strides where they are dense, contiguous otherwise."""
    copy = leaf._empty_like_layout()
    if copy is None:
        return grad.clone(memory_format=contiguous_format)
    if copy.dtype is not grad.dtype:
        return grad.clone()
    copy.copy_(grad)
    return copy


def _check_nan(node: Node, grads: Sequence) -> None:
    for i, grad in enumerate(grads):
        if grad is None or grad._keys & BACKEND_MASK != 1:
            continue
        unequal = grad != grad
        if bool(getattr(unequal, "_is_any_true", unequal.any)()):  # the name by which wrappers are asked
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


def edge_for(tensor: Any) -> tuple | None:
    """Where a tensor's gradient goes: its node, itself if it is a leaf that needs grad, or nowhere."""
    if isinstance(tensor, tuple):  # a GradientEdge
        node = tensor[0]
        return (node.variable, -1) if isinstance(node, AccumulateGrad) else tuple(tensor)
    if not hasattr(tensor, "_recording_edge"):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}")
    return tensor._recording_edge() if tensor.requires_grad else None


def run_backward(tensors: Sequence[Any], grads: Sequence[Any], keep_graph: bool, create_graph: bool,
                 inputs: Sequence[Any] = (), allow_unused: bool = True, accumulate_grad: bool = True) -> tuple:
    """Backpropagates `grads` from `tensors`; gradients of `inputs` are returned, or accumulated if so asked."""
    roots = []
    for i, tensor in enumerate(tensors):
        edge = edge_for(tensor)
        if edge is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        roots.append(edge)
    task = Task(keep_graph, accumulate_grad)
    if inputs:
        task.capture(inputs, roots)
    if accumulate_grad:
        accumulations[0] += 1
    if create_graph and accumulate_grad:
        warn_once("Using backward() with create_graph=True will create a reference cycle between the parameter and its "
                  "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
                  "avoid this. If you have to use this function, make sure to reset the .grad fields of your "
                  "parameters to None after use to break the cycle and avoid the leak.")  # fmt: skip
    state = modes.__dict__
    previous, include = state["grad_enabled"], state["include"]
    outer, recorder = state.get("backward_pass"), state.get("recorder")
    try:  # before anything is changed, as an interrupt may come at any time
        state["backward_pass"] = task
        if previous is not create_graph:
            modes.switch_grad(create_graph)
        elif state["masks"] is UNRECORDED_PIPELINE_MASKS:
            modes.update()
        if recorder is not None:
            recorder.watch(task)
        starts: list[tuple[tuple, Any]] = []
        for edge, grad in zip(roots, grads, strict=True):
            target, nr = edge
            if nr >= 0 and grad is not None and nr < len(target.outputs):
                shape = target.outputs[nr][0]
                if grad._array.shape != shape:
                    grad = _fitted_root(grad, shape, len(starts))
            starts.append((edge, grad))
        if len(starts) == 1 and nr >= 0 and accumulate_grad and task.is_plain():
            left = task.run_straight(target, nr, grad)
            starts = [] if left is None else [(left[:2], left[2])]
        if starts:
            task.run_from(starts)
        for callback in task.callbacks:  # one may queue another
            callback()
    except MemoryError as error:
        raise out_of_memory(error) from None
    finally:
        state["backward_pass"] = outer
        if state["include"] != include:
            modes.update(grad_enabled=previous, include=include)
        elif state["grad_enabled"] is not previous:
            modes.switch_grad(previous)
        elif state["masks"] is BACKWARD_PIPELINE_MASKS:
            modes.update()
    if accumulate_grad:
        return ()
    return _collected(task, inputs, allow_unused)


def queue_callback(callback: Any) -> None:
    """Has a function called when this thread's backward pass is done."""
    task = modes.__dict__.get("backward_pass")
    if task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    task.callbacks.append(callback)


def _collected(task: Task, inputs: Sequence[Any], allow_unused: bool) -> tuple:
    results = []
    for i, tensor in enumerate(inputs):
        target, nr = edge_for(tensor) or (tensor, -1)
        at = task.captures.get((id(target), nr))
        grad = None if at is None else task.captured[at]
        if grad is None and not allow_unused:
            raise RuntimeError(f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                               "Set allow_unused=True if this is the desired behavior.")
        results.append(grad)
    return tuple(results)
