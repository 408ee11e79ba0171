"""Lists and dicts as nodes hold them: a graph knows who uses what, so its arguments are assigned, not changed."""

from collections.abc import Iterable
from typing import Any, NoReturn

from ..utils import _pytree as pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting to modify the kwargs or args "
        "of a torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n\n"
        "    new_args = ...  # copy and mutate args\n    node.args = new_args")


class immutable_list(list):
    """A list that refuses to change."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dict that refuses to change."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self.items()),)


for _cls, _names in (
    (immutable_list, "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort"),
    (immutable_dict, "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update"),
):
    for _name in _names.split():
        setattr(_cls, _name, _refuse)


def _values(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_of(values: Iterable[Any], keys: Any) -> immutable_dict:
    return immutable_dict(zip(keys, values, strict=True))


pytree.register_pytree_node(
    immutable_list, lambda x: (list(x), None), lambda x, _: immutable_list(x),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=lambda x: ([(pytree.SequenceKey(i), v) for i, v in enumerate(x)], None))
pytree.register_pytree_node(
    immutable_dict, _values, _dict_of,
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=lambda x: ([(pytree.MappingKey(k), v) for k, v in x.items()], list(x)))
