"""What goes wrong between processes."""

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistBackendError(DistError):
    """An engine cannot go on: a process is gone, stopped or does something else."""


class DistNetworkError(DistError):
    """A connection cannot be made or was lost."""


class DistStoreError(DistError):
    """A store did not answer in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store had nothing to give to one who would not wait."""
