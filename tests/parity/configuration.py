"""Short programs of one module, operator, optimizer or distribution, run in two libraries and compared.

A configuration is a list of lines of Python over `torch`, `nn`, `F`, `np`, `math` and `back` (see Side). Lines that
matter are calls whose arguments are known apart, so that one of them can be replaced (random_bad_classes.py).
"""

import importlib
import math
import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._comparison import default_tolerances

OF_KERNELS = re.compile("oneDNN|performance|beta")  # what PyTorch says of its kernels, once in a process
HALVES = ("float16", "bfloat16", "complex32")


@dataclass
class Call:
    """`callee(*args, **kwargs)` as source, assigned to `target` if it has one."""

    callee: str
    args: list[str] = field(default_factory=list)
    kwargs: dict[str, str] = field(default_factory=dict)
    target: str = ""

    def __str__(self) -> str:
        arguments = ", ".join([*self.args, *(f"{name}={value}" for name, value in self.kwargs.items())])
        return (f"{self.target} = " if self.target else "") + f"{self.callee}({arguments})"


Line = Call | str


@dataclass
class Configuration:
    """Lines to run, and what they are about."""

    name: str
    lines: list[Line]

    def source(self) -> str:
        return "\n".join(map(str, self.lines))


class Draw(random.Random):
    """Random pieces of source."""

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random() < chance

    def some(self, chance: float = 0.4, **choices: Any) -> dict[str, str]:
        """Some of the keywords, each with one of its values as source."""
        return {name: str(self.choice(values)) for name, values in choices.items() if self.maybe(chance)}

    def dtype(self, *further: str) -> str:
        return self.choice(["float32"] * 8 + ["float64"] * 2 + ["bfloat16", *further])

    def filled(self, template: str) -> str:
        """The template with each `{a|b|c}` replaced by one of its parts."""
        return re.sub(r"\{([^{}]*\|[^{}]*)\}", lambda found: self.choice(found[1].split("|")), template)

    def shape_in_memory(self, shape: tuple[int, ...]) -> tuple[str, str]:
        """A shape to make, as source, and what turns it into `shape`, as source: the result may be non-contiguous."""
        kinds = [""] * 8
        if len(shape) > 1:
            kinds += ["transpose", "transpose", "step", "permute"]
        if shape:
            kinds += ["offset", "step"]
        if len(shape) in (4, 5):
            kinds += ["channels_last"] * 3
        kind = self.choice(kinds)
        if kind == "transpose":
            return listed((*shape[:-2], shape[-1], shape[-2])), ".transpose(-1, -2)"
        if kind == "permute":
            return listed((*shape[1:], shape[0])), f".permute({listed((len(shape) - 1, *range(len(shape) - 1)))})"
        if kind == "step":
            return listed((*shape[:-1], 2 * shape[-1])), "[..., ::2]"
        if kind == "offset":
            return listed((shape[0] + 1, *shape[1:])), "[1:]"
        if kind == "channels_last":
            return listed(shape), f".to(memory_format=torch.channels_last{'_3d' * (len(shape) == 5)})"
        return listed(shape) or "()", ""

    def tensor(
        self, shape: tuple[int, ...], dtype: str = "float32", make: str = "randn", grad: float = 0.7, device: str = ""
    ) -> str:
        """Source of a tensor of random numbers, in some memory layout, that may need grad."""
        made, layout = self.shape_in_memory(shape)
        kind = "" if dtype == "float32" else f", dtype=torch.{dtype}"
        place = f', device="{device}"' if device else ""
        needs = ".requires_grad_()" if self.maybe(grad) else ""
        return f"torch.{make}({made}{kind}{place}){layout}{needs}"

    def ints(self, shape: tuple[int, ...], high: int, low: int = 0, dtype: str = "int64") -> str:
        kind = "" if dtype == "int64" else f", dtype=torch.{dtype}"
        return f"torch.randint({low}, {high}, {shape}{kind})"

    def seeding(self) -> str:
        return f"torch.manual_seed({self.randrange(1000)})"


def listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


@dataclass
class Raised:
    """What a line raised, and which."""

    line: int
    type: str
    text: str
    error: BaseException


