"""TensorIR statements and functions as Python-syntax script (TVM's classic spelling).

Conventions that a parser relies on to give back the same structure:
- A root block that only allocates is not printed: its buffers stand at the top of the function. It is implied by any
  block or T.alloc_buffer in the body, unless the body is one block named "root".
- `x: T.int32 = e`, `B = T.decl_buffer(...)`, `assert ...` and `T.attr(...)` as a statement hold for the rest of their
  suite; where the scope ends earlier, the `with` form is printed.
- Ranges are `start:stop`; see ExprPrinter.bounds.
"""
from __future__ import annotations

from contextlib import contextmanager

from ..expr import ITER_NAMES, IntImm, IterVar, Let, Range, Var
from ..module import GlobalVar, linkage
from ..node import Node, collect
from ..tir.stmt import AttrStmt, Block, BlockRealize, For, MatchBufferRegion, SeqStmt, Stmt
from ..upper import provides
from .expr_printer import MALFORMED, ExprPrinter, quote, same_expr, sequence
from .names import identifier
from .undefined import undefined

LOOP_KINDS = {"serial": "T.serial", "parallel": "T.parallel", "vectorized": "T.vectorized", "unrolled": "T.unroll",
              "thread_binding": "T.thread_binding"}
DEFAULT_DTYPE = "float32"  # of buffers, left out but in the type of a parameter
ITER_LETTERS = {"spatial": "S", "reduce": "R"}


@provides("expr_to_str")
def expr_to_str(e):
    """The text of an expression alone; its variables are free and print by name."""
    return ExprPrinter().expr(e)


