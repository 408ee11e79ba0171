"""Products of matrices from machine code are NumPy's, whatever the layouts and however many threads."""

import ctypes
import importlib.util
import itertools

import numpy as np
import pytest
from compiled_programs import printed

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import machine, onednn_products, products
from mindtorch_v2._core import threads

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.skipif(threads.blas() is None, reason="NumPy uses another library than OpenBLAS"),
]
SHAPES = [(1, 1, 1), (1, 5, 7), (4, 1, 3), (5, 7, 1), (33, 17, 65), (130, 120, 170), (1, 300, 800), (800, 300, 1)]
RANDOM = np.random.default_rng(1)


@pytest.fixture(scope="module")
def product():
    return machine.callable_from(machine.load(products.ir(), ["entry"], persistent=False)["entry"], "product")


@pytest.fixture(params=[1, 3])
def number(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def numbers(*shape: int, kind: str = "f8") -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(kind)


def transposed(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def part_of_a_larger_one(array: np.ndarray) -> np.ndarray:
    rows, columns = array.shape[-2:]
    part = np.full((*array.shape[:-2], 2 * rows, columns + 3), np.nan, array.dtype)[..., ::2, 1 : columns + 1]
    part[...] = array
    return part


LAYOUTS = [np.ascontiguousarray, transposed, part_of_a_larger_one]


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_matrices_in_every_layout(product, number, m, k, n, kind):
    a, b, bias = numbers(m, k, kind=kind), numbers(k, n, kind=kind), numbers(n, kind=kind)
    close = dict(rtol=1e-12 if kind == "f8" else 1e-4, atol=1e-12 if kind == "f8" else 1e-4)
    for of_a, of_b, turned in itertools.product(LAYOUTS, LAYOUTS, (False, True)):
        right = of_b(b).T if turned else of_b(b)
        made = product(of_a(a), right, None, None, turned)
        assert made.flags.c_contiguous and made.flags.owndata and made.dtype == a.dtype
        np.testing.assert_allclose(made, a @ b, **close)
        np.testing.assert_allclose(product(of_a(a), right, None, bias, turned), a @ b + bias, **close)
        out = part_of_a_larger_one(np.full((m, n), np.nan, kind))
        around = out.base.copy()
        assert product(of_a(a), right, out, bias, turned) is out
        np.testing.assert_allclose(out, a @ b + bias, **close)
        out[...] = np.nan
        np.testing.assert_array_equal(out.base, around)  # nothing beside it was written


BATCHES = [((3,), (3,)), ((40,), (40,)), ((1,), (5,)), ((2, 1, 3), (1, 4, 3)), ((5,), (1,))]


@pytest.mark.parametrize("first, second", BATCHES)
@pytest.mark.parametrize("m, k, n", [(3, 4, 5), (1, 4, 5), (70, 60, 80)])
def test_batches_that_are_broadcast(product, number, first, second, m, k, n):
    a, b = numbers(*first, m, k), numbers(*second, k, n)
    for of_a, of_b in itertools.product(LAYOUTS, LAYOUTS):
        np.testing.assert_allclose(product(of_a(a), of_b(b)), a @ b, rtol=1e-12, atol=1e-12)
    stretched = np.broadcast_to(b[:1], (*first[:1], *b.shape[1:]))
    np.testing.assert_allclose(product(a, stretched), a @ stretched, rtol=1e-12, atol=1e-12)


def test_what_is_not_numbers_for_blas_is_left_to_numpy(product):
    x = numbers(4, 4)
    read_only = x.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(bytes(1) + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(4, 4)
    refused = [
        (x,), (x, None), (x, x.tolist()), (x, numbers(5, 4)), (x, numbers(4)), (x, numbers(2, 4, 4)),
        (x, x.astype("f4")), (x.astype(int), x.astype(int)), (x.astype(complex), x.astype(complex)),
        (x, x.astype(">f8")), (x[:, ::2], x[::2]),
        (x[::-1], x), (x[:, :0], x[:0]), (x[:0], x), (x, x, numbers(4, 5)), (x, x, x.astype("f4")), (x, x, read_only),
        (x, x, numbers(4, 4).T), (x, x, None, numbers(5)), (x, x, None, numbers(8)[::2]), (x, x, None, numbers(1, 4)),
        (unaligned, x), (np.ma.array(x), x), (np.broadcast_to(x[0], (4, 4)), x), (numbers(2, 4, 4), numbers(3, 4, 4)),
    ]
    for arguments in refused:
        assert product(*arguments) is None


def test_another_blas_is_left_alone(monkeypatch):
    monkeypatch.setattr(threads, "blas", lambda: None)
    refuses = machine.callable_from(machine.load(products.ir(), ["entry"], persistent=False)["entry"], "product")
    assert refuses(numbers(3, 3), numbers(3, 3)) is None


def test_a_blas_with_narrow_integers(tmp_path):
    """SciPy's OpenBLAS has 32 bits; sizes that these cannot hold are left to NumPy, of which a small limit shows."""
    program = """
import numpy as np
import scipy.linalg
from mindtorch_v2._backends.cpu.jit import products
from mindtorch_v2._core import threads
paths = [path for path in threads._loaded() if "scipy.libs" in path]
if paths:
    threads._loaded = lambda: paths
    assert threads.blas().integers == 32
def made():
    return machine.callable_from(machine.load(products.ir(), ["entry"], persistent=False)["entry"], "product")
torch.set_num_threads(2)
product, good = made(), []
for m, k, n in ((3, 4, 5), (1, 4, 5), (4, 5, 1), (150, 120, 130)):
    a, b = np.random.rand(m, k), np.random.rand(k, n)
    good.append(np.allclose(product(a, b), a @ b))
    good.append(np.allclose(product(a.astype("f4"), b.astype("f4")), a @ b, rtol=1e-4))
products._LIMITS = {32: 100, 64: 100}
product = made()
for shapes in (((99, 9), (9, 99)), ((100, 9), (9, 9)), ((9, 100), (100, 9)), ((9, 9), (9, 100))):
    good.append(product(*map(np.ones, shapes)) is None)
good.append(product(np.ones((9, 200))[:, :9], np.ones((9, 9))) is None)
good.append(product(np.ones((9, 9)), np.ones((9, 9)), np.ones((9, 200))[:, :9]) is None)
print(good)
"""
    assert printed(program, tmp_path) == f"{[True] * 8 + [False] + [True] * 5}\n"


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="oneDNN is not found")
@pytest.mark.parametrize("m, n, k", [(40, 30, 20), (130, 120, 90), (2, 1000, 300), (64, 128, 64)])
def test_onednn_multiplies_what_is_large(m, n, k):
    """As CBLAS does: factors transposed or not, in parts of larger matrices, added to what is there or not."""
    assert machine._address("mindtorch_blas_sgemm") != threads.blas().addresses["sgemm"]
    found = onednn_products.addresses()
    size = ctypes.c_int64 if threads.blas().integers == 64 else ctypes.c_int32
    sizes, matrix, number = [size] * 3, [ctypes.c_void_p, size], ctypes.c_float
    kinds = [ctypes.c_int] * 3 + sizes + [number, *matrix, *matrix, number, *matrix]
    multiply = ctypes.CFUNCTYPE(None, *kinds)(machine._address("mindtorch_blas_sgemm"))
    ask = ctypes.CFUNCTYPE(ctypes.c_int)(found["mindtorch_onednn_threads"])
    number_before = ask()
    for turned, beta in itertools.product(itertools.product((False, True), repeat=2), (0.0, 1.0)):
        a, b = (part_of_a_larger_one(numbers(*(shape[::-1] if turn else shape), kind="f4"))
                for shape, turn in zip(((m, k), (k, n)), turned, strict=True))
        made = part_of_a_larger_one(np.ones((m, n), "f4") if beta else np.full((m, n), np.nan, "f4"))
        expected = (a.T if turned[0] else a).astype("f8") @ (b.T if turned[1] else b) + beta
        given = [x for matrix in (a, b, made) for x in (matrix.ctypes.data, matrix.strides[0] // 4)]
        multiply(101, *(112 if turn else 111 for turn in turned), m, n, k, 1.0, *given[:4], beta, *given[4:])
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)
        made[...] = np.nan
        assert np.isnan(made.base).all()  # nothing beside it was written
    assert ask() == number_before


def test_openblas_has_its_own_number_of_threads_afterwards(product):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        own = threads._functions(threads._loaded()[0])[0]
        a = numbers(300, 300)
        for _ in range(5):
            product(a, a)
        assert own() == 3
    finally:
        torch.set_num_threads(before)


def test_large_products_with_vectors_are_kernels(tmp_path):
    """Of rows and of columns, as matrices of one row or column, and through what operators call; others are NumPy's."""
    program = """
import numpy as np
from mindtorch_v2._backends.cpu import matrices
torch.set_num_threads(2)
rng = np.random.default_rng(1)
good = []
for kind, close in (("f4", 1e-3), ("f8", 1e-10), ("c16", 1e-10)):
    a, x, bias = (rng.standard_normal(shape).astype(kind) for shape in ((301, 900), 900, 301))
    expected = a.astype("c16") @ x.astype("c16")
    def near(made, shape=(301,), more=0):
        good.append((made.shape, made.dtype) == (shape, kind))
        good.append(np.allclose(made.ravel(), expected + more, atol=close))
    for m in (a, np.asfortranarray(a), np.repeat(a, 2, 1)[:, ::2]):
        near(matrices.dot(m, x))
        near(matrices.dot(m, x[:, None]), (301, 1))
        near(matrices.dot(x[None], m.T), (1, 301))
        near(matrices.linear(x[None], m, bias), (1, 301), bias)
        near(matrices.linear(x[None], m, None), (1, 301))
        near(matrices.matmul(x[None], m.T), (1, 301))
        out = np.empty((1, 301), kind)
        near(matrices.matmul(x[None], m.T, out), (1, 301))
        good.append(np.allclose(out.ravel(), expected, atol=close))
print(len(good), all(good))
try:
    torch.mv(torch.ones(300, 700), torch.ones(300))
except RuntimeError as error:
    print(error)
"""
    expected = "135 True\nsize mismatch, got input (300), mat (300x700), vec (300)\n"
    assert printed(program, tmp_path, MINDTORCH_JIT="now") == expected


def test_several_python_threads_multiply_at_once(tmp_path):
    program = """
import threading
import numpy as np
from mindtorch_v2._backends.cpu.jit import products
torch.set_num_threads(3)
product = machine.callable_from(machine.load(products.ir(), ["entry"])["entry"], "product")
matrices = [np.random.default_rng(i).standard_normal((150 + i, 150 + i)) for i in range(4)]
expected = [m @ m for m in matrices]
wrong = []
def work(i):
    for _ in range(60):
        if not np.allclose(product(matrices[i], matrices[i]), expected[i]):
            wrong.append(i)
several = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in several]
[t.join() for t in several]
child = os.fork()
if not child:
    os._exit(not np.allclose(product(matrices[0], matrices[0]), expected[0]))
print(wrong, os.waitpid(child, 0)[1])
"""
    assert printed(program, tmp_path) == "[] 0\n"
