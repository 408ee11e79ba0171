"""torch.compile: its arguments, errors and what it gives back; what is recorded is in test_compile_graphs.py."""

import copy
import pickle
import subprocess
import sys

import pytest

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
from mindtorch_v2._dynamo import exc


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    torch.compiler.set_stance("default")
    torch.compiler.set_default_backend(None)


def plus_one(x):
    """Adds one."""
    return x + 1


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, by=1):
        self.seen += 1
        return x * self.weight * by

    def other(self, x):
        return x - self.weight


# arguments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["nope", "Eager", ""])
@pytest.mark.parametrize("disable", [False, True])
def test_an_unknown_backend_is_refused_before_any_call(backend, disable):
    for model in (plus_one, Scaled()):
        with pytest.raises(exc.InvalidBackend) as caught:
            torch.compile(model, backend=backend, disable=disable)
        assert str(caught.value) == (
            f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for available backends."
        )
    assert issubclass(exc.InvalidBackend, RuntimeError)
    with pytest.raises(exc.InvalidBackend):
        Scaled().compile(backend=backend)
    with pytest.raises(exc.InvalidBackend):
        dynamo.optimize(backend)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (
            dict(mode="default", options={}),
            RuntimeError,
            "Either mode or options can be specified, but both can't be specified at the same time.",
        ),
        (
            dict(mode="fast"),
            RuntimeError,
            "Unrecognized mode=fast, should be one of: default, lite, reduce-overhead, "
            "max-autotune-no-cudagraphs, max-autotune",
        ),
        (
            dict(options={"max_autotune": "x"}),
            RuntimeError,
            "Unexpected type of attr max_autotune, got str should be bool",
        ),
        (dict(options=[1]), AttributeError, "'list' object has no attribute 'items'"),
        (dict(dynamic=3), AssertionError, "Expected enable to be a bool, got <class 'int'>"),
        (dict(foo=1), TypeError, "compile() got an unexpected keyword argument 'foo'"),
    ],
)
def test_wrong_arguments(arguments, error, text):
    with pytest.raises(error) as caught:
        torch.compile(plus_one, **arguments)
    assert str(caught.value) == text


def test_options_are_checked_by_name():
    with pytest.raises(RuntimeError, match="Unexpected optimization option fast, known options are \\["):
        torch.compile(plus_one, options={"fast": True})
    compiled = torch.compile(plus_one, options={"triton.cudagraphs": False, "max-autotune": True})
    assert compiled(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("model", [3, "f"])
def test_only_callables_are_compiled(model):
    with pytest.raises(AssertionError) as caught:
        torch.compile(model)
    assert str(caught.value) == f"A callable function is expected, but {type(model)} is provided."


def test_disable_gives_the_function_itself():
    module = Scaled()
    assert torch.compile(plus_one, disable=True) is plus_one
    assert torch.compile(module, disable=True) is module


def test_as_a_decorator():
    @torch.compile
    def first(x):
        return x + 1

    @torch.compile(backend="eager", fullgraph=True)
    def second(x):
        return x + 2

    assert first(torch.ones(2)).tolist() == [2, 2]
    assert second(torch.ones(2)).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="Model can't be None"):
        torch.compile()(None)


def test_a_compiled_function_looks_like_the_function():
    compiled = torch.compile(plus_one)
    assert compiled.__name__ == "plus_one" and compiled.__doc__ == "Adds one." and compiled.__wrapped__ is plus_one
    assert compiled._torchdynamo_orig_callable is plus_one
    assert torch.compile(compiled)._torchdynamo_orig_callable is plus_one


def test_methods_classes_and_callable_objects():
    module = Scaled()
    x = torch.tensor([1.0, 1.0])
    assert torch.compile(module.other)(x).tolist() == [-1, -2]

    class Adder:
        def __call__(self, x):
            return x + 1

    assert torch.compile(Adder())(x).tolist() == [2, 2]
    assert torch.compile(Adder) is Adder and Adder()(x).tolist() == [2, 2]
    assert torch.compile(torch.neg)(x).tolist() == [-1, -1]

    class Holder:
        @torch.compile
        def method(self, x):
            return x * 3

    assert Holder().method(x).tolist() == [3, 3]


