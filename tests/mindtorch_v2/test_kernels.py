"""The kernels that declarations name by device: read, not imported, since neither CuPy nor CANN need be installed."""

import ast
import functools
import pathlib
import re

import pytest

import mindtorch_v2
from mindtorch_v2._dispatch.schema import MISSING
from mindtorch_v2._ops._declare.layouts import LAYOUT_KEYS
from mindtorch_v2._ops._declare.op import DECLARATIONS, Declaration

PACKAGE = pathlib.Path(mindtorch_v2.__file__).parent
BACKENDS = PACKAGE / "_backends"
LAYOUTS = ("sparse", *LAYOUT_KEYS)
NAMED = [
    (device, name, declaration) for declaration in DECLARATIONS.values() for device, name in declaration.kernels.items()
]
# decorator -> how many parameters come before those for the operator's arguments, and how many arguments it takes away
KINDS = {"planned": (1, 0), "attempt": (1, 0), "array": (1, 0), "updating": (1, 1), "drawn": (1, 1), "making": (2, 0)}
MAKERS = ("Maker", "per_operator")  # decorate what takes the operator alone
COMPLETE = ["cuda"]  # devices all of whose kernels are named by declarations


def folder_of(device: str) -> pathlib.Path:
    """Where the kernels of a device lie, or of a sparse layout."""
    return PACKAGE / "_ops" / "sparse" if device in LAYOUTS else BACKENDS / device / "kernels"


@functools.cache
def definitions(file: pathlib.Path) -> dict[str, ast.AST]:
    """What a module defines at its outermost level, by name."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {
                name.id: node for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            }
    return found


def kind_of(node: ast.AST) -> str | None:
    """The decorator of a function, without its options."""
    for decorator in getattr(node, "decorator_list", []):
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(function, ast.Name) and function.id in (*KINDS, *MAKERS):
            return function.id
    return None


def given_first(node: ast.AST) -> int:
    """How many parameters a decorator `given("operator", "row")` fills before those for the operator's arguments."""
    return sum(name.value != "operator" for decorator in getattr(node, "decorator_list", [])
               if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "given"
               for name in decorator.args)


def takes(node: ast.FunctionDef, declaration: Declaration) -> bool:
    """Whether a function can be called with the operator's arguments, after what its kind gives it first."""
    kind = kind_of(node)
    if kind in MAKERS:
        return [a.arg for a in node.args.args] == ["operator"]
    if getattr(node.returns, "id", "") == "Launch":  # prepares a step of an optimizer: its number, and the options
        options = [a for a in declaration.operator.schema.arguments if a.keyword_only and a.default is MISSING]
        return len(node.args.args) == 1 + len(options)
    lead, without = KINDS.get(kind or "", (0, 0))
    lead += given_first(node)
    wanted = len(declaration.operator.schema.arguments) + lead - without
    stated = [a.arg for a in node.args.args if a.arg not in ("spec", "operator")]
    stated += ["spec"] if "spec" in [a.arg for a in node.args.args[:1]] else []
    return len(stated) == wanted or node.args.vararg is not None and len(stated) <= wanted


@pytest.mark.parametrize(
    ("device", "name", "declaration"),
    NAMED,
    ids=[f"{device} {declaration.operator.name}" for device, _, declaration in NAMED],
)
def test_named_kernels_exist_and_take_the_operator_s_arguments(device, name, declaration):
    module, _, function = name.partition(".")
    file = folder_of(device) / f"{module}.py"
    assert file.exists(), f"{declaration.operator.name} names {name}: there is no {file}"
    node = definitions(file).get(function)
    assert node is not None, f"{declaration.operator.name} names {name}: {file.name} has no {function}"
    if isinstance(node, ast.FunctionDef):
        assert takes(node, declaration), f"{name} does not take the arguments of {declaration.operator.schema}"


