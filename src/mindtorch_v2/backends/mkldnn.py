"""torch.backends.mkldnn: oneDNN is not used here."""

from ._switches import flags_of


def is_available() -> bool:
    return False


enabled = False
deterministic = False
allow_tf32 = False


def is_acl_available() -> bool:
    return False


def set_flags(_enabled: bool | None = None, _deterministic: bool | None = None,
              _allow_tf32: bool | None = None) -> tuple[bool, bool, bool]:
    """Sets the switches that are given; returns what they were."""
    global enabled, deterministic, allow_tf32
    before = enabled, deterministic, allow_tf32
    enabled = enabled if _enabled is None else _enabled
    deterministic = deterministic if _deterministic is None else _deterministic
    allow_tf32 = allow_tf32 if _allow_tf32 is None else _allow_tf32
    return before


flags = flags_of(__name__, enabled="enabled", deterministic="deterministic", allow_tf32="allow_tf32")
