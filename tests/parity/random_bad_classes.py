"""Calls of classes and modules with one argument broken: the class of what is raised, beside PyTorch's.

    python tests/parity/random_bad_classes.py --count 5000 --seed 1

A configuration is drawn as in random_configurations.py, then one argument of one of its calls is replaced, left out,
doubled or misspelt. Counted are those that PyTorch refuses: how many raise the same class here, how many are accepted,
how many end in an error of the library's inside (an AttributeError, say, where PyTorch has a RuntimeError), and how
many show NumPy's text.
"""

import argparse
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import configured_distributions
import configured_modules
import configured_training
from configuration import Call, Configuration, Draw, Line, Raised, Side, told

VALUES = """
"x"; None; -1; 0; 1.5; -0.5; float("nan"); float("inf"); 2**62; 2**70; (); []; (1, 2, 3, 4, 5, 6, 7); True; False; {}
object();
b"x"; 1j; int; torch.float32; torch.zeros(2); torch.zeros(()); torch.zeros(0, 3); torch.zeros(2, dtype=torch.int64); 7
torch.zeros(2, dtype=torch.complex64); torch.zeros(2, 3, dtype=torch.bool); torch.randn(1, 2, 3, 4, 5, 6); np.ones(2)
torch.zeros(2, 3, device="meta"); [1.5]; [None]; ["x"]; (0, -1); (-1, -1); (0, \
0); [[1]]; "mean"; "sum"; range(2); lambda *a: 0
nn.ReLU(); np.float32(0.5); 3; 100; 1e30; -1e30; torch.tensor(float("nan")); torch.tensor([[1.0]]);
torch.ones(1, 1, 1); slice(2)
"""
BAD = [value.strip() for line in VALUES.strip().splitlines() for value in line.split(";") if value.strip()]
# Calls of further classes, each with valid arguments.
OTHERS = """
torch.Generator(device='cpu')
torch.Generator().manual_seed(3)
torch.autocast('cpu', dtype=torch.bfloat16, enabled=True, cache_enabled=True)
torch.amp.GradScaler('cpu', init_scale=2.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2, enabled=True)
torch.utils.data.DataLoader([1, 2, 3], batch_size=2, shuffle=True, num_workers=0, drop_last=False)
torch.utils.data.DataLoader([1, 2, 3], batch_size=None, sampler=[0, 2], collate_fn=None, timeout=0)
torch.utils.data.RandomSampler([1, 2, 3], replacement=True, num_samples=2, generator=None)
torch.utils.data.SequentialSampler([1, 2])
torch.utils.data.SubsetRandomSampler([0, 1], generator=None)
torch.utils.data.WeightedRandomSampler([0.5, 0.5], 2, replacement=True)
torch.utils.data.BatchSampler([0, 1, 2], 2, False)
torch.utils.data.TensorDataset(torch.ones(2), torch.ones(2))
torch.utils.data.Subset([1, 2, 3], [0, 1])
torch.utils.data.ConcatDataset([[1], [2]])
torch.utils.data.random_split([1, 2, 3], [2, 1])
torch.utils.data.DistributedSampler([1, 2, 3], num_replicas=2, rank=0, shuffle=True, seed=0)
torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2), device=None, avg_fn=None, use_buffers=False)
torch.no_grad()
torch.set_grad_enabled(True)
torch.inference_mode(True)
torch.autograd.set_detect_anomaly(False, check_nan=True)
torch.device('cpu', 0)
torch.Size([1, 2])
torch.finfo(torch.float32)
torch.iinfo(torch.int32)
torch.nn.Parameter(torch.ones(2), requires_grad=True)
torch.nn.Buffer(torch.ones(2), persistent=True)
nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
nn.ModuleList([nn.ReLU()])
nn.ModuleDict({'a': nn.ReLU()})
nn.ParameterList([torch.ones(2)])
nn.ParameterDict({'a': torch.ones(2)})
nn.Linear(2, 2).register_buffer('b', torch.ones(2), persistent=True)
nn.Linear(2, 2).register_parameter('b', nn.Parameter(torch.ones(2)))
nn.Linear(2, 2).register_module('b', nn.ReLU())
nn.Linear(2, 2).load_state_dict({'weight': torch.ones(2, 2), 'bias': torch.ones(2)}, strict=True, assign=False)
nn.Linear(2, 2).to('cpu', torch.float64)
nn.Linear(2, 2).requires_grad_(True)
nn.Linear(2, 2).train(True)
nn.Linear(2, 2).get_submodule('')
nn.Linear(2, 2).get_parameter('weight')
nn.Linear(2, 2).apply(print)
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, norm=None, enable_nested_tensor=False)
nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2, norm=None)
nn.Embedding.from_pretrained(torch.ones(3, 2), freeze=True, padding_idx=0)
nn.SyncBatchNorm(3, eps=1e-5)
torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), 1.0), 1)
torch.distributions.TransformedDistribution(torch.distributions.Normal(0.0, 1.0), [torch.distributions.ExpTransform()])
torch.distributions.MixtureSameFamily(torch.distributions.Categorical(torch.ones(2)), \
torch.distributions.Normal(torch.zeros(2), 1.0))
torch.distributions.AffineTransform(0.0, 2.0, event_dim=0)
torch.distributions.PowerTransform(2.0)
torch.distributions.Normal(0.0, 1.0).expand((2,))
torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.5))
torch.distributions.Normal(0.0, 1.0).sample((2,))
torch.distributions.Normal(0.0, 1.0).cdf(torch.tensor(0.5))
torch.distributions.Categorical(torch.ones(3)).log_prob(torch.tensor(1))
torch.distributions.kl_divergence(torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(1.0, 2.0))
"""
INSIDE = (
    "AttributeError",
    "KeyError",
    "AssertionError",
    "UnboundLocalError",
    "NameError",
    "ZeroDivisionError",
    "RecursionError",
    "SystemError",
    "error",
)
NUMPYS_TEXT = re.compile(
    r"numpy|ndarray|ufunc|could not be broadcast|cannot reshape array|setting an array element|for array|input arrays"
    r"|only integer scalar arrays|negative dimensions are not allowed|array is too big|maximum supported dimension"
    r"|_ArrayMemory|broadcast input array|object too deep",
    re.I,
)
LIMIT = 5  # seconds a configuration may take


