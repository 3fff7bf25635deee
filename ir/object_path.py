"""ObjectPath: the way from a node to something inside it."""
from __future__ import annotations

_SHOWN = {"attr": ".{}".format, "element": "[{}]".format, "missing element": "[<missing element {}>]".format,
          "value": lambda key: f'["{key}"]' if isinstance(key, str) else f"[{key}]",
          "missing entry": lambda key: "[<missing entry>]"}


class ObjectPath:
    """Steps from a root, as TVM names them; printed like <root>.functions["main"].params[2].

    Equal to one of the same steps. Keys of dicts that are nodes must be the same object.
    """

    __slots__ = ("steps",)

    def __init__(self, steps=()):
        self.steps = tuple(steps)

    @staticmethod
    def root():
        """The way to the root itself."""
        return ObjectPath()

    def attr(self, name):
        """The way on to a field of a node."""
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
        return ObjectPath((*self.steps, (kind, key)))

    @property
    def parent(self):
        """The path without its last step; None of a root."""
        return ObjectPath(self.steps[:-1]) if self.steps else None

    def is_prefix_of(self, other):
        """Whether the other path begins with these steps."""
        return len(self.steps) <= len(other.steps) and self == ObjectPath(other.steps[:len(self.steps)])

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
        return len(self.steps) == len(other.steps) and all(
            kind == k and (key is x or isinstance(key, (str, int)) and key == x)
            for (kind, key), (k, x) in zip(self.steps, other.steps))

    def __hash__(self):
        return hash(self.steps)

    def __str__(self):
        return "<root>" + "".join(_SHOWN[kind](key) for kind, key in self.steps)

    __repr__ = __str__


__all__ = ["ObjectPath"]
