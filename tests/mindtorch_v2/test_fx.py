"""torch.fx: tracing, graphs and their code, running them node by node."""

import copy
import enum
import math
import operator
import pickle
import typing

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import fx, nn
from mindtorch_v2.fx import subgraph_rewriter
from mindtorch_v2.fx.experimental.proxy_tensor import make_fx
from mindtorch_v2.fx.experimental.rewriter import RewritingTracer
from mindtorch_v2.fx.immutable_collections import immutable_dict, immutable_list
from mindtorch_v2.fx.node import _format_arg
from mindtorch_v2.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from mindtorch_v2.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from mindtorch_v2.fx.passes.utils.matcher_utils import SubgraphMatcher
from mindtorch_v2.utils import _pytree as pytree


@fx.wrap
def halved(x):
    return x / 2 if x.sum() > 0 else x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)
        self.w = nn.Parameter(torch.ones(3))
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
        self.register_buffer("shift", torch.full((3,), 0.5))

    def forward(self, x, scale=2):
        a = torch.relu(self.lin(x)) + self.w * scale - self.shift
        return {"out": self.seq(a), "rest": (a[:, 0:2].view(-1, a.size(0)), a.shape[1], math.sqrt(4.0))}


CODE = '''


def forward(self, x, scale = 2):
    lin = self.lin(x);  x = None
    relu = torch.relu(lin);  lin = None
    w = self.w
    mul = w * scale;  w = scale = None
    add = relu + mul;  relu = mul = None
    shift = self.shift
    sub = add - shift;  add = shift = None
    seq_0 = getattr(self.seq, "0")(sub)
    seq_1 = getattr(self.seq, "1")(seq_0);  seq_0 = None
    getitem = sub[(slice(None, None, None), slice(0, 2, None))]
    size = sub.size(0)
    view = getitem.view(-1, size);  getitem = size = None
    getattr_1 = sub.shape;  sub = None
    getitem_1 = getattr_1[1];  getattr_1 = None
    return {'out': seq_1, 'rest': (view, getitem_1, 2.0)}
    '''


@pytest.fixture
def traced():
    torch.manual_seed(0)
    net = Net()
    return net, fx.symbolic_trace(net), torch.randn(2, 4)


def test_the_code_of_a_module(traced):
    assert traced[1].code == CODE


def test_a_traced_module_computes_what_the_module_does(traced):
    net, module, x = traced
    expected, got = net(x, 3), module(x, 3)
    assert torch.equal(expected["out"], got["out"]) and torch.equal(expected["rest"][0], got["rest"][0])
    assert expected["rest"][1:] == got["rest"][1:]
    assert list(module.state_dict()) == list(net.state_dict())
    got["out"].sum().backward()
    assert net.lin.weight.grad is module.lin.weight.grad is not None


def test_the_text_of_a_graph():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.add, (x, 1))
    graph.output(graph.call_method("relu", (y,)))
    assert str(graph) == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %add : [num_users=1] = call_function[target=torch.add](args = (%x, 1), kwargs = {})\n"
        "    %relu : [num_users=1] = call_method[target=relu](args = (%add,), kwargs = {})\n"
        "    return relu")
    module = fx.GraphModule(nn.Module(), graph)
    assert module(torch.tensor([-3.0, 1.0])).tolist() == [0.0, 2.0]


def test_nodes_can_be_replaced_inserted_and_erased():
    module = fx.symbolic_trace(lambda x: torch.neg(x) + 1)
    graph = module.graph
    (neg,) = graph.find_nodes(op="call_function", target=torch.neg)
    with pytest.raises(RuntimeError, match="Tried to erase Node neg but it still had 1 users in the graph"):
        graph.erase_node(neg)
    with graph.inserting_after(neg):
        new = graph.call_function(torch.exp, neg.args)
    assert neg.replace_all_uses_with(new) == [next(n for n in graph.nodes if n.name == "add")]
    graph.erase_node(neg)
    graph.lint()
    module.recompile()
    assert [n.name for n in graph.nodes] == ["x", "exp", "add", "output"]
    assert torch.equal(module(torch.zeros(2)), torch.full((2,), 2.0))


def test_what_nobody_uses_goes_and_what_writes_stays():
    def function(x):
        x.add_(1)
        torch.exp(x)
        return x * 2

    module = fx.symbolic_trace(function)
    assert module.graph.eliminate_dead_code()
    assert [n.name for n in module.graph.nodes] == ["x", "add_", "mul", "output"]


