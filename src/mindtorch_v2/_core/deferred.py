"""Arrays whose elements come later: what a tensor has between its recording by a pipeline and the flush."""

import sys
import weakref
from typing import Any

_HELD_BY_ITS_PLACE = 2  # references to a field's value, of which one is that of the count


def _is_gone(place: Any) -> bool:
    """Whether no tensor of the program shows what lies at a place of a recording, which may have a tensor to lend."""
    own = _HELD_BY_ITS_PLACE
    if place.tensor is None:
        return sys.getrefcount(place.array) <= own
    lent = place.array.trace.lent
    listed = lent is not None and place in lent.lending  # which refers to the tensor, and twice to the array
    return (sys.getrefcount(place.tensor) <= own + listed
            and sys.getrefcount(place.array) <= own + 1 + 2 * listed)  # fmt: skip


class LateArray:
    """What stands for an array, which `settled` gives when somebody asks for its elements."""

    __slots__ = ()

    def settled(self) -> Any:
        raise NotImplementedError

    def to_host(self) -> Any:
        value = self.settled()
        return value.to_host() if hasattr(value, "to_host") else value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.to_host()
        return array if dtype is None or array.dtype == dtype else array.astype(dtype)

    def __getitem__(self, place: Any) -> Any:
        return self.settled()[place]


class Deferred(LateArray):
    """Geometry now, memory after a flush. Whoever asks for more than geometry causes the flush.

    `trace` and `number` say which value of which recording it is; views have the number of the value whose memory they
    show as their `root`, and begin `offset` bytes into it.
    """

    __slots__ = ("dtype", "error", "holder", "layout", "number", "offset", "others", "root", "shape", "strides",
                 "trace", "value", "views")  # fmt: skip

    layout: Any
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    trace: Any
    number: int
    root: int | None
    offset: int
    holder: Any  # weak, as the others
    others: tuple
    value: Any
    error: BaseException | None
    views: Any  # the places in the recording of views of this, as long as it is none itself

    @property
    def ndim(self) -> int:
        return self.layout.ndim

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def held_by(self, tensor: Any) -> None:
        """Lets another tensor show the same value."""
        self.trace.touched.append(self.number)
        self.others = (*self.others, weakref.ref(tensor))

    @property
    def memory(self) -> int:
        """The number of the value whose memory this is."""
        return self.number if self.root is None else self.root

    def is_alone(self) -> bool:
        """Whether one tensor shows this memory, and no view of it is there any more."""
        if self.others or self.root is not None:
            return False
        return not self.views or all(map(_is_gone, self.views))

    def are_gone_but(self, view: "Deferred") -> bool:
        """Whether no tensor shows a view of this any more, but for one view."""
        return all([place.array is view or _is_gone(place) for place in self.views or ()])

    def settled(self) -> Any:
        """The array, computed now if it was not yet."""
        if self.value is None:
            if self.error is None:
                self.trace.flush()
            if self.error is not None:
                raise RuntimeError(f"this tensor was never computed: {self.error}") from self.error
        return self.value

    def __eq__(self, other: object) -> bool:  # not that of another array, whose elements would be compared
        return self is other

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__array_interface__" or name in Deferred.__annotations__:
            raise AttributeError(name)
        return getattr(self.settled(), name)

    def __setitem__(self, place: Any, value: Any) -> None:
        self.settled()[place] = value
