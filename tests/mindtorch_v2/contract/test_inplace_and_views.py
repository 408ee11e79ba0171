"""In-place writes and views: what is refused, what is noticed at backward, and where gradients go."""

import copy
import re
from typing import Any

import pytest

import mindtorch_v2 as torch


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


def grads(loss: torch.Tensor, *inputs: torch.Tensor) -> list:
    return [g.tolist() for g in torch.autograd.grad(loss, inputs)]


# versions ------------------------------------------------------------------------------------------------------------


def test_each_write_counts_once_for_the_tensor_and_its_views() -> None:
    x = torch.zeros(2, 3)
    row, detached = x[0], x.detach()
    assert (x._version, row._version) == (0, 0)
    x.add_(1)
    row.mul_(2)
    row[1:].zero_()
    x[0, 0] = 7.0
    x += 1
    assert x._version == row._version == detached._version == 5
    assert x.clone()._version == 0
    detached.add_(1)
    assert x._version == 6


def test_data_writes_are_not_counted() -> None:
    x = torch.zeros(2)
    x.data.add_(1)
    assert x._version == 0
    assert x.tolist() == [1.0, 1.0]


# what is refused -----------------------------------------------------------------------------------------------------


def test_a_leaf_that_requires_grad_is_not_written() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(
        RuntimeError, match="^a leaf Variable that requires grad is being used in an in-place operation.$"
    ):
        x.add_(1)
    with torch.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0, 3.0] and x.requires_grad and x.is_leaf


def test_a_view_of_such_a_leaf_is_not_written() -> None:
    text = "^a view of a leaf Variable that requires grad is being used in an in-place operation.$"
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=text):
        x[0] = 3.0
    with pytest.raises(RuntimeError, match=text):
        x.view(2, 1).mul_(2)
    assert x.tolist() == [1.0, 2.0]


def test_a_leaf_view_may_be_written_under_no_grad() -> None:
    x = leaf(1.0, 2.0)
    with torch.no_grad():
        x[0] = 5.0
    assert x.tolist() == [5.0, 2.0]


def test_one_of_several_views_is_not_written() -> None:
    x = leaf(1.0, 2.0).clone()
    first, _ = x.unbind(0)
    with pytest.raises(RuntimeError) as caught:
        first.mul_(2)
    assert str(caught.value) == (
        "Output 0 of Unbind is a view and is being modified inplace. This view is the output of a function that "
        "returns multiple views. Such functions do not allow the output views to be modified inplace. You should "
        "replace the inplace operation by an out-of-place one."
    )
    second = leaf(1.0, 2.0, 3.0, 4.0).clone().split(2)[1]
    with pytest.raises(RuntimeError, match="^Output 1 of Split is a view and is being modified inplace"):
        second.add_(1)


def test_one_of_several_views_may_be_written_where_nothing_is_recorded() -> None:
    x = torch.tensor([1.0, 2.0])
    x.unbind(0)[0].mul_(5)
    assert x.tolist() == [5.0, 2.0]


def test_a_view_made_under_no_grad_is_not_written_outside() -> None:
    base = leaf(1.0, 2.0).clone()
    with torch.no_grad():
        view = base[:1]
    with pytest.raises(RuntimeError) as caught:
        view.mul_(2)
    assert str(caught.value) == (
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this"
        " use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the "
        "view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) "
        "or both outside (if you want the inplace to be tracked)."
    )


@pytest.mark.parametrize(("mode", "name", "where"), [
    (torch.no_grad, "no_grad", "with grad mode enabled"), (torch.inference_mode, "inference", "in normal mode")])
def test_a_view_of_a_view_made_without_grad_says_so(mode: Any, name: str, where: str) -> None:
    base = leaf(1.0, 2.0).clone()
    with mode():
        view = base[:1]
    later = view.unsqueeze(0)
    start = f"Output 0 of Unsqueeze is a view of a view which was created in {name} mode and"
    with pytest.raises(RuntimeError, match=f"{start} is being modified inplace {where}"):
        later.mul_(2)
    base.mul_(2)
    with pytest.raises(RuntimeError, match=f"{start} its base or another view of its base has been .* {where}"):
        _ = later.grad_fn


