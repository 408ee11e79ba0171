"""Array functions recorded as programs (_backends/cuda/recording.py), their steps replayed on the host."""

import ast
import ctypes
import functools
import pathlib
import warnings
from typing import Any

import numpy as np
import operator_cases as samples
import pytest
import scipy.special
from operator_cases import Call, Declaration

import mindtorch_v2 as torch
from mindtorch_v2._backends.cuda import fuse
from mindtorch_v2._backends.cuda.fuse import Untraceable
from mindtorch_v2._backends.cuda.recorded_arrays import Array
from mindtorch_v2._backends.cuda.recorder import Recorder, Result, xp
from mindtorch_v2._backends.cuda.recording import (
    Computed,
    Folded,
    Found,
    Multiplied,
    Place,
    Program,
    Ran,
    Taken,
    evaluated,
)
from mindtorch_v2._backends.cuda.written import _OTHERS, preparing, source_of, spread_out
from mindtorch_v2._core.dtype import REDUCED
from mindtorch_v2._dispatch.keys import CPU_MASK
from mindtorch_v2._kernels.language import flat
from mindtorch_v2._ops._declare.composites import Parts
from mindtorch_v2._ops._declare.families import ArrayFamily, Pointwise
from mindtorch_v2._ops._declare.op import DECLARATIONS

RECORDED = {name: d for name, d in samples.sampled().items()
            if isinstance(d.family, (ArrayFamily, Pointwise)) and not samples.draws(d)}
# Why a call may have no program.
REFUSED = (Untraceable, ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RuntimeError,
           TypeError, ValueError, UserWarning)


class Host:
    """NumPy, SciPy's functions, and what the library has beside these."""

    def __getattr__(self, name: str) -> Any:
        known = getattr(np, name, None) or getattr(scipy.special, name, None)
        if known is not None:
            return known
        function = getattr(torch.special, name)
        return lambda *arrays: function(*[torch.from_numpy(np.array(array)) for array in arrays]).numpy()


class Replay:
    """The memory of a program, and its steps."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays, self.memory = arrays, {}

    def view(self, place: Place) -> np.ndarray:
        buffer = place.buffer
        if id(buffer) not in self.memory:
            own = np.full(buffer.nbytes, 0xA5, np.uint8) if buffer.is_own else buffer.data
            self.memory[id(buffer)] = (own if buffer.argument is None else self.arrays[buffer.argument]), buffer
        data = self.memory[id(buffer)][0]
        if 0 in place.shape:
            return np.empty(place.shape, place.kind)
        steps = [s * (n - 1) for s, n in zip(place.strides, place.shape, strict=True)]
        before, behind = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + place.kind.itemsize
        if buffer.argument is None:
            assert place.offset + before >= 0 and place.offset + behind <= buffer.nbytes, "outside of a buffer"
        start = data.__array_interface__["data"][0] + place.offset + before
        shown = (ctypes.c_char * (behind - before)).from_address(start)
        return np.ndarray(place.shape, place.kind, shown, -before, place.strides)

    def run(self, step: Any) -> None:
        target = self.view(step.target)
        if isinstance(step, Computed):
            made = evaluated(step.value, [self.view(leaf) for leaf in step.leaves], lambda number: number, Host())
            target[...] = np.asarray(made).astype(target.dtype)
        elif isinstance(step, Folded):
            options = {"dtype": target.dtype} if step.how in ("sum", "prod") else {}
            fold = np.bitwise_xor.reduce if step.how == "xor" else getattr(np, step.how)
            target[...] = fold(self.rows(step), axis=1, **options).reshape(target.shape)
        elif isinstance(step, Found):
            target[...] = (np.argmax if step.largest else np.argmin)(self.rows(step), 1).reshape(target.shape)
        elif isinstance(step, Taken):
            outer, length, count, inner = step.groups
            rows, at = self.view(step.source).reshape(outer, length, inner), self.view(step.indices)
            made = np.take_along_axis(rows, at.reshape(outer, count, inner), 1) if step.along else rows[:, at.ravel()]
            target[...] = made.reshape(target.shape)
        elif isinstance(step, Ran):
            annotated = step.kernel.function.__annotations__
            names = step.kernel.function.__code__.co_varnames
            arrays = [view.reshape(-1) if annotated.get(name) is flat else view
                      for name, view in zip(names, map(self.view, step.arrays), strict=False)]
            step.kernel(*arrays, *step.numbers, **dict(step.constants))
        else:
            assert isinstance(step, Multiplied)
            target[...] = self.view(step.first) @ self.view(step.second)

    def rows(self, step: Any) -> np.ndarray:
        return self.view(step.source).reshape(step.groups)


def replayed(program: Program, arrays: list[np.ndarray]) -> list[np.ndarray]:
    replay = Replay(arrays)
    with np.errstate(all="ignore"):
        for step in program.steps:
            replay.run(step)
    return [replay.view(place).copy() for place in program.results]


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [array for each in value for array in arrays_in(each)]
    return [value._array] if hasattr(value, "_array") else []


@functools.cache
def kernel_of(declaration: Declaration, own: bool) -> tuple[Recorder, Any] | None:
    """What records an operator's array function, or, `own`, what the CPU runs a kernel of the language by."""
    family, array = declaration.family, preparing(declaration.kernels.get("cpu")) if own else None
    if own and array is None or not own and isinstance(family, Parts):
        return None
    recorder = Recorder(array)
    if isinstance(family, Parts):
        family = ArrayFamily(family.infer, array, widen=False)
    return recorder, family.kernel(declaration.operator, recorder)


