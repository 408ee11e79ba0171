"""Layouts, empty inputs and gradients of operators that random configurations found to differ from PyTorch."""

import math
import warnings

import pytest

import mindtorch_v2 as torch


def turned() -> torch.Tensor:
    """A matrix whose columns are contiguous."""
    return torch.arange(6.0).reshape(3, 2).t()


@pytest.mark.parametrize("call, strides", [
    (lambda x: torch.addr(x, torch.ones(2), torch.ones(3)), (1, 2)),
    (lambda x: torch.addr(x, torch.ones(2), torch.ones(3), beta=0), (1, 2)),
    (lambda x: torch.index_add(x, 0, torch.tensor([0]), torch.ones(1, 3)), (3, 1)),
    (lambda x: torch.index_copy(x, 0, torch.tensor([0]), torch.ones(1, 3)), (3, 1)),
    (lambda x: torch.narrow_copy(x, 0, 0, 2), (3, 1)),
    (lambda x: torch.renorm(x, 2, 0, 1), (3, 1)),
    (lambda x: torch.rot90(x, 4), (3, 1)),
    (lambda x: torch.nn.functional.rrelu(x), (3, 1)),
    (lambda x: torch.nn.functional.one_hot(x.long()), (18, 6, 1)),
])
def test_layout_of_results_of_a_turned_matrix(call, strides):
    assert call(turned()).stride() == strides


def laid(shape, strides):
    """Ones that lie so."""
    return torch.empty_strided(shape, strides).fill_(1.0)


@pytest.mark.parametrize("call, strides", [
    (lambda: torch.ones(()).expand(1, 3) * torch.ones(3, 1).t(), (1, 1)),
    (lambda: torch.ones(1, 3, 2, 1) * laid((1, 1, 2, 1), (1, 2, 1, 2)), (6, 2, 1, 2)),
    (lambda: torch.atan2(torch.ones(3, 2, 1), laid((1, 2, 1), (1, 1, 6))), (2, 1, 2)),
    (lambda: laid((1, 3, 3), (3, 3, 1)) * torch.ones(()), (3, 3, 1)),
    (lambda: laid((1, 3), (1, 1)) + 1, (1, 1)),
    (lambda: laid((1, 3), (1, 1)) + laid((1, 3), (1, 1)), (3, 1)),
    (lambda: torch.where(laid((1, 3), (1, 1)) > 0, torch.ones(1, 1), torch.ones(1, 1)), (1, 1)),
    (lambda: torch.nn.functional.leaky_relu(laid((1, 3, 2, 1), (6, 1, 3, 6))), (6, 1, 3, 3)),
    (lambda: laid((1, 3, 2, 1), (6, 1, 3, 6)) * laid((1, 3, 2, 1), (6, 1, 3, 6)), (6, 1, 3, 3)),
    (lambda: laid((2, 1, 2, 2), (4, 4, 2, 1)) * laid((2, 1, 2, 1), (1, 2, 2, 1)), (4, 8, 2, 1)),
    (lambda: torch.ones(2, 1, 3).expand(2, 2, 3) * torch.ones(3, 2).double().t(), (6, 3, 1)),
    (lambda: torch.ones(2, 1, 3).expand(2, 2, 3) * torch.ones(3, 2).t(), (6, 1, 2)),
    (lambda: laid((2, 1, 1, 1), (1, 2, 1, 6)).flip(0), (1, 2, 1, 6)),
    (lambda: torch.lerp(torch.ones(2, 1), torch.ones(1, 2).t(), 0.3), (1, 1)),
    (lambda: torch.lerp(torch.ones(2, 1), torch.ones(1, 2).t(), torch.tensor(0.3)), (1, 2)),
    (lambda: laid((2, 1, 3, 1), (3, 1, 1, 3)) ** 2, (3, 3, 1, 1)),
    (lambda: laid((2, 1, 3, 1), (3, 1, 1, 3)).clamp(0, 1), (3, 3, 1, 1)),
    (lambda: laid((2, 1, 3, 1), (3, 1, 1, 3)) + 2, (3, 1, 1, 3)),
    (lambda: torch.ones(1, 2, device="meta").t().clamp_min(0), (1, 1)),
])
def test_strides_of_results_where_dimensions_of_size_1_lie_anyhow(call, strides):
    assert {call().stride() for _ in range(120)} == {strides}  # by NumPy, then by compiled code


