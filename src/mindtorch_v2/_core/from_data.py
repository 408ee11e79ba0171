"""Tensors out of data: numbers, nested sequences, NumPy arrays, buffers, and the legacy constructors."""

import ctypes
import itertools
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._backends.interface import pins_memory
from .._dispatch.argument_checks import expected
from .._dispatch.callers import call_bound, is_of_pytorch
from .._dispatch.keys import AUTOGRAD_MASK, INFERENCE_MASK, TORCH_DISPATCH_MASK, modes
from .._dispatch.registry import Operator, registry
from .._dispatch.schema import NUMBERS
from .._ops.copy import converted, store
from .._ops.create import required
from .allocation import allocates
from .device import CPU, META, device, get_default_device
from .dtype import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NAMES,
    OF_ARRAY,
    as_dtype,
    default_complex,
    dtype,
    get_default_dtype,
    iinfo,
    int64,
    promote_types,
    uint64,
)
from .geometry import contiguous_strides
from .storage import TypedStorage, UntypedStorage, refuse_rank
from .tensor import Tensor, wrap
from .warn import warn_once

_SEQUENCES = frozenset((list, tuple))
_ARRAY_KINDS = frozenset(d.np for d in OF_ARRAY.values() if d.np.isbuiltin == 1)
_SUPPORTED = ("float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, "
              "uint8, and bool")


# numbers and sequences -----------------------------------------------------------------------------------------------


def _inferred(kinds: set[type]) -> dtype:
    """The type of Python numbers of these classes."""
    if complex in kinds:
        return default_complex()
    if float in kinds or not kinds:
        return get_default_dtype()
    return int64 if int in kinds else OF_ARRAY[np.dtype(bool)]


def _as_array(numbers: Any, kind: dtype, kinds: set[type]) -> np.ndarray:
    """Python numbers of the given classes, or a list of them, as an array."""
    if complex in kinds and kind.category == BOOL:
        return np.array(numbers, np.complex128) != 0
    if complex in kinds and kind.category != COMPLEX:
        raise TypeError("must be real number, not complex" if kind.category == FLOAT else
                        "'complex' object cannot be interpreted as an integer")
    if kind.category == FLOAT or kind.category == COMPLEX:
        wide = np.array(numbers, np.complex128 if kind.category == COMPLEX else np.float64)
        if wide.dtype is kind.np:
            return wide
        made = np.empty(wide.shape, kind.np)
        store(np, made, wide)
        return made
    if kind.category == BOOL:
        return np.array(numbers).astype(bool)
    if kind is int64 and float not in kinds:
        try:
            return np.array(numbers, np.int64)
        except OverflowError:
            raise ValueError("Overflow when unpacking long long") from None
    return _as_integers(numbers, kind)


def _as_integers(numbers: Any, kind: dtype) -> np.ndarray:
    """Numbers truncated into an integer type, with PyTorch's check of the range."""
    limits = iinfo(kind)
    flat = numbers if isinstance(numbers, list) else [numbers]
    lowest = limits.min if kind.is_signed else -limits.max
    for number in flat:
        if not lowest <= number <= limits.max:  # also for a NaN
            raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
    wide = np.array([int(n) for n in flat], np.uint64 if kind is uint64 and min(flat, default=0) >= 0 else np.int64)
    return wide.astype(kind.np).reshape(np.shape(numbers))


def _nested(data: Sequence) -> tuple[Sequence, list[int], set[type]]:
    """The leaves of nested lists and tuples, their shape, and the leaves' classes."""
    shape, flat = [len(data)], data
    kinds = set(map(type, flat))
    while kinds and kinds <= _SEQUENCES:
        lengths = set(map(len, flat))
        shape.append(len(flat[0]))
        if len(lengths) > 1 and shape[-1]:
            wrong = next(n for n in map(len, flat) if n != shape[-1])
            raise ValueError(f"expected sequence of length {shape[-1]} at dim {len(shape) - 1} (got {wrong})")
        flat = list(itertools.chain.from_iterable(flat)) if shape[-1] else []
        kinds = set(map(type, flat))
    return flat, shape, kinds


