"""torch.ao.quantization: dynamic quantization; of static quantization and training for it only the names are here."""

import copy
import sys
from typing import Any

from ... import nn
from ..._compat.absent_modules import Names, fill
from ..._core.dtype import NAMES
from ..nn.quantized.dynamic import LSTM, Linear
from ..nn.quantized.dynamic.modules.linear import _check_kind

_DYNAMIC: dict[type, Any] = {nn.Linear: Linear, nn.LSTM: LSTM}
_ABSENT = (nn.GRU, nn.GRUCell, nn.LSTMCell, nn.RNNCell, nn.Embedding, nn.EmbeddingBag)  # which PyTorch quantizes too
fill(sys.modules[__name__], "ao.quantization", Names(
    "quantize_dynamic is here; other models run in float32, bfloat16 or float16.", """
    DeQuantStub FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize FusedMovingAvgObsFakeQuantize
    HistogramObserver MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver
    ObserverBase PerChannelMinMaxObserver PlaceholderObserver QConfig QConfigMapping QuantStub QuantWrapper
    RecordingObserver""", """
    convert default_eval_fn disable_fake_quant disable_observer enable_fake_quant enable_observer fuse_modules
    fuse_modules_qat get_default_qat_qconfig get_default_qat_qconfig_mapping get_default_qconfig
    get_default_qconfig_mapping prepare prepare_qat propagate_qconfig_ quantize quantize_qat swap_module"""))
__all__: list[str] = [*sys.modules[__name__].__all__, "quantize_dynamic"]


def quantize_dynamic(model: nn.Module, qconfig_spec: Any = None, dtype: Any = NAMES["qint8"], mapping: Any = None,
                     inplace: bool = False) -> nn.Module:
    """The model with its Linear and LSTM layers, or those given by class or name, dynamically quantized."""
    _check_kind(dtype)
    wanted = set(qconfig_spec) if qconfig_spec is not None else {*_DYNAMIC, *_ABSENT[:4]}
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    return _converted(model, "", wanted, False)


def _converted(module: nn.Module, name: str, wanted: set, inside: bool) -> nn.Module:
    """The quantized form of a module that is wanted, or is inside of one; else itself, with those in it replaced."""
    inside = inside or type(module) in wanted or name in wanted
    if inside and type(module) in _DYNAMIC:
        return _DYNAMIC[type(module)].from_float(module)
    if inside and type(module) in _ABSENT:
        raise NotImplementedError(f"{type(module).__name__} is not quantized here; Linear and LSTM are")
    for key, child in list(module.named_children()):
        made = _converted(child, f"{name}.{key}" if name else key, wanted, inside)
        if made is not child:
            setattr(module, key, made)
    return module
