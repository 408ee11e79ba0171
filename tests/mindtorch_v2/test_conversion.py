"""Other types and devices, copies, pickles, NumPy and DLPack: as PyTorch 2.13 does them."""

import array
import copy
import os
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch


class Marked(torch.Tensor):
    """A subclass with nothing of its own."""


def test_to_returns_the_tensor_itself_when_nothing_changes() -> None:
    x = torch.ones(2)
    for same in (x.to(torch.float32), x.to("cpu"), x.to(x), x.to(), x.to(None), x.float(), x.cpu(),
                 x.type(torch.float32),
                 x.type_as(x), x.contiguous(), x.to(device="cpu", dtype=torch.float32, non_blocking=True)):  # fmt: skip
        assert same is x
    assert x.to(torch.float32, copy=True) is not x


@pytest.mark.usefixtures("without_gpu")
def test_to_forms() -> None:
    x = torch.tensor([1.7, -1.7])
    assert x.to(int).tolist() == x.to("cpu", torch.int64).tolist() == x.to(dtype=torch.int64).tolist() == [1, -1]
    assert x.to(None, torch.int32).dtype is torch.int32
    assert x.to(torch.ones(1, dtype=torch.int8)).dtype is torch.int8
    assert x.to("meta").device.type == x.to(device="meta", dtype=torch.float16).device.type == "meta"
    image = torch.ones(2, 3, 2, 2)
    assert image.to(memory_format=torch.channels_last).stride() == (12, 1, 6, 3)
    assert torch.ones(2, 3).t().double().stride() == (1, 3)
    with pytest.raises(TypeError, match=r"to\(\) received an invalid combination of arguments - got \(foo=int, \)"):
        x.to(foo=1)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        x.to("meta").cpu()
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        x.cuda()


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("uint8", [255, 56, 44, 0]),
        ("int8", [-1, 56, 44, 0]),
        ("int16", [-1, -200, 300, 0]),
        ("int32", [-1, -200, 300, -(2**31)]),
        ("int64", [-1, -200, 300, -(2**63)]),
        ("bool", [True, True, True, True]),
    ],
)
def test_casts_are_those_of_c(dtype: str, values: list) -> None:
    x = torch.tensor([-1.7, -200.0, 300.0, float("nan")])
    assert x.to(getattr(torch, dtype)).tolist() == values


def test_casts_are_recorded() -> None:
    x = torch.ones(2, requires_grad=True)
    x.double().half().sum().backward()
    assert x.grad.dtype is torch.float32 and x.grad.tolist() == [1.0, 1.0]
    assert not x.long().requires_grad
    assert x.double().grad_fn.name() == "ToCopyBackward0"


def test_type_names() -> None:
    x = torch.ones(2)
    assert (x.type(), x.bfloat16().type(), x.to("meta").type()) == (
        "torch.FloatTensor", "torch.BFloat16Tensor", "torch.meta.FloatTensor")  # fmt: skip
    assert x.type("torch.LongTensor").dtype is x.type(torch.LongTensor).dtype is torch.int64
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor)
    assert str(torch.FloatTensor) == "<class 'torch.FloatTensor'>" and torch.typename(x) == "torch.FloatTensor"
    with pytest.raises(ValueError, match="invalid type: 'torch.Foo'"):
        x.type("torch.Foo")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_types_of_a_device_that_is_not_there() -> None:
    old = torch.cuda.FloatTensor
    assert old.is_cuda and old.dtype is torch.float32 and not torch.FloatTensor.is_cuda
    assert not isinstance(torch.ones(2), old)
    for use in (lambda: old(2), lambda: torch.set_default_tensor_type(old)):
        with pytest.raises(TypeError, match="type torch.cuda.FloatTensor not available. Torch not compiled with CUDA"):
            use()
    assert torch.get_default_device().type == "cpu" and torch.empty(2, device="meta").new([1.0]).device.type == "meta"
    assert not torch.cuda._initialized and not torch.cuda._is_in_bad_fork() and torch.cuda._lazy_call(exit) is None
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.cuda._lazy_init()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test forks")
@pytest.mark.parametrize("started", [False, True])
def test_a_process_forked_after_cuda_was_started_says_so(started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: started)
    child = os.fork()
    if not child:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == started


