"""Programs on simulated chips: 20 steps of training with the CPU's losses; fused operators, counted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from chip_cases import SWEPT

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn
from mindtorch_v2._backends.npu.libraries import Libraries

STEPS = 20
Program = tuple[nn.Module, Callable[[nn.Module, str], torch.Tensor], torch.dtype]


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class Block(nn.Module):
    """A transformer block as language models have it: RMSNorm, causal attention, a gated layer."""

    def __init__(self, width: int = 16, heads: int = 2, words: int = 11) -> None:
        super().__init__()
        self.words, self.heads = nn.Embedding(words, width), heads
        self.before, self.between, self.last = Norm(width), Norm(width), Norm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(2 * width, width, bias=False)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(seen.transpose(1, 2).reshape(batch, length, width))
        gate, value = self.up(self.between(x)).chunk(2, -1)
        return self.head(self.last(x + self.down(F.silu(gate) * value)))


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[0]))


def mlp() -> Program:
    def loss(model: nn.Module, device: str) -> torch.Tensor:
        return F.cross_entropy(model(numbers(12, 8).to(device)), (torch.arange(12) % 4).to(device))

    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), loss, torch.float32


def cnn() -> Program:
    def loss(model: nn.Module, device: str) -> torch.Tensor:
        return F.cross_entropy(model(numbers(4, 2, 8, 8).to(device)), (torch.arange(4) % 3).to(device))

    return (nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
            loss, torch.float32)  # fmt: skip


def transformer() -> Program:
    def loss(model: nn.Module, device: str) -> torch.Tensor:
        words = (torch.arange(18).reshape(3, 6) * 7 % 11).to(device)
        return F.cross_entropy(model(words).float().reshape(18, 11), (words * 3 + 1).reshape(-1) % 11)

    return Block(), loss, torch.bfloat16


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0])


def lstm() -> Program:
    def loss(model: nn.Module, device: str) -> torch.Tensor:
        return F.mse_loss(model(numbers(3, 5, 4).to(device)), numbers(2, 5, 5).to(device)[:1].expand(3, 5, 5))

    return Reader(), loss, torch.float32


def ctc() -> Program:
    def loss(model: nn.Module, device: str) -> torch.Tensor:
        scores = model(numbers(2, 7, 4).to(device)).log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(scores, torch.tensor([[1, 2, 2], [3, 1, 4]]).to(device), (7, 6), (3, 2))

    return Reader(), loss, torch.float32


PROGRAMS = {made.__name__: made for made in (mlp, cnn, transformer, lstm, ctc)}


def losses(name: str, device: str, half: torch.dtype | None = None) -> list[float]:
    """The losses of 20 steps, and of one more look with the network in its other mode."""
    torch.manual_seed(0)
    model, loss, kind = PROGRAMS[name]()
    model = model.to(device=device, dtype=kind if half is None or kind is torch.float32 else half)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    seen = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        made = loss(model, device)
        made.backward()
        optimizer.step()
        seen.append(made.item())
    model.eval()
    with torch.no_grad():
        return [*seen, loss(model, device).item()]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("chip", SWEPT)
def test_twenty_steps(on_chip: Any, chip: str, name: str) -> None:
    """A 310P has no bfloat16: it gets the program in float32, of which it computes the products in float16."""
    half = torch.float32 if chip == "310P" else torch.bfloat16
    with on_chip(chip) as machine:
        got = losses(name, "npu", half)
        assert not machine.violations
    tolerance = 2e-2 if chip == "310P" else 5e-2 if name == "transformer" else 1e-4
    wanted = losses(name, "cpu", half)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    assert wanted[STEPS - 1] < 0.9 * wanted[0]


def test_a_block_uses_flash_attention(npu: Any) -> None:
    losses("transformer", "npu")
    assert npu.calls["aclnnFlashAttentionScore"] == STEPS + 1
    assert npu.calls["aclnnFlashAttentionScoreGrad"] == STEPS
    assert npu.calls["aclnnRmsNorm"] == 3 * (STEPS + 1) and npu.calls["aclnnRmsNormGrad"] == 3 * STEPS
    assert not npu.calls["aclnnSoftmax"]


MASKS: dict[str, Callable[[], torch.Tensor | None]] = {
    "none": lambda: None, "rows": lambda: numbers(5, 6) > 0, "batch": lambda: numbers(2, 1, 1, 6) > -1,
    "heads": lambda: numbers(1, 4, 5, 6) > 0, "hidden": lambda: torch.arange(5)[:, None].expand(5, 6) != 2,
    "added": lambda: numbers(5, 6), "added to heads": lambda: numbers(1, 4, 5, 6),
    "added and hidden": lambda: numbers(2, 1, 5, 6).masked_fill(MASKS["hidden"](), -torch.inf),
    "least": lambda: torch.zeros(2, 1, 5, 6).masked_fill(numbers(2, 1, 5, 6) > 0, torch.finfo(torch.float32).min),
}  # fmt: skip
FLASH = ("aclnnFlashAttentionScore", "aclnnFlashAttentionScoreGrad")


@pytest.mark.parametrize("name", [*MASKS, "causal", "shared"])
@pytest.mark.parametrize("chip", SWEPT)
def test_attention(on_chip: Any, chip: str, name: str) -> None:
    """Masks of each form, causal, keys shared by heads: forward and backward."""
    keys = 2 if name == "shared" else 4
    mask = MASKS[name]() if name in MASKS else None
    inputs = numbers(2, 4, 5, 8), numbers(2, keys, 6, 8), numbers(2, keys, 6, 8)

    def results(device: str) -> list[np.ndarray]:
        q, k, v = leaves = [t.to(device).requires_grad_() for t in inputs]
        made = F.scaled_dot_product_attention(q, k, v, None if mask is None else mask.to(device),
                                              is_causal=name == "causal", enable_gqa=name == "shared")  # fmt: skip
        (made * made).sum().backward()
        return [t.detach().cpu().numpy() for t in (made, *(leaf.grad for leaf in leaves))]

    with on_chip(chip) as machine:
        got = results("npu")
        added = mask is not None and mask.dtype is torch.float32
        assert [machine.calls[symbol + "V2" * added] for symbol in FLASH] == [chip != "310P"] * 2
    for a, b in zip(got, results("cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-2 if chip == "310P" else 1e-4, atol=3e-2 if chip == "310P" else 1e-5)


@pytest.mark.parametrize("name", ["none", "rows", "added", "causal", "shared"])
@pytest.mark.parametrize("chip", SWEPT)
def test_attention_with_dropout(on_chip: Any, chip: str, name: str) -> None:
    """The gradients are those of the weights that were kept in the forward pass: both are linear in the values."""
    keys = 2 if name == "shared" else 4
    mask = MASKS[name]() if name in MASKS else None
    loose = 3e-2 if chip == "310P" else 1e-4

    def seen(q: Any, k: Any, v: Any, p: float) -> Any:
        return F.scaled_dot_product_attention(q, k, v, None if mask is None else mask.to(q.device), p,
                                              is_causal=name == "causal", enable_gqa=name == "shared")  # fmt: skip

    with on_chip(chip) as machine:
        q, k, v = (numbers(2, n, size, 8).to("npu").requires_grad_() for n, size in ((4, 5), (keys, 6), (keys, 6)))
        torch.npu.manual_seed_all(3)
        made = seen(q, k, v, 0.4)
        grad = numbers(*made.shape).to("npu")
        of_query, of_key, of_value = torch.autograd.grad(made, (q, k, v), grad)
        assert [machine.calls[symbol + "V2" * (name == "added")] for symbol in FLASH] == [chip != "310P"] * 2
        assert machine.calls["aclnnDropoutGenMaskV2"] == 1
        torch.npu.manual_seed_all(3)
        again = seen(q, k, v, 0.4)
        np.testing.assert_allclose(again.detach().cpu().numpy(), made.detach().cpu().numpy(), rtol=loose, atol=loose)
        # A weighted sum of values: its derivative times the values is the sum again.
        np.testing.assert_allclose((of_value * v).sum().item(), (made * grad).sum().item(), rtol=loose, atol=0.2)
        step = 1e-2
        for leaf, slope in ((q, of_query), (k, of_key)):
            way = numbers(*leaf.shape).to("npu")
            ends = []
            for sign in (1, -1):
                torch.npu.manual_seed_all(3)
                moved = [(t + sign * step * way if t is leaf else t).detach() for t in (q, k, v)]
                ends.append((seen(*moved, 0.4) * grad).sum().item())
            if chip != "310P":  # whose products are too coarse for a difference
                slopes = (slope * way).sum().item(), (ends[0] - ends[1]) / (2 * step)
                np.testing.assert_allclose(*slopes, rtol=2e-2, atol=2e-2)
        torch.npu.manual_seed_all(4)
        assert not torch.equal(seen(q, k, v, 0.4), made)
        mean = sum(seen(q, k, v, 0.4).detach() for _ in range(60)) / 60
        assert (mean - seen(q, k, v, 0.0)).abs().mean().item() < 0.2


def test_a_cann_without_fused_operators(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an older CANN lacks is composed."""
    found = Libraries.operator_symbol
    missing = ("aclnnFlashAttention", "aclnnForeach", "aclnnGrouped", "aclnnApplyAdamW")
    monkeypatch.setattr(Libraries, "operator_symbol",
                        lambda self, name: None if name.startswith(missing) else found(self, name))  # fmt: skip

    def results(device: str) -> list[torch.Tensor]:
        heads = numbers(2, 4, 5, 8).to(device).requires_grad_()
        made = F.scaled_dot_product_attention(heads, heads, heads, numbers(5, 5).to(device))
        made.sum().backward()
        weight = numbers(3, 4).to(device).requires_grad_()
        weight.grad = weight.detach() * 2
        torch.optim.AdamW([weight]).step()
        product = F.grouped_mm(numbers(8, 4).to(device), numbers(2, 4, 3).to(device),
                               offs=torch.tensor([3, 8], dtype=torch.int32).to(device))  # fmt: skip
        return [t.detach().cpu() for t in (made, heads.grad, weight, product, *torch._foreach_exp([product.detach()]))]

    for a, b in zip(results("npu"), results("cpu"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert not any(name.startswith(missing) for name in npu.calls)


def _visible(mode: int) -> np.ndarray:
    """Which of 6 keys each of 5 queries sees, written out by the figures of CANN's documents; for two samples."""
    i, j = np.arange(5)[:, None], np.arange(6)
    seen = {2: j <= i, 3: j <= i + 1, 4: (j <= i + 1 + 1) & (j >= i + 1 - 2), 6: j <= i + 1}[mode]
    return np.stack([seen | (j < n) for n in (4, 3)]) if mode == 6 else np.stack([seen, seen])


@pytest.mark.parametrize("mode", [2, 3, 4, 6])
def test_sparse_modes(npu: Any, mode: int) -> None:
    from mindtorch_v2 import _torch_npu as torch_npu

    q, k, v = numbers(2, 4, 5, 8), numbers(2, 2, 6, 8), numbers(2, 2, 6, 8)
    shown = torch.from_numpy(_visible(mode))[:, None].expand(2, 4, 5, 6)
    wanted = F.scaled_dot_product_attention(q, k, v, shown, scale=0.3, enable_gqa=True)
    options = {"scale": 0.3, "sparse_mode": mode, "pre_tockens": 2, "next_tockens": 1, "prefix": [4, 3]}
    made = torch_npu.npu_fusion_attention(q.to("npu"), k.to("npu"), v.to("npu"), 4, "BNSD", **options)[0]
    torch.testing.assert_close(made.cpu(), wanted, rtol=1e-4, atol=1e-5)
    assert npu.calls["aclnnFlashAttentionScore"] == 1
    if mode < 6:  # the same in one row of sequences, of which the second is shorter
        rows = [torch.cat([t[0], t[1, :, :n]], 1).transpose(0, 1).to("npu") for t, n in ((q, 4), (k, 5), (v, 5))]
        made = torch_npu.npu_fusion_attention(*rows, 4, "TND", actual_seq_qlen=[5, 9], actual_seq_kvlen=[6, 11],
                                              **options)[0]  # fmt: skip
        second = F.scaled_dot_product_attention(q[1:, :, :4], k[1:, :, :5], v[1:, :, :5], shown[1:, :, :4, :5],
                                                scale=0.3, enable_gqa=True)  # fmt: skip
        joined = torch.cat([wanted[0].transpose(0, 1), second[0].transpose(0, 1)])
        torch.testing.assert_close(made.cpu(), joined, rtol=1e-4, atol=1e-5)


def test_a_module_with_a_mask_and_dropout_uses_flash_attention(npu: Any) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True).to("npu")
    padded = torch.arange(6).expand(3, 6) >= torch.tensor([[4], [6], [5]])
    words = numbers(3, 6, 16).to("npu").requires_grad_()
    causal = nn.Transformer.generate_square_subsequent_mask(6).to("npu")
    for options in ({"src_mask": causal}, {"src_key_padding_mask": padded.to("npu")}):
        layer(words, **options).square().mean().backward()
    assert npu.calls["aclnnFlashAttentionScoreV2"] == npu.calls["aclnnFlashAttentionScoreGradV2"] == 2
    assert npu.calls["aclnnDropoutGenMaskV2"] == 8 and npu.calls["aclnnDropoutDoMask"] == 12
    assert not npu.calls["aclnnSoftmax"]


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("chip", SWEPT)
def test_dropout_keeps_bits(on_chip: Any, chip: str, kind: torch.dtype) -> None:
    """One mask of bits for a forward and a backward pass, of a tensor that is not packed, too."""
    if chip == "310P" and kind is torch.bfloat16:
        return
    with on_chip(chip) as machine:
        x = torch.ones(7, 30, dtype=kind).to("npu").t().requires_grad_()
        made = F.dropout(x, 0.25)
        assert made.stride() == x.stride()
        (grad,) = torch.autograd.grad(made, x, torch.ones_like(made), create_graph=True)
        assert torch.equal(grad, made)
        assert set(made.detach().cpu().float().unique().tolist()) == {0.0, torch.tensor(4 / 3, dtype=kind).item()}
        assert 0.1 < (made == 0).float().mean().item() < 0.4
        assert machine.calls["aclnnDropoutGenMaskV2"] == 1 and machine.calls["aclnnDropoutDoMask"] == 2
        assert not machine.calls["aclnnInplaceBernoulli"]
        wide = F.dropout(torch.ones(50, device="npu", dtype=torch.float64), 0.5)
        assert set(wide.cpu().tolist()) == {0.0, 2.0} and machine.calls["aclnnDropoutGenMaskV2"] == 1
        sample = torch.func.vmap(lambda row: F.dropout(row, 0.5), randomness="different")
        rows = sample(torch.ones(3, 40, device="npu"))
        assert not torch.equal(rows[0], rows[1])
        sample = torch.func.vmap(lambda row: F.dropout(row, 0.5), randomness="same")
        rows = sample(torch.ones(3, 40, device="npu"))
        assert torch.equal(rows[0], rows[1])


@pytest.mark.parametrize("chip", SWEPT)
def test_products_of_groups(on_chip: Any, chip: str) -> None:
    """Of each form of grouped_mm, with a group that is empty and rows that belong to none: forward and backward."""
    from mindtorch_v2 import _torch_npu as torch_npu

    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    forms = ((numbers(8, 4), numbers(3, 4, 5)), (numbers(5, 8), numbers(8, 4)), (numbers(3, 4, 5), numbers(5, 8)))
    loose = 3e-2 if chip == "310P" else 1e-5

    def results(device: str) -> list[torch.Tensor]:
        made = []
        for form in forms:
            left, right = (t.to(device).requires_grad_() for t in form)
            product = F.grouped_mm(left, right, offs=ends.to(device))
            (product * product).sum().backward()
            made += [product.detach().cpu(), left.grad.cpu(), right.grad.cpu()]
        x, weight = numbers(8, 4).to(device).requires_grad_(), numbers(3, 4, 5).to(device).requires_grad_()
        for split, type_, groups in ((3, 0, [2, 2, 8]), (0, 1, [2, 0, 6])):
            parts = torch_npu.npu_grouped_matmul([x], [weight], bias=[numbers(3, 5).to(device)], group_list=groups,
                                                 split_item=split, group_type=0, group_list_type=type_)  # fmt: skip
            made.append(torch.cat(parts).detach().cpu())
        pairs = torch_npu.npu_grouped_matmul([x, x[:3]], [weight[0], weight[1]], bias=[numbers(5).to(device)] * 2)
        sum((p * p).sum() for p in pairs).backward()
        made += [p.detach().cpu() for p in pairs] + [x.grad.cpu(), weight.grad.cpu()]
        return made

    with on_chip(chip) as machine:
        got = results("npu")
        assert machine.calls["aclnnGroupedMatmulV4"] == (0 if chip == "310P" else 14)
    for a, b in zip(got, results("cpu"), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=loose, atol=20 * loose)


def launches(machine: Any) -> int:
    second_phases = (n for n in machine.calls if n.startswith("aclnn") and not n.endswith("GetWorkspaceSize"))
    return sum(machine.calls[name] for name in second_phases)


@pytest.mark.parametrize("kind, most, options", [
    ("AdamW", 3, {}), ("AdamW", 3, {"fused": True}), ("AdamW", 3, {"amsgrad": True}),
    ("AdamW", 3, {"maximize": True, "weight_decay": 0.0}), ("Adam", 3, {}), ("Adam", 4, {"weight_decay": 0.1}),
    ("SGD", 4, {}), ("SGD", 9, {"momentum": 0.9, "weight_decay": 0.1}), ("Adagrad", 12, {}),
])  # fmt: skip
def test_a_step_of_a_hundred_parameters_is_three_launches(npu: Any, kind: str, most: int,
                                                          options: dict[str, Any]) -> None:  # fmt: skip
    """Of Adam's kinds; of the others, as many as of one parameter, and the two that join and part."""
    base = [numbers(i % 4 + 1, 3) for i in range(100)]
    parameters = {d: [b.clone().to(d).requires_grad_() for b in base] for d in ("cpu", "npu")}
    optimizers = {d: getattr(torch.optim, kind)(p, lr=0.01, **options) for d, p in parameters.items()}
    for step in range(5):
        for device, optimizer in optimizers.items():
            for p in parameters[device]:
                p.grad = (p.detach() * 0.5 + step).clone()
            if step == 3:  # somebody else writes to a parameter, and gives another other memory
                parameters[device][7].data.mul_(0.5)
                parameters[device][8].data = parameters[device][8].detach() * 2
            before = launches(npu)
            optimizer.step()
            if device == "npu" and step:
                assert launches(npu) - before <= most
    for a, b in zip(*parameters.values(), strict=True):
        np.testing.assert_allclose(b.detach().cpu().numpy(), a.detach().numpy(), rtol=1e-5, atol=1e-6)
    states = {d: optimizer.state_dict()["state"] for d, optimizer in optimizers.items()}
    for name, value in states["npu"].get(50, {}).items():
        if value is not None:
            wanted = states["cpu"][50][name]
            assert value.shape == wanted.shape
            np.testing.assert_allclose(value.cpu().numpy(), wanted.numpy(), rtol=1e-4)  # betas are C floats


def test_a_step_goes_on_after_loading_and_with_fewer_gradients(npu: Any) -> None:
    parameters = {d: [numbers(3, 2).to(d).requires_grad_() for _ in range(4)] for d in ("cpu", "npu")}
    optimizers = {d: torch.optim.Adam(p, lr=0.1, weight_decay=0.1, fused=True) for d, p in parameters.items()}
    for step in range(6):
        for device, optimizer in optimizers.items():
            for i, p in enumerate(parameters[device]):
                p.grad = None if step == 2 and i == 1 else p.detach() + 1
            optimizer.step()
            if step == 3:
                optimizer.load_state_dict(optimizer.state_dict())
    for a, b in zip(*parameters.values(), strict=True):
        np.testing.assert_allclose(b.detach().cpu().numpy(), a.detach().numpy(), rtol=1e-5, atol=1e-6)
