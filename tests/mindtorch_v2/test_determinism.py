"""torch.use_deterministic_algorithms: filled memory, and operations that PyTorch refuses in this mode."""

from collections.abc import Iterator

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F

nan, yes = float("nan"), True


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


FILLERS = {
    torch.float32: nan, torch.float64: nan, torch.float16: nan, torch.bfloat16: nan, torch.float8_e4m3fn: nan,
    torch.float8_e5m2: nan, torch.float8_e8m0fnu: nan, torch.complex64: nan, torch.complex32: nan, torch.bool: yes,
    torch.uint8: 255, torch.int8: 127, torch.int16: 32767, torch.int32: 2147483647, torch.int64: 9223372036854775807,
    torch.uint16: 65535, torch.uint32: 4294967295, torch.uint64: 18446744073709551615,
}


def filled(kind: torch.dtype, *values: float) -> str:
    """The text of a tensor with these values and then one of the mode's."""
    return str(torch.tensor([*values, FILLERS[kind]], dtype=kind))


@pytest.mark.parametrize("kind", FILLERS, ids=str)
@pytest.mark.parametrize("make", [
    lambda like: torch.empty(1, dtype=like.dtype),
    lambda like: torch.empty(2, 1, 1, 1, dtype=like.dtype, memory_format=torch.channels_last)[0, 0, 0],
    torch.empty_like,
    lambda like: torch.empty_strided((1,), (3,), dtype=like.dtype),
    lambda like: torch.empty_permuted((1, 1), (1, 0), dtype=like.dtype)[0],
    lambda like: like.new_empty(1),
    lambda like: like.new_empty_strided((1,), (1,)),
    lambda like: torch.empty(1, out=like.clone()),
], ids=["empty", "channels_last", "like", "strided", "permuted", "new", "new_strided", "out"])
@pytest.mark.usefixtures("deterministic")
def test_empty_memory_is_filled(make, kind) -> None:
    made = make(torch.zeros(1, dtype=kind))
    assert str(made) == filled(kind)


@pytest.mark.parametrize("kind", FILLERS, ids=str)
@pytest.mark.usefixtures("deterministic")
def test_resize_fills_what_it_adds(kind) -> None:
    assert str(torch.zeros(2, dtype=kind).resize_(3)) == filled(kind, 0, 0)


@pytest.mark.usefixtures("deterministic")
def test_the_old_constructors_fill() -> None:
    for made in (torch.Tensor(2), torch.FloatTensor(2), torch.zeros(1).new(2)):
        assert made.isnan().all()
    assert torch.IntTensor(1).tolist() == [2147483647]


@pytest.mark.usefixtures("deterministic")
def test_resize_fills_memory_and_not_elements() -> None:
    assert str(torch.zeros(4).resize_(2).resize_(3)) == "tensor([0., 0., 0.])"  # its memory was written to before
    assert str(torch.zeros(2)[1:].resize_(3)) == "tensor([0., nan, nan])"
    grown = torch.zeros(1, 2, 1, 1).resize_((1, 2, 2, 1), memory_format=torch.channels_last)
    assert str(grown.flatten()) == "tensor([0., nan, 0., nan])"
    assert str(torch.zeros(2).resize_as_(torch.zeros(3))) == "tensor([0., 0., nan])"


@pytest.mark.usefixtures("deterministic")
def test_filling_has_a_switch() -> None:
    switch = torch.utils.deterministic
    assert switch.fill_uninitialized_memory is True
    switch.fill_uninitialized_memory = False
    assert torch._C._get_deterministic_fill_uninitialized_memory() is False
    assert not torch.zeros(2).resize_(3).isnan().any()
    torch._C._set_deterministic_fill_uninitialized_memory(True)
    assert switch.fill_uninitialized_memory is True
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        switch.fill_uninitialized_memory = 1
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(2).isnan().all()
    torch.use_deterministic_algorithms(False)
    assert not torch.zeros(2).resize_(3).isnan().any()


_PLACES = torch.tensor([[[0, 3]]])
ALERTS = [
    ("put_", lambda x: x.put_(torch.tensor([0]), torch.ones(1))),
    ("put_", lambda x: torch.put(x, torch.tensor([0]), torch.ones(1))),
    ("max_unpooling2d_forward_out", lambda x: F.max_unpool1d(x, _PLACES, 2)),
    ("max_unpooling2d_forward_out", lambda x: F.max_unpool2d(x, _PLACES, (1, 2))),
    ("max_unpooling2d_forward_out", lambda x: torch.nn.MaxUnpool2d((1, 2))(x.to("meta"), _PLACES.to("meta"))),
    ("max_unpooling3d_forward_out", lambda x: F.max_unpool3d(x[None], _PLACES[None], (1, 1, 2))),
]


@pytest.mark.parametrize(("name", "call"), ALERTS)
@pytest.mark.usefixtures("deterministic")
def test_operations_that_pytorch_does_not_repeat_are_refused(name, call) -> None:
    x = torch.zeros(1, 1, 2)
    with pytest.raises(RuntimeError) as raised:
        call(x)
    assert str(raised.value) == (
        f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. "
        "You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if that's "
        "acceptable for your application. You can also file an issue at https://github.com/pytorch/pytorch/issues to "
        "help us prioritize adding deterministic support for this operation.")
    assert x.tolist() == [[[0, 0]]]
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=f"{name} does not have a deterministic .*warn_only=True.'. You can file"):
        call(x)


@pytest.mark.usefixtures("deterministic")
def test_operations_that_repeat_go_on() -> None:
    x = torch.zeros(3, requires_grad=True)
    x.take(torch.tensor([0, 0])).sum().backward()
    assert x.grad.tolist() == [2, 0, 0]
    assert torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2), accumulate=True).tolist() == [2, 0, 0]
    meta = torch.zeros(3, device="meta")
    assert meta.put_(torch.tensor([0]).to("meta"), torch.ones(1).to("meta")) is meta


def test_warn_only_is_kept_apart_from_the_mode() -> None:
    torch.use_deterministic_algorithms(False, warn_only=True)
    assert torch.is_deterministic_algorithms_warn_only_enabled() and not torch.are_deterministic_algorithms_enabled()
    assert torch.get_deterministic_debug_mode() == 0
    torch.set_deterministic_debug_mode(0)
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
