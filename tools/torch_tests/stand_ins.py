"""Lets PyTorch's test files be imported on the library: infrastructure from the checkout, stand-ins for what is absent.

A stand-in is a class, so that it can be imported, subclassed and asked for further names. While a file is imported it
serves as a decorator too; once tests run, calling it raises `Absent`, so that a test of what is absent says of what.
"""

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import types

# Questions about the build and switches around tests that have nothing to switch here; given only where absent.
ANSWERS = {
    "torch._C._GLIBCXX_USE_CXX11_ABI": False,
    "torch._C._crash_if_asan": lambda n=0: 0,
    "torch._C._get_cpu_capability": lambda: "DEFAULT",
    "torch._C._get_privateuse1_backend_name": lambda: "privateuseone",
    "torch._C._has_cuda": False,
    "torch._C._has_magma": False,
    "torch._C._has_mkldnn": True,
    "torch._C._has_mps": False,
    "torch._C._has_xpu": False,
    "torch._C._jit_clear_class_registry": lambda: None,
    "torch._C._jit_set_emit_hooks": lambda *hooks: None,
    "torch._C._jit_set_num_profiled_runs": lambda count: 0,
    "torch._C._jit_set_profiling_executor": lambda on: False,
    "torch._C._get_graph_executor_optimize": lambda on=None: False,
    "torch._C.has_lapack": True,
    "torch._C.has_mkl": False,
    "torch._C.has_openmp": True,
    "torch._C.has_spectral": True,
    "torch._nnpack_available": lambda: False,
    "torch._utils._is_privateuse1_backend_available": lambda: False,
    "torch._utils_internal.IS_FBSOURCE": False,
    "torch.backends.disable_global_flags": lambda: None,
    "torch.backends.python_native.available_dsls": [],
    "torch._dynamo.is_dynamo_supported": lambda: False,
    "torch.jit._recursive.ConcreteTypeStore": object,
    "torch.jit._state._clear_class_state": lambda: None,
    "torch.profiler.itt": types.SimpleNamespace(is_available=lambda: False),
    "torch._inductor.utils.GPU_TYPES": ["cuda", "mps", "xpu", "mtia"],
    "torch.utils._triton.has_triton": lambda: False,
}
# Python of PyTorch that belongs to its tests, or is a table without tensors: it comes from the checkout.
FROM_CHECKOUT = ("torch.testing._internal", "torch.testing._comparison", "torch.testing._utils", "torch._vendor",
                 "torch.utils._import_utils", "torchgen")
importing = True  # False once tests run


class Absent(Exception):
    """A test used something of PyTorch's that the library does not have."""


class _StandInType(type):
    def __call__(cls, *args, **kwargs):
        if "stands_for" not in vars(cls):  # a class of a test file that derives from a stand-in
            return super().__call__(*args, **kwargs)
        if not importing:
            raise Absent(cls.stands_for)
        alone = len(args) == 1 and callable(args[0]) and not kwargs
        return args[0] if alone else lambda decorated: decorated

    def __getattr__(cls, name):
        if name.startswith("__") or name == "pytestmark" or "stands_for" not in vars(cls):
            raise AttributeError(name)
        return stand_in(f"{cls.stands_for}.{name}")

    def __iter__(cls):
        if importing:
            return iter(())
        raise Absent(cls.stands_for)


class _StandInBase(metaclass=_StandInType):
    def __init__(self, *args, **kwargs):
        pass


def stand_in(place):
    """A class that stands for the thing of that dotted name."""
    home, _, name = place.rpartition(".")
    caught = name.endswith(("Error", "Exception", "Warning")) or home.endswith(".exc")
    bases = (_StandInBase, Exception) if caught else (_StandInBase,)
    return _StandInType(name, bases, {"stands_for": place, "__module__": home})


class _Loader:
    """Makes a module that has every name, each a stand-in."""

    @staticmethod
    def create_module(spec):
        return types.ModuleType(spec.name, "A stand-in.")

    @staticmethod
    def exec_module(module):
        def get(name):
            if name.startswith("__"):
                raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
            made = ANSWERS.get(f"{module.__name__}.{name}")
            setattr(module, name, stand_in(f"{module.__name__}.{name}") if made is None else made)
            return getattr(module, name)

        module.__path__, module.__all__, module.__getattr__ = [], [], get


