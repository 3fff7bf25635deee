"""Passes over graph modules of any form, each by what it makes of a small module."""
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import structural_equal
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
@R.function
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
