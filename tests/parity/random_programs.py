"""Random tensor programs, run line by line in PyTorch and in another library, compared after every line.

    python tests/parity/random_programs.py --module mindtorch_v2 --count 500 --seed 3
    python tests/parity/random_programs.py --reference mindtorch_v2 --device cuda

A program is a list of short byte strings. Each one selects a template (a line of Python with places) and fills its
places from the tensors that the reference has at that moment; the line then runs in both. So every program is readable
source, and dropping or shrinking byte strings leaves a valid program. Lines that raise are part of it: both must raise
the same, and both sides' tensors are compared after it as after any other line.

The reference is PyTorch, or the library itself on the CPU for a comparison with one of its devices.
"""

import argparse
import collections
import contextlib
import copy
import functools
import importlib
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from program_templates import FIRST, GROUP_OF_BYTE, ITEMS, PRELUDE, SCALARS, SHAPES, SURROUNDINGS

STEP_BYTES = 10
SURROUNDED = 8  # of 256 lines, so many stand in each of the surroundings
WILD = 1e6  # larger values are left alone: their rounding errors would drown everything else
# What may be said where there is more than one thing to say.
SEVERAL_REASONS = ("Inplace update to inference", "A view was created", "is a view and", "is not implemented")


class NotApplicable(Exception):
    """The template's places cannot be filled now."""


class Mismatch(AssertionError):
    """The two libraries differ after a line; `kind` says in what, `name` of which tensor if of its values."""

    def __init__(self, kind: str, text: str, name: str = "") -> None:
        super().__init__(text)
        self.kind, self.name = kind, name


@dataclass
class Raised:
    """What a line raised."""

    type: str
    text: str


def normalised(text: str) -> str:
    """An error text without addresses, C++ frames, tips, numbers of nodes, names of tensor types and of the library."""
    text = text.split("\nException raised from")[0].split("\n\nTip: ")[0]
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"(\boutput \d+ of [A-Za-z]+)\d+", r"\1", text)
    text = re.sub(r"\b(?:torch|mindtorch_v2)\.", "", text)
    text = re.sub(r"\b(?:CPU|CUDA)([A-Z]\w*Type)\b", r"\1", text)
    # An index of a tensor that lost its last dimension in place: PyTorch may speak of what it was.
    text = re.sub(r"index -?\d+ is out of bounds for dimension 0 with size \d+$", "select of 0-dim", text)
    text = text.replace("select() cannot be applied to a 0-dim tensor.", "select of 0-dim")
    return re.sub(r"\b(?:c(?:pu|uda)\.)?[A-Z][a-zA-Z]*Tensor\b", "Tensor", text).strip()


@functools.cache
def _compiled_prelude(module: str) -> Any:
    return compile(PRELUDE.format(module=module), "<prelude>", "exec")


class Interpreter:
    """One library with the variables of a program; new tensors are made on its device."""

    def __init__(self, module: str, device: str = "cpu") -> None:
        self.library = importlib.import_module(module)
        self.module, self.device = module, device
        if hasattr(self.library, "set_warn_always"):
            self.library.set_warn_always(True)
        self.names: dict[str, Any] = {"torch": self.library, "copy": copy, "log": [], "modes": []}
        exec(_compiled_prelude(module), self.names)
        self.grad_mode = True

    def execute(self, code: Any) -> tuple[Raised | None, list[str]]:
        """What the line raised, and the categories of its warnings."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.library.set_grad_enabled(self.grad_mode)
            try:
                with contextlib.nullcontext() if self.device == "cpu" else self.library.device(self.device):
                    exec(code, self.names)
                raised = None
            except Exception as error:  # noqa: BLE001 - either library may raise anything: that is what is compared
                raised = Raised(type(error).__name__, normalised(str(error)))
        # Kept here, because PyTorch compared with itself has one mode for both sides.
        self.grad_mode = self.library.is_grad_enabled()
        self.library.set_grad_enabled(True)
        # Python's own ResourceWarning comes whenever something is collected, of whatever line.
        return raised, [w.category.__name__ for w in caught if w.category is not ResourceWarning]

    def tensors(self) -> dict[str, Any]:
        """The program's tensors by name."""
        return {k: v for k, v in self.names.items() if k[0] == "t" and isinstance(v, self.library.Tensor)}

    def __str__(self) -> str:
        name = "PyTorch" if self.module == "torch" else self.module
        return name if self.device == "cpu" else f"{name} on {self.device}"


