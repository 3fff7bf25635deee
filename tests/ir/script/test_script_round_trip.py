"""parse(print(program)) is the program: over TE, schedules, every lowering pass, whole networks and random programs."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import needs_zoo, tiny_names, with_symbolic_batch, zoo
from tir_cases import CASES

from ingot.api import load
from ingot.codegen.compile import Options, lower
from ingot.ir import expr as E
from ingot.ir import tir
from ingot.ir.expr import FloatImm, IterVar, Range, Var, const
from ingot.ir.node import collect, structural_equal
from ingot.ir.script import metadata
from ingot.ir.transform.context import PassContext
from ingot.ir.transform.instrument import PassInstrument
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.script import from_source

STAGES = ("relax", "fused", "tir", "scheduled", "lowered")


def defined_twice(func):
    """Whether one variable or buffer object is defined in two places: no text can say so."""
    found = [id(v) for block in collect(func, tir.Block) for v in (*(iv.var for iv in block.iter_vars),
                                                                   *block.alloc_buffers)]
    found += [id(s.loop_var) for s in collect(func, tir.For)] + [id(s.buffer) for s in collect(func, tir.DeclBuffer)]
    return len(found) != len(set(found))


class CheckEach(PassInstrument):
    def run_after_pass(self, mod, info):
        for func in mod.functions.values():
            check_function(func, info.name)


def check_function(func, what="", check_well_formed=True):
    text = str(func)
    back = from_source(text, check_well_formed=check_well_formed)
    assert str(back) == text, what
    if not defined_twice(func):
        assert structural_equal(back, func), f"{what}\n{text}"


@pytest.mark.parametrize("name", CASES)
def test_programs_after_every_pass(name):
    func = CASES[name]()
    check_function(func)
    with PassContext(instruments=[CheckEach()]):
        lower_prim_func(func)


# ---------------------------------------------------------------- networks

def check_stages(mod):
    stages = lower(mod, Options.check())
    for stage in STAGES:
        mod = getattr(stages, stage)
        text = mod.script()
        back = from_source(text, metadata(mod))
        assert back.script() == text, stage
        assert sorted(back.functions) == sorted(mod.functions)  # printed in TVM's order: prim_funcs first, main last
        for name, func in mod.functions.items():
            assert structural_equal(back[name], func, map_free_vars=True), f"{stage}: {name}\n{func}"
        assert structural_equal(back.attrs, mod.attrs, map_free_vars=True)


@needs_zoo
@pytest.mark.parametrize("name", tiny_names)
def test_networks_at_every_stage(name):
    check_stages(load(zoo().load(name), None, None))


@needs_zoo
def test_networks_with_a_symbolic_batch():
    check_stages(load(with_symbolic_batch(zoo().load("tiny_resnet8")), None, None))


@needs_zoo
def test_a_module_with_shared_dimensions_is_equal_as_a_whole():
    """The dimension of the module's attributes is that of its functions."""
    mod = load(with_symbolic_batch(zoo().load("tiny_resnet8")), None, None)
    assert "    batch = T.int64()" in mod.script()
    assert structural_equal(from_source(mod.script(), metadata(mod)), mod)


@needs_zoo
def test_a_thousand_lines():
    """A module of the size that parsing and printing are timed on: both take well below a second."""
    mod = lower(load(zoo().load("tiny_vww"), None, None), Options.check()).scheduled
    text = mod.script()
    assert text.count("\n") > 1000 and from_source(text, metadata(mod)).script() == text


# ---------------------------------------------------------------- random expressions and statements

I, J, N, X = Var("i"), Var("j"), Var("n", "int64"), Var("x", "float32")
HALF = Var("h", "float16")
BUFFER = tir.decl_buffer((16, 16), "float32", "A")
DTYPES = ("bool", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "int1", "int2",
          *(f"{u}int{b}" for u in ("", "u") for b in (4, 8, 16, 32, 64)), "uint2")
ARITHMETIC = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Div, E.Mod, E.Min, E.Max)
INTEGERS = st.recursive(
    st.one_of(st.sampled_from([I, J]), st.integers(-3, 9).map(const)), lambda below: st.one_of(
        st.builds(lambda c, a, b: c(a, b), st.sampled_from(ARITHMETIC), below, below),
        st.builds(lambda a: E.Sub(const(0), a), below),
        st.builds(lambda a, b, c, d: E.Select(E.LT(a, b), c, d), below, below, below, below),
        st.builds(lambda a: E.Cast("int32", E.Cast("int64", a)), below),
        st.builds(lambda a, b: (a << 2) ^ (~b >> 1 & 3) | 1, below, below), st.builds(tir.clz, below),
        st.builds(lambda a, b: (lambda v: E.Let(v, a, E.Add(v, b)))(Var("v")), below, below)), max_leaves=7)
