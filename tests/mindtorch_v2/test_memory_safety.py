"""No call into C reads or writes outside of its arrays, hangs, or shares an array with the user.

docs/memory_safety.md lists the calls; what is computed is tested elsewhere.
"""

import gc
import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import convolution, row_sums
from mindtorch_v2.nn import functional as F

aten = torch.ops.aten
SOURCE = str(Path(torch.__file__).parent.parent)


def ends(program: str, seconds: float = 120) -> str:
    """What a program of its own prints; it must end, and not by a signal."""
    done = subprocess.run([sys.executable, "-c", f"import mindtorch_v2 as torch\n{program}"], capture_output=True,
                          text=True, timeout=seconds, check=False, env={"PYTHONPATH": SOURCE, "PATH": ""})
    assert done.returncode == 0, done.stderr
    return done.stdout


# pivots --------------------------------------------------------------------------------------------------------------

FACTORS, PIVOTS = torch.linalg.lu_factor(torch.eye(3) * 2 + 1)
RIGHT = torch.ones(3, 2)


def int32(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


@pytest.mark.parametrize(("pivots", "wrong"), [
    ((0, 1, 2), "greater or equal to 1"), ((-1, 2, 3), "greater or equal to 1"),
    ((1, 2, 4), r"smaller or equal to LU.size\(-2\)"), ((10**8, 2, 3), r"smaller or equal to LU.size\(-2\)")])
def test_lu_solve_refuses_rows_that_are_not_there(pivots, wrong):
    text = f"^Pivots given to lu_solve must all be {wrong}. Did you properly pass the result of lu_factor?"
    with pytest.raises(RuntimeError, match=text):
        torch.linalg.lu_solve(FACTORS, int32(*pivots), RIGHT)
    with pytest.raises(RuntimeError, match=text):
        torch.linalg.lu_solve(FACTORS, int32(*pivots), RIGHT.mT, left=False, adjoint=True)
    with pytest.raises(RuntimeError, match=text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.lu_solve(RIGHT, FACTORS, int32(*pivots))
    stacked = torch.stack((int32(1, 2, 3), int32(*pivots)))
    with pytest.raises(RuntimeError, match=text):
        torch.linalg.lu_solve(FACTORS.expand(2, 3, 3), stacked, RIGHT)


def test_lu_solve_of_nothing_looks_at_no_pivot():
    assert torch.linalg.lu_solve(FACTORS, int32(9, 2, 3), torch.ones(3, 0)).shape == (3, 0)


@pytest.mark.parametrize("shape", [(2, 3), (), (2,), (0,)])
def test_lu_unpack_refuses_pivots_of_another_shape(shape):
    with pytest.raises(RuntimeError, match="expected LU_pivots to hold 3 pivots for each matrix"):
        torch.lu_unpack(FACTORS, torch.ones(shape, dtype=torch.int32))


def test_lu_unpack_refuses_rows_that_are_not_there():
    for wrong in (0, -1, 4, 10**8):
        with pytest.raises(RuntimeError, match="pivots passed to lu_unpack must be between 1 and"):
            torch.lu_unpack(FACTORS, int32(wrong, 2, 3))


@pytest.mark.parametrize(("pivots", "text"), [
    ((0, 1, 2), "between 1 and"), ((1, 2, 4), "between 1 and"), ((10**8, 2, 3), "between 1 and"),
    ((-4, -4, 3), "between 1 and"), ((-1, 2, 3), "come in pairs"), ((1, 2, -3), "come in pairs"),
    ((-1, -1, -3), "come in pairs")])
def test_ldl_solve_refuses_rows_and_blocks_that_are_not_there(pivots, text):
    LD, _ = torch.linalg.ldl_factor(torch.eye(3) * 2 + 1)
    for kind in (torch.int32, torch.int64):
        with pytest.raises(RuntimeError, match=f"^torch.linalg.ldl_solve: .*{text}"):
            torch.linalg.ldl_solve(LD, torch.tensor(pivots, dtype=kind), RIGHT)


def test_ldl_solve_takes_no_pivot_for_its_lower_bits():
    LD, _ = torch.linalg.ldl_factor(torch.eye(3))
    with pytest.raises(RuntimeError, match="between 1 and"):
        torch.linalg.ldl_solve(LD, torch.tensor([2**32 + 1, 2, 3]), RIGHT)
    with pytest.raises(RuntimeError, match="Expected pivots to be integers. Got Bool"):
        torch.linalg.ldl_solve(LD, torch.ones(3, dtype=torch.bool), RIGHT)


# kernels that read by the sizes of other arguments -------------------------------------------------------------------

ALL = (True, True, True)
LARGE = 1 << 15  # elements: oneDNN is given the arrays where it is installed


@pytest.mark.parametrize("rows_", [3, LARGE // 64])
def test_layer_norm_gradients_look_at_every_size(rows_):
    x, weight, statistics = torch.randn(rows_, 64), torch.ones(64), torch.ones(rows_, 1)

    def gradients(grad=x, shape=(64,), mean=statistics, rstd=statistics, weight=weight, bias=weight):
        return aten.native_layer_norm_backward(grad, x, shape, mean, rstd, weight, bias, ALL)

    assert [g.shape for g in gradients()] == [x.shape, (64,), (64,)]
    for width in (1, 8, 65, 5000):
        with pytest.raises(RuntimeError, match=rf"Expected weight .* got weight of shape \[{width}\]"):
            gradients(weight=torch.ones(width))
        with pytest.raises(RuntimeError, match=rf"Expected bias .* got bias of shape \[{width}\]"):
            gradients(bias=torch.ones(width))
    with pytest.raises(RuntimeError, match="Given normalized_shape="):
        gradients(shape=(65,), weight=torch.ones(65), bias=None)
    for name, wrong in (("grad", x[:2]), ("mean", statistics[:2]), ("rstd", statistics[:2])):
        with pytest.raises(RuntimeError, match=f"expected {name}.* to have .* elements"):
            gradients(**{name: wrong})


@pytest.mark.parametrize("name", ["_batch_norm_backward", "_group_norm_backward", "_native_rms_norm_backward"])
def test_gradients_of_other_norms_look_at_every_size(name):
    from mindtorch_v2._dispatch.callers import call_bound
    from mindtorch_v2._dispatch.registry import registry

    x, channels = torch.randn(64, 8, 64), torch.ones(8)
    statistics = torch.ones(64, 2) if "group" in name else torch.ones(64, 8, 1) if "rms" in name else channels
    weight = torch.ones(64) if "rms" in name else channels
    given = {"_batch_norm_backward": [x, x, weight, statistics, statistics, 1e-5, ALL],
             "_group_norm_backward": [x, x, weight, statistics, statistics, 2, ALL],
             "_native_rms_norm_backward": [x, x, (64,), statistics, weight, (True, True)]}[name]
    call_bound(registry.get(name), given)
    tensors = [i for i, value in enumerate(given) if isinstance(value, torch.Tensor) and i != 1]
    for place in tensors:
        for wrong in (given[place][:1], torch.ones(7)):
            with pytest.raises(RuntimeError, match="expected .* to have .* elements|Expected weight"):
                call_bound(registry.get(name), [*given[:place], wrong, *given[place + 1 :]])


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_gradients_look_at_every_size(transposed):
    x, weight = torch.randn(2, 4, 6, 6), torch.randn(4, 4, 3, 3)
    size = 8 if transposed else 4

    def gradients(grad, x=x, weight=weight, stride=(1, 1), dilation=(1, 1), groups=1):
        return aten.convolution_backward(grad, x, weight, None, stride, (0, 0), dilation, transposed, (0, 0), groups,
                                         (True, True, False))

    assert gradients(torch.randn(2, 4, size, size))[0].shape == x.shape
    for shape in ((2, 4, 9, 9), (2, 4, 3, 3), (2, 5, size, size), (3, 4, size, size)):
        with pytest.raises(RuntimeError, match="expected grad_output to have shape"):
            gradients(torch.randn(shape))
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        gradients(torch.randn(2, 4, size))
    for wrong in ({"stride": (0, 0)}, {"dilation": (-1, -1)}, {"groups": 5}, {"x": torch.randn(2, 7, 6, 6)}):
        with pytest.raises(RuntimeError):
            gradients(torch.randn(2, 4, size, size), **wrong)


def test_windows_that_reach_beyond_an_array_are_refused():
    steps = convolution.Steps((1,), (0,), (1,))
    for array in (np.zeros((2, 5)), np.zeros((5, 2)).T):  # contiguous or not
        assert convolution.windows(array, (3,), (3,), steps).shape == (2, 3, 3)
        with pytest.raises(ValueError, match="reach beyond|incompatible"):
            convolution.windows(array, (3,), (4,), steps)


def test_softmax_gradient_wants_two_of_a_size():
    for shape in ((3, 5), (2, 3, 4), (4,)):
        with pytest.raises(RuntimeError, match="to have same size as tensor for argument #2 'output'"):
            aten._softmax_backward_data(torch.ones(3, 4), torch.ones(shape), -1, torch.float32)


# rows by index -------------------------------------------------------------------------------------------------------


def test_gradients_of_rows_that_a_table_has_not_are_left_out():
    for wrong in (9, 10**9, -2, 2**62):
        made = aten.embedding_dense_backward(torch.ones(3, 2), torch.tensor([0, 1, wrong]), 2, -1, False)
        assert made.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match=r"shape '\[3, 4\]' is invalid for input of size 8"):
        aten.embedding_dense_backward(torch.ones(2, 4), torch.tensor([0, 1, 2]), 5, -1, False)
    with pytest.raises(RuntimeError, match="argument #2 'indices' to have one of the following scalar types"):
        aten.embedding_dense_backward(torch.ones(3, 4), torch.tensor([0.0, 1, 2]), 5, -1, False)


def test_products_with_scipys_matrices_look_at_their_indices():
    table = np.ones((3, 2), np.float32)
    for wrong in (-1, 3, 2**40):
        with pytest.raises(IndexError, match="out of range"):
            row_sums.summed_rows(np.array([0, wrong]), table[:2], 3)
        with pytest.raises(IndexError, match="out of range"):
            row_sums.bag_sums(table, np.array([0, wrong]), np.array([0, 2]), None)
        with pytest.raises(IndexError, match="out of range"):
            row_sums.bag_sums(table, np.array([0, 1]), np.array([0, wrong, 2]), None)


def test_sparse_products_look_at_their_indices():
    one = torch.ones(3, 1)
    csr = [torch.sparse_csr_tensor(torch.tensor(starts), torch.tensor([column]), torch.ones(1), (2, 3),
                                   check_invariants=False)
           for starts, column in (([0, 1, 1], 99), ([0, 1, 1], -7), ([0, 99, 1], 0), ([0, -5, 1], 0))]
    for matrix in csr:
        with pytest.raises((IndexError, RuntimeError)):
            matrix @ one


@pytest.mark.parametrize("call", [
    lambda x, i: x.gather(1, i), lambda x, i: x.index_select(1, i[0]), lambda x, i: x.take(i * 9),
    lambda x, i: x.scatter(1, i, 1.0), lambda x, i: x.scatter_add(1, i, x), lambda x, i: x.put(i * 9, x[:1, :1]),
    lambda x, i: x.index_add(1, i[0], x[:, :1]), lambda x, i: x.index_copy(1, i[0], x[:, :1]),
    lambda x, i: x.index_fill(1, i[0] * 9, 1.0), lambda x, i: x[:, i * 9], lambda x, i: F.embedding(i, x),
    lambda x, i: torch.take_along_dim(x, i * 9), lambda x, i: F.nll_loss(x, i[0].expand(2)),
    lambda x, i: x.scatter_reduce(1, i, x, "sum"), lambda x, i: x.index_reduce(1, i[0], x[:, :1], "prod")])
@pytest.mark.parametrize("index", [99, -1, 2**62])
def test_an_index_outside_always_raises(call, index):
    x = torch.arange(6.0).reshape(2, 3)
    before = x.clone()
    with pytest.raises((IndexError, RuntimeError)):
        call(x, torch.tensor([[index]]))
    assert torch.equal(x, before)


# geometry on memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda x: x.as_strided((2,), (2**62,)), lambda x: x.as_strided((7,), (1,)), lambda x: x.as_strided((2,), (1,), 5),
    lambda x: x.unfold(0, 1, 2**62), lambda x: x.expand(2**62, 2, 3), lambda x: x.as_strided((2,), (1,), 2**62)])
def test_no_geometry_reaches_beyond_its_storage(call):
    with pytest.raises(RuntimeError):
        call(torch.ones(2, 3))


def test_orders_of_dimensions_do_not_wrap_around():
    x = torch.ones(2, 3)
    for dims in ((2**32, 1), (1, 2**32), (2**62, 0), (-(2**32), 1)):
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.permute(dims)
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.transpose(*dims)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.ones(4).permute(2**62)
    assert x.permute(1, 0).shape == x.permute(-1, 0).shape == x.permute(1, 0).shape == (3, 2)


# tensors and the arrays they share memory with -----------------------------------------------------------------------


def given_out():
    yield "numpy", lambda x: x.numpy()
    yield "numpy(force)", lambda x: x.numpy(force=True)
    yield "data.numpy", lambda x: x.data.numpy()
    yield "detach", lambda x: x.detach().numpy()
    yield "asarray", np.asarray
    yield "__array__", lambda x: x.__array__()
    yield "from_dlpack", np.from_dlpack


@pytest.mark.parametrize(("name", "give"), list(given_out()))
def test_an_array_given_out_is_not_the_tensors_own(name, give):
    x = torch.arange(6.0).reshape(2, 3)
    array = give(x)
    array.shape = (6,)
    array.dtype = np.int32
    array.setflags(write=False)
    assert x.shape == (2, 3) and x.dtype is torch.float32
    x.add_(1)
    assert x[1, 2] == 6
    with pytest.raises(ValueError, match="own its data|cannot resize"):
        give(x).resize(100)
    if name != "from_dlpack":
        give(x)[0, 0] = 7
        assert x[0, 0] == 7


def taken_in():
    yield "from_numpy", torch.from_numpy
    yield "as_tensor", torch.as_tensor
    yield "asarray", torch.asarray
    yield "frombuffer", lambda a: torch.frombuffer(a, dtype=torch.float32)
    yield "from_dlpack", torch.from_dlpack
    yield "collate", lambda a: torch.utils.data.default_convert(a)


@pytest.mark.parametrize(("name", "take"), list(taken_in()))
def test_an_array_taken_in_is_not_the_tensors_own(name, take):
    array = np.arange(6, dtype=np.float32)
    x = take(array)
    array.shape = (2, 3)
    array.dtype = np.int32
    array.setflags(write=False)
    assert x.shape == (6,) and x.dtype is torch.float32 and x.tolist() == [0, 1, 2, 3, 4, 5]
    x.add_(1)
    assert array.view(np.float32).tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(ValueError, match="cannot resize|own its data"):
        array.resize(100)


@pytest.mark.parametrize(("name", "take"), list(taken_in()))
def test_memory_of_others_is_not_resized(name, take):
    array = np.ones(3, np.float32)
    text = "^Trying to resize storage that is not resizable$"
    for resize in (lambda x: x.resize_(100), lambda x: x[1:].resize_(100), lambda x: x.untyped_storage().resize_(100),
                   lambda x: x.resize_as_(torch.ones(100)), lambda x: torch.ones(100, out=x),
                   lambda x: torch.ones(1).set_(x.untyped_storage(), 0, (100,), (1,)),
                   lambda x: x.untyped_storage().resize_(4)):
        with pytest.raises(RuntimeError, match=text):
            resize(take(array))
    assert not take(array).untyped_storage().resizable()
    assert take(array).resize_(2).tolist() == [1, 1] and array.tolist() == [1, 1, 1]


def test_memory_that_was_given_out_is_not_resized():
    for give in (lambda x: x.numpy(), lambda x: x[1:].numpy(), lambda x: x.detach().numpy(), np.asarray):
        x = torch.ones(3)
        array = give(x)
        with pytest.raises(RuntimeError, match="not resizable"):
            x.resize_(100)
        assert array.sum() == array.size
    assert torch.ones(3).resize_(100).shape == (100,) and torch.tensor(np.ones(3)).resize_(9).shape == (9,)


def test_memory_outlives_the_tensor():
    array = torch.full((1000,), 3.0).numpy()
    gc.collect()
    assert (array == 3).all()
    x = torch.from_numpy(np.full(1000, 3.0))
    gc.collect()
    assert (x == 3).all()


# endless loops -------------------------------------------------------------------------------------------------------

_HANGS = """
import numpy, itertools
inf, nan = float("inf"), float("nan")
generator = numpy.random.RandomState(0)
for (rows, columns), value, kind in itertools.product([(1, 1), (3, 3), (4, 4), (5, 3), (3, 5), (30, 30)],
                                                      (inf, -inf, nan), (torch.float32, torch.float64, torch.cfloat)):
    for place in ((0, 0), (-1, -1), (0,), ()):
        matrix = torch.tensor(generator.randn(rows, columns)).to(kind)
        matrix[place] = value
        right = torch.ones(rows, 1, dtype=kind)
        calls = [torch.linalg.svd, torch.linalg.svdvals, torch.linalg.pinv, torch.linalg.matrix_rank, torch.linalg.cond,
                 torch.linalg.qr, *(lambda m, p=order: torch.linalg.matrix_norm(m, p) for order in ("nuc", 2, -2)),
                 *(lambda m, d=driver: torch.linalg.lstsq(m, right, driver=d)
                   for driver in ("gels", "gelsy", "gelsd", "gelss"))]
        if rows == columns:
            calls += [torch.linalg.eigh, torch.linalg.eigvalsh, torch.linalg.eig, torch.linalg.eigvals,
                      lambda m: torch.linalg.pinv(m, hermitian=True), torch.linalg.cholesky_ex, torch.linalg.inv]
        for call in calls:
            try:
                call(matrix)
            except RuntimeError:
                pass
print("done")
"""


def test_infinities_and_nans_do_not_hang_lapack():
    assert ends(_HANGS, 300).endswith("done\n")


def test_singular_values_of_infinities_are_nan():
    matrix = torch.stack((torch.eye(3), torch.eye(3)))
    matrix[1, 0, 0] = math.inf
    values = torch.linalg.svdvals(matrix)
    assert values[0].tolist() == [1, 1, 1] and values[1].isnan().all()
    assert torch.linalg.matrix_rank(matrix).tolist() == [3, 0]
    assert torch.equal(torch.linalg.pinv(matrix)[1], torch.zeros(3, 3))
    matrix[1, 0, 0] = math.nan
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\): .* contained non-finite values"):
        torch.linalg.svd(matrix)


