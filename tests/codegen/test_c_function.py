"""Printed functions: they compile without a warning under gcc and clang, compute what the interpreter computes, and
read well."""
import re

import numpy as np
import pytest
from c_build import COMPILERS, call, compile_text, source
from tir_cases import CASES, arguments, results

from ingot.codegen.c_function import print_function
from ingot.codegen.select import select
from ingot.ir.transform.pipeline import lower_prim_func


@pytest.fixture(scope="module")
def printed():
    """{case: (PrimFunc, lowered PrimFunc, CFunction)}"""
    found = {}
    for name, make in CASES.items():
        func = make()
        lowered = select(lower_prim_func(func))
        found[name] = func, lowered, print_function(lowered, "k_" + name)
    return found


@pytest.fixture(scope="module", params=[*COMPILERS, "gcc -fopenmp", "gcc -march=native -O3", "gcc -DINGOT_SIMD_SCALAR"])
def library(request, printed, tmp_path_factory):
    compiler, *flags = request.param.split()
    return compile_text(source([f for *_, f in printed.values()]), tmp_path_factory.mktemp("c"), compiler, flags)


@pytest.mark.parametrize("name", CASES)
def test_same_numbers_as_the_interpreter(name, printed, library):
    func, lowered, _ = printed[name]
    inputs = arguments(func)
    expected = results(func, inputs)
    call(library, lowered, "k_" + name, inputs)
    for got, want in zip([a for a in inputs if isinstance(a, np.ndarray)], expected):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_text_reads_well(name, printed):
    text = printed[name][2].signature + "\n" + printed[name][2].body
    assert not re.search(r"\bv_\w", text), "names of block iterators are not for readers"
    assert "((" not in text.replace("INGOT_", "") or re.search(r"\(\(\w+\)", text), "doubled parentheses"
    assert all(len(line) <= 120 and line == line.rstrip() for line in text.splitlines())
    assert "(int64_t)" not in text or "symbolic" in name
