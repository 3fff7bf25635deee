"""Weights that a model has in 2, 4 and 8 bits: how many bytes of the output they are, and what is computed of them."""
import shutil

import numpy as np
import onnx
import pytest
from c_build import run_selftest
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.codegen.toolchain import find_compiler, missing_tools, run_command
from ingot.codegen.toolchains import is_supported_here
from ingot.ir.target import Target

K, N = 256, 192
OPSET = min(onnx.defs.onnx_opset_version(), 21)
RANGES = {"INT8": (-128, 127), "UINT8": (0, 255), "INT4": (-8, 7), "UINT4": (0, 15)}
SANITIZE = {"gcc": ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")}


class Model:
    """A model being made, with the bytes that its weights have in the file."""

    def __init__(self, seed=0):
        self.rng, self.nodes, self.weights, self.bytes, self.arrays = np.random.default_rng(seed), [], [], 0, {}

    def node(self, op, inputs, output, domain="", **attrs):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, domain=domain, **attrs))

    def integers(self, name, kind, *shape):
        least, most = RANGES[kind]
        self.arrays[name] = self.rng.integers(least, most + 1, shape)
        self.weights.append(helper.make_tensor(name, getattr(TensorProto, kind), shape,
                                               self.arrays[name].reshape(-1).tolist()))
        self.bytes += self.arrays[name].size // (2 if kind.endswith("4") else 1)
        return self.arrays[name].astype(np.float64)

    def floats(self, name, *shape):
        self.arrays[name] = self.rng.uniform(.01, .02, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(self.arrays[name], name))
        self.bytes += self.arrays[name].nbytes
        return self.arrays[name].astype(np.float64)

    def bytes_of(self, name, *shape):
        array = self.rng.integers(0, 256, shape).astype(np.uint8)
        self.weights.append(numpy_helper.from_array(array, name))
        self.bytes += array.nbytes
        return array

    def proto(self, x, rank):
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", kind, x.shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET),
                                                       helper.make_opsetid("com.microsoft", 1)], ir_version=10)


def dequantized(kind, shape, scale, block=0, axis=0, zero=False):
    """(Model with the dequantized tensor "wf", its values)."""
    m = Model()
    w = m.integers("w", kind, *shape)
    s = m.floats("s", *scale)
    z = m.integers("z", kind, *scale) if zero else 0 * s
    along = (lambda v: v.repeat(block, axis)) if block else (
        lambda v: v.reshape([-1 if k == axis else 1 for k in range(len(shape))]) if v.ndim else v)
    m.node("DequantizeLinear", ["w", "s", *(["z"] if zero else [])], "wf", axis=axis, **(
        {"block_size": block} if block else {}))
    return m, (w - along(z)) * along(s)


def product(rows=3, **given):
    m, w = dequantized(**given)
    x = m.rng.standard_normal((rows, K)).astype(np.float32)
    turned = given["shape"][0] == N
    m.node("Gemm" if turned else "MatMul", ["x", "wf"], "y", **({"transB": 1} if turned else {}))
    w = w.T if turned else w
    return m, x, x.astype(np.float64) @ w, np.abs(x) @ np.abs(w)


def rows_of_a_table(**given):
    m, w = dequantized(**given)
    m.node("Gather", ["wf", "x"], "y")
    x = np.int64([3, K - 1, 0])
    return m, x, w[x], np.abs(w[x])


