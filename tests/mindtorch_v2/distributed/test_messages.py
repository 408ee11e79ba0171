"""Messages from one process to another."""

import time

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist


def test_messages_of_all_lengths(together):
    def work(rank):
        for length in (0, 1, 1000, 500_000):
            tensor = torch.arange(length) if rank == 0 else torch.zeros(length, dtype=torch.int64)
            if rank == 0:
                dist.send(tensor, 1)
            else:
                assert dist.recv(tensor, 0) == 0
                assert torch.equal(tensor, torch.arange(length))

    together(2, work)


def test_tags_and_order(together):
    def work(rank):
        if rank == 0:
            for tag in (3, 1, 2):
                dist.send(torch.tensor([tag]), 1, tag=tag)
            dist.send(torch.tensor([10]), 1)
            dist.send(torch.tensor([11]), 1)
        else:
            got = torch.zeros(1, dtype=torch.int64)
            for tag in (1, 2, 3):
                dist.recv(got, 0, tag=tag)
                assert got.item() == tag
            for expected in (10, 11):
                dist.recv(got, 0)
                assert got.item() == expected

    together(2, work)


def test_messages_from_any_process(together):
    def work(rank):
        if rank:
            dist.send(torch.full((3,), rank), 0)
            return
        senders = set()
        for _ in range(2):
            got = torch.zeros(3, dtype=torch.int64)
            sender = dist.recv(got)
            assert got.tolist() == [sender] * 3
            senders.add(sender)
        assert senders == {1, 2}

    together(3, work)


def test_both_send_before_they_receive(together):
    def work(rank):
        other = 1 - rank
        big, got = torch.full((300_000,), float(rank)), torch.empty(300_000)
        works = [dist.isend(big, other), dist.irecv(got, other)]
        total = torch.ones(1)
        dist.all_reduce(total)  # meanwhile
        for each in works:
            each.wait()
        assert got[-1].item() == other and total.item() == 2
        assert works[1].source_rank() == other

    together(2, work)


def test_batches(together):
    def work(rank):
        after, before = (rank + 1) % 3, (rank - 1) % 3
        got = torch.zeros(2)
        ops = [dist.P2POp(dist.isend, torch.full((2,), float(rank)), after), dist.P2POp(dist.irecv, got, before)]
        for each in dist.batch_isend_irecv(ops):
            each.wait()
        assert got.tolist() == [before, before]
        ends = f"group_src={rank}, group_dst={after}"
        assert repr(ops[0]) == f"P2POp(isend pg=0, {ends},  torch.Size([2]), torch.float32)"
        with pytest.raises(ValueError, match="Expected ``op`` to be of type ``torch.distributed.isend``"):
            dist.P2POp(dist.send, got, after)
        with pytest.raises(ValueError, match="Each op is expected to to be of type ``torch.distributed.P2POp``"):
            dist.batch_isend_irecv([1])

    together(3, work)


class Contended:
    """A lock that another thread has whenever it is asked for in passing."""

    def __init__(self, lock):
        self.lock = lock

    def acquire(self, blocking=True):
        return blocking and self.lock.acquire()

    def __enter__(self):
        return self.lock.__enter__()

    def __exit__(self, *details):
        return self.lock.__exit__(*details)


def test_the_last_message_of_a_rank_that_has_left_arrives(together):
    def work(rank):
        if rank == 0:
            dist.send(torch.ones(2), 1)
            return
        mail = dist.group.WORLD._get_backend(torch.device("cpu"))._mail
        while not mail._segment.how_it_ended(0):
            time.sleep(0.01)
        mail._lock = Contended(mail._lock)
        got = torch.zeros(2)
        dist.recv(got, 0)
        assert got.tolist() == [1, 1]

    together(2, work)


def test_what_is_refused(together):
    def work(rank):
        with pytest.raises(ValueError, match="destination rank should not be the same as the rank of the current"):
            dist.send(torch.ones(1), rank)
        with pytest.raises(ValueError, match="Must specify global_rank or group_rank"):
            dist.send(torch.ones(1))
        if rank == 0:
            dist.send(torch.ones(4), 1)
        else:
            with pytest.raises(RuntimeError, match="a message of 16 bytes from rank 0 into a tensor of 8 bytes"):
                dist.recv(torch.ones(2), 0)

    together(2, work)
