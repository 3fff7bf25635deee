"""CUDA C: kernels for nvcc, in the words of the dialect CUDA."""
from __future__ import annotations

from dataclasses import replace

from ..ir.expr import Broadcast, Call, Ramp, is_const_int
from ..ir.node import collect, structural_equal
from ..ir.tir.buffer import Buffer
from ..ir.tir.stmt import BufferLoad, For
from ..ir.transform.gpu.barriers import TENSOR_MAP
from ..ir.transform.gpu.launch import BOUNDS
from .c_expr import POSTFIX, CExpr, EmitError
from .c_function import CPrinter, computed_with
from .dialect import C, spelled
from .kernels import PRINTERS
from .tensor_maps import DECLARED, TensorMap

AXES = tuple(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz")

CUDA = replace(
    C, name="CUDA C", vectors={}, index="int64_t",
    math={**C.math, "float32": {**C.math["float32"], **spelled("cuda", "float32")}},
    headers={"helpers": "ingot_math.h", "libm": "math.h", "half": "ingot_half.h", "device": "ingot_cuda.h",
             "atomics": "ingot_atomics.h", "mma": "ingot_mma.h", "fragment": "ingot_fragment.h",
             "tma": "ingot_tma.h", "tensor_map": "ingot_tensor_map.h", "wgmma": "ingot_wgmma.h"},
    entry='extern "C" __global__ ', inline="static __device__ ", failure=None, restrict="__restrict__ ",
    memories={"shared": "__shared__ "}, constant="static __constant__ ", most_constant=1 << 16,
    aligned="__align__(16) ", least_aligned=8,
    unroll="#pragma unroll {count}", parallel=None, collapse="", prefetch=None,
    threads={axis: f"(int){axis}" for axis in AXES},
    barriers={**dict.fromkeys(("shared", "shared.dyn", "global"), "__syncthreads()"), "warp": "__syncwarp()"},
    reserved=frozenset("blockIdx threadIdx blockDim gridDim warpSize half dim3 float2 float3 float4 int2 int3 int4 "
                       "min max abs grid block shared stream arguments".split()), worker="", templates={})
# calls of programs -> (function, header)
CALLS = {
    **{f"tvm_warp_shuffle{how}": (f"ingot_shfl{how}", "device") for how in ("", "_up", "_down", "_xor")},
    "tvm_warp_activemask": ("__activemask", ""),
    "ptx_commit_group": ("ingot_cp_async_commit", "device"), "ptx_wait_group": ("ingot_cp_async_wait", "device"),
}


class CudaExpr(CExpr):
    """Expressions with the operations of devices."""

    def _Call(self, e):
        name = e.op.removeprefix("tir.")
        if name in CALLS:
            function, header = CALLS[name]
            self.use(header)
            args = e.args[:4] if name.startswith("tvm_warp_shuffle") else e.args  # TVM's fifth is the warp's size
            return f"{function}({', '.join(map(self.text, args))})", POSTFIX
        if name == "tensor_map":
            return f"&{self.names[e.args[0].args[0].buffer]}", 0
        if name == "ptx_cp_async":
            return self._copied(*e.args), POSTFIX
        if name in ("call_extern", "call_pure_extern"):
            return self._device_function(e)
        return super()._Call(e)

    def _copied(self, to, source, size, condition=None):
        """An asynchronous copy of some bytes, of none where a condition fails: then the destination is 0."""
        self.use("device")
        if not any(is_const_int(size, n) for n in (4, 8, 16)):
            raise EmitError(f"an asynchronous copy moves 4, 8 or 16 bytes, not {size}")
        filled = self.text(size) if condition is None else f"{self.text(condition, 3)} ? {self.text(size)} : 0"
        return f"ingot_cp_async{size.value}({self.text(to)}, {self.text(source)}, {filled})"

    def _device_function(self, e):
        function = str(getattr(e.args[0], "value", e.args[0]))
        for start, header in (("ingot_mma_", "mma"), ("ingot_fragment_", "fragment"), ("ingot_ldmatrix", "mma"),
                              ("ingot_wgmma_m64", "wgmma"), ("ingot_wgmma", "tma"), ("ingot_fence_proxy", "tma"),
                              ("ingot_tma", "tma"), ("ingot_mbarrier", "tma"),
                              ("ingot_to_tf32", "mma"), ("ingot_atomic", "atomics"), ("ingot_", "device")):
            if function.startswith(start):
                self.use(header)
                break
        return f"{function}({', '.join(map(self.text, e.args[1:]))})", POSTFIX


class CudaPrinter(CPrinter):
    Expressions = CudaExpr

    def __init__(self, func, name, dialect=CUDA):
        super().__init__(func, name, dialect)
        self.maps = {id(call.args[0].args[0].buffer): call for call in collect(func.body, Call)
                     if call.op == TENSOR_MAP}  # by the matrix that it stands for
        self.known = {}  # (thread axis, type, first value): the name that it has in this scope

    def function(self):
        for call in self.maps.values():
            self._require_alone(call)
        found = super().function()
        if not self.maps:
            return found
        maps = tuple(TensorMap(self.names[call.args[0].args[0].buffer], *map(self.expr.text, call.args[1:3]),
                               tuple(n.value for n in call.args[3:])) for call in self.maps.values())
        self.expr.use("tensor_map")
        return replace(found, maps=maps, uses=frozenset(self.uses))

    def _require_alone(self, call):
        """Raise EmitError where a kernel needs more of a matrix than its map."""
        buffer = call.args[0].args[0].buffer
        calls = [c for c in collect(self.func.body, Call)
                 if c.op == TENSOR_MAP and c.args[0].args[0].buffer is buffer]
        loads = [x for x in collect(self.func.body, BufferLoad) if x.buffer is buffer]
        if len(calls) != len(loads) or not all(structural_equal(c.args[1:], call.args[1:]) for c in calls):
            raise EmitError(f"{self.name} copies {buffer.name} by a tensor map, which it gets in place of it, and "
                            "reads it in other ways too; read a copy of it, or give it another form")

    def pointer(self, buffer, text, written, alone):
        return DECLARED + text if id(buffer) in self.maps else super().pointer(buffer, text, written, alone)

    def bounds(self):
        threads = self.func.attrs.get(BOUNDS)
        return f"__launch_bounds__({threads}) " if threads else ""

    def loop_name(self, var, tag=""):
        """bx and tx for blocks and threads; of fused loops, whose names are long, i."""
        return f"{tag[0]}{tag[-1]}" if tag else "i" if "_fused" in var.name else var.name

    def bound(self, var, tag, least, body):
        key = tag, self.type_of(var), str(least)
        if id(var) not in computed_with(body):  # compilers tell of a name that nothing reads
            self.visit(body)
        elif key in self.known:
            self.names.text[id(var)] = self.known[key]
            self.visit(body)
            del self.names.text[id(var)]
        else:
            if (name := self.loop_name(var, tag)) not in self.names.taken:
                self.known[key] = name
            super().bound(var, tag, least, body)
            self.known.pop(key, None)

    def declares(self, stmt):
        if isinstance(stmt, For) and stmt.kind == "thread_binding":
            key = stmt.thread_binding, self.type_of(stmt.loop_var), str(stmt.min)
            return key not in self.known or self.declares(stmt.body)
        return super().declares(stmt)

    def visit_DeclBuffer(self, decl):
        if decl.buffer.scope == "shared.dyn":
            self.pool(decl)
        else:
            super().visit_DeclBuffer(decl)

    def visit_BufferStore(self, store):
        if not isinstance(store.indices[0], Ramp):
            super().visit_BufferStore(store)
            return
        lanes, value, zeros = store.indices[0].lanes, store.value, ()
        if isinstance(value, Call) and value.op == "tir.if_then_else" and isinstance(value.args[1], BufferLoad):
            condition, value, _ = value.args
            zeros = (self.expr.text(condition),)
        if isinstance(value, BufferLoad):
            function, of = "ingot_copy_or_zero" if zeros else "ingot_copy", self.first(value)
        elif isinstance(value, Broadcast):
            function, of = "ingot_fill", self.expr.converted(value.value)
        else:
            raise EmitError(f"{self.dialect.name} moves vectors, and computes with none: {store}; run VectorizeAccess "
                            "first")
        self.expr.use("device")
        self.line(f"{function}<{lanes}>({', '.join([self.first(store), of, *zeros])});")

    def first(self, access):
        """The address of the first of the elements that a Ramp loads or stores."""
        base = access.indices[0].base
        return self.names[access.buffer] if is_const_int(base, 0) else f"&{self.expr.place(access.buffer, base)}"

    def pool(self, decl):
        """The shared memory of a launch, and the arrays that lie in it."""
        self.expr.use("device")
        pool = self.names.define(decl.buffer, decl.buffer.name)
        self.line(f"INGOT_DYNAMIC_SHARED({pool});")
        views = [b for b in dict.fromkeys(collect(decl.body, Buffer)) if b.data is decl.buffer.data
                 and b is not decl.buffer]
        for b in views:
            ctype, name = self.type_of(b), self.names.define(b, b.name)
            start = b.elem_offset.value * b.dtype.bytes if b.elem_offset is not None else 0
            self.line(f"{ctype} *const {name} = ({ctype} *)({pool} + {start});")
        self.visit(decl.body)
        for b in views:
            self.names.release(b)
        self.names.release(decl.buffer)


def print_cuda(func, name):
    """The CUDA C of a kernel: a lowered PrimFunc whose loops are bound to threads."""
    return CudaPrinter(func, name).function()


PRINTERS["cuda"] = print_cuda
