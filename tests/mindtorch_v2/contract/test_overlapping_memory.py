"""Writes into memory that several elements share, or that an operand shows: refused, and nothing changes."""

from collections.abc import Callable

import pytest

import mindtorch_v2 as torch

SHARED = "more than one element of the written-to tensor refers to a single memory location"
OVER = "some elements of the input tensor and the written-to tensor refer to a single memory location"
places = torch.tensor([0, 1])


def refused(call: Callable, text: str, *written: torch.Tensor, error: type = RuntimeError) -> None:
    """Asserts that a call raises and leaves tensors and their versions as they were."""
    before = [(tensor.tolist(), tensor._version, tensor.shape) for tensor in written]
    with pytest.raises(error) as raised:
        call()
    assert text in str(raised.value)
    assert [(tensor.tolist(), tensor._version, tensor.shape) for tensor in written] == before


IN_PLACE = {
    "addr_": lambda x: x.addr_(torch.ones(2), torch.ones(2)),
    "addmm_": lambda x: x.addmm_(torch.ones(2, 2), torch.ones(2, 2)),
    "addbmm_": lambda x: x.addbmm_(torch.ones(1, 2, 2), torch.ones(1, 2, 2)),
    "cumsum_": lambda x: x.cumsum_(0),
    "scatter_": lambda x: x.scatter_(0, torch.zeros(1, 1, dtype=torch.int64), 1.0),
    "index_add_": lambda x: x.index_add_(0, places, torch.ones(2, 2)),
    "index_copy_": lambda x: x.index_copy_(0, places, torch.ones(2, 2)),
    "index_reduce_": lambda x: x.index_reduce_(0, places, torch.ones(2, 2), "mean"),
    "masked_scatter_": lambda x: x.masked_scatter_(x > 0, torch.ones(4)),
    "put_": lambda x: x.put_(places, torch.ones(2)),
    "lerp_": lambda x: x.lerp_(torch.ones(2, 2), 0.5),
    "renorm_": lambda x: x.renorm_(2, 0, 1.0),
    "normal_": lambda x: x.normal_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_expanded_memory_is_not_written_in_place(name: str) -> None:
    x = torch.ones(1).expand(2, 2)
    refused(lambda: IN_PLACE[name](x), SHARED, x)


def test_arguments_are_looked_at_before_the_memory() -> None:
    x = torch.ones(1).expand(3)
    refused(lambda: x.scatter_(3, torch.tensor([0]), torch.ones(1)), "Dimension out of range", x, error=IndexError)
    refused(lambda: x.index_add_(0, torch.tensor([0]), torch.ones(2)), "Number of indices (1) should be equal", x)
    refused(lambda: x.put_(torch.tensor([0]), torch.ones(2)), "the same number of elements", x, error=IndexError)
    refused(lambda: x.expand(2, 3).addmm_(torch.ones(2), torch.ones(2, 3)), "mat1 must be a matrix, got 1-D tensor", x)
    refused(lambda: x.expand(3, 3).renorm_(2, 7, 1.0), "Dimension out of range", x, error=IndexError)
    refused(lambda: x.normal_(0, -1), "normal expects std >= 0.0", x)
    refused(lambda: x.lerp_(torch.ones(3, dtype=torch.float64), 1), "expected dtype float for `end`", x)


def test_what_is_found_among_the_data_comes_after_the_memory() -> None:
    x, far = torch.ones(1).expand(3), torch.tensor([7])
    refused(lambda: x.index_add_(0, far, torch.ones(1)), SHARED, x)
    refused(lambda: x.index_reduce_(0, far, torch.ones(1), "mean"), SHARED, x)
    refused(lambda: x.put_(far, torch.ones(1)), SHARED, x)
    whole = torch.ones(1, dtype=torch.int64).expand(3)
    refused(lambda: whole.lerp_(whole, 2), SHARED, whole)  # not that there is no kernel for integers


def test_operands_lie_apart_from_what_is_written() -> None:
    memory = torch.arange(12.0)
    matrix, row, rows = memory[:9].view(3, 3), memory[2:5], memory[3:].view(3, 3)
    refused(lambda: matrix.addr_(row, torch.ones(3)), OVER, memory)
    refused(lambda: matrix.index_add_(0, torch.arange(3), rows), OVER, memory)
    refused(lambda: matrix.index_add_(0, torch.arange(3), matrix), OVER, memory)
    refused(lambda: torch.outer(row, torch.ones(3), out=matrix), OVER, memory)
    refused(lambda: torch.linalg.cross(matrix, torch.ones(3, 3), out=matrix), OVER, memory)
    refused(lambda: torch.max(matrix, 0, out=(row, torch.empty(3, dtype=torch.int64))), OVER, memory)
    refused(lambda: torch.hstack((row, row), out=memory[:6]), OVER, memory)
    refused(lambda: torch.masked_select(matrix, matrix > 3, out=memory[:5]), OVER, memory)
    refused(lambda: torch.take(matrix, torch.tensor([0, 1, 2]), out=row), OVER, memory)
    refused(lambda: torch.index_add(matrix, 0, torch.arange(3), rows, out=rows), OVER, memory)
    refused(lambda: torch.kron(row, torch.ones(3), out=memory[:9]), OVER, memory)
    refused(lambda: torch.split_copy(matrix, 1, out=[memory[1:4].view(1, 3), *torch.ones(2, 1, 3)]), OVER, memory)
    index = torch.zeros(4, dtype=torch.int64)
    refused(lambda: index.view(torch.float32)[:4].index_reduce_(0, index, torch.ones(4), "mean"), OVER, index)


def test_operands_may_lie_element_on_element_where_each_is_read_once() -> None:
    memory = torch.arange(8.0)
    x, shifted, across = memory[:4].view(2, 2), memory[1:5].view(2, 2), memory[:4].view(2, 2).t()
    for call in (
        lambda source: torch.cumsum(source, 0, out=x),
        lambda source: torch.cumprod(source, 0, out=x),
        lambda source: torch.logcumsumexp(source, 0, out=x),
        lambda source: torch.sort(source, out=(x, torch.empty(2, 2, dtype=torch.int64))),
        lambda source: torch.nan_to_num(source, out=x),
        lambda source: torch.max(source, torch.ones(2, 2), out=x),
        lambda source: torch.addmm(source, torch.ones(2, 2), torch.ones(2, 2), out=x),
        lambda source: torch.renorm(source, 2, 0, 1.0, out=x),
        lambda source: torch.where(torch.ones(2, 2) > 0, source, torch.ones(2, 2), out=x),
    ):
        refused(lambda: call(shifted), OVER, memory)  # noqa: B023
        refused(lambda: call(across), OVER, memory)  # noqa: B023
        call(x)
    refused(lambda: torch.where(memory[:1].view(torch.bool), memory[4:], torch.ones(4), out=memory[:4]), OVER, memory)


def test_masked_scatter_reads_what_it_has_written() -> None:
    x = torch.tensor([1.0, 2, 3, 4])
    x.masked_scatter_(torch.tensor([False, True, True, True]), x)
    assert x.tolist() == [1, 1, 1, 1]


def test_some_operators_refuse_expanded_memory_that_others_would_resize() -> None:
    wide = torch.ones(1).expand(2, 3)
    refused(lambda: torch.where(torch.ones(3) > 0, torch.ones(3), torch.ones(3), out=wide), SHARED, wide)
    refused(lambda: torch.index_select(torch.ones(3), 0, places, out=wide), SHARED, wide)
    refused(lambda: torch.scatter(torch.ones(3), 0, places, 1.0, out=wide), SHARED, wide)
    refused(lambda: torch.outer(torch.ones(3), torch.ones(2), out=wide), SHARED, wide)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.cumsum(torch.ones(3), 0, out=wide)
    assert wide.tolist() == [1, 2, 3]


def test_types_of_out_are_compared_before_the_data_are_looked_at() -> None:
    wide, empty, far = torch.zeros(3, dtype=torch.float64), torch.zeros(0, 3), torch.tensor([9])
    refused(lambda: torch.amax(empty, 0, out=wide), "Expected the dtype for input and out to match", wide)
    refused(lambda: torch.amax(empty, 5, out=wide), "Expected the dtype for input and out to match", wide)
    refused(lambda: torch.all(torch.ones(3), 4, out=wide), "all only supports bool tensor for result", wide)
    refused(lambda: torch.mode(empty, 0, out=(wide, far)), "expected scalar type 'Float' but got 'Double'", wide)
    refused(lambda: torch.where(torch.ones(3), torch.ones(3), torch.ones(3), out=wide), "Expected out type to be", wide)
    refused(lambda: torch.index_select(torch.ones(3), 0, far, out=wide), "must have the same scalar type", wide)
    refused(lambda: torch.index_select(empty, 0, far, out=wide), "must have the same scalar type", wide)
    refused(lambda: torch.gather(torch.ones(3), 0, far, out=wide), "Expected out tensor to have dtype float", wide)
    refused(lambda: torch.gather(torch.ones(3), 4, far, out=wide), "Dimension out of range", wide, error=IndexError)


def test_an_output_that_is_an_operand_is_not_resized_whatever_its_type() -> None:
    counts = torch.ones(2, 1, dtype=torch.int64)
    refused(lambda: torch.sub(torch.ones(2, 3), counts, out=counts), "output with shape [2, 1] doesn't match", counts)


def test_a_product_without_dimensions_is_refused_before_its_gradient() -> None:
    x, out = torch.ones((), requires_grad=True), torch.zeros(2)
    refused(lambda: torch.matmul(x, torch.ones(2), out=out), "both arguments to matmul need to be at least 1D", out)
    refused(lambda: torch.matmul(x.expand(2), torch.ones(2), out=out), "don't support automatic differentiation", out)


def test_a_product_of_a_vector_and_a_matrix_counts_as_two_writes() -> None:
    out = torch.zeros(2)
    torch.matmul(torch.ones(2), torch.ones(2, 2), out=out)
    assert out._version == 2


def test_what_shows_the_same_may_be_copied_into_expanded_memory() -> None:
    x = torch.arange(3.0)
    wide = x.expand(2, 3)
    wide.copy_(x.expand(2, 3))
    wide[:] = wide.detach()
    wide[:, :1] = x.expand(2, 3)[:, :1]
    assert x.tolist() == [0.0, 1.0, 2.0] and x._version == 3
    refused(lambda: wide.copy_(x), SHARED, x)
    refused(lambda: wide.copy_(torch.zeros(2, 3)), SHARED, x)
    refused(lambda: wide.copy_(wide.view(torch.int32)), SHARED, x)
    refused(lambda: wide.copy_(torch.empty(3, device="meta")), "Cannot copy out of meta", x, error=NotImplementedError)


def test_a_tensor_does_not_fill_expanded_memory_though_a_number_does() -> None:
    x = torch.arange(3.0)
    refused(lambda: x.expand(2, 3).fill_(torch.tensor(1.0)), SHARED, x)
    refused(lambda: x.expand(2, 3).fill_(x[0]), SHARED, x)
    assert x.expand(2, 3).fill_(4).tolist() == [[4.0] * 3] * 2


@pytest.mark.parametrize(("call", "expected"), [
    (lambda x, at: x.scatter_(0, at, -1.0), [-1.0, -1.0, 2.0]),
    (lambda x, at: x.scatter_add_(0, at, torch.ones(2, 2)), [2.0, 3.0, 2.0]),
    (lambda x, at: x.scatter_reduce_(0, at, torch.full((2, 2), 3.0), "prod"), [0.0, 9.0, 2.0]),
    (lambda x, at: x.put_(torch.tensor([1, -4]), torch.tensor([7.0, 8.0])), [8.0, 7.0, 2.0]),
    (lambda x, at: x.put_(torch.tensor([1, 2]), torch.ones(2), accumulate=True), [0.0, 3.0, 2.0]),
])
def test_elements_that_share_memory_without_a_stride_of_0_are_written(call: Callable, expected: list) -> None:
    x = torch.arange(3.0)
    call(x.as_strided((2, 2), (1, 1)), torch.zeros(2, 2, dtype=torch.int64))
    assert x.tolist() == expected


def test_plain_targets_are_written_in_place():
    a, b = torch.rand(3, 4), torch.rand(3, 4)
    target = torch.empty(3, 4)
    seen, version = target.view(-1), target._version
    assert torch.add(a, b, alpha=2, out=target) is target
    assert torch.equal(seen, (a + 2 * b).view(-1)) and target._version == version + 1
    assert torch.mul(target, target, out=target) is target
    rows = torch.empty(2, 3, 4)
    torch.sub(a, b, out=rows[1])
    assert torch.equal(rows[1], a - b)
    values, places = torch.empty(3), torch.empty(3, dtype=torch.int64)
    made = torch.max(a, 1, out=(values, places))
    assert made.values is values and made.indices is places and torch.equal(values, a.max(1).values)
    square, version = torch.rand(4, 4), target._version
    assert torch.matmul(a, square, out=target) is target and torch.equal(target, a @ square)
    assert target._version == version + 1


def test_targets_that_do_not_fit_as_they_are_keep_their_rules():
    a = torch.rand(3, 4)
    wide = torch.empty(3, 4, dtype=torch.float64)
    torch.exp(a, out=wide)
    assert torch.equal(wide, a.exp().double())
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.exp(a, out=torch.empty(3, 4, dtype=torch.int64))
    with pytest.warns(UserWarning, match="was resized"):
        small = torch.add(a, a, out=torch.empty(2))
    assert torch.equal(small, a + a)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.add(a.view(-1)[1:], 1, out=a.view(-1)[:-1])
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.add(a, 1, out=torch.empty(4).expand(3, 4))
    for leaf in (torch.rand(3, 4, requires_grad=True), torch.nn.Parameter(torch.rand(3, 4))):
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            torch.add(leaf, 1, out=torch.empty(3, 4))
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            torch.cat([leaf], out=torch.empty(3, 4))
        with torch.no_grad():
            assert torch.equal(torch.add(leaf, 1, out=torch.empty(3, 4)), leaf + 1)


def test_arguments_of_other_classes_see_calls_with_targets():
    class Seen:
        @classmethod
        def __torch_function__(cls, function, types, args, kwargs=None):
            return function, sorted(kwargs)

    assert torch.add(torch.rand(3), Seen(), out=torch.empty(3)) == (torch.add, ["out"])


def test_subclasses_see_calls_with_targets():
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function, sorted(kwargs or {})

    own = torch.rand(3).as_subclass(Own)
    assert torch.add(torch.rand(3), own, out=torch.empty(3)) == (torch.add, ["out"])
    assert torch.add(torch.rand(3), 1, out=own) == (torch.add, ["out"])
    assert torch.max(own, 0, out=(torch.empty(()), torch.empty((), dtype=torch.int64))) == (torch.max, ["out"])

    class Plain(torch.Tensor):
        pass

    made = torch.add(torch.ones(3).as_subclass(Plain), 1, out=torch.empty(3).as_subclass(Plain))
    assert type(made) is Plain and made.tolist() == [2.0] * 3