def test_geometries_are_remembered_for_the_place_in_the_storage():
    base = torch.arange(10.0)
    for begin in (0, 3, 5, 0, 3, 5):
        part = base[begin : begin + 4]
        assert part.as_strided((2,), (2,)).tolist() == [begin, begin + 2.0]
        assert part.as_strided((2,), (2,), 1).tolist() == [1.0, 3.0]
    torch.ones(10).as_strided((2, 2), (4, 1), 4)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 28"):
        torch.ones(7).as_strided((2, 2), (4, 1), 4)
    numbers = torch.arange(10.0)
    for begin in (0, 2, 4, 0, 2):
        assert torch.view_as_complex(numbers[begin : begin + 4].view(2, 2)).tolist() == [
            complex(begin, begin + 1), complex(begin + 2, begin + 3)]
    with pytest.raises(RuntimeError, match="storage_offset divisible by 2"):
        torch.view_as_complex(numbers[1:5].view(2, 2))


def test_gradients_of_zeros_where_nothing_depends():
    x, a, b = turned().requires_grad_(), torch.ones(2), torch.ones(3)
    torch.addr(x, a, b, beta=0).sum().backward()
    assert not x.grad.any()
    x.grad = None
    torch.cdist(x, torch.ones(1, 3), p=0).sum().backward()
    assert not x.grad.any()


@pytest.mark.parametrize(("p", "rows"), [(1.0, 4), (2.0, 4), (3.0, 4), (1.0, 30), (3.0, 30), (2.0, 30)])
def test_distances_and_their_gradients_lie_alike_at_every_call(p, rows):
    multiplied = p == 2 and rows > 25  # then gradients are products with the operands, and lie as those
    for _ in range(12):
        x, y = ((torch.arange(3.0 * rows) ** power).view(3, rows).t().requires_grad_() for power in (1, 2))
        made = torch.cdist(x, y, p)
        gradients = torch.autograd.grad(made, (x, y), torch.ones(rows, rows).t())
        assert made.stride() == (rows, 1)
        assert [g.stride() for g in gradients] == [(1, rows) if multiplied else (3, 1)] * 2


def test_addr_without_its_matrix_does_not_read_it():
    assert torch.addr(torch.full((2, 3), math.nan), torch.ones(2), torch.ones(3), beta=0).tolist() == [[1.0] * 3] * 2


def test_gradient_of_a_variance_without_a_degree_of_freedom():
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.var(x, 1, correction=2).sum().backward()
    assert x.grad.tolist() == [[0.0], [0.0]]


def test_gradient_of_a_leaf_with_gaps_is_contiguous():
    x = torch.arange(12.0).reshape(2, 6)[:, ::2].requires_grad_()
    x.backward(torch.ones(3, 2).t())
    assert x.grad.stride() == (3, 1)


@pytest.mark.parametrize("call", [
    lambda: torch.roll(torch.tensor(1.0), 1, 0),
    lambda: torch.unique(torch.tensor(1.0), dim=0),
    lambda: torch.unique_consecutive(torch.tensor(1.0), dim=0),
])
def test_a_number_has_no_dimension_to_name(call):
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        call()


def test_selecting_from_nothing():
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        torch.index_select(torch.zeros(0, 3), 0, torch.tensor([0]))
    with pytest.raises(IndexError, match="index out of range in self"):
        torch.index_select(torch.zeros(0), 0, torch.tensor([0]))


def test_running_integral_of_nothing():
    assert torch.cumulative_trapezoid(torch.zeros(0)).shape == (0,)


