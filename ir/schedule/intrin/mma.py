"""Products of 16 x 16 tiles whose elements lie in the registers of a warp's lanes, by TVM's names: mma_ldmatrix_f16_a
loads an operand, mma_f16f16f32 multiplies, mma_fill_16x16_f32 starts a sum and mma_store_16x16_f32_global_ stores it.

A schedule keeps tiles in the scope "warp" and gives them the layouts below by transform_layout, so that a buffer of
32 lanes, each with 8 or 16 elements, stands for a tile. get_mma_intrin_group lists the names that go together.
"""
from __future__ import annotations

from itertools import product as all_of

from ...expr import Cast, StringImm, Var, const
from ...tir.buffer import decl_buffer
from ...tir.intrin import address_of, device_op
from ...tir.stmt import BufferStore, Evaluate, For, Stmt, for_, seq
from ..tensor_intrin import TensorIntrin
from .nests import described, implementation, nest, point

M_DIM = N_DIM = M = 16
WARP_SIZE = LANES = 32
HALF_WARP = LANES // 2
# short name: (dtype, how many of it a register of 32 bits holds, its name in T.ptx_mma)
_FORMATS = {"f16": ("float16", 2, "fp16"), "bf16": ("bfloat16", 2, "bf16"), "i8": ("int8", 4, "int8"),
            "f32": ("float32", 1, "fp32"), "i32": ("int32", 1, "int32")}
_SHORT = {dtype: short for short, (dtype, _, _) in _FORMATS.items()}
_SCOPES = {"global": "global", "shared": "shared", "shared_dyn": "shared.dyn"}
_PRODUCTS = (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("i8", "i32"))  # operands, sums


# ---------------------------------------------------------------- which lane holds what

def _by_rows(word):
    """(row, column) -> (lane, element): four lanes share a row of 4 words of `word` neighbours each."""
    def layout(i, j):
        return 4 * (i % 8) + j % (4 * word) // word, 2 * word * (j // (4 * word)) + i // 8 * word + j % word
    return layout


shared_16x16_to_ldmatrix_32x8_layout, shared_16x32_to_ldmatrix_32x16_layout = _by_rows(2), _by_rows(4)


def shared_32x16_to_ldmatrix_32x16_layout(i, j):
    """(row, column) -> (lane, element) of 32 x 16 bytes of which each lane has 4 neighbours of a column."""
    return i % 16 // 4 + 4 * (j % 8), 8 * (j // 8) + i // 16 * 4 + i % 4


