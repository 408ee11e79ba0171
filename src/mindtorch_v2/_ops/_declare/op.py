"""`op` and `composite`: one declaration an operator, from which everything else is derived.

A declaration registers the operator with kernels for each backend, its Autograd kernel, its in-place form with the
same two, and names the public places (`torch`, `Tensor`, `nn.functional`, ...) where it appears.
"""

import bisect
import functools
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any, Literal

from ..._autograd.derive import Derivative, autograd_kernel, make_node_class
from ..._autograd.names import NodeName
from ..._autograd.views import check_inplace, rebase
from ..._core.computed import computed_once
from ..._core.tensor import Tensor
from ..._dispatch.callers import make_caller, make_overloaded
from ..._dispatch.keys import DispatchKey
from ..._dispatch.registry import Around, Operator, registry
from ..._dispatch.schema import Schema
from .aten import AS_DECLARED, Aten
from .batch import DIMENSIONS, Draws, Rule, along_dimensions, decomposed, elementwise
from .composites import Composite
from .documentation import docstring
from .families import Family
from .flops import Flops
from .layouts import kernels_by_layout, layout_kernels
from .out import FAMILYS, Out, takes_out, write_out
from .source import Declared
from .storing import storing

DECLARATIONS: dict[str, "Declaration"] = {}  # by operator name, e.g. "aten::max.dim"
# public place -> name -> the operators behind it, in the order in which their schemas are tried
PUBLIC: dict[str, dict[str, list[Operator]]] = {}
RETURN_TYPES: dict[str, type] = {}
# How an operator runs on an NPU (_backends/npu/families.py); of several rows the first that fits a call is used.
Rows = str | tuple[str, ...] | None
Linear = bool | Literal["each"]


# What autocast does with the arguments (amp/_casts.py): everywhere, or by "cpu" and "accelerators".
Autocast = str | Mapping[str, str] | None


class Fields:
    """What a declaration may say beside the parameters of `op`: keywords of these names."""

    # It makes its own tangents, since it is linear in all tensors that it is derived by together, or in "each" alone.
    linear: Linear = False
    batch: Rule | Draws | None = None  # its rule for vmap, where the schema does not tell it (batch.py)
    autocast: Autocast = None
    flops: Flops | None = None  # how its operations are counted
    node: NodeName = None  # what recorded nodes are called, if not as the operator (_autograd/names.py)
    keeps_zero = False  # of a sparse tensor it need see the values alone
    sharded = ""  # how it runs on pieces of distributed tensors (distributed/tensor/_strategies.py)
    refuses_coo: str | None = None  # what PyTorch says of a COO tensor, if not that there is no kernel
    of_numbers = False  # where numbers stand for all tensors, the first is made one
    # The operators of Python that it is, `__add__` as "add"; one behind a minus takes its operands the other way round,
    # those with an "i" are in place.
    special = ""
    # A view operator that has a form `name_copy`, whose results are none; or the kernels that this form has.
    copied: bool | Mapping[str, str] = False
    # What gives a view's base after a write through the view (_subclasses/functional_views.py): a view of what was
    # written, with the same arguments ("transpose"), an operator that puts it in its place ("select_scatter"), or a
    # function of the write and these arguments.
    inverse: str | Callable[..., Tensor] | None = None
    sized_by_data = False  # the shape of its result follows from elements, unless an argument `output_size` says it
    in_rows: str | None = None  # how a fused step computes it as it goes over rows (_pipeline/recipes.py, row_calls.py)
    # An element of the result out of elements of the operands, for steps that read it: `gathers(g, *args)` in the
    # terms of _kernels/gather.py.
    gathers: Callable | None = None
    # What it is to a device that multiplies matrices and does something with the elements at once
    # (_pipeline/products.py).
    after_product: str | None = None
    # The names of the arguments that it multiplies with, which libraries pack: what is the same from run to run is kept
    # packed (_pipeline/factors.py).
    packs = ""
    # By device, the call that computes a sum and this of it, in a row's language where devices have rows; `addend` and
    # the first argument are added to `sum` (_pipeline/sums.py).
    of_sums: Mapping[str, str] | None = None


_FIELDS = frozenset(name for name in vars(Fields) if not name.startswith("_"))