def recorded(declaration: Declaration, args: list[Any], own: bool = False) -> tuple[Program, Any]:
    known = kernel_of(declaration, own)
    if known is None:
        raise Untraceable
    return known[0].record(known[1], args, arrays_in(args))


def bound(call: Call, dtype: str) -> list[Any]:
    tensors = samples.bases(call, torch, dtype)
    args, kwargs = samples.arguments(call, torch, samples.writable(call, tensors), "cpu")
    return call.declaration.operator.schema.bind(args, kwargs)


def check(call: Call, dtype: str, own: bool = False) -> bool:
    """Whether a call has a program; then that must give what the CPU's kernel gives."""
    args = bound(call, dtype)
    arrays = arrays_in(args)
    if not arrays or not all(array.size for array in arrays) or len({id(a) for a in arrays}) < len(arrays):
        return False
    try:
        wanted = call.declaration.operator.lookup(CPU_MASK)(*args)
    except (NotImplementedError, RuntimeError, TypeError, ValueError, ZeroDivisionError, IndexError):
        return False
    try:
        program, made = recorded(call.declaration, args, own)
    except REFUSED:
        return False
    try:
        got = replayed(program, arrays)
    except ZeroDivisionError:  # of plain Python, where machine code makes an infinity
        return False
    wide = 2e-2 if dtype in ("float16", "bfloat16") else 1e-4
    results = [made] if isinstance(made, Result) else [each for each in made if each is not None]
    for result, tensor in zip(results, [t for t in samples.leaves(wanted) if t is not None], strict=True):
        array, expected = got[result.number], tensor._array
        assert (array.shape, array.dtype) == (expected.shape, expected.dtype), call
        if expected.dtype in REDUCED:
            array, expected = array.astype(np.float32), expected.astype(np.float32)
        np.testing.assert_allclose(array, expected, wide, wide, err_msg=str(call))
    return True


@pytest.mark.parametrize("declaration", RECORDED.values(), ids=RECORDED)
def test_programs_give_what_the_function_gives(declaration: Declaration) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in samples.good_calls(declaration):
            check(call, samples.PRIMARY)
        for call in samples.secondary_calls(declaration):
            for dtype in samples.SECONDARY:
                check(call, dtype)


WRITTEN = {name: d for name, d in RECORDED.items() if preparing(d.kernels.get("cpu")) is not None}


@pytest.mark.parametrize("declaration", WRITTEN.values(), ids=WRITTEN)
def test_kernels_of_the_language_run_as_steps(declaration: Declaration) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = [check(call, samples.PRIMARY, own=True) for call in samples.good_calls(declaration)]
        for call in samples.secondary_calls(declaration)[:2]:
            check(call, "float64", own=True)
    if declaration.kernels["cpu"].startswith(("pool.", "grid.")):
        assert any(done)
        args = bound(samples.good_calls(declaration)[0], samples.PRIMARY)
        steps = [step for step in recorded(declaration, args, own=True)[0].steps if isinstance(step, Ran)]
        for step in steps:
            source = source_of(step)
            assert "launched(" in source.text and source.grid[0] > 0
        assert steps


