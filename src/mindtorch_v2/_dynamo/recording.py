"""The recording of one call of a compiled function, and what becomes of it."""

import inspect
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .._core.tensor import Tensor, flush_pending
from .._dispatch.keys import PIPELINE_MASK, changed_modes, modes
from .._logging import shows
from .._pipeline.cache import plan_of
from .._pipeline.current import state as recorders
from .._pipeline.ending import elements_returned
from .._pipeline.factors import known_factors, run_with_factors
from .._pipeline.plan import Plan
from .._pipeline.record import Pipeline, flush_current
from .._pipeline.trace import Trace
from . import config, exc
from .backends.debugging import GraphCompileReason
from .frames import called_from, ends_by_reading, user_stack
from .graphs import graph_module, tensor_on
from .sizes import Sizes, Sketch, assumed, compared, varying
from .utils import counters

_log = logging.getLogger("torch._dynamo")
_RECOMPILATION = (
    "https://docs.pytorch.org/docs/main/user_guide/torch_compiler/compile/programming_model.recompilation.html"
)


_PLANS = 256  # of one function that are remembered
_MOST_SKETCHES = 16  # recordings that others are compared with
# What decides whether recording is worth it. Seconds and bytes a second, measured on one core of a server and on a GPU.
_RECORDING, _LAUNCH, _GPU_LAUNCH = 12e-6, 1e-6, 5e-6
_CPU_BYTES, _GPU_BYTES = 1e10, 2e12
_NPU_CALL = 1.1e-5  # what the host takes for an eager call on an NPU, less what it takes for a launch of a plan
_LARGE = 1 << 19
_CALL = 6e-6  # what it costs to record a call


