"""Programs to schedule, and the checks that count: scheduled and unscheduled give the same numbers, traces replay."""
import json

import numpy as np

from interp import run
from ingot.ir import te, tir
from ingot.ir.dtype import DataType
from ingot.ir.expr import Var, substitute
from ingot.ir.node import Mutator, structural_equal
from ingot.ir.schedule import Schedule, Trace
from ingot.ir.tir.verifier import verify
from ingot.script import tir as T


def elementwise(shape=(5, 37)):
    """B = A * 2; C = B + 1; two stages, the second one the output."""
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a[i] * 2.0, name="B")
    c = te.compute(shape, lambda *i: b[i] + 1.0, name="C")
    return te.create_prim_func([a, c])


def matmul(m=13, n=22, k=9, relu=False):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], r), name="C")
    if not relu:
        return te.create_prim_func([a, b, c])
    d = te.compute((m, n), lambda i, j: tir.max(c[i, j], 0.0), name="D")
    return te.create_prim_func([a, b, d])


def stencil(n=40):
    """B[i] = A[i] + A[i + 1] + A[i + 2]; C[i] = B[i] * B[i + 2]: consumers that overlap."""
    a = te.placeholder((n + 4,), name="A")
    b = te.compute((n + 2,), lambda i: a[i] + a[i + 1] + a[i + 2], name="B")
    c = te.compute((n,), lambda i: b[i] * b[i + 2], name="C")
    return te.create_prim_func([a, c])


def padded(n=11):
    """P = A with a border of zeros; C[i] = P[i] + P[i + 2]."""
    a = te.placeholder((n,), name="A")
    p = te.compute((n + 2,), lambda i: tir.if_then_else(tir.And(i >= 1, i < n + 1), a[i - 1], 0.0), name="P")
    c = te.compute((n,), lambda i: p[i] + p[i + 2], name="C")
    return te.create_prim_func([a, c])


def softmax(rows=6, columns=21):
    x = te.placeholder((rows, columns), name="X")
    k, l = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "l")
    top = te.compute((rows,), lambda i: te.max(x[i, k], k), name="T_max")
    e = te.compute((rows, columns), lambda i, j: tir.exp(x[i, j] - top[i]), name="T_exp")
    s = te.compute((rows,), lambda i: te.sum(e[i, l], l), name="T_sum")
    y = te.compute((rows, columns), lambda i, j: e[i, j] / s[i], name="Y")
    return te.create_prim_func([x, y])


def softmax_by_rows(**options):
    """(function, schedule, row loop): softmax with all its blocks computed in the loop over rows."""
    func = softmax()
    sch = Schedule(func, **options)
    row = sch.get_loops("Y")[0]
    for name in ("T_sum", "T_exp", "T_max"):
        sch.compute_at(name, row)
    return func, sch, row


def symbolic(columns=18):
    """C = relu(A[n, columns] * 2) with a symbolic number of rows."""
    n = Var("n", DataType("int64"))
    a = te.placeholder((n, columns), name="A")
    b = te.compute((n, columns), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, columns), lambda i, j: tir.max(b[i, j], 0.0), name="C")
    return te.create_prim_func([a, c])


