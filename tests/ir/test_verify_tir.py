"""The verifier: one broken function per rule, and what it says."""
import warnings

import pytest

from ingot.ir import te, tir
from ingot.ir.expr import Add, IterVar, Range, Var, const
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.script import script
from ingot.ir.script.functions import from_source
from ingot.ir.tir.signatures import SignatureWarning, complete_signatures
from ingot.ir.tir.verifier import VerifyError, verify


class Parts:
    """The pieces of B[vi] = A[vi] * 2 over 8 elements, to take apart."""

    def __init__(self):
        self.a, self.b, self.c = (tir.decl_buffer((8,), name=n) for n in "ABC")
        self.i, self.vi = Var("i"), Var("vi")
        self.dom = Range.from_min_extent(0, 8)
        self.store = tir.BufferStore(self.b, self.a[self.vi] * 2.0, (self.vi,))
        self.block = tir.Block((IterVar(self.dom, self.vi),), (self.at(self.a),), (self.at(self.b),), "B",
                               body=self.store)

    def at(self, buffer):
        return tir.BufferRegion(buffer, (Range.from_min_extent(self.vi, 1),))

    def realize(self, block=None, values=None, predicate=const(True)):
        return tir.BlockRealize((self.i,) if values is None else values, predicate, block or self.block)

    def func(self, body, params=None, **kwargs):
        return tir.prim_func(params or [self.a, self.b], body, **kwargs)

    def loop(self, body):
        return self.func(tir.for_(self.i, 8, body))

    def with_block(self, **changes):
        return self.loop(self.realize(self.block.replace(**changes)))


def test_well_formed_functions_pass():
    p = Parts()
    func = p.loop(p.realize())
    assert verify(func) is func
    n = Var("n", "int64")
    x, w = te.placeholder((n, 8), name="x"), te.placeholder((8, 4), name="w")
    k = te.reduce_axis((0, 8), "k")
    y = te.compute((n, 4), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="y")
    z = te.compute((n, 4), lambda i, j: tir.max(y[i, j], 0.0), name="z")
    verify(te.create_prim_func([x, w, z]))