def test_one_of_several_views_of_a_view_made_without_grad() -> None:
    base = leaf(1.0, 2.0).clone()
    with torch.no_grad():
        view = base[:]
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and is being modified inplace. This view is "):
        view.unbind()[0].mul_(2)
    with torch.inference_mode():
        view = base[:]
    with torch.no_grad():
        part = view[:1]
    with pytest.raises(RuntimeError, match="A view was created in inference mode"):
        part.mul_(2)
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view of a view which was created in inference"):
        view.unbind()[0].mul_(2)


def test_an_expanded_tensor_is_not_written() -> None:
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
    ):
        torch.zeros(1, 3).expand(2, 3).add_(1)


def test_an_overlapping_source_is_refused() -> None:
    x = torch.arange(4.0)
    with pytest.raises(
        RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single"
    ):
        x[1:].add_(x[:-1])
    x.add_(x)
    assert x.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_result_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        torch.zeros(3).add_(torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.zeros(3, dtype=torch.int64).add_(0.5)


# what backward notices -----------------------------------------------------------------------------------------------


def test_a_saved_input_that_was_written() -> None:
    x, y = leaf(1.0, 2.0), torch.tensor([3.0, 4.0])
    z = x * y
    y.add_(1)
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    assert str(caught.value) == (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.FloatTensor [2]] is at version 1; expected version 0 instead. Hint: enable anomaly detection to "
        "find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, "
        "check_nan=False)."
    )


def test_a_saved_intermediate_that_was_written_is_named() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"\[torch.FloatTensor \[2\]\], which is output 0 of Add, is at version 1; "
                       "expected version 0 instead"):  # fmt: skip
        z.sum().backward()


def test_a_saved_output_that_was_written() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="which is output 0 of Exp, is at version 1; expected version 0 instead"):
        y.sum().backward()


def test_a_write_through_a_view_or_detached_alias_is_noticed() -> None:
    for write in (lambda t: t[0].zero_(), lambda t: t.detach().zero_(), lambda t: t.view(2, 1).add_(1)):
        x, y = leaf(1.0, 2.0), torch.tensor([3.0, 4.0])
        z = x * y
        write(y)
        with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
            z.sum().backward()


def test_a_write_to_what_is_not_needed_is_harmless() -> None:
    x, y = leaf(1.0, 2.0), torch.tensor([3.0, 4.0])
    z = x * 2 + y
    y.zero_()
    z.mul_(3)
    z.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_write_before_saving_is_harmless() -> None:
    x = leaf(1.0, 2.0)
    y = x.clone()
    y.mul_(2)
    y.exp_()
    (y * y).sum().backward()
    assert x.grad.tolist() == pytest.approx([4 * 2.718281828**4, 4 * 2.718281828**8], rel=1e-5)


# gradients -----------------------------------------------------------------------------------------------------------


def test_a_chain_of_writes() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    y.mul_(3).add_(1)
    y *= 2
    assert grads(y.sum(), x) == [[6.0, 6.0]]
    assert y.grad_fn.name() == "MulBackward0"


def test_a_write_that_uses_its_own_old_value() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x.clone()
    y.mul_(w)
    y.mul_(w)
    assert grads(y.sum(), x, w) == [[9.0, 16.0], [6.0, 16.0]]


def test_a_tensor_without_grad_gets_it_by_a_write() -> None:
    x, target = leaf(1.0, 2.0), torch.zeros(2)
    target.add_(x * 3)
    assert target.requires_grad and not target.is_leaf
    assert grads(target.sum(), x) == [[3.0, 3.0]]


def test_a_write_to_a_view_changes_the_base() -> None:
    x = leaf(1.0, 2.0, 3.0)
    base = x * 2
    view = base[1:]
    view.mul_(5)
    assert base.tolist() == [2.0, 20.0, 30.0]
    assert base.grad_fn.name().endswith("CopySlices")
    assert grads(base.sum(), x) == [[2.0, 10.0, 10.0]]


