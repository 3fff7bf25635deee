"""TensorIR statements and the expressions that read buffers. Fields and meanings are TVM's."""
from __future__ import annotations

from dataclasses import InitVar

from ..expr import Call, IntImm, PrimExpr, Range, Var, as_expr, cast, const
from ..node import Node, node, node_field
from ..upper import provides, upper
from .buffer import Buffer, masked
from .constants import TVM_FIELDS, ConstantArray
from .hints import check_hints


class Stmt(Node):
    """Base of statements."""

    __slots__ = ()
    _is_statement = True

    def __str__(self):
        return upper("script")(self)


def _tuple_of_indices(access):
    """Indices that are a list, which may hold numbers, become a tuple of expressions; what a builder has for a buffer
    is that buffer."""
    if not isinstance(access.buffer, Buffer) and hasattr(access.buffer, "asobject"):
        object.__setattr__(access, "buffer", access.buffer.asobject())
    if type(access.indices) is not tuple:
        object.__setattr__(access, "indices", tuple(map(as_expr, access.indices)))


def _number(statement, field, dtype=None):
    """A number in a field becomes an expression."""
    value = getattr(statement, field)
    if isinstance(value, (int, float)):
        object.__setattr__(statement, field, const(value, dtype))


def _plain_booleans(statement):
    """T.bool(True) among annotations is True."""
    found = statement.annotations
    if any(type(v) is IntImm and v.dtype.is_bool for v in found.values()):
        plain = {k: bool(v.value) if type(v) is IntImm and v.dtype.is_bool else v for k, v in found.items()}
        object.__setattr__(statement, "annotations", plain)


@provides("BufferLoad")
@node
class BufferLoad(PrimExpr):
    """buffer[indices]; a Ramp as last index loads a vector.

    predicate: the T.get_active_lane_mask of the lanes that are loaded, the others are 0; the Ramp counts them.
    TypeError for a mask of another number of lanes, or of what is no bool."""

    buffer: Buffer
    indices: tuple
    predicate: InitVar = None

    def __post_init__(self, predicate):
        _tuple_of_indices(self)
        if predicate is not None:
            object.__setattr__(self, "indices", masked(self.indices, predicate, self.dtype, "load"))

    @property
    def dtype(self):
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        if lanes == 1 or self.buffer.dtype.lanes == 1:
            return self.buffer.dtype if lanes == 1 else self.buffer.dtype.with_lanes(lanes)
        return self.buffer.dtype.with_lanes(self.buffer.dtype.lanes * lanes)


@provides("BufferRegion")
@node
class BufferRegion(Node):
    """A box of a buffer: one Range per dimension."""

    buffer: Buffer
    region: tuple
    _holds_statements = False


@node
class MatchBufferRegion(Node):
    """A buffer that stands for a region of another within a block."""

    buffer: Buffer = node_field(define=True)
    source: BufferRegion = None


@provides("BufferStore")
@node
class BufferStore(Stmt):
    """buffer[indices] = value; a Ramp as last index stores a vector. predicate: as that of BufferLoad, of the lanes
    that are stored."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple
    predicate: InitVar = None

    def __post_init__(self, predicate):
        _tuple_of_indices(self)
        _number(self, "value", self.buffer.dtype)
        if predicate is not None:
            object.__setattr__(self, "indices", masked(self.indices, predicate, self.value.dtype, "store"))


class ForKind:
    """The kinds of loops, by TVM's names."""

    SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING = (
        "serial", "parallel", "vectorized", "unrolled", "thread_binding")


class ThreadTag(str):
    """The thread that a loop is bound to: its name, "threadIdx.x". It has what TVM's IterVar of the thread has."""

    thread_tag = property(str)
    iter_type = "thread"

    @staticmethod
    def of(name, loop):
        """The tag `name` of a loop."""
        tag = ThreadTag(name)
        tag.dom = Range(loop.min, loop.extent)
        tag.var = Var(name.rpartition(".")[2], loop.loop_var.dtype)
        return tag


@node
class For(Stmt):
    """for loop_var in [min, min + extent). kind: "serial", "parallel", "vectorized", "unrolled" or "thread_binding"."""

    loop_var: Var = node_field(define=True)
    min: PrimExpr = None
    extent: PrimExpr = None
    kind: str = "serial"
    body: Stmt = None
    thread_binding: str = None
    annotations: dict = node_field(default_factory=dict)

    def __post_init__(self):
        if type(self.min) is int or type(self.extent) is int:  # as a script gives them
            object.__setattr__(self, "min", cast(as_expr(self.min), self.loop_var.dtype))
            object.__setattr__(self, "extent", cast(as_expr(self.extent), self.loop_var.dtype))
        if self.annotations:
            _plain_booleans(self)
            check_hints(self.annotations)
        elif self.annotations is None:
            object.__setattr__(self, "annotations", {})
        if self.thread_binding is not None:
            name = getattr(self.thread_binding, "thread_tag", self.thread_binding)  # TVM's has an IterVar
            tag = ThreadTag.of(name, self) if isinstance(name, str) and isinstance(self.extent, PrimExpr) else name
            object.__setattr__(self, "thread_binding", tag)


@node
class While(Stmt):
    condition: PrimExpr
    body: Stmt