@pytest.mark.parametrize("device", COMPLETE)
def test_kernels_are_named_by_a_declaration_or_used_by_another_module(device):
    named = {name for kind, name, _ in NAMED if kind == device}
    files = sorted((BACKENDS / device / "kernels").glob("*.py"))
    text = "\n".join(file.read_text() for file in (*files, *(BACKENDS / device).glob("*.py")))
    lists = re.findall(r"^ *from \.(?:kernels\.)?\w+ import (\([^)]*\)|.*)$", text, re.MULTILINE)
    imported = set(re.findall(r"\w+", " ".join(lists)))
    unused = [
        f"{file.stem}.{function}"
        for file in files
        for function, node in definitions(file).items()
        if isinstance(node, ast.FunctionDef)
        and not function.startswith("_")
        and function not in (*KINDS, *MAKERS)
        and f"{file.stem}.{function}" not in named
        and (kind_of(node) is not None or function not in imported)
    ]
    assert unused == []


def test_declarations_name_kernels_of_devices_that_there_are():
    devices = {folder.name for folder in BACKENDS.iterdir() if folder.is_dir()}
    assert {device for device, _, _ in NAMED} <= {*devices, *LAYOUTS}
    assert len(NAMED) > 100


# What a public function of the documentation's table runs, beside the operator of its name.
BEHIND = {
    "gelu": ["gelu_backward"],
    "softmax": ["_softmax_backward_data"],
    "layer_norm": ["_native_layer_norm", "native_layer_norm_backward"],
    "conv2d": ["convolution", "convolution_backward"],
    "max_pool2d": ["max_pool2d_with_indices", "max_pool2d_with_indices_backward"],
    "lstm": ["_recurrent_layer", "_recurrent_layer_backward"],
    "scaled_dot_product_attention": ["_attention", "_attention_backward"],
}
TABLE = [
    (name, family, *(cell.strip(" `") for cell in cells.split("|")))
    for name, family, cells in re.findall(
        r"^\| (\w+) \| `([\w/]+\.py)` \|(.*)\|$",
        (pathlib.Path(__file__).parents[2] / "docs" / "architecture.md").read_text(), re.MULTILINE)
]


COLUMNS = ("library", "cpu", "cuda", "npu", "sparse")


def library_files(device: str, kernel: str) -> set[str]:
    """The files of _kernels/library whose functions a kernel launches, itself or by what its module defines."""
    module, _, function = kernel.partition(".")
    file = folder_of(device) / f"{module}.py"
    known, libraries = definitions(file), {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("_kernels.library"):
            libraries |= {name.asname or name.name: f"{name.name}.py" for name in node.names}
    used, waiting = {function}, [function]
    while waiting:
        node = known.get(waiting.pop())
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - used if node is not None else set()
        used |= names
        waiting += names
    return {libraries[name] for name in used & libraries.keys()}


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_the_documentation_says_where_operators_are_defined(row):
    name, family, *cells = row
    names = (name, *BEHIND.get(name, ()))
    found = [d for d in DECLARATIONS.values() if d.operator.schema.base_name in names]
    assert found and {d.module.partition("_ops.")[2] + ".py" for d in found} == {family}
    named = [item for d in found for item in d.kernels.items()]
    defined = {column: set() for column in COLUMNS}
    for device, kernel in named:
        defined["sparse" if device in LAYOUTS else device].add(f"{kernel.partition('.')[0]}.py")
        defined["library"] |= library_files(device, kernel)
    assert defined == {column: {cell} if cell else set() for column, cell in zip(COLUMNS, cells, strict=True)}


@functools.cache
def said_in_the_package() -> list[tuple[pathlib.Path, int, str]]:
    """Where operators are named in full, or have a kernel registered: files, lines and names."""
    found = []
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            text = getattr(node, "value", None)
            if isinstance(node, ast.Constant) and isinstance(text, str) and text.startswith("aten::"):
                found.append((file, node.lineno, text))
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "register_kernel":
                found.append((file, node.lineno, f"aten::{getattr(node.args[0], 'value', '')}"))
    return found


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_nothing_is_said_of_an_operator_elsewhere(row):
    name, family, *cells = row
    names = {f"aten::{n}" for n in (name, *BEHIND.get(name, ()))}
    place = PACKAGE / "_ops" / family
    assert [said for said in said_in_the_package() if said[2] in names and said[0] != place] == []


def test_the_table_has_twelve_rows():
    assert len(TABLE) == 12 and set(BEHIND) < {row[0] for row in TABLE}
