"""A device added by a program: host memory under another name, in one file, has every operator.

`Toy` is all that a device whose memory an array namespace computes on must say. Nothing of the library knows of it.
"""

from collections.abc import Iterator
from typing import Any

import device_cases
import numpy as np
import operator_cases as samples
import pytest
from device_cases import OnDevice, each
from operator_cases import Declaration

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2._backends import interface
from mindtorch_v2._backends.cpu import xp
from mindtorch_v2._core import device as _device
from mindtorch_v2._core.dtype import assign
from mindtorch_v2._core.geometry import Geometry
from mindtorch_v2._core.storage import UntypedStorage
from mindtorch_v2._dispatch.keys import DEVICE_MASKS, PRIVATE_MASK


class ToyArray(Geometry):
    """A geometry on a storage; the offset in bytes."""

    __slots__ = ("offset", "storage")

    def __init__(self, shape: tuple, dtype: np.dtype, strides: tuple | None, storage: Any, offset: int) -> None:
        super().__init__(shape, dtype, strides)
        self.storage, self.offset = storage, offset

    @property
    def elements(self) -> np.ndarray:
        if not self.size:
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, self.storage.memory, self.offset, self.strides)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def to_host(self) -> np.ndarray:
        return self.elements.copy()


class ToyStorage(UntypedStorage):
    """Bytes of the toy."""

    __slots__ = ("memory",)
    device = property(lambda self: torch.device("toy", 0))

    def __init__(self, nbytes: int = 0, *, device: Any = None) -> None:
        self.memory, self.nbytes_, self.buffer = np.zeros(max(nbytes, 1), np.uint8), nbytes, None

    def array(self, shape: tuple, type: np.dtype, offset: int, strides: tuple) -> ToyArray:
        return ToyArray(tuple(shape), type, tuple(strides), self, offset)

    @property
    def data(self) -> np.ndarray:
        return self.memory[: self.nbytes_].copy()

    def data_ptr(self) -> int:
        return self.memory.ctypes.data

    def resize_(self, nbytes: int) -> "ToyStorage":
        grown = np.zeros(max(nbytes, 1), np.uint8)
        kept = min(nbytes, self.nbytes_)
        grown[:kept] = self.memory[:kept]
        self.memory, self.nbytes_ = grown, nbytes
        return self


class Toy(interface.Backend):
    """Host memory under another name."""

    type, xp, storage_class = "toy", xp, ToyStorage

    def empty(self, spec: Any, where: Any) -> Any:
        shape, kind = tuple(spec.shape), spec.dtype
        strides = None if spec.strides is None else tuple(s * kind.itemsize for s in spec.strides)
        made = ToyArray(shape, kind.np, strides, None, 0)
        reach = sum(s * (n - 1) for s, n in zip(made.strides, shape, strict=True)) + kind.itemsize if made.size else 0
        made.storage = ToyStorage(reach)
        tensor = object.__new__(torch.Tensor)
        tensor._array, tensor._keys, tensor._device = made, PRIVATE_MASK, where
        return tensor

    def copy(self, target: Any, source: Any, non_blocking: bool = False) -> None:
        read = source._array.elements if source._array.__class__ is ToyArray else source._array
        wrote = target._array.elements if target._array.__class__ is ToyArray else target._array
        assign(wrote, read)

    def array_of(self, tensor: Any, where: Any = None) -> np.ndarray:
        return tensor._array.elements if tensor._array.__class__ is ToyArray else tensor._array

    def finished(self, array: Any, spec: Any, where: Any = None) -> Any:
        array = np.asarray(array)
        strides = spec.strides if array.shape == tuple(spec.shape) else None  # of some results the data tells the shape
        made = self.empty(spec._replace(shape=array.shape, strides=strides), where)
        if array.size:
            assign(made._array.elements, array)
        return made


@pytest.fixture(autouse=True, scope="module")
def toy() -> Iterator[None]:
    interface.register(Toy())
    yield
    interface._private.clear()
    del interface._known["toy"], DEVICE_MASKS["toy"]
    _device.DEVICE_TYPES.remove("toy")


SAMPLED = samples.sampled()
ON_TOY = OnDevice("toy", other_strides={*device_cases.OTHER_STRIDES, "aten::unique_dim"})
DERIVED = device_cases.derived(SAMPLED)
INPLACE = {name: d for name, d in SAMPLED.items() if d.inplace is not None}


@pytest.mark.parametrize("declaration", SAMPLED.values(), ids=SAMPLED)
def test_samples(declaration: Declaration) -> None:
    each(declaration, ON_TOY.check_values)


@pytest.mark.parametrize("declaration", DERIVED.values(), ids=DERIVED)
def test_gradients(declaration: Declaration) -> None:
    each(declaration, ON_TOY.check_gradients)


@pytest.mark.parametrize("declaration", INPLACE.values(), ids=INPLACE)
def test_in_place(declaration: Declaration) -> None:
    each(declaration, ON_TOY.check_in_place)


def test_tensors_go_there_and_back() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    device_cases.check_copies(x.clone(), x.to("toy"))
    y = x.to("toy", torch.int64)
    assert y.device == torch.device("toy:0") and y.cpu().equal(x.long())
    with pytest.raises(RuntimeError, match="two devices, cpu and toy:0"):
        x + x.to("toy")
    assert (x.to("toy") + torch.tensor(1.0)).cpu().equal(x + 1)


def test_a_model_trains_there() -> None:
    losses = {}
    for device in ("cpu", "toy"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
        data, target = torch.randn(16, 4), torch.randint(3, (16,))
        model, data, target = model.to(device), data.to(device), target.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 0.05)
        losses[device] = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["toy"] == pytest.approx(losses["cpu"], rel=1e-5) and losses["cpu"][-1] < losses["cpu"][0]


def test_there_is_one_added_device() -> None:
    class Other(Toy):
        type = "other"

    with pytest.raises(RuntimeError, match="has already been set! Current backend: toy"):
        interface.register(Other())
