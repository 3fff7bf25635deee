"""tensorize with decl_tensor_intrin: micro-kernels as statements (run by the interpreter) and as C functions."""
import numpy as np
import pytest
from te_check import block_names, check

import ingot as tvm
from ingot import te, tir
from ingot.tir import ir_builder

N, M, L = 5, 48, 32


def products():
    """C[i, j] = sum over k of A[i, k] * B[j, k]: a matrix-vector product per row."""
    a, b = te.placeholder((N, L), name="A"), te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    return a, b, te.compute((N, M), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")


def reference(a, b):
    return a @ b.T


def gemv(rows, depth, statement, parts=False):
    """The intrinsic c[rows] = b[rows, depth] a[depth]. statement(ins, outs, start): what does it, from 0 if start."""
    a, b = te.placeholder((depth,), name="a"), te.placeholder((rows, depth), name="b")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    binds = {a: tir.decl_buffer(a.shape, a.dtype, "A", offset_factor=1, strides=[1]),
             b: tir.decl_buffer(b.shape, b.dtype, "B", offset_factor=1, strides=[te.var("s1"), 1]),
             c: tir.decl_buffer(c.shape, c.dtype, "C", offset_factor=1, strides=[1])}

    def fcompute(ins, outs):
        if not parts:
            return statement(ins, outs, "all")
        return tuple(statement(ins, outs, part) for part in ("all", "reset", "update"))

    return te.decl_tensor_intrin(c.op, fcompute, name="gemv", binds=binds)


def loops(ins, outs, part):
    ib = ir_builder.create()
    (a, b), c = map(ib.buffer_ptr, ins), ib.buffer_ptr(outs[0])
    rows, depth = ins[1].shape
    with ib.for_range(0, rows, "r") as r:
        if part != "update":
            c[r] = 0.0
        if part != "reset":
            with ib.for_range(0, depth, "d") as d:
                c[r] = c[r] + a[d] * b[r, d]
    return ib.get()


def calls(ins, outs, part):
    a, b = ins
    c, = outs
    if part == "reset":
        return tir.call_extern("int32", "gemv_reset", c.access_ptr("w"), b.shape[0])
    return tir.call_extern("int32", "gemv_update", c.access_ptr("rw"), a.access_ptr("r"), b.access_ptr("r"),
                           b.shape[0], b.shape[1], b.strides[0])


def scheduled(statement, parts, factor=16):
    a, b, c = products()
    s = te.create_schedule(c.op)
    x, y = c.op.axis
    z, = c.op.reduce_axis
    yo, yi = s[c].split(y, factor=factor)
    if parts:
        zo, zi = s[c].split(z, factor=8)
        s[c].reorder(x, yo, zo, yi, zi)
        s[c].tensorize(yi, gemv(factor, 8, statement, parts=True))
    else:
        s[c].reorder(x, yo, yi, z)
        s[c].tensorize(yi, gemv(factor, L, statement))
    return s, [a, b, c], x


@pytest.mark.parametrize("parts, names", [(False, ["C_o"]), (True, ["C_init_o", "C_update_o"])])
def test_statements(parts, names):
    s, args, _ = scheduled(loops, parts)
    func = check(s, args, reference, 1e-4)
    assert block_names(func) == names and func.script().count("T.match_buffer(") == (4 if parts else 3)


def test_an_intrinsic_of_tir_by_name():
    plain = gemv(16, L, loops)
    s, args, _ = scheduled(loops, False)
    s[args[-1]].marks.clear()
    s[args[-1]].tensorize(s[args[-1]].leaf_iter_vars[2], plain.registered("body"))
    check(s, args, reference, 1e-4)


def test_a_tile_that_does_not_divide_is_refused():
    s, args, _ = scheduled(loops, False, factor=20)
    with pytest.raises(tir.ScheduleError, match=r"tensorize: .*\(stage C, axis j.inner\)"):
        s.to_prim_func(args)


SOURCE = """
static int gemv_reset(float *c, int m)
{
    for (int i = 0; i < m; ++i)
        c[i] = 0;
    return 0;
}

static int gemv_update(float *c, const float *a, const float *b, int m, int l, int stride)
{
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < l; ++j)
            c[i] += a[j] * b[i * stride + j];
    return 0;
}
"""


def test_a_c_function():
    s, args, x = scheduled(calls, True)
    s[args[-1]].pragma(x, "import_c", SOURCE)
    built = tvm.build(s, args, target="c", name="gemv")
    a, b = np.random.default_rng(0).random((2, 64, L), np.float32)
    c = tvm.nd.array(np.full((N, M), np.nan, np.float32))
    built["gemv"](tvm.nd.array(a[:N].copy()), tvm.nd.array(b[:M].copy()), c)
    np.testing.assert_allclose(c.numpy(), a[:N] @ b[:M].T, rtol=1e-5)
    assert built.get_source().count("static int gemv_update(") == 1


def test_wrong_declarations():
    a, _, c = products()
    elementwise = te.compute((4,), lambda i: a[0, i] + 1.0, name="e")
    call = tir.call_extern("int32", "f")
    for wrong, error, message in (
            (lambda: te.decl_tensor_intrin(a.op, loops), ValueError, "op must be a compute with one output"),
            (lambda: te.decl_tensor_intrin(c.op, loops, binds={elementwise: None}), ValueError,
             "binds has e, which is neither an input nor the output of C"),
            (lambda: te.decl_tensor_intrin(c.op, lambda i, o: 3), TypeError,
             r"fcompute must return a statement or \(body, reset, update\)"),
            (lambda: te.decl_tensor_intrin(elementwise.op, lambda i, o: (call, call, call)), ValueError,
             "e is no reduction, so it has no reset and update")):
        with pytest.raises(error, match=message):
            wrong()
