"""What functions do with nested tensors: a table by name, all pointwise functions, and a refusal of the others.

Dimension d > 0 of a nested tensor is dimension d - 1 of its components, and of a jagged one's values. So most functions
are those of the values with their dimensions counted so; only what reduces along the ragged dimension looks at the
components.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import mindtorch_v2 as torch

from ..._core.geometry import wrapped_dim
from ..._ops._declare.op import DECLARATIONS, PUBLIC
from .nested_tensor import NestedInt, NestedTensor, components, jagged, rejoined, strided_of

FUNCTIONS: dict[str, Callable] = {}


def answer(func: Callable, args: tuple, kwargs: dict) -> Any:
    """The result of a function that was called with a nested tensor among its arguments."""
    name = getattr(func, "__name__", "")
    handler = FUNCTIONS.get(name)
    if handler is not None:
        return handler(func, *args, **kwargs)
    bare = name.strip("_")
    if bare in _pointwise() or name.startswith("__i") and bare[1:] in _pointwise():
        return pointwise(func, *args, **kwargs)
    _refuse(name, next(a for a in _flat((args, tuple(kwargs.values()))) if isinstance(a, NestedTensor)))


def _refuse(name: str, nested: NestedTensor) -> NoReturn:
    if nested._components:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'NestedTensorCPU' backend.")
    raise NotImplementedError(
        f"aten.{name}.default: there is no such function of nested tensors; call it on values() or "
        "on the components of unbind()"
    )


def _flat(value: Any) -> list:
    return [v for item in value for v in _flat(item)] if isinstance(value, (tuple, list)) else [value]


def serves(*names: str) -> Callable:
    def register(handler: Callable) -> Callable:
        FUNCTIONS.update(dict.fromkeys(names, handler))
        return handler

    return register


# pointwise -----------------------------------------------------------------------------------------------------------

# Conversions, what is drawn element by element, and functions that are made of those of elements.
_ON_ELEMENTS = """
    alpha_dropout bernoulli bfloat16 bool byte cpu cuda double dropout dropout1d float half hardsigmoid hardswish int
    invert logsigmoid long mish normal pos rdiv relu6 requires_grad rtruediv short silu softsign tanhshrink to type
    type_as uniform
