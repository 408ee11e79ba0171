"""What torch.compile records: graphs for backends, what ends them, how often they are compiled."""

import logging

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
from mindtorch_v2._dynamo import exc
from mindtorch_v2._dynamo.testing import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs
from mindtorch_v2.nn import functional as F


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    torch.compiler.set_stance("default")


def names(gm):
    return [getattr(node.target, "__name__", node.target) for node in gm.graph.nodes if "call" in node.op]


def branches(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y


# graphs --------------------------------------------------------------------------------------------------------------


def test_a_backend_gets_a_graph_and_inputs():
    seen = []

    def backend(gm, inputs):
        seen.append((gm, inputs))
        return gm.forward

    compiled = torch.compile(lambda x, y: (torch.sin(x) + 1) * y.relu().sum(dim=0), backend=backend)
    x, y = torch.ones(2), torch.ones(3, 2)
    assert torch.allclose(compiled(x, y), (torch.sin(x) + 1) * y.relu().sum(dim=0))
    ((gm, inputs),) = seen
    assert isinstance(gm, torch.fx.GraphModule)
    assert names(gm) == ["sin", "add", "relu", "sum", "mul"]
    assert [tuple(t.shape) for t in inputs] == [(2,), (3, 2)]
    assert [node.op for node in gm.graph.nodes].count("placeholder") == 2
    assert torch.equal(gm(*inputs)[0], compiled(x, y)) and len(seen) == 1
    gm.graph.lint()
    assert "sin" in gm.code


def test_what_a_backend_gives_is_what_runs():
    calls = []

    def backend(gm, inputs):
        def run(*args):
            calls.append(len(args))
            return [2 * result for result in gm(*args)]

        return run

    compiled = torch.compile(lambda x: x + 1, backend=backend)
    assert compiled(torch.ones(2)).tolist() == [4, 4] and compiled(torch.zeros(2)).tolist() == [2, 2]
    assert calls == [1, 1]


def test_graphs_with_numbers_lists_writes_and_several_results():
    weight = torch.tensor([1.0, 2.0], requires_grad=True)

    def function(x, k):
        y = torch.cat([x, x * k]).clone()
        y.add_(1, alpha=2)
        y[1:].mul_(3)
        values, indices = y.max(dim=0)
        parts = y.split(1)
        return values, indices, parts[2], y.where(y > 2, -1.0), F.linear(y, weight[None]), torch.stack(parts)

    x = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    for backend in (CompileCounter(), "eager", "aot_eager", "inductor", "cudagraphs"):
        for k in (2, 3):
            for ours, eager in zip(torch.compile(function, backend=backend)(x, k), function(x, k), strict=True):
                assert torch.equal(ours, eager) and ours.requires_grad == eager.requires_grad


def test_arguments_are_written():
    x = torch.zeros(3)

    def function(x):
        x.add_(1)
        x[0] = 5
        return x

    for backend in (CompileCounter(), "inductor"):
        x.zero_()
        assert torch.compile(function, backend=backend)(x) is x
        assert x.tolist() == [5, 1, 1]


@pytest.mark.parametrize("backend", [CompileCounter(), "eager", "inductor", "cudagraphs"])
def test_gradients_are_those_of_eager(backend):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    x = torch.randn(5, 4, requires_grad=True)
    loss = net(x).square().mean()
    expected = torch.autograd.grad(loss, [x, *net.parameters()])
    compiled = torch.compile(net, backend=backend)
    for _ in range(4):
        ours = compiled(x).square().mean()
        assert torch.allclose(ours, loss, rtol=1e-6)
        for a, b in zip(torch.autograd.grad(ours, [x, *net.parameters()]), expected, strict=True):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-7)


def test_training_steps_are_those_of_eager():
    def steps(compiles):
        torch.manual_seed(0)
        net = torch.nn.Sequential(  # a bias before the norm would follow rounding errors, which Adam makes large
            torch.nn.Linear(4, 8, bias=False), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
        )
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step, mode=compiles) if compiles else step
        losses = [run(torch.randn(6, 4), torch.randn(6, 1)).item() for _ in range(6)]
        return losses, [p.detach().clone() for p in net.state_dict().values()]

    expected, state = steps(None)
    for mode in ("default", "reduce-overhead"):
        losses, ours = steps(mode)
        assert np.allclose(losses, expected, rtol=1e-5)
        for a, b in zip(ours, state, strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)


# what ends a graph ---------------------------------------------------------------------------------------------------