def test_every_name_imported_for_cuda_exists() -> None:
    """Modules that need a GPU to be imported are read only, the shared ones where `..` is _backends/cuda."""
    folder = pathlib.Path(torch.__file__).parent / "_backends" / "cuda"
    prepared = [path for path in folder.parent.joinpath("cpu", "kernels").glob("*.py")
                if path.stem not in (*_OTHERS, "__init__")]
    read = [(path, path.parent) for path in folder.rglob("*.py")] + [(path, folder / "kernels") for path in prepared]
    missing = []
    for path, package in read:
        for part in ast.walk(ast.parse(path.read_text())):
            if isinstance(part, ast.ImportFrom) and part.level > (path in prepared):
                module = package.joinpath(*[".."] * (part.level - 1), *(part.module or "").split(".")).resolve()
                missing += [f"{path.name}: {part.module}.{a.name}" for a in part.names if not _has(module, a.name)]
    assert len(prepared) > 10 and not missing


def _has(module: pathlib.Path, name: str) -> bool:
    """Whether a module, by its path without the ending, has a name at its top, or is a package with such a module."""
    if module.joinpath(f"{name}.py").exists() or module.joinpath(name, "__init__.py").exists():
        return True
    file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    return file.exists() and name in _names_of(file)


@functools.cache
def _names_of(file: pathlib.Path) -> set[str]:
    found = set()
    for part in ast.walk(ast.parse(file.read_text())):
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            found.add(part.name)
        elif isinstance(part, ast.alias):
            found.add(part.asname or part.name)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
    return found


def test_what_prepares_calls_of_the_cpu_prepares_them_for_cuda_too() -> None:
    named = {d.kernels["cpu"] for d in DECLARATIONS.values() if d.kernels.get("cpu")}
    assert len([name for name in named if preparing(name) is not None]) > 100


def test_loops_whose_turns_do_not_meet_are_spread_out() -> None:
    from mindtorch_v2._kernels.language import kernel, like, parallel
    from mindtorch_v2._kernels.reader import read

    @kernel
    def apart(out, x):
        for row in parallel(out.shape[0], out.shape[1]):
            for j in range(out.shape[1]):
                total = like(0, x)
                for k in range(x.shape[2]):
                    total += x[row, j, k]
                out[row, j] = total

    @kernel
    def running(out, x):
        for row in parallel(out.shape[0], out.shape[1]):
            total = like(0, x)
            for j in range(out.shape[1]):
                total += x[row, j, 0]
                out[row, j] = total

    @kernel
    def back(out, x):
        for row in parallel(out.shape[0], out.shape[1]):
            for j in range(out.shape[1]):
                out[row, j] = x[row, j, 0] + (out[row, j - 1] if j > 0 else 0)

    for written, wanted in ((apart, True), (running, False), (back, False)):
        made = spread_out(read(written, {"out": ("f32", 2, "s"), "x": ("f32", 3, "s")}, {}, {}))
        assert ("own_turn" in made.variables) is wanted, written.function.__name__

    @kernel
    def deep(out, x):
        for row in parallel(out.shape[0], out.shape[1] * out.shape[2]):
            for j in range(out.shape[1]):
                for k in range(out.shape[2]):
                    out[row, j, k] = x[row, j, k] * 2

    made = spread_out(read(deep, {"out": ("f32", 3, "s"), "x": ("f32", 3, "s")}, {}, {}))
    assert "own_turn1" in made.variables and "own_turn2" not in made.variables


# operator -> the most steps that a program of its samples may have
SHORT = {"var.correction": 9, "std_mean.correction": 10, "cat": 3, "constant_pad_nd": 2, "nan_to_num": 2,
         "linalg_vector_norm": 4, "upsample_bilinear2d": 8, "upsample_bicubic2d": 8, "addcdiv": 1,
         "binary_cross_entropy": 3, "mse_loss": 3, "linalg_cross": 4, "stack": 3}


@pytest.mark.parametrize("name", SHORT)
def test_what_must_have_a_program(name: str) -> None:
    declaration = RECORDED[f"aten::{name}"]
    lengths = []
    for call in samples.good_calls(declaration):
        args = bound(call, "float32")
        if all(array.size for array in arrays_in(args)):
            lengths.append(len(recorded(declaration, args)[0].steps))
    assert lengths and max(lengths) <= SHORT[name], lengths


