"""Forward-mode differentiation: dual tensors, which carry a tangent through every operation."""

from typing import Any, NamedTuple

from .._autograd.forward import DualLevel, attach_tangent, primal_of, tangent_of
from .._autograd.grad_mode import _ModeContext
from .._autograd.views import wake
from .._core.dtype import FLOAT
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.keys import DUAL_MASK, changed_modes, modes
from .._dispatch.registry import registry

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_current_level = -1
_open: list[DualLevel] = []


class UnpackedDualTensor(NamedTuple):
    """A tensor's value and its tangent, None where it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens a level; tangents made in it live until it is left."""
    global _current_level
    if _open:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _open.append(DualLevel())
    _current_level = 0
    return _current_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level: its tangents are gone."""
    global _current_level
    level = _current_level if level is None else level
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    if level != _current_level:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not "
                           "supported.")
    _open.pop().alive = False
    _current_level = -1


class dual_level(_ModeContext):
    """Context in which dual tensors live."""

    def __enter__(self) -> int:  # type: ignore[override]
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """`tensor` with `tangent`: an alias, whose results will have tangents, too."""
    if not _open or (level is not None and level < 0):
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if given.dtype.category < FLOAT:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {given.dtype}")
    if tangent_of(tensor) is not None:
        raise RuntimeError("Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
                           f"level {_current_level} is not supported.")
    if tangent_of(tangent) is not None:
        raise RuntimeError("Setting a forward grad that itself has a forward gradient at the same "
                           f"level{_current_level} is not supported.")
    if tangent.shape == tensor.shape and tangent.stride() != tensor.stride():
        tangent = tangent.clone()  # it may be written in place, as the tensor may
    return attach_tangent(_alias(tensor), tangent, _open[-1])


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(the value, the tangent or None)."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    if not _open or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    if tensor._base is not None and tensor._base._keys & DUAL_MASK:
        wake(tensor)
    return UnpackedDualTensor(primal_of(tensor), tangent_of(tensor))


def _alias(tensor: Tensor) -> Tensor:
    with changed_modes(exclude=modes.exclude | DUAL_MASK):
        return call_bound(registry.get("alias"), (tensor,))


def _is_fwd_grad_enabled() -> bool:
    return not modes.exclude & DUAL_MASK


class _set_fwd_grad_enabled(_ModeContext):
    """Switches the making of tangents, at once and until the end of a `with` block."""

    def __init__(self, mode: bool) -> None:
        self.mode, self.previous = mode, modes.exclude
        _switch_fwd_grad(mode)

    def clone(self) -> Any:
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        modes.update(exclude=self.previous)


def _switch_fwd_grad(enabled: bool) -> None:
    """Switches the making of tangents for good."""
    modes.update(exclude=modes.exclude & ~DUAL_MASK if enabled else modes.exclude | DUAL_MASK)
