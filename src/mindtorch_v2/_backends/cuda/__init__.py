"""CUDA devices through CuPy. Nothing here is imported, nor CuPy, before a CUDA device is first asked for."""
