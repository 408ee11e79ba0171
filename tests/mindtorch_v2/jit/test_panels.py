"""Products with packed factors inside kernels, for every kind of tile: this processor's and those of others."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._backends.cpu.kernels import attention, rnn
from mindtorch_v2._backends.cpu.kernels import linear as few_rows
from mindtorch_v2._kernels import panels
from mindtorch_v2._kernels.language import kernel, multiply_panel, pack, parallel
from mindtorch_v2._kernels.library.panels import packed, times

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")
RNG = np.random.default_rng(0)
TILES = [panels.Tile(64, 12), panels.Tile(32, 6), panels.Tile(16, 12)]


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


@pytest.fixture(params=[1, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@kernel
def product(made, a, weight, *, tile):
    for _ in parallel(1, 1):
        times(made, 0, a, 0, weight, (a.shape[0], made.shape[1], a.shape[1]), tile, True)


@kernel
def blocks(made, a, b, panels, rows, columns, inner, *, turned, adds, tile):
    for _ in parallel(1, 1):
        if turned:
            pack(panels, 1, b, (1, 2, 1), (columns, inner), turned=True, tile=tile)
        else:
            pack(panels, 1, b, (1, 2, 1), (columns, inner), turned=False, tile=tile)
        multiply_panel(made, (1, 1, 3), a, (0, 2, 1), panels, 1, (rows, columns, inner), adds=adds, tile=tile)


@pytest.mark.parametrize(("features", "expected"), [
    ("vendor_id=AuthenticAMD flags=fpu avx2 fma avx512f", TILES[0]), ("flags=fpu sse2 fma avx2", TILES[1]),
    ("+avx,+avx2,+fma,-avx512f", TILES[1]), ("CPU part=0xd0c Features=fp asimd", TILES[2]), ("flags=fpu sse2", None)])
def test_the_tile_follows_from_what_a_processor_has(features, expected):
    assert panels.tile_of(features) == expected


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 33, 7), (12, 64, 16), (25, 100, 37), (40, 15, 2300)])
def test_a_product_with_panels_is_that_of_matrices(sizes, turned, tile, kind):
    rows, columns, inner = sizes
    a, b = (RNG.standard_normal(shape).astype(kind) for shape in ((rows, inner), (inner, columns)))
    width = tile.width(a.itemsize)
    weight = np.full((-(-columns // width), inner, width), np.nan, kind)
    assert calls.launched(packed, weight, np.ascontiguousarray(b.T) if turned else b, turned=turned, tile=tile.name)
    made = np.full((rows, columns), np.nan, kind)
    assert calls.launched(product, made, a, weight, tile=tile.name)
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    np.testing.assert_allclose(made, exact, rtol=0, atol=inner * 4 * np.finfo(kind).eps)
    # A row comes out the same whatever rows are multiplied with it.
    alone = np.empty((1, columns), kind)
    for row in {0, rows // 2, rows - 1}:
        assert calls.launched(product, alone, a[row : row + 1].copy(), weight, tile=tile.name)
        np.testing.assert_array_equal(alone[0], made[row])


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("width", ["whole", "part"])
def test_blocks_of_arrays_are_packed_and_multiplied(width, adds, turned, tile, kind):
    whole = tile.width(np.dtype(kind).itemsize)
    rows, columns, inner = 17, whole if width == "whole" else whole - 1, 1050
    a = RNG.standard_normal((2, rows + 3, inner + 4)).astype(kind)[:, :, :-2]
    b = RNG.standard_normal((2, *((columns, inner) if turned else (inner, columns)))).astype(kind)
    b = np.pad(b, [(0, 0), (2, 1), (1, 3)])[:, :, :-1]
    made = RNG.standard_normal((2, rows + 1, columns + 5)).astype(kind)
    room, plain = np.zeros((2, inner, whole), kind), made.copy()
    given = (rows, columns, inner)
    blocks(plain, a, b, room.copy(), *given, turned=turned, adds=adds, tile=tile.name)
    assert calls.launched(blocks, made, a, b, room, *given, turned=turned, adds=adds, tile=tile.name)
    np.testing.assert_allclose(made, plain, rtol=1e-3, atol=1e-3 if kind == "float32" else 1e-11)
    untouched = np.ones(made.shape, bool)
    untouched[1, 1:, 3 : 3 + columns] = False
    np.testing.assert_array_equal(made[untouched], plain[untouched])


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(("mode", "options"), [("LSTM", {}), ("GRU", {}), ("LSTM", {"proj_size": 35})], ids=str)
@pytest.mark.parametrize("found", [*TILES, None], ids=str)
def test_recurrent_layers_multiply_with_panels(found, mode, options, kind, monkeypatch):
    dtype = getattr(torch, kind)
    torch.manual_seed(0)
    layer = getattr(torch.nn, mode)(20, 45, dtype=dtype, **options)
    x = torch.randn(6, 14, 20, dtype=dtype, requires_grad=True)

    def results():
        made, last = layer(x)
        return [made, *torch.autograd.grad(made.square().sum(), (x, *layer.parameters()))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rnn, "_takes", lambda *args: False)
        expected = results()
    monkeypatch.setattr(rnn, "tile", lambda: found)
    for mine, wanted in zip(results(), expected, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-4 if kind == "float32" else 1e-10,
                                   atol=1e-4 if kind == "float32" else 1e-10)


@pytest.mark.parametrize("found", [*TILES, None], ids=str)
@pytest.mark.parametrize(("shape", "options"), [
    ((2, 3, 70, 70, 24, 24), {"is_causal": True}), ((2, 3, 70, 70, 24, 24), {}), ((1, 2, 30, 100, 40, 33), {}),
    ((1, 2, 100, 50, 9, 5), {"is_causal": True}), ((2, 2, 49, 52, 8, 8), {"mask": True}),
    ((5, 1, 64, 64, 32, 32), {"is_causal": True}), ((2, 1, 64, 64, 32, 32), {})], ids=str)
def test_attention_multiplies_with_panels(shape, options, found, threads, monkeypatch):
    batch, heads, queries, keys, width, last = shape
    query, key, value = (torch.tensor(RNG.standard_normal((batch, tokens, heads, size))).transpose(1, 2)
                         for tokens, size in ((queries, width), (keys, width), (keys, last)))
    mask = torch.ones(queries, keys, dtype=torch.bool)
    options = dict(options)
    if options.pop("mask", False):
        mask = torch.tensor(RNG.random((batch, 1, queries, keys)) < 0.5)
        mask[0, 0, 3] = False  # a query that sees nothing gets zeros
        options["attn_mask"] = mask
    elif options:
        mask = mask.tril()
    scores = (query @ key.mT * width**-0.5).masked_fill(~mask, -torch.inf)
    expected = scores.softmax(-1).nan_to_num(0) @ value
    launches = []
    plain = attention.launched
    monkeypatch.setattr(attention, "tile", lambda: found)
    monkeypatch.setattr(attention, "launched", lambda *args, **given: launches.append(args[0]) or plain(*args, **given))
    made = torch.nn.functional.scaled_dot_product_attention(query, key, value, **options)
    assert (attention.kernels.attend_packed in launches) == (found is not None)
    if found is not None:  # threads that share a head's queries share its panels
        alone = queries <= attention._STEP and threads <= batch * heads
        assert (attention.kernels.pack_heads in launches) == (not alone)
    torch.testing.assert_close(made, expected)


def test_few_queries_or_keys_are_not_packed(monkeypatch):
    launches = []
    plain = attention.launched
    monkeypatch.setattr(attention, "launched", lambda *args, **given: launches.append(args[0]) or plain(*args, **given))
    for queries, keys in ((1, 300), (47, 47)):
        query, key = torch.randn(1, 2, queries, 8), torch.randn(1, 2, keys, 8)
        torch.nn.functional.scaled_dot_product_attention(query, key, key)
    assert set(launches) == {attention.kernels.attend}


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("found", TILES, ids=str)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", [1, 16, 33, 61])
def test_few_rows_are_multiplied_with_a_weight_as_it_lies(rows, biased, found, kind, threads, monkeypatch):
    monkeypatch.setattr(few_rows, "tile", lambda: found)
    monkeypatch.setattr(few_rows, "is_quick", lambda *sizes: True)
    x, weight = (RNG.standard_normal(shape).astype(kind) for shape in ((rows, 130), (301, 130)))
    bias = RNG.standard_normal(301).astype(kind) if biased else None
    made = few_rows.linear(x, weight, bias)
    exact = x.astype(np.longdouble) @ weight.T.astype(np.longdouble) + (bias if biased else 0)
    np.testing.assert_allclose(made, exact, rtol=0, atol=130 * 4 * np.finfo(kind).eps)
    np.testing.assert_array_equal(few_rows.linear(x, weight, bias), made)
    for others in ((x[:, ::2], weight[:, ::2], bias), (x, weight.astype("float16"), bias)):
        assert few_rows.linear(*others) is None


def test_which_rows_are_few_follows_from_what_else_would_multiply(monkeypatch):
    monkeypatch.setattr(few_rows, "tile", lambda: TILES[0])
    monkeypatch.setattr(few_rows, "get_num_threads", lambda: 2)
    for library in (object(), None):
        monkeypatch.setattr(few_rows, "onednn_kernels", lambda library=library: library)
        quick = [rows for rows in range(1, 300) if few_rows.is_quick(rows, 512, 128, 4)]
        assert quick == ([16, *range(29, 33)] if library else list(range(8, 65)))
        assert few_rows.is_quick(200, 512, 512, 8) and not few_rows.is_quick(32, 200, 512, 4)
    monkeypatch.setattr(few_rows, "tile", lambda: None)
    assert not few_rows.is_quick(16, 512, 512, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_layers_of_few_rows_use_it(dtype, monkeypatch):
    launches = []
    plain = few_rows.launched
    monkeypatch.setattr(few_rows, "launched", lambda *args, **given: launches.append(args[0]) or plain(*args, **given))
    x, layer = torch.randn(32, 256, dtype=dtype, requires_grad=True), torch.nn.Linear(256, 1024, dtype=dtype)
    expected = x @ layer.weight.T + layer.bias
    for _ in range(2):
        made = layer(x)
        torch.testing.assert_close(made, expected)
    if machine.tile() is not None:
        assert few_rows.panels.linear in launches
    for found, wanted in zip(torch.autograd.grad(made.square().sum(), (x, *layer.parameters())),
                             torch.autograd.grad(expected.square().sum(), (x, *layer.parameters())), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
    with torch.no_grad():
        out = torch.empty(32, 1024, dtype=dtype)
        assert torch.nn.functional.linear(x, layer.weight, layer.bias).equal(made)
        assert torch.addmm(layer.bias, x, layer.weight.T, out=out) is out
        torch.testing.assert_close(out, expected)