def test_unique_elements_have_no_derivative():
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="the derivative for '_unique2' is not implemented"):
        torch.unique(x).sum().backward()


def test_complex_sums_in_real_types_do_not_show_numpys_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.sum(torch.tensor([1 + 2j, 3]), dtype=torch.float32).item() == 4
    assert not [w for w in caught if "ComplexWarning" in w.category.__name__]


def test_probabilities_of_a_continuous_bernoulli_are_clamped():
    dist = torch.distributions.ContinuousBernoulli(logits=torch.tensor([50.0]))
    assert dist.probs.item() < 1


def test_one_step_of_logspace_is_a_power_of_the_unrounded_start() -> None:
    assert torch.logspace(2.5, 1, 1, 3, dtype=torch.int32).tolist() == [15]
    assert torch.logspace(0.3, 1, 1, dtype=torch.bfloat16).tolist() == [1.9921875]
    assert torch.logspace(99, 1, 1, 3, dtype=torch.float16).tolist() == [float("inf")]
    assert torch.logspace(4000, 1, 1).tolist() == [float("inf")]


def test_diff_of_nothing_is_its_input() -> None:
    x = torch.randn(0, 3, requires_grad=True)
    assert torch.diff(x, dim=0) is x
    assert not torch.diff(x, dim=1).is_leaf


def test_counts_along_dimensions_are_contiguous() -> None:
    image = torch.ones(2, 3, 2, 2).to(memory_format=torch.channels_last)
    assert torch.count_nonzero(image, -1).stride() == (6, 2, 1)
    assert torch.count_nonzero(image, (0, -1)).stride() == (2, 1)


def test_normal_is_drawn_in_the_common_shape_of_mean_and_out() -> None:
    torch.manual_seed(0)
    drawn = torch.normal(torch.ones(3), 1.0, out=torch.empty(2, 3))
    torch.manual_seed(0)
    torch.testing.assert_close(drawn, torch.empty(2, 3).normal_() + 1)


def test_rows_of_one_channel_may_lie_as_channels_last() -> None:
    x = torch.randn(2, 5, 1).transpose(-1, -2).requires_grad_()
    out = torch.nn.functional.conv1d(x, torch.ones(3, 1, 1))
    assert out.stride() == (15, 1, 3)
    torch.testing.assert_close(out, x.expand(2, 3, 5))
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((2, 1, 5), 3.0))
    assert torch.nn.functional.conv_transpose1d(x, torch.ones(1, 3, 1)).stride() == (15, 1, 3)
    several = torch.randn(1, 7, 3).transpose(-1, -2)
    assert torch.nn.functional.conv1d(several, torch.ones(2, 3, 3)).stride() == (10, 5, 1)


def test_variance_of_nothing_warns_whatever_the_correction() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert torch.var(torch.randn(0, 3), 1, correction=2).shape == (0,)


@pytest.mark.parametrize("function", [torch.sum, torch.mean, torch.prod,
                                      lambda x, dtype: torch.cumsum(x, 0, dtype=dtype)])
def test_complex_numbers_added_as_real_ones_are_warned_of(function) -> None:
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="Casting complex values to real discards the imaginary part"):
            function(torch.tensor([1 + 2j, 3 - 1j]), dtype=torch.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            torch.sum(torch.tensor([1 + 2j]), dtype=torch.complex128)
    finally:
        torch.set_warn_always(always)


def test_cosine_similarity_takes_each_length_in_the_type_of_its_vectors() -> None:
    torch.manual_seed(324)
    x, y = torch.randn(3, dtype=torch.bfloat16), torch.randn(6)[::2]
    similarity = torch.nn.functional.cosine_similarity
    assert similarity(x, y, -1).item() == pytest.approx(-0.7794835567474365, abs=2e-7)
    assert similarity(x.float(), y, -1).item() == pytest.approx(-0.7794957160949707, abs=2e-7)
