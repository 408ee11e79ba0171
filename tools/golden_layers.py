"""Writes tests/mindtorch_v2/golden/layers.npz: what the real PyTorch's layers are and give for a seed.

Run it where PyTorch is installed: python tools/golden_layers.py
"""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "tests" / "mindtorch_v2" / "golden" / "layers.npz"

# How a layer is made -> the arguments of a call: r(shape) are normal numbers, p(shape) numbers between 0 and 1,
# i(shape, high) integers below `high`. With Module classes that need no numbers (containers) left out.
LAYERS: dict[str, str] = {
    # activations
    "nn.CELU(1.5)": "r(3, 4)",
    "nn.ELU(1.5)": "r(3, 4)",
    "nn.GELU('tanh')": "r(3, 4)",
    "nn.GLU(0)": "r(4, 3)",
    "nn.Hardshrink(0.4)": "r(3, 4)",
    "nn.Hardsigmoid()": "4 * r(3, 4)",
    "nn.Hardswish()": "4 * r(3, 4)",
    "nn.Hardtanh(-0.5, 0.7)": "r(3, 4)",
    "nn.LeakyReLU(0.2)": "r(3, 4)",
    "nn.LogSigmoid()": "r(3, 4)",
    "nn.LogSoftmax(1)": "r(3, 4)",
    "nn.Mish()": "r(3, 4)",
    "nn.MultiheadAttention(8, 2, dropout=0.2)": "r(4, 3, 8), r(5, 3, 8), r(5, 3, 8)",
    "nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, kdim=4, vdim=6, batch_first=True)":
        "r(3, 4, 8), r(3, 5, 4), r(3, 5, 6)",
    "nn.PReLU(4)": "r(3, 4)",
    "nn.RReLU(0.1, 0.4)": "r(3, 4)",
    "nn.ReLU()": "r(3, 4)",
    "nn.ReLU6()": "5 * r(3, 4)",
    "nn.SELU()": "r(3, 4)",
    "nn.SiLU()": "r(3, 4)",
    "nn.Sigmoid()": "r(3, 4)",
    "nn.Softmax(0)": "r(3, 4)",
    "nn.Softmax2d()": "r(2, 3, 2, 2)",
    "nn.Softmin(1)": "r(3, 4)",
    "nn.Softplus(2.0, 3.0)": "r(3, 4)",
    "nn.Softshrink(0.3)": "r(3, 4)",
    "nn.Softsign()": "r(3, 4)",
    "nn.Tanh()": "r(3, 4)",
    "nn.Tanhshrink()": "r(3, 4)",
    "nn.Threshold(0.1, 20.0)": "r(3, 4)",
    # linear, flatten, embeddings, distances
    "nn.Bilinear(3, 4, 2)": "r(5, 3), r(5, 4)",
    "nn.Identity(54, unused=True)": "r(3, 4)",
    "nn.LazyLinear(3)": "r(2, 4)",
    "nn.Linear(4, 3, bias=False)": "r(2, 4)",
    "nn.Flatten(0, 1)": "r(2, 3, 4)",
    "nn.Unflatten(1, (2, 3))": "r(2, 6)",
    "nn.Embedding(6, 3, padding_idx=-2)": "i((2, 4), 6)",
    "nn.EmbeddingBag(6, 3)": "i((2, 4), 6)",
    "nn.EmbeddingBag(6, 3, mode='sum', padding_idx=1)": "i((5,), 6), i((3,), 1), r(5)",
    "nn.EmbeddingBag(6, 3, mode='max', max_norm=1.0)": "i((2, 4), 6)",
    "nn.CosineSimilarity(0)": "r(3, 4), r(3, 4)",
    "nn.PairwiseDistance(1.0, keepdim=True)": "r(3, 4), r(3, 4)",
    # dropout
    "nn.AlphaDropout(0.3)": "r(3, 4)",
    "nn.Dropout(0.4)": "r(3, 4)",
    "nn.Dropout1d(0.4)": "r(3, 4, 2)",
    "nn.Dropout2d(0.4)": "r(3, 4, 2, 2)",
    "nn.Dropout3d(0.4)": "r(3, 4, 2, 2, 2)",
    "nn.FeatureAlphaDropout(0.3)": "r(3, 4, 2)",
    # normalisation
    "nn.BatchNorm1d(3)": "r(4, 3, 2)",
    "nn.BatchNorm2d(3, momentum=None, affine=False)": "r(2, 3, 2, 2)",
    "nn.BatchNorm3d(3, track_running_stats=False)": "r(2, 3, 2, 2, 1)",
    "nn.SyncBatchNorm(3, eps=1e-3)": "r(4, 3)",
    "nn.InstanceNorm1d(3)": "r(2, 3, 4)",
    "nn.InstanceNorm2d(3, affine=True, track_running_stats=True)": "r(2, 3, 2, 2)",
    "nn.InstanceNorm3d(3, affine=True)": "r(3, 2, 2, 2)",
    "nn.LazyBatchNorm1d()": "r(4, 3)",
    "nn.LazyBatchNorm2d()": "r(2, 3, 2, 2)",
    "nn.LazyBatchNorm3d()": "r(2, 3, 2, 2, 1)",
    "nn.LazyInstanceNorm1d()": "r(2, 3, 4)",
    "nn.LazyInstanceNorm2d()": "r(2, 3, 2, 2)",
    "nn.LazyInstanceNorm3d()": "r(2, 3, 2, 2, 2)",
    "nn.GroupNorm(2, 4, eps=1e-3)": "r(2, 4, 3)",
    "nn.LayerNorm((3, 4), bias=False)": "r(2, 3, 4)",
    "nn.LocalResponseNorm(3, 0.1)": "r(2, 4, 2)",
    "nn.CrossMapLRN2d(2, 0.1)": "r(2, 4, 2, 2).detach()",
    "nn.RMSNorm(4)": "r(2, 4)",
    # recurrent
    "nn.GRU(3, 4, 2, dropout=0.3)": "r(5, 2, 3)",
    "nn.GRUCell(3, 4, bias=False)": "r(2, 3)",
    "nn.LSTM(3, 4, bidirectional=True, proj_size=2, batch_first=True)": "r(2, 5, 3)",
    "nn.LSTM(3, 4, 2)": "nn.utils.rnn.pack_sequence([r(2, 3), r(4, 3), r(1, 3)], enforce_sorted=False)",
    "nn.LSTMCell(3, 4)": "r(2, 3)",
    "nn.RNN(3, 4, nonlinearity='relu')": "r(5, 3)",
    "nn.RNNCell(3, 4)": "r(3)",
    # transformers
    "nn.Transformer(8, 2, 1, 1, 16)": "r(5, 2, 8), r(4, 2, 8)",
    "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)": "r(2, 5, 8)",
    "nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, bias=False)": "r(5, 2, 8)",
    "nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2, nn.LayerNorm(8))": "r(4, 2, 8), r(5, 2, 8)",
    "nn.TransformerDecoderLayer(8, 2, 16, activation='gelu')": "r(4, 2, 8), r(5, 2, 8)",
    # losses
    "nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4, 7], div_value=2.0)": "r(5, 8), i((5,), 10)",
    "nn.BCELoss()": "p(3, 4), p(3, 4)",
    "nn.BCEWithLogitsLoss(pos_weight=2 * torch.ones(4))": "r(3, 4), p(3, 4)",
    "nn.CTCLoss(2)": "r(6, 2, 5).log_softmax(2), torch.tensor([[1, 1, 4], [0, 3, 2]]), (6, 4), (3, 2)",
    "nn.CosineEmbeddingLoss(0.1)": "r(2, 4), r(2, 4), torch.tensor([1, -1])",
    "nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0, 4.0]), label_smoothing=0.1)": "r(5, 4), i((5,), 4)",
    "nn.GaussianNLLLoss(full=True)": "r(3, 4), r(3, 4), p(3, 4)",
    "nn.HingeEmbeddingLoss(reduction='none')": "r(4), torch.tensor([1.0, -1.0, 1.0, -1.0])",
    "nn.HuberLoss(delta=0.4)": "r(3, 4), r(3, 4)",
    "nn.KLDivLoss(reduction='batchmean', log_target=True)": "r(3, 4), r(3, 4)",
    "nn.L1Loss(reduction='sum')": "r(3, 4), r(3, 4)",
    "nn.LinearCrossEntropyLoss(4, 3, bias=True)": "r(5, 4), i((5,), 3)",
    "nn.MSELoss()": "r(3, 4), r(3, 4)",
    "nn.MarginRankingLoss(0.2)": "r(4), r(4), torch.tensor([1.0, -1.0, 1.0, -1.0])",
    "nn.MultiLabelMarginLoss()": "r(2, 4), torch.tensor([[3, 0, -1, 1], [2, -1, 0, 0]])",
    "nn.MultiLabelSoftMarginLoss()": "r(2, 4), i((2, 4), 2).float()",
    "nn.MultiMarginLoss(2, 0.5)": "r(3, 4), i((3,), 4)",
    "nn.NLLLoss(ignore_index=1)": "r(5, 4), i((5,), 4)",
    "nn.NLLLoss2d()": "r(2, 4, 3, 3), i((2, 3, 3), 4)",
    "nn.PoissonNLLLoss(full=True)": "r(3, 4), 4 * p(3, 4)",
    "nn.SmoothL1Loss(beta=0.5)": "r(3, 4), r(3, 4)",
    "nn.SoftMarginLoss()": "r(3, 4), i((3, 4), 2).float() * 2 - 1",
    "nn.TripletMarginLoss(swap=True)": "r(3, 4), r(3, 4), r(3, 4)",
    "nn.TripletMarginWithDistanceLoss(margin=0.5)": "r(3, 4), r(3, 4), r(3, 4)",
    # images
    "nn.ChannelShuffle(2)": "r(1, 4, 2, 2)",
    "nn.Conv1d(3, 4, 2)": "r(2, 3, 5)",
    "nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, padding_mode='reflect')": "r(2, 4, 5, 5)",
    "nn.Conv3d(2, 3, 2, bias=False)": "r(1, 2, 3, 3, 3)",
    "nn.ConvTranspose1d(3, 4, 2, stride=2)": "r(2, 3, 5)",
    "nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1)": "r(2, 3, 4, 4)",
    "nn.ConvTranspose3d(2, 3, 2)": "r(1, 2, 3, 3, 3)",
    "nn.LazyConv1d(4, 2)": "r(2, 3, 5)",
    "nn.LazyConv2d(4, 2)": "r(2, 3, 4, 4)",
    "nn.LazyConv3d(4, 2)": "r(1, 2, 3, 3, 3)",
    "nn.LazyConvTranspose1d(4, 2)": "r(2, 3, 5)",
    "nn.LazyConvTranspose2d(4, 2)": "r(2, 3, 4, 4)",
    "nn.LazyConvTranspose3d(4, 2)": "r(1, 2, 3, 3, 3)",
    "nn.Fold((4, 5), (2, 2))": "r(1, 8, 12)",
    "nn.Unfold(2, padding=1)": "r(1, 2, 3, 4)",
    "nn.PixelShuffle(2)": "r(1, 8, 2, 2)",
    "nn.PixelUnshuffle(2)": "r(1, 2, 4, 4)",
    "nn.Upsample(scale_factor=2, mode='bilinear')": "r(1, 2, 3, 3)",
    "nn.UpsamplingBilinear2d(scale_factor=2)": "r(1, 2, 3, 3)",
    "nn.UpsamplingNearest2d(size=(5, 4))": "r(1, 2, 3, 3)",
    "nn.AdaptiveAvgPool1d(2)": "r(1, 2, 5)",
    "nn.AdaptiveAvgPool2d((2, None))": "r(1, 2, 5, 3)",
    "nn.AdaptiveAvgPool3d(1)": "r(1, 2, 3, 2, 2)",
    "nn.AdaptiveMaxPool1d(2)": "r(1, 2, 5)",
    "nn.AdaptiveMaxPool2d(2, return_indices=True)": "r(1, 2, 5, 3)",
    "nn.AdaptiveMaxPool3d(2)": "r(1, 2, 3, 3, 3)",
    "nn.AvgPool1d(2)": "r(1, 2, 5)",
    "nn.AvgPool2d(3, 2, 1, count_include_pad=False)": "r(1, 2, 5, 5)",
    "nn.AvgPool3d(2)": "r(1, 2, 3, 4, 4)",
    "nn.FractionalMaxPool2d(2, output_size=2)": "r(1, 2, 5, 5)",
    "nn.FractionalMaxPool3d(2, output_ratio=0.5)": "r(1, 2, 4, 4, 4)",
    "nn.LPPool1d(2, 2)": "r(1, 2, 5)",
    "nn.LPPool2d(2, 2)": "r(1, 2, 4, 4)",
    "nn.LPPool3d(2, 2)": "r(1, 2, 4, 4, 4)",
    "nn.MaxPool1d(2)": "r(1, 2, 5)",
    "nn.MaxPool2d(3, 2, 1, ceil_mode=True)": "r(1, 2, 6, 6)",
    "nn.MaxPool3d(2, return_indices=True)": "r(1, 2, 4, 4, 4)",
    "nn.MaxUnpool1d(2)": "r(1, 1, 2), torch.tensor([[[1, 2]]])",
    "nn.MaxUnpool2d(2)": "r(1, 1, 1, 2), torch.tensor([[[[1, 6]]]])",
    "nn.MaxUnpool3d(2)": "r(1, 1, 1, 1, 2), torch.tensor([[[[[1, 6]]]]])",
    **{f"nn.{kind}Pad{rank}d({1 if kind != 'Constant' else '1, 0.5'})": f"r(1, 2{', 3' * rank})"
       for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero") for rank in (1, 2, 3)},
}


def _makers(torch: ModuleType) -> dict[str, Any]:
    rng = np.random.default_rng(3)

    def tensor(values: np.ndarray) -> Any:
        made = torch.tensor(values.tolist())
        return made.requires_grad_() if made.is_floating_point() else made

    return {"torch": torch, "nn": torch.nn, "r": lambda *shape: tensor(rng.standard_normal(shape).astype(np.float32)),
            "p": lambda *shape: tensor(rng.uniform(0.1, 0.9, shape).astype(np.float32)),
            "i": lambda shape, high: tensor(rng.integers(0, high, shape))}


def tensors_in(torch: ModuleType, value: Any) -> list[Any]:
    """The tensors of nested tuples and lists, in order."""
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in tensors_in(torch, part)]
    return [value] if isinstance(value, torch.Tensor) else []


