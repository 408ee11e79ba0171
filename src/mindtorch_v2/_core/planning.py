"""What plans of calls (_ops/_declare/plans.py) ask of the layers below them."""

import threading
from typing import Any


class Unplannable(Exception):
    """What a call does depends on more than the layouts of its arrays and its other arguments."""


planners: set[int] = set()  # the threads that are making a plan just now
plans: list[dict[Any, Any]] = []  # of all operators
changes = [0]  # how often attributes of modules, and hooks, were set: what is replayed without Python looks again then


def refuse_in_plans() -> None:
    """Raises Unplannable where a plan is being made: the caller looks at elements, or does something to be repeated."""
    if planners and threading.get_ident() in planners:
        raise Unplannable


def forget_plans() -> None:
    """Drops all plans, since something that they rest on beside arguments has changed."""
    for remembered in plans:
        remembered.clear()
