"""Tiles of 16 x 16 that the 32 threads of a warp multiply together, by the names of tvm.tir.tensor_intrin.cuda: here
those of fragments whose layout nobody sees; in mma.py those whose elements a schedule deals out to lanes.

A name says it all, as "wmma_load_16x16x16_f16_b_trans_shared_dyn"; get_wmma_intrin_group lists those that go together.
A schedule keeps operands in the scopes "wmma.matrix_a" and "wmma.matrix_b" and sums in "wmma.accumulator", by
cache_read and cache_write.
"""
from __future__ import annotations

from ...expr import Cast, FloatImm, StringImm, Var
from ...tir.buffer import decl_buffer
from ...tir.function import prim_func
from ...tir.intrin import address_of, device_op
from ...tir.stmt import BufferStore
from ..tensor_intrin import TensorIntrin
from . import mma
from .mma import *  # noqa: F401,F403
from .nests import implementation, nest, point

M = 16
_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
_SCOPES = {"shared": "shared", "shared_dyn": "shared.dyn", "global": "global"}
_FORMATS = r"(f16|bf16)"


def _tile(name, dtype, scope, strided=False):
    """A buffer of 16 x 16 somewhere in a larger one; strided: with rows and columns any distance apart."""
    strides = (Var(f"{name}_s0", "int32"), Var(f"{name}_s1", "int32")) if strided else ()
    return decl_buffer((M, M), dtype, name, scope, strides, offset_factor=M)


def _fragment(buffer):
    """Which of the fragments in a buffer of whole rows of them a tile is, counted row by row."""
    row, at = buffer.strides[0], buffer.elem_offset
    return at // row // M * (row // M) + at % row // M


def _moved(name, source, target, call, scopes, dtype, swapped=False):
    """(description, implementation) of a copy of a tile. swapped: its rows become columns."""
    def copy(i, j):
        x = a[(j, i) if swapped else (i, j)]
        return [point(x)], [point(b[i, j])], BufferStore(b, x, (i, j))

    a, b = _tile(source, dtype, scopes[0]), _tile(target, dtype, scopes[1])
    description = prim_func([a, b], nest((M, M), "SS", name, copy))
    a, b = _tile(source, dtype, scopes[0], True), _tile(target, dtype, scopes[1], True)
    return description, implementation([a, b], [a], [b], call(a, b))


def _load(short, which, trans, scope):
    layout = StringImm("col_major" if trans else "row_major")
    return _moved("load", "A", "C", lambda a, c: device_op(
        "tvm_load_matrix_sync", c.data, M, M, M, _fragment(c), address_of(a[0, 0]), a.strides[0], layout),
        (_SCOPES[scope], f"wmma.matrix_{which}"), _DTYPES[short])


def _load_by_column(short, which, scope):
    """An operand that lies in memory by columns: TVM's intrinsics have it by columns in fragments too, "trans"."""
    return _moved("load", "A", "C", lambda a, c: device_op(
        "tvm_load_matrix_sync", c.data, M, M, M, _fragment(c), address_of(a[0, 0]), a.strides[0],
        StringImm("col_major")), (_SCOPES[scope], f"wmma.matrix_{which}"), _DTYPES[short], swapped=True)


def _store(short, scope):
    return _moved("store", "A", "C", lambda a, c: device_op(
        "tvm_store_matrix_sync", a.data, M, M, M, _fragment(a), address_of(c[0, 0]), c.strides[0],
        StringImm("row_major")), ("wmma.accumulator", _SCOPES[scope]), _DTYPES[short])


def _fill(short):
    def zero(i, j):
        return [], [point(c[i, j])], BufferStore(c, FloatImm(c.dtype, 0), (i, j))

    c = _tile("C", _DTYPES[short], "wmma.accumulator")
    description = prim_func([c], nest((M, M), "SS", "init", zero))
    c = _tile("C", _DTYPES[short], "wmma.accumulator", True)
    call = device_op("tvm_fill_fragment", c.data, M, M, M, _fragment(c), FloatImm("float32", 0))
    return description, implementation([c], [], [c], call)


def _sync(short, short_b, sums, trans):
    """c += a b, or with the transposed b."""
    dtype, out = _DTYPES[short], _DTYPES[sums]
    scopes = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")

    def widened(x):
        return x if dtype == out else Cast(out, x)

    def product(i, j, k):
        x, y, z = a[i, k], b[(j, k) if trans else (k, j)], c[i, j]
        return [point(z), point(x), point(y)], [point(z)], BufferStore(c, z + widened(x) * widened(y), (i, j))

    a, b, c = (_tile(n, t, s) for n, t, s in zip("ABC", (dtype, dtype, out), scopes))
    description = prim_func([a, b, c], nest((M, M, M), "SSR", "", product))
    a, b, c = (_tile(n, t, s, True) for n, t, s in zip("ABC", (dtype, dtype, out), scopes))
    args = [x for buffer in (c, a, b, c) for x in (buffer.data, _fragment(buffer))]
    return description, implementation([a, b, c], [c, a, b], [c], device_op("tvm_mma_sync", *args))


