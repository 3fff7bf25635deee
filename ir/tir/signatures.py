"""Signatures of blocks that leave out what their bodies touch, completed, so that analyses may trust them."""
from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np

from ..arith import Analyzer
from ..expr import (Broadcast, IntImm, Not, PrimExpr, Ramp, Range, Select, Var, as_expr, const, is_const_int,
                    logical_and, substitute)
from ..node import Mutator, Visitor, collect, structural_equal
from ..upper import upper
from .buffer import decl_buffer
from .device_ops import ALLREDUCE, allreduce_parts
from .function import PrimFunc
from .interpreter import run
from .region import full_region, relax, union
from .stmt import BlockRealize, BufferLoad, BufferRegion, BufferStore, For

MOST_TRIED = 1 << 14  # instances of a block that are looked at one by one
KINDS = ("reads", "writes")


class SignatureWarning(UserWarning):
    """A block's T.reads or T.writes leaves something out."""


@dataclass(frozen=True)
class Omission:
    """What the signature of a block leaves out. kind: "reads" or "writes"; stated: what it says of the buffer, if so."""

    realize: BlockRealize
    kind: str
    region: BufferRegion
    stated: BufferRegion | None

    def __str__(self):
        words, block, stated = upper("script"), self.realize.block.name_hint, self.stated
        told = "leaves it out" if stated is None else f"says {words(stated)}"
        return f"block {block} {self.kind} {words(self.region)}, but its T.{self.kind} {told}: taken as if it said so"


def complete_signatures(func):
    """(the PrimFunc whose blocks list all that they touch, a tuple of Omissions of `func`); `func` itself where there
    are none.

    A load counts as listed where T.reads or T.writes cover it, a store where T.writes do. What is missing is joined to
    the region that is there. What a call does with a pointer is what T.reads and T.writes say of its buffer; it reads
    and writes all of that where they say nothing. The root block may list nothing. The program need not be well formed.
    """
    found = _Signatures(func)
    found.visit(func.body)
    if not found.omissions:
        return func, ()
    return func.replace(body=_Completed(found.signatures).visit(func.body)), tuple(found.omissions)


def completed(func, place=None, stated=None):
    """The PrimFunc whose blocks list all that they touch; each Omission is a SignatureWarning. place(omission): the
    file and line of its block, or None; stated(omission): whether somebody wrote that signature, so that it warns."""
    func, omissions = complete_signatures(func)
    for omission in omissions if stated is None else filter(stated, omissions):
        at = place and place(omission)
        if at:
            warnings.warn_explicit(str(omission), SignatureWarning, *at)
        else:
            warnings.warn(str(omission), SignatureWarning, stacklevel=3)
    return func


class _Completed(Mutator):
    def __init__(self, signatures):
        self.signatures = signatures  # id of a Block -> its reads and writes

    def visit_Block(self, block):
        signature = self.signatures.get(id(block))
        block = self.generic_visit(block)
        return block if signature is None else block.replace(**dict(zip(KINDS, signature)))

    def visit_BufferStore(self, store):
        return store


class _Frame:
    """The block that is visited. stated: its reads and writes; ranges, lets: of variables that its body defines."""

    def __init__(self, realize, exempt):
        block = realize.block
        self.realize, self.exempt, self.stated = realize, exempt, (block.reads, block.writes)
        self.own = set(map(id, block.alloc_buffers))
        self.matches = {id(m.buffer): m.source for m in block.match_buffers}
        self.ranges, self.lets, self.missing = {}, {}, ({}, {})
        self.seen = set()  # (expression, facts), each by id

    def listed(self, kind, buffer):
        """The regions of the buffer that the signature states; what is written may be loaded as well."""
        regions = self.stated[1] if kind else (*self.stated[0], *self.stated[1])
        return [r.region for r in regions if r.buffer is buffer]


