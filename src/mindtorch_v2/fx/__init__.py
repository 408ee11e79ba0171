"""torch.fx: functions as graphs that can be read, changed and run."""

from .._absent import absent_function
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect",
           "map_arg", "replace_pattern", "symbolic_trace", "wrap"]

replace_pattern = absent_function("torch.fx.replace_pattern", "Change the nodes of `module.graph` and recompile.")