FIELDS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda t: tuple(t.shape),
    "dtype": lambda t: str(t.dtype).rsplit(".", 1)[-1],
    # Of a dimension without a second element the stride means nothing.
    "stride": lambda t: tuple(s for s, n in zip(t.stride(), t.shape) if n > 1) if t.numel() else (),
    "storage_offset": lambda t: t.storage_offset(),
    "_version": lambda t: t._version,
    "_is_view()": lambda t: t._is_view(),
    "requires_grad": lambda t: t.requires_grad,
    "grad_fn is None": lambda t: t.grad_fn is None,
    "is_leaf": lambda t: t.is_leaf,
    "retains_grad": lambda t: t.retains_grad,
    "is_inference()": lambda t: t.is_inference(),
    "output_nr": lambda t: t.output_nr,
}


def observed(field: Callable[[Any], Any], tensor: Any) -> Any:
    """The field's value, or what reading it raises."""
    try:
        return field(tensor)
    except Exception as error:  # noqa: BLE001 - reading a field of a stale view raises in PyTorch: compared as well
        return Raised(type(error).__name__, normalised(str(error)))


def writable(tensor: Any) -> bool:
    """Whether the tensor is no leaf, nor a view of one, that requires grad."""
    base = tensor._base if tensor._is_view() else tensor
    return not (base.requires_grad and base.is_leaf)


def storage_groups(tensors: dict[str, Any]) -> dict[str, str]:
    """For each tensor that has elements the first one that has the same storage."""
    first: dict[int, str] = {}
    groups = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        if storage.nbytes() > 0 and tensor.numel() > 0:
            groups[name] = first.setdefault(storage.data_ptr(), name)
    return groups


def addresses(tensor: Any) -> set[int]:
    """Where in the storage a tensor's elements lie."""
    places = {tensor.storage_offset()} if tensor.numel() else set()
    for size, stride in zip(tensor.shape, tensor.stride()):
        places = {place + i * stride for place in places for i in range(size)}
    return places


def shared_with_grads(tensors: dict[str, Any]) -> set[tuple[str, str]]:
    """The pairs of a gradient and another tensor that show a common element.

    Elements, not storages: PyTorch may keep the parts of one gradient as the gradients of several leaves.
    """
    by_storage: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return {(one, other) for names in by_storage.values() for one in names for other in names
            if one.endswith(".grad") and one != other
            and not addresses(tensors[one]).isdisjoint(addresses(tensors[other]))}


def overlaps(written: Any, operand: Any) -> bool:
    """Whether an operand shows memory that is written, but not as it is written."""
    one, other = (tensor.untyped_storage().data_ptr() for tensor in (written, operand))
    geometries = [(tensor.shape, tensor.stride(), tensor.storage_offset()) for tensor in (written, operand)]
    return one == other and geometries[0] != geometries[1] and not addresses(written).isdisjoint(addresses(operand))


