"""Switches of ahead-of-time tracing."""

check_custom_op_aliasing = True
error_on_custom_op_aliasing = False
functionalize_rng_ops = False
fake_tensor_allow_meta = True
debug_assert = False
