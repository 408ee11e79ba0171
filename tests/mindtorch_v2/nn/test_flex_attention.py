"""flex_attention, its block masks and causal biases; what is compared with here is what PyTorch 2.13 gives."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn import functional as F
from mindtorch_v2.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left
from mindtorch_v2.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)


def causal(b, h, q, k):
    return q >= k


def banded(b, h, q, k):
    return (q - k).abs() < 30 * (h + 1) + b * 64


@pytest.fixture
def several():
    return create_block_mask(banded, 2, 3, 256, 384, BLOCK_SIZE=64)


def test_blocks_that_are_shown_in_part_and_whole():
    mask = create_block_mask(causal, None, None, 300, 500)
    assert mask.shape == (1, 1, 300, 500) and mask.seq_lengths == (300, 500) and mask.BLOCK_SIZE == (128, 128)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.kv_indices.tolist() == [[[[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 2, 3]]]]
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1, 0]]] and mask.full_q_num_blocks.tolist() == [[[1, 0, 0, 0]]]
    assert mask.q_indices.tolist() == [[[[0, 2, 1], [1, 2, 0], [2, 0, 1], [0, 1, 2]]]]
    assert mask.full_q_indices.tolist() == [[[[1, 0, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]]]
    assert mask.kv_indices.dtype == mask.q_num_blocks.dtype == mask.to_dense().dtype == torch.int32
    assert mask.to_dense().tolist() == [[[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]]]
    assert mask.numel() == 150000 and mask.sparsity() == pytest.approx(34.464)
    together = create_block_mask(causal, None, None, 256, 256, BLOCK_SIZE=64, separate_full_blocks=False)
    assert together.full_kv_indices is None and together.kv_num_blocks.tolist() == [[[1, 2, 3, 4]]]


def test_a_mask_of_few_places_is_less_than_a_block():
    mask = create_block_mask(causal, None, None, 6, 6)
    assert str(mask) == "BlockMask(shape=(1, 1, 6, 6), sparsity=-45411.11%, \n(0, 0)\n██\n)"


def test_pictures(several):
    assert several.to_string(grid_size=(2, 3), limit=1).splitlines()[:3] == ["(0, 0)", "██░░  ", "░░██░░"]
    assert several.to_string(limit=2).endswith("To print out more, set BlockMask.to_string(limit=N)\nYou can also "
                                               "index (BlockMask[batch, head]) to choose a specific batch or head")
    mask = create_block_mask(causal, None, None, 300, 500)
    assert mask.to_string(grid_size=2) == "(0, 0)\n░░  \n██░░\n"
    assert mask.to_string(grid_size=-1) == "(0, 0)\n██      \n████    \n██████  \n"
    assert str(mask).startswith("BlockMask(shape=(1, 1, 300, 500), sparsity=34.46%, \n(0, 0)\n██")
    assert repr(mask).endswith("    BLOCK_SIZE=(128, 128),\n    shape=(1, 1, 300, 500),\n    sparsity=34.46%,\n"
                               "    mask_mod=causal\n)")


@pytest.mark.parametrize("index, shape, sparsity", [
    (0, (1, 3, 256, 384), 45.8333), ((0, 1), (1, 1, 256, 384), 54.1667), ((slice(None), 1), (2, 1, 256, 384), 41.6667),
    ((0, 0, 0), (1, 1, 256, 384), 91.6667), (-1, (1, 3, 256, 384), 23.6111), (..., (2, 3, 256, 384), 34.7222)])
def test_parts_of_a_mask(several, index, shape, sparsity):
    part = several[index]
    assert part.shape == shape and part.sparsity() == pytest.approx(sparsity, abs=1e-4)
    assert part.q_indices is not None
    with pytest.raises(RuntimeError, match="Cannot use mask_mod from a sliced BlockMask"):
        create_mask(part.mask_mod, 1, 1, 4, 4)


def test_masks_of_given_blocks():
    counts, indices = torch.tensor([[[1, 2]]], dtype=torch.int32), torch.tensor([[[[0, 1], [0, 1]]]], dtype=torch.int32)
    mask = BlockMask.from_kv_blocks(counts, indices, mask_mod=causal)
    assert mask.shape == (1, 1, 256, 256) and mask.full_kv_indices is None
    assert mask.q_num_blocks.tolist() == [[[2, 1]]] and mask.q_indices.tolist() == [[[[0, 1], [1, 0]]]]
    assert BlockMask.from_kv_blocks(counts, indices, compute_q_blocks=False).q_indices is None
    with pytest.raises(AssertionError, match="full_kv_num_blocks and full_kv_indices must be both provided or omitted"):
        BlockMask.from_kv_blocks(counts, indices, counts)
    with pytest.raises(RuntimeError, match="BlockMask must have at least 2 dimensions"):
        BlockMask.from_kv_blocks(torch.ones(2), torch.ones(2))
    assert len(mask.as_tuple()) == 13 and mask.as_tuple(flatten=False)[0] == (256, 256)


def test_a_mask_cut_to_the_corner():
    mask = create_block_mask(causal, None, None, 256, 384, BLOCK_SIZE=64)._adjust(100, 200)
    assert mask.shape == (1, 1, 100, 200) and mask.kv_indices.shape == (1, 1, 2, 4)
    assert mask.kv_num_blocks.tolist() == [[[1, 1]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1]]]
    assert mask.q_num_blocks.tolist() == [[[1, 1, 0, 0]]] and mask.sparsity() == pytest.approx(38.56)


def test_functions_of_places():
    assert create_mask(and_masks(causal, banded), 1, 2, 40, 40).sum((-1, -2)).tolist() == [[765, 820]]
    assert create_mask(or_masks(causal, banded), 1, 1, 40, 40).sum().item() == 1545
    hidden = create_mask(lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")), 1, 1, 2, 2)
    assert hidden.tolist() == [[[[True, False], [True, True]]]]
    with pytest.raises(RuntimeError, match="All inputs should be callable mask_mods"):
        and_masks(causal, 1)
    with pytest.raises(AssertionError, match="Expected 4 or 5 positional args, got 2"):
        create_block_mask(lambda q, k: q >= k, None, None, 4, 4)


def test_attention_under_block_masks():
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    mask = create_block_mask(causal, None, None, 6, 6)
    wanted = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert torch.allclose(flex_attention(q, k, v, block_mask=mask, enable_gqa=True), wanted, atol=1e-6)
    nothing = create_block_mask(lambda b, h, q, k: (q < 0) & (k < 0), None, None, 6, 6)
    result, total = flex_attention(q, q, q, block_mask=nothing, return_lse=True)
    assert not result.any() and torch.isneginf(total).all()
    assert flex_attention(q.double(), q.double(), q.double(), return_lse=True)[1].dtype == torch.float64


@pytest.mark.parametrize("call, error, text", [
    (lambda q: flex_attention(q[0], q, q), NotImplementedError, "NYI: query, key, and value must be 4D tensors"),
    (lambda q: flex_attention(q, q[:, :1], q[:, :1]), ValueError, "same number of heads but got Hq=4 and Hkv=1. Try"),
    (lambda q: flex_attention(q[:, :3], q[:, :2], q[:, :2], enable_gqa=True), ValueError, "to be a multiple of kv"),
    (lambda q: flex_attention(q[:1], q, q), ValueError, "block_mask=None, Bq=1, and Bkv=2."),
    (lambda q: flex_attention(q, q[..., :2], q), ValueError, "same embedding dimension but got E=8 and E=2."),
    (lambda q: flex_attention(q, q, q, block_mask=create_block_mask(causal, None, None, 4, 4)), ValueError,
     "created for a smaller length than you're using it for"),
    (lambda q: flex_attention(q, q, q, block_mask=create_block_mask(causal, None, None, 9, 9)), ValueError,
     r"calling block_mask._adjust\(q_len, kv_len\)"),
    (lambda q: flex_attention(q[:1], q, q, block_mask=create_block_mask(causal, None, None, 6, 6)), RuntimeError,
     "Bq and Bkv must broadcast. Got Bq=1 and Bkv=2"),
    (lambda q: flex_attention(q, q[:1], q[:1], block_mask=create_block_mask(causal, None, None, 6, 6)), ValueError,
     "but got Bq=2, Bkv=1, B_block_mask=1."),
    (lambda q: flex_attention(q, q, q, return_lse=True, return_aux=AuxRequest(lse=True)), ValueError,
     "Cannot specify both return_lse and return_aux")])
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(torch.ones(2, 4, 6, 8))


def test_keys_of_one_sample_for_a_mask_of_several():
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 6, 8), torch.randn(1, 4, 6, 8)
    mask = create_block_mask(causal, 2, None, 6, 6)
    wanted = F.scaled_dot_product_attention(q, k.expand(2, -1, -1, -1), k.expand(2, -1, -1, -1), is_causal=True)
    assert torch.allclose(flex_attention(q, k, k, block_mask=mask), wanted, atol=1e-6)


def test_causal_biases():
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 6, 4)
    bias = causal_lower_right(3, 6)
    assert (bias.variant, bias.seq_len_q, bias.seq_len_kv) == (CausalVariant.LOWER_RIGHT, 3, 6)
    visible = torch.ones(3, 6, dtype=torch.bool).tril(3)
    assert repr(bias) == repr(visible)
    made = F.scaled_dot_product_attention(q, k, k, attn_mask=bias)
    assert type(made) is torch.Tensor
    assert torch.equal(made, F.scaled_dot_product_attention(q, k, k, visible))
    upper = F.scaled_dot_product_attention(q, k, k, causal_upper_left(3, 6))
    assert torch.allclose(upper, F.scaled_dot_product_attention(q, k, k, is_causal=True))
    for given in ({"attn_mask": bias, "is_causal": True}, {"attn_mask": bias, "dropout_p": 0.0, "is_causal": True}):
        with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
            F.scaled_dot_product_attention(q, k, k, **given)
    with pytest.raises(AssertionError, match="causal_lower_right only supports 2D tensors"):
        causal_lower_right(3, 6, 7)
    with pytest.raises(AssertionError, match="variant must be a CausalVariant, got int"):
        CausalBias(1, 2, 3)
    with pytest.warns(UserWarning, match="will produce NaNs in the output when seq_len_q > seq_len_kv"):
        causal_lower_right(8, 4)
