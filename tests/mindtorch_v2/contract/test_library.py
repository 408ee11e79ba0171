"""Operators of users: torch.library's Library, custom_op and registrations."""

import itertools
import typing
from collections.abc import Iterator

import pytest

import mindtorch_v2 as torch

_names = itertools.count()


@pytest.fixture
def lib() -> Iterator[torch.library.Library]:
    """A namespace that exists during one test."""
    made = torch.library.Library(f"contract{next(_names)}", "DEF")
    yield made
    made._destroy()


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


def operator(lib: torch.library.Library, name: str) -> object:
    return getattr(getattr(torch.ops, lib.ns), name)


# Library -------------------------------------------------------------------------------------------------------------


def test_define_and_impl(lib: torch.library.Library) -> None:
    assert lib.define("scaled(Tensor x, float by=2.0) -> Tensor") in (f"{lib.ns}::scaled", "scaled")
    lib.impl("scaled", lambda x, by=2.0: x * by, "CPU")
    scaled = operator(lib, "scaled")
    assert scaled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert scaled(torch.ones(2), by=3.0).tolist() == [3.0, 3.0]
    assert scaled.default(torch.ones(1), 4.0).tolist() == [4.0]


def test_no_kernel_for_a_device(lib: torch.library.Library) -> None:
    lib.define("only_cpu(Tensor x) -> Tensor")
    lib.impl("only_cpu", lambda x: x * 1, "CPU")
    with pytest.raises(NotImplementedError):
        operator(lib, "only_cpu")(torch.ones(1, device="meta"))
    lib.impl("only_cpu", lambda x: x * 1, "Meta")
    assert operator(lib, "only_cpu")(torch.ones(3, device="meta")).shape == (3,)


def test_overloads(lib: torch.library.Library) -> None:
    lib.define("pick(Tensor x) -> Tensor")
    lib.define("pick.number(Tensor x, int n) -> Tensor")
    lib.impl("pick", lambda x: x + 1, "CPU")
    lib.impl("pick.number", lambda x, n: x + n, "CPU")
    pick = operator(lib, "pick")
    assert pick(torch.zeros(1)).tolist() == [1.0]
    assert pick(torch.zeros(1), 5).tolist() == [5.0]
    assert pick.number(torch.zeros(1), 7).tolist() == [7.0]


