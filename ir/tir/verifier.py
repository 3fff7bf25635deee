"""The rules every PrimFunc keeps, before and after lowering. Tests verify between passes; the pipeline may too."""
from __future__ import annotations

from contextlib import contextmanager

from ..expr import BinaryExpr, IterVar, PrimExpr, Var
from ..node import Visitor, collect
from .device_ops import ALLREDUCE, allreduce_parts
from .function import PrimFunc
from .stmt import BlockRealize, BufferLoad, Stmt
from .unlowered import BufferRealize

LOOP_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")
ITER_TYPES = ("spatial", "reduce", "scan", "opaque")
COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


class VerifyError(ValueError):
    """A PrimFunc that breaks a rule; the message says which, where, and what was expected.

    statements: those around the place, outermost first.
    """

    def __init__(self, message, statements=()):
        super().__init__(message)
        self.statements = tuple(statements)


def verify(func, unique_names=True):
    """Return `func` if it is well formed; raise VerifyError otherwise.

    Requires: a PrimFunc, before lowering (a root block) or after it. No expression is simplified: only structure and
    dtypes are looked at.
    Ensures:
    - variables are used where they are defined: parameters, dimensions of parameter buffers, loops, block iterators,
      lets; the body of a block with iterators uses no variable of a loop outside the block;
    - loop variables are unique in the function; loop kinds and iterator types are known ones;
    - buffers are parameters, allocated around their use, or views of the data of one that is;
    - indices are integers, as many as the buffer has dimensions; a stored value has the buffer's dtype, with as many
      lanes as the index; operands of arithmetic agree in dtype, conditions are bool;
    - (unless `unique_names` is false, as for scripts, which may name blocks as they like) block names are unique;
    - a block has one binding per iterator, and its body touches only the buffers of its signature and those it
      allocates: it loads what it reads or writes and stores what it writes. (The root block, which may have an empty
      signature, is exempt.)
    """
    if not isinstance(func, PrimFunc):
        raise VerifyError(f"verify takes a PrimFunc, not a {type(func).__name__}")
    _Verifier(func, unique_names).run()
    return func


class _Frame:
    """The buffers that one block may touch. exempt: the root block, which may touch all."""

    def __init__(self, block, exempt):
        self.exempt, self.closed = exempt, bool(block.iter_vars)
        self.writes = {id(r.buffer) for r in block.writes}
        self.reads = {id(r.buffer) for r in block.reads} | self.writes
        self.own = set()  # with the pointers that it defines
        self.name = block.name_hint


