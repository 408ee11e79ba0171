"""Pruning: parameters multiplied by a mask of zeros and ones, by a hook before forward."""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import mindtorch_v2 as torch

from ..modules.module import Module
from .convert_parameters import parameters_to_vector

__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
           "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
           "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove"]

M = TypeVar("M", bound=Module)


class BasePruningMethod(ABC):
    """A way to choose what is pruned; as a hook it keeps the parameter `name` at `name_orig` times `name_mask`."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        """The mask for importances `t`: `default_mask` with more zeros."""

    def apply_mask(self, module: Module) -> torch.Tensor:
        """The original parameter times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = (getattr(module, self._tensor_name + part) for part in ("_mask", "_orig"))
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: torch.Tensor | None = None,
              **kwargs: Any) -> "BasePruningMethod":
        """The hook that prunes the parameter, registered; an earlier one becomes part of a container with it."""
        earlier = [(number, hook) for number, hook in module._forward_pre_hooks.items()
                   if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
        if len(earlier) > 1:
            raise AssertionError(f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                                 "Use a PruningContainer.")
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        for _, hook in earlier:
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container.add_pruning_method(method)
            method = container
        tensor = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != tensor.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}, got "
                                 f"{importance_scores.shape} vs {tensor.shape}")
        known = getattr(module, name + "_mask").detach().clone() if earlier else torch.ones_like(tensor)
        mask = method.compute_mask(tensor if importance_scores is None else importance_scores, default_mask=known)
        for number, _ in earlier:
            del module._forward_pre_hooks[number]
        if not earlier:
            module.register_parameter(name + "_orig", tensor)
            del module._parameters[name]
        module.register_buffer(name + "_mask", mask)
        method(module, None)
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: torch.Tensor, default_mask: torch.Tensor | None = None,
              importance_scores: torch.Tensor | None = None) -> torch.Tensor:
        """A pruned tensor, without a module."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t, got "
                                 f"{importance_scores.shape} vs {t.shape}")
        known = torch.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=known)

    def remove(self, module: Module) -> None:
        """Makes the pruning permanent: the parameter is plain again, with its zeros."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = pruned.data  # type: ignore[union-attr]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Pruning methods of one parameter, each applied to what those before it left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Adds a method for the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError("Can only add pruning methods acting on the parameter named "
                             f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'")
        self._pruning_methods += (method,)  # type: ignore[operator]

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        """The mask with the zeros that the last method adds among what is not pruned yet."""
        method = self._pruning_methods[-1]
        kept = _kept(method, t, default_mask)
        mask = default_mask.clone().to(dtype=t.dtype)
        mask[kept] = method.compute_mask(t[kept], default_mask=default_mask[kept]).to(mask.dtype)
        return mask


def _kept(method: BasePruningMethod, t: torch.Tensor, mask: torch.Tensor) -> Any:
    """The index of what earlier methods left for this one: elements, channels, or all."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * t.dim()
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
    dim = method.dim + t.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
    return _channels(t, dim, mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0)


class Identity(BasePruningMethod):
    """Prunes nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: a number of them, or a share."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _first(self, t: torch.Tensor, count: int) -> torch.Tensor:
        """The numbers of the elements that are pruned."""
        return torch.topk(torch.rand_like(t).view(-1), count).indices

    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        _validate_pruning_amount(self.amount, t.nelement())
        count = _compute_nparams_toprune(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=torch.contiguous_format)
        if count:
            mask.view(-1)[self._first(t, count)] = 0
        return mask


class L1Unstructured(RandomUnstructured):
    """Prunes the elements of smallest magnitude."""

    def _first(self, t: torch.Tensor, count: int) -> torch.Tensor:
        return torch.topk(torch.abs(t).view(-1), count, largest=False).indices


class RandomStructured(BasePruningMethod):
    """Prunes channels along `dim` at random: a number of them, or a share."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def _survivors(self, t: torch.Tensor, count: int) -> torch.Tensor:
        """The index of the channels that stay when `count` are pruned."""
        drawn = torch.rand(t.shape[self.dim])
        return drawn > torch.kthvalue(drawn, count).values

    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        _validate_pruning_amount(self.amount, t.shape[self.dim])
        count = _compute_nparams_toprune(self.amount, t.shape[self.dim])
        if not count:
            return default_mask
        mask = torch.zeros_like(t)
        mask[_channels(t, self.dim, self._survivors(t, count))] = 1
        return mask.mul_(default_mask.to(dtype=mask.dtype))


class LnStructured(RandomStructured):
    """Prunes the channels along `dim` of smallest `n`-norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _survivors(self, t: torch.Tensor, count: int) -> torch.Tensor:
        return torch.topk(_compute_norm(t, self.n, self.dim), t.shape[self.dim] - count).indices


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is zero."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: torch.Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"default_mask shape {default_mask.shape} must match self.mask shape "
                                 f"{self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: M, name: str) -> M:
    """The module, with a mask of ones on the parameter."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """The module, with elements of the parameter pruned at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: float, importance_scores: torch.Tensor | None = None) -> M:
    """The module, with the smallest elements of the parameter pruned."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """The module, with channels of the parameter pruned at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: M, name: str, amount: float, n: Any, dim: int,
                  importance_scores: torch.Tensor | None = None) -> M:
    """The module, with the channels of smallest norm of the parameter pruned."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: torch.Tensor) -> M:
    """The module, with the parameter pruned where the mask is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Any, pruning_method: type[BasePruningMethod],
                        importance_scores: dict[tuple[Module, str], torch.Tensor] | None = None, **kwargs: Any) -> None:
    """Prunes elements of several parameters, pairs of module and name, as if they were one vector."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    tensors = [getattr(module, name) for module, name in parameters]
    masks = [getattr(module, name + "_mask", torch.ones_like(tensor))
             for (module, name), tensor in zip(parameters, tensors, strict=True)]
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                        f"{pruning_method} of type {method.PRUNING_TYPE}")
    importances = [scores.get((module, name), tensor)
                   for (module, name), tensor in zip(parameters, tensors, strict=True)]
    mask = PruningContainer(method).compute_mask(parameters_to_vector(importances), parameters_to_vector(masks))
    sizes = [tensor.numel() for tensor in tensors]
    for (module, name), tensor, part in zip(parameters, tensors, mask.split(sizes), strict=True):
        custom_from_mask(module, name, mask=part.view_as(tensor))


def remove(module: M, name: str) -> M:
    """The module with a plain parameter that keeps the zeros."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module or of one inside it is pruned."""
    return any(isinstance(hook, BasePruningMethod)
               for part in module.modules() for hook in part._forward_pre_hooks.values())


def _validate_pruning_amount_init(amount: Any) -> None:
    whole, real = (isinstance(amount, kind) for kind in (numbers.Integral, numbers.Real))
    if not real:
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or amount > 1 and not whole:
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount: float, tensor_size: int) -> int:
    """How many of `tensor_size` a number or a share is."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_structured_pruning(t: torch.Tensor) -> None:
    if t.dim() <= 1:
        raise ValueError("Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                         f"{t.shape} with {t.dim()} dims")


def _validate_pruning_dim(t: torch.Tensor, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _channels(t: torch.Tensor, dim: int, chosen: torch.Tensor) -> tuple:
    """The index of the chosen channels along a dimension."""
    index: list[Any] = [slice(None)] * t.dim()
    index[dim] = chosen
    return tuple(index)


def _compute_norm(t: torch.Tensor, n: Any, dim: int) -> torch.Tensor:
    """The n-norm of each channel along `dim`."""
    return torch.norm(t, p=n, dim=[d for d in range(t.dim()) if d != dim % t.dim()])
