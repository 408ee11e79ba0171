"""Tensor parallelism: models cut over processes train as on one; what styles do to modules; losses of cut scores."""

import copy

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn
from mindtorch_v2.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)
from mindtorch_v2.distributed.tensor.debug import CommDebugMode
from mindtorch_v2.distributed.tensor.experimental import implicit_replication, local_map
from mindtorch_v2.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

R, S0, S1 = Replicate(), Shard(0), Shard(1)
GATHER = torch.ops.c10d_functional.all_gather_into_tensor
SCATTER = torch.ops.c10d_functional.reduce_scatter_tensor


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 8)
        self.blocks = nn.Sequential(Block(), Block())
        self.scores = nn.Linear(8, 10)

    def forward(self, x):
        return self.scores(self.blocks(self.words(x)))


def _made():
    torch.manual_seed(0)
    return Model()


def test_cut_models_train_as_on_one_process(together):
    whole = {"words": RowwiseParallel(input_layouts=R), "blocks.*.up": ColwiseParallel(),
             "blocks.*.down": RowwiseParallel(), "scores": ColwiseParallel(output_layouts=R)}
    pieces = {"words": ColwiseParallel(output_layouts=S1, use_local_output=False), "blocks.*.norm": SequenceParallel(),
              "blocks.*.up": ColwiseParallel(input_layouts=S1, use_local_output=False),
              "blocks.*.down": RowwiseParallel(output_layouts=S1, use_local_output=False),
              "scores": ColwiseParallel(input_layouts=S1, use_local_output=False)}

    def work(rank):
        mesh = init_device_mesh("cpu", (2,))
        torch.manual_seed(1)
        x, y = torch.randint(0, 10, (3, 4)), torch.randint(0, 10, (12,))
        for plan in (whole, pieces):
            models = [_made(), parallelize_module(_made(), mesh, plan)]
            steps = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in models]
            for _ in range(4):
                losses = []
                for model, step in zip(models, steps, strict=True):
                    with loss_parallel():
                        loss = F.cross_entropy(model(x).flatten(0, 1), y)
                        loss.backward()
                    step.step()
                    step.zero_grad()
                    losses.append(loss.full_tensor() if isinstance(loss, DTensor) else loss)
                torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
            weight = models[1].blocks[0].up.weight
            assert weight.placements == (S0,) and weight.to_local().shape == (6, 8)
            assert models[1].blocks[1].down.weight.placements == (S1,)
        with CommDebugMode() as counted:
            out = models[1].blocks[0](distribute_tensor(torch.ones(3, 4, 8), mesh, [S1]))
        assert counted.get_comm_counts() == {GATHER: 1, SCATTER: 1} and counted.get_total_counts() == 2
        with counted:
            out.sum().backward()
        assert counted.get_comm_counts()[SCATTER] == 1 and counted.get_comm_counts()[GATHER] == 0

    together(2, work)


def test_what_styles_do_to_modules(together):
    class Add(nn.Module):
        def forward(self, x, y=None):
            self.seen = [getattr(each, "placements", None) for each in (x, y)]
            return (x, x) if y is None else x + y

    def work(rank):
        mesh = init_device_mesh("cpu", (2,))
        x = torch.full((2, 2), 1.0 + rank)
        style = PrepareModuleInput(input_layouts=(S0, None), desired_input_layouts=(R, None))
        made = parallelize_module(Add(), mesh, style)
        made(x, None)
        assert made.seen == [(R,), None]
        with pytest.raises(ValueError, match="module inputs and input_layouts should have same length!"):
            made(x)
        style = PrepareModuleInputOutput(input_kwarg_layouts={"y": S0}, desired_input_kwarg_layouts={"y": S1},
                                         input_layouts=S0, desired_input_layouts=S1, output_layouts=S1,
                                         desired_output_layouts=R)
        made = parallelize_module(Add(), mesh, style)
        assert made(x, y=x).tolist() == [[2, 2], [2, 2], [4, 4], [4, 4]] and made.seen == [(S1,), (S1,)]
        assert repr(style).startswith("PrepareModuleInputOutput(input_layouts=(Shard(dim=0),), desired_input_layouts=")
        made = parallelize_module(Add(), mesh, PrepareModuleOutput(output_layouts=(S0, None),
                                                                   desired_output_layouts=(R, None)))
        assert [each.shape for each in made(x)] == [(4, 2), (2, 2)]
        assert repr(ColwiseParallel()) == ("ColwiseParallel(input_layouts=(Replicate(),), "
                                           "output_layouts=(Shard(dim=-1),), use_local_output=True)")
        assert repr(SequenceParallel()) == "SequenceParallel(sequence_dim=1, use_local_output=False)"
        for call, kind, text in (
            (lambda: parallelize_module(Add(), mesh, RowwiseParallel()), NotImplementedError,
             "RowwiseParallel currently only support nn.Linear and nn.Embedding!"),
            (lambda: PrepareModuleInput(input_layouts=S0), AssertionError, "desired module inputs should not be None!"),
            (lambda: distribute_module(distribute_module(Add(), mesh), mesh), RuntimeError,
             "distribute_module should only be called once on a module"),
        ):
            with pytest.raises(kind, match=text):
                call()
        with pytest.warns(UserWarning, match="Parallelize plan key 'a.b' could not be resolved: no submodule matching"):
            parallelize_module(Add(), mesh, {"a.b": ColwiseParallel()})

    together(2, work)


