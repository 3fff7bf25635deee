"""One row per name of T.*: a line of script and what it means. And that no name lacks a row."""
import re

import pytest

from ingot.ir import tir
from ingot.ir.expr import const, free_vars
from ingot.ir.node import collect, structural_equal
from ingot.ir.script import script
from ingot.ir.script.errors import ScriptError
from ingot.ir.script.expr_printer import ExprPrinter
from ingot.ir.script.functions import from_source
from ingot.ir.script.tir_names import ROWS, TYPED
from ingot.ir.tir.intrin import BIT_INTRINSICS, INTEGER_INTRINSICS, INTRINSICS
from ingot.ir.tir.intrinsics import DOTS, INTEGER_DOTS, TAPS
from ingot.script import tir as T

HEAD = """@T.prim_func
def main(p: T.handle, i: T.int32, j: T.int32, x: T.float32, y: T.float32):
    A = T.match_buffer(p, (8, 8), "float32")
"""


def body_of(*lines):
    """The function with these lines below the parameters p, i, j, x, y and the buffer A."""
    return from_source(HEAD + "".join(f"    {line}\n" for line in lines))


# the script's expression -> how it prints, which is its meaning in the printer's own words
EXPRESSIONS = {
    "T.Add(i, 1)": "i + 1", "T.Sub(i, j)": "i - j", "T.Mul(2, i)": "2 * i", "T.Div(x, y)": "x / y",
    "T.Mod(i, j)": "T.truncmod(i, j)", "T.FloorDiv(i, j)": "i // j", "T.FloorMod(i, j)": "i % j",
    "T.Min(i, 1)": "T.min(i, 1)", "T.Max(1, i)": "T.max(1, i)", "T.EQ(i, j)": "i == j", "T.NE(i, j)": "i != j",
    "T.LT(i, j)": "i < j", "T.LE(i, j)": "i <= j", "T.GT(i, j)": "i > j", "T.GE(i, j)": "i >= j",
    "T.min(i, j)": "T.min(i, j)", "T.max(x, 0)": "T.max(x, T.float32(0.0))", "T.floordiv(i, 4)": "i // 4",
    **{call: call for call in (f"T.reduce_{f}(T.Broadcast(x, 4))" for f in ("add", "min", "max", "greater"))},
    "T.first_n(T.Broadcast(x, 4), T.Broadcast(y, 4), 3)": "T.first_n(T.Broadcast(x, 4), T.Broadcast(y, 4), 3)",
    **{f"T.{f}(T.Broadcast(x, 4), T.Broadcast(y, 4), 2)": f"T.{f}(T.Broadcast(x, 4), T.Broadcast(y, 4), 2)"
       for f in ("evens", "odds")},
    "T.Shuffle([T.Broadcast(x, 4), y], [4, 0])": "T.Shuffle([T.Broadcast(x, 4), y], [4, 0])",
    "T.lane(T.Broadcast(x, 4), i)": "T.lane(T.Broadcast(x, 4), i)",
    "T.held(T.Broadcast(x, 4))": "T.held(T.Broadcast(x, 4))",
    **{f"T.{name}(T.Broadcast(i, 4))": f"T.{name}(T.Broadcast(i, 4))" for name in ("low_i8", "low_u8", "low_i16")},
    **{text: text for text in (
        *(f"T.{name}_lane(T.Broadcast(i, 4), 3, T.Broadcast(j, 4), T.Broadcast(i, 4))" for name in INTEGER_DOTS),
        *(f"T.{name.replace('dot', 'matrix_dot')}(T.Broadcast(i, 4), T.Broadcast(j, 4), T.Broadcast(i, 4))"
          for name in DOTS),
        *(f"T.{name}(i, j, i, j, 1)" for name in TAPS.values()), "T.round_i8(i, j)", "T.round_u8(i, j)",
        "T.round_i16(i, j)", "T.round_u16(i, j)",
        "T.add_scaled(T.Broadcast(i, 4), j, T.Broadcast(i, 4))",
        *(f"T.{name}(T.Broadcast(i, 4), T.Broadcast(j, 4), 1)" for name in ("zip_words", "zip_pairs", "unzip_words")))},
    "T.fma_lane(T.Broadcast(x, 4), 3, T.Broadcast(y, 4), T.Broadcast(x, 4))":
        "T.fma_lane(T.Broadcast(x, 4), 3, T.Broadcast(y, 4), T.Broadcast(x, 4))",
    "T.accumulate(T.Broadcast(x, 4), T.Broadcast(y, 4), T.Broadcast(x, 4))":
        "T.accumulate(T.Broadcast(x, 4), T.Broadcast(y, 4), T.Broadcast(x, 4))",
    "T.floormod(i, 4)": "i % 4", "T.truncdiv(i, 4)": "T.Div(i, 4)", "T.truncmod(i, 4)": "T.truncmod(i, 4)",
    "T.div(i, j)": "T.Div(i, j)", "T.mod(i, j)": "T.truncmod(i, j)", "T.indexdiv(i, j)": "i // j",
    "T.indexmod(i, j)": "i % j", "T.And(i < 1, j < 1)": "i < 1 and j < 1", "T.Or(i < 1, j < 1)": "i < 1 or j < 1",
    "T.all(i < 1, j < 1, i < j)": "i < 1 and j < 1 and i < j", "T.any(i < 1, j < 1)": "i < 1 or j < 1",
    "T.Not(i < 1)": "not i < 1", "T.if_then_else(i < 1, x, 0)": "T.if_then_else(i < 1, x, T.float32(0.0))",
    "T.Select(i < 1, 1, j)": "T.Select(i < 1, 1, j)", "T.select(i < 1, x, y)": "T.Select(i < 1, x, y)",
    'T.Cast("int64", i)': 'T.Cast("int64", i)', 'T.cast(i, "int64")': 'T.Cast("int64", i)',
    'T.cast("int64", i)': 'T.Cast("int64", i)', 'i.astype("float32")': 'T.Cast("float32", i)',
    "T.float32(i)": 'T.Cast("float32", i)', "T.int64(3)": "T.int64(3)", 'T.float16("inf")': 'T.float16("inf")',
    "T.bool(True)": "T.bool(True)", "T.boolean(False)": "T.bool(False)", "T.int4(-8)": "T.int4(-8)",
    "T.uint8(255)": "T.uint8(255)", "T.bfloat16(1.5)": "T.bfloat16(1.5)", "T.int1(0)": "T.int1(0)",
    "T.float64(1)": "T.float64(1.0)", "T.float32x4(0)": "T.Broadcast(T.float32(0.0), 4)",
    "T.Ramp(i, 1, 4)": "T.Ramp(i, 1, 4)", "T.ramp(0, i, 4)": "T.Ramp(0, i, 4)",
    "T.Broadcast(x, 4)": "T.Broadcast(x, 4)", "T.broadcast(1, 4)": "T.Broadcast(1, 4)",
    "T.Let(v + 1, where={v: i * 2})": "T.Let(v + 1, where={v: i * 2})",
    "T.let(v, i, v * v)": "T.Let(v * v, where={v: i})",
    'T.call_intrin("int32", "tir.shift_left", i, 2)': 'T.shift_left(i, 2)',
    'T.call_intrin("int64", "tir.shift_left", i, 2)': 'T.call_intrin("int64", "tir.shift_left", i, 2)',
    'T.call_extern("float32", "f", x, A.data)': 'T.call_extern("float32", "f", x, A.data)',
    'T.call_llvm_intrin("float32", "llvm.f", x)': 'T.call_llvm_intrin("float32", "llvm.f", x)',
    'T.call_llvm_pure_intrin(T.llvm_lookup_intrinsic_id("llvm.f"), x, dtype="float32")':
        'T.call_llvm_pure_intrin("float32", "llvm.f", x)',
    'T.call_llvm_pure_intrin("llvm.f", x, dtype="float32")': 'T.call_llvm_pure_intrin("float32", "llvm.f", x)',
    'T.tvm_struct_get(A.data, 0, 1, "int64")': 'T.tvm_struct_get(A.data, 0, 1, "int64")',
    'T.tvm_struct_get(A.data, 0, 1, dtype="int64")': 'T.tvm_struct_get(A.data, 0, 1, "int64")',
    "T.tvm_struct_set(A.data, 0, 1, i)": "T.tvm_struct_set(A.data, 0, 1, i)",
    'T.lookup_param("w")': 'T.lookup_param("w")', "T.isnullptr(A.data)": "T.isnullptr(A.data)",
    'T.tvm_throw_last_error(dtype="handle")': "T.tvm_throw_last_error()",
    'T.vectorlow("float32x2", T.Broadcast(x, 4))': 'T.vectorlow("float32x2", T.Broadcast(x, 4))',
    'T.vectorhigh("float32x2", T.Broadcast(x, 4))': 'T.vectorhigh("float32x2", T.Broadcast(x, 4))',
    'T.vectorcombine("float32x2", x, y)': 'T.vectorcombine("float32x2", x, y)',
    "T.start_profile_intrinsic(1)": "T.start_profile_intrinsic(1)",
    "T.end_profile_intrinsic(1)": "T.end_profile_intrinsic(1)", "T.dp4a(i, j, i)": "T.dp4a(i, j, i)",
    "T.TVMBackendAllocWorkspace(1, 0, i, 2, 32)": "T.TVMBackendAllocWorkspace(1, 0, i, 2, 32)",
    "T.TVMBackendFreeWorkspace(1, 0, A.data)": "T.TVMBackendFreeWorkspace(1, 0, A.data)",
    'T.call_extern("float32", "f", A)': 'T.call_extern("float32", "f", A.data)',
    'T.call_pure_extern("float32", "f", x)': 'T.call_pure_extern("float32", "f", x)',
    'T.reinterpret("int32", x)': 'T.reinterpret("int32", x)', 'T.reinterpret("float32", x)': "x",
    'T.call_packed("f", i)': 'T.tvm_call_packed("f", i)', 'T.call_cpacked("f", i)': 'T.tvm_call_packed("f", i)',
    'T.tvm_call_packed("f", A)': 'T.tvm_call_packed("f", T.tvm_stack_make_array(T.address_of(A[0, 0]), '
                                 'T.tvm_stack_make_shape(8, 8), 0, 2, T.float32(0.0), 0))',
    "T.tvm_stack_make_shape(8, i)": "T.tvm_stack_make_shape(8, i)",
    "T.tvm_tuple(i, 16)": "T.tvm_tuple(i, 16)",
    "T.tvm_stack_make_array(T.address_of(A[0, 0]), T.tvm_stack_make_shape(8, 8), 0, 2, T.float32(0.0), 0)":
        "T.tvm_stack_make_array(T.address_of(A[0, 0]), T.tvm_stack_make_shape(8, 8), 0, 2, T.float32(0.0), 0)",
    "T.word(i, j, i, j)": "T.word(i, j, i, j)",
    **{f"T.{name}(i, j, i)": f"T.{name}(i, j, i)" for name in INTEGER_DOTS},
    "T.pair(i, j)": "T.pair(i, j)",
    "T.taps_s16(i, j, i, j, i, 1)": "T.taps_s16(i, j, i, j, i, 1)",
    **{text: text for text in (
        "T.nearest_f16(T.Broadcast(x, 4))", "T.nearest_bf16(T.Broadcast(x, 4))", "T.dot_bf16(i, j, x)",
        "T.dot_bf16_lane(T.Broadcast(i, 4), 3, T.Broadcast(j, 4), T.Broadcast(x, 4))",
        "T.matrix_dot_bf16(T.Broadcast(i, 4), T.Broadcast(j, 4), T.Broadcast(x, 4))")},
    "T.q_multiply_shift(i, j, 31, 0)": 'T.Cast("int32", T.shift_right(T.Cast("int64", i) * T.Cast("int64", j) + '
                                       'T.int64(1073741824), T.int64(31)))',
    "T.q_multiply_shift_per_axis(i, j, 0, 2, 31, False, True)":
        'T.Cast("int32", T.shift_right(T.Cast("int64", i) * T.Cast("int64", j) + '
        'T.int64(4294967296), T.int64(33)))',
    "T.ignore_loop_partition(i < 1)": "T.ignore_loop_partition(i < 1)",
    "T.likely(i < 1)": "T.likely(i < 1)", "T.ret(i)": "T.ret(i)", "T.assume(i < 1)": "T.assume(i < 1)",
    'T.undef(dtype="int32")': 'T.undef("int32")', 'T.vscale()': "T.vscale()",
    'T.get_active_lane_mask("boolx4", i, j)': 'T.get_active_lane_mask("boolx4", i, j)',
    "T.power(x, 2)": "T.pow(x, T.float32(2.0))", "T.fabs(x)": "T.abs(x)", "T.ceildiv(i, 4)": "(i + 4 - 1) // 4",
    "T.isfinite(x)": "not (T.isnan(x) or T.isinf(x))", 'T.infinity("float16")': 'T.float16("inf")',
    **{text: text for text in (
        "T.tvm_check_return(0, -1, i)", "T.tvm_thread_invariant(i < 1)", "T.anylist_getitem(A.data, i)",
        "T.anylist_resetitem(A.data, i)", 'T.anylist_setitem_call_packed(A.data, i, "f", x, j)',
        'T.anylist_setitem_call_cpacked(A.data, i, "f")', "T.handle(0)", "T.round_i8(x, j)")},
    'T.tvm_call_cpacked("f", i)': 'T.tvm_call_packed("f", i)', "T.BufferLoad(A, [i, 1])": "A[i, 1]",
    "T.ProducerLoad(A, [i, 1])": "A[i, 1]", "T.address_of(A)": "T.address_of(A[0, 0])",
    "T.address_of(A[i, 4:8])": "T.address_of(A[i, 4])",
    'T.IntImm("int8", 3)': "T.int8(3)", 'T.FloatImm("float64", 3)': "T.float64(3.0)",
    'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 64, 1)': "T.address_of(A[0, 0])",
    'T.tvm_access_ptr("float32", A.data, i, 64, "w")': "T.address_of(A[i // 8, i % 8])",
    'T.float8_e4m3fn(1.5)': "T.float8_e4m3fn(1.5)", "T.e5m2_float8(0.3)": "T.float8_e5m2(0.3125)",
    'T.Cast("bfloat16", x)': 'T.Cast("bfloat16", x)', "T.bfloat16(0.1)": "T.bfloat16(0.10009765625)",
    "T.uint1(1)": "T.bool(True)", 'x.astype("float8_e4m3fn")': 'T.Cast("float8_e4m3fn", x)',
    "T.uint64(18446744073709551615)": "T.uint64(18446744073709551615)", "T.int2(-2)": "T.int2(-2)",
    "T.address_of(A[i, j])": "T.address_of(A[i, j])",
    'A.access_ptr("r")': "T.address_of(A[0, 0])", 'A.access_ptr("w", offset=19)': "T.address_of(A[2, 3])",
    'A.vload([i, 0], "float32x4")': "A[i, 0:4]",
    "A.vload((i, j))": "A[i, j]",
    'T.min_value("int8")': "T.int8(-128)", 'T.max_value("float32")': 'T.float32("inf")',
    'T.StringImm("a")': '"a"', "T.meta_var(3) if i is None else x": "x",
    **{f"T.{f}({', '.join(names[:row.arity])})": f"T.{f}({', '.join(names[:row.arity])})"
       for rows, names in ((INTRINSICS, "xyx"), (INTEGER_INTRINSICS, "ijij"), (BIT_INTRINSICS, "xyx"))
       for f, row in rows.items() if not row.integers and not (row.vector and rows is INTEGER_INTRINSICS)},
    **{text: text for text in ("T.ldexp(x, i)", "T.fixed(x, y, i)", "T.top_bits(x, i, j)", "T.bit_field(i, j, 4)")},
    # what GPU hardware does
    **{text: text for text in (
        'T.tvm_storage_sync("shared")', "T.tvm_warp_activemask()", "T.ptx_commit_group()", "T.ptx_wait_group(2)",
        'T.ptx_cp_async("float32", A.data, i, A.data, j, 16)', 'T.mma_fill("float32", 8, A.data, i)',
        'T.ptx_ldmatrix("float32", T.bool(False), 4, ".b16", A.data, i, A.data, j)',
        'T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", A.data, i, A.data, j, A.data, 0, '
        "T.bool(False))", 'T.mma_store("float32", 16, 16, T.address_of(A[i, j]), A.data, 0, i)',
        "T.tvm_fill_fragment(A.data, 16, 16, 16, i, x)", "T.tvm_mma_sync(A.data, 0, A.data, 1, A.data, 2, A.data, 0)",
        "T.tvm_bmma_sync(A.data, 0, A.data, 1, A.data, 2, A.data, 0)",
        "T.wgmma_sync(A.data, 0, T.address_of(A[i, j]), T.address_of(A[j, i]), 128, 1)",
        'T.tvm_load_matrix_sync(A.data, 16, 16, 16, i, T.address_of(A[i, j]), 8, "row_major")',
        'T.tvm_store_matrix_sync(A.data, 16, 16, 16, i, T.address_of(A[i, j]), 8, "row_major")',
        "T.tvm_warp_shuffle(T.uint32(1), x, i, 32, 32)", "T.tvm_warp_shuffle_up(T.uint32(1), x, i, 32, 32)",
        "T.tvm_warp_shuffle_down(T.uint32(1), x, i, 32, 32)", "T.tvm_warp_shuffle_xor(T.uint32(1), x, i, 32, 32)")},
    # Python's own operators
    "-i": "-i", "+i": "i", "-T.int8(3)": "T.int8(-3)", "i // j % 3": "i // j % 3", "x / 2": "x / T.float32(2.0)",
    "x ** 2.0": 'T.pow(x, T.float32(2.0))', "i << 2 | 1": 'T.bitwise_or(T.shift_left(i, 2), 1)',
    "~i & 3 ^ j >> 1": 'T.bitwise_xor(T.bitwise_and(T.bitwise_not(i), 3), T.shift_right(j, 1))',
    "x if i < 1 else 0": "T.if_then_else(i < 1, x, T.float32(0.0))",
    "i * 2.5": 'T.Cast("float32", i) * T.float32(2.5)', "A[0, i]": "A[0, i]", "A.shape[1] + i": "8 + i",
}