_HUGE = """
H, x = 2**62, torch.arange(6.).reshape(2, 3)
S = torch.special
for call in (lambda: torch.tensor_split(x, H), lambda: torch.tensor_split(x, torch.tensor(H)),
             lambda: S.multigammaln(x + 9, H), lambda: S.legendre_polynomial_p(x / 10, H),
             lambda: S.laguerre_polynomial_l(x, H), lambda: torch.tril_indices(H, H),
             lambda: torch.combinations(x[0], H),
             lambda: torch.vander(x[0], H), lambda: torch.linspace(0, 1, H), lambda: torch.arange(0, H),
             lambda: x.repeat(H), lambda: x.tile((H,)), lambda: torch.nn.functional.one_hot(torch.tensor([H])),
             lambda: torch.bincount(torch.tensor([H])), lambda: torch.eye(H), lambda: torch.zeros(H, H),
             lambda: x.repeat_interleave(H), lambda: torch.randperm(H), lambda: torch.histc(x, H),
             lambda: torch.nn.functional.pad(x, (H, 0)), lambda: torch.fft.fft(x, H), lambda: torch.hann_window(H)):
    try:
        call()
    except RuntimeError as error:
        continue
    raise AssertionError("nothing was raised")
assert torch.polygamma(2**31, x + 1).shape == S.chebyshev_polynomial_t(x / 10, H).shape == (2, 3)
assert torch.polygamma(1000, x + 1)[0, 0] == -float("inf") and S.chebyshev_polynomial_u(x, H).shape == (2, 3)
assert len(torch.chunk(x, H)) == 2 and torch.roll(x, H, 0).shape == torch.diff(x, H).new_ones(2, 3).shape
try:
    torch.quasirandom.SobolEngine(2).fast_forward(H)
except ValueError:
    print("done")
"""


