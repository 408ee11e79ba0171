"""The names that programs touch: each is there under `import torch`, whether or not it can be used."""

import os
import subprocess
import sys
from pathlib import Path

# Where a name is found, then the names: what some forty libraries and thirty architectures of transformers reach for.
NAMES = """
Tensor: T __and__ __bool__ __eq__ __float__ __getitem__ __index__ __int__ __invert__ __or__ __setitem__ __xor__ abs
    add add_ all amax amin any argmax argsort as_strided backward baddbmm bfloat16 bool byte chunk clamp clamp_
    clamp_min clamp_min_ clip_ clone contiguous copy_ cos cpu cumsum data data_ptr detach device diag diagonal dim div
    div_ double dtype element_size eq exp exp_ expand expand_as expm1 fill_ fill_diagonal_ flatten flip float floor
    gather grad grad_fn half imag index_add_ index_select int is_contiguous is_cuda is_floating_point is_leaf is_mps
    is_nested is_sparse isfinite item layout lerp_ log log10_ log1p log_ long lt mT masked_fill masked_fill_
    masked_scatter masked_select matmul max mean min movedim mul mul_ nanmean narrow ndim ndimension ne neg_ nelement
    new_empty new_ones new_tensor new_zeros nonzero norm numel numpy permute pow pow_ prod real reciprocal
    register_hook relu repeat repeat_interleave requires_grad requires_grad_ reshape roll round rsqrt scatter_
    scatter_add_ scatter_reduce_ sgn_ shape sigmoid sin size softmax sort split sqrt sqrt_ square squeeze squeeze_ std
    stride sub_ sum t to to_dense tolist topk transpose tril triu trunc type type_as unbind unfold uniform_ unique
    unsqueeze unsqueeze_ untyped_storage view view_as where zero_
torch: BoolTensor ByteTensor FloatTensor Generator HalfTensor IntTensor LongTensor Size SymInt Tensor UntypedStorage
    _C __version__ _assert _check_tensor_all_with _dynamo _jit_internal _subclasses _tensor_str abs accelerator acos
    add addcmul addmm all allclose amp angle any arange are_deterministic_algorithms_enabled argmax argsort as_strided
    as_tensor asarray atan2 atanh autograd backends baddbmm bfloat16 bincount bmm bool broadcast_shapes
    broadcast_tensors bucketize cartesian_prod cat cdist ceil cholesky_solve chunk clamp clip clone compiler
    complex128 complex32 complex64 conj contiguous_format conv2d conv3d cos cosh cuda cumprod cumsum detach device
    diag diag_embed diagonal distributed distributions div dot double dtype einsum empty empty_like enable_grad equal
    erfc exp expm1 eye fft finfo flatten float float16 float32 float4_e2m1fn_x2 float64 float8_e4m3fn float8_e4m3fnuz
    float8_e5m2 float8_e5m2fnuz float8_e8m0fnu floor from_numpy frombuffer full full_like func functional futures fx
    gather ge get_default_device get_default_dtype half hann_window histc hub iinfo imag index_select inf
    inference_mode int int16 int32 int64 int8 inverse is_autocast_enabled is_complex
    is_deterministic_algorithms_warn_only_enabled is_floating_point is_grad_enabled is_tensor isclose isfinite isin
    isinf isnan jit layout library linalg linspace load log log10 log2 logdet logical_and logical_or logsumexp long
    manual_seed masked_fill matmul matrix_exp max maximum mean memory_format meshgrid min minimum mm movedim mul
    multiprocessing nan_to_num nextafter nn no_grad norm numel ones ones_like onnx ops optim outer permute pi pow
    preserve_format prod profiler promote_types quasirandom rand randn real relu reshape roll rsqrt select
    serialization set_default_dtype set_grad_enabled set_num_threads sigmoid sin softmax sort sparse_coo sparse_csc
    sparse_csr special split sqrt squeeze stack std stft storage strided sub subtract sum svd_lowrank take_along_dim
    tanh tensor tensordot topk torch transpose trapz tril uint16 uint32 uint64 uint8 unbind unique unsqueeze utils
    version view_as_complex view_as_real where xpu zeros zeros_like
torch._C: Value _disabled_torch_function_impl _distributed_rpc _get_tracing_state _is_tracing _log_api_usage_once
torch._C._distributed_rpc: _is_current_rpc_agent_set
torch._C._fft: fft_fftn fft_irfft fft_rfft
torch._C._linalg: linalg_cholesky_ex linalg_cross linalg_inv_ex linalg_lu_factor_ex linalg_lu_solve linalg_solve_ex
    linalg_solve_triangular linalg_vector_norm
torch._C._nn: avg_pool2d gelu linear one_hot scaled_dot_product_attention softplus
torch._C._special: special_erfcx
torch.__config__: show
torch._dynamo: _trace_wrapped_higher_order_op allow_in_graph assume_constant_result eval_frame mark_static_address
torch._dynamo._trace_wrapped_higher_order_op: TransformGetItemToIndex
torch._dynamo.eval_frame: OptimizedModule
torch._jit_internal: _copy_to_script_wrapper
torch._subclasses: FakeTensor fake_tensor
torch._subclasses.fake_tensor: is_fake
torch._tensor_str: PRINT_OPTS _tensor_str
torch.accelerator: current_accelerator
torch.amp: GradScaler autocast
torch.autograd: Function function functional grad graph profiler
torch.autograd.function: FunctionCtx once_differentiable
torch.autograd.functional: jacobian vjp
torch.autograd.graph: save_on_cpu
torch.autograd.profiler: EventList
torch.backends.mps: is_available
torch.compiler: allow_in_graph disable is_compiling is_exporting
torch.cuda: CUDAGraph Stream StreamContext graph is_available is_current_stream_capturing
torch.distributed: ReduceOp _functional_collectives device_mesh fsdp is_available is_initialized nn rpc tensor
torch.distributed._composable: fsdp
torch.distributed._composable.fsdp: fully_shard
torch.distributed._functional_collectives: all_to_all_single_autograd wait_tensor
torch.distributed.algorithms: join
torch.distributed.algorithms.join: Join
torch.distributed.checkpoint: hf_storage
torch.distributed.checkpoint.hf_storage: HuggingFaceStorageReader HuggingFaceStorageWriter
torch.distributed.device_mesh: DeviceMesh
torch.distributed.fsdp: CPUOffloadPolicy FullyShardedDataParallel MixedPrecisionPolicy fully_sharded_data_parallel
torch.distributed.fsdp.fully_sharded_data_parallel: FullyShardedDataParallel
torch.distributed.rpc: api
torch.distributed.rpc.api: _require_initialized
torch.distributed.tensor: DTensor Partial Replicate Shard _utils distribute_tensor placement_types
torch.distributed.tensor._utils: compute_local_shape_and_global_offset
torch.distributed.tensor.placement_types: Shard _StridedShard
torch.distributions: AffineTransform Bernoulli Beta Binomial Categorical ComposeTransform Dirichlet Distribution Gamma
    Geometric HalfCauchy HalfNormal Independent LKJCholesky Laplace LogNormal LowRankMultivariateNormal Multinomial
    MultivariateNormal NegativeBinomial Normal OneHotCategorical Poisson StudentT Transform TransformedDistribution
    Uniform VonMises biject_to constraints distribution half_cauchy kl kl_divergence multinomial multivariate_normal
    register_kl relaxed_bernoulli transform_to transforms utils wishart
torch.distributions.constraints: Constraint MixtureSameFamilyConstraint _CorrCholesky boolean cat corr_cholesky
    dependent dependent_property greater_than greater_than_eq half_open_interval independent integer_interval interval
    is_dependent less_than lower_cholesky lower_triangular multinomial nonnegative nonnegative_integer one_hot
    positive positive_definite positive_integer positive_semidefinite real real_vector simplex square stack symmetric
    unit_interval
torch.distributions.distribution: Distribution
torch.distributions.half_cauchy: HalfCauchy
torch.distributions.kl: kl_divergence register_kl
torch.distributions.multinomial: Multinomial
torch.distributions.multivariate_normal: Distribution MultivariateNormal
torch.distributions.relaxed_bernoulli: RelaxedBernoulli
torch.distributions.transforms: AbsTransform AffineTransform CatTransform ComposeTransform CorrCholeskyTransform
    CumulativeDistributionTransform ExpTransform IndependentTransform LowerCholeskyTransform PositiveDefiniteTransform
    PowerTransform ReshapeTransform SigmoidTransform SoftmaxTransform SoftplusTransform StackTransform
    StickBreakingTransform TanhTransform Transform identity_transform
torch.distributions.utils: _standard_normal _sum_rightmost broadcast_all clamp_probs lazy_property logits_to_probs
    probs_to_logits
torch.distributions.wishart: Wishart
torch.fft: fft fftn ifft irfft rfft
torch.func: functional_call grad_and_value vmap
torch.functional: broadcast_tensors einsum tensordot
torch.futures: Future
torch.fx: Graph GraphModule Interpreter Node Proxy Tracer node proxy
torch.fx.experimental: proxy_tensor
torch.fx.experimental.proxy_tensor: get_proxy_mode
torch.fx.node: Node
torch.fx.proxy: GraphAppendingTracer
torch.hub: HASH_REGEX
torch.jit: ScriptModule _overload _overload_method _script_if_tracing export ignore is_scripting is_tracing script
    script_if_tracing unused
torch.library: custom_op register_autograd register_fake
torch.linalg: cholesky cholesky_ex cross eigh eigvalsh inv_ex lu_factor_ex lu_solve norm qr solve solve_ex
    solve_triangular svd vector_norm
torch.multiprocessing: Queue
torch.nn: AdaptiveAvgPool1d AdaptiveAvgPool2d BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d Buffer Conv1d
    Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d CrossEntropyLoss DataParallel Dropout ELU Embedding
    Flatten GELU GLU GRU GRUCell GroupNorm Hardswish Identity InstanceNorm1d KLDivLoss L1Loss LSTM LayerNorm LeakyReLU
    Linear LogSoftmax MSELoss MaxPool2d Module ModuleDict ModuleList MultiheadAttention NLLLoss PReLU Parameter
    ParameterDict ParameterList RNNBase ReLU ReLU6 Sequential SiLU Sigmoid Softmax Softplus Tanh TransformerEncoder
    TransformerEncoderLayer ZeroPad2d functional init modules parallel parameter utils
torch.nn.attention: flex_attention
torch.nn.attention.flex_attention: AuxRequest BlockMask _DEFAULT_SPARSE_BLOCK_SIZE create_block_mask flex_attention
torch.nn.functional: adaptive_avg_pool2d adaptive_max_pool2d avg_pool2d conv1d conv2d conv_transpose1d cross_entropy
    ctc_loss dropout embedding gelu grid_sample grouped_mm interpolate l1_loss leaky_relu linear log_softmax
    logsigmoid max_pool2d mish mse_loss normalize one_hot pad pixel_shuffle relu scaled_dot_product_attention sigmoid
    silu softmax softplus tanh threshold unfold
torch.nn.init: _calculate_correct_fan _calculate_fan_in_and_fan_out constant_ dirac_ eye_ kaiming_normal_
    kaiming_uniform_ normal_ ones_ orthogonal_ sparse_ trunc_normal_ uniform_ xavier_normal_ xavier_uniform_ zeros_
torch.nn.modules: Module batchnorm container instancenorm loss module utils
torch.nn.modules.batchnorm: _BatchNorm
torch.nn.modules.container: Sequential
torch.nn.modules.instancenorm: _InstanceNorm
torch.nn.modules.loss: _Loss
torch.nn.modules.module: _EXTRA_STATE_KEY_SUFFIX
torch.nn.modules.utils: _pair
torch.nn.parallel: DataParallel DistributedDataParallel
torch.nn.parameter: Parameter
torch.nn.utils: clip_grad_norm_ clip_grad_value_ parametrizations rnn weight_norm
torch.nn.utils.parametrizations: weight_norm
torch.nn.utils.rnn: pack_padded_sequence pad_packed_sequence pad_sequence
torch.onnx: is_in_onnx_export
torch.optim: Adam AdamW LBFGS Optimizer SGD adam lr_scheduler optimizer
torch.optim.adam: Adam
torch.optim.lr_scheduler: CosineAnnealingLR LRScheduler LambdaLR ReduceLROnPlateau StepLR _LRScheduler
torch.optim.optimizer: Optimizer
torch.profiler: ProfilerActivity profile
torch.quasirandom: SobolEngine
torch.serialization: MAP_LOCATION add_safe_globals
torch.special: erfcx expit logit
torch.storage: TypedStorage
torch.utils: _python_dispatch _pytree checkpoint data dlpack hooks model_zoo
torch.utils._python_dispatch: is_traceable_wrapper_subclass
torch.utils._pytree: _dict_flatten_with_keys register_pytree_node tree_flatten tree_map tree_unflatten
torch.utils.checkpoint: checkpoint get_device_states set_device_states
torch.utils.data: BatchSampler ConcatDataset DataLoader Dataset IterDataPipe IterableDataset RandomSampler Sampler
    SequentialSampler Subset SubsetRandomSampler TensorDataset WeightedRandomSampler dataloader distributed
    functional_datapipe get_worker_info sampler
torch.utils.data.dataloader: _BaseDataLoaderIter _MultiProcessingDataLoaderIter default_collate
torch.utils.data.datapipes: iter
torch.utils.data.datapipes.iter: Batcher
torch.utils.data.distributed: DistributedSampler
torch.utils.data.sampler: Sampler
torch.utils.dlpack: from_dlpack to_dlpack
torch.utils.hooks: RemovableHandle
torch.version: hip
torch.xpu: is_available is_current_stream_capturing
"""