# the same, in the words of older printers: the result's dtype as a keyword
KEYWORDS = {
    'T.call_extern("f", x, A.data, dtype="float32")': 'T.call_extern("float32", "f", x, A.data)',
    'T.call_extern("f", dtype="")': 'T.call_extern("void", "f")',
    'T.call_pure_extern("f", x, dtype="float64")': 'T.call_pure_extern("float64", "f", x)',
    'T.call_intrin("tir.exp", x, dtype="float32")': "T.exp(x)",
    'T.reinterpret(x, dtype="uint32")': 'T.reinterpret("uint32", x)', 'T.cast(i, dtype="int64")': 'T.Cast("int64", i)',
    'T.Cast(i, dtype="int64")': 'T.Cast("int64", i)', 'T.min_value(dtype="int8")': "T.int8(-128)",
    'T.tvm_access_ptr(T.type_annotation(dtype="float32"), A.data, 0, 64, 1, dtype="handle")': "T.address_of(A[0, 0])",
    'T.ptx_cp_async(A.data, i, A.data, j, 16, dtype="float32")': 'T.ptx_cp_async("float32", A.data, i, A.data, j, 16)',
    'T.tvm_fill_fragment(A.data, 16, 16, 16, i, x, dtype="handle")': "T.tvm_fill_fragment(A.data, 16, 16, 16, i, x)",
    'T.isnan(x, dtype="bool")': "T.isnan(x)", 'T.likely(i < 1, dtype="bool")': "T.likely(i < 1)",
    'T.max(x, 0, dtype="float32")': "T.max(x, T.float32(0.0))",
    'T.exp(T.sqrt(x, dtype="float32"), dtype="float32")': "T.exp(T.sqrt(x))",
    'T.floor(A[0, 0:4], dtype="float32x4")': "T.floor(A[0, 0:4])",
}

