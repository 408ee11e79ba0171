"""Where in a storage a tensor lies, changed in place."""

import sys

from ..._core.storage import UntypedStorage
from ..._core.tensor import Tensor, flush_pending
from ..._dispatch.registry import registry
from .rules import shape_text


def checked_reach(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """The bytes that a geometry needs of a storage; offset and strides in elements."""
    if len(shape) != len(strides):
        raise RuntimeError(f"unequal size length ({len(shape)}) and stride length ({len(strides)})")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if shape and min(shape) < 0:
        raise RuntimeError("numel: integer multiplication overflow")
    if strides and min(strides) < 0:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={shape_text(shape)} and "
                           f"strides={shape_text(strides)}")
    if 0 in shape:
        return 0
    return (offset + sum([s * (n - 1) for s, n in zip(strides, shape, strict=True)]) + 1) * itemsize


def show(
    tensor: Tensor, storage: UntypedStorage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Tensor:
    """Lets a tensor show `storage`, grown if need be; offset and strides in elements."""
    flush_pending[0]()
    itemsize = tensor._array.itemsize
    needed = checked_reach(offset, shape, strides, itemsize)
    if needed > storage.nbytes():
        is_alone = tensor._storage is storage and sys.getrefcount(tensor._array) <= 2
        storage.grow(needed, int(is_alone))
    array = storage.array(shape, tensor._array.dtype, offset * itemsize, tuple([s * itemsize for s in strides]))
    tensor._array, tensor._storage, tensor._offset = array, storage, offset * itemsize
    if tensor._base is None:
        tensor._restrided = True
    else:  # the steps that made the view no longer lead to it
        tensor._view_step = (None, registry.get("aten::as_strided"), (shape, strides, offset), None)
    return tensor
