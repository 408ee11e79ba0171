"""torch._tensor_str: where PyTorch keeps how tensors are printed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._core.printing import PRINT_OPTS, _contents, get_printoptions, set_printoptions

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Context in which tensors print with other options."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        vars(PRINT_OPTS).update(before)


def _tensor_str(self: Any, indent: int) -> str:
    """The numbers of a tensor, brackets included."""
    return "[]" if not self.numel() else _contents(self.detach().cpu()._host_array("printing"), self.dtype, indent)


def _str(self: Any, *, tensor_contents: Any = None) -> str:
    return repr(self)