def test_losses_of_scores_cut_along_classes(together):
    def work(rank):
        mesh = init_device_mesh("cpu", (2, 2))
        torch.manual_seed(0)
        weight = torch.rand(5)
        for shape, classes in (((6, 5), (6,)), ((2, 5, 3), (2, 3))):
            scores, target = torch.randn(shape), torch.randint(0, 5, classes)
            target.view(-1)[0] = 1
            for placed in ((S1, R), (S0, S1)):
                for options in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": weight, "ignore_index": 1}):
                    whole = scores.clone().requires_grad_()
                    expected = F.cross_entropy(whole, target, **options)
                    expected.sum().backward()
                    piece = distribute_tensor(scores, mesh, placed).requires_grad_()
                    spread = {name: distribute_tensor(value, mesh, [R, R]) if name == "weight" else value
                              for name, value in options.items()}
                    with loss_parallel():
                        made = F.cross_entropy(piece, distribute_tensor(target, mesh, [R, R]), **spread)
                        made.sum().backward()
                    what = f"{shape} {placed} {options}"
                    torch.testing.assert_close(made.full_tensor(), expected, msg=what)
                    torch.testing.assert_close(piece.grad.full_tensor(), whole.grad, msg=what)
                    assert piece.grad.placements == placed, what

    together(4, work)


def test_pieces_and_whole_tensors(together):
    def work(rank):
        mesh = init_device_mesh("cpu", (2,))
        weight = torch.arange(8.0).reshape(4, 2)
        piece = distribute_tensor(weight, mesh, [S0]).requires_grad_()

        # gradients of what was taken out are as they are said to be
        piece.to_local(grad_placements=[S0]).sum().backward()
        assert piece.grad.placements == (S0,) and piece.grad.to_local().tolist() == [[1, 1], [1, 1]]
        piece.grad = None
        (piece.full_tensor(grad_placements=[Partial()]) * (rank + 1)).sum().backward()
        assert piece.grad.full_tensor().tolist() == [[3, 3]] * 4
        local = torch.ones(2, requires_grad=True)
        (DTensor.from_local(local, mesh, [R], grad_placements=[R]) * 3).sum().to_local().backward()
        assert local.grad.tolist() == [3, 3]
        half = piece.redistribute(placements=[R], forward_dtype=torch.bfloat16, async_op=True)
        assert half.dtype is torch.bfloat16 and torch.equal(half.to_local(), weight.bfloat16())

        @local_map(out_placements=[Partial()], in_placements=([S1], [S0]), redistribute_inputs=True)
        def product(x, y):
            return x @ y

        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
        made = product(distribute_tensor(x, mesh, [R]), distribute_tensor(weight, mesh, [S0]))
        assert made.placements == (Partial(),)
        torch.testing.assert_close(made.full_tensor(), x @ weight)
        with implicit_replication():
            assert torch.equal((piece.detach() * weight).full_tensor(), weight * weight)
        with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
            piece * weight

        # random numbers are those of the whole tensor
        torch.manual_seed(5)
        drawn = nn.init.xavier_uniform_(distribute_tensor(torch.empty(4, 2), mesh, [S0]))
        torch.manual_seed(5)
        assert torch.equal(drawn.full_tensor(), nn.init.xavier_uniform_(torch.empty(4, 2)))
        with mesh:
            assert copy.deepcopy(distribute_tensor(weight)).placements == (R,)
        out = distribute_tensor(torch.zeros(4, 2), mesh, [S1])
        torch.mul(piece.detach(), 2, out=out)
        assert torch.equal(out.full_tensor(), 2 * weight) and out.placements == (S1,)

    together(2, work)
