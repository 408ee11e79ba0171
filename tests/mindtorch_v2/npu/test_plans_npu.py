"""Plans of the pipeline on the simulated NPU: launches that are prepared once, one workspace, graphs."""

import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import test_pipeline_fuzz as fuzz
from simulator.operators import WORKSPACE
from test_pipeline_fuzz import differences, told

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn
from mindtorch_v2._backends.npu import plans
from mindtorch_v2._backends.npu.memory import pool_of
from mindtorch_v2._core.planning import forget_plans

EXECUTORS = ("GetWorkspaceSize", "aclCreate", "aclDestroy", "aclSetAclOpExecutorRepeatable")


@pytest.fixture(autouse=True)
def nothing_planned() -> Iterator[None]:
    """CANN's cache is empty in each test, and so is that of plans."""
    forget_plans()
    yield
    forget_plans()
    dynamo.reset()


@contextmanager
def counted(machine: Any) -> Iterator[Counter]:
    """The calls into CANN inside a block."""
    before, found = Counter(machine.calls), Counter()
    yield found
    found.update(machine.calls - before)


def named(calls: Counter, *parts: str) -> int:
    return sum(count for name, count in calls.items() if any(part in name for part in parts))


def block(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = F.gelu(F.linear(x, weight, bias)) - x
    z = F.layer_norm(y * 2, (8,), bias, bias)
    return (z.softmax(-1) - 0.5).t().contiguous().view(-1)[3:], z


def operands(device: str, seed: int = 0) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return [torch.randn(shape).to(device) for shape in ((4, 8), (8, 8), (8,))]


def planned(function: Callable, *given: Any) -> tuple[Any, Any]:
    """What a function gives in a pipeline, and the plan of it."""
    with torch.pipeline() as pipe:
        made = function(*given)
    return made, pipe.history[-1][1]


def close(one: Any, other: Any) -> None:
    torch.testing.assert_close([t.cpu() for t in one], [t.cpu() for t in other], rtol=1e-4, atol=1e-5)


# launches ------------------------------------------------------------------------------------------------------------


def test_executors_are_made_once(npu: Any) -> None:
    expected = block(*operands("cpu"))
    given = operands("npu")
    with counted(npu) as first:
        made, plan = planned(block, *given)
    close(made, expected)
    assert named(first, "GetWorkspaceSize") == named(first, "aclSetAclOpExecutorRepeatable") == len(plan.steps) == 8
    for _ in range(5):
        with counted(npu) as calls:
            made, again = planned(block, *given)
        close(made, expected)
        assert again is plan and named(calls, *EXECUTORS) == 0
        assert sum(name.startswith("aclnn") and count == 1 for name, count in calls.items()) == 8


def test_one_block_holds_workspace_and_what_lies_between(npu: Any) -> None:
    given = operands("npu")
    _, plan = planned(block, *given)
    (program,) = plan.function.programs
    assert program.workspace == WORKSPACE
    assert program.block_size < WORKSPACE + 8 * 512  # six arrays of 512 bytes, of which two or three are needed at once
    pool = pool_of(0)
    before = pool.statistics()["allocation.all.allocated"]
    held = planned(block, *given)
    assert pool.statistics()["allocation.all.allocated"] - before == 3  # two results, and the block
    del held


def test_what_is_needed_at_once_lies_apart() -> None:
    lives = {0: plans.Life(100, 0, 2), 1: plans.Life(2000, 1, 3), 2: plans.Life(600, 3, 5), 3: plans.Life(100, 4, 6),
             4: plans.Life(100, 2, 2)}  # fmt: skip
    offsets, size = plans.arranged(lives, 512)
    assert all(offset >= 512 and offset % 512 == 0 for offset in offsets.values())
    for a, one in lives.items():
        for b, other in lives.items():
            if a < b and one.first <= other.last and other.first <= one.last:
                begin, end = max(offsets[a], offsets[b]), min(offsets[a] + one.nbytes, offsets[b] + other.nbytes)
                assert end <= begin, (a, b)
    assert size == 512 + 2048 + 1024  # the largest two, which are needed together


def test_inputs_elsewhere_and_results_that_are_held(npu: Any) -> None:
    results = []
    for seed in range(6):
        made, plan = planned(block, *operands("npu", seed))
        results.append((made, block(*operands("cpu", seed))))
    for made, expected in results:
        close(made, expected)
    assert len(plan.function.programs) == 1


def test_parts_of_storages(npu: Any) -> None:
    """CANN is told where a view lies in its storage: each place has a program, as far as they go."""
    whole, (_, *rest) = torch.randn(12, 8), operands("cpu")
    far, others = whole.npu(), [t.npu() for t in rest]
    for _ in range(2):
        for begin in (0, 4, 8, 2, 6, 1):
            made, plan = planned(block, far[begin : begin + 4], *others)
            close(made, block(whole[begin : begin + 4], *rest))
    assert len(plan.function.programs) == plans.PROGRAMS


def test_inputs_in_one_storage(npu: Any) -> None:
    """A weight and a view of it; later, two tensors that only look alike."""
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
        return ((x @ y) + x,)

    square, other = torch.randn(4, 4), torch.randn(4, 4)
    far, apart = square.npu(), other.npu()
    for _ in range(3):
        close(planned(program, far, far.t())[0], program(square, square.t()))
        close(planned(program, far, apart.t())[0], program(square, other.t()))


def test_writes_and_their_versions(npu: Any) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
        x.mul_(2).add_(y)
        y[1].copy_(x[0])
        return (x + y,)

    near = [torch.arange(6.0).view(2, 3), torch.ones(2, 3)]
    far = [t.npu() for t in near]
    for turn in range(1, 5):
        close(planned(program, *far)[0], program(*near))
        close(far, near)
        assert far[0]._version == near[0]._version == 2 * turn


def test_numbers_have_programs_until_they_are_many(npu: Any) -> None:
    def program(x: torch.Tensor, number: float) -> tuple[torch.Tensor]:
        return (((x * number).exp() + 1) * x,)

    near = torch.randn(3)
    far = near.npu()
    for _ in range(2):
        for number in range(8):
            made, plan = planned(program, far, number / 8)
            close(made, program(near, number / 8))
    known = plan.function.programs
    assert len(known) == plans.PROGRAMS
    for turn in range(3):
        close(planned(program, far, 0.0625)[0], program(near, 0.0625))
        assert (plan.function.programs is known) is (turn == 0)  # what comes again takes the place of the oldest
    assert plan.function.programs[1:] == known[:-1]


def test_steps_that_are_alike_share_an_executor(npu: Any) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor]:
        for _ in range(6):
            x = x.exp().tanh()
        return (x,)

    near = torch.randn(4, 4)
    far = near.npu()
    for _ in range(3):
        close(planned(program, far)[0], program(near))
    assert npu.calls["aclnnExpGetWorkspaceSize"] == npu.calls["aclnnTanhGetWorkspaceSize"] == 1
    assert npu.calls["aclnnExp"] == npu.calls["aclnnTanh"] == 18


