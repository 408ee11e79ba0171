"""Collectives with derivatives: not here."""
