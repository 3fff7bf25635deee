"""ObjectPath: the way from a node to something inside it."""
from __future__ import annotations

_SHOWN = {"attr": lambda name: f".{name or '<unknown attribute>'}", "element": "[{}]".format,
          "missing element": "[<missing element #{}>]".format,
          "value": lambda key: f'["{key}"]' if isinstance(key, str) else f"[{key}]",
          "missing entry": lambda key: "[<missing entry>]"}


class ObjectPath:
    """Steps from a root, as TVM names them; printed like <root>.functions["main"].params[2].

    Equal to one of the same steps from a root of the same name. Keys of dicts that are nodes must be the same object.
    """

    __slots__ = ("steps", "name")

    def __init__(self, steps=(), name="<root>"):
        self.steps, self.name = tuple(steps), name

    @staticmethod
    def root(name="<root>"):
        """The way to the root itself."""
        return ObjectPath((), name or "<root>")

    def attr(self, name):
        """The way on to a field of a node, None where it has no name."""
        return self._on("attr", name)

    def array_index(self, index):
        """The way on to an element of a sequence."""
        return self._on("element", index)

    def missing_array_element(self, index):
        """The way on to where a sequence would have an element that another one has."""
        return self._on("missing element", index)

    def map_value(self, key):
        """The way on to the value of a key."""
        return self._on("value", key)

    def missing_map_entry(self):
        """The way on to where a dict would have an entry that another one has."""
        return self._on("missing entry", None)

    def _on(self, kind, key):
        return ObjectPath((*self.steps, (kind, key)), self.name)

    @property
    def parent(self):
        """The path without its last step; None of a root."""
        return ObjectPath(self.steps[:-1], self.name) if self.steps else None

    def get_prefix(self, length):
        """The path of the first steps, `length` with the root. IndexError where there are none or not so many."""
        if length < 1:
            raise IndexError("Prefix length must be at least 1")
        if length > len(self):
            raise IndexError("Attempted to get a prefix longer than the path itself")
        return ObjectPath(self.steps[:length - 1], self.name)

    def is_prefix_of(self, other):
        """Whether the other path begins with these steps."""
        return len(self.steps) <= len(other.steps) and self == other.get_prefix(len(self))

    def nodes(self, root):
        """What stands on the way from `root`, it included, as far as it goes there: nodes alone."""
        at, found = root, [root]
        for kind, key in self.steps:
            try:
                at = getattr(at, key) if kind == "attr" else at[getattr(key, "name", key) if isinstance(at, dict) and (
                    key not in at) else key]
            except (AttributeError, LookupError, TypeError):
                break
            found.append(at)
        return [n for n in found if hasattr(n, "_fields")] or [root]

    def __len__(self):
        return len(self.steps) + 1

    def __eq__(self, other):
        if not isinstance(other, ObjectPath):
            return NotImplemented
        return self.name == other.name and len(self.steps) == len(other.steps) and all(
            kind == k and (key is x or isinstance(key, (str, int)) and key == x)
            for (kind, key), (k, x) in zip(self.steps, other.steps))

    def __hash__(self):
        return hash(self.steps)

    def __str__(self):
        return self.name + "".join(_SHOWN[kind](key) for kind, key in self.steps)

    __repr__ = __str__


class _Ending(type):
    """Classes of paths by their last step, for isinstance alone."""

    def __instancecheck__(cls, path):
        if not isinstance(path, ObjectPath):
            return False
        kind, key = path.steps[-1] if path.steps else (None, None)
        return kind == cls.kind and (key is None) == cls.nameless


def _ending(name, kind, nameless, doc):
    return _Ending(name, (), {"kind": kind, "nameless": nameless, "__doc__": doc, "__module__": __name__})


RootPath = _ending("RootPath", None, True, "Paths to roots.")
AttributeAccessPath = _ending("AttributeAccessPath", "attr", False, "Paths to fields.")
UnknownAttributeAccessPath = _ending("UnknownAttributeAccessPath", "attr", True, "Paths to fields without a name.")
ArrayIndexPath = _ending("ArrayIndexPath", "element", False, "Paths to elements.")
MissingArrayElementPath = _ending("MissingArrayElementPath", "missing element", False, "Paths to absent elements.")
MapValuePath = _ending("MapValuePath", "value", False, "Paths to values of keys.")
MissingMapEntryPath = _ending("MissingMapEntryPath", "missing entry", True, "Paths to absent entries.")


class ObjectPathPair:
    """Two paths: to what differs in one object and in another."""

    def __init__(self, lhs_path, rhs_path):
        self.lhs_path, self.rhs_path = lhs_path, rhs_path


__all__ = ["ArrayIndexPath", "AttributeAccessPath", "MapValuePath", "MissingArrayElementPath", "MissingMapEntryPath",
           "ObjectPath", "ObjectPathPair", "RootPath", "UnknownAttributeAccessPath"]
