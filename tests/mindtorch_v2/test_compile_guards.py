"""Compiled functions whose surroundings change between calls give what they give eagerly, in every mode."""

import argparse
import contextvars
import cProfile
import dataclasses
import datetime
import enum
import functools
import itertools
import logging
import os
import sys
import textwrap
import types
from collections import UserList
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
from mindtorch_v2._pipeline import guards
from mindtorch_v2._pipeline.replay import Refused, Replay

X = torch.arange(6.0).reshape(2, 3)
MODES = ["default", "reduce-overhead"]


def long(x: torch.Tensor) -> torch.Tensor:
    """So many operations that a replay is worth it."""
    return ((x * 0.5 + 1).sin() * 2 - x).tanh()


class Limits:
    scale = 2.0
    table = [1.0, 2.0]  # noqa: RUF012 (what changes is what is tested)

    @classmethod
    def scaled(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.scale

    @staticmethod
    def shifted(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


VARIABLE, LOG = contextvars.ContextVar("VARIABLE", default=1.0), logging.getLogger("guards")


class Slotted:
    __slots__ = ("__hidden", "scale")

    def __init__(self) -> None:
        self.scale, self.__hidden = 2.0, 1.0

    def grow(self) -> None:
        self.__hidden += 1

    @property
    def hidden(self) -> float:
        return self.__hidden


@dataclasses.dataclass
class Options:
    scale: float = 2.0
    part: Any = None


class Named(dict):
    scale = 0.0


class Kind(enum.Enum):
    FIRST = 2.0


class Net(torch.nn.Module):
    rate = 2.0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.flag, self.options, self.config = torch.nn.Linear(3, 3), True, {"k": 1.0}, Options()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = long(self.first(x)) * self.rate * self.options["k"] * getattr(self.config, "scale")  # noqa: B009
        return y if self.flag else -y


class World:
    """What the programs below read, made anew for each."""

    def __init__(self) -> None:
        self.scale, self.numbers, self.named = 2.0, [1.0, 2.0], Named(k=1.0)
        self.named.scale = 2.0
        self.limits = type("Limits", (Limits,), {"table": [1.0], "scale": 2.0})
        self.narrower = type("Narrower", (self.limits,), {})
        self.slotted, self.options = Slotted(), Options(part=Options())
        self.module = types.ModuleType("settings")
        self.module.scale, self.module.table = 2.0, {"k": 1.0}
        self.user, self.given = UserList([1.0]), argparse.Namespace(rate=2.0)
        self.objects, self.net = [Options(), Options()], Net()
        self.lookup = self.named.get
        self.partial = functools.partial(lambda x, k: x * k[0], k=self.numbers)

        def scaled(x: torch.Tensor, by: list = [1.0]) -> torch.Tensor:  # noqa: B006
            return x * factor * by[0] * scaled.scale

        def put(value: float) -> None:
            nonlocal factor
            factor = value

        factor = 2.0
        scaled.scale = 2.0
        self.function, self.put = scaled, put

    def decorated(self) -> Callable:
        def around(fn: Callable) -> Callable:
            @functools.wraps(fn)
            def run(x: torch.Tensor) -> torch.Tensor:
                return fn(x) * numbers[0]

            return run

        numbers = self.numbers
        return around(long)


def program(source: str, world: World) -> Callable:
    """The function that `source` says, as a module of its own would have it, with the world's things as globals."""
    scope = {"__name__": "program", "long": long, "Kind": Kind, "VARIABLE": VARIABLE, "os": os, "LOG": LOG}
    scope |= {"torch": torch, **vars(world)}
    exec(compile(source, "program", "exec"), scope)
    world.scope = scope
    return scope["f"]


def setting(path: str, value: Any) -> Callable[[World], None]:
    """Sets an attribute of something in a world."""
    *before, last = path.split(".")

    def change(world: World) -> None:
        setattr(functools.reduce(getattr, before, world), last, value)

    return change


# What a program reads, and how that changes.
READS: dict[str, tuple[str, list[Callable[[World], Any]]]] = {
    "a global": ("scale", [lambda w: w.scope.update(scale=3.0)]),
    "a list": ("numbers[0]", [lambda w: w.numbers.__setitem__(0, 5.0), lambda w: w.numbers.insert(0, 6.0)]),
    "a dict with attributes": ("named['k'] * named.scale", [lambda w: w.named.update(k=4.0),
                                                           setting("named.scale", 3.0)]),
    "a method of one": ("lookup('k')", [lambda w: w.named.update(k=4.0)]),
    "an attribute of a class": ("limits.scale", [setting("limits.scale", 3.0)]),
    "one that a subclass gets": ("narrower.scale", [setting("limits.scale", 3.0), setting("narrower.scale", 4.0)]),
    "a list in a class": ("limits.table[0]", [lambda w: w.limits.table.__setitem__(0, 7.0)]),
    "slots": ("slotted.scale", [setting("slotted.scale", 3.0)]),
    "a hidden slot": ("slotted.hidden", [lambda w: w.slotted.grow()]),
    "objects in objects": ("options.scale * options.part.scale", [setting("options.scale", 3.0),
                                                                 setting("options.part.scale", 4.0)]),
    "objects in a list": ("objects[1].scale", [lambda w: setattr(w.objects[1], "scale", 3.0)]),
    "getattr": ("getattr(options, 'scale')", [setting("options.scale", 3.0)]),
    "a module of Python": ("module.scale * module.table['k']", [setting("module.scale", 3.0),
                                                               lambda w: w.module.table.update(k=2.0)]),
    "a container written in Python": ("user[0]", [lambda w: w.user.__setitem__(0, 5.0)]),
    "a namespace": ("given.rate", [setting("given.rate", 5.0)]),
    "an enumeration": ("Kind.FIRST.value", []),
    "what it calls": ("function(x)", [lambda w: w.put(3.0), setting("function.scale", 4.0),
                                      lambda w: w.function.__defaults__[0].__setitem__(0, 3.0),
                                      lambda w: w.scope.update(function=lambda x: x * 9)]),
    "a partial function": ("partial(x)", [lambda w: w.numbers.__setitem__(0, 5.0)]),
    "methods": ("limits.scaled(x) + limits.shifted(x) + limits()(x)", [
        setting("limits.scale", 3.0), setting("limits.shifted", staticmethod(lambda x: x * 5)),
        setting("limits.__call__", lambda self, x: x * 7)]),
    "a context": ("VARIABLE.get()", [lambda w: VARIABLE.set(3.0)]),
    "the environment": ("float(os.environ.get('MINDTORCH_TEST', '1'))", [
        lambda w: w.patch.setenv("MINDTORCH_TEST", "3"), lambda w: w.patch.delenv("MINDTORCH_TEST")]),
    "a variable of it": ("float(os.environ['MINDTORCH_TEST'])", [lambda w: w.patch.setenv("MINDTORCH_TEST", "3")]),
    "getenv": ("float(os.getenv('MINDTORCH_TEST', '1'))", [lambda w: w.patch.setenv("MINDTORCH_TEST", "3")]),
    "a logger": ("(LOG.level + 2.0)", [lambda w: w.patch.setattr(LOG, "level", 10)]),
    "a module": ("net(x)", [setting("net.flag", False), lambda w: w.net.options.update(k=3.0),
                            setting("net.config.scale", 3.0), lambda w: w.net.first.weight.data.mul_(2)]),
}  # fmt: skip


def follows(compiled: Callable, fn: Callable, changes: list[Callable[[World], Any]], world: World) -> Iterator[set]:
    """Calls both before and after each change, often enough for a replay; gives the kinds of calls that are known."""
    for change in (lambda world: None, *changes):
        change(world)
        for _ in range(5):
            torch.testing.assert_close(compiled(X), fn(X))
        yield {known.__class__ for known in compiled._region.replays.known.values()}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_read_is_what_is_there(monkeypatch: pytest.MonkeyPatch, mode: str, name: str) -> None:
    read, changes = READS[name]
    world = World()
    world.patch = monkeypatch
    if "environ[" in read:
        monkeypatch.setenv("MINDTORCH_TEST", "2")
    fn = program(f"def f(x): return long(x) * ({read})", world)
    compiled = torch.compile(fn, mode=mode)
    with torch.no_grad():
        for kinds in follows(compiled, fn, changes, world):
            assert kinds == {Replay}


@pytest.mark.parametrize("mode", MODES)
def test_classes_and_functions_around(mode: str) -> None:
    world = World()
    fn = world.decorated()
    compiled = torch.compile(fn, mode=mode)
    with torch.no_grad():
        for kinds in follows(compiled, fn, [lambda w: w.numbers.__setitem__(0, 4.0)], world):
            assert kinds == {Replay}
        net, other = Net(), type("Other", (Net,), {"rate": 2.0})()
        for each in (net, other):
            compiled = torch.compile(each, mode=mode)
            for _ in range(5):
                torch.testing.assert_close(compiled(X), each(X))
        type(other).rate = 5.0
        torch.testing.assert_close(compiled(X), other(X))


STREAM, COUNTER = np.random.default_rng(0), itertools.count()

# Programs that no replay can be made of, and why.
REFUSED: dict[str, tuple[Callable, str]] = {
    "next": (lambda x: long(x) * next(COUNTER), "reads a count"),
    "context": (lambda x: (VARIABLE.set(2.0), long(x))[1], "calls set"),
    "date": (lambda x: long(x) * (datetime.datetime.now().year > 1), "calls now"),  # noqa: DTZ005
    "setattr": (lambda x: (setattr(LOG, "seen", 1), long(x))[1], "calls setattr"),
    "globals": (lambda x: long(x) * len(globals()), "calls globals"),
    "log": (lambda x: (LOG.warning("called"), long(x))[1], "calls warning"),
    "method": (lambda x, note=[].append: (note(1), long(x))[1], "changes what it reads"),  # noqa: B008
    "stream": (lambda x: long(x) * STREAM.random(), "draws random numbers"),
    "old stream": (lambda x, stream=np.random.RandomState(0): long(x) * stream.rand(), "draws random numbers"),  # noqa: B008
    "large": (lambda x, table=dict.fromkeys(range(300), 1.0): long(x) * table[0], "more than can be looked at"),  # noqa: B008
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("mode", MODES)
def test_what_cannot_be_guarded_is_not_replayed(mode: str, name: str) -> None:
    fn, why = REFUSED[name]
    compiled = torch.compile(fn, mode=mode)
    with torch.no_grad():
        for _ in range(5):
            compiled(X)
    (known,) = compiled._region.replays.known.values()
    assert known.__class__ is Refused and why in known.why
    assert f"Not replayed: {known.why}." in str(compiled.explain(X))


# Functions that set something, and whether all is as it was when they end.
SETS: dict[str, tuple[str, bool]] = {
    "set back": ("""
        before, options.scale = options.scale, 5.0
        try: y = long(x) * options.scale
        finally: options.scale = before
        return y""", True),
    "of a part": ("""
        options.part.scale = 5.0
        y = long(x) * options.part.scale
        options.part.scale = 2.0
        return y""", True),
    "a new attribute, taken away": ("""
        options.extra = 5.0
        y = long(x) * options.extra
        del options.extra
        return y""", True),
    "a global": ("""
        global scale
        before, scale = scale, 5.0
        y = long(x) * scale
        scale = before
        return y""", True),
    "a buffer in its place": ("""
        net.count += 1
        return long(x) * net.count""", True),
    "not set back": ("""
        options.scale = options.scale + 1
        return long(x)""", False),
    "by a setter": ("""
        guarded.scale = 5.0
        y = long(x) * guarded.scale
        guarded.scale = 2.0
        return y""", False),
    "by a __setattr__": ("""
        strict.scale = 5.0
        y = long(x) * strict.scale
        strict.scale = 2.0
        return y""", False),
    "of what a call gives": ("""
        get().scale = 5.0
        y = long(x) * get().scale
        get().scale = 2.0
        return y""", False),
    "of a new object": ("""
        made = Options()
        made.scale = 5.0
        made.part = long(x)
        return made.part * made.scale""", True),
    "of a new object, which stays": ("""
        made = Options()
        made.scale = 5.0
        options.part = made
        return long(x) * made.scale""", False),
}  # fmt: skip


class Guarded:
    """Its attribute does more than keep what is set."""

    sets = 0

    @property
    def scale(self) -> float:
        return 2.0 + self.sets

    @scale.setter
    def scale(self, value: float) -> None:
        vars(self)["sets"] = self.sets + 1


class Strict:
    def __init__(self) -> None:
        self.scale = 2.0

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)[name] = value


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_set_back_is_no_reason(mode: str, name: str) -> None:
    body, replayed = SETS[name]
    source = "def f(x):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    worlds = [World(), World()]
    for world in worlds:
        world.guarded, world.strict, world.Options, world.get = Guarded(), Strict(), Options, lambda w=world: w.options
        world.net.register_buffer("count", torch.zeros(()))
    plain, fn = (program(source, world) for world in worlds)
    compiled = torch.compile(fn, mode=mode)
    with torch.no_grad():
        for call in range(10):
            if call == 6:
                for world in worlds:
                    world.options.part, world.net.count = Options(scale=2.0), torch.full((), 7.0)
            torch.testing.assert_close(compiled(X), plain(X))
            ours, theirs = worlds[1].options, worlds[0].options
            assert ours.scale == theirs.scale and vars(ours).keys() == vars(theirs).keys()
            assert worlds[1].net.count.item() == worlds[0].net.count.item()
            assert worlds[1].scope["scale"] == worlds[0].scope["scale"]
    assert (Replay in {known.__class__ for known in compiled._region.replays.known.values()}) is replayed


class Kept:
    """What functions below give: attributes of all kinds."""

    def __init__(self, x: torch.Tensor, options: Options) -> None:
        self.first, self.options, self.name, self.kind = x * 2, options, "kept", x.dtype
        self.several = [long(x), {"sum": x.sum()}]
        self.inner: Any = None


class InSlots:
    __slots__ = ("first",)

    def __init__(self, x: torch.Tensor) -> None:
        self.first = long(x)


OPTIONS, TABLE = Options(), {"k": 2.0}


def gives_an_object(x: torch.Tensor) -> Any:
    made = Kept(x, OPTIONS)
    made.inner = Kept(x + 1, OPTIONS)
    return made, TABLE, OPTIONS.scale, TABLE["k"]


def gives_one_twice(x: torch.Tensor) -> Any:
    made = Kept(x, OPTIONS)
    return made, made, OPTIONS.scale


def gives_slots(x: torch.Tensor) -> Any:
    return InSlots(x), OPTIONS.scale


@pytest.mark.parametrize("fn, replayed", [(gives_an_object, True), (gives_one_twice, False), (gives_slots, False)])
@pytest.mark.parametrize("mode", MODES)
def test_objects_that_a_call_gives_are_new_each_time(mode: str, fn: Callable, replayed: bool) -> None:
    compiled, before = torch.compile(fn, mode=mode), []
    with torch.no_grad():
        for number in range(6):
            made, *others = compiled(X + number)
            expected, *plain = fn(X + number)
            assert type(made) is type(expected) and made not in before
            torch.testing.assert_close(made.first, expected.first)
            before.append(made)
            if fn is gives_an_object:
                assert others[0] is plain[0] is TABLE and made.options is OPTIONS and made.kind is X.dtype
                assert list(vars(made)) == list(vars(expected)) and type(made.inner) is Kept
                torch.testing.assert_close(made.inner.several, expected.inner.several)
            if fn is gives_one_twice:
                assert made is others[0]
    assert (Replay in {known.__class__ for known in compiled._region.replays.known.values()}) is replayed


@pytest.mark.parametrize("mode", MODES)
def test_what_is_set_in_a_branch_that_is_not_taken_is_no_reason(mode: str) -> None:
    class Counting(torch.nn.Module):
        counts, calls = False, 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.counts:
                self.calls += 1
            return long(x)

    net = Counting()
    compiled = torch.compile(net, mode=mode)
    for _ in range(5):
        compiled(X)
    assert {known.__class__ for known in compiled.forward._region.replays.known.values()} == {Replay}
    net.counts = True
    for _ in range(12):
        compiled(X)
    assert net.calls == 12 and "forward sets calls" in compiled.forward._region.replays.reasons()


@pytest.mark.parametrize("mode", MODES)
def test_another_way_through_a_function_is_watched_too(mode: str, capsys: pytest.CaptureFixture) -> None:
    seen: dict[str, int] = {}

    def told(x: torch.Tensor) -> torch.Tensor:
        print("told")
        return x + 1

    def fn(x: torch.Tensor) -> torch.Tensor:
        if len(seen) == before:
            return told(long(x))
        seen[str(len(seen))] = 1
        return long(x)

    before = 1 if mode == "reduce-overhead" else 2  # calls that are not the last to be recorded
    compiled = torch.compile(fn, mode=mode)
    for _ in range(6):
        compiled(X)
    assert capsys.readouterr().out == "told\n" * (6 - before)


class Counted(Net):
    """A module, or with another base an object, that the program counts in between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.factor, self.factor1 = 0, 2.0, 3.0


class Trainer:
    def __init__(self) -> None:
        self.steps, self.factor, self.factor1, self.net = 0, 2.0, 3.0, Net()

    def run(self, x: torch.Tensor) -> torch.Tensor:
        return long(x) * self.factor + self.net.first(x)

    def run_by_name(self, x: torch.Tensor) -> torch.Tensor:
        return long(x) * getattr(self, "factor" + str(1))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [Counted, Trainer])
@pytest.mark.parametrize("by_name", [False, True])
def test_attributes_that_are_not_read_may_change(
    monkeypatch: pytest.MonkeyPatch, by_name: bool, kind: type, mode: str
) -> None:
    counted, run = [], Replay.run
    monkeypatch.setattr(Replay, "run", lambda self, tensors: counted.append(0) or run(self, tensors))
    held = kind()

    def read(x: torch.Tensor) -> torch.Tensor:
        return long(x) * held.factor + held.first(x)

    def read_by_name(x: torch.Tensor) -> torch.Tensor:
        return long(x) * getattr(held, "factor" + str(1))

    if kind is Trainer:
        fn = held.run_by_name if by_name else held.run
    else:
        fn = read_by_name if by_name else read
    compiled = torch.compile(fn, mode=mode)
    with torch.no_grad():
        for number in range(12):
            held.steps += 1
            if number in (6, 9):
                held.factor, held.factor1 = float(number), number + 1.0
            torch.testing.assert_close(compiled(X), fn(X))
    assert bool(counted) is not by_name


def test_logs_are_written_each_time(caplog: pytest.LogCaptureFixture) -> None:
    compiled = torch.compile(REFUSED["log"][0])
    with torch.no_grad():
        for _ in range(6):
            compiled(X)
    assert [record.getMessage() for record in caplog.records] == ["called"] * 6


# the default mode ----------------------------------------------------------------------------------------------------


def test_the_default_mode_replays_from_the_fourth_call_on() -> None:
    calls = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        return long(x)

    monitored = torch.compile(fn)
    run = Replay.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replay, "run", lambda self, tensors: (calls.append(1), run(self, tensors))[1])
        for number in range(6):
            torch.testing.assert_close(monitored(X + number), fn(X + number))
    assert len(calls) == 3


def test_results_that_need_gradients_keep_the_graph_of_eager() -> None:
    net = Net()
    compiled = torch.compile(net)
    for _ in range(6):
        result = compiled(X)
    assert type(result.grad_fn).__name__ == type(net(X).grad_fn).__name__ == "MulBackward0"
    (first,) = torch.autograd.grad(result.sum(), net.first.weight, create_graph=True)
    first.sum().backward()  # twice, which a replay would refuse
    (known,) = compiled.forward._region.replays.known.values()
    assert known.__class__ is Refused and "gradients" in known.why


def test_views_are_not_replayed() -> None:
    compiled = torch.compile(lambda x: long(x)[0])
    for _ in range(6):
        result = compiled(X)
    assert result._base is not None
    assert compiled._region.replays.reasons() == ["its results need gradients, or are views"]


def test_functions_of_other_arguments_each_time_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards.Watched, "__enter__", lambda self: pytest.fail("watched"))
    compiled = torch.compile(lambda x, number: long(x) * number)
    for number in range(100):
        torch.testing.assert_close(compiled(X, number), long(X) * number)
    assert compiled._region.replays is None  # given up


@pytest.mark.parametrize("mode", MODES)
def test_profilers_see_what_they_would(mode: str) -> None:
    seen: list[str] = []

    def watching(frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is long.__code__:
            seen.append(event)

    compiled = torch.compile(long, mode=mode)
    sys.setprofile(watching)
    try:
        for _ in range(6):
            compiled(X)
    finally:
        sys.setprofile(None)
    assert len(seen) == 6 and sys.getprofile() is None
    for _ in range(4):
        compiled(X)
    assert {known.__class__ for known in compiled._region.replays.known.values()} == {Replay}
    profile = cProfile.Profile()
    profile.runcall(torch.compile(lambda x: long(x) + 1, mode=mode), X)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_function_begins_to_trace_goes_on(mode: str) -> None:
    def tracing(frame: types.FrameType, event: str, argument: Any) -> None:
        return None

    def fn(x: torch.Tensor) -> torch.Tensor:
        sys.settrace(tracing)
        return long(x)

    compiled, before = torch.compile(fn, mode=mode), sys.gettrace()
    try:
        for _ in range(4):
            compiled(X)
            assert sys.gettrace() is tracing
            sys.settrace(None)
    finally:
        sys.settrace(before)


def test_a_pipeline_around_records_the_calls() -> None:
    compiled = torch.compile(long)
    for _ in range(5):
        expected = compiled(X)
    with torch.pipeline() as pipe:
        made = compiled(X)
        assert len(pipe) > 3
    torch.testing.assert_close(made, expected)
    dynamo.reset()


def test_subclasses_see_every_call() -> None:
    class Seen(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            Seen.calls += 1
            return super().__torch_function__(func, types, args, kwargs or {})

    compiled, x = torch.compile(long), X.as_subclass(Seen)
    compiled(x)
    each = Seen.calls
    for _ in range(5):
        compiled(x)
    assert each > 0 and Seen.calls == 6 * each
