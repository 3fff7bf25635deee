"""Verify a program: every use is defined, memories agree, and regions hold calls."""
from __future__ import annotations

from ..ir.dtype import DataType
from ..ir.expr import IntImm, const, free_vars
from ..ir.node import structural_equal
from .lives import upper_bound, upper_bounds
from .memory_plan import HOST, scope_of
from .tree import (EXPRESSIONS, OPERANDS, Call, Check, Copy, For, If, Launch, Let, ProgramError, Read, Seq, Wait, While,
                   assigned, calls_of, children, is_leaf, operands_of, walk)

# Operand kinds that nothing writes.
GIVEN = ("input", "weight")
# leaf class -> the memory that all its operands must lie in, or None
MEMORIES = {Call: lambda n: HOST, Launch: lambda n: n.memory, Copy: lambda n: None, Let: lambda n: HOST,
            Check: lambda n: HOST, Wait: lambda n: HOST}


def verify(program):
    """Raise ProgramError unless a program's trees have a meaning: each dimension is set before it is used, operands are
    there and lie in the memory of who uses them, what is given is not written, and what is read as a dimension is an
    integer. Upper bounds of sizes and lives are the memory plan's (lives.py)."""
    for tree in (program.init, program.run):
        for node in walk(tree):
            _verify_threads(node)
            if is_leaf(node):
                _verify_operands(program, node)
    _verify_init(program)
    _verify_bounds(program)
    _verify_copies(program)
    known = _verify_dims(program.run, {*program.dims})
    for t in program.outputs:
        _verify_known(free_vars(list(t.dims)), known, f"the shape of output {t.source_name}")


def dtype_of(program, operand):
    """The element type of an operand, None where it has none (scratch)."""
    kind, index = operand.kind, operand.index
    if kind in ("input", "output"):
        return (program.inputs if kind == "input" else program.outputs)[index].dtype
    if kind == "weight":
        return program.weights[index].data.dtype.name
    return program.buffer_dtypes[index] if kind == "arena" else None


def describe(node):
    """A node in a few words, for messages."""
    names = {Let: lambda n: n.dim.name, For: lambda n: n.var.name, Call: lambda n: n.kernel, Launch: lambda n: n.kernel}
    return " ".join([type(node).__name__, *([names[type(node)](node)] if type(node) in names else [])])


def _verify_operands(program, leaf):
    counts = {"input": len(program.inputs), "output": len(program.outputs), "weight": len(program.weights),
              "arena": len(program.plan.buffers)}
    memory = MEMORIES[type(leaf)](leaf)
    for o in operands_of(leaf):
        if o.kind != "scratch" and not 0 <= o.index < counts.get(o.kind, 0):
            raise ProgramError(f"{describe(leaf)} uses {o.kind} {o.index}, of which there are {counts.get(o.kind, 0)}")
        own = scope_of(program.plan.buffers[o.index].memory) if o.kind == "arena" else HOST
        if memory not in (None, own):
            raise ProgramError(f"{describe(leaf)} works in {memory} memory, but {o.kind} {o.name or o.index} lies in "
                               f"{own} memory: copy it")
    written = [o for o in OPERANDS[type(leaf)](leaf)[1] if o.kind in GIVEN and not (
        o.kind == "input" and program.inputs[o.index].updated)]
    if written and not isinstance(leaf, Launch):
        raise ProgramError(f"{describe(leaf)} writes {written[0].kind} {written[0].name or written[0].index}")
    if isinstance(leaf, Copy) and (leaf.src.kind, leaf.src.index) == (leaf.dst.kind, leaf.dst.index):
        raise ProgramError(f"Copy of {leaf.src.kind} {leaf.src.name or leaf.src.index} to itself")
    if isinstance(leaf, Let) and isinstance(leaf.value, Read):
        dtype = str(dtype_of(program, leaf.value.operand))
        if not dtype.startswith(("int", "uint", "bool")):
            name = leaf.value.operand.name or "a tensor"
            raise ProgramError(f"{describe(leaf)} reads {name} of {dtype}, not an integer")


