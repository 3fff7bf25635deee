"""Passes over graph functions that scripts call and no pipeline has: programs before and after,
and what they compute."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import collect
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import Constant, MatchCast, RelaxCall, TensorStructInfo
from ingot.ir.script.functions import from_source

KERNEL = """
    @T.prim_func(private=True)
    def addone(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] + T.float32(1)

"""


def module(*lines, params='x: R.Tensor((4,), "float32")', more="", name="main"):
    body = "".join(f"        {line}\n" for line in lines)
    return from_source(f"@I.ir_module\nclass Module:\n{more}    @R.function\n    def {name}({params}):\n{body}")


def calls(mod, name="main"):
    return [str(getattr(c.op, "name", c.op)).removeprefix("relax.") for c in collect(mod[name].body, RelaxCall)]


def test_fold_constant():
    """Loops and operators of constants, in a function that is not main; outside of dataflow operators stay."""
    mod = module('a = R.call_tir(cls.addone, (R.const([1.0, 2.0, 3.0, 4.0], "float32"),), R.Tensor((4,), "float32"))',
                 "with R.dataflow():", "    b = R.multiply(a, a)", "    s = R.tensor_to_shape(R.const([2, 2]))",
                 "    gv = R.reshape(R.add(x, b), s)", "    R.output(gv)", "c = R.add(a, a)",
                 "return (gv, c)", more=KERNEL, name="foo")
    folded = relax.transform.FoldConstant()(mod)
    assert calls(folded, "foo") == ["add", "reshape", "add"]
    assert folded["foo"].ret_struct_info.fields[0].static_shape == (2, 2)
    assert [c.data.tolist() for c in collect(folded["foo"].body, Constant)][0] == [4, 9, 16, 25]
    got = evaluate(folded["foo"], [np.ones(4, np.float32)])
    np.testing.assert_array_equal(got[0], [[5, 10], [17, 26]])
    np.testing.assert_array_equal(got[1], [4, 6, 8, 10])


def test_fold_constant_keeps_what_takes_long_or_is_not_known():
    long = KERNEL.replace("range(4)", "range(4000000)").replace("T.axis.spatial(4, i)", "T.axis.spatial(4, i % 4)")
    mod = module('a = R.call_tir(cls.addone, (R.const([1.0, 2.0, 3.0, 4.0], "float32"),), R.Tensor((4,), "float32"))',
                 "return R.add(a, x)", more=long)
    assert calls(relax.transform.FoldConstant()(mod)) == ["call_tir", "add"]


NORMS = module("b = R.nn.batch_norm(x, g, h, m, v, axis=1, epsilon=0.5, momentum=0.25)",
               "n = R.nn.layer_norm(b[0], l, l, axes=[-1])", "return (n, b[1], b[2])",
               params=", ".join(['x: R.Tensor((2, 3, 4), "float32")',
                                 *(f'{n}: R.Tensor((3,), "float32")' for n in "ghmv"), 'l: R.Tensor((4,), "float32")']))


def norm_inputs():
    rng = np.random.default_rng(0)
    return [rng.random(p.struct_info.static_shape, np.float32) for p in NORMS["main"].params]


def test_decompose_for_inference():
    after = relax.transform.DecomposeOpsForInference("main")(NORMS)
    assert "nn.batch_norm" not in calls(after) and "nn.layer_norm" in calls(after)
    for a, b in zip(evaluate(NORMS, norm_inputs()), evaluate(after, norm_inputs())):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="no function 'other'"):
        relax.transform.DecomposeOpsForInference("other")(NORMS)


@pytest.mark.parametrize("scale, center", [(False, True), (True, False), (False, False)])
def test_decompositions_leave_out_what_norms_leave_out(scale, center):
    mod = module(f"b = R.nn.batch_norm(x, g, h, m, v, axis=1, epsilon=0.5, center={center}, scale={scale})",
                 "y = b[0]", f"r = R.nn.layer_norm(x, l, l, axes=[-1], center={center}, scale={scale})", "return y, r",
                 params=", ".join(f"{p.name}: {p.struct_info}" for p in NORMS["main"].params))
    x, g, h, m, v, l = norm_inputs()  # noqa: E741

    def normal(mean, var, epsilon, gamma, beta):
        return (x - mean) / np.sqrt(var + epsilon) * (gamma if scale else 1) + (beta if center else 0)
    rows = normal(x.mean(-1, keepdims=True), x.var(-1, keepdims=True), 1e-5, l, l)
    for name, mean, var in (("Inference", m, v), ("Training", x.mean((0, 2)), x.var((0, 2)))):
        after = getattr(relax.transform, f"DecomposeOpsFor{name}")()(mod)
        want = normal(mean[:, None], var[:, None], 0.5, g[:, None], h[:, None])
        got = evaluate(after, norm_inputs())
        np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[1], rows, rtol=1e-4, atol=1e-5)


def test_decompose_for_training():
    """Statistics of the data, and moving ones that a quarter of these goes into."""
    after = relax.transform.DecomposeOpsForTraining()(NORMS)
    assert not {"nn.batch_norm", "nn.layer_norm"} & set(calls(after))
    x, g, h, m, v, w = norm_inputs()
    mean, var = x.mean((0, 2)), x.var((0, 2))
    normal = (x - mean[:, None]) / np.sqrt(var[:, None] + 0.5) * g[:, None] + h[:, None]
    rows = (normal - normal.mean(-1, keepdims=True)) / np.sqrt(normal.var(-1, keepdims=True) + 1e-5) * w + w
    for got, want in zip(evaluate(after, [x, g, h, m, v, w]), (rows, 0.75 * m + 0.25 * mean, 0.75 * v + 0.25 * var)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_shapes_of_tensors_get_names():
    mod = module("s = R.tensor_to_shape(t)", "return s", params='t: R.Tensor((3,), "int64")')
    after = relax.transform.DecomposeOpsForInference()(mod)
    cast, = collect(after["main"].body, MatchCast)
    assert cast.var.struct_info.ndim == 3 and calls(after) == ["call_pure_packed"]


def test_update_param_struct_info():
    mod = module("y = R.matmul(w, x)", "return y",
                 params='x: R.Tensor((4,), "float32"), w: R.Tensor((2, 4), "float32")')
    wide = relax.transform.UpdateParamStructInfo(
        lambda var: TensorStructInfo((8, 4), "float32") if var.name_hint == "w" else None)(mod)
    assert wide["main"].ret_struct_info.static_shape == (8,)
    assert evaluate(wide, [np.ones(4, np.float32), np.ones((8, 4), np.float32)]).tolist() == [4] * 8


def test_allocate_workspace():
    codegen = """
    @R.function
    def outside(x: R.Tensor((4,), "float32")):
        R.func_attr({"Codegen": "mine", "WorkspaceSize": 64})
        @R.function
        def inner(x_1: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"Composite": "mine.relu", "WorkspaceSize": 64})
            z = R.nn.relu(x_1)
            return z
        y: R.Tensor((4,), "float32") = inner(x)
        return y