# the script's statements -> how the function's body prints
STATEMENTS = {
    "T.evaluate(i)": "T.evaluate(i)",
    "T.buffer_store(A, x, [i, j])": "A[i, j] = x", "T.buffer_store(A, 1, (i, 0))": "A[i, 0] = T.float32(1.0)",
    "for k in T.serial(4): T.evaluate(k)": "for k in range(4):\n    T.evaluate(k)",
    "for k in range(1, i): T.evaluate(k)": "for k in range(1, 1 + (i - 1)):\n    T.evaluate(k)",
    "for k in T.grid(4): T.evaluate(k)": "for k in range(4):\n    T.evaluate(k)",
    "for k in T.parallel(2, 4): T.evaluate(k)": "for k in T.parallel(2, 4):\n    T.evaluate(k)",
    "for k in T.vectorized(4): T.evaluate(k)": "for k in T.vectorized(4):\n    T.evaluate(k)",
    "for k in T.unroll(4): T.evaluate(k)": "for k in T.unroll(4):\n    T.evaluate(k)",
    "for k in T.unrolled(4): T.evaluate(k)": "for k in T.unroll(4):\n    T.evaluate(k)",
    'for k in T.thread_binding(0, 4, thread="threadIdx.x"): T.evaluate(k)':
        'for k in T.thread_binding(4, thread="threadIdx.x"):\n    T.evaluate(k)',
    'for k in T.thread_binding(4, "vthread.x"): T.evaluate(k)':
        'for k in T.thread_binding(4, thread="vthread.x"):\n    T.evaluate(k)',
    "with T.While(i < 3): T.evaluate(i)": "while i < 3:\n    T.evaluate(i)",
    'with T.Assert(i < 3, "small"): T.evaluate(i)': 'assert i < 3, "small"\nT.evaluate(i)',
    'with T.attr(A, "key", i): T.evaluate(i)': 'T.attr(A, "key", i)\nT.evaluate(i)',
    "with T.LetStmt(i + 1) as k: T.evaluate(k)": "k: T.int32 = i + 1\nT.evaluate(k)",
    'with T.LetStmt(1, dtype="int64") as k: T.evaluate(k)': "k: T.int64 = T.int64(1)\nT.evaluate(k)",
    "k = i + 1; T.evaluate(k)": "k: T.int32 = i + 1\nT.evaluate(k)",
    "k: T.let[T.int64] = 1; T.evaluate(k)": "k: T.int64 = T.int64(1)\nT.evaluate(k)",
    "k: T.let = x; T.evaluate(k)": "k: T.float32 = x\nT.evaluate(k)",
    "k = T.meta_var(i + 1); T.evaluate(k)": "T.evaluate(i + 1)",
    "with T.decl_buffer((4,)) as B: B[0] = x": 'B = T.decl_buffer((4,))\nB[0] = x',
    'B = T.allocate([4], "int8", "local"); B[0] = 1':
        'B = T.decl_buffer((4,), "int8", scope="local")\nB[0] = T.int8(1)',
    "with T.launch_thread('threadIdx.x', 32) as tx: T.evaluate(tx)":
        'tx = T.launch_thread("threadIdx.x", 32)\nT.evaluate(tx)',
    "tx = T.env_thread('vthread.x'); T.launch_thread(tx, 2); T.evaluate(tx)":
        'tx = T.launch_thread("vthread.x", 2)\nT.evaluate(tx)',
    "tx = T.env_thread('blockIdx.x'); T.attr(tx, 'thread_extent', 2); T.evaluate(tx)":
        'tx = T.launch_thread("blockIdx.x", 2)\nT.evaluate(tx)',
    "tx = T.int32(); T.attr(T.iter_var(tx, T.Range(0, 2), 'ThreadIndex', 'threadIdx.x'), 'thread_extent', 2); "
    "T.evaluate(tx)": 'tx = T.launch_thread("threadIdx.x", 2)\nT.evaluate(tx)',
    "T.preflattened_buffer(A, (64,), data=A.data); T.evaluate(i)": "T.evaluate(i)",
    "A.vstore([i, 0], x)": "A[i, 0] = x",
    "A.vstore([i, 0], T.broadcast(x, 4))": "A[i, 0:4] = T.Broadcast(x, 4)",
    "A[i, 0] += x": "A[i, 0] = A[i, 0] + x",
    "assert i < 3; T.evaluate(i)": 'assert i < 3, "assertion failed"\nT.evaluate(i)',
}

