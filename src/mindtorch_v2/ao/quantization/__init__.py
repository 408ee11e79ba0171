"""torch.ao.quantization: names that programs import; using one raises NotImplementedError."""

from ..._compat.absent import absent_class, absent_function

_INSTEAD = "Models run in float32, bfloat16 or float16."
_CLASSES = """DeQuantStub FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize FusedMovingAvgObsFakeQuantize
    HistogramObserver MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver
    ObserverBase PerChannelMinMaxObserver PlaceholderObserver QConfig QConfigMapping QuantStub QuantWrapper
    RecordingObserver"""
_FUNCTIONS = """convert default_eval_fn disable_fake_quant disable_observer enable_fake_quant enable_observer
    fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qat_qconfig_mapping get_default_qconfig
    get_default_qconfig_mapping prepare prepare_qat propagate_qconfig_ quantize quantize_dynamic quantize_qat
    swap_module"""
__all__ = [*_CLASSES.split(), *_FUNCTIONS.split()]

globals().update({_name: absent_class(f"torch.ao.quantization.{_name}", _INSTEAD) for _name in _CLASSES.split()})
globals().update({_name: absent_function(f"torch.ao.quantization.{_name}", _INSTEAD) for _name in _FUNCTIONS.split()})
