"""Modules as functions of their parameters and buffers."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from .._core.tensor import Tensor
from ..nn.modules.module import Module
from ..nn.utils._named_member_accessor import named_submodule, swap_tensor


def _tied_names(module: Module) -> list[set[str]]:
    """The names of parameters and buffers, those of one tensor together."""
    groups: dict[int, set[str]] = {}
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    for name, tensor in named:
        groups.setdefault(id(tensor), set()).add(name)
    return list(groups.values())


def _with_tied(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """The tensors that a call is given, also under the names that are tied to theirs."""
    made = dict(given)
    for names in _tied_names(module):
        known = [name for name in names if name in given]
        if len({id(given[name]) for name in known}) > 1:
            raise ValueError(f"functional_call got multiple values for keys {sorted(known)}, which are tied. Consider "
                             "using tie_weights=False")
        if known:
            made.update(dict.fromkeys(names, given[known[0]]))
    return made


def _check_complete(module: Module, given: dict[str, Any]) -> None:
    expected = set().union(*_tied_names(module))
    texts = [f"\n\t{kind} key(s): {', '.join(map(repr, sorted(keys)))}."
             for kind, keys in (("Unexpected", set(given) - expected), ("Missing", expected - set(given))) if keys]
    if texts:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:{''.join(texts)}")


@contextlib.contextmanager
def reparametrized(module: Module, given: dict[str, Any], *, tie_weights: bool, strict: bool) -> Iterator[None]:
    """Context in which a module has other tensors; what it writes to them goes into `given`."""
    swapped = _with_tied(module, given) if tie_weights else dict(given)
    if strict:
        _check_complete(module, swapped)
    replaced: dict[str, Any] = {}
    try:
        for name, tensor in swapped.items():
            replaced[name] = _swap(module, name, tensor)
        yield
    finally:
        for name in reversed(replaced):
            present = _swap(module, name, replaced[name])
            if name in given and present is not None:
                given[name] = present


def _swap(module: Module, name: str, tensor: Any) -> Any:
    """Puts a tensor where a name with dots says, and gives back what was there."""
    path, _, last = name.rpartition(".")
    return swap_tensor(named_submodule(module, path), last, tensor, allow_missing=True)


def functional_call(module: Module, parameter_and_buffer_dicts: Any, args: Any = None,
                    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False) -> Any:
    """The result of `module(*args, **kwargs)` with the given tensors in the place of its parameters and buffers."""
    given = parameter_and_buffer_dicts
    if isinstance(given, (list, tuple)):
        if not all(isinstance(d, dict) for d in given):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = [name for d in given for name in d]
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {name: tensor for d in given for name, tensor in d.items()}
    elif not isinstance(given, dict):
        raise ValueError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
                         f"{type(given)}")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrized(module, given, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of models of one kind, each name's stacked, to be mapped over by vmap."""
    from .. import stack

    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(named: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        made = {}
        for name in named[0]:
            tensors = [d[name] for d in named]
            needs_grad = tensors[0].requires_grad
            if any(t.requires_grad != needs_grad for t in tensors):
                raise RuntimeError("Expected parameters from different models to have the same .requires_grad")
            made[name] = stack([t.detach() for t in tensors]).requires_grad_(needs_grad)
        return made

    return stacked([dict(m.named_parameters()) for m in models]), stacked([dict(m.named_buffers()) for m in models])


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """`root`, whose batch norms no longer keep running statistics, which a transform could not update."""
    for module in root.modules():
        if "track_running_stats" in vars(module) and hasattr(module, "num_batches_tracked"):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
