"""Remote calls: not here."""

from ..._absent import absent_function


def is_available() -> bool:
    return False


init_rpc = absent_function("torch.distributed.rpc.init_rpc", "It runs one process.")
