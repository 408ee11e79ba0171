"""What Python's own tools see of operators: signatures, docstrings, source, tracebacks, steps of a debugger."""

import inspect
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._ops._declare.op import DECLARATIONS, PUBLIC, function_of, public_functions

F = torch.nn.functional
SOURCE = str(pathlib.Path(torch.__file__).parents[1])


def run(*arguments: str) -> subprocess.CompletedProcess:
    """A program in a process of its own, in which no operator was called yet."""
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300)


def public() -> Iterator[tuple[str, Callable]]:
    """All functions that stand in the public places."""
    for place in ("torch", "Tensor", "nn.functional", "linalg", "special", "fft", "sparse"):
        for name, function in public_functions(place).items():
            yield f"{place}.{name}", function


# signatures and docstrings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function, expected", [
    (torch.softmax, ["input", "dim", "dtype", "out"]),
    (torch.Tensor.softmax, ["self", "dim", "dtype"]),
    (torch.ones(1).softmax, ["dim", "dtype"]),
    (torch.zeros, ["size", "dtype", "layout", "device", "pin_memory", "requires_grad", "out"]),
    (torch.Tensor.add_, ["self", "other", "alpha"]),
    (torch.max, ["input", "args", "kwargs"]),
    (torch.linalg.svd, ["A", "full_matrices", "driver", "out"]),
    (F.linear, ["input", "weight", "bias", "out"]),
    (F.cross_entropy, ["input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction",
                       "label_smoothing"]),
])  # fmt: skip
def test_signatures(function: Callable, expected: list[str]) -> None:
    assert list(inspect.signature(function).parameters) == expected


def test_a_signature_has_kinds_defaults_and_types() -> None:
    signature = inspect.signature(torch.sum)
    keepdim, kind = signature.parameters["keepdim"], signature.parameters["dtype"]
    assert keepdim.default is False and keepdim.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert kind.default is None and kind.kind is inspect.Parameter.KEYWORD_ONLY
    assert (signature.parameters["input"].annotation, signature.return_annotation) == ("Tensor", "Tensor")
    assert signature.parameters["dim"].annotation == "int | Sequence[int] | None"
    assert inspect.signature(torch.Tensor.view).parameters["args"].kind is inspect.Parameter.VAR_POSITIONAL