class TIRPrinter(ExprPrinter):
    """Collects lines; `statement` and `function` return the text."""

    def __init__(self, names=None):
        super().__init__(names)
        self.lines = []
        self._indent = 0
        self._loops = {}  # id of a loop variable -> its For
        self._views = {}  # id of a data pointer -> the buffers over it that nothing else defines

    def line(self, text):
        self.lines.append("    " * self._indent + text)

    @contextmanager
    def suite(self, header):
        """An indented suite with its own scope of names; `pass` when it stays empty."""
        self.line(header)
        self._indent += 1
        before = len(self.lines)
        with self.names.scope():
            yield
        if len(self.lines) == before:
            self.line("pass")
        self._indent -= 1

    def piece(self, n):
        """The text of part of a program below the declarations of what it uses and does not define."""
        missing = undefined(n.var if isinstance(n, IterVar) else n, self.names.known)
        self._declare([v for v in missing if isinstance(v, Var)] + [e.var for e in collect(n, Let)])
        self._declare_missing([b for b in missing if not isinstance(b, Var)])
        if isinstance(n, Stmt):
            self.stmt(n, False)
        elif isinstance(n, MatchBufferRegion):
            args = self.buffer_args(n.buffer)
            self.line(f"{self.define_buffer(n.buffer)} = T.match_buffer({self.expr(n.source)}, {args})")
        elif isinstance(n, IterVar):
            kind = next((name for name, kind in ITER_NAMES.items() if kind == n.iter_type), n.iter_type)
            dom = "None" if n.dom is None else self.expr(n.dom)
            self.line(f"T.iter_var({self.expr(n.var)}, {dom}, {quote(kind)}, {quote(n.thread_tag)})")
        else:
            text = self.expr(n)
            self.line(text.replace("T.", "I.", 1) if isinstance(n, Range) else text)
        return "\n".join(self.lines)

    def statement(self, s):
        """The text of one statement."""
        self.stmt(s, True)
        return "\n".join(self.lines)

    @contextmanager
    def marked(self, node):
        """What is printed inside is of a node, which may be marked."""
        before = len(self.lines)
        yield
        if self.style.marks:
            self.lines[before:] = self.style.lines(node, self.lines[before:])

    def stmt(self, s, last):
        """Print a statement; `last` when nothing follows it in its suite."""
        if not self.style.marks:
            return self._stmt(s, last)
        with self.marked(s):
            self._stmt(s, last and not self.style.noted(s))

    def _stmt(self, s, last):
        if s is None:
            return
        method = getattr(self, "stmt_" + type(s).__name__, None)
        before, indent = len(self.lines), self._indent
        try:
            if method:
                method(s, last)
                return
        except MALFORMED:
            del self.lines[before:]
            self._indent = indent
        if isinstance(s, Stmt):
            self._unknown_stmt(s)
        else:
            self.line(self.expr(s))

    def stmt_SeqStmt(self, s, last):
        for i, child in enumerate(s.seq):
            self.stmt(child, last and i == len(s.seq) - 1)

    # ------------------------------------------------------------ leaves

    def stmt_BufferStore(self, s, last):
        self.line(f"{self.access(s.buffer, s.indices)} = {self.expr(s.value)}")

    def stmt_Evaluate(self, s, last):
        if self.style.sugar and type(s.value).__name__ == "Call":
            value = s.value
            returns = value.op == "tir.ret" and len(value.args) == 1
            self.line(f"return {self.expr(value.args[0])}" if returns else self.expr(value))
            return
        self.line(f"T.evaluate({self.expr(s.value)})")

    # ------------------------------------------------------------ control

    def stmt_For(self, s, last):
        nest = self._grid(s)
        head = f"T.grid({', '.join(self.expr(f.extent) for f in nest)})" if len(nest) > 1 else self._loop_head(s)
        with self.names.scope():
            names = [self.names.define(f.loop_var, f.loop_var.name) for f in nest]
            self._loops.update((id(f.loop_var), f) for f in nest)
            with self.suite(f"for {', '.join(names)} in {head}:"):
                self.stmt(nest[-1].body, True)

    def _grid(self, s):
        """The longest perfect nest from `s` that T.grid can say: plain loops whose extents use none of their vars."""
        nest = [s]
        marked = {*self.style.underlined, *self.style.notes}
        while self.style.sugar and _is_plain(nest[-1]) and isinstance(nest[-1].body, For) and _is_plain(nest[-1].body):
            inner = nest[-1].body
            outer = {id(f.loop_var) for f in nest}
            if id(inner) in marked or any(id(v) in outer for v in collect(inner.extent, Var)):
                break
            nest.append(inner)
        return nest

    def _loop_head(self, s):
        zero = isinstance(s.min, IntImm) and s.min.value == 0 and _same_dtype(s.min, s.extent)
        args = [self.expr(s.extent)] if zero else list(self.bounds(s.min, s.extent))
        if s.thread_binding is not None:
            args.append(f"thread={self.value(s.thread_binding)}")
        if s.annotations:
            args.append(f"annotations={self.value(s.annotations)}")
        plain = s.kind == "serial" and s.thread_binding is None and not s.annotations
        head = "range" if plain else LOOP_KINDS.get(s.kind, f"T.{s.kind}")
        return f"{head}({', '.join(args)})"

    def stmt_While(self, s, last):
        with self.suite(f"while {self.expr(s.condition)}:"):
            self.stmt(s.body, True)

    def stmt_IfThenElse(self, s, last, keyword="if"):
        with self.suite(f"{keyword} {self.expr(s.condition)}:"):
            self.stmt(s.then_case, True)
        if type(s.else_case).__name__ == "IfThenElse":
            self.stmt_IfThenElse(s.else_case, last, "elif")
        elif s.else_case is not None:
            with self.suite("else:"):
                self.stmt(s.else_case, True)

    # ------------------------------------------------------------ scopes over the rest of a suite

    def _rest(self, last, concise, header, body, define=None, pointers=()):
        """Print `concise` and then the body in the same suite, or the body in a suite of its own under `header`.

        define: called before either text is made, in the scope that the body sees. pointers: those that it defines.
        """
        if last:
            name = define() if define else None
            self.line(concise(name))
            self.declare_views(pointers)
            self.stmt(body, True)
            return
        with self.names.scope():
            name = define() if define else None
            with self.suite(header(name)):
                self.declare_views(pointers)
                self.stmt(body, True)

    def stmt_LetStmt(self, s, last):
        value = self.expr(s.value)
        if s.constant is not None:
            self._rest(last, lambda name: f"{name} = {value}", lambda name: f"with {value} as {name}:", s.body,
                       lambda: self.names.define(s.var, s.var.name), [s.var])
            return
        if self.names.known(s.var):  # one that is used before it has this value, or has others too
            call = f"T.LetStmt({value}, var={self.expr(s.var)})"
            self._rest(False, lambda _: call, lambda _: f"with {call}:", s.body)
            return
        dtype = s.var.dtype
        said = "" if getattr(s.value, "dtype", None) == dtype else f", dtype={quote(dtype)}"
        self._rest(last, lambda name: f"{name}: T.{dtype} = {value}",
                   lambda name: f"with T.LetStmt({value}{said}) as {name}:", s.body,
                   lambda: self.names.define(s.var, s.var.name), [s.var])

    def stmt_DeclBuffer(self, s, last):
        call = f"T.decl_buffer({self.buffer_args(s.buffer)})"
        self._rest(last, lambda name: f"{name} = {call}", lambda name: f"with {call} as {name}:", s.body,
                   lambda: self.define_buffer(s.buffer), [s.buffer.data])

    def stmt_AssertStmt(self, s, last):
        condition, message = self.expr(s.condition), self.expr(s.message)
        self._rest(last, lambda _: f"assert {condition}, {message}",
                   lambda _: f"with T.Assert({condition}, {message}):", s.body)

    def stmt_AttrStmt(self, s, last):
        if isinstance(s.target, IterVar) and s.attr_key in ("thread_extent", "virtual_thread"):
            if self.names.known(s.target.var):  # of several launches
                call = f"T.launch_thread({self.expr(s.target.var)}, {self.expr(s.value)})"
                self._rest(last, lambda _: call, lambda _: f"with {call}:", s.body)
                return
            call = f"T.launch_thread({quote(s.target.thread_tag)}, {self.expr(s.value)})"
            self._rest(last, lambda name: f"{name} = {call}", lambda name: f"with {call} as {name}:", s.body,
                       lambda: self.names.define(s.target.var, s.target.var.name))
            return
        if s.attr_key == "realize_scope" and type(s.body).__name__ == "BufferRealize" and s.body.buffer is s.target:
            return self._realize(s.body, [self.expr(s.value)], last)
        call = f"T.attr({self.value(s.target)}, {quote(s.attr_key)}, {self.expr(s.value)})"
        self._rest(last, lambda _: call, lambda _: f"with {call}:", s.body)

    def stmt_BufferRealize(self, s, last):
        self._realize(s, [], last)

    def _realize(self, s, scope, last):
        region = f"{self._buffer_name(s.buffer)}[{', '.join(':'.join(self.bounds(r.min, r.extent)) for r in s.bounds)}]"
        condition = [] if _is_true(s.condition) else [f"condition={self.expr(s.condition)}"]
        call = f"T.realize({', '.join([region, *scope, *condition])})"
        self._rest(last, lambda _: call, lambda _: f"with {call}:", s.body)

    def stmt_Prefetch(self, s, last):
        self.line(f"T.prefetch({self._buffer_name(s.buffer)}, [{', '.join(self.exprs(s.bounds))}])")

    # ------------------------------------------------------------ blocks

    def stmt_BlockRealize(self, s, last):
        self._block(s.block, s.iter_values, s.predicate)

    def stmt_Block(self, block, last):
        self._block(block, None, None)

    def _block(self, block, values, predicate):
        """A block; values None: printed alone, without its realization."""
        alone = ", no_realize=True" if values is None else ""
        with self.marked(None if values is None else block), self.suite(
                f"with T.block({quote(block.name_hint)}{alone}):"):
            self._axes(block.iter_vars, values or ())
            if predicate is not None and not _is_true(predicate):
                self.line(f"T.where({self.expr(predicate)})")
            self.line(f"T.reads({', '.join(self.exprs(block.reads))})")
            self.line(f"T.writes({', '.join(self.exprs(block.writes))})")
            if block.annotations:
                self.line(f"T.block_attr({self.value(block.annotations)})")
            self.alloc_buffers(block.alloc_buffers)
            for m in block.match_buffers:
                self._match(m.buffer, self.expr(m.source))
                self.declare_views([m.buffer.data])
            if block.init is not None:
                with self.suite("with T.init():"):
                    self.stmt(block.init, True)
            self.stmt(block.body, True)

    def _axes(self, iter_vars, values):
        """T.axis lines; consecutive variables bound to whole loops share one T.axis.remap."""
        texts = [self.expr(v) for v in values]
        i = 0
        while i < len(iter_vars):
            run = i
            while run < len(iter_vars) and run < len(values) and self._is_remap(iter_vars[run], values[run]):
                run += 1
            if run - i >= 2:
                kinds = "".join(ITER_LETTERS[v.iter_type] for v in iter_vars[i:run])
                names = ", ".join(self.names.define(v.var, v.var.name) for v in iter_vars[i:run])
                self.line(f"{names} = T.axis.remap({quote(kinds)}, [{', '.join(texts[i:run])}])")
                i = run
                continue
            self._axis(iter_vars[i], texts[i] if i < len(texts) else None)
            i += 1

    def _axis(self, iv, value):
        dom = iv.dom
        zero = isinstance(dom.min, IntImm) and dom.min.value == 0 and _same_dtype(dom.min, dom.extent)
        domain = self.expr(dom.extent) if zero else f"({', '.join(self.bounds(dom.min, dom.extent))})"
        args = [domain] + ([value] if value is not None else [])
        name = self.names.define(iv.var, iv.var.name)
        self.line(f"{name} = T.axis.{iv.iter_type}({', '.join(args)})")

    def _is_remap(self, iv, value):
        """True when `iv` runs over exactly the loop whose variable is its value."""
        loop = self._loops.get(id(value))
        return (self.style.sugar and loop is not None and iv.iter_type in ITER_LETTERS
                and iv.var.dtype == value.dtype
                and same_expr(iv.dom.min, loop.min) and same_expr(iv.dom.extent, loop.extent))

    def _declare(self, variables):
        """A line for each variable that has no name yet."""
        for v in variables:
            if not self.names.known(v):
                self.line(f"{self.names.define(v, v.name)} = {_creation(v)}")

    def _match(self, b, source):
        """`name = T.match_buffer(source, ...)`, below a line that declares the variables of its layout."""
        inline = self._inline(b)
        self._declare_layout(b, inline)
        args = self.buffer_args(b, inline)
        name = self.define_buffer(b)
        for v, place in inline.values():
            self.names.bind(v, f"{name}.{place}")
        self.line(f"{name} = T.match_buffer({source}, {args})")

    def _inline(self, b):
        """The strides and the offset of a matched buffer that are variables of its own: {id: (variable, its place)}."""
        layout = (*b.shape, *b.strides, b.elem_offset)
        places = [(v, f"strides[{n}]") for n, v in enumerate(b.strides)] + [(b.elem_offset, "elem_offset")]
        return {id(v): (v, place) for v, place in places
                if type(v).__name__ == "Var" and v.dtype == "int32" and not self.names.known(v)
                and sum(v is w for e in layout for w in _leaves(e)) == 1}

    def _declare_layout(self, b, inline):
        """One line for the variables of a matched buffer's layout that are not told by their place."""
        new = [v for v in collect((b.shape, b.strides, b.elem_offset), Var)
               if not self.names.known(v) and id(v) not in inline]
        names = [self.names.define(v, v.name) for v in new]
        if new:
            self.line(f"{', '.join(names)} = {', '.join(map(_creation, new))}")

    # ------------------------------------------------------------ buffers

    def buffer_args(self, b, inline=()):
        """Arguments that describe a buffer: shape, dtype, and by keyword whatever is not the default. inline: ids of
        variables that are told by their place in it."""
        args = [self.tuple_of(b.shape)] + ([quote(b.dtype)] if b.dtype != DEFAULT_DTYPE else [])
        if b.data is not None and self.names.known(b.data):
            args.append(f"data={self.expr(b.data)}")
        if b.strides:
            strides = [quote(s.name) if id(s) in inline else self.expr(s) for s in b.strides]
            args.append(f"strides={sequence(strides)}")
        offset = b.elem_offset
        plain = isinstance(offset, IntImm) and offset.value == 0 and offset.dtype == "int32"
        own = offset is not None and id(offset) in inline
        if not own and offset is not None and not (plain and b.offset_factor == 1):  # a factor alone asks for an offset
            args.append(f"elem_offset={self.expr(offset)}")
        for keyword, value, default in (("scope", b.scope, "global"), ("align", b.data_alignment, 64),
                                        ("offset_factor", b.offset_factor, 1)):
            if value != default or own and keyword == "offset_factor":
                args.append(f"{keyword}={self.value(value)}")
        if b.axis_separators:
            args.append(f"axis_separators={list(b.axis_separators)}")
        return ", ".join(args)

    def define_buffer(self, b):
        """Name a buffer, and its data pointer after it."""
        name = self.names.define(b, b.name)
        if b.data is not None and not self.names.known(b.data):
            self.names.bind(b.data, f"{name}.data")
        return name

    def alloc_buffers(self, buffers):
        for b in buffers:
            args = self.buffer_args(b)
            self.line(f"{self.define_buffer(b)} = T.alloc_buffer({args})")
            self.declare_views([b.data])

    def declare_views(self, pointers):
        """`B = T.Buffer(shape, dtype, data=A.data)` of the views of these pointers."""
        for pointer in pointers:
            for b in self._views.get(id(pointer), ()):
                if not self.names.known(b):
                    args = self.buffer_args(b)
                    self.line(f"{self.define_buffer(b)} = T.Buffer({args})")

    # ------------------------------------------------------------ functions

    def function(self, func, name=None, decorate="@T.prim_func"):
        """The text of a PrimFunc. name: what it is called; its "global_symbol" (or main) when not given."""
        if self.module_name is None:
            for gv in collect(func, GlobalVar):
                self.names.reserve(gv.name)
        self.function_lines(func, name or (func.attrs or {}).get("global_symbol", "main"), decorate)
        return "\n".join(self.lines)

    def function_lines(self, func, name, decorate="@T.prim_func"):
        with self.marked(func), self.names.scope():
            self._views = func.views()
            params, matched = self._signature(func)
            private, attrs = linkage(func, name)
            self.line(f"{decorate}(private=True)" if private else decorate)
            returned = f" -> T.{func.ret_type}" if func.ret_type != "void" else ""
            with self.suite(f"def {identifier(name)}({', '.join(params)}){returned}:"):
                if attrs:
                    dims = {id(v) for _, b in matched for v in collect((b.shape, b.strides, b.elem_offset), Var)}
                    self._declare([v for v in collect(attrs, Var) if id(v) in dims])
                    self.line(f"T.func_attr({self.value(attrs)})")
                for handle, buffer in matched:
                    self._match(buffer, self.expr(handle))
                missing = undefined(func.body, self.names.known)
                variables = [v for v in missing if isinstance(v, Var)]
                self._declare(variables)
                self.declare_views([*(b.data for b in func.buffer_map.values()),
                                    *(p for p in func.params if p not in func.buffer_map), *variables])
                self._declare_missing([b for b in missing if not isinstance(b, Var)])
                self._declare_threads(func.body)
                self._function_body(func.body)

    def _declare_threads(self, body):
        """`tx = T.env_thread("threadIdx.x")` of the index of a thread that is launched more than once."""
        found = {}
        for s in collect(body, AttrStmt):
            if isinstance(s.target, IterVar) and s.attr_key in ("thread_extent", "virtual_thread"):
                found.setdefault(id(s.target.var), []).append(s.target)
        for first, *more in found.values():
            if more and first.var.dtype == "int32" and not self.names.known(first.var):
                self.line(f"{self.names.define(first.var, first.var.name)} = T.env_thread({quote(first.thread_tag)})")

    def _declare_missing(self, buffers):
        """`A = T.Buffer(shape, dtype)` of buffers that nothing defines, as in programs before they are complete."""
        for b in buffers:
            args = self.buffer_args(b)
            self.line(f"{self.define_buffer(b)} = T.Buffer({args})")
            self.declare_views([b.data])

    def _signature(self, func):
        """Parameter texts, and the (handle, buffer) pairs left for T.match_buffer in the body."""
        used = {id(v) for v in collect(func.body, Var)}
        data = [id(b.data) for b in func.buffer_map.values()]
        params, matched = [], []
        buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
        taken = {b.name for b in buffers}
        for p in func.params:
            buffer = func.buffer_map.get(p)
            if buffer is None:
                name = self.names.get(p, p.name) if self.names.known(p) else self.names.define(p, p.name)
                params.append(f"{name}: T.{p.dtype}")
            elif self._fits_signature(buffer) and id(p) not in used and buffer.data is not p and (
                    data.count(id(buffer.data)) == 1):
                args = f"{self.tuple_of(buffer.shape)}, {quote(buffer.dtype)}"
                params.append(f"{self.define_buffer(buffer)}: T.Buffer({args})")
            else:
                hint = f"var_{p.name}" if p.name in taken else p.name
                params.append(f"{self.names.define(p, hint)}: T.handle")
                matched.append((p, buffer))
        return params, matched

    def _fits_signature(self, b):
        """True when T.Buffer(shape, dtype) says all of it: nothing symbolic, no layout of its own."""
        symbolic = collect((b.shape, b.strides, b.elem_offset), Var)
        shared = b.data is not None and self.names.known(b.data)
        return self.style.sugar and not symbolic and not shared and self.buffer_args(b).count("=") == 0

    def _function_body(self, body):
        block = body.block if isinstance(body, BlockRealize) else None
        implicit = (isinstance(block, Block) and block.name_hint == "root" and _is_true(body.predicate)
                    and not (body.iter_values or block.iter_vars or block.reads or block.writes or block.annotations
                             or block.match_buffers or block.init)
                    and (block.alloc_buffers or _has_block(block.body)))
        root_inside = implicit and isinstance(block.body, BlockRealize) and block.body.block.name_hint == "root"
        if not implicit or root_inside or not self.style.sugar or self._is_marked(body):
            self.stmt(body, True)
            return
        self.line('# with T.block("root"):')
        self.alloc_buffers(block.alloc_buffers)
        self.stmt(block.body, True)

    def _is_marked(self, realize):
        """Whether a root block has marks of its own, so that it must be seen."""
        return any(self.style.noted(n) or id(n) in self.style.underlined for n in (realize, realize.block))

    def _unknown_stmt(self, s):
        """A statement without a spelling of its own: its plain fields as arguments, statements below it as a suite."""
        plain = [f"{f}={self.value(getattr(s, f))}" for f in s._fields
                 if f not in s._ignore and not isinstance(getattr(s, f), Stmt)]
        below = [getattr(s, f) for f in s._fields if isinstance(getattr(s, f), Stmt)]
        call = f"I.{type(s).__name__}({', '.join(plain)})"
        if not below:
            self.line(call)
            return
        with self.suite(f"with {call}:"):
            self.stmt(SeqStmt(tuple(below)), True)


def _leaves(e):
    """Each variable of an expression, as often as it stands there."""
    if isinstance(e, Var):
        return [e]
    return [v for f in getattr(e, "_fields", ()) for part in [getattr(e, f)]
            for x in (part if isinstance(part, tuple) else (part,)) for v in _leaves(x)]


def _creation(v):
    return f"T.{v.dtype}({'is_size_var=True' if v.is_size else ''})"


def _is_plain(s):
    """True for a loop that T.grid can say."""
    return (s.kind == "serial" and s.thread_binding is None and not s.annotations and isinstance(s.loop_var, Var)
            and isinstance(s.min, IntImm) and s.min.value == 0 and isinstance(s.extent, Node)
            and _same_dtype(s.min, s.extent))


def _same_dtype(a, b):
    return getattr(a, "dtype", None) == getattr(b, "dtype", None)


def _is_true(predicate):
    return predicate is None or (isinstance(predicate, IntImm) and predicate.value == 1 and predicate.dtype == "bool")


def _has_block(body):
    """True when there is any block below: the sign that a function has a root block."""
    return bool(collect(body, Block))
