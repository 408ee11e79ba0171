"""Variables: tensors under their name of old."""

from .._tensor import Tensor

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """Lets isinstance(tensor, Variable) hold."""

    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


Variable = Tensor
