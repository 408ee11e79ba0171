"""Remote calls: not here. The names can be imported; using one says so."""

from typing import Any

from ..._compat.absent import absent_class, absent_function

__all__ = ["BackendType", "RRef", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "WorkerInfo", "functions",
           "get_worker_info", "init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]

_WHY = "Use collectives and messages between processes (send, recv, object lists)."


def is_available() -> bool:
    """Whether other processes can be called: not here."""
    return False


BackendType, RRef, RpcBackendOptions, TensorPipeRpcBackendOptions, WorkerInfo = (
    absent_class(f"torch.distributed.rpc.{name}", _WHY) for name in __all__[:5])
get_worker_info, init_rpc, remote, rpc_async, rpc_sync, shutdown = (
    absent_function(f"torch.distributed.rpc.{name}", _WHY)
    for name in ("get_worker_info", "init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown"))


class functions:
    """Decorators of functions that others call."""

    @staticmethod
    def async_execution(fn: Any) -> Any:
        """The function, which nobody calls from afar."""
        return fn
