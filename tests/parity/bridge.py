"""Carries sample inputs from PyTorch into a library with PyTorch's interface, and its results back."""

import importlib
import inspect
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

# NumPy has no such dtypes: their bits travel as integers of the same width.
CARRIERS = {"bfloat16": "int16", "complex32": "int32", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
WIDER = {"float32": "float64", "complex64": "complex128"}
SPARSE_PARTS = {
    torch.sparse_coo: ("sparse_coo_tensor", ("indices", "values")),
    torch.sparse_csr: ("sparse_csr_tensor", ("crow_indices", "col_indices", "values")),
    torch.sparse_csc: ("sparse_csc_tensor", ("ccol_indices", "row_indices", "values")),
    torch.sparse_bsr: ("sparse_bsr_tensor", ("crow_indices", "col_indices", "values")),
    torch.sparse_bsc: ("sparse_bsc_tensor", ("ccol_indices", "row_indices", "values")),
}
CALLABLES = (types.FunctionType, types.BuiltinFunctionType, type)


class Unavailable(Exception):
    """The library has no counterpart of something that a sample needs."""


def attempt(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """(result, None), or (None, what was raised): code under test may raise anything."""
    try:
        return call(), None
    except (Exception, SystemExit) as error:
        return None, error


def dtype_name(dtype: Any) -> str:
    """'float32' for the float32 of any library."""
    return str(dtype).rsplit(".", 1)[-1]


def find(root: Any, path: str) -> Any:
    """The object at a dotted path below a module or class, importing submodules; None without it."""
    found = root
    for part in path.split("."):
        if not hasattr(found, part) and isinstance(found, types.ModuleType):
            attempt(lambda: importlib.import_module(f"{found.__name__}.{part}"))  # noqa: B023
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def call_without_seeding(op: Callable, *args: Any, **kwargs: Any) -> Any:
    """Stands in for torch.testing's wrapper that seeds: the runner seeds both libraries itself."""
    return op(*args, **kwargs)


class Globals(dict):
    """Globals of a rebound function: each name is translated when it is first looked up."""

    def __init__(self, original: dict, translate: Callable[[Any], Any]) -> None:
        super().__init__(__builtins__=original.get("__builtins__", __builtins__), __name__=original.get("__name__"))
        self.original, self.translate = original, translate

    def __missing__(self, name: str) -> Any:
        self[name] = self.translate(self.original[name])
        return self[name]


class Bridge:
    """One library's copies of PyTorch values; `leaves` are the copies that require grad, in order."""

    def __init__(self, module: str, double: bool = False) -> None:
        self.library = importlib.import_module(module)
        self.double = double
        self.rebound: dict[int, tuple[Callable, Callable]] = {}
        self.forget()

    def forget(self) -> None:
        """Starts a new sample: equal tensors are copied once per sample."""
        self.copies: dict[int, tuple[Any, Any]] = {}
        self.leaves: list[Any] = []

    # ---- PyTorch to library

    def value(self, item: Any) -> Any:
        """The library's counterpart of any value that occurs in a sample or in torch.testing's code."""
        if isinstance(item, torch.Tensor):
            return self.tensor(item)
        if isinstance(item, torch.Size):
            return self.library.Size(item)
        if type(item) in (list, tuple):
            return type(item)(self.value(part) for part in item)
        if isinstance(item, dict):
            return {key: self.value(part) for key, part in item.items()}
        if isinstance(item, slice):
            return slice(self.value(item.start), self.value(item.stop), self.value(item.step))
        if isinstance(item, (torch.dtype, torch.layout, torch.memory_format)):
            return self.required(dtype_name(item))
        if isinstance(item, torch.device):
            return self.library.device(str(item))
        if isinstance(item, torch.Generator):
            return self.library.Generator().manual_seed(item.initial_seed())
        if isinstance(item, types.ModuleType):
            return self.module(item)
        if isinstance(item, CALLABLES):
            return self.function(item)
        if type(item).__module__.startswith("torch.") and hasattr(item, "__dict__"):
            return self.rebuilt(item)
        return item

    def required(self, name: str) -> Any:
        found = getattr(self.library, name, None)
        if found is None:
            raise Unavailable(f"no {name}")
        return found

    def dense(self, tensor: torch.Tensor) -> Any:
        """A contiguous copy that shares nothing with the original."""
        source = tensor.detach().resolve_conj().resolve_neg().contiguous()
        name = dtype_name(source.dtype)
        if self.double and name in WIDER:
            source = source.to(getattr(torch, WIDER[name]))
        carrier = CARRIERS.get(name)
        array = (source.view(getattr(torch, carrier)) if carrier else source).numpy().copy()
        made = self.library.from_numpy(array)
        return made.view(self.required(name)) if carrier else made

    def tensor(self, tensor: torch.Tensor) -> Any:
        """A copy with the same strides, offset and requires_grad."""
        if id(tensor) in self.copies:
            return self.copies[id(tensor)][1]
        source = tensor.detach()
        if source.layout != torch.strided:
            made = self.sparse(source)
        else:
            stored = source.untyped_storage().nbytes() // source.element_size()
            bits_set = source.is_conj() or source.is_neg()
            if (
                source.numel() == 0
                or bits_set
                or stored > 10**6
                or (source.is_contiguous() and stored == source.numel())
            ):
                made = self.dense(source)
            else:
                whole = self.dense(source.as_strided((stored,), (1,), 0))
                made = whole.as_strided(tuple(source.shape), source.stride(), source.storage_offset()).detach()
        if tensor.requires_grad:
            made.requires_grad_(True)
            self.leaves.append(made)
        self.copies[id(tensor)] = (tensor, made)
        return made

    def sparse(self, source: torch.Tensor) -> Any:
        if source.layout not in SPARSE_PARTS:
            raise Unavailable(f"layout {source.layout}")
        constructor, parts = SPARSE_PARTS[source.layout]
        source = source.coalesce() if source.layout == torch.sparse_coo else source
        return self.required(constructor)(*(self.dense(getattr(source, part)()) for part in parts), tuple(source.shape))

    def module(self, module: types.ModuleType) -> Any:
        if module is torch:
            return self.library
        if not module.__name__.startswith("torch.") or module.__name__.startswith("torch.testing"):
            return module
        found = find(self.library, module.__name__.removeprefix("torch."))
        if found is None:
            raise Unavailable(f"no module {module.__name__.removeprefix('torch.')}")
        return found

    def function(self, item: Callable) -> Any:
        """The library's function or class of the same public path; torch.testing's functions are rebound."""
        home, name = getattr(item, "__module__", None) or "torch", getattr(item, "__qualname__", "")
        if home.startswith("torch.testing"):
            return self.rebind(item) if isinstance(item, types.FunctionType) else item
        prefixes = ("", home.removeprefix("torch") + ".", "nn.functional.", "nn.", "linalg.", "special.")
        for path in (f"{prefix}{name}".lstrip(".") for prefix in prefixes):
            if re.fullmatch(r"[\w.]+", path) and find(torch, path) is item:
                found = find(self.library, path)
                if found is not None:
                    return found
        if home == "torch" or home.startswith("torch."):
            raise Unavailable(f"no counterpart of {home}.{name}")
        return item

    def rebuilt(self, item: Any) -> Any:
        """The library's object of the same class with the same constructor arguments (modules, mostly)."""
        kind = self.function(type(item))
        if kind is type(item):
            return item
        wanted = inspect.signature(type(item).__init__).parameters
        stored = {"p": "norm"}  # PairwiseDistance keeps its p under this name
        names = {name: stored.get(name, name) for name in wanted}
        return kind(**{name: self.value(vars(item)[at]) for name, at in names.items() if at in vars(item)})

    def rebind(self, function: Callable) -> Callable:
        """The same code, with `torch` in its globals, closure and defaults meaning the library."""
        if not isinstance(function, types.FunctionType):
            return self.value(function)
        if function.__name__ == "wrapper_set_seed":
            return call_without_seeding
        if id(function) not in self.rebound:
            cells = tuple(types.CellType() for _ in function.__closure__ or ()) or None
            names = Globals(function.__globals__, self.value)
            made = types.FunctionType(function.__code__, names, function.__name__, None, cells)
            self.rebound[id(function)] = (function, made)
            for cell, original in zip(cells or (), function.__closure__ or (), strict=True):
                cell.cell_contents = self.value(original.cell_contents)
            made.__defaults__ = self.value(function.__defaults__)
            made.__kwdefaults__ = self.value(function.__kwdefaults__)
        return self.rebound[id(function)][1]

    # ---- library to PyTorch

    def back(self, item: Any) -> Any:
        """PyTorch's copy of a result; containers become plain tuples and dicts."""
        if isinstance(item, self.library.Tensor):
            return self.tensor_back(item)
        if isinstance(item, (list, tuple)):
            return tuple(self.back(part) for part in item)
        if isinstance(item, dict):
            return {key: self.back(part) for key, part in item.items()}
        return item

    def tensor_back(self, result: Any) -> torch.Tensor:
        value = result.detach()
        if "sparse" in str(value.layout):
            value = value.to_dense()
        if isinstance(value, torch.Tensor) and value._is_zerotensor():
            value = torch.zeros_like(value)
        for plain in ("resolve_conj", "resolve_neg"):
            value = getattr(value, plain, lambda: value)()  # noqa: B023
        name = dtype_name(value.dtype)
        carrier = CARRIERS.get(name)
        array = np.array((value.view(self.required(carrier)) if carrier else value).numpy())
        if array.dtype != np.dtype(carrier or name) or array.shape != tuple(result.shape):
            raise TypeError(
                f"a {name} tensor of shape {tuple(result.shape)} has a {array.dtype} array of {array.shape}"
            )
        made = torch.from_numpy(array)
        return made.view(getattr(torch, name)) if carrier else made