def packed_conv(n=1, c=3, h=5, w=20, o=40, k=3):
    """A valid convolution into channels packed by 16, unpacked, biased and clipped: what the default rules tile."""
    oh, ow, packs = h - k + 1, w - k + 1, -(-o // 16)
    x, weight = te.placeholder((n, c, h, w), name="x"), te.placeholder((packs, c, k, k, 16), name="w")
    bias = te.placeholder((o,), name="b")
    ic, kh, kw = (te.reduce_axis((0, e), name) for e, name in ((c, "ic"), (k, "kh"), (k, "kw")))
    packed = te.compute((n, packs, oh, ow, 16), lambda b, oo, y, xx, oi: te.sum(
        x[b, ic, y + kh, xx + kw] * weight[oo, ic, kh, kw, oi], [ic, kh, kw]), name="conv2d_packed")
    plain = te.compute((n, o, oh, ow), lambda b, co, y, xx: packed[b, co // 16, y, xx, co % 16], name="conv2d")
    add = te.compute((n, o, oh, ow), lambda b, co, y, xx: plain[b, co, y, xx] + bias[co], name="add")
    relu = te.compute((n, o, oh, ow), lambda b, co, y, xx: tir.max(add[b, co, y, xx], 0.0), name="relu")
    return te.create_prim_func([x, weight, bias, relu])


def diamond(n=12):
    """B feeds C and D; E joins them, one of them shifted and reversed."""
    a = te.placeholder((n + 1,), name="A")
    b = te.compute((n + 1,), lambda i: a[i] * 3.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    d = te.compute((n,), lambda i: b[i + 1] - a[i], name="D")
    return te.create_prim_func([a, te.compute((n,), lambda i: c[i] * d[n - 1 - i], name="E")])


def resampled(n=9):
    """B = A; C takes every second element, D repeats each element twice, E adds them in two dimensions."""
    a = te.placeholder((2 * n, 4), name="A")
    b = te.compute((2 * n, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, 4), lambda i, j: b[2 * i, j], name="C")
    d = te.compute((2 * n, 4), lambda i, j: c[i // 2, j] * 2.0, name="D")
    return te.create_prim_func([a, te.compute((4, 2 * n), lambda j, i: d[i, j] + b[i, 3 - j], name="E")])


def reshaped(rows=6, columns=4):
    """B = A flattened, C = B by threes, with an offset: indices that divide and recombine."""
    a = te.placeholder((rows, columns), name="A")
    b = te.compute((rows * columns,), lambda i: a[i // columns, i % columns] * 2.0, name="B")
    c = te.compute((rows * columns // 3, 3), lambda i, j: b[i * 3 + j] + 1.0, name="C")
    return te.create_prim_func([a, c])


def argmax(rows=4, columns=7):
    """Two results of one reduction, then a stage that uses both."""
    a = te.placeholder((rows, columns), name="A")
    reducer = te.comm_reducer(
        lambda x, y: (tir.select(x[0] >= y[0], x[0], y[0]), tir.select(x[0] >= y[0], x[1], y[1])),
        lambda t0, t1: (tir.min_value(t0), tir.const(-1, t1)), "argmax")
    k = te.reduce_axis((0, columns), "k")
    top, where = te.compute((rows,), lambda i: reducer((a[i, k], k), k), name="best")
    return te.create_prim_func([a, te.compute((rows,), lambda i: top[i] + where[i].astype("float32"), name="sum")])


def halves(n=10):
    """Two blocks write the even and the odd elements of one buffer, a third one reads it."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    odd = te.compute((n,), lambda i: a[i] - 1.0, name="Odd")
    func = te.create_prim_func([a, te.compute((n,), lambda i: b[i] + odd[i] + b[n - 1 - i], name="C")])
    first, second, third = func.root.body.seq
    even = func.root.alloc_buffers[0]

    def every_second(loop, offset):
        block = loop.body.block
        v = block.iter_vars[0]
        target = v.var * 2 + offset
        iv = v.replace(dom=tir.Range(tir.const(0), tir.const(n // 2)))
        store = tir.BufferStore(even, substitute(block.body.value, {v.var: target}), (target,))
        reads = tuple(r.replace(region=substitute(r.region, {v.var: target})) for r in block.reads)
        block = block.replace(iter_vars=(iv,), reads=reads, writes=(even[target:target + 1],), body=store)
        return loop.replace(extent=tir.const(n // 2), body=loop.body.replace(block=block))

    reader = substitute_buffer(third, func.root.alloc_buffers[1], even)
    return func.with_root_body(tir.SeqStmt((every_second(first, 0), every_second(second, 1), reader)), (even,))


def substitute_buffer(stmt, old, new):
    class Swap(Mutator):
        def visit_Buffer(self, buffer):
            return new if buffer is old else buffer

        def visit_Block(self, block):
            block = self.generic_visit(block)
            reads = {r.buffer: r for r in block.reads}
            return block.replace(reads=tuple(
                r.buffer[0:int(r.buffer.shape[0])] if r.buffer is new else r for r in reads.values()))

    return Swap().visit(stmt)


def chain():
    """C reads B point by point; D reads C at the point and B at the next one."""
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] * 2.0, name="C")
    return te.create_prim_func([a, b, te.compute((8,), lambda i: c[i] + b[i + 1], name="D")])


def guarded(n=8):
    """P reads A2 only where it exists: its border has no producer."""
    a = te.placeholder((n,), name="A")
    d = te.compute((n,), lambda i: a[i] * 2.0, name="A2")
    p = te.compute((n + 2,), lambda i: tir.if_then_else(tir.And(i >= 1, i < n + 1), d[i - 1], 0.0), name="P")
    return te.create_prim_func([a, p])


def repeated_sum():
    """S[0] = sum(A), computed as a whole in each iteration of a loop `r` that the block does not use."""
    a, s = tir.decl_buffer((8,), name="A"), tir.decl_buffer((1,), name="S")
    r, k = tir.Var("r"), tir.Var("k")
    v0, vk = (tir.IterVar(tir.Range(tir.const(0), tir.const(e)), tir.Var(n), t)
              for e, n, t in ((1, "v0", "spatial"), (8, "vk", "reduce")))
    point = tir.Range(v0.var, tir.const(1))
    block = tir.Block((v0, vk), (tir.BufferRegion(a, (tir.Range(vk.var, tir.const(1)),)),),
                      (tir.BufferRegion(s, (point,)),), "S", (), (), {}, tir.BufferStore(s, tir.const(0.0), (v0.var,)),
                      tir.BufferStore(s, s[v0.var] + a[vk.var], (v0.var,)))
    body = tir.for_(r, 3, tir.for_(k, 8, tir.BlockRealize((tir.const(0), k), tir.const(True), block)))
    return tir.prim_func([a, s], body)


def running_sum():
    """B[i, j] = B[i, j - 1 or 0] + A[i, j], its iterators wrongly called spatial."""
    a, b = tir.decl_buffer((4, 6), name="A"), tir.decl_buffer((4, 6), name="B")
    i, j, vi, vj = (tir.Var(n) for n in ("i", "j", "vi", "vj"))
    iters = tuple(tir.IterVar(tir.Range(tir.const(0), tir.const(e)), v, "spatial") for v, e in ((vi, 4), (vj, 6)))
    before = tir.max(vj - 1, 0)
    block = tir.Block(iters, (a[vi:vi + 1, vj:vj + 1], b[vi:vi + 1, before:before + 1]), (b[vi:vi + 1, vj:vj + 1],),
                      "R", (), (), {}, None, tir.BufferStore(b, b[vi, before] + a[vi, vj], (vi, vj)))
    return tir.prim_func([a, b], tir.for_(i, 4, tir.for_(j, 6, tir.BlockRealize((i, j), tir.const(True), block))))


def arrays_for(func, sizes=None):
    """Random arrays for the parameters; `sizes` gives symbolic dimensions by name."""
    rng = np.random.default_rng(0)
    shapes = [[sizes[e.name] if isinstance(e, Var) else int(e) for e in b.shape] for b in func.buffers]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def schedule(func, **options):
    return Schedule(func, **{"error_render_level": "fast", "debug_mask": "all", **options})


def replayed(func, sch):
    """Check that the trace of a schedule makes the same program in every form: applied, printed as Python, saved as
    JSON, simplified. Returns the schedule of the saved one."""
    trace, text, saved, short = (schedule(func, seed=99) for _ in range(4))
    sch.trace.apply_to_schedule(trace, remove_postproc=False)
    exec("\n".join(sch.trace.as_python()), {"sch": text, "T": T})
    Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), saved)
    sch.trace.simplified(remove_postproc=False).apply_to_schedule(short, remove_postproc=False)
    for again in (trace, text, saved, short):
        assert structural_equal(again.func, sch.func)
    return saved


def assert_same(func, scheduled, sizes=None, exact=False):
    """Both are well formed and write the same values for the same inputs; every array counts as an output."""
    verify(scheduled)
    expected = arrays_for(func, sizes)
    found = [a.copy() for a in expected]
    run(func, *expected)
    run(scheduled, *found)
    for want, have in zip(expected, found):
        if exact:
            np.testing.assert_array_equal(have, want)
        else:
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)


def loop_text(sch, block):
    """The loops around a block as "name:extent:kind", outermost first."""
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_block(block) if isinstance(block, str) else block)]
    return [f"{f.loop_var.name}:{f.extent}:{f.kind}" for f in loops]


def realize(sch, name):
    """The BlockRealize of a block."""
    from ingot.ir.schedule.index import Index
    return Index(sch.func).blocks[name]
