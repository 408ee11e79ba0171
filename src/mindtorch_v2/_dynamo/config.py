"""Settings of torch._dynamo that programs write to."""

suppress_errors = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = 256
verbose = False
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
optimize_ddp = True
allow_unspec_int_on_nn_module = False
inline_inbuilt_nn_modules = True
