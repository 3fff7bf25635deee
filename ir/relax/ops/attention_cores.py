"""The kernel of nn.attention for tensor cores (sm_80), written as TensorIR, as FlashAttention-2 does it (Dao 2023).

A warp has 16 queries of a head, and meets the keys block after block, as in attention_kernel.py. Scores, weights and
sums are tiles of 16 x 16 that its lanes hold, as operands and sums of mma.m16n8k16 lie in them: row r of a tile is in
the four lanes of place r % 8, which have two neighbouring columns of every eight each. The axes of what is done with
elements of tiles are so:

    w    warp                       i    upper or lower half of 16 rows      g    place of a row in a half
    o    tile of 16 columns         j    left or right half of these         t    lane of a row         e    neighbour

Thread axes are w, g and t. What belongs to a row, its greatest score so far and the sum of its weights, is in registers
of its lanes, and nothing but operands in shared memory. Products round weights to the operands' dtype; all else is
float32. Scores count in powers of 2, which hardware has.
"""
from __future__ import annotations

import math

from ... import tir
from ...expr import const
from ...te.reduction import binary
from ...tir import intrin
from .attention_kernel import Attention
from .common import broadcast_index
from .nests import axis, nest, nest_of_nests, store

FRAGMENT = 16     # rows and columns of a tile
CHUNK = 8         # elements of 16 bits that a copy moves
WIDEST = 128      # head, whose sums fit the registers of a lane
WIDE = 64         # heads of more than so many columns meet fewer keys at once
LEAST_MASK = -1e30  # of a mask: where all keys of a query are hidden by -inf, all weigh the same


def lower_on_cores(args, attrs, out):
    """The PrimFunc of an attention over buffers (distinct inputs in order, then the result), `rows` queries a block of
    threads: 16 of each warp."""
    return _OnCores(args, attrs, out).function()


