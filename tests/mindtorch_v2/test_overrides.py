"""torch.overrides, TorchDispatchMode, torch.ops, and what libraries expect of a tensor's `__dict__`."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import overrides
from mindtorch_v2._higher_order_ops import associative_scan, scan
from mindtorch_v2.nn import functional as F
from mindtorch_v2.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "seen", func.__name__, types


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


# __torch_function__ ---------------------------------------------------------------------------------------------------


def test_python_functions_ask_their_arguments():
    tagged = torch.ones(2, 3).as_subclass(Tagged)
    for name, call in {"cross_entropy": lambda: F.cross_entropy(tagged, torch.tensor([0, 1])),
                       "einsum": lambda: torch.einsum("ij->j", tagged),
                       "broadcast_tensors": lambda: torch.broadcast_tensors(torch.ones(3), tagged)}.items():
        assert call() == ("seen", name, (Tagged,))


def test_a_plain_method_is_asked_too_with_a_warning():
    class Plain:
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return self, function.__name__, types

    one = Plain()
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="Defining your `__torch_function__` as a plain method is deprecated"):
            assert torch.add(torch.ones(1), one) == (one, "add", (Plain,))
    finally:
        torch.set_warn_always(False)
    with pytest.warns(DeprecationWarning, match="Defining your `__torch_function__ as a plain method is deprecated"):
        assert F.relu(one) == (one, "relu", (Plain,))


def test_a_function_mode_sees_python_functions_whole():
    seen = []

    class Mode(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(overrides.resolve_name(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 1]))
        torch.exp(torch.ones(1))
    assert seen == ["torch.ones", "torch.nn.functional.cross_entropy", "torch.ones", "torch.exp"]


def test_names_of_functions():
    for name in ("torch.add", "torch.Tensor.add", "torch.nn.functional.relu", "torch.linalg.solve", "torch.Tensor.mul_",
                 "torch.cat", "torch.neg", "torch.Tensor.neg", "torch.gt", "torch.clamp", "torch.outer", "torch.vstack",
                 "torch.Tensor.abs"):  # fmt: skip
        found = torch
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert overrides.resolve_name(found) == name
    assert overrides.resolve_name(print) is None
    assert overrides.resolve_name(torch.Tensor.shape.__get__) == "torch.Tensor.shape.__get__"
    assert overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert not overrides.is_tensor_method_or_property(torch.add)


def test_overridable_functions_are_listed():
    listed = overrides.get_overridable_functions()
    assert torch.add in listed["torch"] and F.relu in listed["torch.nn.functional"]
    assert torch.Tensor.add in listed[torch.Tensor] and torch.tensor not in listed["torch"]
    assert overrides.get_testing_overrides()[torch.add](1, 2) == -1
    assert torch.tensor in overrides.get_ignored_functions()


def test_wrap_torch_function():
    @overrides.wrap_torch_function(lambda a, b=None: (a,))
    def function(a, b=None):
        return "ran"

    assert function(torch.ones(1)) == "ran"
    assert function(torch.ones(1).as_subclass(Tagged)) == ("seen", "function", (Tagged,))


# TorchDispatchMode ----------------------------------------------------------------------------------------------------


def test_a_dispatch_mode_sees_operators_below_autograd():
    weight = torch.ones(2, 3, requires_grad=True)
    with Log() as log:
        loss = torch.relu(weight).sum()
        loss.backward()
        torch.ones(2).add_(1)
        torch.ones(2) + 2
    assert log.seen[:5] == ["aten.relu.default", "aten.sum.default", "aten.ones_like.default", "aten.expand.default",
                            "aten.threshold_backward.default"]
    assert log.seen[-4:] == ["aten.ones.default", "aten.add_.Tensor", "aten.ones.default", "aten.add.Tensor"]
    assert loss.grad_fn is not None and weight.grad.tolist() == [[1.0] * 3] * 2
    assert _get_current_dispatch_mode() is None


def test_a_dispatch_mode_can_change_results_and_gradients_follow():
    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ops.aten.mul.Tensor else result

    x = torch.tensor([3.0], requires_grad=True)
    with Doubling():
        y = x * torch.tensor([2.0])
    assert y.item() == 12.0 and y.grad_fn.name() == "MulBackward0"


def test_dispatch_modes_nest_and_end_with_an_error():
    with Log() as outer, Log() as inner:
        torch.ones(1) + 1
    assert outer.seen == inner.seen == ["aten.ones.default", "aten.add.Tensor"]
    with pytest.raises(RuntimeError), Log():
        torch.ones(2) @ torch.ones(3)
    before = len(outer.seen)
    torch.ones(1)
    assert len(outer.seen) == before and _get_current_dispatch_mode() is None


def test_composites_are_seen_as_what_they_are_made_of():
    with Log() as log:
        torch.vmap(lambda x: x * 2)(torch.ones(3))
    assert log.seen[-1] == "aten.mul.Tensor"


# torch.ops, numbers for tensors, control flow -----------------------------------------------------------------------


def test_overloads_are_one_object_each():
    overload = torch.ops.aten.add.Tensor
    assert overload is torch.ops.aten.add.Tensor and overload.overloadpacket is torch.ops.aten.add
    assert (str(overload), overload.name(), overload.namespace) == ("aten.add.Tensor", "aten::add.Tensor", "aten")
    assert repr(overload) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert torch.ops.aten.detach.default(torch.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'no_such'"):
        torch.ops.aten.no_such
    with pytest.raises(OSError, match="cannot load compiled operators"):
        torch.ops.load_library("x.so")


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("add", (7, 2), 9), ("sub", (7.0, 2.0), 5.0), ("div", (7, 2), 3.5), ("floor_divide", (7, 2), 3),
    ("mul", (True, 2), 2)])
def test_arithmetic_of_two_numbers_gives_a_tensor(name, args, expected):
    made = getattr(torch, name)(*args)
    assert isinstance(made, torch.Tensor) and made.item() == expected
    assert torch.div(7, 4, rounding_mode="trunc").dtype is torch.int64


def test_other_operators_refuse_numbers():
    with pytest.raises(TypeError, match=r"pow\(\) received an invalid combination of arguments - got \(int, int\)"):
        torch.pow(7, 2)
    with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not int"):
        torch.relu(7)


def test_sizes_may_be_tensors_among_integers():
    x, three = torch.ones(2, 6), torch.tensor(3)
    assert x.view(three, 4).shape == (3, 4) and x.view(2, three, torch.tensor(2)).shape == (2, 3, 2)
    assert torch.zeros(three, 2).shape == (3, 2) and x.repeat(torch.tensor(2), 1).shape == (4, 6)


def test_scans():
    x = torch.randn(3, 5)
    for mode in ("pointwise", "generic"):
        assert torch.allclose(associative_scan(lambda a, b: a + b, x, 1, combine_mode=mode), x.cumsum(1))
    reversed_sum = associative_scan(lambda a, b: a + b, x, 0, reverse=True)
    assert torch.allclose(reversed_sum, x.flip(0).cumsum(0).flip(0))
    last, all_of_them = scan(lambda carry, row: (carry + row, carry * 1.0), torch.zeros(5), x)
    assert torch.allclose(last, x.sum(0)) and all_of_them.shape == (3, 5)
    assert torch.cond(torch.tensor(True), lambda v: v + 1, lambda v: v, (torch.zeros(1),)).item() == 1.0
    assert torch.while_loop(lambda i: i < 3, lambda i: (i + 1,), (torch.tensor(0),))[0].item() == 3


# attributes of tensors ----------------------------------------------------------------------------------------------


def test_a_tensors_dict_has_what_users_set_and_nothing_else():
    x = torch.ones(2)
    assert vars(x) == {}
    x.tag = 3
    x.__dict__["other"] = 4
    assert vars(x) == {"tag": 3, "other": 4} and x.other == 4
    assert x.__dict__.pop("tag") == 3 and not hasattr(x, "tag")
    copied = torch.nn.Parameter(torch.ones(2), **vars(torch.ones(1)))
    copied.__dict__.update(vars(x))
    assert copied.other == 4 and copied.requires_grad
    assert isinstance(x, torch._C.TensorBase)
