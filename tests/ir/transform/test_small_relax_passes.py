"""Small passes over graph functions: TopologicalSort, ComputePrimValue, AnnotateTIROpPattern; functions that are
inlined, and passes over some functions."""
import numpy as np
import pytest

from ingot import cpu, register_func
from ingot.ir.module import GlobalVar
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.script.functions import from_source
from ingot.ir.transform import ApplyPassToFunction
from ingot.relax import BlockBuilder, Call, TensorStructInfo, Var, VirtualMachine, build, extern
from ingot.relax import transform as T
from ingot.relax.analysis import well_formed

FLOW = '''
@R.function
def main(a: R.Tensor((2,), "float32")):
    with R.dataflow():
        b1 = R.add(a, a)
        b2 = R.nn.relu(a)
        c1 = R.add(a, b1)
        c2 = R.add(a, b2)
        unused = R.exp(c1)
        d = R.add(c1, c2)
        R.output(d)
    return d
'''


def module(text):
    return from_source("@I.ir_module\nclass M:\n" + "\n".join("    " + line for line in text.strip().splitlines()))


INSIDE = '''
@R.function
def main(x: R.Tensor(("n",), "float32")):
    y = cls.twice(x)
    z = cls.twice(y)
    return R.add(y, z)

@R.function(private=True)
def twice(x: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
    unused = R.exp(x)
    z = R.add(x, x)
    return z
'''


def test_functions_are_put_where_they_are_called():
    mod = module(INSIDE)
    inlined = mod["main"].inline_functions({"twice": mod["twice"]})
    assert evaluate(inlined, [np.float32([1, 2])]).tolist() == [6, 12]
    assert not collect(inlined, GlobalVar) and inlined.ret_struct_info == inlined.params[0].struct_info
    assert structural_equal(mod["main"].inline_functions({GlobalVar("twice"): mod["twice"]}), inlined)
    again = module(INSIDE.replace("R.add(x, x)", "cls.twice(x)"))["twice"]
    with pytest.raises(ValueError, match="twice calls itself"):
        mod["main"].inline_functions({"twice": again})


def test_a_pass_changes_functions_of_matching_names():
    mod = module(INSIDE + INSIDE.split("\n\n")[1].replace("twice", "other"))
    after = ApplyPassToFunction(T.DeadCodeElimination(), "tw.*")(mod)
    assert len(after["twice"].bindings) == 1 and len(after["other"].bindings) == 2
    assert "global_symbol" not in after["twice"].attrs and after["main"] is mod["main"]
    assert ApplyPassToFunction(T.DeadCodeElimination(), "none")(mod).functions == mod.functions
    with pytest.raises(ValueError, match="No function matched regex 'wi'; there are main, twice, other"):
        ApplyPassToFunction(T.DeadCodeElimination(), "wi", error_if_no_function_matches_regex=True)(mod)


@pytest.mark.parametrize("order, direction, names", [
    ("depth-first", "from-inputs", "b1 c1 unused b2 c2 d"),
    ("breadth-first", "from-inputs", "b1 b2 c1 c2 unused d"),
    ("depth-first", "from-outputs", "b1 c1 unused b2 c2 d"),
    ("breadth-first", "from-outputs", "b1 b2 c1 c2 d unused"),
])
def test_topological_sort(order, direction, names):
    sorted_ = T.TopologicalSort(order, direction)(module(FLOW))
    met = [b.var.name for b in sorted_["main"].bindings]
    assert sorted(met) == sorted(names.split())
    assert all(met.index(a) < met.index(b) for a, b in
               (("b1", "c1"), ("b2", "c2"), ("c1", "d"), ("c2", "d"), ("c1", "unused")))
    assert (met.index("c1") < met.index("b2")) == (order == "depth-first"), met
    with pytest.raises(ValueError, match="Invalid value for traversal order"):
        T.TopologicalSort("sideways", direction)(module(FLOW))


