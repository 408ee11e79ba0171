"""Views and in-place writes: whose memory a tensor shows, and how history follows a write."""

import weakref
from collections.abc import Callable
from typing import Any

from .._dispatch.callers import call_bound
from .._dispatch.keys import (
    DUAL_MASK,
    FUNC_MASK,
    INFERENCE_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    TORCH_DISPATCH_MASK,
    VIEW_MASK,
    WITH_GRAD,
    DispatchKey,
    changed_modes,
    modes,
)
from .._dispatch.registry import Around, Operator, registry
from .derive import make_node_class
from .node import FREED, Node, function_name, in_autograd

# How a view came to be; what is not DEFAULT forbids a recorded in-place write.
DEFAULT, NO_GRAD, INFERENCE, MULTI_OUTPUT, CUSTOM_FUNCTION = range(5)
_WITHOUT_STRIDES = DUAL_MASK | FUNC_MASK | SPARSE_MASK | TORCH_DISPATCH_MASK

WRITE_TO_INFERENCE = ("Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to "
                      "get a normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for "
                      "more details.")
_BOTH_SIDES = ("Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
               "moving both the view and the inplace either both inside the {block} block (if you don't want the "
               "inplace to be tracked) or both outside (if you want the inplace to be tracked).")


def creation_now(source: Any, several: bool = False) -> int:
    """How a view of `source`, or one of several, is made now; INFERENCE stays with all views of a view."""
    if modes.grad_enabled:
        made = MULTI_OUTPUT if several else DEFAULT
    else:
        made = INFERENCE if modes.inference else NO_GRAD
    before = source._creation
    return before if not made or before == INFERENCE else made


def replay(steps: tuple, base: Any) -> Any:
    """The view that `steps` (operator, arguments, output number or None) make of `base`."""
    for operator, args, nr in steps:
        base = call_bound(operator, (base, *args))
        if nr is not None:
            base = base[nr]
    return base


def edge_of_view(view: Any) -> tuple | None:
    """The view's edge, made anew from its base if the memory was written since the view knew it."""
    version = 0 if view._counter is None else view._counter.value
    if view._edge_version == version:
        return view._edge
    base = view._base
    if view._edge is None and not base.requires_grad:
        return None
    if view._creation:
        raise RuntimeError(_forbidden(view, "its base or another view of its base has been"))
    if _is_geometry(base, view):
        edge = _strided_edge(base, view)
    else:
        steps = steps_to(view)
        with changed_modes(grad_enabled=True, exclude=0, inference=False, include=modes.include & ~INFERENCE_MASK):
            edge = replay(steps, base._with_edge(base._edge or (base, -1)))._edge
    if view._retains_grad and edge is not None and edge[1] >= 0:
        move_retained(view, *edge)
    view._edge, view._edge_version = edge, version
    if edge is not None and edge[1] >= 0:
        edge[0].replayed = True
        view._keys = (view._keys & ~VIEW_MASK) | _grad_keys(view)
    return view._edge


def _is_geometry(base: Any, view: Any) -> bool:
    """Whether a view shows elements of its base as they are, wherever they lie; a part of a complex one is none."""
    return view._array.dtype == base._array.dtype and not (base._keys | view._keys) & _WITHOUT_STRIDES


def _strided_edge(base: Any, view: Any) -> tuple:
    """The edge of a view by its absolute geometry, which need not lie within what the base shows by now."""
    operator = registry.get("aten::_as_strided")
    declaration: Any = operator.declaration
    if declaration.node_class is None:
        declaration.node_class = make_node_class(operator, declaration.derivative)
    node = declaration.node_class()
    node.edges = (base._edge or (base, -1),)
    known = {"self_shape": tuple(base.shape), "size": tuple(view.shape), "stride": view.stride(),
             "storage_offset": view.storage_offset(), "self_stride": base.stride(),
             "self_offset": base.storage_offset()}
    node.saved = tuple(known[name] for name in declaration.derivative.saved)
    node.versions = (None,) * len(node.saved)
    node.outputs = ((tuple(view.shape), view._array.dtype, view._device),)
    return node, 0


def recording_edge(view: Any) -> tuple | None:
    """Where a view's gradient goes: nowhere if it needs grad only because its base does, and was made under no_grad."""
    return edge_of_view(view) or ((view, -1) if view._asked_for_grad else None)


def steps_to(view: Any) -> tuple:
    """The steps from the base to a view; by absolute geometry if the base's own was changed in place."""
    if not view._base._restrided:
        return view._view_meta
    return ((registry.get("aten::as_strided"), (tuple(view.shape), view.stride(), view.storage_offset()), None),)


