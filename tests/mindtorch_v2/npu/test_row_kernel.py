"""Kernels made of rows: plans, executors that are used again, and their cost."""

import sys
import threading
import timeit
from typing import Any, NamedTuple

import numpy as np
import pytest

from mindtorch_v2._backends.npu import kernel as kernel_module
from mindtorch_v2._backends.npu.aclnn_rows import parse_rows, schema_types
from mindtorch_v2._backends.npu.array import NpuArray, empty, from_host, to_host
from mindtorch_v2._backends.npu.errors import NpuError
from mindtorch_v2._backends.npu.kernel import RowKernel
from mindtorch_v2._backends.npu.launch import run
from mindtorch_v2._core.dtype import OF_ARRAY, dtype, float32
from mindtorch_v2._dispatch.schema import Schema


class Spec(NamedTuple):
    shape: tuple[int, ...]
    dtype: dtype
    strides: tuple[int, ...] | None = None


class Holder:
    """Stands for a tensor."""

    def __init__(self, values: Any, kind: Any = np.float32) -> None:
        self._array = values if isinstance(values, NpuArray) else from_host(np.asarray(values, kind))


def made(schema: str, rows: str, infer: Any) -> RowKernel:
    parsed = Schema(schema)
    arguments, results = schema_types(parsed)
    inplace = "!" in schema
    known = arguments | ({} if inplace else results)
    return RowKernel(
        f"aten::{parsed.name}", parse_rows(rows, known), arguments, None if inplace else infer, tuple(results)
    )


def broadcast(*args: Any) -> Spec:
    arrays = [a._array for a in args if isinstance(a, Holder)]
    return Spec(np.broadcast_shapes(*(a.shape for a in arrays)), OF_ARRAY[np.result_type(*(a.dtype for a in arrays))])


def add_kernel() -> RowKernel:
    return made(
        "add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
        "aclnnAdd(self, other, alpha, out)\naclnnAdds(self, other, alpha, out)",
        broadcast,
    )


def test_the_row_that_fits_is_taken(npu: Any) -> None:
    add = add_kernel().call
    assert to_host(add(Holder([1, 2]), Holder([3, 4]), 1)).tolist() == [4, 6]
    assert to_host(add(Holder([1, 2]), 5, 2)).tolist() == [11, 12]
    assert npu.calls["aclnnAdd"] == npu.calls["aclnnAdds"] == 1


def test_no_row_fits(npu: Any) -> None:
    kernel = made("exp2(Tensor|Scalar self) -> Tensor", "aclnnExp2(self, out)", broadcast)
    with pytest.raises(NotImplementedError, match="aten::exp2 cannot run on device 'npu' with self=2"):
        kernel.call(2)


def test_an_executor_is_made_once_and_follows_the_addresses(npu: Any) -> None:
    add = add_kernel().call
    inputs = [Holder([i, i]) for i in range(10)]
    results = [add(x, y, 1) for x, y in zip(inputs, inputs[::-1], strict=True)]
    assert [to_host(r)[0] for r in results] == [9] * 10
    assert npu.calls["aclnnAddGetWorkspaceSize"] == 1 and npu.calls["aclnnAdd"] == 10
    assert npu.counts()["executor"] == 1


def test_calls_that_differ_do_not_share(npu: Any) -> None:
    add = add_kernel().call
    x, whole = Holder([1, 2]), Holder([1, 2], np.int64)
    numbers = (1, 1.0, True, 1.5, 0.0, -0.0, float("nan"))
    for _ in range(3):
        for number in numbers:
            np.testing.assert_equal(to_host(add(x, number, 1)), np.array([1, 2], np.float32) + number)
        assert to_host(add(whole, x, 1)).tolist() == [2, 4]
    assert npu.counts()["executor"] == len(numbers) + 1


def test_an_operator_that_cannot_repeat(npu: Any) -> None:
    npu.unrepeatable = {"aclnnAdd"}
    add, x = add_kernel().call, Holder([1, 2])
    for _ in range(4):
        assert to_host(add(x, x, 1)).tolist() == [2, 4]
    assert npu.calls["aclSetAclOpExecutorRepeatable"] == 1
    assert "executor" not in npu.counts() and "tensor" not in npu.counts()


