"""A linear layer with quantized weights."""

from typing import Any

import mindtorch_v2 as torch

from ......_quantized import QuantizedTensor, linear_dynamic, quantize_per_tensor

__all__ = ["Linear"]


def quantized_weight(weight: Any) -> QuantizedTensor:
    """A weight in qint8, its scale so that the largest number fits: what PyTorch's observer chooses."""
    largest = max(float(weight.max()), -float(weight.min()), 0.0)
    scale = max(torch.tensor(largest / 127.5).item(), torch.finfo(torch.float32).eps)
    return quantize_per_tensor(weight.detach().float(), scale, 0, torch.qint8)


class LinearPackedParams(torch.nn.Module):
    """Weight and bias as one entry of a state dict."""

    _version = 3

    def __init__(self, weight: Any, bias: Any) -> None:
        super().__init__()
        self.dtype = torch.qint8
        self._packed_params = (weight, bias)

    def _weight_bias(self) -> tuple[Any, Any]:
        return self._packed_params

    def forward(self, x: Any) -> Any:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._packed_params

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
                              missing_keys: list, unexpected_keys: list, error_msgs: list) -> None:
        kind, packed = (state_dict.pop(prefix + name, None) for name in ("dtype", "_packed_params"))
        if packed is None:
            missing_keys.append(prefix + "_packed_params")
        elif kind is not torch.qint8 or not isinstance(packed[0], QuantizedTensor):
            error_msgs.append(f"{prefix}_packed_params: weights of torch.qint8 are expected, not of {kind}")
        else:
            self._packed_params = packed
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)

    def __repr__(self) -> str:
        return repr(self._packed_params)


class Linear(torch.nn.Module):
    """A linear layer with a weight in qint8, whose input is quantized at each call."""

    _version = 4

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__()
        _check_kind(dtype)
        self.in_features, self.out_features, self.version = in_features, out_features, self._version
        self.scale, self.zero_point = 1.0, 0
        self._packed_params = LinearPackedParams(quantized_weight(torch.zeros(out_features, in_features)),
                                                 torch.zeros(out_features) if bias_ else None)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "Linear":
        """The layer with the weights of one in float32."""
        made = cls(mod.in_features, mod.out_features, mod.bias is not None)
        made.set_weight_bias(quantized_weight(mod.weight), mod.bias)
        return made

    def weight(self) -> Any:
        return self._packed_params._packed_params[0]

    def bias(self) -> Any:
        return self._packed_params._packed_params[1]

    def set_weight_bias(self, w: Any, b: Any) -> None:
        self._packed_params._packed_params = (w, b)

    def forward(self, x: Any) -> Any:
        return linear_dynamic(x, self.weight(), self.bias())

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}, "
                f"qscheme={self.weight().qscheme()}")

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
                              missing_keys: list, unexpected_keys: list, error_msgs: list) -> None:
        self.scale = float(state_dict.pop(prefix + "scale", 1.0))
        self.zero_point = int(state_dict.pop(prefix + "zero_point", 0))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)


def _check_kind(dtype: Any) -> None:
    if dtype is not torch.qint8:
        raise NotImplementedError(f"dynamic quantization is to torch.qint8 here, not to {dtype}: a model in half "
                                  "precision is model.half() or model.bfloat16()")
