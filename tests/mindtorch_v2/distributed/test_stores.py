"""Stores: what they keep, how long they wait, who finds them."""

import socket
import threading
from datetime import timedelta

import pytest

import mindtorch_v2.distributed as dist
from mindtorch_v2.multiprocessing import start_processes

SHORT = timedelta(milliseconds=30)


def _file(folder):
    return dist.FileStore(f"{folder}/store", 1)


STORES = {"hash": lambda folder: dist.HashStore(), "file": _file,
          "tcp": lambda folder: dist.TCPStore("127.0.0.1", 0, 1, True),
          "prefix": lambda folder: dist.PrefixStore("p", dist.HashStore()),
          "prefixed tcp": lambda folder: dist.PrefixStore("p", dist.TCPStore("127.0.0.1", 0, None, True))}


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return STORES[request.param](tmp_path)


def test_values_are_kept(store):
    store.set("a", b"\0x")
    assert (store.get("a"), store.check(["a"]), store.check(["a", "b"])) == (b"\0x", True, False)
    store.set("a", "word")
    assert store.get("a") == b"word"
    with pytest.raises(TypeError, match="a value is a str or bytes, not int"):
        store.set("a", 1)
    store.multi_set(["m", "n"], ["1", b"2"])
    assert store.multi_get(["m", "n"]) == [b"1", b"2"]
    store.append("l", "1")
    store.append("l", "23")
    assert store.get("l") == b"123"
    assert {"a", "m", "n", "l"} <= set(store.list_keys())
    assert store.delete_key("a")
    assert not store.check(["a"])


def test_counters(store):
    assert [store.add("n", 3), store.add("n", -1), store.get("n")] == [3, 2, b"2"]
    store.set("word", "x")
    with pytest.raises(ValueError, match="is no number"):
        store.add("word", 1)
    assert store.add("n", 0) == 2


def test_a_value_is_set_if_it_is_the_expected_one(store):
    assert store.compare_set("c", "", "v") == b"v"
    assert store.compare_set("c", "w", "z") == b"v"
    assert store.compare_set("c", "v", "z") == b"z"
    assert store.compare_set("other", "q", "z") == b"q"
    assert not store.check(["other"])


def test_who_waits_too_long_is_told(store):
    assert store.timeout in (timedelta(seconds=300), timedelta(seconds=5))
    store.set_timeout(SHORT)
    assert store.timeout == SHORT
    for call in (lambda: store.get("missing"), lambda: store.wait(["missing"]),
                 lambda: store.wait(["missing"], timedelta(milliseconds=10))):
        with pytest.raises(RuntimeError, match="(?i)timeout"):
            call()
    store.set("here", "1")
    assert store.get("here") == b"1"


@pytest.mark.parametrize("make", [STORES["hash"], STORES["tcp"]])
def test_queues(make, tmp_path):
    store = make(tmp_path)
    store.queue_push("q", "1")
    store.queue_push("q", "2")
    assert store.queue_len("q") == 2
    assert [store.queue_pop("q"), store.queue_pop("q"), store.queue_len("q")] == [b"1", b"2", 0]
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", False)
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError):
        store.queue_pop("q")


def test_prefixes_and_numbers_of_keys():
    other = dist.HashStore()
    store = dist.PrefixStore("p", dist.PrefixStore("o", other))
    store.set("q", b"1")
    assert other.get("o/p/q") == b"1"
    assert store._underlying_non_prefix_store is other
    assert (other.num_keys(), store.num_keys(), store.list_keys()) == (1, 1, ["q"])
    assert dist.TCPStore("127.0.0.1", 0, 1, True).num_keys() == 1  # it counts its processes


def test_a_value_comes_from_another_thread():
    for store in (dist.HashStore(), dist.TCPStore("127.0.0.1", 0, None, True)):
        threading.Timer(0.05, store.clone().set, ("late", "1")).start()
        assert store.get("late") == b"1"


def test_many_processes_share_a_server(tmp_path):
    server = dist.TCPStore("127.0.0.1", 0, None, True)

    def work(rank, port):
        store = dist.TCPStore("127.0.0.1", port, None, False)
        store.set(f"from {rank}", bytes([rank]) * 100_000)
        store.barrier("all", 3)
        for other in range(3):
            assert store.get(f"from {other}") == bytes([other]) * 100_000
        store.add("sum", rank)

    start_processes(work, (server.port,), 3, start_method="fork")
    assert server.get("sum") == b"3"


def test_many_processes_share_a_file(tmp_path):
    path = str(tmp_path / "store")

    def work(rank):
        store = dist.FileStore(path, 3)
        for _ in range(20):
            store.add("sum", 1)
        store.barrier("all", 3)
        assert store.get("sum") == b"60"

    start_processes(work, (), 3, start_method="fork")


def test_a_port_in_use_and_a_server_that_is_not_there():
    server = dist.TCPStore("127.0.0.1", 0, 1, True)
    with pytest.raises(dist.DistNetworkError, match=f"failed to listen.*port: {server.port}.*EADDRINUSE"):
        dist.TCPStore("127.0.0.1", server.port, 1, True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(dist.DistNetworkError, match=r"timed out after 100ms while trying to connect to \(127.0.0.1"):
        dist.TCPStore("127.0.0.1", port, 1, False, timedelta(milliseconds=100))
    with pytest.raises(dist.DistStoreError, match="waiting for clients. 1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timedelta(milliseconds=100))


def test_a_server_that_goes_away_is_told_of():
    server = dist.TCPStore("127.0.0.1", 0, None, True)
    client = dist.TCPStore("127.0.0.1", server.port, None, False)
    client.set("a", "1")
    del server
    with pytest.raises(dist.DistNetworkError, match="Did the remote server shutdown or crash"):
        for _ in range(100):
            client.get("a")


def test_strangers_do_not_harm_a_server():
    server = dist.TCPStore("127.0.0.1", 0, None, True)
    for words in (b"GET / HTTP/1.1\r\n\r\n", b"\x05\0\0\0\x01\0\0\0x", b"\xff" * 100):
        with socket.create_connection(("127.0.0.1", server.port)) as stranger:
            stranger.sendall(words)
    server.set("a", "1")
    assert server.get("a") == b"1"
