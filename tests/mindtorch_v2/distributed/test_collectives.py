"""Collectives between real processes: values, types, groups, errors."""

import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
from mindtorch_v2.distributed import ReduceOp

REDUCED = {  # of [rank + 1, 3, 0] over ranks 0 and 1
    "SUM": [3, 6, 0], "PRODUCT": [2, 9, 0], "MIN": [1, 3, 0], "MAX": [2, 3, 0], "BAND": [0, 3, 0], "BOR": [3, 3, 0],
    "BXOR": [3, 0, 0], "AVG": [1.5, 3, 0]}  # fmt: skip
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]


def _fails(kind, text, call):
    with pytest.raises(kind, match=text):
        call()


def test_all_reduce_of_every_type(together):
    def work(rank):
        for name, values in REDUCED.items():
            op = getattr(ReduceOp, name)
            of_bits = name.startswith("B")
            for kind in INTEGERS if of_bits else [*FLOATS, *(INTEGERS if name != "AVG" else [])]:
                tensor = torch.tensor([rank + 1, 3, 0]).to(kind)
                assert dist.all_reduce(tensor, op) is None
                assert tensor.tolist() == values, (name, kind)
                assert tensor.dtype is kind
        for kind in (torch.complex64, torch.complex128):
            tensor = torch.tensor([rank + 1j, 3], dtype=kind)
            dist.all_reduce(tensor)
            assert tensor.tolist() == [1 + 2j, 6]
            dist.all_reduce(tensor, ReduceOp.AVG)
            assert tensor.tolist() == [1 + 2j, 6]
        for name, values in (("SUM", [1, 1, 0]), ("BXOR", [0, 1, 0]), ("MIN", [1, 0, 0])):
            flags = torch.tensor([True, rank == 0, False])
            dist.all_reduce(flags, getattr(ReduceOp, name))
            assert flags.tolist() == list(map(bool, values))

    together(2, work)


def test_what_cannot_be_reduced(together):
    def work(rank):
        _fails(RuntimeError, "Cannot use ReduceOp.BAND with non-integral dtype",
               lambda: dist.all_reduce(torch.ones(2), ReduceOp.BAND))
        _fails(RuntimeError, "result type Float can't be cast to the desired output type Long",
               lambda: dist.all_reduce(torch.ones(2, dtype=torch.int64), ReduceOp.AVG))
        _fails(RuntimeError, "Cannot use ReduceOp.PREMUL_SUM with Gloo",
               lambda: dist.all_reduce(torch.ones(2), dist._make_nccl_premul_sum(2.0)))
        _fails(RuntimeError, "collectives take strided tensors, not torch.sparse_coo",
               lambda: dist.all_reduce(torch.eye(2).to_sparse()))
        _fails(RuntimeError, "Invalid scalar type", lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16)))
        _fails(ValueError, "all_reduce does not support RedOpType.MAX on complex tensors",
               lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), ReduceOp.MAX))
        _fails(RuntimeError, "ProcessGroupGloo::broadcast: invalid root rank: 5",
               lambda: dist.broadcast(torch.ones(2), 5))
        _fails(ValueError, "Must specify global_rank or group_rank", lambda: dist.broadcast(torch.ones(2)))
        _fails(ValueError, "Can't specify both group_rank and global_rank",
               lambda: dist.broadcast(torch.ones(2), 0, group_src=0))
        _fails(RuntimeError, r"expected length 2, got 3", lambda: dist.all_gather([torch.ones(2)] * 3, torch.ones(2)))
        _fails(RuntimeError, r"invalid tensor size at index 0 \(expected \(2\), got \(3\)\)",
               lambda: dist.all_gather([torch.ones(3)] * 2, torch.ones(2)))
        _fails(RuntimeError, "invalid input tensor list size, must be world size",
               lambda: dist.reduce_scatter(torch.ones(2), [torch.ones(2)] * 3))
        _fails(RuntimeError, "Split sizes doesn't match total dim 0 size",
               lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [1, 2], [2, 2]))
        _fails(RuntimeError, "output tensor list size 1 does not match world size 2",
               lambda: dist.all_to_all([torch.ones(1)], [torch.ones(1)] * 2))
        _fails(ValueError, "must NOT be specified on non-source ranks",
               lambda: dist.scatter(torch.ones(2), [torch.ones(2)] * 2, src=1 - rank))
        _fails(ValueError, "``gather_list`` must be specified on destination rank",
               lambda: dist.gather(torch.ones(2), dst=rank))
        _fails(RuntimeError, "gather: Incorrect output list size 3. Output list size should be 2",
               lambda: dist.gather(torch.ones(2), [torch.ones(2)] * 3, dst=rank))
        _fails(TypeError, "Expected parameter `tensor_list` of type List", lambda: dist.all_gather(1, torch.ones(1)))
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor)  # all of these changed nothing
        assert tensor.item() == 1

    together(2, work)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_collectives_of_all_lengths(together, size):
    def work(rank):
        for length in (0, 1, 5, 1000, 70_001, 400_003):
            base = torch.arange(length, dtype=torch.float32)
            total = base.clone() + rank
            dist.all_reduce(total)
            assert torch.equal(total, base * size + sum(range(size))), length
            shared = base * (rank + 1)
            dist.broadcast(shared, size - 1)
            assert torch.equal(shared, base * size)
            gathered = [torch.empty(length) for _ in range(size)]
            dist.all_gather(gathered, base + rank)
            assert all(torch.equal(each, base + r) for r, each in enumerate(gathered))
            reduced = base + rank
            dist.reduce(reduced, 1, ReduceOp.MAX)
            assert rank != 1 or torch.equal(reduced, base + size - 1)
            part = torch.empty(length)
            dist.reduce_scatter(part, [base + r + rank for r in range(size)])
            assert torch.equal(part, base * size + rank * size + sum(range(size)))
            dist.scatter(part, [base * r for r in range(size)] if rank == 0 else None, src=0)
            assert torch.equal(part, base * rank)
            collected = [torch.empty(length) for _ in range(size)] if rank == 1 else None
            dist.gather(base - rank, collected, dst=1)
            assert collected is None or all(torch.equal(each, base - r) for r, each in enumerate(collected))
            received = [torch.empty(length) for _ in range(size)]
            dist.all_to_all(received, [base + 10 * rank + r for r in range(size)])
            assert all(torch.equal(each, base + 10 * r + rank) for r, each in enumerate(received))

    together(size, work)


