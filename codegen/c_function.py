"""A lowered PrimFunc as one function, in a dialect of C."""
from __future__ import annotations

from dataclasses import dataclass

from ..ir.expr import Add, Call, Div, IntImm, Mul, Not, Ramp, Sub, const, is_const_int
from ..ir.names import unique_name
from ..ir.node import Visitor, collect, structural_equal
from ..ir.tir.hints import BORDER, MOST_ITERATIONS, TILE, UNROLL
from ..ir.tir.stmt import AssertStmt, AttrStmt, BufferLoad, BufferStore, DeclBuffer, LetStmt, SeqStmt
from ..ir.transform.overwrites import ATTRIBUTE as OVERWRITES
from .c_expr import ADDITIVE, RELATIONAL, CExpr, EmitError, is_scalar
from .c_layout import INDENT, with_parameters, wrapped
from .c_strides import Strides
from .c_types import UnsupportedType, c_string, identifier
from .constant_arrays import constant_array
from .dialect import C
from .index_uses import indexed_by, is_index
from .micro_kernels import micro_kernel
from .packed_names import packed_calls
from .team import PREPARED, one_thread, parallel_nest, shared_by_team
from .tiles import Tile, tile_name

THREADS = ("thread_extent", "virtual_thread")  # attributes
UPDATES = {Add: "+", Sub: "-", Mul: "*", Div: "/"}


@dataclass(frozen=True)
class CFunction:
    """signature: without the semicolon; body: the braces and all; uses: headers that the text needs; can_fail: whether
    it returns the message of an assertion that does not hold, or NULL, instead of nothing; team: whether all threads of
    a parallel region are to call it together, each with its ingot_worker; waits: whether they wait for one another at
    its end; tiles: the C of the functions that it calls; packed: the functions of others that it calls; maps:
    TensorMaps that parameters are in place of matrices."""

    name: str
    signature: str
    body: str
    uses: frozenset
    can_fail: bool = False
    team: bool = False
    waits: bool = False
    tiles: tuple = ()
    packed: tuple = ()
    maps: tuple = ()


def print_function(func, name, dialect=C):
    """The C text of a lowered, selected PrimFunc under `name`. Raises EmitError for what C cannot express."""
    return CPrinter(func, name, dialect).function()


def outputs_of(func):
    """The buffers of a lowered function that it writes: where it stores, what micro-kernels write, and those of
    attrs["outputs"], the positions among its tensors of what C functions write that it calls."""
    declared = [func.buffers[n] for n in func.attrs.get("outputs", ())]
    found = collect(func.body, Call)
    calls = [call for call in found if call.op == "tir.call_extern"]
    if "outputs" not in func.attrs:  # a packed function may write whatever it gets
        declared += [call.args[0].args[0].buffer for call in found if call.op == "tir.tvm_stack_make_array"]
    filled = [call.args[1 + n].args[0].buffer for call in calls for n in micro_kernel(call).writes]
    return dict.fromkeys([*declared, *filled, *(s.buffer for s in collect(func.body, BufferStore))])


def overwritten(func):
    """Ids of the buffers of a lowered function that may be the same memory: inputs that its result may overwrite, and
    the result."""
    inputs, own = func.attrs.get(OVERWRITES, ()), func.attrs.get("num_workspace", 0)
    return {id(func.buffers[n]) for n in inputs} | {id(func.buffers[-1 - own]) for _ in inputs}


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