def _forbidden(tensor: Any, what: str) -> str:
    """Why a recorded write may not reach a view that was made in this way; `what` is being modified."""
    creation = tensor._creation
    edge = tensor._edge
    mode, suffix = ("inference", " in normal mode") if creation == INFERENCE else ("no_grad", " with grad mode enabled")
    source = f"A view was created in {mode} mode"
    if edge is not None:
        source = f"Output {edge[1]} of {function_name(edge[0])} is a view"
        if creation in (NO_GRAD, INFERENCE):
            source += f" of a view which was created in {mode} mode"
        else:
            suffix = ""
    if creation == NO_GRAD:
        return f"{source} and {what} modified inplace{suffix}. {_BOTH_SIDES.format(block='no_grad')}"
    if creation == INFERENCE:
        return f"{source} and {what} modified inplace{suffix}. {_BOTH_SIDES.format(block='inference_mode')}"
    if creation == MULTI_OUTPUT:
        return (f"{source} and {what} modified inplace{suffix}. This view is the output of a function that returns "
                "multiple views. Such functions do not allow the output views to be modified inplace. You should "
                "replace the inplace operation by an out-of-place one.")
    return (f"{source} and {what} modified inplace{suffix}. This view was created inside a custom Function (or because "
            "an input was returned as-is) and the autograd logic to handle view+inplace would override the custom "
            "backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. "
            "You can fix this by cloning the output of the custom Function.")


def refuse_several_outputs() -> None:
    raise RuntimeError("If your Function modifies inplace an input that is a view of another Tensor, your Function "
                       "cannot return more than one Tensor. This is not supported by the current autograd engine. You "
                       "should either make sure the input is not a view (using .clone() for example) or make your "
                       "Function only return one Tensor (potentially splitting it into two Functions: one doing the "
                       "inplace that returns a single Tensor and a second one that does the other operations). You can "
                       "ask on the forum https://discuss.pytorch.org/ if you need help to do this change.")


def check_inplace(tensor: Any) -> None:
    """Raises if a recorded write to `tensor` cannot be tracked."""
    if tensor._base is not None:
        if tensor._creation:
            raise RuntimeError(_forbidden(tensor, "is being"))
        base = tensor._base
        if (base._keys | tensor._keys) & REQUIRES_GRAD and base._edge is None:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if tensor._keys & REQUIRES_GRAD and tensor._current_edge() is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


class CopySlices(Node):
    """A write through a view, seen from the base: the slice's gradient goes through the writing node."""

    versions = (True,)  # the writing node counts as saved
    shown = staticmethod(in_autograd)
    writer: Node | None

    def __init__(self, base: Any, view: Any, writer: Node) -> None:
        super().__init__()
        base_edge = (base._edge or (base, -1)) if base._keys & REQUIRES_GRAD else None
        self.steps, self.writer = steps_to(view), writer
        self.strides = base.stride() if base._restrided else None
        self.offset = base.storage_offset()
        self.edges = (base_edge, *writer.edges[1:])
        writer.edges = self.edges
        self.outputs = ((base._array.shape, base._array.dtype, base._device),)

    def apply(self, *grads: Any) -> tuple:
        grad = grads[0]
        if self.writer is None:
            raise RuntimeError(FREED)
        if grad is None:
            return (None,) * len(self.edges)
        if self.strides is None:
            result = grad.new_empty(grad.shape).copy_(grad)
            part = replay(self.steps, result)
        else:  # memory that lies as the base's does, so that the view's strides hold in it
            result = grad.new_empty_strided(grad.shape, self.strides).copy_(grad)
            (operator, (size, stride, offset), _), = self.steps
            part = call_bound(operator, (result, size, stride, offset - self.offset))
        inner = list(self.writer.apply(part.clone()))
        if self.edges[0] is not None:
            if inner[0] is None:
                part.zero_()
            else:
                part.copy_(inner[0])
            inner[0] = result
        return tuple(inner)

    def keeps_tensors(self) -> bool:
        return self.writer is not None

    def release(self) -> None:
        if self.writer is not None:
            self.writer.release()
            self.writer = None


