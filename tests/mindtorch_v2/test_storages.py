"""Storages as Python objects: attributes, subclasses, weak references, exchanged and regained memory."""

import io
import weakref

import numpy as np
import pytest

import mindtorch_v2 as torch


class Kept(torch.UntypedStorage):
    """A subclass that tells when it goes."""

    gone = 0

    def __del__(self) -> None:
        type(self).gone += 1


class Raw(torch._C.StorageBase):
    """A storage that is no UntypedStorage."""


def test_a_storage_keeps_attributes_as_long_as_a_tensor_lies_on_it() -> None:
    storage = Kept(8)
    storage.mark = 3
    x = torch.tensor(storage, dtype=torch.float32)
    reference = weakref.ref(storage)
    del storage
    assert Kept.gone == 0 and reference() is x.untyped_storage()
    assert x.untyped_storage().mark == 3 and isinstance(x.untyped_storage(), Kept)
    x.untyped_storage()._fix_weakref()
    del x
    assert Kept.gone == 1 and reference() is None


def test_torch_tensor_of_a_storage_shares_its_memory() -> None:
    storage = torch.FloatStorage([1, 2])
    x = torch.tensor(storage)
    x[0] = 5
    assert storage.tolist() == [5.0, 2.0] and x.untyped_storage() is storage.untyped()
    with pytest.raises(ValueError, match="could not determine the shape of object type"):
        torch.tensor(torch.UntypedStorage(4, device="meta"))


def test_subclasses_of_the_base_hold_bytes_and_the_base_itself_is_not_made() -> None:
    assert Raw(torch.UntypedStorage(2)).nbytes() == 2 and Raw(3).size() == 3
    assert not isinstance(Raw(3), torch.UntypedStorage)
    with pytest.raises(RuntimeError, match="Cannot directly construct StorageBase"):
        torch._C.StorageBase()


def test_tensors_see_the_memory_of_a_storage_that_was_emptied_and_grew_again() -> None:
    x = torch.ones(4)
    view, storage = x[1:3], x.untyped_storage()
    storage.resize_(0)
    storage.resize_(16)
    storage.fill_(0)
    assert x.tolist() == [0.0] * 4 and view.tolist() == [0.0] * 2


def test_exchanged_storages_show_each_others_elements() -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    view = x[1:]
    x.untyped_storage()._swap_data_ptr_(y.untyped_storage())
    assert (x.tolist(), y.tolist(), view.tolist()) == ([3.0, 4.0], [1.0, 2.0], [4.0])
    empty = torch.zeros(2)
    empty.untyped_storage().resize_(0)
    empty.untyped_storage()._swap_data_ptr_(y.untyped_storage())
    assert empty.tolist() == [1.0, 2.0] and y.untyped_storage().nbytes() == 0
    with pytest.raises(RuntimeError, match="must have the same nbytes or one must have 0, got 8 and 4"):
        x.untyped_storage()._swap_data_ptr_(torch.UntypedStorage(4))
    with pytest.raises(RuntimeError, match="must be on the same device, got cpu and meta"):
        x.untyped_storage()._swap_data_ptr_(torch.UntypedStorage(8, device="meta"))
    with pytest.raises(RuntimeError, match="expects an UntypedStorage, but got int"):
        x.untyped_storage()._swap_data_ptr_(3)


def test_bytes_of_a_storage_are_written_copied_and_counted() -> None:
    storage, file = torch.UntypedStorage([1, 2, 3, 4]), io.BytesIO()
    storage._write_file(file, False, True, 2)
    assert file.getvalue() == b"\x02" + bytes(7) + b"\x01\x02\x03\x04"
    copied = storage.__copy__()
    copied.byteswap(torch.float16)
    assert (storage.tolist(), copied.tolist()) == ([1, 2, 3, 4], [2, 1, 4, 3])
    few, more = (torch.UntypedStorage(n).__sizeof__() for n in (0, 100))
    assert more - few == 100
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        torch.UntypedStorage(4, device="meta")._write_file(file, False, True, 1)


@pytest.mark.parametrize("name", ["QInt8Storage", "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage",
                                  "QUInt2x4Storage"])
def test_storages_of_quantized_types_hold_integers(name: str) -> None:
    storage = getattr(torch, name)(3)
    storage[:] = 0
    storage[1] = 7
    assert storage.tolist() == getattr(torch, name)([0, 7, 0]).tolist() == [0, 7, 0]


def test_the_old_name_of_a_storage_of_floats() -> None:
    assert torch.Storage is torch.FloatStorage and torch.Storage(np.int64(3)).size() == 3
