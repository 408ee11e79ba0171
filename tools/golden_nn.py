"""Writes tests/mindtorch_v2/golden/nn.npz: what the real PyTorch's initialisations and modules give for a seed.

Run it where PyTorch is installed: python tools/golden_nn.py
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "tests" / "mindtorch_v2" / "golden" / "nn.npz"

# Each initialisation fills a (4, 5) and then a (3, 2, 3) tensor, so that the second shows how much the first drew.
INITIALISATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "uniform_": lambda init, tensor: init.uniform_(tensor, -1.0, 2.0),
    "normal_": lambda init, tensor: init.normal_(tensor, 1.0, 0.5),
    "trunc_normal_": lambda init, tensor: init.trunc_normal_(tensor),
    "trunc_normal_narrow": lambda init, tensor: init.trunc_normal_(tensor, 0.0, 1.0, 1.5, 1.8),
    "constant_": lambda init, tensor: init.constant_(tensor, 0.3),
    "ones_": lambda init, tensor: init.ones_(tensor),
    "zeros_": lambda init, tensor: init.zeros_(tensor),
    "xavier_uniform_": lambda init, tensor: init.xavier_uniform_(tensor, gain=2.0),
    "xavier_normal_": lambda init, tensor: init.xavier_normal_(tensor),
    "kaiming_uniform_": lambda init, tensor: init.kaiming_uniform_(tensor, a=0.2),
    "kaiming_normal_": lambda init, tensor: init.kaiming_normal_(tensor, mode="fan_out", nonlinearity="relu"),
    "orthogonal_": lambda init, tensor: init.orthogonal_(tensor, gain=1.5),
    "sparse_": lambda init, tensor: init.sparse_(tensor if tensor.dim() == 2 else tensor[0], 0.4),
    "eye_": lambda init, tensor: init.eye_(tensor if tensor.dim() == 2 else tensor[0]),
    "dirac_": lambda init, tensor: init.dirac_(tensor if tensor.dim() == 3 else tensor.view(1, 4, 5)),
}

# Each module is made under a seed; its parameters and its output for a fixed input are kept.
MODULES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda nn: nn.Linear(4, 3),
    "linear_no_bias": lambda nn: nn.Linear(4, 2, bias=False),
    "mlp": lambda nn: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)),
    "layer_norm": lambda nn: nn.LayerNorm(4),
    "layer_norm_2d": lambda nn: nn.LayerNorm([3, 4], elementwise_affine=False),
    "rms_norm": lambda nn: nn.RMSNorm(4, eps=1e-3),
    "relu": lambda nn: nn.ReLU(),
    "tanh": lambda nn: nn.Tanh(),
    "gelu": lambda nn: nn.GELU(),
    "gelu_tanh": lambda nn: nn.GELU("tanh"),
    "sigmoid": lambda nn: nn.Sigmoid(),
    "silu": lambda nn: nn.SiLU(),
    "leaky_relu": lambda nn: nn.LeakyReLU(0.2),
    "elu": lambda nn: nn.ELU(1.5),
    "mish": lambda nn: nn.Mish(),
    "prelu": lambda nn: nn.PReLU(4),
    "softplus": lambda nn: nn.Softplus(2.0),
    "softmax": lambda nn: nn.Softmax(1),
    "log_softmax": lambda nn: nn.LogSoftmax(-1),
    "dropout": lambda nn: nn.Dropout(0.4),
    "dropout_eval": lambda nn: nn.Dropout(0.4).eval(),
    "flatten": lambda nn: nn.Flatten(0),
    "identity": lambda nn: nn.Identity(),
    "weight_norm": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
    "weight_norm_columns": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3), dim=1),
    "spectral_norm": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)),
    "spectral_norm_hook": lambda nn: nn.utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=2),
    "orthogonal_exponential": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)),
    "orthogonal_cayley": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(4, 3), orthogonal_map="cayley"),
    "householder": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(4, 6), use_trivialization=False),
    "pruned_elements": lambda nn: pruned(nn).random_unstructured(nn.Linear(4, 3), "weight", 0.3),
    "pruned_smallest": lambda nn: pruned(nn).l1_unstructured(nn.Linear(4, 3), "weight", 5),
    "pruned_rows": lambda nn: pruned(nn).random_structured(nn.Linear(4, 6), "weight", 0.5, 0),
    "pruned_shortest": lambda nn: pruned(nn).ln_structured(nn.Linear(4, 6), "weight", 2, 2, 1),
}


def pruned(nn: Any) -> ModuleType:
    return importlib.import_module(f"{nn.__name__}.utils.prune")


def initialised(torch: ModuleType, case: str) -> np.ndarray:
    """The numbers of both tensors, joined."""
    torch.manual_seed(7)
    tensors = [torch.zeros(4, 5), torch.zeros(3, 2, 3)]
    for tensor in tensors:
        INITIALISATIONS[case](torch.nn.init, tensor)
    return np.concatenate([tensor.numpy().reshape(-1) for tensor in tensors])


def module_run(torch: ModuleType, case: str) -> dict[str, np.ndarray]:
    """Parameters, output, and the gradients of input and parameters."""
    torch.manual_seed(11)
    module = MODULES[case](torch.nn)
    values = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    input = torch.tensor(values.tolist(), requires_grad=True)
    output = module(input)
    (output * output).sum().backward()
    found = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    found |= {f"{name}.grad": parameter.grad.numpy() for name, parameter in module.named_parameters()}
    return found | {"output": output.detach().numpy(), "input.grad": input.grad.numpy()}


def main() -> None:
    import torch

    arrays = {f"init.{case}": initialised(torch, case) for case in INITIALISATIONS}
    for case in MODULES:
        arrays |= {f"module.{case}.{name}": array for name, array in module_run(torch, case).items()}
    np.savez_compressed(GOLDEN, **arrays)


if __name__ == "__main__":
    main()
