"""A lowered PrimFunc as one C function."""
from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ..ir.expr import Add, Call, Cast, Div, IntImm, Mul, Not, Ramp, Sub, Var, cast, const, free_vars, is_const_int
from ..ir.names import unique_name
from ..ir.node import Visitor, collect, structural_equal
from ..ir.tir.hints import MOST_ITERATIONS, THREAD_OWN, THREAD_ROWS, TILE, UNROLL
from ..ir.tir.stmt import AssertStmt, BufferLoad, BufferStore, DeclBuffer, For, LetStmt
from .c_expr import ADDITIVE, COMMA, RELATIONAL, UNARY, CExpr, EmitError, is_scalar
from .c_types import UnsupportedType, c_string, c_type, identifier
from .micro_kernels import micro_kernel
from .team import ONCE, PREPARED, passed_between_threads, team_body
from .tiles import Tile

INDENT = "    "
WIDTH = 120
WAIT = "ingot_wait(worker);"
THREADS = ("thread_extent", "virtual_thread")  # attributes
UPDATES = {Add: "+", Sub: "-", Mul: "*", Div: "/"}


@dataclass(frozen=True)
class CFunction:
    """signature: without the semicolon; body: the braces and all; uses: headers that the text needs; can_fail: whether
    it returns the message of an assertion that does not hold, or NULL, instead of nothing; team: whether all threads of
    a parallel region are to call it together, each with its ingot_worker; waits: whether they wait for one another at
    its end; tiles: the C of the functions that it calls."""

    name: str
    signature: str
    body: str
    uses: frozenset
    can_fail: bool = False
    team: bool = False
    waits: bool = False
    tiles: tuple = ()


def print_function(func, name):
    """The C text of a lowered, selected PrimFunc under `name`. Raises EmitError for what C cannot express."""
    return _Printer(func, name).function()


def outputs_of(func):
    """The buffers of a lowered function that it writes: where it stores, what micro-kernels write, and those of
    attrs["outputs"], the positions among its tensors of what C functions write that it calls."""
    declared = [func.buffers[n] for n in func.attrs.get("outputs", ())]
    calls = [call for call in collect(func.body, Call) if call.op == "tir.call_extern"]
    filled = [call.args[1 + n].args[0].buffer for call in calls for n in micro_kernel(call).writes]
    return dict.fromkeys([*declared, *filled, *(s.buffer for s in collect(func.body, BufferStore))])


class Names:
    """C names by identity. A name is free again when its scope ends, and never shadows one still in scope."""

    def __init__(self):
        self.text, self.taken = {}, set()

    def __getitem__(self, obj):
        name = self.text.get(id(obj))
        if name is None:
            raise EmitError(f"{obj.name} is used outside the scope that defines it")
        return name

    def define(self, obj, hint):
        name = self.text[id(obj)] = unique_name(identifier(hint), self.taken)
        return name

    def release(self, obj):
        self.taken.discard(self.text.pop(id(obj)))


