"""Training steps that run out of memory at many points, and many steps that must not take more and more of it.

    python tests/mindtorch_v2/memory_limits.py mlp --points 40
    python tests/mindtorch_v2/memory_limits.py mlp --steps 5000

A child process makes each step under an address space that is a little larger each time (RLIMIT_AS). One thread
multiplies: OpenBLAS ends the process if it finds no memory for the buffers of another. NumPy's loops have small
buffers: where it finds no memory for one, it raises without holding the interpreter's lock, and the process ends, too.
"""

import argparse
import ctypes
import gc
import json
import os
import random
import resource
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import functional

torch.set_num_threads(1)
np.setbufsize(16)
Parts = tuple[nn.Module, Callable[[int], Any], Callable[[nn.Module], torch.optim.Optimizer]]


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(x + self.norms[1](self.second(inner)))


class Gpt(nn.Module):
    def __init__(self, words: int = 500, width: int = 128, length: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.words(tokens) + self.places(torch.arange(length))
        return self.head(self.layers(x, mask=mask, is_causal=True))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(64, 256, 2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0][:, -1])


def mlp() -> Parts:
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return (model, lambda n: functional.cross_entropy(model(torch.randn(16 * n, 256)), torch.arange(16 * n) % 10),
            lambda m: torch.optim.SGD(m.parameters(), 0.01, momentum=0.9))


def resnet() -> Parts:
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), Residual(32), nn.MaxPool2d(2),
                          Residual(32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return (model, lambda size: functional.cross_entropy(model(torch.randn(size, 3, 32, 32)), torch.arange(size) % 10),
            lambda m: torch.optim.SGD(m.parameters(), 0.01, momentum=0.9, nesterov=True, weight_decay=1e-4))


def gpt() -> Parts:
    model = Gpt()

    def loss(size: int) -> torch.Tensor:
        tokens = torch.randint(500, (size, 33))
        return functional.cross_entropy(model(tokens[:, :-1]).reshape(-1, 500), tokens[:, 1:].reshape(-1))

    return model, loss, lambda m: torch.optim.AdamW(m.parameters(), 1e-3)


def lstm() -> Parts:
    model = Lstm()
    return (model, lambda size: functional.cross_entropy(model(torch.randn(size, 20, 64)), torch.arange(size) % 10),
            lambda m: torch.optim.Adam(m.parameters(), 1e-3))


MODELS = {"mlp": mlp, "resnet": resnet, "gpt": gpt, "lstm": lstm}


def _memory(field: str) -> int:
    """What Linux says of this process, in bytes: VmSize, VmPeak or VmRSS."""
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(field + ":"))


def _limit(nbytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (nbytes, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` returns in a forked process, or how that ended."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(work(), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else {"died": status}


def _bits(model: nn.Module) -> int:
    return hash(tuple(parameter.detach().numpy().tobytes() for parameter in model.parameters()))


def _step(loss_of: Callable[[int], Any], optimizer: torch.optim.Optimizer, reached: list[str]) -> None:
    """One step; appends the names of the parts it came to."""
    torch.manual_seed(1)
    optimizer.zero_grad()
    reached.append("forward")
    loss = loss_of(16)
    reached.append("backward")
    loss.backward()
    reached.append("step")
    optimizer.step()


def _give_back_free_memory() -> None:
    """Lets the C library return what it keeps, so that what a step needs is asked of the system again."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def at_points(name: str, points: int) -> dict[str, Any]:
    """How a step under each of `points` limits ended, and what was wrong."""
    os.environ.setdefault("PYTHONHASHSEED", "0")
    torch.manual_seed(0)
    model, loss_of, optimizer_of = MODELS[name]()
    optimizer = optimizer_of(model)
    # Compiles what is compiled at a first call, and lets OpenBLAS and SciPy take what they keep.
    other, other_loss, other_optimizer = MODELS[name]()
    tiny = other_optimizer(other)
    for _ in range(2):
        tiny.zero_grad()
        other_loss(1).backward()
        tiny.step()
    del other, other_loss, tiny
    _give_back_free_memory()
    before = _bits(model)

    def whole() -> dict[str, Any]:
        _step(loss_of, optimizer, [])
        peak = _memory("VmPeak")
        after = _bits(model)
        _step(loss_of, optimizer, [])
        return {"peak": peak, "after": after, "twice": _bits(model)}

    start, free = _memory("VmSize"), _in_child(whole)

    def limited(limit: int) -> dict[str, Any]:
        ended = "complete"
        reached: list[str] = []
        _limit(limit)
        try:
            _step(loss_of, optimizer, reached)
        except RuntimeError as error:
            ended = f"RuntimeError: {error}"
        except MemoryError as error:
            ended = f"MemoryError: {error!r}"
        finally:
            _limit(resource.RLIM_INFINITY)
        unchanged = _bits(model) == before
        right = unchanged if ended != "complete" else _bits(model) == free["after"]
        _step(loss_of, optimizer, [])
        # A failed step leaves nothing behind: what follows it is what follows no step.
        right_next = _bits(model) == (free["twice"] if ended == "complete" else free["after"])
        return {"ended": ended, "at": reached[-1], "right": right, "next": right_next}

    # Up to a quarter more than that step took: how the C library cuts memory up differs a little each time.
    room = (free["peak"] - start) * 5 // 4
    results = []
    for number in range(points):
        limit = start + room * (number + 1) // points
        results.append(_in_child(lambda limit=limit: limited(limit)))
    return {"model": name, "grows": free["peak"] - start, "results": results}


def over_steps(name: str, steps: int) -> dict[str, Any]:
    """The process's memory after a tenth of the steps, all of random sizes, and after all."""
    torch.manual_seed(0)
    sizes = random.Random(0)
    model, loss_of, optimizer_of = MODELS[name]()
    optimizer = optimizer_of(model)
    marks = []
    for number in range(steps):
        optimizer.zero_grad()
        loss_of(sizes.randint(1, 4)).backward()
        optimizer.step()
        if number + 1 in (steps // 10, steps):
            gc.collect()
            marks.append(_memory("VmRSS"))
    return {"model": name, "steps": steps, "early": marks[0], "late": marks[-1], "objects": len(gc.get_objects())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--points", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    options = parser.parse_args()
    if options.points:
        json.dump(at_points(options.model, options.points), sys.stdout)
    if options.steps:
        json.dump(over_steps(options.model, options.steps), sys.stdout)


if __name__ == "__main__":
    main()
