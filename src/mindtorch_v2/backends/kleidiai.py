"""torch.backends.kleidiai: not used here."""


def is_available() -> bool:
    return False
