"""InferFragment and LowerDeviceOps: hardware operations become calls of the functions of runtime_c/cuda.

A fragment of a warp is 8 elements in each lane of a 16 x 16 tile, laid out as mma.sync has it. Elements of first
operands and of sums may be used one by one, by the lanes that hold them.
"""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import Call, IntImm, Range, StringImm, cast, const, is_const_int
from ...node import Mutator, collect
from ...tir.buffer import decl_buffer
from ...tir.intrin import address_of, call_extern
from ...tir.stmt import BufferLoad, BufferStore, DeclBuffer, Evaluate, seq
from .barriers import WGMMA
from .software_pipeline import WAIT
from .threads import Kernels, Threads, is_bound, lane_axes

TILE, LANES = 16 * 16, 32
EACH = TILE // LANES  # elements of a fragment in a lane
_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
_SUMS = {("float16", "float32"): "f16_f32", ("float16", "float16"): "f16_f16", ("bfloat16", "float32"): "bf16_f32"}
_PARTS = {"wmma.matrix_a": "a", "wmma.matrix_b": "b", "wmma.accumulator": "c"}
STORE = "tir.tvm_store_matrix_sync"
_FRAGMENTS = ("tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_fill_fragment", "tvm_mma_sync")


class FragmentError(ValueError):
    """A use of tensor cores that there is no function for."""


def infer_fragment(func):
    """Requires flat buffers. Ensures that no buffer has a scope "wmma....": each is what a lane has of its fragments,
    scope "local", and operations on fragments are calls of functions of ingot_fragment.h; products of warpgroups are
    calls of those of ingot_wgmma.h, and are waited for before their sums are stored.

    An element of a fragment that the lane holds which uses it is one of these 8: with 4 lanes to a row, in threads
    whose warps are 32 neighbours.

    Raises FragmentError for tiles and dtypes that these do not have, where a program reads or writes an element of a
    fragment that may be another lane's, and where products are under way when it ends.
    """
    found = [d.buffer for d in collect(func.body, DeclBuffer) if d.buffer.scope.startswith("wmma")]
    if not found:
        return func
    fragments = _Fragments(func, found)
    body = Kernels(fragments.kernel).visit(func.body)
    if _behind(func.body) and not fragments.waited:
        fragments.fail("products of a warpgroup are under way when it ends; store their sums after them")
    return func.replace(body=body)


def _behind(stmt):
    """Whether a statement has products of warpgroups that may be under way after it."""
    return any(call.op == WGMMA and not is_const_int(call.args[5], 0) for call in collect(stmt, Call))


def _call(name, *args):
    return Evaluate(call_extern("void", name, *args))


