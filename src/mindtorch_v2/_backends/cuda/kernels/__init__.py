"""Kernels of single operators on a GPU, found by the names in their declarations."""
