"""Attention: products, softmax and transposes of several heads become one operator, and its projections one product."""
from __future__ import annotations

import numpy as np

from ..expr import IntImm, const
from ..relax.block_builder import call_op
from ..relax.expr import Constant, TupleGetItem
from ..relax.ops.attention import on_cores
from ..relax.ops.common import is_one, same_shape
from .graph import GraphRewriter, on_main, uses
from .identities import VIEWS, axes_of

ROWS, COLUMNS = (0, 2, 1, 3), (0, 2, 3, 1)  # axes that make heads of [B, S, H, D]: [B, H, S, D] and [B, H, D, S]
TURNED = (0, 1, 3, 2)  # those that make columns of rows
HIDDEN = -1e30    # numbers from here down leave nothing of a score that they are added to
HALVES = ("float16", "bfloat16")
ROWS_OF_CORES = (16, 32, 64)  # queries of a block of threads, 16 a warp
THREADS = (16, 8)  # that may share a vector of keys


@on_main
def fuse_attention(func, lanes, rows=0, cores=False):
    """Ensures that softmax(q k^T * scale + mask) v is nn.attention: for float32 and heads of whole vectors of `lanes`.
    rows: that of nn.attention; with it, of threads, operands may have 16 bits, whatever casts to float32 and back are
    between: the operator keeps scores and weights in float32. cores: whether these are multiplied by tensor cores.
    It reads its operands where projections left them, columns of [B, S, heads * size], or as [B, heads, S, size], where
    caches are; heads of keys and values that are repeated for several heads of queries it reads once. A result that is
    transposed to [B, S, heads * size] is written so.
    Masks are added to the scores, or choose between them and a number that hides them. A choice between the softmax and
    0, for queries whose keys are all hidden, becomes one of the result.
    Where the three are products of one value with constants, they are one product.
    """
    return func if lanes == 1 else _FuseAttention(lanes, rows, cores).run(func)


