"""VMShapeLower and LowerRuntimeBuiltin: the calls of vm.builtin.* that they make are run by the machine."""
import numpy as np
import pytest

import ingot as tvm
from ingot.ir.script.functions import from_source
from ingot.relax import transform as T

GROWS = '''
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(ndim=1, dtype="float32")):
        R.func_attr({"relax.force_pure": True})
        n, m, k = T.int64(), T.int64(), T.int64()
        z = R.match_cast(y, R.Tensor((n * m + k,), "float32"))
        return R.shape([n * m, 7])
'''
CAST = '''
    @R.function
    def main(x: R.Tensor(("n", "n"), "float32"), y: R.Object, s: R.Shape(["n", 2])) -> R.Tensor(("n * n",), "float32"):
        R.func_attr({"relax.force_pure": True})
        return y
'''
MEMORY = '''
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), shape: R.Shape(ndim=2)):
        R.func_attr({"relax.force_pure": True})
        n = T.int64()
        storage = R.memory.alloc_storage(R.shape([n * 16]), 0, "global", "uint8")
        y = R.memory.alloc_tensor(storage, 0, R.shape([n, 4]), "float32")
        _ = cls.double(x, y)
        z = R.reshape(y, shape)
        _1 = R.memory.kill_storage(storage)
        return z, R.shape_of(x)

    @T.prim_func(private=True)
    def double(x: T.handle, y: T.handle):
        n = T.int64()
        X, Y = T.match_buffer(x, (n, T.int64(4))), T.match_buffer(y, (n, T.int64(4)))
        for i, j in T.grid(n, T.int64(4)):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * 2.0
'''


def module(text):
    return from_source("@I.ir_module\nclass M:" + text)


def called(mod):
    return [b.value.attrs["func"].removeprefix("vm.builtin.") for b in mod["main"].bindings
            if "func" in getattr(b.value, "attrs", ())]


def machine(mod):
    return tvm.relax.VirtualMachine(tvm.relax.build(mod))["main"]


def zeros(*shape):
    return tvm.nd.array(np.zeros(shape, "float32"))


def test_what_follows_from_dimensions_is_computed_and_checked():
    lowered = T.VMShapeLower()(module(CAST))
    assert called(lowered) == ["alloc_shape_heap", "check_tensor_info", "check_shape_info", *["match_shape"] * 2,
                               "check_tensor_info", "match_shape"]
    assert tvm.ir.structural_equal(from_source(lowered.script()), lowered)
    main = machine(lowered)
    assert main(zeros(2, 2), zeros(4), (2, 2)).shape == (4,)
    with pytest.raises(RuntimeError, match=r"loc=return, annotation.* expects dimension 0 to be 4, got \[5\]"):
        main(zeros(2, 2), zeros(5), (2, 2))
    with pytest.raises(TypeError, match="loc=return.* expects a tensor"):
        main(zeros(2, 2), "text", (2, 2))


def test_shapes_are_read_where_their_dimensions_are_known():
    mod = module(CAST.replace("return y", "z = R.reshape(x, R.shape([n * n]))\n        return z").replace(
        "R.func_attr", "n = T.int64()\n        R.func_attr"))
    lowered = T.LowerRuntimeBuiltin()(T.VMShapeLower(emit_err_ctx=False)(mod))
    assert called(lowered)[-2:] == ["make_shape", "reshape"] and "shape_func" in lowered
    assert machine(lowered)(zeros(3, 3), zeros(1), (3, 2)).shape == (9,)
    with pytest.raises(ValueError, match=r"n \* m \+ k in main is used before its variables are defined"):
        T.VMShapeLower()(module(GROWS))


def test_each_branch_has_its_own_dimensions():
    """One name that both branches define, and what is computed of it."""
    main = machine(T.LowerRuntimeBuiltin()(T.VMShapeLower()(module("""
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(None, "float32", ndim=1), y: R.Tensor(None, "float32", ndim=1)):
        k = T.int64()
        if c:
            a = R.match_cast(x, R.Tensor((k,), "float32"))
            s = R.shape([k, k + 1])
        else:
            b = R.match_cast(y, R.Tensor((k,), "float32"))
            s = R.shape([k + 1, k])
        return s
"""))))
    found = [tuple(main(tvm.nd.array(np.array(c)), zeros(3), zeros(5))) for c in (True, False)]
    assert found == [(3, 4), (6, 5)]


def test_lowering_asks_for_the_passes_before_it():
    with pytest.raises(ValueError, match="apply ToNonDataflow before"):
        T.VMShapeLower()(module("""
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            z = R.add(y, y)
            R.output(z)
        return z
"""))
    with pytest.raises(ValueError, match="apply LowerAllocTensor before"):
        T.LowerRuntimeBuiltin()(module("""
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.builtin.alloc_tensor(R.shape([3]), "float32", 0)
        return y
"""))


def test_memory_is_the_machines():
    lowered = T.VMShapeLower()(T.VMBuiltinLower()(module(MEMORY)))
    names = [str(b.value.op) for b in lowered["main"].bindings if "func" not in getattr(b.value, "attrs", ())]
    assert names[-4:] == ["vm.alloc_storage", "vm.alloc_tensor", "call", "vm.kill_object"]
    assert "reshape" in called(lowered)
    x = np.arange(8, dtype="float32").reshape(2, 4)
    z, shape = machine(lowered)(tvm.nd.array(x), (4, 2))
    assert np.array_equal(z.numpy(), 2 * x.reshape(4, 2)) and tuple(shape) == (2, 4)


def test_calls_with_symbolic_dimensions_and_closures():
    lowered = T.LowerRuntimeBuiltin()(module(MEMORY.replace(
        "_ = cls.double(x, y)", "_ = R.vm.call_tir_dyn(cls.double, (x, y))\n        "
        "f = R.make_closure(cls.first, (x,))\n        _2 = R.invoke_closure(f, (y,), sinfo_args=R.Object)") + """
    @R.function
    def first(a: R.Object, b: R.Object):
        return a
"""))
    assert {"call_tir_dyn", "make_closure", "invoke_closure"} <= set(called(lowered))
    assert machine(lowered)(zeros(2, 4), (8, 1))[0].shape == (8, 1)


def test_scripts_ask_tensors():
    main = machine(module("""
    @R.function
    def main(x: R.Tensor, axis: R.Prim("int64")):
        return (x.dtype.bits, x.shape[axis], x.strides[0], x.ndim)
"""))
    assert main(zeros(5, 3), 1) == [32, 3, 3, 2]


def test_views_are_made_by_the_runtime():
    text = """
    @R.function
    def main(x: R.Tensor((8,), "int32")):
        y = {}
        return y
"""
    lowered = T.LowerRuntimeBuiltin()(module(text.format(
        'R.memory.view(x, R.shape([2, 4]), dtype=R.dtype("int16"), relative_byte_offset=R.prim_value(8))')))
    written = module(text.format("""R.ExternFunc("runtime.TVMArrayCreateView", R.Callable(
            derive_func="tvm.relax.struct_info.infer_view_sinfo", purity=True))(
            x, R.shape([2, 4]), R.dtype("int16"), R.prim_value(8))"""))
    assert tvm.ir.structural_equal(lowered, written)
    x = np.arange(8, dtype="int32")
    for mod in (lowered, written):
        np.testing.assert_array_equal(machine(mod)(tvm.nd.array(x)).numpy(), x.view("int16")[4:12].reshape(2, 4))