def test_numbers_of_devices() -> None:
    number = torch._utils._get_device_index
    assert (number("cuda:1"), number(3), number(torch.device("cuda:2"), True)) == (1, 3, 2)
    assert number("cpu", False, True) == -1
    assert torch.cuda._get_device_index("cuda:1") == 1
    with pytest.raises(ValueError, match="Expected a non cpu device, but got: cpu"):
        number("cpu")
    with pytest.raises(ValueError, match="Expected a torch.device with a specified index or an integer, but got:None"):
        number(None)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda._get_device_index("cpu")


def test_questions() -> None:
    x = torch.ones(2)
    assert x.is_cpu and not (x.is_cuda or x.is_meta or x.is_sparse or x.is_quantized or x.is_mps)
    assert torch.is_tensor(x) and not torch.is_tensor(1) and torch.is_storage(x.untyped_storage())
    assert x.is_floating_point() and not x.is_complex() and x.is_signed() and not x.byte().is_signed()
    assert torch.numel(x) == 2 and x.get_device() == -1 and x.is_same_size(torch.zeros(2))
    assert torch.result_type(torch.ones(1, dtype=torch.int32), 1.5) is torch.float32
    assert torch.result_type(torch.tensor(1.0, dtype=torch.float64), torch.ones(1, dtype=torch.int8)) is torch.float64
    assert torch.is_nonzero(torch.tensor([1.0]))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        torch.is_nonzero(x)


def test_copy_fill_and_zero() -> None:
    x = torch.ones(2, 2)
    assert x.copy_(torch.tensor([1, 2])).tolist() == [[1, 2], [1, 2]]
    assert x.copy_(3).tolist() == [[3, 3], [3, 3]]
    assert torch.ones(1).expand(3).fill_(2).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"):
        torch.ones(2).copy_(torch.ones(3, 2))
    source = torch.ones(3, 1, requires_grad=True)
    torch.zeros(3, 3).copy_(source).sum().backward()
    assert source.grad.tolist() == [[3.0], [3.0], [3.0]]
    value = torch.tensor(2.0, requires_grad=True)
    torch.zeros(3).fill_(value).sum().backward()
    assert value.grad.item() == 3
    assert x.zero_()._version == 3


def test_resize_and_set() -> None:
    x = torch.arange(6.0)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_(0).resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.arange(6.0).view(2, 3).t().resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert torch.ones(2).resize_(5).shape == (5,) and torch.ones(2).resize_as_(torch.ones(1, 2)).shape == (1, 2)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        torch.ones(2, requires_grad=True).resize_(3)
    y = torch.ones(2).set_(torch.arange(6.0).untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]] and y.storage_offset() == 1
    base = torch.arange(3.0)
    torch.empty(0).set_(base).fill_(5)
    assert base.tolist() == [5, 5, 5]
    with pytest.raises(RuntimeError, match="Could not set tensor of type long int to a tensor of type float"):
        torch.ones(2).set_(torch.arange(6))


def test_resize_out_of_place_is_a_view_of_as_many_elements() -> None:
    x = torch.arange(4.0, requires_grad=True)
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        y = x.resize(2, 2)
    assert y.shape == (2, 2) and y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 4
    with pytest.warns(UserWarning, match="non-inplace resize_as is deprecated"):
        assert torch.arange(6).view(2, 3).t().resize_as(torch.ones(6)).tolist() == [0, 3, 1, 4, 2, 5]
    message = r"requested resize to 5x2 \(10 elements in total\), but the given tensor has a size of 4 \(4 elements\)"
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match=message):
        x.resize(5, 2)


