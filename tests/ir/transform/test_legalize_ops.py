"""LegalizeOps and FuseOps of scripts: operators as the PrimFuncs of topi, which compute the same."""
import logging

import numpy as np
import pytest

import ingot as tvm
from ingot import relax, topi
from ingot.ir.relax.evaluate import evaluate
from ingot.script import ir as I, tir as T, relax as R  # noqa: E741
from ingot.tvm.relax import transform
from ingot.tvm.relax.transform.legalize_ops.common import register_legalize


@I.ir_module
class Sums:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor(("n", 3), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.add(x, R.const(2, "float32"))
            b = R.add(a, x)
            c = R.add(y, y)
            R.output(b, c)
        return (b, c)


def test_form():
    """Shapes of int64, numbers in the code, names made unique, dimensions that buffers tell not passed."""
    after = transform.LegalizeOps()(Sums)
    assert list(after.functions) == ["main", "add", "add1", "add2"]
    assert after["add"].script().split("\n", 3)[3].strip() == '''
def add(x: T.Buffer((T.int64(2), T.int64(3)), "float32"), T_add: T.Buffer((T.int64(2), T.int64(3)), "float32")):
    T.func_attr({"tir.noalias": True})
    for i0, i1 in T.grid(T.int64(2), T.int64(3)):
        with T.block("T_add"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(x[v_i0, v_i1])
            T.writes(T_add[v_i0, v_i1])
            T_add[v_i0, v_i1] = x[v_i0, v_i1] + T.float32(2.0)
'''.strip() or after["add"].script()
    calls = [b.value for b in after["main"].bindings]
    assert [c.attrs["gv"].name for c in calls] == ["add", "add1", "add2"]
    assert not any(c.attrs["sym_args"] for c in calls)
    dim = after["add2"].buffers[0].shape[0]
    assert dim.name == "n" and dim is not Sums["main"].params[1].struct_info.shape[0]


def test_which_way():
    """A map of one's own goes first, then what is registered; where there is no way the operator stays."""
    turned = transform.LegalizeOps({"relax.add": lambda bb, call: bb.call_te(topi.subtract, *call.args)})(Sums)
    assert "subtract" in turned and "add" not in turned
    before = tvm.ir.Op.get("relax.add").get_attr("FLegalize")
    try:
        register_legalize("relax.add", lambda bb, call: relax.op.multiply(*call.args))
        assert {"multiply", "multiply1"} <= set(transform.LegalizeOps()(Sums).functions)
        tvm.ir.Op.get("relax.add").reset_attr("FLegalize")
        tvm.ir.assert_structural_equal(transform.LegalizeOps()(Sums), Sums)
    finally:
        register_legalize("relax.add", before)


def test_warning(caplog):
    with caplog.at_level(logging.WARNING):
        transform.LegalizeOps({"relax.add": None}, enable_warning=True)(Sums)
    assert "relax.add stays: no legalization is registered" in caplog.text


# operator -> what is called, of tensors of these shapes
CASES = {
    "softmax": (lambda x: R.nn.softmax(x, 1), (2, 3, 4)), "log_softmax": (lambda x: R.nn.log_softmax(x, 0), (3, 4)),
    "layer_norm": (lambda x, g, b: R.nn.layer_norm(x, g, b, [1, 2]), (2, 3, 4), (3, 4), (3, 4)),
    "rms_norm": (lambda x, g: R.nn.rms_norm(x, g, [-1], 1e-3), (2, 3, 4), (4,)),
    "group_norm": (lambda x, g, b: R.nn.group_norm(x, g, b, 2, 1, [2]), (2, 4, 3), (4,), (4,)),
    "mean": (lambda x: R.mean(x, 1, True), (2, 3, 4)), "std": (lambda x: R.std(x, [0, 2]), (2, 3, 4)),
    "max": (lambda x: R.max(x, -1), (2, 3)), "argmin": (lambda x: R.argmin(x, 1), (2, 3)),
    "conv2d": (lambda x, w: R.nn.conv2d(x, w, 2, (1, 0, 1, 2), 2, 2), (1, 4, 7, 8), (6, 2, 3, 2)),
    "conv2d_nhwc": (lambda x, w: R.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="OIHW"),
                    (1, 5, 4, 3), (2, 3, 3, 3)),
    "conv1d_transpose": (lambda x, w: R.nn.conv1d_transpose(x, w, 2, 1, 1, 1, 2), (1, 4, 5), (4, 3, 3)),
    "max_pool2d": (lambda x: R.nn.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True), (1, 2, 6, 5)),
    "avg_pool2d": (lambda x: R.nn.avg_pool2d(x, (3, 2), 2, 1, count_include_pad=False), (1, 2, 6, 5)),
    "avg_pool2d_all": (lambda x: R.nn.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True, count_include_pad=True),
                       (1, 2, 6, 5)),
    "adaptive": (lambda x: R.nn.adaptive_avg_pool2d(x, (3, 2)), (1, 2, 7, 6)),
    "matmul": (lambda a, b: R.matmul(a, b), (2, 1, 3, 4), (5, 4, 2)),
    "dot": (lambda a, b: R.matmul(a, b), (4,), (2, 4, 3)),
    "gelu": (lambda x: R.nn.gelu(x), (2, 3)), "selu": (lambda x: R.nn.selu(x), (2, 3)),
    "leaky": (lambda x: R.nn.leakyrelu(x, 0.1), (2, 3)), "clip": (lambda x: R.clip(x, -0.5, 0.5), (2, 3)),
    "reshape": (lambda x: R.reshape(x, (3, -1)), (2, 3, 4)),
    "concat": (lambda a, b: R.concat([a, b, a], 1), (2, 3), (2, 1)),
    "split": (lambda x: R.split(x, [1, 4], 1)[1], (2, 6)), "flip": (lambda x: R.flip(x, 1), (2, 3)),
    "squeeze": (lambda x: R.squeeze(x, [1]), (2, 1, 3)), "expand": (lambda x: R.expand_dims(x, [0, -1]), (2, 3)),
    "slice": (lambda x: R.strided_slice(x, [1], [4], [0], [-2]), (2, 6)), "triu": (lambda x: R.triu(x, 1), (3, 4)),
    "no scale": (lambda x, g, b: R.nn.layer_norm(x, g, b, [1], scale=False), (2, 3), (3,), (3,)),
    "no center": (lambda x, g: R.nn.batch_norm(x, g, g, g, R.const([1, 2, 3], "float32"), 1, center=False)[0],
                  (2, 3), (3,)),
    "wide": (lambda x: R.clip(x, -float("inf"), 1e39), (2, 3)),
    "pad": (lambda x: R.nn.pad(x, [0, 0, 1, 2]), (2, 3)), "ones": (lambda x: R.ones_like(x), (2, 3)),
}