CONDITIONS = st.recursive(
    st.builds(lambda c, a, b: c(a, b), st.sampled_from((E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)), INTEGERS, INTEGERS),
    lambda below: st.one_of(st.builds(lambda c, a, b: c(a, b), st.sampled_from((E.And, E.Or, E.EQ)), below, below),
                            st.builds(E.Not, below), st.builds(tir.likely, below)), max_leaves=4)
FLOATS = st.recursive(
    st.one_of(st.just(X), st.floats(width=32).map(lambda v: FloatImm("float32", v)),
              st.builds(lambda a, b: BUFFER[a, b], INTEGERS, INTEGERS), st.just(E.Cast("float32", HALF)),
              st.builds(lambda a: E.Cast("float32", a), INTEGERS)),
    lambda below: st.one_of(
        st.builds(lambda c, a, b: c(a, b), st.sampled_from((E.Add, E.Sub, E.Mul, E.Div, E.Min, E.Max)), below, below),
        st.builds(tir.exp, below), st.builds(tir.power, below, below), st.builds(tir.fma, below, below, below),
        st.builds(lambda v, dtype: E.Cast("float32", E.Cast(dtype, v)), below, st.sampled_from(DTYPES)),
        st.builds(lambda dtype: E.Cast("float32", const(0, dtype)), st.sampled_from(DTYPES)),
        st.builds(lambda v, dtype: E.Cast("float32", const(v, dtype)), st.floats(-400, 400),
                  st.sampled_from([d for d in DTYPES if "float" in d])),
        st.builds(tir.if_then_else, CONDITIONS, below, below),
        st.builds(lambda a, b: tir.call_extern("float32", "f", a, b, "text\n\"'"), below, INTEGERS)), max_leaves=5)


def statements(below):
    def loop(kind, low, extent, body):
        return tir.For(Var("k"), const(low), const(extent), kind, body)

    def block(value, guard, body):
        v = Var("v_k")
        read = tir.BufferRegion(BUFFER, (Range(I, const(1)), Range(E.Mul(J, const(4)), const(4))))
        made = tir.Block((IterVar(Range(const(0), const(16)), v, "spatial"),), (read,), (), "b", (), (), {"a": 1},
                         None, body)
        return tir.BlockRealize((value,), guard, made)

    def declared(body):
        return tir.DeclBuffer(tir.decl_buffer((4,), "int8", "t", scope="local"), body)

    def let(value, body):
        return tir.LetStmt(Var("y", "float32"), value, body)

    def launch(tag, key, extent, body):
        thread = IterVar(Range(const(0), const(extent)), Var("tx"), "thread", tag)
        return tir.AttrStmt(thread, key, const(extent), body)

    def viewed(body):
        view = tir.decl_buffer((256,), "float32", "flat", data=BUFFER.data)
        return tir.SeqStmt((tir.BufferStore(view, view[I], (J,)), tir.Evaluate(view[J])))

    return st.one_of(
        st.builds(loop, st.sampled_from(("serial", "parallel", "unrolled")), st.integers(0, 2), st.integers(1, 8),
                  below),
        st.builds(lambda c, a, b: tir.IfThenElse(c, a, b), CONDITIONS, below, st.one_of(st.none(), below)),
        st.builds(lambda a, b: tir.SeqStmt((a, b)), below.filter(lambda s: not isinstance(s, tir.SeqStmt)),
                  below.filter(lambda s: not isinstance(s, tir.SeqStmt))),
        st.builds(block, INTEGERS, CONDITIONS, below), st.builds(declared, below), st.builds(let, FLOATS, below),
        st.builds(lambda c, s: tir.AssertStmt(c, tir.StringImm("no"), s), CONDITIONS, below),
        st.builds(lambda s: tir.AttrStmt(BUFFER, "key", const(3), s), below),
        st.builds(launch, st.just("threadIdx.x"), st.just("thread_extent"), st.integers(1, 64), below),
        st.builds(launch, st.just("vthread.y"), st.just("virtual_thread"), st.integers(1, 4), below),
        st.builds(viewed, below),
        st.builds(tir.While, CONDITIONS, below))


STATEMENTS = st.recursive(
    st.one_of(st.builds(lambda v, a, b: tir.BufferStore(BUFFER, v, (a, b)), FLOATS, INTEGERS, INTEGERS),
              st.builds(tir.Evaluate, INTEGERS)), statements, max_leaves=6)


def in_function(body):
    return tir.prim_func([BUFFER, I, J, N, X, HALF], body)


@settings(max_examples=150, deadline=None)
@given(FLOATS)
def test_random_expressions(e):
    check_function(in_function(tir.Evaluate(e)))


@settings(max_examples=150, deadline=None)
@given(STATEMENTS)
def test_random_statements(body):
    func = in_function(body)
    check_function(func, check_well_formed=False)
    if not collect(body, tir.Block):
        check_function(func.replace(body=body), check_well_formed=False)  # as after lowering: no root block


