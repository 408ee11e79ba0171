"""Random bad calls of public functions and methods, made in PyTorch and in another library, and what each one raises.

    python tests/parity/random_bad_calls.py --count 10000 --seed 3
    python tests/parity/random_bad_calls.py --calls failing.txt   # the lines of an earlier run once more

Every bad call begins as a good one: a sample of PyTorch's operator database, or a line of `bad_call_bases.py`. One or
two things in it are then made wrong: the type, element type, rank, size, device or layout of an argument, a number, a
word, a list, how many arguments there are and by which names. It is source text throughout, so each difference is
printed as a line that can be run.

Both libraries run in forked workers, since PyTorch does not survive all of them. A call counts as bad when PyTorch
refuses it; what PyTorch takes must be taken too. The classes of a call:

    same            both raise the same class of exception
    other           the library raises another class
    accepted        the library takes what PyTorch refuses
    refused         the library refuses what PyTorch takes
    internal        an error out of the library's inside: its class or its text says nothing about the call
    numpy           the text is NumPy's
    changed         the refused call changed one of its arguments, which PyTorch's left alone
    taken           both take it
    unknown         PyTorch crashes or hangs, or the library lacks the function
    explained       as docs/differences.md says: refused are devices that do not mix, sparse layouts without a kernel;
                    taken are complex gradients and meta tensors that PyTorch has no formula or kernel for, and
                    `kron` of turned matrices
"""

import argparse
import ast
import functools
import importlib
import json
import linecache
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from bad_call_bases import BASES  # noqa: E402
from bridge import attempt, dtype_name  # noqa: E402
from run_opdb import database, seed, way_to_call  # noqa: E402

BATCH = 400
SECONDS = 20  # after which a call counts as hanging
MEMORY = 6 << 30
SMALL, LARGEST = 30, 400  # elements of a tensor that is written out: wanted, and allowed

WRONG = (
    "'x'", "None", "[]", "()", "[1, 'x']", "1.5", "True", "1", "-1", "0", "1j", "nan", "inf", "-inf", "2**31", "2**63",
    "-2**63", "10**30", "np.float64(0.5)", "np.int64(1)", "np.float32(1)", "np.bool_(True)", "np.ones(2)",
    "np.ones((2, 3))", "np.array('x')", "torch.tensor(1.)", "torch.tensor(1)", "torch.tensor(True)", "torch.ones(2, 3)",
    "torch.ones(0)", "torch.ones(2, 3, dtype=torch.int64)", "torch.ones(2, 3, device='meta')",
    "torch.ones(2, 3).to_sparse()", "torch.nn.Linear(2, 2)", "{}", "{1}", "object()", "torch.float32", "torch.int64",
    "torch.device('cpu')", "torch.strided", "torch.contiguous_format", "(1, 2, 3)", "[1.5]", "[None]", "[True]",
    "print", "b'x'", "...", "slice(1)", "torch.Generator()", "torch.Size([1])", "torch.Tensor", "float", "'cpu'",
    "'sum'", "[torch.ones(2)]", "[torch.tensor(1)]", "range(2)", "iter([1])", "[[1]]", "''", "torch.ones(2).numpy()",
)  # fmt: skip
DTYPES = ("int64", "bool", "float64", "float16", "bfloat16", "complex64", "uint8", "int32", "float32", "complex128")
RESHAPED = ("{}.unsqueeze(0)", "{}.unsqueeze(-1)", "{}.flatten()", "{}.sum()", "{}[:1]", "{}[..., :1]", "{}[:0]",
            "{}[..., :0]", "torch.cat([{0}, {0}])", "torch.cat([{0}, {0}], -1)", "{}[0]", "{}[None, None, None]",
            "{}.mT")  # fmt: skip
MOVED = ("{}.to('meta')", "{}.to_sparse()", "{}.requires_grad_()", "{}.numpy()", "{}.tolist()", "[{}]", "({},)",
         "torch.nn.Parameter({})", "{}.data_ptr()", "-{}", "{} * nan", "{}.expand(2, *{}.shape)")  # fmt: skip
