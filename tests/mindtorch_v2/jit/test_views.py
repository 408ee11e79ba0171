"""Compiled code that makes the arrays of views: as NumPy and PyTorch lay them out, on memory that stays."""

import gc
import random
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import machine, views
from mindtorch_v2._core import indexing
from mindtorch_v2._dispatch.registry import registry

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs a compiler")


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The functions, loaded and in use."""
    monkeypatch.setenv("MINDTORCH_JIT", "now")
    views.functions.when_loaded(lambda: None)
    monkeypatch.setattr(indexing, "_part", views.functions.part)
    yield


def _arrays() -> list[np.ndarray]:
    """Arrays of several layouts, types and ranks."""
    plain = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    return [plain, plain.transpose(2, 0, 1), plain[::2, 1:, ::2], np.broadcast_to(plain[0], (2, 4, 5)),
            np.arange(7), np.array(3.0), np.arange(24, dtype=np.complex128).reshape(2, 1, 12),
            np.arange(6, dtype=np.int8).reshape(3, 2)[::-1]]  # fmt: skip


def _indices(rank: int, seed: int) -> Iterator[Any]:
    """Basic indices, some of them out of range or of too many parts."""
    draw = random.Random(seed)

    def bound() -> int | None:
        return draw.choice([None, *range(-7, 8)])

    for _ in range(300):
        kinds = [draw.choice("iiss") for _ in range(draw.randint(0, rank + (draw.random() < 0.1)))]
        parts: list[Any] = [draw.randint(-4, 4) if kind == "i" else
                            slice(bound(), bound(), draw.choice([None, None, 1, 2, 3])) for kind in kinds]  # fmt: skip
        if draw.random() < 0.4:
            parts.insert(draw.randint(0, len(parts)), Ellipsis)
        if draw.random() < 0.3:
            parts.insert(draw.randint(0, len(parts)), None)
        yield parts[0] if len(parts) == 1 and draw.random() < 0.5 else tuple(parts)


@pytest.mark.parametrize("which", range(len(_arrays())))
def test_a_part_is_that_of_numpy(which: int) -> None:
    array = _arrays()[which]
    served = 0
    for index in _indices(array.ndim, which):
        found = views.functions.part(array, index)
        try:
            parts = index if index.__class__ is tuple else (index,)
            expected = array[parts if Ellipsis in parts else (*parts, ...)]
        except IndexError:
            assert found is None, index
            continue
        if not expected.size:
            assert found is None, index
            continue
        served += 1
        assert found is not None, index
        shown, distance = found
        np.testing.assert_array_equal(shown, expected)
        steps = [(s, n) for s, n in zip(shown.strides, shown.shape, strict=True) if n > 1]
        assert steps == [(s, n) for s, n in zip(expected.strides, expected.shape, strict=True) if n > 1], index
        assert distance == expected.__array_interface__["data"][0] - array.__array_interface__["data"][0]
        assert shown.flags.writeable == array.flags.writeable and np.shares_memory(shown, array)
    assert served > 50


def test_new_dimensions_have_pytorch_strides() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    for index in ((None,), (slice(1), None), (Ellipsis, None), (0, None, slice(1, 3)), (None, None, 1), None):
        parts, dim, expected = (index if index.__class__ is tuple else (index,)), 0, x
        for part in parts:  # as operators, one by one
            if part is None:
                expected, dim = expected.unsqueeze(dim), dim + 1
            elif part is Ellipsis:
                dim = expected.ndim
            elif part.__class__ is int:
                expected = expected.select(dim, part)
            else:
                start, stop, _ = part.indices(expected.shape[dim])
                expected, dim = expected.narrow(dim, start, stop - start), dim + 1
        made = x[index]
        assert (made.shape, made.stride()) == (expected.shape, expected.stride()), index
        assert made._base is x._base and torch.equal(made, expected)


@pytest.mark.parametrize("index", [True, 1.0, "0", [0], (0, True), (slice(None, None, -1),), (slice(0, 1.0),), 2**40,
                                   (slice(2**70),), (0,) * 5, (None,) * 70])  # fmt: skip
def test_other_indices_are_left_alone(index: Any) -> None:
    assert views.functions.part(np.zeros((2, 3)), index) is None
    assert views.functions.part(np.zeros(2).view(np.recarray), 0) is None


def test_views_keep_the_memory_that_they_show() -> None:
    class Owner(bytearray):
        pass

    owner = Owner(np.arange(12.0).tobytes())
    gone = weakref.ref(owner)
    array = np.frombuffer(owner)
    shown, _ = views.functions.part(array, slice(1, 3))
    other = views.functions.show(views.packed((2,), (16,), 8, None), shown)
    assert other.tolist() == [2.0, 4.0] and other.flags.c_contiguous is False
    del owner, array, shown
    gc.collect()
    assert gone() is not None and other.tolist() == [2.0, 4.0]
    del other
    gc.collect()
    assert gone() is None


def test_types_that_geometries_name_stay() -> None:
    kind = np.dtype([("half", np.int16), ("other", np.int16)])
    before = sys.getrefcount(kind)
    geometry = views.packed((4,), (4,), 0, kind)
    assert sys.getrefcount(kind) > before
    assert views.functions.show(geometry, np.arange(4, dtype=np.int32)).dtype is kind


@pytest.mark.parametrize("by_numpy", [True, False])
def test_parts_without_elements_lie_as_in_pytorch(by_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_numpy:
        monkeypatch.setattr(indexing, "_part", indexing.numpy_part)
    made = torch.arange(12).view(3, 4)[2:1:2, 1]
    assert (made.shape, made.stride(), made.storage_offset()) == ((0,), (8,), 9)


def test_what_cannot_be_written_stays_so() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    assert not views.functions.part(array, 0)[0].flags.writeable
    assert not views.functions.show(views.packed((2, 2), (16, 8), 0, None), array).flags.writeable
    assert views.functions.show(views.packed((1,), (8,), 0, None), object()) is None


_CALLS = {
    "view": lambda x: x.view(4, 6),
    "_reshape_alias": lambda x: x.transpose(0, 1).transpose(0, 1)[:, 1:].reshape(4, 1, 5),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "t": lambda x: x.t(),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(),
    "expand": lambda x: x.expand(2, 4, 6),
    "unbind": lambda x: x.unbind(1),
    "split.Tensor": lambda x: x.split(3),
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "_as_strided": lambda x: x.as_strided((2, 2), (3, 1), 1),
    "view_as_real": lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2))),
}


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("name", list(_CALLS))
def test_planned_views_are_those_of_the_first_call(name: str, needs_grad: bool) -> None:
    def described(x: torch.Tensor) -> list[Any]:
        made = _CALLS[name](x)
        return [(t.shape, t.stride(), t.storage_offset(), t.tolist(), t._base is x._base or t._base is x, t._keys,
                 t._creation, t._view_meta, t.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(),
                 t._version, t.grad_fn and t.grad_fn.name())
                for t in (made if isinstance(made, tuple) else (made,))]  # fmt: skip

    def source() -> torch.Tensor:
        made = torch.arange(24.0).view(4, 6)
        if needs_grad:
            made = made.clone().requires_grad_() * 1
        return made

    first = described(source())
    for _ in range(12):
        again = described(source())
        assert again == first
    assert registry.get(name).plans.found
    x = source().detach()
    written = _CALLS[name](x)
    for t in written if isinstance(written, tuple) else (written,):
        t.fill_(7.0)
    assert x._version > 0 and (x == 7.0).any()
    with torch.inference_mode():
        assert all(t.is_inference() for t in _CALLS["unbind"](torch.arange(24.0).view(4, 6)))


def test_a_planned_view_asks_how_long_the_storage_is() -> None:
    x = torch.arange(24.0)
    for _ in range(12):
        assert x.as_strided((3,), (8,)).tolist() == [0.0, 8.0, 16.0]
    short = torch.arange(24.0)
    short.untyped_storage().resize_(40)
    with pytest.raises(RuntimeError):
        short.as_strided((3,), (8,))
    assert x[8:].as_strided((2,), (8,)).tolist() == [8.0, 16.0]
