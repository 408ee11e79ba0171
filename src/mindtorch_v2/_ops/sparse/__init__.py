"""Operators on sparse layouts."""