def test_the_view_itself_has_the_gradient_of_its_part() -> None:
    x = leaf(1.0, 2.0, 3.0)
    base = x * 2
    view = base[1:]
    view.mul_(5)
    assert grads((view * view).sum(), x) == [[0.0, 400.0, 600.0]]


def test_a_sibling_sees_the_write() -> None:
    x = leaf(1.0, 2.0, 3.0)
    base = x * 2
    one, other = base[:2], base[1:]
    one.mul_(5)
    assert other.tolist() == [20.0, 6.0]
    assert grads((other * other).sum(), x) == [[0.0, 400.0, 24.0]]


def test_a_write_to_the_base_changes_its_views() -> None:
    x = leaf(1.0, 2.0)
    base = x * 2
    view = base.view(2, 1)
    base.mul_(x)
    assert view.tolist() == [[2.0], [8.0]]
    assert grads(view.sum(), x) == [[4.0, 8.0]]


def test_views_of_views() -> None:
    x = torch.arange(6.0, requires_grad=True)
    base = x.view(2, 3) * 1
    inner = base.t()[1:][0]
    inner.mul_(10)
    base[0].add_(1)
    assert base.tolist() == [[1.0, 11.0, 3.0], [3.0, 40.0, 5.0]]
    assert inner.tolist() == [11.0, 40.0]
    assert grads((base * base).sum(), x) == [[2.0, 220.0, 6.0, 6.0, 800.0, 10.0]]
    assert inner._base is base


def test_a_plain_base_gets_grad_through_a_view() -> None:
    x, base = leaf(4.0), torch.zeros(3)
    sibling, view = base[:2], base[1:2]
    view.copy_(x * 2)
    assert base.requires_grad and view.requires_grad and sibling.requires_grad
    assert not base.is_leaf and not sibling.is_leaf
    assert grads((sibling * 3).sum() + base.sum(), x) == [[8.0]]


def test_overwriting_stops_the_old_gradient() -> None:
    x, y = leaf(1.0, 2.0), leaf(5.0)
    base = x * 2
    base[0] = y[0] * 3
    assert base.tolist() == [15.0, 4.0]
    assert grads(base.sum(), x, y) == [[0.0, 2.0], [3.0]]
    base = x * 2
    base.zero_()
    assert grads(base.sum(), x) == [[0.0, 0.0]]


def test_several_writes_into_parts() -> None:
    x = leaf(1.0, 2.0, 3.0)
    out = torch.zeros(3)
    out[0] = x[0] * 2
    for i in (1, 2):
        out[i] = out[i - 1].clone() * x[i]
    assert out.tolist() == [2.0, 4.0, 12.0]
    assert grads(out.sum(), x) == [[18.0, 8.0, 4.0]]


def test_second_derivatives_through_writes() -> None:
    x = leaf(2.0, 3.0)
    base = x.clone()
    base[0].mul_(x[1])
    (first,) = torch.autograd.grad((base * base).sum(), x, create_graph=True)
    assert first.tolist() == [36.0, 30.0]
    assert grads(first.sum(), x) == [[42.0, 34.0]]


def test_retained_grad_is_that_of_the_last_value() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [6.0, 6.0]


def test_retained_grad_of_a_base_written_through_a_view() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y[:1].mul_(3)
    (y * torch.tensor([1.0, 4.0])).sum().backward()
    assert y.grad.tolist() == [1.0, 4.0]
    assert x.grad.tolist() == [6.0, 8.0]


@pytest.mark.parametrize("writes_base", [False, True])
def test_retained_grad_of_a_view_that_was_written(writes_base: bool) -> None:
    y = leaf(1.0, 2.0) * 2
    view = y[:1]
    view.retain_grad()
    before = view * 5
    (y if writes_base else view).mul_(3)
    (view * 7 + before).sum().backward()
    assert view.grad.tolist() == [7.0]


