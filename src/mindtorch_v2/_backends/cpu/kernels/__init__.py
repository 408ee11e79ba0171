"""Kernels of single operators on the CPU that are not NumPy, found by the names in their declarations."""