def _verify_copies(program):
    """No copy reads or writes beyond an operand, as far as sizes are constants or have constant bounds."""
    bounds = upper_bounds(program.run)
    for copy in (n for tree in (program.init, program.run) for n in walk(tree) if isinstance(n, Copy)):
        for o in (copy.src, copy.dst):
            dtype = dtype_of(program, o)
            if dtype is None:
                raise ProgramError("a Copy of scratch, which has no size of its own")
            end = upper_bound(copy.bytes + o.offset * DataType(dtype).bytes, bounds)
            size = upper_bound(_bytes_of(program, o), bounds)
            if isinstance(end, IntImm) and isinstance(size, IntImm) and end.value > size.value:
                raise ProgramError(f"Copy up to byte {end.value} of {o.kind} {o.name or o.index}, which has "
                                   f"{size.value}")


def _bytes_of(program, o):
    """Bytes of the tensor that an operand lies in, an expression."""
    if o.kind == "arena":
        return program.plan.buffers[o.index].bytes
    if o.kind == "weight":
        return const(program.weights[o.index].data.nbytes, "int64")
    t = (program.inputs if o.kind == "input" else program.outputs)[o.index]
    size = const(t.dtype.bytes, "int64")
    for extent in t.dims:
        size = size * extent
    return size


def _verify_threads(node):
    if not isinstance(node, Seq) or not node.threads:
        return
    expected = Seq if node.threads == "region" else Call
    if not node.items or any(type(n) is not expected or expected is Seq and n.threads not in ("team", "single", "first")
                             for n in node.items):
        raise ProgramError(f"a {node.threads} of threads holds something else than "
                           f"{'who makes calls' if expected is Seq else 'calls'}")


def _verify_init(program):
    if any(not isinstance(n, (Call, Launch, Copy, Seq)) for n in walk(program.init)):
        raise ProgramError("init has steps that are neither calls nor copies")
    if program.dims and calls_of(program.init):
        raise ProgramError("init has calls, but only a run knows where tensors of symbolic sizes lie")
    for leaf in (n for n in walk(program.init) if is_leaf(n)):
        for o in operands_of(leaf):
            if o.kind not in ("arena", "weight"):
                raise ProgramError(f"{describe(leaf)} uses {o.kind} {o.name or o.index}, which init does not have")


def _verify_bounds(program):
    """A bound is in what the caller passes, and all Lets of a variable have the same: C checks each."""
    for var, nodes in assigned(program.run).items():
        if len({type(n) for n in nodes}) > 1:
            raise ProgramError(f"{var.name} is set by a Let and a For")
        bounds = [n.most for n in nodes if isinstance(n, Let)]
        stated = [b for b in bounds if b is not None]
        if stated and not (len(stated) == len(bounds) and all(structural_equal(b, stated[0]) for b in stated)):
            raise ProgramError(f"the Lets of {var.name} have different upper bounds")
        _verify_known(free_vars(stated), {*program.dims}, f"the upper bound of {var.name}")


def _verify_dims(node, known):
    """The variables that are set after a node, before which `known` are. Raises ProgramError for a use before."""
    used = [*EXPRESSIONS[type(node)](node), *(o.offset for o in (operands_of(node) if is_leaf(node) else ()))]
    _verify_known(free_vars(used), known, describe(node))
    if isinstance(node, Let):
        return known | {node.dim}
    if isinstance(node, If):
        return _verify_dims(node.then, known) & _verify_dims(node.otherwise, known)
    if isinstance(node, (While, For)):
        _verify_dims(node.body, known | ({node.var} if isinstance(node, For) else set()))
        return known
    for child in children(node):
        known = _verify_dims(child, known)
    return known


def _verify_known(used, known, what):
    missing = [v.name for v in used if v not in known]
    if missing:
        raise ProgramError(f"{what} uses {missing[0]}, which is not set before")
