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


def refusal(call: str) -> dict[str, object]:
    error, returned, changed = outcome(torch, call)
    if error is None:
        raise SystemExit(f"PyTorch takes the call {call}: {returned}")
    text = str(error).split("\nException raised from")[0]  # what follows are frames of the machine it was made on
    return {"type": type(error).__name__, "text": text, **({"changed": changed} if changed else {})}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {call: refusal(call) for calls in BAD_CALLS.values() for call in calls}
    lines = ",\n".join(f"{json.dumps(call)}: {json.dumps(found[call])}" for call in found)
    (TESTS / "golden" / "bad_calls.json").write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(found)} calls")