class _Signatures(Visitor):
    def __init__(self, func):
        self.root = func.body
        self.frames, self.signatures, self.omissions = [], {}, []
        self.domains, self.facts = {}, []  # Var -> Range; conditions that hold here
        self.pointers = {b.data: b for b in func.buffer_map.values() if b.data is not None}
        self.keep = []  # facts, so that ids stay theirs
        self.analyzer = None

    def visit(self, value):
        """An expression that several others share, as inlining makes them, is visited once in a block under the same
        facts, and none outside of blocks."""
        if isinstance(value, PrimExpr):
            key = (id(value), *map(id, self.facts))
            if not self.frames or key in self.frames[-1].seen:
                return
            self.frames[-1].seen.add(key)
        super().visit(value)

    @contextmanager
    def where(self, condition):
        self.facts.append(condition)
        self.keep.append(condition)
        yield
        self.facts.pop()

    # ------------------------------------------------------------ what defines variables

    @contextmanager
    def ranged(self, domains, inside=()):
        """With these domains of variables; inside: where a frame says which of them run in its block."""
        self.domains.update(domains)
        self.analyzer = None
        for frame in inside:
            frame.ranges.update(domains)
        yield
        self.analyzer = None
        for var in domains:
            del self.domains[var]
            for frame in inside:
                del frame.ranges[var]

    def visit_For(self, loop):
        self.visit((loop.min, loop.extent))
        with self.ranged({loop.loop_var: Range(*self.meant((loop.min, loop.extent)))}, self.frames[-1:]):
            self.visit(loop.body)

    def visit_AttrStmt(self, s):
        self.visit(s.value)
        var = getattr(s.target, "var", None)
        if var is None:
            return self.visit(s.body)
        with self.ranged({var: Range(const(0, s.value.dtype), self.meant(s.value))}, self.frames[-1:]):  # of a thread
            return self.visit(s.body)

    def visit_LetStmt(self, let):
        self.visit(let.value)
        if self.frames:
            self.frames[-1].lets[let.var] = self.meant(let.value)
        self.visit(let.body)

    visit_Let = visit_LetStmt

    def visit_DeclBuffer(self, s):
        if s.buffer.data is not None and s.buffer.data not in self.pointers:
            self.pointers[s.buffer.data] = s.buffer
            if self.frames:
                self.frames[-1].own.add(id(s.buffer))
        self.visit(s.body)

    def meant(self, e):
        return substitute(e, self.frames[-1].lets) if self.frames else e

    # ------------------------------------------------------------ conditions

    def visit_IfThenElse(self, s):
        self.guarded(s.condition, s.then_case, s.else_case)

    def guarded(self, condition, then_case, else_case):
        self.visit(condition)
        known = self.meant(condition)
        for case, fact in ((then_case, known), (else_case, Not(known))):
            with self.where(fact):
                self.visit(case)

    # ------------------------------------------------------------ accesses

    def visit_BufferLoad(self, load):
        self.visit(load.indices)
        self.touched(0, load.buffer, self.box(load.indices))

    def visit_BufferStore(self, store):
        self.visit((store.value, store.indices))
        self.touched(1, store.buffer, self.box(store.indices))

    def visit_Call(self, call):
        if call.op == "tir.if_then_else":
            self.guarded(*call.args)
        elif call.op == "tir.address_of" and isinstance(call.args[0], BufferLoad):
            self.visit(call.args[0].indices)
            self.pointed(call.args[0].buffer)
        elif call.op == ALLREDUCE:
            values, elements = allreduce_parts(call)
            self.visit(values)
            for element in elements:
                if isinstance(element, BufferLoad):
                    self.touched(1, element.buffer, self.box(element.indices))
        else:
            self.generic_visit(call)

    def visit_Evaluate(self, s):
        if not isinstance(s.value, Var):  # a pointer that nobody follows
            self.visit(s.value)

    def visit_Var(self, v):
        if v in self.pointers:
            self.pointed(self.pointers[v])

    def visit_Buffer(self, _):
        pass

    def box(self, indices):
        return [_points(i) for i in self.meant(tuple(indices))]

    def pointed(self, buffer):
        """A call gets a pointer to a buffer."""
        frame = self.frames[-1] if self.frames else None
        if frame is None or id(buffer) in frame.own:
            return
        region = frame.matches.get(id(buffer)) or full_region(buffer)
        if not frame.listed(0, region.buffer):
            for kind in (0, 1):
                self.touched(kind, region.buffer, region.region)

    def touched(self, kind, buffer, box):
        """The innermost block loads (0) or stores (1) a box of a buffer."""
        frame = self.frames[-1] if self.frames else None
        if frame is None or frame.exempt or id(buffer) in frame.own or buffer.data in frame.lets:
            return
        whole = self.pointers.get(buffer.data, buffer)
        if whole is not buffer and not frame.listed(kind, buffer):  # a view of its memory
            return self.pointed(whole)
        source = frame.matches.get(id(buffer))
        if source is not None:
            buffer, box = source.buffer, source.region
            if id(buffer) in frame.own:
                return
        listed = frame.listed(kind, buffer)
        if len(box) != len(buffer.shape) or any(self._covers(r, box, buffer, frame) for r in listed):
            return
        known, an = frame.missing[kind].get(buffer), self._analyzer()
        for knowing in (Analyzer(), an):  # the first one is what signatures are made with
            cover = [relax(r, frame.ranges, extent, knowing) if _is_plain(r) else _whole(extent)
                     for r, extent in zip(box, buffer.shape)]
            if any(self._covers(r, cover, buffer, frame) for r in listed):
                return
        if known is not None:
            cover = [union(a, b, extent, an) for a, b, extent in zip(known, cover, buffer.shape)]
        frame.missing[kind][buffer] = cover

    def _covers(self, stated, box, buffer, frame):
        """Whether a stated region provably holds the part of a box that lies in the buffer."""
        if len(stated) != len(box):
            return False
        return all(_same(have, need) or self._holds(have, need if _is_plain(need) else _whole(extent), extent)
                   for have, need, extent in zip(stated, box, buffer.shape)) or self._tried(stated, box, frame)

    def _holds(self, have, need, extent):
        if _same(have, _whole(extent)):
            return True
        an, end, have_end = self._analyzer(), need.min + need.extent, have.min + have.extent
        at_most = an.can_prove_less_equal
        with an.constraint_scope(*self.facts):
            return (at_most(have.min, need.min) or at_most(have.min, 0)) and (
                at_most(end, have_end) or at_most(extent, have_end))

    def _tried(self, stated, box, frame):
        """Whether a region that annotate_buffer_access gave holds points, by trying each instance of the block."""
        block = frame.realize.block
        if not any(key in block.annotations for key in ("explicit_read_region", "explicit_write_region")):
            return False
        return all(_same(have, need) or need is not None and is_const_int(need.extent, 1) and always_inside(
            block.iter_vars, need.min, have) for have, need in zip(stated, box))

    def _analyzer(self):
        """What is known of the variables here."""
        if self.analyzer is None:
            self.analyzer = Analyzer()
            for var, domain in self.domains.items():
                self.analyzer.bind(var, domain, allow_override=True)
        return self.analyzer

    # ------------------------------------------------------------ blocks

    def visit_BlockRealize(self, realize):
        self.visit((realize.iter_values, realize.predicate))
        block = realize.block
        exempt = realize is self.root and not (block.reads or block.writes)
        self.pointers.update((b.data, b) for b in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers)))
        self.frames.append(_Frame(realize, exempt))
        with self.ranged({iv.var: iv.dom for iv in block.iter_vars}):
            self.visit((block.init, block.body))
            frame = self.frames.pop()
            signature = self._signature(frame)
        if not self.frames or self.frames[-1].exempt:
            return
        values = {iv.var: value for iv, value in zip(block.iter_vars, self.meant(realize.iter_values))}
        with self.where(self.meant(realize.predicate)):
            for kind, regions in enumerate(signature):
                for r in regions:
                    if id(r.buffer) not in frame.own:
                        self.touched(kind, r.buffer, self.meant(substitute(r.region, values)))

    def _signature(self, frame):
        """The reads and writes of the block of a frame with what was missing in it."""
        if not any(frame.missing):
            return frame.stated
        made, block = [], frame.realize.block
        for kind, stated, missing in zip(KINDS, frame.stated, frame.missing):
            regions = list(stated)
            for buffer, cover in missing.items():
                n = next((n for n, r in enumerate(regions) if r.buffer is buffer), None)
                region = BufferRegion(buffer, tuple(cover))
                self.omissions.append(Omission(frame.realize, kind, region, None if n is None else regions[n]))
                if n is None:
                    regions.append(region)
                else:
                    an = self._analyzer()
                    regions[n] = BufferRegion(buffer, tuple(
                        union(a, b, extent, an) for a, b, extent in zip(regions[n].region, cover, buffer.shape)))
            made.append(tuple(regions))
        self.signatures[id(block)] = made
        return made