def call_of(source: str) -> Call:
    """A line of OTHERS as a call with its arguments apart."""
    depth, start, cut = 0, 0, 0
    for i in range(len(source) - 1, -1, -1):  # the last pair of brackets holds the arguments
        depth += {")": 1, "(": -1}.get(source[i], 0)
        if depth == 0:
            cut = i
            break
    parts, inner = [], source[cut + 1 : -1]
    for i, letter in enumerate(inner):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(inner[start:i].strip())
            start = i + 1
    parts += [inner[start:].strip()] if inner[start:].strip() else []
    named = [re.fullmatch(r"(\w+)=(.*)", part) for part in parts]
    return Call(
        source[:cut],
        [part for part, name in zip(parts, named) if name is None],
        {name[1]: name[2] for name in named if name is not None},
        "it",
    )


def other(d: Draw) -> Configuration:
    call = call_of(d.choice(OTHERS.strip().splitlines()))
    return Configuration(call.callee, [call])


KINDS: list[tuple[int, Callable[[Draw], Configuration]]] = [
    (60, configured_modules.drawn),
    (15, configured_training.drawn),
    (10, configured_distributions.drawn),
    (15, other),
]


def broken(call: Call, d: Draw) -> Call:
    """The call with one of its arguments wrong."""
    args, kwargs = list(call.args), dict(call.kwargs)
    place = d.randrange(len(args) + len(kwargs) + 1)
    if place == len(args) + len(kwargs):
        if d.maybe():
            kwargs["wrong"] = "1"
        else:
            args.append(d.choice(BAD))
    elif place < len(args):
        if d.maybe(0.08):
            del args[place]
        else:
            args[place] = d.choice(BAD)
    else:
        kwargs[list(kwargs)[place - len(args)]] = d.choice(BAD)
    return Call(call.callee, args, kwargs, call.target)


def calls(configuration: Configuration) -> list[int]:
    return [i for i, line in enumerate(configuration.lines) if isinstance(line, Call)]


def drawn(seed: int, count: int, name: str = "") -> Iterator[tuple[int, Configuration]]:
    """Broken configurations of a seed, with their numbers."""
    for number in range(count):
        d = Draw(f"bad {seed} {number}")
        draw = d.choices([draw for _, draw in KINDS], [weight for weight, _ in KINDS])[0]
        configuration = draw(d)
        while not (places := calls(configuration)) or (name and configuration.name != name):
            configuration = draw(d)
        lines: list[Line] = list(configuration.lines)
        at = d.choice(places)
        lines[at] = broken(configuration.lines[at], d)  # type: ignore[arg-type]
        yield number, Configuration(configuration.name, lines)


def stopped(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {LIMIT} s")


def outcomes(configuration: Configuration, sides: Sequence[Side]) -> list[Any]:
    """What each library answers, within the time limit: broken numbers may ask for endless work."""
    before = signal.signal(signal.SIGALRM, stopped)
    try:
        answers = []
        for side in sides:
            signal.alarm(LIMIT)
            answers.append(side.run(configuration))
            signal.alarm(0)
        return answers
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def verdict(expected: Raised | None, got: Raised | None) -> str:
    """What is to be said of one configuration."""
    if expected is None:
        return "both accept" if got is None else "refused here only"
    if got is None:
        return "accepted"
    if got.type == expected.type:
        return "numpy text" if NUMPYS_TEXT.search(got.text) and not NUMPYS_TEXT.search(expected.text) else "same"
    if NUMPYS_TEXT.search(got.text):
        return "numpy text"
    return "internal error" if got.type in INSIDE else "other class"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="", help="one class")
    parser.add_argument("--module", default="mindtorch_v2")
    options = parser.parse_args()
    reference, candidate = Side("torch"), Side(options.module)
    chosen = drawn(options.seed, options.count, options.name)
    if sys.stderr.isatty():
        from tqdm import tqdm

        chosen = tqdm(chosen, total=options.count)
    counts: Counter[str] = Counter()
    for number, configuration in chosen:
        results = outcomes(configuration, (reference, candidate))
        said = verdict(*results)
        counts[said] += 1
        if said not in ("same", "both accept"):
            print(
                f"---- {options.seed} {number} {said} {configuration.name}\n{configuration.source()}\n"
                f"# {told(results[0])} expected, got {told(results[1])}",
                flush=True,
            )
    refused = counts.total() - counts["both accept"] - counts["refused here only"]
    for said, times in counts.most_common():
        print(f"{times:>6}  {said}")
    same = counts["same"] / max(refused, 1)
    print(f"of {refused} that PyTorch refuses {100 * same:.2f} % raise the same class")
    return 0 if same >= 0.98 and not counts["accepted"] and not counts["internal error"] else 1


if __name__ == "__main__":
    sys.exit(main())