def _array_of_data(data: Any, kind: dtype | None) -> np.ndarray:
    """A fresh array of whatever `torch.tensor` takes, but for tensors and arrays."""
    if data.__class__ in NUMBERS:
        kinds = {data.__class__}
        return _as_array(data, kind or _inferred(kinds), kinds)
    if data.__class__ in _SEQUENCES:
        flat, shape, kinds = _nested(data)
        refuse_rank(shape)
        if kinds <= NUMBERS:
            return _as_array(flat if flat.__class__ is list else list(flat), kind or _inferred(kinds), kinds).reshape(
                shape
            )
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    found: list[dtype] = []
    no_integers: list[Any] = []
    try:
        plain = _plain(data, found, no_integers)
    except _NotANumber as error:
        if kind is None:
            raise RuntimeError(str(error)) from None
        raise TypeError(f"'{error.name}' object cannot be interpreted as an integer" if kind.category <= INT else
                        f"must be real number, not {error.name}") from None
    if kind is None and found:
        kind = found[0]
        for other in found[1:]:
            kind = promote_types(kind, other)
    if kind is not None and kind.category <= INT:
        _refuse_as_integers(no_integers, kind)
    return _array_of_data(plain, kind)


def _refuse_as_integers(leaves: list[Any], kind: dtype) -> None:
    """Raises for tensors and NumPy values that do not convert to an integer; to a bool, a bool does."""
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        if not (kind.category == BOOL and leaf.dtype == bool):
            raise TypeError(f"'numpy.{leaf.dtype.type.__name__}' object cannot be interpreted as an integer")


def _plain(data: Any, found: list[dtype], no_integers: list[Any]) -> Any:
    """`data` with tensors, NumPy values and other sequences as numbers and lists.

    `found` gets the leaves' types, `no_integers` those leaves that Python would not take for an integer.
    """
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        found.append(data.dtype)
        if data.dtype.category > INT:
            no_integers.append(data)
        return data.item()
    if isinstance(data, np.generic) and data.dtype in _ARRAY_KINDS:
        found.append(OF_ARRAY[data.dtype])
        if not isinstance(data, (np.integer, float, complex)):  # of which NumPy's doubles are subclasses
            no_integers.append(data)
        return data.item()
    if isinstance(data, np.ndarray):
        if data.dtype not in _ARRAY_KINDS:
            raise TypeError(_refused_kind(data))
        found.append(OF_ARRAY[data.dtype])
        if data.size and data.dtype.kind not in "iu" and data.dtype.itemsize < 8:
            no_integers.append(data)
        return data.tolist()
    if isinstance(data, (bool, int, float, complex)):
        number = next(base(data) for base in (bool, int, float, complex) if isinstance(data, base))  # type: ignore[arg-type]
        found.append(_inferred({type(number)}))
        return number
    if hasattr(data, "__dlpack__") and is_of_pytorch(type(data)):
        return _plain(_of_pytorch(data), found, no_integers)
    if isinstance(data, str):
        if found:
            raise TypeError("new(): invalid data type 'str'")
        raise ValueError("too many dimensions 'str'")
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (dict, type)):
        items = [data[i] for i in range(len(data))]
        if items and isinstance(items[0], np.ndarray):
            warn_once("Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting "
                      "the list to a single numpy.ndarray with numpy.array() before converting to a tensor.")
        plain = [_plain(item, found, no_integers) for item in items]
        _check_one_depth(plain)
        return plain
    if hasattr(data, "__index__") and not isinstance(data, type):
        found.append(int64)
        return data.__index__()
    raise _NotANumber(f"Could not infer dtype of {type(data).__name__}", type(data).__name__)