# backends ------------------------------------------------------------------------------------------------------------


def test_names_of_backends():
    assert {"cudagraphs", "inductor"} <= set(dynamo.list_backends()) == set(torch.compiler.list_backends())
    assert {"eager", "aot_eager"} <= set(dynamo.list_backends(None)) and "eager" not in dynamo.list_backends()
    assert dynamo.lookup_backend(plus_one) is plus_one
    assert callable(dynamo.lookup_backend("eager"))


def test_registering_a_backend():
    @dynamo.register_backend(name="of_this_test", tags=("debug",))
    def mine(gm, inputs):
        return gm.forward

    assert dynamo.lookup_backend("of_this_test") is mine
    assert "of_this_test" in dynamo.list_backends(()) and "of_this_test" not in dynamo.list_backends()
    assert torch.compile(plus_one, backend="of_this_test")(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="duplicate name: of_this_test"):
        dynamo.register_backend(mine, "of_this_test")
    with pytest.raises(AssertionError, match="compiler_fn must be callable, got <class 'int'>"):
        dynamo.register_backend(3, "number")


def test_modes_and_options_are_listed():
    import mindtorch_v2._inductor as inductor

    assert inductor.list_mode_options()["reduce-overhead"] == {"triton.cudagraphs": True}
    assert inductor.list_mode_options("max-autotune")["max_autotune"] is True
    assert {"max_autotune", "triton.cudagraphs", "epilogue_fusion"} <= set(inductor.list_options())


# OptimizedModule -----------------------------------------------------------------------------------------------------


def test_an_optimized_module_passes_attributes_on():
    module = Scaled()
    compiled = torch.compile(module)
    assert type(compiled) is dynamo.OptimizedModule and compiled._orig_mod is module
    assert not isinstance(compiled, Scaled)
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.seen"]
    assert [name for name, _ in compiled.named_parameters()] == ["_orig_mod.weight"]
    assert compiled.weight is module.weight
    compiled.extra = 3
    assert module.extra == 3 and "extra" not in vars(compiled)
    del compiled.extra
    assert not hasattr(module, "extra")
    with pytest.raises(AttributeError, match="'Scaled' object has no attribute 'nope'"):
        compiled.nope
    assert repr(compiled) == "OptimizedModule(\n  (_orig_mod): Scaled()\n)"
    assert compiled.other(torch.ones(2)).tolist() == [-1, -2]
    assert "other" in dir(compiled)


def test_an_optimized_module_runs_the_module():
    module = Scaled()
    compiled = torch.compile(module)
    out = compiled(torch.ones(2), by=2)
    assert out.tolist() == [4, 6] and module.seen.item() == 1
    out.sum().backward()
    assert module.weight.grad.tolist() == [2, 2]
    assert compiled.eval() is compiled and not module.training and not compiled.training
    compiled.train()
    assert module.training
    compiled.training = False
    assert not module.training
    module.train()
    assert compiled.training and "training" not in compiled.state_dict()


def test_hooks_of_both_modules_run():
    module = Scaled()
    compiled = torch.compile(module)
    seen = []
    module.register_forward_hook(lambda m, args, out: seen.append("inner"))
    compiled.register_forward_hook(lambda m, args, out: seen.append("outer"))
    compiled(torch.ones(2))
    assert seen == ["inner", "outer"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_optimized_modules_are_copied(copied):
    compiled = torch.compile(Scaled(), backend="eager", mode="default")
    twin = copied(compiled)
    assert type(twin) is type(compiled) and twin._orig_mod is not compiled._orig_mod
    with torch.no_grad():
        twin.weight.mul_(10)
    assert twin(torch.ones(2)).tolist() == [20, 30] and compiled(torch.ones(2)).tolist() == [2, 3]


def test_containers_keep_their_length():
    compiled = torch.compile(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()))
    assert len(compiled) == 2
    with pytest.raises(TypeError, match="'OptimizedModule' object is not subscriptable"):
        compiled[0]


# torch.compiler ------------------------------------------------------------------------------------------------------


