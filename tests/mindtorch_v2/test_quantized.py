"""Quantized tensors and dynamically quantized models. Expected values are what PyTorch 2.13 shows (engine fbgemm)."""

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.ao.quantization import quantize_dynamic

X = torch.tensor([[-1.0, 0.0, 0.26], [1.3, 2.6, -0.05]])


def per_tensor(dtype: Any = torch.quint8, zero_point: int = 10) -> Any:
    return torch.quantize_per_tensor(X, 0.1, zero_point, dtype)


def per_channel() -> Any:
    return torch.quantize_per_channel(X, torch.tensor([0.1, 0.05]), torch.tensor([0, 5]), 0, torch.qint8)


# tensors -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "zero_point", "expected"),
    [
        (torch.quint8, 10, [[0, 10, 13], [23, 36, 10]]),
        (torch.qint8, -3, [[-13, -3, 0], [10, 23, -4]]),
        (torch.qint32, 0, [[-10, 0, 3], [13, 26, 0]]),
    ],
)
def test_integers_of_a_tensor(dtype: Any, zero_point: int, expected: list) -> None:
    made = per_tensor(dtype, zero_point)
    assert made.int_repr().tolist() == expected and made.dtype is dtype and made.is_quantized and not X.is_quantized
    assert (made.q_scale(), made.q_zero_point(), made.qscheme()) == (0.1, zero_point, torch.per_tensor_affine)
    assert (made.shape, made.stride(), made.element_size(), made.numel()) == ((2, 3), (3, 1), dtype.itemsize, 6)
    numbers = [[round((n - zero_point) * 0.1, 4) for n in row] for row in expected]
    torch.testing.assert_close(made.dequantize(), torch.tensor(numbers))
    assert torch.dequantize([made])[0].dtype is torch.float32 and torch.int_repr(made).dtype is made.int_repr().dtype


def test_a_scale_for_each_channel() -> None:
    made = per_channel()
    assert made.int_repr().tolist() == [[-10, 0, 3], [31, 57, 4]] and made.qscheme() is torch.per_channel_affine
    assert made.q_per_channel_scales().dtype is torch.float64 and made.q_per_channel_zero_points().tolist() == [0, 5]
    assert made.q_per_channel_axis() == 0 and made.t().q_per_channel_axis() == 1
    torch.testing.assert_close(made.dequantize(), torch.tensor([[-1.0, 0.0, 0.3], [1.3, 2.6, -0.05]]))


def test_scale_and_zero_point_out_of_the_numbers() -> None:
    made = torch.quantize_per_tensor_dynamic(X, torch.quint8, False)
    assert (made.q_scale(), made.q_zero_point()) == (0.0141176466848336, 71)
    reduced = torch.quantize_per_tensor_dynamic(X, torch.qint8, True)
    assert (reduced.q_scale(), reduced.q_zero_point()) == (0.028346455941988726, -29)
    assert torch._choose_qparams_per_tensor(X, True) == (0.028346455941988726, 35)
    assert torch._choose_qparams_per_tensor(torch.zeros(3)) == (0.1, 0)
    assert torch.quantize_per_tensor_dynamic(X, torch.float16, False).dtype is torch.float16


def test_text_is_pytorchs() -> None:
    assert repr(per_tensor()) == (
        "tensor([[-1.0000,  0.0000,  0.3000],\n        [ 1.3000,  2.6000,  0.0000]], size=(2, 3), dtype=torch.quint8,\n"
        "       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)"
    )
    assert repr(per_channel()).endswith(
        "size=(2, 3), dtype=torch.qint8,\n       quantization_scheme=torch.per_channel_affine,\n"
        "       scale=tensor([0.1000, 0.0500], dtype=torch.float64),\n       zero_point=tensor([0, 5]), axis=0)"
    )