class _NotANumber(RuntimeError):
    """What is said of an object that is no number, and the name of its class."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


def _check_one_depth(items: list) -> None:
    """Raises if lists stand beside numbers."""
    kinds = {item.__class__ is list for item in items}
    if len(kinds) > 1:
        raise TypeError(
            "not a sequence" if items[0].__class__ is list else "'list' object cannot be interpreted as an integer"
        )


# NumPy ---------------------------------------------------------------------------------------------------------------


def _refused_kind(array: np.ndarray) -> str:
    name = f"{array.dtype.type.__module__}.{array.dtype.type.__name__}"
    return f"can't convert np.ndarray of type {name}. The only supported types are: {_SUPPORTED}."


def _check_array(array: np.ndarray) -> None:
    """Raises for an array whose memory no tensor can show."""
    if array.dtype not in _ARRAY_KINDS:
        if not array.dtype.isnative:
            raise ValueError("given numpy array has byte order different from the native byte order. Conversion "
                             "between byte orders is currently not supported.")
        raise TypeError(_refused_kind(array))
    for stride in array.strides:
        if stride < 0:
            raise ValueError("At least one stride in the given numpy array is negative, and tensors with negative "
                             "strides are not currently supported. (You can probably work around this by making a "
                             "copy of your array  with array.copy().) ")
        if stride % array.itemsize:
            raise ValueError("given numpy array strides not a multiple of the element byte size. Copy the numpy "
                             "array to reallocate the memory.")


class _Writable:
    """The memory of a read-only array as one that may be written, as a tensor's always may."""

    def __init__(self, array: np.ndarray) -> None:
        self.owner = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def writable(array: np.ndarray) -> np.ndarray:
    """The array itself, or another one on the same memory that may be written."""
    return array if array.flags.writeable else np.asarray(_Writable(array))


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor on the memory of an array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {_type_name(ndarray)})")
    _check_array(ndarray)
    if not ndarray.flags.writeable:
        warn_once("The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This "
                  "means writing to this tensor will result in undefined behavior. You may want to copy the array to "
                  "protect its data or make it writable before converting it to a tensor. This type of warning will "
                  "be suppressed for the rest of this program.")
        ndarray = writable(ndarray)
    kind = OF_ARRAY[ndarray.dtype].np  # arrays out of pickles have types of their own, which are equal only
    return on_borrowed(ndarray.view(kind, np.ndarray))


def on_borrowed(array: np.ndarray) -> Tensor:
    """A tensor on memory that others hold too; the array itself is the tensor's own: shapes can be assigned to."""
    made = _marked(wrap(array))
    made._borrowed = True
    return made


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _marked(made: Tensor) -> Tensor:
    """A fresh tensor, marked if it is made in inference mode."""
    if modes.inference:
        made._keys = made._keys & ~AUTOGRAD_MASK | INFERENCE_MASK
    return made


# public functions ----------------------------------------------------------------------------------------------------


def _placed(made: Tensor, where: Any, requires_grad: bool) -> Tensor:
    """A fresh CPU tensor on the device that a factory was asked for."""
    target = get_default_device() if where is None else device(where)
    if modes.include & TORCH_DISPATCH_MASK:
        made = call_bound(registry.get("aten::lift_fresh"), (made,))  # how modes see that there is a new tensor
    if target is not CPU:
        made = converted(made, None, target)
    return required(made) if requires_grad else made


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A leaf with a copy of `data`; on the memory of a storage itself."""
    kind = None if dtype is None else as_dtype(dtype)
    _check_flag("tensor", "requires_grad", requires_grad)
    _check_flag("tensor", "pin_memory", pin_memory)
    if pin_memory and not pins_memory():
        raise RuntimeError(_NO_PINNED_MEMORY)
    if pin_memory:
        made = tensor(data, dtype=dtype, device=device).pin_memory()  # type: ignore[attr-defined]
        return required(made) if requires_grad else made
    if isinstance(data, Tensor):
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than "
                      "torch.tensor(sourceTensor).", stacklevel=2)
        made = copied(data, kind, device)
        return required(made) if requires_grad else made
    return _fresh(data, kind, device, requires_grad)


def _check_flag(function: str, name: str, flag: Any) -> None:
    if flag.__class__ is not bool:
        raise TypeError(expected(function, name, "bool", flag))


_NO_PINNED_MEMORY = ("pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is "
                     "available on this system.")


def _on_gpu(data: Any) -> Tensor:
    """A tensor on the memory of another library's array on a GPU."""
    if isinstance(data, type):
        raise TypeError("`__cuda_array_interface__` must be a dict")
    import cupy

    from .dlpack import of_cupy

    return of_cupy(cupy.asarray(data))


