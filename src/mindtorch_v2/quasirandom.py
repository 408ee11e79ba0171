"""Sobol sequences: points that fill the unit cube more evenly than random ones."""

from typing import Any

import numpy as np

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

__all__ = ["SobolEngine"]


def _gray_code(number: int) -> int:
    return number ^ number >> 1


class SobolEngine:
    """Draws points of a (scrambled) Sobol sequence, with the direction numbers of Joe and Kuo.

    Point k + 1 is point k with one column of direction numbers xor-ed to it: that of the lowest zero bit of k.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        from scipy.stats import qmc  # holds the table of direction numbers

        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        numbers = qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT)._sv
        self.sobolstate = torch.from_numpy(numbers.astype(np.int64))
        if scramble:
            self._scramble()
        else:
            self.shift = torch.zeros(dimension, dtype=torch.long)
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _path(self, n: int, start: int) -> np.ndarray:
        """The next n points as integers, from point number `start` on; `quasi` moves to the last one."""
        numbers = np.arange(start, start + n)
        lowest_zero = np.log2(~numbers & (numbers + 1)).astype(np.int64)
        points = np.bitwise_xor.accumulate(self.sobolstate.numpy().T[lowest_zero], axis=0) ^ self.quasi.numpy()
        if n > 0:
            self.quasi.copy_(torch.from_numpy(points[-1]))
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points, one a row."""
        dtype = torch.get_default_dtype() if dtype is None else dtype
        first = self.num_generated == 0
        if dtype not in (torch.float32, torch.float64) and not (first and n == 1):
            raise NotImplementedError(f"\"_sobol_engine_draw\" not implemented for '{dtype.scalar_name}'")
        result = torch.empty((n - first, self.dimension), dtype=dtype)
        if n > first:
            path = self._path(n - first, self.num_generated - (not first))
            result.copy_(torch.from_numpy(path)).mul_(2.0**-self.MAXBIT)
        if first:
            result = torch.cat((self._first_point.to(dtype), result), dim=-2)
        self.num_generated += n
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2^m points, as long as there are a power of two in all."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError("The balance properties of Sobol' points require n to be a power of 2. "
                             f"{self.num_generated} points have been previously generated, then: "
                             f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                             "'SobolEngine.draw()' instead.")
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> "SobolEngine":
        """This engine, back at the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> "SobolEngine":
        """This engine, n points further."""
        first = self.num_generated == 0
        start = self.num_generated - (not first)
        # From a point to the next, one digit of the Gray code of its number changes: these have changed after all.
        changed = _gray_code(start) ^ _gray_code(start + n - first)
        if changed >> self.MAXBIT:
            raise ValueError(f"a Sobol sequence of {self.MAXBIT} binary digits has no point number {start + n}")
        for digit in range(changed.bit_length()):
            if changed >> digit & 1:
                self.quasi ^= self.sobolstate[:, digit]
        self.num_generated += n
        return self

    def _scramble(self) -> None:
        """Multiplies the binary digits by random lower triangular matrices and draws a random shift."""
        generator = None if self.seed is None else torch.Generator().manual_seed(self.seed)
        bits = self.MAXBIT
        shift = torch.randint(2, (self.dimension, bits), generator=generator)
        self.shift = torch.mv(shift, torch.pow(2, torch.arange(bits)))
        lower = torch.randint(2, (self.dimension, bits, bits), generator=generator).tril(-1) + torch.eye(bits).long()
        places = np.arange(bits)[::-1]  # the highest digit first
        digits = self.sobolstate.numpy()[:, None, :] >> places[:, None] & 1
        scrambled = np.matmul(lower.numpy().astype(np.float32), digits.astype(np.float32)).astype(np.int64) & 1
        self.sobolstate = torch.from_numpy((scrambled << places[:, None]).sum(1))

    def __repr__(self) -> str:
        settings = [f"dimension={self.dimension}"]
        settings += ["scramble=True"] if self.scramble else []
        settings += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(settings)})"