class _Fragments(Mutator):
    def __init__(self, func, buffers):
        self.waited = False
        self.warpgroups = any(call.op == WGMMA for call in collect(func.body, Call))
        self.func, self.own, self.pointers = func, {}, {}
        self.an, self.axes, self.extents = Analyzer(), {}, {}  # axes: of threads, the variables of the loops around
        for b in buffers:
            if b.scope not in _PARTS or not isinstance(b.shape[0], IntImm) or b.shape[0].value % TILE:
                self.fail(f"{b.name} ({b.scope}) has {b.shape[0]} elements, which are no fragments of 16 x 16")
            if b.dtype not in _SHORT:
                self.fail(f"{b.name} has elements of {b.dtype}; fragments are of {', '.join(_SHORT)}")
            new = decl_buffer((b.shape[0].value // LANES,), b.dtype, b.name, "local")
            self.own[id(b)] = self.pointers[b.data] = (b, new)

    def fail(self, what):
        raise FragmentError(f"{self.func.title}: {what}")

    def kernel(self, kernel):
        self.extents = Threads.of(kernel).extents
        return self.visit(kernel)

    def visit_For(self, loop):
        self.an.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        around = self.axes
        if is_bound(loop, "threadIdx"):
            self.axes = {**around, loop.thread_binding: loop.loop_var}
        loop, self.axes = self.generic_visit(loop), around
        return loop

    def visit_DeclBuffer(self, decl):
        found = self.own.get(id(decl.buffer))
        return self.generic_visit(decl) if found is None else decl.replace(buffer=found[1], body=self.visit(decl.body))

    def _element(self, access):
        """Column c of row r of a tile is element c // 8 * 4 + r // 8 * 2 + c % 2 of lane r % 8 * 4 + c % 8 // 2."""
        if id(access.buffer) not in self.own:
            return self.generic_visit(access)
        old, new = self.own[id(access.buffer)]
        at = access.indices[0]
        row, column = at // 16 % 16, at % 16
        held = self.an.can_prove_equal(row % 8 * 4 + column % 8 // 2, self._lane(at.dtype))
        if old.scope == "wmma.matrix_b" or not held:
            self.fail(f"an element of {old.name}, scope {old.scope}, is used by itself; let an intrinsic (tensorize) "
                      "load, fill and store its tiles, or bind loops so that the lane that holds it uses it")
        own = self.an.simplify(at // TILE * EACH + column // 8 * 4 + row // 8 * 2 + column % 2)
        return self.generic_visit(access).replace(buffer=new, indices=(own,))

    def _lane(self, dtype):
        """The number of a thread in its warp, as far as loops around tell."""
        number, scale = const(0, dtype), 1
        for axis in lane_axes(self.extents):
            number = number + cast(self.axes[axis], dtype) * scale if axis in self.axes else number
            scale *= self.extents.get(axis) or 1
        return number

    visit_BufferLoad = visit_BufferStore = _element

    def visit_Call(self, call):
        name = call.op.removeprefix("tir.")
        return getattr(self, "op_" + name)(*call.args) if name in _FRAGMENTS else self.generic_visit(call)

    def visit_Evaluate(self, stmt):
        op = getattr(stmt.value, "op", "")
        if op == WGMMA:
            return self.of_warpgroup(*stmt.value.args)
        if op == WAIT and self.warpgroups:  # what was copied is seen by wgmma
            return seq(stmt, _call("ingot_fence_proxy_async"))
        return self.generic_visit(stmt)

    def visit_SeqStmt(self, stmts):
        """Products of a warpgroup that may still be under way are waited for before what follows them, a barrier and
        stores of the sums, where these may take the place of operands."""
        behind = [n for n, s in enumerate(stmts.seq) if _behind(s)]
        stored = [n for n, s in enumerate(stmts.seq) if any(c.op == STORE for c in collect(s, Call))]
        parts = [self.visit(s) for s in stmts.seq]
        last = max((n for n in behind if any(n < m for m in stored)), default=None)
        if last is not None:
            self.waited = True
            parts.insert(last + 1, _call("ingot_wgmma_wait", const(0)))
        return seq(*parts)

    def of_warpgroup(self, pointer, offset, a, b, columns, pending):
        """The products of a turn, 16 terms each."""
        _, new = self.pointers[pointer]
        sums = address_of(BufferLoad(new, (self.visit(offset) // 2,)))
        rows = call_extern("uint64", "ingot_wgmma_rows", self.visit(a), const(128))
        tile = call_extern("uint64", "ingot_wgmma_tile", self.visit(b), const(128))
        short = _SHORT.get(str(a.args[0].buffer.dtype))
        name = f"ingot_wgmma_m64n{columns.value}k16_{short}_f32"
        products = [_call(name, sums, *(x + const(2 * n, "uint64") if n else x for x in (rows, tile)), const(1))
                    for n in range(4)]
        return seq(_call("ingot_wgmma_fence"), *products, _call("ingot_wgmma_commit"),
                   _call("ingot_wgmma_wait", pending))

    # ------------------------------------------------------------ operations

    def fragment(self, pointer, index):
        """(the buffer as it was, the address of a fragment of it)."""
        if pointer not in self.pointers:
            self.fail(f"{pointer} is no fragment: its buffer needs one of the scopes {', '.join(_PARTS)}")
        old, new = self.pointers[pointer]
        return old, address_of(BufferLoad(new, (self.visit(index) * EACH,)))

    def tile(self, *mnk):
        if not all(is_const_int(n, 16) for n in mnk):
            self.fail(f"tiles of {' x '.join(map(str, mnk))} have no functions; use 16 x 16 x 16")

    def by_column(self, layout):
        if not isinstance(layout, StringImm) or layout.value not in ("row_major", "col_major"):
            self.fail(f"the layout of a tile is \"row_major\" or \"col_major\", not {layout}")
        return const(int(layout.value == "col_major"))

    def op_tvm_fill_fragment(self, pointer, m, n, k, index, value):
        self.tile(m, n, k)
        _, to = self.fragment(pointer, index)
        return call_extern("void", "ingot_fragment_fill", to, self.visit(value))

    def op_tvm_load_matrix_sync(self, pointer, m, n, k, index, source, stride, layout):
        self.tile(m, n, k)
        old, to = self.fragment(pointer, index)
        how = "fetch" if _in_rows(old, source, stride) else "load"
        return call_extern("void", f"ingot_fragment_{how}_{_PARTS[old.scope]}", to, self.visit(source),
                           self.visit(stride), self.by_column(layout))

    def op_tvm_store_matrix_sync(self, pointer, m, n, k, index, to, stride, layout):
        self.tile(m, n, k)
        _, source = self.fragment(pointer, index)
        return call_extern("void", "ingot_fragment_store", self.visit(to), source, self.visit(stride),
                           self.by_column(layout))

    def op_tvm_mma_sync(self, *args):
        found = [self.fragment(*pair) for pair in zip(args[::2], args[1::2])]
        (d, _), (a, _), (b, _), _ = found
        sums = _SUMS.get((str(a.dtype), str(d.dtype)))
        if sums is None or a.dtype != b.dtype:
            self.fail(f"there is no product of fragments of {a.dtype} and {b.dtype} with sums of {d.dtype}")
        return call_extern("void", f"ingot_fragment_mma_{sums}", *(address for _, address in found))


def _in_rows(fragment, source, stride):
    """Whether ldmatrix can load a fragment: an operand of 16 bits in shared memory, whose rows lie on multiples of 16
    bytes."""
    load = source.args[0] if isinstance(source, Call) and source.op == "tir.address_of" else None
    if fragment.scope == "wmma.accumulator" or load is None or not load.buffer.scope.startswith("shared"):
        return False
    eight = Analyzer()
    return load.buffer.dtype == fragment.dtype and load.buffer.data_alignment % 16 == 0 and all(
        eight.can_prove_equal(n % 8, 0) for n in (load.indices[0], stride))


# ---------------------------------------------------------------- what needs no fragments

_FORMATS = {"fp16": "f16", "float16": "f16", "bf16": "bf16", "bfloat16": "bf16", "tf32": "tf32", "fp32": "f32",
            "float32": "f32", "int8": "s8", "uint8": "u8", "int32": "s32", "fp64": "f64", "float64": "f64"}
# The products of ingot_mma.h: shape, format of the operands (of both, where these differ), of the sums.
_MMA = {("m16n8k16", "f16", "f32"), ("m16n8k16", "bf16", "f32"), ("m16n8k16", "f16", "f16"), ("m16n8k8", "f16", "f32"),
        ("m16n8k8", "bf16", "f32"), ("m16n8k8", "tf32", "f32"), ("m16n8k4", "tf32", "f32"), ("m16n8k32", "s8", "s32"),
        ("m16n8k32", "u8", "s32"), ("m16n8k32", "u8s8", "s32"), ("m16n8k32", "s8u8", "s32"), ("m16n8k16", "s8", "s32"),
        ("m8n8k4", "f64", "f64")}
# Operations of scripts for which there is no function
_UNKNOWN = {"ptx_mma_sp": "products of sparse operands", "ptx_cp_async_bulk": "copies in bulk",
            **dict.fromkeys(("create_barriers", "ptx_init_barrier_thread_count", "ptx_arrive_barrier",
                             "ptx_arrive_barrier_expect_tx", "ptx_wait_barrier", "ptx_cp_async_barrier"),
                            "barriers that count arrivals; wait by T.ptx_wait_group and T.tvm_storage_sync"),
            **dict.fromkeys(("make_filled_simdgroup_matrix", "simdgroup_load", "simdgroup_store",
                             "simdgroup_multiply_accumulate"), "SIMD groups, which Metal has")}


def lower_device_ops(func):
    """Requires flat buffers. Ensures that pointers of hardware operations are addresses of elements, and that those on
    registers (T.ptx_mma, T.ptx_ldmatrix, T.mma_fill, T.mma_store) are calls of functions of ingot_mma.h and
    ingot_fragment.h. Raises FragmentError for products that these do not have."""
    return func.replace(body=_DeviceOps(func).visit(func.body))


class _DeviceOps(Mutator):
    def __init__(self, func):
        buffers = {d.buffer for d in collect(func.body, DeclBuffer)} | {
            n.buffer for n in collect(func.body, (BufferLoad, BufferStore))} | set(func.buffers)
        self.pointers = {b.data: b for b in buffers if b.data is not None}
        self.func = func

    def fail(self, what):
        raise FragmentError(f"{self.func.title}: {what}")

    def visit_Call(self, call):
        call = self.generic_visit(call)
        name = call.op.removeprefix("tir.")
        if name in _UNKNOWN:
            self.fail(f"T.{name} has no function here: there are no {_UNKNOWN[name]}")
        lower = getattr(self, "op_" + name, None)
        return call if lower is None else lower(call, *call.args)

    def address(self, pointer, offset=None):
        """The address of what a pointer with an offset in elements points to."""
        if pointer in self.pointers:
            return address_of(BufferLoad(self.pointers[pointer], (const(0) if offset is None else offset,)))
        if isinstance(pointer, Call) and pointer.op == "tir.address_of":
            load = pointer.args[0]
            return address_of(load.replace(indices=(load.indices[0] if offset is None else load.indices[0] + offset,)))
        return self.fail(f"{pointer} is the data of no buffer")

    def op_ptx_cp_async(self, call, *args):
        """(to, from, bytes[, condition]), or (to, offset, from, offset, bytes[, condition]) as TVM has it."""
        if len(args) < 5:
            return call
        return call.replace(args=(self.address(*args[:2]), self.address(*args[2:4]), *args[4:]))

    def op_ptx_ldmatrix(self, call, trans, count, kind, to, to_offset, source, offset):
        """Of bytes that lie by rows, the second operand of a product, `offset` is the length of a row, as in TVM."""
        if is_const_int(trans, 1) and call.dtype.bits == 8 and is_const_int(count, 4):
            return call_extern("void", "ingot_fragment_load_bytes_b", self.address(to, to_offset), self.address(source),
                               offset)
        if not (isinstance(count, IntImm) and count.value in (1, 2, 4) and kind.value == ".b16"):
            self.fail(f"ptx_ldmatrix loads 1, 2 or 4 tiles of .b16, not {count} of {kind}")
        end = "_trans" if is_const_int(trans, 1) else ""
        return call_extern("void", f"ingot_ldmatrix_x{count.value}{end}", self.address(to, to_offset),
                           self.address(source, offset))

    def op_ptx_mma(self, call, shape, a_layout, b_layout, a_type, b_type, c_type, *rest):
        a, b, c = (self.address(*rest[n:n + 2]) for n in (0, 2, 4))
        formats = [_FORMATS.get(t.value) for t in (a_type, b_type, c_type)]
        operands = formats[0] if formats[0] == formats[1] else "".join(map(str, formats[:2]))
        found = shape.value, operands, formats[2]
        if (a_layout.value, b_layout.value) != ("row", "col") or found not in _MMA:
            known = ", ".join(" ".join(row) for row in sorted(_MMA))
            self.fail(f"there is no ptx_mma {shape.value} {a_layout.value} {b_layout.value} of {a_type.value} and "
                      f"{b_type.value} with sums of {c_type.value}; known, of row and col: {known}")
        return call_extern("void", f"ingot_mma_{'_'.join(found)}", c, a, b, c)

    def op_mma_fill(self, call, size, to, offset):
        if not is_const_int(size, EACH):
            self.fail(f"mma_fill fills the {EACH} elements that a lane has of a tile, not {size}")
        return call_extern("void", "ingot_fragment_fill", self.address(to, offset), const(0))

    def op_mma_store(self, call, m, n, to, source, offset, stride):
        if not (is_const_int(m, 16) and is_const_int(n, 16)):
            self.fail(f"mma_store stores tiles of 16 x 16, not of {m} x {n}")
        return call_extern("void", "ingot_fragment_store", self.address(to), self.address(source, offset), stride,
                           const(0))


__all__ = ["FragmentError", "infer_fragment", "lower_device_ops"]
