"""torch.backends.mkl: not used here."""


def is_available() -> bool:
    return False
