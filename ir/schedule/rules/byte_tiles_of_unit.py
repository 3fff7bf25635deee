"""Products of bytes, four a word, on a unit for tiles of integers (AMX): the micro-kernel and how rows meet panels."""
from __future__ import annotations

from ... import te
from ...expr import Call, Var
from ...node import collect
from ...relax.arithmetic.dot_product import WORD, multiplied
from ...tir.buffer import decl_buffer
from ...tir.intrin import call_extern
from ...tir.intrinsics import DOTS
from ...tir.stmt import BufferLoad
from ..te_intrin import decl_tensor_intrin
from ..tensor_intrin import TensorIntrin
from .blocks import vectorizes
from .threads import parallel_nest

WORDS = 16  # of a row of a tile, and columns of one
LEAST_ROWS = 4  # of a product, which would leave most of a tile's empty


def reads_rows(block):
    """Whether the words of rows are read as they lie in memory, from one tensor."""
    words = [e for e in collect(block, Call) if e.op == "tir.word"]
    return bool(words) and all(isinstance(arg, BufferLoad) for word in words for arg in word.args)


def unit_tiles(name, *sizes):
    """The name of the TensorIntrin that makes the sums of so many (rows, columns of a panel, words) by a dot product."""
    return f"byte_tiles.{name}.{'x'.join(map(str, sizes))}"


def _declare(name, rows, columns, words):
    k = te.reduce_axis((0, words), "k")
    left = te.placeholder((rows, WORD * words), DOTS[name][0], name="left")
    right = te.placeholder((1, words, columns), "int32", name="right")
    sums = te.compute((rows, 1, columns), lambda m, p, n: te.sum(multiplied(
        name, lambda term: left[m, term], k.var, right[p, k.var, n]), k), name="sums")
    row, panel, line, apart, own = (Var(v, "int32") for v in ("row", "panel", "line", "apart", "own"))
    buffers = {left: decl_buffer(left.shape, left.dtype, "left", offset_factor=1, strides=[row, 1]),
               right: decl_buffer(right.shape, right.dtype, "right", offset_factor=1, strides=[panel, line, 1]),
               sums: decl_buffer(sums.shape, sums.dtype, "sums", offset_factor=1, strides=[apart, own, 1])}

    def call(ins, outs):
        a, b = ins
        return call_extern("int32", f"ingot_tiles_{name.removeprefix('dot_')}", outs[0].access_ptr("w"),
                           a.access_ptr("r"), b.access_ptr("r"), rows, columns, words, row, line, apart)

    intrin = decl_tensor_intrin(sums.op, call, name="byte_tiles", binds=buffers)
    return intrin.description("body"), intrin.implementation("body")


for _name in DOTS:
    TensorIntrin.family(rf"byte_tiles\.{_name}\.(\d+)x(\d+)x(\d+)", lambda *sizes, name=_name: _declare(name, *sizes))


def on_unit(sch, target, anchor, epilogue, kernel, plan):
    """Blocks of rows meet panels of columns, of which each stays near for all rows:

        for panel: for block of rows (parallel):  sums = tiles(rows, panel);  for row: epilogue(sums)
    """
    block, columns = sch.get_block(anchor), plan.tile.vectors * target.lanes
    *batch, m, n = sch.get_loops(epilogue)
    panel, column = sch.split(n, [None, columns])
    outer, row = sch.split(m, [None, plan.tile.rows])
    sch.reorder(*batch, panel, outer, row, column)
    if vectorizes(sch.get(epilogue)):
        _, lane = sch.split(column, [None, target.lanes])
        sch.vectorize(lane)
    sch.compute_at(block, outer, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    *_, rows, _, _, _ = sch.get_loops(block)
    sch.tensorize(rows, unit_tiles(kernel.dot, plan.tile.rows, columns, kernel.depth))
    parallel_nest(sch, target, [*batch, panel, outer], kernel.work)
