"""What a device implements. Families make the operators' kernels of it; nothing else asks which device it is.

A device is a folder here with a module `backend` that has a `BACKEND`, or an object that a program registers. One whose
memory an array namespace computes on has every operator, once it gives `xp` and the methods under "arrays".
"""

import importlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from .._core import device as _device
from .._core.device import device
from .._dispatch.keys import BACKEND_MASK, CPU_MASK, DEVICE_MASKS, PRIVATE_MASK, DispatchKey
from .._dispatch.registry import Operator


class Backend:
    """One type of device."""

    type: str  # as in torch.device(type)
    xp: Any = None  # the namespace that `array` functions compute over; None where there is none
    direct = False  # whether the array of a tensor is itself one of that namespace, NumPy's
    wide_statistics = False  # whether norms of half types always give their statistics in float32
    lookups: Any = None  # compiled functions that find plans of calls; None where there are none
    views: Any = None  # compiled functions that make arrays of views; None where there are none
    shared: Any = None  # gives a large array in a form whose elements several threads compute; None where none do

    @property
    def array_xp(self) -> Any:
        """The namespace for functions that get arrays as `shared` gives them, and whose results are `finished`."""
        return self.xp

    # the devices -----------------------------------------------------------------------------------------------

    def require(self, operator: Operator) -> None:
        """Raises unless there is a device that runs an operator."""

    def current_device(self) -> int:
        return 0

    def place(self, named: device | None, args: Sequence[Any]) -> device:
        """Where the result of a call is: the device it names, its first tensor's of this type, the current one."""
        if named is not None and named.type == self.type:
            return named if named.index is not None else device(self.type, self.current_device())
        for arg in args:
            for value in arg if arg.__class__ in (tuple, list) else (arg,):
                if hasattr(value, "_array") and value._device.type == self.type:
                    return value._device
        return device(self.type, self.current_device())

    # memory ----------------------------------------------------------------------------------------------------

    @property
    def storage_class(self) -> Any:
        """The class of the storages of these devices."""
        raise NotImplementedError

    def empty(self, spec: Any, where: Any) -> Any:
        """An uninitialised tensor of the spec's geometry."""
        raise NotImplementedError

    def copy(self, target: Any, source: Any, non_blocking: bool = False) -> None:
        """Writes a tensor into another, broadcast and cast; one of them may be on the host."""
        raise NotImplementedError

    # arrays ----------------------------------------------------------------------------------------------------

    def array_of(self, tensor: Any, where: Any = None) -> Any:
        """The memory of a tensor as an array of the namespace; a CPU tensor is copied to the device first."""
        raise NotImplementedError

    def cast(self, array: Any, kind: Any) -> Any:
        """An array in another type."""
        return array.astype(kind)

    def finished(self, array: Any, spec: Any, where: Any = None) -> Any:
        """What an `array` function made, as a tensor of the type and layout that were inferred."""
        raise NotImplementedError

    # kernels ---------------------------------------------------------------------------------------------------

    def kernel(self, operator: Operator) -> Callable:
        """The kernel that the operator's family makes; devices with kernels of their own look for these first."""
        self.require(operator)
        return operator.declaration.family.kernel(operator, self)

    def inplace_kernel(self, operator: Operator, functional: Operator) -> Callable:
        self.require(operator)
        return functional.declaration.family.inplace_kernel(operator, functional, self)

    def array_function(self, operator: Operator, generic: Callable) -> Callable:
        """The `array` or `compute` function of an operator here; `generic` is its family's."""
        return generic

    def rearranging(self, function: Callable, given: Sequence[Any]) -> Any:
        """A list of what does the same as a function that puts elements of arrays in other places, or None.

        It is for arrays that lie as those given: the first is called, and may become a quicker one.
        """
        return None

    def compiled_pointwise(self, operator: Operator, family: Any, form: Any = "new") -> Any:
        """The compiled forms of a pointwise operator, where arrays are NumPy's; None if there are none.

        `form` says where results go: into "new" arrays, "inplace", or "into" one that stands before the arguments.
        """
        return None

    def together(self, lists: Sequence[Sequence[Any]]) -> Any:
        """Lists of arrays, those at one place of one size, as one array each; None where they are not computed so.

        The second list is only read.
        """
        return None

    def fused_product(self, product: Any, parts: Sequence[Any]) -> Callable | None:
        """What multiplies matrices and takes parts after that, as `_pipeline/products.py` has them, in one call.

        It is given the result's shape, both matrices, the bias and the parts' operands, and gives the result, or None
        where it will not now. None if the device has no such call.
        """
        return None

    def fused_sum(self, operator: Operator, layouts: dict[str, Any], numbers: dict[str, Any]) -> Callable | None:
        """What adds two arrays and gives the sum to an operator whose declaration has a call for that (`of_sums`).

        `layouts` has the `addend` (added to the operator's first argument), the operator's tensors, the `sum` and the
        results by name, `numbers` its other arguments. The function is given the tensors that are read, in this order,
        and gives the sum and the results. None if the device has no such call for these.
        """
        return None


    # plans -----------------------------------------------------------------------------------------------------

    def plan_runner(self, plan: Any, steps: Callable[[Callable[[int], None] | None], Callable]) -> Callable:
        """What runs a plan of the pipeline that is all on one of these devices, as `_pipeline/run.py` calls it.

        `steps(began)` runs the plan's steps one by one, and calls `began` with the number of each before it.
        """
        return steps(None)

    def records(self, kinds: Collection[np.dtype]) -> bool:
        """Whether a pipeline records calls on arrays of these types: others run, or are refused, at once."""
        return True


