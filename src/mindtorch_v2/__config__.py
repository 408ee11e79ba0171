"""torch.__config__: what the library runs on."""

from ._core.info import describe

__all__ = ["parallel_info", "show"]


def show() -> str:
    return describe()


def parallel_info() -> str:
    """The threads that operators use."""
    from ._core.threads import get_num_interop_threads, get_num_threads

    return (f"ATen/Parallel:\n\tat::get_num_threads() : {get_num_threads()}\n"
            f"\tat::get_num_interop_threads() : {get_num_interop_threads()}\n")