def test_deepcopy() -> None:
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.full((2,), 3.0)
    x.note = ["kept"]
    y = copy.deepcopy(x)
    assert y.requires_grad and y.grad.tolist() == [3, 3] and y.grad is not x.grad
    assert y.note == ["kept"] and y.note is not x.note
    base = torch.arange(4.0)
    a, b, again = copy.deepcopy([base, base[1:3], base])
    b.add_(10)
    assert a.tolist() == [0, 11, 12, 3] and again is a and base.tolist() == [0, 1, 2, 3]
    assert copy.deepcopy(torch.arange(6.0).view(2, 3).t()).stride() == (1, 3)
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_copy_shares_memory() -> None:
    x = torch.ones(2)
    y = copy.copy(x)
    y.add_(1)
    assert x.tolist() == [2, 2] and y is not x


@pytest.mark.parametrize("protocol", [4, 5])
def test_pickle(protocol: int) -> None:
    def again(value: object) -> object:
        return pickle.loads(pickle.dumps(value, protocol))

    x = torch.arange(6.0).view(2, 3).t()
    assert again(x).tolist() == x.tolist() and again(x).stride() == (1, 3)
    assert again(torch.ones(2, requires_grad=True)).requires_grad and again(torch.ones(2,
    requires_grad=True) * 2).is_leaf
    assert again(torch.ones(2, dtype=torch.bfloat16)).dtype is torch.bfloat16
    assert again(torch.ones(2, device="meta")).device.type == "meta"
    assert again(torch.ones(0, 3)).shape == (0, 3) and again(torch.tensor(2.5)).item() == 2.5
    marked = Marked([1.0, 2.0])
    marked.note = 3
    assert type(again(marked)) is Marked and again(marked).note == 3
    named = (torch.bool, torch.float32, torch.channels_last, torch.strided, torch.per_tensor_affine)
    for value in (*named, torch.Size([1, 2]), torch.device("cpu")):
        assert again(value) == value


@pytest.mark.parametrize(
    ("expression", "wanted", "dtype"),
    [
        ("x == n", [[False, True], [False, True]], "bool"),
        ("n == x", [[False, True], [False, True]], "bool"),
        ("x == np.array(1.0)", [[False, True], [False, False]], "bool"),
        ("(x > 1) == (n > 1)", [[True, True], [True, True]], "bool"),
        ("i & np.array([1, 1])", [[0, 1], [0, 1]], "int64"),
        ("i << np.array([1, 2])", [[0, 4], [4, 12]], "int64"),
        ("x + n", [[1.0, 2.0], [5.0, 6.0]], "float64"),
        ("x * np.array(2.0)", [[0.0, 2.0], [4.0, 6.0]], "float64"),
        ("np.ones(2) / (x + 1)", [[1.0, 0.5], [1 / 3, 0.25]], "float64"),
        ("np.float64(2) - x", [[2.0, 1.0], [0.0, -1.0]], "float32"),
        ("i * np.bool_(True)", [[0.0, 1.0], [2.0, 3.0]], "float32"),
    ],
)
def test_operators_with_arrays(expression: str, wanted: Any, dtype: str) -> None:
    x, i = torch.arange(4.0).reshape(2, 2), torch.arange(4).reshape(2, 2)
    result = eval(expression, {"x": x, "i": i, "n": np.array([[1.0, 1.0], [3.0, 3.0]]), "np": np})
    assert isinstance(result, torch.Tensor)
    assert str(result.dtype) == f"torch.{dtype}"
    np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-6)


def test_operators_that_arrays_refuse() -> None:
    x, n = torch.ones(2, 3), np.ones((2, 3))
    assert (x != n) is True  # the elements are not compared, as in PyTorch
    assert (x == [1, 2, 3]) is False
    assert (x == np.array("x")) is False
    for refused in (lambda: x < n, lambda: n > x, lambda: n * x, lambda: "x" / x, lambda: [1] + x):
        with pytest.raises(TypeError):
            refused()
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x == np.ones(2)  # noqa: B015 - raises