class _Printer(Visitor):
    def __init__(self, func, name):
        self.func, self.name = func, name
        self.names, self.uses = Names(), set()
        self.names.taken.add(name)
        self.expr = CExpr(self.names, self.uses)
        self.lines, self.depth = [], 1
        self.parallel = False  # inside a parallel loop
        self.tiles, self.tile_names = {}, set()  # the parameters and statements of a tile: the name of its function
        self.body = team_body(func.body)
        self.team = self.body is not None
        self.body = self.body if self.team else func.body
        self.scratch = func.buffers[len(func.buffers) - len(func.attrs.get("scratch", ())):]  # each thread's own
        self.alone = not self.team and bool(self.scratch)  # a region of its own would share it among threads
        if self.team:
            self.names.taken.add("worker")
            self.uses.add("ingot_team.h")

    def function(self):
        self.exchanged = passed_between_threads(self.body) - set(map(id, self.scratch)) if self.team else set()
        written = {id(b) for b in outputs_of(self.func)}
        used = {id(n) for n in collect(self.func.body, Var)}
        touched = written | {id(n.buffer) for n in collect(self.func.body, BufferLoad)}
        params, unused = ["ingot_worker *worker"] if self.team else [], []
        for p in self.func.params:
            buffer = self.func.buffer_map.get(p)
            if buffer is None:
                text = self.names.define(p, p.name)
                params.append(f"{self.type_of(p)} {text}")
                unused += [text] if id(p) not in used else []
                continue
            text = self.names.define(buffer, buffer.name)
            params.append(self.pointer(buffer, text, id(buffer) in written, id(buffer) not in self.exchanged))
            unused += [text] if id(buffer) not in touched else []
        for text in unused:
            self.line(f"(void){text};")
        self.visit(self.body)
        can_fail, waits = bool(collect(self.func.body, AssertStmt)), self.lines[-1:] == [INDENT + WAIT]
        if can_fail:
            self.line("return NULL;")
        signature = _wrap(f"{'const char *' if can_fail else 'void '}{self.name}(", params)
        body = "{\n" + "\n".join(self.lines) + "\n}\n"
        tiles = tuple(_wrap(f"INGOT_INLINE void {name}(", params) + "\n" + body
                      for (params, body), name in self.tiles.items())
        return CFunction(self.name, signature, body, frozenset(self.uses), can_fail, self.team, waits, tiles)

    def pointer(self, buffer, text, written, alone):
        """The parameter `text` for a buffer; alone: nothing else points to what it has."""
        const, restrict = "" if written else "const ", "INGOT_RESTRICT " if alone else ""
        return f"{const}{self.type_of(buffer)} *{restrict}{text}"

    @staticmethod
    def type_of(x):
        """The C type of a buffer's elements or of a variable."""
        try:
            return c_type(x.dtype)
        except UnsupportedType as error:
            raise UnsupportedType(f"{x.name}: {error}") from None

    def line(self, text):
        self.lines.extend(wrapped(INDENT * self.depth + text))

    def open(self, head):
        self.line(f"{head} {{".lstrip())
        self.depth += 1

    def close(self):
        self.depth -= 1
        self.line("}")

    def block(self, head, body):
        self.open(head)
        self.visit(body)
        self.close()

    def generic_visit(self, n):
        raise EmitError(f"C has no statement {type(n).__name__}; run the lowering passes first")

    def visit_SeqStmt(self, s):
        for x in s.seq:
            if isinstance(x, (DeclBuffer, LetStmt)) and x is not s.seq[-1]:
                self.block("", x)  # a scope of its own: what follows does not see the name
            else:
                self.visit(x)

    def visit_For(self, loop):
        if loop.kind == "thread_binding":
            raise EmitError(f"C has no threads: loop {loop.loop_var.name} is bound to {loop.thread_binding}, which "
                            "comes with CUDA; use parallel")
        outermost = loop.kind == "parallel" and not self.parallel and not self.alone
        if outermost:  # parallel loops directly inside share its threads; any others further in run serially
            nest = _parallel_nest(loop)
            self.parallel = True
            if self.team:
                self.shared(nest)
                self.parallel = False
                return
            collapse = f" collapse({len(nest)})" if len(nest) > 1 else ""
            self.line(f"INGOT_OMP(parallel for{collapse} schedule(static))")
        elif loop.kind == "unrolled" and isinstance(loop.extent, IntImm):
            self.line(f"INGOT_UNROLL({loop.extent.value})")
        elif MOST_ITERATIONS in loop.annotations:
            self.line(f"INGOT_UNROLL({loop.annotations[MOST_ITERATIONS]})")
        elif UNROLL in loop.annotations:
            self.line(f"INGOT_UNROLL({loop.annotations[UNROLL]})")
        elif loop.kind not in ("serial", "unrolled", "parallel"):
            raise EmitError(f"C has no {loop.kind} loop; run VectorizeLoop first")
        start, stop = self.expr.converted(loop.min), self.expr.text(loop.min + loop.extent, RELATIONAL + 1)
        self.block(self.loop_head(loop.loop_var, start, stop), loop.body)
        self.names.release(loop.loop_var)
        if outermost:
            self.parallel = False

    def shared(self, nest, each=()):
        """A nest of parallel loops of which the worker takes pieces: turns of all of them as one loop, or where the
        innermost is marked, some of its turns, the worker's rows, in each turn of the others. each: what it does for
        itself once it has a piece, before the first."""
        share, turn = (unique_name(n, self.names.taken) for n in ("share", "turn"))
        rows = len(nest) - 1 if THREAD_ROWS in nest[-1].annotations else 0
        outer, inner = nest[:rows], nest[rows:]
        counts = f"{self.count(outer, COMMA)}, {self.count(inner, COMMA)}"
        start = "ingot_own" if THREAD_OWN in nest[-1].annotations else "ingot_shared"
        if each:
            self.line(f"ingot_share {share} = {start}(worker, {counts});")
            self.open(f"if (ingot_take(&{share}))")
            for stmt in each:
                self.visit(stmt)
            self.open("do")
        else:
            self.open(f"for (ingot_share {share} = {start}(worker, {counts}); ingot_take(&{share});)")
        inside = self.depth
        self.turns(outer, f"{share}.repeat")
        if len(inner) == 1:
            begin, end = (self.turn_of(inner[0], f"{share}.{x}") for x in ("begin", "end"))
            self.open(self.loop_head(inner[0].loop_var, begin, end))
        else:
            self.open(f"for (int64_t {turn} = {share}.begin; {turn} < {share}.end; ++{turn})")
            self.turns(inner, turn)
        self.visit(nest[-1].body)
        while self.depth > inside:
            self.close()
        self.close()
        if each:
            self.lines[-1] += f" while (ingot_take(&{share}));"
            self.close()
        self.line(WAIT)
        for loop in nest:
            self.names.release(loop.loop_var)
        self.names.taken.difference_update((share, turn))

    def turns(self, nest, turn):
        """The variables of loops that are counted as one, in C's `turn`, an int64_t."""
        for n, loop in enumerate(nest):
            inner = f" / {self.count(nest[n + 1:])}" if nest[n + 1:] else ""
            own = f" % {self.count([loop])}" if n else ""
            value = self.turn_of(loop, f"({turn}{inner}{own})" if inner or own else turn)
            self.line(f"const {c_type(loop.loop_var.dtype)} {self.names.define(loop.loop_var, loop.loop_var.name)} = "
                      f"{value};")

    def turn_of(self, loop, turn):
        """The text of a loop's variable in a turn, counted from 0 in an int64_t."""
        ctype = c_type(loop.loop_var.dtype)
        least = "" if is_const_int(loop.min, 0) else f"{self.expr.text(loop.min, ADDITIVE)} + "
        return least + (turn if ctype == "int64_t" else f"({ctype}){turn}")

    def count(self, nest, outer=UNARY):
        """The text of how many turns loops have together, an int64_t, in parentheses if it binds looser than
        `outer`."""
        turns = prod((cast(loop.extent, "int64") for loop in nest), start=const(1, "int64"))
        return str(turns.value) if isinstance(turns, IntImm) else self.expr.text(turns, outer)

    def loop_head(self, var, start, stop):
        """'for (...)', whose variable is defined from here on."""
        name = self.names.define(var, var.name)
        return f"for ({c_type(var.dtype)} {name} = {start}; {name} < {stop}; ++{name})"

    def visit_While(self, loop):
        self.block(f"while ({self.expr.text(loop.condition)})", loop.body)

    def visit_IfThenElse(self, branch):
        self.block(f"if ({self.expr.text(branch.condition)})", branch.then_case)
        if branch.else_case is not None:
            self.lines[-1] += " else {"
            self.depth += 1
            self.visit(branch.else_case)
            self.close()

    def visit_DeclBuffer(self, decl):
        b = decl.buffer
        extent = b.shape[0]
        if not isinstance(extent, IntImm):
            raise EmitError(f"buffer {b.name} has {extent} elements: LiftWorkspace should have moved it to the arena")
        name = self.names.define(b, b.name)
        if is_scalar(b):
            self.line(f"{self.type_of(b)} {name};")
        else:
            # Also for small arrays: with AVX-512 gcc 12 may move 16 bytes at once to one in a leaf function as if the
            # stack were aligned for that; asked for more, it does align it.
            aligned = "INGOT_ALIGNED(64) " if b.dtype.lanes == 1 and extent.value * b.dtype.bytes >= 16 else ""
            self.line(f"{aligned}{self.type_of(b)} {name}[{extent.value}];")
        self.uses.update({"simd.h"} if b.dtype.lanes > 1 else ())
        self.visit(decl.body)
        self.names.release(b)

    def visit_LetStmt(self, let):
        if let.var.dtype.is_int and not _is_index(let):
            value = self.expr.converted(let.value)
            self.expr.data.update([let.var] if self.expr.is_data(let.value) else ())
        else:
            value = self.expr.index(let.value)
        ctype = "ingot_index" if self.team and self.parallel and _is_offset(let) else self.type_of(let.var)
        self.line(f"const {ctype} {self.names.define(let.var, let.var.name)} = {value};")
        self.visit(let.body)
        self.names.release(let.var)

    def visit_AssertStmt(self, stmt):
        if self.parallel:
            raise EmitError(f"an assertion ({stmt.message.value}) cannot leave a parallel loop: state it before the "
                            "loop")
        self.line(f'if ({self.expr.text(Not(stmt.condition))}) return "{c_string(stmt.message.value)}";')
        self.visit(stmt.body)

    def visit_AttrStmt(self, stmt):
        if stmt.attr_key == ONCE:
            once = unique_name("once", self.names.taken)
            self.block(f"for (ingot_share {once} = ingot_once(worker); ingot_take(&{once});)", stmt.body)
            self.line(WAIT)
            self.names.taken.discard(once)
            return
        if stmt.attr_key == PREPARED:
            *each, loop = stmt.body.seq
            self.parallel = True
            self.shared(_parallel_nest(loop), each)
            self.parallel = False
            return
        if stmt.attr_key == TILE:
            self.tile(Tile(stmt, {id(b): n for n, b in enumerate(self.func.buffers)}))
            return
        if stmt.attr_key in THREADS:
            name = getattr(stmt.target, "thread_tag", "") or getattr(stmt.target, "name", stmt.target)
            raise EmitError(f"C has no threads: the attribute {stmt.attr_key} of {name} comes with CUDA; use a "
                            "parallel loop")
        if not stmt.attr_key.startswith("pragma_"):  # these are hints
            raise EmitError(f"C cannot say the attribute {stmt.attr_key!r}; it knows pragmas (pragma_import_c, "
                            "pragma_auto_unroll_max_step, pragma_unroll_explicit)")
        self.visit(stmt.body)

    def tile(self, tile):
        """A call of a tile's function, which is printed when it is new."""
        inner = _TilePrinter(self)
        key = inner.function(tile)
        if key not in self.tiles:
            self.tiles[key] = unique_name(f"{self.name}_{identifier(tile.name)}", self.tile_names)
        args = [self.names[buffer] if index is None or is_const_int(index, 0) else
                f"&{self.expr.place(buffer, index)}" for _, buffer, index in tile.pointers]
        if tile.border:
            fewer = (f"{var.name} is {tile.numbers[var].value} of {most}" for var, most in tile.border.items())
            self.line(f"/* the border: {', '.join(fewer)} */")
        self.line(f"{self.tiles[key]}({', '.join([*args, *(self.expr.converted(x) for x in tile.numbers.values())])});")

    def visit_Evaluate(self, stmt):
        if isinstance(stmt.value, Call) and stmt.value.op == "tir.ret":
            raise EmitError("a kernel returns nothing (T.ret): store the result in a buffer of one element")
        if not isinstance(stmt.value, IntImm):
            self.line(self.expr.text(stmt.value) + ";")

    def visit_BufferStore(self, store):
        index, value, e = store.indices[0], store.value, self.expr
        if isinstance(index, Ramp):
            self.line(e.vector_access("store", store.buffer, index, value) + ";")
            return
        place = e.place(store.buffer, index)
        operator, operand = _update(store)
        self.line(f"{place} {operator}= {e.converted(operand)};" if operator else f"{place} = {e.converted(value)};")


