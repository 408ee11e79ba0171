"""`draw_graph(y)`: the recorded graph behind a tensor as an SVG picture, with the operations that PyTorch records."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from .._core.tensor import Tensor

__all__ = ["Drawing", "draw_graph"]

_WIDTH, _LINE, _GAP_X, _GAP_Y, _MARGIN = 7.3, 16, 24, 30, 16  # width of a character, height of a line, gaps, border
_STYLES = {"result": "#fde2c0", "operation": "#e6ebf1", "leaf": "#cfe3f7", "buffer": "#eeeeee"}


class _Box:
    """A node of the picture: its lines of text, and the boxes that feed it."""

    def __init__(self, lines: list[str], style: str) -> None:
        self.lines, self.style = lines, style
        self.sources: list[_Box] = []
        self.level, self.x, self.y = 0, 0.0, 0.0
        self.width = max(map(len, lines)) * _WIDTH + 16
        self.height = len(lines) * _LINE + 10


def _described(shape: Any, kind: Any) -> str:
    return f"{' x '.join(map(str, shape)) or 'scalar'}  {str(kind).removeprefix('torch.')}"


def _boxes(outputs: list[Tensor], names: Mapping[int, str]) -> list[_Box]:
    """A box for each output, recorded operation and leaf; what feeds a box comes after it."""
    made: dict[int, _Box] = {}
    order: list[_Box] = []

    def leaf(tensor: Tensor) -> _Box:
        box = made.get(id(tensor))
        if box is None:
            lines = [names.get(id(tensor), "leaf"), _described(tensor.shape, tensor.dtype)]
            box = made[id(tensor)] = _Box(lines, "leaf")
            order.append(box)
        return box

    for i, output in enumerate(outputs):
        name = "result" if len(outputs) == 1 else f"result {i}"
        result = _Box([name, _described(output.shape, output.dtype)], "result")
        order.append(result)
        if output.grad_fn is None:
            if output.requires_grad:
                result.sources.append(leaf(output))
            continue
        pending = [(output.grad_fn, result)]
        while pending:
            node, target = pending.pop()
            box = made.get(id(node))
            if box is not None:
                target.sources.append(box)
                continue
            variable = getattr(node, "variable", None)
            if variable is not None:
                target.sources.append(leaf(variable))
                continue
            chain, pairs = _parts(node)
            made[id(node)] = chain[0]
            order += chain
            order += [box for box in dict.fromkeys(box for _, box in pairs) if box not in chain]
            target.sources.append(chain[0])
            pending += pairs
    return order


def _parts(node: Any) -> tuple[list[_Box], list[tuple[Any, _Box]]]:
    """The boxes of a node, each fed by the next, and what feeds which of them.

    A few operators are one node here and several in PyTorch, whose names people look for: a linear layer and the cross
    entropy are drawn with the parts that PyTorch records.
    """
    name = node.name().rpartition("::")[2].removesuffix("0").removesuffix("Backward")
    sources = [source for source, _ in node.next_functions]
    operator = getattr(getattr(node, "operator", None), "name", None)
    shown = 1 if operator == "aten::_cross_entropy" else 2
    shapes = [_described(shape, kind) for shape, kind, *_ in node.outputs[:shown]]
    chain = [_Box([name, *shapes], "operation")]
    if operator == "aten::_cross_entropy":
        chain.append(_Box(["LogSoftmax"], "operation"))
    elif operator == "aten::linear":
        (shape, kind, *_), *_ = node.outputs
        if name.endswith("View"):
            rows = (math.prod(shape[:-1]), shape[-1])
            chain.append(_Box(["Mm" if name.startswith("Unsafe") else "Addmm", _described(rows, kind)], "operation"))
        if sources[-1] is not None:
            turned = _Box(["T"], "operation")
            chain[-1].sources.append(turned)
            pairs = [(source, chain[-1]) for source in sources[:-1]] + [(sources[-1], turned)]
            return _linked(chain), [(source, box) for source, box in pairs if source is not None]
    return _linked(chain), [(source, chain[-1]) for source in sources if source is not None]


def _linked(chain: list[_Box]) -> list[_Box]:
    for box, source in zip(chain, chain[1:]):
        box.sources.append(source)
    return chain


def _placed(boxes: list[_Box]) -> tuple[float, float]:
    """Puts every box one row above the lowest box it feeds; the size of the picture comes back."""
    feeds: dict[int, int] = {id(box): 0 for box in boxes}
    for box in boxes:
        for source in box.sources:
            feeds[id(source)] += 1
    ready = [box for box in boxes if not feeds[id(box)]]
    while ready:
        box = ready.pop()
        for source in box.sources:
            source.level = max(source.level, box.level + 1)
            feeds[id(source)] -= 1
            if not feeds[id(source)]:
                ready.append(source)
    rows: dict[int, list[_Box]] = {}
    for box in boxes:
        rows.setdefault(box.level, []).append(box)
    widths = {level: sum(box.width + _GAP_X for box in row) - _GAP_X for level, row in rows.items()}
    total, y, tops = max(widths.values()), float(_MARGIN), {}
    for level in sorted(rows, reverse=True):
        tops[level] = y
        y += max(box.height for box in rows[level]) + _GAP_Y
    for level, row in rows.items():
        x = _MARGIN + (total - widths[level]) / 2
        for box in row:
            box.x, box.y = x, tops[level]
            x += box.width + _GAP_X
    return total + 2 * _MARGIN, y - _GAP_Y + _MARGIN


def _box_svg(box: _Box) -> str:
    text = "".join(
        f'<text x="{box.x + box.width / 2:.0f}" y="{box.y + _LINE * (i + 1):.0f}"'
        f' font-weight="{"normal" if i else "bold"}">{escape(line)}</text>' for i, line in enumerate(box.lines))
    return (f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height}" rx="6" '
            f'fill="{_STYLES[box.style]}" stroke="#556"/>{text}')


class Drawing(str):
    """The text of an SVG picture, which notebooks show as the picture."""

    def _repr_svg_(self) -> str:
        return str(self)


def draw_graph(output: Any, path: Any = None, params: Mapping[str, Tensor] | None = None) -> Drawing:
    """The SVG picture of the graph that made one or more tensors, data flowing down; written to `path` if given.

    Blue boxes are leaves, named by `params` (`dict(model.named_parameters())`); grey ones are recorded operations with
    the shape and type of what they made.
    """
    outputs = [output] if isinstance(output, Tensor) else list(output)
    boxes = _boxes(outputs, {id(tensor): name for name, tensor in (params or {}).items()})
    width, height = _placed(boxes)
    lines = [f'<path d="M{source.x + source.width / 2:.0f},{source.y + source.height:.0f} '
             f'L{box.x + box.width / 2:.0f},{box.y:.0f}" stroke="#778" marker-end="url(#tip)"/>'
             for box in boxes for source in box.sources]
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
           'font-family="monospace" font-size="12" text-anchor="middle">\n'
           '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
           '<path d="M0,1 L7,4 L0,7 z" fill="#778"/></marker></defs>\n'
           '<rect width="100%" height="100%" fill="white"/>\n'
           + "\n".join(lines + [_box_svg(box) for box in boxes]) + "\n</svg>\n")
    if path is not None:
        Path(path).write_text(svg, encoding="utf-8")
    return Drawing(svg)
