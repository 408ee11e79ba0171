"""torch.backends.cusparselt: not used here."""


def is_available() -> bool:
    return False
