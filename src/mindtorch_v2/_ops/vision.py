"""The operators that torchvision has in C++: regions of interest, non-maximum suppression, deformable convolution.

They are made of other operators, so that they run wherever those do and have derivatives of any order. A region is a
product of one-dimensional weights along the rows and the columns of its image, and pooling it two products of matrices.
Importing this declares them, which `torch.ops.torchvision` and torchvision's own loading of its library do.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mindtorch_v2 as torch

from ._declare.op import composite

_REGIONS = 64  # regions that are pooled together, which bounds the memory that it takes


def _check_regions(input: Any, rois: Any, parts: int | None = None) -> None:
    if rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if input.dtype != rois.dtype:
        raise RuntimeError("Expected tensor for input to have the same type as tensor for rois; but type "
                           f"{input.dtype} does not equal {rois.dtype}")
    if parts is not None and input.size(1) % parts:
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")


def _by_image(input: Any, rois: Any) -> Iterator[tuple[Any, Any]]:
    """Each image with the numbers of regions that lie in it, not too many at a time."""
    image_of = rois[:, 0].long()
    for image in range(input.size(0)):
        for places in (image_of == image).nonzero().flatten().split(_REGIONS):
            yield input[image], places


def _pooled(input: Any, rois: Any, pool: Callable[[Any, Any], Any], shape: tuple[int, ...]) -> Any:
    """What `pool(image, regions)` gives, in the order of the regions."""
    results, order = [], []
    for image, places in _by_image(input, rois):
        results.append(pool(image, rois[places]))
        order.append(places)
    if not results:
        return input.new_zeros((0, *shape)) + 0 * input.sum()  # which belongs to the graph of the input too
    return torch.cat(results)[torch.cat(order).argsort()]


def _sampled_weights(start: Any, extent: Any, size: int, bins: int, samples: int) -> tuple[Any, Any]:
    """(regions, bins, size): how much of each row goes into each bin, read at points of a grid; their number.

    A hat of height one around the point gives the two weights of linear interpolation. Points more than one row outside
    count as zero.
    """
    step = extent / bins
    count = step.new_full(step.shape, samples) if samples > 0 else step.ceil()
    most = samples if samples > 0 else int(count.max().item()) if count.numel() else 0
    point, bin = torch.arange(most, dtype=step.dtype, device=step.device), torch.arange(bins, device=step.device)
    within = (point + 0.5) / count.clamp(min=1)[:, None, None]
    along = start[:, None, None] + step[:, None, None] * (bin[:, None] + within)
    counted = (along >= -1) & (along <= size) & (point < count[:, None, None])
    rows = torch.arange(size, dtype=step.dtype, device=step.device)
    hats = (1 - (along.clamp(0, size - 1)[..., None] - rows).abs()).clamp(min=0)
    return (hats * counted[..., None]).sum(2), count


def _whole_rows(start: Any, extent: Any, size: int, bins: int) -> tuple[Any, Any]:
    """(regions, bins): the first row of each bin and that after its last, for bins of whole rows."""
    bin = torch.arange(bins, dtype=extent.dtype, device=extent.device)
    step = (extent / bins)[:, None]
    first, last = (bin * step).floor() + start[:, None], ((bin + 1) * step).ceil() + start[:, None]
    return first.clamp(0, size), last.clamp(0, size)


def _row_weights(first: Any, last: Any, size: int) -> Any:
    """(regions, bins, size): one for the rows from first to last."""
    rows = torch.arange(size, dtype=first.dtype, device=first.device)
    return ((rows >= first[..., None]) & (rows < last[..., None])).to(first.dtype)


@composite("torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
           "int pooled_width, int sampling_ratio, bool aligned) -> Tensor", public="")
def roi_align(input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
              aligned: bool) -> Any:
    _check_regions(input, rois)
    rois = rois.detach()

    def pool(image: Any, regions: Any) -> Any:
        corners = regions[:, 1:] * spatial_scale - (0.5 if aligned else 0)
        extents = corners[:, 2:] - corners[:, :2]
        if not aligned:
            extents = extents.clamp(min=1)
        across, wide = _sampled_weights(corners[:, 0], extents[:, 0], image.size(2), pooled_width, sampling_ratio)
        down, high = _sampled_weights(corners[:, 1], extents[:, 1], image.size(1), pooled_height, sampling_ratio)
        made = torch.einsum("kph,chw,kqw->kcpq", down, image, across)
        return made / (wide * high).clamp(min=1)[:, None, None, None]

    return _pooled(input, rois, pool, (input.size(1), pooled_height, pooled_width))


@composite("torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
           "int pooled_width, int sampling_ratio) -> (Tensor, Tensor)", public="")
def ps_roi_align(input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
                 sampling_ratio: int) -> Any:
    _check_regions(input, rois, pooled_height * pooled_width)
    rois = rois.detach()

    def pool(image: Any, regions: Any) -> Any:
        corners = regions[:, 1:] * spatial_scale - 0.5
        extents = corners[:, 2:] - corners[:, :2]
        across, wide = _sampled_weights(corners[:, 0], extents[:, 0], image.size(2), pooled_width, sampling_ratio)
        down, high = _sampled_weights(corners[:, 1], extents[:, 1], image.size(1), pooled_height, sampling_ratio)
        parts = image.unflatten(0, (-1, pooled_height, pooled_width))
        return torch.einsum("kph,cpqhw,kqw->kcpq", down, parts, across) / (wide * high)[:, None, None, None]

    return _with_channels(input, rois, pool, pooled_height, pooled_width)


@composite("torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
           "int pooled_width) -> (Tensor, Tensor)", public="")
def ps_roi_pool(input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int) -> Any:
    _check_regions(input, rois, pooled_height * pooled_width)
    rois = rois.detach()

    def pool(image: Any, regions: Any) -> Any:
        corners = _rounded(regions[:, 1:] * spatial_scale)
        extents = (corners[:, 2:] - corners[:, :2]).clamp(min=1)
        left, right = _whole_rows(corners[:, 0], extents[:, 0], image.size(2), pooled_width)
        top, bottom = _whole_rows(corners[:, 1], extents[:, 1], image.size(1), pooled_height)
        parts = image.unflatten(0, (-1, pooled_height, pooled_width))
        total = torch.einsum("kph,cpqhw,kqw->kcpq", _row_weights(top, bottom, image.size(1)), parts,
                             _row_weights(left, right, image.size(2)))
        counts = (bottom - top).clamp(min=0)[:, :, None] * (right - left).clamp(min=0)[:, None, :]
        return total / counts.clamp(min=1)[:, None]

    return _with_channels(input, rois, pool, pooled_height, pooled_width)


def _rounded(values: Any) -> Any:
    """To whole numbers, halves away from zero, as C does."""
    return (values.abs() + 0.5).floor() * values.sign()


def _with_channels(input: Any, rois: Any, pool: Callable, height: int, width: int) -> tuple[Any, Any]:
    """Regions pooled from a channel of their own for each bin, and which that was."""
    channels = input.size(1) // (height * width)
    made = _pooled(input, rois, pool, (channels, height, width))
    numbers = torch.arange(input.size(1), dtype=torch.int32, device=input.device)
    return made, numbers.reshape(channels, height, width).repeat(rois.size(0), 1, 1, 1)


@composite("torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
           "int pooled_width) -> (Tensor, Tensor)", public="")
def roi_pool(input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int) -> Any:
    _check_regions(input, rois)
    images = rois[:, 0].long()
    with torch.no_grad():
        corners = _rounded(rois[:, 1:] * spatial_scale)
        extents = (corners[:, 2:] - corners[:, :2] + 1).clamp(min=1)
        left, right = _whole_rows(corners[:, 0], extents[:, 0], input.size(3), pooled_width)
        top, bottom = _whole_rows(corners[:, 1], extents[:, 1], input.size(2), pooled_height)
        largest = _largest_in(input, images, (left.long(), right.long(), top.long(), bottom.long()))
    flat = input.flatten(2)[images]
    found = flat.gather(2, largest.clamp(min=0).flatten(2)).reshape(largest.shape)
    return torch.where(largest >= 0, found, 0).to(input.dtype), largest.to(torch.int32)


def _largest_in(input: Any, images: Any, edges: tuple[Any, Any, Any, Any]) -> Any:
    """Where the largest element of each bin lies in its image, counted along the rows; -1 for bins without elements."""
    left, right, top, bottom = edges
    shape = (images.numel(), input.size(1), top.size(1), left.size(1))
    best = input.new_full(shape, -torch.inf)
    where = torch.full(shape, -1, dtype=torch.int64, device=input.device)
    extents = [int((last - first).max().item()) if first.numel() else 0
               for first, last in ((top, bottom), (left, right))]
    for down in range(extents[0]):
        for across in range(extents[1]):
            y, x = (top + down)[:, :, None], (left + across)[:, None, :]
            inside = ((y < bottom[:, :, None]) & (x < right[:, None, :]))[:, None]
            y, x = y.clamp(max=input.size(2) - 1), x.clamp(max=input.size(3) - 1)
            value = input[images[:, None, None], :, y, x].permute(0, 3, 1, 2)
            better = inside & (value > best)
            best = torch.where(better, value, best)
            where = torch.where(better, (y * input.size(3) + x)[:, None], where)
    return where


@composite("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", public="")
def nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """The boxes that no box of a higher score overlaps by more than the threshold, highest scores first."""
    if dets.dim() != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {dets.dim()}D")
    if dets.size(1) != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {dets.size(1)}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}D")
    if dets.size(0) != scores.size(0):
        raise RuntimeError("boxes and scores should have same number of elements in dimension 0, got "
                           f"{dets.size(0)} and {scores.size(0)}")
    if dets.dtype != scores.dtype:
        raise RuntimeError("dets should have the same type as scores")
    order = scores.detach().sort(descending=True, stable=True).indices
    boxes = dets.detach()[order].cpu().float() if dets.dtype != torch.float64 else dets.detach()[order].cpu()
    return order[torch.from_numpy(_kept(boxes.numpy(), iou_threshold)).to(order.device)]


def _kept(boxes: np.ndarray, threshold: float) -> np.ndarray:
    """The numbers of the boxes that stay, of boxes in order."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept, left = [], np.arange(len(boxes))
    while left.size:
        first, left = left[0], left[1:]
        kept.append(first)
        lower, upper = np.maximum(boxes[first, :2], boxes[left, :2]), np.minimum(boxes[first, 2:], boxes[left, 2:])
        shared = np.prod(np.maximum(upper - lower, 0), axis=1)
        left = left[~(shared / (areas[first] + areas[left] - shared) > threshold)]
    return np.array(kept, dtype=np.int64)


