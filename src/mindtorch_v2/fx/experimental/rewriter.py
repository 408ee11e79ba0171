"""Tracing through functions whose assertions were rewritten, so that they become nodes."""

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import mindtorch_v2 as torch

from ...nn import Module
from .._symbolic_trace import Tracer
from ..graph import Graph

__all__ = ["AST_Rewriter", "RewritingTracer"]

_ASSERT = "_assert_of_rewriter"
_LIBRARY = torch.__name__ + "."


class AST_Rewriter(ast.NodeTransformer):
    """Makes `assert condition, text` a call of torch._assert."""

    def rewrite(self, fn: Any) -> FunctionType:
        """The function anew, from its rewritten source, with the globals and the cells it had."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
        definition: Any = tree.body[0]
        definition.decorator_list = []
        tree = ast.fix_missing_locations(self.visit(tree))
        ast.increment_lineno(tree, fn.__code__.co_firstlineno - 1)
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        cells[_ASSERT] = CellType(torch._assert)
        maker: Any = ast.parse(f"def maker({', '.join(cells)}): pass").body[0]  # around it, names are those of cells
        maker.body, tree.body = tree.body, [maker]
        code = compile(tree, fn.__code__.co_filename, "exec")
        for name in ("maker", fn.__name__):
            code = next(c for c in code.co_consts if inspect.iscode(c) and c.co_name == name)
        closure = tuple(cells[name] for name in code.co_freevars)
        made = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
        made.__kwdefaults__, made.__annotations__ = fn.__kwdefaults__, fn.__annotations__
        return made

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        call = ast.Call(ast.Name(_ASSERT, ast.Load()), [node.test, node.msg or ast.Constant("")], [])
        return ast.copy_location(ast.Expr(call), node)


class RewritingTracer(Tracer):
    """A Tracer that rewrites what it traces first."""

    def trace(self, root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> Graph:
        return super().trace(_rewritten(root), concrete_args)


def _rewritten(fn: Any) -> Any:
    """A function rewritten, or a module with its `forward` and those of its submodules rewritten."""
    rewriter = AST_Rewriter()
    if not isinstance(fn, Module):
        return rewriter.rewrite(fn)

    def of_module(module: Module) -> Module:
        if type(module).__module__.startswith(_LIBRARY):
            return module

        class Rewritten(type(module)):  # type: ignore[misc]
            pass

        made = copy.copy(module)
        Rewritten.__name__, Rewritten.__module__ = type(module).__name__, type(module).__module__
        Rewritten.forward = rewriter.rewrite(type(module).forward)
        made.__class__ = Rewritten
        made._modules = {name: inner and of_module(inner) for name, inner in module._modules.items()}
        return made

    return of_module(fn)