@node
class Block(Stmt):
    """A unit of computation over iteration variables, isolated by its signature `reads` and `writes`.

    init runs in the first iteration of the reduce variables. alloc_buffers live for one execution of the block.
    """

    iter_vars: tuple = node_field(define=True)
    reads: tuple = ()
    writes: tuple = ()
    name_hint: str = node_field(label=True, default="block")
    alloc_buffers: tuple = node_field(define=True, default=())
    match_buffers: tuple = ()
    annotations: dict = node_field(default_factory=dict)
    init: Stmt = None
    body: Stmt = None

    def __post_init__(self):
        for name in ("iter_vars", "reads", "writes", "alloc_buffers", "match_buffers"):
            if type(getattr(self, name)) is not tuple:  # as a script gives them
                object.__setattr__(self, name, tuple(getattr(self, name) or ()))
        if self.annotations:
            _plain_booleans(self)
            check_hints(self.annotations)
        elif self.annotations is None:
            object.__setattr__(self, "annotations", {})


@node
class BlockRealize(Stmt):
    """Runs `block` with its iteration variables bound to iter_values, where `predicate` holds."""

    iter_values: tuple
    predicate: PrimExpr
    block: Block

    def __post_init__(self):
        if type(self.iter_values) is not tuple or isinstance(self.predicate, bool):  # as a script gives them
            object.__setattr__(self, "iter_values", tuple(map(as_expr, self.iter_values)))
            object.__setattr__(self, "predicate", as_expr(self.predicate))


@node
class SeqStmt(Stmt):
    """Statements one after the other. Those of a SeqStmt among them stand in its place, as in a script."""

    seq: tuple

    def __post_init__(self):
        flat = tuple(self.seq)  # of any sequence, as a script gives it
        if any(isinstance(s, SeqStmt) for s in flat):
            flat = tuple(inner for s in flat for inner in (s.seq if isinstance(s, SeqStmt) else (s,)))
        if flat is not self.seq:
            object.__setattr__(self, "seq", flat)

    def __getitem__(self, position):
        return self.seq[position]

    def __len__(self):
        return len(self.seq)


@node
class IfThenElse(Stmt):
    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt = None


@node
class LetStmt(Stmt):
    """The value of a variable in body. Where the value is a ConstantArray, T.allocate_const: the variable points to its
    elements, and the fields that TVM gives an AllocateConst are there."""

    var: Var = node_field(define=True)
    value: PrimExpr = None
    body: Stmt = None

    def __post_init__(self):
        _number(self, "value", self.var.dtype)

    @property
    def constant(self):
        """The ConstantArray that the variable points to; None of any other let."""
        return self.value if type(self.value) is ConstantArray else None

    def __getattr__(self, name):
        if name in TVM_FIELDS and self.constant is not None:
            return TVM_FIELDS[name](self)
        raise AttributeError(f"a LetStmt has no attribute {name!r}")


def is_constant(stmt):
    """Whether a statement is a LetStmt over a ConstantArray."""
    return type(stmt) is LetStmt and type(stmt.value) is ConstantArray


class _OfConstant(type):
    def __instancecheck__(cls, stmt):
        return is_constant(stmt)


class AllocateConst(metaclass=_OfConstant):
    """AllocateConst(buffer_var, dtype, extents, data, body, annotations) is a LetStmt over a ConstantArray, and only
    such LetStmts are of this class. data: an array, or a number among the module's "constants". Raises ValueError for
    another number of elements than extents have."""

    _is_statement = True

    def __new__(cls, buffer_var, dtype, extents, data_or_idx, body, annotations=None, span=None):
        numbered = isinstance(data_or_idx, int) or getattr(data_or_idx, "dtype", None) == "int32" and isinstance(
            data_or_idx, PrimExpr)
        data, index = (None, int(data_or_idx)) if numbered else (data_or_idx, None)
        return LetStmt(buffer_var, ConstantArray.of(data, dtype, extents, annotations, index), body)


@node
class AssertStmt(Stmt):
    condition: PrimExpr
    message: PrimExpr
    body: Stmt


@node
class AttrStmt(Stmt):
    """Attaches `attr_key`: value about `target` (TVM's `node`) to body (pragmas, scopes)."""

    target: object
    attr_key: str
    value: PrimExpr
    body: Stmt

    def __post_init__(self):
        _number(self, "target")
        _number(self, "value")

    @property
    def node(self):
        return self.target


@node
class DeclBuffer(Stmt):
    """Allocates `buffer` for `body`: what T.decl_buffer without data means. Only lowered programs have it. It stands
    for TVM's Allocate, too: buffer_var, dtype and extents are the buffer's."""

    buffer: Buffer = node_field(define=True)
    body: Stmt = None

    @property
    def buffer_var(self):
        return self.buffer.data

    @property
    def dtype(self):
        return self.buffer.dtype

    @property
    def extents(self):
        return self.buffer.shape


@node
class Evaluate(Stmt):
    value: PrimExpr

    def __post_init__(self):
        _number(self, "value")


def seq(*stmts):
    """One statement of several: nested sequences flatten, None and no-ops drop."""
    flat = []
    for s in stmts:
        if s is None or (isinstance(s, Evaluate) and not isinstance(s.value, Call)):
            continue
        flat.extend(s.seq if isinstance(s, SeqStmt) else (s,))
    if not flat:
        return Evaluate(const(0))
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def for_(var, extent, body, kind="serial", minimum=0, annotations=None):
    """A For from 0 (or `minimum`) with immediates in the loop variable's dtype."""
    return For(var, as_expr(minimum, var.dtype), as_expr(extent, var.dtype), kind, body, None, annotations or {})


def statements(stmt):
    """The statements directly in one."""
    for name in ("block", "init", "body", "then_case", "else_case"):
        child = getattr(stmt, name, None)
        if child is not None:
            yield child
    yield from getattr(stmt, "seq", ())