class Recording(Pipeline):
    """What a compiled function calls is recorded in it, and run for the region's backend at each flush."""

    def __init__(self, region: Any, args: tuple, kwargs: dict[str, Any], stance: str) -> None:
        super().__init__()
        self.region, self.args, self.kwargs, self.stance = region, args, kwargs, stance
        self.position = 0  # of the next graph in the call
        self.leaving = False
        self.refusal: Exception | None = None  # an error of compiling, not of what was recorded
        self.reasons: list[GraphCompileReason] = []
        self.kept = False  # whether a replay is to be made of it
        self.saved = 0.0  # seconds, less what recording takes
        self.draws = False  # whether recorded calls take random numbers
        self.cuts = 0  # how often something was computed, or looked at, that is not recorded
        self.made: Sequence[Any] = ()  # the arrays of the last graph
        self.returned: Any = None  # what the call will return, if it looks at elements only for that
        self.unwritten: dict[int, Any] = {}  # copies of its inputs that it wrote, for a replay

    # what ends a graph -----------------------------------------------------------------------------------------------

    def __exit__(self, kind: Any, *exception: object) -> None:
        self.leaving = True
        super().__exit__(kind, *exception)

    def flush(self) -> None:
        """Runs what was recorded; elements that the program looks at end the graph."""
        if not self.leaving:
            self.cuts += self.returned is None
            if self.region.watches:
                reason = ends_by_reading(*called_from(), self.region.settings.fullgraph)
                if reason is not None:
                    self.ends_graph(*reason)
        super().flush()

    def looked_at(self) -> None:
        """Hears that the program looks at elements."""
        if self.kept and self.returned is None and not self.cuts:
            self.returned = elements_returned(self.region.fn)
        self.cuts += self.returned is None

    def ran_at_once(self) -> None:
        self.cuts += 1

    def ends_graph(self, what: str, explanation: str, hints: list[str], context: str, reason: str) -> None:
        """Notes why a graph ends here; refuses it where the function is to be one graph."""
        stack = user_stack()
        if self.region.settings.fullgraph:
            refusal = exc.unsupported(what, explanation, hints, context, stack)
            self.trace.taken().end(refusal)  # nothing of what was recorded is to run
            self.leaving = True
            raise refusal
        self.reasons.append(GraphCompileReason(reason, list(stack[-1:])))
        counters["graph_break"][reason] += 1
        if shows("graph_breaks"):
            _log.warning(
                "Graph break in user code at %s:%s\nGraph Break Reason: %s",
                stack[-1].filename if stack else "?",
                stack[-1].lineno if stack else "?",
                what,
            )

    def _fail(self, trace: Trace, error: Exception) -> None:
        try:
            super()._fail(trace, error)
        except Exception:
            if error is self.refusal:
                raise error from None
            raise

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block in which calls run at once."""
        self.flush()
        include = modes.include
        modes.update(include=include & ~PIPELINE_MASK)
        try:
            yield
        finally:
            modes.update(include=include)

    # what becomes of it ----------------------------------------------------------------------------------------------

    def compute(self, trace: Trace) -> Sequence[Any]:
        """The arrays that the trace's outputs wait for."""
        try:
            run = self._chosen(trace)
        except Exception as error:
            self.refusal = error
            raise
        if self.kept:
            self.unwritten = {number: trace.inputs[number].copy() for number in trace.written}
        self.draws = self.draws or trace.draws
        self.made = run(trace)
        return self.made

    def _chosen(self, trace: Trace) -> Callable[[Trace], Sequence[Any]]:
        """What computes a trace."""
        position, self.position = self.position, self.position + 1
        region = self.region
        if region.settings.backend is None:
            plan = trace.plan = plan_of(trace)
            known = region.plans.get(id(plan))
            if known is None:
                self._admitted(position, lambda: _without_sizes(trace))
                if len(region.plans) >= _PLANS:
                    region.plans.clear()
                known = region.plans[id(plan)] = (plan, _saved(plan))
                _count_graph(len(plan.entries))
            self.saved += known[1]
            return self._run_plan
        key = (trace.signature(), tuple(trace.numbers))
        compiled = region.graphs.get(position, {}).get(key)
        if compiled is None:
            sized = region.settings.dynamic is False
            sketch = None if sized else Sketch(trace)
            compiled = None if sketch is None else self._known_for_other_sizes(position, sketch)
            if compiled is None:
                # Where the stance says what becomes of a recompilation, one for other sizes is one.
                apart = sized or self.stance != "default"
                if not self._admitted(position, lambda: key if apart else (_without_sizes(trace), *trace.numbers)):
                    return super().compute
                compiled = self._compiled_for_sizes(position, trace, sketch) if sketch else self._compiled(trace)
            if len(region.graphs.setdefault(position, {})) >= _PLANS:
                region.graphs[position].clear()
            region.graphs[position][key] = compiled

        def run(trace: Trace) -> Sequence[Any]:
            with changed_modes(include=0, exclude=0, grad_enabled=False, inference=False):
                return [made._array for made in compiled(*_tensors(trace))]

        return run

    def _run_plan(self, trace: Trace) -> Sequence[Any]:
        plan = trace.plan
        plan.timed = self.timed
        if self.keeps or self.kept:
            self.history.append((trace, plan))
        inputs, owners = list(trace.inputs.values()), list(trace.owners.values())
        factors = known_factors(plan, inputs, lambda at: owners[at]())
        return run_with_factors(factors, plan.run, inputs, trace.numbers)

    def _known_for_other_sizes(self, position: int, sketch: Sketch) -> Callable | None:
        """What a backend made for several sizes, if a recording is one of those that it serves."""
        for sizes, compiled in self.region.sized.get(position, ()):
            values = sizes.values_in(sketch)
            if values is not None:
                return _with_sizes(sizes, values, compiled)
        return None

    def _compiled_for_sizes(self, position: int, trace: Trace, sketch: Sketch) -> Callable:
        """What a backend makes of a recording: for several sizes where an earlier one had others, or the program says
        that they vary.
        """
        region = self.region
        before = region.sketches.setdefault(position, [])
        found = None
        if config.automatic_dynamic_shapes:
            found = next((sizes for one in reversed(before) for sizes in [compared(one, sketch)] if sizes), None)
        if found is None:
            marked = self._marked(trace)
            if config.automatic_dynamic_shapes:
                marked |= {place for one in before for place in varying(one, sketch)}
            if region.settings.dynamic or marked:
                found = assumed(sketch, None if region.settings.dynamic else marked)
        before.append(sketch)
        del before[:-_MOST_SKETCHES]
        if found is None:
            return self._compiled(trace)
        compiled = self._compiled(trace, found)
        region.sized.setdefault(position, []).append((found, compiled))
        return _with_sizes(found, found.values, compiled)

    def _marked(self, trace: Trace) -> set[tuple[int, int]]:
        """The inputs and dimensions of a recording that `mark_dynamic` names."""
        places = {id(array): i for i, array in enumerate(trace.inputs.values())}
        tensors = [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, Tensor)]
        return {(places[id(one._array)], d % max(one.dim(), 1)) for one in tensors if id(one._array) in places
                for d in getattr(one, "_dynamo_dynamic_indices", ())}  # fmt: skip

    def _compiled(self, trace: Trace, sizes: Sizes | None = None) -> Callable:
        backend, gm = self.region.settings.backend, graph_module(trace, sizes)
        given = _tensors(trace) if sizes is None else sizes.beside(sizes.symbols(), _tensors(trace))
        if shows("graph_code"):
            _log.warning("TRACED GRAPH\n%s", gm.code)
        try:
            with changed_modes(include=0, exclude=0, grad_enabled=False, inference=False):
                compiled = backend(gm, given)
            if not callable(compiled):
                raise AssertionError("compiler_fn did not return callable")
        except exc.TorchDynamoException:
            raise
        except Exception as error:
            failure = exc.BackendCompilerFailed(backend, error)
            if config.suppress_errors:
                _log.warning("WON'T CONVERT %s %s\ndue to:\n%s", *self._named(), failure)
                return gm.forward
            raise failure from error
        _count_graph(sum("call" in node.op for node in gm.graph.nodes))
        return compiled

    def _named(self) -> tuple[str, str]:
        """The name of the compiled function, and where it is defined."""
        fn = self.region.fn
        code = getattr(fn, "__code__", None) or getattr(type(fn).__call__, "__code__", None)
        return (code.co_name, exc.place(code)) if code is not None else (str(fn), "?")

    def _admitted(self, position: int, kind: Callable[[], Any]) -> bool:
        """Whether something that was not compiled yet is to be; notes it then."""
        region = self.region
        known = region.kinds.setdefault(position, {})
        key = kind()
        if key in known:
            return True
        name, place = self._named()
        given = described(region.fn, self.args, self.kwargs)
        reason = difference(known[next(reversed(known))], given) if known else ""
        if self.stance == "fail_on_recompile":
            text = (
                f"Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: "
                f"'{place.rpartition(':')[0]}', function name: '{name}', line number: {place.rpartition(':')[2]}"
            )
            raise RuntimeError(
                text + (f"\n    triggered by the following guard failure(s):\n    - {reason}" if known else "")
            )
        if self.stance == "eager_on_recompile":
            return False
        if self.stance == "eager_then_compile" and key not in region.seen:
            region.seen.add(key)
            return False
        if known and config.error_on_recompile:
            raise exc.RecompileError(
                f"Recompiling function {name} in {place}\n    triggered by the following guard "
                f"failure(s):\n    - {reason}"
            )
        limit = region.settings.recompile_limit or config.recompile_limit
        if len(known) >= limit:
            if not region.limit_hit:
                region.limit_hit = True
                _log.warning(
                    "torch._dynamo hit config.recompile_limit (%s)\n   function: '%s' (%s)\n   last reason: %s\n"
                    'To log all recompilation reasons, use TORCH_LOGS="recompiles".\nTo diagnose '
                    "recompilation issues, see %s",
                    limit,
                    name,
                    place,
                    reason,
                    _RECOMPILATION,
                )
            if region.settings.fullgraph:
                raise exc.FailOnRecompileLimitHit("Hard failure due to fullgraph=True")
            if config.fail_on_recompile_limit_hit:
                raise exc.FailOnRecompileLimitHit("Hard failure due to fail_on_recompile_limit_hit")
            return False
        if known and shows("recompiles"):
            _log.warning(
                "Recompiling function %s in %s\n    triggered by the following guard failure(s):\n    - %s",
                name,
                place,
                reason,
            )
        known[key] = given
        return True


