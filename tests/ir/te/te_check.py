"""Running te schedules: the scheduled PrimFunc against numpy, and the loops that it has."""
import numpy as np
from interp import run

from ingot import te, tir
from ingot.ir.node import children, collect, structural_equal
from ingot.ir.script.functions import from_source
from ingot.tir import ir_builder
from ingot.ir.tir.stmt import Block, For
from ingot.ir.tir.verifier import verify


def check(schedule, args, reference, tolerance=1e-5):
    """Run the schedule's function on random arguments; the last ones must become what `reference` makes of the first.
    The function's script must parse back to it.

    reference(*inputs) -> array or tuple of arrays. Returns the function.
    """
    func = schedule.to_prim_func(args) if isinstance(schedule, te.Schedule) else schedule
    verify(func)
    assert structural_equal(from_source(func.script()), func)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, [int(e) for e in t.shape]).astype(str(t.dtype)) if t.dtype.is_int else
              rng.standard_normal([int(e) for e in t.shape]).astype(str(t.dtype)) for t in args]
    inputs = [t for t in args if isinstance(t.op, te.PlaceholderOp)]
    expected = reference(*(a.copy() for a in arrays[:len(inputs)]))
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(expected) == len(args) - len(inputs)
    run(func, *arrays)
    for found, want in zip(arrays[len(inputs):], expected):
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)
    return func


def loops_of(func, block):
    """The loops around a block (of a reduction: its update): "extent kind" (serial left out), outermost first."""
    def find(stmt, above):
        if isinstance(stmt, Block) and stmt.name_hint.removesuffix("_update") == block:
            return above
        if isinstance(stmt, For):
            above = above + [f"{stmt.extent} {stmt.kind}".removesuffix(" serial")]
        for child in children(stmt):
            found = find(child, above)
            if found is not None:
                return found
        return None
    return find(func.body, [])


def block(func, name):
    """The block of a name (of a reduction: its update)."""
    return next(b for b in collect(func.body, Block) if b.name_hint.removesuffix("_update") == name)


def block_names(func):
    """The names of the blocks inside the root, in execution order; a reduction's init and update count as one."""
    names = []

    def visit(stmt):
        if isinstance(stmt, Block) and not stmt.name_hint.endswith("_init"):
            names.append(stmt.name_hint.removesuffix("_update"))
        for child in children(stmt):
            visit(child)

    visit(func.root.body)
    return names


def elementwise(n=37, m=45):
    """B = A + 1; C = B * 2."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    return a, b, c


def twice_plus_two(a):
    return (a + 1) * 2


def matmul(n=13, m=22, k=9):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def product(a, b):
    return a @ b


def row_sums(n=37, m=45):
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    return a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")


def argmax(n=11, m=45):
    """Index and value of each row's maximum: one reduction, two outputs."""
    reducer = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)), name="argmax")
    index, value = te.placeholder((n, m), "int32", name="idx"), te.placeholder((n, m), name="val")
    k = te.reduce_axis((0, m), name="k")
    return (index, value, *te.compute((n,), lambda i: reducer((index[i, k], value[i, k]), axis=k), name="T"))


def argmax_reference(index, value):
    rows = np.arange(len(value))
    return index[rows, value.argmax(1)], value.max(1)


X = te.placeholder((6, 7), name="X")


def halves(ins, outs):
    """Columns from 4 on doubled, others 0; and the first column doubled."""
    ib = ir_builder.create()
    x, (wide, first) = ib.buffer_ptr(ins[0]), map(ib.buffer_ptr, outs)
    row = ib.allocate("float32", (7,), "row")
    with ib.for_range(0, 6, "i") as i:
        with ib.for_range(0, 7, "j", kind="unroll") as j:
            row[j] = x[i, j] * 2.0
        start = ib.let("start", i * 0 + 4)
        with ib.for_range(0, 7, "j") as j:
            with ib.if_scope(ib.likely(j >= start)):
                wide[i, j] = row[j]
            with ib.else_scope():
                wide[i, j] = 0.0
        first[i] = row[0]
    return ib.get()


def halves_reference(x):
    wide = 2 * x
    wide[:, :4] = 0
    return wide, 2 * x[:, 0]


ROWS, COLUMNS = 9, 21
XS = te.placeholder((ROWS, COLUMNS), name="X")
STATE = te.placeholder((ROWS, COLUMNS), name="state")


def running_sum():
    init = te.compute((1, COLUMNS), lambda _, i: XS[0, i], name="init")
    update = te.compute((ROWS, COLUMNS), lambda t, i: STATE[t - 1, i] + XS[t, i], name="update")
    return init, update, te.scan(init, update, STATE, inputs=[XS])