@settings(max_examples=50, deadline=None)
@given(st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
                              st.booleans().map(const),
                              st.builds(const, st.integers(-9, 9), st.sampled_from(["int8", "int32", "float16"]))),
                    lambda below: st.one_of(st.lists(below, max_size=3), st.lists(below, max_size=3).map(tuple),
                                            st.dictionaries(st.text(max_size=3), below, max_size=3)), max_leaves=5))
def test_random_attributes(value):
    func = in_function(tir.Evaluate(I)).with_attr("value", value)
    assert structural_equal(from_source(str(func)), func), str(func)


@pytest.mark.parametrize("offset", [const(0), const(0, "int64"), const(4), Var("o")])
@pytest.mark.parametrize("factor", [1, 4])
def test_layouts_of_buffers(offset, factor):
    s = Var("s")
    a = tir.decl_buffer((4, 4), "int8", "a", "shared", (s, const(1)), offset, 16, factor)
    b = tir.decl_buffer((8,), "float64", "b", elem_offset=const(0), offset_factor=factor, data=a.data)
    func = tir.prim_func([a], tir.BufferStore(a, const(0, "int8"), (I, I)), alloc_buffers=[b])
    check_function(func.replace(params=(*func.params, I)))


def test_arrays_in_attributes():
    func = in_function(tir.Evaluate(I)).with_attr("table", np.array([[1.5, -0.0]], "float32"))
    assert structural_equal(from_source(str(func)), func)


def test_index_maps_in_attributes():
    turned = tir.IndexMap.from_func(lambda i, j: (j // 4, i, j % 4, 2), index_dtype="int64")
    narrow = tir.IndexMap.from_func(lambda i: (i // 4, i % 4))
    func = in_function(tir.Evaluate(I)).with_attr("maps", [turned, narrow])
    text = str(func)
    assert structural_equal(from_source(text), func), text
    assert "T.index_map(lambda i_1, j_1: (j_1 // T.int64(4), i_1, j_1 % T.int64(4), T.int64(2)))" in text
    assert 'index_dtype="int32")]' in text


def test_a_variable_of_two_lets_and_statements_in_statements():
    v = Var("v")
    first, second = (tir.LetStmt(v, const(n), tir.Evaluate(v)) for n in (1, 2))
    func = tir.PrimFunc((v,), {}, tir.SeqStmt((tir.SeqStmt((first, second)), tir.Evaluate(v))), {})
    assert len(func.body) == len(tir.SeqStmt(s for s in (func.body,))) == 3
    text = str(func)
    assert "with T.LetStmt(1, var=v):" in text
    assert structural_equal(from_source(text, check_well_formed=False), func), text


def test_threads_of_loops():
    thread = IterVar(None, "t", "thread", "threadIdx.x")
    loop = tir.For(I, const(0), const(8), "thread_binding", tir.Evaluate(I), thread)
    thread = loop.thread_binding
    assert thread == thread.thread_tag == "threadIdx.x" and thread.dom.extent.value == 8 and thread.var.dtype == "int32"
    check_function(tir.PrimFunc((), {}, loop, {}))
    assert type(IterVar(Range(const(0), const(8)), I, "thread", loop.thread_binding).thread_tag) is str


def test_functions_in_functions_and_the_order_of_dimensions():
    text = """# from tvm.script import ir as I
# from tvm.script import tir as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    m = T.int64()
    n = T.int64()
    @R.function
    def g(x: R.Tensor((n,), dtype="float32"), y: R.Tensor((m,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        return x

    @R.function
    def main(x: R.Tensor((m,), dtype="float32"), y: R.Tensor((n,), dtype="float32")) -> R.Tensor((m,), dtype="float32"):
        # from tvm.script import relax as R

        @R.function
        def inner(z: R.Tensor(("k", "m"), dtype="float32")) -> R.Tensor(("k", "m"), dtype="float32"):
            k = T.int64()
            gv: R.Tensor((k, m), dtype="float32") = R.add(z, z)
            return gv

        f: R.Callable((R.Tensor,), R.Tensor, True) = R.ExternFunc("f")
        gv: R.Tensor((m,), dtype="float32") = R.hint_on_device(x, R.device(dev_type=1, dev_id=0))
        return gv
"""
    mod = from_source(text)
    again = from_source(mod.script())
    assert structural_equal(again, mod) and again.script() == mod.script()
    inner, f, gv = (b for b in mod["main"].body.blocks[0].bindings)
    assert gv.var.name == "gv" and len(f.var.struct_info.params) == 1 and gv.value.attrs["dst_vdevice"].device_type == 1
    shape, added = inner.value.params[0].struct_info.shape, inner.value.body.blocks[0].bindings[0].var.struct_info.shape
    assert shape[0] is added[0] and shape[1] is added[1]
