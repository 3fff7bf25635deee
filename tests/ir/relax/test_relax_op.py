"""relax.op and R.*: every operator of the table by name, TVM's argument orders and forms, Python's operators."""
import numpy as np
import pytest
from relax_cases import call_of

from ingot import relax
from ingot.ir.expr import Var, const
from ingot.ir.node import structural_equal
from ingot.ir.op import OPS, InferError
from ingot.ir.relax import RelaxTuple, RelaxVar, ShapeExpr, TensorStructInfo, call_op, op
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import dataflow_function
from ingot.ir.relax.memory import PLACING
from ingot.ir.relax.verifier import verify
from ingot.ir.module import IRModule
from ingot.ir.script.functions import from_source
from ingot.script import relax as R


def var(name, *shape, dtype="float32"):
    return RelaxVar(name, TensorStructInfo(shape, dtype))


X, IMAGE = var("x", 3, 5, 7), var("image", 2, 6, 9, 8)
W = var("w", 4, 6, 3, 3)


def run(build, *arrays):
    """The value of a function of one expression, made by build(*variables), built by a BlockBuilder and verified."""
    bb = relax.BlockBuilder()
    params = [relax.Var(f"p{n}", TensorStructInfo(a.shape, a.dtype.name)) for n, a in enumerate(arrays)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(build(*params))
        bb.emit_func_output(out)
    return evaluate(verify(bb.get()), list(arrays))


@pytest.mark.parametrize("name", sorted(OPS))
def test_each_operator_prints_and_parses(name):
    call = call_of(name)
    params = [a for a in call.args if isinstance(a, RelaxVar)]
    bindings = []
    if name in PLACING:  # only what the function computes can lie in a result
        copies = [relax.DataflowVar(f"c{n}", p.struct_info) for n, p in enumerate(params)]
        bindings = [relax.VarBinding(c, op.copy(p)) for c, p in zip(copies, params)]
        if name == "memory.inlay":
            shape = ShapeExpr(params[0].struct_info.shape)
            bindings[0] = bindings[0].replace(value=call_op("memory.border", shape, **call.attrs))
        call = call.replace(args=tuple(b.var for b in bindings))
    var = relax.DataflowVar("y", call.struct_info)
    func = dataflow_function(params, [*bindings, relax.VarBinding(var, call)], [var], {"global_symbol": "main"})
    verify(IRModule({"main": func}))
    assert structural_equal(from_source(str(func)), func), str(func)


@pytest.mark.parametrize("name", sorted(set(OPS) - {"topk"}))  # whose indices are int32, as TVM has it
def test_each_operator_is_called_by_its_classic_parameters(name):
    """The classic namespace with everything by keyword makes the same call as the table."""
    call = call_of(name)
    function = op
    for part in name.split("."):
        function = getattr(function, part)
    parameters = function.parameters.split(", ")
    if OPS[name].arity[1] is None:
        again = function(list(call.args), **call.attrs)
    else:
        again = function(**dict(zip(parameters, call.args)), **call.attrs)
    again = again[0] if name == "nn.batch_norm" else again  # a tuple with the moving mean and variance
    assert structural_equal(again, call)
    assert repr(function).startswith(f"<operator {name}(")


CLASSIC = [
    (lambda: op.nn.conv2d(IMAGE, W, 2, 1, (1, 1), 1, "NCHW", "OIHW"),
     ("nn.conv2d", dict(strides=(2, 2), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1))),
    (lambda: op.nn.conv2d(data=IMAGE, weight=W, padding=(1, 0), out_dtype="float32"),
     ("nn.conv2d", dict(padding=(1, 0, 1, 0)))),
    (lambda: op.nn.conv2d_transpose(IMAGE, var("v", 6, 4, 3, 3), (2, 2), (0, 0), (1, 1)),
     ("nn.conv2d_transpose", dict(strides=(2, 2), output_padding=(1, 1)))),
    (lambda: op.nn.max_pool2d(IMAGE, 3, 2, 1, 1, True, "NCHW"),
     ("nn.max_pool2d", dict(pool_size=(3, 3), strides=(2, 2), padding=(1,) * 4, ceil_mode=True))),
    (lambda: op.nn.avg_pool2d(IMAGE, (2, 2), (2, 2), (0, 0), (1, 1), False, True),
     ("nn.avg_pool2d", dict(count_include_pad=True))),
    (lambda: op.nn.softmax(X, -2), ("nn.softmax", dict(axis=-2))),
    (lambda: op.sum(X, [0, 2], True), ("sum", dict(axis=(0, 2), keepdims=True))),
    (lambda: op.mean(X, axis=1), ("mean", dict(axis=1, keepdims=False))),
    (lambda: op.permute_dims(X, [2, 0, 1]), ("permute_dims", dict(axes=(2, 0, 1)))),
    (lambda: op.clip(X, relax.PrimValue(const(-1.0)), 1), ("clip", dict(min=-1.0, max=1))),
    (lambda: op.split(X, [2, 4], 2), ("split", dict(sections=(2, 2, 3), axis=2))),
    (lambda: op.split(var("s", 6, 2), 3), ("split", dict(sections=(2, 2, 2), axis=0))),
    (lambda: op.strided_slice(X, [1, 2], [-3, 0], [100, -1]),
     ("strided_slice", dict(axes=(1, 2), begin=(2, 0), end=(5, 6), strides=(1, 1)))),
    (lambda: op.take(X, var("i", 4, dtype="int64"), 2), ("take", dict(axis=2))),
    (lambda: op.take(var("v", 9), var("i", 4, dtype="int64"), mode="fast"), ("take", dict(axis=0))),
    (lambda: op.concat([X, X]), ("concat", dict(axis=0))),
    (lambda: op.matmul(X, var("m", 7, 2), ""), ("matmul", dict(out_dtype=None))),
    (lambda: op.nn.layer_norm(X, var("g", 7), var("b", 7), [-1], 1e-6, True, True),
     ("nn.layer_norm", dict(axes=(-1,), epsilon=1e-6))),
    (lambda: op.nn.batch_norm(IMAGE, *(var(n, 6) for n in "gbmv"), 1, 1e-4, momentum=0.9)[0],
     ("nn.batch_norm", dict(axis=1, epsilon=1e-4))),
    (lambda: op.nn.instance_norm(IMAGE, var("g", 6), var("b", 6), 1, [2, 3]), ("nn.instance_norm", {})),
    (lambda: op.tile(X, 2), ("tile", dict(repeats=(1, 1, 2)))),
    (lambda: op.nn.pad(X, [(0, 0), (1, 2), (0, 1)]), ("nn.pad", dict(pad_width=(0, 0, 1, 2, 0, 1)))),
    (lambda: op.nn.leakyrelu(X, 0.3), ("nn.leaky_relu", dict(alpha=0.3))),
    (lambda: op.one_hot(var("i", 4, dtype="int32"), relax.PrimValue(1), relax.PrimValue(0), 5, 0),
     ("one_hot", dict(depth=5, axis=0, on_value=1, off_value=0, dtype="int64"))),
    (lambda: op.image.resize2d(IMAGE, (18, 16), roi=(0.0,) * 4, layout="NCHW", method="nearest_neighbor"),
     ("image.resize2d", dict(size=(18, 16), method="nearest_neighbor"))),
    (lambda: op.nn.adaptive_avg_pool2d(IMAGE, 1, "NCHW"), ("nn.adaptive_avg_pool2d", dict(output_size=(1, 1)))),
    (lambda: op.full((2, 3), 7, "int32"), ("full", dict(dtype="int32"))),
    (lambda: op.full((2, 3), relax.PrimValue(const(2.0, "float16"))), ("full", dict(dtype=None))),
    (lambda: op.arange(5), ("arange", dict(dtype="int64"))),
    (lambda: op.arange(0, 1, 0.25), ("arange", dict(dtype="float32"))),
    (lambda: op.add(X, 1), ("add", {})), (lambda: op.reshape(X, (5, -1)), ("reshape", {})),
]


@pytest.mark.parametrize("build, expected", CLASSIC, ids=lambda c: c[0] if isinstance(c, tuple) else "")
def test_classic_calls(build, expected):
    call, (name, attrs) = build(), expected
    assert call.op == name and {k: call.attrs[k] for k in attrs} == attrs
    params = {id(a): a for a in call.args if isinstance(a, RelaxVar)}.values()
    y = relax.DataflowVar("y", call.struct_info)
    assert relax.analysis.well_formed(dataflow_function(params, [relax.VarBinding(y, call)], [y]))


def test_shapes_of_reshape_and_numbers_take_what_is_known():
    n = Var("n", "int64")
    wide = relax.Var("x", TensorStructInfo((n, 6), "float32"))
    assert str(op.reshape(wide, (-1, 2)).struct_info) == 'R.Tensor((n * 3, 2), dtype="float32")'
    assert op.add(var("h", 3, dtype="float16"), 1).args[1].data.dtype == np.float16
    assert op.less(2, var("k", 3, dtype="int8")).args[0].data.dtype == np.int8
    assert op.shape_of(wide).values[0] is n
    assert op.shape_of(relax.Var("u", TensorStructInfo(None, "float32", 2))).struct_info.ndim == 2


A = np.linspace(-2, 2, 2 * 6 * 3 * 4, dtype=np.float32).reshape(2, 6, 3, 4)
V = np.linspace(0.5, 1.5, 6, dtype=np.float32)
COMPOSED = [
    (lambda x: op.zeros_like(x), [A], np.zeros_like(A)),
    (lambda x: op.ones_like(x, "int8"), [A], np.ones_like(A, "int8")),
    (lambda x: op.full_like(x, 3.0), [A], np.full_like(A, 3)),
    (lambda x: op.ones((2, 3)), [A], np.ones((2, 3), "float32")),
    (lambda x: op.flatten(x), [A], A.reshape(-1)), (lambda x: op.stack([x, x], 1), [A], np.stack([A, A], 1)),
    (lambda x: op.stack((x, x), -1), [A], np.stack([A, A], -1)), (lambda x: op.repeat(x, 2), [A], A.repeat(2)),
    (lambda x: op.nn.relu6(x * 4), [A], np.clip(A * 4, 0, 6)),
    (lambda x: op.tile(x, (2, 1, 1, 1, 3)), [A], np.tile(A, (2, 1, 1, 1, 3))),
    (lambda x, a: op.nn.prelu(x, a), [A, V], np.where(A < 0, A * V[:, None, None], A)),
    (lambda x, a: op.nn.prelu(x, a, -1), [A, V[:4]], np.where(A < 0, A * V[:4], A)),
    (lambda x, y, z: op.ewise_fma(x, y, z), [A, A, A], A * A + A),
    (lambda x, w, b: op.linear(x, w, b), [A, V.reshape(1, 6)[:, :4], V[:1]], A @ V.reshape(1, 6)[:, :4].T + V[0]),
    (lambda x, g, b: op.nn.group_norm(x, g, b, 3, 1, [2, 3], 1e-3), [A, V, V], None),
    (lambda x: -(1 - x) / 2 + 3 * x ** 2.0 - x // 0.5, [A], -(1 - A) / 2 + 3 * A ** 2 - np.floor(A / 0.5)),
    (lambda x: (x < 1.0).astype("int32") % 2, [A], (A < 1).astype("int32")),
    (lambda x: x % 0.7, [A], np.fmod(A, np.float32(0.7))),
    (lambda x: op.nn.gelu_tanh(x), [A], None), (lambda x: RelaxTuple((x, x + 1))[1], [A], A + 1),
]


@pytest.mark.parametrize("build, arrays, expected", COMPOSED)
def test_functions_of_several_operators(build, arrays, expected):
    result = run(build, *arrays)
    if expected is None and len(arrays) == 3:
        groups = A.reshape(2, 3, -1)
        normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-3)
        expected = normal.reshape(A.shape) * V[:, None, None] + V[:, None, None]
    if expected is not None:
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("build, error, message", [
    (lambda: op.nn.conv2d(IMAGE, W, data_layout="NHCC"), InferError, "layout 'NHCC' of data must have"),
    (lambda: op.nn.conv2d(IMAGE, W, stride=1), InferError, "nn.conv2d has no attribute stride; it has data, weight"),
    (lambda: op.nn.conv2d(IMAGE), TypeError, "nn.conv2d needs argument weight"),
    (lambda: op.nn.conv2d(IMAGE, W, strides=1, data=X), TypeError, "nn.conv2d got two values for argument data"),
    (lambda: op.add(X, X, X), TypeError, r"add takes at most 2 arguments \(x1, x2\), got 3"),
    (lambda: op.nn.instance_norm(IMAGE, var("g", 6), var("b", 6), axes=[3]), InferError,
     r"axes=\(3,\) is not supported"),
    (lambda: op.reshape(X, (-1, -1)), InferError, r"only one dimension of \(-1, -1\) can be -1"),
    (lambda: op.reshape(X, (4, -1)), InferError, r"105 elements do not divide into \(4, -1\)"),
    (lambda: op.split(X, 5), InferError, "axis 0 of extent 3 does not divide into 5 parts"),
    (lambda: op.strided_slice(X, [0], [0, 1], [2]), InferError, "must have one length"),
    (lambda: op.nn.group_norm(IMAGE, var("g", 6), var("b", 6), 4), InferError,
     "num_groups=4 must divide the 6 channels"),
    (lambda: op.nn.group_norm(IMAGE, var("g", 6), var("b", 6), 3, 3), InferError,
     "num_groups=3 must divide the 8 channels"),
    (lambda: op.stack([X, X], 5), InferError, "stack: axis 5 is outside a tensor of 4 dimensions"),
    (lambda: op.nn.prelu(X, var("a", 5), 7), InferError, "nn.prelu: axis 7 is outside a tensor of 3 dimensions"),
    (lambda: op.nn.conv1d(relax.Var("u", TensorStructInfo(None, "float32", 2)), X), InferError,
     "data must have 3 dimensions"),
    (lambda: X[0], TypeError, "only tuples are indexed, by an int; this is R.Tensor"),
    (lambda: RelaxTuple((X,))[1], IndexError, "item 1 of a tuple of 1"),
    (lambda: op.nn.relux, AttributeError, "no operator nn.relux; did you mean nn.relu"),
    (lambda: R.Tensor(("n", 4)).struct_info(), TypeError,
     'the quoted dimension "n" means something inside a script only'),
])
def test_errors(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_the_scripts_names_are_the_same_functions():
    assert R.nn.conv2d == op.nn.conv2d and "relu" in dir(R.nn) and "nn" in dir(op)
    assert isinstance(R.add(X, X), relax.Call) and R.const(1.5).data.dtype == np.float32
    assert R.shape([2, 3]).values[1].value == 3 and R.prim_value(3).value.dtype == "int64"
    x = relax.Var("x", R.Tensor((2, Var("n", "int64")), "float16"))
    assert x.struct_info.dtype == "float16"
    assert relax.Var("t", R.Tuple(R.Tensor("int8", ndim=2), R.Object)).struct_info.fields[0].ndim == 2


def test_scripts_take_the_classic_forms():
    func = from_source("""
        @R.function
        def main(x: R.Tensor((2, 6, 9, 8), "float32"), w: R.Tensor((4, 6, 3, 3), "float32")):
            y = -R.nn.conv2d(x, w, strides=2, padding=1, data_layout="NCHW") // 2.0
            a, b = R.split(R.nn.relu6(y), 2, axis=1)
            return R.concat([R.flatten(a), R.zeros((3,), "float32")])
    """)
    assert [b.value.op for b in func.bindings if hasattr(b.value, "op")] == [
        "nn.conv2d", "negative", "floor_divide", "nn.relu6", "split", "flatten", "zeros", "concat"]
    verify(IRModule({"main": func}))
    assert structural_equal(from_source(str(func)), func)
