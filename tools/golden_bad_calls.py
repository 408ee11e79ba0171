"""Writes tests/mindtorch_v2/golden/bad_calls.json: what PyTorch raises for calls of tests/mindtorch_v2/bad_calls.py.

For each call the type and the text of the exception, and what changed all the same (a module that was made before the
call failed has drawn its weights). Run with PyTorch installed: python tools/golden_bad_calls.py
"""

import json
import pathlib
import sys
import warnings

import torch

TESTS = pathlib.Path(__file__).parent.parent / "tests" / "mindtorch_v2"
sys.path.insert(0, str(TESTS))

from bad_calls import BAD_CALLS, outcome  # noqa: E402 - found once the path is set

GOLDEN = TESTS / "golden" / "bad_calls.json"
TIMES = 3  # a call that reads memory outside of its own answers one way or another


def answer(call: str, before: dict[str, dict[str, object]]) -> dict[str, object]:
    """What PyTorch answers each time, or else what it answered when the file was written before."""
    answers = [refusal(call) for _ in range(TIMES)]
    if None not in answers and answers.count(answers[0]) == TIMES:
        return answers[0]  # type: ignore[return-value]
    if call not in before:
        raise SystemExit(f"PyTorch takes the call {call}, or answers it in several ways: {answers}")
    print(f"left as it was, since PyTorch's answers differ: {call}")
    return before[call]


def refusal(call: str) -> dict[str, object] | None:
    error, _, changed = outcome(torch, call)
    if error is None:
        return None
    text = str(error).split("\nException raised from")[0]  # what follows are frames of the machine it was made on
    return {"type": type(error).__name__, "text": text, **({"changed": changed} if changed else {})}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    written = json.loads(GOLDEN.read_text())
    found = {call: answer(call, written) for calls in BAD_CALLS.values() for call in calls}
    lines = ",\n".join(f"{json.dumps(call)}: {json.dumps(found[call])}" for call in found)
    GOLDEN.write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(found)} calls")