def _points(index):
    """The Range of the elements that an index, a vector perhaps, chooses; None where it is not known."""
    if isinstance(index, Broadcast):
        index = index.value
    if isinstance(index, Ramp) and isinstance(index.lanes, int) and isinstance(index.stride, IntImm):
        span = (index.lanes - 1) * index.stride.value
        return Range(index.base if span >= 0 else index.base + span, const(abs(span) + 1, index.base.dtype))
    return Range(index, const(1, index.dtype)) if isinstance(index, PrimExpr) and index.dtype.lanes == 1 else None


def _is_plain(need):
    """Whether integer arithmetic may tell where a Range lies: data do not."""
    return need is not None and need.min.dtype in ("int32", "int64") and not collect(need, BufferLoad)


def _same(have, need):
    return need is not None and structural_equal(have, need)


def _whole(extent):
    extent = as_expr(extent)
    return Range(const(0, extent.dtype), extent)


def always_inside(iters, index, have):
    """Whether an index lies in a Range at each value of IterVars, by trying all of them if they are not too many; one
    that goes through floats with room for one more on both sides, since C may round otherwise."""
    used = set(collect((index, have.min, have.extent), Var))
    iters = [iv for iv in iters if iv.var in used]
    ends = [e for iv in iters for e in (iv.dom.min, iv.dom.extent)]
    if len(used) > len(iters) or collect((index, have), BufferLoad) or not all(isinstance(e, IntImm) for e in ends) or (
            prod(e.value for e in ends[1::2]) > MOST_TRIED):
        return False
    room = int(any(e.dtype.startswith("float") for e in collect(index, PrimExpr)))
    inside = logical_and(index - room >= have.min, index + room < have.min + have.extent)
    flag, zero = decl_buffer((1,), "int32", "flag"), const(0)
    body = BufferStore(flag, Select(inside, BufferLoad(flag, (zero,)), zero), (zero,))
    for iv in iters:
        body = For(iv.var, iv.dom.min, iv.dom.extent, "serial", body)
    handle = Var("flag", "handle")
    found = np.ones(1, "int32")
    run(PrimFunc((handle,), {handle: flag}, body), found)
    return bool(found[0])


__all__ = ["Omission", "SignatureWarning", "always_inside", "complete_signatures", "completed"]