def _count_graph(calls: int) -> None:
    counters["stats"]["unique_graphs"] += 1
    counters["stats"]["calls_captured"] += calls


def _saved(plan: Plan) -> float:
    """The seconds that a plan saves, by a rough count of what it leaves out, less those that recording it takes."""
    calls = sum([entry.kind != "view" for entry in plan.entries])
    launches = sum([step.kind != "view" for step in plan.steps])
    devices = {layout.device.type for layout in plan.layouts}
    unmoved = plan.left_out(_LARGE)  # others stay in a cache
    if devices == {"cpu"}:
        gained = unmoved / _CPU_BYTES - launches * _LAUNCH
    else:
        gained = unmoved / _GPU_BYTES + (calls - launches) * _GPU_LAUNCH
    if devices == {"npu"}:
        gained += calls * _NPU_CALL
    return gained - _RECORDING - calls * _CALL


def _tensors(trace: Trace) -> list[Tensor]:
    return [tensor_on(array, trace.layouts[number].device) for number, array in trace.inputs.items()]


def _with_sizes(sizes: Sizes, values: Sequence[int], compiled: Callable) -> Callable:
    """A function of the tensors of a recording, which gives a graph the sizes that it wants, too."""
    return lambda *tensors: compiled(*sizes.beside(values, tensors))


