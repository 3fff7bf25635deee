"""`a == b` of expressions that no dtype holds both of, as of a handle and an int."""
from __future__ import annotations


class EqualOp:
    """Such an `a == b`: Python asks for identity by it, as `x in variables` does. What takes an expression raises
    TypeError, which says `why` it is none."""

    same = True

    def __init__(self, a, b, why):
        self.a, self.b, self.why = a, b, why

    @classmethod
    def of(cls, build, a, b):
        """build(a, b), or one of these where it raises TypeError."""
        try:
            return build(a, b)
        except TypeError as error:
            return cls(a, b, str(error))

    def __bool__(self):
        return (self.a is self.b) == self.same

    def __prim_expr__(self):
        raise TypeError(self.why)

    asobject = __prim_expr__

    def __getattr__(self, name):  # such as dtype, of what a statement was given unseen
        raise TypeError(self.why)


class NotEqualOp(EqualOp):
    """As EqualOp, of `a != b`."""

    same = False


__all__ = ["EqualOp", "NotEqualOp"]