def test_branches_end_a_graph():
    counted = CompileCounter()
    compiled = torch.compile(branches, backend=counted)
    assert compiled(torch.ones(2)).tolist() == [4, 4]
    assert (counted.frame_count, counted.op_count) == (2, 4)
    assert compiled(-3 * torch.ones(2)).tolist() == [-2, -2]
    assert compiled(torch.ones(2)).tolist() == [4, 4] and counted.frame_count == 2


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_the_whole_function_or_nothing(backend):
    compiled = torch.compile(branches, backend=backend, fullgraph=True)
    with pytest.raises(exc.Unsupported) as caught:
        compiled(torch.ones(2))
    text = str(caught.value)
    assert text.startswith("Data-dependent branching\n  Explanation: Detected data-dependent branching")
    assert "attempted to jump with TensorVariable()" in text and "if y.sum() > 0:" in text and "in branches" in text
    assert isinstance(caught.value, RuntimeError) and not torch.compiler.is_compiling()
    assert torch.compile(lambda x: x.sum().item() + 1, backend=backend, fullgraph=True)(torch.ones(2)) == 3
    with pytest.raises(exc.Unsupported, match="Tensor.tolist\\(\\) with non-integer tensor"):
        torch.compile(lambda x: (x + 1).tolist(), backend=backend, fullgraph=True)(torch.ones(2))
    whole = torch.compile(lambda x: [x + k for k in (x + 1).tolist()], backend=backend, fullgraph=True)
    for _ in range(3):
        assert [y.tolist() for y in whole(torch.arange(2))] == [[1, 2], [2, 3]]


def test_integers_as_lists_end_a_graph_as_items_do():
    told = dynamo.explain(lambda x: ((x + 1).tolist(), x * 2))(torch.arange(2))
    assert told.graph_count == 2 and told.break_reasons[0].reason.startswith("Unsupported Tensor.item() call")


def test_refusals_tell_the_frames_of_the_program_alone():
    def broken(x):
        y = x + 1
        dynamo.graph_break()
        return y * 2

    with pytest.raises(exc.Unsupported) as caught:
        torch.compile(broken, backend="eager", fullgraph=True)(torch.ones(2))
    frames = str(caught.value).partition("\n\nfrom user code:\n")[2].partition("\n\n")[0].split("\n")
    assert frames[0].startswith('   File "') and frames[0].endswith("in broken")
    assert frames[1] == "    dynamo.graph_break()" and sum("File" in line for line in frames) == 1


def test_explicit_breaks():
    def broken(x):
        y = x + 1
        dynamo.graph_break()
        return y * 2

    counted = CompileCounter()
    assert torch.compile(broken, backend=counted)(torch.ones(2)).tolist() == [4, 4]
    assert (counted.frame_count, counted.op_count) == (2, 2)
    with pytest.raises(exc.Unsupported, match="Call to `torch._dynamo.graph_break\\(\\)`"):
        torch.compile(broken, backend="eager", fullgraph=True)(torch.ones(2))

    @torch.compiler.disable(reason="it is slow")
    def apart(x):
        return x * 3

    def calls(x):
        return apart(x + 1) - 1

    counted.clear()
    assert torch.compile(calls, backend=counted)(torch.ones(2)).tolist() == [5, 5]
    assert (counted.frame_count, counted.op_count) == (2, 2)
    with pytest.raises(exc.Unsupported, match="torch.compiler.disable` \\(reason: it is slow\\)"):
        torch.compile(calls, fullgraph=True)(torch.ones(2))


def test_prints_happen_at_every_call(capsys):
    def prints(x):
        print("sum", x.sum().item())
        return x + 1

    compiled = torch.compile(prints, mode="reduce-overhead")
    for _ in range(4):
        compiled(torch.ones(2))
    assert capsys.readouterr().out == "sum 2.0\n" * 4


def test_explaining_graphs():
    told = dynamo.explain(branches)(torch.ones(2))
    assert (told.graph_count, told.graph_break_count, told.op_count) == (2, 1, 4)
    assert [reason.reason for reason in told.break_reasons] == ["generic_jump TensorVariable()"]
    assert told.break_reasons[0].user_stack[-1].name == "branches"
    assert str(told).startswith(
        "Graph Count: 2\nGraph Break Count: 1\nOp Count: 4\nBreak Reasons:\n  Break Reason 1:\n"
    )
    assert [names(gm) for gm in told.graphs] == [["add", "sum", "gt"], ["mul"]]


def test_explaining_with_arguments_at_once_is_deprecated():
    with pytest.warns(FutureWarning, match=r"explain\(f, \*args, \*\*kwargs\) is deprecated"):
        told = dynamo.explain(lambda x: x, torch.ones(2))
    assert (told.graph_count, told.graph_break_count) == (0, -1)


