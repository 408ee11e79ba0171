"""What a program decides about `FullyShardedDataParallel`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ...nn import Parameter
from ...nn.modules.batchnorm import _BatchNorm

__all__ = ["BackwardPrefetch", "CPUOffload", "FlatParameter", "FullOptimStateDictConfig", "FullStateDictConfig",
           "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
           "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy",
           "StateDictConfig", "StateDictSettings", "StateDictType"]


class FlatParameter(Parameter):
    """Parameters of a module in one vector. None is made here: each parameter is cut on its own."""


class ShardingStrategy(Enum):
    """What is in pieces: everything; all but the parameters between forward and backward; nothing; and within groups of
    processes, of which each has everything."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the parameters that backward needs next are gathered."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class OptimStateKeyType(Enum):
    """What parameters are called in an optimizer's state."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """The types in which a module computes, reduces gradients and has its buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether pieces of parameters are on the CPU."""

    offload_params: bool = False


class StateDictType(Enum):
    """Whole tensors, this process's own, or tensors in pieces."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    """Where the tensors of a state dict are."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """With `rank0_only`, other processes get an empty dict."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """The pieces of this process as plain tensors."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Tensors in pieces."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Where the tensors of an optimizer's state dict are."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """With `rank0_only`, other processes get an empty dict."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """The pieces of this process as plain tensors."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Tensors in pieces."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """A kind of state dict, and how it is made for a model and for its optimizer."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)