def test_elements_are_moved_and_compared() -> None:
    made = per_tensor()
    for moved, expected in (
        (made[0], [0, 10, 13]),
        (made.t()[0], [0, 23]),
        (made.view(3, 2)[1], [13, 23]),
        (made.reshape(-1)[2:4], [13, 23]),
        (torch.cat([made, made])[2], [0, 10, 13]),
        (made.chunk(2)[1][0], [23, 36, 10]),
        (torch.relu(made)[0], [10, 10, 13]),
        (made.permute(1, 0)[2], [13, 10]),
        (made.unsqueeze(0)[0, 1], [23, 36, 10]),
    ):
        assert moved.is_quantized and moved.q_zero_point() == 10 and moved.int_repr().tolist() == expected
    assert made.max().item() == pytest.approx(2.6) and torch.equal(made, made.clone()) and (made == made).all()
    assert (made > 0).tolist() == [[False, False, True], [True, True, False]] and not torch.equal(made, per_channel())
    target = torch.quantize_per_tensor(torch.zeros(2, 3), 0.5, 1, torch.quint8)
    assert target.copy_(X).dequantize().tolist() == [[-0.5, 0, 0.5], [1.5, 2.5, 0]]
    first, second = torch.quantize_per_tensor([X, X], torch.tensor([0.1, 0.2]), torch.tensor([3, 4]), torch.quint8)
    assert (first.q_scale(), second.q_zero_point()) == (0.10000000149011612, 4)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: per_tensor(zero_point=300),
            RuntimeError,
            "tensor_per_tensor_affine zero_point 300 is above upper bound.",
        ),
        (
            lambda: torch.quantize_per_tensor(X.int(), 0.1, 3, torch.quint8),
            RuntimeError,
            "Quantize only works on Float Tensor, got Int",
        ),
        (
            lambda: torch.quantize_per_tensor(X, 0.1, 3, torch.float32),
            RuntimeError,
            "ScalarType Float is not supported in new_qtensor.",
        ),
        (
            lambda: torch.quantize_per_channel(X, torch.tensor([0.1]), torch.tensor([0]), 0, torch.qint8),
            RuntimeError,
            "length of scales must equal to channel, expected 2 got, 1",
        ),
        (
            lambda: torch.quantize_per_channel(X, torch.ones(2), torch.zeros(2), 2, torch.qint8),
            RuntimeError,
            "Channel axis out of range in per channel affine quantization. Got: 2Expected: [0, 2)",
        ),
        (
            lambda: torch.quantize_per_tensor(X, 0.1, 3, torch.quint4x2),
            NotImplementedError,
            "use torch.quint8 or torch.qint8",
        ),
        (lambda: per_channel().q_scale(), RuntimeError, "Expected quantizer->qscheme() == kPerTensorAffine to be true"),
        (lambda: per_tensor().q_per_channel_scales(), RuntimeError, "quantizer->qscheme() == kPerChannelAffine ||"),
        (
            lambda: per_tensor() + per_tensor(),
            NotImplementedError,
            "Could not run 'aten::add' with arguments from the 'Quant",
        ),
        (
            lambda: per_tensor().float(),
            RuntimeError,
            "Creation of quantized tensor requires quantized dtype like torch.quint8",
        ),
        (lambda: per_tensor().numpy(), TypeError, "Got unsupported ScalarType QUInt8"),
        (
            lambda: X.q_scale(),
            NotImplementedError,
            "Could not run 'aten::q_scale' with arguments from the 'CPU' backend",
        ),
        (lambda: quantize_dynamic(nn.GRU(2, 2)), NotImplementedError, "GRU is not quantized here; Linear and LSTM are"),
        (
            lambda: quantize_dynamic(nn.Linear(2, 2), dtype=torch.float16),
            NotImplementedError,
            "model.half() or model.bfloat16()",
        ),
        (lambda: torch.ao.quantization.prepare(nn.Linear(2, 2)), NotImplementedError, "quantize_dynamic is here"),
        (
            lambda: torch.fake_quantize_per_tensor_affine(X, 0.1, 20, 0, 15),
            RuntimeError,
            "`zero_point` must be between `quant_min` and `quant_max`.",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Callable, kind: type, text: str) -> None:
    with pytest.raises(kind) as raised:
        make()
    assert text in str(raised.value)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
