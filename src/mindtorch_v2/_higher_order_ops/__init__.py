"""Control flow as functions: what tracing compilers need is, run eagerly, Python's own."""

from .associative_scan import associative_scan
from .cond import cond
from .map import map
from .out_dtype import out_dtype
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "out_dtype", "scan", "while_loop"]