TensorIntrin.family(rf"wmma_load_16x16x16_{_FORMATS}_([ab])(_trans)?_(shared|shared_dyn)", _load)
TensorIntrin.family(rf"wmma_load_16x16x16_{_FORMATS}_([ab])_by_column_(shared|shared_dyn)", _load_by_column)
TensorIntrin.family(r"wmma_store_16x16x16_(f16|f32)_(global|shared|shared_dyn)", _store)
TensorIntrin.family(r"wmma_fill_16x16x16_(f16|f32)", _fill)
TensorIntrin.family(r"wmma_sync_16x16x16_(f16)(f16)(f16|f32)(_trans)?", _sync)
TensorIntrin.family(r"wmma_sync_16x16x16_(bf16)(bf16)(f32)(_trans)?", _sync)

_SHORT = {dtype: short for short, dtype in _DTYPES.items()}


# ---------------------------------------------------------------- the same by numbers

def _checked(who, sizes, *dtypes):
    """Short names of dtypes. Raises ValueError for tiles and dtypes that fragments do not have."""
    if tuple(map(int, sizes)) != (M, M, M):
        raise ValueError(f"{who}: tiles are 16 x 16 x 16, not {' x '.join(map(str, sizes))}")
    for dtype in dtypes:
        if str(dtype) not in _SHORT:
            raise ValueError(f"{who}: no fragments of {dtype}; known: {', '.join(_SHORT)}")
    return [_SHORT[str(dtype)] for dtype in dtypes]


def get_wmma_load_intrin(m_dim, n_dim, k_dim, dtype, shared_scope, is_b, is_col_major):
    """(description, implementation) of the load of an operand."""
    (short,) = _checked("get_wmma_load_intrin", (m_dim, n_dim, k_dim), dtype)
    return _load(short, "b" if is_b else "a", is_col_major, shared_scope.replace(".", "_"))


def get_wmma_fill_intrin(m_dim, n_dim, k_dim, dtype):
    """(description, implementation) of zeros in a tile of sums."""
    return _fill(*_checked("get_wmma_fill_intrin", (m_dim, n_dim, k_dim), dtype))


def get_wmma_store_intrin(m_dim, n_dim, k_dim, dtype, scope):
    """(description, implementation) of storing a tile of sums."""
    (short,) = _checked("get_wmma_store_intrin", (m_dim, n_dim, k_dim), dtype)
    return _store(short, scope.replace(".", "_"))


def get_wmma_sync_intrin(m_dim, n_dim, k_dim, in_dtype, out_dtype, b_transposed):
    """(description, implementation) of c += a b, or with the transposed b."""
    short, sums = _checked("get_wmma_sync_intrin", (m_dim, n_dim, k_dim), in_dtype, out_dtype)
    return _sync(short, short, sums, b_transposed)


def get_wmma_intrin_group(load_scope, store_scope, in_dtype, out_dtype, trans_b):
    """{"init", "load_a", "load_b", "compute", "store": names} of what one product by tensor cores takes.

    load_scope, store_scope: "shared", "shared.dyn", of the latter "global" too; in_dtype: "float16" or "bfloat16";
    out_dtype: of the sums, "float32" or "float16"; trans_b: whether the second operand is transposed. Raises ValueError
    for others.
    """
    known = {"load_scope": ("shared", "shared.dyn"), "store_scope": ("global", "shared", "shared.dyn"),
             "in_dtype": ("float16", "bfloat16"), "out_dtype": ("float32", "float16")}
    for name, value in (("load_scope", load_scope), ("store_scope", store_scope), ("in_dtype", str(in_dtype)),
                        ("out_dtype", str(out_dtype))):
        if value not in known[name]:
            raise ValueError(f"get_wmma_intrin_group: {name} is {value!r}; known: {', '.join(known[name])}")
    shape, a, c, trans = "16x16x16", _SHORT[str(in_dtype)], _SHORT[str(out_dtype)], "_trans" if trans_b else ""
    load, store = load_scope.replace(".", "_"), store_scope.replace(".", "_")
    return {"init": f"wmma_fill_{shape}_{c}", "load_a": f"wmma_load_{shape}_{a}_a_{load}",
            "load_b": f"wmma_load_{shape}_{a}_b{trans}_{load}", "compute": f"wmma_sync_{shape}_{a}{a}{c}{trans}",
            "store": f"wmma_store_{shape}_{c}_{store}"}


def _constants():
    """TVM's constants for the names: WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN and the like."""
    found = {}
    for c in ("f16", "f32"):
        found[f"WMMA_FILL_16x16x16_{c.upper()}_INTRIN"] = f"wmma_fill_16x16x16_{c}"
        for trans in ("", "_trans"):
            found[f"WMMA_SYNC_16x16x16_f16f16{c}{trans.upper()}_INTRIN"] = f"wmma_sync_16x16x16_f16f16{c}{trans}"
        for scope in _SCOPES:
            found[f"WMMA_STORE_16x16x16_{c.upper()}_{scope.upper()}_INTRIN"] = f"wmma_store_16x16x16_{c}_{scope}"
    for which in "ab":
        for trans in ("", "_trans"):
            for scope, end in (("shared", ""), ("shared_dyn", "_DYN")):
                found[f"WMMA_LOAD_16x16x16_F16_{which.upper()}{trans.upper()}{end}_INTRIN"] = (
                    f"wmma_load_16x16x16_f16_{which}{trans}_{scope}")
    return found


globals().update(_constants())
__all__ = ["get_wmma_fill_intrin", "get_wmma_intrin_group", "get_wmma_load_intrin", "get_wmma_store_intrin",
           "get_wmma_sync_intrin", *_constants(), *mma.__all__]
