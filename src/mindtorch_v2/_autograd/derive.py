"""The Autograd kernel and the backward Node of an operator, generated from its derivative formulas.

A formula's parameters say what it needs: `grad` (or `grads`, one an output), an argument of the schema, an output by
its name (`result`), `<argument>_shape`, `_strides` (in bytes, None of a sparse one), `_dtype` or `_device`, or `needs`
(which differentiable arguments want a gradient). What is named is saved, nothing else. The key of a formula is an
argument, or several separated by commas for one formula that returns a tuple.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._core.deferred import Deferred
from .._core.dtype import FLOAT, OF_ARRAY
from .._dispatch.callers import compile_function
from .._dispatch.keys import (
    BACKEND_MASK,
    INFERENCE_MASK,
    MARKED_MASK,
    PIPELINE_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    SUBCLASS_MASK,
    TORCH_DISPATCH_MASK,
    WITH_GRAD,
)
from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS
from .names import CONDITION_SCOPE, chosen, name_by_operator, renamed, without_namespace
from .node import (
    FREED,
    SAVED_IN_INFERENCE,
    Node,
    SavedOutput,
    _sequence,
    in_autograd,
    pack_saved,
    packed,
    saving_hooks,
)

SUFFIXES = ("_shape", "_strides", "_dtype", "_device")


@dataclass(frozen=True)
class Formula:
    arguments: tuple[str, ...]  # whose gradients it gives
    function: Callable
    parameters: tuple[str, ...]


class Derivative:
    """The checked formulas of one operator."""

    def __init__(self, operator: Operator, grad: dict[str, Callable]) -> None:
        schema = operator.schema
        outputs = [r.name for r in schema.returns]
        self.formulas = []
        for key, function in grad.items():
            code = function.__code__
            parameters = getattr(function, "parameters", code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
            arguments = tuple(part.strip() for part in key.split(","))
            known = {"grad", "grads", "needs", *schema.names, *outputs}
            known |= {name + suffix for name in schema.names for suffix in SUFFIXES}
            wrong = [n for n in (*parameters, *arguments) if n not in known]
            if wrong:
                raise TypeError(f"{schema}: the derivative names {wrong}, which the schema does not have")
            self.formulas.append(Formula(arguments, function, parameters))
        # In the order of the formulas, which is that of the node's edges: the leaves among them come in it.
        self.differentiable = [schema.arguments[schema.index[name]] for f in self.formulas for name in f.arguments]
        names = [n for f in self.formulas for n in f.parameters if n not in ("grad", "grads", "needs")]
        self.saved = tuple(dict.fromkeys(names))
        self.outputs = outputs

    def users(self, saved: str) -> list[str]:
        """The arguments whose gradient needs this saved value."""
        return [a for f in self.formulas if saved in f.parameters for a in f.arguments]


_EDGE = "((({t}._edge or ({t}, -1)) if {t}._base is None else {t}._recording_edge()) if {need} else None)"
_VERSION = "(0 if {t}._counter is None else {t}._counter.value)"


def _needs_lines(derivative: Derivative) -> list[str]:
    lines = []
    for a in derivative.differentiable:
        if a.is_list:
            value = f"any(t is not None and t._keys & {REQUIRES_GRAD} for t in {a.name})"
        elif a.type == "Tensor|Scalar":
            value = f"{a.name}.__class__ not in NUMBERS and {a.name}._keys & {REQUIRES_GRAD}"
        elif a.optional:
            value = f"{a.name} is not None and {a.name}._keys & {REQUIRES_GRAD}"
        else:
            value = f"{a.name}._keys & {REQUIRES_GRAD}"
        if a.optional and a.type == "Tensor|Scalar":
            value = f"{a.name} is not None and {value}"
        lines.append(f"need_{a.name} = {value}")
    return lines


def _edges(derivative: Derivative) -> str:
    parts = []
    for a in derivative.differentiable:
        if a.is_list:
            each = _EDGE.format(t="t", need=f"t is not None and t._keys & {REQUIRES_GRAD}")
            parts.append(f"*[{each} for t in {a.name}]")
        else:
            parts.append(_EDGE.format(t=a.name, need=f"need_{a.name}"))
    return f"({''.join(p + ', ' for p in parts)})"


def _saved_expression(name: str, derivative: Derivative, operator: Operator, inplace: bool) -> tuple[str, str]:
    """Source for one saved value and for its version."""
    schema = operator.schema
    need = " or ".join(f"need_{u}" for u in dict.fromkeys(derivative.users(name)))
    argument = next((a for a in schema.arguments if a.name == name), None)
    if argument is not None and argument.is_tensor:
        if argument.is_list:
            return f"tuple({name})", f"tuple({_VERSION.format(t='t')} if t is not None else None for t in {name})"
        if inplace and name == "self":
            return f"(original if {need} else None)", f"(0 if {need} else None)"
        tensor = f"{name} is not None" + (f" and {name}.__class__ not in "
                                          "NUMBERS" if argument.type == "Tensor|Scalar" else "")
        if argument.type == "Tensor" and not argument.optional:
            return f"({name} if {need} else None)", f"({_VERSION.format(t=name)} if {need} else None)"
        if name == "other" and argument.type == "Tensor|Scalar" and not argument.optional:
            # PyTorch saves a number among operands as a tensor: it counts as saved (True), though it has no version.
            version = f"({_VERSION.format(t=name)} if {tensor} else True)"
            return f"({name} if {need} else None)", f"({version} if {need} else None)"
        return f"({name} if {need} else None)", f"({_VERSION.format(t=name)} if ({need}) and {tensor} else None)"
    if argument is not None:
        return name, "None"
    if name in derivative.outputs:
        nr = derivative.outputs.index(name)
        value = "result" if len(derivative.outputs) == 1 else f"result[{nr}]"
        if name == "indices":  # whole numbers: no edge of theirs leads back to the node
            return value, _VERSION.format(t=value)
        return f"SavedOutput({value}, {nr})", _VERSION.format(t=value)
    base, _, attribute = name.rpartition("_")
    argument = next(a for a in schema.arguments if a.name == base)
    field = {"shape": "_array.shape", "dtype": "dtype", "device": "_device", "strides": "_array.strides"}[attribute]
    if attribute == "strides":
        return f"(None if {base}._keys & {SPARSE_MASK} else {base}.{field})", "None"
    if argument.is_list:
        return f"tuple(None if t is None else t.{field} for t in {base})", "None"
    if argument.type == "Tensor|Scalar" or argument.optional:
        absent = f"{base} is None or {base}.__class__ in NUMBERS"
        return f"(None if {absent} else {base}.{field})", "None"
    return f"{base}.{field}", "None"


_OUTPUT = "((array.shape, array.dtype, result._device),)"
_RECORDED_OUTPUT = f"array.layout.outputs if array.__class__ is Deferred else {_OUTPUT}"


class Within(NamedTuple):
    """Lines that do what a kernel would for most calls, and leave `result` None for others; and what they name."""

    lines: list[str]
    scope: dict[str, Any]


def kernel_source(operator: Operator, derivative: Derivative, inplace: bool, grad_keys: str, output: str = _OUTPUT,
                  within: Sequence[str] = ()) -> str:
    """Source of `make(below, grad_keys)`, which gives the Autograd kernel; `output` is that of the node's `outputs`.

    `within` are lines that may take the place of `below`.
    """
    schema = operator.schema
    names = ", ".join(schema.names)
    body: list[str] = _needs_lines(derivative)
    conditions = " or ".join(f"need_{a.name}" for a in derivative.differentiable)
    expressions = [_saved_expression(n, derivative, operator, inplace) for n in derivative.saved]
    if inplace:
        # A view whose base came to need grad is looked at by its own key's kernel before this one runs.
        checks = ["check_inplace(self)", f"if not differentiable(self): return below({names})"]
        if schema.base_name == "copy_":  # PyTorch looks at integers here before it looks at views
            checks.reverse()
        body += [f"if not ({conditions}): return below({names})", *checks,
                 f"edges = {_edges(derivative)}"]
        if "self" in derivative.saved:
            need = " or ".join(f"need_{u}" for u in dict.fromkeys(derivative.users("self")))
            body.append(f"original = copy_of(self) if {need} else None")
        # Arguments are saved as they were before the write: one of them may be `self` under another name.
        before = [
            (i, e, v) for i, (n, (e, v)) in enumerate(zip(derivative.saved, expressions)) if n not in derivative.outputs
        ]
        for i, e, v in before:
            body += [f"saved_{i} = {e}", f"version_{i} = {v}"]
            expressions[i] = (f"saved_{i}", f"version_{i}")
        if before:
            names_before = "".join(f"saved_{i}, " for i, _, _ in before)
            body.append(f"if saving_hooks.users: {names_before}= packed(({names_before}))")
        body += [f"result = below({names})"]
    else:
        body += [*within, f"{'if result is None: ' * bool(within)}result = below({names})",
                 f"if not ({conditions}): return result"]
        if "dtype" in schema.index:
            body.append("if not differentiable(result): return result")
    body += [f"node = new({node_choice(operator)})", "node.seq = next(sequence)"]
    body.append("node.edges = edges" if inplace else f"node.edges = {_edges(derivative)}")
    if expressions:
        body.append(f"node.saved = ({''.join(e + ', ' for e, _ in expressions)})")
        body.append(f"node.versions = ({''.join(v + ', ' for _, v in expressions)})")
    if len(schema.returns) == 1 and not schema.returns[0].is_list:
        body += ["array = result._array", f"node.outputs = {output}"]
        body += ["rebase(self, node)"] if inplace else ["result._edge = (node, 0)", f"result._keys = {grad_keys}"]
    else:
        body.append("attach_all(result, node, grad_keys)")
    body += ["if saving_hooks.users: pack_saved(node)", "return result"]
    text = "\n".join("        " + line for line in body)
    return f"def make(below, grad_keys):\n    def {schema.base_name}({names}):\n{text}\n    return {schema.base_name}\n"


def _unpacked(at: int, name: str, operator: Operator) -> list[str]:
    """Lines that make `saved_<at>` the saved tensor; whatever is unusual about it is looked at by `unpack`."""
    argument = next((a for a in operator.schema.arguments if a.name == name), None)
    if argument is not None and (argument.is_list or argument.type != "Tensor"):
        return [f"saved_{at} = self.unpack({at})"]
    lines = [f"counter = saved_{at}._counter",
             f"if counter is not None and counter.value != self.versions[{at}]: saved_{at} = self.unpack({at})"]
    if argument is None:
        lines.append(f"elif saved_{at}.__class__ is SavedOutput: saved_{at} = saved_{at}.unpack(self)")
    elif argument.optional:
        lines = [f"if saved_{at} is not None:", *("    " + line for line in lines)]
    return [f"saved_{at} = saved[{at}]", *lines]


def _apply_source(operator: Operator, derivative: Derivative) -> str:
    """Source of the node's `apply`."""
    several = len(operator.schema.returns) != 1 or operator.schema.returns[0].is_list
    differentiable = derivative.differentiable
    lines = ["saved = self.saved", "if saved is None: raise RuntimeError(FREED)"]
    if several:
        lines.append("grad = grads[0]")
        lines.append("if grad is None and all([g is None for g in grads]): return (None,) * len(self.edges)")
    else:
        lines.append("if grad is None: return (None,) * len(self.edges)")
    lists = [a for a in differentiable if a.is_list]
    position: dict[str, str] = {}
    behind_list = False
    for at, a in enumerate(differentiable):  # a list takes the edges that the single arguments leave over
        if a.is_list:
            singles = len(differentiable) - len(lists)
            position[a.name] = f"edges[{at}:{at} + len(edges) - {singles}]"
            behind_list = True
        else:
            position[a.name] = f"edges[{at - len(differentiable) if behind_list else at}]"
    alone = len(differentiable) == 1 and not lists  # then the node is there for its sake
    if alone:
        needs = ["True"]
        wanted = {differentiable[0].name: "True"}
    else:
        lines.append("edges = self.edges")
        wanted = {a.name: f"need_{a.name}" for a in differentiable}
        needs = [" or ".join(wanted[a] for a in formula.arguments) for formula in derivative.formulas]
        for a in differentiable:
            need = f"any(e is not None for e in {position[a.name]})" if a.is_list else f"{position[a.name]} is not None"
            lines.append(f"need_{a.name} = {need}")
    saved: dict[str, str] = {}
    for at, name in enumerate(derivative.saved):
        _, version = _saved_expression(name, derivative, operator, False)
        saved[name] = f"saved[{at}]"
        if version != "None":
            # Unpacked once, since hooks may give a tensor a single time, and only where it is used.
            users = [need for formula, need in zip(derivative.formulas, needs) if name in formula.parameters]
            unpacking = _unpacked(at, name, operator)
            if alone or len(users) == len(needs):
                lines += unpacking
            else:
                lines += [f"if {' or '.join(users)}:", *("    " + line for line in unpacking),
                          f"else: saved_{at} = None"]
            saved[name] = f"saved_{at}"
    for i, (formula, need) in enumerate(zip(derivative.formulas, needs)):
        values = []
        for p in formula.parameters:
            if p in ("grad", "grads"):
                values.append(p)
            elif p == "needs":
                values.append("(" + "".join(f"{wanted[a]}, " for a in formula.arguments) + ")")
            else:
                values.append(saved[p])
        targets = ", ".join(f"grad_{a}" for a in formula.arguments)
        empty = "None" if len(formula.arguments) == 1 else "(None,) * " + str(len(formula.arguments))
        call = f"formula_{i}({', '.join(values)})"
        lines.append(f"return ({call},)" if alone else f"{targets} = {call} if {need} else {empty}")
    if not alone:
        results = []
        for a in differentiable:
            results.append(f"*(grad_{a.name} or (None,) * len({position[a.name]}))" if a.is_list else f"grad_{a.name}")
        lines.append(f"return ({''.join(r + ', ' for r in results)})")
    parameter = "*grads" if several else "grad"
    return f"def apply(self, {parameter}):\n" + "\n".join("    " + line for line in lines) + "\n"