""".split()
# How operators of elements run in pieces, whatever the pieces are of (distributed/tensor/_strategies.py).
_OF_ELEMENTS = frozenset(("pointwise", "terms", "kept", "scaled", "multiplied"))


@functools.cache
def _pointwise() -> frozenset[str]:
    """The names, without underscores, of functions that see one element at a time, or make a tensor like another."""
    found = [d for d in DECLARATIONS.values() if d.strategy in _OF_ELEMENTS]
    names = {name for public in PUBLIC.values() for name, operators in public.items()
             if name.endswith("_like") or operators[0].declaration.strategy in _OF_ELEMENTS}
    names.update(_ON_ELEMENTS, *[(d.operator.schema.base_name, *d.special.split()) for d in found])
    return frozenset(name.strip("-_") for name in names)


def pointwise(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """A function of elements; all nested tensors have one structure, dense ones are broadcast to it."""
    found = [a for a in _flat((args, tuple(kwargs.values()))) if isinstance(a, NestedTensor)]
    first = found[0]
    for other in found[1:]:
        _check_same(func.__name__, first, other)
    kwargs.pop("layout", None)

    def run(number: int) -> Any:
        def part(value: Any) -> Any:
            if isinstance(value, NestedTensor):
                return value.parts[number]
            return _broadcast(func.__name__, value, first, number) if isinstance(value, torch.Tensor) else value

        return func(*map(part, args), **{key: part(value) for key, value in kwargs.items()})

    made = [run(number) for number in range(len(first.parts))]
    if isinstance(args[0], NestedTensor) and all(m is p for m, p in zip(made, args[0].parts, strict=True)):
        return args[0]
    return first.like(made)


def _check_same(name: str, first: NestedTensor, other: NestedTensor) -> None:
    if first._components or other._components:
        if [c.shape for c in components(first)] != [c.shape for c in components(other)]:
            raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
    elif (first._size[first._ragged_idx], first._ragged_idx) != (other._size[other._ragged_idx], other._ragged_idx):
        _refuse_shapes(name, first._size, other._size)


def _broadcast(name: str, dense: Any, nested: NestedTensor, number: int) -> Any:
    """A dense tensor as it meets the values of a jagged tensor, or a component of a strided one."""
    ndim, batch, along = len(nested._size), len(nested), nested._ragged_idx
    if dense.dim() > ndim:
        raise NotImplementedError("NYI: broadcasting NT with T with larger dim")
    whole = dense.dim() == ndim and dense.shape[0] == batch and batch > 1
    if nested._components:
        return dense[number] if whole else dense[0] if dense.dim() == ndim else dense
    at = dense.dim() - (ndim - along)  # where the ragged dimension is in it
    if not whole:
        if at >= 0 and dense.shape[at] != 1 or dense.dim() == ndim and dense.shape[0] != 1:
            _refuse_shapes(name, nested.shape, dense.shape)
        return dense[0] if dense.dim() == ndim else dense
    if dense.shape[along] == 1:
        counts = torch.tensor([c.shape[along - 1] for c in components(nested)])
        return dense.transpose(0, along)[0].movedim(along - 1, 0).repeat_interleave(counts, 0).movedim(0, along - 1)
    if dense.shape[along] != nested._max_seqlen:
        target = [int(n) for n in nested._size]
        raise RuntimeError(
            f"The expanded size of the tensor ({nested._max_seqlen}) must match the existing size "
            f"({dense.shape[along]}) at non-singleton dimension {along}.  Target sizes: {target}.  Tensor sizes: "
            f"{list(dense.shape)}"
        )
    rows = zip(dense, components(nested), strict=True)
    return torch.cat([row.narrow(along - 1, 0, c.shape[along - 1]) for row, c in rows], along - 1)


def _refuse_shapes(name: str, first: Any, second: Any) -> NoReturn:
    raise RuntimeError(
        f"cannot call binary pointwise function {name.strip('_')}.Tensor with inputs of shapes {first} and {second}"
    )


# reductions and normalisation ----------------------------------------------------------------------------------------


def lifted(nested: NestedTensor, function: Callable, ragged: int | None = None) -> NestedTensor:
    """A function of each component that leaves the ragged dimension alone, which may come to another place."""
    if nested._components:
        return strided_of([function(c) for c in nested._components])
    return jagged(
        function(nested._values),
        nested._offsets,
        nested._lengths,
        ragged or nested._ragged_idx,
        nested._max_seqlen,
        nested._min_seqlen,
    )


def _outer_to_inner_dim(ndim: int, dim: Any, ragged_dim: int, canonicalize: bool = False) -> Any:
    """Dimensions as those of the values, in which batch and ragged dimension are one; the name is PyTorch's."""
    if isinstance(dim, (tuple, list)):
        return type(dim)(dict.fromkeys(_outer_to_inner_dim(ndim, d, ragged_dim, canonicalize) for d in dim))
    dim = wrapped_dim(dim, ndim) if canonicalize else dim
    return (dim or ragged_dim) - 1


def _stacked(results: Sequence[Any]) -> Any:
    if isinstance(results[0], torch.Tensor):
        return torch.stack(list(results))
    return type(results[0])(*[torch.stack(list(field)) for field in zip(*results, strict=True)])


