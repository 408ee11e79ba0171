"""torch.utils.trace: what it records of a program, the page, and memory in the form of PyTorch's viewer."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2._dispatch.keys import modes
from mindtorch_v2.utils import Trace, trace

SOURCE = str(Path(torch.__file__).parents[1])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.inner(x)).sum()


@pytest.fixture(scope="module")
def step():
    """The trace of a training step."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.ones(2, 3)

    def program():
        loss = net(x)
        loss.backward()
        optimizer.step()
        return loss

    program()
    return trace(program)


@pytest.fixture(scope="module")
def data(step):
    return step.data


def entries(data, **wanted):
    return [e for e in data["entries"] if all(e.get(key) == value for key, value in wanted.items())]


def parents(data, entry):
    while entry["parent"] >= 0:
        entry = data["entries"][entry["parent"]]
        yield entry["name"]


def test_calls_stand_inside_the_modules_that_make_them(data):
    names = [e["name"] for e in entries(data, kind="module")]
    assert names == ["Net", "Net.inner", "Net.inner.0", "Net.inner.1", "Net.last"]
    (relu,) = entries(data, kind="operator", name="relu")
    assert list(parents(data, relu)) == ["Net.inner.1", "Net.inner", "Net"]
    assert entries(data, kind="module")[2]["class"] == "Linear"


def test_the_result_of_the_program_is_kept(step):
    assert step.result.shape == () and step.result.requires_grad


def test_a_call_knows_its_line(data):
    (last,) = entries(data, name="Net.last")
    file, line, function = data["frames"][data["stacks"][last["stack"]][0]]
    assert Path(file).name == "test_tracing.py" and function == "forward"
    assert "return self.last(self.inner(x)).sum()" in data["files"][file][line - 1]


def test_values_have_shapes_strides_types_and_names(data):
    linear = entries(data, kind="operator", name="linear")[0]
    x, weight, _ = linear["in"]
    assert (x["shape"], x["strides"], x["type"], x["device"]) == ([2, 3], [3, 1], "float32", "cpu")
    assert (weight["shape"], weight["name"], weight["grad"]) == ([4, 3], "inner.0.weight", True)
    assert linear["out"][0]["shape"] == [2, 4]


def test_the_path_goes_through_the_keys_from_the_highest_down(data):
    (relu,) = entries(data, kind="operator", name="relu")
    path = data["paths"][relu["path"]]
    assert [key for key, _ in path] == ["AutogradCPU", "Autograd", "CPU"]
    assert path[0][1].startswith("passed by") and "derived from the formulas" in path[1][1]
    operator = data["operators"][relu["operator"]]
    assert operator["name"] == "aten::relu" and operator["place"].startswith("_ops/activation.py, line ")
    titles = [title for title, _ in operator["sources"]]
    assert titles[0] == "declaration" and "generated autograd" in titles
    assert 'op("relu(Tensor self)' in operator["sources"][0][1]


def test_the_graph_is_recorded_and_runs(data):
    (relu,) = entries(data, kind="operator", name="relu")
    node = data["nodes"][relu["node"]]
    assert node["name"] == "ReluBackward0" and node["made"] == relu_step(data)
    ran = data["entries"][node["ran"]]
    assert (ran["kind"], ran["name"], ran["node"]) == ("backward", "ReluBackward0", relu["node"])
    assert list(parents(data, ran)) == ["backward"]
    assert "AccumulateGrad last.bias" in [e["name"] for e in entries(data, kind="backward")]
    assert "inner.0.weight" in data["leaves"]


def relu_step(data):
    return next(i for i, e in enumerate(data["entries"]) if e["name"] == "relu")


def test_memory_says_who_made_it_and_when_it_went():
    def program():
        kept = torch.zeros(1000)
        kept.add(1)
        return kept + 2

    data = trace(program).data
    blocks = {data["entries"][b["born"]]["name"] + str(i): b for i, b in enumerate(data["blocks"]) if b["born"] >= 0}
    assert [name[:-1] for name in blocks] == ["zeros", "add", "add"]
    zeros, lost, result = blocks.values()
    assert zeros["bytes"] == lost["bytes"] == 4000
    assert lost["freed"] == lost["born"] + 1, "it went before the next call"
    assert result["freed"] is None