def module_of(name):
    call, *shapes = CASES[name]
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{n}", relax.TensorStructInfo(s, "float32")) for n, s in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(call(*params))
        builder.emit_func_output(result)
    return builder.get()


def data_of(name):
    rng = np.random.default_rng(len(name))
    return [rng.normal(size=s).astype("float32") for s in CASES[name][1:]]


@pytest.mark.parametrize("name", CASES)
def test_same_numbers(name):
    before, data = module_of(name), data_of(name)
    after = transform.LegalizeOps()(before)
    ops = {b.value.op for b in after["main"].bindings if isinstance(b.value, relax.Call)}
    assert ops == {"call_tir"}
    np.testing.assert_allclose(evaluate(after, data), evaluate(before, data), rtol=1e-4, atol=1e-5)


INTEGERS = {
    "mean": lambda x: R.mean(x, 1), "clip": lambda x: R.clip(x, -3, 300),
    "argmax": lambda x: R.argmax(x, 1), "argmin": lambda x: R.argmin(x, 1, True),
    "astype": lambda x: R.add(x, R.astype(R.const(261, "int32"), x.struct_info.dtype)),
}


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name, dtype):
    """Means towards 0; the place of the least number, too; numbers beyond the dtype."""
    x = relax.Var("x", relax.TensorStructInfo((2, 3), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(INTEGERS[name](x)))
    before, low = builder.get(), np.iinfo(dtype).min
    data = [np.array([[low, low, low], [250, 2, 3]], dtype)] if name.startswith("arg") else [
        np.array([[1, 2, 5], [7, 0, 100]], dtype)]
    np.testing.assert_array_equal(evaluate(transform.LegalizeOps()(before), data), evaluate(before, data))


# ---------------------------------------------------------------- fusion, and what runs

@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((2, 3, 8), "float32"), w: R.Tensor((8, 4), "float32"), b: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            c = R.add(a, b)
            d = R.nn.relu(c)
            e = R.nn.softmax(d, -1)
            f = R.multiply(e, R.const(2, "float32"))
            g = R.call_pure_packed("some.function", f, sinfo_args=R.Tensor((2, 3, 4), "float32"))
            h = R.exp(g)
            R.output(h)
        return h


STEPS = ("LegalizeOps", "AnnotateTIROpPattern", "FuseOps")


def after_steps(mod, *names):
    for name in names:
        mod = getattr(transform, name)()(mod)
    return mod


def test_fuse_ops():
    """A product takes what follows element by element, a softmax too; what is foreign is no part of a group."""
    after = after_steps(Chain, *STEPS)
    groups = {n for n, f in after.functions.items() if f.attrs.get("Primitive")}
    assert groups == {"fused_matmul_add_relu", "fused_softmax_multiply"}
    assert all("global_symbol" not in after[n].attrs for n in groups)
    assert [p.name for p in after["fused_matmul_add_relu"].params] == ["x", "w", "b"]
    assert [b.value.op for b in after["main"].bindings] == ["call", "call", "call_pure_packed", "call_tir"]
    assert transform.FuseOps(fuse_opt_level=0)(after_steps(Chain, *STEPS[:2])).functions.keys().isdisjoint(groups)


def test_diamond():
    """Both ways to a sum are one kernel; a value that leaves the block ends one."""
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.exp(x))
            b = builder.emit_output(relax.op.negative(a))
            c = builder.emit(relax.op.sqrt(b))
            d = builder.emit(relax.op.abs(b))
            e = builder.emit_output(relax.op.add(c, d))
        builder.emit_func_output([b, e])
    after = after_steps(builder.get(), *STEPS)
    assert {n for n in after.functions if n.startswith("fused")} == {
        "fused_tir_exp_tir_negative", "fused_tir_sqrt_tir_abs_add"}