def run(torch: ModuleType, layer: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What a layer is (names, texts, shapes), and its numbers: state, outputs in and after training, gradients."""
    torch.manual_seed(11)
    makers = _makers(torch)
    module = eval(layer, makers)
    arguments = eval(f"({LAYERS[layer]},)", makers)
    made = repr(module)
    outputs = tensors_in(torch, module(*arguments))
    inputs = [t for t in tensors_in(torch, arguments) if t.requires_grad]
    sources = [*inputs, *module.parameters()]
    total = sum((t * t).sum() for t in outputs if t.requires_grad)
    grads = torch.autograd.grad(total, sources, allow_unused=True) if sources and hasattr(total, "backward") else ()
    after = tensors_in(torch, module.eval()(*arguments))
    state = module.state_dict()
    what = {"repr": made, "repr after a call": repr(module), "state": list(state),
            "outputs": [[list(t.shape), str(t.dtype), list(t.stride())] for t in outputs],
            "unused": [i for i, grad in enumerate(grads) if grad is None]}
    numbers = [*state.values(), *outputs, *after, *(grad for grad in grads if grad is not None)]
    return what, [t.detach().numpy() for t in numbers]


def main() -> None:
    import warnings

    import torch

    warnings.simplefilter("ignore")
    index, arrays = {}, []
    for layer in LAYERS:
        what, numbers = run(torch, layer)
        index[layer] = {**what, "first": len(arrays), "count": len(numbers)}
        arrays += numbers
    flat = [a.astype(np.float32).reshape(-1) for a in arrays]
    sizes = np.array([a.size for a in flat])
    np.savez_compressed(GOLDEN, index=np.frombuffer(json.dumps(index).encode(), np.uint8), sizes=sizes,
                        values=np.concatenate(flat))
    print(f"{len(index)} layers, {GOLDEN.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