class _OnCores(Attention):
    def __init__(self, args, attrs, out):
        super().__init__(args, attrs, out, 0)
        self.rows, self.warps = attrs["rows"], attrs["rows"] // FRAGMENT
        self.tile = 64 if self.size <= WIDE else 32  # keys of a block
        self.columns, self.steps = self.tile // FRAGMENT, self.size // FRAGMENT
        scale = attrs["scale"] * math.log2(math.e)
        # Where nothing is added to scores, they are scaled with the subtraction of the greatest, which is one FMA.
        self.before, self.after = (scale, 1.0) if self.mask or scale <= 0 else (1.0, scale)
        self.lane = {"w": self.warps, "i": 2, "g": 8}
        self.scores_of = {**self.lane, "o": self.columns, "j": 2, "t": 4, "e": 2}
        self.sums_of = {**self.lane, "o": self.steps, "j": 2, "t": 4, "e": 2}

    def function(self):
        return tir.prim_func([*self.inputs, self.out], self._rows(), {"num_outputs": 1})

    def _buffer(self, name, *shape, dtype=None):
        return tir.decl_buffer([const(n, "int64") for n in shape], dtype or self.acc, "cores_" + name)

    def _nest(self, name, make, init=None, reduces=False, **axes):
        return nest("cores_" + name, {label: const(n, "int64") for label, n in axes.items()}, make, init, reduces)

    def _group(self, name, kinds, body, allocs, **axes):
        """Loops around several nests. kinds: "S" or "R" of each axis."""
        iters = [axis(label, const(n, "int64"), {"S": "spatial", "R": "reduce"}[kind])
                 for kind, (label, n) in zip(kinds, axes.items())]
        return nest_of_nests("cores_" + name, iters, body(*(iv.var for iv in iters)), allocs)

    def _rows(self):
        heads, blocks = const(self.attrs["heads"], "int64"), intrin.ceildiv(self.queries, self.rows)
        b, h, so = (axis(label, n, "spatial") for label, n in (("b", self.batch), ("h", heads), ("so", blocks)))
        self.at = b.var, h.var, so.var * self.rows
        half, tiles = self.q.dtype, (self.warps, self.steps, FRAGMENT, FRAGMENT)
        self.query = self._buffer("query", self.rows, self.size, dtype=half)
        self.strip = self._buffer("strip", self.rows, self.size)
        self.left, self.sums = self._buffer("left", *tiles, dtype=half), self._buffer("sums", *tiles)
        self.peak = self._buffer("peak", *self.lane.values())
        self.total = self._buffer("total", *self.lane.values(), 4)
        self.whole, self.share = (self._buffer(n, *self.lane.values()) for n in ("whole", "share"))
        allocs = (self.query, self.left, self.sums, self.peak, self.total, self.whole, self.share, self.strip)
        body = tir.seq(*self._start(), self._step(), *self._end())
        return nest_of_nests("cores_rows", (b, h, so), body, allocs)

    # ------------------------------------------------------------ before and after

    def _copied(self, operand, to, h, first, count):
        """Rows of an operand in shared memory, zeros after the last one."""
        def copy(r, c, e):
            d, zero = c * CHUNK + e, const(0, to.dtype)
            tensor, indices = self._at(operand, self.at[0], h, first + r, d)
            return store(to, intrin.if_then_else(first + r < count, tensor[indices], zero), (r, d))

        return self._nest(to.name.removeprefix("cores_"), copy, r=to.shape[0].value, c=self.size // CHUNK, e=CHUNK)

    def _start(self):
        _, h, first = self.at
        query, left, steps = self.query, self.left, self.steps
        yield self._copied(0, query, h, first, self.queries)
        yield self._nest("left", lambda w, o, i, j: store(
            left, query[w * FRAGMENT + i, o * FRAGMENT + j], (w, o, i, j)),
            w=self.warps, o=steps, i=FRAGMENT, j=FRAGMENT)
        yield self._nest("start_peak", lambda *at: store(self.peak, self.lowest, at), **self.lane)
        yield self._nest("start_total", lambda *at: store(self.total, const(0, self.acc), at), **self.lane, t=4)
        yield self._nest("start_sums", lambda *at: store(self.sums, const(0, self.acc), at),
                         w=self.warps, o=steps, i=FRAGMENT, j=FRAGMENT)

    def _end(self):
        b, h, first = self.at
        yield self._nest("whole", lambda *at: store(self.whole, self.whole[at[:3]] + self.total[at], at[:3]),
                         lambda *at: store(self.whole, const(0, self.acc), at), **self.lane, t=4)
        yield self._nest("share", lambda *at: store(self.share, const(1, self.acc) / self.whole[at], at), **self.lane)

        yield self._nest("strip", lambda *at: store(
            self.strip, self.sums[_element(*at)] * self.share[at[:3]], _row_and_column(*at)), **self.sums_of)

        def result(w, r, c, e):
            row, d = w * FRAGMENT + r, c * CHUNK + e
            tensor, indices = self._at(3, b, h, first + row, d)
            return tir.IfThenElse(first + row < self.queries, store(
                tensor, self.strip[row, d].astype(tensor.dtype), indices))

        yield self._nest("result", result, w=self.warps, r=FRAGMENT, c=self.size // CHUNK, e=CHUNK)

    # ------------------------------------------------------------ a block of keys

    def _step(self):
        scan = axis("block", intrin.ceildiv(self.keys, self.tile), "scan")
        start, half = scan.var * self.tile, self.q.dtype
        tiles = self.warps, self.columns, FRAGMENT, FRAGMENT
        keys, values = (self._buffer(n, self.tile, self.size, dtype=half) for n in ("keys", "values"))
        scores, weights = self._buffer("scores", *tiles), self._buffer("weights", *tiles, dtype=half)
        logits, exp = (self._buffer(n, *self.scores_of.values()) for n in ("logits", "exp"))
        highest = self._buffer("highest", *self.lane.values(), 4)
        top, greater, shrink = (self._buffer(n, *self.lane.values()) for n in ("top", "greater", "shrink"))
        _, h, _ = self.at
        copies = [self._copied(n, to, h // self.group, start, self.keys) for n, to in ((1, keys), (2, values))]
        body = tir.seq(*copies, *self._scores(keys, scores), self._logits(start, scores, logits),
                       *self._softmax(logits, exp, highest, top, greater, shrink, weights),
                       *self._values(values, weights, shrink, greater))
        allocs = (keys, values, scores, weights, logits, exp, highest, top, greater, shrink)
        return nest_of_nests("cores_step", (scan,), body, allocs)

    def _product(self, name, left, right, sums, turned, **axes):
        """sums[w, n] += left[w, k] right[k, n] of tiles; neighbours in time are of different sums. right: rows by
        terms, or `turned` by columns. axes: how many of w, k and n there are."""
        def products(w, k, n):
            tile = self._buffer("right_" + name, FRAGMENT, FRAGMENT, dtype=left.dtype)

            def load(i, j):
                row, column = k * FRAGMENT + i, n * FRAGMENT + j
                return store(tile, right[(column, row) if turned else (row, column)], (i, j))

            def multiply(i, j, d):
                product = left[w, k, i, d].astype(self.acc) * tile[d, j].astype(self.acc)
                return store(sums, sums[w, n, i, j] + product, (w, n, i, j))

            made.append(tile)
            return tir.seq(self._nest("right_" + name, load, i=FRAGMENT, j=FRAGMENT), self._nest(
                "multiply_" + name, multiply, reduces=True, i=FRAGMENT, j=FRAGMENT, d=FRAGMENT))

        made = []
        return self._group("tiles_" + name, "SRS", products, made, **axes)

    def _scores(self, keys, scores):
        zero = const(0, self.acc)
        yield self._nest("start_scores", lambda *at: store(scores, zero, at),
                         w=self.warps, o=self.columns, i=FRAGMENT, j=FRAGMENT)
        yield self._product("scores", self.left, keys, scores, True, w=self.warps, k=self.steps, n=self.columns)

    def _logits(self, start, scores, logits):
        b, h, first = self.at
        lowest, least = const(float("-inf"), self.acc), const(LEAST_MASK, self.acc)

        def logit(*at):
            row, column = _row_and_column(*at)
            value, key = scores[_element(*at)] * const(self.before, self.acc), start + column
            for mask in self.mask:
                at_mask = b, h, intrin.min(first + row, self.queries - 1), key
                hidden = mask[broadcast_index(at_mask, mask.shape)].astype(self.acc)
                value = value + binary(tir.Max, hidden, least) * const(math.log2(math.e), self.acc)
            return store(logits, intrin.if_then_else(key < self.keys, value, lowest), at)

        return self._nest("logits", logit, **self.scores_of)

    def _softmax(self, logits, exp, highest, top, greater, shrink, weights):
        lane, quarter = self.lane, {"t": 4, "q": self.tile // 4}
        after = const(self.after, self.acc)

        def own(buffer, w, i, g, t, q):
            """The q-th of the elements of a row that a lane has."""
            return buffer[w, i, g, q // 4, q // 2 % 2, t, q % 2]

        yield self._nest("highest", lambda w, i, g, t, q: store(highest, binary(
            tir.Max, highest[w, i, g, t], own(logits, w, i, g, t, q)), (w, i, g, t)),
            lambda *at: store(highest, self.lowest, at), **lane, **quarter)
        yield self._nest("top", lambda *at: store(top, binary(tir.Max, top[at[:3]], highest[at]), at[:3]),
                         lambda *at: store(top, self.lowest, at), **lane, t=4)
        yield self._nest("greater", lambda *at: store(greater, binary(
            tir.Max, self.peak[at], top[at] * after), at), **lane)
        yield self._nest("shrink", lambda *at: store(shrink, intrin.exp2(self.peak[at] - greater[at]), at), **lane)
        yield self._nest("exp", lambda *at: store(exp, intrin.exp2(
            logits[at] * after - greater[at[:3]]), at), **self.scores_of)
        yield self._nest("keep_peak", lambda *at: store(self.peak, greater[at], at), **lane)
        yield self._nest("shrink_total", lambda *at: store(
            self.total, self.total[at] * shrink[at[:3]], at), **lane, t=4)
        yield self._nest("total", lambda w, i, g, t, q: store(self.total, self.total[w, i, g, t] + own(
            exp, w, i, g, t, q), (w, i, g, t)), reduces=True, **lane, **quarter)
        yield self._nest("weights", lambda *at: store(weights, exp[at].astype(weights.dtype), _element(*at)),
                         **self.scores_of)

    def _values(self, values, weights, shrink, greater):
        sums = self.sums
        yield self._nest("shrink_sums", lambda *at: store(
            sums, sums[_element(*at)] * shrink[at[:3]], _element(*at)), **self.sums_of)
        yield self._product("values", weights, values, sums, False, w=self.warps, k=self.columns, n=self.steps)


def _element(w, i, g, o, j, t, e):
    """Where in tiles [w, o, 16, 16] an element is."""
    return w, o, i * 8 + g, j * 8 + t * 2 + e


def _row_and_column(w, i, g, o, j, t, e):
    """Where an element is in all rows of a block of threads."""
    return w * FRAGMENT + i * 8 + g, o * FRAGMENT + j * 8 + t * 2 + e

