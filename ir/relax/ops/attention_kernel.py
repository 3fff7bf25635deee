"""The kernel of nn.attention over any number of keys, written as TensorIR: its recurrence is beyond tensor expressions.

A few queries meet the keys block after block. Of the blocks so far there are, for each query, the greatest score, the
sum of the exponentials of the others next to it, and the sum of the values weighted by these; where a block has a
greater one, what was summed up before shrinks (Milakov and Gimelshein 2018; Dao et al. 2022). So no buffer grows with
the number of keys but the packed keys themselves. Where all the keys of a query are hidden by -inf, all weigh the same.

The queries of a few tokens, of all heads that share keys, are rows: row r is head r % group of the group, of token r //
group.
"""
from __future__ import annotations

import numpy as np

from ... import tir
from ...expr import IntImm, as_expr, const
from ...te.reduction import binary
from ...tir import intrin
from .common import broadcast_index
from .nests import axis, nest, nest_of_nests, size_of, store
from .precision import sum_dtype

ROWS = 6     # rows at once, at most: tiles of so many, or of a divisor of these
TILE = 64    # keys whose scores are computed together, or the next whole vectors
TILES = 4    # whose keys come between two rescalings


def lower_blocks(args, attrs, out, least):
    """The PrimFunc of an attention over buffers (distinct inputs in order, then the result). least: the logarithm of
    the least weight of a key."""
    return Attention(args, attrs, out, least).function()