def parameters_of(function: Callable) -> tuple[str, ...]:
    """The names of a function's parameters."""
    code = getattr(function, "__wrapped__", function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def named_kernel(device_type: str, name: str) -> Any:
    """What a declaration names for a device: `norm.layer_norm` is `layer_norm` in norm.py of the device's `kernels`."""
    module, _, function = name.partition(".")
    return getattr(importlib.import_module(f".{device_type}.kernels.{module}", __package__), function)


_known: dict[str, Backend] = {}
_private: list[str] = []  # the name of the device that a program added


def backend_of(device_type: str) -> Backend:
    """The implementation of a type of device."""
    found = _known.get(device_type)
    if found is None:
        if device_type not in DEVICE_MASKS:
            raise NotImplementedError(f"there is no memory on devices of type '{device_type}'")
        found = _known[device_type] = importlib.import_module(f".{device_type}.backend", __package__).BACKEND
    return found


def host() -> Backend:
    """The device whose arrays are NumPy's."""
    return backend_of("cpu")


def backend_for(key: DispatchKey) -> Backend:
    if key is not DispatchKey.PrivateUse1:
        return backend_of(key.name.lower())
    if not _private:
        raise NotImplementedError("no device was registered for the key PrivateUse1")
    return backend_of(_private[0])


def accelerator_among(mask: int) -> Backend | None:
    """The one device beside the CPU that keys name; None if they name another mixture."""
    others = mask & BACKEND_MASK & ~CPU_MASK
    return next((backend_of(name) for name, own in DEVICE_MASKS.items() if own == others and name != "meta"), None)


def register(backend: Backend) -> None:
    """Adds a device, under the key PrivateUse1; tensors go there by its type's name. There can be one."""
    if _private and _private[0] != backend.type:
        raise RuntimeError(f"torch.register_privateuse1_backend() has already been set! Current backend: {_private[0]}")
    _private[:] = [backend.type]
    _known[backend.type] = backend
    DEVICE_MASKS[backend.type] = PRIVATE_MASK
    _device.add_type(backend.type)


def pins_memory() -> bool:
    """Whether there is a device that page-locked memory is for."""
    from .cuda.runtime import is_available
    from .npu.runtime import why_unavailable

    return is_available() or why_unavailable() is None
