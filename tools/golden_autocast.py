"""Writes tests/mindtorch_v2/golden/autocast.json: the types that PyTorch's operators give under autocast, and losses.

Run with PyTorch installed: python tools/golden_autocast.py. For CUDA the types come from fake tensors: no GPU needed.
"""

import contextlib
import json
import pathlib
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

TARGET = pathlib.Path(__file__).parent.parent / "tests" / "mindtorch_v2" / "golden" / "autocast.json"
SETTINGS = (("cpu", "bfloat16"), ("cpu", "float16"), ("cuda", "float16"), ("cuda", "bfloat16"))
# Evaluated in both libraries. `low` is the tensor x in the lower precision, `v` and `lowv` are rows of the two.
EXPRESSIONS = """
x @ x|x @ low|d @ d|i @ i|torch.mm(x, x)|torch.mm(x, low)|torch.mv(x, v)|torch.dot(v, v)|torch.bmm(x1, x1)
torch.addmm(x, x, x)|torch.addmm(low, x, low)|torch.addmv(v, x, v)|torch.addr(x, v, v)|torch.addbmm(x, x1, x1)
torch.baddbmm(x1, x1, x1)|torch.outer(v, v)|torch.inner(x, x)|torch.inner(v, v)|torch.tensordot(x, x)
torch.tensordot(x, x, 1)|torch.einsum("ij,jk->ik", x, x)|torch.einsum("ij,j->i", x, v)|torch.einsum("ij->j", low)
torch.chain_matmul(x, x, x)|torch.linalg.multi_dot([x, x, x])|torch.linalg.vecdot(x, x)|torch.matrix_power(x, 2)
torch.cdist(low, low)|torch.kron(x, low)|F.linear(x, x)|F.linear(low, x, v)|F.linear(x, low)|F.bilinear(x, x, w3)
F.conv1d(seq, seq)|F.conv2d(img, img)|F.conv2d(img, img.to(low.dtype))|F.conv3d(vol, vol)|F.conv_transpose2d(img, img)
F.scaled_dot_product_attention(seq, seq, seq)|F.prelu(x, v1)|F.softmax(low, -1)|F.log_softmax(low, -1)
F.softmax(low, -1, dtype=torch.float64)|F.layer_norm(low, (4,))|F.layer_norm(low, (4,), v, v)|F.rms_norm(low, (4,))
F.group_norm(low, 2)|F.batch_norm(low, v, v)|F.batch_norm(low, None, None, v, v, True)
F.instance_norm(img.to(low.dtype))
F.gelu(low)|F.relu(low)|F.silu(low)|F.softplus(low)|F.dropout(low)|F.normalize(low)|F.cosine_similarity(low, low)
F.embedding(i, x)|F.embedding(i, low)|F.mse_loss(low, low)|F.mse_loss(x, low)|F.l1_loss(low, low)
F.huber_loss(low, low)
F.smooth_l1_loss(low, low)|F.kl_div(low, low)|F.nll_loss(low, i0)|F.cross_entropy(low, i0)|F.cross_entropy(x, x)
F.cross_entropy(low, i0, v)|F.binary_cross_entropy(prob, prob)|F.binary_cross_entropy(prob.to(low.dtype), prob)
F.binary_cross_entropy_with_logits(low, low)|F.cosine_embedding_loss(low, low, v)|F.hinge_embedding_loss(low, low)
F.margin_ranking_loss(lowv, lowv, lowv)|F.multi_margin_loss(low, i0)|F.multilabel_margin_loss(low, i)
F.poisson_nll_loss(low, low)|F.soft_margin_loss(low, low)|F.triplet_margin_loss(low, low, low)
F.gaussian_nll_loss(low, low, prob.to(low.dtype))
F.max_pool2d(img.to(low.dtype), 2)|F.avg_pool2d(img.to(low.dtype), 2)|F.avg_pool3d(vol.to(low.dtype), 2)
F.max_pool3d(vol.to(low.dtype), 2)|F.adaptive_avg_pool2d(img.to(low.dtype), 2)
F.adaptive_avg_pool3d(vol.to(low.dtype), 2)
F.interpolate(img.to(low.dtype), scale_factor=2)|F.interpolate(img.to(low.dtype), scale_factor=2, mode="bilinear")
F.grid_sample(img.to(low.dtype), grid, align_corners=False)|F.pad(seq.to(low.dtype), (1, 1))
F.pad(seq.to(low.dtype), (1, 1), "reflect")|F.pad(seq.to(low.dtype), (1, 1), "replicate")
F.pad(seq.to(low.dtype), (1, 1), "circular")
torch.cat([x, low])|torch.cat([low, low])|torch.cat([low, d])|torch.cat([i, low])|torch.stack([x, low])
torch.stack([low, low])
torch.cat([other, other])|torch.cat([x, other])|torch.cat([other, x])|torch.addcmul(x, low, low)
torch.addcdiv(low, low, low)
torch.atan2(x, low)|torch.cross(x3, x3.to(low.dtype), dim=1)|torch.index_put(x, (i0,), v)
torch.scatter_add(x, 0, i, x)
torch.index_copy(x, 0, i0, low)|x + low|low + low|low * x|low * 2.5|low / low|x ** 2|low ** 2|2.0 ** low|low.square()
low.exp()|low.log()|low.log10()|low.log1p()|low.log2()|low.expm1()|low.acos()|low.asin()|low.tan()|low.cosh()
low.sinh()
low.erfinv()|low.rsqrt()|low.sqrt()|low.reciprocal()|low.sin()|low.tanh()|low.sigmoid()|low.abs()|low.clamp(0, 1)
low.sum()|low.sum(0)|low.sum(dtype=low.dtype)|low.mean()|low.mean(0)|low.prod()|low.prod(0)|low.cumsum(0)
low.cumprod(0)
low.var()|low.std()|low.norm()|low.norm(dim=0)|torch.linalg.norm(low)|torch.linalg.vector_norm(low)
torch.linalg.matrix_norm(low)
low.logsumexp(0)|low.max()|low.amax(0)|low.argmax()|low.sort()|low.topk(2)|torch.dist(low, low)
torch.renorm(low, 2, 0, 1.0)
low.trace()|torch.quantile(low, 0.5)|torch.polar(v, v)|torch.linalg.inv(spd)|torch.linalg.solve(spd, spd)
torch.linalg.qr(spd)
torch.linalg.cholesky(spd)|torch.linalg.svd(spd)|torch.linalg.eigh(spd)|torch.linalg.det(spd)|torch.fft.fft(v)
torch.fft.rfft(v)
torch.mm(x, x, out=torch.empty_like(x))|torch.cat([x, low], out=torch.empty_like(x))|x.clone().addmm_(x, x)
low.float()|low.to(x)
torch.where(x > 0, x, low)|torch.lerp(x, x, 0.5)|x.masked_fill(x > 0, 1)|torch.full_like(low, 2)|torch.zeros(2)
torch.nn.LSTM(4, 3).to(x.device)(seq)|torch.nn.GRU(4, 3).to(x.device)(seq)|torch.nn.RNN(4, 3).to(x.device)(seq)
torch.nn.LSTMCell(4, 3).to(x.device)(x)|torch.nn.GRUCell(4, 3).to(x.device)(x)|torch.nn.RNNCell(4, 3).to(x.device)(x)
torch.nn.MultiheadAttention(4, 2).to(x.device)(seq, seq, seq)
torch.nn.TransformerEncoderLayer(4, 2, 8).to(x.device)(seq)
torch.nn.Bilinear(4, 4, 2).to(x.device)(x, x)|torch.nn.Embedding(4, 4).to(x.device)(i)
torch.nn.BatchNorm1d(4).to(x.device)(x)
""".replace("\n", "|").strip("|").split("|")
# Fake parameters cannot be recorded without CUDA; fake kernels check no types, and those of the CPU lack half ones.
NOT_ON_CUDA = ("torch.nn.", "spd", "index_copy", "avg_pool3d")
AUTOCAST_ERRORS = ("unsafe to autocast", "at::autocast")  # others may be the fake tensors' own


