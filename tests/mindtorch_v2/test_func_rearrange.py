"""torch.func.rearrange: what PyTorch gives for the same patterns."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.func import rearrange

x = torch.arange(96.0).reshape(2, 3, 4, 4)


@pytest.mark.parametrize(("pattern", "lengths", "shape", "stride", "total"), [
    ("b c h w -> b h w c", {}, (2, 4, 4, 3), (48, 4, 1, 16), 101),
    ("b c ... -> (b c) ...", {}, (6, 4, 4), (16, 4, 1), 21),
    ("b c (h i) (w j) -> b (c i j) h w", {"i": 2, "j": 2}, (2, 12, 2, 2), (48, 4, 2, 1), 33),
    ("b c h w -> 1 b c h w 1", {}, (1, 2, 3, 4, 4, 1), (96, 48, 16, 4, 1, 1), 21),
    ("b c ... -> ... (c b)", {}, (4, 4, 6), (24, 6, 1), 241),
    ("... -> (...)", {}, (96,), (1,), 21),
    ("b ... w -> w ... b", {}, (4, 3, 4, 2), (1, 16, 4, 48), 180),
    ("b c h w -> (w h) (c b)", {}, (16, 6), (6, 1), 244),
    ("b 1 h w -> b h w", {}, (2, 4, 4), (16, 4, 1), 399),
    ("b c (1 h) w -> b c h w", {}, (2, 3, 4, 4), (48, 16, 4, 1), 21),
])  # fmt: skip
def test_patterns(pattern, lengths, shape, stride, total):
    made = rearrange(x, pattern, **lengths)
    assert made.shape == shape and made.stride() == stride and made.flatten()[:7].sum() == total


def test_several_tensors_and_gradients():
    a = torch.randn(2, 3, requires_grad=True)
    made = rearrange([a, a * 2], "n i j -> j (n i)")
    assert made.shape == (3, 4)
    made.sum().backward()
    assert torch.equal(a.grad, torch.full((2, 3), 3.0))
    assert rearrange(torch.tensor(3.0), " -> ").shape == ()
    assert rearrange(torch.ones(2, 1, 3), "a 1 b -> b a").shape == (3, 2)
    assert rearrange(torch.zeros(0, 3), "(a b) c -> a b c", b=2).shape == (0, 2, 3)


@pytest.mark.parametrize(("pattern", "lengths", "kind", "text"), [
    ("b c -> c b", {}, "ValueError", "dimensions in pattern (2) must be equal"),
    ("b c d e f ... -> b c d e f ...", {}, "ValueError", "pattern (5) must be less than or equal"),
    ("b c h w -> b c h", {}, "ValueError", "(should be on both): {'w'}"),
    ("b b h w -> b h w", {}, "ValueError", "duplicate dimension 'b'"),
    ("b c (h i) w -> b c h i w", {}, "DimensionBindError", "two dimensions at once d2 and d3"),
    ("b c (h i) w -> b c h i w", {"i": 3}, "DimensionBindError", "evenly fit into larger dimension: 4 vs ('?', 3)"),
    ("b c (h i) w -> b c h i w", {"h": 2, "i": 3}, "DimensionBindError", "(4 != 6) when matching dimension pack"),
    ("b c h w -> b c w h", {"h": 5}, "DimensionBindError", "(4 != 5) when matching dimension pack (d2,)"),
    ("b c h w", {}, "ValueError", "single '->' separator"),
    ("b c h w -> (b c) (h w)", {"z": 1}, "ValueError", "expression: {'z'}"),
    ("b c h (w ->", {}, "ValueError", "Imbalanced parentheses in expression: 'b c h (w '"),
    ("b c h-w w -> b c", {}, "ValueError", "character '-'"),
    ("b 3 h w -> b h w", {}, "ValueError", "unnamed axes of size 1"),
    ("b _ h w -> b _ h w", {}, "ValueError", "Invalid axis identifier: _"),
    ("(...) b -> ... b", {}, "ValueError", "in the left side is not allowed"),
    ("b c h w -> b c ... h w", {}, "ValueError", "Ellipsis found in right"),
    ("b .. -> b", {}, "ValueError", "dots only inside"),
    ("((b c) h) w -> b c h w", {}, "ValueError", "one-level"),
    ("b c) h w -> b", {}, "ValueError", "not balanced"),
    ("b 0 h w -> b h w", {}, "ValueError", "positive length, not 0"),
    ("b c h w -> b c h w", {"h": 2.0}, "TypeError", "got: <class 'float'>"),
])  # fmt: skip
def test_what_does_not_fit(pattern, lengths, kind, text):
    with pytest.raises(Exception) as raised:
        rearrange(x, pattern, **lengths)
    assert type(raised.value).__name__ == kind and text in str(raised.value)