def test_a_signature_is_known_before_the_first_call() -> None:
    program = (
        "import inspect, mindtorch_v2 as torch; print(list(inspect.signature(torch.softmax).parameters)); "
        "print(torch.softmax.__doc__.splitlines()[-1]); print(torch.softmax.__code__.co_varnames)"
    )
    assert run("-c", program).stdout.splitlines()[:2] == [
        "['input', 'dim', 'dtype', 'out']",
        "aten::softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    ]


def test_every_function_has_a_signature_and_says_its_schemas() -> None:
    for name, function in public():
        inspect.signature(function)
        schemas = [str(operator.schema) for operator in function.__wrapped__.operators]  # type: ignore[attr-defined]
        assert all(schema in str(function.__doc__) for schema in schemas), name


def test_the_docstring_of_a_declaration_is_that_of_the_function() -> None:
    for declaration in DECLARATIONS.values():
        if declaration.operator.is_composite and declaration.family.function.__doc__:
            assert declaration.family.function.__doc__ in str(function_of(declaration.operator).__doc__)
            break
    else:
        pytest.fail("no composite has a docstring")


def test_public_names_have_docstrings() -> None:
    places = [torch, torch.Tensor, F, torch.linalg, torch.special, torch.fft, torch.signal.windows, torch.sparse]
    for place in places:
        names = getattr(place, "__all__", None) or [name for name in vars(place) if not name.startswith("_")]
        values = {name: getattr(place, name) for name in names}
        silent = [name for name, value in values.items() if callable(value) and not value.__doc__]
        assert not silent, place


# source --------------------------------------------------------------------------------------------------------------


def test_the_source_of_an_operator_is_its_declaration() -> None:
    text = inspect.getsource(torch.softmax)
    assert 'op("softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"' in text
    assert "def _softmax_into(" in text  # a function that the declaration names
    assert inspect.getsource(torch.Tensor.softmax) == inspect.getsource(torch.ones(1).softmax) == text
    assert inspect.getsource(torch.relu_) == inspect.getsource(torch.relu)
    assert "def _layer_norm_output(" in inspect.getsource(F.layer_norm)


def test_every_declaration_has_a_source() -> None:
    for name, function in public():
        text = inspect.getsource(function)
        compile(text, name, "exec")
        assert text.strip(), name


def test_generated_code_lies_on_the_line_of_the_declaration() -> None:
    torch.ones(2, requires_grad=True).exp().sum().backward()
    declaration = DECLARATIONS["aten::exp"]
    function = function_of(declaration.operator)
    function(torch.ones(1))
    places = {(line, end, start_column) for line, end, start_column, _ in function.__code__.co_positions()}  # type: ignore[attr-defined]
    assert places == {(declaration.line, declaration.line, None)}
    assert function.__code__.co_filename == declaration.file  # type: ignore[attr-defined]


# tracebacks and debuggers --------------------------------------------------------------------------------------------

FAILING = """
import torch

def apply(layer, x):
    return layer(x)

apply(torch.nn.Linear(3, 4), torch.ones(2, 5))
"""


def test_a_traceback_begins_with_the_program_and_shows_lines(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    lines = run("-m", "mindtorch_v2", str(script)).stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('failing.py", line 7, in <module>')
    assert lines[-1] == "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x5 and 3x4)"
    for line, following in zip(lines, lines[1:]):
        if line.startswith("  File "):
            assert following.startswith("    "), f"no source below {line}"
    assert sum('op("linear(Tensor input' in line for line in lines) == 3  # caller, autograd, CPU


def test_a_traceback_of_code_and_of_modules(tmp_path: pathlib.Path) -> None:
    (tmp_path / "failing.py").write_text("1 / 0\n")
    command = ["-m", "mindtorch_v2", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import failing"]
    assert run(*command).stderr.splitlines()[1] == '  File "<string>", line 1, in <module>'
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    made = subprocess.run([sys.executable, "-m", "mindtorch_v2", "-m", "failing"], capture_output=True, text=True,
                          env=environment, cwd=tmp_path, timeout=300)  # fmt: skip
    assert made.stderr.splitlines()[1].endswith('failing.py", line 1, in <module>')


STEPPING = """
import bdb
import mindtorch_v2 as torch

class Steps(bdb.Bdb):
    def user_line(self, frame):
        print(frame.f_code.co_name)
        self.set_step()

x = torch.ones(3, requires_grad=True)
Steps().run("torch.softmax(x, 0)", {"torch": torch, "x": x})
print("---")
Steps().run("torch.softmax(x, 0)", {"torch": torch, "x": x})
"""


def test_stepping_reaches_the_kernel_in_a_few_steps() -> None:
    first, again = run("-c", STEPPING).stdout.split("---")
    stops = first.split("\n")
    before = stops[: stops.index("infer")]  # where the shape rule begins
    assert set(before) == {"<module>", "_stub", "softmax", "lookup", "softmax autograd", "softmax cpu"}
    assert len(before) < 20
    assert again.split("\n")[1:6] == ["<module>", "softmax", "softmax autograd", "softmax cpu", "infer"]


# show ----------------------------------------------------------------------------------------------------------------


def test_show() -> None:
    text = run("-m", "mindtorch_v2", "show", "add").stdout
    assert 'op("add(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"' in text
    assert "def add(self=" in text
    assert "aclnnAdd(self, other, alpha, out)" in text
    assert "other: of (grad, alpha)" in text
    assert "as other operators" in run("-m", "mindtorch_v2", "show", "F.layer_norm").stdout


def test_show_of_every_operator() -> None:
    from mindtorch_v2._show import describe_operator

    for names in PUBLIC.values():
        for name in names:
            assert "--- Kernels of" in describe_operator(name)


def test_show_of_an_unknown_name() -> None:
    made = run("-m", "mindtorch_v2", "show", "sofmax")
    assert made.returncode == 1
    assert made.stderr.startswith("There is no operator 'sofmax'. Near it: softmax")
