"""VectorizeLoop: a vectorized loop becomes vector expressions (Ramp, Broadcast), or stays a loop where it cannot."""
from __future__ import annotations

from dataclasses import dataclass

from ..arith import Analyzer
from ..dtype import DataType
from ..expr import (Add, Broadcast, Call, Cast, CompareExpr, Div, FloatImm, IntImm, Max, Min, Mul, Ramp, Range, Select,
                    Sub, Var, const, free_vars, is_const_int, operation_of, substitute)
from ..node import Mutator, structural_equal
from ..target import VECTOR_LANES
from ..tir.halves import HALF, LANES, computed_in_halves
from ..tir.hints import FULL_LANES, REDUCE_LANES, SCALAR, TRANSPOSE
from ..tir.intrin import greater, vector_intrinsic
from ..tir.intrinsics import LOOKUPS, NARROW, NEAREST_HALVES, SCALAR_INTRINSICS, VECTOR_CALLS, VECTOR_CALLS_OF_INTEGERS
from ..tir.lookups import is_lookup
from ..tir.stmt import BufferLoad, BufferStore, For, SeqStmt, seq
from .lane_indexed_fma import is_conditional
from .walk import with_value, without
from .workspace import STACK_BYTES

WORDS_OF = {"tir.word": ("int8", "uint8"), "tir.pair": ("int16",)}  # what makes words: of numbers of these dtypes
MOST_UNROLLED = 8  # vectors of one loop
_ARITHMETIC = {"float32": (Add, Sub, Mul, Div, Min, Max), "int32": (Add, Sub, Mul, Min, Max)}  # of vectors
# What joins two numbers -> (what joins vectors, and the lanes of one).
_REDUCTIONS = {Add: (Add, "reduce_add"), Min: (Min, "reduce_min"), Max: (Max, "reduce_max"),
               "tir.greater": (greater, "reduce_greater")}


@dataclass(frozen=True)
class _Forms:
    """The vectors that a function may have: {dtype: its operators}, and how many lanes."""

    arithmetic: dict
    lanes: tuple


_FLOATS = _Forms(_ARITHMETIC, VECTOR_LANES)
_HALVES = _Forms({**_ARITHMETIC, str(HALF): _ARITHMETIC["float32"]}, (LANES,))


def forms_of(func):
    """The vectors that a function may have."""
    return _HALVES if computed_in_halves(func) else _FLOATS


class NotVectorizable(Exception):
    """Carries the reason why a loop stays scalar."""


def vectorize_loop(func, enable_vectorize=True):
    """Requires flat buffers. Ensures vectors and no vectorized loops: loops of float32 and int32, and of narrower
    integers and halves in memory, whose accesses are contiguous, strided or invariant become vectors of 4, 8 or 16
    lanes, those of float16 where a function is computed in it of 8, in a loop where it takes several; what is left of a
    loop that is no multiple of these is a part of a vector, where all accesses are contiguous or invariant. Other loops
    become serial, annotated "simd" with the reason, as all do unless enable_vectorize. Loops with annotation
    REDUCE_LANES become one reduction of a vector where they can.
    """
    return func.replace(body=_VectorizeLoops(enable_vectorize, forms_of(func)).visit(func.body))


class _VectorizeLoops(Mutator):
    def __init__(self, enabled, forms):
        self.analyzer, self.enabled, self.square, self.forms = Analyzer(), enabled, None, forms

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        if loop.kind != "vectorized":
            reduced = None
            if REDUCE_LANES in loop.annotations and self.enabled:
                reduced = _reduced(loop, self.analyzer, self.forms)
            if reduced is not None:
                return reduced
            outside = self.square
            self.square = loop if TRANSPOSE in loop.annotations and not is_conditional(loop.body) else None
            loop = without(loop, REDUCE_LANES, FULL_LANES).replace(body=self.visit(loop.body))
            self.square = outside
            return loop
        try:
            if not self.enabled:
                raise NotVectorizable("vectorization is off")
            return _vectorize(loop, self.analyzer, self.forms, self.square)
        except NotVectorizable as reason:
            if is_const_int(loop.extent, 1):
                return with_value(loop.body, loop.loop_var, loop.min)
            loop = without(loop, FULL_LANES)
            return loop.replace(kind="serial", body=self.visit(loop.body),
                                annotations={**loop.annotations, SCALAR: str(reason)})

    def visit_BufferStore(self, store):
        return store