NUMBERS = ("99", "-99", "2**31", "2**62", "2**63", "-1", "0", "-2", "1.5", "2.0", "True", "nan", "inf", "1j", "'1'",
           "np.int64(1)", "np.float32(0.5)", "torch.tensor(1)", "torch.tensor(0.5)", "torch.tensor([1])",
           "torch.tensor([1, 2])", "[1]", "1e30", "5", "100", "torch.tensor(1., requires_grad=True)")  # fmt: skip
FLAGS = ("1", "0", "2", "'x'", "None", "1.0", "torch.tensor(True)", "torch.tensor(1)", "np.bool_(True)", "[]",
         "'False'", "np.int64(1)")  # fmt: skip
WORDS = ("'x'", "''", "None", "1", "True", "b'sum'", "'MEAN'", "'none '", "'mean'", "['mean']")
OUTS = ("torch.empty(0)", "torch.empty(2, 3)", "torch.empty(0, dtype=torch.int64)", "torch.empty(0, dtype=torch.bool)",
        "torch.empty(0, dtype=torch.float64)", "torch.empty(2, device='meta')", "'x'", "1", "()", "[]", "np.ones(2)",
        "(torch.empty(0),)", "(torch.empty(0), torch.empty(0))", "(torch.empty(0), torch.empty(0, dtype=torch.int64))",
        "torch.empty(0, requires_grad=True)", "torch.empty(1).expand(2, 3)", "torch.empty(0, dtype=torch.complex64)",
        "[torch.empty(0), 'x']", "torch.empty(2, 3).to_sparse()", "torch.float32", "None")  # fmt: skip
OPTIONS = ("dtype=torch.int64", "dtype=torch.float64", "dtype='x'", "dtype=1", "dtype=torch.bool", "device='meta'",
           "device='x'", "device=3.5", "layout='x'", "layout=torch.sparse_coo", "requires_grad='x'", "requires_grad=1",
           "pin_memory='x'", "memory_format='x'", "memory_format=torch.channels_last", "generator=1", "dim=0", "dim=99",
           "axis=0", "keepdim=1", "keepdim=True", "self=1", "input=1", "alpha=2", "value=1", "names=None", "name='x'",
           "other=1", "unknown=1", "inplace=True", "reduction='x'", "size=(2,)", "x=1", "p=2", "requires_grad=True",
           "dtype=float", "dtype=np.float32")  # fmt: skip


@dataclass
class Call:
    """A call as source: what is called, and its arguments. `kinds` says what stood in each place before."""

    function: str
    args: list[str]
    kwargs: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.function}({', '.join([*self.args, *(f'{k}={v}' for k, v in self.kwargs.items())])})"

    def copy(self) -> "Call":
        return Call(self.function, list(self.args), dict(self.kwargs))


# ---- good calls


class NotWritable(Exception):
    """A value that has no short source."""


def written(item: Any) -> str:
    """Source of a sample's value."""
    if isinstance(item, torch.Tensor):
        return written_tensor(item)
    if item is None or item is Ellipsis or isinstance(item, (bool, int, str)):
        return "..." if item is Ellipsis else repr(item)
    if isinstance(item, (float, complex)):
        return repr(item)
    if isinstance(item, torch.Size):
        return f"torch.Size({list(item)})"
    if isinstance(item, tuple):
        return f"({', '.join(map(written, item))}{',' * (len(item) == 1)})"
    if isinstance(item, list):
        return f"[{', '.join(map(written, item))}]"
    if isinstance(item, slice):
        return f"slice({written(item.start)}, {written(item.stop)}, {written(item.step)})"
    if isinstance(item, (torch.dtype, torch.layout, torch.memory_format)):
        return f"torch.{dtype_name(item)}"
    if isinstance(item, torch.device):
        return f"torch.device('{item}')"
    raise NotWritable(type(item).__name__)


def written_tensor(tensor: torch.Tensor) -> str:
    plain = tensor.detach()
    if plain.layout != torch.strided or plain.device.type != "cpu" or plain.numel() > LARGEST or plain.is_quantized:
        raise NotWritable("a large or unusual tensor")
    plain = plain.resolve_conj().resolve_neg()
    name = dtype_name(plain.dtype)
    if plain.numel() == 0:
        source = f"torch.zeros({tuple(plain.shape)}, dtype=torch.{name})"
    else:
        values = plain.tolist() if name != "complex32" else plain.to(torch.complex64).tolist()
        source = f"torch.tensor({values}, dtype=torch.{name})"
    if re.search(r"(nan|inf)j", source):
        raise NotWritable("complex nan")
    return source