# what describes a block -> (field of the block or its realization, how it prints)
BLOCK = {
    "vi = T.axis.spatial(8, i)": ("iter_vars", "spatial 0:8"), "vi = T.axis.S(8, i)": ("iter_vars", "spatial 0:8"),
    "vi = T.axis.reduce((2, 8), i)": ("iter_vars", "reduce 2:8"), "vi = T.axis.R(8, i)": ("iter_vars", "reduce 0:8"),
    "vi = T.axis.scan(8, i)": ("iter_vars", "scan 0:8"), "vi = T.axis.opaque(8, i)": ("iter_vars", "opaque 0:8"),
    "T.reads(A[i, 0:8])": ("reads", "A[i, 0:8]"), "T.reads([A[0, 0], A[1:3, 4]])": ("reads", "A[0, 0] A[1:3, 4]"),
    "T.reads(A[T.Range(2, 4), 0])": ("reads", "A[2:4, 0]"),
    "T.reads(A)": ("reads", "A[0:8, 0:8]"), "T.writes(A[:, 1])": ("writes", "A[0:8, 1]"),
    "T.writes(A[i:i + j, 2:])": ("writes", "A[i:i + j, 2:2 + 6]".replace("2:2 + 6", "2:8")),
    "T.where(i < 3)": ("predicate", "i < 3"), 'T.block_attr({"k": [1, 2]})': ("annotations", '{"k": [1, 2]}'),
    'T.sblock_attr({"k": T.int32(1)})': ("annotations", '{"k": T.int32(1)}'),
    "with T.init(): A[0, 0] = 1.0": ("init", "A[0, 0] = T.float32(1.0)"),
    'B = T.alloc_buffer((4, i), "int8", scope="shared")': ("alloc_buffers", "B"),
    "B = T.match_buffer(A[0:4, 0:8], (4, 8))": ("match_buffers", "A[0:4, 0:8]"),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(text):
    func = body_of(f"T.evaluate({text})")
    assert value_text(func) == EXPRESSIONS[text]


def value_text(func):
    """The text of what the last line of a function evaluates."""
    last = str(func).split("\n")[-1].strip()
    if last.startswith("return "):
        return f"T.ret({last[7:]})"
    return last[len("T.evaluate("):-1] if last.startswith("T.evaluate(") else last


def printed(text):
    return value_text(body_of(f"T.evaluate({text})"))


@pytest.mark.parametrize("text", KEYWORDS)
def test_dtype_as_a_keyword(text):
    assert printed(text) == KEYWORDS[text]


def test_every_typed_name_takes_the_dtype_of_its_result():
    rows = {re.match(r"T\.(\w+)\(", text)[1]: text for text in EXPRESSIONS
            if re.fullmatch(r"T\.\w+\(.*\)", text) and text[2:].partition("(")[0] in TYPED}
    assert set(rows) == set(TYPED)
    for name, text in rows.items():
        dtype = body_of(f"T.evaluate({text})").body.value.dtype
        assert printed(f'{text[:-1]}, dtype="{dtype}")') == printed(text)
        other = "int16" if dtype != "int16" else "uint16"
        message = f"T.{name}: the result is {dtype}, not {other} as the keyword dtype says"
        with pytest.raises(ScriptError, match=message):
            body_of(f'T.evaluate({text[:-1]}, dtype="{other}"))')


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements(text):
    func = body_of(text)
    assert str(func.body) == STATEMENTS[text]


def shown(block, field, realize):
    """One field of a block as text."""
    if field == "iter_vars":
        (iv,) = block.iter_vars
        return f"{iv.iter_type} {iv.dom.min}:{iv.dom.min + iv.dom.extent}"
    if field == "annotations":
        return ExprPrinter().value(block.annotations)
    if field == "match_buffers":
        return script(block.match_buffers[0].source)
    value = realize.predicate if field == "predicate" else getattr(block, field)
    return " ".join(map(script, value)) if isinstance(value, tuple) else script(value)


@pytest.mark.parametrize("text", BLOCK)
@pytest.mark.parametrize("spelling", ["T.block", "T.sblock"])
def test_blocks(text, spelling):
    func = body_of(f'with {spelling}("b"):', "    " + text, "    T.evaluate(i)")
    realize = next(r for r in collect(func, tir.BlockRealize) if r.block.name_hint == "b")
    field, expected = BLOCK[text]
    assert shown(realize.block, field, realize) == expected


def test_remap():
    func = body_of("for a, b in T.grid(4, 8):", '    with T.block("b"):', '        vr, vs = T.axis.remap("RS", [a, b])',
                   "        T.evaluate(vr)")
    block = next(b for b in collect(func, tir.Block) if b.name_hint == "b")
    assert [(iv.iter_type, iv.dom.extent.value) for iv in block.iter_vars] == [("reduce", 4), ("spatial", 8)]


BUFFERS = {
    'B = T.Buffer((4, i), "int8", data=A.data)': ("int8", 2, "global"),
    'B = T.buffer_decl((4,), "int8", data=A.data)': ("int8", 1, "global"),
    'B = T.decl_buffer((4,), "float16", scope="local", strides=[2])': ("float16", 1, "local"),
    'B = T.alloc_buffer([4, 4, 4], "int64")': ("int64", 3, "global"),
}


@pytest.mark.parametrize("text", BUFFERS)
def test_buffers(text):
    func = body_of(text, f"B[{', '.join('0' for _ in range(BUFFERS[text][1]))}] = 1")
    b = collect(func.body, tir.BufferStore)[0].buffer
    assert (b.dtype, len(b.shape), b.scope) == BUFFERS[text]


def test_func_attr_and_values_in_attributes():
    func = body_of('T.func_attr({"a": T.int32(1), "b": (1, 2.5, None), "c": T.array([1, 2], "int8"), '
                   '"d": T.StringImm("s"), "e": I.Origin("conv1", op="Conv"), "f": float("inf")})', "T.evaluate(0)")
    assert structural_equal(func.attrs["a"], const(1)) and func.attrs["b"] == (1, 2.5, None)
    assert func.attrs["c"].tolist() == [1, 2] and func.attrs["e"].name == "conv1"
    assert structural_equal(from_source(str(func)), func)


def test_every_name_has_a_row():
    """Names used above, and those that other tests are about."""
    elsewhere = {"prim_func", "macro", "inline", "dtype", "var", "Var", "axis", "Buffer", "array", "func_attr",
                 "target", "Ptr", "ptr", "buffer", "buffer_var", "SizeVar",
                 "index_map",  # test_script_relax_forms.py
                 "realize", "prefetch",  # test_script_classic.py
                 *(n for n in ROWS if "simdgroup_" in n),  # tests/tvm/test_tvm_dlight.py
                 "Call", "tvm_stack_alloca", *(n for n in ROWS if n.endswith("packed_lowered")),  # test_classic_builtin.py
                 "allocate_const",  # tests/ir/tir/test_constants.py
                 "comm_reducer", "tvm_thread_allreduce",  # tests/gpu/test_gpu_scripts_tir.py
                 "create_barriers", *(n for n in ROWS if n.startswith("ptx_"))}  # tests/gpu/test_gpu_mma.py
    texts = " ".join([*EXPRESSIONS, *STATEMENTS, *BLOCK, *BUFFERS, "T.match_buffer T.block T.sblock T.serial"])
    missing = [n for n in ROWS if f"T.{n}(" not in texts and f"T.{n}" not in texts.split() and n not in elsewhere
               and f"T.{n}[" not in texts]
    assert not missing


def test_variables_compute_outside_of_scripts():
    x, y = T.int32(), T.int32()
    e = (x + y + 1) * x - y % 3
    assert e.dtype == "int32" and len(free_vars(e)) == 2 and e.a.b is x.var and str(-x) == "-v"
