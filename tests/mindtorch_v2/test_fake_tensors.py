"""Fake tensors, Meta twins of tensors, and references of operators. Expected texts are PyTorch's."""

import copy
import gc
import importlib

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import _decomp, _prims, _refs
from mindtorch_v2 import _prims_common as common
from mindtorch_v2._prims.context import TorchRefsMode
from mindtorch_v2._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensor,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
    is_fake,
    unset_fake_temporarily,
)
from mindtorch_v2._subclasses.fake_utils import output_alias_each_other, outputs_alias_inputs, outputs_are_inputs
from mindtorch_v2._subclasses.meta_utils import MetaConverter, assert_metadata_eq
from mindtorch_v2.fx.experimental.proxy_tensor import make_fx


def same(one, other):
    assert one == other


def test_factories_and_operators_give_fake_tensors_with_devices():
    with FakeTensorMode():
        x, y = torch.rand(3, 4), torch.empty(3, 4, device="cuda")
        assert repr(x) == "FakeTensor(..., size=(3, 4))"
        assert repr(y) == "FakeTensor(..., device='cuda:0', size=(3, 4))"
        assert repr(torch.arange(10)) == "FakeTensor(..., size=(10,), dtype=torch.int64)"
        assert (y + torch.tensor(2.0)).device == torch.device("cuda:0")
        assert y.to("cpu").device.type == "cpu"
        with pytest.raises(FakeTensorDeviceMismatchError, match="at least two devices, cpu and cuda:0"):
            x + y
        assert x.view(-1).untyped_storage() is x.untyped_storage()
        assert x.t_().shape == (4, 3)
        assert torch.nn.LSTM(3, 5)(torch.rand(2, 3, 3))[0].shape == (2, 3, 5)
    assert isinstance(x + 1, FakeTensor) and is_fake(x)  # outside of the mode, too


def test_what_depends_on_elements_is_refused_by_name():
    with FakeTensorMode():
        x = torch.rand(3)
        for call, kind, name in (
            (lambda: x.sum().item(), DataDependentOutputException, "aten._local_scalar_dense.default"),
            (lambda: bool(x.sum() > 0), DataDependentOutputException, "aten._local_scalar_dense.default"),
            (lambda: torch.equal(x, x), DataDependentOutputException, "aten.equal.default"),
            (x.nonzero, DynamicOutputShapeException, "aten.nonzero.default"),
            (lambda: x[x > 0], DynamicOutputShapeException, "aten.nonzero.default"),
            (lambda: torch.unique(x), DynamicOutputShapeException, "aten._unique2.default"),
            (lambda: torch.masked_select(x, x > 0), DynamicOutputShapeException, "aten.masked_select.default"),
        ):
            with pytest.raises(kind) as caught:
                call()
            assert str(caught.value) == name


def test_single_numbers_are_known_until_something_unknown_is_written():
    with FakeTensorMode():
        count = torch.tensor(3)
        assert (count + torch.tensor(4)).item() == 7
        count += 1
        assert count.item() == 4
        count.copy_(torch.randint(5, ()))
        with pytest.raises(DataDependentOutputException):
            count.item()


def test_real_tensors_must_be_converted():
    mode, real = FakeTensorMode(), torch.ones(3)
    with mode, pytest.raises(AssertionError, match=r"Found in aten.add.Tensor\(tensor\(\[...\], size=\(3,\)\), 1\)"):
        real + 1
    fake = mode.from_tensor(real)
    assert mode.from_tensor(real) is fake
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert repr(real + 1) == "FakeTensor(..., size=(3,))"
    with pytest.raises(AssertionError, match="Mixing fake modes NYI"):
        FakeTensorMode().from_tensor(real) + fake
    parameter = mode.from_tensor(torch.nn.Parameter(real))
    assert isinstance(parameter, torch.nn.Parameter) and isinstance(parameter, FakeTensor)


