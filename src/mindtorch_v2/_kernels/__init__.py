"""The kernel compiler: kernels as data, from two front ends, for several renderers.

`language` reads kernels that are written as Python functions, `trace` runs an operator's `compute(xp, ...)` on symbols;
both make what `ir` describes, which `llvm` renders for the CPU and `cuda` for NVIDIA's GPUs.
"""
