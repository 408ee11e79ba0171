"""Running the operators' samples on a device beside the CPU, copies, files: what the tests of every backend share."""

import io
import warnings
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import operator_cases as samples
import pytest
from operator_cases import Call, Declaration

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.dispatcher import dispatch
from mindtorch_v2._ops._declare.composites import Composite

# Errors that the CPU finds in the data; a device is not waited for to look at it.
FOUND_IN_DATA = ("out of bounds", "out of range", "ZeroDivisionError", "bincount only supports", "is not finite",
                 "should be between 0 and 1", "Number of elements of source", "Class values must")  # fmt: skip
# PyTorch's CPU gives the places of nonzero elements column by column, a device row by row.
OTHER_STRIDES = frozenset(("aten::nonzero", "aten::nonzero_numpy", "aten::argwhere", "aten::where"))


def tensors_on(call: Call, device: str, dtype: str = "float32") -> list[Any]:
    """The tensors of a call, made on the CPU and brought to the device."""
    made = samples.bases(call, torch, dtype)
    return [t.to(device) for t in made] if device != "cpu" else made


def run(call: Call, tensors: list[Any], device: str) -> Any:
    """What the operator gives for a call; its warnings are other tests' matter."""
    args, kwargs = samples.arguments(call, torch, samples.writable(call, tensors), device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return samples.function_of(call.declaration)(*args, **kwargs)


def plain(value: Any) -> np.ndarray:
    """The elements on the host, half types as float32, which NumPy knows."""
    value = value.detach().cpu()
    if value.dtype is torch.complex32:
        value = value.to(torch.complex64)
    return (value.float() if value.dtype.itemsize == 2 and value.is_floating_point() else value).numpy(force=True)


class OnDevice:
    """The operators' samples on a device, against the CPU."""

    def __init__(self, device: str, found_in_data: Collection[str] = FOUND_IN_DATA,
                 other_strides: Collection[str] = OTHER_STRIDES, sign_is_free: Collection[str] = (),
                 loose: Mapping[str, float] = MappingProxyType({}), wide_statistics: Collection[str] = ()) -> None:
        self.device, self.found_in_data, self.other_strides = device, found_in_data, other_strides
        self.sign_is_free, self.loose, self.wide_statistics = sign_is_free, loose, wide_statistics

    def assert_same(self, call: Call, got: Any, wanted: Any, tolerance: float = 2e-5) -> None:
        got, wanted = samples.leaves(got), samples.leaves(wanted)
        assert len(got) == len(wanted), call
        name = call.declaration.operator.name
        for place, (a, b) in enumerate(zip(got, wanted, strict=True)):
            if not isinstance(b, torch.Tensor):
                assert a == b or a != a and b != b, call
                continue
            if place and name in self.wide_statistics and b.dtype.itemsize == 2:
                b = b.float()
            assert a.device.type == self.device, f"{call}: on {a.device}"
            assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{call}: {a.shape} {a.dtype}, not {b.shape} {b.dtype}"
            if b.numel() and name not in self.other_strides:
                assert a.stride() == b.stride(), f"{call}: strides {a.stride()}, not {b.stride()}"
            if samples.draws(call.declaration) or samples.base_name(call.declaration) in samples.UNINITIALISED:
                continue
            if name in self.sign_is_free and b.numel():
                a, b = a.abs(), b.abs()
            loose = max(tolerance, self.loose.get(name, 0.0))
            np.testing.assert_allclose(plain(a), plain(b), rtol=loose, atol=loose, err_msg=str(call))

    def check_values(self, call: Call) -> None:
        """Values, types, shapes, strides; errors."""
        if call.case.raises is None:
            got = run(call, tensors_on(call, self.device), self.device)
            self.assert_same(call, got, run(call, tensors_on(call, "cpu"), "cpu"))
            return
        kind, text = call.case.raises
        if any(part in text for part in self.found_in_data):
            return
        with pytest.raises(kind) as raised:
            run(call, tensors_on(call, self.device), self.device)
        assert text in str(raised.value) or "cpu" in text.lower() or "torch.FloatTensor" in text, str(raised.value)

    def check_gradients(self, call: Call) -> None:
        if call.case.raises is not None:
            return
        try:
            wanted = gradients(call, "cpu")
        except (RuntimeError, NotImplementedError):  # no derivative
            return
        got = gradients(call, self.device)
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert a.device.type == self.device and (a.shape, a.dtype) == (b.shape, b.dtype)
                if call.declaration.operator.name not in self.sign_is_free:
                    np.testing.assert_allclose(plain(a), plain(b), rtol=1e-4, atol=1e-4, err_msg=str(call))

    def check_in_place(self, call: Call) -> None:
        if call.case.raises is not None:
            return
        try:
            wanted = in_place(call, "cpu")
        except (RuntimeError, NotImplementedError) as error:
            with pytest.raises(type(error)):
                in_place(call, self.device)
            return
        if wanted is not None:
            self.assert_same(call, in_place(call, self.device), wanted)


def gradients(call: Call, device: str) -> list[Any]:
    """The gradients of a weighted sum of a call's results."""
    tensors = tensors_on(call, device)
    wanted = samples.require_grad(call, tensors)
    outputs = [r for r in samples.leaves(run(call, tensors, device))
               if isinstance(r, torch.Tensor) and r.requires_grad]
    if not wanted or not outputs:
        return []
    weights = [torch.linspace(0.5, 1.5, o.numel()).reshape(o.shape).to(device).to(o.dtype) for o in outputs]
    return list(torch.autograd.grad(outputs, [tensors[i] for i in wanted], weights, allow_unused=True))


def in_place(call: Call, device: str) -> Any:
    args, kwargs = samples.arguments(call, torch, tensors_on(call, device))
    if not isinstance(args[0], torch.Tensor):
        return None
    target = args[0].clone()
    got = dispatch(call.declaration.inplace.name, target, *args[1:], **kwargs)
    assert got is target and target._version == 1
    return got


def each(declaration: Declaration, check: Callable[[Call], None]) -> None:
    """Checks all calls of an operator, and raises the first error with notes on the others."""
    samples.each(samples.calls(declaration), check)


def derived(sampled: Mapping[str, Declaration]) -> dict[str, Declaration]:
    """Those operators that have derivatives to compare."""
    return {name: d for name, d in sampled.items() if (d.grad or isinstance(d.family, Composite))
            and not samples.draws(d)}


def check_copies(x: Any, y: Any) -> None:
    """Copies between a CPU tensor of two rows and three columns and the same on a device, whose elements change."""
    assert y.t().cpu().equal(x.t()) and y.tolist() == x.tolist()
    target = torch.zeros(3, 2)
    target.t().copy_(y)
    assert target.t().equal(x)
    y.t().copy_(torch.ones(3, 2, dtype=torch.int64))
    assert y.sum().item() == 6
    y.copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert y.tolist() == [[1, 2, 3]] * 2


def check_old_types(y: Any) -> None:
    """The constructors and names of PyTorch's first years, given a tensor of float32 on a device."""
    kind = y.device.type
    types = getattr(torch, kind)
    assert y.type() == f"torch.{kind}.FloatTensor" and str(types.FloatTensor) == f"<class 'torch.{kind}.FloatTensor'>"
    assert isinstance(y, types.FloatTensor) and not isinstance(y, (torch.FloatTensor, types.LongTensor))
    assert not isinstance(y.cpu(), types.FloatTensor)
    made_here = ((y.new(2, 3), (2, 3)), (y.new([1.0, 2.0]), (2,)), (y.new(), (0,)), (types.FloatTensor(4), (4,)))
    for made, shape in made_here:
        assert made.device == y.device and made.dtype is torch.float32 and tuple(made.shape) == shape
    assert types.LongTensor([1, 2]).tolist() == [1, 2] and types.FloatTensor(y).data_ptr() == y.data_ptr()
    for named in (types.DoubleTensor, f"torch.{kind}.DoubleTensor"):
        assert y.type(named).device == y.cpu().type(named).device == y.device
        assert y.type(named).dtype is torch.float64
    assert y.type(torch.FloatTensor).device.type == y.type("torch.FloatTensor").device.type == "cpu"
    with pytest.raises(RuntimeError, match=f"legacy constructor expects device type: {kind} but device type: cpu was"):
        y.new(2, device="cpu")


def loader_of_saved(device: str) -> Callable[..., dict[str, Any]]:
    """`loaded(map_location)` of a file with a tensor on the device, a view of it, and one of the host."""
    base, file = torch.arange(6.0).to(device), io.BytesIO()
    torch.save({"base": base, "turned": base.view(2, 3).t(), "host": torch.ones(2)}, file)

    def loaded(where: Any = None) -> dict[str, Any]:
        file.seek(0)
        return torch.load(file, map_location=where)

    return loaded
