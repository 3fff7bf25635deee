"""Reflection: what every IR node can do because its fields are known.

A node is a frozen, slotted dataclass declared with `@node`. From its fields come, once and here, visiting,
rewriting, structural equality, structural hashing and JSON. Python's `==` on nodes stays identity (and on
expressions builds an `EQ`), as in TVM; compare structure with `structural_equal`.

Field metadata says what reflection cannot see:
  node_field(define=True)   variables (or buffers) in this field are *defined* here: two structures are equal up to a
                            renaming of them
  node_field(ignore=True)   not part of the structure (origins, caches)
  node_field(label=True)    a name: structures that differ in it alone are equal
"""
from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field, fields
from operator import attrgetter, is_

import numpy as np

from .container import DictAttrs
from .target import Target
from .upper import upper, upper_method

REGISTRY: dict[str, type] = {}
MOST_COMPARED = 64  # elements of an array that structure_key compares


class Node:
    """Base of every IR node. Subclasses are declared with `@node`."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    _visit = "visit_Node"  # the method of a Visitor that takes it
    _visible: tuple[str, ...] = ()  # the fields that are not ignored
    _branches: tuple[str, ...] = ()  # those of them below which nodes may be
    _below = staticmethod(lambda node: ())  # their values
    _holds_statements = True  # whether statements may be below: no, of expressions and what these are made of
    _define: frozenset = frozenset()
    _ignore: frozenset = frozenset()
    _compared: tuple[str, ...] = ()  # the fields that make the structure: the visible ones without labels
    _is_statement = False
    _is_closed = False  # whether what it defines, tuples of variables, is used in it alone
    _is_binder_leaf = False  # Var, Buffer, SizeVar: equal by identity or by the renaming in force

    script, show = (upper_method(name) for name in ("script_alone", "show_alone"))

    def replace(self, **changes):
        """A copy with some fields changed; the node itself when nothing changes."""
        for name, value in changes.items():
            if getattr(self, name) is not value:
                return type(self)(*[changes[f] if f in changes else getattr(self, f) for f in self._fields])
        return self

    def __reduce__(self):
        """Pickled by its fields, which are what it is made from again."""
        return _made, (type(self), *(getattr(self, f) for f in self._fields))

    def same_as(self, other):
        """Whether both are one object."""
        return self is other

    def __repr__(self):
        inner = ", ".join(f"{f}={getattr(self, f)!r}" for f in self._fields if f not in self._ignore)
        return f"{type(self).__name__}({inner})"


def _made(cls, *values):
    """A node of a class with these fields, as they are."""
    made = object.__new__(cls)
    for name, value in zip(cls._fields, values):
        object.__setattr__(made, name, value)
    return made


_PLAIN = ("str", "int", "float", "bool", "DataType", "np.ndarray")  # types of fields that are no nodes


def node(cls):
    """Class decorator: make `cls` a frozen, slotted, registered node with identity equality."""
    own_init = "__init__" in cls.__dict__
    cls = dataclass(frozen=True, eq=False, slots=True, repr=False, init=not own_init)(cls)
    listed = fields(cls)
    cls._fields = tuple(f.name for f in listed)
    cls._visit = "visit_" + cls.__name__
    cls._define = frozenset(f.name for f in listed if f.metadata.get("define"))
    cls._ignore = frozenset(f.name for f in listed if f.metadata.get("ignore"))
    cls._visible = tuple(name for name in cls._fields if name not in cls._ignore)
    cls._compared = tuple(f.name for f in listed if f.name not in cls._ignore and not f.metadata.get("label"))
    cls._branches = tuple(f.name for f in listed if f.name not in cls._ignore and f.type not in _PLAIN)
    cls._below = staticmethod(_getter(cls._branches))
    if cls.__name__ in REGISTRY:
        raise TypeError(f"two node classes are named {cls.__name__}; JSON needs them distinct")
    REGISTRY[cls.__name__] = cls
    return cls


def _getter(names):
    """A function of an object that gives its attributes of these names, as a tuple."""
    get = attrgetter(*names) if names else None
    return get if len(names) > 1 else (lambda node: (get(node),)) if names else (lambda node: ())


def make_node(type_key, **kwargs):
    """The node of the class that a name means, "tir.IntImm" or "IntImm", with these fields; "DictAttrs" is a dict of
    immediates. What a class has as a property, as the shape of a Tensor, follows from the fields."""
    name = type_key.rpartition(".")[2]
    if kwargs.get("span", 0) is None:  # as TVM's nodes have one
        del kwargs["span"]
    if name == "DictAttrs":
        return DictAttrs((k, _immediate(v)) for k, v in kwargs.items())
    if name not in REGISTRY:
        raise ValueError(f"there is no class of nodes {type_key!r}")
    cls = REGISTRY[name]
    derived = {k for k in kwargs if k not in cls._fields and isinstance(getattr(cls, k, None), property)}
    return cls(**{k: v for k, v in kwargs.items() if k not in derived})


def _immediate(value):
    """A number among attributes as an immediate, those of a list each."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_immediate, value))
    return upper("const")(value) if isinstance(value, (bool, int, float)) else value


