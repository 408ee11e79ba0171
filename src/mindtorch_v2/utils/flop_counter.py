"""FlopCounterMode: the floating point operations of matrix products, convolutions and attention, by module."""

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from .._compat.operator_names import ops, packet_named
from .._core.tensor import Tensor
from .._dispatch.registry import Operator
from .._ops._declare.flops import addmm_flop as addmm_flop
from .._ops._declare.flops import conv_backward_flop as conv_backward_flop
from .._ops._declare.flops import conv_flop as conv_flop
from .._ops._declare.flops import conv_flop_count as conv_flop_count
from .._ops._declare.flops import mm_flop as mm_flop
from .._ops._declare.flops import sdpa_backward_flop as sdpa_backward_flop
from .._ops._declare.flops import sdpa_flop as sdpa_flop
from .._ops._declare.flops import sdpa_flop_count as sdpa_flop_count
from .._ops._declare.op import DECLARATIONS
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry: dict[Any, Callable] = {}


def _packet_of(operator: Operator) -> Any:
    return getattr(ops.aten, operator.schema.base_name)


def _shown_as(packet: Any, operator: Operator, args: Sequence[Any]) -> Any:
    """The packet under which a call is counted: another where PyTorch gives the work to other operators."""
    flops = getattr(operator.declaration, "flops", None)
    if flops is None or not flops.shown:
        return packet
    return packet_named(f"aten::{flops.shown if isinstance(flops.shown, str) else flops.shown(args)}")


def _shapes_only(formula: Callable) -> Callable:
    """A formula of shapes, called with tensors."""

    @functools.wraps(formula)
    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out = tree_map(lambda v: v.shape if isinstance(v, Tensor) else v, (args, kwargs, out_val))
        return formula(*args, out_shape=out, **kwargs)

    return of_tensors


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable], Callable]:
    """Registers how an operator's operations are counted: from shapes, or with `get_raw` from tensors."""

    def register(formula: Callable) -> Callable:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _shapes_only(formula)
        return formula

    return register


for _declaration in DECLARATIONS.values():
    if _declaration.flops is not None and _declaration.flops.by != "profiler":
        register_flop_formula(_packet_of(_declaration.operator))(_declaration.flops.count)


# the table -----------------------------------------------------------------------------------------------------------

suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: int) -> str:
    """The suffix with which a number has up to four digits before the point."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}" if suffix else str(number)


def convert_to_percent_str(num: int, denom: int) -> str:
    return f"{num / denom:.2%}" if denom else "0%"


def _laid_out(rows: Sequence[Sequence[str]]) -> str:
    header = ("Module", "FLOP", "% Total")
    widths = [max(len(title) + 2, *(len(row[i]) for row in rows)) for i, title in enumerate(header)]
    lines = [header, tuple("-" * w for w in widths), *rows]
    return "\n".join("  ".join((line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in
                                                             zip(line[1:], widths[1:], strict=True))))
                     for line in lines)


class FlopCounterMode(TorchDispatchMode):
    """Context that counts; at its end it prints a table of modules down to `depth` levels."""

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True,
                 custom_mapping: dict[Any, Any] | None = None) -> None:
        super().__init__()
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.mod_tracker = ModuleTracker()
        self.flop_registry = {**flop_registry, **{
            target: formula if getattr(formula, "_get_raw", False) else _shapes_only(formula)
            for target, formula in (custom_mapping or {}).items()}}

    def get_total_flops(self) -> int:
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Counts by module, then by operator."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        suffix = get_suffix_str(total)

        def row(name: str, flops: int) -> tuple[str, str, str]:
            return name, convert_num_with_suffix(flops, suffix), convert_to_percent_str(flops, total)

        rows, subsumed = [], False
        for module in sorted(self.flop_counts):
            if module == "Global" or module.count(".") + 1 > depth:
                continue
            flops = sum(self.flop_counts[module].values())
            subsumed = subsumed or flops >= total
            rows.append(row(module, flops))
            rows += [row(f"- {op}", count) for op, count in self.flop_counts[module].items()]
        if not subsumed:
            whole = [row("Global", total), *(row(f"- {op}", n) for op, n in self.flop_counts["Global"].items())]
            rows = whole + rows
        return _laid_out(rows)

    def __enter__(self) -> "FlopCounterMode":
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        formula = self.flop_registry.get(packet)
        if formula is not None:
            flops = formula(*args, **(kwargs or {}), out_val=out)
            shown = _shown_as(packet, func._operator, args)
            for module in self.mod_tracker.parents:
                self.flop_counts[module][shown] += flops
        return out