def test_arguments_in_an_order_of_old() -> None:
    x, m, b = torch.arange(3.0), torch.eye(2), torch.ones(3, 2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.add(x, 2, x).tolist() == x.add(2, x).tolist() == [0, 3, 6]
        assert torch.sub(x, 2, x).tolist() == [0, -1, -2]
        assert torch.addcmul(x, 2, x, x).tolist() == x.addcmul(2, x, x).tolist() == [0, 3, 10]
        assert torch.addmm(2, m, 3, m, m).tolist() == m.addmm(2, 3, m, m).tolist() == [[5, 0], [0, 5]]
        assert torch.addmm(2, m, m, m).tolist() == m.addmm(2, m, m).tolist() == [[3, 0], [0, 3]]
        assert m.clone().addbmm_(2, b, b).tolist() == [[8, 6], [6, 8]]
        assert torch.addmv(2, x[:2], m, x[1:]).tolist() == [1, 4]
        assert torch.addr(2, m, x[:2], x[:2]).tolist() == [[2, 0], [0, 3]]
        into = torch.zeros(3)
        assert torch.add(x, 2, x, out=into) is into and into.tolist() == [0, 3, 6]
    for wrong in (lambda: torch.addmm(m, 2, m, m), lambda: torch.addmm(2, m, m, m, alpha=3)):
        with pytest.raises(TypeError):
            wrong()


def test_the_old_order_is_warned_of() -> None:
    x = torch.ones(2)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="This overload of add is deprecated"):
            torch.add(x, 2, x)
    finally:
        torch.set_warn_always(False)


def test_numpy() -> None:
    x = torch.ones(2)
    assert np.asarray(x).dtype == np.float32 and np.array(x, dtype=np.int32).tolist() == [1, 1]
    assert np.sin(torch.zeros(2)).tolist() == [0, 0] and isinstance(np.sin(x), torch.Tensor)
    assert (x + np.ones(2)).dtype is torch.float64
    assert np.greater(x, 0).dtype is torch.uint8
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.asarray(torch.ones(2, requires_grad=True))
    assert not hasattr(x, "__cuda_array_interface__")


def test_dlpack() -> None:
    x = torch.arange(6.0).view(2, 3).t()
    array = np.from_dlpack(x)
    array[0, 0] = 9
    assert x[0, 0] == 9 and torch.from_dlpack(array).stride() == (1, 3)
    capsule = torch.utils.dlpack.to_dlpack(torch.arange(3))
    assert torch.utils.dlpack.from_dlpack(capsule).tolist() == [0, 1, 2]
    torch.from_dlpack(x)[0, 0] = 4
    assert x[0, 0] == 4
    assert torch.from_dlpack(torch.ones(1, dtype=torch.bfloat16)).dtype is torch.bfloat16
    assert tuple(map(int, x.__dlpack_device__())) == (1, 0)
    with pytest.raises(BufferError, match="Can't export tensors that require gradient, use tensor.detach()"):
        torch.ones(2, requires_grad=True).__dlpack__()


def test_python_protocols() -> None:
    assert reversed(torch.arange(3)).tolist() == [2, 1, 0]
    assert torch.ones(2).apply_(lambda v: v + 1).tolist() == [2, 2]
    assert torch.ones(2).map_(torch.full((2,), 3.0), lambda a, b: a + b).tolist() == [4, 4]
    assert f"{torch.tensor(1.5):.3f}" == "1.500"
    assert repr(torch.tensor([1.5])) == str(torch.tensor([1.5])) == "tensor([1.5000])"
    x = torch.ones(2)
    assert x.share_memory_() is x and x.is_shared() and not torch.ones(1).is_shared()


