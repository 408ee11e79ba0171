"""Settings of torch._dynamo, with PyTorch's names and defaults; docs/compile.md says which ones are read."""

from typing import TYPE_CHECKING, Any

from ..utils._config_module import install_config_module

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_TABLE = r"""
    False: TYPE_CHECKING verbose verify_correctness leaf_function_validate_outputs
        leaf_function_check_escaped_gradients generate_pycode fail_on_recompile_limit_hit specialize_int
        specialize_float automatic_dynamic_exclusion_guard log_graph_in_out_metadata allow_ignore_mark_dynamic
        prepare_freezing suppress_errors replay_record_enabled disable cprofile repro_forward_only
        repro_ignore_non_fp capture_scalar_outputs capture_dynamic_output_shape_ops
        prefer_deferred_runtime_asserts_over_guards force_unspec_int_unbacked_size_like_on_torchrec_kjt
        allow_unspec_int_on_nn_module do_not_emit_runtime_asserts dont_skip_tracing optimize_ddp_lazy_compile
        skip_guards_on_constant_func_defaults use_recursive_dict_tags_for_guards raise_on_unsafe_aot_autograd
        force_compile_during_fx_trace allow_rnn error_on_recompile trace_autograd_ops use_numpy_random_stream
        enable_cpp_symbolic_shape_guards enable_trace_unittest enable_trace_load_build_class nested_graph_breaks
        error_on_dynamo_callback_in_fullgraph_compiled_code install_free_tensors use_graph_deduplication
        track_nodes_for_deduplication graph_deduplication_lint allow_empty_graphs debug_force_nested_calls
        debug_force_graph_break_on_leaf_return debug_disable_compile_counter record_compile_time_instruction_count
        cudagraph_backend_keep_input_mutation cudagraph_backend_support_input_mutation only_allow_pt2_compliant_ops
        capture_profiler_record_function inject_BUILD_SET_unimplemented_TESTING_ONLY
        fake_tensor_cache_crosscheck_enabled caching_precompile strict_precompile compiled_autograd
        skip_fwd_side_effects_in_bwd_under_checkpoint enable_compiler_collectives enable_p2p_compilation
        constant_fold_autograd_profiler_enabled wrap_top_frame enable_invoke_subgraph_regional_compile
        inline_invoke_subgraph
    True: replay_side_effects skip_code_recursive_on_recompile_limit_hit dynamic_shapes use_lazy_graph_module
        assume_static_by_default automatic_dynamic_shapes force_parameter_static_shapes
        force_nn_module_property_static_shapes guard_nn_modules guard_nn_modules_using_dict_tags
        rewrite_assert_with_torch_assert same_two_models_use_fp64 skip_torchrec use_lamba_guard_for_object_aliasing
        skip_fsdp_guards skip_nnmodule_hook_guards skip_no_tensor_aliasing_guards_on_parameters
        skip_tensor_guards_with_matching_dict_tags assume_dunder_attributes_remain_unchanged
        raise_on_ctx_manager_usage error_on_nested_jit_trace error_on_nested_fx_trace capture_sparse_compute
        report_guard_failures trace_numpy enable_cpp_guard_manager enable_trace_contextlib
        enable_faithful_generator_behavior inline_inbuilt_nn_modules install_free_tensors_for_export
        enable_cpp_framelocals_guard_eval issue_3_13_0_warning capture_autograd_function capture_func_transforms
        log_compilation_metrics fake_tensor_cache_enabled fake_tensor_disable_inference_mode
        enable_dynamo_decompositions graph_break_on_nn_param_ctor inline_torch_dispatch_torch_compile
        automatic_dynamic_local_pgo run_gc_after_compile record_runtime_overhead enable_aot_compile
        inline_single_use_invoke_subgraph
    ? None: log_file_name allowed_functions_module_string_ignorelist base_dir debug_dir_root
        automatic_dynamic_remote_pgo pt2_compile_id_prefix invalidate_compile_context_weakrefs
    ? set(): traceable_tensor_subclasses nontraceable_tensor_subclasses reorderable_logging_functions
        ignore_logging_functions
    '': debug_backend_override debug_inductor_config_override debug_dynamo_config_override
    None: dead_code_elimination repro_after
    256: accumulated_recompile_limit max_saved_pointers_for_recursive_dict_tags_check
    ? {}: skipfiles_inline_module_allowlist compiled_autograd_kwargs_override
    1: minimum_call_count
    'info': side_effect_replay_policy
    8: recompile_limit
    ? 'dynamic': automatic_dynamic_shapes_mark_as
    ? False: dynamo_profiler
    2: repro_level
    0.001: repro_tolerance
    ? True: optimize_ddp
    'float64': numpy_default_float
    'complex128': numpy_default_complex
    'int64': numpy_default_int
"""

install_config_module(
    __name__,
    _TABLE,
    {
        "cache_size_limit": "recompile_limit",
        "accumulated_cache_size_limit": "accumulated_recompile_limit",
        "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
    },
)
