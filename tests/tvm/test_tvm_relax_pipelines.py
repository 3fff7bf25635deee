"""relax.pipeline, passes over dataflow blocks, and memory that processes share."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.script.functions import from_source
from ingot.ir.transform.classic.ipc_memory import rewrite_all_reduce
from ingot.tvm.relax.ir.instrument import WellFormedInstrument


def module(text):
    return from_source("@I.ir_module\nclass M:\n" + "\n".join("    " + line for line in text.strip().splitlines()))


NET = '''
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):
    with R.dataflow():
        y = R.matmul(x, w)
        z = R.nn.relu(y)
        s = R.nn.softmax(z, axis=1)
        R.output(s)
    return s
'''


def calls(mod, name="main"):
    return [str(c.op) for c in collect(mod[name].body, RelaxCall)]


def net(x, w):
    e = np.exp(np.maximum(x @ w, 0))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("pipeline", [
    relax.get_pipeline("zero"), relax.get_pipeline("default_build"), relax.get_default_pipeline("llvm")],
    ids=["zero", "default_build", "default"])
def test_pipelines_keep_what_is_computed(pipeline):
    mod = pipeline(module(NET))
    assert not {"matmul", "nn.relu", "nn.softmax"} & set(calls(mod))
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    vm = relax.VirtualMachine(tvm.compile(mod, "c"), tvm.cpu())
    np.testing.assert_allclose(vm["main"](tvm.nd.array(x), tvm.nd.array(w)).numpy(), net(x, w), rtol=1e-5)


def test_pipelines_by_target_and_by_name():
    """Kernels of a GPU get threads; a script adds pipelines, each once."""
    legalized = tvm.transform.Sequential(relax.pipeline.legalize_passes("cuda"))(module(NET))
    assert "thread_binding" in legalized.script() and relax.pipeline.library_dispatch_passes("c") == []
    assert len(relax.pipeline.finalize_passes("c")) > len(relax.pipeline.dataflow_lower_passes("c"))

    @relax.register_pipeline("test.nothing")
    def nothing():
        return tvm.transform.Sequential([])
    mod = module(NET)
    assert structural_equal(relax.get_pipeline("test.nothing")(mod), mod)
    with pytest.raises(ValueError, match="test.nothing has already been registered"):
        relax.register_pipeline("test.nothing")
    with pytest.raises(ValueError, match="Unknown pre-built pipeline none, candidates are .*zero"):
        relax.get_pipeline("none")
    del relax.pipeline.PIPELINE_MAP["test.nothing"]


@pytest.mark.parametrize("build", [tvm.compile, relax.build])
def test_builds_run_a_pipeline_of_ones_own(build):
    """With the target around it. TVM's own need not run: the network stays one that is compiled whole."""
    seen, mod = [], module(NET)

    def own(given):
        seen.append(tvm.target.Target.current())
        return relax.transform.LegalizeOps({"R.nn.relu": None})(given)
    ex = build(mod, "llvm", relax_pipeline=own)
    x, w = (np.random.default_rng(0).normal(size=s).astype(np.float32) for s in ((5, 4), (4, 3)))
    np.testing.assert_allclose(relax.VirtualMachine(ex, tvm.cpu())["main"](x, w).numpy(), net(x, w), rtol=1e-5)
    assert [str(t.kind) for t in seen] == ["c"]
    whole = build(mod, "llvm", relax_pipeline=relax.get_default_pipeline("llvm"))
    assert structural_equal(getattr(whole, "executable", whole).source, mod)
    with pytest.raises(ValueError, match="Unknown pre-built pipeline mine"):
        build(mod, relax_pipeline="mine")
    with pytest.raises(NotImplementedError, match=r"mod = tir_pipeline\(mod\)"):
        build(mod, tir_pipeline=own)


def test_passes_over_dataflow_blocks():
    @relax.transform.dataflowblock_pass(opt_level=0)
    def drop_last(block, mod, ctx):
        return block.replace(bindings=block.bindings[:-1])

    @relax.transform.dataflowblock_pass(opt_level=0)
    class Count:
        def __init__(self):
            self.found = []

        def transform_dataflowblock(self, block, mod, ctx):
            self.found.append(len(block.bindings))
            return block
    mod, count = module(NET), Count()
    assert structural_equal(count(mod), mod) and count.found == [3]
    assert len(drop_last(mod)["main"].body.blocks[0].bindings) == 2
    assert isinstance(count, relax.transform.DataflowBlockPass)
    with pytest.raises(TypeError, match="a pass over dataflow blocks returned a NoneType"):
        relax.transform.dataflowblock_pass(lambda block, mod, ctx: None, name="none", opt_level=0)(mod)


REDUCED = '''
@R.function(pure=False)
def main(shape: R.Shape(["m", "n"])):
    m = T.int64()
    n = T.int64()
    a = R.builtin.alloc_tensor(R.shape([m, n]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    b = R.reshape(a, R.shape([m * n]))
    c = R.builtin.alloc_tensor(R.shape([m * n]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    _: R.Object = R.call_packed("runtime.disco.allreduce", b, R.shape([KIND]), R.prim_value(True), c)
    return c
'''


def test_sums_over_processes_in_shared_memory():
    """Sums alone; where the runtime has no such function, the module stays."""
    mod = module(REDUCED.replace("KIND", "0"))
    after = rewrite_all_reduce(mod, 2)
    text = after.script()
    assert text.count('"ipc_memory"') == 1 and "custom_allreduce\", b, R.prim_value(2), c" in text
    assert relax.analysis.well_formed(after)
    other = module(REDUCED.replace("KIND", "1"))
    assert structural_equal(rewrite_all_reduce(other, 1), other)
    assert structural_equal(relax.transform.IPCAllReduceRewrite(1)(mod), mod)
    with pytest.raises(ValueError, match="allreduce_strategy is 1 .* or 2 .*, not 3"):
        rewrite_all_reduce(mod, 3)
    lowered = relax.transform.LowerGPUIPCAllocStorage()(after)
    assert calls(lowered).count("builtin.alloc_tensor") == 1 and "cuda_ipc.alloc_storage" in lowered.script()
    assert structural_equal(relax.transform.LowerGPUIPCAllocStorage()(mod), mod)
    assert relax.analysis.well_formed(lowered)


def test_a_build_is_well_formed_after_each_pass():
    """Also kernels, which have the dimensions of their callers, those that a run decides too."""
    mod = module("""
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    m = T.int64()
    y = R.nn.relu(R.add(x, x))
    z = R.match_cast(R.nonzero(y), R.Tensor((2, m), "int64"))
    return (y, R.add(R.permute_dims(z), R.const(1, "int64")))
""")
    with tvm.transform.PassContext(instruments=[WellFormedInstrument()]):
        built = relax.build(mod, "c")
    y, places = relax.VirtualMachine(built, tvm.cpu())["main"](np.eye(3, 4, dtype="float32"))
    assert y.shape == (3, 4) and places.numpy().tolist() == [[1, 1], [2, 2], [3, 3]]