def test_asarray_of_capsules_and_buffers():
    source = torch.arange(3.0)
    shared = torch.asarray(torch.utils.dlpack.to_dlpack(source))
    shared[0] = 7
    assert source[0].item() == 7
    copied = torch.asarray(torch.utils.dlpack.to_dlpack(source), copy=True)
    copied[0] = 9
    assert source[0].item() == 7 and torch.asarray(source.__dlpack__(), dtype=torch.int64).tolist() == [7, 1, 2]
    assert torch.asarray(np.arange(3.0).__dlpack__(), requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Long'"):
        torch.asarray(source.__dlpack__(), dtype=torch.int64, copy=False)
    assert torch.asarray(array.array("i", [1, 2, 3]), dtype=torch.int32).tolist() == [1, 2, 3]
    assert torch.asarray(array.array("f", [1, 2])).tolist() == [1.0, 2.0]


def test_capsules_are_used_once():
    capsule = torch.arange(3.0).__dlpack__()
    torch.from_dlpack(capsule)
    for wrong in (capsule, 3):
        with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
            torch.from_dlpack(wrong)
    with pytest.raises(BufferError, match="Can't export tensors with layout other than torch.strided"):
        torch.eye(2).to_sparse().__dlpack__()
    with pytest.raises(TypeError, match="stream must be"):
        torch.ones(2).__dlpack__(stream=object())
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        torch.ones(2).__dlpack__(stream=1)


def test_the_tensor_class_and_its_name_are_the_default_type():
    numbers = torch.tensor([1, 2])
    assert numbers.type(torch.Tensor).dtype is numbers.type("torch.Tensor").dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert numbers.type(torch.Tensor).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.raises(ValueError, match="invalid type: 'Parameter'"):
        numbers.type(torch.nn.Parameter)


def test_a_factor_may_stand_behind_a_number() -> None:
    x = torch.arange(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.add(x, 2, 3).tolist() == [6.0, 7.0, 8.0]
        assert x.clone().sub_(1.0, 2).tolist() == [-2.0, -1.0, 0.0]
        assert torch.rsub(x, 1, 2).tolist() == [1.0, -1.0, -3.0]
    with pytest.raises(TypeError):
        torch.rsub(x, x, 2)


def test_a_tensor_of_one_element_is_one_number_for_all_of_a_list() -> None:
    x, one = torch.arange(6.0).reshape(2, 3), torch.tensor([1])
    assert x.sum(one).tolist() == [3.0, 12.0]
    assert x.amax(torch.tensor(True)).tolist() == [2.0, 5.0]
    assert torch.nn.functional.max_pool1d(x, 2, one).tolist() == [[1.0, 2.0], [4.0, 5.0]]
    with pytest.raises(TypeError):
        x.sum(torch.tensor([1.0]))


def test_numpy_computes_with_an_array_on_the_right_of_a_bitwise_operator() -> None:
    x, array = torch.tensor([1, 2]), np.array([3, 3])
    assert x.__or__(array) is NotImplemented and x.__xor__(array) is NotImplemented
    assert (x | array).tolist() == [3, 3] and (x ^ array).tolist() == [2, 1]


def test_casting_an_empty_complex_tensor_to_real_warns_of_nothing() -> None:
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.ones(0, dtype=torch.complex64).float().dtype is torch.float32
        with pytest.warns(UserWarning, match="discards the imaginary part"):
            torch.ones(1, dtype=torch.complex64).float()
    finally:
        torch.set_warn_always(False)


def test_the_integral_over_no_points_is_a_constant() -> None:
    made = torch.trapezoid(torch.ones(0, 3, requires_grad=True), dim=0)
    assert made.tolist() == [0.0, 0.0, 0.0] and not made.requires_grad


class Wildcard:
    def __radd__(self, other: Any) -> int:
        return 42


REFUSED = [
    ("torch.ones(2).as_subclass(int)", TypeError, "Creating a Tensor subclass from a class that does not inherit"),
    ("torch.ones(2).as_subclass(3)", TypeError, r"cls must be a type \(got int\)"),
    ("torch.ones(2).apply_(lambda k: 'text')", TypeError, "must be real number, not str"),
    ("torch.ones(2).map_(torch.ones(2), lambda a, b: [1])", TypeError, "must be real number, not list"),
    ("torch.set_num_interop_threads(0)", RuntimeError, "set_num_interop_threads expects a positive integer"),
    ("torch.set_num_interop_threads('2')", RuntimeError, "set_num_interop_threads expects an int, but got str"),
    ("torch._assert_async(torch.tensor([]))", RuntimeError, "Boolean value of Tensor with no values is ambiguous"),
    ("torch._check(torch.tensor(True))", TypeError, "but got a Tensor. For tensor conditions, use torch._check_tensor"),
    ("torch.quint8.is_signed", RuntimeError, "isSignedType not supported for quantized types"),
    ("torch.tensor(1.0).cummax(100)", IndexError, "cummax.*Expected reduction dim -1 or 0 for scalar but got 100"),
    ("torch.ones(0, 1).unflatten(0, (0, -1))", RuntimeError, "the unspecified dimension size -1 can be any value"),
    ("torch.ones(2, 1, 3).dim_order(ambiguity_check=True)", RuntimeError, "does not have unique dim order"),
    ("torch.ones(2, 1).expand(2, 3).dim_order(ambiguity_check=True)", RuntimeError, "not have unique dim order[.]"),
    ("torch.ones(2).dim_order(ambiguity_check='yes')", TypeError, "must be a bool or a list of memory formats"),
    ("torch.Size([1]) + 3", TypeError, r"can only concatenate tuple \(not int\) to torch.Size"),
]


@pytest.mark.parametrize("call, kind, text", REFUSED, ids=[call for call, *_ in REFUSED])
def test_what_is_said_of_what_does_not_fit(call: str, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        eval(call)


def test_small_facts_about_types_sizes_and_orders() -> None:
    assert torch.Size([1]) + Wildcard() == 42
    assert torch.ones(2, 3).dim_order(ambiguity_check=True) == (0, 1)
    formats = [torch.contiguous_format, torch.channels_last]
    assert torch.ones(2, 3, 4, 5).dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    assert [torch.bits16.abbr, torch.bits8.abbr, torch.bits2x4.abbr] == ["b16x1", "b8x1", "b2x4"]
    kinds = torch._C._get_all_dtypes()
    assert len(kinds) == 27 and torch.float8_e8m0fnu in kinds and torch.qint8 not in kinds and torch.int4 not in kinds


def test_a_number_of_a_tensor_that_requires_grad_warns() -> None:
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True to a scalar"):
            assert float(torch.ones((), requires_grad=True)) == 1.0
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("error")
            assert float(torch.ones((), requires_grad=True)) == 1.0
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8", "bool", "complex64", "float16"])
def test_arrays_out_of_a_pickle_are_as_others(kind: str) -> None:
    array = pickle.loads(pickle.dumps(np.arange(6).reshape(2, 3).astype(kind)))
    for made in (torch.from_numpy(array), torch.as_tensor(array), torch.asarray(array), torch.from_numpy(array.T).t()):
        assert made.data_ptr() == array.ctypes.data and made.dtype is getattr(torch, kind)
        assert made.tolist() == array.tolist() and made[1].tolist() == array[1].tolist()
        assert made[1, 2].item() == array[1, 2] and repr(made) == repr(torch.tensor(array))


@pytest.mark.parametrize("call", [lambda m, n: m + n, lambda m, n: m == n, lambda m, n: m.fmod(n), lambda m, n: m / n])
def test_numbers_without_a_type_for_booleans_are_refused_after_others_were_taken(call):
    m = torch.ones(2, 3, dtype=torch.bool)
    for _ in range(20):
        call(m, 1)
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
        call(m, 2**63)