class Finder:
    """Asked before the library's own finder: what lies in the checkout, and the modules that are stood in for."""

    def __init__(self, checkout, absent):
        self.checkout = checkout
        self.absent = absent

    def find_spec(self, name, path=None, target=None):
        if any(name == start or name.startswith(start + ".") for start in FROM_CHECKOUT):
            folder = os.path.join(self.checkout, *name.split(".")[:-1])
            return importlib.machinery.PathFinder.find_spec(name, [folder])
        if any(name == start or name.startswith(start + ".") for start in self.absent):
            return importlib.machinery.ModuleSpec(name, _Loader, is_package=True)
        return None


def _is_module(name):
    """Whether the library has a module, and not only names for what imports it."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, AttributeError):
        return False
    return found is not None and type(found.loader).__name__ != "_AbsentLoader"


def _owner(place):
    """The object that should have the last name of a place, and that name; modules on the way are imported."""
    first, *parts = place.split(".")
    found = sys.modules[first] if first in sys.modules else importlib.import_module(first)
    for count, part in enumerate(parts[:-1], 1):
        try:  # a module may have the name of a function beside it
            found = importlib.import_module(".".join([first, *parts[:count]]))
        except ImportError:
            found = getattr(found, part)
    return found, parts[-1]


def install(checkout, absent):
    """Makes `import torch` the library, with stand-ins for the places in `absent` that it does not have.

    `absent` holds dotted names; `module torch.x` is a module, and everything below it.
    """
    import mindtorch_v2

    mindtorch_v2.install()
    modules = [place.removeprefix("module ") for place in absent if place.startswith("module ")]
    modules += ["torch.jit._recursive", "torch.jit._state", "torch._utils_internal",  # those of answers
                "torch._inductor.codecache", "torch._inductor.exc"]  # and of classes that are asked for more
    modules = [name for name in modules if not _is_module(name)]
    sys.meta_path.insert(0, Finder(checkout, modules))
    for name in modules:
        parent = importlib.import_module(name.rpartition(".")[0])
        if not hasattr(parent, "__path__"):
            parent.__path__ = []  # a module here, a package there
        importlib.import_module(name)
    things = {place: stand_in(place) for place in absent if not place.startswith("module ")}
    for place, value in {**things, **ANSWERS}.items():
        try:
            owner, name = _owner(place)
        except AttributeError:
            continue
        if _lacks(owner, name):
            with contextlib.suppress(TypeError, AttributeError):
                setattr(owner, name, value)


    torch = sys.modules["torch"]
    torch.ops.load_library = _unless_built(torch.ops.load_library)


def _unless_built(load):
    """`load_library`, except for the compiled classes that PyTorch's build makes for its tests."""
    return lambda path: None if "libtorchbind_test" in str(path) else load(path)


def _lacks(owner, name):
    try:
        return isinstance(getattr(owner, name), _StandInType)
    except (AttributeError, RuntimeError):
        return True


def missing(error):
    """The entry for `absent` that would have kept a test file from failing so when it was imported, or None."""
    text = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] in ("torch", "functorch"):
        return f"module {error.name}"
    found = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", text)
    if isinstance(error, ImportError) and found:
        return f"{found[2]}.{found[1]}".replace("mindtorch_v2", "torch")
    refused = re.match(r"mindtorch_v2 has no (torch[\w.]+)\.(?: |$)", text)
    if isinstance(error, NotImplementedError) and refused:
        return f"module {refused[1].rpartition('.')[0]}"
    if isinstance(error, AttributeError) and error.name and error.obj is not None:
        owner = error.obj
        place = getattr(owner, "__name__", "")
        if isinstance(owner, type):
            place = f"{owner.__module__}.{owner.__qualname__}"
        place = str(place).replace("mindtorch_v2", "torch")
        if place.partition(".")[0] in ("torch", "functorch"):
            return f"{place}.{error.name}"
    return None
