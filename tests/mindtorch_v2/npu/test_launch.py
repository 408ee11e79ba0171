"""The two-phase call: descriptions, workspace, executors, and what must never happen to them."""

from typing import Any

import numpy as np
import pytest
from simulator.kernels import KERNELS

from mindtorch_v2._backends.npu.array import NpuArray, empty, from_host, to_host
from mindtorch_v2._backends.npu.errors import NpuError, OutOfMemoryError
from mindtorch_v2._backends.npu.launch import launch, run
from mindtorch_v2._backends.npu.memory import pool_of
from mindtorch_v2._backends.npu.runtime import loaded
from mindtorch_v2._backends.npu.streams import current_stream

FLOAT = np.dtype(np.float32)
OBJECTS = {"tensor", "scalar", "int_array", "bool_array", "tensor_list", "executor"}


def device(values: Any, kind: Any = FLOAT) -> NpuArray:
    return from_host(np.asarray(values, kind))


def room(*shape: int, kind: Any = FLOAT) -> NpuArray:
    return empty(shape, np.dtype(kind))


def assert_nothing_left(npu: Any) -> None:
    assert not OBJECTS & npu.counts().keys()


def test_every_kind_of_parameter(npu: Any) -> None:
    x = device([[1, 2, 3], [4, 5, 6]])
    out = room(2)
    launch("aclnnReduceSum", {"self": x, "dims": (1,), "keepDims": False, "dtype": FLOAT, "out": out})
    assert to_host(out).tolist() == [6, 15]
    out = room(4, 3)
    launch("aclnnCat", {"tensors": [x, x], "dim": 0, "out": out})
    assert to_host(out).shape == (4, 3)
    out = room(2, 3)
    launch("aclnnGeluBackwardV2", {"gradOutput": x, "self": x, "approximate": "tanh", "gradInput": out})
    launch("aclnnClamp", {"self": x, "clipValueMin": None, "clipValueMax": 2.5, "out": out})
    assert to_host(out).max() == 2.5
    launch("aclnnInplaceMuls", {"selfRef": out, "other": 2})
    assert to_host(out).max() == 5
    launch(
        "aclnnIsClose",
        {"self": x, "other": x, "rtol": 1e-5, "atol": 0.0, "equalNan": True, "out": room(2, 3, kind=bool)},
    )
    mean, rstd = room(2, 1), room(2, 1)
    launch(
        "aclnnLayerNorm",
        {
            "input": x,
            "normalizedShape": (3,),
            "weightOptional": None,
            "biasOptional": None,
            "eps": 1e-5,
            "out": out,
            "meanOutOptional": mean,
            "rstdOutOptional": rstd,
        },
    )
    assert to_host(mean).reshape(-1).tolist() == [2, 5]
    launch(
        "aclnnLayerNormBackward",
        {
            "gradOut": x,
            "input": x,
            "normalizedShape": (3,),
            "mean": mean,
            "rstd": rstd,
            "weightOptional": None,
            "biasOptional": None,
            "outputMask": (True, False, False),
            "gradInputOut": room(2, 3),
            "gradWeightOut": None,
            "gradBiasOut": None,
        },
    )
    indices = device([[1, 0]], np.int64)
    gradient = room(3, 2)
    launch(
        "aclnnEmbeddingDenseBackward",
        {
            "grad": device(np.ones((1, 2, 2))),
            "indices": indices,
            "numWeights": 3,
            "paddingIdx": -1,
            "scaleGradByFreq": False,
            "out": gradient,
        },
    )
    assert to_host(gradient).tolist() == [[1, 1], [1, 1], [0, 0]]
    current_stream().synchronize()
    assert_nothing_left(npu)


@pytest.mark.parametrize("number, kind", [(True, bool), (3, np.int64), (2.5, np.float64), (1 + 2j, np.complex128)])
def test_numbers_keep_their_kind(npu: Any, number: Any, kind: Any) -> None:
    out = room(2, kind=kind)
    launch("aclnnInplaceFillScalar", {"selfRef": out, "value": number})
    assert to_host(out).tolist() == [number] * 2


