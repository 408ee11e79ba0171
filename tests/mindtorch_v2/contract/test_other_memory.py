"""Tensors that are given other memory: `set_`, `data`, storages that grow."""

import pytest

import mindtorch_v2 as torch


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


def test_set_counts_records_and_keeps_views_where_they_are() -> None:
    x, other = torch.zeros(2), torch.arange(4.0)
    view = x[:1]
    x.set_(other)
    other[0] = 9.0
    assert x.tolist() == [9.0, 1.0, 2.0, 3.0] and (x._version, other._version) == (1, 1)
    assert view.tolist() == [0.0] and view.untyped_storage().nbytes() == 8
    view.set_(other, 1, (2,), (2,))
    assert view[1:].tolist() == [3.0] and view[1:].data_ptr() == other.data_ptr() + 12
    y = leaf(1.0, 2.0) * 2
    y.set_(other)
    assert type(y.grad_fn).__name__ == "NotImplemented"
    with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
        y.sum().backward()
    with torch.no_grad():
        z = leaf(1.0)
        z.set_(other)
    assert z.requires_grad and z.is_leaf and z.shape == (4,)
    made = torch.zeros(2).set_(leaf(1.0) * 1)
    assert made.requires_grad and not torch.zeros(2).set_(leaf(1.0) * 1, 0, (1,), (1,)).requires_grad


@pytest.mark.parametrize(("call", "text"), [
    (lambda: leaf(1.0).set_(torch.ones(1)), "a leaf Variable that requires grad is being used in an in-place"),
    (lambda: torch.ones(2).set_(torch.ones(2).double()), "Could not set tensor of type double to a tensor of type"),
    (lambda: torch.ones(2).set_(torch.ones(2).untyped_storage(), -1, (1,), (1,)), "Tensor: invalid storage offset -1"),
    (lambda: torch.ones(2).set_(torch.ones(2).untyped_storage(), 0, (1,), (1, 1)), "unequal size length"),
    (lambda: torch.ones(2).set_(torch.ones(2).untyped_storage(), 0, (1,), (-1,)), "Storage size calculation"),
    (lambda: torch.ones(2).set_(torch.ones(2, device="meta")), 'device "cpu" to a storage on different device "meta"'),
    (lambda: torch.ones(2).set_(torch.ones(2, 2).t(), 0, (1,), (1,)), "to be used as storage must be contiguous"),
    (lambda: torch.ones(2).set_(torch.ones(2), 1, (2,)), "are out of bounds for storage of size 8"),
])
def test_set_refuses(call, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


def test_set_takes_only_its_forms() -> None:
    for args in ((3,), (None,), (torch.ones(2), 1), (torch.ones(2), 0, 2)):
        with pytest.raises(TypeError, match="received an invalid combination of arguments"):
            torch.ones(2).set_(*args)


def test_inference_tensors_are_not_set_or_resized_outside_their_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
        x.set_(torch.ones(3))
        x.resize_(4)
    for change in (lambda: x.set_(), lambda: x.resize_(2)):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            change()


def test_tensors_follow_a_storage_that_grows() -> None:
    x = torch.arange(4.0)
    view, detached, data = x[1:3], x.detach(), x.data
    x.resize_(10)
    x[1] = 50.0
    assert view.tolist() == [50.0, 2.0] and detached[1] == 50.0 and data[1] == 50.0
    assert view.data_ptr() == x.data_ptr() + 4
    x.untyped_storage().resize_(80)
    x[2] = 60.0
    assert view.tolist() == [50.0, 60.0]


def test_a_view_made_before_new_data_keeps_its_memory() -> None:
    x = torch.ones(3)
    view = x[:2]
    x.data = torch.zeros(5)
    assert view.untyped_storage().nbytes() == 12 and x.untyped_storage().nbytes() == 20 and view._base is x
    with pytest.raises(RuntimeError, match="data set to a tensor that requires gradients must be floating point"):
        leaf(1.0).data = torch.ones(1, dtype=torch.int64)
