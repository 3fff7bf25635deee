"""create_prim_func: tensor expressions -> a PrimFunc of loops and blocks, one block per compute, as TVM does."""
from __future__ import annotations

from ..arith import Analyzer
from ..expr import (Add, Call, FloatImm, FloorDiv, FloorMod, IntImm, IterVar, Mul, Range, Var, as_expr, const,
                    is_const_int, substitute)
from ..names import unique_name
from ..node import Mutator, collect, structural_equal
from ..tir.bounds import check_bounds
from ..tir.buffer import decl_buffer, row_major_strides
from ..tir.function import prim_func
from ..tir.region import access_regions, full_region
from ..tir.stmt import Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, For, LetStmt, seq
from .index_dtype import with_index_dtype
from .nested import depth_of, levels_of, nested_reduction
from .tensor import ComputeOp, ExternOp, PlaceholderOp, ProducerLoad, Reduce, ScanOp, Tensor, rewritten

FREE = "layout_free_placeholders"


def create_prim_func(args, index_dtype_override=None, attrs=None):
    """The PrimFunc whose buffers are `args` (te.Tensors, inputs and outputs; scalar Vars pass through).

    Computes run in dependence order; those not among args get buffers of the root block. Block names are the
    computes' names, made unique; what they store is simplified, and each has an iterator at least.
    index_dtype_override: "int32" or "int64" for all loops, iterators and shapes.
    attrs: of the function; the default says that it is "main" and that its buffers do not overlap, as TVM's.
    Raises ValueError for a tensor that is neither argument nor computed, for a reduction of several values of which
    not all are outputs, and for an element beyond a tensor's shape that is surely read.
    """
    attrs = {"global_symbol": "main", "tir.noalias": True} if attrs is None else attrs
    func = check_bounds(_OfScript().function(args, attrs))
    return with_index_dtype(func, index_dtype_override) if index_dtype_override else func


class Lowering:
    """One translation of tensors into a PrimFunc, whose accesses nobody checks: those of the graph's own operators stay
    within their buffers. For a program of one's own create_prim_func checks them.

    After it, blocks: {operation: names of its blocks}; inside: {operation: the scan in whose loop it is}; given: the
    operations whose results are arguments.

    resolve(tensor, reader), scope(op): which tensor an operation reads in place of `tensor` (reader None: an
    argument), and in what memory an operation's results lie. A schedule that caches has its own. joined(op): whether
    several outputs, which are no reduction, are computed in one block, which can be moved, instead of one for each.
    """

    def __init__(self, resolve=lambda tensor, reader: tensor, scope=lambda op: "global", joined=lambda op: False):
        self.resolve, self.scope, self.joined = resolve, scope, joined
        self.blocks, self.free = {}, []
        self.buffers, self.buffer_names, self.block_names = {}, set(), {"root"}

    def function(self, args, attrs=None):
        """The PrimFunc of `args`; see create_prim_func."""
        tensors, params = [], []
        for a in args:
            if isinstance(a, Var):
                params.append(a)
                continue
            if not isinstance(a, Tensor):
                raise TypeError(f"an argument is a {type(a).__name__} instead of a Tensor or Var")
            tensors.append(self.resolve(a, None))
            params.append(self.declare(tensors[-1]))
        self.given = {t.op for t in tensors}
        if len({t.key for t in tensors}) != len(tensors):
            raise ValueError("a tensor is twice among the arguments")
        order = self.all = self.order([t.op for t in tensors])
        aliases, self.inside = self._scans(order, {t.key for t in tensors})
        self.buffers.update(aliases)
        body = [self.statement(op) for op in order if op not in self.inside]
        allocs = {id(b): b for op in order if not isinstance(op, PlaceholderOp)
                  for b in map(self.declare, map(op.output, range(op.num_outputs)))}
        kept = [b for key, b in allocs.items() if not any(b is p for p in params)]
        if self.free:
            buffers = [p for p in params if not isinstance(p, Var)]
            attrs = {**(attrs or {}), "layout_free_buffers": [n for n, b in enumerate(buffers) if b in self.free]}
        return prim_func(params, seq(*body), attrs, kept)

    def order(self, ops):
        """All operations behind `ops`, producers first."""
        order, seen = [], set()

        def visit(op):
            if op not in seen:
                seen.add(op)
                for t in op.input_tensors:
                    visit(self.resolve(t, op).op)
                order.append(op)

        for op in ops:
            visit(op)
        return order

    def declare(self, tensor):
        """The buffer of a tensor, named after it."""
        if tensor.key not in self.buffers:
            name = f"{tensor.name}_v{tensor.value_index}" if tensor.op.num_outputs > 1 else tensor.name
            self.buffers[tensor.key] = decl_buffer(
                tensor.shape, tensor.dtype, unique_name(name, self.buffer_names), self.scope(tensor.op))
        return self.buffers[tensor.key]

    def statement(self, op):
        """The loops and blocks of an operation; None for a placeholder, which must be an argument."""
        if isinstance(op, PlaceholderOp):
            if op not in self.given:
                raise ValueError(f"placeholder {op.name} is used but is not among the arguments")
            return None
        if isinstance(op, ExternOp):
            return self._extern(op)
        return self._scan(op) if isinstance(op, ScanOp) else self._compute(op)

    def _block(self, op, name, iter_vars, values, update, init=None, regions=None, leaf=True, updates=False):
        """The realize of a block; its signature is that of its statements unless `regions` are given.

        leaf: whether the operation's attributes are the block's; updates: whether what it reads of its own output was
        there before."""
        reads, writes = regions or self.signature(seq(init, update))
        if regions is None and not updates:  # a reduction reads what it writes; a scan reads other rows
            reads = tuple(r for r in reads if not any(structural_equal(r, w) for w in writes))
        name = unique_name(name, self.block_names)
        self.blocks.setdefault(op, []).append(name)
        block = Block(iter_vars, reads, writes, name, (), (), self._annotations(op) if leaf else {}, init, update)
        return BlockRealize(tuple(values), const(True), block)

    def _annotations(self, op):
        """The attributes of an operation as those of its block: of tensors whose layout is free, the buffers, but for
        those that are arguments, which the function's attribute layout_free_buffers lists."""
        attrs = dict(op.attrs)
        free = attrs.pop(FREE, ())
        inner = tuple(self.declare(t) for t in free if t.op not in self.given)
        self.free += [self.declare(t) for t in free if t.op in self.given]
        return {**attrs, FREE: inner} if inner else attrs

    # ------------------------------------------------------------ compute

    def value(self, e):
        """A value that a compute stores."""
        return e

    def signature(self, body):
        """The (reads, writes) of a block."""
        return access_regions(body)

    def complete(self, iter_vars, loop_vars):
        """Add the iterators that a compute's block has besides those of its axes, and what they are bound to."""

    def _compute(self, op, scan=None, scan_var=None):
        """The nest of a compute; in a scan its first axis is the scan's, whose loop is around it already."""
        summed = isinstance(op.body[0], Reduce) and not any(is_const_int(iv.dom.extent, 0) for iv in op.reduce_axis)
        axes = op.axis + op.reduce_axis if summed else op.axis  # a sum of no terms is what it starts with
        if any(depth_of(axes).values()):
            return self._nested(op, axes, scan)
        loop_vars = [Var(iv.var.name, iv.var.dtype) for iv in axes]
        iter_vars = [IterVar(iv.dom, Var("v_" + iv.var.name, iv.var.dtype), iv.iter_type) for iv in axes]
        if scan is not None:
            loop_vars[0] = scan_var
            again = any(op is self.resolve(t, scan).op for t in scan.update)
            iter_vars[0] = iter_vars[0].replace(dom=scan.scan_axis.dom, iter_type="scan" if again else "spatial")
        rename = {iv.var: new.var for iv, new in zip(axes, iter_vars)}
        indices = tuple(iv.var for iv in iter_vars[:len(op.axis)])
        self.complete(iter_vars, loop_vars)
        outputs = [self.declare(op.output(i)) for i in range(op.num_outputs)]

        rewrite = self._rewriter(op, rename)
        values = [_start(part) if isinstance(part, Reduce) else part for part in op.body] if not summed else op.body
        if summed:
            init, update = _reduction(op, outputs, indices, rewrite, self.value)
            body = self._block(op, op.name, tuple(iter_vars), loop_vars, update, init)
        elif len(outputs) == 1 or self.joined(op):
            stores = seq(*(BufferStore(b, self.value(rewrite(value)), indices) for b, value in zip(outputs, values)))
            body = self._block(op, op.name, tuple(iter_vars), loop_vars, stores)
        else:
            body = seq(*(self._block(op, f"{op.name}.v{i}", *_fresh(iter_vars, loop_vars, BufferStore(
                b, self.value(rewrite(values[i])), indices))) for i, b in enumerate(outputs)))
        nest = list(zip(loop_vars, axes))[scan is not None:]
        for var, iv in reversed(nest):
            body = For(var, as_expr(iv.dom.min, var.dtype), iv.dom.extent, "serial", body)
        return body

    def _rewriter(self, op, rename):
        """A function that gives an operation's expression in terms of buffers and the variables of a block."""
        return lambda e: rewritten(e, rename, lambda t, at: BufferLoad(self.declare(self.resolve(t, op)), at))

    def _nested(self, op, axes, scan):
        """A reduction over domains that depend on other axes."""
        if scan is not None:
            raise ValueError(f"scan {scan.name}: a domain of {op.name} depends on another of its axes")
        outputs = [self.declare(op.output(i)) for i in range(op.num_outputs)]

        def statements(variables):
            indices = tuple(variables[iv.var] for iv in op.axis)
            return _reduction(op, outputs, indices, self._rewriter(op, variables), self.value)

        def block(level, body, init, leaf):
            reduces = any(iv.iter_type == "reduce" for iv in level.iter_vars)
            return self._block(op, op.name, level.iter_vars, level.values, body, init, None, leaf,
                               reduces and init is None)
        return nested_reduction(levels_of(axes), statements, block)

    # ------------------------------------------------------------ extern

    def _extern(self, op):
        ins = [self.declare(self.resolve(t, op)) for t in op.inputs]
        outs = [self.declare(op.output(i)) for i in range(op.num_outputs)]
        own = op.input_buffers + op.output_buffers
        body = _StandIns(own, ins + outs).visit(op.body)
        stored = {s.buffer for s in collect(op.body, BufferStore)}
        changed = [n for n, buffer in enumerate(op.input_buffers) if buffer in stored]
        for n in changed:
            self._require_no_other_reader(op, op.inputs[n])
        regions = tuple(tuple(map(full_region, group)) for group in (ins, [*outs, *(ins[n] for n in changed)]))
        return self._block(op, op.name, (), (), body, regions=regions)

    def _require_no_other_reader(self, op, tensor):
        """Require that nothing else reads an input that an extern changes: it would depend on which comes first."""
        key = self.resolve(tensor, op).key
        for other in self.all:
            if other is not op and any(self.resolve(t, other).key == key for t in other.input_tensors):
                raise ValueError(f"extern {op.name} changes its input {tensor.name}, which {other.name} reads, too: "
                                 "give it a copy, such as te.compute makes")

    # ------------------------------------------------------------ scan

    def _scans(self, order, arguments):
        """({tensor: buffer} of what a scan's state stands for, {operation: the scan whose loop it runs in})."""
        aliases, inside = {}, {}
        for scan in (op for op in order if isinstance(op, ScanOp)):
            init, update = ([self.resolve(t, scan) for t in ts] for ts in (scan.init, scan.update))
            for i, state in enumerate(scan.state):
                buffer = self.declare(scan.output(i))
                aliases[state.key] = aliases[update[i].key] = buffer
                if isinstance(init[i].op, ComputeOp) and init[i].key not in arguments:
                    aliases[init[i].key] = buffer  # its rows are those of the scan, written in place
            states = {s.op for s in scan.state}
            for op in order[:order.index(scan)]:
                reads = {self.resolve(t, op).op for t in op.input_tensors}
                if reads & (states | {o for o in inside if inside[o] is scan}) or any(op is t.op for t in update):
                    inside[op] = scan
                    self._require_in_step(scan, op, states, inside)
            self.given |= states
        self._require_no_way_out(order, inside, arguments)
        return aliases, inside

    def _require_in_step(self, scan, op, states, inside):
        """Require that each reader of a scan's state computes one row per iteration, from rows already written."""
        if not isinstance(op, ComputeOp) or not op.axis:
            raise ValueError(f"scan {scan.name}: {op.name} reads its state, which only a compute with the scan's time "
                             "as first axis may")
        analyzer, time = Analyzer(), op.axis[0].var
        analyzer.bind(time, scan.scan_axis.dom)

        def check(tensor, indices):
            source = self.resolve(tensor, op).op
            if source in states and not (analyzer.can_prove(indices[0] < time)
                                         and analyzer.can_prove(indices[0] >= 0)):
                raise ValueError(f"scan {scan.name}: {op.name} reads row {indices[0]} of its state, which is not "
                                 f"proved to be an earlier one than {time}")
            if inside.get(source) is scan and indices[0] is not time:
                raise ValueError(f"scan {scan.name}: {op.name} reads row {indices[0]} of {source.name}, of which only "
                                 f"row {time} is there")
            return ProducerLoad(tensor, indices)

        rewritten(op.body, None, check)

    def _require_no_way_out(self, order, inside, arguments):
        """Only the scan reads what is computed in its turns."""
        for op in order:
            for t in op.input_tensors:
                source = self.resolve(t, op).op
                if source in inside and inside[source] is not op and inside.get(op) is not inside[source]:
                    raise ValueError(f"{op.name} reads {source.name}, whose rows are computed in the turns of scan "
                                     f"{inside[source].name}; read the scan's result")
        for op, _ in arguments:
            if op in inside:
                raise ValueError(f"{op.name} is an argument, but its rows are computed in the turns of scan "
                                 f"{inside[op].name}; give the scan's result")

    def _scan(self, scan):
        axis, statements = scan.scan_axis, []
        for i, tensor in enumerate(scan.init):
            tensor = self.resolve(tensor, scan)
            if self.declare(tensor) is not self.declare(scan.output(i)):
                statements.append(self._copy_of_init(scan, tensor, self.declare(scan.output(i))))
        var = Var(axis.var.name, axis.var.dtype)
        steps = [self._compute(op, scan, var) for op in self.inside if self.inside[op] is scan]
        return seq(*statements, For(var, axis.dom.min, axis.dom.extent, "serial", seq(*steps)))

    def _copy_of_init(self, scan, tensor, target):
        variables = [Var(f"i{k}", e.dtype) for k, e in enumerate(tensor.shape)]
        iter_vars = tuple(IterVar(Range(const(0, e.dtype), e), Var(f"v_i{k}", e.dtype), "spatial")
                          for k, e in enumerate(tensor.shape))
        indices = tuple(iv.var for iv in iter_vars)
        body = self._block(scan, f"{scan.name}.init", iter_vars, variables,
                           BufferStore(target, BufferLoad(self.declare(tensor), indices), indices))
        for v, extent in reversed(list(zip(variables, tensor.shape))):
            body = For(v, const(0, v.dtype), extent, "serial", body)
        return body


class _OfScript(Lowering):
    """As TVM's, for scripts that compare it."""

    def value(self, e):
        analyzer = Analyzer()
        return _Spelled().visit(analyzer.rewrite_simplify(_Indices(analyzer).visit(e)))

    def signature(self, body):
        """Of elements whose places tensors hold, these places, not the whole tensors."""
        reads, writes = access_regions(body)
        points = {}
        for load in collect(body, BufferLoad):
            points.setdefault(load.buffer, []).append(load.indices)
        reads = tuple(BufferRegion(r.buffer, tuple(Range(i, const(1, i.dtype)) for i in points[r.buffer][0]))
                      if collect(points[r.buffer], BufferLoad) and all(
                          structural_equal(i, points[r.buffer][0]) for i in points[r.buffer]) else r for r in reads)
        return _Spelled().visit((reads, writes))

    def complete(self, iter_vars, loop_vars):
        if not iter_vars:
            iter_vars.append(IterVar(Range(const(0), const(1)), Var("vi", "int32"), "spatial"))
            loop_vars.append(const(0))


class _Indices(Mutator):
    """Indices of loads in normal form, which values are not brought into: it multiplies sums out."""

    def __init__(self, analyzer):
        self.analyzer = analyzer

    def visit_BufferLoad(self, load):
        load = self.generic_visit(load)
        return load.replace(indices=tuple(map(self.analyzer.simplify, load.indices)))

    def visit_Buffer(self, buffer):
        return buffer


class _Spelled(Mutator):
    """What TVM's simplifier leaves: x - 5, quotients before other terms of the same factor, x % (a * b) // a for
    x // a % b, and products with the inverse of a float."""

    def visit_Add(self, e):
        terms, rest = [], e
        while isinstance(rest, Add):
            terms.append(self.visit(rest.b))
            rest = rest.a
        terms.append(self.visit(rest))
        terms.reverse()
        if any(_quotient(t) > 1 for t in terms):
            terms.sort(key=lambda t: (-_factor(t), -_quotient(t)))
        terms.sort(key=lambda t: 2 * (_factor(t) < 0) + isinstance(t, IntImm))  # numbers behind what is added
        total = terms[0]
        for t in terms[1:]:
            total = total - _scaled(t, -1) if _factor(t) < 0 else total + t
        return total

    def visit_FloorMod(self, e):
        e = self.generic_visit(e)
        if not is_const_int(e.b) or not isinstance(e.a, FloorDiv) or not is_const_int(e.a.b):
            return e
        whole = e.a.b.value * e.b.value
        fits = min(e.a.b.value, e.b.value) > 0 and whole <= e.dtype.max_value()
        return FloorDiv(FloorMod(e.a.a, const(whole, e.dtype)), e.a.b) if fits else e

    def visit_Div(self, e):
        e = self.generic_visit(e)
        number = e.b.value if isinstance(e.b, FloatImm) else 0
        inverse = abs(number) > 1e-30 and number != 1 and abs(1 / number) <= e.dtype.finite_range()[1]
        return e.a * const(1 / number, e.dtype) if inverse else e

    def visit_Buffer(self, buffer):
        return buffer


def _factor(e):
    """The number that a term is multiplied by, where its negative is a number, too; of a number itself, up to 0."""
    number = e if isinstance(e, IntImm) else e.b if isinstance(e, Mul) and isinstance(e.b, IntImm) else None
    if number is None or -number.value > number.dtype.max_value():
        return 1
    return min(number.value, 0) if number is e else number.value


def _scaled(e, by):
    """A term, or a number, times a number."""
    if isinstance(e, IntImm):
        return const(e.value * by, e.dtype)
    return e.a if e.b.value * by == 1 else e.a * const(e.b.value * by, e.dtype)


def _quotient(e):
    """What a term is divided by."""
    e = e.a if isinstance(e, Mul) else e
    return e.b.value if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) else 1


def _fresh(iter_vars, values, stmt):
    """(iterators, bindings, statement) of another block over the same loops."""
    new = tuple(iv.replace(var=Var(iv.var.name, iv.var.dtype)) for iv in iter_vars)
    return new, values, substitute(stmt, {a.var: b.var for a, b in zip(iter_vars, new)})


class _StandIns(Mutator):
    """An extern's statement over the buffers of its tensors; variables of the stand-ins' layout become theirs."""

    def __init__(self, own, actual):
        self.buffers, self.vars = dict(zip(own, actual)), {}
        for a, b in zip(own, actual):
            self.vars[a.data] = b.data
            strides = (b.strides or row_major_strides(b.shape)) if a.strides else ()
            for x, y in zip((*a.strides, *a.shape, a.elem_offset), (*strides, *b.shape, b.elem_offset)):
                if isinstance(x, Var):
                    self.vars[x] = as_expr(y, x.dtype)

    def visit_Buffer(self, buffer):
        return self.buffers.get(buffer, buffer)

    def visit_Var(self, v):
        return self.vars.get(v, v)


def _start(part):
    """What one value of a reduction starts with."""
    return (part.init or part.combiner.identity)[part.value_index]


def _reduction(op, outputs, indices, rewrite, simplified):
    """(init, update) statements of a compute whose parts are the values of one reduction. What it combines is
    simplified; how is as the reducer says."""
    parts = op.body
    combiner, order = parts[0].combiner, [p.value_index for p in parts]
    if sorted(order) != list(range(len(combiner.lhs))):
        raise ValueError(f"compute {op.name}: its reduction has {len(combiner.lhs)} values, all must be outputs")

    def value(e):
        return simplified(rewrite(e))

    values = {}
    for buffer, n in zip(outputs, order):
        source = value(parts[0].source[n])
        if not is_const_int(parts[0].condition, 1):
            source = Call(source.dtype, "tir.if_then_else", (
                value(parts[0].condition), source, rewrite(combiner.identity[n])))
        values[combiner.lhs[n]], values[combiner.rhs[n]] = BufferLoad(buffer, indices), source
    init = seq(*(BufferStore(b, value(_start(p)), indices) for b, p in zip(outputs, parts)))
    results = [substitute(rewrite(combiner.result[n]), values) for n in order]
    if len(results) == 1:
        return init, BufferStore(outputs[0], results[0], indices)
    new = [Var(f"v_{b.name}", b.dtype) for b in outputs]  # each result needs the old values of all
    update = seq(*(BufferStore(b, v, indices) for b, v in zip(outputs, new)))
    for v, result in reversed(list(zip(new, results))):
        update = LetStmt(v, result, update)
    return init, update
