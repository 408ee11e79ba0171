"""Writes tests/mindtorch_v2/golden/random_streams.npz: what PyTorch draws in long mixed sequences of calls.

Run with PyTorch installed: python tools/golden_random.py
Each step of a sequence is the name of a function of mindtorch_v2._core.random with its arguments; stored are the first
and last elements of its result and a checksum of the generator's state after it.
"""

import json
import pathlib
import zlib

import numpy as np
import torch

TARGET = pathlib.Path(__file__).parent.parent / "tests" / "mindtorch_v2" / "golden" / "random_streams.npz"
SIZES = (0, 1, 2, 15, 16, 17, 31, 32, 33, 100, 1000)
SEEDS = (0, 42, -1, 2**40 + 17)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")
ENDS = 14  # elements kept from the start and from the end of a result


def weights(count: int, dtype: str) -> torch.Tensor:
    """Probabilities that the test can make too, exact in every dtype."""
    return (((torch.arange(count) * 7) % 13 + 1) / 16).to(getattr(torch, dtype))


DRAWS = {
    "uniform": lambda g, n, dtype, low, high: torch.empty(n, dtype=dtype).uniform_(low, high, generator=g),
    "normal": lambda g, n, dtype, mean, std: torch.empty(n, dtype=dtype).normal_(mean, std, generator=g),
    "normal_strided": lambda g, n, dtype, mean, std: torch.empty(n, 2, dtype=dtype)[:, 0].normal_(
        mean, std, generator=g
    ),
    "exponential": lambda g, n, dtype, lambd: torch.empty(n, dtype=dtype).exponential_(lambd, generator=g),
    "geometric": lambda g, n, dtype, p: torch.empty(n, dtype=dtype).geometric_(p, generator=g),
    "cauchy": lambda g, n, dtype, median, sigma: torch.empty(n, dtype=dtype).cauchy_(median, sigma, generator=g),
    "log_normal": lambda g, n, dtype, mean, std: torch.empty(n, dtype=dtype).log_normal_(mean, std, generator=g),
    "random_full": lambda g, n, dtype: torch.empty(n, dtype=dtype).random_(generator=g),
    "randint": lambda g, n, dtype, low, high: torch.randint(low, high, (n,), generator=g),
    "randperm": lambda g, n, dtype: torch.randperm(n, generator=g),
    "bernoulli_scalar": lambda g, n, dtype, p: torch.empty(n, dtype=dtype).bernoulli_(p, generator=g),
    "bernoulli_tensor": lambda g, n, dtype: torch.bernoulli(weights(n, str(dtype)[6:]), generator=g).bool(),
    "multinomial": lambda g, n, dtype, samples, again: torch.multinomial(
        weights(n, str(dtype)[6:]), samples, again, generator=g
    ),
}


def steps_of(size: int) -> list[tuple]:
    """The calls made for one size, as (name, dtype, *parameters)."""
    steps: list[tuple] = []
    for dtype in FLOATS:
        steps += [("uniform", dtype, 0.0, 1.0), ("uniform", dtype, -0.3, 0.9), ("normal", dtype, 0.0, 1.0)]
        steps += [("normal", dtype, 0.3, 2.5), ("normal_strided", dtype, 0.0, 0.5), ("exponential", dtype, 2.0)]
        steps += [("geometric", dtype, 0.3), ("cauchy", dtype, 0.5, 2.0), ("log_normal", dtype, 0.1, 0.5)]
        steps += [("random_full", dtype), ("bernoulli_tensor", dtype)]
    for dtype in ("float32", "float64"):
        if size:
            steps += [("multinomial", dtype, 1, False), ("multinomial", dtype, min(size, 9), False)]
            steps += [("multinomial", dtype, size, True)]
    for dtype in INTEGERS:
        steps += [("random_full", dtype)]
    steps += [("bernoulli_scalar", "bool", 0.3), ("randperm", "int64")]
    for low, high in ((0, 10), (-5, 3), (0, 2**28 - 1), (0, 2**28), (-7, 2**40), (-(2**63), 2**63 - 1)):
        steps += [("randint", "int64", low, high)]
    return steps


def stored_bytes(result: torch.Tensor) -> bytes:
    """The first and last elements as they lie in memory."""
    flat = result.contiguous()
    ends = torch.cat((flat[:ENDS], flat[ENDS:][-ENDS:]))
    return ends.view(torch.uint8).numpy().tobytes() if ends.numel() else b""


def state_checksum(generator: torch.Generator) -> int:
    """Of all but the kept normal, whose last digit depends on the machine."""
    state = generator.get_state().numpy().tobytes()
    return zlib.crc32(state[:5024] + state[5032:])


def main() -> None:
    steps, values, checksums = [], b"", []
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        sizes = SIZES if seed == 42 else SIZES[1:8:2]
        for size in (*sizes, 100003) if seed == 0 else sizes:
            for name, dtype, *parameters in steps_of(size):
                result = DRAWS[name](generator, size, getattr(torch, dtype), *parameters)
                content = stored_bytes(result)
                steps.append((seed, name, size, dtype, parameters, str(result.dtype)[6:], len(content)))
                values += content
                checksums.append(state_checksum(generator))
    np.savez_compressed(
        TARGET,
        steps=np.frombuffer(json.dumps(steps).encode(), np.uint8),
        values=np.frombuffer(values, np.uint8),
        checksums=np.array(checksums, np.uint32),
        final_state=generator.get_state().numpy(),
    )


if __name__ == "__main__":
    main()
