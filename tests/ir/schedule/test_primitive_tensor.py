"""blockize and tensorize: structure and numbers of each, and every refusal."""

from ingot.ir.node import collect
from ingot.ir.schedule import Schedule, TensorIntrin
from ingot.ir.tir import Block, For
from ingot.script import from_source
from ingot.script import tir as T
from primitive_programs import doubled, downward, matmul, nests, row_sum, tied, triangle, two_stages, window
from primitive_table import loop, tile, table_tests
from schedule_programs import assert_same, repeated_sum, softmax


double_desc = nests("A[11], B[11]", "i 11 (double): B[i] = A[i] * T.float32(2)")


@T.prim_func
def double_impl(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (11,), "float32", offset_factor=1)
    B = T.match_buffer(b, (11,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:11])
        T.writes(B[0:11])
        T.block_attr({"adds": 11})
        for i in T.vectorized(11):
            with T.block("twice"):
                vi = T.axis.spatial(11, i)
                B[vi] = A[vi] + A[vi]


TensorIntrin.register("primitive.double", double_desc, double_impl, override=True)
lanes_desc = nests("A[8], B[8]", 'i 8 (lanes): B[i] = A[i] * T.Cast("float32", i % 8)')
lanes_impl = nests("A[8], B[8]", 'i 8 (lanes): B[i] = T.Cast("float32", i) * A[i]')
TensorIntrin.register("primitive.lanes", lanes_desc, lanes_impl, override=True)
by_lane = nests("A[32], B[32]", 'i 32: B[i] = A[i] * T.Cast("float32", i % 8)')
by_turn = nests("A[32], B[32]", 'i 32: B[i] = A[i] * T.Cast("float32", i % 16)')