def test_huge_numbers_do_not_hang():
    assert ends(_HUGE, 300).endswith("done\n")


def test_skipping_points_of_a_sobol_sequence():
    for count in (0, 1, 5, 64, 1000):
        skipped, drawn = (torch.quasirandom.SobolEngine(3, scramble=True, seed=1) for _ in range(2))
        skipped.fast_forward(count)
        if count:
            drawn.draw(count)
        assert torch.equal(skipped.draw(3), drawn.draw(3))


# no memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda: torch.empty(2**45), lambda: torch.zeros(2**45), lambda: torch.FloatTensor(2**45),
    lambda: torch.UntypedStorage(2**50), lambda: torch.ones(3).resize_(2**45),
    lambda: torch.ones(3).expand(2**45, 3).clone(), lambda: torch.ones(3).expand(2**45, 3).double(),
    lambda: torch.ones(3).expand(2**45, 3) + 1, lambda: torch.randn(2**45),
    lambda: torch.tensor(np.broadcast_to(np.ones(1), 2**45)), lambda: torch.nn.Linear(2**25, 2**25)])
def test_out_of_memory_is_a_runtime_error(call):
    with pytest.raises(RuntimeError, match=r"^\[enforce fail at alloc_cpu.cpp:\d+\] err == 0. DefaultCPUAllocator: "
                                           r"can't allocate memory: you tried to allocate \d+ bytes. Error code 12"):
        call()


def test_sizes_that_no_number_holds_are_runtime_errors():
    for call in (lambda: torch.empty(2**62), lambda: torch.ones(1).repeat(2**62), lambda: torch.eye(2**62)):
        with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
            call()
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        torch.ones(2).expand(2**62, 2)


def test_an_ordinary_value_error_stays_as_it_is():
    with pytest.raises(ValueError, match="^mine$") as caught:
        torch.ones(2).apply_(lambda x: (_ for _ in ()).throw(ValueError("mine")))
    assert caught.value.__cause__ is None


def test_one_thread_is_one_thread_of_every_library():
    program = ("from mindtorch_v2._core import threads as _threads\n"
               "torch.set_num_threads(1)\n"
               "torch.linalg.lu_factor(torch.eye(3))\n"  # loads SciPy's library
               "print([_threads._functions(path)[0]() for path in _threads._loaded()])\n")
    counts = ends(program).strip()
    assert set(counts) <= set("[1, ]")
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        torch.set_num_threads(2**62)
