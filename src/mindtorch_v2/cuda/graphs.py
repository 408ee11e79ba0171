"""torch.cuda.graphs."""

from . import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"]
