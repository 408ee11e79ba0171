"""What torch.func is made of: levels, batching rules and the transforms."""

from . import config  # noqa: F401 - as an attribute