@serves("sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "argmax", "argmin", "logsumexp")
def _reduced(func: Callable, self: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
    name = func.__name__
    if isinstance(dim, torch.Tensor):
        return pointwise(func, self, dim, **options)
    if dim is None:
        return func(torch.cat([c.reshape(-1) for c in components(self)]), **options)
    dims = sorted(wrapped_dim(d, self.dim()) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if self._components:
        _check_last(dims, keepdim, self.dim())
    ragged = self._ragged_idx
    inner = _outer_to_inner_dim(self.dim(), dims, ragged)
    if not self._components and dims[0] == 0:
        if ragged not in dims:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported "
                "for nested tensors"
            )
        made = func(torch.cat(components(self), ragged - 1), inner, keepdim, **options)
        return made.unsqueeze(0) if keepdim else made
    given = inner if isinstance(dim, (tuple, list)) else inner[0]
    if not self._components and ragged in dims:
        if len(dims) > 1:
            raise RuntimeError(
                f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
            )
        return _stacked([func(c, given, keepdim, **options) for c in components(self)])
    results = [func(p, given, keepdim, **options) for p in self.parts]
    at = ragged if keepdim else ragged - sum(d < ragged for d in dims)
    if isinstance(results[0], torch.Tensor):
        return self.like(results) if self._components else lifted(self, lambda _: results[0], at)
    return type(results[0])(*[lifted(self, lambda _, field=field: field, at) for field in results[0]])


def _check_last(dims: Sequence[int], keepdim: bool, ndim: int) -> None:
    if len(dims) > 1:
        raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
    if dims[0] != ndim - 1:
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension {dims[0]} instead."
        )
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")


@serves("softmax", "log_softmax")
def _softmax(func: Callable, self: Any, dim: int, *args: Any, **options: Any) -> Any:
    dim = wrapped_dim(dim, self.dim())
    if dim == 0:
        if self._components:
            raise RuntimeError("Cannot apply softmax across nested dimension 0")
        raise RuntimeError(
            f"{func.__name__}(): not supported when reducing across the batch dimension for NestedTensor"
        )
    if dim == self._ragged_idx and not self._components:
        return rejoined(self, [func(c, dim - 1, *args, **options) for c in components(self)])
    return lifted(self, lambda part: func(part, dim - 1, *args, **options))


@serves("layer_norm", "rms_norm", "native_layer_norm")
def _normed(func: Callable, input: Any, *args: Any, **options: Any) -> Any:
    return lifted(input, lambda part: func(part, *args, **options))


# products ------------------------------------------------------------------------------------------------------------


@serves("linear")
def _linear(func: Callable, input: Any, weight: Any, bias: Any = None) -> Any:
    if input._components and input._components[0].shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal "
            f"'weight.size(1), but got: last_dim = {input._components[0].shape[-1]}, and weight.size(1) = "
            f"{weight.shape[-1]}"
        )
    return lifted(input, lambda part: func(part, weight, bias))


@serves("_native_multi_head_attention")
def _attention_layer(func: Callable, query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any,
                     qkv_bias: Any, proj_weight: Any, proj_bias: Any, mask: Any = None, need_weights: bool = True,
                     average_attn_weights: bool = True, mask_type: int | None = None) -> tuple[Any, Any]:
    if mask is not None:
        raise RuntimeError("NestedTensor with mask is not supported yet")
    settings = (embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, None, need_weights,
                average_attn_weights)
    made = [func(*(part.unsqueeze(0) for part in parts), *settings)
            for parts in zip(components(query), components(key), components(value), strict=True)]
    output = rejoined(query, [result[0] for result, _ in made])
    if not need_weights:
        return output, None
    longest = max(weights.shape[-1] for _, weights in made)
    missing = [longest - weights.shape[-1] for _, weights in made]
    return output, torch.cat([torch.nn.functional.pad(weights, (0, n, 0, n))
                              for n, (_, weights) in zip(missing, made, strict=True)])


