"""State dicts of one level, with the paths that lead back to the nested one."""

from collections.abc import Callable

from ._traverse import OBJ_PATH, set_element, traverse_state_dict
from .metadata import STATE_DICT_TYPE

FLATTEN_MAPPING = dict[str, OBJ_PATH]


def flatten_state_dict(state_dict: STATE_DICT_TYPE,
                       traverse: Callable = traverse_state_dict) -> tuple[STATE_DICT_TYPE, FLATTEN_MAPPING]:
    """(values by their path joined with dots, the paths)."""
    flat: STATE_DICT_TYPE = {}
    paths: FLATTEN_MAPPING = {}

    def add(path: OBJ_PATH, value: object) -> None:
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path

    traverse(state_dict, add)
    return flat, paths


def unflatten_state_dict(state_dict: STATE_DICT_TYPE, mapping: FLATTEN_MAPPING) -> STATE_DICT_TYPE:
    """The nested state dict of a flat one."""
    nested: STATE_DICT_TYPE = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
