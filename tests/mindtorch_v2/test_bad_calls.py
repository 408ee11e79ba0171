"""Calls that PyTorch refuses are refused with its exception and its words, and change nothing."""

import json
import pathlib
import re
import warnings

import pytest
from bad_calls import BAD_CALLS, outcome

import mindtorch_v2 as torch

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "bad_calls.json").read_text())
CALLS = [call for calls in BAD_CALLS.values() for call in calls]

# What is said in other words than PyTorch's, and what the text must hold.
OTHER_WORDS = {
}


def wanted_text(call: str) -> str:
    """The part of PyTorch's text that ours must hold: all of it, but for lists of overloads and the library's name."""
    if call in OTHER_WORDS:
        return OTHER_WORDS[call]
    text = GOLDEN[call]["text"]
    overloads = re.match(r"\w+\(\) received an invalid combination of arguments", text)
    return text.split("(")[0] + "()" if overloads else text


def test_the_table_covers_all_families() -> None:
    assert len(CALLS) == len(set(CALLS)) > 1300
    assert set(GOLDEN) == set(CALLS)
    assert all(len(calls) >= 20 for calls in BAD_CALLS.values())


@pytest.mark.parametrize("call", CALLS)
def test_a_bad_call_raises_and_changes_nothing(call: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error, returned, changed = outcome(torch, call)
    assert error is not None, f"was taken: {returned!r}"
    assert type(error).__name__ == GOLDEN[call]["type"], f"{type(error).__name__}: {error}"
    assert wanted_text(call) in str(error)
    assert set(changed) <= set(GOLDEN[call].get("changed", ()))
