"""Settings of torch.compiler: PyTorch's names and defaults. Those that torch._dynamo.config has too are the same."""

from .._dynamo import config as _dynamo_config
from ..utils._config_module import install_config_module

_SHARED = """
    dynamic_shapes assume_static_by_default automatic_dynamic_shapes recompile_limit accumulated_recompile_limit
    verbose capture_scalar_outputs capture_dynamic_output_shape_ops log_file_name fail_on_recompile_limit_hit
    allow_unspec_int_on_nn_module skip_tensor_guards_with_matching_dict_tags enable_cpp_symbolic_shape_guards
    wrap_top_frame reorderable_logging_functions""".split()

install_config_module(
    __name__,
    """
    ? None: job_id pgo_extra_read_key pgo_extra_write_key
    '': cache_key_tag dynamic_sources dynamic_values unbacked_sources
    False: force_disable_caches force_cudagraph_gc
""",
    elsewhere={name: _dynamo_config for name in _SHARED},
)
