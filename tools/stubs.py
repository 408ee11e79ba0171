"""Writes the stubs (.pyi) that editors and type checkers read, from the schemas and from what is attached at import.

    python tools/stubs.py            # writes them beside the modules
    python tools/stubs.py --check    # says which are out of date

A module whose names come from the operator table has a stub of its own. Tensor's attached methods stand in
`_tensor_methods.pyi`, a class that Tensor inherits from as far as type checkers know.
"""

import argparse
import ast
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType, UnionType
from typing import Any, Union, get_args, get_origin

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))

import mindtorch_v2 as torch  # noqa: E402
from mindtorch_v2._compat.absent_modules import ABSENT_MODULES  # noqa: E402
from mindtorch_v2._dispatch.schema import Schema  # noqa: E402
from mindtorch_v2._dispatch.signatures import parameters, result_annotation  # noqa: E402
from mindtorch_v2._ops._declare.op import DECLARATIONS, RETURN_TYPES  # noqa: E402
from mindtorch_v2._ops._declare.source import Declared  # noqa: E402

PACKAGE = SOURCE / "mindtorch_v2"
WIDTH = 120
HEADER = '''"""Made by tools/stubs.py: do not edit."""

# ruff: noqa
# mypy: disable-error-code="misc, overload-overlap, overload-cannot-match, override, assignment"

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

'''
# What stands for these in stubs, where `int`, `dtype` and the like are also names of methods and functions; `_dtype` is
# a module.
PRIVATE = {name: f"_{name}" for name in ("int", "float", "bool", "str", "complex", "Number", "DeviceLike")}
PRIVATE |= {"dtype": "_DType", "layout": "_Layout", "device": "_Device", "memory_format": "_MemoryFormat"}
HIDDEN = re.compile(rf"(?<![\w.])({'|'.join(PRIVATE)})\b")
IMPORTS = """from {up}_core.device import Size as Size, device as _Device, layout as _Layout
from {up}_core.device import memory_format as _MemoryFormat
from {up}_core.dtype import dtype as _DType
from {up}_core.generator import Generator as Generator
from {up}_core.storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
from {up}_core.tensor import Tensor as Tensor
from {up} import return_types as return_types

_Number: TypeAlias = _int | _float | _bool | _complex
_DeviceLike: TypeAlias = _Device | _str | _int
"""


ALWAYS_IMPORTED = {"Generator", "Size", "Tensor", "TypedStorage", "UntypedStorage", "return_types"}


# types and defaults as text ------------------------------------------------------------------------------------------


def private(text: str) -> str:
    """Text of a type with names that nothing in a stub hides."""
    return HIDDEN.sub(lambda found: PRIVATE[found[0]], text)


def type_text(annotation: Any) -> str:
    """The annotation of a Python function, as a stub says it."""
    if annotation in (inspect.Parameter.empty, Any):
        return "Any"
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, str):
        return private(annotation.replace("torch.", "")) if KNOWN.fullmatch(annotation) else "Any"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(map(type_text, arguments)))
    if origin is not None and origin.__module__ in ("builtins", "collections.abc"):
        if origin.__name__ == "Callable":
            return "Callable[..., Any]"
        inner = ", ".join("..." if a is Ellipsis else type_text(a) for a in arguments)
        return f"{origin.__name__}[{inner}]"
    if isinstance(annotation, type):
        name = annotation.__name__
        if annotation.__module__ == "builtins" or name in ("Callable", "Sequence", "Iterator"):
            return private("Callable[..., Any]" if name == "Callable" else name)
        if annotation.__module__ == "numpy":
            return f"np.{name}"
        return private(name) if KNOWN.fullmatch(name) else "Any"
    return "Any"


KNOWN = re.compile(
    r"(?:int|float|bool|str|complex|dtype|layout|device|memory_format|Tensor|Size|Generator|None|Any|"
    r"TypedStorage|UntypedStorage|Sequence|Callable|tuple|list|dict|object|type|torch|[\[\]|., ])+"
)


def default_text(value: Any) -> str:
    simple = value is None or value.__class__ in (bool, int, str) or (value.__class__ is float and value - value == 0)
    return repr(value) if simple or value == () else "..."


