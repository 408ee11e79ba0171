"""NestedTensor: a batch of tensors that differ in a dimension (jagged) or in any (strided).

Its elements lie in other tensors, which carry the history: a jagged tensor keeps one, `values`, with its components one
after the other; a strided one keeps its components. Functions are answered by `__torch_function__`, out of the table in
`ops`.
"""

import functools
import itertools
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

from ..._core.geometry import wrapped_dim
from ..._core.tensor import _rebuild_from_type_v2
from ..._core.wrapper_subclass import make_wrapper_subclass
from ...utils.weak import WeakIdKeyDictionary

__all__ = ["NestedInt", "NestedTensor"]

_NUMBERS = itertools.count(1)
_LENGTHS = WeakIdKeyDictionary()  # by the tensor of offsets, or of lengths


class NestedInt(int):
    """The length of a ragged dimension: equal to that of tensors with the same offsets, and to no number."""

    number: int
    factor: int

    def __new__(cls, longest: int, number: int, factor: int = 1) -> "NestedInt":
        made = super().__new__(cls, longest)
        made.number, made.factor = number, factor
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self.number, self.factor) == (other.number, other.factor)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.number, self.factor))

    def __mul__(self, other: Any) -> Any:
        return NestedInt(int(self) * other, self.number, self.factor * other) if type(other) is int else NotImplemented

    __rmul__ = __mul__

    def __index__(self) -> int:  # so that a Size keeps it
        return self

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    __str__ = __repr__


def length_of(key: Any, longest: int) -> NestedInt:
    """The length that belongs to offsets, or to lengths."""
    if key not in _LENGTHS:
        _LENGTHS[key] = NestedInt(longest, next(_NUMBERS))
    return _LENGTHS[key]


