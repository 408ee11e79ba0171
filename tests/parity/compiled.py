"""torch.compile on whichever library `import torch` gives: what it refuses and what it counts, as lines of text.

python compiled.py                      # PyTorch
python -m mindtorch_v2 compiled.py      # this library
"""

import copy
import inspect
import logging
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo as dynamo
import torch._inductor
from torch._dynamo.testing import CompileCounter

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
x = torch.arange(6.0).reshape(2, 3)


def told(action: Callable) -> str:
    """What an action gives, or its error."""
    try:
        result = action()
    except BaseException as error:
        lines = str(error).split("\n")
        return f"{type(error).__name__}({', '.join(c.__name__ for c in type(error).__mro__[1:-2])}): {lines[0][:200]}"
    return str(result)


def plus(x: Any, n: Any = 1) -> Any:
    return x + n


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("kept", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        return x * self.weight


def arguments() -> dict[str, Callable]:
    """Calls of torch.compile itself."""
    return {
        "backend": lambda: torch.compile(plus, backend="nope"),
        "backend of a module": lambda: torch.compile(Net(), backend="nope"),
        "backend and disable": lambda: torch.compile(plus, backend="nope", disable=True),
        "backend in place": lambda: Net().compile(backend="nope"),
        "optimize": lambda: dynamo.optimize("nope"),
        "mode and options": lambda: torch.compile(plus, mode="default", options={}),
        "mode": lambda: torch.compile(plus, mode="fast"),
        "type of an option": lambda: torch.compile(plus, options={"max_autotune": 3.5}),
        "options": lambda: torch.compile(plus, options=[1]),
        "keyword": lambda: torch.compile(plus, foo=1),
        "dynamic": lambda: torch.compile(plus, dynamic=3, backend="eager"),
        "number": lambda: torch.compile(3),
        "None": lambda: torch.compile()(None),
        "disabled": lambda: torch.compile(plus, disable=True) is plus,
        "names of arguments": lambda: list(inspect.signature(torch.compile).parameters),
        "modes": lambda: torch._inductor.list_mode_options(),
        "options known": lambda: sorted(n for n in torch._inductor.list_options() if not n.startswith("_")),
        "settings": lambda: sorted(n for n in dynamo.config.get_config_copy() if not n.startswith("_")),
        "setting": lambda: setattr(dynamo.config, "zzz", 1),
        "reading a setting": lambda: torch._inductor.config.zzz,
        "patching a setting": lambda: dynamo.config.patch(zzz=1).__enter__(),
        "limits": lambda: (dynamo.config.recompile_limit, dynamo.config.cache_size_limit),
        "default backend": lambda: torch.compiler.get_default_backend(),
        "wrong default backend": lambda: torch.compiler.set_default_backend(3),
        "registered twice": lambda: [dynamo.register_backend(plus, "a_name") for _ in range(2)],
        "stance and backend": lambda: torch.compiler.set_stance("force_eager", force_backend="eager"),
        "allow in graph": lambda: torch.compiler.allow_in_graph(3),
        "substitute in graph": lambda: torch.compiler.substitute_in_graph(3),
        "logs": lambda: torch._logging.set_logs(zzz=True),
        "level": lambda: torch._logging.set_logs(dynamo="x"),
        "compiler's names": lambda: [n for n in torch.compiler.__all__ if not hasattr(torch.compiler, n)],
    }


def modules() -> dict[str, Callable]:
    """What OptimizedModule is like."""
    net = Net()
    compiled = torch.compile(net, backend="eager")

    def set_and_read() -> tuple:
        compiled.extra = 3
        seen = net.extra, "extra" in vars(compiled)
        del compiled.extra
        return (*seen, hasattr(net, "extra"))

    return {
        "keys": lambda: list(compiled.state_dict()),
        "parameters": lambda: [name for name, _ in compiled.named_parameters()],
        "repr": lambda: repr(compiled),
        "class": lambda: (type(compiled).__name__, isinstance(compiled, Net), compiled._orig_mod is net),
        "attributes": set_and_read,
        "absent": lambda: compiled.nope,
        "item": lambda: compiled[0],
        "training": lambda: (compiled.eval() is compiled, net.training, compiled.train().training, net.training),
        "copy": lambda: torch.equal(copy.deepcopy(compiled)(x), net(x)),
        "pickle": lambda: torch.equal(pickle.loads(pickle.dumps(compiled))(x), net(x)),
        "load": lambda: compiled.load_state_dict(net.state_dict()),
        "in place": lambda: (net.compile(backend="eager"), list(net.state_dict()), torch.equal(net(x), x)),
    }


def branches(x: Any) -> Any:
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y


def breaks(x: Any) -> Any:
    y = x * 2
    dynamo.graph_break()
    return y + 1


@torch.compiler.disable(reason="it is slow")
def apart(x: Any) -> Any:
    return x * 3


FUNCTIONS: dict[str, tuple[Callable, list[tuple]]] = {
    "one call": (plus, [(x,)]),
    "again": (plus, [(x,), (x,)]),
    "another type": (plus, [(x,), (x.double(),), (x,)]),
    "chain": (lambda x: (x.sin() + 1).relu() * 2, [(x,)]),
    "a reduction": (lambda x: torch.softmax(x, 1).sum(0), [(x,)]),
    "a module": (Net(), [(x,)]),
    "branches": (branches, [(x,), (-9 * x,), (x,)]),
    "a break": (breaks, [(x,)]),
    "a disabled function": (lambda x: apart(x + 1) - 1, [(x,)]),
    "nothing": (lambda x: x, [(x,)]),
    "shapes": (lambda x: x.shape, [(x,)]),
    "a write": (lambda x: x.clone().add_(1).mul_(2), [(x,)]),
}


def counts() -> dict[str, Callable]:
    """Graphs that functions become, and their values."""

    def counted(fn: Callable, calls: list[tuple]) -> list[Any]:
        dynamo.reset()
        counter = CompileCounter()
        compiled = torch.compile(fn, backend=counter, dynamic=False)
        return [(compiled(*args), counter.frame_count) for args in calls] + [counter.op_count]

    def limited(**options: Any) -> Any:
        dynamo.reset()
        counter = CompileCounter()
        compiled = torch.compile(plus, backend=counter, dynamic=False, **options)
        values = [compiled(x, n)[0, 0].item() for n in range(11)]
        return values, counter.frame_count

    def stances() -> list[Any]:
        dynamo.reset()
        counter, seen = CompileCounter(), []
        compiled = torch.compile(plus, backend=counter)
        for stance, given in (
            ("force_eager", x),
            ("default", x),
            ("eager_on_recompile", x.double()),
            ("eager_then_compile", x.int()),
            ("eager_then_compile", x.int()),
            ("default", x.int()),
        ):
            with torch.compiler.set_stance(stance):
                compiled(given)
            seen.append((stance, counter.frame_count))
        with torch.compiler.set_stance("fail_on_recompile"):
            seen.append(told(lambda: compiled(x.long())).partition(" filename")[0])
        return seen

    def refused(fn: Callable) -> Callable:
        def run() -> Any:
            dynamo.reset()
            return torch.compile(fn, backend="eager", fullgraph=True)(x)

        return run

    def bad(gm: Any, inputs: Any) -> Any:
        raise ValueError("oops")

    return {
        **{name: lambda f=fn, c=calls: counted(f, c) for name, (fn, calls) in FUNCTIONS.items()},
        "limit": limited,
        "limit of one's own": lambda: limited(recompile_limit=3),
        "limit of a whole graph": lambda: limited(fullgraph=True),
        "stances": stances,
        "whole: branches": refused(branches),
        "whole: a break": refused(breaks),
        "whole: disabled": refused(lambda x: apart(x) + 1),
        "whole: item": refused(lambda x: x.sum().item()),
        "whole: list": refused(lambda x: (x + 1).tolist()),
        "a backend that fails": lambda: torch.compile(plus, backend=bad)(x),
        "a backend that gives nothing": lambda: torch.compile(plus, backend=lambda gm, inputs: 3)(x),
        "no backend": lambda: torch.compile(plus, backend=3)(x),
        "asking": lambda: torch.compile(lambda x: torch.compiler.is_compiling(), backend="eager")(x),
        "explain": lambda: (lambda e: (e.graph_count, e.graph_break_count, len(e.break_reasons)))(
            dynamo.explain(branches)(x)
        ),
    }


if __name__ == "__main__":
    for group in (arguments, modules, counts):
        for name, action in group().items():
            print(f"{group.__name__} | {name} | {told(action)}".replace("\n", " "))
