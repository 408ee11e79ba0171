"""torch.backends.nnpack: not used here."""


def is_available() -> bool:
    return False
