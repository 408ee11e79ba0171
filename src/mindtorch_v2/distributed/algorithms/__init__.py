"""Algorithms over several processes: not here."""
