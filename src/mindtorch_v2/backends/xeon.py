"""torch.backends.xeon: the launcher for Intel servers is not here."""