def test_runs():
    """Legalized, fused, built and run by the virtual machine."""
    mod = after_steps(tvm.IRModule({"main": Chain["main"].replace(body=relax.SeqExpr(
        (relax.DataflowBlock(Chain["main"].bindings[:5]),), Chain["main"].bindings[4].var))}), *STEPS, "FuseTIR")
    assert {"fused_matmul_add_relu", "fused_softmax_multiply", "main"} == set(mod.functions)
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=s).astype("float32") for s in ((2, 3, 8), (8, 4), (4,)))
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    y = np.maximum(x @ w + b, 0)
    e = np.exp(y - y.max(-1, keepdims=True))
    np.testing.assert_allclose(vm["main"](*map(tvm.nd.array, (x, w, b))).numpy(), 2 * e / e.sum(-1, keepdims=True),
                               rtol=1e-5)


def test_groups_have_dimensions_of_their_own_and_become_networks():
    """What no axis tells comes as a shape. A module is built alike before FuseTIR and after it."""
    n, k = tvm.tir.Var("n", "int64"), tvm.tir.Var("k", "int64")
    x, s = relax.Var("x", R.Tensor((n, 4), "float32")), relax.Var("s", R.Shape([k]))
    a = np.ones((2, 4), np.float32)
    for params in ([x], [x, s]):
        builder = relax.BlockBuilder()
        with builder.function("main", params):
            with builder.dataflow():
                results = [builder.emit_output(relax.op.nn.relu(relax.op.add(relax.op.exp(x), x)))]
                if s in params:
                    results.append(builder.emit_output(relax.op.exp(relax.op.full((k, 2), relax.const(1.0), "float32"))))
            builder.emit_func_output(results)
        groups = after_steps(builder.get(), *STEPS)
        made = [f for f in groups.functions.values() if f.attrs.get("Primitive")]
        assert [len(f.params) for f in made] == [1] * len(params) and relax.analysis.well_formed(groups)
        for mod in (groups, transform.FuseTIR()(groups)):
            got = relax.VirtualMachine(relax.build(mod, "c"))["main"](a, *[(3,)] * (s in params))
            for y, want in zip(got, (np.exp(a) + a, np.full((3, 2), np.e))):
                np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)


@I.ir_module
class Pairs:
    @R.function(private=True)
    def fused(p: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((5,), "float32"), R.Tensor((4,), "float32")),
              s: R.Shape(["m"])):
        R.func_attr({"Primitive": 1})
        m = T.int64()
        with R.dataflow():
            a = p[0]
            c = p[2]
            d = R.emit_te(topi.add, a, c)
            e = R.emit_te(topi.add, d, c)
            f = R.emit_te(lambda x, k: topi.multiply(x, k.astype("float32")), e, m, primfunc_name_hint="times")
            R.output(f)
        return f

    @R.function
    def main(p: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((5,), "float32"), R.Tensor((4,), "float32")),
             s: R.Shape(["n"])):
        cls = Pairs
        with R.dataflow():
            g = cls.fused(p, s)
            R.output(g)
        return g


