"""Every operator of relax.op, compiled with shapes that are known and that a run tells: numpy's values."""
from types import SimpleNamespace

import numpy as np
import pytest
from op_inventory import CASES
from value_target import small_target

import ingot as tvm
from ingot import relax

ALONE = ("dynamic_strided_slice", "nonzero", "unique", "memory.view", "memory.ensure_zero_offset")  # not for networks
PINNED = ("topk",)  # take no axis whose extent only a run tells


def function(builder, name, cases, d):
    """Add a function of all cases; the arrays that it takes."""
    params, arrays = [], []
    with builder.function(name):
        results = []
        for _, call, inputs, _ in cases:
            own = [relax.Var(f"a{len(params) + k}", relax.TensorStructInfo(
                tuple({5: d.n, 6: d.m}.get(s, s) for s in a.shape), str(a.dtype))) for k, a in enumerate(inputs)]
            results.append(builder.emit(call(relax.op, d, *own)))
            params += own
            arrays += inputs
        builder.emit_func_output(results, params)
    return arrays


DIMS = {"known": (5, 6), "symbolic": (tvm.tir.Var("n", "int64"), tvm.tir.Var("m", "int64"))}


@pytest.mark.parametrize("dims", DIMS.values(), ids=DIMS)
def test_operators_compute_what_numpy_does(dims):
    builder, d = relax.BlockBuilder(), SimpleNamespace(n=dims[0], m=dims[1])
    cases = [c for c in CASES if isinstance(d.n, int) or c[0] not in PINNED]
    parts = {"main": [c for c in cases if c[0] not in ALONE], "alone": [c for c in cases if c[0] in ALONE]}
    arrays = {name: function(builder, name, part, d) for name, part in parts.items()}
    vm = relax.VirtualMachine(relax.build(builder.get(), small_target()), tvm.cpu())
    for part, own in parts.items():
        for found, (name, _, inputs, numpy) in zip(vm[part](*arrays[part]), own):
            want = np.asarray(numpy(*inputs))
            assert found.shape == want.shape and (found.dtype == str(want.dtype) or want.dtype.kind == "f"), name
            np.testing.assert_allclose(found.numpy(), want, rtol=2e-5, atol=2e-5, err_msg=name)
