"""Graphs: nodes in the order in which they run, and the Python code that runs them."""

import builtins
import copy
import enum
import keyword
import math
import re
import typing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .node import Node, map_arg, qualified_name, type_name

__all__ = ["CodeGen", "Graph", "PythonCode"]

# operators that code writes with their sign; {0}, {1} are the arguments
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
          "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@", "eq": "==", "ne": "!=",
          "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
_FORMS = {name: f"{{0}} {sign} {{1}}" for name, sign in _SIGNS.items()}
_FORMS |= {"neg": "-{0}", "pos": "+{0}", "invert": "~{0}", "getitem": "{0}[{1}]"}
_TYPING = {list: typing.List, dict: typing.Dict, set: typing.Set, frozenset: typing.FrozenSet,  # noqa: UP006
           tuple: typing.Tuple}  # noqa: UP006
_INPLACE = {f"i{name.rstrip('_')}": f"{{0}} {sign}= {{1}}" for name, sign in list(_SIGNS.items())[:13]}


@dataclass
class PythonCode:
    """Source of a function `forward`, and the names it uses."""

    src: str
    globals: dict[str, Any]


class Namespace:
    """Hands out names that are no keywords, no builtins, and not taken."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def create_name(self, candidate: str, obj: Any = None) -> str:
        name = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        match = re.fullmatch(r"(.*)_(\d+)", name)
        base, number = (match[1], int(match[2])) if match else (name, 0)
        reserved = (*keyword.kwlist, *dir(builtins), "inf", "nan", "torch")
        while name in self.taken or name in reserved:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name


class _NodeList:
    """The nodes of a graph, as they stand while one goes through them."""

    def __init__(self, graph: "Graph", direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        node = getattr(self.graph._root, self.direction)
        while node is not self.graph._root:
            following = getattr(node, self.direction)
            if not node._erased:
                yield node
            node = following if node._erased else getattr(node, self.direction)

    def __reversed__(self) -> "_NodeList":
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")


class _Inserting:
    """Where new nodes go; as a context, for its block."""

    def __init__(self, graph: "Graph", insert: Callable[[Node], None]) -> None:
        self.graph, self.previous = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        """The place is set already."""

    def __exit__(self, *exception: Any) -> None:
        self.graph._insert = self.previous


class CodeGen:
    """How a graph becomes a Python function; subclasses change its signature and its return."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def forward({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        return f"return {output_args!r}"

    def additional_globals(self) -> list[tuple[str, Any]]:
        return []

    def process_inputs(self, *args: Any) -> Any:
        return args

    def process_outputs(self, outputs: Any) -> Any:
        return outputs


