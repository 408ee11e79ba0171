"""torch.profiler: what is recorded, the table, the files, the schedule."""

import gzip
import json

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import profiler as block
from mindtorch_v2.profiler import ProfilerAction, profile, record_function, schedule, tensorboard_trace_handler


def names(events):
    return [event.name for event in events]


@pytest.fixture(scope="module")
def step():
    """A profile of a forward and a backward pass."""
    layer = torch.nn.Linear(8, 4)
    x = torch.randn(3, 8)
    with profile(record_shapes=True, profile_memory=True) as prof:
        with record_function("forward"):
            loss = layer(x).relu().sum()
        loss.backward()
    return prof


def test_operators_are_recorded_inside_marks(step):
    events = step.events()
    (mark,) = [event for event in events if event.name == "forward"]
    assert names(mark.cpu_children) == ["aten::linear", "aten::relu", "aten::sum"]
    assert all(child.cpu_parent is mark for child in mark.cpu_children)
    assert mark.input_shapes == [] and mark.cpu_children[0].input_shapes == [[3, 8], [4, 8], [4]]
    assert 0 < sum(child.cpu_time_total for child in mark.cpu_children) < mark.cpu_time_total
    assert mark.cpu_children[1].cpu_memory_usage == 3 * 4 * 4


def test_nodes_of_the_backward_pass_carry_the_number_of_their_operator(step):
    events = {event.name: event for event in step.events()}
    node = events["ReluBackward0"]
    assert node.cpu_parent.name == "autograd::engine::evaluate_function: ReluBackward0"
    assert node.sequence_nr == events["aten::relu"].sequence_nr >= 0
    assert "aten::threshold_backward" in names(node.cpu_children)
    assert len([e for e in step.events() if e.name == "torch::autograd::AccumulateGrad"]) == 2


def test_averages_by_name_and_by_shape():
    with profile(record_shapes=True) as prof:
        for rows in (2, 2, 3):
            torch.ones(rows, 4).exp()
    (exp,) = [average for average in prof.key_averages() if average.key == "aten::exp"]
    assert exp.count == 3 and exp.cpu_time == pytest.approx(exp.cpu_time_total / 3)
    by_shape = {a.input_shapes: a.count for a in prof.key_averages(group_by_input_shape=True) if a.key == "aten::exp"}
    assert by_shape == {"[[2, 4]]": 2, "[[3, 4]]": 1}


def test_the_table_has_pytorchs_form(step):
    lines = step.key_averages().table(sort_by="cpu_time_total", row_limit=3).splitlines()
    assert lines[1].split("  ")[-2].strip() == "# of Calls" and "Self CPU Mem" in lines[1]
    assert lines[0] == lines[2] == lines[6] and set(lines[0]) == {"-", " "}
    longest = max(step.key_averages(), key=lambda average: average.cpu_time_total)
    assert longest.key.startswith(lines[3].split()[0]) and lines[7].startswith("Self CPU time total: ")
    assert len({len(line) for line in lines[:7]}) == 1
    grouped = step.key_averages(group_by_input_shape=True).table()
    assert "Input Shapes" in grouped and "[[3, 8], [4, 8], [4]]" in grouped


def test_the_chrome_trace_nests_and_links(step, tmp_path):
    step.add_metadata("run", "7")
    for path, opener in ((tmp_path / "trace.json", open), (tmp_path / "trace.json.gz", gzip.open)):
        step.export_chrome_trace(str(path))
        with opener(path, "rt") as file:
            trace = json.load(file)
        assert trace["run"] == "7"
        by_name = {event["name"]: event for event in trace["traceEvents"] if event["ph"] == "X"}
        outer, inner = by_name["forward"], by_name["aten::relu"]
        assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
        assert inner["args"]["Input Dims"] == [[3, 4]]
        starts, ends = ({e["id"] for e in trace["traceEvents"] if e["ph"] == phase} for phase in "sf")
        assert ends and ends <= starts


def test_stacks_name_the_callers(tmp_path):
    def caller():
        return torch.ones(3).exp()

    with profile(with_stack=True) as prof:
        for _ in range(50):
            caller()
    event = next(e for e in prof.events() if e.name == "aten::exp")
    assert "caller" in event.stack[0] and __file__ in event.stack[0]
    prof.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    assert "caller" in (tmp_path / "stacks").read_text()
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(str(tmp_path / "stacks"), "nothing")


def test_floating_point_operations_are_counted():
    with profile(with_flops=True) as prof:
        torch.mm(torch.ones(3, 4), torch.ones(4, 5))
    assert next(e for e in prof.key_averages() if e.key == "aten::mm").flops == 2 * 3 * 4 * 5
    assert "Total FLOPs" in prof.key_averages().table()


def test_a_schedule_says_what_becomes_of_each_step():
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [plan(i).name for i in range(10)] == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE",
                                                 "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert schedule(wait=0, warmup=0, active=1)(5) is ProfilerAction.RECORD_AND_SAVE
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=-1, warmup=0, active=1)


def test_only_the_scheduled_steps_are_recorded(tmp_path):
    ready = []

    def handler(prof):
        ready.append((prof.step_num, names(prof.events())))
        tensorboard_trace_handler(str(tmp_path), "worker")(prof)

    with profile(schedule=schedule(wait=1, warmup=1, active=1), on_trace_ready=handler) as prof:
        for _ in range(6):
            torch.ones(2).exp()
            prof.step()
    assert ready == [(3, ["ProfilerStep#2", "aten::ones", "aten::exp"]),
                     (6, ["ProfilerStep#5", "aten::ones", "aten::exp"])]
    assert len(list(tmp_path.glob("worker.*.pt.trace.json"))) == 2


def test_the_block_form_and_a_decorated_function():
    @record_function("decorated")
    def function(x):
        return x + 1

    prof = block.profile()
    assert str(prof) == "<unfinished torch.autograd.profile>"
    with prof:
        function(function(torch.ones(1)))
    assert names(prof.function_events) == ["aten::ones", "decorated", "aten::add", "decorated", "aten::add"]
    assert prof.total_average().count == 5 and prof.self_cpu_time_total > 0
    with block.profile(enabled=False) as nothing:
        assert nothing is None


def test_optimizers_mark_their_steps():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with profile() as prof:
        parameter.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    marks = [event.name for event in prof.events() if event.is_user_annotation]
    assert marks == ["Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad"]


def test_nothing_is_recorded_afterwards_and_results_are_the_same():
    x = torch.randn(4, requires_grad=True)
    with profile() as prof:
        inside = (x * 2).exp().sum()
    count = len(prof.events())
    assert torch.equal(inside, (x * 2).exp().sum()) and len(prof.events()) == count
    with pytest.raises(RuntimeError), profile() as failed:
        torch.ones(2) @ torch.ones(3)
    assert names(failed.events())[-1].startswith("aten::")
    with pytest.raises(AssertionError, match="Profiler must be initialized before getting key averages"):
        profile().key_averages()


def test_marks_set_by_operators_of_the_profiler_are_in_the_profile():
    with torch.profiler.profile() as profile:
        mark = torch.ops.profiler._record_function_enter_new("mine", None)
        torch.ones(2) + 1
        torch.ops.profiler._record_function_exit._RecordFunction(mark)
        older = torch.ops.profiler._record_function_enter("older")
        torch.ops.profiler._record_function_exit(older)
    names = {event.key for event in profile.key_averages()}
    assert {"mine", "older", "aten::add"} <= names
    with pytest.raises(AttributeError, match="has no overload name 'other'"):
        torch.ops.profiler._record_function_exit.other