def test_retained_grad_is_there_though_a_later_node_fails() -> None:
    y = leaf(1.0, 2.0).relu()
    view = y[:1]
    view.retain_grad()
    view.mul_(3)
    with pytest.raises(RuntimeError, match="output 0 of Relu"):
        view.sum().backward()
    assert view.grad.tolist() == [1.0]


@pytest.mark.parametrize(("change", "expected"), [
    (lambda x: x.unsqueeze_(0), [[1.0, 1.0]]), (lambda x: x.t_(), [[1.0, 1.0]]),
    (lambda x: x.as_strided_((1,), (1,)), [[1.0, 0.0]]),
])
def test_retained_grad_stays_with_the_geometry_of_before(change: Any, expected: list) -> None:
    y = torch.ones(1, 2, requires_grad=True) * 2
    y.retain_grad()
    change(y)
    y.sum().backward()
    assert y.grad.tolist() == expected


def test_a_hook_from_before_the_write_sees_the_old_value() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    y.mul_(3)
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    y.sum().backward()
    assert seen == [[1.0, 1.0], [3.0, 3.0]]


# views ---------------------------------------------------------------------------------------------------------------


def test_views_share_memory_and_know_their_base() -> None:
    x = torch.arange(6.0)
    view = x.view(2, 3)
    part = view.t()[1]
    assert view._base is x and part._base is x and x._base is None
    assert part._is_view() and not x._is_view()
    part[0] = 10.0
    assert x.tolist() == [0.0, 10.0, 2.0, 3.0, 4.0, 5.0]
    assert part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert (part.storage_offset(), part.stride()) == (1, (3,))
    assert not x.detach()._is_view()


def test_detach_in_place_of_a_view_is_refused() -> None:
    view = leaf(1.0, 2.0).clone()[:1]
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        view.detach_()


def test_only_leaves_change_requires_grad() -> None:
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError, match="^only Tensors of floating point dtype can require gradients$"):
        torch.ones(1, dtype=torch.int64).requires_grad_()
    with pytest.raises(RuntimeError, match="^only Tensors of floating point and complex dtype can require gradients$"):
        torch.ones(1, dtype=torch.int64).requires_grad = True
    with pytest.raises(RuntimeError, match="^Only Tensors of floating point and complex dtype can require gradients$"):
        torch.ones(1, dtype=torch.int64, requires_grad=True)


def test_a_write_of_a_tensor_whose_view_was_saved() -> None:
    x = leaf(1.0, 2.0)
    base = x * 1
    product = base[:1] * base[1:]
    base.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_a_composite_written_in_place_keeps_what_its_formula_saved() -> None:
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    y = x * 1
    y.mvlgamma_(1)
    y.sum().backward()
    expected = torch.autograd.grad(torch.mvlgamma(x, 1).sum(), x)[0]
    assert torch.allclose(x.grad, expected)


# comparisons ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_", "less_", "not_equal_"])
def test_a_comparison_in_place_is_a_write_that_cuts_off(name: str) -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        getattr(x, name)(1.5)
    y = x * 1
    getattr(y, name)(1.5)
    assert y.requires_grad and grads(y.sum(), x) == [[0.0, 0.0]]


def test_a_view_that_can_no_longer_be_tracked_is_printed() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    with torch.no_grad():
        view = y[1:]
    y.add_(1)
    assert repr(view) == "tensor([3.], grad_fn=<Invalid>)"


# who counts writes ---------------------------------------------------------------------------------------------------


def test_resize_counts_where_it_changes_the_size() -> None:
    x = torch.ones(3)
    view = x[1:]
    versions = [x.resize_(size)._version for size in (5, 2, 2, 4)]
    assert versions == [1, 2, 2, 3] and view._version == 3


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_may_be_used_in_both_modes_before_backward(training: bool) -> None:
    layer = torch.nn.BatchNorm1d(2)
    x = torch.arange(6.0).view(3, 2).requires_grad_()
    made = layer.train(not training)(x).sum() + layer.train(training)(x).pow(2).sum()
    assert layer.running_mean._version == layer.running_var._version == 1  # since they were filled
    made.backward()
    assert x.grad is not None


