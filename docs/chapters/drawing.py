"""Small pictures for the chapters: SVG that notebooks and the site show."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import mindtorch_v2 as torch

CELL, LINE = 38, 22
SHOWN, HIDDEN, TEXT, FAINT = "#cfe3f7", "#ffffff", "#1f2933", "#9aa5b1"
COLOURS = ("#cfe3f7", "#fde2c0", "#d5ecd4", "#eddcf5", "#f7d6d6", "#e6ebf1")


class Picture(str):
    """An SVG; notebooks show it as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)


def _svg(width: float, height: float, parts: Sequence[str]) -> Picture:
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="13">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, colour: str = TEXT, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}" stroke="#7b8794"/>'


def memory(*tensors: torch.Tensor, names: Sequence[str] = ()) -> Picture:
    """The storage that tensors share, a row for each with the cells that it shows and their indices in it."""
    storage = tensors[0].untyped_storage()
    size = tensors[0].element_size()
    count = storage.nbytes() // size
    whole = torch.as_strided(tensors[0], (count,), (1,), 0)
    width, parts = 130 + count * CELL, []
    parts.append(_text(4, 24, "storage"))
    for i in range(count):
        parts += [_box(130 + i * CELL, 6, CELL - 4, 26, "#eeeeee"), _number(130 + i * CELL, 24, whole[i].item())]
    y = 44.0
    for row, tensor in enumerate(tensors):
        name = names[row] if row < len(names) else f"tensor {row}"
        parts.append(_text(4, y + 18, f"{name} {tuple(tensor.shape)}"))
        places = torch.arange(count).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        index_of = {place: at for at, place in enumerate(places.reshape(-1).tolist())}
        for i in range(count):
            shown = i in index_of
            parts.append(_box(130 + i * CELL, y, CELL - 4, 26, COLOURS[row % len(COLOURS)] if shown else HIDDEN))
            if shown:
                parts.append(
                    _text(130 + i * CELL + (CELL - 4) / 2, y + 18, _index(index_of[i], tensor.shape), anchor="middle")
                )
        y += 36
    return _svg(width, y, parts)


def _number(x: float, y: float, value: float) -> str:
    return _text(x + (CELL - 4) / 2, y, f"{value:g}", anchor="middle")


def _index(at: int, shape: Sequence[int]) -> str:
    index = []
    for size in reversed(shape):
        index.append(str(at % size))
        at //= size
    return ",".join(reversed(index))


def ladder(steps: Sequence[tuple[str, str]], title: str = "") -> Picture:
    """Steps from the top down, each with a word on what happens there."""
    left = max(len(name) for name, _ in steps) * 8 + 20
    width = left + max(len(word) for _, word in steps) * 8 + 30
    parts, y = ([_text(4, 16, title)], 26.0) if title else ([], 4.0)
    for i, (name, word) in enumerate(steps):
        parts += [
            _box(4, y, left, 26, COLOURS[i % len(COLOURS)]),
            _text(12, y + 18, name),
            _text(left + 16, y + 18, word, FAINT),
        ]
        if i + 1 < len(steps):
            parts.append(f'<path d="M {4 + left / 2:g} {y + 26:g} v 10" stroke="#7b8794" marker-end="none"/>')
        y += 36
    return _svg(width, y, parts)


def bars(values: Mapping[str, float], unit: str = "") -> Picture:
    """Numbers by name, as bars."""
    left = max(map(len, values)) * 8 + 16
    longest = max(values.values())
    parts = []
    for i, (name, value) in enumerate(values.items()):
        y, length = 6 + i * 30, 300 * value / longest
        parts += [_text(4, y + 16, name), _box(left, y, max(length, 2), 22, COLOURS[i % len(COLOURS)])]
        parts.append(_text(left + length + 8, y + 16, f"{value:.3g} {unit}"))
    return _svg(left + 420, 12 + 30 * len(values), parts)


def line(points: Sequence[float], label: str = "") -> Picture:
    """A curve of numbers over their position."""
    low, high = min(points), max(points)
    step, scale = 420 / max(len(points) - 1, 1), 130 / ((high - low) or 1)
    path = " ".join(
        f"{'M' if i == 0 else 'L'} {50 + i * step:.1f} {150 - (p - low) * scale:.1f}" for i, p in enumerate(points)
    )
    axis = '<path d="M 50 14 V 150 H 474" stroke="#9aa5b1" fill="none"/>'
    curve = f'<path d="{path}" stroke="#c2410c" stroke-width="2" fill="none"/>'
    return _svg(
        490, 175, [axis, curve, _text(4, 22, f"{high:.3g}"), _text(4, 154, f"{low:.3g}"), _text(50, 170, label, FAINT)]
    )