@composite("torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
           "int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, "
           "int offset_groups, bool use_mask) -> Tensor", public="")
def deform_conv2d(input: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: int, stride_w: int, pad_h: int,
                  pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool) -> Any:
    """A convolution whose kernel reads where the offsets say, by interpolation, each value times its mask."""
    batch, channels, height, width = input.shape
    down, across = weight.shape[2:]
    _check_deformation(input, weight, offset, mask, offset_groups, use_mask)
    rows, columns = offset.shape[2:]
    moved = offset.reshape(batch, offset_groups, down, across, 2, rows, columns)

    def along(count: int, stride: int, pad: int) -> Any:
        return torch.arange(count, dtype=offset.dtype, device=offset.device) * stride - pad

    y = (moved[:, :, :, :, 0] + along(rows, stride_h, pad_h)[:, None]
         + (along(down, dilation_h, 0)[:, None, None, None]))
    x = moved[:, :, :, :, 1] + along(columns, stride_w, pad_w) + along(across, dilation_w, 0)[:, None, None]
    image = input.reshape(batch, offset_groups, channels // offset_groups, height * width)
    read = sum(_corner(image, y, x, height, width, below, right) for below in (0, 1) for right in (0, 1))
    if use_mask:
        read = read * mask.reshape(batch, offset_groups, 1, down, across, rows, columns)
    taken = read.reshape(batch, groups, -1, rows * columns)
    made = weight.reshape(groups, weight.size(0) // groups, -1) @ taken
    return made.reshape(batch, weight.size(0), rows, columns) + bias[:, None, None]


def _corner(image: Any, y: Any, x: Any, height: int, width: int, below: int, right: int) -> Any:
    """What one of the four elements around each point gives, by its distance; nothing outside of the image."""
    row, column = y.detach().floor() + below, x.detach().floor() + right
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    share = (1 - (y - row).abs()) * (1 - (x - column).abs()) * inside
    places = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long().flatten(2)
    taken = image.gather(3, places[:, :, None].expand(-1, -1, image.size(2), -1))
    return taken.unflatten(3, y.shape[2:]) * share[:, :, None]


def _check_deformation(input: Any, weight: Any, offset: Any, mask: Any, offset_groups: int, use_mask: bool) -> None:
    down, across = weight.shape[2:]
    if offset.size(1) != offset_groups * 2 * down * across:
        raise RuntimeError("offset.shape[1] is not valid: got: "
                           f"{offset.size(1)} expected: {offset_groups * 2 * down * across}")
    if use_mask and mask.size(1) != offset_groups * down * across:
        raise RuntimeError(f"mask.shape[1] is not valid: got: {mask.size(1)} expected: {offset_groups * down * across}")
    if input.size(1) % offset_groups:
        raise RuntimeError(f"input.shape[1] = {input.size(1)} must be a multiple of offset_groups = {offset_groups}")
    if input.size(0) != offset.size(0):
        raise RuntimeError("invalid batch size of offset")


@composite("torchvision::_cuda_version() -> int", public="")
def cuda_version() -> int:
    return -1