@pytest.mark.parametrize(
    "normalised",
    [
        lambda x, w, b: torch.nn.functional.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: torch.nn.functional.group_norm(x, 1, w, b),
    ],
)
def test_a_bias_is_not_saved(normalised) -> None:
    x, w, b = torch.ones(3, 2, requires_grad=True), leaf(1.0, 1.0), leaf(0.0, 0.0)
    made = normalised(x, w, b)
    with torch.no_grad():
        b.add_(1)
    made.sum().backward()
    assert b.grad is not None and b.grad.tolist() == [3.0, 3.0]


# out= ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [
    lambda out: torch.linspace(0, 3, 4, out=out), lambda out: torch.arange(4, out=out),
    lambda out: torch.range(0, 3, out=out), lambda out: torch.logspace(0, 3, 4, 2.0, out=out).log2_(),
])
@pytest.mark.filterwarnings("ignore:torch.range")
def test_numbers_counted_into_a_view_stay_in_it(count) -> None:
    x = torch.full((2, 3), -1.0)
    part = x.narrow(1, 1, 2)
    count(part)
    assert part.shape == (2, 2) and x.tolist() == [[-1.0, 0.0, 1.0], [-1.0, 2.0, 3.0]]


def test_out_of_another_size_is_resized_and_counts_once() -> None:
    x = torch.ones(2, 3)
    with pytest.warns(UserWarning, match="The number of elements in the out tensor of shape"):
        torch.arange(4, out=x)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0] and x._version == 1
    expanded = torch.ones(1).expand(4)
    torch.zeros(2, out=expanded)
    assert expanded.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("make", [
    lambda out: torch.arange(6, out=out), lambda out: torch.zeros(2, out=out), lambda out: torch.eye(2, out=out)])
