"""bfloat16 and the float8 types where ml_dtypes is missing: how they convert, and that the library runs on them."""

import os
import subprocess
import sys

import numpy as np
import pytest

from mindtorch_v2._core.small_floats import FORMATS, decode, encode

# Numbers and what they become, as PyTorch prints them: ties, above the largest, infinity, half of the smallest.
ROUNDED = {
    "bfloat16": {1.00390625: 1.0, 1.01171875: 1.015625, 3.4e38: np.inf, -np.inf: -np.inf, 1e-45: 0.0},
    "float8_e4m3fn": {1.0625: 1.0, 1.1875: 1.25, 464.0: 448.0, 465.0: np.nan, np.inf: np.nan, 2.0**-10: 0.0},
    "float8_e5m2": {1.125: 1.0, 1.375: 1.5, 61439.0: 57344.0, 61440.0: np.inf, -np.inf: -np.inf, 2.0**-17: 0.0},
    "float8_e4m3fnuz": {1.0625: 1.0, 247.0: 240.0, 248.0: np.nan, np.inf: np.nan, -(2.0**-11): 0.0},
    "float8_e5m2fnuz": {1.125: 1.0, 61439.0: 57344.0, 61440.0: np.nan, np.inf: np.nan, -(2.0**-18): 0.0},
    "float8_e8m0fnu": {1.4: 1.0, 1.5: 2.0, 3.0: 4.0, 0.0: 2.0**-127, np.inf: np.nan},
}


@pytest.mark.parametrize("name", FORMATS)
def test_rounding(name):
    given = np.array(list(ROUNDED[name]), np.float32)
    np.testing.assert_array_equal(decode(name, encode(name, given)), np.array(list(ROUNDED[name].values()), np.float32))


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_comes_back(name):
    codes = np.arange(1 << (16 if name == "bfloat16" else 8)).astype("u2" if name == "bfloat16" else "u1")
    numbers = decode(name, codes)
    known = ~np.isnan(numbers)
    np.testing.assert_array_equal(encode(name, numbers)[known], codes[known])
    assert np.isnan(decode(name, encode(name, numbers[~known]))).all()


@pytest.mark.parametrize("name", FORMATS)
def test_codes_are_those_of_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="a package of the extra `test`")
    kind = np.dtype(getattr(ml_dtypes, name))
    bits = np.dtype(f"u{kind.itemsize}")
    every = decode(name, np.arange(1 << 8 * kind.itemsize).astype(bits))
    draw = np.random.default_rng(0).integers(0, 1 << 32, 50_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    finite = np.sort(every[np.isfinite(every)]).astype(np.float64)
    between = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    numbers = np.concatenate([draw, every, between, np.nextafter(between, np.float32(0)),
                              np.nextafter(between, np.float32(np.inf))])
    numbers = numbers[numbers != 0] if name == "float8_e8m0fnu" else numbers  # it makes NaN of zero, PyTorch does not
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(encode(name, numbers), numbers.astype(kind).view(bits))
    for limit in ("max", "min", "eps", "smallest_normal"):
        assert float(getattr(ml_dtypes.finfo(kind), limit)) == getattr(FORMATS[name], limit)


PROGRAM = """
import sys
sys.modules["ml_dtypes"] = None
import io
import numpy as np
import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2._core.dtype import bfloat16

x = torch.tensor([1.5, 2.0, -3.0], dtype=torch.bfloat16)
print(x, x + x, x / 3, (x @ x).item(), x.sort().indices.tolist(), x.argmax().item(), x > 0, x[1].item(), x.int())
print(torch.arange(5, dtype=torch.bfloat16).cumsum(0).tolist(), x.logsumexp(0).item(), x[0].logsumexp(0).item())
for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"):
    small = torch.tensor([0.3, 1.5, 1e9]).to(getattr(torch, name))
    print(small.float().tolist(), small.to(torch.bfloat16).tolist(), torch.cat([small, small[:1]]).view(torch.uint8))
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to(torch.bfloat16)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
data, target = torch.randn(32, 4).bfloat16(), torch.randint(2, (32,))
for step in range(20):
    loss = nn.functional.cross_entropy(net(data), target)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print(round(loss.item(), 2), next(net.parameters()).grad.dtype)
file = io.BytesIO(); torch.save(net.state_dict(), file); file.seek(0)
print(all(torch.equal(a, b) for a, b in zip(torch.load(file).values(), net.state_dict().values())))
a = np.arange(1.0, 5.0).reshape(2, 2).astype(bfloat16.np)
print(np.add.reduce(a, axis=0).tolist(), float(np.add.reduce(a, axis=None)), np.multiply.accumulate(a, axis=1).tolist(),
      (a.T - a[::-1]).tolist(), np.argmin(-a), np.nonzero(a - 1)[0].tolist(), np.sort(a[::-1], axis=0).tolist())
print(torch.finfo(torch.bfloat16).max, torch.finfo(torch.float8_e4m3fn).tiny)
"""


def run(program: str, **variables: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, **variables})
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("compiled", ["1", "0"])
def test_the_library_gives_the_same_without_ml_dtypes(compiled):
    pytest.importorskip("ml_dtypes", reason="a package of the extra `test`")
    without = run(PROGRAM, MINDTORCH_JIT=compiled)
    assert without == run(PROGRAM.replace('sys.modules["ml_dtypes"] = None', ""), MINDTORCH_JIT=compiled)
    assert without[0].startswith("tensor([ 1.5000,  2.0000, -3.0000], dtype=torch.bfloat16)")
