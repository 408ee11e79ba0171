"""In the place of _backends/cpu/jit, for the modules of shared_kernels."""
