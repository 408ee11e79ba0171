"""The elastic launcher: not here."""
