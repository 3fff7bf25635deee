"""Attention: products, softmax and transposes of several heads become one operator, and its projections one product."""
from __future__ import annotations

import numpy as np

from ..expr import IntImm
from ..relax.block_builder import call_op
from ..relax.expr import Constant, TupleGetItem
from ..relax.ops.common import same_shape
from .graph import GraphRewriter, on_main, uses
from .identities import VIEWS

ROWS, COLUMNS = (0, 2, 1, 3), (0, 2, 3, 1)  # axes that make heads of [B, S, H, D]: [B, H, S, D] and [B, H, D, S]
HIDDEN = -1e30    # numbers from here down leave nothing of a score that they are added to


@on_main
def fuse_attention(func, lanes):
    """Ensures that softmax(q k^T * scale + mask) v, transposed from and to [B, S, heads * size], is nn.attention, which
    reads its operands where the projections left them: for float32 and heads of whole vectors of `lanes`.
    A mask is added to the scores, or chooses between them and a number that hides them.
    Where the three are products of one value with constants, they are one product.
    """
    return func if lanes == 1 else _FuseAttention(lanes).run(func)


class _FuseAttention(GraphRewriter):
    def __init__(self, lanes):
        self.lanes = lanes

    def begin(self, func):
        self.counts = {key: len(users) for key, users in uses(func).items()}
        self.masks = {}  # (id of a condition, number, whether it hides) -> (condition, mask), which many layers share

    def call(self, binding, call):
        if call.op != "permute_dims" or _axes(call) != ROWS:
            return call
        found = self._matched(call)
        if found is None:
            return call
        operands, mask, attrs = found
        operands = self._merged(operands) or operands
        tensors = [self._tensor(o) for o in operands]
        mask = [self._chosen(*m) if isinstance(m, tuple) else m for m in mask]
        result = call_op("nn.attention", *tensors, *mask, offsets=tuple(o["offset"] for o in operands), **attrs)
        self.current = self.producer(call.args[0], "matmul").args[0]  # the origin of attention is softmax's node
        return call_op("reshape", self.emit(result), list(call.struct_info.shape))

    # ------------------------------------------------------------ what is attention

    def _matched(self, call):
        """(operands, masks, attributes) of an attention whose result `call` transposes; None for any other call."""
        product = self.producer(call.args[0], "matmul")
        softmax = product and self.producer(product.args[0], "nn.softmax")
        if not softmax or softmax.attrs["axis"] not in (-1, 3) or softmax.struct_info.ndim != 4:
            return None
        scores, mask = self._masked(softmax.args[0])
        if scores is None or not same_shape(scores[0].struct_info.shape, softmax.struct_info.shape):
            return None
        (products, scale), (q, of_q), (k, of_k) = scores, *map(self._scaled, scores[0].args)
        operands = [self._heads(*pair) for pair in ((q, ROWS), (k, COLUMNS), (product.args[1], ROWS))]
        if any(o is None for o in operands) or not _agree(operands, self.lanes, products.struct_info):
            return None
        heads, size = operands[0]["heads"], operands[0]["size"]
        return operands, mask, {"heads": heads, "head_size": size, "scale": scale * of_q * of_k, "lanes": self.lanes}

    def _masked(self, value):
        """((the product of scores, its factor), masks) of what softmax reads: what is added, or _chosen's arguments."""
        scores = self._scores(value)
        added = self.producer(value, "add")
        if scores is None and added is not None:
            for own, mask in (added.args, added.args[::-1]):
                scores = self._scores(own)
                if scores is not None and mask.struct_info.dtype == "float32":
                    return scores, (mask,)
        choice = self.producer(value, "where")
        if scores is None and choice is not None:
            condition, *sides = choice.args
            for hides, (own, number) in enumerate((sides, sides[::-1])):
                chosen = self._scores(own)
                if chosen is not None and _is_number(number) and number.data.reshape(-1)[0] <= HIDDEN:
                    return chosen, ((condition, float(number.data.reshape(-1)[0]), bool(hides)),)
        return scores, ()

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

    def _scores(self, value):
        """(product, factor) of a product of activations times a number; None for any other value."""
        value, factor = self._scaled(value)
        product = self.producer(value, "matmul")
        plain = product is not None and product.attrs["b_layout"] == "KN" and product.struct_info.ndim == 4
        return (product, factor) if plain else None

    def _scaled(self, value):
        """(x, factor) of a value x * factor; what it is multiplied with or divided by are numbers."""
        factor = 1.0
        while True:
            call = self.producer(value)
            if call is None or call.op not in ("multiply", "divide") or not _is_number(call.args[1]):
                return value, factor
            number = float(call.args[1].data.reshape(-1)[0])
            value, factor = call.args[0], factor * number if call.op == "multiply" else factor / number

    def _heads(self, value, axes):
        """Where the heads of an operand are: columns of a tensor [B, S, W]; None where they are not."""
        transposed = self.producer(value, "permute_dims")
        if transposed is None or _axes(transposed) != axes:
            return None
        split = transposed.args[0]
        sizes = split.struct_info.shape
        if split.struct_info.dtype != "float32" or not all(isinstance(n, IntImm) for n in sizes[2:]):
            return None
        heads, size = sizes[2].value, sizes[3].value
        rows = [sizes[0], sizes[1], heads * size]
        view = self.producer(split)
        source = view.args[0] if view is not None and view.op in VIEWS else split
        alone = all(self.counts.get(id(v)) == 1 for v in (value, split, source))
        found = {"shape": rows, "heads": heads, "size": size, "value": source, "offset": 0, "alone": alone}
        part = self.definition.get(id(source))
        if isinstance(part, TupleGetItem):
            whole = self.producer(part.tuple_value, "split")
            if whole is not None and source.struct_info.ndim == whole.attrs["axis"] % source.struct_info.ndim + 1 == 3:
                found.update(value=whole.args[0], offset=sum(whole.attrs["sections"][:part.index]),
                             shape=list(whole.args[0].struct_info.shape))
        return found

    def _tensor(self, operand):
        """The variable [B, S, W] of an operand."""
        value = operand["value"]
        return value if value.struct_info.ndim == 3 else self.emit(call_op("reshape", value, operand["shape"]))

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


def _axes(call):
    ndim = call.struct_info.ndim
    return None if call.attrs["axes"] is None else tuple(a % ndim for a in call.attrs["axes"])


def _is_number(value):
    return isinstance(value, Constant) and value.data.size == 1


def _agree(operands, lanes, scores):
    """Whether the operands have equal heads, of whole vectors, and scores are float32."""
    first = operands[0]
    same = all((o["heads"], o["size"]) == (first["heads"], first["size"]) for o in operands)
    return same and first["size"] % lanes == 0 and scores.dtype == "float32"
