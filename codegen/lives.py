"""When the buffers of a program are alive, and how large they are at most: what the memory plan is made from.

Time is the numbers of a tree's leaves, its moments. A buffer is alive at a moment that a use may come before and a use
may follow, or the moment itself uses it: from its first use to its last along every path. So the branches of an If,
of which a run takes one, may share memory, and what a loop's body uses is alive through the whole loop.
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import accumulate

from ..ir.arith import Analyzer
from ..ir.expr import Add, FloorDiv, IntImm, Max, Min, Mul, Var, free_vars, substitute
from ..ir.node import structural_equal
from ..ir.script.relax_printer import RelaxPrinter
from .memory_plan import plan_memory
from .tree import If, Let, ProgramError, Seq, assigned, children, is_leaf, leaves, operands_of


def place_buffers(buffers, run, init=Seq(), budget=0, plan=None):
    """The MemoryPlan of Buffers whose lives a program's trees say: what init uses is alive in the whole run. Sizes that
    depend on variables of the run become upper bounds. budget: see plan_memory; plan: what places the Buffers, in place
    of it. Raises ProgramError without a bound."""
    found, bounds = lives(run), upper_bounds(run)
    always = {o.index for leaf in leaves(init) for o in operands_of(leaf) if o.kind == "arena"}
    whole = ((0, max(len(leaves(run)) - 1, 0)),)
    living = [replace(
        b, life=whole if i in always else found.get(i, ((0, 0),)), bytes=upper_bound(b.bytes, bounds),
        part=b.part if b.part is None else upper_bound(b.part, bounds)) for i, b in enumerate(buffers)]
    return plan(living) if plan else plan_memory(living, budget)


# ---------------------------------------------------------------- lives

def lives(tree):
    """{buffer number: ((first, last) moments, ...)}, both included, in order, of all buffers that a tree uses."""
    uses = {}
    for moment, leaf in enumerate(leaves(tree)):
        for o in operands_of(leaf):
            if o.kind == "arena":
                uses.setdefault(o.index, []).append(moment)
    find = _Lives().find
    return {i: _merged(find(tree, 0, moments, False, False)) for i, moments in uses.items()}


class _Lives:
    """Finds lives in one tree, whose leaves it counts once."""

    def __init__(self):
        self.known = {}  # id(node) -> its leaves up to the start of each child, and up to its end

    def count(self, node):
        return 1 if is_leaf(node) else self.starts(node)[-1]

    def starts(self, node):
        if id(node) not in self.known:
            self.known[id(node)] = tuple(accumulate(map(self.count, children(node)), initial=0))
        return self.known[id(node)]

    def find(self, node, begin, uses, before, after):
        """[(first, last)] of what is used at moments `uses` of a node that begins at `begin`, and may be used before or
        after the node, too."""
        if before and after or uses and not isinstance(node, (If, Seq)):
            return [(begin, begin + self.count(node) - 1)]
        if not uses:
            return []
        inner, starts = children(node), self.starts(node)
        if isinstance(node, If):  # of its branches a run takes one
            at = bisect_left(uses, begin + starts[1])
            return (self.find(inner[0], begin, uses[:at], before, after)
                    + self.find(inner[1], begin + starts[1], uses[at:], before, after))
        i, j = (bisect_right(starts, use - begin) - 1 for use in (uses[0], uses[-1]))
        first, last, end = begin + starts[i], begin + starts[j], begin + starts[-1]
        found = [(begin, first - 1)] if before else []
        if i == j:
            found += self.find(inner[i], first, uses, before, after)
        else:
            behind = begin + starts[i + 1]
            found += self.find(inner[i], first, uses[:bisect_left(uses, behind)], before, True)
            found.append((behind, last - 1))
            found += self.find(inner[j], last, uses[bisect_left(uses, last):], True, after)
        return found + ([(begin + starts[j + 1], end - 1)] if after else [])


def _merged(intervals):
    """Intervals in order, those that follow one another without a gap as one."""
    found = []
    for first, last in intervals:
        if first > last:
            continue
        if found and found[-1][1] + 1 == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return tuple(found)


# ---------------------------------------------------------------- bounds

def upper_bounds(tree):
    """{variable that a tree sets: its upper bound, an expression of what the caller passes, or None}. Several Lets of
    one variable must agree on it."""
    found = {}
    for var, nodes in assigned(tree).items():
        bounds = [n.most if isinstance(n, Let) else _last(n, found) for n in nodes]
        agree = None not in bounds and all(structural_equal(b, bounds[0]) for b in bounds)
        found[var] = bounds[0] if agree else None
    return found


def _last(loop, bounds):
    """The largest value of a loop's variable, or None."""
    try:
        return upper_bound(loop.extent, bounds) - 1
    except ProgramError:
        return None


def upper_bound(size, bounds):
    """A size as an expression of what the caller passes that is never less: variables of the run at their `bounds`.
    Raises ProgramError for one without, or a size that might shrink while they grow."""
    inside = [v for v in free_vars(size) if v in bounds]
    for v in inside:
        if bounds[v] is None:
            raise ProgramError(f"the size {RelaxPrinter().expr(size)} depends on {v.name}, which has no upper bound: "
                               "give all its Lets one")
    if inside and not _grows(size):
        raise ProgramError(f"the size {RelaxPrinter().expr(size)} is not known to grow with "
                           f"{', '.join(v.name for v in inside)}: write it with +, *, min, max, and // by a constant")
    return Analyzer().simplify(substitute(size, {v: bounds[v] for v in inside})) if inside else size


def _grows(e):
    """Whether an expression of variables that are not negative is never less where one of them is more."""
    if isinstance(e, (Add, Mul, Min, Max)):
        return _grows(e.a) and _grows(e.b)
    if isinstance(e, FloorDiv):
        return _grows(e.a) and isinstance(e.b, IntImm) and e.b.value > 0
    return isinstance(e, Var) or isinstance(e, IntImm) and e.value >= 0
