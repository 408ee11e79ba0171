"""Nested containers as trees: flattening to leaves, putting together again, mapping.

What a container is stands in `SUPPORTED_NODES`; everything else is a leaf, None included.
"""

import dataclasses
import importlib
import inspect
import json
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from .._core.computed import computed_once
from .._core.device import Size

PyTree = Any
Context = Any
DumpableContext = Any
KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]
FlattenFn = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = Callable[[Iterable[Any], Context], PyTree]
FlattenWithKeysFn = Callable[[PyTree], tuple[list[tuple[KeyEntry, Any]], Context]]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
IsLeaf = Callable[[PyTree], bool] | None
T = TypeVar("T")

__all__ = [
    "Context", "DumpableContext", "FlattenFn", "FromDumpableContextFn", "LeafSpec", "PyTree", "PyTreeSpec",
    "ToDumpableContextFn", "TreeSpec", "UnflattenFn", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
    "is_structseq", "is_structseq_class", "is_structseq_instance", "key_get", "keystr", "register_pytree_node",
    "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_is_leaf",
    "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_",
    "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_dumps", "treespec_loads", "treespec_pprint",
]


# keys of a path ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class MappingKey:
    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, container: Any) -> Any:
        return container[self.key]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, container: Any) -> Any:
        return container[self.idx]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, container: Any) -> Any:
        return getattr(container, self.name)


def keystr(kp: KeyPath) -> str:
    """A path as it would be written after the tree's name."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What the path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# kinds of containers -------------------------------------------------------------------------------------------------


class NodeDef(NamedTuple):
    type: type
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None = None
    serialized_type_name: str | None = None
    to_dumpable_context: ToDumpableContextFn | None = None
    from_dumpable_context: FromDumpableContextFn | None = None


SUPPORTED_NODES: dict[Any, NodeDef] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Makes instances of `cls` containers: `flatten_fn` gives (children, context), `unflatten_fn` takes them."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) ^ (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn, serialized_type_name,
                                   to_dumpable_context, from_dumpable_context)


def _register_pytree_node(cls: type, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, to_str_fn: Any = None,
                          maybe_from_str_fn: Any = None, **options: Any) -> None:
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


_private_register_pytree_node = _register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    SUPPORTED_NODES.pop(cls, None)
    CONSTANT_NODES.discard(cls)


def register_dataclass(cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
                       serialized_type_name: str | None = None) -> None:
    """Makes a dataclass a container of its fields; those that are None go into the context."""
    dropped = drop_field_names or ()
    names = field_names or [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Context]:
        given = [name for name in names if getattr(obj, name) is not None]
        absent = [name for name in names if getattr(obj, name) is None]
        return [(GetAttrKey(name), getattr(obj, name)) for name in given], [given, absent]

    def flatten(obj: Any) -> tuple[list[Any], Context]:
        children, context = flatten_with_keys(obj)
        return [child for _, child in children], context

    def unflatten(values: Iterable[Any], context: Context) -> Any:
        given, absent = context
        return cls(**dict(zip(given, values, strict=True)), **dict.fromkeys(absent))

    register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name,
                         flatten_with_keys_fn=flatten_with_keys)


CONSTANT_NODES: set[type] = set()


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """What stands in a tree's structure for an object that is no leaf."""

    value: Any


