"""What a run of a plan launches, noted with the executors that launch it again."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .array import NpuArray, NpuStorage
from .facts import Parameter
from .kernel import GONE, Prepared, Repeatable, kept_for, number_key
from .launch import AclnnOperator, arrays_of, described
from .layout import Layout
from .memory import pool_of
from .runtime import Runtime, at_stop
from .streams import Stream


class Shared:
    """An executor, or what else is kept for a call, with the number of those that launch it."""

    __slots__ = ("kept", "key", "users")

    def __init__(self, kept: Repeatable | Prepared, key: tuple = ()) -> None:
        self.kept, self.key, self.users = kept, key, 0
        _all.add(self)


_all: set[Shared] = set()
_known: dict[tuple, Shared] = {}  # by what an executor serves: CANN gives one that repeats at the first call only
_left: deque[Shared] = deque()  # by users that are gone; a destructor calls nothing, whoever comes next destroys
_lock = threading.Lock()


def take(shared: Sequence[Shared]) -> None:
    """Counts one more user of each."""
    with _lock:
        for known in shared:
            known.users += 1


def leave(shared: Sequence[Shared]) -> None:
    """Says that somebody does not need these any more; destroys nothing yet."""
    _left.extend(shared)


def destroy_left() -> None:
    """Destroys what nobody needs any more."""
    while _left:
        try:
            known = _left.popleft()
        except IndexError:  # another thread was quicker
            return
        with _lock:
            known.users -= 1
            unused = not known.users
            if unused and _known.get(known.key) is known:
                del _known[known.key]
        if unused:
            known.kept.destroy()
            _all.discard(known)


def _key(parameter: Parameter, value: Any) -> Any:
    """A stand-in for an argument: equal for calls that one executor serves."""
    if value is None or isinstance(value, str):
        return value
    if parameter.is_tensor:
        return value.layout
    if parameter.is_tensor_list:
        return tuple([array.layout for array in value])
    if isinstance(value, np.generic):
        return value.dtype, value.tobytes()
    return tuple(value) if isinstance(value, (list, tuple)) else number_key(value)


class Described:
    """Stands for an array among the arguments of a launch."""

    __slots__ = ("layout",)

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __repr__(self) -> str:
        return repr(self.layout)


def _without_memory(value: Any) -> Any:
    if value.__class__ is NpuArray:
        return Described(value.layout)
    return [_without_memory(v) for v in value] if value.__class__ is list else value


class Noted(NamedTuple):
    """A launch."""

    step: int  # of the plan
    kept: Repeatable | Prepared
    shared: Shared | None  # None where an operator's kernel keeps it
    storages: list[NpuStorage]  # of its tensors
    parameters: list[Parameter]  # likewise
    arguments: list[Any]  # without memory
    op: str


class Notes:
    """What a thread launches while `runtime.noting` has this for it."""

    def __init__(self) -> None:
        self.step = 0
        self.launches: list[Noted] = []
        self.refused = False  # whether something happened that cannot be launched again

    def refuse(self) -> None:
        self.refused = True

    def run(self, runtime: Runtime, operator: AclnnOperator, stream: Stream, arguments: Sequence[Any],
            op: str) -> None:  # fmt: skip
        """Launches a call that no operator's kernel keeps an executor for."""
        precise = None if operator.on_matrix_units is None else runtime.precision_of_products(operator.symbol)
        key = (operator.symbol, precise, *map(_key, operator.parameters, arguments))
        addresses = [array.storage.address for _, array in arrays_of(operator.parameters, arguments)]
        while True:
            known = _known.get(key)
            if known is None or not known.kept.executor:
                known = _known[key] = Shared(kept_for(runtime, operator, arguments, op), key)
            take([known])
            failed = known.kept.run(addresses, pool_of(stream.device_index), stream.handle)
            if failed is None:
                self.note(known.kept, arguments, op, known)
                return
            leave([known])
            if failed is not GONE:  # as it is where another thread has dropped it
                break
        error = runtime.error(*failed, described(operator.symbol, arguments, op))
        known.kept.destroy()  # nobody knows what state it is in
        raise error

    def note(self, kept: Repeatable | Prepared, arguments: Sequence[Any], op: str,
             shared: Shared | None = None) -> None:  # fmt: skip
        """Notes a launch, of which one in `shared` was taken for it."""
        arrays = arrays_of(kept.operator.parameters, arguments)
        self.launches.append(Noted(self.step, kept, shared, [array.storage for _, array in arrays],
                                   [parameter for parameter, _ in arrays], list(map(_without_memory, arguments)),
                                   op))  # fmt: skip

    def shared(self) -> list[Shared]:
        return [noted.shared for noted in self.launches if noted.shared is not None]


def _destroy_all(runtime: Runtime) -> None:
    for known in list(_all):
        known.kept.end(runtime)
    for table in (_all, _known, _left):
        table.clear()


at_stop.insert(0, _destroy_all)