def test_programs_can_ask_whether_they_are_compiled():
    def asks(x):
        return torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling(), dynamo.is_compiling()

    assert asks(None) == (False, False, False)
    for backend in ("inductor", "eager"):
        assert torch.compile(asks, backend=backend)(torch.ones(2)) == (True, True, True)
    assert asks(None) == (False, False, False)
    assert not torch.compiler.is_exporting()


def test_it_ends_when_the_function_fails():
    @torch.compile
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails(torch.ones(2))
    assert not torch.compiler.is_compiling()


def test_disabled_functions_are_not_part_of_a_compiled_one():
    @torch.compiler.disable
    def apart(x):
        """Apart."""
        return torch.compiler.is_compiling(), x + 1

    @torch.compiler.disable(reason="it prints")
    def explained(x):
        return x

    def calls(x):
        before, y = apart(x * 2)
        return before, torch.compiler.is_compiling(), y * 2

    assert torch.compile(calls)(torch.ones(2))[:2] == (False, True)
    assert torch.compile(calls)(torch.ones(2))[2].tolist() == [6, 6]
    assert (
        apart.__doc__ == "Apart." and apart._torchdynamo_disable and explained._torchdynamo_disable_msg == "it prints"
    )
    assert dynamo.is_dynamo_disable_recursive(apart) and dynamo.is_dynamo_disable_recursive(calls) is None
    assert torch.compiler.disable(plus_one, recursive=False) is plus_one
    del plus_one._torchdynamo_disable
    module = torch.compiler.disable(Scaled())
    assert type(module) is dynamo.OptimizedModule and module(torch.ones(2)).tolist() == [2, 3]
    with pytest.raises(AssertionError, match="A callable function is expected, but <class 'int'> is provided."):
        torch.compiler.disable(3)


def test_marks_on_functions_and_tensors():
    assert torch.compiler.allow_in_graph(plus_one) is plus_one
    assert torch.compiler.assume_constant_result(plus_one) is plus_one
    assert torch.compiler.nested_compile_region(plus_one) is plus_one
    with pytest.raises(AssertionError, match="allow_in_graph expects a callable"):
        torch.compiler.allow_in_graph(3)
    with pytest.raises(TypeError, match="substitute_in_graph expects a function but got <class 'int'>"):
        torch.compiler.substitute_in_graph(3)
    with pytest.raises(TypeError, match="Signature mismatch"):
        torch.compiler.substitute_in_graph(plus_one)(lambda a, b: a)
    x = torch.ones(2, 3)
    dynamo.mark_dynamic(x, 0)
    dynamo.maybe_mark_dynamic(x, [0, 1])
    dynamo.mark_static(x, 1)
    assert x._dynamo_dynamic_indices == {0} and x._dynamo_weak_dynamic_indices == {0, 1}
    assert x._dynamo_static_indices == {1}
    dynamo.mark_static_address(x)
    dynamo.graph_break()
    torch.compiler.cudagraph_mark_step_begin()
    assert dynamo.run(plus_one)(x).tolist() == [[2, 2, 2]] * 2
    assert torch.compiler.wrap_numpy(lambda a: a + 1)(x).tolist() == [[2, 2, 2]] * 2
    assert torch.compiler.save_cache_artifacts() is None


def test_the_default_backend():
    seen = []

    def mine(gm, inputs):
        seen.append(gm)
        return gm.forward

    assert torch.compiler.get_default_backend() == "inductor"
    torch.compiler.set_default_backend(mine)
    assert torch.compiler.get_default_backend() is mine
    torch.compile(plus_one)(torch.ones(2))
    assert len(seen) == 1
    with pytest.raises(TypeError, match="backend must be a string or callable, got <class 'int'>"):
        torch.compiler.set_default_backend(3)


def test_module_compile_works_in_place():
    module = Scaled()
    seen = []

    def mine(gm, inputs):
        seen.append(gm)
        return gm.forward

    assert module.compile(backend=mine) is None
    assert list(module.state_dict()) == ["weight", "seen"]
    module.register_forward_hook(lambda m, args, out: out + 1)
    assert module(torch.ones(2)).tolist() == [3, 4] and len(seen) > 0
    assert "_compiled_call_impl" not in module.__getstate__()