def ldmatrix_32x8_to_shared_16x16_layout(thread_id, local_id):
    """(lane, element) -> (row, column) of a tile of 16 x 16."""
    return 8 * (local_id % 4 // 2) + thread_id // 4, 8 * (local_id // 4) + thread_id % 4 * 2 + local_id % 2


def _layout(word, is_b, trans):
    """The layout of an operand as it lies in shared memory."""
    return shared_32x16_to_ldmatrix_32x16_layout if word == 4 and is_b and not trans else _by_rows(word)


# ---------------------------------------------------------------- descriptions and implementations

def _tile(name, shape, dtype, scope, strided=False):
    strides = (Var(f"{name}_s0", "int32"), Var(f"{name}_s1", "int32")) if strided else ()
    return decl_buffer(shape, dtype, name, scope, strides, offset_factor=shape[-1])


def _registers(name, each, dtype):
    """What 32 lanes have of a tile, `each` elements in a lane."""
    return _tile(name, (LANES, each), dtype, "warp")


def _in_lanes(body):
    """A loop over the lanes of a warp; body(lane) is a statement, or a call."""
    lane = Var("tx", "int32")
    stmt = body(lane)
    stmt = stmt if isinstance(stmt, Stmt) else Evaluate(stmt)
    return For(lane, const(0), const(LANES), "thread_binding", stmt, "threadIdx.x")


def get_ldmatrix_intrin(k_dim, dtype, matrix_name, transposed, shared_scope="shared"):
    """(description, implementation) of loading an operand of 16 x k_dim, "A", or k_dim x 16, "B", or of one that is
    `transposed` in shared memory. k_dim: 16 of 16 bits each, 32 of bytes."""
    short = _short("get_ldmatrix_intrin", dtype, ("f16", "bf16", "i8"))
    word, is_b = _FORMATS[short][1], matrix_name == "B"
    if k_dim != 8 * word or transposed and word == 4 and not is_b:
        raise ValueError(f"get_ldmatrix_intrin: no load of {dtype} for k_dim {k_dim}, {matrix_name}"
                         f"{' transposed' if transposed else ''}; k_dim is {8 * word}, and bytes of A lie by rows")
    shape = (M, k_dim) if is_b == transposed else (k_dim, M)
    layout, each = _layout(word, is_b, transposed), M * k_dim // LANES

    def copied(i, j):
        at = layout(i, j)
        return [point(shared[i, j])], [point(warp[at])], BufferStore(warp, shared[i, j], at)

    warp, shared = _registers("warp", each, dtype), _tile("shared", shape, dtype, shared_scope)
    description = described([warp, shared], [shared], [warp], nest(shape, "SS", "shared_warp", copied))
    warp, shared = _registers("warp", each, dtype), _tile("shared", shape, dtype, shared_scope, True)

    def loaded(lane):
        row, half = (lane % 16, lane // 16) if not transposed else (lane // 16 * 8 + lane % 8, lane % 16 // 8)
        at = shared.strides[0] * row + half * (4 * word)
        if layout is shared_32x16_to_ldmatrix_32x16_layout:  # of which the instruction has no form: its rows are read
            at = shared.strides[0]
        return device_op("ptx_ldmatrix", dtype, const(is_b != transposed), 4, StringImm(".b16"), warp.data,
                         warp.elem_offset + each * lane, address_of(shared[0, 0]), at)

    return description, implementation([warp, shared], [shared], [warp], _in_lanes(loaded))


def get_mma_intrin(k_dim, a_dtype="float16", b_dtype="float16", out_dtype="float16", a_transposed=False,
                   b_transposed=False):
    """(description, implementation) of c += a b of tiles in registers, of operands that lie transposed in shared
    memory or do not."""
    short, out = (_short("get_mma_intrin", dtype, _SHORT.values()) for dtype in (a_dtype, out_dtype))
    word = _FORMATS[short][1]
    if (short, out) not in _PRODUCTS or a_dtype != b_dtype or k_dim != 8 * word:
        raise ValueError(f"get_mma_intrin: no product of {a_dtype} and {b_dtype} with sums of {out_dtype}, {k_dim} "
                         f"terms at once; known: {', '.join(f'{a} to {c}' for a, c in _PRODUCTS)}")
    each = M * k_dim // LANES
    of_a, of_b, of_c = _layout(word, False, a_transposed), _layout(word, True, b_transposed), _by_rows(2)

    def widened(x):
        return x if a_dtype == out_dtype else Cast(out_dtype, x)

    def term(i, j, k):
        x = a[of_a(k, i) if a_transposed else of_a(i, k)]
        y = b[of_b(j, k) if b_transposed else of_b(k, j)]
        at = of_c(i, j)
        return [point(c[at]), point(x), point(y)], [point(c[at])], BufferStore(c, c[at] + widened(x) * widened(y), at)

    a, b, c = params = [_registers("A", each, a_dtype), _registers("B", each, b_dtype), _registers("C", 8, out_dtype)]
    description = described(params, [c, a, b], [c], nest((M, M, k_dim), "SSR", "C", term))

    def half(lane, n):
        return device_op("ptx_mma", out_dtype, StringImm(f"m16n8k{k_dim}"), StringImm("row"), StringImm("col"),
                         *(StringImm(_FORMATS[s][2]) for s in (short, short, out)),
                         a.data, a.elem_offset + lane * each, b.data, b.elem_offset + lane * each + n * (each // 2),
                         c.data, c.elem_offset + lane * 8 + n * 4, const(False))

    body = _in_lanes(lambda lane: seq(Evaluate(half(lane, 0)), Evaluate(half(lane, 1))))
    return description, implementation(params, [c, a, b], [c], body)


def get_mma_fill_intrin(dtype, local_size=8):
    """(description, implementation) of zeros in a tile of sums."""
    layout = _by_rows(2)

    def zero(i, j):
        return [], [point(c[layout(i, j)])], BufferStore(c, const(0, dtype), layout(i, j))

    c = _registers("C_warp", local_size, dtype)
    description = described([c], [], [c], nest((M, M), "SS", "C_warp", zero))
    c = _registers("C_warp", local_size, dtype)
    return description, implementation([c], [], [c], _in_lanes(
        lambda lane: device_op("mma_fill", dtype, local_size, c.data, c.elem_offset)))


def get_mma_store_intrin(dtype, local_size=8, scope="global", use_mma_store_intrinic=True):
    """(description, implementation) of storing a tile of sums; element by element unless use_mma_store_intrinic."""
    layout = _by_rows(2)

    def stored(i, j):
        return [point(warp[layout(i, j)])], [point(c[i, j])], BufferStore(c, warp[layout(i, j)], (i, j))

    warp, c = _registers("C_warp", local_size, dtype), _tile("C", (M, M), dtype, scope)
    description = described([warp, c], [warp], [c], nest((M, M), "SS", "C_warp", stored))
    warp, c = _registers("C_warp", local_size, dtype), _tile("C", (M, M), dtype, scope, True)

    def lane_stores(lane):
        if use_mma_store_intrinic:
            return device_op("mma_store", dtype, M, M, address_of(c[0, 0]), warp.data, warp.elem_offset, c.strides[0])
        e = Var("local_id", "int32")
        return for_(e, local_size, BufferStore(c, warp[lane, e], ldmatrix_32x8_to_shared_16x16_layout(lane, e)))

    return description, implementation([warp, c], [warp], [c], _in_lanes(lane_stores))


def _short(who, dtype, known):
    if str(dtype) not in _SHORT or _SHORT[str(dtype)] not in known:
        raise ValueError(f"{who}: no tiles of {dtype}; known: {', '.join(_FORMATS[s][0] for s in known)}")
    return _SHORT[str(dtype)]


# ---------------------------------------------------------------- names

def _load(short, which, trans, dyn):
    dtype, word, _ = _FORMATS[short]
    return get_ldmatrix_intrin(8 * word, dtype, which.upper(), bool(trans), "shared.dyn" if dyn else "shared")


def _product(short, short_b, sums, trans_a, trans_b):
    dtype, word, _ = _FORMATS[short]
    return get_mma_intrin(8 * word, dtype, dtype, _FORMATS[sums][0], bool(trans_a), bool(trans_b))


TensorIntrin.family(r"mma_ldmatrix_(f16|bf16)_([ab])(_trans)?(_dyn)?", _load)
TensorIntrin.family(r"mma_ldmatrix_(i8)_([ab])((?<=_b)_trans)?(_dyn)?", _load)
for _a, _c in _PRODUCTS:
    TensorIntrin.family(rf"mma_({_a})({_a})({_c}){'(_trans_a)?' if _a != 'i8' else '()'}(_trans_b)?", _product)
TensorIntrin.family(r"mma_fill_16x16_(f32|f16|i32)", lambda short: get_mma_fill_intrin(_FORMATS[short][0]))
TensorIntrin.family(r"mma_store_16x16_(f32|f16|i32)_(global|shared|shared_dyn)_(simple_)?", (
    lambda short, scope, simple: get_mma_store_intrin(_FORMATS[short][0], 8, _SCOPES[scope], not simple)))


def get_mma_intrin_group(load_scope, store_scope, in_dtype, out_dtype, trans_a, trans_b,
                         not_use_mma_store_intrinic=True, store_to_smem_dtype=None):
    """{"init", "load_a", "load_b", "compute", "store": names} of what one product of registers takes.

    load_scope: "shared" or "shared.dyn"; store_scope: one of these, or "global"; trans_a, trans_b: whether an operand
    is transposed; not_use_mma_store_intrinic: store element by element; store_to_smem_dtype: what is stored, out_dtype
    when not given. Raises ValueError for products that there are none of.
    """
    known = {"load_scope": ("shared", "shared.dyn"), "store_scope": tuple(_SCOPES.values())}
    for name, value in (("load_scope", load_scope), ("store_scope", store_scope)):
        if value not in known[name]:
            raise ValueError(f"get_mma_intrin_group: {name} is {value!r}; known: {', '.join(known[name])}")
    short, out = _SHORT.get(str(in_dtype)), _SHORT.get(str(out_dtype))
    if (short, out) not in _PRODUCTS:
        pairs = ", ".join(f"{_FORMATS[a][0]} with sums of {_FORMATS[c][0]}" for a, c in _PRODUCTS)
        raise ValueError(f"get_mma_intrin_group: no product of {in_dtype} with sums of {out_dtype}; known: {pairs}")
    stored = _short("get_mma_intrin_group", store_to_smem_dtype or out_dtype, ("f32", "f16", "i32"))
    a, b = "_trans" if trans_a else "", "_trans" if trans_b else ""
    dyn = "_dyn" if load_scope == "shared.dyn" else ""
    return {"init": f"mma_fill_16x16_{out}", "load_a": f"mma_ldmatrix_{short}_a{a}{dyn}",
            "load_b": f"mma_ldmatrix_{short}_b{b}{dyn}",
            "compute": f"mma_{short}{short}{out}{a and a + '_a'}{b and b + '_b'}",
            "store": f"mma_store_16x16_{stored}_{store_scope.replace('.', '_')}_"
                     f"{'simple_' if not_use_mma_store_intrinic else ''}"}


def _constants():
    """TVM's constants for the names: LDMATRIX_f16_A_INTRIN, MMA_f16f16f32_TRANS_B_INTRIN and the like."""
    found = {}
    for short, which, trans, dyn in all_of(("f16", "bf16", "i8"), "ab", ("", "_trans"), ("", "_dyn")):
        if not (short == "i8" and which == "a" and trans):
            found[f"LDMATRIX_{short}_{which.upper()}{trans.upper()}{dyn.upper()}_INTRIN"] = (
                f"mma_ldmatrix_{short}_{which}{trans}{dyn}")
    for (short, out), a, b in all_of(_PRODUCTS, ("", "_trans_a"), ("", "_trans_b")):
        if not (short == "i8" and a):
            found[f"MMA_{short}{short}{out}{a.upper()}{b.upper()}_INTRIN"] = f"mma_{short}{short}{out}{a}{b}"
    for out in ("f32", "f16", "i32"):
        found[f"MMA_fill_16x16_{out}_INTRIN"] = f"mma_fill_16x16_{out}"
        for scope, end in all_of(_SCOPES, ("", "SIMPLE")):
            found[f"MMA_store_16x16_{out}_{scope}_INTRIN{end and '_' + end}"] = (
                f"mma_store_16x16_{out}_{scope}_{end and end.lower() + '_'}")
    return found


globals().update(_constants())
__all__ = ["HALF_WARP", "M_DIM", "N_DIM", "WARP_SIZE", "get_ldmatrix_intrin", "get_mma_fill_intrin", "get_mma_intrin",
           "get_mma_intrin_group", "get_mma_store_intrin", "ldmatrix_32x8_to_shared_16x16_layout",
           "shared_16x16_to_ldmatrix_32x8_layout", "shared_16x32_to_ldmatrix_32x16_layout",
           "shared_32x16_to_ldmatrix_32x16_layout", *_constants()]