def make_node_class(operator: Operator, derivative: Derivative) -> type[Node]:
    scope: dict[str, Any] = {"FREED": FREED, "SavedOutput": SavedOutput, "__opname__": f"{operator.name} backward"}
    scope |= {f"formula_{i}": f.function for i, f in enumerate(derivative.formulas)}
    apply = compile_function("apply", _apply_source(operator, derivative), scope)
    declared = operator.declaration.node
    of_formula = getattr(derivative.formulas[0].function, "node", None)
    name = declared if isinstance(declared, str) else of_formula or name_by_operator(operator.schema.base_name)
    members = {"apply": apply, "saved_names": derivative.saved, "operator": operator,
               "shown": in_autograd if "::" in name else None}
    return type(without_namespace(name), (Node,), members)


def node_choice(operator: Operator) -> str:
    """Source of the class of a call's node: `Backward`, or one of those under other names."""
    declared = operator.declaration.node
    if declared is None or isinstance(declared, str):
        return "Backward"
    return chosen(declared, {name: f"Backward_{at}" for at, name in enumerate(declared)}, "Backward")


def node_classes(operator: Operator, node_class: type[Node]) -> dict[str, type[Node]]:
    """What the names in `node_choice` stand for."""
    declared = operator.declaration.node
    others = () if declared is None or isinstance(declared, str) else declared
    return {"Backward": node_class, **{f"Backward_{at}": renamed(node_class, name) for at, name in enumerate(others)}}


