"""Passes over graphs of ATen's operators."""
