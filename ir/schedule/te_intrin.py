"""decl_tensor_intrin: a micro-kernel described by a compute, for stages to use with tensorize."""
from __future__ import annotations

from ..expr import PrimExpr
from ..node import structural_hash
from ..te.create import Lowering
from ..te.tensor import ComputeOp, Reduce, Tensor
from ..tir.buffer import decl_buffer
from ..tir.function import prim_func
from ..tir.stmt import Evaluate, SeqStmt, Stmt
from .schedule import Schedule
from .tensor_intrin import TensorIntrin as TirIntrin

PARTS = ("body", "reset", "update")


class TensorIntrin:
    """The computation of one call (op) and the statements that do it.

    body: all of it; reset, update (or None): the start of a reduction, and the addition of one tile's terms to it.
    """

    def __init__(self, name, op, buffers, body, reset=None, update=None):
        self.name, self.op, self.buffers = name, op, buffers
        self.body, self.reset, self.update = body, reset, update

    def registered(self, part):
        """The name under which one of PARTS is known to tir.Schedule.tensorize."""
        desc, impl = self.description(part), self.implementation(part)
        name = f"te.{self.name}.{part}.{structural_hash((desc, impl)):016x}"
        if TirIntrin.get(name, allow_missing=True) is None:
            TirIntrin.register(name, desc, impl)
        return name

    def description(self, part):
        """The PrimFunc of plain loops that a part stands for."""
        func = Lowering().function([*self.op.input_tensors, self.op.output(0)], {})
        if part == "body":
            return func
        sch = Schedule(func)
        sch.decompose_reduction(self.op.name, sch.get_loops(self.op.name)[0])
        assert isinstance(sch.func.root.body, SeqStmt)
        init, update = sch.func.root.body.seq
        return prim_func(func.buffers[-1:], init) if part == "reset" else prim_func(func.buffers, update)

    def implementation(self, part):
        """The PrimFunc that does a part."""
        buffers = self.buffers[-1:] if part == "reset" else self.buffers
        return prim_func(buffers, getattr(self, part))


def decl_tensor_intrin(op, fcompute, name="tensor_intrin", binds=None):
    """An intrinsic that does what compute `op` describes.

    fcompute(ins, outs), over buffers of op's inputs and output, returns its statement, or (body, reset, update): reset
    starts a reduction and update adds one tile to it, for reductions that go on outside. binds: {tensor: buffer}, with
    variables as strides where a tile is part of a larger tensor. That the statements do what op says is the caller's
    word.
    """
    if not isinstance(op, ComputeOp) or op.num_outputs != 1:
        raise ValueError("decl_tensor_intrin: op must be a compute with one output, such as c.op")
    tensors = [*op.input_tensors, op.output(0)]
    bound = {t.key: b for t, b in (binds or {}).items()}
    for t in binds or {}:
        if not isinstance(t, Tensor) or t.key not in [k.key for k in tensors]:
            raise ValueError(f"decl_tensor_intrin {name}: binds has {getattr(t, 'name', t)}, which is neither an input "
                             f"nor the output of {op.name}")
    buffers = [bound.get(t.key) or decl_buffer(t.shape, t.dtype, t.name, offset_factor=1) for t in tensors]
    found = fcompute(buffers[:-1], buffers[-1:])
    parts = [Evaluate(p) if isinstance(p, PrimExpr) else p for p in (found if isinstance(found, tuple) else (found,))]
    if len(parts) not in (1, 3) or not isinstance(parts[0], Stmt):
        raise TypeError(f"decl_tensor_intrin {name}: fcompute must return a statement or (body, reset, update)")
    if len(parts) == 3 and not isinstance(op.body[0], Reduce):
        raise ValueError(f"decl_tensor_intrin {name}: {op.name} is no reduction, so it has no reset and update")
    return TensorIntrin(name, op, buffers, *parts)
