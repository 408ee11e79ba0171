"""Conjugated and negated views, and copies that are made at the first write."""

import copy
import io

import pytest

import mindtorch_v2 as torch


def test_conj_is_a_view_that_conjugates() -> None:
    x = torch.tensor([1 + 2j, 3j])
    y = x.conj()
    assert y.is_conj() and y._is_view() and y.data_ptr() == x.data_ptr() and not x.is_conj()
    assert y.tolist() == [1 - 2j, -3j] and y[0].item() == 1 - 2j and y[:1].is_conj() and str(y[1]) == "tensor(0.-3.j)"
    x[1] = 5
    assert y.tolist() == [1 - 2j, 5]  # it shows what lies in memory now
    assert not y.conj().is_conj() and not y.clone().is_conj() and not (y + 1).is_conj()
    assert y.resolve_conj().tolist() == y.tolist() and not y.resolve_conj().is_conj()
    assert not torch.ones(2).conj().is_conj() and y.detach().is_conj()


def test_parts_of_a_conjugated_view_share_its_memory() -> None:
    x = torch.tensor([1 + 2j, 3j])
    y = x.conj()
    assert y.imag.is_neg() and y.imag.tolist() == [-2, -3] and y.imag.data_ptr() == x.data_ptr() + 4
    assert not y.real.is_neg() and y.real.tolist() == [1, 0]
    y.imag.zero_()
    assert x.tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        torch.view_as_real(y)
    with pytest.raises(RuntimeError, match="Can't call numpy.. on Tensor that has conjugate bit set"):
        y.numpy()
    assert y.numpy(force=True).tolist() == [1, 0]


def test_writes_through_marked_views() -> None:
    x = torch.tensor([1 + 2j, 3j])
    y = x.conj()
    assert y.mul_(2j) is y and y.is_conj()
    assert y.tolist() == [4 + 2j, 6] and x.tolist() == [4 - 2j, 6] and x._version == y._version == 1
    y[0] = 1j
    assert x.tolist() == [-1j, 6]
    torch.mul(x, 2, out=y)
    assert y.tolist() == [-2j, 12] and x.tolist() == [2j, 12]
    n = torch.arange(3.0)._neg_view()
    n += 1
    assert n.tolist() == [1, 0, -1] and n.is_neg() and n._base.tolist() == [-1, 0, 1]


def test_views_of_marked_views() -> None:
    n = torch.arange(6.0)._neg_view().reshape(2, 3)
    assert n.T.is_neg() and n.T.tolist() == [[0, -3], [-1, -4], [-2, -5]]
    assert [part.is_neg() for part in n.unbind(0)] == [True, True]
    assert n.sum() == -15 and torch.cat([n, -n]).sum() == 0 and not n.T.contiguous().is_neg()


def test_gradients_of_marked_views() -> None:
    x = torch.tensor([[1 + 2j, 3j], [2, 1 - 1j]], requires_grad=True)
    y = x.mH
    assert y.is_conj() and y.grad_fn.name() == "ConjBackward0"
    (y @ x).abs().sum().backward()
    gradient, x.grad = x.grad, None
    (x.transpose(0, 1).conj_physical() @ x).abs().sum().backward()
    torch.testing.assert_close(gradient, x.grad)
    z = torch.ones(2, requires_grad=True)
    (z._neg_view() * torch.tensor([1.0, 2.0])).sum().backward()
    assert z.grad.tolist() == [-1, -2]
    assert torch.func.grad(lambda t: (t._neg_view() ** 2).sum())(torch.tensor([3.0])).tolist() == [6]
    assert torch.vmap(lambda t: t.conj() * 1j)(torch.tensor([1j, 2j])).tolist() == [1, 2]


def test_files_and_copies_of_marked_views() -> None:
    y = torch.tensor([1 + 2j, 3j]).conj()
    file = io.BytesIO()
    torch.save([y, y._base], file)
    file.seek(0)
    loaded, base = torch.load(file)
    assert loaded.is_conj() and loaded.tolist() == y.tolist() and base.tolist() == [1 + 2j, 3j]
    loaded[0] = 0
    assert base[0] == 0
    assert copy.deepcopy(y.detach()).tolist() == y.tolist()


def test_meta_and_inference() -> None:
    assert torch.empty(2, dtype=torch.complex64, device="meta").conj().is_conj()
    with torch.inference_mode():
        assert (torch.tensor([1j]).conj() * 2).tolist() == [-2j]


def test_a_lazy_clone_is_copied_at_the_first_write() -> None:
    t = torch.arange(4.0)
    view, address, storage = t.view(2, 2), t.data_ptr(), torch._C._storage_address(t)
    clone = t._lazy_clone()
    assert torch._C._is_cow_tensor(t) and torch._C._is_cow_tensor(clone) and torch._C._is_cow_tensor(view)
    assert torch._C._data_address(clone) == address and torch._C._storage_address(clone) != storage
    assert (t + clone).tolist() == [0, 2, 4, 6] and torch._C._is_cow_tensor(t)
    view += 1  # made before the clone was, it counts too
    assert t.tolist() == [1, 2, 3, 4] and clone.tolist() == [0, 1, 2, 3]
    assert not torch._C._is_cow_tensor(t) and torch._C._is_cow_tensor(clone)
    assert torch._C._storage_address(t) == storage and t.data_ptr() != address
    clone.mul_(2)  # the last one keeps the memory
    assert clone.tolist() == [0, 2, 4, 6] and clone.data_ptr() == address and not torch._C._is_cow_tensor(clone)
    other = t._lazy_clone()
    other.numpy()[0] = 7
    assert t[0] == 1 and other[0] == 7


def test_gradients_pass_lazy_clones() -> None:
    x = torch.ones(2, requires_grad=True)
    clone = x._lazy_clone()
    clone.mul_(3)
    clone.sum().backward()
    assert x.tolist() == [1, 1] and x.grad.tolist() == [3, 3]