@functools.cache
def samples_of(name: str) -> tuple[Call, ...]:
    """Good calls of an entry of the operator database."""
    entry = database()[name]
    way, path = way_to_call(entry)
    supported = {dtype_name(dtype) for dtype in entry.supported_dtypes("cpu")}
    found: list[Call] = []
    for dtype in [d for d in ("float32", "int64", "complex64", "bool") if d in supported][:2]:
        seed(torch, 1234)
        made, error = attempt(lambda: list(entry.sample_inputs("cpu", getattr(torch, dtype))))  # noqa: B023
        for sample in (made or ())[:60]:
            source, error = attempt(lambda: [written(sample.input), *map(written, sample.args)])  # noqa: B023
            named, failed = attempt(lambda: {k: written(v) for k, v in sample.kwargs.items()})  # noqa: B023
            if error is None and failed is None:
                if way == "path":
                    found.append(Call(f"torch.{path}", source, named))
                if isinstance(sample.input, torch.Tensor):
                    method = path if way == "method" else name.split(".")[0]
                    for shown in (method, method + "_"):
                        if hasattr(torch.Tensor, shown) and callable(getattr(torch.Tensor, shown)):
                            found.append(Call(f"{source[0]}.{shown}", source[1:], named))
    short = [call for call in found if len(str(call)) < 400]
    return tuple(short or sorted(found, key=lambda call: len(str(call)))[:3])


def parsed(line: str) -> Call:
    """The call that a line of source is."""
    tree = ast.parse(line, mode="eval").body
    assert isinstance(tree, ast.Call), line
    return Call(ast.unparse(tree.func), [ast.unparse(a) for a in tree.args],
                {str(k.arg): ast.unparse(k.value) for k in tree.keywords})


# ---- and what makes them bad


def kind_of(source: str) -> str:
    """What an argument is, by its source."""
    if re.match(r"torch\.(tensor|zeros|ones|rand|arange|eye|empty)\b", source):
        return "tensor"
    if source in ("True", "False"):
        return "flag"
    if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?|nan|-?inf", source):
        return "number"
    if source[0] in "\"'":
        return "word"
    return "list" if source[0] in "[(" else "other"


def wrong_list(source: str, rng: random.Random) -> str:
    body = source[1:-1].rstrip(", ")
    parts = [p.strip() for p in re.split(r",(?![^\[(]*[\])])", body)] if body else []
    way = rng.randrange(9)
    if way == 0 and parts:
        parts.pop()
    elif way == 1:
        parts.append(parts[0] if parts else "1")
    elif way == 2:
        return rng.choice(("[]", "()"))
    elif way == 3 and parts:
        return parts[0]
    elif way == 4:
        return f"torch.tensor({source})"
    elif way == 5:
        return f"[{source}]"
    elif parts:
        at = rng.randrange(len(parts))
        parts[at] = wrong_value(parts[at], rng)
    return f"[{', '.join(parts)}]" if source[0] == "[" else f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def wrong_value(source: str, rng: random.Random) -> str:
    """An argument with something wrong about it."""
    kind = kind_of(source)
    if rng.random() < 0.35 or kind == "other":
        return rng.choice(WRONG)
    if kind == "tensor":
        way = rng.randrange(4)
        if way == 0:
            return f"{source}.to(torch.{rng.choice(DTYPES)})"
        if way == 1:
            return rng.choice(MOVED).replace("{}", source)
        return rng.choice(RESHAPED).replace("{0}", source).replace("{}", source)
    if kind == "flag":
        return rng.choice(FLAGS)
    if kind == "number":
        return rng.choice(NUMBERS)
    return rng.choice(WORDS) if kind == "word" else wrong_list(source, rng)