class Declaration(Fields):
    """What was declared of one operator."""

    def __init__(self, operator: Operator, family: Family, grad: dict[str, Callable], samples: Callable | None,
                 npu: Rows, inplace_of: Operator | None = None, kernels: Mapping[str, str] | None = None,
                 decomposition: Callable | None = None, out: Out | None = FAMILYS, apart: str | None = None,
                 aligned: str | None = None, resizes_expanded: bool | None = None) -> None:
        self.operator, self.family, self.samples, self.npu = operator, family, samples, npu
        self.grad = grad
        self._apart, self._aligned = apart, aligned
        self.resizes_expanded = not family.elementwise if resizes_expanded is None else resizes_expanded
        # device type -> the kernel there that is better than one made of the family (_backends/interface.py), and
        # sparse layout -> its kernel (layouts.py)
        self.kernels: Mapping[str, str] = kernels or {}
        # The same call as other operators: for devices without a kernel, and where the kernel and its formulas will
        # not do, as for tangents and vmap.
        self.decomposition = decomposition
        # What `out=` does; views, and what is no tensor, cannot be stored.
        returned = operator.schema.text.rpartition("->")[2]
        fresh = "Tensor" in returned and "(a" not in returned and "[" not in returned
        self.out = out if out is not FAMILYS else family.out if fresh else None
        self.aten: Aten = AS_DECLARED
        self.inplace_of = inplace_of
        self.inplace: Operator | None = None
        self.public: Callable = operator  # type: ignore[assignment]  # the function users see
        self.node_class: type | None = None
        self.module, self._code, self._instruction = _declaring_statement()

    @property
    def file(self) -> str:
        """The file that it stands in."""
        return self._code.co_filename

    @computed_once
    def line(self) -> int:
        """The line at which the statement begins; looking for it takes a while, so that importing does not."""
        starts, lines = _lines(self._code)
        return lines[bisect.bisect_right(starts, self._instruction) - 1]

    @property
    def kernels_by_layout(self) -> dict[DispatchKey, str]:
        """The names of kernels for sparse layouts, by their keys."""
        return kernels_by_layout(self.kernels, self.keeps_zero)

    @property
    def strategy(self) -> str:
        """The name of how it runs in pieces, its own, its functional form's or its family's; "" if it does not."""
        functional = self if self.inplace_of is None else self.inplace_of.declaration
        return functional.sharded or functional.family.sharded

    @computed_once
    def result_type(self) -> Any:
        """The named tuple of an operator with several outputs; None for a list."""
        return _result_type(self.operator.schema)

    @computed_once
    def sharing(self) -> tuple[tuple[int, bool], ...]:
        """Positions of the operands that may not lie over what is written; with True, only element on element."""
        schema = self.operator.schema
        if self._apart is self._aligned is None:
            return tuple(self.family.sharing(schema))
        named = ((self._apart or "", False), (self._aligned or "", True))
        return tuple((schema.index[name], same) for names, same in named for name in names.split())

    @computed_once
    def derivative(self) -> Derivative | None:
        """The formulas, checked against the schema."""
        return Derivative(self.operator, self.grad) if self.grad else None

    @computed_once
    def batch_rule(self) -> Rule | None:
        """How vmap carries its dimension through: as declared, or where family and schema tell; None if it cannot."""
        if self.inplace_of is not None:
            return self.inplace_of.declaration.batch_rule
        if callable(self.batch):
            return self.batch
        if self.family.elementwise:
            return elementwise
        schema = self.operator.schema
        of_one = sum(a.is_tensor for a in schema.arguments) == 1
        if of_one and not DIMENSIONS.isdisjoint(schema.names):
            return along_dimensions
        return decomposed if self.decomposition is not None else None

    def has_kernel_for(self, tensor: Tensor) -> bool:
        """Whether the tensor's device has a kernel of its own, which composites prefer to the parts they have else."""
        return tensor._device.type in self.kernels

    @property
    def by_parts(self) -> Callable | None:
        """The decomposition, where the formulas need it to be differentiated again: it takes the operator's place."""
        once = any(getattr(formula, "once", False) for formula in self.grad.values())
        return self.decomposition if once else None

    def __repr__(self) -> str:
        return f"<declaration of {self.operator.schema}>"