def rebase(tensor: Any, node: Node) -> None:
    """Makes `node` the history of a tensor that was written in place, and of its base."""
    base = tensor._base
    if base is None:
        move_retained(tensor, node)
        tensor._edge = (node, 0)
        tensor._keys |= _grad_keys(tensor)
        return
    base_node = CopySlices(base, tensor, node)
    move_retained(base, base_node)
    base._edge = (base_node, 0)
    base._keys = (base._keys & ~VIEW_MASK) | _grad_keys(base)
    tensor._keys = (tensor._keys & ~VIEW_MASK) | _grad_keys(tensor)
    tensor._edge_version = -1  # somebody may have asked for the edge after the write and before this
    edge = edge_of_view(tensor)
    if edge is not None and edge[0].edges == ((base_node, 0),):  # its history is the base's, not the writer alone
        node.written_view = _edge_again(edge[0], weakref.ref(base_node))


def _edge_again(node: Node, base_node: "weakref.ref[CopySlices]") -> Callable[[], tuple]:
    """A function that makes an edge like that of a written view; it keeps nothing that the writer's node is held by."""
    kind, saved, versions, outputs = type(node), node.saved, node.versions, node.outputs

    def edge() -> tuple:
        made = kind()
        made.edges, made.saved, made.versions, made.outputs = ((base_node(), 0),), saved, versions, outputs
        made.replayed = True
        return made, 0

    return edge


def move_retained(tensor: Any, node: Node, nr: int = 0) -> None:
    """A tensor that retains its grad goes on doing so under its new history."""
    old = tensor._edge
    if old is not None and old[1] >= 0 and old[0].retained and old[1] in old[0].retained:
        node.retained, node.watched = {nr: old[0].retained.pop(old[1])}, True


def _grad_keys(tensor: Any) -> int:
    return WITH_GRAD[tensor._backend_mask()]


WAKING = REQUIRES_GRAD | DUAL_MASK  # a base that has one of these keys may wake its views


def wake(tensor: Any) -> bool:
    """Turns a plain view into one that needs grad, or is dual, if its base is so by now; whether it did."""
    base = tensor._base
    if tensor._keys & VIEW_MASK and base._keys & DUAL_MASK and tensor._tangent is None and base._tangent[0].alive:
        level, tangent = base._tangent
        tensor._tangent, tensor._keys = (level, replay(steps_to(tensor), tangent)), tensor._keys | DUAL_MASK
        return True
    if tensor._keys & VIEW_MASK and tensor._base._keys & REQUIRES_GRAD and modes.grad_enabled:
        tensor._keys = (tensor._keys & ~VIEW_MASK) | _grad_keys(tensor)
        return True
    return False


def _view_kernel(operator: Operator, below: Callable, mask: int) -> Callable:
    arguments = operator.schema.arguments
    if sum(a.is_tensor for a in arguments) == 1 and not arguments[0].is_list and arguments[0].type == "Tensor":

        def kernel_of_one(tensor: Any, *args: Any) -> Any:
            if tensor._base._keys & WAKING and wake(tensor):
                return call_bound(operator, (tensor, *args))
            return below(tensor, *args)

        return kernel_of_one

    def kernel(*args: Any) -> Any:
        woken = False
        for arg in args:
            for tensor in arg if arg.__class__ in (tuple, list) else (arg,):
                if getattr(tensor, "_keys", 0) & VIEW_MASK and tensor._base._keys & WAKING:
                    woken |= wake(tensor)
        return call_bound(operator, args) if woken else below(*args)

    return kernel


def _copied_as_it_lies(tensor: Any) -> Any:
    """The tensor on a copy of its whole storage."""
    storage = tensor.untyped_storage().clone()
    return tensor.new_empty(0).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def _inference_kernel(operator: Operator, below: Callable, mask: int) -> Callable:
    writes = [i for i, a in enumerate(operator.schema.arguments) if a.writes]

    def kernel(*args: Any) -> Any:
        for i in () if modes.inference else writes:
            if args[i].__class__ in (tuple, list):
                if any(tensor._keys & INFERENCE_MASK for tensor in args[i]):
                    raise RuntimeError(WRITE_TO_INFERENCE)
            elif args[i]._keys & INFERENCE_MASK:
                copy = _copied_as_it_lies(args[i])
                below(*[copy if arg is args[i] else arg for arg in args])  # what else is wrong is said first
                raise RuntimeError(WRITE_TO_INFERENCE)
        result = below(*args)
        if modes.inference and not writes:
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if hasattr(tensor, "_keys") and tensor._base is None and not any(tensor is a for a in args):
                    tensor._keys |= INFERENCE_MASK
        return result

    return kernel


registry.register_for_all(DispatchKey.ADInplaceOrView, Around(_view_kernel))
registry.register_for_all(DispatchKey.Inference, Around(_inference_kernel))
