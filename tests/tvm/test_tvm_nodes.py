"""Nodes as TVM's constructors make them, their names, and what they refuse."""
import numpy as np
import pytest

import ingot as tvm
from ingot import ir, te, tir
from ingot.script import ir as I, relax as R, tir as T


def test_allocate_is_a_declared_buffer():
    pointer = tir.Var("buf", ir.PointerType(ir.PrimType("float32"), "shared"))
    i = tir.Var("i")
    made = tir.Allocate(pointer, "float32", [10, 2], tir.const(True), tir.Evaluate(0))
    assert isinstance(made, tir.Allocate) and not isinstance(tir.Evaluate(0), tir.Allocate)
    assert made.buffer_var is pointer and made.dtype == "float32" and made.buffer.scope == "shared"
    assert [int(e) for e in made.extents] == [10, 2]
    with pytest.raises(ValueError, match="buf is allocated where i > 2: put the allocation in an IfThenElse"):
        tir.Allocate(pointer, "float32", [10], i > 2, tir.Evaluate(0))


def test_nodes_that_no_pipeline_takes():
    b = tir.decl_buffer((10, 4), "float32")
    A = te.placeholder((4,), name="A")
    store = tir.ProducerStore(A, 1, [0])
    assert store.value.dtype == "float32" and store.indices[0].value == 0
    box = [ir.Range(0, 1), ir.Range(2, 4)]
    assert tir.BufferRealize(b, box, True, tir.Evaluate(0)).bounds == tuple(box)
    assert tir.ProducerRealize(A, box[:1], True, tir.Evaluate(0), "local").storage_scope == "local"
    x = tir.Var("x", "int32x4")
    shuffle = tir.Shuffle([x, x], [3, 0])
    assert shuffle.dtype == "int32x2" and tir.Shuffle([x], [0]).dtype == "int32"
    assert ir.structural_equal(shuffle, tir.Shuffle([x, x], [3, 0])) and "Shuffle" in str(shuffle)
    with pytest.raises(ValueError, match="a Shuffle takes lanes of what is loaded"):
        tvm.build(tir.PrimFunc([x], tir.Evaluate(tir.call_extern("int32", "f", tir.Shuffle([x], [0])))))


def test_masks_of_accesses():
    b, scale = tir.decl_buffer((24,), "float32"), tir.vscale() * 4
    for lanes, index, n in ((4, tir.Ramp(8, 1, 4), 4), (scale, tir.Ramp(0, 1, scale), None)):
        at = int(index.base)
        mask = tir.get_active_lane_mask("uint1x4" if n else "uint1xvscalex4", at, 10)
        load = tir.BufferLoad(b, [index], mask)
        assert load.indices[0].count is not None and ir.structural_equal(load, b.vload([index], predicate=mask))
        store = tir.BufferStore(b, load, [index], mask)
        assert ir.structural_equal(store, b.vstore([index], load, predicate=mask))
    plain = tir.BufferLoad(b, [tir.Ramp(0, 1, 4)])
    for mask, why in ((tir.Broadcast(1, 4), "must be boolean values, but got int32"),
                      (tir.Broadcast(tir.const(True), 8), "a predicate mask with 8 lanes, but trying to .* with 4 lanes"),
                      (tir.Broadcast(tir.const(True), scale), "must both be scalable")):
        with pytest.raises(TypeError, match=why):
            tir.BufferLoad(b, [tir.Ramp(0, 1, 4)], mask)
        with pytest.raises(TypeError, match=why):
            tir.BufferStore(b, plain, [tir.Ramp(0, 1, 4)], mask)
    with pytest.raises(TypeError, match="T.vscale.. times a number of them"):
        tir.Ramp(0, 1, tir.vscale() + 3)


def test_kinds_of_expressions():
    x = tir.Var("x")
    assert isinstance(x + 1, tir.BinaryOpExpr) and isinstance(x < 1, tir.CmpExpr)
    assert isinstance(tir.const(1), tir.ConstExpr) and not isinstance(x, tir.ConstExpr)
    assert isinstance(tir.Not(x < 1), tir.LogicalExpr) and isinstance(x, tir.expr.ExprOp)
    assert str(tir.generic.multiply(2, x)) == "2 * x" and tir.generic.cast(x, "int64").dtype == "int64"
    pair = tir.stmt_seq(tir.Evaluate(0), tir.call_extern("int32", "f"))
    assert len(pair) == 2 and isinstance(pair[1], tir.Evaluate)
    assert issubclass(tvm.error.OpNotImplemented, (tvm.error.OpError, NotImplementedError))


