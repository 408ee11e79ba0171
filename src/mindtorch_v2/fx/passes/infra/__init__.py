"""Passes over graphs, and running them one after the other."""
