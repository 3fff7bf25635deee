"""create_prim_func: tensor expressions -> a PrimFunc of loops and blocks, one block per compute, as TVM does."""
from __future__ import annotations

from ..expr import Call, IterVar, Var, as_expr, const, is_const_int, substitute
from ..node import Mutator
from ..tir.buffer import decl_buffer
from ..tir.function import prim_func
from ..tir.region import access_regions
from ..tir.stmt import Block, BlockRealize, BufferLoad, BufferStore, For, LetStmt, seq
from .tensor import ComputeOp, PlaceholderOp, Reduce, Tensor


def create_prim_func(args, attrs=None):
    """The PrimFunc whose buffers are `args` (te.Tensors, inputs and outputs; scalar Vars pass through).

    Computes run in dependence order; those not among args get buffers of the root block. Block names are the
    computes' names, made unique. Raises ValueError for a tensor that is neither argument nor computed, and for a
    reduction of several values of which not all are outputs.
    """
    state = _State()
    params = [a if isinstance(a, Var) else state.declare(a) for a in args]
    given = {id(a.op) for a in args if isinstance(a, Tensor) and isinstance(a.op, PlaceholderOp)}
    body, allocs = [], []
    is_param = {id(p) for p in params}
    for op in _sorted_ops([a for a in args if isinstance(a, Tensor)]):
        if isinstance(op, PlaceholderOp):
            if id(op) not in given:
                raise ValueError(f"placeholder {op.name} is used but is not among the arguments")
            continue
        outputs = [state.declare(Tensor(op, i)) for i in range(len(op.body))]
        allocs.extend(b for b in outputs if id(b) not in is_param)
        body.append(_block_of(op, outputs, state))
    return prim_func(params, seq(*body), attrs, allocs)


class _State:
    def __init__(self):
        self.buffers, self.buffer_names, self.block_names = {}, set(), {"root"}

    def declare(self, tensor):
        key = (id(tensor.op), tensor.value_index)
        if key not in self.buffers:
            several = isinstance(tensor.op, ComputeOp) and len(tensor.op.body) > 1
            name = f"{tensor.name}_v{tensor.value_index}" if several else tensor.name
            self.buffers[key] = decl_buffer(tensor.shape, tensor.dtype, unique_name(name, self.buffer_names))
        return self.buffers[key]


def _sorted_ops(tensors):
    order, seen = [], set()

    def visit(op):
        if id(op) in seen:
            return
        seen.add(id(op))
        if isinstance(op, ComputeOp):
            for load in _loads(op.body):
                visit(load.producer.op)
        order.append(op)

    for t in tensors:
        visit(t.op)
    return order


def _loads(body):
    """ProducerLoads of a body in order of appearance, without descending into the tensors they name."""
    found = []

    class Find(Mutator):
        def visit_ProducerLoad(self, load):
            for i in load.indices:
                self.visit(i)
            found.append(load)
            return load

    Find().visit(tuple(body))
    return found


def _block_of(op, outputs, state):
    axes = op.axis + op.reduce_axis
    loop_vars = [Var(iv.var.name, iv.var.dtype) for iv in axes]
    iter_vars = tuple(IterVar(iv.dom, Var("v_" + iv.var.name, iv.var.dtype), iv.iter_type) for iv in axes)
    rename = {iv.var: new.var for iv, new in zip(axes, iter_vars)}
    indices = tuple(iv.var for iv in iter_vars[:len(op.axis)])

    class ToBuffers(Mutator):
        def visit_Var(self, v):
            return rename.get(v, v)

        def visit_ProducerLoad(self, load):
            return BufferLoad(state.declare(load.producer), self.visit(load.indices))

    rewrite = ToBuffers().visit
    if isinstance(op.body[0], Reduce):
        init, update = _reduction(op, outputs, indices, rewrite)
    else:
        init, update = None, seq(*(BufferStore(b, rewrite(e), indices) for b, e in zip(outputs, op.body)))
    reads, writes = access_regions(update)
    written = {id(w.buffer) for w in writes}
    reads = tuple(r for r in reads if id(r.buffer) not in written)
    name = unique_name(op.name, state.block_names)
    block = Block(iter_vars, reads, writes, name, (), (), dict(op.attrs), init, update)
    body = BlockRealize(tuple(loop_vars), const(True), block)
    for var, iv in reversed(list(zip(loop_vars, axes))):
        body = For(var, as_expr(iv.dom.min, var.dtype), iv.dom.extent, "serial", body)
    return body


def unique_name(hint, taken):
    """`hint`, or hint_1, hint_2 ... when taken; the result is added to `taken`."""
    name, n = hint, 0
    while name in taken:
        n += 1
        name = f"{hint}_{n}"
    taken.add(name)
    return name


def _reduction(op, outputs, indices, rewrite):
    """(init, update) statements of a compute whose parts are the values of one reduction."""
    parts = op.body
    combiner, order = parts[0].combiner, [p.value_index for p in parts]
    if sorted(order) != list(range(len(combiner.lhs))):
        raise ValueError(f"compute {op.name}: its reduction has {len(combiner.lhs)} values, all must be outputs")
    values = {}
    for buffer, n in zip(outputs, order):
        source, identity = rewrite(parts[0].source[n]), combiner.identity[n]
        if not is_const_int(parts[0].condition, 1):
            source = Call(source.dtype, "tir.if_then_else", (rewrite(parts[0].condition), source, identity))
        values[combiner.lhs[n]], values[combiner.rhs[n]] = BufferLoad(buffer, indices), source
    init = seq(*(BufferStore(b, combiner.identity[n], indices) for b, n in zip(outputs, order)))
    results = [substitute(combiner.result[n], values) for n in order]
    if len(results) == 1:
        return init, BufferStore(outputs[0], results[0], indices)
    new = [Var(f"new_{b.name}", b.dtype) for b in outputs]  # each result needs the old values of all
    update = seq(*(BufferStore(b, v, indices) for b, v in zip(outputs, new)))
    for v, result in reversed(list(zip(new, results))):
        update = LetStmt(v, result, update)
    return init, update