@serves("matmul", "bmm", "__matmul__", "__rmatmul__")
def _matmul(func: Callable, self: Any, other: Any) -> Any:
    if func.__name__ == "__rmatmul__":
        self, other = other, self
    nested = [x for x in (self, other) if isinstance(x, NestedTensor)]
    if len(nested) == 1 and nested[0]._components and func.__name__ != "bmm":
        which = "nested self and non-nested other" if nested[0] is self else "non-nested self and nested other"
        raise RuntimeError(f"Expected both to be nested, but got a {which}")
    if len(nested) == 1 and nested[0] is self and other.dim() <= 2 and self._ragged_idx < self.dim() - 1:
        return lifted(self, lambda part: torch.matmul(part, other))
    batches = [components(x) if isinstance(x, NestedTensor) else x.unbind(0) for x in (self, other)]
    if len(nested) == 2 and not self._components:
        if self._ragged_idx != self.dim() - 1 or other._ragged_idx != other.dim() - 2:
            raise RuntimeError(f"matmul(): not supported between inputs of shapes {self._size} and {other.shape}")
        return torch.stack([a @ b for a, b in zip(*batches, strict=True)])
    made = [a @ b for a, b in zip(*batches, strict=True)]
    return strided_of(made) if nested[0]._components else rejoined(nested[0], made)


@serves("embedding", "functional_embedding")
def _embedding(func: Callable, input: Any, *args: Any, **options: Any) -> Any:
    return lifted(input, lambda part: func(part, *args, **options))


