"""All collectives, types and groups: every rank writes what it got into a file. Runs under PyTorch and here.

    python collectives.py FOLDER, in every process, with RANK, WORLD_SIZE and a launcher's other variables
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
ALL = (*FLOATS, *INTEGERS, *COMPLEX, torch.bool)
LINES: list[str] = []


def say(what: str, value: object) -> None:
    if isinstance(value, torch.Tensor):
        shown = value.double() if value.dtype in FLOATS else value
        value = (str(value.dtype), tuple(value.shape), shown.tolist())
    LINES.append(f"{what}: {value}")


def caught(what: str, call) -> None:
    """Writes down an error that is raised before anything is sent."""
    try:
        call()
    except Exception as error:
        LINES.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
    else:
        LINES.append(f"{what}: nothing raised")


def values(kind: torch.dtype, rank: int, length: int = 7) -> torch.Tensor:
    """Small whole numbers, of which sums and products are exact in every type."""
    made = (torch.arange(length) * (rank + 1)) % 3 + rank % 2
    return (made % 2).to(kind) if kind is torch.bool else made.to(kind)


def collectives(group, name: str) -> None:
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    for kind in ALL:
        def mine(r: int = rank, kind: torch.dtype = kind) -> torch.Tensor:
            return values(kind, r)

        ops = ["SUM", "AVG"] if kind in COMPLEX else ["SUM", "PRODUCT", "MIN", "MAX"]
        if kind in FLOATS:
            ops.append("AVG")
        if kind in (*INTEGERS, torch.bool):
            ops += ["BAND", "BOR", "BXOR"]
        for op in ops:
            x = mine()
            dist.all_reduce(x, getattr(ReduceOp, op), group=group)
            say(f"{name} all_reduce {op}", x)
        x = mine()
        dist.reduce(x, group=group, group_dst=size - 1)
        if rank == size - 1:
            say(f"{name} reduce", x)
        x = mine()
        dist.broadcast(x, group=group, group_src=size - 1)
        say(f"{name} broadcast", x)
        outputs = [torch.zeros_like(x) for _ in range(size)]
        dist.all_gather(outputs, mine(), group=group)
        say(f"{name} all_gather", torch.stack(outputs))
        whole = torch.zeros(size * 7, dtype=kind)
        dist.all_gather_into_tensor(whole, mine(), group=group)
        say(f"{name} all_gather_into_tensor", whole)
        if kind not in COMPLEX:  # which PyTorch's gloo does not gather
            dist.gather(mine(), outputs if rank == 0 else None, group=group, group_dst=0)
            if rank == 0:
                say(f"{name} gather", torch.stack(outputs))
        dist.scatter(x, [values(kind, r + 1) for r in range(size)] if rank == 0 else None, group=group, group_src=0)
        say(f"{name} scatter", x)
        dist.reduce_scatter(x, [values(kind, r + rank) for r in range(size)], group=group)
        say(f"{name} reduce_scatter", x)
        part = torch.zeros(2, dtype=kind)
        dist.reduce_scatter_tensor(part, values(kind, rank, 2 * size), group=group)
        say(f"{name} reduce_scatter_tensor", part)
        dist.all_to_all(outputs, [values(kind, r + 2 * rank) for r in range(size)], group=group)
        say(f"{name} all_to_all", torch.stack(outputs))
        out = torch.zeros(size * (rank + 1), dtype=kind)
        given = values(kind, rank, sum(range(1, size + 1)))
        dist.all_to_all_single(out, given, [rank + 1] * size, list(range(1, size + 1)), group=group)
        say(f"{name} all_to_all_single", out)
        works = [dist.all_reduce(values(kind, rank + at), group=group, async_op=True) for at in range(3)]
        say(f"{name} async", [work.wait() for work in works])
    dist.barrier(group=group)


def messages(rank: int, size: int) -> None:
    for kind in ALL:
        got = torch.zeros(7, dtype=kind)
        ops = [dist.P2POp(dist.isend, values(kind, rank), (rank + 1) % size),
               dist.P2POp(dist.irecv, got, (rank - 1) % size)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        say("ring", got)
    if rank == 0:
        senders = []
        for _ in range(size - 1):
            got = torch.zeros(3)
            senders.append((dist.recv(got, tag=5), got.tolist()))
        say("from any", sorted(senders))
    else:
        dist.send(torch.full((3,), float(rank)), 0, tag=5)
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank})
    say("objects", everyone)
    some = [rank, "word"] if rank == 1 else [None, None]
    dist.broadcast_object_list(some, src=1)
    say("broadcast objects", some)
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    say("scatter objects", mine)
    collected = [None] * size if rank == 0 else None
    dist.gather_object(rank * 3, collected, dst=0)
    say("gather objects", collected)


def errors(rank: int, size: int) -> None:
    one = torch.ones(2)
    # What fails in a thread of PyTorch's gloo can fail its group's next barrier once more, so it has its own group.
    apart = dist.new_group()
    caught("bits of floats", lambda: dist.all_reduce(one, ReduceOp.BAND, apart))
    caught("mean of integers", lambda: dist.all_reduce(torch.ones(2, dtype=torch.int64), ReduceOp.AVG, apart))
    caught("type", lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16), group=apart))
    caught("complex", lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), ReduceOp.MAX, apart))
    caught("premul", lambda: dist.all_reduce(one, dist._make_nccl_premul_sum(2.0), apart))
    caught("root", lambda: dist.broadcast(one, 99))
    caught("no root", lambda: dist.broadcast(one))
    caught("length", lambda: dist.all_gather([one] * (size + 1), one, apart))
    caught("shape", lambda: dist.all_gather([torch.ones(3)] * size, one, apart))
    caught("types", lambda: dist.all_gather([torch.ones(2, dtype=torch.int64)] * size, one, apart))
    caught("list", lambda: dist.all_gather(one, one))
    caught("no list", lambda: dist.gather(one, dst=rank))
    caught("list elsewhere", lambda: dist.gather(one, [one] * size, dst=(rank + 1) % size))
    caught("scatter list elsewhere", lambda: dist.scatter(one, [one] * size, src=(rank + 1) % size))
    caught("to itself", lambda: dist.send(one, rank))
    caught("inputs", lambda: dist.reduce_scatter(one, [one] * (size + 1), group=apart))
    caught("splits", lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [3] * size, [3] * size, apart))
    caught("group", lambda: dist.all_reduce(one, group=3))
    caught("subgroups", lambda: dist.new_subgroups(size + 1))
    caught("operation", lambda: dist.P2POp(dist.send, one, 0))


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    say("world", (rank, size, dist.get_backend(), dist.is_initialized()))
    collectives(None, "world")
    first, last = dist.new_group([0, 1]), dist.new_group([size - 2, size - 1])
    for name, group in (("first", first), ("last", last)):
        say(name, (dist.get_rank(group), dist.get_world_size(group)))
        if dist.get_rank(group) >= 0:
            collectives(group, name)
    messages(rank, size)
    turned = torch.arange(6.0).reshape(2, 3).t()
    dist.all_reduce(turned)
    say("turned", turned)
    total = torch.tensor(float(rank), requires_grad=True)
    dist.all_reduce(total)
    say("number", total.detach())
    empty = torch.zeros(0)
    dist.all_reduce(empty)
    say("empty", empty)
    errors(rank, size)
    dist.barrier()
    (Path(sys.argv[1]) / f"rank {rank}").write_text("\n".join(LINES) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
