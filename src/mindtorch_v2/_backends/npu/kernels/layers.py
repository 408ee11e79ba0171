"""NPU kernels of layers: resampling, pooling, bags of embeddings, alignments in time, whole steps of optimizers."""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...._dispatch.registry import registry
from ...._dtype import COMPUTE, float32, int64
from ...._ops.adaptive_pool import _bounds
from ...._ops.fused_steps import FusedStep, _decayed
from ...._ops.resample import _taps
from ...._ops.rules import Spec
from ...._ops.taps import Taps
from ...._tensor import Tensor
from ..array import from_host
from ..families import cast, number_tensor, uninitialised, wrap_npu
from ..launch import run
from .composed import call, composed, infer, laid_out, number_of, results, unsafe_view, untouched

Sizes = Sequence[int]


def _sent(array: np.ndarray, like: Tensor) -> Any:
    """A table that was made on the host, on a tensor's device."""
    return wrap_npu(from_host(np.ascontiguousarray(array), like._array.device_index))


# resampling ----------------------------------------------------------------------------------------------------------


def _mapped(x: Any, taps: Taps, dim: int) -> Any:
    """A tensor with one dimension mapped."""
    count, results_ = taps.places.shape
    if count == 1 and taps.weights is None and taps.places.min() >= 0:
        return x.index_select(dim, _sent(taps.places[0], x))
    picked = x.index_select(dim, _sent(np.maximum(taps.places, 0).reshape(-1), x))
    picked = picked.reshape((*x.shape[:dim], count, results_, *x.shape[dim + 1 :]))
    shape = (count, results_) + (1,) * (x.dim() - 1 - dim)
    if taps.weights is not None:
        picked = picked * _sent(taps.weights.astype(x._array.dtype), x).reshape(shape)
    if taps.places.min() < 0:  # not by its weight: 0 times infinity is no zero
        picked = picked.masked_fill(_sent(taps.places < 0, x).reshape(shape), 0)
    return picked.sum((dim,))


def _resampled(name: str, x: Any, mode: str, sizes: Sequence[tuple[int, int]], options: Sequence[Any], spec: Spec,
               backward: bool) -> Tensor:
    aligned, scales = (False, options) if mode.startswith("nearest") else (options[0], options[1:])
    nearest = mode.startswith("nearest") and not backward
    wide = x if nearest else cast(x, COMPUTE.get(x.dtype, x.dtype))
    kind = np.float64 if wide._array.dtype == np.float64 else np.float32
    if not nearest and wide._array.dtype != kind:
        raise NotImplementedError(f"\"{name}_npu\" not implemented for '{x.dtype.scalar_name}'")
    for d in reversed(range(len(sizes))):
        wide = _mapped(wide, _taps(mode, *sizes[d], aligned, scales[d], kind, backward), d + 2)
    return laid_out(wide, spec)


def _declare_resampling(name: str, mode: str, *, forward: bool = True) -> None:
    """Kernels of a resampling that ACLNN has no operator for; `forward=False` if that is so for its backward alone."""

    def kernel(self: Tensor, output_size: Sizes, *options: Any) -> Tensor:
        spec = infer(name, self, output_size, *options)
        sizes = list(zip(self.shape[2:], output_size, strict=True))
        return _resampled(name, self, mode, sizes, options, spec, False)

    @composed(f"{name}_backward")
    def backward(grad_output: Tensor, output_size: Sizes, input_size: Sizes, *options: Any) -> Tensor:
        spec = infer(f"{name}_backward", grad_output, output_size, input_size, *options)
        sizes = list(zip(input_size[2:], output_size, strict=True))
        return _resampled(name, grad_output, mode, sizes, options, spec, True)

    if forward:
        composed(name)(kernel)


for _rank in (1, 2, 3):
    _declare_resampling(f"_upsample_nearest_exact{_rank}d", "nearest exact")
for _name in ("bilinear", "bicubic", "lanczos"):
    _mode = {"bilinear": "linear", "bicubic": "cubic"}.get(_name, _name)
    _declare_resampling(f"_upsample_{_name}2d_aa", f"{_mode} antialias")
