"""Kernels in the language, one file a family."""
