"""torch.backends.opt_einsum: einsum orders its products itself."""

enabled = False
strategy: str | None = None


def is_available() -> bool:
    return False


def get_opt_einsum() -> None:
    return None
