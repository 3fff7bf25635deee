"""Passes that say where tensors of graph functions lie and how long: what they make, and that a run gives the same."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import structural_equal
from ingot.ir.script.functions import from_source
from ingot.relax import transform as T

EXP = '''
@T.prim_func
def exp(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("y"):
            v = T.axis.spatial(4, i)
            y[v] = T.exp(x[v])
'''
CHAIN = EXP + '''
@R.function(pure=False)
def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    a = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
    _ = M.exp(x, a)
    b = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
    _1 = M.exp(a, b)
    c = R.builtin.alloc_tensor(R.shape([2, 2]), "float32", 0)
    d = R.reshape(c, (4,))
    _2 = M.exp(b, d)
    e = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
    _3 = M.exp(d, e)
    return e
'''


def module(text):
    return from_source("@I.ir_module\nclass M:\n" + "\n".join("    " + line for line in text.strip().splitlines()))


def same(mod, text):
    wanted = module(text)
    assert structural_equal(mod, wanted), mod.script()


def test_tensors_share_storage_and_are_let_go():
    planned = T.StaticPlanBlockMemory()(module(CHAIN))
    same(planned, EXP + '''
@R.function(pure=False)
def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    s = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")
    a = R.memory.alloc_tensor(s, 0, R.shape([4]), "float32")
    _ = M.exp(x, a)
    t = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")
    b = R.memory.alloc_tensor(t, 0, R.shape([4]), "float32")
    _1 = M.exp(a, b)
    c = R.memory.alloc_tensor(s, 0, R.shape([2, 2]), "float32")
    d = R.reshape(c, (4,))
    _2 = M.exp(b, d)
    e = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
    _3 = M.exp(d, e)
    return e
''')
    lowered = T.LowerAllocTensor()(planned)
    killed = T.KillAfterLastUse()(lowered)
    text = killed.script()
    assert "alloc_tensor(R.shape" not in text and text.count("alloc_storage") == 3
    body = text[text.index("def main"):]
    assert body.index("exp(b, d)") < body.index("kill_tensor(b)") < body.index("exp(d, e)") < body.index("kill_tensor(d)")
    assert body.count("kill_storage") == 3 and "kill_tensor(e)" not in body
    x = np.array([-2, -1, -0.5, -3], "float32")
    want = np.exp(np.exp(np.exp(np.exp(x))))
    for mod in (module(CHAIN), planned, killed):
        vm = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
        np.testing.assert_allclose(vm["main"](tvm.nd.array(x)).numpy(), want, rtol=1e-6)


def test_symbolic_tensors_take_their_upper_bounds():
    text = '''
@T.prim_func
def exp(xs: T.handle, ys: T.handle):
    T.evaluate(0)
@R.function(pure=False)
def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
    n, m = T.int64(), T.int64()
    R.func_attr({"tir_var_upper_bound": {"n": 8}, "relax.memory_plan_dynamic_func_output": True})
    a = R.builtin.alloc_tensor(R.shape([n + 1]), "float32", 0)
    _ = M.exp(x, a)
    b = R.builtin.alloc_tensor(R.shape([n, m]), "float32", 0)
    _1 = M.exp(a, b)
    c = R.builtin.alloc_tensor(R.shape([16]), "float32", 0)
    _2 = M.exp(b, c)
    d = R.builtin.alloc_tensor(R.shape([n, m]), "float32", 0)
    _3 = M.exp(c, d)
    return d
'''
    same(T.StaticPlanBlockMemory()(module(text)), '''
@T.prim_func
def exp(xs: T.handle, ys: T.handle):
    T.evaluate(0)
@R.function(pure=False)
def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
    n, m = T.int64(), T.int64()
    R.func_attr({"tir_var_upper_bound": {"n": 8}})
    s = R.memory.alloc_storage(R.shape([64]), 0, "global", "float32")
    a = R.memory.alloc_tensor(s, 0, R.shape([n + 1]), "float32")
    _ = M.exp(x, a)
    t = R.memory.alloc_storage(R.shape([32 * m]), 0, "global", "float32")
    b = R.memory.alloc_tensor(t, 0, R.shape([n, m]), "float32")
    _1 = M.exp(a, b)
    c = R.memory.alloc_tensor(s, 0, R.shape([16]), "float32")
    _2 = M.exp(b, c)
    u = R.memory.alloc_storage(R.shape([8 * m * 4]), 0, "global", "float32")
    d = R.memory.alloc_tensor(u, 0, R.shape([n, m]), "float32")
    _3 = M.exp(c, d)
    return d
''')
    with pytest.raises(ValueError, match="positive integers"):
        T.StaticPlanBlockMemory()(module(text.replace('"n": 8', '"n": -8')))


def test_storages_of_a_branch_stay_in_it():
    planned = T.StaticPlanBlockMemory()(module(EXP + '''
@R.function(pure=False)
def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
    if c:
        a = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        _ = M.exp(x, a)
        _1 = R.call_packed("seen", a, sinfo_args=R.Tuple())
        y = x
    else:
        b = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        _2 = M.exp(x, b)
        _3 = R.call_packed("seen", b, sinfo_args=R.Tuple())
        y = x
    d = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
    _4 = M.exp(y, d)
    _5 = R.call_packed("seen", d, sinfo_args=R.Tuple())
    return y
'''))
    assert planned.script().count("alloc_storage") == 3
    assert relax.analysis.well_formed(planned)


def test_what_tensors_take_is_estimated():
    text = relax.analysis.estimate_memory_usage(T.StaticPlanBlockMemory()(module(CHAIN)))
    assert text.startswith("Memory usage estimation:\n- Function main:\n * Without memory planning, there are 4 "
                           "constant-size memory allocation(s) with total size 5.96e-08 GB.\n")
    assert "there are 3 constant-size" in text and text.endswith("reduces constant memory size to 75.0%.\n")
