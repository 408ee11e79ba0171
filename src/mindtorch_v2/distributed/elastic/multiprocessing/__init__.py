"""Processes of the elastic launcher."""