def differentiable(result: Any) -> bool:
    return OF_ARRAY[result._array.dtype].category >= FLOAT


def attach_all(results: Any, node: Node, grad_keys: int) -> None:
    """Makes `node` the origin of each output that can carry a gradient."""
    outputs: list[tuple | None] = []
    for nr, tensor in enumerate(results):
        if tensor is None:
            outputs.append(None)
            continue
        array = tensor._array
        outputs.append((array.shape, array.dtype, tensor._device))
        if OF_ARRAY[array.dtype].category >= FLOAT:
            tensor._edge = (node, nr)
            tensor._keys = grad_keys | tensor._keys & SUBCLASS_MASK
    node.outputs = tuple(outputs)


def refuse_inference(operator: Operator, derivative: Derivative, make: Callable) -> Callable:
    """A kernel for calls that mix recording with tensors of inference mode."""
    index = operator.schema.index
    saved = [(index[a.name], [index[user] for user in derivative.users(a.name)])  # of what is written, a copy is saved
             for a in operator.schema.arguments if a.name in derivative.saved and not a.writes]

    def has(argument: Any, mask: int) -> bool:
        each = argument if isinstance(argument, (tuple, list)) else (argument,)
        return any(getattr(tensor, "_keys", 0) & mask for tensor in each)

    def kernel(*args: Any) -> Any:
        for at, users in saved:
            if has(args[at], INFERENCE_MASK) and any(has(args[user], REQUIRES_GRAD) for user in users):
                raise RuntimeError(SAVED_IN_INFERENCE)
        return make(*args)

    return kernel


