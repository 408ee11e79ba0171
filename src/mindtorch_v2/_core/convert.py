"""What a Tensor becomes outside the operators: other types and devices, text, copies and pickles."""

import copy
import functools
import itertools
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _utils
from .._compat import tensor_types
from .._dispatch.argument_checks import expected, takes
from .._dispatch.callers import call_torch_function
from .._dispatch.keys import (
    AUTOGRAD_MASK,
    INFERENCE_MASK,
    MARKED_MASK,
    PYTHON_MASK,
    SPARSE_MASK,
    TORCH_DISPATCH_MASK,
    WITH_GRAD,
    changed_modes,
    modes,
)
from .._ops._declare.rules import common_dtype
from .._ops.copy import converted, to
from . import dlpack as _dlpack
from . import dtype as _dtype
from . import printing as _printing
from . import resize as _resize
from .device import CPU, META, device, memory_format, preserve_format
from .dtype import dtype, get_default_dtype
from .from_data import from_numpy, new_tensor
from .marks import MathView, is_conjugated, is_negated
from .storage import LEGACY_NAMES, TypedStorage, UntypedStorage
from .tensor import Tensor, _rebuild_from_type_v2, flush_pending, wrap
from .wrapper_subclass import WrapperArray

# types and devices ---------------------------------------------------------------------------------------------------

_TYPE_METHODS = {"half": _dtype.float16, "bfloat16": _dtype.bfloat16, "float": _dtype.float32, "double": _dtype.float64,
                 "char": _dtype.int8, "byte": _dtype.uint8, "short": _dtype.int16, "int": _dtype.int32,
                 "long": _dtype.int64, "bool": _dtype.bool_, "chalf": _dtype.complex32, "cfloat": _dtype.complex64,
                 "cdouble": _dtype.complex128}


