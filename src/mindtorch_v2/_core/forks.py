"""Locks in processes that fork."""

import os
from typing import Any

__all__ = ["free_in_children"]


def free_in_children(lock: Any) -> Any:
    """The lock, which a forked process finds free, whoever holds it here: that thread is not there to let it go.

    What the thread was changing may be half done there, so this is for what is of use all the same.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock
