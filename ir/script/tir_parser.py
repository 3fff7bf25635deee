"""TensorIR statements and functions of a script: Python's syntax tree to Stmt and PrimFunc.

The conventions are those of TIRPrinter. Statements whose scope is the rest of their suite (lets, asserts, attributes,
declared buffers) are handled by `suite`; what belongs to a block is collected in its frame.
"""
from __future__ import annotations

import ast

from ..dtype import DataType
from ..expr import Broadcast, Call, IterVar, PrimExpr, StringImm, Var, cast, const
from ..node import collect
from ..tir.buffer import Buffer
from ..tir.effects import RETURN
from ..tir.function import PrimFunc
from ..tir.intrin import ret
from ..tir.signatures import completed
from ..tir.stmt import (AssertStmt, AttrStmt, BufferRegion, BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt,
                        Stmt, While)
from ..tir.unlowered import BufferRealize
from ..tir.verifier import VerifyError, verify
from . import specs as S
from .block_parser import BlockParser, Frame, Scoped, joined
from .evaluator import REFUSALS, describe, make_range
from .macros import Macro, MacroCall
from .namespaces import DTypeName, is_number, number_like


class TIRParser(BlockParser):
    """Parses one PrimFunc."""

    def __init__(self, source, env, trusted=False):
        super().__init__(source, env, trusted)
        self.returned = None  # the dtype that the function is declared to return
        self.shared = {}  # name -> Var that belongs to the whole module
        self.places = {}  # id of a statement -> (the statement, its source and syntax tree)

    # ------------------------------------------------------------ functions

    def top(self, node, private=False, check_well_formed=True):
        """The PrimFunc of a decorated function that stands alone."""
        return self.linked(node, self.function(node, check_well_formed), private)

    def function(self, node, check_well_formed=True):
        """The PrimFunc of an ast.FunctionDef. check_well_formed: complete the signatures of its blocks, and hold it to
        the verifier's rules."""
        func = self._function(node)
        if check_well_formed:
            func = completed(func, self._where_omitted, self.is_stated)
            try:
                verify(func, unique_names=False)
            except VerifyError as error:
                around = (self.places[id(s)][1:] for s in reversed(error.statements) if id(s) in self.places)
                source, place = next(around, (self.source, node))
                raise source.error(place, str(error)) from error
        return func

    def _where_omitted(self, omission):
        _, source, node = self.places.get(id(omission.realize), (None, self.source, None))
        at = node and source.error(node, "")
        return at and (at.filename, at.line)

    def _function(self, node):
        if not isinstance(node, ast.FunctionDef):
            self.fail(node, "expected `def name(parameters):` below @T.prim_func")
        self.scopes.append({})
        self.frames.append(Frame())
        for a in self._arguments(node):
            self._parameter(a)
        declared = None if node.returns is None else self.eval(self.annotation(node.returns))
        self.returned = declared.dtype if isinstance(declared, DTypeName) and declared.dtype != "void" else None
        func = self.closed_function(joined(self.suite(node.body)))
        self.scopes.pop()
        for call in collect(func.body, Call) if self.returned else ():
            if call.op == RETURN and call.dtype != self.returned:
                self.fail(node.returns, f"{node.name} is declared to return {self.returned}, but returns "
                                        f"{call.args[0]}, which is {call.dtype}: cast it, or declare that")
        return func

    def closed_function(self, body):
        """The PrimFunc of the frame that is open, with this body."""
        body = self._root(self.frames.pop(), body)
        buffer_map = {p: self.buffer_map[p] for p in self.params if p in self.buffer_map}
        return PrimFunc(tuple(self.params), buffer_map, body, self.attrs)

    def _arguments(self, node):
        a = node.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults:
            self.fail(node, "a prim_func has plain parameters only: no defaults, * or **")
        return [*a.posonlyargs, *a.args]

    def _parameter(self, arg):
        if arg.annotation is None:
            self.fail(arg, f'parameter {arg.arg} has no type: write {arg.arg}: T.handle, T.int32 or '
                           'T.Buffer((m, n), "float32")')
        kind = self.eval(self.annotation(arg.annotation))
        kind = kind() if isinstance(kind, DTypeName) else kind
        if isinstance(kind, S.BufferSpec):
            param = Var(arg.arg, "handle")
            self.buffer_map[param] = self._make_buffer(kind, arg.arg, arg.annotation)
            self.define(arg.arg, self.buffer_map[param])
        elif isinstance(kind, S.Fresh):
            shared = self.shared.get(arg.arg)
            param = shared if shared is not None and shared.dtype == kind.dtype else Var(arg.arg, kind.dtype)
            self.define(arg.arg, param)
        else:
            self.fail(arg.annotation, f"the type of a parameter is T.handle, T.Buffer(...) or a dtype such as T.int32, "
                                      f"not {describe(kind)}")
        self.params.append(param)

    def annotation(self, node):
        """The annotation's syntax tree, also when it is quoted."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            quoted = ast.parse(node.value, mode="eval").body
            return ast.fix_missing_locations(ast.copy_location(quoted, node))
        return node

    # ------------------------------------------------------------ suites

    def suite(self, nodes):
        """The statements of a suite, as a list."""
        out = []
        for k, node in enumerate(nodes):
            made = self.statement(node)
            if isinstance(made, Scoped):
                out.append(made.build(joined(self.suite(nodes[k + 1:]))))
                break
            if isinstance(made, SeqStmt):
                out.extend(made.seq)
            elif made is not None:
                out.append(made)
        return out

    def scoped_suite(self, nodes):
        """One statement of a suite with names of its own."""
        self.scopes.append({})
        body = joined(self.suite(nodes))
        self.scopes.pop()
        return body

    def statement(self, node):
        """A Stmt, a Scoped one, or None for what only defines names or describes the block."""
        method = getattr(self, "stmt_" + type(node).__name__, None)
        if method is None:
            self.fail(node, f"Python's {type(node).__name__.lower()} statement has no meaning in TensorIR")
        try:
            made = method(node)
        except REFUSALS as error:
            return self.blame(node, error)
        if isinstance(made, Scoped):
            return Scoped(lambda rest: self._placed(made.build(rest), node))
        return self._placed(made, node)

    def _placed(self, made, node):
        """Remember where a statement came from."""
        if isinstance(made, Stmt):
            self.places[id(made)] = made, self.source, node
        return made

    def stmt_Pass(self, node):
        return None

    def stmt_Return(self, node):
        value = None if node.value is None else self.eval(node.value)
        if self.returned and isinstance(value, (int, float)):
            value = const(value, self.returned)
        if isinstance(value, (int, float)) or isinstance(value, PrimExpr) and value.dtype.lanes == 1:
            return Evaluate(ret(value))
        self.fail(node, "a prim_func returns a number or nothing: store tensors into the buffers of its parameters")

    def stmt_FunctionDef(self, node):
        for d in node.decorator_list:
            found = self.eval(d.func if isinstance(d, ast.Call) else d)
            if getattr(found, "__name__", "") == "macro":
                self.define(node.name, Macro(node, self.source, {**self.env, **self._visible()}))
                return None
        return self.fail(node, "functions inside a prim_func are macros: decorate it with @T.macro")

    def _visible(self):
        return {k: v for scope in self.scopes for k, v in scope.items()}

    # ------------------------------------------------------------ expression statements

    def stmt_Expr(self, node):
        value = self.eval(node.value)
        handler = SPEC_STATEMENTS.get(type(value))
        if handler:
            return handler(self, node, value)
        if isinstance(value, Stmt):
            return value
        if isinstance(value, PrimExpr):
            return Evaluate(value)
        if value is None or isinstance(node.value, ast.Constant):  # a docstring, or a call of Python's
            return None
        if isinstance(value, S.Spec):
            self.fail(node, f"this has a meaning as {value.place} only")
        return self.fail(node, f"expected a statement, not {describe(value)}")

    def _attr_statement(self, node, spec):
        if spec.key in ("thread_extent", "virtual_thread") and id(spec.target) in self.threads:
            return self._launch(node, None, S.LaunchSpec(spec.target, spec.value))
        value = self._message(spec.value, node)
        is_thread = spec.key in ("thread_extent", "virtual_thread")
        target = spec.target.var if isinstance(spec.target, IterVar) and not is_thread else spec.target
        return Scoped(lambda rest: AttrStmt(target, spec.key, value, rest))

    def _realize(self, node, spec):
        region = self.region(spec.region, node)
        condition = self.condition(spec.condition, node)
        return Scoped(lambda rest: AttrStmt(region.buffer, "realize_scope", StringImm(spec.scope), BufferRealize(
            region.buffer, region.region, condition, rest)))

    def _with_realize(self, node, spec, name):
        return self._realize(node, spec)

    def _assert_statement(self, node, spec):
        return self._assertion(node, spec.condition, spec.message)

    def _assertion(self, node, condition, message):
        condition, message = self.condition(condition, node), self._message(message, node)
        return Scoped(lambda rest: AssertStmt(condition, message, rest))

    def _message(self, value, node):
        return StringImm(value) if isinstance(value, str) else self.as_scalar(value, node)

    def _macro(self, node, call):
        """The statements of a macro, its parameters bound to the call's arguments."""
        macro = call.macro
        try:
            bound = macro.signature(self.eval).bind(*call.args, **call.kwargs)
        except TypeError as error:
            self.fail(node, f"macro {macro.tree.name} takes ({ast.unparse(macro.tree.args)}): {error}")
        bound.apply_defaults()
        bound = dict(bound.arguments)
        kept = self.scopes, self.env, self.source
        self.source = macro.source
        self.scopes, self.env = ([bound], macro.env) if macro.hygienic else ([*self.scopes, bound], self.env)
        try:
            return SeqStmt(tuple(self.suite(macro.tree.body)))
        finally:
            self.scopes, self.env, self.source = kept

    # ------------------------------------------------------------ assignments

    def stmt_Assign(self, node):
        if len(node.targets) != 1:
            self.fail(node, "one name at a time: `a = b = value` has no meaning in TensorIR")
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return self._store(target, node.value, self.eval(node.value))
        return self.assign(target, self.eval(node.value), node)

    def stmt_AugAssign(self, node):
        binary = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        if not isinstance(node.target, ast.Subscript):
            self.fail(node, "variables are assigned once; `x += ...` needs a buffer element")
        return self._store(node.target, node, self.eval(binary))

    def stmt_AnnAssign(self, node):
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.fail(node, "expected `name: T.dtype = value`")
        value, kind = self.eval(node.value), self._let_type(node.annotation)
        if isinstance(value, S.Spec):
            return self.assign(node.target, value, node)
        value = self.as_scalar(value, node.value, kind)
        return self._let(node.target.id, value, kind or value.dtype)

    def _let_type(self, node):
        """The dtype of `x: T.int32 = ...`; None for T.let, which takes the value's."""
        if isinstance(node, ast.Subscript):  # T.let[T.int32]
            node = node.slice
        kind = self.eval(self.annotation(node))
        if isinstance(kind, (DTypeName, S.Fresh)):
            return kind.dtype
        if getattr(kind, "name", None) in ("T.let", "T.Let"):
            return None
        return self.fail(node, "the type of a variable is a dtype such as T.int32")

    def assign(self, target, value, node):
        """Bind `value` to an assignment's target (a name, or a tuple of them)."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return self._unpack(target, value, node)
        if not isinstance(target, ast.Name):
            self.fail(target, "expected a name or a buffer element on the left of `=`")
        name = target.id
        if isinstance(value, list) and value and all(isinstance(v, S.AxisSpec) for v in value):
            return self._several(node, name, value)
        handler = SPEC_ASSIGNMENTS.get(type(value))
        if handler:
            self._refuse_twice(node, name, value)
            return handler(self, node, name, value)
        if isinstance(value, S.Spec):
            self.fail(node, f"this has a meaning as {value.place} only")
        if isinstance(value, (PrimExpr, BufferRegion)) and not self._unnamed(value) or is_number(value):
            value = self.as_scalar(value, node)
            return self._let(name, value, value.dtype)
        self.define(name, value)
        return None

    def _refuse_twice(self, node, name, spec):
        """Refuse a second iterator, or a second buffer, of one name in one place: one of them is a slip."""
        if isinstance(spec, S.AxisSpec) and any(name == v.var.name for v in self.frames[-1].iter_vars):
            self.fail(node, f"iterator {name} is defined twice in one block")
        if isinstance(spec, S.BufferSpec) and spec.how != "buffer" and isinstance(self.scopes[-1].get(name), Buffer):
            self.fail(node, f"buffer {name} is defined twice here: give the other a name of its own")

    def _refuse_same(self, node, names):
        """Refuse `i, i = ...`: what the first names could not be told from the second."""
        twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
        if twice not in (None, "_"):
            self.fail(node, f"Duplicate vars assigned: {twice} stands twice here; give each a name of its own")

    def _unnamed(self, value):
        """Whether a value is a variable, or a buffer's pointer, that no name of the script's stands for yet: `name =` gives
        it one. Another variable's value, `j = i`, is a let."""
        return isinstance(value, Var) and not any(v is value for scope in self.scopes for v in scope.values())

    def _unpack(self, target, value, node):
        self._refuse_same(target, [t.id for t in target.elts if isinstance(t, ast.Name)])
        if isinstance(value, S.RemapSpec):
            value = self._remap(node, value)
        if isinstance(value, S.Meta):
            for t, v in self._paired(target.elts, list(value.value), node):
                self.assign(t, v if isinstance(v, S.Spec) else S.Meta(v), node)
            return None
        if isinstance(value, S.Spec) or not isinstance(value, (tuple, list)):
            self.fail(node, f"{describe(value)} cannot be taken apart into {len(target.elts)} names")
        scoped = [m for t, v in self._paired(target.elts, list(value), node) if (m := self.assign(t, v, node)) is not None]

        def build(rest):
            for s in reversed(scoped):
                rest = s.build(rest)
            return rest
        return Scoped(build) if scoped else None

    def _paired(self, targets, values, node):
        """Each target with its value, `*name` with a list of those that are left."""
        rest = next((n for n, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        more = len(values) - len(targets) + 1
        if rest is not None and more >= 0:
            targets = [*targets[:rest], targets[rest].value, *targets[rest + 1:]]
            values = [*values[:rest], values[rest:rest + more], *values[rest + more:]]
        if len(values) != len(targets):
            self.fail(node, f"{len(targets)} names for {len(values)} values")
        return zip(targets, values)

    def _several(self, node, name, axes):
        """One name for several iterators, each of which has one of its own, name_0 and so on."""
        names = [f"{name}_{n}" for n in range(len(axes))]
        for own, axis in zip(names, axes):
            self._axis(node, own, axis)
        self.define(name, tuple(self.scopes[-1][own] for own in names))

    def _let(self, name, value, dtype):
        var = Var(name, dtype)
        self.define(name, var)
        return Scoped(lambda rest: LetStmt(var, value, rest))

    def _constant(self, node, name, spec):
        return self._let(name, spec.value, spec.value.dtype)

    def _with_constant(self, node, spec, name):
        return self._let(name or "constant", spec.value, spec.value.dtype)

    def _store(self, target, node, value):
        """buffer[indices] = value"""
        buffer = self.eval(target.value)
        if not isinstance(buffer, Buffer):
            self.fail(target, f"{describe(buffer)} cannot be stored into")
        place = self.as_scalar(self.access(buffer, target), target)
        if is_number(value) and (buffer.dtype.is_float or not isinstance(value, float)):
            value = number_like(value, place.dtype)
        value = self.as_scalar(value, node)
        if value.dtype != place.dtype:
            value = self._converted(value, place.dtype, node, buffer)
        return BufferStore(buffer, value, place.indices)

    def _converted(self, value, dtype, node, buffer):
        """`value` in another dtype of the same lanes, where nothing is lost by kind: floats do not become integers."""
        if value.dtype.lanes != dtype.lanes or value.dtype == "handle" or (value.dtype.is_float and not dtype.is_float):
            self.fail(node, f"buffer {buffer.name} holds {dtype}, the value is {value.dtype}: cast it, as in "
                            f'x.astype("{dtype}")')
        if isinstance(value, Broadcast):
            return value.replace(value=cast(value.value, dtype.element))
        return cast(value, dtype)

    def _fresh(self, node, name, spec):
        self.define(name, Var(name, spec.dtype, is_size=spec.is_size))

    def _meta(self, node, name, spec):
        self.define(name, spec.value)

    # ------------------------------------------------------------ control

    def stmt_For(self, node):
        spec = self._loops(node.iter)
        texts, several = self._loop_names(node, len(spec.heads))
        self.scopes.append({})
        variables, scoped = self.open_loops(node.iter, spec, texts)
        for var in variables:
            self.define(var.name, var)
        for name, first, last in several:
            self.define(name, tuple(variables[first:last]))
        body = joined(self.suite(node.body))
        self.scopes.pop()
        return scoped.build(body)

    def open_loops(self, node, spec, names):
        """The variables of a nest of loops, and the nest over a body."""
        nest = []
        for head, name in zip(spec.heads, names):
            start, stop = (0 if head.minimum is None else head.minimum), head.stop
            dom = make_range(self, node, *(self.operand(v, node) for v in (start, stop)))
            var = Var(name, dom.extent.dtype)
            self.loops[id(var)] = (var, dom)
            nest.append((var, dom, head))

        def close(body):
            for var, dom, head in reversed(nest):
                body = For(var, dom.min, dom.extent, head.kind, body, head.thread, head.annotations)
            return body
        return [var for var, _, _ in nest], Scoped(close)

    def _loop_names(self, node, count):
        """The names of `count` loops, and [(name, first, last)] of those that stand for several: `for s in T.grid(*shape)`
        and `for *s, r in T.grid(*shape)`, whose loops are s_0, s_1 ..."""
        target = node.target
        targets = list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if targets == [target] and count != 1:
            targets = [ast.Starred(target)]
        texts, several = [], []
        for t in targets:
            starred = isinstance(t, ast.Starred)
            own = [getattr(t.value if starred else t, "id", None)]
            if starred and own[0] and not several:
                more = count - len(targets) + 1
                several.append((own[0], len(texts), len(texts) + more))
                own = [f"{own[0]}_{n}" for n in range(more)]
            texts.extend(own)
        if len(texts) != count or None in texts:
            self.fail(node, f"{len(targets)} names for {count} loops")
        self._refuse_same(target, texts)
        return texts, several

    def _loops(self, node):
        spec = self.eval(node)
        if not isinstance(spec, S.Loops):
            self.fail(node, f"a loop runs over range, T.grid, T.serial, T.parallel, T.vectorized, T.unroll or "
                            f"T.thread_binding, not {describe(spec)}")
        return spec

    def stmt_While(self, node):
        return While(self.condition(self.eval(node.test), node.test), self.scoped_suite(node.body))

    def stmt_If(self, node):
        test = self.operand(self.eval(node.test), node.test)
        if isinstance(test, bool):  # a Python-side constant chooses when the script is read
            taken = node.body if test else node.orelse
            return SeqStmt(tuple(self._in_scope(taken)))
        condition = self.condition(test, node.test)
        then = self.scoped_suite(node.body)
        return IfThenElse(condition, then, self.scoped_suite(node.orelse) if node.orelse else None)

    def _in_scope(self, nodes):
        self.scopes.append({})
        statements = self.suite(nodes)
        self.scopes.pop()
        return statements

    def stmt_Assert(self, node):
        message = self.eval(node.msg) if node.msg is not None else "assertion failed"
        return self._assertion(node, self.eval(node.test), message)

    # ------------------------------------------------------------ with

    def stmt_With(self, node):
        return self._with(node, node.items)

    def _with(self, node, items):
        item, rest = items[0], items[1:]
        spec = self.eval(item.context_expr)
        handler = SPEC_SUITES.get(type(spec))
        if handler is None:
            self.fail(item.context_expr, f"expected T.block, T.init, T.LetStmt, T.attr, T.Assert or a buffer after "
                                         f"`with`, not {describe(spec)}")
        target = item.optional_vars
        if target is not None and isinstance(spec, S.BlockSpec):
            self.fail(target, f"a block has no value that `as {ast.unparse(target)}` could name")
        if not isinstance(target, (ast.Name, type(None))):
            self.fail(target, "expected one name after `as`")
        name = target and target.id
        self.scopes.append({})
        scoped = handler(self, item.context_expr, spec, name)
        statements = [self._with(node, rest)] if rest else self.suite(node.body)
        made = scoped.build(joined([s for s in statements if s is not None]))
        self.scopes.pop()
        return made

    def _let_statement(self, node, spec):
        return self._let_of(node, None, spec)

    def _with_let(self, node, spec, name):
        return self._let_of(node, name, spec)

    def _let_of(self, node, name, spec):
        """T.LetStmt(value): of a new variable, or of `var`, which T.int32() made."""
        dtype, var = spec.dtype, spec.var
        if isinstance(var, S.Fresh):
            dtype, var = var.dtype, None
        if var is None and name is None:
            self.fail(node, "expected `with T.LetStmt(value) as name:`, or `T.LetStmt(value, var=name)`")
        if var is not None and not isinstance(var, Var):
            self.fail(node, f"var is a variable, as `x = T.int32()` makes it, not {describe(var)}")
        dtype = dtype if var is None else var.dtype
        value = self.as_scalar(spec.value, node, DataType(dtype) if dtype else None)
        if var is None:
            return self._let(name, value, dtype or value.dtype)
        if name is not None:
            self.define(name, var)
        return Scoped(lambda rest: LetStmt(var, value, rest))

    def _with_buffer(self, node, spec, name):
        if name is None:
            self.fail(node, "expected `with T.decl_buffer(shape, dtype) as name:`")
        return self._buffer(node, name, spec) or Scoped(lambda body: body)

    def _with_attr(self, node, spec, name):
        return self._attr_statement(node, spec)

    def _launch_statement(self, node, spec):
        return self._launch(node, None, spec)

    def _with_launch(self, node, spec, name):
        return self._launch(node, name, spec)

    def _ignored(self, node, spec):
        return None

    def _with_assert(self, node, spec, name):
        return self._assert_statement(node, spec)

    def _with_while(self, node, spec, name):
        condition = self.condition(spec.condition, node)
        return Scoped(lambda body: While(condition, body))


# What a request means: as a statement of its own, on the right of `name =`, and after `with`, whose handlers give what is
# made of the body.
SPEC_STATEMENTS = {
    S.AttrsSpec: TIRParser._attrs, S.RegionsSpec: TIRParser._signature, S.WhereSpec: TIRParser._where,
    S.AttrSpec: TIRParser._attr_statement, S.RealizeSpec: TIRParser._realize,
    S.AssertSpec: TIRParser._assert_statement, MacroCall: TIRParser._macro,
    S.LaunchSpec: TIRParser._launch_statement, S.LetSpec: TIRParser._let_statement, S.Ignored: TIRParser._ignored}
SPEC_ASSIGNMENTS = {
    S.Fresh: TIRParser._fresh, S.Meta: TIRParser._meta, S.BufferSpec: TIRParser._buffer, S.AxisSpec: TIRParser._axis,
    S.ConstantSpec: TIRParser._constant, S.LetSpec: TIRParser._let_of,
    S.RemapSpec: TIRParser._remap_one, S.EnvThread: TIRParser._env_thread, S.LaunchSpec: TIRParser._launch}
SPEC_SUITES = {
    S.BlockSpec: TIRParser._with_block, S.InitSpec: TIRParser._with_init, S.LetSpec: TIRParser._with_let,
    S.BufferSpec: TIRParser._with_buffer, S.AttrSpec: TIRParser._with_attr, S.RealizeSpec: TIRParser._with_realize,
    S.AssertSpec: TIRParser._with_assert,
    S.ConstantSpec: TIRParser._with_constant, S.WhileSpec: TIRParser._with_while, S.LaunchSpec: TIRParser._with_launch}

__all__ = ["TIRParser", "joined"]
