"""Effects: state beside the tensors of a module's methods, which functions take and return."""
from __future__ import annotations

from ...ir.relax import op as relax_op
from ...ir.relax.expr import PrimValue, RelaxVar, ShapeExpr
from ...ir.relax.struct_info import ObjectStructInfo, TensorStructInfo
from .tensor import Tensor, builder, get_default_dtype

_CACHE = "vm.builtin.attention_kv_cache"  # runtime/caches.py


class Effect:
    """An effect: what begins it, what functions take, and what they return at their end."""

    def emit_init(self, name_hint, builder):
        """Bind the first state; a list of variables."""
        raise NotImplementedError(f"{type(self).__name__}.emit_init")

    def create(self, name_hint):
        """The variables that a function takes for it."""
        raise NotImplementedError(f"{type(self).__name__}.create")

    def set_state(self, state_vars):
        """The current state: as many variables as create made."""
        raise NotImplementedError(f"{type(self).__name__}.set_state")

    def finalize(self):
        """The state at the end of a function, a list of variables."""
        raise NotImplementedError(f"{type(self).__name__}.finalize")

    def to(self, dtype=None):
        """Change the dtype, of effects that have one."""


class IOEffect(Effect):
    """The order of printing and of debug functions, where a module is exported with debug=True."""

    effect = None

    def emit_init(self, name_hint, builder):
        return [builder.emit(relax_op.call("null_value"), f"{name_hint}_io")]

    def create(self, name_hint):
        return [RelaxVar(f"{name_hint}_io", ObjectStructInfo())]

    def set_state(self, state_vars):
        self.effect, = state_vars

    def finalize(self):
        effect, self.effect = self.effect, None
        return [effect]


class KVCache(Effect):
    """The keys or the values of earlier steps: rows of shape unit_shape and `dtype`, room for init_seq_len at first.

    Methods append rows and view all that are there; the state is an object of the virtual machine.
    """

    def __init__(self, init_seq_len, unit_shape, dtype=None):
        self.init_seq_len, self.unit_shape = init_seq_len, [int(n) for n in unit_shape]
        self.dtype, self.cache = str(dtype or get_default_dtype()), None

    def emit_init(self, name_hint, builder):
        shape = ShapeExpr((self.init_seq_len, *self.unit_shape))
        rows = builder.emit(relax_op.zeros(shape, self.dtype))
        return [builder.emit(relax_op.call_pure_packed(
            f"{_CACHE}_create", rows, shape, PrimValue(0), sinfo_args=ObjectStructInfo()), name_hint)]

    def create(self, name_hint):
        return [RelaxVar(name_hint, ObjectStructInfo())]

    def set_state(self, state_vars):
        self.cache, = state_vars

    def finalize(self):
        cache, self.cache = self.cache, None
        return [cache]

    def to(self, dtype=None):
        self.dtype = str(dtype or self.dtype)

    def view(self, seq_len):
        """The Tensor [seq_len, *unit_shape] of all rows, of which there must be seq_len."""
        shape = ShapeExpr((seq_len, *self.unit_shape))
        call = relax_op.call_pure_packed(f"{_CACHE}_view", self.cache, shape,
                                         sinfo_args=TensorStructInfo(shape.values, self.dtype))
        return Tensor(_expr=builder().emit(call))

    def append(self, new_element):
        """Add the rows of a Tensor. TypeError for another dtype."""
        if new_element.dtype != self.dtype:
            raise TypeError(f'KVCache has been set to use dtype "{self.dtype}", but got "{new_element.dtype}"')
        call = relax_op.call_inplace_packed(f"{_CACHE}_append", self.cache, new_element._expr, inplace_indices=[0],
                                            sinfo_args=ObjectStructInfo())
        self.cache = builder().emit(call)


__all__ = ["Effect", "IOEffect", "KVCache"]