class _Verifier(Visitor):
    def __init__(self, func, unique_names=True):
        self.func, self.unique_names = func, unique_names
        self.statements = []  # around the place that is visited, outermost first
        self.vars = {}      # id of a variable in scope -> block depth at its loop, or None when not a loop variable
        self.buffers = set()  # ids of buffers in scope
        self.frames = []    # enclosing blocks, outermost first
        self.loop_vars, self.block_names = {}, set()
        self.path = []      # enclosing loops and blocks in words
        self.constants = set()  # ids of the pointers to constants
        self.keep = []      # holds what ids stand for

    def fail(self, message):
        name = self.func.attrs.get("global_symbol", "main")
        where = f" (in {', '.join(self.path)})" if self.path else ""
        raise VerifyError(f"PrimFunc {name}: {message}{where}", self.statements)

    def visit(self, value):
        if not isinstance(value, Stmt):
            return super().visit(value)
        self.statements.append(value)
        super().visit(value)
        return self.statements.pop()

    def visit_AttrStmt(self, s):
        if s.attr_key == "buffer_bind_scope":  # of a view and the buffer it is of: the view's layout is told by it
            view, source = s.target
            self.visit((source, s.value))
            own = [v for v in collect((view.shape, view.strides, view.elem_offset), Var) if id(v) not in self.vars]
            with self.defining(own, [view]):
                return self.visit(s.body)
        if s.attr_key == "realize_scope" and isinstance(s.body, BufferRealize):
            return self.visit(s.body)
        if not isinstance(s.target, IterVar):
            return self.generic_visit(s)
        self.visit((s.value, s.target.dom))  # an index of a thread, from 0 up to the value
        with self.defining([s.target.var]):
            self.visit(s.body)

    def visit_BufferRealize(self, s):
        self.visit((s.bounds, s.condition))
        with self.defining((), [s.buffer]):
            self.visit(s.body)

    # ------------------------------------------------------------ scopes

    @contextmanager
    def defining(self, variables=(), buffers=(), depth=None):
        """Variables and buffers (with their data pointers) in scope inside the `with`."""
        variables = [*variables, *(b.data for b in buffers if b.data is not None)]
        buffers = [b for b in buffers if id(b) not in self.buffers]
        old = {id(v): self.vars.get(id(v), self) for v in variables}
        self.keep.extend((variables, buffers))
        self.vars.update((key, depth) for key in old)
        self.buffers.update(id(b) for b in buffers)
        yield
        for key, previous in old.items():
            if previous is self:
                del self.vars[key]
            else:
                self.vars[key] = previous
        self.buffers.difference_update(id(b) for b in buffers)

    @contextmanager
    def within(self, words):
        self.path.append(words)
        yield
        self.path.pop()

    def run(self):
        func = self.func
        if len({id(p) for p in func.params}) != len(func.params):
            self.fail("a parameter is listed twice")
        for handle, buffer in func.buffer_map.items():
            if not any(handle is p for p in func.params):
                self.fail(f"buffer {buffer.name} is bound to {handle.name}, which is no parameter")
            if handle.dtype != "handle":
                self.fail(f"buffer {buffer.name} is bound to {handle.name}, a {handle.dtype} instead of a handle")
        buffers = list(func.buffer_map.values())
        dims = collect([(b.shape, b.strides, b.elem_offset) for b in buffers], Var)
        with self.defining([*func.params, *dims], buffers):
            self.visit(func.body)

    def _depth(self):
        """How many blocks with iterators are around; opaque ones, which have none, use the loops outside."""
        return sum(frame.closed for frame in self.frames)

    # ------------------------------------------------------------ expressions

    def visit_Var(self, v):
        if id(v) not in self.vars:
            self.fail(f"variable {v.name} is used where nothing defines it")
        depth = self.vars[id(v)]
        if depth is not None and depth < self._depth():
            self.fail(f"block {self.frames[-1].name} uses variable {v.name} of a loop outside the block; "
                      "bind it to an iterator of the block")

    def visit_CommReducer(self, e):
        self.visit(e.identity)
        with self.defining([*e.lhs, *e.rhs]):
            self.visit(e.result)

    def visit_Call(self, e):
        if e.op == ALLREDUCE:  # names the threads themselves, which no iterator is bound to
            self.visit(allreduce_parts(e))
        else:
            self.generic_visit(e)

    def visit_Let(self, e):
        self.visit(e.value)
        with self.defining([e.var]):
            self.visit(e.body)

    def generic_visit(self, n):
        super().generic_visit(n)
        kind = type(n).__name__
        if isinstance(n, BinaryExpr) or kind in COMPARISONS:
            if n.a.dtype != n.b.dtype:
                self.fail(f"operands of {kind} differ in dtype: {n.a.dtype} and {n.b.dtype} in {n}")
        elif kind in ("Select", "IfThenElse", "While", "AssertStmt"):
            self._boolean(n.condition, kind)

    def _boolean(self, condition, what):
        if not condition.dtype.is_bool:
            self.fail(f"the condition of {what} is {condition.dtype} instead of bool: {condition}")

    # ------------------------------------------------------------ buffers

    def visit_Buffer(self, b):
        self._in_scope(b)

    def visit_BufferLoad(self, e):
        self._access(e.buffer, e.indices, "loads")

    def visit_BufferStore(self, s):
        self._access(s.buffer, s.indices, "stores")
        self.visit(s.value)
        expected = BufferLoad(s.buffer, s.indices).dtype
        if s.value.dtype != expected:
            self.fail(f"store of a {s.value.dtype} value into {s.buffer.name}, which needs {expected}: {s}")

    def visit_BufferRegion(self, r):
        self._in_scope(r.buffer)
        self._rank(r.buffer, r.region)
        for dim in r.region:
            self.visit(dim.min)
            self.visit(dim.extent)

    def _access(self, buffer, indices, verb):
        self._in_scope(buffer)
        self._rank(buffer, indices)
        if verb == "stores" and id(buffer.data) in self.constants:
            self.fail(f"buffer {buffer.name} lies over a constant (T.allocate_const), which nothing may store into: copy "
                      "it to a buffer of T.alloc_buffer first")
        for i in indices:
            if not isinstance(i, PrimExpr):
                self.fail(f"index {i!r} of buffer {buffer.name} is a Python {type(i).__name__} "
                          "instead of an expression")
            self.visit(i)
            if not i.dtype.is_int:
                self.fail(f"index {i} of buffer {buffer.name} is {i.dtype} instead of an integer")
        self._touch(buffer, verb)

    def _in_scope(self, b):
        view = b.data is not None and id(b.data) in self.vars
        if id(b) not in self.buffers and not view:
            self.fail(f"buffer {b.name} is neither a parameter nor allocated around its use")

    def _rank(self, buffer, indices):
        if len(indices) != len(buffer.shape):
            self.fail(f"buffer {buffer.name} has {len(buffer.shape)} dimensions, indexed with {len(indices)}")

    def _touch(self, buffer, verb):
        if not self.frames:
            return
        frame = self.frames[-1]
        allowed = frame.writes if verb == "stores" else frame.reads
        if not (frame.exempt or id(buffer) in allowed or id(buffer) in frame.own or id(buffer.data) in frame.own):
            listed = "writes" if verb == "stores" else "reads"
            self.fail(f"block {frame.name} {verb} buffer {buffer.name}, which its signature {listed} does not list")

    # ------------------------------------------------------------ statements

    def visit_For(self, s):
        if s.kind not in LOOP_KINDS:
            self.fail(f"loop {s.loop_var.name} is of unknown kind {s.kind!r}; known: {', '.join(LOOP_KINDS)}")
        if (s.kind == "thread_binding") != (s.thread_binding is not None):
            self.fail(f"loop {s.loop_var.name} is {s.kind} with thread_binding {s.thread_binding}")
        if id(s.loop_var) in self.loop_vars:
            self.fail(f"variable {s.loop_var.name} is the variable of two loops")
        self.loop_vars[id(s.loop_var)] = s.loop_var
        for what, e in (("min", s.min), ("extent", s.extent)):
            self.visit(e)
            if e.dtype != s.loop_var.dtype:
                self.fail(f"loop {s.loop_var.name} is {s.loop_var.dtype} but its {what} {e} is {e.dtype}")
        with self.defining([s.loop_var], depth=self._depth()), self.within(f"loop {s.loop_var.name}"):
            self.visit(s.body)

    def visit_LetStmt(self, s):
        self.visit(s.value)
        if s.constant is not None:
            self.constants.add(id(s.var))
            self.keep.append(s.var)
        if s.value.dtype != s.var.dtype:
            self.fail(f"let {s.var.name} is {s.var.dtype} but its value is {s.value.dtype}: {s.value}")
        with self.defining([s.var]):
            if self.frames:
                self.frames[-1].own.add(id(s.var))
            self.visit(s.body)

    def visit_DeclBuffer(self, s):
        self._layout(s.buffer)
        with self.defining(buffers=[s.buffer]):
            if self.frames:
                self.frames[-1].own.add(id(s.buffer))
            self.visit(s.body)

    def _layout(self, b):
        """The shape and layout of a buffer use variables in scope."""
        for e in (*b.shape, *b.strides, *([b.elem_offset] if b.elem_offset is not None else [])):
            self.visit(e)

    def visit_BlockRealize(self, s):
        block = s.block
        if len(s.iter_values) != len(block.iter_vars):
            self.fail(f"block {block.name_hint} has {len(block.iter_vars)} iterators and {len(s.iter_values)} bindings")
        for iv, value in zip(block.iter_vars, s.iter_values):
            self.visit(value)
            if value.dtype != iv.var.dtype:
                self.fail(f"iterator {iv.var.name} of block {block.name_hint} is {iv.var.dtype} "
                          f"but is bound to {value}, a {value.dtype}")
        self.visit(s.predicate)
        self._boolean(s.predicate, f"block {block.name_hint}")
        self.visit(block)

    def visit_Block(self, block):
        name = block.name_hint
        if name in self.block_names and self.unique_names:
            self.fail(f"two blocks are named {name}")
        self.block_names.add(name)
        for iv in block.iter_vars:
            if iv.iter_type not in ITER_TYPES:
                self.fail(f"iterator {iv.var.name} of block {name} is of unknown type {iv.iter_type!r}; "
                          f"known: {', '.join(ITER_TYPES)}")
            self.visit((iv.dom.min, iv.dom.extent))
        is_root = isinstance(self.func.body, BlockRealize) and block is self.func.body.block
        frame = _Frame(block, exempt=is_root and not (block.reads or block.writes))
        self.frames.append(frame)
        with self.within(f"block {name}"), self.defining([iv.var for iv in block.iter_vars]):
            self.visit((block.reads, block.writes))
            self._block_body(block, frame)
        self.frames.pop()
        for verb, regions in (("loads", block.reads), ("stores", block.writes)):
            for r in regions:
                self._touch(r.buffer, verb)

    def _block_body(self, block, frame):
        matched = [m.buffer for m in block.match_buffers]
        layout_vars = [v for v in collect([(b.shape, b.strides, b.elem_offset) for b in matched], Var)
                       if id(v) not in self.vars]
        for b in block.alloc_buffers:
            self._layout(b)
        frame.own.update(id(b) for b in (*block.alloc_buffers, *matched))
        with self.defining(buffers=block.alloc_buffers):
            for m in block.match_buffers:
                self.visit(m.source)
            with self.defining(layout_vars, matched):
                self.visit(block.init)
                self.visit(block.body)


__all__ = ["VerifyError", "verify"]
