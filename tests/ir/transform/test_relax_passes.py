"""Passes over graph modules of any form, each by what it makes of a small module."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import structural_equal
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.verifier import VerifyError, verify
from ingot.ir.script.functions import from_source
from ingot.relax import transform as T


def module(text):
    return from_source("@I.ir_module\nclass M:\n" + "\n".join("    " + line for line in text.strip().splitlines()))


# name: (the pass, the functions before, those after)
CASES = {
    "AttachGlobalSymbol names what has no symbol, kernels after the prefix": (T.AttachGlobalSymbol, '''
I.module_attrs({"system_lib_prefix": "net_"})
@T.prim_func(private=True)
def zeros(x: T.Buffer((2,), "float32")):
    x[0] = T.float32(0)
@R.function(private=True)
def f() -> R.Tensor((2,), "float32"):
    gv = R.call_tir(M.zeros, (), R.Tensor((2,), "float32"))
    return gv
''', '''
I.module_attrs({"system_lib_prefix": "net_"})
@T.prim_func
def net_zeros(x: T.Buffer((2,), "float32")):
    x[0] = T.float32(0)
@R.function
def f() -> R.Tensor((2,), "float32"):
    gv = R.call_tir(M.net_zeros, (), R.Tensor((2,), "float32"))
    return gv
'''),
    "NormalizeGlobalVar gives names to those whose symbols they are": (T.NormalizeGlobalVar, '''
@R.function(private=True)
def f(x: R.Tensor((2,), "float32")):
    y = R.nn.relu(x)
    return y
@R.function
def g(x: R.Tensor((2,), "float32")):
    R.func_attr({"global_symbol": "f"})
    y = M.f(x)
    return y
''', '''
@R.function(private=True)
def f1(x: R.Tensor((2,), "float32")):
    y = R.nn.relu(x)
    return y
@R.function
def f(x: R.Tensor((2,), "float32")):
    y = M.f1(x)
    return y
'''),
    "ToNonDataflow": (T.ToNonDataflow, '''
@R.function
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        a = R.nn.relu(x)
        b = R.add(a, x)
        R.output(b)
    return b
''', '''
@R.function
def main(x: R.Tensor((2,), "float32")):
    a = R.nn.relu(x)
    b = R.add(a, x)
    return b
'''),
    "ConvertToDataflow stops at side effects and at calls of what has some": (T.ConvertToDataflow, '''
@R.function(pure=False)
def says(x: R.Tensor((2,), "float32")):
    _ = R.print(format="here")
    return x
@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")):
    a = R.nn.relu(x)
    b = R.add(a, x)
    c = M.says(b)
    d = R.nn.relu(c)
    _ = R.print(format="there")
    with R.dataflow():
        e = R.nn.relu(d)
        R.output(e)
    f = R.add(e, e)
    return f
''', '''
@R.function(pure=False)
def says(x: R.Tensor((2,), "float32")):
    _ = R.print(format="here")
    return x
@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        a = R.nn.relu(x)
        b = R.add(a, x)
        R.output(b)
    c = M.says(b)
    d = R.nn.relu(c)
    _ = R.print(format="there")
    with R.dataflow():
        e = R.nn.relu(d)
        f = R.add(e, e)
        R.output(f)
    return f
'''),
    "ConvertToDataflow inside of branches": (T.ConvertToDataflow, '''
@R.function
def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
    if c:
        a = R.nn.relu(x)
        b = R.add(a, x)
        z = R.add(b, x)
    else:
        a = R.exp(x)
        z = R.exp(a)
    return z
''', '''
@R.function
def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
    if c:
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, x)
            d = R.add(b, x)
            R.output(d)
        z = d
    else:
        with R.dataflow():
            a = R.exp(x)
            d = R.exp(a)
            R.output(d)
        z = d
    return z
'''),
    "RemovePurityChecking": (T.RemovePurityChecking, '''
@R.function
def main(x: R.Tensor((2,), "float32")):
    a = R.call_pure_packed("f", x, sinfo_args=(R.Tensor((2,), "float32"),))
    return a
@R.function(pure=False)
def says(x: R.Tensor((2,), "float32")):
    _ = R.print(format="here")
    return x
''', '''
@R.function
def main(x: R.Tensor((2,), "float32")):
    R.func_attr({"relax.force_pure": True})
    a = R.call_packed("f", x, sinfo_args=(R.Tensor((2,), "float32"),))
    return a
@R.function(pure=False)
def says(x: R.Tensor((2,), "float32")):
    _ = R.print(format="here")
    return x
'''),
    "BindSymbolicVars in all functions": (lambda: T.BindSymbolicVars({"n": 4}), '''
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    y = R.reshape(x, (m, n * 2 - n))
    return y
@R.function
def other(x: R.Tensor(("n",), "float32")):
    return x
''', '''
@R.function
def main(x: R.Tensor((4, "m"), "float32")):
    m = T.int64()
    y = R.reshape(x, (m, 4))
    return y
@R.function
def other(x: R.Tensor((4,), "float32")):
    return x
'''),
    "RewriteDataflowReshape of kernels that have more inputs than they read": (T.RewriteDataflowReshape, '''
@T.prim_func(private=True)
def second(a: T.Buffer((4,), "float32"), b: T.Buffer((6,), "float32"), c: T.Buffer((2, 3), "float32")):
    for i, j in T.grid(2, 3):
        with T.block("c"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = b[vi * 3 + vj]
@R.function
def main(x: R.Tensor((4,), "float32"), y: R.Tensor((6,), "float32")):
    with R.dataflow():
        a = R.call_tir(M.second, (x, y), R.Tensor((2, 3), "float32"))
        b = R.add(a, a)
        R.output(b)
    return b
''', '''
@T.prim_func(private=True)
def second(a: T.Buffer((4,), "float32"), b: T.Buffer((6,), "float32"), c: T.Buffer((2, 3), "float32")):
    for i, j in T.grid(2, 3):
        with T.block("c"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = b[vi * 3 + vj]
@R.function
def main(x: R.Tensor((4,), "float32"), y: R.Tensor((6,), "float32")):
    with R.dataflow():
        a = R.reshape(y, (2, 3))
        b = R.add(a, a)
        R.output(b)
    return b
'''),
    "RewriteDataflowReshape keeps outputs, copies of a part and other kernels": (T.RewriteDataflowReshape, '''
@T.prim_func(private=True)
def split(a: T.Buffer((6,), "float32"), b: T.Buffer((2, 3), "float32")):
    for i, j in T.grid(2, 3):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = a[vi * 3 + vj]
@T.prim_func(private=True)
def first(a: T.Buffer((6,), "float32"), b: T.Buffer((2,), "float32")):
    for i in range(2):
        with T.block("b"):
            vi = T.axis.spatial(2, i)
            b[vi] = a[vi]
@R.function
def main(x: R.Tensor((6,), "float32")):
    with R.dataflow():
        a = R.call_tir(M.split, (x,), R.Tensor((2, 3), "float32"))
        b = R.call_tir(M.first, (x,), R.Tensor((2,), "float32"))
        c = R.call_tir(M.split, (x,), R.Tensor((2, 3), "float32"))
        d = R.add(a, a)
        e = R.add(b, b)
        R.output(c, d, e)
    return (c, d, e)
''', '''
@T.prim_func(private=True)
def split(a: T.Buffer((6,), "float32"), b: T.Buffer((2, 3), "float32")):
    for i, j in T.grid(2, 3):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = a[vi * 3 + vj]
@T.prim_func(private=True)
def first(a: T.Buffer((6,), "float32"), b: T.Buffer((2,), "float32")):
    for i in range(2):
        with T.block("b"):
            vi = T.axis.spatial(2, i)
            b[vi] = a[vi]
@R.function
def main(x: R.Tensor((6,), "float32")):
    with R.dataflow():
        a = R.reshape(x, (2, 3))
        b = R.call_tir(M.first, (x,), R.Tensor((2,), "float32"))
        c = R.call_tir(M.split, (x,), R.Tensor((2, 3), "float32"))
        d = R.add(a, a)
        e = R.add(b, b)
        R.output(c, d, e)
    return (c, d, e)
'''),
    "BundleModelParams": (lambda: T.BundleModelParams("weights"), '''
@R.function
def main(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32"), v: R.Tensor((2,), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        a = R.add(x, w)
        R.output(a)
    b = R.add(a, w)
    return (b, v)
''', '''
@R.function
def main(x: R.Tensor((2,), "float32"), weights: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        w = weights[0]
        a = R.add(x, w)
        R.output(a)
    w1 = weights[0]
    b = R.add(a, w1)
    v = weights[1]
    return (b, v)
'''),
    "LiftTransformParams": (T.LiftTransformParams, '''
@R.function
def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32"), v: R.Tensor((4,), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        t = R.permute_dims(w)
        s = R.exp(t)
        kept = R.builtin.stop_lift_params(v)
        e = R.exp(kept)
        y = R.matmul(x, s)
        z = R.add(y, e)
        R.output(z)
    return z
''', '''
@R.function
def main(x: R.Tensor((2, 3), "float32"), v: R.Tensor((4,), "float32"), s: R.Tensor((3, 4), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        e = R.exp(v)
        y = R.matmul(x, s)
        z = R.add(y, e)
        R.output(z)
    return z
@R.function
def main_transform_params(params: R.Tuple(R.Tensor((4, 3), "float32"), R.Tensor((4,), "float32"))):
    R.func_attr({"num_input": 0})
    with R.dataflow():
        w = params[0]
        t = R.permute_dims(w)
        s = R.exp(t)
        v = params[1]
        gv = (v, s)
        R.output(gv)
    return gv
'''),
    "LiftTransformParams of what several functions compute alike": (lambda: T.LiftTransformParams(True), '''
@R.function
def one(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32"), v: R.Tensor((4,), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        t = R.permute_dims(w)
        e = R.exp(v)
        y = R.matmul(x, t)
        z = R.add(y, e)
        R.output(z)
    return z
@R.function
def two(w: R.Tensor((4, 3), "float32"), v: R.Tensor((4,), "float32")):
    R.func_attr({"num_input": 0})
    with R.dataflow():
        t = R.permute_dims(w)
        u = R.exp(t)
        R.output(u)
    return u
''', '''
@R.function
def one(x: R.Tensor((2, 3), "float32"), v: R.Tensor((4,), "float32"), t: R.Tensor((3, 4), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        e = R.exp(v)
        y = R.matmul(x, t)
        z = R.add(y, e)
        R.output(z)
    return z
@R.function
def two(v: R.Tensor((4,), "float32"), t: R.Tensor((3, 4), "float32")):
    R.func_attr({"num_input": 0})
    with R.dataflow():
        u = R.exp(t)
        R.output(u)
    return u
@R.function
def transform_params(params: R.Tuple(R.Tensor((4, 3), "float32"), R.Tensor((4,), "float32"))):
    R.func_attr({"num_input": 0})
    with R.dataflow():
        w = params[0]
        t = R.permute_dims(w)
        v = params[1]
        gv = (v, t)
        R.output(gv)
    return gv
'''),
    "EliminateCommonSubexpr apart in each branch": (T.EliminateCommonSubexpr, '''
@R.function
def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
    if c:
        a = R.exp(x)
        b = R.exp(x)
        z = R.add(a, b)
    else:
        a = R.exp(x)
        z = R.add(a, x)
    e = R.exp(x)
    y = R.add(e, z)
    return y
''', '''
@R.function
def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
    if c:
        a = R.exp(x)
        b = a
        z = R.add(a, a)
    else:
        a = R.exp(x)
        z = R.add(a, x)
    e = R.exp(x)
    y = R.add(e, z)
    return y
'''),
    "CanonicalizeBindings: results are known as far as the new arguments say": (T.CanonicalizeBindings, '''
@R.function
def main(x: R.Tensor(("m", "n"), "float32")):
    o, p = T.int64(), T.int64()
    z = R.match_cast(x, R.Tensor((o, p), "float32"))
    t = ((z, x), x)
    u = t[0]
    a = R.add(z, u[1])
    b = R.add(a, x)
    return b
''', '''
@R.function
def main(x: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    t = ((x, x), x)
    u = (x, x)
    a = R.add(x, x)
    b = R.add(a, x)
    return b
'''),
    "CombineParallelMatmul of what is there before": (T.CombineParallelMatmul, '''
@R.function
def main(x: R.Tensor((2, 3), "float32"), a: R.Tensor((3, 4), "float32"), b: R.Tensor((3, 5), "float32")):
    with R.dataflow():
        p = R.matmul(x, a)
        c = R.exp(b)
        q = R.matmul(x, b)
        r = R.matmul(x, c)
        R.output(p, q, r)
    return (p, q, r)
''', '''
@R.function
def main(x: R.Tensor((2, 3), "float32"), a: R.Tensor((3, 4), "float32"), b: R.Tensor((3, 5), "float32")):
    with R.dataflow():
        w = R.concat((a, b), axis=1)
        m = R.matmul(x, w, out_dtype="float32")
        s = R.split(m, [4], axis=1)
        p = s[0]
        c = R.exp(b)
        q = s[1]
        r = R.matmul(x, c)
        R.output(p, q, r)
    return (p, q, r)
'''),
    "RemoveUnusedParameters gives dimensions as numbers": (T.RemoveUnusedParameters, '''
@R.function
def main(x: R.Tensor((2, "n"), "float32"), y: R.Tensor((3,), "float32")):
    n = T.int64()
    a: R.Tensor((n,), "float32") = M.fill(x, y)
    return a
@R.function(private=True)
def fill(x: R.Tensor((2, "k"), "float32"), y: R.Tensor((3,), "float32")):
    k = T.int64()
    a = R.zeros((k,), "float32")
    return a
''', '''
@R.function
def main(x: R.Tensor((2, "n"), "float32"), y: R.Tensor((3,), "float32")):
    n = T.int64()
    a: R.Tensor((n,), "float32") = M.fill(R.prim_value(n))
    return a
@R.function(private=True)
def fill(param_k: R.Prim(value="k")):
    k = T.int64()
    a = R.zeros((k,), "float32")
    return a
'''),
    "RemoveUnusedOutputs numbers the rest anew": (T.RemoveUnusedOutputs, '''
@R.function
def main(x: R.Tensor((2,), "float32")):
    t = M.three(x)
    a = t[2]
    b = t[0]
    u = M.three(b)
    c = u[2]
    return (a, c)
@R.function(private=True)
def three(x: R.Tensor((2,), "float32")) -> R.Tuple(
        R.Tensor((2,), "float32"), R.Tensor((2,), "float32"), R.Tensor((1,), "float32")):
    a = R.exp(x)
    b = R.nn.relu(x)
    c = R.zeros((1,), "float32")
    return (a, b, c)
''', '''
@R.function
def main(x: R.Tensor((2,), "float32")):
    t = M.three(x)
    a = t[1]
    b = t[0]
    u = M.three(b)
    c = u[1]
    return (a, c)
@R.function(private=True)
def three(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor((1,), "float32")):
    a = R.exp(x)
    c = R.zeros((1,), "float32")
    return (a, c)
'''),
    "ExpandTupleArguments": (T.ExpandTupleArguments, '''
@R.function
def main(x: R.Tensor((2,), "float32"), p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32"))):
    a: R.Tensor((2,), "float32") = M.f((x, p))
    return a
@R.function(private=True)
def f(t: R.Tuple(R.Tensor((2,), "float32"), R.Tuple(
        R.Tensor((2,), "float32"), R.Tensor((3,), "float32")))) -> R.Tensor((2,), "float32"):
    q = t[1]
    a = q[0]
    b = t[0]
    c = R.add(a, b)
    return c
''', '''
@R.function
def main(x: R.Tensor((2,), "float32"), p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32"))):
    p_0 = p[0]
    p_1 = p[1]
    a: R.Tensor((2,), "float32") = M.f(x, p_0, p_1)
    return a
@R.function(private=True)
def f(t0: R.Tensor((2,), "float32"), t1: R.Tensor((2,), "float32"),
      t2: R.Tensor((3,), "float32")) -> R.Tensor((2,), "float32"):
    c = R.add(t1, t0)
    return c
'''),
    "AdjustMatmulOrder up to a bound": (T.AdjustMatmulOrder, '''
@R.function
def main(x: R.Tensor(("b", 64), "float32"), A: R.Tensor((64, "r"), "float32"), B: R.Tensor(("r", 64), "float32")):
    R.func_attr({"tir_var_upper_bound": {"r": 32}})
    w = R.matmul(A, B)
    y = R.matmul(x, w)
    return y
@R.function
def unbounded(x: R.Tensor(("b", 64), "float32"), A: R.Tensor((64, "r"), "float32"), B: R.Tensor(("r", 64), "float32")):
    w = R.matmul(A, B)
    y = R.matmul(x, w)
    return y
@R.function
def back(x: R.Tensor((64, 2), "float32"), A: R.Tensor((2, 64), "float32"), B: R.Tensor((64, 1), "float32")):
    w = R.matmul(x, A)
    y = R.matmul(w, B)
    return y
''', '''
@R.function
def main(x: R.Tensor(("b", 64), "float32"), A: R.Tensor((64, "r"), "float32"), B: R.Tensor(("r", 64), "float32")):
    R.func_attr({"tir_var_upper_bound": {"r": 32}})
    w = R.matmul(x, A)
    y = R.matmul(w, B)
    return y
@R.function
def unbounded(x: R.Tensor(("b", 64), "float32"), A: R.Tensor((64, "r"), "float32"), B: R.Tensor(("r", 64), "float32")):
    w = R.matmul(A, B)
    y = R.matmul(x, w)
    return y
@R.function
def back(x: R.Tensor((64, 2), "float32"), A: R.Tensor((2, 64), "float32"), B: R.Tensor((64, 1), "float32")):
    w = R.matmul(A, B)
    y = R.matmul(x, w)
    return y
'''),
    "ExpandMatmulOfSum, but not of weights alone or of a row": (T.ExpandMatmulOfSum, '''
@R.function
def main(x: R.Tensor((3, 4), "float32"), a: R.Tensor((5, 4), "float32"), b: R.Tensor((5, 4), "float32")):
    s = R.add(a, b)
    t = R.permute_dims(s)
    y = R.matmul(x, t)
    return y
@R.function
def weights(x: R.Tensor((3, 4), "float32"), a: R.Tensor((4, 5), "float32"), b: R.Tensor((4, 5), "float32")):
    R.func_attr({"num_input": 1})
    s = R.add(a, b)
    y = R.matmul(x, s)
    return y
@R.function
def row(x: R.Tensor((3, 4), "float32"), a: R.Tensor((4, 5), "float32"), b: R.Tensor((1, 5), "float32")):
    s = R.add(a, b)
    y = R.matmul(x, s)
    return y
''', '''
@R.function
def main(x: R.Tensor((3, 4), "float32"), a: R.Tensor((5, 4), "float32"), b: R.Tensor((5, 4), "float32")):
    at = R.permute_dims(a)
    xa = R.matmul(x, at)
    bt = R.permute_dims(b)
    xb = R.matmul(x, bt)
    y = R.add(xa, xb)
    return y
@R.function
def weights(x: R.Tensor((3, 4), "float32"), a: R.Tensor((4, 5), "float32"), b: R.Tensor((4, 5), "float32")):
    R.func_attr({"num_input": 1})
    s = R.add(a, b)
    y = R.matmul(x, s)
    return y
@R.function
def row(x: R.Tensor((3, 4), "float32"), a: R.Tensor((4, 5), "float32"), b: R.Tensor((1, 5), "float32")):
    s = R.add(a, b)
    y = R.matmul(x, s)
    return y
'''),
    "ReorderPermuteDimsAfterConcat": (T.ReorderPermuteDimsAfterConcat, '''
@R.function
def main(a: R.Tensor((2, 3, 4), "float32"), b: R.Tensor((2, 3, 5), "float32")):
    p = R.permute_dims(a, (1, 2, 0))
    q = R.permute_dims(b, (1, 2, 0))
    y = R.concat((p, q), axis=1)
    return y
@R.function
def apart(a: R.Tensor((3, 4), "float32"), b: R.Tensor((4, 3), "float32")):
    p = R.permute_dims(a, (1, 0))
    q = R.permute_dims(b, (0, 1))
    y = R.concat((p, q), axis=1)
    return y
''', '''
@R.function
def main(a: R.Tensor((2, 3, 4), "float32"), b: R.Tensor((2, 3, 5), "float32")):
    c = R.concat((a, b), axis=2)
    y = R.permute_dims(c, (1, 2, 0))
    return y
@R.function
def apart(a: R.Tensor((3, 4), "float32"), b: R.Tensor((4, 3), "float32")):
    p = R.permute_dims(a, (1, 0))
    q = R.permute_dims(b, (0, 1))
    y = R.concat((p, q), axis=1)
    return y
'''),
    "ReorderTakeAfterMatmul of columns": (T.ReorderTakeAfterMatmul, '''
@R.function
def main(x: R.Tensor((2, 3), "float32"), t: R.Tensor((3, 9), "float32"), i: R.Tensor((4,), "int64")):
    w = R.take(t, i, axis=1)
    y = R.matmul(x, w)
    return y
''', '''
@R.function
def main(x: R.Tensor((2, 3), "float32"), t: R.Tensor((3, 9), "float32"), i: R.Tensor((4,), "int64")):
    p = R.matmul(x, t)
    y = R.take(p, i, axis=1)
    return y
'''),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pass(name):
    make, before, after = CASES[name]
    before, after = module(before), module(after)
    done = make()(before)
    tvm.ir.assert_structural_equal(done, after)
    assert relax.analysis.well_formed(done)


def test_two_functions_of_one_symbol():
    both = module('''
@R.function
def f(x: R.Tensor((2,), "float32")):
    R.func_attr({"global_symbol": "f"})
    return x
@R.function
def g(x: R.Tensor((2,), "float32")):
    R.func_attr({"global_symbol": "f"})
    return x
''')
    assert not relax.analysis.well_formed(both)
    with pytest.raises(ValueError, match="f, g all have the global_symbol 'f'"):
        T.NormalizeGlobalVar()(both)


def test_normalize_binds_what_is_computed_inside():
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    cond, y = relax.Var("cond", relax.TensorStructInfo((), "bool")), relax.Var("y")
    twice = relax.op.add(relax.op.nn.relu(x), x)
    inner = relax.SeqExpr([relax.BindingBlock((relax.VarBinding(y, relax.If(cond, twice, x)),))], y)
    z = relax.Var("z", x.struct_info)
    seq = relax.SeqExpr((relax.BindingBlock((relax.VarBinding(z, inner),)),), relax.op.nn.relu(z))
    mod = tvm.IRModule({"main": relax.Function((cond, x), seq)})
    assert not relax.analysis.well_formed(mod)
    done = T.Normalize()(mod)
    assert relax.analysis.well_formed(done)
    assert structural_equal(done, module('''
@R.function(private=True)
def main(cond: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
    if cond:
        gv = R.nn.relu(x)
        gv1 = R.add(gv, x)
        y = gv1
    else:
        y = x
    z = y
    gv2 = R.nn.relu(z)
    return gv2
''')), done.script()
    assert T.Normalize()(done)["main"] is done["main"]


def test_bind_symbolic_vars_that_are_not_there():
    mod = module(CASES["ToNonDataflow"][1])
    with pytest.raises(ValueError, match="there is no dimension 'k' in any function"):
        T.BindSymbolicVars({"k": 3})(mod)


def test_dimensions_that_no_parameter_tells():
    mod = module('''
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    y = R.strided_slice(x, (0,), (0,), (n,), assume_inbound=False)
    return y
''')
    k = tvm.tir.Var("k", "int64")
    with pytest.raises(ValueError, match="nothing tells k in main"):
        T.BindSymbolicVars({"n": k * 2})(mod)
    bound = T.BindSymbolicVars({"n": k * 2, "m": k})(mod)["main"]
    assert bound.params[0].struct_info.shape[1] is k
    assert list(T.BindSymbolicVars({"n": 8})(mod)["main"].bindings[0].value.attrs["end"]) == [8]
    assert type(T.BindSymbolicVars({"n": 8})(mod)["main"].bindings[0].value.attrs["end"][0]) is int


def test_purity_needs_no_dataflow():
    with pytest.raises(ValueError, match="function main has a dataflow block: apply ToNonDataflow before"):
        T.RemovePurityChecking()(module(CASES["ToNonDataflow"][1]))


def test_weights_of_a_shared_transform_agree():
    mod = module('''
@R.function
def one(w: R.Tensor((4, 3), "float32")):
    R.func_attr({"num_input": 0})
    t = R.permute_dims(w)
    return t
@R.function
def two(w: R.Tensor((3, 3), "float32")):
    R.func_attr({"num_input": 0})
    t = R.permute_dims(w)
    return t
''')
    with pytest.raises(ValueError, match="weight w of one is .*, w of two .*: functions of a shared transform"):
        T.LiftTransformParams(shared_transform=True)(mod)
    done = T.LiftTransformParams()(mod)
    assert set(done.functions) == {"one", "two", "one_transform_params", "two_transform_params"}
    assert set(T.LiftTransformParams()(done).functions) == set(done.functions)


BRANCHES = '''
@R.function
def main(x: R.Tensor((2, 3), "float32"), a: R.Tensor((3, "n"), "float32"), b: R.Tensor((3, 5), "float32"),
         c: R.Tensor(("n",), "float32"), d: R.Tensor((5,), "float32")):
    with R.dataflow():
        p = R.matmul(x, a)
        q = R.matmul(x, b)
        r = R.add(p, c)
        s = R.add(q, d)
        t = R.nn.relu(r)
        u = R.nn.relu(s)
        out = (t, u)
        R.output(out)
    return out
'''


@pytest.mark.parametrize(("change", "ops"), [
    ((), ["concat", "matmul", "concat", "add", "nn.relu", "split"]),
    (("u = R.nn.relu(s)", "u = R.nn.gelu(s)"), ["concat", "matmul", "concat", "add", "split", "nn.relu", "nn.gelu"]),
    (("out = (t, u)", "out = (t, u, s)"), ["concat", "matmul", "concat", "add", "split", "nn.relu", "nn.relu"]),
    (("R.add(q, d)", "R.add(q, q)"), ["concat", "matmul", "split", "add", "add", "nn.relu", "nn.relu"]),
    (("s = R.add(q, d)", "z = R.multiply(d, d); s = R.add(q, z)"),  # a vector that is not there yet
     ["concat", "matmul", "split", "add", "multiply", "add", "nn.relu", "nn.relu"]),
    (('(3, 5), "float32"', '(3, "m"), "float32"', "(5,)", '("m",)'),
     ["matmul", "matmul", "add", "add", "nn.relu", "nn.relu"]),
])
def test_branches_of_parallel_products(change, ops):
    """Bias and activation of all branches at once, where each has them; one symbolic width, which comes last."""
    text = BRANCHES
    for old, new in zip(change[::2], change[1::2]):
        text = text.replace(old, new.replace("; ", "\n        "))
    mod = module(text)
    done = T.CombineParallelMatmul()(mod)
    assert [b.value.op for b in done["main"].bindings if isinstance(b.value, relax.Call)] == ops
    assert relax.analysis.well_formed(done)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((2, 3), (3, 4), (3, 5), (4,), (5,))]
    for found, right in zip(evaluate(done, arrays), evaluate(mod, arrays)):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_take_of_one_matrix_for_all_stays():
    mod = module('''
@R.function
def main(x: R.Tensor((3, 1, 4), "float32"), w: R.Tensor((2, 4, 5), "float32"), i: R.Tensor((1,), "int64")):
    t = R.take(w, i, axis=0)
    y = R.matmul(x, t)
    return y
''')
    tvm.ir.assert_structural_equal(T.ReorderTakeAfterMatmul()(mod), mod)


def test_combine_parallel_matmul_asks():
    mod, asked = module(CASES["CombineParallelMatmul of what is there before"][1]), []
    done = T.CombineParallelMatmul(lambda x, weights, *_: asked.append((x.name, [w.name for w in weights])))(mod)
    assert asked == [("x", ["a", "b"])]
    tvm.ir.assert_structural_equal(done, mod)


def test_well_formed_takes_what_declares_less():
    mod = module(CASES["ToNonDataflow"][1])
    func = mod["main"].replace(ret_struct_info=relax.TensorStructInfo(None, "float32", 1))
    assert relax.analysis.well_formed(mod.with_function("main", func))
    wrong = mod["main"].replace(ret_struct_info=relax.TensorStructInfo((3,), "float32"))
    with pytest.raises(VerifyError, match="declared as"):  # TVM's rules do not speak of it
        verify(mod.with_function("main", wrong))
    unknown = mod["main"].replace(ret_struct_info=relax.TensorStructInfo((tvm.tir.Var("k", "int64"),), "float32"))
    assert not relax.analysis.well_formed(mod.with_function("main", unknown))
