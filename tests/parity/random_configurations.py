"""Random configurations of modules, operators, optimizers, schedulers and distributions, beside PyTorch's.

    python tests/parity/random_configurations.py --count 10000 --seed 1
    python tests/parity/random_configurations.py --only modules --name Conv2d --count 500

Each configuration is a few lines of Python (see configuration.py) that run in both libraries from the same seed.
Compared are values, types, strides, gradients of inputs and parameters, buffers, the keys of the state, the printed
form, which results share memory, the categories of warnings, and the class of what was raised.

Of those that still differ most are errors inside PyTorch that are not repeated here: backward of `linalg.cond`, of
`kron` of turned matrices, of `where` with a real and a complex operand, of `NLLLoss` of turned images; divergences of
Bernoulli distributions of different shapes. The rest is rounding that cancellation amplifies, most in half precision.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import configured_distributions
import configured_modules
import configured_operators
import configured_training
from configuration import Configuration, Draw, Side, difference

FAMILIES: dict[str, tuple[int, Callable[[Draw], Configuration]]] = {  # with their weights
    "modules": (45, configured_modules.drawn),
    "operators": (40, configured_operators.drawn),
    "training": (8, configured_training.drawn),
    "distributions": (7, configured_distributions.drawn),
}


def drawn(seed: int, count: int, only: str = "", name: str = "") -> Iterator[tuple[int, str, Configuration]]:
    """Configurations of a seed with their number and family; each is drawn by itself, from the seed and its number."""
    families = [only] if only else list(FAMILIES)
    weights = [FAMILIES[family][0] for family in families]
    for number in range(count):
        d = Draw(f"{seed} {number}")
        family = d.choices(families, weights)[0]
        configuration = FAMILIES[family][1](d)
        while name and configuration.name != name:
            configuration = FAMILIES[family][1](d)
        yield number, family, configuration


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(FAMILIES), default="")
    parser.add_argument("--name", default="", help="one module, operator, optimizer or distribution")
    parser.add_argument("--module", default="mindtorch_v2")
    parser.add_argument("--widen", type=float, default=1.0, help="factor on the tolerances")
    options = parser.parse_args()
    reference, candidate = Side("torch"), Side(options.module)
    reference.library.set_num_threads(2)  # with one, convolutions of one element choose other kernels
    chosen = drawn(options.seed, options.count, options.only, options.name)
    if sys.stderr.isatty():
        from tqdm import tqdm

        chosen = tqdm(chosen, total=options.count)
    differing: Counter[str] = Counter()
    for number, family, configuration in chosen:
        found = difference(configuration, reference, candidate, options.widen)
        if found:
            differing[f"{family} {configuration.name}"] += 1
            print(
                f"---- {options.seed} {number} {family} {configuration.name}\n{configuration.source()}\n# {found}",
                flush=True,
            )
    for name, times in differing.most_common():
        print(f"{times:>5}  {name}")
    total = differing.total()
    print(f"{total} of {options.count} configurations differ ({100 * total / options.count:.2f} %)")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