def spoilt(call: Call, rng: random.Random) -> Call:
    """The call with one thing made wrong."""
    bad = call.copy()
    places: list[Any] = [*range(len(bad.args)), *bad.kwargs]
    way = rng.random()
    if way < 0.62 and places:
        place = rng.choice(places)
        values: Any = bad.args if isinstance(place, int) else bad.kwargs
        values[place] = wrong_value(values[place], rng)
    elif way < 0.70 and kind_of(bad.function) == "tensor":
        owner, _, method = bad.function.rpartition(".")
        bad.function = f"{wrong_owner(owner, rng)}.{method}"
    elif way < 0.76 and bad.args:
        bad.args.pop(rng.randrange(len(bad.args)))
    elif way < 0.82:
        bad.args.append(rng.choice(WRONG))
    elif way < 0.90:
        bad.kwargs["out"] = rng.choice(OUTS)
    elif way < 0.95:
        name, _, value = rng.choice(OPTIONS).partition("=")
        bad.kwargs[name] = value
    elif bad.kwargs:
        bad.kwargs.pop(rng.choice(list(bad.kwargs)))
    elif len(bad.args) > 1:
        i, j = rng.sample(range(len(bad.args)), 2)
        bad.args[i], bad.args[j] = bad.args[j], bad.args[i]
    return bad


def wrong_owner(source: str, rng: random.Random) -> str:
    if rng.random() < 0.5:
        return f"{source}.to(torch.{rng.choice(DTYPES)})"
    ways = [w for w in (*RESHAPED, *MOVED) if not w.startswith(("[", "(", "-")) and "data_ptr" not in w]
    made = rng.choice(ways).replace("{0}", source).replace("{}", source)
    return f"({made})" if " " in made else made


@functools.cache
def origins() -> tuple[str, ...]:
    """Names of what good calls come from: entries of the database, and lines written for the purpose."""
    usable = [name for name, entry in database().items() if way_to_call(entry)[0] in ("path", "method")]
    return (*usable, *BASES)


def bad_call(seed_: int, number: int) -> Call:
    """The bad call of that number in the sequence of a seed."""
    rng = random.Random(f"{seed_}:{number}")
    while True:
        origin = rng.choice(origins())
        good = (parsed(origin),) if origin in BASES else samples_of(origin)
        if good:
            call = spoilt(rng.choice(good), rng)
            return spoilt(call, rng) if rng.random() < 0.15 else call


# ---- running them


@dataclass
class Answer:
    """What a library did with a call: the class and text of its exception, or neither; and what changed."""

    error: str = ""
    text: str = ""
    changed: str = ""
    inside: str = ""  # the line of the library that raised
    deliberate: bool = True  # whether that line is a `raise`
    missing: bool = False


