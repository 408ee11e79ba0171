"""Under which names files hold our objects: PyTorch's own, so that either library reads what the other wrote."""

import importlib
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

from .._core.device import layout

_PACKAGE = __package__.partition(".")[0]
# Where PyTorch has what lies in a module of ours; all other modules have the same name there.
_HOMES = {"_core.device": "torch", "_core.dtype": "torch", "_compat.tensor_types": "torch",
          "_compat.old_names": "torch", "_core.storage": "torch.storage", "_core.tensor": "torch._tensor",
          "_core.generator": "torch._C", "_autograd.node": "torch.utils.hooks"}
_PLACES = {("torch._tensor", "Tensor"): "torch",
           ("torch.nn.modules.pixelshuffle", "ChannelShuffle"): "torch.nn.modules.channelshuffle"}
# Where to look for what a module named in a file does not have; a prefix of that module's name decides.
_OUR_HOMES = {"torch.nn.modules": "nn", "torch.optim": "optim", "torch.nn.functional": "nn.functional",
              "torch._C._nn": "nn.functional", "torch._C": "", "torch": ""}
# What files of PyTorch may hold that there is not here, by the names that tell so.
_ABSENT_KINDS = {"torch._utils._rebuild_nested_tensor": "nested tensors"}


def torch_name(obj: Any, name: str | None = None) -> tuple[str, str]:
    """Module and name under which PyTorch has the counterpart of one of our objects; others keep their own."""
    name = name or getattr(obj, "__qualname__", None) or obj.__name__
    module = getattr(obj, "__module__", None) or pickle.whichmodule(obj, name)  # type: ignore[attr-defined]
    if module != _PACKAGE and not module.startswith(f"{_PACKAGE}."):
        return module, name
    ours = module[len(_PACKAGE) + 1 :]
    if ours.startswith("nn.functional.") or (not ours and not hasattr(sys.modules[_PACKAGE], name)):
        return "torch.nn.functional", name
    theirs = _HOMES.get(ours) or f"torch.{ours}".rstrip(".")
    return _PLACES.get((theirs, name), theirs), name


def refuse_absent(full_name: str) -> None:
    """Raises if a name in a file stands for a kind of tensor that there is not here."""
    if full_name in _ABSENT_KINDS:
        raise RuntimeError(f"the file holds {_ABSENT_KINDS[full_name]} ({full_name}), which mindtorch_v2 does not have")


def our_object(module: str, name: str) -> Any:
    """What a name out of a PyTorch file stands for here."""
    refuse_absent(f"{module}.{name}")
    homes = [module.removeprefix("torch").lstrip(".")]
    homes += [home for prefix, home in _OUR_HOMES.items() if f"{module}.".startswith(f"{prefix}.")]
    for home in homes:
        try:
            found: Any = importlib.import_module(f"{_PACKAGE}.{home}".rstrip("."))
            for part in name.split("."):
                found = getattr(found, part)
        except (ModuleNotFoundError, AttributeError):
            continue
        return found
    raise AttributeError(f"the file holds an object {module}.{name}, which mindtorch_v2 does not have")


def is_torch(module: str) -> bool:
    return module == "torch" or module.startswith("torch.")


def pickler_class(pickle_module: Any) -> type:
    """A Pickler of a module (pickle, or dill and the like) that writes our objects under PyTorch's names."""
    base: Any = getattr(pickle_module, "_Pickler", pickle_module.Pickler)  # only one in Python can be told how to write

    class Pickler(base):
        def save_global(self, obj: Any, name: str | None = None) -> None:
            if isinstance(obj, layout):
                from .pickled_calls import _get_layout

                self.save_reduce(_get_layout, (str(obj),), obj=obj)
                return
            module, named = torch_name(obj, name)
            if not is_torch(module):
                super().save_global(obj, name)
                return
            if self.proto >= 4:
                self.save(module)
                self.save(named)
                self.write(pickle.STACK_GLOBAL)
            else:
                self.write(pickle.GLOBAL + f"{module}\n{named}\n".encode())
            self.memoize(obj)

        if issubclass(base, pickle._Pickler):
            dispatch: dict[type, Callable] = {
                **base.dispatch, **{kind: _ours_by_name(base.dispatch[kind]) for kind in (types.FunctionType, type)}
            }  # fmt: skip

    return Pickler


def _ours_by_name(others: Callable) -> Callable:
    """How a Pickler saves functions or classes: ours by name, those of others as it does anyway."""

    def save(pickler: Any, obj: Any) -> None:
        if is_torch(torch_name(obj)[0]):
            pickler.save_global(obj)
        else:
            others(pickler, obj)

    return save


def unpickler_class(pickle_module: Any) -> type:
    """An Unpickler of a module that finds our objects under PyTorch's names."""

    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return our_object(module, name) if is_torch(module) else super().find_class(module, name)

    return Unpickler
