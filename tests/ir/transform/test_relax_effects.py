"""Passes over graph functions keep what has side effects, allocations apart, and say of functions what is true of them."""
import numpy as np

import ingot as tvm
from ingot import relax
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.script.functions import from_source
from ingot.script import relax as R

T = relax.transform


def module(text):
    return from_source("@I.ir_module\nclass M:\n" + "\n".join("    " + line for line in text.strip().splitlines()))


EFFECTS = '''
@R.function(private=True, pure=False)
def count(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    n = R.call_packed("test.effects.count", x, sinfo_args=R.Tensor((2,), "float32"))
    return n

@R.function(private=True)
def twice(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    y = R.add(x, x)
    return y

@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")):
    a = cls.count(x)
    b = cls.count(x)
    unused = cls.count(x)
    c = cls.twice(x)
    d = cls.twice(x)
    nobody = cls.twice(a)
    return (a, b, c, d)
'''


def test_calls_of_functions_with_side_effects_stay():
    """Each call counts, also where nobody uses what it gives; those without effects are made once, or not at all."""
    seen = []
    tvm.register_func("test.effects.count", lambda x: seen.append(0) or tvm.nd.array(x.numpy() + len(seen)), override=True)
    mod = module(EFFECTS)
    after = T.DeadCodeElimination()(T.EliminateCommonSubexpr()(mod))
    assert [c.attrs["gv"].name for c in collect(after["main"].body, RelaxCall)] == ["count"] * 3 + ["twice"]
    results = []
    for m in (mod, after):
        seen.clear()
        vm = relax.VirtualMachine(tvm.compile(m, "c"), tvm.cpu())
        results.append([r.numpy() for r in vm["main"](tvm.nd.array(np.array([1, 2], np.float32)))])
        assert len(seen) == 3
    np.testing.assert_array_equal(*results)
    assert results[0][1].tolist() == [3, 4]


IN_PLACE = '''
@T.prim_func
def increment(x: T.Buffer((2,), "float32")):
    for i in range(2):
        with T.block("increment"):
            vi = T.axis.spatial(2, i)
            x[vi] = x[vi] + T.float32(1)

@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")):
    cls.increment(x)
    cls.increment(x)
    y = R.add(x, x)
    return y
'''


def test_calls_of_prim_funcs_in_place_stay():
    mod = module(IN_PLACE)
    after = T.DeadCodeElimination()(T.EliminateCommonSubexpr()(mod))
    assert structural_equal(after, mod)
    vm = relax.VirtualMachine(relax.build(after, "c"), tvm.cpu())
    np.testing.assert_array_equal(vm["main"](tvm.nd.array(np.ones(2, np.float32))).numpy(), [6, 6])

    bb = relax.BlockBuilder()
    increment, x = bb.add_func(mod["increment"], "increment"), relax.Var("x", R.Tensor((2,), "float32"))
    assert not increment.struct_info.purity
    with bb.function("main", [x], pure=False):
        for _ in range(2):
            bb.emit(relax.Call(increment, [x]))
        bb.emit_func_output(bb.emit(relax.op.add(x, x)))
    built = bb.get()
    assert structural_equal(built["main"].body, mod["main"].body, True)
    assert structural_equal(T.DeadCodeElimination()(built), built)


def test_memory_that_is_allocated_twice_is_two_memories():
    mod = module('''
@R.function
def main():
    a = R.builtin.alloc_tensor(R.shape([4]), R.dtype("int32"), R.prim_value(0))
    b = R.builtin.alloc_tensor(R.shape([4]), R.dtype("int32"), R.prim_value(0))
    s = R.vm.alloc_storage(R.shape([64]), runtime_device_index=0, dtype="uint8")
    t = R.vm.alloc_storage(R.shape([64]), runtime_device_index=0, dtype="uint8")
    return (R.add(a, b), s, t)
''')
    assert structural_equal(T.EliminateCommonSubexpr()(mod), mod)


def test_functions_that_load_and_hand_on_have_side_effects():
    mod = module('''
@R.function
def transform_params(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32")):
    c = R.add(a, b)
    return (c, b)
''')
    for make in (T.LazyTransformParams, T.LazySetOutput):
        after = make()(mod)
        assert not after["transform_params"].is_pure and relax.analysis.well_formed(after)
    assert T.LazyGetInput()(mod)["transform_params"].is_pure  # asks, and does nothing


def test_what_fields_are_is_known_where_the_others_are_gone():
    """A caller that knew less than the function tells now knows it, and what follows."""
    mod = module('''
@R.function
def main(x: R.Tensor((4, 3), "float32")):
    all = cls.parts(x)
    y = R.add(all[0], all[2])
    return R.nn.relu(y)

@R.function(private=True)
def parts(x: R.Tensor(("n", 3), "float32")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor):
    a = R.exp(x)
    b = R.sin(x)
    c = R.negative(x)
    return (a, b, c)
''')
    after = T.RemoveUnusedOutputs()(mod)
    assert len(after["parts"].ret_struct_info.fields) == 2
    assert after["main"].ret_struct_info.static_shape == (4, 3) and relax.analysis.well_formed(after)
    assert not [c for c in collect(after["parts"], RelaxCall) if c.op == "sin"]
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    got = relax.VirtualMachine(tvm.compile(after, "c"), tvm.cpu())["main"](tvm.nd.array(x)).numpy()
    np.testing.assert_allclose(got, np.maximum(np.exp(x) - x, 0), rtol=1e-5, atol=1e-6)


def test_a_kernel_may_have_the_dimensions_that_a_tensor_does_not_tell():
    """Well formed is what may be, for some dimensions: not what is known to be wrong."""
    text = """
@T.prim_func(private=True)
def copy(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]

@R.function
def main(x: R.Tensor((4, WIDTH), "float32")):
    y = R.call_tir(cls.copy, (x,), R.Tensor((4, 8), "float32"))
    return y
"""
    assert relax.analysis.well_formed(module(text.replace("WIDTH", '"n"')))
    assert not relax.analysis.well_formed(module(text.replace("WIDTH", "9")))
