"""Bytecode of generated functions on disk: found again, never half of it, and never needed."""

import pytest
from compiled_programs import printed, started

PROGRAM = """
from mindtorch_v2._dispatch import stored_code
x = torch.ones(3, requires_grad=True)
((x * 2).exp() - x).sum().backward()
print([round(g, 4) for g in x.grad.tolist()], len(stored_code._made) > 0)
"""
MADE, FOUND = "[13.7781, 13.7781, 13.7781] True\n", "[13.7781, 13.7781, 13.7781] False\n"


def the_entry(folder):
    (entry,) = folder.glob("*.code")
    return entry


def test_functions_are_found_again(tmp_path):
    assert printed(PROGRAM, tmp_path) == MADE
    before = the_entry(tmp_path).read_bytes()
    assert printed(PROGRAM, tmp_path) == FOUND
    assert the_entry(tmp_path).read_bytes() == before


def test_a_program_adds_what_it_made(tmp_path):
    other = PROGRAM.replace(".exp()", ".exp().tanh()")
    for program in (PROGRAM, other):
        assert printed(program, tmp_path).endswith("True\n")
    for program in (PROGRAM, other):
        assert printed(program, tmp_path).endswith("False\n")


def test_programs_that_end_at_once(tmp_path):
    for program in [started(PROGRAM, tmp_path) for _ in range(3)]:
        assert printed(program) in (MADE, FOUND)
    assert printed(PROGRAM, tmp_path) == FOUND


@pytest.mark.parametrize("content", [b"", b"half", "cut"])
def test_an_entry_that_is_not_whole(tmp_path, content):
    printed(PROGRAM, tmp_path)
    entry = the_entry(tmp_path)
    entry.write_bytes(entry.read_bytes()[:-100] if content == "cut" else content)
    assert printed(PROGRAM, tmp_path) == MADE
    assert printed(PROGRAM, tmp_path) == FOUND


def test_nothing_is_written_where_python_is_told_so(tmp_path):
    assert printed(PROGRAM, tmp_path, PYTHONDONTWRITEBYTECODE="1") == MADE
    assert not list(tmp_path.glob("*.code"))


def test_what_was_not_used_is_dropped_above_the_limit(tmp_path):
    printed(PROGRAM.replace(".exp()", ".sinh().tanh().atan()"), tmp_path)
    before = the_entry(tmp_path).stat().st_size
    printed(PROGRAM + "stored_code._LIMIT = 1", tmp_path)
    assert 0 < the_entry(tmp_path).stat().st_size < before
    assert printed(PROGRAM, tmp_path) == FOUND


def test_tracebacks_through_stored_functions(tmp_path):
    program = """
import traceback
try:
    torch.ones(2).add(torch.ones(3))
except RuntimeError as error:
    print([(frame.name, frame.line) for frame in traceback.extract_tb(error.__traceback__)])
"""
    first = printed(program, tmp_path)
    assert "('add', " in first and printed(program, tmp_path) == first
