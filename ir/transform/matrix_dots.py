"""MatrixDots: tiles of dot products of words, two rows by two columns of two words at a time (Arm's SMMLA, of bytes,
and BFMMLA, of bfloat16)."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import Call, Div, FloorMod, IntImm, Ramp, Var, const, free_vars, is_const_int, substitute
from ..node import collect
from ..tir.buffer import decl_buffer
from ..tir.hints import PAIRS
from ..tir.intrin import vector_intrinsic
from ..tir.intrinsics import WORD_DOTS
from ..tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, seq
from .walk import StmtMutator, rewrite_annotated

_MATRICES = {f"tir.{name}_lane": name.replace("dot", "matrix_dot") for name in WORD_DOTS}


def matrix_dots(func, dots=()):
    """Requires flat buffers, vectors and tir.fma, of which LaneIndexedDot makes products by lane. Ensures no annotation
    pragma_pairs: in a loop with it, over the terms of a tile of sums that are 0 before,

        for k in unroll(4): for r in unroll(8): for v in unroll(3): c[r, v] = dot_lane(x[r], k, w[k, v], c[r, v])
    becomes, where `dots` has a product of matrices,
        for k in unroll(2): for r in unroll(4): for v in unroll(3):
            rows = pairs(x[2 r], x[2 r + 1], k)
            c[2 r, v] = matrix_dot(rows, words(w[2 k, v], w[2 k + 1, v], 0), c[2 r, v])
            c[2 r + 1, v] = matrix_dot(rows, words(w[2 k, v], w[2 k + 1, v], 1), c[2 r + 1, v])
    with c[2 r, v], c[2 r + 1, v] = pairs(c[2 r, v], c[2 r + 1, v], 0), pairs(c[2 r, v], c[2 r + 1, v], 1) after it

    as sums of two rows by the first two and the last two columns of a vector are a vector each meanwhile. A last row
    without another stays as it is. Where the words of a column lie in pairs, words(...) is a load, and what stays takes
    every other word of two loads.
    """
    wanted = {f"tir.{name}_lane" for name in dots}
    body = rewrite_annotated(func.body, PAIRS, lambda loop, _: _in_pairs(loop, wanted))
    return func.replace(body=_Unzip(wanted).visit(body) if wanted else body)


class _Unzip(StmtMutator):
    """Rewrites products of words that lie in pairs: loads what lies in a row, for the words that are loaded apart."""

    def __init__(self, wanted):
        self.wanted = wanted

    def visit_BufferStore(self, store):
        if isinstance(store.value, Call) and store.value.op in self.wanted and _apart(store.value.args[2]):
            vector, lane, columns, total = store.value.args
            which = Analyzer().simplify(FloorMod(columns.indices[-1].base, const(2, lane.dtype)))
            loads = [_halves(columns, which, n) for n in (0, 1)]
            own = vector_intrinsic("unzip_words", *loads, which)
            return store.replace(value=store.value.replace(args=(vector, lane, own, total)))
        return store


def _apart(columns):
    """Whether a vector is of every other word."""
    return isinstance(columns, BufferLoad) and isinstance(columns.indices[-1], Ramp) and is_const_int(
        columns.indices[-1].stride, 2)


def _halves(columns, which, n):
    """The first or second vector of the pairs of which `columns` loads the words `which`, 0 or 1."""
    ramp = columns.indices[-1]
    base = Analyzer().simplify(ramp.base - which + const(n * ramp.lanes, ramp.base.dtype))
    return columns.replace(indices=(*columns.indices[:-1], ramp.replace(base=base, stride=const(1, ramp.stride.dtype))))


def _in_pairs(loop, wanted):
    """The loop in pairs, and what puts the sums in order; the loop as it is where it is none of such products."""
    tiles = _Tiles(wanted)
    paired = tiles.visit(loop)
    if len(tiles.ordered) != 1:
        return loop
    (buffer, ordered), = tiles.ordered
    alone = sum(store.buffer is buffer for store in collect(loop, BufferStore)) == 1
    return seq(paired, ordered) if alone else loop


class _Tiles(StmtMutator):
    """Rewrites nests of unrolled loops around such a product; ordered: [(sums, what puts them in order)]."""

    def __init__(self, wanted):
        self.wanted, self.ordered = wanted, []

    def visit_For(self, loop):
        chain = [loop]
        while isinstance(chain[-1].body, For):
            chain.append(chain[-1].body)
        made = self._pairs(chain, chain[-1].body) if all(map(_is_unrolled, chain)) else None
        return super().visit_For(loop) if made is None else made

    def _pairs(self, chain, store):
        """The nest in pairs of rows and of words; None for another one."""
        if not (isinstance(store, BufferStore) and isinstance(store.value, Call) and store.value.op in self.wanted):
            return None
        vector, lane, *_ = store.value.args
        own = [x for x in chain if _uses(store.indices, x)]
        words = [x for x in chain if x not in own and x.extent.value % 2 == 0]
        rows = [x for x in own if _uses((vector, lane), x) and x.extent.value > 1]
        if len(words) != 1 or len(rows) != 1 or len(own) + 1 != len(chain):
            return None
        (word,), (row,) = words, rows
        by_word, odd = _uses((lane,), word), row.extent.value % 2
        if by_word and (_uses((lane,), row) or _uses((vector,), word)) or not by_word and odd:
            return None
        halves = {id(x): x.extent.value // 2 for x in (word, row)}
        nest = _nest(chain, halves, _pairs(store, word, row, by_word))
        if odd:
            last = substitute(store, {row.loop_var: const(row.extent.value - 1, row.loop_var.dtype)})
            nest = seq(nest, _fresh([x for x in chain if x is not row], last))
        self.ordered.append((store.buffer, _nest(own, halves, _ordered(store, row))))
        return nest


def _is_unrolled(loop):
    return loop.kind == "unrolled" and isinstance(loop.extent, IntImm) and is_const_int(loop.min, 0)


def _uses(exprs, loop):
    return any(v is loop.loop_var for e in exprs for v in free_vars(e))


def _at(e, loop, offset):
    """e where the loop over pairs is at the first or second of one."""
    var = loop.loop_var
    return substitute(e, {var: var * const(2, var.dtype) + const(offset, var.dtype)})


def _pairs(store, word, row, by_word):
    """The statements for a pair of rows and a pair of words."""
    vector, lane, columns, _ = store.value.args
    if by_word:  # a vector has the words of a row
        first, second = (_at(_at(vector, word, 0), row, n) for n in (0, 1))
        rows = vector_intrinsic("zip_pairs", first, second, Div(_at(_at(lane, word, 0), row, 0), const(2, lane.dtype)))
    else:  # a vector has the same word of several rows
        first, second = (_at(_at(vector, word, n), row, 0) for n in (0, 1))
        rows = vector_intrinsic("zip_words", first, second, Div(_at(lane, row, 0), const(2, lane.dtype)))
    pair, zero = [_at(columns, word, n) for n in (0, 1)], const(0, lane.dtype)
    made = []
    for n in (0, 1):
        index = tuple(_at(i, row, n) for i in store.indices)
        own = _halves(pair[0], zero, n) if _apart(columns) else vector_intrinsic("zip_words", *pair, const(n))
        value = Call(store.value.dtype, f"tir.{_MATRICES[store.value.op]}", (
            rows, own, BufferLoad(store.buffer, index)))
        made.append(BufferStore(store.buffer, value, index))
    return seq(*made)


def _ordered(store, row):
    """The statement that makes of the sums of a pair of rows one row's, and the other's."""
    places = [tuple(_at(i, row, n) for i in store.indices) for n in (0, 1)]
    sums = [BufferLoad(store.buffer, index) for index in places]
    first = decl_buffer((const(1),), store.value.dtype, f"{store.buffer.name}_first", "local")
    zero = (const(0),)
    return DeclBuffer(first, seq(
        BufferStore(first, vector_intrinsic("zip_pairs", *sums, const(0)), zero),
        BufferStore(store.buffer, vector_intrinsic("zip_pairs", *sums, const(1)), places[1]),
        BufferStore(store.buffer, BufferLoad(first, zero), places[0])))


def _nest(loops, extents, body):
    """Loops with other extents around a statement; with variables of their own."""
    return _fresh([x.replace(extent=const(extents.get(id(x), x.extent.value), x.extent.dtype)) for x in loops], body)


def _fresh(loops, body):
    new = {x.loop_var: Var(x.loop_var.name, x.loop_var.dtype) for x in loops}
    body = substitute(body, new)
    for x in reversed(loops):
        body = For(new[x.loop_var], x.min, x.extent, x.kind, body)
    return body


__all__ = ["matrix_dots"]
