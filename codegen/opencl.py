"""OpenCL C: its row of words, and what a row cannot say - vectors are types with operators, local memory is declared
where a kernel begins."""
from __future__ import annotations

from ..ir.expr import Broadcast, Call, Cast, is_const_int
from ..ir.node import collect
from ..ir.tir.buffer import Buffer
from ..ir.tir.stmt import BufferLoad
from ..ir.tir.intrinsics import ALL_INTRINSICS
from .c_expr import ADDITIVE, MULTIPLICATIVE, POSTFIX, UNARY, CExpr, EmitError
from .c_layout import INDENT, wrapped
from .c_types import C_TYPES
from .c_function import CPrinter
from .c_vectors import LOADED
from .cuda import CudaPrinter
from .dialect import FLOAT_BITS, Dialect
from .kernels import PRINTERS

_TYPES = {"int8_t": "char", "uint8_t": "uchar", "int16_t": "short", "uint16_t": "ushort", "int32_t": "int",
          "uint32_t": "uint", "int64_t": "long", "uint64_t": "ulong"}
TYPES = {dtype: _TYPES.get(ctype, ctype) for dtype, ctype in C_TYPES.items()}
_LANES = (2, 4, 8, 16)
_VECTORS = {f"{dtype}x{n}": f"{TYPES[dtype]}{n}" for n in _LANES for dtype in (
    "float32", "float64", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)))}


def _functions(dtype):
    """{intrinsic: function}: the runtime's where C has that, else OpenCL's, whose names say no type."""
    found = {name: row.spellings[f"c {dtype}"] for name, row in ALL_INTRINSICS.items() if f"c {dtype}" in row.spellings}
    names = {"nearbyint": "rint", "nearbyintf": "rint"}
    return {name: text if text.startswith("ingot_") or "{}" in text else
            names.get(text, text.removesuffix("f") if dtype == "float32" else text) for name, text in found.items()}


_KEYWORDS = frozenset("""
kernel global local constant private read_only write_only read_write __kernel __global __local __constant __private half
uchar ushort uint ulong quad complex imaginary event_t sampler_t pipe image1d_t image2d_t image3d_t size_t ptrdiff_t
intptr_t uintptr_t barrier printf as_int as_uint as_float as_long as_ulong min max clamp rint select memcpy
""".split()) | {f"{kind}{n}" for kind in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float",
                                         "double", "half") for n in (2, 3, 4, 8, 16)}

OPENCL = Dialect(
    name="OpenCL C", types=TYPES, vectors=_VECTORS, index="long",
    numbers={"uint32": "{}u", "int64": "{}L", "uint64": "{}UL", "least": "INT{bits}_MIN", "nan": "NAN",
             "infinity": "INFINITY", "float32": "{}f", "float64": "{}"},
    math={dtype: _functions(dtype) for dtype in ("float32", "float64")}, bits=FLOAT_BITS, runtime="ingot_",
    headers={"helpers": "ingot_math.h", "half": "ingot_half.h"},
    entry="__kernel ", inline="static inline ", restrict="restrict ", pointers={"global": "__global "},
    memories={"shared": "__local ", "shared.dyn": "__local "}, constant="__constant ", most_constant=1 << 16,
    aligned="__attribute__((aligned(16))) ",
    unroll="#pragma unroll {count}",
    threads={f"{tag}.{axis}": f"(int){function}({n})" for tag, function in (
        ("blockIdx", "get_group_id"), ("threadIdx", "get_local_id")) for n, axis in enumerate("xyz")},
    barriers={"shared": "barrier(CLK_LOCAL_MEM_FENCE)", "shared.dyn": "barrier(CLK_LOCAL_MEM_FENCE)",
              **dict.fromkeys(("global", "warp"), "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)")},
    reserved=_KEYWORDS)

_OPERATORS = {"Add": ("+", ADDITIVE), "Sub": ("-", ADDITIVE), "Mul": ("*", MULTIPLICATIVE),
              "Div": ("/", MULTIPLICATIVE)}
_BUILT_IN = ("fma", "exp", "log", "sqrt", "tanh", "erf", "floor", "ceil", "abs")  # of vectors; abs is fabs


