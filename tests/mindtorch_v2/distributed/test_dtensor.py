"""Distributed tensors: each operator under all placements against the same operator on whole tensors."""

import copy
import io
import itertools
import math
import os
from typing import NamedTuple

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
from mindtorch_v2.distributed.tensor._spec import local_geometry
from mindtorch_v2.distributed.tensor._utils import compute_local_shape_and_global_offset
from mindtorch_v2.distributed.tensor.placement_types import _StridedShard

R, S0, S1 = Replicate(), Shard(0), Shard(1)
A, B, C, D = (6, 4), (4, 6), (2, 6, 4), (4, 4, 6)


class Ints(NamedTuple):
    """An operand of whole numbers."""

    shape: tuple
    high: int


class Whole(NamedTuple):
    """An operand that is written to: it cannot be a sum in terms."""

    shape: tuple


def _mask(x):
    return torch.where(x > 0, x, -x) > 0.5


def _drop(x):
    torch.manual_seed(3)
    return F.dropout(x, 0.4)


def _noise(x):
    torch.manual_seed(3)
    return torch.rand_like(x) + torch.nn.init.normal_(torch.empty_like(x)) + x


OPERATORS = [  # name, function, operands' shapes
    # elementwise
    ("sum of two", torch.add, (A, A)), ("broadcast", torch.mul, (A, (4,))), ("number", lambda x: 2 * x - 1, (A,)),
    ("columns and rows", torch.sub, ((6, 1), (1, 4))), ("activation", F.gelu, (A,)), ("comparison", torch.gt, (A, A)),
    ("where", lambda x, y: torch.where(x > 0, x, y), (A, A)), ("three", torch.addcmul, (A, A, (4,))),
    ("masked", lambda x: x.masked_fill(_mask(x.detach()), 2.0), (A,)), ("clamped", lambda x: x.clamp(-1, 0.5), (A,)),
    ("in place", lambda x, y: x.clone().mul_(2).add_(y).clamp_(max=1.0), (Whole(A), A)),
    ("scaled and added", lambda x, y: torch.lerp(x, y, 0.3) / 2 + x, (A, A)),
    ("rounded", lambda x: x.div(0.3, rounding_mode="floor"), (A,)),
    ("bits", lambda x: x.view(torch.int64), (Whole(A),)),
    # products
    ("product", torch.mm, (A, B)), ("linear", F.linear, (A, A, (6,))), ("of batches", F.linear, (C, A, (6,))),
    ("batched", torch.bmm, (C, (2, 4, 6))), ("einsum", lambda x, y: torch.einsum("bij,kj->bki", x, y), (C, A)),
    ("matmul", torch.matmul, (C, B)), ("added", torch.addmm, ((6, 6), A, B)), ("vector", torch.mv, (A, (4,))),
    ("inner", torch.dot, ((6,), (6,))), ("batches added", torch.baddbmm, ((2, 6, 6), C, (2, 4, 6))),
    ("outer", torch.outer, ((6,), (4,))),
    # reductions
    ("sum", torch.sum, (A,)), ("sum of rows", lambda x: x.sum(1), (A,)), ("mean", lambda x: x.mean(0, True), (A,)),
    ("largest", lambda x: x.amax(0), (A,)), ("deviation", lambda x: x.std(1), (A,)), ("variance", torch.var, (A,)),
    ("norm", lambda x: x.norm(), (A,)), ("norm of rows", lambda x: torch.linalg.vector_norm(x, 3, 1), (A,)),
    ("of all", lambda x: x.max() + x.min(), (A,)), ("product of all", lambda x: x.prod(), (A,)),
    ("any", lambda x: (x > 1).any(), (A,)), ("all", lambda x: (x > -9).all(0), (A,)),
    ("where largest", lambda x: x.argmax(1), (A,)), ("where in all", lambda x: x.argmax(), (A,)),
    ("largest of rows", lambda x: x.max(1)[0], (A,)), ("logsumexp", lambda x: x.logsumexp(0), (A,)),
    # views
    ("transposed", torch.t, (A,)), ("permuted", lambda x: x.permute(2, 0, 1), (C,)),
    ("flat", lambda x: x.reshape(-1), (A,)), ("flat rows", lambda x: x.flatten(1), (D,)),
    ("split up", lambda x: x.view(2, 3, 4), (A,)), ("joined up", lambda x: x.view(12, 4), (C,)),
    ("heads", lambda x: x.unflatten(-1, (2, 3)).transpose(1, 2), (D,)), ("with one", lambda x: x.view(6, 1, 4), (A,)),
    ("unsqueezed", lambda x: x.unsqueeze(1).squeeze(1), (A,)), ("moved", lambda x: x.movedim(0, -1), (C,)),
    ("expanded", lambda x: x.unsqueeze(0).expand(3, 6, 4), (A,)),
    ("row", lambda x: x[1], (A,)), ("columns", lambda x: x[:, 1:3], (A,)), ("pieces", lambda x: x.split(2, 1)[1], (A,)),
    ("chunks", lambda x: sum(x.chunk(2, 0)), (A,)), ("rows", lambda x: x.unbind(0)[2], (A,)),
    ("narrow", lambda x: x.narrow(1, 1, 2), (A,)), ("cat", lambda x, y: torch.cat([x, y], 1), (A, A)),
    ("stack", lambda x, y: torch.stack([x, y], 1), (A, A)), ("flipped", lambda x: x.flip(1).roll(1, 0), (A,)),
    ("triangle", lambda x: x.tril(), (C,)), ("repeated", lambda x: x.repeat(2, 1, 1), (A,)),
    ("padded", lambda x: F.pad(x, (1, 1)), (A,)), ("diagonal", lambda x: x.diagonal(), (A,)),
    # indices
    ("selected", lambda x, i: x.index_select(0, i), (A, Ints((3,), 6))),
    ("indexed", lambda x, i: x[i], (A, Ints(B, 6))),
    ("two indices", lambda x, i: x[:, i, i], (D, Ints((3,), 4))), ("gathered", torch.gather, (A, 1, Ints((6, 2), 4))),
    ("gathered rows", torch.gather, (A, 0, Ints((2, 4), 6))),
    ("scattered", lambda x, i, y: x.scatter_add(1, i, y), (A, Ints(A, 4), A)),
    ("embedding", lambda i, w: F.embedding(i, w), (Ints((3, 4), 6), A)),
    ("sorted", lambda x: x.sort(1)[0], (A,)), ("topk", lambda x: x.topk(2, 0)[0], (A,)),
    ("cumsum", lambda x: x.cumsum(0), (A,)),
    # layers
    ("softmax", lambda x: x.softmax(1), (A,)), ("log_softmax", lambda x: F.log_softmax(x, 0), (A,)),
    ("layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b), (A, (4,), (4,))),
    ("rms_norm", lambda x, w: F.rms_norm(x, (4,), w), (C, (4,))),
    ("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), ((4, 4, 3), (4,), (4,))),
    ("attention", F.scaled_dot_product_attention, ((2, 2, 4, 8),) * 3),
    ("causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), ((4, 2, 4, 8),) * 3),
    ("convolution", F.conv2d, ((4, 2, 5, 5), (6, 2, 3, 3), (6,))),
    ("pooled", lambda x: F.max_pool2d(x, 2), ((4, 2, 4, 4),)),
    ("pooled planes", lambda x: F.avg_pool2d(x, 2), ((2, 4, 4),)),
    ("pooled cubes", lambda x: F.max_pool3d(x, 2), ((2, 2, 4, 2, 2),)),
    ("dropout", _drop, (A,)), ("noise", _noise, (A,)),
    # losses
    ("loss", F.mse_loss, (A, A)), ("sum of losses", lambda x, y: F.huber_loss(x, y, reduction="sum"), (A, A)),
    ("each loss", lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), (A, A)), ("l1", F.l1_loss, (A, A)),
    ("logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), (A, A)),
    ("probabilities", lambda x: F.cross_entropy(x, torch.nn.functional.softmax(x.detach(), 1)), (A,)),
    ("classes", lambda x, i: F.cross_entropy(x, i, ignore_index=1), (A, Ints((6,), 4))),
    ("weighed classes", lambda x, i, w: F.cross_entropy(x, i, w.detach().exp()), (A, Ints((6,), 4), (4,))),
    ("sum of classes", lambda x, i: F.nll_loss(x, i, reduction="sum"), (C, Ints((2, 4), 6))),
]  # fmt: skip


def _placed(shape, mesh, more=()):
    return itertools.product([R, *(Shard(d) for d in range(len(shape))), *more], repeat=mesh.ndim)


def _operands(shapes, mesh):
    """(operands, which of them are tensors with their placements to try)."""
    made, places = [], []
    for shape in shapes:
        terms = []
        if isinstance(shape, Ints):
            made.append(torch.randint(0, shape.high, shape.shape))
        elif isinstance(shape, tuple):
            terms = [] if isinstance(shape, Whole) else [Partial()]
            made.append(torch.randn(getattr(shape, "shape", shape), dtype=torch.float64, requires_grad=True))
        else:
            made.append(shape)
        if isinstance(made[-1], torch.Tensor):
            places.append(list(_placed(made[-1].shape, mesh, terms)))
        else:
            places.append([None])
    return made, list(itertools.product(*places))


def _distributed(value, mesh, placements):
    """A value in pieces; along dimensions with sums in terms, the processes have it 1.5 and -0.5 times."""
    if placements is None:
        return value
    cut = [R if p.is_partial() else p for p in placements]
    made = distribute_tensor(value.detach(), mesh, cut, src_data_rank=None)
    if cut != list(placements):
        terms = [mesh.size(at) for at, p in enumerate(placements) if p.is_partial()]
        ranks = [mesh.get_local_rank(at) for at, p in enumerate(placements) if p.is_partial()]
        share = math.prod((-0.5 if rank % 2 else 1.5) * 2 / size for rank, size in zip(ranks, terms, strict=True))
        made = DTensor.from_local(made.to_local() * share, mesh, list(placements), shape=value.shape,
                                  stride=value.stride(), run_check=False).detach()
    return made.requires_grad_(value.requires_grad)


def _compare(what, function, wholes, mesh, choice):
    expected = function(*wholes)
    pieces = [_distributed(value, mesh, placements) for value, placements in zip(wholes, choice, strict=True)]
    made = function(*pieces)
    assert isinstance(made, DTensor) and made.shape == expected.shape, what
    assert made.to_local().shape == local_geometry(made.shape, mesh, made.placements)[0], (what, made.placements)
    torch.testing.assert_close(made.full_tensor(), expected, msg=what)
    if not expected.requires_grad:
        return
    weights = torch.arange(1.0, expected.numel() + 1, dtype=torch.float64).reshape(expected.shape).cos()
    whole = [w for w in wholes if isinstance(w, torch.Tensor) and w.requires_grad]
    piece = [p for p in pieces if isinstance(p, DTensor) and p.requires_grad]
    grads = torch.autograd.grad(expected, whole, weights, allow_unused=True)
    parts = torch.autograd.grad(made, piece, distribute_tensor(weights, mesh, [R] * mesh.ndim, src_data_rank=None),
                                allow_unused=True)
    for grad, part in zip(grads, parts, strict=True):
        if grad is not None:
            torch.testing.assert_close(part.full_tensor(), grad, msg=f"gradient of {what}")


@pytest.mark.parametrize("shapes, most", [([(2,)], 4), ([(4,), (2, 2)], 1)], ids=["two", "four"])
def test_every_operator_under_all_placements(together, shapes, most):
    """DTENSOR_PLACEMENTS=100000 tries all of them."""
    most = int(os.environ.get("DTENSOR_PLACEMENTS", most))

    def work(rank):
        for mesh in [init_device_mesh("cpu", shape) for shape in shapes]:
            for number, (name, function, operands) in enumerate(OPERATORS):
                torch.manual_seed(0)
                wholes, every = _operands(operands, mesh)
                for choice in every[number % 2 :: max(1, len(every) // most)]:
                    _compare(f"{name} of {choice}", function, wholes, mesh, choice)

    together(math.prod(shapes[0]), work)


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
        assert (part + part).placements == (part * 2).placements == (part @ part).placements == (Partial(),)
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
            (lambda: piece.nonzero(), RuntimeError, "aten.nonzero.default: Sharding propagation failed for .Spec.f32"),
            (lambda: DTensor.from_local(x, mesh, [Partial()]).relu_(), RuntimeError,
             "aten.relu_.default: in-place operations that require placement changes are not supported"),
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
