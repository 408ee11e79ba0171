"""How a process finds its group: from a URL, a rank and a number of processes, or from a launcher's variables."""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

from ._environment import adopt_mpi_environment, from_environment, started_by_mpi
from ._stores import DEFAULT_TIMEOUT, FileStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

Found = Iterator[tuple[Store, int, int]]
_handlers: dict[str, Callable[..., Found]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Found]) -> None:
    """Makes `handler(url)` serve the URLs of a scheme."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Found:
    """(store, rank, number of processes), as often as one is asked for."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parsed = urlparse(str(url))
    if parsed.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")
    asked = {name: int(values[0]) for name, values in parse_qs(parsed.query).items() if name in ("rank", "world_size")}
    rank = rank if rank != -1 else asked.get("rank", -1)
    world_size = world_size if world_size != -1 else asked.get("world_size", -1)
    return _handlers[parsed.scheme](url, rank, world_size, **kwargs)


def _missing(scheme: str, what: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what} missing")


def _checked(scheme: str, rank: int, world_size: int) -> None:
    if rank == -1:
        raise _missing(scheme, "rank parameter")
    if world_size == -1:
        raise _missing(scheme, "world size parameter")


def _by_tcp(url: str, rank: int, world_size: int, timeout: timedelta = DEFAULT_TIMEOUT) -> Found:
    parsed = urlparse(url)
    if parsed.port is None:
        raise _missing("tcp", "port number")
    _checked("tcp", rank, world_size)
    yield TCPStore(parsed.hostname or "localhost", parsed.port, world_size, rank == 0, timeout, multi_tenant=True), (
        rank), world_size
    raise RuntimeError("Unable to perform rerendezvous using tcp:// method")


def _by_file(url: str, rank: int, world_size: int, timeout: timedelta = DEFAULT_TIMEOUT) -> Found:
    path = urlparse(url).path
    if not path:
        raise _missing("file", "path")
    _checked("file", rank, world_size)
    yield FileStore(path, world_size), rank, world_size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _by_environment(url: str, rank: int, world_size: int, timeout: timedelta = DEFAULT_TIMEOUT) -> Found:
    if started_by_mpi():
        adopt_mpi_environment()
        if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
            from ._engines.mpi import agree_on_an_address

            agree_on_an_address()
    rank = int(from_environment("RANK")) if rank == -1 else rank
    world_size = int(from_environment("WORLD_SIZE")) if world_size == -1 else world_size
    host, port = from_environment("MASTER_ADDR"), int(from_environment("MASTER_PORT"))
    store: Store
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # the launcher serves it
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = PrefixStore(f"/worker/attempt_{attempt}", TCPStore(host, port, world_size, False, timeout,
                                                                   wait_for_workers=False))
    else:
        store = TCPStore(host, port, world_size, rank == 0, timeout, multi_tenant=True)
    yield store, rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


register_rendezvous_handler("tcp", _by_tcp)
register_rendezvous_handler("file", _by_file)
register_rendezvous_handler("env", _by_environment)
