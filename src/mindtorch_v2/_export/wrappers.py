"""The mark that tensor subclasses put on their constructors."""

from collections.abc import Callable


def mark_subclass_constructor_exportable_experimental(constructor_subclass: Callable[..., None]) -> Callable[..., None]:
    """The constructor, which nothing exports here; RuntimeError for any other method."""
    if constructor_subclass.__name__ != "__init__":
        raise RuntimeError(
            "torch._export.wrappers.mark_constructor_exportable_experimental can only be applied on subclass "
            f"tensor.__init__But, you are adding it on {constructor_subclass.__name__} which is not supported. If "
            "__init__ doesn't exist on your subclass, please add it. Look at DTensor.__init__ implementation for "
            "example"
        )
    return constructor_subclass