@T.prim_func
def folded(A: T.Buffer((6, 5), "float32"), B: T.Buffer((6,), "float32")):
    for f in range(48):
        with T.block("B"):
            vi = T.axis.spatial(6, f // 8)
            vk = T.axis.reduce(5, f % 8)
            T.where(f % 8 < 5)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def overlapped(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi = T.axis.spatial(10, i * 3 + j)
            B[vi] = A[vi]


@T.prim_func
def exchanged(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi = T.axis.spatial(4, T.bitwise_xor(i, 1))
            vj = T.axis.spatial(6, j)
            B[vi, vj] = A[vi, vj]


@T.prim_func
def cleared(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5,), "float32")):
    for i in range(5):
        with T.block("Z"):
            vi = T.axis.spatial(5, i)
            B[vi] = T.float32(0)
    for i, k in T.grid(5, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def between(A: T.Buffer((7,), "float32"), B: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi]
        T.evaluate(T.call_extern("int32", "tick"))
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = A[vi]


@T.prim_func
def outside(A: T.Buffer((22,), "float32"), B: T.Buffer((33,), "float32")):
    for i, j in T.grid(3, 11):
        with T.block("B"):
            vi = T.axis.spatial(33, i * 11 + j)
            B[vi] = A[vi] * T.float32(2)


short_sums = nests("A[5, 3], B[5]", "i 5, k 3: B[i] += A[i, k]")
sum_desc = nests("A[3], B[1]", "i 1, k 3 (sum): B[i] += A[k]")
unused = nests("A[11], B[11], Z[1]", "i 11 (double): B[i] = A[i] * T.float32(2)")


TensorIntrin.register("primitive.sum", sum_desc, sum_desc, override=True)
TensorIntrin.register("primitive.unused", unused, unused, override=True)


LEGAL = {
    "blockize of an uneven tile": (doubled, lambda s: s.blockize(tile(s, "B", (5, 8))[1][0]), """
        for i_0, j_0 in T.grid(1, 3):
            with T.block("B_o"):
                vi_o, vj_o = T.axis.remap("SS", [i_0, j_0])
                for i_1, j_1 in T.grid(5, 8):
                    with T.block("B"):
                        vi_i, vj_i = T.axis.remap("SS", [i_1, j_1])
                        T.where(vj_o * 8 + j_1 < 22)
                        B[vi_i, vj_o * 8 + vj_i] = A[vi_i, vj_o * 8 + vj_i] * T.float32(2.0)"""),
    "blockize of a reduction": (matmul, lambda s: s.blockize(tile(s, "C", (13, 11, 3))[1][0]), """
        for i_0, j_0, k_0 in T.grid(1, 2, 3):
            with T.block("C_o"):
                vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j_0, k_0])
                with T.init():
                    for i_1_init, j_1_init in T.grid(13, 11):
                        with T.block("C_init"):
                            vi_i_init, vj_i_init = T.axis.remap("SS", [i_1_init, j_1_init])
                            C[vi_i_init, vj_o * 11 + vj_i_init] = T.float32(0.0)
                for i_1, j_1, k_1 in T.grid(13, 11, 3):
                    with T.block("C"):
                        vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_1, j_1, k_1])
                        T.reads(C[vi_i, vj_o * 11 + vj_i], A[vi_i, vk_o * 3 + vk_i],
                                B[vk_o * 3 + vk_i, vj_o * 11 + vj_i])
                        T.writes(C[vi_i, vj_o * 11 + vj_i])
                        C[vi_i, vj_o * 11 + vj_i] = (
                            C[vi_i, vj_o * 11 + vj_i]
                            + A[vi_i, vk_o * 3 + vk_i] * B[vk_o * 3 + vk_i, vj_o * 11 + vj_i])"""),
    "blockize without unit iterators": (doubled, lambda s: s.blockize(loop(s, "B", 0), preserve_unit_iters=False), """
        with T.block("B_o"):
            vi_o = T.axis.spatial(1, 0)
            vj_o = T.axis.spatial(1, 0)
            for i, j in T.grid(5, 22):
                with T.block("B"):
                    vi_i, vj_i = T.axis.remap("SS", [i, j])
                    B[vi_i, vj_i] = A[vi_i, vj_i] * T.float32(2.0)"""),
    "blockize under a loop of one turn": (doubled, lambda s: s.blockize(
        tile(s, "B", (5, 11))[1][0], preserve_unit_iters=False), """
        for i_0, j_0 in T.grid(1, 2):
            with T.block("B_o"):
                vi_o = T.axis.spatial(1, 0)
                vj_o = T.axis.spatial(2, j_0)
                for i_1, j_1 in T.grid(5, 11):
                    with T.block("B"):
                        vi_i, vj_i = T.axis.remap("SS", [i_1, j_1])
                        B[vi_i, vj_o * 11 + vj_i] = A[vi_i, vj_o * 11 + vj_i] * T.float32(2.0)"""),
    "blockize of two blocks": (window, lambda s: (s.compute_at("B", loop(s, "C", 0)), s.blockize(["B", "C"])), """
        B = T.alloc_buffer((12,), "float32")
        for i in range(10):
            with T.block("blockized_B_C"):
                v_i = T.axis.spatial(10, i)
                for ax0 in range(3):
                    with T.block("B"):
                        vi = T.axis.spatial(12, v_i + ax0)
                        B[vi] = A[vi] * T.float32(2.0)
                with T.block("C"):
                    vi = T.axis.spatial(10, v_i)
                    C[vi] = B[vi] + B[vi + 2]"""),
    "blockize of the parts of a loop": (window, lambda s: (
        s.compute_at("B", loop(s, "C", 0)), s.loop_partition(loop(s, "B", 1), [1]), s.blockize(["B_ax0_common", "C"])),
        """
        B = T.alloc_buffer((12,), "float32")
        for i in range(10):
            with T.block("blockized_B_ax0_common_C"):
                v_i = T.axis.spatial(10, i)
                with T.block("B_ax0_common"):
                    with T.block("B_ax00_partition"):
                        for ax00 in range(1):
                            with T.block("B_ax00"):
                                vi = T.axis.spatial(12, v_i + ax00)
                                B[vi] = A[vi] * T.float32(2.0)
                    with T.block("B_ax01_partition"):
                        T.reads(A[v_i + 1:v_i + 1 + 2])
                        T.writes(B[v_i + 1:v_i + 1 + 2])
                        for ax01 in range(1, 3):
                            with T.block("B_ax01"):
                                vi = T.axis.spatial(12, v_i + ax01)
                                B[vi] = A[vi] * T.float32(2.0)
                with T.block("C"):
                    vi = T.axis.spatial(10, v_i)
                    C[vi] = B[vi] + B[vi + 2]"""),
    "tensorize where iterators count alike": (
        by_lane, lambda s: s.tensorize(s.split(loop(s, "B", 0), [None, 8])[1], "primitive.lanes"), """
        for i_0 in range(4):
            with T.block("B_o"):
                vi_o = T.axis.spatial(4, i_0)
                A_1 = T.match_buffer(A[vi_o * 8:vi_o * 8 + 8], (8,))
                B_1 = T.match_buffer(B[vi_o * 8:vi_o * 8 + 8], (8,))
                for i in range(8):
                    with T.block("lanes"):
                        vi = T.axis.spatial(8, i)
                        B_1[vi] = T.Cast("float32", vi) * A_1[vi]"""),
    "tensorize": (doubled, lambda s: s.tensorize(s.split(loop(s, "B", 1), [None, 11])[1], "primitive.double"), """
        for i, j_0 in T.grid(5, 2):
            with T.block("B_o"):
                vi_o, vj_o = T.axis.remap("SS", [i, j_0])
                T.block_attr({"adds": 11})
                A_elem_offset = T.int32()
                B_elem_offset = T.int32()
                A_1 = T.match_buffer(A[vi_o, vj_o * 11:vj_o * 11 + 11], (11,), "float32", elem_offset=A_elem_offset)
                B_1 = T.match_buffer(B[vi_o, vj_o * 11:vj_o * 11 + 11], (11,), "float32", elem_offset=B_elem_offset)
                for i_1 in T.vectorized(11):
                    with T.block("twice"):
                        vi = T.axis.spatial(11, i_1)
                        B_1[vi] = A_1[vi] + A_1[vi]"""),
}

REFUSED = [
    (softmax(), lambda s: (s.compute_at("T_max", loop(s, "T_exp", 0)), s.blockize(loop(s, "T_exp", 0))),
     "blockize: argument 'target': loop i holds more than a nest around one block: T_max, T_exp; give a list of"),
    (doubled, lambda s: s.blockize(s.split(s.fuse(*s.get_loops("B")), [None, 48])[1]),
     "is no sum of a part that runs outside loop i_j_fused_1 and one that runs inside; split the loops so that"),
    (triangle, lambda s: s.blockize(loop(s, "C", 0)), "the range of loop j depends on another loop"),
    (downward, lambda s: s.blockize(loop(s, "B", 1)),
     "the loops from k inward are not proved to run block B over a box: a sum of loops that does not cover an"),
    (repeated_sum(), lambda s: s.blockize(loop(s, "S", 0)), "the binding of block S is not affine in loop r"),
    (overlapped, lambda s: s.blockize(loop(s, "B", 1)),
     "the part of iterator vi that runs outside loop j is not proved to be a multiple of 4"),
    (exchanged, lambda s: s.blockize(loop(s, "B", 1)), "the range of iterator vi outside loop j is not known"),
    (tied, lambda s: s.blockize(loop(s, "B", 1)),
     "block B runs only where 2 <= i + k, which ties the loops outside to those inside"),
    (folded, lambda s: s.blockize(loop(s, "B", 0)), "ties a loop of the reduction to a spatial one"),
    (cleared, lambda s: s.blockize(loop(s, "B", 1)),
     "block B has an init but is no reduction block: block Z also writes B"),
    (two_stages, lambda s: s.blockize(["root"]), "block root is the root block"),
    (two_stages, lambda s: s.blockize([]), "the list of blocks is empty; give at least one block"),
    (softmax(), lambda s: s.blockize(["T_max", "T_sum"]),
     "block T_exp stands between them; include it or move it away"),
    (softmax(), lambda s: (s.blockize(["T_max", "T_exp"]), s.blockize(["T_exp", "Y"])),
     "the blocks are in different blocks; give blocks of one scope"),
    (matmul, lambda s: s.blockize(["C"]),
     "loop k runs the reduce iterator vk of block C; only loops that run spatial iterators may be around the group"),
    (triangle, lambda s: s.blockize(["C"]), "the range of loop j depends on another loop"),
    (between, lambda s: s.blockize(["B", "C"]), "between them is a Evaluate outside any block; only loops and blocks"),
    (by_turn, lambda s: s.tensorize(s.split(loop(s, "B", 0), [None, 8])[1], "primitive.lanes"),
     "block B_o is not what primitive.lanes does: "),
    (doubled, lambda s: s.tensorize(loop(s, "B", 1), "primitive.none"),
     "tensorize: argument 'tensor_intrin': no intrinsic 'primitive.none' is registered; TensorIntrin.register it"),
    (doubled, lambda s: s.tensorize(loop(s, "B", 1), "primitive.double"),
     "block B_o is not what primitive.double does: loop i of the description and loop j differ in extent: 11 and 22"),
    (two_stages, lambda s: s.tensorize(s.split(loop(s, "C", 1), [None, 11])[1], "primitive.double"),
     "block C_o is not what primitive.double does: A[vi_i] * T.float32(2.0) is wanted"),
    (matmul, lambda s: s.tensorize(loop(s, "C", 2), "primitive.double"), "it has an init, which the intrinsic has not"),
    (doubled, lambda s: s.tensorize(loop(s, "B", 1), "primitive.sum"), "it has no init"),
    (short_sums, lambda s: s.tensorize(s.split(loop(s, "B", 0), [6, 1])[1], "primitive.sum"), "B_init runs only where"),
    (row_sum, lambda s: s.tensorize(s.split(loop(s, "B", 1), [3, 3])[1], "primitive.sum"),
     "its reduction goes on outside, and the intrinsic would start it anew"),
    (doubled, lambda s: s.tensorize(s.split(loop(s, "B", 1), [None, 11])[1], "primitive.unused"),
     "the description does not use its parameter Z"),
    (outside, lambda s: s.tensorize(loop(s, "B", 1), "primitive.double"),
     "the tile of A from vi_o * 11 on, 11 long, may reach outside its 22 elements"),
]

test_legal, test_refused = table_tests(LEGAL, REFUSED)

LONG = """@T.prim_func
def main(A: T.Buffer((T.int64(22),), "float32"), B: T.Buffer((T.int64(22),), "float32")):
    for i in range(T.int64(22)):
        with T.block("B"):
            vi = T.axis.spatial(T.int64(22), i)
            B[vi] = A[vi] * T.float32(2)
"""


def test_an_intrinsic_counts_in_the_dtype_of_its_place():
    func = from_source(LONG)
    sch = Schedule(func, debug_mask="all")
    sch.tensorize(sch.split(sch.get_loops("B")[0], [None, 11])[1], "primitive.double")
    placed, = (b for b in collect(sch.func, Block) if b.match_buffers)
    assert {str(e.dtype) for m in placed.match_buffers for e in (*m.buffer.shape, m.buffer.elem_offset)} == {"int64"}
    assert {str(loop.loop_var.dtype) for loop in collect(sch.func, For)} == {"int64"}
    assert_same(func, sch.func)
    assert from_source(sch.func.script()).script() == sch.func.script()