"""
    after = relax.transform.AllocateWorkspace()(module("y = cls.outside(x)", "return cls.outside(y)", more=codegen))
    main, outside = after["main"], after["outside1"]
    assert "outside" not in after and [p.struct_info.static_shape for p in outside.params] == [(4,), (64,)]
    allocated, first, second = main.bindings
    assert first.value.args[1] is second.value.args[1] is allocated.var
    inner, call = outside.bindings
    assert len(inner.value.params) == 2 and call.value.args[1] is outside.params[1]
    assert not {"WorkspaceSize"} & {*outside.attrs, *inner.value.attrs}


WEIGHTS = 'R.Tensor((2,), "float32")'


def machine(mod, name):
    return relax.VirtualMachine(relax.build(mod, "c"), tvm.cpu())[name]


def test_parameters_are_loaded_when_they_are_used():
    mod = module("c = R.multiply(a, a)", "d = R.add(c, b)", "return (d, b)", name="load",
                 params=f"a: {WEIGHTS}, b: {WEIGHTS}")
    after = relax.transform.LazySetOutput()(relax.transform.LazyGetInput()(mod))
    assert [p.name for p in after["load"].params] == ["fget_param", "fset_output"]
    assert calls(after, "load")[:2] == ["fget_param", "multiply"]
    log, weights = [], {"a": np.array([1, 2], np.float32), "b": np.array([3, 4], np.float32)}

    def get(index, name):
        log.append((index, name))
        return tvm.nd.array(weights[name])

    def put(index, value):
        log.append((index, value.numpy().tolist()))
        return ()
    machine(after, "load")(get, put)
    assert log == [(0, "a"), (1, "b"), (1, [3, 4]), (0, [4, 8])]


def test_lazy_transform_params():
    mod = module("p = params[0]", "q = R.add(p, p)", "r = (q, params[1])", "return r", name="main_transform_params",
                 params=f"params: R.Tuple({WEIGHTS}, {WEIGHTS})")
    after = relax.transform.LazyTransformParams()(mod)
    assert not after["main_transform_params"].params
    stored, weights = {}, [np.array([1, 2], np.float32), np.array([3, 4], np.float32)]
    tvm.register_func("get_item", lambda k: tvm.nd.array(weights[k]), override=True)
    tvm.register_func("set_item", lambda k, v: stored.update({k: v.numpy().tolist()}), override=True)
    machine(after, "main_transform_params")()
    assert stored == {0: [2, 4], 1: [3, 4]}
    assert calls(after, "main_transform_params").count("vm.kill_object") == 2


# ---------------------------------------------------------------- results over arguments

IN_PLACE = """
    @T.prim_func(private=True)
    def swap(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi]
                A[vi] = B[vi]