class CPrinter(Visitor):
    """Prints a function's statements: what C, CUDA C and OpenCL C share, in the words of a dialect."""

    Expressions = CExpr

    def __init__(self, func, name, dialect=C):
        self.func, self.name, self.dialect = func, name, dialect
        self.names, self.uses = Names(), set()
        self.names.taken.update({name}, dialect.reserved)
        self.table = func.attrs.get("strides") or {}
        self.strides = Strides(self.table, self.names)
        self.expr = self.Expressions(self.names, self.uses, dialect, self.strides)
        self.lines, self.depth = [], 1
        self.parallel = False  # inside a parallel loop
        self.border = []  # what a comment will say of the iterations that the next statement is
        self.tiles, self.tile_names = {}, set()  # the parameters and statements of a tile: the name of its function
        self.team = shared_by_team(func.body) if dialect.templates else None
        self.wide = self.team.wide if self.team else frozenset()
        scratch = func.buffers[len(func.buffers) - len(func.attrs.get("scratch", ())):]  # each thread's own
        self.exchanged = set(self.team.exchanged - set(map(id, scratch))) if self.team else set()
        self.exchanged |= overwritten(func)
        self.alone = not self.team and bool(scratch)  # a region of its own would share it among threads
        self.body = self.team.body if self.team else one_thread(func.body) if self.alone else func.body

    def function(self):
        written = {id(b) for b in outputs_of(self.func)}
        used = computed_with(self.func.body)
        touched = written | {id(n.buffer) for n in collect(self.func.body, BufferLoad)}
        params, unused = [], []
        if self.team:
            params.append(f"{self.dialect.worker}{self.names.define(self.team.worker, 'worker')}")
            self.expr.use("team")
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
        can_fail, result = bool(collect(self.func.body, AssertStmt)), "void "
        if can_fail:
            result, _, last = self.dialect.failure
            self.line(last)
        signature = with_parameters(f"{self.dialect.entry}{result}{self.bounds()}{self.name}(", params)
        body = self.braced()
        tiles = tuple(with_parameters(f"{self.dialect.inline}void {name}(", params) + "\n" + body
                      for (params, body), name in self.tiles.items())
        team = self.team is not None
        waits = team and self.team.waits
        return CFunction(self.name, signature, body, frozenset(self.uses), can_fail, team, waits, tiles,
                         packed_calls(self.func) if self.dialect.headers.get("packed") in self.uses else ())

    def bounds(self):
        """What stands between a kernel's result and its name."""
        return ""

    def braced(self):
        """The body of a function: the names of strides, then the lines so far."""
        declared = [line for text in self.strides.declarations() for line in wrapped(INDENT + text)]
        return "{\n" + "\n".join([*declared, *self.lines]) + "\n}\n"

    def pointer(self, buffer, text, written, alone):
        """The parameter `text` for a buffer; alone: nothing else points to what it has."""
        memory = self.dialect.pointers.get(buffer.scope, "")
        const, restrict = "" if written else "const ", self.dialect.restrict if alone else ""
        return f"{memory}{const}{self.type_of(buffer)} *{restrict}{text}"

    def type_of(self, x):
        """The type of a buffer's elements or of a variable."""
        try:
            return self.dialect.type(x.dtype)
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
        raise EmitError(f"{self.dialect.name} has no statement {type(n).__name__}; run the lowering passes first")

    def visit_SeqStmt(self, s):
        for x in s.seq:
            if self.declares(x) and x is not s.seq[-1]:
                self.block("", x)  # a scope of its own: what follows does not see the name
            else:
                self.visit(x)

    def declares(self, stmt):
        """Whether a statement leaves a name declared where it ends, be it in hints or at the end of a sequence."""
        while isinstance(stmt, SeqStmt) or isinstance(stmt, AttrStmt) and stmt.attr_key != TILE and (
                stmt.attr_key not in self.dialect.templates):
            stmt = stmt.seq[-1] if isinstance(stmt, SeqStmt) else stmt.body
        return isinstance(stmt, (DeclBuffer, LetStmt))

    def visit_For(self, loop):
        if loop.kind == "thread_binding":
            self.bound(loop.loop_var, loop.thread_binding, loop.min, loop.body)
            return
        outermost = loop.kind == "parallel" and not self.parallel
        if outermost:  # parallel loops directly inside share its threads; any others further in run serially
            self.parallel = True
            self.line(self.shared(parallel_nest(loop)))
        elif loop.kind not in ("serial", "unrolled", "parallel"):
            raise EmitError(f"{self.dialect.name} has no {loop.kind} loop; run VectorizeLoop first")
        elif self.dialect.unroll and (count := _copies(loop)):
            self.line(self.dialect.unroll.format(count=count))
        start, stop = self.expr.converted(loop.min), self.expr.text(_end(loop), RELATIONAL + 1)
        name = self.names.define(loop.loop_var, self.loop_name(loop.loop_var))
        head = f"for ({self.type_of(loop.loop_var)} {name} = {start}; {name} < {stop}; ++{name})"
        self.block(head, loop.body)
        self.names.release(loop.loop_var)
        if outermost:
            self.parallel = False

    def shared(self, nest):
        """The C text before a loop nest whose iterations are divided among threads."""
        if self.dialect.parallel is None:
            raise EmitError(f"{self.dialect.name} has no parallel loop: bind {nest[0].loop_var.name} to threads")
        collapse = self.dialect.collapse.format(count=len(nest)) if len(nest) > 1 else ""
        return self.dialect.parallel.format(collapse=collapse)

    def bound(self, var, tag, least, body):
        """A statement that each thread runs for its own value of a variable."""
        number = self.dialect.threads.get(tag)
        if number is None:
            raise EmitError(f"{self.dialect.name} has no threads: loop {var.name} is bound to {tag}, which comes with "
                            "CUDA; use parallel")
        value = number if is_const_int(least, 0) else f"{self.expr.text(least, ADDITIVE)} + {number}"
        self.line(f"const {self.type_of(var)} {self.names.define(var, self.loop_name(var, tag))} = {value};")
        self.visit(body)
        self.names.release(var)

    def loop_name(self, var, tag=""):
        """What a loop's variable is to be called; tag: the thread axis that it is bound to."""
        return var.name

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
        memory = self.dialect.memories.get(b.scope, "")
        if is_scalar(b):
            self.line(f"{memory}{self.type_of(b)} {name};")
        else:
            # Also for small arrays: with AVX-512 gcc 12 may move 16 bytes at once to one in a leaf function as if the
            # stack were aligned for that; asked for more, it does align it.
            own = extent.value * b.dtype.bytes if b.dtype.lanes == 1 else 0
            aligned = self.dialect.aligned if own >= self.dialect.least_aligned else ""
            self.line(f"{memory}{aligned}{self.type_of(b)} {name}[{extent.value}];")
        if b.dtype.lanes > 1:
            self.expr.use("vectors", b.dtype)
        self.visit(decl.body)
        self.names.release(b)

    def visit_LetStmt(self, let):
        if let.constant is not None:
            constant_array(self, let)
            return
        if let.var.dtype.is_int and not is_index(let):
            value = self.expr.converted(let.value)
            self.expr.data.update([let.var] if self.expr.is_data(let.value) else ())
        else:
            value = self.expr.index(let.value, *indexed_by(let.var, let.body))
        ctype = self.dialect.index if id(let.var) in self.wide else self.type_of(let.var)
        self.line(f"const {ctype} {self.names.define(let.var, let.var.name)} = {value};")
        self.visit(let.body)
        self.names.release(let.var)

    def declare_constant(self, text):
        """Declare an array whose elements the text has."""
        self.line(text)

    def visit_AssertStmt(self, stmt):
        if self.parallel:
            raise EmitError(f"an assertion ({stmt.message.value}) cannot leave a parallel loop: state it before the "
                            "loop")
        if self.dialect.failure is None:
            raise EmitError(f"a kernel in {self.dialect.name} cannot fail: {stmt.message.value}")
        fails = self.dialect.failure[1].format(message=c_string(stmt.message.value))
        self.line(f"if ({self.expr.text(Not(stmt.condition))}) {fails}")
        self.visit(stmt.body)

    def visit_AttrStmt(self, stmt):
        if stmt.attr_key in self.dialect.templates:
            self.template(stmt)
            return
        if stmt.attr_key == TILE:
            self.tile(Tile(stmt, {id(b): n for n, b in enumerate(self.func.buffers)}))
            return
        if stmt.attr_key == BORDER:
            self.border = [stmt.value.value]
            if not (isinstance(stmt.body, AttrStmt) and stmt.body.attr_key == TILE):  # whose call says more
                self.say_border()
            self.visit(stmt.body)
            return
        if stmt.attr_key == "thread_extent" and self.dialect.threads:
            self.bound(stmt.target.var, stmt.target.thread_tag, const(0), stmt.body)
            return
        if stmt.attr_key in THREADS:
            name = getattr(stmt.target, "thread_tag", "") or getattr(stmt.target, "name", stmt.target)
            raise EmitError(f"{self.dialect.name} has no threads: the attribute {stmt.attr_key} of {name} comes with "
                            "CUDA; use a parallel loop")
        if not stmt.attr_key.startswith("pragma_"):  # these are hints
            raise EmitError(f"{self.dialect.name} cannot say the attribute {stmt.attr_key!r}; it knows pragmas "
                            "(pragma_import_c, pragma_auto_unroll_max_step, pragma_unroll_explicit)")
        self.visit(stmt.body)

    def say_border(self, more=()):
        """The comment before what loops do at a border: which iterations these are, and what `more` says of them."""
        text = ", ".join([*self.border, *more])
        if text:
            self.line(f"/* border: {text} */")
        self.border = []

    def template(self, stmt):
        """A statement that a template prints."""
        name = self.names.define(stmt.target, stmt.target.name)
        self.names.text.update({id(field): f"{name}.{field.name}" for field in stmt.target.fields})
        *before, body = stmt.body.seq if stmt.attr_key == PREPARED else [stmt.body]
        parts, depth = {"[before]": before, "[body]": [body]}, self.depth
        for line in self.dialect.templates[stmt.attr_key].splitlines():
            text = line.lstrip()
            self.depth = depth + (len(line) - len(text)) // len(INDENT)
            for part in parts.get(text, ()):
                self.visit(part)
            if text not in parts:
                self.line(text.replace("{share}", name).replace("{start}", self.expr.text(stmt.value)))
        self.names.release(stmt.target)

    def tile(self, tile):
        """A call of a tile's function, which is printed when it is new."""
        inner = _TilePrinter(self)
        key = inner.function(tile)
        if key not in self.tiles:
            self.tiles[key] = unique_name(tile_name(self.name, tile.name), self.tile_names)
        args = [self.names[buffer] if index is None or is_const_int(index, 0) else
                f"&{self.expr.place(buffer, index)}" for _, buffer, index in tile.pointers]
        self.say_border(tile.fewer())
        for var, x in tile.numbers.items():
            indexed = indexed_by(var, tile.body)
            args.append(self.expr.index(x, *indexed) if indexed else self.expr.converted(x))
        self.line(f"{self.tiles[key]}({', '.join(args)});")

    def visit_Evaluate(self, stmt):
        if isinstance(stmt.value, Call) and stmt.value.op == "tir.ret":
            raise EmitError("a kernel returns nothing (T.ret): store the result in a buffer of one element")
        if isinstance(stmt.value, Call) and str(stmt.value.op).endswith("call_packed"):
            name, *args = stmt.value.args
            self.line(self.expr.packed(name.value, args) + ";")
        elif not isinstance(stmt.value, IntImm):
            self.line(self.expr.text(stmt.value) + ";")

    def visit_BufferStore(self, store):
        index, value, e = store.indices[0], store.value, self.expr
        if isinstance(index, Ramp):
            self.line(e.vector_access("store", store.buffer, index, value) + ";")
            return
        place = e.place(store.buffer, index)
        operator, operand = _update(store)
        self.line(f"{place} {operator}= {e.converted(operand)};" if operator else f"{place} = {e.converted(value)};")


