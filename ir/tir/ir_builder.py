"""ir_builder: write a statement in Python, line by line.

    ib = tir.ir_builder.create()
    a = ib.buffer_ptr(A)
    with ib.for_range(0, n, "i") as i:
        with ib.if_scope(i > 0):
            a[i] = a[i - 1] + 1.0
    stmt = ib.get()
"""
from __future__ import annotations

from contextlib import contextmanager

from ..dtype import DataType
from ..expr import Var, as_expr, cast, const
from .buffer import Buffer, decl_buffer
from .intrin import likely
from .stmt import (
    AttrStmt, BufferLoad, BufferStore, DeclBuffer, Evaluate, For, IfThenElse, LetStmt, Stmt, While, seq)

_KINDS = {"serial": "serial", "parallel": "parallel", "vectorize": "vectorized", "vectorized": "vectorized",
          "unroll": "unrolled", "unrolled": "unrolled"}


def create():
    """A new builder."""
    return IRBuilder()


class BufferVar:
    """A buffer in a builder: p[i, j] loads, p[i, j] = value stores."""

    def __init__(self, builder, buffer):
        self._builder, self.buffer = builder, buffer

    @property
    def dtype(self):
        return self.buffer.dtype

    def asobject(self):
        """The Buffer."""
        return self.buffer

    def __getitem__(self, indices):
        return BufferLoad(self.buffer, self._indices(indices))

    def __setitem__(self, indices, value):
        value = as_expr(value, self.buffer.dtype)
        if value.dtype.element != self.buffer.dtype.element:
            raise ValueError(f"a {value.dtype} is stored into buffer {self.buffer.name}, which is {self.buffer.dtype}; "
                             "cast it")
        self._builder.emit(BufferStore(self.buffer, value, self._indices(indices)))

    def _indices(self, indices):
        indices = tuple(as_expr(i) for i in (indices if isinstance(indices, (tuple, list)) else (indices,)))
        if len(indices) != len(self.buffer.shape):
            raise IndexError(f"buffer {self.buffer.name} has {len(self.buffer.shape)} dimensions, indexed with "
                             f"{len(indices)}")
        return indices


class IRBuilder:
    """Statements collect in the innermost open scope; get() closes the outermost."""

    def __init__(self):
        self._open = [[]]  # per open scope what was emitted: statements, and functions of what follows them

    def emit(self, stmt):
        """Add a statement, a call, or a function from the rest of the scope to a statement around it."""
        if not (isinstance(stmt, Stmt) or callable(stmt)):
            stmt = Evaluate(as_expr(stmt))
        self._open[-1].append(stmt)

    def get(self):
        """The statement built. Raises RuntimeError while a scope is open."""
        if len(self._open) != 1:
            raise RuntimeError(f"ir_builder: {len(self._open) - 1} scopes are still open")
        body, self._open = self._open.pop(), [[]]
        return _chained(body)

    @contextmanager
    def _scope(self, build, value=None):
        self._open.append([])
        try:
            yield value
        finally:
            body = _chained(self._open.pop())
        self.emit(build(body))

    # ------------------------------------------------------------ scopes

    def for_range(self, begin, end, name="i", dtype=None, kind="serial"):
        """`with ib.for_range(0, n) as i:` a loop; kind: "serial", "parallel", "vectorize" or "unroll"."""
        if kind not in _KINDS:
            raise ValueError(f"for_range: kind {kind!r} is none of {', '.join(sorted(_KINDS))}")
        begin, end = as_expr(begin), as_expr(end)
        dtype = DataType(dtype or max((begin.dtype, end.dtype), key=lambda t: t.bits))
        var, begin, end = Var(name, dtype), cast(begin, dtype), cast(end, dtype)
        return self._scope(lambda body: For(var, begin, end - begin, _KINDS[kind], body), var)

    def while_loop(self, condition):
        """`with ib.while_loop(condition):`"""
        return self._scope(lambda body: While(as_expr(condition), body))

    def if_scope(self, condition):
        """`with ib.if_scope(condition):`"""
        return self._scope(lambda body: IfThenElse(as_expr(condition), body))

    def else_scope(self):
        """`with ib.else_scope():` directly after an if_scope."""
        last = self._open[-1][-1] if self._open[-1] else None
        if not isinstance(last, IfThenElse) or last.else_case is not None:
            raise RuntimeError("ir_builder: else_scope does not follow an if_scope")
        self._open[-1].pop()
        return self._scope(lambda body: last.replace(else_case=body))

    def new_scope(self):
        """`with ib.new_scope():` what holds for the rest of a scope ends with it."""
        return self._scope(lambda body: body)

    # ------------------------------------------------------------ what holds for the rest of a scope

    def let(self, var_name, value):
        """A variable for the rest of the scope."""
        value = as_expr(value)
        var = Var(var_name, value.dtype)
        self.emit(lambda rest: LetStmt(var, value, rest))
        return var

    def scope_attr(self, node, attr_key, value):
        """An attribute of the rest of the scope."""
        value = as_expr(value)
        self.emit(lambda rest: AttrStmt(node, attr_key, value, rest))

    def allocate(self, dtype, shape, name="buf", scope="global"):
        """A buffer for the rest of the scope."""
        buffer = decl_buffer(shape, dtype, name, scope)
        self.emit(lambda rest: DeclBuffer(buffer, rest))
        return BufferVar(self, buffer)

    def pointer(self, content_type, name="ptr", scope="global"):
        """Memory from outside, at a pointer: p[i] is the element i after that."""
        return BufferVar(self, decl_buffer((1,), content_type, name, scope))

    def buffer_ptr(self, buf, shape=None):
        """A buffer from outside, for loads and stores."""
        if not isinstance(buf, Buffer):
            raise TypeError(f"buffer_ptr takes a Buffer, not a {type(buf).__name__}")
        return BufferVar(self, buf if shape is None else buf.replace(shape=tuple(map(as_expr, shape))))

    likely = staticmethod(likely)


def _chained(statements):
    """One statement of what a scope collected; later statements lie inside functions emitted before them."""
    rest = []
    for s in reversed(statements):
        rest = [s, *rest] if isinstance(s, Stmt) else [s(seq(*rest) if rest else Evaluate(const(0)))]
    return rest[0] if len(rest) == 1 else seq(*rest)
