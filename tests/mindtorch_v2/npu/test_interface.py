"""What the binding says of CANN's C interface, against the table and the prototypes, and the rows built on it."""

import ctypes

import pytest
from simulator.build import C_TYPES, Prototype, operator_kinds, runtime_prototypes

from mindtorch_v2._backends.npu import aclnn_rows, facts
from mindtorch_v2._backends.npu.hccl import PROTOTYPES as HCCL
from mindtorch_v2._backends.npu.profiling import CREATE_CONFIG
from mindtorch_v2._backends.npu.profiling import PROTOTYPES as PROFILER
from mindtorch_v2._backends.npu.runtime import CHECKED, OPTIONAL, OTHERS
from mindtorch_v2._dispatch.schema import Schema

SIZES = {
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "int8_t": ctypes.c_int8,
}


# what returns something else
NO_CODE = {**OTHERS, "HcclGetErrorString": (ctypes.c_char_p, (ctypes.c_int32,)), "aclprofCreateConfig": CREATE_CONFIG}


def agrees(declared: str, given: object) -> bool:
    """Whether a ctypes type may stand for a C type: numbers exactly, pointers as one to the same or to anything."""
    declared = declared.removeprefix("const ")
    if not declared.endswith("*"):
        return SIZES[declared] is given
    if given is ctypes.c_char_p:
        return declared == "char*"
    if given is ctypes.c_void_p:
        return True
    target = declared[:-1].removesuffix("const").strip().removeprefix("const ")
    return agrees(target, given._type_)  # type: ignore[attr-defined]


@pytest.mark.parametrize("prototype", runtime_prototypes(), ids=lambda p: p.name)
def test_the_binding_states_the_prototype(prototype: Prototype) -> None:
    if prototype.name not in NO_CODE:
        result, given = ctypes.c_int32, (CHECKED | OPTIONAL | HCCL | PROFILER)[prototype.name]
    else:
        result, given = NO_CODE[prototype.name]
    assert agrees(prototype.result, result)
    assert len(given) == len(prototype.types)
    assert all(map(agrees, prototype.types, given))


def test_every_bound_function_has_a_prototype() -> None:
    assert {*CHECKED, *OPTIONAL, *HCCL, *PROFILER, *NO_CODE} == {p.name for p in runtime_prototypes()}


def test_every_operator_of_the_table_can_be_bound() -> None:
    for symbol, parameters in operator_kinds().items():
        bound = facts.signature(symbol)
        assert [p.name for p in bound] == [name for name, _ in parameters]
        for (_, kind), parameter in zip(parameters, bound, strict=True):
            assert agrees(C_TYPES.get(kind.rstrip("?"), "void*"), parameter.ctype), (symbol, kind)
    assert len(facts.symbols()) == 492


def test_hccl_takes_no_type_that_ctypes_would_guess() -> None:
    assert all(isinstance(kind, type) for parameters in HCCL.values() for kind in parameters)


# rows ----------------------------------------------------------------------------------------------------------------


def test_a_row_says_where_each_parameter_comes_from() -> None:
    row = aclnn_rows.parse_row("aclnnGeluV2(self, approximate{none,tanh}, out)")
    values = {"self": "S", "approximate": "tanh", "out": "O"}
    assert [slot.value(values) for slot in row.slots] == ["S", 1, "O"]


@pytest.mark.parametrize(
    "text, values, expected",
    [
        ("aclnnMm(self, mat2, out, cubeMathType=0)", {"self": 1, "mat2": 2, "out": 3}, [1, 2, 3, 0]),
        ("aclnnMm(self, mat2, out, 1)", {"self": 1, "mat2": 2, "out": 3}, [1, 2, 3, 1]),
        (
            "aclnnAmax(self, dim|[], keepdim, out)",
            {"self": 1, "dim": None, "keepdim": True, "out": 3},
            [1, (), True, 3],
        ),
        ("aclnnLogit(self, eps|-1, out)", {"self": 1, "eps": None, "out": 3}, [1, -1, 3]),
        (
            "aclnnDivMod(self, other, rounding_mode{None,trunc,floor}, out)",
            {"self": 1, "other": 2, "rounding_mode": None, "out": 3},
            [1, 2, 0, 3],
        ),
        (
            "aclnnBinaryCrossEntropy(self, target, None, reduction{none,mean,sum}, out)",
            {"self": 1, "target": 2, "reduction": "sum", "out": 3},
            [1, 2, None, 2, 3],
        ),
        ("aclnnGeluBackwardV2(grad, self, 'tanh', out)", {"grad": 0, "self": 1, "out": 3}, [0, 1, "tanh", 3]),
    ],
)
def test_forms_of_slots(text: str, values: dict, expected: list) -> None:
    assert [slot.value(values) for slot in aclnn_rows.parse_row(text).slots] == expected


def test_a_scalar_may_have_a_type() -> None:
    row = aclnn_rows.parse_row("aclnnCumprod(self, dim:int32, out.dtype, out)")
    assert row.slots[1].value({"dim": 1}).dtype == "int32"


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("aclnnAdd(self, other, out)", "has 3 slots, but aclnnAdd takes 4"),
        ("aclnnNoSuch(self)", "not in aclnn.tsv"),
        ("aclnnMm(self, mat2, out, cube=0)", "cube stands where the C parameter is cubeMathType"),
        ("aclnnMm(self, mat2, out, 0.5)", "0.5 cannot be cubeMathType"),
        ("aclnnAdd(self, None, alpha, out)", "None cannot be other"),
        ("aclnnAdd(self, other{a,b}, alpha, out)", "sends an index, but other is a tensor"),
        ("aclnnCast(self, self, out.dtype)", "sends an element type, but out is a out_tensor"),
        ("aclnnAdd self", "not a row"),
        ("aclnnTril(self, True, out)", "True cannot be diagonal"),
    ],
)
def test_a_row_that_disagrees_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        aclnn_rows.parse_row(text)


def test_a_row_is_checked_against_the_schema() -> None:
    schema = Schema("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor")
    arguments, results = aclnn_rows.schema_types(schema)
    known = arguments | results
    aclnn_rows.parse_row("aclnnAmax(self, dim, keepdim, out)", known)
    with pytest.raises(ValueError, match="names dims, which the operator does not have"):
        aclnn_rows.parse_row("aclnnAmax(self, dims, keepdim, out)", known)
    with pytest.raises(ValueError, match="keepdim is a bool, but dim is a int_array"):
        aclnn_rows.parse_row("aclnnAmax(self, keepdim, keepdim, out)", known)


def test_results_are_named_by_the_schema() -> None:
    _, results = aclnn_rows.schema_types(Schema("topk(Tensor self, int k) -> (Tensor values, Tensor indices)"))
    assert results == {"values": "Tensor", "indices": "Tensor"}
