"""The tree of a program: what a run does, step by step, on hosts and devices. Nodes are data; tables say what each has.

Each function of a program, its init and its run, is a tree. The leaves are moments, numbered in the order of the text:
lives of buffers are intervals of these numbers (lives.py). verify_program.py says what a tree must not be, regions.py
gives calls to threads, program_text.py prints trees for readers, c_program.py prints them as C.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.expr import PrimExpr, Var, const


class ProgramError(ValueError):
    """A program that means nothing; the message names the node and what is wrong."""


@dataclass(frozen=True)
class Operand:
    """An argument of a kernel call: kind "input", "output", "weight" or "arena" with its number there, and a name;
    or "scratch" with its place, in bytes, in memory that each thread has for itself. offset: elements from there to the
    argument's first, an expression."""

    kind: str
    index: int
    name: str = ""
    offset: PrimExpr = const(0, "int64")


@dataclass(frozen=True)
class Call:
    """Call a kernel. kernel: a function name of the module; dims: arguments that follow the operands; comment: what it
    computes, for the reader; border: whether it writes constants around another tensor, and nothing else; reads: how
    many of the operands, the first, it reads, the others it writes; hook: whether the profile hook is called before."""

    kernel: str
    operands: tuple
    dims: tuple = ()
    comment: str = ""
    border: bool = False
    reads: int = 0
    hook: bool = True


@dataclass(frozen=True)
class Launch:
    """Start a kernel on a device, in whose `memory` the operands lie. grid, block: up to three extents, of the blocks
    and of the threads in each; shared: bytes of shared memory that a block has. The others are those of a Call."""

    kernel: str
    grid: tuple
    block: tuple
    shared: PrimExpr
    operands: tuple
    memory: str
    dims: tuple = ()
    comment: str = ""
    reads: int = 0
    hook: bool = True


@dataclass(frozen=True)
class Copy:
    """Copy `bytes` from one operand to another, in whichever memories they lie."""

    src: Operand
    dst: Operand
    bytes: PrimExpr


@dataclass(frozen=True)
class Read:
    """The first element of an operand, an integer or bool: the value of a Let that depends on data."""

    operand: Operand


@dataclass(frozen=True)
class Let:
    """Set `dim`, a variable of the run, to an expression or to what a tensor holds (Read).

    most: an upper bound in the dimensions that the caller passes; a run fails unless 0 <= dim <= most. Buffers and
    outputs whose shapes depend on dim take the space that they need at the bound."""

    dim: Var
    value: PrimExpr | Read
    most: PrimExpr | None = None


@dataclass(frozen=True)
class Check:
    """A run fails unless an expression of its variables holds."""

    cond: PrimExpr


@dataclass(frozen=True)
class Wait:
    """Wait until all weights are there that Copies of a run began to read."""


@dataclass(frozen=True)
class Seq:
    """Nodes in order. threads: who runs them. "": the thread that comes there; "region": a team of threads, in which
    each Seq inside is run by all of the "team", by a "single" thread that the others wait for, or by the "first" while
    the others go on."""

    items: tuple = ()
    threads: str = ""


@dataclass(frozen=True)
class If:
    cond: PrimExpr
    then: Seq
    otherwise: Seq = Seq()


@dataclass(frozen=True)
class While:
    cond: PrimExpr
    body: Seq


@dataclass(frozen=True)
class For:
    """Run the body for var = 0, 1 ... extent - 1."""

    var: Var
    extent: PrimExpr
    body: Seq


# node class -> the fields that are trees, in the order of the text. A node of any other class is a leaf.
BODIES = {If: ("then", "otherwise"), While: ("body",), For: ("body",)}
# node class -> the expressions that it computes; what a Let reads and the offsets of operands are beside them.
EXPRESSIONS = {
    Call: lambda n: n.dims, Launch: lambda n: (*n.grid, *n.block, n.shared, *n.dims), Copy: lambda n: (n.bytes,),
    Let: lambda n: () if isinstance(n.value, Read) else (n.value,), Check: lambda n: (n.cond,), Wait: lambda n: (),
    If: lambda n: (n.cond,), While: lambda n: (n.cond,), For: lambda n: (n.extent,), Seq: lambda n: (),
}
# node class -> (operands that it reads, operands that it writes)
OPERANDS = {
    Call: lambda n: (n.operands[:n.reads], n.operands[n.reads:]),
    Launch: lambda n: (n.operands[:n.reads], n.operands[n.reads:]), Copy: lambda n: ((n.src,), (n.dst,)),
    Let: lambda n: ((n.value.operand,), ()) if isinstance(n.value, Read) else ((), ()), Check: lambda n: ((), ()),
    Wait: lambda n: ((), ()),
}


def children(node):
    """The trees inside of a node, in the order of the text."""
    return node.items if isinstance(node, Seq) else tuple(getattr(node, f) for f in BODIES.get(type(node), ()))


def walk(node):
    """Every node of a tree, each before those inside of it."""
    yield node
    for child in children(node):
        yield from walk(child)


def is_leaf(node):
    return type(node) in OPERANDS


def leaves(tree):
    """The leaves of a tree; leaf number n is moment n."""
    return [n for n in walk(tree) if is_leaf(n)]


def operands_of(leaf):
    """All operands of a leaf, those that it reads first."""
    read, written = OPERANDS[type(leaf)](leaf)
    return (*read, *written)


def calls_of(tree):
    """The calls and launches of a tree, in the order of the text."""
    return tuple(n for n in walk(tree) if isinstance(n, (Call, Launch)))


def map_children(function, node):
    """A node with `function` of each tree inside."""
    if isinstance(node, Seq):
        return replace(node, items=tuple(map(function, node.items)))
    return replace(node, **{f: function(getattr(node, f)) for f in BODIES[type(node)]}) if not is_leaf(node) else node


def assigned(tree):
    """{variable that a tree sets: the Lets and Fors that set it}, in the order of the text."""
    found = {}
    for n in walk(tree):
        if isinstance(n, (Let, For)):
            found.setdefault(n.dim if isinstance(n, Let) else n.var, []).append(n)
    return found