def test_lint_finds_a_node_of_another_graph():
    graph, other = fx.Graph(), fx.Graph()
    graph.call_function(torch.neg, (other.placeholder("z"),))
    with pytest.raises(RuntimeError, match="Argument 'z' of Node 'neg' does not belong to this Graph"):
        graph.lint()


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, fx.proxy.TraceError, "cannot be used as inputs to control flow"),
        (lambda x: [row for row in x], fx.proxy.TraceError, "Proxy object cannot be iterated"),
        (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing by default"),
    ],
)
def test_what_a_graph_cannot_say_is_refused(function, kind, message):
    with pytest.raises(kind, match=message):
        fx.symbolic_trace(function)


def test_unpacking_a_known_number_of_values_is_traced():
    def function(x):
        a, b = x
        return a - b

    assert fx.symbolic_trace(function)(torch.tensor([5.0, 2.0])).item() == 3.0


def test_wrapped_functions_are_one_node():
    module = fx.symbolic_trace(lambda x: halved(x) + 1)
    assert [n.target for n in module.graph.nodes if n.op == "call_function"] == [halved, operator.add]
    assert module(torch.tensor([4.0])).item() == 3.0


def test_star_arguments_and_annotations_are_kept():
    def function(x: torch.Tensor, *rest, **named) -> torch.Tensor:
        return x + rest[0] * named["k"]

    module = fx.symbolic_trace(function)
    assert "def forward(self, x : torch.Tensor, *rest, **named) -> torch.Tensor:" in module.code
    assert module(torch.ones(1), 2, k=3).item() == 7.0


def test_concrete_arguments_are_checked_when_the_module_runs():
    module = fx.symbolic_trace(lambda x, flag: x * 2 if flag else x, concrete_args={"flag": True})
    assert module(torch.ones(1), True).item() == 2.0
    with pytest.raises(AssertionError, match="flag has been specialized to have value True but got another value"):
        module(torch.ones(1), False)


def test_a_tensor_that_is_no_attribute_becomes_a_constant():
    module = fx.symbolic_trace(lambda x: torch.tensor([1, 2]) + x)
    assert module._tensor_constant0.tolist() == [1, 2]
    assert module(torch.tensor([1, 1])).tolist() == [2, 3]


def test_nn_functional_with_keywords_is_one_node():
    module = fx.symbolic_trace(lambda x, y: nn.functional.cross_entropy(x, y, label_smoothing=0.1))
    assert [n.target.__name__ for n in module.graph.nodes if n.op == "call_function"] == ["cross_entropy"]
    x, y = torch.randn(3, 4), torch.tensor([0, 1, 2])
    assert torch.equal(module(x, y), nn.functional.cross_entropy(x, y, label_smoothing=0.1))


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles_run(traced, again):
    net, module, x = traced
    other = again(module)
    assert other.code == module.code and type(other).__name__ == "Net"
    assert torch.equal(other(x)["out"], net(x)["out"])


def test_an_interpreter_runs_the_nodes(traced):
    net, module, x = traced
    seen = []

    class Watching(fx.Interpreter):
        def run_node(self, n):
            result = super().run_node(n)
            seen.append((n.op, n.name))
            return result

    assert torch.equal(Watching(module).run(x)["out"], net(x)["out"])
    assert seen[0] == ("placeholder", "x") and seen[-1] == ("output", "output") and len(seen) == len(module.graph.nodes)


def test_an_interpreter_says_which_node_failed():
    module = fx.symbolic_trace(lambda x: x.sum() + x.missing)
    with pytest.raises(AttributeError) as error:
        fx.Interpreter(module).run(torch.ones(1))
    assert "While executing %getattr_1" in error.value.__notes__[0]


def test_a_transformer_rewrites_a_graph():
    class Swapped(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.sigmoid if target is torch.relu else target, args, kwargs)

    module = Swapped(fx.symbolic_trace(lambda x: torch.relu(x) * 2)).transform()
    assert torch.equal(module(torch.zeros(1)), torch.ones(1))


def test_a_tracer_decides_which_modules_it_looks_into(traced):
    class Deep(fx.Tracer):
        def is_leaf_module(self, m, name):
            return not isinstance(m, nn.Linear) and super().is_leaf_module(m, name)

    net, _, x = traced
    module = fx.GraphModule(net, Deep().trace(net))
    assert not any(n.op == "call_module" and n.target == "lin" for n in module.graph.nodes)
    assert torch.equal(module(x)["out"], net(x)["out"])


