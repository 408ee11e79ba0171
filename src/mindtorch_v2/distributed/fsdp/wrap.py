"""Which modules inside a model are wrapped on their own."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...nn import Module, ModuleDict, ModuleList, MultiheadAttention

__all__ = ["CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy",
           "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap"]

# A policy that is a function is asked twice about a module: whether to look inside, and whether to wrap it, then with
# the number of elements that nothing inside has taken.


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable) -> bool:
    """Those modules for which a function says so."""
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                                 transformer_layer_cls: set[type]) -> bool:
    """The modules of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def _or_policy(module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable]) -> bool:
    """The modules that any of the policies wants."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def size_based_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
                                force_leaf_modules: set[type] | None = None,
                                exclude_wrap_modules: set[type] | None = None) -> bool:
    """The smallest modules with so many elements; some classes are not looked into, and some not wrapped."""
    own: Any = size_based_auto_wrap_policy
    leaves = own.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = own.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(leaves if recurse else excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


class _Policy(ABC):
    """A policy that names modules, and arguments for the wrapper of each."""

    @abstractmethod
    def _run_policy(self, root_module: Module, ignored_modules: set[Module],
                    root_kwargs: dict[str, Any]) -> dict[Module, dict[str, Any]]:
        """The modules that are wrapped."""


class ModuleWrapPolicy(_Policy):
    """The modules of some classes."""

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._module_classes = set(module_classes)

    def _run_policy(self, root_module: Module, ignored_modules: set[Module],
                    root_kwargs: dict[str, Any]) -> dict[Module, dict[str, Any]]:
        return {module: dict(root_kwargs) for module in root_module.modules()
                if module not in ignored_modules and isinstance(module, tuple(self._module_classes))}

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return transformer_auto_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes})"


class CustomPolicy(_Policy):
    """The modules for which a function gives True, or arguments that differ from the root's."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def _run_policy(self, root_module: Module, ignored_modules: set[Module],
                    root_kwargs: dict[str, Any]) -> dict[Module, dict[str, Any]]:
        chosen = {}
        for module in root_module.modules():
            if module in ignored_modules:
                continue
            answer = self._lambda_fn(module)
            if not isinstance(answer, (dict, bool)):
                raise ValueError("The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but "
                                 f"it returned {answer}")
            if answer:
                chosen[module] = {**root_kwargs, **(answer if isinstance(answer, dict) else {})}
        return chosen


def wrapped_inside(root: Module, policy: Any, wrap_one: Callable[..., Module],
                   ignored: Iterable[Module] = (), **options: Any) -> None:
    """Wraps, from the inside out, the modules inside `root` that a policy picks."""
    left_out = set(ignored)
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(root, left_out, options)
        _wrap_named(root, {m: how for m, how in chosen.items() if m is not root}, wrap_one, {})
    elif callable(policy):
        _wrap_asked(root, policy, wrap_one, left_out, options, is_root=True)
    else:
        raise ValueError(f"Expected {policy} to be callable or be a pre-defined wrap policy")


def _wrap_named(module: Module, chosen: dict[Module, dict[str, Any]], wrap_one: Callable[..., Module],
                done: dict[Module, Module]) -> None:
    for name, child in list(module._modules.items()):
        if child is None:
            continue
        if child not in done:
            _wrap_named(child, chosen, wrap_one, done)
            done[child] = wrap_one(child, **chosen[child]) if child in chosen else child
        if done[child] is not child:
            setattr(module, name, done[child])


def _wrap_asked(module: Module, policy: Callable, wrap_one: Callable[..., Module], ignored: set[Module],
                options: dict[str, Any], is_root: bool = False) -> tuple[Module, int]:
    """(the module, or what is around it now, how many elements were wrapped)"""
    elements = sum(param.numel() for param in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=elements):
        return module, 0
    taken = 0
    for name, child in list(module.named_children()):
        if child not in ignored:
            wrapped, count = _wrap_asked(child, policy, wrap_one, ignored, options)
            if wrapped is not child:
                setattr(module, name, wrapped)
            taken += count
    if is_root or not policy(module=module, recurse=False, nonwrapped_numel=elements - taken):
        return module, taken
    return wrap_one(module, **options), elements


_wrapping: list[tuple[Callable[..., Module], dict[str, Any]]] = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, `wrap` puts a wrapper around modules."""
    _wrapping.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrapping.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module, wrapped if `enable_wrap` is in force."""
    if not _wrapping:
        return module
    wrapper, options = _wrapping[-1]
    return wrapper(module, **{**options, **wrap_overrides})
