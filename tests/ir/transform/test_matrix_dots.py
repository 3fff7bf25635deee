"""Tiles of dot products in pairs of rows and of columns: the same sums, and which nests stay as they are."""
import numpy as np
import pytest

from ingot.ir import tir
from ingot.ir.arith import Analyzer
from ingot.ir.expr import Call, Ramp, Var, const, substitute
from ingot.ir.node import collect
from ingot.ir.tir.hints import PAIRS
from ingot.ir.tir.intrinsics import VECTOR_INTRINSICS
from ingot.ir.tir.stmt import BufferLoad, BufferStore, For, seq
from ingot.ir.transform.matrix_dots import matrix_dots

DOT = "dot_u8s8"


def tile(rows, words, vectors=3, by_word=True, again=False, pairs=False):
    """A tile of sums in a loop over terms. by_word: whether a vector has the words of a row, or a word of four rows;
    pairs: whether the words of columns lie in pairs."""
    x, w = tir.decl_buffer((1 << 12,), "uint8", "x"), tir.decl_buffer((1 << 12,), "int32", "w")
    sums = tir.decl_buffer((64,), "int32x4", "sums", "local")
    t, k, r, v = (Var(name, "int32") for name in "tkrv")
    if by_word:
        at, lane = r * 64 + t * 16, k
    else:
        start = r // 4 * 4
        at, lane = t * 256 + k * 128 + start * 4, r % 4
    vector = Call("int32x4", "tir.load_bytes", (BufferLoad(x, (at,)),))
    place = (r * vectors + v,)
    first = t * 200 + k // 2 * 80 + v * 8 + k % 2 if pairs else t * 200 + k * 40 + v * 4
    columns = BufferLoad(w, (Ramp(first, const(1 + pairs), 4),))
    dot = Call("int32x4", f"tir.{DOT}_lane", (vector, lane, columns, BufferLoad(sums, place)))
    store = body = BufferStore(sums, dot, place)
    for var, extent in ((v, vectors), (r, rows), (k, words)):
        body = For(var, const(0), const(extent), "unrolled", body)
    if again:
        body = seq(body, BufferStore(sums, BufferLoad(sums, (const(1),)), (const(0),)))
    loop = For(t, const(0), const(2), "serial", body, annotations={PAIRS: 1})
    func = tir.prim_func([x, w, sums], loop)
    return func.replace(body=func.root.body)


def evaluated(func, seed=0):
    """The sums of a tile that are 0 before, statement by statement."""
    rng, memory = np.random.default_rng(seed), {}
    for buffer in func.buffers:
        shape = (64, 4) if buffer.name == "sums" else (1 << 12,)
        high = 1 if buffer.name == "sums" else 256 if buffer.name == "x" else 1 << 31
        memory[buffer.name] = rng.integers(0, high, shape).astype(np.uint8 if buffer.name == "x" else np.int32)

    def number(e, env):
        return Analyzer().simplify(substitute(e, env)).value

    def value(e, env):
        if isinstance(e, BufferLoad):
            store = memory[e.buffer.name]
            index = e.indices[0]
            if isinstance(index, Ramp):
                first = number(index.base, env)
                return store[first:first + 4 * number(index.stride, env):number(index.stride, env)]
            return store[number(index, env)].copy()
        name = e.op.removeprefix("tir.")
        if name == "load_bytes":
            first = number(e.args[0].indices[0], env)
            return memory["x"][first:first + 16].view(np.int32)
        args = [value(a, env) if a.dtype.lanes > 1 else number(a, env) for a in e.args]
        return VECTOR_INTRINSICS[name].numpy(*args)

    def run(stmt, env):
        if isinstance(stmt, For):
            for n in range(number(stmt.extent, env)):
                run(stmt.body, {**env, stmt.loop_var: const(n)})
        elif isinstance(stmt, tir.SeqStmt):
            for s in stmt.seq:
                run(s, env)
        elif isinstance(stmt, BufferStore):
            memory.setdefault(stmt.buffer.name, np.zeros((1, 4), np.int32))[number(stmt.indices[0], env)] = value(
                stmt.value, env)
        else:
            run(stmt.body, env)  # a declaration
    run(func.body, {})
    return memory["sums"]


@pytest.mark.parametrize("by_word, rows, words", [(True, 8, 4), (True, 2, 2), (True, 5, 4), (True, 3, 2), (False, 8, 2),
                                                  (False, 4, 2)])
def test_the_same_sums(by_word, rows, words):
    func = tile(rows, words, by_word=by_word)
    made = matrix_dots(func, dots=(DOT,))
    used = [c.op for c in collect(made.body, Call)]
    assert "tir.matrix_dot_u8s8" in used and ("tir.dot_u8s8_lane" in used) == (rows % 2 == 1)
    assert not any(PAIRS in x.annotations for x in collect(made.body, For))
    expected = evaluated(func)
    assert len(np.unique(expected)) > 4 * rows
    np.testing.assert_array_equal(evaluated(made), expected)


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_words_in_pairs_are_loaded_as_they_lie(rows):
    """Neither zipped, nor loaded apart."""
    func = tile(rows, 4, pairs=True)
    made = matrix_dots(func, dots=(DOT,))
    used = {c.op for c in collect(made.body, Call)}
    assert ("tir.unzip_words" in used) == (rows % 2 == 1) and "tir.zip_words" not in used
    assert all(isinstance(x.stride, int) or x.stride.value == 1 for x in collect(made.body, Ramp))
    np.testing.assert_array_equal(evaluated(made), evaluated(func))


@pytest.mark.parametrize("func, dots", [
    (tile(8, 4), ()), (tile(8, 4), ("dot_s8s8",)), (tile(1, 4), (DOT,)), (tile(8, 3), (DOT,)),
    (tile(8, 4, again=True), (DOT,)), (tile(7, 2, by_word=False), (DOT,))],
    ids=["no instruction", "another product", "one row", "three words", "other stores", "a point without another"])
def test_what_stays(func, dots):
    made = matrix_dots(func, dots=dots)
    assert not any("matrix" in c.op for c in collect(made.body, Call))
    assert not any(PAIRS in x.annotations for x in collect(made.body, For))