def test_submodules_can_be_added_and_deleted(traced):
    _, module, _ = traced
    assert module.add_submodule("extra.inner", nn.Linear(1, 1)) and module.get_submodule("extra.inner").in_features == 1
    module.delete_all_unused_submodules()
    assert not hasattr(module, "extra") and hasattr(module.seq, "0")


# replacing parts -----------------------------------------------------------------------------------------------------


def rewritten(function, pattern, replacement, **options):
    """How many occurrences were replaced, and the lines of the function that came out."""
    module = fx.symbolic_trace(function)
    found = subgraph_rewriter.replace_pattern_with_filters(module, pattern, replacement, **options)
    module.graph.lint()
    return len(found), [line.partition(";")[0].strip() for line in module.code.strip().splitlines()[1:]]


@pytest.mark.parametrize("function, pattern, replacement, count, lines", [
    (lambda x, w1, w2: x + torch.cat([w1, w2]).sum() + torch.cat([w1, w2]).sum(), lambda w1, w2: torch.cat([w1, w2]),
     lambda w1, w2: torch.stack([w1, w2]), 2,
     ["stack = torch.stack([w1, w2])", "sum_1 = stack.sum()", "add = x + sum_1", "stack_1 = torch.stack([w1, w2])",
      "sum_2 = stack_1.sum()", "add_1 = add + sum_2", "return add_1"]),
    (lambda x: torch.add(x, 1) + torch.add(x, 2), lambda x: torch.add(x, 1), lambda x: torch.sub(x, 1), 1,
     ["add_1 = torch.add(x, 2)", "sub = torch.sub(x, 1)", "add_2 = sub + add_1", "return add_2"]),
    (lambda x: torch.sum(x, 1), lambda x, dim: torch.sum(x, dim), lambda x, dim: torch.mean(x, dim), 1,
     ["mean = torch.mean(x, 1)", "return mean"]),
    (lambda x: torch.neg(torch.neg(torch.neg(x))), lambda x: torch.neg(torch.neg(x)), lambda x: x.abs(), 1,
     ["abs_1 = x.abs()", "neg_2 = torch.neg(abs_1)", "return neg_2"]),
    (lambda x: torch.neg(torch.neg(x)), lambda x: torch.neg(x), lambda x: torch.relu(x), 2,
     ["relu = torch.relu(x)", "relu_1 = torch.relu(relu)", "return relu_1"]),
    (lambda x: torch.relu(torch.neg(x)) + 1, lambda x: torch.relu(torch.neg(x)), lambda x: x, 1,
     ["add = x + 1", "return add"]),
    (lambda x, y: torch.mul(x, x) + torch.mul(x, y), lambda a: torch.mul(a, a), lambda a: torch.pow(a, 2), 1,
     ["mul_1 = torch.mul(x, y)", "pow_1 = torch.pow(x, 2)", "add = pow_1 + mul_1", "return add"]),
])
def test_a_pattern_is_replaced_where_it_occurs(function, pattern, replacement, count, lines):
    found, made = rewritten(function, pattern, replacement)
    assert found == count
    assert sorted(made) == sorted(lines)
    assert made[-1] == lines[-1]


def test_a_pattern_with_two_results():
    module = fx.symbolic_trace(lambda x: x.relu() + x.sigmoid())
    found = fx.replace_pattern(module, lambda x: (x.relu(), x.sigmoid()), lambda x: (x.tanh(), x.exp()))
    assert len(found) == 1
    x = torch.tensor([0.5, -1.0])
    assert torch.equal(module(x), x.tanh() + x.exp())


def test_what_is_used_outside_of_the_pattern_keeps_it_from_matching():
    def function(x):
        inner = torch.neg(x)
        return torch.relu(inner) + inner

    assert rewritten(function, lambda x: torch.relu(torch.neg(x)), lambda x: x)[0] == 0


