"""AttachAttrLayoutFreeBuffers, SplitLayoutRewritePreproc: weights laid out outside of kernels, with the same results."""
import numpy as np

from ingot import relax
from ingot.ir.node import collect
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.script.functions import from_source

TEXT = """@I.ir_module
class M:
    @T.prim_func(private=True)
    def scaled(X: T.Buffer((4, 6), "float32"), W: T.Buffer((4, 6), "float32"), O: T.Buffer((4, 6), "float32")):
        T.func_attr({"layout_free_buffers": [1], "tir.noalias": True})
        P = T.alloc_buffer((6, 4))
        for i, j in T.grid(4, 6):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                P[vj, vi] = W[vi, vj]
        for i, j in T.grid(4, 6):
            with T.block("O"):
                vi, vj = T.axis.remap("SS", [i, j])
                O[vi, vj] = X[vi, vj] * P[vj, vi]

    @R.function
    def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((4, 6), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.call_tir(M.scaled, (x, w), out_sinfo=R.Tensor((4, 6), "float32"))
            gv = R.call_tir(M.scaled, (ARGS), out_sinfo=R.Tensor((4, 6), "float32"))
            R.output(gv)
        return gv
"""


def module(args="a, w", text=TEXT):
    return from_source(text.replace("ARGS", args))


def results(mod):
    rng = np.random.default_rng(0)
    return evaluate(mod, [rng.standard_normal((4, 6)).astype("float32") for _ in range(2)])


def called(mod):
    return [c.attrs["gv"].name for c in collect(mod["main"], RelaxCall) if c.op == "call_tir"]


def test_weights_are_laid_out_by_a_function_of_their_own():
    before = module()
    after = relax.transform.SplitLayoutRewritePreproc()(before)
    assert called(after) == ["scaled_weight_prepack", "scaled_prepacked"] * 2 and "scaled" not in after
    assert dict(after["scaled_prepacked"].attrs).keys() == {"tir.noalias"}
    np.testing.assert_array_equal(results(after), results(before))
    lifted = relax.transform.LiftTransformParams()(after)
    assert "scaled_weight_prepack" not in called(lifted)  # it is done before the network runs


def test_what_is_needed_as_it_was_is_not_split():
    text = TEXT.replace("X[vi, vj] * P[vj, vi]", "X[vi, vj] * P[vj, vi] + W[vi, vj]")
    before = module(text=text)
    assert called(relax.transform.SplitLayoutRewritePreproc()(before)) == ["scaled", "scaled"]


def test_layout_free_buffers_are_those_of_weights():
    same = relax.transform.AttachAttrLayoutFreeBuffers()(module())
    assert len(set(called(same))) == 1 and list(same[called(same)[0]].attrs["layout_free_buffers"]) == [1]
    mod = relax.transform.AttachAttrLayoutFreeBuffers()(module("w, a"))
    assert [list(mod[n].attrs["layout_free_buffers"]) for n in called(mod)] == [[1], [0]]
    constant = relax.transform.BindParams("main", {"w": np.ones((4, 6), "float32")})(module("a, a"))
    mod = relax.transform.AttachAttrLayoutFreeBuffers()(constant)
    assert [list(mod[n].attrs["layout_free_buffers"]) for n in called(mod)] == [[1], []]
