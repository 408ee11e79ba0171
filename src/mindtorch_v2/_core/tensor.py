"""The Tensor: a strided array of some backend, its place in the recorded graph, and what Python sees of it.

Methods that compute are attached from the operator table by `_ops.public`; the fields and the geometry are those of
`tensor_base.py`.
"""

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._autograd.node import HookDict, RemovableHandle, VersionCounter
from .._autograd.views import MULTI_OUTPUT, creation_now, edge_of_view, recording_edge, replay, steps_to
from .._backends.meta import MetaArray
from .._dispatch.argument_checks import expected
from .._dispatch.callers import call_bound, call_torch_function, calls_pytorch, mixed_libraries
from .._dispatch.keys import (
    AUTOGRAD_MASK,
    BACKEND_MASK,
    CPU_MASK,
    CUDA_MASK,
    FUNC_MASK,
    INFERENCE_MASK,
    MARKED_MASK,
    META_MASK,
    NPU_MASK,
    PYTHON_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    SUBCLASS_MASK,
    TORCH_DISPATCH_MASK,
    VIEW_MASK,
    WITH_GRAD,
    changed_modes,
    modes,
    unusual,
)
from .._dispatch.levels import LevelArray
from .._dispatch.registry import Operator, registry
from .deferred import Deferred
from .device import CPU, META
from .dtype import CPP_NAMES, FLOAT, OF_ARRAY, WIDER, cast
from .geometry import is_dense
from .storage import UntypedStorage, follow_storage
from .tensor_base import FIELDS, TensorBase, UserAttributes, fields_of, own_memory
from .warn import warn_once

_new = object.__new__
_BEYOND_CPU = ~(CPU_MASK | VIEW_MASK)
_OUTSIDE_GRAPHS = BACKEND_MASK | INFERENCE_MASK | MARKED_MASK  # keys that a tensor keeps when it leaves its graph
_MARKS = {"conj": "conjugate", "neg": "negative"}


