"""Custom operators: tags, checks, rules for tracing and autocast, lifetimes, and the older way to make them."""

import gc
import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2._custom_ops as custom_ops
from mindtorch_v2 import Tensor
from mindtorch_v2._subclasses import FakeTensorMode
from mindtorch_v2._subclasses.schema_check_mode import SchemaCheckMode
from mindtorch_v2.library import Library, _scoped_library, custom_op, infer_schema, opcheck
from mindtorch_v2.utils._python_dispatch import TorchDispatchMode


@pytest.fixture
def lib():
    with _scoped_library("customs", "FRAGMENT") as made:
        yield made


# tags ----------------------------------------------------------------------------------------------------------------


def test_an_operator_tagged_inplace_returns_what_it_writes():
    @custom_op("customs::add_to", mutates_args={"x"}, tags=torch.Tag.inplace)
    def add_to(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        return x

    assert str(add_to._opoverload._schema) == "customs::add_to(Tensor(a0!) x, Tensor y) -> Tensor(a0!)"
    x = torch.ones(2)
    version = x._version
    assert add_to(x, torch.ones(2)) is x and x.tolist() == [2.0, 2.0] and x._version > version
    with FakeTensorMode():
        fake = torch.ones(2)
        assert add_to(fake, fake) is fake


def test_an_operator_tagged_out_returns_its_keyword():
    @custom_op("customs::plus_one", mutates_args={"out"}, tags=torch.Tag.out)
    def plus_one(x: Tensor, *, out: Tensor) -> Tensor:
        out.copy_(x + 1)
        return out

    out = torch.zeros(2)
    assert plus_one(torch.ones(2), out=out) is out and out.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="functions with out=... arguments don't support automatic differentiation"):
        plus_one(torch.ones(2, requires_grad=True), out=out)
    with pytest.raises(RuntimeError, match="Out variants do not support autograd"):
        plus_one.register_autograd(lambda ctx, grad: grad)


@pytest.mark.parametrize(("schema", "tag", "written", "message"), [
    ("(Tensor(a!) x) -> Tensor", "inplace", {"x"}, "return must alias the first argument"),
    ("(Tensor x, Tensor(a!) y) -> Tensor(a!)", "inplace", {"y"}, "the first positional argument to be mutable"),
    ("(Tensor(a!) x) -> ()", "inplace", {"x"}, "must return exactly one value"),
    ("(Tensor x, Tensor(a!) out) -> Tensor(a!)", "out", {"out"}, "requires all mutable arguments to be keyword-only"),
    ("(Tensor x, *, Tensor(a!)? out) -> Tensor", "out", {"out"}, "only supports Tensor mutable arguments"),
    ("(Tensor x, *, Tensor(a!) out) -> Tensor", "out", {"out"}, "must alias mutable arg 'out'"),
])
def test_schemas_that_do_not_fit_a_tag_are_refused(schema, tag, written, message):
    with pytest.raises(ValueError, match=message):
        custom_op("customs::refused", lambda *args: args, mutates_args=written, schema=schema,
                  tags=getattr(torch.Tag, tag))
    assert not hasattr(torch.ops.customs, "refused")


def test_schemas_of_tagged_functions():
    def inplace(x: Tensor) -> Tensor: ...

    def out(x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]: ...

    assert infer_schema(inplace, mutates_args={"x"}, tags=torch.Tag.inplace) == "(Tensor(a0!) x) -> Tensor(a0!)"
    assert infer_schema(out, mutates_args=("a", "b"), tags=[torch.Tag.out]) == (
        "(Tensor x, *, Tensor(a1!) a, Tensor(a2!) b) -> (Tensor(a1!), Tensor(a2!))")
    with pytest.raises(ValueError, match="requires the return annotation to be torch.Tensor"):
        infer_schema(nothing, mutates_args=("x",), tags=torch.Tag.inplace)
    with pytest.raises(AssertionError, match="mutually exclusive"):
        custom_op("customs::both", inplace, mutates_args=("x",), tags=[torch.Tag.inplace, torch.Tag.out])


def nothing(x: Tensor) -> None: ...


# kernels -------------------------------------------------------------------------------------------------------------


