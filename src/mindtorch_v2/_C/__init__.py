"""The few names of PyTorch's extension module that Python programs use."""

import enum
import importlib
import weakref
from collections.abc import Callable
from typing import Any

from .._compat.absent import absent_class
from .._compat.absent_modules import ABSENT_MODULES
from .._core.determinism import determinism
from .._core.dtype import NAMES
from .._core.generator import Generator
from .._core.marks import is_conjugated as _is_conjugated
from .._core.marks import is_negated as _is_negated
from .._core.marks import is_shared as _is_shared
from .._core.marks import marked as _marked
from .._core.storage import StorageBase  # noqa: F401 - by this name
from .._core.tensor import Tensor, _disabled_torch_dispatch_impl, _disabled_torch_function_impl
from .._core.tensor_base import TensorBase
from .._dispatch.function_schema import FunctionSchema, parse_schema  # noqa: F401 - by these names
from .._dispatch.keys import (
    AUTOGRAD_MASK,
    FUNC_MASK,
    MARKED_MASK,
    PYTHON_MASK,
    TORCH_DISPATCH_MASK,
    VIEW_MASK,
    VMAP_MASK,
    changed_modes,
    modes,
)
from .._dispatch.keys import DispatchKey as _DispatchKey
from .._dispatch.keys import DispatchKeySet as _DispatchKeySet
from .._dispatch.levels import open_levels
from .._ops._declare.op import public_functions
from .._ops.linalg.common import _LinAlgError
from .._torch_dispatch import dispatch_modes

_MODULES = ("_autograd", "_functions", "_functorch", "_profiler")
_HOMES = {"_nn": "nn.functional", "_fft": "fft",
          "_linalg": "linalg", "_special": "special"}

# What the library was built with: the module of torch.backends that knows, or the answer.
_BUILT_WITH: dict[str, str | bool] = {
    "_has_cuda": "cuda", "_has_cudnn": "cudnn", "_has_cusparselt": "cusparselt", "_has_kleidiai": "kleidiai",
    "_has_mkldnn": "mkldnn", "_has_mps": "mps", "has_mkl": "mkl", "has_openmp": "openmp",
    "has_lapack": True, "has_spectral": True,
    "_has_eigen_sparse": False, "_has_magma": False, "_has_mkldnn_acl": False, "_has_xpu": False}

_OF_DISPATCHER = frozenset("""
    _any_output_is_alias_to_input_or_output _any_requires_grad _dispatch_dump _dispatch_find_schema_or_throw
    _dispatch_get_all_op_names _dispatch_has_computed_kernel_for_dispatch_key _dispatch_has_kernel
    _dispatch_has_kernel_for_any_dispatch_key _dispatch_has_kernel_for_dispatch_key
    _dispatch_is_included_in_alias _get_operation_overload _get_schema _jit_get_all_schemas
    _jit_get_operation _jit_get_schemas_for_operator _jit_resolve_packet""".split())


class _Prefixed:
    """A module's functions under the names of the extension: `_linalg.linalg_solve` is `linalg.solve`."""

    def __init__(self, home: str, prefix: str) -> None:
        self._home, self._prefix = home, prefix

    def __getattr__(self, name: str) -> Any:
        if name == "_parse_to":
            parse = importlib.import_module("mindtorch_v2.nn.modules.module")._parse_to
            return lambda *args, **kwargs: parse(args, kwargs)
        if self._home == "nn.functional":
            return _nn_function(name)
        return getattr(importlib.import_module(f"mindtorch_v2.{self._home}"), name.removeprefix(self._prefix))


