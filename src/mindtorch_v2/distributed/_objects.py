"""Collectives of objects: pickles, sent as tensors of bytes. Only take them from processes you trust."""

import io
import pickle
from typing import Any

import mindtorch_v2 as torch

from .._core.device import device as _device
from .._core.tensor import Tensor
from ._collectives import all_gather, broadcast, gather, irecv, isend, recv, root_in, scatter, send
from ._world import get_rank, get_world_size, known, warn_outside

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list",
           "send_object_list"]


def _device_of(group: Any) -> Any:
    """Where tensors of a group are: the CPU if it has an engine for it."""
    kinds = list(known(group)._engines)
    if not kinds or "cpu" in kinds:
        return _device("cpu")
    return _device(kinds[0], torch.cuda.current_device() if kinds[0] == "cuda" else None)


def _object_to_tensor(obj: Any, device: Any, group: Any = None) -> tuple[Tensor, Tensor]:
    """(the pickle, its length)."""
    file = io.BytesIO()
    pickle.Pickler(file).dump(obj)
    data = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8).to(device)
    return data, torch.tensor([data.numel()], dtype=torch.int64, device=device)


def _tensor_to_object(tensor: Tensor, tensor_size: Any, group: Any = None) -> Any:
    return pickle.loads(tensor.cpu().numpy()[: int(tensor_size)].tobytes())


def _sizes(size: Tensor, group: Any) -> list[Tensor]:
    """The lengths of everyone's pickle."""
    sizes = [torch.zeros_like(size) for _ in range(get_world_size(group))]
    all_gather(sizes, size, group)
    return sizes


def _padded(data: Tensor, length: int) -> Tensor:
    made = torch.zeros(length, dtype=torch.uint8, device=data.device)
    made[: data.numel()] = data
    return made


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    """Puts everyone's object into the list."""
    if warn_outside(group, "all_gather_object"):
        return
    data, size = _object_to_tensor(obj, _device_of(group))
    sizes = _sizes(size, group)
    longest = max(int(each) for each in sizes)
    outputs = [torch.empty(longest, dtype=torch.uint8, device=data.device) for _ in sizes]
    all_gather(outputs, _padded(data, longest), group)
    for at, (output, length) in enumerate(zip(outputs, sizes, strict=True)):
        object_list[at] = _tensor_to_object(output, length)


def gather_object(obj: Any, object_gather_list: list | None = None, dst: int | None = None, group: Any = None,
                  group_dst: int | None = None) -> None:
    """Puts everyone's object into the list of one rank."""
    if warn_outside(group, "gather_object"):
        return
    root = root_in(group, dst, group_dst, 0)
    mine = get_rank(group)
    if mine == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if mine != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    data, size = _object_to_tensor(obj, _device_of(group))
    sizes = _sizes(size, group)
    longest = max(int(each) for each in sizes)
    outputs = [torch.empty(longest, dtype=torch.uint8, device=data.device) for _ in sizes] if mine == root else None
    gather(_padded(data, longest), outputs, group=group, group_dst=root)
    if outputs is not None and object_gather_list is not None:
        for at, (output, length) in enumerate(zip(outputs, sizes, strict=True)):
            object_gather_list[at] = _tensor_to_object(output, length)


def _packed_list(objects: list, device: Any) -> tuple[Tensor, Tensor]:
    """All pickles in a row, and their lengths."""
    pairs = [_object_to_tensor(each, device) for each in objects]
    return torch.cat([data for data, _ in pairs]), torch.cat([size for _, size in pairs])


def _unpack_into(objects: list, data: Tensor, sizes: Tensor) -> None:
    start = 0
    for at, length in enumerate(sizes.tolist()):
        objects[at] = _tensor_to_object(data[start : start + length], length)
        start += length


def broadcast_object_list(object_list: list, src: int | None = None, group: Any = None, device: Any = None,
                          group_src: int | None = None) -> None:
    """Puts the objects of one rank into everyone's list."""
    if warn_outside(group, "broadcast_object_list"):
        return
    root = root_in(group, src, group_src, 0)
    place = _device_of(group) if device is None else _device(device)
    mine = get_rank(group)
    if mine == root:
        data, sizes = _packed_list(object_list, place)
    else:
        sizes = torch.empty(len(object_list), dtype=torch.int64, device=place)
    broadcast(sizes, group=group, group_src=root)
    if mine != root:
        data = torch.empty(int(sizes.sum()), dtype=torch.uint8, device=place)
    broadcast(data, group=group, group_src=root)
    if mine != root:
        _unpack_into(object_list, data, sizes)


def scatter_object_list(scatter_object_output_list: list, scatter_object_input_list: list | None = None,
                        src: int | None = None, group: Any = None, group_src: int | None = None) -> None:
    """Puts one object of a rank's list into the first place of everyone's."""
    if warn_outside(group, "scatter_object_list"):
        return
    root = root_in(group, src, group_src, 0)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    mine, place = get_rank(group), _device_of(group)
    inputs, longest = None, torch.zeros(1, dtype=torch.int64, device=place)
    if mine == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        pairs = [_object_to_tensor(each, place) for each in scatter_object_input_list]
        longest.fill_(max(data.numel() for data, _ in pairs))
        inputs = [_padded(data, int(longest)) for data, _ in pairs]
    broadcast(longest, group=group, group_src=root)
    output, size = torch.empty(int(longest), dtype=torch.uint8, device=place), torch.zeros_like(longest)
    scatter(output, inputs, group=group, group_src=root)
    scatter(size, [size for _, size in pairs] if mine == root else None, group=group, group_src=root)
    scatter_object_output_list[0] = _tensor_to_object(output, size)


def send_object_list(object_list: list, dst: int | None = None, group: Any = None, device: Any = None,
                     group_dst: int | None = None, use_batch: bool = False) -> None:
    if warn_outside(group, "send_object_list"):
        return
    to = root_in(group, dst, group_dst)
    if to == get_rank(group):
        raise ValueError("Invalid destination rank: destination rank should not be the same as the rank of the current "
                         "process.")
    data, sizes = _packed_list(object_list, _device_of(group) if device is None else _device(device))
    for each in (sizes, data):
        if use_batch:
            work = isend(each, group=group, group_dst=to)
            assert work is not None
            work.wait()
        else:
            send(each, group=group, group_dst=to)


def recv_object_list(object_list: list, src: int | None = None, group: Any = None, device: Any = None,
                     group_src: int | None = None, use_batch: bool = False) -> int:
    """Receives as many objects as the list has places; gives the rank of the sender."""
    if warn_outside(group, "recv_object_list"):
        return -1
    place = _device_of(group) if device is None else _device(device)
    sizes = torch.empty(len(object_list), dtype=torch.int64, device=place)
    if use_batch:
        work = irecv(sizes, src, group, group_src=group_src)
        assert work is not None
        work.wait()
        sender = work.source_rank() if src is None else src
    else:
        sender = recv(sizes, src, group, group_src=group_src)
    data = torch.empty(int(sizes.sum()), dtype=torch.uint8, device=place)
    again = recv(data, sender, group)
    if sender != again:
        raise RuntimeError("Mismatch in return ranks for object sizes and objects.")
    _unpack_into(object_list, data, sizes)
    return sender
