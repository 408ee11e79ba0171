"""Types that scripted code imports from here."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 - the names are what is imported

from .._jit_internal import BroadcastingList1, BroadcastingList2, BroadcastingList3

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Any", "Dict", "List", "Optional",
           "Tuple", "Union"]