class _TilePrinter(_Printer):
    """Prints a tile as a function of a kernel, with names of its own."""

    def __init__(self, kernel):
        self.names, self.uses, self.team, self.parallel = Names(), kernel.uses, kernel.team, True
        self.exchanged = kernel.exchanged
        self.expr = CExpr(self.names, self.uses)
        self.expr.data |= kernel.expr.data
        self.lines, self.depth = [], 1

    def function(self, tile):
        """(parameters, body), of text."""
        written = {id(store.buffer) for store in collect(tile.body, BufferStore)}
        seen = [id(buffer) for _, buffer, _ in tile.pointers]
        params = []
        for view, buffer, _ in tile.pointers:
            alone = id(buffer) not in self.exchanged and (seen.count(id(buffer)) == 1 or id(view) not in written)
            params.append(self.pointer(view, self.names.define(view, view.name), id(view) in written, alone))
        params += [f"{self.type_of(var)} {self.names.define(var, var.name)}" for var in tile.numbers]
        self.visit(tile.body)
        return tuple(params), "{\n" + "\n".join(self.lines) + "\n}\n"


def _is_offset(let):
    """Whether a 32-bit value serves for sums and products in indices only, which may be computed in more bits."""
    return let.var.dtype == "int32" and _is_index(let)


def _is_index(let):
    """Whether a value serves for sums and products in indices only."""
    return not _Elsewhere(let.var).found(let.body)