def test_numbers_of_dimensions_are_computed_by_functions():
    mod = T.ComputePrimValue()(module('''
@R.function(pure=False)
def main(a: R.Tensor(("n",), "float32")):
    n = T.int64()
    _ = R.assert_op(R.prim_value(n % 16 == 0), R.prim_value(n))
    return a
'''))
    made, = (f for name, f in mod.functions.items() if name == "compute_symbolic_expr")
    assert [p.name for p in made.params] == ["n"] and made.attrs["tir.is_host_func"] is True
    assert "compute_symbolic_expr(R.prim_value(n))" in mod.script() and "n % T.int64(16)" in made.script()
    mod = T.ComputePrimValue()(module('''
@R.function
def main(n_: R.Prim(value="n")):
    n = T.int64()
    out = R.prim_value(n * n)
    return out
'''))
    assert well_formed(mod) and "compute_symbolic_expr(R.prim_value(n))" in mod.script()


def test_a_module_may_name_the_functions_of_others():
    register_func("test.passes.more", lambda x: x.numpy() + 1, override=True)
    builder, info = BlockBuilder(), TensorStructInfo((2,), "float32")
    more = builder.add_func(extern("test.passes.more"), "more")
    x = Var("x", info)
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(Call(more, [x], sinfo_args=[info])))
    mod = builder.get()
    for name in ("DeadCodeElimination", "InlinePrivateFunctions", "AttachGlobalSymbol", "NormalizeGlobalVar"):
        mod = getattr(T, name)()(mod)
        assert list(mod.functions) == ["more", "main"]
    assert VirtualMachine(build(mod), cpu())["main"](np.zeros(2, "float32")).numpy().tolist() == [1, 1]


def test_patterns_of_kernels():
    mod = T.AnnotateTIROpPattern()(module('''
@T.prim_func
def rows(a: T.Buffer((4, 8), "float32"), b: T.Buffer((8,), "float32"), c: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("c"):
            u, v = T.axis.remap("SS", [i, j])
            c[u, v] = a[u, v] + b[v]
@T.prim_func
def spread(b: T.Buffer((8,), "float32"), c: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("c"):
            u, v = T.axis.remap("SS", [i, j])
            c[u, v] = b[v]
@T.prim_func
def turned(a: T.Buffer((8, 4), "float32"), c: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("c"):
            u, v = T.axis.remap("SS", [i, j])
            c[u, v] = a[v, u]
@T.prim_func
def sums(a: T.Buffer((4, 8), "float32"), c: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("c"):
            u, v = T.axis.remap("SR", [i, j])
            with T.init():
                c[u] = T.float32(0)
            c[u] = c[u] + a[u, v]
@T.prim_func
def product(a: T.Buffer((4, 8), "float32"), b: T.Buffer((8, 4), "float32"), c: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 8):
        with T.block("c"):
            u, v, w = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[u, v] = T.float32(0)
            c[u, v] = c[u, v] + a[u, w] * b[w, v]
@T.prim_func
def pool(a: T.Buffer((11,), "float32"), c: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("c"):
            u, v = T.axis.remap("SR", [i, j])
            with T.init():
                c[u] = T.float32(0)
            c[u] = T.max(c[u], a[u + v])
@T.prim_func
def scatter(a: T.Buffer((8,), "float32"), c: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("c"):
            u = T.axis.spatial(8, i)
            c[u + 1] = a[u]
'''))
    kinds = {name: f.attrs["op_pattern"] for name, f in mod.functions.items()}
    assert kinds == {"rows": 0, "spread": 1, "turned": 2, "sums": 3, "product": 4, "pool": 4, "scatter": 8}


