"""torch.testing: what assert_close accepts, and the texts it raises with."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.testing import assert_close, make_tensor

T = torch.tensor
NAN, INF = float("nan"), float("inf")

SAME = [
    (T([1.0, 2.0]), T([1.0, 2.0 + 1e-6]), {}),
    (T([1.0]), T([1]), {"check_dtype": False}),
    (T([NAN]), T([NAN]), {"equal_nan": True}),
    (torch.ones(0), torch.ones(0), {}),
    (torch.ones(2, device="meta"), torch.ones(2, device="meta"), {}),
    ([T(1.0), {"a": 2}], [T(1.0), {"a": 2}], {}),
    (np.ones(2), np.ones(2), {}),
    (None, None, {}),
    (True, True, {}),
    (T([INF]), T([INF]), {}),
    (T([1.0]), T([1.5]), {"rtol": 0.0, "atol": 0.5}),
]
DIFFERENT = [
    (T([1.0, 2, 3]), T([1.0, 2, 4]), {}, "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
     "Greatest absolute difference: 1.0 at index (2,) (up to 1e-05 allowed)\n"
     "Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)"),
    (torch.zeros(2, 2), torch.eye(2) * 1e-3, {}, "Tensor-likes are not close!\n\nMismatched elements: 2 / 4 (50.0%)\n"
     "Greatest absolute difference: 0.0010000000474974513 at index (0, 0) (up to 1e-05 allowed)\n"
     "Greatest relative difference: 1.0 at index (0, 0) (up to 1.3e-06 allowed)"),
    (T(1.0), T(2.0), {}, "Scalars are not close!\n\nExpected 2.0 but got 1.0.\n"
     "Absolute difference: 1.0 (up to 1e-05 allowed)\nRelative difference: 0.5 (up to 1.3e-06 allowed)"),
    (1, 2, {}, "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"),
    (T([1, 2]), T([1, 3]), {}, "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\n"
     "Greatest absolute difference: 1 at index (1,)\nGreatest relative difference: 0.3333333432674408 at index (1,)"),
    (T([1.0]), T([1.0, 2]), {},
     "The values for attribute 'shape' do not match: torch.Size([1]) != torch.Size([2])."),
    (T([1.0]), T([1]), {}, "The values for attribute 'dtype' do not match: torch.float32 != torch.int64."),
    (torch.ones(2, 3).t(), torch.ones(3, 2), {"check_stride": True},
     "The values for attribute 'stride()' do not match: (1, 3) != (2, 1)."),
    (torch.ones(2, device="meta"), torch.ones(2), {}, "The values for attribute 'device' do not match: meta != cpu."),
    ([T(1.0)], [T(1.0), T(3.0)], {}, "The length of the sequences mismatch: 1 != 2"),
    ({"a": T(1.0)}, {"b": T(1.0)}, {}, "The keys of the mappings do not match:\n"
     "Missing keys in the actual mapping: ['b']\nAdditional keys in the actual mapping: ['a']"),
    ({"a": [T(1.0), 1]}, {"a": [T(1.0), 2]}, {}, "Scalars are not equal!\n\nExpected 2 but got 1.\n"
     "Absolute difference: 1\nRelative difference: 0.5\n\nThe failure occurred for item ['a'][1]"),
    (None, T(1.0), {}, "None mismatch: None is not 1.0"),
    (True, False, {}, "Booleans mismatch: True is not False"),
    (T([True]), T([False]), {}, "Tensor-likes are not equal!\n\nMismatched elements: 1 / 1 (100.0%)\n"
     "Greatest absolute difference: 1 at index (0,)\nGreatest relative difference: inf at index (0,)"),
    (T([1.0]), T([2.0]), {"msg": "mine"}, "mine"),
    (T([1]), T([2]), {"msg": lambda text: "mine: " + text[:15]}, "mine: Tensor-likes are"[:21]),
]


@pytest.mark.parametrize("actual, expected, options", SAME)
def test_close(actual, expected, options):
    assert_close(actual, expected, **options)


@pytest.mark.parametrize("actual, expected, options, text", DIFFERENT)
def test_different(actual, expected, options, text):
    with pytest.raises(AssertionError) as raised:
        assert_close(actual, expected, **options)
    assert str(raised.value) == text


def test_values_that_cannot_be_compared():
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type <class 'str'>"):
        assert_close("a", "a")
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified or omitted, but got no atol"):
        assert_close(T([1.0]), T([1.0]), rtol=0.0)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool])
def test_make_tensor(kind):
    made = make_tensor((3, 4), dtype=kind, device="cpu", noncontiguous=True, exclude_zero=kind is not torch.bool)
    assert made.shape == (3, 4) and made.dtype == kind and not made.is_contiguous()
    if kind is not torch.bool:
        assert (made != 0).all()


def test_make_tensor_gives_pytorchs_numbers():
    torch.manual_seed(0)
    assert [round(v, 4) for v in make_tensor(3, dtype=torch.float32, device="cpu").tolist()] == [
        -0.0674,
        4.828,
        -7.4074,
    ]
    assert make_tensor((3,), dtype=torch.int64, device="cpu").tolist() == [-9, 2, -2]


def test_draw_graph(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    result = model(torch.ones(3, 4)).pow(2).mean()
    svg = torch.utils.draw_graph(result, tmp_path / "graph.svg", dict(model.named_parameters()))
    assert (tmp_path / "graph.svg").read_text() == svg
    for text in ("0.weight", "8 x 4", "Relu", "3 x 8", "result", "Pow"):
        assert text in svg
    assert svg.count("<rect") == 1 + 4 + 7 + 1  # ground, parameters, operations, result
    assert svg._repr_svg_() == svg  # what notebooks show


def boxes_of(svg):
    """The names in a picture, with how far the text of each box stands out of it."""
    from xml.etree import ElementTree

    places = [element for element in ElementTree.fromstring(svg).iter() if element.tag.endswith(("rect", "text"))][1:]
    names, box = [], None
    for element in places:
        if element.tag.endswith("rect"):
            box = {key: float(element.get(key)) for key in ("x", "y", "width", "height")}
        else:
            half = len(element.text) * 7.23 / 2  # a character of 12 points in monospace
            middle = float(element.get("x"))
            assert box["x"] <= middle - half and middle + half <= box["x"] + box["width"]
            assert box["y"] + 12 <= float(element.get("y")) <= box["y"] + box["height"] - 3
            if element.get("font-weight") == "bold":
                names.append(element.text)
    return sorted(names)


def test_a_drawing_has_the_operations_that_pytorch_records():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2, bias=False))
    loss = torch.nn.functional.cross_entropy(net(torch.randn(5, 3)), torch.randint(2, (5,)))
    assert boxes_of(torch.utils.draw_graph(loss)) == [
        "Addmm", "LogSoftmax", "Mm", "NllLoss", "T", "T", "Tanh", "leaf", "leaf", "leaf", "result"]
    with_rows = torch.nn.Linear(3, 4)(torch.ones(2, 5, 3))
    assert boxes_of(torch.utils.draw_graph(with_rows)) == ["Addmm", "T", "View", "leaf", "leaf", "result"]
    without_bias = torch.nn.Linear(3, 4, bias=False)(torch.ones(2, 5, 3))
    assert boxes_of(torch.utils.draw_graph(without_bias)) == ["Mm", "T", "UnsafeView", "leaf", "result"]
    several = torch.nn.BatchNorm1d(3)(torch.ones(2, 3)).sum()
    assert boxes_of(torch.utils.draw_graph(several)) == ["NativeBatchNorm", "Sum", "leaf", "leaf", "result"]


def test_draw_graph_of_shared_and_deep_graphs():
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y + x
    svg = torch.utils.draw_graph([y, y * 2])
    assert svg.count(">leaf<") == 1 and "result 1" in svg


# parts of sparse tensors, small types, intervals ---------------------------------------------------------------------


def coo(indices: list, values: list) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, (2, 2))


SPARSE_PAIRS = [
    (coo([[0, 1], [0, 1]], [1, 2]), coo([[0, 1], [1, 0]], [1, 2]), "Sparse COO indices are not equal!"),
    (coo([[0, 1], [0, 1]], [1.0, 2]), coo([[0, 1], [0, 1]], [1.0, 2.5]), "Sparse COO values are not close!"),
    (coo([[0, 0], [0, 0]], [1, 2]), coo([[0], [0]], [3]), "specified values in sparse COO tensors does not match: 2"),
    (torch.sparse_coo_tensor([[0]], [[1, 2]], (2, 2)), coo([[0], [0]], [1]), "sparse dimensions .* not match: 1 != 2"),
    (torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1, 2]), torch.sparse_csr_tensor([0, 0, 2], [0, 1], [1, 2]),
     "Sparse CSR crow_indices are not equal!\n\nMismatched elements: 1 / 3"),
    (torch.sparse_csc_tensor([0, 1, 2], [0, 1], [1, 2]), torch.sparse_csc_tensor([0, 1, 2], [1, 0], [1, 2]),
     "Sparse CSC row_indices are not equal!"),
]  # fmt: skip


@pytest.mark.parametrize(("actual", "expected", "text"), SPARSE_PAIRS, ids=[text[:25] for _, _, text in SPARSE_PAIRS])
def test_sparse_tensors_are_compared_part_by_part(actual: torch.Tensor, expected: torch.Tensor, text: str) -> None:
    assert_close(actual, actual.clone())
    with pytest.raises(AssertionError, match=text):
        assert_close(actual, expected)


def test_small_types_are_compared_bit_by_bit() -> None:
    first, second = (torch.tensor([1.0, last]).to(torch.float8_e4m3fn) for last in (2.0, 3.0))
    assert_close(first, first.clone())
    with pytest.raises(AssertionError, match=r"The first mismatched element is at index \(1,\)\."):
        assert_close(first, second)
    with pytest.raises(AssertionError, match="not supported for bitwise comparison"):
        assert_close(first, second, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_intervals_of_whole_numbers(dtype: torch.dtype) -> None:
    low, high = (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    for outside in ((low - 4, low - 2), (high + 2, high + 4)):
        with pytest.raises(ValueError, match="The value interval specified by"):
            make_tensor(3, dtype=dtype, device="cpu", low=outside[0], high=outside[1])
    last = high - 1 if dtype is torch.int64 else high  # int64's own largest number is never drawn
    assert make_tensor(5, dtype=dtype, device="cpu", low=last, high=last + 1).eq(last).all()
    assert not make_tensor(5, dtype=dtype, device="cpu", low=-0.9, high=0.9).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.complex64], ids=str)
def test_intervals_of_real_numbers(dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    drawn = make_tensor(100, dtype=dtype, device="cpu", low=-float("inf"), high=float("inf"))
    assert drawn.isfinite().all() and drawn.abs().max() > most / 2
    with pytest.raises(ValueError, match="only supports"):
        make_tensor(3, dtype=dtype, device="cpu", low=int(most) * 2, high=int(most) * 4)
    real = drawn.real if dtype.is_complex else drawn
    with pytest.raises(RuntimeError, match="to-from to exceed the limit"):
        real.uniform_(-most, most)
    assert real.uniform_(-most, 0).isfinite().all()