def parameter_text(parameter: inspect.Parameter, kind: str) -> str:
    prefix = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{prefix}{parameter.name}" + (f": {kind}" if kind else "")
    return text if parameter.default is inspect.Parameter.empty else f"{text} = {default_text(parameter.default)}"


def definition(name: str, given: Iterable[tuple[inspect.Parameter, str]], result: str, indent: str = "") -> str:
    """One `def` with its parameters, in as many lines as it needs."""
    parts, starred = [], False
    for parameter, kind in given:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred |= parameter.kind is inspect.Parameter.VAR_POSITIONAL
        parts.append(parameter_text(parameter, kind))
    line = f"{indent}def {name}({', '.join(parts)}) -> {result}: ..."
    if len(line) <= WIDTH:
        return line
    rows = "".join(f"{indent}    {part},\n" for part in parts)
    return f"{indent}def {name}(\n{rows}{indent}) -> {result}: ..."


# operators -----------------------------------------------------------------------------------------------------------


def variants(schema: Schema, *, is_method: bool, takes_out: bool) -> Iterator[list[tuple[inspect.Parameter, str]]]:
    """The forms in which a schema can be called: sizes as one sequence, then one by one."""
    made = parameters(schema, is_method=is_method, takes_out=takes_out)
    typed = [(p, "" if is_method and i == 0 else private(p.annotation)) for i, p in enumerate(made)]
    if schema.varargs is not None:
        size = inspect.Parameter.POSITIONAL_OR_KEYWORD
        yield [
            (p.replace(kind=size), "Sequence[_int]") if p.kind is inspect.Parameter.VAR_POSITIONAL else (p, kind)
            for p, kind in typed
        ]
    yield typed


def operator_stub(name: str, declared: Declared, indent: str = "") -> str:
    """The stub of a public function of operators, an overload for each form of each schema."""
    forms = []
    for operator in declared.operators:
        schema = operator.schema
        for given in variants(schema, is_method=declared.is_method, takes_out=declared.takes_out):
            forms.append(definition(name, given, private(result_annotation(schema)), indent))
    forms = list(dict.fromkeys(forms))
    if len(forms) == 1:
        return forms[0]
    return "\n".join(f"{indent}@overload\n{form}" for form in forms)


def declared_of(value: Any) -> Declared | None:
    wrapped = getattr(value, "__wrapped__", None)
    return wrapped if isinstance(value, FunctionType) and isinstance(wrapped, Declared) else None


# Python functions, properties, values --------------------------------------------------------------------------------


def function_stub(name: str, function: Callable, indent: str = "", *, is_method: bool = False) -> str:
    """The stub of a Python function, with its own annotations."""
    signature = inspect.signature(function)
    given = [
        (p, "" if is_method and i == 0 else type_text(p.annotation))
        for i, p in enumerate(signature.parameters.values())
    ]
    return definition(name, given, type_text(signature.return_annotation), indent)


def property_stub(name: str, value: property, indent: str) -> str:
    result = type_text(inspect.signature(value.fget).return_annotation) if value.fget else "Any"
    lines = [f"{indent}@property", f"{indent}def {name}(self) -> {result}: ..."]
    if value.fset is not None:
        lines += [f"{indent}@{name}.setter", f"{indent}def {name}(self, value: {result}) -> None: ..."]
    return "\n".join(lines)


def package_file(module: str) -> Path:
    """The file of a module of the package."""
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def static_names(module: str) -> frozenset[str]:
    """The names that a type checker finds in a module's text; none where a table makes the module."""
    names: set[str] = set()
    if module in ABSENT_MODULES:
        return frozenset()
    for node in ast.parse(package_file(module).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name) for alias in node.names}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return frozenset(names)


def imported_from(file: Path) -> dict[str, tuple[str, str]]:
    """Name -> (relative module, name there) of the imports at the top of a module."""
    found = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = ("." * node.level + (node.module or ""), alias.name)
    return found


# stubs ---------------------------------------------------------------------------------------------------------------


def head(depth: int) -> str:
    return HEADER + IMPORTS.format(up="." * (depth + 1))


