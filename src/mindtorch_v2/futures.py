"""torch.futures: results that may come later; here they come at once, or from Python's own threads."""

from collections.abc import Callable
from concurrent import futures as _futures
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future(_futures.Future):
    """A value to come, with PyTorch's names."""

    def __init__(self, *, devices: Any = None) -> None:
        super().__init__()

    def wait(self) -> Any:
        return self.result()

    def value(self) -> Any:
        if not self.done():
            raise RuntimeError("future is not complete")
        return self.result()

    def then(self, callback: Callable) -> "Future":
        """A future of `callback(self)`."""
        following = Future()

        def run(done: Any) -> None:
            try:
                following.set_result(callback(done))
            except BaseException as error:  # it is the following future's to raise
                following.set_exception(error)

        super().add_done_callback(run)
        return following


def collect_all(futures: list) -> Future:
    """A future of the list, once all have come."""
    gathered = Future()
    _futures.wait(futures)
    gathered.set_result(futures)
    return gathered


def wait_all(futures: list) -> list:
    return [future.wait() for future in futures]
