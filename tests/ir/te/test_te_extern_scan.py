"""te.extern, te.scan and the ir_builder: statements as tensors, and recurrences."""
import numpy as np
import pytest
from interp import run
from te_check import (COLUMNS, ROWS, STATE, X, XS, block, block_names, check, halves, halves_reference, loops_of,
                      running_sum)

import ingot as tvm
from ingot import te, tir
from ingot.ir.schedule import ScheduleError
from ingot.script import tir as T
from ingot.tir import ir_builder


def test_extern_of_several_outputs():
    wide, first = te.extern([(6, 7), (6,)], [X], halves, name="halves", dtype=["float32", "float32"])
    func = check(te.create_prim_func([X, wide, first]), [X, wide, first], halves_reference)
    text = func.script()
    assert "T.reads(X[0:6, 0:7])" in text and "T.writes(halves_v0[0:6, 0:7], halves_v1[0:6])" in text
    assert "T.unroll(7)" in text and "start: T.int32 = " in text


@T.prim_func
def count_up(C: T.Buffer((2,), "float32"), A: T.Buffer((6, 7), "float32"), B: T.Buffer((6, 7), "float32")):
    D = T.alloc_buffer((1,), "float32")
    for i, j in T.grid(6, 7):
        with T.block("up"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[0] = A[vi, vj] + C[0]
            A[vi, vj] = D[0] * T.float32(2)
            B[vi, vj] = D[0] + C[1]


def test_extern_primfunc_changes_an_input():
    a, c = te.placeholder((6, 7), name="a"), te.placeholder((2,), name="c")
    b = te.extern_primfunc([c, a], count_up, name="up")
    out = te.compute((6, 7), lambda i, j: b[i, j] * 2.0, name="out")
    func = te.create_prim_func([c, a, out])
    inputs = np.float32([1, 10]), np.arange(42, dtype=np.float32).reshape(6, 7), np.zeros((6, 7), np.float32)
    values = [v.copy() for v in inputs]
    run(func, *values)
    assert np.array_equal(values[1], (inputs[1] + 1) * 2) and np.array_equal(values[2], (inputs[1] + 11) * 2)
    both = te.compute((6, 7), lambda i, j: b[i, j] + a[i, j], name="both")
    with pytest.raises(ValueError, match="extern up changes its input a, which both reads, too: give it a copy"):
        te.create_prim_func([c, a, both])
    for tensors, message in (([a, c], "it reads float32 of .2., float32 of .6, 7., the tensors are float32 of .6, 7."),
                             ([a], "it reads float32")):
        with pytest.raises(ValueError, match=message):
            te.extern_primfunc(tensors, count_up)


def test_extern_between_computes():
    doubled = te.compute((6, 7), lambda i, j: X[i, j] + 1.0, name="before")
    wide, first = te.extern([(6, 7), (6,)], [doubled], halves, name="halves")
    out = te.compute((6, 7), lambda i, j: wide[i, j] + first[i], name="after")
    s = te.create_schedule(out.op)
    s[doubled].parallel(doubled.op.axis[0])
    s[out].vectorize(out.op.axis[1])

    def reference(x):
        a, b = halves_reference(x + 1)
        return a + b[:, None]

    assert block_names(check(s, [X, out], reference)) == ["before", "halves", "after"]


def test_extern_call_and_buffers_of_ones_own():
    stride, offset = te.var("stride"), te.var("offset")
    own = tir.decl_buffer((6, 7), "float32", "own", strides=[stride, 1], elem_offset=offset)
    out = te.extern((6, 7), X, lambda ins, outs: tir.call_extern(
        "int32", "scale", outs[0].access_ptr("w"), ins[0].access_ptr("r"), ins[0].strides[0], ins[0].elem_offset),
        name="scaled", in_buffers=own)
    text = te.create_prim_func([X, out]).script()
    assert 'T.call_extern("int32", "scale", T.address_of(scaled[0, 0]), T.address_of(X[0, 0]), 7, 0)' in text
    assert 'T.call_packed("f", ' in te.create_prim_func([X, te.extern(
        (6, 7), [X], lambda ins, outs: tir.call_packed("f", ins[0].access_ptr("r")))]).script().replace("tvm_", "")


@pytest.mark.parametrize("wrong, error, message", [
    (lambda: te.extern((6,), [3], halves), TypeError, "extern extern: an input is a int instead of a Tensor"),
    (lambda: te.extern((6,), [], halves), ValueError, "extern extern: the inputs are none; give dtype"),
    (lambda: te.extern((6,), [X], lambda i, o: 3, name="e"), TypeError,
     "extern e: fcompute returned a int instead of a statement or a call"),
    (lambda: te.extern([(6,), (7,)], [X], halves, dtype=["int8"]), ValueError, "extern extern: 1 dtypes for 2 outputs"),
    (lambda: te.extern((6,), [X], halves, in_buffers=[]), ValueError,
     "extern extern: in_buffers has 0 buffers for 1 tensors"),
    (lambda: te.extern((6,), [X], halves, in_buffers=tir.decl_buffer((6,), "int8", "own")), ValueError,
     "in_buffers has own, int8 of 1 dimensions, for a tensor of float32 and 2 dimensions")])
def test_extern_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


def test_builder_attributes_loops_and_whiles():
    buffer = tir.decl_buffer((4,), "int32", "b")
    ib = ir_builder.create()
    b = ib.buffer_ptr(buffer)
    assert b.dtype == "int32" and b.asobject() is buffer
    with ib.while_loop(b[0] < 3):
        b[0] = b[0] + 1
    ib.scope_attr(b.asobject().data, "pragma_x", 1)
    ib.emit(tir.call_extern("int32", "f"))
    text = str(ib.get())
    assert text.index("while b[0] < 3") < text.index('"pragma_x"') < text.index('"f"')


def get_inside_a_loop(ib):
    with ib.for_range(0, 4):
        ib.get()


@pytest.mark.parametrize("wrong, error, message", [
    (lambda ib, b: ib.else_scope(), RuntimeError, "else_scope does not follow an if_scope"),
    (lambda ib, b: ib.for_range(0, 4, kind="fast"), ValueError, "for_range: kind 'fast' is none of parallel, serial"),
    (lambda ib, b: ib.buffer_ptr(3), TypeError, "buffer_ptr takes a Buffer, not a int"),
    (lambda ib, b: b[0, 0], IndexError, "buffer b has 1 dimensions, indexed with 2"),
    (lambda ib, b: b.__setitem__(0, tir.const(1.5)), ValueError, "a float32 is stored into buffer b, which is int32"),
    (lambda ib, b: get_inside_a_loop(ib), RuntimeError, "1 scopes are still open")])
def test_builder_refused(wrong, error, message):
    ib = ir_builder.create()
    with pytest.raises(error, match=message):
        wrong(ib, ib.buffer_ptr(tir.decl_buffer((4,), "int32", "b")))


# ---------------------------------------------------------------- scan

def test_cumulative_sum():
    init, update, total = running_sum()
    s = te.create_schedule(total.op)
    s[init].vectorize(s[init].split(init.op.axis[1], factor=8)[1])
    s[update].parallel(s[update].split(update.op.axis[1], factor=8)[0])
    func = check(s, [XS, total], lambda x: x.cumsum(0))
    assert loops_of(func, "update") == ["8", "3 parallel", "8"] and loops_of(func, "init") == ["1", "3", "8 vectorized"]
    assert [iv.iter_type for iv in block(func, "update").iter_vars] == ["scan", "spatial"]
    assert "T.reads(scan[v_t - 1, v_i], X[v_t, v_i])" in func.script()
    assert not func.root.alloc_buffers


def test_a_recurrent_cell_of_two_stages():
    """h[t] = tanh(W h[t - 1] + x[t]); the product is a stage of its own, and the first row is given."""
    weight = te.placeholder((COLUMNS, COLUMNS), name="W")
    first = te.placeholder((1, COLUMNS), name="h0")
    k = te.reduce_axis((0, COLUMNS), name="k")
    product = te.compute((ROWS, COLUMNS), lambda t, i: te.sum(STATE[t - 1, k] * weight[i, k], axis=k), name="product")
    update = te.compute((ROWS, COLUMNS), lambda t, i: te.tanh(product[t, i] + XS[t, i]), name="update")
    hidden = te.scan(first, update, STATE, inputs=[XS, weight], name="hidden")
    s = te.create_schedule(hidden.op)
    ko, ki = s[product].split(k, factor=4)
    s[product].reorder(ko, product.op.axis[1], ki)

    def reference(x, w, h0):
        rows = [h0[0]]
        for t in range(1, ROWS):
            rows.append(np.tanh(w @ rows[-1] + x[t]))
        return np.array(rows)

    func = check(s, [XS, weight, first, hidden], reference, 1e-4)
    assert loops_of(func, "product") == ["8", "6", "21", "4"] and loops_of(func, "hidden.init") == ["1", "21"]


def test_two_states_at_once():
    """Fibonacci: (a, b) -> (b, a + b)."""
    states = [te.placeholder((ROWS, 3), name=n) for n in ("a", "b")]
    inits = [te.compute((1, 3), _constant(v), name=f"init{v}") for v in (0, 1)]
    a, b = states
    nexts = [te.compute((ROWS, 3), lambda t, i: b[t - 1, i], name="next_a"),
             te.compute((ROWS, 3), lambda t, i: a[t - 1, i] + b[t - 1, i], name="next_b")]
    outs = te.scan(inits, nexts, states, name="fib")
    table = [0, 1]
    while len(table) <= ROWS:
        table.append(table[-1] + table[-2])
    want = np.array(table, "float32")
    func = check(te.create_prim_func(outs), outs,
                 lambda: (np.tile(want[:ROWS, None], 3), np.tile(want[1:ROWS + 1, None], 3)))
    assert block_names(func) == ["init0", "init1", "next_a", "next_b"]


def _constant(v):
    return lambda t, i: tir.const(v, "float32")


def use_state(index):
    return te.compute((ROWS, COLUMNS), lambda t, i: STATE[index(t), i] + XS[t, i], name="update")


def scanned(update, extra=()):
    init = te.compute((1, COLUMNS), lambda _, i: XS[0, i], name="init")
    return te.create_prim_func([XS, *extra, te.scan(init, update, STATE)])


def outside_reader():
    init, update, total = running_sum()
    return te.create_prim_func([XS, te.compute(total.shape, lambda i, j: total[i, j] + update[i, j], name="both")])


@pytest.mark.parametrize("wrong, error, message", [
    (lambda: te.scan(XS, XS, STATE), ValueError, "scan scan: update X is no compute"),
    (lambda: te.scan([XS], [], [STATE]), ValueError, "scan scan: 1 inits, 0 updates and 1 state placeholders"),
    (lambda: te.scan(XS, use_state(lambda t: t - 1), use_state(lambda t: t)), ValueError,
     "scan scan: state update is no placeholder"),
    (lambda: te.scan(te.placeholder((1,), name="v"), use_state(lambda t: t - 1), STATE), ValueError,
     "scan scan: init v is float32 of 1 dimensions, state state float32 of 2"),
    (lambda: scanned(use_state(lambda t: t)), ValueError, "scan scan: update reads row t of its state"),
    (lambda: scanned(use_state(lambda t: t - 2)), ValueError, "update reads row t - 2 of its state"),
    (outside_reader, ValueError, "both reads update, whose rows are computed in the turns of scan scan"),
    (lambda: te.create_prim_func([XS, *running_sum()[1:]]), ValueError, "update is an argument, but its rows are")])
def test_scan_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


def test_the_time_of_a_scan_cannot_be_scheduled():
    init, update, total = running_sum()
    for request, message in ((lambda s: s[update].split(update.op.axis[0], factor=2), "split: .stage update. axis t"),
                             (lambda s: s[update].parallel(update.op.axis[0]), "parallel: .* is the time of a scan"),
                             (lambda s: s.cache_read(STATE, "local", update), "state is a state of scan scan")):
        s = te.create_schedule(total.op)
        with pytest.raises(ScheduleError, match=message):
            request(s)
            s.to_prim_func([XS, total])


# ---------------------------------------------------------------- te.hybrid

@te.hybrid.script
def moving_average(a, width):
    """Loops, a number that changes, a condition, memory of its own."""
    out = output_tensor((a.shape[0],), a.dtype)  # noqa: F821
    last = output_tensor((1,), "int32")  # noqa: F821
    sums = allocate((a.shape[0],), a.dtype, "local")  # noqa: F821
    for i in range(a.shape[0]):
        total = 0.0
        for k in const_range(width):  # noqa: F821
            if i >= k:
                total += a[i - k]
        sums[i] = total
    for i in parallel(a.shape[0]):  # noqa: F821
        out[i] = max(sqrt(sums[i]), float32(1)) if i % 2 == 0 else sums[i]  # noqa: F821
    last[0] = 0
    for i in range(a.shape[0]):
        last[0] = last[0] + i
    return out, last


def test_hybrid_functions_compute_what_python_does():
    n = te.var("n")
    source = te.placeholder((n,), name="source")
    doubled = te.compute((n,), lambda i: source[i] * 2.0, name="doubled")
    out, last = moving_average(doubled, 3)
    after = te.compute((n,), lambda i: out[i] + 1.0, name="after")
    module = tvm.build(te.create_schedule([after.op, last.op]), [source, after, last])
    x, y, z = np.arange(7, dtype="float32"), np.empty(7, "float32"), np.empty(1, "int32")
    module(x, y, z)
    wanted, total = moving_average(x * 2, 3)
    np.testing.assert_allclose(y, wanted + 1, rtol=1e-6)
    assert z == total == 21


@te.hybrid.script
def weighted_rows(a, weights):
    """Numbers of lists and of constant shapes are known when the loops are read."""
    out = output_tensor((a.shape[0],), a.dtype)  # noqa: F821
    columns = a.shape[1]
    for i in range(a.shape[0]):
        out[i] = 0.0
        for j in const_range(columns):  # noqa: F821
            out[i] += a[i, j] * weights[0, j]
    return out


def test_hybrid_functions_unroll_over_lists():
    a = te.placeholder((3, 4), name="a")
    out = weighted_rows(a, [[1, 2, 3, 4]])
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.empty(3, "float32")
    tvm.build(te.create_schedule(out.op), [a, out])(x, y)
    np.testing.assert_allclose(y, weighted_rows(x, np.array([[1, 2, 3, 4]])))


def test_hybrid_functions_say_what_is_wrong():
    @te.hybrid.script
    def kept(a):
        b = output_tensor((4,), "float32")  # noqa: F821
        c = output_tensor((4,), "float32")  # noqa: F821
        for i in range(4):
            b[i] = c[i] = a[i]
        return b

    @te.hybrid.script
    def left(a):
        b = output_tensor((4,), "float32")  # noqa: F821
        c = output_tensor((4,), "float32")  # noqa: F821
        for i in range(4):
            b[i] = a[i]
        return b

    @te.hybrid.script
    def changed(a):
        b = output_tensor((4,), "float32")  # noqa: F821
        a[0] = 1.0
        return b

    a = te.placeholder((4,), name="a")
    for call, message in ((lambda: changed(a), "a is an input, which an operation does not change"), (lambda: kept(a), "one name at a time"), (lambda: left(a), "left does not return c, an output"),
                          (lambda: left(a, a), "left takes 1 arguments, not 2")):
        with pytest.raises(ValueError, match=message):
            call()


@te.hybrid.script
def summed(tensors):
    out = output_tensor((4,), "float32")  # noqa: F821
    for i in range(4):
        out[i] = 0.0
        for k in const_range(len(tensors)):  # noqa: F821
            out[i] += tensors[k][i]
    return out


def test_hybrid_functions_take_lists_of_tensors():
    tensors = [te.placeholder((4,), name=f"x{k}") for k in range(3)]
    out = summed(tensors)
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.empty(4, "float32")
    tvm.build(te.create_schedule(out.op), [*tensors, out])(*x, y)
    np.testing.assert_allclose(y, x.sum(0))


@pytest.mark.parametrize("lines, message", [
    (["x = 1.0", "y = 2.0", "x, y = y, x"], "x is assigned more than once: assign it alone"),
    (["s = 0", "s += a[0]"], "s is int32 from its first value on, which cannot hold this float32"),
    (["s = 0.0", "for i in parallel(4):", "    s += a[i]"], "s is assigned before a loop whose iterations run at once"),
    (["if a[0] > 0.0:", "    width = 3"], "width has a value that cannot change"),
    (["for i in range(4):", "    i = 0"], "i has a value that cannot change"),
    (["for i in range(2):", "    for i in range(2):", "        out[i] = a[i]"], "i has a value already"),
    (["if a[0] > 0.0:", "    outer = 1.0", "out[0] = outer"], "outer has no value here"),
    (["return out", "out[0] = 1.0"], "the last statement, and no other, returns"),
    (["return out, out"], "an output is returned twice"),
])
def test_hybrid_functions_refuse_what_would_compute_something_else(lines, message):
    """Each of these computes, as Python runs it, what a loop nest of single assignments does not."""
    head = "@te.hybrid.script\ndef function(a, width):\n    out = output_tensor((4,), 'float32')\n"
    text = head + "".join(f"    {line}\n" for line in (*lines, *["return out"] * ("return" not in "".join(lines))))
    names = {"te": te, "outer": 3.0}
    exec(text, names)
    with pytest.raises(ValueError, match=message):
        names["function"](te.placeholder((4,), name="a"), 2)