def test_a_number_too_large_is_refused(npu: Any) -> None:
    with pytest.raises(RuntimeError, match="without overflow"):
        launch("aclnnInplaceFillScalar", {"selfRef": room(2), "value": 1 << 64})
    assert_nothing_left(npu)


def test_views_are_described_by_storage_offset_and_strides(npu: Any) -> None:
    host = np.arange(24, dtype=FLOAT).reshape(4, 6)
    storage = device(host).storage
    transposed = storage.array((6, 4), FLOAT, 0, (4, 24))
    inner = storage.array((2, 3), FLOAT, 28, (48, 8))
    expanded = storage.array((3, 6), FLOAT, 24, (0, 4))
    out = room(6, 4)
    run("aclnnAdd", (transposed, transposed, 1, out))
    assert (to_host(out) == 2 * host.T).all()
    out = room(3, 6)
    run("aclnnAdd", (expanded, expanded, 1, out))
    assert (to_host(out) == 2 * host[1]).all()
    run("aclnnInplaceFillScalar", (inner, -1))
    host[1::2, 1::2] = -1
    assert (to_host(storage.array((4, 6), FLOAT, 0, (24, 4))) == host).all()


def test_results_without_elements_are_not_launched(npu: Any) -> None:
    run("aclnnAdd", (room(0, 3), room(0, 3), 1, room(0, 3)))
    assert not npu.calls["aclnnAddGetWorkspaceSize"]


def test_many_dimensions_are_merged_where_possible(npu: Any) -> None:
    host = np.arange(1024, dtype=FLOAT).reshape((2,) * 10)
    a, out = device(host), room(*(2,) * 10)
    run("aclnnAdd", (a, a, 1, out))
    assert (to_host(out) == 2 * host).all()
    strides = tuple(4 << i for i in range(10))
    reversed_ = NpuArray((2,) * 10, FLOAT, strides, a.storage)
    with pytest.raises(RuntimeError, match="at most 8 dimensions, and merging leaves 10"):
        run("aclnnAdd", (reversed_, a, 1, out))
    with pytest.raises(RuntimeError, match=r"aclnnAmax\(.*the NPU takes at most 8 dimensions"):
        run("aclnnAmax", (a, (0,), False, room(*(2,) * 9)))