class _TilePrinter(CPrinter):
    """Prints a tile as a function of a kernel, with names of its own."""

    def __init__(self, kernel):
        self.names, self.uses, self.parallel, self.dialect = Names(), kernel.uses, True, kernel.dialect
        self.wide, self.exchanged = kernel.wide, kernel.exchanged
        self.names.taken.update(self.dialect.reserved)
        self.table, self.strides = kernel.table, Strides(kernel.table, self.names)
        self.expr = kernel.Expressions(self.names, self.uses, self.dialect, self.strides)
        self.expr.data |= kernel.expr.data
        self.lines, self.depth, self.border = [], 1, []

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
        return tuple(params), self.braced()


def _copies(loop):
    """How many iterations of a loop become copies, at most; None where it says nothing of that."""
    if loop.kind == "unrolled" and isinstance(loop.extent, IntImm):
        return loop.extent.value
    return loop.annotations.get(MOST_ITERATIONS, loop.annotations.get(UNROLL))


def _end(loop):
    """Where a loop stops: of one that runs from a to b, as `b - a` turns, b."""
    extent = loop.extent
    return extent.a if isinstance(extent, Sub) and structural_equal(extent.b, loop.min) else loop.min + extent


def _update(store):
    """("+", x) for a store of load(same place) + x, which prints as an update; (None, None) for any other."""
    value = store.value
    operator = UPDATES.get(type(value))
    plain = value.dtype.is_float and value.dtype.lanes == 1 and value.dtype.bits >= 32  # integers: see CExpr
    if operator and plain and isinstance(value.a, BufferLoad) and value.a.buffer is store.buffer and (
            structural_equal(value.a.indices, store.indices)):
        return operator, value.b
    return None, None


class _Vars(Visitor):
    """Collects them; those of the shapes of buffers alone are none."""

    def __init__(self):
        self.found = set()

    def visit_Var(self, var):
        self.found.add(id(var))

    def visit_Buffer(self, buffer):
        pass


def computed_with(stmt):
    """The ids of the variables that statements compute with."""
    vars_ = _Vars()
    vars_.visit(stmt)
    return vars_.found