def test_stances_are_restored():
    counted = dynamo.testing.CompileCounter()
    compiled = torch.compile(plus_one, backend=counted)
    with torch.compiler.set_stance("force_eager"):
        compiled(torch.ones(2))
    assert counted.frame_count == 0

    @torch.compiler.set_stance("force_eager")
    def eagerly(x):
        return compiled(x)

    assert eagerly(torch.ones(2)).tolist() == [2, 2] and counted.frame_count == 0
    compiled(torch.ones(2))
    assert counted.frame_count == 1
    torch.compiler.set_stance("force_eager")
    compiled(torch.ones(3).double())
    assert counted.frame_count == 1
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        torch.compiler.set_stance("force_eager", force_backend="eager")
    torch.compiler.set_stance("sideways")
    with pytest.raises(RuntimeError, match="invalid torch.compile stance 'DynamoStance\\(stance='sideways'"):
        compiled(torch.ones(2))


def test_a_stance_can_name_a_backend():
    counted, other = dynamo.testing.CompileCounter(), dynamo.testing.CompileCounter()
    compiled = torch.compile(plus_one, backend=counted)
    with torch.compiler.set_stance(force_backend=other):
        compiled(torch.ones(2))
    assert (counted.frame_count, other.frame_count) == (0, 1)


# settings ------------------------------------------------------------------------------------------------------------


def test_settings_have_known_names():
    import mindtorch_v2._inductor.config as inductor

    assert dynamo.config.recompile_limit == 8 and dynamo.config.cache_size_limit == 8
    with pytest.raises(AttributeError, match="torch._dynamo.config.zzz does not exist"):
        dynamo.config.zzz = 1
    with pytest.raises(AttributeError, match="torch._inductor.config.zzz does not exist"):
        inductor.zzz
    with dynamo.config.patch(recompile_limit=5):
        assert dynamo.config.recompile_limit == torch.compiler.config.recompile_limit == 5
    with dynamo.config.patch("cache_size_limit", 6):
        assert dynamo.config.recompile_limit == 6
    with dynamo.config.patch({"suppress_errors": True}):
        assert dynamo.config.suppress_errors
    assert dynamo.config.recompile_limit == 8 and not dynamo.config.suppress_errors
    with pytest.raises(AttributeError, match="torch._dynamo.config.zz does not exist"), dynamo.config.patch(zz=5):
        pass
    inductor.triton.cudagraphs = True
    assert inductor.get_config_copy()["triton.cudagraphs"] and inductor.triton.cudagraphs
    inductor.triton.cudagraphs = False
    for name in ("coordinate_descent_tuning", "fx_graph_cache", "epilogue_fusion", "max_autotune", "conv_1x1_as_mm"):
        setattr(inductor, name, getattr(inductor, name))

    @dynamo.config.patch(verbose=True)
    def inside():
        return dynamo.config.verbose

    assert inside() and not dynamo.config.verbose


def test_logs():
    import logging

    import mindtorch_v2._logging as logs

    logs.set_logs(dynamo=logging.DEBUG, recompiles=True)
    assert logging.getLogger("torch._dynamo").level == logging.DEBUG and logs.shows("recompiles")
    logs.set_logs()
    assert logging.getLogger("torch._dynamo").level == logging.WARNING and not logs.shows("recompiles")
    with pytest.raises(TypeError, match="set_logs\\(\\) got an unexpected keyword argument 'zzz'"):
        logs.set_logs(zzz=True)
    with pytest.raises(
        ValueError, match="Unrecognized log level for log dynamo: x, valid level values are: 50,40,30,20"
    ):
        logs.set_logs(dynamo="x")
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            "import mindtorch_v2._logging as l, logging\n"
            "print(l.shows('graph_breaks'), logging.getLogger('torch._dynamo').level)",
        ],
        env={"TORCH_LOGS": "+dynamo,graph_breaks", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert shown.stdout.split() == ["True", "10"]


def test_the_last_call_that_is_not_recorded_may_be_two_in_two_threads():
    compiled = torch.compile(lambda x: x.sin() + 1)
    worth = compiled._region.worth
    worth.eager_calls = 1  # which both threads see before either counts its call
    for _ in range(2):
        worth.call(torch.sin, (torch.ones(3),), {})
    compiled(torch.ones(3))
    assert worth.calls == 1