def test_calls_that_cannot_repeat_take_two_phases(npu: Any) -> None:
    npu.unrepeatable = {"aclnnSoftmax"}

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
        return (torch.cat([x, y]).softmax(0) + x[0],)  # a list, what CANN refuses, and what it does not

    near = [torch.randn(2, 4), torch.randn(3, 4)]
    far = [t.npu() for t in near]
    for _ in range(4):
        close(planned(program, *far)[0], program(*near))
    assert npu.calls["aclnnCatGetWorkspaceSize"] == 4 and npu.calls["aclnnSoftmaxGetWorkspaceSize"] >= 4
    assert npu.calls["aclnnAddGetWorkspaceSize"] == 1


def test_strided_inputs_that_have_to_be_packed(npu: Any) -> None:
    npu.refuses_strided = {"aclnnSoftmax"}
    near = torch.randn(3, 4)
    far = near.npu()
    for _ in range(3):
        close(planned(lambda x: (x.t().softmax(-1) * 2,), far)[0], (near.t().softmax(-1) * 2,))


def test_what_waits_for_the_device_runs_step_by_step(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given, steps = operands("npu"), []
    kernel = plans.Notes.run

    def waiting(self: Any, *args: Any) -> None:
        torch.npu.synchronize()
        steps.append(args[1].symbol)
        kernel(self, *args)

    monkeypatch.setattr(plans.Notes, "run", waiting)
    for _ in range(6):
        made, plan = planned(block, *given)
        close(made, block(*operands("cpu")))
    assert plan.function.programs == [] and plan.function.refusals == plans.ATTEMPTS
    tried = len(steps)
    close(planned(block, *given)[0], block(*operands("cpu")))
    assert len(steps) == tried >= plans.ATTEMPTS


def test_precision_is_that_of_the_run(npu: Any) -> None:
    x = torch.randn(4, 4).npu()
    try:
        for allow in (False, True, False):
            torch.npu.matmul.allow_hf32 = allow
            for _ in range(2):
                made, plan = planned(lambda x: ((x @ x).tanh(),), x)
                (program,) = plan.function.programs
                assert [launch.kept.operator.symbol for launch in program.launches] == ["aclnnMm", "aclnnTanh"]
        assert npu.calls["aclnnMmGetWorkspaceSize"] >= 3
    finally:
        torch.npu.matmul.allow_hf32 = False


def test_executors_end_with_the_plan(npu: Any) -> None:
    """Those that eager calls keep stay."""
    def program(x: torch.Tensor) -> tuple[torch.Tensor]:
        return ((x.to(torch.float16) + 1).to(torch.float32) * 2,)

    x = torch.ones(4, device="npu")
    program(x)
    kept = npu.counts()["executor"]
    y = torch.ones(5, device="npu")
    for _ in range(2):
        made, plan = planned(program, y)
    assert npu.counts()["executor"] > kept
    shared = len(plan.function.programs[0].shared)
    alive = npu.counts()["executor"]
    assert shared
    del made, plan
    forget_plans()
    for _ in range(2):  # the first recording after that lets go of the old ones, and whoever comes next destroys
        planned(lambda x: (x.exp(),), x)
        gc.collect()
    assert npu.counts()["executor"] <= alive - shared + 1
    runs = planned(program, x)
    assert runs[0][0].tolist() == [4] * 4


def test_threads_share_a_plan(npu: Any) -> None:
    near, wrong = [operands("cpu", seed) for seed in range(4)], []
    expected = [block(*given) for given in near]
    planned(block, *operands("npu"))

    def work(number: int) -> None:
        try:
            for _ in range(8):
                close(planned(block, *[t.npu() for t in near[number]])[0], expected[number])
        except Exception as error:  # told by the thread that waits
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_executors_that_eager_calls_drop_are_made_anew(npu: Any) -> None:
    from mindtorch_v2._backends.npu import kernel

    given = operands("npu")
    _, plan = planned(block, *given)
    for kept in list(kernel._kept):
        kept.destroy()
    for _ in range(2):
        close(planned(block, *given)[0], block(*operands("cpu")))


# failures ------------------------------------------------------------------------------------------------------------

CALLS = ("aclnnAddmm", "aclnnGeluV2", "aclnnMuls", "aclnnLayerNorm", "aclnnSoftmax", "aclnnInplaceCopy",
         "aclSetInputTensorAddr", "aclSetOutputTensorAddr", "aclnnAddmmGetWorkspaceSize",
         "aclnnSoftmaxGetWorkspaceSize", "aclCreateTensor", "aclSetAclOpExecutorRepeatable")  # fmt: skip


@pytest.mark.parametrize("turn", [0, 1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_a_failure_names_the_call_and_leaves_a_working_plan(npu: Any, name: str, turn: int) -> None:
    """`npu` looks at the end that nothing is left behind."""
    for at in range(4):
        given = operands("npu", at)
        if at == turn:
            npu.fail(name, 507899)
        try:
            made, _ = planned(block, *given)
        except RuntimeError as error:
            assert at >= turn and name in str(error) and "recorded at" in str(error) and "test_plans_npu" in str(error)
            continue
        close(made, block(*operands("cpu", at)))


def test_no_memory_before_anything_is_launched(npu: Any) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor]:
        x.add_(1)
        return ((x * 2).exp(),)

    x = torch.zeros(1 << 16, device="npu")
    for _ in range(2):
        planned(program, x)
    held, before = [], x.sum().item()
    torch.npu.empty_cache()
    npu.memory_limit = npu.used_memory()
    with pytest.raises(torch.OutOfMemoryError):
        while True:
            held.append(planned(program, x)[0])
            before = x.sum().item()
    assert x.sum().item() == before
    npu.memory_limit = 1 << 30
    held.clear()
    planned(program, x)
    assert x.sum().item() == before + (1 << 16)


def test_types_that_the_chip_refuses_are_told_at_once(npu: Any) -> None:
    x = torch.ones(3, dtype=torch.float64, device="npu")
    with torch.pipeline() as pipe:
        y = torch.ones(3, device="npu").exp()
        with pytest.raises(NotImplementedError, match="does not take self float64"):
            x.tanh()
        assert len(pipe) == 0  # what was recorded ran before it
    assert y.tolist() == pytest.approx([2.71828] * 3)


# chips, programs, explanations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["A2", "310P", "950"])
def test_training_on_chips(on_chip: Any, chip: str) -> None:
    """Forward, loss and backward in one plan, three turns of it."""
    with on_chip(chip):
        torch.manual_seed(0)
        near = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
        far = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
        far.load_state_dict(near.state_dict())
        far.npu()
        ways = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (near, far)]
        target = torch.tensor([0, 1, 3, 2])
        for turn in range(4):
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(turn))
            ways[0].zero_grad()
            F.cross_entropy(near(x), target).backward()
            ways[1].zero_grad()
            with torch.pipeline() as pipe:
                F.cross_entropy(far(x.npu()), target.npu()).backward()
            for way in ways:
                way.step()
            for one, other in zip(near.parameters(), far.parameters(), strict=True):
                torch.testing.assert_close(one, other.detach().cpu(), rtol=2e-2, atol=2e-3)
        (program,) = pipe.history[-1][1].function.programs
        assert len(program.launches) > 20
        del far, ways, program, pipe, one, other
        forget_plans()