CHECK = """
import importlib, sys
import torch

def found(path):
    here = torch
    for i, name in enumerate(path.split(".")[1:], 2):
        try:
            here = getattr(here, name)
        except AttributeError:
            try:
                here = importlib.import_module(".".join(path.split(".")[:i]))
            except ImportError:
                return False
    return True

tensor = torch.ones(1, 1, dtype=torch.complex64)
for path in sys.stdin.read().split():
    there = hasattr(tensor, path[7:]) if path.startswith("Tensor.") else found(path)
    if not there:
        print(path)
"""


def paths() -> list[str]:
    joined = NAMES.strip().replace("\n    ", " ")
    return [f"{home}.{name}" for home, _, names in (line.partition(": ") for line in joined.splitlines())
            for name in names.split()]


def missing(names: list[str]) -> list[str]:
    source = str(Path(__file__).resolve().parents[2] / "src")
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-m", "mindtorch_v2", "-c", CHECK], input="\n".join(names), text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": path}, check=True)
    return done.stdout.split()


def test_every_name_resolves():
    assert len(paths()) > 850
    assert missing(paths()) == []


def test_the_check_finds_what_is_not_there():
    assert missing(["torch.nn.no_such_layer", "Tensor.no_such_method", "torch.ones", "torch.no_such_module.name"]) == [
        "torch.nn.no_such_layer", "Tensor.no_such_method", "torch.no_such_module.name"]
