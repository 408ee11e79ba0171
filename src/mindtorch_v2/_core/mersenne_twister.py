"""The generator of PyTorch's CPU random numbers: an MT19937, in NumPy's memory, and what is kept beside it."""

import ctypes
import operator
import secrets
from collections.abc import Callable
from typing import Self

import numpy as np

from .compiled import launching
from .computed import computed_once
from .planning import refuse_in_plans

DEFAULT_SEED = 67280421310721
WORDS_IN_STATE = 624
STATE_LAYOUT = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "normal_x", "double_normal", "normal_rho",
                  "has_double_normal", "float_normal", "has_float_normal"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", WORDS_IN_STATE), "<f8", "<f8", "<f8", "<i4", "<f4", "?"],
        "offsets": [0, 8, 12, 16, 24, 5016, 5024, 5032, 5040, 5048, 5052],
        "itemsize": 5056,
    }
)


_NEXT_WORDS = launching("random.next_words")
_FEW_WORDS = 512  # which NumPy draws as quickly
AT_ONCE = 256  # numbers at most that are drawn and made in one loop, word by word
_DRAWN = {family: launching("random.drawn", family=family) for family in
          ("uniform", "rounded", "below", "integer", "exponential", "geometric", "cauchy", "normal", "log_normal")}


def _memory_of(bits: np.random.MT19937) -> np.ndarray | None:
    """The numbers of a generator and the place of the next, where they lie; None if they do not lie as expected."""
    numbers = (ctypes.c_uint32 * (WORDS_IN_STATE + 1)).from_address(bits.ctypes.state_address)
    memory = np.frombuffer(memoryview(numbers), np.uint32)
    state = bits.state["state"]
    return memory if np.array_equal(memory, [*state["key"], state["pos"]]) else None


class Generator:
    """A stream of random words with PyTorch's seeding, state bytes and kept second normal."""

    def __init__(self, device: object = "cpu") -> None:
        self.device = device
        self._bits = np.random.MT19937(0)
        self._lock = self._bits.lock
        self._kept = np.zeros(2)  # whether there is a kept normal, and that
        self._seeder = np.random.RandomState(self._bits)
        self._seed_with(DEFAULT_SEED)

    def _seed_with(self, seed: int) -> None:
        self._initial_seed = seed
        self._seeder.seed(seed & 0xFFFFFFFF)
        self._untouched = True
        self.double_normal = None
        self.float_normal: float | None = None

    def manual_seed(self, seed: int) -> Self:
        """This generator, started anew; a negative seed counts down from 2^64."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__") or hasattr(seed, "_keys"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        number = operator.index(seed)
        if not -(1 << 63) <= number < 1 << 64:
            raise ValueError("Overflow when unpacking long long")
        self._seed_with(number % (1 << 64))
        return self

    def seed(self) -> int:
        """A fresh seed from the operating system, now in use."""
        self._seed_with(secrets.randbits(64))
        return self._initial_seed

    def initial_seed(self) -> int:
        """The seed this generator was last started with."""
        return self._initial_seed

    @property
    def double_normal(self) -> float | None:
        """The second normal of the last pair, if it was not asked for yet."""
        return float(self._kept[1]) if self._kept[0] else None

    @double_normal.setter
    def double_normal(self, value: float | None) -> None:
        self._kept[:] = (0, 0) if value is None else (1, value)

    def draws(self, made: np.ndarray, family: str, a: float, b: float = 0.0, c: float = 0.0, d: float = 0.0) -> bool:
        """Whether machine code has drawn the few numbers of an array that lies row by row, of a distribution."""
        memory = self._memory
        if memory is None:
            return False
        refuse_in_plans()
        with self._lock:
            done = _DRAWN[family](made, memory, self._kept, made.size, a, b, c, d)
        if done:
            self._untouched = False
        return done

    def words(self, count: int) -> np.ndarray:
        """The next `count` words, each as an uint64 below 2^32."""
        refuse_in_plans()
        if count:
            self._untouched = False
        if count >= _FEW_WORDS and self._memory is not None:
            made = np.empty(count, np.uint64)
            with self._lock:
                if _NEXT_WORDS(made, self._memory, count):
                    return made
        return self._bits.random_raw(count)

    @computed_once
    def _memory(self) -> np.ndarray | None:
        return _memory_of(self._bits)

    def words_ahead(self, wanted: int, surely: int) -> tuple[np.ndarray, Callable[[int], np.ndarray]]:
        """Some of the next words: as many as are wanted, or as are used surely where they cannot be put back.

        The function is told how many were used, and gives those that could not be put back.
        """
        memory = self._memory
        if memory is None:
            words = self.words(surely)
            return words, lambda used: words[used:]
        before = memory.copy()
        words = self.words(wanted)

        def put_back(used: int) -> np.ndarray:
            memory[...] = before
            self.words(used)
            return words[:0]

        return words, put_back

    def get_state(self) -> np.ndarray:
        """The state as the 5056 bytes that PyTorch keeps."""
        engine = self._bits.state["state"]
        state = np.zeros(1, STATE_LAYOUT)
        state["seed"] = self._initial_seed
        state["left"] = WORDS_IN_STATE + 1 - engine["pos"]
        state["seeded"] = 1
        state["next"] = 0 if self._untouched else engine["pos"]
        state["words"] = engine["key"]
        state["has_double_normal"], state["double_normal"] = self.double_normal is not None, self.double_normal or 0
        state["has_float_normal"], state["float_normal"] = self.float_normal is not None, self.float_normal or 0
        return state.view(np.uint8)

    def set_state(self, new_state: np.ndarray) -> "Generator":
        """This generator, continuing from the 5056 bytes of `new_state`."""
        raw = np.ascontiguousarray(new_state)
        if raw.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if raw.size != STATE_LAYOUT.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_LAYOUT.itemsize} "
                f"but found the input RNG state size to be {raw.size}"
            )
        state = raw.reshape(-1).view(STATE_LAYOUT)[0]
        left, position = int(state["left"]), int(state["next"])
        if state["seeded"] != 1 or not 0 < left <= WORDS_IN_STATE or position > WORDS_IN_STATE:
            raise RuntimeError("Invalid mt19937 state")
        key = state["words"].astype(np.uint32)
        used = WORDS_IN_STATE if left == 1 else position
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": used}}
        self._initial_seed = int(state["seed"])
        self._untouched = position == 0
        self.double_normal = float(state["double_normal"]) if state["has_double_normal"] else None
        self.float_normal = float(state["float_normal"]) if state["has_float_normal"] else None
        return self

    def clone_state(self) -> "Generator":
        """A new generator that will give the same numbers."""
        return Generator(self.device).set_state(self.get_state())

    def get_offset(self) -> int:
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> "Generator":
        raise RuntimeError("CPU Generator does not use offset")

    def __reduce__(self) -> tuple:
        return Generator, (self.device,), (self._initial_seed, None, self.get_state())

    def __setstate__(self, state: tuple) -> None:
        self.set_state(np.asarray(state[2]))
