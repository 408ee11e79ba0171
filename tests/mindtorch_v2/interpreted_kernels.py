"""Kernels of the pipeline's groups, computed by NumPy: what they do, without the compiler that makes them fast."""

import ctypes
from typing import Any

import numpy as np
import scipy.special

from mindtorch_v2._kernels import ir
from mindtorch_v2._kernels.pointwise import CHUNK

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "pow": np.power, "copysign": np.copysign, "fmod": np.fmod,
    "min": np.minimum, "max": np.maximum, "atan2": np.arctan2, "hypot": np.hypot,
}  # fmt: skip
_UNARY = {"neg": np.negative, "abs": np.abs, "not": np.invert, "rint": np.rint, "erf": scipy.special.erf,
          "expit": scipy.special.expit, "sigmoid": scipy.special.expit, "acos": np.arccos,
          "asin": np.arcsin, "atan": np.arctan, "rsqrt": lambda x: 1 / np.sqrt(x)}  # fmt: skip


def _dtype(kind: str) -> Any:
    return np.dtype(ir.DTYPES[kind])


def _value(node: ir.Node, names: dict[str, Any]) -> Any:
    if node.op in ("var", "arg"):
        return names[node.data]
    if node.op == "const":
        return _dtype(node.type).type(node.data)
    args = [_value(a, names) for a in node.args]
    if node.op == "cast":
        return np.asarray(args[0]).astype(_dtype(node.type))
    if node.op == "select":
        return np.where(*args)
    function = _BINARY.get(node.op) or _UNARY.get(node.op) or getattr(np, node.op)
    return np.asarray(function(*args)).astype(_dtype(node.type), copy=False)


class Interpreted:
    """In the place of machine code: `call(*arrays, geometry, *numbers)`."""

    launches = rows = 0

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel

    def wanted(self, size: int) -> Any:
        return self.call

    def call(self, *given: Any) -> bool:
        Interpreted.launches += 1
        Interpreted.rows += self.kernel.name == "rows"
        sums = [a for a in self.kernel.arrays if a.name.startswith("sums")]
        count = len(self.kernel.arrays) - 1 - len(sums)
        given, parts = (*given[:count], *given[count + len(sums) :]), given[count : count + len(sums)]
        arrays, words, numbers = given[:count], given[count].tolist(), given[count + 1 :]
        sizes, steps = [words[0]], [[words[4 + k]] for k in range(count)]
        for d in range(words[2]):
            at = 4 + 2 * count + d * (1 + count)
            sizes.append(words[at])
            for k in range(count):
                steps[k].append(words[at + 1 + k])
        views = {}
        for k, array in enumerate(arrays):
            assert array.dtype == _dtype(self.kernel.arrays[k].type)
            reach = sum((n - 1) * step for n, step in zip(sizes, steps[k], strict=True)) + array.itemsize
            address = array.__array_interface__["data"][0] + words[4 + count + k]
            memory = (ctypes.c_byte * reach).from_address(address)
            views[f"a{k}"] = np.ndarray(sizes[::-1], array.dtype, memory, 0, steps[k][::-1])
        names: dict[str, Any] = dict(zip([n for n, _ in self.kernel.numbers], numbers, strict=True))
        names["length"] = sizes[0]
        turn = self.kernel.body[-1].body
        first = next(at for at, s in enumerate(turn) if isinstance(s, ir.Set) and s.name == "last")
        for statement in turn[first + 1 :]:
            if isinstance(statement, ir.Loop):
                self._loop(statement.body, names, views, sizes, parts)
            elif self.kernel.name == "rows":
                if isinstance(statement, ir.Store):
                    views[statement.array.name][...] = _value(statement.value, names)
                else:
                    names[statement.name] = _value(statement.value, names)
        return True

    def _loop(self, inner: list, names: dict[str, Any], views: dict[str, Any], sizes: list[int], parts: Any) -> None:
        """What a loop over the elements of rows does, for all rows at once."""
        stores = []
        for statement in inner:
            if isinstance(statement, ir.Set) and statement.name.startswith(("total_", "nan_")):
                value = np.broadcast_to(_value(statement.value.args[1], names), sizes[::-1])
                fold = {"add": np.add, "larger": np.fmax, "or": np.logical_or}[statement.value.op]
                names[statement.name] = fold.reduce(value, axis=-1, keepdims=True)
            elif isinstance(statement, ir.Set) and statement.name.startswith("total"):
                value = np.broadcast_to(_value(statement.value.args[1], names), sizes[::-1]).reshape(-1, sizes[0])
                chunks = np.add.reduceat(value, range(0, sizes[0], CHUNK), axis=1)
                parts[int(statement.name.removeprefix("total"))][...] = chunks.ravel()
            elif isinstance(statement, ir.Store):
                stores.append((views[statement.array.name], _value(statement.value, names)))
            elif statement.value.op in ("load", "cast") and "load" in (statement.value.op, statement.value.args[0].op):
                load = statement.value if statement.value.op == "load" else statement.value.args[0]
                names[statement.name] = views[load.data.name].astype(_dtype(statement.value.type))
            else:
                names[statement.name] = _value(statement.value, names)
        for view, value in stores:
            view[...] = np.asarray(value).astype(view.dtype)