def test_kernels_get_keywords_by_name_and_no_trailing_defaults(lib):
    lib.define("scaled(Tensor x, int by=2, *, int plus=3, int[] sizes) -> Tensor")
    seen = []

    def kernel(x, by=20, *, plus=30, sizes):
        seen.append((by, plus, sizes))
        return x * by + plus

    lib.impl("scaled", kernel, "CPU")
    assert torch.ops.customs.scaled(torch.ones(1), sizes=(1, 2)).tolist() == [50.0]
    assert torch.ops.customs.scaled(torch.ones(1), 3, plus=4, sizes=[5]).tolist() == [7.0]
    assert seen == [(20, 30, [1, 2]), (3, 4, [5])]


def test_a_library_takes_its_operators_and_kernels_with_it():
    def define():
        made = Library("customs", "FRAGMENT")
        made.define("passing(Tensor x) -> Tensor")
        made.impl("passing", lambda x: x + 1, "CPU")
        with pytest.raises(RuntimeError, match="already a kernel registered from python overriding passing"):
            made.impl("passing", lambda x: x, "CPU", allow_override=False)
        with _scoped_library("customs", "IMPL") as other:
            other.impl("passing", lambda x: x + 2, "CPU")
            assert torch.ops.customs.passing(torch.zeros(())).item() == 2
        assert torch.ops.customs.passing(torch.zeros(())).item() == 1

    define()
    gc.collect()
    assert not hasattr(torch.ops.customs, "passing")
    define()  # the name is free again


def test_kernels_of_keys_that_do_not_exist_here_never_run(lib):
    lib.define("elsewhere(Tensor x) -> Tensor")
    lib.impl("elsewhere", lambda x: x, "XPU")
    assert torch._C._dispatch_has_kernel_for_dispatch_key("customs::elsewhere", "XPU")
    with pytest.raises(NotImplementedError):
        torch.ops.customs.elsewhere(torch.ones(1))
    with pytest.raises(RuntimeError, match="could not parse dispatch key: Nowhere"):
        lib.impl("elsewhere", lambda x: x, "Nowhere")


def test_get_kernel_gives_one_that_dies_with_its_library():
    with _scoped_library("aten", "IMPL") as made:
        made.impl("digamma", lambda x: x * 2, "CPU")
        kernel = torch.library.get_kernel("aten::digamma", "CPU")
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        assert kernel.call_boxed(keys, torch.ones(1)).tolist() == [2.0]
    with pytest.raises(RuntimeError, match="has been invalidated"):
        kernel.call_boxed(keys, torch.ones(1))


def test_kernels_can_be_switched_off():
    @custom_op("customs::switched", mutates_args=())
    def switched(x: Tensor) -> Tensor:
        return x + 1

    switched.register_kernel("cpu")(lambda x: x + 2)
    assert switched(torch.zeros(())).item() == 2
    with switched.set_kernel_enabled("cpu", enabled=False):
        assert switched(torch.zeros(())).item() == 1
    assert switched(torch.zeros(())).item() == 2


def test_fakes_are_registered_once_unless_they_may_be_replaced(lib):
    lib.define("shaped(Tensor x) -> Tensor")
    torch.library.register_fake("customs::shaped", lambda x: x.new_empty(2), lib=lib)
    assert torch.ops.customs.shaped(torch.empty(1, device="meta")).shape == (2,)
    with pytest.raises(RuntimeError, match=r"customs::shaped already has a fake impl registered at .*\.py:\d+"):
        torch.library.register_fake("customs::shaped", lambda x: x, lib=lib, allow_override=False)
    torch.library.register_fake("customs::shaped", lambda x: x.new_empty(3), lib=lib)
    assert torch.ops.customs.shaped(torch.empty(1, device="meta")).shape == (3,)
    lib.define("made_of(Tensor x) -> Tensor")
    lib.impl("made_of", lambda x: x.sin(), "CompositeImplicitAutograd")
    with pytest.raises(RuntimeError, match="because it has a CompositeImplicitAutograd kernel in core"):
        torch.library.register_fake("customs::made_of", lambda x: x, lib=lib)


def test_an_operator_whose_name_was_taken_can_still_be_called():
    def define(by: float):
        @custom_op("customs::renamed", mutates_args=())
        def renamed(x: Tensor) -> Tensor:
            return x * by

        return renamed

    first, second = define(2.0), define(3.0)
    gc.collect()
    assert second(torch.ones(())).item() == torch.ops.customs.renamed(torch.ones(())).item() == 3
    assert first(torch.ones(())).item() in (2, 3)  # PyTorch finds the operator by its name


