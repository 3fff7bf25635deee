"""From blocks to plain loops: init, iteration variables, predicates and allocations become statements."""
from __future__ import annotations

from ..arith import Analyzer, eval_range
from ..expr import Call, IntImm, Range, const, free_vars, logical_and, substitute
from ..node import Mutator, Visitor
from ..tir.buffer import decl_buffer
from ..tir.function import PrimFunc
from ..tir.stmt import DeclBuffer, IfThenElse, seq


def lower_init_block(func):
    """Requires blocks. Ensures no block has an init: it becomes a statement under `reduce iters are at their start`."""

    class Lower(Mutator):
        def visit_Block(self, block):
            block = self.generic_visit(block)
            if block.init is None:
                return block
            first = const(True)
            for iv in block.iter_vars:
                if iv.iter_type == "reduce":
                    first = logical_and(first, iv.var == iv.dom.min)
            init = block.init if isinstance(first, IntImm) else IfThenElse(first, block.init)
            return block.replace(init=None, body=seq(init, block.body))

    return func.replace(body=Lower().visit(func.body))


def lower_blocks(func):
    """Requires no inits. Ensures no blocks: bodies in terms of loop variables, predicates as `if likely(...)`, each
    buffer allocated (DeclBuffer) in the innermost loop that holds all its uses and shrunk to the region used there.
    """
    homes = _allocation_homes(func)
    lowering = _LowerBlocks()
    body = lowering.visit(func.body)
    return _place(func.replace(body=body), lowering.allocated, homes)


class _LowerBlocks(Mutator):
    def __init__(self):
        self.allocated = []

    def visit_BlockRealize(self, realize):
        block = realize.block
        if block.match_buffers:
            raise ValueError(f"block {block.name_hint}: match_buffer regions are not lowered yet; "
                             "use the source buffer directly")
        self.allocated.extend(block.alloc_buffers)
        binding = {iv.var: value for iv, value in zip(block.iter_vars, realize.iter_values)}
        body = substitute(self.visit(block.body), binding)
        if isinstance(realize.predicate, IntImm) and realize.predicate.value:
            return body
        return IfThenElse(Call("bool", "tir.likely", (realize.predicate,)), body)


def _allocation_homes(func):
    """{id(buffer): loop variables, outermost first, inside which it may be allocated}.

    A loop bound to a non-spatial iteration variable of a block that writes the buffer carries its value from one
    iteration to the next, so the buffer must live outside that loop.
    """
    homes = {}

    class Scan(Visitor):
        def __init__(self):
            self.loops, self.carrying = [], set()

        def visit_For(self, loop):
            self.loops.append(loop.loop_var)
            self.generic_visit(loop)
            self.loops.pop()

        def visit_BlockRealize(self, realize):
            carried = set()
            for iv, value in zip(realize.block.iter_vars, realize.iter_values):
                if iv.iter_type != "spatial":
                    carried.update(map(id, free_vars(value)))
            saved, self.carrying = self.carrying, self.carrying | carried
            self.generic_visit(realize)
            self.carrying = saved

        def visit_Buffer(self, _):
            pass

        def visit_Block(self, block):
            self.visit(block.init)
            self.visit(block.body)

        def access(self, buffer, write):
            path = list(self.loops)
            if write:
                for n, var in enumerate(path):
                    if id(var) in self.carrying:
                        path = path[:n]
                        break
            known = homes.get(id(buffer))
            if known is not None:
                common = 0
                while common < min(len(known), len(path)) and known[common] is path[common]:
                    common += 1
                path = path[:common]
            homes[id(buffer)] = path

        def visit_BufferLoad(self, load):
            self.access(load.buffer, False)
            self.generic_visit(load)

        def visit_BufferStore(self, store):
            self.access(store.buffer, True)
            self.generic_visit(store)

    Scan().visit(func.body)
    return homes


def _place(func: PrimFunc, buffers, homes):
    at_home, top = {}, []
    for b in buffers:
        home = homes.get(id(b))
        if home is None:
            continue  # never accessed
        (at_home.setdefault(id(home[-1]), []) if home else top).append(b)
    return func.replace(body=_Place(at_home, top).place(func.body))


class _Place(Mutator):
    """Rebuilds the body with each buffer declared at its home and its indices rebased to the region used there."""

    def __init__(self, at_home, top):
        self.at_home, self.top = at_home, top
        self.replacement = {}  # id(old buffer) -> (new buffer, offsets)

    def place(self, body):
        return self._declare(self.top, body)

    def visit_For(self, loop):
        mine = self.at_home.get(id(loop.loop_var))
        body = self._declare(mine, loop.body) if mine else self.visit(loop.body)
        return loop.replace(body=body)

    def _declare(self, buffers, body):
        compacted = []
        for b in buffers:
            new, offsets = _compact(b, body)
            self.replacement[id(b)] = (new, offsets)
            compacted.append(new)
        body = self.visit(body)
        for new in reversed(compacted):
            body = DeclBuffer(new, body)
        return body

    def _rebased(self, access):
        found = self.replacement.get(id(access.buffer))
        if found is None:
            return access
        new, offsets = found
        return access.replace(buffer=new, indices=tuple(i - o for i, o in zip(access.indices, offsets)))

    def visit_BufferLoad(self, load):
        return self._rebased(self.generic_visit(load))

    def visit_BufferStore(self, store):
        return self._rebased(self.generic_visit(store))


def _compact(buffer, body):
    """(buffer shrunk to the box that `body` touches, the box's corner). Loops inside `body` are relaxed."""
    analyzer = Analyzer()
    boxes = _touched(buffer, body, analyzer)
    shape, offsets = [], []
    for dim, extent in enumerate(buffer.shape):
        low, high = None, None
        for box in boxes:
            if box is None or box[dim] is None:
                low = None
                break
            a, b = box[dim]
            if low is None:
                low, high = a, b
            else:
                low = a if analyzer.can_prove(a <= low) else low if analyzer.can_prove(low <= a) else None
                high = b if analyzer.can_prove(b >= high) else high if analyzer.can_prove(high >= b) else None
                if low is None or high is None:
                    low = None
                    break
        size = None
        if low is not None:
            bound = analyzer.const_int_bound(analyzer.simplify(high - low + 1)).max_value
            whole = extent.value if isinstance(extent, IntImm) else None
            if bound is not None and (whole is None or bound <= whole):
                size = const(bound, extent.dtype)
        shape.append(extent if size is None else size)
        offsets.append(const(0, extent.dtype) if size is None else low)
    new = decl_buffer(shape, buffer.dtype, buffer.name, buffer.scope, data_alignment=buffer.data_alignment)
    return new, offsets


def _touched(buffer, body, analyzer):
    boxes = []
    ranges = {}

    class Scan(Visitor):
        def visit_For(self, loop):
            ranges[loop.loop_var] = Range(loop.min, loop.extent)
            analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
            self.generic_visit(loop)

        def visit_Buffer(self, _):
            pass

        def access(self, node):
            self.generic_visit(node)
            if node.buffer is buffer:
                boxes.append([eval_range(i, ranges, analyzer) for i in node.indices])

        visit_BufferLoad = visit_BufferStore = access

    Scan().visit(body)
    return boxes
