"""Kernels of the pipeline's groups, computed by NumPy: what they do, without the compiler that makes them fast."""

import ctypes
import threading
from typing import Any

import numpy as np
import scipy.special

from mindtorch_v2._kernels import ir
from mindtorch_v2._kernels.pointwise import CHUNK

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "pow": np.power, "copysign": np.copysign, "fmod": np.fmod,
    "min": np.minimum, "max": np.maximum, "atan2": np.arctan2, "hypot": np.hypot, "floordiv": np.floor_divide,
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


class _Memory:
    """The elements of an array that kernels look at by places in bytes; places beyond it are looked at by nobody."""

    def __init__(self, array: np.ndarray, kind: np.dtype) -> None:
        reach = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) + array.itemsize
        memory = (ctypes.c_byte * reach).from_address(array.__array_interface__["data"][0])
        self.elements = np.ndarray(reach // kind.itemsize, kind, memory)

    def places(self, at: Any) -> np.ndarray:
        return np.asarray(at) // self.elements.itemsize

    def load(self, at: Any) -> np.ndarray:
        return self.elements[np.clip(self.places(at), 0, self.elements.size - 1)]

    def store(self, at: Any, value: Any, where: np.ndarray) -> None:
        places, value, where = np.broadcast_arrays(self.places(at), value, where)
        self.elements[places[where]] = value[where].astype(self.elements.dtype)


class Interpreted:
    """In the place of machine code: `call(*arrays, geometry, *numbers)`, for all turns and elements at once."""

    launches = rows = 0

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel, self.lock = kernel, threading.Lock()  # threads share plans, and so this

    def wanted(self, size: int) -> Any:
        return self.call

    def call(self, *given: Any) -> bool:
        with self.lock:
            return self._call(*given)

    def _call(self, *given: Any) -> bool:
        Interpreted.launches += 1
        Interpreted.rows += self.kernel.name == "rows"
        names = [a.name for a in self.kernel.arrays]
        arrays = dict(zip(names, given, strict=False))
        kinds = {array.name: _dtype(array.type) for array in self.kernel.arrays}
        for name, kind in kinds.items():  # real numbers may be the parts of complex ones
            assert arrays[name].dtype == kind or arrays[name].dtype.kind == "c" and kind.kind == "f"
        words = arrays["geometry"].tolist()
        count = sum(name.startswith("at") for name in self.kernel.variables)
        sizes, steps = [words[0]], [[words[4 + k]] for k in range(count)]
        for d in range(words[2]):
            at = 4 + 2 * count + d * (1 + count)
            sizes.append(words[at])
            for k in range(count):
                steps[k].append(words[at + 1 + k])
        self.memory = {name: _Memory(array, kinds.get(name, array.dtype)) for name, array in arrays.items()}
        numbers = zip([n for n, _ in self.kernel.numbers], given[len(names) :], strict=True)
        self.names: dict[str, Any] = {"length": sizes[0], "rank": words[2], "first": 0, "last": sizes[0]}
        self.names |= dict(numbers) | {f"step{k}": steps[k][0] for k in range(count)}
        outer = sizes[:0:-1]
        for k in range(count):
            at = np.full((*outer, 1), words[4 + count + k])
            for d, step in enumerate(steps[k][:0:-1]):
                at = at + (np.arange(outer[d]) * step).reshape(-1, *[1] * (len(outer) - d))
            self.names[f"at{k}"] = at
        self.chunks = words[1]
        turn = self.kernel.body[-1].body
        start = next(at for at, s in enumerate(turn) if isinstance(s, ir.Set) and s.name == "last")
        self._run(turn[start + 1 :], np.ones((*outer, 1), bool))
        return True

    def _value(self, node: ir.Node) -> Any:
        """The value of an expression, of which each part is computed once for a statement."""
        known = self.known.get(id(node))
        if known is None:
            known = self.known[id(node)] = node, self._computed(node)
        return known[1]

    def _computed(self, node: ir.Node) -> Any:
        if node.op in ("load", "load_if"):
            loaded = self.memory[node.data.name].load(self._place(node.data, node.args[0]))
            return loaded if node.op == "load" else np.where(self._value(node.args[1]), loaded, loaded.dtype.type(0))
        if not node.args:
            return _value(node, self.names)
        made = ir.Node(node.op, node.type, tuple([ir.Node("var", a.type, (), str(i)) for i, a in enumerate(node.args)]))
        return _value(made, {str(i): self._value(a) for i, a in enumerate(node.args)})

    def _place(self, array: ir.Array, node: ir.Node) -> Any:
        at = self._value(node)
        return at if array.layout == "raw" else at * _dtype(array.type).itemsize

    def _run(self, statements: list, where: np.ndarray) -> None:
        """Runs statements for the elements of which `where` is true."""
        for statement in statements:
            self.known: dict[int, tuple[ir.Node, Any]] = {}
            if isinstance(statement, ir.Loop):
                start, stop = self._value(statement.start), self._value(statement.stop)
                j = self.names["j"] = np.arange(self.names["length"])
                self._run(statement.body, (j >= start) & (j < stop) & where)
            elif isinstance(statement, ir.If):
                self._run(statement.then, where & self._value(statement.condition))
            elif isinstance(statement, ir.Store):
                self._store(statement, where)
            elif statement.name.startswith(("total", "nan_")) and statement.value.args:
                self._fold(statement, where)
            elif statement.name == "wrong" and statement.value.args:
                found = np.broadcast_to(self._value(statement.value.args[1]), where.shape) & where
                self.names["wrong"] = self.names["wrong"] | found.any()
            else:
                self.names[statement.name] = self._value(statement.value)

    def _store(self, statement: ir.Store, where: np.ndarray) -> None:
        if statement.array.name.startswith("sums"):
            self.memory[statement.array.name].elements[...] = self.names[statement.value.data].ravel()
            return
        value = np.asarray(self._value(ir.cast(statement.value, statement.array.type)))
        self.memory[statement.array.name].store(self._place(statement.array, statement.index[0]), value, where)

    def _fold(self, statement: ir.Set, where: np.ndarray) -> None:
        """Goes on with a fold over the elements of rows, or with the sums of their chunks."""
        kind = {"add": np.add, "larger": np.fmax, "or": np.logical_or}[statement.value.op]
        value = np.broadcast_to(self._value(statement.value.args[1]), where.shape)
        nothing = {"add": 0, "larger": -np.inf, "or": False}[statement.value.op]
        value = np.where(where, value, np.asarray(nothing).astype(value.dtype))
        if statement.name.startswith(("total_", "nan_")):
            made = kind.reduce(value, axis=-1, keepdims=True)
        else:
            made = np.add.reduceat(value.reshape(-1, value.shape[-1]), range(0, value.shape[-1], CHUNK), axis=1)
        self.names[statement.name] = kind(self.names[statement.name], made)