def test_a_view_that_a_factory_wrote_leads_nowhere(make: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    view = x.clone().view(-1)
    make(view)
    with pytest.raises(RuntimeError, match="derivative for aten::.* is not implemented"):
        view.sum().backward()
    assert x.grad is None


def test_out_that_needs_grad() -> None:
    x = leaf(1.0, 2.0)
    torch.eq(x, 1.0, out=(y := x * 1))
    assert y.tolist() == [1.0, 0.0]
    with pytest.raises(RuntimeError, match=r"^aten::zeros\(\): functions with out=... arguments don't"):
        torch.zeros(2, out=x)
    with pytest.raises(RuntimeError, match=r"^mul\(\): functions with out=... arguments don't support automatic"):
        torch.outer(x, x, out=torch.empty(2, 2))
    z = x * 1
    torch.eye(1, 2, out=z)
    with pytest.raises(RuntimeError, match="derivative for aten::eye is not implemented"):
        z.sum().backward()


def test_einsum_of_one_operand_is_a_view() -> None:
    x = torch.arange(6.0).view(2, 3)
    for equation in ("ij->ij", "ij->ji", "...->..."):
        made = torch.einsum(equation, x)
        assert made._is_view() and made.data_ptr() == x.data_ptr() and made is not x


def test_what_inference_mode_leaves_alone() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
        with torch.enable_grad():
            made = leaf(1.0) * 2
    assert not x[1:]._is_view() and not made.requires_grad


@pytest.mark.parametrize("show", (lambda t: t.expand(2, 2), lambda t: t.view(4), lambda t: t[0], lambda t: t.t(),
                                  lambda t: t.diagonal(), lambda t: t.unfold(0, 1, 1)))
def test_the_gradient_of_a_view_after_a_write_lies_in_memory_like_its_bases(show: Any) -> None:
    base = torch.ones(2, 2, dtype=torch.float64, requires_grad=True) * 2
    view = show(base)
    base.as_strided((2,), (1,)).mul_(2)
    assert view.grad_fn.name() == "AsStridedBackward0"
    grad, = torch.autograd.grad(view.sum(), base)
    assert (grad.stride(), grad._is_view(), grad.untyped_storage().nbytes(), grad._version) == ((2, 1), True, 32, 1)
    expected, = torch.autograd.grad(show(base).sum(), base)
    assert grad.equal(expected)


def test_the_gradient_of_a_view_that_shows_an_element_twice_sums_after_a_write() -> None:
    base = torch.ones(3, requires_grad=True) * 2
    view = base.unfold(0, 2, 1)
    base.mul_(3)
    grad, = torch.autograd.grad(view.sum(), base)
    assert grad.tolist() == [1, 2, 1]


@pytest.mark.parametrize("change", (lambda i: i.resize_(2, 3, 2), lambda i: i.t_(), lambda i: i.squeeze_(1),
                                    lambda i: i.set_()))
def test_indices_that_were_changed_are_named_by_their_shape_now(change: Any) -> None:
    values, indices = torch.ones(2, 3, requires_grad=True).max(-1, keepdim=True)
    change(indices).fill_(0)
    with pytest.raises(RuntimeError, match=rf"LongTensor {re.escape(str(list(indices.shape)))}\] is at version 2; "
                                           "expected version 0"):
        values.sum().backward()


def test_rms_norm_saves_nothing_that_only_its_weight_needs() -> None:
    x, weight = torch.ones(2, 3), leaf(1.0, 2.0, 3.0) * 1
    made = torch.nn.functional.rms_norm(x, (3,), weight)
    with torch.no_grad():
        weight.mul_(2)
        x.mul_(2)
    assert made.grad_fn.name() == "MulBackward0"
    grad, = torch.autograd.grad(made.sum(), weight)
    assert grad.tolist() == pytest.approx([2, 2, 2])


@pytest.mark.parametrize("shown", (lambda base: base[1:4], lambda base: base.detach()[1:4],
                                   lambda base: torch.empty(0).set_(base)[1:4]))
def test_an_item_is_not_written_from_memory_that_overlaps_it(shown: Any) -> None:
    base = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
        shown(base)[:] = base[:3]
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
        shown(base).view(1, 3)[::2] = base[2:5].detach()
    shown(base)[:1] = base[1]  # exactly the element that is written
    assert base.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_tensor_with_a_new_dimension_follows_its_storage_that_another_one_grows() -> None:
    base = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    base.unsqueeze_(0)
    torch.tensor([]).set_(base, 2, (2, 1, 3)).fill_(9)
    assert base.tolist() == [[[1, 2], [9, 9]]]


def test_a_gradient_made_in_inference_mode_is_accumulated() -> None:
    class Flat(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.view(-1)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad.view(())

    x = torch.tensor(1.5, requires_grad=True)
    made = Flat.apply(x)
    with torch.inference_mode():
        made.backward(torch.ones_like(made))
    assert x.grad.tolist() == 1


@pytest.mark.parametrize(("call", "kind", "out", "message"), (
    (torch.abs, torch.bool, torch.float64, "Found dtype Double but expected Bool"),
    (torch.ceil, torch.bool, torch.int64, "Found dtype Long but expected Bool"),
    (lambda x, out: torch.softmax(x, 0, out=out), torch.int64, torch.float32, "Expected out tensor to have dtype long "
                                                                              "int, but got float instead"),
    (lambda x, out: torch.mean(x, 0, out=out), torch.float64, torch.int64, "result type Float can't be cast to the "
                                                                           "desired output type Long"),
    (torch.abs, torch.complex64, torch.int64, "result type Float can't be cast to the desired output type Long"),
))
def test_the_type_of_out_is_compared_before_a_kernel_refuses(call: Any, kind: Any, out: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(torch.ones(2, dtype=kind), out=torch.empty(2, dtype=out))


def test_a_view_made_in_inference_mode_is_written_by_out_and_retains_no_gradient() -> None:
    x = leaf(1.0, 2.0)
    with torch.inference_mode():
        view = x[None]
        torch.arange(2, out=view)
        x.mul_(3)
        view.retain_grad()
    assert x.tolist() == [0, 3] and not view.retains_grad
    assert torch.abs(torch.tensor([3 + 4j]), out=torch.empty(1, dtype=torch.float64)).tolist() == [5]


@pytest.mark.parametrize("change", (lambda view: view.squeeze_(), lambda view: view.t_(), lambda view: view.add_(1)))
def test_a_view_changed_in_place_has_a_history_once_its_base_needs_grad(change: Any) -> None:
    x = torch.tensor([[1.5, 2.0]])
    view = x.view(1, 2)
    change(view)
    x.requires_grad = True
    assert view.requires_grad and view.grad_fn is not None
    untouched = torch.ones(2)
    view = untouched.view(1, 2)
    untouched.requires_grad = True
    assert view.requires_grad and view.grad_fn is None


def test_what_softmax_writes_by_out_leads_back_to_its_operand() -> None:
    x, out = leaf(1.0, 2.0), torch.zeros(2)
    y = x * 2
    torch.softmax(y, 0, out=out)
    with pytest.raises(RuntimeError, match="derivative for aten::softmax is not implemented"):
        torch.autograd.grad(out.sum(), y, allow_unused=True)


def test_an_inference_tensor_that_need_not_be_saved_is_refused_only_as_what_is_written() -> None:
    end = torch.tensor([2.0], requires_grad=True)
    with torch.inference_mode():
        x = torch.ones(1)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        x.lerp_(end, 0.5)  # a number as weight needs neither end
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * end


@pytest.mark.parametrize(("call", "message"), [
    (lambda ints, x: ints.mul_(x), "result type Float can't be cast to the desired output type Long"),
    (lambda ints, x: ints.add_(x), "result type Float can't be cast to the desired output type Long"),
    (lambda ints, x: ints.mul_(x.expand(2, 3)), "output with shape \\[3\\] doesn't match the broadcast shape"),
    (lambda ints, x: ints.index_add_(0, torch.arange(3), x), "must have the same scalar type"),
    (lambda ints, x: ints.__setitem__([1], ints), "some elements of the input tensor and the written-to tensor refer"),
    (lambda ints, x: ints.mul_(2), "Inplace update to inference tensor outside InferenceMode"),
])
def test_arguments_that_do_not_fit_are_refused_before_a_write_to_an_inference_tensor(call: Any, message: str) -> None:
    x = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        ints = torch.ones(3, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=message):
        call(ints, x)
    assert ints.tolist() == [1, 1, 1]


def test_what_is_written_of_an_inference_tensor_need_not_be_saved() -> None:
    x = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        y = torch.ones(3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        y.mul_(x)


def test_resizing_an_inference_tensor_to_its_own_size_is_no_write() -> None:
    with torch.inference_mode():
        x = torch.ones(2, 3)
    assert x.resize_(2, 3) is x
    for call in (lambda: x.resize_(3, 2), lambda: x.resize_as_(torch.ones(2, 3))):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            call()


@pytest.mark.parametrize("show", [lambda x: x[:], lambda x: x.split(1)[0]])
def test_new_data_does_not_make_a_leaf_of_a_view_without_history(show: Any) -> None:
    x = leaf(1.0, 2.0)
    with torch.no_grad():
        view = show(x)
    view.data = torch.ones(2)
    total = view.sum()
    assert total.grad_fn.next_functions == ((None, 0),)
    total.backward()
    assert view.grad is None and x.grad is None


def test_a_gradient_of_another_type_is_not_copied_with_its_tensor() -> None:
    x = leaf(1.0, 2.0)
    x.sum().backward()
    x.grad.data = torch.ones(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype 'double' to a tensor with"):
        copy.deepcopy(x)


@pytest.mark.parametrize("cut", [lambda c: c[:1], lambda c: c.view(2, 1)], ids=["part", "whole"])
def test_a_write_to_a_view_is_differentiated_twice(cut: Any) -> None:
    """What the writer saved is its output, whose history is that of the base."""
    x = leaf(0.0, 3.0)
    base = x.clone()
    cut(base).exp_()
    (first,) = torch.autograd.grad((base * base).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    whole = cut(torch.ones(2)).numel() == 2
    expected = torch.tensor([4.0, 4 * torch.tensor(6.0).exp().item() if whole else 2.0])
    torch.testing.assert_close(second, expected)
