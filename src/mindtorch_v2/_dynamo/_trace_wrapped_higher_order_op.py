"""A mode that transformers enters while it makes attention masks."""

from typing import Any


class TransformGetItemToIndex:
    """Turns `tensor[index]` into an index operator under a trace; without one, nothing differs."""

    def __enter__(self) -> "TransformGetItemToIndex":
        return self

    def __exit__(self, *exception: Any) -> None:
        """Leaves the mode."""
