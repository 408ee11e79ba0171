"""What stands between the brackets of `tensor[...]`: kinds of indices, and what a write takes."""

import math
import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._ops._declare.updates import combine_at

NUMBERS = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ((..., np.array([0, 1])), [[0.0, 1.0], [3.0, 4.0]]),
        (np.array([0.0, 1.0]), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        (np.array([[0, 1], [1, 0]]), [[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]]),
        (np.array([], dtype=np.float64), []),
        ((np.array([0, 1], dtype=np.int8), -1), [2.0, 5.0]),
        (range(1), [[0.0, 1.0, 2.0]]),
        ((range(2), range(2)), [0.0, 4.0]),
        (np.int32(1), [3.0, 4.0, 5.0]),
        ((1, ..., np.array([2, 0])), [5.0, 3.0]),
        ((None, np.array([1])), [[[3.0, 4.0, 5.0]]]),
    ],
    ids=str,
)
def test_numpy_arrays_numbers_and_ranges_are_indices(index, expected):
    assert NUMBERS[index].tolist() == expected


def test_a_list_that_holds_sequences_stands_for_a_tuple_with_a_warning():
    for index in ([[0, 1], [1, 0]], [np.array([0, 1]), np.array([1, 0])], [torch.tensor([0, 1]), torch.tensor([1, 0])]):
        with pytest.warns(UserWarning, match="Using a non-tuple sequence for multidimensional indexing is deprecated"):
            assert NUMBERS[index].tolist() == [1.0, 3.0]


def test_every_byte_mask_warns():
    mask = torch.tensor([1, 0], dtype=torch.uint8)
    for _ in range(2):
        with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated") as caught:
            assert NUMBERS[mask].tolist() == [[0.0, 1.0, 2.0]]
        assert len(caught) == 1
    with pytest.raises(RuntimeError, match="masked_fill_ only supports boolean masks, but got mask with dtype"):
        NUMBERS.clone()[mask] = 1.0


def test_limits_of_slices_beyond_64_bits_are_cut_with_a_warning():
    with pytest.warns(UserWarning, match="Truncating the start/stop/step of slice"):
        assert torch.equal(NUMBERS[-(2**70) : 2**70], NUMBERS)
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        NUMBERS[2**70]


