"""Times transformers' architectures, tiny ones: inference and training steps, eager and compiled, on either library.

    python bench/transformers_models.py                     # PyTorch, eager
    python -m mindtorch_v2 bench/transformers_models.py     # this library, eager and under torch.compile
    python bench/transformers_models.py bert llama --compiled    # some of them, PyTorch compiled too

Times are the least of the rounds, in ms. Models are those of tests/parity/architectures.py.
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "parity"))

from architectures import ARCHITECTURES, SEED, tensors, training


def least(call: Callable[[], Any], rounds: int) -> float:
    """The shortest of some calls, after as many that are not counted."""
    found = []
    for _ in range(2 * rounds):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found[rounds:]) * 1e3


def row(name: str, rounds: int, compiled: bool) -> list[float]:
    import torch
    import transformers

    model_class, options, inputs, _ = ARCHITECTURES[name]
    kind = getattr(transformers, model_class)
    torch.manual_seed(SEED)
    model = kind(kind.config_class(**options)).eval()
    batch = tensors(inputs(np.random.default_rng(SEED)))
    found = []
    with torch.no_grad():
        found.append(least(lambda: model(**batch), rounds))
        if compiled:
            fast = torch.compile(model)
            found.append(least(lambda: fast(**batch), rounds))
    plain = training(copy.deepcopy(model).train())
    found.append(least(lambda: plain(batch), rounds))
    if compiled:
        step = torch.compile(training(copy.deepcopy(model).train()))
        found.append(least(lambda: step(batch), rounds))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(ARCHITECTURES))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--compiled", action="store_true", help="compile PyTorch's, too, which takes minutes")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    if options.threads:
        torch.set_num_threads(options.threads)
    compiled = options.compiled or hasattr(torch, "pipeline")
    heads = ["inference", "training"] if not compiled else ["inference", "compiled", "training", "compiled"]
    print(f"{'ms':14}", *[f"{head:>10}" for head in heads])
    for name in options.names:
        torch._dynamo.reset()
        print(f"{name:14}", *[f"{value:10.2f}" for value in row(name, options.rounds, compiled)], flush=True)


if __name__ == "__main__":
    main()
