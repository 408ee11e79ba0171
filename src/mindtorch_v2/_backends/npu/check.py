"""python -m mindtorch_v2 check npu: what this machine's chip and CANN do, in some twenty lines for a report."""

import platform
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F

from . import runtime

_MEGABYTES = 64


def _timed(function: Callable[[], Any], times: int) -> float:
    """Seconds for one call, the device's work included."""
    function()
    torch.npu.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        function()
    torch.npu.synchronize()
    return (time.perf_counter() - begun) / times


def _operators() -> dict[str, Callable[[str], Any]]:
    """An operator of each kind, as a function of the device."""
    generator = torch.Generator().manual_seed(0)
    x, image = torch.randn(8, 16, generator=generator), torch.randn(2, 4, 8, 8, generator=generator)
    kernel, places = torch.randn(4, 4, 3, 3, generator=generator), torch.arange(8) % 3
    heads = torch.randn(1, 2, 8, 16, generator=generator)
    return {
        "elementwise": lambda d: (x.to(d) * 2 + 1).exp(),
        "reduction": lambda d: x.to(d).sum(1),
        "product": lambda d: x.to(d) @ x.to(d).t(),
        "convolution": lambda d: F.conv2d(image.to(d), kernel.to(d)),
        "pooling": lambda d: F.max_pool2d(image.to(d), 2),
        "batch norm": lambda d: F.batch_norm(image.to(d), None, None, training=True),
        "softmax": lambda d: x.to(d).softmax(-1),
        "attention": lambda d: F.scaled_dot_product_attention(*(heads.to(d),) * 3, is_causal=True),
        "indexing": lambda d: x.to(d)[places.to(d)],
        "sorting": lambda d: x.to(d).sort(-1).values,
        "half precision": lambda d: (x.to(d).half() @ x.to(d).half().t()).float(),
    }


def _outcome(function: Callable[[str], Any]) -> str:
    """Whether an operator gives the CPU's numbers, to the precision of half types."""
    try:
        got, wanted = function("npu").cpu().numpy(), function("cpu").numpy()
    except Exception as error:  # whatever it is belongs into the report
        return f"{type(error).__name__}: {error}"
    worst = float(np.max(np.abs(got - wanted)))
    return f"{'ok' if worst <= 2e-2 * max(1.0, float(np.max(np.abs(wanted)))) else 'WRONG'}, off by {worst:.1e}"


def _training_step() -> str:
    def loss(device: str) -> float:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            made = model(torch.ones(4, 8, device=device)).square().mean()
            made.backward()
            optimizer.step()
        return made.item()

    try:
        return f"loss {loss('npu'):.6f}, on the CPU {loss('cpu'):.6f}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _bandwidth() -> str:
    host = torch.empty(_MEGABYTES << 18)
    there, other = host.npu(), host.npu()
    gigabytes = _MEGABYTES / 1024
    directions = {"to the device": lambda: there.copy_(host), "back": lambda: host.copy_(there),
                  "on the device": lambda: other.copy_(there)}  # fmt: skip
    return ", ".join(f"{gigabytes / _timed(function, 3):.1f} GB/s {name}" for name, function in directions.items())


def lines() -> Iterator[str]:
    """The report, line by line, so that what came before a crash is seen."""
    yield f"mindtorch_v2 {torch.__version__}, Python {platform.python_version()}, NumPy {np.__version__}"
    yield f"{platform.platform()}, {platform.machine()}"
    reason = runtime.why_unavailable()
    if reason is not None:
        yield f"no NPU: {reason}"
        return
    started = runtime.started()
    yield f"CANN libraries in {', '.join(map(str, started.libraries.folders))}"
    free, total = torch.npu.mem_get_info()
    yield (f"chip {started.soc_name}, taken for {started.chip or 'one that is not known'}; "
           f"{torch.npu.device_count()} devices; {free >> 20} of {total >> 20} MB free")
    for name, function in _operators().items():
        yield f"{name}: {_outcome(function)}"
    yield f"two steps of training: {_training_step()}"
    yield f"bandwidth: {_bandwidth()}"
    x = torch.ones(2, 2, device="npu")
    yield f"a + b of small tensors: {_timed(lambda: x + x, 2000) * 1e6:.1f} us each"