def _declaring_statement() -> tuple[str, CodeType, int]:
    """Module, code and instruction of the statement that declares an operator: the outermost in the calling module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    module = frame.f_globals
    while frame.f_back is not None and frame.f_back.f_globals is module:
        frame = frame.f_back
    return module["__name__"], frame.f_code, frame.f_lasti


@functools.cache
def _lines(code: CodeType) -> tuple[list[int], list[int]]:
    """The instructions at which another line begins, and those lines."""
    known = [(start, line) for start, _, line in code.co_lines() if line is not None]
    return [start for start, _ in known], [line for _, line in known]


def _result_type(schema: Schema) -> Any:
    """The named tuple of an operator with several outputs; None for a list."""
    if any(r.is_list for r in schema.returns):
        return tuple_of if schema.returns[0].alias else None
    if len(schema.returns) < 2:
        return None
    names = [r.name for r in schema.returns]
    if names[1] == "result1":  # they were given no names
        return lambda *values: tuple(values)
    return named_result(schema.base_name, names)


def named_result(name: str, fields: Sequence[str]) -> Any:
    """The named tuple that an operator of that name returns."""
    kind = RETURN_TYPES.get(name)
    if kind is None:
        members = {"__module__": "torch.return_types", "__slots__": (), "__repr__": _repr_result}
        kind = RETURN_TYPES[name] = type(name, (namedtuple(name, fields),), members)  # type: ignore[misc]
    return kind


def return_type(name: str) -> Any:
    """The named tuple of the operator of that name, or None: they are made when first wanted."""
    if name not in RETURN_TYPES:
        for declaration in DECLARATIONS.values():
            if declaration.operator.schema.base_name == name:
                declaration.result_type  # noqa: B018 - makes it
    return RETURN_TYPES.get(name)


def tuple_of(*values: Any) -> tuple:
    return values


def _repr_result(self: Any) -> str:
    fields = "".join(f"\n{name}={value!r}," for name, value in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}({fields[:-1]})"


def _copy_of(tensor: Tensor) -> Tensor:
    """The value before an in-place write, with its history, for a derivative that needs it."""
    return tensor.clone()


_INPLACE_CONTEXT = {"check_inplace": check_inplace, "rebase": rebase, "copy_of": _copy_of}


def op(schema: str, *, kernel: Family, grad: dict[str, Callable] | None = None, samples: Callable | None = None,
       npu: Rows = None, public: str | None = None, aliases: Iterable[str] = (), inplace: bool | str | None = None,
       mixes_devices: bool = False, inplace_grad: dict[str, Callable] | None = None,
       kernels: Mapping[str, str] | None = None, decomposition: Callable | None = None,
       out: Out | None = FAMILYS, aten: str | Aten = AS_DECLARED, apart: str | None = None,
       aligned: str | None = None, resizes_expanded: bool | None = None, python: bool | str = False,
       old_orders: tuple[str, ...] = (), **fields: Any) -> Operator:
    """Declares an operator.

    - `public` lists the places it appears in, separated by spaces ("torch Tensor nn.functional", "" for none); left
      out, it is `torch`, and `Tensor` too if the first argument is `self`. `aliases` are further names in the same
      places; one with a dot ("special.expit") names its own.
    - `kernels` names, by device type, kernels that are better than what the family makes of itself there:
      `{"cuda": "norm.layer_norm"}` is `layer_norm` of `_backends/cuda/kernels/norm.py`, looked up at the first call.
      Those of sparse layouts stand among them (layouts.py): tensors of a layout without one are refused.
    - `decomposition` is the operator as a function of others, with its arguments in the schema's order.
    - `inplace` says whether there is an in-place form, or names those of its names ("acos_ arccos_") that are functions
      too, and not methods only. `inplace_grad` has its formulas where the functional form has none, as of comparisons.
    - `out` is what `out=` takes and does, where the family's other members differ; None if PyTorch's function has none.
    - `apart` names the operands that may not lie over what is written (in place or by `out=`), `aligned` those that may
      only element on element; left out, the family says it. An expanded tensor of another size is resized as `out=`,
      unless `resizes_expanded` says that it is refused before.
    - `aten`: how ATen has it, or ATen's name of its one overload (aten.py).
    - `python`: PyTorch's function is written in Python, and takes no NumPy spellings; a string names the attribute that
      it reads of its tensor first. `old_orders` are orders of arguments that it takes still (_dispatch/old_orders.py).
    - `fields`: see `Fields`.
    """
    if not fields.keys() <= _FIELDS:
        raise TypeError(f"{schema}: a declaration has no fields {sorted(fields.keys() - _FIELDS)}")
    parsed = Schema(schema, lazy=True)
    parsed.python, parsed.old_orders = python, old_orders
    operator = registry.register_schema(f"{parsed.namespace}::{parsed.name}", parsed)
    operator.mixes_devices = mixes_devices
    declaration = Declaration(operator, kernel, grad or {}, samples, npu, kernels=kernels, decomposition=decomposition,
                              out=out, apart=apart, aligned=aligned, resizes_expanded=resizes_expanded)
    declaration.__dict__.update(fields)
    declaration.aten = Aten(overload=aten) if isinstance(aten, str) else aten
    _register(declaration, kernel.kernels(operator))
    operator.aten_form = declaration.aten.parts
    takes_self = parsed.takes_self
    places = (["torch", "Tensor"] if takes_self else ["torch"]) if public is None else public.split()
    names = (parsed.base_name, *(alias for alias in aliases if "." not in alias))
    for place, name in (alias.rsplit(".", 1) for alias in aliases if "." in alias):
        PUBLIC.setdefault(place, {}).setdefault(name, []).append(operator)
    for place in places:
        for name in names:
            PUBLIC.setdefault(place, {}).setdefault(name, []).append(operator)
    if takes_self and (kernel.inplace if inplace is None else inplace):
        functions = inplace.split() if isinstance(inplace, str) else ()
        _declare_inplace(declaration, names, places, inplace_grad or declaration.grad, functions)
    return operator


def _register(declaration: Declaration, by_key: dict[DispatchKey, Any]) -> None:
    """Gives an operator its declaration, the kernels of devices, and the one that records."""
    operator = declaration.operator
    operator.declaration = DECLARATIONS[operator.name] = declaration
    for key, function in (by_key | layout_kernels(declaration)).items():
        registry.register_kernel(operator.name, key, function)
    if declaration.grad:
        operator.kernels.pop(DispatchKey.FuncTorch, None)  # its own derivative counts, not that of its parts
        registry.register_kernel(operator.name, DispatchKey.Autograd, Around(_autograd))


def _autograd(operator: Operator, below: Callable, mask: int) -> Callable:
    declaration: Declaration = operator.declaration
    assert declaration.derivative is not None
    if getattr(below, "composed", False):  # its parts are recorded
        return below
    if declaration.node_class is None:
        declaration.node_class = make_node_class(operator, declaration.derivative)
    writes = operator.schema.writes
    return autograd_kernel(operator, below, mask, declaration.derivative, declaration.node_class, writes,
                           _INPLACE_CONTEXT if writes else {})


def _declare_inplace(declaration: Declaration, names: Sequence[str], places: Sequence[str],
                     grad: dict[str, Callable], functions: Sequence[str]) -> None:
    """The in-place form: `name_`, a method, and a function where PyTorch has one."""
    functional = declaration.operator
    base, overload = functional.schema.base_name, functional.schema.overload
    name = base + "_" + (f".{overload}" if overload else "")
    text = functional.schema.text.split("(", 1)[1].rsplit("->", 1)[0]
    text = re.sub(r"^Tensor(\(a\)|\|Scalar)? self", "Tensor(a!) self", text)
    schema = Schema(f"{name}({text}-> Tensor(a!)", lazy=True)
    schema.old_orders = functional.schema.old_orders
    operator = registry.register_schema(f"aten::{name}", schema)
    operator.mixes_devices = functional.mixes_devices
    made = Declaration(operator, declaration.family, grad, None, None, inplace_of=functional)
    declaration.inplace, made.aten, made.node = operator, declaration.aten, declaration.node
    _register(made, declaration.family.inplace_kernels(operator, functional))
    for alias in (name + "_" for name in names):
        if "Tensor" in places:
            PUBLIC.setdefault("Tensor", {}).setdefault(alias, []).append(operator)
        if alias in functions:
            PUBLIC.setdefault("torch", {}).setdefault(alias, []).append(operator)


def composite(schema: str, **fields: Any) -> Callable[[Callable], Callable]:
    """Declares an operator that is written as other operators; decorates the function. The fields are those of `op`."""

    def decorate(function: Callable) -> Callable:
        op(schema, kernel=Composite(function), **fields)
        return function

    return decorate


# public names --------------------------------------------------------------------------------------------------------


def public_functions(place: str) -> dict[str, Callable]:
    """The functions of a public place by name; the same object wherever the same operators stand."""
    return {name: _public(operators, is_method=place == "Tensor", has_out=takes_out(place, name, operators[0]))
            for name, operators in PUBLIC.get(place, {}).items()}


def function_of(operator: Operator) -> Callable:
    """The function that calls one operator, for formulas and composites of other operators."""
    return _public([operator])


def public_function(operators: Sequence[Operator]) -> Callable:
    """The function that calls the first of some operators whose schema fits."""
    return _public(operators)


_made: dict[tuple, Callable] = {}


def _public(operators: Sequence[Operator], is_method: bool = False, has_out: bool = True) -> Callable:
    key = (is_method, has_out, *operators)
    function = _made.get(key)
    if function is not None:
        return function
    first = operators[0]
    doc = docstring(operators)
    store = None if not has_out or first.declaration.family.is_view or first.schema.writes else write_out
    plainly = None if store is None else storing
    if len(operators) == 1:
        function = make_caller(first, first.schema.base_name, store, doc, is_method, plainly)
    else:
        function = make_overloaded(first.schema.base_name, operators, store, doc, is_method, plainly)
    function.__wrapped__ = Declared(function, operators, is_method, store is not None)  # type: ignore[attr-defined]
    for operator in operators:
        if is_method or has_out or operator.declaration.public is operator:
            operator.declaration.public = function
    _made[key] = function
    return function