def _vectorize(loop, analyzer, forms, square=None):
    """square: the loop right around that with it reads squares, which RegisterTranspose turns, also parts of them."""
    if not isinstance(loop.extent, IntImm):
        raise NotVectorizable(f"extent {loop.extent} is not known")
    lanes, extent = _lanes(loop, forms), loop.extent.value
    if extent > lanes:
        return _several(loop, lanes, analyzer, forms)
    widen = _Widen(loop.loop_var, loop.min, lanes, analyzer, forms, loop.extent if extent < lanes else None, square)
    stmts = loop.body.seq if isinstance(loop.body, SeqStmt) else (loop.body,)
    return seq(*map(widen.store, stmts))


def _lanes(loop, forms):
    """The widest vectors that the loop is a multiple of, or those that it was a multiple of before it was shortened,
    or else the narrowest that hold it; the widest of all when it is long."""
    extent = loop.extent.value
    if FULL_LANES in loop.annotations:
        extent = loop.annotations[FULL_LANES]
    whole = (n for n in reversed(forms.lanes) if extent % n == 0)
    return next(whole, None) or next((n for n in forms.lanes if extent < n), forms.lanes[-1])


def _several(loop, lanes, analyzer, forms):
    """A loop over the vectors of a long vectorized loop, unrolled when short, and what is left after them."""
    var, (turns, rest) = loop.loop_var, divmod(loop.extent.value, lanes)
    outer, inner = (Var(var.name + suffix, var.dtype) for suffix in ("_0", "_1"))
    analyzer.bind(outer, Range.from_min_extent(0, turns))

    def vectors(start, extent):
        annotations = {FULL_LANES: lanes}
        body = substitute(loop.body, {var: loop.min + start + inner})
        return _vectorize(For(inner, const(0, var.dtype), const(extent, var.dtype), "vectorized", body, None,
                              annotations), analyzer, forms)

    kind = "unrolled" if turns <= MOST_UNROLLED else "serial"
    main = For(outer, const(0, var.dtype), const(turns, var.dtype), kind, vectors(outer * lanes, lanes), None,
               without(loop, FULL_LANES).annotations)
    return seq(main, vectors(const(turns * lanes, var.dtype), rest)) if rest else main


def _reduced(loop, analyzer, forms):
    """for l in lanes: x = x + v[l]  ->  x = x + reduce_add(v), or None where the loop is not like that. Several vectors
    are added up first, in pairs."""
    store, lanes = loop.body, _lanes(loop, forms) if isinstance(loop.extent, IntImm) else 0
    if not lanes or not isinstance(store, BufferStore):
        return None
    kind, operands = operation_of(store.value)
    if kind not in _REDUCTIONS or loop.extent.value % lanes:
        return None
    own, term = operands
    combine, of_lanes = _REDUCTIONS[kind]
    if not (isinstance(own, BufferLoad) and structural_equal(own, BufferLoad(store.buffer, store.indices))):
        return None
    parts = []
    for start in range(0, loop.extent.value, lanes):
        widen = _Widen(loop.loop_var, loop.min + start, lanes, analyzer, forms)
        try:
            parts.append(widen.value(term))
        except NotVectorizable:
            return None
    if widen.varies(store.indices[0]) or parts[0].dtype.lanes == 1:
        return None
    while len(parts) > 1:
        parts = [combine(*parts[n:n + 2]) if n + 1 < len(parts) else parts[n] for n in range(0, len(parts), 2)]
    return store.replace(value=combine(own, vector_intrinsic(of_lanes, parts[0])))