_declare_resampling("upsample_nearest3d", "nearest")
_declare_resampling("upsample_linear1d", "linear", forward=False)
_declare_resampling("upsample_trilinear3d", "linear", forward=False)


def _declare_nearest(rank: int, mode: str) -> None:
    @composed(f"upsample_nearest{rank}d")
    def kernel(row: Callable, self: Tensor, output_size: Sizes, *scales: float | None) -> Tensor:
        """ACLNN's operators know sizes only; with a given scale the places are computed here."""
        if scales == (None,) * rank:
            return row(self, output_size, *scales)
        spec = infer(f"upsample_nearest{rank}d", self, output_size, *scales)
        sizes = list(zip(self.shape[2:], output_size, strict=True))
        return _resampled(f"upsample_nearest{rank}d", self, mode, sizes, scales, spec, False)


_declare_nearest(1, "nearest")
_declare_nearest(2, "nearest in planes")


# pooling -------------------------------------------------------------------------------------------------------------


def _largest(x: Any, table: Any, specs: Sequence[Spec], rank: int) -> tuple[Any, ...]:
    """The largest of the elements that a table (planes or 1, places in a window, windows) names, and where it is."""
    planes = x.reshape((-1, math.prod(x.shape[-rank:])))
    shape = (planes.shape[0], *table.shape[1:])
    table = table.expand(shape)
    seen = planes.gather(1, table.clamp_min(0).reshape((shape[0], -1))).reshape(shape)
    values, number = seen.masked_fill(table < 0, -math.inf).max(1)
    indices = table.gather(1, number.unsqueeze(1))
    return tuple(laid_out(m.reshape(s.shape), s) for m, s in zip((values, indices), specs, strict=True))


def _returned(values: Any, indices: Any, shape: Sizes, spec: Spec, rank: int) -> Tensor:
    """Zeros of a shape, with values added at indices in their planes."""
    made = values.new_zeros((math.prod(shape[:-rank]), math.prod(shape[-rank:])))
    if values.numel():
        rows = (x.reshape((made.shape[0], -1)) for x in (indices, values))
        made = made.scatter_add(1, *rows)
    return laid_out(made.reshape(shape), spec)


@composed("adaptive_max_pool3d")
def _adaptive_max_pool3d(self: Tensor, output_size: Sizes) -> Any:
    name, specs = "adaptive_max_pool3d", infer("adaptive_max_pool3d", self, output_size)
    if 0 in specs[0].shape:
        return results(name, *(uninitialised(spec, self._device) for spec in specs))
    table = np.zeros((1, 1), np.int64)
    for n, count in zip(self.shape[-3:], output_size, strict=True):
        start, end = _bounds(n, count)
        places = start + np.arange((end - start).max())[:, None]
        places[places >= end] = -1
        absent = (table[:, None, :, None] < 0) | (places[:, None] < 0)
        table = np.where(absent, -1, table[:, None, :, None] * n + places[:, None])
        table = table.reshape(table.shape[0] * table.shape[1], -1)
    return results(name, *_largest(self, _sent(table[None], self), specs, 3))


def _declare_fractional(rank: int) -> None:
    name = f"fractional_max_pool{rank}d"

    @composed(name)
    def kernel(self: Any, kernel_size: Sizes, output_size: Sizes, random_samples: Any) -> Any:
        specs = infer(name, self, kernel_size, output_size, random_samples)
        if 0 in specs[0].shape:
            return results(name, *(uninitialised(spec, self._device) for spec in specs))
        planes = math.prod(self.shape[:-rank])
        samples = random_samples.reshape((-1, rank)).narrow(0, 0, planes)
        table = samples.new_zeros((1, 1, 1), dtype=int64)
        for d, (n, size, count) in enumerate(zip(self.shape[-rank:], kernel_size, output_size, strict=True)):
            sample = samples.select(1, rank - 1 - d if rank == 2 else d).unsqueeze(1)
            step = (n - size) / max(count - 1, 1)
            number = _sent(np.arange(count), self)
            starts = ((number + sample) * step).to(int64) - (sample * step).to(int64)
            starts = starts.masked_fill(number == count - 1, n - size)
            places = starts.unsqueeze(1) + _sent(np.arange(size), self).unsqueeze(1)
            table = (table[:, :, None, :, None] * n + places[:, None, :, None]).reshape(
                (planes, table.shape[1] * size, table.shape[2] * count))
        return results(name, *_largest(self, table, specs, rank))

    @composed(f"{name}_backward")
    def backward(grad_output: Tensor, self: Tensor, kernel_size: Sizes, output_size: Sizes, indices: Tensor) -> Tensor:
        spec = infer(f"{name}_backward", grad_output, self, kernel_size, output_size, indices)
        return _returned(grad_output, indices, spec.shape, spec, rank)


