"""Runs at the start of processes that a program on mindtorch_v2 started: this folder stands first in their PYTHONPATH.

The environment's own sitecustomize, which this one hides, runs after it.
"""

import os
import sys


def _run_the_hidden_one() -> None:
    """Imports the sitecustomize that would have been found without this folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    this = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as missing:
        if missing.name != __name__:
            raise
        sys.modules[__name__] = this


if os.environ.get("MINDTORCH_AS_TORCH", "0") != "0":
    import mindtorch_v2_startup  # type: ignore[import-not-found]  # stands beside this file

    mindtorch_v2_startup.watch()

_run_the_hidden_one()