class Graph:
    """A function as steps; build it with `placeholder`, `call_function` and so on, in the order of the steps."""

    def __init__(self, owning_module: Any = None, tracer_cls: type | None = None,
                 tracer_extras: dict[str, Any] | None = None) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._names = Namespace()
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}  # where the function stands that the graph was traced from
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras

    @property
    def nodes(self) -> _NodeList:
        return _NodeList(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        return next(iter(reversed(self.nodes)))

    # building --------------------------------------------------------------------------------------------------

    def create_node(self, op: str, target: Any, args: tuple | None = None, kwargs: dict[str, Any] | None = None,
                    name: str | None = None, type_expr: Any = None) -> Node:
        if op not in ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output"):
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        made = Node(self, self._names.create_name(name or _candidate(target)), op, target, args or (), kwargs or {},
                    type_expr)
        self._insert(made)
        self._len += 1
        return made

    def placeholder(self, name: str, type_expr: Any = None, *default: Any, **named: Any) -> Node:
        """An input; with `default_value`, one that may be left out."""
        return self.create_node("placeholder", name, (*default, *named.values()), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        if self.owning_module is not None and not _holds_tensor_or_module(self.owning_module, qualified_name):
            warnings.warn("Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! "
                          "Call GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to "
                          "add the necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                          stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple | None = None, kwargs: dict | None = None,
                    type_expr: Any = None) -> Node:
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)  # raises for a name without a module
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: tuple | None = None, kwargs: dict | None = None,
                    type_expr: Any = None) -> Node:
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function: Callable, args: tuple | None = None, kwargs: dict | None = None,
                      type_expr: Any = None, name: str | None = None) -> Node:
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """The size of a node's tensor along a dimension."""
        return self._metadata_node("sym_size", tensor_node, dim)

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """The stride of a node's tensor along a dimension."""
        return self._metadata_node("sym_stride", tensor_node, dim)

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """Where a node's tensor begins in its storage."""
        return self._metadata_node("sym_storage_offset", tensor_node)

    def _metadata_node(self, name: str, tensor_node: Node, *dim: int) -> Node:
        """A number that a tensor has, with its value if an example of the tensor is known."""
        import mindtorch_v2 as torch

        packet = getattr(torch.ops.aten, name)
        made = self.call_function(packet.int if dim else packet.default, (tensor_node, *dim))
        for key in ("val", "example_value"):
            if key in tensor_node.meta:
                made.meta[key] = getattr(tensor_node.meta[key], name.removeprefix("sym_"))(*dim)
        return made

    def output(self, result: Any, type_expr: Any = None) -> Node:
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A node of another graph in this one; `arg_transform` says what stands here for the nodes it uses."""
        made = self.create_node(node.op, node.target, map_arg(node.args, arg_transform),
                                map_arg(node.kwargs, arg_transform), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: "Graph", val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Appends the nodes of another graph; gives back what that graph returns."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def erase_node(self, to_erase: Node) -> None:
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the "
                               f"graph: {to_erase.users}!")
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_inputs((), {})

    def inserting_before(self, n: Node | None = None) -> _Inserting:
        """New nodes go before `n`, or to the beginning; use it with `with`."""
        return self.inserting_after(self._root) if n is None else _Inserting(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _Inserting:
        """New nodes go after `n`, or to the end; use it with `with`."""
        return self.inserting_before(self._root) if n is None else _Inserting(self, n.append)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erases what nobody uses; whether there was any."""
        self.lint()
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not (is_impure_node or Node.is_impure)(node):
                self.erase_node(node)
        return self._len < before

    def lint(self) -> None:
        """Raises if a node uses what does not come before it, or two have one name."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an "
                        "argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on "
                        f"node_copy() to remap values\n{self}")
                if used not in seen:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                                       f"Please check that Nodes in the graph are topologically ordered\n{self}")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("call_module", "get_attr"):
                _check_reachable(self.owning_module, node)

    # text ------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines if line)

    def print_tabular(self) -> None:
        from tabulate import tabulate

        print(tabulate([[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes],
                       headers=["opcode", "name", "target", "args", "kwargs"]))

    def set_codegen(self, codegen: CodeGen) -> None:
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        return self._codegen.process_outputs(out)

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """The source of `forward`, where `root_module` (usually "self") has the modules and attributes."""
        return _Writer(self, root_module).code()

    def __deepcopy__(self, memo: dict) -> "Graph":
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made._codegen, made._co_fields = copy.copy(self._codegen), self._co_fields
        copied = made.graph_copy(self, memo_nodes := {}, return_output_node=True)
        if copied is not None:
            result, old = copied
            memo_nodes[old] = made.output(result, type_expr=old.type)
            memo_nodes[old].meta = copy.copy(old.meta)
        memo[id(self)] = made
        return made


def _check_reachable(module: Any, node: Node) -> None:
    *path, last = node.target.split(".")
    for name in (*path, last):
        if not hasattr(module, name):
            raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {name} of {module}")
        module = getattr(module, name)


def _holds_tensor_or_module(module: Any, name: str) -> bool:
    """Whether a dotted name leads to a module, a parameter or a buffer."""
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, "_modules", {}).get(part)
    held = (getattr(module, kind, {}) for kind in ("_modules", "_parameters", "_buffers"))
    return any(last in names for names in held)


def _candidate(target: Any) -> str:
    """The name that a node with this target asks for: in lower case, without the underscores of `__abs__`."""
    name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    if len(name) > 4 and name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def common_globals() -> dict[str, Any]:
    """The names that the code of every graph may use."""
    import mindtorch_v2 as torch

    return {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": torch, "device": torch.device}


class _Writer:
    """Writes a graph's code."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.graph, self.root = graph, root
        self.globals = common_globals() | dict(graph._codegen.additional_globals())
        self.wrapped: list[str] = []

    def code(self) -> PythonCode:
        last_use: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            fresh = [n for n in node._input_nodes if n not in seen]
            if not node.users and node.op not in ("placeholder", "output"):
                fresh.append(node)
            seen.update(fresh)
            last_use[node] = fresh
        parameters: list[str] = []
        body: list[str] = []
        annotation = ""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                parameters.append(self.parameter(node))
                raw = node.target.lstrip("*")
                if raw != node.name:
                    body.append(f"{node.name} = {raw}")
                continue
            if node.op == "output":
                annotation = f" -> {self.annotation(node.type)}" if node.type is not None else ""
                body.append(self.graph._codegen.generate_output(node.args[0]))
                continue
            line = self.statement(node)
            if last_use[node]:
                line += ";  " + " = ".join([n.name for n in last_use[node]] + ["None"])
            body.append(line)
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in self.wrapped)
        head = self.graph._codegen.gen_fn_def(parameters, annotation)
        lines = "".join(f"    {line}\n" for line in body or ["pass"])
        return PythonCode(f"\n{wraps}\n\n{head}\n{lines}    ", self.globals)

    def parameter(self, node: Node) -> str:
        kind = f" : {self.annotation(node.type)}" if node.type is not None else ""
        default = f" = {self.text(node.args[0])}" if node.args else ""
        return f"{node.target}{kind}{default}"

    def annotation(self, kind: Any) -> str:
        """A type as code writes it; one out of `typing` keeps its name there, as typing_List."""
        origin = getattr(kind, "__origin__", None)
        if origin is not None:
            if isinstance(kind, typing._GenericAlias):  # type: ignore[attr-defined]
                origin = _TYPING.get(origin, origin)
            inner = ",".join(self.annotation(part) for part in getattr(kind, "__args__", ()) or ())
            return self.name_of(type_name(origin), origin) + (f"[{inner}]" if inner else "")
        name = type_name(kind)
        if name.partition(".")[0] == "torch":
            return name
        return self.name_of(name, kind)

    def name_of(self, name: str, value: Any) -> str:
        """A global name for an object."""
        plain = re.sub(r"\W+", "_", name)
        if "." not in name and hasattr(builtins, name):
            return name
        while self.globals.setdefault(plain, value) is not value:
            plain += "_1"
        return plain

    def statement(self, node: Node) -> str:
        kind = f" : {self.annotation(node.type)}" if node.type is not None else ""
        if node.op == "get_attr":
            return f"{node.name}{kind} = {self.attribute(node.target)}"
        if node.op == "call_module":
            return f"{node.name}{kind} = {self.attribute(node.target)}({self.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            return (f"{node.name}{kind} = {_receiver(self.text(node.args[0]))}.{node.target}"
                    f"({self.arguments(node.args[1:], node.kwargs)})")
        module, name = getattr(node.target, "__module__", ""), getattr(node.target, "__name__", "")
        if module == "_operator" and name in _FORMS:
            return f"{node.name}{kind} = {_FORMS[name].format(*map(self.text, node.args))}"
        if module == "_operator" and name in _INPLACE:
            written = _INPLACE[name].format(*map(self.text, node.args))
            return f"{written};  {node.name}{kind} = {self.text(node.args[0])}"
        if node.target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
            return f"{node.name}{kind} = {_receiver(self.text(node.args[0]))}.{node.args[1]}"
        return f"{node.name}{kind} = {self.function(node.target)}({self.arguments(node.args, node.kwargs)})"

    def function(self, target: Any) -> str:
        from ._symbolic_trace import wrapped_names

        name = qualified_name(target)
        if not name.startswith("torch."):
            name = self.name_of(name, target)
            if getattr(target, "__name__", None) in wrapped_names and name not in self.wrapped:
                self.wrapped.append(name)
        return name

    def attribute(self, target: str) -> str:
        path = self.root
        for part in target.split("."):
            path = f"{path}.{part}" if part.isidentifier() else f'getattr({path}, "{part}")'
        return path

    def arguments(self, args: tuple, kwargs: dict[str, Any]) -> str:
        return ", ".join([self.text(a) for a in args] + [f"{k} = {self.text(v)}" for k, v in kwargs.items()])

    def text(self, value: Any) -> str:
        """An argument as an expression."""
        if isinstance(value, tuple):
            inner = ", ".join(map(self.text, value))
            if hasattr(value, "_fields"):
                return f"{self.name_of(type_name(type(value)), type(value))}({inner})"
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.text(k)}: {self.text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, enum.Enum):
            return f"{self.name_of(type(value).__name__, type(value))}.{value.name}"
        if isinstance(value, type) or callable(value) and not isinstance(value, Node):
            return self.function(value)
        return repr(value)


def _receiver(text: str) -> str:
    return f"({text})" if re.fullmatch(r"-?\d+", text) else text