def test_in_place_rows(npu: Any) -> None:
    kernel = made(
        "add_(Tensor(a!) self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor(a!)",
        "aclnnInplaceAdd(self, other, alpha)\naclnnInplaceAdds(self, other, alpha)",
        None,
    )
    x, y = Holder([0, 0]), Holder([1, 2])
    for _ in range(5):
        assert kernel.call(x, y, 1) is None
    other = Holder([10, 10])
    kernel.call(other, y, 1)
    assert to_host(x._array).tolist() == [5, 10] and to_host(other._array).tolist() == [11, 12]


def test_several_results_in_another_order(npu: Any) -> None:
    kernel = made(
        "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
        "aclnnTopk(self, k, dim, largest, sorted, values, indices)",
        lambda self, k, *_: (Spec((k,), float32), Spec((k,), OF_ARRAY[np.dtype(np.int64)])),
    )
    for shift in range(4):
        values, indices = kernel.call(Holder(np.roll([1, 5, 3], shift)), 2, -1, True, True)
        assert to_host(values).tolist() == [5, 3]
        assert to_host(indices).tolist() == [(1 + shift) % 3, (2 + shift) % 3]


def test_absent_tensors_and_swapped_ones(npu: Any) -> None:
    kernel = made(
        "clamp(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
        "aclnnClampTensor(self, min, max, out)",
        lambda self, low, high: Spec(self._array.shape, float32),
    )
    x, bound = Holder([1, 2, 3]), Holder([2, 2, 2])
    for _ in range(3):
        assert to_host(kernel.call(x, None, bound)).tolist() == [1, 2, 2]
        assert to_host(kernel.call(x, bound, None)).tolist() == [2, 2, 3]
    elsewhere = [Holder([4, 5, 6]), Holder([5, 5, 5])]
    assert to_host(kernel.call(elsewhere[0], None, elsewhere[1])).tolist() == [4, 5, 5]
    assert npu.calls["aclnnClampTensorGetWorkspaceSize"] == 2  # absent tensors count among those that have addresses
    swapped = made("rsub(Tensor self, Tensor other) -> Tensor", "aclnnSub(other, self, 1, out)", broadcast)
    for i in range(4):
        assert to_host(swapped.call(Holder([i]), Holder([10]))).tolist() == [10 - i]


def test_lists_of_tensors(npu: Any) -> None:
    kernel = made(
        "cat(Tensor[] tensors, int dim=0) -> Tensor",
        "aclnnCat(tensors, dim, out)",
        lambda tensors, dim: Spec((sum(t._array.shape[0] for t in tensors),), float32),
    )
    for _ in range(3):
        assert to_host(kernel.call([Holder([1]), Holder([2, 3])], 0)).tolist() == [1, 2, 3]


def test_a_list_with_gaps(npu: Any) -> None:
    kernel = made(
        "index(Tensor self, Tensor?[] indices) -> Tensor",
        "aclnnIndex(self, indices, out)",
        lambda self, indices: Spec((2, 2), float32),
    )
    for _ in range(3):
        result = kernel.call(Holder([[1, 2, 3], [4, 5, 6]]), [None, Holder([2, 0], np.int64)])
        assert to_host(result).tolist() == [[3, 1], [6, 4]]


def test_a_choice_may_be_none(npu: Any) -> None:
    kernel = made(
        "div(Tensor self, Tensor other, *, str? rounding_mode=None) -> Tensor",
        "aclnnDivMod(self, other, rounding_mode{None,trunc,floor}, out)",
        lambda self, other, mode: broadcast(self, other),
    )
    for mode, wanted in ((None, -2.5), ("trunc", -2), ("floor", -3)) * 3:
        assert to_host(kernel.call(Holder([-5]), Holder([2]), mode)).tolist() == [wanted]


def test_nothing_in_and_the_identity_out(npu: Any) -> None:
    kernel = made(
        "sum(Tensor self, int[] dim) -> Tensor",
        "aclnnReduceSum(self, dim, keepDims=False, out.dtype, out) empty=0",
        lambda self, dim: Spec(tuple(n for d, n in enumerate(self._array.shape) if d not in dim), float32),
    )
    for _ in range(3):
        assert to_host(kernel.call(Holder(np.empty((2, 0))), (1,))).tolist() == [0, 0]
        assert to_host(kernel.call(Holder(np.empty((2, 0))), (0,))).tolist() == []
        assert to_host(kernel.call(Holder(np.ones((2, 3))), (1,))).tolist() == [3, 3]
    assert npu.calls["aclnnReduceSum"] == 3