def package_stub() -> str:
    """`mindtorch_v2/__init__.pyi`."""
    imported = imported_from(PACKAGE / "__init__.py")
    lines = []
    for name in sorted({*vars(torch), *torch._SUBMODULES, *torch._HOME, "torch"} - ALWAYS_IMPORTED):
        internal = name.startswith("_") and name not in (*torch._HOME, *torch._SUBMODULES)
        if not internal or declared_of(vars(torch)[name]):
            lines.append(value_stub(name, imported))
    return f"{head(0)}\n__version__: _str\n\n" + "\n".join(filter(None, lines)) + "\n"


def value_stub(name: str, imported: dict[str, tuple[str, str]]) -> str:
    """How the package's stub says what `torch.<name>` is."""
    if name in torch._SUBMODULES:
        exists = (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()
        return f"from . import {name} as {name}" if exists else f"{name}: Any" if name in ABSENT_MODULES else ""
    if name in torch._HOME:
        home = torch._HOME[name]
        return f"from .{home} import {name} as {name}" if name in static_names(home) else f"{name}: Any"
    if name == "torch":
        return "torch: Any"
    value = getattr(torch, name)
    declared = declared_of(value)
    if declared is not None:
        return operator_stub(name, declared)
    if name in imported:
        module, original = imported[name]
        if module == "math":
            return f"{name}: _float"
        return f"from {module} import {original} as {name}"
    if isinstance(value, ModuleType):
        return ""
    if isinstance(value, torch.dtype):
        return f"{name}: _DType"
    if isinstance(value, FunctionType):
        return function_stub(name, value)
    if isinstance(value, type):
        return f"class {name}(Tensor): ..."
    return f"{name}: {type_text(type(value))}"


def functions_stub(module: str, depth: int) -> str:
    """The stub of a module of operators, with the Python functions of its parts."""
    loaded = importlib.import_module(f"mindtorch_v2.{module}")
    lines = []
    for name in sorted({*loaded.__all__, *(n for n in vars(loaded) if not n.startswith("_"))}):
        value = getattr(loaded, name)
        declared = declared_of(value)
        if declared is not None:
            lines.append(operator_stub(name, declared))
        elif callable(value) and name != "Tensor":
            lines.append(attached_stub(module, name, value))
    return f"{head(depth)}\n{exported(loaded)}\n" + "\n".join(lines) + "\n"


def exports_stub(module: str) -> str:
    """The stub of a package whose names are those of its parts: mypy does not follow an `__all__` put together."""
    loaded = importlib.import_module(f"mindtorch_v2.{module}")
    parts = [name for name, value in vars(loaded).items() if isinstance(value, ModuleType) and not name.startswith("_")]
    lines = [f"from . import {name} as {name}" for name in sorted(parts)]
    for name in sorted(set(loaded.__all__) - set(parts)):
        value = getattr(loaded, name)
        own = value.__module__ == loaded.__name__
        home = "" if own else relative(module, value.__module__)
        lines.append(function_stub(name, value) if own else f"from {home} import {name} as {name}")
    return f"{HEADER}{exported(loaded)}\n" + "\n".join(lines) + "\n"


def exported(module: ModuleType) -> str:
    names = "".join(f'    "{name}",\n' for name in sorted(module.__all__))
    return f"__all__ = [\n{names}]\n"


def attached_stub(module: str, name: str, value: Any) -> str:
    """A Python function or class of a module: an import where its text is found, else what its signature says."""
    imported = imported_from(package_file(module))
    if name in imported:
        return f"from {imported[name][0]} import {imported[name][1]} as {name}"
    home = value.__module__.removeprefix("mindtorch_v2.")
    if name in static_names(home):
        return f"from {relative(module, value.__module__)} import {name} as {name}"
    return function_stub(name, value)


def relative(module: str, other: str) -> str:
    """How a module of the package imports from another."""
    package = PACKAGE.joinpath(*module.split("."))
    base = f"mindtorch_v2.{module}" if package.is_dir() else f"mindtorch_v2.{module}".rpartition(".")[0]
    if other.startswith(base + "."):
        return other.removeprefix(base)
    levels = len(base.split("."))
    return "." * levels + other.removeprefix("mindtorch_v2.")


def return_types_stub() -> str:
    """`return_types.pyi`: a named tuple for each operator with several results that have names."""
    for declaration in DECLARATIONS.values():
        declaration.result_type  # noqa: B018 - makes the type
    parts = []
    for name, kind in sorted(RETURN_TYPES.items()):
        fields = "".join(f"    {field}: Tensor\n" for field in kind._fields)
        parts.append(f"class {name}(NamedTuple):\n{fields}")
    return f"{HEADER}from ._core.tensor import Tensor\n\n" + "\n".join(parts)


BINARY = re.compile(r"__[ri]?(?:add|sub|mul|(?:true|floor)?div|mod|pow|matmul|and|or|xor|[lr]shift)__|__[lg][te]__")


class _Plain:
    """What Python itself puts into a class, which differs from version to version."""

    field: int = 0

    def method(self) -> int:
        return self.field


OF_EVERY_CLASS = {*vars(_Plain), "__annotations__", "__slotnames__"}


def class_body(module: str, name: str) -> list[ast.stmt]:
    """What stands in the text of a class of `_core`."""
    tree = ast.parse((PACKAGE / f"_core/{module}.py").read_text())
    return next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def methods_stub() -> str:
    """`_tensor_methods.pyi`: what Tensor has beyond the text of its class."""
    static: set[str] = set()
    for node in class_body("tensor_base", "TensorBase") + class_body("tensor", "Tensor"):
        if isinstance(node, (ast.FunctionDef, ast.AnnAssign)):
            static.add(node.name if isinstance(node, ast.FunctionDef) else node.target.id)  # type: ignore[union-attr]
        elif isinstance(node, ast.Assign):
            static |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    indent, lines = "    ", []
    for name, value in sorted(vars(torch.Tensor).items()):
        if name in static or name in OF_EVERY_CLASS:
            continue
        lines.append(method_stub(name, value, indent))
    return f"{head(0)}\nclass TensorMethods:\n" + "\n".join(lines) + "\n"


def method_stub(name: str, value: Any, indent: str) -> str:
    declared = declared_of(value)
    if BINARY.fullmatch(name):
        return f"{indent}def {name}(self, other: Tensor | _Number) -> Tensor: ..."
    if name in ("__eq__", "__ne__"):
        return f"{indent}def {name}(self, other: Any) -> Tensor: ..."
    if name in ("__neg__", "__abs__", "__invert__", "__pos__", "__reversed__"):
        return f"{indent}def {name}(self) -> Tensor: ..."
    if name == "__getitem__":
        return f"{indent}def {name}(self, index: Any) -> Tensor: ..."
    if name == "__setitem__":
        return f"{indent}def {name}(self, index: Any, value: Any) -> None: ..."
    if declared is not None:
        return operator_stub(name, declared, indent)
    if isinstance(value, property):
        return property_stub(name, value, indent)
    if callable(value):
        return function_stub(name, value, indent, is_method=True)
    return f"{indent}{name}: {type_text(type(value))}"


STUBS: dict[str, Callable[[], str]] = {
    "__init__.pyi": package_stub,
    "_tensor_methods.pyi": methods_stub,
    "return_types.pyi": return_types_stub,
    "linalg.pyi": lambda: functions_stub("linalg", 0),
    "special.pyi": lambda: functions_stub("special", 0),
    "fft.pyi": lambda: functions_stub("fft", 0),
    "nn/__init__.pyi": lambda: exports_stub("nn"),
    "nn/modules/__init__.pyi": lambda: exports_stub("nn.modules"),
    "nn/functional/__init__.pyi": lambda: functions_stub("nn.functional", 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, name the stubs that are out of date")
    check = parser.parse_args().check
    stale = []
    for name, make in STUBS.items():
        file, text = PACKAGE / name, make()
        if not file.exists() or file.read_text() != text:
            stale.append(name)
            if not check:
                file.write_text(text)
    print("\n".join(f"{'out of date' if check else 'written'}: {name}" for name in stale) or "all are up to date")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
