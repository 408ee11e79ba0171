"""Writes docs/npu_operators.md: what each simulated chip refuses, found by running every operator's samples.

python tools/npu_chips.py --chip A2 --results build/npu    # some minutes for each chip, --only float32 for a part
python tools/npu_chips.py --write --results build/npu      # the page, out of all chips' results
"""

import argparse
import importlib.util
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NPU_TESTS = ROOT / "tests" / "mindtorch_v2" / "npu"
sys.path[:0] = [str(ROOT / "src"), str(NPU_TESTS.parent), str(NPU_TESTS)]


def run(chip: str, results: Path, only: list[str]) -> int:
    """Runs all samples on a chip: each type, derivatives, in-place forms; how many calls differ from the CPU."""
    import chip_cases
    import operator_cases as samples

    spec = importlib.util.spec_from_file_location("npu_conftest", NPU_TESTS / "conftest.py")
    assert spec is not None and spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    declarations = list(samples.sampled().values())
    kept = results / f"{chip}.json"
    found = json.loads(kept.read_text()) if only and kept.exists() else {}
    for what in only or chip_cases.WHAT:
        with conftest.running(chip) as machine:
            sweep = chip_cases.sweep_of(machine, declarations, what)
        found[what] = {"equal": sweep.equal, "refused": sorted(sweep.refused), "different": sweep.different}
        print(chip, what, sweep.equal, "equal,", len(sweep.refused), "refused,", len(sweep.different), "different")
        for text in sweep.different:
            print("   ", text)
    results.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({what: found[what] for what in chip_cases.WHAT if what in found}))
    return sum(len(each["different"]) for each in found.values())


HEAD = """# What each simulated Ascend chip refuses

```console
$ for chip in A2 310P 950; do python tools/npu_chips.py --chip $chip; done    # some minutes for each
$ python tools/npu_chips.py --write                                           # makes this page
```

This runs the samples of every operator that runs on an NPU on the simulator, as chip A2
(910B), 310P and 950: values in eight element types, derivatives and in-place forms in float32. Each call either gave
the CPU's numbers or raised before CANN was called, naming the chip. A 310P computes float32 products in float16, and is
compared with that in mind. Nothing ran on hardware; the rules are those of CANN's documents (see npu.md).

Samples with the CPU's numbers, and operators of which some call was refused:

"""


def page(results: Path) -> str:
    chips = {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}
    kinds = list(next(iter(chips.values())))
    lines = ["| | " + " | ".join(chips) + " |", "|---|" + "---|" * len(chips)]
    for kind in kinds:
        cells = (f"{c[kind]['equal']} equal, {len(c[kind]['refused'])} refused" for c in chips.values())
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    refused: dict[str, dict[str, list[str]]] = {}
    for chip, found in chips.items():
        for kind in kinds:
            for name in found[kind]["refused"]:
                refused.setdefault(name, {}).setdefault(chip, []).append(kind)
    lines += ["", "By operator, the types that are refused, but for bfloat16 on a 310P, which does not have it:", "",
              "| operator | " + " | ".join(chips) + " |", "|---|" + "---|" * len(chips)]  # fmt: skip
    for name, by_chip in sorted(refused.items()):
        cells = [", ".join(k for k in by_chip.get(chip, ()) if (chip, k) != ("310P", "bfloat16")) for chip in chips]
        if any(cells):
            lines.append(f"| `{name.removeprefix('aten::')}` | " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chip")
    parser.add_argument("--only", action="append", default=[], help="backward, in_place, or an element type")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "npu")
    options = parser.parse_args()
    different = run(options.chip, options.results, options.only) if options.chip else 0
    if options.write:
        (ROOT / "docs" / "npu_operators.md").write_text(page(options.results))
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
