"""Every TIR pass keeps what a program computes, for programs straight from TE, hand-made and scheduled ones."""
import pytest
from tir_cases import CASES, arguments, assert_same_results, results

from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.tir.stmt import BlockRealize, BufferLoad, BufferStore, For
from ingot.ir.transform.pipeline import TIR_PASSES, lower_prim_func


@pytest.mark.parametrize("name", CASES)
def test_passes_keep_results(name):
    func = CASES[name]()
    inputs = arguments(func)
    expected = results(func, inputs)
    for run_pass in TIR_PASSES:
        func = run_pass(IRModule({"main": func}))["main"]
        assert_same_results(expected, func, inputs, run_pass.name)
    assert not collect(func.body, BlockRealize)
    assert all(len(a.indices) == 1 for a in collect(func.body, (BufferLoad, BufferStore)))
    assert all(f.kind != "vectorized" for f in collect(func.body, For))


@pytest.mark.parametrize("name", CASES)
def test_passes_are_stable(name):
    """Equal programs give equal text, so generated code does not change from run to run."""
    texts = set()
    for _ in range(2):
        func = CASES[name]()
        texts.add(str(lower_prim_func(func)))
    assert len(texts) == 1
