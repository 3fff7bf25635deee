"""RewriteCUDAGraph: kept storages and captured kernels give what the function gave, and share nothing they must not."""
import numpy as np

from ingot import cpu, relax
from ingot.ir.module import GlobalVar
from ingot.ir.node import collect
from ingot.ir.script.functions import from_source
from ingot.ir.transform.context import PassContext, Sequential
from ingot.relax import transform as T
from value_target import value_target

LAYERS = '''
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.exp(a)
            c = R.matmul(b, w)
            d = R.exp(c)
            R.output(d)
        return d
'''
PLANNED = '''
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"relax.force_pure": True})
        s = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")
        a = R.memory.alloc_tensor(s, 0, R.shape([4]), "float32")
        u = R.call_packed("some.kernel", a, sinfo_args=R.Tuple)
        CALL
        o = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")
        z = R.memory.alloc_tensor(o, 0, R.shape([4]), "float32")
        v = R.call_packed("some.kernel", a, z, sinfo_args=R.Tuple)
        return z
    @R.function
    def other(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"relax.force_pure": True})
        s = R.memory.alloc_storage(R.shape([32]), 0, "global", "float32")
        a = R.memory.alloc_tensor(s, 0, R.shape([8]), "float32")
        u = R.call_packed("some.kernel", x, a, sinfo_args=R.Tuple)
        return x
'''


def rewritten(mod):
    with PassContext(config={"relax.backend.use_cuda_graph": True}):
        return T.RewriteCUDAGraph()(mod)


def graph_functions(mod):
    return [n for n in mod.functions if "cuda_graph" in n]


def test_captured_kernels_run():
    steps = T.LegalizeOps(), T.ToNonDataflow(), T.RemovePurityChecking(), T.CallTIRRewrite(), T.StaticPlanBlockMemory()
    mod = Sequential(steps)(from_source(LAYERS))
    assert T.RewriteCUDAGraph()(mod) is mod
    mod = rewritten(mod)
    assert graph_functions(mod) == ["cuda_graph_alloc", "main_cuda_graph_capture"] and relax.analysis.well_formed(mod)
    assert len(collect(mod["main_cuda_graph_capture"], GlobalVar)) == 2  # of four: the first reads x, the last gives d
    run = relax.VirtualMachine(relax.build(mod, value_target()), cpu())["main"]
    rng = np.random.default_rng(0)
    w = rng.standard_normal((3, 3)).astype("float32") / 3
    given = [rng.standard_normal((2, 3)).astype("float32") for _ in range(3)]
    for x, found in [(x, run(x, w)) for x in given]:  # results of earlier calls stay
        np.testing.assert_allclose(found.numpy(), np.exp(np.exp(x @ w) @ w), rtol=1e-5)


def test_storages_that_are_shared():
    """Two functions share storages of the larger sizes, unless one calls the other; what is returned is not kept."""
    mod = rewritten(from_source(PLANNED.replace("CALL", "")))
    assert graph_functions(mod) == ["cuda_graph_alloc", "main_cuda_graph_capture"]
    (row,) = mod["cuda_graph_alloc"].bindings[:-1]
    assert row.value.args[0].values[0].value == 32
    kept = [b.var.name for b in mod["main"].bindings if getattr(b.value, "op", "") == "memory.alloc_storage"]
    assert kept == ["o"]
    mod = rewritten(from_source(PLANNED.replace("CALL", "q = cls.other(x)")))
    assert graph_functions(mod) == ["cuda_graph_alloc", "cuda_graph_alloc1", "main_cuda_graph_capture"]
    again = from_source(PLANNED.replace("CALL", "q = cls.main(x)"))
    assert rewritten(again)["main"] is again["main"]