class _Widen:
    """Rewrites scalar expressions of one loop variable into vectors of `lanes`, of which only the first `count` are in
    memory (None: all)."""

    def __init__(self, var, start, lanes, analyzer, forms, count=None, square=None):
        self.arithmetic = forms.arithmetic
        self.var, self.start, self.lanes, self.analyzer, self.count = var, start, lanes, analyzer, count
        self.square = square if square is not None and is_const_int(square.extent, lanes) else None
        # a neighbour of var that stays in range, to measure strides with
        self.before = Var(var.name, var.dtype)
        analyzer.bind(self.before, Range(start, IntImm(var.dtype, lanes - 1)), allow_override=True)

    def store(self, stmt):
        if not isinstance(stmt, BufferStore):
            raise NotVectorizable(f"the body holds a {type(stmt).__name__}")
        dtype, value = stmt.buffer.dtype, stmt.value
        if dtype in NEAREST_HALVES and isinstance(value, Cast) and value.value.dtype == "float32":
            value = value.value
        elif dtype not in self.arithmetic:
            made = is_lookup(value) or isinstance(value, Cast) and value.value.dtype in self.arithmetic
            if dtype not in NARROW or not made:
                raise NotVectorizable(f"{dtype} has no vector type yet")
            value = value.value if isinstance(value, Cast) and value.value.dtype == "int32" else Cast(
                DataType("int32"), value if is_lookup(value) else value.value)
        index = self.index(stmt.indices[0])
        if not isinstance(index, Ramp):
            raise NotVectorizable(f"every iteration writes the same element of {stmt.buffer.name}")
        value = self.vector(self.value(value))
        value = value if dtype in self.arithmetic else Cast(dtype.with_lanes(self.lanes), value)
        return BufferStore(stmt.buffer, value, (index,))

    def vector(self, e):
        return e if e.dtype.lanes > 1 else Broadcast(e, self.lanes)

    def varies(self, e):
        return any(v is self.var for v in free_vars(e))

    def index(self, e, read=False):
        """A scalar index when it does not vary, else a Ramp. Of a part of a vector in a square, lanes that are read may
        lie apart."""
        if not self.varies(e):
            return e
        here, after = (substitute(e, {self.var: at}) for at in (self.before, self.before + 1))
        stride = self.analyzer.simplify(after - here)
        if any(v is self.before for v in free_vars(stride)):
            raise NotVectorizable(f"index {e} is not linear in {self.var.name}")
        base = self.analyzer.simplify(substitute(e, {self.var: self.start}))
        if is_const_int(stride, 0):
            return base
        if self.count is not None and not is_const_int(stride, 1) and not (read and self.in_square(base)):
            raise NotVectorizable(f"{self.count} of {self.lanes} lanes are not contiguous")
        return Ramp(base, stride, self.lanes, self.count)

    def in_square(self, base):
        return self.square is not None and self.analyzer.step(base, self.square.loop_var) == 1

    def value(self, e):
        """`e` as a vector where it varies, else as the scalar it is."""
        if isinstance(e, (FloatImm, IntImm)):
            return e
        if isinstance(e, BufferLoad) and (e.buffer.dtype == "float32" or e.buffer.dtype in self.arithmetic
                                          and self.varies(e)):
            return e.replace(indices=(self.index(e.indices[0], read=True),))
        if not self.varies(e):
            return e
        if e.dtype not in self.arithmetic:
            raise NotVectorizable(f"{e.dtype} values that vary have no vector type yet")
        if isinstance(e, Cast):
            return self.converted(e)
        if isinstance(e, Call) and e.op in WORDS_OF:
            return self.words(e)
        if isinstance(e, self.arithmetic[str(e.dtype)]):
            return type(e)(*self.same_lanes(self.value(e.a), self.value(e.b)))
        if isinstance(e, Select) or isinstance(e, Call) and e.op == "tir.if_then_else":
            return self.choice(e)
        if isinstance(e, Call) and e.op.removeprefix("tir.") in (
                VECTOR_CALLS_OF_INTEGERS if e.dtype.is_int else VECTOR_CALLS):
            count = len(e.args) - SCALAR_INTRINSICS[e.op.removeprefix("tir.")].integers
            args, integers = self.same_lanes(*map(self.value, e.args[:count])), e.args[count:]
            if not any(map(self.varies, integers)):
                return Call(e.dtype.with_lanes(args[0].dtype.lanes), e.op, (*args, *integers))
        what = e.op if isinstance(e, Call) else type(e).__name__
        raise NotVectorizable(f"{what} has no vector form")

    def converted(self, e):
        """A conversion of what varies: of a vector, or of narrower integers, in memory or made in between."""
        dtype, x = e.dtype.with_lanes(self.lanes), e.value
        if x.dtype == e.dtype:
            return self.value(x)
        if x.dtype in _ARITHMETIC and e.dtype in _ARITHMETIC:
            return Cast(dtype, self.value(x))
        if x.dtype in NARROW and isinstance(x, Cast):
            whole = self.vector(self.converted(x.replace(dtype=DataType("int32"))))
            low = vector_intrinsic(NARROW[str(x.dtype)], whole)
            return low if e.dtype == "int32" else Cast(dtype, low)
        if is_lookup(x):
            index, = x.indices
            found = Call(DataType("int32").with_lanes(self.lanes), f"tir.{LOOKUPS[str(x.dtype)]}", (
                x.replace(indices=(const(0, index.dtype),)), self.vector(self.value(index))))
            return found if e.dtype == "int32" else Cast(dtype, found)
        if x.dtype in NARROW and isinstance(x, BufferLoad):
            return Cast(dtype, x.replace(indices=(self.index(x.indices[0]),)))
        if x.dtype in NEAREST_HALVES and e.dtype == "float32":
            if isinstance(x, BufferLoad):
                return Cast(dtype, x.replace(indices=(self.index(x.indices[0]),)))
            if isinstance(x, Cast) and x.value.dtype == "float32":
                return vector_intrinsic(NEAREST_HALVES[str(x.dtype)], self.vector(self.value(x.value)))
        raise NotVectorizable(f"{x.dtype} values that vary have no vector type yet")

    def words(self, e):
        """A word of each lane, of numbers of which as many as there are lanes follow one another, and one another's."""
        first, *_ = loads = [
            x.replace(indices=(self.index(x.indices[0]),)) for x in e.args
            if isinstance(x, BufferLoad) and x.buffer is e.args[0].buffer and x.dtype in WORDS_OF[e.op]]
        apart = [self.analyzer.simplify(x.indices[0].base - first.indices[0].base) for x in loads
                 if isinstance(x.indices[0], Ramp) and is_const_int(x.indices[0].stride, 1) and self.count is None]
        if len(apart) < len(e.args) or not all(is_const_int(d, n * self.lanes) for n, d in enumerate(apart)):
            raise NotVectorizable("words of numbers that do not follow one another have no vector form")
        return Call(e.dtype.with_lanes(self.lanes), e.op, tuple(loads))

    def same_lanes(self, *values):
        wide = any(v.dtype.lanes > 1 for v in values)
        return tuple(map(self.vector, values)) if wide else values

    def choice(self, e):
        """One scalar condition for all lanes keeps the node's kind; a comparison lane by lane becomes a Select."""
        condition, yes, no = (e.condition, e.true_value, e.false_value) if isinstance(e, Select) else e.args
        if not self.varies(condition):
            yes, no = self.same_lanes(self.value(yes), self.value(no))
            return Call(yes.dtype, "tir.if_then_else", (condition, yes, no))
        if not (isinstance(e, Select) and isinstance(condition, CompareExpr) and hasattr(condition, "b")
                and condition.a.dtype in self.arithmetic and condition.a.dtype.is_float):
            raise NotVectorizable(f"the condition {condition} has no vector form")
        if yes.dtype != condition.a.dtype:
            raise NotVectorizable(f"a choice of {yes.dtype} lane by lane has no vector form")
        a, b, yes, no = (self.vector(self.value(x)) for x in (condition.a, condition.b, yes, no))
        return Select(type(condition)(a, b), yes, no)


