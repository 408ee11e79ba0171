"""Schemas: how they are read, and how the arguments of a call are bound to them."""

import itertools
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.overloads import lines_to_others
from mindtorch_v2._dispatch.schema import MISSING, Schema
from mindtorch_v2._ops._declare.op import PUBLIC


def bound(schema: str, *args: Any, **kwargs: Any) -> list[Any]:
    return Schema(schema).bind(args, kwargs)


# reading -------------------------------------------------------------------------------------------------------------


def test_names_overload_and_namespace() -> None:
    schema = Schema("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
    assert (schema.namespace, schema.base_name, schema.overload, schema.name) == ("aten", "max", "dim", "max.dim")
    assert schema.names == ("self", "dim", "keepdim")
    assert [r.name for r in schema.returns] == ["values", "indices"]
    assert str(schema) == "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
    assert Schema("mine::scale(Tensor x) -> Tensor").namespace == "mine"


def test_types_optional_lists_and_sizes() -> None:
    schema = Schema("f(Tensor? a, int[] b, int[2] c, Tensor[] d, int[1]? e=None, Tensor?[] g=[]) -> Tensor[]")
    a, b, c, d, e, g = schema.arguments
    assert (a.type, a.optional, a.is_list) == ("Tensor", True, False)
    assert (b.type, b.is_list, b.size) == ("int", True, None)
    assert (c.size, d.is_tensor, d.is_list) == (2, True, True)
    assert (e.size, e.optional, e.default) == (1, True, None)
    assert (g.optional, g.is_list, g.default) == (False, True, ())
    assert schema.returns[0].is_list


def test_defaults_are_python_values() -> None:
    schema = Schema("f(Tensor self, float p=1, str mode='none', bool flag=True, int[] d=[0, 1], Scalar? s=None,"
                    " float big=inf, *, MemoryFormat memory_format=contiguous_format) -> Tensor")  # fmt: skip
    values = schema.bind((torch.zeros(1),), {})[1:]
    assert values == [1.0, "none", True, (0, 1), None, float("inf"), torch.contiguous_format]
    assert type(values[0]) is float


def test_aliases_and_writes() -> None:
    schema = Schema("add_(Tensor(a!) self, Tensor(b) other) -> Tensor(a!)")
    assert [a.writes for a in schema.arguments] == [True, False]
    assert schema.returns[0].alias == "a!"


@pytest.mark.parametrize("text", [
    "no arrow(Tensor self)", "f(Tensor self -> Tensor", "f(Tensor) -> Tensor", "f(Matrix self) -> Tensor",
    "f(Tensor a, Tensor a) -> Tensor", "f(int a=1, int b) -> Tensor", "",
])  # fmt: skip
def test_a_text_that_is_no_schema_raises(text: str) -> None:
    with pytest.raises(ValueError):
        Schema(text)


# binding -------------------------------------------------------------------------------------------------------------


def test_positions_keywords_and_defaults() -> None:
    schema = "f(Tensor self, int dim, bool keepdim=False, *, float p=2.0) -> Tensor"
    x = torch.zeros(2)
    assert bound(schema, x, 1) == [x, 1, False, 2.0]
    assert bound(schema, x, 1, True, p=3) == [x, 1, True, 3.0]
    assert bound(schema, self=x, keepdim=True, dim=-1) == [x, -1, True, 2.0]


def test_numpy_and_pytorch_spellings_of_keywords() -> None:
    x = torch.zeros(2)
    assert bound("f(Tensor self, int dim, bool keepdim=False) -> Tensor", input=x, axis=0, keepdims=True) == [
        x,
        0,
        True,
    ]


def test_keyword_only_arguments_take_no_position() -> None:
    with pytest.raises(TypeError, match="positional"):
        bound("f(Tensor self, *, int dim=0) -> Tensor", torch.zeros(1), 1)


def test_a_list_takes_one_number_where_the_schema_gives_its_size() -> None:
    schema = "f(Tensor self, int[2] size) -> Tensor"
    assert bound(schema, torch.zeros(1), 3)[1] == (3, 3)
    assert bound(schema, torch.zeros(1), [3, 4])[1] == (3, 4)
    assert bound("f(Tensor self, int[1]? dim=None) -> Tensor", torch.zeros(1), 0)[1] == (0,)
    with pytest.raises(TypeError):
        bound("f(Tensor self, *, int[] size) -> Tensor", torch.zeros(1), size=3)


def test_bare_integers_where_a_list_comes_first() -> None:
    schema, x = "view(Tensor self, int[] size) -> Tensor", torch.zeros(6)
    assert Schema(schema).bind((x, 2, 3), {}, is_method=True)[1] == (2, 3)
    assert bound("zeros(int[] size) -> Tensor", 2, 3)[0] == (2, 3)
    assert bound(schema, x, (2, 3))[1] == (2, 3)
    assert bound(schema, x, size=(2, 3))[1] == (2, 3)
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        bound(schema, x, 2, 3)  # a function wants the tuple


def test_booleans_and_numbers_are_not_mixed_up() -> None:
    flag, whole = "f(bool b) -> Tensor", "f(int i) -> Tensor"
    for wrong in (1, 0.0, "x", np.bool_(True), torch.tensor(True), []):
        with pytest.raises(TypeError, match="must be bool"):
            bound(flag, wrong)
    for wrong in (True, 1.0, np.ones(1, int), torch.tensor([1]), torch.tensor(True), torch.tensor(1.0)):
        with pytest.raises(TypeError, match="must be int"):
            bound(whole, wrong)
    assert bound(whole, torch.tensor(3)) == [3]
    assert bound("f(int[] size) -> Tensor", [2, True]) == [(2, 1)]  # only the first of a list must be no boolean
    with pytest.raises(TypeError, match="found element of type bool at pos 0"):
        bound("f(int[] size) -> Tensor", [True, 2])
    for wrong in (torch.tensor(1.0, requires_grad=True), torch.tensor([1.0]), np.ones(()), "1"):
        with pytest.raises(TypeError, match="must be Number"):
            bound("f(Scalar s) -> Tensor", wrong)


def test_integers_that_64_bits_do_not_hold() -> None:
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        bound("f(int i) -> Tensor", 2**63)
    with pytest.raises(TypeError, match="failed to unpack the object at pos 2 with error"):
        bound("f(int[] size) -> Tensor", (1, -(2**63) - 1))
    with pytest.raises(OverflowError, match="int too big to convert"):
        bound("f(Scalar s) -> Tensor", 2**64)
    assert bound("f(Scalar s) -> Tensor", 2**63) == [2**63]


def test_values_are_converted() -> None:
    schema = "f(Tensor self, int i, float f, bool b, Scalar s, ScalarType dtype, Device device) -> Tensor"
    values = bound(schema, torch.zeros(1), np.int64(3), 2, False, np.float32(0.5), float, "meta")
    assert values[1:] == [3, 2.0, False, 0.5, torch.float64, torch.device("meta")]
    assert [type(v) for v in values[1:5]] == [int, float, bool, float]


def test_none_only_where_optional() -> None:
    assert bound("f(Tensor? x=None) -> Tensor", None) == [None]
    with pytest.raises(TypeError, match="must be Tensor, not NoneType"):
        bound("f(Tensor x) -> Tensor", None)


def test_tensor_or_number() -> None:
    x = torch.zeros(1)
    assert bound("f(Tensor self, Tensor|Scalar other) -> Tensor", x, 2.5) == [x, 2.5]
    assert bound("f(Tensor self, Tensor|Scalar other) -> Tensor", x, x) == [x, x]
    with pytest.raises(TypeError):
        bound("f(Tensor self, Tensor|Scalar other) -> Tensor", x, "2.5")


@pytest.mark.parametrize(("args", "kwargs", "part"), [
    ((), {}, 'missing 2 required positional arguments: "input", "dim"'),
    ((1,), {}, 'missing 1 required positional arguments: "dim"'),
    ((1, 0), {}, "argument 'input' (position 1) must be Tensor, not int"),
    ((torch.zeros(1),), {}, 'missing 1 required positional arguments: "dim"'),
    ((torch.zeros(1), 1.5), {}, "argument 'dim' (position 2) must be int, not float"),
    ((torch.zeros(1), 0, 1, 2), {}, "positional arguments"),
    ((torch.zeros(1), 0), {"dim": 0}, "multiple values for argument 'dim'"),
    ((torch.zeros(1), 0), {"size": 0}, "unexpected keyword argument 'size'"),
])  # fmt: skip
def test_a_wrong_call_names_the_argument_and_the_schema(args: tuple, kwargs: dict, part: str) -> None:
    text = "f(Tensor self, int dim, bool keepdim=False) -> Tensor"
    with pytest.raises(TypeError) as caught:
        Schema(text).bind(args, kwargs)
    assert part in str(caught.value)
    assert f"aten::{text}" in str(caught.value)


# public functions ----------------------------------------------------------------------------------------------------


def test_public_function_binds_in_every_spelling() -> None:
    x = torch.ones(2, 3)
    for total in (torch.sum(x, 1, True), torch.sum(input=x, dim=1, keepdim=True), x.sum(1, keepdim=True),
                  x.sum(axis=1, keepdims=True), x.sum((1,), True), x.sum(dim=[1], keepdim=True)):  # fmt: skip
        assert total.tolist() == [[3.0], [3.0]]


@pytest.mark.parametrize("call", [
    lambda: torch.mul(torch.ones(1)), lambda: torch.mul(torch.ones(1), "2"), lambda: torch.mul(torch.ones(1), 2, 3),
    lambda: torch.mul(torch.ones(1), other=2, factor=1), lambda: torch.mul([1.0], 2), lambda: torch.ones(1).mul(),
])  # fmt: skip
def test_a_wrong_call_of_a_function_raises_type_error_with_the_schema(call: Any) -> None:
    with pytest.raises(TypeError, match=r"mul.*Tensor.* self"):
        call()


def test_a_wrong_call_of_an_overloaded_function_lists_all_overloads() -> None:
    with pytest.raises(TypeError) as caught:
        torch.max(torch.ones(2), "no dimension")
    text = str(caught.value)
    assert text.startswith(
        "max() received an invalid combination of arguments - got (Tensor, str), but expected one of:"
    )
    assert text.count("max") >= 4


def test_overloads_are_chosen_by_the_arguments() -> None:
    x = torch.tensor([[1.0, 5.0], [7.0, 2.0]])
    assert torch.max(x).item() == 7.0
    assert torch.max(x, 1).indices.tolist() == [1, 0]
    assert torch.max(x, dim=0, keepdim=True).values.tolist() == [[7.0, 5.0]]
    assert torch.max(x, torch.tensor(3.0)).tolist() == [[3.0, 5.0], [7.0, 3.0]]


def _told_overload(operators: Any, is_method: bool) -> Any:
    """The function of arguments that says which of the operators is called by lines of the first one's; or None."""
    first, rest = operators[0], operators[1:]
    own = first.schema.positional
    taken = [a.name for a in own] + ["extra", *(a.name for a in first.schema.arguments if a.keyword_only), "unexpected"]
    lines = lines_to_others(first, rest, (), False, is_method)
    scope: dict[str, Any] = {f"__default_{a.name}__": a.default for a in first.schema.arguments}
    scope |= {"MISSING": MISSING, "__leave__": None}
    scope["__overloads__"] = [
        lambda *given, n=n, o=o: n if o.schema.match(given, {}, is_method=is_method) is not None else None
        for n, o in enumerate(rest, 1)
    ]
    body = "".join(f"    {line}\n" for line in [*lines, "return None"])
    exec(f"def chosen({', '.join(taken)}):\n{body}", scope)
    defaults = {a.name: a.default for a in first.schema.arguments}

    def told(*args: Any) -> int | None:
        given = {a.name: value for a, value in zip(own, args, strict=False)}
        return scope["chosen"](**defaults | given, extra=args[len(own) :], unexpected={})

    return told


@pytest.mark.parametrize("place", ["torch", "Tensor"])
def test_one_argument_tells_the_overload_that_binding_finds(place: str) -> None:
    x = torch.ones(2, 2)
    pool = (x, 0, 0.5, True, (0,), [0, 1], (0.5,), (x, x), "x", None)
    told = 0
    for name, operators in PUBLIC[place].items():
        is_method = place == "Tensor"
        if len(operators) == 1 or operators[0].schema.gathers(is_method):
            continue
        told_by_lines = _told_overload(operators, is_method)
        for more in itertools.chain([()], *(itertools.product(pool, repeat=n) for n in (1, 2, 3))):
            number = told_by_lines(x, *more)
            if number is not None:
                fitting = (o.schema.match((x, *more), {}, is_method=is_method) is not None for o in operators)
                assert next(i for i, fits in enumerate(fitting) if fits) == number, (name, more)
                told += 1
    assert told > 30


def test_a_number_too_large_is_refused_alike_before_and_after_there_are_plans() -> None:
    x = torch.ones(3)
    for _ in range(12):
        assert x.sum(0) == 3
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            x.sum(2**63)


def test_several_outputs_are_a_named_tuple() -> None:
    values, indices = result = torch.tensor([3.0, 1.0, 2.0]).sort()
    assert result.values is values and result[1] is indices
    assert type(result).__name__ == "sort"
    assert repr(result).startswith("torch.return_types.sort(\nvalues=tensor(")