def test_lowered_functions_pass():
    p = Parts()
    t, x = tir.decl_buffer((8,), name="t", scope="local"), Var("x")
    view = tir.decl_buffer((2, 4), name="view", data=p.b.data)
    body = tir.for_(p.i, 8, tir.LetStmt(x, p.i + 1, tir.DeclBuffer(t, tir.SeqStmt((
        tir.BufferStore(t, p.a[x], (const(0),)), tir.BufferStore(view, t[0], (x // 4, x % 4)),
        tir.Evaluate(tir.call_extern("int32", "f", t.data)))))))
    verify(p.func(body).replace(body=body))


def nested(reads, writes):
    """Block B inside an outer block with this signature (of buffers)."""
    p = Parts()
    outer = tir.Block((), tuple(tir.BufferRegion(getattr(p, n), (p.dom,)) for n in reads),
                      tuple(tir.BufferRegion(getattr(p, n), (p.dom,)) for n in writes), "outer",
                      body=tir.for_(p.i, 8, p.realize()))
    return p.func(tir.BlockRealize((), const(True), outer))


def test_nested_blocks_pass_when_the_outer_signature_covers_the_inner():
    verify(nested("a", "b"))


def twice(p, second):
    return p.func(tir.SeqStmt((tir.for_(p.i, 8, p.realize()), second)))


def unordered_let(p):
    x = Var("x")
    return p.func(tir.LetStmt(x, x + 1, tir.Evaluate(x)))


def other_loop(p):
    v = Var("k")
    block = p.block.replace(name_hint="C", iter_vars=(IterVar(p.dom, v),), reads=(), writes=(tir.BufferRegion(
        p.b, (Range.from_min_extent(v, 1),)),), body=tir.BufferStore(p.b, const(0.0), (v,)))
    return twice(p, tir.for_(p.i, 8, p.realize(block)))


BROKEN = {
    "a parameter is listed twice": lambda p: tir.PrimFunc((p.i, p.i), {}, tir.Evaluate(const(0))),
    "buffer A is bound to h, which is no parameter":
        lambda p: tir.PrimFunc((), {Var("h", "handle"): p.a}, tir.Evaluate(const(0))),
    "buffer A is bound to i, a int32 instead of a handle":
        lambda p: tir.PrimFunc((p.i,), {p.i: p.a}, tir.Evaluate(const(0))),
    "variable i is used where nothing defines it": lambda p: p.func(p.realize()),
    "variable x is used where nothing defines it": unordered_let,
    "block B uses variable i of a loop outside the block": lambda p: p.with_block(
        body=tir.BufferStore(p.b, p.a[p.i], (p.vi,))),
    "variable i is the variable of two loops": other_loop,
    "two blocks are named B": lambda p: twice(p, tir.for_(Var("k"), 8, p.realize(values=(const(0),)))),
    "loop i is of unknown kind 'simd'; known: serial": lambda p: p.func(tir.for_(p.i, 8, p.realize(), "simd")),
    "loop i is thread_binding with thread_binding None":
        lambda p: p.func(tir.for_(p.i, 8, p.realize(), "thread_binding")),
    "loop i is int32 but its extent T.int64(8) is int64":
        lambda p: p.func(tir.For(p.i, const(0), const(8, "int64"), "serial", p.realize())),
    "iterator vi of block B is of unknown type 'data'":
        lambda p: p.with_block(iter_vars=(IterVar(p.dom, p.vi, "data"),)),
    "block B has 1 iterators and 0 bindings": lambda p: p.loop(p.realize(values=())),
    "iterator vi of block B is int32 but is bound to T.int64(0), a int64":
        lambda p: p.loop(p.realize(values=(const(0, "int64"),))),
    "the condition of block B is int32 instead of bool: i": lambda p: p.loop(p.realize(predicate=p.i)),
    "the condition of IfThenElse is int32 instead of bool": lambda p: p.loop(tir.IfThenElse(p.i, p.realize())),
    "buffer C is neither a parameter nor allocated around its use": lambda p: p.with_block(
        writes=(p.at(p.c),), body=tir.BufferStore(p.c, const(0.0), (p.vi,))),
    "buffer A has 1 dimensions, indexed with 2": lambda p: p.with_block(
        body=tir.BufferStore(p.b, tir.BufferLoad(p.a, (p.vi, p.vi)), (p.vi,))),
    "buffer B has 1 dimensions, indexed with 0": lambda p: p.with_block(body=tir.BufferStore(p.b, const(0.0), ())),
    "index T.float32(0.0) of buffer A is float32 instead of an integer": lambda p: p.with_block(
        body=tir.BufferStore(p.b, tir.BufferLoad(p.a, (const(0.0),)), (p.vi,))),
    "index 0 of buffer B is a Python int instead of an expression": lambda p: p.with_block(
        body=tir.BufferStore(p.b, const(0.0), (0,))),
    "store of a int32 value into B, which needs float32: B[vi] = 1": lambda p: p.with_block(
        body=tir.BufferStore(p.b, const(1), (p.vi,))),
    "store of a float32 value into B, which needs float32x4": lambda p: p.with_block(
        body=tir.BufferStore(p.b, const(1.0), (tir.Ramp(p.vi, const(1), 4),))),
    "let x is int32 but its value is float32":
        lambda p: p.func(tir.LetStmt(Var("x"), const(1.0), tir.Evaluate(const(0)))),
    "operands of Add differ in dtype: float32 and int32 in A[vi] + vi": lambda p: p.with_block(
        body=tir.BufferStore(p.b, Add(p.a[p.vi], p.vi), (p.vi,))),
    "block B loads buffer A, which its signature reads does not list": lambda p: p.with_block(reads=()),
    "block B stores buffer B, which its signature writes does not list": lambda p: p.with_block(
        reads=(p.at(p.a), p.at(p.b)), writes=()),
    "block outer loads buffer A, which its signature reads does not list": lambda p: nested("b", "b"),
    "block outer stores buffer B, which its signature writes does not list": lambda p: nested("a", ""),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_functions_are_refused(message):
    with pytest.raises(VerifyError) as error:
        verify(BROKEN[message](Parts()))
    assert message in str(error.value)


def test_the_message_says_where():
    p = Parts()
    func = p.with_block(reads=()).with_attr("global_symbol", "scale")
    with pytest.raises(ValueError, match=r"^PrimFunc scale: .* \(in block root, loop i, block B\)$"):
        verify(func)


def test_only_functions_are_verified():
    with pytest.raises(VerifyError, match="takes a PrimFunc, not a Var"):
        verify(Var("x"))


def test_own_and_matched_buffers_need_no_signature():
    p = Parts()
    sub = tir.decl_buffer((1,), name="sub", elem_offset=Var("offset"))
    body = tir.SeqStmt((tir.BufferStore(p.c, p.a[p.vi], (const(0),)), tir.BufferStore(sub, p.c[0], (const(0),))))
    verify(p.with_block(alloc_buffers=(p.c,), match_buffers=(tir.MatchBufferRegion(sub, p.at(p.b)),), body=body))


# ---------------------------------------------------------------- signatures that leave something out

def signatures(func, name):
    block = next(b for b in collect(func, tir.Block) if b.name_hint == name)
    return [[script(r) for r in regions] for regions in (block.reads, block.writes)]


def text(body):
    return ("@T.prim_func\ndef main(A: T.Buffer((8,), 'float32'), B: T.Buffer((8,), 'float32'), n: T.int32):\n    "
            "for i in range(8):\n        with T.block('B'):\n            vi = T.axis.spatial(8, i)\n            "
            + "\n            ".join(body))


# body -> what the signature becomes, or "" where nothing is missing
STATED = {
    ("T.reads()", "T.writes()", "B[vi] = A[7 - vi]"): "[['A[7 - vi]'], ['B[vi]']]",
    ("T.reads(A[vi])", "T.writes(B[vi])", "B[vi] = A[vi] + A[7 - vi]"): "[['A[0:8]'], ['B[vi]']]",
    ("T.reads(A[vi])", "T.writes(B[vi])", "if vi < 7:", "    B[vi] = A[vi + 1]"): "[['A[vi:vi + 2]'], ['B[vi]']]",
    ("T.reads(A[vi])", "T.writes(B[vi])", "for k in range(2):", "    if k < 1:", "        B[vi] = A[vi + k]"): "",
    ("T.reads(A[n])", "T.writes(B[vi])", "B[vi] = T.if_then_else(n < 4, A[n], A[n])"): "",
    ("T.reads(A[0:8])", "T.writes(B[vi])", "B[vi] = A[vi * vi] + B[vi]"): "",
    ("T.reads(A[vi])", "T.writes(B[vi])", "B[vi] = A[T.Cast('int32', A[vi])]"): "[['A[0:8]'], ['B[vi]']]",
    ("T.reads()", "T.writes(B[vi])", "T.evaluate(T.call_extern('int32', 'f', B.data, vi))"): "",
    ("T.writes(B[vi])", "p = T.allocate_const([1.0, 2.0], 'float32', [2])", "c = T.Buffer((2,), 'float32', data=p)",
     "B[vi] = c[0]"): "",
    ("T.reads()", "T.writes(B[vi])", "T.evaluate(T.call_extern('int32', 'f', T.address_of(A[vi]), B.data))"):
        "[['A[0:8]'], ['B[vi]', 'A[0:8]']]",
    ("T.reads(A[2])", "T.writes(B[vi])", "C = T.match_buffer(A[vi], (1,), offset_factor=1)", "B[vi] = C[0]"):
        "[['A[0:8]'], ['B[vi]']]",
    ("T.writes(B[vi])", "C = T.alloc_buffer((8,), 'float32')", "D = T.match_buffer(C[vi], (), offset_factor=1)",
     "D[()] = T.float32(1)", "B[vi] = D[()]"): "",
    ("T.reads()", "T.writes(B[vi])", "with T.block('in'):", "    vj = T.axis.spatial(8, vi)", "    T.reads()",
     "    T.writes()", "    B[vj] = A[vj]"): "[['A[vi]'], ['B[vi]']]",
}


@pytest.mark.parametrize("body", STATED, ids=STATED.values())
def test_what_signatures_leave_out_is_added(body):
    """So that no analysis trusts what is not so; a warning says it, and a second look finds nothing."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        func = from_source(text(body))
    verify(func)
    assert bool(said) == bool(STATED[body]) and all(isinstance(w.message, SignatureWarning) for w in said)
    if said:
        assert str(signatures(func, "B")) == STATED[body] and said[-1].lineno == 4
        assert "block B" in str(said[-1].message)
    assert complete_signatures(func) == (func, ())


def test_what_a_script_leaves_to_be_found_is_found_in_silence():
    """Buffers that only pointers lead to, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        func = from_source(text(["T.evaluate(T.call_extern('int32', 'f', A.data, B.data))"]))
    assert signatures(func, "B") == [["A[0:8]", "B[0:8]"]] * 2


def test_a_schedule_completes_what_no_script_was_read_for():
    p = Parts()
    with pytest.warns(SignatureWarning, match=r"block B reads A\[vi\], but its T.reads leaves it out"):
        sch = Schedule(p.with_block(reads=()))
    assert signatures(sch.mod["main"], "B") == [["A[vi]"], ["B[vi]"]]


def test_blocks_that_share_an_expression_are_each_looked_at():
    p = Parts()
    whole, zero = tir.BufferRegion(p.a, (p.dom,)), const(0)
    shared = tir.BufferLoad(p.a, (zero,))
    blocks = [tir.Block((), reads, (tir.BufferRegion(p.b, (p.dom,)),), name, body=tir.BufferStore(p.b, shared, (zero,)))
              for name, reads in (("first", (whole,)), ("second", ()))]
    func = p.func(tir.SeqStmt(tuple(tir.BlockRealize((), const(True), b) for b in blocks)))
    func, omissions = complete_signatures(func)
    assert [o.realize.block.name_hint for o in omissions] == ["second"] and signatures(func, "second")[0] == ["A[0]"]
