"""lookup: tables of bytes, in the kernels of what makes the bytes, on every target that this machine runs."""
import numpy as np
import pytest
from ops_nn_check import call_of, check
from test_dot_products import TARGETS, integers, product_of

import ingot
from ingot.codegen.toolchain import missing_tools
from ingot.codegen.toolchains import is_supported_here
from ingot.ir.op import InferError
from ingot.ir.relax import Constant
from ingot.ir.target import Target

KINDS = pytest.mark.parametrize("dtype, result", [("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8"),
                                                  ("int8", "int8"), ("uint8", "float32")])


def table_of(dtype):
    return integers(256, dtype, 3) if dtype != "float32" else np.random.default_rng(3).random(256, np.float32)


@KINDS
def test_the_operator(dtype, result):
    x, table = integers((3, 5), dtype), table_of(result)
    _, found = check("lookup", [x, table], 0)
    np.testing.assert_array_equal(found, table[x.astype(int) - np.iinfo(dtype).min])


def test_what_is_refused():
    with pytest.raises(InferError, match="takes int8 or uint8, not int32"):
        call_of("lookup", [(3,), (256,)], {}, ["int32", "uint8"])
    with pytest.raises(InferError, match=r"a table has 256 numbers, not \(255\)|a table has 256 numbers"):
        call_of("lookup", [(3,), (255,)], {}, ["uint8", "uint8"])


@pytest.mark.parametrize("target", TARGETS)
def test_compiled_after_a_product_and_alone(target):
    cpu = Target.get(target)
    if not is_supported_here(cpu):
        pytest.skip(f"this machine does not run {target}")
    if reason := missing_tools(cpu):
        pytest.skip(reason)
    x, w = integers((9, 20), "uint8"), integers((20, 37), "int8", 1)
    tables = {(dtype, result): table_of(result) for dtype, result in KINDS.args[1]}

    def build(op, x):
        sums = op("multiply", op("astype", op("matmul", x, Constant(w, "w"), out_dtype="int32"), dtype="float32"),
                  Constant(np.array(0.01, np.float32), "scale"))
        made = {"int8": op("astype", op("clip", op("round", sums), min=-128., max=127.), dtype="int8"), "uint8": x}
        return [op("lookup", made[dtype], Constant(table, "table")) for (dtype, _), table in tables.items()]

    sums = (x.astype(np.int32) @ w.astype(np.int32)).astype(np.float32) * np.float32(0.01)
    made = {"int8": np.clip(np.rint(sums), -128, 127).astype(int) + 128, "uint8": x.astype(int)}
    with ingot.compile(product_of(build, (x.shape, "uint8")), target=target, threads="none") as library:
        for found, ((dtype, _), table) in zip(library(x), tables.items()):
            np.testing.assert_array_equal(found, table[made[dtype]])