def test_an_operator_without_a_fake_says_so():
    @custom_op("customs::real_only", mutates_args=())
    def real_only(x: Tensor) -> Tensor:
        return x.clone()

    with pytest.raises(RuntimeError, match="There was no fake impl registered for <CustomOpDef.customs::real_only.>"):
        real_only(torch.ones(1, device="meta"))


# rules ---------------------------------------------------------------------------------------------------------------


def test_rules_for_a_mode_come_before_its_handler(lib):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    lib.define("ruled(Tensor x) -> Tensor")
    lib.impl("ruled", lambda x: x + 1, "CPU")
    torch.library.register_torch_dispatch("customs::ruled", Mode, lambda mode, func, types, args, kwargs: args[0] * 10,
                                          lib=lib)
    assert torch.ops.customs.ruled(torch.ones(())).item() == 2
    with Mode():
        assert torch.ops.customs.ruled(torch.ones(())).item() == 10


def test_autocast_brings_arguments_to_a_type():
    @custom_op("customs::cast", mutates_args=())
    def cast(x: Tensor) -> Tensor:
        return x.clone()

    cast.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert cast(torch.ones(1)).dtype is torch.bfloat16
        assert cast(torch.ones(1, dtype=torch.float64)).dtype is torch.float64
        assert cast(torch.ones(1, dtype=torch.int64)).dtype is torch.int64
    assert cast(torch.ones(1)).dtype is torch.float32


def test_formulas_take_and_give_lists():
    @custom_op("customs::halves", mutates_args=())
    def halves(xs: list[Tensor], by: float) -> list[Tensor]:
        return [x * by for x in xs]

    def setup(ctx, inputs, output):
        ctx.by = inputs[1]

    def backward(ctx, grads):
        assert ctx.needs_input_grad[0] == [True, False]
        return [g * ctx.by for g in grads], None

    halves.register_autograd(backward, setup_context=setup)
    x, y = torch.ones(2, requires_grad=True), torch.ones(3)
    first, second = halves([x, y], 0.5)
    (first.sum() * 4 + second.sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_operators_without_autograd_warn_for_each_result_in_a_list(lib):
    lib.define("pair(Tensor[] xs) -> (Tensor, Tensor[])")
    lib.impl("pair", lambda xs: (xs[0].detach() + 1, [x.detach() * 2 for x in xs]), "CPU")
    x = torch.ones(2, requires_grad=True)
    one, (two,) = torch.ops.customs.pair([x])
    assert one.requires_grad and two.requires_grad
    for result in (one, two):
        with pytest.warns(UserWarning, match="an autograd kernel was not registered to the Autograd key"):
            result.sum().backward(retain_graph=True)
    assert x.grad is None


# checks --------------------------------------------------------------------------------------------------------------


def sine(name, **changes):
    """An operator that passes all checks, but for what is changed."""
    made = custom_op(f"customs::{name}", changes.get("kernel", sine_kernel), mutates_args=())
    made.register_fake(changes.get("fake", torch.empty_like))
    if "backward" not in changes:
        def setup(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        made.register_autograd(lambda ctx, grad: grad * ctx.saved_tensors[0].cos(), setup_context=setup)
    return made


def sine_kernel(x: Tensor) -> Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()))


