"""The pages of the documentation site that are made of declarations (tools/site); `make site` builds all of it."""

import re
import sys
from pathlib import Path

import pytest

from mindtorch_v2._ops._declare.op import PUBLIC

TOOLS = Path(__file__).resolve().parents[2] / "tools" / "site"
VARIABLE = re.compile(r"\bMINDTORCH_[A-Z_]+\b")
SECTIONS = ("## Example", "## Mathematics", "## Devices", "## Declaration")


@pytest.fixture(scope="module")
def operators():
    sys.path.insert(0, str(TOOLS))
    try:
        import operators
    finally:
        sys.path.remove(str(TOOLS))
    return operators


def equation(operators, name):
    forward, backward, _ = operators.equations(operators.entries()[name])
    return forward, backward


def test_every_public_operator_has_an_entry(operators):
    found = operators.entries()
    for place in PUBLIC.values():
        for name, (first, *_) in place.items():
            functional = first.declaration.inplace_of or first
            assert functional.schema.base_name in found or functional.schema.base_name.startswith("_"), name
    assert len(found) > 600


@pytest.mark.parametrize(
    "name", ["softmax", "add", "conv2d", "linalg_svd", "view", "randn", "gelu", "cross_entropy_loss"]
)
def test_a_page_has_all_of_its_parts(operators, name):
    page = operators.page(operators.entries()[name], lambda latex: f"<math>{latex}</math>")
    for section in SECTIONS:
        assert section in page
    assert ">>> " in page and re.search(r"\.\./source/_ops/\w+(/\w+)?\.py\.html#L\d+", page)


def test_formulas_are_found_by_running_declarations(operators):
    assert equation(operators, "sigmoid") == (
        [r"y = \frac{1}{e^{-x} + 1}"],
        [r"\bar{x} = \bar{y}\,\left(1 - y\right)\,y"],
    )
    assert equation(operators, "mul") == (
        [r"y = x\,\mathit{other}"],
        [r"\bar{x} = \bar{y}\,\mathit{other}", r"\bar{\mathit{other}} = \bar{y}\,x"],
    )
    assert equation(operators, "clamp_min")[0] == [r"y = \max\left(x, \mathit{min}\right)"]


def test_formulas_written_by_hand_are_of_operators(operators):
    known = {re.sub(r"(_copy|_)$", "", name) for name in operators.entries()} | set(operators.entries())
    assert set(operators.by_hand()) <= known


def test_shapes_and_types_are_those_of_calls(operators):
    shapes = dict(operators.shapes(operators.entries()["matmul"]))
    assert shapes["matmul((2, 3), (3, 4))"] == "(2, 4)"
    assert dict(operators.shapes(operators.entries()["exp"]))["exp(())"] == "()"
    accepted, refused = operators.types(operators.entries()["sqrt"])
    assert {"int64", "bool", "float32"} <= set(accepted["float32"]) and not refused


def test_every_operator_has_mathematics(operators):
    """By hand for kernels over arrays (docs/site/formulas.toml), derived for the rest."""
    found = operators.entries()
    without = [name for name, entry in found.items() if name not in operators.by_hand()
               and not operators.equations(entry)[0]]  # fmt: skip
    assert not without


def test_numbers_of_a_sample_are_not_taken_for_the_operators(operators):
    entry = operators.entries()["flatten"]
    assert operators.mathematics.forward(entry.declaration) == []  # it would be a view of (24,)
    assert operators.mathematics.forward(operators.entries()["diagonal_scatter"].declaration) == []  # a write to a part


def test_the_table_of_environment_variables_is_whole():
    root = TOOLS.parents[1]
    read = {
        name for path in (root / "src").rglob("*.py") for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }
    table = (root / "docs" / "howto" / "environment.md").read_text(encoding="utf-8")
    assert not {name for name in read if f"`{name}" not in table}