def test_filters_callbacks_and_numbers_that_do_not_matter():
    def function(x):
        return torch.add(x, 1) + torch.add(x, 2)

    def second(match, graph, pattern):
        return any(node.name == "add_1" for node in match.nodes_map.values())

    assert rewritten(function, lambda x: torch.add(x, 5), lambda x: torch.sub(x, 1))[0] == 0
    assert rewritten(function, lambda x: torch.add(x, 5), lambda x: torch.sub(x, 1), ignore_literals=True,
                     match_filters=[second])[0] == 1
    found, lines = rewritten(function, lambda x: torch.add(x, 1), None,
                             replacement_callback=lambda *_: fx.symbolic_trace(lambda x: torch.abs(x)).graph)
    assert (found, "abs_1 = torch.abs(x)" in lines) == (1, True)
    with pytest.raises(AssertionError, match="Must provide either a replacement GraphModule or a replacement callback"):
        rewritten(function, lambda x: torch.add(x, 1), None)
    with pytest.raises(AssertionError, match="Placeholder count mismatch: 1 vs 2"):
        rewritten(function, lambda x: torch.add(x, 1), lambda x, y: torch.add(x, y))


def test_modules_of_the_replacement_come_along():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)

        def forward(self, x):
            return self.bn(self.conv(x)) + 1

    class Pattern(Net):
        def forward(self, x):
            return self.bn(self.conv(x))

    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.w = nn.Linear(2, 2), nn.Parameter(torch.ones(1))

        def forward(self, x):
            return self.lin(x) * self.w

    module = fx.symbolic_trace(Net())
    replacement = fx.symbolic_trace(Replacement())
    assert len(subgraph_rewriter.replace_pattern(module, Pattern(), replacement)) == 1
    assert [name for name, _ in module.named_modules()] == ["", "lin"]
    assert [name for name, _ in module.named_parameters()] == ["w", "lin.weight", "lin.bias"]
    x = torch.randn(3, 2)
    assert torch.equal(module(x), replacement(x) + 1)


def test_a_matcher_says_what_stands_for_what():
    graph = fx.symbolic_trace(lambda x: torch.neg(torch.relu(x)) + torch.neg(torch.relu(x + 1))).graph
    pattern = fx.symbolic_trace(lambda x: torch.neg(torch.relu(x))).graph
    found = SubgraphMatcher(pattern).match(graph)
    assert [([n.name for n in m.placeholder_nodes], [n.name for n in m.returning_nodes]) for m in found] == [
        (["x"], ["neg"]), (["add"], ["neg_1"])]
    assert {p.name: n.name for p, n in found[1].nodes_map.items()} == {"neg": "neg_1", "relu": "relu_1", "x": "add"}
    twice = fx.symbolic_trace(lambda x: torch.neg(torch.neg(x))).graph
    thrice = fx.symbolic_trace(lambda x: torch.neg(torch.neg(torch.neg(x)))).graph
    assert len(SubgraphMatcher(twice).match(thrice)) == 1
    assert len(SubgraphMatcher(twice, remove_overlapping_matches=False).match(thrice)) == 2
    with pytest.raises(ValueError, match="SubgraphMatcher cannot be initialized with an empty pattern"):
        SubgraphMatcher(fx.Graph())


def test_code_names_operators_where_programs_find_them():
    graph = fx.Graph()
    x = graph.placeholder("x")
    mark = graph.call_function(torch.ops.profiler._record_function_enter, ("mine",))
    made = graph.call_function(torch.ops.aten.neg.default, (x,))
    graph.call_function(torch.ops.profiler._record_function_exit, (mark,))
    graph.output(made)
    module = fx.GraphModule(nn.Module(), graph)
    assert "torch.ops.profiler._record_function_enter('mine')" in module.code
    assert "torch.ops.aten.neg.default(x)" in module.code
    assert module(torch.ones(1)).item() == -1.0


class Colour(enum.Enum):
    RED = 1


class Named(typing.NamedTuple):
    left: object
    right: object


@fx.wrap
def leaf(x, more):
    return x


def test_arguments_of_a_node_are_assigned_and_not_changed():
    graph = fx.symbolic_trace(lambda x: leaf([x, 1], {"a": x})).graph
    node = next(n for n in graph.nodes if n.op == "call_function")
    assert type(node.args[0]) is immutable_list and type(node.args[1]) is immutable_dict
    for change in (lambda: node.args[0].append(2), lambda: node.args[1].update(b=1), lambda: node.kwargs.pop("a")):
        with pytest.raises(TypeError, match=r"does not support mutation. If you are attempting to modify the kwargs"):
            change()
    assert pickle.loads(pickle.dumps(node.args[0][1:])) == [1]
    assert pytree.tree_map(lambda v: v, immutable_dict(a=immutable_list([1]))) == {"a": [1]}


