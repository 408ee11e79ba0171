"""torch.backends.openmp: not used here."""


def is_available() -> bool:
    return False
