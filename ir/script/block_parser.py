"""Blocks of a script: what a block gathers while its suite is read, and the Block made of it."""
from __future__ import annotations

from dataclasses import dataclass, field

from ..expr import Call, IterVar, PrimExpr, Range, Var, cast, const
from ..module import GlobalVar
from ..node import collect, structural_equal
from ..tir.buffer import Buffer
from ..tir.function import PrimFunc
from ..tir.region import access_regions, full_region
from ..tir.stmt import (AttrStmt, Block, BlockRealize, BufferLoad, BufferRegion, DeclBuffer, Evaluate,
                        MatchBufferRegion, SeqStmt, Stmt)
from . import specs as S
from .evaluator import REFUSALS, Evaluator, describe, make_range, point
from .namespaces import number_like

ITER_KINDS = {"S": "spatial", "R": "reduce"}


@dataclass
class Frame:
    """The state of a block, or of a function's root block, while it is parsed."""

    name: str | None = None  # None: the function
    iter_vars: list = field(default_factory=list)
    iter_values: list = field(default_factory=list)
    reads: tuple = None
    writes: tuple = None
    predicate: PrimExpr = None
    attrs: dict | None = None
    allocs: list = field(default_factory=list)
    matches: list = field(default_factory=list)
    init: Stmt = None


@dataclass(frozen=True)
class Scoped:
    """A statement over the rest of its suite: build(rest) makes it."""

    build: object


def joined(statements):
    """One statement of several; a suite without any is a no-op."""
    if not statements:
        return Evaluate(const(0))
    return statements[0] if len(statements) == 1 else SeqStmt(tuple(statements))