# ---------------------------------------------------------------- vector types

def rewrite_vector_types(func):
    """VectorTypeRewrite: a local buffer that is only ever accessed by aligned vectors becomes a buffer of vectors, so
    that the C compiler keeps it in registers. Requires vectors. Ensures such buffers have a vector dtype, but those
    that are too large for the stack.
    """
    scan = _ScanVectorAccess(forms_of(func))
    scan.visit(func.body)
    lanes = {k: v for k, v in scan.lanes.items() if v > 1}
    return func.replace(body=_UseVectorTypes(lanes, scan).visit(func.body)) if lanes else func


class _ScanVectorAccess(Mutator):
    def __init__(self, forms):
        self.lanes, self.analyzer, self.arithmetic = {}, Analyzer(), forms.arithmetic
        self.read = {}  # id(buffer) -> how many lanes of a vector each load of it takes, None: all

    def visit_For(self, loop):
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        return self.generic_visit(loop)

    def visit_DeclBuffer(self, decl):
        size = decl.buffer.shape[0]
        if decl.buffer.scope == "local" and isinstance(size, IntImm) and decl.buffer.dtype in self.arithmetic and \
                size.value * decl.buffer.dtype.bytes <= STACK_BYTES:
            self.lanes.setdefault(id(decl.buffer), 0)  # 0: not accessed yet
        return self.generic_visit(decl)

    def _access(self, node):
        self.generic_visit(node)
        known = self.lanes.get(id(node.buffer))
        if known is not None:
            wanted = self._whole_vectors(node.indices[0], node.buffer.shape[0])
            self.lanes[id(node.buffer)] = wanted if known in (0, wanted) else 1
            if wanted > 1 and isinstance(node, BufferLoad):
                self.read.setdefault(id(node.buffer), []).append(node.indices[0].count)
        return node

    visit_BufferLoad = visit_BufferStore = _access

    def _whole_vectors(self, index, extent):
        """The lanes of an access by aligned vectors into a buffer made of such vectors, of which the last may be there
        in part; 1 for any other."""
        if not (isinstance(index, Ramp) and is_const_int(index.stride, 1) and isinstance(extent, IntImm)):
            return 1
        aligned = self.analyzer.modular_set(index.base)
        whole = (n % index.lanes == 0 for n in (aligned.coeff, aligned.base))
        return index.lanes if all(whole) else 1


