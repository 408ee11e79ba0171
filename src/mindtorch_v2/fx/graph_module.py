"""GraphModule: a module whose `forward` is the code of a graph."""

import copy
import itertools
import linecache
import os
import sys
import traceback
from typing import Any

from ..nn import Module
from .graph import Graph, PythonCode, common_globals

__all__ = ["GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_serials = itertools.count()
_LIBRARY = os.path.dirname(os.path.dirname(__file__)) + os.sep


def _compiled(code: PythonCode, origin: dict[str, Any] | None = None) -> Any:
    """The function that the code defines; tracebacks show its lines, and where it was traced from."""
    filename = f"<eval_with_key>.{next(_serials)}"
    if origin:
        filename += f" from {origin['co_filename']}:{origin['co_firstlineno']} in {origin['co_name']}"
    linecache.cache[filename] = (len(code.src), None, code.src.splitlines(keepends=True), filename)
    scope = dict(code.globals)
    exec(compile(code.src, filename, "exec"), scope)
    return scope["forward"]


def _line_of_generated_code(error: Exception) -> traceback.FrameSummary | None:
    """The line of a graph's code that gave wrong arguments to the library; None if other code raised the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_LIBRARY)]
    return frames[-1] if frames and frames[-1].filename.startswith("<eval_with_key>") else None


def _where(frame: traceback.FrameSummary) -> str:
    """The traceback, and the lines of the generated function around the one that failed."""
    at = frame.lineno or 1
    lines = linecache.getlines(frame.filename)
    before, after = "".join(lines[max(0, at - 3) : at]), "\n".join(lines[at : at + 2])
    mark = "~" * (max(map(len, lines[at - 1 : at]), default=2) - 2) + " <--- HERE"
    return "\n".join([traceback.format_exc(), f"Call using an FX-traced Module, line {at} of the traced Module's "
                      f"generated forward function:", before.lstrip("\n"), mark, after])


class GraphModule(Module):
    """The modules and tensors that a graph names, and the graph. After changing the graph, call `recompile`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "GraphModule":
        """An object of a class of its own, which holds its `forward`."""
        base = next(c for c in cls.__mro__ if "forward" not in vars(c) or c is GraphModule or c.__module__ != __name__)
        own = type(base.__name__, (base,), {"__module__": base.__module__})
        return super().__new__(own)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op not in ("get_attr", "call_module"):
                continue
            if isinstance(root, dict):
                if node.target not in root:
                    raise RuntimeError(f"Node {node} referenced target {node.target} but that target was not provided "
                                       "in ``root``!")
                _assign_attr(root[node.target], self, node.target)
            else:
                _copy_attr(root, self, node.target)
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self.meta: dict[str, Any] = {}

    @property
    def graph(self) -> Graph:
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        return self._code

    def recompile(self) -> PythonCode:
        """Makes `forward` anew out of the graph."""
        code = self._graph.python_code("self")
        self._code = code.src
        type(self).forward = _compiled(code, self._graph._co_fields)  # type: ignore[method-assign]
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            line = _line_of_generated_code(error)
            if line is None or isinstance(error, AssertionError):  # which is what the graph's own checks raise
                raise
            print(_where(line), file=sys.stderr)
            raise error.with_traceback(None)  # noqa: B904  the lines above say where

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a dotted name, making the modules on the way; false if something else stands there."""
        *path, name = target.split(".")
        module: Module = self
        for part in path:
            if not hasattr(module, part):
                module.add_module(part, Module())
            inner = getattr(module, part)
            if not isinstance(inner, Module):
                return False
            module = inner
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        *path, name = target.split(".")
        module: Any = self
        for part in path:
            module = getattr(module, part, None)
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the modules that no node calls or reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
                if node.op == "call_module":
                    called = [module for name, module in self.named_modules() if name == node.target]
                    used |= {f"{node.target}.{n}" for module in called for n, _ in module.named_modules() if n}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The code inside a class, printed and returned."""
        body = "\n".join("    " + line if line.strip() else "" for line in self._code.strip().splitlines())
        text = f"class {self._get_name()}(torch.nn.Module):\n{body}\n"
        if print_output:
            print(text)
        return text

    def __deepcopy__(self, memo: dict) -> "GraphModule":
        made = GraphModule.__new__(type(self).__bases__[0])
        memo[id(self)] = made
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k != "_graph"})
        type(made).__name__ = type(self).__name__
        made.graph = copy.deepcopy(self._graph, memo)
        return made

    def __copy__(self) -> "GraphModule":
        return GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)

    def __reduce__(self) -> tuple:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        code = self._graph.python_code("self")
        return _rebuilt, (state, type(self).__name__, code.src, {k: v for k, v in code.globals.items()
                                                                 if k not in common_globals()})

    def __str__(self) -> str:
        return "\n".join([super().__repr__(), self._code,
                          "# To see more debug info, please use `graph_module.print_readable()`"])


class _CodeOnlyModule(Module):
    """A module with the attributes of another."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _rebuilt(state: dict[str, Any], class_name: str, source: str, names: dict[str, Any]) -> GraphModule:
    """A GraphModule out of a pickle: its code is traced again."""
    from ._symbolic_trace import Tracer

    class Code(_CodeOnlyModule):
        forward = _compiled(PythonCode(source, common_globals() | names))

    class EveryModuleIsALeaf(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    holder = Code(state)
    return GraphModule(holder, EveryModuleIsALeaf().trace(holder), class_name)


def _parents(source: Any, target: Module, path: list[str]) -> tuple[Any, Module]:
    """The modules that hold the last name of a path, made in `target` where they are missing."""
    for part in path:
        inner = getattr(target, part, None)
        if inner is None:
            inner = Module()
            target.add_module(part, inner)
        source, target = getattr(source, part) if source is not None else None, inner
    return source, target


def _copy_attr(source: Module, target: Module, name: str) -> None:
    *path, last = name.split(".")
    source, target = _parents(source, target, path)
    if hasattr(target, last) and last in getattr(target, "_modules", {}):
        return
    value = getattr(source, last)
    if last in source._buffers:
        target.register_buffer(last, value, last not in source._non_persistent_buffers_set)
    else:
        _set(target, last, value)


def _assign_attr(value: Any, target: Module, name: str) -> None:
    *path, last = name.split(".")
    _set(_parents(None, target, path)[1], last, value)


def _set(target: Module, name: str, value: Any) -> None:
    import mindtorch_v2 as torch

    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        target.register_buffer(name, value)
    else:
        setattr(target, name, value)
