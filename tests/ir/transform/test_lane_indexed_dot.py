"""Words of bytes that follow one another are lanes of a vector: which, and what C says of them under an emulator."""
import numpy as np
import pytest
from graph_check import Graph, param

import ingot
from ingot.codegen.toolchain import missing_tools
from ingot.codegen.toolchains import toolchain
from ingot.ir import tir
from ingot.ir.arith import Analyzer
from ingot.ir.expr import Broadcast, Call, Ramp, Var, const, substitute
from ingot.ir.node import collect
from ingot.ir.relax import Constant
from ingot.ir.target import Target
from ingot.ir.tir.stmt import BufferLoad, BufferStore, For, IfThenElse
from ingot.ir.transform.lane_indexed_dot import lane_indexed_dot

X = tir.decl_buffer((256,), "int8", "x")
W, SUMS = (tir.decl_buffer((64,), "int32", name) for name in ("w", "sums"))
DOTS = ("dot_s8s8",)


def tile(extent, at, guard=None, dot="dot_s8s8", kind="unrolled"):
    """for i: sums[4 i : 4 i + 4] = dot(the word at x[at(i)], w, sums)."""
    i = Var("i", "int32")
    lanes = Ramp(i * 4, const(1), 4)
    word = Call("int32", "tir.load_word", (BufferLoad(X, (at(i),)),))
    value = Call("int32x4", f"tir.{dot}", (
        Broadcast(word, 4), BufferLoad(W, (Ramp(const(0), const(1), 4),)), BufferLoad(SUMS, (lanes,))))
    body = BufferStore(SUMS, value, (lanes,))
    if guard is not None:
        body = IfThenElse(i < guard, body)
    func = tir.prim_func([X, W, SUMS], For(i, const(0), const(extent), kind, body))
    return func.replace(body=func.root.body)


def taken(func, **given):
    """[(first byte of the vector, lane)] of each iteration; [] where words are loaded one by one."""
    made = lane_indexed_dot(func, **{"dots": DOTS, **given})
    calls = [c for c in collect(made.body, Call) if c.op == "tir.dot_s8s8_lane"]
    if not calls:
        return []
    (vector, lane, *_), loop = calls[0].args, collect(made.body, For)[0]
    simplify = Analyzer().simplify
    return [tuple(simplify(substitute(e, {loop.loop_var: const(n)})).value for e in (vector.args[0].indices[0], lane))
            for n in range(loop.extent.value)]


def test_whole_vectors():
    assert taken(tile(8, lambda i: i * 4 + 12)) == [(12, 0), (12, 1), (12, 2), (12, 3), (28, 0), (28, 1), (28, 2),
                                                    (28, 3)]


@pytest.mark.parametrize("extent", [4, 5, 6, 7, 10])
def test_no_byte_is_read_that_is_not_a_word_of_the_loop(extent):
    found = taken(tile(extent, lambda i: i * 4))
    assert [start + 4 * lane for start, lane in found] == [4 * n for n in range(extent)]
    assert all(0 <= start <= 4 * (extent - 4) and 0 <= lane < 4 for start, lane in found)


@pytest.mark.parametrize("func, given", [
    (tile(3, lambda i: i * 4), {}), (tile(8, lambda i: i * 8), {}), (tile(8, lambda i: i * 4, guard=7), {}),
    (tile(8, lambda i: i * 4, kind="serial"), {}), (tile(8, lambda i: i * 4, dot="dot_u8s8"), {}),
    (tile(8, lambda i: i * 4), {"dots": ()}), (tile(8, lambda i: i * 4), {"lanes": 8})],
    ids=["few", "apart", "a condition", "no tile", "another product", "no instruction", "other vectors"])
def test_what_stays(func, given):
    assert taken(func, **given) == []


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return np.random.default_rng(0).integers(limits.min, limits.max + 1, shape).astype(dtype)


def network(left):
    """Products, and convolutions with borders of every width, of bytes by int8; attention of bytes without a softmax:
    its keys lie across, its words and panels are not whole."""
    shapes = (13, 64), (1, 8, 9, 11), (1, 4, 5, 6), (1, 2, 21, 64), (1, 22, 2, 64), (1, 2, 22, 33)
    weights = integers("int8", 64, 20), integers("int8", 12, 8, 3, 3), integers("int8", 9, 4, 1, 1)
    g = Graph(*(param(f"x{n}", *shape, dtype=left) for n, shape in enumerate(shapes)))
    zeros = Constant(np.zeros((), left)), Constant(np.array(0, np.int8))
    (x, y, z, a, b, c), (p, q, r) = g.params, (Constant(w, f"w{n}") for n, w in enumerate(weights))
    others = Constant(np.array(5, left)), Constant(np.array(100, left))
    s = g.op("qnn.matmul", a, g.op("permute_dims", b, axes=(0, 2, 3, 1)), *others)
    s = g.op("astype", g.op("clip", g.op("right_shift", s, Constant(np.array(9, np.int32))), min=-100, max=100),
             dtype="int8")
    return g.module(s, g.op("qnn.matmul", s, c, Constant(np.array(0, np.int8)), others[1]),
                    g.op("qnn.matmul", x, p, *zeros), g.op("qnn.conv2d", y, q, *zeros, padding=(1, 1, 1, 1)),
                    g.op("qnn.conv2d", z, r, *zeros)), [integers(left, *shape) for shape in shapes]


@pytest.mark.parametrize("target, left", [
    ("aarch64-dotprod", "int8"), ("aarch64-dotprod", "uint8"), ("aarch64-i8mm", "int8"), ("aarch64-i8mm", "uint8"),
    ("aarch64-cortex-a72", "uint8"), ("riscv64-v", "int8")])
def test_results_under_an_emulator(target, left):
    """Bit for bit those of the operators."""
    cpu = Target.get(target)
    if reason := missing_tools(cpu):
        pytest.skip(reason)
    if not toolchain(cpu).runner:
        pytest.skip("no emulator")
    mod, inputs = network(left)
    feeds = {f"x{n}": x for n, x in enumerate(inputs)}
    report = ingot.verify(mod, feeds, target=target, threads="none")
    assert report.ok and not any(row.error for row in report.rows)
