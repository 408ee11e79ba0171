"""Programs around tensor subclasses: a quantised weight, and a toy of a distributed tensor."""

import copy

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import functional as F
from mindtorch_v2.utils._python_dispatch import return_and_correct_aliasing, transform_subclass
from mindtorch_v2.utils._pytree import tree_map_only

aten = torch.ops.aten


class Int8Weight(torch.Tensor):
    """A weight kept as int8 with one scale a row, as quantisation libraries have it."""

    @staticmethod
    def __new__(cls, values, scale, dtype=torch.float32):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=dtype, device=values.device)

    def __init__(self, values, scale, dtype=torch.float32):
        self.values, self.scale = values, scale

    @classmethod
    def quantised(cls, weight):
        scale = weight.abs().amax(1).clamp(min=1e-8) / 127
        return cls((weight / scale[:, None]).round().to(torch.int8), scale, weight.dtype)

    def dequantize(self):
        return self.values.to(self.dtype) * self.scale[:, None].to(self.dtype)

    def __tensor_flatten__(self):
        return ["values", "scale"], self.dtype

    @classmethod
    def __tensor_unflatten__(cls, inner, dtype, outer_size, outer_stride):
        return cls(inner["values"], inner["scale"], dtype)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            return _QuantisedLinear.apply(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (aten.detach.default, aten.clone.default):
            out = transform_subclass(args[0], lambda name, inner: func(inner))
            return return_and_correct_aliasing(func, args, kwargs, out)
        if func is aten._to_copy.default:
            dtype = kwargs.pop("dtype", args[0].dtype)
            return cls(args[0].values.to(**kwargs), args[0].scale.to(**kwargs), dtype)
        if func is aten.copy_.default:
            source = args[1] if isinstance(args[1], cls) else cls.quantised(args[1])
            args[0].values.copy_(source.values)
            args[0].scale.copy_(source.scale)
            return args[0]
        if func in (aten.add_.Tensor, aten.addcdiv_.default):
            updated = func(args[0].dequantize(), *args[1:], **kwargs)
            return args[0].copy_(updated)
        taken = tree_map_only(cls, cls.dequantize, args)
        return func(*taken, **kwargs)


class _QuantisedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight)
        return input @ weight.dequantize().t() + bias

    @staticmethod
    def backward(ctx, grad):
        input, weight = ctx.saved_tensors
        return grad @ weight.dequantize(), grad.t() @ input, grad.sum(0)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_linear_layer_trains_with_a_quantised_weight(optimizer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    for layer in (model[0], model[2]):
        layer.weight = nn.Parameter(Int8Weight.quantised(layer.weight.detach()))
    assert isinstance(model[0].weight, Int8Weight) and isinstance(model[0].weight, nn.Parameter)
    x = torch.randn(64, 4)
    y = x.sum(1, keepdim=True)
    optim = optimizer(model.parameters(), lr=0.05)
    losses = []
    for _ in range(40):
        optim.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optim.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert model[0].weight.values.dtype is torch.int8
    state = copy.deepcopy(model).state_dict()
    assert isinstance(state["0.weight"], Int8Weight)
    again = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    for layer in (again[0], again[2]):
        layer.weight = nn.Parameter(Int8Weight.quantised(layer.weight.detach()))
    again.load_state_dict(state)
    assert torch.equal(again(x), model(x))
    assert model.to(torch.float64)[0].weight.dtype is torch.float64


class Sharded(torch.Tensor):
    """A toy of a distributed tensor: rows in several pieces, of which each operator computes each."""

    @staticmethod
    def __new__(cls, shards):
        rows = sum(len(s) for s in shards)
        return torch.Tensor._make_wrapper_subclass(cls, (rows, *shards[0].shape[1:]), dtype=shards[0].dtype,
                                                   requires_grad=False)

    def __init__(self, shards):
        self.shards = list(shards)

    def full(self):
        return torch.cat(self.shards)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def run(at):
            return func(*tree_map_only(cls, lambda t: t.shards[at], args), **(kwargs or {}))

        count = max(len(a.shards) for a in args if isinstance(a, cls))
        if func is aten.mm.default and isinstance(args[1], cls):  # the sum over what was cut
            columns = args[0].split([len(s) for s in args[1].shards], 1)
            return sum(a @ b for a, b in zip(columns, args[1].shards, strict=True))
        if func is aten.t.default:
            return ColumnSharded([s.t() for s in args[0].shards])
        if func is aten.sum.default:
            return sum(run(at) for at in range(count))
        return cls([run(at) for at in range(count)])


class ColumnSharded(torch.Tensor):
    @staticmethod
    def __new__(cls, shards):
        columns = sum(s.shape[1] for s in shards)
        return torch.Tensor._make_wrapper_subclass(cls, (shards[0].shape[0], columns), dtype=shards[0].dtype)

    def __init__(self, shards):
        self.shards = list(shards)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is aten.t.default:
            return Sharded([s.t() for s in args[0].shards])
        if func is aten.mm.default and isinstance(args[1], cls):  # rows times columns: pieces side by side
            return torch.cat([args[0] @ shard for shard in args[1].shards], 1)
        return NotImplemented


def test_a_toy_of_a_distributed_tensor_trains_a_layer():
    torch.manual_seed(0)
    full = torch.randn(6, 4)
    weight = Sharded(full.split(2)).requires_grad_()
    plain = full.clone().requires_grad_()
    x = torch.randn(5, 4, requires_grad=True)
    other = x.detach().clone().requires_grad_()
    made, expected = F.linear(x, weight), F.linear(other, plain)
    torch.testing.assert_close(made, expected)
    made.pow(2).sum().backward()
    expected.pow(2).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)
    gradient = weight.grad
    torch.testing.assert_close(gradient.full() if isinstance(gradient, Sharded) else gradient, plain.grad)
    scaled = weight.detach() * 2 + 1
    assert isinstance(scaled, Sharded)
    torch.testing.assert_close(scaled.full(), full * 2 + 1)
    torch.testing.assert_close(weight.detach().relu().sum(), full.relu().sum())
