"""The course's network: two layers as prim_funcs of one module, called one by one and through its graph function."""
import numpy as np

import ingot as tvm
from ingot import relax, te, topi
from ingot.script import ir as I, relax as R, tir as T


@I.ir_module
class Mlp:
    @T.prim_func
    def relu0(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (1, n), "float32")
        Y = T.match_buffer(y, (1, n), "float32")
        for i, j in T.grid(1, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear0(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        m, n, k = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (1, m), "float32")
        W = T.match_buffer(w, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        Z = T.match_buffer(z, (1, n), "float32")
        Y = T.alloc_buffer((1, n), "float32")
        for i, j, k in T.grid(1, n, m):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, n):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(x: R.Tensor((1, 784), "float32"), w0: R.Tensor((128, 784), "float32"), b0: R.Tensor((128,), "float32"),
             w1: R.Tensor((10, 128), "float32"), b1: R.Tensor((10,), "float32")):
        cls = Mlp
        with R.dataflow():
            lv0 = R.call_tir(cls.linear0, (x, w0, b0), R.Tensor((1, 128), "float32"))
            lv1 = R.call_tir(cls.relu0, (lv0,), R.Tensor((1, 128), "float32"))
            out = R.call_tir(cls.linear0, (lv1, w1, b1), R.Tensor((1, 10), "float32"))
            R.output(out)
        return out


def parameters():
    rng = np.random.default_rng(5)
    shapes = (1, 784), (128, 784), (128,), (10, 128), (10,)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def reference(x, w0, b0, w1, b1):
    return np.maximum(x @ w0.T + b0, 0) @ w1.T + b1


def test_the_prim_funcs_one_by_one():
    arrays = parameters()
    x, w0, b0, w1, b1 = map(tvm.nd.array, arrays)
    built = tvm.build(tvm.IRModule({g: f for g, f in Mlp.functions.items() if g != "main"}), target="c")
    hidden, active, out = tvm.nd.empty((1, 128)), tvm.nd.empty((1, 128)), tvm.nd.empty((1, 10))
    built["linear0"](x, w0, b0, hidden)
    built["relu0"](hidden, active)
    built["linear0"](active, w1, b1, out)
    np.testing.assert_allclose(out.numpy(), reference(*arrays), rtol=1e-4, atol=1e-3)


def test_the_graph():
    arrays = parameters()
    with tvm.compile(Mlp) as library:
        np.testing.assert_allclose(library(*arrays), reference(*arrays), rtol=1e-4, atol=1e-3)


def test_the_same_network_from_tensor_expressions():
    arrays = parameters()
    x, w0, b0, w1, b1 = (relax.Var(n, relax.TensorStructInfo(a.shape, "float32"))
                         for n, a in zip(("x", "w0", "b0", "w1", "b1"), arrays))

    def linear(data, weight, bias):
        k = te.reduce_axis((0, data.shape[1]), "k")
        y = te.compute((1, weight.shape[0]), lambda i, j: te.sum(data[i, k] * weight[j, k], axis=k), name="product")
        return topi.add(y, bias)

    bb = relax.BlockBuilder()
    with bb.function("main", [x, w0, b0, w1, b1]):
        with bb.dataflow():
            hidden = bb.emit_te(linear, x, w0, b0)
            active = bb.emit_te(topi.nn.relu, hidden)
            out = bb.emit_output(bb.emit_te(linear, active, w1, b1))
        bb.emit_func_output(out)
    mod = bb.get()
    assert mod.script().count("R.call_tir") == 3
    with tvm.compile(mod) as library:
        np.testing.assert_allclose(library(*arrays), reference(*arrays), rtol=1e-4, atol=1e-3)
