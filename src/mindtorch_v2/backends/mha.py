"""torch.backends.mha: the fast path of MultiheadAttention and TransformerEncoder, which computes the same values."""

_fastpath = [True]


def get_fastpath_enabled() -> bool:
    return _fastpath[0]


def set_fastpath_enabled(value: bool) -> None:
    _fastpath[0] = value