@pytest.mark.parametrize(
    ("shape", "index", "kind", "message"),
    [
        ((), np.int64(1), IndexError, "index 1 is out of bounds for dimension 0 with size 0"),
        ((), np.array(True), IndexError, "too many indices for tensor of dimension 0"),
        ((), "a", IndexError, "too many indices for tensor of dimension 0"),
        ((2,), "a", TypeError, r"new\(\): invalid data type 'str'"),
        ((2,), b"ab", TypeError, r"new\(\): invalid data type 'bytes'"),
        ((2, 3), (..., ..., 0), IndexError, "index 0 is out of bounds for dimension 2 with size 0"),
        ((2,), (slice(0, 1), ..., 0), IndexError, "too many indices for tensor of dimension 1"),
        ((2,), [np.float32(0)], TypeError, "'numpy.float32' object cannot be interpreted as an integer"),
        ((2, 3), (0, slice(None, None, -1)), ValueError, "step must be greater than zero"),
    ],
    ids=str,
)
def test_refused_indices(shape, index, kind, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(kind, match=message):
            torch.zeros(shape)[index]
        with pytest.raises(kind, match=message):
            torch.zeros(shape)[index] = 1


@pytest.mark.parametrize("places", [(), (slice(None),), (...,)], ids=str)
def test_one_element_written_by_a_mask_is_cast(places):
    mask = torch.tensor([True, False, True]) if places else torch.tensor([[True, False, True], [False, False, True]])
    for value, expected in ((torch.tensor([7]), 7.0), (torch.tensor([[2.5]], dtype=torch.float64), 2.5)):
        target = NUMBERS.clone()
        target[(*places, mask)] = value
        assert torch.equal(target, torch.where(mask, expected, NUMBERS))
        assert target._version == 1
    whole = NUMBERS.long()
    whole[(*places, mask)] = torch.tensor([2.7])
    assert torch.equal(whole, torch.where(mask, 2, NUMBERS.long()))
    assert torch.equal(NUMBERS.index_put((NUMBERS > 2,), torch.tensor([9])), torch.where(NUMBERS > 2, 9.0, NUMBERS))
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        NUMBERS.clone()[(*places, mask)] = torch.tensor([1j])
    with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match"):
        NUMBERS.index_put((NUMBERS > 2,), torch.tensor([9]), accumulate=True)
    with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match"):
        NUMBERS.clone()[torch.tensor([0])] = torch.tensor([9])


def test_the_gradient_of_one_element_written_by_a_mask():
    value = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    target = NUMBERS.clone()
    target[NUMBERS > 2] = value
    (target * target).sum().backward()
    assert value.grad.tolist() == [12.0] and value.grad.dtype is torch.float64


def test_numbers_that_the_type_cannot_hold():
    for index in (0, slice(None), NUMBERS > 2, torch.tensor([0])):
        for value in (1e300, 2**70, 1j):
            target = NUMBERS.clone()
            with pytest.raises((RuntimeError, ValueError), match="without overflow|Overflow when unpacking long long"):
                target[index] = value
            assert torch.equal(target, NUMBERS) and target._version == 0
    wide = torch.zeros(2, dtype=torch.bfloat16)
    wide[0], wide[1:] = 1e300, -1e300
    assert wide.tolist() == [math.inf, -math.inf]
    with pytest.raises(TypeError, match="can't assign a list to a torch.FloatTensor"):
        NUMBERS.clone()[False] = [1]


def test_roll_without_dimensions():
    assert torch.roll(NUMBERS, 1, None).tolist() == [[5.0, 0.0, 1.0], [2.0, 3.0, 4.0]]
    assert torch.equal(NUMBERS.roll(shifts=1, dims=None), torch.roll(NUMBERS, 1))


def test_places_in_tensors_without_elements():
    rows, nothing = torch.tensor([0]), torch.zeros(0, 3)
    assert nothing.index_add_(0, rows, torch.ones(1, 3)).shape == (0, 3)  # no place is looked at
    assert nothing.scatter_(0, torch.zeros(0, 3, dtype=torch.int64), nothing.clone()).shape == (0, 3)
    with pytest.raises(IndexError, match="index out of range in self"):
        torch.zeros(0).index_add_(0, rows, torch.ones(1))
    with pytest.raises(RuntimeError, match=r"index_select\(\): self indexing axis dim should be positive"):
        nothing.index_select(0, rows)
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        torch.tensor(1.0).index_add_(0, rows[:0], torch.tensor(1.0))
    assert torch.ones(3).index_add_(0, rows[:0], torch.ones(0)).tolist() == [1.0, 1.0, 1.0]


def test_scatter_between_numbers_and_vectors():
    number, vector, place = torch.tensor(1.0), torch.tensor([5.0, 6.0]), torch.tensor(0)
    assert number.scatter(0, place, vector).item() == 5
    assert torch.zeros(2).scatter_add(0, place, vector).tolist() == [5.0, 0.0]
    assert number.scatter(0, torch.tensor([0]), torch.tensor(7.0)).item() == 7
    with pytest.raises(RuntimeError, match=r"Expected index \[2\] to be no larger than self \[\]"):
        number.scatter(0, torch.tensor([0, 0]), torch.tensor(7.0))


def test_index_reduce_checks_its_dimension_first():
    target, places = torch.ones(2, 3), torch.tensor([0])
    with pytest.raises(IndexError, match="Dimension out of range"):
        target.index_reduce(2, places, torch.ones(1, 3), "amax")
    with pytest.raises(RuntimeError, match="Indexing dim 1 is out of bounds of the source tensor with dim 1"):
        target.index_reduce(1, places, torch.ones(1), "amax")
    with pytest.raises(RuntimeError, match="source tensor shape must match self tensor shape"):
        torch.tensor(1.0).index_reduce(0, places, torch.ones(1), "amax")


def test_index_reduce_is_an_operator_of_its_own():
    target = torch.arange(6.0).reshape(2, 3).requires_grad_()
    source = torch.tensor([[2.0, 3.0], [4.0, 5.0]], requires_grad=True)
    places = torch.tensor([2, 0])
    for _ in range(20):  # compiled kernels take over
        made = target.index_reduce(1, places, source, "prod")
    assert made.tolist() == [[0.0, 1.0, 4.0], [15.0, 4.0, 20.0]] and made.grad_fn.name() == "IndexReduceBackward0"
    assert [g.tolist() for g in torch.autograd.grad(made.sum(), (target, source))] == [
        [[3.0, 1.0, 2.0], [5.0, 1.0, 4.0]], [[2.0, 0.0], [5.0, 3.0]]]  # fmt: skip
    alone = target.detach().index_reduce(1, torch.tensor([2, 2]), source.detach(), "mean", include_self=False)
    assert alone.tolist() == [[0.0, 1.0, 2.5], [3.0, 4.0, 4.5]]
    with pytest.raises(IndexError, match="index out of range in self"):
        target.index_reduce(1, torch.tensor([3, 0]), source, "prod")


def test_distinct_slices_with_nan_stay_apart():
    nan = math.nan
    made, inverse, counts = torch.unique(torch.tensor([nan, 0, 0, nan, nan, 1]), dim=0, return_inverse=True,
                                         return_counts=True)  # fmt: skip
    assert str(made.tolist()) == "[nan, 0.0, nan, nan, 1.0]"
    assert inverse.tolist() == [0, 1, 1, 2, 3, 4] and counts.tolist() == [1, 2, 1, 1, 1]
    rows = torch.tensor([[1.0, nan], [1.0, nan], [0.0, 1.0], [0.0, 1.0]])
    assert len(torch.unique(rows, dim=0)) == 3 and len(torch.unique(rows.repeat(9, 1), dim=0)) == 19
    for name in ("unique", "unique_consecutive"):
        with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
            getattr(torch, name)(torch.tensor(1.0), dim=0)


def test_an_index_of_nothing_is_refused():
    for indices in ([], [None]):
        with pytest.raises(IndexError, match="at least one index must be provided"):
            torch.ops.aten.index.Tensor(NUMBERS, indices)
    with pytest.raises(RuntimeError, match="cannot be broadcast to indexing result of shape"):
        torch.tensor(1.0).index_put([], torch.tensor([1.0]), True)
    with pytest.raises(RuntimeError, match="nonzero does not support the out kwarg when as_tuple is True"):
        torch.nonzero(NUMBERS, as_tuple=True, out=torch.empty(0, dtype=torch.int64))
    for shape in (torch.tensor([1, 2]), 1.5):
        with pytest.raises(TypeError, match="expected 'shape' to be int or sequence of ints"):
            torch.unravel_index(torch.tensor([1]), shape)


def test_triangles_and_rotations_at_their_limits():
    for far in (2**63 - 1, -(2**63)):
        whole = NUMBERS if far < 0 else torch.zeros(2, 3)
        assert torch.equal(NUMBERS.triu(far), whole) and torch.equal(NUMBERS.tril(far), NUMBERS - whole)
    with pytest.raises(IndexError, match="Dimension out of range"):
        NUMBERS.rot90(1, [0, 2])
    with pytest.raises(RuntimeError, match="expected rotation dims to be different, but got dim0 = 0 and dim1 = -2"):
        NUMBERS.rot90(1, [0, -2])
    with pytest.raises(ValueError, match="must specify the equation string and at least one operand"):
        torch.einsum("", [])


def test_joined_views_of_channels_last_tensors_are_channels_last():
    images = torch.arange(24.0).reshape(2, 2, 3, 2).to(memory_format=torch.channels_last)
    made = torch.cat((images[:, :, :2], images[:, :, 1:]), -1)
    assert made.stride() == (16, 1, 8, 2)
    assert torch.equal(made, torch.cat((images[:, :, :2].contiguous(), images[:, :, 1:].contiguous()), -1))


@pytest.mark.parametrize(("shape", "dim"), (((0, 1), 1), ((1, 0), 0)))
def test_index_copy_into_no_element_asks_no_index(shape: tuple[int, ...], dim: int) -> None:
    x = torch.zeros(shape)
    assert x.index_copy_(dim, torch.tensor([5]), torch.zeros(shape)) is x and x._version == 1
    assert x.index_copy(dim, torch.tensor([-1]), torch.zeros(shape)).shape == shape


def test_numbers_are_written_into_complex32() -> None:
    numbers = torch.zeros(3, dtype=torch.complex32)
    numbers[numbers == 0] = 1 + 2j
    numbers[0] = 3.0
    numbers[torch.tensor([2])] = 4j
    assert numbers.tolist() == [3 + 0j, 1 + 2j, 4j]
    numbers.fill_(numbers[1])
    assert numbers.tolist() == [1 + 2j] * 3


def test_reducing_by_scatter_is_said_to_be_deprecated() -> None:
    index, ones = torch.tensor([[0, 0]]), torch.ones(1, 2)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="The reduce argument of torch.scatter with Tensor src is deprecated"):
            made = torch.zeros(1, 2).scatter(1, index, ones, reduce="add")
    finally:
        torch.set_warn_always(False)
    assert made.tolist() == [[2.0, 0.0]]