def test_results_with_strides(npu: Any) -> None:
    kernel = made("neg(Tensor self) -> Tensor", "aclnnNeg(self, out)", lambda self: Spec((2, 3), float32, (1, 2)))
    for _ in range(3):
        result = kernel.call(Holder([[1, 2, 3], [4, 5, 6]]))
        assert result.strides == (4, 8) and to_host(result).tolist() == [[-1, -2, -3], [-4, -5, -6]]


@pytest.mark.parametrize(
    "name",
    [
        "aclnnAdd",
        "aclSetInputTensorAddr",
        "aclSetOutputTensorAddr",
        "aclnnAddGetWorkspaceSize",
        "aclSetAclOpExecutorRepeatable",
        "aclCreateTensor",
    ],
)
@pytest.mark.parametrize("round_", [0, 1, 3])
def test_failures_at_every_stage_leave_a_working_kernel(npu: Any, name: str, round_: int) -> None:
    add, held, failures = add_kernel().call, [], 0
    for i in range(6):
        x = Holder([i, i])
        held.append(x)
        if i == round_:
            npu.fail(name, 507899)
        try:
            held.append(add(x, x, 1))
            assert to_host(held[-1]).tolist() == [2 * i] * 2
        except NpuError as error:
            assert error.call == name and (r"aten::add, aclnnAdd(self=float32[2]" in str(error) or error.code == 0)
            failures += 1
    assert failures <= 1
    held.clear()


def test_old_executors_make_room(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "EXECUTORS", 4)
    monkeypatch.setattr(kernel_module, "PLANS", 6)
    add = add_kernel().call
    for _ in range(2):
        for n in range(1, 10):
            for _ in range(3):
                assert to_host(add(Holder(np.ones(n)), 1, 1)).tolist() == [2] * n
        assert npu.counts().get("executor", 0) <= 4  # CANN gives none away for a call that it has seen


def test_threads_make_room_together(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "EXECUTORS", 4)
    monkeypatch.setattr(kernel_module, "PLANS", 6)
    add, wrong = add_kernel().call, []

    def work() -> None:
        try:
            for n in list(range(1, 40)) * 2:
                made = to_host(add(Holder(np.ones(n)), 1, 1)).tolist()
                if made != [2] * n:
                    wrong.append(made)
        except Exception as error:  # told by the thread that waits
            wrong.append(error)

    threads, interval = [threading.Thread(target=work) for _ in range(6)], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_ever_new_numbers_keep_nothing(npu: Any) -> None:
    """The bias corrections of an optimizer, say: after a few, executors are made only for those that come again."""
    add, x = add_kernel().call, Holder([1, 2])
    for i in range(40):
        assert to_host(add(x, float(i), 1)).tolist() == [1 + i, 2 + i]
    assert npu.counts()["executor"] == kernel_module.VARIANTS
    for _ in range(3):
        add(x, 39.0, 1)
    assert npu.counts()["executor"] == kernel_module.VARIANTS  # it was seen before, and goes through CANN's cache


def test_a_call_that_another_part_of_the_program_made_first(npu: Any) -> None:
    """CANN then answers from its cache with an executor that cannot repeat; the call works without one."""
    x = Holder([1.0, 2.0])
    run("aclnnAdds", (x._array, 1, 1, empty((2,), np.dtype(np.float32), 0)))
    add = add_kernel().call
    for _ in range(4):
        assert to_host(add(x, 1, 1)).tolist() == [2, 3]
    assert npu.calls["aclSetAclOpExecutorRepeatable"] == 1 and "executor" not in npu.counts()


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "cached"])
def test_the_host_cost_of_a_launch(npu: Any, keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one `a + b` on small tensors, less the simulator's time: the figures in docs are made with this.

    Kept: with an executor that repeats. Cached: with two phases for each call, as where CANN refuses that.
    """
    monkeypatch.setattr(kernel_module, "_reuse", keeps)
    add, x, y = add_kernel().call, Holder(np.ones((2, 2))), Holder(np.ones((2, 2)))
    for _ in range(5):
        add(x, y, 1)
    with npu.muted():
        before = npu.library.simulator_calls()
        add(x, y, 1)
        calls = npu.library.simulator_calls() - before
        seconds = min(timeit.repeat(lambda: add(x, y, 1), number=2000, repeat=5)) / 2000
    print(f"\nlaunch of aclnnAdd, {'kept' if keeps else 'cached'}: {seconds * 1e6:.2f} us")
    # Kept: the launch, and the result's new address. Cached: two phases, three tensors described and given back.
    assert calls <= (2 if keeps else 8)