def test_a_training_step_without_elements():
    mode, layer = FakeTensorMode(), torch.nn.Linear(4, 2)
    with FakeCopyMode(mode):
        fake = copy.deepcopy(layer)
    assert repr(fake.weight) == "Parameter(FakeTensor(..., size=(2, 4), requires_grad=True))"
    with mode:
        out = fake(torch.rand(5, 4))
        out.sum().backward()
        torch.optim.AdamW(fake.parameters()).step()
        with unset_fake_temporarily():
            assert torch.ones(2).tolist() == [1.0, 1.0]
    assert repr(out) == "FakeTensor(..., size=(5, 2), grad_fn=<AddmmBackward0>)"
    assert repr(fake.weight.grad) == "FakeTensor(..., size=(2, 4))"


@pytest.mark.parametrize("make", [
    lambda: torch.randn(4, requires_grad=True),
    lambda: torch.randn(4, requires_grad=True).neg()[:],
    lambda: torch.randn(4, requires_grad=True)[1:],
    lambda: torch.randn(8).view(2, 4).requires_grad_().view(2, 2, 2),
    lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last, requires_grad=True) + 2,
    lambda: torch.empty_strided((2, 2), (4, 2), requires_grad=True),
    lambda: torch.view_as_real(torch.randn(4, dtype=torch.complex64)),
    lambda: torch.view_as_complex(torch.randn(4, 2)),
    lambda: torch.randn(4).view(torch.int32),
    lambda: torch.randn(2, 2, 4, dtype=torch.complex32)[:, 0],
])
def test_meta_twins_have_all_but_the_elements(make):
    tensor = make()
    convert = MetaConverter()
    twin = convert(tensor)
    assert twin.device.type == "meta" and convert(tensor) is twin and convert.successful()
    assert_metadata_eq(same, twin, tensor)


def test_meta_twins_share_storage_and_are_forgotten_with_the_tensors():
    base = torch.zeros(6)
    convert = MetaConverter()
    first, second = convert(base), convert(base[2:])
    assert first.untyped_storage() is second.untyped_storage() and second.storage_offset() == 2
    del base, first, second
    gc.collect()
    assert len(convert.tensor_memo) == len(convert.storage_memo) == len(convert.describer.lookup_tensor) == 0
    assert convert("text") == "text"


def test_references_are_there_for_every_name_and_agree_with_the_operators():
    for place in ("", ".nn.functional", ".special", ".linalg", ".fft", "._conversions"):
        module = importlib.import_module(f"mindtorch_v2._refs{place}")
        for name in module.__all__:
            assert callable(getattr(module, name)), name
    x = torch.randn(3, 4, dtype=torch.float64)
    for ours, theirs in ((_refs.softmax(x, 1), x.softmax(1)), (_refs.addcmul(x, x, x, value=2), x + 2 * x * x),
                         (_refs.nn.functional.gelu(x), torch.nn.functional.gelu(x)),
                         (_refs.special.logit(x.sigmoid()), x), (_refs.var(x, 1), x.var(1)),
                         (_refs.rpow(x, 2), 2**x), (_refs.linalg.norm(x), x.norm())):
        torch.testing.assert_close(ours, theirs)
    assert _refs.add(torch.ones(2, dtype=torch.int32), 1.5).dtype is torch.float32