def test_counters():
    dynamo.utils.counters.clear()
    torch.compile(branches, backend="eager")(torch.ones(2))
    assert dict(dynamo.utils.counters["stats"]) == {"unique_graphs": 2, "calls_captured": 4}
    assert dict(dynamo.utils.counters["graph_break"]) == {"generic_jump TensorVariable()": 1}
    torch.compile(branches, backend="eager")(torch.ones(2))
    assert dynamo.utils.counters["stats"]["unique_graphs"] == 4


# errors of backends --------------------------------------------------------------------------------------------------


def test_suppressed_errors_of_backends(caplog):
    def bad(gm, inputs):
        raise ValueError("oops")

    with dynamo.config.patch(suppress_errors=True):
        compiled = torch.compile(branches, backend=bad)
        assert compiled(torch.ones(2)).tolist() == [4, 4]
    assert "WON'T CONVERT branches" in caplog.text and "ValueError: oops" in caplog.text


def test_errors_of_backends():
    def bad(gm, inputs):
        raise ValueError("oops")

    with pytest.raises(exc.BackendCompilerFailed, match="^backend='bad' raised:\nValueError: oops\n"):
        torch.compile(lambda x: x + 1, backend=bad)(torch.ones(2))
    with pytest.raises(exc.BackendCompilerFailed, match="AssertionError: compiler_fn did not return callable"):
        torch.compile(lambda x: x + 1, backend=lambda gm, inputs: 3)(torch.ones(2))
    with pytest.raises(exc.BackendCompilerFailed, match="backend='3' raised:\nTypeError: 'int' object is not callable"):
        torch.compile(lambda x: x + 1, backend=3)(torch.ones(2))


def test_options_go_to_the_backend(caplog):
    given = {}

    def backend(gm, inputs, **more):
        given.update(more)
        return gm.forward

    torch.compile(lambda x: x + 1, backend=backend, options={"level": 3})(torch.ones(2))
    torch.compile(lambda x: x + 1, backend=backend, mode="reduce-overhead")(torch.ones(2))
    assert given == {"options": {"level": 3}, "mode": "reduce-overhead"}
    with caplog.at_level(logging.WARNING):
        torch.compile(lambda x: x + 1, backend="eager", mode="fast")(torch.ones(2))
    assert "eager backend ignoring extra kwargs {'mode': 'fast'}" in caplog.text


def test_errors_of_the_function_are_its_own():
    @torch.compile
    def fails(x):
        return x + torch.ones(3)

    with pytest.raises(RuntimeError, match="The size of tensor a \\(2\\) must match the size of tensor b \\(3\\)"):
        fails(torch.ones(2))


# how often -----------------------------------------------------------------------------------------------------------


def test_the_limit_of_recompilations(caplog):
    def function(x, n):
        return x + n

    counted = CompileCounter()
    compiled = torch.compile(function, backend=counted, dynamic=False)
    with caplog.at_level(logging.WARNING):
        for n in range(12):
            assert compiled(torch.zeros(2), n).tolist() == [n, n]
    assert counted.frame_count == 8
    (record,) = caplog.records
    text = record.getMessage()
    assert text.startswith("torch._dynamo hit config.recompile_limit (8)\n   function: 'function' (")
    assert "last reason: n == 7\n" in text and 'use TORCH_LOGS="recompiles"' in text
    compiled(torch.zeros(2), 3)
    assert counted.frame_count == 8
    dynamo.reset()
    compiled(torch.zeros(2), 3)
    assert counted.frame_count == 9


def test_other_limits():
    def function(x, n):
        return x + n

    counted = CompileCounter()
    compiled = torch.compile(function, backend=counted, recompile_limit=3)
    for n in range(6):
        compiled(torch.zeros(2), n)
    assert counted.frame_count == 3
    whole = torch.compile(function, backend=counted, fullgraph=True)
    with pytest.raises(exc.FailOnRecompileLimitHit, match="Hard failure due to fullgraph=True"):
        for n in range(12):
            whole(torch.zeros(2), n)
    strict = torch.compile(function, backend=counted)
    with dynamo.config.patch(error_on_recompile=True):
        strict(torch.zeros(2), 1)
        with pytest.raises(exc.RecompileError, match="Recompiling function function in .*\n.*\n    - n == 1"):
            strict(torch.zeros(2), 2)
    with dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        failing = torch.compile(function, backend=counted)
        failing(torch.zeros(2), 1)
        with pytest.raises(exc.FailOnRecompileLimitHit, match="Hard failure due to fail_on_recompile_limit_hit"):
            failing(torch.zeros(2), 2)


