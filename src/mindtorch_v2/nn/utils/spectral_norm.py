"""Spectral normalisation by a hook before forward, the older form of parametrizations.spectral_norm."""

from typing import Any, TypeVar

import mindtorch_v2 as torch

from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from ..parameter import Parameter, UninitializedParameter
from .weight_norm import hook_number, remove_hook

__all__ = ["SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "remove_spectral_norm",
           "spectral_norm"]

M = TypeVar("M", bound=Module)


class SpectralNorm:
    """The hook: it divides name_orig by its largest singular value, which the buffers name_u and name_v estimate."""

    _version = 1  # since then name_v is a buffer too, which older files lack

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got "
                             f"n_power_iterations={n_power_iterations}")
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: torch.Tensor) -> torch.Tensor:
        """The weight with `dim` first and the others flattened."""
        return weight.movedim(self.dim, 0).reshape(weight.size(self.dim), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> torch.Tensor:
        """The normalised weight, after power iterations, if asked for, that write to the buffers."""
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(torch.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(torch.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next iteration writes to the buffers
        return weight / torch.dot(u, torch.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Puts the normalised weight back as a parameter."""
        with torch.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, weight_mat: torch.Tensor, u: torch.Tensor, target_sigma: Any) -> torch.Tensor:
        """The v for which u is the next power iterate and dot(u, weight_mat v) is `target_sigma`."""
        v = torch.linalg.multi_dot([weight_mat.t().mm(weight_mat).pinverse(), weight_mat.t(), u.unsqueeze(1)])
        v = v.squeeze(1)
        return v.mul_(target_sigma / torch.dot(u, torch.mv(weight_mat, v)))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> "SpectralNorm":
        """The hook, registered in the module in the place of the parameter."""
        if hook_number(module._forward_pre_hooks, SpectralNorm, name) is not None:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError("The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to "
                             "run the dummy forward before applying spectral normalization")
        with torch.no_grad():
            matrix = hook.reshape_weight_to_matrix(weight)
            u, v = (F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in matrix.shape)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # a plain attribute, till the first forward computes it
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormLoadStateDictPreHook:
    """Completes the state of a file written before name_v was stored."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
                 missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str]) -> None:
        fn = self.fn
        if local_metadata.get("spectral_norm", {}).get(f"{fn.name}.version") is not None:
            return
        key = prefix + fn.name
        stored = [f"{key}{part}" in state_dict for part in ("_orig", "", "_u")]
        if f"{key}_v" in state_dict and all(stored[::2]):
            return  # new enough, or without metadata
        missing = [f"{key}{part}" for part, found in zip(("_orig", "", "_u"), stored, strict=True) if not found]
        if missing:
            missing_keys += missing if strict else []
            return
        with torch.no_grad():
            weight, u = fn.reshape_weight_to_matrix(state_dict[f"{key}_orig"]), state_dict[f"{key}_u"]
            ratio = state_dict[f"{key}_orig"] / state_dict.pop(key)
            state_dict[f"{key}_v"] = fn._solve_v_and_rescale(weight, u, ratio.mean())


class SpectralNormStateDictHook:
    """Writes the hook's version into the metadata of the state."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> M:
    """The module with a weight that is divided by its largest singular value."""
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """The module with a plain weight again."""
    remove_hook(module, SpectralNorm, name, "spectral_norm")
    for hooks, kind in ((module._state_dict_hooks, SpectralNormStateDictHook),
                        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook)):
        number = hook_number(hooks, kind, name)
        if number is not None:
            del hooks[number]
    return module
