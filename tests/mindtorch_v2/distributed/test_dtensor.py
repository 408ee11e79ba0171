"""Distributed tensors: each operator under all placements against the same operator on whole tensors."""

import copy
import io
import itertools

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn
from mindtorch_v2.distributed.tensor import (
    DeviceMesh,
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
    randn,
    zeros,
)
from mindtorch_v2.distributed.tensor._utils import compute_local_shape_and_global_offset
from mindtorch_v2.distributed.tensor.placement_types import _StridedShard

R, S0, S1, S2 = Replicate(), Shard(0), Shard(1), Shard(2)
A, B, C = (6, 4), (4, 6), (2, 6, 4)
OPERATORS = [  # name, function, shapes of its operands
    ("sum of two", torch.add, (A, A)), ("broadcast", torch.mul, (A, (4,))), ("number", lambda x: 2 * x - 1, (A,)),
    ("activation", F.gelu, (A,)), ("comparison", torch.gt, (A, A)),
    ("where", lambda x, y: torch.where(x > 0, x, y), (A, A)),
    ("sum", torch.sum, (A,)), ("sum of rows", lambda x: x.sum(1), (A,)),
    ("mean", lambda x: x.mean(0, keepdim=True), (A,)),
    ("largest", lambda x: x.amax(0), (A,)), ("deviation", lambda x: x.std(1), (A,)), ("product", torch.mm, (A, B)),
    ("linear", F.linear, (A, A, (6,))), ("linear of batches", F.linear, (C, A, (6,))),
    ("batched product", torch.bmm, (C, (2, 4, 6))), ("attention", F.scaled_dot_product_attention, ((2, 2, 4, 8),) * 3),
    ("transposed", torch.t, (A,)), ("permuted", lambda x: x.permute(2, 0, 1), (C,)),
    ("flat", lambda x: x.reshape(-1), (A,)),
    ("split up", lambda x: x.view(2, 3, 4), (A,)), ("joined up", lambda x: x.view(12, 4), (C,)),
    ("unsqueezed", lambda x: x.unsqueeze(1), (A,)), ("expanded", lambda x: x.unsqueeze(0).expand(3, 6, 4), (A,)),
    ("row", lambda x: x[1], (A,)), ("columns", lambda x: x[:, 1:3], (A,)), ("pieces", lambda x: x.split(2, 1)[1], (A,)),
    ("cat", lambda x, y: torch.cat([x, y], 1), (A, A)), ("stack", lambda x, y: torch.stack([x, y], 1), (A, A)),
    ("softmax", lambda x: x.softmax(1), (A,)), ("log_softmax", lambda x: F.log_softmax(x, 0), (A,)),
    ("loss", F.mse_loss, (A, A)), ("sum of losses", lambda x, y: F.huber_loss(x, y, reduction="sum"), (A, A)),
    ("classes", lambda x: F.cross_entropy(x, torch.nn.functional.softmax(x.detach(), 1)), (A,)),
    ("layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b), (A, (4,), (4,))),
    ("cumsum", lambda x: x.cumsum(0), (A,)),
]  # fmt: skip


def _placed(shape, mesh):
    return itertools.product([R, *(Shard(d) for d in range(len(shape)))], repeat=mesh.ndim)


def _compare(name, function, shapes, mesh, choices):
    wholes = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    expected = function(*wholes)
    pieces = [distribute_tensor(w.detach().requires_grad_(), mesh, list(p))
              for w, p in zip(wholes, choices, strict=True)]
    made = function(*pieces)
    what = f"{name} of {choices}"
    assert isinstance(made, DTensor) and made.shape == expected.shape, what
    torch.testing.assert_close(made.full_tensor(), expected, msg=what)
    if expected.dtype.is_floating_point:
        weights = torch.randn(expected.shape, dtype=torch.float64)
        expected.backward(weights)
        made.backward(distribute_tensor(weights, mesh, [R] * mesh.ndim))
        for whole, piece in zip(wholes, pieces, strict=True):
            torch.testing.assert_close(piece.grad.full_tensor(), whole.grad, msg=f"gradient of {what}")


@pytest.mark.parametrize("shape", [(2,), (2, 2)], ids=["line", "grid"])
def test_every_operator_under_all_placements(together, shape):
    def work(rank):
        mesh = init_device_mesh("cpu", shape)
        torch.manual_seed(0)
        for name, function, shapes in OPERATORS:
            every = list(itertools.product(*(_placed(s, mesh) for s in shapes)))
            for choices in every[:: max(1, len(every) // (8 if len(shape) == 1 else 3))]:
                _compare(name, function, shapes, mesh, choices)

    together(len(shape) * 2, work)


def test_moving_between_placements(together):
    def work(rank):
        mesh = init_device_mesh("cpu", (2, 2))
        whole = torch.arange(35.0).reshape(7, 5)  # uneven, and pieces within pieces
        for before, after in itertools.product(_placed(whole.shape, mesh), repeat=2):
            piece = distribute_tensor(whole, mesh, list(before)).redistribute(placements=list(after))
            assert piece.placements == after
            assert torch.equal(piece.full_tensor(), whole), (before, after)
        part = DTensor.from_local(whole, mesh, [Partial(), S0], shape=(14, 5))
        assert torch.equal(part.redistribute(placements=[R, R]).to_local(), torch.cat([whole, whole]) * 2)
        with pytest.raises(RuntimeError, match="redistributing to Partial is for internal use only"):
            distribute_tensor(whole, mesh, [R, R]).redistribute(placements=[Partial(), R])

    together(4, work)


def test_terms_of_sums(together):
    def work(rank):
        mesh = init_device_mesh("cpu", (2,))
        part = DTensor.from_local(torch.full((2, 2), 1.0 + rank), mesh, [Partial()])
        assert part.full_tensor().tolist() == [[3, 3], [3, 3]]
        assert (part + part).placements == (part * 2).placements == (Partial(),)
        assert (part * 2).full_tensor()[0, 0] == 6
        assert part.relu().placements == (R,) and (part + 1).full_tensor()[0, 0] == 4
        assert part.sum().item() == 12
        assert repr(part.placements) == "(Partial(sum),)" and str(S1) == "S(1)"

    together(2, work)


def test_pieces_of_uneven_length_and_factories(together):
    def work(rank):
        mesh = init_device_mesh("cpu", (2,))
        piece = distribute_tensor(torch.arange(5.0), mesh, [S0])
        assert piece.to_local().tolist() == [[0, 1, 2], [3, 4]][rank]
        assert zeros(5, 3, device_mesh=mesh, placements=[S0]).to_local().shape == ((3, 3), (2, 3))[rank]
        torch.manual_seed(1)
        drawn = randn(4, 3, device_mesh=mesh, placements=[S0]).full_tensor()
        torch.manual_seed(1)
        assert torch.equal(drawn, torch.randn(4, 3))  # the same numbers on every mesh

    together(2, work)


def test_what_is_refused(together):
    def work(rank):
        mesh = init_device_mesh("cpu", (2,))
        x = torch.ones(4, 4)
        piece = distribute_tensor(x, mesh, [S0])
        for call, kind, text in (
            (lambda: piece + x, RuntimeError, r"aten.add.Tensor got mixed torch.Tensor and DTensor"),
            (lambda: distribute_tensor(x, mesh, [Shard(5)]), AssertionError, "Sharding dim 5 greater than tensor ndim"),
            (lambda: distribute_tensor(x, mesh, [S0, S1]), ValueError, "must have the same length as `device_mesh"),
            (lambda: torch.geqrf(piece), NotImplementedError,
             r"aten.geqrf.default does not have a sharding strategy registered, for \(Spec\(f32\[4, 4\]\(S\(0\)\)"),
        ):
            with pytest.raises(kind, match=text):
                call()

    together(2, work)


def test_parts_of_grids(together):
    def work(rank):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        assert str(mesh["tp"]) == "DeviceMesh((tp=2), 'cpu', stride=(1,))" and mesh["tp"]._get_root_mesh() is mesh
        assert mesh["tp"].mesh.tolist() == [[0, 1], [2, 3]][rank // 2] and mesh.mesh.dtype is torch.int32
        assert mesh.get_coordinate() == (rank // 2, rank % 2) and mesh["dp"].get_local_rank() == rank // 2
        assert mesh["dp", "tp"] is mesh and mesh._flatten("all").size() == 4
        assert mesh["all"].mesh.tolist() == [0, 1, 2, 3]
        assert DeviceMesh._concatenate([mesh["dp"], mesh["tp"]]) == mesh
        line = init_device_mesh("cpu", (4,), mesh_dim_names=("all",))
        assert line._unflatten(0, (2, 2), ("dp", "tp")) == mesh
        assert copy.deepcopy(mesh) is mesh and mesh["dp"] != mesh["tp"] and mesh["tp"] == mesh["tp"]
        with pytest.raises(KeyError, match="Mesh dim indices should be in ascending order"):
            mesh["tp", "dp"]
        with pytest.raises(KeyError, match=r"Invalid mesh_dim_names \('x',\) specified. Valid mesh_dim_names are"):
            mesh["x"]

        # a grid that cuts the same dimension twice, the second one first: pieces of pieces
        for length in (8, 7, 5, 3):
            whole = torch.arange(2.0 * length).reshape(length, 2)
            twice = distribute_tensor(whole, mesh, [_StridedShard(0, split_factor=2), S0])
            within = distribute_tensor(distribute_tensor(whole, mesh["tp"], [S0]).to_local(), mesh["dp"], [S0],
                                       src_data_rank=None)
            assert torch.equal(twice.to_local(), within.to_local())
            for target in itertools.product((R, S0, S1), repeat=2):
                assert torch.equal(twice.redistribute(placements=target).full_tensor(), whole), (length, target)
        half = distribute_tensor(torch.arange(8.0), mesh["tp"], [_StridedShard(0, split_factor=2)])
        assert half.to_local().tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]][rank % 2]
        assert repr(half.placements[0]) == "_StridedShard(dim=0, sf=2)" and not half.placements[0].is_shard()
        assert (half * 2).placements == half.placements and (half * 2).sum().full_tensor() == 56

    together(4, work)


def test_parameters_in_pieces(together):
    placed = {"weight": [_StridedShard(0, split_factor=2), S0], "bias": [R, S0]}

    def spread(mesh, length):
        torch.manual_seed(0)
        module = nn.Linear(4, length)
        for name, placements in placed.items():
            value = distribute_tensor(getattr(module, name).data, mesh, placements)
            module.register_parameter(name, nn.Parameter(value))
        return module

    def work(rank):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for kind, options in (("SGD", {"momentum": 0.9}), ("AdamW", {}), ("Adam", {"amsgrad": True}), ("RMSprop", {})):
            for way in ("foreach", "fused", "for-loop"):
                if way == "fused" and kind == "RMSprop":
                    continue
                flags = {"for-loop": {"foreach": False}}.get(way, {way: True})
                torch.manual_seed(0)
                alone, pieces = nn.Linear(4, 5), spread(mesh, 5)
                steps = [getattr(torch.optim, kind)(m.parameters(), lr=0.1, **flags, **options)
                         for m in (alone, pieces)]
                for number in range(2):
                    for whole, piece in zip(alone.parameters(), pieces.parameters(), strict=True):
                        whole.grad = torch.arange(float(whole.numel())).reshape(whole.shape) / 9 + number
                        piece.grad = distribute_tensor(whole.grad, mesh, piece.placements)
                    norms = [nn.utils.clip_grad_norm_(m.parameters(), 1.0) for m in (alone, pieces)]
                    torch.testing.assert_close(norms[1].full_tensor(), norms[0])
                    for step in steps:
                        step.step()
                for whole, piece in zip(alone.parameters(), pieces.parameters(), strict=True):
                    torch.testing.assert_close(piece.full_tensor(), whole, msg=f"{kind} {way}")

        module = spread(mesh, 6)
        state = {key: value * 2 for key, value in module.state_dict().items()}
        copied = copy.deepcopy(module)
        assert str(copied.load_state_dict(state)) == "<All keys matched successfully>"
        assert torch.equal(copied.weight.full_tensor(), 2 * module.weight.full_tensor())
        assert copied.weight.placements == tuple(placed["weight"]) and isinstance(copied.weight, nn.Parameter)
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        read = torch.load(file)["weight"]
        assert read.device_mesh == mesh and torch.equal(read.full_tensor(), module.weight.full_tensor())
        assert str(module.bias._spec) == "Spec(f32[6](RS(0)))" and repr(module.bias).startswith("DTensor(local_tensor=")
        norms = torch._foreach_norm([state["weight"], state["bias"]])
        torch.testing.assert_close(norms[0].full_tensor(), state["weight"].full_tensor().norm())
        assert repr(norms[1].placements) == "(Replicate(), _NormPartial(2))"
        shorter = compute_local_shape_and_global_offset((5, 2), mesh, placed["weight"])
        assert shorter == [((2, 2), (0, 0)), ((1, 2), (3, 0)), ((1, 2), (2, 0)), ((1, 2), (4, 0))][rank]

    together(4, work)


def test_modules_train_as_on_one_process(together):
    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))

    def cut(name, module, mesh):
        if name == "0":
            for key in ("weight", "bias"):
                value = getattr(module, key)
                module.register_parameter(key, nn.Parameter(distribute_tensor(value.data, mesh, [S0])))

    def work(rank):
        mesh = init_device_mesh("cpu", (2,))
        x, y = torch.randn(6, 4), torch.randn(6, 2)
        torch.distributed.broadcast(x, 0)
        torch.distributed.broadcast(y, 0)
        alone, spread = make(), distribute_module(make(), mesh, cut)
        assert spread[0].weight.placements == (S0,) and spread[3].weight.placements == (R,)
        steps = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (alone, spread)]
        pieces = [distribute_tensor(t, mesh, [R]) for t in (x, y)]
        for _ in range(3):
            losses = (F.mse_loss(alone(x), y), F.mse_loss(spread(pieces[0]), pieces[1]))
            torch.testing.assert_close(losses[1].full_tensor(), losses[0])
            for loss, step in zip(losses, steps, strict=True):
                step.zero_grad()
                loss.backward()
                step.step()
        for whole, piece in zip(alone.parameters(), spread.parameters(), strict=True):
            torch.testing.assert_close(piece.full_tensor(), whole, rtol=1e-4, atol=1e-5)

    together(2, work)
