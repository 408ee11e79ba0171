"""Turns the samples of operator declarations into calls, of mindtorch_v2 or of the real PyTorch.

The numbers of a call depend on the operator's name and the case's position alone, so that both libraries see the same.
Layouts are made through views: a transposed, expanded or sliced tensor really is one.
"""

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindtorch_v2._dispatch.dispatcher import dispatch
from mindtorch_v2._ops._declare.op import DECLARATIONS, PUBLIC, Declaration, public_functions
from mindtorch_v2._ops._declare.samples import Case, TensorSample

PRIMARY = "float32"
SECONDARY = ("float64", "int64", "int32", "bool", "complex64", "float16", "bfloat16")
SECONDARY_CASES = 4  # so many cases of an operator are also run in the secondary types
CARRIERS = {"float16": "float32", "bfloat16": "float32"}  # NumPy makes the numbers in this type, the library casts

# What memory happens to hold is no result.
UNINITIALISED = frozenset(("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
                           "resize_", "resize_as_"))  # fmt: skip
# What they answer follows from values, which a meta tensor has not: they must refuse it.
DATA_DEPENDENT = frozenset(("nonzero", "argwhere", "masked_select", "_unique2", "unique_dim", "_unique_consecutive",
                            "bincount", "equal", "is_nonzero", "item"))  # fmt: skip
# Which of several equal values an index points at is left open.
TIED_INDICES = frozenset(("sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"))
# A padding row has a value but no gradient.
PADDED = frozenset(("embedding", "functional_embedding", "embedding_bag"))
# Random by nature without taking a generator.
DRAWS = frozenset(("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout",
                   "feature_alpha_dropout", "native_dropout", "rrelu", "gumbel_softmax", "fractional_max_pool2d",
                   "scaled_dot_product_attention"))  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One case of one operator."""

    declaration: Declaration
    index: int
    case: Case

    def __str__(self) -> str:
        arguments = [described(a) for a in self.case.args]
        arguments += [f"{name}={described(a)}" for name, a in self.case.kwargs.items()]
        return f"case {self.index}: {base_name(self.declaration)}({', '.join(arguments)})"


def base_name(declaration: Declaration) -> str:
    return declaration.operator.schema.base_name


def sampled() -> dict[str, Declaration]:
    """The declarations that have samples, by operator name."""
    return {name: d for name, d in DECLARATIONS.items() if d.samples is not None}


def each(calls: Iterable[Call], check: Callable[[Call], None],
         excused: Callable[[Exception], bool] = lambda error: False) -> None:
    """Runs a check on all calls; the first failure that is not excused is raised, with a line on every other."""
    failures = []
    for call in calls:
        try:
            check(call)
        except Exception as error:  # an operator under test may raise anything
            if not excused(error):
                failures.append((call, error))
    if failures:
        first = failures[0][1]
        for call, error in failures:
            first.add_note(f"{call}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
        raise first


def family(declaration: Declaration) -> str:
    """The operator's module by its short name: PyTorch's answers lie in one file a family."""
    return declaration.module.partition("_ops.")[2]


def calls(declaration: Declaration) -> list[Call]:
    assert declaration.samples is not None
    return [Call(declaration, i, case) for i, case in enumerate(declaration.samples())]


def good_calls(declaration: Declaration) -> list[Call]:
    return [call for call in calls(declaration) if call.case.raises is None]


def secondary_calls(declaration: Declaration) -> list[Call]:
    """The calls that are repeated in other element types: the first few that have a tensor of the type under test."""
    typed = [c for c in good_calls(declaration) if any(s.kind == "float" for s in tensor_samples(c.case))]
    return typed[:SECONDARY_CASES]


def has_kinks(call: Call) -> bool:
    """Whether gradients may rightly differ from finite differences: equal or chosen numbers, padding rows."""
    return base_name(call.declaration) in PADDED or any(
        s.layout == "expanded" or s.values is not None for s in tensor_samples(call.case)
    )


def draws(declaration: Declaration) -> bool:
    """Whether results depend on the random generator's state."""
    return any(a.type == "Generator" for a in declaration.operator.schema.arguments) or base_name(declaration) in DRAWS


# what a case says ----------------------------------------------------------------------------------------------------


def described(value: Any) -> str:
    """A text that is the same in every process."""
    if isinstance(value, TensorSample):
        parts = [str(list(value.shape)), *(p for p in (value.kind, value.layout) if p not in ("float", "contiguous"))]
        parts += [f"{value.low:g}..{value.high:g}"] if value.values is None else [str(np.array(value.values).tolist())]
        return f"<{' '.join(parts)}>"
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(described, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {described(v)}' for k, v in value.items())}}}"
    return repr(value) if type(value).__repr__ is not object.__repr__ else type(value).__name__


def fingerprint(declaration: Declaration) -> int:
    """Changes when the samples do."""
    return zlib.crc32("\n".join(f"{call} {call.case.raises}" for call in calls(declaration)).encode())


def tensor_samples(item: Any) -> Iterator[TensorSample]:
    """The tensors of a case, in the order in which they are made."""
    if isinstance(item, Case):
        item = (item.args, item.kwargs)
    if isinstance(item, TensorSample):
        yield item
    elif isinstance(item, (tuple, list)):
        for part in item:
            yield from tensor_samples(part)
    elif isinstance(item, dict):
        yield from tensor_samples(list(item.values()))


# making tensors ------------------------------------------------------------------------------------------------------


def _base_array(sample: TensorSample, rng: np.random.Generator, dtype: np.dtype) -> np.ndarray:
    """The memory behind a sample; `arranged` makes the sample's view of it."""
    array = np.ascontiguousarray(sample.array(rng, dtype)).reshape(sample.shape)
    if sample.layout == "transposed" and array.ndim > 1:
        return np.ascontiguousarray(array.swapaxes(-1, -2))
    if sample.layout == "expanded" and array.ndim:
        return np.ascontiguousarray(array[:1])
    if sample.layout == "sliced" and array.ndim:
        wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), 7, array.dtype)  # a 7 in a result came from a gap
        wide[..., ::2] = array
        return wide
    return array