def node_field(*, define=False, ignore=False, label=False, **kwargs):
    """A dataclass field with the reflection metadata described above."""
    return field(metadata={"define": define, "ignore": ignore, "label": label}, **kwargs)


# ---------------------------------------------------------------- visiting

_BRANCHES = (Node, tuple, dict, list)  # what nodes can be below of
_REWRITTEN = (Node, tuple, dict)  # those that a Mutator rebuilds


def children(value):
    """The nodes directly below a node, tuple or dict, in field order."""
    if isinstance(value, Node):
        for name in value._fields:
            if name not in value._ignore:
                yield from _nodes_in(getattr(value, name))
    else:
        yield from _nodes_in(value)


def _nodes_in(value):
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _nodes_in(v)
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from _nodes_in(k)
            yield from _nodes_in(v)


def post_order(root, visit):
    """Call visit(node) on every node below and including `root`, children first."""
    if isinstance(root, Node):
        for value in root._below(root):
            if isinstance(value, _BRANCHES):
                post_order(value, visit)
        visit(root)
    elif isinstance(root, dict):
        for key, value in root.items():
            post_order(key, visit)
            post_order(value, visit)
    elif isinstance(root, (tuple, list)):
        for value in root:
            if isinstance(value, _BRANCHES):
                post_order(value, visit)