class Side:
    """One library and the variables that a configuration left in it."""

    def __init__(self, module: str) -> None:
        self.library = importlib.import_module(module)
        self.module = module

    def run(self, configuration: Configuration) -> Raised | None:
        """Runs the lines; what the first failing one raised. `names`, `warned` hold what remains."""
        self.names: dict[str, Any] = {
            "torch": self.library,
            "nn": self.library.nn,
            "F": self.library.nn.functional,
            "np": np,
            "math": math,
            "back": self.back,
        }
        self.library.set_grad_enabled(True)
        self.library.autograd.set_detect_anomaly(False)
        given = set(self.names) | {"__builtins__", "__warningregistry__"}
        raised = None
        np.random.seed(0)
        random.seed(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number, line in enumerate(configuration.lines):
                try:
                    exec(str(line), self.names)
                except Exception as error:  # noqa: BLE001 - either library may raise anything: that is what is compared
                    raised = Raised(number, type(error).__name__, str(error), error)
                    break
        self.warned = sorted(
            {
                w.category.__name__
                for w in caught
                if not OF_KERNELS.search(str(w.message))
                and w.category not in (ResourceWarning, DeprecationWarning, ImportWarning)
            }
        )
        self.names = {name: value for name, value in self.names.items() if name not in given}
        return raised

    def back(self, *outputs: Any) -> None:
        """Runs backward from every tensor in `outputs` that needs grad, with a gradient whose elements differ."""
        tensors = [t for t in self.tensors_in(outputs) if t.requires_grad]
        grads = []
        for t in tensors:
            wave = self.library.from_numpy(np.cos(np.arange(t.numel(), dtype=np.float64)).reshape(tuple(t.shape)))
            grads.append(wave.to(t.device).to(t.dtype))
        if tensors:
            self.library.autograd.backward(tensors, grads)

    def tensors_in(self, value: Any) -> Iterator[Any]:
        if isinstance(value, self.library.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            for part in value:
                yield from self.tensors_in(part)
        elif isinstance(value, dict):
            yield from self.tensors_in(list(value.values()))

    def seen(self) -> dict[str, Any]:
        """Everything that can be seen of the variables, by path."""
        found: dict[str, Any] = {}
        for name, value in self.names.items():
            self.look_at(name, value, found, depth=0)
        found["warnings"] = self.warned
        return found

    def look_at(self, path: str, value: Any, found: dict[str, Any], depth: int) -> None:
        library = self.library
        if isinstance(value, library.Tensor):
            self.look_at_tensor(path, value, found, depth)
        elif isinstance(value, library.nn.Module):
            found[f"repr({path})"] = repr(value)
            found[f"{path}.training"] = value.training
            for kind in ("named_parameters", "named_buffers"):
                for name, tensor in getattr(value, kind)():
                    self.look_at(f"{path}.{name}", tensor, found, depth + 1)
            found[f"{path}.state_dict()"] = list(value.state_dict())
        elif isinstance(value, (library.optim.Optimizer, library.optim.lr_scheduler.LRScheduler)):
            found[f"repr({path})"] = re.sub(r"0x\w+", "", repr(value)).replace("mindtorch_v2.", "torch.")
            self.look_at(f"{path}.state_dict()", value.state_dict(), found, depth + 1)
        elif isinstance(value, library.distributions.Distribution):
            found[f"repr({path})"] = repr(value)
        elif isinstance(value, dict):
            found[f"keys of {path}"] = sorted(str(key) for key in value)
            for key, part in value.items():
                self.look_at(f"{path}[{key!r}]", part, found, depth + 1)
        elif isinstance(value, (list, tuple)):
            found[f"{path} is"] = f"{type(value).__name__} of {len(value)}"
            for i, part in enumerate(value):
                self.look_at(f"{path}[{i}]", part, found, depth + 1)
        elif isinstance(value, (int, float, complex, str, bool, type(None))):
            found[path] = value
        elif isinstance(value, (np.ndarray, np.generic)):
            found[path] = np.asarray(value)
        else:
            found[f"type of {path}"] = type(value).__name__

    def look_at_tensor(self, path: str, tensor: Any, found: dict[str, Any], depth: int) -> None:
        kind = dtype_name(tensor.dtype)
        what = f"{type(tensor).__name__} {kind} {tuple(tensor.shape)} {tensor.device}"
        if type(tensor).__name__.startswith("Uninitialized"):
            found[path] = type(tensor).__name__
            return
        if tensor.layout == self.library.strided:
            if tensor.numel() and tensor.device.type != "meta":  # whose strides are a compiler's in PyTorch
                pairs = zip(tensor.shape, tensor.stride())
                what += f" strides {[stride for size, stride in pairs if size > 1]}"
        else:
            what += f" {tensor.layout}".replace("mindtorch_v2", "torch")
        found[f"{path} is"] = what + " needs grad" * tensor.requires_grad + " leaf" * tensor.is_leaf
        if tensor.device.type != "meta":
            found[path] = Values(kind, as_array(tensor.detach()))
        if tensor.is_leaf and tensor.requires_grad:
            if tensor.grad is None:
                found[f"{path}.grad"] = None
            else:
                self.look_at_tensor(f"{path}.grad", tensor.grad, found, depth=9)

    def shared(self) -> list[tuple[str, str]]:
        """The pairs of variables that share memory."""
        tensors = {}
        for name, value in self.names.items():
            for i, tensor in enumerate(self.tensors_in(value)):
                if tensor.layout == self.library.strided and tensor.device.type == "cpu" and tensor.numel():
                    tensors[f"{name} {i}"] = tensor.untyped_storage().data_ptr()
        return [(a, b) for a in tensors for b in tensors if a < b and tensors[a] == tensors[b]]


@dataclass
class Values:
    """A tensor's numbers, with the name of their type."""

    dtype: str
    array: np.ndarray


def dtype_name(dtype: Any) -> str:
    return str(dtype).rsplit(".", 1)[-1]


def as_array(tensor: Any) -> np.ndarray:
    if not str(tensor.layout).endswith("strided"):
        tensor = tensor.to_dense()
    if dtype_name(tensor.dtype) in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        tensor = tensor.float()
    return np.array(tensor.numpy(force=True))  # also of a ZeroTensor


def same_values(expected: np.ndarray, got: np.ndarray, dtype: str, widen: float = 1.0) -> bool:
    """Whether numbers are equal up to rounding, as torch.testing.assert_close judges it.

    Its rtol counts against an element and against the largest of its tensor, since sums in another order err by a part
    of their largest terms.
    """
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(expected, got))
    rtol, atol = default_tolerances(getattr(torch, dtype))
    if dtype in HALVES:  # formulas round at each of their steps
        widen *= 4
    with np.errstate(all="ignore"):
        one, other = (a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in (expected, got))
        finite = np.abs(one[np.isfinite(one)])
        slack = max(atol, rtol * float(finite.max(initial=0))) * widen
        return bool(np.allclose(other, one, rtol=rtol * widen, atol=slack, equal_nan=True))


def shown(value: Any) -> str:
    if isinstance(value, Values):
        value = value.array
    text = np.array2string(value, threshold=12, precision=9) if isinstance(value, np.ndarray) else repr(value)
    return " ".join(text.split())[:300]


def value_difference(expected: Any, got: Any, widen: float) -> bool:
    if isinstance(expected, Values) and isinstance(got, Values):
        return not same_values(expected.array, got.array, expected.dtype, widen)
    if isinstance(expected, np.ndarray) and isinstance(got, np.ndarray):
        return not (expected.shape == got.shape and same_values(expected, got, str(expected.dtype), widen))
    if isinstance(expected, float) and isinstance(got, float):
        return not (
            expected == got or math.isclose(expected, got, rel_tol=1e-9) or (math.isnan(expected) and math.isnan(got))
        )
    if isinstance(expected, str) and isinstance(got, str):
        return NUMBER.sub(rounded, expected) != NUMBER.sub(rounded, got)
    return type(expected) is not type(got) or expected != got


NUMBER = re.compile(r"\d+\.\d{4,}")


def rounded(found: re.Match) -> str:
    return f"{float(found[0]):.5g}"


def difference(configuration: Configuration, reference: Side, candidate: Side, widen: float = 1.0) -> str | None:
    """In what the two libraries differ after the configuration; None if in nothing."""
    expected, got = reference.run(configuration), candidate.run(configuration)
    if expected is not None or got is not None:
        if expected is None or got is None or expected.type != got.type or expected.line != got.line:
            return f"raises: {told(expected)} expected, got {told(got)}"
        return None
    ones, others = reference.seen(), candidate.seen()
    for path, one in ones.items():
        if path not in others:
            return f"{path}: missing ({shown(one)} expected)"
        if path.endswith(" is") and one != others[path]:
            return f"{path}: {one} expected, got {others[path]}"
    for path, one in ones.items():
        if value_difference(one, others[path], widen):
            return f"{path}: {shown(one)} expected, got {shown(others[path])}"
    if reference.shared() != candidate.shared():
        return f"shared memory: {reference.shared()} expected, got {candidate.shared()}"
    return None


def told(raised: Raised | None) -> str:
    return "nothing" if raised is None else f"{raised.type} in line {raised.line} ({raised.text.splitlines()[:1]})"