def test_stances_about_recompiling():
    counted = CompileCounter()
    compiled = torch.compile(branches, backend=counted)
    x = torch.ones(2)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError) as caught:
        compiled(x)
    assert str(caught.value).startswith(
        "Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: "
    )
    assert "function name: 'branches', line number: " in str(caught.value)
    compiled(x)
    assert counted.frame_count == 2
    with torch.compiler.set_stance("eager_on_recompile"):
        assert compiled(x.double()).tolist() == [4, 4]
    assert counted.frame_count == 2
    with torch.compiler.set_stance("fail_on_recompile"):
        assert compiled(x).tolist() == [4, 4]
        with pytest.raises(RuntimeError, match="tensor 'x' dtype mismatch. expected Float, actual Double"):
            compiled(x.double())
    with torch.compiler.set_stance("eager_then_compile"):
        compiled(x.int())
        assert counted.frame_count == 2
        compiled(x.int())
        assert counted.frame_count == 4


class Shown:
    """An object whose words hold elements of a tensor."""

    def __init__(self):
        self.tensor = torch.ones(1)

    def __repr__(self):
        return f"Shown({self.tensor})"


@pytest.mark.parametrize("settings", [{}, {"mode": "reduce-overhead"}, {"backend": "eager"}], ids=str)
def test_arguments_that_hold_what_the_call_computes(settings):
    def function(items, named, shown):
        items[0] = items[0] * 2
        items.append(torch.zeros(1))
        named["next"] = items[0] + 1
        shown.tensor = shown.tensor * 3
        return sum(items) + shown.tensor

    compiled = torch.compile(function, **settings)
    items, named, shown = [torch.ones(1)], {}, Shown()
    for number in range(1, 5):
        assert compiled(items, named, shown).item() == 2**number + 3**number
        assert len(items) == number + 1 and named["next"].item() == 2**number + 1 and shown.tensor.item() == 3**number


def test_a_backend_that_keeps_graphs():
    kept = EagerAndRecordGraphs()
    torch.compile(branches, backend=kept)(torch.ones(2))
    assert len(kept.graphs) == 2
    both = CompileCounterWithBackend("inductor")
    assert torch.compile(branches, backend=both)(torch.ones(2)).tolist() == [4, 4]
    assert both.frame_count == len(both.graphs) == 2


def test_functions_that_gain_nothing_are_called_as_they_are():
    recorded = []
    product = torch.compile(lambda a, b: (a @ b, recorded.append(torch._dynamo.state.state.pipe is not None)))
    a = torch.ones(3, 3)
    for _ in range(70):
        assert product(a, a)[0][0, 0] == 3
    assert recorded == [True] * 3 + [False] * 64 + [True] + [False] * 2  # and looked at again after a while
    recorded.clear()
    large = torch.ones(1 << 18)
    fused = torch.compile(lambda x: (((x + 1) * 2).relu(), recorded.append(torch._dynamo.state.state.pipe is not None)))
    for _ in range(6):
        assert fused(large)[0][0] == 4
    assert recorded == [True] * 6


def test_nothing_is_held_after_a_call():
    import gc
    import weakref

    @torch.compile
    def fn(x):
        return (x * 2).exp()

    x = torch.ones(1 << 18)
    seen = weakref.ref(fn(x)._array), weakref.ref(x._array)
    del x
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_sizes_do_not_count_as_recompilations_unless_they_are_to_be_fixed(caplog: pytest.LogCaptureFixture) -> None:
    for dynamic, told in ((None, False), (True, False), (False, True)):
        caplog.clear()
        f = torch.compile(lambda x: torch.relu(x + 1).sum(-1), backend=lambda gm, inputs: gm.forward, dynamic=dynamic)
        for size in range(2, 14):
            assert f(torch.ones(size, 3)).tolist() == [6.0] * size
        assert ("hit config.recompile_limit (8)" in caplog.text) is told


@pytest.mark.parametrize("stance", ["fail_on_recompile", "eager_on_recompile", "eager_then_compile"])
def test_other_sizes_are_a_recompilation_to_a_stance(stance):
    counted = CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counted)
    compiled(torch.ones(3))
    with torch.compiler.set_stance(stance):
        compiled(torch.ones(3))
        if stance == "fail_on_recompile":
            with pytest.raises(RuntimeError, match="Detected recompile when torch.compile stance is"):
                compiled(torch.ones(4))
        else:
            assert compiled(torch.ones(4)).tolist() == [2] * 4
        assert counted.frame_count == 1
    compiled(torch.ones(4))
    assert counted.frame_count == 2


def test_a_compiled_function_sets_no_stance():
    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        torch.compile(lambda x: (torch.compiler.set_stance("force_eager"), x + 1))(torch.ones(2))
    assert torch.compile(lambda x: torch.compiler.is_compiling())(torch.ones(2))
