"""Classic TE programs, scheduled, built as C and called."""
import numpy as np
import pytest
from te_check import XS, X, argmax, argmax_reference, halves, halves_reference, row_sums, running_sum

import ingot as tvm
from ingot import te


def vector_add():
    a, b = te.placeholder((1003,), name="A"), te.placeholder((1003,), name="B")
    c = te.compute((1003,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=16)
    s[c].parallel(outer)
    s[c].vectorize(inner)
    return s, [a, b, c], lambda x, y: (x + y,)


def partial_sums():
    a, b = row_sums(37, 45)
    s = te.create_schedule(b.op)
    partial = s.rfactor(b, s[b].split(b.op.reduce_axis[0], factor=16)[1], 1)
    s[partial].compute_at(s[b], b.op.axis[0])
    s[b].parallel(b.op.axis[0])
    return s, [a, b], lambda x: (x.sum(1),)


def partial_argmax():
    tensors = argmax()
    s = te.create_schedule(tensors[2].op)
    s.rfactor(tensors[2], s[tensors[2]].split(tensors[2].op.reduce_axis[0], nparts=4)[0])
    return s, list(tensors), argmax_reference


def cumulative_sum():
    init, update, total = running_sum()
    s = te.create_schedule(total.op)
    s[update].vectorize(s[update].split(update.op.axis[1], factor=8)[1])
    return s, [XS, total], lambda x: (x.cumsum(0),)


def statement():
    outs = te.extern([(6, 7), (6,)], [X], halves, name="halves")
    return te.create_schedule(outs[0].op), [X, *outs], halves_reference


@pytest.mark.parametrize("program", [vector_add, partial_sums, partial_argmax, cumulative_sum, statement])
def test_built(program):
    s, args, reference = program()
    built = tvm.build(s, args, target="c", name=program.__name__)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, [int(e) for e in t.shape]).astype("int32") if t.dtype == "int32" else
              rng.standard_normal([int(e) for e in t.shape]).astype("float32") for t in args]
    expected = reference(*(a.copy() for a, t in zip(arrays, args) if isinstance(t.op, te.PlaceholderOp)))
    given = [tvm.nd.array(a) for a in arrays]
    built[program.__name__](*given)
    for found, want in zip(given[len(args) - len(expected):], expected):
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("factors", [None, [None, 8]])
def test_a_sum_of_no_terms_is_what_it_starts_with(factors):
    """Its extent is a parameter, which a call may let be 0."""
    a, n = te.placeholder((4, 32), name="A"), te.var("n")
    k = te.reduce_axis((0, n), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    sch = tvm.tir.Schedule(te.create_prim_func([a, n, b]))
    if factors:
        sch.split(sch.get_loops("B")[1], factors)
    built, data = tvm.build(sch.mod, target="c"), np.arange(128, dtype="float32").reshape(4, 32)
    for terms in (0, 5, 19):
        out = tvm.nd.array(np.full(4, 7, "float32"))
        built(tvm.nd.array(data), terms, out)
        np.testing.assert_array_equal(out.numpy(), data[:, :terms].sum(1))


@pytest.mark.parametrize("request_", ["compute_inline", "compute_at", "scoped"])
def test_an_argument_that_is_computed_elsewhere_is_there_in_full(request_):
    a = te.placeholder((8, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    b = te.compute((8,), lambda i: a[i, 0] + 1 if request_ == "compute_inline" else te.sum(a[i, k], axis=k), name="B")
    c = te.compute((4,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    if request_ == "compute_inline":
        s[b].compute_inline()
    else:
        outer, _ = s[c].split(c.op.axis[0], factor=2)
        s[b].split(k, factor=2)
        s[b].compute_at(s[c], outer)
    if request_ == "scoped":
        s[b].set_scope("local")
    built, x = tvm.build(s, [b, a, c], "llvm"), np.arange(32, dtype="float32").reshape(8, 4)
    y, z = tvm.nd.array(np.zeros(8, "float32")), tvm.nd.empty((4,))
    built(y, tvm.nd.array(x), z)
    want = x[:, 0] + 1 if request_ == "compute_inline" else x.sum(1)
    np.testing.assert_array_equal(y.numpy(), want)
    np.testing.assert_array_equal(z.numpy(), 2 * want[:4])


def test_arguments_that_are_computed_elsewhere_read_one_another():
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] * 2, name="B")
    c = te.compute((16,), lambda i: b[i] + 1, name="C")
    d = te.compute((16,), lambda i: b[i] * c[i], name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=4)
    s[c].compute_at(s[d], outer)
    s[b].compute_at(s[d], outer)
    x, outs = np.arange(16, dtype="float32"), [np.empty(16, "float32") for _ in range(3)]
    tvm.build(s, [a, c, b, d])(x, *outs)
    for out, want in zip(outs, (2 * x + 1, 2 * x, (2 * x + 1) * 2 * x)):
        np.testing.assert_array_equal(out, want)


def test_intrinsics_by_rules_of_a_script():
    """The rule of the higher level holds, for its kind of target alone, also inside of another call."""
    def ours(call):
        return tvm.tir.call_intrin(call.dtype, "tir.abs", call.args[0]) if call.dtype == "float32" else call
    register = tvm.ir.register_intrin_lowering
    register("tir.of_a_rule", "default", f=lambda call: call.args[0] * 3, level=5)
    register("tir.of_a_rule", "llvm", f=lambda call: call.args[0] + 1)
    register("tir.of_a_rule", "llvm", level=15)(ours)
    register("tir.of_a_rule", "cuda", f=lambda call: call.args[0] * 9, level=99)
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: te.exp(tvm.tir.call_intrin("float32", "tir.of_a_rule", a[i])), name="B")
    built = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    x, out = np.array([-2, -1, 0, 1], "float32"), tvm.nd.empty((4,))
    built(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), np.exp(abs(x)), rtol=1e-6)
    for level, wrong in enumerate((None, tvm.tir.const(1, "int32"))):
        register("tir.of_a_wrong_rule", "llvm", f=lambda call: wrong, level=level)
        c = te.compute((4,), lambda i: tvm.tir.call_intrin("float32", "tir.of_a_wrong_rule", a[i]), name="C")
        with pytest.raises(TypeError, match="the rule for tir.of_a_wrong_rule gives .* for a call of float32"):
            tvm.build(te.create_schedule(c.op), [a, c], "llvm")
