"""A lowered PrimFunc as one C function."""
from __future__ import annotations

from dataclasses import dataclass

from ..ir.expr import Add, IntImm, Mul, Ramp, Var
from ..ir.node import Visitor, collect, structural_equal
from ..ir.tir.stmt import BufferLoad, BufferStore, DeclBuffer
from .c_expr import COMMA, CExpr, EmitError, is_scalar
from .c_types import c_type, identifier, vector_type

INDENT = "    "


@dataclass(frozen=True)
class CFunction:
    """signature: without the semicolon; body: the braces and all; uses: headers that the text needs."""

    name: str
    signature: str
    body: str
    uses: frozenset


def print_function(func, name):
    """The C text of a lowered, selected PrimFunc under `name`. Raises EmitError for what C cannot express."""
    return _Printer(func, name).function()


class _Names:
    """C names by identity. A name is free again when its scope ends, and never shadows one still in scope."""

    def __init__(self):
        self.text, self.taken = {}, set()

    def __getitem__(self, obj):
        name = self.text.get(id(obj))
        if name is None:
            raise EmitError(f"{obj.name} is used outside the scope that defines it")
        return name

    def define(self, obj, hint):
        base = name = identifier(hint)
        n = 0
        while name in self.taken:
            n += 1
            name = f"{base}_{n}"
        self.taken.add(name)
        self.text[id(obj)] = name
        return name

    def release(self, obj):
        self.taken.discard(self.text.pop(id(obj)))


class _Printer(Visitor):
    def __init__(self, func, name):
        self.func, self.name = func, name
        self.names, self.uses = _Names(), set()
        self.names.taken.add(name)
        self.expr = CExpr(self.names, self.uses)
        self.lines, self.depth = [], 1

    def function(self):
        written = {id(s.buffer) for s in collect(self.func.body, BufferStore)}
        used = {id(n) for n in collect(self.func.body, Var)}
        touched = written | {id(n.buffer) for n in collect(self.func.body, BufferLoad)}
        params, unused = [], []
        for p in self.func.params:
            buffer = self.func.buffer_map.get(p)
            if buffer is None:
                text = self.names.define(p, p.name)
                params.append(f"{c_type(p.dtype)} {text}")
                unused += [text] if id(p) not in used else []
                continue
            text = self.names.define(buffer, buffer.name)
            const = "" if id(buffer) in written else "const "
            params.append(f"{const}{c_type(buffer.dtype)} *INGOT_RESTRICT {text}")
            unused += [text] if id(buffer) not in touched else []
        for text in unused:
            self.line(f"(void){text};")
        self.visit(self.func.body)
        signature = _wrap(f"void {self.name}(", params)
        return CFunction(self.name, signature, "{\n" + "\n".join(self.lines) + "\n}\n", frozenset(self.uses))

    def line(self, text):
        self.lines.append(INDENT * self.depth + text)

    def block(self, head, body):
        self.line(head + " {")
        self.depth += 1
        self.visit(body)
        self.depth -= 1
        self.line("}")

    def generic_visit(self, n):
        raise EmitError(f"C has no statement {type(n).__name__}; run the lowering passes first")

    def visit_SeqStmt(self, s):
        for x in s.seq:
            if isinstance(x, DeclBuffer) and x is not s.seq[-1]:
                self.line("{")  # a scope of its own: what follows does not see the buffer
                self.depth += 1
                self.visit(x)
                self.depth -= 1
                self.line("}")
            else:
                self.visit(x)

    def visit_For(self, loop):
        var, e = loop.loop_var, self.expr
        start, stop = e.text(loop.min, COMMA), e.text(loop.min + loop.extent)
        name = self.names.define(var, var.name)
        if loop.kind == "parallel":
            self.line("INGOT_PARALLEL_FOR")
        elif loop.kind == "unrolled" and isinstance(loop.extent, IntImm):
            self.line(f"INGOT_UNROLL({loop.extent.value})")
        elif loop.kind not in ("serial", "unrolled"):
            raise EmitError(f"C has no {loop.kind} loop; run vectorize_loop first")
        self.block(f"for ({c_type(var.dtype)} {name} = {start}; {name} < {stop}; ++{name})", loop.body)
        self.names.release(var)

    def visit_While(self, loop):
        self.block(f"while ({self.expr.text(loop.condition)})", loop.body)

    def visit_IfThenElse(self, branch):
        self.block(f"if ({self.expr.text(branch.condition)})", branch.then_case)
        if branch.else_case is not None:
            self.lines[-1] += " else {"
            self.depth += 1
            self.visit(branch.else_case)
            self.depth -= 1
            self.line("}")

    def visit_DeclBuffer(self, decl):
        b = decl.buffer
        extent = b.shape[0]
        if not isinstance(extent, IntImm):
            raise EmitError(f"buffer {b.name} has {extent} elements: lift_workspace should have moved it to the arena")
        name = self.names.define(b, b.name)
        if is_scalar(b):
            self.line(f"{c_type(b.dtype)} {name};")
        else:
            aligned = "INGOT_ALIGNED(64) " if b.dtype.lanes == 1 and extent.value >= 16 else ""
            self.line(f"{aligned}{c_type(b.dtype)} {name}[{extent.value}];")
        self.uses.update({"simd.h"} if b.dtype.lanes > 1 else ())
        self.visit(decl.body)
        self.names.release(b)

    def visit_LetStmt(self, let):
        value = self.expr.text(let.value)
        self.line(f"const {c_type(let.var.dtype)} {self.names.define(let.var, let.var.name)} = {value};")
        self.visit(let.body)
        self.names.release(let.var)

    def visit_Evaluate(self, stmt):
        if not isinstance(stmt.value, IntImm):
            self.line(self.expr.text(stmt.value) + ";")

    def visit_BufferStore(self, store):
        index, value, e = store.indices[0], store.value, self.expr
        if isinstance(index, Ramp):
            self.uses.add("simd.h")
            vector = vector_type(store.buffer.dtype.with_lanes(index.lanes))
            address = f"&{self.names[store.buffer]}[{e.text(index.base)}]"
            if isinstance(index.stride, IntImm) and index.stride.value == 1:
                self.line(f"{vector}_store({address}, {e.text(value)});")
            else:
                self.line(f"{vector}_store_strided({address}, {e.text(index.stride)}, {e.text(value)});")
            return
        place = e.place(store.buffer, index)
        update = None if value.dtype.lanes > 1 or value.dtype.bits < 32 else _update_operator(store)
        if update:
            operator, operand = update
            self.line(f"{place} {operator}= {e.text(operand)};")
        elif store.buffer.dtype.is_bool and not isinstance(value, BufferLoad):
            self.line(f"{place} = (uint8_t)({e.text(value)});")
        else:
            self.line(f"{place} = {e.text(value)};")


def _update_operator(store):
    """("+", x) for a store of load(same place) + x: printed as an update."""
    for cls, operator in ((Add, "+"), (Mul, "*")):
        value = store.value
        if isinstance(value, cls) and isinstance(value.a, BufferLoad) and value.a.buffer is store.buffer and \
                structural_equal(value.a.indices, store.indices):
            return operator, value.b
    return None


def _wrap(head, params, width=110):
    """A parameter list over as many lines as it needs."""
    lines, current = [], head
    for n, p in enumerate(params):
        piece = p + (", " if n + 1 < len(params) else ")")
        if len(current) + len(piece) > width:
            lines.append(current.rstrip())
            current = INDENT
        current += piece
    if not params:
        current += "void)"
    return "\n".join([*lines, current])