class Tensor(TensorBase):
    """A multi-dimensional array of one element type that remembers how it was computed."""

    # Comparing is attached later, and a class with __eq__ loses its hash unless told.
    __hash__ = object.__hash__

    def __new__(cls, *args: Any, **kwargs: Any) -> "Tensor":
        """The legacy constructor: a size, or data, in the default type."""
        return legacy_constructor[0](cls, *args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dispatches = cls.__torch_dispatch__ is not _disabled_torch_dispatch_impl
        if dispatches and getattr(cls.__torch_function__, "__func__", None) is _DEFAULT_TORCH_FUNCTION:
            cls.__torch_function__ = staticmethod(_disabled_torch_function_impl)  # type: ignore[assignment, method-assign]
        cls._keys = Tensor._keys | (TORCH_DISPATCH_MASK if dispatches else 0)
        if cls.__torch_function__ is not _disabled_torch_function_impl:
            cls._keys |= PYTHON_MASK

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Runs `func` below the subclass and gives its results the subclass's type."""
        if cls is Tensor and calls_pytorch(func):
            raise TypeError(mixed_libraries(func))
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with changed_modes(exclude=modes.exclude | PYTHON_MASK):
            result = func(*args, **(kwargs or {}))
        return _as_subclass_everywhere(result, cls)

    @staticmethod
    def __torch_dispatch__(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Runs `func` below every subclass: what a class without a handler of its own does."""
        with changed_modes(exclude=modes.exclude | TORCH_DISPATCH_MASK):
            return func(*args, **(kwargs or {}))

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return UserAttributes(fields_of(self))

    @__dict__.setter
    def __dict__(self, attributes: dict[str, Any]) -> None:
        own = UserAttributes(fields_of(self))
        for name in list(own):
            del own[name]
        own.update(attributes)

    # graph -----------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        if self._keys & REQUIRES_GRAD:
            return True
        if self._base is not None:
            return bool(self._base._keys & REQUIRES_GRAD)
        return self._asked_for_grad and bool(self._keys & INFERENCE_MASK)

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted.__class__ is not bool:
            raise RuntimeError("requires_grad must be a bool")
        if wanted and self._edge is not None:
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        if wanted and OF_ARRAY[self._array.dtype].category < FLOAT:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """This tensor, which from now on needs a gradient or does not."""
        if requires_grad.__class__ is not bool:
            raise TypeError(expected("requires_grad_", "requires_grad", "bool", requires_grad, 1))
        if self._edge is not None and not requires_grad:
            raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a "
                               "computed variable in a subgraph that doesn't require differentiation use var_no_grad = "
                               "var.detach().")
        if requires_grad and OF_ARRAY[self._array.dtype].category < FLOAT:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if requires_grad and self._keys & INFERENCE_MASK and not modes.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if modes.__dict__.get("levels"):
            raise RuntimeError("You are attempting to call Tensor.requires_grad_() (or perhaps using "
                               "torch.autograd.functional.* APIs) inside of a function being transformed by a "
                               "functorch transform. This is unsupported, please attempt to use the functorch "
                               "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() "
                               "outside of a function being transformed instead.")
        return self._track(requires_grad)

    def _track(self, requires_grad: bool = True) -> "Tensor":
        """Makes this a leaf that needs grad, or none."""
        self._asked_for_grad = requires_grad
        if requires_grad and not self._keys & INFERENCE_MASK:  # what is made of an inference tensor is not recorded
            self._keys = (self._keys & ~VIEW_MASK) | WITH_GRAD[self._backend_mask()]
        else:
            self._keys &= ~AUTOGRAD_MASK
        return self

    def _current_edge(self) -> tuple | None:
        return self._edge if self._base is None else edge_of_view(self)

    def _recording_edge(self) -> tuple | None:
        return (self._edge or (self, -1)) if self._base is None else recording_edge(self)

    @property
    def grad_fn(self) -> Any:
        edge = self._current_edge()
        return None if edge is None or edge[1] < 0 else edge[0]

    @property
    def is_leaf(self) -> bool:
        edge = self._current_edge()
        return edge is None or edge[1] < 0  # the second: a saved leaf that went through hooks

    @property
    def output_nr(self) -> int:
        edge = self._edge
        return max(edge[1], 0) if edge else 0

    def _is_view(self) -> bool:
        return self._base is not None

    def _view_func(self, new_base: "Tensor", *functions: Any) -> "Tensor":
        """The same view of another base."""
        return replay(steps_to(self), new_base)

    _view_func_unsafe = _view_func

    def _rev_view_func_unsafe(self, new_view: "Tensor") -> "Tensor":
        """What a view's base is, seen from a tensor on the same memory as the view."""
        base: Any = self._base
        return new_view.as_strided(tuple(base.shape), base.stride(), base.storage_offset())  # type: ignore[attr-defined]

    def is_inference(self) -> bool:
        """Whether it was made in inference mode."""
        return bool(self._keys & INFERENCE_MASK)

    def _detached(self) -> "Tensor":
        """The same memory and version, outside the graph."""
        keys = self._keys
        if keys & TORCH_DISPATCH_MASK:
            return self._shallow_copy()
        made = _new(Tensor)
        if self._array.__class__ is Deferred:
            self._array.held_by(made)
        else:
            storage = self._storage
            # first, since it gives an empty array PyTorch's strides
            made._storage = self._shared_storage() if storage is None else storage
        made._array = self._array
        counter = self._counter
        made._counter = self._version_counter if counter is None else counter
        made._keys = keys & _OUTSIDE_GRAPHS
        offset = self._offset
        if offset:
            made._offset = offset
        if keys & _BEYOND_CPU and self._device is not CPU:
            made._device = self._device
        return made

    def _shallow_copy(self) -> "Tensor":
        """A tensor of the same subclass on the same parts and with the same version, outside the graph."""
        made: Any = _new(type(self))
        fields = fields_of(self)
        fields_of(made).update({n: v for n, v in fields.items() if n not in FIELDS or n in _OF_MEMORY})
        for name in _slots_of(type(self)):  # type: ignore[arg-type]
            if hasattr(self, name):
                setattr(made, name, getattr(self, name))
        made._storage, made._counter = self._shared_storage(), self._version_counter
        made._array = self._array
        made._keys = self._keys & (BACKEND_MASK | INFERENCE_MASK | SUBCLASS_MASK | MARKED_MASK)
        return made

    def _with_edge(self, edge: tuple) -> "Tensor":
        """The same memory and version, as output of another node."""
        made = self._detached()
        made._edge, made._keys = edge, WITH_GRAD[made._keys & BACKEND_MASK] | made._keys & (SUBCLASS_MASK | MARKED_MASK)
        return made

    def _is_dispatched(self) -> bool:
        """Whether a `__torch_dispatch__`, of its class or of a mode, answers for calls on this tensor."""
        include, allow = modes.masks
        return bool((self._keys | include) & allow & TORCH_DISPATCH_MASK)

    def detach(self) -> "Tensor":
        """The same memory, outside the graph; writes to either are seen, and counted, by both."""
        if unusual.threads or self._keys & SUBCLASS_MASK:
            if self._keys & PYTHON_MASK and not modes.exclude & PYTHON_MASK:
                return call_torch_function(Tensor.detach, [self], (self,), {})
            if self._is_dispatched():
                return call_bound(registry.get("detach"), (self,))
        made = self._detached()
        if made._keys & FUNC_MASK:  # outside the graph of every level
            array = made._array
            made._array = LevelArray(array.level, array.value.detach(), array.batched)
        return made

    def detach_(self) -> "Tensor":
        """This tensor, taken out of the graph."""
        if modes.inference:  # which leaves graphs alone
            return self
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead. If you are using "
                               "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
                               "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
                               "these gradients. To fix this error, please refer to the Optimizer.zero_grad() function "
                               "in torch/optim/optimizer.py as the solution.")
        self._edge = None
        self._keys &= ~AUTOGRAD_MASK
        return self

    @property
    def data(self) -> "Tensor":
        """The same memory with a version of its own: writes through it are not checked."""
        if self._keys & TORCH_DISPATCH_MASK and self._is_dispatched():
            made = call_bound(registry.get("detach"), (self,))
        else:
            made = self._alias(type(self)) if self._keys & PYTHON_MASK else self._detached()
        self._expose()
        made._counter = None
        return made

    @data.setter
    def data(self, new: "Tensor") -> None:
        if not isinstance(new, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(new).__name__}")
        if self.requires_grad and new.dtype.category < FLOAT:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        self._settle()
        new._settle()
        for shown in (self, new):  # neither counts what is written through the other
            shown._expose()
        self._leave_storage()
        self._restrided = self._base is None
        self._array, self._storage, self._offset = new._array, new._shared_storage(), new._offset
        self._device = new._device
        recorded = self.requires_grad and not new._keys & INFERENCE_MASK
        self._asked_for_grad = self._asked_for_grad or self.requires_grad and self._base is None
        self._keys = (self._keys & SUBCLASS_MASK) | new._keys & (INFERENCE_MASK | MARKED_MASK) | (
            WITH_GRAD[new._backend_mask()] if recorded else new._backend_mask()
        )

    @property
    def grad(self) -> "Tensor | None":
        if self._grad is None and self._edge is not None and self.requires_grad and not self.retains_grad:
            import warnings

            warnings.warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                          "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
                          "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
                          "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See "
                          "github.com/pytorch/pytorch/pull/30531 for more informations.", stacklevel=2)
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError("assigned grad expected to be a Tensor or None but got grad of type "
                                f"{type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value.dtype is not self.dtype:
                raise RuntimeError(f"attempting to assign a gradient with dtype '{CPP_NAMES[value.dtype.name]}' to a "
                                   f"tensor with grad_dtype '{self.dtype.scalar_name}'. The gradient must match the "
                                   "tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's "
                                   "grad_dtype attribute with a specific dtype, or None to allow any dtype. Set "
                                   "grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may "
                                   "break downstream systems that assume they match.")
            if value._device != self._device:
                raise RuntimeError(f"attempting to assign a gradient with device type '{value._device}' to a tensor "
                                   f"with device type '{self._device}'. Please ensure that the gradient and the tensor "
                                   "are on the same device")
            if value._array.shape != self._array.shape:
                raise RuntimeError(f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                                   f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same "
                                   "size")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def zero_grad_(self) -> "Tensor":
        """Sets `.grad` to None."""
        self._grad = None
        return self

    @property
    def retains_grad(self) -> bool:
        return self._retains_grad

    def retain_grad(self) -> None:
        """Lets backward keep the gradient of a tensor that is no leaf, too."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self._creation and self._edge is None:  # nor has a view that may not be followed a history
            return
        edge = self._current_edge()
        if edge is None:
            return
        self._retains_grad = True
        node, nr = edge
        node.watched = True
        if node.retained is None:
            node.retained = {}
        node.retained.setdefault(nr, weakref.ref(self))

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """`hook(grad)` runs when this tensor's gradient is known, and may replace it."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        edge = self._current_edge()
        if edge is None:
            if self._hooks is None:
                self._hooks = HookDict()
            return self._hooks.add(hook)
        node, nr = edge
        node.watched = True
        if node.tensor_hooks is None:
            node.tensor_hooks = {}
        return node.tensor_hooks.setdefault(nr, HookDict()).add(hook)

    def register_post_accumulate_grad_hook(self, hook: Callable) -> RemovableHandle:
        """`hook(tensor)` runs after `.grad` of this leaf was added to."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        if self._post_accumulate_hooks is None:
            self._post_accumulate_hooks = HookDict()
        return self._post_accumulate_hooks.add(hook)

    # conversion ------------------------------------------------------------------------------------------------

    def _host_array(self, action: str) -> np.ndarray:
        """The elements as an ndarray: a CPU tensor's own memory, a copy from any other device."""
        flush_pending[0]()
        array = self._array
        if array.__class__ is np.ndarray:
            return array
        if array.__class__ is Deferred:  # of another thread's pipeline, or lost
            self._settle()
            return self._host_array(action)
        if self._keys & SPARSE_MASK and action == "item()":
            return self.detach().to_dense()._array if array.size == 1 else array  # type: ignore[attr-defined]
        return array.read(action) if self._keys & FUNC_MASK else array.to_host()

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self._array.size != 1:
            raise RuntimeError(f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        if self._device is META:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        if (unusual.threads or self._keys & TORCH_DISPATCH_MASK) and self._is_dispatched():
            return call_bound(registry.get("_local_scalar_dense"), (self,))
        array = self._host_array("item()")
        value = array.item()
        if value.__class__ in (int, float, bool, complex):
            return value
        return complex(*value) if value.__class__ is tuple else float(value)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number if there are no dimensions."""
        if self._keys & TORCH_DISPATCH_MASK:
            raise RuntimeError(f".tolist() is not supported for tensor subclasses, got {type(self).__name__}")
        array = self._host_array("tolist()")
        return array.tolist() if array.dtype.isbuiltin == 1 else cast(array, WIDER[array.dtype]).tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The same memory as an ndarray: another one than the tensor's own, since its shape can be assigned to."""
        if self._keys & TORCH_DISPATCH_MASK:
            raise RuntimeError(".numpy() is not supported for tensor subclasses.")
        if force.__class__ is not bool:
            raise TypeError(expected("numpy", "force", "bool", force))
        if force:
            return self.detach().cpu().resolve_conj().resolve_neg().numpy()  # type: ignore[attr-defined]
        if self._device is not CPU:
            raise TypeError(f"can't convert {self._device} device type tensor to numpy. Use Tensor.cpu() to copy the "
                            "tensor to host memory first.")
        if self.requires_grad and modes.grad_enabled:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self._keys & MARKED_MASK:
            for mark, name in ((self.is_conj(), "conj"), (self.is_neg(), "neg")):  # type: ignore[attr-defined]
                if mark:
                    raise RuntimeError(f"Can't call numpy() on Tensor that has {_MARKS[name]} bit set. Use "
                                       f"tensor.resolve_{name}().numpy() instead.")
            own_memory[0](self)
        array = self._host_array("numpy()")
        if array.dtype.isbuiltin != 1:
            raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")
        self._expose(for_good=True)
        if self._storage is None and self._base is None:
            self._borrowed = True
        elif array is self._array:
            self._shared_storage().fixed = True
        return array.view()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __iter__(self) -> Iterator["Tensor"]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # type: ignore[attr-defined]

    def __bool__(self) -> bool:
        if self._array.size > 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        if self._array.size == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        if self._keys & FUNC_MASK:
            return bool(self._array.read("bool()"))
        return bool(self.item())

    def _number(self, wanted: str = "") -> Any:
        """The only element, for Python's own conversions; without an imaginary part where a real type is wanted."""
        if self._array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        value = self.item()
        if not wanted or value.__class__ is not complex:
            return value
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {wanted} without overflow")
        return value.real

    def __int__(self) -> int:
        return int(self._number("int64_t"))

    def __float__(self) -> float:
        self._warn_of_lost_grad()
        return float(self._number("double"))

    def __complex__(self) -> complex:
        self._warn_of_lost_grad()
        return complex(self._number())

    def _warn_of_lost_grad(self) -> None:
        if self.requires_grad and modes.grad_enabled:
            warn_once("Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
                      "Consider using tensor.detach() first.")

    def __index__(self) -> int:
        if self.dtype.category > 1 or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, (Tensor, int, float, complex, bool)):
            return bool((element == self).any())  # type: ignore[union-attr]
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")

    def __format__(self, spec: str) -> str:
        if self._array.ndim == 0 and self._device is not META and type(self) is Tensor:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def as_subclass(self, cls: type) -> Any:
        """The same tensor as an instance of another Tensor class."""
        if not isinstance(cls, type):
            raise TypeError(f"cls must be a type (got {type(cls).__name__})")
        if not issubclass(cls, Tensor):
            raise TypeError("Creating a Tensor subclass from a class that does not inherit from Tensor is not "
                            "possible. Make sure your class inherits from Tensor.")
        with changed_modes(exclude=modes.exclude | PYTHON_MASK):
            made = call_bound(registry.get("alias"), (self,))
        try:
            made.__class__ = cls
        except TypeError:  # a class with slots lies otherwise in memory
            made, plain = _new(cls), made
            fields_of(made).update(fields_of(plain))
        made._keys |= cls._keys & SUBCLASS_MASK
        return made

    def _alias(self, cls: "type[Tensor]") -> Any:
        plain = self._detached()
        made: Any = _new(cls)
        fields_of(made).update(fields_of(plain))
        made._keys = plain._keys | (cls._keys & SUBCLASS_MASK)
        return made

    @staticmethod
    def _make_subclass(cls: type, data: "Tensor", require_grad: bool = False, *,  # noqa: PLW0211
                       dispatch_sizes_strides_policy: str | None = None, dispatch_device: bool = False,
                       dispatch_layout: bool = False, device_for_backend_keys: Any = None) -> Any:
        """An instance of a subclass on the memory of `data`, a leaf."""
        if require_grad.__class__ is not bool:
            raise TypeError(expected("_make_subclass", "require_grad", "bool", require_grad, 3))
        if require_grad and data.dtype.category < FLOAT:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        made = data._alias(cls)
        made._counter = None
        for shown in (made, data):
            shown._expose()
        return made._track() if require_grad else made

    def _empty_like_layout(self) -> "Tensor | None":
        """Uninitialised memory with this tensor's dense strides on CPU, GPU, NPU or Meta; None without such strides."""
        array = self._array
        if array.__class__ is np.ndarray:
            if not array.flags.forc and not is_dense(array):
                return None
            made = np.empty_like(array)
            if made.strides != array.strides and made.size:  # of a dimension of size one
                made = np.ndarray(array.shape, array.dtype, np.empty(array.size, array.dtype), 0, array.strides)
            return wrap(made)
        if array.__class__ is MetaArray or array.__class__ is Deferred:
            return self.detach().new_empty_strided(array.shape, self.stride()) if is_dense(array) else None
        if not self._keys & (CUDA_MASK | NPU_MASK) or self._keys & FUNC_MASK or array.layout.nbytes != array.nbytes:
            return None
        return self.detach().new_empty_strided(self._array.shape, self.stride())


_disabled_torch_dispatch_impl = Tensor.__torch_dispatch__
_DEFAULT_TORCH_FUNCTION = Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
# The fields that a shallow copy takes over.
_OF_MEMORY = frozenset(("_array", "_offset", "_device"))


def _disabled_torch_function_impl(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """What a subclass sets as its __torch_function__ to be treated as a plain Tensor."""
    with changed_modes(exclude=modes.exclude | PYTHON_MASK):
        return func(*args, **(kwargs or {}))


def _as_subclass_everywhere(result: Any, cls: type) -> Any:
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        converted = [_as_subclass_everywhere(r, cls) for r in result]
        return type(result)(*converted) if hasattr(result, "_fields") else type(result)(converted)
    return result


def set_state(tensor: Tensor, state: Any) -> Tensor:
    """A tensor with the attributes that a pickle holds; they may not replace what a Tensor itself is made of.

    A subclass that names attributes of its own like methods of tensors gets them back.
    """
    own = type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__
    for attributes in state if isinstance(state, tuple) else (state,):  # those of slots come second
        for name, value in (attributes or {}).items():
            replaces = hasattr(Tensor, name) and (not own or name.startswith("_"))
            if name in FIELDS or replaces:
                raise AttributeError(f"a pickle may not set '{name}' of a tensor")
            setattr(tensor, name, value)
    return tensor


def _rebuild_from_type_v2(func: Callable, new_type: type, args: tuple, state: Any) -> Any:
    """A tensor of a subclass, or with attributes that its user had set; pickles name this function."""
    tensor = func(*args)
    if type(tensor) is not new_type:
        tensor = tensor.as_subclass(new_type)
    if hasattr(new_type, "__setstate__"):
        tensor.__setstate__(state)
        return tensor
    return set_state(tensor, state)


# making tensors ------------------------------------------------------------------------------------------------------

# Places that upper layers fill, so that this module imports nothing above it.
legacy_constructor: list[Callable] = []
flush_pending: list[Callable] = [lambda: None]


def wrap(array: Any) -> Tensor:
    """A CPU tensor on a fresh ndarray (NumPy gives a scalar where a result has no dimensions)."""
    made = _new(Tensor)
    made._array = array if array.__class__ is np.ndarray else np.asarray(array)
    return made


def wrap_meta(shape: tuple[int, ...], kind: np.dtype, strides: tuple[int, ...] | None = None) -> Tensor:
    made = _new(Tensor)
    made._array = MetaArray(shape, kind, strides)
    made._keys, made._device = META_MASK, META
    return made


def alias(tensor: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, kind: np.dtype) -> Tensor:
    """Another geometry on a tensor's memory, outside the graph; offset and strides in bytes."""
    made = tensor._detached()
    made._array = tensor._shared_storage().array(shape, kind, offset, strides)
    made._offset = offset
    return made


def tracked_view(
    source: Tensor, array: Any, offset: int, operator: Operator, args: tuple, nr: int | None = None
) -> Tensor:
    """A tensor on an array that shows memory of `source`, which `operator(source, *args)` made; offset in bytes."""
    keys = source._keys
    if keys & INFERENCE_MASK:  # which keeps no track of views
        made = source._detached()
        made._array, made._offset = array, offset
        return made
    counter = source._counter
    if counter is None:
        counter = source._counter = VersionCounter()
    made = _new(Tensor)
    made._array = array
    made._counter = counter
    base = source._base
    if base is None:
        made._base, made._view_step = source, (None, operator, args, nr)
    else:
        made._base, made._view_step = base, (source._view_step, operator, args, nr)
        if source._storage is not None:  # it may have been given another than its base's
            made._storage = source._storage
    made._keys = keys & BACKEND_MASK | VIEW_MASK
    if offset:
        made._offset = offset
    if keys & _BEYOND_CPU and source._device is not CPU:
        made._device = source._device
    if counter.value:
        made._edge_version = counter.value
    if source._creation or unusual.threads and not modes.grad_enabled:
        made._creation = creation_now(source, nr is not None)
    elif nr is not None:
        made._creation = MULTI_OUTPUT
    return made


@functools.cache
def _slots_of(kind: Any) -> tuple[str, ...]:
    """The attributes that a subclass keeps in slots."""
    slots = (vars(each).get("__slots__", ()) for each in kind.__mro__ if each.__module__ != __name__)
    return tuple(name for names in slots for name in ((names,) if isinstance(names, str) else names)
                 if name not in ("__dict__", "__weakref__"))


def _storage_so_far(tensor: Tensor) -> UntypedStorage | None:
    """The storage of a tensor if somebody has asked for it."""
    return tensor._base._storage if tensor._storage is None and tensor._base is not None else tensor._storage


def living_tensors() -> list[Tensor]:
    """All tensors that there are: what refers to the class, or to one that is derived from it.

    `gc.get_objects()` would hold what other threads are making for a moment, and a tuple that is held cannot be made.
    """
    kinds: list[type[Tensor]] = [Tensor]
    for kind in kinds:
        kinds += set(type.__subclasses__(kind)).difference(kinds)
    return [value for value in gc.get_referrers(*kinds) if issubclass(type(value), Tensor)]


def _follow_storage(storage: UntypedStorage, start: int, end: int) -> bool:
    """Brings the tensors that show memory between two addresses to the new memory of their storage; True: not all fit.

    Nobody keeps a list of them, which every view would pay for: they are looked for where Python keeps its objects.
    """
    left = False
    for tensor in living_tensors():
        array = fields_of(tensor).get("_array")
        if array.__class__ is not np.ndarray or not array.size:
            continue
        if start <= array.__array_interface__["data"][0] < end or _storage_so_far(tensor) is storage:
            reach = tensor._offset + array.itemsize
            reach += sum(stride * (n - 1) for stride, n in zip(array.strides, array.shape, strict=True))
            if reach <= storage.nbytes():
                tensor._array = storage.array(array.shape, array.dtype, tensor._offset, array.strides)
                tensor._storage = storage
            else:
                left = True
    return left


follow_storage.append(_follow_storage)