def overridable(name: str, method: Callable, parameters: str | None = None) -> Callable:
    """A method that a subclass's __torch_function__ sees first; those after `self`, if named, are checked."""
    checked = method
    if parameters is not None:
        checked = takes(f"{name}(Tensor self{', ' * bool(parameters)}{parameters})")(method)

    @functools.wraps(method)
    def outer(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self._keys & PYTHON_MASK and not modes.exclude & PYTHON_MASK:
            return call_torch_function(outer, [self], (self, *args), kwargs)
        return checked(self, *args, **kwargs) if args or kwargs else method(self)

    outer.__name__ = outer.__qualname__ = name
    return outer


def _type_method(name: str, kind: dtype) -> Callable:
    def method(self: Tensor, memory_format: memory_format | None = None) -> Tensor:
        return converted(self, kind, None, False, memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor with elements of type {kind}; itself if they are."
    return method


def _cpu(self: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """The tensor on the CPU; itself if it is."""
    return converted(self, None, CPU, False, memory_format)


def _device_method(name: str) -> Callable:
    """`cuda()` and `npu()`: the tensor on that device."""

    def method(self: Tensor, device: Any = None, non_blocking: bool = False,
               memory_format: memory_format = preserve_format) -> Tensor:
        where = _device(name if device is None else f"{name}:{device}" if isinstance(device, int) else device)
        return converted(self, None, where, False, memory_format, non_blocking)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor on a device of type {name}; itself if it is there."
    return method


_device = device  # the method above has a parameter of that name

_NEVER = ("is_quantized", "is_mkldnn", "is_nested", "is_mps", "is_xla", "is_xpu",
          "is_ipu", "is_vulkan", "is_mtia", "is_maia")
_ON_DEVICE = ("cpu", "cuda", "meta", "npu")


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in page-locked memory, from which a device copies without the host waiting; itself if it is there."""
    from .._backends.cuda.runtime import is_available
    from .._backends.npu.runtime import why_unavailable

    if is_available():
        from .._backends.cuda.memory import pinned_empty
    elif why_unavailable() is None:
        from .._backends.npu.memory import pinned_empty
    else:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if self._device is not CPU:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")  # type: ignore[attr-defined]
    if _is_pinned(self):
        return self
    return wrap(pinned_empty(self._array.shape, self._array.dtype)).copy_(self)  # type: ignore[attr-defined]


def _is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is page-locked; where no device was ever used, none is."""
    memories = (sys.modules.get(f"{__package__.partition('.')[0]}._backends.{name}.memory") for name in ("cuda", "npu"))
    return self._device is CPU and any(memory.is_pinned(self._array) for memory in memories if memory is not None)


def _record_stream(self: Tensor, stream: Any) -> None:
    """The memory is also used on `stream`, and not given to others before that has run."""
    if self._device.type == "cuda":
        from .._backends.cuda.memory import record_stream

        record_stream(self._shared_storage(), stream.cupy_stream)
    elif self._device.type == "npu":
        self._array.storage.record_stream(stream)
    else:
        raise NotImplementedError(f"record_stream: there are no streams on device '{self._device}'")


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """What CuPy, Numba and others read to share the memory of a tensor on a GPU."""
    if self._device.type != "cuda":
        raise AttributeError(f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA data "
                             "is required use tensor.cuda() to copy tensor to device memory.")
    if self.requires_grad:
        raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't "
                           "required, use var.detach() to get Variable that doesn't require grad.")
    return self._array.view.__cuda_array_interface__


# questions -----------------------------------------------------------------------------------------------------------


def _tensor(function: str, value: Any) -> Any:
    """The value, if it is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(expected(function, "input", "Tensor", value, 1))
    return value


def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating point numbers."""
    return _tensor("is_floating_point", input).dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return _tensor("is_complex", input).dtype.is_complex


def is_signed(input: Tensor) -> bool:
    """Whether the elements can be negative."""
    return _tensor("is_signed", input).dtype.is_signed


def is_nonzero(input: Tensor) -> bool:
    """The truth of a tensor with one element."""
    return bool(_tensor("is_nonzero", input))


@takes("is_same_size(Tensor input, Tensor other)")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input._array.shape == other._array.shape


def numel(input: Tensor) -> int:
    """The number of elements."""
    return _tensor("numel", input).numel()


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The type that an operation on these two tensors or numbers computes in."""
    for value in (tensor1, tensor2):
        if not isinstance(value, (Tensor, int, float, complex, np.number, np.bool_)):
            shown = ", ".join(type(v).__name__ for v in (tensor1, tensor2))
            raise TypeError(f"result_type() received an invalid combination of arguments - got ({shown}), but expected "
                            "tensors or numbers")
    return common_dtype([tensor1, tensor2])


def get_device(input: Tensor) -> int:
    """The index of the device; -1 for the CPU."""
    index = _tensor("get_device", input).device.index
    return -1 if index is None else index


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return _tensor("is_inference", input).is_inference()


def _never(self: Tensor, device: Any = None) -> bool:
    """False: no tensor here is of that kind."""
    return False


def _is_conj(self: Tensor) -> bool:
    """Whether it is a view that conjugates what lies in memory.

    >>> torch.tensor([1j]).conj().is_conj()
    True
    """
    return bool(self._keys & MARKED_MASK) and is_conjugated(self._array)


def _is_neg(self: Tensor) -> bool:
    """Whether it is a view that negates what lies in memory.

    >>> torch.tensor([1j]).conj().imag.is_neg()
    True
    """
    return bool(self._keys & MARKED_MASK) and is_negated(self._array)


def _is_on(name: str) -> property:
    def is_on(self: Tensor) -> bool:
        return self._device.type == name

    return property(is_on)


# text ----------------------------------------------------------------------------------------------------------------


def _elements(tensor: Tensor) -> np.ndarray:
    """A tensor's elements in a type that NumPy itself has."""
    array = tensor._host_array("repr()")
    return array if array.dtype.isbuiltin == 1 else _dtype.cast(array, _dtype.WIDER[array.dtype])


def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    with changed_modes(exclude=modes.exclude | PYTHON_MASK):
        return _printing.tensor_repr(self, array_of=_elements, get_default_dtype=get_default_dtype,
                                     given_contents=tensor_contents)


# NumPy and Python ----------------------------------------------------------------------------------------------------


def _array_wrap(self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
    """The tensor that a NumPy function called on one gives; PyTorch shows truth values as bytes there."""
    array = np.asarray(array)
    return from_numpy(array.astype(np.uint8) if array.dtype == bool else array)


def _reversed(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)  # type: ignore[attr-defined]


def _apply(self: Tensor, callable: Callable) -> Tensor:
    """This tensor with `callable` of each element in its place; for experiments, since it is slow."""
    if self.requires_grad:
        raise RuntimeError("Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead.")
    return _store(self, [callable(value) for value in self.flatten().tolist()])  # type: ignore[attr-defined]


def _map(self: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    """This tensor with `callable(element, element of tensor)` in the place of each element."""
    if self.requires_grad or tensor.requires_grad:
        raise RuntimeError("Can't call map_() on Variable that requires grad. Use var.detach().map_() instead.")
    if tensor.type() != self.type():  # type: ignore[attr-defined]
        raise TypeError(f"map_: expected {self.type()} for 'other' (got {tensor.type()})")  # type: ignore[attr-defined]
    first, second = (t.flatten().tolist() for t in (self, tensor.expand_as(self)))  # type: ignore[attr-defined, union-attr]
    return _store(self, [callable(a, b) for a, b in zip(first, second, strict=True)])


def _map2(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """The same with an element of each of two tensors."""
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError("Can't call map2_() on Variable that requires grad. Use var.detach().map2_() instead.")
    rows = (t.flatten().tolist() for t in (self, x.expand_as(self), y.expand_as(self)))  # type: ignore[attr-defined, union-attr]
    return _store(self, [callable(*values) for values in zip(*rows, strict=True)])


def _store(self: Tensor, values: list) -> Tensor:
    for value in values:
        if isinstance(value, (str, bytes, list, tuple)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
    return self.copy_(new_tensor(self, values).view(self.shape))  # type: ignore[attr-defined]


# copies and pickles --------------------------------------------------------------------------------------------------

def user_attributes(tensor: Tensor) -> dict[str, Any]:
    """What the user, or a subclass, has set on a tensor."""
    return dict(vars(tensor))


def _user_slots(tensor: Tensor) -> dict[str, Any]:
    """What a subclass has set in slots of its own."""
    kinds = itertools.takewhile(lambda kind: kind is not Tensor, type(tensor).__mro__)
    names = (name for kind in kinds for name in vars(kind).get("__slots__", ()))
    return {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}


def _deepcopy(self: Tensor, memo: dict) -> Any:
    """A copy of a leaf; tensors that share memory share it in the copy too."""
    if not self.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
                           "at the moment.  If you were attempting to deepcopy a module, this may be because of a "
                           "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001")
    if id(self) in memo:
        return memo[id(self)]
    if self._keys & TORCH_DISPATCH_MASK:
        return _deepcopy_dispatched(self, memo)
    flush_pending[0]()
    made = object.__new__(type(self))
    if self._keys & SPARSE_MASK or self._array.__class__ is MathView:
        made._array = self.detach().clone()._array  # type: ignore[attr-defined]
    else:
        storage = copy.deepcopy(self._shared_storage(), memo)
        made._array = storage.array(self._array.shape, self._array.dtype, self._offset, self._array.strides)
        made._storage, made._offset, made._device = storage, self._offset, self._device
    made._keys = WITH_GRAD[self._backend_mask()] if self.requires_grad else self._backend_mask()
    made._keys |= type(self)._keys & PYTHON_MASK
    if modes.inference:
        made._keys = made._keys & ~AUTOGRAD_MASK | INFERENCE_MASK
        made._asked_for_grad = self.requires_grad
    made._bump_version()  # as PyTorch, which fills an empty tensor
    memo[id(self)] = made
    if self._grad is not None:
        made.grad = copy.deepcopy(self._grad, memo)
    made.__dict__.update(copy.deepcopy(user_attributes(self), memo))
    return made


def _deepcopy_dispatched(self: Tensor, memo: dict) -> Any:
    """A copy of a tensor whose class answers for it: its clone, with copies of its attributes."""
    with changed_modes(grad_enabled=False):
        made = self.clone()  # type: ignore[attr-defined]
    if type(made) is not type(self):
        raise RuntimeError("The default implementation of __deepcopy__() for wrapper subclasses only works for "
                           "subclass types that implement clone() and for which cloning returns another instance of "
                           "the same subclass. You should either properly implement clone() for your subclass or "
                           "override __deepcopy__() if it is intended behavior for clone() to return an instance of "
                           "a different type.")
    memo[id(self)] = made
    made.__dict__ = copy.deepcopy(user_attributes(self), memo)
    if self.requires_grad:
        made.requires_grad_()
    if self._grad is not None:
        made.grad = copy.deepcopy(self._grad, memo)
    return made


def _reduce_ex(self: Tensor, protocol: int) -> tuple:
    """How pickle, and copy.copy, rebuild this tensor: on its storage, as a leaf."""
    for hook in self._hooks.values() if self._hooks else ():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can "
                          "decorate the function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                          stacklevel=2)
    rebuild, args = _rebuilding(self)
    state: Any = user_attributes(self)
    if slots := _user_slots(self):
        state = state, slots
    if type(self) is Tensor and not state:
        return rebuild, args
    return _rebuild_from_type_v2, (rebuild, type(self), args, state)


def _rebuilding(self: Tensor) -> tuple[Callable, tuple]:
    flush_pending[0]()
    if self._keys & SPARSE_MASK:
        return _utils._rebuild_sparse_tensor, self._array.pickled()
    size, stride = tuple(self.shape), tuple(self.stride())
    if self._keys & TORCH_DISPATCH_MASK and self._array.__class__ is WrapperArray:
        return _utils._rebuild_wrapper_subclass, (type(self), self.dtype, size, stride, self.storage_offset(),
                                                  self.layout, self.device, self.requires_grad)
    if self.device is META:
        return _utils._rebuild_meta_tensor_no_storage, (self.dtype, size, stride, self.requires_grad)
    geometry: tuple = (self.storage_offset(), size, stride, self.requires_grad, OrderedDict())
    storage, kind = self._shared_storage(), self.dtype
    marks = {name: True for name, mark in (("conj", _is_conj(self)), ("neg", _is_neg(self))) if mark}
    metadata = (marks,) if marks else ()
    if kind not in LEGACY_NAMES:
        return _utils._rebuild_tensor_v3, (storage, *geometry, kind, *metadata)
    typed = TypedStorage(wrap_storage=storage, dtype=kind, _internal=True)
    return _utils._rebuild_tensor_v2, (typed, *geometry, *metadata)


_PROPERTIES = {f"is_{name}": _is_on(name) for name in _ON_DEVICE}
_PROPERTIES |= dict.fromkeys(_NEVER, property(_never))
_PROPERTIES["__cuda_array_interface__"] = property(_cuda_array_interface)
_METHODS: dict[str, Callable] = {
    **{name: _type_method(name, kind) for name, kind in _TYPE_METHODS.items()},
    "is_conj": _is_conj, "is_neg": _is_neg, "is_distributed": _never, "is_pinned": _is_pinned,
    "__array_wrap__": _array_wrap, "__deepcopy__": _deepcopy, "__dlpack__": _dlpack.dlpack,
    "__dlpack_device__": _dlpack.dlpack_device, "__reduce_ex__": _reduce_ex, "__repr__": _repr,
    "__reversed__": _reversed, "apply_": _apply, "cpu": _cpu, "cuda": _device_method("cuda"), "get_device": get_device,
    "is_complex": is_complex, "is_floating_point": is_floating_point, "is_nonzero": is_nonzero,
    "is_same_size": is_same_size, "is_shared": _resize.is_shared, "is_signed": is_signed, "map2_": _map2, "map_": _map,
    "new": tensor_types.new, "new_tensor": new_tensor, "npu": _device_method("npu"), "pin_memory": _pin_memory,
    "record_stream": _record_stream, "resize_": _resize.resize_,
    "resize_as_": _resize.resize_as_, "set_": _resize.set_, "share_memory_": _resize.share_memory_, "to": to,
    "type": tensor_types.type_, "type_as": tensor_types.type_as,
}


# What they take after `self`, where that is checked here.
_PARAMETERS = {
    **dict.fromkeys((*_TYPE_METHODS, "cpu"), "*, MemoryFormat? memory_format=None"),
    **dict.fromkeys(("is_conj", "is_neg", "is_distributed"), ""),
    **dict.fromkeys(("is_pinned", "pin_memory"), "Device? device=None"), "apply_": "Any callable",
    "type": "Any dtype=None, bool non_blocking=False",
    "resize_as_": "Tensor the_template, *, MemoryFormat? memory_format=None",
    "map_": "Tensor other, Any callable", "map2_": "Tensor x, Tensor y, Any callable",
}


def attach() -> None:
    """Gives Tensor the methods of this module."""
    for name, flag in _PROPERTIES.items():
        setattr(Tensor, name, flag)
    for name, method in _METHODS.items():
        setattr(Tensor, name, overridable(name, method, _PARAMETERS.get(name)))
