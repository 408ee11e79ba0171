"""PyTorch's own examples of tensor subclasses, read from its installation unchanged, and one of quantized weights."""

import copy
import importlib.util
import sys
import sysconfig
import types
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

PACKAGE = "torch.testing._internal"


def examples(*names):
    """Modules of examples; where another library stands in for PyTorch, PyTorch's files are run on that."""
    folder = Path(sysconfig.get_paths()["purelib"]) / "torch/testing/_internal"
    if "mindtorch_v2" in sys.modules:
        sys.modules[PACKAGE] = types.ModuleType(PACKAGE)
        for name in names:
            spec = importlib.util.spec_from_file_location(f"{PACKAGE}.{name}", folder / f"{name}.py")
            sys.modules[spec.name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[spec.name])
    return [importlib.import_module(f"{PACKAGE}.{name}") for name in names]


def two_tensors(two):
    a = two.TwoTensor(torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)).requires_grad_()
    b = (a * 2 + a.exp()).sum(1)
    b.sum().backward()
    print(a, b, a.grad, a.view(3, 2), a.detach()[0].mul_(2), sep="\n")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    y = model(two.TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)))
    y.sum().backward()
    print(y, [type(p.grad).__name__ for p in model.parameters()], model[0].weight.grad)
    weight = nn.Parameter(two.TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)))
    optimizer = torch.optim.AdamW([weight], 0.1)
    for _ in range(3):
        (weight * weight).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(type(weight).__name__, weight.a, weight.b, optimizer.state[weight]["exp_avg"])
    with two.TwoTensorMode():
        print(torch.zeros(2), torch.zeros(2) + torch.ones(2))


def logs(logged):
    with logged.capture_logs() as lines:
        x = logged.LoggingTensor(torch.tensor([3.0])).requires_grad_()
        (x.sin() * 2).sum().backward()
        y = logged.LoggingTensorReentrant(torch.ones(2)).view(2, 1) * 2
    print(*lines, x.grad, type(y).__name__, sep="\n")
    with logged.capture_logs_with_logging_tensor_mode() as lines:
        x = torch.ones(2, 2, dtype=torch.float64)
        y = F.linear(x, x).softmax(0)
        y[0].add_(1)
        y.to(torch.float32), y.new_zeros(3), torch.zeros_like(y), torch.arange(3)
    print(*lines, sep="\n")


def kinds(common):
    for kind in sorted(common.subclass_db, key=lambda kind: kind.__name__):
        if kind is common.DiagTensorBelow:
            continue
        x = common.subclass_db[kind].create_fn((2, 3))
        for name, act in {
            "add": lambda x: x + x,
            "clone": torch.clone,
            "view": lambda x: x.view(3, 2),
            "deepcopy": copy.deepcopy,
            "parameter": nn.Parameter,
            "sum": torch.sum,
            "layer": nn.Linear(3, 1),
            "new": lambda x: x.new_empty((2,)),
        }.items():
            y = act(x)
            print(kind.__name__, name, type(y).__name__, tuple(y.shape), y.stride(), y.dtype, y.device, y.requires_grad)
    diagonal = common.DiagTensorBelow(torch.tensor([1.0, 2.0, 3.0]))
    print(diagonal + diagonal, diagonal * torch.ones(3, 3), torch.mm(diagonal, torch.ones(3, 2)))
    sparse = common.SparseTensor((3, 3), torch.tensor([1.0, 2.0]), torch.tensor([[0, 1], [1, 2]]))
    print(sparse, sparse + 1)
    print(common.NonWrapperTensor(torch.ones(2, 2)) + 1)


def wrappers(wrapped, custom):
    x = wrapped.WrapperSubclass(torch.arange(4.0)).requires_grad_()
    (x.sin() * 2).sum().backward()
    print(type(x.grad).__name__, x.grad.a)
    constant = custom.ConstantExtraMetadataTensor(torch.ones(2)) + 1
    print(type(constant).__name__, constant.elem, constant.constant_attribute, constant.get_complicated_metadata())
    plain = custom.CustomTensorPlainOut(torch.ones(2), torch.ones(2)) + 1
    print(type(plain).__name__, plain)


def masks():
    keep = torch.tensor([[True, False, True], [False, True, True]])
    x = torch.masked.masked_tensor(torch.arange(6.0).reshape(2, 3), keep, requires_grad=True)
    print(x, x.sum(1), x.amax(0), x * 2, x.sin(), x.mean(1), sep="\n")
    x.sum().backward()
    print(x.grad)


class Quantized(torch.Tensor):
    """Rows of small whole numbers, each with a scale."""

    @staticmethod
    def __new__(cls, numbers, scale, dtype=torch.float32):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=dtype, device=numbers.device)

    def __init__(self, numbers, scale, dtype=torch.float32):
        self.numbers, self.scale = numbers, scale

    @classmethod
    def of(cls, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return cls((x / scale).round().to(torch.int8), scale, x.dtype)

    def dequantized(self):
        return self.numbers.to(self.dtype) * self.scale

    def __tensor_flatten__(self):
        return ["numbers", "scale"], self.dtype

    @classmethod
    def __tensor_unflatten__(cls, inner, dtype, size, stride):
        return cls(inner["numbers"], inner["scale"], dtype)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is F.linear:
            x, weight, *bias = args
            y = x @ weight.numbers.to(x.dtype).t() * weight.scale.flatten()
            return y if not bias or bias[0] is None else y + bias[0]
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.detach.default, torch.ops.aten.clone.default):
            x = args[0]
            made = cls(function(x.numbers), function(x.scale), x.dtype)
            return return_and_correct_aliasing(function, args, kwargs or {}, made)
        plain = [x.dequantized() if isinstance(x, cls) else x for x in args]
        return function(*plain, **(kwargs or {}))

    def __repr__(self):
        return f"Quantized({self.numbers.tolist()}, {self.scale.flatten().tolist()})"


def quantized():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    print(model(x))
    for layer in model[::2]:
        layer.weight = nn.Parameter(Quantized.of(layer.weight.detach()), requires_grad=False)
    print(model(x), model[0].weight, type(copy.deepcopy(model)[0].weight).__name__)
    print(model[0].weight + 1, type(model[0].weight.t()).__name__, [*model.state_dict()], model[2].weight.detach())


class Counting(TorchDispatchMode):
    def __init__(self, name):
        self.name, self.seen = name, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def modes(two):
    with Counting("outer") as outer, Counting("inner") as inner:
        x = two.TwoTensor(torch.ones(2), torch.zeros(2))
        (x + torch.ones(2, requires_grad=True)).sum().backward()
    print(outer.seen == inner.seen, len(inner.seen) > 3, inner.seen[:4])


warnings.simplefilter("ignore")
two, logged, common, wrapped, custom = examples(
    "two_tensor", "logging_tensor", "common_subclass", "subclasses", "custom_tensor"
)
two_tensors(two)
logs(logged)
kinds(common)
wrappers(wrapped, custom)
masks()
quantized()
modes(two)
