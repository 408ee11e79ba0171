"""The elastic launcher: one process does not fail and come back by itself."""
