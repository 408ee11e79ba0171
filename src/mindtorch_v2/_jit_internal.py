"""torch._jit_internal: decorators that scripted code imports from here."""

from typing import Any, Final

from .jit import _overload, _overload_method, _unchanged, export, ignore, is_scripting, unused

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Final", "_overload", "_overload_method",
           "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]


_copy_to_script_wrapper = _unchanged


class _BroadcastingList:
    def __getitem__(self, types: Any) -> None:
        """Used in annotations only."""


BroadcastingList1, BroadcastingList2, BroadcastingList3 = _BroadcastingList(), _BroadcastingList(), _BroadcastingList()


def boolean_dispatch(arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, module_name: str,
                     func_name: str) -> Any:
    """A function that calls one of two, by the value of a boolean argument."""

    def dispatched(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs.get(arg_name, args[arg_index] if len(args) > arg_index else default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    dispatched.__name__, dispatched.__module__ = func_name, module_name
    return dispatched