class NestedTensor(torch.Tensor):
    """A batch of tensors of different sizes."""

    _values: Any
    _offsets: Any
    _lengths: Any
    _components: tuple
    _ragged_idx: int
    _size: tuple
    _max_seqlen: int
    _min_seqlen: int

    @staticmethod
    def __new__(
        cls,
        values: Any,
        offsets: Any,
        *,
        lengths: Any = None,
        requires_grad: bool = False,
        _ragged_idx: int = 1,
        **bounds: Any,
    ) -> "NestedTensor":
        """A jagged tensor on values, of which component i is between offsets i and i + 1."""
        counts = (offsets.diff() if lengths is None else lengths).tolist()
        longest = bounds.get("_max_seqlen") or max(counts, default=0)
        own = length_of(offsets if lengths is None else lengths, longest)
        shape = (len(counts), *values.shape[: _ragged_idx - 1], own, *values.shape[_ragged_idx:])
        made = _wrapper(cls, shape, values)
        made._values, made._offsets, made._lengths = values, offsets, lengths
        made._ragged_idx, made._components = _ragged_idx, ()
        made._max_seqlen, made._min_seqlen = longest, bounds.get("_min_seqlen") or min(counts, default=0)
        return made

    # what it is ------------------------------------------------------------------------------------------------------

    layout = property(lambda self: torch.strided if self._components else torch.jagged)  # type: ignore[assignment]
    is_nested = property(lambda self: True)
    shape = property(lambda self: self.size())  # type: ignore[assignment]
    parts = property(lambda self: self._components or (self._values,), doc="The tensors that have the elements.")
    requires_grad = property(
        lambda self: any(p.requires_grad for p in self.parts),  # type: ignore[assignment]
        lambda self, value: self.requires_grad_(value),
    )
    is_leaf = property(lambda self: all(p.is_leaf for p in self.parts))  # type: ignore[assignment]
    grad_fn = property(lambda self: self.parts[0].grad_fn)  # type: ignore[assignment]

    @property
    def grad(self) -> Any:  # type: ignore[override]
        grads = [p.grad for p in self.parts]
        return None if any(g is None for g in grads) else self.like(grads)

    @grad.setter
    def grad(self, value: Any) -> None:
        for part, grad in zip(self.parts, (None,) * len(self.parts) if value is None else value.parts, strict=True):
            part.grad = grad

    def like(self, parts: Sequence[Any]) -> "NestedTensor":
        """Other tensors of elements, nested in the same way."""
        if self._components:
            return strided_of(parts)
        return jagged(parts[0], self._offsets, self._lengths, self._ragged_idx, self._max_seqlen, self._min_seqlen)

    def size(self, dim: int | None = None) -> Any:  # type: ignore[override]
        if dim is not None:
            if self._components:
                return _strided_size(self._components, wrapped_dim(dim, len(self._size)))
            return self._size[dim]
        if self._components:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")
        return torch.Size(self._size)

    def stride(self, dim: int | None = None) -> Any:  # type: ignore[override]
        if self._components:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")
        own = self._values.stride()
        ragged = self._size[self._ragged_idx]
        first = own[self._ragged_idx - 1] * ragged if self._ragged_idx == 1 else own[0] * self._values.shape[0]
        strides = (first, *own)
        return strides if dim is None else strides[dim]

    _strides = property(stride)
    _max_seqlen_tensor = property(lambda self: torch.zeros(self._max_seqlen, 0))
    _min_seqlen_tensor = property(lambda self: torch.zeros(self._min_seqlen, 0))

    def dim(self) -> int:
        return len(self._size)

    ndim = property(dim)  # type: ignore[assignment]

    def numel(self) -> int:
        return (
            sum(c.numel() for c in components(self))
            if self._lengths is not None
            else sum(p.numel() for p in self.parts)
        )

    nelement = numel

    def __len__(self) -> int:
        return int(self._size[0])

    def is_contiguous(self, memory_format: Any = torch.contiguous_format) -> bool:
        return self._lengths is None and all(p.is_contiguous() for p in self.parts)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        if self._components:
            shown = ",\n".join(textwrap.indent(repr(c.detach()), "  ") for c in self._components)
            history = (
                f", grad_fn={self.grad_fn}"
                if self.grad_fn is not None
                else (", requires_grad=True" if self.requires_grad else "")
            )
            return f"nested_tensor([\n{shown}\n]{history})"
        history = (
            f", grad_fn={self.grad_fn}"
            if self.grad_fn is not None
            else (", requires_grad=True" if self.requires_grad else "")
        )
        return f"NestedTensor(size={self._size}, offsets={self._offsets}{history}, contiguous={self.is_contiguous()})"

    __str__ = __repr__

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return components(self)[0].item()

    # its parts -------------------------------------------------------------------------------------------------------

    def values(self) -> Any:
        """The tensor of all elements; a strided one's are flat."""
        if self._components:
            return torch.cat([c.reshape(-1) for c in self._components])
        return self._values.view(self._values.shape)

    def offsets(self) -> Any:
        self._only_jagged("offsets")
        return self._offsets

    def lengths(self) -> Any:
        self._only_jagged("lengths")
        return self._lengths

    def _only_jagged(self, name: str) -> None:
        if self._components:
            raise RuntimeError(f"{name} expected a nested tensor of layout torch.jagged but got torch.strided")

    def _get_max_seqlen(self) -> int:
        return self._max_seqlen

    def _get_min_seqlen(self) -> int:
        return self._min_seqlen

    def to_padded_tensor(  # type: ignore[override]
        self,
        padding: float,
        output_size: Sequence[int] | None = None,
    ) -> Any:
        """A dense tensor of all components, the places that one does not have filled."""
        from .ops import padded

        return padded(self, padding, output_size)

    def _nested_tensor_size(self) -> Any:
        return torch.tensor([list(c.shape) for c in components(self)], dtype=torch.int64)

    def _nested_tensor_strides(self) -> Any:
        return torch.tensor([list(c.stride()) for c in components(self)], dtype=torch.int64)

    # These have a shape among their arguments, whose NestedInt must not become a number on the way.

    def view(self, *shape: Any) -> Any:  # type: ignore[override]
        return self._reshaped("view", shape)

    def reshape(self, *shape: Any) -> Any:  # type: ignore[override]
        return self._reshaped("reshape", shape)

    def expand(self, *shape: Any) -> Any:  # type: ignore[override]
        return self._reshaped("expand", shape)

    def _reshaped(self, name: str, shape: tuple) -> Any:
        from .ops import FUNCTIONS

        return FUNCTIONS[name](getattr(torch.Tensor, name), self, *shape)

    # gradients -------------------------------------------------------------------------------------------------------

    def requires_grad_(self, requires_grad: bool = True) -> "NestedTensor":
        for part in self.parts:
            part.requires_grad_(requires_grad)
        return self

    def retain_grad(self) -> None:
        for part in self.parts:
            part.retain_grad()

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        grads = None if gradient is None else list(gradient.parts)
        torch.autograd.backward(list(self.parts), grads, retain_graph, create_graph, inputs=inputs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._components:
            return strided_of, (list(self._components),)
        state = {
            "values": self._values,
            "offsets": self._offsets,
            "lengths": self._lengths,
            "_ragged_idx": self._ragged_idx,
            "_metadata_cache": {},
            "requires_grad": self.requires_grad,
        }
        return _rebuild_from_type_v2, (_rebuild_njt, NestedTensor, (state,), {})

    def __deepcopy__(self, memo: dict) -> "NestedTensor":
        copied = self.like([p.detach().clone().requires_grad_(p.requires_grad) for p in self.parts])
        memo[id(self)] = copied
        return copied

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        from .ops import answer

        return answer(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError(str(func))


def _rebuild_njt(constructor_kwargs: dict) -> NestedTensor:
    """The jagged tensor of a file, under PyTorch's name."""
    given = constructor_kwargs
    return jagged(given["values"], given["offsets"], given["lengths"], given["_ragged_idx"])


def _wrapper(cls: type, shape: tuple, like: Any) -> Any:
    made = make_wrapper_subclass(
        cls, [int(n) for n in shape], dtype=like.dtype, device=like.device, layout=torch.strided
    )
    made._size = shape
    return made


def jagged(
    values: Any,
    offsets: Any,
    lengths: Any = None,
    ragged_idx: int = 1,
    longest: int | None = None,
    shortest: int | None = None,
) -> NestedTensor:
    """A jagged tensor."""
    return NestedTensor(
        values, offsets, lengths=lengths, _ragged_idx=ragged_idx, _max_seqlen=longest, _min_seqlen=shortest
    )


def strided_of(parts: Sequence[Any]) -> NestedTensor:
    """A nested tensor of strided layout, of these components."""
    longest = (
        functools.reduce(lambda a, b: [max(x, y) for x, y in zip(a, b, strict=True)], [list(p.shape) for p in parts])
        if parts
        else []
    )
    made = _wrapper(NestedTensor, (len(parts), *longest), parts[0] if parts else torch.empty(0))
    made._components, made._ragged_idx, made._lengths = tuple(parts), 1, None
    return made


def _strided_size(parts: Sequence[Any], dim: int) -> int:
    if dim == 0:
        return len(parts)
    if len({p.shape[dim - 1] for p in parts}) > 1:
        raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
    return parts[0].shape[dim - 1]


def bounds(nested: NestedTensor) -> list[tuple[int, int]]:
    """Where the components of a jagged tensor begin, and how long they are."""
    starts = nested._offsets.tolist()
    if nested._lengths is None:
        return [(a, b - a) for a, b in itertools.pairwise(starts)]
    return list(zip(starts, nested._lengths.tolist(), strict=False))


def components(nested: NestedTensor) -> tuple:
    """The tensors of the batch, as views with history."""
    if nested._components:
        return nested._components
    along = nested._ragged_idx - 1
    if nested._lengths is None:
        return tuple(nested._values.split([n for _, n in bounds(nested)], along))
    return tuple(nested._values.narrow(along, start, count) for start, count in bounds(nested))


def rejoined(nested: NestedTensor, parts: Sequence[Any]) -> NestedTensor:
    """Components that took the place of those of a tensor, of the same lengths, nested as it is."""
    if nested._components:
        return strided_of(parts)
    offsets = nested._offsets
    if nested._lengths is not None:
        offsets = torch.cat([offsets.new_zeros(1), nested._lengths.cumsum(0)])
        length_of(offsets, nested._max_seqlen)
    along = nested._ragged_idx - 1
    return jagged(torch.cat(list(parts), along), offsets, None, nested._ragged_idx)
