"""Products of matrices of 8-bit floats with scales: torch._scaled_mm and torch.nn.functional.scaled_mm."""

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F

KINDS = (torch.float8_e4m3fn, torch.float8_e5m2)
TENSOR, ROW = F.ScalingType.TensorWise, F.ScalingType.RowWise


def matrices(left, right):
    torch.manual_seed(0)
    return torch.randn(6, 9).to(left), torch.randn(5, 9).to(right).t()


@pytest.mark.parametrize("left", KINDS)
@pytest.mark.parametrize("right", KINDS)
@pytest.mark.parametrize("out", [None, torch.float32, torch.bfloat16, torch.float8_e5m2])
def test_one_scale_for_a_matrix(left, right, out):
    (a, b), s, t, bias = matrices(left, right), torch.tensor(0.5), torch.tensor([2.0]), torch.arange(5.0)
    made = torch._scaled_mm(a, b, s, t, bias, out_dtype=out)
    wanted = ((a.float() * s) @ (b.float() * t) + bias).to(out or left)
    assert made.dtype is (out or left) and torch.equal(made.float(), wanted.float())
    again = F.scaled_mm(a, b, [s], [TENSOR], t, TENSOR, bias=bias, output_dtype=out)
    assert torch.equal(made.float(), again.float())
    meta = torch._scaled_mm(*(each.to("meta") for each in (a, b, s, t)), out_dtype=out)
    assert meta.shape == made.shape and meta.dtype is made.dtype and meta.stride() == made.stride()


def test_a_scale_for_each_row_and_column():
    (a, b), s, t = matrices(*KINDS), torch.rand(6, 1), torch.rand(1, 5)
    wanted = ((a.float() * s) @ (b.float() * t)).bfloat16()
    assert torch.equal(F.scaled_mm(a, b, s, ROW, t, ROW), wanted)
    assert torch.equal(torch._scaled_mm(a, b, s, t, out_dtype=torch.bfloat16), wanted)


def test_the_result_of_small_floats_has_a_scale():
    a, b, s = torch.ones(2, 32).to(KINDS[0]), torch.ones(32, 3).to(KINDS[0]), torch.tensor(0.5)
    assert torch._scaled_mm(a, b, s, s, scale_result=s).float().unique().tolist() == [16]
    assert torch._scaled_mm(a, b, s, s, scale_result=s, out_dtype=torch.float32).unique().tolist() == [8]
    into = torch.empty(2, 3)
    assert torch._scaled_mm(a, b, s, s, out_dtype=torch.float32, out=into) is into and into[0, 0] == 8


def test_what_is_refused():
    (a, b), s = matrices(*KINDS), torch.tensor(0.5)
    for given in ((a.float(), b, s, s), (a, b.float(), s, s), (a, b, s.double(), s), (a, b, torch.ones(6), s),
                  (a, b, torch.ones(6, 1), torch.ones(1, 4)), (a, b, torch.ones(6, 1), s)):
        with pytest.raises(ValueError, match=r"scale_a should be \(6, 1\) and scale_b should be \(1, 5\)"):
            torch._scaled_mm(*given)
    for left, right in ((ROW, TENSOR), (TENSOR, ROW), (F.ScalingType.BlockWise1x16,) * 2):
        with pytest.raises(ValueError, match="Invalid scaling configuration"):
            F.scaled_mm(a, b, s, left, s, right)
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied \(6x9 and 4x5\)"):
        torch._scaled_mm(a, b[:4], s, s)
    with pytest.raises(RuntimeError, match="mat1 must be a matrix"):
        torch._scaled_mm(a[0], b, s, s)
    with pytest.raises(RuntimeError, match="Bias must be size 5 but got 4"):
        torch._scaled_mm(a, b, s, s, torch.ones(4))
    with pytest.raises(NotImplementedError, match="aten::_scaled_grouped_mm_v2' with arguments from the 'CPU' backend"):
        F.scaled_grouped_mm(a, b, s, TENSOR, s, TENSOR)


def test_names():
    assert repr(ROW) == "<_ScalingType.RowWise: 1>" and int(F.SwizzleType.SWIZZLE_32_4_4) == 1
    assert F.GRID_SAMPLE_PADDING_MODES["reflection"] == 2 and F.GRID_SAMPLE_INTERPOLATION_MODES["bicubic"] == 2
    assert F.boolean_dispatch("flag", 1, False, max, min, "m", "f")([1, 2]) == 1