def test_opcheck_of_a_right_operator():
    op = sine("sine")
    everything = dict.fromkeys(
        ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"), "SUCCESS")
    assert opcheck(op, (torch.rand(3, requires_grad=True),)) == everything
    assert opcheck(op, (torch.rand(2, 3),), test_utils="test_schema") == {"test_schema": "SUCCESS"}
    with pytest.raises(ValueError, match="expected test_utils to be subset of"):
        opcheck(op, (torch.rand(2),), test_utils="test_everything")
    with pytest.raises(ValueError, match="if you specify one of rtol/atol, you must specify both"):
        opcheck(op, (torch.rand(2),), atol=1.0)


def writing(x: Tensor) -> Tensor:
    x.detach().add_(1)
    return x.clone()


@pytest.mark.parametrize(("check", "changes", "message"), [
    ("test_schema", {"kernel": writing}, "Argument x is not defined as mutable but was mutated"),
    ("test_faketensor", {"fake": lambda x: x.new_empty(7)}, "Shapes .* are not equal"),
    ("test_faketensor", {"fake": lambda x: x.new_empty(3, 2).t()}, "Stride mismatch"),
    ("test_aot_dispatch_static", {"backward": None}, "no autograd formula was registered"),
])
def test_opcheck_finds_what_is_wrong(check, changes, message):
    op = sine(f"wrong_{check}_{len(message)}", **changes)
    results = opcheck(op, (torch.rand(2, 3, requires_grad=True),), test_utils=check, raise_exception=False)
    with pytest.raises(Exception, match=message):
        raise results[check]
    with pytest.raises(Exception, match=f"{check} failed with"):
        opcheck(op, (torch.rand(2, 3, requires_grad=True),), test_utils=check)


def test_opcheck_finds_autograd_at_a_backend_key(lib):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    lib.define("misplaced(Tensor x) -> Tensor")
    lib.impl("misplaced", Doubled.apply, "CPU")
    with pytest.raises(Exception, match="does not have an autograd kernel"):
        opcheck(torch.ops.customs.misplaced.default, (torch.ones((), requires_grad=True),),
                test_utils="test_autograd_registration")


def test_the_mode_that_checks_schemas_tells_what_ran(lib):
    x = torch.ones(2, 2)
    with SchemaCheckMode() as mode:
        x.sinh_()
        x.view(-1)
    assert mode.ops == ["aten::sinh_", "aten::view"]
    assert mode.mutated == [("aten::sinh_", "input")]
    assert mode.aliasing == [("aten::sinh_", "input", "output_0"), ("aten::view", "input", "output_0")]
    lib.define("secret(Tensor x) -> Tensor")
    lib.impl("secret", lambda x: x.view(-1), "CPU")
    with (pytest.raises(RuntimeError, match="Argument x is not defined to alias output but was aliasing"),
          SchemaCheckMode()):
        torch.ops.customs.secret(x)


# the older way -------------------------------------------------------------------------------------------------------


@pytest.fixture
def old_op():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        @custom_ops.custom_op("customs::old")
        def old(xs: list[Tensor], by: int) -> Tensor: ...

        yield torch.ops.customs.old
        custom_ops._destroy("customs::old")
    assert not hasattr(torch.ops.customs, "old")


def test_operators_made_in_steps(old_op):
    with pytest.raises(NotImplementedError, match="there is no cpu impl registered for this CustomOp"):
        old_op([torch.ones(1)], 2)
    with pytest.raises(NotImplementedError, match="there was no fake impl or Meta kernel registered"):
        old_op([torch.ones(1, device="meta")], 2)
    custom_ops.impl("customs::old")(lambda xs, by: xs[0] * xs[1] * by)
    with pytest.raises(RuntimeError, match="Autograd has not been implemented for operator"):
        old_op([torch.ones(1, requires_grad=True)] * 2, 2)
    custom_ops.impl_backward("customs::old")(
        lambda ctx, saved, grad: {"xs": [grad * saved[1] * 2, grad * saved[0] * 2]})
    x, y = torch.full((1,), 3.0, requires_grad=True), torch.full((1,), 5.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="unable to find a 'save_for_backward' registration"):
        old_op([x, y], 2)
    custom_ops.impl_save_for_backward("customs::old")(lambda inputs, output: list(inputs.xs))
    old_op([x, y], 2).backward()
    assert x.grad.tolist() == [10.0] and y.grad.tolist() == [6.0]


@pytest.mark.parametrize(("grads", "message"), [
    (1, "expected the output of the backward function to be a dict"),
    ({}, "expected the returned grad_input dict to have keys {'xs'}"),
    ({"xs": None, "by": None}, "declared to be non-Tensor-like types should not appear"),
    ({"xs": None}, "to hold a list of gradients"),
    ({"xs": [None]}, "to hold a list of 2 gradients but got 1"),
    ({"xs": [None, 3]}, "a list of None or Tensor gradients"),
])
def test_gradients_by_name_are_checked(old_op, grads, message):
    custom_ops.impl("customs::old")(lambda xs, by: xs[0] * by)
    custom_ops.impl_save_for_backward("customs::old")(lambda inputs, output: None)
    custom_ops.impl_backward("customs::old")(lambda ctx, saved, grad: grads)
    with pytest.raises(RuntimeError, match=message):
        old_op([torch.ones(1, requires_grad=True), torch.ones(1)], 2).backward()


def test_what_the_older_way_refuses():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name, schema, message in [
            ("customs::a.b", "() -> ()", "do not handle overloads"),
            ("aten::a", "(Tensor x) -> Tensor", "'aten' is a reserved namespace"),
            ("customs::a", "(Tensor(a!) x) -> Tensor", "only supports functional operators"),
            ("customs::a", "(Tensor self) -> Tensor", "does not support arguments named 'self'"),
        ]:
            with pytest.raises(ValueError, match=message):
                custom_ops.custom_op(name, schema)


# traces --------------------------------------------------------------------------------------------------------------


def test_functions_compiled_ahead_of_time_keep_values_gradients_and_writes():
    from mindtorch_v2._functorch.aot_autograd import aot_function

    graphs = []

    def keep(graph, inputs):
        graphs.append(graph.code)
        return graph

    def program(x, y):
        y.add_(1)
        return (x * y).view(-1).sin(), {"y": y * 2}

    x, y = torch.rand(2, 2, requires_grad=True), torch.zeros(2, 2)
    made, more = aot_function(program, keep)(x, y)
    assert y.tolist() == [[1.0, 1.0], [1.0, 1.0]] and more["y"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    torch.testing.assert_close(made, x.view(-1).sin())
    made.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    assert len(graphs) == 2 and not any("add_" in code for code in graphs)


# libraries and overloads ---------------------------------------------------------------------------------------------


def test_a_namespace_is_defined_as_a_whole_once():
    first = Library("customs_once", "DEF")
    with pytest.raises(RuntimeError, match=r"Only a single TORCH_LIBRARY can be used .* registered at .*\.py:\d+"):
        Library("customs_once", "DEF")
    first._destroy()
    Library("customs_once", "DEF")._destroy()
    for kind in ("DEF", "FRAGMENT"):
        with pytest.raises(ValueError, match="prim is a reserved namespace"):
            Library("prim", kind)


def test_a_library_for_one_key_takes_kernels_of_that_key_only():
    with (_scoped_library("aten", "IMPL", "CPU") as made,
          pytest.raises(RuntimeError, match=r"dispatch key \(Meta\) is inconsistent with .* block \(CPU\)")):
        made.impl("digamma", lambda x: x, "Meta")


def test_operators_without_results(lib):
    lib.define("noted() -> None")
    seen = []
    lib.impl("noted", lambda: seen.append(1), "")
    assert torch.ops.customs.noted() is None and seen == [1]


def test_in_place_operators_without_autograd_pass(lib):
    lib.define("write(Tensor(a!) x, Tensor y) -> ()")
    lib.impl("write", lambda x, y: x.copy_(y.detach()) and None, "CPU")
    x = torch.zeros(1)
    assert torch.ops.customs.write(x, torch.ones(1, requires_grad=True)) is None
    assert x.tolist() == [1.0] and not x.requires_grad


def test_overloads_take_out_where_they_write_it():
    import copy

    add, out = torch.ops.aten.add, torch.zeros(1)
    assert copy.deepcopy(add) is add
    add.out(torch.ones(1), torch.ones(1), out=out)
    assert out.tolist() == [2.0]
    with pytest.raises(RuntimeError):
        add.Tensor(torch.ones(1), torch.ones(1), out=out)


def test_keys_of_this_thread_come_back():
    include, exclude = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet("CPU")):
        assert torch._C._dispatch_tls_local_exclude_set().raw_repr() != exclude.raw_repr()
    assert torch._C._dispatch_tls_local_include_set().raw_repr() == include.raw_repr()
    assert torch._C._dispatch_tls_local_exclude_set().raw_repr() == exclude.raw_repr()


def test_sets_of_keys_are_asked_and_changed_by_pytorchs_names() -> None:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    assert keys.has(torch._C.DispatchKey.CPU) and not keys.has(torch._C.DispatchKey.Meta)
    both = keys.add(torch._C.DispatchKey.Meta)
    assert both.has(torch._C.DispatchKey.Meta) and not keys.has(torch._C.DispatchKey.Meta)
    assert both.remove(torch._C.DispatchKey.Meta) == keys
    assert not torch._C._dispatch_tls_local_exclude_set().has(torch._C.DispatchKey.Python)
    with torch.utils._mode_utils.no_dispatch():
        assert torch._C._dispatch_tls_local_exclude_set().has(torch._C.DispatchKey.Python)
