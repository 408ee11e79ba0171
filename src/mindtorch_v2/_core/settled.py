"""Times in which a call computes each result the same way as the last time, to the last digit.

Kernels that were compiled in the meantime wait until these are over: a machine's code rounds differently than NumPy.
"""

import contextlib
from collections.abc import Iterator

_depth = 0


def is_settled() -> bool:
    return _depth > 0


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Within it, nothing begins to be computed another way."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
