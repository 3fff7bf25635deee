"""Documents: Python's syntax as objects, which doc_printer writes as text. A document may say which paths of a program
it stands for (source_paths), a statement may have a comment."""
from __future__ import annotations

from enum import IntEnum

from ...ir.expr import FloatImm, IntImm, const
from ...ir.object_path import ObjectPath


class Doc:
    """Base of documents. Two are equal where one object is both."""

    __slots__ = ("__dict__", "_paths")

    @property
    def source_paths(self):
        """The ObjectPaths that the document stands for."""
        return getattr(self, "_paths", ())

    @source_paths.setter
    def source_paths(self, paths):
        self._paths = tuple(paths)
        if not all(isinstance(p, ObjectPath) for p in self._paths):
            raise TypeError("source_paths are ObjectPaths")


class ExprDoc(Doc):
    """An expression."""

    __slots__ = ()

    def attr(self, name):
        return AttrAccessDoc(self, name)

    def call(self, *args, **kwargs):
        return CallDoc(self, *args, **kwargs)

    def __getitem__(self, indices):
        """An IndexDoc; slices of Python's become SliceDocs."""
        indices = indices if isinstance(indices, tuple) else (indices,)
        return IndexDoc(self, [SliceDoc(i.start, i.stop, i.step) if isinstance(i, slice) else i for i in indices])

    def __iter__(self):
        raise RuntimeError(f"{type(self).__name__} cannot be taken apart")


class StmtDoc(Doc):
    """A statement."""

    __slots__ = ("_comment",)

    @property
    def comment(self):
        """What stands behind the statement, or above one of several lines; None where nothing does."""
        return getattr(self, "_comment", None)

    @comment.setter
    def comment(self, comment):
        self._comment = comment


class StmtBlockDoc(Doc):
    """Statements below each other."""

    __slots__ = ()

    def __init__(self, stmts):
        self.stmts = list(stmts)


def _is_simple(value):
    return value is None or isinstance(value, (str, IntImm, FloatImm))


class LiteralDoc(ExprDoc):
    """A number, a string, True, False or None; numbers are kept as immediates."""

    __slots__ = ()

    def __init__(self, value, path=None):
        if isinstance(value, bool):
            value = const(value, "bool")
        elif isinstance(value, int):
            value = const(value, "int64")
        elif isinstance(value, float):
            value = const(value, "float64")
        if not _is_simple(value):
            raise TypeError(f"LiteralDoc: a literal is a number, a string, a bool or None, not {value!r}")
        self.value = value
        if path is not None:
            self.source_paths = [path]


class IdDoc(ExprDoc):
    """A name."""

    __slots__ = ()

    def __init__(self, name):
        self.name = name


class AttrAccessDoc(ExprDoc):
    """value.name"""

    __slots__ = ()

    def __init__(self, value, name):
        self.value, self.name = value, name


class IndexDoc(ExprDoc):
    """value[indices]; indices: expressions and SliceDocs."""

    __slots__ = ()

    def __init__(self, value, indices):
        self.value, self.indices = value, list(indices)


class CallDoc(ExprDoc):
    """callee(*args, **kwargs)"""

    __slots__ = ()

    def __init__(self, callee, *args, **kwargs):
        self.callee, self.args = callee, list(args)
        self.kwargs_keys, self.kwargs_values = list(kwargs), list(kwargs.values())


class OperationKind(IntEnum):
    """Operators by TVM's numbers; those between kinds of operators mark where one begins and ends."""

    _UnaryStart, USub, Invert, Not, _UnaryEnd = range(5)
    (_BinaryStart, Add, Sub, Mult, Div, FloorDiv, Mod, Pow, LShift, RShift, BitAnd, BitOr, BitXor, Lt, LtE, Eq, NotEq,
     Gt, GtE, And, Or, _BinaryEnd) = range(5, 27)
    _SpecialStart, IfThenElse, _SpecialEnd = range(27, 30)


class OperationDoc(ExprDoc):
    """An operator on operands; of IfThenElse: the condition, then both values."""

    __slots__ = ()

    def __init__(self, kind, operands):
        self.kind, self.operands = kind, list(operands)


class LambdaDoc(ExprDoc):
    """lambda args: body"""

    __slots__ = ()

    def __init__(self, args, body):
        self.args, self.body = list(args), body


class TupleDoc(ExprDoc):
    __slots__ = ()

    def __init__(self, elements):
        self.elements = list(elements)


class ListDoc(ExprDoc):
    __slots__ = ()

    def __init__(self, elements):
        self.elements = list(elements)


class DictDoc(ExprDoc):
    """A dict of expressions by expressions."""

    __slots__ = ()

    def __init__(self, content):
        self.keys, self.values = list(content), list(content.values())


class SliceDoc(ExprDoc):
    """start:stop:step in an IndexDoc."""

    __slots__ = ()

    def __init__(self, start=None, stop=None, step=None):
        self.start, self.stop, self.step = start, stop, step


class AssignDoc(StmtDoc):
    """lhs: annotation = rhs; the value or the annotation may be None."""

    __slots__ = ()

    def __init__(self, lhs, rhs, annotation=None):
        if rhs is None and annotation is None:
            raise ValueError("AssignDoc: give a value, an annotation or both")
        if annotation is not None and not isinstance(lhs, IdDoc):
            raise ValueError("AssignDoc: only a name has an annotation")
        self.lhs, self.rhs, self.annotation = lhs, rhs, annotation


class IfDoc(StmtDoc):
    __slots__ = ()

    def __init__(self, predicate, then_branch, else_branch):
        if not then_branch and not else_branch:
            raise ValueError("IfDoc: one of the branches has statements")
        self.predicate, self.then_branch, self.else_branch = predicate, list(then_branch), list(else_branch or ())


class WhileDoc(StmtDoc):
    __slots__ = ()

    def __init__(self, predicate, body):
        self.predicate, self.body = predicate, list(body)


class ForDoc(StmtDoc):
    """for lhs in rhs: body"""

    __slots__ = ()

    def __init__(self, lhs, rhs, body):
        self.lhs, self.rhs, self.body = lhs, rhs, list(body)


class ScopeDoc(StmtDoc):
    """with rhs as lhs: body"""

    __slots__ = ()

    def __init__(self, lhs, rhs, body):
        self.lhs, self.rhs, self.body = lhs, rhs, list(body)


class ExprStmtDoc(StmtDoc):
    """An expression as a statement."""

    __slots__ = ()

    def __init__(self, expr):
        self.expr = expr


class AssertDoc(StmtDoc):
    __slots__ = ()

    def __init__(self, test, msg=None):
        self.test, self.msg = test, msg


class ReturnDoc(StmtDoc):
    __slots__ = ()

    def __init__(self, value):
        self.value = value


class FunctionDoc(StmtDoc):
    """A function; args: AssignDocs of parameters."""

    __slots__ = ()

    def __init__(self, name, args, decorators, return_type, body):
        self.name, self.args, self.decorators = name, list(args), list(decorators)
        self.return_type, self.body = return_type, list(body)


class ClassDoc(StmtDoc):
    __slots__ = ()

    def __init__(self, name, decorators, body):
        self.name, self.decorators, self.body = name, list(decorators), list(body)


class CommentDoc(StmtDoc):
    """A comment in lines of its own."""

    __slots__ = ()

    def __init__(self, comment):
        self.comment = comment


class DocStringDoc(StmtDoc):
    """A string in three quotes, in lines of its own."""

    __slots__ = ()

    def __init__(self, docs):
        self.comment = docs