def names(torch, device: str, lower: str) -> dict:
    """The variables of the expressions."""
    x = torch.linspace(0.05, 0.95, 16, device=device).reshape(4, 4)
    low, kind = x.to(getattr(torch, lower)), torch.bfloat16 if lower == "float16" else torch.float16
    return {"torch": torch, "F": torch.nn.functional, "x": x, "low": low, "v": x.select(0, 0),
            "lowv": low.select(0, 0), "d": x.double(), "x1": x.unsqueeze(0), "x3": x.narrow(1, 0, 3),
            "i": torch.arange(4, device=device).repeat(4, 1), "i0": torch.arange(4, device=device),
            "v1": x.select(0, 0).narrow(0, 0, 1), "other": x.to(kind), "prob": x.clone(),
            "spd": (torch.eye(4, device=device) * 4 + x + x.t()).to(low.dtype), "seq": x.reshape(2, 2, 4),
            "img": x.reshape(1, 1, 4, 4), "vol": x.reshape(1, 1, 2, 2, 4), "w3": x.reshape(1, 4, 4),
            "grid": x.reshape(1, 2, 4, 2).to(low.dtype)}


def types(expression: str, variables: dict) -> list[str] | str:
    """The types of an expression's tensors, or its error."""
    try:
        value = eval(expression, dict(variables))
    except RuntimeError as error:
        return f"error: {str(error).splitlines()[0]}"
    flat, left = [], [value]
    while left:
        value = left.pop(0)
        left = [*value, *left] if isinstance(value, (tuple, list)) else left
        flat += [str(value.dtype).removeprefix("torch.")] if hasattr(value, "dtype") else []
    return flat


def losses(torch) -> list[float]:
    """Training under bfloat16 autocast."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
    optimizer, made = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
    x, target = torch.randn(64, 8), torch.randint(4, (64,))
    for _ in range(20):
        with torch.autocast("cpu"):
            loss = torch.nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        made.append(loss.item())
    return made


def main() -> None:
    warnings.simplefilter("ignore")
    table: dict = {}
    for device, lower in SETTINGS:
        with FakeTensorMode() if device == "cuda" else contextlib.nullcontext():
            variables = names(torch, device, lower)
            torch.set_autocast_dtype(device, getattr(torch, lower))
            for expression in EXPRESSIONS:
                if device == "cuda" and any(name in expression for name in NOT_ON_CUDA):
                    continue
                torch.set_autocast_enabled(device, True)
                made = types(expression, variables)
                torch.set_autocast_enabled(device, False)
                if isinstance(made, list) or any(text in made for text in AUTOCAST_ERRORS) or (
                        device == "cpu" and "could not create a primitive" not in made):
                    table.setdefault(f"{device} {lower}", {})[expression] = made
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    TARGET.write_text(json.dumps({"types": table, "losses": losses(torch)}, indent=0) + "\n")
    print({setting: len(rows) for setting, rows in table.items()})


if __name__ == "__main__":
    main()