def arranged(sample: TensorSample, base: Any) -> Any:
    """The sample as a view of its memory."""
    if sample.layout == "transposed" and base.dim() > 1:
        return base.transpose(-1, -2)
    if sample.layout == "expanded" and base.dim():
        return base.expand(sample.shape)
    if sample.layout == "sliced" and base.dim():
        return base[..., ::2]
    return base


def bases(call: Call, library: Any, dtype: str, device: str = "cpu") -> list[Any]:
    """Fresh tensors that hold a call's numbers, one a sample."""
    rng = np.random.default_rng(zlib.crc32(f"{call.declaration.operator.name} {call.index}".encode()))
    made = []
    for sample in tensor_samples(call.case):
        tensor = library.from_numpy(_base_array(sample, rng, np.dtype(CARRIERS.get(dtype, dtype))))
        if dtype in CARRIERS and sample.kind == "float":
            tensor = tensor.to(getattr(library, dtype))
        if device != "cpu":
            tensor = library.empty(tuple(tensor.shape), dtype=tensor.dtype, device=device)
        made.append(tensor)
    return made


def arguments(call: Call, library: Any, tensors: Sequence[Any], device: str = "cpu") -> tuple[tuple, dict]:
    """A call's arguments over the tensors that `bases` made (or others in their place)."""
    remaining = iter(tensors)

    def made(item: Any) -> Any:
        if isinstance(item, TensorSample):
            return arranged(item, next(remaining))
        if type(item) in (tuple, list):
            return type(item)(made(part) for part in item)
        return _translated(item, library)

    args = made(tuple(call.case.args))
    kwargs = {name: made(value) for name, value in call.case.kwargs.items()}
    if device != "cpu" and any(a.type == "Device" for a in call.declaration.operator.schema.arguments):
        kwargs.setdefault("device", device)
    return args, kwargs


def require_grad(call: Call, tensors: Sequence[Any]) -> list[int]:
    """Makes leaves of those tensors whose gradient the samples want checked; their positions."""
    samples = list(tensor_samples(call.case))
    wanted = [i for i, s in enumerate(samples) if s.grad and s.kind == "float"]
    for i in wanted:
        tensors[i].requires_grad_()
    return wanted


def writable(call: Call, tensors: Sequence[Any]) -> list[Any]:
    """The tensors, or copies of them if the operator writes into one: a leaf that needs grad cannot be written."""
    writes = any(a.writes for a in call.declaration.operator.schema.arguments)
    return [t.clone() for t in tensors] if writes else list(tensors)


def _translated(item: Any, library: Any) -> Any:
    """A dtype, layout, memory format, device or generator as the library's own."""
    kind = type(item)
    if not kind.__module__.startswith("mindtorch_v2") or library.__name__ == "mindtorch_v2":
        return item
    if kind.__name__ == "device":
        return library.device(str(item))
    if kind.__name__ == "Generator":
        return library.Generator().manual_seed(item.initial_seed())
    return getattr(library, str(item).removeprefix("torch."))


# calling -------------------------------------------------------------------------------------------------------------


def public_places(declaration: Declaration) -> list[tuple[str, str]]:
    """(place, name) of all that users can call for an operator, functions before methods; empty for an internal one."""
    found = [(place, name) for place, functions in PUBLIC.items() for name, operators in functions.items()
             if declaration.operator in operators]  # fmt: skip
    order = {"torch": 0, "nn.functional": 1, "Tensor": 3}
    return sorted(found, key=lambda pair: (order.get(pair[0], 2), pair[1] != base_name(declaration)))


def is_internal(declaration: Declaration) -> bool:
    return all(place.startswith("_") for place, _ in public_places(declaration))


def function_of(declaration: Declaration) -> Callable:
    """mindtorch_v2's function for an operator."""
    for place, name in public_places(declaration):
        return public_functions(place)[name]
    return lambda *args, **kwargs: dispatch(declaration.operator.name, *args, **kwargs)


def seeded(declaration: Declaration, library: Any, function: Callable) -> Callable:
    """The function, drawing the same random numbers in every call."""
    if not draws(declaration):
        return function

    def run(*args: Any, **kwargs: Any) -> Any:
        library.manual_seed(0)
        return function(*args, **kwargs)

    return run


def leaves(value: Any) -> list[Any]:
    """The members of nested containers, in order."""
    if isinstance(value, (tuple, list)):
        return list(itertools.chain.from_iterable(map(leaves, value)))
    return [value]


def structure(value: Any) -> Any:
    """The containers of a result: 'list', 'tuple' or the fields of a named tuple, with their members."""
    if not isinstance(value, (tuple, list)) or type(value).__name__ == "Size":
        return "leaf"
    fields = list(getattr(type(value), "__match_args__", ()))
    return [fields or ("list" if isinstance(value, list) else "tuple"), *map(structure, value)]
