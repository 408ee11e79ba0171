"""Ways of distributing modules that can be combined: not here."""
