"""Views move behind the operators that follow them, so that fusion sees a chain of operators on one shape."""
from __future__ import annotations

from .. import op as op_table
from ..expr import const
from ..relax.block_builder import call_op
from ..relax.expr import Constant, TensorStructInfo
from ..relax.memory import VIEWS
from ..relax.ops.common import is_one, same_dim, same_shape
from ..relax.ops.view import matching_groups
from .graph import GraphRewriter, is_immediate, is_operator, on_main, uses

MAPS = ("elementwise", "broadcast")
FUSED = MAPS + ("anchor", "reduction")


@on_main
def sink_views(func):
    """Ensures that elementwise operators read no view of what a product, reduction or elementwise operator computes,
    where their other operands can be seen in its shape as well; and that a product with a constant matrix reads no view
    that only adds or drops dimensions of 1 before the rows. The view stands behind the operator instead.

    Operands in another shape that nothing else reads stay as they are: the operator may be fused with them.
    """
    return _SinkViews().run(func)


class _SinkViews(GraphRewriter):
    def begin(self, func):
        self.counts = {key: len(users) for key, users in uses(func).items()}

    def call(self, binding, call):
        if not isinstance(call.struct_info, TensorStructInfo):
            return call
        if call.op == "matmul":
            return self._product(call)
        return self._map(call) if is_operator(call) and op_table.get(call.op).kind in MAPS else call

    def _map(self, call):
        for arg in call.args:
            source = self._source(arg)
            if source is not arg and self._may_fuse(source) and same_shape(arg.struct_info.shape,
                                                                           call.struct_info.shape):
                args = [self._seen(a, call, source.struct_info.shape) for a in call.args]
                if all(a is not None for a in args):
                    return self._behind(call, [self.named(a) for a in args])
        return call

    def _product(self, call):
        """reshape(x) @ w as reshape(x @ w)."""
        x, w = call.args[:2]
        source, own = self._source(x), x.struct_info.shape
        shape = getattr(source.struct_info, "shape", None) or ()
        if source is x or not isinstance(w, Constant) or w.data.ndim != 2 or min(len(shape), len(own)) < 2 or not (
                all(map(same_dim, shape[-2:], own[-2:])) and all(map(is_one, shape[:-2]))):
            return call
        return self._behind(call, [source, w])

    def _behind(self, call, args):
        moved = self.emit(call_op(call.op, *args, **call.attrs))
        return call_op("reshape", moved, list(call.struct_info.shape))

    def _source(self, value):
        """The tensor that a value is a view of; the value itself where it is none."""
        while (call := self.producer(value)) is not None and call.op in VIEWS:
            value = call.args[0]
        return value

    def _may_fuse(self, value):
        call = self.producer(value)
        return call is not None and call.op in op_table.OPS and op_table.get(call.op).kind in FUSED

    def _seen(self, arg, call, to):
        """An argument as one of an operator whose result is viewed in shape `to`; None where it is better left."""
        out = call.struct_info.shape
        if is_immediate(arg, call.op):
            return Constant(arg.data.reshape(()), arg.name)
        source, whole = self._source(arg), same_shape(arg.struct_info.shape, out)
        if whole and same_shape(source.struct_info.shape, to):
            return source
        if whole and source is arg and self.producer(arg) is not None and self.counts.get(id(arg)) == 1:
            return None
        shape = to if whole else _broadcast_as(arg.struct_info.shape, out, to)
        if shape is None:
            return None
        if isinstance(arg, Constant):
            return Constant(arg.data.reshape([d.value for d in shape]), arg.name)
        return call_op("reshape", source, list(shape))


def _broadcast_as(shape, out, to):
    """The shape in which a tensor that is broadcast to `out` is broadcast to `to`, of the same elements; None where it
    would have to be repeated."""
    one = const(1, "int64")
    shape, found = (one,) * (len(out) - len(shape)) + tuple(shape), [one] * len(to)
    for mine, theirs in matching_groups(out, to):
        if all(is_one(shape[k]) for k in mine):
            continue
        if not all(same_dim(shape[k], out[k]) for k in mine):
            return None
        for k in theirs:
            found[k] = to[k]
    return tuple(found)