@T.prim_func
def copied(A: T.handle, n: T.int32, B: T.Buffer((16,), "float32")):
    C = T.match_buffer(A, (n,), "float32")
    D = T.alloc_buffer((n,), "float32")
    for i in range(n):
        D[i] = C[i] * T.float32(2)
    for i in range(n):
        B[i] = D[i]


def test_variables_of_shapes_are_replaced():
    n = copied.params[1]
    body = tir.stmt_functor.substitute(copied.body, {n: 16})
    buffer = body.block.alloc_buffers[0]
    assert buffer.shape[0].value == 16 and not any(v is n for v in tir.free_vars(body))
    stores = {s.buffer.name: s.buffer for s in ir.node.collect(body, tir.BufferStore)}
    assert stores["D"] is buffer and stores["B"] is copied.buffers[1]


def test_two_parameters_of_one_memory():
    @T.prim_func
    def doubled(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] * T.float32(2)

    a, b = doubled.params
    assert doubled.specialize({}) is doubled
    after = doubled.specialize({b: doubled.buffer_map[a]})
    assert after.buffer_map[b].data is after.buffer_map[a].data and len(after.params) == 2


def test_a_pointer_of_an_expression():
    p, q = (tir.Var(x, ir.PointerType(ir.PrimType("float32"))) for x in "pq")
    A, B = tir.decl_buffer((32,), data=p), tir.decl_buffer((16,), data=q)
    func = tir.PrimFunc([p, q], tir.BufferStore(B, A[0], [1]))
    after = func.specialize({q: tir.address_of(A[16])})
    assert after.params == (p,) and isinstance(after.body, tir.LetStmt) and after.body.var is q
    assert func.specialize({q: p}).body.buffer.data is p
    with pytest.raises(ValueError, match="parameter q is of handle, 1 of int32"):
        func.specialize({q: 1})


def test_the_struct_info_of_a_prim_func():
    @T.prim_func(private=True)
    def tenfold(n: T.int32) -> T.int32:
        T.ret(n * 10)

    Prim = tvm.relax.PrimStructInfo
    ir.assert_structural_equal(tenfold.struct_info, tvm.relax.FuncStructInfo([Prim("int32")], Prim("int32")))
    after = tenfold.specialize({tenfold.params[0]: 5})
    ir.assert_structural_equal(after.struct_info, tvm.relax.FuncStructInfo([], Prim("int32")))
    assert tvm.build(after)() == 50
    stores = copied.struct_info
    assert not stores.purity and stores.params[2].dtype == "float32" and len(stores.params) == 3