def _of_pytorch(data: Any) -> Tensor:
    """A tensor on the memory of one of PyTorch's, which may be installed beside this library."""
    from .dlpack import from_dlpack

    kind = NAMES[str(data.dtype).rpartition(".")[2]]
    if kind.np.isbuiltin == 1:
        return from_dlpack(data.detach())
    bits = getattr(sys.modules["torch"], "int16" if kind.itemsize == 2 else "uint8")  # types that NumPy knows
    return from_dlpack(data.detach().view(bits)).view(kind)  # type: ignore[attr-defined]


def copied(source: Tensor, kind: dtype | None, where: Any) -> Tensor:
    """A detached copy of a tensor, in its memory order."""
    return converted(source.detach(), kind, None if where is None else device(where), copy=True)


def _of_storage(data: TypedStorage | UntypedStorage, kind: dtype | None) -> Tensor:
    """A tensor on a storage, of the default type unless told: which a typed storage must have."""
    if data.device is META:
        raise ValueError("could not determine the shape of object type 'torch.storage.UntypedStorage'")
    return _on_storage(data, kind or get_default_dtype() if isinstance(data, TypedStorage) else kind)


@allocates
def _fresh(data: Any, kind: dtype | None, where: Any, requires_grad: bool) -> Tensor:
    if isinstance(data, (TypedStorage, UntypedStorage)):
        return _placed(_of_storage(data, kind), where, requires_grad)
    if isinstance(data, np.ndarray):
        _check_array(data)
        array = np.empty(data.shape, (kind or OF_ARRAY[data.dtype]).np)
        store(np, array, data)
    elif hasattr(data, "__cuda_array_interface__"):
        made = converted(_on_gpu(data), kind, get_default_device() if where is None else device(where), copy=True)
        return required(made) if requires_grad else made
    elif hasattr(data, "__dlpack__") and is_of_pytorch(type(data)):
        made = copied(_of_pytorch(data), kind, where)
        return required(made) if requires_grad else made
    else:
        array = _array_of_data(data, kind)
    return _placed(_marked(wrap(array)), where, requires_grad)


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """As `torch.tensor`, with this tensor's type and device unless given."""
    _check_flag("new_tensor", "requires_grad", requires_grad)
    kind, where = self.dtype if dtype is None else as_dtype(dtype), self.device if device is None else device
    if isinstance(data, Tensor):
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than "
                      "tensor.new_tensor(sourceTensor).",
                      stacklevel=2)
        made = copied(data, kind, where)
        return required(made) if requires_grad else made
    return _fresh(data, kind, where, requires_grad)