def convolution(kind, scale, groups=1):
    m, w = dequantized(kind, (N, 32 // groups, 3, 3), scale)
    x = m.rng.standard_normal((1, 32, 9, 9)).astype(np.float32)
    m.node("Conv", ["x", "wf"], "y", group=groups)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(2, 3))
    windows, w = windows.reshape(1, groups, -1, 7, 7, 3, 3), w.reshape(groups, -1, 32 // groups, 3, 3)
    y, size = (np.einsum("bgcyxkl,gockl->bgoyx", f(windows), f(w)).reshape(1, N, 7, 7) for f in (np.asarray, np.abs))
    return m, x, y, size


def of_n_bits(bits, block, rows=1, depth=K, zeros=False):
    m, groups, per = Model(), -(-depth // block), 8 // bits
    packed, s = m.bytes_of("w", N, groups, block * bits // 8), m.floats("s", N, groups)
    def spread(a, count):
        return (a.reshape(N, -1, 1) >> np.arange(per, dtype=np.uint8) * np.uint8(bits) & (1 << bits) - 1).reshape(
            N, -1)[:, :count].astype(np.float64)
    z = spread(m.bytes_of("z", N, -(-groups // per)), groups) if zeros else np.full((N, groups), 2. ** (bits - 1))
    m.node("MatMulNBits", ["x", "w", "s", *(["z"] if zeros else [])], "y", domain="com.microsoft", K=depth, N=N,
           bits=bits, block_size=block)
    w = ((spread(packed, groups * block).reshape(N, groups, block) - z[..., None]) * s[..., None]).reshape(N, -1)
    w, x = w[:, :depth], m.rng.standard_normal((rows, depth)).astype(np.float32)
    return m, x, x.astype(np.float64) @ w.T, np.abs(x) @ np.abs(w.T)


CASES = {
    "int8": lambda: product(kind="INT8", shape=(K, N), scale=()),
    "int8 with a zero point": lambda: product(kind="INT8", shape=(K, N), scale=(), zero=True),
    "uint8 by columns": lambda: product(kind="UINT8", shape=(K, N), scale=(N,), axis=1),
    "uint8 with zero points": lambda: product(kind="UINT8", shape=(K, N), scale=(N,), axis=1, zero=True),
    "int8 transposed": lambda: product(kind="INT8", shape=(N, K), scale=(N,)),
    "int8 in blocks": lambda: product(kind="INT8", shape=(K, N), scale=(4, N), block=64),
    "int4 in blocks": lambda: product(kind="INT4", shape=(K, N), scale=(8, N), block=32),
    "uint4 in blocks": lambda: product(kind="UINT4", shape=(K, N), scale=(8, N), block=32, zero=True),
    "int4 transposed": lambda: product(kind="INT4", shape=(N, K), scale=(N, 8), block=32, axis=1),
    "int4 by columns": lambda: product(kind="INT4", shape=(K, N), scale=(N,), axis=1),
    "one row": lambda: product(kind="INT4", shape=(K, N), scale=(8, N), block=32, rows=1),
    "many rows": lambda: product(kind="INT4", shape=(K, N), scale=(8, N), block=32, rows=37),
    "table": lambda: rows_of_a_table(kind="INT8", shape=(K, N), scale=()),
    "table by rows": lambda: rows_of_a_table(kind="INT8", shape=(K, N), scale=(K,)),
    "table by columns": lambda: rows_of_a_table(kind="UINT8", shape=(K, N), scale=(N,), axis=1, zero=True),
    "table in blocks": lambda: rows_of_a_table(kind="INT4", shape=(K, N), scale=(K, 6), block=32, axis=1),
    "table in blocks, zero points": lambda: rows_of_a_table(kind="UINT4", shape=(K, N), scale=(K, 6), block=32,
                                                            axis=1, zero=True),
    "convolution": lambda: convolution("INT8", (N,)), "convolution, one scale": lambda: convolution("INT8", ()),
    "groups": lambda: convolution("INT8", (N,), groups=4),
    **{f"{bits} bits": lambda bits=bits: of_n_bits(bits, 32) for bits in (2, 4, 8)},
    **{f"{bits} bits, zero points": lambda bits=bits: of_n_bits(bits, 32, zeros=True) for bits in (2, 4, 8)},
    "4 bits, several rows": lambda: of_n_bits(4, 32, rows=9), "4 bits, one block": lambda: of_n_bits(4, K),
    "4 bits, a part of a block": lambda: of_n_bits(4, 32, rows=2, depth=K - 12, zeros=True),
    "2 bits, no whole words": lambda: of_n_bits(2, 8),
}
SPARE = 1.1  # zero points of 4 and 2 bits take a byte each, and columns are filled up to whole panels


@pytest.mark.parametrize("case, target", [
    *((case, "host") for case in CASES), *((case, "c") for case in list(CASES)[1::2]),
    *((case, "x86-64-v3") for case in list(CASES)[::4])])
def test_weights_are_as_small_as_in_the_file(case, target):
    if not is_supported_here(Target.get(target)):
        pytest.skip(f"this machine does not run {target}")
    m, x, expected, size = CASES[case]()
    with ingot.compile(m.proto(x, expected.ndim), target=target, threads="none") as library:
        found = library(x)
        assert (np.abs(found - expected) <= 1e-5 * size + 1e-6).all()
        assert sum(w.data.nbytes for w in library.model.program.weights) <= SPARE * m.bytes


@pytest.mark.parametrize("kind", ["INT8", "INT4"])
def test_weights_of_branches_are_as_small(kind):
    made = [dequantized(kind, (K, N), (N,), axis=1), dequantized(kind, (K, N), (), zero=True)]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, N])
    for m, _ in made:
        m.node("MatMul", ["x", "wf"], "y")
    branches = {name: helper.make_graph(m.nodes, name, [], [result], m.weights)
                for name, (m, _) in zip(("then_branch", "else_branch"), made)}
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []),
              helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, K])]
    node = helper.make_node("If", ["c"], ["y"], name="choice", **branches)
    proto = helper.make_model(helper.make_graph([node], "g", inputs, [result]), ir_version=10,
                              opset_imports=[helper.make_opsetid("", OPSET)])
    x = np.random.default_rng(1).standard_normal((1, K)).astype(np.float32)
    with ingot.compile(proto, threads="none") as library:
        assert sum(w.data.nbytes for w in library.model.program.weights) <= SPARE * sum(m.bytes for m, _ in made)
        for c, (_, w) in zip((True, False), made):
            assert (np.abs(library(np.array(c), x) - x @ w) <= 1e-5 * (np.abs(x) @ np.abs(w)) + 1e-6).all()


SOME = ["int8 with a zero point", "uint4 in blocks", "2 bits, zero points"]


@pytest.mark.parametrize("target", ["aarch64-linux-gnu", "armv7-linux-gnueabihf", "s390x-linux-gnu"])
@pytest.mark.parametrize("case", SOME)
def test_other_machines(case, target, tmp_path):
    if reason := missing_tools(target):
        pytest.skip(reason)
    m, x, expected, _ = CASES[case]()
    folder = ingot.compile(m.proto(x, expected.ndim), target=target, threads="none").export(tmp_path / "c")
    command = [*find_compiler(target).command, *(["-mfpu=neon-vfpv4"] if target.startswith("armv7") else [])]
    run_selftest(folder, tmp_path / "test", *command, "-O1", runner=run_command(target, "")[:-1])


@pytest.mark.parametrize("compiler, target, flags", [
    ("gcc", "c", ("-DINGOT_SIMD_SCALAR",)), ("gcc", "x86-64-v3", ("-march=x86-64-v3",)),
    ("gcc", "x86-64-v4", ("-march=x86-64-v4",)), ("clang", "x86-64-v4", ("-march=x86-64-v4",))])
@pytest.mark.parametrize("case", SOME)
def test_the_c_is_strict_and_reads_nothing_beyond(case, compiler, target, flags, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    if not is_supported_here(Target.get(target)):
        pytest.skip(f"this machine does not run {target}")
    m, x, expected, _ = CASES[case]()
    folder = ingot.compile(m.proto(x, expected.ndim), target=target, threads="none").export(tmp_path / "c")
    run_selftest(folder, tmp_path / "test", compiler, "-O1", *flags, *SANITIZE.get(compiler, ()))