def autograd_kernel(operator: Operator, below: Callable, mask: int, derivative: Derivative, node_class: type[Node],
                    inplace: bool, context: dict[str, Any]) -> Callable:
    """The kernel that runs `below` and records a node; `context` brings the write rules of in-place operators."""
    backend = mask & BACKEND_MASK
    backend = 1 << (backend.bit_length() - 1)
    scope: dict[str, Any] = {
        "NUMBERS": NUMBERS, "new": object.__new__, "sequence": _sequence, "SavedOutput": SavedOutput,
        "saving_hooks": saving_hooks, "pack_saved": pack_saved, "packed": packed, "attach_all": attach_all,
        "differentiable": differentiable, "Deferred": Deferred, **CONDITION_SCOPE, **node_classes(operator, node_class),
        "__opname__": f"{operator.name} autograd", **context,
    }
    grad_keys = "grad_keys"
    if mask & SPARSE_MASK or operator.declaration.family.changes_layout:  # the result may be sparse or not
        grad_keys, scope["WITH_GRAD"] = f"WITH_GRAD[result._keys & {BACKEND_MASK}]", WITH_GRAD
    if mask & MARKED_MASK or operator.declaration.family.marks:
        grad_keys, scope["WITH_GRAD"] = (
            f"result._keys & {MARKED_MASK} | WITH_GRAD[result._keys & {BACKEND_MASK}]", WITH_GRAD)
    if mask & TORCH_DISPATCH_MASK:  # the result is whatever a subclass or a mode makes it
        grad_keys, scope["WITH_GRAD"] = (
            f"result._keys & {SUBCLASS_MASK | MARKED_MASK} | WITH_GRAD[result._keys & {BACKEND_MASK}]", WITH_GRAD)
    output, within = _OUTPUT, Within([], {})
    if mask & PIPELINE_MASK:
        output, within = _RECORDED_OUTPUT, getattr(below, "within", within)
        scope |= {name: value for name, value in within.scope.items() if not name.startswith("__")}
    source = kernel_source(operator, derivative, inplace, grad_keys, output, within.lines)
    make = compile_function("make", source, scope)
    kernel = make(below, WITH_GRAD[backend])
    return refuse_inference(operator, derivative, kernel) if mask & INFERENCE_MASK and derivative.saved else kernel


