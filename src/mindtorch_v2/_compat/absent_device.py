"""The module of a kind of device that is not there: programs ask it how many there are, and go on without."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .absent import absent_class

_FALSE = """is_available is_initialized is_bf16_supported is_tf32_supported is_current_stream_capturing
            can_device_access_peer"""
_ZERO = """device_count memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached
           max_memory_cached driver_allocated_memory current_allocated_memory"""
_NOTHING = """empty_cache manual_seed manual_seed_all seed seed_all set_rng_state_all reset_peak_memory_stats
              reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats"""
_REFUSED = """current_device synchronize set_device get_device_name get_device_capability get_device_properties init
              initial_seed get_rng_state set_rng_state mem_get_info current_stream default_stream set_stream ipc_collect
              memory_snapshot memory_summary utilization temperature power_draw clock_rate cudart set_sync_debug_mode
              get_sync_debug_mode set_per_process_memory_fraction make_graphed_callables graph_pool_handle"""
_CLASSES = "CUDAGraph Event ExternalStream MemPool Stream StreamContext graph"


def absent_device(kind: str, error: Exception) -> dict[str, Any]:
    """The names of `torch.<kind>`; what needs a device raises `error`."""

    def answering(name: str, answer: Callable[[], Any]) -> Callable:
        def function(*args: Any, **kwargs: Any) -> Any:
            return answer()

        function.__name__ = function.__qualname__ = name
        return function

    def refused() -> Any:
        raise error

    @contextmanager
    def stream(stream: Any) -> Iterator[None]:
        """Without a stream, nothing to switch to."""
        if stream is not None:
            raise error
        yield

    class device:
        """Without an index, nothing to switch to."""

        def __init__(self, device: Any) -> None:
            self.idx = -1 if device is None else device

        def __enter__(self) -> None:
            if self.idx != -1:
                raise error

        def __exit__(self, *exception: Any) -> None:
            """Nothing was switched."""

    made: dict[str, Any] = {"stream": stream, "device": device, "default_generators": ()}
    answers: tuple[tuple[str, Callable[[], Any]], ...] = (
        (_FALSE, lambda: False), (_ZERO, lambda: 0), (_NOTHING, lambda: None), (_REFUSED, refused),
        ("memory_stats memory_stats_as_nested_dict", OrderedDict), ("get_rng_state_all get_arch_list", list))
    for names, answer in answers:
        made |= {name: answering(name, answer) for name in names.split()}
    return made | {name: absent_class(f"torch.{kind}.{name}") for name in _CLASSES.split()}