def register_constant(cls: type) -> None:
    """Makes objects of a class part of a tree's structure: not leaves, but what structures are compared by."""
    for name in ("__eq__", "__hash__"):
        if getattr(cls, name) is getattr(object, name) or getattr(cls, name) is None:
            raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{name}` implementation.")
    if cls in CONSTANT_NODES:
        warnings.warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.",
                      stacklevel=2)  # fmt: skip
        _deregister_pytree_node(cls)
    register_pytree_node(cls, lambda value: ([], ConstantNode(value)), lambda children, context: context.value,
                         flatten_with_keys_fn=lambda value: ([], ConstantNode(value)))  # fmt: skip
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    return isinstance(cls, type) and cls in CONSTANT_NODES


def is_namedtuple_class(cls: type) -> bool:
    fields = getattr(cls, "_fields", None)
    return (isinstance(cls, type) and issubclass(cls, tuple) and isinstance(fields, tuple)
            and all(isinstance(name, str) for name in fields) and callable(getattr(cls, "_make", None)))


def is_namedtuple_instance(obj: object) -> bool:
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    return (isinstance(cls, type) and cls.__bases__ == (tuple,)
            and all(isinstance(getattr(cls, name, None), int) for name in ("n_fields", "n_sequence_fields")))


def is_structseq_instance(obj: object) -> bool:
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _dict_flatten(d: dict[Any, T]) -> tuple[list[T], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, T]) -> tuple[list[tuple[KeyEntry, T]], Context]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[T], context: Context) -> dict[Any, T]:
    return dict(zip(context, values, strict=True))


def _sequence_keys(values: Iterable[Any]) -> list[tuple[KeyEntry, Any]]:
    return [(SequenceKey(i), value) for i, value in enumerate(values)]


def _list_flatten(values: list[T]) -> tuple[list[T], Context]:
    return list(values), None


def _list_flatten_with_keys(values: list[T]) -> tuple[list[tuple[KeyEntry, T]], Context]:
    return [(SequenceKey(i), value) for i, value in enumerate(values)], None


def _list_unflatten(values: Iterable[T], context: Context) -> list[T]:
    return list(values)


def _register_sequence(cls: Any, name: str, flatten: FlattenFn, unflatten: UnflattenFn, **options: Any) -> None:
    def with_keys(values: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
        children, context = flatten(values)
        return _sequence_keys(children), context

    register_pytree_node(cls, flatten, unflatten, serialized_type_name=name,
                         **{"flatten_with_keys_fn": with_keys, **options})


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _class_of(name: str) -> Any:
    module, _, qualified = name.rpartition(".")
    return getattr(importlib.import_module(module), qualified)


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> defaultdict:
    factory, keys = context
    return defaultdict(factory, zip(keys, values, strict=True))


_register_sequence(tuple, "builtins.tuple", lambda d: (list(d), None), lambda values, _: tuple(values))
_register_sequence(list, "builtins.list", lambda d: (d[:], None), lambda values, _: list(values))
register_pytree_node(dict, _dict_flatten, _dict_unflatten, serialized_type_name="builtins.dict",
                     flatten_with_keys_fn=_dict_flatten_with_keys)
_register_sequence(
    namedtuple, "collections.namedtuple", lambda d: (list(d), type(d)), lambda values, kind: kind(*values),
    to_dumpable_context=lambda kind: SUPPORTED_NODES[kind].serialized_type_name if kind in SUPPORTED_NODES else
    _class_name(kind),
    from_dumpable_context=_class_of,
    flatten_with_keys_fn=lambda d: ([(GetAttrKey(f), v) for f, v in zip(d._fields, d, strict=True)], type(d)))
register_pytree_node(OrderedDict, _dict_flatten, lambda values, keys: OrderedDict(zip(keys, values, strict=True)),
                     serialized_type_name="collections.OrderedDict", flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(
    defaultdict, lambda d: (list(d.values()), [d.default_factory, list(d)]), _defaultdict_unflatten,
    serialized_type_name="collections.defaultdict",
    to_dumpable_context=lambda context: {"default_factory_module": context[0].__module__,
                                         "default_factory_name": context[0].__qualname__, "dict_context": context[1]},
    from_dumpable_context=lambda dumped: [
        _class_of(f"{dumped['default_factory_module']}.{dumped['default_factory_name']}"), dumped["dict_context"]],
    flatten_with_keys_fn=lambda d: ([(MappingKey(k), v) for k, v in d.items()], [d.default_factory, list(d)]))
_register_sequence(deque, "collections.deque", lambda d: (list(d), d.maxlen),
                   lambda values, maxlen: deque(values, maxlen=maxlen))
_register_sequence(Size, "torch.Size", lambda d: (list(d), None), lambda values, _: Size(values))

_DICTS = (dict, OrderedDict, defaultdict)
_RETURN_TYPES = "torch.return_types"


def _get_node_type(tree: Any) -> Any:
    kind = type(tree)
    if kind in SUPPORTED_NODES or not issubclass(kind, tuple) or kind.__module__ == _RETURN_TYPES:
        return kind
    return namedtuple if is_namedtuple_class(kind) else kind


def _node_of(kind: Any) -> NodeDef | None:
    node = SUPPORTED_NODES.get(kind)
    if node is None and getattr(kind, "__module__", "") == _RETURN_TYPES:
        _register_sequence(kind, f"torch.return_types.{kind.__name__}", lambda d: (list(d), None),
                           lambda values, _: kind(*values))
        node = SUPPORTED_NODES[kind]
    return node


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether `tree` is no container, or is said to be a leaf."""
    return bool(is_leaf is not None and is_leaf(tree)) or _node_of(_get_node_type(tree)) is None


_is_leaf = tree_is_leaf


# specs ---------------------------------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree: a container's type, its context and the specs of its children."""

    def __init__(self, type: Any, context: Context, children_specs: "list[TreeSpec]") -> None:
        self.type, self._context, self._children = type, context, children_specs

    context = property(lambda self: self._context)
    children_specs = property(lambda self: self._children)
    num_children = property(lambda self: len(self._children))

    @computed_once
    def num_leaves(self) -> int:
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self._children)

    @computed_once
    def num_nodes(self) -> int:
        return 1 + sum(child.num_nodes for child in self._children)

    def is_leaf(self) -> bool:
        return self.type is None

    def children(self) -> "list[TreeSpec]":
        return list(self._children)

    def child(self, index: int) -> "TreeSpec":
        return self._children[index]

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, TreeSpec) and self.type == other.type
                                 and str(self._context) == str(other._context) and self._children == other._children)

    def __hash__(self) -> int:
        return hash((self.type, str(self._context), tuple(map(hash, self._children))))

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        separator = ",\n" + " " * (indent + 2)
        children = separator.join(child.__repr__(indent + 2) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this structure with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a "
                             f"pytree that holds {self.num_leaves} items ({self}).")
        return self._built(iter(leaves))

    def _built(self, leaves: Iterator[Any]) -> PyTree:
        if self.is_leaf():
            return next(leaves)
        node = SUPPORTED_NODES[self.type]
        return node.unflatten_fn([child._built(leaves) for child in self._children], self._context)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """What `tree` has at this structure's leaves."""
        found: list[PyTree] = []
        self._gather(tree, found)
        return found

    def _gather(self, tree: PyTree, found: list[PyTree]) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        kind = _get_node_type(tree)
        if self.type in _DICTS and kind in _DICTS:
            keys = self._context[1] if self.type is defaultdict else self._context
            missing, extra = set(keys) - set(tree), set(tree) - set(keys)
            if missing or extra:
                lacks = (("missing", missing), ("extra", extra))
                texts = [f"; {kind} key(s): {names}" for kind, names in lacks if names]
                raise ValueError(f"Node keys mismatch{''.join(texts)}.")
            children = [tree[key] for key in keys]
        else:
            if kind != self.type:
                raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
            node = _node_of(kind)
            assert node is not None
            children, context = node.flatten_fn(tree)
            if len(children) != len(self._children):
                raise ValueError(f"Node arity mismatch; expected {len(self._children)}, but got {len(children)}.")
            if context != self._context and self.type is not deque:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        for child, spec in zip(children, self._children, strict=True):
            spec._gather(child, found)


PyTreeSpec = TreeSpec
_LEAF_SPEC = TreeSpec(None, None, [])


def LeafSpec() -> TreeSpec:
    """The structure of a leaf."""
    return _LEAF_SPEC


treespec_leaf = LeafSpec


# flattening ----------------------------------------------------------------------------------------------------------


def _flatten(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    if not (is_leaf is not None and is_leaf(tree)):
        kind = _get_node_type(tree)
        node = _node_of(kind)
        if node is not None:
            children, context = node.flatten_fn(tree)
            return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])
    leaves.append(tree)
    return _LEAF_SPEC


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """(the leaves, the structure)."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError("tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got "
                        f"item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves, one after the other."""
    yield from tree_leaves(tree, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of a call's arguments."""
    return tree_leaves((args, kwargs))


def _with_paths(tree: PyTree, path: KeyPath, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = _node_of(_get_node_type(tree))
    assert node is not None
    if node.flatten_with_keys_fn is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a "
                         "flatten_with_keys_fn argument to register_pytree_node.")
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves, each with the path that leads to it."""
    return list(_with_paths(tree, (), is_leaf))


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


# mapping -------------------------------------------------------------------------------------------------------------


def _columns(tree: PyTree, rests: tuple[PyTree, ...], is_leaf: IsLeaf) -> tuple[list[list[Any]], TreeSpec]:
    leaves, spec = tree_flatten(tree, is_leaf)
    return [leaves, *(spec.flatten_up_to(rest) for rest in rests)], spec


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """A tree of the results of `func` on the leaves, and on what the other trees have in their places."""
    columns, spec = _columns(tree, rests, is_leaf)
    return spec.unflatten(map(func, *columns))


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Calls `func` on the leaves for its effects, and returns the tree itself."""
    for values in zip(*_columns(tree, rests, is_leaf)[0], strict=True):
        func(*values)
    return tree


def tree_map_with_path(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """As `tree_map`, with the leaf's path as the first argument."""
    columns, spec = _columns(tree, rests, is_leaf)
    paths = [path for path, _ in tree_leaves_with_path(tree, is_leaf)]
    return spec.unflatten(map(func, paths, *columns))


def _chooses(which: Any) -> Callable[[Any], bool]:
    if callable(which) and not inspect.isclass(which):
        return which
    return lambda leaf: isinstance(leaf, which)


def map_only(which: Any, /) -> Callable[[Callable], Callable]:
    """Decorates a function so that it leaves everything of other types as it is."""
    chosen = _chooses(which)
    return lambda func: lambda leaf: func(leaf) if chosen(leaf) else leaf


def tree_map_only(which: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """As `tree_map`, on leaves of some types (or that a predicate chooses) only."""
    return tree_map(map_only(which)(func), tree, is_leaf=is_leaf)


def tree_map_only_(which: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    return tree_map_(map_only(which)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(which: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, which))


def tree_any_only(which: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, which))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """Leaves for a structure out of one that may stop earlier, each leaf standing for all below; None if it cannot."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    node = _node_of(kind)
    if treespec.is_leaf() or node is None or kind != treespec.type:
        return None
    children, context = node.flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    result: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        result += flat
    return result


# texts ---------------------------------------------------------------------------------------------------------------


class _Star:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The tree with stars for leaves."""
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


_PROTOCOL = 1


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as JSON."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec but got "
                        f"item of type {type(treespec)}.")
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return json.dumps((_PROTOCOL, _dumped(treespec)))


def _dumped(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_NODES[spec.type]
    if node.serialized_type_name is None:
        raise NotImplementedError(f"No registered serialization name for {spec.type} found. Please update your "
                                  "_register_pytree_node call with a `serialized_type_name` kwarg.")
    context = spec.context if node.to_dumpable_context is None else node.to_dumpable_context(spec.context)
    return {"type": node.serialized_type_name, "context": json.dumps(context),
            "children_spec": [_dumped(child) for child in spec.children_specs]}


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    protocol, spec = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return _loaded(spec)


def _loaded(dumped: dict[str, Any]) -> TreeSpec:
    name = dumped["type"]
    if name is None:
        return _LEAF_SPEC
    kind, node = next((kind, node) for kind, node in SUPPORTED_NODES.items() if node.serialized_type_name == name)
    context = json.loads(dumped["context"])
    context = context if node.from_dumpable_context is None else node.from_dumpable_context(context)
    return TreeSpec(kind, context, [_loaded(child) for child in dumped["children_spec"]])