@pytest.mark.parametrize("needs_grad", [False, True])
def test_a_number_written_by_a_mask_into_an_expanded_tensor_warns_of_both_writes(needs_grad):
    shown = (torch.ones(1, 3, requires_grad=needs_grad) * 1).expand(2, 3)
    with pytest.warns(UserWarning) as told:
        shown[shown > 0] = 2.0
    assert [str(one.message).split()[2] for one in told] == ["index_put_", "masked_fill_"]
    assert shown.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_truth_values_are_combined_as_ufuncs_do(name, share):
    draw, ufunc = np.random.default_rng(0), getattr(np, name)
    target, source, where = draw.random(7) < share, draw.random(30) < share, draw.integers(-7, 7, 30)
    for given in (source, np.asarray(True), np.asarray(False)):
        expected = target.copy()
        ufunc.at(expected, where, given)
        combine_at(np, name, target, where, given)
        assert target.tolist() == expected.tolist()


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: torch.ones(3, 0).index_select(0, torch.tensor([3])), RuntimeError, "id=3 axis_dim=3"),
    (lambda: torch.ones(2, 0, 3).index_select(2, torch.tensor([-1])), RuntimeError, "id=-1 axis_dim=3"),
    (lambda: torch.ones(0).index_select(0, torch.tensor([0])), IndexError, "index out of range in self"),
    (lambda: torch.ones(0, 3).index_select(0, torch.tensor([0])), RuntimeError, "axis dim should be positive"),
    (lambda: torch.nn.functional.embedding(torch.tensor([0]), torch.ones(0, 3)), RuntimeError,
     "axis dim should be positive"),
    (lambda: torch.ones(0).index_copy(0, torch.tensor([0]), torch.ones(1)), IndexError, "out of bounds"),
])  # fmt: skip
def test_there_is_no_place_in_what_is_empty(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