class _Elsewhere(Visitor):
    """Looks for a variable outside of sums and products in indices."""

    def __init__(self, var):
        self.var, self.here = var, False

    def found(self, stmt):
        self.visit(stmt)
        return self.here

    def visit_Var(self, v):
        self.here = self.here or v is self.var

    def visit_BufferLoad(self, load):
        self.index(load.indices[0])

    def visit_BufferStore(self, store):
        self.index(store.indices[0])
        self.visit(store.value)

    def index(self, e):
        if isinstance(e, (Add, Sub, Mul)):
            self.index(e.a)
            self.index(e.b)
        elif isinstance(e, Ramp):
            self.index(e.base)
        elif isinstance(e, Cast):
            self.index(e.value)
        elif not isinstance(e, Var):
            self.visit(e)


def _update(store):
    """("+", x) for a store of load(same place) + x, which prints as an update; (None, None) for any other."""
    value = store.value
    operator = UPDATES.get(type(value))
    plain = value.dtype.is_float and value.dtype.lanes == 1 and value.dtype.bits >= 32  # integers: see CExpr
    if operator and plain and isinstance(value.a, BufferLoad) and value.a.buffer is store.buffer and (
            structural_equal(value.a.indices, store.indices)):
        return operator, value.b
    return None, None


def _parallel_nest(loop):
    """The parallel loops, from this one inward, that hold nothing but the next, within bounds that none changes."""
    nest = [loop]
    while isinstance(loop.body, For) and loop.body.kind == "parallel":
        loop = loop.body
        if any(v is outer.loop_var for v in free_vars((loop.min, loop.extent)) for outer in nest):
            break
        nest.append(loop)
    return nest