class OpenCLExpr(CExpr):
    """Expressions: vectors have operators and functions without a type in their names."""

    def _Call(self, e):
        if e.op.startswith(("tir.tvm_warp_", "tir.ptx_")):
            raise EmitError(f"OpenCL C has no {e.op}: its threads exchange values through local memory")
        return super()._Call(e)

    def _vector(self, e, kind):
        vector = self.dialect.vector(e.dtype)
        name = e.op.removeprefix("tir.") if isinstance(e, Call) else ""
        if kind in _OPERATORS and e.dtype.is_float:
            op, precedence = _OPERATORS[kind]
            return f"{self.text(e.a, precedence)} {op} {self.text(e.b, precedence + 1)}", precedence
        if isinstance(e, Broadcast):
            return f"({vector})({self.text(e.value)})", UNARY
        if isinstance(e, Cast) and not isinstance(e.value, BufferLoad):
            return f"convert_{vector}({self.text(e.value)})", POSTFIX
        if name in _BUILT_IN:
            return f"{'fabs' if name == 'abs' else name}({', '.join(map(self.text, e.args))})", POSTFIX
        if name == "if_then_else":
            return self._conditional(*e.args)
        if isinstance(e, Cast):
            return super()._vector(e, kind)
        raise EmitError(f"OpenCL C has no {e.op if isinstance(e, Call) else kind} of {e.dtype} here; VectorizeLoop "
                        "should have kept the loop scalar")

    def vector_access(self, verb, buffer, index, *value, widened=None):
        """vload4(0, &x[i]), vstore4(v, 0, &x[i])."""
        if index.count is not None or not is_const_int(index.stride, 1):
            raise EmitError(f"OpenCL C loads no strided or partial vectors: {index.lanes} lanes of {buffer.name}")
        place = f"&{self.place(buffer, index.base)}"
        if verb == "store":
            return f"vstore{index.lanes}({self.text(*value)}, 0, {place})"
        load = f"vload{index.lanes}(0, {place})"
        return f"convert_{self.dialect.vector(widened)}({load})" if widened and str(buffer.dtype) in LOADED else load


class OpenCLPrinter(CudaPrinter):
    """Statements. Memory that threads of a group share is declared first of all, under a name of its own."""

    Expressions = OpenCLExpr

    def __init__(self, func, name, dialect=OPENCL):
        super().__init__(func, name, dialect)
        self.shared_memory = []

    def bounds(self):
        return ""

    visit_BufferStore = CPrinter.visit_BufferStore

    def pool(self, decl):
        """The memory of a group, and the arrays that lie in it."""
        pool = self.local(decl.buffer)
        views = [b for b in dict.fromkeys(collect(decl.body, Buffer)) if b.data is decl.buffer.data
                 and b is not decl.buffer]
        for b in views:
            ctype, name = f"{self.dialect.memories['shared']}{self.type_of(b)} *", self.names.define(b, b.name)
            start = b.elem_offset.value * b.dtype.bytes if b.elem_offset is not None else 0
            self.line(f"{ctype}const {name} = ({ctype})({pool} + {start});")
        self.visit(decl.body)
        for b in views:
            self.names.release(b)

    def visit_DeclBuffer(self, decl):
        if decl.buffer.scope == "shared":
            self.local(decl.buffer)
            self.visit(decl.body)
        else:
            super().visit_DeclBuffer(decl)

    def declare_constant(self, text):
        """What is __constant stands where a kernel begins."""
        self.shared_memory += wrapped(INDENT + text)

    def local(self, b):
        """Declare a buffer in local memory; returns its name, which stays taken."""
        if not hasattr(b.shape[0], "value"):
            raise EmitError(f"buffer {b.name} of {b.shape[0]} elements: the size of local memory is a constant")
        name = self.names.define(b, b.name)
        memory, aligned = self.dialect.memories[b.scope], self.dialect.aligned
        self.shared_memory.append(f"    {memory}{aligned}{self.type_of(b)} {name}[{b.shape[0].value}];")
        return name

    def braced(self):
        self.lines[:0] = self.shared_memory
        return super().braced()


def print_opencl(func, name):
    """The OpenCL C of a kernel: a lowered PrimFunc whose loops are bound to threads."""
    return OpenCLPrinter(func, name).function()


PRINTERS["opencl"] = print_opencl
