"""`__torch_dispatch__` of subclasses: wrappers that keep their elements in other tensors, and who asks them what."""

import copy
import io
import pickle

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2._subclasses.fake_tensor import FakeTensorMode
from mindtorch_v2.nn import functional as F
from mindtorch_v2.utils._python_dispatch import (
    BaseTorchDispatchMode,
    TorchDispatchMode,
    is_in_torch_dispatch_mode,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)
from mindtorch_v2.utils._pytree import tree_map, tree_map_only

aten = torch.ops.aten


class Logging(torch.Tensor):
    """A wrapper that writes down what is done with it."""

    elem: torch.Tensor
    log: list = []

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            layout=elem.layout, device=elem.device, requires_grad=requires_grad)

    def __init__(self, elem, requires_grad=False):
        self.elem = elem

    def __repr__(self, *, tensor_contents=None):
        return f"Logging({self.elem!r})"

    def __tensor_flatten__(self):
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return Logging(inner["elem"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Logging.log.append((str(func), types, args, kwargs))
        taken, named = tree_map_only(Logging, lambda t: t.elem, (args, kwargs or {}))
        return tree_map(lambda t: Logging(t) if isinstance(t, torch.Tensor) else t, func(*taken, **named))


@pytest.fixture(autouse=True)
def _empty_log():
    Logging.log.clear()


def seen():
    return [entry[0] for entry in Logging.log]


def wrapped(*shape, requires_grad=False):
    return Logging(torch.arange(float(np.prod(shape))).reshape(shape), requires_grad)


# the call ------------------------------------------------------------------------------------------------------------


def test_the_handler_gets_overload_types_and_arguments_as_pytorch_gives_them():
    x = wrapped(2, 3)
    made = torch.sum(x, 1, keepdim=True, dtype=torch.float64)
    assert isinstance(made, Logging)
    assert made.elem.tolist() == [[3.0], [12.0]]
    name, types, args, kwargs = Logging.log[0]
    assert (name, types, kwargs) == ("aten.sum.dim_IntList", (Logging,), {"dtype": torch.float64})
    assert args[0] is x
    assert args[1:] == ([1], True)
    assert isinstance(args[1], list)


@pytest.mark.parametrize("call, names", [
    (lambda x: x + 1, ["add.Tensor"]),
    (lambda x: 1 - x, ["rsub.Scalar"]),
    (lambda x: 1 / x, ["reciprocal.default", "mul.Tensor"]),
    (lambda x: x**2, ["pow.Tensor_Scalar"]),
    (lambda x: x**x, ["pow.Tensor_Tensor"]),
    (lambda x: 2**x, ["pow.Scalar"]),
    (lambda x: x.square(), ["pow.Tensor_Scalar"]),
    (lambda x: x > 0, ["gt.Scalar"]),
    (lambda x: x.clamp(0, 1), ["clamp.default"]),
    (lambda x: x.sum(), ["sum.default"]),
    (lambda x: x.mean(0), ["mean.dim"]),
    (lambda x: x.prod(0), ["prod.dim_int"]),
    (lambda x: x.max(1), ["max.dim"]),
    (lambda x: x.t(), ["t.default"]),
    (lambda x: x.T, ["permute.default"]),
    (lambda x: x.transpose(0, 1), ["transpose.int"]),
    (lambda x: x.reshape(6), ["view.default"]),
    (lambda x: x[0, 1:], ["select.int", "slice.Tensor"]),
    (lambda x: list(x), ["unbind.int"]),
    (lambda x: x.to(torch.float64), ["_to_copy.default"]),
    (lambda x: x.detach(), ["detach.default"]),
    (lambda x: x.data, ["detach.default"]),
    (lambda x: x.softmax(0), ["_softmax.default"]),
    (lambda x: F.relu6(x), ["hardtanh.default"]),
    (lambda x: F.logsigmoid(x), ["log_sigmoid_forward.default"]),
    (lambda x: F.layer_norm(x, (3,)), ["native_layer_norm.default"]),
    (lambda x: F.cross_entropy(x, torch.tensor([0, 1])), ["_log_softmax.default", "nll_loss_forward.default"]),
    (lambda x: F.linear(x, torch.ones(4, 3)), ["mm.default"]),
    (lambda x: F.linear(torch.ones(2, 3), x, torch.ones(2)), ["t.default", "addmm.default"]),
    (lambda x: torch.ones(1, 5, 2) @ x[None], ["unsqueeze.default", "expand.default", "view.default", "bmm.default",
                                               "_unsafe_view.default"]),
    (lambda x: x[None] @ torch.ones(3, 2), ["unsqueeze.default", "view.default", "mm.default",
                                            "_unsafe_view.default"]),
    (lambda x: torch.equal(x, x), ["equal.default"]),
    (lambda x: x.scatter(0, torch.zeros(1, 3, dtype=torch.int64), 1.0), ["scatter.value"]),
    (lambda x: torch._foreach_add([x, x], 1), ["_foreach_add.Scalar"]),
    (lambda x: x.sum().item(), ["sum.default", "_local_scalar_dense.default"]),
])
def test_calls_are_seen_as_atens_operators(call, names):
    call(wrapped(2, 3))
    assert [name for name in seen() if name != "aten.ones.default"] == [f"aten.{name}" for name in names]


def test_an_overload_is_one_object_that_can_be_named():
    x = wrapped(2, 3)
    found = []

    class Asking(Logging):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            found.append(func)
            return Logging.__torch_dispatch__(func, types, args, kwargs)

    y = Asking(x.elem)
    y.sum(0)
    y.t()
    y.scatter(0, torch.zeros(1, 3, dtype=torch.int64), 1.0)
    assert found == [aten.sum.dim_IntList, aten.t.default, aten.scatter.value]
    assert found[0].overloadpacket is aten.sum
    assert found[1].is_view and not found[0].is_view


def test_subclasses_are_asked_before_their_bases_and_all_may_decline():
    asked = []

    class Base(torch.Tensor):
        @staticmethod
        def __new__(cls, elem):
            return torch.Tensor._make_wrapper_subclass(cls, elem.shape)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append((cls.__name__, [t.__name__ for t in types]))
            return NotImplemented

    class Derived(Base):
        pass

    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch._ops.aten.mul.Tensor'; all "
                                        r"__torch_dispatch__ handlers returned NotImplemented:\n\n  - tensor subclass"):
        torch.mul(Base(torch.ones(2)), Derived(torch.ones(2)))
    assert asked == [("Derived", ["Derived", "Base"]), ("Base", ["Derived", "Base"])]


def test_a_class_with_a_handler_has_no_torch_function_unless_it_says_so():
    assert Logging.__torch_function__ is torch._C._disabled_torch_function_impl
    assert torch.Tensor.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl

    class Both(Logging):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Logging.log.append((func.__name__, types, args, kwargs))
            return super().__torch_function__(func, types, args, kwargs)

    F.linear(torch.ones(1, 3), Both(torch.ones(2, 3)))
    assert seen() == ["linear", "aten.t.default", "aten.mm.default"]


def test_below_a_handler_autograd_is_out_of_force():
    inside = []

    class Looking(Logging):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = torch.ones(2, requires_grad=True)
            inside.append((torch.is_grad_enabled(), (plain * 2).requires_grad))
            return Logging.__torch_dispatch__(func, types, args, kwargs)

    Looking(torch.ones(2), requires_grad=True) * 2
    assert inside == [(True, False)]


def test_out_is_one_call_that_writes():
    x, out = wrapped(2, 3), Logging(torch.zeros(2, 3))
    assert torch.add(x, 1, out=out) is out
    assert seen() == ["aten.add.out"]
    assert out.elem.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert out._version == 1


def test_switching_dispatch_off_goes_to_the_memory_if_there_is_any():
    class Marked(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            Logging.log.append((str(func), types, args, kwargs))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = torch.Tensor._make_subclass(Marked, torch.ones(2))
    made = x + 1
    assert (type(made), made.tolist(), seen()) == (torch.Tensor, [2.0, 2.0], ["aten.add.Tensor"])
    with torch._C._DisableTorchDispatch():
        assert (x * 3).tolist() == [3.0, 3.0]
        with pytest.raises(RuntimeError, match="Attempted to access the data pointer on an invalid python storage"):
            wrapped(2) + 1
    assert seen() == ["aten.add.Tensor"]


# modes ---------------------------------------------------------------------------------------------------------------


class Mode(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((str(func), types))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("window", [torch.hann_window, torch.kaiser_window])
def test_a_mode_sees_the_overload_of_a_window(window):
    with Mode() as mode:
        window(5), window(5, False)
    name = window.__name__
    assert [name for name, _ in mode.seen] == [f"aten.{name}.default", f"aten.{name}.periodic"]


def test_a_mode_comes_before_the_class_and_gets_its_type():
    x = wrapped(2)
    with Mode() as mode:
        made = x * 2
        x.detach()
    assert isinstance(made, Logging)
    assert mode.seen == [("aten.mul.Tensor", (Logging,)), ("aten.detach.default", (Logging,))]
    assert seen() == ["aten.mul.Tensor", "aten.detach.default"]


def test_a_mode_sees_linear_and_softmax_as_aten_does():
    weight = torch.ones(3, 2, requires_grad=True)
    with Mode() as mode:
        F.linear(torch.ones(4, 2), weight, torch.ones(3)).softmax(-1).sum().backward()
    names = [name.removeprefix("aten.").removesuffix(".default") for name, _ in mode.seen]
    assert names[:5] == ["ones", "ones", "t", "addmm", "_softmax"]
    assert "_softmax_backward_data" in names
    assert weight.grad.shape == (3, 2)


def test_a_mode_that_declines_leaves_the_call_to_the_class_and_says_so_if_there_is_none():
    class Declining(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

        def __repr__(self):
            return "Declining()"

    with Declining(), pytest.raises(TypeError, match=r"'torch._ops.aten.ones.default'(.|\n)*mode object Declining\(\)"):
        torch.ones(2)


# making wrappers -----------------------------------------------------------------------------------------------------


def test_a_wrapper_has_the_geometry_it_was_given_and_no_memory():
    made = torch.Tensor._make_wrapper_subclass(Logging, (2, 3), strides=(1, 2), storage_offset=5, dtype=torch.float16,
                                               device="cuda:1")
    assert (made.shape, made.stride(), made.storage_offset()) == ((2, 3), (1, 2), 5)
    assert (made.dtype, str(made.device), made.is_contiguous()) == (torch.float16, "cuda:1", False)
    assert (made.untyped_storage().nbytes(), made.data_ptr()) == (22, 10)
    plain = torch.Tensor._make_wrapper_subclass(Logging, (2, 3))
    assert (plain.dtype, str(plain.device), plain.stride()) == (torch.float32, "cpu", (3, 1))
    assert not plain.requires_grad


def test_what_cannot_be_a_wrapper_is_refused():
    class Plain(torch.Tensor):
        pass

    make = torch.Tensor._make_wrapper_subclass
    with pytest.raises(TypeError, match="Plain must define __torch_dispatch__"):
        make(Plain, (2,))
    with pytest.raises(TypeError, match="does not inherit from Tensor"):
        make(int, (2,))
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        make(Logging, (2,), dtype=torch.int64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"dimensionality of sizes \(2\) must match dimensionality of strides \(3\)"):
        make(Logging, (2, 3), strides=(1, 2, 3))


def test_elements_are_not_given_out():
    x = wrapped(2)
    with pytest.raises(RuntimeError, match=r".tolist\(\) is not supported for tensor subclasses, got Logging"):
        x.tolist()
    with pytest.raises(RuntimeError, match=r".numpy\(\) is not supported for tensor subclasses."):
        x.numpy()
    with pytest.raises(RuntimeError, match="invalid python storage"):
        x.untyped_storage().data_ptr()


def test_a_wrapper_without_a_repr_of_its_own_shows_what_it_is():
    class Silent(Logging):
        __repr__ = torch.Tensor.__repr__

    assert repr(Silent(torch.ones(2, 3, dtype=torch.float64))) == "Silent(..., size=(2, 3), dtype=torch.float64)"


def test_tensors_and_storages_have_a_number_of_their_own():
    x = torch.ones(4)
    assert isinstance(x._cdata, int)
    assert x._cdata != torch.ones(4)._cdata
    assert x[1:].untyped_storage()._cdata == x.untyped_storage()._cdata
    assert x.untyped_storage()._cdata != torch.ones(4).untyped_storage()._cdata


# autograd ------------------------------------------------------------------------------------------------------------


def test_gradients_are_wrappers_and_go_through_the_handler():
    x = wrapped(2, 3, requires_grad=True)
    loss = (x * x).sum()
    assert (type(loss), loss.grad_fn.name()) == (Logging, "SumBackward0")
    loss.backward()
    assert isinstance(x.grad, Logging)
    assert x.grad.elem.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert seen() == [f"aten.{name}" for name in (
        "mul.Tensor", "sum.default", "ones_like.default", "expand.default", "mul.Tensor", "mul.Tensor", "add.Tensor",
        "detach.default")]
    (x * 1).sum().backward()
    assert x.grad.elem.tolist() == [[1, 3, 5], [7, 9, 11]]


@pytest.mark.parametrize("function", [
    lambda x: x.tanh().sum(), lambda x: x.exp().softmax(0)[0].sum(), lambda x: F.layer_norm(x, (3,)).pow(2).sum(),
    lambda x: (x @ x.t()).sum(), lambda x: x[0].mul(x[1]).sum(), lambda x: torch.cat([x, 2 * x]).std(),
    lambda x: F.cross_entropy(x, torch.tensor([0, 2])), lambda x: F.gelu(x).max(1)[0].sum(),
    lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]).pow(2).sum(),
    lambda x: F.linear(x[None], x).sigmoid().sum(), lambda x: F.group_norm(x[None], 1).abs().sum(),
    lambda x: torch.where(x > 0, x, -x).sum(), lambda x: F.mse_loss(x, x.detach() + 1),
])
def test_values_and_gradients_are_those_of_the_elements(function):
    elements = torch.tensor([[0.1, -0.7, 1.3], [0.4, 0.9, -1.1]])
    plain, x = elements.clone().requires_grad_(), Logging(elements, requires_grad=True)
    expected, made = function(plain), function(x)
    expected.backward()
    made.backward()
    assert isinstance(made, Logging)
    torch.testing.assert_close(made.elem, expected.detach())
    torch.testing.assert_close(x.grad.elem, plain.grad)


def test_second_derivatives_hooks_and_retained_gradients():
    x = Logging(torch.ones(2), requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.elem.tolist() == [6.0, 6.0]
    y = x * 2
    y.retain_grad()
    x.register_hook(lambda grad: grad * 10)
    y.sum().backward()
    assert (y.grad.elem.tolist(), x.grad.elem.tolist()) == ([1.0, 1.0], [20.0, 20.0])


def test_custom_functions_take_wrappers():
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert isinstance(x, Logging)
            return grad * 3

    x = Logging(torch.ones(2), requires_grad=True)
    Triple.apply(x).sum().backward()
    assert x.grad.elem.tolist() == [3.0, 3.0]


def test_a_write_through_a_view_reaches_the_base_and_its_gradient():
    x = Logging(torch.zeros(4), requires_grad=True)
    base = x * 2
    view = base.view(2, 2)
    assert view._is_view() and view._base is base
    view.mul_(3)
    assert base._version == 1
    base.sum().backward()
    assert x.grad.elem.tolist() == [6.0] * 4


def test_writes_return_the_tensor_and_count():
    x = wrapped(2, 3)
    assert x.add_(1) is x
    assert x._version == 1
    x[0] = 5.0
    assert x.elem.tolist() == [[5, 5, 5], [4, 5, 6]]
    x[x > 5] = 0.0
    assert x.elem.tolist() == [[5, 5, 5], [4, 5, 0]]


def test_no_recorded_write_to_a_leaf():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        Logging(torch.ones(2), requires_grad=True).add_(1)


# copies --------------------------------------------------------------------------------------------------------------


def test_copies_and_pickles_keep_the_class_and_its_parts():
    x = wrapped(2, 3)
    copied = copy.deepcopy(x)
    assert seen() == ["aten.clone.default"]
    assert isinstance(copied, Logging) and copied.elem is not x.elem
    for other in (copied, copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert isinstance(other, Logging)
        assert other.elem.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert other.shape == (2, 3)
    buffer = io.BytesIO()
    torch.save({"x": x}, buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=False)["x"].elem.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("zipped", [True, False])
def test_weights_of_a_class_that_the_user_allows(zipped):
    buffer = io.BytesIO()
    torch.save({"x": wrapped(2, 3).t()}, buffer, _use_new_zipfile_serialization=zipped)
    buffer.seek(0)
    if zipped:
        assert torch.serialization.get_unsafe_globals_in_checkpoint(buffer) == [f"{__name__}.Logging"]
        buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=rf"GLOBAL {__name__}.Logging was not an allowed global"):
        torch.load(buffer)
    buffer.seek(0)
    with torch.serialization.safe_globals([Logging]):
        found = torch.load(buffer)["x"]
    assert type(found) is Logging and found.shape == (3, 2) and found.stride() == (1, 3)
    assert found.elem.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_file_cannot_give_a_wrapper_an_impossible_geometry():
    rebuild = torch._utils._rebuild_wrapper_subclass
    with pytest.raises(RuntimeError, match="multiplication overflow"):
        rebuild(Logging, torch.float32, (1 << 62, 1 << 62), (1, 1), 0, torch.strided, torch.device("cpu"), False)
    with pytest.raises(RuntimeError, match="invalid storage offset -1"):
        rebuild(Logging, torch.float32, (2,), (1,), -1, torch.strided, torch.device("cpu"), False)


def test_a_clone_of_another_type_cannot_be_a_deep_copy():
    class Other(Logging):
        pass

    with pytest.raises(RuntimeError, match="only works for subclass types that implement clone()"):
        copy.deepcopy(Other(torch.ones(2)))


def test_taking_a_wrapper_apart():
    x = wrapped(2, 3)
    assert is_traceable_wrapper_subclass(x)
    assert not is_traceable_wrapper_subclass(torch.ones(2))
    assert transform_subclass(x, lambda name, inner: inner * 2).elem.tolist() == [[0, 2, 4], [6, 8, 10]]
    with pytest.raises(AssertionError, match=r"to have shape equal to torch.Size\(\[2, 3\]\), but got"):
        transform_subclass(x, lambda name, inner: inner[0])


def test_aliases_of_results_can_be_corrected():
    class Correct(Logging):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            out = Logging.__torch_dispatch__(func, types, args, kwargs)
            return return_and_correct_aliasing(func, args, kwargs, cls(out.elem) if func is not aten.t.default else out)

    x = Correct(torch.ones(4))
    assert x.mul_(2) is x
    assert x.view(2, 2).untyped_storage()._cdata == x.untyped_storage()._cdata
    assert (x * 2).untyped_storage()._cdata != x.untyped_storage()._cdata
    with pytest.raises(AssertionError, match="But expected types to match"):
        Correct(torch.ones(2, 2)).t()


# found by PyTorch's own tests ----------------------------------------------------------------------------------------


def test_text_given_for_the_elements_is_shown():
    class Shown(Logging):
        def __repr__(self):
            return super(Logging, self).__repr__(tensor_contents=f"{self.elem}")

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return cls(args[0].elem) if func is aten.detach.default else NotImplemented

    x = Shown(torch.ones(2, dtype=torch.float64))
    assert repr(x) == "Shown(tensor([1., 1.], dtype=torch.float64), dtype=torch.float64)"
    assert repr(nn.Parameter(x)) == (
        "Parameter(Shown(tensor([1., 1.], dtype=torch.float64), dtype=torch.float64,\n      requires_grad=True))")


def test_a_marked_tensor_is_a_parameter_but_none_of_its_subclasses():
    class Special(nn.Parameter):
        pass

    marked = nn.Parameter(wrapped(2))
    assert isinstance(marked, nn.Parameter)
    assert not isinstance(marked, Special)


def test_dispatch_can_be_switched_off_and_recording_on_again():
    from mindtorch_v2.utils._mode_utils import all_same_mode, no_dispatch

    class Quiet(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with no_dispatch():
                return func(*args, **(kwargs or {}))

    x = torch.Tensor._make_subclass(Quiet, torch.arange(4))
    assert [part.tolist() for part in torch.split(x, 2)] == [[0, 1], [2, 3]]
    assert all_same_mode([1, 1]) and not all_same_mode([1, 2])

    class Recording(Logging):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with torch.overrides.enable_reentrant_dispatch():
                return cls(func(*tree_map_only(Logging, lambda t: t.elem, args)))

    inner = torch.ones(2, requires_grad=True)
    made = Recording(inner) + 2
    assert not made.requires_grad
    made.elem.sum().backward()
    assert inner.grad.tolist() == [1.0, 1.0]


def test_one_level_of_torch_function_can_be_skipped():
    names = []

    class Level(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return torch.overrides.redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if torch.overrides.has_torch_function((a, b)):
            return torch.overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    x = torch.ones(2).as_subclass(Level)
    made = scaled(x, x)
    assert (type(made), made.tolist()) == (torch.Tensor, [2.0, 2.0])
    assert names[0] == "scaled"
    assert len(names) == 2


def test_what_a_handler_returns_must_be_what_the_operator_gives():
    class Wrong(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "arf"

    x = torch.Tensor._make_subclass(Wrong, torch.zeros(2))
    with pytest.raises(RuntimeError, match="Unable to cast arf to Tensor"):
        x.neg()
    with pytest.raises(RuntimeError, match="Unable to cast Python instance of type <class 'str'>"):
        torch.split(x, 1)


def test_a_handler_may_be_a_method_of_the_tensor():
    class Own(Logging):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(self.elem)

    assert Own(torch.ones(2)).neg().tolist() == [-1.0, -1.0]


def test_a_detached_wrapper_counts_with_its_source_and_its_data_does_not():
    x = wrapped(2)
    x.detach().add_(1)
    assert x._version == 1
    x.data.add_(1)
    assert x._version == 1


def test_the_storage_of_a_wrapper_refuses_what_needs_memory():
    storage = wrapped(2).untyped_storage()
    for use in (lambda: storage.resize_(0), lambda: storage.copy_(storage), lambda: storage.fill_(0)):
        with pytest.raises(RuntimeError, match="on an invalid python storage"):
            use()


def test_a_library_in_a_block_and_the_older_form_of_impl():
    with torch.library._scoped_library("dispatch_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")

        @torch.library.impl(library, "twice", "CPU")
        def twice(x):
            return x * 2

        assert torch.ops.dispatch_test.twice(torch.ones(1)).item() == 2.0
    with pytest.raises(AttributeError):
        torch.ops.dispatch_test.twice(torch.ones(1))


def test_weak_references_to_storages_are_equal_for_one_storage():
    from mindtorch_v2.multiprocessing.reductions import StorageWeakRef

    x = torch.ones(4)
    first, second = StorageWeakRef(x.untyped_storage()), StorageWeakRef(x[1:].untyped_storage())
    assert first == second and hash(first) == hash(second)
    assert first != StorageWeakRef(torch.ones(4).untyped_storage())
    assert not first.expired()
    del x
    assert first.expired()


def test_factories_name_their_device_and_keep_what_autograd_is_told():
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), kwargs))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Watch():
        made = torch.ones(2, requires_grad=True)
        torch.linspace(0, 1, 3, dtype=torch.float64)
        with torch.device("meta"):
            torch.arange(3)
        torch.zeros_like(x), x.new_empty(2)
        x.to(torch.float64)
        (made * made).sum().backward()
    assert made.requires_grad
    cpu, meta = torch.device("cpu"), torch.device("meta")
    assert seen[:6] == [
        ("aten.ones.default", {"device": cpu, "pin_memory": False}),
        ("aten.linspace.default", {"dtype": torch.float64, "device": cpu, "pin_memory": False}),
        ("aten.arange.default", {"device": meta, "pin_memory": False}),
        ("aten.zeros_like.default", {"pin_memory": False}), ("aten.new_empty.default", {"pin_memory": False}),
        ("aten._to_copy.default", {"dtype": torch.float64}),
    ]  # fmt: skip
    assert seen[8] == ("aten.ones_like.default", {"pin_memory": False, "memory_format": torch.preserve_format})
    assert "aten.add_.Tensor" not in [name for name, _ in seen]  # gradients that join are added to a third


def test_what_examples_of_subclasses_import():
    from mindtorch_v2._export.wrappers import mark_subclass_constructor_exportable_experimental as mark
    from mindtorch_v2._subclasses.fake_tensor import _is_tensor_constructor
    from mindtorch_v2.utils._dtype_abbrs import dtype_abbrs

    assert [_is_tensor_constructor(f) for f in (torch.ops.aten.rand.default, torch.ops.aten.add.Tensor,
                                                torch.ops.aten.cat.default, torch.ops.aten.linspace.default)] == [
        True, False, False, True]  # fmt: skip
    assert dtype_abbrs[torch.bool] == "b8" and dtype_abbrs[torch.bfloat16] == "bf16"
    assert torch._disable_dynamo(lambda x: x + 1)(1) == torch._disable_dynamo()(lambda x: x + 1)(1) == 2

    class Marked:
        @mark
        def __init__(self, x):
            self.x = x

    assert Marked(3).x == 3
    with pytest.raises(RuntimeError, match="can only be applied on subclass"):
        mark(lambda x: x)


class Slotted(torch.Tensor):
    """A subclass that keeps what it wraps in a slot."""

    __slots__ = ["elem"]

    @staticmethod
    def __new__(cls, elem):
        made = torch.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype)
        made.elem = elem
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        made = func(*tree_map_only(cls, lambda x: x.elem, args), **tree_map_only(cls, lambda x: x.elem, kwargs or {}))
        return tree_map_only(torch.Tensor, cls, made)


class Diagonal(torch.Tensor):
    """A subclass with an attribute that is named like a method of tensors."""

    @staticmethod
    def __new__(cls, diag):
        made = torch.Tensor._make_wrapper_subclass(cls, (*diag.size(), *diag.size()), dtype=diag.dtype)
        made.diag = diag
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is aten.detach.default:
            return cls(args[0].diag)
        return NotImplemented


class Noted(torch.Tensor):
    """A subclass on memory, with a slot."""

    __slots__ = ["notes"]


@pytest.mark.parametrize("safe", [True, False])
def test_subclasses_come_back_from_files_with_what_they_had(safe):
    def loaded(value, kind):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        with torch.serialization.safe_globals([kind]):
            return torch.load(file, weights_only=safe)

    for as_parameter in (False, True):
        for kind, name in ((Slotted, "elem"), (Diagonal, "diag")):
            value = kind(torch.arange(3.0))
            made = loaded(nn.Parameter(value) if as_parameter else value, kind)
            assert type(made) is kind and isinstance(made, nn.Parameter) is as_parameter
            assert getattr(made, name).tolist() == [0, 1, 2]
    noted = torch.Tensor._make_subclass(Noted, torch.arange(3.0))
    noted.notes = ["a"]
    made = loaded(noted, Noted)
    assert made.notes == ["a"] and made.tolist() == [0, 1, 2]
    assert type(torch.ones(2).as_subclass(Noted)) is Noted


def test_modes_say_whether_they_serve_the_library():
    class Serving(TorchDispatchMode):
        @classmethod
        def is_infra_mode(cls):
            return True

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Serving():
        assert is_in_torch_dispatch_mode() and not is_in_torch_dispatch_mode(include_infra_modes=False)
        with BaseTorchDispatchMode():
            assert is_in_torch_dispatch_mode(include_infra_modes=False)
    with FakeTensorMode():
        assert not is_in_torch_dispatch_mode(include_infra_modes=False)
    assert not is_in_torch_dispatch_mode()


def test_a_mode_with_a_class_method_is_refused():
    class Wrong(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args)

    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="as a classmethod is not supported, please make it a plain method"), Wrong():
        x + 1
