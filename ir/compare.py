"""Where two programs differ: assert_structural_equal, which says so to people."""
from __future__ import annotations

from .module import BaseFunc, IRModule
from .node import Node, StructuralEqual
from .script import script
from .script.marked import marked_script
from .tir.function import PrimFunc
from .tir.stmt import Block, Stmt


def assert_structural_equal(lhs, rhs, map_free_vars=False):
    """Raise ValueError unless lhs and rhs are structurally equal (see structural_equal).

    The message has the path to the first difference, such as <root>.functions["main"].body.block.body, what stands
    there on both sides, and both programs with the place underlined. In modules the attribute "global_symbol" of a
    function is implied by its name, which a script does not say twice.
    """
    lhs, rhs = (v.struct_info() if callable(getattr(v, "struct_info", None)) else v for v in (lhs, rhs))
    if isinstance(lhs, IRModule) and isinstance(rhs, IRModule):
        lhs, rhs = _with_implied_names(lhs), _with_implied_names(rhs)
    search = _Search(map_free_vars)
    if search.same(lhs, rhs, False):
        return
    parts, pairs = search.steps()
    at = "<root>" + "".join(parts)
    left, right = search.found
    shown = "\n".join(f"{side}:\n{_program(root, [pair[n] for pair in pairs])}"
                      for n, (side, root) in enumerate((("lhs", lhs), ("rhs", rhs))))
    raise ValueError(f"the programs differ at {at}:\n  lhs: {_words(left)}\n  rhs: {_words(right)}\n{shown}")


def _with_implied_names(mod):
    """The module without the attributes "global_symbol" that say what its functions are called in it."""
    if not any(f.attrs and f.attrs.get("global_symbol") == n for n, f in mod.functions.items()):
        return mod
    return mod.with_functions({
        n: f.replace(attrs={k: v for k, v in f.attrs.items() if k != "global_symbol"})
        if f.attrs and f.attrs.get("global_symbol") == n else f for n, f in mod.functions.items()})


class _Search(StructuralEqual):
    """Remembers the innermost pair that differs, and the pairs around it, outermost first."""

    def __init__(self, map_free_vars):
        super().__init__(map_free_vars)
        self.around, self.path, self.found = [], [], None

    def same(self, a, b, defining):
        self.around.append((a, b))
        equal = super().same(a, b, defining)
        if not equal and self.found is None:
            self.found, self.path = (a, b), list(self.around)
        self.around.pop()
        return equal

    def steps(self):
        """(how each inner pair is reached from the one around it, as text; the pairs)"""
        return [_step(outer, inner) for outer, inner in zip(self.path, self.path[1:])], self.path


def _step(outer, inner):
    """".field", "[index]" or "[key]": how `inner` is reached from `outer`, both pairs."""
    (a, b), (x, y) = outer, inner
    if isinstance(a, Node):
        return next(f".{f}" for f in a._fields if getattr(a, f) is x and getattr(b, f) is y)
    if isinstance(a, dict):
        return f'["{x[0]}"]' if isinstance(x[0], str) else f"[{x[0]}]"
    keyed = len(a) == 2 and isinstance(a[0], (str, Node)) and x is a[1]  # an item of a dict, which has its step
    return "" if keyed else f"[{next(n for n, v in enumerate(a) if v is x and b[n] is y)}]"


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


__all__ = ["assert_structural_equal"]