class _FuseAttention(GraphRewriter):
    def __init__(self, lanes, rows, cores):
        self.lanes, self.rows, self.cores = lanes, rows, cores

    def begin(self, func):
        self.uses = uses(func)
        self.counts = {key: len(users) for key, users in self.uses.items()}
        self.masks = {}  # (id of a condition, number, whether it hides) -> (condition, mask), which many layers share

    def call(self, binding, call):
        if call.op == "permute_dims" and axes_of(call) == ROWS:
            product = self.producer(call.args[0], "matmul")
            return product and self._attention(product, call) or call
        if call.op == "matmul" and not self._is_transposed(binding):
            return self._attention(call, None) or call
        return call

    def _is_transposed(self, binding):
        """Whether all that is done with a result is to transpose it to rows of heads."""
        only = self.uses.get(id(binding.var), [])
        made = getattr(only[0], "value", None) if len(only) == 1 else None
        return getattr(made, "op", "") == "permute_dims" and axes_of(made) == ROWS

    def _attention(self, product, transposed):
        """What takes the place of a product of weights and values, or of its transpose; None of any other."""
        found = self._matched(product)
        if found is None or found[-1] is not None and transposed is not None:
            return None
        operands, masks, attrs, empty = found
        operands = self._merged(operands) or operands
        tensors = [self._tensor(o) for o in operands]
        masks = [self._chosen(*m) if isinstance(m, tuple) else self._added(m) for m in masks]
        if len(masks) > 1:
            if len({m.struct_info.dtype for m in masks}) > 1:
                masks = [self.emit(call_op("astype", m, dtype="float32"), "mask") for m in masks]
            masks = [self.emit(call_op("add", *masks), "mask")]
        result = call_op("nn.attention", *tensors, *masks, offsets=tuple(o["offset"] for o in operands), **attrs,
                         by_head=transposed is None)
        self.current = product.args[0]  # the origin of attention is softmax's node
        if transposed is not None:
            return call_op("reshape", self.emit(result), list(transposed.struct_info.shape))
        if empty is None:
            return result
        zero = Constant(np.zeros((), empty[1].data.dtype).astype(result.struct_info.dtype.numpy), "zero")
        return call_op("where", empty[0], zero, self.emit(result))

    # ------------------------------------------------------------ what is attention

    def _matched(self, product):
        """(operands, masks, attributes, (condition, 0) or None) of an attention that ends in a product; None for any
        other."""
        empty, weights = None, self._uncast(product.args[0])
        choice = self.producer(weights, "where")
        if choice is not None and _is_number(choice.args[1]) and choice.args[1].data.reshape(-1)[0] == 0 and is_one(
                choice.args[0].struct_info.shape[-1] if choice.args[0].struct_info.shape else const(1, "int64")):
            empty, weights = choice.args[:2], self._uncast(choice.args[2])
        softmax = self.producer(weights, "nn.softmax")
        if not softmax or softmax.attrs["axis"] not in (-1, 3) or softmax.struct_info.ndim != 4:
            return None
        scores, masks = self._masked(softmax.args[0])
        if scores is None or not same_shape(scores[0].struct_info.shape, softmax.struct_info.shape):
            return None
        (_, scale), (q, of_q), (k, of_k) = scores, *(self._scaled(a, False) for a in scores[0].args)
        keys = self._turned(k)
        if keys is None:
            return None
        operands = [self._heads(q), self._heads(*keys, k), self._heads(product.args[1])]
        if any(o is None for o in operands) or not _agree(operands, self.lanes) or (
                str(operands[0]["dtype"]) not in ("float32", *(HALVES if self.rows else ()))) or (
                product.struct_info.dtype != operands[0]["dtype"]):
            return None
        heads, size, groups = operands[0]["heads"], operands[0]["size"], operands[1]["heads"]
        attrs = {"heads": heads, "head_size": size, "scale": scale * of_q * of_k, "lanes": self._lanes(size),
                 "rows": self.rows, "kv_heads": groups if groups < heads else 0}
        if self.cores and on_cores(operands[0]["dtype"], size):
            queries = scores[0].struct_info.shape[2]
            count = queries.value if isinstance(queries, IntImm) else ROWS_OF_CORES[-1]
            rows = next((n for n in ROWS_OF_CORES if n >= count), ROWS_OF_CORES[-1])
            attrs.update(arithmetic="mma", rows=rows)
        return operands, masks, attrs, empty

    def _lanes(self, size):
        """How many keys come at once: for threads, which share the elements of a row, more than a vector has."""
        more = THREADS if self.rows else ()
        return next((n for n in more if size % n == 0), self.lanes)

    def _masked(self, value):
        """((the product of scores, its factor), masks) of what softmax reads: what is added, or _chosen's arguments."""
        value = self._uncast(value)
        scores = self._scores(value)
        if scores is not None:
            return scores, ()
        for own, mask in self._hidden(value):
            scores, masks = self._masked(own)
            if scores is not None and len(masks) < 2:
                return scores, (*masks, mask)
        return None, ()

    def _hidden(self, value):
        """(what may be scores, a mask of them) of a sum or choice."""
        added, choice = self.producer(value, "add"), self.producer(value, "where")
        if added is not None:
            for own, mask in (added.args, added.args[::-1]):
                if str(mask.struct_info.dtype) in ("float32", *HALVES) and same_shape(
                        own.struct_info.shape, value.struct_info.shape):
                    yield own, mask
        if choice is not None:
            condition, *sides = choice.args
            for hides, (own, number) in enumerate((sides, sides[::-1])):
                if _is_number(number) and not _is_number(own) and _hides(number).all():
                    yield own, (condition, min(float(number.data.reshape(-1)[0]), HIDDEN), bool(hides))

    def _chosen(self, condition, number, hides):
        """The mask that hides scores by adding `number` to them, where the condition holds, or does not."""
        key = (id(condition), number, hides)
        if key not in self.masks:
            sides = [np.float32(0), np.float32(number)][::-1 if hides else 1]
            if isinstance(condition, Constant):
                mask = Constant(np.where(condition.data, *sides), "mask")
            else:
                numbers = (Constant(np.array(side), "number") for side in sides)
                mask = self.emit(call_op("where", condition, *numbers), "mask")
            self.masks[key] = condition, mask
        return self.masks[key][1]

    def _added(self, mask):
        """A mask as what is added to scores of float32: what 16 bits have no number for hides, as it did."""
        mask = self._uncast(mask)
        if not isinstance(mask, Constant) or mask.struct_info.dtype == "float32":
            return mask
        if id(mask) not in self.masks:
            wide = np.where(_hides(mask), np.minimum(mask.data.astype(np.float32), np.float32(HIDDEN)), mask.data)
            self.masks[id(mask)] = mask, Constant(wide.astype(np.float32), mask.name)
        return self.masks[id(mask)][1]

    def _uncast(self, value):
        """What a value was before casts between floats of 32 and of 16 bits."""
        while (call := self.producer(value, "astype")) is not None and all(
                str(v.struct_info.dtype) in ("float32", *HALVES) for v in (value, call.args[0])):
            value = call.args[0]
        return value

    def _scores(self, value):
        """(product, factor) of a product of activations times a number; None for any other value."""
        value, factor = self._scaled(value)
        product = self.producer(value, "matmul")
        plain = product is not None and product.attrs["b_layout"] == "KN" and product.struct_info.ndim == 4
        return (product, factor) if plain else None

    def _scaled(self, value, cast=True):
        """(x, factor) of a value x * factor; what it is multiplied with or divided by are numbers. cast: whether x may
        have another dtype than the value."""
        factor, found, dtype = 1.0, (value, 1.0), value.struct_info.dtype
        while True:
            value = self._uncast(value)
            if cast or value.struct_info.dtype == dtype:
                found = value, factor
            call = self.producer(value)
            if call is None or call.op not in ("multiply", "divide") or not _is_number(call.args[1]):
                return found
            number = float(call.args[1].data.reshape(-1)[0])
            value, factor = call.args[0], factor * number if call.op == "multiply" else factor / number

    def _turned(self, value):
        """(x, whether x is [B, S, H, D] and not [B, H, S, D]) of keys [B, H, D, S]; None of what is no transpose."""
        call = self.producer(value, "permute_dims")
        axes = call and axes_of(call)
        return (call.args[0], axes == COLUMNS) if axes in (COLUMNS, TURNED) else None

    def _heads(self, value, split=False, transpose=None):
        """Where the heads of an operand [B, H, S, D], or [B, S, H, D] where it is `split`, are; None where they are
        not. transpose: of it, that the product reads."""
        whole, value = value, value if split else self._unrepeated(value)
        transposed = None if split else self.producer(value, "permute_dims")
        if transposed is not None and axes_of(transposed) != ROWS:
            transposed = None
        if transposed is None and not split:
            sizes = value.struct_info.shape
            known = len(sizes) == 4 and all(isinstance(sizes[k], IntImm) for k in (1, 3))
            return {"value": value, "shape": list(sizes), "heads": sizes[1].value, "size": sizes[3].value, "offset": 0,
                    "alone": False, "dtype": value.struct_info.dtype} if known else None
        split = value if split else transposed.args[0]
        sizes = split.struct_info.shape
        if not all(isinstance(n, IntImm) for n in sizes[2:]):
            return None
        heads, size = sizes[2].value, sizes[3].value
        rows = [sizes[0], sizes[1], heads * size]
        view = self.producer(split)
        source = view.args[0] if view is not None and view.op in VIEWS else split
        alone = whole is value and all(self.counts.get(id(v)) == 1 for v in (transpose or value, value, split, source))
        found = {"shape": rows, "heads": heads, "size": size, "value": source, "offset": 0, "alone": alone,
                 "dtype": split.struct_info.dtype}
        part = self.definition.get(id(source))
        if isinstance(part, TupleGetItem):
            whole = self.producer(part.tuple_value, "split")
            if whole is not None and source.struct_info.ndim == whole.attrs["axis"] % source.struct_info.ndim + 1 == 3:
                found.update(value=whole.args[0], offset=sum(whole.attrs["sections"][:part.index]),
                             shape=list(whole.args[0].struct_info.shape))
        return found

    def _unrepeated(self, value):
        """[B, G, S, D] of heads [B, H, S, D] that are each repeated for several heads; the value itself of others."""
        repeat = self.producer(value, "repeat")
        if repeat is not None and repeat.attrs["axis"] in (1, -3):
            return repeat.args[0]
        view = self.producer(value)
        wide = self.producer(view.args[0], "broadcast_to") if view is not None and view.op in VIEWS else None
        narrow = self.producer(wide.args[0]) if wide is not None else None
        if narrow is None or narrow.op not in VIEWS or wide.struct_info.ndim != 5:
            return value
        source, shape, mine = narrow.args[0], wide.args[0].struct_info.shape, wide.struct_info.shape
        own, to = source.struct_info.shape, value.struct_info.shape
        grouped = (len(own) == len(to) == 4 and is_one(shape[2]) and same_shape([*shape[:2], *shape[3:]], own)
                   and same_shape([*mine[:2], *mine[3:]], own) and same_shape([to[0], *to[2:]], [own[0], *own[2:]]))
        return source if grouped else value

    def _tensor(self, operand):
        """The variable of an operand, [B, S, W] or [B, H, S, D]."""
        value, shape = operand["value"], operand["shape"]
        return value if value.struct_info.ndim == len(shape) else self.emit(call_op("reshape", value, shape))

    # ------------------------------------------------------------ one product

    def _merged(self, operands):
        """The operands as parts of one product, where each is a product of one value with constants; else None."""
        parts = [self._projection(o["value"]) if o["alone"] else None for o in operands]
        if any(p is None or p[0] is not parts[0][0] for p in parts):
            return None
        x, weight = parts[0][0], np.concatenate([w for _, w, _ in parts], axis=1)
        bias = np.concatenate([b for _, _, b in parts])
        self.current = operands[0]["value"]  # the origin of the product is the first one's
        product = self.emit(call_op("matmul", x, Constant(weight, self.current.name + "_weights")))
        merged = self.emit(call_op("add", product, Constant(bias, self.current.name + "_bias")))
        starts = np.cumsum([0, *(w.shape[1] for _, w, _ in parts)])
        return [{**o, "value": merged, "offset": int(start)} for o, start in zip(operands, starts)]

    def _projection(self, value):
        """(x, weights, bias) of a value x weights + bias that nothing else reads; None for any other value."""
        if value.struct_info.ndim != 3:
            return None
        bias, added = None, self.producer(value, "add")
        if added is not None and isinstance(added.args[1], Constant):
            value, bias = added.args[0], added.args[1].data
        product = self.producer(value, "matmul")
        if product is None or self.counts.get(id(value)) != 1 or not isinstance(product.args[1], Constant):
            return None
        weight = product.args[1].data
        if weight.ndim != 2 or product.attrs["b_layout"] != "KN" or product.args[0].struct_info.ndim != 3:
            return None
        bias = np.zeros(weight.shape[1], weight.dtype) if bias is None else bias
        return (product.args[0], weight, bias) if bias.shape == weight.shape[1:] else None


def _is_number(value):
    return isinstance(value, Constant) and value.data.size == 1


def _hides(constant):
    """Where numbers, of all that their dtype has, leave nothing of a score that they are added to."""
    return constant.data <= max(HIDDEN, constant.struct_info.dtype.finite_range()[0])


def _agree(operands, lanes):
    """Whether the operands have heads of one size, of whole vectors, those of keys and values are for equally many of
    queries, and all have one dtype."""
    q, k, v = operands
    same = q["size"] == k["size"] == v["size"] and k["heads"] == v["heads"] and q["heads"] % k["heads"] == 0
    return same and q["size"] % lanes == 0 and q["dtype"] == k["dtype"] == v["dtype"]