@I.ir_module
class Calls:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = Calls.twice(x)
        return R.call_tir(Calls.copy, (y,), out_sinfo=R.Tensor((4,), "float32"))

    @R.function(private=True)
    def twice(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.add(x, x)

    @T.prim_func
    def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("copy"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]


def test_functions_by_other_names():
    found = ir.analysis.collect_call_map(Calls)
    assert {k.name_hint: [v.name_hint for v in vs] for k, vs in found.items()} == {
        "main": ["twice", "copy"], "twice": [], "copy": []}
    assert Calls.replace_global_vars({}) is Calls
    after = Calls.replace_global_vars({"main": "run", ir.GlobalVar("twice"): "double", "copy": "move"})
    assert list(after.functions) == ["run", "double", "move"] and after["move"].attrs["global_symbol"] == "move"
    assert "global_symbol" not in after["double"].attrs
    exe = tvm.relax.build(after)
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(exe["run"](x), x * 2)
    for names, error in (({"copy": "main"}, ValueError), ({"none": "x"}, KeyError)):
        with pytest.raises(error, match="main|none"):
            Calls.replace_global_vars(names)


def test_blocks_depend():
    @T.prim_func
    def stages(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]

    info = tir.BlockDependenceInfo(stages)
    blocks = {b.name_hint: b for b in ir.node.collect(stages.body, tir.Block)}
    first, second = (info.get_sref(blocks[n]) for n in "BC")
    dep, = info.get_block_scope(first.parent).get_deps_by_src(first)
    assert dep.dst is second and dep.kind == tir.block_scope.DepKind.RAW
    with pytest.raises(TypeError, match="an IRModule or a PrimFunc"):
        tir.BlockDependenceInfo(blocks["B"])


def test_names_that_are_free():
    names = ir.NameSupply("net")
    assert [names.fresh_name(n) for n in ("a.b", "a.b", "a_b")] == ["net_a_b", "net_a_b_1", "net_a_b_2"]
    assert names.fresh_name("x", add_prefix=False) == "x" and names.fresh_name("x", False, False) == "x1"
    assert names.reserve_name("y") == "net_y" and names.contains_name("y") and not names.contains_name("z")
    vars_ = ir.GlobalVarSupply(Calls)
    assert vars_.fresh_global("main").name == "main_1" and vars_.unique_global_for("main").name == "main"
    assert vars_.unique_global_for("new") is vars_.unique_global_for("new")
    with pytest.raises(ValueError, match="'main' is taken"):
        vars_.reserve_global(ir.GlobalVar("main"))


def test_registered_functions_in_programs():
    tvm.register_func("test.nodes.add_one", lambda x: x + 1, override=True)
    f = ir.EnvFunc.get("test.nodes.add_one")
    again = ir.load_json(ir.save_json([f]))[0]
    assert f(1) == 2 and again.func(2) == 3 and ir.structural_equal(f, again) and again.name == f.name
    with pytest.raises(ValueError, match="Cannot find global function none"):
        ir.EnvFunc.get("none")


def test_paths():
    root = tvm.runtime.ObjectPath.root()
    from ingot.runtime import object_path
    path = root.attr("body").array_index(2).map_value("k")
    assert isinstance(path, object_path.MapValuePath) and isinstance(path.parent, object_path.ArrayIndexPath)
    assert isinstance(root, object_path.RootPath) and isinstance(root.attr(None), object_path.UnknownAttributeAccessPath)
    assert not isinstance(root.attr(None), object_path.AttributeAccessPath) and str(root.attr(None)).endswith("attribute>")
    assert path.get_prefix(2) == root.attr("body") and path.get_prefix(4) == path
    assert str(type(root).root("f").attr("x")) == "f.x" and type(root).root("f") != root
    for n in (0, 5):
        with pytest.raises(IndexError):
            path.get_prefix(n)


def test_containers():
    values = tvm.runtime.convert([1, 2.5, True, "a", {"k": [3]}])
    assert values.type_key == "Array" and values[4].type_key == "Map" and values[4]["k"] == (3,)
    assert values[2] is True and isinstance(values[3], tir.StringImm) and "a" in values[3:4]
    again = ir.load_json(ir.save_json(values))
    assert again[:3] == (1, 2.5, True) and ir.structural_equal(again, values)
    assert isinstance((), ir.Array) and isinstance([], ir.Array) and isinstance({}, ir.Map)
    assert not isinstance({}, ir.Array) and isinstance(copied.attrs, ir.DictAttrs)
    attrs = ir.make_node("DictAttrs", x=1, name="n")
    assert attrs.x == 1 and attrs["name"] == "n" and len(attrs) == 2
    with pytest.raises(AttributeError, match="no attribute 'y'; there is x, name"):
        attrs.y
    assert ir.make_node("IntImm", dtype="int32", value=10, span=None).value == 10


def test_tensors_in_json():
    a = tvm.nd.array(np.arange(4, dtype="float32"))
    again = ir.load_json(ir.save_json({"key": a}))["key"]
    assert isinstance(again, tvm.nd.NDArray) and ir.structural_equal(a, again)
    np.testing.assert_array_equal(again.numpy(), a.numpy())


def test_settings_as_attributes():
    unroll = tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 10}}).config["tir.UnrollLoop"]
    assert unroll.auto_max_step == 10 and unroll.explicit_unroll is True and dict(unroll) == {"auto_max_step": 10}
    with pytest.raises(AttributeError, match="there is no setting 'none'; there is .*auto_max_depth"):
        unroll.none
    for config in ({"tir.UnrollLoop": {"none": 1}}, {"none": 1}, {"tir.UnrollLoop": 1}):
        with pytest.raises(AttributeError):
            tvm.transform.PassContext(config=config)


def test_numbers_are_converted_to_immediates():
    three = tvm.runtime.convert(3)
    assert isinstance(three, tir.IntImm) and three.dtype == "int32" and tvm.runtime.convert(0.5).dtype == "float32"
    assert isinstance((three == tir.Var("i", "int32")).a, tir.IntImm)
    attrs = ir.make_node("DictAttrs", x=1, padding=(0, 2), name="n")
    assert attrs.x.value == 1 and attrs.padding[1].value == 2 and attrs.name == "n"
    ir.assert_structural_equal((1, 2), [three - 2, tir.IntImm("int32", 2)])
    assert not ir.structural_equal((1, 2), [three, 2])
    A = te.placeholder((4,), name="A")
    made = ir.make_node("Tensor", shape=A.shape, dtype=A.dtype, op=A.op, value_index=0)
    assert made.op is A.op and made.shape[0].value == 4