def state_of(value: Any) -> Any:
    """All that a call could change about an argument."""
    if isinstance(value, (list, tuple)):
        return [state_of(v) for v in value]
    if isinstance(value, dict):
        return {k: state_of(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), repr(value.tolist())
    if isinstance(value, type) or not hasattr(value, "_version") or not hasattr(value, "requires_grad"):
        return None
    geometry = tuple(value.shape), str(value.dtype), value.requires_grad, str(value.layout), value.is_leaf
    if str(value.layout) != "torch.strided":
        value = value.detach().to_dense()
    elif value.is_meta:
        return geometry
    return *geometry, value.stride(), repr(value.detach().tolist()), value.grad is None


def names_of(library: Any) -> dict[str, Any]:
    return {"torch": library, "np": np, "nan": float("nan"), "inf": float("inf"), "F": library.nn.functional,
            "math": __import__("math")}


def answer_of(library: Any, call: Call) -> Answer:
    """What the library does with the call; arguments that cannot be made count as missing."""
    names = names_of(library)
    owner_source, _, method = call.function.rpartition(".")
    library.manual_seed(0)
    try:
        owner = eval(owner_source, names) if owner_source else None
        args = [eval(a, names) for a in call.args]
        kwargs = {k: eval(v, names) for k, v in call.kwargs.items()}
        function = getattr(owner, method) if owner_source else eval(method, names)
    except Exception as error:  # noqa: BLE001 - code under test may raise anything
        return Answer(type(error).__name__, str(error), missing=True)
    subjects = [owner, args, kwargs]
    before = state_of(subjects)
    answer = Answer()
    try:
        if function(*args, **kwargs) is NotImplemented:  # Python makes a TypeError of it
            answer = Answer("TypeError", "NotImplemented")
    except Exception as error:  # noqa: BLE001 - code under test may raise anything
        place, line = innermost(error)
        answer = Answer(type(error).__name__, str(error)[:600], inside=place, deliberate="raise" in line)
    if answer.error and repr(before) != repr(state_of(subjects)):
        answer.changed = "an argument"
    return answer


def innermost(error: BaseException) -> tuple[str, str]:
    """The place that raised, and what stands there."""
    trace, place, line = error.__traceback__, "", ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{'/'.join(code.co_filename.split('/')[-2:])}:{trace.tb_lineno} {code.co_name}"
        lines = [linecache.getline(code.co_filename, n) for n in range(trace.tb_lineno - 5, trace.tb_lineno + 1)]
        line = " ".join(lines)
        trace = trace.tb_next
    return place, line


NUMPYS = re.compile(
    r"operands could not be broadcast|\baxis \d|\bufunc\b|cannot reshape array|setting an array element|shape mismatch|"
    r"'?ndarray'? object|could not broadcast input|array is too big|arrays used as indices|zero-size array|"
    r"can only convert an array|all the input array|Cannot cast|Maximum allowed (dimension|size)|matmul: Input operand|"
    r"truth value of an array|data type not understood|negative dimensions are not|too many indices for array|"
    r"inhomogeneous"
)
PYTHONS = re.compile(
    r"unsupported operand type|object is not (iterable|subscriptable|callable)|has no attribute|has no len|"
    r"not supported between|object cannot be interpreted|bad operand type|must be real number|indices must be integers|"
    r"not enough values to unpack|too many values to unpack|unhashable type|can't multiply sequence|NoneType|<lambda>|"
    r"referenced before assignment|cannot access local|(list|tuple) index out of range|invalid literal for|"
    r"could not convert string to float|argument of type|int too large to convert|too large to convert to C|"
    r"math domain error|division by zero|maximum recursion|zip\(\) argument"
)
EXPLAINED = re.compile("Expected all tensors to be on the same device|with arguments from the 'Sparse")
EXPLAINED_LACK = re.compile("automatic differentiation for outputs with complex dtype|no fake impl or Meta kernel")
INTERNAL = {"AttributeError", "KeyError", "IndexError", "UnboundLocalError", "AssertionError", "SystemError",
            "NameError", "RecursionError", "ZeroDivisionError", "StopIteration", "error",
            "BufferError", "FloatingPointError"}


def verdict(theirs: Answer, ours: Answer, function: str = "") -> str:
    """The class of a call, see above."""
    if theirs.missing or ours.text.startswith("mindtorch_v2 has no"):
        return "unknown"
    if ours.missing:
        absent = ours.error in ("AttributeError", "ImportError", "NotImplementedError", "ModuleNotFoundError")
        return "unknown" if absent else "refused"
    if not theirs.error:
        return "taken" if not ours.error else "explained" if EXPLAINED.search(ours.text) else "refused"
    if not ours.error:
        defect = function == "torch.kron" and "view size is not compatible" in theirs.text
        return "explained" if defect or EXPLAINED_LACK.search(theirs.text) else "accepted"
    if ours.changed and not theirs.changed:
        return "changed"
    said = re.split(r" Schema: |- got \(|but expected one|argument '\w+'.* must be", ours.text)[0]
    if NUMPYS.search(said) and not NUMPYS.search(theirs.text):
        return "numpy"
    if PYTHONS.search(said) and not PYTHONS.search(theirs.text):
        return "internal"
    if ours.error == theirs.error:
        return "same"
    return "internal" if ours.error in INTERNAL and not ours.deliberate else "other"


NOT_BAD = ("taken", "unknown", "refused", "explained")  # classes of calls that PyTorch does not refuse


def _work(calls: list[Call], module: str, pipe: Any) -> None:
    """A worker: answers of both libraries for each call, each announced before it is made."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    os.dup2(sys.stdout.fileno(), 2)
    torch.set_num_threads(1)  # its threads are the parent's: it would wait for them
    library = importlib.import_module(module)
    for call in calls:
        pipe.send("reference")
        theirs = answer_of(torch, call)
        pipe.send("library")
        pipe.send((theirs, answer_of(library, call)))
    pipe.close()


def answers(calls: list[Call], module: str) -> Iterator[tuple[Call, Answer, Answer]]:
    """Each call with both answers; a worker that dies or hangs answers "crash" or "hang" for the call it was at."""
    context = multiprocessing.get_context("fork")
    done = 0
    while done < len(calls):
        receiving, sending = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(calls[done:], module, sending), daemon=True)
        worker.start()
        sending.close()
        stage = ""
        while done < len(calls):
            try:
                message = receiving.recv() if receiving.poll(SECONDS) else "hang"
            except EOFError:
                message = "crash"
            if message in ("crash", "hang"):
                failed = Answer(message, f"the process {message}s")
                yield calls[done], *((failed, Answer()) if stage == "reference" else (Answer(), failed))
                done += 1
                break
            if isinstance(message, str):
                stage = message
            else:
                yield calls[done], *message
                done += 1
        if worker.pid is not None and worker.is_alive() and done < len(calls):
            os.kill(worker.pid, signal.SIGKILL)
        worker.join()


def classified(calls: list[Call], module: str) -> Iterator[tuple[str, Call, Answer, Answer]]:
    for call, theirs, ours in answers(calls, module):
        if theirs.error in ("crash", "hang"):
            yield "unknown", call, theirs, ours
        else:
            yield verdict(theirs, ours, call.function), call, theirs, ours


def run(count: int, seed_: int, module: str, report: Callable[[str, Call, Answer, Answer], None]) -> Counter:
    """How many calls are of which class, until `count` of them were refused by PyTorch."""
    found: Counter = Counter()
    number = bad = 0
    importlib.import_module(module)
    while bad < count:
        calls = [bad_call(seed_, number + i) for i in range(min(BATCH, 2 * (count - bad)))]
        number += len(calls)
        for kind, call, theirs, ours in classified(calls, module):
            found[kind] += 1
            bad += kind not in NOT_BAD
            report(kind, call, theirs, ours)
            if bad == count:
                break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="mindtorch_v2")
    parser.add_argument("--count", type=int, default=1000, help="bad calls to make")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", help="a file with one call a line, in the place of random ones")
    parser.add_argument("--json", help="a file for one line of JSON a difference")
    options = parser.parse_args()
    torch.set_num_threads(1)
    log = open(options.json, "w") if options.json else None  # noqa: SIM115 - open until the end

    def report(kind: str, call: Call, theirs: Answer, ours: Answer) -> None:
        if log and kind not in ("same", "taken"):
            row = {"kind": kind, "call": str(call), "theirs": asdict(theirs), "ours": asdict(ours)}
            log.write(json.dumps(row) + "\n")
        if kind in ("same", "taken", "unknown", "explained"):
            return
        print(f"{kind}: {call}\n    PyTorch: {theirs.error}: {theirs.text.splitlines()[0] if theirs.text else ''}\n"
              f"    here:    {ours.error}: {ours.text.splitlines()[0] if ours.text else ''}  [{ours.inside}]")

    if options.calls:
        found: Counter = Counter()
        importlib.import_module(options.module)
        lines = [line for line in Path(options.calls).read_text().splitlines() if line]
        for row in classified([parsed(line) for line in lines], options.module):
            found[row[0]] += 1
            report(*row)
    else:
        found = run(options.count, options.seed, options.module, report)
    refused = sum(n for kind, n in found.items() if kind not in NOT_BAD)
    print(", ".join(f"{kind} {n}" for kind, n in found.most_common()))
    print(f"of {refused} bad calls {100 * found['same'] / max(refused, 1):.2f} % raise the same class")
    return 0 if found["same"] >= 0.98 * refused and not any(found[k] for k in ("accepted", "internal", "numpy",
                                                                               "changed", "refused")) else 1


if __name__ == "__main__":
    sys.exit(main())