def test_random_programs(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "DEVICE", ["npu"])
    found = {told(seed): wrong for seed in range(80) for _ in range(3) if (wrong := differences(seed))}
    assert not found


def test_compiled_functions_go_on_recording(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queueing what was noted takes the host less than eager calls do, also where nothing is joined."""
    runs, run = [], plans.Program.run
    monkeypatch.setattr(plans.Program, "run", lambda self, *args: runs.append(self) or run(self, *args))
    compiled, given = torch.compile(block), operands("npu")
    for _ in range(60):
        made = compiled(*given)
    close(made, block(*operands("cpu")))
    assert len(runs) >= 55


def test_explanations_name_the_calls_into_cann(npu: Any) -> None:
    given = operands("npu")
    with torch.pipeline(explain=True) as pipe:
        block(*given)
    text = str(pipe.explain())
    for line in ("linear: aclnnAddmm", "gelu: aclnnGeluV2", "mul: aclnnMuls", "softmax: aclnnSoftmax"):
        assert line in text
    sources = [step["source"] for step in pipe.explain().data()["plans"][0]["steps"]]
    assert any("aclnnLayerNorm" in source for source in sources)


def test_linear_layers_in_inference_mode(npu: Any) -> None:
    near = operands("cpu")
    with torch.inference_mode():
        far = [t.npu() for t in near]
        close([F.linear(*far)], [F.linear(*near)])
        close(planned(block, *far)[0], block(*near))