def test_emit_te():
    """Functions that expressions describe join the module, equal ones once. A tensor that is given twice is two
    parameters."""
    assert [n for n, f in Pairs.functions.items() if isinstance(f, tvm.tir.PrimFunc)] == ["add", "times"]
    x, builder = relax.Var("x", R.Tensor((4,), "float32")), relax.BlockBuilder()
    with builder.function("main", [x]):
        call = builder.call_te(topi.multiply, x, x)
        builder.emit_func_output(builder.emit(call))
    assert list(call.args) == [x, x] and len(builder.get()["multiply"].params) == 3
    y = relax.VirtualMachine(relax.build(builder.get(), "c"))["main"](np.arange(4, dtype="float32"))
    assert y.numpy().tolist() == [0, 1, 4, 9]


def test_fuse_tir_takes_items_and_dimensions():
    """Of a tuple the items that are read; of a shape the dimension, which is the caller's in its call."""
    after = transform.FuseTIR()(Pairs)
    assert list(after.functions) == ["fused", "main"]
    func = after["fused"]
    assert [b.shape[0].value for b in func.buffers] == [4, 4, 4] and len(func.params) == 4
    *items, call = [b.value for b in after["main"].bindings]
    assert [i.index for i in items] == [0, 2] and len(call.args) == 2
    assert [d.name for d in call.attrs["sym_args"]] == ["n"]


@I.ir_module
class Twice:
    @T.prim_func(private=True)
    def more(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("more"):
                v = T.axis.spatial(4, i)
                y[v] = x[v] + T.float32(1)

    @R.function(private=True)
    def fused(x: R.Tensor((4,), "float32")):
        R.func_attr({"Primitive": 1})
        with R.dataflow():
            a = R.call_tir(Twice.more, (x,), out_sinfo=R.Tensor((4,), "float32"))
            b = R.call_tir(Twice.more, (a,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(a, b)
        return (b, (a, b))

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Twice
        with R.dataflow():
            g = cls.fused(x)
            R.output(g)
        return g


def test_fuse_tir_reads_once_what_is_given_twice():
    x, builder = relax.Var("x", R.Tensor((4,), "float32")), relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.exp(relax.op.multiply(x, x)))
        builder.emit_func_output(out)
    mod = after_steps(builder.get(), *STEPS, "FuseTIR")
    product, _ = mod["fused_multiply_tir_exp"].body.block.body.seq
    assert len(product.body.block.reads) == 1
    y = relax.VirtualMachine(relax.build(mod, "c"))["main"](np.arange(4, dtype="float32"))
    np.testing.assert_allclose(y.numpy(), np.exp(np.arange(4.0) ** 2), rtol=1e-6)


def test_fuse_tir_gives_each_result_once():
    """What is returned twice, or inside a tuple, is one result, which the caller arranges."""
    after = transform.FuseTIR()(Twice)
    assert len(after["fused"].params) == 3
    b, (a, again) = evaluate(after, [np.zeros(4, "float32")])
    assert (a == 1).all() and (b == 2).all() and (again == 2).all()


def test_indices_stay_inside():
    @I.ir_module
    class Taken:
        @R.function
        def main(x: R.Tensor((3, 2), "float32"), at: R.Tensor((4,), "int64")):
            with R.dataflow():
                y = R.take(x, at, axis=0)
                R.output(y)
            return y

    x, at = np.arange(6, dtype="float32").reshape(3, 2), np.array([-1, 0, 2, -3])
    after = transform.LegalizeOps()(Taken)
    assert "take" in after
    found = relax.VirtualMachine(relax.build(after, "c"), tvm.cpu())["main"](x, at)
    np.testing.assert_array_equal(found.numpy(), x[at])


def test_kernels_of_a_device_have_its_target():
    @I.ir_module
    class Two:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def here(x: R.Tensor((4,), "float32")):
            y = R.add(x, x)
            return y

        @R.function
        def there(x: R.Tensor((4,), "float32", "llvm")):
            y = R.add(x, x)
            return y
    after = transform.LegalizeOps()(Two)
    assert "target" not in after["add"].attrs and after["add_llvm"].attrs["target"].kind == "c"
    assert after["there"].bindings[0].value.attrs["gv"].name == "add_llvm"