class Places(dict):
    """Fills a template's places from a step's bytes and the tensors that the reference has now."""

    def __init__(self, program: "Program", choices: bytes) -> None:
        self.program, self.choices = program, iter(choices)

    def below(self, limit: int) -> int:
        return next(self.choices, 0) % limit

    def pick(self, options: Any) -> Any:
        if not options:
            raise NotApplicable
        return options[self.below(len(options))]

    def __missing__(self, place: str) -> str:
        self[place] = str(getattr(self, place.rstrip("2"))())
        return self[place]

    def candidates(self, suits: Callable[[Any], bool] = lambda t: True) -> list[str]:
        """Names of tensors, newest first; of all if none suits."""
        tensors = self.program.reference.tensors()
        tame = [name for name in reversed(tensors) if self.program.magnitude.get(name, 0) < WILD]
        return [name for name in tame if suits(tensors[name])] or tame

    def tensor(self, name: str) -> Any:
        return self.program.reference.names[self[name]]

    # ---- one method for each place

    def new(self) -> str:
        self.program.made += 1
        return f"t{self.program.made - 1}"

    def x(self) -> str:
        return self.pick(self.candidates())

    def w(self) -> str:
        """A tensor to write to: rarely a leaf that requires grad, because that only raises."""
        rarely = self.below(16) == 0
        self["x"] = self.pick(self.candidates(lambda t: rarely or observed(writable, t) is True))
        return self["x"]

    def z(self) -> str:
        return self.pick(self.candidates())

    def y(self) -> str:
        shape = tuple(self.tensor("x").shape)

        def fits(other: Any) -> bool:
            """Whether the other broadcasts to x's shape."""
            sizes = zip(reversed(other.shape), reversed(shape))
            return other.dim() <= len(shape) and all(one in (1, size) for one, size in sizes)

        return self.pick(self.candidates(fits if self.below(16) else lambda t: True))

    def kin(self) -> str:
        """A tensor of the type of x."""
        kind = self.tensor("x").dtype
        return self.pick([n for n in self.candidates() if self.program.reference.names[n].dtype == kind])

    def size(self) -> str:
        return str(self.pick(SHAPES))

    def steps(self) -> str:
        return self.pick(("(1,)", "(2,)", "(3, 1)", "(1, 2)", "()", "(2, 2)", "(0,)"))

    def begin(self) -> int:
        storage = self.tensor("kin").untyped_storage().nbytes() // self.tensor("kin").element_size()
        return self.below(max(1, min(storage, 3)))

    def new_integers(self) -> str:
        return "torch.empty(0, dtype=torch.int64)"

    def same(self) -> str:
        shape = self.tensor("x").shape
        return self.pick(self.candidates(lambda t: t.shape == shape))

    def partner(self) -> str:
        shape = self.tensor("x").shape
        inner = shape[-1] if shape else None
        return self.pick(self.candidates(lambda t: t.dim() > 0 and t.shape[-min(t.dim(), 2)] == inner))

    def tame(self) -> str:
        name = self.pick(self.candidates())
        return name if self.program.magnitude.get(name, 0) < 4 else f"{name}.clamp(-3, 3)"

    def g(self) -> str:
        return self.pick(self.candidates(lambda t: observed(FIELDS["requires_grad"], t) is True))

    def f(self) -> str:
        return self.pick(self.candidates(lambda t: t.is_floating_point()))

    def source(self) -> str:
        return self.pick(self.candidates(lambda t: observed(FIELDS["requires_grad"], t) is True))

    def leaf(self) -> str:
        return self.pick(self.candidates(lambda t: t.requires_grad and observed(FIELDS["is_leaf"], t) is True))

    def handle(self) -> str:
        self.program.handles.append(f"h{len(self.program.handles)}")
        return self.program.handles[-1]

    def old_handle(self) -> str:
        return self.pick([name for name in self.program.handles if name in self.program.reference.names])

    def tag(self) -> str:
        return repr(f"line {len(self.program.lines)}")

    def mode(self) -> str:
        return self.pick(["modes.pop()"] if self.program.reference.names["modes"] else [])

    def flag(self) -> bool:
        return self.pick((True, False))

    def scalar(self) -> float:
        return self.pick(SCALARS)

    def dtype(self) -> str:
        return self.pick(("torch.float64", "torch.float32"))

    def kind(self) -> str:
        return self.pick(("torch.float64", "torch.int64", "torch.float32", "torch.bool"))

    def values(self) -> list:
        shape = self.pick(SHAPES)
        seed = self.below(256)
        numbers = (np.arange(int(np.prod(shape))) * 7 + seed) % 11 - 5
        return (numbers.reshape(shape) / 2).tolist()

    def dim(self) -> int:
        ndim = self.tensor("x").dim()
        return self.pick((*range(ndim), *range(-ndim, 0), *range(ndim), *range(-ndim, 0), ndim))

    def dims(self) -> str:
        ndim = self.tensor("x").dim()
        return self.pick([*map(str, range(ndim)), "-1", str(tuple(range(ndim))), "(0, -1)"])

    def place(self) -> int:
        return self.pick((0, 1, -1, 0, 1, 2))

    def count(self) -> int:
        return self.pick((1, 2, 1, 2, 3))

    def offset(self) -> int:
        return self.pick((0, 1, -1))

    def end(self) -> int:
        return self.pick((0, -1))

    def order(self) -> str:
        dims = list(range(self.tensor("x").dim()))
        random.Random(self.below(256)).shuffle(dims)
        return str(tuple(dims))

    def shape(self) -> str:
        size = self.tensor("x").numel()
        pairs = [(k, size // k) for k in (1, 2, 3) if size % k == 0]
        return str(self.pick([(-1,), (size,), *pairs, (1, -1), (-1, 1), (2, -1, 1), (3, 2)]))

    def wide(self) -> str:
        shape = [self.pick((2, 3)) if size == 1 else size for size in self.tensor("x").shape]
        return str(tuple([2, *shape] if self.below(3) == 0 else shape))

    def strided(self) -> str:
        return self.pick(
            ("(2,), (1,)", "(2, 2), (2, 1)", "(2, 2), (1, 1)", "(2,), (2,), 1", "(1, 2), (1, 2), 0", "(), ()")
        )

    def item(self) -> str:
        return self.pick(ITEMS)


# Not drawn for a device. Modes are the thread's, and there both sides are the same library. Views do not follow a
# storage that grows; bytes of other types are no truth values.
CPU_ONLY = ("modes", "{w}.set_(", "{w}.resize", "{x}.resize", "torch.arange(", "torch.linspace(", "torch.zeros(",
            "torch.full(", "torch.eye(", "torch.cat([{z}", "torch.stack([{z}", "{new} = {x}.view({kind})")  # fmt: skip

# An index that is data is looked at by the CPU before it is used; a device finds it wrong later, if at all.
INDEX_OF_DATA = re.compile(r"index_fill_|\[\[|torch\.tensor\(\[|, \[|backward\(|autograd\.grad\(")
LEAST_INT64 = -(1 << 63)


class Program:
    """Runs the same lines in the reference and in the candidate and compares what can be seen of them."""

    def __init__(self, module: str, error_texts: bool = True, reference: str = "torch", device: str = "cpu") -> None:
        self.reference, self.candidate = Interpreter(reference), Interpreter(module, device)
        self.error_texts, self.device = error_texts, device
        self.made = 0
        self.handles: list[str] = []
        self.lines: list[tuple[str, Raised | None]] = []
        self.magnitude: dict[str, float] = {}
        self.scale, self.precision = 1.0, 1e-12
        self.undefined = self.used_inference = False
        self.first_versions: dict[int, tuple] = {}

    def run(self, steps: list[bytes]) -> "Program":
        """This program, after all its lines; raises Mismatch at the first difference."""
        for number, step in enumerate(steps):
            if self.undefined:
                break
            templates = GROUP_OF_BYTE[step[0] % len(GROUP_OF_BYTE)]
            if number < len(FIRST):
                templates = FIRST[number]
            template = templates[step[1] % len(templates)]
            if self.device == "cpu" or not template.startswith(CPU_ONLY):
                self.step(template, step[2:])
        return self

    def leave(self) -> None:
        """Leaves the modes that the program entered and is still in."""
        for side in (self.reference, self.candidate):
            while side.names["modes"]:
                side.names["modes"].pop().__exit__(None, None, None)

    def left_the_rules(self, raised: Raised | None) -> bool:
        """Whether the reference is in a state its own rules exclude, where its later answers mean nothing.

        `integers[1:] = x` with a 0-dim x that needs grad makes an integer tensor need grad. And some lines trip over an
        assertion inside PyTorch that tells its user to report a bug. A write to an inference tensor is refused after it
        happened. What a float that no integer equals becomes as an
        integer is the machine's choice: the CPU's is the least integer.
        """
        lost = "INTERNAL ASSERT FAILED", "Inplace update to inference"
        if raised is not None and any(text in raised.text for text in lost):
            return True
        if self.used_inference and ".data" in self.lines[-1][0]:
            return True
        marked = [t for t in self.reference.tensors().values() if self.used_inference and t.is_inference()]
        if any(t.requires_grad or isinstance(observed(FIELDS["_version"], t), int) for t in marked):
            return True
        if self.shows_undefined_bits():
            return True
        whole = [t for t in self.reference.tensors().values() if not (t.is_floating_point() or t.is_complex())]
        return any(t.requires_grad for t in whole) or self.device != "cpu" and any(
            (t.detach() == LEAST_INT64).any().item() for t in whole if t.element_size() == 8)

    def shows_undefined_bits(self) -> bool:
        """Whether a bool is neither 0 nor 1, as in memory that another type wrote: what it counts as is an accident."""
        uint8, tensors = self.reference.library.uint8, self.reference.tensors().values()
        return any((t.detach().view(uint8) > 1).any().item() for t in tensors if str(t.dtype) == "torch.bool")

    def is_rounding(self, name: str) -> bool:
        """Whether a tensor shows the bits of floats of another type, which both sides agree on as floats.

        Their last bits are rounding errors, and NaN has many forms.
        """
        ones, others = self.reference.tensors(), self.candidate.tensors()
        if name not in ones:
            return False
        memory, kind = ones[name].untyped_storage().data_ptr(), ones[name].dtype
        kin = [n for n, t in ones.items() if t.untyped_storage().data_ptr() == memory and t.dtype != kind]
        floats = [n for n in kin if ones[n].is_floating_point()]
        return bool(floats) and all(self.agrees(ones[n], others[n]) for n in floats)

    def agrees(self, one: Any, other: Any) -> bool:
        try:
            self.compare_values("values", "", one, other)
        except Mismatch:
            return False
        return True

    def only_the_cpu_sees(self, line: str, raised: Raised | None) -> bool:
        """Whether a line fails on the CPU for an index among data; a GPU may stop for good over it."""
        return (self.device != "cpu" and raised is not None and (raised.type == "IndexError" or "out of" in raised.text)
                and INDEX_OF_DATA.search(line) is not None)

    def changes_saved_indices(self, template: str, places: Places) -> bool:
        """Whether a line changes whole numbers behind autograd's back: a GPU may stop for good over such an index."""
        return self.device != "cpu" and "{w}.data" in template and not places.tensor("w").is_floating_point()

    def step(self, template: str, choices: bytes) -> None:
        places = Places(self, choices[1:])
        try:
            line = template.format_map(places)
        except NotApplicable:
            return
        if self.changes_saved_indices(template, places):
            return
        if choices[0] < len(SURROUNDINGS) * SURROUNDED and ";" not in line and not line.startswith("modes"):
            line = SURROUNDINGS[choices[0] // SURROUNDED] + line
        order_matters = self.order_matters(template, places)
        if "out=" in line and any(not places.tensor(n).is_floating_point() for n in ("y", "z") if n in places):
            self.precision = max(self.precision, 1e-6)  # whole numbers are computed in the default type, then widened
        self.used_inference |= "inference" in line
        room = self.room(places)
        code = compile(line, f"<line {len(self.lines)}>", "exec")
        expected, expected_warnings = self.reference.execute(code)
        self.lines.append((line, expected))
        if self.only_the_cpu_sees(line, expected):
            self.undefined = True
            return
        got, warned = self.candidate.execute(code)
        kind = template.split(" = ", 1)[-1] if template.startswith("{new}") else template
        unwritten = not any(word in line for word in ("fill_", "zero_", "out=")) and self.room(places) > room
        if (expected is None or "out=" in template) and order_matters or unwritten or self.left_the_rules(expected):
            self.undefined = True
            return
        if expected is not None and got is not None and any(
            reason in raised.text for raised in (expected, got) for reason in SEVERAL_REASONS
        ):
            self.undefined = True  # refused for another of several reasons, perhaps half-way through a backward pass
            return
        try:
            self.compare_errors(expected, got)
            if expected is not None and "out=" in template:
                self.undefined = True  # PyTorch may have resized the tensor before it failed
                return
            self.same("warnings", expected_warnings, warned)
            self.compare_tensors()
        except Mismatch as mismatch:
            if mismatch.name and self.is_rounding(mismatch.name):
                self.undefined = True
                return
            text = f"{mismatch}\n\n{self.listing()}"
            raise Mismatch(f"{mismatch.kind:<22} after  {kind}", text) from None

    def room(self, places: Places) -> int:
        """How many bytes the storage has that a line writes to."""
        written = self.reference.tensors().get(places["w"]) if "w" in places else None
        return 0 if written is None else written.untyped_storage().nbytes()

    def order_matters(self, template: str, places: Places) -> bool:
        """Whether a line writes over what it reads: unless PyTorch refuses, the result depends on its loops."""
        # With out=, PyTorch may have resized, and written, what it is about to read; a product reads all for each.
        if "out=" in template or "addmm_" in template:
            tensors = self.reference.tensors()
            memory = tensors[places["w"]].untyped_storage().data_ptr()
            return any(tensors[places[n]].untyped_storage().data_ptr() == memory for n in ("y", "z") if n in places)
        if "tril_" in template or "cumsum_" in template:  # elements in common may be written several times
            return len(addresses(self.reference.tensors()[places["w"]])) < self.reference.names[places["w"]].numel()
        if "{w}" not in template or ("{y}" not in template and "{z}" not in template):
            return False
        tensors = self.reference.tensors()
        written = tensors[places["w"]].detach()
        if template.startswith("{w}[{item}] ="):
            try:
                part = eval(f"written[{places['item']}]", {"torch": self.reference.library, "written": written})
                written = part if part._is_view() else written
            except IndexError:
                return False
        return any(overlaps(written, tensors[places[name]]) for name in ("y", "z") if name in places)

    def same(self, kind: str, expected: Any, got: Any, where: str = "") -> None:
        if expected != got:
            raise Mismatch(kind, f"{where or kind}: {expected} in {self.reference}, {got} in {self.candidate}")

    def compare_errors(self, expected: Raised | None, got: Raised | None) -> None:
        self.same("raises", expected and expected.type, got and got.type, f"raises ({expected or got})")
        if self.error_texts and expected and got:
            self.same("error text", expected.text, got.text)

    def compare_tensors(self) -> None:
        """Compares everything that can be seen of all tensors, their gradients, and the log of the hooks."""
        ones, others = self.reference.tensors(), self.candidate.tensors()
        self.same("variables", sorted(ones), sorted(others))
        self.same("grad mode", self.reference.grad_mode, self.candidate.grad_mode)
        for name in list(ones):
            one, other = ones[name], others[name]
            for field, read in FIELDS.items():
                seen = observed(read, one), observed(read, other)
                counts_own = (self.used_inference or "grad(" in self.lines[-1][0] or id(one) in self.first_versions
                              or one._is_view() and id(one._base) in self.first_versions)
                if field == "_version" and counts_own and all(isinstance(v, int) for v in seen):
                    # What PyTorch makes of inference tensors outside their mode, and gradients, count writes of its
                    # own: only further writes are compared.
                    first = self.first_versions.setdefault(id(one), (one, *seen))
                    seen = seen[0] - first[1], seen[1] - first[2]
                if field == "_is_view()" and self.used_inference and seen[0] is True:
                    continue  # results of inference tensors outside their mode are views of PyTorch's own making
                self.same(field, *seen, f"{name}.{field}")
            self.magnitude[name] = self.compare_values("values", name, one, other)
            if observed(FIELDS["is_leaf"], one) is True or one.retains_grad:
                grad, found = one.grad, other.grad
                self.same("grad is None", grad is None, found is None, f"{name}.grad is None")
                if grad is not None:
                    for field in ("shape", "dtype", "requires_grad", "grad_fn is None"):
                        seen = observed(FIELDS[field], grad), observed(FIELDS[field], found)
                        self.same(f"grad {field}", *seen, f"{name}.grad.{field}")
                    self.compare_values("grad values", f"{name}.grad", grad, found)
                    ones[f"{name}.grad"], others[f"{name}.grad"] = grad, found
        tensors = self.reference.tensors(), self.candidate.tensors()
        self.same("aliasing", *map(storage_groups, tensors))
        self.same("shared gradients", shared_with_grads(ones), shared_with_grads(others))
        if not self.used_inference:
            self.same("bases", *map(self.bases, tensors))
        logs = self.reference.names["log"], self.candidate.names["log"]
        self.same("hook calls", *([tag for tag, _ in log] for log in logs))
        for (tag, one), (_, other) in zip(*logs):
            self.compare_values("hook values", f"the gradient logged by {tag}", one, other)

    def bases(self, tensors: dict[str, Any]) -> dict[str, str]:
        """For each view the name of its base, where it has one."""
        names = {id(tensor): name for name, tensor in tensors.items()}
        views = {name: tensor._base for name, tensor in tensors.items() if tensor._is_view()}
        return {name: names.get(id(base), "unnamed") for name, base in views.items()}

    def compare_values(self, kind: str, where: str, one: Any, other: Any) -> float:
        """The largest finite value; raises Mismatch if the arrays differ."""
        if str(one.dtype) == "torch.bfloat16" == f"torch.{other.dtype}".replace("torch.torch", "torch"):
            one, other, self.precision = one.detach().float(), other.detach().float(), 2e-2
        # Copies, since memory that NumPy has seen can no longer be resized in PyTorch.
        expected, got = one.detach().clone().numpy(), other.detach().cpu().clone().numpy()
        self.same(kind, (expected.shape, expected.dtype), (got.shape, got.dtype), where)
        if expected.dtype.kind != "f":
            if not np.array_equal(expected, got):
                raise Mismatch(kind, f"{where}: {expected.tolist()} in {self.reference}, {got.tolist()} in "
                                     f"{self.candidate}", where)
            return float(np.abs(expected, dtype=np.float64).max(initial=0)) if expected.dtype != bool else 1.0
        if expected.dtype == np.float32:
            self.precision = 1e-5
        sizes = np.abs(expected[np.isfinite(expected)])
        largest = float(sizes.max(initial=0))
        self.scale = max(self.scale, largest)
        if not np.array_equal(expected, got, equal_nan=True):
            slack = self.precision * self.scale
            if not np.allclose(got, expected, rtol=slack, atol=slack, equal_nan=True):
                raise Mismatch(kind, f"{where}: {expected.tolist()} in {self.reference}, {got.tolist()} in "
                                     f"{self.candidate}", where)
        return largest

    def listing(self) -> str:
        """The program as source for either library; the last line is where they differ."""
        made = [] if self.device == "cpu" else [f'torch.set_default_device("{self.device}")']
        first = f"import torch  # or: import {self.candidate.module} as torch"
        return "\n".join(["import copy", first, *made, *self.source()])

    def source(self) -> Iterator[str]:
        yield "log, modes = [], []"
        for line, raised in self.lines:
            if raised is None:
                yield line
            else:
                first = raised.text.splitlines()[0] if raised.text else ""
                yield from (f"try: {line}", f"except {raised.type} as error: print(error)  # {first}")


Found = tuple[list[bytes], Mismatch]
Make = Callable[[], Program]  # a program that has not begun


def shortened(make: Make, found: Found) -> Mismatch:
    """The same kind of mismatch from as few steps as dropping one at a time leaves."""
    steps, smallest = found
    for place in reversed(range(len(steps))):
        shorter = steps[:place] + steps[place + 1 :]
        again = mismatch_of(make, shorter)
        if again is not None and again.kind == smallest.kind:
            steps, smallest = shorter, again
    return smallest


def mismatch_of(make: Make, steps: list[bytes]) -> Mismatch | None:
    program = make()
    try:
        program.run(steps)
    except Mismatch as mismatch:
        return mismatch
    finally:
        program.leave()
    return None


def drawn(seed: int, count: int, length: int = 20) -> Iterator[list[bytes]]:
    """Programs of a seed, each of 4 to `length` steps."""
    source = random.Random(seed)
    for _ in range(count):
        yield [source.randbytes(STEP_BYTES) for _ in range(source.randint(4, length))]


def differing(make: Make, programs: Iterable[list[bytes]]) -> dict[str, list[Found]]:
    """The programs that run differently, by the kind of difference; the most frequent kind first."""
    found: dict[str, list[Found]] = collections.defaultdict(list)
    for steps in programs:
        mismatch = mismatch_of(make, steps)
        if mismatch is not None:
            found[mismatch.kind].append((steps, mismatch))
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def report(make: Make, found: dict[str, list[Found]], show: int = 5) -> str:
    """A shortened program for each of the first kinds of difference, then how many programs each kind has."""
    shown = [f"==== {kind}\n{shortened(make, min(programs, key=lambda found: len(found[0])))}\n"
             for kind, programs in list(found.items())[:show]]
    return "\n".join([*shown, *(f"{len(programs):>5}  {kind}" for kind, programs in found.items())])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="mindtorch_v2")
    parser.add_argument("--count", type=int, default=500, help="programs to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=20, help="most steps of a program")
    parser.add_argument("--show", type=int, default=5, help="kinds of mismatch to show in full")
    parser.add_argument("--any-error-text", action="store_true", help="compare only the types of errors")
    parser.add_argument("--reference", default="torch", help="the module to compare with")
    parser.add_argument("--device", default="cpu", help="where the compared module makes its tensors")
    options = parser.parse_args()
    make = functools.partial(Program, options.module, not options.any_error_text, options.reference, options.device)
    programs: Iterable[list[bytes]] = drawn(options.seed, options.count, options.length)
    if sys.stderr.isatty():
        from tqdm import tqdm

        programs = tqdm(programs, total=options.count)
    found = differing(make, programs)
    print(report(make, found, options.show))
    print(f"{sum(map(len, found.values()))} of {options.count} programs differ, in {len(found)} ways")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