"""
TWO = 'x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")'
CALL = "r = R.call_tir_inplace(cls.swap, ({}), inplace_indices={}, out_sinfo=[{}])"
FOUR = 'R.Tensor((4,), "float32")'


def test_calls_in_place():
    """The first result is written over the first argument, the second is new; the program reads back."""
    mod = module(CALL.format("x, y", [0, -1], f"{FOUR}, {FOUR}"), "return r", params=TWO, more=IN_PLACE)
    assert from_source(mod.script())["main"].bindings[0].value.attrs["inplace_indices"] == (0, -1)
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    for a, b in zip(evaluate(mod, [x, y]), (y, x)):
        np.testing.assert_array_equal(a, b)
    given = tvm.nd.array(x)
    got = machine(mod, "main")(given, tvm.nd.array(y))
    np.testing.assert_array_equal(got[1].numpy(), x)
    np.testing.assert_array_equal(given.numpy(), y)
    rewritten = relax.transform.CallTIRRewrite()(mod)
    assert calls(rewritten) == ["builtin.alloc_tensor", "call"]
    assert rewritten["main"].bindings[-1].value.fields[0] is rewritten["main"].params[0]


@pytest.mark.parametrize("args, indices, infos, message", [
    ("x, y", [0, 0], f"{FOUR}, {FOUR}", "each once"), ("x, y", [-1], FOUR, "at least one of them"),
    ("x, y", [0], f"{FOUR}, {FOUR}", "1 indices are given for 2 results"), ("x, y", [7], FOUR, "must be those of"),
    ("x, y", [0], 'R.Tensor((2,), "float32")', "they must be the same tensors"),
])
def test_calls_in_place_that_are_none(args, indices, infos, message):
    with pytest.raises(Exception, match=message):
        module(CALL.format(args, indices, infos), "return r", params=TWO, more=IN_PLACE)


def test_dataflow_use_inplace_calls():
    """Parameters, outputs and what has another name that is used later stay; z - z is written over z."""
    mod = module("with R.dataflow():", "    a = R.add(x, y)", "    b = R.multiply(a, y)", "    c = b",
                 "    d = R.nn.relu(b)", "    e = R.add(d, c)", "    z = R.subtract(e, e)", "    R.output(z)",
                 "return z", params=TWO)
    after = relax.transform.DataflowUseInplaceCalls()(mod)
    assert calls(after) == ["add", "call_tir_inplace", "nn.relu", "call_tir_inplace", "call_tir_inplace"]
    assert [c.attrs["inplace_indices"] for c in collect(after["main"].body, RelaxCall) if "gv" in c.attrs] == [
        (0,), (1,), (0,)]
    x, y = (np.arange(4, dtype=np.float32) + k for k in (1, 2))
    np.testing.assert_array_equal(evaluate(after, [x, y]), np.zeros(4))
    np.testing.assert_array_equal(machine(after, "main")(x, y).numpy(), np.zeros(4))
    np.testing.assert_array_equal(x, np.arange(4, dtype=np.float32) + 1)
    room, exact = tvm.relax.testing.transform.dataflow_inplace_analysis(mod["main"].body.blocks[0], (), mod)
    assert room == exact == [(1, {0}), (4, {0, 1}), (5, {0, 1})]


@pytest.mark.parametrize("after", [
    ("u = t[0]", "w = R.subtract(u, z)"), ("g = R.concat(t)", "w = R.subtract(g, R.concat((z, z)))"),
    ("v = R.reshape(r, (4,))", "w = R.subtract(z, v)"),
])
def test_what_a_tuple_or_a_view_keeps_is_not_written(after):
    """z is not written over a, which t holds and r looks at."""
    mod = module("with R.dataflow():", "    a = R.add(x, y)", "    t = (a, y)", "    r = R.reshape(a, (2, 2))",
                 "    z = R.multiply(a, x)", *(f"    {line}" for line in after), "    R.output(w)", "return w",
                 params=TWO)
    x, y = (np.arange(4, dtype=np.float32) + k for k in (1, 2))
    got = machine(relax.transform.DataflowUseInplaceCalls()(mod), "main")(x, y).numpy()
    np.testing.assert_array_equal(got, evaluate(mod, [x, y]))


def test_parameters_of_a_function_are_bound():
    """To arrays, shapes and numbers; what is known of values follows from these."""
    func = module("b = a", "c = R.reshape(R.add(b, b), s)", "return c", name="foo",
                  params='a: R.Tensor(ndim=1), s: R.Shape(["n", "m"]), k: R.Prim("int64")')["foo"]
    bound = func.bind_params({func.params[0]: np.arange(4, dtype="float32"), "s": relax.ShapeExpr([2, 2]),
                              "k": relax.PrimValue(3)})
    assert not bound.params and bound.ret_struct_info.static_shape == (2, 2)
    np.testing.assert_array_equal(evaluate(bound, []), [[0, 2], [4, 6]])
    half = func.bind_symbolic_vars({"n": 2})
    assert half.params[1].struct_info.values[0].value == 2
    other = module("return x")["main"].params[0]
    for params, message in (({"z": np.ones(4)}, "no parameter 'z'; it has a, s, k"),
                            ({other: np.ones(4)}, "no parameter 'x'"),
                            ({"s": relax.ShapeExpr([1, 2, 3])}, "they must agree")):
        with pytest.raises(ValueError, match=message):
            func.bind_params(params)
