"""Kernels of single operators on an NPU, found by the names in their declarations."""