# writes, views and what reads them ------------------------------------------------------------------------------------


def outcome(function: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """What a function of the namespace gives, recorded and replayed."""
    class Tensor:
        def __init__(self, array: np.ndarray) -> None:
            self._array = array

    recorder = Recorder()
    specs = []

    def kernel(*tensors: Any) -> Any:
        made = function(xp, *(recorder.array_of(t) for t in tensors))
        for each in made if isinstance(made, tuple) else (made,):
            kind = next(k for k in torch._core.dtype.OF_ARRAY if k == each.dtype)
            specs.append(recorder.finished(each, torch._ops._declare.rules.Spec(
                each.shape, torch._core.dtype.OF_ARRAY[kind])))
        return specs

    program, _ = recorder.record(kernel, [Tensor(a) for a in arrays], list(arrays))
    return replayed(program, list(arrays))


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def shifted_onto_itself(xp: Any, x: Any) -> Any:
    made = x.copy()
    made[:, 1:] = made[:, :-1]
    return made


def read_before_it_is_written(xp: Any, x: Any) -> Any:
    made = x.copy()
    view = made[1]
    before = view + 1  # not computed yet
    view *= 10
    return before, made


def written_through_a_view_of_zeros(xp: Any, x: Any) -> Any:
    made = xp.zeros((3, 4), np.float32)
    part = made[1:]
    part[:, ::2] = x[1:, ::2]
    part += 1
    return made


def masked(xp: Any, x: Any) -> Any:
    made = x.copy()
    made[made > 5] = -1
    return made


def folded_over_apart_dimensions(xp: Any, x: Any) -> Any:
    wide = x.reshape(3, 2, 2)
    return wide.sum((0, 2)), wide.max((0, 2), keepdims=True), wide.transpose(2, 0, 1).argmax(0)


def reversed_and_taken(xp: Any, x: Any) -> Any:
    return x[::-1, ::-1].copy(), x.take(xp.asarray([2, 0, -1]), 0), x[xp.asarray([0, 2]), xp.asarray([1, 3])]


@pytest.mark.parametrize("function", [shifted_onto_itself, read_before_it_is_written, written_through_a_view_of_zeros,
                                      masked, folded_over_apart_dimensions, reversed_and_taken])
def test_order_of_reads_and_writes(function: Any) -> None:
    with np.errstate(all="ignore"):
        wanted = function(np, X.copy())
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    got = outcome(function, X.copy())
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_data_is_not_looked_at() -> None:
    for look in (bool, int, float, lambda x: x.item(), lambda x: [1, 2][x]):
        with pytest.raises(Untraceable):
            outcome(lambda xp, x, look=look: x * look(x.sum()), X)


def test_an_array_of_an_earlier_program_is_refused() -> None:
    kept: list[Array] = []

    def keeps(xp: Any, x: Any) -> Any:
        kept.append(x * 2)
        return x + kept[0]

    np.testing.assert_array_equal(outcome(keeps, X)[0], 3 * X)
    with pytest.raises(Untraceable):
        outcome(keeps, X)


def test_arguments_are_not_written_to() -> None:
    def writes(xp: Any, x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(Untraceable):
        outcome(writes, X)


def test_numbers_are_arguments_of_kernels() -> None:
    """So that another number needs no other kernel."""
    def source(number: float) -> str:
        traced, numbers = fuse.Traced.of_expression([X.dtype], lambda loads, given: loads[0] * given(number))
        assert numbers == [number]
        return traced.flat_source([X.dtype], [False], X.dtype)

    assert source(1.5) == source(2.5)


def test_few_columns_of_many_rows_are_left_to_reductions() -> None:
    """A thread a column would be too few threads; of short columns, teams have as many lanes as they have columns."""
    from mindtorch_v2._backends.cuda.recording import Buffer
    from mindtorch_v2._kernels.library.softmax import logsumexp_columns

    def source(rows: int, columns: int, width: int) -> Any:
        kind = np.dtype(np.float32)
        out, x = (Place(Buffer(4 * n), kind, (n,), (4,)) for n in (columns, rows * columns))
        return source_of(Ran(logsumexp_columns, (), (out, x), (1, rows, columns, width), out))

    assert source(16, 4096, 32).block == (32, 4) and source(16, 4096, 128).block == (128, 1)
    with pytest.raises(Untraceable):
        source(4096, 4096, 32)