def _nn_function(name: str) -> Any:
    """A function of `_nn`: it takes the arguments of ATen, which are not always those of nn.functional."""
    if name in (operators := public_functions("_nn")):
        return operators[name]
    functional = importlib.import_module("mindtorch_v2.nn.functional")
    return getattr(functional if hasattr(functional, name) else importlib.import_module("mindtorch_v2").ops.aten, name)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return _Prefixed(_HOMES[name], "" if name == "_nn" else f"{name[1:]}_")
    if name in ABSENT_MODULES["_torchscript"].classes.split():
        return getattr(importlib.import_module("mindtorch_v2._torchscript"), name)
    if name in ("_get_autograd_fallback_mode", "_set_autograd_fallback_mode"):
        return getattr(importlib.import_module("mindtorch_v2.library"), name)
    if name in _OF_DISPATCHER:
        return getattr(importlib.import_module("mindtorch_v2._C._dispatcher"), name)
    if name.startswith(("_jit_set_", "_jit_override_")):
        return _switch_of_torchscript(name)
    if name in _BUILT_WITH:
        return _was_built_with(_BUILT_WITH[name])
    if name == "Tag":
        return importlib.import_module("mindtorch_v2").Tag
    if name in ("_current_autograd_node", "_current_graph_task_id", "_will_engine_execute_node"):
        return getattr(importlib.import_module(f"{__name__}._autograd"), name)
    if name == "_set_fwd_grad_enabled":
        return importlib.import_module("mindtorch_v2.autograd.forward_ad")._switch_fwd_grad
    if name in ("_ConvBackend", "_select_conv_backend"):
        return getattr(importlib.import_module("mindtorch_v2._opaque"), name)
    if name == "_distributed_rpc":
        return importlib.import_module("mindtorch_v2.distributed.rpc.api")
    if name == "_VariableFunctions":
        return importlib.import_module("mindtorch_v2")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


_torchscript_switches: dict[str, Any] = {}


def _switch_of_torchscript(name: str) -> Callable[[Any], Any]:
    """A function that keeps a setting of TorchScript, which nothing here reads, and gives the one before."""

    def switch(value: Any) -> Any:
        before, _torchscript_switches[name] = _torchscript_switches.get(name, False), value
        return before

    return switch


def _was_built_with(backend: str | bool) -> bool:
    if isinstance(backend, bool):
        return backend
    module = importlib.import_module(f"mindtorch_v2.backends.{backend}")
    return module.is_built() if hasattr(module, "is_built") else module.is_available()


def _get_all_dtypes() -> list[Any]:
    """The types of elements, less the quantized ones and those of fewer bits than a byte."""
    return [kind for name, kind in NAMES.items() if name == kind.name and not name.startswith("q")
            and name.lstrip("uint") not in "1234567"]


def _get_deterministic_fill_uninitialized_memory() -> bool:
    return determinism.fill_uninitialized_memory


_set_deterministic_fill_uninitialized_memory = determinism.set_fill


def _get_accelerator(check: bool | None = None) -> Any:
    """The kind of accelerator; the CPU if there is none."""
    accelerator = importlib.import_module("mindtorch_v2.accelerator")
    return accelerator.current_accelerator() or importlib.import_module("mindtorch_v2").device("cpu")


def is_grad_enabled() -> bool:
    return modes.grad_enabled


def _get_tracing_state() -> None:
    """The state of a trace by torch.jit, of which there is none."""


def _is_tracing() -> bool:
    return False


def _is_torch_function_mode_enabled() -> bool:
    return bool(modes.__dict__.get("function_modes"))


def _are_functorch_transforms_active() -> bool:
    return bool(open_levels())


def _is_alias_of(data: Tensor, other: Tensor) -> bool:
    """Whether two tensors lie on one storage."""
    return data.untyped_storage() is other.untyped_storage()


def _is_cow_tensor(data: Tensor) -> bool:
    """Whether a tensor's memory will be copied before it is written (`_lazy_clone`)."""
    return _is_shared(data._storage if data._storage is not None or data._base is None else data._shared_storage())


def _storage_address(data: Tensor) -> int:
    return data.untyped_storage()._cdata


def _data_address(data: Tensor) -> int:
    """The address of the first element, for a reader."""
    return data.const_data_ptr()


def _set_marks(tensor: Tensor, conjugate: bool, negative: bool) -> None:
    tensor._array = _marked(tensor._array, conjugate, negative)
    shown = conjugate or negative or _is_cow_tensor(tensor)
    tensor._keys = tensor._keys | MARKED_MASK if shown else tensor._keys & ~MARKED_MASK


def _set_conj(tensor: Tensor, conj: bool) -> None:
    """Lets a tensor show its memory conjugated, or as it is."""
    if conj != _is_conjugated(tensor._array):
        _set_marks(tensor, conj, _is_negated(tensor._array))


def _set_neg(tensor: Tensor, neg: bool) -> None:
    """Lets a tensor show its memory negated, or as it is."""
    if neg != _is_negated(tensor._array):
        _set_marks(tensor, _is_conjugated(tensor._array), neg)