def test_values_that_code_writes_in_their_own_way():
    def function(x, y: typing.List[str], z: list[int]) -> typing.Dict[str, torch.Tensor]:  # noqa: UP006
        return leaf(Named(x, Colour.RED), 1)

    made = fx.symbolic_trace(function)
    assert "y : typing_List[str], z : list[int]) -> typing_Dict[str,torch.Tensor]:" in made.code
    assert "(x, Colour.RED)" in made.code
    assert [n.target for n in made.graph.nodes if n.op == "call_function"] == [Named, leaf]
    assert made(3, [], []) == Named(3, Colour.RED)
    assert f" from {__file__}:" in made.forward.__code__.co_filename
    assert _format_arg([1, (2,), {"a": 3}]) == "[1, (2,), {a: 3}]"


def test_a_specialised_argument_keeps_its_default_and_is_checked_where_it_can_be():
    def function(x, val=None):
        return x if val is None else x + val

    made = fx.symbolic_trace(function, {"val": None})
    assert made(2) == 2
    with pytest.raises(AssertionError, match="val has been specialized to have value None but got another value"):
        made(2, 3)
    with pytest.warns(UserWarning, match="Was not able to add assertion to guarantee correct input f"):
        made = fx.symbolic_trace(lambda a, f: f(a), {"f": lambda x: x * 2})
    assert made(3, None) == 6


def test_keys_of_dicts_and_functions_to_trace_are_checked():
    with pytest.raises(RuntimeError, match="used as an argument cannot contain a Node. Got key: x"):
        fx.symbolic_trace(lambda x: leaf({x: x}, 1))
    tracer = fx.Tracer()
    tracer.traced_func_name = "nope"
    with pytest.raises(AssertionError, match="traced_func_name=nope doesn't exist in Linear"):
        tracer.trace(nn.Linear(2, 2))


def test_nodes_say_where_they_come_from():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"PascalCase": nn.ReLU()})

        def forward(self, x):
            part = self.parts["PascalCase"]
            return part(part(x))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return abs(self.inner(x))

    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    module = Outer()
    graph = tracer.trace(module)
    names = [node.name for node in graph.nodes]
    assert names == ["x", "inner_parts_pascal_case", "inner_parts_pascal_case_1", "abs_1", "output"]
    first, second, last = [node for node in graph.nodes][1:4]
    assert list(first.meta["nn_module_stack"]) == ["inner", "inner.parts.PascalCase"]
    assert list(second.meta["nn_module_stack"].items())[1] == ("inner.parts.PascalCase@1",
                                                               ("inner.parts.PascalCase", nn.ReLU))
    assert "nn_module_stack" not in last.meta and last.target is operator.abs
    assert "return part(part(x))" in first.stack_trace and "return abs(" in first.stack_trace
    again = fx.Transformer(fx.GraphModule(module, graph)).transform()
    assert [n.stack_trace for n in again.graph.nodes][1:4] == [n.stack_trace for n in graph.nodes][1:4]
    copied = copy.deepcopy(tracer)
    assert str(copied.graph) == str(graph) and copied.graph is not graph


def test_shapes_of_parameters_may_decide():
    class Chooses(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size, 3))

        def forward(self, x):
            w = self.weight
            small = w.shape[0] < 10 and w.size()[0] < 10 and w.dim() == 2 and w.ndim == 2 and w.numel() < 30
            return x if small and w.nelement() < 30 else x + w

    graphs = [fx.Tracer(param_shapes_constant=True).trace(Chooses(size)) for size in (5, 15)]
    assert [len(graph.nodes) for graph in graphs] == [3, 4]
    with pytest.raises(fx.proxy.TraceError, match="inputs to control flow"):
        fx.symbolic_trace(Chooses(5))


def test_what_a_graph_names_has_to_exist():
    made = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    with pytest.warns(UserWarning, match="Attempted to insert a get_attr Node with no underlying reference"):
        made.graph.get_attr("absent")
    with pytest.raises(AttributeError, match="has no attribute `absent`"):
        made.graph.call_module("absent")


def test_a_wrong_call_of_generated_code_is_shown(capfd):
    made = fx.symbolic_trace(lambda x: torch.dot(x, x).relu())
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        made(5)
    shown = capfd.readouterr().err
    assert "Call using an FX-traced Module, line 5 of the traced Module's generated forward function:" in shown
    assert "    dot = torch.dot(x, x);  x = None\n\n~" in shown and " <--- HERE\n    relu = dot.relu()" in shown