# ---------------------------------------------------------------- layout

def wrapped(line, width=WIDTH):
    """`line` as lines of at most `width` columns where it can be broken: after a comma or before a binary operator,
    the loosest that does not leave the line almost empty. What continues inside parentheses stands deeper than what
    does not."""
    indent, text = len(line) - len(line.lstrip()), line.strip()
    points, lines, start, margin, outside = list(_breaks(text)), [], 0, indent, False
    while len(text) - start + margin > width:
        fitting = [p for p in points if start + len(INDENT) < p[0] <= start + width - margin]
        if not fitting:
            break
        filled = [p for p in fitting if p[0] - start > (width - margin) // 6] or fitting
        at, tightness = min(filled, key=lambda p: (p[1], -p[0]))
        lines.append(" " * margin + text[start:at].strip())
        inside = tightness >= len(_TIGHTNESS)
        outside = outside or not inside
        start, margin = at, indent + len(INDENT) * (2 if inside and outside else 1)
    return [*lines, " " * margin + text[start:].strip()]


# How tightly a break point holds its sides together: a comma least.
_TIGHTNESS = {op: n for n, ops in enumerate((
    [","], ["=", "+=", "-=", "*=", "/="], ["?", ":"], ["||"], ["&&"], ["==", "!=", "<", "<=", ">", ">="], ["+", "-"],
    ["*", "/", "%"])) for op in ops}
LAST_RESORT = 1000
_BREAK = re.compile(r"[(\[]|[)\]]|,(?= )|(?<= )[-+*/%=<>!&|?:]+(?= )")


def _breaks(line):
    """(position, tightness) of every place where a line may be broken; nesting counts most, so that what is inside
    parentheses is at least len(_TIGHTNESS)."""
    depth = 0
    for found in _BREAK.finditer(line):
        token = found[0]
        if token in "([":
            depth += 1
            yield found.end(), LAST_RESORT + depth  # where names are long
        elif token in ")]":
            depth -= 1
        elif token == ",":
            yield found.end(), depth * len(_TIGHTNESS)
        elif token in _TIGHTNESS:
            yield found.start(), depth * len(_TIGHTNESS) + _TIGHTNESS[token]


def _wrap(head, params):
    """A parameter list over as many lines as it needs."""
    return "\n".join(wrapped(f"{head}{', '.join(params) or 'void'})"))