class _WeakTensorRef:
    """A reference that does not keep a tensor alive."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        return self._reference() is None


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


Event, Stream = (absent_class(f"torch.{name}", f"Use torch.npu.{name}.") for name in ("Event", "Stream"))
PyTorchFileReader = absent_class("torch.PyTorchFileReader", "Use torch.load.")
PyTorchFileWriter = absent_class("torch.PyTorchFileWriter", "Use torch.save.")
_TensorBase = TensorBase
_TensorMeta = type(TensorBase)

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "TensorBase", "_LinAlgError",
           "_disabled_torch_dispatch_impl", "_disabled_torch_function_impl"]


class _Keys:
    """The dispatch keys by PyTorch's names; Autocast is one key for all devices here."""

    def __getattr__(self, name: str) -> _DispatchKey:
        if name == "Python":  # where `__torch_dispatch__` is asked
            return _DispatchKey.PythonDispatch
        if name.startswith("Autocast"):
            return _DispatchKey.Autocast
        if name not in _DispatchKey.__members__:
            raise AttributeError(name)
        return _DispatchKey[name]


DispatchKey = _Keys()


class DispatchKeySet(_DispatchKeySet):
    """A set out of one key, or of several."""

    def __init__(self, keys: Any) -> None:
        keys = _DispatchKey[keys] if isinstance(keys, str) else keys
        super().__init__([keys] if isinstance(keys, _DispatchKey) else keys)


class _ExcludeDispatchKeyGuard(changed_modes):
    """Inside, calls go past these keys."""

    def __init__(self, keys: _DispatchKeySet) -> None:
        super().__init__(exclude=modes.exclude | keys.mask)


class _DisableFuncTorch:
    """Inside, no transform of torch.func is open."""

    def __enter__(self) -> None:
        self.levels, self.include = open_levels(), modes.include
        modes.__dict__["levels"] = []
        modes.update(include=self.include & ~VMAP_MASK)

    def __exit__(self, *exception: object) -> None:
        modes.__dict__["levels"] = self.levels
        modes.update(include=self.include)


class _VmapWarnings:
    """Whether vmap would warn where it runs sample by sample; it does not."""

    enabled = False


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    return _VmapWarnings.enabled


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    _VmapWarnings.enabled = enabled


class _IncludeDispatchKeyGuard(changed_modes):
    """Inside, all calls have these keys, too."""

    def __init__(self, keys: Any) -> None:
        given = DispatchKeySet(keys) if isinstance(keys, (str, _DispatchKey)) else keys
        super().__init__(include=modes.include | given.mask)


def _dispatch_tls_local_include_set() -> _DispatchKeySet:
    return _DispatchKeySet(modes.include)


def _dispatch_tls_local_exclude_set() -> _DispatchKeySet:
    return _DispatchKeySet(modes.exclude)


class _AutoDispatchBelowAutograd(changed_modes):
    """From when it is made until it is left or gone, calls go past autograd."""

    def __init__(self) -> None:
        super().__init__(exclude=modes.exclude | AUTOGRAD_MASK | VIEW_MASK)
        self._entered = False
        super().__enter__()

    def __enter__(self) -> None:
        self._entered = True

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)

    def __del__(self) -> None:
        if not self._entered:
            super().__exit__()


class DisableTorchFunctionSubclass(changed_modes):
    """Inside, subclasses are treated as plain tensors."""

    def __init__(self) -> None:
        super().__init__(exclude=modes.exclude | PYTHON_MASK)


DisableTorchFunction = DisableTorchFunctionSubclass


class _DisableTorchDispatch(changed_modes):
    """Inside, no `__torch_dispatch__` of a class is asked."""

    def __init__(self) -> None:
        super().__init__(exclude=modes.exclude | TORCH_DISPATCH_MASK)


def _is_torch_function_enabled() -> bool:
    return not modes.exclude & PYTHON_MASK


class _TorchFunctionState(enum.Enum):
    """Who is asked before a function runs."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    return _TorchFunctionState.ENABLED if _is_torch_function_enabled() else _TorchFunctionState.SUBCLASSES_DISABLED


def _set_torch_function_state(state: _TorchFunctionState) -> None:
    asked = state is _TorchFunctionState.ENABLED
    modes.update(exclude=modes.exclude & ~PYTHON_MASK if asked else modes.exclude | PYTHON_MASK)


def _len_torch_function_stack() -> int:
    return len(modes.__dict__.get("function_modes", ()))


def _dispatch_isTensorSubclassLike(tensor: Tensor) -> bool:
    """Whether others answer for a tensor: its class, a mode, or a transform of torch.func."""
    return tensor._is_dispatched() or bool(tensor._keys & FUNC_MASK)


def _len_torch_dispatch_stack() -> int:
    return len(dispatch_modes())
