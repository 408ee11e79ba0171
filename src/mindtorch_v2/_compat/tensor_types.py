"""The constructors of PyTorch's first years: torch.Tensor(2, 3), torch.LongTensor([1]), x.type("torch.FloatTensor")."""

import re
from typing import Any

import numpy as np

from .._backends.cuda.runtime import UNAVAILABLE, is_available
from .._core.allocation import allocates
from .._core.device import CPU, device, get_default_device, set_default_device, sparse_coo
from .._core.dtype import (
    BOOL,
    CPP_NAMES,
    OF_ARRAY,
    bfloat16,
    bool_,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from .._core.from_data import _fresh
from .._core.sparse import LAYOUT_NAMES
from .._core.storage import TypedStorage, UntypedStorage
from .._core.tensor import Tensor, legacy_constructor, wrap
from .._core.warn import warn_once
from .._dispatch.dispatcher import dispatch
from .._dispatch.keys import COO_MASK, SPARSE_MASK
from .._ops._declare.rules import Spec
from .._ops.copy import converted, unwritten
from .._ops.create import checked_size

_FORMS = """new() received an invalid combination of arguments - got ({got}), but expected one of:
 * (*, torch.device device = None)
 * (torch.Storage storage)
 * (Tensor other)
 * (tuple of ints size, *, torch.device device = None)
 * (object data, *, torch.device device = None)
"""


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


@allocates
def legacy_tensor(kind: dtype, args: tuple, where: Any, size: Any = None, *, any_type: bool = False,
                  home: device = CPU) -> Tensor:
    """What the old constructors return: uninitialised memory of a size, or data in the given type.

    A tensor among the arguments has that type, or with `any_type` keeps its own. `where` is the device that a caller
    names, `home` that of the constructor: they must be of one kind.
    """
    if where is not None and device(where).type != home.type:
        raise RuntimeError(f"legacy constructor expects device type: {home.type} but device type: "
                           f"{device(where).type} was passed")
    if size is not None:
        args = tuple(size)
    if not args and size is None:
        args = (0,)
    if all(_is_integer(a) for a in args):
        sizes = checked_size(tuple(int(a) for a in args), "empty")
        if home.type != "cpu":
            return dispatch("aten::empty", sizes, dtype=kind, device=where or home)
        return wrap(unwritten(Spec(sizes, kind)))
    if len(args) > 1:
        wrong = next(i for i, a in enumerate(args) if not _is_integer(a))
        if wrong:
            raise TypeError(f"new(): argument 'size' failed to unpack the object at pos {wrong + 1} with error "
                            f'"type must be tuple of ints,but got {type(args[wrong]).__name__}"')
        raise TypeError(_FORMS.format(got=", ".join(type(a).__name__ for a in args)))
    if any_type and isinstance(args[0], Tensor):
        return args[0].detach()
    made = _of_data(kind, args[0])
    return made if made.device.type == home.type else converted(made, kind, where or home)


def _of_data(kind: dtype, data: Any) -> Tensor:
    if isinstance(data, Tensor):
        if data.dtype is not kind:
            raise TypeError(f"expected a tensor of type {kind}, but got one of {data.dtype}")
        return data.detach()
    if isinstance(data, TypedStorage):
        if data.dtype is not kind:
            raise RuntimeError(f"Expected a Storage of type {kind.scalar_name} or an UntypedStorage, but got type "
                               f"{data.dtype.scalar_name} for argument 1 'storage'")
        data = data.untyped()
    if isinstance(data, UntypedStorage):
        return wrap(np.empty((0,), kind.np)).set_(data)  # type: ignore[attr-defined]
    if hasattr(data, "numel") and isinstance(data, tuple):  # a torch.Size
        return legacy_tensor(kind, tuple(data), None, size=data)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__") or isinstance(data, dict):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    return _fresh(data, kind, CPU, False)


def _construct(cls: type, *args: Any, device: Any = None, size: Any = None) -> Any:
    """`Tensor(...)`, and any subclass that does not have a constructor of its own."""
    made = legacy_tensor(get_default_dtype(), args, device, size, any_type=True)
    return made if cls is Tensor else made._alias(cls)


legacy_constructor.append(_construct)


# torch.FloatTensor and its like --------------------------------------------------------------------------------------


class tensortype(type):
    """The type of torch.FloatTensor and its like: constructors that `isinstance` understands."""

    dtype: dtype
    home: device  # where its tensors are
    is_sparse = False

    @property
    def is_cuda(cls) -> bool:
        return cls.home.type == "cuda"

    def __instancecheck__(cls, instance: Any) -> bool:
        return (isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.device.type == cls.home.type
                and not instance._keys & SPARSE_MASK)

    def __call__(cls, *args: Any, device: Any = None, size: Any = None) -> Tensor:
        cls.require_home()
        if len(args) == 1 and isinstance(args[0], Tensor) and not isinstance(args[0], cls):
            got = args[0]
            raise TypeError(f"expected {_options(cls.dtype, cls.home)} (got {_options(got.dtype, got.device)})")
        return legacy_tensor(cls.dtype, args, device, size, home=cls.home)

    def require_home(cls) -> None:
        """TypeError where the library cannot use the device of this type."""
        if cls.is_cuda and not is_available():
            raise TypeError(f"type torch.cuda.{cls.__name__} not available. {UNAVAILABLE}.")


def _options(kind: dtype, where: device) -> str:
    return (f"TensorOptions(dtype={CPP_NAMES[kind.name]}, device={where}, layout=Strided, requires_grad=false "
            "(default), pinned_memory=false (default), memory_format=(nullopt))")


_KINDS = (float32, float64, float16, bfloat16, uint8, int8, int16, int32, int64, bool_)
_NAMED = {f"{kind.scalar_name}Tensor": kind for kind in _KINDS}
_CONSTRUCTOR = "A tensor of this type, of a size or of data; as a type, that of all such tensors on the device."


def tensor_types(home: str) -> dict[str, tensortype]:
    """FloatTensor and its like of a kind of device, by name."""
    module = "torch" if home == "cpu" else f"torch.{home}"
    return {name: tensortype(name, (), {"dtype": kind, "home": CPU if home == "cpu" else device(home),
                                        "__module__": module, "__doc__": _CONSTRUCTOR})
            for name, kind in _NAMED.items()}  # fmt: skip


TENSOR_TYPES = tensor_types("cpu")
_OLD_NAME = re.compile(r"torch\.(?:(cuda|npu)\.)?(\w+)Tensor")
_BY_SCALAR = {kind.scalar_name: kind for kind in OF_ARRAY.values()}


def _named_type(name: Any) -> tuple[dtype, device] | None:
    """The type of elements and the device that an old name stands for."""
    found = _OLD_NAME.fullmatch(name) if isinstance(name, str) else None
    kind = _BY_SCALAR.get(found[2]) if found else None
    return None if found is None or kind is None else (kind, device(found[1]) if found[1] else CPU)


def type_name(tensor: Tensor) -> str:
    """The old name of a tensor's type, torch.FloatTensor and the like."""
    module = "torch." if tensor.device.type == "cpu" else f"torch.{tensor.device.type}."
    if tensor._keys & SPARSE_MASK:
        if not tensor._keys & COO_MASK:
            raise RuntimeError("Unimplemented backend SparseCsrCPU")
        module += "sparse."
    return f"{module}{tensor.dtype.scalar_name}Tensor"


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The old name of this tensor's type; or the tensor in another, given as dtype, name or class."""
    if dtype is None:
        return type_name(self)
    if isinstance(dtype, tensortype):
        return _as_type(self, dtype.dtype, dtype.home)
    if dtype.__class__ is OF_ARRAY[self._array.dtype].__class__:
        return converted(self, dtype)
    if dtype is Tensor or (isinstance(dtype, str) and dtype == "torch.Tensor"):
        return converted(self, get_default_dtype(), CPU)
    named = _named_type(dtype)
    if named is None:
        if not isinstance(dtype, (str, type)):
            raise TypeError("dtype must be a type, str, or dtype object")
        raise ValueError(f"invalid type: '{dtype if isinstance(dtype, str) else dtype.__name__}'")
    return _as_type(self, *named)


def _as_type(tensor: Tensor, kind: dtype, home: device) -> Tensor:
    """The tensor in another type, on its own device if that is of the right kind."""
    return converted(tensor, kind, tensor.device if tensor.device.type == home.type else home)


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the type of another."""
    if not isinstance(other, Tensor):
        raise TypeError(f"type_as(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    if self.layout is not other.layout:
        raise RuntimeError("to(options) doesn't support converting to a different layout, but got self.layout being "
                           f"{LAYOUT_NAMES.get(self.layout, 'Strided')} and options.layout set as "
                           f"{LAYOUT_NAMES.get(other.layout, 'Strided')}")
    return converted(self, other.dtype, other.device)


def new(self: Tensor, *args: Any, device: Any = None, size: Any = None) -> Tensor:
    """The old constructor, in this tensor's type."""
    if self._keys & SPARSE_MASK:
        return _new_sparse(self, args, size)
    return legacy_tensor(self.dtype, args, device, size, home=self.device)


def _new_sparse(self: Tensor, args: tuple, size: Any) -> Tensor:
    """The old constructor of COO tensors: of a size, or of indices, values and a size."""
    from .._core.sparse_api import sparse_coo_tensor

    if self.layout is not sparse_coo:
        raise RuntimeError("Cannot map DispatchKey SparseCsrCPU to a unique layout.")
    if len(args) in (2, 3) and all(isinstance(a, Tensor) for a in args[:2]):
        return sparse_coo_tensor(*args)
    if len(args) == 1 and isinstance(args[0], list):
        raise TypeError("SparseTensor.new(sequence) only accepts sizes.  Please use torch.sparse_coo_tensor() or "
                        "construct a strided tensor and convert it to sparse via to_sparse.")
    if any(isinstance(a, Tensor) for a in args):
        raise TypeError(_FORMS.format(got=", ".join(type(a).__name__ for a in args)))
    sizes = size if size is not None else args[0] if len(args) == 1 and isinstance(args[0], tuple) else args or (0,)
    return self.new_zeros(tuple(sizes))


def set_default_tensor_type(t: Any) -> None:
    """Sets what Python floats become, and where factories put their results, by the old name or class of a type."""
    warn_once("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() "
              "and torch.set_default_device() as alternatives.")
    named = (t.dtype, t.home) if isinstance(t, tensortype) else _named_type(t)
    if named is None or named[0].category == BOOL:
        raise TypeError(f"invalid type object: {t!r} is not a floating point tensor type")
    if isinstance(t, tensortype):
        t.require_home()
    set_default_dtype(named[0])
    if get_default_device().type != named[1].type:
        set_default_device(named[1])


def typename(obj: Any) -> str:
    """The name of a function or class with its module, of another object that of its type; a tensor's old type name."""
    if isinstance(obj, Tensor):
        return type_name(obj)
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    module, name = getattr(named, "__module__", None) or "", getattr(named, "__qualname__", None) or named.__name__
    return name if module in ("", "builtins") else f"{module}.{name}"