def test_a_view_lies_in_the_memory_of_its_base():
    def program():
        base = torch.zeros(4, 4)
        return base.t()[1:]

    data = trace(program).data
    assert len(data["blocks"]) == 1
    (taken,) = [e["out"][0] for e in data["entries"] if e["name"] == "slice" or e["name"].endswith("getitem")][:1]
    assert taken["block"] == 0 and taken["strides"] == [1, 4]


def test_nothing_stays_behind():
    before = modes.include
    with pytest.raises(ZeroDivisionError), Trace() as traced:
        torch.ones(2)
        1 / 0
    assert modes.include == before and len(traced) == 1
    assert not nn.modules.module._global_forward_hooks and not nn.modules.module._global_forward_pre_hooks
    torch.ones(3)
    assert len(traced) == 1


def test_a_call_that_fails_is_shown_and_closed():
    def program():
        with pytest.raises(RuntimeError, match="must match"):
            torch.ones(2) + torch.ones(3)
        return torch.ones(1)

    data = trace(program).data
    assert [e["name"] for e in data["entries"]] == ["ones", "ones", "add", "ones"]
    assert data["entries"][3]["parent"] == -1 and "out" not in data["entries"][2]


def test_a_module_that_fails_is_closed():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    def program():
        with pytest.raises(ValueError, match="no"):
            Fails()(torch.ones(1))
        torch.ones(2)

    data = trace(program).data
    assert data["entries"][-1]["parent"] == -1


def test_two_at_once_are_refused():
    with Trace(), pytest.raises(RuntimeError, match="running on this thread already"), Trace():
        pass


def test_after_many_calls_it_records_no_more():
    def program():
        x = torch.ones(2)
        for _ in range(20):
            x = x + 1
        return x

    traced = trace(program, most_calls=5)
    assert len(traced) == 5 and traced.data["full"] and traced.result.tolist() == [21.0, 21.0]


def test_the_page_is_one_file_that_asks_nothing_of_others(step, tmp_path):
    page = tmp_path / "page.html"
    step.save(page)
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    (found,) = re.findall(r"^const D = (.*)$", text, re.MULTILINE)
    assert len(json.loads(found.replace("<\\/", "</"))["entries"]) == len(step)


def test_text_of_the_program_cannot_end_the_script(tmp_path):
    traced = trace(lambda: torch.ones(1).add(1))
    traced._tracer.entries[0].name = "</script><b>"
    assert traced.html().count("</script>") == 1


def test_memory_in_the_form_of_pytorchs_viewer(step, tmp_path):
    step.save_memory(tmp_path / "memory.pickle")
    snapshot = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    (events,) = snapshot["device_traces"]
    made = [e for e in events if e["action"] == "alloc"]
    freed = [e for e in events if e["action"] == "free_completed"]
    assert len(made) == len(step.data["blocks"]) and 0 < len(freed) < len(made)
    assert any(frame["name"] == "forward" for e in made for frame in e["frames"])
    (segment,) = snapshot["segments"]
    assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
    assert segment["active_size"] == sum(e["size"] for e in made) - sum(e["size"] for e in freed)


def run(tmp_path, *arguments):
    command = [sys.executable, "-m", "mindtorch_v2", "--trace", "page.html", *arguments]
    return subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": SOURCE, "PATH": ""}, capture_output=True, text=True)


def test_a_program_from_the_command_line(tmp_path):
    (tmp_path / "program.py").write_text("import sys, torch\nx = torch.ones(2)\nprint(x + 1, sys.argv[1:])\n")
    done = run(tmp_path, "program.py", "--epochs", "3")
    assert done.stdout == "tensor([2., 2.]) ['--epochs', '3']\n"
    assert re.search(r"^\d+ calls: .*page.html$", done.stderr, re.MULTILINE)
    assert '"add"' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_program_that_fails_has_its_page_too(tmp_path):
    done = run(tmp_path, "-c", "import torch\ntorch.ones(2)\n1 / 0")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    assert '"ones"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert run(tmp_path).returncode != 0
