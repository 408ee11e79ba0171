"""State dicts as trees: their leaves with the path to each."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import mindtorch_v2 as torch

from .metadata import STATE_DICT_TYPE

__all__ = ["get_element", "set_element", "traverse_state_dict"]

OBJ_PATH: TypeAlias = tuple[str | int, ...]


def _keep_visiting_tensors(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _is_leaf(value: Any, keep_traversing: Callable[[Any], bool], dicts_are_inner: bool) -> bool:
    """Whether a value is stored as one: a list (and in old files a dict) is, if nothing inside has to stand alone."""
    if isinstance(value, Mapping):
        if dicts_are_inner:
            return False
        inside: Any = value.values()
    elif isinstance(value, list):
        inside = value
    else:
        return True
    return not any(keep_traversing(each) or not _is_leaf(each, keep_traversing, dicts_are_inner) for each in inside)


def _leaves(path: OBJ_PATH, value: Any, keep_traversing: Callable[[Any], bool],
            dicts_are_inner: bool) -> Iterator[tuple[OBJ_PATH, Any]]:
    if _is_leaf(value, keep_traversing, dicts_are_inner):
        yield path, value
        return
    for key, each in value.items() if isinstance(value, Mapping) else enumerate(value):
        part = str(key) if isinstance(value, Mapping) else key
        yield from _leaves((*path, part), each, keep_traversing, dicts_are_inner)


def traverse_state_dict(state_dict: STATE_DICT_TYPE, visitor: Callable[[OBJ_PATH, Any], None],
                        keep_traversing: Callable[[Any], bool] = _keep_visiting_tensors) -> None:
    """Calls `visitor(path, value)` for what is stored as one: lists without tensors and dicts inside are."""
    for key, value in state_dict.items():
        for path, leaf in _leaves((str(key),), value, keep_traversing, dicts_are_inner=True):
            visitor(path, leaf)


def traverse_state_dict_v_2_3(state_dict: STATE_DICT_TYPE, visitor: Callable[[OBJ_PATH, Any], None],
                              keep_traversing: Callable[[Any], bool] = _keep_visiting_tensors) -> None:
    """The same as files before PyTorch 2.4 have it: dicts without tensors inside are stored as one too."""
    for key, value in state_dict.items():
        for path, leaf in _leaves((str(key),), value, keep_traversing, dicts_are_inner=False):
            visitor(path, leaf)


def set_element(root_dict: STATE_DICT_TYPE, path: OBJ_PATH, value: Any) -> None:
    """Puts a value at a path; dicts and lists on the way are made."""
    container: Any = root_dict
    for part, following in zip(path, path[1:], strict=False):
        fresh: Any = {} if isinstance(following, str) else []
        if isinstance(container, Mapping):
            container = container.setdefault(part, fresh)  # type: ignore[attr-defined]
        else:
            _lengthen(container, part)
            if container[part] is None:
                container[part] = fresh
            container = container[part]
    if isinstance(path[-1], int):
        _lengthen(container, path[-1])
    container[path[-1]] = value


def _lengthen(values: list, index: Any) -> None:
    values.extend([None] * (index + 1 - len(values)))


def get_element(root_dict: STATE_DICT_TYPE, path: OBJ_PATH, default_value: Any = None) -> Any:
    """The value at a path, or the default."""
    found: Any = root_dict
    for part in path:
        if isinstance(part, int):
            if not isinstance(found, list) or len(found) <= part:
                return default_value
        elif not isinstance(found, Mapping) or part not in found:
            return default_value
        found = found[part]
    return found
