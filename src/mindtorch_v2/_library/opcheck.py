"""`opcheck`: whether an operator keeps what it promises to tracing, compilation and autograd."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from .._core.tensor import Tensor
from ..utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

DEFAULT_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A check that an operator did not pass."""


def _error_class() -> type[Exception]:
    """The class that programs catch: PyTorch's own helpers for tests have it, where these are loaded."""
    helpers = sys.modules.get("torch.testing._internal.optests")
    return getattr(helpers, "OpCheckError", OpCheckError)


def opcheck(op: Any, args: tuple, kwargs: dict[str, Any] | None = None, *,
            test_utils: str | Sequence[str] = DEFAULT_TESTS, raise_exception: bool = True, atol: Any = None,
            rtol: Any = None) -> dict[str, str]:
    """Runs checks of an operator on arguments, and gives the outcome of each: "SUCCESS" or the error."""
    from .._compat.operator_names import OpOverload, OpOverloadPacket
    from .custom_ops import CustomOpDef

    if (atol is None) != (rtol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    if isinstance(op, OpOverloadPacket):
        op = op.default
    if not isinstance(op, OpOverload):
        raise ValueError(f"opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. "
                         f"torch.ops.aten.sin.default, got {type(op)}")
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    unknown = [name for name in names if name not in _CHECKS]
    if unknown:
        raise ValueError(f"opcheck(op, ..., test_utils={unknown}): expected test_utils to be subset of {set(_CHECKS)} "
                         "but it was not")
    results: dict[str, Any] = {}
    tolerances = {} if atol is None else {"atol": atol, "rtol": rtol}
    for name in names:
        try:
            _CHECKS[name](op, tuple(args), kwargs or {}, **tolerances)
            results[name] = "SUCCESS"
        except Exception as error:  # noqa: BLE001 - whatever an operator of users raises is the answer
            if raise_exception:
                text = f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                raise _error_class()(text) from error
            results[name] = error
    return results


def _copied(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments with tensors of their own, that alias and need grad as the originals do."""
    def copy(tensor: Tensor) -> Tensor:
        made = tensor.detach().clone(memory_format=None) if tensor.dim() == 0 else _clone(tensor)
        return made.requires_grad_(tensor.requires_grad)

    return tree_map_only(Tensor, copy, (args, kwargs))


def _clone(tensor: Tensor) -> Tensor:
    made = tensor.new_empty(0).set_(tensor.untyped_storage().clone(), tensor.storage_offset(), tensor.size(),
                                    tensor.stride()) if type(tensor) is Tensor else tensor.detach().clone()
    return made.detach()


def _check_schema(op: Any, args: tuple, kwargs: dict[str, Any], **tolerances: Any) -> None:
    """The operator writes and aliases what its schema says, and nothing else."""
    from .._subclasses.schema_check_mode import SchemaCheckMode

    args, kwargs = _copied(args, kwargs)
    with SchemaCheckMode():
        op(*args, **kwargs)


def _check_autograd_registration(op: Any, args: tuple, kwargs: dict[str, Any], **tolerances: Any) -> None:
    """Gradients go through the operator at the Autograd key, and not by what its kernel calls."""
    from ..library import registered_keys

    args, kwargs = _copied(args, kwargs)
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    if not any(t.requires_grad for t in tensors):
        return
    keys = registered_keys(op._operator.name)
    if "CompositeImplicitAutograd" in keys:
        return
    kinds = {t.device.type for t in tensors}
    if len(kinds) != 1:
        raise NotImplementedError(f"autograd_registration_check: NYI devices other than CPU/CUDA/XPU, got {kinds}")
    if "Autograd" in keys:
        return
    from .autograd import get_fallback_mode, set_fallback_mode

    mode = get_fallback_mode()
    set_fallback_mode("nothing")
    try:
        results = op(*args, **kwargs)
    finally:
        set_fallback_mode(mode)
    recorded = [t for t in tree_leaves(results) if isinstance(t, Tensor) and t.requires_grad]
    inputs = {id(t) for t in tensors}
    if any(id(t) not in inputs for t in recorded):
        raise AssertionError(
            f"{op.name()}: at least one output of this operator has requires_grad=True but the operator does not have "
            "an autograd kernel defined at an autograd key (e.g. DispatchKey::Autograd). This could mean that you have "
            "incorrectly registered an autograd kernel to a non-Autograd DispatchKey, which may lead to silently "
            "incorrect results. If your operator consists of regular PyTorch operations, consider not using an "
            "operator at all or registering your operator as CompositeImplicitAutograd. If you have "
            "an autograd.Function registered to a backend (CPU/CUDA) key, the correct location for it is the Autograd "
            "key.")


def _check_faketensor(op: Any, args: tuple, kwargs: dict[str, Any], **tolerances: Any) -> None:
    """On fake tensors the operator gives the shapes, strides and types that it gives on real ones."""
    from .._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
    from ..utils._python_dispatch import TorchDispatchMode

    args, kwargs = _copied(args, kwargs)
    seen: list[tuple] = []

    class Compare(TorchDispatchMode):
        """Runs each operator on fake tensors, too."""

        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            kwargs = kwargs or {}
            fake_mode = FakeTensorMode()
            fake_args, fake_kwargs = tree_map_only(Tensor, fake_mode.from_tensor, (args, kwargs))
            try:
                with fake_mode:
                    fake = func(*fake_args, **fake_kwargs)
            except DynamicOutputShapeException:
                fake = None
            real = func(*args, **kwargs)
            if fake is not None:
                seen.append((func, fake, real))
            return real

    with Compare():
        op(*args, **kwargs)
    for func, fake, real in seen:
        for of_fake, of_real in zip(tree_leaves(fake), tree_leaves(real), strict=True):
            if isinstance(of_real, Tensor):
                _compare_geometry(func, of_fake, of_real)


def _compare_geometry(func: Any, fake: Tensor, real: Tensor) -> None:
    where = f"When comparing the output of {func} on FakeTensor and concrete Tensors, found mismatched metadata: "
    if tuple(fake.shape) != tuple(real.shape):
        raise RuntimeError(f"{where}Shapes {fake.shape} and {real.shape} are not equal!")
    if fake.dtype is not real.dtype:
        raise RuntimeError(f"{where}Dtypes {fake.dtype} and {real.dtype} are not equal!")
    if fake.device != real.device:
        raise RuntimeError(f"{where}Devices {fake.device} and {real.device} are not equal!")
    for nr, (mine, theirs, size) in enumerate(zip(fake.stride(), real.stride(), real.shape, strict=True)):
        if size > 1 and real.numel() and mine != theirs:
            raise RuntimeError(f"{where}Stride mismatch! Strides are {fake.stride()} and {real.stride()} (mismatched "
                               f"at {nr})!")


def _check_aot_dispatch(op: Any, args: tuple, kwargs: dict[str, Any], **tolerances: Any) -> None:
    """A trace of the operator without mutations gives its results, and the gradients, too."""
    from .._functorch.aot_autograd import traced

    args, kwargs = _copied(args, kwargs)
    flat, spec = tree_flatten((args, kwargs))
    at = [i for i, leaf in enumerate(flat) if isinstance(leaf, Tensor)]

    def function(*tensors: Tensor) -> Any:
        leaves = list(flat)
        for i, tensor in zip(at, tensors, strict=True):
            leaves[i] = tensor
        given, named = tree_unflatten(leaves, spec)
        return op(*given, **named)

    tensors = [flat[i] for i in at]
    expected = _outcome(function, [_again(t) for t in tensors])
    made = _outcome(traced(function), [_again(t) for t in tensors])
    _assert_same(expected, made, "Outputs of the operator are different under eager-mode PyTorch vs AOTDispatcher "
                 "tracing. This means the operator will have incorrect output underneath torch.compile. This could be "
                 "because the operator's implementation not traceable.", tolerances)


def _again(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _outcome(function: Callable, tensors: list[Tensor]) -> list[Any]:
    """The results of a function, what it made of its arguments, and the gradients of the results' sum."""
    copies = [t.clone() if t.requires_grad else t for t in tensors]
    results = tree_leaves(function(*copies))
    outputs = [t for t in results if isinstance(t, Tensor) and t.requires_grad]
    sources = [t for t in tensors if t.requires_grad]
    grads: list[Any] = []
    if outputs and sources:
        from ..autograd import grad

        grads = list(grad(sum(t.sum().abs() for t in outputs), sources, allow_unused=True))
    return [t.detach() if isinstance(t, Tensor) else t for t in (*results, *copies, *grads)]


def _assert_same(expected: list[Any], made: list[Any], message: str, tolerances: dict[str, Any]) -> None:
    from ..testing import assert_close

    def explained(text: str) -> str:
        return f"{message}\n{text}"

    for one, other in zip(expected, made, strict=True):
        if isinstance(one, Tensor):
            try:
                assert_close(other, one, equal_nan=True, **tolerances)
            except AssertionError as error:
                raise AssertionError(explained(str(error))) from error
        elif one != other:
            raise AssertionError(explained(f"{one} and {other}"))


_CHECKS: dict[str, Callable] = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_autograd_registration,
    "test_faketensor": _check_faketensor,
    "test_aot_dispatch_static": _check_aot_dispatch,
    "test_aot_dispatch_dynamic": _check_aot_dispatch,
}
