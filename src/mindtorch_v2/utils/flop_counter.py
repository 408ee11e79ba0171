"""FlopCounterMode: the floating point operations of matrix products, convolutions and attention, by module."""

import functools
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from .._operator_names import OpOverloadPacket, ops
from .._tensor import Tensor
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = ops.aten
flop_registry: dict[Any, Callable] = {}
_flash, _flash_backward = (OpOverloadPacket(f"aten::_scaled_dot_product_flash_attention{way}")
                           for way in ("", "_backward"))
# Operators of this library's own that compute what PyTorch gives to others; which one may depend on the arguments.
_SHOWN_AS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "linear": lambda args: aten.addmm if len(args) > 2 and args[2] is not None else aten.mm,
    "_linear_weight_grad": lambda args: aten.mm,
    "_batch_matmul": lambda args: aten.bmm,
    "_attention": lambda args: _flash,
    "_attention_backward": lambda args: _flash_backward,
    "_recurrent_layer": lambda args: aten.mm if args[5] is None else aten.addmm,
    "_recurrent_layer_backward": lambda args: aten.mm,
}


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


# Shapes that a formula is given are tuples: any operator may pass further arguments, which it does not need.
@register_flop_formula([aten.mm, aten._batch_matmul, aten.bmm])
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    batch = out_shape[:-2] if out_shape is not None else a_shape[:-2]
    return math.prod(batch) * a_shape[-2] * a_shape[-1] * b_shape[-1] * 2


@register_flop_formula([aten.addmm, aten.baddbmm])
def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.linear)
def _linear_flop(x_shape: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    return math.prod(x_shape) * math.prod(w_shape[:-1]) * 2


@register_flop_formula(aten._linear_weight_grad)
def _weight_grad_flop(rows_shape: Any, x_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return math.prod(x_shape) * math.prod(out_shape[:-1]) * 2


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Operations of a convolution: each place of the output, or of the input if transposed, meets the whole filter."""
    places = (x_shape if transposed else out_shape)[2:]
    return math.prod(places) * math.prod(w_shape) * x_shape[0] * 2


@register_flop_formula(aten.convolution)
def conv_flop(x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
              *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(grad_out_shape: Any, x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any,
                       _dilation: Any, transposed: bool, _output_padding: Any, _groups: int,
                       output_mask: Sequence[bool], out_shape: Any = None) -> int:
    flops = conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed) if output_mask[0] else 0
    if output_mask[1]:  # a convolution of the input with the gradient, or the other way round
        fixed, moved = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        weight = out_shape[1]
        flops += conv_flop_count((fixed[1], fixed[0]), (moved[1], moved[0], *moved[2:]),
                                 (weight[1], weight[0], *weight[2:]))
    return flops


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Operations of the two products of attention."""
    *batch, length, width = query_shape
    return math.prod(batch) * length * key_shape[-2] * (width + value_shape[-1]) * 2


@register_flop_formula(aten._attention)
def sdpa_flop(query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, **kwargs: Any) -> int:
    return sdpa_flop_count(query_shape, key_shape, value_shape)


@register_flop_formula(aten._attention_backward)
def sdpa_backward_flop(grad_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any, *args: Any,
                       **kwargs: Any) -> int:
    """The scores again, and two products for each of the two of forward."""
    *batch, length, width = query_shape
    return math.prod(batch) * length * key_shape[-2] * (3 * width + 2 * value_shape[-1]) * 2


def _recurrent(x_shape: Any, h_shape: Any, w_ih_shape: Any, w_hh_shape: Any, w_hr_shape: Any) -> int:
    weights = sum(math.prod(shape) for shape in (w_ih_shape, w_hh_shape, w_hr_shape) if shape is not None)
    return x_shape[0] * weights * 2


@register_flop_formula(aten._recurrent_layer)
def _recurrent_flop(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any, *args: Any,
                    **kwargs: Any) -> int:
    return _recurrent(x, h, w_ih, w_hh, w_hr)


@register_flop_formula(aten._recurrent_layer_backward)
def _recurrent_backward_flop(g: Any, gh: Any, gc: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, w_hr: Any,
                             *args: Any, **kwargs: Any) -> int:
    return 2 * _recurrent(x, h, w_ih, w_hh, w_hr)


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
            shown = _SHOWN_AS.get(packet.__name__, lambda args: packet)(args)
            for module in self.mod_tracker.parents:
                self.flop_counts[module][shown] += flops
        return out