def collect(root, kind):
    """All nodes of type `kind` (a class or tuple of classes) under `root`, each object once, in post order.

    What is below several nodes is walked once. Statements are looked for among statements alone."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    whole = not all(getattr(k, "_is_statement", False) for k in kinds)
    found = []
    _collect((root,), kind, whole, found, set())
    return found


def _collect(values, kind, whole, found, seen):
    """Add the nodes under `values` to `found`; seen: ids of nodes; whole: also from expressions. No closure of collect,
    which would hold all this until the garbage is collected."""
    for value in values:
        if isinstance(value, Node):
            if not value._branches and not isinstance(value, kind) or id(value) in seen:
                continue
            seen.add(id(value))
            if value._branches and (whole or value._holds_statements):
                _collect(value._below(value), kind, whole, found, seen)
            if isinstance(value, kind):
                found.append(value)
        elif isinstance(value, (tuple, list)):
            _collect(value, kind, whole, found, seen)
        elif isinstance(value, dict):
            for item in value.items():
                _collect(item, kind, whole, found, seen)


class Visitor:
    """Dispatches on the class name: define visit_For(self, node); call self.generic_visit(node) to descend."""

    def visit(self, value):
        if isinstance(value, Node):
            method = getattr(self, value._visit, None)
            return method(value) if method else self.generic_visit(value)
        if isinstance(value, (tuple, list)):
            for v in value:
                self.visit(v)
        elif isinstance(value, dict):
            for v in value.values():
                self.visit(v)
        return None

    def generic_visit(self, n):
        for value in n._below(n):
            if isinstance(value, _BRANCHES):
                self.visit(value)


class Mutator:
    """Rewrites bottom-up by need: visit_X returns the replacement, generic_visit rebuilds from visited fields.

    A node whose fields come back unchanged is returned itself, so unchanged subtrees are shared. Variables and
    buffers are leaves: define visit_Var or visit_Buffer to replace them.
    """

    _idle: set = set()  # classes of nodes without fields to visit and without a method of this class of Mutators
    _methods: dict = {}  # {class of nodes: the function of this class of Mutators that rewrites it}
    _is_direct = True  # whether `visit` of a node does no more than call that

    def __init_subclass__(cls):
        cls._idle, cls._methods, cls._is_direct = set(), {}, cls.visit is Mutator.visit

    def visit(self, value):
        if isinstance(value, Node):
            return (self._methods.get(type(value)) or self._method(type(value)))(self, value)
        if isinstance(value, tuple):
            idle = self._idle
            out = [v if type(v) in idle else self.visit(v) if isinstance(v, _BRANCHES) else v for v in value]
            return value if all(map(is_, out, value)) else tuple(out)
        if isinstance(value, dict):
            out = {self.visit(k): self.visit(v) for k, v in value.items()}
            same = all(a is b and value[b] is out[a] for a, b in zip(out, value))
            return value if same else out
        return value

    def generic_visit(self, n):
        if n._is_binder_leaf:
            return n
        changes, idle, methods = None, self._idle, self._methods if self._is_direct else {}
        for name, old in zip(n._branches, n._below(n)):
            kind = type(old)
            if kind not in idle and isinstance(old, _REWRITTEN):
                method = methods.get(kind)
                value = method(self, old) if method else self.visit(old)
                if value is not old:
                    changes = changes or {}
                    changes[name] = value
        return n.replace(**changes) if changes else n

    @classmethod
    def _method(cls, kind):
        """The function that rewrites nodes of a class."""
        found = cls._methods[kind] = getattr(cls, kind._visit, cls.generic_visit)
        if found is Mutator.generic_visit and not kind._branches and cls._is_direct:
            cls._idle.add(kind)
        return found


class PureMutator(Mutator):
    """A Mutator whose replacement for a node depends on that node alone, not on where it stands: a node below several
    others, as inlining makes them, is rewritten once, and its replacement is below all of them."""

    def __init__(self):
        self._rewritten = {}  # id(node) -> (node, its replacement); the node lives as long as its number is in use

    def visit(self, value):
        if not isinstance(value, Node) or not value._branches:
            return super().visit(value)
        known = self._rewritten.get(id(value))
        if known is None:
            known = self._rewritten[id(value)] = value, Mutator.visit(self, value)
        return known[1]


# ---------------------------------------------------------------- structure

def structural_equal(a, b, map_free_vars=False):
    """True when a and b are the same structure up to renaming of the variables defined inside them.

    Free variables must be the same objects, unless `map_free_vars` lets them pair one to one.
    """
    return StructuralEqual(map_free_vars).same(a, b, False)


class StructuralEqual:
    """One comparison: same(a, b, defining) pairs the variables that it meets."""

    def __init__(self, map_free_vars):
        self.map_free = map_free_vars
        self.forth, self.back = {}, {}

    def same(self, a, b, defining):
        if isinstance(a, Node):
            if type(a) is not type(b):
                return False
            if a._is_binder_leaf:
                return self._binder(a, b, defining)
            return all(self.same(getattr(a, f), getattr(b, f), defining or f in a._define) for f in a._compared)
        if isinstance(a, (tuple, list)):
            return isinstance(b, (tuple, list)) and len(a) == len(b) and all(
                self.same(x, y, defining) for x, y in zip(a, b))
        if isinstance(a, dict):
            return isinstance(b, dict) and len(a) == len(b) and all(
                self.same(x, y, defining) for x, y in zip(_items(a), _items(b)))
        if isinstance(a, np.ndarray):
            return (isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
                    and a.tobytes() == b.tobytes())
        if isinstance(a, float):  # by bits: NaN equals itself, 0.0 differs from -0.0
            return isinstance(b, float) and (a.hex() == b.hex())
        if hasattr(a, "__array__") and type(a) is type(b):  # a tensor that holds an array
            return self.same(np.asarray(a), np.asarray(b), defining)
        return type(a) is type(b) and a == b

    def _binder(self, a, b, defining):
        seen_a, seen_b = self.forth.get(id(a)), self.back.get(id(b))
        if seen_a is not None or seen_b is not None:
            return seen_a is b and seen_b is a
        if not (defining or self.map_free or _is_view(a, self.forth)):
            return a is b
        self.forth[id(a)], self.back[id(b)] = b, a
        return all(self.same(getattr(a, f), getattr(b, f), defining) for f in a._fields
                   if f not in a._ignore and f != "name")


def _is_view(leaf, known):
    """Whether a buffer that nothing defines lies over the data of one that something does."""
    return id(getattr(leaf, "data", None)) in known


def _items(mapping):
    """A dict's items in an order that does not depend on insertion when all keys are strings."""
    items = list(mapping.items())
    return sorted(items) if all(isinstance(k, str) for k in mapping) and items else items


def structural_hash(root, map_free_vars=False):
    """A 64-bit hash equal for structurally equal nodes, stable across processes.

    Free variables hash by name and type: equal free variables are the same object, so they agree.
    """
    return int.from_bytes(digest(root, map_free_vars, labels=False), "little")