class Attention:
    """One kernel under construction: its buffers, and sizes as int64."""

    def __init__(self, args, attrs, out, least):
        labels = ("q", "k", "v", "mask")
        buffers = {id(a): tir.decl_buffer(a.shape, a.dtype, label) for a, label in reversed(list(zip(args, labels)))}
        self.q, self.k, self.v, *self.mask = (buffers[id(a)] for a in args)
        self.inputs = list({id(a): buffers[id(a)] for a in args}.values())
        self.out = tir.decl_buffer([size_of(d) for d in out.shape], out.dtype, "attention")
        self.acc, self.attrs = sum_dtype(out.dtype), attrs
        self.least, self.lowest = const(least, self.acc), const(-float(np.finfo(str(self.acc)).max), self.acc)
        heads, self.size, self.lanes = (attrs[name] for name in ("heads", "head_size", "lanes"))
        self.groups = attrs["kv_heads"] or heads
        self.group = heads // self.groups
        self.batch, self.queries = _int64(self.out.shape[0]), _int64(self.q.shape[len(self.q.shape) - 2])
        self.keys = _int64(self.k.shape[len(self.k.shape) - 2])
        self.count_rows = self.queries * self.group
        most = attrs["rows"] or ROWS
        few = isinstance(self.count_rows, IntImm) and self.count_rows.value < most
        self.rows = self.count_rows.value if few else most
        self.once = few  # whether all rows are one tile: the keys of a block are packed where they are used
        self.vectors = -(-TILE // self.lanes)
        self.tile = self.vectors * self.lanes
        self.block = self.tile * TILES

    def function(self):
        if self.once:
            return tir.prim_func([*self.inputs, self.out], self._rows(), {"num_outputs": 1})
        tiles = intrin.ceildiv(self.keys, self.tile)
        outer = {"b": self.batch, "h": self.groups}
        self.packed = self._buffer("keys", *outer.values(), tiles * self.vectors, self.size, self.lanes)
        body = tir.seq(*self._pack(outer, const(0, "int64"), self.keys, tiles * self.vectors), self._rows())
        return tir.prim_func([*self.inputs, self.out], body, {"num_outputs": 1}, [self.packed])

    def _buffer(self, name, *shape):
        return tir.decl_buffer([_int64(n) for n in shape], self.acc, "online_" + name)

    def _nest(self, name, make, init=None, **axes):
        return nest("online_" + name, {label: _int64(n) for label, n in axes.items()}, make, init)

    def _at(self, operand, b, h, t, d):
        """An element of an operand, or of the result."""
        tensor = (self.q, self.k, self.v, self.out)[operand]
        if len(tensor.shape) == 4:
            return tensor, (b, h, t, d)
        return tensor, (b, t, h * self.size + d + (*self.attrs["offsets"], 0)[operand])

    def _read(self, *at):
        tensor, indices = self._at(*at)
        return tensor[indices].astype(self.acc)

    def _head_and_token(self, h, r):
        """Those of a row."""
        return (h, r) if self.group == 1 else (h * self.group + intrin.floormod(r, self.group), intrin.floordiv(
            r, self.group))

    def _pack(self, outer, first, count, vectors):
        """`count` keys from `first` on in vectors; of the last tile what no whole vector holds, and zeros. outer: the
        axes of batch and head, none where `self.at` says these."""
        whole, used = intrin.floordiv(count, self.lanes), intrin.ceildiv(count, self.lanes)
        zero = const(0, self.acc)

        def key(*at):
            *place, to, d, ti = at
            b, h = place or self.at[:2]
            return self._read(1, b, h, first + to * self.lanes + ti, d)

        def last(*at):
            *place, to, ti, d = at
            at = (*place, to + whole, d, ti)
            inside = (to + whole) * self.lanes + ti < count
            return store(self.packed, intrin.if_then_else(inside, key(*at), zero), at)

        def none(*at):
            *place, to, d, ti = at
            return store(self.packed, zero, (*place, to + used, d, ti))

        yield self._nest("keys", lambda *at: store(self.packed, key(*at), at),
                         **outer, to=whole, d=self.size, ti=self.lanes)
        yield self._nest("last_keys", last, **outer, to=used - whole, ti=self.lanes, d=self.size)
        yield self._nest("no_keys", none, **outer, to=vectors - used, d=self.size, ti=self.lanes)

    def _rows(self):
        """Some rows of one head of keys: from what they are to their results."""
        b, h, so = (axis(label, _int64(n), "spatial") for label, n in (
            ("b", self.batch), ("h", self.groups), ("so", intrin.ceildiv(self.count_rows, self.rows))))
        self.at = b.var, h.var, so.var * self.rows
        self.query, self.sums = self._buffer("query", self.rows, self.size), self._buffer("sums", self.rows, self.size)
        self.peak, self.total = self._buffer("peak", self.rows), self._buffer("total", self.rows)
        body = tir.seq(*self._start(), self._step(), self._end())
        return nest_of_nests("online_rows", (b, h, so), body, (self.query, self.sums, self.peak, self.total))

    def _start(self):
        b, h, first = self.at
        scale, zero = const(self.attrs["scale"], self.acc), const(0, self.acc)

        def query(s, d):
            head, token = self._head_and_token(h, first + s)
            value = self._read(0, b, head, token, d) * scale
            return store(self.query, intrin.if_then_else(first + s < self.count_rows, value, zero), (s, d))

        yield self._nest("query", query, s=self.rows, d=self.size)
        yield self._nest("start_peak", lambda s: store(self.peak, self.lowest, (s,)), s=self.rows)
        yield self._nest("start_total", lambda s: store(self.total, zero, (s,)), s=self.rows)
        yield self._nest("start_sums", lambda s, d: store(self.sums, zero, (s, d)), s=self.rows, d=self.size)

    def _end(self):
        b, h, first = self.at

        def result(s, d):
            tensor, indices = self._at(3, b, *self._head_and_token(h, first + s), d)
            return store(tensor, (self.sums[s, d] / self.total[s]).astype(tensor.dtype), indices)

        rows = intrin.min(const(self.rows, "int64"), self.count_rows - first)
        return self._nest("result", result, s=rows, d=self.size)

    def _step(self):
        """The scan over blocks of keys."""
        scan = axis("block", intrin.ceildiv(self.keys, self.block), "scan")
        start = scan.var * self.block
        self.count = intrin.min(const(self.block, "int64"), self.keys - start)  # keys of this block
        self.tiles = intrin.ceildiv(self.count, self.tile)
        names = (("scores",), ("logits", "exp"), ("top", "sum"), ("before", "greater", "shrink", "weight"),
                 ("shrunk", "values"))
        shapes = ((self.rows, TILES, self.vectors, self.lanes), (self.rows, self.block), (self.rows, self.lanes),
                  (self.rows,), (self.rows, self.size))
        made = [{n: self._buffer(n, *shape) for n in group} for group, shape in zip(names, shapes)]
        pack = []
        if self.once:
            made.append({"packed": self._buffer("keys", TILES * self.vectors, self.size, self.lanes)})
            self.packed = made[-1]["packed"]
            pack = self._pack({}, start, self.count, self.tiles * self.vectors)
        for group in made:
            self.__dict__.update(group)
        body = tir.seq(*pack, *self._scores(start), *self._softmax(), *self._values(start))
        return nest_of_nests("online_step", (scan,), body, [b for group in made for b in group.values()])

    def _scores(self, start):
        b, h, first = self.at
        scores, logits, zero = self.scores, self.logits, const(0, self.acc)
        axes = {"s": self.rows, "to": self.tiles, "tv": self.vectors, "tl": self.lanes}

        def score(*at):
            *place, n = at
            s, to, tv, tl = place
            vector = to * self.vectors + tv
            at = (vector,) if self.once else (b, h, intrin.floordiv(start, self.lanes) + vector)
            return store(scores, scores[tuple(place)] + self.query[s, n] * self.packed[(*at, n, tl)], place)

        yield self._nest("scores", score, lambda *at: store(scores, zero, at), **axes, n=self.size)
        yield self._nest("logits", lambda s, to, tv, tl: store(
            logits, scores[s, to, tv, tl], (s, to * self.tile + tv * self.lanes + tl)), **axes)
        for mask in self.mask:
            def masked(s, t, mask=mask):
                at = self._head_and_token(h, intrin.min(first + s, self.count_rows - 1))
                hidden = mask[broadcast_index((b, *at, start + t), mask.shape)].astype(self.acc)
                return store(logits, logits[s, t] + hidden, (s, t))

            yield self._nest("mask", masked, s=self.rows, t=self.count)
        lowest = const(float("-inf"), self.acc)
        yield self._nest("hidden", lambda s, t: store(logits, lowest, (s, self.count + t)),
                         s=self.rows, t=self.tiles * self.tile - self.count)

    def _softmax(self):
        logits, top, exp, total = self.logits, self.top, self.exp, self.sum
        vectors = self.tiles * self.vectors
        zero, lowest = const(0, self.acc), self.lowest
        yield self._nest("top", lambda s, tl, t: store(
            top, binary(tir.Max, top[s, tl], logits[s, t * self.lanes + tl]), (s, tl)),
            lambda s, tl: store(top, lowest, (s, tl)), s=self.rows, tl=self.lanes, t=vectors)
        yield self._nest("before", lambda s: store(self.before, self.peak[s], (s,)), s=self.rows)
        yield self._nest("greater", lambda s, tl: store(
            self.greater, binary(tir.Max, self.greater[s], top[s, tl]), (s,)),
            lambda s: store(self.greater, self.before[s], (s,)), s=self.rows, tl=self.lanes)
        yield self._nest("shrink", lambda s: store(self.shrink, intrin.exp(intrin.max(
            self.least, self.before[s] - self.greater[s])), (s,)), s=self.rows)
        yield self._nest("exp", lambda s, to, tl: store(exp, intrin.exp(intrin.max(
            self.least, logits[s, to * self.lanes + tl] - self.greater[s])), (s, to * self.lanes + tl)),
            s=self.rows, to=vectors, tl=self.lanes)
        yield self._nest("sum", lambda s, tl, t: store(
            total, total[s, tl] + exp[s, t * self.lanes + tl], (s, tl)),
            lambda s, tl: store(total, zero, (s, tl)), s=self.rows, tl=self.lanes, t=vectors)
        yield self._nest("weight", lambda s, tl: store(self.weight, self.weight[s] + total[s, tl], (s,)),
                         lambda s: store(self.weight, zero, (s,)), s=self.rows, tl=self.lanes)

    def _values(self, start):
        b, h, _ = self.at
        shrunk, values = self.shrunk, self.values
        yield self._nest("shrunk", lambda s, d: store(shrunk, self.sums[s, d] * self.shrink[s], (s, d)),
                         s=self.rows, d=self.size)
        yield self._nest("values", lambda s, d, u: store(values, values[s, d] + self.exp[s, u] * self._read(
            2, b, h, start + u, d), (s, d)),
            lambda s, d: store(values, shrunk[s, d], (s, d)), s=self.rows, d=self.size, u=self.count)
        yield self._nest("keep_sums", lambda s, d: store(self.sums, values[s, d], (s, d)), s=self.rows, d=self.size)
        yield self._nest("keep_peak", lambda s: store(self.peak, self.greater[s], (s,)), s=self.rows)
        yield self._nest("keep_total", lambda s: store(
            self.total, self.total[s] * self.shrink[s] + self.weight[s], (s,)), s=self.rows)


def _int64(dim):
    dim = as_expr(dim)
    return const(dim.value, "int64") if hasattr(dim, "value") else dim