class _UseVectorTypes(Mutator):
    def __init__(self, lanes, scan):
        self.lanes, self.read, self.analyzer, self.new = lanes, scan.read, scan.analyzer, {}

    def visit_DeclBuffer(self, decl):
        lanes, old = self.lanes.get(id(decl.buffer)), decl.buffer
        if lanes is None:
            return decl.replace(body=self.visit(decl.body))
        extent = IntImm(old.shape[0].dtype, -(-old.shape[0].value // lanes))
        self.new[id(old)] = old.replace(shape=(extent,), dtype=old.dtype.with_lanes(lanes))
        return decl.replace(buffer=self.new[id(old)], body=self.visit(decl.body))

    def _access(self, node):
        node = self.generic_visit(node)
        new = self.new.get(id(node.buffer))
        if new is None:
            return node
        base, count = node.indices[0].base, node.indices[0].count
        index = self.analyzer.simplify(base // IntImm(base.dtype, node.indices[0].lanes))
        if isinstance(node, BufferStore) and self._is_read_beyond(node.buffer, count):
            value = vector_intrinsic("first_n", node.value, BufferLoad(new, (index,)), count)
            return BufferStore(new, value, (index,))
        return node.replace(buffer=new, indices=(index,))

    visit_BufferLoad = visit_BufferStore = _access

    def _is_read_beyond(self, buffer, count):
        """Whether a store of so many lanes leaves some as they were that something reads."""
        return count is not None and not all(
            n is not None and (structural_equal(n, count) or isinstance(count - n, IntImm) and (count - n).value >= 0)
            for n in self.read.get(id(buffer), ()))