def test_questions_of_shapes_strides_and_types():
    kind = common.ELEMENTWISE_TYPE_PROMOTION_KIND
    half, whole = torch.ones(2, dtype=torch.half), torch.ones(2, dtype=torch.int32)
    assert common.elementwise_dtypes(half, type_promotion_kind=kind.DEFAULT) == (torch.float32, torch.float16)
    assert common.elementwise_dtypes(whole, type_promotion_kind=kind.INT_TO_FLOAT) == (torch.float32, torch.float32)
    assert common.elementwise_dtypes(whole > 1, type_promotion_kind=kind.BOOL_TO_LONG) == (torch.int64, torch.int64)
    assert common.canonicalize_dims(2, (-1, 0)) == (1, 0)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 5"):
        common.canonicalize_dim(2, 5)
    assert common.make_channels_last_strides_for((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert common.invert_perm([2, 0, 1]) == [1, 2, 0]
    with pytest.raises(RuntimeError, match=r"Stride mismatch! Strides are \(3, 1\) and \(1, 2\)"):
        common.compare_tensor_meta(torch.empty(2, 3), torch.empty(3, 2).t(), check_strides=True)


def test_tables_of_decompositions_come_from_the_declarations():
    aten = torch.ops.aten
    table = _decomp.get_decompositions([aten.softplus, aten.addcmul.default])
    x = torch.linspace(-2, 2, 5, dtype=torch.float64)
    torch.testing.assert_close(table[aten.softplus.default](x), torch.nn.functional.softplus(x))
    assert _decomp.decomposition_table[aten.addcmul.default] is _refs.addcmul
    assert aten.hstack.default not in _decomp.decomposition_table  # a composite: its parts are seen
    mine: dict = {}
    _decomp.register_decomposition([aten.sinc], mine)(torch.sin)
    assert mine == {aten.sinc.default: torch.sin}
    assert _prims.broadcast_in_dim(torch.ones(2), (3, 2, 4), [1]).shape == (3, 2, 4)
    assert all(callable(getattr(_prims, name)) for name in _prims.__all__)
    assert _prims.maximum_value(torch.int8) == 127
    seen = []
    with TorchRefsMode(should_fallback_fn=lambda mode, func, *rest: bool(seen.append(func))):
        assert torch.equal(torch.addcmul(x, x, x), x + x * x)
    assert torch.addcmul in seen


def test_make_fx_writes_the_operators_that_ran():
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    traced = make_fx(lambda x: layer(x).relu())(x)
    assert traced.code.strip() == (
        "def forward(self, x_1):\n"
        "    _param_constant0 = self._param_constant0\n"
        "    t = torch.ops.aten.t.default(_param_constant0);  _param_constant0 = None\n"
        "    _param_constant1 = self._param_constant1\n"
        "    addmm = torch.ops.aten.addmm.default(_param_constant1, x_1, t);  _param_constant1 = x_1 = t = None\n"
        "    relu = torch.ops.aten.relu.default(addmm);  addmm = None\n"
        "    return relu")
    torch.testing.assert_close(traced(x + 1), layer(x + 1).relu())


def test_make_fx_of_gradients_structures_and_decompositions():
    def gradient(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x * x).sum(), x)[0]

    x = torch.randn(3)
    traced = make_fx(gradient)(x)
    assert [node.name for node in traced.graph.nodes] == [
        "x_1", "detach", "mul", "sum_1", "ones_like", "expand", "mul_1", "mul_2", "add", "output"]
    torch.testing.assert_close(traced(x), 2 * x)
    nested = make_fx(lambda d: {"out": d["a"] @ d["b"]})({"a": torch.eye(2), "b": torch.eye(2)})
    made = nested({"a": torch.ones(2, 2), "b": torch.ones(2, 2)})
    assert made["out"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    table = {torch.ops.aten.softplus.default: lambda x, beta=1, threshold=20: torch.log(1 + torch.exp(x))}
    parts = make_fx(torch.nn.functional.softplus, decomposition_table=table)(x)
    assert [node.name for node in parts.graph.nodes][1:-1] == ["exp", "add", "log"]
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor with aten._local_scalar_dense"):
        make_fx(lambda x: x * x.sum().item())(x)


def test_make_fx_computes_nothing_on_fake_tensors():
    traced = make_fx(lambda x: torch.topk(x * 2, 2), tracing_mode="fake")(torch.arange(4.0))
    assert traced(torch.arange(4.0))[0].tolist() == [6.0, 4.0]
    assert repr(next(iter(traced.graph.nodes)).meta["val"]) == "FakeTensor(..., size=(4,))"


def test_what_outputs_share_with_inputs():
    x = torch.ones(4)
    assert outputs_alias_inputs([x[1:]], x) and not outputs_alias_inputs(x + 1, x)
    assert outputs_are_inputs((x,), [x]) and not outputs_are_inputs(x[:], x)
    assert output_alias_each_other((x[1:], x[:1])) and not output_alias_each_other((x, x + 1))