def test_operators_by_name_are_recorded():
    made = fx.symbolic_trace(lambda x: (torch.ops.aten.sigmoid(x), torch.ops.aten.add.Tensor(x, 1)))
    targets = [node.target for node in made.graph.nodes if node.op == "call_function"]
    assert targets == [torch.ops.aten.sigmoid, torch.ops.aten.add.Tensor]
    torch.testing.assert_close(made(torch.zeros(2)), (torch.full((2,), 0.5), torch.ones(2)))
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        torch.ops.aten.sigmoid("x")


def test_objects_of_proxyable_classes_are_constants():
    class Pair(metaclass=fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

        def add(self, other):
            return Pair(self.left + other.left, self.right + other.right)

    made = fx.symbolic_trace(lambda pair: pair.add(Pair(1, 2)))
    assert (made(Pair(3, 4)).left, made(Pair(3, 4)).right) == (4, 6)
    assert "_Pair_constant_0" in made.code


def test_assertions_are_rewritten():
    limit = 5

    def checked(x, y: int, w=2):
        assert y == limit, "another one"
        return leaf(x, 1) * w

    tracer = RewritingTracer()
    made = fx.GraphModule(tracer.root, tracer.trace(checked))
    assert torch._assert in [node.target for node in made.graph.nodes]
    assert made(3, 5) == 6
    with pytest.raises(AssertionError, match="another one"):
        made(3, 6)

    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def forward(self, x):
            assert x.dim() == 2
            return self.norm(x)

    tracer = RewritingTracer()
    targets = [node.target for node in tracer.trace(Holds()).nodes]
    assert "norm" in targets and torch._assert in targets


def test_equal_calls_become_one():
    def function(x):
        return x.sum(dim=1) + x.sum(dim=1, keepdim=False) + x.sum() + torch.rand_like(x) + torch.rand_like(x)

    made = make_fx(function)(torch.ones(2, 2))
    first = CSEPass(banned_ops=get_CSE_banned_ops())(made)
    assert first.modified and len(first.graph_module.graph.nodes) == len(made.graph.nodes) - 1
    assert not CSEPass(banned_ops=get_CSE_banned_ops())(first.graph_module).modified
    assert {torch.ops.aten.randint_like, torch.ops.aten.dropout, torch.ops.aten.rand} <= get_CSE_banned_ops()
    changes = make_fx(lambda x: x.add_(1) + x.add_(1))(torch.ones(2))
    assert not CSEPass()(changes).modified


def test_passes_run_in_an_order_that_constraints_allow():
    ran = []

    def a(module):
        ran.append("a")

    def b(module):
        ran.append("b")

    module = fx.symbolic_trace(lambda x: x + 1)
    one, two = pass_result_wrapper(b), pass_result_wrapper(a)
    manager = PassManager([one, two], [this_before_that_pass_constraint(two, one)], steps=2)
    assert manager(module).modified and ran == ["a", "b"] * 2
    with pytest.raises(RuntimeError, match="Circular dependency detected"):
        PassManager([one, two], [this_before_that_pass_constraint(one, two),
                                 this_before_that_pass_constraint(two, one)])(module)
    with pytest.raises(TypeError, match="should only take in one variable, a module"):
        manager.add_checks(lambda one, two: None)
    with pytest.raises(Exception, match=r"running the 'a' pass after the following passes: \['b'\]"):
        PassManager([one, a])(module)


def test_a_proxy_can_be_copied():
    node = next(n for n in fx.symbolic_trace(lambda x: x * 2).graph.nodes if n.name == "mul")
    copied = copy.deepcopy(fx.Proxy(node))
    assert isinstance(copied, fx.Proxy) and copied.node is not node and copied.node.name == "mul"


def test_generated_output_gets_the_nodes():
    class Listing(fx.CodeGen):
        def generate_output(self, output_args):
            return f"return list({output_args!r})"

    made = fx.symbolic_trace(lambda a, b: (a + b, b))
    made.graph.set_codegen(Listing())
    made.recompile()
    assert made(1, 2) == [3, 2]


def test_numbers_of_tensors_are_nodes():
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty_strided((2, 3), (5, 2), device="meta")
    made = graph.create_size_node(x, 1), graph.create_stride_node(x, 0), graph.create_storage_offset_node(x)
    graph.output(made)
    assert [node.meta["val"] for node in made] == [3, 5, 0]
    assert made[0].target is torch.ops.aten.sym_size.int
    assert fx.GraphModule(nn.Module(), graph)(torch.ones(4, 7)) == (7, 7, 0)
