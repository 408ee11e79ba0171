"""The operators' samples on a simulated chip: equal to the CPU, or refused before CANN with the chip named."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import operator_cases as samples
from device_cases import plain, run
from operator_cases import Call, Declaration
from simulator.build import operator_kinds
from test_operators_npu import gradients

import mindtorch_v2 as torch
from mindtorch_v2._backends.npu import families
from mindtorch_v2._backends.npu.chips import Unsupported
from mindtorch_v2._dispatch.dispatcher import dispatch

SWEPT = ("A2", "310P", "950")
TYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool")
PRODUCTS = frozenset(symbol for symbol, kinds in operator_kinds().items() if any(n == "cubeMathType" for n, _ in kinds))
WHAT = ("backward", "in_place", *TYPES)  # the passes of a sweep: derivatives, in-place forms, values in each type
TOLERANCES = {"float16": 1e-2, "bfloat16": 6e-2, "float64": 1e-9}
OF_PRODUCTS = 2e-2  # of the largest element: where float32 products are computed in float16, errors add up
# Decompositions are unique but for the signs of their vectors, or not unique at all.
UP_TO_SIGN = frozenset(("aten::linalg_eigh", "aten::linalg_svd", "aten::svd", "aten::linalg_qr", "aten::qr"))
SQUARED = ("aten::linalg_matrix_exp", "aten::matrix_exp")  # products of products of products
LOOSE = {"aten::special_ndtri": 1e-3, "aten::logcumsumexp": 1e-4, "aten::histc": 1e-4}
# An option, or a derivative, that has no row on any chip.
LEAD_ELSEWHERE = frozenset((
    "aten::unique", "aten::linalg_lu", "aten::linalg_lu_factor", "aten::lu", "aten::_lu_with_info",
    "aten::linalg_ldl_factor", "aten::linalg_eigvals",
))  # fmt: skip


class Sweep:
    """What became of the calls: how many were equal, which were refused and why, which differ."""

    def __init__(self, machine: Any) -> None:
        self.machine, self.equal = machine, 0
        self.refused: dict[str, str] = {}
        self.different: list[str] = []

    def products(self) -> int:
        return sum(self.machine.calls[symbol] for symbol in PRODUCTS)

    def check(self, call: Call, wanted: Any, compute: Callable[[], Any], kind: str) -> None:
        """Runs a call on the chip and looks at what comes out."""
        name, before = call.declaration.operator.name, self.products()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = compute()
            self._compare(call, got, wanted, kind, self.products() > before)
            self.equal += 1
        except Unsupported as error:
            soc = self.machine.soc_name.value.decode()
            if f"device 'npu' ({soc})" not in str(error):
                self.different.append(f"{call}: {error}")
            self.refused.setdefault(name, str(error))
        except NotImplementedError as error:  # types that the declaration itself refuses, in PyTorch's words
            if "_cpu" not in str(error) and "has no element type" not in str(error):
                self.different.append(f"{call}: {error}")
        except (AssertionError, RuntimeError) as error:
            self.different.append(f"{call}: {type(error).__name__} {str(error)[:300]}")
        neglected, self.machine.violations = self.machine.violations, []
        self.different += [f"{call}: {text}" for text in neglected]

    def _compare(self, call: Call, got: Any, wanted: Any, kind: str, products: bool) -> None:
        name = call.declaration.operator.name
        tolerance = max(TOLERANCES.get(kind, 2e-5), LOOSE.get(name, 0.0))
        for a, b in zip(samples.leaves(got), samples.leaves(wanted), strict=True):
            if not isinstance(b, torch.Tensor):
                continue
            assert a.device.type == "npu" and (a.shape, a.dtype) == (b.shape, b.dtype)
            if samples.draws(call.declaration) or samples.base_name(call.declaration) in samples.UNINITIALISED:
                continue
            x, y = plain(a), plain(b)
            if name in UP_TO_SIGN:
                x, y = abs(x), abs(y)
            tolerance = max(tolerance, 2e-5) if b.dtype is not torch.float64 else tolerance
            least = tolerance
            if products and self.machine.chip == "310P" and y.size:
                finite = np.abs(y[np.isfinite(y)])
                tolerance = OF_PRODUCTS * (4 if name in SQUARED else 1)
                least = tolerance * max(1.0, finite.max() if finite.size else 1.0)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=least)


def runnable(declarations: Iterable[Declaration]) -> list[Declaration]:
    return [d for d in declarations if families.runs(d.operator) and d.operator.name not in LEAD_ELSEWHERE]


def _on_cpu(compute: Callable[[], Any]) -> Any:
    """A result, or Ellipsis for what the CPU refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compute()
    except Exception:  # whatever it refuses
        return ...


def sweep_of(machine: Any, declarations: Iterable[Declaration], what: str) -> Sweep:
    """One pass over the samples of operators."""
    sweep = Sweep(machine)
    if what == "backward":
        _backward(sweep, declarations)
    elif what == "in_place":
        _in_place(sweep, declarations)
    else:
        _forward(sweep, declarations, what)
    return sweep


def _forward(sweep: Sweep, declarations: Iterable[Declaration], kind: str) -> None:
    """Values of the samples; in types other than float32 the first ones."""
    for declaration in runnable(declarations):
        for call in samples.good_calls(declaration) if kind == "float32" else samples.secondary_calls(declaration):
            wanted = _on_cpu(lambda call=call: run(call, samples.bases(call, torch, kind), "cpu"))
            if wanted is not ...:
                def compute(call: Call = call) -> Any:
                    return run(call, [t.to("npu") for t in samples.bases(call, torch, kind)], "npu")

                sweep.check(call, wanted, compute, kind)


def _backward(sweep: Sweep, declarations: Iterable[Declaration]) -> None:
    for declaration in runnable(declarations):
        for call in () if samples.draws(declaration) else samples.good_calls(declaration):
            wanted = _on_cpu(lambda call=call: gradients(call, "cpu"))
            if wanted is not ...:
                sweep.check(call, wanted, lambda call=call: gradients(call, "npu"), "float32")


def _in_place(sweep: Sweep, declarations: Iterable[Declaration]) -> None:
    def result(call: Call, device: str) -> Any:
        args, kwargs = samples.arguments(call, torch, [t.to(device) for t in samples.bases(call, torch, "float32")])
        if not isinstance(args[0], torch.Tensor):
            return ...
        return dispatch(call.declaration.inplace.name, args[0].clone(), *args[1:], **kwargs)

    for declaration in runnable(d for d in declarations if d.inplace is not None):
        for call in samples.good_calls(declaration):
            wanted = _on_cpu(lambda call=call: result(call, "cpu"))
            if wanted is not ...:
                sweep.check(call, wanted, lambda call=call: result(call, "npu"), "float32")