class BlockParser(Evaluator):
    """The part of TIRParser that parses blocks.

    frames: the function's and those of the enclosing blocks, innermost last. loops: id of a loop variable ->
    (the variable, its Range). threads: id of what T.env_thread made -> (the variable, its tag).
    """

    def __init__(self, source, env, trusted=False):
        super().__init__(source, env, trusted)
        self.frames, self.loops, self.threads = [], {}, {}
        self.params, self.buffer_map, self.attrs = [], {}, {}
        self.detected = {}  # id of a Block -> (the Block, which of its reads and writes the script leaves to be found)
        self.function_of = None  # in a module: name -> what is known of its function

    def call(self, node, function, args, kwargs):
        for value in args:
            if isinstance(value, S.Spec) and not isinstance(value, S.Meta):
                self.operand(value, node)  # which refuses it
        if isinstance(function, GlobalVar):
            return self._call_function(node, function, args)
        return super().call(node, function, args, kwargs)

    def _call_function(self, node, function, args):
        """The call of a prim_func of the module, which returns what its `-> T.int32` or its T.ret says."""
        found = self.function_of(function.name) if self.function_of else None
        return Call(found.ret_type if isinstance(found, PrimFunc) else "void", function,
                    tuple(self.as_scalar(a, node) for a in args))

    # ------------------------------------------------------------ the block's description

    def _block_frame(self, node, what):
        frame = self.frames[-1] if self.frames else None
        if frame is None or frame.name is None:
            self.fail(node, f"{what} outside a block: it describes the block it stands in, below `with T.block(...):`")
        return frame

    def _attrs(self, node, spec):
        if spec.owner == "function":
            if len(self.frames) > 1:
                self.fail(node, "T.func_attr inside a block: it stands at the top of the function")
            self.attrs.update(spec.attrs)
        else:
            frame = self._block_frame(node, "T.block_attr")
            if frame.attrs is not None:
                self.fail(node, "T.block_attr is given twice in one block: join its dicts")
            frame.attrs = dict(spec.attrs)

    def _signature(self, node, spec):
        frame = self._block_frame(node, f"T.{spec.field}")
        frame_regions = tuple(self.region(r, node) for r in spec.regions)
        if getattr(frame, spec.field) is not None:
            self.fail(node, f"T.{spec.field} is given twice in one block")
        setattr(frame, spec.field, frame_regions)

    def region(self, value, node):
        """A BufferRegion of what stands in T.reads, T.writes or T.match_buffer."""
        if isinstance(value, BufferRegion):
            return value
        if isinstance(value, BufferLoad):
            return BufferRegion(value.buffer, tuple(point(i) for i in value.indices))
        if isinstance(value, Buffer):
            return full_region(value)
        return self.fail(node, f"expected a region of a buffer such as A[i, 0:8], not {describe(value)}")

    def _where(self, node, spec):
        frame = self._block_frame(node, "T.where")
        if frame.predicate is not None:
            self.fail(node, "T.where is given twice in one block: join the conditions with `and`")
        frame.predicate = self.condition(spec.predicate, node)

    # ------------------------------------------------------------ iterators

    def _axis(self, node, name, spec):
        frame = self._block_frame(node, f"T.axis.{spec.iter_type}")
        value = spec.value
        if isinstance(value, (PrimExpr, IterVar)):
            value = self.as_scalar(value, node)
        dom = spec.dom if isinstance(spec.dom, (tuple, list)) else (0, spec.dom)
        if isinstance(spec.dom, (tuple, list)) and len(dom) != 2:
            self.fail(node, "the domain of an iterator is its extent, or (begin, end)")
        dtype = value.dtype if isinstance(value, PrimExpr) else None
        dom = [number_like(e, dtype) if dtype and isinstance(e, int) else e for e in dom]
        dom = spec.dom if isinstance(spec.dom, Range) else make_range(self, node, *dom)
        if dom.extent.dtype.is_float:
            self.fail(node, f"an iterator counts, over integers: its domain is {dom.extent.dtype}")
        iv = IterVar(dom, Var(name, dom.extent.dtype), spec.iter_type)
        frame.iter_vars.append(iv)
        if value is not None:
            frame.iter_values.append(self.as_scalar(value, node, dom.extent.dtype))
        self.define(name, iv.var)

    def _remap_one(self, node, name, spec):
        found = self._remap(node, spec)
        return self._axis(node, name, found[0]) if len(found) == 1 else self._several(node, name, found)

    def _remap(self, node, spec):
        """The AxisSpecs of T.axis.remap: each iterator runs over the whole of its loop."""
        if len(spec.kinds) != len(spec.values) or set(spec.kinds) - set(ITER_KINDS):
            self.fail(node, f'T.axis.remap takes one letter, S or R, per loop: "{spec.kinds}" for '
                            f"{len(spec.values)} loops")
        found = []
        for kind, value in zip(spec.kinds, spec.values):
            loop = self.loops.get(id(value))
            if loop is None:
                self.fail(node, "T.axis.remap takes loop variables; bind expressions with T.axis.spatial or "
                                "T.axis.reduce")
            found.append(S.AxisSpec(ITER_KINDS[kind], loop[1], value))
        return found

    # ------------------------------------------------------------ buffers

    def _make_buffer(self, spec, name, node):
        try:
            return spec.make(name, lambda e: self.as_scalar(e, node))
        except REFUSALS as error:
            return self.blame(node, error)

    def _buffer(self, node, name, spec):
        """Name a buffer. One over the data of another (T.decl_buffer or T.Buffer with data=) is a view of it, and the
        other itself when it says nothing new: T.allocate makes a buffer already."""
        buffer = self._make_buffer(spec, name, node)
        if isinstance(spec.data, Buffer) and structural_equal(spec.data, buffer.replace(name=spec.data.name), True):
            buffer = spec.data
        self.define(name, buffer)
        if spec.how == "alloc":
            self.frames[-1].allocs.append(buffer)
        elif spec.how == "match":
            self._match(node, spec.source, buffer)
        elif spec.how == "allocate" or (spec.how == "decl" and spec.data is None):
            return Scoped(lambda rest: DeclBuffer(buffer, rest))
        return None

    # ------------------------------------------------------------ threads

    def _env_thread(self, node, name, spec):
        var = Var(name, "int32")
        self.threads[id(var)] = (var, spec.tag)
        self.define(name, var)

    def _launch(self, node, name, spec):
        """name = T.launch_thread(tag, extent): the rest of the suite runs once per index of the thread."""
        extent = self.as_scalar(spec.extent, node)
        var, tag = spec.thread, None
        if isinstance(var, str):
            var, tag = Var(name or var.rpartition(".")[2] or var, extent.dtype), var
        elif id(var) in self.threads:
            var, tag = self.threads[id(var)]
            extent = cast(extent, var.dtype)
        else:
            self.fail(node, 'T.launch_thread takes a tag such as "threadIdx.x", or what T.env_thread gives')
        if name is not None:
            self.define(name, var)
        thread = IterVar(Range(const(0, extent.dtype), extent), var, "thread", tag)
        key = "virtual_thread" if tag.startswith(("vthread", "cthread")) else "thread_extent"
        return Scoped(lambda rest: AttrStmt(thread, key, extent, rest))

    def _match(self, node, source, buffer):
        if isinstance(source, Var):
            if not any(source is p for p in self.params) or source.dtype != "handle":
                self.fail(node, f"T.match_buffer of {source.name}, which is no T.handle parameter")
            if source in self.buffer_map:
                self.fail(node, f"parameter {source.name} is matched twice")
            self.buffer_map[source] = buffer
        else:
            self.frames[-1].matches.append(MatchBufferRegion(buffer, self.region(source, node)))

    # ------------------------------------------------------------ whole blocks

    def _with_block(self, node, spec, name):
        frame = Frame(spec.name)
        self.frames.append(frame)
        return Scoped(lambda body: self._closed_block(node, spec, body))

    def _closed_block(self, node, spec, body):
        """The block of the frame that is open, with this body."""
        frame = self.frames.pop()
        if len(frame.iter_values) not in (0 if spec.no_realize else len(frame.iter_vars), len(frame.iter_vars)):
            self.fail(node, f"block {spec.name}: every iterator needs a value, as in T.axis.spatial(8, i)")
        reads, writes = self._regions_of(frame, body)
        block = Block(tuple(frame.iter_vars), reads, writes, spec.name, tuple(frame.allocs), tuple(frame.matches),
                      frame.attrs or {}, frame.init, body)
        self.detected[id(block)] = block, [k for k in ("reads", "writes") if getattr(frame, k) is None]
        if spec.no_realize:
            return block
        predicate = const(True) if frame.predicate is None else frame.predicate
        return BlockRealize(tuple(frame.iter_values), predicate, block)

    def is_stated(self, omission):
        """Whether the script says what an Omission leaves something out of."""
        return omission.kind not in self.detected.get(id(omission.realize.block), ((), ()))[1]

    def _regions_of(self, frame, body):
        """The block's signature: what the script gives; what it leaves out is found from the accesses."""
        if frame.reads is not None and frame.writes is not None:
            return frame.reads, frame.writes
        views = {id(m.buffer): m.source for m in frame.matches}
        whole = body if frame.init is None else SeqStmt((frame.init, body))
        reads, writes = access_regions(whole, exclude=frame.allocs)
        if frame.init is not None:
            written = {id(w.buffer) for w in writes}
            reads = tuple(r for r in reads if id(r.buffer) not in written)
        own = set(map(id, frame.allocs))
        found = ([r for r in (views.get(id(r.buffer), r) for r in regions) if id(r.buffer) not in own]
                 for regions in (reads, writes))
        return tuple(tuple(regions) if given is None else given
                     for given, regions in zip((frame.reads, frame.writes), found))

    def _with_init(self, node, spec, name):
        frame = self._block_frame(node, "T.init")
        if frame.init is not None:
            self.fail(node, "T.init is given twice in one block")

        def close(body):
            frame.init = body
        return Scoped(close)

    def _root(self, frame, body):
        """The function's body in a root block, which any block or allocation implies."""
        explicit = isinstance(body, BlockRealize) and body.block.name_hint == "root"
        if not (frame.allocs or frame.matches) and (explicit or not collect(body, Block)):
            return body
        block = Block((), (), (), "root", tuple(frame.allocs), tuple(frame.matches), {}, None, body)
        return BlockRealize((), const(True), block)


__all__ = ["BlockParser", "Frame", "Scoped", "joined"]