@serves("scaled_dot_product_attention")
def _attention(
    func: Callable,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Any:
    if not all(isinstance(x, NestedTensor) for x in (query, key, value)):
        raise RuntimeError("scaled_dot_product_attention: query, key and value are nested, or none of them is")
    if attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: Nested tensors with attn_mask are not supported.")
    made = [
        func(q, k, v, None, dropout_p, is_causal, **options)
        for q, k, v in zip(*map(components, (query, key, value)), strict=True)
    ]
    return rejoined(query, made)


# shapes --------------------------------------------------------------------------------------------------------------


def _inner(name: str, nested: NestedTensor, dim: int, *, ragged_too: bool = True, extra: int = 0) -> int:
    """A dimension of the components; that of the batch, and the ragged one where it cannot be, are refused."""
    dim = wrapped_dim(dim, nested.dim() + extra)
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if not ragged_too and not nested._components and dim == nested._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return dim - 1


@serves("transpose", "swapaxes", "swapdims")
def _transposed(func: Callable, self: Any, dim0: int, dim1: int) -> Any:
    first, second = (wrapped_dim(d, self.dim()) for d in (dim0, dim1))
    if not (first and second):
        if self._components:
            raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    ragged = {first: second, second: first}.get(self._ragged_idx, self._ragged_idx)
    return lifted(self, lambda part: part.transpose(first - 1, second - 1), ragged)


@serves("permute")
def _permuted(func: Callable, self: Any, *dims: Any) -> Any:
    order = [wrapped_dim(d, self.dim()) for d in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return lifted(self, lambda part: part.permute([d - 1 for d in order[1:]]), order.index(self._ragged_idx))


@serves("unsqueeze")
def _unsqueezed(func: Callable, self: Any, dim: int) -> Any:
    if self._components and wrapped_dim(dim, self.dim() + 1) == 0:
        raise RuntimeError(
            "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment if you "
            "need this feature, please open an issue on github describing your use case."
        )
    inner = _inner("unsqueeze", self, dim, extra=1)
    return lifted(self, lambda part: part.unsqueeze(inner), self._ragged_idx + (inner + 1 <= self._ragged_idx))


@serves("squeeze")
def _squeezed(func: Callable, self: Any, dim: int) -> Any:
    inner = _inner("squeeze", self, dim, ragged_too=False)
    gone = self.parts[0].shape[inner] == 1
    return lifted(self, lambda part: part.squeeze(inner), self._ragged_idx - (gone and inner + 1 < self._ragged_idx))


@serves("chunk", "split", "split_with_sizes", "tensor_split")
def _split(func: Callable, self: Any, sizes: Any, dim: int = 0) -> Any:
    name, ndim = func.__name__, self.dim()
    if name == "chunk" and wrapped_dim(dim, ndim) == 0 and not self._components:
        parts = components(self)
        groups = [parts[i : i + -(-len(parts) // sizes)] for i in range(0, len(parts), -(-len(parts) // sizes))]
        return tuple(torch.nested.as_nested_tensor(list(group), layout=torch.jagged) for group in groups)
    if self._components and wrapped_dim(dim, ndim) != ndim - 1:
        raise RuntimeError(
            f"{name.capitalize()} for nested tensors is currently only supported for the last dimension."
        )
    inner = _inner(name, self, dim, ragged_too=False)
    pieces = [func(part, sizes, inner) for part in self.parts]
    return tuple(self.like(piece) for piece in zip(*pieces, strict=True))


@serves("cat", "concat", "stack")
def _joined(func: Callable, tensors: Sequence[Any], dim: int = 0) -> Any:
    first = next(t for t in tensors if isinstance(t, NestedTensor))
    if first._components and wrapped_dim(dim, first.dim()) == 0 and func.__name__ != "stack":
        return strided_of([c for t in tensors for c in components(t)])
    for other in tensors:
        if isinstance(other, NestedTensor):
            _check_same(func.__name__, first, other) if not first._components else None
    extra = func.__name__ == "stack"
    inner = _inner(func.__name__, first, dim, ragged_too=bool(extra), extra=extra)
    parts = [
        func(
            [
                _broadcast(func.__name__, t, first, n) if not isinstance(t, NestedTensor) else t.parts[n]
                for t in tensors
            ],
            inner,
        )
        for n in range(len(first.parts))
    ]
    return (
        lifted(first, lambda _: parts[0], first._ragged_idx + (extra and inner + 1 <= first._ragged_idx))
        if not first._components
        else strided_of(parts)
    )


@serves("view", "reshape")
def _viewed(func: Callable, self: Any, *shape: Any) -> Any:
    wanted = list(shape[0]) if isinstance(shape[0], (tuple, list)) else list(shape)
    if self._components:
        if wanted[0] not in (len(self), -1):
            raise RuntimeError(
                f"{func.__name__}: For now nested view cannot change or infer the implicit batch dimension"
            )
        return strided_of([func(c, *wanted[1:]) for c in self._components])
    marked = [d for d, n in enumerate(wanted) if isinstance(n, NestedInt)] or [
        d for d, n in enumerate(wanted) if n == -1
    ]
    ragged, own = marked[0] if marked else 0, self._values.shape
    before, after = own[: self._ragged_idx - 1], own[self._ragged_idx :]
    fits = (
        ragged
        and wanted[0] == len(self)
        and all(
            -1 in new or math.prod(new) == math.prod(old)
            for new, old in ((wanted[1:ragged], before), (wanted[ragged + 1 :], after))
        )
    )
    if not fits:
        raise RuntimeError(f"view(): cannot view shape {self._size} as {wanted}")
    inner = [*wanted[1:ragged], own[self._ragged_idx - 1], *wanted[ragged + 1 :]]
    return lifted(self, lambda part: func(part, inner), ragged)


@serves("unflatten")
def _unflattened(func: Callable, self: Any, dim: int, sizes: Sequence[int]) -> Any:
    inner = _inner("unflatten", self, dim, ragged_too=False)
    return lifted(
        self,
        lambda part: func(part, inner, sizes),
        self._ragged_idx + (len(sizes) - 1) * (inner + 1 < self._ragged_idx),
    )


@serves("flatten")
def _flattened(func: Callable, self: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    first, last = (wrapped_dim(d, self.dim()) for d in (start_dim, end_dim))
    if first <= self._ragged_idx <= last and not self._components:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    return lifted(
        self,
        lambda part: part.flatten(first - 1, last - 1),
        self._ragged_idx - (last - first) * (last < self._ragged_idx),
    )


@serves("expand")
def _expanded(func: Callable, self: Any, *shape: Any) -> Any:
    wanted = list(shape[0]) if isinstance(shape[0], (tuple, list)) else list(shape)
    sizes = [-1 if isinstance(n, NestedInt) else n for n in wanted[1:]]
    return lifted(self, lambda part: part.expand(sizes))


@serves("select")
def _selected(func: Callable, self: Any, dim: int, index: int) -> Any:
    if wrapped_dim(dim, self.dim()) == 0:
        return components(self)[index]
    inner = _inner("select", self, dim, ragged_too=False)
    return lifted(self, lambda part: part.select(inner, index), self._ragged_idx - (inner + 1 < self._ragged_idx))


@serves("narrow")
def _narrowed(func: Callable, self: Any, dim: int, start: int, length: int) -> Any:
    if self._components:
        if dim:
            raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
        return strided_of(self._components[start : start + length])
    inner = _inner("narrow", self, dim, ragged_too=False)
    return lifted(self, lambda part: part.narrow(inner, start, length))


@serves("__getitem__")
def _item(func: Callable, self: Any, index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    if isinstance(items[0], int):
        return components(self)[items[0]][items[1:]] if items[1:] else components(self)[items[0]]
    if items[0] is Ellipsis and len(items) == 2 and isinstance(items[1], int):
        return _selected(func, self, -1, items[1])
    if isinstance(items[0], slice):
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    _refuse("index", self)


@serves("unbind", "__iter__")
def _unbound(func: Callable, self: Any, dim: int = 0) -> Any:
    if dim:
        if self._components:
            raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return iter(components(self)) if func.__name__ == "__iter__" else components(self)


@serves("contiguous")
def _contiguous(func: Callable, self: Any, *args: Any, **options: Any) -> Any:
    if self._lengths is not None:
        return rejoined(self, components(self))
    return self if self.is_contiguous() else lifted(self, lambda part: part.contiguous())


def padded(self: Any, padding: float, output_size: Sequence[int] | None) -> Any:
    """The components as rows of a dense tensor, the places that one does not have filled."""
    parts = components(self)
    shape = [max(c.shape[d] for c in parts) for d in range(self.dim() - 1)]
    if output_size is not None:
        wanted = list(output_size[1:])
        if self._components and any(w < n for w, n in zip(wanted, shape, strict=True)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        shape = wanted
    rows = []
    for part in parts:
        room = [n for d in reversed(range(part.dim())) for n in (0, shape[d] - part.shape[d])]
        rows.append(torch.nn.functional.pad(part, room, value=padding) if any(room) else part)
    return torch.stack(rows)


# facts ---------------------------------------------------------------------------------------------------------------


@serves("is_same_size")
def _same_size(func: Callable, self: Any, other: Any) -> bool:
    return [c.shape for c in components(self)] == [c.shape for c in components(other)]


@serves("is_floating_point", "is_complex", "is_signed", "is_inference", "get_device", "is_pinned", "is_conj", "is_neg")
def _fact(func: Callable, self: Any) -> Any:
    return func(self.parts[0])


@serves("grad")
def _grad(func: Callable, outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **options: Any) -> Any:
    """torch.autograd.grad, by the tensors that have the elements."""

    def spread(values: Any) -> list:
        listed = values if isinstance(values, (tuple, list)) else (values,)
        return [p for v in listed for p in (v.parts if isinstance(v, NestedTensor) else (v,))]

    wanted = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    found = iter(
        func(spread(outputs), spread(inputs), None if grad_outputs is None else spread(grad_outputs), *args, **options)
    )
    return tuple(w.like([next(found) for _ in w.parts]) if isinstance(w, NestedTensor) else next(found) for w in wanted)


@serves("equal")
def _equal(func: Callable, self: Any, other: Any) -> bool:
    return _same_size(func, self, other) and all(
        torch.equal(a, b) for a, b in zip(components(self), components(other), strict=True)
    )


@serves("tolist", "numpy")
def _no_elements(func: Callable, self: Any, *args: Any, **options: Any) -> NoReturn:
    which = ", got NestedTensor" if func.__name__ == "tolist" else "."
    raise RuntimeError(f".{func.__name__}() is not supported for tensor subclasses{which}")


@serves("__bool__")
def _no_truth(func: Callable, self: Any) -> bool:
    if self.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(self.item())