def test_a_symbol_this_cann_lacks(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a = device([1])
    monkeypatch.setattr(loaded().libraries, "operator_symbol", lambda name: None)
    with pytest.raises(
        NotImplementedError, match="aten::exp cannot run on device 'npu': the installed CANN has no aclnnExp"
    ):
        launch("aclnnExp", {"self": a, "out": room(1)}, op="aten::exp")


def test_wrong_arguments_are_refused_before_any_call(npu: Any) -> None:
    a = device([1])
    with pytest.raises(TypeError, match="aclnnExp has no parameter other"):
        launch("aclnnExp", {"self": a, "other": a, "out": a})
    with pytest.raises(TypeError, match="out must not be None"):
        launch("aclnnExp", {"self": a})
    with pytest.raises(TypeError, match="self must be an array on the NPU, not ndarray"):
        launch("aclnnExp", {"self": np.ones(1), "out": a})
    assert_nothing_left(npu)


def test_float64_on_the_matrix_units(npu: Any) -> None:
    a = device(np.eye(2), np.float64)
    refusal = r"aclnnMm cannot run on device 'npu' \(Ascend910B1\): .* self float64"
    with pytest.raises(NotImplementedError, match=refusal):
        run("aclnnMm", (a, a, room(2, 2, kind=np.float64), 0))
    assert_nothing_left(npu)


def test_strided_inputs_are_packed_when_an_operator_refuses_them(npu: Any) -> None:
    npu.refuses_strided = {"aclnnNeg", "aclnnCat"}
    host = np.arange(6, dtype=FLOAT).reshape(2, 3)
    a = device(host)
    transposed = a.storage.array((3, 2), FLOAT, 0, (4, 12))
    out = room(3, 2)
    run("aclnnNeg", (transposed, out))
    assert (to_host(out) == -host.T).all() and npu.calls["aclnnInplaceCopy"] == 1
    out = room(6, 2)
    run("aclnnCat", ([transposed, transposed], 0, out))
    assert (to_host(out) == np.concatenate([host.T, host.T])).all()
    with pytest.raises(NpuError, match="561103"):  # an output cannot be packed
        run("aclnnNeg", (a, transposed.storage.array((2, 3), FLOAT, 0, (4, 8))))
    assert_nothing_left(npu)


@pytest.mark.parametrize(
    "symbol, host, expected",
    [
        ("aclnnNonzero", [[0, 1], [1, 1]], [[0, 1], [1, 0], [1, 1]]),
        ("aclnnNonzero", [[0, 0], [0, 0]], np.empty((0, 2))),
    ],
)
def test_sizes_that_depend_on_data(npu: Any, symbol: str, host: Any, expected: Any) -> None:
    x = device(host)
    out = room(4, 2, kind=np.int64)
    (shape,) = launch(symbol, {"self": x, "out": out}, shapes_of=("out",))
    assert shape == np.shape(expected)
    result = to_host(out.storage.array(shape, out.dtype, 0, out.strides))
    assert result.tolist() == np.asarray(expected).tolist()
    assert_nothing_left(npu)


def test_workspace_lives_until_the_stream_has_run(npu: Any) -> None:
    x, out = device(np.ones((2, 3))), room(2)
    run("aclnnReduceSum", (x, (1,), False, FLOAT, out))
    noise = [room(600) for _ in range(8)]  # may take the workspace: whatever it is filled with comes after the sum
    for array in noise:
        run("aclnnInplaceFillScalar", (array, 7))
    assert to_host(out).tolist() == [3, 3] and to_host(noise[0])[0] == 7


def test_no_memory_for_the_workspace(npu: Any) -> None:
    x, out = device(np.ones((2, 3))), room(2)
    pool = pool_of(0)
    stream = current_stream().npu_stream
    held = [pool.allocate(400, stream) for _ in range((2 << 20) // 512 - 2)]  # the rest of the segment
    npu.memory_limit = 0
    with pytest.raises(OutOfMemoryError):
        run("aclnnReduceSum", (x, (1,), False, FLOAT, out))
    assert_nothing_left(npu)
    npu.memory_limit = 1 << 30
    run("aclnnReduceSum", (x, (1,), False, FLOAT, out))
    assert to_host(out).tolist() == [3, 3]
    pool.returned.extend(held)


def test_two_hundred_rounds_leave_nothing(npu: Any) -> None:
    a, b = device(np.ones((8, 8))), device(np.eye(8))
    for _ in range(200):
        out = room(8, 8)
        run("aclnnMm", (a, b, out, 0))
        run("aclnnInplaceAdds", (out, 1, 1))
    assert to_host(out)[0, 0] == 2
    assert_nothing_left(npu)
    assert npu.calls["aclrtMalloc"] == 1


def test_the_machine_notices_neglected_duties(npu: Any) -> None:
    a = device([1.0])
    runtime = loaded()
    functions = runtime.functions
    tensor = functions["aclCreateTensor"](*a.layout.arguments, a.storage.address)
    functions["aclDestroyTensor"](tensor)
    assert functions["aclDestroyTensor"](tensor) == 107017
    beyond = NpuArray((3,), FLOAT, (4,), a.storage)  # three elements of a storage of one
    with pytest.raises(NpuError, match="161002"):
        run("aclnnExp", (beyond, room(3)))
    assert len(npu.violations) == 2
    npu.violations.clear()


def test_the_simulator_knows_the_common_operators() -> None:
    assert len(KERNELS) > 200