def digest(root, map_free_vars=False, names=False, size=8, labels=True):
    """A hash as structural_hash's as `size` bytes; labels: also of fields that are labels, names: also of the names of
    variables and buffers."""
    state = hashlib.blake2b(digest_size=size)
    numbering = {}

    def feed(value, defining):
        if isinstance(value, Node):
            if value._is_binder_leaf:
                known = numbering.get(id(value))
                if known is None and (defining or map_free_vars or _is_view(value, numbering)):
                    numbering[id(value)] = known = len(numbering)
                    state.update(b"d")
                    for f in value._fields:
                        if f not in value._ignore and (names or f != "name"):
                            feed(getattr(value, f), defining)
                if known is None:
                    state.update(f"free {value.name};".encode())
                else:
                    state.update(f"#{known};".encode())
                return
            state.update(type(value).__name__.encode() + b"(")
            for f in value._visible if labels else value._compared:
                feed(getattr(value, f), defining or f in value._define)
            state.update(b")")
        elif isinstance(value, (tuple, list)):
            state.update(b"[")
            for v in value:
                feed(v, defining)
            state.update(b"]")
        elif isinstance(value, dict):
            state.update(b"{")
            for k, v in _items(value):
                feed(k, defining)
                feed(v, defining)
            state.update(b"}")
        elif isinstance(value, np.ndarray):
            state.update(f"{value.dtype}{value.shape}".encode())
            state.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
        elif isinstance(value, float):
            state.update(f"{value.hex()};".encode())
        elif hasattr(value, "__array__"):
            feed(np.asarray(value), defining)
        else:
            state.update(f"{value!r};".encode())

    feed(root, False)
    return state.digest()


def structure_key(value, own=None):
    """A hashable key, equal for values that differ in the identity of nodes alone that are no variables or buffers.

    For looking up what was found for an equal value, within one computation: variables count by identity, and so do
    arrays of more than MOST_COMPARED elements. own: {id: key} of variables that count by their place instead."""
    if isinstance(value, Node):
        if value._is_binder_leaf:
            return own[id(value)] if own and id(value) in own else id(value)
        if value._is_closed:
            defined = (v for f in value._define for v in getattr(value, f))
            own = {**(own or {}), **{id(v): ("own", n) for n, v in enumerate(defined, len(own or ()))}}
        return (type(value), *[structure_key(getattr(value, f), own) for f in value._visible])
    if isinstance(value, (tuple, list)):
        return tuple([structure_key(v, own) for v in value])
    if isinstance(value, dict):
        return tuple([(k, structure_key(v, own)) for k, v in sorted(value.items(), key=lambda item: str(item[0]))])
    if isinstance(value, np.ndarray):
        return id(value) if value.size > MOST_COMPARED else value.tobytes(), value.dtype.str, value.shape
    return value.hex() if isinstance(value, float) else value


# ---------------------------------------------------------------- JSON

def save_json(root):
    """JSON text of a node (shared nodes and variables stay shared). Inverse of load_json."""
    table, index = [], {}

    def put(value):
        if isinstance(value, Node):
            if id(value) not in index:
                entry = {"type": type(value).__name__}
                entry.update((f, put(getattr(value, f))) for f in value._fields)
                index[id(value)] = len(table)
                table.append(entry)
            return {"node": index[id(value)]}
        if isinstance(value, (tuple, list)):
            return [put(v) for v in value]
        if isinstance(value, dict):
            return {"map": [[put(k), put(v)] for k, v in value.items()]}
        if isinstance(value, np.ndarray):
            return {"array": base64.b64encode(np.ascontiguousarray(value).tobytes()).decode(),
                    "dtype": value.dtype.name, "shape": list(value.shape)}
        if isinstance(value, float):
            return {"float": value.hex()}
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, Target) and value.without_host() == Target.get(value.spelled):
            return {"target": value.spelled, "host": put(value.host)}
        if hasattr(value, "__array__"):
            return {"tensor": put(np.asarray(value))}
        raise TypeError(f"cannot save a {type(value).__name__} as JSON")

    top = put(root)
    return json.dumps({"nodes": table, "root": top})


def load_json(text):
    """The node saved by save_json. Raises ValueError when the text is not such a document."""
    try:
        document = json.loads(text)
        built = []
        for entry in document["nodes"]:
            cls = REGISTRY[entry["type"]]
            built.append(cls(**{f: _take(entry[f], built) for f in cls._fields if f in entry}))
        return _take(document["root"], built)
    except (KeyError, TypeError, IndexError, json.JSONDecodeError) as error:
        raise ValueError(f"not a saved Ingot module: {error!r}") from error


def _take(value, built):
    if isinstance(value, list):
        return tuple(_take(v, built) for v in value)
    if isinstance(value, dict):
        if "node" in value:
            return built[value["node"]]
        if "map" in value:
            return {_take(k, built): _take(v, built) for k, v in value["map"]}
        if "tensor" in value:
            return upper("tensor")(_take(value["tensor"], built))
        if "target" in value:
            return Target(value["target"], host=_take(value["host"], built))
        if "float" in value:
            return float.fromhex(value["float"])
        raw = np.frombuffer(base64.b64decode(value["array"]), dtype=value["dtype"])
        return raw.reshape(value["shape"]).copy()
    return value