def _without_sizes(trace: Trace) -> tuple:
    """What PyTorch would have compiled once for all sizes."""
    nodes, places = trace.node.path()
    calls = [node.recipe.operator for node in nodes if node.recipe is not None]
    return (*calls, *[place.layout.dtype for place in places], *[place.layout.ndim for place in places])


# arguments, to tell what changed --------------------------------------------------------------------------------------


def described(fn: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name: tensors as type, shape and whether they need gradients."""
    try:
        bound = dict(inspect.signature(fn).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        bound = {**{str(i): value for i, value in enumerate(args)}, **kwargs}
    return {str(name): _told(value) for name, value in bound.items()}


_MOST_TOLD = 8  # elements of a list
_NUMBERS_AND_TEXTS = (int, float, bool, complex, str, bytes, type(None))


def _told(value: Any) -> Any:
    """One argument. Of objects only the class: their words may ask for elements, which are being computed."""
    if isinstance(value, Tensor):
        return str(value.dtype).removeprefix("torch."), tuple(value._array.shape), value.requires_grad
    if isinstance(value, (list, tuple)):
        return f"{value.__class__.__name__} of {[_told(item) for item in itertools.islice(value, _MOST_TOLD)]}"
    if isinstance(value, dict):
        items = itertools.islice(value.items(), _MOST_TOLD)
        return f"{value.__class__.__name__} of {[(_told(key), _told(item)) for key, item in items]}"
    return repr(value)[:80] if value.__class__ in _NUMBERS_AND_TEXTS else f"<{value.__class__.__qualname__}>"


def difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What is different in the arguments of two calls."""
    for name, old in before.items():
        new = now.get(name)
        if old == new:
            continue
        if isinstance(old, tuple) and isinstance(new, tuple):
            if old[0] != new[0]:
                return f"tensor '{name}' dtype mismatch. expected {_scalar_type(old[0])}, actual {_scalar_type(new[0])}"
            if len(old[1]) != len(new[1]):
                return f"tensor '{name}' rank mismatch. expected {len(old[1])}, actual {len(new[1])}"
            if old[1] != new[1]:
                at = next(i for i, (a, b) in enumerate(zip(old[1], new[1], strict=True)) if a != b)
                return f"tensor '{name}' size mismatch at index {at}. expected {old[1][at]}, actual {new[1][at]}"
            return f"tensor '{name}' requires_grad mismatch. expected requires_grad={int(old[2])}"
        return f"{name} == {old}"
    return "the function calls other operators than before"


def _scalar_type(name: str) -> str:
    return {
        "float32": "Float",
        "float64": "Double",
        "float16": "Half",
        "bfloat16": "BFloat16",
        "int64": "Long",
        "int32": "Int",
        "int16": "Short",
        "int8": "Char",
        "uint8": "Byte",
        "bool": "Bool",
    }.get(name, name)


def _looked_at() -> None:
    """Elements are looked at: what was recorded must be computed, and in general the call cannot be replayed."""
    if not recorders.threads:
        return
    pipe = modes.__dict__.get("pipeline")
    if pipe.__class__ is Recording and not pipe.leaving and modes.include & PIPELINE_MASK:
        pipe.looked_at()
    flush_current()


flush_pending[0] = _looked_at
