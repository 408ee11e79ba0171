"""The Meta device: arrays that have a shape, strides and a type, and no memory."""

from ..._core.geometry import Geometry


class MetaArray(Geometry):
    """A geometry and nothing else; a recording notes in `pointer` where it would lie among others."""

    __slots__ = ("__weakref__", "pointer")
    pointer: int

    def copy(self) -> "MetaArray":
        return MetaArray(self.shape, self.dtype, self.strides)
