"""The course's pass of one's own, among those of tvm.lower; and the small aids of scripts."""
import numpy as np
import pytest

import ingot as tvm
from ingot import te
from ingot.contrib import utils

SIZE = 48


def schedule():
    a, b = te.placeholder((SIZE, SIZE), name="a"), te.placeholder((SIZE, SIZE), name="b")
    c = te.compute((SIZE, SIZE), lambda i, j: a[i, j] + b[i, j], name="c")
    return te.create_schedule(c.op), [a, b, c]


@tvm.tir.transform.prim_func_pass(opt_level=0)
def vectorize8(func, mod, ctx):
    """The innermost loop becomes one over vectors of 8."""
    found = []

    def note(op):
        if isinstance(op, tvm.tir.For) and op.extent.value % 8 == 0:
            found.append(op)

    tvm.tir.stmt_functor.post_order_visit(func.body, note)

    def rewrite(op):
        if op is not found[0]:
            return None
        outer, inner = te.var("j.outer"), te.var("j.inner")
        body = tvm.tir.stmt_functor.substitute(op.body, {op.loop_var: outer * 8 + inner})
        body = tvm.tir.For(inner, 0, 8, tvm.tir.ForKind.VECTORIZED, body)
        return tvm.tir.For(outer, 0, op.extent // 8, tvm.tir.ForKind.SERIAL, body)
    return func.with_body(tvm.tir.stmt_functor.ir_transform(func.body, rewrite, None, ["tir.For"]))


def test_a_pass_among_those_of_lower():
    s, args = schedule()
    assert ":at + 8]" not in str(tvm.lower(s, args))
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, vectorize8)]}):
        text = str(tvm.lower(s, args))
        assert "T.grid(48, 6)" in text and "[at:at + 8]" in text
        built = tvm.build(s, args, "llvm")
    x, y = np.random.default_rng(0).random((2, SIZE, SIZE), np.float32)
    out = tvm.nd.empty((SIZE, SIZE))
    built(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), x + y)


@pytest.mark.parametrize("phase", [0, 1, 2, 3])
def test_phases(phase):
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def look(func, mod, ctx):
        seen.append("T.block(" in str(func))
        return func

    s, args = schedule()
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(phase, look)]}):
        tvm.lower(s, args)
    assert seen == [phase == 0]


@pytest.mark.parametrize("value", [[(4, vectorize8)], [(1, "x")], [(1,)]])
def test_phases_that_are_refused(value):
    with pytest.raises(ValueError, match="'tir.add_lower_pass' is a list of .phase, pass., phase 0, 1, 2 or 3"):
        tvm.transform.PassContext(config={"tir.add_lower_pass": value})


def test_tempdir():
    temp = utils.tempdir()
    s, args = schedule()
    tvm.build(s, args, name="add").export_library(temp.relpath("add.tar"))
    assert temp.listdir() == ["add.tar"]
    with utils.tempdir() as other:
        open(other.relpath("a"), "w").close()
        assert other.listdir() == ["a"]
    temp.remove()


def test_values_of_scripts():
    assert tvm.runtime.convert([1, "a"])[1].value == "a" and tvm.runtime.convert(3) == 3
    assert tvm.DataType("float32x4").lanes == 4 and tvm.runtime.DataType("int8").bits == 8
    assert str(tvm.ir.Range(2, 5).extent) == "3" and tvm.ir.Range(8).min.value == 0
    assert isinstance(tvm.tir.Range(tvm.tir.const(0), tvm.tir.const(2)), tvm.ir.Range)
    assert repr(tvm.ir.Range(2, 5)) == "I.Range(2, 5)"
    call = tvm.tir.exp(tvm.tir.Var("x", "float32"))
    assert call.op.name == "tir.exp" and call.op == tvm.ir.Op.get("tir.exp") and call.same_as(call)


def test_the_target_around_is_that_of_build():
    s, args = schedule()
    with tvm.target.Target("c"):
        assert "for target c:" in tvm.build(s, args).get_source()
    assert "for target c:" not in tvm.build(s, args, tvm.target.Target(target="llvm", host="llvm")).get_source() or \
        tvm.Target("host").name == "c"
