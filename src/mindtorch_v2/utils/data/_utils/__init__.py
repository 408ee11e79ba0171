"""How a DataLoader gets its batches: fetching, collating, worker processes."""

from ...._utils import ExceptionWrapper

HAS_NUMPY = True
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between two looks at whether the process at the other end still lives

from . import collate, fetch, pin_memory, worker  # noqa: E402 - they use the interval
