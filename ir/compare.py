"""Where two programs differ: assert_structural_equal says so to people, get_first_structural_mismatch to programs."""
from __future__ import annotations

from . import node as _node
from .expr import IntImm
from .module import BaseFunc, IRModule
from .node import Node, StructuralEqual, _items
from .object_path import ObjectPath
from .script import script
from .script.marked import marked_script
from .tir.function import PrimFunc
from .tir.stmt import Block, Stmt


def structural_equal(lhs, rhs, map_free_vars=False):
    """node.structural_equal, to which dimensions and a shape of these are equal, too."""
    return _node.structural_equal(*_alike(lhs, rhs), map_free_vars)


def _alike(lhs, rhs):
    """Both as dimensions where one is a tuple of them and the other a shape; Python's integers as immediates where
    these stand on the other side."""
    if isinstance(lhs, tuple) != isinstance(rhs, tuple):
        lhs, rhs = (v if isinstance(v, tuple) else getattr(v, "values", v) for v in (lhs, rhs))
    if isinstance(lhs, (tuple, list)) and isinstance(rhs, (tuple, list)):
        pairs = [(_like(x, y), _like(y, x)) for x, y in zip(lhs, rhs)]
        lhs, rhs = (type(v)([*(pair[n] for pair in pairs), *v[len(pairs):]]) if type(v) in (tuple, list) else v
                    for n, v in enumerate((lhs, rhs)))
    return lhs, rhs


def _like(x, y):
    return IntImm("int32", x) if type(x) is int and isinstance(y, IntImm) else x


def assert_structural_equal(lhs, rhs, map_free_vars=False):
    """Raise ValueError unless lhs and rhs are structurally equal (see structural_equal).

    The message has the path to the first difference, such as <root>.functions["main"].body.block.body, what stands
    there on both sides, and both programs with the place underlined.
    """
    lhs, rhs = (v.struct_info() if callable(getattr(type(v), "struct_info", None)) else v for v in (lhs, rhs))
    lhs, rhs = _alike(lhs, rhs)
    search = _Search(map_free_vars)
    if search.same(lhs, rhs, False):
        return
    left, right = search.found
    shown = "\n".join(f"{side}:\n{_program(root, [pair[n] for pair in search.path])}"
                      for n, (side, root) in enumerate((("lhs", lhs), ("rhs", rhs))))
    raise ValueError(f"the programs differ at {search.place()}:\n  lhs: {_words(left)}\n  rhs: {_words(right)}\n"
                     f"{shown}")


def get_first_structural_mismatch(lhs, rhs, map_free_vars=False):
    """None when lhs and rhs are structurally equal, else the ObjectPaths to their first difference, one in each; what
    differs in length is shown at the first element that only one of them has."""
    search = _Search(map_free_vars)
    if search.same(lhs, rhs, False):
        return None
    left, right = search.found
    longer = len(left) - len(right) if isinstance(left, (tuple, list, dict)) and type(left) is type(right) else 0
    if not longer:
        return search.place(), search.place()
    at, n = search.place(), min(len(left), len(right))
    if isinstance(left, dict):
        extra, missing = at.map_value(_items(left if longer > 0 else right)[n][0]), at.missing_map_entry()
    else:
        extra, missing = at.array_index(n), at.missing_array_element(n)
    return (extra, missing) if longer > 0 else (missing, extra)


class _Search(StructuralEqual):
    """Remembers the innermost pair that differs, and the pairs around it, outermost first."""

    def __init__(self, map_free_vars):
        super().__init__(map_free_vars)
        self.around, self.path, self.found = [], [], None

    def same(self, a, b, defining):
        self.around.append((a, b))
        equal = self._beginning(a, b, defining) and super().same(a, b, defining)
        if not equal and self.found is None:
            self.found, self.path = (a, b), list(self.around)
        self.around.pop()
        return equal

    def _beginning(self, a, b, defining):
        """Whether sequences or dicts of different lengths are the same as far as the shorter one goes."""
        for kind, elements in (((tuple, list), iter), (dict, _items)):
            if isinstance(a, kind) and isinstance(b, kind) and len(a) != len(b):
                return all(self.same(x, y, defining) for x, y in zip(elements(a), elements(b)))
        return True

    def place(self):
        """The ObjectPath to what differs."""
        at, item = ObjectPath.root(), False
        for outer, inner in zip(self.path, self.path[1:]):
            at = at if item else _step(at, outer, inner)  # the step to an item of a dict is that to its value
            item = isinstance(outer[0], dict)
        return at


def _step(at, outer, inner):
    """The ObjectPath to `inner` from `at`, that of `outer`, both pairs."""
    (a, b), (x, y) = outer, inner
    if isinstance(a, Node):
        return at.attr(next(f for f in a._fields if getattr(a, f) is x and getattr(b, f) is y))
    if isinstance(a, dict):
        return at.map_value(x[0])
    return at.array_index(next(n for n, v in enumerate(a) if v is x and b[n] is y))


def _words(value):
    """One side of a difference in a line."""
    if isinstance(value, (tuple, list)) and len(value) > 4:
        return f"{len(value)} elements"
    if isinstance(value, dict):
        return f"keys {', '.join(map(str, value)) or 'none'}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_words, value))})"
    if not isinstance(value, Node):
        return repr(value)
    lines = [line for line in script(value).split("\n") if line and not line.startswith("from ")]
    text = lines[0].strip() + (" ..." if len(lines) > 1 else "")
    return f"{text}  ({type(value).__name__}{_kind(value)})"


def _kind(value):
    """A variable's dtype, which its name does not say."""
    return f" of {value.dtype}" if type(value).__name__ in ("Var", "Buffer") else ""


def _program(root, around):
    """The script of the function (or node) around a place, the innermost statement of the place underlined."""
    function = next((v for v in reversed(around) if isinstance(v, BaseFunc)), None)
    if isinstance(function, PrimFunc):
        place = [v for v in around if isinstance(v, Stmt) and not isinstance(v, Block)][-1:]  # blocks print as realized
        text = marked_script(function, place)
    else:
        text = script(function) if function is not None else script(root) if isinstance(root, Node) else repr(root)
    name = next((name for name, f in root.functions.items() if f is function), "") if isinstance(root, IRModule) else ""
    return (f"# function {name}\n" if name else "") + text


__all__ = ["assert_structural_equal", "get_first_structural_mismatch", "structural_equal"]