def test_whole_tensors_and_uneven_pieces(together):
    def work(rank):
        out = torch.empty(6, 2)
        dist.all_gather_into_tensor(out, torch.full((2, 2), float(rank)))
        assert out[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
        part = torch.empty(1, 2)
        dist.reduce_scatter_tensor(part, torch.arange(6.0).reshape(3, 2))
        assert part.tolist() == [[6.0 * rank, 6.0 * rank + 3]]
        sent = [rank + 1] * 3
        lengths = [1, 2, 3]
        out = torch.empty(6, dtype=torch.int64)
        dist.all_to_all_single(out, torch.full((3 * (rank + 1),), rank), lengths, sent)
        assert out.tolist() == [0, 1, 1, 2, 2, 2]
        with pytest.raises(RuntimeError, match="does not divide equally across group size"):
            dist.all_to_all_single(torch.ones(4), torch.ones(4))
        tensors = [torch.ones(2), torch.ones(3)]
        dist.all_reduce_coalesced(tensors)
        assert [t.sum().item() for t in tensors] == [6, 9]
        outputs = [[torch.zeros(1), torch.zeros(2)] for _ in range(3)]
        dist.all_gather_coalesced(outputs, [torch.full((1,), float(rank)), torch.full((2,), float(rank))])
        assert [row[1].tolist() for row in outputs] == [[0, 0], [1, 1], [2, 2]]
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        assert [t[0].item() for t in tensors] == [9, 9]

    together(3, work)


def test_tensors_with_gaps(together):
    def work(rank):
        base = torch.arange(6.0).reshape(2, 3)
        turned = base.clone().t()
        dist.all_reduce(turned)
        assert torch.equal(turned, base.t() * 2) and turned.stride() == (1, 3)
        gathered = [torch.zeros(3, 2).t() for _ in range(2)]
        dist.all_gather(gathered, base)
        assert torch.equal(gathered[1], base)
        whole = torch.zeros(4)
        dist.broadcast(whole[::2] if rank else torch.ones(2), 0)
        assert whole.tolist() == ([1, 0, 1, 0] if rank else [0] * 4)
        number = torch.tensor(1.0, requires_grad=True)
        dist.all_reduce(number)
        assert number.item() == 2 and number.requires_grad
        if rank == 0:
            _fails(RuntimeError, "has to be contiguous", lambda: dist.send(base.t(), 1))

    together(2, work)


def test_the_order_of_summation_is_that_of_ranks(together):
    values = [torch.tensor(np.random.default_rng(rank).standard_normal(200_000), dtype=torch.float32)
              for rank in range(3)]

    def work(rank):
        for length in (1000, 200_000):
            tensor = values[rank][:length].clone()
            dist.all_reduce(tensor)
            assert torch.equal(tensor, values[0][:length] + values[1][:length] + values[2][:length])

    together(3, work)


def test_works_and_futures(together):
    def work(rank):
        tensors = [torch.full((1000,), float(at)) for at in range(8)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        doubled = works[3].get_future().then(lambda done: done.value()[0] * 2)
        now = torch.tensor([float(rank)])
        dist.all_reduce(now)  # in its turn, after the others
        assert now.item() == 1
        assert all(each.is_completed() for each in works)
        assert all(each.wait() for each in reversed(works))
        assert works[5].result()[0] is tensors[5] and works[5].is_success() and works[5].exception() is None
        assert tensors[5][0].item() == 10 and doubled.wait()[0].item() == 12
        inner = dist.barrier(async_op=True).get_future().then(
            lambda _: dist.all_reduce(now, async_op=True).get_future().wait()[0].item())
        assert inner.wait() == 2
        with pytest.raises(RuntimeError, match="may only be called on work objects"):
            works[0].source_rank()

    together(2, work)


def test_groups_within_the_group(together):
    def work(rank):
        even = dist.new_group([2, 0])
        odd = dist.new_group([1, 3], backend="gloo")
        mine, other = (even, odd) if rank % 2 == 0 else (odd, even)
        assert other == dist.GroupMember.NON_GROUP_MEMBER
        assert (dist.get_rank(mine), dist.get_world_size(mine)) == (rank // 2, 2)
        assert (dist.get_rank(other), dist.get_world_size(other)) == (-1, -1)
        assert dist.get_process_group_ranks(mine) == [rank % 2, rank % 2 + 2]
        assert (dist.get_group_rank(mine, rank), dist.get_global_rank(mine, 1)) == (rank // 2, rank % 2 + 2)
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor, group=mine)
        assert tensor.item() == (2 if rank % 2 == 0 else 4)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert dist.all_reduce(tensor, group=other) is None
        assert f"Running all_reduce on global rank {rank} which does not belong to the given group" in str(
            caught[0].message)
        dist.broadcast(tensor, src=rank % 2 + 2, group=mine)
        with pytest.raises(ValueError, match="is not part of group"):
            dist.broadcast(tensor, src=1 - rank % 2, group=mine)
        half, halves = dist.new_subgroups(2)
        assert dist.get_process_group_ranks(half) == ([0, 1] if rank < 2 else [2, 3]) and len(halves) == 2
        with pytest.raises(ValueError, match=r"Rank 0 has appeared in both subgroup \[0\] and \[0, 1\]"):
            dist.new_subgroups_by_enumeration([[0], [0, 1]])
        with pytest.raises(ValueError, match=r"The arg 'group_size' \(5\) must not exceed the world size \(4\)"):
            dist.new_subgroups(5)
        pair = dist.split_group(split_ranks=[[0, 3], [1, 2]])
        flags = torch.zeros(4)
        flags[rank] = 1
        dist.all_reduce(flags, group=pair)
        assert flags.tolist() == ([1, 0, 0, 1] if rank in (0, 3) else [0, 1, 1, 0])
        dist.destroy_process_group(mine)
        dist.barrier()

    together(4, work)


def test_objects_travel(together):
    def work(rank):
        everyone = [None] * 3
        dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank * 1000})
        assert [each["rank"] for each in everyone] == [0, 1, 2] and len(everyone[2]["text"]) == 2000
        some = [torch.ones(2), "word", None] if rank == 1 else [None] * 3
        dist.broadcast_object_list(some, src=1)
        assert some[0].tolist() == [1, 1] and some[1:] == ["word", None]
        collected = [None] * 3 if rank == 2 else None
        dist.gather_object(rank * 2, collected, dst=2)
        assert collected in (None, [0, 2, 4])
        mine = [None]
        dist.scatter_object_list(mine, ["a", "bb", "ccc"] if rank == 0 else None, src=0)
        assert len(mine[0]) == rank + 1
        if rank == 0:
            dist.send_object_list([1, "two"], dst=1)
        elif rank == 1:
            got = [None, None]
            assert dist.recv_object_list(got, src=0) == 0
            assert got == [1, "two"]

    together(3, work)


def test_a_backend_of_ones_own(together):
    class Doubling(dist._Backend):
        def allreduce(self, tensors, opts):
            tensors[0].mul_(self.size())
            return _Done()

    class _Done(dist.Work):
        def wait(self, timeout=None):
            return True

    def work(rank):
        dist.Backend.register_backend("doubling", lambda _, rank, size, timeout: Doubling(rank, size), devices="cpu")
        group = dist.new_group(backend="doubling")
        tensor = torch.ones(2)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [2, 2]
        assert dist.get_backend(group) == "doubling" and dist.is_backend_available("doubling")
        with pytest.raises(RuntimeError, match="Backend doubling does not support barrier"):
            dist.barrier(group=group)

    together(2, work)