_declare_fractional(2)
_declare_fractional(3)


@composed("adaptive_max_pool3d_backward")
def _adaptive_max_pool3d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    spec = infer("adaptive_max_pool3d_backward", grad_output, self, indices)
    return _returned(grad_output, indices, spec.shape, spec, 3)


@composed("max_unpool3d")
def _max_unpool3d(self: Any, indices: Any, output_size: Sizes, stride: Sizes, padding: Sizes) -> Tensor:
    spec = infer("max_unpool3d", self, indices, output_size, stride, padding)
    made = self.new_zeros((math.prod(spec.shape[:-3]), math.prod(output_size)))
    rows = (x.reshape((made.shape[0], -1)) for x in (indices, self))
    return unsafe_view(made.scatter(1, *rows), spec.shape)


# sequences -----------------------------------------------------------------------------------------------------------


@composed("_embedding_bag")
def _embedding_bag(row: Callable, weight: Any, indices: Any, offsets: Any, *options: Any) -> Any:
    """ACLNN tells the bag of each index only where a mean, a maximum or padding needs it."""
    specs = infer("_embedding_bag", weight, indices, offsets, *options)
    by_frequency, mode, sparse, factors, has_last, padding = options
    told = indices.numel() if mode or padding >= 0 else 0
    made = [uninitialised(spec, weight._device) for spec in specs]
    bags = made[1] if made[1].numel() == told else indices.new_empty((told,))
    if indices.numel() and weight.numel():
        run("aclnnEmbeddingBag", (weight._array, indices._array, offsets._array, by_frequency, mode, sparse,
                                  None if factors is None else factors._array, has_last, padding, made[0]._array,
                                  bags._array, made[2]._array, made[3]._array), "aten::_embedding_bag")
    else:
        made = [m.zero_() for m in made]
    if made[1].numel() != told:
        number = call("arange.start_step", 0, indices.numel(), 1, offsets.dtype, None, offsets._device, None, False)
        made[1] = call("searchsorted", offsets, number, False, True, None, None).to(indices.dtype) - 1
    return results("_embedding_bag", *map(untouched, made))


@composed("_ctc_loss_backward")
def _ctc_loss_backward(grad_out: Any, log_probs: Any, targets: Any, input_lengths: Sizes, target_lengths: Sizes,
                       neg_log_likelihood: Any, log_alpha: Any, blank: int, zero_infinity: bool) -> Tensor:
    """Ends of alignments from the last step to the first; how likely a step shows a label is alpha times beta."""
    steps, batch, classes = log_probs.shape
    longest = max(target_lengths, default=0)
    lengths, place = np.array(target_lengths, np.int64)[:, None], np.arange(2 * longest + 1)
    number, width = np.arange(longest), targets.shape[-1]
    starts = np.cumsum(lengths)[:, None] - lengths if targets.dim() == 1 else np.arange(batch)[:, None] * width
    taken = _sent(np.where(number < lengths, starts + number, 0).reshape(-1), targets)
    labels = targets.reshape((-1,)).index_select(0, taken).reshape((batch, longest))
    places = targets.new_full((batch, len(place)), blank, dtype=int64)
    places[:, 1::2] = labels.masked_fill(_sent(number >= lengths, targets), blank)
    same = places[:, 2:] == places[:, :-2]  # a label may follow another without the blank, unless it is the same
    everywhere = places.unsqueeze(1).expand((batch, steps, len(place)))
    shown = log_probs.transpose(0, 1).gather(2, everywhere)
    ends = (place == 2 * lengths) | (place == 2 * lengths - 1)
    never = -math.inf
    finish = log_probs.new_zeros((batch, len(place))).masked_fill(_sent(~ends, targets), never)
    beta = finish.new_full(finish.shape, never)
    nothing = beta.narrow(1, 0, 1)
    last = np.array(input_lengths, np.int64) - 1
    posterior: list[Any] = [None] * steps
    for step in range(steps - 1, -1, -1):
        after = call("logaddexp", beta, call("cat", (beta[:, 1:], nothing), 1))
        if longest:
            two = call("cat", (beta[:, 2:].masked_fill(same, never), nothing, nothing), 1)
            after = call("logaddexp", after, two)
        beta = call("where.self", _sent((last == step)[:, None], targets), finish, after)
        posterior[step] = log_alpha.select(1, step) + beta + neg_log_likelihood.unsqueeze(1)
        beta = beta + shown.select(1, step)
    shares = call("stack", posterior, 1).exp()
    spread = log_probs.new_zeros((batch, steps, classes)).scatter_add(2, everywhere, shares)
    made = (log_probs.exp() - spread.transpose(0, 1)) * grad_out.unsqueeze(1)
    unused = _sent(np.arange(steps)[:, None] > last, targets)
    if zero_infinity:
        unused = unused | (neg_log_likelihood == math.inf)
    return untouched(made.masked_fill(unused.unsqueeze(2), 0))


