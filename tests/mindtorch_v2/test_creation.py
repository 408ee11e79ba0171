"""Factories and random numbers against what PyTorch 2.13 gives for the same calls."""

import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch

nan, inf = float("nan"), float("inf")


def evaluated(expression: str) -> object:
    return eval(expression, {"torch": torch, "np": np, "nan": nan, "inf": inf})


VALUES = [
    ("torch.tensor([])", [], "float32"),
    ("torch.tensor([[], []])", [[], []], "float32"),
    ("torch.tensor(3)", 3, "int64"),
    ("torch.tensor(True)", True, "bool"),
    ("torch.tensor([True, 2])", [1, 2], "int64"),
    ("torch.tensor([1, 2.5])", [1.0, 2.5], "float32"),
    ("torch.tensor((1, 2.5, 3j))", [1 + 0j, 2.5 + 0j, 3j], "complex64"),
    ("torch.tensor(range(3))", [0, 1, 2], "int64"),
    ("torch.tensor([np.float64(1), 1.5])", [1.0, 1.5], "float64"),
    ("torch.tensor([np.int8(1), 2])", [1, 2], "int64"),
    ("torch.tensor(np.bool_(True))", True, "bool"),
    ("torch.tensor(np.float32(1.5))", 1.5, "float32"),
    ("torch.tensor([torch.tensor(1), torch.tensor(2.0)])", [1.0, 2.0], "float32"),
    ("torch.tensor([torch.ones(1), 2])", [1.0, 2.0], "float32"),
    ("torch.tensor([1.9, -1.9], dtype=torch.int32)", [1, -1], "int32"),
    ("torch.tensor(-1, dtype=torch.uint8)", 255, "uint8"),
    ("torch.tensor([2**63], dtype=torch.uint64)", [2**63], "uint64"),
    ("torch.arange(0.0, 3)", [0.0, 1.0, 2.0], "float32"),
    ("torch.arange(0, 3.0)", [0.0, 1.0, 2.0], "float32"),
    ("torch.arange(0, 3, 1.0)", [0.0, 1.0, 2.0], "float32"),
    ("torch.arange(np.float32(2))", [0.0, 1.0], "float32"),
    ("torch.arange(torch.tensor(2.0))", [0.0, 1.0], "float32"),
    ("torch.arange(np.int64(2))", [0, 1], "int64"),
    ("torch.arange(True)", [0], "int64"),
    ("torch.full((1,), np.bool_(True))", [1.0], "float32"),
    ("torch.scalar_tensor(1)", 1.0, "float32"),
    ("torch.linspace(0j, 1, 2)", [0j, 1 + 0j], "complex64"),
    ("torch.tensor([1.5, nan], dtype=torch.bool)", [True, True], "bool"),
    ("torch.tensor([1e6], dtype=torch.float16)", [inf], "float16"),
    ("torch.tensor(1e40)", inf, "float32"),
    ("torch.as_tensor(np.arange(3), dtype=torch.float32)", [0.0, 1.0, 2.0], "float32"),
    ("torch.asarray(bytearray(b'abcd'), dtype=torch.int16)", [25185, 25699], "int16"),
    ("torch.frombuffer(bytearray(b'abcdefgh'), dtype=torch.int16, count=2, offset=2)", [25699, 26213], "int16"),
    ("torch.scalar_tensor(3)", 3.0, "float32"),
    ("torch.full((2,), 1)", [1, 1], "int64"),
    ("torch.full((2,), True)", [True, True], "bool"),
    ("torch.full((2,), -1, dtype=torch.uint8)", [255, 255], "uint8"),
    ("torch.full((2,), 1.5, dtype=torch.int64)", [1, 1], "int64"),
    ("torch.full_like(torch.ones(2, dtype=torch.int64), 1.5)", [1, 1], "int64"),
    ("torch.zeros(2, dtype=int)", [0, 0], "int64"),
    ("torch.zeros([])", 0.0, "float32"),
    ("torch.ones(2, 1, dtype=torch.bool)", [[True], [True]], "bool"),
    ("torch.eye(2, 3, dtype=torch.int8)", [[1, 0, 0], [0, 1, 0]], "int8"),
    ("torch.arange(3)", [0, 1, 2], "int64"),
    ("torch.arange(end=3)", [0, 1, 2], "int64"),
    ("torch.arange(1, end=3)", [1, 2], "int64"),
    ("torch.arange(5, 0, -2)", [5, 3, 1], "int64"),
    ("torch.arange(2.5)", [0.0, 1.0, 2.0], "float32"),
    ("torch.arange(torch.tensor(2.0))", [0.0, 1.0], "float32"),
    ("torch.arange(2.5, 5.5, dtype=torch.int64)", [2, 3, 4], "int64"),
    ("torch.arange(0, 5, 1.5, dtype=torch.int64)", [0, 1, 2, 3, 4], "int64"),
    ("torch.arange(0, 5, 1.5, dtype=torch.int32)", [0, 1, 2, 3], "int32"),
    ("torch.arange(0, -3, -1, dtype=torch.uint8)", [0, 255, 254], "uint8"),
    ("torch.arange(2**62, 2**62 + 2)", [2**62, 2**62 + 1], "int64"),
    ("torch.arange(0.1, 2, 0.1)[15:]", [1.600000023841858, 1.7000000476837158, 1.7999999523162842, 1.899999976158142],
     "float32"),
    ("torch.linspace(0, 1, 4)", [0.0, 0.3333333432674408, 0.6666666269302368, 1.0], "float32"),
    ("torch.linspace(0, 10, 5, dtype=torch.int64)", [0, 2, 5, 7, 10], "int64"),
    ("torch.linspace(0, 1j, 3)", [0j, 0.5j, 1j], "complex64"),
    ("torch.linspace(torch.tensor(0.0), 1, 1)", [0.0], "float32"),
    ("torch.logspace(0, 2, 3, base=2)", [1.0, 2.0, 4.0], "float32"),
    ("torch.ones(2, dtype=torch.int32).new_tensor([1.5])", [1], "int32"),
    ("torch.ones(2, dtype=torch.int32).new_full((1,), 2.5)", [2], "int32"),
    ("torch.ones(2, dtype=torch.int32).new_zeros(1, 2)", [[0, 0]], "int32"),
    ("torch.ones(2).new_ones((1,), dtype=torch.float64)", [1.0], "float64"),
    ("torch.fill(torch.ones(2), torch.tensor(3))", [3.0, 3.0], "float32"),
    ("torch.Tensor([1, True])", [1.0, 1.0], "float32"),
    ("torch.Tensor(torch.ones(1, dtype=torch.int64))", [1], "int64"),
    ("torch.LongTensor([1.5])", [1], "int64"),
    ("torch.BoolTensor([1, 0, True])", [True, False, True], "bool"),
    ("torch.ones(1, dtype=torch.int64).new([2])", [2], "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "values", "dtype"), VALUES, ids=[v[0] for v in VALUES])
def test_values_and_types(expression: str, values: object, dtype: str) -> None:
    made = evaluated(expression)
    assert (made.tolist(), made.dtype) == (values, getattr(torch, dtype))
    assert made.is_leaf and not made.requires_grad


ERRORS = [
    ("torch.tensor([[1, 2, 3], [1, 2]])", ValueError, "expected sequence of length 3 at dim 1 (got 2)"),
    ("torch.tensor([[1, 2], 3])", TypeError, "not a sequence"),
    ("torch.tensor('a')", TypeError, "new(): invalid data type 'str'"),
    ("torch.tensor(['a'])", ValueError, "too many dimensions 'str'"),
    ("torch.tensor([None])", RuntimeError, "Could not infer dtype of NoneType"),
    ("torch.tensor({})", RuntimeError, "Could not infer dtype of dict"),
    ("torch.tensor([300], dtype=torch.uint8)", RuntimeError,
     "value cannot be converted to type uint8 without overflow"),
    ("torch.tensor([nan], dtype=torch.int64)", RuntimeError,
     "value cannot be converted to type int64 without overflow"),
    ("torch.tensor([1j], dtype=torch.float32)", TypeError, "must be real number, not complex"),
    ("torch.tensor(2**63)", ValueError, "Overflow when unpacking long long"),
    ("torch.tensor([torch.ones(2)])", ValueError, "only one element tensors can be converted to Python scalars"),
    ("torch.tensor([1], requires_grad=True)", RuntimeError,
     "Only Tensors of floating point and complex dtype can require gradients"),
    ("torch.tensor([1.0], device='cuda')", AssertionError, "Torch not compiled with CUDA enabled"),
    ("torch.from_numpy([1])", TypeError, "expected np.ndarray (got list)"),
    ("torch.from_numpy(np.arange(4)[::-1])", ValueError, "At least one stride in the given numpy array is negative"),
    ("torch.from_numpy(np.array(['a']))", TypeError,
     "can't convert np.ndarray of type numpy.str_. The only supported types"),
    ("torch.from_numpy(np.array([1], '>i4'))", ValueError, "byte order different from the native byte order"),
    ("torch.frombuffer([1], dtype=torch.int8)", ValueError, "object does not implement Python buffer protocol."),
    ("torch.frombuffer(bytearray(b'abc'), dtype=torch.int16)", ValueError,
     "buffer length (3 bytes) after offset (0 bytes) must be a multiple of element size (2)"),
    ("torch.asarray([1], copy=False)", ValueError, "can't alias arbitrary sequence into a tensor."),
    ("torch.zeros(-1)", RuntimeError, "zeros: Dimension size must be non-negative."),
    ("torch.ones(2, -1)", RuntimeError, "Trying to create tensor with negative dimension -1: [2, -1]"),
    ("torch.zeros(1, pin_memory=True)", RuntimeError, "no pinned memory allocator is available on this system."),
    ("torch.full((2,), 300, dtype=torch.uint8)", RuntimeError,
     "value cannot be converted to type uint8_t without overflow"),
    ("torch.full((2,), 1e40, dtype=torch.float32)", RuntimeError,
     "value cannot be converted to type float without overflow"),
    ("torch.ones(2).fill_(1j)", RuntimeError, "value cannot be converted to type float without overflow"),
    ("torch.ones(2).fill_(torch.ones(1))", RuntimeError,
     "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions."),
    ("torch.arange(0, 5, 0)", RuntimeError, "step must be nonzero"),
    ("torch.arange(5, 0)", RuntimeError, "upper bound and lower bound inconsistent with step sign"),
    ("torch.arange(0, inf)", RuntimeError, "unsupported range: 0 -> inf"),
    ("torch.arange(5, dtype=torch.bool)", NotImplementedError, "\"arange_cpu\" not implemented for 'Bool'"),
    ("torch.linspace(0, 1, -1)", RuntimeError, "number of steps must be non-negative"),
    ("torch.eye(-1)", RuntimeError, "n must be greater or equal to 0, got -1"),
    ("torch.empty((2, 3, 4), memory_format=torch.channels_last)", RuntimeError,
     "required rank 4 tensor to use channels_last format"),
    ("torch.empty_strided((2, 3), (1,))", RuntimeError,
     "dimensionality of sizes (2) must match dimensionality of strides (1)"),
    ("torch.LongTensor(torch.ones(2))", TypeError, "expected TensorOptions(dtype=long int"),
    ("torch.Tensor(2.5)", TypeError, "new(): data must be a sequence (got float)"),
    ("torch.rand(2, dtype=torch.int64)", NotImplementedError, "\"check_uniform_bounds\" not implemented for 'Long'"),
    ("torch.randint(300, (2,), dtype=torch.uint8)", RuntimeError, "to - 1 is out of bounds for unsigned char"),
    ("torch.randint(5, 5, (2,))", RuntimeError, "random_ expects 'from' to be less than 'to', but got from=5 >= to=5"),
    ("torch.normal(0.0, -1.0, (2,))", RuntimeError, "normal expects std >= 0.0, but found std -1"),
    ("torch.multinomial(torch.ones(3), 4)", RuntimeError,
     "cannot sample n_sample > prob_dist.size(-1) samples without replacement"),
    ("torch.empty(1).expand(3).uniform_()", RuntimeError, "more than one element of the written-to tensor"),
    ("torch.ones(2, requires_grad=True).normal_()", RuntimeError, "a leaf Variable that requires grad"),
    ("torch.dropout(torch.ones(4), 1.5, True)", RuntimeError,
     "dropout probability has to be between 0 and 1, but got 1.5"),
    ("torch.set_rng_state(torch.zeros(3))", TypeError, "RNG state must be a torch.ByteTensor"),
]  # fmt: skip


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize(("expression", "kind", "text"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors(expression: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        evaluated(expression)
    assert text in str(caught.value)


STRIDES = [
    ("torch.empty((2, 3, 4, 5), memory_format=torch.channels_last)", (60, 1, 15, 3)),
    ("torch.empty_strided((2, 3), (1, 2))", (1, 2)),
    ("torch.empty_permuted((2, 3, 4), (2, 0, 1))", (3, 1, 6)),
    ("torch.zeros_like(torch.ones(2, 3).t())", (1, 3)),
    ("torch.zeros_like(torch.ones(2, 3).t(), memory_format=torch.contiguous_format)", (2, 1)),
    ("torch.zeros_like(torch.ones(1).expand(2, 3))", (3, 1)),
    ("torch.empty_strided((1, 4), (100, 1)).clone()", (100, 1)),
    ("torch.rand_like(torch.ones(2, 3).t())", (1, 3)),
    ("torch.bernoulli(torch.ones(2, 3).t())", (2, 1)),
    ("torch.empty(2, 0, 3).clone()", (3, 3, 1)),
]


@pytest.mark.parametrize(("expression", "strides"), STRIDES, ids=[s[0] for s in STRIDES])
def test_strides(expression: str, strides: tuple[int, ...]) -> None:
    assert evaluated(expression).stride() == strides


SEEDED = [
    ("torch.rand(2)", [0.49625658988952637, 0.7682217955589294]),
    ("torch.rand(2, dtype=torch.float64)", [0.9700530018065531, 0.707819864399788]),
    ("torch.randn(3)", [1.5409960746765137, -0.293428897857666, -2.1787893772125244]),
    ("torch.randn(17)[[0, 1, 15, 16]]", [-1.1258398294448853, -1.6959311962127686, -0.843676745891571,
     0.9318265914916992]),
    ("torch.randint(0, 10, (4,))", [4, 9, 3, 0]),
    ("torch.randint(5, size=(2,))", [4, 4]),
    ("torch.randint(low=1, high=5, size=(2,))", [1, 4]),
    ("torch.randperm(5)", [4, 0, 1, 3, 2]),
    ("torch.empty(2, dtype=torch.int64).random_(-3, None)", [900450186894289449, 3969543146641149114]),
    ("torch.empty(2).random_(2**10)", [684.0, 559.0]),
    ("torch.empty(2, 2).t().uniform_()", [[0.49625658988952637, 0.08847743272781372], [0.7682217955589294,
     0.13203048706054688]]),
    ("torch.empty(2).uniform_(**{'from': 2.0, 'to': 4.0})", [2.9925131797790527, 3.5364437103271484]),
    ("torch.empty(3).bernoulli_(0.5)", [0.0, 0.0, 1.0]),
    ("torch.bernoulli(torch.full((3,), 0.5))", [1.0, 0.0, 1.0]),
    ("torch.multinomial(torch.ones(3), 2)", [2, 1]),
    ("torch.multinomial(torch.ones(3), 4, True)", [2, 2, 1, 2]),
    ("torch.poisson(torch.tensor([1.0, 20.0]))", [2.0, 28.0]),
    ("torch.dropout(torch.ones(4), 0.5, True)", [0.0, 0.0, 2.0, 0.0]),
    ("torch.feature_dropout(torch.ones(2, 2, 1), 0.5, True)", [[[0.0], [0.0]], [[2.0], [0.0]]]),
    ("torch.alpha_dropout(torch.ones(2), 0.5, True)", [-0.7791939377784729, -0.7791939377784729]),
    ("torch.rand(2, generator=torch.Generator().manual_seed(1))", [0.7576315999031067, 0.2793108820915222]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "values"), SEEDED, ids=[s[0] for s in SEEDED])
def test_the_same_seed_gives_the_same_numbers(expression: str, values: list) -> None:
    torch.manual_seed(0)
    np.testing.assert_allclose(evaluated(expression).numpy(), values, rtol=1e-6)


def test_default_dtype_decides_for_floats() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        kinds = [torch.tensor(x).dtype for x in (1.5, 1j, 1)]
        assert kinds == [torch.float64, torch.complex128, torch.int64]
        assert torch.zeros(1).dtype is torch.arange(1.0).dtype is torch.rand(1).dtype is torch.float64
        assert torch.Tensor(1).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_memory_is_shared_where_pytorch_shares_it() -> None:
    array = np.arange(3.0)
    torch.from_numpy(array)[0] = 7
    torch.as_tensor(array)[1] = 8
    torch.asarray(array)[2] = 9
    assert array.tolist() == [7, 8, 9]
    torch.tensor(array)[0] = 0
    assert array[0] == 7
    assert torch.from_numpy(array).numpy() is not None
    tensor = torch.ones(2)
    assert torch.as_tensor(tensor) is tensor and torch.asarray(tensor) is tensor


def test_warnings() -> None:
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        torch.tensor(torch.ones(1))
    with pytest.warns(UserWarning, match="torch.range is deprecated"):
        assert torch.range(1, 2, 0.5).tolist() == [1.0, 1.5, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.as_tensor(torch.ones(1))


def test_options() -> None:
    assert torch.ones(2, requires_grad=True).requires_grad
    assert torch.rand(2, device="meta").device == torch.device("meta")
    assert torch.zeros(2, 3, device="meta").shape == (2, 3)
    with torch.device("meta"):
        assert torch.zeros(2).device.type == torch.tensor(1.0).device.type == "meta"
    assert torch.zeros_like(torch.ones(2, device="meta"), device="cpu").tolist() == [0, 0]
    out = torch.empty(0)
    assert torch.arange(2, out=out) is out and out.tolist() == [0.0, 1.0]


def test_generator_state() -> None:
    generator = torch.Generator().manual_seed(5)
    state = generator.get_state()
    assert state.dtype is torch.uint8 and state.shape == (5056,)
    first = torch.randn(5, generator=generator)
    assert torch.randn(5, generator=generator.set_state(state)).tolist() == first.tolist()
    assert generator.initial_seed() == 5
    torch.manual_seed(3)
    kept = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.rand(3)
    assert torch.get_rng_state().tolist() == kept.tolist()
    assert torch.initial_seed() == 3 and isinstance(torch.seed(), int)


def test_more_dimensions_than_numpy_has_are_refused_by_name():
    ones, most = [1] * 65, torch.zeros([1] * 64)
    for call in (lambda: torch.zeros(ones), lambda: torch.rand(ones), lambda: torch.full(ones, 2.0),
                 lambda: torch.zeros(1).reshape(ones), lambda: torch.zeros(1).expand(ones), lambda: most.unsqueeze(0),
                 lambda: most[None], lambda: torch.stack([most]), lambda: torch.zeros(1).as_strided(ones, ones),
                 lambda: torch.tensor(most.tolist(), dtype=torch.int64).unsqueeze(-1)):  # fmt: skip
        with pytest.raises(RuntimeError, match="at most 64 dimensions, which is NumPy's limit, but 65 were asked for"):
            call()
    assert torch.zeros(ones, device="meta").dim() == 65
    assert torch.ones([1] * 40).repeat([1] * 39 + [3]).shape == (*[1] * 39, 3)


def test_storages_of_meta_tensors():
    tensor = torch.empty(4, device="meta")
    storage = tensor.untyped_storage()
    assert storage.nbytes() == 16 and storage.data_ptr() == 0 and tensor[1:].untyped_storage() is storage
    assert torch.empty_strided((2, 2), (8, 1), device="meta").untyped_storage().nbytes() == 40
    assert torch.empty(1, device="meta").expand(5).untyped_storage().nbytes() == 4
    for read in (lambda: storage[0], lambda: storage[99], storage.tolist, lambda: list(storage),
                 lambda: torch.TypedStorage(3, device="meta", dtype=torch.int8)[0]):  # fmt: skip
        with pytest.raises(NotImplementedError, match="Not available for 'meta' device type"):
            read()
    for copy in (storage.cpu, lambda: torch.zeros(4).untyped_storage().copy_(storage)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            copy()
    with pytest.raises(RuntimeError, match="only available on CPU"):
        storage.share_memory_()
    storage[0] = 1
    assert storage.fill_(3).resize_(20).nbytes() == 20


def test_tensors_of_storages():
    source = torch.tensor([1.0, 2.0])
    assert torch.tensor(source.storage()).tolist() == [1.0, 2.0]
    made = torch.tensor(source.untyped_storage(), dtype=torch.float32)
    assert made.tolist() == [1.0, 2.0] and made.data_ptr() == source.data_ptr()
    assert torch.tensor(source.untyped_storage()).tolist() == [4611686019492741120]
    with pytest.raises(RuntimeError, match="Expected a Storage of type Long or an UntypedStorage, but got Float"):
        torch.tensor(source.storage(), dtype=torch.int64)


def test_old_constructors_share_tensors_of_their_own_type_only():
    floats, longs = torch.ones(2), torch.ones(2, dtype=torch.int64)
    assert floats.new(floats).data_ptr() == floats.data_ptr() and torch.Tensor(longs).dtype is torch.int64
    with pytest.raises(TypeError, match="expected a tensor of type torch.float32"):
        floats.new(longs)
    with pytest.raises(RuntimeError, match="Expected a Storage of type Float or an UntypedStorage, but got type Long"):
        floats.new(longs.storage())


def test_cauchy_numbers_around_infinity():
    assert torch.empty(3).cauchy_(float("inf"), 0.5).tolist() == [float("inf")] * 3


def test_tensors_on_memory_at_an_address() -> None:
    array = np.arange(6, dtype=np.int32)
    made = torch._from_blob(array.ctypes.data, [2, 3], [1, 2], dtype=torch.int32)
    assert made.tolist() == [[0, 2, 4], [1, 3, 5]] and made.stride() == (1, 2)
    made[0, 1] = 9
    assert array[2] == 9


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows_are_not_sparse(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"{name}_window is not implemented for sparse types"):
        getattr(torch, f"{name}_window")(3, layout=torch.sparse_coo)


def test_full_of_a_complex_number_is_at_least_complex64() -> None:
    torch.set_default_dtype(torch.float16)
    try:
        assert torch.full((2,), 1j).dtype is torch.full((2,), 1j, device="meta").dtype is torch.complex64
        assert torch.tensor(1j).dtype is torch.complex32
    finally:
        torch.set_default_dtype(torch.float32)


def test_sizes_are_read_as_pytorch_reads_them() -> None:
    class Stubborn(list):
        def __iter__(self) -> object:
            raise RuntimeError("not asked for")

    assert torch.ones((np.array(3), np.int64(4))).shape == (3, 4)
    assert torch.ones(Stubborn([2, 3])).shape == (2, 3)
    assert torch.tensor([0j, 1e-323j, -1j], dtype=torch.bool).tolist() == [False, True, True]
    with pytest.raises(TypeError, match="'complex' object cannot be interpreted as an integer"):
        torch.tensor([1j], dtype=torch.int64)


@pytest.mark.parametrize("call", ["eye(3, 4", "zeros(3", "full((3,), 2.0", "arange(3", "linspace(0, 1, 3", "rand(3",
                                  "empty(3"])
def test_what_is_made_into_out_is_made_on_its_device(call: str) -> None:
    out = torch.empty(0, device="meta")
    assert eval(f"torch.{call}, out=out)", {"torch": torch, "out": out}) is out
    assert out.shape in ((3,), (3, 4)) and out.device.type == "meta"
    with pytest.raises(RuntimeError, match=r"device type cpu does not match device type of out parameter \(meta\)"):
        eval(f"torch.{call}, out=out, device='cpu')", {"torch": torch, "out": out})