def test_files_hold_quantized_tensors(weights_only: bool, zipped: bool) -> None:
    file = io.BytesIO()
    torch.save({"a": per_tensor(), "b": per_channel()}, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    loaded = torch.load(file, weights_only=weights_only)
    assert torch.equal(loaded["a"], per_tensor()) and torch.equal(loaded["b"], per_channel())
    assert torch.equal(copy.deepcopy(per_channel()), per_channel())


def test_quantizing_in_float() -> None:
    def close(found: torch.Tensor, expected: list) -> None:
        torch.testing.assert_close(found, torch.tensor(expected))

    close(torch.fake_quantize_per_tensor_affine(X, 0.1, 3, 0, 255), [[-0.3, 0.0, 0.3], [1.3, 2.6, 0.0]])
    scales, points = torch.tensor([0.1, 0.2]), torch.tensor([0, 3], dtype=torch.int32)
    close(torch.fake_quantize_per_channel_affine(X, scales, points, 0, 0, 15), [[0.0, 0.0, 0.3], [1.2, 2.4, 0.0]])
    x = X.clone().requires_grad_()
    torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7).sum().backward()
    assert x.grad.tolist() == [[0, 1, 1], [0, 0, 1]]


# models --------------------------------------------------------------------------------------------------------------


class Model(nn.Module):
    """A recurrent layer between linear ones."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.l = nn.Linear(8, 5), nn.LSTM(8, 4, 2, batch_first=True)
        self.b, self.r = nn.Linear(4, 2), nn.ReLU()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.b(self.r(self.l(x)[0])), self.a(x)


def test_a_model_computes_pytorchs_numbers() -> None:
    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(2, 3, 8)
    made = quantize_dynamic(model, {nn.Linear, nn.LSTM}, dtype=torch.qint8)
    assert repr(made) == (
        "Model(\n"
        "  (a): DynamicQuantizedLinear(in_features=8, out_features=5, "
        "dtype=torch.qint8, qscheme=torch.per_tensor_affine)\n"
        "  (l): DynamicQuantizedLSTM(8, 4, num_layers=2, batch_first=True)\n"
        "  (b): DynamicQuantizedLinear(in_features=4, out_features=2, "
        "dtype=torch.qint8, qscheme=torch.per_tensor_affine)\n"
        "  (r): ReLU()\n)"
    )
    assert isinstance(model.a, nn.Linear) and made.a.weight().q_scale() == pytest.approx(
        0.0026491505559533834, rel=1e-6
    )
    recurrent, linear = made(x)
    expected = [
        [-0.1732, -0.4002, 0.0318, -0.5037, -0.3969],
        [0.6095, 0.8292, 0.2008, 0.8107, 0.1217],
        [-0.1804, -0.4028, 0.2409, -0.3810, -0.6430],
    ]
    torch.testing.assert_close(linear[0], torch.tensor(expected), rtol=0, atol=2e-4)
    expected = [[-0.3820, 0.2045], [-0.3763, 0.1802], [-0.3599, 0.1799]]
    torch.testing.assert_close(recurrent[0], torch.tensor(expected), rtol=0, atol=3e-3)  # a state may round otherwise
    assert recurrent.grad_fn is None and list(made.state_dict())[:4] == [
        "a.scale",
        "a.zero_point",
        "a._packed_params.dtype",
        "a._packed_params._packed_params",
    ]


def test_state_dicts_of_quantized_models() -> None:
    torch.manual_seed(1)
    model, x = nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 3), nn.LSTM(3, 2)), torch.randn(4, 2, 8)
    made = quantize_dynamic(model)
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    fresh = quantize_dynamic(nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 3), nn.LSTM(3, 2)))
    assert not torch.equal(fresh[0].weight(), made[0].weight())
    fresh.load_state_dict(torch.load(file))
    for other in (fresh, copy.deepcopy(made)):
        assert torch.equal(other[0].weight(), made[0].weight()) and torch.equal(other[1].bias(), made[1].bias())
        assert torch.equal(other[2]._cells[0][1], made[2]._cells[0][1])
        torch.testing.assert_close(other(x)[0], made(x)[0], rtol=0, atol=1e-2)
    with pytest.raises(RuntimeError, match="_packed_params"):
        fresh.load_state_dict({})
    named = quantize_dynamic(model, {"0"})
    assert type(named[1]) is nn.Linear and type(named[0]) is torch.ao.nn.quantized.dynamic.Linear


def test_attention_keeps_its_output_layer() -> None:
    made = quantize_dynamic(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), {nn.Linear})
    assert type(made.linear1) is torch.ao.nn.quantized.dynamic.Linear and not isinstance(
        made.self_attn.out_proj, torch.ao.nn.quantized.dynamic.Linear
    )


def test_layers_that_are_those_of_nn():
    assert torch.ao.nn.quantized.modules.MaxPool2d is torch.ao.nn.quantized.MaxPool2d is torch.nn.MaxPool2d