def as_tensor(data: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor: itself, or on its memory, wherever type and device allow."""
    kind = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        return converted(data, kind, None if device is None else _device(device))
    if isinstance(data, np.ndarray):
        return converted(from_numpy(data), kind, get_default_device() if device is None else _device(device))
    if hasattr(data, "__cuda_array_interface__"):
        return converted(_on_gpu(data), kind, get_default_device() if device is None else _device(device))
    if hasattr(data, "__dlpack__") and is_of_pytorch(type(data)):
        return converted(_of_pytorch(data), kind, None if device is None else _device(device))
    return _fresh(data, kind, device, False)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool | None = None) -> Tensor:
    """`obj` as a tensor; `copy` says whether its memory must, may (None) or must not be copied."""
    for name, flag in (("copy", copy), ("requires_grad", requires_grad)):
        if flag is not None:
            _check_flag("asarray", name, flag)
    kind = None if dtype is None else as_dtype(dtype)
    where = None if device is None else _device(device)
    shared = _sharing(obj, kind)
    if shared is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return _fresh(obj, kind, device, bool(requires_grad))
    if copy is False and kind is not None and kind is not shared.dtype:
        raise ValueError(f"can't alias tensor with dtype '{shared.dtype.scalar_name}' into dtype '{kind.scalar_name}'.")
    if copy is False and where is not None and where != shared.device:
        raise ValueError(f"can't alias tensor from device '{shared.device}' to '{where}'.")
    if requires_grad is None and shared.requires_grad:
        warn_once("torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
                  "requires_grad=False explicitly to get the old behavior and silence this warning.")
    made = converted(shared, kind, where, copy=bool(copy))
    if requires_grad is False and made.requires_grad:
        return made.detach()
    return required(made) if requires_grad and not made.requires_grad else made


def _sharing(obj: Any, kind: dtype | None) -> Tensor | None:
    """A tensor on the memory of a tensor, an array or a buffer; None for other objects."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.generic):
        return from_numpy(np.array(obj))
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        from .dlpack import from_dlpack

        return from_dlpack(obj)
    if _has_buffer(obj):
        return frombuffer(obj, dtype=kind or get_default_dtype())
    if isinstance(obj, (UntypedStorage, TypedStorage)):
        return _on_storage(obj, kind)
    return None


def _has_buffer(obj: Any) -> bool:
    """Whether an object shows its memory by Python's buffer protocol."""
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def _on_storage(storage: UntypedStorage | TypedStorage, kind: dtype | None) -> Tensor:
    """A tensor of one dimension on all bytes of a storage."""
    if isinstance(storage, TypedStorage):
        if kind is not None and kind is not storage.dtype:
            raise RuntimeError(f"Expected a Storage of type {kind.scalar_name} or an UntypedStorage, but got "
                               f"{storage.dtype.scalar_name}")
        kind = storage.dtype
    return wrap(np.empty(0, (kind or int64).np)).set_(storage.untyped())


def _from_blob(data_ptr: int, sizes: Sequence[int], strides: Sequence[int] | None = None, *, dtype: Any = None,
               device: Any = None) -> Tensor:
    """A tensor on memory at an address, which must stay there for as long as the tensor; strides in elements."""
    kind = get_default_dtype() if dtype is None else as_dtype(dtype)
    if device is not None and str(device).partition(":")[0] != "cpu":
        raise RuntimeError(f"_from_blob: the memory of a process is on the CPU, not on {device}")
    steps = contiguous_strides(tuple(sizes)) if strides is None else tuple(strides)
    reach = 0 if 0 in sizes else 1 + sum(s * (n - 1) for n, s in zip(sizes, steps, strict=True))
    held = (ctypes.c_uint8 * (reach * kind.itemsize)).from_address(data_ptr)
    return wrap(np.frombuffer(memoryview(held), np.uint8).view(kind.np)).as_strided(tuple(sizes), tuple(steps))


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor of one dimension on the memory of an object with Python's buffer protocol."""
    _check_flag("frombuffer", "requires_grad", requires_grad)
    kind = as_dtype(dtype)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, size = view.nbytes, kind.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
                             f"multiple of element size ({size})")
        count = (length - offset) // size
    if offset + count * size > length:
        raise ValueError(f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be "
                         f"greater than actual buffer length ({length} bytes)")
    array = np.frombuffer(buffer, np.uint8)[offset : offset + count * size]
    if not array.flags.writeable:
        warn_once("The given buffer is not writable, and PyTorch does not support non-writable tensors. This means "
                  "you can write to the underlying (supposedly non-writable) buffer using the tensor. You may want "
                  "to copy the buffer to protect its data or make it writable before converting it to a tensor. This "
                  "type of warning will be suppressed for the rest of this program.")
        array = writable(array)
    made = on_borrowed(array.view(kind.np))
    return required(made) if requires_grad else made


_device = device  # the functions above have a parameter of that name


def from_file(filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None,
              device: Any = None, requires_grad: bool = False) -> Tensor:
    """The first `size` elements of a file, mapped into memory; if shared, the file is made and writes go into it."""
    kind, count = get_default_dtype() if dtype is None else dtype, size or 0
    storage = UntypedStorage.from_file(filename, bool(shared), count * kind.itemsize)
    array = storage.array((count,), kind.np, 0, (kind.itemsize,))
    return _placed(wrap(array), device, requires_grad)


def _of_numbers(operator: Operator) -> Callable:
    """The kernel of a call without tensors: arithmetic makes one of its first number, the rest refuses."""

    def kernel(*values: Any) -> Any:
        if operator.declaration is not None and operator.declaration.of_numbers:
            return call_bound(operator, (tensor(values[0]), *values[1:]))
        shown = ", ".join(type(v).__name__ for v in values if v is not None)
        raise TypeError(f"{operator.schema.base_name}() received an invalid combination of arguments - got ({shown}), "
                        f"but expected: {operator.schema}")

    return kernel


registry.of_numbers = _of_numbers  # type: ignore[method-assign]
