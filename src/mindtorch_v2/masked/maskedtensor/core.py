"""MaskedTensor: a tensor some of whose elements are not there, and the operators that know what to do with it."""

import textwrap
import warnings
from typing import Any

import mindtorch_v2 as torch

from ..._core.wrapper_subclass import make_wrapper_subclass

__all__ = ["MaskedTensor", "is_masked_tensor"]

_PROTOTYPE = ("The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open "
              "a Github issue for features requests and see our documentation on the torch.masked module for further "
              "information about the project.")
_TRACKED = ("It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can "
            "use data.detach().clone()")
_KINDS = frozenset((torch.float16, torch.float32, torch.float64, torch.bool, torch.int8, torch.int16, torch.int32,
                    torch.int64))
_LAYOUTS = frozenset((torch.strided, torch.sparse_coo, torch.sparse_csr))


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether a value is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


def _get_data(a: Any) -> Any:
    return a._masked_data if is_masked_tensor(a) else a


def _maybe_get_mask(a: Any) -> Any:
    return a.get_mask() if is_masked_tensor(a) else None


def _tensors_match(a: Any, b: Any, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08) -> bool:
    """Whether two tensors have the same elements, to rounding unless `exact`."""
    if is_masked_tensor(a) or is_masked_tensor(b):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout != b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    if a.dtype != b.dtype:
        b = b.type(a.dtype)
    if a.layout is torch.sparse_coo:
        a, b = a.coalesce(), b.coalesce()
        parts: Any = [(a.indices(), b.indices()), (a.values(), b.values())]
    elif a.layout is torch.sparse_csr:
        parts = [(getattr(a, name)(), getattr(b, name)()) for name in ("crow_indices", "col_indices", "values")]
    else:
        parts = [(a, b)]
    if any(x.shape != y.shape for x, y in parts):
        return False
    if exact:
        return all(torch.equal(x, y) for x, y in parts)
    return all(torch.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True) for x, y in parts)


def _masks_match(a: Any, b: Any) -> bool:
    """Whether two masked tensors have the same mask; a tensor without one goes with any."""
    if is_masked_tensor(a) and is_masked_tensor(b):
        return _tensors_match(a.get_mask(), b.get_mask(), exact=True)
    return True


# printing ------------------------------------------------------------------------------------------------------------