def test_a_composite_is_recorded_through(lib: torch.library.Library) -> None:
    lib.define("squared(Tensor x) -> Tensor")
    lib.impl("squared", lambda x: x * x, "CompositeImplicitAutograd")
    x = leaf(3.0)
    operator(lib, "squared")(x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_declaring_twice_raises(lib: torch.library.Library) -> None:
    lib.define("once(Tensor x) -> Tensor")
    with pytest.raises((RuntimeError, ValueError)):
        lib.define("once(Tensor x) -> Tensor")


def test_unknown_operators_are_no_attributes(lib: torch.library.Library) -> None:
    with pytest.raises(AttributeError):
        operator(lib, "nothing")


def test_functions_of_the_module(lib: torch.library.Library) -> None:
    name = f"{lib.ns}::shifted"
    torch.library.define(name, "(Tensor x, int by) -> Tensor", lib=lib)

    @torch.library.impl(name, "cpu", lib=lib)
    def shifted(x: torch.Tensor, by: int) -> torch.Tensor:
        return x + by

    @torch.library.register_fake(name, lib=lib)
    def shifted_meta(x: torch.Tensor, by: int) -> torch.Tensor:
        return torch.empty_like(x)

    assert operator(lib, "shifted")(torch.ones(1), 2).tolist() == [3.0]
    assert operator(lib, "shifted")(torch.ones(4, device="meta"), 2).shape == (4,)


def test_register_autograd_for_a_library_operator(lib: torch.library.Library) -> None:
    lib.define("cubed(Tensor x) -> Tensor")
    lib.impl("cubed", lambda x: x**3, "CPU")

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    torch.library.register_autograd(f"{lib.ns}::cubed", lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
                                    setup_context=setup, lib=lib)  # fmt: skip
    x = leaf(2.0)
    (first,) = torch.autograd.grad(operator(lib, "cubed")(x).sum(), x, create_graph=True)
    assert first.tolist() == [12.0]
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [12.0]


def test_a_kernel_for_an_existing_operator_replaces_it() -> None:
    before = torch.ones(2).erfinv().tolist()
    made = torch.library.Library("aten", "IMPL")
    try:
        made.impl("erfinv", lambda x: x * 100, "CPU")
        assert torch.ones(2).erfinv().tolist() == [100.0, 100.0]
    finally:
        made._destroy()
    assert torch.ones(2).erfinv().tolist() == before


# custom_op -----------------------------------------------------------------------------------------------------------


def unique(name: str) -> str:
    return f"contract_ops::{name}{next(_names)}"


def test_custom_op_from_annotations() -> None:
    @torch.library.custom_op(unique("weighted"), mutates_args=())
    def weighted(x: torch.Tensor, weights: list[float], scale: float = 1.0, *, shift: int = 0) -> torch.Tensor:
        return x * sum(weights) * scale + shift

    assert weighted(torch.ones(2), [1.0, 2.0]).tolist() == [3.0, 3.0]
    assert weighted(torch.ones(1), [1.0], 5.0, shift=1).tolist() == [6.0]


def test_custom_op_with_a_fake_and_a_derivative() -> None:
    name = unique("sine")

    @torch.library.custom_op(name, mutates_args=())
    def sine(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)

    @sine.register_fake
    def _(x):
        return torch.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos()

    sine.register_autograd(backward, setup_context=setup)
    x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(sine, (x,))
    assert torch.autograd.gradgradcheck(sine, (x,))
    assert sine(torch.ones(3, device="meta")).shape == (3,)
    namespace, _, short = name.partition("::")
    assert getattr(getattr(torch.ops, namespace), short)(torch.zeros(1)).tolist() == [0.0]


def test_custom_op_without_a_derivative_says_so_at_backward() -> None:
    @torch.library.custom_op(unique("plain"), mutates_args=())
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    y = plain(leaf(1.0))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_custom_op_that_writes_an_argument() -> None:
    @torch.library.custom_op(unique("fill"), mutates_args={"x"})
    def fill(x: torch.Tensor, value: float) -> None:
        x.fill_(value)

    x = torch.zeros(2)
    version = x._version
    assert fill(x, 3.0) is None
    assert x.tolist() == [3.0, 3.0]
    assert x._version > version


def test_custom_op_with_several_results() -> None:
    @torch.library.custom_op(unique("both"), mutates_args=())
    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x + 2

    one, other = both(torch.zeros(1))
    assert (one.tolist(), other.tolist()) == ([1.0], [2.0])


def test_custom_op_must_not_return_its_input() -> None:
    @torch.library.custom_op(unique("same"), mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not also be an input"):
        same(torch.ones(1))


def test_custom_op_for_one_device() -> None:
    @torch.library.custom_op(unique("device"), mutates_args=(), device_types="cpu")
    def on_cpu(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert on_cpu(torch.ones(1)).tolist() == [2.0]
    with pytest.raises(RuntimeError):
        on_cpu(torch.ones(1, device="meta"))


def test_infer_schema() -> None:
    def function(
        x: torch.Tensor, dims: list[int], name: str = "a", flag: bool = True, y: torch.Tensor | None = None
    ) -> torch.Tensor:
        return x

    assert torch.library.infer_schema(function, mutates_args=()) == (
        '(Tensor x, SymInt[] dims, str name="a", bool flag=True, Tensor? y=None) -> Tensor')  # fmt: skip

    def untyped(x) -> torch.Tensor:
        return x

    with pytest.raises(ValueError, match="must have a type annotation"):
        torch.library.infer_schema(untyped, mutates_args=())


def _annotated(parameters, returns="Tensor", **defaults):
    """A function with these annotations, as a user would write it."""
    scope = {"Tensor": torch.Tensor, "torch": torch, "Number": torch.types.Number, "typing": typing, **defaults}
    exec(f"def f({parameters}){'' if returns is None else ' -> ' + returns}: ...", scope)
    return scope["f"]


@pytest.mark.parametrize(
    ("parameters", "returns", "written", "schema"),
    [
        ("x: Tensor, a: Number", "Tensor", (), "(Tensor x, Scalar a) -> Tensor"),
        ("x: Tensor, a: typing.Optional[Number] = None", "Tensor", (), "(Tensor x, Scalar? a=None) -> Tensor"),
        ("x: Tensor, a: typing.Sequence[Number]", "Tensor", (), "(Tensor x, Scalar[] a) -> Tensor"),
        ("x: Tensor | None, y: list[Tensor], *, n: int | None = None", "tuple[Tensor, int]", ("x", "y"),
         "(Tensor(a0!)? x, Tensor(a1!)[] y, *, SymInt? n=None) -> (Tensor, SymInt)"),
        ("x: Tensor, d: torch.dtype = torch.float32, e: torch.device = torch.device('cpu')", "None", "unknown",
         '(Tensor(a0!) x, ScalarType d=float32, Device e="cpu") -> ()'),
        ("x: typing.List[typing.Optional[Tensor]], n: typing.Optional[typing.List[float]]", "list[Tensor]", (),
         "(Tensor?[] x, float[]? n) -> Tensor[]"),
    ],
)  # fmt: skip
def test_schemas_of_annotations(parameters, returns, written, schema):
    assert torch.library.infer_schema(_annotated(parameters, returns), mutates_args=written) == schema


@pytest.mark.parametrize(
    ("parameters", "returns", "written", "message"),
    [
        ("x: Tensor, a: complex", "Tensor", (), "Parameter a has unsupported type"),
        ("x: Tensor, a: int | float", "Tensor", (), "Parameter a has unsupported type"),
        ("x: tuple[Tensor, Tensor]", "Tensor", (), r"please try to use List instead. For example, list\[Tensor\]"),
        ("x: Tensor, a: typing.Sequence[int] = (1,)", "Tensor", (), "unsupported default value type <class 'tuple'>"),
        ("x: Tensor", None, (), "No return type annotation was provided"),
        ("x: Tensor", "dict", (), "Return has unsupported type"),
        ("*x: Tensor", "Tensor", (), "We do not support positional-only args, varargs, or varkwargs"),
        ("x", "Tensor", (), "Parameter x must have a type annotation"),
        ("x: 'Unknown'", "Tensor", (), "name 'Unknown' is not defined"),
        ("x: Tensor, n: int", "Tensor", ("n",), "only Tensors or collections of Tensors can be mutated"),
        ("x: Tensor", "Tensor", ("y",), "{'y'} in mutates_args were not found"),
        ("x: Tensor", "Tensor", "x", "mutates_args must either be a sequence of the names"),
    ],
)
def test_annotations_that_have_no_schema(parameters, returns, written, message):
    with pytest.raises(ValueError, match=message):
        torch.library.infer_schema(_annotated(parameters, returns), mutates_args=written)


def test_a_custom_operator_with_numbers():
    @torch.library.custom_op("numbers::scale", mutates_args=("x",))
    def scale(x: torch.Tensor, by: torch.types.Number, dtype: torch.dtype = torch.float32) -> None:
        x.mul_(torch.tensor(by, dtype=dtype))

    tensor = torch.ones(2)
    scale(tensor, 2)
    scale(tensor, 1.5)
    assert tensor.tolist() == [3.0, 3.0]


def test_a_custom_operator_that_writes_lists_and_absent_arguments():
    @torch.library.custom_op("numbers::fill", mutates_args="unknown")
    def fill(tensors: typing.List[torch.Tensor], extra: torch.Tensor | None = None) -> None:  # noqa: UP006
        for tensor in tensors:
            tensor.fill_(7)

    tensors = [torch.zeros(2), torch.zeros(1)]
    before = [t._version for t in tensors]
    fill(tensors)
    assert [t.tolist() for t in tensors] == [[7.0, 7.0], [7.0]]
    assert all(t._version > version for t, version in zip(tensors, before, strict=True))


def test_backward_through_an_operator_without_an_autograd_kernel() -> None:
    with torch.library._scoped_library("_fallback", "FRAGMENT") as library:
        library.define("foo(Tensor x) -> Tensor", tags=(torch.Tag.pointwise,))
        library.impl("foo", lambda x: x.detach() + 1, "CPU")
        library.define("recorded(Tensor x) -> Tensor")
        library.impl("recorded", lambda x: x * 2, "CPU")
        foo = torch.ops._fallback.foo.default
        assert foo.tags == [torch.Tag.pointwise] and foo._name == "_fallback::foo"
        x = torch.ones(2, requires_grad=True)
        assert torch._C._get_autograd_fallback_mode() == "warn"
        with pytest.warns(UserWarning, match="_fallback::foo: an autograd kernel was not registered"):
            foo(x).sum().backward()
        assert x.grad is None
        with pytest.warns(UserWarning, match="an autograd kernel was not registered"):
            torch.ops._fallback.recorded(x).sum().backward()
        assert x.grad.tolist() == [2, 2]
        torch._C._set_autograd_fallback_mode("nothing")
        try:
            assert not foo(x).requires_grad
        finally:
            torch._C._set_autograd_fallback_mode("warn")


def test_schemas_are_checked_where_they_are_defined() -> None:
    with torch.library._scoped_library("_checked", "FRAGMENT") as library:
        library.define("foo(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError, match="with the same name and overload name multiple times"):
            library.define("foo(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError, match="only the operator name was given"):
            library.define("bar")
        with pytest.raises(RuntimeError, match="unknown type specifier"):
            library.define("bar(Matrix x) -> Tensor")
    assert torch.Tag.pt2_compliant_tag in torch.ops.aten.sin.default.tags


def test_parse_schema() -> None:
    text = 'ns::f.out(Tensor self, int[2] size=[1, 2], *, str? mode="a", float p=1., Tensor(a!) out) -> Tensor(a!)'
    schema = torch._C.parse_schema(text)
    assert str(schema) == text and (schema.name, schema.overload_name) == ("ns::f", "out") and schema.is_mutable
    size, mode, out = schema.arguments[1], schema.arguments[2], schema.arguments[4]
    assert size.N == 2 and size.default_value == [1, 2] and size.type.str() == "int[]" and str(size.type) == "List[int]"
    assert mode.kwarg_only and mode.default_value == "a" and out.is_out and out.alias_info.is_write
    for bad, message in (("f(Tensor x", "expected . but found 'eof' here"), ("f(Tensor x) Tensor", "expected arrow"),
                         ("f(int a=0, ...)", "can't have default value args")):
        with pytest.raises(RuntimeError, match=message):
            torch._C.parse_schema(bad)


def test_arguments_with_memory_of_their_own_are_written() -> None:
    schema = torch._C.parse_schema("f(Tensor A, Tensor! out, Tensor[]! many, Tensor!? more=None) -> Tensor!")
    shown = "f(Tensor A, Tensor($0! -> ) out, Tensor[]($1! -> ) many, Tensor($2! -> )? more=None) -> Tensor($3! -> )"
    assert str(schema) == shown
    assert [a.is_write for a in schema.arguments] == [False, True, True, True]
    with pytest.raises(RuntimeError, match="expected ident but found '!' here"):
        torch._C.parse_schema("f(Tensor?! a) -> ()")
    with torch.library._scoped_library("unnamed", "DEF") as library:
        library.define("copy(Tensor A, Tensor! out) -> ()")
        library.impl("copy", lambda A, out: [out.copy_(A)].clear(), "CPU")
        out = torch.zeros(2)
        torch.ops.unnamed.copy(torch.ones(2), out=out)
        assert out.tolist() == [1, 1] and out._version == 1


def test_kernels_may_come_before_their_schema() -> None:
    with torch.library._scoped_library("early", "FRAGMENT") as library:
        library.impl("double", lambda x: x * 2, "CPU")
        torch.library.impl("early::next", ["CPU"], lib=library)(lambda x: x + 1)
        with pytest.raises(AttributeError, match="double"):
            torch.ops.early.double(torch.ones(2))
        library.define("double(Tensor x) -> Tensor")
        library.define("next(Tensor x) -> Tensor")
        assert torch.ops.early.double(torch.ones(2)).tolist() == [2, 2]
        assert torch.ops.early.next(torch.ones(2)).tolist() == [2, 2]


def test_out_dtype_computes_in_a_wider_type() -> None:
    from mindtorch_v2._higher_order_ops.out_dtype import out_dtype

    a = torch.full((2, 3), 100, dtype=torch.int8)
    made = out_dtype(torch.ops.aten.mm.default, torch.int32, a, a.t())
    assert made.dtype is torch.int32 and made.tolist() == [[30000, 30000]] * 2
    with pytest.raises(ValueError, match="out_dtype only allows the following operators"):
        out_dtype(torch.ops.aten.sum.default, torch.int32, a)
    with pytest.raises(ValueError, match="must be an OpOverload"):
        out_dtype(torch.mm, torch.int32, a, a)


def test_settings_of_torchscript_are_kept() -> None:
    assert torch._C._jit_set_profiling_executor(True) is False
    assert torch._C._jit_set_profiling_executor(False) is True


def test_what_the_library_was_built_with() -> None:
    assert torch._C.has_lapack and torch._C.has_spectral and not torch._C._has_xpu
    assert torch._C._has_cuda is torch.backends.cuda.is_built()
    assert torch._C._has_mkldnn is torch.backends.mkldnn.is_available()


def test_schemas_that_take_anothers_place() -> None:
    parse = torch._C.parse_schema
    old = parse("f(Tensor self, *, int a) -> Tensor")
    for text, backward, forward in (("f(Tensor self, *, int a, int b=1) -> Tensor", True, True),
                                    ("f(Tensor self, *, int? a) -> Tensor", True, False),
                                    ("f(Tensor self, *, int b) -> Tensor", False, False),
                                    ("f(Tensor self, *, int a, int[] b=[]) -> Tensor", True, False),
                                    ("g(Tensor self, *, int a) -> Tensor", False, False)):
        new = parse(text)
        assert new.is_backward_compatible_with(old) is backward, text
        assert new.check_forward_compatible_with(old)[0] is forward, text