# optimizers ----------------------------------------------------------------------------------------------------------


_ADAMW_TYPES = ("float32", "float16", "bfloat16")
_OF_TENSORS = SimpleNamespace(  # what steps on arrays need, for tensors
    multiply=lambda x, y, out: out.copy_(x * y), divide=lambda x, y, out: out.copy_(x / y),
    maximum=lambda x, y, out: out.copy_(x.maximum(y)),
    sqrt=lambda x, out=None: x.sqrt() if out is None else out.copy_(x.sqrt()))


def _adam_step(decoupled: bool, lists: Sequence[Any], step: Any, lr: float, beta1: float, beta2: float,
               weight_decay: float, eps: float, amsgrad: bool, maximize: bool) -> None:
    """One parameter's step in one launch; ACLNN counts steps from 0."""
    parameter, gradient, mean, square_mean, *greatest = lists
    if not decoupled:
        gradient = _decayed(parameter, gradient, weight_decay, maximize)
        weight_decay, maximize = 0.0, False
    before = step - 1 if step._device == parameter._device else number_tensor(step.item() - 1, float32,
                                                                            parameter._device)
    run("aclnnApplyAdamWV2", (parameter._array, mean._array, square_mean._array,
                              greatest[0]._array if amsgrad else None, gradient._array, before._array, lr, beta1,
                              beta2, weight_decay, eps, amsgrad, maximize), "aten::_fused_adamw_")
    for tensor in (parameter, mean, square_mean, *greatest):
        tensor._bump_version()


def _declare_fused_step(name: str) -> None:
    """A step as declared, on tensors instead of arrays; Adam and AdamW as ACLNN's operator where it has the type."""
    operator = registry.get(f"aten::{name}")
    family = operator.declaration.family
    assert isinstance(family, FusedStep)
    count, counts, prepare = 2 + family.state_lists, family.counts, family.prepare
    names = operator.schema.names[count + counts : -2]

    @composed(name)
    def kernel(*args: Any) -> None:
        lists = [args[0], *(tensors for tensors in args[1:count] if tensors)]
        steps, (scale, found_inf) = args[count] if counts else [None] * len(args[0]), args[-2:]
        if found_inf is not None and found_inf.item():
            return
        options = dict(zip(names, map(number_of, args[count + counts : -2]), strict=True))
        for step, *tensors in zip(steps, *lists, strict=True):
            if scale is not None:
                tensors[1].div_(scale)
            same = len({tensor.dtype for tensor in tensors}) == 1
            if "adam" in name and same and tensors[0].dtype.name in _ADAMW_TYPES:
                _adam_step(name == "_fused_adamw_", tensors, step, **options)
            else:
                prepare(None if step is None else step.item(), **options)(_OF_TENSORS, *tensors)


for _name in ("_fused_sgd_", "_fused_adam_", "_fused_adamw_", "_fused_adagrad_"):
    _declare_fused_step(_name)
