"""What pipelines, compiled functions and whole programs tell of what they did."""

import json
import re
import subprocess
import sys

import mindtorch_v2 as torch
from mindtorch_v2._pipeline.explain import amount


def shown(page):
    """The data of a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def chain(x, y):
    z = (x * 2 + y).exp()
    return z.sum(0) @ torch.ones(8, 3)


def test_a_compiled_function_is_explained():
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    compiled = torch.compile(chain)
    told = compiled.explain(x, y)
    (plan,) = told.data()["plans"]
    names = [entry["name"] for entry in plan["entries"]]
    assert names[:3] == ["mul", "add", "exp"] and "sum" in names
    first = plan["entries"][0]
    assert first["where"].endswith(f"test_explain.py:{chain.__code__.co_firstlineno + 1}")
    assert first["results"] == ["v1: float32[4, 8]"]
    steps = [step for step in plan["steps"] if step["kind"] != "view"]
    assert steps[0]["entries"][:3] == [0, 1, 2] and steps[0]["kind"] != "call"
    assert all(step["seconds"] > 0 and step["bytes"] > 0 and step["flops"] > 0 and step["source"] for step in steps)
    assert steps[0]["share"] > 0 and plan["seconds"] > 0 and plan["peak"] >= 4 * 8 * 4
    assert len(plan["memory"]) == len(plan["steps"]) and max(plan["memory"]) == plan["peak"]
    text = str(told)
    assert text.startswith("torch.compile(chain)\n") and "mul add exp" in text and "plan 1 on cpu: " in text
    product = next(step for step in steps if any("mm" in names[e] or "matmul" in names[e] or "mv" in names[e]
                                                 for e in step["entries"]))  # fmt: skip
    assert product["flops"] == 2 * 8 * 3


def test_pages_stand_alone(tmp_path):
    with torch.pipeline(explain=True) as pipe:
        y = torch.randn(3) + 1
        y.sum().item()
        z = y * 2
    told = pipe.explain()
    told.title = "</script><b>"
    told.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert len(shown(page)["plans"]) == 2 and z.shape == (3,)
    assert "http" not in page.replace("http://www.w3.org", "") and "&lt;/script&gt;" in page
    assert page.count("</script>") == 2 and shown(page)["title"] == "</script><b>"
    assert "<iframe" in told._repr_html_()
    with torch.pipeline(explain=True) as empty:
        pass
    assert "Nothing was recorded." in str(empty.explain()) and shown(empty.explain().html())["plans"] == []


def test_plans_that_run_again_are_counted():
    with torch.pipeline(explain=True) as pipe:
        for _ in range(3):
            (torch.ones(3) * 2 + 1).sum().item()
    (plan,) = pipe.explain().data()["plans"]
    assert plan["runs"] == 3


def test_modules_and_breaks():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    told = torch.compile(net).explain(torch.ones(2, 3))
    assert told.title == "torch.compile(Sequential)"
    assert [entry["name"] for entry in told.data()["plans"][0]["entries"] if entry["kind"] != "view"][0] == "linear"


def test_amounts():
    assert [amount(n) for n in (0, 12, 1023, 1024, 1536, 5 << 20, 3 << 30)] == [
        "0 B", "12 B", "1023 B", "1 KB", "1.5 KB", "5 MB", "3 GB"]  # fmt: skip


def test_a_whole_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import mindtorch_v2 as torch\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "for _ in range(4):\n"
        "    loss = ((x * 2).exp() + 1).sum()\n"
        "    loss.backward()\n"
        "    print(loss.item())\n"
        "print(torch.compile(lambda x: x.relu() + 1)(torch.ones(2)).tolist())\n"
    )
    page = tmp_path / "page.html"
    environment = {"PYTHONPATH": ":".join(sys.path), "MINDTORCH_TRACE": str(page), "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=300)
    assert abs(float(ran.stdout.split()[0]) - 25.1671683) < 1e-4, ran.stderr
    assert ran.stdout.rstrip().endswith("[2.0, 2.0]")
    plans = shown(page.read_text())["plans"]
    assert any(plan["runs"] >= 3 for plan in plans)
    lines = {entry["where"].rpartition(":")[2] for plan in plans for entry in plan["entries"]}
    assert {"4", "5"} <= lines
