"""Attention in blocks is attention composed of ordinary operators, whatever the blocks, masks and layouts."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._ops import attention
from mindtorch_v2.nn.functional import scaled_dot_product_attention


def tensors(*shapes):
    torch.manual_seed(3)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


MASKS = {
    "none": None,
    "causal": None,
    "rows": torch.randn(7, 5, dtype=torch.float64),
    "samples": torch.randn(2, 1, 7, 5, dtype=torch.float64),
    "heads": torch.randn(3, 7, 5, dtype=torch.float64),
    "one row": torch.randn(1, 1, 1, 5, dtype=torch.float64),
    "hidden": torch.rand(2, 3, 7, 5) < 0.5,
    "all hidden": torch.zeros(7, 5, dtype=torch.bool),
}


@pytest.mark.parametrize("scores", [1, 12, 40, 1 << 17])
@pytest.mark.parametrize("mask", MASKS)
def test_blocks_give_the_composed_result(monkeypatch, mask, scores):
    monkeypatch.setattr(attention, "BLOCK_SCORES", scores)
    query, key, value = tensors((2, 3, 7, 4), (2, 3, 5, 4), (2, 3, 5, 6))
    causal = mask == "causal"
    found = scaled_dot_product_attention(query, key, value, MASKS[mask], is_causal=causal, scale=0.7)
    expected = attention._composed(query, key, value, MASKS[mask], causal, 0.7)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    given = torch.randn(found.shape, dtype=torch.float64)
    for got, wanted in zip(torch.autograd.grad(found, (query, key, value), given),
                           torch.autograd.grad(expected, (query, key, value), given), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-11)


def test_a_mask_that_needs_grad_gets_one():
    query, key, value, mask = tensors((2, 3, 4), (2, 5, 4), (2, 5, 4), (3, 5))
    scaled_dot_product_attention(query, key, value, mask).sum().backward()
    assert mask.grad.shape == (3, 5)


@pytest.mark.parametrize(("query", "strides"), [
    (torch.randn(2, 6, 3, 4).transpose(1, 2), (72, 4, 12, 1)),
    (torch.randn(2, 6, 3, 3, 4).permute(2, 0, 3, 1, 4)[0], (72, 4, 12, 1)),  # of queries, keys and values together
    (torch.randn(2, 6, 36)[..., :12].view(2, 6, 3, 4).transpose(1, 2), (72, 4, 12, 1)),
    (torch.randn(6, 2, 3, 4).permute(1, 2, 0, 3), (12, 4, 24, 1)),
    (torch.randn(3, 2, 6, 4).transpose(0, 1), (24, 48, 4, 1)),
    (torch.randn(2, 1, 3, 4).transpose(1, 2), (12, 4, 12, 1)),
    (torch.randn(2, 3, 4, 6).transpose(2, 3), (72, 24, 4, 1)),  # whose tokens are not rows
    (torch.randn(6, 4).expand(2, 3, 6, 4), (72, 24, 4, 1)),
])  # fmt: skip
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_result_lies_as_its_queries_do(query, strides, kind):
    given = torch.empty_strided(query.shape, query.stride(), dtype=kind).copy_(query) if query.stride(0) else query
    made = scaled_dot_product_attention(given, given, given)
    assert all(got == wanted for n, got, wanted in zip(made.shape, made.stride(), strides, strict=True) if n > 1)
    alone = given.double().contiguous()
    expected = scaled_dot_product_attention(alone, alone, alone)
    accuracy = torch.finfo(given.dtype).eps
    np.testing.assert_allclose(made.double().numpy(), expected.numpy(), rtol=4 * accuracy, atol=8 * accuracy)


def test_heads_of_one_element_that_lie_together():
    query = torch.randn(2, 5, 3, 1).transpose(1, 2)
    for _ in range(50):  # until machine code, which rounds otherwise than NumPy, has taken over
        expected = scaled_dot_product_attention(*3 * [query.contiguous()])
        found = scaled_dot_product_attention(query, query, query)
    assert torch.equal(found, expected)


def test_groups_of_query_heads_share_keys():
    query, key, value = tensors((1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2))
    together = scaled_dot_product_attention(query, key, value, enable_gqa=True)
    for head in range(4):
        alone = scaled_dot_product_attention(query[:, head], key[:, head // 2], value[:, head // 2])
        np.testing.assert_allclose(together[:, head].detach().numpy(), alone.detach().numpy(), rtol=1e-12)


def test_no_heads_share_no_keys():
    empty = torch.ones(2, 0, 3, 4)
    assert scaled_dot_product_attention(empty, empty, empty, enable_gqa=True).shape == (2, 0, 3, 4)
    with pytest.raises(RuntimeError, match="must divide the number of heads"):
        scaled_dot_product_attention(torch.ones(2, 2, 3, 4), empty, empty, enable_gqa=True)


def test_dropout_keeps_the_mean():
    torch.manual_seed(0)
    ones = torch.ones(1, 1, 400, 2)
    dropped = scaled_dot_product_attention(ones, ones, ones, dropout_p=0.5)
    assert abs(dropped.mean().item() - 1) < 0.02 and dropped.std().item() > 0


def test_a_whole_attention_layer_in_one_call() -> None:
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x, padding = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, False, False]])
    for average in (True, False):
        wanted = layer(x, x, x, key_padding_mask=padding, average_attn_weights=average)
        made = torch._native_multi_head_attention(
            x, x, x, 8, 2, layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias,
            padding, average_attn_weights=average, mask_type=1)
        for one, other in zip(made, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    query, key, value = torch._transform_bias_rescale_qkv(torch.ones(1, 2, 12), torch.zeros(12), 2)
    assert query.shape == key.shape == value.shape == (1, 2, 2, 2)
    torch.testing.assert_close(query * 2**0.5, key)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (0, 0, 4)])
def test_layers_without_samples_or_places(shape, need_weights):
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(shape, requires_grad=True)
    made, weights = attention(x, x, x, need_weights=need_weights)
    assert made.shape == shape
    assert weights is None if not need_weights else weights.shape == (shape[0], shape[1], shape[1])
    made.sum().backward()
    assert x.grad.shape == shape
    assert torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(x).shape == shape


@pytest.mark.parametrize("heads, groups, tokens", [(4, 4, 8), (4, 2, 8), (1, 1, 1700), (3, 3, 1)])
def test_gradients_lie_token_by_token(heads, groups, tokens):
    shapes = (2, heads, tokens, 16), (2, groups, tokens, 16), (2, groups, tokens, 16)
    for _ in range(6):  # so that compiled code and its repetitions are seen, too
        query, key, value = (torch.randn(shape, requires_grad=True) for shape in shapes)
        out = scaled_dot_product_attention(query, key, value, enable_gqa=heads != groups)
        weight = torch.randn_like(out)
        found = torch.autograd.grad(out, (query, key, value), weight)
        for grad, given in zip(found, (query, key, value), strict=True):
            assert grad.transpose(1, 2).is_contiguous() and grad.shape == given.shape
        many = [x.detach().double().repeat_interleave(heads // x.shape[1], 1).requires_grad_()
                for x in (query, key, value)]
        weights = (many[0] @ many[1].transpose(2, 3) / 4).softmax(-1)
        wanted = torch.autograd.grad(weights @ many[2], many, weight.double())
        for grad, other in zip(found, wanted, strict=True):
            summed = other.unflatten(1, (grad.shape[1], -1)).sum(2)
            torch.testing.assert_close(grad, summed.float(), rtol=1e-3, atol=1e-4)