def test_canonical_bindings_see_through_names():
    mod = module('''
@R.function
def main(p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")), x: R.Tensor(("n", 4), "float32")):
    n, a, b = T.int64(), T.int64(), T.int64()
    one = p[0]
    two = p[1]
    back = (one, two)
    with R.dataflow():
        c = R.const(2.0, "float32")
        y = R.multiply(one, c)
        z = y
        m = R.match_cast(x, R.Tensor((a, b), "float32"))
        s = R.strided_slice(m, (R.prim_value(1),), (R.prim_value(0),), (R.prim_value(b),))
        R.output(y, z, s)
    return (back, z, s)
''')
    func = T.CanonicalizeBindings()(mod)["main"]
    whole, y, s = func.body.body.fields
    assert whole is func.params[0]
    assert [b.var.name for b in func.bindings] == ["one", "two", "c", y.name, "s"]
    assert func.bindings[4].value.attrs["end"] == (4,) or list(func.bindings[4].value.attrs["end"]) == [4]
    assert s.struct_info.shape[1].value == 4


def test_what_a_block_hides_is_not_named_after_it():
    """Neither the fields of a tuple that leaves a block, nor a tuple whose items do."""
    mod = module('''
@R.function
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        hidden = R.exp(x)
        pair = (hidden, x)
        parts = R.split(x, 2)
        one = parts[0]
        two = parts[1]
        R.output(pair, one, two)
    first = pair[0]
    second = pair[1]
    return (R.negative(first), second, (one, two))
''')
    after = T.CanonicalizeBindings()(mod)
    assert well_formed(after)
    x = np.float32([1, 2])
    found, wanted = (evaluate(m, [x]) for m in (after, mod))
    for a, b in zip((*found[:2], *found[2]), (*wanted[:2], *wanted[2]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert after["main"].body.body.fields[1] is after["main"].params[0]


def test_fuse_ops_leaves_items_outside():
    mod = module('''
@R.function
def main(p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
    with R.dataflow():
        x = p[1]
        unused = R.exp(x)
        y = R.add(x, x)
        z = R.exp(y)
        R.output(z)
    return z
''')
    mod = T.FuseOps()(T.AnnotateTIROpPattern()(T.LegalizeOps()(mod)))
    fused = [f for f in mod.functions.values() if f.attrs.get("Primitive")]
    assert [len(f.params) for f in fused] == [1] and fused[0].params[0].struct_info.ndim == 1
    assert len(mod["main"].bindings) == 2


AXES = '''
@T.prim_func(private=True)
def twice(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4, 8), "float32", axis_separators=[1])
    B = T.match_buffer(b, (4, 8), "float32", axis_separators=[1])
    for i, j in T.grid(4, 8):
        with T.block("twice"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)

@T.prim_func(private=True)
def total(A: T.Buffer((4, 8), "float32"), b: T.handle):
    B = T.match_buffer(b, (4, 8), "float32", axis_separators=[1])
    for i, j in T.grid(4, 8):
        with T.block("total"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)

@R.function(private=True)
def group(p: R.Tuple(R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32"))) -> R.Tensor((4, 8), "float32"):
    R.func_attr({"Primitive": 1})
    with R.dataflow():
        x = p[0]
        y = R.call_tir(cls.twice, (x,), R.Tensor((4, 8), "float32"))
        z = R.call_tir(cls.twice, (y,), R.Tensor((4, 8), "float32"))
        R.output(z)
    return z

@R.function
def main(x: R.Tensor((4, 8), "float32")):
    with R.dataflow():
        z = cls.group((x, x))
        R.output(z)
    return z
'''


def test_fused_kernels_keep_axes_of_memory():
    mod = T.FuseTIR()(module(AXES))
    assert [b.axis_separators for b in mod["group"].buffers] == [(1,), (1,)]
    assert [b.axis_separators for b in mod["group"].root.alloc_buffers] == [(1,)]
    with pytest.raises(ValueError, match=r"Inconsistent buffers .*\[1\].* and A .*\[\].* same relax var: x"):
        T.FuseTIR()(module(AXES.replace("cls.twice, (y,)", "cls.total, (x,)")))
    with pytest.raises(ValueError, match="same relax var: y"):
        T.FuseTIR()(module(AXES.replace("cls.twice, (y,)", "cls.total, (y,)")))
