"""The Meta device: arrays that have a shape, strides and a type, and no memory."""

from ..._core.geometry import Geometry


class MetaArray(Geometry):
    """A geometry and nothing else."""

    __slots__ = ()
