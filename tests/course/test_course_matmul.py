"""The course's matrix product: every step of benchmarks/course.py computes the product, and does what it says."""
import importlib.util
import sys

import numpy as np
import pytest

import ingot as tvm
from networks import ROOT

SPEC = importlib.util.spec_from_file_location("benchmark_course", ROOT / "benchmarks" / "course.py")
course = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = course
SPEC.loader.exec_module(course)

SIZE = 96
# what each step must have left in the program that is printed
SIGNS = {"plain loops": "for m, n in T.grid(96, 96)", "blocked 32 x 32": "T.grid(24, 4, 32, 32)",
         "vectorized": "in T.vectorized(32)", "permuted": "T.grid(24, 32, 4)",
         "array packed": "packedB = T.alloc_buffer((3, 96, 32))", "cache written": 'scope="local"',
         "parallel": "in T.parallel(3)", "register tile": "in T.unroll(8)"}


@pytest.mark.parametrize("name, step", course.STEPS, ids=[name for name, _ in course.STEPS])
def test_step(name, step):
    s, args = step(SIZE)
    assert SIGNS[name] in s.to_prim_func(args).script()
    built = tvm.build(s, args, target="c", name="mmult")
    rng = np.random.default_rng(0)
    a, b = rng.random((2, SIZE, SIZE), np.float32)
    c = tvm.nd.empty((SIZE, SIZE))
    built["mmult"](tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)