def _written(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _masked_tensor_str(data: Any, mask: Any) -> str:
    """The elements in brackets, two dashes for those that are masked out."""
    if data.layout is not torch.strided:
        data, mask = data.to_dense(), mask.to_dense()
    if data.dim() == 0:
        return _written(data.item()) if mask.item() else "--"
    if data.dim() == 1:
        shown, there = [_written(value) for value in data.tolist()], mask.tolist()
        width = max((len(text) if is_there else 8 for text, is_there in zip(shown, there, strict=True)), default=0)
        return "[" + ", ".join(text if is_there else "--".rjust(width)
                               for text, is_there in zip(shown, there, strict=True)) + "]"
    rows = ",\n".join(_masked_tensor_str(d, m) for d, m in zip(data, mask, strict=True))
    return "[\n" + textwrap.indent(rows, "  ") + "\n]"


# gradients -----------------------------------------------------------------------------------------------------------


class _Data(torch.autograd.Function):
    """The elements of a masked tensor; their gradient has its mask."""

    @staticmethod
    def forward(ctx: Any, masked: Any) -> Any:
        ctx.mask = masked.get_mask()
        return masked._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad if is_masked_tensor(grad) else _quietly(grad, ctx.mask)


class _Made(torch.autograd.Function):
    """A masked tensor of a tensor, to which the gradient goes as a masked tensor, or without a mask if `plain`."""

    @staticmethod
    def forward(ctx: Any, data: Any, mask: Any, plain: bool = False) -> Any:
        ctx.mark_non_differentiable(mask)
        ctx.plain = plain
        return _quietly(data.detach(), mask)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.plain and is_masked_tensor(grad):
            grad = torch.where(grad.get_mask(), grad._masked_data, 0)
        return grad, None, None


def _quietly(data: Any, mask: Any) -> "MaskedTensor":
    """A masked tensor on this memory, without the warning that programs get for theirs."""
    return MaskedTensor._on(data, mask)


class MaskedTensor(torch.Tensor):
    """A tensor with a mask: True where there is an element, False where there is none."""

    _masked_data: torch.Tensor
    _masked_mask: torch.Tensor

    @staticmethod
    def __new__(cls: Any, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        if is_masked_tensor(data) or not torch.is_tensor(data):
            raise TypeError("data must be a Tensor")
        if is_masked_tensor(mask) or not torch.is_tensor(mask):
            raise TypeError("mask must be a Tensor")
        warnings.warn(_PROTOTYPE, UserWarning, stacklevel=2)
        if data.requires_grad:
            warnings.warn(_TRACKED, UserWarning, stacklevel=2)
        return cls._on(data.detach().clone(), mask.clone(), requires_grad)

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        """All is done in `__new__`."""

    @classmethod
    def _on(cls, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        data, mask = _checked(data, mask)
        strides = data.stride() if data.layout is torch.strided else None
        made = make_wrapper_subclass(cls, data.shape, strides=strides, dtype=data.dtype, device=data.device,
                                     requires_grad=requires_grad)
        made._masked_data, made._masked_mask = data, mask
        return made

    @property
    def layout(self) -> Any:  # type: ignore[override]
        return self._masked_data.layout

    def get_data(self) -> Any:
        """The elements as a plain tensor, those that are masked out included."""
        return _Data.apply(self)

    def get_mask(self) -> Any:
        return self._masked_mask

    def is_sparse_coo(self) -> bool:
        return self.layout is torch.sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return self.layout is torch.sparse_csr

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self.is_sparse_coo() or self.is_sparse_csr()

    def to_tensor(self, value: Any) -> Any:
        """A plain tensor, with `value` where there is no element."""
        return self.get_data().masked_fill(~self.get_mask(), value)

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        if self.is_sparse:
            raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
        return self._masked_data.is_contiguous(*args, **kwargs)

    def _is_any_true(self) -> Any:
        if self.dtype is not torch.bool:
            raise ValueError("expected a boolean tensor")
        return _quietly((self._masked_data & self._masked_mask).any(), torch.tensor(True))

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        shown = _masked_tensor_str(self._masked_data, self._masked_mask)
        if self.dim() == 0:
            return f"MaskedTensor({shown}, {self._masked_mask.item()})"
        return f"MaskedTensor(\n{textwrap.indent(shown, '  ')}\n)"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        from .functions import FUNCTIONS

        handler = FUNCTIONS.get(getattr(func, "__name__", ""))
        if handler is not None and any(map(is_masked_tensor, args)):
            return handler(*args, **(kwargs or {}))
        if not all(issubclass(t, torch.Tensor) for t in types):
            return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        from .operators import OPERATORS

        handler = OPERATORS.get(func._opname)
        return NotImplemented if handler is None else handler(func, args, kwargs or {})


def _checked(data: Any, mask: Any) -> tuple[Any, Any]:
    """Data and mask, those of sparse tensors coalesced, if they go together."""
    if data.layout not in _LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout is not mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout is torch.sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
        if data._nnz() != mask._nnz():
            data = data.sparse_mask(mask)
        if not _tensors_match(data.indices(), mask.indices()):
            raise ValueError("data and mask are both sparse COO tensors but do not have the same indices.")
    elif data.layout is torch.sparse_csr:
        if data._nnz() != mask._nnz():
            data = data.sparse_mask(mask)
        if not (_tensors_match(data.crow_indices(), mask.crow_indices())
                and _tensors_match(data.col_indices(), mask.col_indices())):
            raise ValueError("data and mask are both sparse CSR tensors but do not share either crow or col indices.")
    if mask.dtype is not torch.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _KINDS:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")
    return data, mask
