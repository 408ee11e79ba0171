"""Work captured once and replayed as a whole, with one launch."""

import gc
from typing import Any

import cupy
import numpy as np

from . import memory
from .generator import CudaGenerator, default_generator
from .streams import Stream, current_stream, synchronize

_capturing: list["CUDAGraph"] = []


class CUDAGraph:
    """What was queued between `capture_begin` and `capture_end`. Its memory is its own while it lives."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph: Any = None
        self._pool: Any = None
        self._random: dict[int, tuple[CudaGenerator, Any, int]] = {}  # generator, device memory, draws a replay makes

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """From now on work on the current stream is recorded, not run."""
        stream = current_stream()
        if not stream.cuda_stream:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok "
                               "to replay them on the default stream.)")
        self._pool = pool if isinstance(pool, cupy.cuda.MemoryPool) else memory.GraphPool()
        self._register(default_generator())
        self._previous = memory.source.use(self._pool), cupy.cuda.get_allocator()
        cupy.cuda.set_allocator(self._pool.malloc)
        _capturing.append(self)
        # Allocations while capturing are allowed: the memory they take is the graph's own.
        stream.cupy_stream.begin_capture(cupy.cuda.runtime.streamCaptureModeRelaxed)

    def capture_end(self) -> None:
        """Ends the recording, which was begun on the current stream."""
        try:
            self._graph = current_stream().cupy_stream.end_capture()
        finally:
            _capturing.remove(self)
            before, of_cupy = self._previous
            memory.source.use(before)
            cupy.cuda.set_allocator(of_cupy)
            for generator, _, _ in self._random.values():
                generator.capture = None

    def replay(self) -> None:
        """Queues what was recorded on the current stream; draws of random numbers go on where the generator stands."""
        stream = current_stream()
        for generator, state, draws in self._random.values():
            if draws:
                state.set(np.array([generator.initial_seed(), generator.get_offset()], np.uint64), stream.cupy_stream)
                generator.set_offset(generator.get_offset() + draws)
        self._graph.launch(stream.cupy_stream)

    def reset(self) -> None:
        """Gives up the recording and its memory."""
        self._graph = self._pool = None
        self._random.clear()

    def pool(self) -> Any:
        """The memory pool, for another graph that is never replayed at the same time."""
        return self._pool

    def register_generator_state(self, generator: CudaGenerator) -> None:
        """Lets replays draw new numbers of a generator that is not the default one."""
        self._register(generator)

    def enable_debug_mode(self) -> None:
        """Keeps nothing for a dump: CuPy writes none."""

    def _register(self, generator: CudaGenerator) -> None:
        if id(generator) not in self._random:
            self._random[id(generator)] = generator, cupy.zeros(2, np.uint64), 0
        generator.capture = self

    def next_draw(self, generator: CudaGenerator) -> int:
        """The number of a draw among those of one replay."""
        known, state, draws = self._random[id(generator)]
        self._random[id(generator)] = known, state, draws + 1
        return draws

    def random_state(self, generator: CudaGenerator) -> int:
        """Where a kernel finds seed and offset at each replay."""
        return self._random[id(generator)][1].data.ptr


def is_capturing() -> bool:
    return bool(_capturing)


class graph:  # noqa: N801 - PyTorch's name
    """Context whose work is captured into a CUDAGraph, on a stream of its own."""

    default_capture_stream: Stream | None = None

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None,
                 capture_error_mode: str = "global") -> None:
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.cuda_graph, self.pool, self.stream, self.mode = cuda_graph, pool, stream, capture_error_mode

    def __enter__(self) -> None:
        synchronize()
        gc.collect()  # nothing may be freed by chance while capturing
        memory.empty_cache()
        self.stream.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.mode)

    def __exit__(self, *exc: object) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream.__exit__(*exc)
